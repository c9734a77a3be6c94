// A whole team in this process: a thread per rank.
#define _POSIX_C_SOURCE 200809L
#include "run/dist.h"
#include <pthread.h>

enum { MAX_THREADS = 256 };

typedef struct member {
    const dv_plan *plan;
    void *const *data; // whole tensors
    dv_comm *comm;
    dv_status status;
    dv_diag *diag;
    pthread_t thread;
} member;

static dv_status work(member *m)
{
    const dv_program *p = m->plan->ops;
    dv_rank *r = NULL;
    int64_t none = 0;
    dv_diag *mine = dv_diag_create();
    // Nobody starts unless all can.
    dv_status st = dv_rank_create(&r, m->plan, m->comm, NULL, mine);
    st = dv_comm_settle(m->comm, st, mine, m->diag);
    dv_diag_destroy(mine);
    for (int32_t i = 0; st == DV_OK && i < p->n_tensors; i++)
        if (p->tensors[i].is_input)
            dv_rank_put(r, i, m->data[i]);
    // An input may be an output: all have read before anybody writes.
    if (st == DV_OK)
        st = m->comm->ops->agree(m->comm, &none);
    if (st == DV_OK)
        st = dv_rank_run(r, m->diag);
    for (int32_t i = 0; st == DV_OK && i < p->n_tensors; i++)
        if (p->tensors[i].is_output && dv_rank_gives(m->plan, i, m->comm->rank))
            dv_rank_get(r, i, m->data[i]);
    dv_rank_destroy(r);
    return st;
}

static void *run_member(void *user)
{
    member *m = user;
    m->status = work(m);
    return NULL;
}

// They have agreed; only one who could not hear the others differs.
static dv_status verdict(const member *m, int64_t n, dv_diag *diag)
{
    const member *bad = NULL;
    for (int64_t i = 0; i < n; i++)
        if (m[i].status != DV_OK && (!bad || (bad->status == DV_E_SYSTEM &&
                                              m[i].status != DV_E_SYSTEM)))
            bad = &m[i];
    if (!bad)
        return DV_OK;
    const dv_message *e = dv_diag_error(bad->diag);
    return dv_fail(diag, bad->status, DV_NOWHERE, "%s",
                   e ? e->text : dv_status_name(bad->status));
}

static dv_status run_members(member *m, int64_t n, dv_diag *diag)
{
    int64_t started = 0;
    for (; started < n; started++)
        if (pthread_create(&m[started].thread, NULL, run_member, &m[started]))
            break;
    if (started < n)
        m[0].comm->ops->fail(m[0].comm);
    for (int64_t i = 0; i < started; i++)
        pthread_join(m[i].thread, NULL);
    if (started < n)
        return dv_fail(diag, DV_E_SYSTEM, DV_NOWHERE,
                       "only %d of %d ranks could be started", (int)started,
                       (int)n);
    return verdict(m, n, diag);
}

dv_status dv_ranks_run(const dv_plan *plan, void *const *data, int64_t *bytes,
                       int64_t *messages, dv_diag *diag)
{
    int64_t n = dv_team_size(&plan->team);
    dv_local *team = NULL;
    if (n > MAX_THREADS)
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "a team of %d in one process: at most %d are possible",
                       (int)n, MAX_THREADS);
    DV_TRY(dv_plan_check(plan, diag)); // what is wrong does not run
    DV_TRY(dv_local_create(&team, n, diag));
    member *m = dv_alloc((size_t)n * sizeof *m);
    dv_status st = m ? DV_OK : dv_nomem(diag);
    for (int64_t i = 0; m && i < n; i++)
        m[i] = (member){.plan = plan,
                        .data = data,
                        .comm = dv_local_rank(team, i),
                        .diag = dv_diag_create()};
    if (st == DV_OK)
        st = run_members(m, n, diag);
    if (bytes)
        *bytes = dv_local_bytes(team);
    if (messages)
        *messages = dv_local_messages(team);
    for (int64_t i = 0; m && i < n; i++)
        dv_diag_destroy(m[i].diag);
    dv_release(m);
    dv_local_destroy(team);
    return st;
}
