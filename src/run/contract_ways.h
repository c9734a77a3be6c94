// The axes that a function of elements or a reduction goes over: dimensions of
// a nest with their steps, the last two of them inside a vector kernel. (Those
// of a product's moves are ct_axis.)
#ifndef DV_RUN_CONTRACT_WAYS_H
#define DV_RUN_CONTRACT_WAYS_H
#include "nest/nest.h"

enum {
    CT_MAX_WAYS = DV_NEST_MAX_DIMS + 2,
    CT_LEAST_PIECE = 16, // elements of a row that threads share
};

typedef struct ct_way {
    int64_t size, from, with, to; // steps in in0, in1 and out, in elements
    int is_k;
} ct_way;

typedef struct ct_ways {
    int32_t n, threads, cut;            // cut: what threads share; -1: none
    int64_t cut_unit;                   // it is cut at whole ones of these
    int64_t from_off, with_off, to_off; // where the axes begin, in elements
    ct_way at[CT_MAX_WAYS];
} ct_ways;

typedef struct ct_range {
    int64_t begin, end;
} ct_range;

// Put x behind those it does not come before. Out is gone through forwards, and
// so is in0 along k.
void ct_ways_add(ct_ways *a, ct_way x,
                 int (*before)(const ct_way *x, const ct_way *y));
// Neighbours that are one become one.
void ct_ways_join(ct_ways *a);
// Can a kernel step so far? Others are left to the loops.
int ct_way_is_near(const ct_way *x);

// What a thread has of every axis, and where its loops begin. 0: nothing.
int ct_ways_part(const ct_ways *a, int32_t thread, ct_range *of, int64_t *at);
// The next turn of the loops around the last two axes. 0: there is none.
int ct_ways_next(const ct_ways *a, const ct_range *of, int64_t *at);
#endif
