// Imports ONNX models as programs: a reader of the file format, and one handler
// per operator, which adds statements to a program (divvy/build.h).
//
//   wire.[ch]      the wire format of Protocol Buffers
//   model.[ch]     graphs, nodes, attributes and tensors as structs
//   import.[ch]    walks a graph; constants are evaluated at import
//   value.c        values as views of tensors: reshape, transpose, slice
//   loop.c         loops over dims, which become statements
//   op.def         the only list of operators
//   load.c         files, inputs, weights, symbolic dims; dv_onnx_load
//   elementwise.c  arithmetic, comparisons, functions, casts
//   reduce.c       reductions, softmax, normalisations, argmax
//   shape.c        views, concatenation, padding, tiles
//   matmul.c       matrix products, Gemm, Einsum
//   conv.[ch]      convolutions and pools
//   contrib.c      products of the domain com.microsoft
//   attention.c    attention in the domain com.microsoft
//   gather.c       gathers, scatters, one-hot, top-k
//   rnn.c          LSTM, GRU and RNN, unrolled over time
//   quant.c        quantised operators
//   loss.c         losses
//   image.c        resizing
//   misc.c         constants, ranges, If, dropout and others
#ifndef DV_ONNX_H
#define DV_ONNX_H
#include "base/text.h"
#include "divvy/onnx.h"
#include "ir/program.h"

struct dv_onnx {
    dv_arena arena;
    dv_source src;
    dv_program *program;
    struct dv_onnx_map *maps;
    int32_t n_maps;
    // The map of the model's file, in which weights lie; NULL: the model was
    // imported from memory of the caller.
    const void *file;
    size_t file_bytes;
    dv_onnx_binding *weights, *inputs, *outputs;
    int n_weights, n_inputs, n_outputs;
};

// Imports a model and writes it into the folder `dir`: the program as
// program.dv, and its constants as .npy files next to it.
dv_status dv_onnx_write(const char *path, const dv_onnx_options *options,
                        const char *dir, dv_diag *diag);
#endif
