// Whether this process may use threads: a child of fork has none of its
// parent's threads.
#ifndef DV_FORK_H
#define DV_FORK_H

// Returns whether OpenMP threads can be used. In a child of fork they cannot,
// because OpenMP would wait forever for threads that only the parent has.
// Returns 0 if compiled without OpenMP.
int dv_has_threads(void);
#endif
