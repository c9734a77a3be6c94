// Writing the steps of a loop over k: multiply-adds, and the loads of later
// steps between them.
//
// When a load is due depends on its place in its group alone, and so does its
// word but for the register and an offset that grows from group to group. So
// tables of a group are made first; a step is then a few additions a word.
#include "jit/aarch64/kloop.h"
#include <limits.h>

enum { LOAD_L1 = 0 };

// -- When loads are due ------------------------------------------------------

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

// Which load the register of load i of group 0 was for before: its group.
static int old_load(const dv_ring *r, int i, int *old)
{
    int group = 0, at = i - r->size;
    for (; at < 0; at += r->per)
        group--;
    *old = at;
    return group;
}

// About one step ahead, spread over it, but not before the register is free.
static void slots_of_v(const dv_kloop *l, int *slot)
{
    int rows = l->t->rows, nv = l->t->nv, size = rows * nv, by = l->by_col;
    for (int i = 0; i < nv; i++) {
        int old, free, group = old_load(&l->v, i, &old);
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
        int old, group = old_load(&l->s, i, &old);
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

static void load_v(const dv_kloop *l, dv_gen *g, int v, int step, int j)
{
    const dv_tile *t = l->t;
    int bytes = dv_tile_bytes(g, t);
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

static void load_s(const dv_kloop *l, dv_gen *g, int v, int group, int i)
{
    if (l->p->pairs)
        dv_gen_load(g, v, X_ROW, (group - l->base) * l->p->ld_s + 16 * i, 16);
    else if (l->p->lane_k)
        load_s_k(l, g, v, group, i);
    else
        load_s_m(l, g, v, group, i);
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
    out->then_after = out->then ? out->per - 1 : -1;
    out->limit = ok ? out->end : 0;
}

static void table_of_s(const dv_kloop *l, const dv_gen *g, dv_loads *out)
{
    const dv_prod *p = l->p;
    int rows = l->t->rows, lanes = g->lanes, base = l->flat ? X_A : X_ROW;
    int ok = !p->pack_s, groups = out->end, each = 0;
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
    out->then_after = out->then ? out->per - 1 : -1;
    out->limit = ok && (out->then || !walks) ? groups : 0;
}

// Pointers stand at the loop's base.
static void rebase(const dv_kloop *l, dv_loads *q)
{
    q->base = l->base / q->steps;
    q->hop_from = l->flows ? (l->base + l->unroll) / q->steps : INT_MAX;
}

// What the group at hand adds to its words.
static inline void move_to(dv_loads *q, int group)
{
    q->group = group;
    q->moved = (uint32_t)(group - q->base) * q->step +
               (group >= q->hop_from ? q->hop : 0);
}

static void start_loads(dv_loads *q, const dv_kloop *l, const dv_ring *r,
                        int steps)
{
    q->per = r->per;
    q->steps = steps;
    q->end = (l->steps + steps - 1) / steps;
    q->next = 0;
    q->size = r->size;
    for (int i = 0; i < r->size; i++)
        q->reg[i] = (uint32_t)dv_gen_reg(r->first + i);
    rebase(l, q);
}

// -- What is due when --------------------------------------------------------

// Loads are issued in order: none is due before the one before it.
static void in_order(dv_loads *q)
{
    for (int i = 1; i < q->per; i++)
        q->slot[i] = max_int(q->slot[i], q->slot[i - 1]);
}

// The load that is first due in a group's own slots, and how many groups after
// that one its group is.
static void first_due(const dv_loads *q, int slots, int *ahead, int *i)
{
    *ahead = q->slot[q->per - 1] < slots ? 0 : -1;
    *i = 0;
    while (q->slot[*i] + *ahead * slots < 0)
        if (++*i == q->per)
            *i = 0, ++*ahead;
}

// Both lists in one: V before S where both are due.
static void merge(dv_steps *w)
{
    int steps = w->s.steps, size = w->size, ahead[2], i[2];
    const dv_loads *q[2] = {&w->v, &w->s};
    int slots[2] = {size, steps * size}, at[2];
    dv_due *out = w->due;
    for (int k = 0; k < 2; k++) {
        first_due(q[k], slots[k], &ahead[k], &i[k]);
        at[k] = q[k]->slot[i[k]] + ahead[k] * slots[k];
    }
    for (int step = 0; step < steps; step++) {
        for (int k; k = at[1] < at[0], at[k] < size; out++) {
            *out = (dv_due){(unsigned char)at[k], (unsigned char)k,
                            (unsigned char)i[k], (signed char)ahead[k]};
            if (++i[k] == q[k]->per)
                i[k] = 0, ahead[k]++;
            at[k] = q[k]->slot[i[k]] + ahead[k] * slots[k] - step * size;
        }
        w->due_end[step] = (int)(out - w->due);
        at[0] -= size;
        at[1] -= size;
    }
}

// One that is not in the tables, if it exists.
static __attribute__((noinline)) unsigned char *
other_load(dv_steps *w, unsigned char *to, int is_s, int group, int i)
{
    dv_loads *q = is_s ? &w->s : &w->v;
    dv_code *code = w->g->code;
    if (group < 0 || group >= q->end)
        return to;
    int reg = (int)q->reg[q->next];
    q->next = q->next + 1 == q->size ? 0 : q->next + 1;
    code->n = (size_t)(to - code->at);
    if (is_s)
        load_s(w->l, w->g, reg, group, i);
    else
        load_v(w->l, w->g, reg, group, i);
    return code->at + code->n;
}

static unsigned char *put_word(unsigned char *to, uint32_t word)
{
    word = dv_code_low_first(word);
    memcpy(to, &word, sizeof word);
    return to + sizeof word;
}

// Load i of `group`, which need not exist. There is room for two words.
static inline unsigned char *put_load(dv_steps *w, unsigned char *to, int is_s,
                                      int group, int i)
{
    dv_loads *q = is_s ? &w->s : &w->v;
    if ((unsigned)group >= (unsigned)q->limit)
        return other_load(w, to, is_s, group, i);
    if (i == 0)
        move_to(q, group);
    uint32_t reg = q->reg[q->next];
    q->next = q->next + 1 == q->size ? 0 : q->next + 1;
    to = put_word(to, q->word[i] + reg + q->moved);
    return i == q->then_after ? put_word(to, q->then) : to;
}

// Room for the rest of a step: its words, two a load and three that runs are
// rounded up by. Loads that are not in the tables look after themselves, and
// leave as much.
enum { ROOM = 4 * (32 + 3) + 8 * (DV_MOST_LANES + 1) * 32, OTHERS = 4096 };

static int has_room(dv_code *code)
{
    if (code->cap - code->n < ROOM + OTHERS)
        code->failed = 1;
    return !code->failed;
}

// What is due before the first step.
static void put_early(dv_steps *w, int is_s)
{
    dv_loads *q = is_s ? &w->s : &w->v;
    dv_code *code = w->g->code;
    if (!has_room(code))
        return;
    unsigned char *to = code->at + code->n;
    for (int i = 0; i < q->per && q->slot[i] < 0; i++)
        to = put_load(w, to, is_s, 0, i);
    code->n = (size_t)(to - code->at);
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

// Multiply-adds and multiplies by a lane or a pair of rows, without registers.
static void plan_ops(dv_steps *w)
{
    static const dv_insn ops[3][2] = {{DV_INSN_fmla_e4s, DV_INSN_fmul_e4s},
                                      {DV_INSN_fmla_e4i, DV_INSN_fmul_e4i},
                                      {DV_INSN_fmla_e2d, DV_INSN_fmul_e2d}};
    const dv_gen *g = w->g;
    int ok = 1, type = g->es == 8 ? 2 : g->ints;
    for (int fresh = 0; fresh < 2; fresh++)
        for (int i = 0; i < g->lanes; i++) {
            dv_insn op = ops[type][fresh];
            uint32_t lane = type == 2
                                ? dv_insn_regs(DV_FORM_VVD, 0, 0, 0, i, &ok)
                                : dv_insn_regs(DV_FORM_VVS, 0, 0, 0, i, &ok);
            w->ops[fresh][i] = dv_insn_rows[op].bits | lane;
        }
    if (w->l->p->pairs)
        w->ops[0][0] = w->ops[1][0] =
            dv_insn_rows[g->ints ? DV_INSN_smmla : DV_INSN_bfmmla].bits;
}

// Groups after which the same registers come again; 0: not soon.
static int period_of(int per, int size, int sets)
{
    int period = 1;
    while (period * per % size)
        period++;
    while (period % sets)
        period *= 2;
    return period <= DV_STEP_PHASES ? period : 0;
}

// Accumulators and vectors of V. Some columns at a time: their vectors of V are
// free again early, so that one ring of them is enough. (One column at a time
// now and then keeps half of the units idle, for as long as the loop runs.) Or
// whole rows.
static void make_acc(const dv_steps *w, int s, int wide, uint32_t *out)
{
    const dv_kloop *l = w->l;
    int nv = l->t->nv, rows = l->t->rows;
    int acc = s % l->t->sets * rows * nv, v = s * nv % l->v.size;
    uint32_t vecs[32];
    for (int j = 0; j < nv; j++) {
        vecs[j] = w->v.reg[v] << 5;
        v = v + 1 == l->v.size ? 0 : v + 1;
    }
    for (int b = 0; b < nv; b += wide)
        for (int i = 0; i < rows; i++)
            for (int j = b; j < b + wide; j++)
                *out++ = vecs[j] | (uint32_t)dv_gen_reg(acc + i * nv + j);
}

// Scalars: which load of the group has that of a row, and (lanes of rows) its
// lane. The last load begins earlier.
static void make_row(const dv_steps *w, int group, int wide, uint32_t *out)
{
    const dv_kloop *l = w->l;
    int rows = l->t->rows, lanes = w->g->lanes, size = l->s.size;
    int each = l->p->lane_k || l->p->pairs, first = group * l->s.per % size;
    uint32_t row[32];
    for (int i = 0; i < rows; i++) {
        int load = each ? i : i / lanes, from = first + load;
        int begin = rows >= lanes && (load + 1) * lanes > rows ? rows - lanes
                                                               : load * lanes;
        while (from >= size)
            from -= size;
        row[i] = w->s.reg[from] << 16;
        row[i] |= each ? 0 : w->ops[0][i - begin] ^ w->ops[0][0];
    }
    for (int b = 0; b < l->t->nv; b += wide)
        for (int i = 0; i < rows; i++, out += wide)
            for (int j = 0; j < wide; j += 4)
                for (int q = 0; q < 4; q++)
                    out[j + q] = row[i];
}

// n words, four at a time.
static inline unsigned char *put_run(unsigned char *restrict to, uint32_t op,
                                     const uint32_t *restrict a,
                                     const uint32_t *restrict b, int n)
{
    for (int i = 0; i < n; i += 4) {
        uint32_t four[4];
        for (int q = 0; q < 4; q++)
            four[q] = dv_code_low_first(op | a[i + q] | b[i + q]);
        memcpy(to + 4 * i, four, sizeof four);
    }
    return to + 4 * n;
}

// A step on its way: where it stands in its group, the group, its registers.
static void begin_step(dv_steps *w, int s)
{
    dv_fields *acc = &w->acc, *row = &w->row;
    if (!(acc->known >> acc->at & 1))
        make_acc(w, s, w->wide, acc->words[acc->at]);
    if (!(row->known >> row->at & 1))
        make_row(w, w->group, w->wide, row->words[row->at]);
    acc->known |= acc->period ? 1 << acc->at : 0;
    row->known |= row->period ? 1 << row->at : 0;
}

static void end_step(dv_steps *w)
{
    dv_fields *acc = &w->acc, *row = &w->row;
    acc->at = acc->at + 1 < acc->period ? acc->at + 1 : 0;
    if (++w->in < w->s.steps)
        return;
    w->in = 0;
    w->group++;
    row->at = row->at + 1 < row->period ? row->at + 1 : 0;
}

static uint32_t op_of(const dv_steps *w, int s, int fresh)
{
    int lane = w->l->p->lane_k ? lane_of(w->l, w->g, s) : 0;
    return w->ops[s < fresh][lane];
}

// The loads that are due in a step: the first of them.
static const dv_due *due_in(const dv_steps *w)
{
    return w->due + (w->in ? w->due_end[w->in - 1] : 0);
}

// One step, with the loads that are due before each of its multiply-adds.
static void put_step(dv_steps *w, int s, int fresh)
{
    int at = 0, groups[2] = {s - w->in, w->group};
    const dv_due *end = w->due + w->due_end[w->in];
    const uint32_t *acc = w->acc.words[w->acc.at];
    const uint32_t *row = w->row.words[w->row.at];
    uint32_t op = op_of(w, s, fresh);
    dv_code *code = w->g->code;
    unsigned char *to = code->at + code->n;
    for (const dv_due *d = due_in(w); d < end; d++) {
        to = put_run(to, op, acc + at, row + at, d->slot - at);
        at = d->slot;
        to = put_load(w, to, d->is_s, groups[d->is_s] + d->ahead, d->i);
    }
    to = put_run(to, op, acc + at, row + at, w->size - at);
    code->n = (size_t)(to - code->at);
}

// The last step, a row at a time; the sums of each are stored meanwhile.
static void put_last(dv_steps *w, int s, int fresh)
{
    const dv_kloop *l = w->l;
    int nv = l->t->nv, groups[2] = {s - w->in, w->group};
    const dv_due *d = due_in(w), *end = w->due + w->due_end[w->in];
    const uint32_t *acc = w->acc.words[w->acc.at];
    const uint32_t *row = w->row.words[w->row.at];
    uint32_t op = op_of(w, s, fresh);
    dv_code *code = w->g->code;
    for (int i = 0, n = 0; i < l->t->rows; i++)
        for (int j = 0; j < nv; j++, n++) {
            unsigned char *to = code->at + code->n;
            for (; d < end && d->slot <= n; d++)
                to = put_load(w, to, d->is_s, groups[d->is_s] + d->ahead, d->i);
            to = put_word(to, op | acc[n] | row[n]);
            code->n = (size_t)(to - code->at);
            if (i > 0 && l->stores)
                dv_tile_store_one(w->g, l->p, l->t, i - 1, j);
        }
}

// -- Entry -------------------------------------------------------------------

void dv_steps_start(dv_steps *w, dv_kloop *l, dv_gen *g)
{
    w->l = l;
    w->g = g;
    w->size = l->t->rows * l->t->nv;
    w->wide = l->by_col ? l->by_col : l->t->nv;
    l->base = 0;
    start_loads(&w->v, l, &l->v, 1);
    start_loads(&w->s, l, &l->s, l->group);
    slots_of_v(l, w->v.slot);
    slots_of_s(l, g, w->s.slot);
    in_order(&w->v);
    in_order(&w->s);
    table_of_v(l, g, &w->v);
    table_of_s(l, g, &w->s);
    merge(w);
    plan_ops(w);
    w->in = w->group = 0;
    w->acc.period = period_of(l->v.per, l->v.size, l->t->sets);
    w->row.period = period_of(l->s.per, l->s.size, 1);
    w->acc.at = w->acc.known = w->row.at = w->row.known = 0;
    put_early(w, 0);
    put_early(w, 1);
}

void dv_steps_put(dv_steps *w, int begin, int end, int fresh)
{
    int last = w->l->stores || w->l->by_col ? w->l->steps - 1 : INT_MAX;
    for (int s = begin; s < end && has_room(w->g->code); s++) {
        if (s == last && w->wide != w->l->t->nv) { // in another order
            w->wide = w->l->t->nv;
            w->acc.known = w->row.known = 0;
        }
        begin_step(w, s);
        if (s == last)
            put_last(w, s, fresh);
        else
            put_step(w, s, fresh);
        end_step(w);
    }
}

void dv_steps_rebase(dv_steps *w, int base)
{
    w->l->base = base;
    rebase(w->l, &w->v);
    rebase(w->l, &w->s);
    move_to(&w->v, w->v.group);
    move_to(&w->s, w->s.group);
}
