// The functions of elements and the programs that compute them: private to the
// folder. A function of a type is a row of function.def, whose expression
// becomes a program of one statement; the team link keeps a session of each
// program that was used, which has a plan for each shape.
#ifndef DV_DARRAY_FUNCTION_H
#define DV_DARRAY_FUNCTION_H
#include "darray/darray.h"

enum { DV_FUNCTION_OPERANDS = 3 };

typedef struct dv_function dv_function;

// Finds the function `name` for operands of these types, and the type of its
// result.
dv_status dv_function_find(const dv_function **out, dv_elem *type,
                           const char *name, const dv_elem *types, int n,
                           dv_diag *diag);
// Finds the conversion from one type to another.
dv_status dv_function_cast(const dv_function **out, dv_elem from, dv_elem to,
                           dv_diag *diag);
// Continues the hash h with the function's name and operand count.
uint64_t dv_function_hash(const dv_function *f, uint64_t h);

// An array in memory; strides in elements, 0 in dims that broadcast.
typedef struct dv_function_array {
    void *data;
    int64_t stride[DV_MAX_DIMS];
} dv_function_array;

// Applies a function to arrays of this shape, none of whose sizes is 0, in the
// memory of this rank.
dv_status dv_function_run(const dv_function *f, dv_team_link *p,
                          const dv_elem *types, dv_elem type, int n_dims,
                          const int64_t *shape, const dv_function_array *to,
                          const dv_function_array *from, dv_diag *diag);
#endif
