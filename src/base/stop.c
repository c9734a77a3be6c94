#include "base/stop.h"
#include "base/clock.h"

// The innermost cancellable call that this thread is executing.
static _Thread_local dv_stop *current;

void dv_stop_begin(dv_stop *s)
{
    s->outer = current;
    current = s;
}

void dv_stop_end(const dv_stop *s)
{
    current = s->outer;
}

void dv_stop_step(const char *step)
{
    if (current)
        current->step = step;
}

int dv_stop_wanted(void)
{
    for (dv_stop *s = current; s; s = s->outer) {
        if (!s->stopped && s->watch)
            s->stopped = s->watch(s->user, s->step) != 0;
        if (s->stopped)
            return 1;
    }
    return 0;
}

int dv_stop_late(void)
{
    int late = 0;
    for (const dv_stop *s = current; s && !late; s = s->outer)
        late = s->late || (s->until_s > 0 && dv_clock_s() > s->until_s);
    if (late)
        current->late = 1;
    return late;
}

int dv_stop_was_late(void)
{
    return current && current->late;
}

dv_status dv_stop_check(dv_diag *diag)
{
    return dv_stop_wanted() ? dv_fail(diag, DV_E_CANCELLED, DV_NOWHERE,
                                      "the caller stopped planning")
                            : DV_OK;
}
