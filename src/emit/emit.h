// Text from a plan: programs in C and OpenMP, kernels and a host program for
// TT-Metalium, and tables of arguments.
//
//   c            program.c, rt.h     cores one after another
//   openmp       program.c, rt.h     a thread is a core
//   tt-metalium  host.cpp, rt.h, and a reader, a compute and a writer kernel
//   per
//                group
//   json, csv    tiles and arguments of every core, per group
//
// Texts are self-contained. A program takes NAME=FILE.npy for every input and
// for the outputs that are wanted, twice for what is both.
#ifndef DV_EMIT_H
#define DV_EMIT_H
#include "base/text.h"
#include "grid/grid.h"
#include "plan/plan.h"

typedef struct emitter {
    const dv_plan *plan;
    const dv_program *p; // the plan's
    const char *dir;
    int openmp;
    dv_diag *diag;
    dv_text out; // the file being written
} emitter;

extern const char *const dv_rt_lines[]; // text/rt.h, ends with NULL

// Write e->out as a file of the folder and empty it.
dv_status dv_emit_file(emitter *e, const char *name);
dv_status dv_emit_rt(emitter *e);

// -- C (c.c, expr.c) ---------------------------------------------------------

dv_status dv_emit_c(emitter *e);
// What the expression printer has to know of the op at hand.
typedef struct emit_op {
    const dv_program *p;
    const dv_op *op;
    int old; // reads of the written tensor find its copy
} emit_op;

const char *dv_ctype(dv_dtype t);
// Whole numbers wrap in 64 bits, everything else is a double.
int dv_expr_whole(const dv_expr *e);
void dv_emit_value(dv_text *out, const emit_op *o, const dv_expr *e, int whole);
// "t3_c[12 * m_0 + n_1]"
void dv_emit_access(dv_text *out, const emit_op *o, const dv_access *a,
                    int old);
void dv_emit_var(dv_text *out, const dv_op *op, int v);
void dv_emit_tensor(dv_text *out, const dv_program *p, int32_t tensor);
// A value of the op as the tensor holds it.
void dv_emit_stored(dv_text *out, const emit_op *o, const dv_expr *e);

// A function tile_at_N(id, &m, &n): the tile at a place of an order (decode.c).
void dv_emit_decode(dv_text *out, const dv_order *o, int number,
                    const char *type);

// -- TT-Metalium (metal.c, metal_host.c) -------------------------------------

typedef enum emit_shape { EMIT_MATMUL, EMIT_BINARY, EMIT_UNARY } emit_shape;

// One group as kernels.
typedef struct emit_kernel {
    const dv_group_grid *g;
    const dv_op *op;
    emit_shape shape;
    int32_t in[2]; // operands; one of UNARY
    int b_batched; // MATMUL: the second has the batch dims too
    dv_fn fn;      // BINARY
    int relu;      // at the end
} emit_kernel;

dv_status dv_emit_metal(emitter *e);
dv_status dv_emit_match(const emitter *e, const dv_group_grid *g,
                        emit_kernel *out);
dv_status dv_emit_host(emitter *e, const emit_kernel *kernels, int32_t n);

// -- Tables (table.c) --------------------------------------------------------

dv_status dv_emit_json(emitter *e);
dv_status dv_emit_csv(emitter *e);
// Names and values of the arguments of a core; returns how many.
int dv_emit_args(const dv_group_grid *g, const dv_tile_range *r,
                 const char **names, int64_t *values);
#endif
