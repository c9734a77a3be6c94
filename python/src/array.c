// divvy.Array: a result that numpy, torch and jax take without a copy, through
// the buffer protocol, `__array_interface__` and DLPack.
#include "divvy_py.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

PyTypeObject *dvpy_array_type;

// Describes the memory in the form of buffers.
static void set_layout(dvpy_array *a, int n_dims, const int64_t *shape,
                       const int64_t *strides)
{
    a->n_dims = n_dims;
    for (int d = 0; d < n_dims; d++) {
        a->shape[d] = a->byte_shape[d] = shape[d];
        a->strides[d] = strides[d];
        a->byte_strides[d] = strides[d] * dvpy_dtype_size(a->dtype);
    }
}

static dvpy_array *make(dv_dtype dtype)
{
    dvpy_array *a = PyObject_New(dvpy_array, dvpy_array_type);
    if (!a)
        return NULL;
    a->dtype = dtype;
    a->is_readonly = 0;
    a->n_dims = 0;
    a->data = a->memory = NULL;
    a->base = NULL;
    return a;
}

dvpy_array *dvpy_array_new(dv_dtype dtype, int n_dims, const int64_t *shape)
{
    int64_t strides[DV_MAX_DIMS], bytes = dvpy_dtype_size(dtype), n = 1;
    int fits = 1;
    for (int d = n_dims - 1; d >= 0; d--) {
        strides[d] = n;
        fits = fits && !__builtin_mul_overflow(n, shape[d], &n);
    }
    fits = fits && !__builtin_mul_overflow(bytes, n, &bytes);
    dvpy_array *a = make(dtype);
    if (!a)
        return NULL;
    // Kernels like rows that begin on cache lines.
    size_t size = fits ? ((size_t)bytes + 127) / 64 * 64 : 0;
    a->memory = a->data = fits ? aligned_alloc(64, size) : NULL;
    if (!a->memory) {
        Py_DECREF(a);
        return (dvpy_array *)PyErr_NoMemory();
    }
    set_layout(a, n_dims, shape, strides);
    return a;
}

dvpy_array *dvpy_array_view(dvpy_operand *base, dv_dtype dtype, void *data,
                            int n_dims, const int64_t *shape,
                            const int64_t *strides)
{
    dvpy_array *a = make(dtype);
    if (!a)
        return NULL;
    dvpy_operand *own = malloc(sizeof *own);
    if (!own) {
        Py_DECREF(a);
        return (dvpy_array *)PyErr_NoMemory();
    }
    a->is_readonly = base->is_readonly;
    a->data = data;
    a->base = own;
    set_layout(a, n_dims, shape, strides);
    *own = *base;
    return a;
}

static void destroy(PyObject *self)
{
    dvpy_array *a = (dvpy_array *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (a->base)
        dvpy_operand_release(a->base);
    free(a->base);
    free(a->memory);
    PyObject_Free(self);
    Py_DECREF(type);
}

PyObject *dvpy_asarray(PyObject *module, PyObject *array)
{
    (void)module;
    dvpy_operand o;
    if (dvpy_operand_get(&o, array) < 0)
        return NULL;
    dvpy_array *a =
        dvpy_array_view(&o, o.dtype, o.data, o.n_dims, o.shape, o.strides);
    if (!a)
        dvpy_operand_release(&o);
    return (PyObject *)a;
}

// -- The buffer protocol ------------------------------------------------------

static int is_dense(const dvpy_array *a, int is_fortran)
{
    int64_t step = 1;
    for (int k = 0; k < a->n_dims; k++) {
        int d = is_fortran ? k : a->n_dims - 1 - k;
        if (a->shape[d] == 0)
            return 1;
        if (a->shape[d] > 1 && a->strides[d] != step)
            return 0;
        step *= a->shape[d];
    }
    return 1;
}

// Returns why the consumer cannot have what its flags ask for, or NULL.
static const char *refuse(const dvpy_array *a, int flags)
{
    int rows = is_dense(a, 0), columns = is_dense(a, 1);
    if (!dvpy_format(a->dtype))
        return "bf16 has no buffer format; use DLPack, or view(\"u16\")";
    if ((flags & PyBUF_WRITABLE) && a->is_readonly)
        return "the array is read-only";
    if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS && !rows)
        return "the array is not row-major";
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && !columns)
        return "the array is not column-major";
    if ((flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS && !rows &&
        !columns)
        return "the array has gaps";
    if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !rows)
        return "the array needs strides";
    return NULL;
}

static int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    dvpy_array *a = (dvpy_array *)self;
    const char *why = refuse(a, flags);
    view->obj = NULL;
    if (why) {
        PyErr_SetString(PyExc_BufferError, why);
        return -1;
    }
    Py_ssize_t bytes = dvpy_dtype_size(a->dtype);
    for (int d = 0; d < a->n_dims; d++)
        bytes *= a->byte_shape[d];
    *view = (Py_buffer){
        .buf = a->data,
        .obj = Py_NewRef(self),
        .len = bytes,
        .itemsize = dvpy_dtype_size(a->dtype),
        .readonly = a->is_readonly,
        .ndim = a->n_dims,
        .format = flags & PyBUF_FORMAT ? (char *)dvpy_format(a->dtype) : NULL,
        .shape = flags & PyBUF_ND ? a->byte_shape : NULL,
        .strides =
            (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? a->byte_strides : NULL};
    return 0;
}

// -- Attributes ---------------------------------------------------------------

static PyObject *tuple_of(int n, const Py_ssize_t *values)
{
    PyObject *t = PyTuple_New(n);
    for (int d = 0; t && d < n; d++) {
        PyObject *v = PyLong_FromSsize_t(values[d]);
        if (!v || PyTuple_SetItem(t, d, v) < 0)
            Py_CLEAR(t);
    }
    return t;
}

static PyObject *get_shape(PyObject *self, void *unused)
{
    (void)unused;
    dvpy_array *a = (dvpy_array *)self;
    return tuple_of(a->n_dims, a->byte_shape);
}

static PyObject *get_strides(PyObject *self, void *unused)
{
    (void)unused;
    dvpy_array *a = (dvpy_array *)self;
    return tuple_of(a->n_dims, a->byte_strides);
}

static PyObject *get_ndim(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(((dvpy_array *)self)->n_dims);
}

static PyObject *get_dtype(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(dvpy_dtype_name(((dvpy_array *)self)->dtype));
}

// What numpy reads if it does not use the buffer protocol. bf16, which numpy
// does not have, is raw data of two bytes.
static PyObject *get_interface(PyObject *self, void *unused)
{
    (void)unused;
    static const char *const descr[] = {
#define DV_DTYPE(NAME, name, bytes, kind, bits, npy) [DV_##NAME] = npy,
#include "divvy/dtype.def"
#undef DV_DTYPE
    };
    dvpy_array *a = (dvpy_array *)self;
    return Py_BuildValue(
        "{sNsss(NO)sNsi}", "shape", tuple_of(a->n_dims, a->byte_shape),
        "typestr", a->dtype == DV_BF16 ? "<V2" : descr[a->dtype], "data",
        PyLong_FromVoidPtr(a->data), a->is_readonly ? Py_True : Py_False,
        "strides", tuple_of(a->n_dims, a->byte_strides), "version", 3);
}

static PyObject *describe(PyObject *self)
{
    PyObject *shape = get_shape(self, NULL);
    PyObject *text =
        shape
            ? PyUnicode_FromFormat("divvy.Array(%s, shape=%R)",
                                   dvpy_dtype_name(((dvpy_array *)self)->dtype),
                                   shape)
            : NULL;
    Py_XDECREF(shape);
    return text;
}

// Array.view: the same bits as elements of another type of the same size.
static PyObject *view(PyObject *self, PyObject *type)
{
    dvpy_array *a = (dvpy_array *)self;
    int t = dvpy_dtype_read(type);
    if (t < 0)
        return NULL;
    if (dvpy_dtype_size((dv_dtype)t) != dvpy_dtype_size(a->dtype)) {
        dvpy_fail(DV_E_DTYPE, "%s has %d bytes, %s has %d",
                  dvpy_dtype_name(a->dtype), dvpy_dtype_size(a->dtype),
                  dvpy_dtype_name((dv_dtype)t), dvpy_dtype_size((dv_dtype)t));
        return NULL;
    }
    dvpy_operand o;
    if (dvpy_operand_get(&o, self) < 0)
        return NULL;
    dvpy_array *v = dvpy_array_view(&o, (dv_dtype)t, a->data, a->n_dims,
                                    a->shape, a->strides);
    if (!v)
        dvpy_operand_release(&o);
    return (PyObject *)v;
}

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))dvpy_dlpack_export,
     METH_VARARGS | METH_KEYWORDS, "A capsule of DLPack with this memory."},
    {"__dlpack_device__", dvpy_dlpack_device, METH_NOARGS, "(1, 0): the CPU."},
    {"view", view, METH_O,
     "view(dtype)\n--\n\nThe same bits as elements of another type of the same "
     "size."},
    {0}};

static PyGetSetDef attributes[] = {
    {"shape", get_shape, NULL, "The sizes of the dims.", NULL},
    {"strides", get_strides, NULL,
     "The distance of neighbours along each dim, in bytes.", NULL},
    {"ndim", get_ndim, NULL, "The number of dims.", NULL},
    {"dtype", get_dtype, NULL, "The element type's name, as 'f32'.", NULL},
    {"__array_interface__", get_interface, NULL, "What numpy reads.", NULL},
    {0}};

int dvpy_array_init(PyObject *module)
{
    PyType_Slot slots[] = {
        {Py_tp_dealloc, destroy},
        {Py_tp_repr, describe},
        {Py_tp_methods, methods},
        {Py_tp_getset, attributes},
        {Py_bf_getbuffer, get_buffer},
        {Py_tp_doc,
         "An array that numpy.asarray, torch.from_dlpack and memoryview take "
         "without a copy."},
        {0, NULL}};
    PyType_Spec spec = {.name = "divvy.Array",
                        .basicsize = sizeof(dvpy_array),
                        .flags = Py_TPFLAGS_DEFAULT |
                                 Py_TPFLAGS_DISALLOW_INSTANTIATION |
                                 Py_TPFLAGS_IMMUTABLETYPE,
                        .slots = slots};
    dvpy_array_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return dvpy_array_type ? PyModule_AddObjectRef(module, "Array",
                                                   (PyObject *)dvpy_array_type)
                           : -1;
}
