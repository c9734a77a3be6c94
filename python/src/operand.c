// Arrays of Python's libraries as operands, without a copy.
//
// The usual arrays of numpy come first, because small calls on them are to be
// fast, then the buffer protocol, then DLPack (torch, jax). What has neither,
// and what lies in memory in a way that kernels cannot read (another byte
// order, addresses that are not multiples of the element's size), goes through
// numpy.asarray if numpy has been imported; such copies are read-only.
#include "divvy_py.h"
#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "64-bit hosts only");

// -- Element types ------------------------------------------------------------

static const struct {
    const char *name;
    int size;
    char kind;
} types[] = {
#define DV_DTYPE(NAME, name, bytes, kind, bits, npy)                           \
    [DV_##NAME] = {#name, bytes, kind},
#include "divvy/dtype.def"
#undef DV_DTYPE
};

// The names of numpy and the letters of Python's module struct.
static const struct {
    const char *numpy, *format;
} names[] = {
    [DV_F64] = {"float64", "d"}, [DV_F32] = {"float32", "f"},
    [DV_F16] = {"float16", "e"}, [DV_BF16] = {"bfloat16", NULL},
    [DV_I64] = {"int64", "q"},   [DV_I32] = {"int32", "i"},
    [DV_I8] = {"int8", "b"},     [DV_I16] = {"int16", "h"},
    [DV_U64] = {"uint64", "Q"},  [DV_U32] = {"uint32", "I"},
    [DV_U16] = {"uint16", "H"},  [DV_U8] = {"uint8", "B"},
    [DV_BOOL] = {"bool", "?"},
};
enum { N_TYPES = sizeof names / sizeof *names };

const char *dvpy_dtype_name(dv_dtype t)
{
    return types[t].name;
}

const char *dvpy_numpy_name(dv_dtype t)
{
    return names[t].numpy;
}

int dvpy_dtype_size(dv_dtype t)
{
    return types[t].size;
}

const char *dvpy_format(dv_dtype t)
{
    return names[t].format;
}

static int find_name(const char *name)
{
    const char *dot = strrchr(name, '.'); // "torch.float32"
    if (dot)
        name = dot + 1;
    for (int i = 0; i < N_TYPES; i++)
        if (strcmp(name, types[i].name) == 0 ||
            strcmp(name, names[i].numpy) == 0)
            return i;
    return -1;
}

int dvpy_dtype_read(PyObject *name)
{
    PyObject *text = NULL;
    if (PyUnicode_Check(name))
        text = Py_NewRef(name);
    else if (!(text = PyObject_GetAttrString(name, "name"))) {
        PyErr_Clear(); // torch's dtypes have no name but print it
        text = PyObject_Str(name);
    }
    const char *s = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    int t = s ? find_name(s) : -1;
    if (s && t < 0)
        dvpy_fail(DV_E_DTYPE, "%s is not an element type of divvy", s);
    Py_XDECREF(text);
    return t;
}

// Returns the type of a buffer's elements, or -1 if there is none. Letters for
// integers have different sizes on different systems, so that only their
// signedness counts.
static int type_of_format(const char *format, Py_ssize_t size)
{
    if (!format)
        return size == 1 ? DV_U8 : -1;
    char first = format[0];
    if (first && strchr("@=<|", first))
        format++; // native and little-endian: hosts are little-endian
    if (!format[0] || format[1])
        return -1;
    static const char signed_letters[] = "bhilqn",
                      unsigned_letters[] = "BHILQN";
    char kind = strchr(signed_letters, format[0])     ? 'i'
                : strchr(unsigned_letters, format[0]) ? 'u'
                : strchr("efd", format[0])            ? 'f'
                : format[0] == '?'                    ? 'b'
                                                      : 0;
    for (int i = 0; kind && i < N_TYPES; i++)
        if (types[i].kind == kind && types[i].size == size && i != DV_BF16)
            return i;
    return -1;
}

// -- Sources of operands ------------------------------------------------------

static void get_array(dvpy_operand *out, dvpy_array *a)
{
    out->dtype = a->dtype;
    out->n_dims = a->n_dims;
    out->is_readonly = a->is_readonly;
    memcpy(out->shape, a->shape, sizeof a->shape);
    memcpy(out->strides, a->strides, sizeof a->strides);
    out->data = a->data;
    out->owner = Py_NewRef((PyObject *)a);
}

static int too_many_dims(int n)
{
    dvpy_fail(DV_E_LIMIT, "an array has %d dims, at most %d are supported", n,
              (int)DV_MAX_DIMS);
    return -1;
}

// Returns 1 if the strides are no multiples of the element's size, or the
// address is not.
static int read_strides(dvpy_operand *out, const Py_buffer *b)
{
    size_t size = (size_t)b->itemsize;
    int shift = __builtin_ctz((unsigned)size);
    Py_ssize_t bad = (Py_ssize_t)((uintptr_t)b->buf & (size - 1));
    for (int d = 0; d < b->ndim; d++) {
        out->shape[d] = b->shape[d];
        if (b->shape[d] > 1)
            bad |= b->strides[d] & (Py_ssize_t)(size - 1);
        out->strides[d] = b->strides[d] >> shift;
    }
    out->data = b->buf;
    return bad != 0;
}

// Returns 1 if the buffer is one that kernels cannot read.
static int get_buffer(dvpy_operand *out, PyObject *array)
{
    if (PyObject_GetBuffer(array, &out->view, PyBUF_RECORDS_RO) < 0)
        return -1;
    const Py_buffer *b = &out->view;
    int t = type_of_format(b->format, b->itemsize), odd = 1;
    if (b->ndim > DV_MAX_DIMS)
        odd = too_many_dims(b->ndim);
    else if (t < 0 && !(b->format && strchr("><!", b->format[0])))
        dvpy_fail(DV_E_DTYPE, "divvy has no element type for the format '%s'",
                  b->format ? b->format : "B"),
            odd = -1;
    else if (t >= 0)
        odd = read_strides(out, b);
    if (odd) {
        PyBuffer_Release(&out->view);
        out->view.obj = NULL;
        return odd;
    }
    out->dtype = (dv_dtype)t;
    out->n_dims = b->ndim;
    out->is_readonly = b->readonly;
    return 0;
}

// Returns numpy.asarray(array), with the byte order of this machine, dense and
// aligned.
static PyObject *convert(PyObject *array)
{
    PyObject *numpy = dvpy_imported("numpy"), *x = NULL, *native = NULL;
    if (!numpy) {
        dvpy_fail(DV_E_DTYPE,
                  "an operand has neither the buffer protocol nor DLPack, or "
                  "elements in an order that only numpy can convert");
        return NULL;
    }
    x = PyObject_CallMethod(numpy, "asarray", "O", array);
    PyObject *dtype = x ? PyObject_GetAttrString(x, "dtype") : NULL;
    PyObject *order =
        dtype ? PyObject_CallMethod(dtype, "newbyteorder", "s", "=") : NULL;
    if (order)
        native = PyObject_CallMethod(numpy, "require", "OOs", x, order, "CA");
    Py_XDECREF(order);
    Py_XDECREF(dtype);
    Py_XDECREF(x);
    Py_DECREF(numpy);
    return native;
}

static int get_converted(dvpy_operand *out, PyObject *array)
{
    PyObject *native = convert(array);
    int odd = native ? get_buffer(out, native) : -1;
    Py_XDECREF(native);
    out->is_copy = 1;
    out->is_readonly = 1;
    if (odd > 0)
        dvpy_fail(DV_E_DTYPE, "an operand cannot be converted");
    return odd ? -1 : 0;
}

int dvpy_operand_get(dvpy_operand *out, PyObject *array)
{
    memset(out, 0, offsetof(dvpy_operand, shape));
    out->view.obj = out->owner = NULL;
    out->managed = NULL;
    if (Py_TYPE(array) == dvpy_array_type) {
        get_array(out, (dvpy_array *)array);
        return 0;
    }
    if (dvpy_numpy_get(out, array) == 0)
        return 0;
    int odd = 1;
    if (PyObject_CheckBuffer(array)) {
        odd = get_buffer(out, array);
        // Types that buffers do not have, as bf16, may come by DLPack.
        if (odd < 0 && PyErr_ExceptionMatches(PyExc_BufferError))
            PyErr_Clear(), odd = dvpy_dlpack_get(out, array);
    } else
        odd = dvpy_dlpack_get(out, array);
    return odd > 0 ? get_converted(out, array) : odd;
}

void dvpy_operand_release(dvpy_operand *o)
{
    if (o->view.obj)
        PyBuffer_Release(&o->view);
    if (o->managed)
        dvpy_dlpack_release(o);
    Py_CLEAR(o->owner);
    o->view.obj = NULL;
    o->managed = NULL;
}

int dvpy_operand_is_dense(const dvpy_operand *o)
{
    int64_t step = 1;
    for (int d = o->n_dims - 1; d >= 0; d--) {
        if (o->shape[d] == 0)
            return 1;
        if (o->shape[d] > 1 && o->strides[d] != step)
            return 0;
        step *= o->shape[d];
    }
    return 1;
}
