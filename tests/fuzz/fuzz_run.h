// Runs plans, for fuzzers.
#ifndef DV_FUZZ_RUN_H
#define DV_FUZZ_RUN_H
#include "fuzz.h"
#include "plan/plan.h"
#include "exec/exec.h"
#include <stdlib.h>

static void must(int holds)
{
    if (!holds)
        abort();
}

// Runs a plan on made-up inputs; it may fail only because an index that is read
// is out of range or an integer overflows, or, with `may_refuse`, because there
// are no kernels for its schedule.
static void run_once(const dv_plan *plan, int may_refuse)
{
    const dv_program *p = plan->ops;
    dv_exec *x = NULL;
    size_t n = (size_t)p->n_tensors;
    void **data = calloc(n + 1, sizeof *data);
    dv_status made = dv_exec_create(&x, plan, NULL);
    if (made != DV_OK) {
        must(may_refuse &&
             (made == DV_E_CHECK || made == DV_E_LIMIT || made == DV_E_NEST ||
              made == DV_E_DTYPE || made == DV_E_SYSTEM));
        free(data);
        return;
    }
    for (int i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        if (!t->is_input && !t->is_output)
            continue;
        data[i] = calloc(1, (size_t)dv_tensor_bytes(t));
        dv_fill(p, i, 1, -1, 1, data[i]);
        must(!dv_exec_bind(x, t->name, data[i], (size_t)dv_tensor_bytes(t),
                           NULL));
    }
    dv_status st = dv_exec_run(x, NULL);
    // The target may have too few bits for an integer.
    must(st == DV_OK || st == DV_E_BOUNDS || st == DV_E_OVERFLOW);
    dv_exec_destroy(x);
    for (size_t i = 0; i < n; i++)
        free(data[i]);
    free(data);
}

#endif
