// numpy, of which no header is needed: results are made by numpy.empty, and
// arrays are read where they lie.
//
// The buffer protocol of a numpy array takes about .2 us, because it describes
// the type as text and keeps a list of shapes. The structure behind an array
// has been the same since numpy 1.0 and is part of its binary interface, so
// that small calls read it. find_layout compares what is read with what the
// buffer protocol says of an array, once; if they differ, nobody reads the
// structure.
#include "divvy_py.h"
#include <stddef.h>
#include <string.h>

// The beginning of a numpy array.
typedef struct numpy_array {
    PyObject ob_base;
    char *data;
    int n_dims;
    Py_ssize_t *shape, *strides; // in bytes
    PyObject *base, *dtype;
    int flags;
} numpy_array;
enum { IS_ALIGNED = 0x100, IS_WRITABLE = 0x400 };

// numpy's type of arrays, numpy.empty, and numpy's types of elements in the
// byte order of this machine; NULL until numpy has been imported. They live as
// long as the process.
static PyTypeObject *ndarray;
static PyObject *empty;
enum { N_TYPES = 16 };
static PyObject *dtypes[N_TYPES];
static int has_layout; // whether numpy's arrays are as numpy_array says

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

// Whether the buffer of a writable array of 3 by 5 f32 agrees with what
// numpy_array says of it.
static int agrees(const numpy_array *a, const Py_buffer *b)
{
    return a->data == b->buf && a->n_dims == 2 && b->ndim == 2 &&
           a->shape[0] == 3 && a->shape[1] == 5 &&
           a->strides[0] == b->strides[0] && a->strides[1] == b->strides[1] &&
           a->dtype == dtypes[DV_F32] &&
           (a->flags & (IS_ALIGNED | IS_WRITABLE)) ==
               (IS_ALIGNED | IS_WRITABLE);
}

static int find_layout(void)
{
    // A structure that is shorter has other members.
    PyObject *size =
        PyObject_GetAttrString((PyObject *)ndarray, "__basicsize__");
    int is_long =
        size && PyLong_AsSsize_t(size) >= (Py_ssize_t)sizeof(numpy_array);
    Py_XDECREF(size);
    PyObject *x =
        is_long ? dvpy_numpy_empty(DV_F32, 2, (int64_t[]){3, 5}) : NULL;
    Py_buffer b;
    int is = x && Py_TYPE(x) == ndarray &&
             PyObject_GetBuffer(x, &b, PyBUF_RECORDS) == 0;
    if (is) {
        is = agrees((const numpy_array *)x, &b);
        PyBuffer_Release(&b);
    }
    Py_XDECREF(x);
    if (!is)
        PyErr_Clear();
    return is;
}

PyTypeObject *dvpy_numpy_type(void)
{
    if (ndarray)
        return ndarray;
    empty = dvpy_attribute(dvpy_imported("numpy"), "empty");
    PyObject *type = dvpy_attribute(dvpy_imported("numpy"), "ndarray");
    if (!empty || !type || !PyType_Check(type)) {
        Py_XDECREF(type);
        Py_CLEAR(empty);
        return NULL;
    }
    ndarray = (PyTypeObject *)type;
    has_layout = find_layout();
    return ndarray;
}

PyObject *dvpy_numpy_empty(dv_dtype dtype, int n_dims, const int64_t *shape)
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

// Returns the element type that an object of numpy's stands for, or -1 if it is
// not one of those that results have had.
static int type_of(const PyObject *dtype)
{
    for (int t = 0; t < N_TYPES; t++)
        if (dtypes[t] == dtype)
            return t;
    return -1;
}

int dvpy_numpy_get(dvpy_operand *out, PyObject *array)
{
    if (Py_TYPE(array) != ndarray || !has_layout)
        return 1;
    const numpy_array *a = (const numpy_array *)array;
    int t = type_of(a->dtype);
    if (t < 0 || a->n_dims > DV_MAX_DIMS || !(a->flags & IS_ALIGNED))
        return 1;
    int64_t size = dvpy_dtype_size((dv_dtype)t), odd = 0;
    int shift = __builtin_ctzll((unsigned long long)size);
    for (int d = 0; d < a->n_dims; d++) {
        out->shape[d] = a->shape[d];
        if (a->shape[d] > 1)
            odd |= a->strides[d] & (size - 1);
        out->strides[d] = a->strides[d] >> shift;
    }
    if (odd)
        return 1;
    out->dtype = (dv_dtype)t;
    out->n_dims = a->n_dims;
    out->is_readonly = !(a->flags & IS_WRITABLE);
    out->data = a->data;
    out->owner = Py_NewRef(array);
    return 0;
}
