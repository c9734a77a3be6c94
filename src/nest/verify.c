// The rules that a nest must obey, one function each. The table at the end
// lists them in the order in which mini_jit (a teaching compiler whose nests
// divvy reads) checks them; dv_nest_check leaves out the rules that only a
// kernel needs.
#include "nest/nest.h"
#include "base/math.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *dv_nest_rule_name(dv_nest_rule r)
{
    static const char *const names[] = {
#define NEST_RULE(NAME, name, number, text) [number] = #name,
#include "divvy/nest_rule.def"
#undef NEST_RULE
    };
    return names[r];
}

// Reports that a rule is broken, with the source position of dimension `dim`,
// or of the nest if `dim` is -1.
__attribute__((format(printf, 5, 6))) static dv_status
broken(const dv_nest *n, int dim, dv_diag *diag, dv_nest_rule r,
       const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    dv_loc at = {n->src, dim < 0 ? n->off : n->dims[dim].off};
    dv_status st =
        dv_fail(diag, DV_E_NEST, at, "%s: %s", dv_nest_rule_name(r), text);
    dv_diag_set_rule(diag, (int)r);
    return st;
}

static int is_touch(dv_prim p)
{
    return dv_prim_get(p)->kind <= DV_PRIM_IS_UNARY;
}

// Returns the kind of a nest that cannot pack operands, for messages;
// NULL if the nest is a product or has no main primitive.
static const char *other_kind(const dv_nest *n)
{
    return dv_nest_is_unary(n)    ? "unary"
           : dv_nest_is_binary(n) ? "binary"
           : dv_nest_is_select(n) ? "select"
           : dv_nest_is_reduce(n) ? "reduction"
                                  : NULL;
}

static dv_status check_dims(const dv_nest *n, dv_diag *diag)
{
    if (n->n_dims < 1 || n->n_dims > DV_NEST_MAX_DIMS)
        return broken(n, -1, diag, DV_NEST_RULE_DIMENSION,
                      "there are %d dimensions, 1 to %d are possible",
                      (int)n->n_dims, (int)DV_NEST_MAX_DIMS);
    for (int i = 0; i < n->n_dims; i++) {
        const dv_nest_dim *d = &n->dims[i];
        if ((unsigned)d->type > DV_NEST_K)
            return broken(n, i, diag, DV_NEST_RULE_DIMENSION,
                          "dimension %d has type %d, 0 to 3 are possible", i,
                          (int)d->type);
        if ((unsigned)d->exec > DV_NEST_PRIM)
            return broken(n, i, diag, DV_NEST_RULE_EXECUTION,
                          "dimension %d has execution %d, 0 to 2 are possible",
                          i, (int)d->exec);
        if (d->size < 1 || d->size > DV_NEST_MAX_SIZE)
            return broken(n, i, diag, DV_NEST_RULE_DIMENSION,
                          "dimension %d has size %" PRId64 ", 1 to %" PRId64
                          " are possible",
                          i, d->size, DV_NEST_MAX_SIZE);
    }
    return DV_OK;
}

// Checks tiled dimensions: a loop over tiles must step over exactly one tile,
// and the tiles together must cover the untiled size, the last one possibly in
// part.
static dv_status check_tiles(const dv_nest *n, dv_diag *diag)
{
    dv_nest_tiles t;
    int bad;
    int64_t most;
    if (!dv_nest_tiles_of(n, &t, &bad))
        return broken(n, bad, diag, DV_NEST_RULE_TILES,
                      "dimension %d is %" PRId64 " of %" PRId64
                      ", but nothing before it steps over it alone",
                      bad, n->dims[bad].size, n->dims[bad].whole);
    for (int i = 0; i < n->n_dims; i++) {
        int in = t.inner[i], top = t.outer[i] < 0;
        if (in < 0)
            continue;
        int64_t whole = n->dims[in].whole;
        if (!dv_mul_i64(&most, n->dims[i].size, t.unit[i]) || whole < 1 ||
            whole > DV_NEST_MAX_SIZE || (!top && n->dims[i].whole != whole) ||
            (top && (most < whole || most - t.unit[i] >= whole)))
            return broken(n, i, diag, DV_NEST_RULE_TILES,
                          "dimension %d has %" PRId64 " tiles of %" PRId64
                          ", which is not %" PRId64,
                          i, n->dims[i].size, t.unit[i], whole);
    }
    return DV_OK;
}

// Checks the marks `pack`: only products have them, and an operand is packed at
// most once and in a loop, not in the kernel.
static dv_status check_marks(const dv_nest *n, dv_diag *diag)
{
    int seen = n->pack;
    if (n->pack && other_kind(n))
        return broken(n, -1, diag, DV_NEST_RULE_MARKS, "%s packs nothing",
                      dv_prim_get(n->main)->name);
    for (int i = 0; i < n->n_dims; i++) {
        const dv_nest_dim *d = &n->dims[i];
        if (d->pack && other_kind(n))
            return broken(n, i, diag, DV_NEST_RULE_MARKS,
                          "dimension %d packs %s, which a %s does not", i,
                          dv_nest_operand_name(__builtin_ctz(d->pack)),
                          other_kind(n));
        if ((seen & d->pack) || (d->pack && d->exec == DV_NEST_PRIM))
            return broken(n, i, diag, DV_NEST_RULE_MARKS,
                          "dimension %d packs %s, which %s", i,
                          dv_nest_operand_name(__builtin_ctz(d->pack)),
                          d->exec == DV_NEST_PRIM ? "the kernel does not"
                                                  : "is packed before");
        seen |= d->pack;
    }
    return DV_OK;
}

// Checks that types and constants are declared only for inputs that the main
// primitive reads, and that constants have no strides.
static dv_status check_operands(const dv_nest *n, dv_diag *diag)
{
    if (n->types[DV_OUT] || n->constants >> DV_OUT & 1)
        return broken(n, -1, diag, DV_NEST_RULE_OPERANDS,
                      "out is %s, the nest is %s: its type is out's",
                      n->types[DV_OUT]
                          ? dv_dtype_get(dv_nest_dtype(n, DV_OUT))->name
                          : "a constant",
                      dv_dtype_get(n->dtype)->name);
    for (int o = 0; o < DV_MAX_OPERANDS; o++) {
        int constant = n->constants >> o & 1;
        if (!n->types[o] && !constant)
            continue;
        dv_nest without = *n;
        without.constants = 0;
        if (!dv_nest_has(&without, o))
            return broken(n, -1, diag, DV_NEST_RULE_OPERANDS,
                          "%s is %s, but %s does not read it",
                          dv_nest_operand_name(o),
                          constant ? "a constant"
                                   : dv_dtype_get(dv_nest_dtype(n, o))->name,
                          dv_prim_get(n->main)->name);
        if (constant && (dv_nest_is_product(n) || dv_nest_is_reduce(n)))
            return broken(n, -1, diag, DV_NEST_RULE_OPERANDS,
                          "%s is a constant, which %s does not take",
                          dv_nest_operand_name(o), dv_prim_get(n->main)->name);
        for (int i = 0; constant && i < n->n_dims; i++)
            if (n->dims[i].stride[o])
                return broken(n, i, diag, DV_NEST_RULE_OPERANDS,
                              "%s is a constant and has stride %" PRId64
                              " in dimension %d",
                              dv_nest_operand_name(o), n->dims[i].stride[o], i);
    }
    return DV_OK;
}

static dv_status check_mean(const dv_nest *n, dv_diag *diag)
{
    if (n->mean && !dv_nest_is_product(n) && n->main != DV_PRIM_SUM &&
        n->main != DV_PRIM_DOT)
        return broken(n, -1, diag, DV_NEST_RULE_MEAN,
                      "main is %s, a mean is of a sum",
                      dv_prim_get(n->main)->name);
    if (n->mean && n->first != DV_PRIM_ZERO)
        return broken(n, -1, diag, DV_NEST_RULE_MEAN,
                      "the first touch is %s, a mean begins with zero",
                      dv_prim_get(n->first)->name);
    return DV_OK;
}

static dv_status check_index(const dv_nest *n, dv_diag *diag)
{
    if (!n->look)
        return DV_OK;
    int o = n->look - 1;
    dv_dtype t = dv_nest_dtype(n, DV_IN2);
    if (dv_nest_is_product(n) || dv_nest_is_select(n) || !dv_nest_has(n, o))
        return broken(n, -1, diag, DV_NEST_RULE_LOOK,
                      "%s is looked up, which %s does not",
                      dv_nest_operand_name(o), dv_prim_get(n->main)->name);
    if (o == DV_OUT && dv_nest_is_reduce(n))
        return broken(n, -1, diag, DV_NEST_RULE_LOOK,
                      "out is looked up, which %s does not",
                      dv_prim_get(n->main)->name);
    if (dv_is_float(t) || n->constants >> DV_IN2 & 1)
        return broken(n, -1, diag, DV_NEST_RULE_LOOK,
                      "in2 is %s, an index is a whole number in memory",
                      n->constants >> DV_IN2 & 1 ? "a constant"
                                                 : dv_dtype_get(t)->name);
    if (n->index_count < 1 || n->index_count > DV_NEST_MAX_SIZE ||
        !n->index_stride)
        return broken(n, -1, diag, DV_NEST_RULE_LOOK,
                      "%" PRId64 " indices in steps of %" PRId64
                      ": 1 to %" PRId64 " are possible, and no step of 0",
                      n->index_count, n->index_stride, DV_NEST_MAX_SIZE);
    return DV_OK;
}

// Refuses to share a loop over the indices of an output that is written
// indirectly (a scatter): the same index may occur twice, and the element's
// final value would depend on the order of threads.
static dv_status check_index_shared(const dv_nest *n, dv_diag *diag)
{
    for (int i = 0; n->look == 1 + DV_OUT && i < n->n_dims; i++)
        if (n->dims[i].exec == DV_NEST_SHARED && n->dims[i].stride[DV_IN2])
            return broken(n, i, diag, DV_NEST_RULE_LOOK_SHARED,
                          "dimension %d, of size %" PRId64
                          ", is shared and steps %" PRId64 " in the index",
                          i, n->dims[i].size, n->dims[i].stride[DV_IN2]);
    return DV_OK;
}

// Refuses kernel dimensions in which the indirect index has a stride, because a
// kernel accesses memory with constant strides only.
static dv_status check_index_prims(const dv_nest *n, dv_diag *diag)
{
    for (int i = 0; n->look && i < n->n_dims; i++)
        if (n->dims[i].exec == DV_NEST_PRIM && n->dims[i].stride[DV_IN2])
            return broken(n, i, diag, DV_NEST_RULE_LOOK,
                          "dimension %d is prim and steps %" PRId64
                          " in the index",
                          i, n->dims[i].stride[DV_IN2]);
    return DV_OK;
}

// Checks that in1 has strides if a product reads it. Text gives every dimension
// a stride, 0 by default, so a missing in1 shows as all strides being 0.
static dv_status check_in1(const dv_nest *n, dv_diag *diag)
{
    const dv_prim used[] = {n->first, n->main, n->last};
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].stride[DV_IN1])
            return DV_OK;
    for (int i = 0; i < 3; i++)
        if (dv_prim_get(used[i])->kind == DV_PRIM_IS_PRODUCT)
            return broken(n, -1, diag, DV_NEST_RULE_DIMENSION,
                          "in1 has strides in 0 of %d dimensions, %s reads it",
                          (int)n->n_dims, dv_prim_get(used[i])->name);
    return DV_OK;
}

static dv_status check_k_shared(const dv_nest *n, dv_diag *diag)
{
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].type == DV_NEST_K && n->dims[i].exec == DV_NEST_SHARED)
            return broken(n, i, diag, DV_NEST_RULE_K_SHARED,
                          "dimension %d, k of size %" PRId64 ", is shared", i,
                          n->dims[i].size);
    return DV_OK;
}

static const char *type_name(const dv_nest *n, int operand)
{
    return dv_dtype_get(dv_nest_dtype(n, operand))->name;
}

// Checks that there are kernels for the operand types: products have them for
// some combinations of types, other operations for all types but i64.
// (mini_jit, the compiler whose rule this is, accepts f32 alone.)
static dv_status check_dtype(const dv_nest *n, dv_diag *diag)
{
    if (dv_nest_is_product(n))
        return dv_nest_factors(n) >= 0
                   ? DV_OK
                   : broken(n, -1, diag, DV_NEST_RULE_DTYPE,
                            "%s of %s and %s to %s; both factors are f32 or "
                            "f64 as out is, f16 or bf16 and out a float of at "
                            "most 32 bits, i8 or i32 and out i32",
                            dv_prim_get(n->main)->name, type_name(n, DV_IN0),
                            type_name(n, DV_IN1), type_name(n, DV_OUT));
    for (int o = 0; o < DV_MAX_OPERANDS; o++) {
        dv_dtype t = dv_nest_dtype(n, o);
        if (!dv_nest_has(n, o) || (n->look && o == DV_IN2))
            continue;
        if (dv_is_float(t) || t == DV_I32 || t == DV_I8)
            continue;
        return broken(n, -1, diag, DV_NEST_RULE_DTYPE,
                      "%s is %s; no kernel computes with it",
                      o == DV_OUT || t == n->dtype ? "it"
                                                   : dv_nest_operand_name(o),
                      dv_dtype_get(t)->name);
    }
    return DV_OK;
}

static dv_status check_order(const dv_nest *n, dv_diag *diag)
{
    for (int i = 1; i < n->n_dims; i++)
        if (n->dims[i].exec < n->dims[i - 1].exec)
            return broken(n, i, diag, DV_NEST_RULE_ORDER,
                          "dimension %d is %s after dimension %d, which is "
                          "%s; first shared, then seq, then prim",
                          i, dv_nest_exec_name(n->dims[i].exec), i - 1,
                          dv_nest_exec_name(n->dims[i - 1].exec));
    return DV_OK;
}

static int count_prims(const dv_nest *n, dv_nest_type t)
{
    int count = 0;
    for (int i = 0; i < n->n_dims; i++)
        count += n->dims[i].type == t && n->dims[i].exec == DV_NEST_PRIM;
    return count;
}

// Returns whether the kernel takes any two of the dimensions c, m and n inside.
static int takes_any(const dv_nest *n)
{
    return dv_nest_is_binary(n) || dv_nest_is_select(n);
}

static dv_status check_mn_prims(const dv_nest *n, dv_diag *diag)
{
    int n_m = count_prims(n, DV_NEST_M), n_n = count_prims(n, DV_NEST_N);
    int all = n_m + n_n + count_prims(n, DV_NEST_C);
    int want = dv_nest_is_reduce(n) ? 1 : 2;
    if (takes_any(n) || dv_nest_is_reduce(n))
        return all == want ? DV_OK
                           : broken(n, -1, diag, DV_NEST_RULE_PRIM_CONFIG,
                                    "%d of c, m and n are prim, %s has %d", all,
                                    dv_prim_get(n->main)->name, want);
    if (n_m == 1 && n_n == 1)
        return DV_OK;
    return broken(n, -1, diag, DV_NEST_RULE_PRIM_CONFIG,
                  "%d m and %d n dimensions are prim, 1 and 1 are needed", n_m,
                  n_n);
}

static dv_status check_unit_strides(const dv_nest *n, dv_diag *diag)
{
    dv_nest_prims p = dv_nest_find_prims(n);
    const int64_t *m = n->dims[p.m].stride;
    if (takes_any(n) && m[DV_OUT] != 1)
        return broken(n, p.m, diag, DV_NEST_RULE_STRIDES,
                      "the prims of %s have stride %" PRId64 " and %" PRId64
                      " in out, one must be 1",
                      dv_prim_get(n->main)->name, m[DV_OUT],
                      n->dims[p.n].stride[DV_OUT]);
    if (takes_any(n) || dv_nest_is_reduce(n))
        return DV_OK;
    // If in0 is one element broadcast along m, its stride need not be 1.
    if (dv_nest_is_unary(n) && m[DV_IN0] == 0 && m[DV_OUT] == 1)
        return DV_OK;
    if (m[DV_IN0] == 1 && (m[DV_OUT] == 1 || dv_nest_is_transposed(n)))
        return DV_OK;
    return broken(n, p.m, diag, DV_NEST_RULE_STRIDES,
                  "prim m has stride %" PRId64 " in in0 and %" PRId64
                  " in out, 1 and 1 are needed%s",
                  m[DV_IN0], m[DV_OUT],
                  dv_nest_is_unary(n) ? ", or 1 in in0 and n 1 in out" : "");
}

// Checks that the kernel of a reduction reads in0 contiguously, along m or
// along k.
static dv_status check_reduce_strides(const dv_nest *n, dv_diag *diag)
{
    dv_nest_prims p = dv_nest_find_prims(n);
    int64_t m = n->dims[p.m].stride[DV_IN0], k = n->dims[p.k1].stride[DV_IN0];
    if (m == 1 || k == 1)
        return DV_OK;
    return broken(n, p.k1, diag, DV_NEST_RULE_STRIDES,
                  "the prims of %s have stride %" PRId64 " and %" PRId64
                  " in in0, one must be 1",
                  dv_prim_get(n->main)->name, m, k);
}

// Checks the number of k dimensions (summed) in the kernel and the unit stride
// of the last one. A nest without a main primitive passes here, because another
// rule refuses it.
static dv_status check_k_prims(const dv_nest *n, dv_diag *diag)
{
    const dv_prim_info *main = dv_prim_get(n->main);
    int found = count_prims(n, DV_NEST_K), last = n->n_dims - 1;
    if (main->kind == DV_PRIM_IS_NOTHING)
        return DV_OK;
    if (found != main->k_prims)
        return broken(n, -1, diag, DV_NEST_RULE_PRIM_CONFIG,
                      "%d k dimensions are prim, %s has %d", found, main->name,
                      main->k_prims);
    if (dv_nest_is_reduce(n))
        return check_reduce_strides(n, diag);
    if (!dv_nest_is_product(n))
        return DV_OK;
    while (n->dims[last].type != DV_NEST_K ||
           n->dims[last].exec != DV_NEST_PRIM)
        last--;
    if (n->dims[last].stride[DV_IN1] == 1)
        return DV_OK;
    return broken(n, last, diag, DV_NEST_RULE_PRIM_CONFIG,
                  "the last prim k has stride %" PRId64 " in in1, 1 is needed",
                  n->dims[last].stride[DV_IN1]);
}

// Whether an operand must not, must, or may have a nonzero stride in a
// dimension of some type.
enum { NO, YES, MAY };
typedef char membership[DV_MAX_OPERANDS][4];

static const membership *members_of(const dv_nest *n)
{
    // The columns of these tables are the dimension types c (batch), m (rows),
    // n (columns) and k (summed).
    static const membership product = {[DV_IN0] = {YES, YES, NO, YES},
                                       [DV_IN1] = {YES, NO, YES, YES},
                                       [DV_OUT] = {YES, YES, YES, NO}};
    static const membership unary = {[DV_IN0] = {MAY, MAY, MAY, NO},
                                     [DV_IN1] = {MAY, MAY, MAY, MAY},
                                     [DV_OUT] = {YES, YES, YES, NO}};
    static const membership binary = {[DV_IN0] = {MAY, YES, NO, NO},
                                      [DV_IN1] = {MAY, NO, YES, NO},
                                      [DV_OUT] = {YES, YES, YES, NO}};
    static const membership three = {[DV_IN0] = {MAY, NO, NO, NO},
                                     [DV_IN1] = {MAY, NO, NO, NO},
                                     [DV_OUT] = {YES, NO, NO, NO},
                                     [DV_IN2] = {MAY, NO, NO, NO}};
    static const membership reduce = {
        [DV_IN0] = {MAY, MAY, MAY, MAY}, [DV_OUT] = {YES, YES, YES, NO}};
    static const membership dot = {[DV_IN0] = {MAY, MAY, MAY, MAY},
                                   [DV_IN1] = {MAY, MAY, MAY, MAY},
                                   [DV_OUT] = {YES, YES, YES, NO}};
    return n->main == DV_PRIM_DOT ? &dot
           : dv_nest_is_unary(n)  ? &unary
           : dv_nest_is_binary(n) ? &binary
           : dv_nest_is_select(n) ? &three
           : dv_nest_is_reduce(n) ? &reduce
                                  : &product;
}

static dv_status check_membership(const dv_nest *n, dv_diag *diag)
{
    const membership *all = members_of(n);
    if (n->main == DV_PRIM_NONE)
        return DV_OK;
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        for (int i = 0; i < n->n_dims; i++) {
            const dv_nest_dim *d = &n->dims[i];
            int has = (*all)[o][d->type];
            if (n->look && o == DV_IN2)
                has = MAY;
            if (n->look == 1 + o && has == YES && d->stride[DV_IN2])
                // If the indirect index of this operand (in2) advances along
                // this dimension, the operand need not have a stride of its
                // own.
                has = MAY;
            if (has == MAY || (d->stride[o] != 0) == (has == YES))
                continue;
            return broken(n, i, diag, DV_NEST_RULE_STRIDES,
                          "%s has stride %" PRId64
                          " in dimension %d, of type %s: it must %sbe 0",
                          dv_nest_operand_name(o), d->stride[o], i,
                          dv_nest_type_name(d->type), has ? "not " : "");
        }
    return DV_OK;
}

// Refuses elementwise functions with a prologue or epilogue. mini_jit, the
// compiler whose rule this is, intends the same, but by mistake looks for an
// epilogue only.
static dv_status check_alone(const dv_nest *n, dv_diag *diag)
{
    int touched = n->first != DV_PRIM_NONE || n->last != DV_PRIM_NONE;
    if ((!dv_nest_is_unary(n) && !takes_any(n)) || !touched)
        return DV_OK;
    return broken(n, -1, diag, DV_NEST_RULE_MAIN_CONFIG,
                  "main %s is %s and has first touch %s, last touch %s",
                  dv_prim_get(n->main)->name, other_kind(n),
                  dv_prim_get(n->first)->name, dv_prim_get(n->last)->name);
}

static dv_status check_prims(const dv_nest *n, dv_diag *diag)
{
    if (!is_touch(n->first))
        return broken(n, -1, diag, DV_NEST_RULE_FIRST, "%s is not unary",
                      dv_prim_get(n->first)->name);
    if (n->main == DV_PRIM_NONE)
        return broken(n, -1, diag, DV_NEST_RULE_MAIN,
                      "the main primitive is none");
    if (!is_touch(n->last))
        return broken(n, -1, diag, DV_NEST_RULE_LAST, "%s is not unary",
                      dv_prim_get(n->last)->name);
    return DV_OK;
}

static int by_stride(const void *x, const void *y)
{
    const int64_t *a = x, *b = y;
    return (a[0] > b[0]) - (a[0] < b[0]);
}

// Refuses nests in which two iterations over c, m and n may write the same
// element of the output: every stride must exceed the span of all smaller
// strides. This also refuses some skewed layouts without overlap, which no
// tensor of a program has.
static dv_status check_overlap(const dv_nest *n, dv_diag *diag)
{
    int64_t steps[DV_NEST_MAX_DIMS + 1][2], span = 0, lo, hi;
    int n_steps = 0;
    // Undo tiling first, because the last tile may extend beyond the end of its
    // dimension.
    dv_nest all = *n;
    dv_nest_untile(&all);
    n = &all;
    int operands = dv_nest_has(n, DV_IN2) ? DV_MAX_OPERANDS : DV_N_OPERANDS;
    for (int o = 0; o < operands; o++)
        if (!dv_nest_extent(n, o, &lo, &hi) || !dv_sub_i64(&hi, hi, lo))
            return dv_fail(diag, DV_E_OVERFLOW, (dv_loc){n->src, n->off},
                           "the elements of %s are too many to count",
                           dv_nest_operand_name(o));
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].stride[DV_OUT] && n->dims[i].size > 1) {
            steps[n_steps][0] = llabs(n->dims[i].stride[DV_OUT]);
            steps[n_steps++][1] = i;
        }
    // An indirect index into the output acts like one more dimension.
    if (n->look == 1 + DV_OUT && n->index_count > 1) {
        steps[n_steps][0] = llabs(n->index_stride);
        steps[n_steps++][1] = -1;
    }
    qsort(steps, (size_t)n_steps, sizeof *steps, by_stride);
    for (int s = 0; s < n_steps; s++) {
        int dim = (int)steps[s][1];
        if (steps[s][0] <= span && dim < 0)
            return broken(n, -1, diag, DV_NEST_RULE_OVERLAP,
                          "an index steps by %" PRId64
                          " in out, smaller steps reach %" PRId64,
                          steps[s][0], span);
        if (steps[s][0] <= span)
            return broken(n, dim, diag, DV_NEST_RULE_OVERLAP,
                          "dimension %d steps by %" PRId64
                          " in out, smaller steps reach %" PRId64,
                          dim, steps[s][0], span);
        span +=
            steps[s][0] * ((dim < 0 ? n->index_count : n->dims[dim].size) - 1);
    }
    return DV_OK;
}

static const struct {
    dv_status (*check)(const dv_nest *n, dv_diag *diag);
    // Set if the rule matters only to kernels, so that dv_nest_check leaves it
    // out.
    int kernel;
} rules[] = {
    {check_dims, 0},        {check_tiles, 0},        {check_marks, 0},
    {check_operands, 0},    {check_mean, 0},         {check_index, 0},
    {check_in1, 0},         {check_k_shared, 1},     {check_index_shared, 1},
    {check_dtype, 1},       {check_order, 1},        {check_mn_prims, 1},
    {check_index_prims, 1}, {check_unit_strides, 1}, {check_k_prims, 1},
    {check_membership, 0},  {check_alone, 0},        {check_prims, 0},
    {check_overlap, 0},
};

static dv_status check(const dv_nest *n, int kernel, dv_diag *diag)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (kernel || !rules[i].kernel)
            DV_TRY(rules[i].check(n, diag));
    return DV_OK;
}

dv_status dv_nest_check(const dv_nest *n, dv_diag *diag)
{
    return check(n, 0, diag);
}

dv_status dv_nest_check_order(const dv_nest *n, dv_diag *diag)
{
    DV_TRY(check(n, 0, diag));
    DV_TRY(check_k_shared(n, diag));
    DV_TRY(check_index_shared(n, diag));
    return check_order(n, diag);
}

dv_status dv_nest_verify(const dv_nest *n, dv_diag *diag)
{
    return n->laid ? dv_nest_check_order(n, diag) : check(n, 1, diag);
}
