// Runs the operator tests of ONNX (Debian's package libonnx-testdata): imports
// each model, runs it on its inputs, and compares its outputs with those that
// are recorded, with ONNX's tolerance (rtol 1e-3, atol 1e-7). Every test runs
// in a process of its own. A wrong value is a failure, a refusal is not.
//
//   onnx_ops [-v] [-t] [-n LEAST] FOLDER [NAME]
//     -v: one line per test   -t: the table of docs/onnx.md
//     -n: fails unless at least so many tests pass
#define _DEFAULT_SOURCE
#include "base/dtype.h"
#include "base/file.h"
#include "divvy/divvy.h"
#include "onnx/model.h"
#include "onnx/onnx.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PASS, REFUSED, WRONG, N_VERDICTS };
static const char *const verdicts[] = {"pass", "refused", "WRONG"};

typedef struct result {
    int verdict;
    char op[64], text[400];
} result;

// The inputs of one set of test data, which the importer may ask for.
typedef struct data_set {
    dv_arena arena;
    dv_onnx_model model;
    const char *folder;
    dv_onnx_tensor in[32];
    const void *data[32];
    int n;
} data_set;

static int say(result *r, int verdict, const char *text, const char *more)
{
    r->verdict = verdict;
    // Long messages are cut.
    snprintf(r->text, sizeof r->text, "%.80s%.300s", text, more);
    for (char *c = r->text; *c; c++)
        if (*c == '\n')
            *c = ' ';
    return 0;
}

// Reads a tensor. Files of bfloat16 claim to have uint16: `type` is the type in
// the model.
static int read_tensor(const char *path, int type, dv_arena *arena,
                       dv_onnx_tensor *t, const void **data)
{
    char *bytes;
    size_t len;
    dv_source src = {path, "", 0};
    if (dv_file_read(&bytes, &len, path, (int64_t)1 << 31, NULL) ||
        dv_onnx_read_tensor(t, bytes, len, &src, arena, NULL))
        return 0;
    if (t->type == DV_ONNX_UINT16 && type == DV_ONNX_BFLOAT16)
        t->type = DV_ONNX_BFLOAT16;
    return dv_onnx_elements(data, t, &src, arena, NULL) == DV_OK;
}

static int input_index(const data_set *s, const char *name)
{
    const dv_onnx_graph *g = &s->model.graph;
    for (int i = 0; i < g->n_inputs; i++)
        if (!strcmp(g->inputs[i].name, name))
            return i;
    return -1;
}

static int contents(void *user, const char *input, void *data, size_t size)
{
    const data_set *s = user;
    int i = input_index(s, input);
    if (i < 0 || i >= s->n || !s->data[i])
        return 0;
    memcpy(data, s->data[i], size);
    return 1;
}

static int close_enough(dv_dtype t, const void *a, const void *b, int64_t n,
                        char *text, size_t room)
{
    // The data of bf16 was cut off where the standard says that it is rounded:
    // a unit in the last place is allowed.
    double rtol = t == DV_BF16 ? 1.0 / 128 : 1e-3;
    for (int64_t i = 0; i < n; i++) {
        double x = dv_load(t, a, i), y = dv_load(t, b, i);
        int same = x == y || (isnan(x) && isnan(y)) ||
                   fabs(x - y) <= 1e-7 + rtol * fabs(y);
        if (!same) {
            snprintf(text, room, "element %lld is %g, not %g", (long long)i, x,
                     y);
            return 0;
        }
    }
    return 1;
}

// Compares output number i with its file.
static int compare(const data_set *s, int i, const dv_tensor_info *t,
                   const void *data, result *r)
{
    char path[6000], text[200];
    dv_onnx_tensor want;
    const void *elements;
    int64_t n = 1;
    dv_arena arena = {0};
    snprintf(path, sizeof path, "%s/output_%d.pb", s->folder, i);
    if (!read_tensor(path, s->model.graph.outputs[i].type, &arena, &want,
                     &elements))
        return say(r, WRONG, "cannot read ", path);
    if (dv_onnx_dtype(want.type) != (int)t->dtype)
        return say(r, WRONG, "the type of an output is wrong: ", t->name);
    int same = want.n_dims == t->n_dims;
    for (int d = 0; d < t->n_dims && same; d++) {
        same = want.dims[d] == t->shape[d];
        n *= t->shape[d];
    }
    if (!same)
        return say(r, WRONG, "the shape of an output is wrong: ", t->name);
    if (!close_enough(t->dtype, data, elements, n, text, sizeof text))
        return say(r, WRONG, t->name, text);
    return 1;
}

static int find_tensor(const dv_program *p, const char *name,
                       dv_tensor_info *out)
{
    for (int i = 0; i < dv_program_n_tensors(p); i++)
        if (dv_program_tensor(p, i, out) == DV_OK && !strcmp(out->name, name))
            return 1;
    return 0;
}

static int run(const data_set *s, dv_onnx *m, const dv_plan *plan, result *r,
               dv_diag *diag)
{
    dv_exec *ex = NULL;
    dv_onnx_binding b;
    void *out[64] = {0};
    dv_tensor_info t[64];
    if (dv_exec_create(&ex, plan, diag) || dv_onnx_bind(m, ex, diag))
        return say(r, REFUSED, "exec: ", dv_diag_text(diag));
    for (int i = 0; dv_onnx_input(m, i, &b); i++) {
        int k = input_index(s, b.model_name);
        if (k < 0 || k >= s->n)
            return say(r, WRONG, "there is no data for input ", b.model_name);
        void *data = (void *)(uintptr_t)s->data[k];
        if (dv_exec_bind(ex, b.tensor, data, b.size_bytes, diag))
            return say(r, WRONG, "bind: ", dv_diag_text(diag));
    }
    for (int i = 0; i < 64 && dv_onnx_output(m, i, &b); i++) {
        out[i] = calloc(b.size_bytes + 64, 1);
        if (!find_tensor(dv_onnx_program(m), b.tensor, &t[i]) ||
            dv_exec_bind(ex, b.tensor, out[i], b.size_bytes, diag))
            return say(r, WRONG, "bind: ", dv_diag_text(diag));
    }
    if (dv_exec_run(ex, diag))
        return say(r, REFUSED, "run: ", dv_diag_text(diag));
    for (int i = 0; i < 64 && out[i]; i++)
        if (!compare(s, i, &t[i], out[i], r))
            return 0;
    dv_exec_destroy(ex);
    return 1;
}

static int one_set(data_set *s, const char *path, result *r)
{
    dv_onnx *m = NULL;
    dv_target *target = NULL;
    dv_plan *plan = NULL;
    dv_diag *diag = dv_diag_create();
    dv_onnx_options options = DV_ONNX_OPTIONS_INIT;
    options.contents = contents;
    options.user = s;
    if (dv_onnx_load(&m, path, &options, diag))
        return say(r, REFUSED, "", dv_diag_text(diag));
    dv_plan_options how = DV_PLAN_OPTIONS_INIT;
    how.threads = 1;
    if (dv_target_load(&target, "host", diag) ||
        dv_plan_create(&plan, dv_onnx_program(m), target, &how, diag) ||
        dv_plan_check(plan, diag))
        return say(r, REFUSED, "plan: ", dv_diag_text(diag));
    int ok = run(s, m, plan, r, diag);
    dv_plan_destroy(plan);
    dv_target_destroy(target);
    dv_onnx_destroy(m);
    dv_diag_destroy(diag);
    return ok;
}

static void name_operator(const dv_onnx_graph *g, result *r)
{
    snprintf(r->op, sizeof r->op, "%.60s",
             g->n_nodes == 1   ? g->nodes[0].type
             : g->n_nodes == 0 ? "(no node)"
                               : "(several)");
}

static void one_test(const char *folder, result *r)
{
    char path[5000], part[6000];
    char *bytes;
    size_t len;
    int sets = 0;
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    dv_source src = {path, "", 0};
    data_set s = {0};
    if (dv_file_read(&bytes, &len, path, (int64_t)1 << 31, NULL) ||
        dv_onnx_read_model(&s.model, bytes, len, &src, &s.arena, NULL)) {
        say(r, WRONG, "cannot read ", path);
        return;
    }
    name_operator(&s.model.graph, r);
    for (;; sets++) {
        char set[5500];
        snprintf(set, sizeof set, "%s/test_data_set_%d", folder, sets);
        s.folder = set;
        for (s.n = 0; s.n < 32; s.n++) {
            snprintf(part, sizeof part, "%s/input_%d.pb", set, s.n);
            if (access(part, R_OK) != 0)
                break;
            // Sequences and the like are no tensors: the model is refused.
            int type = s.n < s.model.graph.n_inputs
                           ? s.model.graph.inputs[s.n].type
                           : 0;
            if (!read_tensor(part, type, &s.arena, &s.in[s.n], &s.data[s.n]))
                s.data[s.n] = NULL;
        }
        struct stat st;
        if (stat(set, &st) != 0)
            break;
        if (!one_set(&s, path, r))
            return;
    }
    say(r, sets ? PASS : WRONG, sets ? "" : "there is no test data", "");
}

// Runs a test in a process of its own, so that none can stop the others.
static void isolated(const char *folder, result *r)
{
    int pipes[2], status;
    *r = (result){WRONG, "", "the process was killed"};
    if (pipe(pipes) != 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        result own = {0};
        close(pipes[0]);
        alarm(120);
        one_test(folder, &own);
        ssize_t n = write(pipes[1], &own, sizeof own);
        _exit(n != (ssize_t)sizeof own);
    }
    close(pipes[1]);
    result got;
    if (pid > 0 && read(pipes[0], &got, sizeof got) == (ssize_t)sizeof got)
        *r = got;
    close(pipes[0]);
    waitpid(pid, &status, 0);
}

typedef struct row {
    char op[64];
    int n[N_VERDICTS];
} row;

static row rows[512];
static int n_rows, totals[N_VERDICTS];

static void count(const result *r)
{
    int i = 0;
    while (i < n_rows && strcmp(rows[i].op, r->op))
        i++;
    if (i == n_rows && n_rows < 511)
        snprintf(rows[n_rows++].op, sizeof rows->op, "%s", r->op);
    rows[i].n[r->verdict]++;
    totals[r->verdict]++;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const row *)a)->op, ((const row *)b)->op);
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void folder_of_tests(const char *folder, const char *only, int verbose)
{
    struct dirent **list;
    int n = scandir(folder, &list, NULL, compare_names);
    for (int i = 0; i < n; i++) {
        char path[4700];
        result r;
        snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name);
        if (!strncmp(list[i]->d_name, "test_", 5) &&
            (!only || !strcmp(only, list[i]->d_name))) {
            isolated(path, &r);
            count(&r);
            if (verbose || r.verdict == WRONG)
                printf("%-7s %-20s %s: %s\n", verdicts[r.verdict], r.op,
                       list[i]->d_name, r.text);
            fflush(stdout);
        }
        free(list[i]);
    }
    if (n >= 0)
        free(list);
}

static void print_table(void)
{
    qsort(rows, (size_t)n_rows, sizeof *rows, by_name);
    printf("| operator | pass | refused | wrong |\n|---|---|---|---|\n");
    for (int i = 0; i < n_rows; i++)
        printf("| %s | %d | %d | %d |\n", rows[i].op, rows[i].n[PASS],
               rows[i].n[REFUSED], rows[i].n[WRONG]);
}

int main(int argc, char **argv)
{
    static const char *const parts[] = {"node", "pytorch-converted",
                                        "pytorch-operator", "simple"};
    int verbose = 0, table = 0, least = 0, c;
    while ((c = getopt(argc, argv, "vtn:")) != -1) {
        verbose |= c == 'v';
        table |= c == 't';
        least = c == 'n' ? atoi(optarg) : least;
    }
    if (optind >= argc || access(argv[optind], R_OK) != 0) {
        puts("libonnx-testdata is not installed: skipped");
        return 77;
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char path[4400];
        snprintf(path, sizeof path, "%s/%s", argv[optind], parts[i]);
        folder_of_tests(path, optind + 1 < argc ? argv[optind + 1] : NULL,
                        verbose);
    }
    if (table)
        print_table();
    printf("%d pass, %d are refused, %d are wrong\n", totals[PASS],
           totals[REFUSED], totals[WRONG]);
    return totals[WRONG] > 0 || totals[PASS] < least;
}
