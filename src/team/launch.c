// Reads the environment variables that MPI launchers set.
#include "team/team.h"
#include <stdlib.h>

int64_t dv_mpi_launched(int64_t *rank)
{
    // Environment variables with the number of ranks and this rank's number:
    // those of Open MPI, then of MPICH and other launchers that use PMI.
    static const char *const names[][2] = {
        {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
        {"PMI_SIZE", "PMI_RANK"}};
    *rank = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *size = getenv(names[i][0]), *at = getenv(names[i][1]);
        int64_t n = size ? strtoll(size, NULL, 10) : 0;
        if (n <= 0)
            continue;
        *rank = at ? strtoll(at, NULL, 10) : 0;
        return n;
    }
    return 0;
}
