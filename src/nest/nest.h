// A nest describes one tensor operation as loops around a kernel. It computes
// one of
//
//   out += in0 * in1                  a product (GEMM and relatives)
//   out = f(in0), f(in0, in1)         an elementwise function
//   out = f(in0, in1, in2)            a select
//   out = f(out, in0) along k         a reduction
//
// over a list of dimensions, outermost first. The type of a dimension says
// which operands of a product have it:
//
//        in0  in1  out
//   c     x    x    x     batch
//   m     x         x     rows of in0 and out
//   n          x    x     columns of in1 and out
//   k     x    x          reduced
//
// A binary function uses c, m and n in the same way; of a unary function, in0
// and out have c, m and n; in0 of a reduction has k as well. In nests other
// than products, a dimension may also be of type c if an input is broadcast
// along it: the input's stride is then 0. A select has dimensions of type c
// only.
//
// The execution of a dimension says who runs it: threads (shared), a sequential
// loop (seq) or the kernel (prim). Only mini_jit obeys `shared`; here it is a
// loop, and for several threads a nest is planned (exec/nest.c).
//
//   nest c f32 {
//       first zero
//       main gemm
//       n 64 shared: in1 64, out 64
//       m 64 prim: in0 1, out 1
//       n  1 prim: in1 1, out 1
//       k 64 prim: in0 64, in1 1
//   }
//
// `first` is the prologue, applied in place to an element of the output before
// the first product is added to it; `last` is the epilogue, applied after the
// last one. (The error messages of mini_jit call them first touch and last
// touch.)
//
// Nests are checked at two levels. dv_nest_check proves that the nest is
// meaningful: sizes, strides and primitives agree, and no two points of c, m, n
// write the same element; passes and executors need no more. dv_nest_verify
// also proves that mini_jit's kernels could run it; its rules are listed in
// divvy/nest_rule.def and checked in the order in which mini_jit checks them.
//
// Kernels of mini_jit are column-major: m has unit stride in in0 and out, k in
// in1.
//
// A dimension may be cut into tiles that do not divide it, and an operand may
// be packed, that is copied to a contiguous buffer, before the loops that read
// it:
//
//   m 17 seq pack in0: in0 96, out 96     17 tiles of 96, the last has 65; each
//   m 96 of 1601 prim: in0 1, out 1       iteration packs its block of in0
//
// The loop over tiles stands before the dimension inside a tile, and one of its
// steps spans all of that dimension; `of` gives the untiled size, on every
// level but the outermost. A packed output is read into its buffer, accumulated
// there and written back.
//
// Operands may have their own types, be constants or be indexed indirectly:
//
//   in0 f16                   in0 is f16; the nest's type is that of out
//   in1 = 0.5                 in1 is a constant that is not in memory
//   look in0 by in2 64 of 10  an indirect index: the value in in2, 0 to 9,
//                             selects the position in in0, in steps of 64
//                             elements
//   mean                      sums are divided by the number of their terms
//                             before the epilogue
//
// Ownership: a nest is a plain value, copied with =. It borrows the text that
// its source positions refer to.
//
// Files of this folder:
//
//   nest.[ch]           tables of primitives, properties derived from a nest
//   prim.def            the primitives that kernels implement
//   text.c              reads and prints nests
//   build.c             makes nests by calls, describes them
//   verify.c            the rules of a nest (divvy/nest_rule.def)
//   derive.c            derives nests from the ops of a program
//   pass.c, pass.def    runs lists of passes
//   reorder.c           passes reorder and locality of mini_jit
//   split.c             passes split and fuse of mini_jit
//   prims.c             passes brgemm, primitives and shared of mini_jit
//   join.c              pass join: collapses dimensions by stride
//   best.[ch]           passes kernel and tile: search by cost
//   cut.c               cuts dimensions to fit caches
//   order.c             pass order: tries orders of loops
//   packs.c             pass pack: chooses what is packed in which loop
//   cost.[ch]           the cost model: estimated time of a nest in ns
//   count.c             counts iterations of loops, elements of operands
//   bound.c             a lower bound of the cost
//   form.c              what a kernel reads in place, transposed or packed
//   tile.c              dimensions that are cut into tiles
//   program.c           a nest as a program of one op; evaluates it
//   sums.[ch]           chooses the order in which products are summed
//   sums_lay.c          applies that order of summation to a tile
//
// Other folders may also include: sums.h
#ifndef DV_NEST_H
#define DV_NEST_H
#include "base/math.h"
#include "divvy/nest.h"
#include "ir/program.h"
#include "lang/lexer.h"
#include <string.h>

// Operands of a nest: the three of a product, then a third input, which is the
// third argument of a select or an indirect index.
enum { DV_IN0, DV_IN1, DV_OUT, DV_N_OPERANDS };
enum { DV_IN2 = DV_N_OPERANDS, DV_MAX_OPERANDS };
enum {
    // The pass split cuts dimensions of at least this size in two; the pass
    // fuse makes none larger than this.
    DV_NEST_FUSE_LIMIT = 256,
};
// Largest size of one dimension. It is bounded because pass split searches for
// divisors up to its square root.
#define DV_NEST_MAX_SIZE ((int64_t)1 << 40)

typedef enum dv_prim {
#define DV_PRIM(NAME, name, kind, k_prims, fn) DV_PRIM_##NAME,
#include "nest/prim.def"
#undef DV_PRIM
    DV_N_PRIMS,
} dv_prim;

typedef struct dv_prim_info {
    const char *name;
    enum {
        DV_PRIM_IS_NOTHING,
        DV_PRIM_IS_UNARY,
        DV_PRIM_IS_BINARY,
        DV_PRIM_IS_SELECT,
        DV_PRIM_IS_REDUCE,
        DV_PRIM_IS_PRODUCT,
    } kind;
    int k_prims;
    // The scalar function (dv_fn, a row of lang/op.def) that the primitive
    // applies, or -1 if there is none.
    int fn;
} dv_prim_info;

typedef struct dv_nest_dim {
    dv_nest_type type;
    dv_nest_exec exec;
    int64_t size;
    // Stride in each operand, in elements; 0 if the operand does not have this
    // dimension.
    int64_t stride[DV_MAX_OPERANDS];
    // If the dimension is inside a tile: the size of the untiled dimension,
    // which may cut the last tile short; otherwise 0.
    int64_t whole;
    uint32_t off; // source position in the nest's text
    // In the nest of an op's tile: bit mask of the op's variables that this
    // dimension, or the dimension that it is a tile of, consists of. Not in the
    // nest's text.
    uint32_t vars;
    // Bit mask of the operands packed in every iteration of this loop.
    uint8_t pack;
} dv_nest_dim;

// Restrictions on what passes may do to the k dimensions, which decide the
// order of additions: none (FREE); two k dimensions are not collapsed into one
// (APART); k is already tiled and ordered, and must not change (AS_IT_IS).
typedef enum dv_nest_k_order {
    DV_K_FREE,
    DV_K_APART,
    DV_K_AS_IT_IS,
} dv_nest_k_order;

// Whether the kernel accumulates in the lanes of vectors along k (the summed
// dimension), which are reduced at the end (a dot product). This gives a
// different order of additions than one chain.
typedef enum dv_nest_dot {
    DV_DOT_EITHER,
    DV_DOT_NEVER,
    DV_DOT_ALWAYS,
} dv_nest_dot;

// The text of a nest contains what nests of mini_jit (a teaching compiler)
// contain. The other fields come from the op that the nest computes; section
// `schedule` of a plan prints what they decide.
struct dv_nest {
    char name[DV_NEST_MAX_NAME + 1];
    dv_dtype dtype;
    dv_prim first, main, last;
    uint8_t pack; // bit mask of the operands packed once, before all loops
    // 1 if the schedule comes from divvy's own passes; kernels of mini_jit (a
    // teaching compiler whose nests divvy reads) may not be able to run it.
    uint8_t laid;
    // How far passes may tile and reorder the k dimensions, which are summed (a
    // dv_nest_k_order). It is not part of the nest's text.
    uint8_t k_order;
    // Whether the kernel sums in vector lanes (a dv_nest_dot). It is not part
    // of the nest's text.
    uint8_t dot;
    // Type of in0 and in1 if a GEMM plan reads them in their narrow storage
    // type: sums are then f32 or i32 and are stored in the nest's type. 0 if
    // all operands have the nest's type. Not in the nest's text.
    uint8_t narrow;
    // 1 + DV_NEST_M or DV_NEST_N if a bias is added before the epilogue, one
    // value per element of m or of n (dv_contract_bias sets the values); 0 if
    // there is none. Not in the nest's text.
    uint8_t bias;
    // 1 if the output is read again right after the nest, so that its stores
    // must not bypass the caches. Not in the nest's text.
    uint8_t out_reused;
    // Bit mask of the inputs whose elements never change: they are packed
    // before the first run, which costs nothing in a run. Not in the nest's
    // text.
    uint8_t fixed;
    uint8_t mean; // sums are divided by the number of their terms
    // Bit mask of the operands that are constants, in value[].
    uint8_t constants;
    // 1 + the operand that is indexed indirectly by in2, or 0 if there is none.
    // Indices are from 0 to index_count - 1, and each step of one is
    // index_stride elements.
    uint8_t look;
    // 1 + dv_dtype of an operand; 0 if it has the nest's type.
    uint8_t types[DV_MAX_OPERANDS];
    // The estimated time on one thread in ns, and how many candidates (kernels
    // with their sizes) the search had, if the loops were searched for;
    // otherwise 0. Not in the nest's text.
    double cost_ns;
    int32_t n_candidates;
    int64_t index_stride, index_count;
    double value[DV_MAX_OPERANDS];
    int32_t n_dims;
    dv_nest_dim dims[DV_NEST_MAX_DIMS];
    // Borrowed source text; NULL if the nest was not read from text.
    const dv_source *src;
    uint32_t off;
};

// Returns the size of the untiled dimension that d is, or is a tile of.
static inline int64_t dv_nest_untiled_size(const dv_nest_dim *d)
{
    return d->whole ? d->whole : d->size;
}

// Returns the bit mask of the operands that are packed in any loop or before
// all.
static inline int dv_nest_packed(const dv_nest *n)
{
    int packed = n->pack;
    for (int i = 0; i < n->n_dims; i++)
        packed |= n->dims[i].pack;
    return packed;
}

// Copies a nest like =, but leaves out the unused entries of dims[] to be
// faster.
static inline void dv_nest_copy(dv_nest *to, const dv_nest *from)
{
    memcpy(to, from, offsetof(dv_nest, dims));
    memcpy(to->dims, from->dims, (size_t)from->n_dims * sizeof *from->dims);
    to->src = from->src;
    to->off = from->off;
}

// The functions below are in nest.c: tables of primitives, properties of a
// nest.

const dv_prim_info *dv_prim_get(dv_prim p);
// Returns whether the primitive sets the output to a constant, and stores that
// constant in *value.
int dv_prim_is_const(dv_prim p, double *value);
// Returns the primitive that initialises the accumulator of a reduction with
// its neutral element, which is also the result of reducing no elements.
dv_prim dv_prim_neutral(dv_prim reduce);
// Returns the primitive of that name, or -1 if there is none.
int dv_prim_find(const char *name, size_t len);
const char *dv_nest_rule_name(dv_nest_rule r);
const char *dv_nest_type_name(dv_nest_type t);
const char *dv_nest_exec_name(dv_nest_exec e);
const char *dv_nest_operand_name(int operand);

int dv_nest_is_unary(const dv_nest *n);
int dv_nest_is_binary(const dv_nest *n);
int dv_nest_is_select(const dv_nest *n);
int dv_nest_is_reduce(const dv_nest *n);
int dv_nest_is_product(const dv_nest *n);
// Returns the size of a dimension, or 1 if `dim` is negative (no dimension).
static inline int64_t dv_nest_size(const dv_nest *n, int dim)
{
    return dim < 0 ? 1 : n->dims[dim].size;
}
// Moves a dimension to another position and shifts those in between.
void dv_nest_move(dv_nest *n, int from, int to);
// Removes a dimension.
void dv_nest_drop(dv_nest *n, int dim);
// Returns whether the kernel of a unary function transposes: its m has unit
// stride in in0, its n in the output.
int dv_nest_is_transposed(const dv_nest *n);
// Returns the element type of an operand.
dv_dtype dv_nest_dtype(const dv_nest *n, int operand);
// Returns whether all operands have the nest's type.
int dv_nest_is_of_one_type(const dv_nest *n);
// Returns the common type of both factors of a product if there are kernels for
// it and the output type, otherwise -1. f32 and f64 need an output of the same
// type, f16 and bf16 an output of f32, f16 or bf16, i8 and i32 an output of
// i32.
int dv_nest_factors(const dv_nest *n);
// Returns the type that scalars are computed in: f64 if an operand is f64; i64
// if there are only integers; otherwise f32, or f64 if i32 or i64 values, which
// f32 cannot represent exactly, are read as well.
dv_dtype dv_nest_compute(const dv_nest *n);
// Returns whether the operand is in memory and the nest reads or writes it.
int dv_nest_has(const dv_nest *n, int operand);
// Sets *lo and *hi to the smallest and largest offset, in elements, at which
// the nest accesses an operand, relative to the element where all indices are
// 0. Returns 0 on overflow.
int dv_nest_extent(const dv_nest *n, int operand, int64_t *lo, int64_t *hi);

// The functions below are in tile.c: dimensions that are cut into tiles.

// How the dimensions of a nest are tiles of each other.
typedef struct dv_nest_tiles {
    // If this dimension is the inside of a tile: the loop over these tiles;
    // otherwise -1.
    int outer[DV_NEST_MAX_DIMS];
    // The dimension inside the tiles that this loop iterates over, or -1 if it
    // is no loop over tiles.
    int inner[DV_NEST_MAX_DIMS];
    // Elements of the untiled dimension that one step of this dimension
    // advances by.
    int64_t unit[DV_NEST_MAX_DIMS];
} dv_nest_tiles;
// Finds which dimensions of a nest are tiles of which loops. Returns 0, with
// the dimension in *bad, if a dimension is marked as the inside of tiles, but
// no dimension before it steps over all of it.
int dv_nest_tiles_of(const dv_nest *n, dv_nest_tiles *out, int *bad);
// Returns whether every tile in the nest of an op belongs to a loop over its
// own variables. dv_nest_tiles_of matches tiles with loops by strides alone,
// and strides of different variables may coincide. The innermost tile may have
// more variables than the loops around it, if dimensions inside the kernel were
// collapsed.
int dv_nest_tiles_are_right(const dv_nest *n);
// Returns whether the nest has tiles or packs an operand.
int dv_nest_is_tiled(const dv_nest *n);
// Returns whether any dimension is shared (run by threads) or prim (inside the
// kernel), that is whether a pass has begun to schedule the nest. All
// dimensions of a new nest are sequential loops.
int dv_nest_is_scheduled(const dv_nest *n);
// Undoes tiling and packing: leaves the untiled dimensions alone.
// The nest must pass dv_nest_check.
void dv_nest_untile(dv_nest *n);
// Does the same as dv_nest_untile with tiles that were already found.
void dv_nest_untile_with(dv_nest *n, const dv_nest_tiles *t);
// Splits dimension i into a loop over tiles and, inside it, a loop over the
// `size` elements of a tile. There must be room for one more dimension.
void dv_nest_cut(dv_nest *n, int i, int64_t size);

// The functions below are in verify.c: the rules that a nest must obey.

// Checks more than dv_nest_check and less than dv_nest_verify (both are in
// divvy.h): dimensions stand in the order shared (run by threads), seq (loops),
// prim (inside the kernel), and k is not shared.
dv_status dv_nest_check_order(const dv_nest *n, dv_diag *diag);

// The functions below are in text.c: reading and printing nests.

// Reads a text that consists of one nest. The nest borrows the source.
dv_status dv_nest_from(dv_nest *out, const dv_source *src, dv_diag *diag);
// Prints a nest as text that reads back as the same nest.
void dv_nest_print(dv_text *out, const dv_nest *n);

// The functions below are in pass.c and, for each pass, in the file that the
// table at the top names.

// A pass over a nest. It may assume that dv_nest_check accepts the nest, must
// keep that so, and may change the computed values only by the order of
// additions.
typedef struct dv_nest_pass {
    const char *name;
    int tiled; // the pass also accepts nests that are tiled or packed
    dv_status (*run)(dv_nest *n, const dv_nest_options *options, dv_diag *diag);
} dv_nest_pass;
// Returns pass number i, or NULL if i is out of range.
const dv_nest_pass *dv_nest_pass_get(int i);
// Returns the number of the pass with that name, or -1.
int dv_nest_pass_find(const char *name, size_t len);

// Returns the comma-separated passes of a predefined list, or NULL if there is
// no such list: `best` has divvy's own passes, `seed` and `seed+brgemm` those
// of mini_jit, a teaching compiler.
const char *dv_nest_list(const char *name);
// dv_nest_optimise is declared in divvy.h: it checks the nest, then runs the
// passes given by name ("split,fuse") or as a list, and checks the nest after
// each of them.

#define NEST_PASS(name, run, tiled, about)                                     \
    dv_status run(dv_nest *n, const dv_nest_options *options, dv_diag *diag);
#include "nest/pass.def"
#undef NEST_PASS

// The dimensions inside the kernel by role; -1 if no dimension with that role
// is marked prim (inside the kernel). k1 is the innermost k, k2 is the k that a
// brgemm (batch-reduce GEMM) sums its batch over. A binary function or a select
// has two dimensions of any type inside, m being the one with the smaller
// stride in the output; a reduction has m, of any type, and k1.
typedef struct dv_nest_prims {
    int m, n, k1, k2;
} dv_nest_prims;
dv_nest_prims dv_nest_find_prims(const dv_nest *n);
// Returns whether one step of `outer` equals the whole extent of `inner` in
// every operand, so that the two could be collapsed into one dimension.
int dv_nest_can_collapse(const dv_nest_dim *outer, const dv_nest_dim *inner);

// Returns whether one step of d in operand o equals the whole extent of p, so
// that d continues where p ends.
static inline int dv_nest_continues(const dv_nest_dim *d, const dv_nest_dim *p,
                                    int o)
{
    int64_t end;
    return p->stride[o] && dv_mul_i64(&end, p->size, p->stride[o]) &&
           d->stride[o] == end;
}
// Sorts the loops of a nest that is not a product: large strides outermost, k
// (the reduced dimensions) last.
void dv_nest_sort_loops(dv_nest *n);

// The functions below are in form.c: how a kernel accesses the operands of a
// product.

enum { DV_FORM_NEVER = -2, DV_FORM_TOP = -1 };
enum {
    DV_FORM_MAX_K = 8,
    // Largest distance in elements between rows of an operand read in place.
    DV_FORM_MAX_STEP = 1 << 28,
    DV_FORM_THIN_K = 16, // most k in a kernel with fewer than 4 rows
    // Fewest iterations of k (summed) in a kernel for which stores of results
    // are hidden behind multiply-adds.
    DV_FORM_LONG_K = 96,
};

// Returns the bytes of L1 that a packed panel of columns may occupy while
// panels of rows stream past it: 5/8.
static inline int64_t dv_form_max_panel(int64_t l1_bytes)
{
    return l1_bytes / 8 * 5;
}

// Returns whether the k rows of an operand read in place each lie on a page of
// their own and are more than 32, the number of pages whose translations are
// assumed to be in the TLB.
static inline int dv_form_exceeds_tlb(double k, double step_bytes)
{
    enum { PAGE_BYTES = 4096, PAGES = 32 };
    return k > PAGES && step_bytes >= PAGE_BYTES;
}
// Returns the largest block of rows, in bytes, that a kernel copies for the
// next kernel to use: two such blocks share L1, the one being read and the one
// being filled.
static inline int64_t dv_form_max_row_block(int64_t l1_bytes)
{
    return l1_bytes * 3 / 8;
}

// How row-major kernels compute a product, as rows by columns: which dimensions
// of the nest have which role. The columns are the m or the n of the nest,
// whichever has unit stride in the output.
typedef struct dv_nest_form {
    // Dimensions of the kernel's rows and columns; -1 if there is none.
    int row, col;
    int k[DV_FORM_MAX_K]; // dimensions of k inside the kernel, outermost first
    int n_k;
    // The input that has the kernel's rows and the one that has its columns:
    // in1 and in0, or in0 and in1.
    int in_row, in_col;
    int n_loops; // number of loops around the kernel
    // The number of outer k dimensions inside the kernel over which it sums a
    // batch of products. In an input that is read in place, the other k form
    // one contiguous run.
    int n_batch;
    // The loop in which each operand is packed: a dimension, DV_FORM_TOP
    // (before all loops) or DV_FORM_NEVER.
    int pack[DV_N_OPERANDS];
    // Set if an operand is read in place in transposed order: the columns'
    // operand has unit stride along k (summed), the rows' operand along the
    // rows.
    int col_transposed, row_transposed;
} dv_nest_form;

// Returns the largest number of vectors in a row of a packed panel of columns.
// This is `vectors`, the width of the register tile for f32, except that a
// width of 6 is reduced to 5 in two cases, in which 5 was faster when measured:
// for other element sizes; and if the output is read, 6 does not divide the
// columns and a panel with k rows exceeds its share of L1.
int32_t dv_nest_panel_vectors(const dv_nest *n, int32_t vectors, double cols,
                              double k, int64_t l1);

// Finds the form (how the kernel accesses the operands) of a nest that passes
// dv_nest_check_order. Fails with DV_E_NEST if the kernel cannot read an
// operand in place and the operand is not packed.
dv_status dv_nest_form_of(const dv_nest *n, dv_nest_form *out, dv_diag *diag);
// dv_nest_form_dims and dv_nest_form_packed do the same as dv_nest_form_of in
// two steps. The first finds the kernel's dimensions, the second how the kernel
// accesses the operands if these were packed in the loops of pack[].
dv_status dv_nest_form_dims(const dv_nest *n, dv_nest_form *out, dv_diag *diag);
dv_status dv_nest_form_packed(const dv_nest *n, const dv_nest_form *dims,
                              const int pack[], dv_nest_form *out,
                              dv_diag *diag);
// Returns whether the kernel accumulates along k (summed) in vector lanes: both
// inputs are read in place with unit stride along k.
int dv_nest_form_is_dot(const dv_nest_form *f);
// Returns whether the kernel itself packs the columns' operand while its first
// rows read it. This is done if the operand is packed in the innermost loop and
// packing is a plain copy of rows.
int dv_nest_kernel_packs(const dv_nest *n, const dv_nest_form *f);
// Returns whether the nest is one GEMM, or a batch of them, on matrices that
// can be read in place. jit/gemm/gemm.h has a plan for such a product as a
// whole, which tiles, packs and shares on its own. If `as` is not NULL, it is
// set to the nest with that kernel inside.
int dv_nest_is_gemm(const dv_nest *n, dv_nest *as);

// The functions below are in program.c: a nest as a program.

// Makes the program that computes the same as a nest that dv_nest_check
// accepts: one op, which updates the tensor `out` from the tensors `in0`, `in1`
// and `in2` that it reads. Fails with DV_E_NEST if an indirect index has no dim
// of its own, a constant is nan, or a tiled nest writes through an index.
dv_status dv_nest_program(dv_program **out, const dv_nest *n, dv_diag *diag);
// Prints the text of that program.
dv_status dv_nest_program_text(dv_text *out, const dv_nest *n, dv_diag *diag);
// Returns the operand that a tensor of the program is. *first is the offset, in
// elements, from the element of the operand where all indices are 0 to element
// 0 of the tensor; n_elems is the number of elements in memory. The tensor may
// have more, which are never accessed.
int dv_nest_tensor(const dv_nest *n, const dv_tensor *t, int64_t *first,
                   int64_t *n_elems);
// Evaluates the program of a nest with the oracle (the plain evaluator of
// programs), as the reference for faster executors. at[] points to the element
// of each operand where all indices are 0, NULL if the operand is not used; out
// may be an input. Fails with DV_E_BOUNDS if an indirect index is out of range;
// out is then not changed.
dv_status dv_nest_eval(const dv_nest *n, void *const at[DV_MAX_OPERANDS],
                       dv_diag *diag);
// Fills n elements with pseudo-random integers from -4 to 4. Sums of their
// products are exact, so that every order of additions gives the same bits.
void dv_nest_fill(dv_dtype t, uint64_t seed, void *data, int64_t n);

// The functions below are in derive.c: nests from programs.

// The tensors of a nest's operands: their number in the program (-1 if the
// operand is no tensor), and the offset of the element where all indices are 0.
typedef struct dv_nest_operands {
    int32_t tensor[DV_MAX_OPERANDS];
    int64_t offset_elems[DV_MAX_OPERANDS];
} dv_nest_operands;

// Derives the nest of a lowered op, with all dimensions as sequential loops.
// The op may be a sum of products of two reads, optionally added to the
// previous value of the output and followed by a unary function; a reduction of
// one read, likewise; a function of up to three reads or constants; or a copy,
// also with an indirect index. Fails for other ops and says why. The nest
// borrows the program's text.
dv_status dv_nest_of_op(dv_nest *out, dv_nest_operands *where,
                        const dv_program *p, int32_t op, dv_diag *diag);
// Derives the nest of a matrix product with any epilogue: of an op that
// dv_op_factors accepts. in0 and in1 are its factors, in this order. Dimension
// v is variable v of the op, untiled, and its field `off` is v. stride[o][v] is
// the stride of variable v in operand o; tensors are row-major if `stride` is
// NULL. If `narrow` is set, factors that matrix instructions can take keep
// their type. Returns 0 if the op is no product or kernels cannot run it.
int dv_nest_of_product(dv_nest *out, const dv_program *p, const dv_op *op,
                       int narrow, const int64_t *const stride[]);
#endif
