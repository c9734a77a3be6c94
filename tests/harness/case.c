#include "harness/case.h"
#include "plan/traffic.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char why[900];

int case_no(const char *form, ...)
{
    va_list ap;
    va_start(ap, form);
    vsnprintf(why, sizeof why, form, ap);
    va_end(ap);
    return 0;
}

const char *case_why(void)
{
    return why;
}

// Put the cores on a grid that has a few more places, holes here and there.
static void random_grid(rng *r, dv_target *t)
{
    int64_t cores = t->cores, cols = 1 + rng_below(r, 9);
    int64_t rows = (cores + rng_below(r, 12) + cols - 1) / cols;
    t->core_grid = (dv_core_grid){cols, rows};
    t->cores = cols * rows;
    while (t->cores > cores) {
        int64_t x, y, wide = 1;
        dv_target_place(t, rng_below(r, t->cores), &x, &y);
        while (wide < t->cores - cores && rng_percent(r, 40) &&
               dv_target_core(t, x + wide, y) >= 0)
            wide++;
        dv_core_rect hole = {(int32_t)x, (int32_t)y, (int32_t)(x + wide - 1),
                             (int32_t)y};
        dv_target_choose(t, NULL, 0, &hole, 1, DV_NOWHERE, NULL);
    }
}

void case_target(rng *r, dv_target *t)
{
    static const int64_t tiles[] = {0, 0, 4, 32};
    dv_target_init(t, "random");
    t->cores = 1 + rng_below(r, 64);
    t->stick_bytes = (int64_t)32 << rng_below(r, 4);
    t->sticks = rng_percent(r, 70);
    t->grain = rng_percent(r, 50) ? DV_GRAIN_PRIMITIVE : DV_GRAIN_FUSED;
    t->span_limit_bytes =
        rng_percent(r, 50) ? 0 : t->stick_bytes << rng_below(r, 8);
    t->ring = rng_percent(r, 50);
    t->ring_bandwidth_bytes_per_s = t->ring ? 1e9 : 0;
    t->memory_bandwidth_bytes_per_s = rng_percent(r, 50) ? 1e10 : 0;
    // Scratchpads so small that little fits, at random addresses' worth.
    t->scratch_bytes = rng_percent(r, 30) ? 0 : (int64_t)256 << rng_below(r, 8);
    t->scratch_align_bytes = (int64_t)1 << rng_below(r, 8);
    if (!t->sticks)
        t->tile_rows = t->tile_cols = tiles[rng_below(r, 4)];
    rng own = {r->state ^ 0x9621d};
    rng types = {r->state ^ 0x57a7e};
    t->intermediates_stored = rng_percent(&types, 50);
    if (rng_percent(&own, 60))
        random_grid(&own, t);
}

// No tile is on a core that is not there.
static int avoids_holes(const dv_plan *plan)
{
    const dv_core_rects *holes = &plan->target.holes;
    for (int32_t g = 0; g < plan->n_grids; g++)
        for (int32_t i = 0; i < plan->grids[g].n_ranges; i++)
            for (int32_t h = 0; h < holes->n; h++) {
                const dv_tile_range *r = &plan->grids[g].ranges[i];
                const dv_core_rect *c = &holes->at[h];
                if (r->x >= c->x0 && r->x <= c->x1 && r->y >= c->y0 &&
                    r->y <= c->y1)
                    return case_no("core %d,%d is in a hole", (int)r->x,
                                   (int)r->y);
            }
    return 1;
}

static int reads_back(const dv_plan *plan)
{
    dv_plan *read = NULL;
    char *text = dv_plan_text(plan), *again = NULL;
    int ok =
        !dv_plan_parse(&read, text, strlen(text), "again", NULL, NULL, NULL);
    again = ok ? dv_plan_text(read) : NULL;
    ok = ok && !strcmp(text, again);
    dv_plan_destroy(read);
    dv_free(text);
    dv_free(again);
    return ok || case_no("the plan does not read back");
}

// -- What the simulator does -----------------------------------------------

// How often the repeats around an op run it.
static int64_t times_of(const dv_program *p, int32_t op)
{
    int64_t n = 1;
    for (int i = 0; i < p->n_repeats; i++)
        if (p->repeats[i].first_op <= op && op < p->repeats[i].end_op)
            n *= p->repeats[i].times;
    return n;
}

static int same_counts(const dv_traffic *t, int64_t times,
                       const dv_moved *moved)
{
    return !t->exact || (t->read_elems * times == moved->read_elems &&
                         t->write_elems * times == moved->write_elems &&
                         t->read_bytes * times == moved->read_bytes &&
                         t->write_bytes * times == moved->write_bytes &&
                         t->ring_bytes * times == moved->ring_bytes);
}

static int counts_agree(const dv_plan *plan, const dv_exec *x)
{
    const dv_moved *moved = dv_exec_moved(x);
    dv_traffic t = dv_plan_traffic(plan);
    if (!same_counts(&t, 1, moved))
        return case_no(
            "predicted %" PRId64 " read, %" PRId64 " written, %" PRId64
            " bytes between cores; moved %" PRId64 ", %" PRId64 ", %" PRId64,
            t.read_elems, t.write_elems, t.ring_bytes, moved->read_elems,
            moved->write_elems, moved->ring_bytes);
    for (int32_t g = 0; g < plan->n_groups; g++)
        for (int32_t op = plan->groups[g].first_op; op < plan->groups[g].end_op;
             op++)
            for (int64_t core = 0; core < plan->target.cores; core++) {
                t = dv_op_traffic(plan, g, op, core);
                if (!same_counts(&t, times_of(plan->ops, op),
                                 dv_exec_moved_by(x, op, core)))
                    return case_no("op %d, core %d: predicted and moved differ",
                                   op, (int)core);
            }
    return 1;
}

// A run of a plan with its data, by tensor.
typedef struct job {
    const dv_plan *plan;
    dv_exec *x;
    void **before, **after;
} job;

static int start(job *j, const dv_plan *plan, dv_diag *diag)
{
    const dv_program *ops = plan->ops;
    *j = (job){.plan = plan,
               .before = calloc((size_t)ops->n_tensors + 1, sizeof(void *)),
               .after = calloc((size_t)ops->n_tensors + 1, sizeof(void *))};
    int ok = !dv_exec_create(&j->x, plan, diag);
    for (int i = 0; ok && i < ops->n_tensors; i++) {
        const dv_tensor *t = &ops->tensors[i];
        size_t bytes = (size_t)dv_tensor_bytes(t);
        j->before[i] = calloc(1, bytes);
        j->after[i] = calloc(1, bytes);
        if (t->is_input)
            dv_fill(ops, i, 5, -1, 1, j->before[i]);
        memcpy(j->after[i], j->before[i], bytes);
        if (t->is_input || t->is_output)
            ok = !dv_exec_bind(j->x, t->name, j->after[i], bytes, diag);
    }
    return (ok && !dv_exec_run(j->x, diag)) ||
           case_no("it does not run: %s", dv_diag_text(diag));
}

static void end(job *j)
{
    dv_exec_destroy(j->x);
    for (int i = 0; i < j->plan->ops->n_tensors; i++) {
        free(j->before[i]);
        free(j->after[i]);
    }
    free(j->before);
    free(j->after);
}

static int simulates(const dv_program *p, const dv_plan *plan)
{
    dv_diag *diag = dv_diag_create();
    dv_verdict verdict = {0};
    job j;
    int ok = start(&j, plan, diag);
    if (ok && dv_verify(&verdict, p, plan, j.before, j.after, NULL, NULL, diag))
        ok = case_no("%s", dv_diag_text(diag));
    else if (ok && !verdict.ok)
        ok = case_no("%s is %g off, %g allowed", verdict.tensor,
                     verdict.residual, verdict.threshold);
    ok = ok && counts_agree(plan, j.x);
    end(&j);
    dv_diag_destroy(diag);
    return ok;
}

static const void *output_of(const job *j, const char *name)
{
    const dv_program *p = j->plan->ops;
    for (int i = 0; i < p->n_tensors; i++)
        if (p->tensors[i].is_output && !strcmp(p->tensors[i].name, name))
            return j->after[i];
    return NULL;
}

int case_same_results(const dv_plan *a, const dv_plan *b)
{
    dv_diag *diag = dv_diag_create();
    job one, two;
    int ok = start(&one, a, diag);
    ok &= start(&two, b, diag);
    for (int i = 0; ok && i < a->ops->n_tensors; i++) {
        const dv_tensor *t = &a->ops->tensors[i];
        const void *other = output_of(&two, t->name);
        if (t->is_output &&
            (!other || memcmp(one.after[i], other, (size_t)dv_tensor_bytes(t))))
            ok = case_no("%s is not the same, bit by bit", t->name);
    }
    end(&one);
    end(&two);
    dv_diag_destroy(diag);
    return ok;
}

// -- All of it -------------------------------------------------------------

int case_keeps(const dv_program *p, const dv_plan *plan)
{
    dv_diag *diag = dv_diag_create();
    int ok = !dv_plan_check(plan, diag) || case_no("%s", dv_diag_text(diag));
    dv_diag_destroy(diag);
    return ok && avoids_holes(plan) && reads_back(plan) && simulates(p, plan);
}

// -- Buffers -----------------------------------------------------------------

void **case_buffers(const dv_program *p)
{
    void **data = calloc((size_t)p->n_tensors + 1, sizeof *data);
    for (int i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        if (!t->is_input && !t->is_output)
            continue;
        data[i] = calloc(1, (size_t)dv_tensor_bytes(t));
        if (t->is_input)
            dv_fill(p, i, 11, -1, 1, data[i]);
    }
    return data;
}

void case_free(void **data, const dv_program *p)
{
    for (int i = 0; data && i < p->n_tensors; i++)
        free(data[i]);
    free(data);
}

dv_status case_bind(dv_exec *x, const dv_program *p, void *const *data,
                    dv_diag *diag)
{
    for (int i = 0; i < p->n_tensors; i++)
        if (data[i])
            DV_TRY(dv_exec_bind(x, p->tensors[i].name, data[i],
                                (size_t)dv_tensor_bytes(&p->tensors[i]), diag));
    return DV_OK;
}
