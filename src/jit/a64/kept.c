// The code of tiles, kept for kernels that come after.
//
// A tile that differs only in how far rows of V and of C are apart is the same
// but for some words: loads of V at offsets of so many rows, and additions to
// pointers. Which ones is found out when such a tile is wanted for the first
// time. All registers are those of one use within a tile (gen.h), so that a
// word tells what it is for:
//
//   ldr q, [V, #off]            off / stride rows further on
//   add V, V, #stride           a step, where V walks
//   add C, C, #stride           a row of C further on, or
//   add C, C, X_LDC             the same from a register
//   add V, V, #unroll * stride  a turn of the loop, in one word or two
#include "jit/a64/kloop.h"

// What is done to a word; below, so many strides are added to its offset.
enum { MOST_ROWS = 64, STEP_V, STEP_C, TURN_V, TURN_ODD, TOO_FAR };

static uint32_t word_at(const unsigned char *code, size_t i)
{
    uint32_t w;
    memcpy(&w, code + 4 * i, sizeof w);
    return dv_code_low_first(w);
}

static void put_at(unsigned char *code, size_t i, uint32_t w)
{
    w = dv_code_low_first(w);
    memcpy(code + 4 * i, &w, sizeof w);
}

// -- Finding the words -------------------------------------------------------

// The addition of a stride as a key has it; 0: there is none.
static uint32_t step_of(int rd, uint64_t stride, int reg)
{
    int ok = 1;
    if (stride == DV_KEY_WIDE)
        return dv_insn_word(DV_INSN_add_x, rd, rd, reg, 0, &ok);
    return stride ? dv_tile_step_word(rd, (int64_t)stride, reg) : 0;
}

// Is it a load of 16 bytes at a register and an offset?
static int is_load(uint32_t w, int base)
{
    int ok = 1;
    uint32_t bits = dv_insn_word(DV_INSN_ldr_q, 0, base, 0, 0, &ok);
    return (w & 0xffc003e0) == bits;
}

// Is it the addition of a number to a register?
static int is_add(uint32_t w, int reg)
{
    int ok = 1;
    uint32_t bits = dv_insn_word(DV_INSN_addi_x, reg, reg, 0, 0, &ok);
    return (w & 0xffbfffff & ~(0xfffu << 10)) == bits;
}

static int how_of(uint32_t w, const dv_tile_key *key, uint32_t step_v,
                  uint32_t step_c)
{
    int v = key->flat ? X_B : X_BRUN;
    if (w == step_c)
        return STEP_C;
    if (key->walks)
        return w == step_v ? STEP_V : 0;
    if (is_load(w, v) || (key->odd && is_load(w, X_ODD))) {
        uint64_t rows = (w >> 10 & 0xfff) * 16 / key->words[DV_KEY_V];
        return rows < MOST_ROWS ? (int)rows : TOO_FAR;
    }
    if (!key->flat && is_add(w, X_BRUN))
        return TURN_V;
    return key->odd && is_add(w, X_ODD) ? TURN_ODD : 0;
}

static int find_moves(dv_moves *m, const dv_tile_key *key,
                      const unsigned char *code, size_t bytes)
{
    uint32_t step_v = step_of(X_BRUN, key->words[DV_KEY_V], X_LDB);
    uint32_t step_c = step_of(X_CRUN, key->words[DV_KEY_C], X_LDC);
    int last = 0, n = 0;
    for (size_t i = 0; i < bytes / 4; i++) {
        int how = how_of(word_at(code, i), key, step_v, step_c);
        int again = how == last && (how == TURN_V || how == TURN_ODD);
        last = how;
        if (!how || again) // the second word of a turn
            continue;
        if (n == DV_MOST_MOVES || how == TOO_FAR)
            return DV_MOVES_TOO_MANY;
        m->at[n] = (uint16_t)i;
        m->how[n++] = (uint8_t)how;
    }
    return n;
}

// -- Changing them -----------------------------------------------------------

// Other strides than those of the key, in a copy of the code kept.
static void move(unsigned char *code, const unsigned char *kept,
                 const dv_moves *m, int n, const dv_tile_key *key,
                 const dv_kloop *l)
{
    const dv_prod *p = l->p;
    uint32_t step_v = dv_tile_step_word(X_BRUN, p->ld_v, X_LDB);
    uint32_t step_c = dv_tile_step_word(X_CRUN, p->ldc, X_LDC);
    int64_t turn = l->unroll * p->ld_v;
    uint32_t by = 0;
    if (!key->walks)
        by = (uint32_t)((p->ld_v - (int64_t)key->words[DV_KEY_V]) / 16) << 10;
    for (int i = 0; i < n; i++) {
        int how = m->how[i], at = m->at[i];
        if (how < MOST_ROWS) {
            put_at(code, (size_t)at,
                   word_at(kept, (size_t)at) + (uint32_t)how * by);
        } else if (how == STEP_V || how == STEP_C) {
            put_at(code, (size_t)at, how == STEP_V ? step_v : step_c);
        } else {
            int reg = how == TURN_V ? X_BRUN : X_ODD;
            dv_code add = {.at = code + 4 * (size_t)at, .cap = 64};
            dv_gen_add(&(dv_gen){.code = &add}, reg, reg, turn);
        }
    }
}

// Words of an addition to a pointer.
static int add_words(int64_t bytes)
{
    return dv_gen_fits_add(bytes) ? 1 : bytes < 4096 * 4096 ? 2 : 0;
}

// Does a turn of the loop take as many words?
static int same_turn(const dv_tile_key *key, const dv_kloop *l)
{
    if (key->walks || key->flat)
        return 1;
    int n = add_words(l->unroll * (int64_t)key->words[DV_KEY_V]);
    return n && n == add_words(l->unroll * l->p->ld_v);
}

// -- Entry -------------------------------------------------------------------

static int same_rest(const dv_tile_key *a, const dv_tile_key *b)
{
    uint64_t differ = 0;
    for (int i = DV_KEY_C + 1; i < DV_TILE_KEY; i++)
        differ |= a->words[i] ^ b->words[i];
    return !differ;
}

// One that is like it, but for strides.
static int copy_moved(const dv_gen *g, const dv_kloop *l, dv_kept *k, int i)
{
    dv_code *code = g->code;
    dv_moves *m = &k->tile_moves[i];
    const dv_tile_key *key = &k->tile_keys[i];
    size_t at = code->n;
    int *n = &k->tile_n_moves[i];
    if (*n == DV_MOVES_UNKNOWN)
        *n = find_moves(m, key, k->tile_code[i], k->tile_bytes[i]);
    if (*n < 0)
        return 0;
    dv_code_bytes(code, k->tile_code[i], k->tile_bytes[i]);
    if (!code->failed)
        move(code->at + at, k->tile_code[i], m, *n, key, l);
    return 1;
}

int dv_tile_copy(const dv_gen *g, const dv_kloop *l, const dv_tile_key *key)
{
    dv_kept *k = g->code->keep;
    int like = -1;
    for (int i = 0; k && (uint64_t)i < k->tiles && i < DV_KEPT_TILES; i++) {
        const dv_tile_key *x = &k->tile_keys[i];
        if (k->tile_mixed[i] != key->mixed || !same_rest(x, key))
            continue;
        if (x->words[DV_KEY_V] == key->words[DV_KEY_V] &&
            x->words[DV_KEY_C] == key->words[DV_KEY_C]) {
            dv_code_bytes(g->code, k->tile_code[i], k->tile_bytes[i]);
            return 1;
        }
        if (key->moves && same_turn(x, l))
            like = i;
    }
    return like >= 0 && copy_moved(g, l, k, like);
}

void dv_tile_keep(dv_code *code, const dv_tile_key *key, size_t from)
{
    dv_kept *k = code->keep;
    if (!k || code->failed || code->n - from > DV_TILE_BYTES)
        return;
    uint64_t i = k->tiles++ % DV_KEPT_TILES;
    k->tile_keys[i] = *key;
    k->tile_mixed[i] = key->mixed;
    k->tile_bytes[i] = (uint32_t)(code->n - from);
    k->tile_n_moves[i] = DV_MOVES_UNKNOWN;
    memcpy(k->tile_code[i], code->at + from, code->n - from);
}
