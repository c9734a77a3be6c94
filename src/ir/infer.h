// The values of params that follow from the shapes of arrays.
//
//   param N = 8
//   input x: f32[N, 2 * N + 1]       an array of 5 x 11 elements: N = 5
//
// A param is found if it is a whole number, not an expression of other params,
// and if the size of a dim is a linear function of it and of params that are
// known. A param that no shape determines keeps its default.
#ifndef DV_INFER_H
#define DV_INFER_H
#include "ir/program.h"

// The shape of an array that the caller passes for an input of the program.
typedef struct dv_input_shape {
    const char *name;
    int n_dims;
    const int64_t *shape;
} dv_input_shape;

// Infers the values of params (named constants) from the shapes of inputs:
// known[i] says whether values[i], the value of param i, is set. Values that
// are known before are kept. Fails if an array has another number of dims than
// its input, or a size that no integer value of a param gives.
dv_status dv_infer_params(const dv_program *p, const dv_input_shape *shapes,
                          size_t n_shapes, int64_t *values, uint8_t *known,
                          dv_diag *diag);
#endif
