#include "ir/infer.h"
#include "base/math.h"
#include "base/plural.h"
#include <inttypes.h>
#include <string.h>

// A linear function of one param, (a * param + b) / d, with d > 0; a is 0 if it
// is constant.
typedef struct linear {
    int64_t a, b, d;
    int32_t param;
} linear;

typedef struct finder {
    const dv_program *p;
    int64_t *values;
    uint8_t *known;
} finder;

static const dv_stmt *statement_of(const dv_program *p, dv_stmt_kind kind,
                                   dv_str name)
{
    for (const dv_stmt *s = p->ast.first; s; s = s->next)
        if (s->kind == kind && dv_str_eq(s->name, name))
            return s;
    return NULL;
}

static int32_t param_named(const dv_program *p, dv_str name)
{
    for (int32_t i = 0; i < p->n_params; i++)
        if (dv_str_is(name, p->params[i].name))
            return i;
    return -1;
}

// Sets *out to x + sign * y. Returns 0 if the sum depends on two params or
// overflows.
static int add(linear *out, linear x, linear y, int sign)
{
    int64_t xb, yb, xa, ya;
    if (x.a && y.a && x.param != y.param)
        return 0;
    out->param = x.a ? x.param : y.param;
    return dv_mul_i64(&out->d, x.d, y.d) && dv_mul_i64(&xa, x.a, y.d) &&
           dv_mul_i64(&ya, y.a, sign * x.d) && dv_mul_i64(&xb, x.b, y.d) &&
           dv_mul_i64(&yb, y.b, sign * x.d) && dv_add_i64(&out->a, xa, ya) &&
           dv_add_i64(&out->b, xb, yb);
}

static int multiply(linear *out, linear x, linear y)
{
    if (y.a) {
        linear swapped = x;
        x = y;
        y = swapped;
    }
    out->param = x.param;
    return !y.a && dv_mul_i64(&out->a, x.a, y.b) &&
           dv_mul_i64(&out->b, x.b, y.b) && dv_mul_i64(&out->d, x.d, y.d);
}

static int invert(linear *x)
{
    if (x->a || x->b == 0 || x->b == INT64_MIN)
        return 0;
    int64_t d = x->d;
    x->d = x->b < 0 ? -x->b : x->b;
    x->b = x->b < 0 ? -d : d;
    return 1;
}

// Writes the expression as a linear function of one unknown param. Returns 0 if
// it has no such form.
static int find_linear(const finder *f, const dv_node *n, linear *out)
{
    linear x, y;
    if (n->kind == DV_NODE_INT) {
        *out = (linear){0, n->i, 1, -1};
        return 1;
    }
    if (n->kind == DV_NODE_NAME) {
        int32_t i = param_named(f->p, n->name);
        const dv_stmt *s = statement_of(f->p, DV_STMT_PARAM, n->name);
        if (i < 0 || !s || f->p->params[i].is_float)
            return 0;
        if (!f->known[i] && s->value->kind != DV_NODE_INT)
            return find_linear(f, s->value, out); // of other params
        *out = f->known[i] ? (linear){0, f->values[i], 1, -1}
                           : (linear){1, 0, 1, i};
        return 1;
    }
    if (n->kind != DV_NODE_APPLY || !find_linear(f, n->args[0], &x))
        return 0;
    if (n->op == DV_FN_NEG)
        return add(out, (linear){0, 0, 1, -1}, x, -1);
    if (n->op < DV_FN_ADD || n->op > DV_FN_DIV ||
        !find_linear(f, n->args[1], &y))
        return 0;
    if (n->op == DV_FN_ADD || n->op == DV_FN_SUB)
        return add(out, x, y, n->op == DV_FN_ADD ? 1 : -1);
    return n->op == DV_FN_MUL ? multiply(out, x, y)
                              : invert(&y) && multiply(out, x, y);
}

// If dim d of an input is a linear function of one param, solves it for the
// param. Sets *found if the param was unknown before.
static dv_status solve(const finder *f, const dv_stmt *s,
                       const dv_input_shape *shape, int d, int *found,
                       dv_diag *diag)
{
    linear x;
    int64_t n;
    if (!find_linear(f, s->dims[d], &x) || x.a == 0 ||
        !dv_mul_i64(&n, shape->shape[d], x.d) || !dv_sub_i64(&n, n, x.b))
        return DV_OK;
    if (n % x.a)
        return dv_fail(
            diag, DV_E_SHAPE, (dv_loc){&f->p->src, s->dims[d]->off},
            "dim %d of %s is %" PRId64 ", which no whole number %s gives", d,
            shape->name, shape->shape[d], f->p->params[x.param].name);
    f->values[x.param] = n / x.a;
    f->known[x.param] = 1;
    *found = 1;
    return DV_OK;
}

static dv_status look_at(const finder *f, const dv_input_shape *shape,
                         int *found, dv_diag *diag)
{
    dv_str name = {shape->name, (uint32_t)strlen(shape->name)};
    const dv_stmt *s = statement_of(f->p, DV_STMT_INPUT, name);
    if (!s)
        s = statement_of(f->p, DV_STMT_CONST, name);
    if (!s)
        return DV_OK;
    if (s->n_dims != shape->n_dims)
        return dv_fail(diag, DV_E_SHAPE, (dv_loc){&f->p->src, s->off},
                       "%s has %d dim%s, the array has %d", shape->name,
                       (int)s->n_dims, DV_PLURAL(s->n_dims, "", "s"),
                       shape->n_dims);
    for (int d = 0; d < s->n_dims; d++)
        DV_TRY(solve(f, s, shape, d, found, diag));
    return DV_OK;
}

dv_status dv_infer_params(const dv_program *p, const dv_input_shape *shapes,
                          size_t n_shapes, int64_t *values, uint8_t *known,
                          dv_diag *diag)
{
    const finder f = {p, values, known};
    int found = 1;
    // Repeat while values are found: a dim that depends on two params can be
    // solved once one of them is known.
    while (found) {
        found = 0;
        for (size_t i = 0; i < n_shapes; i++)
            DV_TRY(look_at(&f, &shapes[i], &found, diag));
    }
    return DV_OK;
}
