// Children of fork have none of their parent's threads.
#ifndef DV_FORK_H
#define DV_FORK_H

// Are there threads to share work with? A child of fork has none of those that
// its parent shared with, but OpenMP would wait for them for ever. 0 where
// OpenMP was not compiled in.
int dv_has_threads(void);
#endif
