// Implements einsums as objects: a core that is planned once, execs that run
// it, and the single call that does both.
#include "einsum/einsum.h"
#include "base/options.h"
#include "base/dtype.h"
#include "base/math.h"
#include "base/plural.h"
#include "divvy/run.h"
#include <inttypes.h>
#include <string.h>

static dv_status copy_output_shape(dv_einsum_core *c, dv_diag *diag)
{
    c->out_shape = DV_NEW(&c->arena, int64_t, c->f.out.n_dims);
    if (!c->out_shape)
        return dv_nomem(diag);
    for (int d = 0; d < c->f.out.n_dims; d++)
        c->out_shape[d] = c->f.extent[c->f.out.id[d]];
    return DV_OK;
}

// Multiplications and additions below which one thread is faster than several,
// which have to wait for each other.
static const double few_flops = 1 << 20;

static dv_status make_plan(dv_einsum_core *c, const dv_einsum_options *o,
                           dv_diag *diag)
{
    dv_target *host = NULL;
    dv_plan_options one = DV_PLAN_OPTIONS_INIT;
    const dv_plan_options *plan = o->plan;
    dv_text text = {0};
    one.threads = 1;
    if (!plan && !o->target && c->path.flops < few_flops)
        plan = &one;
    dv_path_program(&text, &c->f, &c->path, c->in, c->dtype);
    dv_status st = text.failed
                       ? dv_nomem(diag)
                       : dv_program_parse(&c->program, text.at, text.len,
                                          "einsum", NULL, 0, diag);
    dv_text_free(&text);
    if (st == DV_OK && !o->target)
        st = dv_target_load(&host, "host", diag);
    if (st == DV_OK)
        st = dv_plan_create(&c->plan, c->program, o->target ? o->target : host,
                            plan, diag);
    dv_target_destroy(host);
    return st;
}

dv_status dv_einsum_check(const char *expression, const dv_array *in,
                          size_t n_in, const dv_einsum_options *o,
                          dv_diag *diag)
{
    if (!expression || (n_in && !in))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "%s is NULL",
                       expression ? "in" : "expression");
    if (o->result_dtype < -1 || o->result_dtype >= DV_N_DTYPES)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "there is no dtype %d",
                       o->result_dtype);
    for (size_t i = 0; i < n_in; i++) {
        if ((int)in[i].dtype < 0 || (int)in[i].dtype >= DV_N_DTYPES)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "operand %zu: there is no dtype %d", i,
                           (int)in[i].dtype);
        if (in[i].n_dims < 0 || in[i].n_dims > DV_MAX_DIMS)
            return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                           "operand %zu has %d dim%s, at most %d are supported",
                           i, in[i].n_dims, DV_PLURAL(in[i].n_dims, "", "s"),
                           (int)DV_MAX_DIMS);
        if (in[i].n_dims > 0 && !in[i].shape)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "operand %zu has %d dim%s and no shape", i,
                           in[i].n_dims, DV_PLURAL(in[i].n_dims, "", "s"));
    }
    return DV_OK;
}

static dv_status fill_core(dv_einsum_core *c, const char *expression,
                           const dv_array *in, size_t n_in,
                           const dv_einsum_options *o, dv_diag *diag)
{
    DV_TRY(dv_einsum_check(expression, in, n_in, o, diag));
    DV_TRY(dv_formula_parse(&c->f, expression, strlen(expression), &c->arena,
                            diag));
    DV_TRY(dv_formula_resolve(&c->f, in, n_in, &c->arena, diag));
    DV_TRY(dv_einsum_lay_out(c, in, diag));
    DV_TRY(copy_output_shape(c, diag));
    c->dtype = o->result_dtype < 0 ? dv_einsum_dtype(in, n_in)
                                   : (dv_dtype)o->result_dtype;
    DV_TRY(
        dv_path_find(&c->path, &c->f, o->path, o->max_elems, &c->arena, diag));
    return dv_formula_is_empty(&c->f) ? DV_OK : make_plan(c, o, diag);
}

dv_status dv_einsum_core_create(dv_einsum_core **out, const char *expression,
                                const dv_array *in, size_t n_in,
                                const dv_einsum_options *options, dv_diag *diag)
{
    dv_arena arena = {0};
    dv_einsum_core *c = DV_NEW(&arena, dv_einsum_core, 1);
    if (!c)
        return dv_nomem(diag);
    c->arena = arena;
    atomic_init(&c->refs, 1);
    dv_status st = fill_core(c, expression, in, n_in, options, diag);
    if (st == DV_OK)
        *out = c;
    else
        dv_einsum_core_drop(c);
    return st;
}

void dv_einsum_core_drop(dv_einsum_core *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) > 1)
        return;
    dv_plan_destroy(c->plan);
    dv_program_destroy(c->program);
    dv_arena arena = c->arena;
    dv_arena_free(&arena);
}

// An operand or the output of an exec (the object that runs an einsum), and the
// memory bound to it.
typedef struct slot {
    dv_dtype dtype;
    int n_dims;
    const int64_t *shape; // in the order of the caller's dims
    const int8_t *order;  // of the program's dims; NULL: the caller's
    int64_t size_bytes;
    void *data;                   // the caller's memory
    int64_t strides[DV_MAX_DIMS]; // of `data`, in elements
} slot;

struct dv_einsum_exec {
    dv_einsum_core *core;
    dv_exec *exec; // runs the program; NULL if the sum is over no elements
    slot *slots;   // one per operand, then one for the output
    size_t n_in;
};

const dv_einsum_core *dv_einsum_core_of(const dv_einsum_exec *e)
{
    return e->core;
}

dv_exec *dv_einsum_inner(const dv_einsum_exec *e)
{
    return e->exec;
}

static dv_status set_slot(slot *s, dv_dtype dtype, int n_dims,
                          const int64_t *shape, dv_diag *diag)
{
    s->dtype = dtype;
    s->n_dims = n_dims;
    s->shape = shape;
    s->size_bytes = dv_dtype_get(dtype)->size_bytes;
    int fits = 1, empty = 0;
    for (int d = 0; d < n_dims; d++) {
        empty |= shape[d] == 0;
        fits = fits &&
               (empty || dv_mul_i64(&s->size_bytes, s->size_bytes, shape[d]));
    }
    if (empty)
        s->size_bytes = 0;
    return fits || empty ? DV_OK
                         : dv_fail(diag, DV_E_OVERFLOW, DV_NOWHERE,
                                   "a tensor has more than 2^63 - 1 bytes");
}

// Prepares kernels for the strides of the operands that are not row-major.
static dv_status create_inner(dv_einsum_exec *e, dv_diag *diag)
{
    const dv_einsum_core *c = e->core;
    dv_exec_options o = DV_EXEC_OPTIONS_INIT;
    dv_strides *strides = dv_alloc((e->n_in + 1) * sizeof *strides);
    if (!strides)
        return dv_nomem(diag);
    for (size_t i = 0; i < e->n_in; i++)
        if (c->layouts[i].strides)
            strides[o.n_strides++] = (dv_strides){c->program->tensors[i].name,
                                                  c->layouts[i].strides};
    o.strides = strides;
    dv_status st = dv_exec_create_with(&e->exec, c->plan, &o, diag);
    dv_release(strides);
    return st;
}

static dv_status fill_exec(dv_einsum_exec *e, dv_diag *diag)
{
    const dv_einsum_core *c = e->core;
    size_t bytes = (e->n_in + 1) * sizeof *e->slots;
    e->slots = dv_alloc(bytes);
    if (!e->slots)
        return dv_nomem(diag);
    memset(e->slots, 0, bytes);
    for (size_t i = 0; i < e->n_in; i++) {
        const dv_operand_layout *l = &c->layouts[i];
        slot *s = &e->slots[i];
        DV_TRY(set_slot(s, c->in[i].dtype, c->in[i].n_dims, l->shape, diag));
        s->order = l->order;
    }
    slot *out = &e->slots[e->n_in];
    DV_TRY(set_slot(out, c->dtype, c->f.out.n_dims, c->out_shape, diag));
    return c->plan ? create_inner(e, diag) : DV_OK;
}

dv_status dv_einsum_exec_create(dv_einsum_exec **out, dv_einsum_core *core,
                                dv_diag *diag)
{
    dv_einsum_exec *e = dv_alloc(sizeof *e);
    if (!e) {
        dv_einsum_core_drop(core);
        return dv_nomem(diag);
    }
    *e = (dv_einsum_exec){.core = core, .n_in = (size_t)core->f.n_in};
    dv_status st = fill_exec(e, diag);
    if (st == DV_OK)
        *out = e;
    else
        dv_einsum_destroy(e);
    return st;
}

static dv_status read_options(dv_einsum_options *o,
                              const dv_einsum_options *given, dv_diag *diag)
{
    DV_TRY(dv_options_read(o, sizeof *o, given, "dv_einsum_options", diag));
    return dv_options_enum((int)o->path, DV_PATH_GREEDY + 1, "path", diag);
}

dv_status dv_einsum_create(dv_einsum_exec **out, const char *expression,
                           const dv_array *in, size_t n_in,
                           const dv_einsum_options *options, dv_diag *diag)
{
    dv_einsum_options o = DV_EINSUM_OPTIONS_INIT;
    dv_einsum_core *core = NULL;
    DV_TRY(read_options(&o, options, diag));
    DV_TRY(o.cache
               ? dv_einsum_cache_core(&core, expression, in, n_in, &o, diag)
               : dv_einsum_core_create(&core, expression, in, n_in, &o, diag));
    return dv_einsum_exec_create(out, core, diag);
}

void dv_einsum_destroy(dv_einsum_exec *e)
{
    if (!e)
        return;
    dv_exec_destroy(e->exec);
    dv_release(e->slots);
    dv_einsum_core_drop(e->core);
    dv_release(e);
}

// Checks the strides of an output: two elements must not share an address. Only
// the obvious case of a stride of 0 is detected.
static dv_status check_strides(const slot *s, const int64_t *strides,
                               dv_diag *diag)
{
    for (int d = 0; d < s->n_dims; d++)
        if (strides[d] == 0 && s->shape[d] > 1)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "the output has a stride of 0 in dim %d", d);
    return DV_OK;
}

dv_status dv_einsum_bind(dv_einsum_exec *e, size_t i, void *data,
                         const int64_t *strides, dv_diag *diag)
{
    if (i > e->n_in)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "there is no operand %zu: there are %zu", i, e->n_in);
    slot *s = &e->slots[i];
    if (!data && s->size_bytes)
        return dv_fail(
            diag, DV_E_USAGE, DV_NOWHERE,
            i == e->n_in ? "the output is NULL" : "operand %zu is NULL", i);
    if (strides && i == e->n_in)
        DV_TRY(check_strides(s, strides, diag));
    s->data = data;
    if (strides)
        memcpy(s->strides, strides, (size_t)s->n_dims * sizeof *strides);
    else
        dv_row_strides(s->n_dims, s->shape, s->strides);
    if (!e->exec)
        return DV_OK;
    int64_t in_order[DV_MAX_DIMS];
    for (int d = 0; d < s->n_dims; d++)
        in_order[d] = s->strides[s->order ? s->order[d] : d];
    return dv_exec_bind_strided(e->exec, (int)i, data, in_order, diag);
}

// Sets the part of the output at `at` to 0: all elements along dim `d` and the
// dims after it.
static void clear(const slot *s, int d, char *at)
{
    size_t size = (size_t)dv_dtype_get(s->dtype)->size_bytes;
    if (d == s->n_dims) {
        memset(at, 0, size);
        return;
    }
    for (int64_t i = 0; i < s->shape[d]; i++)
        clear(s, d + 1, at + (ptrdiff_t)size * (i * s->strides[d]));
}

dv_status dv_einsum_run(dv_einsum_exec *e, dv_diag *diag)
{
    const slot *out = &e->slots[e->n_in];
    for (size_t i = 0; i <= e->n_in; i++)
        if (!e->slots[i].data && e->slots[i].size_bytes)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           i == e->n_in ? "the output is not bound"
                                        : "operand %zu is not bound",
                           i);
    if (e->exec)
        return dv_exec_run(e->exec, diag);
    // There is no program: a sum over no elements is 0.
    if (out->size_bytes)
        clear(out, 0, out->data);
    return DV_OK;
}

static dv_status check_output(const dv_einsum_exec *e, const dv_array *out,
                              dv_diag *diag)
{
    const slot *s = &e->slots[e->n_in];
    if (out->n_dims != s->n_dims)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "the result has %d dim%s, the output %d", s->n_dims,
                       DV_PLURAL(s->n_dims, "", "s"), out->n_dims);
    for (int d = 0; d < s->n_dims; d++)
        if (out->shape[d] != s->shape[d])
            return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                           "dim %d of the result is %" PRId64
                           " long, that of the output %" PRId64,
                           d, s->shape[d], out->shape[d]);
    return DV_OK;
}

// Returns the number of bytes that an array occupies without gaps; 0 if it is
// empty or has gaps, so that its memory is not compared with another's.
static size_t dense_bytes(const dv_array *x)
{
    int64_t step = 1;
    for (int d = x->n_dims - 1; d >= 0; d--) {
        if (x->strides && x->shape[d] > 1 && x->strides[d] != step)
            return 0;
        step *= x->shape[d];
    }
    return (size_t)(step * dv_dtype_get(x->dtype)->size_bytes);
}

// Returns whether two gap-free arrays overlap. Arrays with gaps may interleave
// without sharing elements and are not compared.
static int overlaps(const dv_array *x, const dv_array *y)
{
    uintptr_t a = (uintptr_t)x->data, b = (uintptr_t)y->data;
    size_t m = dense_bytes(x), n = dense_bytes(y);
    return a && b && m && n && a < b + n && b < a + m;
}

static dv_status bind_and_run(dv_einsum_exec *e, const dv_array *in,
                              const dv_array *out, dv_diag *diag)
{
    DV_TRY(check_output(e, out, diag));
    for (size_t i = 0; i < e->n_in; i++)
        if (overlaps(&in[i], out))
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "the output lies where operand %zu does", i);
    for (size_t i = 0; i < e->n_in; i++)
        DV_TRY(dv_einsum_bind(e, i, in[i].data, in[i].strides, diag));
    DV_TRY(dv_einsum_bind(e, e->n_in, out->data, out->strides, diag));
    return dv_einsum_run(e, diag);
}

dv_status dv_einsum(const char *expression, const dv_array *in, size_t n_in,
                    const dv_array *out, const dv_einsum_options *options,
                    dv_diag *diag)
{
    dv_einsum_options o = DV_EINSUM_OPTIONS_INIT;
    dv_einsum_exec *e = NULL;
    DV_TRY(read_options(&o, options, diag));
    if (!out || (out->n_dims > 0 && !out->shape))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "the output %s",
                       out ? "has no shape" : "is NULL");
    if ((int)out->dtype < 0)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the output: there is no dtype %d", (int)out->dtype);
    o.result_dtype = (int)out->dtype;
    DV_TRY(o.cache ? dv_einsum_cache_take(&e, expression, in, n_in, &o, diag)
                   : dv_einsum_create(&e, expression, in, n_in, &o, diag));
    dv_status st = bind_and_run(e, in, out, diag);
    if (o.cache)
        dv_einsum_cache_give(o.cache, e);
    else
        dv_einsum_destroy(e);
    return st;
}

dv_array dv_einsum_output(const dv_einsum_exec *e)
{
    const slot *s = &e->slots[e->n_in];
    return (dv_array){s->dtype, s->n_dims, s->shape, NULL, NULL};
}

int dv_einsum_is_view(const dv_einsum_exec *e, int *dims)
{
    const dv_formula *f = &e->core->f;
    const int8_t *order = e->core->layouts[0].order;
    if (f->n_in != 1 || f->in[0].n_dims < f->out.n_dims || f->is_tree)
        return 0;
    for (int k = 0; k < f->in[0].n_dims; k++) {
        int d = 0;
        while (d < f->out.n_dims && f->out.id[d] != f->in[0].id[k])
            d++;
        if (d == f->out.n_dims)
            return 0;
        dims[order ? order[k] : k] = d;
    }
    return 1;
}

double dv_einsum_flops(const dv_einsum_exec *e)
{
    return e->core->path.flops;
}

const dv_program *dv_einsum_program(const dv_einsum_exec *e)
{
    return e->core->program;
}

const dv_plan *dv_einsum_plan(const dv_einsum_exec *e)
{
    return e->core->plan;
}

char *dv_einsum_text(const dv_einsum_exec *e)
{
    dv_text out = {0};
    dv_path_print(&out, &e->core->f, &e->core->path);
    return dv_text_take(&out);
}

char *dv_einsum_json(const dv_einsum_exec *e)
{
    dv_text out = {0};
    dv_json j = {.out = &out};
    dv_json_open(&j, NULL, '{');
    dv_path_json(&j, &e->core->f, &e->core->path);
    dv_json_close(&j);
    return dv_text_take(&out);
}
