// Runs of programs and of plans with arrays.
//
// A runner is a session, which makes plans for the shapes of the arrays that it
// is given, or an exec, which has one plan. Several threads may run it at once:
// sessions see to that themselves, and of an exec every thread takes a dv_run.
// Constants are bound once, and changed only while nobody runs.
#include "divvy_py.h"
#include "divvy/session.h"
#include <stdlib.h>
#include <string.h>

enum { N_IDLE = 8, MOST_SHAPES = 64 };

static PyTypeObject *runner_type;

typedef struct runner {
    PyObject ob_base;
    PyObject *of;        // the plan, or the model of the program or plan; NULL
    PyObject *plan;      // of an exec
    dv_session *session; // one of these two
    dv_exec *exec;
    dvpy_plan_options options; // of a session
    dv_tensor_info *operands;  // with the program's own params; owned
    size_t n_operands;
    // What is bound to constants, and the objects that it was taken from, by
    // operand; NULL: nothing is bound. `weights` are those of a model.
    dvpy_operand **constants;
    PyObject **given;
    const void **weights;
    // A dict from the shapes of inputs to those of operands, as bytes.
    PyObject *shapes;
    dv_run *idle[N_IDLE];
    int n_idle;
    int users; // threads that run it
} runner;

// -- Runners ------------------------------------------------------------------

static void drop_runs(runner *r)
{
    while (r->n_idle)
        dv_run_destroy(r->idle[--r->n_idle]);
}

static void drop_constant(runner *r, size_t i)
{
    if (r->constants && r->constants[i])
        dvpy_operand_release(r->constants[i]);
    if (r->constants) {
        free(r->constants[i]);
        r->constants[i] = NULL;
    }
    if (r->given)
        Py_CLEAR(r->given[i]);
}

static void destroy(PyObject *self)
{
    runner *r = (runner *)self;
    PyTypeObject *type = Py_TYPE(self);
    drop_runs(r);
    dv_exec_destroy(r->exec);
    dv_session_destroy(r->session);
    for (size_t i = 0; i < r->n_operands; i++)
        drop_constant(r, i);
    dvpy_plan_options_free(&r->options);
    free(r->operands);
    free(r->constants);
    free(r->given);
    free(r->weights);
    Py_XDECREF(r->shapes);
    Py_XDECREF(r->plan);
    Py_XDECREF(r->of);
    PyObject_Free(self);
    Py_DECREF(type);
}

static runner *make(PyObject *of)
{
    runner *r = PyObject_New(runner, runner_type);
    if (!r)
        return NULL;
    memset((char *)r + sizeof r->ob_base, 0, sizeof *r - sizeof r->ob_base);
    r->of = of && of != Py_None ? Py_NewRef(of) : NULL;
    r->shapes = PyDict_New();
    return r;
}

// Lists the operands with their types and roles, and the weights of a model.
static int list_operands(runner *r, const dv_program *p)
{
    int n = dv_program_n_tensors(p);
    r->operands = calloc((size_t)n + 1, sizeof *r->operands);
    r->constants = calloc((size_t)n + 1, sizeof *r->constants);
    r->given = calloc((size_t)n + 1, sizeof *r->given);
    r->weights = calloc((size_t)n + 1, sizeof *r->weights);
    if (!r->operands || !r->constants || !r->given || !r->weights)
        return -1;
    for (int i = 0; i < n; i++) {
        dv_tensor_info *to = &r->operands[r->n_operands];
        dv_program_tensor(p, i, to);
        r->n_operands += to->role != DV_ROLE_TEMPORARY;
    }
    return 0;
}

static void list_weights(runner *r, PyObject *model)
{
    const void *data;
    const char *name;
    for (int k = 0; (name = dvpy_model_weight(model, k, &data)); k++)
        for (size_t i = 0; i < r->n_operands; i++)
            if (strcmp(r->operands[i].name, name) == 0)
                r->weights[i] = data;
}

static dv_operand operand_of(const dv_tensor_info *t, void *data)
{
    dv_operand o = DV_OPERAND_INIT;
    o.name = t->name;
    o.dtype = t->dtype;
    o.n_dims = t->n_dims;
    o.shape = t->shape;
    o.data = data;
    return o;
}

static dv_status bind_constant(runner *r, const dv_tensor_info *t, void *data,
                               dv_diag *diag)
{
    dv_operand o = operand_of(t, data);
    return r->session ? dv_session_constant(r->session, &o, diag)
                      : dv_exec_bind(r->exec, t->name, data,
                                     (size_t)t->size_bytes, diag);
}

static dv_status bind_weights(runner *r, dv_diag *diag)
{
    dv_status st = DV_OK;
    for (size_t i = 0; i < r->n_operands && st == DV_OK; i++)
        if (r->weights[i] && r->operands[i].role == DV_ROLE_CONSTANT)
            st = bind_constant(r, &r->operands[i],
                               (void *)(uintptr_t)r->weights[i], diag);
    return st;
}

// session(program, target, options, capacity): the target is its text.
PyObject *dvpy_session(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *program, *text, *dict;
    long long capacity;
    if (!PyArg_ParseTuple(args, "O!OO!L", dvpy_program_type, &program, &text,
                          &PyDict_Type, &dict, &capacity))
        return NULL;
    dv_target *target = dvpy_target_parse(text);
    dv_diag *diag = target ? dv_diag_create() : NULL;
    runner *r = diag ? make(program) : NULL;
    const dv_program *p = ((dvpy_program *)program)->p;
    if (r && dvpy_plan_options_read(&r->options, dict) == 0 &&
        list_operands(r, p) == 0) {
        PyObject *model = ((dvpy_program *)program)->model;
        dv_session_options o = DV_SESSION_OPTIONS_INIT;
        o.plan = &r->options.o;
        o.capacity = capacity;
        o.watch = dvpy_watch_run;
        dv_status st = dv_session_create(&r->session, p, target, &o, diag);
        if (st == DV_OK && model) {
            list_weights(r, model);
            st = bind_weights(r, diag);
        }
        if (st != DV_OK) {
            Py_CLEAR(r);
            dvpy_raise(diag);
        }
    } else
        Py_CLEAR(r);
    if (!r && !PyErr_Occurred())
        PyErr_NoMemory();
    dv_diag_destroy(diag);
    dv_target_destroy(target);
    return (PyObject *)r;
}

static int list_of_exec(runner *r)
{
    size_t n = 0;
    dv_tensor_info info;
    while (dv_exec_operand(r->exec, (int)n, &info) == DV_OK)
        n++;
    r->operands = calloc(n + 1, sizeof *r->operands);
    r->constants = calloc(n + 1, sizeof *r->constants);
    r->given = calloc(n + 1, sizeof *r->given);
    r->weights = calloc(n + 1, sizeof *r->weights);
    if (!r->operands || !r->constants || !r->given || !r->weights)
        return -1;
    r->n_operands = n;
    for (size_t i = 0; i < n; i++)
        dv_exec_operand(r->exec, (int)i, &r->operands[i]);
    return 0;
}

// exec(plan, model, executor): the model is None, or the one whose weights are
// bound; the executor is a number of dv_executor, or -1.
PyObject *dvpy_exec(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *plan, *model;
    int executor;
    if (!PyArg_ParseTuple(args, "O!Oi", dvpy_plan_type, &plan, &model,
                          &executor))
        return NULL;
    dv_diag *diag = dv_diag_create();
    runner *r = diag ? make(model) : NULL;
    if (r) {
        r->plan = Py_NewRef(plan);
        dv_status st;
        Py_BEGIN_ALLOW_THREADS st =
            dv_exec_create(&r->exec, ((dvpy_plan *)plan)->plan, diag);
        if (st == DV_OK && executor >= 0)
            st = dv_exec_use(r->exec, (dv_executor)executor, diag);
        Py_END_ALLOW_THREADS if (st == DV_OK && list_of_exec(r) < 0) st =
            DV_E_NOMEM;
        if (st == DV_OK && r->of) {
            list_weights(r, r->of);
            st = bind_weights(r, diag);
        }
        if (st != DV_OK) {
            Py_CLEAR(r);
            dvpy_raise(diag);
        }
    }
    if (!r && !PyErr_Occurred())
        PyErr_NoMemory();
    dv_diag_destroy(diag);
    return (PyObject *)r;
}

// -- Operands of a run --------------------------------------------------------

typedef struct item {
    dv_tensor_info info; // with the shapes of this run
    PyObject *array;     // what is given for it, borrowed; NULL: nothing is
    PyObject *result;    // what is returned for it; owned; NULL: nothing
    dvpy_operand memory; // what is bound
    int is_bound;
} item;

typedef struct job {
    runner *r;
    item *items;          // by operand
    dv_operand *operands; // of the library
    size_t n;             // of these
    PyObject *like;       // borrowed; NULL: no array is given
    dv_diag *diag;
} job;

static void end_job(job *j)
{
    for (size_t i = 0; j->items && i < j->r->n_operands; i++) {
        if (j->items[i].is_bound)
            dvpy_operand_release(&j->items[i].memory);
        Py_XDECREF(j->items[i].result);
    }
    free(j->items);
    free(j->operands);
    dv_diag_destroy(j->diag);
}

static int is_input(const dv_tensor_info *t)
{
    return t->role == DV_ROLE_INPUT || t->role == DV_ROLE_INOUT;
}

static int is_output(const dv_tensor_info *t)
{
    return t->role == DV_ROLE_OUTPUT || t->role == DV_ROLE_INOUT;
}

static int begin_job(job *j, runner *r)
{
    *j = (job){.r = r,
               .items = calloc(r->n_operands + 1, sizeof *j->items),
               .operands = calloc(r->n_operands + 1, sizeof *j->operands),
               .diag = dv_diag_create()};
    if (!j->items || !j->operands || !j->diag) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < r->n_operands; i++)
        j->items[i].info = r->operands[i];
    return 0;
}

// Finds the operands that the names of a dict mean. `is_wanted` says which
// operands the dict may have.
static int find_arrays(job *j, PyObject *dict,
                       int (*is_wanted)(const dv_tensor_info *), int as_result)
{
    Py_ssize_t at = 0;
    PyObject *name, *array;
    while (PyDict_Next(dict, &at, &name, &array)) {
        const char *s = PyUnicode_AsUTF8AndSize(name, NULL);
        if (!s)
            return -1;
        size_t i = 0;
        while (i < j->r->n_operands && strcmp(j->r->operands[i].name, s) != 0)
            i++;
        if (i == j->r->n_operands || !is_wanted(&j->r->operands[i])) {
            dvpy_fail(DV_E_NAME, "there is no %s %s",
                      as_result ? "output" : "input", s);
            return -1;
        }
        if (as_result)
            j->items[i].result = Py_NewRef(array);
        else
            j->items[i].array = array;
    }
    return 0;
}

static int is_given(const dv_tensor_info *t)
{
    return !t->file && (is_input(t) || t->role == DV_ROLE_CONSTANT);
}

static int get_memory(item *x, PyObject *array)
{
    if (dvpy_operand_get(&x->memory, array) < 0)
        return -1;
    x->is_bound = 1;
    return 0;
}

// Copies elements between arrays of one shape and type.
static void copy_dims(int d, char *to, const dvpy_operand *t, const char *from,
                      const dvpy_operand *f)
{
    int64_t size = dvpy_dtype_size(t->dtype);
    if (d == t->n_dims) {
        memcpy(to, from, (size_t)size);
        return;
    }
    if (d == t->n_dims - 1 && t->strides[d] == 1 && f->strides[d] == 1) {
        memcpy(to, from, (size_t)(size * t->shape[d]));
        return;
    }
    for (int64_t i = 0; i < t->shape[d]; i++)
        copy_dims(d + 1, to + i * t->strides[d] * size, t,
                  from + i * f->strides[d] * size, f);
}

static int copy_array(const char *name, const dvpy_operand *to,
                      const dvpy_operand *from)
{
    if (to->n_dims != from->n_dims || to->dtype != from->dtype ||
        memcmp(to->shape, from->shape,
               (size_t)to->n_dims * sizeof *to->shape)) {
        dvpy_fail(to->dtype == from->dtype ? DV_E_SHAPE : DV_E_DTYPE,
                  "%s has another shape or type than the array that is given "
                  "for it",
                  name);
        return -1;
    }
    copy_dims(0, to->data, to, from->data, from);
    return 0;
}

// -- Constants ----------------------------------------------------------------

// Copies the elements of a constant's array if they are not row-major. Returns
// -1 with an exception; the operand is released then.
static int make_dense(dvpy_operand *o, const char *name)
{
    if (dvpy_operand_is_dense(o))
        return 0;
    dvpy_operand copy;
    PyObject *a =
        dvpy_result_new(&copy, DVPY_ARRAY, o->dtype, o->n_dims, o->shape);
    if (a)
        copy_array(name, &copy, o);
    dvpy_operand_release(o);
    Py_XDECREF(a); // `copy` keeps it
    if (!a)
        return -1;
    *o = copy;
    return 0;
}

// Binds an array to a constant. Elements that are not row-major are copied.
static int set_constant(job *j, size_t i, PyObject *array)
{
    runner *r = j->r;
    const dv_tensor_info *t = &r->operands[i];
    if (r->given[i] == array)
        return 0;
    if (r->users > 0) {
        dvpy_fail(DV_E_USAGE,
                  "%s is a constant, which does not change while "
                  "another thread runs the program",
                  t->name);
        return -1;
    }
    dvpy_operand *o = calloc(1, sizeof *o);
    if (!o) {
        PyErr_NoMemory();
        return -1;
    }
    if (dvpy_operand_get(o, array) < 0 || make_dense(o, t->name) < 0) {
        free(o);
        return -1;
    }
    dv_operand is = operand_of(t, o->data);
    is.dtype = o->dtype;
    is.n_dims = o->n_dims;
    is.shape = o->shape;
    drop_runs(r);
    int same = r->session || (o->dtype == t->dtype && o->n_dims == t->n_dims &&
                              !memcmp(o->shape, t->shape,
                                      (size_t)t->n_dims * sizeof *t->shape));
    dv_status st = DV_E_SHAPE;
    if (r->session)
        st = dv_session_constant(r->session, &is, j->diag);
    else if (same)
        st = dv_exec_bind(r->exec, t->name, o->data, (size_t)t->size_bytes,
                          j->diag);
    else
        dvpy_fail(st, "the constant %s has another type or shape", t->name);
    if (st != DV_OK) {
        dvpy_raise(j->diag);
        dvpy_operand_release(o);
        free(o);
        return -1;
    }
    drop_constant(r, i);
    r->constants[i] = o;
    r->given[i] = Py_NewRef(array);
    PyDict_Clear(r->shapes);
    return 0;
}

// -- Shapes -------------------------------------------------------------------

static int find_shapes(job *j, const dv_operand *in, size_t n)
{
    for (size_t i = 0; i < j->r->n_operands; i++) {
        dv_status st = dv_session_operand(j->r->session, in, n, (int)i,
                                          &j->items[i].info, j->diag);
        if (st != DV_OK) {
            dvpy_raise(j->diag);
            return -1;
        }
    }
    return 0;
}

// Sets the shapes of the operands of a session. They are cached by the shapes
// of the inputs that are bound.
static int set_shapes(job *j)
{
    runner *r = j->r;
    size_t n = 0, bytes = r->n_operands * sizeof *r->operands;
    enum { WORDS = DV_MAX_DIMS + 1 };
    int64_t *words = calloc(r->n_operands * WORDS + 1, sizeof *words);
    if (!words) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < r->n_operands; i++) {
        const item *x = &j->items[i];
        if (!x->is_bound)
            continue;
        words[i * WORDS] = x->memory.n_dims;
        memcpy(&words[i * WORDS + 1], x->memory.shape,
               (size_t)x->memory.n_dims * sizeof *words);
        dv_operand o = operand_of(&x->info, NULL);
        o.n_dims = x->memory.n_dims;
        o.shape = x->memory.shape;
        j->operands[n++] = o;
    }
    PyObject *key = PyBytes_FromStringAndSize(
        (char *)words, (Py_ssize_t)(r->n_operands * WORDS * sizeof *words));
    free(words);
    PyObject *found = key ? PyDict_GetItemWithError(r->shapes, key) : NULL;
    dv_tensor_info *all = malloc(bytes + 1);
    int st = key && all && !PyErr_Occurred() ? 0 : -1;
    if (found) {
        memcpy(all, PyBytes_AsString(found), bytes);
        for (size_t i = 0; i < r->n_operands; i++)
            j->items[i].info = all[i];
    } else if (st == 0 && (st = find_shapes(j, j->operands, n)) == 0) {
        for (size_t i = 0; i < r->n_operands; i++)
            all[i] = j->items[i].info;
        PyObject *value =
            PyBytes_FromStringAndSize((char *)all, (Py_ssize_t)bytes);
        if (PyDict_Size(r->shapes) >= MOST_SHAPES)
            PyDict_Clear(r->shapes);
        st = value ? PyDict_SetItem(r->shapes, key, value) : -1;
        Py_XDECREF(value);
    }
    free(all);
    Py_XDECREF(key);
    return st;
}

// -- Runs ---------------------------------------------------------------------

// Makes the memory of an output, or takes that which the caller gives.
static int bind_output(item *x, dvpy_kind kind)
{
    if (x->result) {
        if (get_memory(x, x->result) < 0)
            return -1;
        if (!x->memory.is_readonly && !x->memory.is_copy)
            return 0;
        dvpy_fail(DV_E_USAGE, "the array for %s cannot be written",
                  x->info.name);
        return -1;
    }
    x->result = dvpy_result_new(&x->memory, kind, x->info.dtype, x->info.n_dims,
                                x->info.shape);
    x->is_bound = x->result != NULL;
    return x->result ? 0 : -1;
}

// Binds an input that the program updates: the caller's array if `update` is 1,
// else a copy, which becomes a result.
static int bind_updated(item *x, dvpy_kind kind, int update)
{
    if (update && !x->result) {
        x->result = Py_NewRef(x->array);
        return 0;
    }
    dvpy_operand from = x->memory;
    x->is_bound = 0;
    int st = bind_output(x, kind);
    if (st == 0)
        st = copy_array(x->info.name, &x->memory, &from);
    dvpy_operand_release(&from);
    return st;
}

static int bind_inputs(job *j, int update)
{
    for (size_t i = 0; i < j->r->n_operands; i++) {
        item *x = &j->items[i];
        const dv_tensor_info *t = &x->info;
        if (!is_given(t))
            continue;
        if (t->role == DV_ROLE_CONSTANT && x->array) {
            if (set_constant(j, i, x->array) < 0)
                return -1;
        } else if (x->array) {
            if (get_memory(x, x->array) < 0)
                return -1;
            if (!j->like)
                j->like = x->array;
            if (update && t->role == DV_ROLE_INOUT && !x->result &&
                (x->memory.is_readonly || x->memory.is_copy)) {
                dvpy_fail(DV_E_USAGE, "the array for %s cannot be written",
                          t->name);
                return -1;
            }
        } else if (!j->r->weights[i] && !j->r->constants[i]) {
            dvpy_fail(DV_E_USAGE, "there is no array for %s", t->name);
            return -1;
        }
    }
    return 0;
}

// Lists what the library binds.
static void list_bound(job *j)
{
    j->n = 0;
    for (size_t i = 0; i < j->r->n_operands; i++) {
        const item *x = &j->items[i];
        dv_operand o =
            operand_of(&x->info, (void *)(uintptr_t)j->r->weights[i]);
        if (x->is_bound) {
            o.dtype = x->memory.dtype;
            o.n_dims = x->memory.n_dims;
            o.shape = x->memory.shape;
            o.strides = x->memory.strides;
            o.data = x->memory.data;
        } else if (!o.data || x->info.role == DV_ROLE_CONSTANT)
            continue;
        j->operands[j->n++] = o;
    }
}

// Runs an exec; called without the GIL.
static dv_status run_exec(dv_run *run, const job *j)
{
    for (size_t i = 0; i < j->n; i++) {
        dv_status st = dv_run_bind(run, &j->operands[i], j->diag);
        if (st != DV_OK)
            return st;
    }
    return dv_run_now(run, j->diag);
}

static int run_job(job *j, PyObject *progress)
{
    runner *r = j->r;
    dv_status st = DV_OK;
    dv_run *run = r->n_idle ? r->idle[--r->n_idle] : NULL;
    dvpy_watch w;
    r->users++;
    dvpy_watch_begin(&w, progress);
    if (r->session)
        st = dv_session_run(r->session, j->operands, j->n, j->diag);
    else {
        if (!run)
            st = dv_run_create(&run, r->exec, NULL, j->diag);
        if (st == DV_OK) {
            dv_run_watch(run, dvpy_watch_run, NULL);
            st = run_exec(run, j);
        }
    }
    int stopped = dvpy_watch_end(&w) < 0;
    r->users--;
    if (run && r->n_idle < N_IDLE)
        r->idle[r->n_idle++] = run;
    else
        dv_run_destroy(run);
    if (st != DV_OK)
        dvpy_raise(j->diag);
    return stopped || st != DV_OK ? -1 : 0;
}

static PyObject *take_results(job *j, dvpy_kind kind, PyObject *outs)
{
    PyObject *all = PyDict_New();
    for (size_t i = 0; all && i < j->r->n_operands; i++) {
        item *x = &j->items[i];
        if (!x->result)
            continue;
        if (x->is_bound)
            dvpy_operand_release(&x->memory);
        x->is_bound = 0;
        PyObject *array = x->result;
        x->result = NULL;
        int is_own =
            array != x->array && !PyDict_GetItemString(outs, x->info.name);
        if (is_own && j->like)
            array = dvpy_result_finish(array, kind, j->like);
        if (!array || PyDict_SetItemString(all, x->info.name, array) < 0)
            Py_CLEAR(all);
        Py_XDECREF(array);
    }
    return all;
}

// Runner.run(arrays, outs, update, progress)
static PyObject *run(PyObject *self, PyObject *args)
{
    PyObject *arrays, *outs, *progress;
    int update;
    if (!PyArg_ParseTuple(args, "O!O!pO", &PyDict_Type, &arrays, &PyDict_Type,
                          &outs, &update, &progress))
        return NULL;
    job j;
    runner *r = (runner *)self;
    int st = begin_job(&j, r);
    if (st == 0)
        st = find_arrays(&j, arrays, is_given, 0);
    if (st == 0)
        st = find_arrays(&j, outs, is_output, 1);
    if (st == 0)
        st = bind_inputs(&j, update);
    if (st == 0 && r->session)
        st = set_shapes(&j);
    dvpy_kind kind = j.like ? dvpy_kind_of(j.like) : DVPY_ARRAY;
    for (size_t i = 0; st == 0 && i < r->n_operands; i++) {
        item *x = &j.items[i];
        if (x->info.role == DV_ROLE_INOUT)
            st = bind_updated(x, kind, update);
        else if (x->info.role == DV_ROLE_OUTPUT)
            st = bind_output(x, kind);
    }
    if (st == 0) {
        list_bound(&j);
        st = run_job(&j, progress);
    }
    PyObject *result = st == 0 ? take_results(&j, kind, outs) : NULL;
    end_job(&j);
    return result;
}

// Runner.made_up(name, seed): an Array with the elements that `divvy run` makes
// up for an input.
static PyObject *made_up(PyObject *self, PyObject *args)
{
    const char *name;
    unsigned long long seed;
    runner *r = (runner *)self;
    if (!PyArg_ParseTuple(args, "sK", &name, &seed))
        return NULL;
    for (size_t i = 0; r->exec && i < r->n_operands; i++) {
        const dv_tensor_info *t = &r->operands[i];
        if (strcmp(t->name, name) != 0)
            continue;
        dvpy_array *a = dvpy_array_new(t->dtype, t->n_dims, t->shape);
        if (!a)
            return NULL;
        Py_BEGIN_ALLOW_THREADS dv_exec_fill(r->exec, (int)i, seed, a->data);
        Py_END_ALLOW_THREADS return (PyObject *)a;
    }
    dvpy_fail(DV_E_NAME, "the plan has no operand %s", name);
    return NULL;
}

// Runner.stats(): plans that are kept, hits, misses, and plans that were
// dropped.
static PyObject *stats(PyObject *self, PyObject *unused)
{
    (void)unused;
    dv_session_stats s = {0};
    if (((runner *)self)->session)
        dv_session_stats_get(((runner *)self)->session, &s);
    return Py_BuildValue("(LLLL)", (long long)s.n_plans, (long long)s.n_hits,
                         (long long)s.n_misses, (long long)s.n_evicted);
}

static PyMethodDef methods[] = {
    {"run", run, METH_VARARGS, "Runs with a dict of arrays."},
    {"made_up", made_up, METH_VARARGS, "An array for an input."},
    {"stats", stats, METH_NOARGS, "Numbers of plans and of hits."},
    {0}};

int dvpy_run_init(PyObject *module)
{
    (void)module;
    runner_type =
        dvpy_make_type("divvy._divvy.Runner", sizeof(runner), destroy, methods);
    return runner_type ? 0 : -1;
}
