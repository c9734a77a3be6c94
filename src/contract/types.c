// Products of other types than f32 and f64: which kernels run them.
//
//   i32             those of i32, as for f32
//   f16, bf16, i8   a plan takes matrices as they are stored; all else is
//                   copied first: to matrices, where there are instructions
//                   for the type, or to f32 or i32
//
// What is read once, vectors, is a reduction, and so are windows whose copies
// would be many times as large.
// Sums of whole numbers wrap around in 32 bits. What is done to them afterwards
// is of the whole sum: where some may wrap, the product is a reduction, which
// has 64 bits.
#include "base/dtype.h"
#include "base/math.h"
#include "contract/state.h"
#include <stdlib.h>
#include <string.h>

dv_status ct_check_operands(const dv_nest *n, dv_diag *diag)
{
    if (!dv_nest_is_product(n) || n->narrow || dv_nest_factors(n) >= 0)
        return DV_OK;
    return dv_fail(diag, DV_E_NEST, (dv_loc){n->src, n->off},
                   "wrong_dtype: in0 is %s, in1 is %s, out is %s; there is no "
                   "kernel of a product for that",
                   dv_dtype_get(dv_nest_dtype(n, DV_IN0))->name,
                   dv_dtype_get(dv_nest_dtype(n, DV_IN1))->name,
                   dv_dtype_get(n->dtype)->name);
}

// Do whole sums fit 32 bits? Those of i8 may.
static int fits(const dv_nest *n)
{
    return n->fits ||
           (dv_nest_dtype(n, DV_IN0) == DV_I8 && n->first == DV_PRIM_ZERO &&
            dv_nest_count_k(n) * 128 * 128 <= INT32_MAX);
}

static int has_touches(const dv_nest *n)
{
    return ct_touches_first(n) || ct_touches_last(n);
}

// Does a plan have all that is done to sums? Passes behind it would see what is
// rounded.
static int suits_plan(const dv_nest *n)
{
    return n->dtype == DV_F32 || !has_touches(n);
}

// How many of c, m, n and k there are.
static void count_dims(const dv_nest *n, double size[4])
{
    for (int t = 0; t < 4; t++)
        size[t] = 1;
    for (int i = 0; i < n->n_dims; i++)
        size[n->dims[i].type] *= (double)n->dims[i].size;
}

// Is it a vector times a matrix or a vector, or are there such in a batch? They
// are read once: a reduction does that in one pass, where it has room for sums
// of several k.
static int is_thin(const dv_nest *n)
{
    double size[4];
    int n_k = 0;
    dv_nest all;
    dv_nest_copy(&all, n);
    dv_nest_untile(&all);
    dv_nest_join(&all, NULL, NULL);
    count_dims(&all, size);
    for (int i = 0; i < all.n_dims; i++)
        n_k += all.dims[i].type == DV_NEST_K;
    return (size[DV_NEST_M] < 2 || size[DV_NEST_N] < 2) &&
           (n_k < 2 || n->dtype == DV_F32 || n->dtype == DV_I32);
}

// Would copies be many times what is read, because elements are read at many
// places (of windows)?
static int grows(const dv_nest *n)
{
    enum { MOST = 8 };
    for (int o = 0; o < DV_OUT; o++) {
        int64_t lo, hi;
        double elems = 1;
        if (!dv_nest_extent(n, o, &lo, &hi))
            return 1;
        for (int i = 0; i < n->n_dims; i++)
            if (n->dims[i].stride[o])
                elems *= (double)n->dims[i].size;
        if (elems > MOST * ((double)hi - (double)lo + 1))
            return 1;
    }
    return 0;
}

ct_types ct_settle_types(dv_nest *n)
{
    int t = dv_nest_factors(n);
    if (n->narrow || n->k_order == DV_K_AS_IT_IS || t < 0 || t == DV_F32 ||
        t == DV_F64)
        return CT_AS_IT_IS;
    int whole = !dv_is_float((dv_dtype)t), relu = n->last == DV_PRIM_RELU;
    if ((whole && (has_touches(n) || (relu && !fits(n)))) ||
        (is_thin(n) && !(whole && relu))) {
        dv_nest_to_dot(n);
        return CT_AS_IT_IS;
    }
    if (t == DV_I32)
        return CT_AS_IT_IS;
    if (!suits_plan(n) || !dv_nest_collapses_to_gemm(n, n)) {
        int wide = n->dtype == DV_F32 || (n->dtype == DV_I32 && !relu);
        if (!wide || !grows(n))
            return CT_COPIED;
        dv_nest_to_dot(n);
        return CT_AS_IT_IS;
    }
    n->narrow = (uint8_t)t;
    return CT_NARROW;
}

// -- Copies ------------------------------------------------------------------

struct ct_copied {
    dv_contract *in[DV_N_OPERANDS]; // NULL: it is read as it is
    dv_contract *back;              // of out; NULL: it is written as it is
    dv_contract *product;
    void *memory[DV_N_OPERANDS]; // NULL: there is no copy
};

// Dimensions as copies have them: c, m, k, n, and of one type those with the
// longer steps in out, or in in1, first. So those of one type are one.
static void sort_dims(dv_nest *n)
{
    static const int rank[] = {
        [DV_NEST_C] = 0, [DV_NEST_M] = 1, [DV_NEST_K] = 2, [DV_NEST_N] = 3};
    for (int i = 1; i < n->n_dims; i++)
        for (int j = i; j > 0; j--) {
            dv_nest_dim a = n->dims[j - 1], b = n->dims[j];
            int o = a.type == DV_NEST_K ? DV_IN1 : DV_OUT;
            if (rank[a.type] < rank[b.type] ||
                (a.type == b.type && llabs(a.stride[o]) >= llabs(b.stride[o])))
                break;
            n->dims[j - 1] = b;
            n->dims[j] = a;
        }
}

// Steps of an operand in a copy without gaps. The number of its elements; 0:
// they cannot be counted.
static int64_t tight(dv_nest *n, int operand)
{
    int64_t elems = 1;
    for (int i = n->n_dims - 1; i >= 0; i--) {
        if (!n->dims[i].stride[operand])
            continue;
        n->dims[i].stride[operand] = elems;
        if (!dv_mul_i64(&elems, elems, n->dims[i].size))
            return 0;
    }
    return elems < INT64_MAX / 16 ? elems : 0;
}

// An operand of `from` moved to where `to` has it.
static void copy_nest(dv_nest *c, const dv_nest *from, const dv_nest *to,
                      int operand)
{
    dv_dtype t = dv_nest_dtype(from, operand);
    *c = (dv_nest){.main = DV_PRIM_COPY, .dtype = dv_nest_dtype(to, operand)};
    memcpy(c->name, from->name, sizeof c->name);
    c->types[DV_IN0] = (uint8_t)(1 + t);
    for (int i = 0; i < from->n_dims; i++) {
        const int64_t *a = from->dims[i].stride, *b = to->dims[i].stride;
        if (!a[operand])
            continue;
        c->dims[c->n_dims++] = (dv_nest_dim){
            .type = DV_NEST_C,
            .exec = DV_NEST_SEQ,
            .size = from->dims[i].size,
            .stride = {[DV_IN0] = a[operand], [DV_OUT] = b[operand]}};
    }
    if (!c->n_dims)
        c->dims[c->n_dims++] =
            (dv_nest_dim){.type = DV_NEST_C,
                          .exec = DV_NEST_SEQ,
                          .size = 1,
                          .stride = {[DV_IN0] = 1, [DV_OUT] = 1}};
}

static dv_status copy_operand(ct_copied *c, dv_jit *jit, const dv_nest *n,
                              dv_nest *to, int o,
                              const dv_contract_options *options, dv_diag *diag)
{
    dv_nest move;
    int64_t elems = tight(to, o), bytes;
    if (!elems || !dv_mul_i64(&bytes, elems,
                              dv_dtype_get(dv_nest_dtype(to, o))->size_bytes))
        return dv_fail(diag, DV_E_OVERFLOW, (dv_loc){n->src, n->off},
                       "%s is too large to be copied", dv_nest_operand_name(o));
    c->memory[o] = dv_alloc((size_t)bytes);
    if (!c->memory[o])
        return dv_nomem(diag);
    if (o != DV_OUT || n->first != DV_PRIM_ZERO) {
        copy_nest(&move, n, to, o);
        DV_TRY(dv_contract_create_in(&c->in[o], jit, &move, options, diag));
    }
    if (o != DV_OUT)
        return DV_OK;
    copy_nest(&move, to, n, o);
    return dv_contract_create_in(&c->back, jit, &move, options, diag);
}

// Is a product of pairs worth its copies: is there an instruction for it, and
// are there some rows, columns and k?
static int suits_pairs(const dv_nest *n, const dv_isa *isa)
{
    enum { LEAST = 16 };
    double size[4];
    count_dims(n, size);
    return suits_plan(n) && dv_isa_has(isa, dv_nest_factors(n)) &&
           size[DV_NEST_M] >= LEAST && size[DV_NEST_N] >= LEAST &&
           size[DV_NEST_K] >= LEAST;
}

// Is it one of matrices once in0 and in1 are copied, or out as well? A bit for
// each that is; 0: never.
static int copied_for_pairs(const dv_nest *n)
{
    dv_nest to;
    dv_nest_copy(&to, n);
    int copied = 0;
    for (int o = 0; o < DV_N_OPERANDS; o++) {
        copied |= 1 << o;
        if (!tight(&to, o))
            return 0;
        if (o >= DV_IN1 && dv_nest_collapses_to_gemm(&to, NULL))
            return copied;
    }
    return 0;
}

// The product of copies: of pairs, or of one type.
static dv_status fill(ct_copied *c, dv_jit *jit, const dv_nest *n,
                      const dv_contract_options *options, dv_diag *diag)
{
    dv_contract_options o = *options;
    dv_nest all, to;
    int copied = 0;
    dv_nest_copy(&all, n);
    dv_nest_untile(&all);
    sort_dims(&all);
    o.optimise = DV_NEST_OPTIMISE_ALL;
    dv_nest_copy(&to, &all);
    to.fits = fits(n) != 0;
    if (suits_pairs(&all, dv_jit_isa(jit)))
        copied = copied_for_pairs(&all);
    if (!copied) {
        to.dtype = dv_is_float(n->dtype) ? DV_F32 : DV_I32;
        memset(to.types, 0, sizeof to.types);
        copied = 1 << DV_IN0 | 1 << DV_IN1 | (to.dtype != n->dtype) << DV_OUT;
    }
    for (int i = 0; i < DV_N_OPERANDS; i++)
        if (copied >> i & 1)
            DV_TRY(copy_operand(c, jit, &all, &to, i, &o, diag));
    return dv_contract_create_in(&c->product, jit, &to, &o, diag);
}

dv_status ct_copied_create(ct_copied **out, dv_jit *jit, const dv_nest *n,
                           const dv_contract_options *options, dv_diag *diag)
{
    *out = dv_alloc(sizeof **out);
    if (!*out)
        return dv_nomem(diag);
    **out = (ct_copied){0};
    return fill(*out, jit, n, options, diag);
}

void ct_copied_destroy(ct_copied *c)
{
    if (!c)
        return;
    for (int o = 0; o < DV_N_OPERANDS; o++) {
        dv_contract_destroy(c->in[o]);
        dv_release(c->memory[o]);
    }
    dv_contract_destroy(c->back);
    dv_contract_destroy(c->product);
    dv_release(c);
}

const dv_nest *ct_copied_nest(const ct_copied *c)
{
    return dv_contract_nest(c->product);
}

void ct_copied_visit(const ct_copied *c, ct_visitor *visit, void *user,
                     const void *in0, const void *in1, void *out)
{
    const void *at[DV_N_OPERANDS] = {in0, in1, out};
    for (int o = 0; o < DV_N_OPERANDS; o++) {
        if (c->in[o])
            visit(user, c->in[o], at[o], NULL, c->memory[o]);
        if (c->memory[o])
            at[o] = c->memory[o];
    }
    visit(user, c->product, at[DV_IN0], at[DV_IN1],
          c->back ? c->memory[DV_OUT] : out);
    if (c->back)
        visit(user, c->back, c->memory[DV_OUT], NULL, out);
}
