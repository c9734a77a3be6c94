// Chooses along which dim each tensor of the program is divided into sticks
// (the target's units of memory), its stick dim, by beam search.
//
// A state records, for the tensors that are still to be read, their stick dims
// and which copies exist. Op by op, every state is extended by every choice
// (combination of stick dims) of the op. It pays for the bytes that the op
// reads and writes, padding included (so sparse tensors are expensive), for the
// bytes of the moves that the choice needs, and DV_MOVE_BYTES per move, because
// a move is an extra op. A state is dropped if a cheaper one can be turned into
// it by moves at no higher total cost; this loses no solution. Of the remaining
// states only the best WIDTH are kept (fewer if they are large); `exact` says
// whether any were cut off.
//
// In a repeat, a copy is made outside of all loops in which its tensor is not
// written. If only one state remains, its choices are final: states hold only
// the tensors on which they may still differ.
#include "layout/stick.h"
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 64, MAX_WORK = 1 << 14, NEEDS_MOVE = -3 };
static const double HUGE_BYTES = 1e30; // more than any memory holds

// The stick dim of a tensor, or of a copy of it: the dim that is divided into
// sticks, the units of the target's memory.
typedef struct entry {
    int32_t tensor;
    int8_t stick;
    uint8_t is_copy, depth;
} entry;

typedef struct step {
    const struct step *before;
    int32_t op;
    int choice;
} step;

typedef struct state {
    double bytes; // cost of all choices so far, in bytes moved
    const step *last;
    // The combination of stick dims (dims divided into sticks) that is chosen
    // for the operands of the current op: its number among the op's choices. It
    // is not yet in the list `last`.
    int choice;
    // Number of the state in the order of creation for the current op; it
    // breaks ties between states of equal cost.
    int seq;
    int n;
    // Stick dims of tensors and their copies, sorted by tensor; the tensor
    // itself comes before its copies, which are sorted by stick dim.
    entry *at;
} state;

typedef struct loop {
    int32_t end;
    const dv_repeat *r;
    // Product of the trip counts of this loop and all loops around it.
    double times;
} loop;

typedef struct search {
    const dv_program *p;
    const dv_target *t;
    dv_arena *arena;  // the arena in which `out` is allocated
    dv_arena pool[2]; // the states of the current and of the previous op
    dv_sticks *out;
    // write_ops[writes[t]] .. write_ops[writes[t + 1] - 1] are the ops that
    // write tensor t.
    int32_t *last_use, *writes, *write_ops;
    uint8_t *updated;
    // Memory that each tensor takes if a given dim is divided into sticks (the
    // target's units of memory), in bytes; 0 if not computed yet.
    double *bytes;
    // For each tensor on which all states of the search agree: the stick dims
    // (dims divided into sticks) of the tensor and of its copies.
    entry **settled;
    uint8_t *n_settled;
    int32_t *copied; // tensors with copies that all states have
    int32_t n_copied, cap_copied;
    loop loops[DV_MAX_NESTING + 1];
    int depth;
    state *states, *next;
    int n_states, n_next, cap_next;
    int nomem;
} search;

static double count_bytes(const search *s, int32_t tensor, int stick)
{
    dv_layout l;
    return dv_stick_layout(&l, s->t, &s->p->tensors[tensor], stick)
               ? (double)l.bytes
               : HUGE_BYTES;
}

// Returns the bytes of a tensor whose dim `stick` is divided into sticks
// (DV_STICK_NONE: one element per stick). They are computed only once.
static double bytes_of(const search *s, int32_t tensor, int stick)
{
    double *known = &s->bytes[tensor * (DV_MAX_DIMS + 1) + stick + 1];
    if (*known == 0)
        *known = count_bytes(s, tensor, stick);
    return *known;
}

// Finds an entry of a tensor in a sorted array by binary search: that of the
// tensor itself if `copy` is 0, else that of its copy whose dim `stick` is
// divided into sticks (the target's units of memory).
static const entry *find_in(const entry *at, int n, int32_t tensor, int copy,
                            int stick)
{
    int lo = 0, hi = n;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (at[mid].tensor < tensor)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (int i = lo; i < n && at[i].tensor == tensor; i++)
        if (at[i].is_copy == copy && (!copy || at[i].stick == stick))
            return &at[i];
    return NULL;
}

// Finds the entry of a tensor itself (copy 0), or of its copy whose dim `stick`
// is divided into sticks (copy 1): in the state, or among the entries on which
// all states agree.
static const entry *find(const search *s, const state *x, int32_t tensor,
                         int copy, int stick)
{
    // Search the settled entries first: they are few, and in a long program
    // they include those of most tensors.
    const entry *e =
        find_in(s->settled[tensor], s->n_settled[tensor], tensor, copy, stick);
    return e ? e : find_in(x->at, x->n, tensor, copy, stick);
}

static int own(const search *s, const state *x, int32_t tensor)
{
    return find(s, x, tensor, 0, 0)->stick;
}

// Returns the stick dim (dim divided into sticks) of the tensor or of one of
// its copies, whichever takes the fewest bytes: the next copy of the tensor is
// made from it.
static int source(const search *s, const state *x, int32_t tensor)
{
    int from = own(s, x, tensor);
    for (int stick = DV_STICK_NONE; stick < s->p->tensors[tensor].n_dims;
         stick++)
        if (bytes_of(s, tensor, stick) < bytes_of(s, tensor, from) &&
            find(s, x, tensor, 1, stick))
            from = stick;
    return from;
}

static double move_cost(const search *s, const state *x, int32_t tensor, int to)
{
    return bytes_of(s, tensor, source(s, x, tensor)) + bytes_of(s, tensor, to) +
           DV_MOVE_BYTES;
}

static int by_tensor(const entry *a, const entry *b)
{
    if (a->tensor != b->tensor)
        return a->tensor < b->tensor ? -1 : 1;
    if (a->is_copy != b->is_copy)
        return a->is_copy - b->is_copy;
    return a->stick - b->stick;
}

static void put(state *x, entry e)
{
    int i = x->n++;
    for (; i > 0 && by_tensor(&x->at[i - 1], &e) > 0; i--)
        x->at[i] = x->at[i - 1];
    x->at[i] = e;
}

static int written_in(const search *s, int32_t tensor, const dv_repeat *r)
{
    for (int32_t i = s->writes[tensor]; i < s->writes[tensor + 1]; i++)
        if (s->write_ops[i] >= r->first_op && s->write_ops[i] < r->end_op)
            return 1;
    return 0;
}

// Returns the depth of repeat loops at which a copy of the tensor is made:
// outside of all loops that do not write the tensor. *times is how often the
// copy then runs.
static int copy_depth(const search *s, int32_t tensor, double *times)
{
    int d = s->depth;
    while (d > 0 && !written_in(s, tensor, s->loops[d - 1].r))
        d--;
    *times = d ? s->loops[d - 1].times : 1;
    return d;
}

// Returns whether entry e is a copy of a tensor that is now out of date. If
// `tensor` is not negative, that tensor was just written; else if r is not
// NULL, repeat loop r is entered, and e is stale if the loop writes its tensor;
// else loops from `depth` on have ended, and e is stale if it was made inside
// them.
static int is_stale(const search *s, const entry *e, int32_t tensor,
                    const dv_repeat *r, int depth)
{
    if (!e->is_copy)
        return 0;
    if (tensor >= 0)
        return e->tensor == tensor;
    return r ? written_in(s, e->tensor, r) : e->depth >= depth;
}

static void forget_in(const search *s, entry *at, int *n, int32_t tensor,
                      const dv_repeat *r, int depth)
{
    int kept = 0;
    for (int i = 0; i < *n; i++)
        if (!is_stale(s, &at[i], tensor, r, depth))
            at[kept++] = at[i];
    *n = kept;
}

static void forget(search *s, int32_t tensor, const dv_repeat *r, int depth)
{
    for (int k = 0; k < s->n_states; k++)
        forget_in(s, s->states[k].at, &s->states[k].n, tensor, r, depth);
    int32_t kept = 0;
    for (int32_t i = 0; i < s->n_copied; i++) {
        int32_t t = s->copied[i];
        int n = s->n_settled[t];
        forget_in(s, s->settled[t], &n, tensor, r, depth);
        s->n_settled[t] = (uint8_t)n;
        if (n > 1) // entry 0 is the tensor itself
            s->copied[kept++] = t;
    }
    s->n_copied = kept;
}

static int fits(const dv_access *a, int have, int want)
{
    if (want == DV_STICK_ANY || have == want)
        return 1;
    if (want != DV_STICK_NONE || a->index[have].via >= 0)
        return 0;
    // 2 means perhaps: a dense tensor can replace a sparse one (one element per
    // stick, the target's unit of memory) only if the access always reads the
    // same position of a stick; the caller tests that.
    return 2;
}

static int is_constant(const dv_op *op, const dv_index *x)
{
    for (int v = 0; v < op->n_vars; v++)
        if (x->coef[v])
            return 0;
    return 1;
}

// Returns whether an access that needs its tensor with dim `want` divided into
// sticks (the target's units of memory) can use the tensor with dim `have`
// divided into sticks.
static int serves(const dv_op *op, const dv_access *a, int have, int want)
{
    int how = fits(a, have, want);
    return how == 1 || (how == 2 && is_constant(op, &a->index[have]));
}

static int new_sticks(const dv_tensor *t, int want)
{
    if (want != DV_STICK_ANY)
        return want;
    return t->n_dims && t->shape[t->n_dims - 1] > 1 ? t->n_dims - 1
                                                    : DV_STICK_NONE;
}

// Returns which version of a tensor a read uses: of the tensor itself and its
// copies, the one with the fewest bytes whose stick dim (dim divided into
// sticks) the read accepts. Returns that stick dim, or NEEDS_MOVE if a new copy
// must be made.
static int taken(const search *s, const state *x, const dv_op *op,
                 const dv_access *a, int want)
{
    int have = own(s, x, a->tensor), best = NEEDS_MOVE;
    if (want == DV_STICK_ANY)
        return have;
    for (int k = DV_STICK_NONE; k < a->n_dims; k++)
        if ((k == have || find(s, x, a->tensor, 1, k)) &&
            serves(op, a, k, want) &&
            (best == NEEDS_MOVE ||
             bytes_of(s, a->tensor, k) < bytes_of(s, a->tensor, best)))
            best = k;
    return best;
}

// Adds a move to the state: a copy of the tensor with dim `want` divided into
// sticks, made before op i. If `note` is set, also records it in the result of
// the search.
static void add_move(search *s, state *x, int32_t i, int32_t tensor, int want,
                     int note)
{
    double times;
    int depth = copy_depth(s, tensor, &times), from = source(s, x, tensor);
    int32_t before = i;
    x->bytes += times * move_cost(s, x, tensor, want);
    put(x, (entry){tensor, (int8_t)want, 1, (uint8_t)depth});
    if (!note)
        return;
    for (int d = s->depth; d > depth; d--)
        before = s->loops[d - 1].r->first_op;
    dv_restick *m = DV_PUSH(s->arena, dv_restick, s->out->moves,
                            s->out->n_moves, s->out->cap_moves);
    if (m)
        *m = (dv_restick){.tensor = tensor,
                          .user = i,
                          .before = before,
                          .from = (int8_t)from,
                          .stick = (int8_t)want,
                          .depth = (uint8_t)depth};
    s->nomem |= !m;
}

// Applies a choice for op i to a state: want[k] is the dim of operand k that
// must be divided into sticks. Adds the cost of the choice and the copies that
// it needs. If `note` is set, these copies and the copy that every read uses
// are recorded in the result of the search.
static void go(search *s, state *x, int32_t i, const int8_t *want, int note)
{
    const dv_op *op = &s->p->ops[i];
    double here = s->depth ? s->loops[s->depth - 1].times : 1;
    for (int r = 0; r < op->n_reads; r++) {
        const dv_access *a = &op->reads[r];
        int takes = taken(s, x, op, a, want[r]);
        if (takes == NEEDS_MOVE) {
            add_move(s, x, i, a->tensor, want[r], note);
            takes = want[r];
        }
        // A read that accepts any stick dim (dim divided into sticks) costs the
        // same for every choice of the op, so it is not counted.
        if (want[r] != DV_STICK_ANY)
            x->bytes += here * bytes_of(s, a->tensor, takes);
        if (note && takes != own(s, x, a->tensor))
            s->out->want[s->out->first[i] + r] = (int8_t)takes;
    }
    int32_t t = op->write.tensor;
    int to = want[op->n_reads];
    if (!op->update) {
        to = new_sticks(&s->p->tensors[t], to);
        put(x, (entry){t, (int8_t)to, 0, 0});
        x->bytes += here * bytes_of(s, t, to);
    } else if (!serves(op, &op->write, own(s, x, t), to)) {
        // An update modifies its tensor in place. If the tensor is divided into
        // sticks along another dim than the op needs, the update accesses
        // single elements of sticks; charge that as much as a copy.
        x->bytes += here * move_cost(s, x, t, to);
    }
}

// Returns whether the tensor of e, or a copy of it, with the stick dim of e is
// among the entries at[0], at[1], … of this tensor.
static int has_stick(const entry *at, int n, const entry *e)
{
    for (int i = 0; i < n && at[i].tensor == e->tensor; i++)
        if (at[i].stick == e->stick)
            return 1;
    return 0;
}

// Returns whether search state x, by copying tensors, can be turned into state
// y at a total cost that is not above that of y; state y is then not needed.
static int can_become(const search *s, const state *x, const state *y)
{
    double sum = x->bytes;
    double here = s->depth ? s->loops[s->depth - 1].times : 1;
    for (int i = 0, k = 0; i < y->n && sum <= y->bytes; i++) {
        const entry *e = &y->at[i];
        // Both states' entries are sorted by tensor and mostly equal, so merge
        // them.
        while (k < x->n && x->at[k].tensor < e->tensor)
            k++;
        if (has_stick(&x->at[k], x->n - k, e) ||
            has_stick(s->settled[e->tensor], s->n_settled[e->tensor], e))
            continue;
        // A lower bound of the cost of the copy: the bytes that it reads are
        // left out, because finding its source takes longer.
        double least = bytes_of(s, e->tensor, e->stick) + DV_MOVE_BYTES;
        if ((!e->is_copy && s->updated[e->tensor]) ||
            sum + here * least > y->bytes)
            return 0;
        sum += here * move_cost(s, x, e->tensor, e->stick);
    }
    return sum <= y->bytes;
}

static int by_cost(const void *a, const void *b)
{
    const state *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return x->seq - y->seq;
}

static int is_dead(const search *s, const entry *e, int32_t op)
{
    return s->last_use[e->tensor] <= op;
}

static void drop_dead(const search *s, state *x, int32_t op)
{
    int kept = 0;
    for (int i = 0; i < x->n; i++)
        if (!is_dead(s, &x->at[i], op))
            x->at[kept++] = x->at[i];
    x->n = kept;
}

// Only one state of the search is left: moves its entries to s->settled,
// because all later states share these stick dims (dims divided into sticks).
static int settle(search *s, state *x)
{
    for (int i = 0; i < x->n; i++) {
        const entry *e = &x->at[i];
        uint8_t *n = &s->n_settled[e->tensor];
        if (e->is_copy && *n == 1) {
            int32_t *t = DV_PUSH(s->arena, int32_t, s->copied, s->n_copied,
                                 s->cap_copied);
            if (!t)
                return 0;
            *t = e->tensor;
        }
        entry *grown = dv_arena_grow(s->arena, s->settled[e->tensor], *n,
                                     (size_t)*n + 1, sizeof *grown);
        if (!grown)
            return 0;
        grown[(*n)++] = *e;
        s->settled[e->tensor] = grown;
    }
    x->n = 0;
    return 1;
}

// Returns how many states the beam search keeps: fewer if the states have many
// entries, to bound the work.
static int width_for(const search *s)
{
    int n = 1, width = WIDTH;
    for (int i = 0; i < s->n_next; i++)
        n = s->next[i].n > n ? s->next[i].n : n;
    while (width > 1 && width * width > MAX_WORK / n)
        width--;
    return width;
}

static int keep_best(search *s, int32_t op)
{
    int width = width_for(s);
    qsort(s->next, (size_t)s->n_next, sizeof *s->next, by_cost);
    s->n_states = 0;
    for (int i = 0; i < s->n_next; i++) {
        state *x = &s->next[i];
        int needless = 0;
        for (int k = 0; k < s->n_states && !needless; k++)
            needless = can_become(s, &s->states[k], x);
        if (needless)
            continue;
        if (s->n_states == width) {
            s->out->exact = 0;
            break;
        }
        step *st = DV_NEW(s->arena, step, 1);
        if (!st)
            return 0;
        *st = (step){x->last, op, x->choice};
        x->last = st;
        s->states[s->n_states++] = *x;
    }
    return s->n_states > 1 || settle(s, &s->states[0]);
}

static void enter_loops(search *s, int32_t op, int32_t *next_repeat)
{
    while (s->depth && s->loops[s->depth - 1].end == op) {
        s->depth--;
        forget(s, -1, NULL, s->depth + 1);
    }
    for (; *next_repeat < s->p->n_repeats; ++*next_repeat) {
        const dv_repeat *r = &s->p->repeats[*next_repeat];
        if (r->first_op != op)
            break;
        double around = s->depth ? s->loops[s->depth - 1].times : 1;
        forget(s, -1, r, 0);
        if (r->end_op > r->first_op)
            s->loops[s->depth++] =
                (loop){r->end_op, r, around * (double)r->times};
    }
}

// Extends every state of the beam search by every choice for the op: each
// combination of dims of its operands that may be divided into sticks.
static int spread(search *s, int32_t op, const dv_stick_choices *w)
{
    dv_arena *pool = &s->pool[op & 1];
    int n = s->n_states * w->n;
    dv_arena_free(pool);
    *pool = (dv_arena){0};
    if (n > s->cap_next) {
        s->next = DV_NEW(s->arena, state, 2 * n);
        s->cap_next = 2 * n;
        if (!s->next)
            return 0;
    }
    s->n_next = 0;
    for (int k = 0; k < s->n_states; k++) {
        const state *from = &s->states[k];
        for (int i = 0; i < w->n; i++) {
            state *x = &s->next[s->n_next++];
            *x = *from;
            x->choice = i;
            x->seq = s->n_next;
            x->at = DV_NEW(pool, entry, from->n + w->n_operands);
            if (!x->at)
                return 0;
            for (int e = 0; e < from->n; e++)
                x->at[e] = from->at[e];
            go(s, x, op, w->want + i * w->n_operands, 0);
            drop_dead(s, x, op);
        }
    }
    return 1;
}

static int walk(search *s, const int *choices)
{
    int32_t next_repeat = 0;
    dv_arena scratch = {0};
    int ok = 1;
    for (int32_t i = 0; i < s->p->n_ops && ok && !s->nomem; i++) {
        const dv_op *op = &s->p->ops[i];
        dv_stick_choices w;
        enter_loops(s, i, &next_repeat);
        ok = dv_stick_list_choices(&w, s->t, s->p, op, &scratch);
        // The second pass over the program repeats the choices of the cheapest
        // state and records them.
        if (ok && choices) {
            state *x = &s->states[0];
            x->at = DV_NEW(&scratch, entry, w.n_operands);
            ok = x->at != NULL;
            if (ok)
                go(s, x, i, w.want + choices[i] * w.n_operands, 1);
            if (ok && !op->update)
                s->out->stick[op->write.tensor] =
                    (int8_t)own(s, x, op->write.tensor);
            ok = ok && settle(s, x);
        } else if (ok) {
            ok = spread(s, i, &w) && keep_best(s, i);
        }
        if (op->update)
            forget(s, op->write.tensor, NULL, 0);
        // Release the scratch memory after every 64 ops, to bound its size.
        if (i % 64 == 63) {
            dv_arena_free(&scratch);
            scratch = (dv_arena){0};
        }
    }
    dv_arena_free(&scratch);
    return ok && !s->nomem;
}

// Starts the beam search with one state, in which every input is divided into
// sticks (the target's units of memory) along its innermost dim.
static int begin(search *s)
{
    s->depth = 0;
    s->n_copied = 0;
    s->n_states = 1;
    s->states[0] = (state){0};
    for (int32_t i = 0; i < s->p->n_tensors; i++) {
        s->n_settled[i] = 0;
        s->settled[i] = NULL;
        if (!s->p->tensors[i].is_input)
            continue;
        int stick = new_sticks(&s->p->tensors[i], DV_STICK_ANY);
        s->out->stick[i] = (int8_t)stick;
        s->settled[i] = DV_NEW(s->arena, entry, 1);
        if (!s->settled[i])
            return 0;
        s->settled[i][s->n_settled[i]++] = (entry){i, (int8_t)stick, 0, 0};
    }
    return 1;
}

static int find_uses(search *s)
{
    const dv_program *p = s->p;
    s->last_use = DV_NEW(s->arena, int32_t, p->n_tensors);
    s->updated = DV_NEW(s->arena, uint8_t, p->n_tensors);
    s->writes = DV_NEW(s->arena, int32_t, p->n_tensors + 2);
    s->write_ops = DV_NEW(s->arena, int32_t, p->n_ops + 1);
    if (!s->last_use || !s->updated || !s->writes || !s->write_ops)
        return 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op *op = &p->ops[i];
        for (int r = 0; r < op->n_reads; r++)
            s->last_use[op->reads[r].tensor] = i;
        if (op->update)
            s->last_use[op->write.tensor] = i;
        s->updated[op->write.tensor] |= op->update;
        s->writes[op->write.tensor + 2]++;
    }
    for (int32_t i = 0; i < p->n_tensors; i++)
        s->writes[i + 2] += s->writes[i + 1];
    for (int32_t i = 0; i < p->n_ops; i++)
        s->write_ops[s->writes[p->ops[i].write.tensor + 1]++] = i;
    return 1;
}

static int make_room(search *s)
{
    const dv_program *p = s->p;
    int32_t reads = 0;
    s->bytes =
        DV_NEW(s->arena, double, (size_t)p->n_tensors *(DV_MAX_DIMS + 1));
    s->settled = DV_NEW(s->arena, entry *, p->n_tensors);
    s->n_settled = DV_NEW(s->arena, uint8_t, p->n_tensors);
    s->states = DV_NEW(s->arena, state, WIDTH);
    s->out->stick = DV_NEW(s->arena, int8_t, p->n_tensors);
    s->out->first = DV_NEW(s->arena, int32_t, p->n_ops + 1);
    if (!s->bytes || !s->settled || !s->n_settled || !s->states ||
        !s->out->stick || !s->out->first)
        return 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        s->out->first[i] = reads;
        reads += p->ops[i].n_reads;
    }
    s->out->want = DV_NEW(s->arena, int8_t, reads);
    if (s->out->want)
        memset(s->out->want, DV_STICK_ANY, (size_t)reads);
    return s->out->want != NULL;
}

static int decide(search *s)
{
    if (!find_uses(s) || !make_room(s) || !begin(s) || !walk(s, NULL))
        return 0;
    int *choices = DV_NEW(s->arena, int, s->p->n_ops + 1);
    if (!choices)
        return 0;
    // The states are sorted by cost, so states[0] is the cheapest. Its choices
    // are listed from the last op to the first; repeat the search with them to
    // record the result.
    for (const step *st = s->states[0].last; st; st = st->before)
        choices[st->op] = st->choice;
    return begin(s) && walk(s, choices);
}

dv_status dv_sticks_choose(dv_sticks *out, const dv_program *p,
                           const dv_target *t, dv_arena *arena, dv_diag *diag)
{
    *out = (dv_sticks){.exact = 1};
    search s = {.p = p, .t = t, .arena = arena, .out = out};
    int ok = decide(&s);
    dv_arena_free(&s.pool[0]);
    dv_arena_free(&s.pool[1]);
    return ok ? DV_OK : dv_nomem(diag);
}
