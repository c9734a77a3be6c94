// Reads, prints, verifies and compares the loops of a product's tiles in
// section `schedule` of a plan, one line for each shape of tiles:
//
//   tile { n 4 seq pack in1, m 512 prim, n 128 prim, k 512 prim }
//   tile last m { m 488 prim, n 512 prim, k 512 prim } gemm blocks 244 x 512
//
// schedule.h explains the parts of a line.
#include "plan/plan.h"
#include <inttypes.h>

static const char *const operands[] = {"in0", "in1", "out"};

enum { N_OPERANDS = sizeof operands / sizeof *operands };

static void print_mask(dv_text *out, const dv_op *o, uint32_t vars,
                       const char *between)
{
    const char *before = "";
    for (int v = 0; v < o->n_vars; v++)
        if (vars >> v & 1) {
            dv_put(out, "%s%s", before, o->vars[v].name);
            before = between;
        }
}

static void print_pack(dv_text *out, int pack)
{
    if (pack)
        dv_put(out, " pack");
    for (int i = 0; i < N_OPERANDS; i++)
        if (pack >> i & 1)
            dv_put(out, " %s", operands[i]);
}

void dv_tile_schedule_print(dv_text *out, const dv_op *o,
                            const dv_tile_schedule *t)
{
    dv_put(out, "tile");
    if (t->shorts)
        dv_put(out, " last ");
    print_mask(out, o, t->shorts, ", ");
    print_pack(out, t->pack);
    for (int32_t i = 0; i < t->n_loops; i++) {
        const dv_tile_loop *l = &t->loops[i];
        dv_put(out, i ? ", " : " { ");
        print_mask(out, o, l->vars, "*");
        dv_put(out, " %" PRId64 " %s", l->size, l->inside ? "prim" : "seq");
        print_pack(out, l->pack);
    }
    dv_put(out, t->n_loops ? " }" : " { }");
    if (t->gemm)
        dv_put(out, " gemm");
    if (t->m_block)
        dv_put(out, " blocks %" PRId64 " x %" PRId64, t->m_block, t->k_block);
    dv_put(out, "%s%s", t->stream ? " stream" : "", t->stage ? " stage" : "");
}

static int same_tile(const dv_tile_schedule *a, const dv_tile_schedule *b)
{
    int same = a->shorts == b->shorts && a->n_loops == b->n_loops &&
               a->pack == b->pack && a->gemm == b->gemm &&
               a->m_block == b->m_block && a->k_block == b->k_block &&
               a->stream == b->stream && a->stage == b->stage;
    for (int32_t i = 0; same && i < a->n_loops; i++)
        same = a->loops[i].vars == b->loops[i].vars &&
               a->loops[i].size == b->loops[i].size &&
               a->loops[i].inside == b->loops[i].inside &&
               a->loops[i].pack == b->loops[i].pack;
    return same;
}

int dv_tile_schedules_equal(const dv_op_schedule *a, const dv_op_schedule *b)
{
    int same = a->n_tiles == b->n_tiles;
    for (int32_t i = 0; same && i < a->n_tiles; i++)
        same = same_tile(&a->tiles[i], &b->tiles[i]);
    return same;
}

dv_status dv_tile_schedule_verify(const dv_plan *plan, const dv_op *o,
                                  const dv_tile_schedule *t, dv_diag *diag)
{
    dv_loc at = dv_plan_at(plan, t->off);
    uint64_t all = (UINT64_C(1) << o->n_vars) - 1;
    if (t->shorts & ~all || t->n_loops > DV_MAX_TILE_LOOPS)
        return dv_fail(diag, DV_E_LIMIT, at,
                       "%s has tiles with %d loops, %d are possible", o->name,
                       (int)t->n_loops, (int)DV_MAX_TILE_LOOPS);
    for (int32_t i = 0; i < t->n_loops; i++) {
        const dv_tile_loop *l = &t->loops[i];
        if (!l->vars || l->vars & ~all || l->size < 1)
            return dv_fail(diag, DV_E_SHAPE, at,
                           "loop %d over tiles of %s has size %" PRId64, (int)i,
                           o->name, l->size);
    }
    if (t->m_block < 0 || t->m_block > INT32_MAX || t->k_block < 0 ||
        t->k_block > INT32_MAX || !t->m_block != !t->k_block)
        return dv_fail(diag, DV_E_SHAPE, at,
                       "%s has blocks of %" PRId64 " x %" PRId64, o->name,
                       t->m_block, t->k_block);
    return DV_OK;
}

int dv_schedule_lacks_loops(const dv_plan *plan)
{
    for (int32_t i = 0; i < plan->ops->n_ops; i++)
        if (plan->schedule.ops[i].kind == DV_KERNEL_PRODUCT &&
            !plan->schedule.ops[i].n_tiles)
            return 1;
    return 0;
}

static dv_status read_var(dv_lexer *lx, const dv_op *o, uint32_t *mask)
{
    char buf[48];
    for (int v = 0; v < o->n_vars; v++)
        if (dv_lex_is(lx, o->vars[v].name) && !(*mask >> v & 1)) {
            *mask |= UINT32_C(1) << v;
            return dv_lex(lx);
        }
    return dv_fail(lx->diag, DV_E_NAME, dv_lex_at(lx),
                   "%s is no variable of %s, or stands here twice",
                   dv_lex_show(lx, buf), o->name);
}

// Reads variables that are separated by the character `between`, into a bit
// mask.
static dv_status read_vars(dv_lexer *lx, const dv_op *o, char between,
                           uint32_t *mask)
{
    DV_TRY(read_var(lx, o, mask));
    while (lx->tok.kind == between) {
        DV_TRY(dv_lex(lx));
        DV_TRY(read_var(lx, o, mask));
    }
    return DV_OK;
}

static dv_status read_pack(dv_lexer *lx, int *pack)
{
    if (!dv_lex_is(lx, "pack"))
        return DV_OK;
    DV_TRY(dv_lex(lx));
    for (int i = 0; i < N_OPERANDS; i++)
        if (dv_lex_is(lx, operands[i])) {
            *pack |= 1 << i;
            DV_TRY(dv_lex(lx));
        }
    return *pack ? DV_OK
                 : dv_fail(lx->diag, DV_E_SYNTAX, dv_lex_at(lx),
                           "expected in0, in1 or out");
}

static dv_status read_loop(dv_lexer *lx, const dv_op *o, dv_tile_loop *l)
{
    DV_TRY(read_vars(lx, o, '*', &l->vars));
    DV_TRY(dv_lex_int(lx, &l->size, "the size of the loop"));
    l->inside = dv_lex_is(lx, "prim");
    DV_TRY(dv_lex_word(lx, l->inside ? "prim" : "seq"));
    return read_pack(lx, &l->pack);
}

// Reads one of the optional words that may follow the loops; *any is 0 if there
// is none.
static dv_status read_choice(dv_lexer *lx, dv_tile_schedule *t, int *any)
{
    int *flag = dv_lex_is(lx, "gemm")     ? &t->gemm
                : dv_lex_is(lx, "stream") ? &t->stream
                : dv_lex_is(lx, "stage")  ? &t->stage
                                          : NULL;
    int blocks = dv_lex_is(lx, "blocks");
    *any = flag || blocks;
    if (!*any)
        return DV_OK;
    DV_TRY(dv_lex(lx));
    if (flag) {
        *flag = 1;
        return DV_OK;
    }
    DV_TRY(dv_lex_int(lx, &t->m_block, "the rows of a block"));
    DV_TRY(dv_lex_word(lx, "x"));
    return dv_lex_int(lx, &t->k_block, "the elements of k of a block");
}

dv_status dv_tile_schedule_read(dv_plan *plan, dv_lexer *lx, const dv_op *o,
                                dv_tile_schedule *t)
{
    int32_t cap = 0;
    int any = 1;
    *t = (dv_tile_schedule){.off = lx->tok.off};
    DV_TRY(dv_lex_word(lx, "tile"));
    if (dv_lex_is(lx, "last")) {
        DV_TRY(dv_lex(lx));
        DV_TRY(read_vars(lx, o, ',', &t->shorts));
    }
    DV_TRY(read_pack(lx, &t->pack));
    DV_TRY(dv_lex_expect(lx, '{', "'{'"));
    while (lx->tok.kind != '}') {
        dv_tile_loop *l =
            DV_PUSH(&plan->arena, dv_tile_loop, t->loops, t->n_loops, cap);
        if (!l)
            return dv_nomem(lx->diag);
        *l = (dv_tile_loop){0};
        DV_TRY(read_loop(lx, o, l));
        if (lx->tok.kind == ',')
            DV_TRY(dv_lex(lx));
    }
    DV_TRY(dv_lex(lx));
    while (any)
        DV_TRY(read_choice(lx, t, &any));
    return DV_OK;
}
