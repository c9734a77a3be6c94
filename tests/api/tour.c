#include <divvy/divvy.h>
#include <stdio.h>

static const char text[] = "param M = 4\n"
                           "param N = 8\n"
                           "input x: f32[M, N]\n"
                           "m[i]   = max[j] x[i,j]\n"
                           "y[i,j] = exp(x[i,j] - m[i])\n"
                           "output y\n";

static int fail(dv_diag *diag)
{
    fputs(dv_diag_text(diag), stderr);
    return dv_status_exit(dv_diag_status(diag));
}

int main(void)
{
    float x[4][8], y[4][8];
    for (int i = 0; i < 32; i++)
        x[i / 8][i % 8] = (float)i;
    dv_diag *diag = dv_diag_create();
    dv_program *program = NULL;
    dv_target *target = NULL;
    dv_plan *plan = NULL;
    dv_exec *ex = NULL;
    if (dv_program_parse(&program, text, sizeof text - 1, "tour", NULL, 0,
                         diag) ||
        dv_target_load(&target, "host", diag) ||
        dv_plan_create(&plan, program, target, NULL, diag) ||
        dv_plan_check(plan, diag) || dv_exec_create(&ex, plan, diag) ||
        dv_exec_bind(ex, "x", x, sizeof x, diag) ||
        dv_exec_bind(ex, "y", y, sizeof y, diag) || dv_exec_run(ex, diag))
        return fail(diag);
    printf("y[0][7] = %g\n", y[0][7]); // exp(0) = 1
    dv_exec_destroy(ex);
    dv_plan_destroy(plan);
    dv_target_destroy(target);
    dv_program_destroy(program);
    dv_diag_destroy(diag);
    return 0;
}
