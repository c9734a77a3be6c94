// The portable interpreter of ops: computes any op on any box of its variables
// in plain C, a strip of up to DV_STRIP elements at a time. It computes in the
// machine's own types (f32 for f16, bf16 and f32; f64; i64 for all integers)
// and shares no code with the oracle (ir/eval.c).
//
//   strip.c  preparing an op; finding the elements that an access reads
//   types.c  the loops for f32, f64 and i64: includes body.h once for each
//   body.h   the loops of one type
#ifndef DV_STRIP_H
#define DV_STRIP_H
#include "plan/plan.h"

enum { DV_STRIP = 256 }; // elements

// An access as an offset in elements: base + sum of coef[v] * v.
typedef struct dv_flat {
    int64_t base;
    int64_t *coef;
} dv_flat;

// What is known of an op before it runs.
typedef struct dv_kernel {
    const dv_op *op;
    dv_compute compute;
    int32_t strip;         // variable along which strips run; -1: none
    int32_t n_slots;       // strips that evaluating the body needs
    const dv_expr *reduce; // NULL: none
    dv_flat write;
    dv_flat *reads;
    // It reads what it overwrites: reads go to a snapshot of the tensor, at
    // this offset in the exec's; -1: they need none.
    int64_t old_off;
} dv_kernel;

typedef struct dv_strips {
    const dv_program *p;
    void *const *data; // of each tensor
    void *buf;         // slots of DV_STRIP elements of 8 bytes
    void *acc;         // two more: accumulators and their image
    dv_diag *diag;
    // The op at hand.
    const dv_kernel *k;
    const void *old; // its tensor before the op, or NULL
    // The simulator's cores work on copies: one per read, then the write's.
    // NULL: on `data`.
    void *const *images;
    // A part of a reduced result goes to `parts` instead of being finished,
    // one accumulator after the other in the order of the loops.
    enum { DV_WHOLE, DV_FIRST_PART, DV_NEXT_PART, DV_FINISH } part;
    void *parts;
    int64_t n_parts;         // accumulators passed so far
    int64_t at[DV_MAX_VARS]; // the point; at[strip] is the strip's first
    int64_t n;               // elements in the strip
    dv_status status;
    // Called now and then with the share of the box that is done; NULL: never.
    void (*tick)(void *user, double share);
    void *user;
} dv_strips;

// Prepare a kernel; arrays go to the arena. 0 when out of memory. Tensors lie
// in rows, unless `strides` has other ones for them.
int dv_kernel_init(dv_kernel *k, const dv_program *p, const dv_op *op,
                   int64_t *const *strides, dv_arena *arena);
// Run one op on the box begin..end, in the type it computes in.
void dv_strips_run(dv_strips *s, const int64_t *begin, const int64_t *end);
void dv_strips_f32(dv_strips *s, const int64_t *begin, const int64_t *end);
void dv_strips_f64(dv_strips *s, const int64_t *begin, const int64_t *end);
void dv_strips_i64(dv_strips *s, const int64_t *begin, const int64_t *end);
// Add n accumulators to others, with the op's reducer.
void dv_strips_add(const dv_kernel *k, void *acc, const void *x, int64_t n);
// The same for accumulators of a type: acc[i] = acc[i] (+) x[i].
void dv_accumulate(dv_compute in, dv_reducer r, void *acc, const void *x,
                   int64_t n);
// Where a read looks.
static inline const void *dv_strips_source(const dv_strips *s, int32_t read)
{
    int32_t t = s->k->op->reads[read].tensor;
    if (s->images)
        return s->images[read];
    return s->old && t == s->k->op->write.tensor ? s->old : s->data[t];
}
// Element `off` of what indices are read from.
static inline int64_t dv_index_at(dv_dtype t, const void *data, int64_t off)
{
    switch (t) {
    case DV_I64:
        return ((const int64_t *)data)[off];
    case DV_I32:
        return ((const int32_t *)data)[off];
    default: // i8: the builder lets nothing but integers through
        return ((const int8_t *)data)[off];
    }
}
// Offset in elements of an access at a point, indirect indices checked.
int64_t dv_strips_offset(dv_strips *s, const dv_access *a, const dv_flat *f,
                         const int64_t *point);
// The same of all elements of the strip at hand.
void dv_strips_find(dv_strips *s, const dv_access *a, const dv_flat *f,
                    int64_t found[DV_STRIP]);
#endif
