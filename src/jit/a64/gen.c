// Shared parts of the AArch64 generators; gen.h describes them.
#include "jit/a64/gen.h"

void dv_gen_mov(dv_gen *g, int rd, int64_t imm)
{
    uint64_t v = (uint64_t)imm;
    DV_E(movz_x, rd, v & 65535, 0, 0);
    for (int i = 1; i < 4; i++)
        if (v >> 16 * i & 65535)
            DV_E(movk_x, rd, v >> 16 * i & 65535, i, 0);
}

void dv_gen_add_any(dv_gen *g, int rd, int rn, int64_t imm)
{
    int64_t v = imm < 0 ? -imm : imm;
    if (imm == 0) {
        if (rd != rn)
            DV_E(mov_x, rd, 0, rn, 0);
        return;
    }
    if (v >= 4096 * 4096) {
        dv_gen_mov(g, X_TMP2, imm);
        DV_E(add_x, rd, rn, X_TMP2, 0);
        return;
    }
    if (v >> 12) {
        if (imm < 0)
            DV_E(subi12_x, rd, rn, v >> 12, 0);
        else
            DV_E(addi12_x, rd, rn, v >> 12, 0);
        rn = rd;
    }
    if (v & 4095) {
        if (imm < 0)
            DV_E(subi_x, rd, rn, v & 4095, 0);
        else
            DV_E(addi_x, rd, rn, v & 4095, 0);
    }
}

// Tables of the instructions that load ([0]) and store ([1]) one register,
// indexed by the logarithm of its bytes: with a scaled offset, with an unscaled
// one (no stores of one and two bytes), and of one lane at the base address.
static const dv_insn scaled[2][5] = {
    {DV_INSN_ldr_b, DV_INSN_ldr_h, DV_INSN_ldr_s, DV_INSN_ldr_d, DV_INSN_ldr_q},
    {DV_INSN_str_b, DV_INSN_str_h, DV_INSN_str_s, DV_INSN_str_d,
     DV_INSN_str_q}};
static const dv_insn unscaled[2][5] = {
    {DV_INSN_ldur_b, DV_INSN_ldur_h, DV_INSN_ldur_s, DV_INSN_ldur_d,
     DV_INSN_ldur_q},
    {[2] = DV_INSN_stur_s, DV_INSN_stur_d, DV_INSN_stur_q}};
static const dv_insn lanes[2][4] = {
    {DV_INSN_ld1_b, DV_INSN_ld1_h, DV_INSN_ld1_s, DV_INSN_ld1_d},
    {DV_INSN_st1_b, DV_INSN_st1_h, DV_INSN_st1_s, DV_INSN_st1_d}};

static int log_of(int bytes)
{
    return bytes == 16 ? 4 : bytes >= 8 ? 3 : bytes >= 4 ? 2 : bytes == 2;
}

// Loads or stores the first 4, 8, 12 or 16 bytes of a register.
static void access_words(dv_gen *g, int store, int v, int base, int64_t off,
                         int bytes)
{
    int log = log_of(bytes), fits = dv_insn_scaled(off, log, 0, 4095);
    int near = !fits && dv_insn_in(off, -256, 255);
    if (!fits && !near) {
        dv_gen_add(g, X_TMP2, base, off);
        base = X_TMP2;
        off = 0;
    }
    dv_emit(g->code, (near ? unscaled : scaled)[store][log], v, base, off, 0);
    if (bytes == 12) {
        dv_gen_add(g, X_TMP2, base, off + 8);
        dv_emit(g->code, lanes[store][2], v, X_TMP2, 2, 0);
    }
}

// Loads or stores the first `bytes` bytes of a register: whole words, then up
// to three bytes as lanes.
static void access_any(dv_gen *g, int store, int v, int base, int64_t off,
                       int bytes)
{
    int done = bytes / 4 * 4;
    if (done)
        access_words(g, store, v, base, off, done);
    else if (!store)
        DV_E(movi_0, v, 0, 0, 0);
    for (int log = 1; log >= 0; log--)
        if (bytes - done >= 1 << log) {
            dv_gen_add(g, X_TMP, base, off + done);
            dv_emit(g->code, lanes[store][log], v, X_TMP, done >> log, 0);
            done += 1 << log;
        }
}

void dv_gen_load_any(dv_gen *g, int v, int base, int64_t off, int bytes)
{
    access_any(g, 0, v, base, off, bytes);
}

void dv_gen_store_any(dv_gen *g, int v, int base, int64_t off, int bytes)
{
    access_any(g, 1, v, base, off, bytes);
}

// The stack frame of a kernel saves x19 to x28, then, from offset FRAME_V on,
// d8 to d15.
enum { FRAME_BYTES = 144, FRAME_V = 80 };

// Emits load-pair or store-pair instructions for n consecutive registers.
// `first` is the word of the first pair; both register numbers and the offset
// field grow by two from pair to pair.
static void pairs(dv_gen *g, uint32_t first, int n)
{
    for (int i = 0; i < n; i += 2)
        dv_code_put(g->code, first + (uint32_t)i * (1 | 1 << 10 | 1 << 15));
}

void dv_gen_enter(dv_gen *g)
{
    int ok = 1;
    if (g->n_vregs <= 24 && !g->saves_x)
        return;
    DV_E(subi_x, X_SP, X_SP, FRAME_BYTES, 0);
    if (g->saves_x)
        pairs(g, dv_insn_word(DV_INSN_stp_x, 19, 20, X_SP, 0, &ok), 10);
    pairs(g, dv_insn_word(DV_INSN_stp_d, 8, 9, X_SP, FRAME_V, &ok),
          g->n_vregs - 24);
}

void dv_gen_leave(dv_gen *g)
{
    int ok = 1;
    if (g->n_vregs > 24 || g->saves_x) {
        if (g->saves_x)
            pairs(g, dv_insn_word(DV_INSN_ldp_x, 19, 20, X_SP, 0, &ok), 10);
        pairs(g, dv_insn_word(DV_INSN_ldp_d, 8, 9, X_SP, FRAME_V, &ok),
              g->n_vregs - 24);
        DV_E(addi_x, X_SP, X_SP, FRAME_BYTES, 0);
    }
    DV_E(ret, 0, 0, 0, 0);
}

void dv_gen_bytes(dv_gen *g, int store, int v, int base, int64_t off, int bytes)
{
    int apart = !store && (off < 0 || off % bytes);
    dv_emit(g->code, (apart ? unscaled : scaled)[store][log_of(bytes)], v, base,
            off, 0);
}

void dv_gen_lane(dv_gen *g, int store, int v, int base, int lane, int bytes)
{
    dv_emit(g->code, lanes[store][log_of(bytes)], v, base, lane, 0);
}

void dv_gen_transpose(dv_gen *g, const int *in, const int *out, const int *t)
{
    if (g->es == 8) {
        DV_E(trn1_2d, t[0], in[0], in[1], 0);
        DV_E(trn2_2d, out[1], in[0], in[1], 0);
        DV_E(mov_v, out[0], t[0], t[0], 0);
        return;
    }
    DV_E(trn1_4s, t[0], in[0], in[1], 0);
    DV_E(trn2_4s, t[1], in[0], in[1], 0);
    DV_E(trn1_4s, t[2], in[2], in[3], 0);
    DV_E(trn2_4s, t[3], in[2], in[3], 0);
    DV_E(trn1_2d, out[0], t[0], t[2], 0);
    DV_E(trn1_2d, out[1], t[1], t[3], 0);
    DV_E(trn2_2d, out[2], t[0], t[2], 0);
    DV_E(trn2_2d, out[3], t[1], t[3], 0);
}

void dv_gen_loop_end(dv_gen *g, int reg, size_t to)
{
    DV_E(subsi_x, reg, reg, 1, 0);
    DV_E(b_ne, 0, 0, ((int64_t)to - (int64_t)g->code->n) / 4, 0);
}
