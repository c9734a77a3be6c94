// Data for runs: made-up inputs, and results held against the oracle.
#ifndef DV_DATA_H
#define DV_DATA_H
#include "exec/exec.h"

// Fill a tensor with values that depend on the seed, the tensor's name and the
// element's number alone: the same on every machine, for any division. Floats
// are spread evenly over low..high; integers over -8..8, or, in a tensor that
// the program uses as an index, over what that index may be.
void dv_fill(const dv_program *p, int32_t tensor, uint64_t seed, double low,
             double high, void *data);
// The same for a box, in memory that has the elements of `in` in rows.
void dv_fill_box(const dv_program *p, int32_t tensor, uint64_t seed, double low,
                 double high, const dv_box *box, const dv_box *in, void *data);

typedef struct dv_verdict {
    int ok;
    // The element of the outputs that comes nearest to failing, by how much it
    // is off, and by how much it may be; NULL: there is none.
    const char *tensor;
    int64_t element;
    double residual, threshold;
    // Undecided elements: they have no bound (what they are divided by may be
    // zero, or they may overflow), or one that is more than an eighth of the
    // largest value of their tensor; and they are off by more than 64 units in
    // the last place of that value.
    int64_t n_unknown;
    int decided;      // at most half of each output is undecided
    int own_ops_only; // the plan has no section `source`
    // The machine stores intermediate results, and they may have been rounded
    // to this type; NULL: they are not.
    const char *rounded_to;
    // The largest error of that tensor, or of the one whose error is largest
    // for its size, and its largest magnitude.
    const char *of;
    double off, size;
} dv_verdict;

// Hold outputs against the oracle. `before` has the inputs as they were before
// the run, `after` the outputs, by tensor of `plan->ops`. There are two
// references: the program as written, which is `source` or, where that is NULL,
// what the plan carries; and, where lowering changed anything, the plan's own
// ops. Both round floats to the types of the program's tensors, and nowhere
// else; integers are exact.
//
// Every element has a bound of its own, from a running error analysis beside
// the oracle (ir/error.h): copies, gathers, maxima and integers must be equal,
// a sum may be off by four times the root of its length in eps of what it adds
// up, signs aside. Where the target stores intermediate results, the bound for
// the program as written allows for rounding each of them.
// It evaluates every point of the program one at a time, some 20 million a
// second; dv_verify_points says how many there are.
double dv_verify_points(const dv_program *source, const dv_plan *plan);
dv_status dv_verify(dv_verdict *out, const dv_program *source,
                    const dv_plan *plan, void *const *before,
                    void *const *after, dv_progress progress, void *user,
                    dv_diag *diag);
#endif
