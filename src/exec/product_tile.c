// The tiles of products: their contractions, what finishes their sums, runs.
#include "base/math.h"
#include "exec/product_in.h"
#include <string.h>

enum { ALIGN_BYTES = 64 };

static dv_product_made *made_for(const dv_product *p, const dv_tile *t,
                                 int32_t thread)
{
    size_t shape = 0;
    for (int i = 0; i < p->n_shorts; i++) {
        int v = p->shorts[i];
        shape |= (size_t)(t->slot[v] == t->n_slots[v] - 1) << i;
    }
    return &p->made[((size_t)thread << p->n_shorts) + shape];
}

static int same_nest(const dv_nest *a, const dv_nest *b)
{
    if (a->dtype != b->dtype || a->last != b->last || a->n_dims != b->n_dims ||
        a->dot != b->dot || a->narrow != b->narrow || a->bias != b->bias ||
        a->behind != b->behind)
        return 0;
    for (int i = 0; i < a->n_dims; i++)
        if (a->dims[i].type != b->dims[i].type ||
            a->dims[i].exec != b->dims[i].exec ||
            a->dims[i].size != b->dims[i].size ||
            a->dims[i].whole != b->dims[i].whole ||
            memcmp(a->dims[i].stride, b->dims[i].stride,
                   sizeof a->dims[i].stride))
            return 0;
    return 1;
}

// Room for one more; 0 when out of memory. Arrays that are outgrown stay in
// the arena.
static int make_room(dv_product_set *s, dv_arena *arena)
{
    if (s->n < s->cap)
        return 1;
    int32_t cap = s->cap ? 2 * s->cap : 8;
    dv_contract **at =
        dv_arena_grow(arena, s->at, (size_t)s->n, (size_t)cap, sizeof *at);
    const dv_nest **of =
        dv_arena_grow(arena, s->of, (size_t)s->n, (size_t)cap, sizeof *of);
    if (!at || !of)
        return 0;
    s->at = at;
    s->of = of;
    s->cap = cap;
    return 1;
}

void dv_product_set_free(dv_product_set *s)
{
    for (int32_t i = 0; i < s->n; i++)
        dv_contract_destroy(s->at[i]);
    *s = (dv_product_set){0};
}

// Where sums wait to be finished: in the tensor, or in room of their own in
// the same order. Returns the room's bytes.
static int64_t sum_steps(const dv_product *p, const dv_tile *t, int64_t *steps)
{
    int64_t n = 1;
    memset(steps, 0, sizeof *steps * (size_t)p->o->n_vars);
    for (int32_t i = p->n_written - 1; i >= 0; i--) {
        int32_t v = p->written[i];
        steps[v] = p->there ? p->flat[2]->coef[v] : n;
        n *= t->end[v] - t->begin[v];
    }
    return p->there ? 0 : dv_round_up(p->sum_bytes * n, ALIGN_BYTES);
}

// A k of one point would stand between others that are one.
static void drop_points(dv_nest *n)
{
    int32_t kept = 0;
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].type != DV_NEST_K || n->dims[i].size > 1)
            n->dims[kept++] = n->dims[i];
    n->n_dims = kept;
}

// The nest of a tile, with the strides of what is copied together; and with
// what finishes sums inside, then straight to the tensor.
static dv_nest nest_of(const dv_product *p, const dv_tile *t, int inside,
                       int64_t *bytes)
{
    dv_nest n = p->nest;
    int64_t steps[DV_N_OPERANDS][DV_MAX_VARS];
    int direct = p->direct || inside;
    *bytes = 0;
    if (inside) {
        n.dtype = p->stored;
        n.bias = (uint8_t)(p->bias < 0 ? 0 : 1 + p->bias_type);
        n.last = (dv_prim)p->inside_last;
    }
    for (int i = 0; i < 2; i++)
        if (p->copied[i])
            *bytes +=
                dv_round_up(p->copy[i].copy_bytes *
                                dv_widen_steps(&p->copy[i], t->begin, t->end,
                                               p->o->n_vars, steps[i]),
                            ALIGN_BYTES);
    if (!direct && p->how.parts)
        dv_vec_op_acc_steps(p->how.vec, t->begin, t->end, steps[2]);
    else if (!direct)
        *bytes += sum_steps(p, t, steps[2]);
    n.behind = !direct && !p->how.parts;
    for (int i = 0; i < n.n_dims; i++) {
        int v = p->var[i];
        dv_nest_dim *d = &n.dims[i];
        d->size = t->end[v] - t->begin[v];
        for (int k = 0; k < DV_N_OPERANDS; k++)
            if (d->stride[k] && (k < 2 ? p->copied[k] : !direct))
                d->stride[k] = steps[k][v];
    }
    // A step along what has one point leads nowhere, but must not be none.
    for (int i = 0; i < n.n_dims; i++)
        for (int k = 0; k < DV_N_OPERANDS; k++)
            if (p->nest.dims[i].stride[k] && !n.dims[i].stride[k])
                n.dims[i].stride[k] = 1;
    if (n.narrow)
        drop_points(&n);
    return n;
}

static dv_contract *find_made(const dv_product_set *s, const dv_nest *n)
{
    for (int32_t i = 0; i < s->n; i++)
        if (same_nest(s->of[i], n))
            return s->at[i];
    return NULL;
}

static dv_status contract_for(dv_product *p, const dv_tile *t, int inside,
                              dv_contract **to, dv_product_set *set,
                              dv_diag *diag)
{
    int64_t bytes;
    dv_nest n = nest_of(p, t, inside, &bytes);
    if (!dv_sums_apply(p->sums, &n))
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "%s cannot be summed in the order of the plan",
                       p->o->name);
    set->memory_bytes = dv_max_i64(set->memory_bytes, bytes);
    *to = find_made(set, &n);
    if (*to)
        return DV_OK;
    const dv_contract *like = NULL; // what another thread has
    for (const dv_product_set *s = set->other; s && !like; s = s->other)
        like = find_made(s, &n);
    dv_contract_options options = {.threads = 1,
                                   .l1_bytes = set->l1_bytes,
                                   .l2_bytes = set->l2_bytes,
                                   .l3_bytes = set->l3_bytes};
    dv_nest *copy = DV_NEW(p->how.arena, dv_nest, 1);
    if (!copy || !make_room(set, p->how.arena))
        return dv_nomem(diag);
    *copy = n;
    DV_TRY(like ? dv_contract_like(to, p->how.jit, like, &options, diag)
                : dv_contract_create_in(to, p->how.jit, &n, &options, diag));
    set->of[set->n] = copy;
    set->at[set->n++] = *to;
    return DV_OK;
}

// The one variable of each factor alone that a tile has more than one point of:
// results along `col` are neighbours. None where a factor has two such, or the
// results' order is not that of their steps: blocks would be no boxes of the
// op, or not be found by where they are (finish_block).
static void find_blocks(const dv_product *p, const dv_tile *t,
                        dv_product_made *to)
{
    int32_t one[2] = {-1, -1};
    int64_t reach = 1; // of steps below
    to->row = to->col = -1;
    for (int32_t i = p->n_written - 1; i >= 0; i--) {
        int32_t v = p->written[i];
        int64_t len = t->end[v] - t->begin[v];
        if (len == 1)
            continue;
        if (to->steps[v] < reach)
            return;
        reach = to->steps[v] * len;
    }
    for (int i = 0; i < p->nest.n_dims; i++) {
        int32_t v = p->var[i], type = (int32_t)p->nest.dims[i].type - DV_NEST_M;
        if (p->o->vars[v].reduce || p->nest.dims[i].type == DV_NEST_C ||
            t->end[v] - t->begin[v] == 1)
            continue;
        if (one[type] >= 0)
            return;
        one[type] = v;
    }
    if (one[0] < 0 || one[1] < 0)
        return;
    int second = to->steps[one[1]] == 1;
    if (to->steps[one[second]] != 1)
        return;
    to->row = one[!second];
    to->col = one[second];
}

// What another tile with such steps has: of another thread, or shape.
static dv_finish *find_finish(const dv_product *p, const dv_product_made *of)
{
    size_t n = (size_t)p->how.n_threads << p->n_shorts;
    for (size_t i = 0; i < n; i++)
        if (p->made[i].finish &&
            !memcmp(p->made[i].steps, of->steps, sizeof of->steps))
            return p->made[i].finish;
    return NULL;
}

static dv_status finish_for(dv_product *p, const dv_tile *t,
                            dv_product_made *to, dv_diag *diag)
{
    sum_steps(p, t, to->steps);
    find_blocks(p, t, to);
    to->finish = find_finish(p, to);
    if (to->finish)
        return DV_OK;
    dv_finish_how how = {.p = p->how.plan->ops,
                         .kernel = p->how.kernel,
                         .type = p->nest.dtype,
                         .steps = to->steps,
                         .jit = p->how.jit,
                         .arena = p->how.arena};
    DV_TRY(dv_finish_create(&to->finish, &how, diag));
    return to->finish
               ? DV_OK
               : dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                         "no kernel finishes the sums of %s", p->o->name);
}

dv_status dv_product_prepare(dv_product *p, const dv_tile *t, int32_t thread,
                             dv_product_set *set, dv_diag *diag)
{
    dv_product_made *to = made_for(p, t, thread);
    if (to->c)
        return DV_OK;
    if (p->inside) {
        dv_status st = contract_for(p, t, 1, &to->c, set, NULL);
        if (st == DV_OK || st == DV_E_NOMEM)
            return st == DV_OK ? st : dv_nomem(diag);
    }
    if (!p->direct && !p->how.parts)
        DV_TRY(finish_for(p, t, to, diag));
    return contract_for(p, t, 0, &to->c, set, diag);
}

// Where a read is that a tile begins with.
static char *begin_of(const dv_flat *flat, int32_t n_vars, const dv_tile *t,
                      void *at, int64_t elem_bytes)
{
    int64_t off = flat->base;
    for (int v = 0; v < n_vars; v++)
        off += flat->coef[v] * t->begin[v];
    return (char *)at + off * elem_bytes;
}

// A run whose sums are finished.
typedef struct ending {
    const dv_product *p;
    const dv_product_made *made;
    const dv_tile *t;
    void *const *at;
    char *sums;
} ending;

// A block of sums that is done.
static void finish_block(void *user, void *sums, int32_t rows, int32_t cols)
{
    const ending *e = user;
    const dv_product *p = e->p;
    int64_t begin[DV_MAX_VARS] = {0}, end[DV_MAX_VARS] = {0};
    int64_t off = ((char *)sums - e->sums) / p->sum_bytes;
    for (int32_t i = 0; i < p->n_written; i++) {
        int32_t v = p->written[i];
        int one = e->t->end[v] - e->t->begin[v] == 1;
        int64_t x = one ? 0 : off / e->made->steps[v];
        off -= x * e->made->steps[v];
        begin[v] = e->t->begin[v] + x;
        end[v] = begin[v] + (v == e->made->row   ? rows
                             : v == e->made->col ? cols
                                                 : 1);
    }
    dv_finish_run(e->made->finish, e->at, begin, end, sums);
}

static void run_finished(ending *e, char *const *op)
{
    const dv_product_made *m = e->made;
    int near = m->row >= 0 && dv_contract_then(m->c, finish_block, e);
    dv_contract_part(m->c, 0, op[0], op[1], e->sums);
    dv_contract_then(m->c, NULL, NULL);
    if (!near)
        dv_finish_run(m->finish, e->at, e->t->begin, e->t->end, e->sums);
}

void dv_product_run(const dv_product *p, const dv_tile *t, int32_t thread,
                    void *const *at, void *memory, void *acc)
{
    char *op[DV_N_OPERANDS], *room = memory;
    int64_t steps[DV_MAX_VARS];
    for (int i = 0; i < DV_N_OPERANDS; i++) {
        op[i] = begin_of(p->flat[i], p->o->n_vars, t, at[p->access[i]],
                         p->elem_bytes[i]);
        if (i == 2 || !p->copied[i])
            continue;
        dv_widen_run(&p->copy[i], t->begin, t->end, op[i], room);
        op[i] = room;
        room += dv_round_up(p->copy[i].copy_bytes *
                                dv_widen_steps(&p->copy[i], t->begin, t->end,
                                               p->o->n_vars, steps),
                            ALIGN_BYTES);
    }
    const dv_product_made *m = made_for(p, t, thread);
    if (m->finish) {
        run_finished(&(ending){p, m, t, at, p->there ? op[2] : room}, op);
        return;
    }
    if (p->bias >= 0)
        dv_contract_bias(m->c,
                         begin_of(&p->how.kernel->reads[p->bias], p->o->n_vars,
                                  t, at[p->bias], p->sum_bytes));
    dv_contract_part(m->c, 0, op[0], op[1], p->how.parts ? acc : op[2]);
}
