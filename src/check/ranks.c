// The checker's rules about the plans of a team's ranks. They share no code
// with dist/, which makes the programs of ranks.
//
//   C31 the rank for which the team's plan was made has a plan of its own, and
//       in the plans of all ranks all other rules hold
//   C32 the program of a rank computes the rank's part of the team's program:
//       - it has the tensors that the rank's part and its messages live in
//       - it has the team's repeats, and in them the events at which the rank
//         communicates, in the order of the team's program, which is the same
//         on all ranks
//       - every other op is a copy, or computes points of an op of the team
//         that section dist gives the rank, with the same expression, from
//         elements that its tensors hold at that time
//       - messages hold the boxes of section dist when they are sent
//       - after every iteration of an outermost repeat and at the end, the
//         tensors that outlive it hold what the rank owns
//
// The proof is an abstract execution of the rank's program. It tracks which
// elements of the team's tensors each box of the rank's tensors holds, and as
// of when (holds.h). Ops may be reordered and computed twice, and copies added.
// Iterations of a repeat are executed until one of them loses nothing of what
// was known when it began; all later ones are then proved as well.
#include "check/check.h"
#include "base/math.h"
#include "check/holds.h"
#include <inttypes.h>
#include <string.h>

// Most iterations of a repeat (a loop of the program) that the proof executes
// before it gives up.
enum { MAX_ROUNDS = 64 };

typedef enum act { START, WAIT, COMBINE, NOTHING } act;

// An event, at which the rank communicates: in the rank's program it is an op
// that writes to the tensor `messages`.
typedef struct event {
    act act;
    int32_t of;     // the exchange or, for COMBINE, the op
    int32_t repeat; // the innermost repeat around it; -1: none
} event;

// The messages of one exchange, and the tensors of the rank's program with the
// boxes that are sent and received.
typedef struct transfer {
    dv_op_exchange messages;
    int32_t *to, *from;
    int64_t time; // of the values that travel
} transfer;

typedef struct proof {
    const dv_program *p; // the team's
    const dv_program *q; // the rank's
    const dv_plan_team *t;
    int64_t rank, coord[DV_MAX_AXES];
    dv_loc at;
    dv_diag *diag;
    dv_arena arena;
    // Per tensor of the team: the box that the rank owns, and the box that it
    // has in memory, which may also hold received elements.
    dv_box *own, *local;
    // Per op of the team: the innermost repeat (loop) around it (-1: none),
    // whether the rank computes points of it, whether its sum is split over
    // ranks, the tensor with this rank's partial sums (-1: none), and when it
    // ran last (-1: never).
    int32_t *repeat;
    char *has_target, *splits;
    int32_t *parts;
    int64_t *ran;
    // The ops that write tensor t and of which the rank computes points are
    // writers[writer_at[t]] to writers[writer_at[t + 1] - 1]; cursor[t] is the
    // one that was found last, where the next search begins.
    int32_t *writers, *writer_at, *cursor;
    // Per tensor of the rank: the team's tensor with its name and shape; the
    // team's tensor that it is named after; the op whose partial sums it has
    // (each -1: none); whether a message from or to it is in flight.
    int32_t *named, *after, *sums_of;
    char *busy;
    int32_t *event_of; // per op of q: its event, or -1
    event *events;
    int32_t n_events, cap_events;
    transfer *transfers; // per exchange
    // Lists of the exchanges hoisted out of repeats (loops), by number plus 1:
    // per repeat the first one, per exchange the next one.
    int32_t *hoisted, *next_hoisted;
    // The names of the rank's tensors, each with the last number that was
    // appended to it to make another name.
    dv_table names;
    int32_t messages; // the tensor of q that events write; -1: none
    // Tensors of the team that were written since they were last checked.
    int32_t *dirty, n_dirty, cap_dirty;
    char *is_dirty;
    dv_holds holds;
    int64_t now;    // number of ops of the team that have run
    int64_t began;  // when the current iteration of the current repeat began
    int32_t inside; // the current repeat; -1: none
    // The repeat (loop) that begins after the current ops; -1: none.
    int32_t next_repeat;
    // Why the rank's last op matched no op of the team, for the error message,
    // and the name of the tensor or op that this is about.
    const char *why, *why_of;
    dv_fact *facts; // what the current op makes true
    int32_t n_facts, cap_facts;
} proof;

#define WRONG(w, ...)                                                          \
    DV_BREAKS((w)->diag, C32, (w)->at, "rank %" PRId64 ": " __VA_ARGS__)

// -- What the rank must have --------------------------------------------------

static dv_status outofmem(const proof *w)
{
    return dv_nomem(w->diag);
}

// Finds the innermost repeat (a loop of the program) around every op and around
// every repeat; -1: none.
static int find_repeats(const dv_program *p, int32_t *of_op, int32_t *of_repeat,
                        dv_arena *arena)
{
    int32_t *stack = DV_NEW(arena, int32_t, p->n_repeats + 1), n = 0, next = 0;
    if (!stack)
        return 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        while (n && p->repeats[stack[n - 1]].end_op <= i)
            n--;
        for (; next < p->n_repeats && p->repeats[next].first_op == i; next++) {
            of_repeat[next] = n ? stack[n - 1] : -1;
            stack[n++] = next;
        }
        of_op[i] = n ? stack[n - 1] : -1;
    }
    return 1;
}

static dv_box hull(const dv_box *a, const dv_box *b)
{
    dv_box out = {.n_dims = a->n_dims};
    if (dv_check_empty(a) || dv_check_empty(b))
        return dv_check_empty(a) ? *b : *a;
    for (int d = 0; d < a->n_dims; d++) {
        int64_t lo = dv_min_i64(a->dim[d].off, b->dim[d].off);
        int64_t hi = dv_max_i64(a->dim[d].off + a->dim[d].size,
                                b->dim[d].off + b->dim[d].size);
        out.dim[d] = (dv_range){lo, hi - lo};
    }
    return out;
}

static void make_whole(const proof *w, const dv_access *a)
{
    const dv_tensor *t = &w->p->tensors[a->tensor];
    dv_box *b = &w->local[a->tensor];
    for (int d = 0; d < t->n_dims && dv_access_is_indirect(a); d++)
        b->dim[d] = (dv_range){0, t->shape[d]};
}

// Finds the box of each tensor that the rank has in memory: the smallest one
// with all that it owns and all that its ops read. A tensor accessed through an
// index that is read from a tensor is in memory as a whole.
static void find_local(proof *w)
{
    int64_t begin[DV_MAX_VARS], end[DV_MAX_VARS];
    for (int32_t i = 0; i < w->p->n_tensors; i++)
        w->own[i] = w->local[i] = dv_check_owned(w->t, i, w->coord);
    for (int32_t i = 0; i < w->p->n_ops; i++) {
        const dv_op *o = &w->p->ops[i];
        w->has_target[i] =
            (char)dv_check_target(w->p, w->t, i, w->coord, begin, end);
        make_whole(w, &o->write);
        for (int k = 0; k < o->n_reads; k++) {
            const dv_access *a = &o->reads[k];
            make_whole(w, a);
            if (!w->has_target[i])
                continue;
            dv_box b = dv_check_reach(w->p, o, a, begin, end);
            w->local[a->tensor] = hull(&w->local[a->tensor], &b);
        }
    }
}

// Lists for each tensor the ops that write it and of which the rank computes a
// part.
static void list_writers(proof *w)
{
    const dv_program *p = w->p;
    for (int32_t i = 0; i < p->n_ops; i++)
        if (w->has_target[i])
            w->writer_at[p->ops[i].write.tensor + 1]++;
    for (int32_t i = 0; i < p->n_tensors; i++)
        w->writer_at[i + 1] += w->writer_at[i];
    for (int32_t i = 0; i < p->n_ops; i++)
        if (w->has_target[i]) {
            int32_t t = p->ops[i].write.tensor;
            w->writers[w->writer_at[t] + w->cursor[t]++] = i;
        }
    for (int32_t i = 0; i < p->n_tensors; i++)
        w->cursor[i] = 0;
}

static int name_is_taken(const proof *w, const char *name)
{
    return dv_table_get(&w->names, name, strlen(name), -1) >= 0;
}

static dv_status take_name(proof *w, const char *name)
{
    return dv_table_set(&w->names, &w->arena, name, strlen(name), 1)
               ? DV_OK
               : outofmem(w);
}

static int has_shape(const dv_tensor *t, dv_dtype dtype, const dv_box *b)
{
    int same = t->dtype == dtype && t->n_dims == b->n_dims;
    for (int d = 0; d < b->n_dims && same; d++)
        same = t->shape[d] == b->dim[d].size;
    return same;
}

// Takes the name `text` or, if an earlier tensor has it, that name with the
// next number: u_to_0, u_to_0_2, u_to_0_3. Returns NULL if out of memory.
static const char *take_next(proof *w, dv_text *text)
{
    size_t len = text->len;
    char *stem = text->failed ? NULL : dv_arena_copy(&w->arena, text->at, len);
    if (!stem)
        return NULL;
    int32_t n = dv_table_get(&w->names, stem, len, 0);
    while (!text->failed && name_is_taken(w, text->at)) {
        text->len = len;
        dv_put(text, "_%d", (int)++n);
    }
    char *name =
        text->failed ? NULL : dv_arena_copy(&w->arena, text->at, text->len);
    int ok = name && take_name(w, name) == DV_OK &&
             dv_table_set(&w->names, &w->arena, stem, len, n ? n : 1);
    return ok ? name : NULL;
}

// Finds an input or output of the rank's program by its name: `stem`, plus a
// number if it was used before. Fails if it has other extents than box b.
static dv_status find_bound(proof *w, dv_text *stem, dv_dtype dtype,
                            const dv_box *b, int in, int out, int32_t *tensor)
{
    const char *name = take_next(w, stem);
    dv_text_free(stem);
    if (!name)
        return outofmem(w);
    *tensor = dv_program_find(w->q, name);
    const dv_tensor *t = *tensor < 0 ? NULL : &w->q->tensors[*tensor];
    if (!t || !has_shape(t, dtype, b) || (in && !t->is_input) ||
        (out && !t->is_output))
        return WRONG(w,
                     "its program has no tensor %s as section dist demands "
                     "it",
                     w->rank, name);
    return DV_OK;
}

static dv_status add_event(proof *w, act what, int32_t of, int32_t repeat)
{
    event *e = DV_PUSH(&w->arena, event, w->events, w->n_events, w->cap_events);
    if (!e)
        return outofmem(w);
    *e = (event){what, of, repeat};
    const dv_box scalar = {0};
    dv_text name = {0};
    if (w->messages >= 0)
        return DV_OK;
    dv_put(&name, "messages");
    return find_bound(w, &name, DV_I32, &scalar, 1, 1, &w->messages);
}

// Finds the tensors of the rank's program that hold what an exchange sends and
// receives.
static dv_status find_transfer(proof *w, int32_t exchange)
{
    transfer *x = &w->transfers[exchange];
    dv_op_exchange *e = &x->messages;
    *e = w->t->op_exchanges[exchange];
    if (w->rank != w->t->rank &&
        !dv_team_messages(e, w->p, w->t, exchange, w->rank, &w->arena))
        return outofmem(w);
    const dv_tensor *t = &w->p->tensors[e->tensor];
    x->to = DV_NEW(&w->arena, int32_t, e->n_sends);
    x->from = DV_NEW(&w->arena, int32_t, e->n_receives);
    if (!x->to || !x->from)
        return outofmem(w);
    for (int32_t i = 0; i < e->n_sends; i++) {
        dv_text name = {0};
        dv_put(&name, "%s_to_%d", t->name, (int)i);
        DV_TRY(
            find_bound(w, &name, t->dtype, &e->sends[i].box, 0, 1, &x->to[i]));
    }
    for (int32_t i = 0; i < e->n_receives; i++) {
        dv_text name = {0};
        dv_put(&name, "%s_from_%d", t->name, (int)i);
        DV_TRY(find_bound(w, &name, t->dtype, &e->receives[i].box, 1, 0,
                          &x->from[i]));
    }
    return DV_OK;
}

// Returns the number of variables of an op that are not reduced; they come
// first.
static int n_written(const dv_op *op)
{
    int n = 0;
    while (n < op->n_vars && !op->vars[n].reduce)
        n++;
    return n;
}

// Returns the box of results, indexed by the op's unreduced variables, for
// which the rank computes partial sums.
static dv_box parts_box(const proof *w, int32_t op)
{
    int64_t begin[DV_MAX_VARS], end[DV_MAX_VARS];
    dv_box b = {.n_dims = n_written(&w->p->ops[op])};
    dv_check_target(w->p, w->t, op, w->coord, begin, end);
    for (int d = 0; d < b.n_dims; d++)
        b.dim[d] = (dv_range){begin[d], end[d] - begin[d]};
    return b;
}

static dv_status find_parts(proof *w, int32_t op)
{
    const dv_op *o = &w->p->ops[op];
    dv_compute_type c = dv_op_compute(w->p, o);
    dv_box b = parts_box(w, op);
    dv_text name = {0};
    dv_put(&name, "%s_parts", w->p->tensors[o->write.tensor].name);
    DV_TRY(find_bound(w, &name,
                      c == DV_IN_F32   ? DV_F32
                      : c == DV_IN_F64 ? DV_F64
                                       : DV_I64,
                      &b, 1, 1, &w->parts[op]));
    w->sums_of[w->parts[op]] = op;
    return DV_OK;
}

// Lists the events (starts and waits) of the exchanges that take place once,
// before a repeat (a loop of the program), instead of in it.
static dv_status list_hoisted(proof *w, int32_t repeat, int32_t inside)
{
    for (int32_t i = w->hoisted[repeat] - 1; i >= 0;
         i = w->next_hoisted[i] - 1) {
        DV_TRY(find_transfer(w, i));
        DV_TRY(add_event(w, START, i, inside));
        DV_TRY(add_event(w, WAIT, i, inside));
    }
    return DV_OK;
}

// Lists the events (starts and waits) of the exchanges first to end - 1 that
// take place before an op. All messages of an op are started before any is
// waited for.
static dv_status list_exchanges(proof *w, int32_t first, int32_t end,
                                int32_t inside)
{
    const dv_op_exchange *all = w->t->op_exchanges;
    for (int32_t i = first; i < end; i++)
        if (all[i].repeat < 0)
            DV_TRY(find_transfer(w, i));
    for (int32_t i = first; i < end; i++)
        if (all[i].repeat < 0)
            DV_TRY(add_event(w, START, i, inside));
    for (int32_t i = first; i < end; i++)
        if (all[i].repeat < 0)
            DV_TRY(add_event(w, WAIT, i, inside));
    return DV_OK;
}

// Lists the events (communication) of op number `op`, whose exchanges are first
// to end - 1. Adds to *n the number of ops that the rank runs for it.
static dv_status list_op(proof *w, int32_t op, int32_t first, int32_t end,
                         int64_t *n)
{
    int32_t before = w->n_events;
    DV_TRY(list_exchanges(w, first, end, w->repeat[op]));
    if (w->has_target[op] && w->splits[op]) {
        DV_TRY(find_parts(w, op));
        DV_TRY(add_event(w, COMBINE, op, w->repeat[op]));
    }
    *n += w->has_target[op] + w->n_events - before;
    return DV_OK;
}

// Lists the events (communication) of the rank in the order of the team's
// program. A repeat (loop) or program in which the rank does nothing else has
// the event NOTHING, because it cannot be empty.
static dv_status list_events(proof *w, const int32_t *of_repeat)
{
    const dv_program *p = w->p;
    const dv_plan_team *t = w->t;
    int64_t n = 0, *before = DV_NEW(&w->arena, int64_t, p->n_repeats);
    int32_t next = 0, first = 0, end = 0;
    w->hoisted = DV_NEW(&w->arena, int32_t, p->n_repeats);
    w->next_hoisted = DV_NEW(&w->arena, int32_t, t->n_op_exchanges);
    if (!before || !w->hoisted || !w->next_hoisted)
        return outofmem(w);
    for (int32_t i = t->n_op_exchanges - 1; i >= 0; i--)
        if (t->op_exchanges[i].repeat >= 0) {
            int32_t *head = &w->hoisted[t->op_exchanges[i].repeat];
            w->next_hoisted[i] = *head;
            *head = i + 1;
        }
    for (int32_t op = 0; op < p->n_ops; op++) {
        for (first = end;
             end < t->n_op_exchanges && t->op_exchanges[end].op == op;)
            end++;
        for (; next < p->n_repeats && p->repeats[next].first_op == op; next++) {
            int32_t had = w->n_events;
            DV_TRY(list_hoisted(w, next, of_repeat[next]));
            n += w->n_events - had;
            before[next] = n;
        }
        DV_TRY(list_op(w, op, first, end, &n));
        for (int32_t r = w->repeat[op];
             r >= 0 && p->repeats[r].end_op == op + 1; r = of_repeat[r])
            if (n == before[r]) {
                DV_TRY(add_event(w, NOTHING, 0, r));
                n++;
            }
    }
    return p->n_ops && !n ? add_event(w, NOTHING, 0, -1) : DV_OK;
}

// Finds the ops of the rank's program at which it communicates: event number n
// is an op that writes the value n to the tensor `messages`.
static dv_status match_events(proof *w, const int32_t *repeat)
{
    const dv_program *q = w->q;
    int32_t n = 0;
    for (int32_t i = 0; i < q->n_ops; i++) {
        const dv_op *o = &q->ops[i];
        w->event_of[i] = -1;
        if (w->messages < 0 || o->write.tensor != w->messages)
            continue;
        if (n == w->n_events || !o->is_extern ||
            o->body->kind != DV_EXPR_CONST || o->body->value != n ||
            w->events[n].repeat != repeat[i])
            return WRONG(w, "op %s is not where section dist has event %d",
                         w->rank, o->name, (int)n);
        w->event_of[i] = n++;
    }
    if (n < w->n_events)
        return WRONG(w, "its program has no event %d", w->rank, (int)n);
    return DV_OK;
}

static dv_status check_repeats(const proof *w, const int32_t *of_repeat,
                               const int32_t *of_local)
{
    const dv_program *p = w->p, *q = w->q;
    int same = p->n_repeats == q->n_repeats;
    for (int32_t i = 0; i < p->n_repeats && same; i++)
        same = p->repeats[i].times == q->repeats[i].times &&
               of_repeat[i] == of_local[i];
    return same ? DV_OK
                : WRONG(w, "its repeats are not those of the team's program",
                        w->rank);
}

// Finds the team's tensor after which a tensor of the rank is named: its name
// is the same, or has numbers appended (u_2). Returns -1 if there is none.
static int32_t named_after(const proof *w, const char *name)
{
    size_t len = strlen(name);
    for (;;) {
        int32_t t = dv_table_get(&w->p->tensor_ids, name, len, -1);
        size_t digits = len;
        while (digits && name[digits - 1] >= '0' && name[digits - 1] <= '9')
            digits--;
        if (t >= 0 && !dv_check_empty(&w->local[t]))
            return t;
        if (digits == len || !digits || name[digits - 1] != '_')
            return -1;
        len = digits - 1;
    }
}

static void add_known(proof *w, int32_t tensor, int32_t of)
{
    dv_fact f = {.at = w->own[of], .of = of};
    for (int d = 0; d < f.at.n_dims; d++) {
        f.shift[d] = w->local[of].dim[d].off;
        f.at.dim[d].off -= f.shift[d];
    }
    if (!dv_check_empty(&f.at))
        dv_holds_add(&w->holds, tensor, &f);
}

// Finds the team's tensor for each tensor of the rank's program, by name.
static dv_status name_tensors(proof *w)
{
    for (int32_t i = 0; i < w->q->n_tensors; i++) {
        const dv_tensor *x = &w->q->tensors[i];
        int32_t t = dv_program_find(w->p, x->name);
        int known = t >= 0 && !dv_check_empty(&w->local[t]) &&
                    has_shape(x, w->p->tensors[t].dtype, &w->local[t]);
        w->named[i] = known ? t : -1;
        w->after[i] = named_after(w, x->name);
        w->sums_of[i] = -1;
        if (known && x->is_input && w->p->tensors[t].is_input)
            add_known(w, i, t);
    }
    for (int32_t i = 0; i < w->p->n_tensors; i++)
        if (!dv_check_empty(&w->local[i]))
            DV_TRY(take_name(w, w->p->tensors[i].name));
    return DV_OK;
}

// Marks the tensors that outlive a repeat (a loop of the program): inputs,
// outputs, and those used inside and outside of the same outermost repeat.
static int find_kept(const proof *w, const int32_t *of_repeat, char *kept,
                     int32_t *seen)
{
    const dv_program *p = w->p;
    for (int32_t t = 0; t < p->n_tensors; t++) {
        kept[t] = p->tensors[t].is_input || p->tensors[t].is_output;
        seen[t] = -2; // no op uses the tensor so far
    }
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op *o = &p->ops[i];
        int32_t r = w->repeat[i];
        while (r >= 0 && of_repeat[r] >= 0)
            r = of_repeat[r];
        for (int k = -1; k < o->n_reads; k++) {
            int32_t t = k < 0 ? o->write.tensor : o->reads[k].tensor;
            kept[t] |= (char)(seen[t] != -2 && seen[t] != r);
            seen[t] = r;
        }
    }
    return 1;
}

// Checks that tensors which outlive the program or a repeat (loop) are inputs
// or outputs of the rank's program, and that its only further inputs and
// outputs are tensors of the team and message buffers.
static dv_status check_bound(proof *w, const int32_t *of_repeat)
{
    const dv_program *p = w->p, *q = w->q;
    char *kept = DV_NEW(&w->arena, char, p->n_tensors);
    char *written = DV_NEW(&w->arena, char, q->n_tensors);
    int32_t *seen = DV_NEW(&w->arena, int32_t, p->n_tensors);
    if (!kept || !written || !seen)
        return outofmem(w);
    find_kept(w, of_repeat, kept, seen);
    for (int32_t i = 0; i < q->n_ops; i++)
        written[q->ops[i].write.tensor] = 1;
    for (int32_t i = 0; i < p->n_tensors; i++) {
        int32_t n = dv_program_find(q, p->tensors[i].name);
        int bad = n < 0 || w->named[n] != i ||
                  (p->tensors[i].is_input && !q->tensors[n].is_input) ||
                  !(q->tensors[n].is_output ||
                    (q->tensors[n].is_input && !written[n]));
        if (kept[i] && bad && !dv_check_empty(&w->own[i]) &&
            !p->tensors[i].is_dead)
            return WRONG(w,
                         "its program has no tensor %s as section dist "
                         "demands it",
                         w->rank, p->tensors[i].name);
    }
    for (int32_t i = 0; i < q->n_tensors; i++) {
        const dv_tensor *x = &q->tensors[i];
        if ((x->is_input || x->is_output) && w->named[i] < 0 &&
            !name_is_taken(w, x->name))
            return WRONG(w, "tensor %s is none of section dist", w->rank,
                         x->name);
    }
    return DV_OK;
}

// -- Matching ops -------------------------------------------------------------

// Which part of an op of the team an op of the rank computes: all of it, the
// rank's partial sums, or the results, from the sums over all ranks.
typedef enum part { ALL, PARTIAL, RESULT } part;

// A comparison of an op b of the rank with an op a of the team, to prove that b
// computes a part of a.
typedef struct match {
    proof *w;
    int32_t op; // the team's
    part part;
    const dv_op *a;       // the same op
    const dv_op *b;       // the rank's op
    int n_vars;           // variables of b, which are the first ones of a
    int var[DV_MAX_VARS]; // the variable of b for each one of a
    // The ranges of a's variables that the rank is to compute, and those that b
    // computes.
    int64_t target_begin[DV_MAX_VARS], target_end[DV_MAX_VARS];
    int64_t begin[DV_MAX_VARS], end[DV_MAX_VARS];
} match;

static int no(match *m, const char *why, const char *of)
{
    m->w->why = why;
    m->w->why_of = of;
    return 0;
}

static const char *tensor_name(const match *m, const dv_access *a)
{
    return m->w->p->tensors[a->tensor].name;
}

// Finds the variables of the rank's op b that stand for those of the team's op
// a, by their names.
static int match_vars(match *m)
{
    uint32_t used = 0;
    if (m->b->n_vars != m->n_vars)
        return no(m, "it has other variables", m->a->name);
    for (int v = 0; v < m->n_vars; v++) {
        int k = 0;
        while (k < m->n_vars && (used >> k & 1 || strcmp(m->a->vars[v].name,
                                                         m->b->vars[k].name)))
            k++;
        if (k == m->n_vars || m->a->vars[v].reduce != m->b->vars[k].reduce)
            return no(m, "it has other variables", m->a->name);
        used |= UINT32_C(1) << k;
        m->var[v] = k;
    }
    return 1;
}

static int same_coefs(const match *m, const dv_index *x, const dv_index *y)
{
    for (int v = 0; v < m->n_vars; v++)
        if (x->coef[v] != y->coef[m->var[v]])
            return 0;
    return 1;
}

// Returns the distance between the elements that index x of the team's op and
// index y of the rank's op select. Both have the same coefficients.
static int64_t distance(const match *m, const dv_index *x, const dv_index *y)
{
    int64_t by = x->base - y->base;
    for (int v = 0; v < m->n_vars; v++)
        by += x->coef[v] * (m->begin[v] - m->b->vars[m->var[v]].begin);
    return by;
}

// Finds the values that the rank's op b computes of each variable of the team's
// op a. If b writes the team's tensor, they follow from the elements that it
// writes. All values that the rank is to compute are assumed if b writes
// another tensor (partial sums, for example), or if the variable is not the
// only one of a dim; match_access finds out whether that is right.
static void find_values(match *m)
{
    const dv_access *x = &m->a->write, *y = &m->b->write;
    int32_t t = m->w->named[y->tensor];
    int by_write = m->part != PARTIAL && t == x->tensor &&
                   x->n_dims == y->n_dims && !dv_access_is_indirect(x);
    for (int v = 0; v < m->n_vars; v++) {
        m->begin[v] = m->target_begin[v];
        for (int d = 0; d < x->n_dims && by_write; d++) {
            const dv_index *i = &x->index[d], *k = &y->index[d];
            if (dv_check_var(m->a, i) != v || k->via >= 0 ||
                k->coef[m->var[v]] != i->coef[v])
                continue;
            m->begin[v] =
                m->b->vars[m->var[v]].begin +
                (k->base + m->w->local[t].dim[d].off - i->base) / i->coef[v];
            break;
        }
        m->end[v] = m->begin[v] + m->b->vars[m->var[v]].end -
                    m->b->vars[m->var[v]].begin;
    }
}

// Checks that the rank's op b computes only points that the rank is to compute,
// and all values of variables that are reduced or share a dim of the written
// tensor.
static int match_values(match *m)
{
    uint32_t whole = 0;
    for (int d = 0; d < m->a->write.n_dims && m->part != PARTIAL; d++)
        if (m->a->write.index[d].via >= 0)
            whole = UINT32_MAX;
        else if (dv_check_var(m->a, &m->a->write.index[d]) == -2)
            whole |= dv_index_vars(m->a, &m->a->write.index[d]);
    for (int v = 0; v < m->n_vars; v++) {
        int all = m->part == PARTIAL || m->a->vars[v].reduce || whole >> v & 1;
        if (m->begin[v] < m->target_begin[v] || m->end[v] > m->target_end[v] ||
            (all && (m->begin[v] != m->target_begin[v] ||
                     m->end[v] != m->target_end[v])))
            return no(m, "it computes other values of", m->a->vars[v].name);
    }
    return 1;
}

// Returns the box of the rank's tensor that access y of the rank's op covers.
static dv_box reach(const match *m, const dv_access *y)
{
    int64_t begin[DV_MAX_VARS], end[DV_MAX_VARS];
    for (int v = 0; v < m->b->n_vars; v++) {
        begin[v] = m->b->vars[v].begin;
        end[v] = m->b->vars[v].end;
    }
    return dv_check_reach(m->w->q, m->b, y, begin, end);
}

static int match_read(match *m, int32_t r, int32_t s);

// Checks that reads with a border (a value outside of the tensor) are outside
// of the rank's tensor exactly where they are outside of the team's, which is
// shift[d] away in dim d. Sets *at to the box read inside of the rank's tensor,
// which may be empty.
static int match_border(match *m, const dv_access *x, const dv_access *y,
                        const int64_t *shift, dv_box *at)
{
    const dv_tensor *t = &m->w->p->tensors[x->tensor];
    const dv_tensor *u = &m->w->q->tensors[y->tensor];
    dv_access all = *y;
    if (x->has_border != y->has_border ||
        memcmp(&x->border, &y->border, sizeof x->border) != 0)
        return no(m, "it has another value outside of", t->name);
    if (!x->has_border)
        return 1;
    all.has_border = 0;
    dv_box b = reach(m, &all);
    for (int d = 0; d < x->n_dims; d++) {
        int64_t lo = b.dim[d].off, hi = lo + b.dim[d].size;
        int64_t here = dv_max_i64(lo, 0),
                here_end = dv_min_i64(hi, u->shape[d]);
        int64_t there = dv_max_i64(lo, -shift[d]);
        int64_t there_end = dv_min_i64(hi, t->shape[d] - shift[d]);
        int any = here < here_end, any_there = there < there_end;
        if (x->index[d].via < 0 &&
            (any != any_there ||
             (any && (here != there || here_end != there_end))))
            return no(m, "it leaves its part of the tensor inside of", t->name);
        at->dim[d] = (dv_range){here, any ? here_end - here : 0};
    }
    return 1;
}

// Checks that access x of the team's op and y of the rank's op select the same
// elements, and finds the distance of their indices in each dim. Indices that
// are read from a tensor count elements of the team's whole tensor.
static int match_access(match *m, const dv_access *x, const dv_access *y,
                        int64_t *shift)
{
    const dv_tensor *t = &m->w->p->tensors[x->tensor];
    const dv_tensor *u = &m->w->q->tensors[y->tensor];
    if (x->n_dims != y->n_dims)
        return no(m, "it accesses another tensor than", t->name);
    for (int d = 0; d < x->n_dims; d++) {
        const dv_index *i = &x->index[d], *k = &y->index[d];
        if ((i->via < 0) != (k->via < 0))
            return no(m, "it accesses other elements of", t->name);
        shift[d] = 0;
        if (i->via >= 0 && u->shape[d] != t->shape[d])
            return no(m, "it has not all elements of", t->name);
        if (!same_coefs(m, i, k) ||
            (i->via >= 0 && (i->factor != k->factor || distance(m, i, k) ||
                             !match_read(m, i->via, k->via))))
            return no(m, "it accesses other elements of", t->name);
        if (i->via < 0)
            shift[d] = distance(m, i, k);
    }
    return 1;
}

static int match_read(match *m, int32_t r, int32_t s)
{
    const dv_access *x = &m->a->reads[r], *y = &m->b->reads[s];
    dv_fact want = {
        .at = reach(m, y), .of = x->tensor, .time = m->w->ran[m->op]};
    if (m->w->q->tensors[y->tensor].dtype != m->w->p->tensors[x->tensor].dtype)
        return no(m, "it reads another type than that of", tensor_name(m, x));
    if (!match_access(m, x, y, want.shift) ||
        !match_border(m, x, y, want.shift, &want.at))
        return 0;
    if (dv_check_empty(&want.at))
        return 1;
    if (m->w->busy[y->tensor] || !dv_holds_has(&m->w->holds, y->tensor, &want))
        return no(m,
                  "it reads elements that are not there, or not the current "
                  "ones, of",
                  tensor_name(m, x));
    return 1;
}

static int is_number(const dv_expr *e, double value)
{
    return e->kind == DV_EXPR_CONST && !memcmp(&e->value, &value, sizeof value);
}

// Checks that expression e of the rank's op reads the sum over all ranks where
// the team's op has `sum`. For a mean, e is that sum divided by the number of
// points.
static int match_sums(match *m, const dv_expr *sum, const dv_expr *e)
{
    double points = 1;
    for (int v = 0; v < m->a->n_vars; v++)
        if (sum->vars >> v & 1)
            points *= (double)(m->a->vars[v].end - m->a->vars[v].begin);
    if (sum->fn == DV_RED_MEAN) {
        if (e->kind != DV_EXPR_APPLY || e->fn != DV_FN_DIV ||
            !is_number(e->arg[1], points))
            return no(m, "it does not divide the sum by the points of",
                      m->a->name);
        e = e->arg[0];
    }
    const dv_access *y = e->kind == DV_EXPR_READ ? &m->b->reads[e->read] : NULL;
    int64_t time = m->w->ran[m->op];
    dv_fact want = {.of = m->w->p->n_tensors + m->w->p->n_ops + m->op,
                    .time = time};
    int same = y && y->n_dims == m->n_vars;
    for (int d = 0; d < m->n_vars && same; d++) {
        const dv_index *k = &y->index[d];
        int v;
        same = k->via < 0 && dv_check_var(m->b, k) == m->var[d] &&
               k->coef[m->var[d]] == 1;
        v = m->var[d];
        want.shift[d] = m->begin[d] - m->b->vars[v].begin - k->base;
    }
    if (!same)
        return no(m, "it does not read the sums of", m->a->name);
    want.at = reach(m, y);
    if (!dv_holds_has(&m->w->holds, y->tensor, &want))
        return no(m, "the ranks have not added up the sums of", m->a->name);
    return 1;
}

// Checks that the value of a variable, used in an expression, is the same in
// the team's op and in the rank's, whose variables may be shifted.
static int match_index_value(match *m, const dv_expr *e, const dv_expr *f)
{
    int v = e->read;
    int64_t shift = m->begin[v] - m->b->vars[m->var[v]].begin;
    return (f->read == m->var[v] && f->base == e->base + shift) ||
           no(m, "a variable has another value than in", m->a->name);
}

static int match_expr(match *m, const dv_expr *e, const dv_expr *f)
{
    if (m->part == RESULT && e == dv_op_reduce(m->a))
        return match_sums(m, e, f);
    int as_sum = m->part == PARTIAL && e == dv_op_reduce(m->a) &&
                 e->fn == DV_RED_MEAN && f->fn == DV_RED_SUM;
    if (e->kind != f->kind || e->n_args != f->n_args)
        return no(m, "it has another expression than", m->a->name);
    if (e->kind == DV_EXPR_CONST)
        return (e->dtype == f->dtype && is_number(f, e->value)) ||
               no(m, "it has another number than", m->a->name);
    if (e->kind == DV_EXPR_READ)
        return match_read(m, e->read, f->read);
    if (e->kind == DV_EXPR_INDEX)
        return match_index_value(m, e, f);
    if (e->fn != f->fn && !as_sum)
        return no(m, "it has another function than", m->a->name);
    for (int v = 0; v < m->a->n_vars && e->kind == DV_EXPR_REDUCE; v++)
        if ((e->vars >> v & 1) != (f->vars >> m->var[v] & 1))
            return no(m, "it sums over other variables than", m->a->name);
    for (int i = 0; i < e->n_args; i++)
        if (!match_expr(m, e->arg[i], f->arg[i]))
            return 0;
    return 1;
}

// Returns the box of the rank's tensor that has the contents after the team's
// op a when the rank's op b has run. If a writes u[3*i], the elements between
// u[0] and u[3] do not change, and the box has them, too.
static dv_box written_box(const match *m, const int64_t *shift)
{
    dv_box b = reach(m, &m->b->write);
    dv_box all = dv_check_reach(m->w->p, m->a, &m->a->write, m->target_begin,
                                m->target_end);
    for (int d = 0; d < b.n_dims; d++) {
        const dv_index *x = &m->a->write.index[d];
        int v = x->via < 0 ? dv_check_var(m->a, x) : -1;
        all.dim[d].off -= shift[d];
        if (v >= 0)
            b.dim[d].size += (x->coef[v] < 0 ? -x->coef[v] : x->coef[v]) - 1;
    }
    return dv_check_common(&b, &all);
}

// Returns whether the rank's op b writes every element of the box that its
// write covers.
static int writes_all(const match *m)
{
    uint32_t seen = 0;
    if (!m->a->update)
        return 1; // the op defines the tensor: rule C4
    for (int d = 0; d < m->a->write.n_dims; d++) {
        const dv_index *x = &m->a->write.index[d];
        int v = x->via < 0 ? dv_check_var(m->a, x) : -2;
        if (v == -2 || (v >= 0 && (seen >> v & 1 ||
                                   (x->coef[v] != 1 && x->coef[v] != -1))))
            return 0;
        seen |= v < 0 ? 0 : UINT32_C(1) << v;
    }
    return 1;
}

static int add_fact(proof *w, const dv_fact *f)
{
    dv_fact *room =
        DV_PUSH(&w->arena, dv_fact, w->facts, w->n_facts, w->cap_facts);
    if (room)
        *room = *f;
    w->holds.failed |= !room;
    return 1;
}

static int match_parts(match *m)
{
    const dv_access *y = &m->b->write;
    dv_fact f = {.of = m->w->p->n_tensors + m->op, .time = m->w->ran[m->op]};
    int n = n_written(m->a);
    if (y->n_dims != n)
        return no(m, "it does not write the sums of", m->a->name);
    for (int d = 0; d < n; d++) {
        const dv_index *k = &y->index[d];
        if (k->via >= 0 || dv_check_var(m->b, k) != m->var[d] ||
            k->coef[m->var[d]] != 1)
            return no(m, "it does not write the sums of", m->a->name);
        f.shift[d] = m->begin[d] - m->b->vars[m->var[d]].begin - k->base;
    }
    f.at = reach(m, y);
    return add_fact(m->w, &f);
}

static int match_write(match *m)
{
    const dv_access *x = &m->a->write, *y = &m->b->write;
    dv_fact f = {.of = x->tensor, .time = m->w->ran[m->op]};
    const dv_tensor *t = &m->w->p->tensors[x->tensor];
    if (m->w->q->tensors[y->tensor].dtype != t->dtype)
        return no(m, "it writes another type than that of", t->name);
    if (!match_access(m, x, y, f.shift))
        return 0;
    int named = m->w->named[y->tensor] == x->tensor;
    for (int d = 0; d < x->n_dims && named; d++)
        if (f.shift[d] != m->w->local[x->tensor].dim[d].off)
            return no(m, "it writes other elements of", t->name);
    f.at = written_box(m, f.shift);
    if (!writes_all(m) && !dv_holds_has(&m->w->holds, y->tensor, &f))
        return no(m, "it changes some of elements that are not there of",
                  t->name);
    f.time++;
    return add_fact(m->w, &f);
}

// Returns whether op b of the rank computes part `which` of the team's op
// number `op`; if so, adds the facts that are true afterwards to w->facts.
static int match_op(proof *w, int32_t op, const dv_op *b, part which)
{
    const dv_op *a = &w->p->ops[op];
    match m = {.w = w, .op = op, .part = which, .a = a, .b = b};
    m.n_vars = which == RESULT ? n_written(a) : a->n_vars;
    if (a->is_extern != b->is_extern)
        return no(&m, "one of both is opaque:", a->name);
    if (!match_vars(&m))
        return 0;
    dv_check_target(w->p, w->t, op, w->coord, m.target_begin, m.target_end);
    find_values(&m);
    return match_values(&m) &&
           match_expr(&m, which == PARTIAL ? dv_op_reduce(a) : a->body,
                      b->body) &&
           (which == PARTIAL ? match_parts(&m) : match_write(&m));
}

// Returns whether an op copies a box, element by element. If so, adds to
// w->facts what the copy holds afterwards.
static int copies(proof *w, const dv_op *b)
{
    const dv_access *y = &b->write, *x = b->n_reads == 1 ? b->reads : NULL;
    if (b->is_extern || b->body->kind != DV_EXPR_READ || !x || x->has_border ||
        x->n_dims != y->n_dims || w->busy[x->tensor] ||
        w->q->tensors[x->tensor].dtype != w->q->tensors[y->tensor].dtype)
        return 0;
    uint32_t seen = 0;
    dv_box from = {.n_dims = x->n_dims};
    int64_t by[DV_MAX_DIMS]; // from the copied elements to the copy
    for (int d = 0; d < x->n_dims; d++) {
        const dv_index *i = &x->index[d], *k = &y->index[d];
        int v = i->via < 0 && k->via < 0 ? dv_check_var(b, k) : -2;
        if (v == -2 || dv_check_var(b, i) != v ||
            (v >= 0 && (k->coef[v] != 1 || i->coef[v] != 1 || seen >> v & 1)))
            return 0;
        seen |= v < 0 ? 0 : UINT32_C(1) << v;
        by[d] = k->base - i->base;
        from.dim[d] = v < 0 ? (dv_range){i->base, 1}
                            : (dv_range){i->base + b->vars[v].begin,
                                         b->vars[v].end - b->vars[v].begin};
    }
    for (const dv_fact *f = w->holds.facts[x->tensor]; f; f = f->next) {
        dv_fact copy = *f;
        copy.at = dv_check_common(&f->at, &from);
        if (dv_check_empty(&copy.at))
            continue;
        for (int d = 0; d < x->n_dims; d++) {
            copy.at.dim[d].off += by[d];
            copy.shift[d] -= by[d];
        }
        add_fact(w, &copy);
    }
    return 1;
}

// Returns the index of the first of n ascending op numbers that is `op` or
// greater.
static int32_t first_from(const int32_t *ops, int32_t n, int32_t op)
{
    int32_t lo = 0, hi = n;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (ops[mid] < op)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

// Finds the op of the team's program of which op b of the rank's program
// computes a part. Several consecutive ops of the team may be equal; b then
// counts for all of them. The search begins at the op that was found last for
// the same tensor and tries at most `tries` ops. Returns 0 if there is none.
static int match_any(proof *w, const dv_op *b, int32_t tries)
{
    int32_t sums = w->sums_of[b->write.tensor], t = w->after[b->write.tensor];
    w->why = "it writes a tensor of no op of the team:";
    w->why_of = w->q->tensors[b->write.tensor].name;
    if (sums >= 0)
        return w->ran[sums] >= w->began && w->repeat[sums] == w->inside &&
               match_op(w, sums, b, PARTIAL);
    if (t < 0)
        return 0;
    const int32_t *list = w->writers + w->writer_at[t];
    int32_t n = w->writer_at[t + 1] - w->writer_at[t], found = -1;
    const dv_repeat *in = w->inside < 0 ? NULL : &w->p->repeats[w->inside];
    int32_t first = in ? first_from(list, n, in->first_op) : 0;
    n = (in ? first_from(list, n, in->end_op) : n) - first;
    int32_t from = w->cursor[t] - first;
    from = from < 0 || from >= n ? 0 : from;
    for (int32_t i = 0; i < n && tries; i++) {
        int32_t at = first + (from + i) % n, op = list[at];
        if (w->ran[op] < w->began || w->repeat[op] != w->inside)
            continue;
        int fits = match_op(w, op, b, w->splits[op] ? RESULT : ALL);
        if (!fits && found >= 0)
            break;
        if (fits && found < 0)
            found = at;
        tries--;
    }
    if (found >= 0)
        w->cursor[t] = found;
    return found >= 0;
}

// -- The walk -----------------------------------------------------------------

static dv_status mark_dirty(proof *w, int32_t tensor)
{
    if (tensor < 0 || w->is_dirty[tensor])
        return DV_OK;
    int32_t *room =
        DV_PUSH(&w->arena, int32_t, w->dirty, w->n_dirty, w->cap_dirty);
    if (!room)
        return outofmem(w);
    *room = tensor;
    w->is_dirty[tensor] = 1;
    return DV_OK;
}

static dv_box whole_of(const dv_tensor *t)
{
    dv_box b = {.n_dims = t->n_dims};
    for (int d = 0; d < t->n_dims; d++)
        b.dim[d] = (dv_range){0, t->shape[d]};
    return b;
}

// Makes the fact that a whole tensor of the rank (a message buffer) holds a box
// of a team's tensor, as of the time of an exchange.
static dv_fact message(const proof *w, const transfer *x, int32_t tensor,
                       const dv_box *box)
{
    dv_fact f = {.at = whole_of(&w->q->tensors[tensor]),
                 .of = x->messages.tensor,
                 .time = x->time};
    for (int d = 0; d < box->n_dims; d++)
        f.shift[d] = box->dim[d].off;
    return f;
}

// Checks that the rank starts an exchange of messages at the right time. The
// messages hold the values that tensors have before a certain op of the team's
// program, or before a repeat; the other ranks expect these. An exchange before
// an op may start once the ops between the same two repeats have begun; one
// before a repeat, among the ops directly in front of it.
static dv_status start(proof *w, int32_t exchange)
{
    transfer *x = &w->transfers[exchange];
    const dv_op_exchange *e = &x->messages;
    int in_time =
        e->repeat < 0 ? w->ran[e->op] >= w->began : w->next_repeat == e->repeat;
    if (!in_time)
        return WRONG(w, "messages of %s start on the wrong side of a repeat",
                     w->rank, w->p->tensors[e->tensor].name);
    x->time = e->repeat < 0 ? w->ran[e->op] : w->now;
    for (int32_t i = 0; i < e->n_sends; i++) {
        dv_fact f = message(w, x, x->to[i], &e->sends[i].box);
        if (!dv_holds_has(&w->holds, x->to[i], &f))
            return WRONG(w,
                         "%s does not hold what is to be sent to rank "
                         "%" PRId64,
                         w->rank, w->q->tensors[x->to[i]].name,
                         e->sends[i].rank);
        w->busy[x->to[i]] = 1;
    }
    for (int32_t i = 0; i < e->n_receives; i++) {
        dv_box all = whole_of(&w->q->tensors[x->from[i]]);
        dv_holds_forget(&w->holds, x->from[i], &all);
        w->busy[x->from[i]] = 1;
    }
    return DV_OK;
}

static void wait(proof *w, int32_t exchange)
{
    const transfer *x = &w->transfers[exchange];
    for (int32_t i = 0; i < x->messages.n_sends; i++)
        w->busy[x->to[i]] = 0;
    for (int32_t i = 0; i < x->messages.n_receives; i++) {
        dv_fact f = message(w, x, x->from[i], &x->messages.receives[i].box);
        dv_holds_add(&w->holds, x->from[i], &f);
        w->busy[x->from[i]] = 0;
    }
}

static dv_status combine(proof *w, int32_t op)
{
    int32_t tensor = w->parts[op];
    dv_box target = parts_box(w, op);
    dv_fact f = {.at = whole_of(&w->q->tensors[tensor]),
                 .of = w->p->n_tensors + op,
                 .time = w->ran[op]};
    for (int d = 0; d < target.n_dims; d++)
        f.shift[d] = target.dim[d].off;
    if (!dv_holds_has(&w->holds, tensor, &f))
        return WRONG(w, "%s does not hold the partial sums of op %s", w->rank,
                     w->q->tensors[tensor].name, w->p->ops[op].name);
    dv_holds_forget(&w->holds, tensor, &f.at);
    f.of += w->p->n_ops;
    dv_holds_add(&w->holds, tensor, &f);
    return DV_OK;
}

static dv_status run_op(proof *w, int32_t number)
{
    const dv_op *b = &w->q->ops[number];
    int32_t n = w->event_of[number], to = b->write.tensor;
    if (n >= 0) {
        const event *e = &w->events[n];
        if (e->act == WAIT)
            wait(w, e->of);
        return e->act == START     ? start(w, e->of)
               : e->act == COMBINE ? combine(w, e->of)
                                   : DV_OK;
    }
    w->n_facts = 0;
    // An op of the team may be a copy. To save time, a copy is compared with
    // two ops only, from the one on that was found last for the same tensor.
    int is_copy = copies(w, b);
    int known = match_any(w, b, is_copy ? 2 : INT32_MAX) || is_copy;
    if (w->holds.failed)
        return outofmem(w);
    if (!known)
        return WRONG(w, "op %s is no part of the team's program: %s %s",
                     w->rank, b->name, w->why, w->why_of);
    if (w->busy[to])
        return WRONG(w, "op %s writes a message that is under way", w->rank,
                     b->name);
    int64_t begin[DV_MAX_VARS], end[DV_MAX_VARS];
    for (int v = 0; v < b->n_vars; v++) {
        begin[v] = b->vars[v].begin;
        end[v] = b->vars[v].end;
    }
    dv_box written = dv_check_reach(w->q, b, &b->write, begin, end);
    dv_holds_forget(&w->holds, to, &written);
    for (int32_t i = 0; i < w->n_facts; i++)
        dv_holds_add(&w->holds, to, &w->facts[i]);
    DV_TRY(mark_dirty(w, w->named[to]));
    return w->holds.failed ? outofmem(w) : DV_OK;
}

// Checks that the inputs and outputs of the rank's program that were written
// hold the current values of the elements that the rank owns.
static dv_status check_owned(proof *w, const char *when)
{
    for (; w->n_dirty; w->n_dirty--) {
        int32_t t = w->dirty[w->n_dirty - 1];
        int32_t n = dv_program_find(w->q, w->p->tensors[t].name);
        const dv_tensor *x = n < 0 ? NULL : &w->q->tensors[n];
        dv_fact f = {.at = w->own[t], .of = t, .time = w->now};
        w->is_dirty[t] = 0;
        if (!x || w->named[n] != t || !(x->is_input || x->is_output) ||
            (!w->holds.logs[t].n && !w->p->tensors[t].is_input))
            continue;
        for (int d = 0; d < f.at.n_dims; d++) {
            f.shift[d] = w->local[t].dim[d].off;
            f.at.dim[d].off -= f.shift[d];
        }
        if (!dv_holds_has(&w->holds, n, &f))
            return WRONG(w, "%s does not hold what the rank owns of it %s",
                         w->rank, x->name, when);
    }
    return w->holds.failed ? outofmem(w) : DV_OK;
}

// Executes, for the proof, ops op..end - 1 of the team and number..end_number -
// 1 of the rank, among which no repeat (loop) begins or ends.
static dv_status run_ops(proof *w, int32_t op, int32_t end, int32_t number,
                         int32_t end_number)
{
    for (; op < end; op++) {
        w->ran[op] = w->now++;
        dv_holds_log(&w->holds, op, w->ran[op]);
        DV_TRY(mark_dirty(w, w->p->ops[op].write.tensor));
    }
    for (; number < end_number; number++)
        DV_TRY(run_op(w, number));
    return DV_OK;
}

// The tensors of the rank that the ops of a repeat (loop) use, and the facts
// about their contents when an iteration began.
typedef struct round {
    int32_t *used;
    dv_fact **held;
    int32_t n, cap;
    char *is_used;
} round;

static int use(proof *w, round *r, int32_t tensor)
{
    if (tensor < 0 || r->is_used[tensor])
        return 1;
    int32_t *room = DV_PUSH(&w->arena, int32_t, r->used, r->n, r->cap);
    if (!room)
        return 0;
    *room = tensor;
    r->is_used[tensor] = 1;
    return 1;
}

static int use_event(proof *w, round *r, const event *e)
{
    const transfer *x = &w->transfers[e->of];
    int ok = e->act != COMBINE || use(w, r, w->parts[e->of]);
    if (e->act != START)
        return ok;
    for (int32_t i = 0; i < x->messages.n_sends && ok; i++)
        ok = use(w, r, x->to[i]);
    for (int32_t i = 0; i < x->messages.n_receives && ok; i++)
        ok = use(w, r, x->from[i]);
    return ok;
}

static int find_used(proof *w, round *r, const dv_repeat *loop)
{
    int ok = 1;
    r->is_used = dv_alloc((size_t)w->q->n_tensors + 1);
    if (!r->is_used)
        return 0;
    memset(r->is_used, 0, (size_t)w->q->n_tensors + 1);
    for (int32_t i = loop->first_op; i < loop->end_op && ok; i++) {
        const dv_op *o = &w->q->ops[i];
        ok = use(w, r, o->write.tensor);
        for (int k = 0; k < o->n_reads && ok; k++)
            ok = use(w, r, o->reads[k].tensor);
        if (w->event_of[i] >= 0 && ok)
            ok = use_event(w, r, &w->events[w->event_of[i]]);
    }
    dv_release(r->is_used);
    r->held = DV_NEW(&w->arena, dv_fact *, r->n);
    return ok && r->held;
}

// Returns whether all facts from the begin of the iteration are true now, so
// that later iterations need no proof.
static int lost_nothing(proof *w, const round *r)
{
    for (int32_t i = 0; i < r->n; i++)
        for (const dv_fact *f = r->held[i]; f; f = f->next) {
            dv_fact want = *f;
            want.time = w->now;
            if (!dv_holds_has(&w->holds, r->used[i], &want))
                return 0;
        }
    return 1;
}

static void begin_round(proof *w, round *r)
{
    for (int32_t i = 0; i < r->n; i++) {
        dv_holds_free(&w->holds, r->held[i]);
        dv_holds_advance(&w->holds, r->used[i], w->now);
        r->held[i] = dv_holds_copy(&w->holds, r->used[i]);
    }
    w->began = w->now;
}

static dv_status run_body(proof *w, int32_t op, int32_t end, int32_t number,
                          int32_t end_number, int32_t next);

// Executes a repeat (loop) for the proof, until an iteration loses no fact. The
// repeats inside are numbered from repeat + 1 on.
static dv_status run_repeat(proof *w, int32_t repeat)
{
    const dv_repeat *a = &w->p->repeats[repeat], *b = &w->q->repeats[repeat];
    round r = {0};
    int32_t outer = w->inside;
    int64_t began = w->began;
    if (!find_used(w, &r, b))
        return outofmem(w);
    w->inside = repeat;
    for (int64_t n = 0; n < a->times; n++) {
        if (n == MAX_ROUNDS)
            return WRONG(w, "what repeat %d computes cannot be shown", w->rank,
                         (int)repeat);
        begin_round(w, &r);
        DV_TRY(run_body(w, a->first_op, a->end_op, b->first_op, b->end_op,
                        repeat + 1));
        if (outer < 0)
            DV_TRY(check_owned(w, "after an iteration"));
        if (lost_nothing(w, &r))
            break;
    }
    for (int32_t i = 0; i < r.n; i++)
        dv_holds_free(&w->holds, r.held[i]);
    w->inside = outer;
    w->began = began;
    return w->holds.failed ? outofmem(w) : DV_OK;
}

// Executes, for the proof, ops op..end - 1 of the team and number..end_number -
// 1 of the rank. The repeats (loops) among them are numbered from `next` on.
static dv_status run_body(proof *w, int32_t op, int32_t end, int32_t number,
                          int32_t end_number, int32_t next)
{
    const dv_program *p = w->p, *q = w->q;
    while (next < p->n_repeats && p->repeats[next].first_op < end) {
        const dv_repeat *a = &p->repeats[next], *b = &q->repeats[next];
        w->next_repeat = next;
        DV_TRY(run_ops(w, op, a->first_op, number, b->first_op));
        DV_TRY(run_repeat(w, next));
        op = a->end_op;
        number = b->end_op;
        while (next < p->n_repeats && p->repeats[next].first_op < op)
            next++;
    }
    w->next_repeat = -1;
    return run_ops(w, op, end, number, end_number);
}

// -- One rank -----------------------------------------------------------------

static int allocate(proof *w)
{
    const dv_program *p = w->p, *q = w->q;
    dv_arena *a = &w->arena;
    w->own = DV_NEW(a, dv_box, p->n_tensors);
    w->local = DV_NEW(a, dv_box, p->n_tensors);
    w->repeat = DV_NEW(a, int32_t, p->n_ops);
    w->has_target = DV_NEW(a, char, p->n_ops);
    w->splits = DV_NEW(a, char, p->n_ops);
    w->parts = DV_NEW(a, int32_t, p->n_ops);
    w->ran = DV_NEW(a, int64_t, p->n_ops);
    w->writers = DV_NEW(a, int32_t, p->n_ops);
    w->writer_at = DV_NEW(a, int32_t, p->n_tensors + 1);
    w->cursor = DV_NEW(a, int32_t, p->n_tensors);
    w->named = DV_NEW(a, int32_t, q->n_tensors);
    w->after = DV_NEW(a, int32_t, q->n_tensors);
    w->sums_of = DV_NEW(a, int32_t, q->n_tensors);
    w->busy = DV_NEW(a, char, q->n_tensors);
    w->event_of = DV_NEW(a, int32_t, q->n_ops);
    w->transfers = DV_NEW(a, transfer, w->t->n_op_exchanges);
    w->is_dirty = DV_NEW(a, char, p->n_tensors);
    w->holds = (dv_holds){.p = p, .t = w->t, .coord = w->coord, .own = w->own};
    w->holds.arena = a;
    w->holds.logs = DV_NEW(a, dv_write_log, p->n_tensors);
    w->holds.facts = DV_NEW(a, dv_fact *, q->n_tensors);
    for (int32_t i = 0; i < p->n_ops && w->parts && w->ran; i++)
        w->parts[i] = -1, w->ran[i] = -1;
    w->messages = w->inside = -1;
    return w->own && w->local && w->repeat && w->has_target && w->splits &&
           w->parts && w->ran && w->writers && w->writer_at && w->cursor &&
           w->named && w->after && w->sums_of && w->busy && w->event_of &&
           w->transfers && w->is_dirty && w->holds.logs && w->holds.facts;
}

// Marks the ops whose reduction is split over ranks, each with partial sums.
static void find_splits(proof *w)
{
    for (int32_t i = 0; i < w->t->n_follows; i++) {
        const dv_split_reduction *f = &w->t->follows[i];
        int32_t read = w->p->ops[f->op].reads[f->read].tensor;
        int axis = w->t->tensors[read].axis[f->dim];
        w->splits[f->op] |= (char)(w->t->grid[axis] > 1);
    }
}

static dv_status prove(proof *w)
{
    const dv_program *p = w->p, *q = w->q;
    if (!allocate(w))
        return outofmem(w);
    int32_t *of_repeat = DV_NEW(&w->arena, int32_t, p->n_repeats);
    int32_t *of_local = DV_NEW(&w->arena, int32_t, q->n_repeats);
    int32_t *repeat = DV_NEW(&w->arena, int32_t, q->n_ops);
    if (!of_repeat || !of_local || !repeat)
        return outofmem(w);
    if (!find_repeats(p, w->repeat, of_repeat, &w->arena) ||
        !find_repeats(q, repeat, of_local, &w->arena))
        return outofmem(w);
    DV_TRY(check_repeats(w, of_repeat, of_local));
    find_local(w);
    find_splits(w);
    list_writers(w);
    DV_TRY(name_tensors(w));
    DV_TRY(list_events(w, of_repeat));
    DV_TRY(match_events(w, repeat));
    DV_TRY(check_bound(w, of_repeat));
    DV_TRY(run_body(w, 0, p->n_ops, 0, q->n_ops, 0));
    return check_owned(w, "at the end");
}

dv_status dv_check_rank(const dv_plan *team, const dv_plan *plan, int64_t rank,
                        dv_loc at, dv_diag *diag)
{
    proof w = {.p = team->ops,
               .q = plan->ops,
               .t = &team->team,
               .rank = rank,
               .at = at,
               .diag = diag};
    dv_check_coords(w.t, rank, w.coord);
    dv_status st = prove(&w);
    dv_arena_free(&w.arena);
    return st;
}

dv_status dv_check_ranks(const dv_plan *plan, dv_loc at, dv_diag *diag)
{
    if (!(plan->facts & DV_FACT_RANKS))
        return dv_fail(diag, DV_E_CHECK, at,
                       "the plan is not finished: section ranks is missing");
    if (!dv_plan_class_of(plan, plan->team.rank))
        return DV_BREAKS(diag, C31, at, "rank %" PRId64 " has no plan",
                         plan->team.rank);
    for (int32_t i = 0; i < plan->n_classes; i++) {
        const dv_rank_class *c = &plan->classes[i];
        dv_loc here = dv_plan_at(plan, c->off);
        if (!(c->plan->facts & DV_FACT_LOWERED))
            return DV_BREAKS(diag, C31, here, "rank %" PRId64 " has no program",
                             c->ranks[0]);
        DV_TRY(dv_plan_check(c->plan, diag));
        for (int32_t k = 0; k < c->n_ranks; k++)
            DV_TRY(dv_check_rank(plan, c->plan, c->ranks[k], here, diag));
    }
    return DV_OK;
}
