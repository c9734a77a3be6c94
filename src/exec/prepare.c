// Prepares runs on threads: the kernels of all tiles, and the sizes of the
// memory that a run needs.
#include "base/filemap.h"
#include "base/math.h"
#include "base/stop.h"
#include "grid/grid.h"
#include "nest/sums.h"
#include "exec/state.h"
#include "exec/op/vec_range.h"
#include "jit/backend.h"
#include "target/host.h"
#include <inttypes.h>
#include <string.h>

int dv_group_splits_reduction(const dv_plan *plan, int32_t group)
{
    const dv_group *g = &plan->groups[group];
    for (int32_t op = g->first_op; op < g->end_op; op++)
        if (dv_plan_splits_reduction(plan, op))
            return 1;
    return 0;
}

// Determines how the threads get the tiles of a group (ops that share one tile
// space): from its deals (ranges of tiles per core), its grid or a work queue.
static void find_tile_source(const dv_plan *plan, int32_t number,
                             dv_group_exec *run)
{
    const dv_group *g = &plan->groups[number];
    int64_t chunk = 1;
    dv_policy p;
    run->grid = dv_grid_of(plan, number);
    run->n_queued = g->queue == DV_DEALT ? 0 : g->n_tiles;
    run->chunk = g->chunk;
    run->steal = g->queue == DV_STEAL;
    if (!run->grid)
        return;
    run->order = dv_grid_order(run->grid);
    run->n_queued = 0;
    int64_t n = run->grid->batch * run->grid->mt * run->grid->nt;
    if (!dv_policy_parse(&p, &chunk, run->grid->policy) ||
        p < DV_POLICY_TICKET || n > INT32_MAX)
        return;
    run->n_queued = n;
    run->chunk = chunk;
    run->steal = p == DV_POLICY_STEAL;
}

// Computes how many blocks of accumulators a group (ops that share one tile
// space) needs for partial sums, and the bytes of one block.
static void part_needs(const dv_plan *plan, int32_t number,
                       const dv_group_exec *run, int64_t *slots, int64_t *bytes)
{
    const dv_group *g = &plan->groups[number];
    *slots = *bytes = 0;
    if (run->grid && run->parts) {
        *slots = run->grid->n_ranges;
        *bytes = 8 * plan->target.tile_rows * plan->target.tile_cols;
        return;
    }
    for (int32_t i = g->first_op; i < g->end_op; i++) {
        const dv_op *o = &plan->ops->ops[i];
        int64_t n = 8;
        if (!dv_plan_splits_reduction(plan, i) || run->grid)
            continue;
        for (int v = 0; v < o->n_vars; v++)
            n *= o->vars[v].reduce ? 1 : plan->slices[i][v];
        *bytes = dv_max_i64(*bytes, n);
        *slots = g->n_tiles;
    }
}

static int grid_in_parts(const dv_group_grid *g)
{
    for (int32_t i = 0; i < g->n_ranges; i++)
        if (dv_range_is_partial(g, &g->ranges[i]))
            return 1;
    return 0;
}

// Fills in the run-time data of all groups and finds the memory of the
// accumulators of partial sums. Returns 0 if its size overflows.
static int find_parts(dv_exec *x)
{
    const dv_plan *plan = x->plan;
    int64_t most = 0, total = 0;
    x->part_bytes = x->all_parts_bytes = 0;
    for (int32_t g = 0; g < plan->n_groups; g++) {
        const dv_group *group = &plan->groups[g];
        dv_group_exec *run = &x->group[g];
        int64_t slots, bytes;
        find_tile_source(plan, g, run);
        run->parts = run->grid ? grid_in_parts(run->grid)
                               : dv_group_splits_reduction(plan, g);
        run->snapshots = 0;
        for (int32_t i = group->first_op; i < group->end_op; i++)
            run->snapshots |= x->kernels[i].old_off >= 0;
        part_needs(plan, g, run, &slots, &bytes);
        x->part_bytes = dv_max_i64(x->part_bytes, bytes);
        most = dv_max_i64(most, slots);
    }
    if (most == 0)
        return 1;
    if (!dv_mul_i64(&total, x->part_bytes, most))
        return 0;
    x->all_parts_bytes = total;
    return 1;
}

// Prepares the contractions of all tiles of an op.
static dv_status prepare_tiles(dv_exec *x, const dv_op_kernels *prepared,
                               int32_t op, int32_t number, dv_diag *diag)
{
    for (int64_t i = 0; i < x->plan->groups[number].n_tiles; i++) {
        dv_tile t;
        dv_plan_tile(&t, x->plan, op, i);
        DV_TRY(dv_product_prepare(prepared->product, &t, &x->set, diag));
    }
    return DV_OK;
}

// Prepares a product. While schedules are chosen, an epilogue for which some
// tile has no fused kernel is made to run separately, and prepared->product
// becomes NULL if some tile has no kernel at all.
static dv_status prepare_product(dv_exec *x, dv_op_kernels *prepared,
                                 int32_t op, int32_t number, dv_diag *diag)
{
    if (!x->choosing)
        return prepare_tiles(x, prepared, op, number, diag);
    dv_status st = prepare_tiles(x, prepared, op, number, NULL);
    if (st != DV_OK && st != DV_E_NOMEM && dv_product_unfuse(prepared->product))
        st = prepare_tiles(x, prepared, op, number, NULL);
    if (st == DV_E_LIMIT) {
        prepared->product = NULL;
        return DV_OK;
    }
    if (st == DV_OK)
        return DV_OK;
    // The calls above were made without `diag`; the failing one is repeated to
    // record its error message.
    DV_TRY(prepare_tiles(x, prepared, op, number, diag));
    return dv_nomem(diag);
}

// Generates the op's vector kernels. While schedules are chosen, prepared->vec
// becomes NULL if a kernel would exceed the size limit.
static dv_status make_kernels(dv_exec *x, dv_op_kernels *prepared,
                              const dv_vec_spec *spec, dv_diag *diag)
{
    if (!prepared->vec)
        return DV_OK;
    if (!x->choosing)
        return dv_vec_op_kernels(prepared->vec, spec, x->jit, &x->arena, diag);
    dv_diag *own = dv_diag_create();
    if (!own)
        return dv_nomem(diag);
    dv_status st =
        dv_vec_op_kernels(prepared->vec, spec, x->jit, &x->arena, own);
    if (st == DV_E_LIMIT) {
        prepared->vec = NULL;
        st = DV_OK;
    } else {
        dv_diag_move(diag, own);
    }
    dv_diag_destroy(own);
    return st;
}

// The most bytes that operand copies of one block take, so that they and the
// results stay in an L1 cache of 32 KiB.
enum { BLOCK_BYTES = 16 << 10 };

// Prepares copies of the op's operands with a border (reads that may leave
// their tensor): of blocks for vector kernels, and of whole tiles for products.
// They remain NULL if there are none, or if the interpreter must run the op.
static dv_status find_stages(dv_exec *x, int32_t op, dv_stage **blocks,
                             dv_stage **tiles, dv_diag *diag)
{
    const dv_kernel *k = &x->kernels[op];
    const int64_t *lens = x->plan->slices[op];
    return dv_stage_create(blocks, x->plan->ops, k, lens, BLOCK_BYTES,
                           &x->arena) &&
                   dv_stage_create(tiles, x->plan->ops, k, lens, 0, &x->arena)
               ? DV_OK
               : dv_nomem(diag);
}

// Creates a vector op whose operands are copied as whole images, if the plan's
// schedule says so or, while schedules are chosen, if that is faster. Otherwise
// *vec and *stage remain NULL.
static dv_status prepare_images(dv_exec *x, int32_t op, const dv_vec_spec *spec,
                                dv_vec_op **vec, dv_stage **stage,
                                dv_diag *diag)
{
    const dv_op_schedule *as = spec->as;
    dv_stage *s = NULL;
    if (as && !as->images)
        return DV_OK;
    const int64_t *lens = x->plan->slices[op];
    if (!dv_stage_create_images(&s, x->plan->ops, &x->kernels[op], lens,
                                BLOCK_BYTES, &x->arena))
        return dv_nomem(diag);
    if (!s || (!as && !dv_stage_wants_images(s, lens)))
        return DV_OK;
    dv_op_schedule loops = {.inner = s->col, .outer = -1, .window = 1};
    for (int v = 0; v < spec->op->n_vars; v++)
        if (!spec->op->vars[v].reduce && v != s->row && v != s->col &&
            s->block[v] > 1 &&
            (loops.outer < 0 || s->block[v] > s->block[loops.outer]))
            loops.outer = v;
    dv_vec_spec images = *spec;
    images.op = &s->image_op;
    images.reads = s->kernel.reads;
    images.write = &s->kernel.write;
    images.points = s->points;
    images.staged = 1;
    images.plan = NULL; // nothing is prefetched
    images.as = as ? as : &loops;
    DV_TRY(dv_vec_op_create(vec, &images, x->jit, &x->arena, diag));
    if (!*vec)
        return DV_OK;
    dv_op_schedule is = {0};
    dv_vec_op_describe(*vec, &is);
    if (is.guard || !is.window || is.inner != s->col)
        *vec = NULL; // guards check values in the tensors
    else
        DV_TRY(dv_vec_op_kernels(*vec, &images, x->jit, &x->arena, diag));
    *stage = *vec ? s : NULL;
    return DV_OK;
}

// Creates a vector op whose boxes are cut at the edges of tensors, if the
// plan's schedule says so or, while schedules are chosen, if that is possible.
// Otherwise *vec remains NULL.
static dv_status prepare_edges(dv_exec *x, const dv_vec_spec *spec,
                               dv_vec_op **vec, dv_diag *diag)
{
    dv_vec_spec cut = *spec;
    if (!dv_op_has_border(spec->op) || (spec->as && !spec->as->edges))
        return DV_OK;
    cut.edges = 1;
    cut.nearest = 1; // windows of neighbouring results share rows in L1
    cut.later = 0;
    return dv_vec_op_create(vec, &cut, x->jit, &x->arena, diag);
}

// Prepares an op as the plan's schedule `as` says or, if it is NULL, chooses
// its kernels: of a product (a sum of products, run by GEMM-like kernels),
// vector kernels or, if neither has kernels, the interpreter. Vector kernels
// are generated only if the op does not become a product.
static dv_status prepare_op(dv_exec *x, int32_t number, int32_t op,
                            const dv_op_schedule *as, dv_diag *diag)
{
    static const dv_schedule_pins none = {.kind = -1};
    const dv_schedule_pins *pins = x->wanted ? &x->wanted[op] : &none;
    const dv_group *g = &x->plan->groups[number];
    const dv_group_exec *run = &x->group[number];
    const dv_kernel *k = &x->kernels[op];
    dv_op_kernels *prepared = &x->prepared[op];
    int parts = run->grid ? run->parts : dv_plan_splits_reduction(x->plan, op);
    int product = as && as->kind == DV_KERNEL_PRODUCT;
    dv_whole_op whole = dv_plan_whole_op(x->plan, op);
    dv_vec_spec vec = {.p = x->plan->ops,
                       .op = k->op,
                       .reads = k->reads,
                       .write = &k->write,
                       .whole = !parts,
                       .copied = k->old_off >= 0,
                       .looks = !parts,
                       .later = 1,
                       // The loops in the schedule of a product are those of
                       // its epilogue, so the vector op uses them only if it
                       // computes that epilogue from partial sums.
                       .as = product && !parts ? NULL : as,
                       .whole_p = whole.p,
                       .whole_op = whole.op,
                       .plan = x->plan,
                       .group = g,
                       .number = op};
    if (as && as->kind != DV_KERNEL_PRODUCT && as->kind != DV_KERNEL_STATEMENT)
        return DV_OK;
    if (pins->kind == DV_KERNEL_STRIP)
        return DV_OK;
    dv_stage *blocks = NULL, *tiles = NULL, *images = NULL;
    int want_product = pins->kind == DV_KERNEL_PRODUCT || pins->tiled;
    int gemm =
        as ? product : want_product || dv_sums_worth_gemm(whole.p, whole.op);
    if (!parts && !run->grid && !gemm)
        DV_TRY(prepare_edges(x, &vec, &prepared->vec, diag));
    if (prepared->vec)
        return DV_OK;
    if (!parts && !run->grid)
        DV_TRY(find_stages(x, op, &blocks, &tiles, diag));
    if (blocks) {
        vec.staged = 1;
        vec.reads = blocks->kernel.reads;
    }
    if (!parts && !run->grid && !gemm)
        DV_TRY(prepare_images(x, op, &vec, &prepared->vec, &images, diag));
    if (images) {
        prepared->stage = images;
        return DV_OK;
    }
    DV_TRY(dv_vec_op_create(&prepared->vec, &vec, x->jit, &x->arena, diag));
    if (blocks && prepared->vec && dv_vec_op_guard(prepared->vec))
        prepared->vec = NULL; // guards check values in the tensors
    prepared->stage = blocks;
    if (parts || run->grid || !gemm) {
        vec.later = 0;
        DV_TRY(make_kernels(x, prepared, &vec, diag));
    }
    prepared->guard =
        prepared->vec ? dv_vec_op_guard(prepared->vec) : DV_GUARD_NONE;
    dv_product_spec spec = {.plan = x->plan,
                            .kernel = tiles ? &tiles->kernel : k,
                            .vec = prepared->vec,
                            .op = op,
                            .parts = parts,
                            .as = as,
                            .probing = x->probing,
                            .wanted = want_product,
                            .pins = pins,
                            .packs_again = x->called != NULL,
                            .once = &x->results,
                            .jit = x->jit,
                            .arena = &x->arena};
    int other = pins->kind >= 0 && pins->kind != DV_KERNEL_PRODUCT;
    if (other && vec.later)
        return make_kernels(x, prepared, &vec, diag);
    if (run->grid || other || (as && !product))
        // Contractions are prepared for the tiles of the plan, but a grid
        // assigns tiles of its own to cores.
        return DV_OK;
    if (dv_op_has_border(k->op) && !tiles)
        return vec.later && !as ? make_kernels(x, prepared, &vec, diag) : DV_OK;
    DV_TRY(dv_product_create(&prepared->product, &spec, diag));
    if (prepared->product)
        DV_TRY(prepare_product(x, prepared, op, number, diag));
    if (!prepared->product && vec.later && !as)
        return make_kernels(x, prepared, &vec, diag);
    if (vec.later)
        prepared->vec = NULL;
    if (prepared->product)
        prepared->stage = tiles;
    if (prepared->product &&
        (dv_op_gathers(k->op) || dv_access_is_indirect(&k->op->write)))
        prepared->guard = DV_GUARD_INDICES;
    return DV_OK;
}

void dv_exec_describe(const dv_exec *x, int32_t op, dv_op_schedule *out)
{
    const dv_op_kernels *prepared = &x->prepared[op];
    const dv_rows *rows = x->group[dv_group_of(x->plan, op)].rows;
    *out = (dv_op_schedule){.inner = -1, .outer = -1};
    if (rows) {
        dv_rows_describe(rows, op, out);
        return;
    }
    if (prepared->vec)
        dv_vec_op_describe(prepared->vec, out);
    if (prepared->product)
        dv_product_describe(prepared->product, out);
    out->images = !prepared->product && prepared->vec && prepared->stage &&
                  prepared->stage->col >= 0;
    out->skip = prepared->skip;
    out->guard = prepared->skip.by && prepared->finite >= 0 ? DV_GUARD_FINITE
                                                            : prepared->guard;
    out->kind = prepared->product ? DV_KERNEL_PRODUCT
                : prepared->vec   ? DV_KERNEL_STATEMENT
                                  : DV_KERNEL_STRIP;
    // The interpreter has an inner loop unless the op is a scatter, whose
    // points must run in the order of the program.
    if (out->kind == DV_KERNEL_STRIP &&
        !dv_access_is_indirect(&x->kernels[op].op->write))
        out->inner = x->kernels[op].strip;
}

// Fails if a run allocates other amounts of memory than the plan says. A plan
// that was read from text may be from a machine with other caches and thus
// other panel sizes: then only the memory that threads share is compared.
// Nothing is if operands have strides or kernel calls are recorded, because
// operands are then packed in ways that the plan does not know.
static dv_status check_memory(const dv_exec *x, dv_diag *diag)
{
    const dv_schedule *s = &x->plan->schedule;
    int64_t shared, thread, constant;
    dv_exec_memory(x, &shared, &thread, &constant);
    if (x->kind != DV_RUN_THREADS || x->choosing || x->probing || x->layouts ||
        x->called || s->shared_bytes < 0 ||
        (s->shared_bytes == shared &&
         ((s->thread_bytes == thread && s->constant_bytes == constant) ||
          x->plan->src.text)))
        return DV_OK;
    return dv_fail(diag, DV_E_CHECK, DV_NOWHERE,
                   "the plan says that a run allocates %" PRId64
                   " bytes, %" PRId64 " per thread and %" PRId64
                   " of constants, it needs %" PRId64 ", %" PRId64
                   " and %" PRId64,
                   s->shared_bytes, s->thread_bytes, s->constant_bytes, shared,
                   thread, constant);
}

// Fails if the kernels that were prepared for an op are not what the plan's
// schedule says.
static dv_status check_obeyed(const dv_exec *x, int32_t op, dv_diag *diag)
{
    const dv_op_schedule *as = dv_op_scheduled(x->plan, op);
    dv_op_schedule is;
    dv_text said = {0}, made = {0};
    dv_exec_describe(x, op, &is);
    if (x->probing && !as->n_tiles) {
        // This exec supplies the loops of tiles, and what they pack once, to a
        // plan that lacks them: neither can differ.
        is.n_tiles = 0;
        is.once |= as->once;
        is.hold |= as->hold;
    }
    if (x->called) { // everything is packed in every run and every tile
        is.once = as->once;
        is.hold = as->hold;
    }
    if (as->kind == DV_KERNEL_STRIP && as->inner < 0)
        is.inner = -1; // the plan leaves the loop to the interpreter
    if (dv_op_schedule_equal(as, &is))
        return DV_OK;
    dv_op_schedule_print(&said, x->plan->ops, op, as);
    dv_op_schedule_print(&made, x->plan->ops, op, &is);
    dv_status st =
        dv_fail(diag, DV_E_CHECK, dv_plan_at(x->plan, as->off),
                "the schedule of %s cannot be obeyed: the plan says '%s', "
                "possible is '%s'",
                x->plan->ops->ops[op].name, said.at ? said.at : "",
                made.at ? made.at : "");
    dv_text_free(&said);
    dv_text_free(&made);
    return st;
}

// Returns 1 if the user demands a kernel for an op with which its group cannot
// run row by row.
static int refuses_rows(const dv_exec *x, int32_t op)
{
    int kind = x->wanted ? x->wanted[op].kind : -1;
    return kind >= 0 && kind != DV_KERNEL_ROWS && kind != DV_KERNEL_INLINE;
}

// Prepares the row-by-row execution of a group (ops that share one tile space)
// as the plan says or, while schedules are chosen, if all of its ops run as
// unconditional vector kernels and dv_rows_create finds it faster.
static dv_status find_rows(dv_exec *x, int32_t number, dv_diag *diag)
{
    const dv_group *g = &x->plan->groups[number];
    dv_group_exec *run = &x->group[number];
    int by_rows = 1;
    for (int32_t op = g->first_op; op < g->end_op; op++)
        if (x->choosing)
            by_rows &= !x->prepared[op].product && x->prepared[op].vec &&
                       !x->prepared[op].guard && !refuses_rows(x, op);
        else
            by_rows &= dv_op_scheduled(x->plan, op)->kind >= DV_KERNEL_ROWS;
    if (run->grid || run->parts || run->snapshots || !by_rows)
        return DV_OK;
    int32_t n = g->end_op - g->first_op;
    dv_vec_op **alone = DV_NEW(&x->arena, dv_vec_op *, n);
    if (!alone)
        return dv_nomem(diag);
    for (int32_t i = 0; i < n; i++)
        alone[i] = x->prepared[g->first_op + i].vec;
    dv_rows_spec spec = {
        .plan = x->plan,
        .group = g,
        .alone = alone,
        .as = x->choosing ? NULL : &x->plan->schedule.ops[g->first_op],
        .strides = x->strides,
        .l1_bytes = x->set.l1_bytes,
        .l2_bytes = x->set.l2_bytes};
    return dv_rows_create(&run->rows, &spec, x->jit, &x->arena, diag);
}

static int64_t n_kernels(const dv_exec *x)
{
    dv_jit_stats s = {0};
    if (x->jit)
        dv_jit_stats_get(x->jit, &s);
    return s.n_kernels;
}

// Sets the kernel cache: one for the instruction set that the target names, or
// the one that all execs share.
static dv_status find_jit(dv_exec *x, dv_diag *diag)
{
    const dv_plan *plan = x->plan;
    x->jit = NULL;
    if (x->kind != DV_RUN_THREADS)
        return DV_OK;
    if (*plan->target.kernels || x->called)
        DV_TRY(dv_jit_create_for(&x->own_jit, plan->target.kernels, diag));
    if (x->called)
        DV_TRY(dv_jit_record(x->own_jit, x->called, diag));
    x->jit = x->own_jit ? x->own_jit : dv_jit_shared();
    const char *here = dv_exec_kernels(x), *wants = plan->schedule.kernels;
    if (!x->choosing && strcmp(wants, "any") && strcmp(here, wants))
        return dv_fail(diag, DV_E_SYSTEM, DV_NOWHERE,
                       "the plan is scheduled for kernels of %s, this machine "
                       "has %s; divvy plan PLAN --start-at schedule schedules "
                       "it again",
                       wants, here);
    return DV_OK;
}

static void set_caches(dv_exec *x)
{
    const dv_target *t = &x->plan->target;
    dv_caches caches = {t->l1_bytes, t->l2_bytes, t->l3_bytes};
    if (!x->jit)
        caches = (dv_caches){0};
    else if (!caches.l1_bytes && !*t->kernels)
        // Use the host's caches, because the target does not describe its own.
        caches = dv_host_caches();
    x->set.l1_bytes = caches.l1_bytes;
    x->set.l2_bytes = caches.l2_bytes;
    x->set.l3_bytes = caches.l3_bytes;
}

// Computes the bytes that each thread needs: for tile buffers of temporaries
// that are not inlined, for products, and for copies of operands.
static void find_thread_memory(dv_exec *x)
{
    const dv_plan *plan = x->plan;
    x->local_bytes = x->workspace_bytes = x->stage_bytes = 0;
    for (int32_t g = 0; g < plan->n_groups; g++) {
        const dv_group_exec *run = &x->group[g];
        for (int32_t i = 0; i < run->n_locals; i++) {
            dv_op_schedule is;
            dv_exec_describe(x, run->locals[i].op, &is);
            if (is.kind != DV_KERNEL_INLINE)
                x->local_bytes =
                    dv_max_i64(x->local_bytes, run->locals[i].end_bytes);
        }
    }
    for (int32_t op = 0; op < plan->ops->n_ops; op++) {
        const dv_product *p = x->prepared[op].product;
        const dv_stage *s = x->prepared[op].stage;
        if (s && (p || x->prepared[op].vec))
            x->stage_bytes = dv_max_i64(x->stage_bytes, s->bytes);
        if (p)
            x->workspace_bytes =
                dv_max_i64(x->workspace_bytes, dv_product_workspace(p));
    }
}

// Returns the mask of the factors of a product that each thread should hold
// packed from tile to tile: those that no op of the group writes and of which
// several tiles in succession read the same elements. No thread has several
// tiles if there are no more tiles than threads. (check_hold of the checker
// tests some of this as well; they share no code.)
static int worth_holding(const dv_exec *x, const dv_group *g, int32_t op)
{
    const dv_plan *plan = x->plan;
    const dv_op *o = &plan->ops->ops[op];
    int32_t factor[2];
    int mask = 0;
    dv_tile t;
    if (g->n_tiles <= x->plan->target.cores || !dv_op_factors(o, factor))
        return 0;
    dv_plan_tile(&t, plan, op, 0);
    for (int i = 0; i < 2; i++) {
        const dv_access *a = &o->reads[factor[i]];
        uint32_t vars = dv_access_vars(o, a);
        int64_t same = g->n_tiles; // tiles in succession with the same elements
        int fits = !dv_access_is_indirect(a) && !a->has_border;
        for (int v = 0; v < o->n_vars; v++)
            // Variable v changes after t.weight[v] tiles.
            if (vars >> v & 1 && t.n_slots[v] > 1)
                same = dv_min_i64(same, t.weight[v]);
        for (int32_t k = g->first_op; k < g->end_op; k++)
            fits &= plan->ops->ops[k].write.tensor != a->tensor;
        mask |= (fits && same > 1) << i;
    }
    return mask;
}

// Chooses the factors that threads hold packed from tile to tile: those that
// are worth it, that the kernels pack, and that fit L2. Which of those that are
// worth it the kernels pack shows only after they were made; they are then made
// again for these alone, or for none.
static dv_status choose_held(dv_exec *x, int32_t number, dv_diag *diag)
{
    const dv_group *g = &x->plan->groups[number];
    for (int32_t op = g->first_op; op < g->end_op; op++) {
        dv_op_kernels *by = &x->prepared[op];
        int64_t bytes;
        if (!by->product || by->skip.by || by->guard || by->stage ||
            x->group[number].parts)
            continue;
        int mask = worth_holding(x, g, op);
        while (dv_product_hold(by->product, mask)) {
            dv_status st = prepare_tiles(x, by, op, number, mask ? NULL : diag);
            if (st == DV_E_NOMEM || (st && !mask))
                return st == DV_E_NOMEM ? dv_nomem(diag) : st;
            mask = st ? 0 : dv_product_held(by->product, &bytes);
            mask = mask && bytes > x->set.l2_bytes ? 0 : mask;
        }
    }
    return DV_OK;
}

// Gives each held factor its place in the memory of threads; the groups share
// this memory.
static void place_held(dv_exec *x)
{
    x->held_bytes = 0;
    for (int32_t i = 0; i < x->plan->n_groups; i++) {
        const dv_group *g = &x->plan->groups[i];
        int64_t at = 0;
        for (int32_t op = g->first_op; op < g->end_op; op++)
            if (x->prepared[op].product)
                at = dv_product_place_held(x->prepared[op].product, at);
        x->held_bytes = dv_max_i64(x->held_bytes, at);
    }
}

// Prepares the kernels of all ops.
static dv_status prepare_ops(dv_exec *x, dv_diag *diag)
{
    const dv_plan *plan = x->plan;
    x->prepared = DV_NEW(&x->arena, dv_op_kernels, plan->ops->n_ops);
    if (!x->prepared)
        return dv_nomem(diag);
    DV_TRY(find_jit(x, diag));
    set_caches(x);
    for (int32_t g = 0; g < plan->n_groups && x->jit; g++)
        for (int32_t op = plan->groups[g].first_op; op < plan->groups[g].end_op;
             op++) {
            x->op_failed = op;
            DV_TRY(dv_stop_check(diag)); // when a plan is made
            x->prepared[op].kernels = n_kernels(x);
            DV_TRY(prepare_op(x, g, op,
                              x->choosing ? NULL : dv_op_scheduled(plan, op),
                              diag));
        }
    for (int32_t g = 0; g < plan->n_groups; g++) {
        x->op_failed = plan->groups[g].first_op;
        x->group[g].rows = NULL;
        x->group[g].kernels = n_kernels(x);
        if (x->jit)
            DV_TRY(find_rows(x, g, diag));
        if (x->choosing)
            dv_exec_share_locals(x, g);
        if (x->jit)
            DV_TRY(dv_exec_find_skips(x, g, diag));
        if (x->choosing && x->jit)
            DV_TRY(choose_held(x, g, diag));
    }
    place_held(x);
    for (int32_t i = 0; i < plan->ops->n_ops && !x->choosing; i++) {
        x->op_failed = i;
        if (x->kind == DV_RUN_THREADS)
            DV_TRY(check_obeyed(x, i, diag));
    }
    x->op_failed = -1;
    find_thread_memory(x);
    return DV_OK;
}

// The interpreter has one strip (a buffer of DV_STRIP elements of 8 bytes) for
// each of the n_slots operands, and one more for the accumulators.
int64_t dv_exec_strips_bytes(const dv_exec *x)
{
    return (x->n_slots + 1) * (int64_t)DV_STRIP * 8;
}

void dv_exec_memory(const dv_exec *x, int64_t *shared_bytes,
                    int64_t *thread_bytes, int64_t *constant_bytes)
{
    *constant_bytes = dv_exec_once_bytes(x);
    for (int32_t op = 0; op < x->plan->ops->n_ops; op++)
        if (x->prepared[op].product)
            *constant_bytes += dv_product_once_bytes(x->prepared[op].product);
    *shared_bytes = dv_stored_bytes(x->plan) + x->all_parts_bytes +
                    x->snapshot_bytes + x->copied_bytes;
    *thread_bytes = x->workspace_bytes + x->local_bytes + x->held_bytes +
                    x->stage_bytes + dv_exec_strips_bytes(x);
}

// Returns the number of cores that the plan may use: the highest core number
// with work plus one, or the tile count of a group (ops that share one tile
// space) whose threads take tiles from a work queue.
static int64_t most_cores(const dv_plan *plan)
{
    int64_t most = 1;
    for (int32_t g = 0; g < plan->n_groups; g++) {
        const dv_group_grid *grid = dv_grid_of(plan, g);
        if (plan->groups[g].queue != DV_DEALT)
            most = dv_max_i64(most, plan->groups[g].n_tiles);
        for (int32_t d = 0; d < plan->groups[g].n_deals; d++)
            most = dv_max_i64(most, plan->groups[g].deals[d].core + 1);
        for (int32_t i = 0; grid && i < grid->n_ranges; i++)
            most = dv_max_i64(most,
                              dv_grid_core_number(plan, &grid->ranges[i]) + 1);
    }
    return most;
}

dv_status dv_exec_prepare(dv_exec *x, dv_diag *diag)
{
    int64_t cores = x->plan->target.cores, most = most_cores(x->plan);
#ifndef _OPENMP
    cores = 1;
#endif
    // An exec that is only asked which kernels it has needs one thread.
    if (x->kind != DV_RUN_THREADS || x->probing)
        cores = 1;
    x->n_threads = (int32_t)dv_min_i64(cores, most);
    x->most_reads = 0;
    for (int32_t i = 0; i < x->plan->ops->n_ops; i++)
        x->most_reads = x->plan->ops->ops[i].n_reads > x->most_reads
                            ? x->plan->ops->ops[i].n_reads
                            : x->most_reads;
    if (!find_parts(x))
        return dv_nomem(diag);
    dv_status made = prepare_ops(x, diag);
    dv_jit_seal(x->jit);
    DV_TRY(made);
    return check_memory(x, diag);
}

dv_dtype dv_exec_type(const dv_exec *x, int32_t op)
{
    const dv_product *p = x->prepared[op].product;
    return p ? dv_product_type(p) : dv_kernel_type(x->kernels[op].compute);
}

const char *dv_exec_kernels(const dv_exec *x)
{
    return x->jit ? dv_jit_isa(x->jit)->name : "none";
}

void dv_exec_schedules(const dv_exec *x, dv_text *out)
{
    static const char *const guards[DV_N_GUARDS] = {
        "", "indices are in range", "values fit 32 bits", "values are finite"};
    const dv_program *p = x->plan->ops;
    for (int32_t i = 0; i < p->n_ops; i++)
        dv_put(out, "# op %d, %s: %s%s%s\n", (int)i, p->ops[i].name,
               x->prepared[i].product ? "a contraction"
               : x->group[dv_group_of(x->plan, i)].rows
                   ? "row by row with its group"
               : x->prepared[i].vec ? "a vector kernel"
                                    : "in strips, no kernel",
               x->prepared[i].guard ? ", where " : "",
               guards[x->prepared[i].guard]);
}

// Prints for which op or group kernel number `number` was generated, if it is
// the first kernel of that op or group. If several ops start at the same
// number, all but the last have no kernels of their own.
static void put_owner(const void *user, int64_t number, dv_text *out)
{
    const dv_exec *x = user;
    const dv_program *p = x->plan->ops;
    int32_t op = -1, group = -1;
    for (int32_t i = 0; i < p->n_ops; i++)
        op = x->prepared[i].kernels == number ? i : op;
    for (int32_t g = 0; g < x->plan->n_groups; g++)
        group = x->group[g].kernels == number ? g : group;
    if (group >= 0) {
        dv_put(out, "# for the rows of");
        for (int32_t i = x->plan->groups[group].first_op;
             i < x->plan->groups[group].end_op; i++)
            dv_put(out, " %s", p->ops[i].name);
        dv_put(out, ":\n");
    } else if (op >= 0) {
        dv_put(out, "# for op %d, %s:\n", (int)op, p->ops[op].name);
    }
}

void dv_exec_list(const dv_exec *x, dv_text *out)
{
    dv_exec_schedules(x, out);
    if (x->jit)
        dv_jit_list(x->jit, out, put_owner, x);
}

// Drops the file pages of constants that an op has read for the last time,
// because its operands are packed now, or because it is computed only once.
static void drop_packed(const dv_exec *x, const dv_op *o)
{
    for (int r = 0; r < o->n_reads; r++) {
        const dv_tensor *t = &x->plan->ops->tensors[o->reads[r].tensor];
        if (t->is_const)
            dv_file_map_drop(x->run.data[o->reads[r].tensor],
                             (size_t)dv_tensor_bytes(t));
    }
}

dv_status dv_exec_pack(dv_exec *x, const dv_run *r, dv_diag *diag)
{
    const dv_plan *plan = x->plan;
    void **data = x->run.data, **at = x->run.threads[0].at;
    DV_TRY(dv_exec_compute_once(x, r, diag));
    for (int32_t g = 0; g < plan->n_groups && x->kind == DV_RUN_THREADS; g++)
        for (int32_t op = plan->groups[g].first_op; op < plan->groups[g].end_op;
             op++) {
            const dv_product *p = x->prepared[op].product;
            const dv_op *o = &plan->ops->ops[op];
            if (x->once && plan->groups[g].once)
                drop_packed(x, o);
            if (!p || !dv_product_once_bytes(p))
                continue;
            for (int i = 0; i < o->n_reads; i++)
                at[i] = data[o->reads[i].tensor];
            at[o->n_reads] = data[o->write.tensor];
            for (int64_t i = 0; i < plan->groups[g].n_tiles; i++) {
                dv_tile t;
                dv_plan_tile(&t, plan, op, i);
                DV_TRY(dv_product_pack(p, &t, at, diag));
            }
            drop_packed(x, o);
        }
    dv_exec_free_packed(x);
    return DV_OK;
}

void dv_exec_unpack(dv_exec *x, int32_t tensor)
{
    if (x->once)
        tensor = -1; // others may be computed from it
    for (int32_t i = 0; x->prepared && i < x->plan->ops->n_ops; i++)
        if (x->prepared[i].product)
            dv_product_unpack(x->prepared[i].product, tensor);
    // Another exec must not find results of constants that this one no longer
    // reads, because their owner may change them now.
    dv_exec_drop_once(x);
    x->packed = 0;
}

void dv_exec_unprepare(dv_exec *x)
{
    dv_exec_unpack(x, -1);
    dv_product_set_free(&x->set);
    if (!x->own_jit)
        dv_jit_release(x->jit);
    dv_jit_destroy(x->own_jit);
    x->own_jit = x->jit = NULL;
}
