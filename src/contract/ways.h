// The axes that a function of elements or a reduction goes over: dimensions of
// a nest with their steps, the last two of them inside a vector kernel. (Those
// of a product's moves are ct_axis.)
#ifndef DV_RUN_CONTRACT_WAYS_H
#define DV_RUN_CONTRACT_WAYS_H
#include "nest/nest.h"
#include "contract/state.h"

enum {
    CT_MAX_WAYS = DV_NEST_MAX_DIMS + 2,
    CT_LEAST_PIECE = 16, // elements of a row that threads share
};

typedef struct ct_way {
    int64_t size, step[DV_MAX_OPERANDS]; // in elements
    uint8_t is_k, is_index;              // is_index: an index steps in it
} ct_way;

typedef struct ct_ways {
    int32_t n, threads, cut;      // cut: what threads share; -1: none
    int64_t cut_unit;             // it is cut at whole ones of these
    int64_t off[DV_MAX_OPERANDS]; // where the axes begin, in elements
    ct_way at[CT_MAX_WAYS];
} ct_ways;

typedef struct ct_range {
    int64_t begin, end;
} ct_range;

// An operand that is looked up.
typedef struct ct_look {
    int32_t operand; // -1: none is
    dv_dtype type;   // of the index
    int64_t step, size;
} ct_look;

// The dimensions of a nest as axes, but for those of one step: `before` says
// whether x comes before y. Out is gone through forwards, and so is in0 along
// k; but what an index steps in is taken as it is, before all others.
void ct_ways_list(ct_ways *a, const dv_nest *n,
                  int (*before)(const ct_way *x, const ct_way *y));
// Neighbours that are one become one.
void ct_ways_join(ct_ways *a);
// Can a kernel step so? Others are left to the loops.
int ct_way_is_near(const ct_way *x);
// The type that a vector kernel computes a nest in.
dv_dtype ct_compute_of(const dv_nest *n);

// What a thread has of every axis, and where its loops begin. 0: nothing.
int ct_ways_part(const ct_ways *a, int32_t thread, ct_range *of, int64_t *at);
// The next turn of the loops around the last two axes. 0: there is none.
int ct_ways_next(const ct_ways *a, const ct_range *of, int64_t *at);

ct_look ct_look_of(const dv_nest *n);
// Elements that the index at an element of in2 adds. 0: it is none; then `bad`
// is it.
int ct_look_up(const ct_look *l, const unsigned char *in2, int64_t at,
               int64_t *off, ct_bad *bad);
#endif
