// Connects a rank to its team: over MPI, as one of several threads, or alone.
#define _POSIX_C_SOURCE 200809L
#include "darray/darray.h"
#include "base/options.h"
#include "base/plural.h"
#include <inttypes.h>
#include <pthread.h>

enum { MAX_THREADS = 256 };

int32_t dv_team_new_exchange(dv_team_link *p)
{
    int32_t n = p->n_message_sets;
    p->n_message_sets = n == INT32_MAX ? 0 : n + 1;
    return n;
}

dv_status dv_team_check_same(dv_team_link *p, const char *what, uint64_t hash,
                             dv_diag *diag)
{
    if (!p->comm->checked)
        return DV_OK;
    hash = dv_hash(hash, &p->n_message_sets, sizeof p->n_message_sets);
    return dv_comm_check_same(p->comm, hash, what, diag);
}

dv_status dv_team_agree(dv_team_link *p, dv_status st, dv_diag *mine,
                        dv_diag *diag)
{
    // In a team of one rank, the message needs no rank number and is passed on
    // as it is.
    if (p->comm->size == 1) {
        dv_diag_move(diag, mine);
        dv_diag_destroy(mine);
        return st;
    }
    return dv_comm_conclude(p->comm, st, mine, diag);
}

static dv_status make(dv_team_link **out, dv_comm *comm, dv_local *local,
                      dv_diag *diag)
{
    dv_team_link *p = dv_alloc(sizeof *p);
    if (!p)
        return dv_nomem(diag);
    *p = (dv_team_link){.comm = comm, .local = local, .leaves = local != NULL};
    *out = p;
    return DV_OK;
}

dv_status dv_team_alone(dv_team_link **out, dv_diag *diag)
{
    dv_local *l = NULL;
    DV_TRY(dv_local_create(&l, 1, diag));
    dv_status st = make(out, dv_local_rank(l, 0), l, diag);
    if (st != DV_OK)
        dv_local_destroy(l);
    return st;
}

// Gives the link of an MPI team to the caller or, if the team failed, frees it.
// Returns the team's status.
static dv_status hand_over(dv_team_link **out, dv_team_link *p, dv_comm *comm,
                           dv_status st)
{
    if (st == DV_OK) {
        *out = p;
        return DV_OK;
    }
    dv_release(p);
    dv_mpi_destroy(comm);
    return st;
}

dv_status dv_team_mpi(dv_team_link **out, const void *mpi_comm,
                      const dv_rank_exec_options *options, dv_diag *diag)
{
    dv_rank_exec_options given = DV_RANK_EXEC_OPTIONS_INIT;
    DV_TRY(dv_options_read(&given, sizeof given, options,
                           "dv_rank_exec_options", diag));
    dv_mpi_options o = dv_mpi_options_of(&given);
    dv_comm *comm = NULL;
    dv_team_link *p = NULL;
    DV_TRY(dv_mpi_create(&comm, mpi_comm, &o, diag));
    dv_diag *mine = dv_diag_create();
    dv_status st = make(&p, comm, NULL, mine);
    return hand_over(out, p, comm, dv_comm_conclude(comm, st, mine, diag));
}

void dv_team_destroy(dv_team_link *p)
{
    if (!p)
        return;
    dv_function_cache_free(p->functions);
    if (!p->local)
        dv_mpi_destroy(p->comm);
    else if (p->leaves)
        dv_local_leave(p->local);
    dv_release(p);
}

int64_t dv_team_rank(const dv_team_link *p)
{
    return p->comm->rank;
}

int64_t dv_team_size(const dv_team_link *p)
{
    return p->comm->size;
}

void dv_team_sent(const dv_team_link *p, int64_t *bytes, int64_t *messages)
{
    if (bytes)
        *bytes = p->sent_bytes;
    if (messages)
        *messages = p->sent_messages;
}

// Splits a team of threads: the first rank of each colour creates the sub-team,
// and its pointer is broadcast to the other ranks. Every rank broadcasts its
// colour and then its pointer in rank order.
static dv_status split_local(dv_team_link **out, dv_team_link *p,
                             int64_t colour, dv_diag *diag)
{
    dv_comm *c = p->comm;
    int64_t n = 0, me = 0, first = -1;
    for (int64_t r = 0; r < c->size; r++) {
        int64_t theirs = colour;
        DV_TRY(dv_comm_share(c, r, &theirs, sizeof theirs, diag));
        if (theirs != colour)
            continue;
        first = first < 0 ? r : first;
        me += r < c->rank;
        n++;
    }
    dv_diag *mine = dv_diag_create();
    dv_local *team = NULL;
    dv_team_link *sub = NULL;
    dv_status st = DV_OK;
    if (first == c->rank)
        st = dv_local_create(&team, n, mine);
    if (team)
        dv_local_part(p->local, team);
    for (int64_t r = 0; r < c->size; r++) {
        dv_local *theirs = team;
        dv_status met = c->ops->share(c, r, &theirs, (int64_t)sizeof theirs);
        if (met != DV_OK)
            st = dv_comm_error(c, met, mine);
        if (r == first)
            team = theirs;
    }
    if (st == DV_OK && team)
        st = make(&sub, dv_local_rank(team, me), team, mine);
    st = dv_team_agree(p, st, mine, diag);
    if (st == DV_OK) {
        sub->comm->checked = c->checked;
        *out = sub;
        return DV_OK;
    }
    dv_release(sub);
    // Every rank must leave the new team, even a rank whose connection to it
    // was not created.
    if (team)
        dv_local_leave(team);
    return st;
}

dv_status dv_team_split(dv_team_link **out, dv_team_link *p, int64_t colour,
                        dv_diag *diag)
{
    if (p->local)
        return split_local(out, p, colour, diag);
    dv_comm *comm = NULL;
    dv_team_link *sub = NULL;
    DV_TRY(dv_mpi_split(&comm, p->comm, colour, diag));
    dv_diag *mine = dv_diag_create();
    dv_status st = make(&sub, comm, NULL, mine);
    return hand_over(out, sub, comm, dv_team_agree(p, st, mine, diag));
}

typedef struct rank_thread {
    dv_team_link link;
    dv_status (*work)(void *user, dv_team_link *link, dv_diag *diag);
    void *user;
    dv_status status;
    dv_diag *diag;
    pthread_t thread;
} rank_thread;

static void *run_rank_thread(void *arg)
{
    rank_thread *w = arg;
    w->status = w->work(w->user, &w->link, w->diag);
    // A failed rank sends nothing more, so wake the ranks that wait for its
    // messages.
    if (w->status != DV_OK)
        w->link.comm->ops->fail(w->link.comm);
    return NULL;
}

static dv_status run_all(rank_thread *w, int64_t n, dv_diag *diag)
{
    int64_t started = 0;
    for (; started < n; started++)
        if (pthread_create(&w[started].thread, NULL, run_rank_thread,
                           &w[started]))
            break;
    if (started < n)
        w[0].link.comm->ops->fail(w[0].link.comm);
    for (int64_t i = 0; i < started; i++)
        pthread_join(w[i].thread, NULL);
    if (started < n)
        return dv_fail(diag, DV_E_SYSTEM, DV_NOWHERE,
                       "only %" PRId64 " of %" PRId64
                       " rank%s could be started",
                       started, n, DV_PLURAL(n, "", "s"));
    // Report the first rank that failed by itself: DV_E_SYSTEM may only mean
    // that another rank had left, so any other status takes precedence.
    rank_thread *bad = NULL;
    for (int64_t i = 0; i < n; i++)
        if (w[i].status != DV_OK && (!bad || (bad->status == DV_E_SYSTEM &&
                                              w[i].status != DV_E_SYSTEM)))
            bad = &w[i];
    if (!bad)
        return DV_OK;
    dv_diag_move(diag, bad->diag);
    return bad->status;
}

dv_status dv_team_local(int64_t n,
                        dv_status (*work)(void *user, dv_team_link *link,
                                          dv_diag *diag),
                        void *user, dv_diag *diag)
{
    dv_local *team = NULL;
    if (n < 1 || n > MAX_THREADS)
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "a team of %" PRId64
                       " in one process: 1 to %d are possible",
                       n, MAX_THREADS);
    DV_TRY(dv_local_create(&team, n, diag));
    rank_thread *w = dv_alloc((size_t)n * sizeof *w);
    dv_status st = w ? DV_OK : dv_nomem(diag);
    for (int64_t i = 0; w && i < n; i++)
        w[i] = (rank_thread){
            .link = {.comm = dv_local_rank(team, i), .local = team},
            .work = work,
            .user = user,
            .diag = dv_diag_create()};
    if (w)
        st = run_all(w, n, diag);
    for (int64_t i = 0; w && i < n; i++) {
        dv_diag_destroy(w[i].diag);
        dv_function_cache_free(w[i].link.functions);
    }
    dv_release(w);
    dv_local_destroy(team);
    return st;
}
