// A nest is one tensor operation written as loops around a kernel: a product
// out += in0 * in1, a function of up to three inputs, or a reduction of in0.
// docs/cli.md describes its language. A contraction of two tensors with any
// strides is such a nest, which runs without a program or plan:
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
//   dv_contract_run(c, a, b, NULL, out, diag);
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
    int64_t threads; // threads that loops are divided among; 0 means 1
    int64_t l1_bytes, l2_bytes, l3_bytes; // caches of a core; 0: a default size
    // Called after each pass; NULL: not called.
    void (*after)(void *user, const char *pass, const dv_nest *n);
    void *user;
    // The kernels' register tile: the vector length in bytes, and the tile's
    // rows and vectors per row of accumulators; 0: those of the instruction
    // set.
    int32_t vector_bytes, tile_rows, tile_vectors;
} dv_nest_options;
#define DV_NEST_OPTIONS_INIT                                                   \
    {                                                                          \
        sizeof(dv_nest_options), 0, 0, 0, 0, NULL, NULL, 0, 0, 0               \
    }

// The rules of a nest, with the names and numbers of the errors of mini_jit, a
// teaching compiler whose nests these are (docs/cli.md).
typedef enum dv_nest_rule {
#define NEST_RULE(NAME, name, number, text) DV_NEST_RULE_##NAME = number,
#include "divvy/nest_rule.def"
#undef NEST_RULE
} dv_nest_rule;

// Which operands of a product have a dimension: C all, M in0 and out, N in1 and
// out, K in0 and in1 (it is summed over).
typedef enum dv_nest_type {
    DV_NEST_C,
    DV_NEST_M,
    DV_NEST_N,
    DV_NEST_K,
} dv_nest_type;
// Who runs a dimension: threads (SHARED), a sequential loop (SEQ), or the
// kernel (PRIM). In a nest that kernels can run, dimensions are in this order.
typedef enum dv_nest_exec {
    DV_NEST_SHARED,
    DV_NEST_SEQ,
    DV_NEST_PRIM,
} dv_nest_exec;
enum {
    DV_NEST_MAX_DIMS = 64,
    DV_NEST_MAX_NAME = 63, // letters of the name of a nest
    DV_NEST_PLACES = 4     // operands: in0, in1, out and in2, in this order
};

// A dimension of a nest, which is a loop.
typedef struct dv_nest_loop {
    dv_nest_type type;
    dv_nest_exec exec;
    int64_t size;
    // Strides in elements; 0 if an operand does not have the dimension.
    int64_t in0, in1, out, in2;
    int64_t whole; // if it is inside a tile: the untiled size; otherwise 0
    uint32_t
        pack; // operands that each iteration packs: bit 0 in0, 1 in1, 2 out
} dv_nest_loop;

// The contents of a nest, as in its text (docs/cli.md).
typedef struct dv_nest_info {
    size_t size;
    const char *name; // letters, digits and _
    dv_dtype dtype;
    // The primitives of the prologue (mini_jit's first touch), of the kernel
    // and of the epilogue (last touch), such as "zero", "gemm" and "relu";
    // NULL: none.
    const char *first, *main, *last;
    const dv_nest_loop *loops; // the dimensions, outermost first
    size_t n_loops;
    const char *types[DV_NEST_PLACES];    // such as "f16"; NULL: `dtype`
    const double *values[DV_NEST_PLACES]; // of constants; NULL: in memory
    int mean;      // 1: sums are divided by the number of their terms
    int laid;      // 1: only divvy's rules are checked, not mini_jit's
    uint32_t pack; // operands that are packed before all loops, as in a loop
    // For indirect indexing: 1 + the number of the operand that the index
    // tensor in2 indexes; 0: none. Indices are 0 to index_count - 1; index i
    // selects the element at offset index_stride * i.
    int look;
    int64_t index_stride, index_count;
} dv_nest_info;
#define DV_NEST_INFO_INIT                                                      \
    {                                                                          \
        sizeof(dv_nest_info), "nest", DV_F32, NULL, NULL, NULL, NULL, 0,       \
            {NULL, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL}, 0, 0, 0, 0, 0, \
            0                                                                  \
    }

// Makes a nest. Like dv_nest_parse, it checks only its words; a wrong one fails
// with DV_E_NEST and its rule (dv_diag_rule). Nests that break other rules can
// be made; dv_nest_check finds them.
DV_API dv_status dv_nest_make(dv_nest **out, const dv_nest_info *info,
                              dv_diag *diag);
// Gets the contents of a nest, from which dv_nest_make makes an equal one.
// `loops` receives its dimensions; `values` receives its constants; strings
// live as long as the nest.
DV_API void dv_nest_describe(dv_nest_info *out,
                             dv_nest_loop loops[DV_NEST_MAX_DIMS],
                             double values[DV_NEST_PLACES], const dv_nest *n);
// Returns whether two nests have the same name, type, primitives, operands and
// dimensions.
DV_API int dv_nest_equal(const dv_nest *a, const dv_nest *b);

// Parses the text of one nest, which is copied. Only the syntax is checked.
DV_API dv_status dv_nest_parse(dv_nest **out, const char *text, size_t len,
                               const char *name, dv_diag *diag);
// Which tensor of a program an operand of a nest is: its number in
// dv_program_tensor, or -1 if there is no operand or the tensor is not in the
// program as written; and the offset in the tensor at which the nest begins.
typedef struct dv_nest_place {
    int tensor;
    int64_t offset_elems;
} dv_nest_place;
// Makes the nest of an op of a program. `op` is the name of the tensor that it
// writes; `grain` is DV_GRAIN_FUSED (one op per statement), DV_GRAIN_PRIMITIVE
// or DV_GRAIN_FUNCTION (one op per function). The factors of a product may be
// exchanged: `places`, unless NULL, receives the tensors of in0, in1, out and
// in2. Fails with DV_E_NEST and the reason if the op has no nest.
DV_API dv_status dv_nest_derive(dv_nest **out,
                                dv_nest_place places[DV_NEST_PLACES],
                                const dv_program *p, dv_grain grain,
                                const char *op, dv_diag *diag);
DV_API void dv_nest_destroy(dv_nest *n);
DV_API char *dv_nest_text(const dv_nest *n); // parses to the same nest
// Checks that sizes, strides and primitives (the kernel's operations) agree and
// that no element is written by two points of the loops. Fails with DV_E_NEST
// and the rule that is broken.
DV_API dv_status dv_nest_check(const dv_nest *n, dv_diag *diag);
// Returns the number of the rule that a nest breaks (a dv_nest_rule), if the
// error is DV_E_NEST; 0: none.
DV_API int dv_diag_rule(const dv_diag *d);
// Does dv_nest_check, and also checks that the nest has the form that the
// kernels of mini_jit (a teaching compiler) need: shared loops (divided among
// threads), then seq loops (sequential), then prim loops (part of the kernel),
// which are one m, one n and the k of the kernel's primitive, with unit
// strides. The passes "seed" produce this form. dv_contract_create accepts
// other forms too.
DV_API dv_status dv_nest_verify(const dv_nest *n, dv_diag *diag);
// Optimises the nest in place. `passes` is "best" (NULL: the same), divvy's own
// passes; "seed" or "seed+brgemm", those of mini_jit, a teaching compiler; or a
// list of passes such as "join,kernel". The result that the nest computes does
// not change.
DV_API dv_status dv_nest_optimise(dv_nest *n, const char *passes,
                                  const dv_nest_options *options,
                                  dv_diag *diag);

// -- Contractions: nests that are ready to run -------------------------------

// Memory for generated code, which several contractions can share.
typedef struct dv_jit dv_jit;
typedef struct dv_contract dv_contract; // a nest ready to run

// Creates memory for generated code. Fails with DV_E_SYSTEM if divvy generates
// no code for this machine.
DV_API dv_status dv_jit_create(dv_jit **out, dv_diag *diag);
DV_API void dv_jit_destroy(dv_jit *jit);

// Which decisions about a nest dv_contract_create makes; all others it takes
// from the nest.
typedef enum dv_nest_optimise_level {
    DV_NEST_OPTIMISE_ALL, // kernel, tiles, loops and packing
    DV_NEST_OPTIMISE_NONE,
    // Adds packing (copies of the operands in the order in which the kernel
    // reads them) if the nest has none. A loop over k directly around a kernel
    // with one k becomes part of the kernel.
    DV_NEST_OPTIMISE_PACKING,
} dv_nest_optimise_level;

typedef struct dv_contract_options {
    size_t size;
    int32_t threads;                      // 0 means 1
    int64_t l1_bytes, l2_bytes, l3_bytes; // caches of a core; 0: a default size
    dv_nest_optimise_level optimise;
    // 1: every result is one chain of additions in the order of k, regardless
    // of the sizes of m and n. Tiles of a larger product then give the same
    // bits as the whole.
    int ordered_sum;
} dv_contract_options;
#define DV_CONTRACT_OPTIONS_INIT                                               \
    {                                                                          \
        sizeof(dv_contract_options), 0, 0, 0, 0, DV_NEST_OPTIMISE_ALL, 0       \
    }

// Prepares a nest to run. The nest is copied. For one thread, a plain product,
// whose operands are all f32 or all f64, with no first operation, zero or copy,
// and no last operation, relu or copy, is optimised, its kernels are generated
// and its buffers allocated; `jit` is then borrowed until dv_contract_destroy
// (NULL: it has its own). With DV_NEST_OPTIMISE_NONE it must have a form that
// kernels exist for, otherwise DV_E_NEST, unless it leaves no dimension to a
// kernel. Any other nest, and any nest for several threads, is planned as a
// program of one op, whatever its loops are, and uses the kernels that all
// execs share: products of any types and with any first and last operation,
// functions of up to three inputs, where out may be one of the inputs with the
// same strides, and reductions. Fails with DV_E_NEST if an indirect index is
// not that of a tensor with these strides, and with DV_E_LIMIT or DV_E_OVERFLOW
// if the nest is too large.
DV_API dv_status dv_contract_create(dv_contract **out, dv_jit *jit,
                                    const dv_nest *n,
                                    const dv_contract_options *options,
                                    dv_diag *diag);
DV_API void dv_contract_destroy(dv_contract *c);
// Runs the contraction once, with its own threads. The pointers are the
// addresses of the elements where all indices are 0; an operand that the nest
// does not read may be NULL. in2 is the third input of a select, or an index
// tensor. Fails with DV_E_BOUNDS if an index is out of bounds; the results are
// then undefined. A run that succeeds allocates and locks nothing; only one run
// at a time. Every run gives the same bits. The bits of a nest that is planned
// do not depend on the number of threads; a plain product on one thread may
// round its sums differently.
DV_API dv_status dv_contract_run(dv_contract *c, const void *in0,
                                 const void *in1, const void *in2, void *out,
                                 dv_diag *diag);
// Returns the nest that is run: for a plain product on one thread the optimised
// nest, otherwise the nest as given.
DV_API const dv_nest *dv_contract_nest(const dv_contract *c);

#ifdef __cplusplus
}
#endif
#endif
