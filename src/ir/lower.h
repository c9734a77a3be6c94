// Inside ir/lower*.c: an op being lowered, and making new ones of its parts.
#ifndef DV_IR_LOWER_H
#define DV_IR_LOWER_H
#include "ir/program.h"

typedef struct dv_lowering {
    const dv_program *src;
    dv_program *out;
    dv_diag *diag;
    dv_grain grain;
    int here;   // for this machine, which packs what it multiplies
    int stored; // temporaries have the program's types, not the computed ones
    int keep_whole; // parts made of whole numbers alone become i64, not floats
    // The op being lowered: its variables, and its reads, which grow by the
    // temporaries that its parts were hoisted into.
    dv_op work;
    dv_access *reads;
    int32_t cap_reads;
    // Which number a read has in the op being emitted: map[r], valid when
    // stamp[r] is the emission's number. Grown, never wiped.
    int32_t *map, *stamp;
    int32_t cap_map, emission;
    int32_t *n_temps; // made of each tensor's statements so far, by tensor
} dv_lowering;

static inline int dv_lower_is_product(const dv_expr *e)
{
    return e->kind == DV_EXPR_APPLY && e->fn == DV_FN_MUL;
}

enum { DV_LOWER_MANY = 8 }; // results that what is turned serves

static inline int dv_lower_is_float(int type) // weak ones are none
{
    return type >= 0 && dv_is_float((dv_dtype)type);
}

// A copy of an expression's node.
dv_status dv_lower_expr(dv_lowering *lw, const dv_expr *like, dv_expr **out);
// Vars that e, in terms of lw->work, depends on.
uint32_t dv_lower_free_vars(const dv_lowering *lw, const dv_expr *e);
// Is e a product of two reads, each of which serves many results of the other's
// variables, and has many terms? Sums of a few are no faster as products of
// matrices.
int dv_lower_is_matrix(const dv_lowering *lw, const dv_expr *e,
                       uint32_t reduced, uint32_t written);
// A new tensor of the op's own, shape borrowed from the arena of lw->out.
dv_status dv_lower_temp(dv_lowering *lw, const int64_t *shape, int n,
                        dv_dtype dtype, int32_t *out);
// The index base + v, of an op of so many variables. 0: out of memory.
int dv_lower_index(dv_lowering *lw, dv_index *x, int n_vars, int v,
                   int64_t base);
// Append an op that writes `body` to `write`, both in terms of lw->work.
dv_status dv_lower_emit(dv_lowering *lw, const dv_access *write,
                        const dv_expr *body, int update);
// An expression that reads elements of this type.
dv_status dv_lower_access(dv_lowering *lw, const dv_access *a, dv_dtype type,
                          uint32_t off, const dv_expr **out);
// Compute e by an op of its own; *out reads the result. The temporary has the
// type that the statement is computed in, so that nothing is rounded or wrapped
// that the program does not store; on a machine that stores intermediates in
// the program's types, floats have the type of e; they do everywhere where that
// type holds all values of e, such as a maximum, exactly.
dv_status dv_lower_hoist(dv_lowering *lw, const dv_expr *e,
                         const dv_expr **out);
// The same, into a temporary of this type.
dv_status dv_lower_hoist_as(dv_lowering *lw, const dv_expr *e, dv_dtype type,
                            const dv_expr **out);
// The same, of a float, in the type that the op computes in: nothing is rounded
// to a narrower one.
dv_status dv_lower_hoist_wide(dv_lowering *lw, const dv_expr *e,
                              const dv_expr **out);
// A read as a tensor of its own that lies along variable v (-1: any); and
// whether that is worth it: it serves many of the results over `written`, and
// is about as large as what it reads.
dv_status dv_lower_turn(dv_lowering *lw, const dv_expr *read, int v,
                        const dv_expr **out);
int dv_lower_may_turn(const dv_lowering *lw, const dv_expr *read,
                      uint32_t written);
// Factors of a product that do not depend on every variable around are computed
// once, not once per point.
dv_status dv_lower_factors(dv_lowering *lw, const dv_expr *e, uint32_t around,
                           const dv_expr **out);
// Of the sum or mean of a product over `reduced`, some of the loops `all`: what
// is better multiplied after it (*outside, NULL: nothing) is, and of a sum what
// is better summed before. The body and the variables become what is left.
dv_status dv_lower_split(dv_lowering *lw, dv_reducer reducer,
                         const dv_expr **body, uint32_t *reduced, uint32_t all,
                         const dv_expr **outside);
// A product that is summed over `reduced`, some of the loops `all`, becomes one
// of factors that are read forwards, where it is one of matrices.
dv_status dv_lower_forwards(dv_lowering *lw, const dv_expr **product,
                            uint32_t reduced, uint32_t all);
// The same of factors whose neighbours lie apart, in windows that overlap.
dv_status dv_lower_apart(dv_lowering *lw, const dv_expr **product,
                         uint32_t reduced, uint32_t all);
// In the body of an op that writes `write`, transpose what is reduced and lies
// across the results.
dv_status dv_lower_across(dv_lowering *lw, const dv_access *write,
                          const dv_expr **body);
#endif
