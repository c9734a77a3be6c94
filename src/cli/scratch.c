// What stays on the cores, for people: the scratch part of --explain.
#include "base/math.h"
#include "cli/load.h"
#include "plan/traffic.h"
#include <inttypes.h>
#include <string.h>

// -- Totals ----------------------------------------------------------------

// Bytes of main memory when every input is read once and every output written
// once.
static int64_t least_bytes(const dv_plan *plan)
{
    const dv_program *p = plan->ops;
    int64_t sum = 0;
    for (int32_t t = 0; t < p->n_tensors; t++) {
        const dv_tensor *x = &p->tensors[t];
        int64_t bytes = x->n_elems * plan->layouts[t].elem_bytes;
        int read = 0;
        for (int32_t i = 0; i < p->n_ops && x->is_input && !read; i++)
            for (int r = 0; r < p->ops[i].n_reads; r++)
                read |= p->ops[i].reads[r].tensor == t;
        sum += (read ? bytes : 0) + (x->is_output ? bytes : 0);
    }
    return sum;
}

static void put_totals(dv_text *out, const dv_plan *plan)
{
    dv_plan off = *plan;
    off.scratch = (dv_scratch){0};
    dv_traffic with = dv_plan_traffic(plan), without = dv_plan_traffic(&off);
    dv_put(out, "scratch: main memory moves ");
    dv_put_bytes_of_memory(out, with.read_bytes + with.write_bytes);
    dv_put(out, ", ");
    dv_put_bytes_of_memory(out, without.read_bytes + without.write_bytes);
    dv_put(out, " with nothing on the cores; inputs and outputs once are ");
    dv_put_bytes_of_memory(out, least_bytes(plan));
    dv_put(out, "\n    placed by %s in %" PRId64 " bytes\n",
           plan->scratch.solver, plan->scratch.capacity_bytes);
}

// -- One tensor ------------------------------------------------------------

static void put_home(dv_text *out, const dv_plan *plan, const dv_home *h,
                     const char *name)
{
    static const char *const fills[] = {"", ", loaded", ", over the ring",
                                        ", moved"};
    dv_put(out, "    %c %-12s ops %d..%d at %" PRId64 ", %" PRId64 " bytes%s%s",
           (char)('a' + (h - plan->scratch.homes) % 26), name, (int)h->first_op,
           (int)h->end_op, h->address, h->core_bytes, fills[h->fill],
           h->stored ? ", stored" : "");
    if (h->in_place_of >= 0)
        dv_put(out, ", in place of %s",
               plan->ops->tensors[plan->scratch.homes[h->in_place_of].tensor]
                   .name);
    dv_put(out, "\n");
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

// -- The picture -----------------------------------------------------------

enum { ROWS = 12, COLUMNS = 72 };

// Ops to the right, addresses upward; a letter per home.
static void put_picture(dv_text *out, const dv_plan *plan)
{
    const dv_scratch *s = &plan->scratch;
    char at[ROWS][COLUMNS + 1];
    int64_t top = 1;
    int32_t n_ops = plan->ops->n_ops;
    int columns = n_ops < COLUMNS ? n_ops : COLUMNS;
    for (int32_t i = 0; i < s->n_homes; i++)
        top = dv_max_i64(top, s->homes[i].address + s->homes[i].core_bytes);
    for (int r = 0; r < ROWS; r++) {
        memset(at[r], '.', (size_t)columns);
        at[r][columns] = 0;
    }
    for (int32_t i = 0; i < s->n_homes; i++) {
        const dv_home *h = &s->homes[i];
        int64_t low = h->address * ROWS / top;
        int64_t high = (h->address + h->core_bytes - 1) * ROWS / top;
        int64_t first = (int64_t)h->first_op * columns / n_ops;
        int64_t last = (int64_t)(h->end_op - 1) * columns / n_ops;
        for (int64_t r = low; r <= high; r++)
            for (int64_t c = first; c <= last; c++)
                at[r][c] = (char)('a' + i % 26);
    }
    for (int r = ROWS - 1; r >= 0; r--)
        dv_put(out, "    %10" PRId64 " |%s|\n", (int64_t)(r + 1) * top / ROWS,
               at[r]);
    dv_put(out, "               ops 0..%d\n", (int)n_ops);
}

void cli_explain_scratch(dv_text *out, const dv_plan *plan)
{
    const dv_scratch *s = &plan->scratch;
    if (!(plan->facts & DV_FACT_PLACED) || s->n_residents == 0)
        return;
    put_totals(out, plan);
    put_tensors(out, plan);
    if (s->n_homes)
        put_picture(out, plan);
}
