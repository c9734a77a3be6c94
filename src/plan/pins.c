#include "plan/pins.h"
#include "base/suggest.h"
#include <string.h>

static int is_name(const char *name, const char *text, size_t len)
{
    return strlen(name) == len && !strncmp(name, text, len);
}

dv_status dv_pin_find_op(int32_t *op, const dv_plan *plan, const char *pin,
                         size_t len, dv_diag *diag)
{
    const dv_program *p = plan->ops;
    char meant[DV_SUGGESTION_BYTES];
    dv_suggestion s = {.word = pin, .len = len, .lists = 1};
    for (*op = 0; *op < p->n_ops; ++*op) {
        if (is_name(p->ops[*op].name, pin, len))
            return DV_OK;
        dv_suggest(&s, p->ops[*op].name);
    }
    return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                   "pin %s: the plan has no such op%s", pin,
                   dv_suggestion_text(&s, meant));
}

dv_status dv_pin_find_var(int32_t *var, const dv_op *o, const char *pin,
                          const char *name, size_t len, dv_diag *diag)
{
    char meant[DV_SUGGESTION_BYTES];
    dv_suggestion s = {.word = name, .len = len, .lists = 1};
    for (*var = 0; *var < o->n_vars; ++*var) {
        if (is_name(o->vars[*var].name, name, len))
            return DV_OK;
        dv_suggest(&s, o->vars[*var].name);
    }
    return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                   "pin %s: op %s has no such variable%s", pin, o->name,
                   dv_suggestion_text(&s, meant));
}
