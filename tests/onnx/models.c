// Runs whole models and compares their outputs with those of ONNX Runtime 1.30
// (models.txt): 64 samples and the sum of each output, relative to its largest
// sample. The models, their weights and inputs are not part of the project:
// the folder that holds MODEL.onnx, MODEL.weights and MODEL.INPUT.npy is an
// argument.
//
//   onnx_models EXPECTED FOLDER [THREADS|import [MODEL]]
//
// With `import`, each model is written as a program with .npy files, and this
// program is run.
#define _DEFAULT_SOURCE
#include "base/clock.h"
#include "base/dtype.h"
#include "base/npy.h"
#include "divvy/divvy.h"
#include "onnx/onnx.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_SAMPLES = 64 };

typedef struct expected {
    char name[64];
    int n_samples;
    long long n_elems;
    double sum, abs, samples[N_SAMPLES];
} expected;

static int fail(const char *model, const char *what, dv_diag *diag)
{
    printf("%-22s %s %s\n", model, what, diag ? dv_diag_text(diag) : "");
    return 0;
}

static dv_status bind_inputs(dv_onnx *m, dv_exec *ex, const char *stem,
                             dv_diag *diag)
{
    dv_onnx_binding b;
    for (int i = 0; dv_onnx_input(m, i, &b); i++) {
        char path[4200];
        dv_tensor_info t = {0};
        const dv_program *p = dv_onnx_program(m);
        for (int k = 0; k < dv_program_n_tensors(p); k++)
            if (dv_program_tensor(p, k, &t) == DV_OK &&
                !strcmp(t.name, b.tensor))
                break;
        snprintf(path, sizeof path, "%s.%s.npy", stem, b.model_name);
        void *data = malloc(b.size_bytes + 64);
        if (!data)
            return DV_E_NOMEM;
        dv_status st =
            dv_npy_read(path, t.name, t.dtype, t.n_dims, t.shape, data, diag);
        if (st != DV_OK)
            return st;
        st = dv_exec_bind(ex, b.tensor, data, b.size_bytes, diag);
        if (st != DV_OK)
            return st;
    }
    return DV_OK;
}

static int compare(const expected *e, const float *y, long long n)
{
    double most = 0, worst = 0, sum = 0;
    if (n != e->n_elems) {
        printf("%-22s has %lld elements, not %lld\n", e->name, n, e->n_elems);
        return 0;
    }
    for (int i = 0; i < e->n_samples; i++)
        most = fmax(most, fabs(e->samples[i]));
    for (int i = 0; i < e->n_samples; i++) {
        long long at = n / e->n_samples * i;
        double d = fabs((double)y[at] - e->samples[i]);
        worst = d <= worst ? worst : d; // a number that is none stays
    }
    for (long long i = 0; i < n; i++)
        sum += (double)y[i];
    double of_sum = fabs(sum - e->sum) / e->abs;
    int ok = worst <= 1e-3 * most && of_sum <= 1e-3;
    printf("%-22s %s: samples differ by %.2g, the sum by %.2g", e->name,
           ok ? "ok" : "WRONG", worst / most, of_sum);
    return ok;
}

// Writes the model as a program into a new folder, and loads it.
static dv_status import(dv_program **out, char *dir, const char *path,
                        dv_diag *diag)
{
    char file[64];
    if (!mkdtemp(dir))
        return DV_E_SYSTEM;
    snprintf(file, sizeof file, "%s/program.dv", dir);
    dv_status st = dv_onnx_write(path, NULL, dir, diag);
    return st ? st : dv_program_load(out, file, NULL, 0, diag);
}

static void remove_folder(const char *dir)
{
    char command[80];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command) != 0)
        printf("%s is left\n", dir);
}

static int run(const expected *e, const char *folder, int threads, int imported)
{
    char dir[] = "/tmp/onnx_models_XXXXXX";
    dv_program *copy = NULL;
    char stem[4096], path[4200];
    dv_onnx *m = NULL;
    dv_target *target = NULL;
    dv_plan *plan = NULL;
    dv_exec *ex = NULL;
    dv_onnx_binding out;
    dv_diag *diag = dv_diag_create();
    dv_plan_options options = DV_PLAN_OPTIONS_INIT;
    options.threads = threads;
    snprintf(stem, sizeof stem, "%s/%s", folder, e->name);
    snprintf(path, sizeof path, "%s.onnx", stem);
    double start = dv_clock_s();
    if (dv_onnx_load(&m, path, NULL, diag))
        return fail(e->name, "", diag);
    if (imported && import(&copy, dir, path, diag))
        return fail(e->name, "import:", diag);
    double loaded = dv_clock_s();
    if (dv_target_load(&target, "host", diag) ||
        dv_plan_create(&plan, copy ? copy : dv_onnx_program(m), target,
                       &options, diag) ||
        dv_plan_check(plan, diag) || dv_exec_create(&ex, plan, diag))
        return fail(e->name, "plan:", diag);
    double planned = dv_clock_s();
    dv_onnx_output(m, 0, &out);
    float *y = calloc(out.size_bytes + 64, 1);
    if ((!copy && dv_onnx_bind(m, ex, diag)) ||
        bind_inputs(m, ex, stem, diag) ||
        dv_exec_bind(ex, out.tensor, y, out.size_bytes, diag) ||
        dv_exec_run(ex, diag))
        return fail(e->name, "run:", diag);
    double first = dv_clock_s();
    dv_exec_run(ex, diag);
    double second = dv_clock_s();
    int ok = compare(e, y, (long long)(out.size_bytes / 4));
    printf("; load %.2f s, plan %.2f s, first run %.2f s, second %.1f ms\n",
           loaded - start, planned - loaded, first - planned,
           (second - first) * 1e3);
    fflush(stdout);
    dv_exec_destroy(ex);
    dv_plan_destroy(plan);
    dv_target_destroy(target);
    dv_onnx_destroy(m);
    dv_program_destroy(copy);
    if (imported)
        remove_folder(dir);
    dv_diag_destroy(diag);
    return ok;
}

static int read_expected(FILE *f, expected *e)
{
    if (fscanf(f, "%63s %lld %lf %lf %d", e->name, &e->n_elems, &e->sum,
               &e->abs, &e->n_samples) != 5 ||
        e->n_samples < 2 || e->n_samples > N_SAMPLES)
        return 0;
    for (int i = 0; i < e->n_samples; i++)
        if (fscanf(f, "%lf", &e->samples[i]) != 1)
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    FILE *f = argc > 2 ? fopen(argv[1], "r") : NULL;
    expected e;
    int runs = 0, bad = 0;
    while (f && read_expected(f, &e)) {
        char path[4200];
        snprintf(path, sizeof path, "%s/%s.weights", argv[2], e.name);
        if ((argc > 4 && strcmp(argv[4], e.name)) || access(path, R_OK) != 0)
            continue;
        runs++;
        int imported = argc > 3 && !strcmp(argv[3], "import");
        int threads = argc > 3 && !imported ? atoi(argv[3]) : 1;
        bad += !run(&e, argv[2], threads, imported);
    }
    if (f)
        fclose(f);
    if (!runs)
        puts("no models: DIVVY_ONNX_MODELS is the folder that has them");
    return runs ? bad > 0 : 77;
}
