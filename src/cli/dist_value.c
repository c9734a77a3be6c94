// divvy dist: values that ranks make by themselves, reductions over all, and
// the bound of a product.
#include "base/math.h"
#include "cli/dist.h"
#include "dist/value.h"
#include <inttypes.h>
#include <string.h>

enum { MAX_VALUES = 1 << 20 };

typedef enum kind { AS_F64, AS_F32, AS_INT } kind;

static dv_status kind_of(cli_dist *c, kind *out)
{
    static const char *const names[] = {
        "float64", "f64",    "float32", "f32",    "int64",
        "i64",     "int32",  "i32",     "int16",  "int8",
        "i8",      "uint64", "uint32",  "uint16", "uint8"};
    const char *name = cli_text_of(c, "dtype", "float64");
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (!strcmp(name, names[i])) {
            *out = i < 2 ? AS_F64 : i < 4 ? AS_F32 : AS_INT;
            return DV_OK;
        }
    return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE, "dtype %s is not known",
                   name);
}

static double stored(double x, kind k)
{
    return k == AS_F32 ? (double)(float)x : k == AS_INT ? floor(x) : x;
}

static void value_json(dv_json *j, double x, kind k)
{
    if (k == AS_INT && fabs(x) < 0x1p62)
        dv_json_int(j, NULL, (int64_t)x);
    else
        dv_json_double(j, NULL, x);
}

typedef struct line {
    double start, stop, step;
    int64_t num;
    kind k;
} line;

static dv_status read_line(cli_dist *c, line *l)
{
    int endpoint;
    DV_TRY(cli_double_of(c, "start", &l->start));
    DV_TRY(cli_double_of(c, "stop", &l->stop));
    DV_TRY(cli_int_of(c, "num", 0, MAX_VALUES, &l->num));
    DV_TRY(cli_flag_of(c, "endpoint", &endpoint));
    DV_TRY(kind_of(c, &l->k));
    l->step = dv_line_step(l->start, l->stop, l->num, endpoint);
    return DV_OK;
}

dv_status cli_dist_linspace(cli_dist *c)
{
    line l = {0};
    int64_t ranks;
    DV_TRY(read_line(c, &l));
    DV_TRY(cli_int_of(c, "nprocs", 1, MAX_VALUES, &ranks));
    dv_json_double(&c->j, "step", l.step);
    dv_json_open(&c->j, "values", '[');
    for (int64_t r = 0; r < ranks; r++) {
        dv_range own = dv_dist_part(l.num, ranks, r);
        dv_json_open_flat(&c->j, NULL, '[');
        for (int64_t i = own.off; i < own.off + own.size; i++)
            value_json(&c->j, stored(dv_line_at(l.start, l.step, i), l.k), l.k);
        dv_json_close(&c->j);
    }
    dv_json_close(&c->j);
    return DV_OK;
}

// Counts, for some teams, the values whose bits differ from one process's.
dv_status cli_dist_linspace_nprocs_dependence(cli_dist *c)
{
    static const int teams[] = {1, 2, 3, 4, 7, 8};
    line l = {0};
    DV_TRY(read_line(c, &l));
    double *alone = DV_NEW(&c->arena, double, l.num);
    double *here = DV_NEW(&c->arena, double, l.num);
    if (!alone || !here)
        return dv_nomem(c->diag);
    dv_line_fill(alone, l.start, l.step, (dv_range){0, l.num});
    dv_json_open_flat(&c->j, "values_differing_from_single_process", '{');
    for (int t = 0; t < 6; t++) {
        int64_t differ = 0;
        char name[8] = {(char)('0' + teams[t])};
        for (int64_t r = 0; r < teams[t]; r++) {
            dv_range own = dv_dist_part(l.num, teams[t], r);
            dv_line_fill(here, l.start, l.step, own);
            for (int64_t i = 0; i < own.size; i++)
                differ += memcmp(&alone[own.off + i], &here[i], 8) != 0;
        }
        dv_json_int(&c->j, name, differ);
    }
    dv_json_close(&c->j);
    return DV_OK;
}

dv_status cli_dist_arange(cli_dist *c)
{
    cli_rows from, to, by;
    int64_t ranks;
    kind k = AS_F64;
    DV_TRY(cli_rows_of(c, "start", &from));
    DV_TRY(cli_rows_of(c, "stop", &to));
    DV_TRY(cli_rows_of(c, "step", &by));
    DV_TRY(cli_int_of(c, "nprocs", 1, MAX_VALUES, &ranks));
    DV_TRY(kind_of(c, &k));
    if (from.n != 1 || to.n != 1 || by.n != 1 || by.f[0] == 0)
        return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                       "start, stop and step are numbers, the step not 0");
    int64_t num = dv_steps_to(from.f[0], to.f[0], by.f[0]);
    int whole = from.whole && to.whole && by.whole;
    if (whole) { // exact beyond 2^53 too
        int64_t way = to.v[0] - from.v[0], step = by.v[0];
        num = step > 0 ? dv_ceil_div(way, step) : dv_ceil_div(-way, -step);
        num = dv_max_i64(num, 0);
    }
    if (num < 0)
        return dv_fail(c->diag, DV_E_LIMIT, DV_NOWHERE,
                       "more than 2^62 values, at most %d are listed",
                       MAX_VALUES);
    if (num > MAX_VALUES)
        return dv_fail(c->diag, DV_E_LIMIT, DV_NOWHERE,
                       "%" PRId64 " values, at most %d are listed", num,
                       MAX_VALUES);
    dv_json_int(&c->j, "num", num);
    dv_json_open(&c->j, "values", '[');
    for (int64_t r = 0; r < ranks; r++) {
        dv_range own = dv_dist_part(num, ranks, r);
        dv_json_open_flat(&c->j, NULL, '[');
        for (int64_t i = own.off; i < own.off + own.size; i++)
            if (whole && k == AS_INT)
                dv_json_int(&c->j, NULL, from.v[0] + i * by.v[0]);
            else
                value_json(&c->j, stored(dv_line_at(from.f[0], by.f[0], i), k),
                           k);
        dv_json_close(&c->j);
    }
    dv_json_close(&c->j);
    return DV_OK;
}

static void result_json(dv_json *j, const char *key, double v, int whole)
{
    if (whole && fabs(v) < 0x1p53)
        dv_json_int(j, key, (int64_t)v);
    else
        dv_json_double(j, key, v);
}

dv_status cli_dist_reduce_all(cli_dist *c)
{
    cli_rows local;
    int64_t ranks;
    DV_TRY(cli_rows_of(c, "local", &local));
    if (cli_given(c, "nprocs")) {
        DV_TRY(cli_int_of(c, "nprocs", 1, MAX_VALUES, &ranks));
        if (ranks != local.n_rows)
            return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                           "local has %d lists, there are %" PRId64 " ranks",
                           (int)local.n_rows, ranks);
    }
    cli_given(c, "values"); // the same, in one list
    dv_moments all = DV_MOMENTS_INIT;
    for (int r = 0; r < local.n_rows; r++) {
        dv_moments part = DV_MOMENTS_INIT;
        for (int i = local.start[r]; i < local.start[r + 1]; i++)
            dv_moments_add(&part, local.f[i]);
        dv_moments_merge(&all, &part);
    }
    double n = (double)all.n;
    result_json(&c->j, "sum", all.sum, local.whole);
    result_json(&c->j, "max", all.max, local.whole);
    result_json(&c->j, "min", all.min, local.whole);
    result_json(&c->j, "prod", all.prod, local.whole);
    // Exact where the sum is; merged means are only as good as their rounding.
    dv_json_double(&c->j, "mean", all.n ? all.sum / n : NAN);
    dv_json_double(&c->j, "var", all.n ? all.spread / n : NAN);
    return DV_OK;
}

dv_status cli_dist_product_bound(cli_dist *c)
{
    double m, n, k, ranks;
    DV_TRY(cli_double_of(c, "m", &m));
    DV_TRY(cli_double_of(c, "n", &n));
    DV_TRY(cli_double_of(c, "k", &k));
    DV_TRY(cli_double_of(c, "nprocs", &ranks));
    if (!(m > 0 && n > 0 && k > 0 && ranks >= 1))
        return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                       "m, n and k are above 0, nprocs is 1 or more");
    dv_json_double(&c->j, "least_words_per_rank",
                   dv_dist_product_bound(m, n, k, ranks));
    return DV_OK;
}
