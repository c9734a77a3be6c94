// Keeping pieces of code and copying them; kept.h has the idea.
#include "jit/x86_64/kept.h"

static uint64_t mix(const dv_x_key *key)
{
    uint64_t h = 1;
    for (int i = 0; i < DV_X_KEY; i++)
        h = (h ^ key->words[i] ^ key->words[i] >> 29) * 0x9e3779b97f4a7c15u;
    return h | 1; // not 0
}

static int same(const uint64_t *a, const uint64_t *b, int n)
{
    uint64_t differ = 0;
    for (int i = 0; i < n; i++)
        differ |= a[i] ^ b[i];
    return !differ;
}

// -- Notes -------------------------------------------------------------------

static inline int size_of(int64_t value, int unit)
{
    int64_t far = value >> unit;
    int small = far == (int8_t)far && far * (INT64_C(1) << unit) == value;
    return value == 0 ? 0 : small ? 1 : 4;
}

static const int first_note[DV_X_STRIDES + 1] = {
    DV_X_NOTES_S,    DV_X_NOTES_V,        DV_X_NOTES_C,
    DV_X_NOTES_HOPS, DV_X_NOTES_HOPS + 1, DV_X_NOTES};

void dv_x_note_put(dv_x *g, int which, int64_t times, int64_t value, int unit)
{
    dv_x_piece *p = g->piece;
    int64_t fixed = value - times * p->strides[which];
    size_t at = g->code->n - g->piece_from;
    int i = first_note[which] + p->n_notes[which]++;
    if (i == first_note[which + 1] || at > DV_X_PIECE_BYTES ||
        times != (int16_t)times || fixed != (int32_t)fixed ||
        value != (int32_t)value) {
        g->piece = NULL; // not kept
        return;
    }
    p->notes[i] = (dv_x_note){(int32_t)fixed, (uint16_t)at, (int16_t)times};
    p->sizes[i] = (uint8_t)(size_of(value, unit) | unit << 3);
}

// Where all numbers have four bytes and grow with their stride: the strides
// with which they have four bytes for sure. 0: it is not so.
static int find_range(dv_x_piece *p, int which)
{
    int from = first_note[which], to = from + p->n_notes[which];
    int64_t least = INT64_MIN, most = INT64_MAX;
    for (int i = from; i < to; i++) {
        const dv_x_note *n = &p->notes[i];
        int size = p->sizes[i] & 7, unit = p->sizes[i] >> 3;
        if (size != 4 || n->times < 0)
            return 0;
        int64_t more = (INT64_C(128) << unit) - n->fixed;
        int64_t low = more > 0 ? (more + n->times - 1) / n->times : 0;
        int64_t high = (INT32_MAX - (int64_t)n->fixed) / n->times;
        least = least > low ? least : low;
        most = most < high ? most : high;
    }
    p->least[which] = least;
    p->most[which] = most;
    return 1;
}

static int is_long(const dv_x_piece *p, const int64_t *strides)
{
    int in = p->all_long;
    for (int i = 0; i < DV_X_STRIDES; i++)
        in &= strides[i] >= p->least[i] && strides[i] <= p->most[i];
    return in;
}

static inline void put_number(unsigned char *end, uint32_t v)
{
    v = dv_code_low_first(v);
    memcpy(end - 4, &v, sizeof v);
}

static void set_long(const dv_x_piece *p, int which, unsigned char *code,
                     int64_t stride)
{
    const dv_x_note *n = p->notes + first_note[which];
    for (const dv_x_note *end = n + p->n_notes[which]; n < end; n++)
        put_number(code + n->at,
                   (uint32_t)n->fixed + (uint32_t)n->times * (uint32_t)stride);
}

// 0: some take another size.
static int set_any(const dv_x_piece *p, int which, unsigned char *code,
                   int64_t stride)
{
    int from = first_note[which], to = from + p->n_notes[which];
    for (int i = from; i < to; i++) {
        const dv_x_note *n = &p->notes[i];
        int64_t v = n->fixed + n->times * stride;
        int size = p->sizes[i] & 7, unit = p->sizes[i] >> 3;
        if (size_of(v, unit) != size || v != (int32_t)v)
            return 0;
        if (size == 4)
            put_number(code + n->at, (uint32_t)v);
        else if (size)
            code[n->at - 1] = (unsigned char)((uint64_t)(v >> unit) & 255);
    }
    return 1;
}

// Numbers of other strides into code that was copied. 0: some do not fit.
static int set_numbers(const dv_x_piece *p, unsigned char *code,
                       const int64_t *strides)
{
    int all_long = is_long(p, strides);
    for (int i = 0; i < DV_X_STRIDES; i++) {
        if (strides[i] == p->strides[i])
            continue;
        if (all_long)
            set_long(p, i, code, strides[i]);
        else if (!set_any(p, i, code, strides[i]))
            return 0;
    }
    return 1;
}

// -- Pieces ------------------------------------------------------------------

// Constants are found by place: the copy's may be elsewhere.
static void fix_again(dv_x *g, const dv_x_piece *p, size_t from)
{
    for (int i = 0; i < p->n_fixes; i++) {
        int n = p->fixes[i].n;
        dv_x_fix_constant_at(g, from + p->fixes[i].at,
                             dv_x_constant(g, p->fixes[i].data, n), n);
    }
}

static int try_copy(dv_x *g, const dv_x_piece *p, const int64_t *strides)
{
    dv_code *code = g->code;
    size_t from = code->n;
    if (code->cap - from < p->bytes)
        return 0; // who writes it finds out
    memcpy(code->at + from, p->code, p->bytes);
    if (!set_numbers(p, code->at + from, strides))
        return 0;
    code->n += p->bytes;
    fix_again(g, p, from);
    return 1;
}

int dv_x_piece_copy(dv_x *g, const dv_x_key *key, const int64_t *strides)
{
    dv_x_kept *k = g->code->keep;
    g->piece = NULL;
    if (!k)
        return 0;
    uint64_t mixed = mix(key);
    for (int i = 0; i < DV_X_PIECES; i++)
        if (k->mixed[i] == mixed &&
            same(k->piece[i].key.words, key->words, DV_X_KEY) &&
            try_copy(g, &k->piece[i], strides))
            return 1;
    int at = (int)(k->pieces++ % DV_X_PIECES);
    k->mixed[at] = 0; // until it is whole
    g->piece = &k->piece[at];
    g->piece->key = *key;
    memcpy(g->piece->strides, strides, sizeof g->piece->strides);
    memset(g->piece->n_notes, 0, sizeof g->piece->n_notes);
    g->piece_from = g->code->n;
    g->piece_fixes = g->n_fixes;
    return 0;
}

void dv_x_piece_keep(dv_x *g)
{
    dv_x_kept *k = g->code->keep;
    dv_x_piece *p = g->piece;
    size_t bytes = g->code->n - g->piece_from;
    g->piece = NULL;
    if (!p || g->code->failed || bytes > DV_X_PIECE_BYTES ||
        g->n_fixes - g->piece_fixes > DV_X_PIECE_FIXES)
        return;
    p->bytes = (uint32_t)bytes;
    p->all_long = 1;
    for (int i = 0; i < DV_X_STRIDES; i++)
        p->all_long &= find_range(p, i);
    p->n_fixes = g->n_fixes - g->piece_fixes;
    for (int i = 0; i < p->n_fixes; i++) {
        int from = g->piece_fixes + i, n = g->fixes[from].n;
        p->fixes[i].at = g->fixes[from].at - (uint32_t)g->piece_from;
        p->fixes[i].n = n;
        memcpy(p->fixes[i].data, g->constants + g->fixes[from].to, (size_t)n);
    }
    memcpy(p->code, g->code->at + g->piece_from, bytes);
    k->mixed[p - k->piece] = mix(&p->key);
}

// -- Cuts --------------------------------------------------------------------

int dv_x_cuts_find(const dv_code *code, const uint64_t words[3], dv_cuts *out)
{
    const dv_x_kept *k = code->keep;
    for (uint64_t i = 0; k && i < k->cuts && i < DV_X_CUTS; i++)
        if (same(k->cut[i].words, words, 3)) {
            *out = k->cut[i].cuts;
            return 1;
        }
    return 0;
}

void dv_x_cuts_keep(dv_code *code, const uint64_t words[3], const dv_cuts *c)
{
    dv_x_kept *k = code->keep;
    if (!k)
        return;
    uint64_t at = k->cuts++ % DV_X_CUTS;
    memcpy(k->cut[at].words, words, sizeof k->cut[at].words);
    k->cut[at].cuts = *c;
}
