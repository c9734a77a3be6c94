// Emits a plan as a C program: every op is a function of a box (a range of
// every variable), every group a loop over cores, each of which loops over its
// tiles.
//
// A group of one op with a grid (an assignment of tiles to cores) runs the
// grid's persistent loop: every core computes tiles start..start+count (with
// the policies ticket and steal, threads take tiles from a queue), and the
// order maps each number to a tile. Other groups run the plan's own tiles as
// dealt to cores. The partial results of a split reduction are stored and
// combined in a fixed order when all are complete. Everything is computed in
// double or 64-bit integers and rounded when stored.
#include "emit/emit.h"
#include "base/math.h"
#include "dist/rank_program.h"
#include <inttypes.h>
#include <string.h>

#define P(...) dv_put(&e->out, __VA_ARGS__)

static int needs_old(const dv_op *op)
{
    return op->update && dv_op_reads_own_write(op);
}

// Returns the grid (assignment of tiles to cores) of a group of ops if its
// persistent loop, in which a core computes all its tiles, can be emitted;
// otherwise NULL.
static const dv_group_grid *grid_of(const emitter *e, int32_t group)
{
    const dv_op *op = &e->p->ops[e->plan->groups[group].first_op];
    return needs_old(op) || !op->write.n_dims ? NULL
                                              : dv_grid_of(e->plan, group);
}

// Returns the largest number of partial results that any element of op i's
// result is computed from.
static int64_t n_parts(const emitter *e, int32_t i)
{
    const dv_op *op = &e->p->ops[i];
    const dv_group_grid *g = grid_of(e, dv_group_of(e->plan, i));
    int64_t n = 1;
    for (int32_t r = 0; g && r < g->n_ranges; r++) {
        int64_t rank = 1;
        if (g->ranges[r].k0 || g->ranges[r].k1 == g->kt)
            continue;
        for (int32_t k = r; (k = dv_range_next(g, k)) >= 0;)
            rank++;
        n = dv_max_i64(n, rank);
    }
    for (int v = 0; v < op->n_vars && !g; v++)
        if (op->vars[v].reduce)
            n *= dv_ceil_div(dv_var_len(op, v), e->plan->slices[i][v]);
    return n;
}

// Returns whether the ops of a group (which share one tile space) must run one
// after another over all tiles, instead of all ops on one tile at a time.
static int in_turn(const emitter *e, const dv_group *g)
{
    for (int32_t i = g->first_op; i < g->end_op; i++)
        if (n_parts(e, i) > 1 || needs_old(&e->p->ops[i]) ||
            (e->plan->digits && e->plan->digits[i]))
            return 1;
    return 0;
}

static void put_loops(emitter *e, const dv_op *op, uint32_t vars, int indent)
{
    for (int v = 0; v < op->n_vars; v++) {
        if (!(vars >> v & 1))
            continue;
        P("%*sfor (int64_t ", indent, "");
        dv_emit_var(&e->out, op, v);
        P(" = lo[%d]; ", v);
        dv_emit_var(&e->out, op, v);
        P(" < hi[%d]; ", v);
        dv_emit_var(&e->out, op, v);
        P("++)\n");
    }
}

static void put_neutral(emitter *e, const dv_expr *r)
{
    static const char *const real[] = {"0", "-INFINITY", "INFINITY", "1", "0"};
    static const char *const whole[] = {"0", "INT64_MIN", "INT64_MAX", "1",
                                        "0"};
    int w = dv_expr_is_integer(r);
    P("        %s r = %s;\n", w ? "int64_t" : "double",
      w ? whole[r->fn] : real[r->fn]);
}

// Emits the beginning of r = step(r, value), one step of a reduction with
// accumulator r. The caller emits the value and closes the parenthesis.
static void put_step(emitter *e, const dv_expr *r, const char *before)
{
    static const char *const real[] = {"(r + ", "rt_max(r, ", "rt_min(r, ",
                                       "(r * ", "(r + "};
    static const char *const whole[] = {"rt_iadd(r, ", "rt_imax(r, ",
                                        "rt_imin(r, ", "rt_imul(r, ",
                                        "rt_iadd(r, "};
    P("%sr = %s", before, dv_expr_is_integer(r) ? whole[r->fn] : real[r->fn]);
}

// Emits the index of a result element in a dense, row-major array of partial
// results (each the sum over some slices of the reduction).
static void put_place(emitter *e, const dv_op *op)
{
    int64_t stride = 1;
    int any = 0;
    for (int v = op->n_vars - 1; v >= 0; v--) {
        if (op->vars[v].reduce)
            continue;
        P("%s%" PRId64 " * (", any ? " + " : "", stride);
        dv_emit_var(&e->out, op, v);
        P(" - %" PRId64 ")", op->vars[v].begin);
        stride *= dv_var_len(op, v);
        any = 1;
    }
    if (!any)
        P("0");
}

static void put_store(emitter *e, const emit_op *o)
{
    P("        ");
    dv_emit_access(&e->out, o, &o->op->write, 0);
    P(" = ");
    dv_emit_stored(&e->out, o, o->op->body);
    P(";\n");
}

static void put_mean(emitter *e, const dv_op *op, const dv_expr *r)
{
    if (r->fn == DV_RED_MEAN)
        P("        r /= %" PRId64 ";\n", dv_op_points(op, r->vars));
}

// Emits the loops that reduce into the accumulator r over the ranges lo..hi of
// the reduction variables.
static void put_reduce(emitter *e, const emit_op *o, const dv_expr *r)
{
    put_neutral(e, r);
    put_loops(e, o->op, r->vars, 8);
    put_step(e, r, "            ");
    dv_emit_value(&e->out, o, r->arg[0], dv_expr_is_integer(r));
    P(");\n");
}

static void put_op(emitter *e, int32_t i)
{
    const dv_op *op = &e->p->ops[i];
    emit_op o = {e->p, op, needs_old(op)};
    const dv_expr *r = dv_op_reduce(op);
    int64_t parts = n_parts(e, i);
    uint32_t written = dv_written_vars(op);
    int64_t size = dv_op_points(op, written);
    const char *type = r && dv_expr_is_integer(r) ? "int64_t" : "double";
    if (parts > 1)
        P("static %s *part_%d;\n", type, (int)i);
    P("// %s\nstatic void op_%d(const int64_t *lo, const int64_t *hi%s%s)\n{\n",
      op->name, (int)i, parts > 1 ? ", int64_t part" : "",
      o.old ? ", const void *before" : "");
    if (o.old)
        P("    const %s *old = (const %s *)before;\n",
          dv_ctype(e->p->tensors[op->write.tensor].dtype),
          dv_ctype(e->p->tensors[op->write.tensor].dtype));
    P("    (void)lo, (void)hi;\n");
    put_loops(e, op, written, 4);
    P("    {\n");
    if (r)
        put_reduce(e, &o, r);
    if (parts > 1) {
        P("        part_%d[part * %" PRId64 " + ", (int)i, size);
        put_place(e, op);
        P("] = r;\n    }\n}\n\n");
        // Emits the function of the second phase, which combines the partial
        // results of every element in order.
        P("static void op_%d_end(const int64_t *lo, const int64_t *hi, int64_t "
          "parts%s)\n{\n",
          (int)i, o.old ? ", const void *before" : "");
        if (o.old)
            P("    const %s *old = (const %s *)before;\n    (void)old;\n",
              dv_ctype(e->p->tensors[op->write.tensor].dtype),
              dv_ctype(e->p->tensors[op->write.tensor].dtype));
        P("    (void)lo, (void)hi;\n");
        put_loops(e, op, written, 4);
        P("    {\n");
        put_neutral(e, r);
        P("        for (int64_t part = 0; part < parts; part++)\n");
        put_step(e, r, "            ");
        P("part_%d[part * %" PRId64 " + ", (int)i, size);
        put_place(e, op);
        P("]);\n");
    }
    if (r)
        put_mean(e, op, r);
    put_store(e, &o);
    P("    }\n}\n\n");
}

static void put_box_table(emitter *e, int32_t i)
{
    const dv_op *op = &e->p->ops[i];
    static const char *const rows[] = {"begin", "end", "slice"};
    for (int k = 0; k < 3; k++) {
        P("static const int64_t %s_%d[] = {", rows[k], (int)i);
        for (int v = 0; v < op->n_vars; v++)
            P("%s%" PRId64, v ? ", " : "",
              k == 0   ? op->vars[v].begin
              : k == 1 ? op->vars[v].end
                       : e->plan->slices[i][v]);
        P("%s};\n", op->n_vars ? "" : "0");
    }
    P("\n");
}

static const char *pragma(const emitter *e)
{
    return e->openmp ? "#pragma omp parallel for schedule(static, 1)\n" : "";
}

// Emits the head of a loop over tile numbers that are handed out dynamically:
// an idle thread takes the next `chunk` tiles from a shared counter. On one
// thread the tiles run one after another.
static void put_queue_loop(emitter *e, int64_t chunk, const char *name,
                           int64_t n)
{
    if (e->openmp)
        P("#pragma omp parallel for schedule(dynamic, %" PRId64 ")\n", chunk);
    P("    for (int64_t %s = 0; %s < %" PRId64 "; %s++)", name, name, n, name);
}

static void put_deals(emitter *e, int32_t group)
{
    const dv_group *g = &e->plan->groups[group];
    if (g->queue != DV_DEALT)
        return; // no core has tiles of its own
    P("// Tiles of each core: core, first, number.\n"
      "static const int64_t deals_%d[][3] = {\n",
      (int)group);
    for (int32_t d = 0; d < g->n_deals; d++)
        P("    {%" PRId64 ", %" PRId64 ", %" PRId64 "},\n", g->deals[d].core,
          g->deals[d].first_tile, g->deals[d].n_tiles);
    P("};\n\n");
}

// Emits the computation of `part`: the number of the partial result that tile t
// computes, if the reduction is cut into slices.
static void put_part(emitter *e, int32_t i)
{
    const dv_op *op = &e->p->ops[i];
    P("                int64_t part = 0;\n");
    for (int v = 0; v < op->n_vars; v++)
        if (op->vars[v].reduce) {
            int64_t slice = e->plan->slices[i][v];
            int64_t len = dv_var_len(op, v);
            P("                part = part * %" PRId64 " + (lo[%d] - %" PRId64
              ") / %" PRId64 ";\n",
              dv_ceil_div(len, slice), v, op->vars[v].begin, slice);
        }
}

// Emits the loop over all tiles of a group (ops that share one tile space) that
// runs the ops first..end-1 on each tile. With `ending`, the loop combines
// partial results instead.
static void put_sweep(emitter *e, int32_t group, int32_t first, int32_t end,
                      int ending)
{
    const dv_group *g = &e->plan->groups[group];
    if (g->queue != DV_DEALT) {
        put_queue_loop(e, g->chunk, "t", g->n_tiles);
        P(" {\n            int64_t lo[%d], hi[%d];\n", DV_MAX_VARS,
          DV_MAX_VARS);
    } else {
        P("%s    for (int d = 0; d < %d; d++)\n"
          "        for (int64_t i = 0; i < deals_%d[d][2]; i++) {\n"
          "            int64_t t = deals_%d[d][1] + i, lo[%d], hi[%d];\n",
          pragma(e), (int)g->n_deals, (int)group, (int)group, DV_MAX_VARS,
          DV_MAX_VARS);
    }
    for (int32_t i = first; i < end; i++) {
        const dv_op *op = &e->p->ops[i];
        int parts = n_parts(e, i) > 1;
        P("            rt_box(%d, begin_%d, end_%d, slice_%d, t, lo, hi);\n",
          (int)op->n_vars, (int)i, (int)i, (int)i);
        if (parts) {
            P("            {\n");
            if (ending)
                P("                const int64_t all = %" PRId64 ";\n",
                  n_parts(e, i));
            put_part(e, i);
            P(ending ? "                if (part == 0)\n    " : "");
        }
        P("%s            op_%d%s(lo, hi%s%s);\n", parts ? "    " : "", (int)i,
          ending ? "_end" : "",
          !parts   ? ""
          : ending ? ", all"
                   : ", part",
          needs_old(op) ? ", before" : "");
        if (parts)
            P("            }\n");
    }
    P("        }\n");
}

static void put_phases(emitter *e, int32_t group)
{
    const dv_group *g = &e->plan->groups[group];
    if (!in_turn(e, g)) {
        put_sweep(e, group, g->first_op, g->end_op, 0);
        return;
    }
    for (int32_t i = g->first_op; i < g->end_op; i++) {
        const dv_op *op = &e->p->ops[i];
        const dv_tensor *t = &e->p->tensors[op->write.tensor];
        int64_t parts = n_parts(e, i),
                size = dv_op_points(op, dv_written_vars(op));
        P("    {\n");
        if (needs_old(op)) {
            P("    void *before = rt_alloc(%" PRId64 ", sizeof(%s));\n"
              "    memcpy(before, ",
              t->n_elems, dv_ctype(t->dtype));
            dv_emit_tensor(&e->out, e->p, op->write.tensor);
            P(", %" PRId64 " * sizeof(%s));\n", t->n_elems, dv_ctype(t->dtype));
        }
        if (parts > 1)
            P("    part_%d = rt_alloc(%" PRId64 ", sizeof *part_%d);\n", (int)i,
              parts * size, (int)i);
        put_sweep(e, group, i, i + 1, 0);
        if (parts > 1) {
            put_sweep(e, group, i, i + 1, 1);
            P("    free(part_%d);\n", (int)i);
        }
        if (needs_old(op))
            P("    free(before);\n");
        P("    }\n");
    }
}

// Emits the computation of the box of tile (batch, m, n): the range lo..hi of
// every loop variable that the tile covers.
static void put_box(emitter *e, int32_t group, const dv_group_grid *g)
{
    const dv_op *op = &e->p->ops[e->plan->groups[group].first_op];
    const dv_tensor *t = &e->p->tensors[g->tensor];
    int n = t->n_dims, var, last = -1;
    for (int v = 0; v < op->n_vars; v++)
        if (op->vars[v].reduce) {
            P("    lo[%d] = %" PRId64 ", hi[%d] = %" PRId64 ";\n", v,
              op->vars[v].begin, v, op->vars[v].end);
            last = v;
        }
    for (int d = n - 3; d >= 0; d--) {
        dv_index_is_var(op, &op->write.index[d], &var);
        P("    lo[%d] = batch %% %" PRId64 ", hi[%d] = lo[%d] + 1, "
          "batch /= %" PRId64 ";\n",
          var, t->shape[d], var, var, t->shape[d]);
    }
    for (int k = 0; k < 2 && k < n; k++) {
        int64_t tile =
            k ? e->plan->target.tile_rows : e->plan->target.tile_cols;
        dv_index_is_var(op, &op->write.index[n - 1 - k], &var);
        P("    lo[%d] = %c * %" PRId64 ", hi[%d] = rt_imin(lo[%d] + "
          "%" PRId64 ", %" PRId64 ");\n",
          var, k ? 'm' : 'n', tile, var, var, tile, t->shape[n - 1 - k]);
    }
    if (last >= 0 && n_parts(e, e->plan->groups[group].first_op) > 1)
        P("    hi[%d] = rt_imin(lo[%d] + k1 * %" PRId64 ", hi[%d]);\n"
          "    lo[%d] += k0 * %" PRId64 ";\n",
          last, last, e->plan->target.tile_cols, last, last,
          e->plan->target.tile_cols);
}

// Emits the function for one tile: steps k0..k1 of the reduction are partial
// result number `rank` of `parts`. The function's parameter `ending` selects
// the phase that combines them.
static void put_tile(emitter *e, int32_t group, const dv_group_grid *g)
{
    int32_t op = e->plan->groups[group].first_op;
    int parts = n_parts(e, op) > 1;
    P("static void tile_%d(int64_t batch, int64_t m, int64_t n%s)\n{\n"
      "    int64_t lo[%d], hi[%d];\n    (void)batch, (void)m, (void)n;\n",
      (int)group,
      parts ? ", int64_t k0, int64_t k1, int64_t rank, int64_t parts, int "
              "ending"
            : "",
      DV_MAX_VARS, DV_MAX_VARS);
    put_box(e, group, g);
    if (parts)
        P("    if (!ending)\n        op_%d(lo, hi, rank);\n"
          "    else if (rank == 0)\n        op_%d_end(lo, hi, parts);\n",
          (int)op, (int)op);
    else
        P("    op_%d(lo, hi);\n", (int)op);
    P("}\n\n");
}

// Emits the list of tile ranges of all cores, and where in it each core's
// ranges begin.
static dv_status put_work(emitter *e, int32_t group, const dv_group_grid *g)
{
    emit_cores all;
    int32_t at = 0;
    DV_TRY(dv_emit_cores(&all, e, g));
    P("// %s, one line a range; cores_%d says which are whose.\n"
      "static const int64_t work_%d[][6] = {\n",
      g->rect ? "Rows m0..m1 and columns n0..n1"
              : "First tile, tiles, steps, number among the parts of the tile, "
                "parts",
      (int)group, (int)group);
    for (int32_t i = 0; i < all.n; i++)
        for (int32_t k = 0; k < all.at[i].n; k++) {
            const dv_tile_range *r = &all.at[i].at[k];
            const emit_core *c = &all.at[i];
            if (g->rect)
                P("    {%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "},\n",
                  r->m0, r->m1, r->n0, r->n1);
            else
                P("    {%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                  ", %d, %d},\n",
                  r->first, r->n, r->k0, r->k1, r->k0 ? (int)c->rank + 1 : 0,
                  r->k0 == 0 && r->k1 < g->kt ? (int)c->contributors + 1 : 1);
        }
    P("};\nstatic const int cores_%d[] = {0", (int)group);
    for (int32_t i = 0; i < all.n; i++)
        P(", %d", (int)(at += all.at[i].n));
    P("};\n\n");
    dv_release(all.at);
    return DV_OK;
}

// Emits the persistent loop of every core, in which it computes all tiles of
// its rectangle or of its tile ranges. Partial results are combined in a second
// phase.
static void put_persistent(emitter *e, int32_t group, const dv_group_grid *g)
{
    int32_t op = e->plan->groups[group].first_op;
    int64_t parts = n_parts(e, op);
    if (parts > 1)
        P("    part_%d = rt_alloc(%" PRId64 ", sizeof *part_%d);\n"
          "    for (int ending = 0; ending < 2; ending++)\n",
          (int)op,
          parts * dv_op_points(&e->p->ops[op], dv_written_vars(&e->p->ops[op])),
          (int)op);
    const char *core = e->stage_names ? "get_core_id()" : "core";
    const char *id = dv_emit_tile_id(e);
    P("    {\n%s    for (int core = 0; core < (int)(sizeof cores_%d / sizeof "
      "*cores_%d) - 1; core++)%s\n"
      "        for (int i = cores_%d[%s]; i < cores_%d[%s + 1]; i++) {\n"
      "            const int64_t *w = work_%d[i];\n",
      pragma(e), (int)group, (int)group,
      e->stage_names ? " {\n        core_id = core;" : "", (int)group, core,
      (int)group, core, (int)group);
    if (g->rect)
        P("            for (int64_t b = 0; b < %" PRId64 "; b++)\n"
          "                for (int64_t m = w[0]; m < w[1]; m++)\n"
          "                    for (int64_t n = w[2]; n < w[3]; n++)\n"
          "                        tile_%d(b, m, n);\n",
          g->batch, (int)group);
    else
        P("            for (int64_t %s = w[0]; %s < w[0] + w[1]; %s++) {\n"
          "                int64_t m, n;\n"
          "                tile_at_%d(%s %% %" PRId64 ", &m, &n);\n"
          "                tile_%d(%s / %" PRId64 ", m, n%s);\n"
          "            }\n",
          id, id, id, (int)group, id, g->mt * g->nt, (int)group, id,
          g->mt * g->nt, parts > 1 ? ", w[2], w[3], w[4], w[5], ending" : "");
    P("        }\n%s    }\n", e->stage_names ? "    }\n" : "");
    if (parts > 1)
        P("    free(part_%d);\n", (int)op);
}

// Emits the loop over the tiles of a grid that threads take from a queue.
static dv_status put_tickets(emitter *e, int32_t group, const dv_group_grid *g,
                             int64_t chunk)
{
    if (n_parts(e, e->plan->groups[group].first_op) > 1)
        return dv_fail(e->diag, DV_E_USAGE, dv_plan_at(e->plan, g->off),
                       "group %d: with policy %s, tiles are not cut along k",
                       (int)group, g->policy);
    dv_order o = dv_grid_order(g);
    dv_emit_decode(&e->out, &o, (int)group, "int64_t");
    put_tile(e, group, g);
    P("static void group_%d(void)\n{\n", (int)group);
    const char *id = dv_emit_tile_id(e);
    put_queue_loop(e, chunk, id, g->batch * g->mt * g->nt);
    P(" {\n"
      "        int64_t m, n;\n"
      "        tile_at_%d(%s %% %" PRId64 ", &m, &n);\n"
      "        tile_%d(%s / %" PRId64 ", m, n);\n"
      "    }\n}\n\n",
      (int)group, id, g->mt * g->nt, (int)group, id, g->mt * g->nt);
    return DV_OK;
}

static dv_status put_group(emitter *e, int32_t group)
{
    const dv_group *gr = &e->plan->groups[group];
    const dv_group_grid *g = grid_of(e, group);
    int64_t chunk = g ? dv_emit_chunk(g) : 0;
    if (chunk)
        return put_tickets(e, group, g, chunk);
    if (g) {
        dv_order o = dv_grid_order(g);
        DV_TRY(put_work(e, group, g));
        if (!g->rect)
            dv_emit_decode(&e->out, &o, (int)group, "int64_t");
        put_tile(e, group, g);
        P("static void group_%d(void)\n{\n", (int)group);
        put_persistent(e, group, g);
    } else {
        put_deals(e, group);
        for (int32_t i = gr->first_op; i < gr->end_op; i++)
            put_box_table(e, i);
        P("static void group_%d(void)\n{\n", (int)group);
        put_phases(e, group);
    }
    P("}\n\n");
    return DV_OK;
}

// In the program of a rank, some groups only mark where the rank communicates
// (an event). Returns the event's number for such a group, else -1.
static int event_of(const emitter *e, const dv_group *g)
{
    const dv_op *op = &e->p->ops[g->first_op];
    const char *events = e->part ? e->part->messages : NULL;
    return events && !strcmp(e->p->tensors[op->write.tensor].name, events)
               ? (int)op->body->value
               : -1;
}

// Emits the calls of all groups (ops that share one tile space) in order, in
// loops where the program repeats ops.
static void put_run(emitter *e)
{
    int depth = 0;
    P("static void run(void)\n{\n");
    for (int32_t i = 0; i < e->plan->n_groups; i++) {
        const dv_group *g = &e->plan->groups[i];
        for (int32_t r = 0; r < e->p->n_repeats; r++)
            if (e->p->repeats[r].first_op == g->first_op) {
                P("%*sfor (int64_t r%d = 0; r%d < %" PRId64 "; r%d++) {\n",
                  4 + 4 * depth, "", (int)r, (int)r, e->p->repeats[r].times,
                  (int)r);
                depth++;
            }
        P("%*s%s_%d();\n", 4 + 4 * depth, "",
          event_of(e, g) < 0 ? "group" : "event",
          event_of(e, g) < 0 ? (int)i : event_of(e, g));
        for (int32_t r = 0; r < e->p->n_repeats; r++)
            if (e->p->repeats[r].end_op == g->end_op &&
                e->p->repeats[r].end_op > e->p->repeats[r].first_op)
                P("%*s}\n", 4 * depth--, "");
    }
    P("}\n\n");
}

static void put_main(emitter *e)
{
    P("int main(int argc, char **argv)\n{\n");
    dv_emit_check_args(e);
    for (int32_t t = 0; t < e->p->n_tensors; t++) {
        const dv_tensor *x = &e->p->tensors[t];
        P("    ");
        dv_emit_tensor(&e->out, e->p, t);
        P(" = rt_alloc(%" PRId64 ", sizeof(%s));\n", x->n_elems,
          dv_ctype(x->dtype));
        if (!x->is_input)
            continue;
        dv_text data = {0};
        dv_emit_tensor(&data, e->p, t);
        e->out.failed |= data.failed;
        dv_emit_read(e, x, dv_ctype(x->dtype), data.at ? data.at : "");
        dv_text_free(&data);
    }
    P("    run();\n");
    for (int32_t t = 0; t < e->p->n_tensors; t++) {
        const dv_tensor *x = &e->p->tensors[t];
        if (!x->is_output)
            continue;
        P("    rt_write(argc, argv, \"%s\", \"%s\", \"", x->name,
          dv_dtype_get(x->dtype)->npy);
        for (int d = 0; d < x->n_dims; d++)
            P("%s%" PRId64, d ? ", " : "", x->shape[d]);
        P("%s\", ", x->n_dims == 1 ? "," : "");
        dv_emit_tensor(&e->out, e->p, t);
        P(", %" PRId64 ", sizeof(%s), %d);\n", x->n_elems, dv_ctype(x->dtype),
          x->is_input);
    }
    for (int32_t t = 0; t < e->p->n_tensors; t++) {
        P("    free(");
        dv_emit_tensor(&e->out, e->p, t);
        P(");\n");
    }
    P("    return 0;\n}\n");
}

void dv_emit_tensors(emitter *e)
{
    for (int32_t t = 0; t < e->p->n_tensors; t++) {
        P("static %s *", dv_ctype(e->p->tensors[t].dtype));
        dv_emit_tensor(&e->out, e->p, t);
        P(";\n");
    }
    P("\n");
}

dv_status dv_emit_body(emitter *e)
{
    for (int32_t g = 0; g < e->plan->n_groups; g++) {
        if (event_of(e, &e->plan->groups[g]) >= 0)
            continue;
        for (int32_t i = e->plan->groups[g].first_op;
             i < e->plan->groups[g].end_op; i++)
            put_op(e, i);
        DV_TRY(put_group(e, g));
    }
    put_run(e);
    return DV_OK;
}

dv_status dv_emit_c(emitter *e)
{
    P("// Made by divvy for %s. Build: cc -O2 %sprogram.c -lm\n"
      "// Run: ./a.out NAME=FILE.npy for every input, and for the outputs "
      "that\n"
      "// are to be written.\n"
      "//\n"
      "// This is a plain reference: it computes what the plan computes, tile "
      "by\n"
      "// tile in the plan's order, and is not fast.\n"
      "#include \"rt.h\"\n\n",
      e->plan->target.name, e->openmp ? "-fopenmp " : "");
    if (e->stage_names)
        P("// The number of the core whose tiles are computed.\n"
          "static _Thread_local int core_id;\n"
          "static inline int get_core_id(void)\n{\n    return core_id;\n}\n\n");
    dv_emit_tensors(e);
    DV_TRY(dv_emit_body(e));
    put_main(e);
    DV_TRY(dv_emit_file(e, "program.c"));
    return dv_emit_rt(e);
}
