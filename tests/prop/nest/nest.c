// Properties of nests: texts read back (T1); no pass changes the result (N7);
// the nest of an op computes what the oracle computes. All numbers are small
// integers, so that results do not depend on the order of adding.
#include "harness/nest_eval.h"
#include "harness/test.h"
#include "harness/case.h"
#include "harness/doubles.h"
#include "nest/nest.h"
#include <inttypes.h>

// -- Random nests ------------------------------------------------------------

static void shuffle(rng *r, int *a, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int j = (int)rng_below(r, i + 1), t = a[i];
        a[i] = a[j];
        a[j] = t;
    }
}

// Lays an operand out: its dimensions in random order, sometimes with gaps.
// Mostly a dimension of type `unit` gets stride 1, if there is one.
static void lay_out(rng *r, dv_nest *n, int o, const char *has, int unit)
{
    int order[DV_NEST_MAX_DIMS], count = 0;
    for (int i = 0; i < n->n_dims; i++)
        if (strchr(has, "cmnk"[n->dims[i].type]))
            order[count++] = i;
    shuffle(r, order, count);
    for (int i = 0; i < count && rng_percent(r, 85); i++)
        if ((int)n->dims[order[i]].type == unit) {
            int t = order[0];
            order[0] = order[i];
            order[i] = t;
            break;
        }
    int64_t step = 1;
    for (int i = 0; i < count; i++) {
        n->dims[order[i]].stride[o] = rng_percent(r, 5) ? -step : step;
        step = step * n->dims[order[i]].size + (rng_percent(r, 8) ? 3 : 0);
    }
}

// Splits some dimensions in two, so that passes have something to fuse.
static void cut_some(rng *r, dv_nest *n)
{
    for (int i = 0, end = n->n_dims; i < end; i++) {
        dv_nest_dim *d = &n->dims[i];
        int64_t by = 2 + rng_below(r, 3);
        if (d->size % by || d->size > 100 || !rng_percent(r, 50))
            continue;
        dv_nest_dim outer = *d;
        outer.size = by;
        d->size /= by;
        for (int o = 0; o < DV_N_OPERANDS; o++)
            outer.stride[o] *= d->size;
        n->dims[n->n_dims++] = outer;
    }
}

static void mark_some(rng *r, dv_nest *n)
{
    int order[DV_NEST_MAX_DIMS];
    dv_nest_dim dims[DV_NEST_MAX_DIMS];
    for (int i = 0; i < n->n_dims; i++)
        order[i] = i;
    shuffle(r, order, n->n_dims);
    int marks = rng_percent(r, 30);
    for (int i = 0; i < n->n_dims; i++) {
        dims[i] = n->dims[order[i]];
        if (marks && rng_percent(r, 40))
            dims[i].exec = dims[i].type != DV_NEST_K && rng_percent(r, 30)
                               ? DV_NEST_SHARED
                               : DV_NEST_PRIM;
    }
    memcpy(n->dims, dims, sizeof *dims * (size_t)n->n_dims);
}

static void random_nest(rng *r, dv_nest *n)
{
    static const int64_t large[] = {256, 257, 260, 300, 512};
    static const dv_prim touch[] = {DV_PRIM_NONE, DV_PRIM_ZERO, DV_PRIM_COPY,
                                    DV_PRIM_RELU, DV_PRIM_ABS};
    static const dv_prim two[] = {DV_PRIM_ADD, DV_PRIM_SUB, DV_PRIM_MAX,
                                  DV_PRIM_LT};
    int unary = rng_percent(r, 30), big = rng_percent(r, 40);
    int binary = !unary && rng_percent(r, 20);
    int reduce = !unary && !binary && rng_percent(r, 20);
    *n = (dv_nest){.name = "random", .main = DV_PRIM_GEMM};
    n->dtype = rng_percent(r, 70) ? DV_F32 : DV_F64;
    if (unary)
        n->main = touch[1 + rng_below(r, 4)];
    else if (binary)
        n->main = two[rng_below(r, 4)];
    else if (reduce)
        n->main = rng_percent(r, 50) ? DV_PRIM_SUM : DV_PRIM_MAX_OVER;
    else if (rng_percent(r, 50))
        n->main = DV_PRIM_BRGEMM;
    if (!unary && !binary) {
        n->first = touch[rng_below(r, 5)];
        n->last = touch[rng_below(r, 5)];
    }
    for (int t = 0; t < (unary || binary ? 3 : 4); t++) {
        int64_t count = rng_below(r, t == DV_NEST_C && !unary ? 2 : 3);
        count += t != DV_NEST_C && rng_percent(r, 80) && count == 0;
        for (int64_t i = 0; i < count; i++) {
            dv_nest_dim *d = &n->dims[n->n_dims++];
            d->type = (dv_nest_type)t;
            d->exec = DV_NEST_SEQ;
            d->size = 1 + rng_below(r, big ? 3 : 6);
        }
    }
    if (n->n_dims == 0)
        n->dims[n->n_dims++] =
            (dv_nest_dim){.type = DV_NEST_C, .exec = DV_NEST_SEQ, .size = 3};
    if (big)
        n->dims[rng_below(r, n->n_dims)].size = large[rng_below(r, 5)];
    if (unary) {
        lay_out(r, n, DV_IN0, "cmn",
                rng_percent(r, 50) ? DV_NEST_M : DV_NEST_C);
        lay_out(r, n, DV_OUT, "cmn", DV_NEST_M);
    } else if (reduce) {
        lay_out(r, n, DV_IN0, "cmnk", DV_NEST_K);
        lay_out(r, n, DV_OUT, "cmn", DV_NEST_M);
    } else {
        lay_out(r, n, DV_IN0, "cmk", DV_NEST_M);
        lay_out(r, n, DV_IN1, "cnk", DV_NEST_K);
        lay_out(r, n, DV_OUT, "cmn", DV_NEST_M);
    }
    cut_some(r, n);
    mark_some(r, n);
}

// -- What must hold ----------------------------------------------------------

// Returns memory with made-up numbers; *at is the element with all indices 0.
static void *made_up(const dv_nest *n, int o, char **at, size_t *bytes)
{
    int64_t lo, hi, size = dv_dtype_get(n->dtype)->size_bytes;
    dv_nest_extent(n, o, &lo, &hi);
    *bytes = (size_t)((hi - lo + 1) * size);
    void *data = malloc(*bytes);
    dv_nest_fill(n->dtype, (uint64_t)o + 7, data, hi - lo + 1);
    *at = (char *)data - lo * size;
    return data;
}

// Returns the operand out after a run, from malloc.
static void *result(const dv_nest *n, size_t *bytes)
{
    void *data[DV_N_OPERANDS];
    char *at[DV_N_OPERANDS];
    for (int o = 0; o < DV_N_OPERANDS; o++)
        data[o] = made_up(n, o, &at[o], bytes);
    dv_status st = eval_nest(n, at[0], at[1], at[2]);
    free(data[DV_IN0]);
    free(data[DV_IN1]);
    assert_int_equal(st, DV_OK);
    return data[DV_OUT];
}

static int reads_back(const dv_nest *n)
{
    dv_text a = {0}, b = {0};
    dv_nest back;
    dv_nest_print(&a, n);
    dv_source src = {"printed", a.at, a.len};
    int ok =
        dv_nest_from(&back, &src, NULL) == DV_OK && dv_nest_equal(n, &back);
    if (ok)
        dv_nest_print(&b, &back);
    ok = ok && strcmp(a.at, b.at) == 0;
    dv_text_free(&a);
    dv_text_free(&b);
    return ok || case_no("it does not read back");
}

// A nest that is made from its description is the same nest.
static int is_made_again(const dv_nest *n)
{
    dv_nest_info info;
    dv_nest_loop loops[DV_NEST_MAX_DIMS];
    double values[DV_NEST_PLACES];
    dv_nest *again = NULL;
    dv_text a = {0}, b = {0};
    dv_nest_describe(&info, loops, values, n);
    int ok = dv_nest_make(&again, &info, NULL) == DV_OK;
    dv_nest_print(&a, n);
    if (ok)
        dv_nest_print(&b, again);
    ok = ok && dv_nest_equal(n, again) && !strcmp(a.at, b.at);
    dv_text_free(&a);
    dv_text_free(&b);
    dv_nest_destroy(again);
    return ok || case_no("its description makes another nest");
}

typedef struct watch {
    const void *want;
    size_t bytes;
    int ok;
} watch;

static void after(void *user, const char *pass, const dv_nest *n)
{
    watch *w = user;
    size_t bytes;
    if (!w->ok)
        return;
    void *got = result(n, &bytes);
    if (bytes != w->bytes || memcmp(got, w->want, bytes) != 0)
        w->ok = case_no("%s changes the result", pass);
    w->ok = w->ok && reads_back(n) && is_made_again(n);
    free(got);
}

// N7: every pass keeps the result. *ready: the nest then has the form of a
// kernel (N6).
static int passes_keep(const dv_nest *n, const char *list, int64_t threads,
                       int *ready)
{
    watch w = {.ok = 1};
    dv_nest work = *n;
    dv_nest_options options = {.size = sizeof(dv_nest_options),
                               .threads = threads,
                               .after = after,
                               .user = &w};
    dv_diag *diag = dv_diag_create();
    void *want = result(n, &w.bytes);
    w.want = want;
    if (dv_nest_optimise(&work, list, &options, diag))
        w.ok = case_no("a pass fails: %s", dv_diag_text(diag));
    int best = !strncmp(list, "join", 4) && dv_nest_is_product(n);
    dv_nest_form form;
    if (w.ok && best &&
        (dv_nest_check_order(&work, diag) ||
         dv_nest_form_of(&work, &form, diag)))
        w.ok = case_no("it has no form: %s", dv_diag_text(diag));
    dv_status st = w.ok && !best ? dv_nest_verify(&work, diag) : DV_OK;
    if (st != DV_OK && st != DV_E_NEST)
        w.ok = case_no("it cannot be verified: %s", dv_diag_text(diag));
    *ready += w.ok && st == DV_OK;
    free(want);
    dv_diag_destroy(diag);
    return w.ok;
}

static void report(const char *what, uint64_t seed, const dv_nest *n)
{
    dv_text text = {0};
    dv_nest_print(&text, n);
    gen_report(what, seed, GEN_FLOATS, text.at, case_why());
    dv_text_free(&text);
    fail();
}

TEST(passes)
{
    uint64_t seed = gen_seed();
    int cases = gen_cases(3000), ready = 0, sound = 0;
    for (int i = 0; i < cases; i++) {
        rng r = {seed + (uint64_t)i};
        dv_nest n;
        random_nest(&r, &n);
        const char *list = dv_nest_list(rng_percent(&r, 40)   ? "best"
                                        : rng_percent(&r, 50) ? "seed"
                                                              : "seed+brgemm");
        if (dv_nest_check(&n, NULL) != DV_OK)
            continue; // a product whose in1 has no dimension
        sound++;
        if (!reads_back(&n) ||
            !passes_keep(&n, list, 1 + rng_below(&r, 8), &ready))
            report("passes keep the result", seed + (uint64_t)i, &n);
    }
    printf("%d of %d nests, %d get a kernel\n", sound, cases, ready);
    if (cases > 100)
        assert_true(sound > cases / 2 &&
                    ready >
                        cases / 10); // enough nests get the form of a kernel
}

// -- Ops of programs ---------------------------------------------------------

typedef struct variable {
    char type; // c, m, n or k
    int size;
} variable;

typedef struct maker {
    rng r;
    variable v[8];
    int n_vars;
    char text[2000];
    size_t len;
} maker;

__attribute__((format(printf, 2, 3))) static void put(maker *m,
                                                      const char *form, ...)
{
    va_list ap;
    va_start(ap, form);
    m->len +=
        (size_t)vsnprintf(m->text + m->len, sizeof m->text - m->len, form, ap);
    va_end(ap);
}

// Writes an access over the variables of some types, and the shape that it
// needs.
static void tensor(maker *m, const char *types, char *shape, char *access)
{
    int order[8], n = 0,
                  plain = types[0] == 'c' && types[1] == 'm' && types[2] == 'n';
    for (int i = 0; i < m->n_vars; i++)
        if (strchr(types, m->v[i].type))
            order[n++] = i;
    shuffle(&m->r, order, n);
    *shape = *access = 0;
    for (int i = 0; i < n; i++) {
        int size = m->v[order[i]].size, name = 'i' + order[i];
        int how = plain ? 9 : (int)rng_below(&m->r, 10);
        const char *sep = i ? "," : "";
        int extent = how == 0 ? size + 2 : how == 1 ? 2 * size : size;
        shape += sprintf(shape, "%s%d", sep, extent);
        if (how == 0)
            access += sprintf(access, "%s%c+1", sep, name);
        else if (how == 1)
            access += sprintf(access, "%s2*%c", sep, name);
        else if (how == 2)
            access += sprintf(access, "%s%d-%c", sep, size - 1, name);
        else
            access += sprintf(access, "%s%c", sep, name);
    }
}

static void ranges(maker *m)
{
    for (int i = 0; i < m->n_vars; i++)
        put(m, "%s%c in 0..%d", i ? ", " : "  for ", 'i' + i, m->v[i].size);
    put(m, "\noutput c\n");
}

static void make_product(maker *m, const char *type)
{
    static const char *const last[] = {"", "relu", "abs", "-"};
    char shape[3][100], access[3][100], sums[40] = "";
    const char *fn = last[rng_below(&m->r, 4)];
    int add = rng_percent(&m->r, 25);
    tensor(m, "cmk", shape[0], access[0]);
    tensor(m, "cnk", shape[1], access[1]);
    tensor(m, "cmn", shape[2], access[2]);
    for (int i = 0, n = 0; i < m->n_vars; i++)
        if (m->v[i].type == 'k')
            n += sprintf(sums + n, "%s%c", n ? "," : "", 'i' + i);
    put(m, "input a: %s[%s]\ninput b: %s[%s]\n", type, shape[0], type,
        shape[1]);
    if (add)
        put(m, "input c: %s[%s]\nc[%s] <- %s(c[%s] + (", type, shape[2],
            access[2], fn, access[2]);
    else
        put(m, "c[%s]: %s = %s((", access[2], type, fn);
    put(m, "sum[%s] a[%s] * b[%s]))", sums, access[0], access[1]);
    ranges(m);
}

// Reduced variables are read; the others are read and written.
static void make_reduction(maker *m, const char *type)
{
    static const char *const main[][3] = {
        {"sum", "", " + "}, {"max", "max", ", "}, {"min", "min", ", "}};
    const char *const *how = main[rng_below(&m->r, 3)];
    char shape[2][100], access[2][100], over[40] = "";
    int add = rng_percent(&m->r, 40);
    tensor(m, "mnck", shape[0], access[0]);
    tensor(m, "cmn", shape[1], access[1]);
    for (int i = 0, n = 0; i < m->n_vars; i++)
        if (m->v[i].type == 'k')
            n += sprintf(over + n, "%s%c", n ? "," : "", 'i' + i);
    put(m, "input a: %s[%s]\n", type, shape[0]);
    if (add)
        put(m, "input c: %s[%s]\nc[%s] <- %s(c[%s]%s(", type, shape[1],
            access[1], how[1], access[1], how[2]);
    else
        put(m, "c[%s]: %s = abs((", access[1], type);
    put(m, "%s[%s] a[%s]))", how[0], over, access[0]);
    ranges(m);
}

static void make_unary(maker *m, const char *type)
{
    static const char *const main[] = {"", "relu", "abs", "-"};
    char shape[2][100], access[2][100];
    for (int i = 0; i < m->n_vars; i++)
        m->v[i].type = 'm';
    tensor(m, "cm", shape[0], access[0]);
    tensor(m, "cmn", shape[1], access[1]);
    put(m, "input a: %s[%s]\nc[%s]: %s = %s(a[%s])", type, shape[0], access[1],
        type, main[rng_below(&m->r, 4)], access[0]);
    ranges(m);
}

// Every variable is in at least one of the operands, the first in both.
static void make_binary(maker *m, const char *type)
{
    static const char *const main[][3] = {{"", "+", ""},
                                          {"", "-", ""},
                                          {"", "*", ""},
                                          {"min(", ",", ")"},
                                          {"", "<=", ""}};
    char shape[3][100], access[3][100], in0[320], in1[320], body[700];
    for (int i = 0; i < m->n_vars; i++)
        if (i == 0 || m->v[i].type == 'k')
            m->v[i].type = 'c';
    tensor(m, "cm", shape[0], access[0]);
    tensor(m, "cn", shape[1], access[1]);
    tensor(m, "cmn", shape[2], access[2]);
    int in_place = rng_percent(&m->r, 20);
    sprintf(in0, "%c[%s]", in_place ? 'c' : 'a', access[in_place ? 2 : 0]);
    sprintf(in1, "b[%s]", access[1]);
    const char *const *form = main[rng_below(&m->r, 5)];
    int turned = rng_percent(&m->r, 50);
    snprintf(body, sizeof body, "%s%s %s %s%s", form[0], turned ? in1 : in0,
             form[1], turned ? in0 : in1, form[2]);
    put(m, "input b: %s[%s]\n", type, shape[1]);
    if (in_place)
        put(m, "input c: %s[%s]\nc[%s] <- %s", type, shape[2], access[2], body);
    else
        put(m, "input a: %s[%s]\nc[%s]: %s = %s", type, shape[0], access[2],
            type, body);
    ranges(m);
}

static void make_program(maker *m)
{
    const char *type = rng_percent(&m->r, 50) ? "f32" : "f64";
    // At least one variable is written and one is summed over.
    m->v[m->n_vars++].type = "cmn"[rng_below(&m->r, 3)];
    m->v[m->n_vars++].type = 'k';
    while (m->n_vars < 7 && rng_percent(&m->r, 70))
        m->v[m->n_vars++].type = "cmnk"[rng_below(&m->r, 4)];
    for (int i = 0; i < m->n_vars; i++)
        m->v[i].size = 1 + (int)rng_below(&m->r, 5);
    if (rng_percent(&m->r, 70)) {
        (rng_percent(&m->r, 75) ? make_product : make_reduction)(m, type);
    } else {
        m->n_vars = 1 + (int)rng_below(&m->r, m->n_vars);
        (rng_percent(&m->r, 50) ? make_unary : make_binary)(m, type);
    }
}

// The nest's loops leave in out what the oracle computes.
static int agrees(const dv_nest *n, const dv_nest_operands *w,
                  const dv_program *p, double *const *before,
                  const double *want)
{
    char *data[DV_N_OPERANDS] = {0}, *at[DV_N_OPERANDS] = {0};
    int64_t size = dv_dtype_get(n->dtype)->size_bytes, bad = -1;
    for (int o = 0; o < DV_N_OPERANDS; o++) {
        if (w->tensor[o] < 0)
            continue;
        const dv_tensor *t = &p->tensors[w->tensor[o]];
        data[o] = calloc((size_t)t->n_elems, (size_t)size);
        for (int64_t i = 0; i < t->n_elems; i++)
            dv_store(n->dtype, data[o], i, before[w->tensor[o]][i]);
        at[o] = data[o] + w->offset_elems[o] * size;
    }
    dv_status st = eval_nest(n, at[0], at[1], at[2]);
    const dv_tensor *t = &p->tensors[w->tensor[DV_OUT]];
    double got = 0;
    for (int64_t i = 0; i < t->n_elems && bad < 0; i++)
        if ((got = dv_load(n->dtype, data[DV_OUT], i)) != want[i])
            bad = i;
    for (int o = 0; o < DV_N_OPERANDS; o++)
        free(data[o]);
    if (st != DV_OK)
        return case_no("it does not run");
    return bad < 0 || case_no("element %" PRId64 " is %g, the oracle has %g",
                              bad, got, want[bad]);
}

static int as_the_oracle(const dv_program *p, dv_diag *diag, int *ready)
{
    double *before[4] = {0}, *after[4] = {0};
    dv_nest n;
    dv_nest_operands where;
    int32_t out = p->ops[0].write.tensor;
    for (int t = 0; t < p->n_tensors; t++) {
        size_t elems = (size_t)p->tensors[t].n_elems;
        before[t] = calloc(elems, sizeof(double));
        after[t] = calloc(elems, sizeof(double));
        dv_nest_fill(DV_F64, (uint64_t)t, before[t], (int64_t)elems);
        memcpy(after[t], before[t], elems * sizeof(double));
    }
    dv_eval_options options = {.round = 1};
    int ok = eval_in_doubles(p, after, &options, diag) == DV_OK &&
             dv_nest_of_op(&n, &where, p, 0, diag) == DV_OK;
    if (!ok)
        case_no("%s", dv_diag_text(diag));
    ok = ok && agrees(&n, &where, p, before, after[out]);
    dv_nest_options passes = {.size = sizeof(dv_nest_options), .threads = 2};
    if (ok && dv_nest_optimise(&n, dv_nest_list("seed"), &passes, diag))
        ok = case_no("a pass fails: %s", dv_diag_text(diag));
    ok = ok && agrees(&n, &where, p, before, after[out]);
    *ready += ok && dv_nest_verify(&n, NULL) == DV_OK;
    for (int t = 0; t < p->n_tensors; t++) {
        free(before[t]);
        free(after[t]);
    }
    return ok;
}

TEST(ops)
{
    uint64_t seed = gen_seed();
    int cases = gen_cases(1500), ready = 0;
    for (int i = 0; i < cases; i++) {
        maker m = {.r = {seed + (uint64_t)i}};
        make_program(&m);
        dv_diag *diag = dv_diag_create();
        dv_program *p = NULL, *q = NULL;
        int ok = case_lower(&p, &q, m.text, m.len, diag);
        // If lowering makes several ops, because factors that are read
        // backwards are reversed first, the op as written has a nest, too.
        ok = ok && (q->n_ops <= 3 || case_no("%d ops", (int)q->n_ops)) &&
             as_the_oracle(q->n_ops == 1 ? q : p, diag, &ready);
        dv_program_destroy(p);
        dv_program_destroy(q);
        dv_diag_destroy(diag);
        if (!ok) {
            gen_report("the nest of an op", seed + (uint64_t)i, GEN_FLOATS,
                       m.text, case_why());
            fail();
        }
    }
    printf("%d of %d nests get a kernel\n", ready, cases);
    if (cases > 100)
        assert_true(ready > cases / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes),
        cmocka_unit_test(ops),
    };
    return run_group(tests, NULL, NULL);
}
