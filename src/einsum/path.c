// Finds the path of a formula: the steps that compute it.
//
//   iijk,kl->jl    t0[j,k] = sum of x0[i,i,j,k] over i    (prepared)
//                  y[j,l]  = t0 x1 over k
//
// First, every operand is reduced to its diagonals and summed over the indices
// that no other tensor has, which never costs more than doing so later. Then an
// order of products is found. A single operand takes one step.
#include "einsum/einsum.h"
#include <inttypes.h>
#include <math.h>

typedef struct work {
    const dv_formula *f;
    dv_path *path;
    // Number, in the path, of each operand after its diagonals are taken and
    // the indices that only it has are summed.
    int32_t *number;
    // Indices of each operand after its diagonals are taken and the indices
    // that only it has are summed.
    dv_ids *ids;
    dv_diag *diag;
} work;

const dv_einsum_term *dv_path_term(const dv_formula *f, const dv_path *p,
                                   int32_t n)
{
    return n < f->n_in ? &f->in[n] : &p->steps[n - f->n_in].out;
}

// Computes the cost (flops and elements) of a step of the path whose factors
// and result are known.
static void price(const work *w, dv_einsum_step *s)
{
    const dv_formula *f = w->f;
    dv_ids box = dv_term_ids(dv_path_term(f, w->path, s->a));
    if (s->b >= 0)
        box = dv_ids_or(box, dv_term_ids(dv_path_term(f, w->path, s->b)));
    s->sums = dv_ids_minus(box, dv_term_ids(&s->out));
    double points = dv_ids_points(box, f->extent);
    s->flops = points * ((s->b >= 0) + !dv_ids_none(s->sums));
    s->elems = dv_ids_points(dv_term_ids(&s->out), f->extent);
}

static void add(work *w, dv_einsum_step s)
{
    dv_path *p = w->path;
    price(w, &s);
    p->steps[p->n_steps++] = s;
    p->flops += s.flops;
}

static void push(dv_einsum_term *t, int id)
{
    t->id[t->n_dims++] = (uint8_t)id;
}

// Appends to term t the indices of `from` that are in `wanted` and that t does
// not have yet, in the order of `from`.
static void push_all(dv_einsum_term *t, const dv_einsum_term *from,
                     dv_ids wanted)
{
    for (int d = 0; d < from->n_dims; d++) {
        int id = from->id[d];
        if (id != DV_NO_ID && dv_ids_has(wanted, id) &&
            !dv_ids_has(dv_term_ids(t), id))
            push(t, id);
    }
}

// Returns the term (list of indices) of a product: first the indices of both
// factors, then those of the left, then those of the right, so that each kind
// is contiguous.
static dv_einsum_term product_term(const dv_einsum_term *a,
                                   const dv_einsum_term *b, dv_ids keep)
{
    dv_einsum_term t = {0};
    dv_ids both = dv_ids_and(dv_term_ids(a), dv_term_ids(b));
    push_all(&t, a, dv_ids_and(keep, both));
    push_all(&t, a, keep);
    push_all(&t, b, keep);
    return t;
}

// Returns the set of all indices of the output and of the operands other than
// `but`.
static dv_ids elsewhere(const dv_formula *f, int32_t but)
{
    dv_ids s = dv_term_ids(&f->out);
    for (int32_t i = 0; i < f->n_in; i++)
        if (i != but)
            s = dv_ids_or(s, dv_term_ids(&f->in[i]));
    return s;
}

static void prepare(work *w, int32_t i)
{
    const dv_einsum_term *t = &w->f->in[i];
    dv_einsum_step s = {.a = i, .b = -1};
    push_all(&s.out, t, elsewhere(w->f, i));
    int named = 0;
    for (int d = 0; d < t->n_dims; d++)
        named += t->id[d] != DV_NO_ID;
    w->ids[i] = dv_term_ids(&s.out);
    w->number[i] = i;
    if (s.out.n_dims == named)
        return;
    add(w, s);
    w->number[i] = w->f->n_in + w->path->n_steps - 1;
}

// Returns the indices that the output or a product after number i still needs,
// so that product i must not sum over them. The products are the path's steps
// from number `first` on.
static dv_ids needed(const work *w, const dv_pair *pairs, int32_t i,
                     int32_t first)
{
    int32_t n = w->f->n_in;
    dv_ids keep = dv_term_ids(&w->f->out);
    for (int32_t k = i + 1; k < n - 1; k++)
        for (int side = 0; side < 2; side++) {
            int32_t x = side ? pairs[k].b : pairs[k].a;
            if (x < n)
                keep = dv_ids_or(keep, w->ids[x]);
            else if (x < n + i)
                keep = dv_ids_or(
                    keep, dv_term_ids(&w->path->steps[first + x - n].out));
        }
    return keep;
}

// Appends the given products as steps of the path. In `pairs`, numbers below n
// are prepared operands (after diagonals and sums of their own), higher numbers
// are earlier products.
static dv_status multiply(work *w, const dv_pair *pairs)
{
    const dv_formula *f = w->f;
    int32_t n = f->n_in, first = w->path->n_steps;
    for (int32_t i = 0; i < n - 1; i++) {
        dv_einsum_step s = {0};
        s.a = pairs[i].a < n ? w->number[pairs[i].a] : pairs[i].a + first;
        s.b = pairs[i].b < n ? w->number[pairs[i].b] : pairs[i].b + first;
        s.out = i == n - 2 ? f->out
                           : product_term(dv_path_term(f, w->path, s.a),
                                          dv_path_term(f, w->path, s.b),
                                          needed(w, pairs, i, first));
        add(w, s);
    }
    return DV_OK;
}

static dv_status no_order(const work *w, const dv_einsum_order *o,
                          dv_arena *arena)
{
    dv_einsum_order free = *o;
    dv_order_cost cost = {INFINITY, 0, 0};
    dv_pair *pairs = DV_NEW(arena, dv_pair, o->n);
    if (!pairs)
        return dv_nomem(w->diag);
    free.max_elems = 0;
    DV_TRY(dv_order_greedy(&free, pairs, &cost, arena, w->diag));
    if (!isfinite(cost.flops))
        return dv_fail(w->diag, DV_E_LIMIT, (dv_loc){&w->f->src, 0},
                       "every order found has a result between of more than "
                       "%d dims",
                       (int)DV_MAX_DIMS);
    return dv_fail(w->diag, DV_E_CAPACITY, (dv_loc){&w->f->src, 0},
                   "no order found has all results between within %.0f "
                   "elements",
                   o->max_elems);
}

static dv_status find_order(work *w, dv_path_search how, int64_t max_elems,
                            dv_arena *arena)
{
    const dv_formula *f = w->f;
    dv_einsum_order o = {f->n_in, w->ids, dv_term_ids(&f->out), f->extent,
                         (double)max_elems};
    dv_order_cost cost;
    dv_pair *pairs = DV_NEW(arena, dv_pair, f->n_in);
    if (!pairs)
        return dv_nomem(w->diag);
    int exact =
        how == DV_PATH_AUTO ? f->n_in <= DV_MAX_EXACT : how == DV_PATH_EXACT;
    if (exact && f->n_in > DV_MAX_EXACT)
        return dv_fail(w->diag, DV_E_LIMIT, DV_NOWHERE,
                       "the exact search takes up to %d operands, there are %d",
                       (int)DV_MAX_EXACT, (int)f->n_in);
    w->path->how = exact ? "exact" : "greedy";
    DV_TRY((exact ? dv_order_exact : dv_order_greedy)(&o, pairs, &cost, arena,
                                                      w->diag));
    if (!isfinite(cost.flops))
        return no_order(w, &o, arena);
    return multiply(w, pairs);
}

// Returns the flops of computing the formula in one loop nest over all indices:
// at each point a multiplication for every operand but one, and an addition if
// some index is summed over.
static double naive_flops(const dv_formula *f)
{
    dv_ids box = {{0, 0}};
    for (int32_t i = 0; i < f->n_in; i++)
        box = dv_ids_or(box, dv_term_ids(&f->in[i]));
    int sums = !dv_ids_none(dv_ids_minus(box, dv_term_ids(&f->out)));
    return dv_ids_points(box, f->extent) * (f->n_in - 1 + sums);
}

static dv_status find(work *w, dv_path_search how, int64_t max_elems,
                      dv_arena *arena)
{
    const dv_formula *f = w->f;
    dv_path *p = w->path;
    if (f->is_tree) {
        p->how = "given";
        for (int32_t i = 0; i < f->n_given; i++)
            add(w, f->given[i]);
        return DV_OK;
    }
    if (f->n_in == 1) {
        p->how = "exact";
        add(w, (dv_einsum_step){.a = 0, .b = -1, .out = f->out});
        return DV_OK;
    }
    for (int32_t i = 0; i < f->n_in; i++)
        prepare(w, i);
    return find_order(w, how, max_elems, arena);
}

dv_status dv_path_find(dv_path *out, const dv_formula *f, dv_path_search how,
                       int64_t max_elems, dv_arena *arena, dv_diag *diag)
{
    work w = {.f = f, .path = out, .diag = diag};
    if (max_elems < 0)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "a limit of %" PRId64 " elements", max_elems);
    if (how != DV_PATH_AUTO && f->is_tree)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "a tree has its order, path '%s' is for expressions",
                       how == DV_PATH_EXACT ? "exact" : "greedy");
    *out = (dv_path){.how = "exact"};
    out->steps =
        DV_NEW(arena, dv_einsum_step, f->is_tree ? f->n_given : 2 * f->n_in);
    w.number = DV_NEW(arena, int32_t, f->n_in);
    w.ids = DV_NEW(arena, dv_ids, f->n_in);
    if (!out->steps || !w.number || !w.ids)
        return dv_nomem(diag);
    DV_TRY(find(&w, how, max_elems, arena));
    out->naive_flops = f->is_tree ? 0 : naive_flops(f);
    for (int32_t i = 0; i + 1 < out->n_steps; i++)
        out->largest_elems = fmax(out->largest_elems, out->steps[i].elems);
    if (f->is_tree && max_elems && out->largest_elems > (double)max_elems)
        return dv_fail(diag, DV_E_CAPACITY, (dv_loc){&f->src, 0},
                       "a result between has %.0f elements, %" PRId64
                       " are allowed",
                       out->largest_elems, max_elems);
    return DV_OK;
}
