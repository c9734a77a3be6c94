// N2, N3, N4, N7: nests of ops with constants, means, several types, selects
// and indices that are read. For each, the reference loops compute what the
// oracle computes, before and after the passes, and kernels compute the same
// with any number of threads. All numbers are small integers, so that results
// do not depend on the order of adding.
#include "harness/test.h"
#include "harness/case.h"
#include "harness/doubles.h"
#include "contract/contract.h"
#include "harness/kernels.h"
#include <inttypes.h>
#include <math.h>

enum { MAX_TENSORS = 8 };

// -- Programs of one op ------------------------------------------------------

typedef struct maker {
    rng r;
    char text[800];
    size_t len;
    int x, y, z, rows; // extents; rows: of the tensor that is indexed
} maker;

__attribute__((format(printf, 2, 3))) static void put(maker *m,
                                                      const char *form, ...)
{
    va_list ap;
    va_start(ap, form);
    int n = vsnprintf(m->text + m->len, sizeof m->text - m->len, form, ap);
    va_end(ap);
    m->len += (size_t)n;
    assert_true(m->len < sizeof m->text);
}

static const char *pick_word(maker *m, const char *const *of, int n)
{
    return of[rng_below(&m->r, n)];
}

static const char *some_type(maker *m)
{
    static const char *const types[] = {"f32",  "f32", "f64", "f16",
                                        "bf16", "i32", "i8",  "i64"};
    return pick_word(m, types, 8);
}

static const char *some_float(maker *m)
{
    static const char *const types[] = {"f32", "f32", "f64", "f16", "bf16"};
    return pick_word(m, types, 5);
}

static const char *some_index(maker *m)
{
    static const char *const types[] = {"i32", "i32", "i64", "i8"};
    return pick_word(m, types, 4);
}

static const char *some_number(maker *m)
{
    static const char *const values[] = {"0", "1", "3", "0.5", "-2", "inf"};
    return pick_word(m, values, 6);
}

static void make_fill(maker *m)
{
    put(m, "c[x,y]: %s = %s  for x in 0..%d, y in 0..%d\n", some_float(m),
        some_number(m), m->x, m->y);
}

static const char *some_binary(maker *m, const char **open, const char **end)
{
    static const char *const main[][3] = {
        {"", "+", ""},      {"", "-", ""},      {"", "*", ""},
        {"min(", ",", ")"}, {"max(", ",", ")"}, {"", "<", ""}};
    const char *const *f = main[rng_below(&m->r, 6)];
    *open = f[0], *end = f[2];
    return f[1];
}

// A binary with a constant on either side; a is sometimes transposed.
static void make_constant(maker *m)
{
    const char *open, *end, *fn = some_binary(m, &open, &end);
    const char *value = some_number(m);
    int turned = rng_percent(&m->r, 40), first = rng_percent(&m->r, 50);
    const char *read = turned ? "a[y,x]" : "a[x,y]";
    put(m, "input a: %s[%d,%d]\n", some_float(m), turned ? m->y : m->x,
        turned ? m->x : m->y);
    put(m, "c[x,y]: %s = %s%s %s %s%s\n", some_float(m), open,
        first ? value : read, fn, first ? read : value, end);
}

static void make_mean(maker *m)
{
    static const char *const last[] = {"", "", "relu", "abs"};
    int form = (int)rng_below(&m->r, 3), product = form == 2;
    const char *type = rng_percent(&m->r, 50) ? "f32" : "f64";
    const char *of = product ? type : some_float(m);
    const char *to = product ? type : some_float(m);
    put(m, "input a: %s[%d,%d]\n", of, form == 1 ? m->y : m->x,
        form == 1 ? m->x : m->y);
    if (product)
        put(m, "input b: %s[%d]\n", of, m->y);
    const char *fn = pick_word(m, last, 4);
    if (form == 0)
        put(m, "c[x]: %s = %s(mean[k] a[x,k])\n", to, fn);
    else if (form == 1)
        put(m, "c[x]: %s = %s(mean[k] a[k,x])\n", to, fn);
    else
        put(m, "c[x]: %s = %s(mean[k] a[x,k] * b[k])\n", to, fn);
}

// Copies, functions and sums from one type to another.
static void make_types(maker *m)
{
    const char *open, *end, *fn = some_binary(m, &open, &end);
    int turned = rng_percent(&m->r, 40);
    const char *read = turned ? "a[y,x]" : "a[x,y]";
    put(m, "input a: %s[%d,%d]\ninput b: %s[%d]\n", some_type(m),
        turned ? m->y : m->x, turned ? m->x : m->y, some_type(m), m->y);
    switch (rng_below(&m->r, 4)) {
    case 0:
        put(m, "c[x,y]: %s = %s\n", some_type(m), read);
        break;
    case 1:
        put(m, "c[x,y]: %s = %s%s %s b[y]%s\n", some_type(m), open, read, fn,
            end);
        break;
    case 2:
        put(m, "c[x]: %s = sum[y] %s\n", some_type(m), read);
        break;
    default:
        put(m, "c[x]: %s = relu(sum[y] %s * b[y])\n", some_float(m), read);
    }
}

static void make_select(maker *m)
{
    const char *in1 = rng_percent(&m->r, 30) ? some_number(m) : "b[y,x]";
    const char *in2 =
        *in1 == 'b' && rng_percent(&m->r, 30) ? some_number(m) : "d[y]";
    put(m, "input a: %s[%d,%d]\ninput b: %s[%d,%d]\ninput d: %s[%d]\n",
        some_type(m), m->x, m->y, some_float(m), m->y, m->x, some_float(m),
        m->y);
    put(m, "c[x,y]: %s = select(a[x,y], %s, %s)\n", some_float(m), in1, in2);
}

static void make_spread(maker *m)
{
    static const char *const reads[] = {"a[x]", "relu(a[y])", "a[x] + 1",
                                        "-a[0]"};
    int n = m->x > m->y ? m->x : m->y;
    put(m, "input a: %s[%d]\nc[x,y]: %s = %s  for x in 0..%d, y in 0..%d\n",
        some_float(m), n, some_float(m), pick_word(m, reads, 4), m->x, m->y);
}

static void make_gather(maker *m)
{
    const char *type = some_type(m);
    int flat = rng_percent(&m->r, 20);
    put(m, "input i: %s[%d,%d]\n", some_index(m), m->x, m->y);
    if (flat)
        put(m, "input a: %s[%d]\n", type, m->rows);
    else
        put(m, "input a: %s[%d,%d]\n", type, m->rows, m->rows);
    if (flat && rng_percent(&m->r, 50)) {
        put(m, "c[x]: %s = sum[y] a[i[x,y]]\n", type);
        return;
    }
    if (flat) {
        put(m, "c[x,y]: %s = a[i[x,y]]\n", type);
        return;
    }
    switch (rng_below(&m->r, 6)) {
    case 0:
        put(m, "c[x,y,z] = a[i[x,y],z]\n");
        break;
    case 1:
        put(m, "c[y,z,x] = a[z,i[x,y]]\n");
        break;
    case 2:
        put(m, "c[x,z] = abs(a[i[x,0],z])  for x in 0..%d\n", m->x);
        break;
    case 4:
        put(m, "c[x] = sum[y,z] a[i[x,y],z] * a[z,0]\n");
        break;
    case 3:
        put(m, "c[x] = max[z] a[i[x,0],z]  for x in 0..%d\n", m->x);
        break;
    default:
        put(m, "c[x,z] = a[i[x,0],z] + a[0,z]  for x in 0..%d\n", m->x);
    }
}

// Products whose variables are in only one of the operands, and of several
// types.
static void make_dot(maker *m)
{
    static const char *const forms[][2] = {
        {"c[x]", "sum[k] a[x] * b[k]"},
        {"c[x,y]", "sum[k] a[x] * b[k]"},
        {"c[y,x]", "abs(sum[k] b[k] * b[y])"},
        {"c[x]", "sum[k] a[k] * b[k]"},
        {"c[x]", "mean[k] a[k] * b[x]"}};
    const char *type = some_float(m);
    int n = m->x > m->y ? m->x : m->y;
    put(m, "input a: %s[%d]\ninput b: %s[%d]\n", type, n,
        rng_percent(&m->r, 50) ? type : some_float(m), n);
    int form = (int)rng_below(&m->r, 5);
    put(m, "%s: %s = %s", forms[form][0], type, forms[form][1]);
    put(m, "  for x in 0..%d, k in 0..%d", m->x, m->y);
    if (form == 1 || form == 2)
        put(m, ", y in 0..%d", m->y);
    put(m, "\n");
}

// A scatter with repeated indices: the last write determines the value (N4).
static void make_scatter(maker *m)
{
    const char *type = some_type(m);
    static const char *const forms[] = {"c[i[x,y],z] <- a[x,y,z]",
                                        "c[z,i[x,y]] <- a[x,y,z]",
                                        "c[i[y,x],z] <- -a[x,y,z]"};
    int form = (int)rng_below(&m->r, 3);
    put(m, "input i: %s[%d,%d]\n", some_index(m), form == 2 ? m->y : m->x,
        form == 2 ? m->x : m->y);
    put(m, "input a: %s[%d,%d,%d]\ninput c: %s[%d,%d]\n", type, m->x, m->y,
        m->rows, type, m->rows, m->rows);
    put(m, "%s\n", forms[form]);
}

static void make_program(maker *m)
{
    static void (*const kinds[])(maker *) = {
        make_fill,   make_constant, make_mean,    make_types, make_select,
        make_spread, make_gather,   make_scatter, make_dot};
    static const int sizes[] = {1, 1, 2, 3, 5, 8, 17, 31, 32, 33, 40, 67};
    m->x = sizes[rng_below(&m->r, 12)];
    m->y = sizes[rng_below(&m->r, 12)];
    m->rows = 1 + (int)rng_below(&m->r, 9);
    kinds[rng_below(&m->r, 9)](m);
    put(m, "output c\n");
}

// -- Running nests -----------------------------------------------------------

typedef struct memory {
    char *data[DV_MAX_OPERANDS];
    void *at[DV_MAX_OPERANDS];
} memory;

static void fill(memory *d, const dv_nest *n, const dv_nest_operands *w,
                 const dv_program *p, double *const *values)
{
    *d = (memory){0};
    for (int o = 0; o < DV_MAX_OPERANDS; o++) {
        if (w->tensor[o] < 0)
            continue;
        const dv_tensor *t = &p->tensors[w->tensor[o]];
        int64_t size = dv_dtype_get(t->dtype)->size_bytes;
        assert_int_equal(t->dtype, dv_nest_dtype(n, o));
        d->data[o] = calloc((size_t)t->n_elems, (size_t)size);
        for (int64_t i = 0; i < t->n_elems; i++)
            dv_store(t->dtype, d->data[o], i, values[w->tensor[o]][i]);
        d->at[o] = d->data[o] + w->offset_elems[o] * size;
    }
}

static void drop(memory *d)
{
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        free(d->data[o]);
}

static int same(const dv_nest *n, const memory *d, const double *want,
                int64_t count, const char *how)
{
    for (int64_t i = 0; i < count; i++) {
        double got = dv_load(n->dtype, d->data[DV_OUT], i);
        if (got != want[i] && !(isnan(got) && isnan(want[i])))
            return case_no("%s: element %" PRId64 " is %g, the oracle has %g",
                           how, i, got, want[i]);
    }
    return 1;
}

static int loops_agree(const dv_nest *n, const dv_nest_operands *w,
                       const dv_program *p, double *const *before,
                       const double *want)
{
    memory d;
    fill(&d, n, w, p, before);
    dv_diag *diag = dv_diag_create();
    int ok = dv_nest_eval(n, d.at, diag) == DV_OK ||
             case_no("loops: %s", dv_diag_text(diag));
    ok =
        ok && same(n, &d, want, p->tensors[w->tensor[DV_OUT]].n_elems, "loops");
    dv_diag_destroy(diag);
    drop(&d);
    return ok;
}

// A nest that is ready to run computes what the oracle computes.
static int kernels_agree(dv_jit *jit, const dv_nest *n,
                         const dv_nest_operands *w, const dv_program *p,
                         double *const *before, const double *want,
                         int32_t threads, int *ran)
{
    dv_contract_options o = {.size = sizeof(dv_contract_options),
                             .threads = threads};
    dv_contract *c = NULL;
    dv_diag *diag = dv_diag_create();
    dv_status st = dv_contract_create(&c, jit, n, &o, diag);
    int ok = st == DV_OK || case_no("%s", dv_diag_text(diag));
    memory d;
    fill(&d, n, w, p, before);
    if (c) {
        ok = dv_contract_run(c, d.at[DV_IN0], d.at[DV_IN1], d.at[DV_IN2],
                             d.at[DV_OUT], diag) == DV_OK ||
             case_no("%s", dv_diag_text(diag));
        ok = ok && same(n, &d, want, p->tensors[w->tensor[DV_OUT]].n_elems,
                        "kernels");
        *ran += 1;
    }
    drop(&d);
    dv_contract_destroy(c);
    dv_diag_destroy(diag);
    return ok;
}

static int reads_back(const dv_nest *n)
{
    dv_nest *again = NULL;
    char *text = dv_nest_text(n);
    int ok =
        dv_nest_parse(&again, text, strlen(text), "again", NULL) == DV_OK &&
        dv_nest_equal(n, again);
    dv_nest_destroy(again);
    ok = ok || case_no("it does not read back:\n%s", text);
    dv_free(text);
    return ok;
}

// -- The property ------------------------------------------------------------

static void make_values(const dv_program *p, double **before, double **after,
                        int rows)
{
    for (int t = 0; t < p->n_tensors; t++) {
        int64_t n = p->tensors[t].n_elems;
        before[t] = calloc((size_t)n, sizeof(double));
        after[t] = calloc((size_t)n, sizeof(double));
        dv_nest_fill(DV_F64, (uint64_t)t, before[t], n);
        for (int64_t i = 0; p->tensors[t].name[0] == 'i' && i < n; i++)
            before[t][i] = (double)((i * 5 + i / 3) % rows);
        memcpy(after[t], before[t], (size_t)n * sizeof(double));
    }
}

typedef struct count {
    int derived, kernels, ready;
} count;

// Checks one op: `before` holds all tensors before it, `want` what it writes.
static int op_holds(dv_jit *jit, const maker *m, const dv_program *p,
                    int32_t op, double *const *before, const double *want,
                    dv_diag *diag, count *all)
{
    static const char *const lists[] = {"seed", "best"};
    int32_t threads = 1 + (int32_t)(m->len % 5);
    dv_nest n, laid;
    dv_nest_operands w;
    int ok = dv_nest_of_op(&n, &w, p, op, diag) == DV_OK ||
             case_no("%s", dv_diag_text(diag));
    ok = ok && reads_back(&n) && loops_agree(&n, &w, p, before, want);
    for (int i = 0; i < 2 && ok; i++) {
        laid = n;
        dv_nest_options passes = {.size = sizeof(dv_nest_options),
                                  .threads = threads};
        ok = dv_nest_optimise(&laid, lists[i], &passes, diag) == DV_OK ||
             case_no("%s: %s", lists[i], dv_diag_text(diag));
        ok = ok && reads_back(&laid) && loops_agree(&laid, &w, p, before, want);
        all->ready += i == 0 && ok && dv_nest_verify(&laid, NULL) == DV_OK;
    }
    ok = ok &&
         kernels_agree(jit, &n, &w, p, before, want, threads, &all->kernels);
    all->derived += ok;
    return ok;
}

// Lowering may move a factor out of a reducer, so that there are two ops. No
// tensor is written twice.
static int holds(dv_jit *jit, const maker *m, const dv_program *p,
                 dv_diag *diag, count *all)
{
    double *before[MAX_TENSORS] = {0}, *after[MAX_TENSORS] = {0};
    double *at[MAX_TENSORS];
    dv_eval_options options = {.round = 1};
    assert_true(p->n_tensors <= MAX_TENSORS);
    make_values(p, before, after, m->rows);
    int ok = eval_in_doubles(p, after, &options, diag) == DV_OK ||
             case_no("%s", dv_diag_text(diag));
    for (int32_t i = 0; i < p->n_ops && ok; i++) {
        int32_t out = p->ops[i].write.tensor;
        memcpy(at, after, sizeof at);
        at[out] = before[out];
        ok = op_holds(jit, m, p, i, at, after[out], diag, all);
    }
    for (int t = 0; t < p->n_tensors; t++) {
        free(before[t]);
        free(after[t]);
    }
    return ok;
}

static void ops(void **state)
{
    uint64_t seed = gen_seed();
    int cases = gen_cases(1500);
    count all = {0};
    for (int i = 0; i < cases; i++) {
        maker m = {.r = {seed + (uint64_t)i}};
        make_program(&m);
        dv_diag *diag = dv_diag_create();
        dv_program *p = NULL, *q = NULL;
        int ok = case_lower(&p, &q, m.text, m.len, diag);
        ok = ok && holds(*state, &m, q, diag, &all);
        dv_program_destroy(p);
        dv_program_destroy(q);
        dv_diag_destroy(diag);
        if (!ok) {
            gen_report("the nest of an op", seed + (uint64_t)i, GEN_FLOATS,
                       m.text, case_why());
            fail_msg("DV_SEED=%" PRIu64, seed + (uint64_t)i);
        }
    }
    printf("%d nests, %d with kernels, %d in mini_jit's form\n", all.derived,
           all.kernels, all.ready);
    if (cases > 100) {
        assert_true(all.kernels > cases / 2);
        assert_true(all.ready > cases / 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ops)};
    return run_group(tests, jit_begin, jit_end);
}
