// What a run of a plan on threads calls, recorded without running it: which
// kernels, in which order, with which arguments. Shapes and addresses do not
// depend on the values of operands, so that every run calls the same, and what
// was recorded can be run without this library (emit/object.c).
//
// A run is a list of phases. The cores of a phase do not depend on one another;
// each makes a list of calls. Equal calls whose arguments advance by constant
// steps are one loop:
//
//   gemm(a, b, y), gemm(a + 64, b, y + 64), gemm(a + 128, b, y + 128)
//   loop 3 { gemm(a + 64*i, b, y + 64*i) }
#ifndef DV_EXEC_RECORD_H
#define DV_EXEC_RECORD_H
#include "jit/jit.h"
#include "plan/plan.h"

// What the argument of a recorded kernel call is relative to.
typedef enum dv_call_base {
    DV_CALL_NUMBER,  // nothing: it is a number
    DV_CALL_OPERAND, // the memory of operand tensor `tensor`
    DV_CALL_SHARED,  // the memory that all cores share
    // The memory of the core. Negative offsets are its stack.
    DV_CALL_CORE
} dv_call_base;

typedef struct dv_call_arg {
    dv_call_base base;
    int32_t tensor;
    int64_t off; // in bytes, or the number; in the first iteration of all loops
} dv_call_arg;

enum {
    DV_CALL_LOOP = -1, // a loop
    DV_CALL_COPY = -2, // a copy: destination, source, bytes
    DV_CALL_GEMM_ARGS = 7
};

// A recorded call or a loop of them. Calls of products have the arguments a, b,
// c and, if they have any, the members of dv_gemm_args (all DV_CALL_GEMM_ARGS);
// copying kernels have source and destination; vector kernels have rows, n, acc
// and the addresses of their operands.
typedef struct dv_call {
    int32_t kernel; // its number, DV_CALL_LOOP or DV_CALL_COPY
    int32_t n_args; // of a loop: of all calls in it
    dv_call_arg *args;
    // For a loop: its number of iterations, the calls and loops in it, and how
    // much each of their arguments advances per iteration, in their order.
    int64_t count;
    struct dv_call **body;
    int32_t n_body;
    int64_t *steps;
} dv_call;

typedef struct dv_calls {
    dv_call **at; // owned
    int32_t n, cap;
} dv_calls;

typedef struct dv_recording {
    const dv_plan *plan;
    struct dv_exec *x; // owns the kernels
    dv_jit *jit;
    int32_t n_cores;
    // Lists of calls: n_cores lists for each of the n_phases different phases.
    // A run consists of n_steps steps; steps[i] is the number of a phase.
    dv_calls *calls;
    int32_t n_phases, cap_phases;
    int32_t *steps;
    int32_t n_steps, cap_steps;
    // Bytes of memory, multiples of 64: shared by all cores, of each core, and
    // of the stack that precedes the memory of each core.
    int64_t shared_bytes, core_bytes, stack_bytes;
} dv_recording;

// Records a run of a checked plan, of any instruction set that there are
// kernels for. Fails with DV_E_USAGE if a run does more than call kernels: the
// message names the op and what it needs.
dv_status dv_record(dv_recording **out, const dv_plan *plan, dv_diag *diag);
void dv_record_destroy(dv_recording *r);
#endif
