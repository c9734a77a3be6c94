// Copies operands of products into the form that kernels read: the box of the
// tensor that a tile reads, packed row by row, either converted to the type in
// which it is multiplied, or in its own narrow type with given variables
// innermost.
#ifndef DV_OPERAND_COPY_H
#define DV_OPERAND_COPY_H
#include "jit/vec/vec.h"
#include "exec/exec.h"

typedef struct dv_operand_copy {
    dv_vec_fn copy;
    int32_t n_vars; // number of variables that the operand depends on
    // The variables, outermost first; the copy kernel loops over the last one.
    int32_t var[DV_MAX_VARS];
    int64_t coef[DV_MAX_VARS];
    int64_t elem_bytes; // bytes of a stored element
    int64_t copy_bytes; // bytes of an element of the copy
} dv_operand_copy;

// The operand to be copied and the order of variables that the copy must have.
typedef struct dv_operand_copy_spec {
    const dv_flat *flat; // the operand's base and strides in memory
    int32_t n_vars;      // number of variables of the op
    dv_dtype dtype, to;
    // Variables that become innermost, in this order.
    const int32_t *last;
    int32_t n_last;
} dv_operand_copy_spec;

// Initialises a copy and its kernel. Returns 0 if no kernel can make it.
int dv_operand_copy_init(dv_operand_copy *w, const dv_operand_copy_spec *spec,
                         dv_jit *jit);
// Computes the strides of the copy of the box begin..end along each variable of
// the op, in elements; 0 for variables that the operand lacks. Returns the
// number of elements.
int64_t dv_operand_copy_strides(const dv_operand_copy *w, const int64_t *begin,
                                const int64_t *end, int32_t n_vars,
                                int64_t *steps);
// Copies the box begin..end to `to`; `from` is the address of the box's first
// element.
void dv_operand_copy_run(const dv_operand_copy *w, const int64_t *begin,
                         const int64_t *end, const void *from, void *to);
#endif
