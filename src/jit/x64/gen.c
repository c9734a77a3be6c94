// Implements the helpers that gen.h declares for the x86-64 generators.
#include "jit/x64/gen.h"

// Initialises a generator. Only the fields before `fixes` are cleared: entries
// of `fixes` (displacements to patch) and `constants` are written before their
// counts grow.
void dv_x_start_vb(dv_x *g, dv_code *code, int vb, int es)
{
    memset(g, 0, offsetof(dv_x, fixes));
    g->code = code;
    g->vb = vb;
    g->es = es;
    g->lanes = vb / es;
    g->masks = vb == 64;
    g->n_regs = g->masks ? 32 : 16;
}

void dv_x_start(dv_x *g, dv_code *code, const dv_isa *isa, int es)
{
    dv_x_start_vb(g, code, isa->vector_bytes, es);
    g->l1_bytes = isa->l1_bytes;
}

void dv_x_vvv(dv_x *g, dv_x_insn op, int a, int b, int c)
{
    dv_x_emit_3(g->code, op, g->vb, a, b, c);
}

void dv_x_vvm(dv_x *g, dv_x_insn op, int a, int b, int base, int64_t off)
{
    dv_x_emit_m(g->code, op, g->vb, a, b, base, off);
}

void dv_x_mul_add(dv_x *g, int acc, int a, int b, int tmp)
{
    if (g->dot) {
        dv_x_vvv(g, (dv_x_insn)g->dot, acc, b, a);
        return;
    }
    if (!g->ints) {
        dv_x_vvv(g, DV_XF(g, vfma), acc, a, b);
        return;
    }
    dv_x_vvv(g, DV_X_vmuli32, tmp, a, b);
    dv_x_vvv(g, DV_X_vaddi32, acc, acc, tmp);
}

// Emits code that sets a vector register to 0. A VEX or EVEX instruction on the
// low 16 bytes clears the rest of the register, too.
void dv_x_zero(dv_x *g, int v)
{
    dv_x_emit_3(g->code, v < 16 ? DV_X_vxorps : DV_X_vpxord, 16, v, v, v);
}

void dv_x_zeros(dv_x *g, int n)
{
    int low = n < 16 ? n : 16;
    dv_x_run_3(g->code, DV_X_vxorps, 16, low, 0, 0, 0, 1);
    dv_x_run_3(g->code, DV_X_vpxord, 16, n - low, low, low, low, 1);
}

void dv_x_broadcast(dv_x *g, int v, int base, int64_t off)
{
    dv_x_vvm(g, DV_XF(g, vsplat), v, 0, base, off);
}

static void set_mask(dv_x *g, int k, int n)
{
    dv_x_emit_gi(g->code, DV_X_movi, X_TMP, (1 << n) - 1);
    dv_x_emit(g->code, DV_X_kmovw, 0, k, 0, dv_x_reg(X_TMP), none);
}

void dv_x_mask(dv_x *g, int v, int vl, int n)
{
    unsigned char ones[64];
    memset(ones, 255, sizeof ones);
    memset(ones + n * g->es, 0, sizeof ones - (size_t)(n * g->es));
    dv_x_load_constant(g, v, vl, dv_x_constant(g, ones, vl));
}

void dv_x_set_tail_mask(dv_x *g, int lanes)
{
    if (g->masks)
        set_mask(g, K_PART, lanes);
    else
        dv_x_mask(g, g->n_regs - 1, g->vb, lanes);
}

// Loads or stores the lanes of a vector that a mask register, or on AVX2 a
// vector register, selects. Loads clear the other lanes.
static void masked(dv_x *g, int store, int v, int base, int64_t off, int vl,
                   int mask)
{
    if (g->masks)
        dv_x_emit(g->code, store ? DV_XF_S(g, vmovu) : DV_XF(g, vmovu), vl, v,
                  0, dv_x_mem(base, off),
                  (dv_x_more){.mask = mask | (store ? 0 : DV_X_ZERO)});
    else
        dv_x_emit_m(g->code, store ? DV_XF_S(g, vmask) : DV_XF(g, vmask), vl, v,
                    mask, base, off);
}

void dv_x_load(dv_x *g, int v, int base, int64_t off, int part)
{
    if (part)
        masked(g, 0, v, base, off, g->vb, g->masks ? K_PART : g->n_regs - 1);
    else
        dv_x_emit_m(g->code, DV_X_vmovups, g->vb, v, 0, base, off);
}

void dv_x_store(dv_x *g, int v, int base, int64_t off, int part)
{
    if (part)
        masked(g, 1, v, base, off, g->vb, g->masks ? K_PART : g->n_regs - 1);
    else
        dv_x_emit_m(g->code, DV_X_vmovups_s, g->vb, v, 0, base, off);
}

void dv_x_loads(dv_x *g, int n, int v, int base, int64_t off)
{
    dv_x_run_m(g->code, DV_X_vmovups, g->vb, n, v, 0, base, off, g->vb);
}

void dv_x_stores(dv_x *g, int n, int v, int base, int64_t off)
{
    dv_x_run_m(g->code, DV_X_vmovups_s, g->vb, n, v, 0, base, off, g->vb);
}

// Sets a mask for the first n elements of a vector of vl bytes. Returns 0 if
// the vector is full and needs no mask.
static int mask_n(dv_x *g, int vl, int n, int tmp)
{
    if (n * g->es == vl)
        return 0;
    if (g->masks)
        set_mask(g, K_OTHER, n);
    else
        dv_x_mask(g, tmp, vl, n);
    return 1;
}

void dv_x_load_n(dv_x *g, int v, int base, int64_t off, int vl, int n, int tmp)
{
    if (mask_n(g, vl, n, tmp))
        masked(g, 0, v, base, off, vl, g->masks ? K_OTHER : tmp);
    else
        dv_x_emit_m(g->code, DV_X_vmovups, vl, v, 0, base, off);
}

void dv_x_store_n(dv_x *g, int v, int base, int64_t off, int vl, int n, int tmp)
{
    if (mask_n(g, vl, n, tmp))
        masked(g, 1, v, base, off, vl, g->masks ? K_OTHER : tmp);
    else
        dv_x_emit_m(g->code, DV_X_vmovups_s, vl, v, 0, base, off);
}

void dv_x_load_lane(dv_x *g, int v, int lane, int bytes, dv_x_rm from)
{
    dv_x_insn small = bytes == 2 ? DV_X_vpinsrw : DV_X_vpinsrb;
    if (bytes == 8 && lane) {
        dv_x_emit_m(g->code, DV_X_vmovhpd, 16, v, v, from.base, from.disp);
    } else if (bytes == 4 && lane) {
        dv_x_emit(g->code, DV_X_vinsertps, 16, v, v, from,
                  (dv_x_more){.imm = lane << 4});
    } else if (bytes >= 4) {
        dv_x_insn op = bytes >= 16  ? DV_X_vmovups
                       : bytes == 8 ? DV_X_vmovsd
                                    : DV_X_vmovss;
        dv_x_emit_m(g->code, op, bytes > 16 ? bytes : 16, v, 0, from.base,
                    from.disp);
    } else {
        if (!lane)
            dv_x_zero(g, v);
        dv_x_emit(g->code, small, 16, v, v, from, (dv_x_more){.imm = lane});
    }
}

void dv_x_store_lane(dv_x *g, int v, int lane, int bytes, dv_x_rm to)
{
    dv_x_insn small = bytes == 4   ? DV_X_vextractps
                      : bytes == 2 ? DV_X_vpextrw
                                   : DV_X_vpextrb;
    if (bytes < 4 || (bytes == 4 && lane)) {
        dv_x_emit(g->code, small, 16, v, 0, to, (dv_x_more){.imm = lane});
        return;
    }
    dv_x_insn op = bytes >= 16  ? DV_X_vmovups_s
                   : bytes == 4 ? DV_X_vmovss_s
                   : lane       ? DV_X_vmovhpd_s
                                : DV_X_vmovsd_s;
    dv_x_emit_m(g->code, op, bytes > 16 ? bytes : 16, v, 0, to.base, to.disp);
}

void dv_x_copy(dv_x *g, int v, int from, int64_t off, int to, int64_t off_to,
               int n)
{
    for (int piece; n > 0; n -= piece, off += piece, off_to += piece) {
        piece = dv_x_pow2_fit(n, g->vb);
        dv_x_load_lane(g, v, 0, piece, dv_x_mem(from, off));
        dv_x_store_lane(g, v, 0, piece, dv_x_mem(to, off_to));
    }
}

void dv_x_load_part(dv_x *g, int v, int base, int64_t off, int bytes)
{
    for (int at = 0, piece; at < bytes; at += piece) {
        piece = dv_x_pow2_fit(bytes - at, 16);
        dv_x_load_lane(g, v, at / piece, piece, dv_x_mem(base, off + at));
    }
}

void dv_x_store_part(dv_x *g, int v, int base, int64_t off, int bytes)
{
    for (int at = 0, piece; at < bytes; at += piece) {
        piece = dv_x_pow2_fit(bytes - at, 16);
        dv_x_store_lane(g, v, at / piece, piece, dv_x_mem(base, off + at));
    }
}

static int fits32(int64_t v)
{
    return v >= INT32_MIN && v <= INT32_MAX;
}

void dv_x_set(dv_x *g, int reg, int64_t imm)
{
    if (fits32(imm))
        dv_x_emit_gi(g->code, DV_X_movi, reg, imm);
    else
        dv_x_emit(g->code, DV_X_movq, 0, reg, 0, dv_x_reg(0),
                  (dv_x_more){.imm = imm});
}

void dv_x_mov(dv_x *g, int to, int from)
{
    if (to != from)
        dv_x_emit_gr(g->code, DV_X_mov_s, from, to);
}

void dv_x_add(dv_x *g, int reg, int64_t imm)
{
    if (imm == 0)
        return;
    if (fits32(imm)) {
        dv_x_emit_gi(g->code, DV_X_addi, reg, imm);
        return;
    }
    dv_x_set(g, X_TMP, imm);
    dv_x_emit_gr(g->code, DV_X_add_s, X_TMP, reg);
}

void dv_x_lea(dv_x *g, int reg, int base, int64_t off)
{
    if (off && fits32(off) && reg != base) {
        dv_x_emit_gm(g->code, DV_X_lea, reg, base, off);
        return;
    }
    dv_x_mov(g, reg, base);
    dv_x_add(g, reg, off);
}

void dv_x_get(dv_x *g, int reg, int base, int64_t off)
{
    dv_x_emit_gm(g->code, DV_X_mov, reg, base, off);
}

void dv_x_put(dv_x *g, int reg, int base, int64_t off)
{
    dv_x_emit_gm(g->code, DV_X_mov_s, reg, base, off);
}

void dv_x_back(dv_x *g, dv_x_insn op, size_t to)
{
    enum { JUMP_BYTES = 6 };
    int64_t from = (int64_t)g->code->n + JUMP_BYTES;
    dv_x_emit(g->code, op, 0, 0, 0, dv_x_reg(0),
              (dv_x_more){.imm = (int64_t)to - from});
}

void dv_x_loop_end(dv_x *g, int reg, size_t to)
{
    dv_x_emit_gr(g->code, DV_X_dec, 0, reg);
    dv_x_back(g, DV_X_jnz, to);
}

size_t dv_x_jump(dv_x *g, dv_x_insn op)
{
    dv_x_emit(g->code, op, 0, 0, 0, dv_x_reg(0), none);
    return g->code->n;
}

void dv_x_patch(dv_code *code, size_t end, size_t to)
{
    uint32_t far = dv_code_little_endian((uint32_t)(to - end));
    if (!code->failed)
        memcpy(code->at + end - sizeof far, &far, sizeof far);
}

void dv_x_patch_jump(dv_x *g, size_t from)
{
    dv_x_patch(g->code, from, g->code->n);
}

void dv_x_prefetch(dv_x *g, dv_x_insn op, int base, int64_t off, int bytes)
{
    dv_x_run_m(g->code, op, 16, (bytes + 63) / 64, 0, 0, base, off, 64);
}

int dv_x_constant(dv_x *g, const void *data, int n)
{
    // Return an equal constant of the same alignment if there is one.
    for (int i = 0; i + n <= g->size; i += n)
        if (!memcmp(g->constants + i, data, (size_t)n))
            return i;
    int at = (g->size + n - 1) / n * n;
    if (at + n > (int)sizeof g->constants) {
        g->code->failed = 1;
        return 0;
    }
    memset(g->constants + g->size, 0, (size_t)(at - g->size));
    memcpy(g->constants + at, data, (size_t)n);
    g->size = at + n;
    return at;
}

void dv_x_load_constant(dv_x *g, int v, int vl, int to)
{
    dv_x_emit(g->code, DV_X_vmovups, vl, v, 0, dv_x_mem(DV_X_RIP, 0), none);
    dv_x_reloc_constant(g, to);
}

void dv_x_load_word(dv_x *g, int v, int vl, uint32_t word)
{
    uint32_t words[16];
    for (int i = 0; i < vl / 4; i++)
        words[i] = word;
    dv_x_load_constant(g, v, vl, dv_x_constant(g, words, vl));
}

void dv_x_reloc_constant(dv_x *g, int to)
{
    if (g->n_relocs == MAX_RELOCS) {
        g->code->failed = 1;
        return;
    }
    g->fixes[g->n_relocs].at = (uint32_t)g->code->n;
    g->fixes[g->n_relocs++].to = to;
}

// Appends the constants after the code and patches the displacements of all
// instructions that read them.
static void put_constants(dv_x *g)
{
    static const unsigned char pad[32];
    if (!g->size)
        return;
    dv_code_bytes(g->code, pad, (32 - g->code->n % 32) % 32);
    size_t start = g->code->n;
    dv_code_bytes(g->code, g->constants, (size_t)g->size);
    for (int i = 0; i < g->n_relocs; i++)
        dv_x_patch(g->code, g->fixes[i].at, start + (size_t)g->fixes[i].to);
}

void dv_x_prologue(dv_x *g, uint32_t saves)
{
    // The numbers of the callee-saved general registers except rsp: rbx, rbp,
    // r12 to r15.
    static const int mine[] = {3, 5, 12, 13, 14, 15};
    g->saved = 0;
    for (int i = 0; i < 6; i++)
        if (saves >> mine[i] & 1) {
            g->saved |= 1u << mine[i];
            dv_x_emit(g->code, DV_X_push, 0, mine[i], 0, dv_x_reg(0), none);
        }
}

void dv_x_epilogue(dv_x *g)
{
    for (int i = 15; i >= 0; i--)
        if (g->saved >> i & 1)
            dv_x_emit(g->code, DV_X_pop, 0, i, 0, dv_x_reg(0), none);
    dv_x_emit(g->code, DV_X_vzeroupper, 0, 0, 0, dv_x_reg(0), none);
    dv_x_emit(g->code, DV_X_ret, 0, 0, 0, dv_x_reg(0), none);
    put_constants(g);
}
