// Programs built by calls instead of text, for compilers and for readers of
// model files. What is built is the program that the same text would give:
// docs/language.md explains the statements.
//
// A complete program (built and run as tests/api/build.c):
//
//   #include <divvy/build.h>
//   #include <stdio.h>
//
//   // y[i,j] = relu(sum[k] a[i,k] * b[k,j])
//   static void matmul_relu(dv_build *b)
//   {
//       dv_build_label(b, "node 1, MatMul");
//       dv_build_param(b, "N", dv_build_int(b, 4));
//       dv_term n = dv_build_name(b, "N"), dims[] = {n, n};
//       dv_build_input(b, "a", DV_F32, 2, dims);
//       dv_build_input(b, "b", DV_F32, 2, dims);
//       dv_term i = dv_build_name(b, "i"), j = dv_build_name(b, "j"),
//               k = dv_build_name(b, "k");
//       dv_term factors[] = {
//           dv_build_access(b, "a", 2, (dv_term[]){i, k}),
//           dv_build_access(b, "b", 2, (dv_term[]){k, j}),
//       };
//       dv_term product = dv_build_apply(b, "*", 2, factors);
//       const char *over[] = {"k"};
//       dv_term sum = dv_build_reduce(b, "sum", product, 1, over);
//       dv_build_assign(b, dv_build_access(b, "y", 2, (dv_term[]){i, j}),
//                       dv_build_apply(b, "relu", 1, &sum), NULL);
//       dv_build_output(b, "y");
//   }
//
//   int main(void)
//   {
//       dv_diag *diag = dv_diag_create();
//       dv_build *b = dv_build_create();
//       dv_program *program = NULL;
//       matmul_relu(b);
//       // A program can be made several times, with other values of params.
//       dv_param params[] = {{"N", "512"}};
//       dv_status st = dv_build_finish(&program, b, params, 1, diag);
//       dv_build_destroy(b);
//       fputs(dv_diag_text(diag), stderr);
//       if (st == DV_OK) {
//           char *text = dv_program_text(program);
//           fputs(text ? text : "", stdout);
//           dv_free(text);
//       }
//       dv_program_destroy(program);
//       dv_diag_destroy(diag);
//       return dv_status_exit(st);
//   }
//
// Errors are sticky: after the first one every call does nothing, calls that
// return a term return NULL, and dv_build_finish returns the error. A NULL term
// or a NULL builder is such an error too, so that nothing needs to be checked
// before dv_build_finish. Messages name the label of the statement in place of
// a file and a line:
//
//   node 1, MatMul: error[shape]: k runs over 0..7 here (dim 0 of b) …
#ifndef DIVVY_BUILD_H
#define DIVVY_BUILD_H
#include "divvy/divvy.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dv_build dv_build; // a program under construction
// An expression. It belongs to the builder (dv_build) that made it, may be used
// any number of times, and lives until the builder is destroyed.
typedef const struct dv_node *dv_term;

DV_API dv_build *dv_build_create(void); // NULL when out of memory
DV_API void dv_build_destroy(dv_build *b);
// Sets the name by which messages refer to the statements that follow, for
// example a node of a model; NULL: none. The name is copied.
DV_API void dv_build_label(dv_build *b, const char *label);

// -- Expressions -------------------------------------------------------------

DV_API dv_term dv_build_int(dv_build *b, int64_t value);
// Makes a float literal. NaN is refused; infinities are accepted.
DV_API dv_term dv_build_float(dv_build *b, double value);
// Makes a reference to a loop variable or a param by its name.
DV_API dv_term dv_build_name(dv_build *b, const char *name);
// Makes an access to the element of a tensor at these n indices; n is 0 for a
// scalar.
DV_API dv_term dv_build_access(dv_build *b, const char *tensor, int n,
                               const dv_term *index);
// Makes a read whose indices may be out of bounds. `outside`, a number or an
// expression of params, is then its value (in text: x[i-1] else 0).
DV_API dv_term dv_build_access_else(dv_build *b, const char *tensor, int n,
                                    const dv_term *index, dv_term outside);
// Applies a function or operator of the language, such as "exp", "select", "+"
// or "<". "-" with one argument negates.
DV_API dv_term dv_build_apply(dv_build *b, const char *function, int n,
                              const dv_term *args);
// Reduces `body` over variables by "sum", "max", "min", "prod" or "mean", or
// over one variable by "argmax", "argmin", "topk" or "argtopk".
DV_API dv_term dv_build_reduce(dv_build *b, const char *reducer, dv_term body,
                               int n, const char *const *vars);
// Like dv_build_reduce, over terms: each is a variable's name, or a comparison
// of a variable with its bound (k <= t).
DV_API dv_term dv_build_reduce_over(dv_build *b, const char *reducer,
                                    dv_term body, int n, const dv_term *over);

// -- Statements, in order ----------------------------------------------------

DV_API void dv_build_param(dv_build *b, const char *name, dv_term value);
DV_API void dv_build_input(dv_build *b, const char *name, dv_dtype dtype,
                           int n_dims, const dv_term *dims);
// Like dv_build_input, with a preferred distribution over processes: the tensor
// is split along these dims or, if n_split is 0, copied to every process.
DV_API void dv_build_input_at(dv_build *b, const char *name, dv_dtype dtype,
                              int n_dims, const dv_term *dims, int n_split,
                              const int *split);
// Declares a constant: an input whose elements are the same in all runs. They
// are in the .npy file `file` (a relative path is relative to the working
// directory). If it is NULL, the caller binds them before a run.
DV_API void dv_build_const(dv_build *b, const char *name, dv_dtype dtype,
                           int n_dims, const dv_term *dims, const char *file);
// Like dv_build_const, with a preferred distribution as in dv_build_input_at.
DV_API void dv_build_const_at(dv_build *b, const char *name, dv_dtype dtype,
                              int n_dims, const dv_term *dims, const char *file,
                              int n_split, const int *split);
DV_API void dv_build_temp(dv_build *b, const char *name, dv_dtype dtype,
                          int n_dims, const dv_term *dims);
DV_API void dv_build_output(dv_build *b, const char *name);
// Says in which memory of a machine an input, constant or output is stored, and
// how: `memory` is what follows @ in the text of a program, such as "l1(sharded
// 64x64 on 8x8 rows)".
DV_API void dv_build_memory(dv_build *b, const char *name, const char *memory);

// The range of a variable, begin to end - 1; in the text of a program it is
// written after `for`.
typedef struct dv_build_range {
    const char *name;
    dv_term begin, end;
} dv_build_range;

typedef struct dv_build_assign_options {
    size_t size;
    int dtype;     // a dv_dtype; -1: inferred
    int update;    // 1: modifies an existing tensor (<-); 0: defines it (=)
    int is_extern; // 1: an opaque op, which is never divided
    const dv_build_range *ranges;
    size_t n_ranges;
} dv_build_assign_options;
#define DV_BUILD_ASSIGN_OPTIONS_INIT                                           \
    {                                                                          \
        sizeof(dv_build_assign_options), -1, 0, 0, NULL, 0                     \
    }

// Adds the statement left = value (or an update) to the program; `left` is an
// access. options may be NULL.
DV_API void dv_build_assign(dv_build *b, dv_term left, dv_term value,
                            const dv_build_assign_options *options);
// Begins a loop that runs the statements up to the matching dv_build_end
// `times` times.
DV_API void dv_build_repeat(dv_build *b, dv_term times);
// Like dv_build_repeat, with a counter that runs from begin to end - 1;
// statements in the loop refer to its value by its name (dv_build_name).
DV_API void dv_build_count(dv_build *b, const char *counter, dv_term begin,
                           dv_term end);
DV_API void dv_build_end(dv_build *b);

// Makes a program from the statements so far; `params` are values that replace
// the defaults from dv_build_param. The program is independent of the builder,
// which can be extended and finished again.
DV_API dv_status dv_build_finish(dv_program **out, dv_build *b,
                                 const dv_param *params, size_t n_params,
                                 dv_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
