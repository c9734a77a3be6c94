// Local search on one answer, the addresses of buffers (see search.c). The
// search is an object, so that other solvers can propose better addresses for
// some items while it runs.
#ifndef DV_SEARCH_H
#define DV_SEARCH_H
#include "place/place.h"

typedef struct dv_search dv_search;

// Creates a search that starts from the answer `from`. Returns NULL when out of
// memory.
dv_search *dv_search_open(const dv_task *task, const dv_neighbours *neighbours,
                          uint64_t seed, dv_effort *effort,
                          const dv_answer *from);
// Proposes addresses `at` for `items` (-1: not placed) that do not conflict
// with each other. Items that overlap them are moved or evicted. The proposal
// is accepted if the total value does not fall.
void dv_search_propose(dv_search *s, const int32_t *items, const int64_t *at,
                       int32_t n);
// Makes local search steps until they have examined `effort` more overlapping
// items.
void dv_search_run(dv_search *s, int64_t effort);
// Returns the value of the best answer found so far.
int64_t dv_search_value(const dv_search *s);
// Copies the best answer found to *out and frees the search.
void dv_search_close(dv_search *s, dv_answer *out);
#endif
