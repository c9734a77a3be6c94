// Random products for tests of the JIT, with operands that begin or end at
// pages that may not be touched, and plain loops that compute the same.
#ifndef DV_TESTS_GEMM_CASE_H
#define DV_TESTS_GEMM_CASE_H
#include "harness/kernels.h"
#include "jit/gemm/gemm.h"
#include "jit/backend.h"
#include "base/dtype.h"
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

// Of the random cases one in so many is tried, because emulators are slow: the
// usual share, or DV_CASES percent.
int share(void);
#define SHARE share()

// An emulator may read whole vectors where a masked load touches only a part of
// one: there the pages around an operand may be read.
#if defined(DV_EMULATED) && defined(__x86_64__)
enum { AROUND = PROT_READ };
#else
enum { AROUND = PROT_NONE };
#endif

static inline fenced fence(size_t bytes, int at_end)
{
    return fence_in(bytes, at_end, AROUND);
}

typedef struct gemm_problem {
    dv_gemm_shape s;
    dv_gemm_args args;
    fenced a, b, c, bias;
    int64_t n_a, n_b, n_c;
    double *before;      // C before the product
    double *want, *size; // by element of C: the result, and the sum of the
                         // magnitudes of its terms; NULL until computed
} gemm_problem;

// The number of elements between the first and the last of an operand of
// rows x cols with leading dimension ld.
int64_t gemm_span(int64_t rows, int64_t cols, int64_t ld);
// The type of the sums and of the bias; the type that C is stored as.
unsigned gemm_type_sum(const dv_gemm_shape *s);
unsigned gemm_type_c(const dv_gemm_shape *s);
// Fills n elements; `odd`: with nan and infinities, and with integers whose
// sums wrap around.
void gemm_fill(int dtype, void *p, int64_t n, int odd);

// Allocates and fills the operands of q->s; gemm_stop() frees them.
void gemm_start(gemm_problem *q, int odd);
void gemm_stop(gemm_problem *q);
// C is what the plain loops compute, and nothing between its rows was written.
void gemm_compare(gemm_problem *q);

// Runs a kernel, or a plan, on operands of its own and compares the result.
void try_gemm(dv_jit *on, dv_gemm_shape s, int odd);
void try_plan(dv_jit *on, dv_gemm_shape s, const dv_gemm_options *o, int odd);
// Runs the plan of a product, and plans of four tiles of it, whose sums are cut
// into the same blocks of k: they give the same bits.
void try_tiles(dv_jit *on, dv_gemm_shape s);

// The number of columns of B that a kernel takes which packs B into panels.
int panel_cols(const dv_isa *isa, int dtype);
dv_gemm_shape random_gemm(int most, int dtype);
// Runs a plan with a workspace of its own, of the size it asks for.
void run_plan(const dv_gemm_plan *plan, const void *a, const void *b, void *c,
              const dv_gemm_args *args);
#endif
