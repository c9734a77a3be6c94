// A part of the processes as a team of their own: a communicator of theirs.
#include "team/mpi.h"
#include "team/comm_mpi.h"

dv_status dv_mpi_split(dv_comm **out, dv_comm *c, int64_t colour, dv_diag *diag)
{
    dv_mpi *m = (dv_mpi *)c;
    // MPI's colours are small: the number of the first rank that has ours.
    int64_t first = -1;
    for (int64_t r = 0; r < c->size; r++) {
        int64_t theirs = colour;
        dv_status st = c->ops->share(c, r, &theirs, (int64_t)sizeof theirs);
        if (st != DV_OK)
            return dv_comm_error(c, st, diag);
        if (theirs == colour && first < 0)
            first = r;
    }
    MPI_Comm part = MPI_COMM_NULL;
    int code = MPI_Comm_split(m->mpi, (int)first, (int)c->rank, &part);
    if (code != MPI_SUCCESS)
        return dv_comm_error(c, dv_mpi_status(m, code, "splitting a team"),
                             diag);
    dv_mpi_options o = {m->max_bytes, m->timeout_s, c->checked};
    dv_status st = dv_mpi_create(out, &part, &o, diag); // has its own copy
    MPI_Comm_free(&part);
    return st;
}
