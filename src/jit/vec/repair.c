// Functions of the C library that vector kernels call for arguments that their
// code does not handle, such as large angles (DV_V_REPAIR). Such arguments are
// rare: a kernel tests each vector for results that are nan, and saves its
// registers only when it calls.
#include "jit/vec/ir.h"
#include <math.h>
#include <string.h>

#define REPAIR(name, T, fn)                                                    \
    static void name(void *lanes, int64_t n)                                   \
    {                                                                          \
        T *x = lanes, *y = x + n, *result = y + n;                             \
        for (int64_t i = 0; i < n; i++)                                        \
            if (isnan(result[i]))                                              \
                result[i] = fn;                                                \
        (void)y;                                                               \
    }
REPAIR(sin_f32, float, sinf(x[i]))
REPAIR(sin_f64, double, sin(x[i]))
REPAIR(cos_f32, float, cosf(x[i]))
REPAIR(cos_f64, double, cos(x[i]))
REPAIR(tan_f32, float, tanf(x[i]))
REPAIR(tan_f64, double, tan(x[i]))
REPAIR(pow_f32, float, powf(x[i], y[i]))
REPAIR(pow_f64, double, pow(x[i], y[i]))
REPAIR(rem_f32, float, fmodf(x[i], y[i]))
REPAIR(rem_f64, double, fmod(x[i], y[i]))
#undef REPAIR

static dv_vec_repair_fn *const repairs[DV_N_FNS][2] = {
    [DV_FN_SIN] = {sin_f32, sin_f64}, [DV_FN_COS] = {cos_f32, cos_f64},
    [DV_FN_TAN] = {tan_f32, tan_f64}, [DV_FN_POW] = {pow_f32, pow_f64},
    [DV_FN_REM] = {rem_f32, rem_f64},
};

uint64_t dv_vec_repair_address(dv_fn fn, int is64)
{
    dv_vec_repair_fn *of = repairs[fn][is64 != 0];
    uint64_t address = 0;
    _Static_assert(sizeof of <= sizeof address, "addresses have 64 bits");
    memcpy(&address, &of, sizeof of);
    return address;
}

int dv_vec_repairs(const dv_vec_plan *p)
{
    for (int32_t i = 0; i < p->n; i++)
        if (p->ops[i].op == DV_V_REPAIR)
            return 1;
    return 0;
}
