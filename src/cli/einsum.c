// divvy einsum: takes an expression and shapes, or a contraction tree and
// sizes; shows the contraction order and the program, or runs it.
#include "base/math.h"
#include "base/npy.h"
#include "base/plural.h"
#include "cli/load.h"
#include "einsum/einsum.h"
#include "exec/exec.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
    const cli_command *c;
    // The words of the command: the expression, then the operands' shapes.
    const char *words[DV_MAX_OPERANDS + 1];
    int n_words;
    const char *tree, *sizes, *dtype, *result, *out, *target_name;
    const char *random;
    cli_list in;
    int print, path, json, verify, time;
    cli_verify_options verify_options;
    int order; // a dv_path_search, counted from 1; 0: not given
    int64_t max_elems, seed;
    double low, high;
    dv_plan_options plan;
    // The number of operands and, for each of them, its descriptor, shape, file
    // (or NULL) and data.
    int n_in;
    dv_array arrays[DV_MAX_OPERANDS];
    int64_t shapes[DV_MAX_OPERANDS][DV_MAX_DIMS];
    const char *files[DV_MAX_OPERANDS];
    void *data[DV_MAX_OPERANDS];
    dv_target *target;
    dv_einsum_exec *exec;
    dv_tensor y;
    void *result_data;
    double seconds; // time of the run; with --time, the median of all runs
    int n_runs;
    dv_verdict verdict;
    dv_arena arena; // holds the verdict's lists
    dv_diag *diag;
} job;

static int read_dtype(const job *j, const char *text, dv_dtype *out)
{
    int t = dv_dtype_find(text, strlen(text));
    if (t < 0)
        return cli_usage(j->c,
                         "there is no type %s: there are f64 f32 f16 "
                         "bf16 i64 i32 i16 i8 u64 u32 u16 u8 bool",
                         text);
    *out = (dv_dtype)t;
    return -1;
}

// Parses an integer that is followed by one of `ends` or the end of the text.
// Returns 0 on failure.
static int read_number(const char **at, const char *ends, int64_t *out)
{
    char *end;
    if (**at < '0' || **at > '9')
        return 0;
    errno = 0;
    *out = strtoll(*at, &end, 10);
    *at = end;
    return errno == 0 && (!*end || strchr(ends, *end));
}

// Parses the shape of operand i, such as 64x32 or 64x32:f16; - is a scalar.
static int read_shape(job *j, int i, const char *text)
{
    dv_array *a = &j->arrays[i];
    const char *at = text;
    if (*at == '-')
        at++;
    while (*at && *at != ':') {
        if (a->n_dims == DV_MAX_DIMS)
            return cli_usage(j->c, "'%s' has more than %d dims", text,
                             (int)DV_MAX_DIMS);
        if (*text == '-' ||
            !read_number(&at, "x:", &j->shapes[i][a->n_dims++]) ||
            (*at == 'x' && !*++at))
            return cli_usage(j->c,
                             "a shape is 64x32, 64x32:f16 or - for a "
                             "scalar, not '%s'; --in %d=FILE.npy reads an "
                             "operand from a file, with its shape",
                             text, i);
    }
    return *at == ':' ? read_dtype(j, at + 1, &a->dtype) : -1;
}

// Finds which operands the --in options give files for.
static int read_ins(job *j)
{
    for (int i = 0; i < j->in.n; i++) {
        char name[16];
        const char *path = cli_split(j->in.at[i], name, sizeof name),
                   *at = name;
        int64_t n = 0;
        if (!path || !read_number(&at, "", &n))
            return cli_usage(j->c, "--in takes NUMBER=FILE.npy, not '%s'",
                             j->in.at[i]);
        if (!strcmp(path, "-"))
            return cli_usage(j->c,
                             "--in %s: an array is in a file, not in standard "
                             "input",
                             j->in.at[i]);
        if (n >= DV_MAX_OPERANDS)
            return cli_usage(j->c, "--in %s: there is no such operand", name);
        j->files[n] = path;
        if (n >= j->n_in && j->n_words < 2 && !j->tree)
            j->n_in = (int)n + 1;
    }
    for (int i = j->n_in; i < DV_MAX_OPERANDS; i++)
        if (j->files[i])
            return cli_usage(j->c, "--in %d: there is no such operand", i);
    return -1;
}

// Takes the shape and type of operand i from the header of its .npy file.
static dv_status shape_from_file(job *j, int i)
{
    dv_npy_header h;
    DV_TRY(cli_npy_header(j->files[i], &h, j->diag));
    j->arrays[i].dtype = h.dtype;
    j->arrays[i].n_dims = h.n_dims;
    for (int d = 0; d < h.n_dims; d++)
        j->shapes[i][d] = h.shape[d];
    return DV_OK;
}

// Parses --sizes: the size of every index of a contraction tree. A tree's
// indices are numbers, which are positions in this list.
static int read_sizes(const job *j, int64_t *sizes, int *n)
{
    const char *at = j->sizes;
    for (*n = 0;; at++) {
        if (*n == DV_MAX_IDS)
            return cli_usage(j->c, "--sizes has more than %d numbers",
                             (int)DV_MAX_IDS);
        if (!read_number(&at, ",", &sizes[(*n)++]))
            return cli_usage(j->c, "--sizes takes numbers like 8,4,7, not '%s'",
                             j->sizes);
        if (!*at)
            return -1;
    }
}

// Sets the shapes of the operands of a tree from the sizes of their indices.
static dv_status shapes_from_tree(job *j, const int64_t *sizes, int n)
{
    dv_arena arena = {0};
    dv_formula f;
    if (j->tree[strspn(j->tree, " \t\r\n")] != '[') {
        const dv_source src = {"einsum", j->tree, strlen(j->tree)};
        return dv_fail(j->diag, DV_E_SYNTAX, (dv_loc){&src, 0},
                       "a tree begins with '['");
    }
    dv_status st =
        dv_formula_parse(&f, j->tree, strlen(j->tree), &arena, j->diag);
    j->n_in = st == DV_OK ? f.n_in : 0;
    for (int i = 0; i < j->n_in; i++) {
        j->arrays[i].n_dims = f.in[i].n_dims;
        for (int d = 0; d < f.in[i].n_dims && st == DV_OK; d++) {
            int id = f.in[i].id[d];
            if (id >= n)
                st = dv_fail(
                    j->diag, DV_E_NAME, (dv_loc){&f.src, f.in[i].at[d]},
                    "index %d has no size: --sizes has %d numbers", id, n);
            else
                j->shapes[i][d] = sizes[id];
        }
    }
    dv_arena_free(&arena);
    return st;
}

static int read_tree(job *j)
{
    int64_t sizes[DV_MAX_IDS];
    int n;
    if (!j->sizes)
        return cli_usage(j->c, "--tree needs --sizes");
    if (j->n_words)
        return cli_usage(j->c, "'%s': with --tree the shapes come from --sizes",
                         j->words[0]);
    int code = read_sizes(j, sizes, &n);
    if (code < 0 && shapes_from_tree(j, sizes, n))
        code = cli_fail(j->diag);
    return code;
}

static int read_operands(job *j)
{
    int code = -1;
    dv_dtype dtype = DV_F32;
    if (j->dtype)
        code = read_dtype(j, j->dtype, &dtype);
    if (code < 0 && !j->tree && !j->n_words)
        code = cli_usage(j->c, "an expression is needed");
    if (code < 0 && j->sizes && !j->tree)
        code = cli_usage(j->c, "--sizes is for --tree");
    for (int i = 0; i < DV_MAX_OPERANDS; i++) {
        j->arrays[i].dtype = dtype;
        j->arrays[i].shape = j->shapes[i];
    }
    if (code < 0 && j->tree)
        code = read_tree(j);
    else if (code < 0)
        j->n_in = j->n_words - 1;
    if (code < 0)
        code = read_ins(j);
    for (int i = 0; i < j->n_in && code < 0; i++) {
        if (!j->tree && i + 1 < j->n_words)
            code = read_shape(j, i, j->words[i + 1]);
        else if (!j->tree && j->files[i] && shape_from_file(j, i))
            code = cli_fail(j->diag);
        else if (!j->tree && !j->files[i])
            code =
                cli_usage(j->c, "operand %d has neither a shape nor a file", i);
    }
    return code;
}

// Counts the elements of a shape. Returns 0 if they do not fit in int64_t.
static int count(int64_t *elems, const int64_t *shape, int n)
{
    int fits = 1, empty = 0;
    *elems = 1;
    for (int d = 0; d < n; d++) {
        empty |= shape[d] == 0;
        fits = fits && dv_mul_i64(elems, *elems, shape[d]);
    }
    if (empty)
        *elems = 0;
    return fits || empty;
}

static int create(job *j)
{
    dv_einsum_options o = DV_EINSUM_OPTIONS_INIT;
    dv_dtype result = DV_F32;
    if (j->result) {
        int code = read_dtype(j, j->result, &result);
        if (code >= 0)
            return code;
        o.result_dtype = (int)result;
    }
    if (dv_target_load(&j->target, j->target_name ? j->target_name : "host",
                       j->diag) ||
        cli_apply_environment(j->target, &j->plan, j->diag))
        return cli_fail(j->diag);
    o.target = j->target;
    j->plan.size = sizeof j->plan;
    o.plan = &j->plan;
    if (j->order)
        o.path = (dv_path_search)(j->order - 1);
    o.max_elems = j->max_elems;
    if (dv_einsum_create(&j->exec, j->tree ? j->tree : j->words[0], j->arrays,
                         (size_t)j->n_in, &o, j->diag))
        return cli_fail(j->diag);
    dv_array y = dv_einsum_output(j->exec);
    j->y = (dv_tensor){
        .name = "y", .dtype = y.dtype, .n_dims = y.n_dims, .shape = y.shape};
    if (!count(&j->y.n_elems, y.shape, y.n_dims)) {
        dv_nomem(j->diag);
        return cli_fail(j->diag);
    }
    return -1;
}

static dv_status get_operand(job *j, int i, const dv_program *p)
{
    const dv_array *a = &j->arrays[i];
    int64_t bytes;
    char name[32];
    if (!count(&bytes, a->shape, a->n_dims) ||
        !dv_mul_i64(&bytes, bytes, dv_dtype_get(a->dtype)->size_bytes))
        return dv_nomem(j->diag);
    j->data[i] = dv_alloc((size_t)bytes + 1); // avoid a zero-byte allocation
    if (!j->data[i])
        return dv_nomem(j->diag);
    memset(j->data[i], 0, (size_t)bytes);
    snprintf(name, sizeof name, "operand %d", i);
    if (j->files[i])
        return dv_npy_read(j->files[i], name, a->dtype, a->n_dims, a->shape,
                           j->data[i], j->diag);
    snprintf(name, sizeof name, "x%d", i);
    if (p)
        dv_fill(p, dv_program_find(p, name), (uint64_t)j->seed, j->low, j->high,
                j->data[i]);
    return DV_OK;
}

static dv_status get_data(job *j)
{
    const dv_plan *plan = dv_einsum_plan(j->exec);
    if (plan)
        DV_TRY(cli_check_memory(
            plan->ops,
            j->verify && cli_verify_is_full(&j->verify_options,
                                            dv_einsum_program(j->exec), plan),
            j->diag));
    for (int i = 0; i < j->n_in; i++) {
        DV_TRY(get_operand(j, i, plan ? plan->ops : NULL));
        DV_TRY(dv_einsum_bind(j->exec, (size_t)i, j->data[i], NULL, j->diag));
    }
    j->result_data = dv_alloc((size_t)dv_tensor_bytes(&j->y) + 1);
    if (!j->result_data)
        return dv_nomem(j->diag);
    return dv_einsum_bind(j->exec, (size_t)j->n_in, j->result_data, NULL,
                          j->diag);
}

// Makes the program for the oracle (the reference evaluator): the whole formula
// in one loop nest if that is not too much work; otherwise none, and the oracle
// evaluates the pairwise steps. Integers from files also use the steps: those
// wrap around, while the oracle's doubles could not hold a whole sum.
static dv_status make_source(const job *j, dv_program **out)
{
    enum { MAX_POINTS = 100000000 };
    const dv_einsum_core *core = dv_einsum_core_of(j->exec);
    dv_text text = {0};
    dv_status st = DV_OK;
    if ((dv_is_float(core->dtype) || !j->in.n) &&
        core->path.naive_flops <= MAX_POINTS)
        dv_formula_program(&text, &core->f, core->in, core->dtype);
    if (text.failed)
        st = dv_nomem(j->diag);
    else if (text.len)
        st = dv_program_parse(out, text.at, text.len, "einsum", NULL, 0,
                              j->diag);
    dv_text_free(&text);
    return st;
}

static dv_status verify(job *j)
{
    const dv_plan *plan = dv_einsum_plan(j->exec);
    dv_program *source = NULL;
    if (!plan) {
        j->verdict = (dv_verdict){.ok = 1, .decided = 1, .tensor = "y"};
        return DV_OK;
    }
    void **before = calloc((size_t)plan->ops->n_tensors * 2, sizeof *before);
    void **after = before ? before + plan->ops->n_tensors : NULL;
    if (!before)
        return dv_nomem(j->diag);
    for (int i = 0; i < j->n_in; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        before[dv_program_find(plan->ops, name)] = j->data[i];
    }
    for (int32_t i = 0; i < plan->ops->n_tensors; i++)
        after[i] = dv_exec_stored(dv_einsum_inner(j->exec), i);
    after[dv_program_find(plan->ops, "y")] = j->result_data;
    dv_status st = make_source(j, &source);
    if (st == DV_OK)
        st = cli_verify(&j->verdict, &j->verify_options, j->seed,
                        source ? source : dv_einsum_program(j->exec), plan,
                        before, after, NULL, &j->arena, j->diag);
    dv_program_destroy(source);
    free(before);
    return st;
}

static dv_status run_once(job *j, double *seconds)
{
    double start = dv_clock_s();
    dv_status st = dv_einsum_run(j->exec, j->diag);
    *seconds = dv_clock_s() - start;
    return st;
}

// Runs once as a warm-up, then at least FEW times and for at least half a
// second.
static dv_status run_often(job *j)
{
    enum { FEW = 5, MANY = 10000 };
    static double s[MANY];
    DV_TRY(run_once(j, s));
    double start = dv_clock_s();
    for (j->n_runs = 0; j->n_runs < MANY; j->n_runs++) {
        if (j->n_runs >= FEW && dv_clock_s() - start > 0.5)
            break;
        DV_TRY(run_once(j, &s[j->n_runs]));
    }
    cli_sort(s, j->n_runs);
    j->seconds = s[j->n_runs / 2];
    return DV_OK;
}

static dv_status run(job *j)
{
    DV_TRY(get_data(j));
    cli_progress progress;
    cli_progress_begin(&progress, "running");
    dv_exec *inner = dv_einsum_inner(j->exec);
    if (inner)
        dv_exec_on_progress(inner, cli_progress_step, &progress);
    dv_status st = j->time ? run_often(j) : run_once(j, &j->seconds);
    cli_progress_end(&progress);
    if (st == DV_OK && j->verify)
        st = verify(j);
    if (st == DV_OK && j->out)
        st = dv_npy_write(j->out, j->y.dtype, j->y.n_dims, j->y.shape,
                          j->result_data, j->diag);
    return st;
}

static int report_json(const job *j)
{
    const dv_einsum_core *core = dv_einsum_core_of(j->exec);
    dv_exec *inner = dv_einsum_inner(j->exec);
    dv_text out = {0};
    dv_json w = {.out = &out};
    dv_json_open(&w, NULL, '{');
    dv_path_json(&w, &core->f, &core->path);
    dv_json_string(&w, "target", j->target->name);
    dv_json_string(&w, "executor", inner ? dv_exec_name(inner) : NULL);
    dv_json_double(&w, "seconds", j->seconds);
    if (j->verify) {
        cli_verdict_json(&w, &j->verdict);
    } else {
        dv_json_null(&w, "verify");
    }
    dv_json_open_flat(&w, "made_up", '[');
    for (int i = 0; i < j->n_in; i++)
        if (!j->files[i])
            dv_json_int(&w, NULL, i);
    dv_json_close(&w);
    dv_json_open(&w, "outputs", '[');
    cli_result_json(&w, &j->y, j->result_data);
    dv_json_close(&w);
    dv_json_close(&w);
    return cli_put(dv_text_take(&out), NULL, j->diag);
}

static void report_made_up(const job *j)
{
    int n = 0;
    for (int i = 0; i < j->n_in; i++)
        if (!j->files[i])
            printf("%s%d", n++ ? ", " : "; made up operands ", i);
    if (n)
        printf(" (--seed %" PRId64 ", --random %g..%g)", j->seed, j->low,
               j->high);
}

static int report_text(const job *j)
{
    const dv_einsum_core *core = dv_einsum_core_of(j->exec);
    printf("%s on %s: %d step%s, %.4g flop, plan checked, ran in %.3g s",
           core->f.src.text, j->target->name, (int)core->path.n_steps,
           DV_PLURAL(core->path.n_steps, "", "s"), core->path.flops,
           j->seconds);
    report_made_up(j);
    printf("\n");
    if (j->time)
        printf("  median of %d run%s, %.4g GFLOP/s\n", j->n_runs,
               DV_PLURAL(j->n_runs, "", "s"),
               core->path.flops / j->seconds / 1e9);
    cli_result_text(&j->y, j->result_data);
    if (j->verify)
        cli_verdict_text(&j->verdict);
    return 0;
}

static int show(const job *j)
{
    int code = 0;
    if (j->path)
        code =
            cli_put(j->json ? dv_einsum_json(j->exec) : dv_einsum_text(j->exec),
                    NULL, j->diag);
    const dv_program *p = dv_einsum_program(j->exec);
    if (j->print && !p) {
        dv_fail(j->diag, DV_E_SHAPE, DV_NOWHERE,
                "an extent is 0: there is nothing to compute, and no program");
        return cli_fail(j->diag);
    }
    return j->print && !code ? cli_put(dv_program_text(p), NULL, j->diag)
                             : code;
}

static int work(job *j)
{
    int code = read_operands(j);
    if (code < 0)
        code = create(j);
    if (code >= 0)
        return code;
    cli_warnings(j->diag);
    if (j->print || j->path)
        return show(j);
    if (run(j))
        return cli_fail(j->diag);
    code = j->json ? report_json(j) : report_text(j);
    if (!j->verify || (j->verdict.ok && j->verdict.decided))
        return code;
    cli_not_verified(&j->verdict, dv_einsum_plan(j->exec)->ops, j->diag);
    cli_warnings(j->diag);
    return dv_status_exit(DV_E_VERIFY);
}

int cli_einsum(const cli_command *c, int argc, char **argv)
{
    static job j;
    j = (job){.c = c, .low = -1, .high = 1};
    const char *verify = NULL;
    const cli_option options[] = {
        {"target", 't', "NAME", "a target's name or file (default: host)",
         CLI_TEXT, &j.target_name},
        {"cores", 0, "N", "use at most N of the target's cores", CLI_SIZE,
         &j.plan.cores},
        {"threads", 0, "N",
         "on this machine: run N threads (default: one a core)", CLI_SIZE,
         &j.plan.threads},
        {"dtype", 0, "TYPE", "of operands that do not say (default: f32)",
         CLI_TEXT, &j.dtype},
        {"result", 0, "TYPE", "of the result (default: what operands give)",
         CLI_TEXT, &j.result},
        {"in", 0, "N=FILE.npy", "read operand N, counted from 0", CLI_LIST,
         &j.in},
        {"out", 'o', "FILE.npy", "write the result", CLI_TEXT, &j.out},
        {"order", 0, "auto|exact|greedy",
         "how the order of products is found (default: auto)", CLI_CHOICE,
         &j.order},
        {"max-elements", 0, "N", "the most of an intermediate result", CLI_SIZE,
         &j.max_elems},
        {"tree", 0, "TEXT", "[[0,1],[1,2]->[0,2]],[2,3]->[0,3]: a given order",
         CLI_TEXT, &j.tree},
        {"sizes", 0, "N,N,...", "of the tree's indices", CLI_TEXT, &j.sizes},
        {"path", 0, NULL, "show the steps and their cost; run nothing",
         CLI_FLAG, &j.path},
        {"print", 0, NULL, "show the program; run nothing", CLI_FLAG, &j.print},
        {"seed", 0, "N", "make up the other operands from N (default: 0)",
         CLI_COUNT, &j.seed},
        {"random", 0, "LOW..HIGH", "range of made-up floats (default: -1..1)",
         CLI_TEXT, &j.random},
        {"verify", 0, "SECONDS|full",
         "compare with the oracle, samples if all takes longer (default: 5)",
         CLI_OPTIONAL, &verify},
        {"time", 0, NULL, "run it often and tell the median", CLI_FLAG,
         &j.time},
        {"json", 0, NULL, "the same facts for programs", CLI_FLAG, &j.json},
        {0}};
    int code = cli_parse(c, options, argc, argv, j.words, &j.n_words,
                         DV_MAX_OPERANDS + 1);
    j.verify = verify != NULL;
    if (code < 0)
        code = cli_parse_verify(c, verify, &j.verify_options);
    if (code < 0 && j.random)
        code = cli_range(c, j.random, &j.low, &j.high);
    if (code < 0 && j.out && !strcmp(j.out, "-"))
        code = cli_usage(c, "-o -: an array is in a file, not in standard "
                            "output");
    if (code < 0)
        code = cli_check_overwrite(c, "-o", j.out, j.target_name,
                                   "the target's description");
    if (code < 0 && (j.path || j.print) && (j.verify || j.time || j.out))
        code = cli_usage(c, "--%s runs nothing that --%s could be of",
                         j.path ? "path" : "print",
                         j.verify ? "verify"
                         : j.time ? "time"
                                  : "out");
    if (code >= 0)
        return code;
    j.diag = dv_diag_create();
    code = work(&j);
    for (int i = 0; i < DV_MAX_OPERANDS; i++)
        dv_release(j.data[i]);
    dv_release(j.result_data);
    dv_einsum_destroy(j.exec);
    dv_arena_free(&j.arena);
    dv_target_destroy(j.target);
    dv_diag_destroy(j.diag);
    return code;
}
