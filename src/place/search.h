// Local search on one answer: see search.c. An object, so that other solvers
// can offer it better places for some of the items.
#ifndef DV_SEARCH_H
#define DV_SEARCH_H
#include "place/place.h"

typedef struct dv_search dv_search;

// Start from the answer. NULL when out of memory.
dv_search *dv_search_open(const dv_task *task, const dv_near *near,
                          uint64_t seed, dv_effort *effort,
                          const dv_answer *from);
// These items at these addresses (-1: out), legal among themselves; what is in
// their way goes elsewhere or out. Taken if the whole is no worse.
void dv_search_offer(dv_search *s, const int32_t *items, const int64_t *at,
                     int32_t n);
// Steps until `effort` more units are spent.
void dv_search_run(dv_search *s, int64_t effort);
// The value of the best answer seen.
int64_t dv_search_value(const dv_search *s);
// The best answer seen; frees the search.
void dv_search_close(dv_search *s, dv_answer *out);
#endif
