// The reference executor: the loops as they are written, a point at a time.
// Threads and kernels do not exist here: all dimensions are loops, and the
// touches of an output block are those of its elements, which meet their
// first and last k on their own.
#include "nest/nest.h"

#define REAL  float
#define APPLY apply_f32
#define POINT point_f32
#define LOOP  loop_f32
#include "nest/run_body.h"
#undef REAL
#undef APPLY
#undef POINT
#undef LOOP

#define REAL  double
#define APPLY apply_f64
#define POINT point_f64
#define LOOP  loop_f64
#include "nest/run_body.h"

dv_status dv_nest_run(const dv_nest *n, const void *in0, const void *in1,
                      void *out, dv_diag *diag)
{
    DV_TRY(dv_nest_check(n, diag));
    if (!in0 || !out || (!in1 && !dv_nest_is_unary(n)))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "nest %s has no memory for %s", n->name,
                       !in0   ? "in0"
                       : !out ? "out"
                              : "in1");
    if (dv_nest_is_unary(n))
        in1 = NULL;
    if (n->dtype == DV_F32)
        loop_f32(n, 0, in0, in1, out, 1, 1);
    else
        loop_f64(n, 0, in0, in1, out, 1, 1);
    return DV_OK;
}

void dv_nest_fill(dv_dtype t, uint64_t seed, void *data, int64_t n)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    for (int64_t i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        dv_store(t, data, i, (double)((x >> 33) % 9) - 4);
    }
}
