// Private to comm_mpi.c and file_mpi.c, the only files that include mpi.h.
#ifndef DV_COMM_MPI_H
#define DV_COMM_MPI_H
#include "team/team.h"
#include <mpi.h>

typedef struct dv_mpi {
    dv_comm comm; // first member: callers hold a pointer to it
    MPI_Comm mpi; // a duplicate of the user's communicator; owned
    int64_t max_bytes;
    double timeout_s;
    // 1 if there are more ranks on this machine than cores, so that waiting
    // ranks yield.
    int yields;
    int max_tag;
    dv_status failed;
} dv_mpi;
#endif
