// Shards of a result that the program's notes demand: where a tensor lies in
// the memories of the cores says who computes what of it.
//
//   input a: f32[256, 64] @ l1(sharded 64x64 on 4x1 rows)
//   y[m,n] = relu(sum[k] a[m,k] * b[k,n])
//
// The core in column 0 and row i has rows 64 * i to 64 * i + 63 of a, so it
// computes these rows of y. The note of the result decides; without one, the
// operands in shards whose parts belong to parts of the result must agree.
// Operands cut along a reduced variable decide nothing: they are read from
// other cores.
#include "grid/shards.h"
#include "base/math.h"
#include <inttypes.h>
#include <string.h>

static dv_loc note_at(const dv_plan *plan, const dv_memory_note *m)
{
    const dv_source *src = &plan->ops->src;
    return (dv_loc){src->text ? src : NULL, m->off};
}

// Returns which dim of the result an index of an operand runs along: 0 for its
// rows, 1 for its columns, -1 for neither.
static int plane_dim(const dv_plan *plan, const dv_op *op, const dv_index *x,
                     int64_t size)
{
    const dv_tensor *t = &plan->ops->tensors[op->write.tensor];
    int v = dv_index_whole_var(op, x, size);
    for (int r = 0; r < 2 && v >= 0; r++) {
        int d = t->n_dims - 2 + r;
        if (d >= 0 &&
            dv_index_whole_var(op, &op->write.index[d], t->shape[d]) == v)
            return r;
    }
    return -1;
}

// Derives the shards of the op's result from the shards of a tensor that it
// accesses: each core computes what belongs to the shard that it holds. Returns
// 0 if the tensor does not determine them.
static int noted_by(dv_noted_shards *out, const dv_plan *plan,
                    const dv_group_grid *g, const dv_op *op, const dv_access *a)
{
    const dv_tensor *t = &plan->ops->tensors[a->tensor];
    const dv_memory_note *m = t->memory;
    int64_t tile[2] = {plan->target.tile_rows, plan->target.tile_cols};
    if (!dv_on_cores(m) || t->n_dims != 2 || g->batch != 1)
        return 0;
    *out = (dv_noted_shards){.note = m,
                             .tensor = a->tensor,
                             .along = {-1, -1},
                             .grid = {1, 1},
                             .tiles = {g->mt, g->nt}};
    for (int d = 0; d < 2; d++) {
        int64_t len = d ? m->cols : m->rows;
        out->n[d] = t->shape[d] / len;
        if (out->n[d] == 1)
            continue;
        int r = plane_dim(plan, op, &a->index[d], t->shape[d]);
        if (r < 0 || len % tile[r] || out->grid[r] != 1)
            return 0;
        out->along[d] = r;
        out->grid[r] = out->n[d];
        out->tiles[r] = len / tile[r];
    }
    return 1;
}

// Finds the column *x and row *y of the core that has the result's shard in row
// sy and column sx of the grid of shards.
static void core_of_shard(const dv_noted_shards *s, int64_t sy, int64_t sx,
                          int64_t *x, int64_t *y)
{
    const int64_t at[2] = {sy, sx};
    int64_t i[2];
    for (int d = 0; d < 2; d++)
        i[d] = s->along[d] < 0 ? 0 : at[s->along[d]];
    dv_memory_note_core(s->note, i[0] * s->n[1] + i[1], x, y);
}

static int same_shards(const dv_noted_shards *a, const dv_noted_shards *b)
{
    int same = a->grid[0] == b->grid[0] && a->grid[1] == b->grid[1];
    for (int64_t i = 0; same && i < a->grid[0] * a->grid[1]; i++) {
        int64_t p[4], sy = i / a->grid[1], sx = i % a->grid[1];
        core_of_shard(a, sy, sx, &p[0], &p[1]);
        core_of_shard(b, sy, sx, &p[2], &p[3]);
        same = p[0] == p[2] && p[1] == p[3];
    }
    return same;
}

dv_status dv_grid_noted(dv_noted_shards *out, const dv_plan *plan,
                        const dv_group_grid *g, dv_diag *diag)
{
    const dv_op *op = &plan->ops->ops[plan->groups[g->group].end_op - 1];
    dv_noted_shards other;
    if (noted_by(out, plan, g, op, &op->write))
        return DV_OK;
    const dv_tensor *t = &plan->ops->tensors[g->tensor];
    if (dv_on_cores(t->memory))
        return dv_fail(diag, DV_E_SHAPE, note_at(plan, t->memory),
                       "%s lies in shards, and %s writes other than whole rows "
                       "and columns of it",
                       t->name, op->name);
    *out = (dv_noted_shards){.tensor = -1};
    for (int32_t r = 0; r < op->n_reads; r++) {
        if (!noted_by(&other, plan, g, op, &op->reads[r]))
            continue;
        if (out->tensor < 0) {
            *out = other;
        } else if (!same_shards(out, &other)) {
            const dv_tensor *all = plan->ops->tensors;
            dv_status st =
                dv_fail(diag, DV_E_SHAPE, note_at(plan, other.note),
                        "%s and %s put parts of %s on different cores: say "
                        "where %s lies",
                        all[out->tensor].name, all[other.tensor].name,
                        all[g->tensor].name, all[g->tensor].name);
            dv_note(diag, note_at(plan, out->note), "%s lies here",
                    all[out->tensor].name);
            return st;
        }
    }
    return DV_OK;
}

dv_status dv_grid_place_noted(dv_plan *plan, dv_group_grid *g,
                              const dv_noted_shards *s, dv_diag *diag)
{
    int64_t n = s->grid[0] * s->grid[1];
    g->local_shard = 1;
    g->list = NULL;
    g->order = "row_major";
    g->policy = "static";
    g->gy = s->grid[0], g->gx = s->grid[1];
    g->sm = s->tiles[0], g->sn = s->tiles[1];
    g->ranges = DV_NEW(&plan->arena, dv_tile_range, n);
    if (!g->ranges)
        return dv_nomem(diag);
    for (g->n_ranges = 0; g->n_ranges < n; g->n_ranges++) {
        dv_tile_range *r = &g->ranges[g->n_ranges];
        *r = (dv_tile_range){
            .k1 = g->kt, .sy = g->n_ranges / g->gx, .sx = g->n_ranges % g->gx};
        core_of_shard(s, r->sy, r->sx, &r->x, &r->y);
    }
    return DV_OK;
}

dv_status dv_grid_check_words(const dv_plan *plan, const dv_noted_shards *s,
                              const dv_plan_options *options, dv_diag *diag)
{
    const struct {
        const char *what, *word, *fits;
    } told[] = {{"policy", options->policy, "static"},
                {"order", options->order, "row_major"}};
    for (int i = 0; i < 2; i++)
        if (told[i].word && strcmp(told[i].word, "auto") &&
            strcmp(told[i].word, told[i].fits))
            return dv_fail(diag, DV_E_USAGE, note_at(plan, s->note),
                           "the shards of %s say which core computes what; the "
                           "%s %s says otherwise",
                           plan->ops->tensors[s->tensor].name, told[i].what,
                           told[i].word);
    return DV_OK;
}

// Adds a tensor's bytes in each core's memory to used[row * columns + column].
// Returns the largest of these sums, or -1 if a shard is on a core that does
// not exist.
static int64_t add_bytes(const dv_plan *plan, const dv_tensor *t, int64_t *used)
{
    const dv_memory_note *m = t->memory;
    const dv_target *machine = &plan->target;
    dv_core_grid all = dv_target_grid(machine);
    int64_t elem = dv_dtype_get(t->dtype)->size_bytes, most = 0;
    int64_t page = machine->tile_rows * machine->tile_cols;
    int64_t pages = t->n_dims < 2 ? 1
                                  : dv_ceil_div(t->shape[t->n_dims - 2],
                                                machine->tile_rows);
    pages *= t->n_dims
                 ? dv_ceil_div(t->shape[t->n_dims - 1], machine->tile_cols)
                 : 1;
    for (int d = 0; d < t->n_dims - 2; d++)
        pages *= t->shape[d];
    int64_t bytes = m->is_sharded
                        ? m->rows * m->cols * elem
                        : dv_ceil_div(pages, machine->cores) * page * elem;
    int64_t n =
        m->is_sharded ? m->grid_rows * m->grid_cols : all.cols * all.rows;
    for (int64_t i = 0; i < n; i++) {
        int64_t x = i % all.cols, y = i / all.cols;
        if (m->is_sharded)
            dv_memory_note_core(m, i, &x, &y);
        if (dv_target_core(machine, x, y) < 0 && m->is_sharded)
            return -1;
        used[y * all.cols + x] += bytes;
        most = dv_max_i64(most, used[y * all.cols + x]);
    }
    return most;
}

static dv_status check_note(const dv_plan *plan, const dv_tensor *t,
                            int64_t *used, dv_diag *diag)
{
    const dv_target *machine = &plan->target;
    const dv_memory_note *m = t->memory;
    dv_loc at = note_at(plan, m);
    DV_TRY(dv_memory_note_check(m, t->name, t->n_dims, t->shape, 1, at, diag));
    if (m->is_sharded &&
        (m->rows % machine->tile_rows || m->cols % machine->tile_cols))
        return dv_fail(diag, DV_E_SHAPE, at,
                       "shards of %" PRId64 "x%" PRId64
                       " are not whole tiles; those of %s are %" PRId64
                       "x%" PRId64,
                       m->rows, m->cols, machine->name, machine->tile_rows,
                       machine->tile_cols);
    if (!m->in_l1)
        return DV_OK;
    dv_core_grid all = dv_target_grid(machine);
    if (m->grid_rows > all.rows || m->grid_cols > all.cols)
        return dv_fail(diag, DV_E_CAPACITY, at,
                       "a grid of %" PRId64 "x%" PRId64
                       " cores (rows x columns); %s has %" PRId64 "x%" PRId64,
                       m->grid_rows, m->grid_cols, machine->name, all.rows,
                       all.cols);
    int64_t room = dv_target_usable_bytes(machine);
    int64_t most = add_bytes(plan, t, used);
    if (most < 0)
        return dv_fail(diag, DV_E_CAPACITY, at,
                       "the grid of %s covers a core that %s does not have or "
                       "may not use",
                       t->name, machine->name);
    if (most > room)
        return dv_fail(diag, DV_E_CAPACITY, at,
                       "with %s a core holds %" PRId64
                       " bytes in l1, it has %" PRId64,
                       t->name, most, room);
    return DV_OK;
}

dv_status dv_grid_check_notes(const dv_plan *plan, dv_diag *diag)
{
    dv_core_grid all = dv_target_grid(&plan->target);
    int64_t *used = dv_alloc((size_t)(all.cols * all.rows) * sizeof *used);
    if (!used)
        return dv_nomem(diag);
    memset(used, 0, (size_t)(all.cols * all.rows) * sizeof *used);
    dv_status st = DV_OK;
    for (int32_t i = 0; i < plan->ops->n_tensors && st == DV_OK; i++)
        if (plan->ops->tensors[i].memory)
            st = check_note(plan, &plan->ops->tensors[i], used, diag);
    dv_release(used);
    return st;
}
