// Arrays over a team, operation by operation, compared with plain arrays: the
// same test for threads of one process and for processes of MPI.
#ifndef DV_ARRAY_CASE_H
#define DV_ARRAY_CASE_H
#include "darray/darray.h"

// Every rank calls this with the same seed. Shapes, slices and values come from
// one stream of random numbers, grids and parts from another, so that the
// results are the same for any team. Returns their hash; adds to *bad the
// number of checks that failed.
uint64_t array_case(dv_team_link *p, uint64_t seed, int turns, int *bad,
                    dv_diag *diag);
#endif
