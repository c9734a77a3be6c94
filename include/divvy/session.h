// Sessions: a program whose params follow from the shapes of the arrays that it
// is run with. A session makes a plan and kernels for each set of shapes when
// it is first seen, and keeps the most recently used ones.
//
//   static const char text[] = "param N = 1\n"
//                              "input x: f32[N]\n"
//                              "y[i] = 2 * x[i]\noutput y\n";
//   dv_session_create(&session, program, target, NULL, diag);
//   dv_operand of[2] = {DV_OPERAND_INIT, DV_OPERAND_INIT};
//   … of[0] is x with any N, of[1] is y …
//   dv_session_run(session, of, 2, diag);
//
// A param is found if it is a whole number with a number as its default, and if
// the size of a dim of an input is a linear function of it; other params keep
// their values. Several threads may use a session at once. examples/session.c
// is a complete program.
#ifndef DIVVY_SESSION_H
#define DIVVY_SESSION_H
#include "divvy/run.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dv_session dv_session;

typedef struct dv_session_options {
    size_t size;
    const dv_plan_options *plan; // for all plans; NULL: the defaults
    const dv_run_options *run;   // for all runs; NULL: the defaults
    int64_t capacity;            // plans that are kept at most; 0: 8
    // Watches runs as dv_run_watch does; NULL: nobody does. Planning is watched
    // by the function in `plan`.
    int (*watch)(void *user, double done);
    void *user;
} dv_session_options;
#define DV_SESSION_OPTIONS_INIT                                                \
    {                                                                          \
        sizeof(dv_session_options), NULL, NULL, 0, NULL, NULL                  \
    }

// Makes a session, which caches plans of a program by the shapes of its
// operands. It has copies of its own of the program and the target. options may
// be NULL; what they point to must live as long as the session.
DV_API dv_status dv_session_create(dv_session **out, const dv_program *program,
                                   const dv_target *target,
                                   const dv_session_options *options,
                                   dv_diag *diag);
// Frees a session. No run of it may be under way.
DV_API void dv_session_destroy(dv_session *s);
// Sets the elements of a constant that has no file: row-major, borrowed until
// dv_session_destroy or the next call for the same constant. Params are
// inferred from its shape as from those of inputs. Drops all plans; no run may
// be under way.
DV_API dv_status dv_session_constant(dv_session *s, const dv_operand *constant,
                                     dv_diag *diag);
// Describes operand number i (in the order of dv_exec_operand) for inputs of
// these shapes, so that the caller learns the shapes of outputs. Of the inputs
// only names or numbers, numbers of dims and shapes are read. The name that is
// returned lives as long as the session. Fails with DV_E_USAGE if i is past the
// last operand.
DV_API dv_status dv_session_operand(dv_session *s, const dv_operand *inputs,
                                    size_t n_inputs, int i, dv_tensor_info *out,
                                    dv_diag *diag);
// Runs the program once with these operands: all inputs and outputs, but no
// constants. The first run with new shapes makes a plan, whose kernels use the
// strides of that run; later runs with other strides copy.
DV_API dv_status dv_session_run(dv_session *s, const dv_operand *operands,
                                size_t n_operands, dv_diag *diag);

typedef struct dv_session_stats {
    int64_t n_plans;   // that are kept now
    int64_t n_hits;    // runs whose plan was there
    int64_t n_misses;  // runs that made their plan
    int64_t n_evicted; // plans that were dropped to make room
} dv_session_stats;
DV_API void dv_session_stats_get(dv_session *s, dv_session_stats *out);

#ifdef __cplusplus
}
#endif
#endif
