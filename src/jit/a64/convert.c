// Conversions of f32 to f16 or bf16 with rounding to nearest even. Eight
// elements are converted at a time: two wide vectors to a narrow one.
#include "jit/a64/gen.h"

// Rows of up to ROW_MOST elements are unrolled completely.
enum { IN_BYTES = 4, OUT_BYTES = 2 }; // of an element
enum { EIGHT = 8, FOUR = 4, ROW_MOST = 48 };
enum { V_ONE = 28, V_HALF = 29, V_NAN = 30, V_ROUND = 31 };

typedef struct convert {
    int type;
    int soft; // 1: the machine has no instruction that rounds to bf16
} convert;

// Rounds f32 to bf16 in the upper half of each lane, to nearest even: adds
// 0x7fff, and 1 more if the lowest bit that is kept is set. Every nan becomes
// the default nan. Register t is overwritten.
static void round_up(dv_gen *g, int v, int t)
{
    DV_E(ushr16, t, v, 0, 0);
    DV_E(and_v, t, t, V_ONE, 0);
    DV_E(fadd_4i, t, t, V_HALF, 0);
    DV_E(fadd_4i, t, t, v, 0);
    DV_E(fcmeq_4s, v, v, v, 0);
    DV_E(bsl_v, v, t, V_NAN, 0);
}

// Converts the four f32 lanes of `from` into the lower half of `to`; with
// `upper`, into the upper half of `to`, whose lower half is kept.
static void narrow(dv_gen *g, const convert *c, int to, int from, int upper)
{
    if (c->type == DV_F16 && upper)
        DV_E(fcvtn2, to, from, 0, 0);
    else if (c->type == DV_F16)
        DV_E(fcvtn, to, from, 0, 0);
    else if (!c->soft && upper)
        DV_E(bfcvtn2, to, from, 0, 0);
    else if (!c->soft)
        DV_E(bfcvtn, to, from, 0, 0);
    else {
        round_up(g, from, V_ROUND);
        if (upper)
            DV_E(shrn2_16, to, from, 0, 0);
        else
            DV_E(shrn16, to, from, 0, 0);
    }
}

// Converts n elements (at most eight) from the source at X_S + in to the
// destination at X_D + out, using three vector registers from number v on.
static void step(dv_gen *g, const convert *c, int64_t in, int64_t out, int n,
                 int v)
{
    int lo = n < FOUR ? n : FOUR, hi = n - lo;
    int thin = dv_gen_reg(v), a = dv_gen_reg(v + 1), b = dv_gen_reg(v + 2);
    dv_gen_load(g, a, X_S, in, lo * IN_BYTES);
    narrow(g, c, thin, a, 0);
    if (hi) {
        dv_gen_load(g, b, X_S, in + 16, hi * IN_BYTES);
        narrow(g, c, thin, b, 1);
    }
    dv_gen_store(g, thin, X_D, out, n * OUT_BYTES);
}

// Converts n elements from the source at X_S to the destination at X_D, fully
// unrolled.
static void run(dv_gen *g, const convert *c, int n)
{
    for (int i = 0; i < n; i += EIGHT)
        step(g, c, i * IN_BYTES, i * OUT_BYTES, n - i < EIGHT ? n - i : EIGHT,
             i / EIGHT % 5 * 3);
}

static void one_row(dv_gen *g, const convert *c, int cols)
{
    enum { TURN = 4 * EIGHT };
    int many = cols > ROW_MOST ? cols / TURN : 0;
    DV_E(mov_x, X_S, 0, X_SRC, 0);
    DV_E(mov_x, X_D, 0, X_DST, 0);
    DV_LOOP(X_J, many) {
        run(g, c, TURN);
        dv_gen_add(g, X_S, X_S, TURN * IN_BYTES);
        dv_gen_add(g, X_D, X_D, TURN * OUT_BYTES);
    }
    run(g, c, cols - many * TURN);
}

static void constant(dv_gen *g, int v, int64_t value)
{
    dv_gen_mov(g, X_TMP, value);
    DV_E(dup_4s, v, X_TMP, 0, 0);
}

void dv_convert_move(dv_gen *g, const dv_isa *isa, const dv_move_shape *s)
{
    convert c = {.type = s->dtype};
    c.soft = s->dtype == DV_BF16 && !dv_isa_has(isa, DV_BF16);
    if (c.soft) {
        constant(g, V_ONE, 1);
        constant(g, V_HALF, 0x7fff);
        constant(g, V_NAN, 0x7fc00000);
    }
    DV_LOOP(X_I, s->rows) {
        one_row(g, &c, s->cols);
        dv_gen_add(g, X_SRC, X_SRC, s->lds * IN_BYTES);
        dv_gen_add(g, X_DST, X_DST, s->ldd * OUT_BYTES);
    }
}
