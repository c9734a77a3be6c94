// One tensor operation, out += in0 * in1, a function of up to three inputs or a
// reduction of in0, as loops around a kernel (docs/cli.md has the language).
// Contractions of two tensors with any strides are such nests, and run alone:
//
//   static const char text[] = "nest c f32 {\n"
//                              "    first zero\n"
//                              "    main gemm\n"
//                              "    m 64 seq: in0 1, out 1\n"
//                              "    n 48 seq: in1 32, out 64\n"
//                              "    k 32 seq: in0 64, in1 1\n"
//                              "}\n";
//   dv_nest *n = NULL;
//   dv_contract *c = NULL;
//   if (dv_nest_parse(&n, text, sizeof text - 1, "c", diag) ||
//       dv_contract_create(&c, NULL, n, NULL, diag))
//       return fail(diag);
//   dv_contract_run(c, a, b, out);
//   dv_contract_destroy(c);
//   dv_nest_destroy(n);
#ifndef DIVVY_NEST_H
#define DIVVY_NEST_H
#include "divvy/divvy.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dv_nest dv_nest;

typedef struct dv_nest_options {
    size_t size;
    int64_t threads;                      // to share loops among; 0 means 1
    int64_t l1_bytes, l2_bytes, l3_bytes; // of a core; 0: a common size
    // Called behind each pass; NULL: not called.
    void (*after)(void *user, const char *pass, const dv_nest *n);
    void *user;
    // Of the kernels: bytes of a vector, rows of a register tile and vectors of
    // its rows; 0: those of NEON, 16, 4 and 5 (of 4 bytes: to 6).
    int32_t vector_bytes, tile_rows, tile_vectors;
} dv_nest_options;
#define DV_NEST_OPTIONS_INIT                                                   \
    {                                                                          \
        sizeof(dv_nest_options), 0, 0, 0, 0, NULL, NULL, 0, 0, 0               \
    }

// Read a text that is one nest. The text is copied. Nothing is checked but the
// form.
DV_API dv_status dv_nest_parse(dv_nest **out, const char *text, size_t len,
                               const char *name, dv_diag *diag);
// Which tensor an operand is, as dv_program_tensor counts (-1: none, or one
// that is not in the program as written), and where in it the nest begins.
typedef struct dv_nest_place {
    int tensor;
    int64_t offset_elems;
} dv_nest_place;
// The nest of an op, by the name of the tensor it writes: of a program whose
// statements are one op each (DV_GRAIN_FUSED) or one for each function
// (DV_GRAIN_FUNCTION). Factors may change places: `places` (NULL: not asked)
// are in0, in1, out and in2. DV_E_NEST says why an op has none.
enum { DV_NEST_PLACES = 4 };
DV_API dv_status dv_nest_derive(dv_nest **out,
                                dv_nest_place places[DV_NEST_PLACES],
                                const dv_program *p, dv_grain grain,
                                const char *op, dv_diag *diag);
DV_API void dv_nest_destroy(dv_nest *n);
DV_API char *dv_nest_text(const dv_nest *n); // parses to the same nest
// Does it mean something: sizes, strides and primitives agree, and no element
// is written by two points? DV_E_NEST names the rule that is broken.
DV_API dv_status dv_nest_check(const dv_nest *n, dv_diag *diag);
// Returns the number of the rule that a nest breaks (docs/cli.md lists them),
// if the error is DV_E_NEST; 0: none.
DV_API int dv_diag_rule(const dv_diag *d);
// Beyond that, has it the form of mini_jit's kernels: shared, then seq,
// then prim; one m, one n and the k of its primitive inside, unit strides? What
// the seed passes lead to; contractions take more than this.
DV_API dv_status dv_nest_verify(const dv_nest *n, dv_diag *diag);
// Lay the nest out in place: "best" (NULL), "seed" or "seed+brgemm", or passes
// by name, "join,kernel". What it computes stays the same.
DV_API dv_status dv_nest_optimise(dv_nest *n, const char *passes,
                                  const dv_nest_options *options,
                                  dv_diag *diag);

// -- Contractions ------------------------------------------------------------

typedef struct dv_jit dv_jit;           // generated code, that many can share
typedef struct dv_contract dv_contract; // a nest ready to run

// Memory for generated code. DV_E_SYSTEM where there is none for the machine.
DV_API dv_status dv_jit_create(dv_jit **out, dv_diag *diag);
DV_API void dv_jit_destroy(dv_jit *jit);

// Which decisions about a nest dv_contract_create makes; the others are taken
// from the nest.
typedef enum dv_nest_optimise_level {
    DV_NEST_OPTIMISE_ALL, // kernel, tiles, loops and packing
    DV_NEST_OPTIMISE_NONE,
    // Packing, if the nest packs nothing; and a loop over k directly around a
    // kernel with one k becomes part of the kernel.
    DV_NEST_OPTIMISE_PACKING,
} dv_nest_optimise_level;

typedef struct dv_contract_options {
    size_t size;
    int32_t threads;                      // 0 means 1
    int64_t l1_bytes, l2_bytes, l3_bytes; // of a core; 0: a common size
    int as_is;                            // dv_nest_optimise_level
    // A result is one chain of additions in the order of k, whatever the sizes
    // of m and n are: for tiles of a larger product.
    int one_sum;
} dv_contract_options;
#define DV_CONTRACT_OPTIONS_INIT                                               \
    {                                                                          \
        sizeof(dv_contract_options), 0, 0, 0, 0, 0, 0                          \
    }

// Lay a product out, make its kernels and get its buffers; or make those of a
// function of up to three inputs, where out may be an input with the same
// strides, or of a reduction. What a nest does not read may be NULL. The nest
// is copied; `jit` is borrowed until dv_contract_destroy (NULL: it has its
// own). Products have both factors of one type: f32 or f64 as out is; f16 or
// bf16 with out of f32, f16 or bf16, rounded once; i8 or i32 with out of i32,
// which wraps. Touches are any of floats: zero first and relu last are in their
// kernels, others go over out before, and behind each block. Of whole sums they
// are zero first, and relu last where all fit 32 bits. All others are of any
// types that vector kernels load and store. What has no kernel fails with
// DV_E_DTYPE or DV_E_NEST, what is too large with DV_E_LIMIT or DV_E_OVERFLOW.
// A nest that is kept has a form that kernels are made for, otherwise
// DV_E_NEST; products of narrow types are laid out anew in any case.
DV_API dv_status dv_contract_create(dv_contract **out, dv_jit *jit,
                                    const dv_nest *n,
                                    const dv_contract_options *options,
                                    dv_diag *diag);
DV_API void dv_contract_destroy(dv_contract *c);
// Run once, with the contraction's threads. Pointers are to the elements where
// all indices are 0. Allocates and locks nothing; one run at a time. The same
// bits every time, and for any number of threads unless k is summed in parts.
DV_API void dv_contract_run(dv_contract *c, const void *in0, const void *in1,
                            void *out);
// in2 of the runs behind this: what a select reads third, or an index.
DV_API void dv_contract_more(dv_contract *c, const void *in2);
// Did runs since the last call find an index that is none? What it would have
// led to was left out. DV_E_BOUNDS says which.
DV_API dv_status dv_contract_found(dv_contract *c, dv_diag *diag);
// The same for callers with threads of their own: the parts of all threads in
// any order; if there are two phases, wait for all, then combine likewise.
DV_API int32_t dv_contract_threads(const dv_contract *c);
DV_API int dv_contract_phases(const dv_contract *c); // 1 or 2
DV_API void dv_contract_part(dv_contract *c, int32_t thread, const void *in0,
                             const void *in1, void *out);
DV_API void dv_contract_combine(dv_contract *c, int32_t thread, void *out);
DV_API const dv_nest *dv_contract_nest(const dv_contract *c); // as it is run

#ifdef __cplusplus
}
#endif
#endif
