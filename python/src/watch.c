// Ctrl-C and progress while the library works without the GIL.
#define _POSIX_C_SOURCE 200809L // for clock_gettime
#include "divvy_py.h"
#include <time.h>

#define PERIOD_S .05

// The innermost watched call of this thread: a callback may make another one.
static _Thread_local dvpy_watch *current;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void dvpy_watch_begin(dvpy_watch *w, PyObject *progress)
{
    *w = (dvpy_watch){.progress = progress == Py_None ? NULL : progress,
                      .next_s = progress == Py_None ? now_s() + PERIOD_S : 0,
                      .outer = current};
    current = w;
    w->thread = PyEval_SaveThread();
}

int dvpy_watch_end(dvpy_watch *w)
{
    PyEval_RestoreThread(w->thread);
    current = w->outer;
    return PyErr_Occurred() ? -1 : 0;
}

// Calls the callback with a new reference to the share that is done, or NULL if
// it could not be made.
static int report(const dvpy_watch *w, const char *what, PyObject *done)
{
    PyObject *result =
        done ? PyObject_CallFunction(w->progress, "sO", what, done) : NULL;
    Py_XDECREF(result);
    Py_XDECREF(done);
    return result ? 0 : -1;
}

// Handles signals and reports progress, at most once in PERIOD_S seconds.
// Returns 1 if the work is to stop. `done` is negative if it is not known.
static int check(const char *what, double done)
{
    dvpy_watch *w = current;
    if (!w || now_s() < w->next_s)
        return 0;
    PyEval_RestoreThread(w->thread);
    int stop = PyErr_Occurred() || PyErr_CheckSignals() < 0;
    if (!stop && w->progress)
        stop = report(w, what,
                      done < 0 ? Py_NewRef(Py_None)
                               : PyFloat_FromDouble(done)) < 0;
    w->next_s = now_s() + PERIOD_S;
    w->thread = PyEval_SaveThread();
    return stop;
}

int dvpy_watch_plan(void *user, const char *pass)
{
    (void)user;
    return check(pass, -1);
}

int dvpy_watch_run(void *user, double done)
{
    (void)user;
    return check("run", done);
}
