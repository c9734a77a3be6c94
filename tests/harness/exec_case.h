// Programs planned for this machine and run on made-up inputs.
#ifndef DV_EXEC_CASE_H
#define DV_EXEC_CASE_H
#include "harness/test.h"
#include "jit/backend.h"
#include "plan/plan.h"
#include "exec/exec.h"

enum { MAX_TENSORS = 16 };

typedef struct job {
    dv_program *p;
    dv_target *t;
    dv_plan *plan;
    dv_exec *x;
    dv_diag *diag;
    void *data[MAX_TENSORS]; // by tensor of the plan
} job;

static const char *policy; // of the plans that are made

static inline void start_on(job *j, const char *target, const char *text,
                            const dv_plan_options *o, dv_executor kind)
{
    *j = (job){.diag = dv_diag_create()};
    if (dv_program_parse(&j->p, text, strlen(text), "t.dv", NULL, 0, j->diag))
        fail_msg("%s", dv_diag_text(j->diag));
    assert_int_equal(dv_target_load(&j->t, target, j->diag), DV_OK);
    if (dv_plan_create(&j->plan, j->p, j->t, o, j->diag))
        fail_msg("%s", dv_diag_text(j->diag));
    if (dv_exec_create(&j->x, j->plan, j->diag) ||
        dv_exec_use(j->x, kind, j->diag))
        fail_msg("%s%s", dv_diag_text(j->diag), dv_plan_text(j->plan));
    const dv_program *p = j->plan->ops;
    for (int i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        size_t bytes = (size_t)dv_tensor_bytes(t);
        if (!t->is_input && !t->is_output)
            continue;
        j->data[i] = calloc(1, bytes);
        if (t->is_input)
            dv_fill(p, i, 3, -1, 1, j->data[i]);
        assert_int_equal(
            dv_exec_bind(j->x, t->name, j->data[i], bytes, j->diag), DV_OK);
    }
}

static inline void start(job *j, const char *text, int64_t threads,
                         dv_executor kind)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.threads = threads;
    o.policy = policy;
    start_on(j, "host", text, &o, kind);
}

static inline void stop(job *j)
{
    for (int i = 0; i < MAX_TENSORS; i++)
        free(j->data[i]);
    dv_exec_destroy(j->x);
    dv_plan_destroy(j->plan);
    dv_target_destroy(j->t);
    dv_program_destroy(j->p);
    dv_diag_destroy(j->diag);
}

// Runs it, and holds the results against the oracle's.
static inline void is_right(job *j, const char *text, int64_t threads,
                            int exact)
{
    dv_verdict v;
    void *before[MAX_TENSORS] = {0}; // updates change it
    for (int i = 0; i < j->plan->ops->n_tensors; i++)
        if (j->data[i]) {
            size_t bytes = (size_t)dv_tensor_bytes(&j->plan->ops->tensors[i]);
            before[i] = malloc(bytes);
            memcpy(before[i], j->data[i], bytes);
        }
    if (dv_exec_run(j->x, j->diag) ||
        dv_verify(&v, j->p, j->plan, before, j->data, NULL, NULL, j->diag))
        fail_msg("%s", dv_diag_text(j->diag));
    if (!v.ok || (exact && v.residual != 0))
        fail_msg("%s is %g off with %d threads:\n%s", v.tensor, v.residual,
                 (int)threads, text);
    for (int i = 0; i < MAX_TENSORS; i++)
        free(before[i]);
}

// Lowering leaves it as it is, and it is right.
static inline void stays_one_op(const char *text)
{
    job j;
    start(&j, text, 2, DV_RUN_THREADS);
    assert_int_equal(j.plan->ops->n_ops, 1);
    is_right(&j, text, 2, 0);
    stop(&j);
}

// How the last op is run, as divvy plan --dump-after jit says it.
static inline void goes(job *j, const char *text, int64_t threads,
                        const char *how)
{
    dv_text out = {0};
    char want[80];
    int32_t op = j->plan->ops->n_ops - 1;
    dv_exec_ways(j->x, &out);
    snprintf(want, sizeof want, "# op %d, %s: %s\n", (int)op,
             j->plan->ops->ops[op].name, how);
    if (dv_isa_host() && !strstr(out.at, want))
        fail_msg("with %d threads not %s:\n%s", (int)threads, want, text);
    dv_text_free(&out);
}

static inline void same(const job *a, const job *b, const char *text,
                        int threads)
{
    const dv_program *p = a->plan->ops;
    for (int i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        if (t->is_output &&
            memcmp(a->data[i], b->data[i], (size_t)dv_tensor_bytes(t)))
            fail_msg("%s differs with %d threads:\n%s", t->name, threads, text);
    }
}

// The same bits with 1 to 8 threads.
static inline void same_for_all(const char *text)
{
    job one;
    start(&one, text, 1, DV_RUN_THREADS);
    assert_int_equal(dv_exec_run(one.x, one.diag), DV_OK);
    for (int threads = 2; threads < 9; threads++) {
        job many;
        start(&many, text, threads, DV_RUN_THREADS);
        assert_int_equal(dv_exec_run(many.x, many.diag), DV_OK);
        same(&one, &many, text, threads);
        stop(&many);
    }
    stop(&one);
}

// y of two programs, to the bit.
static inline void same_y(const char *const text[2], int threads)
{
    job j[2];
    const void *y[2];
    int64_t bytes = 0;
    for (int k = 0; k < 2; k++) {
        start(&j[k], text[k], threads, DV_RUN_THREADS);
        assert_int_equal(dv_exec_run(j[k].x, j[k].diag), DV_OK);
        int t = (int)dv_program_find(j[k].plan->ops, "y");
        y[k] = j[k].data[t];
        bytes = dv_tensor_bytes(&j[k].plan->ops->tensors[t]);
    }
    if (memcmp(y[0], y[1], (size_t)bytes) != 0)
        fail_msg("%d threads:\n%s", threads, text[0]);
    stop(&j[0]);
    stop(&j[1]);
}

// By one to `most` threads: how its last op goes, its results, the same bits.
static inline void runs_right(const char *text, int64_t most, int exact,
                              const char *how)
{
    for (int64_t threads = 1; threads <= most; threads++) {
        job j;
        start(&j, text, threads, DV_RUN_THREADS);
        goes(&j, text, threads, how);
        is_right(&j, text, threads, exact);
        stop(&j);
    }
    same_for_all(text);
}
#endif
