// The oracle for tests that keep every tensor in doubles, integer tensors too.
#ifndef DV_DOUBLES_H
#define DV_DOUBLES_H
#include "ir/eval.h"

// Calls dv_eval on values that doubles hold exactly.
static inline dv_status eval_in_doubles(const dv_program *p,
                                        double *const *values,
                                        const dv_eval_options *options,
                                        dv_diag *diag)
{
    dv_number **numbers = (dv_number **)values; // both have eight bytes
    for (int t = 0; t < p->n_tensors; t++)
        for (int64_t i = 0; i < p->tensors[t].n_elems; i++)
            if (!dv_is_float(p->tensors[t].dtype))
                numbers[t][i].i = (int64_t)numbers[t][i].f;
    dv_status st = dv_eval(p, numbers, options, diag);
    for (int t = 0; t < p->n_tensors; t++)
        for (int64_t i = 0; i < p->tensors[t].n_elems; i++)
            if (!dv_is_float(p->tensors[t].dtype))
                numbers[t][i].f = (double)numbers[t][i].i;
    return st;
}
#endif
