// Running plans. The sequential executor walks the plan as it stands: group by
// group, core by core, tile by tile, op by op. It computes in the machine's own
// types (f32 for f16, bf16 and f32; f64; i64 for all integers), a strip of
// elements at a time, and shares no code with the oracle.
//
// Memory: an exec borrows its plan and the bound buffers, and owns the
// temporaries, a copy of every input that is updated but not given back, and
// a snapshot for every update that reads what it overwrites. A run allocates
// nothing.
#ifndef DV_RUN_H
#define DV_RUN_H
#include "plan/plan.h"

// Called now and then during a run with the share done, 0 to 1.
typedef void (*dv_progress)(void *user, double done);
void dv_exec_on_progress(dv_exec *x, dv_progress progress, void *user);
// What runs the plan, for reports: "seq".
const char *dv_exec_name(const dv_exec *x);

// -- Inside run/ -----------------------------------------------------------

enum { DV_STRIP = 256 }; // elements

// An access as an offset in elements: base + sum of coef[v] * v.
typedef struct dv_flat {
    int64_t base;
    int64_t *coef;
} dv_flat;

// The type an op is computed in.
typedef enum dv_compute { DV_IN_F32, DV_IN_F64, DV_IN_I64 } dv_compute;

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
    const void *old;         // its tensor before the op, or NULL
    int64_t at[DV_MAX_VARS]; // the point; at[strip] is the strip's first
    int64_t n;               // elements in the strip
    dv_status status;
} dv_strips;

// Prepare a kernel; arrays go to the arena. 0 when out of memory.
int dv_kernel_init(dv_kernel *k, const dv_program *p, const dv_op *op,
                   dv_arena *arena);
// Run one op on the box begin..end.
void dv_strips_f32(dv_strips *s, const int64_t *begin, const int64_t *end);
void dv_strips_f64(dv_strips *s, const int64_t *begin, const int64_t *end);
void dv_strips_i64(dv_strips *s, const int64_t *begin, const int64_t *end);
// Offset in elements of an access at a point, indirect indices checked.
int64_t dv_strips_offset(dv_strips *s, const dv_access *a, const dv_flat *f,
                         const int64_t *point);
#endif
