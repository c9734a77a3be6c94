// Recomputes single elements of a program's tensors by the rules of the oracle
// (ir/eval.h), each with its error bound, from what a run left in memory.
//
//   h[b,f] = relu(sum[d] x[b,d] * w1[d,f])
//   y[b,d] = sum[f] h[b,f] * w2[f,d]
//
// With h in memory, y[3,5] takes the sum over f. Without it, row 3 of h is
// recomputed first, from x and w1.
//
// Repeats are unrolled into steps, one op each. An operand of a step is the
// element as the last step before it left it. If the tensor is in memory, it is
// read there, unless a later step has overwritten the tensor, which ends the
// attempt; otherwise it is recomputed in turn. Recomputed elements are kept, so
// that each is computed once.
//
// The last iteration of a repeat overwrites what it has read. If the caller
// kept a copy of the tensors as they were before it, its steps and all later
// ones can be recomputed from that copy.
#ifndef DV_SAMPLE_H
#define DV_SAMPLE_H
#include "ir/eval.h"

typedef struct dv_sampler dv_sampler;

typedef struct dv_sampler_inputs {
    dv_eval_options options; // `errors` and `progress` are not used
    // Arrays with one pointer per tensor, borrowed: `before` has the values of
    // inputs before the run, `after` those of tensors after it. A tensor whose
    // `after` is NULL was not stored and is recomputed.
    void *const *before, *const *after;
    // kept[t] is tensor t as it was before the last iteration of the repeat
    // dv_sampler_repeat(p), or NULL if it is not in memory. `kept` is NULL if
    // no tensor was kept.
    void *const *kept;
} dv_sampler_inputs;

// Returns the number of the last repeat that is inside no other one and has at
// least two iterations, or -1.
int32_t dv_sampler_repeat(const dv_program *p);

// Whether an element could be recomputed, and if not, why.
typedef enum dv_sampled {
    DV_SAMPLED,
    // The element, or an operand of it in memory, was overwritten by a later
    // op.
    DV_SAMPLE_OVERWRITTEN,
    // An operand cannot be recomputed: which iteration wrote it depends on an
    // index that was read from a tensor.
    DV_SAMPLE_INDIRECT,
    DV_SAMPLE_TOO_LARGE, // too many operands would have to be recomputed
    DV_SAMPLE_LATE,      // the deadline passed
    DV_N_SAMPLED
} dv_sampled;

dv_status dv_sampler_create(dv_sampler **out, const dv_program *p,
                            const dv_sampler_inputs *inputs, dv_diag *diag);
// Recomputes the value that an element has after the last op that writes it. If
// `op` is not negative, the value written by that op is wanted; if another op
// has overwritten it, *is says so. The computation stops at `deadline_s`, a
// time of dv_clock_s.
dv_status dv_sampler_element(dv_sampler *s, int32_t op, int32_t tensor,
                             int64_t element, double deadline_s, dv_sampled *is,
                             dv_number *value, double *error);
void dv_sampler_destroy(dv_sampler *s);
#endif
