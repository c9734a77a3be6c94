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

void dv_x_note_put(dv_x *g, int which, int64_t times, int64_t value, int unit)
{
    dv_x_piece *p = g->piece;
    int64_t fixed = value - times * g->strides[which];
    size_t at = g->code->n - g->piece_from;
    if (p->n_notes == DV_X_NOTES || at > DV_X_PIECE_BYTES ||
        times != (int16_t)times || fixed != (int32_t)fixed ||
        value != (int32_t)value) {
        g->piece = NULL; // not kept
        return;
    }
    p->notes[p->n_notes++] = (dv_x_note){.fixed = (int32_t)fixed,
                                         .at = (uint16_t)at,
                                         .times = (int16_t)times,
                                         .which = (uint8_t)which,
                                         .unit = (uint8_t)unit,
                                         .size = (uint8_t)size_of(value, unit)};
}

// Where all numbers have four bytes and grow with their strides: strides with
// which they have four bytes for sure.
static void find_range(dv_x_piece *p)
{
    p->all_long = 1;
    for (int i = 0; i < DV_X_STRIDES; i++) {
        p->least[i] = INT64_MIN;
        p->most[i] = INT64_MAX;
    }
    for (int i = 0; i < p->n_notes; i++) {
        const dv_x_note *n = &p->notes[i];
        if (n->size != 4 || n->times < 0) {
            p->all_long = 0;
            return;
        }
        int64_t more = (INT64_C(128) << n->unit) - n->fixed;
        int64_t least = more > 0 ? (more + n->times - 1) / n->times : 0;
        int64_t most = (INT32_MAX - (int64_t)n->fixed) / n->times;
        if (p->least[n->which] < least)
            p->least[n->which] = least;
        if (p->most[n->which] > most)
            p->most[n->which] = most;
    }
}

static int is_long(const dv_x_piece *p, const int64_t *strides)
{
    int in = p->all_long;
    for (int i = 0; i < DV_X_STRIDES; i++)
        in &= strides[i] >= p->least[i] && strides[i] <= p->most[i];
    return in;
}

static void set_long(const dv_x_piece *p, unsigned char *code,
                     const int64_t *strides)
{
    for (int i = 0; i < p->n_notes; i++) {
        const dv_x_note *n = &p->notes[i];
        int64_t v = n->fixed + n->times * strides[n->which];
        uint32_t word = dv_code_low_first((uint32_t)v);
        memcpy(code + n->at - 4, &word, sizeof word);
    }
}

// Numbers of other strides into code that was copied. 0: some do not fit.
static int set_numbers(const dv_x_piece *p, unsigned char *code,
                       const int64_t *strides)
{
    if (is_long(p, strides)) {
        set_long(p, code, strides);
        return 1;
    }
    for (int i = 0; i < p->n_notes; i++) {
        const dv_x_note *n = &p->notes[i];
        int64_t v = n->fixed + n->times * strides[n->which];
        unsigned char *end = code + n->at;
        if (size_of(v, n->unit) != n->size || v != (int32_t)v)
            return 0;
        if (n->size == 4) {
            uint32_t word = dv_code_low_first((uint32_t)v);
            memcpy(end - 4, &word, sizeof word);
        } else if (n->size) {
            end[-1] = (unsigned char)((uint64_t)(v >> n->unit) & 255);
        }
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
    g->piece->n_notes = 0;
    g->strides = strides;
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
    find_range(p);
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
