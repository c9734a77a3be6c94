// The nest: one tensor operation as loops around a kernel. It computes
// out += in0 * in1, out = f(in0), out = f(in0, in1), out = f(in0, in1, in2) or,
// reducing in0 along k, out = f(out, in0), over a list of dimensions, outermost
// first. A dimension's type says which tensors have it:
//
//        in0  in1  out
//   c     x    x    x     batch            nest c f32 {
//   m     x         x                          first zero
//   n          x    x                          main gemm
//   k     x    x          summed over          n 64 shared: in1 64, out 64
//                                              m 64 prim: in0 1, out 1
// (of a unary, in0 and out have c, m, n;       n  1 prim: in1 1, out 1
// a binary has c, m, n as a product has;       k 64 prim: in0 64, in1 1
// a reduction's in0 has k as well)         }
//
// What is no product has c where an input stays at the same element, too: then
// its stride is 0. A select has c alone.
//
// and its execution who runs it: threads (shared), a loop (seq) or the kernel
// (prim). Before the first product of an output element is added comes the
// first touch, behind the last one the last touch, both in place.
//
// What a nest promises comes in two steps. dv_nest_check: it means something
// (sizes, strides and primitives agree; no element is written by two points
// of c, m, n); this is what passes and the executor need. dv_nest_verify: it
// also has the form a kernel is made for; those are the rules of mini_jit,
// in rule.def, checked in its order.
//
// Kernels think in columns: m has unit stride in in0 and out, k in in1.
//
// A dimension may be cut into tiles that do not divide it; and an operand may
// be packed, copied together in a buffer, before the loops that read it:
//
//   m 17 seq pack in0: in0 96, out 96     17 tiles of 96, the last of 65; in
//   m 96 of 1601 prim: in0 1, out 1       each, what is read of in0 is packed
//
// The tiles stand before what they are made of and step over it; `of` says
// where the last one ends, on every level but the outermost. Packed out is
// gathered, added to, and put back. A nest whose k is shared sums parts of it
// apart and combines them in order: the line `combine` says so.
//
// Operands need not be alike:
//
//   in0 f16                  of another type than the nest's, which is out's
//   in1 = 0.5                a constant, not in memory
//   look in0 by in2 64 of 10 the index in in2, 0 to 9, says where in in0, in
//                            steps of 64 elements
//   mean                     sums are divided by how many there are, before
//                            the last touch
//
// Memory: a nest is a plain value, copied with =. It borrows the text that its
// positions refer to.
//
//   nest.[ch]           tables of the nest, and what follows from its numbers
//   prim.def            the primitives of kernels
//   text.c              reads and prints nests
//   verify.c, rule.def  the rules of a nest, as mini_jit numbers them
//   derive.c            derives nests from the ops of a program
//   pass.c, pass.def    runs lists of passes
//   reorder.c           passes reorder and locality of mini_jit
//   split.c             passes split and fuse of mini_jit
//   prims.c             passes brgemm, primitives and shared of mini_jit
//   join.c              pass join: collapses dimensions by stride
//   best.[ch]           passes kernel and tile: search by cost
//   cut.c               cuts dimensions to fit caches
//   order.c             pass order: tries orders of loops
//   packs.c             pass pack: chooses what is packed, and in which loop
//   deal.c              pass deal: distributes loops over threads
//   cost.[ch]           the cost of a nest in ns
//   count.c             counts iterations of loops and elements of operands
//   bound.c             a lower bound of the cost
//   form.c              what a kernel reads in place, transposed or packed
//   tile.c              dimensions that are cut into tiles
//   run.c, run_body.h   the reference executor: plain loops, point by point
//   sums.[ch]           chooses in which order an op's products are summed
//   sums_lay.c          applies that order to a tile
//   section.c           the pass "loops" and section "nest" of a plan
#ifndef DV_NEST_H
#define DV_NEST_H
#include "ir/program.h"
#include "lang/lexer.h"
#include <string.h>

// Those of a product, and what others have as well: the third that a select
// reads, or an index.
enum { DV_IN0, DV_IN1, DV_OUT, DV_N_OPERANDS };
enum { DV_IN2 = DV_N_OPERANDS, DV_MAX_OPERANDS };
enum {
    DV_NEST_MAX_DIMS = 64,
    DV_NEST_MAX_NAME = 63,
    DV_NEST_FUSE_LIMIT = 256, // split from here on, fuse up to here
};
// Of one dimension; finding divisors takes the root of it.
#define DV_NEST_MAX_SIZE ((int64_t)1 << 40)

typedef enum dv_nest_type {
    DV_NEST_C,
    DV_NEST_M,
    DV_NEST_N,
    DV_NEST_K,
} dv_nest_type;

// In the order they must stand in.
typedef enum dv_nest_exec {
    DV_NEST_SHARED,
    DV_NEST_SEQ,
    DV_NEST_PRIM,
} dv_nest_exec;

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
    int fn; // dv_fn, or -1
} dv_prim_info;

typedef struct dv_nest_dim {
    dv_nest_type type;
    dv_nest_exec exec;
    int64_t size;
    int64_t stride[DV_MAX_OPERANDS]; // in elements; 0: the operand lacks it
    int64_t whole; // the tiles of this end here; 0: they are not cut short
    uint32_t off;  // in the text
    uint8_t pack;  // a bit an operand: packed in each turn of the loop
} dv_nest_dim;

// What passes may do to k, which decides the order of additions: anything; not
// join two k to one; nothing at all, k is cut and in order already.
typedef enum dv_nest_k_order {
    DV_K_FREE,
    DV_K_APART,
    DV_K_AS_IT_IS,
} dv_nest_k_order;

// Sums in lanes of vectors along k, that are added up at the end (dot products)
// are in another order than sums in one chain: which does the kernel have?
typedef enum dv_nest_dot {
    DV_DOT_EITHER,
    DV_DOT_NEVER,
    DV_DOT_ALWAYS,
} dv_nest_dot;

struct dv_nest {
    char name[DV_NEST_MAX_NAME + 1];
    dv_dtype dtype;
    dv_prim first, main, last;
    uint8_t pack;    // a bit an operand: packed once, before all loops
    uint8_t combine; // parts of a shared k are summed apart
    uint8_t laid;    // by our own passes: it need not be what mini_jit runs
    uint8_t k_order; // dv_nest_k_order; no part of the text
    uint8_t dot;     // dv_nest_dot; no part of the text
    // Of in0 and in1, where a plan takes them as they are: sums are of f32 or
    // i32 and stored as `dtype` says; 0: all have `dtype`. No part of the text.
    uint8_t narrow;
    uint8_t fits; // whole sums fit 32 bits; no part of the text
    // 1 + DV_NEST_M or DV_NEST_N: before the last touch a value is added, one
    // for each element of these (contract/contract.h says where they are); 0:
    // none. No part of the text.
    uint8_t bias;
    uint8_t behind;    // out is gone over behind it; no part of the text
    uint8_t mean;      // sums are divided by how many there are
    uint8_t constants; // a bit an operand: it is value[operand]
    // 1 + the operand that in2 is the index of, in steps of so many elements,
    // up to this one; 0: none.
    uint8_t look;
    uint8_t types[DV_MAX_OPERANDS]; // 1 + dv_dtype; 0: the nest's
    int64_t look_step, look_size;
    double value[DV_MAX_OPERANDS];
    int32_t n_dims;
    dv_nest_dim dims[DV_NEST_MAX_DIMS];
    const dv_source *src; // borrowed; NULL: made in C
    uint32_t off;
};

// Of all its tiles together.
static inline int64_t dv_nest_whole(const dv_nest_dim *d)
{
    return d->whole ? d->whole : d->size;
}

// A bit an operand that is packed, wherever.
static inline int dv_nest_packed(const dv_nest *n)
{
    int packed = n->pack;
    for (int i = 0; i < n->n_dims; i++)
        packed |= n->dims[i].pack;
    return packed;
}

// The same as =, without the dimensions that are not there.
static inline void dv_nest_copy(dv_nest *to, const dv_nest *from)
{
    memcpy(to, from, offsetof(dv_nest, dims));
    memcpy(to->dims, from->dims, (size_t)from->n_dims * sizeof *from->dims);
    to->src = from->src;
    to->off = from->off;
}

// -- Tables (nest.c) ---------------------------------------------------------

const dv_prim_info *dv_prim_get(dv_prim p);
// Does it make out a constant, and which?
int dv_prim_is_const(dv_prim p, double *value);
// The constant that a reduction begins with: of nothing, it is the result.
dv_prim dv_prim_of_nothing(dv_prim reduce);
int dv_prim_find(const char *name, size_t len); // -1: there is none
const char *dv_nest_type_name(dv_nest_type t);
const char *dv_nest_exec_name(dv_nest_exec e);
const char *dv_nest_operand_name(int operand);

int dv_nest_is_unary(const dv_nest *n);
int dv_nest_is_binary(const dv_nest *n);
int dv_nest_is_select(const dv_nest *n);
int dv_nest_is_reduce(const dv_nest *n);
int dv_nest_is_product(const dv_nest *n);
// Does the kernel of a unary exchange m and n? Its m is unit in in0, its n in
// out.
int dv_nest_is_transposed(const dv_nest *n);
// The type of an operand.
dv_dtype dv_nest_dtype(const dv_nest *n, int operand);
// Have all operands the nest's type?
int dv_nest_is_of_one_type(const dv_nest *n);
// The type of both factors of a product, if kernels have it, with results as
// the nest has them: f32 and f64 are their own, f16 and bf16 are stored as any
// of f32 and themselves, i8 and i32 as i32. -1: there are none.
int dv_nest_factors(const dv_nest *n);
// What it is computed in: f64 where an operand is; whole numbers in i64; floats
// in f32, but in f64 beside whole numbers that f32 has no room for.
dv_dtype dv_nest_compute(const dv_nest *n);
// Is the operand read from memory, or written?
int dv_nest_has(const dv_nest *n, int operand);
// How many elements make up a result.
double dv_nest_count_k(const dv_nest *n);
// Same nest, wherever it stands in its text.
int dv_nest_equal(const dv_nest *a, const dv_nest *b);
// Least and greatest element that an operand is reached at, counted from the
// one where all indices are 0. 0 when a number overflows.
int dv_nest_extent(const dv_nest *n, int operand, int64_t *lo, int64_t *hi);

// -- Tiles (tile.c) ----------------------------------------------------------

// Where a dimension stands among its tiles.
typedef struct dv_nest_tiles {
    int outer[DV_NEST_MAX_DIMS]; // whose tiles it makes up; -1: of none
    int inner[DV_NEST_MAX_DIMS]; // what its tiles are made of; -1: it is whole
    int64_t unit[DV_NEST_MAX_DIMS]; // elements that a step goes over
} dv_nest_tiles;
// 0: a dimension has `of`, but nothing before it steps over it; *bad is it.
int dv_nest_tiles_of(const dv_nest *n, dv_nest_tiles *out, int *bad);
int dv_nest_is_tiled(const dv_nest *n);   // or packed, or combined
int dv_nest_is_decided(const dv_nest *n); // a loop is more than seq
// The nest without tiles, marks and buffers. The nest must pass the check.
void dv_nest_unite(dv_nest *n);
void dv_nest_unite_tiles(dv_nest *n, const dv_nest_tiles *t); // that it has
// Cut dimension i in two at `size`; the tiles are put before it. Needs room.
void dv_nest_cut(dv_nest *n, int i, int64_t size);

// -- Rules (verify.c) --------------------------------------------------------

// dv_nest_check is public (divvy.h): the rules that all nests obey; so is
// dv_nest_verify: all rules there are. Between them: first shared, then seq,
// then prim; k shared only to combine.
dv_status dv_nest_check_order(const dv_nest *n, dv_diag *diag);

// -- Text (text.c) -----------------------------------------------------------

// Read one nest, from the word `nest` to its closing brace. Nothing is checked
// but the form.
dv_status dv_nest_read(dv_lexer *lx, dv_nest *out);
// A whole text that is one nest. The source is borrowed by the nest.
dv_status dv_nest_from(dv_nest *out, const dv_source *src, dv_diag *diag);
void dv_nest_print(dv_text *out, const dv_nest *n); // reads back as the same

// -- Passes (pass.c and a file each) -----------------------------------------

// Each expects and keeps what dv_nest_check promises, and the result up to the
// order of sums.
typedef struct dv_nest_pass {
    const char *name, *about;
    int tiled; // runs on nests that are tiled or packed as well
    dv_status (*run)(dv_nest *n, const dv_nest_options *options, dv_diag *diag);
} dv_nest_pass;
const dv_nest_pass *dv_nest_pass_get(int i);         // NULL past the last
int dv_nest_pass_find(const char *name, size_t len); // -1: there is none

// Passes that belong together: best, seed, seed+brgemm. NULL: no such list.
const char *dv_nest_list(const char *name);
// dv_nest_optimise is public (divvy.h): check, then run passes, "split,fuse" or
// a list by name, checking behind each.

#define NEST_PASS(name, run, tiled, about)                                     \
    dv_status run(dv_nest *n, const dv_nest_options *options, dv_diag *diag);
#include "nest/pass.def"
#undef NEST_PASS

// The dimensions inside the kernel by the part they play; -1: none is marked.
// k1 is the innermost k, k2 the one a brgemm adds its batch over. A binary and
// a select have two inside, of any types: m is the one with the smaller step in
// out. A reduction has one of any type, m, and k1.
typedef struct dv_nest_prims {
    int m, n, k1, k2;
} dv_nest_prims;
dv_nest_prims dv_nest_find_prims(const dv_nest *n);
// Does a step of `outer` go over all of `inner`, in every operand?
int dv_nest_steps_over(const dv_nest_dim *outer, const dv_nest_dim *inner);

// Of what is no product: large steps outermost, k behind the others.
void dv_nest_sort_loops(dv_nest *n);

// -- What a kernel sees (form.c) ---------------------------------------------

enum { DV_FORM_NEVER = -2, DV_FORM_TOP = -1 };
enum {
    DV_FORM_MAX_K = 8,
    DV_FORM_MAX_STEP = 1 << 28, // elements from row to row, in place
    DV_FORM_THIN_K = 16,        // inside a kernel of less than 4 rows
    DV_FORM_LONG_K = 96,        // there is time to write results beside it
};

// What of L1 a packed panel of columns takes at best, while rows pass it.
static inline int64_t dv_form_most_panel(int64_t l1_bytes)
{
    return l1_bytes / 8 * 5;
}

// Rows of k in place, each on a page of its own: more than pages at hand?
static inline int dv_form_many_pages(double k, double step_bytes)
{
    enum { PAGE_BYTES = 4096, PAGES = 32 };
    return k > PAGES && step_bytes >= PAGE_BYTES;
}
// A block of them that kernels bring for each other is at most so large: there
// are two in L1.
static inline int64_t dv_form_most_near(int64_t l1_bytes)
{
    return l1_bytes * 3 / 8;
}

// A product as row-major kernels compute it, rows by columns. The columns are
// the m or the n of the nest, whichever is unit stride in out.
typedef struct dv_nest_form {
    int row, col;         // the kernel's own dimensions; -1: there is none
    int k[DV_FORM_MAX_K]; // outermost first
    int n_k;
    int in_row, in_col; // operands: in0 and in1, or the other way round
    int n_loops;        // dimensions before the kernel's
    // In which loop an operand is packed: a dimension, TOP or NEVER.
    int pack[DV_N_OPERANDS];
    // Operands that are read in place: is the kernel's k what is unit stride
    // in that of the columns; is row that in that of the rows?
    int col_turned, row_turned;
} dv_nest_form;

// Columns are packed in panels of at most so many vectors, where `vectors` are
// what a kernel keeps in registers of f32 (cost.c). One less, if that many do
// not go into the columns and k of them leave no room in L1 for results that
// are read; as measured.
int32_t dv_nest_panel_vectors(const dv_nest *n, int32_t vectors, double cols,
                              double k, int64_t l1);

// The form of a nest that passes dv_nest_check_order. DV_E_NEST: there is none,
// and why: an operand is not packed though the kernel cannot read it in place.
dv_status dv_nest_form_of(const dv_nest *n, dv_nest_form *out, dv_diag *diag);
// The same in two steps: what is the kernel's, and the form if operands were
// packed in these loops.
dv_status dv_nest_form_dims(const dv_nest *n, dv_nest_form *out, dv_diag *diag);
dv_status dv_nest_form_packed(const dv_nest *n, const dv_nest_form *dims,
                              const int pack[], dv_nest_form *out,
                              dv_diag *diag);
// Does the kernel sum along k in lanes: are both its operands read in place,
// with k unit stride?
int dv_nest_form_is_dot(const dv_nest_form *f);
// Does the kernel pack the columns' operand itself, as its first rows read it?
// So it is where a block is packed for one turn of the innermost loop, and only
// copied.
int dv_nest_form_packs_on_way(const dv_nest *n, const dv_nest_form *f);
// A product of two matrices, or a batch of them, each read in place: there is a
// kernel for all of it that cuts, packs and shares on its own
// (jit/gemm/gemm.h). Then `as`, if not NULL, is the nest with that kernel
// inside.
int dv_nest_is_plain(const dv_nest *n, dv_nest *as);
// Can it be told so, with its tiles united and dimensions joined? Then `as`, if
// not NULL, is that nest, of which nothing is decided.
int dv_nest_is_matrices(const dv_nest *n, dv_nest *as);
// The same product as a reduction, of which nothing is decided.
void dv_nest_to_dot(dv_nest *n);

// -- Running (run.c) ---------------------------------------------------------

// Plain loops over a nest that dv_nest_check accepts; the reference for
// everything faster. Pointers are to the element where all indices are 0, by
// number of operand; NULL where it is not read. Sums are added up in the nest's
// dtype where it is that of all operands, else in f64. DV_E_BOUNDS: an index
// was found that is none.
dv_status dv_nest_run_all(const dv_nest *n, void *const at[DV_MAX_OPERANDS],
                          dv_diag *diag);
// The same without in2.
dv_status dv_nest_run(const dv_nest *n, const void *in0, const void *in1,
                      void *out, dv_diag *diag);
// Fill n elements with made-up whole numbers in -4..4: sums of their products
// are exact, so that every order of adding gives the same bits.
void dv_nest_fill(dv_dtype t, uint64_t seed, void *data, int64_t n);

// -- From programs (derive.c) ------------------------------------------------

// Where a nest's operands are: tensor numbers of the program (-1: none), and
// the element of each where all indices are 0.
typedef struct dv_nest_operands {
    int32_t tensor[DV_MAX_OPERANDS];
    int64_t offset_elems[DV_MAX_OPERANDS];
} dv_nest_operands;

// The nest of a lowered op: a sum of products of two reads, with or without
// what was there and a function of the result; a reduction of one read
// likewise; a function of up to three reads or constants; a move, also one that
// goes by an index that is read. All dimensions are seq.
// Others fail, saying what stands in the way. The nest borrows the program's
// text.
dv_status dv_nest_of_op(dv_nest *out, dv_nest_operands *where,
                        const dv_program *p, int32_t op, dv_diag *diag);
#endif
