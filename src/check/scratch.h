// Declarations shared by scratch.c and sharing.c, the checks of scratchpad
// residency.
#ifndef DV_PLAN_CHECK_SCRATCH_H
#define DV_PLAN_CHECK_SCRATCH_H

#include "plan/plan.h"

typedef struct checker {
    const dv_plan *plan;
    const dv_scratch *s;
    dv_loc at;
    dv_diag *diag;
    int32_t *group_of; // group number of each op
} checker;

typedef struct box {
    int any;
    int64_t lo[DV_MAX_DIMS], hi[DV_MAX_DIMS];
} box;

// Fails as DV_BREAKS does, with a message at the location of the scratchpad
// home (resident tensor) in the plan's text.
#define DV_HOME_BREAKS(c, rule, home, ...)                                     \
    dv_home_fail(c, #rule, home, __VA_ARGS__)
__attribute__((format(printf, 4, 5))) dv_status
dv_home_fail(const checker *c, const char *rule, int32_t home, const char *form,
             ...);

// Computes the box of elements that a core holds of a scratchpad home (resident
// tensor). Returns 1, 0 if the core holds nothing, or -1 if what it holds is
// not a box.
int dv_home_box(const checker *c, const dv_home *h, int64_t core, box *b);

int dv_box_inside(const box *outer, const box *inner, int n_dims);

int dv_homes_share(const dv_home *a, const dv_home *b);

// Checks rule C12: scratchpad homes (resident tensors) with overlapping
// lifetimes share no byte, except for legal in-place reuse.
dv_status dv_check_sharing(const checker *c);

#endif
