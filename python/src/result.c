// Results of the kind of an operand.
//
// A result for numpy is made by numpy.empty, and written in place. Other
// libraries take a divvy.Array by DLPack. No library is imported here: an
// operand of numpy's proves that numpy has been imported.
#include "divvy_py.h"

PyObject *dvpy_imported(const char *name)
{
    PyObject *key = PyUnicode_FromString(name);
    PyObject *module = key ? PyImport_GetModule(key) : NULL;
    Py_XDECREF(key);
    if (!module)
        PyErr_Clear();
    return module;
}

PyObject *dvpy_attribute(PyObject *from, const char *name)
{
    PyObject *x = from ? PyObject_GetAttrString(from, name) : NULL;
    Py_XDECREF(from);
    if (!x)
        PyErr_Clear();
    return x;
}

static int is_instance_of(PyObject *x, const char *module, const char *name)
{
    PyObject *type = dvpy_attribute(dvpy_imported(module), name);
    int is = type && PyType_Check(type) &&
             PyType_IsSubtype(Py_TYPE(x), (PyTypeObject *)type);
    Py_XDECREF(type);
    return is;
}

dvpy_kind dvpy_kind_of(PyObject *x)
{
    if (Py_TYPE(x) == dvpy_array_type)
        return DVPY_ARRAY;
    PyTypeObject *ndarray = dvpy_numpy_type();
    if (ndarray && (PyType_IsSubtype(Py_TYPE(x), ndarray) || PyLong_Check(x) ||
                    PyFloat_Check(x) || PyList_Check(x) || PyTuple_Check(x) ||
                    is_instance_of(x, "numpy", "generic")))
        return DVPY_NUMPY;
    if (is_instance_of(x, "torch", "Tensor"))
        return DVPY_TORCH;
    return PyObject_HasAttrString(x, "__array_namespace__") ? DVPY_STANDARD
                                                            : DVPY_ARRAY;
}

PyObject *dvpy_result_new(dvpy_operand *out, dvpy_kind kind, dv_dtype dtype,
                          int n_dims, const int64_t *shape)
{
    // numpy has no bf16.
    PyObject *x = kind == DVPY_NUMPY && dtype != DV_BF16
                      ? dvpy_numpy_empty(dtype, n_dims, shape)
                      : (PyObject *)dvpy_array_new(dtype, n_dims, shape);
    if (x && dvpy_operand_get(out, x) < 0)
        Py_CLEAR(x);
    return x;
}

static PyObject *from_dlpack(PyObject *module, PyObject *array)
{
    PyObject *x =
        module ? PyObject_CallMethod(module, "from_dlpack", "O", array) : NULL;
    Py_XDECREF(module);
    return x;
}

PyObject *dvpy_result_finish(PyObject *result, dvpy_kind kind, PyObject *like)
{
    if (kind == DVPY_ARRAY || Py_TYPE(result) != dvpy_array_type)
        return result;
    PyObject *x = result;
    if (kind == DVPY_TORCH)
        x = from_dlpack(dvpy_imported("torch"), result);
    else if (kind == DVPY_STANDARD)
        x = from_dlpack(PyObject_CallMethod(like, "__array_namespace__", NULL),
                        result);
    else if (((dvpy_array *)result)->dtype != DV_BF16) {
        PyObject *numpy = dvpy_imported("numpy");
        x = numpy ? PyObject_CallMethod(numpy, "asarray", "O", result) : NULL;
        Py_XDECREF(numpy);
    }
    if (x != result)
        Py_DECREF(result);
    return x;
}
