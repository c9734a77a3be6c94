// The homes of random plans are changed at random. The checker may refuse the
// change; if it accepts the plan, it must still read back, give what the oracle
// gives and move the predicted bytes (C11 to C15).
// tests/unit/scratch/residency.c has changes that must be refused.
#include "harness/test.h"
#include "harness/property.h"
#include "harness/random.h"
#include "scratch/scratch.h"

static int n_spoiled, n_accepted;

// -- Changes ---------------------------------------------------------------

static int32_t any(rng *r, int32_t n)
{
    return n > 0 ? (int32_t)rng_below(r, n) : 0;
}

static void change_readers(rng *r, dv_plan *plan, dv_home *h)
{
    int32_t n = h->n_readers, op = any(r, plan->ops->n_ops);
    if (rng_percent(r, 30) && n > 0) { // remove a reader
        h->readers[any(r, n)] = h->readers[n - 1];
        h->n_readers--;
    } else if (rng_percent(r, 50) && n > 0) { // replace a reader
        h->readers[any(r, n)] = op;
    } else { // add a reader
        int32_t *more = DV_NEW(&plan->arena, int32_t, n + 1);
        if (n)
            memcpy(more, h->readers, (size_t)n * sizeof *more);
        more[n] = op;
        h->readers = more;
        h->n_readers++;
    }
}

// Adds a home that is a copy of another one, at a random address.
static void add_home(rng *r, dv_plan *plan)
{
    dv_scratch *s = &plan->scratch;
    dv_home *homes = DV_NEW(&plan->arena, dv_home, s->n_homes + 1);
    memcpy(homes, s->homes, (size_t)s->n_homes * sizeof *homes);
    homes[s->n_homes] = homes[any(r, s->n_homes)];
    dv_home *h = &homes[s->n_homes];
    h->address = any(r, 16) * plan->target.scratch_align_bytes;
    h->in_place_of = -1;
    int32_t *readers = DV_NEW(&plan->arena, int32_t, h->n_readers);
    if (h->n_readers)
        memcpy(readers, h->readers, (size_t)h->n_readers * sizeof *readers);
    h->readers = readers;
    s->homes = homes;
    s->n_homes++;
}

static void swap_cores(rng *r, dv_plan *plan)
{
    dv_group *g = &plan->groups[any(r, plan->n_groups)];
    if (g->n_deals < 2)
        return;
    int32_t a = any(r, g->n_deals), b = any(r, g->n_deals);
    int64_t core = g->deals[a].core;
    g->deals[a].core = g->deals[b].core;
    g->deals[b].core = core;
    dv_group_note_deals(g);
}

static void spoil(rng *r, dv_plan *plan)
{
    dv_scratch *s = &plan->scratch;
    int64_t unit = plan->target.scratch_align_bytes;
    dv_home *h = &s->homes[any(r, s->n_homes)];
    dv_home *other = &s->homes[any(r, s->n_homes)];
    switch (rng_below(r, 15)) {
    case 0:
        h->address += (rng_below(r, 9) - 4) * unit;
        break;
    case 1:
        h->address = other->address;
        break;
    case 2:
        h->end_op += any(r, 5) - 2;
        break;
    case 3:
        h->first_op += any(r, 5) - 2;
        break;
    case 4:
        h->as_op = any(r, plan->ops->n_ops);
        break;
    case 5:
        h->fill = (dv_home_fill)rng_below(r, 4);
        h->from = any(r, s->n_homes);
        break;
    case 6:
        h->from = any(r, s->n_homes);
        break;
    case 7:
        h->in_place_of = any(r, s->n_homes + 1) - 1;
        h->address =
            h->in_place_of < 0 ? h->address : s->homes[h->in_place_of].address;
        break;
    case 8:
        h->stored = !h->stored;
        break;
    case 9:
        h->core_bytes += rng_below(r, 65) - 32;
        break;
    case 10:
        s->capacity_bytes -= any(r, 3) * unit;
        break;
    case 11:
        swap_cores(r, plan);
        break;
    case 12:
        add_home(r, plan);
        break;
    default:
        change_readers(r, plan, h);
    }
}

// -- One case --------------------------------------------------------------

// Verifies and indexes the section as reading a plan would, then checks it.
static int accepted(dv_plan *plan)
{
    if (dv_scratch_verify(plan, NULL) ||
        !dv_scratch_index(&plan->scratch, plan, &plan->arena))
        return 0;
    return !dv_plan_check(plan, NULL);
}

static int holds(const dv_program *p, uint64_t seed)
{
    rng r = {seed ^ 0x5b011ed};
    dv_target t;
    int ok = 1;
    random_target(&r, &t);
    t.scratch_bytes = (int64_t)1024 << rng_below(&r, 5);
    t.cores = 1 + rng_below(&r, 6);
    t.ring = 1;
    for (int i = 0; i < 12 && ok; i++) {
        dv_plan *plan = NULL;
        if (dv_plan_create(&plan, p, &t, NULL, NULL) ||
            plan->scratch.n_homes == 0) {
            dv_plan_destroy(plan);
            break;
        }
        for (int64_t k = 1 + rng_below(&r, 3); k > 0; k--)
            spoil(&r, plan);
        n_spoiled++;
        if (accepted(plan)) {
            n_accepted++;
            ok = case_keeps(p, plan);
            char *shown = ok ? NULL : dv_plan_text(plan);
            if (shown)
                fprintf(stderr, "%s\n", shown);
            dv_free(shown);
        }
        dv_plan_destroy(plan);
    }
    return ok;
}

TEST(floats)
{
    case_random("accepted is right", holds, GEN_FLOATS, 120);
}

TEST(integers)
{
    case_random("accepted is right", holds, GEN_INTEGERS, 60);
}

static int tell(void **state)
{
    (void)state;
    printf("%d plans spoiled, %d still right\n", n_spoiled, n_accepted);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(floats),
                                       cmocka_unit_test(integers)};
    return run_group(tests, NULL, tell);
}
