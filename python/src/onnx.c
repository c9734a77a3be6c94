// ONNX models.
#include "divvy_py.h"
#include "divvy/onnx.h"

typedef struct model {
    PyObject ob_base;
    dv_onnx *m;
} model;

PyTypeObject *dvpy_model_type;

static void destroy(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    dv_onnx_destroy(((model *)self)->m);
    PyObject_Free(self);
    Py_DECREF(type);
}

// onnx(path, params)
PyObject *dvpy_model_make(PyObject *module, PyObject *args)
{
    (void)module;
    const char *path;
    PyObject *dict;
    dv_onnx_options o = DV_ONNX_OPTIONS_INIT;
    dvpy_reading r;
    if (!PyArg_ParseTuple(args, "sO!", &path, &PyDict_Type, &dict) ||
        !dvpy_reading_begin(&r, dict))
        return NULL;
    model *x = PyObject_New(model, dvpy_model_type);
    dv_status st = DV_OK;
    o.params = r.params;
    o.n_params = r.n;
    if (x) {
        x->m = NULL;
        Py_BEGIN_ALLOW_THREADS st = dv_onnx_load(&x->m, path, &o, r.diag);
        Py_END_ALLOW_THREADS
    }
    return dvpy_reading_end(&r, (PyObject *)x, st);
}

const char *dvpy_model_weight(PyObject *self, int i, const void **data)
{
    dv_onnx_binding b;
    *data = NULL;
    if (!dv_onnx_weight(((model *)self)->m, i, &b))
        return NULL;
    *data = b.data;
    return b.tensor;
}

static PyObject *program(PyObject *self, PyObject *unused)
{
    (void)unused;
    return dvpy_program_of_model(dv_onnx_program(((model *)self)->m), self);
}

static PyObject *names(PyObject *self, PyObject *unused)
{
    (void)unused;
    const dv_onnx *m = ((model *)self)->m;
    PyObject *in = PyDict_New(), *out = PyDict_New();
    for (int k = 0; in && out && k < 2; k++) {
        dv_onnx_binding b;
        for (int i = 0; k ? dv_onnx_output(m, i, &b) : dv_onnx_input(m, i, &b);
             i++) {
            PyObject *name = PyUnicode_FromString(b.tensor);
            int st =
                name ? PyDict_SetItemString(k ? out : in, b.model_name, name)
                     : -1;
            Py_XDECREF(name);
            if (st < 0) {
                Py_CLEAR(in);
                break;
            }
        }
    }
    if (in && out)
        return Py_BuildValue("(NN)", in, out);
    Py_XDECREF(in);
    Py_XDECREF(out);
    return NULL;
}

// Model.weights(): the names of the tensors that the model gives.
static PyObject *weights(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *list = PyList_New(0);
    const void *data;
    const char *name;
    for (int i = 0; list && (name = dvpy_model_weight(self, i, &data)); i++) {
        PyObject *text = PyUnicode_FromString(name);
        if (!text || PyList_Append(list, text) < 0)
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    PyObject *all = list ? PyFrozenSet_New(list) : NULL;
    Py_XDECREF(list);
    return all;
}

static PyMethodDef methods[] = {
    {"weights", weights, METH_NOARGS, "The names of its weights."},
    {"program", program, METH_NOARGS, "The program of the model."},
    {"names", names, METH_NOARGS,
     "Two dicts: tensors of the program by the model's names for its inputs "
     "and outputs."},
    {0}};

int dvpy_model_init(PyObject *module)
{
    (void)module;
    dvpy_model_type =
        dvpy_make_type("divvy._divvy.Model", sizeof(model), destroy, methods);
    return dvpy_model_type ? 0 : -1;
}
