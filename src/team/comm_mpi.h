// Private to comm_mpi.c and file_mpi.c, the only ones that see MPI.
#ifndef DV_COMM_MPI_H
#define DV_COMM_MPI_H
#include "team/team.h"
#include <mpi.h>

typedef struct dv_mpi {
    dv_comm comm; // first: the user's pointer is this one's
    MPI_Comm mpi; // its own copy
    int64_t max_bytes;
    double timeout_s;
    int yields; // there are more ranks here than cores: let others run
    int max_tag;
    dv_status failed;
} dv_mpi;

// Waits, if need be until the time-out.
dv_status dv_mpi_wait(dv_mpi *m, MPI_Request *r, const char *doing);
#endif
