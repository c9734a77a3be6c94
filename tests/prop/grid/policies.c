// Random plans of tiles on cores, checked by counting every step: each is done
// once, on a core that may be used (C21), and a core's arguments alone describe
// the same work. Lint accepts each plan, and finds a defect that is then put
// in.
#include "harness/test.h"
#include "grid/grid.h"
#include "harness/gen.h"
#include <inttypes.h>

enum { MAX_STEPS = 3 * 16 * 16 * 6, MAX_RECTS = 3 };

typedef struct sample {
    int64_t shape[3];
    dv_core_rect holes[MAX_RECTS];
    dv_shard_spec shard;
    dv_grid_task task;
    char order[2000], policy[32];
} sample;

// -- Making one --------------------------------------------------------------

static void pick_words(sample *s, rng *r, int64_t kt)
{
    static const char *const orders[] = {
        "row_major", "column_major",     "snake",       "grouped(%d)", "morton",
        "hilbert",   "block_linear(%d)", "swizzle(%d)", "zigzag"};
    static const char *const policies[] = {
        "static",     "rect",       "streamk",   "streamk1", "streamk2",
        "splitk(%d)", "ticket(%d)", "steal(%d)", "auto",     "dynamic"};
    const char *order = orders[rng_below(r, 9)];
    const char *policy = policies[rng_below(r, 10)];
    // Puts a random number into the names above that have a %d.
    int64_t most = policy[0] == 's' && policy[1] == 'p' ? kt : 5;
    const char *at = strchr(order, '(');
    snprintf(s->order, sizeof s->order, "%.*s",
             (int)(at ? at - order : (ptrdiff_t)strlen(order)), order);
    if (at)
        snprintf(s->order + strlen(s->order), 16, "(%d)",
                 (int)rng_below(r, 6) + 1);
    at = strchr(policy, '(');
    snprintf(s->policy, sizeof s->policy, "%.*s",
             (int)(at ? at - policy : (ptrdiff_t)strlen(policy)), policy);
    if (at)
        snprintf(s->policy + strlen(s->policy), 16, "(%d)",
                 (int)rng_below(r, most) + 1);
    s->task.order = s->order;
    s->task.policy = s->policy;
}

// An order of one's own: a random permutation of the tiles.
static void pick_list(sample *s, rng *r)
{
    int64_t mt = (s->shape[1] + 7) / 8, nt = (s->shape[2] + 7) / 8;
    int tiles[16 * 16], n = (int)(mt * nt);
    size_t len = (size_t)snprintf(s->order, sizeof s->order,
                                  "list(%dx%d:", (int)mt, (int)nt);
    for (int i = 0; i < n; i++) {
        int k = (int)rng_below(r, i + 1);
        tiles[i] = tiles[k];
        tiles[k] = i;
    }
    for (int i = 0; i < n; i++)
        len += (size_t)snprintf(s->order + len, sizeof s->order - len, " %d",
                                tiles[i]);
    snprintf(s->order + len, sizeof s->order - len, ")");
}

static void pick(sample *s, uint64_t seed)
{
    rng r = {seed};
    dv_grid_task *t = &s->task;
    *t = (dv_grid_task)DV_GRID_TASK_INIT;
    int64_t kt = rng_below(&r, 6) + 1;
    s->shape[0] = rng_percent(&r, 70) ? 1 : rng_below(&r, 3) + 1;
    s->shape[1] = rng_below(&r, 16 * 8) + 1;
    s->shape[2] = rng_below(&r, 16 * 8) + 1;
    t->tile_rows = t->tile_cols = 8;
    t->shape = s->shape;
    t->n_dims = 3;
    t->depth = kt * 8 - rng_below(&r, 8);
    int large = rng_percent(&r, 10); // small ones find as much and are faster
    t->core_cols = rng_below(&r, large ? 10 : 5) + 1;
    t->core_rows = rng_below(&r, large ? 9 : 5) + 1;
    t->split = rng_percent(&r, 50) ? DV_CORES_BY_ROW : DV_CORES_BY_COLUMN;
    pick_words(s, &r, kt);
    if (rng_percent(&r, 15)) { // shards, which determine the size of the result
        s->shard = (dv_shard_spec){
            "c",
            {rng_below(&r, t->core_rows) + 1, rng_below(&r, t->core_cols) + 1},
            {rng_below(&r, 3) + 1, rng_below(&r, 3) + 1}};
        s->shape[0] = 1;
        s->shape[1] = s->shard.grid[0] * s->shard.tiles[0] * 8;
        s->shape[2] = s->shard.grid[1] * s->shard.tiles[1] * 8;
        t->shards = &s->shard;
        t->n_shards = 1;
        t->policy = NULL;
        return;
    }
    if (rng_percent(&r, 15))
        pick_list(s, &r);
    t->holes = s->holes;
    int64_t n = rng_percent(&r, 50) ? rng_below(&r, MAX_RECTS + 1) : 0;
    for (int64_t i = 0; i < n; i++) {
        dv_core_rect *h = &s->holes[i];
        h->x0 = (int32_t)rng_below(&r, t->core_cols);
        h->y0 = (int32_t)rng_below(&r, t->core_rows);
        h->x1 = h->x0 + (int32_t)rng_below(&r, t->core_cols - h->x0);
        h->y1 = h->y0 + (int32_t)rng_below(&r, t->core_rows - h->y0);
        t->n_holes++;
    }
}

// -- Counting ----------------------------------------------------------------

static int count_tile(const dv_grid *g, uint8_t *done, int64_t b, int64_t m,
                      int64_t n, int64_t k0, int64_t k1)
{
    int good = b >= 0 && b < g->batch && m >= 0 && m < g->mt && n >= 0 &&
               n < g->nt && k0 >= 0 && k1 <= g->kt && k0 < k1;
    for (int64_t k = k0; good && k < k1; k++)
        done[((b * g->mt + m) * g->nt + n) * g->kt + k]++;
    return good;
}

static int count_id(const dv_grid *g, uint8_t *done, int64_t id, int64_t k0,
                    int64_t k1)
{
    int64_t bmn[3];
    if (id < 0 || id >= g->n_tiles)
        return 0;
    dv_grid_tile(g, id, bmn);
    return count_tile(g, done, bmn[0], bmn[1], bmn[2], k0, k1);
}

// Counts the steps that a kernel would do which knows only its arguments.
static int count_args(const dv_grid *g, const dv_grid_core *c, uint8_t *done)
{
    const int64_t *a = c->args;
    int good = 1;
    if (g->local_shard) {
        for (int64_t t = 0; t < a[1]; t++) {
            int64_t m = a[9] * a[5] + t / a[6], n = a[10] * a[6] + t % a[6];
            good &= count_tile(g, done, m / a[2], m % a[2], n, 0, a[3]);
        }
    } else if (g->policy == DV_POLICY_RECT) {
        for (int64_t b = 0; b < g->batch; b++)
            for (int64_t m = a[5]; m < a[6]; m++)
                for (int64_t n = a[7]; n < a[8]; n++)
                    good &= count_tile(g, done, b, m, n, 0, a[3]);
    } else if (g->policy >= DV_POLICY_STREAMK &&
               g->policy <= DV_POLICY_SPLITK) {
        for (int64_t i = 0; i < a[8]; i++)
            good &= count_id(g, done, a[7] + i, 0, a[3]);
        for (int64_t i = 0; i < a[1]; i++)
            good &= count_id(g, done, a[0] + i, i ? 0 : a[5],
                             i == a[1] - 1 ? a[6] : a[3]);
    } else {
        for (int64_t i = 0; i < a[1]; i++)
            good &= count_id(g, done, a[0] + i, 0, a[3]);
    }
    return good;
}

static const char *wrong_with(const dv_grid *g)
{
    static uint8_t done[MAX_STEPS], listed[MAX_STEPS];
    uint8_t used[16 * 16] = {0};
    int64_t in_ranges = 0;
    if (g->n_steps > MAX_STEPS)
        return "too large a sample";
    memset(done, 0, (size_t)g->n_steps);
    memset(listed, 0, (size_t)g->n_steps);
    for (int32_t i = 0; i < g->n_cores; i++) {
        const dv_grid_core *c = &g->cores[i];
        if (c->x < 0 || c->x >= g->set.cols || c->y < 0 ||
            c->y >= g->set.rows || !g->set.allowed[c->y * g->set.cols + c->x])
            return "a core that may not be used";
        if (used[c->y * 16 + c->x]++)
            return "a core twice";
        if (!count_args(g, c, done))
            return "arguments beyond the tiles";
        for (int32_t s = 0; s < c->n_segments; s++)
            for (int64_t k = 0; k < c->segments[s].count; k++)
                if (!count_id(g, listed, c->segments[s].first + k,
                              c->segments[s].k0, c->segments[s].k1))
                    return "segments beyond the tiles";
    }
    int ranges = !g->local_shard && g->policy != DV_POLICY_RECT;
    for (int64_t i = 0; i < g->n_steps; i++)
        if (done[i] != 1 || (ranges && listed[i] != 1))
            return "a step that is not done once";
    for (int32_t i = 0; i < g->all.n; i++)
        for (int32_t y = g->all.at[i].y0; y <= g->all.at[i].y1; y++)
            for (int32_t x = g->all.at[i].x0; x <= g->all.at[i].x1; x++) {
                if (used[y * 16 + x] != 1)
                    return "ranges with other cores";
                used[y * 16 + x]++;
                in_ranges++;
            }
    return in_ranges == g->n_cores ? NULL : "ranges without some core";
}

// -- Lint --------------------------------------------------------------------

static int64_t defects(const dv_grid *g, char **report)
{
    dv_text text = {0};
    int64_t n = -1;
    dv_grid_put_json(&text, g, 0);
    if (dv_lint(NULL, text.at, text.len, "plan", NULL, &n, report, NULL) !=
        DV_OK)
        n = -1;
    dv_text_free(&text);
    return n;
}

// Finds a core that may not be used; returns 0 if all may be used.
static int find_hole(const dv_grid *g, rng *r, int32_t *x, int32_t *y)
{
    int64_t n = (int64_t)g->set.cols * g->set.rows, at = rng_below(r, n);
    for (int64_t i = 0; i < n; i++, at = (at + 1) % n)
        if (!g->set.allowed[at]) {
            *x = (int32_t)(at % g->set.cols);
            *y = (int32_t)(at / g->set.cols);
            return 1;
        }
    return 0;
}

// Puts one defect into the plan; returns 0 if the plan has no place for it.
static int break_it(dv_grid *g, rng *r)
{
    dv_grid_core *c = &g->cores[rng_below(r, g->n_cores)];
    dv_grid_core *d = &g->cores[rng_below(r, g->n_cores)];
    dv_grid_cb *b = &g->cbs[rng_below(r, g->n_cbs)];
    int64_t t;
    int32_t x, y;
    switch (rng_below(r, 14)) {
    case 0: // a tile is missing
        c->args[1]--;
        return 1;
    case 1: // a tile is done twice
        c->args[1]++;
        return 1;
    case 2: // the arguments of two cores are swapped
        if (!memcmp(c->args, d->args, sizeof c->args))
            return 0;
        for (int i = 0; i < DV_GRID_MAX_ARGS; i++)
            t = c->args[i], c->args[i] = d->args[i], d->args[i] = t;
        return 1;
    case 3: // a buffer is one byte too small
        b->page_bytes--;
        g->core_bytes -= b->tiles;
        return 1;
    case 4: // a core outside the grid
        c->x = g->set.cols;
        return 1;
    case 5: // a rectangle of cores is not launched
        g->all.n--;
        return 1;
    case 6: // cores that are in no group
        if (g->policy == DV_POLICY_RECT && !g->local_shard)
            return 0; // these policies may have none
        g->group_1.n--;
        return 1;
    case 7: // the last argument is wrong: a role, a chunk, an owner or a size
        c->args[g->n_args - 1]++;
        return 1;
    case 8: // work in a hole
        return find_hole(g, r, &c->x, &c->y);
    case 9: // a launch includes a hole
        if (!g->all.n || !find_hole(g, r, &x, &y))
            return 0;
        g->all.at[0].x0 = x < g->all.at[0].x0 ? x : g->all.at[0].x0;
        g->all.at[0].x1 = x > g->all.at[0].x1 ? x : g->all.at[0].x1;
        g->all.at[0].y0 = y < g->all.at[0].y0 ? y : g->all.at[0].y0;
        g->all.at[0].y1 = y > g->all.at[0].y1 ? y : g->all.at[0].y1;
        return 1;
    case 10: // arguments for work that the list does not have
        if (!c->n_segments)
            return 0;
        c->n_segments = 0;
        c->steps = 0;
        return 1;
    case 11: // one unit more than the cores of a group have
        if (g->policy == DV_POLICY_RECT && !g->local_shard)
            return 0; // these policies may have none
        g->units_1++;
        return 1;
    case 12: // two buffers overlap
        if (b == g->cbs)
            return 0;
        b->index = g->cbs[0].index;
        return 1;
    default: // the coordinates of another core
        if (c == d)
            return 0;
        c->x = d->x;
        c->y = d->y;
        return 1;
    }
}

TEST(plans)
{
    uint64_t seed = gen_seed();
    int n = gen_cases(106000), broken = 0, made = 0;
    for (int i = 0; i < n; i++) {
        sample s;
        dv_grid *g = NULL;
        char *report = NULL;
        pick(&s, seed + (uint64_t)i);
        if (dv_grid_create(&g, &s.task, NULL) != DV_OK)
            continue; // there are only holes
        made++;
        const char *why = wrong_with(g);
        int64_t found = defects(g, &report);
        if (why || found != 0)
            fail_msg("DV_SEED=%" PRIu64 " (%s, %s): %s; lint: %s",
                     seed + (uint64_t)i, s.order, s.policy, why ? why : "sound",
                     report ? report : "failed");
        dv_free(report);
        rng r = {seed + (uint64_t)i};
        if (i % 4 == 0 && g->n_cores && break_it(g, &r)) {
            report = NULL;
            if (defects(g, &report) < 1)
                fail_msg("DV_SEED=%" PRIu64 " (%s, %s): lint finds nothing "
                         "wrong with a broken plan",
                         seed + (uint64_t)i, s.order, s.policy);
            dv_free(report);
            broken++;
        }
        dv_grid_destroy(g);
    }
    print_message("%d plans, %d broken ones\n", made, broken);
    if (n > 1000) {
        assert_true(made > n * 9 / 10);
        assert_true(broken > n / 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans)};
    return run_group(tests, NULL, NULL);
}
