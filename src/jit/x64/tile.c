// Generates the loop over k of a register tile.
#include "jit/x64/tile.h"

enum { STEPS = 4 };     // steps of k in one iteration of the loop
enum { GRANULE = 16 };  // bytes of a row that are contiguous in a packed panel
enum { S_AHEAD = 768 }; // prefetch distance in a packed panel of A, in bytes
// Prefetch distance in steps of k, for rows of B or a transposed A.
enum { V_AHEAD = 8 };
enum { ROW_AHEAD = 256 }; // prefetch distance within rows of k, in bytes
enum { X_C_PREFETCH = X_BATCH };
enum { LINE_BYTES = 64 };

// Returns the byte offset from the running pointer X_AT to the element of the
// broadcast operand S in row i at step `step` of k.
static int64_t s_off(const dv_x *g, const dv_prod *p, const dv_prod_tile *t,
                     int i, int64_t step)
{
    // Log2 of the number of elements of a row that are contiguous in a packed
    // panel, and that number.
    int by = g->es == 8 ? 1 : 2, per = 1 << by;
    if (!p->lane_k)
        return (p->far_s ? 0 : step * p->ld_s) + i * g->es;
    if (!p->panel)
        return i * p->ld_s + step * g->es;
    return ((step >> by) * t->rows + i) * GRANULE + (step & (per - 1)) * g->es;
}

// Returns the bytes to advance the running pointer X_AT (broadcast operand S)
// by for `steps` steps of k.
static int64_t s_step(const dv_x *g, const dv_prod *p, const dv_prod_tile *t,
                      int64_t steps)
{
    if (!p->lane_k)
        return steps * p->ld_s;
    return p->panel ? steps * g->es * t->rows : steps * g->es;
}

// Returns the byte offset from X_SPACK at which step `step` of k of the packed
// broadcast operand S is stored.
static int64_t pack_off(const dv_x *g, const dv_prod *p, const dv_prod_tile *t,
                        int64_t step)
{
    return p->lane_k ? step / (GRANULE / g->es) * t->rows * GRANULE
                     : step * t->rows * g->es;
}

static int first_free(const dv_prod_tile *t)
{
    return t->sets * t->rows * t->nv;
}

static int last_free(const dv_x *g, const dv_prod_tile *t)
{
    return g->n_regs - (!g->masks && dv_x_part(g, t));
}

int dv_x_tile_fits(const dv_x *g, const dv_prod *p, const dv_prod_tile *t)
{
    enum { FAR = 1 << 30 };
    // Registers needed for a row of the operand V, which is read as vectors,
    // and a scalar of the other operand.
    int need = t->nv + 1 > 3 ? t->nv + 1 : 3;
    int64_t rows = t->rows - 1;
    if (first_free(t) + need > last_free(g, t))
        return 0;
    if (p->c_transposed && t->rows > g->lanes)
        return 0;
    return t->rows == 1 || ((!p->lane_k || p->panel || rows * p->ld_s < FAR) &&
                            (p->c_transposed || rows * p->ldc < FAR));
}

// Packs a piece of the broadcast operand S (usually A) into the panel at
// X_SPACK: `n` elements of k of every row or, if S is stored as rows of m, all
// rows at one step of k. Missing elements of k are filled with zeros.
static void pack_s(dv_x *g, const dv_prod *p, const dv_prod_tile *t,
                   int64_t step, int n, int v)
{
    int64_t to = pack_off(g, p, t, step);
    int per = GRANULE / g->es, bytes = n * g->es;
    if (!p->lane_k) {
        dv_x_copy(g, v, X_AT, s_off(g, p, t, 0, step), X_SPACK, to,
                  t->rows * g->es);
        return;
    }
    for (int i = 0; i < t->rows; i++) {
        int64_t from = s_off(g, p, t, i, step);
        // If fewer than 16 bytes are left, they are loaded with instructions
        // that clear the remaining lanes.
        if (n < per) {
            int first = bytes >= 8 ? 8 : 4;
            dv_x_emit_m(g->code, first == 8 ? DV_X_vmovsd : DV_X_vmovss, 16, v,
                        0, X_AT, from);
            dv_x_emit_m(g->code, DV_X_vmovups_s, 16, v, 0, X_SPACK,
                        to + i * GRANULE);
            dv_x_copy(g, v, X_AT, from + first, X_SPACK,
                      to + i * GRANULE + first, bytes - first);
        } else {
            dv_x_copy(g, v, X_AT, from, X_SPACK, to + i * GRANULE, GRANULE);
        }
    }
}

static void load_v(dv_x *g, const dv_prod *p, const dv_prod_tile *t,
                   int64_t step, int v)
{
    int64_t row = p->far_v ? 0 : step * p->ld_v;
    int whole = p->pack_v ? 0 : t->nv - (dv_x_part(g, t) != 0);
    dv_x_loads(g, whole, v, X_BT, row);
    for (int j = whole; j < t->nv; j++) {
        int64_t off = row + (int64_t)j * g->vb;
        dv_x_load(g, v + j, X_BT, off, dv_x_is_partial(g, t, j));
        if (p->pack_v)
            dv_x_store(g, v + j, X_VPACK, step * p->pack_v + (int64_t)j * g->vb,
                       0);
    }
}

// Should rows of the vector operand V (usually B) be prefetched? Rows that are
// far apart are not detected as a stream by the hardware prefetcher, and a
// panel larger than L1 is read from L2 every time.
static int should_prefetch_v(const dv_x *g, const dv_prod *p)
{
    int apart = p->pack_v || (p->ld_v >= 1024 && !p->panel);
    int large = p->panel && p->k * p->ld_v > g->l1_bytes * 3 / 4;
    return (apart || large) && !p->far_v;
}

static void ask_for_v(dv_x *g, const dv_prod *p, const dv_prod_tile *t,
                      int step)
{
    int64_t row = (step + V_AHEAD) * p->ld_v;
    if (!should_prefetch_v(g, p))
        return;
    dv_x_prefetch(g, DV_X_prefetch0, X_BT, row, t->nv * g->vb);
}

// Prefetches the broadcast operand S (usually A). The hardware detects a panel
// of S as a stream too late, and rows of k that are being packed are more
// streams than it can follow.
static void prefetch_s_ahead(dv_x *g, const dv_prod *p, const dv_prod_tile *t,
                             int step)
{
    int64_t row = s_step(g, p, t, 1);
    if (p->panel && step * row / 64 != (step + 1) * row / 64)
        dv_x_prefetch(g, DV_X_prefetch0, X_AT, S_AHEAD + step * row / 64 * 64,
                      1);
    if (p->pack_s && p->lane_k && step == 0)
        for (int i = 0; i < t->rows; i++)
            dv_x_prefetch(g, DV_X_prefetch0, X_AT, i * p->ld_s + ROW_AHEAD, 1);
    if (p->pack_s && !p->lane_k && !p->far_s)
        dv_x_prefetch(g, DV_X_prefetch0, X_AT,
                      (int64_t)(step + V_AHEAD) * p->ld_s, 1);
}

// Returns the rows (fewer than 32), as a bit mask, that broadcast their scalar
// from memory in every multiply-add, instead of once into a register. This
// needs AVX-512. Tiles one vector wide do so in all rows, other tiles in every
// second row: it takes fewer instructions but more loads, and when another
// hardware thread shares the core, instruction slots are scarcer than loads.
static uint32_t rows_from_memory(const dv_x *g, const dv_prod_tile *t)
{
    int rows = t->rows / 2, loads = t->rows - rows + (rows + 1) * t->nv;
    if (!g->masks || g->ints)
        return 0;
    return t->nv == 1 ? UINT32_MAX : loads < t->rows * t->nv ? 0xaaaaaaaa : 0;
}

// Emits the multiply-adds of one step of k.
static void step(dv_x *g, const dv_prod *p, const dv_prod_tile *t, int at)
{
    int set = at & (t->sets - 1), v = first_free(t), s = v + t->nv;
    int n_s = last_free(g, t) - s, to = s - 1;
    uint32_t from_memory = rows_from_memory(g, t);
    n_s = n_s > 4 ? 4 : n_s;
    dv_x_insn splat = DV_XF(g, vsplat), fma = DV_XF(g, vfma);
    load_v(g, p, t, at, v);
    for (int i = 0; i < t->rows; i++) {
        int64_t off = s_off(g, p, t, i, at);
        int acc = dv_x_acc(t, set, i, 0);
        if (from_memory >> i & 1) {
            dv_x_run_m(g->code, fma, DV_X_SPLAT, t->nv, acc, v, X_AT, off, 0);
            continue;
        }
        for (int j = 0; j < t->nv; j++) {
            // An i32 product overwrites the register of the scalar, so the
            // scalar is loaded for every product.
            if (j == 0 || (g->ints && !g->dot)) {
                to = to + 1 < s + n_s ? to + 1 : s;
                dv_x_emit_m(g->code, splat, g->vb, to, 0, X_AT, off);
            }
            if (!g->ints) {
                dv_x_run_3(g->code, fma, g->vb, t->nv, acc, v, to, 0);
                break;
            }
            dv_x_mul_add(g, acc + j, v + j, to, to);
        }
    }
}

// Emits steps 0 to n - 1 of a loop iteration or of the remainder of k. With
// `ahead`, operands are prefetched.
static void steps(dv_x *g, const dv_prod *p, const dv_prod_tile *t, int n,
                  int ahead)
{
    int per = p->lane_k ? GRANULE / g->es : 1;
    for (int i = 0; i < n; i++) {
        if (p->pack_s && i % per == 0)
            pack_s(g, p, t, i, n - i < per ? n - i : per,
                   first_free(t) + t->nv);
        if (ahead) {
            ask_for_v(g, p, t, i);
            prefetch_s_ahead(g, p, t, i);
        }
        step(g, p, t, i);
        if (p->far_s)
            dv_x_add(g, X_AT, p->ld_s);
        if (p->far_v)
            dv_x_add(g, X_BT, p->ld_v);
    }
}

static void move_on(dv_x *g, const dv_prod *p, const dv_prod_tile *t, int n)
{
    if (!p->far_s)
        dv_x_add(g, X_AT, s_step(g, p, t, n));
    if (!p->far_v)
        dv_x_add(g, X_BT, n * p->ld_v);
    if (p->pack_s)
        dv_x_add(g, X_SPACK, pack_off(g, p, t, n));
    if (p->pack_v)
        dv_x_add(g, X_VPACK, n * p->pack_v);
}

// Returns the bytes that a remainder of k takes in a packed panel, where every
// row is padded to whole granules of 16 bytes.
static int64_t packed_remainder_bytes(const dv_x *g, const dv_prod *p,
                                      const dv_prod_tile *t, int rest)
{
    int per = GRANULE / g->es;
    return pack_off(g, p, t, p->lane_k ? (rest + per - 1) / per * per : rest);
}

// Should C be prefetched late? A long sum prefetches one row of C in each of
// its last iterations: this tile's row into L1, the next tile's into L2. All
// rows at once would delay the loads of operands, and rows prefetched at the
// start would be evicted from L1 before the end.
static int prefetches_c_late(const dv_prod *p, const dv_prod_tile *t)
{
    return !p->c_transposed && !p->stream && p->batch == 1 &&
           p->k >= STEPS * (2 * t->rows + 8);
}

static void ask_for_row_of_c(dv_x *g, const dv_prod *p, const dv_prod_tile *t)
{
    int bytes = t->cols * g->es;
    dv_x_prefetch(g, DV_X_prefetchw, X_C_PREFETCH, 0, bytes);
    dv_x_prefetch(g, DV_X_prefetch1, X_C_PREFETCH, t->rows * p->ldc, bytes);
    dv_x_add(g, X_C_PREFETCH, p->ldc);
}

// Prefetches for the next kernel are spread over the iterations of the loop
// over k: many at once would occupy all line fill buffers, and loads that miss
// L1 would wait for them. free_turns returns the number of iterations that do
// not prefetch C.
static int free_turns(const dv_prod *p, const dv_prod_tile *t)
{
    return p->k / STEPS - (prefetches_c_late(p, t) ? t->rows : 0);
}

// Returns how many cache lines each of these iterations prefetches, so that
// together they prefetch at least `lines` of them.
static int lines_of_turn(const dv_prod *p, const dv_prod_tile *t, int lines)
{
    int turns = free_turns(p, t);
    return (lines + turns - 1) / turns;
}

int dv_x_tile_spreads(const dv_prod *p, const dv_prod_tile *t, int lines)
{
    enum { MOST = 8 };
    return p->batch == 1 && free_turns(p, t) > 0 &&
           lines_of_turn(p, t, lines) <= MOST;
}

static void loop_k(dv_x *g, const dv_prod *p, const dv_prod_tile *t, int turns,
                   int late)
{
    int goes_on = p->k != STEPS || p->batch > 1 || p->pack_s || p->pack_v;
    int lines = p->next_lines && !late
                    ? lines_of_turn(p, t, p->next_lines) * LINE_BYTES
                    : 0;
    DV_REPEAT(X_K, turns)
    {
        if (late)
            ask_for_row_of_c(g, p, t);
        if (lines) {
            dv_x_prefetch(g, DV_X_prefetch1, X_NEXT, 0, lines);
            dv_x_add(g, X_NEXT, lines);
        }
        steps(g, p, t, STEPS, 1);
        if (goes_on)
            move_on(g, p, t, STEPS);
    }
}

// hop_s and hop_v return the bytes from the end of one product of a batch to
// the start of the next one, for the broadcast operand S and the vector operand
// V.
static int64_t hop_s(const dv_x *g, const dv_prod *p, const dv_prod_tile *t)
{
    int64_t done = p->k / STEPS * STEPS;
    return p->stride_s - s_step(g, p, t, p->far_s ? p->k : done);
}

static int64_t hop_v(const dv_prod *p)
{
    int64_t done = p->k / STEPS * STEPS;
    return p->stride_v - (p->far_v ? p->k : done) * p->ld_v;
}

static void along_k(dv_x *g, const dv_prod *p, const dv_prod_tile *t)
{
    int n = STEPS, turns = p->k / n, rest = p->k % n;
    int late = prefetches_c_late(p, t) ? t->rows : 0;
    loop_k(g, p, t, turns - late, 0);
    if (late) {
        dv_x_mov(g, X_C_PREFETCH, X_C);
        loop_k(g, p, t, late, 1);
    }
    steps(g, p, t, rest, 0);
    // If the broadcast operand S is packed and k has a remainder, advance over
    // it to the panel of the next tile.
    if (p->pack_s && rest)
        dv_x_add(g, X_SPACK, packed_remainder_bytes(g, p, t, rest));
    if (p->pack_v)
        dv_x_add(g, X_VPACK, rest * p->pack_v);
    if (p->batch > 1) {
        dv_x_add(g, X_AT, hop_s(g, p, t));
        dv_x_add(g, X_BT, hop_v(p));
    }
}

// Prefetches the cache lines of C, which are read and written at the end of the
// tile.
static void prefetch_c_early(dv_x *g, const dv_prod *p, const dv_prod_tile *t)
{
    // Most bytes of a row of C to prefetch; a short sum leaves no time for
    // more.
    enum { MOST = 4096 };
    if (p->c_transposed || p->stream || (int64_t)p->k * p->batch < 32 ||
        prefetches_c_late(p, t))
        return;
    int bytes = t->cols * g->es, first = bytes < MOST ? bytes : MOST;
    for (int i = 0; i < t->rows; i++) {
        dv_x_prefetch(g, DV_X_prefetchw, X_C, i * p->ldc, first);
        dv_x_prefetch(g, DV_X_prefetchw, X_C, i * p->ldc + bytes - 1, 1);
    }
}

static void add_sets(dv_x *g, const dv_prod_tile *t)
{
    int n = t->rows * t->nv;
    for (int half = t->sets / 2; half > 0; half /= 2)
        dv_x_run_3(g->code, DV_XI(g, vadd), g->vb, half * n, 0, 0, half * n, 1);
}

// Initialises the accumulators to minus the correction terms after packed B,
// which cancel the excess of products with A + 128 (pairs.c).
static void init_with_correction(dv_x *g, const dv_prod *p,
                                 const dv_prod_tile *t)
{
    int zero = first_free(t);
    dv_x_zero(g, zero);
    for (int j = 0; j < t->nv; j++) {
        int64_t off = p->k * p->ld_v + (int64_t)j * g->vb;
        dv_x_vvm(g, DV_X_vsubi32, j, zero, X_B, off);
        for (int i = 1; i < t->rows; i++)
            dv_x_vvv(g, DV_X_vmovups, dv_x_acc(t, 0, i, j), 0, j);
    }
}

void dv_x_tile_emit(dv_x *g, const dv_prod *p, const dv_prod_tile *t)
{
    if (dv_x_part(g, t))
        dv_x_set_tail_mask(g, dv_x_part(g, t));
    prefetch_c_early(g, p, t);
    if (g->fix)
        init_with_correction(g, p, t);
    else
        dv_x_zeros(g, first_free(t));
    dv_x_mov(g, X_AT, X_A);
    dv_x_mov(g, X_BT, X_B);
    DV_REPEAT(X_BATCH, p->batch)
    along_k(g, p, t);
    add_sets(g, t);
    dv_x_tile_store(g, p, t, t->rows * t->nv);
}
