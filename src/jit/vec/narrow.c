// Floats that are stored as integers of 8 or 16 bits. In general that takes a
// dozen operations, because values out of range wrap around; values whose
// limits the statement states, as max(0, min(255, round(x) + z)) does, take
// three.
#include "base/dtype.h"
#include "jit/vec/ir.h"
#include <math.h>

// Bounds of a node's values that are known when code is generated, whatever the
// inputs; nan is not considered.
typedef struct limits {
    double lo, hi;
    int whole; // 1: they have no fraction
} limits;

static const limits none = {-INFINITY, INFINITY, 0};

static limits limits_of_load(const dv_vec_operand *o)
{
    dv_dtype t = (dv_dtype)o->dtype;
    if (o->as != DV_VEC_AS_COMPUTED || dv_is_float(t) || t > DV_BOOL ||
        dv_dtype_get(t)->size_bytes > 2)
        return none;
    return (limits){(double)dv_int_least(t), (double)dv_int_most(t), 1};
}

// Returns the limits of a function of values with limits x and y. A sum of
// whole numbers is whole even if it is rounded.
static limits limits_of_fn(dv_fn fn, limits x, limits y)
{
    int whole = x.whole && y.whole;
    switch (fn) {
    case DV_FN_ADD:
        return (limits){x.lo + y.lo, x.hi + y.hi, whole};
    case DV_FN_SUB:
        return (limits){x.lo - y.hi, x.hi - y.lo, whole};
    case DV_FN_MIN:
        return (limits){fmin(x.lo, y.lo), fmin(x.hi, y.hi), whole};
    case DV_FN_MAX:
        return (limits){fmax(x.lo, y.lo), fmax(x.hi, y.hi), whole};
    case DV_FN_RELU:
        return (limits){fmax(x.lo, 0), fmax(x.hi, 0), x.whole};
    case DV_FN_ROUND:
    case DV_FN_FLOOR:
    case DV_FN_CEIL:
    case DV_FN_TRUNC:
        return (limits){floor(x.lo), ceil(x.hi), 1};
    default:
        return none;
    }
}

// Returns the limits of a node's values, found through at most `depth` nested
// functions.
static limits limits_of(const dv_vec_shape *s, int node, int depth)
{
    const dv_vec_node *n = &s->nodes[node];
    limits x[2] = {none, none};
    if (n->kind == DV_VEC_LOAD)
        return limits_of_load(&s->operands[n->arg[0]]);
    if (n->kind == DV_VEC_CONST)
        return (limits){n->value, n->value, n->value == floor(n->value)};
    if (n->kind != DV_VEC_APPLY || !depth)
        return none;
    for (int i = 0; i < 2 && i < dv_fn_get((dv_fn)n->fn)->n_args; i++)
        x[i] = limits_of(s, n->arg[i], depth - 1);
    return limits_of_fn((dv_fn)n->fn, x[0], x[1]);
}

// Returns the constant that, added to a float with an integer value, leaves
// that integer in the low bits of the sum.
static int32_t push_of(dv_vec_build *b)
{
    return dv_vec_float(b, b->is64 ? 0x1.8p52 : 0x1.8p23);
}

// Converts floats x with |x| <= 2^16 to integers; nan gives 0. `whole` says
// that x has no fraction.
static int32_t convert_near(dv_vec_build *b, int32_t x, int whole)
{
    if (!whole)
        x = dv_vec_round(b, x, DV_TO_ZERO);
    int32_t bits = dv_vec_put(b, DV_V_FADD, x, push_of(b), 0);
    return dv_vec_put(b, DV_V_AND, bits, dv_vec_put(b, DV_V_FEQ, x, x, 0), 0);
}

// Converts any float x to an integer modulo 2^bits. From some size on, floats
// are multiples of 2^bits and give 0, except that x from 2^63 on saturates.
static int32_t convert_any(dv_vec_build *b, int32_t x, int bits)
{
    double most = fmin(ldexp(1, bits + (b->is64 ? 52 : 23)), 0x1p63);
    int32_t all = dv_vec_put(b, DV_V_FABS, x, 0, 0);
    int32_t near = dv_vec_put(b, DV_V_FLT, all, dv_vec_float(b, most), 0);
    int32_t size = dv_vec_put(b, DV_V_AND, all, near, 0);
    // Reduce modulo 2^bits by subtracting the nearest multiple; exact in float.
    int32_t of =
        dv_vec_put(b, DV_V_FMUL, size, dv_vec_float(b, ldexp(1, -bits)), 0);
    of = dv_vec_round(b, of, DV_TO_EVEN);
    size = dv_vec_put(b, DV_V_FNMA, of, dv_vec_float(b, ldexp(1, bits)), size);
    int32_t whole = dv_vec_round(b, size, DV_DOWN);
    whole = dv_vec_put(b, DV_V_FADD, whole, push_of(b), 0);
    int32_t minus = dv_vec_put(b, DV_V_FLT, x, dv_vec_float(b, 0), 0);
    whole = dv_vec_put(b, DV_V_XOR, whole, minus, 0);
    whole = dv_vec_put(b, DV_V_ISUB, whole, minus, 0);
    int32_t end = dv_vec_put(b, DV_V_FLE, dv_vec_float(b, 0x1p63), x, 0);
    return dv_vec_put(b, DV_V_OR, whole, end, 0);
}

int32_t dv_vec_to_narrow(dv_vec_build *b, int32_t x, int bits)
{
    enum { DEPTH = 8 };
    limits l = limits_of(b->shape, b->shape->result, DEPTH);
    return l.lo >= -0x1p16 && l.hi <= 0x1p16 ? convert_near(b, x, l.whole)
                                             : convert_any(b, x, bits);
}
