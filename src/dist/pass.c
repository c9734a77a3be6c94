// The dist pass creates, verifies, prints and reads its section of the plan.
//
//   dist {
//       grid [2, 2] rank 1
//       u: cut [0, 1]              # dim 0 by axis 0, dim 1 by axis 1
//       m: cut [1]
//       follow 1 i: 0 0            # op 1 reduces over the i for which this
//                                  # rank owns dim 0 of its read 0
//       exchange 0 u {             # messages before op 0
//           from 0: [0..256, 255..256]
//           to 0: [0..256, 256..257]
//       }
//   }
#include "base/math.h"
#include "base/plural.h"
#include "dist/dist.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int dv_team_wanted(const dv_pass_cx *cx, const dv_plan *plan)
{
    return cx->options->team > 0 || cx->options->grid != NULL ||
           plan->team.n_axes > 0;
}

// Parses a grid such as "2x3" into its axes.
static dv_status read_grid(dv_plan_team *t, const char *text, dv_diag *diag)
{
    const char *s = text;
    int64_t size = 1;
    t->n_axes = 0;
    for (;; s++) {
        char *end;
        long long n = s[0] >= '1' && s[0] <= '9' ? strtoll(s, &end, 10) : 0;
        if (n < 1 || t->n_axes == DV_MAX_AXES ||
            !dv_mul_i64(&size, size, (int64_t)n) || size > INT32_MAX)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "a grid is 1 to %d numbers like 2x3, not '%s'",
                           DV_MAX_AXES, text);
        t->grid[t->n_axes++] = n;
        s = end;
        if (!*s)
            return DV_OK;
        if (*s != 'x')
            n = 0, s = "-"; // '-' is no digit: the next iteration fails
    }
}

static dv_status choose_grid(dv_pass_cx *cx, dv_plan *plan, dv_plan_team *t,
                             const dv_dim_classes *a)
{
    const dv_plan_options *o = cx->options;
    int64_t size = o->team;
    if (o->grid)
        DV_TRY(read_grid(t, o->grid, cx->diag));
    else if (size == 0) // no team size was requested: keep the plan's grid
        t->n_axes = plan->team.n_axes,
        memcpy(t->grid, plan->team.grid, sizeof t->grid);
    else if (size > INT32_MAX)
        return dv_fail(cx->diag, DV_E_LIMIT, DV_NOWHERE,
                       "a team of %" PRId64 ": at most %d are possible", size,
                       (int)INT32_MAX);
    else
        DV_TRY(dv_team_grid(t, a, plan->ops, size, cx->diag));
    if (size > 0 && dv_plan_team_size(t) != size)
        return dv_fail(cx->diag, DV_E_USAGE, DV_NOWHERE,
                       "the grid %s has %" PRId64
                       " rank%s, the team has %" PRId64,
                       o->grid, dv_plan_team_size(t),
                       DV_PLURAL(dv_plan_team_size(t), "", "s"), size);
    t->rank = size == 0 && !o->grid ? plan->team.rank : o->rank;
    if (t->rank < 0 || t->rank >= dv_plan_team_size(t))
        return dv_fail(cx->diag, DV_E_USAGE, DV_NOWHERE,
                       "there is no rank %" PRId64 " in a team of %" PRId64,
                       t->rank, dv_plan_team_size(t));
    return DV_OK;
}

static dv_status make_team(dv_pass_cx *cx, dv_plan *plan, dv_arena *arena)
{
    dv_plan_team t = {0};
    dv_dim_classes *a;
    DV_TRY(dv_dim_classes_create(&a, plan->ops, arena, cx->diag));
    DV_TRY(choose_grid(cx, plan, &t, a));
    DV_TRY(dv_team_choose(&t, a, plan->ops, 0, &plan->arena, cx->diag));
    DV_TRY(dv_team_exchanges(&t, plan->ops, &plan->arena, cx->diag));
    plan->team = t;
    return DV_OK;
}

dv_status dv_dist_run(dv_pass_cx *cx, dv_plan *plan)
{
    dv_arena arena = {0};
    dv_status st = make_team(cx, plan, &arena);
    dv_arena_free(&arena);
    return st;
}

dv_status dv_dist_verify(const dv_plan *plan, dv_diag *diag)
{
    const dv_plan_team *t = &plan->team;
    for (int32_t i = 0; i < plan->ops->n_tensors; i++)
        DV_TRY(dv_dist_check(&t->tensors[i], diag));
    return DV_OK;
}

static void print_pieces(dv_text *out, const char *word, const dv_piece *l,
                         int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        dv_put(out, "        %s %" PRId64 ": [", word, l[i].rank);
        for (int d = 0; d < l[i].box.n_dims; d++)
            dv_put(out, "%s%" PRId64 "..%" PRId64, d ? ", " : "",
                   l[i].box.dim[d].off,
                   l[i].box.dim[d].off + l[i].box.dim[d].size);
        dv_put(out, "]\n");
    }
}

static void print_exchange(dv_text *out, const dv_program *p,
                           const dv_op_exchange *s)
{
    dv_put(out, "    exchange %d %s", (int)s->op, p->tensors[s->tensor].name);
    if (s->repeat >= 0)
        dv_put(out, " repeat %d", (int)s->repeat);
    for (int32_t i = 0; i < s->n_prior; i++)
        dv_put(out, "%s %d", i ? "," : " after", (int)s->prior[i]);
    dv_put(out, " {\n");
    print_pieces(out, "from", s->receives, s->n_receives);
    print_pieces(out, "to", s->sends, s->n_sends);
    dv_put(out, "    }\n");
}

static void print_products(dv_text *out, const dv_plan *plan)
{
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        int64_t bytes;
        double bound;
        if (dv_team_product(plan, i, &bytes, &bound))
            dv_put(out,
                   "    # %s: %" PRId64 " bytes of operands come, a product "
                   "this large needs %.0f\n",
                   plan->ops->ops[i].name, bytes, bound);
    }
}

void dv_dist_print(dv_text *out, const dv_plan *plan)
{
    const dv_plan_team *t = &plan->team;
    const dv_program *p = plan->ops;
    dv_put(out, "dist {\n    grid [");
    for (int a = 0; a < t->n_axes; a++)
        dv_put(out, "%s%" PRId64, a ? ", " : "", t->grid[a]);
    dv_put(out, "] rank %" PRId64 "\n", t->rank);
    for (int32_t i = 0; i < p->n_tensors; i++) {
        const dv_dist *d = &t->tensors[i];
        dv_box own = dv_dist_own(d, t->rank);
        dv_put(out, "    %s: cut [", p->tensors[i].name);
        for (int k = 0; k < d->n_dims; k++) {
            dv_put(out, "%s", k ? ", " : "");
            if (d->axis[k] < 0)
                dv_put(out, "-");
            else
                dv_put(out, "%d", d->axis[k]);
        }
        dv_put(out, "]%s", d->n_dims ? " # owns" : "");
        for (int k = 0; k < d->n_dims; k++)
            dv_put(out, "%s %" PRId64 "..%" PRId64, k ? "," : "",
                   own.dim[k].off, own.dim[k].off + own.dim[k].size);
        dv_put(out, "\n");
    }
    for (int32_t i = 0; i < t->n_follows; i++) {
        const dv_split_reduction *f = &t->follows[i];
        dv_put(out, "    follow %d %s: %d %d # parts of %s are combined\n",
               (int)f->op, p->ops[f->op].vars[f->var].name, (int)f->read,
               (int)f->dim, p->ops[f->op].name);
    }
    for (int32_t i = 0; i < t->n_op_exchanges; i++)
        print_exchange(out, p, &t->op_exchanges[i]);
    if (dv_plan_team_size(t) > 1)
        print_products(out, plan);
    dv_put(out, "}\n");
}

typedef struct reader {
    dv_plan *plan;
    dv_lexer *lx;
    dv_plan_team *t;
    int32_t cap_follows, cap_exchanges;
} reader;

static dv_status wrong(const reader *r, const char *what)
{
    return dv_fail(r->lx->diag, DV_E_SYNTAX, dv_lex_at(r->lx), "%s", what);
}

// Reads an integer in 0..end-1; `what` names it in an error message.
static dv_status number(reader *r, int64_t end, const char *what, int64_t *out)
{
    dv_loc at = dv_lex_at(r->lx);
    DV_TRY(dv_lex_int(r->lx, out, what));
    if (*out >= 0 && *out < end)
        return DV_OK;
    return dv_fail(r->lx->diag, DV_E_SHAPE, at,
                   "%" PRId64 " is not %s: there are %" PRId64, *out, what,
                   end);
}

static dv_status tensor(reader *r, int32_t *out)
{
    const dv_token *k = &r->lx->tok;
    *out = k->kind == DV_TOK_NAME
               ? dv_table_get(&r->plan->ops->tensor_ids,
                              r->lx->src->text + k->off, k->len, -1)
               : -1;
    if (*out < 0)
        return dv_fail(r->lx->diag, DV_E_NAME, dv_lex_at(r->lx),
                       "the program has no such tensor");
    return dv_lex(r->lx);
}

static dv_status read_head(reader *r)
{
    int64_t size = 1;
    DV_TRY(dv_lex_word(r->lx, "grid"));
    DV_TRY(dv_lex_expect(r->lx, '[', "'['"));
    while (r->lx->tok.kind != ']') {
        if (r->t->n_axes)
            DV_TRY(dv_lex_expect(r->lx, ',', "','"));
        if (r->t->n_axes == DV_MAX_AXES)
            return wrong(r, "a grid has at most 4 axes");
        int64_t *n = &r->t->grid[r->t->n_axes++];
        DV_TRY(number(r, (int64_t)INT32_MAX + 1, "a number of ranks", n));
        if (*n < 1 || !dv_mul_i64(&size, size, *n) || size > INT32_MAX)
            return wrong(r, "a grid has 1 to 2^31 - 1 ranks");
    }
    if (r->t->n_axes == 0)
        return wrong(r, "a grid has at least one axis");
    DV_TRY(dv_lex(r->lx));
    DV_TRY(dv_lex_word(r->lx, "rank"));
    return number(r, size, "a rank", &r->t->rank);
}

static dv_status read_cut(reader *r)
{
    int32_t i;
    DV_TRY(tensor(r, &i));
    const dv_tensor *x = &r->plan->ops->tensors[i];
    dv_dist *d = &r->t->tensors[i];
    if (d->n_axes)
        return wrong(r, "a second cut of one tensor");
    d->n_axes = r->t->n_axes;
    d->n_dims = x->n_dims;
    memcpy(d->grid, r->t->grid, sizeof d->grid);
    DV_TRY(dv_lex_expect(r->lx, ':', "':'"));
    DV_TRY(dv_lex_word(r->lx, "cut"));
    DV_TRY(dv_lex_expect(r->lx, '[', "'['"));
    for (int k = 0; k < x->n_dims; k++) {
        int64_t axis = -1;
        if (k)
            DV_TRY(dv_lex_expect(r->lx, ',', "','"));
        if (r->lx->tok.kind == '-')
            DV_TRY(dv_lex(r->lx));
        else
            DV_TRY(number(r, d->n_axes, "an axis", &axis));
        d->axis[k] = (int)axis;
        d->shape[k] = x->shape[k];
    }
    return dv_lex_expect(r->lx, ']', "']'");
}

static dv_status read_follow(reader *r)
{
    const dv_program *p = r->plan->ops;
    uint32_t off = r->lx->tok.off;
    int64_t op, read, dim;
    int32_t var = -1;
    DV_TRY(dv_lex(r->lx));
    DV_TRY(number(r, p->n_ops, "an op", &op));
    for (int v = 0; v < p->ops[op].n_vars; v++)
        if (dv_lex_is(r->lx, p->ops[op].vars[v].name))
            var = v;
    if (var < 0 || !p->ops[op].vars[var].reduce)
        return wrong(r, "the op reduces over no such variable");
    DV_TRY(dv_lex(r->lx));
    DV_TRY(dv_lex_expect(r->lx, ':', "':'"));
    DV_TRY(number(r, p->ops[op].n_reads, "a read", &read));
    DV_TRY(number(r, p->ops[op].reads[read].n_dims, "a dim", &dim));
    dv_split_reduction *f =
        DV_PUSH(&r->plan->arena, dv_split_reduction, r->t->follows,
                r->t->n_follows, r->cap_follows);
    if (!f)
        return dv_nomem(r->lx->diag);
    *f = (dv_split_reduction){(int32_t)op, var, (int32_t)read, (int32_t)dim,
                              off};
    return DV_OK;
}

static dv_status read_piece(reader *r, dv_pieces *l, int n_dims)
{
    dv_piece *p = DV_PUSH(&r->plan->arena, dv_piece, l->at, l->n, l->cap);
    if (!p)
        return dv_nomem(r->lx->diag);
    memset(p, 0, sizeof *p);
    p->box.n_dims = n_dims;
    DV_TRY(dv_lex(r->lx));
    DV_TRY(number(r, dv_plan_team_size(r->t), "a rank", &p->rank));
    DV_TRY(dv_lex_expect(r->lx, ':', "':'"));
    DV_TRY(dv_lex_expect(r->lx, '[', "'['"));
    for (int d = 0; d < n_dims; d++) {
        int64_t begin, end;
        if (d)
            DV_TRY(dv_lex_expect(r->lx, ',', "','"));
        DV_TRY(dv_lex_int(r->lx, &begin, "a number"));
        DV_TRY(dv_lex_expect(r->lx, DV_TOK_RANGE, "'..'"));
        DV_TRY(dv_lex_int(r->lx, &end, "a number"));
        if (begin < 0 || begin >= end)
            return wrong(r, "a message has elements");
        p->box.dim[d] = (dv_range){begin, end - begin};
    }
    return dv_lex_expect(r->lx, ']', "']'");
}

static dv_status read_prior(reader *r, dv_op_exchange *s)
{
    int32_t cap = 0;
    int64_t n;
    do {
        DV_TRY(dv_lex(r->lx));
        DV_TRY(number(r, r->plan->ops->n_ops, "an op", &n));
        int32_t *op =
            DV_PUSH(&r->plan->arena, int32_t, s->prior, s->n_prior, cap);
        if (!op)
            return dv_nomem(r->lx->diag);
        *op = (int32_t)n;
    } while (r->lx->tok.kind == ',');
    return DV_OK;
}

static dv_status read_exchange(reader *r)
{
    const dv_program *p = r->plan->ops;
    dv_op_exchange s = {.repeat = -1, .off = r->lx->tok.off};
    dv_pieces in = {0}, out = {0};
    int64_t n;
    DV_TRY(dv_lex(r->lx));
    DV_TRY(number(r, p->n_ops, "an op", &n));
    s.op = (int32_t)n;
    DV_TRY(tensor(r, &s.tensor));
    if (dv_lex_is(r->lx, "repeat")) {
        DV_TRY(dv_lex(r->lx));
        DV_TRY(number(r, p->n_repeats, "a repeat", &n));
        s.repeat = (int32_t)n;
    }
    if (dv_lex_is(r->lx, "after"))
        DV_TRY(read_prior(r, &s));
    DV_TRY(dv_lex_expect(r->lx, '{', "'{'"));
    while (dv_lex_is(r->lx, "from") || dv_lex_is(r->lx, "to"))
        DV_TRY(read_piece(r, dv_lex_is(r->lx, "from") ? &in : &out,
                          p->tensors[s.tensor].n_dims));
    DV_TRY(dv_lex_expect(r->lx, '}', "'from', 'to' or '}'"));
    // The text may list messages in any order; sort them into the order of
    // dv_team_messages, in which ranks pack and unpack boxes.
    dv_pieces_sort(&in);
    dv_pieces_sort(&out);
    s.receives = in.at, s.n_receives = in.n;
    s.sends = out.at, s.n_sends = out.n;
    dv_op_exchange *room =
        DV_PUSH(&r->plan->arena, dv_op_exchange, r->t->op_exchanges,
                r->t->n_op_exchanges, r->cap_exchanges);
    if (!room)
        return dv_nomem(r->lx->diag);
    *room = s;
    return DV_OK;
}

// `follow` and `exchange` may also be tensor names; as keywords they are
// followed by an integer, as names by a colon.
static int is_item(const reader *r, const char *word)
{
    return dv_lex_is(r->lx, word) && dv_lex_peek(r->lx).kind == DV_TOK_INT;
}

dv_status dv_dist_read(dv_plan *plan, dv_lexer *lx)
{
    const dv_program *p = plan->ops;
    dv_plan_team t = {0};
    reader r = {.plan = plan, .lx = lx, .t = &t};
    t.tensors = DV_NEW(&plan->arena, dv_dist, p->n_tensors);
    if (!t.tensors)
        return dv_nomem(lx->diag);
    DV_TRY(dv_lex_expect(lx, '{', "'{'"));
    DV_TRY(read_head(&r));
    while (lx->tok.kind == DV_TOK_NAME)
        DV_TRY(is_item(&r, "follow")     ? read_follow(&r)
               : is_item(&r, "exchange") ? read_exchange(&r)
                                         : read_cut(&r));
    DV_TRY(dv_lex_expect(lx, '}', "a tensor, 'follow', 'exchange' or '}'"));
    for (int32_t i = 0; i < p->n_tensors; i++)
        if (t.tensors[i].n_axes == 0)
            return dv_fail(lx->diag, DV_E_SHAPE, dv_lex_at(lx),
                           "it is not said how %s is cut", p->tensors[i].name);
    plan->team = t;
    return dv_dist_verify(plan, lx->diag);
}
