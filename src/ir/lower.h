// State shared by ir/lower*.c, which split statements into ops that a target
// can run: the op being lowered, and functions that make new ops out of its
// parts.
#ifndef DV_IR_LOWER_H
#define DV_IR_LOWER_H
#include "ir/program.h"

typedef struct dv_lowering {
    const dv_program *src;
    dv_program *out;
    dv_diag *diag;
    dv_grain grain;
    // 1 if kernels of matrix products pack their operands (copy them into the
    // order in which they read them).
    int packs;
    // 1 if temporaries have the types that the program gives to their values
    // (e.g. f16) instead of the type that the statement is computed in (f32 or
    // f64).
    int stored;
    // 1 if parts made of integer constants alone are stored as i64 instead of
    // as floats.
    int keep_integers;
    // For each op, 1 if it is lowered, 0 if it is left out; NULL: all are.
    const unsigned char *live;
    // The op being lowered, with its variables. `reads` are its read accesses;
    // each part that is moved into an op of its own adds one, of the temporary
    // that it writes.
    dv_op work;
    dv_access *reads;
    int32_t cap_reads;
    // When a part becomes a new op, map[r] is the number of read r in that op;
    // it is valid if stamp[r] equals `emission`, which counts new ops, so that
    // the arrays need not be cleared.
    int32_t *map, *stamp;
    int32_t cap_map, emission;
    // 1 if reads may be equal, because borders that are never reached were
    // removed.
    int has_equal_reads;
    // n_temps[t] is the number of temporaries made so far for statements that
    // write tensor t; it is part of their names (y_1, y_2).
    int32_t *n_temps;
} dv_lowering;

// A copy of an operand (transposed, or without stride) pays off only if each of
// its elements is used by at least this many results.
enum { DV_LOWER_MIN_REUSE = 8 };

// Returns whether the type is a float type. Types of constants are negative and
// not float types.
static inline int dv_lower_is_float(int type)
{
    return type >= 0 && dv_is_float((dv_dtype)type);
}

// Allocates a copy of one expression node; its arguments are shared.
dv_status dv_lower_expr(dv_lowering *lw, const dv_expr *like, dv_expr **out);
// Returns the mask of variables that e depends on, numbered as in the op that
// is being lowered.
uint32_t dv_lower_free_vars(const dv_lowering *lw, const dv_expr *e);
// Returns whether e is a product of two direct reads worth running as a matrix
// product: the sum has at least DV_LOWER_MIN_REUSE (8) terms, and each factor
// is reused for at least that many results along variables of the other.
// Shorter sums are no faster that way.
int dv_lower_is_matrix(const dv_lowering *lw, const dv_expr *e,
                       uint32_t reduced, uint32_t written);
// Adds a temporary tensor named after the op's output. `shape` must be
// allocated in the arena of the new program.
dv_status dv_lower_temp(dv_lowering *lw, const int64_t *shape, int n,
                        dv_dtype dtype, int32_t *out);
// Makes the affine index base + v for an op of n_vars variables. Returns 0 if
// out of memory.
int dv_lower_index(dv_lowering *lw, dv_index *x, int n_vars, int v,
                   int64_t base);
// Appends an op that computes `body` and writes it to `write`; both use the
// variables and reads of the op that is being lowered.
dv_status dv_lower_emit(dv_lowering *lw, const dv_access *write,
                        const dv_expr *body, int update);
// Adds access a to the reads of the op that is being lowered and returns an
// expression of this type that reads it.
dv_status dv_lower_access(dv_lowering *lw, const dv_access *a, dv_dtype type,
                          uint32_t off, const dv_expr **out);
// Computes e in an op of its own; *out reads the result. A float temporary has
// the type that the statement is computed in, so that no value is rounded that
// the program does not store. It has the type of e on machines that store
// intermediates in the program's types, and where that type holds all values of
// e exactly, e.g. for a maximum. An integer temporary is i64.
dv_status dv_lower_hoist(dv_lowering *lw, const dv_expr *e,
                         const dv_expr **out);
// Computes e in an op of its own, like dv_lower_hoist, with a temporary of the
// given type; *out reads the result.
dv_status dv_lower_hoist_as(dv_lowering *lw, const dv_expr *e, dv_dtype type,
                            const dv_expr **out);
// Computes the float e in an op of its own, like dv_lower_hoist, with a
// temporary of the type (f32 or f64) that the op computes in, so that nothing
// is rounded to a narrower type; *out reads the result.
dv_status dv_lower_hoist_wide(dv_lowering *lw, const dv_expr *e,
                              const dv_expr **out);
// dv_lower_transpose_read copies a read into a temporary whose innermost
// dimension is variable v (-1: no preference). dv_lower_transpose_pays returns
// whether such a transposed copy pays off: each element is used by many of the
// results, which are indexed by the variables `written`, and the copy is at
// most twice as large as the tensor read.
dv_status dv_lower_transpose_read(dv_lowering *lw, const dv_expr *read, int v,
                                  const dv_expr **out);
int dv_lower_transpose_pays(const dv_lowering *lw, const dv_expr *read,
                            uint32_t written);
// Hoists (moves into an op of its own) factors of the product e that do not
// depend on every variable in `around`, so that they are computed once and not
// once per point.
dv_status dv_lower_factors(dv_lowering *lw, const dv_expr *e, uint32_t around,
                           const dv_expr **out);
// Splits the sum or mean of a product over the variables `reduced` (a subset of
// the loop variables `all`). Factors that are better multiplied after the
// reduction become *outside (NULL if none); for a sum, partial sums that are
// better computed before become ops of their own. *body and *reduced receive
// the remaining reduction.
dv_status dv_lower_split(dv_lowering *lw, dv_reducer reducer,
                         const dv_expr **body, uint32_t *reduced, uint32_t all,
                         const dv_expr **outside);
// If the product, summed over `reduced` (a subset of the loop variables `all`),
// is a matrix product, rewrites it so that no factor is read with a negative
// stride.
dv_status dv_lower_reverse_factors(dv_lowering *lw, const dv_expr **product,
                                   uint32_t reduced, uint32_t all);
// If the product is a matrix product, copies factors that are read with a
// stride of 2 to 4 in overlapping windows into temporaries with unit stride.
dv_status dv_lower_strided_windows(dv_lowering *lw, const dv_expr **product,
                                   uint32_t reduced, uint32_t all);
// If the product, summed over `reduced` (a subset of the loop variables `all`),
// is a matrix product of 8-bit integers and a factor is unsigned, makes the
// factors signed; *more is then a correction to add to the sum, otherwise NULL.
dv_status dv_lower_make_signed(dv_lowering *lw, const dv_expr **product,
                               uint32_t reduced, uint32_t all,
                               const dv_expr **more);
// Computes e, a reduction of `arg`, by few passes over its operands if it is a
// scan (a prefix sum, product, maximum or minimum). *out then reads the
// results; it is NULL if e is no scan.
dv_status dv_lower_scan(dv_lowering *lw, const dv_expr *e, const dv_expr *arg,
                        const dv_expr **out);
// In the body of an op that writes `write`, transposes operands of the reducer
// that have no unit stride along the innermost dimension of the results.
dv_status dv_lower_transpose_operands(dv_lowering *lw, const dv_access *write,
                                      const dv_expr **body);
#endif
