// Pointers of vector kernels. Each has a place on the stack where its row, or
// its column, starts; running ones are in x0 to x12, further ones on the stack
// too.
#ifndef DV_JIT_A64_VEC_POINT_H
#define DV_JIT_A64_VEC_POINT_H
#include "jit/a64/gen.h"
#include "jit/vec/ir.h"

enum { X_ALL = 13 }; // elements of a row, or rows of a column

typedef struct dv_a64_pointers {
    dv_gen *gen;
    const dv_vec_plan *p;
    int64_t places, running; // offsets from sp
    dv_vec_pointers at;
} dv_a64_pointers;

static inline int dv_a64_size(const dv_vec_operand *o)
{
    return dv_dtype_get((dv_dtype)o->dtype)->size_bytes;
}

// Find them, with places from an offset on. Returns the offset behind them all.
int64_t dv_a64_point_at(dv_a64_pointers *m, dv_gen *g, const dv_vec_plan *p,
                        int64_t places);
// Fill the places. X_TMP has the arguments, X_TMP2 their array.
void dv_a64_start_places(dv_a64_pointers *m);
// The register that an operand is reached from, m->at.off bytes on.
int dv_a64_pointer(dv_a64_pointers *m, int operand);
// On by so many elements, or by a row.
void dv_a64_step_running(dv_a64_pointers *m, int outer, int64_t by);
void dv_a64_step_places(dv_a64_pointers *m, int64_t by);
// Running pointers to their places; the places on to the next row.
void dv_a64_point(dv_a64_pointers *m, int to_next_row);
// Some need no place: they go from the end of a row to the start of the next.
void dv_a64_start_walking(dv_a64_pointers *m);
void dv_a64_walk(dv_a64_pointers *m);
#endif
