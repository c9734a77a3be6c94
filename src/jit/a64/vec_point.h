// Pointers of vector kernels. Each pointer has a stack slot (its "place") that
// holds the start of the current row or column. The running pointers are in x0
// to x12; if there are more than 13, the others are on the stack, too.
#ifndef DV_JIT_A64_VEC_POINT_H
#define DV_JIT_A64_VEC_POINT_H
#include "jit/a64/gen.h"
#include "jit/vec/ir.h"

enum { X_ALL = 13 }; // number of elements of a row, or of rows of a column

typedef struct dv_a64_pointers {
    dv_gen *gen;
    const dv_vec_plan *p;
    int64_t places, running; // offsets from sp of the two arrays of stack slots
    dv_vec_pointers at;
} dv_a64_pointers;

static inline int dv_a64_size(const dv_vec_operand *o)
{
    return dv_dtype_get((dv_dtype)o->dtype)->size_bytes;
}

// Decides which pointers the kernel needs, with stack slots from offset
// `places` on. Returns the offset after them.
int64_t dv_a64_point_at(dv_a64_pointers *m, dv_gen *g, const dv_vec_plan *p,
                        int64_t places);
// Emits the loads of all start addresses into their stack slots. X_TMP points
// to the arguments of the kernel, X_TMP2 to its array of operand pointers.
void dv_a64_init_starts(dv_a64_pointers *m);
// Returns the register that addresses an operand, at an offset of
// m->at.off[operand] bytes. Emits a load if the pointer is on the stack.
int dv_a64_pointer(dv_a64_pointers *m, int operand);
// Advance the running pointers, or the start addresses on the stack, by `by`
// elements along the inner loop; with `outer`, by one row.
void dv_a64_step_running(dv_a64_pointers *m, int outer, int64_t by);
void dv_a64_step_starts(dv_a64_pointers *m, int64_t by);
// Sets the running pointers to the start addresses on the stack; with
// `to_next_row`, then advances these start addresses by one row.
void dv_a64_point(dv_a64_pointers *m, int to_next_row);
// For pointers that need no stack slot, because they stay in registers: the
// first function loads their start, the second one moves them from the end of a
// row to the start of the next row.
void dv_a64_load_row_pointers(dv_a64_pointers *m);
void dv_a64_next_row(dv_a64_pointers *m);
#endif
