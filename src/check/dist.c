// The checker's rules about teams of ranks. It shares no code with dist/:
// part.c derives what a rank owns and computes, and coverage is checked on the
// cells between all edges of all boxes.
//
//   C16 an axis of the team cuts at most one dimension of a tensor; if it cuts
//       a tensor that an op writes, one variable of the op runs over that
//       dimension, so that every element is computed only by the ranks that
//       own it or a copy of it
//   C17 a reduction variable is cut by an axis that cuts an operand but not the
//       result, and each axis cuts at most one variable of an op; the op has at
//       most as many written variables as a tensor has dims
//   C18 a rank reads only elements that it owns or that it received since the
//       tensor was last written; repeats are walked through twice
//   C19 elements received in an exchange are read by its op, are not owned by
//       the receiver, are received once, and come from a rank that owns them
//   C20 messages are listed by rank, and the boxes sent to a rank are those
//       that it receives, in the same order
//
// In small teams every rank is checked. In a large team only the plan's own
// rank is checked, and its messages are compared with those that its partners
// expect; every other rank checks itself before it runs (dv_plan_check_rank).
#include "base/math.h"
#include "check/check.h"
#include "check/holds.h"
#include <inttypes.h>
#include <stdlib.h>

enum { ALL_RANKS = 16, MAX_CELLS = 1 << 22 };

// The state of a walk through the program that checks one rank (process of the
// team).
typedef struct walk {
    const dv_plan *plan;
    const dv_program *p;
    const dv_plan_team *t;
    int64_t rank, coord[DV_MAX_AXES];
    dv_loc at;
    dv_diag *diag;
    dv_arena arena;
    // The messages of this rank, one entry per exchange of the plan.
    dv_op_exchange *op_exchanges;
    // Per tensor: boxes that this rank received since the tensor was last
    // written.
    dv_box **hand;
    int32_t *n_hand, *cap_hand;
} walk;

static dv_status check_cuts(const walk *w)
{
    const dv_program *p = w->p;
    for (int32_t i = 0; i < p->n_tensors; i++) {
        const dv_dist *d = &w->t->tensors[i];
        uint32_t used = 0;
        for (int k = 0; k < d->n_dims; k++) {
            if (d->axis[k] < 0)
                continue;
            if (d->axis[k] >= w->t->n_axes || used >> d->axis[k] & 1)
                return DV_BREAKS(w->diag, C16, w->at, "axis %d cuts %s twice",
                                 d->axis[k], p->tensors[i].name);
            used |= 1u << d->axis[k];
        }
    }
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op *op = &p->ops[i];
        const dv_dist *d = &w->t->tensors[op->write.tensor];
        for (int k = 0; k < d->n_dims; k++)
            if (d->axis[k] >= 0 &&
                (op->is_extern || dv_access_is_indirect(&op->write) ||
                 dv_check_var(op, &op->write.index[k]) == -2))
                return DV_BREAKS(w->diag, C16, w->at,
                                 "op %s cannot be cut along dim %d of %s",
                                 op->name, k,
                                 p->tensors[op->write.tensor].name);
    }
    return DV_OK;
}

static dv_status check_follows(const walk *w)
{
    for (int32_t i = 0; i < w->t->n_follows; i++) {
        const dv_split_reduction *f = &w->t->follows[i];
        const dv_op *op = &w->p->ops[f->op];
        const dv_access *a = &op->reads[f->read];
        const dv_dist *to = &w->t->tensors[op->write.tensor];
        int axis = w->t->tensors[a->tensor].axis[f->dim];
        int n_written = 0;
        for (int v = 0; v < op->n_vars; v++)
            n_written += !op->vars[v].reduce;
        int ok = op->vars[f->var].reduce && axis >= 0 &&
                 n_written <= DV_MAX_DIMS && a->index[f->dim].via < 0 &&
                 !op->is_extern &&
                 dv_check_var(op, &a->index[f->dim]) == f->var &&
                 !dv_access_is_indirect(&op->write);
        // If the grid axis divides the reduction variable among ranks, every
        // rank must get a non-empty part of that variable.
        if (ok) {
            int64_t begin = op->vars[f->var].begin, end = op->vars[f->var].end;
            int64_t n = w->t->tensors[a->tensor].shape[f->dim];
            ok = a->index[f->dim].coef[f->var] == 1 && begin == 0 &&
                 a->index[f->dim].base == 0 && end == n &&
                 n >= w->t->grid[axis];
        }
        for (int k = 0; k < to->n_dims; k++)
            ok &= to->axis[k] != axis;
        for (int32_t k = 0; k < i && ok; k++) {
            const dv_split_reduction *g = &w->t->follows[k];
            int32_t x = w->p->ops[g->op].reads[g->read].tensor;
            ok = g->op != f->op ||
                 (w->t->tensors[x].axis[g->dim] != axis && g->var != f->var);
        }
        if (!ok)
            return DV_BREAKS(w->diag, C17, dv_plan_at(w->plan, f->off),
                             "%s of op %s cannot be cut as dim %d of %s is",
                             op->vars[f->var].name, op->name, (int)f->dim,
                             w->p->tensors[a->tensor].name);
    }
    return DV_OK;
}

typedef struct cover {
    const dv_box *need, *have, *come;
    int32_t n_need, n_have, n_come;
} cover;

static int by_value(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

static int holds(const dv_box *b, const int64_t *at)
{
    for (int d = 0; d < b->n_dims; d++)
        if (at[d] < b->dim[d].off || at[d] >= b->dim[d].off + b->dim[d].size)
            return 0;
    return 1;
}

static int count(const dv_box *l, int32_t n, const int64_t *at)
{
    int k = 0;
    for (int32_t i = 0; i < n; i++)
        k += holds(&l[i], at);
    return k;
}

// Collects, in dimension d, all begins and ends of the boxes that the rank
// needs, has and receives, sorted and without duplicates. Returns their number.
static int32_t edges_of(int64_t *out, const cover *c, int d)
{
    const dv_box *lists[3] = {c->need, c->have, c->come};
    int32_t sizes[3] = {c->n_need, c->n_have, c->n_come}, n = 0, m = 0;
    for (int k = 0; k < 3; k++)
        for (int32_t i = 0; i < sizes[k]; i++) {
            out[n++] = lists[k][i].dim[d].off;
            out[n++] = lists[k][i].dim[d].off + lists[k][i].dim[d].size;
        }
    qsort(out, (size_t)n, sizeof *out, by_value);
    for (int32_t i = 0; i < n; i++)
        if (m == 0 || out[m - 1] != out[i])
            out[m++] = out[i];
    return m;
}

static const char never_received[] = "is read, but never received";

// Returns, as a text for the message, what is wrong with the elements of a cell
// (a box between adjacent edges of all boxes), or NULL if nothing is. An
// element that is read but never received breaks rule C18, anything else breaks
// C19.
static const char *judge(const cover *c, const int64_t *at)
{
    int need = count(c->need, c->n_need, at) > 0;
    int come = count(c->come, c->n_come, at);
    int own = c->n_have > 0 && holds(&c->have[0], at);
    if (come > 1)
        return "is received twice";
    if (come && own)
        return "is received although the rank owns it";
    if (come && !need)
        return "is received, but not read";
    if (need && !come && !count(c->have, c->n_have, at))
        return never_received;
    return NULL;
}

// Checks every cell between adjacent edges of all boxes and reports the first
// that violates rule C18 (a rank has what it reads) or C19 (a rank receives
// only what it needs).
static dv_status check_cover(walk *w, const cover *c, int32_t op,
                             int32_t tensor)
{
    int n_dims = w->p->tensors[tensor].n_dims;
    int64_t *edge[DV_MAX_DIMS], at[DV_MAX_DIMS] = {0}, cells = 1;
    int32_t n[DV_MAX_DIMS], k[DV_MAX_DIMS] = {0};
    const char *wrong = NULL;
    int32_t boxes = c->n_need + c->n_have + c->n_come;
    for (int d = 0; d < n_dims; d++) {
        edge[d] = DV_NEW(&w->arena, int64_t, 2 * boxes);
        if (!edge[d])
            return dv_nomem(w->diag);
        n[d] = edges_of(edge[d], c, d);
        cells *= dv_max_i64(n[d], 1);
        if (cells > MAX_CELLS)
            return dv_fail(w->diag, DV_E_LIMIT, w->at,
                           "the messages of op %s are too many to check",
                           w->p->ops[op].name);
    }
    for (int more = boxes > 0; more && !wrong;) {
        for (int d = 0; d < n_dims; d++)
            at[d] = edge[d][k[d]];
        wrong = judge(c, at);
        more = 0;
        for (int d = n_dims - 1; d >= 0 && !more && !wrong; d--) {
            more = ++k[d] < n[d];
            if (!more)
                k[d] = 0;
        }
    }
    if (!wrong)
        return DV_OK;
    dv_text where = {0};
    for (int d = 0; d < n_dims; d++)
        dv_put(&where, "%s%" PRId64, d ? "," : "", at[d]);
    const char *name = w->p->ops[op].name, *of = w->p->tensors[tensor].name;
    const char *index = where.at ? where.at : "";
    dv_status st = wrong == never_received
                       ? DV_BREAKS(w->diag, C18, w->at,
                                   "op %s, rank %" PRId64 ": %s[%s] %s", name,
                                   w->rank, of, index, wrong)
                       : DV_BREAKS(w->diag, C19, w->at,
                                   "op %s, rank %" PRId64 ": %s[%s] %s", name,
                                   w->rank, of, index, wrong);
    dv_text_free(&where);
    return st;
}

// Computes the boxes of a tensor that an op reads on this rank.
static dv_status reads_of(walk *w, int32_t op, int32_t tensor, dv_box **out,
                          int32_t *n)
{
    const dv_op *o = &w->p->ops[op];
    int64_t begin[DV_MAX_VARS], end[DV_MAX_VARS];
    *n = 0;
    *out = DV_NEW(&w->arena, dv_box, o->n_reads);
    if (!*out)
        return dv_nomem(w->diag);
    if (!dv_check_target(w->p, w->t, op, w->coord, begin, end))
        return DV_OK;
    for (int r = 0; r < o->n_reads; r++) {
        const dv_access *a = &o->reads[r];
        if (a->tensor != tensor)
            continue;
        dv_box *b = &(*out)[(*n)++];
        b->n_dims = a->n_dims;
        for (int d = 0; d < a->n_dims; d++) {
            const dv_index *x = &a->index[d];
            int64_t lo = x->base, hi = x->base + 1;
            for (int v = 0; v < o->n_vars && x->via < 0; v++) {
                int64_t one = x->coef[v] * begin[v];
                int64_t two = x->coef[v] * (end[v] - 1);
                lo += one < two ? one : two;
                hi += one < two ? two : one;
            }
            if (a->has_border) { // what is outside needs no message
                int64_t side = w->p->tensors[tensor].shape[d];
                lo = dv_max_i64(0, dv_min_i64(lo, side - 1));
                hi = dv_max_i64(1, dv_min_i64(hi, side));
            }
            b->dim[d] = x->via < 0
                            ? (dv_range){lo, hi - lo}
                            : (dv_range){0, w->p->tensors[tensor].shape[d]};
        }
    }
    return DV_OK;
}

// Lists the boxes of a tensor that the rank has: its own box first, then those
// received.
static dv_status have_of(walk *w, int32_t tensor, cover *c)
{
    dv_box own = dv_check_owned(w->t, tensor, w->coord);
    dv_box *l = DV_NEW(&w->arena, dv_box, w->n_hand[tensor] + 1);
    if (!l)
        return dv_nomem(w->diag);
    l[0] = own;
    for (int32_t i = 0; i < w->n_hand[tensor]; i++)
        l[i + 1] = w->hand[tensor][i];
    c->have = l;
    c->n_have = w->n_hand[tensor] + 1;
    return DV_OK;
}

static dv_status check_exchange_of_rank(walk *w, const dv_op_exchange *s)
{
    cover c = {0};
    dv_box *need, *come = DV_NEW(&w->arena, dv_box, s->n_receives);
    if (!come)
        return dv_nomem(w->diag);
    DV_TRY(reads_of(w, s->op, s->tensor, &need, &c.n_need));
    DV_TRY(have_of(w, s->tensor, &c));
    for (int32_t i = 0; i < s->n_receives; i++) {
        int64_t coord[DV_MAX_AXES];
        dv_check_coords(w->t, s->receives[i].rank, coord);
        dv_box theirs = dv_check_owned(w->t, s->tensor, coord);
        come[i] = s->receives[i].box;
        for (int d = 0; d < come[i].n_dims; d++)
            if (come[i].dim[d].off < theirs.dim[d].off ||
                come[i].dim[d].off + come[i].dim[d].size >
                    theirs.dim[d].off + theirs.dim[d].size ||
                s->receives[i].rank == w->rank)
                return DV_BREAKS(
                    w->diag, C19, w->at,
                    "op %s, rank %" PRId64 ": a message of %s from %" PRId64
                    " that does not own it",
                    w->p->ops[s->op].name, w->rank,
                    w->p->tensors[s->tensor].name, s->receives[i].rank);
        dv_box *room = DV_PUSH(&w->arena, dv_box, w->hand[s->tensor],
                               w->n_hand[s->tensor], w->cap_hand[s->tensor]);
        if (!room)
            return dv_nomem(w->diag);
        *room = come[i];
    }
    c.need = need;
    c.come = come;
    c.n_come = s->n_receives;
    return check_cover(w, &c, s->op, s->tensor);
}

static dv_status walk_op(walk *w, int32_t op)
{
    const dv_op *o = &w->p->ops[op];
    for (int32_t i = 0; i < w->t->n_op_exchanges; i++)
        if (w->t->op_exchanges[i].op == op && w->t->op_exchanges[i].repeat < 0)
            DV_TRY(check_exchange_of_rank(w, &w->op_exchanges[i]));
    for (int r = 0; r < o->n_reads; r++) {
        int32_t tensor = o->reads[r].tensor;
        int seen = 0;
        for (int k = 0; k < r; k++)
            seen |= o->reads[k].tensor == tensor;
        if (seen)
            continue;
        cover c = {0};
        dv_box *need;
        DV_TRY(reads_of(w, op, tensor, &need, &c.n_need));
        c.need = need;
        DV_TRY(have_of(w, tensor, &c));
        DV_TRY(check_cover(w, &c, op, tensor));
    }
    w->n_hand[o->write.tensor] = 0;
    return DV_OK;
}

// Checks ops from..end - 1 for one rank, in the order in which they run; the
// ops of a repeat (a loop) are checked in two iterations at most, because later
// ones are like the second. The repeats among them are numbered from `next` on.
static dv_status walk_ops(walk *w, int32_t from, int32_t end, int32_t next)
{
    const dv_program *p = w->p;
    while (from < end) {
        while (next < p->n_repeats && p->repeats[next].first_op < from)
            next++;
        if (next >= p->n_repeats || p->repeats[next].first_op != from ||
            p->repeats[next].end_op > end) {
            DV_TRY(walk_op(w, from++));
            continue;
        }
        for (int32_t i = 0; i < w->t->n_op_exchanges; i++)
            if (w->t->op_exchanges[i].repeat == next)
                DV_TRY(check_exchange_of_rank(w, &w->op_exchanges[i]));
        int32_t stop = p->repeats[next].end_op;
        for (int64_t n = 0; n < dv_min_i64(p->repeats[next].times, 2); n++)
            DV_TRY(walk_ops(w, from, stop, next + 1));
        from = stop;
    }
    return DV_OK;
}

// Returns the index >= i of the next message with the given partner rank, or n
// if there is none.
static int32_t next_of(const dv_piece *l, int32_t n, int32_t i, int64_t rank)
{
    while (i < n && l[i].rank != rank)
        i++;
    return i;
}

// Returns whether list l has the same boxes for partner `a`, in the same order,
// as list m has for partner `b`.
static int same_boxes(const dv_piece *l, int32_t n, int64_t a,
                      const dv_piece *m, int32_t n_m, int64_t b)
{
    int32_t i = next_of(l, n, 0, a), k = next_of(m, n_m, 0, b);
    while (i < n && k < n_m && dv_check_same_box(&l[i].box, &m[k].box)) {
        i = next_of(l, n, i + 1, a);
        k = next_of(m, n_m, k + 1, b);
    }
    return i == n && k == n_m;
}

static dv_status check_pair(const dv_plan *plan, int32_t exchange, int64_t from,
                            const dv_op_exchange *s, int64_t to,
                            const dv_op_exchange *r, dv_loc at, dv_diag *diag)
{
    if (same_boxes(s->sends, s->n_sends, to, r->receives, r->n_receives, from))
        return DV_OK;
    const dv_op_exchange *w = &plan->team.op_exchanges[exchange];
    return DV_BREAKS(diag, C20, at,
                     "op %s: what rank %" PRId64 " sends to rank %" PRId64
                     " of %s is not what that receives",
                     plan->ops->ops[w->op].name, from, to,
                     plan->ops->tensors[w->tensor].name);
}

// Returns whether the list of messages is sorted by rank (process of the team).
// All boxes for one partner form one message, so they must be consecutive.
static int by_rank(const dv_piece *l, int32_t n)
{
    for (int32_t i = 1; i < n; i++)
        if (l[i].rank < l[i - 1].rank)
            return 0;
    return 1;
}

static dv_status check_listed(const walk *w)
{
    for (int32_t i = 0; i < w->t->n_op_exchanges; i++) {
        const dv_op_exchange *s = &w->t->op_exchanges[i];
        if (!by_rank(s->sends, s->n_sends) ||
            !by_rank(s->receives, s->n_receives))
            return DV_BREAKS(w->diag, C20, dv_plan_at(w->plan, s->off),
                             "op %s: the messages of %s are not listed by rank",
                             w->p->ops[s->op].name,
                             w->p->tensors[s->tensor].name);
    }
    return DV_OK;
}

// Gets the messages of a rank: from the plan for the plan's own rank, else
// derived by dv_team_messages as that rank would. Returns 0 when out of memory.
static int messages_of(const dv_plan *plan, int64_t rank, dv_op_exchange *out,
                       dv_arena *arena)
{
    const dv_plan_team *t = &plan->team;
    for (int32_t i = 0; i < t->n_op_exchanges; i++) {
        out[i] = t->op_exchanges[i];
        if (rank != t->rank &&
            !dv_team_messages(&out[i], plan->ops, t, i, rank, arena))
            return 0;
    }
    return 1;
}

static dv_status walk_rank(walk *w, int64_t rank, dv_op_exchange *op_exchanges)
{
    size_t n = (size_t)w->p->n_tensors;
    w->rank = rank;
    w->op_exchanges = op_exchanges;
    dv_check_coords(w->t, rank, w->coord);
    w->arena = (dv_arena){0};
    w->hand = DV_NEW(&w->arena, dv_box *, n);
    w->n_hand = DV_NEW(&w->arena, int32_t, n);
    w->cap_hand = DV_NEW(&w->arena, int32_t, n);
    dv_status st = w->hand && w->n_hand && w->cap_hand
                       ? walk_ops(w, 0, w->p->n_ops, 0)
                       : dv_nomem(w->diag);
    dv_arena_free(&w->arena);
    return st;
}

// Checks every rank of a small team, and the messages between every pair of
// ranks.
static dv_status check_all(walk *w, dv_arena *arena)
{
    const dv_plan_team *t = w->t;
    int64_t n = dv_plan_team_size(t);
    dv_op_exchange *all = DV_NEW(arena, dv_op_exchange, n * t->n_op_exchanges);
    if (!all)
        return dv_nomem(w->diag);
    for (int64_t i = 0; i < n; i++) {
        dv_op_exchange *mine = all + i * t->n_op_exchanges;
        if (!messages_of(w->plan, i, mine, arena))
            return dv_nomem(w->diag);
        DV_TRY(walk_rank(w, i, mine));
    }
    for (int64_t i = 0; i < n * n; i++)
        for (int32_t k = 0; k < t->n_op_exchanges; k++)
            DV_TRY(check_pair(
                w->plan, k, i / n, &all[i / n * t->n_op_exchanges + k], i % n,
                &all[i % n * t->n_op_exchanges + k], w->at, w->diag));
    return DV_OK;
}

// Compares the messages of the current rank with those of a partner, in both
// directions.
static dv_status check_partner(const walk *w, int32_t exchange, int64_t rank)
{
    dv_arena arena = {0};
    dv_op_exchange other = w->t->op_exchanges[exchange];
    dv_status st = DV_OK;
    if (rank != w->t->rank &&
        !dv_team_messages(&other, w->p, w->t, exchange, rank, &arena))
        st = dv_nomem(w->diag);
    if (st == DV_OK)
        st = check_pair(w->plan, exchange, w->rank, &w->op_exchanges[exchange],
                        rank, &other, w->at, w->diag);
    if (st == DV_OK)
        st = check_pair(w->plan, exchange, rank, &other, w->rank,
                        &w->op_exchanges[exchange], w->at, w->diag);
    dv_arena_free(&arena);
    return st;
}

// Returns the lowest rank above `last` that occurs in the four lists of
// messages, which are sorted by rank, or -1 if there is none. The lists are
// those that the plan has and those derived again, sent and received.
static int64_t next_partner(const dv_piece *const *lists, const int32_t *n,
                            int32_t *at, int64_t last)
{
    int64_t next = -1;
    for (int l = 0; l < 4; l++) {
        while (at[l] < n[l] && lists[l][at[l]].rank <= last)
            at[l]++;
        if (at[l] < n[l] && (next < 0 || lists[l][at[l]].rank < next))
            next = lists[l][at[l]].rank;
    }
    return next;
}

// Checks the messages of all partners of the rank: those that the plan lists,
// and those derived by dv_team_messages, because a partner would wait for a
// message that the plan lacks.
static dv_status check_partners(const walk *w, dv_arena *arena)
{
    const dv_plan_team *t = w->t;
    for (int32_t k = 0; k < t->n_op_exchanges; k++) {
        dv_op_exchange own;
        if (!dv_team_messages(&own, w->p, t, k, w->rank, arena))
            return dv_nomem(w->diag);
        const dv_op_exchange *s = &w->op_exchanges[k];
        const dv_piece *lists[4] = {s->sends, s->receives, own.sends,
                                    own.receives};
        int32_t at[4] = {0};
        int32_t n[4] = {s->n_sends, s->n_receives, own.n_sends, own.n_receives};
        for (int64_t r = -1; (r = next_partner(lists, n, at, r)) >= 0;)
            DV_TRY(check_partner(w, k, r));
    }
    return DV_OK;
}

// Checks one rank and its messages, in teams too large to check all ranks.
static dv_status check_rank(walk *w, int64_t rank, dv_arena *arena)
{
    dv_op_exchange *mine = DV_NEW(arena, dv_op_exchange, w->t->n_op_exchanges);
    if (!mine || !messages_of(w->plan, rank, mine, arena))
        return dv_nomem(w->diag);
    DV_TRY(walk_rank(w, rank, mine));
    return check_partners(w, arena);
}

dv_status dv_check_dist(const dv_plan *plan, dv_loc at, dv_diag *diag)
{
    walk w = {.plan = plan, .p = plan->ops, .t = &plan->team};
    w.at = at;
    w.diag = diag;
    DV_TRY(check_cuts(&w));
    DV_TRY(check_follows(&w));
    DV_TRY(check_listed(&w));
    dv_arena arena = {0};
    dv_status st = dv_plan_team_size(w.t) <= ALL_RANKS
                       ? check_all(&w, &arena)
                       : check_rank(&w, w.t->rank, &arena);
    dv_arena_free(&arena);
    return st;
}

dv_status dv_plan_check_rank(const dv_plan *plan, int64_t rank, dv_diag *diag)
{
    if (dv_plan_team_size(&plan->team) <= ALL_RANKS || rank == plan->team.rank)
        return DV_OK; // dv_plan_check has checked this rank already
    walk w = {.plan = plan, .p = plan->ops, .t = &plan->team};
    w.at = (dv_loc){plan->src.text ? &plan->src : NULL, DV_FILE};
    w.diag = diag;
    dv_arena arena = {0};
    dv_status st = check_rank(&w, rank, &arena);
    dv_arena_free(&arena);
    return st;
}
