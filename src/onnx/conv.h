// Windows that slide over the last dims of a tensor, and convolutions, which
// quantised operators share.
#ifndef DV_ONNX_CONV_H
#define DV_ONNX_CONV_H
#include "onnx/import.h"

typedef struct dv_on_window {
    int n; // dims that windows slide over
    int64_t size[DV_MAX_DIMS], stride[DV_MAX_DIMS], dilation[DV_MAX_DIMS];
    int64_t before[DV_MAX_DIMS], after[DV_MAX_DIMS]; // pads
    int64_t extra[DV_MAX_DIMS]; // more pads, which ceil_mode asks for
    int64_t out[DV_MAX_DIMS];   // number of windows
} dv_on_window;

typedef struct dv_on_conv {
    dv_on_value *x, *w, *b; // b may be NULL
    dv_on_value *w_zero;    // zero point of w; NULL: 0
    double pad;             // value of the pads, and the zero point of x
    int64_t groups;
    dv_on_window window;
    dv_dtype dtype; // of the result
} dv_on_conv;

// Reads the attributes of a convolution whose operands are set.
dv_status dv_on_conv_read(dv_on *cx, const dv_onnx_node *n, dv_on_conv *c);
// Defines the result of a convolution without zero points.
dv_status dv_on_conv_of(dv_on *cx, dv_on_value *out, const dv_on_conv *c);
// Sets c->pad, the value of padding, to the zero point of x, which must be
// known at import; if x_zero is NULL, leaves c->pad as it is.
dv_status dv_on_conv_zero(dv_on *cx, dv_on_conv *c, dv_on_value *x_zero);
// Defines the i32 result of a convolution of 8-bit x and w with zero points.
dv_status dv_on_conv_bytes(dv_on *cx, dv_on_value *out, const dv_on_conv *c);
// Defines the result of a pool of x, with the attributes of the node: MaxPool,
// LpPool, or an average in all other operators.
dv_status dv_on_pool_of(dv_on *cx, const dv_onnx_node *n, dv_on_value *out,
                        dv_on_value *x);
#endif
