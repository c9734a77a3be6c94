// Layouts: the order of a tensor's elements in the target's memory.
//
// A layout lists device dims, outermost first; the device array is row-major
// over their sizes. A host dim (a dim of the tensor) that is divided into
// blocks occurs more than once: the blocks outside, the position in a block
// further inside. stride[d] is the distance, in host elements, of one step of
// device dim d, so that for every stored element
//
//     host offset = sum of coordinate[d] * stride[d]
//
//   f16 [5, 100, 150] in sticks of 64:   size   [100,  3,     5, 64]
//                                        stride [150, 64, 15000,  1]
//
// This is a stick layout: the last host dim is divided into sticks and occurs
// twice, and the first host dim is just outside the stick. Tiles (32x32) and
// plain row-major order are constructed in the same way with other blocks.
//
// A sparse layout holds one element per stick; it is the result of a reduction
// over the stick dimension. The space between the last element of a dim and the
// end of its last block is padding.
//
// Invariants: L1 the identity above holds for every element, and no two
// elements share a position; L2 sizes times blocks cover the host extents; L3
// bytes is the product of the sizes and the element's size on the device.
//
//   layout.[ch]  makes layouts, computes the position of an element
//   coords.c     converts accesses to device coordinates
//   stick.[ch]   lists the possible stick dims of the operands of an op
//   choose.c     chooses the sticks of all tensors by beam search
//   insert.c     inserts the copies that the choice needs into the program
//   pass.c       the pass "layout" and its section of the plan
#ifndef DV_LAYOUT_H
#define DV_LAYOUT_H
#include "plan/plan.h"

// Returns the bytes of one element as the target stores it.
int64_t dv_device_bytes(const dv_target *t, dv_dtype dtype);
// Returns the number of elements in one stick, the unit in which the target's
// memory is accessed.
int64_t dv_stick_elems(const dv_target *t, dv_dtype dtype);

// What dv_layout_make makes a layout for: a tensor, the order of its dims in
// memory, and whether it is sparse.
typedef struct dv_layout_spec {
    int32_t n_dims;       // number of dims of the tensor
    const int64_t *shape; // extents of the row-major tensor
    // Order of the tensor's dims in memory, the last being the innermost, which
    // is divided into sticks (the target's units of memory); NULL for the order
    // of the tensor.
    const int32_t *order;
    // 1 for a layout with one element per stick (memory unit of the target); no
    // dim of `order` is then divided into sticks.
    int sparse;
} dv_layout_spec;

// Makes a layout in sticks (the target's memory units), tiles or plain rows,
// depending on the target's properties. Returns 0 if a size or stride overflows
// or there are too many dims.
int dv_layout_make(dv_layout *out, const dv_target *t, dv_dtype dtype,
                   const dv_layout_spec *spec);

// Returns the offset, in the layout on the device, of the element whose indices
// in the tensor are `at`.
int64_t dv_layout_offset(const dv_layout *l, const int64_t *at);

// One term of a device coordinate (a position along a dim of the layout): ((v *
// step) mod mod) div div, where v counts from 0; mod 0 means no modulus. var -1
// is the constant `step`. var -2 is a dim with an indirect index: any of its
// `step` positions may be accessed. A variable with a negative coefficient is
// counted from its upper end.
typedef struct dv_layout_term {
    int32_t var;
    int64_t step, mod, div;
} dv_layout_term;

enum { DV_MAX_TERMS = 96 };

// Device coordinates of an access (its position along each dim of the layout):
// coordinate d is the sum of terms first[d] up to first[d + 1] - 1. Variables
// count from the beginning of their range.
typedef struct dv_coords {
    int32_t first[DV_MAX_DEVICE_DIMS + 1];
    dv_layout_term terms[DV_MAX_TERMS];
} dv_coords;

// Converts an access to device coordinates (positions in the dims of the
// layout). Returns 0 if there are too many terms or one overflows.
int dv_coords_make(dv_coords *out, const dv_layout *l, const dv_op *op,
                   const dv_access *a, const dv_tensor *t);
int64_t dv_term_at(const dv_layout_term *t, int64_t v);
// A term of a device coordinate (a position along a dim of the layout) depends
// on one variable. Returns how many positions it covers while the variable
// takes `len` values, minus 1.
int64_t dv_term_reach(const dv_layout_term *t, int64_t len);
#endif
