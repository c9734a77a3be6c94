// Inside contractions: what create makes ready and a run goes through.
#ifndef DV_RUN_CONTRACT_IN_H
#define DV_RUN_CONTRACT_IN_H
#include "jit/gemm/gemm.h"
#include "jit/backend.h"
#include "contract/contract.h"
#include <stdatomic.h>

enum { CT_MAX_THREADS = 1024, CT_RUNS = 3, CT_K_WAYS = 4 };
enum { CT_COMMON_L3 = 16 << 20 };

// A loop around the kernel. Steps are in bytes, of where its operands are:
// in a buffer inside the loop that packs them.
typedef struct ct_loop {
    int64_t size, whole, unit;
    int64_t step[DV_N_OPERANDS];
    int32_t outer; // the loop over its tiles; -1: none
    uint8_t is_k, pack;
} ct_loop;

// A dimension of the kernel: its size, or what is left of it in the last tile.
typedef struct ct_prim {
    int64_t size, rest; // rest 0: tiles are never cut short
    int64_t whole;
    int32_t outer; // loop over its tiles
} ct_prim;

// Panels: runs of equal ones.
typedef struct ct_cut {
    int32_t size[CT_RUNS], count[CT_RUNS], n;
} ct_cut;

// One axis of a block that is packed or put back; steps are in bytes.
typedef struct ct_axis {
    int64_t size, whole, unit;
    int64_t from, to; // steps in the source and in the buffer
    int64_t reach;    // elements of a step in the source, also of one turn
    int32_t loop;     // its loop, whose index it keeps; -1: of the kernel
    int32_t outer;
    int32_t k; // which k of the kernel: `to` depends on the panel; -1: none
} ct_axis;

// A block that is packed: axes around, and a 2-D move for what is inside.
typedef struct ct_mover {
    int32_t operand, n_axes;
    ct_axis axes[DV_NEST_MAX_DIMS];
    ct_axis across; // the axis that is cut in panels; unit stride in the buffer
    ct_axis along;  // the move's other axis; size 1: it has none
    const ct_prim *prim; // of `across`; NULL: none
    const ct_cut *cuts;  // its panels: whole, rest
    int32_t scalar;      // no move can do it: an element at a time
    int32_t by_row;      // the rows of the move are `along`
    // Of along, that one move takes: all panels get their part of some rows
    // while these are near.
    int64_t chunk;
    // Whole or rest of across; panel; ways to cut k; a chunk of along, what is
    // left of it whole, what is left of its rest.
    dv_move_fn in[2][CT_RUNS][CT_K_WAYS][3];
    dv_move_fn back[2][CT_K_WAYS][3]; // out alone
} ct_mover;

// Kernels for one way of cutting tiles short.
typedef struct ct_kernel {
    dv_gemm_fn run[CT_RUNS];
} ct_kernel;

typedef struct ct_thread {
    unsigned char *buffer[DV_N_OPERANDS];
    int64_t at[DV_NEST_MAX_DIMS]; // index of each loop among its elements
    const unsigned char *brought; // the rows that are in half `half`; or NULL
    int32_t half;                 // of the buffer of rows
} ct_thread;

// An index that was found and is none.
typedef struct ct_bad {
    atomic_int found;
    _Atomic int64_t index;
} ct_bad;

// Where the operands of a function or a reduction are. Inputs are not written.
typedef struct ct_data {
    unsigned char *in0, *in1, *out, *in2;
    ct_bad *bad;
} ct_data;

typedef struct ct_touch ct_touch;
typedef struct ct_reduce ct_reduce;
typedef struct ct_copied ct_copied;

struct dv_contract {
    dv_nest n;
    dv_nest_form form;
    dv_nest_tiles tiles;
    int64_t es;    // bytes of an element
    int64_t es_in; // of one of in0 and in1
    int32_t lanes; // in a vector
    // Of packed panels: rows of the one operand, vectors of the other.
    int32_t panel_rows, panel_vectors;
    int32_t on_way;   // kernels pack the columns' operand as they read it
    int32_t ahead;    // the operand that runs look ahead in
    int64_t ask_step; // bytes from row to row of k that are asked for; 0: none
    int64_t near_bytes; // of the rows of a kernel, tight, where each brings
                        // those of the next (jit.h, dv_ahead); 0: none does
    int64_t tile_step;  // of results that are packed tile by tile then, in
                        // elements; 0: rows follow
    int32_t tile_rows;
    int32_t at_once; // turns of the innermost loop that a kernel takes
    int32_t streams; // out fits no cache and is written once: around them
    int64_t k_block; // of a plain product: that one chain sums; 0: all of k
    int32_t threads, n_loops, n_shared;
    int64_t n_shares; // turns of the shared loops together
    int32_t points;   // there is no kernel: the innermost loop is plain C
    int32_t zero_first, relu_last;
    uint8_t top_pack; // a bit an operand: packed before all loops
    ct_loop loops[DV_NEST_MAX_DIMS];
    ct_prim row, col, k[DV_FORM_MAX_K];
    int32_t k_rest[2]; // k dimensions that have a rest; -1: none
    int64_t k_size[CT_K_WAYS];
    ct_cut cols[2], rows[2], out[2];          // whole, rest; out is one panel
    int32_t panels;                           // columns are packed in them
    ct_kernel kernels[2][2][CT_K_WAYS][2][2]; // row, col, k, first, last
    ct_mover movers[DV_N_OPERANDS];
    // A plain product: one plan for all threads, or, if the loops around it are
    // shared, one for each.
    dv_gemm_plan **plans; // owned
    int32_t n_plans;      // 0: not plain
    int64_t buffer_bytes[DV_N_OPERANDS];
    // combine: `parts` results of `part_elems` each, in order of k.
    int64_t parts, part_elems;
    int32_t part_loop;
    int64_t part_step[DV_NEST_MAX_DIMS]; // of the nest's dimensions in a part
    unsigned char *sums;                 // in memory
    ct_thread *team;                     // owned
    ct_touch *first, *main, *last;       // owned; NULL: kernels do it, or none
    ct_touch *near;    // owned: `last`, of blocks as they are done; or NULL
    ct_reduce *reduce; // owned; NULL: it is none
    ct_copied *copied; // owned; NULL: operands are not
    const void *in2;   // borrowed, by dv_contract_more
    const void *bias;  // and by dv_contract_bias
    dv_contract_block then; // by dv_contract_then
    void *user;             // of it
    ct_bad bad;
    dv_jit *own_jit; // NULL: it is borrowed
    void *memory;    // owned, mapped
    size_t memory_bytes;
};

// layout.c: where everything lies. 0: it is too much to count.
dv_status ct_lay_prims(dv_contract *c, dv_diag *diag);
int ct_lay_loops(dv_contract *c);
int ct_lay_parts(dv_contract *c);
void ct_lay_panels(dv_contract *c);
int ct_lay_buffer(dv_contract *c, int operand);
dv_status ct_map_buffers(dv_contract *c, dv_diag *diag); // all of a run's
// make.c: kernels and movers of a contraction whose loops are laid
// out.
dv_status ct_make_kernels(dv_contract *c, dv_jit *jit, dv_diag *diag);
// Whether a kernel takes all of the innermost loop, which is none then. Behind
// the movers.
void ct_join(dv_contract *c);
// Whether kernels bring the rows of each other. Behind the panels.
void ct_bring(dv_contract *c, const dv_isa *isa, const dv_contract_options *o);
// Whether out is written around the caches, and the panels for that.
void ct_stream(dv_contract *c, const dv_isa *isa, const dv_contract_options *o);
// Nothing but one product, in place.
static inline int ct_is_one_product(const dv_contract *c)
{
    return !c->n_loops && !c->top_pack && !c->n.combine;
}

int64_t ct_ldc(const dv_contract *c); // from row to row of results
dv_status ct_make_plans(dv_contract *c, dv_jit *jit,
                        const dv_contract_options *options, dv_diag *diag);
dv_status ct_make_mover(dv_contract *c, dv_jit *jit, int operand,
                        dv_diag *diag);
// move.c
void ct_pack(const dv_contract *c, ct_thread *t, int operand,
             const unsigned char *from);
void ct_put_back(const dv_contract *c, ct_thread *t, unsigned char *to);
// How often a loop runs where the loops around it stand.
int64_t ct_turns(const ct_thread *t, int64_t size, int64_t whole, int64_t unit,
                 int32_t outer, int64_t *from);
// Is the tile at hand cut short?
int ct_is_rest(const ct_thread *t, const ct_prim *p);
int ct_k_way(const dv_contract *c, const ct_thread *t);
// sum.c: without a kernel, and of parts
void ct_points(const dv_contract *c, const unsigned char *const at[],
               unsigned char *out, int64_t n, int first, int last);
void ct_combine(const dv_contract *c, int32_t thread, unsigned char *out);

// contract.c: a product, without touches beside it: the part of a thread that
// knows nothing of others; or begin, members of the first ct_busy threads, end.
void ct_part(dv_contract *c, int32_t thread, const void *in0, const void *in1,
             void *out);
void ct_begin(dv_contract *c);
void ct_member(dv_contract *c, int32_t i, const void *in0, const void *in1,
               void *out);
void ct_end(dv_contract *c);
int32_t ct_busy(const dv_contract *c);

// Touches that no kernel of a product has inside.
static inline int ct_touches_first(const dv_nest *n)
{
    return n->first != DV_PRIM_NONE && n->first != DV_PRIM_ZERO &&
           n->first != DV_PRIM_COPY;
}
static inline int ct_touches_last(const dv_nest *n)
{
    return (n->last != DV_PRIM_NONE && n->last != DV_PRIM_COPY &&
            n->last != DV_PRIM_RELU) ||
           n->mean;
}

// touch.c: a function of all elements, the nest's main (`from` is
// DV_IN0) or p of out in place (DV_OUT; behind the division of a mean). The
// parts of all threads, in any order, are all of it.
dv_status ct_touch_create(ct_touch **out, dv_jit *jit, const dv_nest *n,
                          int from, dv_prim p, int32_t threads, dv_diag *diag);
void ct_touch_part(const ct_touch *t, int32_t thread, const ct_data *d);
// p of blocks of out, whose rows are ld elements apart; as dv_contract_then
// calls it.
dv_status ct_touch_create_near(ct_touch **out, dv_jit *jit, const dv_nest *n,
                               dv_prim p, int64_t ld, dv_diag *diag);
void ct_touch_block(void *touch, void *out, int32_t rows, int32_t cols);

// reduce.c: a reduction with its touches. The parts of all threads, in
// any order, are all of it; but where they are combined, those come behind.
dv_status ct_reduce_create(ct_reduce **out, dv_jit *jit, const dv_nest *n,
                           int32_t threads, dv_diag *diag);
void ct_reduce_destroy(ct_reduce *r);
void ct_reduce_part(const ct_reduce *r, int32_t thread, const ct_data *d);
int ct_reduce_combines(const ct_reduce *r);
void ct_reduce_combine(const ct_reduce *r, int32_t thread, const ct_data *d);

// types.c: are there kernels of products for these operands? What is
// no product finds out from its vector kernels.
dv_status ct_check_operands(const dv_nest *n, dv_diag *diag);
// The nest as kernels for its types run it.
typedef enum ct_types {
    CT_AS_IT_IS, // it may be a reduction now
    CT_NARROW,   // a plan has its types; nothing is decided of it
    CT_COPIED,   // operands are copied
} ct_types;
ct_types ct_settle_types(dv_nest *n);
// A product with operands copied to one type. Made or not, it is destroyed.
dv_status ct_copied_create(ct_copied **out, dv_jit *jit, const dv_nest *n,
                           const dv_contract_options *options, dv_diag *diag);
void ct_copied_destroy(ct_copied *c);
const dv_nest *ct_copied_nest(const ct_copied *c); // of the product
// All contractions that it is made of, in their order.
typedef void ct_visitor(void *user, dv_contract *c, const void *in0,
                        const void *in1, void *out);
void ct_copied_visit(const ct_copied *c, ct_visitor *visit, void *user,
                     const void *in0, const void *in1, void *out);
// run.c: touches around products.
dv_status ct_make_touches(dv_contract *c, dv_jit *jit, dv_diag *diag);
void ct_destroy_touches(dv_contract *c);
#endif
