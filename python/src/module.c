// The table of functions of _divvy, and how the module is initialised.
#include "divvy_py.h"

static PyObject *version(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(dv_version());
}

static PyMethodDef functions[] = {
    {"version", version, METH_NOARGS, "The version of the library."},
    {"asarray", dvpy_asarray, METH_O,
     "asarray(array)\n--\n\nA divvy.Array with the memory of another array."},
    {"einsum", (PyCFunction)(void (*)(void))dvpy_einsum,
     METH_FASTCALL | METH_KEYWORDS, NULL},
    {0}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        .m_name = "divvy._divvy", .m_size = -1,
                                        .m_methods = functions};

PyMODINIT_FUNC PyInit__divvy(void);

PyMODINIT_FUNC PyInit__divvy(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    if (dvpy_error_init(module) < 0 || dvpy_array_init(module) < 0 ||
        dvpy_einsum_init(module) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
