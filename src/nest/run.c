// The reference executor: the loops as they are written, a point at a time.
// Threads and kernels do not exist here: all dimensions are loops, and the
// touches of an output block are those of its elements, which meet their
// first and last k on their own.
#include "nest/nest.h"
#include "base/math.h"

typedef struct walk {
    const dv_nest *n;
    const dv_nest_tiles *tiles;
    int64_t *at; // a dimension's index among the elements of all its tiles
} walk;

// How often the loop runs where the loops around it stand: the last tile may
// be cut short. Only one k at a time is at its last element this way, too.
static int64_t turns(const walk *w, int dim, int64_t *from)
{
    const dv_nest_dim *d = &w->n->dims[dim];
    int outer = w->tiles->outer[dim];
    *from = outer < 0 ? 0 : w->at[outer];
    return d->whole ? dv_min_i64(d->size, dv_ceil_div(d->whole - *from,
                                                      w->tiles->unit[dim]))
                    : d->size;
}

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
    dv_nest_tiles tiles;
    int64_t index[DV_NEST_MAX_DIMS];
    int bad;
    DV_TRY(dv_nest_check(n, diag));
    dv_nest_tiles_of(n, &tiles, &bad);
    int reads_in1 = dv_nest_is_product(n) || dv_nest_is_binary(n);
    if (!in0 || !out || (!in1 && reads_in1))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "nest %s has no memory for %s", n->name,
                       !in0   ? "in0"
                       : !out ? "out"
                              : "in1");
    if (!reads_in1)
        in1 = NULL;
    walk w = {n, &tiles, index};
    if (n->dtype == DV_F32)
        loop_f32(&w, 0, in0, in1, out, 1, 1);
    else
        loop_f64(&w, 0, in0, in1, out, 1, 1);
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
