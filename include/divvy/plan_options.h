// Options of plans: the struct dv_plan_options and the switches in it. It is a
// part of divvy/divvy.h, which includes it.
#ifndef DIVVY_DIVVY_H
#include "divvy/divvy.h"
#elif !defined(DIVVY_PLAN_OPTIONS_H)
#define DIVVY_PLAN_OPTIONS_H

// A rectangle of cores: columns x0 to x1 and rows y0 to y1, both inclusive.
typedef struct dv_core_rect {
    int32_t x0, y0, x1, y1;
} dv_core_rect;

// A switch in the options of a plan. The value 0, which the INIT macro of the
// options sets, stands for the default.
typedef enum dv_switch { DV_ON = 1, DV_OFF } dv_switch; // default: on
// How ops are divided over cores: by the cost model (BEST), by the rules of
// Torch-Spyre, the PyTorch backend of IBM's Spyre accelerator (SEED), or by
// these rules with ties broken by the cost model (SEED_COST). SPAN: ops are cut
// only where the target's limit on address spans requires it, by the first of
// Torch-Spyre's rules; the remaining cores get nothing, and `joint` is OFF.
typedef enum dv_divide {
    DV_DIVIDE_BEST = 1, // the default
    DV_DIVIDE_SEED,
    DV_DIVIDE_SEED_COST,
    DV_DIVIDE_SPAN
} dv_divide;
// Whether the division of ops and the use of scratchpads are planned together:
// AUTO: if that pays by the cost model; SEED: as Torch-Spyre does, the PyTorch
// backend of IBM's Spyre accelerator; OFF: never.
typedef enum dv_joint {
    DV_JOINT_AUTO = 1, // the default
    DV_JOINT_SEED,
    DV_JOINT_OFF
} dv_joint;
// Which tensors may be kept in scratchpads from op to op.
typedef enum dv_residents {
    DV_RESIDENTS_ALL = 1,    // the default
    DV_RESIDENTS_REDUCTIONS, // only results of reductions
    DV_RESIDENTS_NONE
} dv_residents;
// Whether other programs use the scratchpads too. With MANY, what one group of
// ops leaves in a scratchpad is lost before the next group.
typedef enum dv_tenants { DV_TENANTS_ONE = 1, DV_TENANTS_MANY } dv_tenants;
// The solver that assigns addresses to buffers (dv_place of divvy/place.h).
typedef enum dv_solver {
    DV_SOLVER_AUTO = 1, // the default
    DV_SOLVER_EXACT,
    DV_SOLVER_ANNEAL,
    DV_SOLVER_BESTFIT,
    DV_SOLVER_FIRSTFIT,
    DV_SOLVER_GREEDY
} dv_solver;

// Declared in divvy/place.h: buffers to be placed, a placement and the options
// of a solver.
struct dv_buffer;
struct dv_placement;
struct dv_place_options;
// A solver that the caller provides, with the contract of dv_place: it places
// the buffers and describes the result in *out, which is cleared before the
// call. It sets `addresses` (-1: not placed) and may set `reasons` and
// `solver`, a word for the plan. With options->evict it may set `stays`;
// otherwise every placed buffer stays for its whole lifetime. The other fields
// are not read. What *out points to belongs to the solver and stays valid until
// the next call or until the plan is made. The answer is checked as by
// dv_placement_check before use. Planning calls the solver several times, for
// different divisions.
typedef dv_status (*dv_placer)(void *user, struct dv_placement *out,
                               const struct dv_buffer *buffers,
                               size_t n_buffers,
                               const struct dv_place_options *options);

// Every options struct of this API begins with its size, which its INIT macro
// sets, so that fields can be added at its end without breaking callers that
// were compiled before.
typedef struct dv_plan_options {
    size_t size;
    int64_t cores; // use at most this many; 0: all of the target's
    // Number of threads on the host, which may exceed its cores; 0: one per
    // core.
    int64_t threads;
    const char *stop_after; // name of the last pass to run; NULL: run them all
    dv_divide divide;
    // Numbers of slices fixed by the caller, as "op:variable=number".
    const char *const *pins;
    size_t n_pins;
    dv_joint joint;
    dv_residents scratch;
    dv_switch in_place;     // a result may reuse an operand's memory
    dv_switch clone_inputs; // an input that is read twice is loaded once
    dv_switch ring;         // tensors may be copied from core to core
    dv_switch evict;        // tensors may be spilled and reloaded
    dv_switch reorder;      // ops may run in another order
    dv_switch recompute;    // ops may run twice instead of keeping a result
    dv_tenants tenants;
    // The solver that finds addresses for tensors that are resident in
    // scratchpads.
    dv_solver solver;
    int64_t place_budget; // maximum steps of the solver; 0: default
    // Limit on the time of the searches for divisions, groups and addresses; 0:
    // none. A plan whose search was ended by the limit has the mark
    // `cut_short`.
    double time_limit_s;
    // Called after every pass with the plan so far; NULL: not called.
    void (*after_pass)(void *user, const char *pass, double ms,
                       const dv_plan *plan);
    void *user;
    // Number of processes over which the program is divided first. 0: those of
    // `grid` or, if that is NULL too, one process.
    int64_t team;
    int64_t rank;     // the rank whose messages the plan lists
    const char *grid; // ranks per axis, as "2x3"; NULL: chosen for the team
    // policy: which core computes which tiles: static (NULL), ticket, steal,
    // dynamic (steal); on machines that compute on tiles also rect, streamk,
    // streamk1, streamk2, splitk(N) (docs/cli.md explains them). order: the
    // order of tiles: auto (NULL) or one of those that divvy/grid.h lists; with
    // a list, results of other sizes keep the default order.
    const char *policy, *order;
    // On a machine with a grid of cores: the cores that may be used (NULL:
    // all), and cores that must not be used.
    const dv_core_rect *allowed;
    size_t n_allowed;
    const dv_core_rect *holes;
    size_t n_holes;
    // What must not be kept in scratchpads: "x" is the tensor x; "op:y" or
    // "y.2" is an op, of which its result, and its operands where it reads
    // them, are meant.
    const char *const *bars;
    size_t n_bars;
    // A function that finds the addresses of tensors in scratchpads instead of
    // `solver`; NULL: `solver` finds them. place_user is passed to the
    // function.
    dv_placer place;
    void *place_user;
    // Number of tiles of an op that a core may compute one after the other.
    // Replaces the target's property tiles_per_core; 0: does not.
    int64_t tiles_per_core;
    // Names of inputs whose elements are the same in all runs, as if the
    // program declared them with `const`.
    const char *const *constants;
    size_t n_constants;
    // Called often while a plan is made, with the name of the pass, by the
    // thread that makes it. If it returns a value other than 0, planning ends
    // soon with DV_E_CANCELLED. NULL: not called.
    int (*watch)(void *user, const char *pass);
    void *watch_user;
} dv_plan_options;
#define DV_PLAN_OPTIONS_INIT                                                   \
    {                                                                          \
        sizeof(dv_plan_options), 0, 0, NULL, (dv_divide)0, NULL, 0,            \
            (dv_joint)0, (dv_residents)0, (dv_switch)0, (dv_switch)0,          \
            (dv_switch)0, (dv_switch)0, (dv_switch)0, (dv_switch)0,            \
            (dv_tenants)0, (dv_solver)0, 0, 0, NULL, NULL, 0, 0, NULL, NULL,   \
            NULL, NULL, 0, NULL, 0, NULL, 0, NULL, NULL, 0, NULL, 0, NULL,     \
            NULL                                                               \
    }
#endif
