// Messages over MPI: every message of a dv_message_set is a persistent request,
// or several if it exceeds the largest message size.
//
// MPI errors are returned as statuses (the communicator's error handler is
// MPI_ERRORS_RETURN), with MPI's message in `why`. With a time-out, no call
// blocks inside MPI: requests are tested until the time is over, and `why`
// names the rank that was waited for. The same is done if there are more ranks
// than cores, because MPI's blocking calls would busy-wait.
#define _POSIX_C_SOURCE 200809L
#include "base/clock.h"
#include "base/mem.h"
#include "base/plural.h"
#include "team/comm_mpi.h"
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Number of MPI tests between two readings of the clock; it is smaller if there
// are more ranks than cores, because a test may then take a whole time slice of
// another process.
enum { SPINS = 64, SPINS_SHARED = 4 };
// A rank that has waited for less than this many seconds yields the core; after
// that it sleeps.
#define YIELD_S     100e-6
#define MAX_SLEEP_S 500e-6
// Default of dv_mpi.max_bytes, the most bytes of one MPI message.
static const int64_t default_bytes = (int64_t)1 << 30;

typedef struct mpi_message_set {
    dv_message_set message_set; // first member: callers hold a pointer to it
    // Requests of all messages. A message longer than max_bytes is sent in
    // several parts, with one request each.
    MPI_Request *sends, *receives;
    int32_t *link_of;   // message number of each received part
    int32_t *left;      // parts of each message still to come
    int32_t *parts;     // number of parts of each message
    int64_t *from, *to; // the other rank of each part
    int n_sends, n_receives;
    int32_t n_links, n_sent; // number of messages received and sent
    int64_t sent_bytes;
    dv_arena arena; // holds the message set itself
} mpi_message_set;

static dv_status say(dv_mpi *m, int code, const char *doing)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;
    if (code == MPI_SUCCESS)
        return DV_OK;
    MPI_Error_string(code, text, &len);
    snprintf(m->comm.why, sizeof m->comm.why, "MPI failed while %s: %.180s",
             doing, text);
    return DV_E_SYSTEM;
}

// Lets other processes run. A rank that only yields uses up its time share
// next to processes that compute, and is then scheduled late when its message
// arrives; a rank that sleeps is scheduled at once. Short waits only yield, and
// long waits sleep for at most a sixteenth of the time waited so far.
static void yield_core(const dv_mpi *m, double waited_s)
{
    double sleep_s = waited_s / 16;
    if (!m->yields || waited_s < YIELD_S) {
        sched_yield();
        return;
    }
    sleep_s = sleep_s < MAX_SLEEP_S ? sleep_s : MAX_SLEEP_S;
    nanosleep(&(struct timespec){0, (long)(sleep_s * 1e9)}, NULL);
}

// Yields or sleeps once, then returns 1 if the time-out has passed since the
// first call, when *start was 0.
static int yield_until_timeout(const dv_mpi *m, double *start)
{
    double t = dv_clock_s();
    if (*start == 0)
        *start = t;
    yield_core(m, t - *start);
    return m->timeout_s > 0 && t - *start > m->timeout_s;
}

static dv_status waited(dv_mpi *m, const char *what, int64_t who,
                        int32_t number)
{
    if (who >= 0)
        snprintf(m->comm.why, sizeof m->comm.why,
                 "rank %" PRId64 " has waited %g s for rank %" PRId64
                 " %s (exchange %d)",
                 m->comm.rank, m->timeout_s, who, what, (int)number);
    else
        snprintf(m->comm.why, sizeof m->comm.why,
                 "rank %" PRId64 " has waited %g s for the others to %s",
                 m->comm.rank, m->timeout_s, what);
    return DV_E_SYSTEM;
}

static int spins(const dv_mpi *m)
{
    return m->yields ? SPINS_SHARED : SPINS;
}

static int may_block(const dv_mpi *m)
{
    return m->timeout_s <= 0 && !m->yields;
}

// Waits until one more of the requests completes; *at is its number, or
// MPI_UNDEFINED if none is left.
static dv_status wait_any(dv_mpi *m, const mpi_message_set *w,
                          MPI_Request *requests, int n, int *at)
{
    double start = 0;
    if (may_block(m))
        return say(m, MPI_Waitany(n, requests, at, MPI_STATUS_IGNORE),
                   "waiting for messages");
    for (;;) {
        int done = 0;
        for (int i = 0; i < spins(m) && !done; i++)
            DV_TRY(say(m,
                       MPI_Testany(n, requests, at, &done, MPI_STATUS_IGNORE),
                       "waiting for messages"));
        if (done)
            return DV_OK;
        if (!yield_until_timeout(m, &start))
            continue;
        // After the time-out, report the first request that has not completed.
        int sending = requests == w->sends;
        for (int i = 0; i < n; i++) {
            MPI_Request_get_status(requests[i], &done, MPI_STATUS_IGNORE);
            if (!done)
                return waited(m, sending ? "to take a message" : "to send",
                              sending ? w->to[i] : w->from[i],
                              w->message_set.number);
        }
    }
}

// Waits for a request, at most until the time-out. `doing` says in an error
// message what the rank waited for.
static dv_status wait_for(dv_mpi *m, MPI_Request *r, const char *doing)
{
    double start = 0;
    if (may_block(m))
        return say(m, MPI_Wait(r, MPI_STATUS_IGNORE), doing);
    for (int done = 0; !done;) {
        for (int i = 0; i < spins(m) && !done; i++)
            DV_TRY(say(m, MPI_Test(r, &done, MPI_STATUS_IGNORE), doing));
        if (!done && yield_until_timeout(m, &start))
            return waited(m, "meet", -1, 0);
    }
    return DV_OK;
}

static void mpi_close(dv_comm *c, dv_message_set *message_set)
{
    mpi_message_set *w = (mpi_message_set *)message_set;
    (void)c;
    if (!w)
        return;
    for (int i = 0; i < w->n_sends; i++)
        if (w->sends[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&w->sends[i]);
    for (int i = 0; i < w->n_receives; i++)
        if (w->receives[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&w->receives[i]);
    dv_arena arena = w->arena;
    dv_arena_free(&arena);
}

static int64_t parts_of(const dv_mpi *m, const dv_message_buffer *l)
{
    return l->bytes ? (l->bytes + m->max_bytes - 1) / m->max_bytes : 1;
}

static int64_t all_parts(const dv_mpi *m, const dv_message_buffer *l, int32_t n)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += parts_of(m, &l[i]);
    return sum;
}

static int get_arrays(mpi_message_set *w, int64_t n_sends, int64_t n_receives)
{
    if (n_sends > INT32_MAX || n_receives > INT32_MAX)
        return 0;
    w->sends = DV_NEW(&w->arena, MPI_Request, n_sends);
    w->receives = DV_NEW(&w->arena, MPI_Request, n_receives);
    w->to = DV_NEW(&w->arena, int64_t, n_sends);
    w->from = DV_NEW(&w->arena, int64_t, n_receives);
    w->link_of = DV_NEW(&w->arena, int32_t, n_receives);
    w->left = DV_NEW(&w->arena, int32_t, w->n_links);
    w->parts = DV_NEW(&w->arena, int32_t, w->n_links);
    return w->sends && w->receives && w->to && w->from && w->link_of &&
           w->left && w->parts;
}

// Creates the requests of one message. All parts have the same tag: MPI matches
// messages of one tag in the order in which they are started.
static dv_status make_parts(dv_mpi *m, mpi_message_set *w,
                            const dv_message_buffer *l, int send)
{
    int tag = (int)(w->message_set.number % ((int64_t)m->max_tag + 1));
    int64_t n = parts_of(m, l);
    for (int64_t i = 0; i < n; i++) {
        int64_t off = i * m->max_bytes, left = l->bytes - off;
        int bytes = (int)(left < m->max_bytes ? left : m->max_bytes);
        char *at = (char *)l->data + off;
        MPI_Request r = MPI_REQUEST_NULL;
        int code = send ? MPI_Send_init(at, bytes, MPI_BYTE, (int)l->rank, tag,
                                        m->mpi, &r)
                        : MPI_Recv_init(at, bytes, MPI_BYTE, (int)l->rank, tag,
                                        m->mpi, &r);
        DV_TRY(say(m, code, "preparing a message"));
        if (send) {
            w->to[w->n_sends] = l->rank;
            w->sends[w->n_sends++] = r;
        } else {
            w->from[w->n_receives] = l->rank;
            w->receives[w->n_receives++] = r;
        }
    }
    return DV_OK;
}

static dv_status mpi_open(dv_comm *c, dv_message_set **out, int32_t number,
                          const dv_message_buffer *sends, int32_t n_sends,
                          const dv_message_buffer *receives, int32_t n_receives,
                          dv_diag *diag)
{
    dv_mpi *m = (dv_mpi *)c;
    dv_arena arena = {0};
    mpi_message_set *w = DV_NEW(&arena, mpi_message_set, 1);
    if (!w)
        return dv_nomem(diag);
    w->message_set.number = number;
    w->n_links = n_receives;
    w->arena = arena;
    if (!get_arrays(w, all_parts(m, sends, n_sends),
                    all_parts(m, receives, n_receives))) {
        mpi_close(c, &w->message_set);
        return dv_nomem(diag);
    }
    dv_status st = DV_OK;
    for (int32_t i = 0; i < n_receives && st == DV_OK; i++) {
        int from = w->n_receives;
        st = make_parts(m, w, &receives[i], 0);
        w->parts[i] = w->n_receives - from;
        for (int k = from; k < w->n_receives; k++)
            w->link_of[k] = i;
    }
    for (int32_t i = 0; i < n_sends && st == DV_OK; i++)
        st = make_parts(m, w, &sends[i], 1);
    for (int32_t i = 0; i < n_sends; i++)
        w->sent_bytes += sends[i].bytes;
    w->n_sent = n_sends;
    if (st != DV_OK) {
        mpi_close(c, &w->message_set);
        return dv_comm_error(c, st, diag);
    }
    *out = &w->message_set;
    return DV_OK;
}

// Starts the MPI requests of a message set one by one, because MPI_Startall may
// start them in any order.
static dv_status mpi_start(dv_comm *c, dv_message_set *message_set)
{
    mpi_message_set *w = (mpi_message_set *)message_set;
    dv_mpi *m = (dv_mpi *)c;
    for (int32_t i = 0; i < w->n_links; i++)
        w->left[i] = w->parts[i];
    for (int i = 0; i < w->n_receives; i++)
        DV_TRY(say(m, MPI_Start(&w->receives[i]), "starting to receive"));
    for (int i = 0; i < w->n_sends; i++)
        DV_TRY(say(m, MPI_Start(&w->sends[i]), "starting to send"));
    c->bytes += w->sent_bytes;
    c->messages += w->n_sent;
    return DV_OK;
}

static int32_t mpi_next(dv_comm *c, dv_message_set *message_set)
{
    mpi_message_set *w = (mpi_message_set *)message_set;
    dv_mpi *m = (dv_mpi *)c;
    for (;;) {
        int at = MPI_UNDEFINED;
        m->failed = wait_any(m, w, w->receives, w->n_receives, &at);
        if (m->failed || at == MPI_UNDEFINED)
            return -1;
        if (--w->left[w->link_of[at]] == 0)
            return w->link_of[at];
    }
}

static dv_status mpi_finish(dv_comm *c, dv_message_set *message_set)
{
    mpi_message_set *w = (mpi_message_set *)message_set;
    dv_mpi *m = (dv_mpi *)c;
    if (m->failed)
        return m->failed;
    for (int i = 0; i < w->n_sends && may_block(m); i++)
        DV_TRY(say(m, MPI_Wait(&w->sends[i], MPI_STATUS_IGNORE),
                   "sending messages"));
    if (may_block(m))
        return DV_OK;
    for (int at = 0; at != MPI_UNDEFINED;)
        DV_TRY(wait_any(m, w, w->sends, w->n_sends, &at));
    return DV_OK;
}

// Lets messages progress; MPI may move data only during its calls.
static void mpi_progress(dv_comm *c, dv_message_set *message_set)
{
    mpi_message_set *w = (mpi_message_set *)message_set;
    (void)c;
    int done;
    if (w->n_sends)
        MPI_Request_get_status(w->sends[0], &done, MPI_STATUS_IGNORE);
    else if (w->n_receives)
        MPI_Request_get_status(w->receives[0], &done, MPI_STATUS_IGNORE);
}

static dv_status mpi_agree(dv_comm *c, int64_t *value)
{
    dv_mpi *m = (dv_mpi *)c;
    MPI_Request r;
    int64_t mine = *value;
    DV_TRY(say(
        m, MPI_Iallreduce(&mine, value, 1, MPI_INT64_T, MPI_MAX, m->mpi, &r),
        "agreeing"));
    return wait_for(m, &r, "agreeing");
}

static dv_status mpi_share(dv_comm *c, int64_t root, void *data, int64_t bytes)
{
    dv_mpi *m = (dv_mpi *)c;
    for (int64_t off = 0; off < bytes; off += m->max_bytes) {
        int64_t left = bytes - off;
        int n = (int)(left < m->max_bytes ? left : m->max_bytes);
        MPI_Request r;
        DV_TRY(say(
            m,
            MPI_Ibcast((char *)data + off, n, MPI_BYTE, (int)root, m->mpi, &r),
            "sharing"));
        DV_TRY(wait_for(m, &r, "sharing"));
    }
    return DV_OK;
}

dv_status dv_mpi_sum(dv_comm *c, uint64_t *value, dv_diag *diag)
{
    dv_mpi *m = (dv_mpi *)c;
    MPI_Request r;
    uint64_t mine = *value;
    dv_status st = say(
        m, MPI_Iallreduce(&mine, value, 1, MPI_UINT64_T, MPI_SUM, m->mpi, &r),
        "adding up");
    if (st == DV_OK)
        st = wait_for(m, &r, "adding up");
    return st == DV_OK ? DV_OK : dv_comm_error(c, st, diag);
}

// Records the failure. Other ranks cannot be woken through MPI; the caller
// reports `why` and may abort all processes.
static void mpi_fail(dv_comm *c)
{
    ((dv_mpi *)c)->failed = DV_E_SYSTEM;
}

static const dv_comm_ops mpi_ops = {
    "mpi",     mpi_open,  mpi_start, mpi_next, mpi_finish,
    mpi_close, mpi_agree, mpi_share, mpi_fail, mpi_progress};

dv_status dv_mpi_begin(int64_t size, int *started, dv_diag *diag)
{
    int there = 0, level, n = 1, len = 0;
    char name[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    *started = 0;
    MPI_Initialized(&there);
    if (!there) {
        if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level))
            return dv_fail(diag, DV_E_SYSTEM, DV_NOWHERE,
                           "MPI cannot be started");
        *started = 1;
    }
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (n == size || there)
        return DV_OK;
    MPI_Get_library_version(name, &len);
    name[strcspn(name, "\n,")] = 0;
    return dv_fail(diag, DV_E_SYSTEM, DV_NOWHERE,
                   "the launcher started %" PRId64 " %s, %.40s sees %d: "
                   "divvy was built with it, and wants its mpirun",
                   size, DV_PLURAL(size, "process", "processes"), name, n);
}

void dv_mpi_end(void)
{
    int over = 0;
    MPI_Finalized(&over);
    if (!over)
        MPI_Finalize();
}

void dv_mpi_abort(dv_comm *c, int code)
{
    MPI_Abort(c ? ((dv_mpi *)c)->mpi : MPI_COMM_WORLD, code);
    _Exit(code);
}

// Returns the number of ranks on this rank's machine, itself included; 0:
// unknown.
static int64_t count_local_ranks(dv_mpi *m)
{
    MPI_Comm machine = MPI_COMM_NULL;
    int n = 0;
    if (MPI_Comm_split_type(m->mpi, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                            &machine) != MPI_SUCCESS)
        return 0;
    MPI_Comm_size(machine, &n);
    MPI_Comm_free(&machine);
    return n;
}

static dv_status set_up(dv_mpi *m, const dv_mpi_options *o)
{
    int rank, size, found = 0, level = MPI_THREAD_SINGLE, *ub = NULL;
    DV_TRY(say(m, MPI_Comm_set_errhandler(m->mpi, MPI_ERRORS_RETURN),
               "creating a team"));
    MPI_Comm_rank(m->mpi, &rank);
    MPI_Comm_size(m->mpi, &size);
    MPI_Comm_get_attr(m->mpi, MPI_TAG_UB, &ub, &found);
    m->max_tag = found ? *ub : 32767;
    m->comm.rank = rank;
    m->comm.size = size;
    MPI_Query_thread(&level);
    m->comm.one_thread = level < MPI_THREAD_FUNNELED;
    m->comm.ranks_on_machine = count_local_ranks(m);
    m->comm.ops = &mpi_ops;
    m->max_bytes = default_bytes;
    m->timeout_s = o ? o->timeout_s : 0;
    m->yields = m->comm.ranks_on_machine > sysconf(_SC_NPROCESSORS_ONLN);
    return DV_OK;
}

// Sets the options that must be the same on all ranks. Ranks that split
// messages differently, or of which only some compare before each exchange that
// all are at the same one, would deadlock.
static dv_status set_options(dv_mpi *m, const dv_mpi_options *o, dv_diag *diag)
{
    int64_t most = o && o->max_bytes > 0 ? o->max_bytes : default_bytes;
    most = most < INT32_MAX ? most : INT32_MAX;
    char bytes[24];
    snprintf(bytes, sizeof bytes, "%" PRId64, most);
    const dv_setting facts[] = {
        {"max_message_bytes", bytes},
        {"checks before exchanges", o && o->checked ? "" : NULL}};
    DV_TRY(dv_comm_compare(&m->comm, facts, 2, "created", diag));
    m->comm.checked = o && o->checked;
    m->max_bytes = most;
    return DV_OK;
}

dv_status dv_mpi_create(dv_comm **out, const void *mpi_comm,
                        const dv_mpi_options *options, dv_diag *diag)
{
    int there = 0, over = 0;
    MPI_Initialized(&there);
    MPI_Finalized(&over);
    if (!there || over)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "MPI is %s",
                       over ? "finalized already" : "not initialized");
    MPI_Comm from = mpi_comm ? *(const MPI_Comm *)mpi_comm : MPI_COMM_WORLD;
    dv_mpi *m = dv_alloc(sizeof *m);
    // Agree first: a rank that is out of memory would not call MPI_Comm_dup, in
    // which the others would then wait forever.
    int mine = m != NULL, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, from);
    if (!all) {
        dv_release(m);
        return dv_nomem(diag);
    }
    *m = (dv_mpi){.mpi = MPI_COMM_NULL};
    dv_status st =
        say(m, MPI_Comm_dup(from, &m->mpi), "copying a communicator");
    if (st == DV_OK)
        st = set_up(m, options);
    st = st == DV_OK ? set_options(m, options, diag)
                     : dv_comm_error(&m->comm, st, diag);
    if (st == DV_OK)
        *out = &m->comm;
    else
        dv_mpi_destroy(&m->comm);
    return st;
}

void dv_mpi_destroy(dv_comm *c)
{
    dv_mpi *m = (dv_mpi *)c;
    int over = 0;
    if (!m)
        return;
    MPI_Finalized(&over);
    if (!over && m->mpi != MPI_COMM_NULL)
        MPI_Comm_free(&m->mpi);
    dv_release(m);
}

// Splits a team: each subteam gets its own MPI communicator.
dv_status dv_mpi_split(dv_comm **out, dv_comm *c, int64_t colour, dv_diag *diag)
{
    dv_mpi *m = (dv_mpi *)c;
    // MPI colours are non-negative ints, so the colour that is passed to MPI is
    // the lowest rank with the same 64-bit colour.
    int64_t first = -1;
    for (int64_t r = 0; r < c->size; r++) {
        int64_t theirs = colour;
        DV_TRY(dv_comm_share(c, r, &theirs, sizeof theirs, diag));
        if (theirs == colour && first < 0)
            first = r;
    }
    MPI_Comm part = MPI_COMM_NULL;
    int code = MPI_Comm_split(m->mpi, (int)first, (int)c->rank, &part);
    if (code != MPI_SUCCESS)
        return dv_comm_error(c, say(m, code, "splitting a team"), diag);
    dv_mpi_options o = {m->max_bytes, m->timeout_s, c->checked};
    // This duplicates the communicator `part`.
    dv_status st = dv_mpi_create(out, &part, &o, diag);
    MPI_Comm_free(&part);
    return st;
}
