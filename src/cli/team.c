// divvy run under mpirun: this process is one rank of a team.
//
// An error that only one rank has (no memory, no file) is agreed on with the
// other ranks before any call that waits for them, so that all ranks end in the
// same way. A communication error cannot be agreed on: it is reported, and the
// job is aborted.
#define _POSIX_C_SOURCE 200809L // for nanosleep
#include "base/file.h"
#include "base/plural.h"
#include "cli/run.h"
#include "team/team.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// Larger outputs are not gathered on rank 0 just to print their sums.
static const int64_t gather_bytes = (int64_t)1 << 30;

typedef struct team {
    cli_job *j;
    dv_comm *comm;
    dv_rank *rank;
    dv_diag *mine; // errors of this rank alone
} team;

int cli_team_options(cli_job *j)
{
    const char *only = j->timeout      ? "--timeout"
                       : j->checked    ? "--checked"
                       : j->no_overlap ? "--no-overlap"
                                       : NULL;
    if (only && !cli_ranks)
        return cli_usage(j->c,
                         "%s is for teams of processes: start them with "
                         "mpirun -n P divvy run …",
                         only);
    // Checkpoint files are written through MPI. A process that was started
    // without mpirun becomes a team of one.
    if (!cli_ranks && (j->checkpoint || j->resume))
        cli_ranks = 1;
    if (j->resume && j->in.n && !j->verify)
        return cli_usage(j->c,
                         "--in has no effect with --resume: the checkpoint has "
                         "the inputs (only --verify needs them)");
    if (j->every && !j->checkpoint)
        return cli_usage(j->c, "--every goes with --checkpoint");
    if (!j->timeout)
        return -1;
    char *end;
    j->timeout_s = strtod(j->timeout, &end);
    if (end == j->timeout || *end || !(j->timeout_s > 0) ||
        !isfinite(j->timeout_s))
        return cli_usage(j->c, "--timeout takes seconds, not '%s'", j->timeout);
    return -1;
}

static dv_status settle(team *t, dv_status st)
{
    return dv_comm_agree_status(t->comm, st, t->mine, t->j->diag);
}

// Prints the warnings that rank 0 has collected by itself, each once.
static void print_warnings(team *t)
{
    cli_warnings(t->mine);
    dv_diag_clear(t->mine);
}

static dv_status check_pairs(const cli_job *j, dv_diag *diag)
{
    cli_job with = *j;
    with.diag = diag;
    for (int k = 0; k < 2; k++) {
        const cli_list *l = k ? &j->out : &j->in;
        for (int i = 0; i < l->n; i++) {
            int32_t tensor;
            const char *path;
            DV_TRY(cli_find_pair(&with, l->at[i], !k, &tensor, &path));
        }
    }
    return cli_check_twice(&with);
}

static dv_status load(team *t, const char *path, const cli_plan_args *args,
                      const cli_params *params)
{
    cli_job *j = t->j;
    DV_TRY(cli_load_plan(path, args, params, &j->l, t->mine));
    j->p = j->l.plan->ops;
    DV_TRY(check_pairs(j, t->mine));
    DV_TRY(cli_check_team_executor(j, t->mine));
    if ((j->checkpoint || j->resume) &&
        !dv_target_runs_here(&j->l.plan->target))
        return dv_fail(t->mine, DV_E_USAGE, DV_NOWHERE,
                       "%s: runs on %s are simulated and have no checkpoints",
                       j->checkpoint ? "--checkpoint" : "--resume",
                       j->l.plan->target.name);
    if (j->checkpoint && !j->p->n_repeats)
        return dv_fail(t->mine, DV_E_USAGE, DV_NOWHERE,
                       "--checkpoint: the program has no repeat");
    dv_rank_options options = {.threads = (int32_t)args->options.threads,
                               .no_overlap = j->no_overlap};
    return dv_rank_create(&t->rank, j->l.plan, t->comm, &options, t->mine);
}

static int64_t output_bytes(const dv_program *p)
{
    int64_t sum = 0;
    for (int i = 0; i < p->n_tensors; i++)
        if (p->tensors[i].is_output)
            sum += dv_tensor_bytes(&p->tensors[i]);
    return sum;
}

// Allocates whole tensors on rank 0: the outputs, for the report, and with
// --verify also the inputs.
static dv_status whole_tensors(team *t)
{
    cli_job *j = t->j;
    size_t n = (size_t)j->p->n_tensors;
    j->before = calloc(n, sizeof *j->before);
    j->after = calloc(n, sizeof *j->after);
    if (!j->before || !j->after)
        return dv_nomem(t->mine);
    if (cli_rank || (!j->verify && output_bytes(j->p) > gather_bytes))
        return DV_OK;
    cli_job with = *j;
    with.diag = t->mine;
    for (size_t i = 0; i < n && !j->verify; i++) {
        const dv_tensor *x = &j->p->tensors[i];
        if (x->is_output &&
            !(j->after[i] = dv_alloc((size_t)dv_tensor_bytes(x))))
            return dv_nomem(t->mine);
    }
    if (!j->verify)
        return DV_OK;
    free(j->before);
    free(j->after);
    j->before = j->after = with.before = with.after = NULL;
    dv_status st = cli_check_memory(
        j->p, cli_verify_is_full(&j->verify_options, j->l.program, j->l.plan),
        t->mine);
    if (st == DV_OK)
        st = cli_run_memory(&with);
    if (st == DV_OK)
        st = cli_run_inputs(&with);
    j->before = with.before;
    j->after = with.after;
    j->files = with.files;
    return st;
}

static dv_status own_inputs(team *t)
{
    cli_job *j = t->j;
    for (int32_t i = 0; i < j->p->n_tensors; i++) {
        dv_box local, own;
        void *data = dv_rank_data(t->rank, i, &local, &own);
        if (j->p->tensors[i].file)
            DV_TRY(dv_rank_read_constant(t->rank, i, j->diag));
        else if (j->p->tensors[i].is_input && data)
            dv_fill_box(j->p, i, (uint64_t)j->seed, j->low, j->high, &own,
                        &local, data);
    }
    for (int i = 0; i < j->in.n; i++) {
        int32_t tensor = -1;
        const char *path = NULL;
        DV_TRY(cli_find_pair(j, j->in.at[i], 1, &tensor, &path));
        DV_TRY(dv_rank_read_npy(t->rank, tensor, path, j->diag));
    }
    return DV_OK;
}

static dv_status step(void *user, int32_t repeat, int64_t round, dv_status mine,
                      dv_diag *trouble, dv_diag *diag)
{
    team *t = user;
    cli_job *j = t->j;
    if (round % (j->every ? j->every : 1) != 0 ||
        round == j->p->repeats[repeat].times)
        return DV_OK;
    DV_TRY(dv_comm_agree_status(t->comm, mine, trouble, diag));
    DV_TRY(dv_checkpoint_save(t->rank, j->checkpoint, repeat, round, diag));
    j->saved_at = round;
    return DV_OK;
}

static dv_status run(team *t)
{
    cli_job *j = t->j;
    if (j->resume)
        DV_TRY(dv_checkpoint_load(t->rank, j->resume, &j->resumed_at, j->diag));
    else
        DV_TRY(own_inputs(t));
    if (j->checkpoint)
        dv_rank_on_step(t->rank, step, t);
    DV_TRY(settle(t, DV_OK)); // wait until all ranks are ready
    t->comm->bytes = t->comm->messages = 0;
    double start = dv_clock_s();
    DV_TRY(dv_rank_run(t->rank, j->diag));
    j->seconds = dv_clock_s() - start;
    uint64_t bytes = (uint64_t)t->comm->bytes;
    uint64_t messages = (uint64_t)t->comm->messages;
    DV_TRY(dv_mpi_sum(t->comm, &bytes, j->diag));
    DV_TRY(dv_mpi_sum(t->comm, &messages, j->diag));
    j->team_bytes = (int64_t)bytes;
    j->team_messages = (int64_t)messages;
    return DV_OK;
}

static dv_status put_outputs(team *t)
{
    cli_job *j = t->j;
    for (int i = 0; i < j->out.n; i++) {
        int32_t tensor = -1;
        const char *path = NULL;
        DV_TRY(cli_find_pair(j, j->out.at[i], 0, &tensor, &path));
        DV_TRY(dv_rank_write_npy(t->rank, tensor, path, j->diag));
    }
    if (!j->verify && output_bytes(j->p) > gather_bytes)
        return DV_OK;
    for (int32_t i = 0; i < j->p->n_tensors; i++)
        if (j->p->tensors[i].is_output)
            DV_TRY(dv_rank_gather(t->rank, i, j->after[i], j->diag));
    return DV_OK;
}

// Verifies and reports on rank 0, and distributes its exit code to all ranks.
static dv_status judge(team *t, int *code)
{
    cli_job *j = t->j;
    dv_status st = DV_OK;
    if (j->verify && !cli_rank)
        st = cli_verify(&j->verdict, &j->verify_options, j->seed, j->l.program,
                        j->l.plan, j->before, j->after, NULL, &j->arena,
                        t->mine);
    DV_TRY(settle(t, st));
    print_warnings(t);
    int64_t answer = cli_rank ? 0 : cli_run_report(j);
    st = t->comm->ops->share(t->comm, 0, &answer, (int64_t)sizeof answer);
    *code = (int)answer;
    return st == DV_OK ? DV_OK : dv_comm_error(t->comm, st, j->diag);
}

static dv_status work(team *t, const char *path, const cli_plan_args *args,
                      const cli_params *params, int *code)
{
    DV_TRY(settle(t, load(t, path, args, params)));
    print_warnings(t);
    DV_TRY(dv_rank_compare(t->rank, "started", t->j->diag));
    DV_TRY(settle(t, whole_tensors(t)));
    DV_TRY(run(t));
    DV_TRY(put_outputs(t));
    return judge(t, code);
}

// Prints the communication error, waits so that the other ranks can print
// theirs, and aborts the MPI job.
void cli_team_abort(dv_comm *comm)
{
    fprintf(stderr, "divvy: error[system]: %s\n", comm->why);
    fflush(stderr);
    dv_writers_remove_temps();
    nanosleep(&(struct timespec){0, 500000000}, NULL);
    dv_mpi_abort(comm, dv_status_exit(DV_E_SYSTEM));
}

int cli_team_size(const cli_command *c, cli_plan_args *args)
{
    if (args->options.team && args->options.team != cli_ranks)
        return cli_usage(c,
                         "--team %" PRId64 ": there %s %" PRId64
                         " process%s; start them with mpirun -n %" PRId64,
                         args->options.team, DV_PLURAL(cli_ranks, "is", "are"),
                         cli_ranks, DV_PLURAL(cli_ranks, "", "es"),
                         args->options.team);
    args->options.team = args->options.grid ? 0 : cli_ranks;
    args->options.rank = cli_rank;
    args->team_of_ranks = 1;
    return -1;
}

int cli_team_run(cli_job *j, const char *path, cli_plan_args *args)
{
    static cli_params params;
    team t = {.j = j};
    int code = cli_parse_sets(j->c, &args->sets, &params);
    if (code < 0)
        code = cli_team_size(j->c, args);
    if (code >= 0)
        return code;
    dv_mpi_options options = {.timeout_s = j->timeout_s, .checked = j->checked};
    t.mine = dv_diag_create();
    dv_status st = cli_mpi_begin(j->diag);
    if (st == DV_OK)
        st = dv_mpi_create(&t.comm, NULL, &options, j->diag);
    if (st == DV_OK)
        st = work(&t, path, args, &params, &code);
    if (t.comm && t.comm->why[0])
        cli_team_abort(t.comm);
    if (st != DV_OK)
        code = cli_fail(j->diag);
    // If the exit code is not 0, the report has already printed the warnings.
    else if (code == 0)
        cli_warnings(j->diag);
    dv_rank_destroy(t.rank);
    dv_mpi_destroy(t.comm);
    dv_diag_destroy(t.mine);
    return code;
}
