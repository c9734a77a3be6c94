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

// numpy's type of arrays, numpy.empty, and numpy's types of elements; NULL
// until numpy has been imported. They live as long as the process.
static PyTypeObject *ndarray;
static PyObject *empty;
static PyObject *dtypes[16];

static PyObject *get_and_drop(PyObject *from, const char *name)
{
    PyObject *x = from ? PyObject_GetAttrString(from, name) : NULL;
    Py_XDECREF(from);
    if (!x)
        PyErr_Clear();
    return x;
}

static PyTypeObject *find_ndarray(void)
{
    if (ndarray)
        return ndarray;
    empty = get_and_drop(dvpy_imported("numpy"), "empty");
    PyObject *type = get_and_drop(dvpy_imported("numpy"), "ndarray");
    if (empty && type && PyType_Check(type))
        ndarray = (PyTypeObject *)type;
    else
        Py_XDECREF(type);
    return ndarray;
}

static int is_instance_of(PyObject *x, const char *module, const char *name)
{
    PyObject *type = get_and_drop(dvpy_imported(module), name);
    int is = type && PyType_Check(type) &&
             PyType_IsSubtype(Py_TYPE(x), (PyTypeObject *)type);
    Py_XDECREF(type);
    return is;
}

dvpy_kind dvpy_kind_of(PyObject *x)
{
    if (ndarray && Py_TYPE(x) == ndarray)
        return DVPY_NUMPY;
    if (Py_TYPE(x) == dvpy_array_type)
        return DVPY_ARRAY;
    if (find_ndarray() &&
        (PyType_IsSubtype(Py_TYPE(x), ndarray) || PyLong_Check(x) ||
         PyFloat_Check(x) || PyList_Check(x) || PyTuple_Check(x) ||
         is_instance_of(x, "numpy", "generic")))
        return DVPY_NUMPY;
    if (is_instance_of(x, "torch", "Tensor"))
        return DVPY_TORCH;
    return PyObject_HasAttrString(x, "__array_namespace__") ? DVPY_STANDARD
                                                            : DVPY_ARRAY;
}

// Returns numpy's object for an element type, borrowed.
static PyObject *numpy_dtype(dv_dtype t)
{
    if (!dtypes[t]) {
        PyObject *numpy = dvpy_imported("numpy");
        if (numpy)
            dtypes[t] =
                PyObject_CallMethod(numpy, "dtype", "s", dvpy_numpy_name(t));
        Py_XDECREF(numpy);
    }
    return dtypes[t];
}

static PyObject *new_numpy(dv_dtype dtype, int n_dims, const int64_t *shape)
{
    PyObject *type = numpy_dtype(dtype);
    PyObject *sizes = type ? PyTuple_New(n_dims) : NULL;
    for (int d = 0; sizes && d < n_dims; d++) {
        PyObject *n = PyLong_FromLongLong(shape[d]);
        if (!n || PyTuple_SetItem(sizes, d, n) < 0)
            Py_CLEAR(sizes);
    }
    PyObject *x =
        sizes ? PyObject_CallFunctionObjArgs(empty, sizes, type, NULL) : NULL;
    Py_XDECREF(sizes);
    return x;
}

PyObject *dvpy_result_new(dvpy_operand *out, dvpy_kind kind, dv_dtype dtype,
                          int n_dims, const int64_t *shape)
{
    // numpy has no bf16.
    PyObject *x = kind == DVPY_NUMPY && dtype != DV_BF16
                      ? new_numpy(dtype, n_dims, shape)
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
