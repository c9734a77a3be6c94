// Converts narrow elements to wide ones and back: f16 and bf16 to f32, i8 to
// i32, and f32 to f16 or bf16, rounded to nearest even. Eight elements are
// converted at a time, in vectors of 32 bytes on any machine. The last eight of
// a row overlap those before; rows of fewer than eight are accessed element by
// element.
#include "jit/x64/gen.h"

enum { EIGHT = 8, FULL = 32, HALF = 16 };
enum { V_COUNT = 8, V_ONE, V_LESS, V_ABS, V_INF, V_NAN };

typedef struct convert {
    // The narrow type, and whether the conversion is to it rather than from it.
    int type, narrow;
    int es; // bytes of a narrow element
} convert;

static void op(dv_x *g, dv_x_insn insn, int a, int b, int c)
{
    dv_x_emit_3(g->code, insn, FULL, a, b, c);
}

static void set_constants(dv_x *g, const convert *c)
{
    if (c->type != DV_BF16)
        return;
    // Bits to shift by: a bf16 is the upper 16 bits of an f32.
    uint32_t count[4] = {16};
    dv_x_load_constant(g, V_COUNT, HALF, dv_x_constant(g, count, HALF));
    if (!c->narrow)
        return;
    dv_x_load_word(g, V_ONE, FULL, 1);
    dv_x_load_word(g, V_LESS, FULL, 0x7fff);
    dv_x_load_word(g, V_ABS, FULL, 0x7fffffff);
    dv_x_load_word(g, V_INF, FULL, 0x7f800000);
    dv_x_load_word(g, V_NAN, FULL, 0x7fc0);
}

static dv_x_insn widening(const convert *c)
{
    return c->type == DV_F16    ? DV_X_vcvtph2ps
           : c->type == DV_BF16 ? DV_X_vpmovzxwd
                                : DV_X_vpmovsxbd;
}

static void widen(dv_x *g, const convert *c, dv_x_rm from)
{
    dv_x_emit(g->code, widening(c), FULL, 0, 0, from, none);
    if (c->type == DV_BF16)
        op(g, DV_X_vpslld, 0, 0, V_COUNT);
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
static void narrow(dv_x *g, const convert *c)
{
    if (c->type == DV_F16) // immediate 0 selects rounding to nearest even
        dv_x_emit(g->code, DV_X_vcvtps2ph, FULL, 0, 0, dv_x_reg(0), none);
    else
        round_bf16(g);
}

static void eight(dv_x *g, const convert *c, int64_t from, int64_t to)
{
    if (!c->narrow) {
        widen(g, c, dv_x_mem(X_S, from));
        dv_x_store(g, 0, X_D, to, 0);
        return;
    }
    dv_x_load(g, 0, X_S, from, 0);
    narrow(g, c);
    dv_x_emit_m(g->code, DV_X_vmovups_s, HALF, 0, 0, X_D, to);
}

// Converts a row of n elements, fewer than the eight of a vector: narrow
// elements are loaded or stored one by one.
static void few(dv_x *g, const convert *c, int n)
{
    dv_x_insn put = c->es == 1 ? DV_X_vpinsrb : DV_X_vpinsrw;
    if (c->narrow) {
        dv_x_load_n(g, 0, X_S, 0, FULL, n, 0);
        narrow(g, c);
        for (int i = 0; i < n; i++)
            dv_x_emit(g->code, DV_X_vpextrw, HALF, 0, 0,
                      dv_x_mem(X_D, i * c->es), (dv_x_more){.imm = i});
        return;
    }
    dv_x_zero(g, 0);
    for (int i = 0; i < n; i++)
        dv_x_emit(g->code, put, HALF, 0, 0, dv_x_mem(X_S, i * c->es),
                  (dv_x_more){.imm = i});
    widen(g, c, dv_x_reg(0));
    dv_x_store_n(g, 0, X_D, 0, FULL, n, 1);
}

static void row(dv_x *g, const convert *c, int cols)
{
    int many = cols / EIGHT, rest = cols % EIGHT;
    int64_t in = c->narrow ? 4 : c->es, out = c->narrow ? c->es : 4;
    dv_x_mov(g, X_S, X_SRC);
    dv_x_mov(g, X_D, X_DST);
    if (!many) {
        few(g, c, rest);
        return;
    }
    DV_LOOP(X_J, many) {
        eight(g, c, 0, 0);
        dv_x_add(g, X_S, EIGHT * in);
        dv_x_add(g, X_D, EIGHT * out);
    }
    if (rest)
        eight(g, c, (rest - EIGHT) * in, (rest - EIGHT) * out);
}

void dv_x_convert(dv_x *g, const dv_move_shape *s)
{
    convert c = {s->dtype, s->move == DV_MOVE_NARROW,
                 dv_dtype_get((dv_dtype)s->dtype)->size_bytes};
    int64_t in = c.narrow ? 4 : c.es, out = c.narrow ? c.es : 4;
    set_constants(g, &c);
    DV_LOOP(X_I, s->rows) {
        row(g, &c, s->cols);
        dv_x_add(g, X_SRC, s->lds * in);
        dv_x_add(g, X_DST, s->ldd * out);
    }
}
