// A team inside one process: every rank is a thread, and every message has a
// slot that the sender fills and the receiver empties. A single lock protects
// everything: this communicator serves tests and dry runs, not speed.
#define _POSIX_C_SOURCE 200809L
#include "base/mem.h"
#include "team/team.h"
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

typedef struct slot {
    int64_t from, to;
    int32_t number, full;
    // Number of ranks that have closed the slot (the buffer of one message).
    // After sender and receiver have closed it, it is freed.
    int32_t n_closed;
    int64_t bytes;
    char data[];
} slot;

typedef struct end {
    dv_comm comm; // first member: callers hold a pointer to it
    dv_local *team;
} end;

struct dv_local {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    end *ends;
    slot **slots; // slots of all open message sets
    int32_t n_slots, cap_slots;
    int64_t size, bytes, messages, n_left;
    int failed;
    // State of `agree`, which waits for all ranks and finds a maximum: ranks
    // that have arrived, the maximum of their values so far, the result of the
    // last round, and the number of rounds.
    int64_t n_here, largest, result, round;
    const void *shared; // the root's data of a broadcast
    // The team that this one is a part of, and the list of its own subteams,
    // which fail with it.
    dv_local *parent, *first_part, *next_part;
    dv_arena arena;
};

typedef struct local_message_set {
    dv_message_set message_set; // first member: callers hold a pointer to it
    dv_message_buffer *sends, *receives;
    slot **out, **in;
    char *received;
    int32_t n_sends, n_receives;
    dv_arena arena; // holds the message set itself
} local_message_set;

static dv_local *team_of(dv_comm *c)
{
    return ((end *)c)->team;
}

// Returns the slot of a message; the first of the two ranks to open it
// allocates it. NULL: out of memory.
static slot *find_slot(dv_local *l, int64_t from, int64_t to, int32_t number,
                       int64_t bytes)
{
    for (int32_t i = 0; i < l->n_slots; i++) {
        slot *s = l->slots[i];
        if (s->from == from && s->to == to && s->number == number)
            return s;
    }
    slot *s = dv_alloc(sizeof *s + (size_t)bytes);
    slot **room =
        s ? DV_PUSH(&l->arena, slot *, l->slots, l->n_slots, l->cap_slots)
          : NULL;
    if (!room) {
        dv_release(s);
        return NULL;
    }
    s->from = from, s->to = to;
    s->number = number;
    s->full = s->n_closed = 0;
    s->bytes = bytes;
    *room = s;
    return s;
}

// Releases one rank's hold on a slot; the slot is freed when both ranks have
// released it, so that a message stays until it is received.
static void drop_slot(dv_local *l, slot *s)
{
    if (!s || ++s->n_closed < 2)
        return;
    for (int32_t i = 0; i < l->n_slots; i++)
        if (l->slots[i] == s)
            l->slots[i] = l->slots[--l->n_slots];
    dv_release(s);
}

// Finds or creates the slot of a message and fails if the other rank opened it
// with another size.
static dv_status join_slot(slot **out, dv_local *l, int64_t from, int64_t to,
                           int32_t number, int64_t bytes, dv_diag *diag)
{
    *out = find_slot(l, from, to, number, bytes);
    if (!*out)
        return dv_nomem(diag);
    if ((*out)->bytes == bytes)
        return DV_OK;
    int64_t theirs = (*out)->bytes;
    *out = NULL;
    return dv_fail(diag, DV_E_CHECK, DV_NOWHERE,
                   "ranks %" PRId64 " and %" PRId64
                   " disagree about a message: %" PRId64 " and %" PRId64
                   " bytes",
                   from, to, theirs, bytes);
}

static dv_status fill_message_set(dv_local *l, local_message_set *w,
                                  int64_t rank, int32_t number,
                                  const dv_message_buffer *sends,
                                  const dv_message_buffer *receives,
                                  dv_diag *diag)
{
    w->sends = DV_NEW(&w->arena, dv_message_buffer, w->n_sends);
    w->receives = DV_NEW(&w->arena, dv_message_buffer, w->n_receives);
    w->out = DV_NEW(&w->arena, slot *, w->n_sends);
    w->in = DV_NEW(&w->arena, slot *, w->n_receives);
    w->received = DV_NEW(&w->arena, char, w->n_receives);
    if (!w->sends || !w->receives || !w->out || !w->in || !w->received)
        return dv_nomem(diag);
    for (int32_t i = 0; i < w->n_sends; i++) {
        w->sends[i] = sends[i];
        DV_TRY(join_slot(&w->out[i], l, rank, sends[i].rank, number,
                         sends[i].bytes, diag));
    }
    for (int32_t i = 0; i < w->n_receives; i++) {
        w->receives[i] = receives[i];
        DV_TRY(join_slot(&w->in[i], l, receives[i].rank, rank, number,
                         receives[i].bytes, diag));
    }
    return DV_OK;
}

static void local_close(dv_comm *c, dv_message_set *message_set)
{
    local_message_set *w = (local_message_set *)message_set;
    dv_local *l = team_of(c);
    if (!w)
        return;
    pthread_mutex_lock(&l->lock);
    for (int32_t i = 0; w->out && i < w->n_sends; i++)
        drop_slot(l, w->out[i]);
    for (int32_t i = 0; w->in && i < w->n_receives; i++)
        drop_slot(l, w->in[i]);
    pthread_mutex_unlock(&l->lock);
    dv_arena arena = w->arena;
    dv_arena_free(&arena);
}

static dv_status local_open(dv_comm *c, dv_message_set **out, int32_t number,
                            const dv_message_buffer *sends, int32_t n_sends,
                            const dv_message_buffer *receives,
                            int32_t n_receives, dv_diag *diag)
{
    dv_local *l = team_of(c);
    dv_arena arena = {0};
    local_message_set *w = DV_NEW(&arena, local_message_set, 1);
    if (!w)
        return dv_nomem(diag);
    w->message_set.number = number;
    w->arena = arena;
    w->n_sends = n_sends;
    w->n_receives = n_receives;
    pthread_mutex_lock(&l->lock);
    dv_status st =
        fill_message_set(l, w, c->rank, number, sends, receives, diag);
    pthread_mutex_unlock(&l->lock);
    if (st == DV_OK)
        *out = &w->message_set;
    else
        local_close(c, &w->message_set);
    return st;
}

static dv_status local_start(dv_comm *c, dv_message_set *message_set)
{
    local_message_set *w = (local_message_set *)message_set;
    dv_local *l = team_of(c);
    pthread_mutex_lock(&l->lock);
    if (w->n_receives)
        memset(w->received, 0, (size_t)w->n_receives);
    for (int32_t i = 0; i < w->n_sends && !l->failed; i++) {
        slot *s = w->out[i];
        // Wait until the receiver has emptied the slot of the previous message.
        while (s->full && !l->failed)
            pthread_cond_wait(&l->moved, &l->lock);
        memcpy(s->data, w->sends[i].data, (size_t)s->bytes);
        s->full = 1;
        l->bytes += s->bytes;
        l->messages++;
        c->bytes += s->bytes;
        c->messages++;
    }
    pthread_cond_broadcast(&l->moved);
    int failed = l->failed;
    pthread_mutex_unlock(&l->lock);
    return failed ? DV_E_SYSTEM : DV_OK;
}

// Returns the number of a receive whose message has arrived; -1: none yet; -2:
// all were received.
static int32_t ready(const local_message_set *w)
{
    int32_t left = 0;
    for (int32_t i = 0; i < w->n_receives; i++) {
        if (!w->received[i] && w->in[i]->full)
            return i;
        left += !w->received[i];
    }
    return left ? -1 : -2;
}

static int32_t local_next(dv_comm *c, dv_message_set *message_set)
{
    local_message_set *w = (local_message_set *)message_set;
    dv_local *l = team_of(c);
    pthread_mutex_lock(&l->lock);
    int32_t i = ready(w);
    while (i == -1 && !l->failed) {
        pthread_cond_wait(&l->moved, &l->lock);
        i = ready(w);
    }
    if (i >= 0) {
        memcpy(w->receives[i].data, w->in[i]->data, (size_t)w->in[i]->bytes);
        w->in[i]->full = 0;
        w->received[i] = 1;
        pthread_cond_broadcast(&l->moved);
    }
    pthread_mutex_unlock(&l->lock);
    return i < 0 ? -1 : i;
}

static dv_status local_finish(dv_comm *c, dv_message_set *message_set)
{
    (void)message_set; // local_start has copied the data into slots.
    dv_local *l = team_of(c);
    pthread_mutex_lock(&l->lock);
    int failed = l->failed;
    pthread_mutex_unlock(&l->lock);
    return failed ? DV_E_SYSTEM : DV_OK;
}

static dv_status local_agree(dv_comm *c, int64_t *value)
{
    dv_local *l = team_of(c);
    pthread_mutex_lock(&l->lock);
    int64_t round = l->round;
    if (l->n_here == 0 || *value > l->largest)
        l->largest = *value;
    if (++l->n_here == l->size) {
        l->result = l->largest;
        l->n_here = 0;
        l->round++;
        pthread_cond_broadcast(&l->moved);
    }
    while (l->round == round && !l->failed)
        pthread_cond_wait(&l->moved, &l->lock);
    // No rank can finish the next round of `agree`, which overwrites the
    // result, before all ranks have read the result of this round, because a
    // round ends only when all have arrived.
    *value = l->result;
    int failed = l->round == round;
    pthread_mutex_unlock(&l->lock);
    return failed ? DV_E_SYSTEM : DV_OK;
}

// Broadcasts through memory: the root publishes the address of its data before
// the first synchronisation, and all ranks have copied it at the second.
static dv_status local_share(dv_comm *c, int64_t root, void *data,
                             int64_t bytes)
{
    dv_local *l = team_of(c);
    int64_t none = 0;
    if (c->rank == root) {
        pthread_mutex_lock(&l->lock);
        l->shared = data;
        pthread_mutex_unlock(&l->lock);
    }
    DV_TRY(local_agree(c, &none));
    if (c->rank != root && bytes > 0)
        memcpy(data, l->shared, (size_t)bytes);
    return local_agree(c, &none);
}

// Marks a team and its subteams as failed and wakes all waiting ranks. The
// recursion is shallow, because teams are nested only a few levels deep.
static void fail_team(dv_local *l)
{
    pthread_mutex_lock(&l->lock);
    l->failed = 1;
    pthread_cond_broadcast(&l->moved);
    for (dv_local *part = l->first_part; part; part = part->next_part)
        fail_team(part);
    pthread_mutex_unlock(&l->lock);
}

static void local_fail(dv_comm *c)
{
    fail_team(team_of(c));
}

void dv_local_part(dv_local *l, dv_local *part)
{
    pthread_mutex_lock(&l->lock);
    part->parent = l;
    part->next_part = l->first_part;
    part->failed = l->failed;
    l->first_part = part;
    pthread_mutex_unlock(&l->lock);
}

static void leave_parent(dv_local *part)
{
    dv_local *l = part->parent;
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    dv_local **at = &l->first_part;
    while (*at != part)
        at = &(*at)->next_part;
    *at = part->next_part;
    pthread_mutex_unlock(&l->lock);
}

static const dv_comm_ops local_ops = {
    "local",     local_open,  local_start, local_next, local_finish,
    local_close, local_agree, local_share, local_fail, NULL};

dv_status dv_local_create(dv_local **out, int64_t size, dv_diag *diag)
{
    dv_arena arena = {0};
    dv_local *l = DV_NEW(&arena, dv_local, 1);
    end *ends = DV_NEW(&arena, end, size);
    if (!l || !ends) {
        dv_arena_free(&arena);
        return dv_nomem(diag);
    }
    if (pthread_mutex_init(&l->lock, NULL)) {
        dv_arena_free(&arena);
        return dv_fail(diag, DV_E_SYSTEM, DV_NOWHERE, "no lock can be made");
    }
    if (pthread_cond_init(&l->moved, NULL)) {
        pthread_mutex_destroy(&l->lock);
        dv_arena_free(&arena);
        return dv_fail(diag, DV_E_SYSTEM, DV_NOWHERE, "no signal can be made");
    }
    l->ends = ends;
    l->size = size;
    l->arena = arena;
    for (int64_t r = 0; r < size; r++)
        ends[r] = (end){{.rank = r,
                         .size = size,
                         .ranks_on_machine = size,
                         .ops = &local_ops},
                        l};
    *out = l;
    return DV_OK;
}

dv_comm *dv_local_rank(dv_local *l, int64_t rank)
{
    return &l->ends[rank].comm;
}

void dv_local_destroy(dv_local *l)
{
    if (!l)
        return;
    leave_parent(l);
    for (int32_t i = 0; i < l->n_slots; i++)
        dv_release(l->slots[i]);
    pthread_cond_destroy(&l->moved);
    pthread_mutex_destroy(&l->lock);
    dv_arena arena = l->arena;
    dv_arena_free(&arena);
}

void dv_local_leave(dv_local *l)
{
    pthread_mutex_lock(&l->lock);
    int last = ++l->n_left == l->size;
    pthread_mutex_unlock(&l->lock);
    if (last)
        dv_local_destroy(l);
}

int64_t dv_local_bytes(const dv_local *l)
{
    return l->bytes;
}

int64_t dv_local_messages(const dv_local *l)
{
    return l->messages;
}
