// Matrix products: MatMul, Gemm, Einsum and the integer products.
#include "base/dtype.h"
#include "base/plural.h"
#include "onnx/import.h"
#include <string.h>

// Makes a vector a matrix: as left factor it gets a leading dim of size 1, as
// right factor a trailing one.
static dv_status as_matrix(dv_on *cx, dv_on_value **v, int is_left)
{
    if ((*v)->n_dims != 1)
        return DV_OK;
    int64_t n = (*v)->dims[0], dims[] = {is_left ? 1 : n, is_left ? n : 1};
    dv_on_value *view = dv_on_temp(cx, (*v)->name);
    if (!view)
        return DV_E_NOMEM;
    DV_TRY(dv_on_reshape(cx, view, *v, 2, dims));
    *v = view;
    return DV_OK;
}

// A factor of a product of integers, with its zero point z or y. Kernels
// multiply i8, so 128 is subtracted from a factor of u8 and from its zero
// point. Zero points are applied to sums instead of to elements:
//
//   sum (a - z) (b - y)  =  sum a b - y (sum a - K z) - z sum b
typedef struct factor {
    dv_on_value *x;    // i8
    dv_on_value *zero; // i32; NULL: the number `constant`
    int constant;
    dv_on_value *sums; // of x over k
    int axes[DV_MAX_DIMS], sum_axes[DV_MAX_DIMS], zero_axes[1];
} factor;

static int has_zero(const factor *f)
{
    return f->zero || f->constant;
}

// Replaces *v by a new value of type `to`: the elements of *v minus `by`.
static dv_status lower(dv_on *cx, dv_on_value **v, dv_dtype to, int by)
{
    int axes[DV_MAX_DIMS];
    dv_on_loop l;
    dv_on_value *x = *v;
    *v = dv_on_temp(cx, x->name);
    if (!*v)
        return DV_E_NOMEM;
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, x, axes));
    dv_on_start(&l);
    l.typed = 1;
    dv_term t = dv_on_read(&l, x, axes);
    return dv_on_define(&l, *v, to, 0, x->n_dims, axes,
                        dv_on_2(cx, "-", t, dv_on_i(cx, by)));
}

// Replaces a zero point by a number if it is known and the same for all
// elements: if that is 0, the sums that correct for it are not needed.
static dv_status find_constant(dv_on *cx, dv_on_value **zero, int *constant)
{
    const double *zeros;
    int n, same = 1;
    if (!*zero || !dv_on_known(*zero) || dv_on_count(*zero) > DV_ON_MAX_FOLD)
        return DV_OK;
    DV_TRY(dv_on_get_floats(cx, *zero, "zero_point", &zeros, &n));
    for (int i = 1; i < n; i++)
        same &= zeros[i] == zeros[0];
    if (!same || !n)
        return DV_OK;
    *constant = (int)zeros[0];
    *zero = NULL;
    return DV_OK;
}

dv_status dv_on_make_signed(dv_on *cx, dv_on_value **x, dv_on_value **zero,
                            int *constant)
{
    DV_TRY(find_constant(cx, zero, constant));
    if ((*x)->dtype == DV_I8)
        return DV_OK;
    if (*zero)
        DV_TRY(lower(cx, zero, DV_I32, 128));
    else
        *constant -= 128;
    return lower(cx, x, DV_I8, 128);
}

// Defines f->sums: the sums of f->x over dim k, which becomes a dim of size 1.
static dv_status sum_over(dv_on *cx, factor *f, int k)
{
    int axes[DV_MAX_DIMS], kept[DV_MAX_DIMS];
    dv_on_loop l;
    f->sums = dv_on_temp(cx, "sums");
    if (!f->sums)
        return DV_E_NOMEM;
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, f->x, axes));
    dv_on_start(&l);
    memcpy(kept, axes, sizeof kept);
    kept[k] = -1;
    dv_term t =
        dv_on_reduce(&l, "sum", dv_on_read(&l, f->x, axes), 1, &axes[k]);
    return dv_on_define(&l, f->sums, DV_I32, 0, f->x->n_dims, kept, t);
}

// Prepares the integer factors of a product, a of dims [.., m, k] and b of [..,
// k, n].
static dv_status prepare_integers(dv_on *cx, factor *a, factor *b)
{
    DV_TRY(dv_on_make_signed(cx, &a->x, &a->zero, &a->constant));
    DV_TRY(dv_on_make_signed(cx, &b->x, &b->zero, &b->constant));
    if (has_zero(b))
        DV_TRY(sum_over(cx, a, a->x->n_dims - 1));
    return has_zero(a) ? sum_over(cx, b, b->x->n_dims - 2) : DV_OK;
}

static dv_status use_factor(dv_on_loop *l, factor *f, int k)
{
    for (int d = 0; d < f->x->n_dims; d++)
        f->sum_axes[d] = f->axes[d] == k ? -1 : f->axes[d];
    DV_TRY(dv_on_use(l, f->x, f->axes));
    if (f->sums)
        DV_TRY(dv_on_use(l, f->sums, f->sum_axes));
    return f->zero && f->zero->n_dims ? dv_on_use(l, f->zero, f->zero_axes)
                                      : DV_OK;
}

static dv_term zero_of(dv_on_loop *l, factor *f)
{
    return f->zero ? dv_on_read(l, f->zero, f->zero_axes)
                   : dv_on_i(l->cx, f->constant);
}

// Corrects a sum of n products for the zero points of the factors a and b.
static dv_term minus_zeros(dv_on_loop *l, dv_term sum, factor *a, factor *b,
                           int64_t n)
{
    dv_on *cx = l->cx;
    if (has_zero(b)) {
        dv_term s = dv_on_read(l, a->sums, a->sum_axes);
        if (has_zero(a))
            s = dv_on_2(cx, "-", s,
                        dv_on_2(cx, "*", zero_of(l, a), dv_on_i(cx, n)));
        sum = dv_on_2(cx, "-", sum, dv_on_2(cx, "*", zero_of(l, b), s));
    }
    if (has_zero(a)) {
        dv_term s = dv_on_read(l, b->sums, b->sum_axes);
        sum = dv_on_2(cx, "-", sum, dv_on_2(cx, "*", zero_of(l, a), s));
    }
    return sum;
}

int dv_on_is_byte(const dv_on_value *v)
{
    return !dv_is_float(v->dtype) && dv_dtype_get(v->dtype)->size_bytes == 1;
}

dv_status dv_on_product(dv_on *cx, dv_on_value *out, dv_on_value *a,
                        dv_on_value *b, dv_dtype t, dv_on_value *a_zero,
                        dv_on_value *b_zero)
{
    int n, cx_axes[DV_MAX_DIMS], a_was = a->n_dims, b_was = b->n_dims;
    if (!a_was || !b_was)
        return dv_on_refuse(cx, "an operand is a scalar");
    if ((a_zero && a_zero->n_dims > 1) || (b_zero && b_zero->n_dims > 1))
        return dv_on_refuse(cx, "a zero point has more than 1 dim");
    DV_TRY(as_matrix(cx, &a, 1));
    DV_TRY(as_matrix(cx, &b, 0));
    n = a->n_dims > b->n_dims ? a->n_dims : b->n_dims;
    if (b->dims[b->n_dims - 2] != a->dims[a->n_dims - 1])
        return dv_on_refuse(cx, "A has %lld column%s, B has %lld row%s",
                            (long long)a->dims[a->n_dims - 1],
                            DV_PLURAL(a->dims[a->n_dims - 1], "", "s"),
                            (long long)b->dims[b->n_dims - 2],
                            DV_PLURAL(b->dims[b->n_dims - 2], "", "s"));
    factor x = {.x = a, .zero = a_zero}, y = {.x = b, .zero = b_zero};
    int bytes = dv_on_is_byte(a) && dv_on_is_byte(b);
    if (!bytes && (a_zero || b_zero))
        return dv_on_refuse(cx, "a zero point of operands that are not of 8 "
                                "bits is not supported");
    if (bytes)
        DV_TRY(prepare_integers(cx, &x, &y));
    dv_on_loop l;
    dv_on_loop_begin(&l, cx);
    l.inlines = !bytes;
    for (int d = 0; d < n - 2; d++) {
        int p = d - n + a->n_dims, q = d - n + b->n_dims;
        int64_t size = p >= 0 ? a->dims[p] : 1;
        size = size == 1 && q >= 0 ? b->dims[q] : size;
        cx_axes[d] = dv_on_axis_add(&l, size);
        if (p >= 0)
            x.axes[p] = cx_axes[d];
        if (q >= 0)
            y.axes[q] = cx_axes[d];
    }
    int m = dv_on_axis_add(&l, a->dims[a->n_dims - 2]);
    int c = dv_on_axis_add(&l, b->dims[b->n_dims - 1]);
    int k = dv_on_axis_add(&l, a->dims[a->n_dims - 1]);
    x.axes[a->n_dims - 2] = x.zero_axes[0] = m;
    x.axes[a->n_dims - 1] = y.axes[b->n_dims - 2] = k;
    y.axes[b->n_dims - 1] = y.zero_axes[0] = c;
    DV_TRY(use_factor(&l, &x, k));
    DV_TRY(use_factor(&l, &y, k));
    dv_on_start(&l);
    dv_term p = dv_on_2(cx, "*", dv_on_read(&l, x.x, x.axes),
                        dv_on_read(&l, y.x, y.axes));
    int n_out = n - 2;
    if (a_was > 1)
        cx_axes[n_out++] = m;
    if (b_was > 1)
        cx_axes[n_out++] = c;
    return dv_on_define(&l, out, t, 0, n_out, cx_axes,
                        minus_zeros(&l, dv_on_reduce(&l, "sum", p, 1, &k), &x,
                                    &y, a->dims[a->n_dims - 1]));
}

dv_status dv_on_matmul(dv_on *cx, const dv_onnx_node *n)
{
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *a = dv_on_in(cx, n, 0), *b = dv_on_in(cx, n, 1);
    dv_on_value *out = dv_on_out(cx, n, 0);
    return out ? dv_on_product(cx, out, a, b, a->dtype, NULL, NULL)
               : DV_E_NOMEM;
}

dv_status dv_on_matmul_integer(dv_on *cx, const dv_onnx_node *n)
{
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *zeros[] = {dv_on_in(cx, n, 2), dv_on_in(cx, n, 3)};
    dv_on_value *out = dv_on_out(cx, n, 0);
    return out ? dv_on_product(cx, out, dv_on_in(cx, n, 0), dv_on_in(cx, n, 1),
                               DV_I32, zeros[0], zeros[1])
               : DV_E_NOMEM;
}

dv_status dv_on_gemm(dv_on *cx, const dv_onnx_node *n)
{
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *a = dv_on_in(cx, n, 0), *b = dv_on_in(cx, n, 1);
    dv_on_value *c = dv_on_in(cx, n, 2), *out = dv_on_out(cx, n, 0);
    int ta = dv_on_int(n, "transA", 0) != 0,
        tb = dv_on_int(n, "transB", 0) != 0;
    double alpha = dv_on_float(n, "alpha", 1), beta = dv_on_float(n, "beta", 1);
    dv_on_loop l;
    if (!out)
        return DV_E_NOMEM;
    if (a->n_dims != 2 || b->n_dims != 2 || a->dims[!ta] != b->dims[tb] ||
        (c && c->n_dims > 2))
        return dv_on_refuse(cx, "the shapes of A, B and C do not fit");
    dv_on_loop_begin(&l, cx);
    l.inlines = 1;
    int m = dv_on_axis_add(&l, a->dims[ta]),
        j = dv_on_axis_add(&l, b->dims[!tb]);
    int k = dv_on_axis_add(&l, a->dims[!ta]), axes[] = {m, j};
    int ax[] = {ta ? k : m, ta ? m : k}, bx[] = {tb ? j : k, tb ? k : j};
    int cxs[] = {c && c->n_dims == 1 ? j : m, j};
    DV_TRY(dv_on_use(&l, a, ax));
    DV_TRY(dv_on_use(&l, b, bx));
    if (c)
        DV_TRY(dv_on_use(&l, c, cxs));
    dv_on_start(&l);
    dv_dtype t = a->dtype;
    dv_term p = dv_on_2(cx, "*", dv_on_read(&l, a, ax), dv_on_read(&l, b, bx));
    dv_term y = dv_on_reduce(&l, "sum", p, 1, &k);
    if (alpha != 1)
        y = dv_on_2(cx, "*", dv_on_num(cx, t, alpha), y);
    if (c && beta != 0) {
        dv_term s = dv_on_read(&l, c, cxs);
        y = dv_on_2(cx, "+", y,
                    beta == 1 ? s
                              : dv_on_2(cx, "*", dv_on_num(cx, t, beta), s));
    }
    return dv_on_define(&l, out, t, 0, 2, axes, y);
}

// -- Einsum ------------------------------------------------------------------

// An einsum equation as letters per operand. The dims of an ellipsis get the
// numbers 1 to n as letters, counted from the right.
typedef struct equation {
    int n;
    char terms[8][DV_MAX_DIMS];
    int len[8];
    char result[DV_MAX_DIMS];
    int n_result;
} equation;

static int push_letter(char *to, int *n, char c)
{
    if (*n == DV_MAX_DIMS)
        return 0;
    to[(*n)++] = c;
    return 1;
}

static int push_dots(char *to, int *n, int dims)
{
    for (int i = dims; i > 0; i--)
        if (!push_letter(to, n, (char)i))
            return 0;
    return 1;
}

// Reads one operand's indices in an einsum equation, up to a comma, an arrow or
// the end.
static const char *read_term(const char *s, char *to, int *n, int dots)
{
    *n = 0;
    for (; *s && *s != ',' && strncmp(s, "->", 2); s++) {
        int ok = 1;
        if (*s == ' ')
            continue;
        if (!strncmp(s, "...", 3)) {
            ok = dots >= 0 && push_dots(to, n, dots);
            s += 2;
        } else {
            ok = ((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z')) &&
                 push_letter(to, n, *s);
        }
        if (!ok)
            return NULL;
    }
    return s;
}

static int letters_before(const char *s)
{
    int n = 0;
    for (; *s && *s != ',' && strncmp(s, "->", 2); s++)
        n += *s != ' ' && *s != '.';
    return n;
}

static int parse(equation *e, const char *s, dv_on_value *const *v, int n)
{
    int count[128] = {0}, dots = 0;
    for (e->n = 0; e->n < n; e->n++) {
        int own = v[e->n]->n_dims - letters_before(s);
        s = read_term(s, e->terms[e->n], &e->len[e->n], own);
        if (!s || e->len[e->n] != v[e->n]->n_dims)
            return 0;
        dots = own > dots ? own : dots;
        for (int i = 0; i < e->len[e->n]; i++)
            count[(int)e->terms[e->n][i]]++;
        if (*s == ',' && e->n < n - 1)
            s++;
        else if (e->n < n - 1)
            return 0;
    }
    if (!strncmp(s, "->", 2))
        return (s = read_term(s + 2, e->result, &e->n_result, dots)) && !*s;
    e->n_result = 0;
    if (!push_dots(e->result, &e->n_result, dots))
        return 0;
    for (int c = 'A'; c <= 'z'; c++)
        if (count[c] == 1 && !push_letter(e->result, &e->n_result, (char)c))
            return 0;
    return !*s;
}

dv_status dv_on_einsum(dv_on *cx, const dv_onnx_node *n)
{
    equation e;
    dv_on_value *v[8];
    int axis_of[128], axes[DV_MAX_DIMS], sums[DV_MAX_DIMS], n_sums = 0;
    int kept[128] = {0};
    const char *text = dv_on_string(n, "equation", "");
    dv_on_loop l;
    if (n->n_inputs < 1 || n->n_inputs > 8)
        return dv_on_refuse(cx, "it has %d input%s", (int)n->n_inputs,
                            DV_PLURAL(n->n_inputs, "", "s"));
    DV_TRY(dv_on_need(cx, n, n->n_inputs));
    dv_on_value *out = dv_on_out(cx, n, 0);
    for (int i = 0; i < n->n_inputs; i++)
        v[i] = dv_on_in(cx, n, i);
    if (!out)
        return DV_E_NOMEM;
    if (!parse(&e, text, v, n->n_inputs))
        return dv_on_refuse(cx,
                            "attribute equation '%s' does not fit its "
                            "inputs",
                            text);
    memset(axis_of, -1, sizeof axis_of);
    dv_on_loop_begin(&l, cx);
    for (int i = 0; i < e.n; i++)
        for (int d = 0; d < e.len[i]; d++) {
            int *a = &axis_of[(int)e.terms[i][d]];
            if (*a < 0)
                *a = dv_on_axis_add(&l, v[i]->dims[d]);
            else if (l.axes[*a].size == 1 && v[i]->dims[d] > 1) {
                l.axes[*a].size = l.axes[*a].extent[0] = v[i]->dims[d];
                l.axes[*a].n = 1;
            }
        }
    int own[8][DV_MAX_DIMS];
    for (int i = 0; i < e.n; i++) {
        for (int d = 0; d < e.len[i]; d++)
            own[i][d] = axis_of[(int)e.terms[i][d]];
        DV_TRY(dv_on_use(&l, v[i], own[i]));
    }
    for (int d = 0; d < e.n_result; d++) {
        axes[d] = axis_of[(int)e.result[d]];
        kept[(int)e.result[d]] = 1;
        if (axes[d] < 0)
            return dv_on_refuse(cx,
                                "attribute equation '%s': the result has a "
                                "letter of no input",
                                text);
    }
    for (int c = 0; c < 128; c++)
        if (axis_of[c] >= 0 && !kept[c] && n_sums < DV_MAX_DIMS)
            sums[n_sums++] = axis_of[c];
    dv_on_start(&l);
    dv_term y = dv_on_read(&l, v[0], own[0]);
    for (int i = 1; i < e.n; i++)
        y = dv_on_2(cx, "*", y, dv_on_read(&l, v[i], own[i]));
    return dv_on_define(&l, out, v[0]->dtype, 0, e.n_result, axes,
                        dv_on_reduce(&l, "sum", y, n_sums, sums));
}
