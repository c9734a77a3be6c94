// State of the import of a model, shared by the files of src/onnx: values,
// loops that become statements, and what the handlers of operators call.
//
// A value of the model is a view of a tensor of the program: each dim is a list
// of atoms, row-major, and every atom is a stride along one dim of that tensor.
// So Reshape, Transpose, Slice, Split, Expand and the like compute nothing:
//
//   x: [128, 768]            dims 128 | 768
//   Reshape [128, 12, 64]    dims 128 | 12 | 64    x[s, 64*h + d]
//   Transpose [12, 128, 64]  dims 12 | 128 | 64    x[s, 64*h + d]
//
// A handler makes one axis per dim that it iterates over, tells which dims of
// its operands they run through (dv_on_use), and then reads the operands and
// defines its result. Axes are split into atoms so that every operand can be
// read with affine indices; an operand where that is impossible is copied.
#ifndef DV_ONNX_IMPORT_H
#define DV_ONNX_IMPORT_H
#include "divvy/build.h"
#include "onnx/model.h"
#include "onnx/onnx.h"

enum { DV_ON_ATOMS = 32, DV_ON_AXES = 24, DV_ON_PARTS = 4 };

// Constant expressions of at most this many elements are evaluated at import
// (constant folding).
#define DV_ON_MAX_FOLD ((int64_t)1 << 18)
// Concatenations of constants are evaluated at import while their results have
// at most this many elements in all.
#define DV_ON_MAX_JOINED ((int64_t)1 << 28)

// A tensor of the program that is being built. Values of the model are views of
// such tensors.
typedef struct dv_on_base {
    const char *name; // NULL until it is declared
    dv_dtype dtype;
    int n_dims;
    int64_t dims[DV_MAX_DIMS];
    const void *data; // elements, if they are known at import
    const char *hint; // name in the model, for its name in the program
    int declared;     // 1 if it is an input of the model's program
    int scope;        // the last program made for constants that declares it
    int made_in;      // the program that computes it; 0: none
    // The statement that defines the tensor, while it is delayed: if the tensor
    // has one reader only, that may inline the expression instead (loop.c).
    struct dv_on_pending *pending;
} dv_on_base;

typedef struct dv_on_atom {
    int64_t extent, stride;
    int32_t dim; // of the base; -1: the atom broadcasts
} dv_on_atom;

typedef struct dv_on_value {
    const char *name; // in the model
    dv_dtype dtype;
    int is_bool, is_output;
    const char *output_name; // name of an output in the program, until used
    int n_dims;
    int64_t dims[DV_MAX_DIMS];
    dv_on_base *base;
    int64_t offset[DV_MAX_DIMS]; // per dim of the base
    int first[DV_MAX_DIMS + 1];  // dim d has atoms first[d] to first[d+1] - 1
    dv_on_atom atoms[DV_ON_ATOMS];
    const void *data; // dense elements of a known value, made on demand
    const struct dv_onnx_info *info; // if it is an input of the graph
} dv_on_value;

typedef struct dv_on {
    dv_arena *arena;
    dv_diag *diag;
    dv_source *src;
    const dv_onnx_model *model;
    const dv_onnx_options *options;
    int to_files; // 1 if constants name files: NAME.npy
    const dv_param *params;
    size_t n_params;
    unsigned char *used_params;
    dv_build *build;
    int scope;     // number of the program that is being built; 1: the model's
    int n_scopes;  // number of programs begun so far
    int depth;     // nesting of subgraphs and functions
    int64_t opset; // of the default domain
    int64_t n_joined;    // elements of constants that were joined
    const char *folder;  // of the model, for external data
    dv_table ids, names; // values by name in the model; names in the program
    dv_on_value **values;
    int32_t n_values, cap_values;
    dv_on_base **inputs; // inputs that the caller binds, and constants
    int32_t n_inputs, cap_inputs;
    struct dv_onnx_map *maps; // files of external data
    int32_t n_maps, cap_maps;
    int32_t node_index;
    dv_table uses; // how often nodes and outputs of the model name a value
    int n_calls;   // number of calls of functions so far
    const char *label;
    const char **output_names; // names reserved for the model's outputs
} dv_on;

// The handlers of operators. Each imports one node of its operator.
typedef dv_status (*dv_on_handler)(dv_on *cx, const dv_onnx_node *n);
#define DV_ON_OP(name, domain, since, handler, inputs, attributes)             \
    dv_status handler(dv_on *cx, const dv_onnx_node *n);
#include "onnx/op.def"
#undef DV_ON_OP

// -- Nodes (import.c) --------------------------------------------------------

// Fails, with a message that begins with the current node: "node 3, Conv 'c1':
// …".
dv_status dv_on_refuse(dv_on *cx, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
// Fails because the current node has uint64 operands and would treat them as
// int64.
dv_status dv_on_refuse_u64(dv_on *cx);
const dv_onnx_attr *dv_on_attr(const dv_onnx_node *n, const char *name);
int64_t dv_on_int(const dv_onnx_node *n, const char *name, int64_t other);
double dv_on_float(const dv_onnx_node *n, const char *name, double other);
const char *dv_on_string(const dv_onnx_node *n, const char *name,
                         const char *other);
// Returns an attribute that is a list of integers, and its length; NULL and 0
// if it is missing.
const int64_t *dv_on_ints(const dv_onnx_node *n, const char *name, int *len);
// Returns the node's input number i, or NULL if it is left out.
dv_on_value *dv_on_in(dv_on *cx, const dv_onnx_node *n, int i);
// Adds a value for the node's output number i; an output that is left out gets
// a temporary value. NULL: out of memory, which is recorded.
dv_on_value *dv_on_out(dv_on *cx, const dv_onnx_node *n, int i);
int dv_on_has_out(const dv_onnx_node *n, int i);
// Fails unless the node has inputs 0 to least - 1.
dv_status dv_on_need(dv_on *cx, const dv_onnx_node *n, int least);
// Resolves a negative axis, which counts from the end; fails if it is out of
// range.
dv_status dv_on_norm_axis(dv_on *cx, int64_t axis, int n_dims, int *out);
// Imports the nodes of a graph; the names of the enclosing graphs stay visible.
dv_status dv_on_graph(dv_on *cx, const dv_onnx_graph *g);
dv_on_value *dv_on_find(dv_on *cx, const char *name);
// Imports the subgraph that is an attribute of a node; its outputs become those
// of the node.
dv_status dv_on_subgraph(dv_on *cx, const dv_onnx_graph *g,
                         const dv_onnx_node *n);
// Returns the elements of a constant tensor, which are in the model's file or
// in an external data file (load.c).
dv_status dv_on_tensor_data(dv_on *cx, const void **out,
                            const dv_onnx_tensor *t);

// -- Values (value.c) --------------------------------------------------------

dv_on_value *dv_on_value_new(dv_on *cx, const char *name);
// Makes a value for an intermediate result, which has no name in the model. Its
// name begins with `hint`.
dv_on_value *dv_on_temp(dv_on *cx, const char *hint);
// Makes v a view of a new, dense tensor with these dims; `data` has its
// elements if they are known, else NULL.
dv_status dv_on_make(dv_on *cx, dv_on_value *v, dv_dtype dtype, int is_bool,
                     int n_dims, const int64_t *dims, const void *data);
// Makes `to` the same view as `from`, with another name.
void dv_on_same(dv_on_value *to, const dv_on_value *from);
int64_t dv_on_count(const dv_on_value *v);
// Returns whether the elements of a value are known at import. Those of a small
// constant that is expanded to a large tensor are not: they would fill memory.
int dv_on_known(const dv_on_value *v);
// Returns the elements of a known value, dense; NULL if it is not known, or out
// of memory.
const void *dv_on_data(dv_on *cx, dv_on_value *v);
// Returns the elements of an input that must be known at import as integers or
// floats. Fails with a message that names the input of the node.
dv_status dv_on_get_ints(dv_on *cx, dv_on_value *v, const char *what,
                         const int64_t **out, int *n);
dv_status dv_on_get_floats(dv_on *cx, dv_on_value *v, const char *what,
                           const double **out, int *n);
// Makes a constant tensor from integers or floats.
dv_on_value *dv_on_const_ints(dv_on *cx, const char *hint, dv_dtype dtype,
                              int n_dims, const int64_t *dims,
                              const int64_t *values);
dv_on_value *dv_on_const_floats(dv_on *cx, const char *hint, dv_dtype dtype,
                                int n_dims, const int64_t *dims,
                                const double *values);
// Views. Each makes `to` a view of `from`; if no view can express it, `from` is
// copied first.
dv_status dv_on_reshape(dv_on *cx, dv_on_value *to, dv_on_value *from,
                        int n_dims, const int64_t *dims);
dv_status dv_on_transpose(dv_on *cx, dv_on_value *to, const dv_on_value *from,
                          const int *perm);
// Makes `to` a slice of `from`: dim d begins at begin[d], advances by step[d]
// and has dims[d] elements.
dv_status dv_on_slice(dv_on *cx, dv_on_value *to, dv_on_value *from,
                      const int64_t *begin, const int64_t *step,
                      const int64_t *dims);
dv_status dv_on_expand(dv_on *cx, dv_on_value *to, const dv_on_value *from,
                       int n_dims, const int64_t *dims);
// Replaces the view v by a dense copy in a new tensor, with the dims of v or,
// if `line`, with one dim.
dv_status dv_on_copy(dv_on *cx, dv_on_value *v, int line);
// Returns whether dim d of the value is one whole dim of its tensor, read from
// 0 in steps of 1.
int dv_on_is_plain(const dv_on_value *v, int d);
// Returns a name, made from `hint`, that is not used yet in the program.
const char *dv_on_name(dv_on *cx, const char *hint);
// Declares a tensor as an input or constant of the program, unless it is
// declared already.
dv_status dv_on_declare(dv_on *cx, dv_on_base *b);

// -- Expressions (loop.c) ----------------------------------------------------

dv_term dv_on_f(dv_on *cx, double v);
dv_term dv_on_i(dv_on *cx, int64_t v);
// Makes a number literal of type t; for integer types it is an integer literal.
dv_term dv_on_num(dv_on *cx, dv_dtype t, double v);
dv_term dv_on_1(dv_on *cx, const char *fn, dv_term a);
dv_term dv_on_2(dv_on *cx, const char *fn, dv_term a, dv_term b);
dv_term dv_on_3(dv_on *cx, const char *fn, dv_term a, dv_term b, dv_term c);

// -- Loops (loop.c) ----------------------------------------------------------

typedef struct dv_on_axis {
    int64_t size;
    int n; // atoms, outermost first; none if the size is 1
    int64_t extent[8];
    dv_term var[8];
    const char *name[8];
    int plain[8], odd[8]; // indexes a whole dim alone; indexes part of one
} dv_on_axis;

typedef struct dv_on_loop {
    dv_on *cx;
    dv_on_axis axes[DV_ON_AXES];
    int n_axes, n_vars;
    int typed;   // 1 if the type of the result must be written
    int exact;   // 1 if the tensor of the result has the dims of size 1, too
    int inlines; // 1 if each operand is read once, and the result may wait
    int out[DV_MAX_DIMS], n_out; // axes of the dims of the result
    dv_status status;            // of the first failure
} dv_on_loop;

// The index expression of one dim of a value: a constant plus a sum of factors
// times axes (loops), or an element that is itself read (via).
typedef struct dv_on_index {
    int n;
    int axis[DV_ON_PARTS];
    int64_t factor[DV_ON_PARTS];
    int64_t add;
    dv_term via;
} dv_on_index;

void dv_on_loop_begin(dv_on_loop *l, dv_on *cx);
int dv_on_axis_add(dv_on_loop *l, int64_t size);
// Prepares v for reads in which dim d runs along loop axes[d]; -1: index 0.
// Splits loops if dims of v consist of several dims of its tensor.
dv_status dv_on_use(dv_on_loop *l, dv_on_value *v, const int *axes);
// Prepares v for reads with arbitrary indices in the dims that the mask has.
dv_status dv_on_use_at(dv_on_loop *l, dv_on_value *v, unsigned dims);
void dv_on_start(dv_on_loop *l);
// Inlines an operand among v whose defining statement is still delayed:
// continues its loop, and reads[i] becomes its expression. Returns i, or -1 if
// no operand allows that.
int dv_on_inline(dv_on_loop *l, dv_on_value *const *v, int n, int n_dims,
                 const int64_t *dims, dv_term *reads);
dv_term dv_on_read(dv_on_loop *l, dv_on_value *v, const int *axes);
dv_term dv_on_read_at(dv_on_loop *l, dv_on_value *v, const dv_on_index *index);
// Like dv_on_read_at, but elements outside of v have the value `outside`. Dims
// whose index may leave v must be plain (dv_on_is_plain).
dv_term dv_on_read_else(dv_on_loop *l, dv_on_value *v, const dv_on_index *index,
                        dv_term outside);
// Returns the position along an axis (the loop variable), as a value.
dv_term dv_on_position(dv_on_loop *l, int axis);
dv_on_index dv_on_along(int axis); // the index that is one axis
dv_term dv_on_reduce(dv_on_loop *l, const char *reducer, dv_term body, int n,
                     const int *axes);
// Defines v as a new tensor with one dim per axis in `axes` (-1: a dim of size
// 1), whose elements are `value`.
dv_status dv_on_define(dv_on_loop *l, dv_on_value *v, dv_dtype dtype,
                       int is_bool, int n, const int *axes, dv_term value);
// Adds the update v[index] <- value of a tensor that dv_on_define has made.
dv_status dv_on_update(dv_on_loop *l, dv_on_value *v, const dv_on_index *index,
                       dv_term value);

// Returns x / s, correctly rounded, for s > 0. Needed where the quotient is
// then rounded to an integer.
dv_term dv_on_divide(dv_on *cx, dv_term x, dv_term s);

// Elementwise operators with broadcasting (elementwise.c): begins the loop over
// the dims that the n values broadcast to, with axes l->out, and makes their
// reads.
dv_status dv_on_broadcast(dv_on_loop *l, dv_on_value *const *v, int n,
                          dv_term *reads);
// Used by several operators (shape.c): concatenation along an axis, and padding
// with a constant, where negative pads crop.
dv_status dv_on_join(dv_on *cx, dv_on_value *out, dv_on_value *const *parts,
                     int n, int axis);
dv_status dv_on_pad_with(dv_on *cx, dv_on_value *out, dv_on_value *x,
                         const int64_t *before, const int64_t *after,
                         double number);
// Returns the condition that x, of type t, equals `most`, the maximum or
// minimum of several elements, or is NaN: `most` is NaN if one of them is.
dv_term dv_on_is_most(dv_on *cx, dv_dtype t, dv_term x, dv_term most);
// Used by several operators: a matrix product (matmul.c), from whose factors
// zero points are subtracted if not NULL; softmax and argmax (reduce.c).
dv_status dv_on_product(dv_on *cx, dv_on_value *out, dv_on_value *a,
                        dv_on_value *b, dv_dtype t, dv_on_value *a_zero,
                        dv_on_value *b_zero);
// Converts *x from u8 to i8, if it is u8, by subtracting 128 from it and from
// its zero point. The zero point is *zero or, if that is NULL, the number
// *constant. A zero point known at import becomes *constant.
dv_status dv_on_make_signed(dv_on *cx, dv_on_value **x, dv_on_value **zero,
                            int *constant);
int dv_on_is_byte(const dv_on_value *v);
// Defines out as the elements of x at the positions i along an axis (gather.c).
dv_status dv_on_gather_of(dv_on *cx, dv_on_value *out, dv_on_value *x,
                          dv_on_value *i, int axis);
// Replaces *v by a view with its last two dims exchanged (contrib.c).
dv_status dv_on_exchange(dv_on *cx, dv_on_value **v);
// Defines out: sum * a_scale * b_scale + bias, where bias may be NULL. b_scale
// is one number or has one for each column.
dv_status dv_on_rescale(dv_on *cx, dv_on_value *out, dv_on_value *sum,
                        dv_on_value *a_scale, dv_on_value *b_scale,
                        dv_on_value *bias);
dv_status dv_on_softmax_of(dv_on *cx, dv_on_value *out, dv_on_value *x,
                           unsigned mask, int is_log);
// Quantises x to u8, with a scale and a zero point that fit its range
// (quant.c).
dv_status dv_on_quantize_by_range(dv_on *cx, dv_on_value *x, dv_on_value *y,
                                  dv_on_value *scale, dv_on_value *zero);
// Adds an axis to the loop for each dim of a value, and prepares the value to
// be read along them.
dv_status dv_on_over(dv_on_loop *l, dv_on_value *v, int *axes);
#endif
