// The functions of the language on vectors: a table of the operation or the
// code for each, on floats and on integers. Functions that it lacks run in the
// interpreter (strip/). Comparisons and select, which make and use masks, are
// in build.c; functions that take polynomials in math.c.
#include "jit/vec/math.h"
#include <math.h>

// Returns 1 / y if it is exact, else 0: y must be a constant power of two, and
// neither y nor 1 / y may be denormal.
static double exact_reciprocal(const dv_vec_build *b, int32_t y)
{
    int frac = b->is64 ? 52 : 23, bias = b->is64 ? 1023 : 127;
    uint64_t bits = b->vals[y].bits;
    uint64_t sign = bits >> (b->is64 ? 63 : 31);
    int power = (int)(bits >> frac & (uint64_t)(2 * bias + 1)) - bias;
    if (b->vals[y].op != DV_V_CONST || bits & (((uint64_t)1 << frac) - 1) ||
        power <= -bias || power >= bias)
        return 0;
    double one_over = ldexp(1, -power);
    return sign ? -one_over : one_over;
}

// May x / y be replaced by x times 1 / y? In the body of a reduction it may
// not, because a sum would fuse the product with its addition, without rounding
// the product.
static int may_multiply(const dv_vec_build *b)
{
    return b->in == DV_SECTION_EPILOGUE || !b->shape->reduce;
}

// Emits x / y. x / 64 becomes x * (1 / 64), which is exact and faster.
static int32_t divide(dv_vec_build *b, const int32_t *args)
{
    int32_t x = args[0], y = args[1];
    double once_y = b->failed ? 0 : exact_reciprocal(b, y);
    if (once_y != 0 && may_multiply(b))
        return dv_vec_put(b, DV_V_FMUL, x, dv_vec_float(b, once_y), 0);
    return dv_vec_put(b, DV_V_FDIV, x, y, 0);
}

// Emits x / y as x * (1 / y). x and y are first multiplied by a power of two if
// 1 / y would overflow or be denormal. This is done even if y is not
// loop-invariant, so that the result does not depend on which loops were
// chosen.
int32_t dv_vec_share(dv_vec_build *b, int32_t x, int32_t y)
{
    double far = b->is64 ? 0x1p512 : 0x1p64;
    int32_t size = dv_vec_put(b, DV_V_FABS, y, 0, 0), one = dv_vec_float(b, 1);
    int32_t large = dv_vec_put(b, DV_V_FLT, dv_vec_float(b, far), size, 0);
    int32_t small = dv_vec_put(b, DV_V_FLT, size, dv_vec_float(b, 1 / far), 0);
    int32_t by = dv_vec_put(b, DV_V_SEL, large, dv_vec_float(b, 1 / far), one);
    by = dv_vec_put(b, DV_V_SEL, small, dv_vec_float(b, far), by);
    int32_t once =
        dv_vec_put(b, DV_V_FDIV, one, dv_vec_put(b, DV_V_FMUL, y, by, 0), 0);
    return dv_vec_put(b, DV_V_FMUL, dv_vec_put(b, DV_V_FMUL, x, by, 0), once,
                      0);
}

static int32_t negate_whole(dv_vec_build *b, const int32_t *x)
{
    return dv_vec_put(b, DV_V_ISUB, dv_vec_bits(b, 0), x[0], 0);
}

// Returns whether a value is a constant that is neither nan nor -0. The minimum
// or maximum with such a constant takes fewer instructions.
static int is_bound(const dv_vec_build *b, int32_t v)
{
    uint64_t bits = b->vals[v].bits, sign = UINT64_C(1) << (b->is64 ? 63 : 31);
    uint64_t inf = b->is64 ? UINT64_C(0x7ff) << 52 : UINT64_C(0xff) << 23;
    return b->vals[v].op == DV_V_CONST && !b->vals[v].imm && bits != sign &&
           (bits & (sign - 1)) <= inf;
}

static int32_t min_or_max(dv_vec_build *b, const int32_t *x, dv_vop any,
                          dv_vop bound)
{
    if (b->failed)
        return dv_vec_put(b, any, x[0], x[1], 0);
    int first = is_bound(b, x[0]), second = is_bound(b, x[1]);
    return dv_vec_put(b, first || second ? bound : any, x[first && !second],
                      x[!first || second], 0);
}

static int32_t minimum(dv_vec_build *b, const int32_t *x)
{
    return min_or_max(b, x, DV_V_FMIN, DV_V_FLEAST);
}

static int32_t maximum(dv_vec_build *b, const int32_t *x)
{
    return min_or_max(b, x, DV_V_FMAX, DV_V_FMOST);
}

static int32_t relu(dv_vec_build *b, const int32_t *x)
{
    return dv_vec_put(b, DV_V_FMOST, x[0], dv_vec_float(b, 0), 0);
}

static int32_t relu_whole(dv_vec_build *b, const int32_t *x)
{
    return dv_vec_put(b, DV_V_IMAX, x[0], dv_vec_bits(b, 0), 0);
}

static int32_t rsqrt(dv_vec_build *b, const int32_t *x)
{
    return dv_vec_put(b, DV_V_FDIV, dv_vec_float(b, 1),
                      dv_vec_put(b, DV_V_FSQRT, x[0], 0, 0), 0);
}

static int32_t round_even(dv_vec_build *b, const int32_t *x)
{
    return dv_vec_round(b, x[0], DV_TO_EVEN);
}

static int32_t round_down(dv_vec_build *b, const int32_t *x)
{
    return dv_vec_round(b, x[0], DV_DOWN);
}

static int32_t round_up(dv_vec_build *b, const int32_t *x)
{
    return dv_vec_round(b, x[0], DV_UP);
}

static int32_t truncate(dv_vec_build *b, const int32_t *x)
{
    return dv_vec_round(b, x[0], DV_TO_ZERO);
}

// Returns 1 where x < y, else 0.
static int32_t one_if_less(dv_vec_build *b, int32_t x, int32_t y)
{
    return P(AND, P(FLT, x, y), K(1));
}

static int32_t sign(dv_vec_build *b, const int32_t *x)
{
    int32_t zero = K(0), above = one_if_less(b, zero, x[0]);
    int32_t sum = P(FSUB, above, one_if_less(b, x[0], zero));
    return P(SEL, P(FEQ, x[0], x[0]), sum, x[0]);
}

static int32_t sign_whole(dv_vec_build *b, const int32_t *x)
{
    int32_t one = dv_vec_bits(b, 1), minus = dv_vec_bits(b, UINT32_MAX);
    return P(IMAX, P(IMIN, x[0], one), minus);
}

// Distances beyond 31, and negative ones, shift all bits out: to the left 0
// remains, to the right the sign.
static int32_t shift_left(dv_vec_build *b, const int32_t *x)
{
    int32_t most = dv_vec_bits(b, 31), zero = dv_vec_bits(b, 0);
    int32_t out = P(OR, P(ILT, most, x[1]), P(ILT, x[1], zero));
    return P(SEL, out, zero, P(ISHL, x[0], P(AND, x[1], most)));
}

static int32_t shift_right(dv_vec_build *b, const int32_t *x)
{
    int32_t most = dv_vec_bits(b, 31), zero = dv_vec_bits(b, 0);
    int32_t by = P(SEL, P(ILT, x[1], zero), most, P(IMIN, x[1], most));
    return P(ISAR, x[0], by);
}

// How a function is computed on floats and on integers: by one operation, if
// `op` is not 0 (DV_V_CONST), or by `code`. `is_long`: the code on floats is so
// long that its instructions alone hide their latencies.
typedef struct rule {
    uint8_t op, whole_op, is_long;
    dv_vec_rule *code, *whole_code;
} rule;

static const rule rules[DV_N_FNS] = {
    [DV_FN_ADD] = {.op = DV_V_FADD, .whole_op = DV_V_IADD},
    [DV_FN_SUB] = {.op = DV_V_FSUB, .whole_op = DV_V_ISUB},
    [DV_FN_MUL] = {.op = DV_V_FMUL, .whole_op = DV_V_IMUL},
    [DV_FN_DIV] = {.code = divide},
    [DV_FN_NEG] = {.op = DV_V_FNEG, .whole_code = negate_whole},
    [DV_FN_EXP] = {.code = dv_vec_exp, .is_long = 1},
    [DV_FN_LOG] = {.code = dv_vec_log, .is_long = 1},
    [DV_FN_SQRT] = {.op = DV_V_FSQRT},
    [DV_FN_RSQRT] = {.code = rsqrt},
    [DV_FN_SINH] = {.code = dv_vec_sinh, .is_long = 1},
    [DV_FN_COSH] = {.code = dv_vec_cosh, .is_long = 1},
    [DV_FN_ASINH] = {.code = dv_vec_asinh, .is_long = 1},
    [DV_FN_ACOSH] = {.code = dv_vec_acosh, .is_long = 1},
    [DV_FN_ATANH] = {.code = dv_vec_atanh, .is_long = 1},
    [DV_FN_ASIN] = {.code = dv_vec_asin, .is_long = 1},
    [DV_FN_ACOS] = {.code = dv_vec_acos, .is_long = 1},
    [DV_FN_ATAN] = {.code = dv_vec_atan, .is_long = 1},
    [DV_FN_ATAN2] = {.code = dv_vec_atan2, .is_long = 1},
    [DV_FN_SIN] = {.code = dv_vec_sin, .is_long = 1},
    [DV_FN_COS] = {.code = dv_vec_cos, .is_long = 1},
    [DV_FN_TAN] = {.code = dv_vec_tan, .is_long = 1},
    [DV_FN_POW] = {.code = dv_vec_pow, .is_long = 1},
    [DV_FN_REM] = {.code = dv_vec_rem, .is_long = 1},
    [DV_FN_MOD] = {.code = dv_vec_mod, .is_long = 1},
    [DV_FN_EXP2] = {.code = dv_vec_exp2, .is_long = 1},
    [DV_FN_EXPM1] = {.code = dv_vec_expm1, .is_long = 1},
    [DV_FN_LOG2] = {.code = dv_vec_log2, .is_long = 1},
    [DV_FN_LOG1P] = {.code = dv_vec_log1p, .is_long = 1},
    [DV_FN_TANH] = {.code = dv_vec_tanh, .is_long = 1},
    [DV_FN_ERF] = {.code = dv_vec_erf, .is_long = 1},
    [DV_FN_SIGMOID] = {.code = dv_vec_sigmoid, .is_long = 1},
    [DV_FN_SILU] = {.code = dv_vec_silu, .is_long = 1},
    [DV_FN_GELU] = {.code = dv_vec_gelu, .is_long = 1},
    [DV_FN_RELU] = {.code = relu, .whole_code = relu_whole},
    [DV_FN_ABS] = {.op = DV_V_FABS, .whole_op = DV_V_IABS},
    [DV_FN_FLOOR] = {.code = round_down},
    [DV_FN_CEIL] = {.code = round_up},
    [DV_FN_ROUND] = {.code = round_even},
    [DV_FN_TRUNC] = {.code = truncate},
    [DV_FN_SIGN] = {.code = sign, .whole_code = sign_whole},
    [DV_FN_BITAND] = {.whole_op = DV_V_AND},
    [DV_FN_BITXOR] = {.whole_op = DV_V_XOR},
    [DV_FN_BITOR] = {.whole_op = DV_V_OR},
    [DV_FN_SHL] = {.whole_code = shift_left},
    [DV_FN_SHR] = {.whole_code = shift_right},
    [DV_FN_MIN] = {.code = minimum, .whole_op = DV_V_IMIN},
    [DV_FN_MAX] = {.code = maximum, .whole_op = DV_V_IMAX},
};

int dv_vec_has(dv_fn fn, dv_dtype compute)
{
    const rule *r = &rules[fn];
    if (dv_fn_compares(fn) || fn == DV_FN_SELECT)
        return 1;
    return compute == DV_I32 ? r->whole_op || r->whole_code : r->op || r->code;
}

int dv_vec_is_long(dv_fn fn)
{
    return rules[fn].is_long;
}

int32_t dv_vec_apply(dv_vec_build *b, dv_fn fn, const int32_t *x, int whole)
{
    const rule *r = &rules[fn];
    int op = whole ? r->whole_op : r->op;
    if (op)
        return dv_vec_put(b, (dv_vop)op, x[0], x[1], 0);
    return whole ? r->whole_code(b, x) : r->code(b, x);
}
