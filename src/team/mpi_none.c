// Replaces the MPI functions in builds without MPI; all report an error.
#include "team/team.h"
#include <stdlib.h>

static dv_status none(dv_diag *diag)
{
    return dv_fail(diag, DV_E_SYSTEM, DV_NOWHERE,
                   "divvy was built without MPI: install one (MPICH or Open "
                   "MPI) and build it again");
}

dv_status dv_mpi_begin(int64_t size, int *started, dv_diag *diag)
{
    *started = 0;
    return size > 1 ? none(diag) : DV_OK;
}

void dv_mpi_end(void)
{
}

void dv_mpi_abort(dv_comm *c, int code)
{
    (void)c;
    exit(code);
}

dv_status dv_mpi_create(dv_comm **out, const void *mpi_comm,
                        const dv_mpi_options *options, dv_diag *diag)
{
    (void)out, (void)mpi_comm, (void)options;
    return none(diag);
}

void dv_mpi_destroy(dv_comm *c)
{
    (void)c;
}

dv_status dv_mpi_split(dv_comm **out, dv_comm *c, int64_t colour, dv_diag *diag)
{
    (void)out, (void)c, (void)colour;
    return none(diag);
}

dv_status dv_mpi_open(dv_mpi_file **out, dv_comm *c, const char *path,
                      int write, dv_diag *diag)
{
    (void)out, (void)c, (void)path, (void)write;
    return none(diag);
}

dv_status dv_mpi_move(dv_mpi_file *f, const dv_mpi_part *p, dv_diag *diag)
{
    (void)f, (void)p;
    return none(diag);
}

dv_status dv_mpi_close(dv_mpi_file *f, dv_diag *diag)
{
    (void)f;
    return none(diag);
}

dv_status dv_mpi_sum(dv_comm *c, uint64_t *value, dv_diag *diag)
{
    (void)c, (void)value;
    return none(diag);
}
