// The oracle: what a program means, in the plainest C there is. Floats are
// doubles, integers are exact in 64 bits; every op is a loop over its points.
// It shares nothing with the planners and executors it judges, and evaluates
// programs as they are written: a statement may have any number of reducers.
#ifndef DV_EVAL_H
#define DV_EVAL_H
#include "ir/program.h"

// One element: `i` where the tensor's type is an integer, `f` where it is a
// float.
typedef union dv_number {
    double f;
    int64_t i;
} dv_number;

typedef struct dv_eval_options {
    // Round floats to their tensor's dtype when stored, as a machine does.
    // Otherwise only integers are truncated to their type.
    int round;
    // When not NULL: arrays like those of `values`, set for inputs. Receive a
    // bound on the error of each element (ir/error.h) of a machine that
    // computes in f32 or f64 and stores rounded, or, without `round`, all in
    // f64. Infinity: there is no bound.
    double *const *errors;
    // The machine stores the intermediate results of a statement in the types
    // that the operands give them (f16 where all are f16), and computes each in
    // f64 only where it has an f64 operand. Makes errors larger.
    int stored;
    // When not NULL, by op: it may flush f32 denormals to zero, in operands
    // and in results.
    const unsigned char *flushes;
    // Called now and then with the share done, 0 to 1. NULL: never.
    void (*progress)(void *user, double done);
    void *user;
} dv_eval_options;

// How many points dv_eval evaluates, one at a time: what its time depends on.
double dv_eval_points(const dv_program *p);

// values[t] has room for all elements of tensor t, row-major; those of inputs
// are set. On success all others are too. Fails on an index read from a
// tensor that lies outside, and when out of memory.
dv_status dv_eval(const dv_program *p, dv_number *const *values,
                  const dv_eval_options *options, dv_diag *diag);
#endif
