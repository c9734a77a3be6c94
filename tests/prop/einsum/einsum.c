// Properties of einsums: random expressions give what plain loops give, and so
// does a contraction path written as a tree.
//
// Elements are small integers, so that every type and every order gives the
// same bits.
#include "harness/test.h"
#include "einsum/einsum.h"
#include "harness/case.h"
#include <math.h>

enum { MAX_IN = 6, MAX_RANK = 6, DOT = 256, MAX_LABELS = 24 };

// -- Random expressions ------------------------------------------------------

// A term of an expression for the plain loops. An id is a letter, or DOT plus
// the position of a dim under the ellipsis, counted from the right.
typedef struct term {
    int n, id[MAX_RANK * 4];
    int64_t shape[MAX_RANK];
    int n_dots;
} term;

typedef struct formula {
    char text[400];
    int n_in, n_dots;
    term in[MAX_IN], out;
    dv_dtype dtype[MAX_IN], result;
} formula;

static const char letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

static void put(formula *f, rng *r, const char *s)
{
    size_t n = strlen(f->text);
    const char *blank = rng_percent(r, 5) ? " " : "";
    snprintf(f->text + n, sizeof f->text - n, "%s%s", s, blank);
}

static void put_letter(formula *f, rng *r, int id)
{
    char s[2] = {(char)id, 0};
    put(f, r, s);
}

typedef struct pool {
    int n, id[8];
    int64_t extent[8], dots[3];
} pool;

static void make_pool(rng *r, pool *p)
{
    p->n = 1 + (int)rng_below(r, 7);
    for (int i = 0; i < p->n; i++) {
        p->id[i] = letters[(rng_below(r, 8) * 7 + i * 9) % 52];
        p->extent[i] = 1 + rng_below(r, 4);
        for (int k = 0; k < i; k++)
            if (p->id[k] == p->id[i])
                p->extent[i] = p->extent[k];
    }
    for (int i = 0; i < 3; i++)
        p->dots[i] = 1 + rng_below(r, 3);
    if (!rng_percent(r, 2))
        return;
    int none = p->id[rng_below(r, p->n)];
    for (int i = 0; i < p->n; i++)
        if (p->id[i] == none)
            p->extent[i] = 0;
}

// Makes an operand: letters with an ellipsis somewhere among them. Dims with
// the same letter have the same extent.
static void make_operand(rng *r, formula *f, const pool *p, term *t, int dots)
{
    int n = (int)rng_below(r, 5), at = dots ? (int)rng_below(r, n + 1) : -1;
    *t = (term){.n_dots = dots ? (int)rng_below(r, 3) : 0};
    for (int i = 0; i <= n; i++) {
        if (i == at) {
            put(f, r, "...");
            for (int k = t->n_dots - 1; k >= 0; k--, t->n++) {
                t->id[t->n] = DOT + k;
                t->shape[t->n] = rng_percent(r, 25) ? 1 : p->dots[k];
            }
        }
        if (i == n || t->n == MAX_RANK)
            break;
        int k = (int)rng_below(r, p->n);
        t->id[t->n] = p->id[k];
        t->shape[t->n] = rng_percent(r, 8) ? 1 : p->extent[k];
        for (int d = 0; d < t->n; d++)
            if (t->id[d] == p->id[k])
                t->shape[t->n] = t->shape[d];
        put_letter(f, r, p->id[k]);
        t->n++;
    }
    if (at >= 0 && at > n)
        t->n_dots = 0;
}

static int times(const formula *f, int id)
{
    int n = 0;
    for (int i = 0; i < f->n_in; i++)
        for (int d = 0; d < f->in[i].n; d++)
            n += f->in[i].id[d] == id;
    return n;
}

static void put_dots(const formula *f, term *t)
{
    for (int k = f->n_dots - 1; k >= 0; k--)
        t->id[t->n++] = DOT + k;
}

// Chooses the output that numpy chooses for an expression without an arrow.
static void implicit_output(formula *f)
{
    put_dots(f, &f->out);
    for (int c = 'A'; c <= 'z'; c++)
        if (times(f, c) == 1)
            f->out.id[f->out.n++] = c;
}

static void explicit_output(rng *r, formula *f, int any_dots)
{
    int id[52], n = 0;
    for (int c = 'A'; c <= 'z'; c++)
        if (times(f, c) && rng_percent(r, 50))
            id[n++] = c;
    for (int i = n - 1; i > 0; i--) {
        int k = (int)rng_below(r, i + 1), t = id[i];
        id[i] = id[k];
        id[k] = t;
    }
    int at = f->n_dots || (any_dots && rng_percent(r, 50))
                 ? (int)rng_below(r, n + 1)
                 : -1;
    put(f, r, "->");
    for (int i = 0; i <= n; i++) {
        if (i == at) {
            put(f, r, "...");
            put_dots(f, &f->out);
        }
        if (i < n) {
            put_letter(f, r, id[i]);
            f->out.id[f->out.n++] = id[i];
        }
    }
}

static void make_types(rng *r, formula *f)
{
    dv_dtype all = (dv_dtype)rng_below(r, DV_N_DTYPES);
    int mixed = rng_percent(r, 20);
    for (int i = 0; i < f->n_in; i++)
        f->dtype[i] = mixed ? (dv_dtype)rng_below(r, DV_N_DTYPES) : all;
    f->result = rng_percent(r, 70) ? all : (dv_dtype)rng_below(r, DV_N_DTYPES);
    if (mixed) // an intermediate float must not be rounded away by the result
        f->result = DV_F64;
}

static void make_formula(rng *r, formula *f, int plain)
{
    pool p;
    int dots = !plain && rng_percent(r, 35);
    *f = (formula){.n_in = 1 + (int)rng_below(r, 4)};
    f->n_in += rng_percent(r, 20) ? 2 : 0;
    make_pool(r, &p);
    for (int i = 0; i < f->n_in; i++) {
        put(f, r, i ? "," : "");
        make_operand(r, f, &p, &f->in[i], dots && rng_percent(r, 70));
        if (f->in[i].n_dots > f->n_dots)
            f->n_dots = f->in[i].n_dots;
    }
    make_types(r, f);
    if (rng_percent(r, 70) || strchr(f->text, '.') == NULL ||
        f->out.n > DV_MAX_DIMS) {
        if (rng_percent(r, 75)) {
            explicit_output(r, f, strchr(f->text, '.') != NULL);
            return;
        }
    }
    implicit_output(f);
}

// -- The loops ---------------------------------------------------------------

typedef struct loops {
    int n, id[MAX_LABELS];
    int64_t extent[MAX_LABELS], at[MAX_LABELS];
    double points;
} loops;

static int find(const loops *l, int id)
{
    for (int i = 0; i < l->n; i++)
        if (l->id[i] == id)
            return i;
    return -1;
}

// Finds the extent of each letter: extents of 1 broadcast, all others are
// equal.
static void make_loops(const formula *f, loops *l)
{
    *l = (loops){.points = 1};
    for (int i = 0; i < f->n_in; i++)
        for (int d = 0; d < f->in[i].n; d++) {
            int k = find(l, f->in[i].id[d]);
            if (k < 0) {
                k = l->n++;
                l->id[k] = f->in[i].id[d];
                l->extent[k] = 1;
            }
            if (f->in[i].shape[d] != 1)
                l->extent[k] = f->in[i].shape[d];
        }
    for (int k = 0; k < l->n; k++)
        l->points *= (double)l->extent[k];
}

static int64_t offset(const loops *l, const term *t, const int64_t *shape)
{
    int64_t off = 0;
    for (int d = 0; d < t->n; d++) {
        int64_t at = l->at[find(l, t->id[d])];
        off = off * shape[d] + (shape[d] == 1 ? 0 : at);
    }
    return off;
}

static int64_t count(const int64_t *shape, int n)
{
    int64_t elems = 1;
    for (int d = 0; d < n; d++)
        elems *= shape[d];
    return elems;
}

static void evaluate(const formula *f, loops *l, void *const *data,
                     const int64_t *out_shape, double *sums)
{
    for (; l->points > 0;) {
        double v = 1;
        for (int i = 0; i < f->n_in; i++)
            v *= dv_load(f->dtype[i], data[i],
                         offset(l, &f->in[i], f->in[i].shape));
        sums[offset(l, &f->out, out_shape)] += v;
        int k = l->n - 1;
        while (k >= 0 && ++l->at[k] == l->extent[k])
            l->at[k--] = 0;
        if (k < 0)
            return;
    }
}

// -- One case ----------------------------------------------------------------

static dv_einsum_cache *cache;

// A tensor in memory with random strides: dims in any order, some reversed,
// with gaps.
typedef struct strided {
    int64_t strides[DV_MAX_DIMS];
    char *memory;
    dv_array array;
} strided;

static void scatter(rng *r, const dv_array *dense, strided *s)
{
    int order[DV_MAX_DIMS];
    int64_t step = 1 + rng_below(r, 2), base = 0;
    size_t size = (size_t)dv_dtype_get(dense->dtype)->size_bytes;
    for (int d = 0; d < dense->n_dims; d++) {
        int k = (int)rng_below(r, d + 1);
        order[d] = order[k];
        order[k] = d;
    }
    for (int i = 0; i < dense->n_dims; i++) {
        int d = order[i];
        s->strides[d] = rng_percent(r, 25) ? -step : step;
        if (s->strides[d] < 0)
            base += step * (dense->shape[d] - 1);
        step = step * dense->shape[d] + rng_below(r, 2);
    }
    s->memory = calloc((size_t)step + 1, size);
    s->array = *dense;
    s->array.strides = s->strides;
    s->array.data = s->memory + (size_t)base * size;
}

// Returns element k, in row-major order, of a strided tensor.
static char *element(const dv_array *a, int64_t k)
{
    int64_t off = 0;
    for (int d = a->n_dims - 1; d >= 0; d--) {
        off += k % a->shape[d] * a->strides[d];
        k /= a->shape[d];
    }
    return (char *)a->data + off * dv_dtype_get(a->dtype)->size_bytes;
}

static void *fill(rng *r, dv_dtype t, int64_t n)
{
    void *data = calloc((size_t)n + 1, 8);
    char kind = dv_dtype_get(t)->kind;
    int least = kind == 'u' || kind == 'b' ? 0 : -2;
    for (int64_t i = 0; i < n; i++)
        dv_store(t, data, i, (double)(rng_below(r, 5) + least));
    return data;
}

static int compare(const dv_array *out, const double *want, const char *text)
{
    int64_t n = count(out->shape, out->n_dims);
    for (int64_t k = 0; k < n; k++) {
        double got =
            dv_load(out->dtype, out->strides ? element(out, k) : out->data,
                    out->strides ? 0 : k);
        double wanted = dv_round_to(out->dtype, want[k]);
        if (got != wanted && !(isnan(got) && isnan(wanted)))
            return case_no("%s: element %d is %g, not %g", text, (int)k, got,
                           wanted);
    }
    return 1;
}

static int call(rng *r, const char *text, const formula *f, const dv_array *in,
                const dv_array *out, const double *want)
{
    dv_einsum_options o = DV_EINSUM_OPTIONS_INIT;
    dv_diag *diag = dv_diag_create();
    o.target = rng_percent(r, 3) ? case_spyre : case_host;
    o.cache = rng_percent(r, 30) ? cache : NULL;
    o.path = rng_percent(r, 10) && *text != '[' ? DV_PATH_GREEDY : DV_PATH_AUTO;
    dv_status st = dv_einsum(text, in, (size_t)f->n_in, out, &o, diag);
    int ok = st == DV_OK ? compare(out, want, text)
                         : case_no("%s: %s", text, dv_diag_text(diag));
    dv_diag_destroy(diag);
    return ok;
}

typedef struct data {
    void *in[MAX_IN], *out;
    dv_array arrays[MAX_IN], result;
    int64_t out_shape[64];
    double *want;
} data;

static void make_data(rng *r, const formula *f, loops *l, data *x)
{
    for (int d = 0; d < f->out.n; d++)
        x->out_shape[d] = l->extent[find(l, f->out.id[d])];
    int64_t n_out = count(x->out_shape, f->out.n);
    for (int i = 0; i < f->n_in; i++) {
        const term *t = &f->in[i];
        x->in[i] = fill(r, f->dtype[i], count(t->shape, t->n));
        x->arrays[i] = (dv_array){f->dtype[i], t->n, t->shape, NULL, x->in[i]};
    }
    x->out = fill(r, f->result, n_out);
    x->want = calloc((size_t)n_out + 1, sizeof *x->want);
    x->result = (dv_array){f->result, f->out.n, x->out_shape, NULL, x->out};
    evaluate(f, l, x->in, x->out_shape, x->want);
}

static void free_data(const formula *f, data *x)
{
    for (int i = 0; i < f->n_in; i++)
        free(x->in[i]);
    free(x->out);
    free(x->want);
}

// Calls the einsum with random strides of the operands and the output.
static int call_strided(rng *r, const formula *f, const data *x)
{
    strided s[MAX_IN + 1] = {{{0}, NULL, {0}}};
    dv_array in[MAX_IN];
    for (int i = 0; i < f->n_in; i++) {
        size_t size = (size_t)dv_dtype_get(f->dtype[i])->size_bytes;
        int64_t n = count(x->arrays[i].shape, x->arrays[i].n_dims);
        scatter(r, &x->arrays[i], &s[i]);
        in[i] = s[i].array;
        for (int64_t k = 0; k < n; k++)
            memcpy(element(&in[i], k), (char *)x->in[i] + (size_t)k * size,
                   size);
    }
    scatter(r, &x->result, &s[MAX_IN]);
    int ok = call(r, f->text, f, in, &s[MAX_IN].array, x->want);
    for (int i = 0; i <= MAX_IN; i++)
        free(s[i].memory);
    return ok;
}

// -- Trees -------------------------------------------------------------------

static void put_ids(char *out, size_t room, const dv_einsum_term *t)
{
    for (int d = 0; d < t->n_dims; d++) {
        size_t n = strlen(out);
        snprintf(out + n, room - n, "%s%d", d ? "," : "", t->id[d]);
    }
}

static void put_node(char *out, size_t room, const dv_formula *f,
                     const dv_path *p, int32_t number, int32_t *leaf)
{
    size_t n = strlen(out);
    if (number < f->n_in) {
        leaf[leaf[MAX_IN]++] = number;
        put_ids(out, room, &f->in[number]);
        return;
    }
    const dv_einsum_step *s = &p->steps[number - f->n_in];
    snprintf(out + n, room - n, "[");
    put_node(out, room, f, p, s->a, leaf);
    n = strlen(out);
    snprintf(out + n, room - n, s->b >= 0 ? "],[" : "]");
    if (s->b >= 0) {
        put_node(out, room, f, p, s->b, leaf);
        n = strlen(out);
        snprintf(out + n, room - n, "]");
    }
    n = strlen(out);
    snprintf(out + n, room - n, "->[");
    put_ids(out, room, &s->out);
    n = strlen(out);
    snprintf(out + n, room - n, "]");
}

// Calls the einsum with its path written as a tree, and the operands in the
// order of the tree's leaves.
static int call_tree(rng *r, const formula *f, const data *x)
{
    char text[2000] = "";
    dv_arena arena = {0};
    dv_formula parsed;
    dv_path path;
    int32_t leaf[MAX_IN + 1] = {0};
    dv_array in[MAX_IN];
    int ok =
        !dv_formula_parse(&parsed, f->text, strlen(f->text), &arena, NULL) &&
        !dv_formula_resolve(&parsed, x->arrays, (size_t)f->n_in, &arena,
                            NULL) &&
        !dv_path_find(&path, &parsed, DV_PATH_AUTO, 0, &arena, NULL);
    int broadcasts = 0;
    for (int i = 0; ok && i < f->n_in; i++)
        for (int d = 0; d < f->in[i].n; d++)
            broadcasts |= parsed.in[i].id[d] == DV_NO_ID;
    if (ok && !broadcasts) {
        put_node(text, sizeof text, &parsed, &path,
                 parsed.n_in + path.n_steps - 1, leaf);
        for (int i = 0; i < f->n_in; i++)
            in[i] = x->arrays[leaf[i]];
        ok = call(r, text, f, in, &x->result, x->want);
    } else if (!ok) {
        case_no("%s: no path", f->text);
    }
    dv_arena_free(&arena);
    return ok;
}

// -- Properties --------------------------------------------------------------

static int setup(void **state)
{
    return case_set_up(state) || dv_einsum_cache_create(&cache, 8, NULL);
}

static int teardown(void **state)
{
    dv_einsum_cache_destroy(cache);
    return case_tear_down(state);
}

TEST(equals_loops)
{
    uint64_t seed = gen_seed();
    int n = gen_cases(10000), too_large = 0;
    for (int i = 0; i < n + too_large; i++) {
        rng r = {seed + (uint64_t)i};
        formula f;
        loops l;
        data x;
        make_formula(&r, &f, i % 8 == 0);
        make_loops(&f, &l);
        if (l.points > 8192 || f.out.n > DV_MAX_DIMS) {
            too_large += n > 1;
            continue;
        }
        make_data(&r, &f, &l, &x);
        int ok = call(&r, f.text, &f, x.arrays, &x.result, x.want);
        if (ok && i % 4 == 1 && l.points > 0)
            ok = call_strided(&r, &f, &x);
        if (ok && i % 8 == 0)
            ok = call_tree(&r, &f, &x);
        if (!ok)
            fprintf(stderr, "DV_SEED=%llu: %s\n",
                    (unsigned long long)(seed + (uint64_t)i), case_why());
        free_data(&f, &x);
        assert_true(ok);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_loops),
    };
    return run_group(tests, setup, teardown);
}
