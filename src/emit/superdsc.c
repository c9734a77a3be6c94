// Writes the plan of a machine with sticks (units of main memory) as JSON for
// the back end of Torch-Spyre: a file for each op and each copy, and a list.
//
//   bundle.json   arguments, addresses and steps
//   sdsc_N.json   step number N
//
// An op with an expression of several functions becomes several steps; the
// later ones overwrite its result. Before an op come the copies that fill the
// homes (places of resident tensors), after it the copy that stores one. If
// cores compute parts of sums, the sums are made in main memory and loaded.
#include "emit/superdsc.h"
#include "base/math.h"
#include "layout/layout.h"
#include "plan/view.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const pointwise_labels[] = {"mb", "x",  "y", "i",
                                               "j",  "ki", "kj"};
static const char *const product_labels[] = {"mb", "x", "y", "kj", "ki"};
enum { N_POINTWISE_LABELS = 7, N_PRODUCT_LABELS = 5 };

// The names of functions in Torch-Spyre's back end, and whether it has them in
// f32.
typedef struct sdsc_func {
    const char *name;
    int in_f32;
} sdsc_func;

static const sdsc_func functions[DV_N_FNS] = {
    [DV_FN_LT] = {"lesserthan", 1},   [DV_FN_LE] = {"lesserequal", 1},
    [DV_FN_GT] = {"greaterthan", 1},  [DV_FN_GE] = {"greaterequal", 1},
    [DV_FN_EQ] = {"equal", 1},        [DV_FN_NE] = {"notequal", 1},
    [DV_FN_ADD] = {"add", 1},         [DV_FN_SUB] = {"sub", 1},
    [DV_FN_MUL] = {"mul", 1},         [DV_FN_DIV] = {"realdiv", 1},
    [DV_FN_NEG] = {"neg", 1},         [DV_FN_EXP] = {"exp", 1},
    [DV_FN_LOG] = {"log", 0},         [DV_FN_SQRT] = {"sqrt", 1},
    [DV_FN_RSQRT] = {"rsqrt", 1},     [DV_FN_TANH] = {"tanh", 0},
    [DV_FN_SIGMOID] = {"sigmoid", 1}, [DV_FN_SILU] = {"silu", 1},
    [DV_FN_GELU] = {"gelufwd", 0},    [DV_FN_RELU] = {"relufwd", 1},
    [DV_FN_ABS] = {"abs", 1},         [DV_FN_MIN] = {"minimum", 1},
    [DV_FN_MAX] = {"maximum", 1},     [DV_FN_SELECT] = {"where3", 1},
    [DV_FN_FLOOR] = {"floor", 1},
};

// The back end's names of reductions: along the dim that is cut into sticks
// (128-byte units), and along other dims.
static const char *const reductions[][2] = {
    [DV_RED_SUM] = {"sum", "sumnonstick"},
    [DV_RED_MAX] = {"max", "maxnonstick"},
    [DV_RED_MIN] = {"min", "minnonstick"},
    [DV_RED_PROD] = {NULL, "prodnonstick"},
    [DV_RED_MEAN] = {"mean", "meannonstick"},
};

const char *dv_sdsc_format(dv_dtype t)
{
    return t == DV_F16 || t == DV_BF16 ? "SEN169_FP16"
           : t == DV_F32               ? "IEEE_FP32"
                                       : NULL;
}

#define REFUSE(s, ...)                                                         \
    dv_fail((s)->e->diag, DV_E_USAGE, DV_NOWHERE, __VA_ARGS__)

// Finds or adds the entry for a tensor in main memory, or for a constant.
static int32_t place_of(sdsc *s, int32_t tensor, double value, dv_dtype dtype)
{
    for (int32_t i = 0; i < s->n_places; i++) {
        const sdsc_place *p = &s->places[i];
        if (p->tensor == tensor &&
            (tensor >= 0 ||
             (p->dtype == dtype && !memcmp(&p->value, &value, sizeof value))))
            return i;
    }
    sdsc_place *p = DV_PUSH(&s->e->arena, sdsc_place, s->places, s->n_places,
                            s->cap_places);
    if (!p)
        return -1;
    *p = (sdsc_place){.tensor = tensor, .value = value, .dtype = dtype};
    const dv_tensor *t = tensor < 0 ? NULL : &s->e->p->tensors[tensor];
    if (!t || t->is_input || t->is_output) {
        p->argument = s->n_arguments++;
    } else {
        p->argument = -1;
        p->offset = s->pool_bytes;
        s->pool_bytes += s->e->plan->layouts[tensor].bytes;
    }
    return s->n_places - 1;
}

// -- Dims and owners ----------------------------------------------------------

static int add_dim(sdsc_step *st, const char *label, int64_t len, int64_t split)
{
    int d = st->n_dims++;
    st->dim[d] = (sdsc_dim){label, len, len};
    st->owners.splits[d] = split;
    return d;
}

static dv_status reserve_owners(sdsc *s, sdsc_owners *o)
{
    size_t n = (size_t)s->e->plan->target.cores;
    o->core = DV_NEW(&s->e->arena, int64_t, n);
    o->slot = DV_NEW(&s->e->arena, int64_t, n * SDSC_MAX_DIMS);
    return o->core && o->slot ? DV_OK : dv_nomem(s->e->diag);
}

// Sets which slices of an op's variables each core has; var_dim has the step's
// dim for each variable, or -1. If several cores have partial sums of the same
// results, `finished` keeps only the last one, which has the complete sums.
static dv_status op_owners(sdsc *s, sdsc_step *st, int32_t i,
                           const int *var_dim, int finished)
{
    const dv_plan *plan = s->e->plan;
    const dv_op *op = &plan->ops->ops[i];
    const dv_group *g = &plan->groups[dv_group_of(plan, i)];
    sdsc_owners *o = &st->owners;
    DV_TRY(reserve_owners(s, o));
    for (int64_t core = 0; core < plan->target.cores; core++) {
        int64_t number = dv_group_tile(g, core, 0), n_parts;
        dv_tile t;
        if (number < 0)
            continue;
        dv_plan_tile(&t, plan, i, number);
        if (finished && dv_tile_part(op, &t, &n_parts) != n_parts - 1)
            continue;
        for (int v = 0; v < op->n_vars; v++)
            if (var_dim[v] >= 0)
                o->slot[o->n_cores * SDSC_MAX_DIMS + var_dim[v]] = t.slot[v];
        o->core[o->n_cores++] = core;
    }
    return DV_OK;
}

// Sets which slices of a tensor's dims each core holds; map has the dim of the
// step for each dim of the tensor, or -1.
static dv_status view_owners(sdsc *s, sdsc_owners *o, const dv_view *v,
                             const int *map)
{
    int64_t lo[DV_MAX_DIMS], hi[DV_MAX_DIMS];
    DV_TRY(reserve_owners(s, o));
    for (int d = 0; d < SDSC_MAX_DIMS; d++)
        o->splits[d] = 1;
    for (int d = 0; d < v->n_dims; d++)
        if (map[d] >= 0)
            o->splits[map[d]] = v->cut[d].n;
    for (int64_t core = 0; core < s->e->plan->target.cores; core++) {
        if (!dv_view_box(v, core, 0, lo, hi))
            continue;
        for (int d = 0; d < v->n_dims; d++)
            if (map[d] >= 0)
                o->slot[o->n_cores * SDSC_MAX_DIMS + map[d]] =
                    lo[d] / v->cut[d].slice;
        o->core[o->n_cores++] = core;
    }
    return DV_OK;
}

// Fails unless all slices of a dim are equal, and have whole sticks (the
// memory's 128-byte units) if the dim is cut into these.
static dv_status check_even(const sdsc *s, const char *name, const char *var,
                            const sdsc_dim *d, int64_t splits, int64_t slice,
                            int64_t eps)
{
    int in_sticks = d->padded != d->len || eps;
    if (splits == 1 || (d->padded == splits * slice &&
                        (!in_sticks || !eps || slice % eps == 0)))
        return DV_OK;
    return REFUSE(s,
                  "%s: %s has %" PRId64 " values in %" PRId64
                  " slices of %" PRId64 ", and SuperDSC has one length for all "
                  "slices, in whole sticks: divvy emit of the program plans so",
                  name, var, d->len, splits, slice);
}

// -- Operands -----------------------------------------------------------------

static sdsc_operand *add_operand(sdsc_step *st, dv_dtype dtype)
{
    sdsc_operand *a = &st->at[st->n_operands++];
    *a = (sdsc_operand){.dtype = dtype, .stick = -1};
    return a;
}

// Lists the dims by which a tensor is stored, innermost first; map has the dim
// of the step for each dim of the tensor, or -1.
static void set_dims(sdsc_operand *a, const dv_layout *l, const int *map)
{
    for (int d = l->n_dims - 2; d >= 0; d--)
        if (l->host[d] >= 0 && map[l->host[d]] >= 0)
            a->dim[a->n_own++] = (int8_t)map[l->host[d]];
    if (!l->sparse && l->stick_dim >= 0)
        a->stick = map[l->stick_dim];
    for (int k = 0; k < a->n_own; k++)
        a->scale[a->dim[k]] = 1;
    a->n_dims = a->n_own;
}

static dv_status set_place(sdsc *s, sdsc_operand *a, int32_t tensor,
                           double value)
{
    a->place = place_of(s, tensor, value, a->dtype);
    return a->place < 0 ? dv_nomem(s->e->diag) : DV_OK;
}

// Sets the address of the tensor of op i's access k: in the scratchpads, if
// they hold it as the op needs it, otherwise in main memory.
static dv_status set_home(sdsc *s, sdsc_operand *a, int32_t i, int k,
                          const dv_view *view)
{
    const dv_plan *plan = s->e->plan;
    const dv_op *op = &plan->ops->ops[i];
    const dv_scratch *sc = &plan->scratch;
    int32_t tensor = dv_op_access(op, k)->tensor;
    const char *name = plan->ops->tensors[tensor].name;
    int32_t h = sc->home_of && sc->home_of[i] ? sc->home_of[i][k] : -1;
    if (k < op->n_reads && sc->ring_of && sc->ring_of[i] &&
        sc->ring_of[i][k] >= 0)
        return REFUSE(s,
                      "%s reads %s in the scratchpads of other cores while it "
                      "runs; Torch-Spyre's back end copies it before: divvy "
                      "emit of the program plans so, and a target with "
                      "ring_cores = 1",
                      op->name, name);
    // Partial sums are always added in main memory.
    if (h < 0 || view->n_parts)
        return set_place(s, a, tensor, 0);
    dv_view held;
    const char *why = dv_home_view(&held, plan, &sc->homes[h]);
    if (why)
        return REFUSE(s, "%s is resident, but %s", name, why);
    if (!dv_view_same(&held, view))
        return REFUSE(s,
                      "%s touches another part of %s than the scratchpads "
                      "hold, which a start address cannot say",
                      op->name, name);
    a->place = -1;
    a->address = sc->homes[h].address;
    return DV_OK;
}

// Adds the tensor of an op's access k as an operand of a step; var_dim has the
// step's dim for each variable.
static dv_status add_access(sdsc *s, sdsc_step *st, int32_t i, int k,
                            const int *var_dim)
{
    const dv_plan *plan = s->e->plan;
    const dv_op *op = &plan->ops->ops[i];
    int32_t tensor = dv_op_access(op, k)->tensor;
    const dv_tensor *t = &plan->ops->tensors[tensor];
    int map[DV_MAX_DIMS];
    dv_view v;
    const char *why = dv_view_make(&v, plan, i, k);
    if (why)
        return REFUSE(s,
                      "%s touches %s, and %s: SuperDSC has whole tensors "
                      "only",
                      op->name, t->name, why);
    if (t->dtype != plan->ops->tensors[op->write.tensor].dtype)
        return REFUSE(
            s,
            "%s is %s and reads %s: %s; functions of the back end "
            "have operands and results of one type",
            op->name,
            dv_dtype_get(plan->ops->tensors[op->write.tensor].dtype)->name,
            t->name, dv_dtype_get(t->dtype)->name);
    if (st->n_operands == SDSC_MAX_OPERANDS)
        return REFUSE(s, "%s has more than %d operands", op->name,
                      SDSC_MAX_OPERANDS);
    for (int d = 0; d < t->n_dims; d++)
        map[d] = v.var[d] < 0 ? -1 : var_dim[v.var[d]];
    sdsc_operand *a = add_operand(st, t->dtype);
    set_dims(a, &plan->layouts[tensor], map);
    return set_home(s, a, i, k, &v);
}

static dv_status add_constant(sdsc *s, sdsc_step *st, double value,
                              dv_dtype dtype)
{
    return set_place(s, add_operand(st, dtype), -1, value);
}

// -- Layouts ------------------------------------------------------------------

// Rounds dims that are cut into sticks (the memory's 128-byte units) up to
// whole sticks. Refuses tensors that have such a dim without its padding.
static dv_status pad_dims(sdsc *s, sdsc_step *st, const char *name)
{
    for (int k = 0; k < st->n_operands; k++) {
        const sdsc_operand *a = &st->at[k];
        int64_t eps = dv_stick_elems(&s->e->plan->target, a->dtype);
        if (a->stick >= 0)
            st->dim[a->stick].padded =
                dv_ceil_div(st->dim[a->stick].len, eps) * eps;
    }
    for (int k = 0; k < st->n_operands; k++) {
        const sdsc_operand *a = &st->at[k];
        for (int i = 0; i < a->n_own; i++) {
            const sdsc_dim *d = &st->dim[a->dim[i]];
            if (a->dim[i] != a->stick && d->padded != d->len)
                return REFUSE(s,
                              "%s: a dim of %" PRId64 " values is cut into "
                              "sticks in one tensor and not in another, which "
                              "lacks the padding to %" PRId64,
                              name, d->len, d->padded);
        }
    }
    return DV_OK;
}

// Adds to an operand's list a dim of the step that its tensor lacks.
static void list_absent(sdsc_operand *a, int dim, int scale)
{
    a->dim[a->n_dims++] = (int8_t)dim;
    a->scale[dim] = scale;
}

// Makes each operand list all dims of the step, in the order of operand `ref`,
// which has them all. If that one has only one element per stick (128-byte
// unit), all operands get an additional dim of one stick.
static dv_status list_dims(sdsc *s, sdsc_step *st, int ref, const char *name)
{
    const sdsc_operand *r = &st->at[ref];
    int n = r->n_own, inside = -1;
    int8_t order[SDSC_MAX_DIMS];
    memcpy(order, r->dim, sizeof order);
    int stick = r->stick;
    if (stick < 0) {
        if (st->n_dims == N_POINTWISE_LABELS)
            return REFUSE(s, "%s has too many dims", name);
        int64_t eps = dv_stick_elems(&s->e->plan->target, r->dtype);
        inside = add_dim(st, pointwise_labels[st->n_dims], eps, 1);
    }
    for (int k = 0; k < st->n_operands; k++) {
        sdsc_operand *a = &st->at[k];
        int other = stick >= 0 && a->stick >= 0 && a->stick != stick;
        if ((stick < 0 && a->stick >= 0) ||
            (stick >= 0 && a->stick < 0 && a->scale[stick]))
            return REFUSE(s,
                          "%s: a tensor with one value per stick meets whole "
                          "sticks of the same values in another",
                          name);
        if (other && strcmp(st->func, "ReStickifyOpHBM") != 0)
            return REFUSE(s,
                          "%s: its tensors are cut into sticks along "
                          "different dims",
                          name);
        for (int i = 0; i < n; i++)
            if (!a->scale[order[i]])
                list_absent(a, order[i],
                            a->stick < 0 && order[i] == stick ? -2 : -1);
        if (inside >= 0)
            list_absent(a, inside, 1);
        if (a->stick < 0)
            a->stick = inside >= 0 ? inside : stick;
    }
    return DV_OK;
}

static int same_layout(const sdsc_operand *a, const sdsc_operand *b)
{
    int same = a->stick == b->stick;
    for (int d = 0; d < SDSC_MAX_DIMS; d++)
        same &= !a->scale[d] == !b->scale[d];
    return same;
}

// Names the layouts: operands with the same dims and sticks share one.
static void name_layouts(sdsc_step *st)
{
    static const char *const of_products[] = {"INPUT", "KERNEL", "OUTPUT"};
    static const char *const of_others[] = {"OUTPUT", "KERNEL", "INPUT",
                                            "KERNEL_IDX"};
    int n = 0;
    for (int k = 0; k < st->n_operands; k++) {
        int i = 0;
        while (i < k && !same_layout(&st->at[i], &st->at[k]))
            i++;
        st->at[k].layout = i < k            ? st->at[i].layout
                           : st->is_product ? of_products[n++]
                                            : of_others[n++];
    }
}

// -- Masks --------------------------------------------------------------------

// Returns the bits of a value in the accelerator's 16-bit format: a sign, 6
// bits of exponent with bias 31, and 9 of mantissa.
static uint32_t dl16_bits(double v)
{
    int e;
    if (v == 0)
        return 0;
    double m = nearbyint(ldexp(frexp(fabs(v), &e), 10)); // 512..1024
    if (m == 1024) {
        m = 512;
        e++;
    }
    return (v < 0 ? 0x8000u : 0u) | (uint32_t)(e - 1 + 31) << 9 |
           ((uint32_t)m - 512);
}

static void add_step_constant(sdsc_step *st, const char *name, double value)
{
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    st->constant[st->n_constants] = name;
    st->bits[st->n_constants++] =
        st->at[0].dtype == DV_F32 ? bits : dl16_bits(value);
}

// If the dim that is reduced is padded to whole sticks (128-byte units), sets a
// mask that replaces the padding by the reducer's neutral value.
static dv_status set_mask(sdsc *s, sdsc_step *st, dv_reducer r,
                          const char *name)
{
    const sdsc_operand *out = &st->at[st->n_operands - 1];
    for (int d = 0; d < st->n_dims; d++) {
        if (out->scale[d] != -2 || st->dim[d].padded == st->dim[d].len)
            continue;
        if (out->dtype == DV_F32)
            return REFUSE(s,
                          "%s reduces %" PRId64 " values of f32, which are not "
                          "whole sticks: the back end masks 16-bit types only",
                          name, st->dim[d].len);
        if (st->owners.splits[d] > 1)
            return REFUSE(s,
                          "%s reduces %" PRId64 " values, which are not whole "
                          "sticks, in several slices: the back end masks the "
                          "padding of an undivided dim only",
                          name, st->dim[d].len);
        st->masked = d;
        add_step_constant(st, "samv-maskvalue",
                          r == DV_RED_MAX   ? -65504.0
                          : r == DV_RED_MIN ? 65504.0
                                            : 0.0);
    }
    return DV_OK;
}

// -- Ops ----------------------------------------------------------------------

// An op whose steps are being written.
typedef struct sdsc_op {
    int32_t number;
    const dv_op *op;
    dv_dtype dtype;
} sdsc_op;

// Checks that an op's slices suit a step of it, and writes the step.
static dv_status finish_op_step(sdsc *s, sdsc_step *st, const sdsc_op *o,
                                const int *var_dim)
{
    for (int v = 0; v < o->op->n_vars; v++) {
        int d = var_dim[v];
        int64_t eps = 0;
        if (d < 0)
            continue;
        for (int k = 0; k < st->n_operands; k++)
            if (st->at[k].stick == d)
                eps = dv_stick_elems(&s->e->plan->target, o->dtype);
        DV_TRY(check_even(s, o->op->name, o->op->vars[v].name, &st->dim[d],
                          st->owners.splits[d],
                          s->e->plan->slices[o->number][v], eps));
    }
    name_layouts(st);
    return dv_sdsc_write(
        s, st, &(sdsc_done){"compute", o->number, o->op->write.tensor});
}

// Starts a step whose dims are the variables of an op, in their order, without
// reduced variables unless the step itself reduces.
static dv_status start_step(sdsc *s, sdsc_step *st, const sdsc_op *o,
                            int reduces, int *var_dim)
{
    const dv_op *op = o->op;
    int n = 0;
    *st = (sdsc_step){.masked = -1, .is_reduction = reduces};
    for (int v = 0; v < op->n_vars; v++)
        n += dv_var_len(op, v) > 1 && (reduces || !op->vars[v].reduce);
    if (n > N_POINTWISE_LABELS + 1)
        return REFUSE(s, "%s has %d dims, and the back end names for %d",
                      op->name, n, N_POINTWISE_LABELS + 1);
    for (int v = 0; v < op->n_vars; v++) {
        var_dim[v] = -1;
        if (dv_var_len(op, v) > 1 && (reduces || !op->vars[v].reduce))
            var_dim[v] = add_dim(
                st, st->n_dims == n - 1 ? "out" : pointwise_labels[st->n_dims],
                dv_var_len(op, v), dv_plan_n_slices(s->e->plan, o->number, v));
    }
    return op_owners(s, st, o->number, var_dim, !reduces);
}

static int is_leaf(const dv_expr *e)
{
    return e->kind == DV_EXPR_READ || e->kind == DV_EXPR_CONST;
}

// Adds an operand to a step: the tensor that a read accesses, a constant, or
// the op's result, which holds the value of the step before.
static dv_status add_value(sdsc *s, sdsc_step *st, const sdsc_op *o,
                           const dv_expr *e, const int *var_dim)
{
    if (e->kind == DV_EXPR_CONST)
        return add_constant(s, st, e->value, o->dtype);
    return add_access(s, st, o->number,
                      e->kind == DV_EXPR_READ ? e->read : o->op->n_reads,
                      var_dim);
}

// Sets the function of a copy. A copy that changes which dim is cut into sticks
// (128-byte units) is a function of its own in the back end.
static dv_status name_copy(sdsc *s, sdsc_step *st, const char *name)
{
    const sdsc_operand *in = &st->at[0], *out = &st->at[1];
    st->func = "identity";
    if (in->stick < 0 || out->stick < 0 || in->stick == out->stick)
        return DV_OK;
    st->func = "ReStickifyOpHBM";
    if (in->place < 0)
        return REFUSE(s,
                      "%s cuts another dim into sticks than the tensor that it "
                      "copies from the scratchpads; the back end does that "
                      "from main memory only",
                      name);
    return DV_OK;
}

// Writes the step of one elementwise function; if fn is NULL, of a copy.
static dv_status pointwise_step(sdsc *s, const sdsc_op *o, const sdsc_func *fn,
                                const dv_expr *const *args, int n)
{
    sdsc_step st;
    int var_dim[DV_MAX_VARS];
    DV_TRY(start_step(s, &st, o, 0, var_dim));
    for (int i = 0; i < n; i++)
        DV_TRY(add_value(s, &st, o, args[i], var_dim));
    DV_TRY(add_access(s, &st, o->number, o->op->n_reads, var_dim));
    if (!fn)
        DV_TRY(name_copy(s, &st, o->op->name));
    else
        st.func = fn->name;
    DV_TRY(pad_dims(s, &st, o->op->name));
    DV_TRY(list_dims(s, &st, st.n_operands - 1, o->op->name));
    return finish_op_step(s, &st, o, var_dim);
}

static dv_status reduction_step(sdsc *s, const sdsc_op *o, const dv_expr *e)
{
    sdsc_step st;
    int var_dim[DV_MAX_VARS];
    DV_TRY(start_step(s, &st, o, 1, var_dim));
    DV_TRY(add_value(s, &st, o, e->arg[0], var_dim));
    DV_TRY(add_access(s, &st, o->number, o->op->n_reads, var_dim));
    st.func = reductions[e->fn][1];
    DV_TRY(pad_dims(s, &st, o->op->name));
    DV_TRY(list_dims(s, &st, 0, o->op->name));
    int along = 0;
    for (int d = 0; d < st.n_dims; d++)
        along |= st.at[1].scale[d] == -2;
    st.func = reductions[e->fn][!along];
    if (!st.func)
        return REFUSE(s, "%s: the back end has no %s%s", o->op->name,
                      dv_reducer_get((dv_reducer)e->fn)->text,
                      along ? " along the dim that is cut into sticks" : "");
    if (e->fn == DV_RED_MEAN)
        add_step_constant(&st, "scaling_factor",
                          1.0 / (double)dv_op_points(o->op, e->vars));
    DV_TRY(set_mask(s, &st, (dv_reducer)e->fn, o->op->name));
    return finish_op_step(s, &st, o, var_dim);
}

// A matrix product: its variables n (columns) and k (summed), and its factors a
// (rows m) and b (columns n).
typedef struct sdsc_product {
    int n, k; // variables
    int a, b; // reads
} sdsc_product;

// Finds the variables of a sum of products. Returns NULL, or the reason why it
// is not a matrix product.
static const char *match_product(sdsc_product *m, sdsc *s, const sdsc_op *o,
                                 const dv_expr *e)
{
    const dv_op *op = o->op;
    const dv_layout *l = &s->e->plan->layouts[op->write.tensor];
    int x = e->arg[0]->arg[0]->read, y = e->arg[0]->arg[1]->read;
    uint32_t of_x = dv_access_vars(op, &op->reads[x]);
    uint32_t of_y = dv_access_vars(op, &op->reads[y]);
    *m = (sdsc_product){-1, -1, x, y};
    for (int v = 0; v < op->n_vars; v++)
        if (op->vars[v].reduce && dv_var_len(op, v) > 1) {
            if (m->k >= 0)
                return "it sums over several variables";
            m->k = v;
        }
    if (l->stick_dim >= 0 && !l->sparse)
        m->n = dv_index_var(op, &op->write.index[l->stick_dim]);
    if (m->k < 0 || !(of_x & of_y & 1u << m->k))
        return "its factors have no summed variable in common";
    if (m->n < 0 || !((of_x ^ of_y) & 1u << m->n))
        return "no variable of one factor alone indexes the dim of the result "
               "that is cut into sticks";
    if (of_x & 1u << m->n) {
        m->a = y;
        m->b = x;
    }
    return NULL;
}

static dv_status start_product(sdsc *s, sdsc_step *st, const sdsc_op *o,
                               const sdsc_product *m, int *var_dim)
{
    const dv_op *op = o->op;
    int n = 0;
    *st = (sdsc_step){.func = "batchmatmul", .is_product = 1, .masked = -1};
    for (int v = 0; v < op->n_vars; v++) {
        var_dim[v] = -1;
        n += v != m->n && v != m->k && dv_var_len(op, v) > 1;
    }
    if (n > N_PRODUCT_LABELS)
        return REFUSE(s,
                      "%s has %d dims besides those of columns and sums, and "
                      "the back end names for %d",
                      op->name, n, N_PRODUCT_LABELS);
    for (int v = 0; v < op->n_vars; v++)
        if (v != m->n && v != m->k && dv_var_len(op, v) > 1)
            var_dim[v] = add_dim(st, product_labels[--n], dv_var_len(op, v),
                                 dv_plan_n_slices(s->e->plan, o->number, v));
    var_dim[m->n] = add_dim(st, "out", dv_var_len(op, m->n),
                            dv_plan_n_slices(s->e->plan, o->number, m->n));
    var_dim[m->k] = add_dim(st, "in", dv_var_len(op, m->k),
                            dv_plan_n_slices(s->e->plan, o->number, m->k));
    return op_owners(s, st, o->number, var_dim, 0);
}

static dv_status product_step(sdsc *s, const sdsc_op *o, const dv_expr *e)
{
    sdsc_step st;
    sdsc_product m;
    int var_dim[DV_MAX_VARS];
    const char *why = match_product(&m, s, o, e);
    if (why)
        return REFUSE(s,
                      "%s is no matrix product of the back end: %s; as two "
                      "statements, a product and its sum, it is two steps",
                      o->op->name, why);
    if (o->dtype == DV_F32)
        return REFUSE(s,
                      "%s is a matrix product of f32; the back end has "
                      "those of f16",
                      o->op->name);
    DV_TRY(start_product(s, &st, o, &m, var_dim));
    DV_TRY(add_access(s, &st, o->number, m.a, var_dim));
    DV_TRY(add_access(s, &st, o->number, m.b, var_dim));
    DV_TRY(add_access(s, &st, o->number, o->op->n_reads, var_dim));
    if (st.at[0].stick != var_dim[m.k] || st.at[1].stick != var_dim[m.n])
        return REFUSE(s,
                      "%s: the left factor of the back end's matrix product is "
                      "cut into sticks along the sum, the right one along the "
                      "columns",
                      o->op->name);
    DV_TRY(pad_dims(s, &st, o->op->name));
    for (int d = 0; d < st.n_dims; d++)
        if (!st.at[0].scale[d] && st.at[1].scale[d] && st.at[2].scale[d] &&
            d != var_dim[m.n])
            list_absent(&st.at[0], d, -1);
    return finish_op_step(s, &st, o, var_dim);
}

static int is_product(const dv_expr *e)
{
    const dv_expr *x = e->arg[0];
    return e->fn == DV_RED_SUM && x->kind == DV_EXPR_APPLY &&
           x->fn == DV_FN_MUL && x->arg[0]->kind == DV_EXPR_READ &&
           x->arg[1]->kind == DV_EXPR_READ;
}

static dv_status write_reduce(sdsc *s, const sdsc_op *o, const dv_expr *e)
{
    if (is_product(e))
        return product_step(s, o, e);
    if (e->arg[0]->kind == DV_EXPR_READ)
        return reduction_step(s, o, e);
    return REFUSE(s,
                  "%s reduces an expression of several functions: written "
                  "as two statements, it is two steps",
                  o->op->name);
}

// Writes an expression as one step per function, innermost first. Each step
// overwrites the op's result, which the next one reads.
static dv_status write_expr(sdsc *s, const sdsc_op *o, const dv_expr *e)
{
    int inner = 0;
    if (is_leaf(e))
        return pointwise_step(s, o, NULL, &e, 1);
    if (e->kind == DV_EXPR_REDUCE)
        return write_reduce(s, o, e);
    if (e->kind == DV_EXPR_INDEX)
        return REFUSE(s,
                      "%s has the value of an index as operand, which the "
                      "back end has not",
                      o->op->name);
    const sdsc_func *fn = &functions[e->fn];
    if (!fn->name || (o->dtype == DV_F32 && !fn->in_f32))
        return REFUSE(s, "%s: the back end has no %s%s", o->op->name,
                      dv_fn_get((dv_fn)e->fn)->word, fn->name ? " of f32" : "");
    for (int i = 0; i < e->n_args; i++) {
        if (is_leaf(e->arg[i]))
            continue;
        if (inner++)
            return REFUSE(s,
                          "%s is an expression whose parts need places of "
                          "their own: written as several statements, it is "
                          "several steps",
                          o->op->name);
        DV_TRY(write_expr(s, o, e->arg[i]));
    }
    return pointwise_step(s, o, fn, e->arg, e->n_args);
}

// -- Copies -------------------------------------------------------------------

// Starts a step that copies a tensor of which each core holds the box that a
// view gives it.
static dv_status start_copy(sdsc *s, sdsc_step *st, const dv_view *v,
                            const dv_tensor *t, int *map)
{
    int n = 0;
    *st = (sdsc_step){.func = "identity", .masked = -1};
    for (int d = 0; d < t->n_dims; d++)
        n += t->shape[d] > 1;
    if (n > N_POINTWISE_LABELS + 1)
        return REFUSE(s, "%s has too many dims", t->name);
    for (int d = 0; d < t->n_dims; d++) {
        map[d] = -1;
        if (t->shape[d] > 1)
            map[d] = add_dim(
                st, st->n_dims == n - 1 ? "out" : pointwise_labels[st->n_dims],
                t->shape[d], 1);
    }
    return view_owners(s, &st->owners, v, map);
}

static dv_status check_view(sdsc *s, const sdsc_step *st, const dv_view *v,
                            const char *name, const int *map)
{
    for (int d = 0; d < v->n_dims; d++)
        if (map[d] >= 0)
            DV_TRY(check_even(
                s, name, v->plan->ops->ops[v->op].vars[v->var[d]].name,
                &st->dim[map[d]], v->cut[d].n, v->cut[d].slice,
                st->at[0].stick == map[d]
                    ? dv_stick_elems(&s->e->plan->target, st->at[0].dtype)
                    : 0));
    return DV_OK;
}

// Writes the copy of a tensor between main memory and scratchpads, or between
// scratchpads. `from` and `to` are numbers of homes (residencies in the
// scratchpads), or -1 for main memory.
static dv_status copy_step(sdsc *s, const char *kind, int32_t from, int32_t to)
{
    const dv_plan *plan = s->e->plan;
    const dv_home *homes = plan->scratch.homes;
    const int32_t end[2] = {from, to};
    int32_t tensor = homes[to < 0 ? from : to].tensor, shuffles = 0;
    const dv_tensor *t = &plan->ops->tensors[tensor];
    int map[DV_MAX_DIMS];
    sdsc_step st;
    dv_view view, source;
    sdsc_owners given = {.n_cores = 0};
    const char *why = dv_home_view(&view, plan, &homes[to < 0 ? from : to]);
    if (!why && to >= 0 && from >= 0)
        why = dv_home_view(&source, plan, &homes[from]);
    if (why)
        return REFUSE(s, "%s is resident, but %s", t->name, why);
    DV_TRY(start_copy(s, &st, &view, t, map));
    for (int k = 0; k < 2; k++) {
        sdsc_operand *a = add_operand(&st, t->dtype);
        set_dims(a, &plan->layouts[tensor], map);
        a->place = -1;
        if (end[k] < 0)
            DV_TRY(set_place(s, a, tensor, 0));
        else
            a->address = homes[end[k]].address;
    }
    DV_TRY(pad_dims(s, &st, t->name));
    if (!strcmp(kind, "shuffle")) {
        DV_TRY(view_owners(s, &given, &source, map));
        DV_TRY(check_view(s, &st, &source, t->name, map));
        shuffles = 1;
    }
    DV_TRY(check_view(s, &st, &view, t->name, map));
    DV_TRY(list_dims(s, &st, 1, t->name));
    for (int d = st.n_dims; shuffles && d-- > 0;)
        given.splits[d] = dv_max_i64(given.splits[d], 1);
    if (shuffles) {
        st.func = "shuffle";
        st.at[0].owners = &given;
        st.at[1].owners = &st.owners;
    }
    name_layouts(&st);
    return dv_sdsc_write(s, &st, &(sdsc_done){kind, -1, tensor});
}

// Writes the copies into scratchpads that must be complete before op i runs.
static dv_status write_fills(sdsc *s, int32_t i)
{
    const dv_scratch *sc = &s->e->plan->scratch;
    if (!sc->fill_at)
        return DV_OK;
    for (int32_t f = sc->fill_at[i]; f < sc->fill_at[i + 1]; f++) {
        const dv_home *h = &sc->homes[sc->fill_order[f]];
        int32_t number = sc->fill_order[f];
        if (h->fill == DV_FILL_LOADED)
            DV_TRY(copy_step(s, "load", -1, number));
        else if (h->fill == DV_FILL_RING)
            DV_TRY(copy_step(s, "shuffle", h->from, number));
        else if (h->fill == DV_FILL_MOVED)
            DV_TRY(copy_step(s, "move", h->from, number));
    }
    return DV_OK;
}

// -- Plans --------------------------------------------------------------------

static dv_status check_op(const sdsc *s, int32_t i)
{
    const dv_plan *plan = s->e->plan;
    const dv_op *op = &plan->ops->ops[i];
    const dv_tensor *t = &plan->ops->tensors[op->write.tensor];
    const char *what = op->is_extern          ? "is an extern op"
                       : op->update           ? "changes a tensor in place"
                       : dv_op_gathers(op)    ? "reads through an index tensor"
                       : dv_op_has_border(op) ? "reads beyond a tensor's border"
                                              : NULL;
    if (what)
        return REFUSE(s, "%s %s, which divvy does not write as SuperDSC",
                      op->name, what);
    if (!dv_sdsc_format(t->dtype))
        return REFUSE(s,
                      "%s is %s; of the types of Torch-Spyre's back end, f16, "
                      "bf16 and f32 are written as SuperDSC",
                      op->name, dv_dtype_get(t->dtype)->name);
    if (plan->groups[dv_group_of(plan, i)].loops)
        return REFUSE(s,
                      "cores compute several tiles of %s; SuperDSC has one "
                      "slice per core: divvy emit of the program plans so",
                      op->name);
    return DV_OK;
}

static dv_status check_plan(const sdsc *s)
{
    const dv_target *t = &s->e->plan->target;
    if (!t->sticks || t->tile_rows || t->stick_bytes != SDSC_STICK_BYTES)
        return REFUSE(s,
                      "%s does not store tensors in sticks of %d bytes, as "
                      "SuperDSC has them: a target such as spyre does",
                      t->name, SDSC_STICK_BYTES);
    if (s->e->p->n_repeats)
        return REFUSE(s, "the program has a repeat; SuperDSC lists steps that "
                         "run once");
    return DV_OK;
}

static dv_status write_op(sdsc *s, int32_t i)
{
    const dv_plan *plan = s->e->plan;
    const dv_op *op = &plan->ops->ops[i];
    const dv_scratch *sc = &plan->scratch;
    sdsc_op o = {i, op, plan->ops->tensors[op->write.tensor].dtype};
    DV_TRY(check_op(s, i));
    DV_TRY(write_fills(s, i));
    DV_TRY(write_expr(s, &o, op->body));
    int32_t h =
        sc->home_of && sc->home_of[i] ? sc->home_of[i][op->n_reads] : -1;
    if (h >= 0 && dv_plan_splits_reduction(plan, i))
        return copy_step(s, "load", -1, h);
    return h >= 0 && sc->homes[h].stored ? copy_step(s, "store", h, -1) : DV_OK;
}

dv_status dv_emit_superdsc(emitter *e)
{
    sdsc s = {.e = e};
    DV_TRY(check_plan(&s));
    for (int32_t i = 0; i < e->p->n_ops; i++)
        DV_TRY(write_op(&s, i));
    return dv_sdsc_bundle(&s);
}
