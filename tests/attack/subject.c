#include "subject.h"
#include "harness/job.h"
#include "harness/random.h"
#include <stdlib.h>
#include <string.h>

static const char *const programs[] = {
    // Every rank receives two boxes from each neighbour.
    "input a: f32[12, 64] @ split(0)\ninput y: f32[12, 4] @ split(0)\n"
    "y[i,j] <- a[i,j] + a[i+1,j] - 3*a[i+1,j+40] + 5*a[i-1,j] - 7*a[i-1,j+40] "
    "for i in 1..11, j in 0..4\noutput y\n",
    // Stencils in repeats that reach further than a rank's part.
    "input u: f64[11, 9]\nrepeat 4 {\nu[i,j] <- 0.25 * (u[i-1,j] + u[i+1,j] + "
    "u[i,j-1] + u[i,j+1]) for i in 1..10, j in 1..8\n}\noutput u\n",
    "input u: f32[13, 12]\nv[i,j] = u[i,j] + u[i+8,j+6] + u[i+4,j+3] for i in "
    "0..5, j in 0..6\noutput v\n",
    "input x: f32[10, 10]\ninput k: f32[10, 10]\nrepeat 3 {\nx[i,j] <- "
    "x[i,j-1] * k[j,i] for i in 0..10, j in 1..10\n}\noutput x\n",
    // Two ops read the same halo, one of them in a repeat.
    "input x: f32[16, 8]\ninput y: f32[16, 8]\nz[i,j] = x[i,j] + x[i+1,j] for "
    "i in 0..15, j in 0..8\nrepeat 2 {\ny[i,j] <- y[i,j] + x[i+1,j] - x[i+2,j] "
    "for i in 0..14, j in 0..8\nx[i,j] <- 0.5 * y[i,j]\n}\noutput y, z\n",
    // Strided, reversed and transposed reads.
    "input a: f64[100]\nw[i] = a[3*i+2] for i in 0..30\nr[i] = a[99-i] for i "
    "in 0..100\ny[i] = r[i] + a[i]\noutput y, w\n",
    "input x: f64[7, 12]\ny[i,j] = x[j,i]\nz[i] = y[i,3] + y[i,0]\noutput z, "
    "y\n",
    // Reductions over each dim and over all.
    "input x: f64[9, 14]\nr[i] = sum[j] x[i,j]\nc[j] = max[i] x[i,j]\n"
    "s[] = min[i,j] x[i,j]\nt[] = mean[i,j] x[i,j]\n"
    "y[i,j] = (x[i,j] - r[i]) * c[j] + s[] - t[]\noutput y, r, c, s, t\n",
    "input x: i64[8, 24]\ns[] = sum[i,j] x[i,j]\ny[i,j] = x[i,j] - s[]\n"
    "output y\n",
    // Matrix products.
    "input a: f32[12, 20]\ninput b: f32[20, 16]\ninput d: f32[16, 5]\nc[m,n] = "
    "sum[k] a[m,k] * b[k,n]\ne[m,n] = relu(sum[k] c[m,k] * d[k,n])\noutput e\n",
    "input a: f32[64, 64]\ninput b: f32[64, 64]\nc[m,n] = relu(sum[k] a[m,k] * "
    "b[k,n])\noutput c\n",
    "input a: f32[2, 24, 64]\ninput b: f32[2, 64, 40]\nc[b0,m,n] = sum[k] "
    "a[b0,m,k] * b[b0,k,n]\nd[b0,m,n] = exp(c[b0,m,n] * 0.1)\noutput d\n",
    "input a: i64[9, 11]\ninput b: i64[11, 7]\nc[m,n] = sum[k] a[m,k] * b[k,n]"
    "\noutput c\n",
    // Normalisation and softmax, whose tensors are resident in scratchpads.
    "input x: f32[64, 96]\ninput g: f32[96]\nu[i] = (sum[j] x[i,j]) / 96\n"
    "c[i,j] = x[i,j] - u[i]\nv[i] = (sum[j] c[i,j] * c[i,j]) / 96\n"
    "y[i,j] = c[i,j] * rsqrt(v[i] + 1e-5) * g[j]\noutput y\n",
    "input x: f32[24, 64]\nm[i] = max[j] x[i,j]\ne[i,j] = exp(x[i,j] - m[i])\n"
    "s[i] = sum[j] e[i,j]\ny[i,j] = e[i,j] / s[i]\noutput y\n",
    "input x: f16[64, 64]\ninput y: f16[64, 64]\nz[i,j] = x[i,j] + y[i,j]\n"
    "w[i,j] = relu(z[i,j]) * x[i,j]\nv[i,j] = w[i,j] - z[i,j]\noutput v\n",
    "input x: f32[64, 64]\ninput w: f32[64, 64]\nrepeat 2 {\ny[i,j] = sum[k] "
    "x[i,k] * w[k,j]\nx[i,j] <- x[i,j] + 0.01 * relu(y[i,j])\n}\noutput x\n",
    // Reads through an index.
    "input t: f32[8, 6]\ninput p: i32[10]\ny[i,j] = t[p[i],j]\nz[i,j] = "
    "y[9-i,j]\noutput z\n",
    // Fewer elements than ranks.
    "input x: f64[2]\ninput z: f64[1, 3]\ny[i] = x[i] + x[1-i] for i in "
    "0..2\nw[i,j] = z[i,j] + z[i,2-j]\noutput y, w\n",
};

// -- Making one ------------------------------------------------------------

static int make_program(subject *s, rng *r, uint64_t seed)
{
    int64_t n = sizeof programs / sizeof *programs;
    int fixed = rng_percent(r, 60);
    char *random = fixed ? NULL
                         : gen_program(seed, rng_percent(r, 70) ? GEN_FLOATS
                                                                : GEN_INTEGERS);
    const char *text = fixed ? programs[rng_below(r, n)] : random;
    s->program = case_program(text);
    free(random);
    return s->program != NULL;
}

// Makes a random machine or loads a built-in one.
static int make_target(dv_target **t, rng *r)
{
    static const char *const names[] = {"host", "spyre", "wormhole"};
    int64_t n = rng_below(r, 4);
    if (dv_target_load(t, names[n < 3 ? n : 0], NULL))
        return case_no("no target");
    if (n == 3)
        random_target(r, *t);
    return 1;
}

static void choose_grid(rng *r, dv_plan_options *o)
{
    static const char *const grids[] = {"2x2", "2x3", "3x2", "1x4", "2x1x2"};
    static const int64_t sizes[] = {4, 6, 6, 4, 4};
    int64_t i = rng_below(r, 5);
    if (rng_percent(r, 60) || (o->team > 0 && o->team != sizes[i]))
        return;
    o->grid = grids[i];
    o->team = sizes[i];
}

static void choose_options(rng *r, dv_plan_options *o, int64_t team)
{
    static const char *const policies[] = {"static",   "ticket",  "steal",
                                           "rect",     "streamk", "streamk2",
                                           "splitk(2)"};
    if (team != 0) {
        if (team > 0) {
            o->team = team;
            choose_grid(r, o);
        } else {
            choose_grid(r, o);
            if (o->team == 0)
                o->team = 2 + rng_below(r, 5);
        }
        o->rank = rng_below(r, o->team);
        return;
    }
    if (rng_percent(r, 30))
        o->cores = 1 + rng_below(r, 8);
    if (rng_percent(r, 30))
        o->policy = policies[rng_below(r, 7)];
    if (rng_percent(r, 30))
        o->divide = (dv_divide)(DV_DIVIDE_BEST + rng_below(r, 3));
    if (rng_percent(r, 10))
        o->scratch = DV_RESIDENTS_NONE;
}

static dv_plan *make_plan(const subject *s, const dv_target *t, rng *r,
                          int64_t team)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    choose_options(r, &o, team);
    if (t->here && !team) { // on the host the cores are threads
        o.threads = o.cores;
        o.cores = 0;
    }
    return case_plan(s->program, t, &o);
}

static int make_plans(subject *s, rng *r, int64_t team)
{
    dv_target *t = NULL;
    const char *name = s->as_planned && rng_percent(r, 50) ? "spyre" : "host";
    int ok = team ? !dv_target_load(&t, name, NULL) : make_target(&t, r);
    s->plan = ok ? make_plan(s, t, r, team) : NULL;
    dv_plan *other = s->plan ? make_plan(s, t, r, team) : NULL;
    dv_target_destroy(t);
    if (s->plan)
        s->donor = dv_plan_text(other ? other : s->plan);
    dv_plan_destroy(other);
    return s->plan != NULL;
}

// -- Running ---------------------------------------------------------------

static dv_status run_team(const subject *s, const dv_plan *plan, rng *r,
                          void *const *data, dv_diag *diag)
{
    dv_rank_options how = {.threads = (int32_t)(1 + rng_below(r, 2)),
                           .no_overlap = rng_percent(r, 30)};
    return dv_team_run_as(plan, s->as_planned ? NULL : &how, data, NULL, diag);
}

int subject_right(const subject *s, const dv_plan *plan, void *const *after)
{
    if (s->right && case_same_bits(s->plan->ops, s->right, plan->ops, after))
        return 1;
    void **before = case_buffers(plan->ops);
    int ok = case_right(s->program, plan, before, after);
    case_free(before, plan->ops);
    return ok;
}

static fate run_plan(const subject *s, const dv_plan *plan, rng *r,
                     dv_executor kind, void ***kept)
{
    job j = {0};
    int ran;
    if (plan->team.n_axes) {
        j = (job){.plan = plan,
                  .diag = dv_diag_create(),
                  .data = case_buffers(plan->ops)};
        ran = !run_team(s, plan, r, j.data, j.diag) ||
              case_no("it does not run: %s", dv_diag_text(j.diag));
    } else {
        ran = job_done(&j, plan, (int)kind);
    }
    fate f = !ran                             ? FATE_NOT_RUN
             : subject_right(s, plan, j.data) ? FATE_SAME
                                              : FATE_WRONG;
    if (kept && f == FATE_SAME) {
        *kept = j.data;
        j.data = NULL;
    }
    job_stop(&j);
    return f;
}

dv_plan *subject_accept(const char *text, fate *out)
{
    dv_plan *plan = NULL;
    *out = FATE_UNREADABLE;
    if (dv_plan_parse(&plan, text, strlen(text), "mutant", NULL, NULL, NULL))
        return NULL;
    *out = FATE_REFUSED;
    if (dv_plan_check(plan, NULL) == DV_OK)
        return plan;
    dv_plan_destroy(plan);
    return NULL;
}

fate subject_try(const subject *s, const char *text, rng *r)
{
    fate f;
    dv_plan *plan = subject_accept(text, &f);
    if (!plan)
        return f;
    static const dv_executor kinds[] = {DV_RUN_SIM, DV_RUN_THREADS, DV_RUN_SEQ};
    int n = plan->team.n_axes ? 1 : 3;
    f = FATE_SAME;
    for (int i = 0; i < n && f == FATE_SAME; i++)
        f = run_plan(s, plan, r, kinds[i], NULL);
    dv_plan_destroy(plan);
    return f;
}

int subject_make(subject *s, uint64_t seed, int64_t team)
{
    rng r = {seed * 0x9e3779b97f4a7c15u + 1};
    *s = (subject){.as_planned = team == TEAM_AS_PLANNED};
    team = s->as_planned ? -1 : team;
    int ok = make_program(s, &r, seed) && make_plans(s, &r, team);
    if (ok)
        ok = run_plan(s, s->plan, &r, DV_RUN_SEQ, &s->right) == FATE_SAME;
    if (ok)
        s->text = dv_plan_text(s->plan);
    if (!ok)
        subject_free(s);
    return ok;
}

void subject_free(subject *s)
{
    if (s->right)
        case_free(s->right, s->plan->ops);
    dv_free(s->text);
    dv_free(s->donor);
    dv_plan_destroy(s->plan);
    dv_program_destroy(s->program);
    *s = (subject){0};
}
