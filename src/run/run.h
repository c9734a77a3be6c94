// Running plans. The sequential executor walks the plan as it stands: group by
// group, core by core, tile by tile, op by op; a group with sums in parts runs
// op by op, all tiles of each. It computes in the machine's own types (f32 for
// f16, bf16 and f32; f64; i64 for all integers), a strip of elements at a time,
// and shares no code with the oracle. Threads do the same side by side
// (threads.c).
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
// Runs behind this on threads add to seconds[g] what group g takes; NULL: no
// more. The groups are the plan's.
void dv_exec_time_groups(dv_exec *x, double *seconds);
// Who runs it. By default what the target is: threads where it is this
// machine, else the simulator; seq is plain and slow, to hold others against.
typedef enum dv_run_kind { DV_RUN_SEQ, DV_RUN_THREADS, DV_RUN_SIM } dv_run_kind;
// Choose before the first run.
dv_status dv_exec_use(dv_exec *x, dv_run_kind kind, dv_diag *diag);
dv_run_kind dv_exec_kind(const dv_exec *x);
int32_t dv_exec_threads(const dv_exec *x); // that a run takes
// The type that an op's multiply-adds are of: bf16 or i8 where the machine
// multiplies them as they are, else what they are widened to; i32 for all
// other integers.
dv_dtype dv_exec_type(const dv_exec *x, int32_t op);
// How each op is run, and the kernels that were made so far.
void dv_exec_list(const dv_exec *x, dv_text *out);
// How each op is run, without the code.
void dv_exec_ways(const dv_exec *x, dv_text *out);
const char *dv_exec_name(const dv_exec *x); // "seq", "threads" or "sim"

// What the simulator saw move.
typedef struct dv_moved {
    int64_t read_elems, write_elems; // in main memory
    int64_t read_bytes, write_bytes;
    int64_t ring_bytes; // partial results between cores
} dv_moved;
// Of the last run; NULL when it was not simulated.
const dv_moved *dv_exec_moved(const dv_exec *x);
// The same for one op on one core.
const dv_moved *dv_exec_moved_by(const dv_exec *x, int32_t op, int64_t core);

// -- Inside run/ -----------------------------------------------------------

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
