// einsum, with a cache of expressions that are ready to run.
//
// An expression is an einsum for operands of fixed types, shapes and strides.
// It has one or more runners: a call takes one that is idle, or makes another,
// so that several threads can run one expression at once. Calls with an unusual
// form (interleaved lists, types, orders, an output of another type) are
// brought into the usual one by divvy/_einsum.py, which calls back.
#include "divvy_py.h"
#include "divvy/einsum.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_CHAINS = 256, // of expressions with equal hashes, modulo this
    CHAIN = 4,      // expressions that a chain keeps at most
    N_IDLE = 8,     // runners that an expression keeps at most
    N_FEW = 8,      // operands that need no allocation
    // Multiplications and additions above which the GIL is released: fewer take
    // about as long as taking it again.
    LONG = 20000,
};

// What runs an expression, one thread at a time.
typedef struct runner {
    dv_einsum_exec *exec;
    dv_diag *diag;
} runner;

typedef struct expression {
    uint64_t hash;
    PyObject *text; // owned
    size_t n_in, n_signature;
    int64_t *signature; // of the operands; owned
    runner idle[N_IDLE];
    int n_idle;
    int users;     // calls that use it, and the cache if it is in there
    int is_long;   // whether runs release the GIL
    dv_array like; // type and shape of the result
    // If the result is a view of the only operand: which of its dims each dim
    // of the operand is.
    int is_view;
    int dims[DV_MAX_DIMS];
    struct expression *next;
} expression;

static expression *chains[N_CHAINS];
// Plans, and the lock of all that makes them.
static dv_einsum_cache *plans;
static pthread_mutex_t planning = PTHREAD_MUTEX_INITIALIZER;

// A call of einsum.
typedef struct call {
    PyObject *text;
    size_t n_in;
    dvpy_operand *in;
    dvpy_operand few[N_FEW];
    size_t n_signature;
    int64_t *signature;
    int64_t short_signature[64];
    uint64_t hash;
    dv_path_search search;
    int64_t max_elems;
} call;

// -- Calls --------------------------------------------------------------------

static void end_call(call *c)
{
    for (size_t i = 0; i < c->n_in; i++)
        dvpy_operand_release(&c->in[i]);
    if (c->in != c->few)
        free(c->in);
    if (c->signature != c->short_signature)
        free(c->signature);
}

static uint64_t mix(uint64_t hash, int64_t value)
{
    hash = (hash ^ (uint64_t)value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

// Writes what an expression depends on: types, shapes and strides.
static void sign(call *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_in; i++) {
        const dvpy_operand *o = &c->in[i];
        c->signature[n++] = (int64_t)o->dtype << 8 | o->n_dims;
        for (int d = 0; d < o->n_dims; d++) {
            c->signature[n++] = o->shape[d];
            c->signature[n++] = o->shape[d] == 1 ? 0 : o->strides[d];
        }
    }
    c->n_signature = n;
    c->hash = (uint64_t)PyObject_Hash(c->text);
    for (size_t k = 0; k < n; k++)
        c->hash = mix(c->hash, c->signature[k]);
}

static int begin_call(call *c, PyObject *text, PyObject *const *arrays,
                      size_t n)
{
    c->text = text;
    c->n_in = 0;
    c->search = DV_PATH_AUTO;
    c->max_elems = 0;
    c->in = n <= N_FEW ? c->few : malloc(n * sizeof *c->in);
    size_t words = n * (2 * DV_MAX_DIMS + 1);
    size_t own = sizeof c->short_signature / sizeof *c->short_signature;
    c->signature =
        words <= own ? c->short_signature : malloc(words * sizeof(int64_t));
    if (!c->in || !c->signature) {
        end_call(c);
        PyErr_NoMemory();
        return -1;
    }
    for (; c->n_in < n; c->n_in++)
        if (dvpy_operand_get(&c->in[c->n_in], arrays[c->n_in]) < 0) {
            end_call(c);
            return -1;
        }
    sign(c);
    return 0;
}

// -- Expressions --------------------------------------------------------------

static void destroy(runner r)
{
    dv_einsum_destroy(r.exec);
    dv_diag_destroy(r.diag);
}

static void drop(expression *e)
{
    if (!e || --e->users > 0)
        return;
    for (int i = 0; i < e->n_idle; i++)
        destroy(e->idle[i]);
    Py_XDECREF(e->text);
    free(e->signature);
    free(e);
}

static int is_for(const expression *e, const call *c)
{
    return e->hash == c->hash && e->n_in == c->n_in &&
           e->n_signature == c->n_signature &&
           (e->text == c->text || PyUnicode_Compare(e->text, c->text) == 0) &&
           memcmp(e->signature, c->signature,
                  c->n_signature * sizeof *c->signature) == 0;
}

// Finds an expression, and moves it to the front of its chain.
static expression *find(const call *c)
{
    expression **at = &chains[c->hash % N_CHAINS];
    for (expression **to = at; *to; to = &(*to)->next)
        if (is_for(*to, c)) {
            expression *e = *to;
            *to = e->next;
            e->next = *at;
            return *at = e;
        }
    return NULL;
}

static void keep(expression *e)
{
    expression **at = &chains[e->hash % N_CHAINS];
    e->next = *at;
    *at = e;
    e->users++;
    for (int n = 0; *at; n++)
        if (n == CHAIN) {
            expression *last = *at;
            *at = NULL;
            drop(last);
            return;
        } else
            at = &(*at)->next;
}

// Plans an einsum for the operands of a call, without the GIL.
static dv_status plan(runner *r, const char *text, const call *c)
{
    dv_einsum_options options = DV_EINSUM_OPTIONS_INIT;
    options.path = c->search;
    options.max_elems = c->max_elems;
    dv_array *in = malloc((c->n_in + 1) * sizeof *in);
    dv_status st = DV_E_NOMEM;
    if (!in)
        return st;
    for (size_t i = 0; i < c->n_in; i++)
        in[i] = (dv_array){c->in[i].dtype, c->in[i].n_dims, c->in[i].shape,
                           c->in[i].strides, NULL};
    options.cache = plans;
    Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&planning);
    st = dv_einsum_create(&r->exec, text, in, c->n_in, &options, r->diag);
    pthread_mutex_unlock(&planning);
    Py_END_ALLOW_THREADS free(in);
    return st;
}

static int make_runner(runner *r, const call *c)
{
    Py_ssize_t len;
    const char *text = PyUnicode_AsUTF8AndSize(c->text, &len);
    *r = (runner){NULL, text ? dv_diag_create() : NULL};
    if (!text)
        return -1;
    if ((size_t)len != strlen(text)) {
        dvpy_fail(DV_E_SYNTAX, "the expression has a byte 0");
    } else if (!r->diag || plan(r, text, c) != DV_OK) {
        if (r->diag && dv_diag_status(r->diag) != DV_OK)
            dvpy_raise(r->diag);
        else
            PyErr_NoMemory();
    } else {
        return 0;
    }
    destroy(*r);
    return -1;
}

static expression *make(const call *c)
{
    runner first;
    if (make_runner(&first, c) < 0)
        return NULL;
    expression *e = calloc(1, sizeof *e);
    size_t bytes = c->n_signature * sizeof *c->signature;
    int64_t *signature = malloc(bytes + 1);
    if (!e || !signature) {
        destroy(first);
        free(signature);
        free(e);
        return (expression *)PyErr_NoMemory();
    }
    memcpy(signature, c->signature, bytes);
    *e = (expression){.hash = c->hash,
                      .text = Py_NewRef(c->text),
                      .n_in = c->n_in,
                      .n_signature = c->n_signature,
                      .signature = signature,
                      .idle = {first},
                      .n_idle = 1,
                      .is_long = dv_einsum_flops(first.exec) > LONG,
                      .like = dv_einsum_output(first.exec)};
    e->is_view = dv_einsum_is_view(first.exec, e->dims);
    keep(e);
    return e;
}

// -- Runs ---------------------------------------------------------------------

static dv_status bind(dv_einsum_exec *exec, size_t i, const dvpy_operand *o,
                      dv_diag *diag)
{
    return dv_einsum_bind(exec, i, o->data, o->strides, diag);
}

static dv_status bind_and_run(dv_einsum_exec *exec, const call *c,
                              const dvpy_operand *out, dv_diag *diag)
{
    for (size_t i = 0; i < c->n_in; i++) {
        dv_status st = bind(exec, i, &c->in[i], diag);
        if (st != DV_OK)
            return st;
    }
    dv_status st = bind(exec, c->n_in, out, diag);
    return st == DV_OK ? dv_einsum_run(exec, diag) : st;
}

static int run(expression *e, const call *c, const dvpy_operand *out)
{
    runner r;
    if (e->n_idle)
        r = e->idle[--e->n_idle];
    else if (make_runner(&r, c) < 0)
        return -1;
    dv_status st;
    if (e->is_long) {
        Py_BEGIN_ALLOW_THREADS st = bind_and_run(r.exec, c, out, r.diag);
        Py_END_ALLOW_THREADS
    } else
        st = bind_and_run(r.exec, c, out, r.diag);
    if (st != DV_OK) {
        dvpy_raise(r.diag);
        dv_diag_clear(r.diag);
    }
    if (e->n_idle < N_IDLE)
        e->idle[e->n_idle++] = r;
    else
        destroy(r);
    return st == DV_OK ? 0 : -1;
}

// Calls a function of divvy/_einsum.py, which handles rare forms of arguments.
static PyObject *call_python(const char *name, PyObject *args, PyObject *words)
{
    PyObject *module = PyImport_ImportModule("divvy._einsum");
    PyObject *function = module ? PyObject_GetAttrString(module, name) : NULL;
    PyObject *result =
        function && args ? PyObject_Call(function, args, words) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(function);
    Py_XDECREF(args);
    return result;
}

static int check_out(const expression *e, const dvpy_operand *out)
{
    int same = out->n_dims == e->like.n_dims;
    for (int d = 0; same && d < out->n_dims; d++)
        same = out->shape[d] == e->like.shape[d];
    if (!same)
        dvpy_fail(DV_E_SHAPE, "out does not have the shape of the result");
    else if (out->is_readonly)
        dvpy_fail(DV_E_USAGE, "out is read-only");
    else
        return 0;
    return -1;
}

// Sets the first and the last address of an operand.
static void find_range(const dvpy_operand *o, char **first, char **last)
{
    int64_t size = dvpy_dtype_size(o->dtype);
    *first = o->data;
    *last = *first + size;
    for (int d = 0; d < o->n_dims; d++)
        *(o->strides[d] < 0 ? first : last) +=
            (o->shape[d] - 1) * o->strides[d] * size;
}

// Returns whether `out` may share memory with an operand.
static int overlaps(const call *c, const dvpy_operand *out)
{
    char *a, *a_end, *b, *b_end;
    find_range(out, &a, &a_end);
    for (size_t i = 0; i < c->n_in; i++) {
        find_range(&c->in[i], &b, &b_end);
        if (a < b_end && b < a_end)
            return 1;
    }
    return 0;
}

static PyObject *run_into(expression *e, const call *c, PyObject *const *args,
                          PyObject *array)
{
    dvpy_operand out;
    if (dvpy_operand_get(&out, array) < 0)
        return NULL;
    int st = out.is_copy ? 0 : check_out(e, &out), direct = 0;
    if (st == 0 && !out.is_copy)
        direct = out.dtype == e->like.dtype && !overlaps(c, &out);
    if (direct)
        st = run(e, c, &out);
    dvpy_operand_release(&out);
    if (st < 0)
        return NULL;
    if (direct)
        return Py_NewRef(array);
    PyObject *list = PyTuple_New((Py_ssize_t)c->n_in + 2);
    int ok = list && PyTuple_SetItem(list, 0, Py_NewRef(array)) == 0;
    for (Py_ssize_t i = 0; ok && i <= (Py_ssize_t)c->n_in; i++)
        ok = PyTuple_SetItem(list, i + 1, Py_NewRef(args[i])) == 0;
    return call_python("into", list, NULL);
}

// Returns the result as a view of the operand, which numpy makes itself.
static PyObject *run_view(const expression *e, call *c, PyObject *array,
                          dvpy_kind kind)
{
    const dvpy_operand *o = &c->in[0];
    if (kind == DVPY_NUMPY) {
        PyObject *dims = PyTuple_New(o->n_dims);
        for (int d = 0; dims && d < o->n_dims; d++)
            PyTuple_SetItem(dims, d, PyLong_FromLong(e->dims[d]));
        return call_python(
            "view", dims ? Py_BuildValue("(ON)", array, dims) : NULL, NULL);
    }
    int64_t strides[DV_MAX_DIMS] = {0};
    for (int d = 0; d < o->n_dims; d++)
        strides[e->dims[d]] += o->strides[d];
    dvpy_array *v = dvpy_array_view(&c->in[0], e->like.dtype, o->data,
                                    e->like.n_dims, e->like.shape, strides);
    if (!v)
        return NULL;
    c->n_in = 0; // the view has taken over the operand
    return dvpy_result_finish((PyObject *)v, kind, array);
}

// numpy's functions return numbers in place of arrays without dims.
static PyObject *as_scalar(const expression *e, dvpy_kind kind, PyObject *x)
{
    if (!x || kind != DVPY_NUMPY || e->like.n_dims > 0)
        return x;
    PyObject *none = PyTuple_New(0);
    PyObject *number = none ? PyObject_GetItem(x, none) : NULL;
    Py_XDECREF(none);
    Py_DECREF(x);
    return number;
}

static PyObject *run_new(expression *e, call *c, PyObject *like)
{
    dvpy_kind kind = dvpy_kind_of(like);
    dvpy_operand out;
    if (e->is_view)
        return as_scalar(e, kind, run_view(e, c, like, kind));
    PyObject *x = dvpy_result_new(&out, kind, e->like.dtype, e->like.n_dims,
                                  e->like.shape);
    if (!x)
        return NULL;
    int st = run(e, c, &out);
    dvpy_operand_release(&out);
    if (st < 0) {
        Py_DECREF(x);
        return NULL;
    }
    return as_scalar(e, kind, dvpy_result_finish(x, kind, like));
}

// -- The function -------------------------------------------------------------

static PyObject *usual(PyObject *const *args, size_t n, PyObject *out)
{
    call c;
    if (begin_call(&c, args[0], args + 1, n - 1) < 0)
        return NULL;
    expression *e = find(&c);
    if (!e)
        e = make(&c);
    PyObject *result = NULL;
    if (e) {
        e->users++;
        result = out ? run_into(e, &c, args, out) : run_new(e, &c, args[1]);
        drop(e);
    }
    end_call(&c);
    return result;
}

static PyObject *unusual(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *list = PyTuple_New(n), *words = PyDict_New();
    int ok = list && words;
    for (Py_ssize_t i = 0; ok && i < n; i++)
        ok = PyTuple_SetItem(list, i, Py_NewRef(args[i])) == 0;
    for (Py_ssize_t i = 0; ok && names && i < PyTuple_Size(names); i++)
        ok = PyDict_SetItem(words, PyTuple_GetItem(names, i), args[n + i]) == 0;
    if (!ok)
        Py_CLEAR(list);
    PyObject *result = call_python("unusual", list, words);
    Py_XDECREF(words);
    return result;
}

// Reads the names of arguments that usual calls have. Returns 0 if there are
// others.
static int read_names(PyObject *names, PyObject *const *values, PyObject **out)
{
    Py_ssize_t n = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        if (PyUnicode_CompareWithASCIIString(name, "out") == 0)
            *out = values[i] == Py_None ? NULL : values[i];
        else if (PyUnicode_CompareWithASCIIString(name, "optimize") != 0 ||
                 !PyBool_Check(values[i]))
            return 0;
    }
    return 1;
}

// Returns whether a text has letters other than ours, for which
// divvy/_einsum.py takes some of ours.
static int has_other_letters(PyObject *text)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    const char *s = PyUnicode_AsUTF8AndSize(text, NULL);
    int has = 0;
    for (; s && *s && !has; s++)
        has = *s & 0x80;
    PyErr_Restore(type, value, trace);
    return has != 0;
}

PyObject *dvpy_einsum(PyObject *module, PyObject *const *args, Py_ssize_t n,
                      PyObject *names)
{
    (void)module;
    PyObject *out = NULL;
    if (n < 2 || !PyUnicode_Check(args[0]) ||
        !read_names(names, args + n, &out))
        return unusual(args, n, names);
    PyObject *result = usual(args, (size_t)n, out);
    if (!result && has_other_letters(args[0])) {
        PyErr_Clear();
        result = unusual(args, n, names);
    }
    return result;
}

PyObject *dvpy_einsum_json(PyObject *module, PyObject *args)
{
    (void)module;
    enum { FIRST = 3, MOST = FIRST + 256 };
    Py_ssize_t n = PyTuple_Size(args);
    PyObject *items[MOST];
    if (n <= FIRST || n > MOST) {
        dvpy_fail(DV_E_USAGE, "einsum takes 1 to %d operands", MOST - FIRST);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        items[i] = PyTuple_GetItem(args, i);
    long search = PyLong_AsLong(items[0]);
    long long most = PyLong_AsLongLong(items[1]);
    if (PyErr_Occurred())
        return NULL;
    call c;
    if (begin_call(&c, items[2], items + FIRST, (size_t)(n - FIRST)) < 0)
        return NULL;
    c.search = (dv_path_search)search;
    c.max_elems = most;
    runner r;
    PyObject *result = NULL;
    if (make_runner(&r, &c) == 0) {
        char *text = dv_einsum_text(r.exec), *json = dv_einsum_json(r.exec);
        result =
            text && json ? Py_BuildValue("(ss)", text, json) : PyErr_NoMemory();
        dv_free(text);
        dv_free(json);
        destroy(r);
    }
    end_call(&c);
    return result;
}

int dvpy_einsum_init(PyObject *module)
{
    (void)module;
    dv_diag *diag = dv_diag_create();
    dv_status st = dv_einsum_cache_create(&plans, 0, diag);
    if (st != DV_OK)
        dvpy_raise(diag);
    dv_diag_destroy(diag);
    return st == DV_OK ? 0 : -1;
}
