// Keeping pieces of code and copying them; kept.h has the idea.
#include "jit/x64/kept.h"

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
    dv_x_draft *d = g->draft;
    int64_t fixed = value - times * d->piece.strides[which];
    size_t at = g->code->n - g->draft_from;
    int i = first_note[which] + d->piece.n_notes[which]++;
    if (i == first_note[which + 1] || at > DV_X_PIECE_BYTES ||
        times != (int16_t)times || fixed != (int32_t)fixed ||
        value != (int32_t)value) {
        g->draft = NULL; // not kept
        return;
    }
    d->notes[i] = (dv_x_note){(int32_t)fixed, (uint16_t)at, (int16_t)times};
    d->sizes[i] = (uint8_t)(size_of(value, unit) | unit << 3);
}

// Where all numbers have four bytes and grow with their stride: the strides
// with which they have four bytes for sure. 0: it is not so.
static int find_range(dv_x_draft *d, int which)
{
    int from = first_note[which], to = from + d->piece.n_notes[which];
    int64_t least = INT64_MIN, most = INT64_MAX;
    for (int i = from; i < to; i++) {
        const dv_x_note *n = &d->notes[i];
        int size = d->sizes[i] & 7, unit = d->sizes[i] >> 3;
        if (size != 4 || n->times < 0)
            return 0;
        int64_t more = (INT64_C(128) << unit) - n->fixed;
        int64_t low = more > 0 ? (more + n->times - 1) / n->times : 0;
        int64_t high = (INT32_MAX - (int64_t)n->fixed) / n->times;
        least = least > low ? least : low;
        most = most < high ? most : high;
    }
    d->piece.least[which] = least;
    d->piece.most[which] = most;
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

static void set_long(const dv_x_note *notes, int n, unsigned char *code,
                     int64_t stride)
{
    for (const dv_x_note *at = notes, *end = at + n; at < end; at++)
        put_number(code + at->at, (uint32_t)at->fixed +
                                      (uint32_t)at->times * (uint32_t)stride);
}

// 0: some take another size.
static int set_any(const dv_x_note *notes, const uint8_t *sizes, int n,
                   unsigned char *code, int64_t stride)
{
    for (int i = 0; i < n; i++) {
        int64_t v = notes[i].fixed + notes[i].times * stride;
        int size = sizes[i] & 7, unit = sizes[i] >> 3;
        unsigned char *end = code + notes[i].at;
        if (size_of(v, unit) != size || v != (int32_t)v)
            return 0;
        if (size == 4)
            put_number(end, (uint32_t)v);
        else if (size)
            end[-1] = (unsigned char)((uint64_t)(v >> unit) & 255);
    }
    return 1;
}

// Numbers of other strides into code that was copied. 0: some do not fit.
static int set_numbers(const dv_x_piece *p, const dv_x_note *notes,
                       const uint8_t *sizes, unsigned char *code,
                       const int64_t *strides)
{
    int all_long = is_long(p, strides);
    for (int i = 0; i < DV_X_STRIDES; i++) {
        int n = p->n_notes[i];
        if (strides[i] != p->strides[i] && all_long)
            set_long(notes, n, code, strides[i]);
        else if (strides[i] != p->strides[i] &&
                 !set_any(notes, sizes, n, code, strides[i]))
            return 0;
        notes += n;
        sizes += n;
    }
    return 1;
}

// -- Pieces ------------------------------------------------------------------

static int all_notes(const dv_x_piece *p)
{
    int n = 0;
    for (int i = 0; i < DV_X_STRIDES; i++)
        n += p->n_notes[i];
    return n;
}

// Constants are found by place: the copy's may be elsewhere.
static void fix_again(dv_x *g, const dv_x_fix *fixes, int n, size_t from)
{
    for (int i = 0; i < n; i++)
        dv_x_fix_constant_at(g, from + fixes[i].at,
                             dv_x_constant(g, fixes[i].data, fixes[i].n),
                             fixes[i].n);
}

static int try_copy(dv_x *g, const dv_x_piece *p, const int64_t *strides)
{
    int n = all_notes(p);
    const dv_x_note *notes = (const dv_x_note *)(p + 1);
    const dv_x_fix *fixes = (const dv_x_fix *)(notes + n);
    const uint8_t *sizes = (const uint8_t *)(fixes + p->n_fixes);
    dv_code *code = g->code;
    size_t from = code->n;
    if (code->cap - from < p->bytes)
        return 0; // who writes it finds out
    memcpy(code->at + from, sizes + n, p->bytes);
    if (!set_numbers(p, notes, sizes, code->at + from, strides))
        return 0;
    code->n += p->bytes;
    fix_again(g, fixes, p->n_fixes, from);
    return 1;
}

int dv_x_piece_copy(dv_x *g, const dv_x_key *key, const int64_t *strides)
{
    dv_x_kept *k = g->code->keep;
    g->draft = NULL;
    if (!k)
        return 0;
    uint64_t mixed = mix(key);
    for (uint64_t i = 0; i < k->pieces && i < DV_X_PIECES; i++) {
        const dv_x_piece *p = (const dv_x_piece *)(k->ring + k->from[i]);
        if (k->mixed[i] == mixed && same(p->key.words, key->words, DV_X_KEY) &&
            try_copy(g, p, strides))
            return 1;
    }
    k->written++;
    g->draft = &k->draft;
    g->draft->piece.key = *key;
    memcpy(g->draft->piece.strides, strides, sizeof g->draft->piece.strides);
    memset(g->draft->piece.n_notes, 0, sizeof g->draft->piece.n_notes);
    g->draft_from = g->code->n;
    g->draft_fixes = g->n_fixes;
    return 0;
}

// Room for so many words, in place of what was there.
static uint64_t *make_room(dv_x_kept *k, uint64_t words, uint64_t mixed)
{
    if (k->top + words > DV_X_RING)
        k->top = 0;
    uint64_t from = k->top, to = from + words, at = k->pieces % DV_X_PIECES;
    for (uint64_t i = 0; i < k->pieces && i < DV_X_PIECES; i++)
        if (k->from[i] < to && k->to[i] > from)
            k->mixed[i] = 0;
    k->mixed[at] = mixed;
    k->from[at] = (uint32_t)from;
    k->to[at] = (uint32_t)to;
    k->pieces++;
    k->top = to;
    return k->ring + from;
}

static void put_fixes(const dv_x *g, dv_x_fix *out)
{
    for (int i = g->draft_fixes; i < g->n_fixes; i++, out++) {
        out->at = g->fixes[i].at - (uint32_t)g->draft_from;
        out->n = g->fixes[i].n;
        memcpy(out->data, g->constants + g->fixes[i].to, (size_t)out->n);
    }
}

void dv_x_piece_keep(dv_x *g)
{
    dv_x_draft *d = g->draft;
    size_t bytes = g->code->n - g->draft_from;
    int n_fixes = g->n_fixes - g->draft_fixes;
    g->draft = NULL;
    if (!d || g->code->failed || bytes > DV_X_PIECE_BYTES ||
        n_fixes > DV_X_PIECE_FIXES)
        return;
    dv_x_piece *p = &d->piece;
    p->bytes = (uint32_t)bytes;
    p->n_fixes = n_fixes;
    p->all_long = 1;
    for (int i = 0; i < DV_X_STRIDES; i++)
        p->all_long &= find_range(d, i);
    size_t n = (size_t)all_notes(p);
    size_t size = sizeof *p + n * (sizeof(dv_x_note) + 1) +
                  (size_t)n_fixes * sizeof(dv_x_fix) + bytes;
    p = memcpy(make_room(g->code->keep, (size + 7) / 8, mix(&d->piece.key)), p,
               sizeof *p);
    dv_x_note *notes = (dv_x_note *)(p + 1);
    dv_x_fix *fixes = (dv_x_fix *)(notes + n);
    uint8_t *sizes = (uint8_t *)(fixes + n_fixes);
    put_fixes(g, fixes);
    memcpy(sizes + n, g->code->at + g->draft_from, bytes);
    for (int i = 0; i < DV_X_STRIDES; i++) {
        size_t some = (size_t)p->n_notes[i];
        memcpy(notes, d->notes + first_note[i], some * sizeof *notes);
        memcpy(sizes, d->sizes + first_note[i], some);
        notes += some;
        sizes += some;
    }
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
