// Random nests, and memory for their operands that ends at a page that faults.
#ifndef DV_RANDOM_NEST_H
#define DV_RANDOM_NEST_H
#include "harness/gen.h"
#include "harness/kernels.h"
#include "nest/nest.h"

// Returns a size: 1, a prime or a number that vectors divide.
int64_t some_size(rng *r);
// Gives operand o random strides in the dimensions whose types it has.
void lay_out(rng *r, dv_nest *n, int o, const char *has);
// Returns the number of points of a nest without tiles.
double points_of(const dv_nest *n);
// Fills in the dimensions and strides of a product, with at most `most` of m, n
// and k each.
void random_dims(rng *r, dv_nest *n, int most);

typedef struct mapped {
    fenced f;
    char *data, *at; // at: the element with all indices 0
    size_t bytes;
} mapped;

// Maps an operand, filled with small integers, right before a page that faults,
// or right behind one.
void map_operand(const dv_nest *n, int o, int at_end, mapped *out);
// Stores random numbers in an operand that are not integers if its type is a
// float.
void fill_fractions(rng *r, const dv_nest *n, int o, mapped *x);
// Returns whether the results are equal, where -0 equals 0.
int same_results(const dv_nest *n, const mapped *a, const mapped *b);
void show_nest(const dv_nest *n, const dv_nest *ran, int threads);
#endif
