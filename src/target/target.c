// Targets (descriptions of machines) as values: the table of properties,
// equality, units and printing. Parsing is in read.c, loading in load.c.
#include "base/math.h"
#include "target/field.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const dv_target_kind_info dv_target_kinds[] = {
    [DV_KIND_count] = {"count", "a whole number such as 32", NULL, 0, {0}},
    [DV_KIND_bytes] = {"bytes", "bytes such as 128 or 2MiB", "B", 0, {0}},
    [DV_KIND_percent] = {"percent", "a percentage such as 20%", NULL, 0, {0}},
    [DV_KIND_flag] = {"flag", "yes or no", NULL, 0, {"no", "yes"}},
    [DV_KIND_grain] =
        {"grain", "primitive or fused", NULL, 0, {"fused", "primitive"}},
    [DV_KIND_storage] =
        {"storage", "computed or stored", NULL, 0, {"computed", "stored"}},
    [DV_KIND_byte_rate] = {"rate", "a rate such as 204.8GB/s", "B", 1, {0}},
    [DV_KIND_mac_rate] = {"rate", "a rate such as 1.5Tmac/s", "mac", 1, {0}},
    [DV_KIND_op_rate] = {"rate", "a rate such as 64Gop/s", "op", 1, {0}},
    [DV_KIND_hertz] =
        {"frequency", "a frequency such as 1.35GHz", "Hz", 0, {0}},
    [DV_KIND_duration] = {"time", "a time such as 3us or 250ns", "s", 0, {0}},
    [DV_KIND_grid] = {"grid", "columns x rows such as 8x8", NULL, 0, {0}},
    [DV_KIND_rects] = {"cores", "cores such as 3,2 or 0,7-7,7", NULL, 0, {0}},
    [DV_KIND_ops] =
        {"ops", "words such as add exp matmul, or none", NULL, 0, {0}},
    [DV_KIND_text] = {"text", "a text in quotes", NULL, 0, {0}},
};

const dv_target_field dv_target_fields[] = {
#define TARGET_FIELD(name, type, def, least, most, text)                       \
    {#name,                                                                    \
     DV_KIND_##type,                                                           \
     offsetof(dv_target, DV_MEMBER_##type(name)),                              \
     (double)(def),                                                            \
     (double)(least),                                                          \
     (double)(most),                                                           \
     text},
#include "target/target.def"
#undef TARGET_FIELD
};

void *dv_field_of(dv_target *t, const dv_target_field *f)
{
    return (char *)t + f->offset;
}

static const void *value_at(const dv_target *t, const dv_target_field *f)
{
    return (const char *)t + f->offset;
}

static const char *text_of(const dv_target *t, const dv_target_field *f)
{
    return value_at(t, f);
}

static dv_core_grid grid_of(const dv_target *t, const dv_target_field *f)
{
    return *(const dv_core_grid *)value_at(t, f);
}

static const dv_core_rects *rects_of(const dv_target *t,
                                     const dv_target_field *f)
{
    return value_at(t, f);
}

static const dv_op_set *ops_of(const dv_target *t, const dv_target_field *f)
{
    return value_at(t, f);
}

static double get(const dv_target *t, const dv_target_field *f)
{
    const void *p = value_at(t, f);
    switch (f->kind) {
    case DV_KIND_count:
    case DV_KIND_bytes:
        return (double)*(const int64_t *)p;
    case DV_KIND_flag:
    case DV_KIND_storage:
        return *(const int *)p;
    case DV_KIND_grain:
        return *(const dv_grain *)p;
    default:
        return *(const double *)p;
    }
}

void dv_field_set(dv_target *t, const dv_target_field *f, double v)
{
    void *p = dv_field_of(t, f);
    switch (f->kind) {
    case DV_KIND_count:
    case DV_KIND_bytes:
        *(int64_t *)p = (int64_t)v;
        break;
    case DV_KIND_flag:
    case DV_KIND_storage:
        *(int *)p = v != 0;
        break;
    case DV_KIND_grain:
        *(dv_grain *)p = (dv_grain)v;
        break;
    default:
        *(double *)p = v;
    }
}

static int same(const dv_target *a, const dv_target *b,
                const dv_target_field *f)
{
    if (f->kind == DV_KIND_text)
        return strcmp(text_of(a, f), text_of(b, f)) == 0;
    if (f->kind == DV_KIND_grid)
        return grid_of(a, f).cols == grid_of(b, f).cols &&
               grid_of(a, f).rows == grid_of(b, f).rows;
    if (f->kind == DV_KIND_rects)
        return rects_of(a, f)->n == rects_of(b, f)->n &&
               !memcmp(rects_of(a, f)->at, rects_of(b, f)->at,
                       (size_t)rects_of(a, f)->n * sizeof(dv_core_rect));
    if (f->kind == DV_KIND_ops)
        return dv_op_set_equal(ops_of(a, f), ops_of(b, f));
    return get(a, f) == get(b, f);
}

void dv_target_init(dv_target *t, const char *name)
{
    memset(t, 0, sizeof *t);
    snprintf(t->name, sizeof t->name, "%s", name);
    for (int i = 0; i < DV_N_FIELDS; i++)
        if (dv_target_fields[i].kind < DV_KIND_grid)
            dv_field_set(t, &dv_target_fields[i], dv_target_fields[i].def);
}

int dv_target_equal(const dv_target *a, const dv_target *b)
{
    int equal = strcmp(a->name, b->name) == 0;
    for (int i = 0; i < DV_N_FIELDS; i++)
        equal &= same(a, b, &dv_target_fields[i]);
    return equal;
}

int64_t dv_target_usable_bytes(const dv_target *t)
{
    int64_t align = t->scratch_align_bytes;
    int64_t rest = t->scratch_bytes - t->scratch_program_bytes;
    double left = 1 - t->scratch_reserved_percent / 100;
    int64_t share = (int64_t)((double)rest * left);
    return dv_min_i64(dv_ceil_div(share, align), rest / align) * align;
}

typedef struct prefix {
    char text[3];
    double scale;
} prefix;

enum { N_PREFIXES = 6 };

// Returns the unit prefixes of a kind: powers of two for memory sizes, powers
// of ten for everything else. Durations are stored in nanoseconds, so that
// whole numbers of every unit are exact.
static const prefix *prefixes(dv_target_kind k)
{
    static const prefix two[N_PREFIXES] = {{"", 1},        {"Ki", 0x1p10},
                                           {"Mi", 0x1p20}, {"Gi", 0x1p30},
                                           {"Ti", 0x1p40}, {"Pi", 0x1p50}};
    static const prefix ten[N_PREFIXES] = {
        {"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}};
    static const prefix nano[N_PREFIXES] = {
        {"n", 1}, {"u", 1e3}, {"m", 1e6}, {"", 1e9}, {"k", 1e12}, {"M", 1e15}};
    return k == DV_KIND_bytes ? two : k == DV_KIND_duration ? nano : ten;
}

double dv_unit_scale(dv_target_kind k, const char *text, size_t len)
{
    const char *unit = dv_target_kinds[k].unit;
    const prefix *p = prefixes(k);
    for (int i = 0; i < N_PREFIXES; i++) {
        size_t n = strlen(p[i].text);
        if (len == n + strlen(unit) && memcmp(text, p[i].text, n) == 0 &&
            memcmp(text + n, unit, len - n) == 0)
            return p[i].scale;
    }
    return 0;
}

static void put_number(dv_text *out, double v)
{
    if (v == floor(v) && fabs(v) < 1e15)
        dv_put(out, "%.0f", v);
    else
        dv_put_double(out, v);
}

// Prints `v` in the largest unit that reads back to exactly the same value.
// Byte counts use only units that divide them, and no unit for plain bytes.
static void put_quantity(dv_text *out, dv_target_kind k, double v)
{
    const prefix *p = prefixes(k);
    int i = N_PREFIXES - 1;
    for (; i > 0; i--) {
        double q = v / p[i].scale;
        if (q >= 1 && q * p[i].scale == v &&
            (k != DV_KIND_bytes || q == floor(q)))
            break;
    }
    put_number(out, v / p[i].scale);
    if (i > 0 || k != DV_KIND_bytes)
        dv_put(out, "%s%s%s", p[i].text, dv_target_kinds[k].unit,
               dv_target_kinds[k].per_second ? "/s" : "");
}

void dv_value_print(dv_text *out, dv_target_kind k, double v)
{
    if (dv_target_kinds[k].unit)
        put_quantity(out, k, v);
    else if (k == DV_KIND_grain)
        dv_put(out, "%s",
               dv_target_kinds[k].word[v == (double)DV_GRAIN_PRIMITIVE]);
    else if (dv_target_kinds[k].word[0])
        dv_put(out, "%s", dv_target_kinds[k].word[v != 0]);
    else
        put_number(out, v);
    if (k == DV_KIND_percent)
        dv_put(out, "%%");
}

static void put_rects(dv_text *out, const dv_core_rects *r)
{
    for (int32_t i = 0; i < r->n; i++) {
        const dv_core_rect *c = &r->at[i];
        dv_put(out, "%s%d,%d", i ? " " : "", c->x0, c->y0);
        if (c->x0 != c->x1 || c->y0 != c->y1)
            dv_put(out, "-%d,%d", c->x1, c->y1);
    }
    if (!r->n)
        dv_put(out, "none");
}

static void put_field(dv_text *out, const dv_target *t,
                      const dv_target_field *f)
{
    dv_core_grid g;
    switch (f->kind) {
    case DV_KIND_text:
        dv_put(out, "\"%s\"", text_of(t, f));
        break;
    case DV_KIND_grid:
        g = grid_of(t, f);
        dv_put(out, "%" PRId64 "x%" PRId64, g.cols, g.rows);
        break;
    case DV_KIND_rects:
        put_rects(out, rects_of(t, f));
        break;
    case DV_KIND_ops:
        dv_op_set_print(out, ops_of(t, f));
        break;
    default:
        dv_value_print(out, f->kind, get(t, f));
    }
}

void dv_target_rects_json(dv_json *j, const char *key, const dv_core_rects *r)
{
    dv_json_open_flat(j, key, '[');
    for (int32_t i = 0; i < r->n; i++)
        DV_JSON_INTS(j, NULL, r->at[i].x0, r->at[i].y0, r->at[i].x1,
                     r->at[i].y1);
    dv_json_close(j);
}

void dv_target_json(dv_json *j, const char *key, const dv_target *t)
{
    dv_json_open(j, key, '{');
    dv_json_string(j, "name", t->name);
    for (int i = 0; i < DV_N_FIELDS; i++) {
        const dv_target_field *f = &dv_target_fields[i];
        if (f->kind == DV_KIND_text) {
            dv_json_string(j, f->name, text_of(t, f));
        } else if (f->kind == DV_KIND_grid) {
            dv_core_grid g = grid_of(t, f);
            int64_t both[2] = {g.cols, g.rows};
            dv_json_ints(j, f->name, both, 2);
        } else if (f->kind == DV_KIND_rects) {
            dv_target_rects_json(j, f->name, rects_of(t, f));
        } else if (f->kind == DV_KIND_ops) {
            dv_op_set_json(j, f->name, ops_of(t, f));
        } else if (f->kind == DV_KIND_flag) {
            dv_json_bool(j, f->name, get(t, f) != 0);
        } else if (dv_target_kinds[f->kind].word[0]) {
            dv_json_string(j, f->name,
                           dv_target_kinds[f->kind].word[get(t, f) == f->most]);
        } else {
            dv_json_double(j, f->name, get(t, f));
        }
    }
    dv_json_close(j);
}

void dv_target_print(dv_text *out, const dv_target *t, int indent)
{
    dv_target defaults;
    dv_target_init(&defaults, "");
    int width = 0;
    for (int i = 0; i < DV_N_FIELDS; i++) {
        int len = (int)strlen(dv_target_fields[i].name);
        if (!same(t, &defaults, &dv_target_fields[i]) && len > width)
            width = len;
    }
    dv_put(out, "%*starget %s {\n", indent, "", t->name);
    for (int i = 0; i < DV_N_FIELDS; i++) {
        if (same(t, &defaults, &dv_target_fields[i]))
            continue;
        dv_put(out, "%*s%-*s = ", indent + 4, "", width,
               dv_target_fields[i].name);
        put_field(out, t, &dv_target_fields[i]);
        dv_put(out, "\n");
    }
    dv_put(out, "%*s}\n", indent, "");
}

char *dv_target_text(const dv_target *t)
{
    dv_text out = {0};
    dv_target_print(&out, t, 0);
    return dv_text_take(&out);
}

void dv_target_print_properties(dv_text *out)
{
    dv_target defaults;
    dv_target_init(&defaults, "");
    for (int i = 0; i < DV_N_FIELDS; i++) {
        const dv_target_field *f = &dv_target_fields[i];
        dv_text def = {0};
        put_field(&def, &defaults, f);
        out->failed |= def.failed;
        dv_put(out, "%-16s  %-9s  %-6s  %s\n", f->name,
               dv_target_kinds[f->kind].name, def.at ? def.at : "", f->meaning);
        dv_text_free(&def);
    }
}
