// Plans whose section dist was changed at random, run by processes under
// mpirun: what the checker accepts must run to its end and compute what the
// oracle computes. All ranks make the same mutants, and skip those that are
// refused or are for a team of another size.
//
//   mpirun -n N attack_mpi [MUTANTS]
//
// Without a number of mutants it is 100, scaled by DV_CASES (percent).
#include "mutate.h"
#include "subject.h"
#include "team/team.h"
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PER_PLAN = 25, TIMEOUT_S = 120 };

typedef struct tally {
    int64_t mutants, refused, other_team, not_run, right;
} tally;

// Runs the plan on all ranks: rank 0 has the whole inputs and receives the
// whole outputs. All ranks return the same status.
static dv_status run_rank(const dv_plan *plan, dv_comm *comm, rng *r,
                          void *const *data, dv_diag *diag)
{
    const dv_program *p = plan->ops;
    dv_rank_options how = {.threads = (int32_t)(1 + rng_below(r, 2)),
                           .no_overlap = rng_percent(r, 30)};
    dv_rank *rank = NULL;
    dv_diag *mine = dv_diag_create();
    dv_status st = dv_rank_create(&rank, plan, comm, &how, mine);
    st = dv_comm_agree_status(comm, st, mine, diag);
    dv_diag_destroy(mine);
    for (int32_t i = 0; st == DV_OK && i < p->n_tensors; i++)
        if (p->tensors[i].is_input)
            dv_rank_put(rank, i, data[i]);
    if (st == DV_OK)
        st = dv_rank_run(rank, diag);
    for (int32_t i = 0; st == DV_OK && i < p->n_tensors; i++)
        if (p->tensors[i].is_output)
            st = dv_rank_gather(rank, i, data[i], diag);
    dv_rank_destroy(rank);
    return st;
}

// Returns 1 if the results are right, or if no rank ran the plan for a stated
// reason.
static int try_mutant(const subject *s, const char *text, dv_comm *comm, rng *r,
                      tally *t)
{
    fate f;
    dv_plan *plan = subject_accept(text, &f);
    t->mutants++;
    t->refused += !plan;
    if (!plan)
        return 1;
    if (!plan->team.n_axes || dv_plan_team_size(&plan->team) != comm->size) {
        t->other_team++;
        dv_plan_destroy(plan);
        return 1;
    }
    void **data = case_buffers(plan->ops);
    dv_diag *diag = dv_diag_create();
    dv_status st = run_rank(plan, comm, r, data, diag);
    int ok = st != DV_OK || comm->rank > 0 || subject_right(s, plan, data);
    if (st == DV_E_SYSTEM) // a message did not arrive
        ok = case_no("%s", dv_diag_text(diag));
    t->not_run += st != DV_OK;
    t->right += st == DV_OK && ok;
    dv_diag_destroy(diag);
    case_free(data, plan->ops);
    dv_plan_destroy(plan);
    return ok;
}

static int attack_plan(uint64_t seed, dv_comm *comm, tally *t)
{
    subject s;
    int all = 1;
    if (!subject_make(&s, seed, comm->size))
        return 1;
    for (int i = 0; i < PER_PLAN && all; i++) {
        rng r = {seed * 1000003 + (uint64_t)i};
        char *text = mutate_plan(&r, s.text, s.donor, MUTATE_DIST);
        int ok = !text || try_mutant(&s, text, comm, &r, t);
        if (!ok)
            fprintf(stderr,
                    "\nattack mpi: rank %d, plan %" PRIu64
                    ", mutant %d: %s\nagain with DV_SEED=%" PRIu64
                    "\n----\n%s----\n",
                    (int)comm->rank, seed, i, case_why(), seed, text);
        free(text);
        MPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    subject_free(&s);
    return all;
}

int main(int argc, char **argv)
{
    int got;
    dv_comm *comm = NULL;
    tally t = {0};
    // With a time-out, a rank that would wait for ever fails instead.
    dv_mpi_options o = {.timeout_s = TIMEOUT_S};
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &got);
    if (dv_mpi_create(&comm, NULL, &o, NULL))
        MPI_Abort(MPI_COMM_WORLD, 2);
    int64_t n = argc > 1 ? strtoll(argv[1], NULL, 10) : gen_cases(100);
    int ok = 1;
    for (int64_t i = 0; ok && t.mutants < n && i < n + 20; i++)
        ok = attack_plan(gen_seed() + (uint64_t)i, comm, &t);
    if (comm->rank == 0)
        printf("attack mpi: %d ranks, %" PRId64 " mutants: %" PRId64
               " unreadable or refused, %" PRId64 " for another team, %" PRId64
               " accepted, not run, %" PRId64 " accepted, right\n",
               (int)comm->size, t.mutants, t.refused, t.other_team, t.not_run,
               t.right);
    if (!ok) // other ranks may be waiting
        MPI_Abort(MPI_COMM_WORLD, 1);
    dv_mpi_destroy(comm);
    MPI_Finalize();
    return t.mutants == 0;
}
