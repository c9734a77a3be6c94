// Prints the part of --explain about scratchpads: traffic, resident tensors and
// a drawing.
#include "base/math.h"
#include "base/plural.h"
#include "divvy/place.h"
#include "cli/load.h"
#include "cli/picture.h"
#include "plan/traffic.h"
#include <inttypes.h>

static void put_totals(dv_text *out, const dv_plan *plan)
{
    dv_plan off = *plan;
    off.scratch = (dv_scratch){0};
    dv_traffic with = dv_plan_traffic(plan), without = dv_plan_traffic(&off);
    dv_put(out, "scratch: main memory moves %s", with.exact ? "" : "at least ");
    dv_put_byte_size(out, dv_traffic_bytes(&with));
    dv_put(out, ", ");
    dv_put_byte_size(out, dv_traffic_bytes(&without));
    dv_put(out, " with nothing on the cores; inputs and outputs once are ");
    dv_put_byte_size(out, dv_plan_least_bytes(plan));
    dv_put(out, "\n    placed by %s in %" PRId64 " bytes\n",
           plan->scratch.solver, plan->scratch.capacity_bytes);
}

static void put_ops(dv_text *out, const dv_plan *plan, const char *before,
                    const int32_t *ops, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        dv_put(out, "%s%s", i ? ", " : before, plan->ops->ops[ops[i]].name);
}

// Prints why a tensor is kept in the scratchpads: how it is used there, and the
// bytes of main memory traffic that this saves.
static void put_why(dv_text *out, const dv_home *h, int64_t saved_bytes)
{
    if (h->fill == DV_FILL_SUMMED)
        dv_put(out, "; its parts are summed up there");
    else if (h->n_readers)
        dv_put(out, "; %d op%s read%s it there", (int)h->n_readers,
               DV_PLURAL(h->n_readers, "", "s"),
               DV_PLURAL(h->n_readers, "s", ""));
    else
        dv_put(out, "; cores receive it from there");
    if (saved_bytes > 0) {
        dv_put(out, ", which saves ");
        dv_put_byte_size(out, saved_bytes);
    }
}

static void put_home(dv_text *out, const dv_plan *plan, const dv_home *h,
                     const char *name)
{
    static const char *const fills[] = {"", ", loaded", ", over the ring",
                                        ", moved", ", partial sums"};
    int64_t saved = 0;
    dv_put(out, "    + %-12s ops %d..%d at %" PRId64 ", %" PRId64 " bytes%s%s",
           name, (int)h->first_op, (int)h->end_op, h->address, h->core_bytes,
           h->shared ? ", loaded once for all cores" : fills[h->fill],
           h->stored ? ", stored" : "");
    if (h->in_place_of >= 0)
        dv_put(out, ", in place of %s",
               plan->ops->tensors[plan->scratch.homes[h->in_place_of].tensor]
                   .name);
    for (int32_t i = 0; i < plan->scratch.n_residents; i++) {
        const dv_resident *r = &plan->scratch.residents[i];
        if (r->home != h - plan->scratch.homes)
            continue;
        saved += r->saved_bytes;
        if (r->denied >= 0) {
            char word[DV_OP_WORD_BYTES];
            dv_put(out,
                   ", not in place of %s: property in_place of %s lacks %s",
                   plan->ops->tensors[r->denied].name, plan->target.name,
                   dv_op_set_lacks(&plan->target.in_place,
                                   &plan->ops->ops[h->first_op], word));
        }
    }
    put_ops(out, plan, ", passed to ", h->passed_to, h->n_passed_to);
    put_why(out, h, saved);
    dv_put(out, "\n");
}

// Prints which groups end because their ops touch as many tensors as the target
// allows.
static void put_full_groups(dv_text *out, const dv_plan *plan)
{
    for (int32_t g = 0; g + 1 < plan->n_groups; g++)
        if (plan->groups[g].full)
            dv_put(out,
                   "    group of %s ends before %s: with it, it would touch "
                   "more than %" PRId64 " tensors (group_tensors)\n",
                   plan->ops->ops[plan->groups[g].first_op].name,
                   plan->ops->ops[plan->groups[g].end_op].name,
                   plan->target.group_tensors);
}

// Prints the operands that are read from main memory once for all cores, which
// pass them on to each other.
static void put_shares(dv_text *out, const dv_plan *plan)
{
    const dv_scratch *s = &plan->scratch;
    for (int32_t i = 0; i < s->n_shares; i++) {
        dv_put(out, "    > %-12s read once for all cores",
               plan->ops->tensors[s->shares[i].tensor].name);
        put_ops(out, plan, " by ", s->shares[i].ops, s->shares[i].n_ops);
        dv_put(out, "\n");
    }
}

static void put_tensors(dv_text *out, const dv_plan *plan)
{
    const dv_scratch *s = &plan->scratch;
    for (int32_t i = 0; i < s->n_homes; i++)
        put_home(out, plan, &s->homes[i],
                 plan->ops->tensors[s->homes[i].tensor].name);
    for (int32_t i = 0; i < s->n_residents; i++)
        if (s->residents[i].home < 0)
            dv_put(out, "    - %-12s %s\n",
                   plan->ops->tensors[s->residents[i].tensor].name,
                   s->residents[i].reason);
}

// Draws the homes (places of resident tensors in the scratchpads) with the
// drawing function of `divvy place`, as buffers.
static void put_picture(dv_text *out, const dv_plan *plan)
{
    const dv_scratch *s = &plan->scratch;
    size_t n = (size_t)s->n_homes;
    dv_stay *stays = dv_alloc(n * sizeof *stays);
    dv_buffer *buffers = dv_alloc(n * sizeof *buffers);
    int64_t top = 1;
    for (size_t i = 0; stays && buffers && i < n; i++) {
        const dv_home *h = &s->homes[i];
        stays[i] = (dv_stay){(int32_t)i, h->first_op, h->end_op, h->address};
        buffers[i] = (dv_buffer){.name = plan->ops->tensors[h->tensor].name,
                                 .size_bytes = h->core_bytes};
        top = dv_max_i64(top, h->address + h->core_bytes);
    }
    dv_placement p = {.stays = stays, .n_stays = n};
    if (stays && buffers)
        cli_draw_text(out, &p, buffers, top);
    out->failed |= !stays || !buffers;
    dv_release(stays);
    dv_release(buffers);
}

void cli_explain_scratch(dv_text *out, const dv_plan *plan)
{
    const dv_scratch *s = &plan->scratch;
    if (!(plan->facts & DV_FACT_PLACED) || s->n_residents == 0)
        return;
    put_totals(out, plan);
    put_tensors(out, plan);
    put_shares(out, plan);
    put_full_groups(out, plan);
    if (s->n_homes)
        put_picture(out, plan);
}
