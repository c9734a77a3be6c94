// Teams of processes, arrays that are divided over them, and the ranks of plans
// for teams.
//
// A communicator is the address of an MPI_Comm, which the library copies.
#include "divvy_py.h"
#include "divvy/dist.h"
#include <stdlib.h>
#include <string.h>

static PyTypeObject *team_type, *darray_type, *rank_type;

typedef struct team {
    PyObject ob_base;
    dv_team_link *link;
} team;

typedef struct darray {
    PyObject ob_base;
    dv_darray *a;
    PyObject *team;
    dvpy_operand *rows; // memory of the caller; owned; NULL: its own
} darray;

typedef struct rank {
    PyObject ob_base;
    dv_rank_exec *x;
    PyObject *plan;
} rank;

static void release(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

// Frees the diag, and the object if the call that made it has failed.
static PyObject *finish(PyObject *x, dv_status st, dv_diag *diag)
{
    if (st != DV_OK) {
        Py_CLEAR(x);
        dvpy_raise(diag);
    }
    dv_diag_destroy(diag);
    return x;
}

// -- Teams --------------------------------------------------------------------

static void destroy_team(PyObject *self)
{
    dv_team_destroy(((team *)self)->link);
    release(self);
}

// team(address): the address is 0 for a team of one.
PyObject *dvpy_team(PyObject *module, PyObject *address)
{
    (void)module;
    void *comm = PyLong_AsVoidPtr(address);
    dv_diag *diag = PyErr_Occurred() ? NULL : dv_diag_create();
    team *t = diag ? PyObject_New(team, team_type) : NULL;
    if (!t) {
        dv_diag_destroy(diag);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    t->link = NULL;
    dv_status st;
    Py_BEGIN_ALLOW_THREADS st = comm ? dv_team_mpi(&t->link, comm, NULL, diag)
                                     : dv_team_alone(&t->link, diag);
    Py_END_ALLOW_THREADS return finish((PyObject *)t, st, diag);
}

static PyObject *rank_and_size(PyObject *self, PyObject *unused)
{
    (void)unused;
    const dv_team_link *link = ((team *)self)->link;
    return Py_BuildValue("(LL)", (long long)dv_team_rank(link),
                         (long long)dv_team_size(link));
}

static PyObject *sent(PyObject *self, PyObject *unused)
{
    (void)unused;
    int64_t bytes, messages;
    dv_team_sent(((team *)self)->link, &bytes, &messages);
    return Py_BuildValue("(LL)", (long long)bytes, (long long)messages);
}

// -- Arrays -------------------------------------------------------------------

static void destroy_darray(PyObject *self)
{
    darray *a = (darray *)self;
    dv_darray_destroy(a->a);
    if (a->rows)
        dvpy_operand_release(a->rows);
    free(a->rows);
    Py_XDECREF(a->team);
    release(self);
}

static darray *new_darray(PyObject *of)
{
    darray *a = PyObject_New(darray, darray_type);
    if (a) {
        a->a = NULL;
        a->rows = NULL;
        a->team = Py_NewRef(of);
    }
    return a;
}

// Reads a tuple of sizes. Returns their number, or -1.
static int read_sizes(int64_t *out, PyObject *sizes)
{
    Py_ssize_t n = PyTuple_Size(sizes);
    if (n > DV_MAX_DIMS)
        dvpy_fail(DV_E_LIMIT, "at most %d dims are supported",
                  (int)DV_MAX_DIMS);
    for (Py_ssize_t d = 0; n <= DV_MAX_DIMS && d < n; d++)
        out[d] = PyLong_AsLongLong(PyTuple_GetItem(sizes, d));
    return PyErr_Occurred() ? -1 : (int)n;
}

// Team.array(dtype, shape, halo, blocks): zeros; `halo` is a width for all
// sides; `blocks` cuts several dims.
static PyObject *make_array(PyObject *self, PyObject *args)
{
    PyObject *name, *sizes;
    int64_t shape[DV_MAX_DIMS];
    long long width;
    int blocks;
    if (!PyArg_ParseTuple(args, "OO!Lp", &name, &PyTuple_Type, &sizes, &width,
                          &blocks))
        return NULL;
    int type = dvpy_dtype_read(name);
    int n = type < 0 ? -1 : read_sizes(shape, sizes);
    dv_diag *diag = n < 0 ? NULL : dv_diag_create();
    darray *a = diag ? new_darray(self) : NULL;
    if (!a) {
        dv_diag_destroy(diag);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    dv_team_link *link = ((team *)self)->link;
    dv_halo halo = {.corners = 1};
    for (int d = 0; d < n; d++)
        halo.before[d] = halo.after[d] = width;
    dv_dist dist;
    dv_status st = DV_OK;
    if (blocks)
        st = dv_dist_blocks(&dist, n, shape, dv_team_size(link), diag);
    else
        dist = dv_dist_rows(n, shape, dv_team_size(link));
    if (st == DV_OK) {
        Py_BEGIN_ALLOW_THREADS st = dv_darray_create(
            &a->a, link, (dv_elem)type, &dist, width ? &halo : NULL, diag);
        Py_END_ALLOW_THREADS
    }
    return finish((PyObject *)a, st, diag);
}

// Team.join(rows): an array of the rows that each rank has, which it borrows.
static PyObject *join(PyObject *self, PyObject *array)
{
    dv_diag *diag = dv_diag_create();
    darray *a = diag ? new_darray(self) : NULL;
    dvpy_operand *o = a ? calloc(1, sizeof *o) : NULL;
    if (!o || dvpy_operand_get(o, array) < 0) {
        free(o);
        Py_XDECREF((PyObject *)a);
        dv_diag_destroy(diag);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    a->rows = o;
    dv_status st = DV_OK;
    if (!dvpy_operand_is_dense(o) || o->is_readonly || o->n_dims == 0)
        dvpy_fail(st = DV_E_USAGE, "the rows are row-major and can be written");
    else {
        Py_BEGIN_ALLOW_THREADS st =
            dv_darray_join(&a->a, ((team *)self)->link, (dv_elem)o->dtype,
                           o->n_dims, o->shape, o->data, diag);
        Py_END_ALLOW_THREADS
    }
    return finish((PyObject *)a, st, diag);
}

// Returns pairs (first index, number) for the dims of a box.
static PyObject *pairs_of(const dv_box *box)
{
    PyObject *all = PyTuple_New(box->n_dims);
    for (int d = 0; all && d < box->n_dims; d++) {
        PyObject *one = Py_BuildValue("(LL)", (long long)box->dim[d].off,
                                      (long long)box->dim[d].size);
        if (!one || PyTuple_SetItem(all, d, one) < 0)
            Py_CLEAR(all);
    }
    return all;
}

// Returns a divvy.Array that shows memory of `owner`.
static PyObject *show(PyObject *owner, dv_dtype dtype, void *data,
                      const dv_box *box, const int64_t *strides)
{
    int64_t shape[DV_MAX_DIMS];
    for (int d = 0; d < box->n_dims; d++)
        shape[d] = box->dim[d].size;
    if (!data)
        return (PyObject *)dvpy_array_new(dtype, box->n_dims, shape);
    dvpy_operand o;
    memset(&o, 0, sizeof o);
    o.owner = Py_NewRef(owner);
    dvpy_array *a =
        dvpy_array_view(&o, dtype, data, box->n_dims, shape, strides);
    if (!a)
        dvpy_operand_release(&o);
    return (PyObject *)a;
}

// DistArray.about(): type, shape, own box, box in memory.
static PyObject *about(PyObject *self, PyObject *unused)
{
    (void)unused;
    const dv_darray *a = ((darray *)self)->a;
    dv_box own = dv_darray_own(a), local = dv_darray_local(a);
    const dv_dist *d = dv_darray_dist(a);
    dv_box whole = {.n_dims = d->n_dims};
    for (int i = 0; i < d->n_dims; i++)
        whole.dim[i] = (dv_range){0, d->shape[i]};
    return Py_BuildValue("(sNNN)", dvpy_dtype_name((dv_dtype)dv_darray_type(a)),
                         pairs_of(&whole), pairs_of(&own), pairs_of(&local));
}

static PyObject *local(PyObject *self, PyObject *unused)
{
    (void)unused;
    const dv_darray *a = ((darray *)self)->a;
    int64_t strides[DV_MAX_DIMS];
    void *data = dv_darray_data(a, strides);
    dv_box box = dv_darray_local(a);
    return show(self, (dv_dtype)dv_darray_type(a), data, &box, strides);
}

// Makes a call of the library, and returns None.
#define CALL(call)                                                             \
    do {                                                                       \
        dv_diag *diag = dv_diag_create();                                      \
        dv_status st;                                                          \
        if (!diag)                                                             \
            return PyErr_NoMemory();                                           \
        Py_BEGIN_ALLOW_THREADS st = (call);                                    \
        Py_END_ALLOW_THREADS return finish(Py_NewRef(Py_None), st, diag);      \
    } while (0)

static PyObject *fill_halo(PyObject *self, PyObject *unused)
{
    (void)unused;
    CALL(dv_darray_halo(((darray *)self)->a, diag));
}

// DistArray.gather(root): an Array on that rank (-1: on all), None elsewhere.
static PyObject *gather(PyObject *self, PyObject *number)
{
    const dv_darray *a = ((darray *)self)->a;
    long long root = PyLong_AsLongLong(number);
    if (root == -1 && PyErr_Occurred())
        return NULL;
    const dv_dist *d = dv_darray_dist(a);
    long long me = dv_team_rank(((team *)((darray *)self)->team)->link);
    dvpy_array *whole = NULL;
    dv_diag *diag = dv_diag_create();
    if (root < 0 || root == me)
        whole =
            dvpy_array_new((dv_dtype)dv_darray_type(a), d->n_dims, d->shape);
    if (!diag || PyErr_Occurred()) {
        dv_diag_destroy(diag);
        Py_XDECREF((PyObject *)whole);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    dv_status st;
    Py_BEGIN_ALLOW_THREADS st =
        dv_darray_gather(a, root, whole ? whole->data : NULL, diag);
    Py_END_ALLOW_THREADS return finish(
        whole ? (PyObject *)whole : Py_NewRef(Py_None), st, diag);
}

// DistArray.scatter(root, whole): `whole` is ignored on other ranks.
static PyObject *scatter(PyObject *self, PyObject *args)
{
    const dv_darray *a = ((darray *)self)->a;
    long long root;
    PyObject *array;
    dvpy_operand o;
    if (!PyArg_ParseTuple(args, "LO", &root, &array))
        return NULL;
    int reads = array != Py_None;
    const dv_dist *d = dv_darray_dist(a);
    if (reads && dvpy_operand_get(&o, array) < 0)
        return NULL;
    if (reads &&
        (!dvpy_operand_is_dense(&o) || o.n_dims != d->n_dims ||
         memcmp(o.shape, d->shape, (size_t)d->n_dims * sizeof *o.shape) ||
         (int)o.dtype != (int)dv_darray_type(a))) {
        dvpy_operand_release(&o);
        dvpy_fail(DV_E_SHAPE, "the whole array is row-major, with the type and "
                              "shape of the divided one");
        return NULL;
    }
    dv_diag *diag = dv_diag_create();
    dv_status st = DV_E_NOMEM;
    if (diag) {
        Py_BEGIN_ALLOW_THREADS st = dv_darray_scatter(
            ((darray *)self)->a, root, reads ? o.data : NULL, diag);
        Py_END_ALLOW_THREADS
    }
    if (reads)
        dvpy_operand_release(&o);
    return finish(Py_NewRef(Py_None), st, diag);
}

// DistArray.reduce(number of a dv_reduction, dims): `dims` is a tuple.
static PyObject *reduce(PyObject *self, PyObject *args)
{
    int what, over[DV_MAX_DIMS] = {0};
    int64_t dims[DV_MAX_DIMS];
    PyObject *tuple;
    if (!PyArg_ParseTuple(args, "iO!", &what, &PyTuple_Type, &tuple))
        return NULL;
    int n = read_sizes(dims, tuple);
    for (int i = 0; i < n; i++)
        over[dims[i] & (DV_MAX_DIMS - 1)] = 1;
    dv_diag *diag = n < 0 ? NULL : dv_diag_create();
    darray *a = diag ? new_darray(((darray *)self)->team) : NULL;
    if (!a) {
        dv_diag_destroy(diag);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    dv_status st;
    Py_BEGIN_ALLOW_THREADS st = dv_darray_reduce(
        &a->a, ((darray *)self)->a, (dv_reduction)what, over, 0, diag);
    Py_END_ALLOW_THREADS return finish((PyObject *)a, st, diag);
}

// -- Ranks of plans -----------------------------------------------------------

static void destroy_rank(PyObject *self)
{
    dv_rank_exec_destroy(((rank *)self)->x);
    Py_XDECREF(((rank *)self)->plan);
    release(self);
}

// rank(plan, address, threads, timeout_s)
PyObject *dvpy_rank(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *plan, *address;
    dv_rank_exec_options o = DV_RANK_EXEC_OPTIONS_INIT;
    if (!PyArg_ParseTuple(args, "O!Oid", dvpy_plan_type, &plan, &address,
                          &o.threads, &o.timeout_s))
        return NULL;
    void *comm = PyLong_AsVoidPtr(address);
    dv_diag *diag = PyErr_Occurred() ? NULL : dv_diag_create();
    rank *r = diag ? PyObject_New(rank, rank_type) : NULL;
    if (!r) {
        dv_diag_destroy(diag);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    r->x = NULL;
    r->plan = Py_NewRef(plan);
    dv_status st;
    Py_BEGIN_ALLOW_THREADS st =
        dv_rank_exec_create(&r->x, ((dvpy_plan *)plan)->plan, comm, &o, diag);
    Py_END_ALLOW_THREADS return finish((PyObject *)r, st, diag);
}

static PyObject *run_rank(PyObject *self, PyObject *unused)
{
    (void)unused;
    CALL(dv_rank_exec_run(((rank *)self)->x, diag));
}

// Rank.data(name, dtype): an Array, its box and the box that the rank owns.
static PyObject *rank_data(PyObject *self, PyObject *args)
{
    const char *name;
    PyObject *dtype;
    if (!PyArg_ParseTuple(args, "sO", &name, &dtype))
        return NULL;
    int t = dvpy_dtype_read(dtype);
    dv_diag *diag = t < 0 ? NULL : dv_diag_create();
    if (!diag)
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    void *data = NULL;
    dv_box all = {0}, own = {0};
    dv_status st =
        dv_rank_exec_data(((rank *)self)->x, name, &data, &all, &own, diag);
    PyObject *x = NULL;
    if (st == DV_OK) {
        int64_t strides[DV_MAX_DIMS], n = 1;
        for (int d = all.n_dims - 1; d >= 0; d--) {
            strides[d] = n;
            n *= all.dim[d].size;
        }
        PyObject *array = show(self, (dv_dtype)t, data, &all, strides);
        x = array
                ? Py_BuildValue("(NNN)", array, pairs_of(&all), pairs_of(&own))
                : NULL;
    }
    return finish(x, st, diag);
}

// Rank.gather(name, dtype, shape): an Array on rank 0, None elsewhere.
static PyObject *rank_gather(PyObject *self, PyObject *args)
{
    const char *name;
    PyObject *dtype, *sizes;
    int64_t shape[DV_MAX_DIMS];
    if (!PyArg_ParseTuple(args, "sOO!", &name, &dtype, &PyTuple_Type, &sizes))
        return NULL;
    int t = dvpy_dtype_read(dtype);
    int n = t < 0 ? -1 : read_sizes(shape, sizes);
    dv_diag *diag = n < 0 ? NULL : dv_diag_create();
    dvpy_array *whole = NULL;
    if (diag && dv_rank_exec_rank(((rank *)self)->x) == 0)
        whole = dvpy_array_new((dv_dtype)t, n, shape);
    if (!diag || PyErr_Occurred()) {
        dv_diag_destroy(diag);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    dv_status st;
    Py_BEGIN_ALLOW_THREADS st = dv_rank_exec_gather(
        ((rank *)self)->x, name, whole ? whole->data : NULL, diag);
    Py_END_ALLOW_THREADS return finish(
        whole ? (PyObject *)whole : Py_NewRef(Py_None), st, diag);
}

// -- Types --------------------------------------------------------------------

static PyMethodDef team_methods[] = {
    {"rank_and_size", rank_and_size, METH_NOARGS,
     "Its rank, and their number."},
    {"sent", sent, METH_NOARGS, "Bytes and messages that this rank sent."},
    {"array", make_array, METH_VARARGS, "An array of zeros."},
    {"join", join, METH_O, "An array of the rows that each rank has."},
    {0}};

static PyMethodDef darray_methods[] = {
    {"about", about, METH_NOARGS, "Its type, shape and boxes."},
    {"local", local, METH_NOARGS, "The memory of this rank."},
    {"halo", fill_halo, METH_NOARGS, "Fills the halo."},
    {"gather", gather, METH_O, "Collects the array."},
    {"scatter", scatter, METH_VARARGS, "Sets the array."},
    {"reduce", reduce, METH_VARARGS, "Reduces over dims."},
    {0}};

static PyMethodDef rank_methods[] = {
    {"run", run_rank, METH_NOARGS, "Runs the plan."},
    {"data", rank_data, METH_VARARGS, "The part of a tensor of this rank."},
    {"gather", rank_gather, METH_VARARGS, "Collects a tensor on rank 0."},
    {0}};

int dvpy_team_init(PyObject *module)
{
    (void)module;
    team_type = dvpy_make_type("divvy._divvy.Team", sizeof(team), destroy_team,
                               team_methods);
    darray_type = dvpy_make_type("divvy._divvy.DistArray", sizeof(darray),
                                 destroy_darray, darray_methods);
    rank_type = dvpy_make_type("divvy._divvy.Rank", sizeof(rank), destroy_rank,
                               rank_methods);
    return team_type && darray_type && rank_type ? 0 : -1;
}
