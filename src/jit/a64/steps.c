// Writes the steps of a loop over k: the instructions of the loop's pattern
// (pattern.c), with the offsets of the loads filled in.
//
// The word of a load depends on its number within its group, its register, and
// an offset that grows by the same amount from group to group. So tables for
// one group are made first, and a word is the sum of table entries.
#include "jit/a64/kloop.h"
#include <limits.h>

// The functions below emit one load each, for loads whose instruction words are
// not in the tables (dv_loads).

// Prefetches a later row of the vector operand V while V is packed. Unpacked
// rows of V are far apart, so the hardware prefetcher does not detect a stream.
static void prefetch_v(const dv_kloop *l, dv_gen *g)
{
    for (int off = 0; off < l->t->cols * g->es; off += 64)
        DV_E(prfm, LOAD_L1, X_SOON, off, 0);
    dv_tile_step(g, X_SOON, l->p->ld_v, X_LDB);
}

// Returns whether a step of k belongs to the next product of the batch, because
// an iteration of the loop is a whole product.
static int in_next(const dv_kloop *l, int step)
{
    return l->flows && step >= l->base + l->unroll;
}

static void load_v(const dv_kloop *l, dv_gen *g, int v, int step, int j)
{
    const dv_prod_tile *t = l->t;
    int bytes = dv_tile_bytes(g, t), odd = l->odd && j == t->nv - 1;
    int64_t at = dv_tile_off(g, t, j), off = odd ? 0 : at;
    if (!l->walk_v)
        off += (step - l->base) * l->p->ld_v;
    if (in_next(l, step))
        off += l->hop_v;
    dv_gen_load(g, v, odd ? X_ODD : l->flat ? X_B : X_BRUN, off, bytes);
    if (l->p->pack_v)
        dv_gen_store(g, v, X_VPACK, at + (step - l->base) * l->p->pack_v,
                     bytes);
    if (l->walk_v && j == t->nv - 1)
        dv_tile_step(g, X_BRUN, l->p->ld_v, X_LDB);
    if (l->p->pack_v && j == t->nv - 1)
        prefetch_v(l, g);
}

// Stores two adjacent rows of the scalar operand S into its packed panel with
// one instruction, when the second row has been loaded. A last row without a
// partner is stored alone.
static void pack_row(const dv_kloop *l, dv_gen *g, int v, int group, int row,
                     int64_t to)
{
    // Offsets of FAR bytes and more do not fit a store of two registers.
    enum { FAR = 1024 };
    int two = row & 1, last = row == l->t->rows - 1;
    int before = (group * l->s.per + row - two) % l->s.size;
    int reg = dv_gen_reg(l->s.first + before);
    if (two && to < FAR) {
        DV_E(stp_q, reg, v, X_SPACK, to - 16);
        return;
    }
    if (two)
        dv_gen_store(g, reg, X_SPACK, to - 16, 16);
    if (two || last)
        dv_gen_store(g, v, X_SPACK, to, 16);
}

// Loads one vector of the scalar operand S if its lanes are k: the elements of
// one row for `lanes` steps.
static void load_s_k(const dv_kloop *l, dv_gen *g, int v, int group, int row)
{
    int lanes = g->lanes, first = group * lanes, bytes = 16;
    int64_t q = group - l->base / lanes, packed = (q * l->t->rows + row) * 16;
    if (l->p->panel) {
        dv_gen_load(g, v, X_ROW, packed, 16);
        return;
    }
    // If the last vector of a row has fewer than `lanes` elements, it overlaps
    // the vector before it, or is loaded as a partial vector.
    if (first + lanes > l->steps) {
        if (l->steps >= lanes && !l->p->pack_s)
            first = l->steps - lanes;
        else
            bytes = (l->steps - first) * g->es;
    }
    int64_t off = (int64_t)(first - l->base) * g->es;
    if (in_next(l, first))
        off += l->hop_s;
    if (l->flat)
        dv_gen_load(g, v, X_A, off + row * l->p->ld_s, bytes);
    else
        dv_gen_load(g, v, X_ROW + row, off, bytes);
    if (l->p->pack_s)
        pack_row(l, g, v, group, row, packed);
}

// Loads one vector of the scalar operand S if its lanes are rows: the elements
// of `lanes` rows for one step.
static void load_s_m(const dv_kloop *l, dv_gen *g, int v, int step, int i)
{
    int rows = l->t->rows, lanes = g->lanes, bytes = 16;
    int64_t off = 16 * (int64_t)i, to = 0;
    if (rows < lanes)
        bytes = rows * g->es;
    else if ((i + 1) * lanes > rows)
        off = (int64_t)(rows - lanes) * g->es;
    if (l->p->pack_s)
        to = off + (int64_t)(step - l->base) * rows * g->es;
    if (!l->walk_s)
        off += (step - l->base) * l->p->ld_s;
    if (in_next(l, step))
        off += l->hop_s;
    dv_gen_load(g, v, l->flat ? X_A : X_ROW, off, bytes);
    dv_tile_prefetch_s(g, l->p, l->flat ? X_A : X_ROW, off, step);
    if (l->p->pack_s)
        dv_gen_store(g, v, X_SPACK, to, bytes);
    if (l->walk_s && i == l->s.per - 1)
        dv_tile_step(g, X_ROW, l->p->ld_s, X_LDA);
}

static void load_s(const dv_kloop *l, dv_gen *g, int v, int group, int i)
{
    if (l->p->pairs)
        dv_gen_load(g, v, X_ROW, (group - l->base) * l->p->ld_s + 16 * i, 16);
    else if (l->p->lane_k)
        load_s_k(l, g, v, group, i);
    else
        load_s_m(l, g, v, group, i);
}

// The functions below compute the instruction words of loads by adding table
// entries.

// Returns what a byte offset adds to the word of a 16-byte load.
static uint32_t field(int64_t off)
{
    return (uint32_t)(off >> 4) << 10;
}

// Returns the word of a load of a whole vector at a fixed offset, without its
// register; 0 if no single instruction can do it.
static uint32_t load_word(int base, int64_t off)
{
    int ok = 1;
    uint32_t w = dv_gen_fits_ldr_q(off, 16)
                     ? dv_insn_word(DV_INSN_ldr_q, 0, base, off, 0, &ok)
                     : dv_insn_word(DV_INSN_ldur_q, 0, base, off, 0, &ok);
    return ok ? w : 0;
}

// Returns whether the offsets of all loads fit an instruction. They start
// between 0 and `most`, grow by `step` per group (the loads of one step of k)
// for `groups` groups, and by `hop` once after `n` groups, where the next
// product of a batch begins.
static int all_usual(int64_t step, int64_t hop, int n, int groups, int64_t most)
{
    int64_t far = groups * step + most + (hop > 0 ? hop : 0);
    return ((step | hop | most) & 15) == 0 && far < 65536 &&
           n * step + hop >= 0;
}

static void table_of_v(const dv_kloop *l, const dv_gen *g, dv_loads *out)
{
    const dv_prod *p = l->p;
    int nv = l->t->nv, ok = dv_tile_bytes(g, l->t) == 16 && !p->pack_v;
    // Number of vectors in a row of the vector operand V whose offsets are
    // relative to the start of the row; with l->odd, the last vector has a
    // pointer of its own.
    int even = nv - l->odd;
    out->word[DV_LOAD_ADVANCE] =
        l->walk_v ? dv_tile_step_word(X_BRUN, p->ld_v, X_LDB) : 0;
    out->step = l->walk_v ? 0 : field(p->ld_v);
    out->hop = field(l->hop_v);
    if (l->walk_v)
        ok = ok && out->word[DV_LOAD_ADVANCE] && !l->flows;
    else
        ok = ok && all_usual(p->ld_v, l->hop_v, l->unroll, l->steps,
                             even ? dv_tile_off(g, l->t, even - 1) : 0);
    if (l->odd)
        out->word[nv - 1] = load_word(X_ODD, 0);
    for (int j = 0; ok && j < even; j++) {
        out->word[j] =
            load_word(l->flat ? X_B : X_BRUN, dv_tile_off(g, l->t, j));
        ok = out->word[j] != 0;
    }
    out->limit = ok ? out->end : 0;
}

static void table_of_s(const dv_kloop *l, const dv_gen *g, dv_loads *out)
{
    const dv_prod *p = l->p;
    int rows = l->t->rows, lanes = g->lanes, base = l->flat ? X_A : X_ROW;
    int ok = !p->pack_s && !p->prefetch_s, groups = out->end, each = 0;
    int64_t step = p->ld_s, hop = l->hop_s, far = 16;
    if (p->lane_k && p->panel) {
        step = 16 * rows;
        hop = 0;
    } else if (p->lane_k) {
        step = 16;
        // The number of groups of loads (a group serves `lanes` steps of k)
        // does not include the partial vector at the end of a row.
        groups = l->steps / lanes;
        each = !l->flat;
        far = l->flat ? p->ld_s : 0;
    } else if (!p->pairs) {
        ok = ok && rows >= lanes && !(l->walk_s && l->flows);
    }
    int walks = l->walk_s && !p->pairs;
    out->word[DV_LOAD_ADVANCE] =
        walks ? dv_tile_step_word(X_ROW, p->ld_s, X_LDA) : 0;
    out->step = walks ? 0 : field(step);
    out->hop = field(hop);
    for (int i = 0; ok && i < l->s.per; i++) {
        int64_t off = i * far;
        if (!p->lane_k && !p->pairs && (i + 1) * lanes > rows)
            off = (int64_t)(rows - lanes) * g->es;
        out->word[i] = load_word(base + (each ? i : 0), off);
        ok = out->word[i] &&
             (walks || all_usual(step, hop, l->unroll / l->group, groups, off));
    }
    out->limit = ok && (out->word[DV_LOAD_ADVANCE] || !walks) ? groups : 0;
    if (each && out->limit && groups < out->end &&
        (l->steps - lanes) * g->es < 256) {
        out->odd = groups;
        out->limit = out->end;
    }
}

// Updates the tables of instruction words of the loads after the pointer
// registers have been advanced to step l->base of k.
static void rebase(const dv_kloop *l, dv_loads *q)
{
    int ok = 1;
    int64_t at = (l->steps - l->lanes - l->base) * (16 / l->lanes);
    // The last vector of each row ends at the end of the row, at an offset that
    // only LDUR can encode. odd_moved is the difference of the encodings of
    // LDUR at this offset and of LDR at 0: added to the word of an LDR, it
    // makes that LDUR.
    if (q->odd >= 0)
        q->odd_moved = dv_insn_word(DV_INSN_ldur_q, 0, 0, at, 0, &ok) -
                       dv_insn_word(DV_INSN_ldr_q, 0, 0, 0, 0, &ok);
    q->base = l->base / q->steps;
    q->hop_from = l->flows ? (l->base + l->unroll) / q->steps : INT_MAX;
}

static void start_loads(dv_loads *q, const dv_kloop *l, int per, int steps)
{
    q->per = per;
    q->steps = steps;
    q->end = (l->steps + steps - 1) / steps;
    q->odd = -1;
}

// Returns whether a step of k fits the code buffer, since its words are copied
// without further checks. OTHERS bytes more are reserved for loads whose
// instruction words are not in the tables (dv_loads), which check the buffer
// themselves.
static int has_room(dv_code *code)
{
    enum { OTHERS = 4096 };
    if (code->cap - code->n < 4 * DV_STEP_WORDS + OTHERS)
        code->failed = 1;
    return !code->failed;
}

// Returns what the offset of a group of loads (those that one step of k needs)
// adds to their instruction words.
static inline uint32_t moved_by(const dv_loads *q, int group)
{
    if (group == q->odd)
        return q->odd_moved;
    return (uint32_t)(group - q->base) * q->step +
           (group >= q->hop_from ? q->hop : 0);
}

static inline void move_to(const dv_loads *q, int here)
{
    q->moved[0] = moved_by(q, here - 1);
    q->moved[1] = moved_by(q, here);
    q->moved[2] = moved_by(q, here + 1);
}

static inline uint32_t load_word_of(const dv_steps *w, const dv_sched_load *d)
{
    return w->words[d->i] + w->moved[d->ahead] + d->reg;
}

// Emits a load whose instruction word is not in the tables (dv_loads), unless
// its group (the loads that one step needs) lies before the first or after the
// last step.
static __attribute__((noinline)) void
other_load(dv_steps *w, const dv_sched_load *d, int group)
{
    int is_s = d->i >= DV_OF_S, i = d->i & (DV_OF_S - 1);
    if (group < 0 || group >= w->q[is_s].end || i == DV_LOAD_ADVANCE)
        return;
    if (is_s)
        load_s(w->l, w->g, d->reg, group, i);
    else
        load_v(w->l, w->g, d->reg, group, i);
}

// Emits one load, with its instruction word from the tables (dv_loads) if they
// cover it. here[] holds the numbers of the current groups of loads (those that
// one step of k needs), of the vector operand V and of the scalar operand S.
static inline void put_load(dv_steps *w, const dv_sched_load *d,
                            const int *here)
{
    int is_s = d->i >= DV_OF_S;
    int group = here[is_s] + (d->ahead & (DV_LOAD_NO_OFFSET - 1)) - 1;
    if ((unsigned)group < (unsigned)w->q[is_s].limit)
        dv_code_put(w->g->code, load_word_of(w, d));
    else
        other_load(w, d, group);
}

// Emits the loads of one operand (the scalar operand S if is_s, else the vector
// operand V) that are due before the first step of k.
static void emit_early_loads(dv_steps *w, int is_s, const dv_ring *r,
                             const int *slot)
{
    int walks = is_s ? w->l->walk_s : w->l->walk_v, here[2] = {0, 0};
    int of = is_s ? DV_OF_S : 0;
    uint32_t *word = w->q[is_s].word;
    move_to(&w->q[is_s], 0);
    for (int i = 0, at = 0; i < r->per && slot[i] < 0; i++) {
        int reg = dv_gen_reg(r->first + at);
        dv_sched_load d = {0, (unsigned char)(of + i), (unsigned char)reg,
                           (unsigned char)(of + 1)};
        if (w->q[is_s].limit > 0)
            dv_code_put(w->g->code, word[i] + w->moved[of + 1] + d.reg);
        else
            put_load(w, &d, here);
        at = at + 1 == r->size ? 0 : at + 1;
    }
    if (walks && slot[r->per - 1] < 0) {
        dv_sched_load d = {0, (unsigned char)(of + DV_LOAD_ADVANCE), 0,
                           (unsigned char)(of + DV_LOAD_NO_OFFSET + 1)};
        put_load(w, &d, here);
    }
}

// Copies n words to the code, four at a time, each combined with `with` by
// exclusive or.
static void put_words(dv_code *code, const uint32_t *words, int n,
                      uint32_t with)
{
    unsigned char *to = code->at + code->n;
    for (int i = 0; i < n; i += 4, to += 16) {
        uint32_t four[4];
        for (int q = 0; q < 4; q++)
            four[q] = dv_code_little_endian(words[i + q] ^ with);
        memcpy(to, four, sizeof four);
    }
    code->n += 4 * (size_t)n;
}

// Emits a step of k, all of whose loads are in the tables of instruction words
// (dv_loads): copies it as a whole and then fills in the loads.
static inline void put_whole(dv_steps *w, const dv_step *p, uint32_t with)
{
    dv_code *code = w->g->code;
    unsigned char *to = code->at + code->n;
    put_words(code, p->words, p->n, with);
    for (const dv_sched_load *d = p->due, *end = d + p->n_due; d < end; d++) {
        uint32_t word = dv_code_little_endian(load_word_of(w, d));
        memcpy(to + 4 * d->at, &word, sizeof word);
    }
}

static void put_parts(dv_steps *w, const dv_step *p, const int *here,
                      uint32_t with)
{
    int at = 0;
    for (int i = 0; i < p->n_due; i++) {
        const dv_sched_load *d = &p->due[i];
        put_words(w->g->code, p->words + at, d->at - at, with);
        at = d->at + 1;
        put_load(w, d, here);
    }
    put_words(w->g->code, p->words + at, p->n - at, with);
}

// Advances one row pointer of the scalar operand S: the first one whose bit in
// `moved` is not set and from which the step has no more loads, counting from
// load number `due` of the step on. Returns the bit of its row; 0 if there is
// none.
static uint32_t move_row(dv_steps *w, const dv_step *p, uint32_t moved, int due)
{
    for (int i = due; i < p->n_due; i++)
        if (p->due[i].i >= DV_OF_S)
            moved |= 1u << (p->due[i].i - DV_OF_S);
    for (int i = 0; i < w->l->t->rows; i++)
        if (!(moved >> i & 1)) {
            dv_gen_add(w->g, X_ROW + i, X_ROW + i, w->l->unroll * w->g->es);
            return 1u << i;
        }
    return 0;
}

// Emits the last step of an iteration of the loop over k, with the increments
// of the row pointers of the scalar operand S between the multiply-adds. All
// increments together would take a cycle without any multiply-add.
static void put_moving(dv_steps *w, const dv_step *p, const int *here,
                       uint32_t with)
{
    int due = 0;
    uint32_t moved = 0;
    for (int at = 0, n = 0; at < p->n; at++) {
        if (due < p->n_due && p->due[due].at == at) {
            put_load(w, &p->due[due++], here);
            continue;
        }
        dv_code_put(w->g->code, p->words[at] ^ with);
        if (++n % 4 == 0)
            moved |= move_row(w, p, moved, due);
    }
    // Advance the row pointers of the scalar operand S that have not been
    // advanced between the multiply-adds.
    for (int i = 0; i < w->l->t->rows; i++)
        moved |= move_row(w, p, moved, due);
}

// Emits the last step of a tile row by row. Meanwhile the sums of the previous
// row, or of the one before that (dv_tile_store_lag), are finished and stored.
static void put_last(dv_steps *w, const dv_step *p, const int *here,
                     uint32_t with)
{
    const dv_prod_tile *t = w->l->t;
    const dv_sched_load *d = p->due, *end = d + p->n_due;
    dv_code *code = w->g->code;
    dv_tile_stores stores;
    int quick = dv_tile_stores_of(w->g, t, &stores);
    int behind = dv_tile_store_lag(w->l->p);
    if (w->l->p->relu)
        dv_emit(code, DV_INSN_movi_0, w->l->free.reg[0], 0, 0, 0);
    for (int i = 0, at = 0; i < t->rows; i++)
        for (int j = 0; j < t->nv; j++) {
            int done = i - behind;
            if (done >= 0 && j == 0)
                dv_tile_finish_row(w->g, w->l->p, t, done, &w->l->free);
            for (; d < end && d->at == at; d++, at++)
                put_load(w, d, here);
            dv_code_put(code, p->words[at++] ^ with);
            if (done >= 0 && quick)
                dv_tile_store_quick(code, &stores, t, done, j);
            else if (done >= 0)
                dv_tile_store_one(w->g, t, done, j);
        }
}

// Returns the bits by which the multiply-adds of step s differ from those of
// the loop's pattern (the prepared steps), to be combined by exclusive or: the
// first steps multiply instead of adding, and if the last vector of a row of k
// overlaps the one before it, its lanes are shifted.
static uint32_t change(const dv_steps *w, int s)
{
    const dv_kloop *l = w->l;
    int group = w->p->group, lane = l->p->lane_k ? s & (group - 1) : 0;
    int to = s < w->shift_from ? lane : lane + group - (l->steps & (group - 1));
    return w->p->ops[s < w->fresh][to] ^ w->p->ops[0][lane];
}

// Makes a step of k that is not among the prepared steps of the loop's pattern:
// because registers repeat only after more steps than the pattern holds, or
// because it is the last step, which is written row by row.
static const dv_step *other_step(dv_steps *w, int s, dv_step *room)
{
    const dv_kloop *l = w->l;
    int wide = l->by_col && s < l->steps - 1 ? l->by_col : l->t->nv;
    if (!dv_pattern_step(w->p, l, s, wide, 0, room))
        w->g->code->failed = 1;
    return room;
}

// Emits a step of k that is more than a copy of a prepared one: it is the last
// one, advances row pointers, or has loads that are not in the tables
// (dv_loads).
static __attribute__((noinline)) void put_other(dv_steps *w, const dv_step *one,
                                                int s, int group, uint32_t with)
{
    const dv_kloop *l = w->l;
    int here[2] = {s, group}, last = s == l->steps - 1;
    dv_step room;
    if (!w->p->period || (last && l->by_col))
        one = other_step(w, s, &room);
    if (!has_room(w->g->code))
        return;
    if (last && l->stores)
        put_last(w, one, here, with);
    else if (s == w->moving)
        put_moving(w, one, here, with);
    else
        put_parts(w, one, here, with);
}

int dv_steps_advances_rows(const dv_kloop *l)
{
    return l->p->lane_k && !l->p->panel && !l->p->pack_s && !l->flows;
}

void dv_steps_start(dv_steps *w, dv_kloop *l, dv_gen *g, int fresh)
{
    w->l = l;
    w->g = g;
    w->p = dv_pattern_of(l, g, &w->room);
    l->base = 0;
    for (int i = 0; i < 2; i++) {
        w->q[i].word = w->words + i * DV_OF_S;
        w->q[i].moved = w->moved + i * DV_OF_S;
        memset(w->q[i].moved + DV_LOAD_NO_OFFSET, 0, 4 * sizeof(uint32_t));
    }
    start_loads(&w->q[0], l, l->v.per, 1);
    start_loads(&w->q[1], l, l->s.per, l->group);
    table_of_v(l, g, &w->q[0]);
    table_of_s(l, g, &w->q[1]);
    rebase(l, &w->q[0]);
    rebase(l, &w->q[1]);
    w->fresh = fresh;
    w->moving =
        l->turns && dv_steps_advances_rows(l) ? l->first + l->unroll - 1 : -1;
    w->shift_from = INT_MAX;
    if (l->p->lane_k && !l->p->panel && !l->p->pack_s && l->steps >= l->group)
        w->shift_from = l->steps & -l->group;
    // Matrix instructions (pairs) load the scalar operand S within the step
    // that uses it, so step 0 has no loads left from a step before it.
    w->whole_from = l->p->pairs;
    w->whole_to = w->q[0].limit - 1;
    if ((l->stores || l->by_col) && w->whole_to > l->steps - 1)
        w->whole_to = l->steps - 1;
    w->whole_to = w->p->period ? w->whole_to : 0;
    if (has_room(g->code)) {
        emit_early_loads(w, 0, &l->v, w->p->slot_v);
        emit_early_loads(w, 1, &l->s, w->p->slot_s);
    }
}

void dv_steps_put(dv_steps *w, int begin, int end)
{
    dv_pattern *p = w->p;
    const dv_loads *v = &w->q[0], *q = &w->q[1];
    int at = p->period ? begin % p->period : 0, in = begin & (p->group - 1);
    int group = begin / p->group, every = w->l->p->prefetch_every;
    move_to(v, begin);
    move_to(q, group);
    for (int s = begin; s < end; s++) {
        const dv_step *one = &p->steps[at];
        uint32_t with = s < w->fresh || s >= w->shift_from ? change(w, s) : 0;
        if (every && s % every == 0)
            dv_tile_prefetch_next(w->g, w->l->p, w->l->t);
        if (w->l->p->copy_steps && !w->l->base)
            dv_tile_copy_next(w->g, w->l->p, s, w->l->unroll);
        // If all of the scalar operand S has been loaded, take the step without
        // loads of S.
        if (one->s_from && group + one->s_from > q->end)
            one = dv_pattern_without_s(p, w->l, at);
        if (s < w->whole_from || s >= w->whole_to || s == w->moving ||
            group + one->s_to > q->limit)
            put_other(w, one, s, group, with);
        else if (has_room(w->g->code))
            put_whole(w, one, with);
        at = at + 1 < p->period ? at + 1 : 0;
        v->moved[0] = v->moved[1];
        v->moved[1] = v->moved[2];
        v->moved[2] = moved_by(v, s + 2);
        if (++in == p->group) {
            in = 0;
            move_to(q, ++group);
        }
    }
}

void dv_steps_rebase(dv_steps *w, int base)
{
    w->l->base = base;
    rebase(w->l, &w->q[0]);
    rebase(w->l, &w->q[1]);
}
