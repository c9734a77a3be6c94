// What an ONNX file says, as structs: graphs of nodes with attributes, tensors,
// inputs and outputs (onnx.proto3 has the numbers of the fields). Strings are
// copied and end with NUL; tensors point into the file.
#ifndef DV_ONNX_MODEL_H
#define DV_ONNX_MODEL_H
#include "base/diag.h"
#include "base/mem.h"
#include "onnx/wire.h"

// Element types of ONNX (TensorProto.DataType).
enum {
    DV_ONNX_FLOAT = 1,
    DV_ONNX_UINT8 = 2,
    DV_ONNX_INT8 = 3,
    DV_ONNX_UINT16 = 4,
    DV_ONNX_INT16 = 5,
    DV_ONNX_INT32 = 6,
    DV_ONNX_INT64 = 7,
    DV_ONNX_STRING = 8,
    DV_ONNX_BOOL = 9,
    DV_ONNX_FLOAT16 = 10,
    DV_ONNX_DOUBLE = 11,
    DV_ONNX_UINT32 = 12,
    DV_ONNX_UINT64 = 13,
    DV_ONNX_COMPLEX64 = 14,
    DV_ONNX_COMPLEX128 = 15,
    DV_ONNX_BFLOAT16 = 16,
};

// A constant tensor. Its elements are in `raw`, in one of the typed lists, or
// in an external file.
typedef struct dv_onnx_tensor {
    const char *name;
    int32_t type; // an ONNX type, as above
    int32_t n_dims;
    int64_t dims[DV_MAX_DIMS];
    const uint8_t *message; // the whole TensorProto, for its lists
    size_t message_len;
    const uint8_t *raw; // NULL if there is no raw_data
    size_t raw_len;
    int is_external;
    const char *location;   // of external data: file, offset and length
    int64_t offset, length; // -1: not given
} dv_onnx_tensor;

struct dv_onnx_graph;

// An attribute of a node. Lists that the file does not have are empty.
typedef struct dv_onnx_attr {
    const char *name, *ref; // ref: attribute of the function around the node
    float f;
    int64_t i;
    const char *s;
    const dv_onnx_tensor *t;
    struct dv_onnx_graph *g;
    float *floats;
    int64_t *ints;
    const char **strings;
    int32_t n_floats, n_ints, n_strings, cap_floats, cap_ints, cap_strings;
} dv_onnx_attr;

typedef struct dv_onnx_node {
    const char *name, *type, *domain;
    const char **inputs, **outputs; // "" for one that is left out
    dv_onnx_attr *attrs;
    int32_t n_inputs, n_outputs, n_attrs;
    int32_t cap_inputs, cap_outputs, cap_attrs;
} dv_onnx_node;

typedef struct dv_onnx_info {
    const char *name;
    int32_t type;                    // 0 if it is no tensor or has no type
    int32_t n_dims;                  // -1 if it has no shape
    int64_t dims[DV_MAX_DIMS];       // -1 if it is not a number
    const char *params[DV_MAX_DIMS]; // symbolic dims; NULL: none
} dv_onnx_info;

typedef struct dv_onnx_graph {
    dv_onnx_node *nodes;
    dv_onnx_tensor *tensors; // initializers
    dv_onnx_info *inputs, *outputs;
    int32_t n_nodes, n_tensors, n_inputs, n_outputs;
    int32_t cap_nodes, cap_tensors, cap_inputs, cap_outputs;
    int has_sparse; // 1 if it has sparse initializers, which are not read
} dv_onnx_graph;

// A function that a model defines: its nodes replace each call of it.
typedef struct dv_onnx_function {
    const char *name, *domain;
    const char **inputs, **outputs;
    dv_onnx_attr *defaults;
    int32_t n_inputs, n_outputs, n_defaults;
    int32_t cap_inputs, cap_outputs, cap_defaults;
    dv_onnx_graph body; // has nodes only
} dv_onnx_function;

typedef struct dv_onnx_opset {
    const char *domain;
    int64_t version;
} dv_onnx_opset;

typedef struct dv_onnx_model {
    dv_onnx_graph graph;
    dv_onnx_opset *opsets;
    dv_onnx_function *functions;
    int32_t n_opsets, cap_opsets, n_functions, cap_functions;
} dv_onnx_model;

// Read a model, and a single tensor (a file of test data). The bytes must live
// as long as the result; the arena owns everything else. `src` only names the
// file in messages.
dv_status dv_onnx_read_model(dv_onnx_model *out, const void *bytes, size_t len,
                             const dv_source *src, dv_arena *arena,
                             dv_diag *diag);
dv_status dv_onnx_read_tensor(dv_onnx_tensor *out, const void *bytes,
                              size_t len, const dv_source *src, dv_arena *arena,
                              dv_diag *diag);
const char *dv_onnx_type_name(int32_t type);
// Returns the dv_dtype for an element type of ONNX, or -1 if there is none. A
// bool is stored as an i8 of 0 or 1.
int dv_onnx_dtype(int32_t type);
// Returns the elements of a tensor in the layout of its dtype, dense and
// row-major: those in the bytes that were read, if they are raw data and
// aligned for the type, or else a copy in the arena.
dv_status dv_onnx_elements(const void **out, const dv_onnx_tensor *t,
                           const dv_source *src, dv_arena *arena,
                           dv_diag *diag);
#endif
