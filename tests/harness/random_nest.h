// Random nests, and memory for their operands that ends at a page that faults.
#ifndef DV_RANDOM_NEST_H
#define DV_RANDOM_NEST_H
#include "harness/gen.h"
#include "harness/kernels.h"
#include "contract/contract.h"

// Returns a size: 1, a prime or a number that vectors divide.
int64_t some_size(rng *r);
// Lists the dimensions of some types ("cmn") in random order. Returns their
// number.
int shuffle_dims(rng *r, const dv_nest *n, const char *types, int *order);
// Gives operand o random strides in the dimensions whose types it has.
void lay_out(rng *r, dv_nest *n, int o, const char *has);
// Returns the number of points of a nest without tiles.
double points_of(const dv_nest *n);
// Fills in the dimensions and strides of a product, with at most `most` of m, n
// and k each.
void random_dims(rng *r, dv_nest *n, int most);

// Prints a nest for a failed test and, unless NULL, the nest that was run.
void show_nest(const dv_nest *n, const dv_nest *ran, int threads);

// A prepared nest, and what runs it: run_contraction, for example.
typedef struct prepared {
    const dv_nest *n;
    void *c;
    void (*run)(void *c, const void *in0, const void *in1, void *out);
} prepared;
// Runs a nest and compares with the oracle, where -0 equals 0.
int agrees_with_oracle(const prepared *p, int at_end);
// Runs the nests, two of the same products, on numbers that are not integers,
// so that every order of adding shows. Returns whether their results have the
// same bits.
int gives_same_bits(rng *r, const prepared p[2]);
// Runs a contraction with a workspace of its own, of the size it asks for.
void run_contraction(const dv_contraction *c, const void *in0, const void *in1,
                     void *out);
#endif
