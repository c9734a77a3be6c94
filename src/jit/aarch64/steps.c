// Writing the steps of a loop over k: multiply-adds, and the loads of later
// steps between them.
//
// When a load is due depends on its place in its group alone, and so does its
// word but for the register and an offset that grows from group to group. So
// tables of a group are made first; a step is then a few additions a word.
#include "jit/aarch64/kloop.h"

enum { LOAD_L1 = 0 };

// -- When loads are due ------------------------------------------------------

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

// Which load the register of load i of group 0 was for before.
static void old_load(const dv_ring *r, int i, int *group, int *old_i)
{
    *group = (int)dv_gen_div(i - r->size, r->per);
    *old_i = i - r->size - *group * r->per;
}

// About one step ahead, spread over it, but not before the register is free.
static void slots_of_v(const dv_kloop *l, int *slot)
{
    int rows = l->t->rows, nv = l->t->nv, size = rows * nv, by = l->by_col;
    for (int i = 0; i < nv; i++) {
        int group, old, free;
        old_load(&l->v, i, &group, &old);
        if (by)
            free = group * size + (old / by + 1) * rows * by - by + old % by;
        else
            free = (group + 1) * size - nv + old;
        slot[i] = max_int(i * rows - size, free + 1);
    }
}

static void slots_of_s(const dv_kloop *l, const dv_gen *g, int *slot)
{
    const dv_tile *t = l->t;
    int size = t->rows * t->nv, steps = l->group;
    int each = l->p->lane_k || l->p->pairs ? 1 : g->lanes; // rows a load
    for (int i = 0; i < l->s.per; i++) {
        int group, old;
        old_load(&l->s, i, &group, &old);
        int row = (old + 1) * each - 1;
        row = row < t->rows && !l->by_col ? row : t->rows - 1;
        int free = ((group + 1) * steps - 1) * size + (row + 1) * t->nv;
        int early =
            steps == 1 ? i * each * t->nv - size : 2 * (i * t->nv - size);
        slot[i] = max_int(early, free);
    }
}

// -- Loads one by one --------------------------------------------------------

// Rows of V that are packed are far apart: no stream the machine would see.
static void ask_ahead(const dv_kloop *l, dv_gen *g)
{
    for (int off = 0; off < l->t->cols * g->es; off += 64)
        DV_E(prfm, LOAD_L1, X_SOON, off, 0);
    dv_tile_step(g, X_SOON, l->p->ld_v, X_LDB);
}

// Is this a step of the batch's next product?
static int in_next(const dv_kloop *l, int step)
{
    return l->flows && step >= l->base + l->unroll;
}

static void load_v(const dv_kloop *l, dv_gen *g)
{
    const dv_tile *t = l->t;
    int step = l->v.group, j = l->v.i, bytes = dv_tile_bytes(g, t);
    int v = dv_gen_reg(l->v.first + l->v.reg);
    int64_t at = dv_tile_off(g, t, j), off = at;
    if (!l->walk_v)
        off += (step - l->base) * l->p->ld_v;
    if (in_next(l, step))
        off += l->hop_v;
    dv_gen_load(g, v, l->flat ? X_B : X_BRUN, off, bytes);
    if (l->p->pack_v)
        dv_gen_store(g, v, X_VPACK, at + (step - l->base) * l->p->pack_v,
                     bytes);
    if (l->walk_v && j == t->nv - 1)
        dv_tile_step(g, X_BRUN, l->p->ld_v, X_LDB);
    if (l->p->pack_v && j == t->nv - 1)
        ask_ahead(l, g);
}

// One vector of S with lanes of k: `lanes` steps of one row.
static void load_s_k(const dv_kloop *l, dv_gen *g, int v, int group, int row)
{
    int lanes = g->lanes, first = group * lanes, bytes = 16;
    int64_t q = group - l->base / lanes, packed = (q * l->t->rows + row) * 16;
    if (l->p->panel) {
        dv_gen_load(g, v, X_ROW, packed, 16);
        return;
    }
    if (first + lanes > l->steps) { // the rest overlaps, or is a part
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
        dv_gen_store(g, v, X_SPACK, packed, 16);
}

// One vector of S with lanes of rows: `lanes` rows of one step.
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
    if (l->p->pack_s)
        dv_gen_store(g, v, X_SPACK, to, bytes);
    if (l->walk_s && i == l->s.per - 1)
        dv_tile_step(g, X_ROW, l->p->ld_s, X_LDA);
}

static void load_s(const dv_kloop *l, dv_gen *g)
{
    const dv_ring *s = &l->s;
    int v = dv_gen_reg(s->first + s->reg);
    if (l->p->pairs)
        dv_gen_load(g, v, X_ROW, (s->group - l->base) * l->p->ld_s + 16 * s->i,
                    16);
    else if (l->p->lane_k)
        load_s_k(l, g, v, s->group, s->i);
    else
        load_s_m(l, g, v, s->group, s->i);
}

// -- Loads from tables -------------------------------------------------------

// What an offset adds to the word of a load of 16 bytes.
static uint32_t field(int64_t off)
{
    return (uint32_t)(off >> 4) << 10;
}

// A whole vector at an offset that stays: 0 when no one instruction does it.
static uint32_t load_word(int base, int64_t off)
{
    int ok = 1;
    uint32_t w = dv_gen_is_usual(off, 16)
                     ? dv_insn_word(DV_INSN_ldr_q, 0, base, off, 0, &ok)
                     : dv_insn_word(DV_INSN_ldur_q, 0, base, off, 0, &ok);
    return ok ? w : 0;
}

// Offsets grow by `step` a group and by `hop` after `n` of them: are all that
// `groups` groups have, from 0 on up to `most` beside it, such as loads hold?
static int all_usual(int64_t step, int64_t hop, int n, int groups, int64_t most)
{
    int64_t far = groups * step + most + (hop > 0 ? hop : 0);
    return ((step | hop | most) & 15) == 0 && far < 65536 &&
           n * step + hop >= 0;
}

static uint32_t step_word(int reg, int64_t bytes, int by)
{
    dv_code one = {.at = (unsigned char[16]){0}, .cap = 16};
    dv_gen g = {.code = &one};
    uint32_t w;
    dv_tile_step(&g, reg, bytes, by);
    memcpy(&w, one.at, sizeof w);
    return one.n == sizeof w ? w : 0;
}

static void table_of_v(const dv_kloop *l, const dv_gen *g, dv_loads *out)
{
    const dv_prod *p = l->p;
    int nv = l->t->nv, ok = dv_tile_bytes(g, l->t) == 16 && !p->pack_v;
    out->then = l->walk_v ? step_word(X_BRUN, p->ld_v, X_LDB) : 0;
    out->step = l->walk_v ? 0 : field(p->ld_v);
    out->hop = field(l->hop_v);
    if (l->walk_v)
        ok = ok && out->then && !l->flows;
    else
        ok = ok && all_usual(p->ld_v, l->hop_v, l->unroll, l->steps,
                             dv_tile_off(g, l->t, nv - 1));
    for (int j = 0; ok && j < nv; j++) {
        out->word[j] =
            load_word(l->flat ? X_B : X_BRUN, dv_tile_off(g, l->t, j));
        ok = out->word[j] != 0;
    }
    out->limit = ok ? l->v.end : 0;
}

static void table_of_s(const dv_kloop *l, const dv_gen *g, dv_loads *out)
{
    const dv_prod *p = l->p;
    int rows = l->t->rows, lanes = g->lanes, base = l->flat ? X_A : X_ROW;
    int ok = !p->pack_s, groups = l->s.end, each = 0;
    int64_t step = p->ld_s, hop = l->hop_s, far = 16;
    if (p->lane_k && p->panel) {
        step = 16 * rows;
        hop = 0;
    } else if (p->lane_k) {
        step = 16;
        groups = l->steps / lanes; // not the last part of a row
        each = !l->flat;
        far = l->flat ? p->ld_s : 0;
    } else if (!p->pairs) {
        ok = ok && rows >= lanes && !(l->walk_s && l->flows);
    }
    int walks = l->walk_s && !p->pairs;
    out->then = walks ? step_word(X_ROW, p->ld_s, X_LDA) : 0;
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
    out->limit = ok && (out->then || !walks) ? groups : 0;
}

// The group of the ring's next load.
static void at_group(const dv_kloop *l, const dv_ring *r, dv_loads *q,
                     int steps)
{
    q->moved = (uint32_t)(r->group - l->base / steps) * q->step;
    if (in_next(l, r->group * steps))
        q->moved += q->hop;
}

static void next_load(const dv_kloop *l, dv_ring *r, dv_loads *q, int steps)
{
    if (++r->reg == r->size)
        r->reg = 0;
    if (++r->i == r->per) {
        r->i = 0;
        r->group++;
        r->start += q->group_slots;
        at_group(l, r, q, steps);
        if (r->group == r->end)
            r->start = INT64_MAX / 2;
    }
    r->at = r->start + q->slot[r->i];
}

static void put_load(dv_code *code, const dv_ring *r, const dv_loads *q)
{
    dv_code_put(code, q->word[r->i] + q->reg[r->reg] + q->moved);
    if (q->then && r->i == r->per - 1)
        dv_code_put(code, q->then);
}

static void loads_before(dv_steps *w, int64_t slot)
{
    dv_kloop *l = w->l;
    while (l->v.at <= slot) {
        if (l->v.group < w->v.limit)
            put_load(w->g->code, &l->v, &w->v);
        else
            load_v(l, w->g);
        next_load(l, &l->v, &w->v, 1);
    }
    while (l->s.at <= slot) {
        if (l->s.group < w->s.limit)
            put_load(w->g->code, &l->s, &w->s);
        else
            load_s(l, w->g);
        next_load(l, &l->s, &w->s, l->group);
    }
    w->next = l->v.at < l->s.at ? l->v.at : l->s.at;
}

static void first_load(const dv_kloop *l, dv_ring *r, dv_loads *q, int steps)
{
    r->group = r->i = r->reg = 0;
    r->start = 0;
    r->at = q->slot[0];
    q->group_slots = (int64_t)steps * l->t->rows * l->t->nv;
    at_group(l, r, q, steps);
    for (int i = 0; i < r->size; i++)
        q->reg[i] = (uint32_t)dv_gen_reg(r->first + i);
}

// -- Multiply-adds -----------------------------------------------------------

// Lane of the scalars of a step, with lanes of k. The last vector of a row may
// begin earlier.
static int lane_of(const dv_kloop *l, const dv_gen *g, int step)
{
    int lanes = g->lanes, group = step & -lanes, shift = 0;
    if (!l->p->panel && !l->p->pack_s && group + lanes > l->steps && group)
        shift = lanes - (l->steps & (lanes - 1));
    return step - group + shift;
}

// A multiply-add (fresh: a multiply) by a lane or a pair of rows, without its
// registers.
static uint32_t by_lane(dv_gen *g, int lane, int fresh, int pairs)
{
    int ok = 1;
    uint32_t w;
    if (pairs && g->ints)
        w = dv_insn_word(DV_INSN_smmla, 0, 0, 0, 0, &ok);
    else if (pairs)
        w = dv_insn_word(DV_INSN_bfmmla, 0, 0, 0, 0, &ok);
    else if (g->es == 8)
        w = fresh ? dv_insn_word(DV_INSN_fmul_e2d, 0, 0, 0, lane, &ok)
                  : dv_insn_word(DV_INSN_fmla_e2d, 0, 0, 0, lane, &ok);
    else if (g->ints)
        w = fresh ? dv_insn_word(DV_INSN_fmul_e4i, 0, 0, 0, lane, &ok)
                  : dv_insn_word(DV_INSN_fmla_e4i, 0, 0, 0, lane, &ok);
    else
        w = fresh ? dv_insn_word(DV_INSN_fmul_e4s, 0, 0, 0, lane, &ok)
                  : dv_insn_word(DV_INSN_fmla_e4s, 0, 0, 0, lane, &ok);
    g->code->failed |= !ok;
    return w;
}

static void plan_words(dv_steps *w)
{
    const dv_kloop *l = w->l;
    int rows = l->t->rows, lanes = w->g->lanes, nv = l->t->nv;
    for (int i = 0; i < (l->p->pairs ? 1 : lanes); i++) {
        w->words[0][i] = by_lane(w->g, i, 0, l->p->pairs);
        w->words[1][i] = by_lane(w->g, i, 1, l->p->pairs);
    }
    for (int i = 0; i < rows; i++) {
        int load = l->p->lane_k || l->p->pairs ? i : i / lanes;
        int last = !l->p->lane_k && rows >= lanes && (load + 1) * lanes > rows;
        w->load[i] = (unsigned char)load;
        w->lane[i] = (unsigned char)(l->p->pairs ? 0
                                     : last      ? i - (rows - lanes)
                                                 : i - load * lanes);
    }
    int period = 1;
    while (period * nv % l->v.size)
        period++;
    while (period % l->t->sets)
        period *= 2;
    w->period = period <= DV_STEP_PHASES ? period : 0;
    w->known = 0;
}

// The multiply-adds of a step by their rows, without accumulators and V.
static void words_of(const dv_steps *w, int s, int fresh, uint32_t *out)
{
    const dv_kloop *l = w->l;
    int first = s / l->group * l->s.per % l->s.size, per_k = l->p->lane_k;
    const uint32_t *words =
        w->words[s < fresh] + (per_k ? lane_of(l, w->g, s) : 0);
    for (int i = 0; i < l->t->rows; i++) {
        int from = first + w->load[i];
        while (from >= l->s.size)
            from -= l->s.size;
        out[i] = words[per_k ? 0 : w->lane[i]] | w->s.reg[from] << 16;
    }
}

// Some columns at a time: their vectors of V are free again early, so that one
// ring of them is enough. (One column at a time now and then keeps half of the
// units idle, for as long as the loop runs.) Or whole rows.
static void make_fields(const dv_steps *w, int s, int wide, uint32_t *out)
{
    const dv_kloop *l = w->l;
    int nv = l->t->nv, rows = l->t->rows, n = 0;
    int acc = s % l->t->sets * rows * nv, v = s * nv % l->v.size;
    uint32_t vecs[32];
    for (int j = 0; j < nv; j++) {
        vecs[j] = w->v.reg[v] << 5;
        v = v + 1 == l->v.size ? 0 : v + 1;
    }
    for (int b = 0; b < nv; b += wide)
        for (int i = 0; i < rows; i++)
            for (int j = b; j < b + wide; j++)
                out[n++] = vecs[j] | (uint32_t)dv_gen_reg(acc + i * nv + j);
}

// Each row's word as often as it is used, in the order of make_fields.
static void spread(const dv_kloop *l, const uint32_t *rows, int wide,
                   uint32_t *out)
{
    for (int b = 0; b < l->t->nv; b += wide)
        for (int i = 0; i < l->t->rows; i++, out += wide)
            for (int j = 0; j < wide; j += 4)
                for (int q = 0; q < 4; q++)
                    out[j + q] = rows[i];
}

// n words, four at a time.
static void put_run(dv_code *code, const uint32_t *a, const uint32_t *b, int n)
{
    if (code->cap - code->n < 4 * ((size_t)n + 3)) {
        code->failed = 1;
        return;
    }
    unsigned char *to = code->at + code->n;
    for (int i = 0; i < n; i += 4, to += 16) {
        uint32_t four[4];
        for (int q = 0; q < 4; q++)
            four[q] = dv_code_low_first(a[i + q] | b[i + q]);
        memcpy(to, four, sizeof four);
    }
    code->n += 4 * (size_t)n;
}

// One step, with the loads that are due before each of its multiply-adds.
static void put_step(dv_steps *w, int s, const uint32_t *rows)
{
    const dv_kloop *l = w->l;
    int n = l->t->rows * l->t->nv, wide = l->by_col ? l->by_col : l->t->nv;
    int phase = w->period ? s % w->period : 0;
    int64_t slot = s * (int64_t)n;
    uint32_t all[DV_STEP_WORDS], *fields = w->fields[phase];
    if (!w->period || !(w->known >> phase & 1))
        make_fields(w, s, wide, fields);
    w->known |= 1 << phase;
    spread(l, rows, wide, all);
    for (int i = 0, run; i < n; i += run) {
        if (w->next <= slot + i)
            loads_before(w, slot + i);
        run = w->next - slot < n ? (int)(w->next - slot) - i : n - i;
        put_run(w->g->code, all + i, fields + i, run);
    }
}

// The last step, a row at a time; the sums of each are stored meanwhile.
static void put_last(dv_steps *w, int s, const uint32_t *rows)
{
    const dv_kloop *l = w->l;
    int nv = l->t->nv;
    int64_t slot = s * (int64_t)l->t->rows * nv;
    uint32_t fields[DV_STEP_WORDS];
    make_fields(w, s, nv, fields);
    for (int i = 0, n = 0; i < l->t->rows; i++)
        for (int j = 0; j < nv; j++, n++) {
            if (w->next <= slot + n)
                loads_before(w, slot + n);
            dv_code_put(w->g->code, rows[i] | fields[n]);
            if (i > 0 && l->stores)
                dv_tile_store_one(w->g, l->p, l->t, i - 1, j);
        }
}

// -- Entry -------------------------------------------------------------------

void dv_steps_start(dv_steps *w, dv_kloop *l, dv_gen *g)
{
    w->l = l;
    w->g = g;
    l->base = 0;
    l->v.end = l->steps;
    l->s.end = (l->steps + l->group - 1) / l->group;
    slots_of_v(l, w->v.slot);
    slots_of_s(l, g, w->s.slot);
    table_of_v(l, g, &w->v);
    table_of_s(l, g, &w->s);
    first_load(l, &l->v, &w->v, 1);
    first_load(l, &l->s, &w->s, l->group);
    plan_words(w);
    loads_before(w, -1);
}

void dv_steps_put(dv_steps *w, int begin, int end, int fresh)
{
    uint32_t rows[32];
    for (int s = begin; s < end; s++) {
        words_of(w, s, fresh, rows);
        if (s == w->l->steps - 1 && (w->l->stores || w->l->by_col))
            put_last(w, s, rows);
        else
            put_step(w, s, rows);
    }
}

void dv_steps_rebase(dv_steps *w, int base)
{
    w->l->base = base;
    at_group(w->l, &w->l->v, &w->v, 1);
    at_group(w->l, &w->l->s, &w->s, w->l->group);
}
