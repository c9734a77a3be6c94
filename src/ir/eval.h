// The oracle: it defines what a program means, in the plainest C possible.
// Floats are doubles, integers are exact in 64 bits; every op is a loop over
// its points. It shares no code with the planners and executors whose results
// it checks, and evaluates programs as they are written: a statement may have
// any number of reducers.
#ifndef DV_EVAL_H
#define DV_EVAL_H
#include "ir/program.h"

// One element: `i` if the tensor has an integer type, `f` if it has a float
// type.
typedef union dv_number {
    double f;
    int64_t i;
} dv_number;

typedef struct dv_eval_options {
    // If 1, rounds floats to their tensor's dtype when they are stored, as a
    // machine does. If 0, only integers are truncated to their type.
    int round;
    // If not NULL, arrays of the same shape as `values`, set for inputs. They
    // receive a bound on the error of each element (ir/error.h) for a machine
    // that computes in f32 or f64 and stores rounded values, or, if `round` is
    // 0, that computes and stores in f64. Infinity means that there is no
    // bound.
    double *const *errors;
    // 1 if the machine stores the intermediate results of a statement in the
    // type that their operands give them (f16 if all are f16), and computes
    // each in f64 only if it has an f64 operand. This makes the error bounds
    // larger.
    int stored;
    // If not NULL, flushes[op] is 1 if the machine may flush f32 denormals to
    // zero, in operands and in results of this op.
    const unsigned char *flushes;
    // Called from time to time with the fraction done, 0 to 1. NULL: no
    // reports.
    void (*progress)(void *user, double done);
    void *user;
} dv_eval_options;

// Returns the number of points that dv_eval evaluates, one at a time; its run
// time is proportional to it.
double dv_eval_points(const dv_program *p);

// Evaluates a program. values[t] has room for all elements of tensor t,
// row-major; the inputs' values are set by the caller, all others are set on
// success. Fails if an index that is read from a tensor is out of bounds, and
// if out of memory.
dv_status dv_eval(const dv_program *p, dv_number *const *values,
                  const dv_eval_options *options, dv_diag *diag);
#endif
