// Pass layout: chooses how every tensor is stored in the target's memory.
//
//   layout {
//       x: size [16, 512, 64] stride [64, 1024, 1] stick 1
//       m: size [16, 64] stride [64, 1] stick 0
//       s: size [1, 512, 64] stride [-1, 1, -1] sparse
//   }
//
// Inputs have their sticks along the innermost dim. Stick dims of other tensors
// are chosen as described in layout/stick.h; the copies that this requires are
// inserted into the plan's program.
#include "base/math.h"
#include "base/plural.h"
#include "layout/stick.h"
#include <inttypes.h>
#include <string.h>

static dv_status make(dv_plan *plan, int32_t tensor, int stick, dv_diag *diag)
{
    const dv_tensor *t = &plan->ops->tensors[tensor];
    if (dv_stick_layout(&plan->layouts[tensor], &plan->target, t, stick))
        return DV_OK;
    return dv_fail(diag, DV_E_OVERFLOW, (dv_loc){&plan->ops->src, t->off},
                   "%s has more than 2^63 - 1 bytes as %s stores it", t->name,
                   plan->target.name);
}

static dv_status lay_out(dv_plan *plan, dv_arena *scratch, dv_diag *diag)
{
    dv_program *p = plan->ops;
    dv_sticks sticks = {.exact = 1};
    int choose = plan->target.sticks && !plan->target.tile_rows;
    if (choose) {
        DV_TRY(dv_sticks_choose(&sticks, p, &plan->target, scratch, diag));
        DV_TRY(dv_sticks_insert(p, &sticks, diag));
        if (sticks.old_ops &&
            !dv_plan_renumber_team_ops(plan, sticks.old_ops, p->n_ops))
            return dv_nomem(diag);
    }
    plan->sticks_exact = sticks.exact;
    plan->layouts = DV_NEW(&plan->arena, dv_layout, p->n_tensors);
    if (!plan->layouts)
        return dv_nomem(diag);
    for (int32_t i = 0; i < p->n_tensors; i++)
        DV_TRY(make(plan, i, choose ? sticks.stick[i] : DV_STICK_ANY, diag));
    return DV_OK;
}

dv_status dv_layout_run(dv_pass_cx *cx, dv_plan *plan)
{
    dv_arena scratch = {0};
    dv_status st = lay_out(plan, &scratch, cx->diag);
    dv_arena_free(&scratch);
    return st;
}

// A dim of the tensor may be stored as several dims of the layout. Returns
// whether their strides are consistent and together they cover its extent
// (invariants L1 and L2 of layout.h).
static int covers(const dv_layout *l, const dv_tensor *t, int32_t host)
{
    int64_t block = 1, stride = 1;
    int seen = 0;
    for (int32_t d = t->n_dims - 1; d > host; d--)
        stride *= t->shape[d];
    for (int32_t i = l->n_dims - 1; i >= 0; i--) {
        if (l->host[i] != host)
            continue;
        if (t->shape[host] > 1 && l->stride[i] != stride * block)
            return 0;
        if (!dv_mul_i64(&block, block, l->size[i]))
            return 0;
        seen = 1;
    }
    return seen && block >= t->shape[host];
}

dv_status dv_layout_verify(const dv_plan *plan, dv_diag *diag)
{
    const dv_program *p = plan->ops;
    for (int32_t i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        const dv_layout *l = &plan->layouts[i];
        int64_t elems = 1, bytes;
        int fits = 1;
        for (int32_t d = 0; d < l->n_dims; d++)
            fits =
                fits && l->size[d] > 0 && dv_mul_i64(&elems, elems, l->size[d]);
        for (int32_t d = 0; d < t->n_dims && fits; d++)
            fits = covers(l, t, d);
        if (!fits || elems != l->n_elems ||
            !dv_mul_i64(&bytes, elems, l->elem_bytes) || bytes != l->bytes)
            return dv_fail(diag, DV_E_CHECK, DV_NOWHERE,
                           "the layout of %s does not hold its elements",
                           t->name);
    }
    return DV_OK;
}

static void print_list(dv_text *out, const char *word, const int64_t *v, int n)
{
    dv_put(out, " %s [", word);
    for (int i = 0; i < n; i++)
        dv_put(out, "%s%" PRId64, i ? ", " : "", v[i]);
    dv_put(out, "]");
}

void dv_layout_print(dv_text *out, const dv_plan *plan)
{
    dv_put(out, "layout {\n");
    for (int32_t i = 0; i < plan->ops->n_tensors; i++) {
        const dv_layout *l = &plan->layouts[i];
        dv_put(out, "    %s:", plan->ops->tensors[i].name);
        print_list(out, "size", l->size, l->n_dims);
        print_list(out, "stride", l->stride, l->n_dims);
        if (l->sparse)
            dv_put(out, " sparse");
        else if (l->stick_dim >= 0)
            dv_put(out, " stick %d", (int)l->stick_dim);
        dv_put(out, "\n");
    }
    dv_put(out, "}\n");
}

static dv_status read_list(dv_lexer *lx, const char *word, int64_t *out, int *n)
{
    *n = 0;
    DV_TRY(dv_lex_word(lx, word));
    DV_TRY(dv_lex_expect(lx, '[', "'['"));
    while (lx->tok.kind != ']') {
        if (*n)
            DV_TRY(dv_lex_expect(lx, ',', "','"));
        int negative = lx->tok.kind == '-';
        if (negative)
            DV_TRY(dv_lex(lx));
        if (*n == DV_MAX_DEVICE_DIMS)
            return dv_fail(lx->diag, DV_E_LIMIT, dv_lex_at(lx),
                           "a layout has at most %d dims",
                           (int)DV_MAX_DEVICE_DIMS);
        DV_TRY(dv_lex_int(lx, &out[*n], "a number"));
        out[*n] = negative ? -out[*n] : out[*n];
        ++*n;
    }
    return dv_lex(lx);
}

// Returns whether a layout equals the one that was parsed.
static int is_layout(const dv_layout *l, const dv_layout *want)
{
    size_t bytes = (size_t)l->n_dims * sizeof *l->size;
    return want->n_dims == l->n_dims && want->stick_dim == l->stick_dim &&
           !memcmp(want->size, l->size, bytes) &&
           !memcmp(want->stride, l->stride, bytes);
}

// Parses the layout of one tensor. Only layouts that this target can make are
// accepted.
static dv_status read_one(dv_plan *plan, dv_lexer *lx, int32_t tensor)
{
    const dv_tensor *t = &plan->ops->tensors[tensor];
    dv_layout want = {0};
    int64_t stick = -1;
    int n, m, sparse = 0;
    dv_loc at = dv_lex_at(lx);
    DV_TRY(read_list(lx, "size", want.size, &n));
    DV_TRY(read_list(lx, "stride", want.stride, &m));
    if (dv_lex_is(lx, "sparse")) {
        sparse = 1;
        DV_TRY(dv_lex(lx));
    } else if (dv_lex_is(lx, "stick")) {
        DV_TRY(dv_lex(lx));
        DV_TRY(dv_lex_int(lx, &stick, "the number of a dim"));
    }
    if (stick >= t->n_dims)
        return dv_fail(lx->diag, DV_E_SHAPE, at, "%s has %d dim%s", t->name,
                       (int)t->n_dims, DV_PLURAL(t->n_dims, "", "s"));
    int along = sparse ? DV_STICK_NONE : stick >= 0 ? (int)stick : DV_STICK_ANY;
    want.n_dims = n == m ? n : 0;
    want.stick_dim = (int32_t)stick;
    DV_TRY(make(plan, tensor, along, lx->diag));
    // Layouts of large tensors may have their dims in either order, so try
    // both.
    dv_layout *l = &plan->layouts[tensor];
    for (int outer_first = 0; outer_first < 2 && !is_layout(l, &want);
         outer_first++)
        dv_stick_layout_in_order(l, &plan->target, t, along, outer_first);
    if (!is_layout(l, &want))
        return dv_fail(lx->diag, DV_E_SHAPE, at,
                       "this is no layout of %s on %s", t->name,
                       plan->target.name);
    return DV_OK;
}

dv_status dv_layout_read(dv_plan *plan, dv_lexer *lx)
{
    const dv_program *p = plan->ops;
    plan->layouts = DV_NEW(&plan->arena, dv_layout, p->n_tensors);
    if (!plan->layouts)
        return dv_nomem(lx->diag);
    DV_TRY(dv_lex_expect(lx, '{', "'{'"));
    while (lx->tok.kind == DV_TOK_NAME) {
        int32_t tensor = dv_table_get(
            &p->tensor_ids, lx->src->text + lx->tok.off, lx->tok.len, -1);
        if (tensor < 0)
            return dv_fail(lx->diag, DV_E_NAME, dv_lex_at(lx),
                           "the program has no such tensor");
        DV_TRY(dv_lex(lx));
        DV_TRY(dv_lex_expect(lx, ':', "':'"));
        DV_TRY(read_one(plan, lx, tensor));
    }
    for (int32_t i = 0; i < p->n_tensors; i++)
        if (plan->layouts[i].n_elems == 0)
            return dv_fail(lx->diag, DV_E_SHAPE, dv_lex_at(lx),
                           "%s has no layout", p->tensors[i].name);
    DV_TRY(dv_lex_expect(lx, '}', "a tensor or '}'"));
    return dv_layout_verify(plan, lx->diag);
}
