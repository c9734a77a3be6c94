// Targets, the options of plans, and plans.
#include "divvy_py.h"
#include "divvy/report.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

PyTypeObject *dvpy_plan_type;

// -- Targets ------------------------------------------------------------------

dv_target *dvpy_target_parse(PyObject *text)
{
    Py_ssize_t len;
    const char *s = PyUnicode_AsUTF8AndSize(text, &len);
    dv_diag *diag = s ? dv_diag_create() : NULL;
    dv_target *t = NULL;
    if (!s)
        return NULL;
    if (!diag)
        return (dv_target *)PyErr_NoMemory();
    if (dv_target_parse(&t, s, (size_t)len, "target", diag) != DV_OK)
        dvpy_raise(diag);
    dv_diag_destroy(diag);
    return t;
}

PyObject *dvpy_target(PyObject *module, PyObject *name)
{
    (void)module;
    const char *s = PyUnicode_AsUTF8AndSize(name, NULL);
    dv_diag *diag = s ? dv_diag_create() : NULL;
    dv_target *t = NULL;
    PyObject *text = NULL;
    if (!s)
        return NULL;
    if (!diag)
        return PyErr_NoMemory();
    if (dv_target_load(&t, s, diag) == DV_OK)
        text = dvpy_take_text(dv_target_text(t));
    else
        dvpy_raise(diag);
    dv_target_destroy(t);
    dv_diag_destroy(diag);
    return text;
}

PyObject *dvpy_targets(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *all = PyList_New(0);
    for (int i = 0; all && dv_target_builtin(i); i++) {
        PyObject *name = PyUnicode_FromString(dv_target_builtin(i));
        if (!name || PyList_Append(all, name) < 0)
            Py_CLEAR(all);
        Py_XDECREF(name);
    }
    return all;
}

// -- Options ------------------------------------------------------------------

typedef enum option_type {
    INTEGER,
    SECONDS,
    TEXT,
    SWITCH, // a bool
    CHOICE, // one of the words, separated by '|', which count from 1
    TEXTS,  // a list of texts; the field behind it is its length
    RECTS,  // a list of rectangles (x0, y0, x1, y1), likewise
} option_type;

static const struct option {
    const char *name;
    option_type type;
    size_t at;
    const char *words;
} options[] = {
#define AT(field) offsetof(dv_plan_options, field)
    {"cores", INTEGER, AT(cores), NULL},
    {"threads", INTEGER, AT(threads), NULL},
    {"stop_after", TEXT, AT(stop_after), NULL},
    {"divide", CHOICE, AT(divide), "best|seed|seed+cost|span"},
    {"pins", TEXTS, AT(pins), NULL},
    {"joint", CHOICE, AT(joint), "auto|seed|off"},
    {"scratch", CHOICE, AT(scratch), "all|reductions|off"},
    {"in_place", SWITCH, AT(in_place), NULL},
    {"clone_inputs", SWITCH, AT(clone_inputs), NULL},
    {"ring", SWITCH, AT(ring), NULL},
    {"evict", SWITCH, AT(evict), NULL},
    {"reorder", SWITCH, AT(reorder), NULL},
    {"recompute", SWITCH, AT(recompute), NULL},
    {"tenants", CHOICE, AT(tenants), "one|many"},
    {"solver", CHOICE, AT(solver), "auto|exact|anneal|bestfit|firstfit|greedy"},
    {"place_budget", INTEGER, AT(place_budget), NULL},
    {"time_limit", SECONDS, AT(time_limit_s), NULL},
    {"team", INTEGER, AT(team), NULL},
    {"rank", INTEGER, AT(rank), NULL},
    {"grid", TEXT, AT(grid), NULL},
    {"policy", TEXT, AT(policy), NULL},
    {"order", TEXT, AT(order), NULL},
    {"allow", RECTS, AT(allowed), NULL},
    {"holes", RECTS, AT(holes), NULL},
    {"bars", TEXTS, AT(bars), NULL},
    {"tiles_per_core", INTEGER, AT(tiles_per_core), NULL},
    {"constants", TEXTS, AT(constants), NULL},
#undef AT
};
enum { N_OPTIONS = sizeof options / sizeof *options };

// Returns the UTF-8 of a text, which lives as long as the options.
static const char *keep_text(dvpy_plan_options *o, PyObject *text)
{
    const char *s = PyUnicode_AsUTF8AndSize(text, NULL);
    return s && PyList_Append(o->keep, text) == 0 ? s : NULL;
}

// Returns memory for n elements, at least one.
static void *keep_list(dvpy_plan_options *o, Py_ssize_t n, size_t size)
{
    void *list = n >= 0 ? calloc((size_t)n + 1, size) : NULL;
    if (list)
        o->lists[o->n_lists++] = list;
    else if (!PyErr_Occurred())
        PyErr_NoMemory();
    return list;
}

static int read_texts(dvpy_plan_options *o, PyObject *value, char *field)
{
    Py_ssize_t n = PySequence_Size(value);
    const char **list = keep_list(o, n, sizeof *list);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *text = PySequence_GetItem(value, i);
        list[i] = text ? keep_text(o, text) : NULL;
        Py_XDECREF(text);
        if (!list[i])
            return -1;
    }
    memcpy(field, &list, sizeof list);
    memcpy(field + sizeof list, &(size_t){(size_t)n}, sizeof(size_t));
    return list ? 0 : -1;
}

static int read_rects(dvpy_plan_options *o, PyObject *value, char *field)
{
    Py_ssize_t n = PySequence_Size(value);
    dv_core_rect *list = keep_list(o, n, sizeof *list);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        dv_core_rect *r = &list[i];
        PyObject *one = PySequence_GetItem(value, i);
        PyObject *four = one ? PySequence_Tuple(one) : NULL;
        int ok = four &&
                 PyArg_ParseTuple(four, "iiii", &r->x0, &r->y0, &r->x1, &r->y1);
        Py_XDECREF(one);
        Py_XDECREF(four);
        if (!ok)
            return -1;
    }
    memcpy(field, &list, sizeof list);
    memcpy(field + sizeof list, &(size_t){(size_t)n}, sizeof(size_t));
    return list ? 0 : -1;
}

// Returns the number of a word in a list of them, from 1 on; 0: it is none.
static int find_word(const char *words, const char *word)
{
    size_t len = strlen(word);
    for (int i = 1;; i++) {
        size_t n = strcspn(words, "|");
        if (n == len && memcmp(words, word, n) == 0)
            return i;
        if (!words[n])
            return 0;
        words += n + 1;
    }
}

static int read_choice(const struct option *o, PyObject *value, char *field)
{
    const char *word = PyUnicode_AsUTF8AndSize(value, NULL);
    int choice = word ? find_word(o->words, word) : 0;
    if (word && !choice)
        dvpy_fail(DV_E_USAGE, "%s is one of %s, not '%s'", o->name, o->words,
                  word);
    memcpy(field, &choice, sizeof choice);
    return choice ? 0 : -1;
}

static int read_option(dvpy_plan_options *to, const struct option *o,
                       PyObject *value)
{
    char *field = (char *)&to->o + o->at;
    if (value == Py_None)
        return 0;
    switch (o->type) {
    case INTEGER: {
        int64_t n = PyLong_AsLongLong(value);
        memcpy(field, &n, sizeof n);
        return n == -1 && PyErr_Occurred() ? -1 : 0;
    }
    case SECONDS: {
        double s = PyFloat_AsDouble(value);
        memcpy(field, &s, sizeof s);
        return PyErr_Occurred() ? -1 : 0;
    }
    case TEXT: {
        const char *s = keep_text(to, value);
        memcpy(field, &s, sizeof s);
        return s ? 0 : -1;
    }
    case SWITCH: {
        int is = PyObject_IsTrue(value);
        memcpy(field, &(dv_switch){is ? DV_ON : DV_OFF}, sizeof(dv_switch));
        return is < 0 ? -1 : 0;
    }
    case CHOICE:
        return read_choice(o, value, field);
    case TEXTS:
        return read_texts(to, value, field);
    case RECTS:
        return read_rects(to, value, field);
    }
    return 0;
}

int dvpy_plan_options_read(dvpy_plan_options *out, PyObject *dict)
{
    Py_ssize_t at = 0;
    PyObject *name, *value;
    *out =
        (dvpy_plan_options){.o = DV_PLAN_OPTIONS_INIT, .keep = PyList_New(0)};
    out->o.watch = dvpy_watch_plan;
    if (!out->keep)
        return -1;
    while (PyDict_Next(dict, &at, &name, &value)) {
        const char *s = PyUnicode_AsUTF8AndSize(name, NULL);
        int i = 0;
        while (s && i < N_OPTIONS && strcmp(options[i].name, s) != 0)
            i++;
        if (s && i == N_OPTIONS)
            PyErr_Format(PyExc_TypeError, "a plan has no option '%s'", s);
        if (!s || i == N_OPTIONS || read_option(out, &options[i], value) < 0) {
            dvpy_plan_options_free(out);
            return -1;
        }
    }
    return 0;
}

void dvpy_plan_options_free(dvpy_plan_options *o)
{
    Py_CLEAR(o->keep);
    for (int i = 0; i < o->n_lists; i++)
        free(o->lists[i]);
    o->n_lists = 0;
}

// -- Plans --------------------------------------------------------------------

static void destroy(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    dv_plan_destroy(((dvpy_plan *)self)->plan);
    PyObject_Free(self);
    Py_DECREF(type);
}

// Takes over the plan. If there is none, sets the exception of `diag`.
static PyObject *wrap(dv_plan *plan, dv_diag *diag)
{
    if (!plan)
        return dvpy_raise(diag);
    dvpy_plan *x = PyObject_New(dvpy_plan, dvpy_plan_type);
    if (x)
        x->plan = plan;
    else
        dv_plan_destroy(plan);
    return (PyObject *)x;
}

// plan(program, target, options, progress): the target is its text.
PyObject *dvpy_plan_make(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *program, *text, *dict, *progress;
    dvpy_plan_options o;
    if (!PyArg_ParseTuple(args, "O!OO!O", dvpy_program_type, &program, &text,
                          &PyDict_Type, &dict, &progress) ||
        dvpy_plan_options_read(&o, dict) < 0)
        return NULL;
    dv_target *target = dvpy_target_parse(text);
    dv_diag *diag = dv_diag_create();
    PyObject *x = NULL;
    if (target && diag) {
        dv_plan *plan = NULL;
        dvpy_watch w;
        dvpy_watch_begin(&w, progress);
        dv_plan_create(&plan, ((dvpy_program *)program)->p, target, &o.o, diag);
        if (dvpy_watch_end(&w) == 0)
            x = wrap(plan, diag);
        else
            dv_plan_destroy(plan);
    } else if (!PyErr_Occurred())
        PyErr_NoMemory();
    dv_target_destroy(target);
    dv_diag_destroy(diag);
    dvpy_plan_options_free(&o);
    return x;
}

// plan_parse(text, name, start_at, options, progress)
PyObject *dvpy_plan_parse(PyObject *module, PyObject *args)
{
    (void)module;
    const char *text, *name, *start_at;
    Py_ssize_t len;
    PyObject *dict, *progress;
    dvpy_plan_options o;
    if (!PyArg_ParseTuple(args, "s#szO!O", &text, &len, &name, &start_at,
                          &PyDict_Type, &dict, &progress) ||
        dvpy_plan_options_read(&o, dict) < 0)
        return NULL;
    dv_diag *diag = dv_diag_create();
    PyObject *x = NULL;
    if (diag) {
        dv_plan *plan = NULL;
        dvpy_watch w;
        dvpy_watch_begin(&w, progress);
        dv_plan_parse(&plan, text, (size_t)len, name, start_at, &o.o, diag);
        if (dvpy_watch_end(&w) == 0)
            x = wrap(plan, diag);
        else
            dv_plan_destroy(plan);
    } else
        PyErr_NoMemory();
    dv_diag_destroy(diag);
    dvpy_plan_options_free(&o);
    return x;
}

static PyObject *text(PyObject *self, PyObject *unused)
{
    (void)unused;
    return dvpy_take_text(dv_plan_text(((dvpy_plan *)self)->plan));
}

static PyObject *json(PyObject *self, PyObject *unused)
{
    (void)unused;
    return dvpy_take_text(dv_plan_json(((dvpy_plan *)self)->plan));
}

// Returns None, or sets the exception of `diag`. Frees `diag`.
static PyObject *none_or_raise(dv_status st, dv_diag *diag)
{
    if (st != DV_OK)
        dvpy_raise(diag);
    dv_diag_destroy(diag);
    return st == DV_OK ? Py_NewRef(Py_None) : NULL;
}

static PyObject *check(PyObject *self, PyObject *unused)
{
    (void)unused;
    dv_diag *diag = dv_diag_create();
    dv_status st;
    if (!diag)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS st = dv_plan_check(((dvpy_plan *)self)->plan, diag);
    Py_END_ALLOW_THREADS return none_or_raise(st, diag);
}

// emit(format, folder)
static PyObject *emit(PyObject *self, PyObject *args)
{
    int format;
    const char *folder;
    dv_diag *diag = dv_diag_create();
    if (!diag)
        return PyErr_NoMemory();
    if (!PyArg_ParseTuple(args, "is", &format, &folder)) {
        dv_diag_destroy(diag);
        return NULL;
    }
    dv_status st;
    Py_BEGIN_ALLOW_THREADS st = dv_plan_emit(
        ((dvpy_plan *)self)->plan, (dv_emit_format)format, folder, diag);
    Py_END_ALLOW_THREADS return none_or_raise(st, diag);
}

// report(is_trace, changes, options, other): the page or the trace of a plan
// that was made with these options, as text.
static PyObject *report(PyObject *self, PyObject *args)
{
    int is_trace, changes;
    PyObject *dict, *other;
    dvpy_plan_options made_with;
    dv_report_options o = DV_REPORT_OPTIONS_INIT;
    if (!PyArg_ParseTuple(args, "ppO!O", &is_trace, &changes, &PyDict_Type,
                          &dict, &other) ||
        dvpy_plan_options_read(&made_with, dict) < 0)
        return NULL;
    o.changes = changes ? DV_ON : DV_OFF;
    o.made_with = &made_with.o;
    if (Py_TYPE(other) == dvpy_plan_type)
        o.other = ((dvpy_plan *)other)->plan;
    dv_diag *diag = dv_diag_create();
    const dv_plan *plan = ((dvpy_plan *)self)->plan;
    char *page = NULL;
    dv_status st = DV_E_NOMEM;
    int ok = 0;
    if (diag) {
        dvpy_watch w;
        dvpy_watch_begin(&w, NULL);
        st = is_trace ? dv_report_trace(&page, plan, &o, diag)
                      : dv_report_html(&page, plan, &o, diag);
        ok = dvpy_watch_end(&w) == 0;
    }
    PyObject *text = NULL;
    if (ok && st == DV_OK)
        text = dvpy_take_text(page);
    else if (st == DV_OK)
        dv_free(page);
    else if (diag)
        dvpy_raise(diag);
    else
        PyErr_NoMemory();
    dv_diag_destroy(diag);
    dvpy_plan_options_free(&made_with);
    return text;
}

static PyMethodDef methods[] = {
    {"text", text, METH_NOARGS, "The plan as text."},
    {"json", json, METH_NOARGS, "The plan as JSON."},
    {"check", check, METH_NOARGS, "Proves that the plan is correct."},
    {"emit", emit, METH_VARARGS, "Writes the plan as source files or tables."},
    {"report", report, METH_VARARGS, "The plan as a page or a trace."},
    {0}};

int dvpy_plan_init(PyObject *module)
{
    (void)module;
    dvpy_plan_type = dvpy_make_type("divvy._divvy.Plan", sizeof(dvpy_plan),
                                    destroy, methods);
    return dvpy_plan_type ? 0 : -1;
}
