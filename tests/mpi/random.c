// Random programs over MPI: each gives the same bits as on one rank (results
// combined from partial sums: within the oracle's bounds, and the same run
// after run), exchanges carry what is needed, and MPI was given no other bytes.
#include "random.h"
#include "base/file.h"
#include "base/mem.h"
#include "harness/teams.h"
#include "team/team.h"
#include "witness.h"
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct team {
    dv_comm *comm;
    const dv_plan *plan; // of this rank
    dv_rank *rank;
    dv_rank_options how;
    int64_t bytes; // sent by the last run of this rank
    dv_diag *diag;
} team;

// Runs the plan: rank 0 has the whole inputs and receives the whole outputs.
// Also after a failure this rank takes part in everything that other ranks wait
// for.
static int run_once(team *t, void *const *before, void *const *after)
{
    const dv_program *p = t->plan->ops;
    for (int32_t i = 0; i < p->n_tensors; i++)
        if (p->tensors[i].is_input)
            dv_rank_put(t->rank, i, before[i]);
    int64_t bytes = seen.bytes_sent, told = t->comm->bytes;
    if (dv_rank_run(t->rank, t->diag))
        return case_no("it does not run: %s", dv_diag_text(t->diag));
    bytes = seen.bytes_sent - bytes;
    t->bytes = t->comm->bytes - told;
    for (int32_t i = 0; i < p->n_tensors; i++)
        if (p->tensors[i].is_output &&
            dv_rank_gather(t->rank, i, after[i], t->diag))
            return case_no("gather: %s", dv_diag_text(t->diag));
    return bytes == t->bytes ||
           case_no("%" PRId64 " bytes given to MPI, %" PRId64 " told of", bytes,
                   t->bytes);
}

// Sums over all ranks what each exchange carried.
static int sum_moved(team *t, dv_team_traffic *moved)
{
    uint64_t sum = (uint64_t)t->bytes;
    int ok = !dv_mpi_sum(t->comm, &sum, t->diag);
    moved->bytes = (int64_t)sum;
    for (int32_t i = 0; i < t->plan->team.n_op_exchanges; i++) {
        moved->op_exchanges[i] = dv_rank_traffic(t->rank, i);
        sum = (uint64_t)moved->op_exchanges[i].bytes;
        ok &= !dv_mpi_sum(t->comm, &sum, t->diag);
        moved->op_exchanges[i].bytes = (int64_t)sum;
    }
    return ok || case_no("no sums");
}

// Compares with a run of one rank in this process.
static int as_alone(const team *t, const dv_program *p, const dv_plan *one,
                    int whole, void *const *before, void *const *after)
{
    void **alone = case_buffers(one->ops);
    int ok = !dv_team_run_as(one, &t->how, alone, NULL, t->diag) ||
             case_no("alone it does not run: %s", dv_diag_text(t->diag));
    // The oracle's bound does not include an error that a repeat carries from a
    // narrow type into a wide one: only if one rank is within the bound must
    // several be.
    if (ok && case_right(p, one, before, alone))
        ok = case_right(p, t->plan, before, after);
    if (ok && (whole || t->plan->team.n_follows == 0))
        ok = case_same_values(one->ops, alone, t->plan->ops, after);
    case_free(alone, one->ops);
    return ok;
}

static int run_team(team *t, const dv_program *p, const dv_plan *one, int whole)
{
    const dv_program *ops = t->plan->ops;
    void **before = case_buffers(ops), **after = case_buffers(ops);
    void **again = case_buffers(ops);
    dv_exchange_traffic *op_exchanges =
        calloc((size_t)t->plan->team.n_op_exchanges + 1, sizeof *op_exchanges);
    dv_team_traffic moved = {.op_exchanges = op_exchanges};
    int ok = run_once(t, before, after);
    ok &= sum_moved(t, &moved) && teams_carried(t->plan, &moved);
    ok &= run_once(t, before, again);
    if (ok && t->comm->rank == 0)
        ok = case_same_values(ops, after, ops, again) &&
             as_alone(t, p, one, whole, before, after);
    free(op_exchanges);
    case_free(before, ops);
    case_free(after, ops);
    case_free(again, ops);
    return ok;
}

static int try_text(const char *text, const dv_param *params, size_t n_params,
                    int whole, rng *r, dv_comm *comm, const dv_target *host)
{
    dv_program *p = NULL;
    team t = {.comm = comm, .diag = dv_diag_create()};
    t.how = (dv_rank_options){.threads = (int32_t)(1 + rng_below(r, 2)),
                              .no_overlap = rng_percent(r, 30)};
    int ok = !dv_program_parse(&p, text, strlen(text), "random", params,
                               n_params, t.diag) ||
             case_no("%s", dv_diag_text(t.diag));
    dv_plan *plan =
        ok ? teams_plan(p, host, comm->size, comm->rank, NULL) : NULL;
    dv_plan *one = plan ? teams_plan(p, host, 1, 0, NULL) : NULL;
    ok = one != NULL;
    t.plan = plan;
    if (ok)
        ok = !dv_rank_create(&t.rank, plan, comm, &t.how, t.diag) ||
             case_no("no rank: %s", dv_diag_text(t.diag));
    if (ok)
        ok = run_team(&t, p, one, whole);
    dv_rank_destroy(t.rank);
    dv_plan_destroy(plan);
    dv_plan_destroy(one);
    dv_program_destroy(p);
    dv_diag_destroy(t.diag);
    return ok;
}

int random_programs(int cases)
{
    dv_comm *comm = NULL;
    dv_target *host = NULL;
    // Messages are cut into pieces of 24 bytes, since none of these programs
    // has one of 2^31 bytes. With a time-out, waiting ranks let others run.
    dv_mpi_options o = {.max_bytes = 24, .timeout_s = 100};
    if (dv_mpi_create(&comm, NULL, &o, NULL) ||
        dv_target_load(&host, "host", NULL))
        return 0;
    int all = 1;
    uint64_t seed = gen_seed();
    for (int i = 0; i < 2 * gen_cases(cases) && all; i++) {
        gen_mode mode = i % 2 ? GEN_INTEGERS : GEN_FLOATS;
        rng r = {(seed + (uint64_t)i) ^ 0x9e3779b9};
        char *text = gen_program(seed + (uint64_t)i, mode);
        int ok = try_text(text, NULL, 0, mode == GEN_INTEGERS, &r, comm, host);
        if (!ok)
            gen_report("mpi", seed + (uint64_t)i, mode, text, case_why());
        free(text);
        MPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    dv_target_destroy(host);
    dv_mpi_destroy(comm);
    return all;
}

// -- Examples --------------------------------------------------------------

typedef struct example {
    const char *file;
    dv_param params[3];
    size_t n_params;
} example;

static const example examples[] = {
    {"heat.dv", {{"N", "65"}, {"T", "9"}}, 2},
    {"prk_stencil.dv", {{"N", "41"}}, 1},
    {"matmul.dv", {{"M", "40"}, {"N", "36"}, {"K", "30"}}, 3},
    {"softmax.dv", {{"M", "17"}, {"N", "40"}}, 2},
    {"basin.dv", {{"N", "20"}, {"T", "6"}}, 2},
};

int example_programs(const char *folder)
{
    dv_comm *comm = NULL;
    dv_target *host = NULL;
    dv_mpi_options o = {.timeout_s = 100, .checked = 1};
    if (dv_mpi_create(&comm, NULL, &o, NULL) ||
        dv_target_load(&host, "host", NULL))
        return 0;
    int all = 1;
    for (size_t i = 0; i < sizeof examples / sizeof *examples && all; i++) {
        const example *e = &examples[i];
        rng r = {i};
        char path[1000], *text = NULL;
        size_t len = 0;
        snprintf(path, sizeof path, "%s/%s", folder, e->file);
        int ok = !dv_file_read(&text, &len, path, 1 << 20, NULL) ||
                 case_no("it cannot be read");
        ok = ok && try_text(text, e->params, e->n_params, 0, &r, comm, host);
        if (!ok)
            fprintf(stderr, "rank %d: %s: %s\n", (int)comm->rank, path,
                    case_why());
        dv_release(text);
        MPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    dv_target_destroy(host);
    dv_mpi_destroy(comm);
    return all;
}
