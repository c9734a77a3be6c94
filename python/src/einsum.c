// einsum, with a cache of expressions that are ready to run.
//
// An expression is an einsum for operands of fixed types, shapes and layouts.
// It has one or more execs: a call takes one that is idle, or makes another, so
// that several threads can run one expression at once. Calls with an unusual
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
    N_IDLE = 8,     // execs that an expression keeps at most
    N_FEW = 8,      // operands that need no allocation
    // Multiplications and additions above which the GIL is released: fewer take
    // about as long as taking it again.
    LONG = 20000,
};

typedef struct expression {
    uint64_t hash;
    PyObject *text; // owned
    size_t n_in, n_signature;
    int64_t *signature; // of the operands; owned
    dv_einsum_exec *idle[N_IDLE];
    int n_idle;
    int users;     // calls that use it, and the cache if it is in there
    int is_long;   // whether runs release the GIL
    dv_array like; // type and shape of the result
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

// Writes what an expression depends on: types and shapes.
static void sign(call *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_in; i++) {
        const dvpy_operand *o = &c->in[i];
        c->signature[n++] = (int64_t)o->dtype << 8 | o->n_dims;
        for (int d = 0; d < o->n_dims; d++)
            c->signature[n++] = o->shape[d];
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
    c->in = n <= N_FEW ? c->few : malloc(n * sizeof *c->in);
    size_t words = n * (DV_MAX_DIMS + 1);
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

static void drop(expression *e)
{
    if (!e || --e->users > 0)
        return;
    for (int i = 0; i < e->n_idle; i++)
        dv_einsum_destroy(e->idle[i]);
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

// Plans the expression of a call, without the GIL.
static dv_einsum_exec *make_exec(const call *c)
{
    dv_einsum_options options = DV_EINSUM_OPTIONS_INIT;
    dv_einsum_exec *exec = NULL;
    const char *text = PyUnicode_AsUTF8AndSize(c->text, NULL);
    dv_array *in = malloc((c->n_in + 1) * sizeof *in);
    dv_diag *diag = dv_diag_create();
    if (!text || !in || !diag) {
        free(in);
        dv_diag_destroy(diag);
        return text ? (dv_einsum_exec *)PyErr_NoMemory() : NULL;
    }
    for (size_t i = 0; i < c->n_in; i++)
        in[i] = (dv_array){c->in[i].dtype, c->in[i].n_dims, c->in[i].shape,
                           NULL, NULL};
    dv_status st;
    options.cache = plans;
    Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&planning);
    st = dv_einsum_create(&exec, text, in, c->n_in, &options, diag);
    pthread_mutex_unlock(&planning);
    Py_END_ALLOW_THREADS if (st != DV_OK) dvpy_raise(diag);
    dv_diag_destroy(diag);
    free(in);
    return exec;
}

static expression *make(const call *c)
{
    dv_einsum_exec *exec = make_exec(c);
    if (!exec)
        return NULL;
    expression *e = calloc(1, sizeof *e);
    size_t bytes = c->n_signature * sizeof *c->signature;
    int64_t *signature = malloc(bytes + 1);
    if (!e || !signature) {
        dv_einsum_destroy(exec);
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
                      .idle = {exec},
                      .n_idle = 1,
                      .is_long = 1,
                      .like = dv_einsum_output(exec)};
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
    dv_einsum_exec *exec = e->n_idle ? e->idle[--e->n_idle] : make_exec(c);
    if (!exec)
        return -1;
    dv_diag *diag = dv_diag_create();
    dv_status st;
    if (e->is_long) {
        Py_BEGIN_ALLOW_THREADS st = bind_and_run(exec, c, out, diag);
        Py_END_ALLOW_THREADS
    } else
        st = bind_and_run(exec, c, out, diag);
    if (e->n_idle < N_IDLE)
        e->idle[e->n_idle++] = exec;
    else
        dv_einsum_destroy(exec);
    if (st != DV_OK)
        dvpy_raise(diag);
    dv_diag_destroy(diag);
    return st == DV_OK ? 0 : -1;
}

static int check_out(const expression *e, const dvpy_operand *out)
{
    int same = out->n_dims == e->like.n_dims;
    for (int d = 0; same && d < out->n_dims; d++)
        same = out->shape[d] == e->like.shape[d];
    if (!same)
        dvpy_fail(DV_E_SHAPE, "out has not the shape of the result");
    else if (out->is_readonly)
        dvpy_fail(DV_E_USAGE, "out is read-only");
    else
        return 0;
    return -1;
}

static PyObject *run_into(expression *e, const call *c, PyObject *array)
{
    dvpy_operand out;
    if (dvpy_operand_get(&out, array) < 0)
        return NULL;
    int st = check_out(e, &out) < 0 ? -1 : run(e, c, &out);
    dvpy_operand_release(&out);
    return st < 0 ? NULL : Py_NewRef(array);
}

static PyObject *run_new(expression *e, const call *c, PyObject *like)
{
    dvpy_kind kind = dvpy_kind_of(like);
    dvpy_operand out;
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
    return dvpy_result_finish(x, kind, like);
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
        result = out ? run_into(e, &c, out) : run_new(e, &c, args[1]);
        drop(e);
    }
    end_call(&c);
    return result;
}

static PyObject *unusual(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *module = PyImport_ImportModule("divvy._einsum");
    PyObject *function =
        module ? PyObject_GetAttrString(module, "unusual") : NULL;
    PyObject *list = PyTuple_New(n), *words = PyDict_New(), *result = NULL;
    int ok = function && list && words;
    for (Py_ssize_t i = 0; ok && i < n; i++)
        ok = PyTuple_SetItem(list, i, Py_NewRef(args[i])) == 0;
    for (Py_ssize_t i = 0; ok && names && i < PyTuple_Size(names); i++)
        ok = PyDict_SetItem(words, PyTuple_GetItem(names, i), args[n + i]) == 0;
    if (ok)
        result = PyObject_Call(function, list, words);
    Py_XDECREF(module);
    Py_XDECREF(function);
    Py_XDECREF(list);
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

PyObject *dvpy_einsum(PyObject *module, PyObject *const *args, Py_ssize_t n,
                      PyObject *names)
{
    (void)module;
    PyObject *out = NULL;
    if (n >= 2 && PyUnicode_Check(args[0]) && read_names(names, args + n, &out))
        return usual(args, (size_t)n, out);
    return unusual(args, n, names);
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
