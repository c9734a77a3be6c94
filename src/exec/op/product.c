// Recognises products, chooses how their epilogue runs, and prepares and runs
// the contractions of their tiles; product.h has the overview.
#include "exec/op/product.h"
#include "base/dtype.h"
#include "base/math.h"
#include "exec/constants.h"
#include "exec/op/epilogue.h"
#include "exec/op/tile_loops.h"
#include "exec/op/vec_range.h"
#include "exec/op/operand_copy.h"
#include "jit/backend.h"
#include "nest/sums.h"
#include <string.h>

enum { ALIGN_BYTES = 64 };
// The most variables that are collapsed into the rows, or columns, of a block
// on which an epilogue runs.
enum { MOST_SIDE = 2 };

// The contraction and the epilogue that compute all tiles of one shape.
typedef struct tile_kernel {
    dv_contraction *c; // the contraction, owned by a dv_product_set
    // The epilogue (functions applied to finished sums); NULL: the contraction
    // writes final results or partial sums.
    dv_epilogue *finish;
    int64_t steps[DV_MAX_VARS]; // strides of the sums that the epilogue reads
    // The variables along the rows and along the columns of the blocks on which
    // the epilogue runs while they are in cache, the innermost first; -1: there
    // are no more of them. Without any, it runs once, on the whole tile.
    int32_t row[MOST_SIDE + 1], col[MOST_SIDE + 1]; // the last one is -1
} tile_kernel;

// A block of a constant factor that is packed before the first run. All tiles
// of one shape that read the same elements share it.
typedef struct once_block {
    int64_t bytes;     // 0: nothing
    dv_packed *packed; // NULL: not yet
} once_block;

// What a thread holds of a factor: its packed elements, which follow this
// structure in the thread's memory.
typedef struct held_block {
    const void *from;         // the first element; NULL: nothing is packed yet
    const dv_contraction *of; // the contraction for which they are packed
} held_block;
// Bytes before the packed elements, which begin at a cache line.
enum { HELD_HEAD = ALIGN_BYTES };

struct dv_product {
    dv_product_spec spec;
    const dv_op *o;
    dv_nest nest; // the nest of the whole op: dimension v is its variable v
    // Read numbers of the two factors, then op->n_reads, which stands for the
    // write.
    int32_t access[DV_N_OPERANDS];
    const dv_flat *flat[DV_N_OPERANDS];
    int64_t elem_bytes[DV_N_OPERANDS]; // bytes of a stored element
    int64_t sum_bytes;                 // bytes of one sum
    // 1 if the factor is copied first, to widen it or to make k contiguous.
    int copied[2];
    dv_operand_copy copy[2];
    // Bit mask of the constant factors (those in nest.fixed) that are copied or
    // packed once, before the first run. Their blocks are indexed by the slices
    // of the factor's variables and by the shape of the tile.
    uint8_t once;
    uint8_t in_place; // of those that some tile reads in place
    once_block *blocks[2];
    int64_t n_blocks[2], once_bytes;
    // Bit mask of the factors that threads are to hold packed from tile to
    // tile, and of those of them that the kernels of some tiles pack. held_at
    // is where a thread's memory has them.
    uint8_t hold, held;
    int64_t held_at[2], held_bytes[2];
    int direct; // 1 if the kernel writes final results to the output tensor
    int there;  // 1 if the output tensor holds the sums until the epilogue
    // `inside` is 1 if the kernel can apply the epilogue: it rounds to the
    // stored type and adds the read `bias`, one value per row or column, before
    // applying the function `fused_function`.
    int inside, fused_function;
    int32_t bias; // which of the op's reads is the bias; -1: none
    int bias_type;
    dv_dtype stored;
    const dv_sum_order *sums; // order of additions, the same for all tiles
    // The written (not reduced) variables, in order of decreasing stride in the
    // output.
    int32_t written[DV_MAX_VARS], n_written;
    // `made` is indexed by tile shape. Bit i of a shape says that the tile has
    // the last, shorter slice of variable shorts[i]. There are never more
    // shapes than tiles.
    int32_t shorts[DV_MAX_VARS], n_shorts;
    tile_kernel *made;
    dv_tile_schedule *tiles; // the loops of each shape
    // Kernels for tiles in which only the first values of variable skip.var are
    // computed (a mask excludes the others), n_less by shape: number i computes
    // (i + 1) * skip.by values. NULL: there are none.
    dv_skip skip;
    tile_kernel *less;
    int64_t n_less;
    int64_t workspace_bytes; // of the shape that needs most
};

// Returns the function that the op applies to the finished sum, as a nest
// primitive (none or relu); -1: anything else.
static int epilogue_function(const dv_op *o, const dv_expr *sum)
{
    const dv_expr *e = o->body;
    if (sum->fn == DV_RED_MEAN)
        return -1;
    if (e == sum)
        return DV_PRIM_NONE;
    return dv_expr_applies(e, DV_FN_RELU) && e->arg[0] == sum ? DV_PRIM_RELU
                                                              : -1;
}

// Recognises an epilogue with a bias, sum + read or relu(sum + read). Returns
// the function applied last and sets *r to the read; -1: anything else.
static int bias_epilogue_function(const dv_op *o, const dv_expr *sum,
                                  int32_t *r)
{
    const dv_expr *e = o->body;
    int relu = dv_expr_applies(e, DV_FN_RELU), whole = sum->fn == DV_RED_SUM;
    e = relu ? e->arg[0] : e;
    for (int i = 0; i < 2 && whole && dv_expr_applies(e, DV_FN_ADD); i++)
        if (e->arg[i] == sum && e->arg[!i]->kind == DV_EXPR_READ) {
            *r = e->arg[!i]->read;
            return relu ? DV_PRIM_RELU : DV_PRIM_NONE;
        }
    return -1;
}

// Lists the reduction variables that the plan places inside the kernel, in the
// order of summation. Returns their number.
static int32_t kernel_variables(const dv_sum_order *s, int32_t *vars)
{
    int32_t n = 0;
    for (int32_t i = 0; i < s->n_levels; i++)
        if (s->levels[i].inside)
            vars[n++] = s->levels[i].var;
    return n;
}

// Can these variables be collapsed into one dimension of the operand in all
// tiles? Each must step over the extent of the next, and only the first may be
// sliced. Variables of extent 1 are ignored.
static int is_collapsible(const dv_product *p, const dv_flat *flat,
                          const int32_t *vars, int32_t n)
{
    int64_t step = 0;
    int cut = 0;
    for (int32_t i = n - 1; i >= 0; i--) {
        const dv_var *v = &p->o->vars[vars[i]];
        int64_t len = v->end - v->begin;
        if (len == 1)
            continue;
        if (step && (cut || flat->coef[vars[i]] != step))
            return 0;
        step = flat->coef[vars[i]] * len;
        cut = p->spec.plan->slices[p->spec.op][vars[i]] < len;
    }
    return 1;
}

// Returns the type (m or n: rows or columns of the product) of the one variable
// along which the read is contiguous, provided that the nest has no other
// dimension of that type; -1: the read is not a bias.
static int bias_type(const dv_product *p, int32_t read)
{
    const dv_flat *f = &p->spec.kernel->reads[read];
    int type = -1, others = 0;
    for (int v = 0; v < p->nest.n_dims; v++) {
        if (!f->coef[v])
            continue;
        if (type >= 0 || f->coef[v] != 1)
            return -1;
        type = (int)p->nest.dims[v].type;
    }
    for (int i = 0; i < p->nest.n_dims; i++)
        others += (int)p->nest.dims[i].type == type;
    return others == 1 && (type == DV_NEST_M || type == DV_NEST_N) ? type : -1;
}

// Can kernels add the sums to the output themselves? The op is output + sum or
// relu(output + sum), and the sum is one block of k, so that the kernel rounds
// as the op does: it adds the old element to the complete sum. Sets *function
// to the function applied last.
static int accumulates(const dv_product *p, int *function)
{
    const dv_op *o = p->o;
    int32_t r;
    int fn = bias_epilogue_function(o, p->spec.kernel->reduce, &r);
    if (fn < 0 || p->spec.parts || p->nest.narrow ||
        !dv_is_float(p->nest.dtype) || p->stored != p->nest.dtype ||
        !dv_access_equal(o, &o->reads[r], &o->write))
        return 0;
    for (int32_t i = 0; i < o->n_reads; i++)
        if (i != r && o->reads[i].tensor == o->write.tensor)
            return 0;
    for (int32_t i = 0; i < p->sums->n_levels; i++)
        if (!p->sums->levels[i].inside)
            return 0;
    *function = fn;
    return 1;
}

// Can product kernels store their sums in the output's type? Only the kernels
// for narrow factors round their f32 sums to f16 or bf16.
static int may_store(const dv_product *p)
{
    return p->stored == p->nest.dtype ||
           (p->nest.narrow && p->nest.dtype == DV_F32 &&
            (p->stored == DV_F16 || p->stored == DV_BF16));
}

static void find_fused_epilogue(dv_product *p)
{
    const dv_program *program = p->spec.plan->ops;
    const dv_expr *sum = p->spec.kernel->reduce;
    int32_t r = -1;
    p->fused_function = epilogue_function(p->o, sum);
    if (p->fused_function < 0)
        p->fused_function = bias_epilogue_function(p->o, sum, &r);
    if (p->fused_function < 0 || !dv_is_float(p->nest.dtype) || !may_store(p))
        return;
    if (r >= 0) {
        p->bias = r;
        p->bias_type = bias_type(p, r);
        if (dv_access_gathers(p->o, &p->o->reads[r]) || p->bias_type < 0 ||
            program->tensors[p->o->reads[r].tensor].dtype != p->nest.dtype)
            return;
    }
    p->inside = 1;
}

// Sets up a copy of factor i if the kernel cannot read it in place. Returns 0
// if no kernel can make the copy.
static int fill_copy(dv_product *p, int i, dv_dtype t)
{
    int32_t last[DV_MAX_VARS];
    dv_dtype to = p->nest.narrow ? (dv_dtype)p->nest.narrow : p->nest.dtype;
    dv_operand_copy_spec spec = {p->flat[i], p->o->n_vars, t, to, last, 0};
    if (p->nest.narrow)
        spec.n_last = kernel_variables(p->sums, last);
    p->copied[i] = t != to || !is_collapsible(p, p->flat[i], last, spec.n_last);
    if (!p->copied[i])
        return 1;
    return dv_operand_copy_init(&p->copy[i], &spec, p->spec.jit);
}

// Derives the nest (loops and strides) of the op from the strides of its
// operands in memory. Factors keep a narrow type if the plan says so and there
// are kernels for it; not i8 if partial sums are added, because kernels then
// sum in i32, partial sums in i64 or f32. Returns 0 if there is no nest.
static int fill_nest(dv_product *p)
{
    const dv_program *program = p->spec.plan->ops;
    const int64_t *const steps[DV_N_OPERANDS] = {
        p->flat[0]->coef, p->flat[1]->coef, p->flat[2]->coef};
    dv_dtype t = program->tensors[p->o->reads[p->access[0]].tensor].dtype;
    int narrow = p->sums->pairs &&
                 dv_isa_has(dv_jit_isa(p->spec.jit), (int)t) &&
                 !(t == DV_I8 && p->spec.parts);
    if (!dv_nest_of_product(&p->nest, program, p->o, narrow, steps))
        return 0;
    p->sum_bytes = dv_dtype_get(p->nest.dtype)->size_bytes;
    // A factor with an indirect index cannot be packed before the first run,
    // because its elements depend on index values that are read.
    int once = p->spec.packs_again ? 0 : p->spec.as ? p->spec.as->once : 3;
    for (int i = 0; i < 2; i++)
        if (dv_access_is_indirect(&p->o->reads[p->access[i]]))
            once &= ~(1 << i);
    p->nest.fixed = (uint8_t)(p->nest.fixed & once);
    p->hold = (uint8_t)(p->spec.as && !p->spec.packs_again
                            ? p->spec.as->hold & ~p->nest.fixed
                            : 0);
    p->nest.fixed |= p->hold;
    return 1;
}

// Finds the operands and the nest of the product. Returns 0 if it has none.
static int fill_operands(dv_product *p)
{
    int32_t factor[2];
    dv_dtype type[DV_N_OPERANDS];
    if (!dv_op_factors(p->o, factor))
        return 0;
    for (int i = 0; i < DV_N_OPERANDS; i++) {
        int32_t k = i < 2 ? factor[i] : p->o->n_reads;
        p->access[i] = k;
        p->flat[i] = i < 2 ? &p->spec.kernel->reads[k] : &p->spec.kernel->write;
        type[i] =
            p->spec.plan->ops->tensors[dv_op_access(p->o, k)->tensor].dtype;
        p->elem_bytes[i] = dv_dtype_get(type[i])->size_bytes;
    }
    p->stored = type[DV_OUT];
    if (!fill_nest(p) || !fill_copy(p, 0, type[0]) || !fill_copy(p, 1, type[1]))
        return 0;
    for (int i = 0; i < 2; i++)
        // The copy of a factor is made again for every tile.
        if (p->copied[i] && p->hold >> i & 1) {
            p->hold &= (uint8_t) ~(1 << i);
            p->nest.fixed &= (uint8_t) ~(1 << i);
        }
    return 1;
}

// Lists the variables whose last slice is shorter than the others.
static void fill_shorts(dv_product *p)
{
    for (int v = 0; v < p->o->n_vars; v++) {
        int64_t len = dv_var_len(p->o, v);
        if (len % p->spec.plan->slices[p->spec.op][v] == 0)
            continue;
        p->shorts[p->n_shorts++] = v;
    }
}

static void fill_written(dv_product *p)
{
    const int64_t *step = p->flat[2]->coef;
    for (int32_t v = 0; v < p->o->n_vars; v++) {
        int32_t at = p->n_written;
        if (p->o->vars[v].reduce)
            continue;
        for (; at > 0 && step[p->written[at - 1]] < step[v]; at--)
            p->written[at] = p->written[at - 1];
        p->written[at] = v;
        p->n_written++;
    }
}

static int fill_product(dv_product *p)
{
    const dv_kernel *k = p->spec.kernel;
    if (!fill_operands(p))
        return 0;
    // Integers are summed in 32 bits. That is exact if a vector kernel exists,
    // because it is created only if wrap-around does not change the result, and
    // for i8 factors that matrix instructions multiply (`pairs`), because plans
    // choose these only if the sums fit.
    if (k->compute == DV_IN_I64 && p->nest.narrow != DV_I8 && !p->spec.vec)
        return 0;
    int last = epilogue_function(p->o, k->reduce);
    int whole = !p->spec.parts && !dv_op_reads(p->o, p->o->write.tensor);
    const dv_op_schedule *as = p->spec.as;
    int fuse = !as || as->epilogue <= DV_EPILOGUE_KERNEL;
    if (fuse && accumulates(p, &last)) {
        p->nest.first = DV_PRIM_NONE;
        whole = 1;
    }
    p->there = whole && p->stored == p->nest.dtype;
    p->direct = last >= 0 && p->there && fuse;
    if (!p->direct && !p->spec.vec)
        return 0; // no vector kernel can run the epilogue
    if (whole && !p->direct && fuse)
        find_fused_epilogue(p);
    fill_shorts(p);
    fill_written(p);
    p->nest.last = p->direct ? (dv_prim)last : DV_PRIM_NONE;
    return 1;
}

// Cuts variable v of a sum into blocks of the size that the user prescribes:
// one loop over blocks around all others, and one level inside the kernel.
static dv_status tile_sum(const dv_product *p, int32_t v, dv_sum_order *s,
                          dv_diag *diag)
{
    int32_t n = 0;
    int64_t size = p->spec.pins->tile[v], len = dv_var_len(p->o, v);
    dv_sum_level *levels = DV_NEW(p->spec.arena, dv_sum_level, s->n_levels + 2);
    if (!levels)
        return dv_nomem(diag);
    if (size < len)
        levels[n++] = (dv_sum_level){v, dv_ceil_div(len, size), 0};
    for (int32_t i = 0; i < s->n_levels; i++)
        if (s->levels[i].var != v)
            levels[n++] = s->levels[i];
        else if (s->levels[i].inside)
            levels[n++] = (dv_sum_level){v, size, 1};
    s->levels = levels;
    s->n_levels = n;
    return DV_OK;
}

// Finds the order in which the products are summed: from the plan's section
// `schedule` or, if it has none for the op, as the pass `schedule` chooses it.
static dv_status find_sums(dv_product *p, int *found, dv_diag *diag)
{
    const dv_plan *plan = p->spec.plan;
    dv_sums_machine machine = dv_sums_machine_of(&plan->target);
    p->sums = p->spec.as ? &p->spec.as->sums : dv_sums_find(plan, p->spec.op);
    *found = p->sums != NULL;
    if (*found)
        return DV_OK;
    dv_sum_order *own = DV_NEW(p->spec.arena, dv_sum_order, 1);
    if (!own)
        return dv_nomem(diag);
    p->sums = own;
    dv_whole_op whole = dv_plan_whole_op(plan, p->spec.op);
    DV_TRY(dv_sums_choose(own, found, whole.p, whole.number, &machine,
                          p->spec.arena, diag));
    for (int32_t v = 0; *found && v < p->o->n_vars; v++)
        if (p->spec.pins->tiled >> v & 1 && p->o->vars[v].reduce)
            DV_TRY(tile_sum(p, v, own, diag));
    return DV_OK;
}

static size_t n_shapes(const dv_product *p)
{
    return (size_t)1 << p->n_shorts;
}

dv_status dv_product_create(dv_product **out, const dv_product_spec *spec,
                            dv_diag *diag)
{
    dv_product *p = DV_NEW(spec->arena, dv_product, 1);
    *out = NULL;
    if (!p)
        return dv_nomem(diag);
    int found = 0;
    p->spec = *spec;
    p->o = spec->kernel->op;
    p->bias = -1;
    dv_whole_op whole = dv_plan_whole_op(spec->plan, spec->op);
    int indirect = dv_op_gathers(p->o) || dv_access_is_indirect(&p->o->write);
    // A product with indirect indices needs whole sums, because indices are
    // checked only before these, and must not need a second check, that
    // integers fit 32 bits.
    if (indirect &&
        (spec->parts || (spec->kernel->compute == DV_IN_I64 &&
                         dv_vec_op_fit(spec->plan->ops, p->o) != DV_FITS_ALL)))
        return DV_OK;
    if (!spec->as && !spec->wanted && spec->vec &&
        !dv_sums_worth_gemm(whole.p, whole.op))
        return DV_OK; // no operand is reused: one vector pass is faster
    DV_TRY(find_sums(p, &found, diag));
    if (!found || !fill_product(p))
        return DV_OK;
    p->made = DV_NEW(spec->arena, tile_kernel, n_shapes(p));
    p->tiles = DV_NEW(spec->arena, dv_tile_schedule, n_shapes(p));
    if (!p->made || !p->tiles)
        return dv_nomem(diag);
    *out = p;
    return DV_OK;
}

int64_t dv_product_workspace(const dv_product *p)
{
    return p->workspace_bytes;
}

dv_dtype dv_product_type(const dv_product *p)
{
    return p->nest.narrow ? (dv_dtype)p->nest.narrow : p->nest.dtype;
}

// Returns the number of a tile's shape: bit i is set if the tile has the last,
// shorter slice of variable shorts[i].
static size_t shape_of(const dv_product *p, const dv_tile *t)
{
    size_t shape = 0;
    for (int i = 0; i < p->n_shorts; i++) {
        int v = p->shorts[i];
        shape |= (size_t)(t->slot[v] == t->n_slots[v] - 1) << i;
    }
    return shape;
}

static int same_nest(const dv_nest *a, const dv_nest *b)
{
    if (a->dtype != b->dtype || a->first != b->first || a->last != b->last ||
        a->n_dims != b->n_dims || a->dot != b->dot || a->narrow != b->narrow ||
        a->bias != b->bias || a->fixed != b->fixed ||
        a->out_reused != b->out_reused || a->pack != b->pack)
        return 0;
    for (int i = 0; i < a->n_dims; i++)
        if (a->dims[i].type != b->dims[i].type ||
            a->dims[i].exec != b->dims[i].exec ||
            a->dims[i].size != b->dims[i].size ||
            a->dims[i].whole != b->dims[i].whole ||
            a->dims[i].vars != b->dims[i].vars ||
            a->dims[i].pack != b->dims[i].pack ||
            memcmp(a->dims[i].stride, b->dims[i].stride,
                   sizeof a->dims[i].stride))
            return 0;
    return 1;
}

// Makes room for one more contraction in the set. Returns 0 when out of memory.
// Outgrown arrays remain in the arena.
static int make_room(dv_product_set *s, dv_arena *arena)
{
    if (s->n < s->cap)
        return 1;
    int32_t cap = s->cap ? 2 * s->cap : 8;
    dv_contraction **at =
        dv_arena_grow(arena, s->at, (size_t)s->n, (size_t)cap, sizeof *at);
    const dv_nest **of =
        dv_arena_grow(arena, s->of, (size_t)s->n, (size_t)cap, sizeof *of);
    if (!at || !of)
        return 0;
    s->at = at;
    s->of = of;
    s->cap = cap;
    return 1;
}

void dv_product_set_free(dv_product_set *s)
{
    for (int32_t i = 0; i < s->n; i++)
        dv_contraction_destroy(s->at[i]);
    *s = (dv_product_set){0};
}

// Computes the strides of the sums that the epilogue reads: those of the output
// tensor, or those of a separate buffer with the same order of variables.
// Returns the bytes of that buffer, 0 if there is none.
static int64_t sum_strides(const dv_product *p, const dv_tile *t,
                           int64_t *steps)
{
    int64_t n = 1;
    memset(steps, 0, sizeof *steps * (size_t)p->o->n_vars);
    for (int32_t i = p->n_written - 1; i >= 0; i--) {
        int32_t v = p->written[i];
        steps[v] = p->there ? p->flat[2]->coef[v] : n;
        n *= t->end[v] - t->begin[v];
    }
    return p->there ? 0 : dv_round_up(p->sum_bytes * n, ALIGN_BYTES);
}

// Returns the bytes of a tile's copy of factor i, and its strides.
static int64_t copy_bytes(const dv_product *p, int i, const dv_tile *t,
                          int64_t *steps)
{
    return dv_round_up(p->copy[i].copy_bytes *
                           dv_operand_copy_strides(&p->copy[i], t->begin,
                                                   t->end, p->o->n_vars, steps),
                       ALIGN_BYTES);
}

// Removes k dimensions (summed) of size 1, because they would prevent their
// neighbours from being collapsed into one.
static void drop_unit_dims(dv_nest *n)
{
    int32_t kept = 0;
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].type != DV_NEST_K || n->dims[i].size > 1)
            n->dims[kept++] = n->dims[i];
    n->n_dims = kept;
}

// Sets *n to the nest (the operands of a contraction) of a tile, with one loop
// per variable. Operands that are copied have the strides of their copies. With
// `inside` the epilogue is fused into the kernel, which then writes the output
// tensor. *bytes is the scratch memory that the tile needs.
static void nest_of(const dv_product *p, const dv_tile *t, int inside,
                    dv_nest *n, int64_t *bytes)
{
    int64_t steps[DV_N_OPERANDS][DV_MAX_VARS];
    int direct = p->direct || inside;
    *bytes = 0;
    dv_nest_copy(n, &p->nest);
    if (inside) {
        n->dtype = p->stored;
        n->bias = (uint8_t)(p->bias < 0 ? 0 : 1 + p->bias_type);
        n->last = (dv_prim)p->fused_function;
    }
    for (int i = 0; i < 2; i++)
        if (p->copied[i]) {
            int64_t copy = copy_bytes(p, i, t, steps[i]);
            *bytes += p->nest.fixed >> i & 1 ? 0 : copy;
        }
    if (!direct && p->spec.parts)
        dv_vec_op_acc_strides(p->spec.vec, t->begin, t->end, steps[2]);
    else if (!direct)
        *bytes += sum_strides(p, t, steps[2]);
    n->out_reused = !direct && !p->spec.parts;
    for (int v = 0; v < n->n_dims; v++) {
        dv_nest_dim *d = &n->dims[v];
        d->size = t->end[v] - t->begin[v];
        for (int k = 0; k < DV_N_OPERANDS; k++)
            if (d->stride[k] && (k < 2 ? p->copied[k] : !direct))
                d->stride[k] = steps[k][v];
    }
    // The stride of a size-1 dimension is never used, but it must not become 0,
    // which would mean that the operand lacks the dimension.
    for (int i = 0; i < n->n_dims; i++)
        for (int k = 0; k < DV_N_OPERANDS; k++)
            if (p->nest.dims[i].stride[k] && !n->dims[i].stride[k])
                n->dims[i].stride[k] = 1;
    if (n->narrow)
        drop_unit_dims(n);
}

static int same_choices(const dv_contraction_choices *a,
                        const dv_contraction_choices *b)
{
    return a->gemm == b->gemm && a->m_block == b->m_block &&
           a->k_block == b->k_block && a->streams == b->streams &&
           a->stages == b->stages;
}

// Returns a contraction of the set for the same nest with, unless `as` is NULL,
// the same choices; NULL: none.
static dv_contraction *find_contract(const dv_product_set *s, const dv_nest *n,
                                     const dv_contraction_choices *as)
{
    for (int32_t i = 0; i < s->n; i++) {
        dv_contraction_choices is = dv_contraction_chosen(s->at[i]);
        if (same_nest(s->of[i], n) && (!as || same_choices(&is, as)))
            return s->at[i];
    }
    return NULL;
}

// Creates the contraction of a nest whose loops are those of the plan, with the
// choices `as` or, if that is NULL, chooses as much as `optimise` says.
static dv_status create_contract(const dv_product *p, const dv_nest *n,
                                 const dv_contraction_choices *as,
                                 const dv_product_set *set,
                                 dv_nest_optimise_level optimise,
                                 dv_contraction **to, dv_diag *diag)
{
    dv_contract_options options = {.size = sizeof(dv_contract_options),
                                   .optimise = optimise,
                                   .threads = 1,
                                   .l1_bytes = set->l1_bytes,
                                   .l2_bytes = set->l2_bytes,
                                   .l3_bytes = set->l3_bytes};
    return as ? dv_contraction_obey(to, p->spec.jit, n, as, &options, diag)
              : dv_contraction_create(to, p->spec.jit, n, &options, diag);
}

// Returns whether the user prescribes the size of variable v in the loops of a
// tile, and the tile has more values of it.
static int is_cut_by_pin(const dv_product *p, const dv_tile *t, int32_t v)
{
    return p->spec.pins->tiled >> v & 1 && !p->o->vars[v].reduce &&
           p->spec.pins->tile[v] < t->end[v] - t->begin[v];
}

static dv_status refuse_order(const dv_product *p, dv_diag *diag)
{
    return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                   "%s cannot be summed in the order of the plan", p->o->name);
}

// Gives the nest of a tile the loops that would be chosen for it, cut to the
// sizes that the user prescribes (pins). If a blocked GEMM would be chosen, its
// blocks over k become a loop.
static dv_status apply_pins(const dv_product *p, const dv_tile *t, dv_nest *n,
                            const dv_product_set *set, dv_diag *diag)
{
    dv_contraction *c = NULL;
    dv_arena *arena = p->spec.arena;
    dv_tile_schedule loops = {0};
    dv_nest chosen;
    int fits = 1;
    if (n->narrow)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "matrix instructions compute %s, in tiles that cannot "
                       "be pinned",
                       p->o->name);
    dv_nest_copy(&chosen, n);
    if (!dv_sums_apply(p->sums, &chosen))
        return refuse_order(p, diag);
    DV_TRY(
        create_contract(p, &chosen, NULL, set, DV_NEST_OPTIMISE_ALL, &c, diag));
    dv_status st = dv_tile_loops_describe(&loops, c, arena, diag);
    dv_contraction_destroy(c);
    DV_TRY(st);
    loops.pack = 0; // packing is chosen for the new loops
    for (int32_t i = 0; i < loops.n_loops; i++)
        loops.loops[i].pack = 0;
    dv_tile_loop k = loops.loops[loops.n_loops - 1];
    if (loops.k_block && loops.k_block < k.size &&
        !(k.vars & dv_written_vars(p->o)))
        fits = dv_tile_loops_cut(&loops, k.vars, loops.k_block, k.size, arena);
    for (int32_t v = 0; fits && v < p->o->n_vars; v++)
        if (is_cut_by_pin(p, t, v))
            fits = dv_tile_loops_cut(&loops, 1u << v, p->spec.pins->tile[v],
                                     t->end[v] - t->begin[v], arena);
    if (fits && dv_tile_loops_apply(n, &loops, p->sums))
        return DV_OK;
    return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                   "the loops of %s cannot be cut as pinned", p->o->name);
}

// Gives the nest of a tile its loops. If the plan has loops for the tile, sets
// *obeys to 1 and *choices to the rest of what it says; otherwise sets *obeys
// to 0 and only the order of summation is applied.
static dv_status apply_loops(const dv_product *p, const dv_tile *t, dv_nest *n,
                             dv_contraction_choices *choices, int *obeys,
                             dv_diag *diag)
{
    const dv_op_schedule *as = p->spec.as;
    size_t shape = shape_of(p, t);
    *obeys = as && !(p->spec.probing && !as->n_tiles);
    if (*obeys && shape >= (size_t)as->n_tiles)
        return dv_fail(diag, DV_E_CHECK, dv_plan_at(p->spec.plan, as->off),
                       "the plan has no loops for some tiles of %s",
                       p->o->name);
    if (*obeys)
        *choices = dv_tile_loops_choices(&as->tiles[shape]);
    if (*obeys ? dv_tile_loops_apply(n, &as->tiles[shape], p->sums)
               : dv_sums_apply(p->sums, n))
        return DV_OK;
    return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                   "%s cannot be summed in the order of the plan", p->o->name);
}

// Finds the contraction of a nest in the set, or creates it.
static dv_status obtain(const dv_product *p, dv_nest *n,
                        const dv_contraction_choices *as,
                        dv_nest_optimise_level optimise, dv_contraction **to,
                        dv_product_set *set, dv_diag *diag)
{
    *to = find_contract(set, n, as);
    if (*to)
        return DV_OK;
    dv_nest *copy = DV_NEW(p->spec.arena, dv_nest, 1);
    if (!copy || !make_room(set, p->spec.arena))
        return dv_nomem(diag);
    dv_nest_copy(copy, n);
    DV_TRY(create_contract(p, n, as, set, optimise, to, diag));
    set->of[set->n] = copy;
    set->at[set->n++] = *to;
    return DV_OK;
}

static dv_status contract_for(dv_product *p, const dv_tile *t, int inside,
                              dv_contraction **to, dv_product_set *set,
                              dv_diag *diag)
{
    int64_t bytes;
    int obeys = 0, pinned = 0;
    dv_contraction_choices as;
    dv_nest n;
    nest_of(p, t, inside, &n, &bytes);
    for (int32_t v = 0; !p->spec.as && v < p->o->n_vars; v++)
        pinned |= is_cut_by_pin(p, t, v);
    DV_TRY(pinned ? apply_pins(p, t, &n, set, diag)
                  : apply_loops(p, t, &n, &as, &obeys, diag));
    DV_TRY(obtain(p, &n, obeys ? &as : NULL,
                  pinned ? DV_NEST_OPTIMISE_PACKING : DV_NEST_OPTIMISE_ALL, to,
                  set, diag));
    p->workspace_bytes =
        dv_max_i64(p->workspace_bytes, bytes + dv_contraction_workspace(*to));
    return DV_OK;
}

// Finds the variables along the rows and columns of blocks, which are those
// along which the tile has more than one point; the sums are contiguous along
// `col`. There are none in two cases: if a side's variables are not contiguous
// with each other in memory, blocks would not be boxes of the op; and if
// strides do not nest in the order of p->written, position_of could not compute
// a block's position from its address. A plan may also demand that the epilogue
// runs on the whole tile.
static void find_blocks(const dv_product *p, const dv_tile *t, tile_kernel *to)
{
    int32_t side[2][MOST_SIDE + 1] = {{-1, -1, -1}, {-1, -1, -1}};
    int32_t n[2] = {0, 0};
    int64_t reach = 1; // elements spanned by the inner variables
    to->row[0] = to->col[0] = -1;
    if (p->spec.as && p->spec.as->epilogue == DV_EPILOGUE_TILE)
        return;
    for (int32_t i = p->n_written - 1; i >= 0; i--) {
        int32_t v = p->written[i];
        int64_t len = t->end[v] - t->begin[v];
        int type = (int)p->nest.dims[v].type - DV_NEST_M;
        if (len == 1)
            continue;
        if (to->steps[v] < reach)
            return;
        reach = to->steps[v] * len;
        if (p->nest.dims[v].type == DV_NEST_C)
            continue;
        int32_t in = n[type] ? side[type][n[type] - 1] : -1;
        if (n[type] == MOST_SIDE ||
            (in >= 0 &&
             to->steps[v] != to->steps[in] * (t->end[in] - t->begin[in])))
            return;
        side[type][n[type]++] = v;
    }
    if (!n[0] || !n[1])
        return;
    int second = to->steps[side[1][0]] == 1;
    if (to->steps[side[second][0]] != 1)
        return;
    memcpy(to->row, side[!second], sizeof to->row);
    memcpy(to->col, side[second], sizeof to->col);
}

// Returns the epilogue of another tile shape whose sums have the same strides;
// NULL: none.
static dv_epilogue *find_epilogue(const dv_product *p, const tile_kernel *of)
{
    for (size_t i = 0; i < n_shapes(p); i++)
        if (p->made[i].finish &&
            !memcmp(p->made[i].steps, of->steps, sizeof of->steps))
            return p->made[i].finish;
    return NULL;
}

static dv_status epilogue_for(dv_product *p, const dv_tile *t, tile_kernel *to,
                              dv_diag *diag)
{
    sum_strides(p, t, to->steps);
    find_blocks(p, t, to);
    to->finish = find_epilogue(p, to);
    if (to->finish)
        return DV_OK;
    dv_whole_op whole = dv_plan_whole_op(p->spec.plan, p->spec.op);
    dv_epilogue_spec spec = {.p = whole.p,
                             .op = whole.op,
                             .kernel = p->spec.kernel,
                             .type = p->nest.dtype,
                             .steps = to->steps,
                             .nearest = to->row[0] >= 0 &&
                                        (to->row[1] >= 0 || to->col[1] >= 0),
                             .as = p->spec.as,
                             .jit = p->spec.jit,
                             .arena = p->spec.arena};
    DV_TRY(dv_epilogue_create(&to->finish, &spec, diag));
    return to->finish
               ? DV_OK
               : dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                         "no kernel finishes the sums of %s", p->o->name);
}

// Returns which of the blocks of constant factor i a tile reads: an index into
// p->blocks[i].
static int64_t block_number(const dv_product *p, int i, const dv_tile *t)
{
    int64_t at = 0;
    for (int v = 0; v < p->o->n_vars; v++)
        if (p->flat[i]->coef[v])
            at = at * t->n_slots[v] + t->slot[v];
    return at * (int64_t)n_shapes(p) + (int64_t)shape_of(p, t);
}

// Returns whether constant factor i is packed before the first run in the order
// in which this tile's kernels read it. If not, it is at most copied.
static int packs_once(const dv_product *p, int i, const dv_tile *t)
{
    return dv_contraction_once(p->made[shape_of(p, t)].c) >> i & 1;
}

// Notes which factors that threads are to hold the kernels of a tile pack, and
// the bytes of these.
static void note_held(dv_product *p, const dv_tile *t)
{
    const dv_contraction *c = p->made[shape_of(p, t)].c;
    for (int i = 0; i < 2; i++) {
        if (!(p->hold >> i & 1) || !dv_contraction_packs_in_run(c, i))
            continue;
        p->held |= (uint8_t)(1 << i);
        p->held_bytes[i] =
            dv_max_i64(p->held_bytes[i], dv_contraction_once_bytes(c, i));
    }
}

// Registers the blocks of constant factors that a tile reads, which are packed
// before the first run, and adds up their bytes. Returns 0 when out of memory.
static int note_blocks(dv_product *p, const dv_tile *t)
{
    int64_t steps[DV_MAX_VARS];
    for (int i = 0; i < 2; i++) {
        if (p->hold >> i & 1)
            continue;
        int pack = p->nest.fixed >> i & 1 && packs_once(p, i, t);
        if (!pack && !p->copied[i])
            p->in_place |= (uint8_t)(1 << i);
        if (!(p->nest.fixed >> i & 1) || (!pack && !p->copied[i]))
            continue;
        int64_t n = (int64_t)n_shapes(p);
        for (int v = 0; v < p->o->n_vars; v++)
            n *= p->flat[i]->coef[v] ? t->n_slots[v] : 1;
        if (!p->blocks[i])
            p->blocks[i] = DV_NEW(p->spec.arena, once_block, n);
        if (!p->blocks[i])
            return 0;
        p->n_blocks[i] = n;
        p->once |= (uint8_t)(1 << i);
        once_block *b = &p->blocks[i][block_number(p, i, t)];
        if (b->bytes)
            continue;
        b->bytes = pack
                       ? dv_contraction_once_bytes(p->made[shape_of(p, t)].c, i)
                       : copy_bytes(p, i, t, steps);
        p->once_bytes += b->bytes;
    }
    return 1;
}

// Creates the kernels for all tiles that have the shape of this tile.
static dv_status make_shape(dv_product *p, const dv_tile *t,
                            dv_product_set *set, dv_diag *diag)
{
    size_t shape = shape_of(p, t);
    tile_kernel *to = &p->made[shape];
    if (to->c)
        return DV_OK;
    if (!p->inside && !p->direct && !p->spec.parts)
        DV_TRY(epilogue_for(p, t, to, diag));
    DV_TRY(contract_for(p, t, p->inside, &to->c, set, diag));
    if (p->tiles[shape].loops)
        return DV_OK;
    for (int i = 0; i < p->n_shorts; i++)
        p->tiles[shape].shorts |= (uint32_t)(shape >> i & 1) << p->shorts[i];
    return dv_tile_loops_describe(&p->tiles[shape], to->c, p->spec.arena, diag);
}

dv_status dv_product_prepare(dv_product *p, const dv_tile *t,
                             dv_product_set *set, dv_diag *diag)
{
    DV_TRY(make_shape(p, t, set, diag));
    note_held(p, t);
    return note_blocks(p, t) ? DV_OK : dv_nomem(diag);
}

// Makes the loops of a tile run over only `len` values of a variable, by
// shortening the outermost loop over it. Returns 0 if that loop also covers
// other variables, or if `len` is no multiple of the loops inside it.
static int shorten(dv_tile_schedule *s, uint32_t var, int64_t len,
                   dv_arena *arena)
{
    int32_t outermost = -1;
    int64_t unit = 1;
    dv_tile_loop *to = DV_NEW(arena, dv_tile_loop, s->n_loops);
    for (int32_t i = s->n_loops - 1; to && i >= 0; i--) {
        to[i] = s->loops[i];
        if (!(to[i].vars & var))
            continue;
        if (to[i].vars != var)
            return 0;
        unit *= outermost < 0 ? 1 : s->loops[outermost].size;
        outermost = i;
    }
    if (outermost < 0 || len % unit)
        return 0;
    to[outermost].size = len / unit;
    s->loops = to;
    return 1;
}

// Creates the kernels that compute only the first `len` values of the skipped
// variable.
static dv_status make_less(dv_product *p, const dv_tile *t, int64_t len,
                           tile_kernel *to, dv_product_set *set, dv_diag *diag)
{
    size_t shape = shape_of(p, t);
    dv_tile_schedule loops = p->tiles[shape];
    dv_contraction_choices as = dv_tile_loops_choices(&loops);
    int64_t bytes;
    dv_nest n;
    *to = p->made[shape]; // with the same strides of sums, and their epilogue
    nest_of(p, t, p->inside, &n, &bytes);
    n.dims[p->skip.var].size = len;
    if (!shorten(&loops, 1u << p->skip.var, len, p->spec.arena) ||
        !dv_tile_loops_apply(&n, &loops, p->sums))
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "the loops of %s cannot skip values of %s", p->o->name,
                       p->o->vars[p->skip.var].name);
    DV_TRY(obtain(p, &n, &as, DV_NEST_OPTIMISE_ALL, &to->c, set, diag));
    p->workspace_bytes =
        dv_max_i64(p->workspace_bytes, bytes + dv_contraction_workspace(to->c));
    return DV_OK;
}

dv_status dv_product_skip(dv_product *p, const dv_tile *t, const dv_skip *skip,
                          dv_product_set *set, dv_diag *diag)
{
    int64_t len = dv_var_len(p->o, skip->var);
    if (p->spec.parts || p->nest.fixed || p->nest.narrow || p->copied[0] ||
        p->copied[1])
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "%s copies or packs its operands in a way that cannot "
                       "skip values of %s",
                       p->o->name, p->o->vars[skip->var].name);
    if (!p->less) {
        p->skip = *skip;
        p->n_less = dv_ceil_div(len, skip->by) - 1;
        p->less = DV_NEW(p->spec.arena, tile_kernel,
                         (int64_t)n_shapes(p) * p->n_less + 1);
        if (!p->less)
            return dv_nomem(diag);
    }
    for (int64_t i = 0; i < p->n_less; i++) {
        tile_kernel *to = &p->less[(int64_t)shape_of(p, t) * p->n_less + i];
        if (!to->c)
            DV_TRY(make_less(p, t, (i + 1) * skip->by, to, set, diag));
    }
    return DV_OK;
}

// Returns the kernels that compute a tile, which may be cut to fewer values of
// the skipped variable.
static const tile_kernel *kernels_of(const dv_product *p, const dv_tile *t)
{
    int64_t shape = (int64_t)shape_of(p, t), v = p->skip.var;
    if (!p->less || t->end[v] == p->o->vars[v].end)
        return &p->made[shape];
    return &p->less[shape * p->n_less + (t->end[v] - t->begin[v]) / p->skip.by -
                    1];
}

int64_t dv_product_once_bytes(const dv_product *p)
{
    return p->once_bytes;
}

int dv_product_packs(const dv_product *p, int read)
{
    for (int i = 0; i < 2; i++)
        if (p->access[i] == read)
            return p->once >> i & 1 && !(p->in_place >> i & 1);
    return 0;
}

// Forgets what was prepared for the tiles.
static void unprepare(dv_product *p)
{
    p->workspace_bytes = p->once_bytes = 0;
    p->once = p->in_place = p->held = 0;
    for (int i = 0; i < 2; i++) {
        p->blocks[i] = NULL;
        p->held_bytes[i] = 0;
    }
    memset(p->made, 0, n_shapes(p) * sizeof *p->made);
    memset(p->tiles, 0, n_shapes(p) * sizeof *p->tiles);
}

int dv_product_unfuse(dv_product *p)
{
    if (!p->inside || p->spec.as)
        return 0;
    p->inside = 0;
    p->bias = -1;
    unprepare(p);
    return 1;
}

int dv_product_hold(dv_product *p, int factors)
{
    factors &= ~(p->nest.fixed & ~p->hold);
    for (int i = 0; i < 2; i++)
        if (p->copied[i])
            factors &= ~(1 << i);
    if (p->hold == factors)
        return 0;
    p->nest.fixed = (uint8_t)((p->nest.fixed & ~p->hold) | factors);
    p->hold = (uint8_t)factors;
    unprepare(p);
    return 1;
}

int dv_product_held(const dv_product *p, int64_t *most_bytes)
{
    *most_bytes = dv_max_i64(p->held_bytes[0], p->held_bytes[1]);
    return p->held;
}

int64_t dv_product_place_held(dv_product *p, int64_t at)
{
    for (int i = 0; i < 2; i++) {
        p->held_at[i] = at;
        if (p->held >> i & 1)
            at += HELD_HEAD + dv_round_up(p->held_bytes[i], ALIGN_BYTES);
    }
    return at;
}

static held_block *block_at(const dv_product *p, int i, void *held)
{
    return (held_block *)(void *)((char *)held + p->held_at[i]);
}

void dv_product_forget(const dv_product *p, void *held)
{
    for (int i = 0; i < 2; i++)
        if (p->held >> i & 1)
            block_at(p, i, held)->from = NULL;
}

void dv_product_describe(const dv_product *p, dv_op_schedule *out)
{
    int blocks = 0;
    out->sums = *p->sums;
    for (int i = 0; i < 2; i++) // operands with a border are copied, too
        out->copied[i] = p->copied[i] || p->o->reads[p->access[i]].has_border;
    out->once = p->once;
    out->hold = p->held;
    out->tiles = p->tiles;
    out->n_tiles = (int32_t)n_shapes(p);
    for (size_t i = 0; i < n_shapes(p); i++) {
        if (!p->made[i].finish)
            continue;
        blocks |= p->made[i].row[0] >= 0;
        dv_epilogue_describe(p->made[i].finish, out);
    }
    out->epilogue =
        p->spec.parts          ? DV_EPILOGUE_PARTS
        : p->inside            ? DV_EPILOGUE_KERNEL
        : !p->direct && blocks ? DV_EPILOGUE_BLOCKS
        : !p->direct           ? DV_EPILOGUE_TILE
        : p->nest.last != DV_PRIM_NONE || p->nest.first != DV_PRIM_ZERO
            ? DV_EPILOGUE_KERNEL
            : DV_EPILOGUE_NONE;
}

// Returns the address of the first element that a tile accesses in a tensor;
// `at` is the address of the tensor's element 0.
static char *begin_of(const dv_flat *flat, const dv_op *op, const dv_tile *t,
                      void *at, int64_t elem_bytes)
{
    return (char *)at + dv_flat_at(flat, op, t->begin) * elem_bytes;
}

// Sets `begin` to the op's point at which a finished block of sums begins,
// computed from the block's address `at`; `all` is the address of the tile's
// first sum.
static void position_of(const dv_product *p, const tile_kernel *m,
                        const dv_tile *t, const char *all, const void *at,
                        int64_t *begin)
{
    int64_t off = ((const char *)at - all) / p->sum_bytes;
    for (int32_t i = 0; i < p->n_written; i++) {
        int32_t v = p->written[i];
        int one = t->end[v] - t->begin[v] == 1;
        int64_t x = one ? 0 : off / m->steps[v];
        off -= x * m->steps[v];
        begin[v] = t->begin[v] + x;
    }
}

// Sets begin..end to the largest box among the next n points of one side (the
// rows or columns) of a block, from `begin` on. Returns its number of points.
static int64_t next_box(const int32_t *side, const dv_tile *t, int64_t n,
                        int64_t *begin, int64_t *end)
{
    int32_t in = side[0], out = side[1];
    int64_t len = t->end[in] - t->begin[in];
    int64_t left = t->end[in] - begin[in], many = 1;
    if (out >= 0 && left == len && n >= len)
        many = n / len;
    n = many > 1 ? len : dv_min_i64(n, left);
    end[in] = begin[in] + n;
    if (out >= 0)
        end[out] = begin[out] + many;
    return many * n;
}

// Moves `begin` past the box begin..end of one side (the rows or columns) of a
// block.
static void skip_box(const int32_t *side, const dv_tile *t, int64_t *begin,
                     const int64_t *end)
{
    int32_t in = side[0], out = side[1];
    if (out >= 0 && end[in] == t->end[in]) {
        begin[in] = t->begin[in];
        begin[out] = end[out];
    } else {
        begin[in] = end[in];
    }
}

// Runs the epilogue on a finished block of sums, box by box.
static void finish_block(const dv_product *p, const tile_kernel *m,
                         const dv_tile *t, void *const *at, char *all,
                         const dv_block *block)
{
    int64_t first[DV_MAX_VARS] = {0}, begin[DV_MAX_VARS], end[DV_MAX_VARS];
    dv_epilogue_box box;
    // If the block's row stride is not that of the innermost row variable, its
    // rows run along the next row variable.
    int skip = block->rows > 1 && m->steps[m->row[0]] != block->ld;
    const int32_t *row = &m->row[skip];
    position_of(p, m, t, all, block->at, first);
    for (int v = 0; v < p->o->n_vars; v++) {
        begin[v] = first[v];
        end[v] = first[v] + 1;
    }
    for (int64_t rows = block->rows; rows > 0;) {
        rows -= next_box(row, t, rows, begin, end);
        for (int s = 0; s < MOST_SIDE && m->col[s] >= 0; s++)
            begin[m->col[s]] = first[m->col[s]];
        for (int64_t cols = block->cols; cols > 0;) {
            int64_t off = 0;
            cols -= next_box(m->col, t, cols, begin, end);
            for (int32_t i = 0; i < p->n_written; i++) {
                int32_t v = p->written[i];
                off += (begin[v] - t->begin[v]) * m->steps[v];
            }
            const dv_vec_op *last = dv_epilogue_at(
                m->finish, at, begin, end, all + off * p->sum_bytes, &box);
            dv_vec_op_run(last, box.at, box.begin, box.end);
            skip_box(m->col, t, begin, end);
        }
        skip_box(row, t, begin, end);
    }
}

// The packing of one constant factor: factor i of a tile, whose first element
// is at `from`. The first element of the factor as a whole is at `first`.
typedef struct pack_job {
    const dv_product *p;
    const dv_tile *t;
    int i;
    const char *from, *first;
} pack_job;

static void put_number(dv_text *key, int64_t n)
{
    dv_put_bytes(key, (const char *)&n, sizeof n);
}

static void put_nest(dv_text *key, const dv_nest *n)
{
    const int64_t of[] = {n->dtype, n->narrow, n->dot,  n->pack,
                          n->fixed, n->first,  n->last, n->bias};
    dv_put_bytes(key, (const char *)of, sizeof of);
    for (int i = 0; i < n->n_dims; i++) {
        const dv_nest_dim *d = &n->dims[i];
        const int64_t dim[] = {d->type,      d->exec,     d->size,
                               d->whole,     d->pack,     d->stride[0],
                               d->stride[1], d->stride[2]};
        dv_put_bytes(key, (const char *)dim, sizeof dim);
    }
}

// Returns how many of the ops that are computed once come before the one that
// writes the tensor. Unlike the tensor's number it is the same in all programs
// in which these ops are the same.
static int64_t number_of_once(const dv_plan *plan, int32_t tensor)
{
    int64_t n = 0;
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        if (plan->ops->ops[i].write.tensor == tensor)
            break;
        n += plan->groups[dv_group_of(plan, i)].once;
    }
    return n;
}

// Writes the key under which packed elements are shared: everything that they
// depend on.
static void put_key(dv_text *key, const pack_job *j, int64_t bytes)
{
    const dv_product *p = j->p;
    const dv_contraction *c = p->made[shape_of(p, j->t)].c;
    const dv_operand_copy *w = &p->copy[j->i];
    dv_contraction_choices as = dv_contraction_chosen(c);
    // An op's result that is computed once may be freed after packing, and
    // another exec may then have other elements at its address. Therefore the
    // key has, in place of the address, that of the results which execs share
    // (`once`: all ops that are computed once, with equal constants, gave them)
    // and which of these ops writes this result.
    const dv_plan *plan = p->spec.plan;
    int32_t tensor = p->o->reads[p->access[j->i]].tensor;
    int once = plan->ops->tensors[tensor].is_once;
    int64_t from = once ? j->from - j->first : (int64_t)(intptr_t)j->from;
    const int64_t of[] = {from,
                          once ? (int64_t)(intptr_t)*p->spec.once : 0,
                          once ? number_of_once(plan, tensor) : 0,
                          (int64_t)(intptr_t)dv_jit_isa(p->spec.jit),
                          bytes,
                          j->i,
                          dv_contraction_once(c),
                          p->copied[j->i],
                          as.gemm,
                          as.m_block,
                          as.k_block,
                          as.streams,
                          as.stages};
    dv_put_bytes(key, (const char *)of, sizeof of);
    put_nest(key, dv_contraction_nest(c));
    if (!p->copied[j->i])
        return;
    put_number(key, w->elem_bytes);
    put_number(key, w->copy_bytes);
    for (int32_t v = 0; v < w->n_vars; v++) {
        put_number(key, w->coef[v]);
        put_number(key, j->t->end[w->var[v]] - j->t->begin[w->var[v]]);
    }
}

// Copies and packs the factor that a job names.
static dv_status pack_factor(const void *user, void *to, dv_diag *diag)
{
    const pack_job *j = user;
    const dv_product *p = j->p;
    int64_t steps[DV_MAX_VARS];
    const dv_contraction *c = p->made[shape_of(p, j->t)].c;
    int packs = packs_once(p, j->i, j->t);
    const void *from = j->from;
    void *copy = NULL;
    if (p->copied[j->i]) {
        copy = packs ? dv_alloc_buffer((size_t)copy_bytes(p, j->i, j->t, steps))
                     : to;
        if (!copy)
            return dv_nomem(diag);
        dv_operand_copy_run(&p->copy[j->i], j->t->begin, j->t->end, from, copy);
        from = copy;
    }
    if (!packs)
        return DV_OK;
    dv_status st = dv_contraction_pack(c, j->i, from, to, diag);
    dv_release(copy);
    return st;
}

dv_status dv_product_pack(const dv_product *p, const dv_tile *t,
                          void *const *at, dv_diag *diag)
{
    for (int i = 0; i < 2; i++) {
        once_block *b =
            p->once >> i & 1 ? &p->blocks[i][block_number(p, i, t)] : NULL;
        if (!b || !b->bytes || b->packed)
            continue;
        pack_job j = {
            p, t, i,
            begin_of(p->flat[i], p->o, t, at[p->access[i]], p->elem_bytes[i]),
            at[p->access[i]]};
        dv_text key = {0};
        put_key(&key, &j, b->bytes);
        dv_status st = key.failed ? dv_nomem(diag)
                                  : dv_packed_get(&b->packed, &key, b->bytes,
                                                  pack_factor, &j, diag);
        dv_text_free(&key);
        DV_TRY(st);
    }
    return DV_OK;
}

void dv_product_unpack(const dv_product *p, int32_t tensor)
{
    for (int i = 0; i < 2; i++) {
        if (tensor >= 0 && p->o->reads[p->access[i]].tensor != tensor)
            continue;
        for (int64_t b = 0; p->blocks[i] && b < p->n_blocks[i]; b++) {
            dv_packed_release(p->blocks[i][b].packed);
            p->blocks[i][b].packed = NULL;
        }
    }
}

// Returns the elements of factor i of a tile that were packed before the first
// run; NULL: none.
static const void *packed_of(const dv_product *p, int i, const dv_tile *t)
{
    if (!(p->once >> i & 1))
        return NULL;
    const once_block *b = &p->blocks[i][block_number(p, i, t)];
    return b->packed ? dv_packed_data(b->packed) : NULL;
}

// Returns the packed elements of factor i, which begins at `from`, in the
// thread's memory `held`. Packs them unless the tile before has read the same.
static const void *hold(const dv_product *p, int i, const dv_contraction *c,
                        const void *from, void *held)
{
    held_block *b = block_at(p, i, held);
    void *to = (char *)b + HELD_HEAD;
    if (b->from != from || b->of != c) {
        dv_contraction_pack(c, i, from, to, NULL);
        *b = (held_block){from, c};
    }
    return to;
}

// Sets `operands` to the addresses at which the kernel finds a tile's operands,
// and `packed` to those of factors packed before the first run or held by the
// thread. Factors that the kernel cannot read in place are copied to *room.
static void find_operands(const dv_product *p, const dv_tile *t,
                          const dv_product_room *in, char **room,
                          char **operands, const void **packed)
{
    int64_t steps[DV_MAX_VARS];
    const dv_contraction *c = kernels_of(p, t)->c;
    for (int i = 0; i < DV_N_OPERANDS; i++) {
        operands[i] = begin_of(p->flat[i], p->o, t, in->at[p->access[i]],
                               p->elem_bytes[i]);
        if (i == 2)
            continue;
        int holds = p->held >> i & 1 && dv_contraction_packs_in_run(c, i);
        packed[i] =
            holds ? hold(p, i, c, operands[i], in->held) : packed_of(p, i, t);
        if (!p->copied[i])
            continue;
        if (packed[i]) {
            operands[i] = (char *)(uintptr_t)packed[i];
            continue;
        }
        dv_operand_copy_run(&p->copy[i], t->begin, t->end, operands[i], *room);
        operands[i] = *room;
        *room += copy_bytes(p, i, t, steps);
    }
}

void dv_product_run(const dv_product *p, const dv_tile *t,
                    const dv_product_room *in, void *acc)
{
    const tile_kernel *m = kernels_of(p, t);
    char *op[DV_N_OPERANDS], *room = in->workspace;
    const void *packed[2];
    find_operands(p, t, in, &room, op, packed);
    dv_contraction_args args = {.in0 = op[0],
                                .in1 = op[1],
                                .out = op[2],
                                .packed = {packed[0], packed[1]}};
    if (p->spec.parts)
        args.out = acc;
    if (m->finish && !p->there) {
        int64_t steps[DV_MAX_VARS];
        dv_tile whole = *t; // the sums have its strides
        if (p->less)
            whole.end[p->skip.var] = p->o->vars[p->skip.var].end;
        args.out = room;
        room += sum_strides(p, &whole, steps);
    }
    if (p->bias >= 0)
        args.bias = begin_of(&p->spec.kernel->reads[p->bias], p->o, t,
                             in->at[p->bias], p->sum_bytes);
    args.workspace = room;
    dv_contraction_cursor run;
    dv_block block;
    // The epilogue runs once, at the end of the tile, if the contraction does
    // not announce finished blocks or if blocks are not boxes of the op.
    int by_blocks =
        m->finish && m->row[0] >= 0 && dv_contraction_has_blocks(m->c);
    dv_contraction_begin(&run, m->c, &args);
    while (dv_contraction_next(&run, &block)) {
        if (by_blocks)
            finish_block(p, m, t, in->at, args.out, &block);
    }
    if (m->finish && !by_blocks) {
        dv_epilogue_box box;
        const dv_vec_op *last =
            dv_epilogue_at(m->finish, in->at, t->begin, t->end, args.out, &box);
        dv_vec_op_run(last, box.at, box.begin, box.end);
    }
}
