// The public API of a rank: a plan, a communicator and the rank's data.
#include "team/team.h"
#include "base/options.h"

struct dv_rank_exec {
    dv_comm *comm;
    dv_rank *rank;
};

static dv_status make(dv_rank_exec *m, const dv_plan *plan,
                      const dv_rank_options *options, dv_diag *diag)
{
    dv_diag *mine = dv_diag_create();
    dv_status st = dv_plan_check(plan, mine); // an invalid plan is not run
    if (st == DV_OK)
        st = dv_rank_create(&m->rank, plan, m->comm, options, mine);
    DV_TRY(dv_comm_conclude(m->comm, st, mine, diag));
    return dv_rank_compare(m->rank, "created", diag);
}

dv_mpi_options dv_mpi_options_of(const dv_rank_exec_options *options)
{
    return (dv_mpi_options){.timeout_s = options->timeout_s,
                            .checked = options->checked,
                            .max_bytes = options->max_message_bytes};
}

dv_status dv_rank_exec_create(dv_rank_exec **out, const dv_plan *plan,
                              const void *mpi_comm,
                              const dv_rank_exec_options *options,
                              dv_diag *diag)
{
    dv_rank_exec_options given = DV_RANK_EXEC_OPTIONS_INIT;
    DV_TRY(dv_options_read(&given, sizeof given, options,
                           "dv_rank_exec_options", diag));
    dv_mpi_options o = dv_mpi_options_of(&given);
    dv_rank_options how = {.threads = given.threads,
                           .no_overlap = given.no_overlap};
    dv_comm *comm = NULL;
    DV_TRY(dv_mpi_create(&comm, mpi_comm, &o, diag));
    dv_diag *mine = dv_diag_create();
    dv_rank_exec *m = dv_alloc(sizeof *m);
    dv_status st = m ? DV_OK : dv_nomem(mine);
    st = dv_comm_conclude(comm, st, mine, diag);
    if (st != DV_OK) {
        dv_release(m);
        dv_mpi_destroy(comm);
        return st;
    }
    *m = (dv_rank_exec){.comm = comm};
    st = make(m, plan, &how, diag);
    if (st == DV_OK)
        *out = m;
    else
        dv_rank_exec_destroy(m);
    return st;
}

void dv_rank_exec_destroy(dv_rank_exec *m)
{
    if (!m)
        return;
    dv_rank_destroy(m->rank);
    dv_mpi_destroy(m->comm);
    dv_release(m);
}

int64_t dv_rank_exec_rank(const dv_rank_exec *m)
{
    return m->comm->rank;
}

static dv_status find_tensor(const dv_rank_exec *m, const char *name,
                             int32_t *out, dv_diag *diag)
{
    *out = dv_program_find(dv_rank_plan(m->rank, NULL)->ops, name);
    return *out >= 0 ? DV_OK
                     : dv_fail(diag, DV_E_NAME, DV_NOWHERE,
                               "the program has no tensor %s", name);
}

dv_status dv_rank_exec_data(const dv_rank_exec *m, const char *tensor,
                            void **data, dv_box *local, dv_box *own,
                            dv_diag *diag)
{
    int32_t t;
    DV_TRY(find_tensor(m, tensor, &t, diag));
    *data = dv_rank_data(m->rank, t, local, own);
    return DV_OK;
}

dv_status dv_rank_exec_run(dv_rank_exec *m, dv_diag *diag)
{
    return dv_rank_run(m->rank, diag);
}

dv_status dv_rank_exec_gather(dv_rank_exec *m, const char *tensor, void *whole,
                              dv_diag *diag)
{
    const dv_setting which = {"tensor", tensor};
    DV_TRY(dv_comm_compare(m->comm, &which, 1, "called", diag));
    int32_t t;
    DV_TRY(find_tensor(m, tensor, &t, diag));
    return dv_rank_gather(m->rank, t, whole, diag);
}
