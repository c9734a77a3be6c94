// Pass scratch: decides which tensors are resident on the cores, and where.
//
//   scratch auto capacity 1625344 {
//       0: x ops 0..2 at 2048 size 1048576 loaded as 0 read by 0, 1
//       1: m ops 0..2 at 0 size 2048 written read by 1
//       2: d ops 1..3 at 2048 size 1048576 written in place of 0 read by 2
//       3: k ops 5..6 at 0 size 4096 ring 2 as 5 read by 5
//       4: h ops 6..9 at 0 size 8192 written read by 7 passed to 8
//       share w by 6, 8
//   }
//
// Sizes are those of the core with the largest part. "stored" marks a home that
// is also written to main memory. Cores read a home in each other's scratchpads
// in the ops that it is "passed to". "share" names a tensor that ops read from
// main memory once for all cores, and "shared" a home that is loaded so. A home
// of a group that loops over tiles holds one tile at a time; a comment says so.
// "summed" are accumulators of an op that sums up the tiles of such a group.
// The first line ends with "tenants" if other programs share the scratchpads,
// and with "cut_short" if the time limit ended the search.
#include "base/stop.h"
#include "plan/traffic.h"
#include "scratch/scratch.h"
#include <inttypes.h>

dv_scratch_rules dv_scratch_rules_of(const dv_plan *plan,
                                     const dv_plan_options *o)
{
    // A program that says which tensors are in the cores' memories (in_l1)
    // plans these memories itself: no others become resident.
    int told = 0;
    for (int32_t i = 0; i < plan->ops->n_tensors; i++)
        told |=
            plan->ops->tensors[i].memory && plan->ops->tensors[i].memory->in_l1;
    return (dv_scratch_rules){.off = o->scratch == DV_RESIDENTS_NONE || told,
                              .reductions =
                                  o->scratch == DV_RESIDENTS_REDUCTIONS,
                              .in_place = o->in_place != DV_OFF,
                              .clones = o->clone_inputs != DV_OFF,
                              .ring = o->ring != DV_OFF,
                              .evict = o->evict != DV_OFF,
                              .reorder = o->reorder != DV_OFF,
                              .recompute = o->recompute != DV_OFF,
                              .tiles = plan->target.tiles_per_core != 1,
                              .tenants = o->tenants == DV_TENANTS_MANY,
                              .solver = o->solver,
                              .budget = o->place_budget,
                              .time_limit_s = o->time_limit_s,
                              .bars = o->bars,
                              .n_bars = o->n_bars,
                              .place = o->place,
                              .place_user = o->place_user};
}

int dv_scratch_begin(dv_plan *plan, const dv_scratch_rules *rules)
{
    plan->scratch =
        (dv_scratch){.capacity_bytes = dv_target_usable_bytes(&plan->target),
                     .tenants = rules->tenants,
                     .solver = "off"};
    return !rules->off && plan->scratch.capacity_bytes > 0 &&
           plan->facts & DV_FACT_LAID_OUT;
}

void dv_scratch_count_saved(dv_plan *plan)
{
    dv_plan off = *plan;
    off.scratch = (dv_scratch){0};
    plan->scratch.saved_bytes =
        dv_plan_memory_bytes(&off) - dv_plan_memory_bytes(plan);
}

dv_status dv_scratch_run(dv_pass_cx *cx, dv_plan *plan)
{
    dv_scratch_rules rules = dv_scratch_rules_of(plan, cx->options);
    dv_arena arena = {0};
    DV_TRY(dv_bars_verify(plan, cx->options, cx->diag));
    if (!dv_scratch_begin(plan, &rules) ||
        !dv_target_has_scratchpads(&plan->target))
        return DV_OK;
    dv_status st = dv_scratch_choose_homes(plan, &rules, &arena, cx->diag);
    if (st == DV_OK)
        dv_scratch_count_saved(plan);
    plan->scratch.cut_short = dv_stop_was_late();
    dv_arena_free(&arena);
    return st;
}

static int op_fits(const dv_plan *plan, int32_t op)
{
    return op >= 0 && op < plan->ops->n_ops;
}

static int all_read(const dv_plan *plan, int32_t tensor, const int32_t *ops,
                    int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (!op_fits(plan, ops[i]) ||
            !dv_op_reads(&plan->ops->ops[ops[i]], tensor))
            return 0;
    return 1;
}

static const char *home_wrong(const dv_plan *plan, int32_t i)
{
    const dv_scratch *s = &plan->scratch;
    const dv_home *h = &s->homes[i];
    int copied = h->fill == DV_FILL_RING || h->fill == DV_FILL_MOVED;
    if (!op_fits(plan, h->first_op) || h->end_op <= h->first_op ||
        h->end_op > plan->ops->n_ops)
        return "lives in ops that are not there";
    if (!op_fits(plan, h->as_op) ||
        dv_access_of(&plan->ops->ops[h->as_op], h->tensor) < 0)
        return "is cut as by an op that does not touch it";
    if (h->fill == DV_FILL_SUMMED &&
        (plan->ops->ops[h->as_op].write.tensor != h->tensor || h->stored ||
         h->n_readers || h->n_passed_to))
        return "holds the parts of no sum, or is used for more than that";
    if (h->fill == DV_FILL_WRITTEN &&
        (plan->ops->ops[h->first_op].write.tensor != h->tensor ||
         h->as_op != h->first_op))
        return "is written by an op that does not write it";
    if (h->address < 0 || h->core_bytes < 1 ||
        h->core_bytes > INT64_MAX - h->address)
        return "has no such address and size";
    if (copied && (h->from < 0 || h->from >= s->n_homes || h->from == i ||
                   s->homes[h->from].tensor != h->tensor))
        return "is copied from no home of its tensor";
    if (h->in_place_of >= s->n_homes || h->in_place_of == i)
        return "takes the place of no home";
    if (!all_read(plan, h->tensor, h->readers, h->n_readers))
        return "is read by an op that does not read it";
    if (!all_read(plan, h->tensor, h->passed_to, h->n_passed_to))
        return "is passed to an op that does not read it";
    return NULL;
}

// Checks the properties of scratchpad homes (resident tensors) on which later
// code relies; check/scratch.c proves that the homes are correct.
dv_status dv_scratch_verify(const dv_plan *plan, dv_diag *diag)
{
    for (int32_t i = 0; i < plan->scratch.n_homes; i++) {
        const char *wrong = home_wrong(plan, i);
        if (wrong)
            return dv_fail(
                diag, DV_E_SHAPE, dv_plan_at(plan, plan->scratch.homes[i].off),
                "home %d of %s %s", (int)i,
                plan->ops->tensors[plan->scratch.homes[i].tensor].name, wrong);
    }
    for (int32_t i = 0; i < plan->scratch.n_shares; i++) {
        const dv_shared_read *s = &plan->scratch.shares[i];
        if (!all_read(plan, s->tensor, s->ops, s->n_ops))
            return dv_fail(diag, DV_E_SHAPE, dv_plan_at(plan, s->off),
                           "%s is shared by an op that does not read it",
                           plan->ops->tensors[s->tensor].name);
    }
    return DV_OK;
}

// The words in the plan's text for the ways in which a tensor gets into the
// scratchpads: DV_FILL_WRITTEN (by the op that writes it), DV_FILL_LOADED (from
// main memory), DV_FILL_RING (from other cores), DV_FILL_MOVED (from another
// address) and DV_FILL_SUMMED (as accumulators of the op that writes it).
static const char *const fills[] = {"written", "loaded", "ring", "moved",
                                    "summed"};
enum { N_FILLS = sizeof fills / sizeof *fills };

static void print_ops(dv_text *out, const char *before, const int32_t *ops,
                      int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        dv_put(out, "%s%d", i ? ", " : before, (int)ops[i]);
}

static void print_home(dv_text *out, const dv_plan *plan, int32_t i)
{
    const dv_home *h = &plan->scratch.homes[i];
    dv_put(out, "    %d: %s ops %d..%d at %" PRId64 " size %" PRId64 " %s",
           (int)i, plan->ops->tensors[h->tensor].name, (int)h->first_op,
           (int)h->end_op, h->address, h->core_bytes, fills[h->fill]);
    if (h->fill == DV_FILL_RING || h->fill == DV_FILL_MOVED)
        dv_put(out, " %d", (int)h->from);
    if (h->shared)
        dv_put(out, " shared");
    if (h->fill != DV_FILL_WRITTEN)
        dv_put(out, " as %d", (int)h->as_op);
    if (h->stored)
        dv_put(out, " stored");
    if (h->in_place_of >= 0)
        dv_put(out, " in place of %d", (int)h->in_place_of);
    print_ops(out, " read by ", h->readers, h->n_readers);
    print_ops(out, " passed to ", h->passed_to, h->n_passed_to);
    if (h->fill == DV_FILL_SUMMED)
        dv_put(out, " # partial sums");
    else if (plan->groups[dv_group_of(plan, h->as_op)].loops)
        dv_put(out, " # one tile at a time");
    dv_put(out, "\n");
}

void dv_scratch_print(dv_text *out, const dv_plan *plan)
{
    const dv_scratch *s = &plan->scratch;
    dv_put(out, "scratch %s capacity %" PRId64 "%s%s {\n", s->solver,
           s->capacity_bytes, s->tenants ? " tenants" : "",
           s->cut_short ? " cut_short" : "");
    for (int32_t i = 0; i < s->n_homes; i++)
        print_home(out, plan, i);
    for (int32_t i = 0; i < s->n_shares; i++) {
        dv_put(out, "    share %s",
               plan->ops->tensors[s->shares[i].tensor].name);
        print_ops(out, " by ", s->shares[i].ops, s->shares[i].n_ops);
        dv_put(out, "\n");
    }
    dv_put(out, "}\n");
}

static dv_status read_number(dv_lexer *lx, int32_t *out, const char *what)
{
    int64_t n;
    dv_loc at = dv_lex_at(lx);
    DV_TRY(dv_lex_int(lx, &n, what));
    if (n < 0 || n > INT32_MAX - 1)
        return dv_fail(lx->diag, DV_E_SHAPE, at, "%s is too large", what);
    *out = (int32_t)n;
    return DV_OK;
}

static dv_status read_fill(dv_lexer *lx, dv_home *h)
{
    int fill = 0;
    while (fill < N_FILLS && !dv_lex_is(lx, fills[fill]))
        fill++;
    h->fill = (dv_home_fill)fill;
    if (fill == N_FILLS)
        return dv_fail(lx->diag, DV_E_SYNTAX, dv_lex_at(lx),
                       "expected 'written', 'loaded', 'ring', 'moved' or "
                       "'summed'");
    DV_TRY(dv_lex(lx));
    if (h->fill == DV_FILL_RING || h->fill == DV_FILL_MOVED)
        DV_TRY(read_number(lx, &h->from, "the number of a home"));
    if (h->fill == DV_FILL_LOADED && dv_lex_is(lx, "shared")) {
        h->shared = 1;
        DV_TRY(dv_lex(lx));
    }
    h->as_op = h->first_op;
    if (h->fill == DV_FILL_WRITTEN)
        return DV_OK;
    DV_TRY(dv_lex_word(lx, "as"));
    return read_number(lx, &h->as_op, "the number of an op");
}

// Reads a list of op numbers after two words, such as "read by".
static dv_status read_ops(dv_plan *plan, dv_lexer *lx, const char *second,
                          int32_t **ops, int32_t *n)
{
    int32_t cap = 0;
    DV_TRY(dv_lex(lx));
    DV_TRY(dv_lex_word(lx, second));
    for (;;) {
        int32_t *op = DV_PUSH(&plan->arena, int32_t, *ops, *n, cap);
        if (!op)
            return dv_nomem(lx->diag);
        DV_TRY(read_number(lx, op, "the number of an op"));
        if (lx->tok.kind != ',')
            return DV_OK;
        DV_TRY(dv_lex(lx));
    }
}

static dv_status read_tensor(const dv_plan *plan, dv_lexer *lx, int32_t *out)
{
    *out = dv_table_get(&plan->ops->tensor_ids, lx->src->text + lx->tok.off,
                        lx->tok.len, -1);
    if (*out < 0)
        return dv_fail(lx->diag, DV_E_NAME, dv_lex_at(lx),
                       "the program has no such tensor");
    return DV_OK;
}

static dv_status read_home(dv_plan *plan, dv_lexer *lx, dv_home *h)
{
    h->off = lx->tok.off;
    h->from = h->in_place_of = -1;
    DV_TRY(read_tensor(plan, lx, &h->tensor));
    DV_TRY(dv_lex(lx));
    DV_TRY(dv_lex_word(lx, "ops"));
    DV_TRY(read_number(lx, &h->first_op, "the number of an op"));
    DV_TRY(dv_lex_expect(lx, DV_TOK_RANGE, "'..'"));
    DV_TRY(read_number(lx, &h->end_op, "the number of an op"));
    DV_TRY(dv_lex_word(lx, "at"));
    DV_TRY(dv_lex_int(lx, &h->address, "an address"));
    DV_TRY(dv_lex_word(lx, "size"));
    DV_TRY(dv_lex_int(lx, &h->core_bytes, "a size"));
    DV_TRY(read_fill(lx, h));
    if (dv_lex_is(lx, "stored")) {
        h->stored = 1;
        DV_TRY(dv_lex(lx));
    }
    if (dv_lex_is(lx, "in")) {
        DV_TRY(dv_lex(lx));
        DV_TRY(dv_lex_word(lx, "place"));
        DV_TRY(dv_lex_word(lx, "of"));
        DV_TRY(read_number(lx, &h->in_place_of, "the number of a home"));
    }
    if (dv_lex_is(lx, "read"))
        DV_TRY(read_ops(plan, lx, "by", &h->readers, &h->n_readers));
    return dv_lex_is(lx, "passed")
               ? read_ops(plan, lx, "to", &h->passed_to, &h->n_passed_to)
               : DV_OK;
}

static dv_status read_share(dv_plan *plan, dv_lexer *lx, dv_shared_read *s)
{
    DV_TRY(dv_lex(lx));
    s->off = lx->tok.off;
    DV_TRY(read_tensor(plan, lx, &s->tensor));
    return read_ops(plan, lx, "by", &s->ops, &s->n_ops);
}

static dv_status read_head(dv_plan *plan, dv_lexer *lx)
{
    dv_scratch *s = &plan->scratch;
    if (lx->tok.kind != DV_TOK_NAME)
        return dv_fail(lx->diag, DV_E_SYNTAX, dv_lex_at(lx),
                       "expected the name of a solver");
    s->solver =
        dv_arena_copy(&plan->arena, lx->src->text + lx->tok.off, lx->tok.len);
    if (!s->solver)
        return dv_nomem(lx->diag);
    DV_TRY(dv_lex(lx));
    DV_TRY(dv_lex_word(lx, "capacity"));
    DV_TRY(dv_lex_int(lx, &s->capacity_bytes, "a number of bytes"));
    if (dv_lex_is(lx, "tenants")) {
        s->tenants = 1;
        DV_TRY(dv_lex(lx));
    }
    if (dv_lex_is(lx, "cut_short")) {
        s->cut_short = 1;
        DV_TRY(dv_lex(lx));
    }
    return dv_lex_expect(lx, '{', "'{'");
}

dv_status dv_scratch_read(dv_plan *plan, dv_lexer *lx)
{
    dv_scratch *s = &plan->scratch;
    int32_t cap = 0, cap_shares = 0;
    DV_TRY(read_head(plan, lx));
    while (lx->tok.kind != '}') {
        int64_t number;
        if (dv_lex_is(lx, "share")) {
            dv_shared_read *x = DV_PUSH(&plan->arena, dv_shared_read, s->shares,
                                        s->n_shares, cap_shares);
            if (!x)
                return dv_nomem(lx->diag);
            DV_TRY(read_share(plan, lx, x));
            continue;
        }
        dv_loc at = dv_lex_at(lx);
        DV_TRY(dv_lex_int(lx, &number, "the number of a home, 'share' or '}'"));
        if (number != s->n_homes)
            return dv_fail(lx->diag, DV_E_SYNTAX, at,
                           "homes are numbered in turn: this is %d",
                           (int)s->n_homes);
        DV_TRY(dv_lex_expect(lx, ':', "':'"));
        dv_home *h = DV_PUSH(&plan->arena, dv_home, s->homes, s->n_homes, cap);
        if (!h)
            return dv_nomem(lx->diag);
        DV_TRY(read_home(plan, lx, h));
    }
    DV_TRY(dv_lex(lx));
    DV_TRY(dv_scratch_verify(plan, lx->diag));
    return dv_scratch_index(s, plan, &plan->arena) ? DV_OK : dv_nomem(lx->diag);
}
