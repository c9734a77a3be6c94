// divvy dist: the arithmetic of distribution on its own, one question a call.
#include "cli/dist.h"
#include "base/math.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct op {
    const char *name, *args;
    dv_status (*run)(cli_dist *c);
} op;

static const op ops[] = {
#define CLI_DIST_OP(name, args) {#name, args, cli_dist_##name},
#include "cli/dist_ops.def"
#undef CLI_DIST_OP
};
enum { N_OPS = sizeof ops / sizeof *ops };

// -- Arguments -------------------------------------------------------------

// Sums and products of two values within this stay inside 64 bits.
static const int64_t most = INT64_C(1) << 61;

static cli_word *find(cli_dist *c, const char *key)
{
    for (int i = 0; i < c->n_words; i++)
        if (!strcmp(c->words[i].key, key)) {
            c->words[i].used = 1;
            return &c->words[i];
        }
    return NULL;
}

int cli_given(cli_dist *c, const char *key)
{
    const cli_word *w = find(c, key);
    return w && strcmp(w->value, "-") != 0;
}

static dv_status missing(cli_dist *c, const char *key)
{
    return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE, "%s=… is needed", key);
}

static dv_status read_number(cli_dist *c, const char *key, const char *at,
                             size_t len, cli_rows *out)
{
    char buf[64], *end;
    int32_t i = out->n++;
    snprintf(buf, sizeof buf, "%.*s", (int)(len < 63 ? len : 63), at);
    out->f[i] = strtod(buf, &end);
    if (len == 0 || len > 62 || *end || !(out->f[i] - out->f[i] == 0))
        return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                       "%s: '%s' is not a number", key, buf);
    if (buf[strspn(buf, "+-0123456789")]) {
        out->whole = 0;
        return DV_OK;
    }
    if (out->f[i] > (double)most || out->f[i] < -(double)most)
        return dv_fail(c->diag, DV_E_LIMIT, DV_NOWHERE, "%s: %s is beyond 2^61",
                       key, buf);
    out->v[i] = strtoll(buf, NULL, 10);
    return DV_OK;
}

dv_status cli_rows_of(cli_dist *c, const char *key, cli_rows *out)
{
    const cli_word *w = find(c, key);
    *out = (cli_rows){.whole = 1};
    if (!w || !strcmp(w->value, "-"))
        return missing(c, key);
    size_t len = strlen(w->value);
    out->v = DV_NEW(&c->arena, int64_t, len + 1);
    out->f = DV_NEW(&c->arena, double, len + 1);
    out->start = DV_NEW(&c->arena, int32_t, len + 2);
    if (!out->v || !out->f || !out->start)
        return dv_nomem(c->diag);
    if (len == 0)
        return DV_OK;
    for (const char *s = w->value;; s++) { // a list
        size_t list = strcspn(s, ";");
        for (const char *end = s + list; s < end || (list && s[-1] == ',');) {
            size_t n = strcspn(s, ",;");
            DV_TRY(read_number(c, key, s, n, out));
            s += n;
            if (*s != ',')
                break;
            s++;
        }
        out->start[++out->n_rows] = out->n;
        if (!*s)
            return DV_OK;
    }
}

dv_status cli_list_of(cli_dist *c, const char *key, int n, int64_t low,
                      cli_rows *out)
{
    DV_TRY(cli_rows_of(c, key, out));
    if (out->n_rows > 1 || !out->whole)
        return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                       "%s takes one list of whole numbers", key);
    if (n >= 0 && out->n != n)
        return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                       "%s has %d numbers, %d are needed", key, (int)out->n, n);
    for (int32_t i = 0; i < out->n; i++)
        if (out->v[i] < low)
            return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                           "%s: %" PRId64 " is less than %" PRId64, key,
                           out->v[i], low);
    return DV_OK;
}

dv_status cli_int_of(cli_dist *c, const char *key, int64_t low, int64_t high,
                     int64_t *out)
{
    cli_rows r;
    DV_TRY(cli_list_of(c, key, 1, low, &r));
    *out = r.v[0];
    if (*out <= high)
        return DV_OK;
    return dv_fail(c->diag, DV_E_LIMIT, DV_NOWHERE,
                   "%s: %" PRId64 " is more than %" PRId64, key, *out, high);
}

dv_status cli_double_of(cli_dist *c, const char *key, double *out)
{
    cli_rows r;
    DV_TRY(cli_rows_of(c, key, &r));
    if (r.n != 1)
        return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE, "%s takes one number",
                       key);
    *out = r.f[0];
    return DV_OK;
}

dv_status cli_flag_of(cli_dist *c, const char *key, int *out)
{
    const char *v = cli_text_of(c, key, "false");
    static const char *const words[] = {"false", "true", "0",  "1",     "no",
                                        "yes",   "off",  "on", "False", "True"};
    for (int i = 0; i < (int)(sizeof words / sizeof *words); i++)
        if (!strcmp(v, words[i])) {
            *out = i % 2;
            return DV_OK;
        }
    return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                   "%s takes true or false, not '%s'", key, v);
}

const char *cli_text_of(cli_dist *c, const char *key, const char *otherwise)
{
    const cli_word *w = find(c, key);
    return w && strcmp(w->value, "-") != 0 ? w->value : otherwise;
}

dv_status cli_shape_of(cli_dist *c, const char *key, dv_dist *d)
{
    cli_rows r;
    int64_t elems = 1;
    DV_TRY(cli_list_of(c, key, -1, 0, &r));
    if (r.n > DV_MAX_DIMS)
        return dv_fail(c->diag, DV_E_LIMIT, DV_NOWHERE,
                       "%s has %d dims, at most %d are possible", key, (int)r.n,
                       DV_MAX_DIMS);
    *d = (dv_dist){.n_dims = r.n};
    for (int i = 0; i < r.n; i++) {
        d->shape[i] = r.v[i];
        d->axis[i] = -1;
        if (!dv_mul_i64(&elems, elems, dv_max_i64(r.v[i], 1)) || elems > most)
            return dv_fail(c->diag, DV_E_LIMIT, DV_NOWHERE,
                           "%s has more than 2^61 elements", key);
    }
    return DV_OK;
}

dv_status cli_cut_of(cli_dist *c, const char *key, int64_t max_ranks,
                     dv_dist *d)
{
    if (cli_given(c, "grid"))
        return cli_grid_of(c, key, "grid", max_ranks, d);
    int64_t n;
    DV_TRY(cli_shape_of(c, key, d));
    DV_TRY(cli_int_of(c, "nprocs", 1, max_ranks, &n));
    d->n_axes = 1;
    d->grid[0] = n;
    if (d->n_dims)
        d->axis[0] = 0;
    return DV_OK;
}

dv_status cli_grid_of(cli_dist *c, const char *shape, const char *grid,
                      int64_t max_ranks, dv_dist *d)
{
    cli_rows r;
    int64_t ranks = 1;
    DV_TRY(cli_shape_of(c, shape, d));
    DV_TRY(cli_list_of(c, grid, -1, 1, &r));
    if (r.n > DV_MAX_AXES || r.n > d->n_dims)
        return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                       "%s has %d axes; the shape has %d dims, and at most %d "
                       "axes are possible",
                       grid, (int)r.n, d->n_dims, DV_MAX_AXES);
    d->n_axes = r.n;
    for (int a = 0; a < r.n; a++) {
        d->grid[a] = r.v[a];
        d->axis[a] = a;
        if (!dv_mul_i64(&ranks, ranks, r.v[a]) || ranks > max_ranks)
            return dv_fail(c->diag, DV_E_LIMIT, DV_NOWHERE,
                           "%s has more than %" PRId64 " ranks", grid,
                           max_ranks);
    }
    return DV_OK;
}

dv_status cli_slice_of(cli_dist *c, int64_t off, int64_t size, int64_t stride,
                       dv_slice *out)
{
    int64_t reach;
    *out = (dv_slice){off, size, stride};
    if (off < 0 || size < 0 || stride < 1)
        return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                       "a slice of offset %" PRId64 ", size %" PRId64
                       ", stride %" PRId64
                       ": the first two are 0 or more, the stride 1 or more",
                       off, size, stride);
    if (!dv_mul_i64(&reach, size, stride) || reach > most)
        return dv_fail(c->diag, DV_E_LIMIT, DV_NOWHERE,
                       "a slice of %" PRId64 " elements, %" PRId64
                       " apart, reaches beyond 2^61",
                       size, stride);
    return DV_OK;
}

dv_status cli_slices_of(cli_dist *c, const char *key, dv_slice **out, int *n)
{
    cli_rows r;
    DV_TRY(cli_rows_of(c, key, &r));
    *n = r.n_rows;
    *out = DV_NEW(&c->arena, dv_slice, r.n_rows);
    if (!*out)
        return dv_nomem(c->diag);
    for (int i = 0; i < r.n_rows; i++) {
        const int64_t *v = r.v + r.start[i];
        if (r.start[i + 1] - r.start[i] != 3 || !r.whole)
            return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                           "%s takes lists of offset,size,stride", key);
        DV_TRY(cli_slice_of(c, v[0], v[1], v[2], &(*out)[i]));
    }
    return DV_OK;
}

void cli_range_json(dv_json *j, const char *key, dv_range r)
{
    dv_json_ints(j, key, (int64_t[]){r.off, r.size}, 2);
}

// -- The command -----------------------------------------------------------

static void list_ops(dv_text *out)
{
    for (int i = 0; i < N_OPS; i++)
        dv_put(out, "%-26s %s\n", ops[i].name, ops[i].args);
}

static int no_op(const cli_command *c, const char *name)
{
    return cli_usage(c, "there is no operation %s; divvy dist alone lists them",
                     name);
}

// The words of a call; `note` says nothing to us. Returns -1 or an exit code.
static int take_words(const cli_command *c, cli_dist *d,
                      const char *const *words, int n)
{
    for (int i = 0; i < n; i++) {
        cli_word *w = &d->words[d->n_words];
        const char *eq = strchr(words[i], '=');
        size_t len = eq ? (size_t)(eq - words[i]) : 0;
        if (!eq || len == 0 || len >= sizeof w->key)
            return cli_usage(c, "an argument is KEY=VALUE, not '%s'", words[i]);
        memcpy(w->key, words[i], len);
        w->key[len] = 0;
        for (int k = 0; k < d->n_words; k++)
            if (!strcmp(w->key, d->words[k].key))
                return cli_usage(c, "%s is there twice", w->key);
        w->value = eq + 1;
        w->used = !strcmp(w->key, "note");
        d->n_words++;
    }
    return -1;
}

static dv_status answer(cli_dist *d, const op *o)
{
    dv_json_open(&d->j, NULL, '{');
    DV_TRY(o->run(d));
    dv_json_close(&d->j);
    for (int i = 0; i < d->n_words; i++)
        if (!d->words[i].used)
            return dv_fail(d->diag, DV_E_USAGE, DV_NOWHERE,
                           "%s takes no %s; it takes %s", o->name,
                           d->words[i].key, o->args);
    return DV_OK;
}

static int call(const op *o, cli_dist *d)
{
    dv_text out = {0};
    d->j.out = &out;
    d->j.bare = 1; // the answer of one function
    d->diag = dv_diag_create();
    int code = answer(d, o) ? cli_fail(d->diag) : -1;
    if (code >= 0)
        dv_text_free(&out);
    else
        code = cli_put(dv_text_take(&out), NULL, d->diag);
    dv_diag_destroy(d->diag);
    dv_arena_free(&d->arena);
    return code;
}

int cli_dist_main(const cli_command *c, int argc, char **argv)
{
    const char *words[CLI_MAX_WORDS + 1];
    int n, json = 0;
    const cli_option options[] = {{"json", 0, NULL,
                                   "the answer is JSON with or without it",
                                   CLI_FLAG, &json},
                                  {0}};
    int code = cli_parse(c, options, argc, argv, words, &n, CLI_MAX_WORDS + 1);
    if (code >= 0)
        return code;
    if (n == 0) {
        dv_text out = {0};
        list_ops(&out);
        return cli_put(dv_text_take(&out), NULL, NULL);
    }
    cli_dist d = {0};
    code = take_words(c, &d, words + 1, n - 1);
    for (int i = 0; code < 0 && i < N_OPS; i++)
        if (!strcmp(ops[i].name, words[0]))
            return call(&ops[i], &d);
    return code < 0 ? no_op(c, words[0]) : code;
}
