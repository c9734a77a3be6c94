// Capsules of DLPack, both kinds, in and out.
//
// A producer puts a pointer to a tensor and its deleter into a capsule named
// "dltensor" or, since version 1 of the protocol, "dltensor_versioned". Who
// takes the tensor renames the capsule to "used_…" and calls the deleter later.
// The structs below are those of the protocol's header, dlpack.h.
#include "divvy_py.h"
#include <stdlib.h>
#include <string.h>

enum { CPU = 1, CUDA_HOST = 3, ROCM_HOST = 11 }; // devices with host memory
enum { CODE_INT, CODE_UINT, CODE_FLOAT, CODE_BFLOAT = 4, CODE_BOOL = 6 };
enum { READ_ONLY = 1 };

typedef struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t n_dims;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides; // in elements; NULL: row-major
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

// -- In -----------------------------------------------------------------------

static int type_of(const dl_tensor *t)
{
    static const struct {
        uint8_t code, bits;
        dv_dtype type;
    } types[] = {
        {CODE_FLOAT, 64, DV_F64}, {CODE_FLOAT, 32, DV_F32},
        {CODE_FLOAT, 16, DV_F16}, {CODE_BFLOAT, 16, DV_BF16},
        {CODE_INT, 64, DV_I64},   {CODE_INT, 32, DV_I32},
        {CODE_INT, 16, DV_I16},   {CODE_INT, 8, DV_I8},
        {CODE_UINT, 64, DV_U64},  {CODE_UINT, 32, DV_U32},
        {CODE_UINT, 16, DV_U16},  {CODE_UINT, 8, DV_U8},
        {CODE_BOOL, 8, DV_BOOL},
    };
    for (size_t i = 0; t->lanes == 1 && i < sizeof types / sizeof *types; i++)
        if (types[i].code == t->code && types[i].bits == t->bits)
            return (int)types[i].type;
    dvpy_fail(DV_E_DTYPE,
              "divvy has no element type for DLPack's type %d with %d bits and "
              "%d lanes",
              t->code, t->bits, t->lanes);
    return -1;
}

static int read_tensor(dvpy_operand *out, const dl_tensor *t)
{
    int type = type_of(t);
    if (type < 0)
        return -1;
    if (t->device_type != CPU && t->device_type != CUDA_HOST &&
        t->device_type != ROCM_HOST) {
        PyErr_Format(PyExc_BufferError,
                     "an operand is in the memory of a device (type %d of "
                     "DLPack), divvy reads host memory",
                     (int)t->device_type);
        return -1;
    }
    if (t->n_dims < 0 || t->n_dims > DV_MAX_DIMS) {
        dvpy_fail(DV_E_LIMIT, "an array has %d dims, at most %d are supported",
                  (int)t->n_dims, (int)DV_MAX_DIMS);
        return -1;
    }
    out->dtype = (dv_dtype)type;
    out->n_dims = t->n_dims;
    out->data = (char *)t->data + t->byte_offset;
    int64_t step = 1;
    for (int d = t->n_dims - 1; d >= 0; d--) {
        out->shape[d] = t->shape[d];
        out->strides[d] = t->strides ? t->strides[d] : step;
        step *= t->shape[d];
    }
    return 0;
}

static int take(dvpy_operand *out, PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        dl_versioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (m->major != 1) {
            PyErr_Format(PyExc_BufferError,
                         "version %u of DLPack is not supported",
                         (unsigned)m->major);
            return -1;
        }
        if (read_tensor(out, &m->tensor) < 0 ||
            PyCapsule_SetName(capsule, "used_dltensor_versioned") < 0)
            return -1;
        out->is_readonly = (m->flags & READ_ONLY) != 0;
        out->is_versioned = 1;
        out->managed = m;
        return 0;
    }
    dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
    if (!m || read_tensor(out, &m->tensor) < 0 ||
        PyCapsule_SetName(capsule, "used_dltensor") < 0)
        return -1;
    out->is_versioned = 0;
    out->managed = m;
    return 0;
}

// Calls array.__dlpack__(max_version=(1, 0)), and without max_version if the
// producer does not know it yet.
static PyObject *ask(PyObject *method)
{
    PyObject *none = PyTuple_New(0);
    PyObject *version = Py_BuildValue("{s(ii)}", "max_version", 1, 0);
    PyObject *capsule =
        none && version ? PyObject_Call(method, none, version) : NULL;
    if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        capsule = PyObject_Call(method, none, NULL);
    }
    Py_XDECREF(none);
    Py_XDECREF(version);
    return capsule;
}

int dvpy_dlpack_get(dvpy_operand *out, PyObject *array)
{
    PyObject *method = PyObject_GetAttrString(array, "__dlpack__");
    if (!method) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            return -1;
        PyErr_Clear();
        return 1;
    }
    PyObject *capsule = ask(method);
    Py_DECREF(method);
    int st = capsule ? take(out, capsule) : -1;
    Py_XDECREF(capsule);
    return st;
}

void dvpy_dlpack_release(dvpy_operand *o)
{
    if (o->is_versioned) {
        dl_versioned *m = o->managed;
        if (m->deleter)
            m->deleter(m);
    } else {
        dl_managed *m = o->managed;
        if (m->deleter)
            m->deleter(m);
    }
}

// -- Out ----------------------------------------------------------------------

// A tensor that was given out, with what its capsule points to.
typedef struct given {
    union {
        dl_managed old;
        dl_versioned versioned;
    } at;
    PyObject *array; // owned
    int64_t shape[DV_MAX_DIMS], strides[DV_MAX_DIMS];
} given;

static void free_given(given *g)
{
    // The deleter may run on any thread, and after the interpreter has ended.
    if (Py_IsInitialized()) {
        PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF(g->array);
        PyGILState_Release(state);
    }
    free(g);
}

static void delete_old(dl_managed *m)
{
    free_given(m->context);
}

static void delete_versioned(dl_versioned *m)
{
    free_given(m->context);
}

// Frees a tensor that nobody has taken.
static void drop_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor"))
        delete_old(PyCapsule_GetPointer(capsule, "dltensor"));
    else if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        delete_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
}

static void fill_tensor(dl_tensor *t, given *g, const dvpy_array *a)
{
    static const uint8_t codes[] = {
        [DV_F64] = CODE_FLOAT,  [DV_F32] = CODE_FLOAT, [DV_F16] = CODE_FLOAT,
        [DV_I64] = CODE_INT,    [DV_I32] = CODE_INT,   [DV_I16] = CODE_INT,
        [DV_I8] = CODE_INT,     [DV_U64] = CODE_UINT,  [DV_U32] = CODE_UINT,
        [DV_U16] = CODE_UINT,   [DV_U8] = CODE_UINT,   [DV_BOOL] = CODE_BOOL,
        [DV_BF16] = CODE_BFLOAT};
    memcpy(g->shape, a->shape, sizeof g->shape);
    memcpy(g->strides, a->strides, sizeof g->strides);
    *t = (dl_tensor){.data = a->data,
                     .device_type = CPU,
                     .n_dims = a->n_dims,
                     .code = codes[a->dtype],
                     .bits = (uint8_t)(8 * dvpy_dtype_size(a->dtype)),
                     .lanes = 1,
                     .shape = g->shape,
                     .strides = g->strides};
}

static PyObject *give(dvpy_array *a, int is_versioned)
{
    given *g = calloc(1, sizeof *g);
    if (!g)
        return PyErr_NoMemory();
    g->array = Py_NewRef((PyObject *)a);
    PyObject *capsule;
    if (is_versioned) {
        dl_versioned *m = &g->at.versioned;
        *m = (dl_versioned){.major = 1,
                            .context = g,
                            .deleter = delete_versioned,
                            .flags = a->is_readonly ? READ_ONLY : 0};
        fill_tensor(&m->tensor, g, a);
        capsule = PyCapsule_New(m, "dltensor_versioned", drop_capsule);
    } else {
        dl_managed *m = &g->at.old;
        *m = (dl_managed){.context = g, .deleter = delete_old};
        fill_tensor(&m->tensor, g, a);
        capsule = PyCapsule_New(m, "dltensor", drop_capsule);
    }
    if (!capsule)
        free_given(g);
    return capsule;
}

// Returns 1 if the consumer knows version 1.
static int reads_versions(PyObject *max_version)
{
    if (max_version == Py_None)
        return 0;
    PyObject *major = PySequence_GetItem(max_version, 0);
    long n = major ? PyLong_AsLong(major) : -1;
    Py_XDECREF(major);
    return n == -1 && PyErr_Occurred() ? -1 : n >= 1;
}

static int check_device(PyObject *device)
{
    int type = CPU, id = 0;
    if (device != Py_None && !PyArg_ParseTuple(device, "ii", &type, &id))
        return -1;
    if (type == CPU)
        return 0;
    PyErr_SetString(PyExc_BufferError, "the array is in host memory, and is "
                                       "not copied to a device");
    return -1;
}

PyObject *dvpy_dlpack_export(PyObject *self, PyObject *args, PyObject *names)
{
    static char *words[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None,
             *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|$OOOO", words, &stream,
                                     &version, &device, &copy))
        return NULL;
    int versioned = reads_versions(version);
    if (versioned < 0 || check_device(device) < 0)
        return NULL;
    if (copy == Py_True) {
        PyErr_SetString(PyExc_BufferError, "the array is not copied");
        return NULL;
    }
    dvpy_array *a = (dvpy_array *)self;
    if (a->is_readonly && !versioned) {
        PyErr_SetString(PyExc_BufferError,
                        "a read-only array needs version 1 of DLPack");
        return NULL;
    }
    return give(a, versioned);
}

PyObject *dvpy_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return Py_BuildValue("(ii)", CPU, 0);
}
