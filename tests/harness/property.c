#include "harness/test.h"
#include "harness/property.h"
#include "harness/job.h"
#include "plan/traffic.h"
#include <inttypes.h>
#include <math.h>

// -- What every plan keeps ---------------------------------------------------

// No tile is on an absent core (C21).
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

// Returns how often the repeats around an op run it.
static int64_t times_of(const dv_program *p, int32_t op)
{
    int64_t n = 1;
    for (int i = 0; i < p->n_repeats; i++)
        if (p->repeats[i].first_op <= op && op < p->repeats[i].end_op)
            n *= p->repeats[i].times;
    return n;
}

static int same_counts(const dv_traffic *t, int64_t times,
                       const dv_sim_traffic *moved)
{
    return !t->exact || (t->read_elems * times == moved->read_elems &&
                         t->write_elems * times == moved->write_elems &&
                         t->read_bytes * times == moved->read_bytes &&
                         t->write_bytes * times == moved->write_bytes &&
                         t->ring_bytes * times == moved->ring_bytes);
}

static int same_time(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

// The time that the plan predicts for a group is the one that follows from what
// the simulator counted.
static int times_agree(const dv_plan *plan, const dv_exec *x, int32_t group)
{
    dv_price want = {0}, got;
    dv_price once = dv_group_price(plan, group);
    dv_price_add(&want, &once, dv_group_times(plan, group));
    if (!dv_exec_price(x, group, &got))
        return 1;
    return (same_time(got.total_us, want.total_us) &&
            same_time(got.compute_us, want.compute_us) &&
            same_time(got.memory_us, want.memory_us) &&
            same_time(got.ring_us, want.ring_us) &&
            same_time(got.launch_us, want.launch_us)) ||
           case_no("group %d: predicted %g us (%g %g %g %g), counted %g us "
                   "(%g %g %g %g)",
                   group, want.total_us, want.compute_us, want.memory_us,
                   want.ring_us, want.launch_us, got.total_us, got.compute_us,
                   got.memory_us, got.ring_us, got.launch_us);
}

static int counts_agree(const dv_plan *plan, const dv_exec *x)
{
    const dv_sim_traffic *moved = dv_exec_moved(x);
    dv_traffic t = dv_plan_traffic(plan);
    if (!same_counts(&t, 1, moved))
        return case_no(
            "predicted %" PRId64 " read, %" PRId64 " written, %" PRId64
            " bytes between cores; moved %" PRId64 ", %" PRId64 ", %" PRId64,
            t.read_elems, t.write_elems, t.ring_bytes, moved->read_elems,
            moved->write_elems, moved->ring_bytes);
    for (int32_t g = 0; g < plan->n_groups && t.exact; g++)
        if (!times_agree(plan, x, g))
            return 0;
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

int case_keeps(const dv_program *p, const dv_plan *plan)
{
    dv_diag *diag = dv_diag_create();
    job j = {0};
    int ok = !dv_plan_check(plan, diag) || case_no("%s", dv_diag_text(diag));
    ok = ok && avoids_holes(plan) && case_reads_back(plan) &&
         job_done(&j, plan, RUN_AS_PLANNED) && job_right(&j, p) &&
         counts_agree(plan, j.x);
    job_stop(&j);
    dv_diag_destroy(diag);
    return ok;
}

int case_same_results(const dv_plan *a, const dv_plan *b)
{
    job one = {0}, two = {0};
    int ok = job_done(&one, a, RUN_AS_PLANNED) &&
             job_done(&two, b, RUN_AS_PLANNED) && job_same_bits(&one, &two);
    job_stop(&one);
    job_stop(&two);
    return ok;
}

// -- Cases -------------------------------------------------------------------

int case_holds(case_property *f, const char *text, uint64_t seed)
{
    case_no("%s", "");
    dv_program *p = case_program(text);
    int ok = p && f(p, seed);
    dv_program_destroy(p);
    return ok;
}

void case_random(const char *name, case_property *f, gen_mode mode, int usual)
{
    uint64_t first = gen_seed();
    int failed = 0, n = gen_cases(usual);
    for (int i = 0; i < n && failed < 3; i++) {
        uint64_t seed = first + (uint64_t)i;
        char *text = gen_program(seed, mode);
        if (!case_holds(f, text, seed)) {
            gen_report(name, seed, mode, text, case_why());
            failed++;
        }
        free(text);
    }
    assert_int_equal(failed, 0);
}

void case_hard(const char *name, case_property *f, const char *const *texts,
               size_t n, uint64_t seeds)
{
    int failed = 0;
    for (size_t i = 0; i < n; i++)
        for (uint64_t seed = 1; seed <= seeds; seed++) {
            if (case_holds(f, texts[i], seed))
                continue;
            fprintf(stderr, "\n%s fails (%d): %s\n----\n%s----\n", name,
                    (int)seed, case_why(), texts[i]);
            failed++;
            break;
        }
    assert_int_equal(failed, 0);
}
