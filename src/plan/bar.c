// Bars: tensors that the caller keeps off the cores, and ops that the caller
// keeps from using what is there (`--bar x`, `--bar op:y`).
#include "base/suggest.h"
#include "plan/plan.h"
#include <string.h>

static const char op_word[] = "op:";

static int names_op(const char *bar)
{
    return !strncmp(bar, op_word, sizeof op_word - 1);
}

static int32_t find_op(const dv_program *p, const char *name)
{
    for (int32_t i = 0; i < p->n_ops; i++)
        if (!strcmp(p->ops[i].name, name))
            return i;
    return -1;
}

int dv_bar_has_tensor(const char *bar, const char *name)
{
    return !strcmp(bar, name);
}

int dv_bar_has_op(const char *bar, const char *name)
{
    // A bar without the word `op:` names an op only if the name has a dot, as
    // u.2 has: no tensor has a dot in its name.
    return names_op(bar) ? !strcmp(bar + sizeof op_word - 1, name)
                         : strchr(name, '.') && !strcmp(bar, name);
}

int dv_bar_applies(const dv_program *p, const char *bar)
{
    if (names_op(bar))
        return find_op(p, bar + sizeof op_word - 1) >= 0;
    return dv_program_find(p, bar) >= 0 ||
           (strchr(bar, '.') && find_op(p, bar) >= 0);
}

int dv_bar_known(const dv_plan *plan, const char *bar)
{
    const char *name = bar + (names_op(bar) ? sizeof op_word - 1 : 0);
    for (int32_t i = 0; i < plan->n_removed; i++)
        if (!strcmp(plan->removed[i], name))
            return 1;
    for (int32_t i = 0; i < plan->n_views; i++)
        if (!strcmp(plan->views[i], name))
            return 1;
    return dv_bar_applies(plan->ops, bar);
}

dv_status dv_bars_verify(const dv_plan *plan, const dv_plan_options *o,
                         dv_diag *diag)
{
    const dv_program *p = plan->ops;
    for (size_t k = 0; k < o->n_bars; k++) {
        int is_op = names_op(o->bars[k]);
        const char *name = o->bars[k] + (is_op ? sizeof op_word - 1 : 0);
        dv_suggestion s = {.word = name, .len = strlen(name), .lists = 1};
        char meant[DV_SUGGESTION_BYTES];
        if (dv_bar_known(plan, o->bars[k]))
            continue;
        for (int32_t i = 0; i < p->n_ops && is_op; i++)
            dv_suggest(&s, p->ops[i].name);
        for (int32_t i = 0; i < p->n_tensors && !is_op; i++)
            dv_suggest(&s, p->tensors[i].name);
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "bar %s: the plan has no such %s%s", o->bars[k],
                       is_op ? "op" : "tensor", dv_suggestion_text(&s, meant));
    }
    return DV_OK;
}
