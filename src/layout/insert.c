// Inserts the chosen moves into the program, outside of repeats if possible. A
// move copies a tensor so that another dim is divided into sticks, the target's
// units of memory:
//
//   repeat 5 {                    w_1[d0,d1] = w[d0,d1]
//       y[i,j] = sum[k] ...       repeat 5 {
//   }                        ->       y[i,j] = sum[k] ... w_1 ...
#include "layout/stick.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Returns a name that no tensor has: `stem`, `between`, and the first number
// from `number` on that makes it unique.
static char *fresh_name(dv_program *p, const char *stem, const char *between,
                        int number)
{
    size_t room = strlen(stem) + 16;
    char *name = DV_NEW(&p->arena, char, room);
    do {
        if (name)
            snprintf(name, room, "%s%s%d", stem, between, number++);
    } while (name && dv_program_find(p, name) >= 0);
    return name;
}

// Makes one variable per dim of a tensor, and for each dim the index that
// consists of its variable alone.
static int make_vars(dv_program *p, const dv_tensor *t, dv_var *vars,
                     dv_index *index)
{
    int number = 0;
    for (int d = 0; d < t->n_dims; d++) {
        int64_t *coef = DV_NEW(&p->arena, int64_t, t->n_dims);
        vars[d] = (dv_var){.name = fresh_name(p, "d", "", number),
                           .end = t->shape[d],
                           .off = t->off};
        if (!coef || !vars[d].name)
            return 0;
        number = atoi(vars[d].name + 1) + 1;
        coef[d] = 1;
        index[d] = (dv_index){.coef = coef, .via = -1};
    }
    return 1;
}

// Makes the op that copies a whole tensor, e.g. x_1[d0,d1] = x[d0,d1].
static int make_move(dv_program *p, int32_t from, dv_op *op)
{
    dv_arena *a = &p->arena;
    dv_tensor t = p->tensors[from];
    int n = t.n_dims;
    t.name = fresh_name(p, t.name, "_", 1);
    t.is_input = t.is_output = t.is_temp = t.is_const = 0;
    t.place = NULL;
    t.memory = NULL;
    t.file = NULL;
    dv_var *vars = DV_NEW(a, dv_var, n);
    dv_index *index = DV_NEW(a, dv_index, n);
    dv_access *read = DV_NEW(a, dv_access, 1);
    dv_expr *body = DV_NEW(a, dv_expr, 1);
    if (!t.name || !vars || !index || !read || !body ||
        !make_vars(p, &t, vars, index))
        return 0;
    *read =
        (dv_access){.tensor = from, .n_dims = n, .off = t.off, .index = index};
    *body =
        (dv_expr){.kind = DV_EXPR_READ, .dtype = (int8_t)t.dtype, .off = t.off};
    int32_t id = dv_program_add_tensor(p, &t);
    *op = (dv_op){
        .vars = vars,
        .n_vars = n,
        .n_reads = 1,
        .write = {.tensor = id, .n_dims = n, .off = t.off, .index = index},
        .reads = read,
        .body = body,
        .off = t.off};
    return id >= 0;
}

// The copies of tensors made so far: id[k] is the tensor that copy k creates,
// before[k] the previous copy of the same tensor (-1 if none), newest[t] the
// latest copy of tensor t.
typedef struct copies {
    const dv_sticks *s;
    int32_t *id, *before, *newest;
} copies;

// Returns the newest copy of a tensor with this stick dim (dim divided into
// sticks), or the tensor itself if there is none.
static int32_t find_copy(const copies *c, int32_t tensor, int stick)
{
    int32_t k = c->newest[tensor];
    while (k >= 0 && c->s->moves[k].stick != stick)
        k = c->before[k];
    return k < 0 ? tensor : c->id[k];
}

// Makes the op's reads use copies of their tensors: want[r] is the dim of read
// r that must be divided into sticks (the target's units of memory). Returns 0
// if out of memory.
static int redirect(dv_program *p, dv_op *op, const copies *c,
                    const int8_t *want)
{
    int moved = 0;
    for (int r = 0; r < op->n_reads; r++)
        moved |= want[r] != DV_STICK_ANY;
    if (!moved)
        return 1;
    dv_access *reads = DV_NEW(&p->arena, dv_access, op->n_reads);
    if (!reads)
        return 0;
    memcpy(reads, op->reads, (size_t)op->n_reads * sizeof *reads);
    for (int r = 0; r < op->n_reads; r++)
        if (want[r] != DV_STICK_ANY)
            reads[r].tensor = find_copy(c, reads[r].tensor, want[r]);
    op->reads = reads;
    return 1;
}

typedef struct slot {
    int32_t before, number;
    uint8_t depth;
} slot;

static int by_place(const void *a, const void *b)
{
    const slot *x = a, *y = b;
    if (x->before != y->before)
        return x->before < y->before ? -1 : 1;
    if (x->depth != y->depth)
        return x->depth - y->depth;
    return x->number - y->number;
}

// Counts the moves (copies of tensors) inserted before an op earlier than `op`,
// or directly before `op` at a repeat depth of at most `depth`.
static int32_t count_before(const slot *slots, int32_t n, int32_t op, int depth)
{
    int32_t lo = 0, hi = n;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        int before = slots[mid].before < op ||
                     (slots[mid].before == op && slots[mid].depth <= depth);
        if (before)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

// Adjusts the op ranges of repeats (loops) for the inserted moves (copies of
// tensors). A move before an op that begins a repeat is outside that repeat
// unless its depth says that it is inside.
static void shift_repeats(dv_program *p, const slot *slots, int32_t n)
{
    int32_t ends[DV_MAX_NESTING + 2], depth = 0;
    for (int32_t k = 0; k < p->n_repeats; k++) {
        dv_repeat *r = &p->repeats[k];
        while (depth && ends[depth - 1] <= r->first_op)
            depth--;
        int32_t first = count_before(slots, n, r->first_op, depth);
        int32_t end = count_before(slots, n, r->end_op, -1);
        if (r->end_op > r->first_op)
            ends[depth++] = r->end_op;
        r->first_op += first;
        r->end_op += end > first ? end : first;
    }
}

static int place_moves(dv_program *p, dv_sticks *s, const slot *slots,
                       dv_op *moves)
{
    int32_t k = 0, at = 0, n = s->n_moves;
    dv_op *ops = DV_NEW(&p->arena, dv_op, p->n_ops + n);
    s->old_ops = DV_NEW(&p->arena, int32_t, p->n_ops + n);
    if (!ops || !s->old_ops)
        return 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        for (; k < n && slots[k].before == i; k++) {
            s->old_ops[at] = -1;
            ops[at++] = moves[slots[k].number];
        }
        s->old_ops[at] = i;
        ops[at++] = p->ops[i];
    }
    shift_repeats(p, slots, n);
    p->ops = ops;
    p->n_ops = p->cap_ops = at;
    return 1;
}

static int make_moves(dv_program *p, dv_sticks *s, copies *c, slot *slots,
                      dv_op *moves)
{
    int32_t n_old = p->n_tensors, k = 0;
    for (int32_t i = 0; i < n_old; i++)
        c->newest[i] = -1;
    for (int32_t i = 0; i < p->n_ops; i++) {
        for (; k < s->n_moves && s->moves[k].user == i; k++) {
            const dv_restick *m = &s->moves[k];
            if (!make_move(p, find_copy(c, m->tensor, m->from), &moves[k]))
                return 0;
            c->id[k] = moves[k].write.tensor;
            c->before[k] = c->newest[m->tensor];
            c->newest[m->tensor] = k;
            s->stick[c->id[k]] = m->stick;
            slots[k] = (slot){m->before, k, m->depth};
        }
        if (!redirect(p, &p->ops[i], c, s->want + s->first[i]))
            return 0;
    }
    return 1;
}

static dv_status renumber(dv_program *p, dv_sticks *s, dv_diag *diag)
{
    int32_t n = p->n_tensors, *new_of;
    int8_t *stick = DV_NEW(&p->arena, int8_t, n);
    if (!stick)
        return dv_nomem(diag);
    DV_TRY(dv_program_renumber(p, &new_of, diag));
    for (int32_t i = 0; i < n; i++)
        if (new_of[i] >= 0)
            stick[new_of[i]] = s->stick[i];
    s->stick = stick;
    return DV_OK;
}

dv_status dv_sticks_insert(dv_program *p, dv_sticks *s, dv_diag *diag)
{
    int32_t n = s->n_moves;
    if (n == 0)
        return DV_OK;
    dv_arena *a = &p->arena;
    dv_op *moves = DV_NEW(a, dv_op, n);
    slot *slots = DV_NEW(a, slot, n);
    copies c = {s, DV_NEW(a, int32_t, n), DV_NEW(a, int32_t, n),
                DV_NEW(a, int32_t, p->n_tensors)};
    s->stick = dv_arena_grow(a, s->stick, (size_t)p->n_tensors,
                             (size_t)p->n_tensors + (size_t)n, 1);
    if (!moves || !slots || !c.id || !c.before || !c.newest || !s->stick ||
        !make_moves(p, s, &c, slots, moves))
        return dv_nomem(diag);
    qsort(slots, (size_t)n, sizeof *slots, by_place);
    if (!place_moves(p, s, slots, moves))
        return dv_nomem(diag);
    DV_TRY(renumber(p, s, diag));
    return dv_program_name_ops(p, diag);
}
