// Two threads run the same kernels at once, each with operands of its own: one
// has its matrix in row-major order, the other in column-major order. Neither
// is copied.
#include <divvy/run.h>
#include <pthread.h>
#include <stdio.h>

enum { M = 64, N = 48 };

static const char text[] = "input x: f32[64, 48]\n"
                           "y[i] = sum[j] x[i,j] * x[i,j]\n"
                           "output y\n";

typedef struct job {
    const dv_plan *plan;
    int64_t strides[2]; // of x, in elements
    float x[M * N], y[M];
    dv_status status;
    int copied; // 1 if the run copied x
} job;

// Each thread has an exec here because the strides differ; threads with the
// same strides share one.
static dv_status run(job *j, dv_diag *diag)
{
    static const int64_t shape[] = {M, N};
    dv_strides strides = {"x", j->strides};
    dv_exec_options options = DV_EXEC_OPTIONS_INIT;
    dv_operand x = DV_OPERAND_INIT, y = DV_OPERAND_INIT;
    dv_exec *exec = NULL;
    dv_run *r = NULL;
    options.strides = &strides;
    options.n_strides = 1;
    x.name = "x";
    x.n_dims = 2;
    x.shape = shape;
    x.strides = j->strides;
    x.data = j->x;
    y.name = "y";
    y.n_dims = 1;
    y.shape = shape;
    y.data = j->y;
    dv_status st = dv_exec_create_with(&exec, j->plan, &options, diag);
    if (st == DV_OK)
        st = dv_run_create(&r, exec, NULL, diag);
    if (st == DV_OK)
        st = dv_run_bind(r, &x, diag);
    if (st == DV_OK)
        st = dv_run_bind(r, &y, diag);
    if (st == DV_OK)
        st = dv_run_now(r, diag);
    j->copied = r && dv_run_copies(r, 0);
    dv_run_destroy(r);
    dv_exec_destroy(exec);
    return st;
}

static void *work(void *arg)
{
    job *j = arg;
    dv_diag *diag = dv_diag_create();
    j->status = run(j, diag);
    fputs(dv_diag_text(diag), stderr);
    dv_diag_destroy(diag);
    return NULL;
}

int main(void)
{
    static job jobs[2];
    pthread_t threads[2];
    dv_diag *diag = dv_diag_create();
    dv_program *program = NULL;
    dv_target *target = NULL;
    dv_plan *plan = NULL;
    if (dv_program_parse(&program, text, sizeof text - 1, "runs", NULL, 0,
                         diag) ||
        dv_target_load(&target, "host", diag) ||
        dv_plan_create(&plan, program, target, NULL, diag)) {
        fputs(dv_diag_text(diag), stderr);
        return 1;
    }
    for (int k = 0; k < 2; k++) {
        job *j = &jobs[k];
        j->plan = plan;
        j->strides[0] = k ? 1 : N;
        j->strides[1] = k ? M : 1;
        for (int i = 0; i < M; i++)
            for (int n = 0; n < N; n++)
                j->x[i * j->strides[0] + n * j->strides[1]] = (float)(i + k);
        pthread_create(&threads[k], NULL, work, j);
    }
    for (int k = 0; k < 2; k++)
        pthread_join(threads[k], NULL);
    for (int k = 0; k < 2; k++)
        printf("y[2] = %g, %s\n", jobs[k].y[2],
               jobs[k].copied ? "x was copied" : "x was read in place");
    dv_plan_destroy(plan);
    dv_target_destroy(target);
    dv_program_destroy(program);
    dv_diag_destroy(diag);
    return jobs[0].status || jobs[1].status;
}
