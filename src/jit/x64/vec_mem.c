// Loads and stores of vector kernels: full vectors, parts whose size is a power
// of two, and strided elements, of any type. Exactly the bytes of the elements
// are accessed.
#include "jit/x64/vec.h"

// Bytes of the vectors that strided elements are assembled in.
enum { CHUNK = 16 };

#define op   dv_x_vec_op
#define op_n dv_x_vec_op_n // with an explicit vector length

static void op_i(dv_x_vec *m, dv_x_insn insn, int vl, int a, int b, dv_x_rm c,
                 int imm)
{
    dv_x_emit(m->gen.code, insn, vl, a, b, c, (dv_x_more){.imm = imm});
}

// Returns the memory operand of element i of a strided vector; may overwrite
// X_TMP.
static dv_x_rm element(dv_x_vec *m, const dv_vec_mop *o, int base, int i)
{
    const dv_vec_operand *at = &m->p->operands[o->imm];
    int64_t off =
        ((int64_t)o->copy * m->gen.lanes + i) * at->inner * dv_vec_size(at) +
        m->at->off[o->imm];
    if (off >= INT32_MIN && off <= INT32_MAX)
        return dv_x_mem(base, off);
    dv_x_set(&m->gen, X_TMP, off);
    dv_x_emit_gr(m->gen.code, DV_X_add_s, base, X_TMP);
    return dv_x_mem(X_TMP, 0);
}

// Loads strided elements one by one and assembles them side by side in register
// V_T0.
static void load_apart(dv_x_vec *m, const dv_vec_mop *o)
{
    int es = dv_vec_size(&m->p->operands[o->imm]);
    int base = dv_x_vec_pointer(m, o->imm), per = CHUNK / es;
    for (int i = 0; i < o->count; i += per) {
        int v = i ? V_T1 : V_T0, chunk = i / per;
        for (int k = 0; k < per && i + k < o->count; k++)
            dv_x_load_lane(&m->gen, v, k, es, element(m, o, base, i + k));
        if (i && m->gen.masks)
            op_i(m, DV_X_vinsert32x4, 64, V_T0, V_T0, dv_x_reg(V_T1), chunk);
        else if (i)
            op_i(m, DV_X_vinsert128, 32, V_T0, V_T0, dv_x_reg(V_T1), chunk);
    }
}

// Loads every second element of memory by combining two vectors. The second
// vector begins with the last element of the first, so that nothing beyond the
// last wanted element is read.
//
//   lanes 4:   0 1 2 3   3 4 5 6   ->   0 2 4 6
static void load_every_other(dv_x_vec *m, const dv_vec_mop *o, int v)
{
    // The shuffle takes, in each 16-byte half, the even elements of the first
    // vector and the odd ones of the second; vpermq then orders the quarters as
    // 0 2 1 3.
    enum { EVEN_ODD = 0xd8, EVEN_ODD_64 = 0xa, TURNED = 0xd8 };
    int n = o->count, es = m->gen.es, is64 = es == 8, vl = n * es;
    int base = dv_x_vec_pointer(m, o->imm);
    int64_t off = (int64_t)o->copy * m->gen.lanes * 2 * es + m->at->off[o->imm];
    dv_x_rm low = dv_x_mem(base, off),
            high = dv_x_mem(base, off + (n - 1) * es);
    op_n(m, DV_X_vmovups, vl, V_T0, 0, low);
    if (m->gen.masks) {
        op_n(m, DV_X_vmovups, vl, v, 0,
             dv_x_own_const(m, (dv_x_own_vector){.every_other = n}));
        op_n(m, is64 ? DV_X_vperm2pd : DV_X_vperm2ps, vl, v, V_T0, high);
        return;
    }
    op_i(m, is64 ? DV_X_vshufpd : DV_X_vshufps, vl, vl == 16 ? v : V_T0, V_T0,
         high, is64 ? EVEN_ODD_64 : EVEN_ODD);
    if (vl == 32)
        op_i(m, DV_X_vpermq, 32, v, 0, dv_x_reg(V_T0), TURNED);
}

static void store_apart(dv_x_vec *m, const dv_vec_mop *o, int v)
{
    int es = dv_vec_size(&m->p->operands[o->imm]);
    int base = dv_x_vec_pointer(m, o->imm), per = CHUNK / es;
    for (int i = 0; i < o->count; i += per) {
        int from = i ? V_T1 : v, chunk = i / per;
        if (i && m->gen.masks)
            op_i(m, DV_X_vextract32x4, 64, v, 0, dv_x_reg(V_T1), chunk);
        else if (i)
            op_i(m, DV_X_vextract128, 32, v, 0, dv_x_reg(V_T1), chunk);
        for (int k = 0; k < per && i + k < o->count; k++)
            dv_x_store_lane(&m->gen, from, k, es, element(m, o, base, i + k));
    }
}

// Converts i64 to f64. The high word with its sign flipped becomes the mantissa
// of a float above 2^84 that counts multiples of 2^32, the low word that of a
// float above 2^52. Both offsets are subtracted from the high part, so that
// only the final addition rounds.
static void from_i64(dv_x_vec *m, int v, dv_x_rm from)
{
    op(m, DV_X_vmovups, V_T0, 0, from);
    op(m, DV_X_vsrlv64, V_T1, V_T0, dv_x_all64(m, 32));
    op(m, DV_X_vxorps, V_T1, V_T1, dv_x_all64(m, 0x4530000080000000));
    op(m, DV_X_vsubpd, V_T1, V_T1, dv_x_all64(m, 0x4530000080100000));
    op(m, DV_X_vandps, V_T0, V_T0, dv_x_all64(m, UINT32_MAX));
    op(m, DV_X_vorps, V_T0, V_T0, dv_x_all64(m, 0x4330000000000000));
    op(m, DV_X_vaddpd, v, V_T1, dv_x_reg(V_T0));
}

static int is_byte(dv_dtype t)
{
    return t == DV_I8 || t == DV_U8 || t == DV_BOOL;
}

// Widens narrow floats to f32, or integers of one or two bytes to i32, in a
// vector of vl bytes.
static void widen_4(dv_x_vec *m, int vl, int v, dv_dtype t, dv_x_rm from)
{
    if (t == DV_F16) {
        op_n(m, DV_X_vcvtph2ps, vl, v, 0, from);
    } else if (t == DV_BF16) {
        op_n(m, DV_X_vpmovzxwd, vl, v, 0, from);
        op_n(m, DV_X_vsllv32, vl, v, v, dv_x_all32(m, 16));
    } else if (is_byte(t)) {
        op_n(m, t == DV_I8 ? DV_X_vpmovsxbd : DV_X_vpmovzxbd, vl, v, 0, from);
    } else {
        op_n(m, t == DV_I16 ? DV_X_vpmovsxwd : DV_X_vpmovzxwd, vl, v, 0, from);
    }
}

// Loads elements of type t, from memory or from the low elements of a register,
// into register v, converted to the type `to` of the lanes.
static void widen(dv_x_vec *m, int v, dv_dtype t, dv_dtype to, dv_x_rm from)
{
    int whole = !dv_is_float(t);
    if (t == to || (t == DV_U32 && to == DV_I32)) {
        op(m, DV_X_vmovups, v, 0, from);
    } else if (t == DV_I32 && to == DV_F32) {
        op(m, DV_X_vcvtdq2ps, v, 0, from);
    } else if (to != DV_F64) {
        widen_4(m, m->gen.vb, v, t, from);
        if (to == DV_F32 && whole)
            op(m, DV_X_vcvtdq2ps, v, 0, dv_x_reg(v));
    } else if (t == DV_I64) {
        from_i64(m, v, from);
    } else if (t == DV_U32) { // becomes the mantissa of a float above 2^52
        op(m, DV_X_vpmovzxdq, v, 0, from);
        op(m, DV_X_vorps, v, v, dv_x_all64(m, 0x4330000000000000));
        op(m, DV_X_vsubpd, v, v, dv_x_all64(m, 0x4330000000000000));
    } else {
        if (t != DV_F32 && t != DV_I32) {
            widen_4(m, m->gen.vb / 2, V_T0, t, from);
            from = dv_x_reg(V_T0);
        }
        op(m, whole ? DV_X_vcvtdq2pd : DV_X_vcvtps2pd, v, 0, from);
    }
}

static void load_one(dv_x_vec *m, int v, dv_dtype t, dv_dtype to, dv_x_rm from)
{
    dv_x *g = &m->gen;
    dv_x_insn splat = DV_XF(g, vsplat);
    if (t == to) {
        op(m, splat, v, 0, from);
        return;
    }
    dv_x_load_lane(&m->gen, V_T0, 0, dv_dtype_get(t)->size_bytes, from);
    widen(m, V_T0, t, to, dv_x_reg(V_T0));
    op(m, splat, v, 0, dv_x_reg(V_T0));
}

// Sets all lanes to the address of the vector, for operands whose address is
// their value (DV_VEC_AS_INDEX). The address goes through the stack.
static void load_address(dv_x_vec *m, const dv_vec_mop *o, int v)
{
    dv_x *g = &m->gen;
    const dv_vec_operand *at = &m->p->operands[o->imm];
    dv_x_insn splat = DV_XF(g, vsplat);
    int base = dv_x_vec_pointer(m, o->imm);
    int64_t off = (int64_t)o->copy * g->lanes * at->inner;
    if (off) {
        dv_x_lea(g, X_TMP, base, off);
        base = X_TMP;
    }
    dv_x_put(g, base, X_SP, m->stage);
    op(m, splat, v, 0, dv_x_mem(X_SP, m->stage));
}

void dv_x_vec_load(dv_x_vec *m, const dv_vec_mop *o, int v)
{
    const dv_vec_operand *at = &m->p->operands[o->imm];
    dv_dtype t = (dv_dtype)at->dtype;
    dv_dtype to = dv_vec_lane_type(at, m->p->shape->compute);
    int es = dv_vec_size(at), same = t == to;
    int64_t off = m->at->off[o->imm];
    if (at->as == DV_VEC_AS_INDEX) {
        load_address(m, o, v);
        return;
    }
    if (at->inner == 0) {
        load_one(m, v, t, to, dv_x_mem(dv_x_vec_pointer(m, o->imm), off));
        return;
    }
    if (at->inner == 2 && o->count * es >= CHUNK && same) {
        load_every_other(m, o, v);
        return;
    }
    if (at->inner != 1) {
        load_apart(m, o);
        widen(m, v, t, to, dv_x_reg(V_T0));
        return;
    }
    dv_x_rm from = dv_x_mem(dv_x_vec_pointer(m, o->imm),
                            off + (int64_t)o->copy * m->gen.lanes * es);
    // Some emulators read more than the operand when vcvtdq2pd has a memory
    // source, so integers are loaded first if the result is f64.
    int safe = !m->p->is64 || same || dv_is_float(t);
    if (o->count == m->gen.lanes && safe) {
        widen(m, v, t, to, from);
    } else if (same) {
        dv_x_load_lane(&m->gen, v, 0, o->count * es, from);
    } else {
        dv_x_load_lane(&m->gen, V_T0, 0, o->count * es, from);
        widen(m, v, t, to, dv_x_reg(V_T0));
    }
}

// Converts f64 to f32 in V_T0 with rounding to odd, so that rounding again to a
// narrower type gives the result of rounding once. If the nearest f32 is even
// and inexact, its neighbour on the other side of the exact value is odd and is
// taken instead. Magnitudes are rounded first, then the sign is set.
static void round_to_odd(dv_x_vec *m, int v)
{
    dv_x_rm stage = dv_x_mem(X_SP, m->stage);
    // Index vector that moves the high words of all lanes to the front.
    dv_x_rm high = dv_x_own_const(m, (dv_x_own_vector){.step = 2, .off = 1});
    int half = m->gen.vb / 2;
    op(m, DV_X_vandps, V_T1, v, dv_x_all64(m, INT64_MAX));
    op(m, DV_X_vmovups_s, V_T1, 0, stage);
    op(m, DV_X_vcvtpd2ps, V_T0, 0, dv_x_reg(V_T1));
    op(m, DV_X_vcvtps2pd, V_T1, 0, dv_x_reg(V_T0));
    op(m, DV_X_vsubpd, V_T1, V_T1, stage);
    // inf - inf is nan; vmin replaces it by a large positive difference, so
    // that inf becomes the largest finite f32, which the next rounding turns
    // into inf again.
    op(m, DV_X_vminpd, V_T1, V_T1, dv_x_all64(m, 0x7fefffffffffffff));
    op(m, DV_X_vmovups_s, V_T1, 0, stage);
    op(m, DV_X_vmovups, V_T1, 0, high);
    op(m, DV_X_vpermps, V_T1, V_T1, stage);
    op_n(m, DV_X_vmovups_s, half, V_T0, 0, stage);
    op_n(m, DV_X_vandps, half, V_T0, V_T0, dv_x_all32(m, 1));
    op_n(m, DV_X_vaddi32, half, V_T0, V_T0, dv_x_all32(m, UINT32_MAX));
    // V_T0 becomes the correction of the f32 bits: -1, 0 or 1.
    op_n(m, DV_X_vsignd, half, V_T0, V_T0, dv_x_reg(V_T1));
    op_n(m, DV_X_vaddi32, half, V_T0, V_T0, stage);
    op(m, DV_X_vmovups_s, v, 0, stage);
    op(m, DV_X_vmovups, V_T1, 0, high);
    op(m, DV_X_vpermps, V_T1, V_T1, stage);
    op_n(m, DV_X_vandps, half, V_T1, V_T1, dv_x_all32(m, 0x80000000));
    op_n(m, DV_X_vorps, half, V_T0, V_T0, dv_x_reg(V_T1));
}

// Packs the low halves of the 4-byte words of V_T0 side by side into V_T0.
static void pack_words(dv_x_vec *m, int vl)
{
    if (m->gen.masks) {
        op_n(m, DV_X_vpmovdw, vl, V_T0, 0, dv_x_reg(V_T0));
        return;
    }
    if (vl == 32)
        op_i(m, DV_X_vextract128, 32, V_T0, 0, dv_x_reg(V_T1), 1);
    op_n(m, DV_X_vpackusdw, 16, V_T0, V_T0, dv_x_reg(vl == 32 ? V_T1 : V_T0));
}

// Rounds f32 to bf16: adds a little less than half a unit in the last place,
// and one more if the last remaining bit is set, so that ties go to even. nan
// stays nan. v may be V_T0.
static void to_bf16(dv_x_vec *m, int vl, int v)
{
    op_n(m, DV_X_vsrlv32, vl, V_T1, v, dv_x_all32(m, 16));
    op_n(m, DV_X_vandps, vl, V_T1, V_T1, dv_x_all32(m, 1));
    op_n(m, DV_X_vaddi32, vl, V_T1, V_T1, dv_x_all32(m, 0x7fff));
    op_n(m, DV_X_vaddi32, vl, V_T1, V_T1, dv_x_reg(v));
    op_n(m, DV_X_vandps, vl, V_T0, v, dv_x_all32(m, INT32_MAX));
    op_n(m, DV_X_vaddi32, vl, V_T0, V_T0, dv_x_all32(m, 0x007fffff));
    // V_T0 becomes all ones in lanes where v is nan, else 0.
    op_n(m, DV_X_vsrav32, vl, V_T0, V_T0, dv_x_all32(m, 31));
    op_n(m, DV_X_vandps, vl, V_T0, V_T0, dv_x_all32(m, 0x7fc00000));
    op_n(m, DV_X_vorps, vl, V_T0, V_T0, dv_x_reg(V_T1));
    op_n(m, DV_X_vsrlv32, vl, V_T0, V_T0, dv_x_all32(m, 16));
    pack_words(m, vl);
}

// Packs the low `size` bytes (1 or 2) of the 8-byte lanes of v side by side
// into V_T0.
static void narrow_8(dv_x_vec *m, int v, int size)
{
    enum { EVEN = 0x88 }; // picks the low words of two times two lanes
    if (m->gen.masks) {
        op(m, size == 1 ? DV_X_vpmovqb : DV_X_vpmovqw, v, 0, dv_x_reg(V_T0));
        return;
    }
    op_i(m, DV_X_vextract128, 32, v, 0, dv_x_reg(V_T1), 1);
    op_i(m, DV_X_vshufps, 16, V_T0, v, dv_x_reg(V_T1), EVEN);
    op_n(m, DV_X_vandps, 16, V_T0, V_T0,
         dv_x_all32(m, size == 1 ? UINT8_MAX : UINT16_MAX));
    op_n(m, DV_X_vpackusdw, 16, V_T0, V_T0, dv_x_reg(V_T0));
    if (size == 1)
        op_n(m, DV_X_vpackuswb, 16, V_T0, V_T0, dv_x_reg(V_T0));
}

static void to_i8(dv_x_vec *m, int v)
{
    if (m->gen.masks) {
        op(m, DV_X_vpmovdb, v, 0, dv_x_reg(V_T0));
        return;
    }
    op(m, DV_X_vandps, V_T0, v, dv_x_all32(m, 255));
    pack_words(m, 32);
    op_n(m, DV_X_vpackuswb, 16, V_T0, V_T0, dv_x_reg(V_T0));
}

// Narrows v to type t and returns the register that holds the narrowed elements
// side by side.
static int narrow(dv_x_vec *m, int v, dv_dtype t)
{
    dv_dtype from = (dv_dtype)m->p->shape->compute;
    int vl = m->gen.vb;
    int whole = !dv_is_float(t);
    if (t == from || (whole && dv_dtype_get(t)->size_bytes == 4))
        return v;
    if (whole && from == DV_F64) {
        narrow_8(m, v, dv_dtype_get(t)->size_bytes);
        return V_T0;
    }
    if (is_byte(t)) {
        to_i8(m, v);
        return V_T0;
    }
    if (whole) {
        op(m, DV_X_vandps, V_T0, v, dv_x_all32(m, UINT16_MAX));
        pack_words(m, vl);
        return V_T0;
    }
    if (t == DV_F32) {
        op(m, DV_X_vcvtpd2ps, V_T0, 0, dv_x_reg(v));
        return V_T0;
    }
    if (from == DV_F64) {
        round_to_odd(m, v);
        v = V_T0;
        vl /= 2;
    }
    if (t == DV_F16) // immediate 0 selects rounding to nearest even
        op_i(m, DV_X_vcvtps2ph, vl, v, 0, dv_x_reg(V_T0), 0);
    else
        to_bf16(m, vl, v);
    return V_T0;
}

void dv_x_vec_store(dv_x_vec *m, const dv_vec_mop *o, int v)
{
    const dv_vec_operand *to = &m->p->operands[o->imm];
    int es = dv_vec_size(to);
    v = narrow(m, v, (dv_dtype)to->dtype);
    if (to->inner != 0 && to->inner != 1) {
        store_apart(m, o, v);
        return;
    }
    int64_t off = to->inner ? (int64_t)o->copy * m->gen.lanes * es : 0;
    dv_x_store_lane(&m->gen, v, 0, o->count * es,
                    dv_x_mem(dv_x_vec_pointer(m, o->imm), off));
}
