// A machine that runs SuperDSC: main memory and the scratchpad of every core
// are arrays of bytes, poisoned at first. It knows the files alone: who has
// which slices, at which address each begins, and how elements lie there.
#include "harness/superdsc.h"
#include "base/dtype.h"
#include "harness/unit.h"
#include "ir/program.h"
#include "sim/sim.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIMS = 9, MAX_TENSORS = 4, STICK = 128 };

typedef struct machine {
    const dsc_files *f;
    const dv_jval *bundle;
    unsigned char **argument; // and the pool, last
    unsigned char **scratch;  // of each core
    dv_dtype half;            // the type of 16 bits
} machine;

// Where a core's slice of a tensor begins, and which slice it is.
typedef struct slice {
    unsigned char *at;
    int64_t first[MAX_DIMS], len[MAX_DIMS]; // per dim; 0, 1: it lacks it
} slice;

typedef struct tensor {
    const dv_jval *allocation;
    int in_memory, n_own, stick, scale[MAX_DIMS];
    int own[MAX_DIMS]; // innermost first
    int64_t splits[MAX_DIMS];
    int64_t eps;
    dv_dtype dtype;
} tensor;

typedef struct step {
    machine *m;
    const dv_jval *root, *design;
    const char *func;
    int n_dims, n_tensors;
    const char *label[MAX_DIMS];
    int64_t size[MAX_DIMS];
    tensor t[MAX_TENSORS]; // the last one is the result
    // Masked padding of a dim, and what stands in its place.
    int masked;
    int64_t mask_from;
    double mask_value, factor;
} step;

// -- Reading a step -----------------------------------------------------------

static int dim_of(const step *s, const char *label)
{
    for (int d = 0; d < s->n_dims; d++)
        if (!strcmp(s->label[d], label))
            return d;
    must(0);
    return -1;
}

static void read_dims(step *s)
{
    const dv_jval *n = dsc_get(s->design, "N_");
    for (int i = 0; i < n->n; i++) {
        size_t len = strlen(n->items[i].key);
        if (!strcmp(n->items[i].key, "name_"))
            continue;
        must(s->n_dims < MAX_DIMS);
        char *label = dv_arena_copy(&((dsc_files *)(uintptr_t)s->m->f)->arena,
                                    n->items[i].key, len);
        label[len - 1] = '\0';
        s->label[s->n_dims] = label;
        s->size[s->n_dims++] = n->items[i].i;
    }
}

// Returns a factor of a dim's folds, and how far that fold moves.
static int64_t fold(const dv_jval *coordinate, const char *label,
                    int64_t *moves)
{
    const dv_jval *f = dsc_get(coordinate, "folds");
    const dv_jval *attr = dsc_get(f, "dim_prop_attr");
    const dv_jval *func = dsc_get(f, "dim_prop_func");
    must(attr->n == func->n);
    for (int i = 0; i < attr->n; i++)
        if (!strcmp(dsc_get(&attr->items[i], "label_")->s, label)) {
            *moves = dsc_get(dsc_get(&func->items[i], "Affine"), "alpha_")->i;
            return dsc_get(&attr->items[i], "factor_")->i;
        }
    return 1;
}

static void read_tensor(step *s, int i)
{
    tensor *t = &s->t[i];
    const dv_jval *labeled = &dsc_get(s->design, "labeledDs_")->items[i];
    const dv_jval *layout = dsc_get(dsc_get(s->design, "primaryDsInfo_"),
                                    dsc_get(labeled, "dsType_")->s);
    const dv_jval *dims = dsc_get(layout, "layoutDimOrder_");
    t->allocation = &dsc_get(s->design, "scheduleTree_")->items[i];
    t->in_memory = !strcmp(dsc_get(t->allocation, "component_")->s, "hbm");
    for (int k = 0; k < dims->n; k++)
        t->scale[dim_of(s, dims->items[k].s)] =
            (int)dsc_get(labeled, "scale_")->items[k].i;
    t->stick = dim_of(s, dsc_get(layout, "stickDimOrder_")->items[0].s);
    t->eps = dsc_get(layout, "stickSize_")->items[0].i;
    must(dsc_get(labeled, "wordLength")->i * t->eps == STICK);
    t->dtype = strcmp(dsc_get(labeled, "dataFormat_")->s, "IEEE_FP32") != 0
                   ? s->m->half
                   : DV_F32;
    const dv_jval *order = dsc_get(t->allocation, "layoutDimOrder_");
    const dv_jval *info =
        dsc_get(dsc_get(t->allocation, "coordinates_"), "coordInfo");
    for (int k = 0; k < order->n; k++) {
        int d = dim_of(s, order->items[k].s);
        int64_t move, unit;
        t->splits[d] = 1;
        if (t->scale[d] != 1)
            continue;
        const dv_jval *c = dsc_get(info, s->label[d]);
        t->own[t->n_own++] = d;
        t->splits[d] = fold(c, "core_fold", &move);
        // A slice begins where the one before it ends.
        must(t->splits[d] * move == s->size[d]);
        int64_t len = fold(c, "elem_arr_0", &unit);
        must(unit == 1 && len * fold(c, "elem_arr_1", &unit) == move);
    }
}

static double bits_of(const dv_jval *constant)
{
    const dv_jval *data = dsc_get(dsc_get(constant, "data_"), "data_");
    uint32_t bits = (uint32_t)strtoul(data->items[0].items[0].s, NULL, 10);
    float f;
    memcpy(&f, &bits, sizeof f);
    if (!strcmp(dsc_get(constant, "dataFormat_")->s, "IEEE_FP32"))
        return f;
    double v = ldexp(1 + (bits & 511) / 512.0, (int)(bits >> 9 & 63) - 31);
    return bits == 0 ? 0 : bits >> 15 ? -v : v;
}

static void read_constants(step *s)
{
    const dv_jval *all = dsc_get(s->design, "constantInfo_");
    const dv_jval *masks = dsc_get(s->design, "coordinateMasking_");
    int64_t id = dsc_get(s->design, "maskingConstId_")->i;
    s->masked = -1;
    s->factor = 1;
    for (int i = 0; all->kind == DV_JOBJECT && i < all->n; i++) {
        if (!strcmp(dsc_get(&all->items[i], "name_")->s, "scaling_factor"))
            s->factor = bits_of(&all->items[i]);
        else if (i == id)
            s->mask_value = bits_of(&all->items[i]);
    }
    must((masks->n > 0) == (id >= 0));
    if (masks->n) {
        const dv_jval *range = &masks->items[0].items[0];
        s->masked = dim_of(s, masks->items[0].key);
        s->mask_from = range->items[0].i;
        must(range->items[1].i == s->size[s->masked] - s->mask_from);
    }
}

// -- Memory -------------------------------------------------------------------

static unsigned char *resolve(const machine *m, int64_t id)
{
    const dv_jval *all = dsc_get(m->bundle, "symbols");
    must(id < 0 && -id <= all->n);
    const dv_jval *y = &all->items[-id - 1];
    must(dsc_get(y, "id")->i == id);
    const dv_jval *a = dsc_get(y, "argument");
    int n = dsc_get(m->bundle, "arguments")->n;
    return m->argument[a->kind == DV_JNULL ? n : a->i] +
           dsc_get(y, "offset")->i;
}

// Finds a core's slice of a tensor: by the tensor's own owners, if it has some.
// Returns 0 if the core has none.
static int slice_of(const step *s, const tensor *t, int64_t core, slice *out)
{
    char key[40], number[24];
    snprintf(key, sizeof key, "[%d, 0, 0]", (int)core);
    snprintf(number, sizeof number, "%d", (int)core);
    const dv_jval *owners =
        dsc_get(dsc_get(t->allocation, "coordinates_"), "coreIdToWkSlice_");
    const dv_jval *slots = dv_jget(
        owners->n ? owners : dsc_get(s->root, "coreIdToWkSlice_"), number);
    const dv_jval *start = dv_jget(
        dsc_get(dsc_get(t->allocation, "startAddressCoreCorelet_"), "data_"),
        key);
    if (!slots)
        return 0;
    must(start != NULL);
    int64_t at = strtoll(start->s, NULL, 10);
    out->at = t->in_memory ? resolve(s->m, at) : s->m->scratch[core] + at;
    for (int d = 0; d < s->n_dims; d++) {
        out->first[d] = 0;
        out->len[d] = 1;
    }
    for (int i = 0; i < t->n_own; i++) {
        int d = t->own[i];
        out->len[d] = s->size[d] / t->splits[d];
        out->first[d] = dsc_get(slots, s->label[d])->i * out->len[d];
        must(out->first[d] < s->size[d]);
    }
    return 1;
}

// Returns the number of an element of a slice, counted from its first: in main
// memory slices lie in the whole tensor, in a scratchpad each lies alone.
static int64_t place_of(const step *s, const tensor *t, const slice *l,
                        const int64_t *x)
{
    int64_t at = 0, stride = t->eps;
    for (int i = 0; i < t->n_own; i++) {
        int d = t->own[i];
        int64_t y = x[d] - l->first[d];
        int64_t size = t->in_memory ? s->size[d] : l->len[d];
        must(y >= 0 && y < l->len[d]);
        if (d == t->stick) {
            at += y % t->eps + y / t->eps * stride;
            size = (size + t->eps - 1) / t->eps;
        } else {
            at += y * stride;
        }
        stride *= size;
    }
    return at;
}

// -- Functions ----------------------------------------------------------------

static double apply(const char *f, const double *v)
{
    static const struct {
        const char *name;
        dv_fn fn;
    } rows[] = {
        {"add", DV_FN_ADD},       {"sub", DV_FN_SUB},
        {"mul", DV_FN_MUL},       {"realdiv", DV_FN_DIV},
        {"neg", DV_FN_NEG},       {"exp", DV_FN_EXP},
        {"sqrt", DV_FN_SQRT},     {"rsqrt", DV_FN_RSQRT},
        {"relufwd", DV_FN_RELU},  {"sigmoid", DV_FN_SIGMOID},
        {"silu", DV_FN_SILU},     {"tanh", DV_FN_TANH},
        {"maximum", DV_FN_MAX},   {"minimum", DV_FN_MIN},
        {"abs", DV_FN_ABS},       {"where3", DV_FN_SELECT},
        {"lesserthan", DV_FN_LT}, {"greaterthan", DV_FN_GT},
        {"gelufwd", DV_FN_GELU},
    };
    if (!strcmp(f, "identity") || !strcmp(f, "ReStickifyOpHBM") ||
        !strcmp(f, "shuffle"))
        return v[0];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(f, rows[i].name))
            return dv_fn_apply(rows[i].fn, v[0], v[1], v[2]);
    fprintf(stderr, "no function %s\n", f);
    must(0);
    return NAN;
}

// Returns how a function reduces, or -1 if it does not.
static int reducer_of(const char *f)
{
    return !strcmp(f, "batchmatmul")    ? DV_RED_SUM
           : !strncmp(f, "sum", 3)      ? DV_RED_SUM
           : !strncmp(f, "mean", 4)     ? DV_RED_SUM
           : !strcmp(f, "max")          ? DV_RED_MAX
           : !strcmp(f, "maxnonstick")  ? DV_RED_MAX
           : !strcmp(f, "min")          ? DV_RED_MIN
           : !strcmp(f, "minnonstick")  ? DV_RED_MIN
           : !strcmp(f, "prodnonstick") ? DV_RED_PROD
                                        : -1;
}

// -- Running ------------------------------------------------------------------

// Moves to the next point of a box; returns 0 after the last.
static int next_point(int n, int64_t *x, const int64_t *first,
                      const int64_t *len)
{
    for (int d = n - 1; d >= 0; d--) {
        if (++x[d] < first[d] + len[d])
            return 1;
        x[d] = first[d];
    }
    return 0;
}

// Returns the number of an element of the result, counted over all cores.
static int64_t result_at(const step *s, const int64_t *x)
{
    const tensor *r = &s->t[s->n_tensors - 1];
    int64_t at = 0;
    for (int d = 0; d < s->n_dims; d++)
        if (r->scale[d] == 1)
            at = at * s->size[d] + x[d];
    return at;
}

// Adds what a core computes of the step to the results.
static void compute(const step *s, int64_t core, double *results,
                    unsigned char *has)
{
    slice in[MAX_TENSORS];
    int64_t first[MAX_DIMS], len[MAX_DIMS], x[MAX_DIMS];
    char number[24];
    int reducer = reducer_of(s->func), n = s->n_tensors - 1;
    snprintf(number, sizeof number, "%d", (int)core);
    const dv_jval *slots =
        dv_jget(dsc_get(s->root, "coreIdToWkSlice_"), number);
    for (int i = 0; i < n; i++)
        if (!slice_of(s, &s->t[i], core, &in[i]))
            return;
    for (int d = 0; d < s->n_dims; d++) {
        int64_t splits =
            dv_jget(dsc_get(s->root, "numWkSlicesPerDim_"), s->label[d])
                ? dsc_get(dsc_get(s->root, "numWkSlicesPerDim_"), s->label[d])
                      ->i
                : 1;
        len[d] = s->size[d] / splits;
        first[d] = slots ? dsc_get(slots, s->label[d])->i * len[d] : 0;
    }
    // Of a copy between cores, a core gives all that it owns.
    if (!strcmp(s->func, "shuffle")) {
        memcpy(first, in[0].first, sizeof first);
        memcpy(len, in[0].len, sizeof len);
    }
    memcpy(x, first, sizeof x);
    do {
        double v[MAX_TENSORS] = {0};
        for (int i = 0; i < n; i++)
            v[i] = dv_load(s->t[i].dtype, in[i].at,
                           place_of(s, &s->t[i], &in[i], x));
        if (s->masked >= 0 && x[s->masked] >= s->mask_from)
            v[0] = s->mask_value;
        double *r = &results[result_at(s, x)];
        double y = reducer < 0 ? apply(s->func, v)
                   : n == 2    ? v[0] * v[1]
                               : v[0] * s->factor;
        *r = reducer < 0 || !has[r - results]
                 ? y
                 : dv_reducer_step((dv_reducer)reducer, *r, y);
        has[r - results] = 1;
    } while (next_point(s->n_dims, x, first, len));
}

// Stores the results that a core owns.
static void store(const step *s, int64_t core, const double *results,
                  const unsigned char *has)
{
    const tensor *t = &s->t[s->n_tensors - 1];
    slice out;
    int64_t x[MAX_DIMS];
    if (!slice_of(s, t, core, &out))
        return;
    memcpy(x, out.first, sizeof x);
    do {
        int64_t at = result_at(s, x);
        must(has[at]);
        dv_store(t->dtype, out.at, place_of(s, t, &out, x), results[at]);
    } while (next_point(s->n_dims, x, out.first, out.len));
}

static void run_step(machine *m, int number)
{
    step s = {.m = m, .root = dsc_step(m->f, number)};
    int64_t n = 1;
    must(dsc_get(s.root, "dscs_")->n == 1);
    s.design = &dsc_get(s.root, "dscs_")->items[0].items[0];
    s.func =
        dsc_get(&dsc_get(s.design, "computeOp_")->items[0], "opFuncName")->s;
    must(!strcmp(s.func, s.design->key));
    read_dims(&s);
    s.n_tensors = dsc_get(s.design, "labeledDs_")->n;
    must(s.n_tensors <= MAX_TENSORS);
    for (int i = 0; i < s.n_tensors; i++)
        read_tensor(&s, i);
    read_constants(&s);
    for (int i = 0; i < s.t[s.n_tensors - 1].n_own; i++)
        n *= s.size[s.t[s.n_tensors - 1].own[i]];
    double *results = calloc((size_t)n, sizeof *results);
    unsigned char *has = calloc((size_t)n, 1);
    const dv_jval *cores = dsc_get(s.design, "coreIdsUsed_");
    must(cores->n == dsc_get(s.root, "numCoresUsed_")->i);
    for (int c = 0; c < cores->n; c++)
        compute(&s, cores->items[c].i, results, has);
    for (int c = 0; c < cores->n; c++)
        store(&s, cores->items[c].i, results, has);
    free(results);
    free(has);
}

// -- Arguments ----------------------------------------------------------------

// Copies an array to an argument, or back if `out`. Along each dim in memory, a
// step goes stride_map[d] elements of the array; padding belongs to none.
static void copy_argument(const dv_jval *a, unsigned char *memory, void *host,
                          dv_dtype dtype, int out)
{
    const dv_jval *size = dsc_get(a, "device_size");
    const dv_jval *map = dsc_get(a, "stride_map");
    const dv_jval *shape = dsc_get(a, "shape");
    int64_t x[DV_MAX_DEVICE_DIMS] = {0}, zero[DV_MAX_DEVICE_DIMS] = {0};
    int64_t len[DV_MAX_DEVICE_DIMS], stride[DV_MAX_DIMS];
    int64_t at = 0;
    for (int h = shape->n - 1, s = 1; h >= 0; s *= (int)shape->items[h--].i)
        stride[h] = s;
    for (int d = 0; d < size->n; d++)
        len[d] = size->items[d].i;
    do {
        int64_t index[DV_MAX_DIMS] = {0}, offset = 0;
        int inside = 1;
        for (int d = 0; d < size->n; d++) {
            int64_t s = map->items[d].i;
            int of = -1;
            for (int h = 0; h < shape->n && s > 0; h++)
                if (shape->items[h].i > 1 && stride[h] <= s &&
                    (of < 0 || stride[h] > stride[of]))
                    of = h;
            if (of < 0)
                inside &= x[d] == 0;
            else
                index[of] += x[d] * (s / stride[of]);
        }
        for (int h = 0; h < shape->n; h++) {
            inside &= index[h] < shape->items[h].i;
            offset += index[h] * stride[h];
        }
        if (inside && out)
            dv_store(dtype, host, offset, dv_load(dtype, memory, at));
        else if (inside)
            dv_store(dtype, memory, at, dv_load(dtype, host, offset));
        at++;
    } while (next_point(size->n, x, zero, len));
}

static double value_of(const dv_jval *v)
{
    return v->kind == DV_JSTRING ? strtod(v->s, NULL) : v->f;
}

static void copy_arguments(machine *m, const dv_program *p, void *const *data,
                           int out)
{
    const dv_jval *all = dsc_get(m->bundle, "arguments");
    for (int i = 0; i < all->n; i++) {
        const dv_jval *a = &all->items[i];
        const char *kind = dsc_get(a, "kind")->s;
        const char *name = dsc_get(a, "dtype")->s;
        dv_dtype dtype = (dv_dtype)dv_dtype_find(name, strlen(name));
        int64_t bytes = dsc_get(a, "bytes")->i;
        if (!strcmp(kind, "constant")) {
            double v = value_of(dsc_get(a, "value"));
            for (int64_t k = 0; k < bytes / dv_dtype_get(dtype)->size_bytes;
                 k++)
                dv_store(dtype, m->argument[i], k, v);
        } else if (!strcmp(kind, out ? "output" : "input")) {
            int32_t t = dv_program_find(p, dsc_get(a, "name")->s);
            must(t >= 0);
            copy_argument(a, m->argument[i], data[t], dtype, out);
        }
        if (dv_dtype_get(dtype)->size_bytes == 2)
            m->half = dtype;
    }
}

static unsigned char *poisoned(int64_t bytes)
{
    unsigned char *at = malloc((size_t)bytes + 1);
    must(at != NULL);
    memset(at, DV_POISON, (size_t)bytes);
    return at;
}

void dsc_run(const dsc_files *f, const dv_program *p, void *const *data)
{
    machine m = {.f = f, .bundle = f->root[0], .half = DV_F16};
    int n = dsc_get(m.bundle, "arguments")->n;
    int64_t n_cores = dsc_get(m.bundle, "cores")->i;
    m.argument = calloc((size_t)n + 1, sizeof *m.argument);
    m.scratch = calloc((size_t)n_cores, sizeof *m.scratch);
    for (int i = 0; i < n; i++)
        m.argument[i] = poisoned(
            dsc_get(&dsc_get(m.bundle, "arguments")->items[i], "bytes")->i);
    m.argument[n] = poisoned(dsc_get(m.bundle, "pool_bytes")->i);
    for (int64_t c = 0; c < n_cores; c++)
        m.scratch[c] = poisoned(dsc_get(m.bundle, "scratch_bytes")->i);
    copy_arguments(&m, p, data, 0);
    for (int i = 0; i < f->n_steps; i++)
        run_step(&m, i);
    copy_arguments(&m, p, data, 1);
    for (int i = 0; i <= n; i++)
        free(m.argument[i]);
    for (int64_t c = 0; c < n_cores; c++)
        free(m.scratch[c]);
    free(m.argument);
    free(m.scratch);
}
