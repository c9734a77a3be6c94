// divvy bench: times runs of a program and compares them with the machine's
// measured peak and copy bandwidth.
#include "cli/bench.h"
#include "base/plural.h"
#include "cli/run.h"
#include "exec/exec.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef cli_bench_job job;

// Counts the bytes of inputs and outputs for the bandwidth. An input that is
// read through indices counts only with the elements that are read.
static dv_status count_bytes(job *j, dv_diag *diag)
{
    const dv_program *p = j->p;
    double *in = dv_alloc((size_t)p->n_tensors * sizeof *in + 1);
    if (!in)
        return dv_nomem(diag);
    for (int i = 0; i < p->n_tensors; i++)
        in[i] = 0;
    for (int i = 0; i < p->n_ops; i++)
        for (int r = 0; r < p->ops[i].n_reads; r++) {
            int32_t t = p->ops[i].reads[r].tensor;
            if (dv_op_reads_first(&p->ops[i], r))
                in[t] += dv_op_read_bytes(p, &p->ops[i], t);
        }
    for (int i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        double all = (double)dv_tensor_bytes(t);
        j->bytes +=
            (in[i] < all ? in[i] : all) * t->is_input + all * t->is_output;
    }
    dv_release(in);
    return DV_OK;
}

// Returns the flops that op i takes in a run: those of one execution times the
// iterations of the repeat loops around it, or 0 if it is computed once before
// the first run.
static double flops_of(const job *j, int32_t i)
{
    const dv_program *p = j->p;
    const dv_plan *plan = j->l.plan; // has no groups if it is a team's
    double flops = dv_op_flops(&p->ops[i]);
    if (plan->n_groups && plan->groups[dv_group_of(plan, i)].once)
        return 0;
    for (int32_t r = 0; r < p->n_repeats; r++)
        if (i >= p->repeats[r].first_op && i < p->repeats[r].end_op)
            flops *= (double)p->repeats[r].times;
    return flops;
}

static void count_work(job *j)
{
    double most = -1;
    for (int32_t i = 0; i < j->p->n_ops; i++) {
        double flops = flops_of(j, i);
        j->flops += flops;
        if (flops > most) {
            most = flops;
            j->op = i;
        }
    }
}

dv_status cli_bench_count(job *j, dv_diag *diag)
{
    j->p = j->l.plan->ops;
    count_work(j);
    return count_bytes(j, diag);
}

// Finds the element type by which the largest op is reported: that of its first
// read that is float if and only if the op computes in float, so that integer
// index tensors of a float op are ignored.
void cli_bench_types(job *j, dv_dtype in)
{
    const dv_op *o = &j->p->ops[j->op];
    if (j->p->n_ops == 0)
        return; // the program has no ops: keep f32
    j->dtype = j->in = in;
    for (int i = o->n_reads - 1; i >= 0; i--) {
        dv_dtype t = j->p->tensors[o->reads[i].tensor].dtype;
        if (dv_is_float(t) == dv_is_float(j->in))
            j->dtype = t;
    }
}

// Allocates the memory of input or output i and fills it with numbers.
static dv_status make_data(job *j, int32_t i)
{
    const dv_tensor *t = &j->p->tensors[i];
    size_t bytes = (size_t)dv_tensor_bytes(t);
    const void *weight = cli_weight(&j->l, t->name);
    if (!(j->data[i] = dv_alloc_buffer(bytes)))
        return dv_nomem(j->diag);
    if (weight)
        memcpy(j->data[i], weight, bytes);
    else
        memset(j->data[i], 0, bytes);
    if (t->is_input && !weight)
        dv_fill(j->p, i, 0, j->low, j->high, j->data[i]);
    return DV_OK;
}

static dv_status get_ready(job *j)
{
    j->data = calloc((size_t)j->p->n_tensors, sizeof *j->data);
    j->seconds = malloc(CLI_BENCH_MAX_RUNS * sizeof *j->seconds);
    if (!j->data || !j->seconds)
        return dv_nomem(j->diag);
    DV_TRY(dv_exec_create(&j->exec, j->l.plan, j->diag));
    j->ready_s = dv_clock_s() - j->start_s;
    for (int i = 0; i < j->p->n_tensors; i++) {
        const dv_tensor *t = &j->p->tensors[i];
        size_t bytes = (size_t)dv_tensor_bytes(t);
        if ((!t->is_input && !t->is_output) || t->file)
            continue;
        void *data = (void *)(uintptr_t)cli_weight(&j->l, t->name);
        if (!data || t->is_output) {
            DV_TRY(make_data(j, i));
            data = j->data[i];
        }
        DV_TRY(dv_exec_bind(j->exec, t->name, data, bytes, j->diag));
    }
    if (j->p->n_ops)
        cli_bench_types(j, dv_exec_type(j->exec, j->op));
    j->executor = dv_exec_name(j->exec);
    j->threads = dv_exec_threads(j->exec);
    return DV_OK;
}

// Measures the machine's peak GFLOP/s and keeps the maximum. It is called
// before and after the timed runs, because other processes may use the cores
// for a while.
static void measure_peak(job *j)
{
    double rate = 0;
    if (dv_exec_executor(j->exec) != DV_RUN_SIM)
        rate = dv_rate_peak(j->in, dv_exec_threads(j->exec));
    j->peak = rate > j->peak ? rate : j->peak;
}

int cli_bench_more(const job *j, double spent_s)
{
    return j->n_runs < CLI_BENCH_MAX_RUNS &&
           (j->n_runs < j->least_runs || spent_s < j->least_s);
}

// Returns the array size for a copy that moves as many bytes as the program:
// half of them, since a copy reads one array and writes another, limited to 16
// KiB..256 MiB.
int64_t cli_bench_copy_bytes(double bytes)
{
    bytes /= 2;
    bytes = bytes < 1 << 14 ? 1 << 14 : bytes > 1 << 28 ? 1 << 28 : bytes;
    return (int64_t)bytes;
}

static double at(const job *j, double share)
{
    return j->seconds[(int64_t)(share * (double)(j->n_runs - 1))];
}

// Returns the most memory that this process had so far, in bytes.
static int64_t most_memory(void)
{
    struct rusage use;
    if (getrusage(RUSAGE_SELF, &use) != 0)
        return 0;
    return (int64_t)use.ru_maxrss * 1024;
}

// Times runs after one warm-up run, until both the minimal time and the minimal
// number are reached.
static dv_status measure(job *j)
{
    cli_progress progress;
    measure_peak(j);
    double first = dv_clock_s();
    DV_TRY(dv_exec_run(j->exec, j->diag));
    cli_progress_begin(&progress, "timing");
    double start = dv_clock_s(), now = start;
    while (cli_bench_more(j, now - start)) {
        double before = dv_clock_s();
        DV_TRY(dv_exec_run(j->exec, j->diag));
        now = dv_clock_s();
        j->seconds[j->n_runs++] = now - before;
        double share = (now - start) / (j->least_s + 1e-9);
        cli_progress_step(&progress, share < 1 ? share : 1);
    }
    cli_progress_end(&progress);
    cli_sort(j->seconds, j->n_runs);
    // The first run also packs constants: its time beyond a median run is
    // counted as preparation.
    double packing = start - first - at(j, 0.5);
    j->ready_s += packing > 0 ? packing : 0;
    j->most_bytes = most_memory();
    measure_peak(j);
    if (dv_exec_executor(j->exec) != DV_RUN_SIM)
        j->copy =
            dv_rate_copy(cli_bench_copy_bytes(j->bytes), (int32_t)j->threads);
    return DV_OK;
}

// Makes additional runs that time each group (ops that share one tile space).
static dv_status measure_groups(job *j)
{
    int32_t n = j->l.plan->n_groups;
    j->spent = calloc((size_t)n + 1, sizeof *j->spent);
    if (!j->spent)
        return dv_nomem(j->diag);
    double start = dv_clock_s();
    dv_status st = DV_OK;
    dv_exec_time_groups(j->exec, j->spent);
    while (st == DV_OK && (j->n_group_runs < j->least_runs ||
                           (j->n_group_runs < CLI_BENCH_MAX_RUNS &&
                            dv_clock_s() - start < j->least_s / 2))) {
        st = dv_exec_run(j->exec, j->diag);
        j->n_group_runs++;
    }
    dv_exec_time_groups(j->exec, NULL);
    return st;
}

static double group_flops(const job *j, int32_t g)
{
    double flops = 0;
    for (int32_t i = j->l.plan->groups[g].first_op;
         i < j->l.plan->groups[g].end_op; i++)
        flops += flops_of(j, i);
    return flops;
}

static void groups_json(const job *j, dv_json *w)
{
    dv_json_open(w, "groups", '[');
    for (int32_t g = 0; g < j->l.plan->n_groups; g++) {
        const dv_group *x = &j->l.plan->groups[g];
        DV_JSON_OBJECT(w, NULL, DV_F("first_op", x->first_op),
                       DV_F("end_op", x->end_op),
                       DV_F("seconds", j->spent[g] / (double)j->n_group_runs),
                       DV_F("flops", group_flops(j, g)));
    }
    dv_json_close(w);
}

// Prints a line per group (ops that share one tile space): its time, its share
// of the total, its GFLOP/s and its ops.
static void groups_text(const job *j)
{
    double all = 0;
    for (int32_t g = 0; g < j->l.plan->n_groups; g++)
        all += j->spent[g];
    printf("  group      seconds   share    GFLOP/s   ops\n");
    for (int32_t g = 0; g < j->l.plan->n_groups; g++) {
        const dv_group *x = &j->l.plan->groups[g];
        double s = j->spent[g] / (double)j->n_group_runs;
        printf("  %5d %12.4g %6.1f %% %10.4g  ", (int)g, s,
               all > 0 ? 100 * j->spent[g] / all : 0,
               s > 0 ? group_flops(j, g) / s / 1e9 : 0);
        for (int32_t i = x->first_op; i < x->end_op; i++)
            printf(" %s", j->p->ops[i].name);
        printf("\n");
    }
}

static void report_json(const job *j)
{
    dv_text out = {0};
    dv_json w = {.out = &out};
    double s = at(j, 0.5);
    dv_json_open(&w, NULL, '{');
    DV_JSON_FIELDS(
        &w, DV_F("file", j->p->src.name),
        DV_F("target", j->l.plan->target.name), DV_F("executor", j->executor),
        DV_F("threads", j->threads), DV_F("runs", j->n_runs),
        DV_F("median_s", s), DV_F("fastest_s", j->seconds[0]),
        DV_F("slowest_s", j->seconds[j->n_runs - 1]),
        DV_F("quarter_s", at(j, 0.25)), DV_F("three_quarters_s", at(j, 0.75)),
        DV_F("flops", j->flops), DV_F("gflops", j->flops / s / 1e9),
        DV_F("dtype", dv_dtype_get(j->dtype)->name),
        DV_F("peak_dtype", dv_dtype_get(j->in)->name),
        DV_F("peak_gflops", j->peak), DV_F("bytes", j->bytes),
        DV_F("gb_per_s", j->bytes / s / 1e9), DV_F("copy_gb_per_s", j->copy));
    if (j->ranks)
        cli_bench_team_json(j, &w);
    else
        DV_JSON_FIELDS(&w, DV_F("ready_s", j->ready_s),
                       DV_F("most_memory_bytes", j->most_bytes));
    if (j->ops)
        groups_json(j, &w);
    dv_json_close(&w);
    dv_put(&out, "\n");
    fputs(out.at, stdout);
    dv_text_free(&out);
}

static void report_text(const job *j)
{
    double s = at(j, 0.5), gflops = j->flops / s / 1e9;
    double gbs = j->bytes / s / 1e9;
    const dv_rank_class *own =
        j->ranks ? dv_plan_class_of(j->l.plan, j->l.plan->team.rank) : NULL;
    const dv_plan *plan = own ? own->plan : j->l.plan;
    printf("%s on %s: %d op%s in %d group%s%s, executor %s, ", j->p->src.name,
           plan->target.name, (int)plan->ops->n_ops,
           DV_PLURAL(plan->ops->n_ops, "", "s"), (int)plan->n_groups,
           DV_PLURAL(plan->n_groups, "", "s"), own ? " on a rank" : "",
           j->executor);
    if (j->ranks)
        printf("%" PRId64 " rank%s, ", j->n_ranks,
               DV_PLURAL(j->n_ranks, "", "s"));
    printf("%" PRId64 " thread%s%s\n", j->threads,
           DV_PLURAL(j->threads, "", "s"), j->ranks ? " each" : "");
    printf("  median %.4g s of %" PRId64 " run%s%s; fastest %.4g, middle half "
           "%.4g to %.4g\n",
           s, j->n_runs, DV_PLURAL(j->n_runs, "", "s"),
           j->ranks ? " (the slowest rank's)" : "", j->seconds[0], at(j, 0.25),
           at(j, 0.75));
    if (j->ranks)
        cli_bench_team_text(j);
    printf("  %.4g GFLOP/s", gflops);
    if (j->peak > 0)
        printf(", %.1f %% of the %s peak of %.4g measured alongside",
               100 * gflops / j->peak, dv_dtype_get(j->in)->name, j->peak);
    if (j->peak > 0 &&
        dv_dtype_get(j->dtype)->size_bytes < dv_dtype_get(j->in)->size_bytes)
        printf(" (%s is widened)", dv_dtype_get(j->dtype)->name);
    printf("\n  %.4g GB/s in and out", gbs);
    if (j->copy > 0)
        printf(", %.1f %% of the %.4g of a copy of that size",
               100 * gbs / j->copy, j->copy);
    printf("\n");
    if (plan->schedule.kernels && plan->schedule.shared_bytes >= 0)
        printf("  memory of a run: %.4g MB shared, %.4g MB per thread, %.4g MB "
               "of packed constants\n",
               (double)plan->schedule.shared_bytes / 1e6,
               (double)plan->schedule.thread_bytes / 1e6,
               (double)plan->schedule.constant_bytes / 1e6);
    if (!j->ranks)
        printf("  ready after %.4g s of reading, planning, making kernels and "
               "packing; at most %.4g MB in memory\n",
               j->ready_s, (double)j->most_bytes / 1e6);
    if (j->ops)
        groups_text(j);
}

// Writes the reports of --html and --trace. Returns the exit code.
static int write_reports(job *j)
{
    int simulated = j->exec && dv_exec_executor(j->exec) == DV_RUN_SIM;
    for (int32_t g = 0; j->spent && g < j->l.plan->n_groups; g++)
        j->spent[g] /= (double)j->n_group_runs;
    const dv_measured m = {.seconds = simulated ? 0 : at(j, 0.5),
                           .group_seconds = j->spent,
                           .peak_gflops = j->peak,
                           .copy_gb_per_s = j->copy,
                           .executor = j->executor};
    return cli_report_write(&j->pages, &j->l, &m, NULL, j->diag);
}

// Prints the results and returns the exit code.
static int report(job *j)
{
    if (j->json)
        report_json(j);
    else
        report_text(j);
    return write_reports(j);
}

static int work(job *j, const cli_plan_args *args)
{
    if (cli_bench_count(j, j->diag))
        return cli_fail(j->diag);
    if (j->l.plan->team.n_axes) {
        if (cli_bench_threads(j, args))
            return cli_fail(j->diag);
        return report(j);
    }
    if (cli_check_memory(j->p, 0, j->diag) || get_ready(j))
        return cli_fail(j->diag);
    if (j->ops && dv_exec_executor(j->exec) != DV_RUN_THREADS)
        return cli_usage(j->c, "--ops times threads, %s is simulated",
                         j->l.plan->target.name);
    int groups = j->ops || ((j->pages.html || j->pages.trace) &&
                            dv_exec_executor(j->exec) == DV_RUN_THREADS);
    if (measure(j) || (groups && measure_groups(j)))
        return cli_fail(j->diag);
    return report(j);
}

// Runs the benchmark as one of the processes (ranks) that mpirun started, and
// returns the exit code.
static int work_as_rank(job *j, const char *path, cli_plan_args *args)
{
    static cli_params params;
    int code = cli_parse_sets(j->c, &args->sets, &params);
    if (code < 0)
        code = cli_team_size(j->c, args);
    if (code >= 0)
        return code;
    if (cli_bench_processes(j, path, args, &params))
        return cli_fail(j->diag);
    cli_warnings(j->diag);
    return cli_rank ? 0 : report(j);
}

// Loads, plans and times a program, and frees the job. Returns the exit code.
static int bench_file(job *j, const char *file, cli_plan_args *args)
{
    int code;
    j->diag = dv_diag_create();
    j->start_s = dv_clock_s();
    if (cli_ranks) {
        code = work_as_rank(j, file, args);
    } else {
        code = cli_load(j->c, file, args, &j->l, j->diag);
        if (code < 0) {
            cli_warnings(j->diag);
            code = work(j, args);
        }
    }
    for (int i = 0; j->data && i < j->p->n_tensors; i++)
        dv_release(j->data[i]);
    free(j->data);
    free(j->seconds);
    free(j->spent);
    free(j->ranks);
    dv_exec_destroy(j->exec);
    cli_unload(&j->l);
    dv_diag_destroy(j->diag);
    return code;
}

int cli_bench(const cli_command *c, int argc, char **argv)
{
    static cli_plan_args args;
    static job j;
    j = (job){.c = c,
              .least_runs = 5,
              .dtype = DV_F32,
              .in = DV_F32,
              .low = -1,
              .high = 1};
    cli_report_args *pages = &j.pages;
    const char *files[1], *range = NULL, *seconds = NULL;
    int n_files;
    args.options.rank = CLI_RANK_NOT_GIVEN;
    const cli_option options[] = {
#include "cli/plan_options.def"
#include "cli/report_options.def"
        {"runs", 0, "N", "time at least N runs (default: 5)", CLI_SIZE,
         &j.least_runs},
        {"seconds", 0, "S", "and for at least S seconds (default: 1)", CLI_TEXT,
         &seconds},
        {"random", 0, "LOW..HIGH", "range of made-up floats (default: -1..1)",
         CLI_TEXT, &range},
        {"ops", 0, NULL, "say how long each group of ops takes", CLI_FLAG,
         &j.ops},
        {"json", 0, NULL, "the same facts for programs", CLI_FLAG, &j.json},
        {0}};
    int code = cli_parse(c, options, argc, argv, files, &n_files, 1);
    if (code < 0 && range)
        code = cli_range(c, range, &j.low, &j.high);
    char *end = NULL;
    j.least_s = seconds ? strtod(seconds, &end) : 1;
    if (code < 0 && seconds &&
        (end == seconds || *end || !(j.least_s >= 0 && j.least_s < 1e6)))
        code = cli_usage(c,
                         "--seconds takes a finite number, 0 or more and below "
                         "1e6, not '%s'",
                         seconds);
    if (code < 0 && j.least_runs > CLI_BENCH_MAX_RUNS)
        code = cli_usage(c, "--runs: at most %d", (int)CLI_BENCH_MAX_RUNS);
    if (code >= 0)
        return code;
    if (n_files != 1)
        return cli_usage(c, "a program or a plan is needed");
    if (cli_rank_is_given(&args))
        return cli_usage(c, CLI_NO_RANK);
    code = cli_report_paths(c, pages, files[0], args.target, NULL);
    if (code >= 0)
        return code;
    if (j.ops && (cli_ranks > 1 || args.options.team || args.options.grid))
        return cli_usage(c, "--ops times one process, not a team");
    return bench_file(&j, files[0], &args);
}
