// The portable interpreter of ops: computes any op on any box of its variables
// in plain C, a strip of up to DV_STRIP elements at a time. It computes in f32
// (for f16, bf16 and f32), f64 or i64 (for all integers) and shares no code
// with the oracle (ir/eval.c).
//
//   strip.c  prepares an op; computes the offsets of the elements of an access
//   types.c  instantiates the loops for f32, f64 and i64 by including body.h
//   body.h   the loops of the interpreter for one type
#ifndef DV_STRIP_H
#define DV_STRIP_H
#include "plan/plan.h"

enum { DV_STRIP = 256 }; // elements computed together, at most

// An access as an affine offset in elements: base + the sum of coef[v] * v over
// all variables v.
typedef struct dv_flat {
    int64_t base;
    int64_t *coef;
} dv_flat;

// Returns the offset in elements of the accessed element at a point (a value of
// each variable).
static inline int64_t dv_flat_at(const dv_flat *f, const dv_op *op,
                                 const int64_t *point)
{
    int64_t off = f->base;
    for (int v = 0; v < op->n_vars; v++)
        off += f->coef[v] * point[v];
    return off;
}

// What the interpreter prepares for an op once, before it runs.
typedef struct dv_kernel {
    const dv_op *op;
    dv_compute_type compute;
    // The variable along which strips run (elements computed together), or -1.
    int32_t strip;
    // Number of buffers of one strip (256 elements) that evaluating the op's
    // expression needs.
    int32_t n_slots;
    const dv_expr *reduce; // the op's reduction, or NULL
    dv_flat write;
    dv_flat *reads;
    // An op that reads the tensor it overwrites reads a snapshot of it instead:
    // the byte offset of the snapshot in the memory that the executor has for
    // them, or -1.
    int64_t old_off;
} dv_kernel;

typedef struct dv_strips {
    const dv_program *p;
    void *const *data; // address of each tensor
    // k->n_slots buffers for intermediate results, each of DV_STRIP (256)
    // elements of 8 bytes.
    void *buf;
    void *acc; // accumulators, one per element of a strip
    dv_diag *diag;
    // The op that is being run.
    const dv_kernel *k;
    // Snapshot of the written tensor from before the op, or NULL.
    const void *old;
    // The simulator gives each core copies of the operands: images[r] for read
    // r, then the written tensor. NULL: the op works on the tensors in `data`.
    void *const *images;
    // If the reduction is computed in parts, `parts` holds the accumulators of
    // the partial results, in loop order. The first part stores them, the next
    // parts are added to them, and DV_FINISH computes the results from them.
    enum { DV_WHOLE, DV_FIRST_PART, DV_NEXT_PART, DV_FINISH } part;
    void *parts;
    int64_t n_parts; // number of accumulators in `parts` used so far
    // Current values of the op's variables. That of the variable along which
    // strips run (elements computed together) is the value at the strip's first
    // element.
    int64_t at[DV_MAX_VARS];
    int64_t n; // elements in the current strip
    dv_status status;
    // Called from time to time with the fraction of the work that is done; may
    // be NULL.
    void (*tick)(void *user, double share);
    void *user;
} dv_strips;

// Prepares an op for the interpreter; arrays are allocated in the arena.
// Returns 0 when out of memory. Tensors have the strides in `strides`, or are
// row-major if it is NULL or has none for them.
int dv_kernel_init(dv_kernel *k, const dv_program *p, const dv_op *op,
                   int64_t *const *strides, dv_arena *arena);
// Runs one op on the box begin..end. dv_strips_run selects one of the other
// functions, each of which computes in one type.
void dv_strips_run(dv_strips *s, const int64_t *begin, const int64_t *end);
void dv_strips_f32(dv_strips *s, const int64_t *begin, const int64_t *end);
void dv_strips_f64(dv_strips *s, const int64_t *begin, const int64_t *end);
void dv_strips_i64(dv_strips *s, const int64_t *begin, const int64_t *end);
// Combines n accumulators x with those in acc by the op's reducer (sum, max,
// ...), in the type in which the op is computed.
void dv_strips_add(const dv_kernel *k, void *acc, const void *x, int64_t n);
// Combines accumulators of the given type by a reducer such as sum: acc[i] =
// reducer(acc[i], x[i]).
void dv_accumulate(dv_compute_type in, dv_reducer r, void *acc, const void *x,
                   int64_t n);
// Returns the memory that a read of the op loads from: the tensor, a snapshot
// of it, or the simulator's copy of it.
static inline const void *dv_strips_source(const dv_strips *s, int32_t read)
{
    int32_t t = s->k->op->reads[read].tensor;
    if (s->images)
        return s->images[read];
    return s->old && t == s->k->op->write.tensor ? s->old : s->data[t];
}
// The offset of an element outside of the tensor, in a read with a border.
#define DV_OUTSIDE INT64_MIN
// Returns whether some elements of a read with a border are outside of its
// tensor in the current strip (the elements that are computed together).
int dv_strips_leave(const dv_strips *s, const dv_access *a);
// Returns element `off` of an index tensor of type t.
static inline int64_t dv_index_at(dv_dtype t, const void *data, int64_t off)
{
    switch (t) {
    case DV_I64:
        return ((const int64_t *)data)[off];
    case DV_I32:
        return ((const int32_t *)data)[off];
    default:
        return dv_int_load(t, data, off);
    }
}
// Returns the offset in elements of an access at a point. Indirect indices are
// loaded and checked; one that is out of range sets s->status. A read with a
// border that is outside of its tensor gives DV_OUTSIDE.
int64_t dv_strips_offset(dv_strips *s, const dv_access *a, const dv_flat *f,
                         const int64_t *point);
// Computes the offsets of an access for all elements of the current strip (the
// elements that are computed together).
void dv_strips_find(dv_strips *s, const dv_access *a, const dv_flat *f,
                    int64_t found[DV_STRIP]);
#endif
