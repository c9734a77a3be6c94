#include <divvy/build.h>
#include <stdio.h>

// y[i,j] = relu(sum[k] a[i,k] * b[k,j])
static void matmul_relu(dv_build *b)
{
    dv_build_label(b, "node 1, MatMul");
    dv_build_param(b, "N", dv_build_int(b, 4));
    dv_term n = dv_build_name(b, "N"), dims[] = {n, n};
    dv_build_input(b, "a", DV_F32, 2, dims);
    dv_build_input(b, "b", DV_F32, 2, dims);
    dv_term i = dv_build_name(b, "i"), j = dv_build_name(b, "j"),
            k = dv_build_name(b, "k");
    dv_term factors[] = {
        dv_build_access(b, "a", 2, (dv_term[]){i, k}),
        dv_build_access(b, "b", 2, (dv_term[]){k, j}),
    };
    dv_term product = dv_build_apply(b, "*", 2, factors);
    const char *over[] = {"k"};
    dv_term sum = dv_build_reduce(b, "sum", product, 1, over);
    dv_build_assign(b, dv_build_access(b, "y", 2, (dv_term[]){i, j}),
                    dv_build_apply(b, "relu", 1, &sum), NULL);
    dv_build_output(b, "y");
}

int main(void)
{
    dv_diag *diag = dv_diag_create();
    dv_build *b = dv_build_create();
    dv_program *program = NULL;
    matmul_relu(b);
    // A program can be made several times, with other values of params.
    dv_param params[] = {{"N", "512"}};
    dv_status st = dv_build_finish(&program, b, params, 1, diag);
    dv_build_destroy(b);
    fputs(dv_diag_text(diag), stderr);
    if (st == DV_OK) {
        char *text = dv_program_text(program);
        fputs(text ? text : "", stdout);
        dv_free(text);
    }
    dv_program_destroy(program);
    dv_diag_destroy(diag);
    return dv_status_exit(st);
}
