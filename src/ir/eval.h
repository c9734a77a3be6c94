// The oracle, with which results are compared: it defines what a program means,
// in the plainest C possible. Floats are doubles, integers are exact in 64
// bits; every op is a loop over its points. It shares no code with the planners
// and executors whose results it checks, and evaluates programs as they are
// written: a statement may have any number of reducers.
#ifndef DV_EVAL_H
#define DV_EVAL_H
#include "ir/program.h"

// One element: `i` if the tensor has an integer type, `f` if it has a float
// type.
typedef union dv_number {
    double f;
    int64_t i;
} dv_number;

// Returns element i of a row-major tensor in memory.
dv_number dv_number_load(dv_dtype t, const void *data, int64_t i);

typedef struct dv_eval_options {
    // If 1, rounds floats to their tensor's dtype when they are stored, as a
    // machine does. If 0, only integers are truncated to their type.
    int round;
    // If not NULL, errors[t] is an array of one bound per element of tensor t,
    // set by the caller for inputs. The evaluation fills in the others: how far
    // a machine's result may deviate (ir/error.h) if it computes in f32 or f64
    // and stores rounded values, or, if `round` is 0, computes and stores in
    // f64. Infinity means that there is no bound.
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

// Returns the number of operands and functions that dv_eval evaluates, at all
// points (combinations of loop variables); its run time is about proportional
// to it.
double dv_eval_terms(const dv_program *p);

// Evaluates a program. values[t] has room for all elements of tensor t,
// row-major; the inputs' values are set by the caller, all others are set on
// success. Fails if an index that is read from a tensor is out of bounds, and
// if out of memory.
dv_status dv_eval(const dv_program *p, dv_number *const *values,
                  const dv_eval_options *options, dv_diag *diag);

// Callback that supplies the operands when an op is evaluated at single points:
// an element's value and, if `error` is not NULL, its error bound. If it fails,
// the evaluation ends with its status. options->errors is not used.
typedef dv_status (*dv_eval_load)(void *user, int32_t tensor, int64_t element,
                                  dv_number *value, double *error);
typedef struct dv_point_eval dv_point_eval;
// Prepares the evaluation of op number `op` at single points. `options` is
// borrowed. If *out was set, the caller must destroy it, even after a failure.
dv_status dv_point_eval_create(dv_point_eval **out, const dv_program *p,
                               int32_t op, const dv_eval_options *options,
                               dv_eval_load load, void *user, dv_diag *diag);
// Evaluates the op for one written element: `at` has a value for every variable
// of the op; those of reduced variables have no effect.
dv_status dv_point_eval_run(dv_point_eval *ev, const int64_t *at,
                            dv_number *value, double *error);
void dv_point_eval_destroy(dv_point_eval *ev);
#endif
