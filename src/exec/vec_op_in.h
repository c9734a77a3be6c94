// Inside run/: an op as calls of vector kernels.
#ifndef DV_VEC_OP_IN_H
#define DV_VEC_OP_IN_H
#include "exec/vec_transpose.h"

enum { DV_NEW_ACC, DV_OLD_ACC };
enum { DV_FINISHED, DV_UNFINISHED };

// Elements of an operand are so many bytes farther for each unit of what a
// read finds.
typedef struct dv_vec_index {
    int32_t operand, via;
    int64_t apart;
    dv_dtype dtype; // of the index
} dv_vec_index;

struct dv_vec_op {
    int32_t n_vars, n_operands;
    int32_t inner, outer; // variables; -1: a loop of one step
    uint8_t reduce;       // dv_vec_reduce
    int32_t acc_bytes;
    // The other variables, the last one innermost.
    int32_t written[DV_MAX_VARS], reduced[DV_MAX_VARS];
    int32_t n_written, n_reduced;
    int64_t chunk; // rows of a call; 0: all
    // Both loops are one when the inner has so many steps; 0: never.
    int64_t fuse;
    // Operands are reads, then the write; of a window they are its points'.
    int32_t *read;
    int64_t *base, *step; // bytes; step[operand * n_vars + var]
    dv_vec_fn call[2][2]; // [DV_OLD_ACC][DV_UNFINISHED]
    dv_vec_shape shape;
    dv_vec_index *indices;
    int32_t n_indices;
    const char *looks; // what for; NULL: it is not looked at before
    dv_vec_turn *turn; // NULL: nothing lies across
    int turns;         // something does
};

// How far apart elements are along a variable, in tensors that lie as the
// program has them; access n_reads is the write.
int64_t dv_vec_op_step(const dv_vec_how *how, int access, int v);

// Without turning anything.
void dv_vec_op_run_plain(const dv_vec_op *v, void *const *at,
                         const int64_t *begin, const int64_t *end);
#endif
