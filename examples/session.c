// A session runs one program on matrices of several shapes: it finds the params
// M and N from the shape of x, and makes one plan for each shape.
#include <divvy/session.h>
#include <stdio.h>
#include <stdlib.h>

static const char text[] = "param M = 1\n"
                           "param N = 1\n"
                           "input x: f32[M, N]\n"
                           "m[i]   = max[j] x[i,j]\n"
                           "e[i,j] = exp(x[i,j] - m[i])\n"
                           "s[i]   = sum[j] e[i,j]\n"
                           "y[i,j] = e[i,j] / s[i]\n"
                           "output y\n";

static dv_status run(dv_session *session, int64_t rows, int64_t columns,
                     dv_diag *diag)
{
    int64_t shape[] = {rows, columns};
    size_t n = (size_t)(rows * columns);
    float *data = calloc(2 * n, sizeof *data);
    if (!data)
        return DV_E_NOMEM;
    dv_operand operands[] = {DV_OPERAND_INIT, DV_OPERAND_INIT};
    for (int i = 0; i < 2; i++) {
        operands[i].number = i; // x, then y
        operands[i].n_dims = 2;
        operands[i].shape = shape;
        operands[i].data = data + (size_t)i * n;
    }
    dv_status st = dv_session_run(session, operands, 2, diag);
    if (st == DV_OK)
        printf("%d x %d: y[0][0] = %g\n", (int)rows, (int)columns, data[n]);
    free(data);
    return st;
}

int main(void)
{
    static const int64_t shapes[][2] = {{4, 8}, {100, 64}, {4, 8}, {100, 64}};
    dv_diag *diag = dv_diag_create();
    dv_program *program = NULL;
    dv_target *target = NULL;
    dv_session *session = NULL;
    dv_session_stats stats = {0};
    dv_status st = dv_program_parse(&program, text, sizeof text - 1, "session",
                                    NULL, 0, diag);
    if (st == DV_OK)
        st = dv_target_load(&target, "host", diag);
    if (st == DV_OK)
        st = dv_session_create(&session, program, target, NULL, diag);
    for (int i = 0; i < 4 && st == DV_OK; i++)
        st = run(session, shapes[i][0], shapes[i][1], diag);
    if (session)
        dv_session_stats_get(session, &stats);
    printf("%d plans were made, %d were there\n", (int)stats.n_misses,
           (int)stats.n_hits);
    fputs(dv_diag_text(diag), stderr);
    dv_session_destroy(session);
    dv_target_destroy(target);
    dv_program_destroy(program);
    dv_diag_destroy(diag);
    return dv_status_exit(st);
}
