// Converts f32 to f16 or bf16, rounded to nearest even. Eight elements are
// converted at a time, in vectors of 32 bytes on any machine. The last eight of
// a row overlap those before; rows of fewer than eight are stored element by
// element.
#include "jit/x64/gen.h"

enum { IN_BYTES = 4, OUT_BYTES = 2 }; // of an element
enum { EIGHT = 8, FULL = 32, HALF = 16 };
enum { V_COUNT = 8, V_ONE, V_LESS, V_ABS, V_INF, V_NAN };

static void op(dv_x *g, dv_x_insn insn, int a, int b, int c)
{
    dv_x_emit_3(g->code, insn, FULL, a, b, c);
}

static void set_constants(dv_x *g, int type)
{
    if (type != DV_BF16)
        return;
    // Bits to shift by: a bf16 is the upper 16 bits of an f32.
    uint32_t count[4] = {16};
    dv_x_load_constant(g, V_COUNT, HALF, dv_x_constant(g, count, HALF));
    dv_x_load_word(g, V_ONE, FULL, 1);
    dv_x_load_word(g, V_LESS, FULL, 0x7fff);
    dv_x_load_word(g, V_ABS, FULL, 0x7fffffff);
    dv_x_load_word(g, V_INF, FULL, 0x7f800000);
    dv_x_load_word(g, V_NAN, FULL, 0x7fc0);
}

// Rounds f32 to bf16: adds a little less than half a unit in the last place,
// and one more if the last remaining bit is set, so that ties go to even. nan
// stays nan.
static void round_bf16(dv_x *g)
{
    op(g, DV_X_vpsrld, 1, 0, V_COUNT);
    op(g, DV_X_vpand, 1, 1, V_ONE);
    op(g, DV_X_vaddi32, 1, 1, V_LESS);
    op(g, DV_X_vaddi32, 1, 1, 0);
    op(g, DV_X_vpsrld, 1, 1, V_COUNT);
    op(g, DV_X_vpand, 2, 0, V_ABS);
    op(g, DV_X_vpcmpgtd, 2, 2, V_INF);
    op(g, DV_X_vpand, 2, 2, V_NAN);
    op(g, DV_X_vpor, 1, 1, 2);
    dv_x_emit(g->code, DV_X_vextract128, FULL, 1, 0, dv_x_reg(2),
              (dv_x_more){.imm = 1});
    dv_x_emit_3(g->code, DV_X_vpackusdw, HALF, 0, 1, 2);
}

// Converts the wide elements of register 0 to the narrow type, in its lower
// half.
static void narrow(dv_x *g, int type)
{
    if (type == DV_F16) // immediate 0 selects rounding to nearest even
        dv_x_emit(g->code, DV_X_vcvtps2ph, FULL, 0, 0, dv_x_reg(0), none);
    else
        round_bf16(g);
}

static void eight(dv_x *g, int type, int64_t from, int64_t to)
{
    dv_x_load(g, 0, X_S, from, 0);
    narrow(g, type);
    dv_x_emit_m(g->code, DV_X_vmovups_s, HALF, 0, 0, X_D, to);
}

// Converts a row of n elements, fewer than the eight of a vector: narrow
// elements are stored one by one.
static void few(dv_x *g, int type, int n)
{
    dv_x_load_n(g, 0, X_S, 0, FULL, n, 0);
    narrow(g, type);
    for (int i = 0; i < n; i++)
        dv_x_emit(g->code, DV_X_vpextrw, HALF, 0, 0,
                  dv_x_mem(X_D, i * OUT_BYTES), (dv_x_more){.imm = i});
}

static void row(dv_x *g, int type, int cols)
{
    int many = cols / EIGHT, rest = cols % EIGHT;
    dv_x_mov(g, X_S, X_SRC);
    dv_x_mov(g, X_D, X_DST);
    if (!many) {
        few(g, type, rest);
        return;
    }
    DV_LOOP(X_J, many) {
        eight(g, type, 0, 0);
        dv_x_add(g, X_S, EIGHT * IN_BYTES);
        dv_x_add(g, X_D, EIGHT * OUT_BYTES);
    }
    if (rest)
        eight(g, type, (rest - EIGHT) * IN_BYTES, (rest - EIGHT) * OUT_BYTES);
}

void dv_x_convert(dv_x *g, const dv_move_shape *s)
{
    set_constants(g, s->dtype);
    DV_LOOP(X_I, s->rows) {
        row(g, s->dtype, s->cols);
        dv_x_add(g, X_SRC, s->lds * IN_BYTES);
        dv_x_add(g, X_DST, s->ldd * OUT_BYTES);
    }
}
