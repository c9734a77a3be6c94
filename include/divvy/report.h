// Reports: a plan as pictures. dv_report_html writes one self-contained page
// that any browser opens from disk; dv_report_trace writes the timeline for
// viewers of Chrome's trace format, such as Perfetto.
#ifndef DIVVY_REPORT_H
#define DIVVY_REPORT_H
#include "divvy/divvy.h"

#ifdef __cplusplus
extern "C" {
#endif

// What was measured when the plan ran. 0 and NULL stand for "not measured".
typedef struct dv_measured {
    double seconds;              // of one run
    const double *group_seconds; // dv_plan_n_groups numbers, of one run
    double peak_gflops;          // what the machine computes at most
    double copy_gb_per_s;        // of a copy between arrays
    // The predicted time, computed from what the simulator counted instead of
    // from the plan.
    double counted_us;
    const char *executor; // what ran the plan
} dv_measured;

typedef struct dv_report_options {
    size_t size;
    // The largest size of the page; details are left out of larger ones, and
    // the page says which. 0: 20 MB.
    int64_t most_bytes;
    const char *command; // that made the plan, for the page; NULL: not shown
    // Whether the page says which changes would make the plan faster: a machine
    // with twice of some resource, or another division of an op. The plan is
    // made again for each. Default: on.
    dv_switch changes;
    // The options with which the plan was made, needed for `changes`; NULL:
    // defaults.
    const dv_plan_options *made_with;
    const dv_measured *measured; // NULL: the plan was not run
    const dv_plan *other;        // a plan to compare with, or NULL
} dv_report_options;
#define DV_REPORT_OPTIONS_INIT                                                 \
    {                                                                          \
        sizeof(dv_report_options), 0, NULL, (dv_switch)0, NULL, NULL, NULL     \
    }

// Makes an HTML page that describes a plan; the caller frees it with dv_free.
// Two pages of the same plan with the same options have the same bytes. Fails
// with DV_E_LIMIT if the page is too large even without its details. options
// may be NULL.
DV_API dv_status dv_report_html(char **out, const dv_plan *plan,
                                const dv_report_options *options,
                                dv_diag *diag);
// Makes the trace of a plan's run: a timeline per core, an event per op and
// tile. Of the options it reads only `measured`.
DV_API dv_status dv_report_trace(char **out, const dv_plan *plan,
                                 const dv_report_options *options,
                                 dv_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
