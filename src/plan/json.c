// Prints a plan as JSON: the program's fields, then the results of the passes
// (steps of planning).
#include "plan/json.h"
#include "base/hash.h"
#include "base/math.h"
#include "ir/json.h"
#include "plan/stride_splits.h"
#include "plan/tiles.h"
#include "plan/timeline.h"
#include "plan/traffic.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// The context that is passed to the functions that print fields of tensors and
// ops.
typedef struct part_of {
    const dv_plan *plan;
    int parts;
} part_of;

static void layout_json(dv_json *j, const void *of, int32_t i)
{
    const dv_plan *plan = ((const part_of *)of)->plan;
    if (!(plan->facts & DV_FACT_LAID_OUT))
        return;
    const dv_layout *l = &plan->layouts[i];
    DV_JSON_OBJECT(j, "layout",
                   dv_field_ints("device_size", l->size, l->n_dims),
                   dv_field_ints("stride_map", l->stride, l->n_dims),
                   DV_F("bytes", l->bytes),
                   DV_F_IF(l->stick_dim >= 0, "stick_dim", l->stick_dim));
}

// Prints the number of slices that each variable of op i is cut into. Returns
// whether all slices of each variable have the same length.
static int splits_json(dv_json *j, const dv_plan *plan, int32_t i)
{
    const dv_op *op = &plan->ops->ops[i];
    int even = 1;
    dv_json_open_flat(j, "splits", '{');
    for (int k = 0; k < op->n_vars; k++) {
        int v = dv_plan_digit(plan, i, k);
        int64_t len = dv_var_len(op, v);
        dv_json_int(j, op->vars[v].name, dv_ceil_div(len, plan->slices[i][v]));
        even = even && len % plan->slices[i][v] == 0;
    }
    dv_json_close(j);
    return even;
}

// Prints the number of values of each variable in one slice.
static void slices_json(dv_json *j, const dv_plan *plan, int32_t i)
{
    const dv_op *op = &plan->ops->ops[i];
    dv_json_open_flat(j, "slice_sizes", '{');
    for (int v = 0; v < op->n_vars; v++)
        dv_json_int(j, op->vars[v].name, plan->slices[i][v]);
    dv_json_close(j);
}

// Prints the names of the reduced variables of op i that are cut into slices,
// or null if there are none.
static void reduction_json(dv_json *j, const dv_plan *plan, int32_t i)
{
    const dv_op *op = &plan->ops->ops[i];
    dv_text names = {0};
    for (int v = 0; v < op->n_vars; v++)
        if (op->vars[v].reduce && plan->slices[i][v] < dv_var_len(op, v))
            dv_put(&names, "%s%s", names.len ? "," : "", op->vars[v].name);
    dv_json_text(j, "reduction_split", &names);
}

static void why_json(dv_json *j, const dv_plan *plan, int32_t i)
{
    const dv_op *op = &plan->ops->ops[i];
    const dv_division *d = &plan->divisions[i];
    dv_json_open_flat(j, "spans", '{');
    for (int r = 0; r <= op->n_reads && d->spans_bytes; r++) {
        const dv_access *a = dv_op_access(op, r);
        dv_json_int(j, plan->ops->tensors[a->tensor].name, d->spans_bytes[r]);
    }
    dv_json_close(j);
    dv_json_open_flat(j, "forced", '{');
    for (int v = 0; v < op->n_vars && d->forced; v++)
        if (d->forced[v] > 1)
            dv_json_int(j, op->vars[v].name, d->forced[v]);
    dv_json_close(j);
    dv_json_double(j, "cost_us", d->cost_us);
    dv_json_int(j, "candidates", d->candidates);
    if (!d->runner)
        return;
    dv_json_open_flat(j, "runner_up", '{');
    dv_json_double(j, "us", d->runner_up_us);
    dv_json_open_flat(j, "splits", '{');
    for (int v = 0; v < op->n_vars; v++)
        dv_json_int(j, op->vars[v].name, d->runner[v]);
    dv_json_close(j);
    dv_json_close(j);
}

// Returns the line of the program's text where the statement of an op begins,
// or 0 if it is not known.
static int64_t line_of(const dv_plan *plan, int32_t i)
{
    const dv_program *p = plan->ops;
    int32_t team_op = plan->team_ops ? plan->team_ops[i] : i;
    if (plan->team_ops)
        p = plan->team_program;
    if (plan->src.len || team_op < 0 || !p->ops[team_op].off)
        return 0;
    int64_t line = 1;
    for (size_t at = 0; at < p->src.len && at < p->ops[team_op].off; at++)
        line += p->src.text[at] == '\n';
    return line;
}

static void divide_json(dv_json *j, const void *of, int32_t i)
{
    const dv_plan *plan = ((const part_of *)of)->plan;
    int64_t line = line_of(plan, i);
    DV_JSON_FIELDS(j, DV_F_IF(line, "line", line));
    if (!(plan->facts & DV_FACT_DIVIDED))
        return;
    dv_json_open(j, "divide", '{');
    int even = splits_json(j, plan, i);
    slices_json(j, plan, i);
    if (plan->target.sticks && !plan->target.tile_rows)
        dv_stride_splits_json(j, plan, i);
    int64_t tiles = dv_plan_n_tiles(plan, i), cores = plan->target.cores;
    dv_json_int(j, "cores", dv_min_i64(tiles, cores));
    dv_json_int(j, "rounds", dv_ceil_div(tiles, cores));
    dv_json_string(j, "slices", even ? "even" : "uneven");
    reduction_json(j, plan, i);
    if (plan->divisions && ((const part_of *)of)->parts & DV_JSON_SPANS)
        why_json(j, plan, i);
    dv_json_close(j);
}

// Prints a predicted time and its parts. For a group, `limit` names the
// resource that limits it; for a whole plan it is NULL, and `least_us` is a
// lower bound of the time.
static void price_json(dv_json *j, const dv_price *p, const char *limit,
                       double least_us)
{
    DV_JSON_OBJECT(
        j, "price", DV_F("us", p->total_us), DV_F("compute_us", p->compute_us),
        DV_F("memory_us", p->memory_us), DV_F("ring_us", p->ring_us),
        DV_F("launch_us", p->launch_us),
        DV_F_WHEN(limit != NULL, DV_F("limit", limit)),
        DV_F_WHEN(limit == NULL, DV_F("least_us", least_us)),
        DV_F_WHEN(
            limit == NULL,
            DV_F("gap", p->total_us > 0 ? 1 - least_us / p->total_us : 0)));
}

static void group_json(dv_json *j, const dv_plan *plan, const dv_group *g,
                       int parts)
{
    dv_json_open(j, NULL, '{');
    dv_json_open_flat(j, "ops", '[');
    for (int32_t op = g->first_op; op < g->end_op; op++)
        dv_json_string(j, NULL, plan->ops->ops[op].name);
    dv_json_close(j);
    dv_json_int(j, "tiles", g->n_tiles);
    dv_json_bool(j, "non_terminal", g->non_terminal);
    dv_json_bool(j, "once", g->once);
    dv_json_bool(j, "full", g->full);
    if (dv_plan_has_price(plan)) {
        dv_price p = dv_group_price(plan, (int32_t)(g - plan->groups));
        price_json(j, &p, dv_limit_name(p.limit), 0);
        dv_group_work w = dv_group_work_of(plan, (int32_t)(g - plan->groups));
        DV_JSON_OBJECT(j, "work", DV_F("macs", w.macs), DV_F("ops", w.ops),
                       DV_F("memory_bytes", w.memory_bytes),
                       DV_F("link_bytes", w.link_bytes));
    }
    if (!(parts & DV_JSON_DEALS)) {
        dv_json_close(j);
        return;
    }
    dv_json_open(j, "cores", '[');
    for (int32_t d = 0; d < g->n_deals; d++)
        DV_JSON_OBJECT(j, NULL, DV_F("core", g->deals[d].core),
                       DV_F("first_tile", g->deals[d].first_tile),
                       DV_F("tiles", g->deals[d].n_tiles));
    dv_json_close(j);
    dv_json_close(j);
}

static void moves_json(dv_json *j, const dv_plan *plan)
{
    static const char *const kinds[] = {"stored", "loaded", "ring", "moved"};
    const dv_scratch *s = &plan->scratch;
    dv_json_open(j, "moves", '[');
    for (int32_t i = 0; i < s->n_homes; i++) {
        const dv_home *h = &s->homes[i];
        if (!dv_home_is_transferred(h) && !h->stored)
            continue;
        DV_JSON_OBJECT(j, NULL, DV_F("kind", kinds[h->fill]),
                       DV_F("name", plan->ops->tensors[h->tensor].name),
                       DV_F("op", plan->ops->ops[h->first_op].name),
                       DV_F("address", h->address));
    }
    dv_json_close(j);
}

static void numbers_json(dv_json *j, const char *key, const int32_t *v,
                         int32_t n)
{
    dv_json_open_flat(j, key, '[');
    for (int32_t i = 0; i < n; i++)
        dv_json_int(j, NULL, v[i]);
    dv_json_close(j);
}

// Prints which tensors are resident in the scratchpads (homes), where and when;
// ops and homes are given by their numbers.
static void homes_json(dv_json *j, const dv_plan *plan)
{
    static const char *const fills[] = {"written", "loaded", "ring", "moved",
                                        "summed"};
    const dv_scratch *s = &plan->scratch;
    dv_json_open(j, "homes", '[');
    for (int32_t i = 0; i < s->n_homes; i++) {
        const dv_home *h = &s->homes[i];
        int from = h->fill == DV_FILL_RING || h->fill == DV_FILL_MOVED;
        dv_json_open_flat(j, NULL, '{');
        DV_JSON_FIELDS(
            j, DV_F("name", plan->ops->tensors[h->tensor].name),
            DV_F("first_op", h->first_op), DV_F("end_op", h->end_op),
            DV_F("address", h->address), DV_F("core_bytes", h->core_bytes),
            DV_F("fill", fills[h->fill]), DV_F_IF(from, "from", h->from),
            DV_F_IF(h->in_place_of >= 0, "in_place_of", h->in_place_of),
            DV_F_BOOL("stored", h->stored), DV_F_BOOL("shared", h->shared));
        numbers_json(j, "readers", h->readers, h->n_readers);
        numbers_json(j, "passed_to", h->passed_to, h->n_passed_to);
        dv_json_close(j);
    }
    dv_json_close(j);
}

// Prints the most bytes of a scratchpad that are in use during one op, and
// which op that is, the first if several are.
static void peak_json(dv_json *j, const dv_plan *plan)
{
    const dv_scratch *s = &plan->scratch;
    dv_arena arena = {0};
    int64_t *end = DV_NEW(&arena, int64_t, plan->ops->n_ops + 1);
    int32_t peak = 0;
    j->out->failed |= !end;
    for (int32_t i = 0; end && i < s->n_homes; i++) {
        const dv_home *h = &s->homes[i];
        for (int32_t op = h->first_op; op < h->end_op; op++)
            end[op] = dv_max_i64(end[op], h->address + h->core_bytes);
    }
    for (int32_t op = 1; end && op < plan->ops->n_ops; op++)
        peak = end[op] > end[peak] ? op : peak;
    int64_t most = end ? end[peak] : 0;
    DV_JSON_OBJECT(j, "peak", DV_F("bytes", most), DV_F_IF(most, "op", peak));
    dv_arena_free(&arena);
}

static void op_names_json(dv_json *j, const char *key, const dv_plan *plan,
                          const int32_t *ops, int32_t n)
{
    dv_json_open_flat(j, key, '[');
    for (int32_t i = 0; i < n; i++)
        dv_json_string(j, NULL, plan->ops->ops[ops[i]].name);
    dv_json_close(j);
}

// Prints what cores receive from each other while ops run: tensors that are
// read from main memory once for all cores, and resident ones that are passed
// on.
static void received_json(dv_json *j, const dv_plan *plan)
{
    const dv_scratch *s = &plan->scratch;
    dv_json_open(j, "received", '[');
    for (int32_t i = 0; i < s->n_shares; i++) {
        dv_json_open(j, NULL, '{');
        dv_json_string(j, "name", plan->ops->tensors[s->shares[i].tensor].name);
        dv_json_string(j, "from", "memory");
        op_names_json(j, "ops", plan, s->shares[i].ops, s->shares[i].n_ops);
        dv_json_close(j);
    }
    for (int32_t i = 0; i < s->n_homes; i++) {
        const dv_home *h = &s->homes[i];
        if (h->n_passed_to == 0)
            continue;
        dv_json_open(j, NULL, '{');
        dv_json_string(j, "name", plan->ops->tensors[h->tensor].name);
        dv_json_string(j, "from", "cores");
        op_names_json(j, "ops", plan, h->passed_to, h->n_passed_to);
        dv_json_close(j);
    }
    dv_json_close(j);
}

static void buffers_json(dv_json *j, const dv_plan *plan)
{
    const dv_scratch *s = &plan->scratch;
    dv_json_open(j, "buffers", '[');
    for (int32_t i = 0; i < s->n_residents; i++) {
        const dv_resident *r = &s->residents[i];
        const dv_home *h = r->home < 0 ? NULL : &s->homes[r->home];
        DV_JSON_OBJECT(
            j, NULL, DV_F("name", plan->ops->tensors[r->tensor].name),
            DV_F("core_bytes", r->core_bytes),
            DV_F("start", h ? h->first_op : r->first_op),
            DV_F("end", h ? h->end_op : r->end_op),
            DV_F_IF(h, "address", h->address), DV_F("reason", r->reason),
            DV_F("in_place_of",
                 h && h->in_place_of >= 0
                     ? plan->ops->tensors[s->homes[h->in_place_of].tensor].name
                     : NULL),
            DV_F("not_in_place_of", h && r->denied >= 0
                                        ? plan->ops->tensors[r->denied].name
                                        : NULL),
            DV_F("saved_bytes", r->saved_bytes));
    }
    dv_json_close(j);
}

// Prints the tiles of one matrix in their order, as row * columns + column, if
// the order is not row by row and there are not too many of them.
static void sequence_json(dv_json *j, const dv_group_grid *g)
{
    enum { MOST_TILES = 1 << 16 };
    dv_order order = dv_grid_order(g);
    if (g->local_shard || g->rect || order.kind == DV_ORDER_ROW_MAJOR ||
        g->mt * g->nt > MOST_TILES)
        return;
    dv_json_open_flat(j, "sequence", '[');
    for (int64_t i = 0; i < g->mt * g->nt; i++) {
        int64_t m, n;
        dv_order_tile(&order, i, &m, &n);
        dv_json_int(j, NULL, m * g->nt + n);
    }
    dv_json_close(j);
}

// Prints which core of the machine's grid computes which tiles of the result of
// a group (ops that share one tile space).
static void grid_json(dv_json *j, const dv_plan *plan)
{
    dv_json_open(j, "grid", '[');
    for (int32_t i = 0; i < plan->n_grids; i++) {
        const dv_group_grid *g = &plan->grids[i];
        dv_json_open(j, NULL, '{');
        DV_JSON_FIELDS(
            j, DV_F("group", g->group),
            DV_F("tensor", plan->ops->tensors[g->tensor].name),
            DV_F("partition_mode", g->local_shard ? "local_shard" : "global"),
            DV_F("batch", g->batch), DV_F_INTS("grid_tiles", g->mt, g->nt),
            DV_F("Kt", g->kt));
        if (g->local_shard) {
            DV_JSON_INTS(j, "shard_grid", g->gy, g->gx);
            DV_JSON_INTS(j, "local_shape_tiles", g->sm, g->sn);
        } else {
            dv_json_string(j, "order", g->order);
            dv_json_string(j, "policy", g->policy);
        }
        sequence_json(j, g);
        dv_json_open(j, "rows", '[');
        for (int32_t r = 0; r < g->n_ranges; r++) {
            const dv_tile_range *x = &g->ranges[r];
            DV_JSON_OBJECT(
                j, NULL, DV_F_INTS("core_xy", x->x, x->y),
                g->rect ? DV_F_INTS("box_mn", x->m0, x->m1, x->n0, x->n1)
                : g->local_shard ? DV_F_INTS("shard", x->sy, x->sx)
                                 : DV_F_INTS("start_count", x->first, x->n),
                DV_F_WHEN(x->k0 != 0 || x->k1 != g->kt,
                          DV_F_INTS("steps", x->k0, x->k1)));
        }
        dv_json_close(j);
        dv_json_close(j);
    }
    dv_json_close(j);
}

static void scratch_json(dv_json *j, const dv_plan *plan, int parts)
{
    const dv_scratch *s = &plan->scratch;
    dv_traffic t = dv_plan_traffic(plan);
    int64_t moved = dv_traffic_bytes(&t);
    int64_t least = dv_plan_least_bytes(plan);
    dv_json_open(j, "scratch", '{');
    DV_JSON_FIELDS(
        j, DV_F("capacity", s->capacity_bytes), DV_F("solver", s->solver),
        DV_F("saved_bytes", s->saved_bytes), DV_F("least_bytes", least),
        DV_F("gap", moved > 0 ? 1 - (double)least / (double)moved : 0),
        DV_F("hbm_elements", t.read_elems + t.write_elems),
        DV_F("hbm_bytes", moved), DV_F("ring_bytes", t.ring_bytes));
    // "exact" is false if, for some access, the number of elements that it
    // moves could not be determined.
    dv_json_bool(j, "exact", t.exact);
    if (s->cut_short)
        dv_json_bool(j, "cut_short", 1);
    peak_json(j, plan);
    if (parts & DV_JSON_BUFFERS)
        buffers_json(j, plan);
    if (parts & DV_JSON_HOMES)
        homes_json(j, plan);
    if (parts & DV_JSON_BUFFERS) {
        moves_json(j, plan);
        received_json(j, plan);
    }
    dv_json_close(j);
}

static void sums_json(dv_json *j, const dv_op *op, const dv_sum_order *s)
{
    dv_json_string(j, "sums", dv_sum_order_name(s));
    dv_json_open(j, "levels", '[');
    for (int32_t k = 0; k < s->n_levels; k++)
        DV_JSON_OBJECT(j, NULL,
                       DV_F("variable", op->vars[s->levels[k].var].name),
                       DV_F("size", s->levels[k].size),
                       DV_F("runs", s->levels[k].inside ? "prim" : "seq"));
    dv_json_close(j);
}

static void addresses_json(dv_json *j, const dv_plan *plan, const char *name,
                           const dv_temp_address *at, int32_t n)
{
    dv_json_open(j, name, '[');
    for (int32_t i = 0; i < n; i++)
        DV_JSON_OBJECT(j, NULL,
                       DV_F("tensor", plan->ops->tensors[at[i].tensor].name),
                       DV_F("address", at[i].address));
    dv_json_close(j);
}

// Prints which kernel runs each op and with which loops; `text` is the op's
// line in the plan's section `schedule`.
static void schedule_json(dv_json *j, const dv_plan *plan)
{
    const dv_schedule *s = &plan->schedule;
    dv_json_open(j, "schedule", '{');
    dv_json_string(j, "kernels", s->kernels);
    dv_json_open(j, "ops", '[');
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        const dv_op *op = &plan->ops->ops[i];
        dv_text line = {0};
        dv_op_schedule_print(&line, plan->ops, i, &s->ops[i]);
        dv_json_open(j, NULL, '{');
        dv_json_string(j, "op", op->name);
        dv_json_string(j, "kernel", dv_kernel_kind_name(s->ops[i].kind));
        if (s->ops[i].kind == DV_KERNEL_PRODUCT)
            sums_json(j, op, &s->ops[i].sums);
        dv_json_string(j, "text", line.at ? line.at : "");
        dv_json_close(j);
        dv_text_free(&line);
    }
    dv_json_close(j);
    addresses_json(j, plan, "kept_per_tile", s->temps, s->n_temps);
    addresses_json(j, plan, "stored", s->stored, s->n_stored);
    dv_json_int(j, "stored_bytes", dv_stored_bytes(plan));
    if (s->shared_bytes >= 0)
        DV_JSON_OBJECT(j, "memory", DV_F("shared_bytes", s->shared_bytes),
                       DV_F("thread_bytes", s->thread_bytes),
                       DV_F("constant_bytes", s->constant_bytes));
    dv_json_close(j);
}

static void plan_json(dv_json *j, const dv_plan *plan, int parts);

// Prints the plans of the ranks of a team, one for each class of equal ranks.
static void ranks_json(dv_json *j, const dv_plan *plan, int parts)
{
    dv_json_open(j, "ranks", '[');
    for (int32_t i = 0; i < plan->n_classes; i++) {
        const dv_rank_class *c = &plan->classes[i];
        dv_json_open(j, NULL, '{');
        DV_JSON_FIELDS(j, dv_field_ints("ranks", c->ranks, c->n_ranks));
        plan_json(j, c->plan, parts & ~DV_JSON_ORIGIN);
        dv_json_close(j);
    }
    dv_json_close(j);
}

static void names_json(dv_json *j, const char *key, const char *const *names,
                       int32_t n)
{
    if (!n)
        return;
    dv_json_open_flat(j, key, '[');
    for (int32_t i = 0; i < n; i++)
        dv_json_string(j, NULL, names[i]);
    dv_json_close(j);
}

// Prints the text of the program, as in its file if the plan was made from it;
// otherwise as the plan contains it.
static void text_json(dv_json *j, const dv_plan *plan)
{
    dv_text text = {0};
    if (!plan->src.len && plan->ops->src.len)
        dv_put_bytes(&text, plan->ops->src.text, plan->ops->src.len);
    else if (plan->source)
        dv_put(&text, "%s", plan->source);
    dv_json_text(j, "source", &text);
}

static void digest_json(dv_json *j, const char *key, const char *text)
{
    char digits[24];
    uint64_t hash = text ? dv_hash(DV_HASH, text, strlen(text)) : 0;
    snprintf(digits, sizeof digits, "%016" PRIx64, hash);
    j->out->failed |= !text;
    dv_json_string(j, key, digits);
}

// Prints hashes by which plans are told apart: of the program as the plan
// contains it, of the target's description, and of the plan's text.
static void digests_json(dv_json *j, const dv_plan *plan)
{
    char *target = dv_target_text(&plan->target), *text = dv_plan_text(plan);
    dv_json_open_flat(j, "digests", '{');
    digest_json(j, "program", plan->source ? plan->source : "");
    digest_json(j, "target", target);
    digest_json(j, "plan", text);
    dv_json_close(j);
    dv_free(target);
    dv_free(text);
}

static void timeline_json(dv_json *j, const dv_plan *plan)
{
    dv_timeline t;
    j->out->failed |= !dv_timeline_make(&t, plan, NULL);
    if (t.basis && !j->out->failed)
        dv_timeline_json(j, "timeline", &t);
    dv_arena_free(&t.arena);
}

static void passes_json(dv_json *j, const dv_plan *plan)
{
    dv_json_open(j, "passes", '[');
    for (int i = 0; i < DV_N_PASSES; i++) {
        if (plan->pass_ms[i] < 0)
            continue;
        DV_JSON_OBJECT(j, NULL, DV_F("name", dv_pass_get((dv_pass_id)i)->name),
                       DV_F("ms", plan->pass_ms[i]));
    }
    dv_json_close(j);
}

// Prints the fields of a plan.
static void plan_json(dv_json *j, const dv_plan *plan, int parts)
{
    const part_of of = {plan, parts};
    const dv_json_hooks more = {layout_json, divide_json, &of};
    if (plan->facts & DV_FACT_LOWERED && parts & DV_JSON_OPS)
        dv_program_json_fields(j, plan->ops, &more);
    else if (plan->facts & DV_FACT_LOWERED)
        dv_json_string(j, "file", plan->ops->src.name);
    if (plan->facts & DV_FACT_LOWERED && parts & DV_JSON_ORIGIN)
        text_json(j, plan);
    names_json(j, "removed", plan->removed, plan->n_removed);
    names_json(j, "views", plan->views, plan->n_views);
    dv_json_string(j, "target", plan->target.name);
    dv_json_int(j, "cores", plan->target.cores);
    if (plan->target.holes.n) {
        dv_core_grid g = plan->target.core_grid;
        DV_JSON_INTS(j, "core_grid", g.cols, g.rows);
        dv_target_rects_json(j, "holes", &plan->target.holes);
    }
    if (parts & DV_JSON_ORIGIN) {
        dv_target_json(j, "machine", &plan->target);
        digests_json(j, plan);
    }
    if (plan->facts & DV_FACT_DISTRIBUTED)
        dv_dist_json(j, plan);
    if (plan->n_classes)
        ranks_json(j, plan, parts);
    if (plan->facts & DV_FACT_GROUPED) {
        dv_json_open(j, "groups", '[');
        for (int32_t i = 0; i < plan->n_groups; i++)
            group_json(j, plan, &plan->groups[i], parts);
        dv_json_close(j);
    }
    if (dv_plan_has_price(plan)) {
        dv_price p = dv_plan_price(plan);
        price_json(j, &p, NULL, dv_plan_least_us(plan));
    }
    timeline_json(j, plan);
    if (plan->facts & DV_FACT_PLACED)
        scratch_json(j, plan, parts);
    if (plan->n_grids)
        grid_json(j, plan);
    if (plan->schedule.kernels && parts & DV_JSON_OPS)
        schedule_json(j, plan);
    if (parts & DV_JSON_PASS_TIMES)
        passes_json(j, plan);
}

void dv_plan_json_object(dv_json *j, const char *key, const dv_plan *plan,
                         int parts)
{
    dv_json_open(j, key, '{');
    plan_json(j, plan, parts);
    dv_status check = dv_plan_check(plan, NULL);
    if (check == DV_E_NOMEM)
        // The check ran out of memory, which says nothing about the plan, so
        // the output as a whole fails.
        j->out->failed = 1;
    dv_json_string(j, "check", dv_status_name(check));
    dv_json_close(j);
}

char *dv_plan_json(const dv_plan *plan)
{
    dv_text out = {0};
    dv_json j = {.out = &out};
    dv_plan_json_object(&j, NULL, plan, DV_JSON_ALL);
    return dv_text_take(&out);
}
