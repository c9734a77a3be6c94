// Runs in the background: every run that was started has a thread, which waits
// for the next start, so that OpenMP keeps its threads between two of them.
#define _POSIX_C_SOURCE 200809L // declares getpid
#include "exec/state.h"
#include <string.h>
#include <unistd.h>

typedef struct dv_background {
    pthread_t thread;
    pid_t process; // that has the thread
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum { IDLE, STARTED, DONE, ENDING } state;
    dv_status status; // of the last execution, with its messages
    dv_diag *diag;
} dv_background;

static void *serve(void *arg)
{
    dv_run *r = arg;
    dv_background *b = r->background;
    pthread_mutex_lock(&b->lock);
    while (b->state != ENDING) {
        if (b->state != STARTED) {
            pthread_cond_wait(&b->changed, &b->lock);
            continue;
        }
        pthread_mutex_unlock(&b->lock);
        dv_status st = dv_run_execute(r, b->diag);
        pthread_mutex_lock(&b->lock);
        b->status = st;
        b->state = DONE;
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

static void destroy(dv_background *b)
{
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    dv_diag_destroy(b->diag);
    dv_release(b);
}

static dv_status create(dv_run *r, dv_diag *diag)
{
    dv_background *b = dv_alloc(sizeof *b);
    if (!b)
        return dv_nomem(diag);
    memset(b, 0, sizeof *b);
    b->diag = dv_diag_create();
    b->process = getpid();
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    r->background = b;
    int failed = !b->diag || pthread_create(&b->thread, NULL, serve, r) != 0;
    if (!failed)
        return DV_OK;
    r->background = NULL;
    destroy(b);
    return dv_fail(diag, DV_E_SYSTEM, DV_NOWHERE,
                   "the thread of a run cannot be created");
}

// Returns whether the run was started in the background and not yet waited for.
static int is_started(const dv_run *r)
{
    dv_background *b = r->background;
    if (!b || b->process != getpid())
        return 0;
    pthread_mutex_lock(&b->lock);
    int started = b->state == STARTED || b->state == DONE;
    pthread_mutex_unlock(&b->lock);
    return started;
}

static dv_status refuse_started(const dv_run *r, dv_diag *diag)
{
    return is_started(r) ? dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                                   "the run was started, and not waited for")
                         : DV_OK;
}

dv_status dv_run_now(dv_run *r, dv_diag *diag)
{
    DV_TRY(refuse_started(r, diag));
    return dv_run_execute(r, diag);
}

dv_status dv_run_start(dv_run *r, dv_diag *diag)
{
    DV_TRY(refuse_started(r, diag));
    // A child process does not inherit the parent's background thread.
    if (!r->background || r->background->process != getpid())
        DV_TRY(create(r, diag));
    dv_background *b = r->background;
    pthread_mutex_lock(&b->lock);
    b->state = STARTED;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    return DV_OK;
}

dv_status dv_run_wait(dv_run *r, dv_diag *diag)
{
    if (!is_started(r))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "the run was not started");
    dv_background *b = r->background;
    pthread_mutex_lock(&b->lock);
    while (b->state != DONE)
        pthread_cond_wait(&b->changed, &b->lock);
    b->state = IDLE;
    dv_status st = b->status;
    dv_diag_move(diag, b->diag);
    pthread_mutex_unlock(&b->lock);
    return st;
}

void dv_run_end(dv_run *r)
{
    dv_background *b = r->background;
    r->background = NULL;
    if (!b || b->process != getpid())
        return; // the thread and its locks are those of the parent process
    pthread_mutex_lock(&b->lock);
    while (b->state == STARTED)
        pthread_cond_wait(&b->changed, &b->lock);
    b->state = ENDING;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    destroy(b);
}
