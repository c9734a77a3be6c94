// Runs a whole team in this process, one thread per rank.
#define _POSIX_C_SOURCE 200809L
#include "base/plural.h"
#include "team/team.h"
#include <pthread.h>

enum { MAX_THREADS = 256 };

typedef struct rank_thread {
    const dv_plan *plan;
    const dv_rank_options *options;
    void *const *data; // the whole tensors, by number
    // Messages received by this rank, per exchange of the plan; NULL: the
    // caller did not ask for them.
    dv_exchange_traffic *carried;
    dv_sim_traffic *moved; // what the simulator counted on this rank; or NULL
    dv_comm *comm;
    dv_status status;
    dv_diag *diag;
    pthread_t thread;
} rank_thread;

static dv_status work(rank_thread *m)
{
    const dv_program *p = m->plan->ops;
    dv_rank *r = NULL;
    int64_t none = 0;
    dv_diag *mine = dv_diag_create();
    // No rank starts unless all could be created.
    dv_status st = dv_rank_create(&r, m->plan, m->comm, m->options, mine);
    st = dv_comm_conclude(m->comm, st, mine, m->diag);
    for (int32_t i = 0; st == DV_OK && i < p->n_tensors; i++)
        if (p->tensors[i].is_input)
            dv_rank_put(r, i, m->data[i]);
    // An input may also be an output: wait until all ranks have read their
    // inputs before any writes.
    if (st == DV_OK)
        st = m->comm->ops->agree(m->comm, &none);
    if (st == DV_OK)
        st = dv_rank_run(r, m->diag);
    for (int32_t i = 0; st == DV_OK && i < p->n_tensors; i++)
        if (p->tensors[i].is_output &&
            dv_rank_is_primary(m->plan, i, m->comm->rank))
            dv_rank_get(r, i, m->data[i]);
    for (int32_t i = 0; r && m->carried && i < m->plan->team.n_op_exchanges;
         i++)
        m->carried[i] = dv_rank_traffic(r, i);
    if (st == DV_OK && m->moved && dv_rank_moved(r))
        *m->moved = *dv_rank_moved(r);
    dv_rank_destroy(r);
    return st;
}

static void *run_rank(void *user)
{
    rank_thread *m = user;
    m->status = work(m);
    return NULL;
}

// Returns the status and message of the team. The ranks have agreed on one;
// only a rank whose communication failed may have another, DV_E_SYSTEM.
static dv_status verdict(const rank_thread *m, int64_t n, dv_diag *diag)
{
    const rank_thread *bad = NULL;
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

static dv_status run_ranks(rank_thread *m, int64_t n, dv_diag *diag)
{
    int64_t started = 0;
    for (; started < n; started++)
        if (pthread_create(&m[started].thread, NULL, run_rank, &m[started]))
            break;
    if (started < n)
        m[0].comm->ops->fail(m[0].comm);
    for (int64_t i = 0; i < started; i++)
        pthread_join(m[i].thread, NULL);
    if (started < n)
        return dv_fail(diag, DV_E_SYSTEM, DV_NOWHERE,
                       "only %d of %d rank%s could be started", (int)started,
                       (int)n, DV_PLURAL(n, "", "s"));
    return verdict(m, n, diag);
}

static void add_moved(dv_team_traffic *moved, const rank_thread *m, int64_t n,
                      const dv_local *team)
{
    int32_t n_op_exchanges =
        moved->op_exchanges ? m[0].plan->team.n_op_exchanges : 0;
    moved->bytes = dv_local_bytes(team);
    moved->messages = dv_local_messages(team);
    for (int32_t i = 0; i < n_op_exchanges; i++) {
        moved->op_exchanges[i] =
            (dv_exchange_traffic){m[0].carried[i].times, 0};
        for (int64_t k = 0; k < n; k++)
            moved->op_exchanges[i].bytes += m[k].carried[i].bytes;
    }
}

static int make_ranks(rank_thread *m, int64_t n, dv_exchange_traffic *carried,
                      const rank_thread *like, dv_local *team)
{
    int ok = 1;
    for (int64_t i = 0; i < n; i++) {
        m[i] = *like;
        m[i].comm = dv_local_rank(team, i);
        m[i].diag = dv_diag_create();
        if (carried)
            m[i].carried = carried + i * like->plan->team.n_op_exchanges;
        if (like->moved)
            m[i].moved = like->moved + i;
        ok &= m[i].diag != NULL;
    }
    return ok;
}

dv_status dv_team_run_as(const dv_plan *plan, const dv_rank_options *options,
                         void *const *data, dv_team_traffic *moved,
                         dv_diag *diag)
{
    int64_t n = dv_plan_team_size(&plan->team);
    dv_local *team = NULL;
    dv_arena arena = {0};
    if (n > MAX_THREADS)
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "a team of %d in one process: at most %d are possible",
                       (int)n, MAX_THREADS);
    DV_TRY(dv_plan_check(plan, diag)); // an invalid plan is not run
    DV_TRY(dv_local_create(&team, n, diag));
    int by_exchange = moved && moved->op_exchanges;
    rank_thread like = {.plan = plan,
                        .options = options,
                        .data = data,
                        .moved = moved ? moved->ranks : NULL};
    rank_thread *m = DV_NEW(&arena, rank_thread, n);
    dv_exchange_traffic *carried =
        DV_NEW(&arena, dv_exchange_traffic,
               by_exchange ? n * plan->team.n_op_exchanges : 0);
    dv_status st = DV_OK;
    if (!m || !carried ||
        !make_ranks(m, n, by_exchange ? carried : NULL, &like, team))
        st = dv_nomem(diag);
    if (st == DV_OK)
        st = run_ranks(m, n, diag);
    if (moved && m)
        add_moved(moved, m, n, team);
    for (int64_t i = 0; m && i < n; i++)
        dv_diag_destroy(m[i].diag);
    dv_arena_free(&arena);
    dv_local_destroy(team);
    return st;
}

dv_status dv_team_run(const dv_plan *plan, void *const *data, int64_t *bytes,
                      int64_t *messages, dv_diag *diag)
{
    dv_team_traffic moved = {0};
    dv_status st = dv_team_run_as(plan, NULL, data, &moved, diag);
    if (bytes)
        *bytes = moved.bytes;
    if (messages)
        *messages = moved.messages;
    return st;
}
