// Layouts: the order of a tensor's elements in the target's memory.
//
// A layout lists device dims, outermost first; the device array is row-major
// over their sizes. A host dim may occur more than once: what it is cut into
// blocks by stands further inside. stride[d] is how far, in host elements, one
// step of device dim d goes, so that for every stored element
//
//     host offset = sum of coordinate[d] * stride[d]
//
//   f16 [5, 100, 150] in sticks of 64:   size   [100,  3,     5, 64]
//                                        stride [150, 64, 15000,  1]
//
// That is a stick layout: the last host dim is cut into sticks and stands
// twice, and the first host dim stands just outside the stick. Tiles (32x32)
// and plain row-major order are the same construction with other blocks.
//
// A sparse layout holds one element per stick: what a reduction over the stick
// dimension leaves. Where nothing is, between the last element of a dim and
// the end of its last block, is padding.
//
// Invariants: L1 the identity above holds for every element, and no two
// elements share a place; L2 sizes times blocks cover the host extents;
// L3 bytes are the product of the sizes and the element's device size.
//
//   layout.[ch]  makes layouts, finds the place of an element
//   coords.c     rewrites accesses in device coordinates
//   stick.[ch]   lists along which dims the operands of an op may have sticks
//   choose.c     chooses the sticks of all tensors by beam search
//   insert.c     inserts the moves that the choice needs into the program
//   pass.c       the pass "layout" and its section of the plan
#ifndef DV_LAYOUT_H
#define DV_LAYOUT_H
#include "plan/plan.h"

// Bytes of one element as the target stores it.
int64_t dv_device_bytes(const dv_target *t, dv_dtype dtype);
// Elements in one stick.
int64_t dv_stick_elems(const dv_target *t, dv_dtype dtype);

// What a layout is made from.
typedef struct dv_layout_spec {
    int32_t n_dims;       // host dims
    const int64_t *shape; // host extents, row-major
    // Order of the host dims, the last is the innermost (the stick's); NULL:
    // as they are.
    const int32_t *order;
    int sparse; // one element per stick: `order` has no stick dim in it
} dv_layout_spec;

// A layout for the target: sticks, tiles or plain rows, by its properties.
// 0 when it overflows or has too many dims.
int dv_layout_make(dv_layout *out, const dv_target *t, dv_dtype dtype,
                   const dv_layout_spec *spec);

// Where the element at host coordinates `at` is, in elements of the device.
int64_t dv_layout_place(const dv_layout *l, const int64_t *at);

// -- Accesses in device coordinates ----------------------------------------

// One term of a coordinate: ((v * step) mod mod) div div, over v from 0; mod
// 0: none; var -1: the constant `step`. A dim that an index is read for is
// whole: var -2, and any of its `step` positions may be touched. A variable
// that runs backwards counts from its other end.
typedef struct dv_layout_term {
    int32_t var;
    int64_t step, mod, div;
} dv_layout_term;

enum { DV_MAX_TERMS = 96 };

// Device coordinates of an access: dim d is the sum of terms first[d] ..
// first[d + 1]. Variables count from the begin of their range.
typedef struct dv_coords {
    int32_t n_dims;
    int32_t first[DV_MAX_DEVICE_DIMS + 1];
    dv_layout_term terms[DV_MAX_TERMS];
} dv_coords;

// 0 when there are too many terms or one overflows.
int dv_coords_make(dv_coords *out, const dv_layout *l, const dv_op *op,
                   const dv_access *a, const dv_tensor *t);
int64_t dv_term_at(const dv_layout_term *t, int64_t v);
// Positions that a term covers while its variable takes `len` values, less 1.
int64_t dv_term_reach(const dv_layout_term *t, int64_t len);
#endif
