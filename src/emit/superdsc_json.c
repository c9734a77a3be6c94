// Writes a step as a file of SuperDSC, and the list of all steps.
#include "emit/superdsc.h"
#include "base/json.h"
#include "base/math.h"
#include "plan/stride_splits.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// A step that is being written as JSON.
typedef struct sdsc_writer {
    sdsc *s;
    const sdsc_step *step;
    dv_json j;
    int64_t eps; // elements per stick
    // The cores that take part, ascending: those of the step and, if it copies
    // between cores, those that only send.
    int64_t *core;
    int64_t n_cores;
    int32_t first_symbol; // the addresses of this step begin with this one
} sdsc_writer;

static const char *key_of(char *at, size_t size, int64_t v)
{
    snprintf(at, size, "%" PRId64, v);
    return at;
}

static int64_t per_core(const sdsc_step *st, int d)
{
    return st->dim[d].padded / st->owners.splits[d];
}

static const char *format_of(const sdsc_step *st)
{
    return dv_sdsc_format(st->at[st->n_operands - 1].dtype);
}

// Writes {"Affine": {…}}, the function alpha * x + 0 of a position x along a
// dim.
static void affine(dv_json *j, int64_t alpha)
{
    dv_json_open_flat(j, NULL, '{');
    DV_JSON_OBJECT(j, "Affine", DV_F("alpha_", alpha), DV_F("beta_", 0));
    dv_json_close(j);
}

static void plain(dv_json *j, const char *kind)
{
    dv_json_open_flat(j, NULL, '{');
    dv_json_open_flat(j, kind, '{');
    dv_json_close(j);
    dv_json_close(j);
}

static void prop(dv_json *j, const char *key, int64_t factor, const char *label)
{
    DV_JSON_OBJECT(j, key, DV_F("factor_", factor), DV_F("label_", label));
}

// Writes the properties ("props" in SuperDSC) of a map from cores to values.
static void core_props(dv_json *j, const char *core, const char *time,
                       int64_t n_cores)
{
    dv_json_open_flat(j, "dim_prop_func", '[');
    plain(j, core);
    plain(j, "Const");
    plain(j, time);
    dv_json_close(j);
    dv_json_open_flat(j, "dim_prop_attr", '[');
    prop(j, NULL, n_cores, "core");
    prop(j, NULL, 1, "corelet");
    prop(j, NULL, 1, "time");
    dv_json_close(j);
}

static void labels(dv_json *j, const char *key, const sdsc_step *st,
                   const int8_t *dim, int n)
{
    dv_json_open_flat(j, key, '[');
    for (int i = 0; i < n; i++)
        dv_json_string(j, NULL, st->dim[dim[i]].label);
    dv_json_close(j);
}

// Writes which slice of each dim every core has.
static void owners(sdsc_writer *w, const char *key, const sdsc_owners *o)
{
    char core[24];
    dv_json_open(&w->j, key, '{');
    for (int32_t c = 0; o && c < o->n_cores; c++) {
        dv_json_open_flat(&w->j, key_of(core, sizeof core, o->core[c]), '{');
        for (int d = 0; d < w->step->n_dims; d++)
            dv_json_int(&w->j, w->step->dim[d].label,
                        o->slot[c * SDSC_MAX_DIMS + d]);
        dv_json_close(&w->j);
    }
    dv_json_close(&w->j);
}

// Returns the symbol, a negative number from -1 down, that stands for an
// address in main memory. Each step has symbols of its own.
static int64_t symbol_of(sdsc_writer *w, int32_t place, int64_t offset)
{
    sdsc *s = w->s;
    for (int32_t i = w->first_symbol; i < s->n_symbols; i++)
        if (s->symbols[i].place == place && s->symbols[i].offset == offset)
            return -1 - i;
    sdsc_symbol *y = DV_PUSH(&s->e->arena, sdsc_symbol, s->symbols,
                             s->n_symbols, s->cap_symbols);
    if (!y) {
        w->j.out->failed = 1;
        return 0;
    }
    *y = (sdsc_symbol){place, offset};
    return -(int64_t)s->n_symbols;
}

// Returns the slice numbers of a core. A core that only sends has none and
// writes nothing, so it gets those of the first core.
static const int64_t *slots_of(const sdsc_owners *o, int64_t core)
{
    for (int32_t c = 0; c < o->n_cores; c++)
        if (o->core[c] == core)
            return o->slot + (int64_t)c * SDSC_MAX_DIMS;
    return o->slot;
}

// Returns the byte in main memory at which a core's slice of an operand begins.
static int64_t offset_of(const sdsc_writer *w, const sdsc_operand *a,
                         const int64_t *slot)
{
    int64_t at = 0, stride = w->eps;
    for (int i = 0; i < a->n_own; i++) {
        int d = a->dim[i];
        int64_t unit = d == a->stick ? w->eps : 1;
        at += slot[d] * per_core(w->step, d) / unit * stride;
        stride *= w->step->dim[d].padded / unit;
    }
    return at * (SDSC_STICK_BYTES / w->eps);
}

static void start_addresses(sdsc_writer *w, const sdsc_operand *a)
{
    char key[40], value[24];
    dv_json_open(&w->j, "startAddressCoreCorelet_", '{');
    core_props(&w->j, "Map", "Const", w->n_cores);
    dv_json_open(&w->j, "data_", '{');
    for (int64_t c = 0; c < w->n_cores; c++) {
        int64_t at = a->address;
        if (a->place >= 0)
            at = symbol_of(
                w, a->place,
                offset_of(w, a, slots_of(&w->step->owners, w->core[c])));
        snprintf(key, sizeof key, "[%" PRId64 ", 0, 0]", w->core[c]);
        dv_json_string(&w->j, key, key_of(value, sizeof value, at));
    }
    dv_json_close(&w->j);
    dv_json_close(&w->j);
}

// Writes how elements along a dim are distributed: `folds` is a list of
// factors, the first over cores, each with the distance in elements between its
// steps.
static void coordinate(sdsc_writer *w, const sdsc_operand *a, int d)
{
    static const char *const names[] = {"core_fold", "corelet_fold", "row_fold",
                                        "elem_arr_1", "elem_arr_0"};
    const sdsc_step *st = w->step;
    int own = a->scale[d] == 1, in_sticks = d == a->stick;
    const sdsc_owners *o = a->owners ? a->owners : &st->owners;
    int64_t splits = own ? o->splits[d] : 1;
    int64_t size = own ? st->dim[d].padded / splits : 1;
    int one = a->scale[d] == -2; // element per stick
    const int64_t alpha[] = {one ? w->eps : size, 0, 0, w->eps, !one};
    const int64_t factor[] = {splits, 1, 1, one ? 1 : dv_ceil_div(size, w->eps),
                              w->eps};
    dv_json_open(&w->j, st->dim[d].label, '{');
    DV_JSON_FIELDS(&w->j, DV_F("spatial", 3), DV_F("temporal", 0),
                   DV_F("elemArr", 1 + in_sticks), DV_F("padding", "nopad"));
    dv_json_open(&w->j, "folds", '{');
    dv_json_open_flat(&w->j, "dim_prop_func", '[');
    for (int i = 0; i < 5; i++)
        if (in_sticks || i < 3)
            affine(&w->j, alpha[i]);
    if (!in_sticks)
        affine(&w->j, 1);
    dv_json_close(&w->j);
    dv_json_open_flat(&w->j, "dim_prop_attr", '[');
    for (int i = 0; i < 5; i++)
        if (in_sticks || i < 3)
            prop(&w->j, NULL, factor[i], names[i]);
    if (!in_sticks)
        prop(&w->j, NULL, size, names[4]);
    dv_json_close(&w->j);
    dv_json_close(&w->j);
    dv_json_close(&w->j);
}

static void allocation(sdsc_writer *w, int i)
{
    const sdsc_operand *a = &w->step->at[i];
    const char *component = a->place >= 0 ? "hbm" : "lx";
    char name[40];
    snprintf(name, sizeof name, "allocate-Tensor%d_%s", i, component);
    dv_json_open(&w->j, NULL, '{');
    DV_JSON_FIELDS(&w->j, DV_F("nodeType_", "allocate"),
                   DV_F("name_", (const char *)name), DV_F("prev_", ""),
                   DV_F("ldsIdx_", i), DV_F("component_", component),
                   DV_F_WHEN(a->place >= 0, DV_F("isStartAddrSymbolic_", 1)));
    labels(&w->j, "layoutDimOrder_", w->step, a->dim, a->n_dims);
    dv_json_open_flat(&w->j, "maxDimSizes_", '[');
    for (int d = 0; d < a->n_dims; d++)
        dv_json_int(&w->j, NULL, -1);
    dv_json_close(&w->j);
    dv_json_string(&w->j, "indirectAllocType_", "no_indirection");
    start_addresses(w, a);
    dv_json_open(&w->j, "coordinates_", '{');
    dv_json_open(&w->j, "coordInfo", '{');
    for (int d = 0; d < a->n_dims; d++)
        coordinate(w, a, a->dim[d]);
    dv_json_close(&w->j);
    owners(w, "coreIdToWkSlice_", a->owners);
    dv_json_close(&w->j);
    dv_json_close(&w->j);
}

// Returns the first operand with the same layout as operand i. Its order of
// dims is that of the layout.
static const sdsc_operand *layout_of(const sdsc_step *st, int i)
{
    int k = 0;
    while (strcmp(st->at[k].layout, st->at[i].layout))
        k++;
    return &st->at[k];
}

static void layouts(sdsc_writer *w)
{
    const sdsc_step *st = w->step;
    dv_json_open(&w->j, "primaryDsInfo_", '{');
    for (int i = 0; i < st->n_operands; i++) {
        const sdsc_operand *a = &st->at[i];
        int8_t stick = (int8_t)a->stick;
        if (layout_of(st, i) != a)
            continue;
        dv_json_open_flat(&w->j, a->layout, '{');
        labels(&w->j, "layoutDimOrder_", st, a->dim, a->n_dims);
        labels(&w->j, "stickDimOrder_", st, &stick, 1);
        DV_JSON_INTS(&w->j, "stickSize_", w->eps);
        dv_json_close(&w->j);
    }
    dv_json_close(&w->j);
}

static void present(dv_json *j, const char *component)
{
    DV_JSON_OBJECT(j, component, DV_F("isPresent", 1));
}

static void labeled(sdsc_writer *w, int i)
{
    const sdsc_operand *a = &w->step->at[i], *l = layout_of(w->step, i);
    char name[40];
    snprintf(name, sizeof name, "Tensor%d", i);
    dv_json_open(&w->j, NULL, '{');
    DV_JSON_FIELDS(&w->j, DV_F("ldsIdx_", i),
                   DV_F("dsName_", (const char *)name),
                   DV_F("dsType_", a->layout));
    dv_json_open_flat(&w->j, "scale_", '[');
    for (int d = 0; d < l->n_dims; d++)
        dv_json_int(&w->j, NULL, a->scale[l->dim[d]]);
    dv_json_close(&w->j);
    DV_JSON_FIELDS(&w->j,
                   DV_F("wordLength", dv_dtype_get(a->dtype)->size_bytes),
                   DV_F("dataFormat_", dv_sdsc_format(a->dtype)));
    dv_json_open_flat(&w->j, "memOrg_", '{');
    if (a->place >= 0)
        present(&w->j, "hbm");
    present(&w->j, "lx");
    dv_json_close(&w->j);
    dv_json_close(&w->j);
}

static void stage(sdsc_writer *w, const char *key)
{
    static const char *const empty[] = {
        "symbolicDimInfo_", "maxSymbolicVolume_", "coreletSplit_",
        "rowSplit_",        "peSfpSplit_",        "paddingSizes_"};
    char name[16];
    dv_json_open_flat(&w->j, key, '{');
    dv_json_string(&w->j, "name_", "core");
    for (int d = 0; d < w->step->n_dims; d++) {
        snprintf(name, sizeof name, "%s_", w->step->dim[d].label);
        dv_json_int(&w->j, name, per_core(w->step, d));
    }
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        dv_json_open_flat(&w->j, empty[i], '{');
        dv_json_close(&w->j);
    }
    dv_json_close(&w->j);
}

static void sizes(sdsc_writer *w)
{
    const sdsc_step *st = w->step;
    char name[16];
    dv_json_open_flat(&w->j, "N_", '{');
    dv_json_string(&w->j, "name_", "n");
    for (int d = 0; d < st->n_dims; d++) {
        snprintf(name, sizeof name, "%s_", st->dim[d].label);
        dv_json_int(&w->j, name, st->dim[d].padded);
    }
    dv_json_close(&w->j);
    dv_json_open_flat(&w->j, "coordinateMasking_", '{');
    if (st->masked >= 0) {
        const sdsc_dim *d = &st->dim[st->masked];
        dv_json_open_flat(&w->j, d->label, '[');
        DV_JSON_INTS(&w->j, NULL, d->len, d->padded - d->len);
        dv_json_close(&w->j);
    }
    dv_json_close(&w->j);
    dv_json_int(&w->j, "maskingConstId_",
                st->masked >= 0 ? st->n_constants - 1 : -1);
    dv_json_open(&w->j, "dataStageParam_", '{');
    dv_json_open(&w->j, "0", '{');
    stage(w, "ss_");
    stage(w, "el_");
    dv_json_close(&w->j);
    dv_json_close(&w->j);
}

// Writes the constants of the step's function.
static void constants(sdsc_writer *w)
{
    char at[24];
    if (!w->step->n_constants) {
        dv_json_string(&w->j, "constantInfo_", "{}");
        return;
    }
    dv_json_open(&w->j, "constantInfo_", '{');
    for (int i = 0; i < w->step->n_constants; i++) {
        dv_json_open(&w->j, key_of(at, sizeof at, i), '{');
        DV_JSON_FIELDS(&w->j, DV_F("dataFormat_", format_of(w->step)),
                       DV_F("name_", w->step->constant[i]));
        dv_json_open(&w->j, "data_", '{');
        core_props(&w->j, "Const", "Map", w->n_cores);
        dv_json_open_flat(&w->j, "data_", '{');
        dv_json_open_flat(&w->j, "[0, 0, 0]", '[');
        dv_json_string(&w->j, NULL, key_of(at, sizeof at, w->step->bits[i]));
        dv_json_close(&w->j);
        dv_json_close(&w->j);
        dv_json_close(&w->j);
        dv_json_close(&w->j);
    }
    dv_json_close(&w->j);
}

static void names(dv_json *j, const char *key, int from, int to)
{
    char name[40];
    dv_json_open_flat(j, key, '[');
    for (int i = from; i < to; i++) {
        snprintf(name, sizeof name, "Tensor%d-idx%d", i, i);
        dv_json_string(j, NULL, name);
    }
    dv_json_close(j);
}

static void compute(sdsc_writer *w)
{
    const sdsc_step *st = w->step;
    // A reduction accumulates into its result, which therefore counts as an
    // input, too.
    int n = st->n_operands, n_inputs = st->is_reduction ? n : n - 1;
    dv_json_open(&w->j, "computeOp_", '[');
    dv_json_open(&w->j, NULL, '{');
    DV_JSON_FIELDS(&w->j, DV_F("exUnit", st->is_product ? "pt" : "sfp"),
                   DV_F("opFuncName", st->func));
    DV_JSON_OBJECT(&w->j, "attributes_", DV_F("dataFormat_", format_of(st)),
                   DV_F("fidelity_", "regular"));
    dv_json_string(&w->j, "location", "Inner");
    names(&w->j, "inputLabeledDs", 0, n_inputs);
    names(&w->j, "outputLabeledDs", n - 1, n);
    dv_json_close(&w->j);
    dv_json_close(&w->j);
}

// Writes the section "dscs_": the cores used, the sizes, layouts and addresses
// of operands, and the function that each core computes.
static void design(sdsc_writer *w)
{
    dv_json_open(&w->j, "dscs_", '[');
    dv_json_open(&w->j, NULL, '{');
    dv_json_open(&w->j, w->step->func, '{');
    DV_JSON_FIELDS(&w->j, DV_F("numCoresUsed_", w->n_cores),
                   DV_F("numCoreletsUsed_", 1));
    dv_json_ints(&w->j, "coreIdsUsed_", w->core, (int)w->n_cores);
    sizes(w);
    layouts(w);
    dv_json_open(&w->j, "scheduleTree_", '[');
    for (int i = 0; i < w->step->n_operands; i++)
        allocation(w, i);
    dv_json_close(&w->j);
    dv_json_open(&w->j, "labeledDs_", '[');
    for (int i = 0; i < w->step->n_operands; i++)
        labeled(w, i);
    dv_json_close(&w->j);
    constants(w);
    compute(w);
    dv_json_close(&w->j);
    dv_json_close(&w->j);
    dv_json_close(&w->j);
}

// Writes an object with a field for every core: 0 or, with is_schedule, the
// schedule of a core that runs one step.
static void for_cores(sdsc_writer *w, const char *key, int is_schedule)
{
    char core[24];
    dv_json_open_flat(&w->j, key, '{');
    for (int64_t c = 0; c < w->n_cores; c++) {
        key_of(core, sizeof core, w->core[c]);
        if (!is_schedule) {
            dv_json_int(&w->j, core, 0);
            continue;
        }
        dv_json_open_flat(&w->j, core, '[');
        DV_JSON_INTS(&w->j, NULL, -1, 0, 0, 0);
        dv_json_close(&w->j);
    }
    dv_json_close(&w->j);
}

static void write_root(sdsc_writer *w)
{
    dv_json *j = &w->j;
    dv_json_null(j, "debug_handle_");
    dv_json_open_flat(j, "sdscFoldProps_", '[');
    prop(j, NULL, 1, "time");
    dv_json_close(j);
    dv_json_open(j, "sdscFolds_", '{');
    dv_json_open_flat(j, "dim_prop_func", '[');
    affine(j, 1);
    dv_json_close(j);
    dv_json_open_flat(j, "dim_prop_attr", '[');
    prop(j, NULL, 1, "time");
    dv_json_close(j);
    DV_JSON_OBJECT(j, "data_", DV_F("[0]", "0"));
    dv_json_close(j);
    prop(j, "coreFoldProp_", w->n_cores, "core");
    prop(j, "coreletFoldProp_", 1, "corelet");
    dv_json_int(j, "numCoresUsed_", w->n_cores);
    for_cores(w, "coreIdToDsc_", 0);
    dv_json_open_flat(j, "numWkSlicesPerDim_", '{');
    for (int d = 0; d < w->step->n_dims; d++)
        dv_json_int(j, w->step->dim[d].label, w->step->owners.splits[d]);
    dv_json_close(j);
    owners(w, "coreIdToWkSlice_", &w->step->owners);
    for_cores(w, "coreIdToDscSchedule", 1);
    design(w);
}

static int takes_part(const sdsc_owners *o, int64_t core)
{
    for (int32_t c = 0; o && c < o->n_cores; c++)
        if (o->core[c] == core)
            return 1;
    return 0;
}

static dv_status find_cores(sdsc_writer *w)
{
    int64_t n = w->s->e->plan->target.cores;
    w->core = DV_NEW(&w->s->e->arena, int64_t, (size_t)n);
    if (!w->core)
        return dv_nomem(w->s->e->diag);
    for (int64_t core = 0; core < n; core++)
        if (takes_part(&w->step->owners, core) ||
            takes_part(w->step->at[0].owners, core))
            w->core[w->n_cores++] = core;
    return DV_OK;
}

dv_status dv_sdsc_write(sdsc *s, const sdsc_step *step, const sdsc_done *done)
{
    char name[40];
    sdsc_writer w = {.s = s, .step = step, .first_symbol = s->n_symbols};
    // The outermost object has one key, the name of the step, and no version.
    w.j = (dv_json){.out = &s->e->out, .depth = 1, .close = "}"};
    w.eps = SDSC_STICK_BYTES /
            dv_dtype_get(step->at[step->n_operands - 1].dtype)->size_bytes;
    DV_TRY(find_cores(&w));
    sdsc_done *d =
        DV_PUSH(&s->e->arena, sdsc_done, s->steps, s->n_steps, s->cap_steps);
    if (!d)
        return dv_nomem(s->e->diag);
    *d = *done;
    snprintf(name, sizeof name, "%d_%s", (int)s->n_steps - 1, step->func);
    dv_put(&s->e->out, "{");
    dv_json_open(&w.j, name, '{');
    write_root(&w);
    dv_json_close(&w.j);
    dv_json_close(&w.j);
    snprintf(name, sizeof name, "sdsc_%d.json", (int)s->n_steps - 1);
    return dv_emit_file(s->e, name);
}

// -- The list of steps --------------------------------------------------------

static void argument_json(dv_json *j, const sdsc *s, const sdsc_place *p)
{
    const dv_tensor *t = p->tensor < 0 ? NULL : &s->e->p->tensors[p->tensor];
    const dv_layout *l = t ? &s->e->plan->layouts[p->tensor] : NULL;
    dv_json_open_flat(j, NULL, '{');
    DV_JSON_FIELDS(j, DV_F("name", t ? t->name : NULL),
                   DV_F("kind", !t            ? "constant"
                                : t->is_input ? "input"
                                              : "output"),
                   DV_F("dtype", dv_dtype_get(p->dtype)->name));
    if (t) {
        DV_JSON_FIELDS(j, dv_field_ints("shape", t->shape, t->n_dims),
                       dv_field_ints("device_size", l->size, l->n_dims),
                       dv_field_ints("stride_map", l->stride, l->n_dims));
    } else if (isfinite(p->value)) {
        dv_json_double(j, "value", p->value);
    } else {
        dv_json_string(j, "value",
                       isnan(p->value) ? "nan"
                       : p->value > 0  ? "inf"
                                       : "-inf");
    }
    dv_json_int(j, "bytes", l ? l->bytes : SDSC_STICK_BYTES);
    dv_json_close(j);
}

static void places_json(dv_json *j, const sdsc *s)
{
    dv_json_open(j, "arguments", '[');
    for (int32_t i = 0; i < s->n_places; i++)
        if (s->places[i].argument >= 0)
            argument_json(j, s, &s->places[i]);
    dv_json_close(j);
    dv_json_int(j, "pool_bytes", s->pool_bytes);
    dv_json_open(j, "pool", '[');
    for (int32_t i = 0; i < s->n_places; i++)
        if (s->places[i].argument < 0)
            DV_JSON_OBJECT(
                j, NULL,
                DV_F("name", s->e->p->tensors[s->places[i].tensor].name),
                DV_F("offset", s->places[i].offset),
                DV_F("bytes", s->e->plan->layouts[s->places[i].tensor].bytes));
    dv_json_close(j);
    dv_json_open(j, "symbols", '[');
    for (int32_t i = 0; i < s->n_symbols; i++) {
        const sdsc_place *p = &s->places[s->symbols[i].place];
        DV_JSON_OBJECT(j, NULL, DV_F("id", -1 - i),
                       DV_F_IF(p->argument >= 0, "argument", p->argument),
                       DV_F("offset", s->symbols[i].offset +
                                          (p->argument < 0 ? p->offset : 0)));
    }
    dv_json_close(j);
}

dv_status dv_sdsc_bundle(sdsc *s)
{
    dv_json j = {.out = &s->e->out};
    char file[40];
    dv_json_open(&j, NULL, '{');
    DV_JSON_FIELDS(&j, DV_F("target", s->e->plan->target.name),
                   DV_F("cores", s->e->plan->target.cores),
                   DV_F("scratch_bytes", s->e->plan->target.scratch_bytes));
    places_json(&j, s);
    dv_json_open(&j, "steps", '[');
    for (int32_t i = 0; i < s->n_steps; i++) {
        const sdsc_done *d = &s->steps[i];
        snprintf(file, sizeof file, "sdsc_%d.json", (int)i);
        dv_json_open_flat(&j, NULL, '{');
        DV_JSON_FIELDS(&j, DV_F("file", (const char *)file),
                       DV_F("kind", d->kind),
                       DV_F("tensor", s->e->p->tensors[d->tensor].name));
        if (d->op >= 0) {
            dv_json_string(&j, "op", s->e->p->ops[d->op].name);
            dv_stride_splits_json(&j, s->e->plan, d->op);
        }
        dv_json_close(&j);
    }
    dv_json_close(&j);
    dv_json_close(&j);
    return dv_emit_file(s->e, "bundle.json");
}
