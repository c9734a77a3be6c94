// The JSON of the contest: a reader of problems that says where they are wrong,
// and a writer of schedules.
#include "fuse/contest.h"
#include "base/json.h"
#include "base/jsonread.h"
#include "fuse/fuse.h"
#include <inttypes.h>
#include <string.h>

typedef struct reader {
    const dv_source *src;
    const dv_jval *root;
    dv_arena *arena;
    dv_diag *diag;
} reader;

#define WRONG(r, v, ...)                                                       \
    dv_fail((r)->diag, DV_E_FORMAT, (dv_loc){(r)->src, (v)->off}, __VA_ARGS__)

static dv_status get(const reader *r, const char *key, const dv_jval **out)
{
    *out = dv_jget(r->root, key);
    return *out ? DV_OK : WRONG(r, r->root, "there is no field '%s'", key);
}

// Gets the array with this key; it must have `n` items, unless n is -1.
static dv_status get_list(const reader *r, const char *key, int32_t n,
                          const dv_jval **out)
{
    DV_TRY(get(r, key, out));
    if ((*out)->kind != DV_JARRAY)
        return WRONG(r, *out, "'%s' is not a list", key);
    if (n >= 0 && (*out)->n != n)
        return WRONG(r, *out, "'%s' has %" PRId32 " items, not %" PRId32, key,
                     (*out)->n, n);
    return DV_OK;
}

static dv_status get_int(const reader *r, const dv_jval *v, int64_t *out)
{
    // Accept whole numbers that are written with a decimal point.
    if (v->kind == DV_JFLOAT && v->f >= -1e15 && v->f <= 1e15 &&
        v->f == (double)(int64_t)v->f) {
        *out = (int64_t)v->f;
        return DV_OK;
    }
    if (v->kind != DV_JINT)
        return WRONG(r, v, "a whole number is needed");
    *out = v->i;
    return DV_OK;
}

static dv_status get_number(const reader *r, const dv_jval *v, double *out)
{
    if (v->kind != DV_JINT && v->kind != DV_JFLOAT)
        return WRONG(r, v, "a number is needed");
    *out = v->f;
    return DV_OK;
}

static dv_status read_tensors(const reader *r, dv_fuse_problem *out)
{
    const dv_jval *widths, *heights;
    DV_TRY(get_list(r, "widths", -1, &widths));
    DV_TRY(get_list(r, "heights", widths->n, &heights));
    dv_fuse_tensor *t = DV_NEW(r->arena, dv_fuse_tensor, widths->n);
    if (!t)
        return dv_nomem(r->diag);
    for (int32_t i = 0; i < widths->n; i++) {
        DV_TRY(get_int(r, &widths->items[i], &t[i].width));
        DV_TRY(get_int(r, &heights->items[i], &t[i].height));
    }
    out->tensors = t;
    out->n_tensors = (size_t)widths->n;
    return DV_OK;
}

static dv_status read_tensor(const reader *r, const dv_fuse_problem *p,
                             const dv_jval *v, int32_t *out)
{
    int64_t t = -1;
    DV_TRY(get_int(r, v, &t));
    if (t < 0 || (size_t)t >= p->n_tensors)
        return WRONG(r, v, "there is no tensor %" PRId64 "; there are %zu", t,
                     p->n_tensors);
    *out = (int32_t)t;
    return DV_OK;
}

static dv_status read_kind(const reader *r, const dv_jval *v, dv_fuse_kind *out)
{
    const char *name = v->kind == DV_JSTRING ? v->s : "";
    *out = strcmp(name, "MatMul") ? DV_FUSE_POINTWISE : DV_FUSE_MATMUL;
    if (*out == DV_FUSE_POINTWISE && strcmp(name, "Pointwise") != 0)
        return WRONG(r, v, "an op is a \"MatMul\" or \"Pointwise\"");
    return DV_OK;
}

static dv_status read_ops(const reader *r, dv_fuse_problem *out)
{
    const dv_jval *inputs, *outputs, *costs, *kinds;
    DV_TRY(get_list(r, "inputs", -1, &inputs));
    int32_t n = inputs->n;
    DV_TRY(get_list(r, "outputs", n, &outputs));
    DV_TRY(get_list(r, "base_costs", n, &costs));
    DV_TRY(get_list(r, "op_types", n, &kinds));
    dv_fuse_op *ops = DV_NEW(r->arena, dv_fuse_op, n);
    if (!ops)
        return dv_nomem(r->diag);
    for (int32_t o = 0; o < n; o++) {
        const dv_jval *in = &inputs->items[o], *to = &outputs->items[o];
        if (in->kind != DV_JARRAY)
            return WRONG(r, in, "the inputs of op %" PRId32 " are not a list",
                         o);
        if (to->kind != DV_JARRAY || to->n != 1)
            return WRONG(r, to, "op %" PRId32 " must have one output", o);
        int32_t *tensors = DV_NEW(r->arena, int32_t, in->n);
        if (!tensors)
            return dv_nomem(r->diag);
        for (int32_t i = 0; i < in->n; i++)
            DV_TRY(read_tensor(r, out, &in->items[i], &tensors[i]));
        ops[o].inputs = tensors;
        ops[o].n_inputs = (size_t)in->n;
        DV_TRY(read_tensor(r, out, &to->items[0], &ops[o].output));
        DV_TRY(read_kind(r, &kinds->items[o], &ops[o].kind));
        DV_TRY(get_number(r, &costs->items[o], &ops[o].base_cost));
    }
    out->ops = ops;
    out->n_ops = (size_t)n;
    return DV_OK;
}

dv_status dv_fuse_parse(dv_fuse_problem *out, const dv_source *src,
                        dv_arena *arena, dv_diag *diag)
{
    reader r = {.src = src, .arena = arena, .diag = diag};
    const dv_jval *v;
    *out = (dv_fuse_problem){0};
    DV_TRY(dv_json_parse(&r.root, src, arena, diag));
    DV_TRY(read_tensors(&r, out));
    DV_TRY(read_ops(&r, out));
    DV_TRY(get(&r, "fast_memory_capacity", &v));
    DV_TRY(get_int(&r, v, &out->capacity_elems));
    DV_TRY(get(&r, "slow_memory_bandwidth", &v));
    DV_TRY(get_number(&r, v, &out->bandwidth));
    DV_TRY(get_list(&r, "native_granularity", 2, &v));
    DV_TRY(get_int(&r, &v->items[0], &out->native_width));
    return get_int(&r, &v->items[1], &out->native_height);
}

static void put_list(dv_text *out, const int32_t *v, size_t n)
{
    dv_put(out, "[");
    for (size_t i = 0; i < n; i++)
        dv_put(out, "%s%" PRId32, i ? ", " : "", v[i]);
    dv_put(out, "]");
}

static void put_order(dv_text *out, const dv_fuse_entry *e)
{
    if (!e->order) {
        dv_put(out, "null");
        return;
    }
    for (size_t i = 0; i < e->n_tiles; i++)
        dv_put(out, "%s%" PRId64, i ? ", " : "[", e->order[i]);
    dv_put(out, "]");
}

void dv_fuse_print(dv_text *out, const dv_fuse_schedule *s)
{
    static const char *const keys[] = {"subgraphs", "granularities",
                                       "tensors_to_retain", "traversal_orders",
                                       "subgraph_latencies"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        dv_put(out, "%s\"%s\": [", k ? "],\n " : "{", keys[k]);
        for (size_t i = 0; i < s->n_entries; i++) {
            const dv_fuse_entry *e = &s->entries[i];
            if (i)
                dv_put(out, ", ");
            if (k == 0)
                put_list(out, e->ops, e->n_ops);
            else if (k == 1)
                dv_put(out, "[%" PRId64 ", %" PRId64 ", %" PRId64 "]", e->width,
                       e->height, e->depth);
            else if (k == 2)
                put_list(out, e->retained, e->n_retained);
            else if (k == 3)
                put_order(out, e);
            else
                dv_put_double(out, e->latency);
        }
    }
    dv_put(out, "]}\n");
}
