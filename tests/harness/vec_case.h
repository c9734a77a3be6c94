// What the tests of vector kernels share: problems with operands between pages
// that may not be touched, and plain loops that solve them.
#ifndef DV_TESTS_VEC_CASE_H
#define DV_TESTS_VEC_CASE_H
#include "harness/kernels.h"
#include "ir/program.h"
#include "base/dtype.h"
#include "jit/backend.h"
#include "jit/vec/ir.h"
#include "jit/vec/vec.h"
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef DV_EMULATED
enum { SHARE = 4 }; // one in so many random cases is tried: emulators are slow
#else
enum { SHARE = 1 };
#endif

enum { MAX_AT = 40 };

typedef struct vec_problem {
    dv_vec_shape s;
    dv_vec_operand o[MAX_AT];
    dv_vec_node n[DV_VEC_MAX_NODES];
    int64_t rows, cols;
    fenced f[MAX_AT];
    void *at[MAX_AT]; // the address of element (0, 0)
    double low, high; // the range of the inputs
    int odd;          // some inputs are inf, nan, -0 or subnormal
} vec_problem;

int es_of(unsigned t); // bytes of an element

// Allocates and fills the operands of q->s; vec_free() frees them.
void vec_make(vec_problem *q);
void vec_free(vec_problem *q);
double vec_input(const vec_problem *q); // a random element of an input
// The rows and columns of the result: one where they are reduced.
int64_t vec_rows(const vec_problem *q);
int64_t vec_cols(const vec_problem *q);
// Returns what the plain loops compute, from malloc.
double *vec_expected(const vec_problem *q);
// Every element of the result differs from `want` by at most `ulps` units in
// the last place of the coarser of the two types, of numbers as large as the
// element or as `scale`. Any nan equals any other nan.
void vec_check(const vec_problem *q, const double *want, double ulps,
               double scale, const char *what);
// Makes a kernel and the operands, runs it and checks the result.
void vec_solve(vec_problem *q, double ulps, double scale, const char *what);

dv_vec_node load_node(int operand);
dv_vec_node apply_node(dv_fn fn, int a, int b, int c);
// Gives operand i a type and random strides.
void set_strides(vec_problem *q, int i, unsigned dtype);
#endif
