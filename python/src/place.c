// Buffers with lifetimes, placed into one memory.
#include "divvy_py.h"
#include "divvy/place.h"
#include <stdlib.h>

// The buffers and what they point to.
typedef struct list {
    size_t n;
    dv_buffer *buffers;
    dv_use **uses;
    int32_t **parents;
} list;

static void free_list(list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->uses[i]);
        free(l->parents[i]);
    }
    free(l->buffers);
    free(l->uses);
    free(l->parents);
}

// Reads pairs of a tick and whether it writes.
static int read_uses(dv_buffer *b, dv_use **memory, PyObject *uses)
{
    Py_ssize_t n = PyTuple_Size(uses);
    dv_use *u = *memory = calloc((size_t)(n < 0 ? 0 : n) + 1, sizeof *u);
    if (n < 0 || !u)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        long long tick;
        if (!PyArg_ParseTuple(PyTuple_GetItem(uses, i), "Lp", &tick,
                              &u[i].writes))
            return -1;
        u[i].tick = tick;
    }
    b->uses = u;
    b->n_uses = (size_t)n;
    if (n)
        b->first_use_is_read = !u[0].writes;
    return 0;
}

static int read_parents(dv_buffer *b, int32_t **memory, PyObject *parents)
{
    Py_ssize_t n = PyTuple_Size(parents);
    int32_t *p = *memory = calloc((size_t)(n < 0 ? 0 : n) + 1, sizeof *p);
    if (n < 0 || !p)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        long k = PyLong_AsLong(PyTuple_GetItem(parents, i));
        if (k == -1 && PyErr_Occurred())
            return -1;
        p[i] = (int32_t)k;
    }
    b->parents = p;
    b->n_parents = (size_t)n;
    return 0;
}

// Reads (name, size, start, end, align, address, weight, uses, is_read,
// parents, group, barred).
static int read_buffer(list *l, size_t i, PyObject *tuple)
{
    dv_buffer *b = &l->buffers[i];
    long long size, start, end, align, address, weight;
    PyObject *uses, *parents;
    *b = (dv_buffer)DV_BUFFER_INIT;
    if (!PyArg_ParseTuple(tuple, "zLLLLLLO!pO!iz", &b->name, &size, &start,
                          &end, &align, &address, &weight, &PyTuple_Type, &uses,
                          &b->first_use_is_read, &PyTuple_Type, &parents,
                          &b->group, &b->barred))
        return -1;
    b->size_bytes = size;
    b->start = start;
    b->end = end;
    b->align_bytes = align;
    b->fixed_address = address;
    b->weight = weight;
    return read_uses(b, &l->uses[i], uses) < 0 ||
                   read_parents(b, &l->parents[i], parents) < 0
               ? -1
               : 0;
}

static int read_list(list *l, PyObject *tuples)
{
    size_t n = (size_t)PyList_Size(tuples);
    *l = (list){n, calloc(n + 1, sizeof *l->buffers),
                calloc(n + 1, sizeof *l->uses),
                calloc(n + 1, sizeof *l->parents)};
    if (!l->buffers || !l->uses || !l->parents) {
        l->n = 0;
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < n; i++)
        if (read_buffer(l, i, PyList_GetItem(tuples, (Py_ssize_t)i)) < 0) {
            if (!PyErr_Occurred())
                PyErr_NoMemory();
            return -1;
        }
    return 0;
}

static PyObject *addresses_of(const dv_placement *p)
{
    PyObject *all = PyList_New(0);
    for (size_t i = 0; all && i < p->n_buffers; i++) {
        PyObject *one =
            Py_BuildValue("(Lz)", (long long)p->addresses[i], p->reasons[i]);
        if (!one || PyList_Append(all, one) < 0)
            Py_CLEAR(all);
        Py_XDECREF(one);
    }
    return all;
}

static PyObject *stays_of(const dv_placement *p)
{
    PyObject *all = PyList_New(0);
    for (size_t i = 0; all && i < p->n_stays; i++) {
        const dv_stay *s = &p->stays[i];
        PyObject *one =
            Py_BuildValue("(iLLL)", (int)s->buffer, (long long)s->start,
                          (long long)s->end, (long long)s->address);
        if (!one || PyList_Append(all, one) < 0)
            Py_CLEAR(all);
        Py_XDECREF(one);
    }
    return all;
}

static PyObject *describe(const dv_placement *p, int64_t proven)
{
    return Py_BuildValue(
        "{sNsNsssLsLsdsLsLsL}", "addresses", addresses_of(p), "stays",
        stays_of(p), "solver", p->solver, "value", (long long)p->value, "bound",
        (long long)p->bound, "gap", p->gap, "peak", (long long)p->peak_bytes,
        "steps", (long long)p->steps, "proven", (long long)proven);
}

// place(buffers, capacity, align, solver, budget, time_limit, seed, evict,
// must_fit): capacity -1 finds the least memory for all; the solver is a number
// of dv_solver. The result was checked.
PyObject *dvpy_place(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *tuples, *result = NULL;
    dv_place_options o = DV_PLACE_OPTIONS_INIT;
    long long capacity, align, budget;
    unsigned long long seed;
    int solver;
    if (!PyArg_ParseTuple(args, "O!LLiLdKpp", &PyList_Type, &tuples, &capacity,
                          &align, &solver, &budget, &o.time_limit_s, &seed,
                          &o.evict, &o.must_fit))
        return NULL;
    int least = capacity < 0;
    o.capacity_bytes = least ? 0 : capacity;
    o.align_bytes = align;
    o.solver = (dv_solver)solver;
    o.budget = budget;
    o.seed = seed;
    list l;
    dv_placement *p = NULL;
    dv_diag *diag = NULL;
    int64_t proven = 0;
    if (read_list(&l, tuples) == 0 && !(diag = dv_diag_create()))
        PyErr_NoMemory();
    if (diag) {
        dv_status st;
        Py_BEGIN_ALLOW_THREADS st =
            least ? dv_place_least(&p, &proven, l.buffers, l.n, &o, diag)
                  : dv_place(&p, l.buffers, l.n, &o, diag);
        if (st == DV_OK && least)
            o.capacity_bytes = p->peak_bytes;
        if (st == DV_OK)
            st = dv_placement_check(p, l.buffers, &o, diag);
        Py_END_ALLOW_THREADS result =
            st == DV_OK ? describe(p, proven) : dvpy_raise(diag);
        dv_placement_destroy(p);
        dv_diag_destroy(diag);
    }
    free_list(&l);
    return result;
}
