// divvy bench over ranks: every rank times its part, and the time of a run is
// that of its slowest rank.
//
//   all ranks start | rank 0  compute  exchange  compute ...   |
//   together        | rank 1  compute      exchange  compute   | <- time
//
// The compute time of a rank is its total time minus the time in exchanges.
#define _POSIX_C_SOURCE 200809L // for sysconf
#include "base/plural.h"
#include "cli/bench.h"
#include "cli/run.h"
#include "darray/darray.h"
#include "team/team.h"
#include "exec/exec.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The benchmark state of one rank.
typedef struct side {
    // The state of the whole command. If ranks are threads, they share it, and
    // only rank 0 writes to it.
    cli_bench_job *j;
    dv_comm *comm;
    dv_rank *rank;
    dv_dtype in;              // type in which the largest op is computed
    double *total, *exchange; // total and exchange time of each run; owned
    double *slowest;          // time of the slowest rank in each run; owned
    int64_t n_runs;
    cli_bench_rank mine;
    // trouble: errors of this rank alone; diag: errors that all ranks agreed
    // on.
    dv_diag *trouble, *diag;
} side;

static void fill_inputs(side *s)
{
    const cli_bench_job *j = s->j;
    for (int32_t i = 0; i < j->p->n_tensors; i++) {
        dv_box local, own;
        void *data = dv_rank_data(s->rank, i, &local, &own);
        if (j->p->tensors[i].is_input && data)
            dv_fill_box(j->p, i, 0, j->low, j->high, &own, &local, data);
    }
}

static dv_status get_ready(side *s, const dv_rank_options *options)
{
    const cli_bench_job *j = s->j;
    size_t bytes = CLI_BENCH_MAX_RUNS * sizeof(double);
    s->total = malloc(bytes);
    s->exchange = malloc(bytes);
    s->slowest = malloc(bytes);
    if (!s->total || !s->exchange || !s->slowest)
        return dv_nomem(s->trouble);
    DV_TRY(dv_rank_create(&s->rank, j->l.plan, s->comm, options, s->trouble));
    fill_inputs(s);
    return DV_OK;
}

// Scales down a rate measured by a rank if the ranks of its machine have more
// threads than the machine has cores: each gets only part of the time.
static double share_of(const side *s, double rate)
{
    double threads =
        (double)s->comm->ranks_on_machine * (double)s->mine.threads;
    double cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    return threads > cores && cores >= 1 ? rate * cores / threads : rate;
}

// Measures the peak GFLOP/s on all ranks at the same time, so that they share
// the machine as in a run.
static dv_status measure_peak(side *s)
{
    int64_t none = 0;
    DV_TRY(s->comm->ops->agree(s->comm, &none));
    double rate = 0;
    if (dv_target_runs_here(&s->j->l.plan->target))
        rate = share_of(s, dv_rate_peak(s->in, (int32_t)s->mine.threads));
    s->mine.peak = rate > s->mine.peak ? rate : s->mine.peak;
    return DV_OK;
}

static dv_status measure_copy_rate(side *s)
{
    int64_t none = 0;
    DV_TRY(s->comm->ops->agree(s->comm, &none));
    if (dv_target_runs_here(&s->j->l.plan->target))
        s->mine.copy =
            share_of(s, dv_rate_copy(cli_bench_copy_bytes(
                                         s->j->bytes / (double)s->comm->size),
                                     (int32_t)s->mine.threads));
    return DV_OK;
}

static dv_status one_run(side *s)
{
    int64_t none = 0;
    dv_status st = s->comm->ops->agree(s->comm, &none);
    if (st != DV_OK)
        return dv_comm_error(s->comm, st, s->diag);
    double before = dv_clock_s();
    DV_TRY(dv_rank_run(s->rank, s->diag));
    double took = dv_clock_s() - before;
    int64_t most_ns = (int64_t)(took * 1e9);
    st = s->comm->ops->agree(s->comm, &most_ns);
    if (st != DV_OK)
        return dv_comm_error(s->comm, st, s->diag);
    s->total[s->n_runs] = took;
    s->exchange[s->n_runs] = dv_rank_exchange_s(s->rank);
    s->slowest[s->n_runs++] = (double)most_ns * 1e-9;
    return DV_OK;
}

// Times runs until enough are made. All ranks count the time of the slowest
// rank, so that they stop after the same run.
static dv_status time_runs(side *s)
{
    cli_bench_job count = *s->j;
    cli_progress progress;
    double spent = 0;
    DV_TRY(one_run(s)); // warm-up run, not counted
    s->n_runs = 0;
    s->comm->bytes = s->comm->messages = 0;
    cli_progress_begin(&progress, "timing");
    progress.on &= s->comm->rank == 0;
    for (count.n_runs = 0; cli_bench_more(&count, spent); count.n_runs++) {
        DV_TRY(one_run(s));
        spent += s->slowest[s->n_runs - 1];
        double share = spent / (count.least_s + 1e-9);
        cli_progress_step(&progress, share < 1 ? share : 1);
    }
    cli_progress_end(&progress);
    s->mine.bytes = s->comm->bytes;
    s->mine.messages = s->comm->messages;
    return DV_OK;
}

static double median(double *times, int64_t n)
{
    cli_sort(times, n);
    return times[(n - 1) / 2];
}

static void summarise(side *s)
{
    int64_t n = s->n_runs;
    // Reuse the array: rank 0 has copied the times of the slowest rank.
    double *compute = s->slowest;
    for (int64_t i = 0; i < n; i++)
        compute[i] = s->total[i] - s->exchange[i];
    s->mine.compute_s = median(compute, n);
    s->mine.exchange_s = median(s->exchange, n);
    s->mine.median_s = median(s->total, n);
}

// Collects the measurements of all ranks on rank 0, one rank after the other.
static dv_status collect(side *s)
{
    cli_bench_job *j = s->j;
    dv_comm *c = s->comm;
    if (c->rank == 0) {
        memcpy(j->seconds, s->slowest, (size_t)s->n_runs * sizeof(double));
        j->n_runs = s->n_runs;
        cli_sort(j->seconds, j->n_runs);
    }
    summarise(s);
    for (int64_t r = 0; r < c->size; r++) {
        cli_bench_rank theirs = s->mine;
        dv_status st = c->ops->share(c, r, &theirs, (int64_t)sizeof theirs);
        if (st != DV_OK)
            return dv_comm_error(c, st, s->diag);
        if (c->rank != 0)
            continue;
        j->ranks[r] = theirs;
        j->peak += theirs.peak;
        j->copy += theirs.copy;
    }
    return DV_OK;
}

// Makes all ranks measure the peak for the same type: that in which rank 0
// computes the op with the most flops.
static dv_status agree_on_type(side *s)
{
    int64_t in = DV_F32;
    if (s->j->p->n_ops)
        in = (int64_t)dv_rank_type(s->rank, s->j->op);
    dv_status st = s->comm->ops->share(s->comm, 0, &in, (int64_t)sizeof in);
    if (st != DV_OK)
        return dv_comm_error(s->comm, st, s->diag);
    s->in = (dv_dtype)in;
    s->mine.threads = dv_rank_threads(s->rank);
    if (s->comm->rank == 0) {
        cli_bench_types(s->j, s->in);
        s->j->threads = s->mine.threads;
    }
    return DV_OK;
}

// Runs all measurements of one rank. `ready` is the status of preparing it, on
// which the ranks agree first.
static dv_status measure(side *s, dv_status ready)
{
    DV_TRY(dv_comm_agree_status(s->comm, ready, s->trouble, s->diag));
    DV_TRY(dv_rank_compare(s->rank, "started", s->diag));
    DV_TRY(agree_on_type(s));
    dv_status st = measure_peak(s);
    if (st == DV_OK)
        DV_TRY(time_runs(s));
    if (st == DV_OK)
        st = measure_peak(s);
    if (st == DV_OK)
        st = measure_copy_rate(s);
    return st == DV_OK ? collect(s) : dv_comm_error(s->comm, st, s->diag);
}

static void release(side *s)
{
    dv_rank_destroy(s->rank);
    dv_diag_destroy(s->trouble);
    free(s->total);
    free(s->exchange);
    free(s->slowest);
}

static dv_status get_results(cli_bench_job *j, int64_t n_ranks, dv_diag *diag)
{
    j->n_ranks = n_ranks;
    j->ranks = calloc((size_t)n_ranks, sizeof *j->ranks);
    j->seconds = malloc(CLI_BENCH_MAX_RUNS * sizeof *j->seconds);
    return j->ranks && j->seconds ? DV_OK : dv_nomem(diag);
}

static dv_status prepare(side *s, const char *path, const cli_plan_args *args,
                         const cli_params *params)
{
    cli_bench_job *j = s->j;
    dv_rank_options options = {.threads = (int32_t)args->options.threads};
    DV_TRY(cli_load_plan(path, args, params, &j->l, s->trouble));
    DV_TRY(cli_bench_count(j, s->trouble));
    DV_TRY(get_results(j, s->comm->size, s->trouble));
    return get_ready(s, &options);
}

dv_status cli_bench_processes(cli_bench_job *j, const char *path,
                              const cli_plan_args *args,
                              const cli_params *params)
{
    side s = {.j = j, .trouble = dv_diag_create(), .diag = j->diag};
    dv_status st = cli_mpi_begin(j->diag);
    if (st == DV_OK)
        st = dv_mpi_create(&s.comm, NULL, NULL, j->diag);
    if (st == DV_OK) {
        j->executor = "mpi";
        st = measure(&s, prepare(&s, path, args, params));
        if (st == DV_OK)
            cli_warnings(s.trouble);
    }
    if (s.comm && s.comm->why[0])
        cli_team_abort(s.comm);
    release(&s);
    dv_mpi_destroy(s.comm);
    return st;
}

typedef struct local_team {
    cli_bench_job *j;
    const cli_plan_args *args;
} local_team;

static dv_status as_thread(void *user, dv_team_link *p, dv_diag *diag)
{
    const local_team *t = user;
    dv_rank_options options = {.threads = (int32_t)t->args->options.threads};
    side s = {
        .j = t->j, .comm = p->comm, .trouble = dv_diag_create(), .diag = diag};
    dv_status st = measure(&s, get_ready(&s, &options));
    release(&s);
    return st;
}

dv_status cli_bench_threads(cli_bench_job *j, const cli_plan_args *args)
{
    local_team t = {j, args};
    int64_t n = dv_plan_team_size(&j->l.plan->team);
    j->executor = "team";
    DV_TRY(get_results(j, n, j->diag));
    return dv_team_local(n, as_thread, &t, j->diag);
}

// Returns the rank with the longest compute or exchange time; *middle is the
// median over ranks.
static int64_t most(const cli_bench_job *j, int exchange, double *middle)
{
    double *s = malloc((size_t)j->n_ranks * sizeof *s);
    int64_t who = 0;
    for (int64_t r = 0; r < j->n_ranks; r++) {
        const cli_bench_rank *x = &j->ranks[r], *y = &j->ranks[who];
        double mine = exchange ? x->exchange_s : x->compute_s;
        if (mine > (exchange ? y->exchange_s : y->compute_s))
            who = r;
        if (s)
            s[r] = mine;
    }
    *middle = s ? median(s, j->n_ranks) : 0;
    free(s);
    return who;
}

static void sent(const cli_bench_job *j, int64_t *bytes, int64_t *messages)
{
    *bytes = *messages = 0;
    for (int64_t r = 0; r < j->n_ranks; r++) {
        *bytes += j->ranks[r].bytes;
        *messages += j->ranks[r].messages;
    }
    *bytes /= j->n_runs;
    *messages /= j->n_runs;
}

void cli_bench_team_text(const cli_bench_job *j)
{
    double middle;
    int64_t bytes, messages, who = most(j, 0, &middle);
    printf("  compute %.4g s on rank %" PRId64 ", the slowest; %.4g s at the "
           "median of ranks\n",
           j->ranks[who].compute_s, who, middle);
    who = most(j, 1, &middle);
    sent(j, &bytes, &messages);
    printf("  exchange %.4g s on rank %" PRId64 ", the slowest; %.4g s at the "
           "median of ranks; %" PRId64 " bytes in %" PRId64 " message%s\n",
           j->ranks[who].exchange_s, who, middle, bytes, messages,
           DV_PLURAL(messages, "", "s"));
}

void cli_bench_team_json(const cli_bench_job *j, dv_json *w)
{
    double compute, exchange;
    int64_t bytes, messages;
    int64_t c = most(j, 0, &compute), e = most(j, 1, &exchange);
    sent(j, &bytes, &messages);
    dv_json_open(w, "team", '{');
    DV_JSON_FIELDS(w, DV_F("ranks", j->n_ranks),
                   DV_F("compute_s", j->ranks[c].compute_s),
                   DV_F("compute_median_s", compute),
                   DV_F("exchange_s", j->ranks[e].exchange_s),
                   DV_F("exchange_median_s", exchange), DV_F("bytes", bytes),
                   DV_F("messages", messages));
    dv_json_open(w, "by_rank", '[');
    for (int64_t r = 0; r < j->n_ranks; r++) {
        const cli_bench_rank *x = &j->ranks[r];
        DV_JSON_OBJECT(w, NULL, DV_F("median_s", x->median_s),
                       DV_F("compute_s", x->compute_s),
                       DV_F("exchange_s", x->exchange_s),
                       DV_F("threads", x->threads));
    }
    dv_json_close(w);
    dv_json_close(w);
}
