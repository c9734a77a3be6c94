// Properties of placements of random buffers with in-place parents, groups,
// fixed addresses, alignments and bars. Every solver's answer is legal (S1 to
// S5) and its value is at most the bound (S6); auto is no worse than any simple
// solver; exact finds what trying every address finds; stays save what a walk
// through the uses says they save; the same call gives the same answer.
#include "harness/test.h"
#include "harness/gen.h"
#include "base/diag.h"
#include "base/text.h"
#include "place/place.h"
#include <inttypes.h>

enum { MAX = 60, MAX_USES = 6, MAX_PARENTS = 3 };

typedef struct instance {
    dv_buffer buffers[MAX];
    dv_use uses[MAX][MAX_USES];
    int32_t parents[MAX][MAX_PARENTS];
    char names[MAX][16];
    int n;
    dv_place_options options;
} instance;

// -- Making instances --------------------------------------------------------

static void make_uses(rng *r, instance *x, int i, int64_t ticks)
{
    dv_buffer *b = &x->buffers[i];
    int64_t tick = rng_below(r, ticks);
    b->uses = x->uses[i];
    b->start = tick;
    do {
        x->uses[i][b->n_uses].tick = tick;
        x->uses[i][b->n_uses].writes = b->n_uses ? rng_percent(r, 15) : 1;
        b->n_uses++;
        tick += 1 + rng_below(r, 1 + ticks / 4);
    } while (b->n_uses < MAX_USES && rng_percent(r, 60));
    b->end = b->uses[b->n_uses - 1].tick + 1;
    b->first_use_is_read = rng_percent(r, 15);
    x->uses[i][0].writes = !b->first_use_is_read;
}

// Chooses earlier buffers as parents whose last use is this buffer's first.
static void make_parents(rng *r, instance *x, int i)
{
    dv_buffer *b = &x->buffers[i];
    b->parents = x->parents[i];
    for (int p = 0; p < i && b->n_parents < MAX_PARENTS; p++) {
        if (b->first_use_is_read)
            return;
        const dv_buffer *q = &x->buffers[p];
        if (q->end != b->start + 1 || rng_percent(r, 30) ||
            (q->n_uses == 1 && !q->first_use_is_read))
            continue;
        if (rng_percent(r, 60))
            b->size_bytes = q->size_bytes;
        if (b->size_bytes > q->size_bytes)
            continue;
        x->parents[i][b->n_parents++] = p;
    }
    // Drops parents that have become too small.
    size_t kept = 0;
    for (size_t k = 0; k < b->n_parents; k++)
        if (x->buffers[x->parents[i][k]].size_bytes >= b->size_bytes)
            x->parents[i][kept++] = x->parents[i][k];
    b->n_parents = kept;
}

static int meets(const dv_buffer *a, const dv_buffer *b)
{
    return a->start < b->end && b->start < a->end;
}

// Fixes the buffer at an address where no other fixed buffer is.
static void fix(rng *r, instance *x, int i)
{
    dv_buffer *b = &x->buffers[i];
    int64_t align = b->align_bytes ? b->align_bytes : 1;
    int64_t room = x->options.capacity_bytes - b->size_bytes;
    if (room < 0 || b->barred || b->group)
        return;
    int64_t at = rng_below(r, room / align + 1) * align;
    for (int k = 0; k < i; k++) {
        const dv_buffer *o = &x->buffers[k];
        if (o->fixed_address >= 0 && meets(b, o) &&
            o->fixed_address < at + b->size_bytes &&
            at < o->fixed_address + o->size_bytes)
            return;
    }
    b->fixed_address = at;
}

static instance *make(uint64_t seed, int most, int64_t capacity)
{
    rng r = {seed * 2654435761u};
    instance *x = calloc(1, sizeof *x);
    static const int64_t aligns[] = {0, 0, 0, 1, 2, 4, 3};
    x->n = (int)rng_below(&r, most + 1);
    x->options = (dv_place_options)DV_PLACE_OPTIONS_INIT;
    x->options.capacity_bytes = 1 + rng_below(&r, capacity);
    x->options.seed = seed;
    int mixed = rng_percent(&r, 30), fixed = rng_percent(&r, 30);
    int groups = rng_percent(&r, 30), plain = rng_percent(&r, 30);
    for (int i = 0; i < x->n; i++) {
        dv_buffer *b = &x->buffers[i];
        *b = (dv_buffer)DV_BUFFER_INIT;
        snprintf(x->names[i], sizeof x->names[i], "b%d", i);
        b->name = x->names[i];
        b->size_bytes = 1 + rng_below(&r, 1 + capacity / 2);
        make_uses(&r, x, i, 3 + x->n);
        if (!plain)
            make_parents(&r, x, i);
        if (mixed)
            b->align_bytes = aligns[rng_below(&r, 7)];
        if (rng_percent(&r, 30))
            b->weight = rng_below(&r, 50);
        if (rng_percent(&r, 4))
            b->barred = "barred";
        if (groups && rng_percent(&r, 40))
            b->group = 1 + (int32_t)rng_below(&r, 3);
        if (fixed && rng_percent(&r, 20))
            fix(&r, x, i);
    }
    return x;
}

static char *as_text(const instance *x)
{
    dv_text out = {0};
    dv_put(&out, "capacity %" PRId64 "\n", x->options.capacity_bytes);
    for (int i = 0; i < x->n; i++) {
        const dv_buffer *b = &x->buffers[i];
        dv_put(&out,
               "%s size %" PRId64 " [%" PRId64 ", %" PRId64 ") align %" PRId64
               " fixed %" PRId64 " weight %" PRId64 " group %d%s uses",
               b->name, b->size_bytes, b->start, b->end, b->align_bytes,
               b->fixed_address, b->weight, (int)b->group,
               b->barred ? " barred" : "");
        for (size_t u = 0; u < b->n_uses; u++)
            dv_put(&out, " %" PRId64 "%s", b->uses[u].tick,
                   b->uses[u].writes ? "w" : "");
        for (size_t p = 0; p < b->n_parents; p++)
            dv_put(&out, "%s b%d", p ? "," : " on", (int)b->parents[p]);
        dv_put(&out, "\n");
    }
    return dv_text_take(&out);
}

// -- Trying every address ----------------------------------------------------

typedef struct brute {
    const instance *x;
    int64_t at[MAX];
    int64_t weight[MAX], rest[MAX + 1];
    int64_t best;
} brute;

static int64_t weight_of(const dv_buffer *b)
{
    if (b->weight >= 0)
        return b->weight;
    return ((int64_t)b->n_uses - b->first_use_is_read) * b->size_bytes;
}

static int on_base(const dv_buffer *child, int parent)
{
    for (size_t k = 0; k < child->n_parents; k++)
        if (child->parents[k] == parent)
            return 1;
    return 0;
}

static int clashes(const brute *b, int i, int k)
{
    const dv_buffer *p = &b->x->buffers[i], *q = &b->x->buffers[k];
    if (b->at[k] < 0 || !meets(p, q) || b->at[i] >= b->at[k] + q->size_bytes ||
        b->at[k] >= b->at[i] + p->size_bytes)
        return 0;
    return b->at[i] != b->at[k] || !(on_base(p, k) || on_base(q, i));
}

static void judge(brute *b)
{
    int64_t value = 0;
    for (int i = 0; i < b->x->n; i++) {
        int whole = b->at[i] >= 0;
        for (int k = 0; k < b->x->n; k++)
            if (b->x->buffers[i].group &&
                b->x->buffers[k].group == b->x->buffers[i].group)
                whole &= b->at[k] >= 0;
        value += whole ? b->weight[i] : 0;
    }
    b->best = value > b->best ? value : b->best;
}

static void try_all(brute *b, int i, int64_t kept)
{
    if (kept + b->rest[i] <= b->best)
        return;
    if (i == b->x->n) {
        judge(b);
        return;
    }
    const dv_buffer *p = &b->x->buffers[i];
    int64_t align = p->align_bytes ? p->align_bytes : 1;
    int64_t top = p->barred ? -1 : b->x->options.capacity_bytes - p->size_bytes;
    for (int64_t at = 0; at <= top; at += align) {
        if (p->fixed_address >= 0 && at != p->fixed_address)
            continue;
        int ok = 1;
        b->at[i] = at;
        for (int k = 0; ok && k < i; k++)
            ok = !clashes(b, i, k);
        if (ok)
            try_all(b, i + 1, kept + b->weight[i]);
    }
    b->at[i] = -1;
    if (p->fixed_address < 0)
        try_all(b, i + 1, kept);
}

static int64_t brute_force(const instance *x)
{
    brute b = {.x = x, .best = -1};
    for (int i = x->n - 1; i >= 0; i--) {
        b.weight[i] = weight_of(&x->buffers[i]);
        b.rest[i] = b.rest[i + 1] + b.weight[i];
    }
    try_all(&b, 0, 0);
    return b.best;
}

// -- Properties --------------------------------------------------------------

static int64_t sum(const instance *x, const dv_placement *p)
{
    int64_t value = 0;
    for (int i = 0; i < x->n; i++)
        value += p->addresses[i] >= 0 ? weight_of(&x->buffers[i]) : 0;
    return value;
}

// Returns whether buffer i is in memory from tick a to tick b without a break.
static int stays(const dv_placement *p, int i, int64_t a, int64_t b)
{
    for (size_t k = 0; k < p->n_stays; k++) {
        const dv_stay *s = &p->stays[k];
        if (s->buffer != i || s->start > a || s->end <= a)
            continue;
        if (s->end > b || (s->end - 1 > a && stays(p, i, s->end - 1, b)))
            return 1;
    }
    return 0;
}

// Returns how many transfers of the whole buffer main memory is spared.
static int64_t spared(const instance *x, const dv_placement *p, int i)
{
    const dv_buffer *b = &x->buffers[i];
    int64_t cost = 0;
    int in_main = b->first_use_is_read; // main memory has the current value
    for (size_t u = 0; u < b->n_uses; u++) {
        int64_t tick = b->uses[u].tick;
        int writes = u ? b->uses[u].writes : !b->first_use_is_read;
        if (writes) {
            in_main = !stays(p, i, tick, tick);
            cost += in_main;
        } else if (u == 0 || !stays(p, i, b->uses[u - 1].tick, tick)) {
            cost += 1 + !in_main; // read it and, the first time, write it back
            in_main = 1;
        }
    }
    return (int64_t)b->n_uses - cost;
}

static int64_t sum_spared(const instance *x, const dv_placement *p)
{
    int64_t value = 0;
    for (int i = 0; i < x->n; i++) {
        const dv_buffer *b = &x->buffers[i];
        int whole = b->weight >= 0 || b->group || b->fixed_address >= 0;
        if (p->addresses[i] >= 0)
            value += whole ? weight_of(b) : spared(x, p, i) * b->size_bytes;
    }
    return value;
}

static int same(const dv_placement *p, const dv_placement *q)
{
    return p->n_stays == q->n_stays && p->value == q->value &&
           p->steps == q->steps &&
           memcmp(p->stays, q->stays, p->n_stays * sizeof *p->stays) == 0;
}

// One solver's answer is legal, within the bound, and the same twice; *value is
// its value.
static int solver_holds(const instance *x, dv_solver method, int evict,
                        int64_t *value)
{
    const char *solver = dv_solver_name(method);
    dv_place_options o = x->options;
    dv_placement *p = NULL, *q = NULL;
    dv_diag *diag = dv_diag_create();
    o.solver = method;
    o.evict = evict;
    o.budget = 300000;
    int ok = 1;
    if (dv_place(&p, x->buffers, (size_t)x->n, &o, diag) ||
        dv_placement_check(p, x->buffers, &o, diag))
        ok = case_no("%s: %s", solver, dv_diag_text(diag));
    else if (dv_place(&q, x->buffers, (size_t)x->n, &o, diag) || !same(p, q))
        ok = case_no("%s: not the same twice", solver);
    else if (p->value > p->bound)
        ok = case_no("%s: value %" PRId64 " above the bound %" PRId64, solver,
                     p->value, p->bound);
    else if (p->value != (evict ? sum_spared(x, p) : sum(x, p)))
        ok = case_no("%s: value %" PRId64 ", not %" PRId64 " or %" PRId64,
                     solver, p->value, sum(x, p), sum_spared(x, p));
    *value = p ? p->value : 0;
    dv_placement_destroy(p);
    dv_placement_destroy(q);
    dv_diag_destroy(diag);
    return ok;
}

static int holds(const instance *x)
{
    int64_t best = 0, value, evicting;
    for (dv_solver i = DV_SOLVER_AUTO; dv_solver_name(i); i++) {
        if (!solver_holds(x, i, 0, &value) || !solver_holds(x, i, 1, &evicting))
            return 0;
        if (i == DV_SOLVER_AUTO)
            best = value;
        if (value > best && i != DV_SOLVER_EXACT && i != DV_SOLVER_ANNEAL)
            return case_no("auto keeps %" PRId64 ", %s %" PRId64, best,
                           dv_solver_name(i), value);
    }
    return 1;
}

static int exact_holds(const instance *x)
{
    dv_place_options o = x->options;
    dv_placement *p = NULL;
    dv_diag *diag = dv_diag_create();
    int64_t want = brute_force(x);
    int ok = 1;
    o.solver = DV_SOLVER_EXACT;
    if (dv_place(&p, x->buffers, (size_t)x->n, &o, diag) ||
        dv_placement_check(p, x->buffers, &o, diag))
        ok = case_no("%s", dv_diag_text(diag));
    else if (p->value != want)
        ok = case_no("exact keeps %" PRId64 ", every address tried %" PRId64,
                     p->value, want);
    else if (p->bound != want)
        ok = case_no("the bound is %" PRId64 ", the best %" PRId64, p->bound,
                     want);
    dv_placement_destroy(p);
    dv_diag_destroy(diag);
    return ok;
}

static void check(int cases, int most, int64_t capacity, const char *name,
                  int (*property)(const instance *))
{
    uint64_t seed = gen_seed();
    for (int i = 0; i < gen_cases(cases); i++) {
        instance *x = make(seed + (uint64_t)i, most, capacity);
        if (!property(x)) {
            char *text = as_text(x);
            gen_report(name, seed + (uint64_t)i, GEN_INTEGERS, text,
                       case_why());
            dv_release(text);
            free(x);
            fail();
        }
        free(x);
    }
}

TEST(test_solvers)
{
    check(120, 40, 64, "solvers", holds);
}

TEST(test_exact)
{
    check(1500, 6, 9, "exact", exact_holds);
    check(60, 9, 7, "exact", exact_holds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_solvers),
        cmocka_unit_test(test_exact),
    };
    return run_group(tests, NULL, NULL);
}
