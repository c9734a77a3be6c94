// Programs: parsed from a text or a file, or those of a model.
#include "divvy_py.h"
#include <stdlib.h>
#include <string.h>

PyTypeObject *dvpy_program_type;

PyTypeObject *dvpy_make_type(const char *name, size_t size,
                             void (*destroy)(PyObject *), PyMethodDef *methods)
{
    PyType_Slot slots[] = {
        {Py_tp_dealloc, destroy}, {Py_tp_methods, methods}, {0, NULL}};
    PyType_Spec spec = {.name = name,
                        .basicsize = (int)size,
                        .flags = Py_TPFLAGS_DEFAULT |
                                 Py_TPFLAGS_DISALLOW_INSTANTIATION |
                                 Py_TPFLAGS_IMMUTABLETYPE,
                        .slots = slots};
    return (PyTypeObject *)PyType_FromSpec(&spec);
}

PyObject *dvpy_take_text(char *text)
{
    if (!text)
        return PyErr_NoMemory();
    PyObject *x =
        PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    dv_free(text);
    return x;
}

// Reads the params of a dict. Returns NULL with an exception.
static dv_param *read_params(PyObject *dict, size_t *n)
{
    Py_ssize_t at = 0;
    PyObject *name, *value;
    dv_param *params = calloc((size_t)PyDict_Size(dict) + 1, sizeof *params);
    *n = 0;
    if (!params)
        return (dv_param *)PyErr_NoMemory();
    while (PyDict_Next(dict, &at, &name, &value)) {
        params[*n].name = PyUnicode_AsUTF8AndSize(name, NULL);
        params[*n].value = PyUnicode_AsUTF8AndSize(value, NULL);
        if (!params[*n].name || !params[*n].value) {
            free(params);
            return NULL;
        }
        ++*n;
    }
    return params;
}

int dvpy_reading_begin(dvpy_reading *r, PyObject *dict)
{
    r->params = read_params(dict, &r->n);
    r->diag = r->params ? dv_diag_create() : NULL;
    if (r->diag)
        return 1;
    free(r->params);
    if (!PyErr_Occurred())
        PyErr_NoMemory();
    return 0;
}

PyObject *dvpy_reading_end(dvpy_reading *r, PyObject *made, dv_status st)
{
    if (st != DV_OK) {
        Py_CLEAR(made);
        dvpy_raise(r->diag);
    }
    dv_diag_destroy(r->diag);
    free(r->params);
    return made;
}

static dvpy_program *make(void)
{
    dvpy_program *x = PyObject_New(dvpy_program, dvpy_program_type);
    if (x) {
        x->p = x->own = NULL;
        x->model = NULL;
    }
    return x;
}

static void destroy(PyObject *self)
{
    dvpy_program *x = (dvpy_program *)self;
    PyTypeObject *type = Py_TYPE(self);
    dv_program_destroy(x->own);
    Py_XDECREF(x->model);
    PyObject_Free(self);
    Py_DECREF(type);
}

PyObject *dvpy_program_of_model(const dv_program *p, PyObject *model)
{
    dvpy_program *x = make();
    if (x) {
        x->p = p;
        x->model = Py_NewRef(model);
    }
    return (PyObject *)x;
}

// program(text, name, params): text is None for the file `name`.
PyObject *dvpy_program_make(PyObject *module, PyObject *args)
{
    (void)module;
    const char *text, *name;
    Py_ssize_t len;
    PyObject *dict;
    dvpy_reading r;
    if (!PyArg_ParseTuple(args, "z#sO!", &text, &len, &name, &PyDict_Type,
                          &dict) ||
        !dvpy_reading_begin(&r, dict))
        return NULL;
    dvpy_program *x = make();
    dv_status st = DV_OK;
    if (x) {
        dv_program **to = &x->own;
        st = text ? dv_program_parse(to, text, (size_t)len, name, r.params, r.n,
                                     r.diag)
                  : dv_program_load(to, name, r.params, r.n, r.diag);
        x->p = x->own;
    }
    return dvpy_reading_end(&r, (PyObject *)x, st);
}

static PyObject *text(PyObject *self, PyObject *unused)
{
    (void)unused;
    return dvpy_take_text(dv_program_text(((dvpy_program *)self)->p));
}

static PyObject *json(PyObject *self, PyObject *grain)
{
    long g = PyLong_AsLong(grain);
    if (g == -1 && PyErr_Occurred())
        return NULL;
    return dvpy_take_text(
        dv_program_json(((dvpy_program *)self)->p, (dv_grain)g));
}

static PyObject *describe(const dv_tensor_info *t)
{
    static const char *const roles[] = {"input", "output", "temporary", "inout",
                                        "constant"};
    PyObject *shape = PyTuple_New(t->n_dims);
    for (int d = 0; shape && d < t->n_dims; d++) {
        PyObject *n = PyLong_FromLongLong(t->shape[d]);
        if (!n || PyTuple_SetItem(shape, d, n) < 0)
            Py_CLEAR(shape);
    }
    return shape ? Py_BuildValue("(sssNz)", t->name, dvpy_dtype_name(t->dtype),
                                 roles[t->role], shape, t->file)
                 : NULL;
}

static PyObject *tensors(PyObject *self, PyObject *unused)
{
    (void)unused;
    const dv_program *p = ((dvpy_program *)self)->p;
    int n = dv_program_n_tensors(p);
    PyObject *all = PyTuple_New(n);
    for (int i = 0; all && i < n; i++) {
        dv_tensor_info info;
        dv_program_tensor(p, i, &info);
        PyObject *one = describe(&info);
        if (!one || PyTuple_SetItem(all, i, one) < 0)
            Py_CLEAR(all);
    }
    return all;
}

static PyMethodDef methods[] = {
    {"text", text, METH_NOARGS, "The program as text."},
    {"json", json, METH_O, "Params, tensors and ops as JSON."},
    {"tensors", tensors, METH_NOARGS,
     "Tuples of name, type, role, shape and file."},
    {0}};

int dvpy_program_init(PyObject *module)
{
    (void)module;
    dvpy_program_type = dvpy_make_type("divvy._divvy.Program",
                                       sizeof(dvpy_program), destroy, methods);
    return dvpy_program_type ? 0 : -1;
}
