// Random programs on the processes at hand.
#ifndef DV_MPI_RANDOM_H
#define DV_MPI_RANDOM_H

// Returns 0 when one of so many of each kind goes wrong; all ranks alike.
int random_programs(int cases);
// The same for some of the examples, which are in `folder`.
int example_programs(const char *folder);
#endif
