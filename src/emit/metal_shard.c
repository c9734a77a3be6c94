// Emits what lies in shards in the memories of cores: buffers of the host
// program, and circular buffers that are a core's shard itself, so that tiles
// are neither read nor written over the network.
//
// A tile of any shard has a page of its buffer, like tiles in main memory, so
// that other operands in shards are read by page, from whichever core has them.
#include "emit/emit.h"
#include "base/math.h"
#include "grid/shards.h"
#include <inttypes.h>

#define P(...) dv_put(&e->out, __VA_ARGS__)

enum { TILE = 32 };

// Gets how many rows and columns of tiles a tensor has. Returns 0 unless it is
// a matrix, a vector or a scalar.
static int tiles_of(const dv_tensor *t, int64_t tiles[2])
{
    int n = t->n_dims;
    tiles[0] = n > 1 ? dv_ceil_div(t->shape[n - 2], TILE) : 1;
    tiles[1] = n > 0 ? dv_ceil_div(t->shape[n - 1], TILE) : 1;
    return n <= 2;
}

static emit_shards *new_shards(emitter *e, const dv_tensor *t, int64_t rows,
                               int64_t cols)
{
    emit_shards *s = DV_NEW(&e->arena, emit_shards, 1);
    int64_t tiles[2];
    if (!s)
        return NULL;
    tiles_of(t, tiles);
    *s = (emit_shards){.tiles = {rows, cols},
                       .n = {tiles[0] / rows, tiles[1] / cols}};
    s->cores = DV_NEW(&e->arena, dv_xy, s->n[0] * s->n[1]);
    return s->cores ? s : NULL;
}

// Sets a tensor's shards to those that the user's note on it in the program
// asks for.
static dv_status take_note(emitter *e, int32_t tensor)
{
    const dv_tensor *t = &e->p->tensors[tensor];
    const dv_memory_note *m = t->memory;
    emit_shards *s = new_shards(e, t, m->rows / TILE, m->cols / TILE);
    if (!s)
        return dv_nomem(e->diag);
    for (int64_t i = 0; i < s->n[0] * s->n[1]; i++) {
        int64_t x, y;
        dv_memory_note_core(m, i, &x, &y);
        s->cores[i] = (dv_xy){(int32_t)x, (int32_t)y};
    }
    e->shards[tensor] = s;
    return DV_OK;
}

// Sets the shards of a resident tensor: each core keeps the part of it that it
// has computed.
static dv_status take_home(emitter *e, const emit_kernel *k)
{
    const dv_tensor *t = &e->p->tensors[k->g->tensor];
    const dv_group_grid *g = k->g;
    if (t->is_output || t->is_input || !g->local_shard ||
        dv_home_of(e->plan, k->id, k->op->n_reads) < 0)
        return DV_OK;
    emit_shards *s = new_shards(e, t, g->sm, g->sn);
    if (!s)
        return dv_nomem(e->diag);
    for (int32_t i = 0; i < g->n_ranges; i++) {
        const dv_tile_range *r = &g->ranges[i];
        s->cores[r->sy * g->gx + r->sx] = (dv_xy){(int32_t)r->x, (int32_t)r->y};
    }
    e->shards[g->tensor] = s;
    return DV_OK;
}

dv_status dv_emit_find_shards(emitter *e, const emit_kernel *kernels)
{
    size_t n = (size_t)e->p->n_tensors;
    // A plan that was written by hand may have notes that no pass has checked.
    DV_TRY(dv_grid_check_notes(e->plan, e->diag));
    e->shards = DV_NEW(&e->arena, const emit_shards *, n + 1);
    if (!e->shards)
        return dv_nomem(e->diag);
    for (size_t i = 0; i < n; i++) {
        const dv_tensor *t = &e->p->tensors[i];
        const dv_memory_note *m = t->memory;
        if (dv_on_cores(m))
            DV_TRY(take_note(e, (int32_t)i));
        if (!m || !m->is_sharded || m->in_l1)
            continue;
        if (e->plan->target.memory_banks < 1)
            return dv_fail(e->diag, DV_E_USAGE, DV_NOWHERE,
                           "%s is sharded over the banks of main memory, and "
                           "%s does not say how many it has",
                           t->name, e->plan->target.name);
        if (m->by_cols && m->cols < t->shape[1] && m->rows < t->shape[0])
            return dv_fail(e->diag, DV_E_USAGE, DV_NOWHERE,
                           "buffers of the machine count shards in main memory "
                           "row by row, those of %s are counted column by "
                           "column",
                           t->name);
    }
    for (int32_t i = 0; i < e->p->n_ops; i++)
        DV_TRY(take_home(e, &kernels[i]));
    return DV_OK;
}

// Returns whether every core has in its own memory the shard it needs: row of
// shards sy and column sx for its part of the result. `row` says whether sy
// follows the result's rows ('m') or columns ('n') or is 0; `col` says it for
// sx.
static int has_own_shards(const dv_group_grid *g, const emit_shards *s,
                          char row, char col)
{
    for (int32_t i = 0; i < g->n_ranges; i++) {
        const dv_tile_range *r = &g->ranges[i];
        int64_t sy = row == 'm' ? r->sy : row == 'n' ? r->sx : 0;
        int64_t sx = col == 'm' ? r->sy : col == 'n' ? r->sx : 0;
        if (sy >= s->n[0] || sx >= s->n[1])
            return 0;
        const dv_xy *c = &s->cores[sy * s->n[1] + sx];
        if (c->x != r->x || c->y != r->y)
            return 0;
    }
    return 1;
}

// If a core reads each tile of its own shard of an operand exactly once and in
// storage order, returns the shard's number of tiles; otherwise 0. The circular
// buffer can then be the shard itself.
static int64_t own_operand(const emitter *e, const emit_kernel *k,
                           const emit_operand *o)
{
    static const char loops[] = {'m', 'n', 'k'}; // from the outermost
    const emit_shards *s = e->shards[o->tensor];
    int64_t n[] = {k->g->sm, k->g->sn, o->stage == STAGE_STEP ? k->steps : 1};
    int64_t tall = 1, wide = 1, last = -1;
    if (!s || !k->g->local_shard || o->n_batch || o->row == 'p' ||
        o->col == 'p')
        return 0;
    for (int i = 0; i < 3; i++) {
        int is_row = o->row == loops[i], is_col = o->col == loops[i];
        if (n[i] > 1 && !is_row && !is_col)
            return 0; // tiles are read again
        if (n[i] > 1 && is_row && last == 1)
            return 0; // columns of tiles are the outer loop
        tall *= is_row ? n[i] : 1;
        wide *= is_col ? n[i] : 1;
        last = n[i] > 1 ? is_col : last;
    }
    if (s->tiles[0] != tall || s->tiles[1] != wide ||
        !has_own_shards(k->g, s, o->row, o->col))
        return 0;
    return tall * wide;
}

static int64_t own_result(const emitter *e, const dv_group_grid *g)
{
    const emit_shards *s = e->shards[g->tensor];
    if (!s || !g->local_shard || s->tiles[0] != g->sm || s->tiles[1] != g->sn ||
        !has_own_shards(g, s, 'm', 'n'))
        return 0;
    return g->sm * g->sn;
}

void dv_emit_match_shards(const emitter *e, emit_kernel *k)
{
    for (int i = 0; i < k->n_in; i++)
        k->in[i].own_tiles = own_operand(e, k, &k->in[i]);
    k->own_tiles = own_result(e, k->g);
}

void dv_emit_own_shards(emitter *e, const emit_kernel *k)
{
    for (int i = 0; i < k->n_in; i++)
        if (k->in[i].own_tiles)
            P("    // Circular buffer %d is this core's shard of %s.\n"
              "    cb_reserve_back(%d, %" PRId64 ");\n"
              "    cb_push_back(%d, %" PRId64 ");\n",
              i, e->p->tensors[k->in[i].tensor].name, i, k->in[i].own_tiles, i,
              k->in[i].own_tiles);
}

void dv_emit_own_result(emitter *e, const emit_kernel *k)
{
    P("    // Circular buffer %d is this core's shard of %s.\n"
      "    cb_wait_front(%d, %" PRId64 ");\n"
      "    cb_pop_front(%d, %" PRId64 ");\n",
      (int)CB_OUT, e->p->tensors[k->g->tensor].name, (int)CB_OUT, k->own_tiles,
      (int)CB_OUT, k->own_tiles);
}

void dv_emit_sharding(emitter *e, int32_t tensor)
{
    const dv_tensor *t = &e->p->tensors[tensor];
    const emit_shards *s = e->shards[tensor];
    const dv_memory_note *m = t->memory;
    int64_t of[2], shard[2] = {0, 0}, n = 0;
    P(", .buffer_type = BufferType::%s", s || (m && m->in_l1) ? "L1" : "DRAM");
    tiles_of(t, of);
    for (int d = 0; d < 2 && (s || (m && m->is_sharded)); d++)
        shard[d] = s ? s->tiles[d] : (d ? m->cols : m->rows) / TILE;
    if (!shard[0])
        return;
    n = of[0] / shard[0] * (of[1] / shard[1]);
    if (!s)
        n = dv_min_i64(n, e->plan->target.memory_banks);
    P(",\n            .sharding_args = BufferDistributionSpec(Shape({%" PRId64
      ", %" PRId64 "}), Shape({%" PRId64 ", %" PRId64
      "}), std::vector<CoreCoord>{",
      of[0], of[1], shard[0], shard[1]);
    for (int64_t i = 0; i < n; i++)
        P("%s{%d, %d}", i ? ", " : "", s ? s->cores[i].x : (int)i,
          s ? s->cores[i].y : 0);
    P("})");
}

// Returns how many bytes of each core's memory a tensor takes.
static int64_t bytes_on_core(const emitter *e, int32_t tensor)
{
    const dv_tensor *t = &e->p->tensors[tensor];
    const emit_shards *s = e->shards[tensor];
    int64_t page = TILE * TILE * dv_dtype_get(t->dtype)->size_bytes, of[2];
    tiles_of(t, of);
    for (int d = 0; d < t->n_dims - 2; d++)
        of[0] *= t->shape[d];
    if (s)
        return s->tiles[0] * s->tiles[1] * page;
    if (t->memory && t->memory->in_l1)
        return dv_ceil_div(of[0] * of[1], e->plan->target.cores) * page;
    return 0;
}

dv_status dv_emit_check_room(const emitter *e, const emit_kernel *k)
{
    int64_t room = dv_target_usable_bytes(&e->plan->target), held = 0;
    for (int32_t i = 0; i < e->p->n_tensors; i++)
        held += bytes_on_core(e, i);
    if (held + e->cb_bytes <= room)
        return DV_OK;
    return dv_fail(e->diag, DV_E_CAPACITY, DV_NOWHERE,
                   "%s has no kernel: its circular buffers take %" PRId64
                   " bytes of a core, tensors in l1 %" PRId64
                   ", together more than the %" PRId64 " that it has",
                   k->op->name, e->cb_bytes, held, room);
}
