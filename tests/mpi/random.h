// Random programs on the ranks of MPI_COMM_WORLD.
#ifndef DV_MPI_RANDOM_H
#define DV_MPI_RANDOM_H

// Tries so many programs of each kind; returns 0 on all ranks if one of them
// fails.
int random_programs(int cases);
// The same for some of the examples, which are in `folder`.
int example_programs(const char *folder);
#endif
