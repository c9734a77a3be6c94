// Properties of schedules for random graphs: each is valid and takes as long as
// it says (F1 to F8), its bound is not above its total, it is no worse than
// every op alone (F9), no worse than any schedule of a tiny graph with tiles of
// a small set, and the same call gives the same schedule.
#include "harness/test.h"
#include "harness/gen.h"
#include "divvy/fuse.h"
#include <inttypes.h>

enum { MAX_OPS = 70, MAX_TENSORS = 300, NATIVE = 16 };

typedef struct instance {
    dv_fuse_tensor tensors[MAX_TENSORS];
    dv_fuse_op ops[MAX_OPS];
    int32_t inputs[MAX_OPS][3];
    dv_fuse_problem p;
    dv_fuse_options o;
} instance;

// -- Making instances --------------------------------------------------------

static int32_t new_tensor(instance *x, int64_t width, int64_t height)
{
    x->tensors[x->p.n_tensors] = (dv_fuse_tensor){width, height};
    return (int32_t)x->p.n_tensors++;
}

static int64_t extent(rng *r)
{
    return 4 + 4 * rng_below(r, 8);
}

// Returns a tensor with this width and height (0: any), often an old one.
static int32_t some_tensor(rng *r, instance *x, int64_t width, int64_t height)
{
    int32_t fit[MAX_TENSORS], n = 0;
    for (size_t t = 0; t < x->p.n_tensors; t++)
        if ((!width || x->tensors[t].width == width) &&
            (!height || x->tensors[t].height == height))
            fit[n++] = (int32_t)t;
    if (n && rng_percent(r, 75))
        return fit[rng_below(r, n)];
    return new_tensor(x, width ? width : extent(r),
                      height ? height : extent(r));
}

static void make_op(rng *r, instance *x)
{
    size_t o = x->p.n_ops++;
    int32_t *in = x->inputs[o];
    int64_t w, h;
    in[0] = some_tensor(r, x, 0, 0);
    dv_fuse_op op = {.inputs = in,
                     .n_inputs = 1,
                     .base_cost = (double)(1 + rng_below(r, 400))};
    w = x->tensors[in[0]].width;
    h = x->tensors[in[0]].height;
    if (rng_percent(r, 50)) {
        op.kind = DV_FUSE_MATMUL;
        op.n_inputs = 2;
        in[1] = some_tensor(r, x, 0, w);
        w = x->tensors[in[1]].width;
    } else {
        op.n_inputs = (size_t)(1 + rng_below(r, 3));
        for (size_t i = 1; i < op.n_inputs; i++)
            in[i] = some_tensor(r, x, w, h);
    }
    op.output = new_tensor(x, w, h);
    x->ops[o] = op;
}

static void make(rng *r, instance *x, int n)
{
    memset(x, 0, sizeof *x);
    x->o = (dv_fuse_options)DV_FUSE_OPTIONS_INIT;
    x->o.reading = rng_percent(r, 30) ? DV_FUSE_FULL : DV_FUSE_NATIVE;
    x->o.budget = 2000;
    for (int i = 0; i < n; i++)
        make_op(r, x);
    x->p.tensors = x->tensors;
    x->p.ops = x->ops;
    x->p.native_width = NATIVE;
    x->p.native_height = rng_percent(r, 70) ? NATIVE : NATIVE / 2;
    x->p.capacity_elems = 200 + rng_below(r, rng_percent(r, 50) ? 800 : 4000);
    x->p.bandwidth = (double)(1 + rng_below(r, 20));
}

// -- Properties --------------------------------------------------------------

static int same(const dv_fuse_schedule *a, const dv_fuse_schedule *b)
{
    if (a->n_entries != b->n_entries)
        return 0;
    for (size_t i = 0; i < a->n_entries; i++) {
        const dv_fuse_entry *x = &a->entries[i], *y = &b->entries[i];
        if (x->n_ops != y->n_ops || x->width != y->width ||
            x->height != y->height || x->depth != y->depth ||
            memcmp(x->ops, y->ops, x->n_ops * sizeof *x->ops) ||
            x->n_retained != y->n_retained || x->latency != y->latency)
            return 0;
    }
    return 1;
}

// The total of every op alone, as problems of one op.
static double one_by_one(const instance *x)
{
    double sum = 0;
    for (size_t o = 0; o < x->p.n_ops; o++) {
        dv_fuse_problem p = x->p;
        dv_fuse_schedule *s = NULL;
        p.ops = &x->ops[o];
        p.n_ops = 1;
        assert_int_equal(dv_fuse(&s, &p, &x->o, NULL), DV_OK);
        sum += s->total;
        dv_fuse_schedule_destroy(s);
    }
    return sum;
}

static int holds(const instance *x, dv_fuse_schedule **out)
{
    dv_fuse_schedule *again = NULL;
    dv_diag *diag = dv_diag_create();
    dv_status st = dv_fuse(out, &x->p, &x->o, diag);
    if (st == DV_OK)
        st = dv_fuse_check(*out, &x->p, &x->o, diag);
    if (st != DV_OK)
        case_no("%s", dv_diag_text(diag));
    dv_diag_destroy(diag);
    if (st != DV_OK)
        return 0;
    assert_int_equal(dv_fuse(&again, &x->p, &x->o, NULL), DV_OK);
    int equal = same(*out, again);
    dv_fuse_schedule_destroy(again);
    if (!equal)
        return case_no("the second call gives another schedule");
    double single = one_by_one(x);
    if ((*out)->total > single * (1 + 1e-9))
        return case_no("total %g, one by one %g", (*out)->total, single);
    return 1;
}

static void run_cases(const char *name, int usual,
                      int (*property)(rng *r, instance *x))
{
    static instance x;
    uint64_t seed = gen_seed();
    for (int i = 0; i < gen_cases(usual); i++) {
        rng r = {seed + (uint64_t)i};
        if (!property(&r, &x))
            fail_msg("%s: DV_SEED=%" PRIu64 ": %s", name, seed + (uint64_t)i,
                     case_why());
    }
}

static int random_graph(rng *r, instance *x)
{
    dv_fuse_schedule *s = NULL;
    make(r, x, (int)(1 + rng_below(r, rng_percent(r, 20) ? MAX_OPS : 20)));
    // Enough for the exact search and the bound, or for a short local search.
    x->o.budget = rng_percent(r, 25) ? 30000 : 2000;
    int ok = holds(x, &s);
    dv_fuse_schedule_destroy(s);
    return ok;
}

TEST(test_random_graphs)
{
    run_cases("random_graphs", 200, random_graph);
}

// -- Tiny graphs: every schedule without recomputation -----------------------

enum { TINY = 4, N_SIZES = 24, SMALLEST = NATIVE / 4, MAX_TILES = 64 };

// A schedule: the entry of each op, and one retained tensor per entry.
typedef struct trial {
    const instance *x;
    int entry_of[TINY], n_entries;
    int32_t ops[TINY][TINY], keep[TINY];
    int64_t order[MAX_TILES];
    dv_fuse_entry entries[TINY];
    double best;
} trial;

// Gives an entry size number i; every second one has its tiles in a snake.
static void set_size(trial *t, dv_fuse_entry *e, int i)
{
    static const int64_t sides[] = {NATIVE / 4, NATIVE / 2, NATIVE};
    // Nothing inside reads what the last op writes, so that it leaves.
    int32_t out = t->x->ops[e->ops[e->n_ops - 1]].output;
    e->width = sides[i / 2 % 3];
    e->height = sides[i / 6 % 2];
    e->depth = sides[i / 12 + 1];
    e->order = i % 2 ? t->order : NULL;
    int64_t nx = (t->x->tensors[out].width + e->width - 1) / e->width;
    int64_t ny = (t->x->tensors[out].height + e->height - 1) / e->height;
    e->n_tiles = (size_t)(nx * ny);
    for (int64_t k = 0; k < nx * ny; k++)
        t->order[k] = k / nx % 2 ? k / nx * nx + nx - 1 - k % nx : k;
}

static void set_smallest(dv_fuse_entry *e)
{
    e->width = e->height = e->depth = SMALLEST;
    e->order = NULL;
}

// Finds the best size of each entry while the others have small tiles. The
// latency of an entry does not depend on the tiles of others.
static void try_sizes(trial *t)
{
    dv_fuse_schedule s = {.entries = t->entries,
                          .n_entries = (size_t)t->n_entries};
    double got[TINY], total = 0;
    for (int i = 0; i < t->n_entries; i++)
        set_smallest(&t->entries[i]);
    if (dv_fuse_evaluate(got, &s, &t->x->p, &t->x->o, NULL))
        return;
    for (int i = 0; i < t->n_entries; i++) {
        double least = got[i], now[TINY];
        for (int k = 0; k < N_SIZES; k++) {
            set_size(t, &t->entries[i], k);
            if (!dv_fuse_evaluate(now, &s, &t->x->p, &t->x->o, NULL) &&
                now[i] < least)
                least = now[i];
        }
        set_smallest(&t->entries[i]);
        total += least;
    }
    if (total < t->best)
        t->best = total;
}

// Tries every choice of at most one retained tensor per entry.
static void try_keeps(trial *t, int entry)
{
    if (entry == t->n_entries) {
        try_sizes(t);
        return;
    }
    dv_fuse_entry *e = &t->entries[entry];
    e->n_retained = 0;
    try_keeps(t, entry + 1);
    for (size_t i = 0; entry + 1 < t->n_entries && i < e->n_ops; i++) {
        t->keep[entry] = t->x->ops[e->ops[i]].output;
        e->retained = &t->keep[entry];
        e->n_retained = 1;
        try_keeps(t, entry + 1);
    }
    e->n_retained = 0;
}

// Tries every assignment of the ops to numbered entries.
static void try_entries(trial *t, int op)
{
    int n = (int)t->x->p.n_ops;
    if (op < n) {
        for (int i = 0; i < n; i++) {
            t->entry_of[op] = i;
            try_entries(t, op + 1);
        }
        return;
    }
    memset(t->entries, 0, sizeof t->entries);
    t->n_entries = 0;
    for (int i = 0; i < n; i++) {
        dv_fuse_entry *e = &t->entries[t->n_entries];
        for (int o = 0; o < n; o++)
            if (t->entry_of[o] == i)
                t->ops[t->n_entries][e->n_ops++] = o;
        e->ops = t->ops[t->n_entries];
        if (!e->n_ops && i < n - 1)
            for (int o = 0; o < n; o++)
                if (t->entry_of[o] > i)
                    return; // the same as one without the empty entry
        t->n_entries += e->n_ops > 0;
    }
    try_keeps(t, 0);
}

static int tiny_graph(rng *r, instance *x)
{
    dv_fuse_schedule *s = NULL;
    make(r, x, rng_percent(r, 10) ? TINY : (int)(2 + rng_below(r, 2)));
    x->o.budget = 20000;
    trial t = {.x = x, .best = 1e300};
    int ok = holds(x, &s);
    if (ok) {
        try_entries(&t, 0);
        ok = s->total <= t.best * (1 + 1e-9) ||
             case_no("total %.9g, another schedule takes %.9g", s->total,
                     t.best);
    }
    dv_fuse_schedule_destroy(s);
    return ok;
}

TEST(test_tiny_graphs)
{
    run_cases("tiny_graphs", 150, tiny_graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_tiny_graphs),
    };
    return run_group(tests, NULL, NULL);
}
