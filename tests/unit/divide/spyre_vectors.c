// Torch-Spyre's division on its own test vectors (tests/vectors/divide.txt):
// each op becomes a program; layouts, numbers of sticks, spans and splits must
// be equal.
//
// They differ on purpose in one thing: spans count bytes as the device stores
// them, Torch-Spyre counts those of the host. An int64 takes 8 bytes on the
// host and 4 on the device, a bool 1 and 2 (it becomes f16 here). For those two
// ops layouts and numbers of sticks are compared, and the spans after scaling;
// splits are not.
#include "harness/test.h"
#include "harness/unit.h"
#include "divide/divide.h"
#include "harness/spyre_decode.h"
#include <inttypes.h>
#include <math.h>

enum { MAX = 8 };

typedef struct tensor {
    char name[16], dtype[16], shape[64], axes[64];
} tensor;

// The op that is being read, and what has been made of it.
typedef struct state {
    char name[64], kind[16], vars[MAX][8];
    long long extents[MAX];
    int n_vars, n_in;
    tensor in[MAX], out;
    dv_program *p;
    dv_target *target;
    dv_layout *layouts;
    dv_divide_space space;
    dv_arena arena;
    dv_divided got;
    int ok;
    int host_bytes; // bytes that Torch-Spyre counts per element; 0: as we do
    // The span limit and number of cores of the last plan.
    long long limit;
    int cores;
    int n_ops, n_plans, n_errors, n_costs;
} state;

static int device_dtype(const char *name)
{
    static const struct {
        const char *name;
        dv_dtype dtype;
    } table[] = {{"float16", DV_F16}, {"bfloat16", DV_BF16},
                 {"float32", DV_F32}, {"int8", DV_I8},
                 {"int64", DV_I64},   {"bool", DV_F16}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name))
            return (int)table[i].dtype;
    fail_msg("dtype %s", name);
    return -1;
}

// Writes "c0,-,c2" as "c0,0,c2", and "." as nothing.
static void put_axes(dv_text *out, const char *axes)
{
    for (; *axes && *axes != '.'; axes++)
        dv_put(out, "%c", *axes == '-' ? '0' : *axes);
}

static void declare(dv_text *out, const char *word, const tensor *t)
{
    dv_put(out, "%s %s: %s[%s]\n", word, t->name,
           dv_dtype_get((dv_dtype)device_dtype(t->dtype))->name,
           t->shape[0] == '.' ? "" : t->shape);
}

static void write_program(const state *s, dv_text *out)
{
    for (int i = 0; i < s->n_in; i++)
        declare(out, "input", &s->in[i]);
    int reduction = !strcmp(s->kind, "reduction"),
        matmul = !strcmp(s->kind, "matmul");
    dv_put(out, "%s[", s->out.name);
    put_axes(out, s->out.axes);
    dv_put(out, "]: %s = ",
           dv_dtype_get((dv_dtype)device_dtype(s->out.dtype))->name);
    if (reduction || matmul) {
        const char *sep = reduction && s->name[0] == 'm' ? "max[" : "sum[";
        for (int v = 0; v < s->n_vars; v++) {
            if (strstr(s->out.axes, s->vars[v]))
                continue;
            dv_put(out, "%s%s", sep, s->vars[v]);
            sep = ",";
        }
        dv_put(out, "] ");
    }
    for (int i = 0; i < s->n_in; i++) {
        dv_put(out, "%s%s[", i ? matmul ? " * " : " + " : "", s->in[i].name);
        put_axes(out, s->in[i].axes);
        dv_put(out, "]");
    }
    dv_put(out, "\noutput %s\n", s->out.name);
}

static void make(state *s)
{
    dv_text text = {0};
    write_program(s, &text);
    dv_diag *diag = dv_diag_create();
    if (dv_program_parse(&s->p, text.at, text.len, s->name, NULL, 0, diag))
        fail_msg("%s", dv_diag_text(diag));
    dv_diag_destroy(diag);
    s->layouts = DV_NEW(&s->arena, dv_layout, s->p->n_tensors);
    for (int i = 0; i < s->p->n_tensors; i++) {
        const dv_tensor *t = &s->p->tensors[i];
        // Reducing over the stick dim leaves one element per stick.
        int sparse =
            !strcmp(s->kind, "reduction") && t->is_output &&
            !strstr(s->out.axes,
                    s->in[0].axes + strlen(s->in[0].axes) - strlen(s->vars[0]));
        dv_layout_spec spec = {t->n_dims, t->shape, NULL,
                               sparse && t->n_dims > 0};
        assert_true(dv_layout_make(&s->layouts[i], s->target, t->dtype, &spec));
    }
    assert_true(dv_divide_space_init(&s->space, s->target, s->p, &s->p->ops[0],
                                     s->layouts, &s->arena));
    s->host_bytes = !strcmp(s->out.dtype, "int64")  ? 8
                    : !strcmp(s->out.dtype, "bool") ? 1
                                                    : 0;
    dv_text_free(&text);
    s->n_ops++;
}

static void finish(state *s)
{
    dv_program_destroy(s->p);
    s->p = NULL;
    dv_arena_free(&s->arena);
    s->n_vars = s->n_in = 0;
}

static int var_of(const state *s, const char *name, size_t len)
{
    for (int v = 0; v < s->space.n_vars; v++)
        if (strlen(s->space.op->vars[v].name) == len &&
            !strncmp(s->space.op->vars[v].name, name, len))
            return v;
    fail_msg("%s: no variable %s", s->name, name);
    return -1;
}

static int tensor_of(const state *s, const char *name)
{
    for (int i = 0; i < s->space.n_tensors; i++)
        if (!strcmp(s->space.tensors[i]->name, name))
            return i;
    fail_msg("%s: no tensor %s", s->name, name);
    return -1;
}

static void compare_list(const state *s, const char *what, const char *want,
                         const int64_t *got, int n)
{
    dv_text text = {0};
    for (int i = 0; i < n; i++)
        dv_put(&text, "%s%" PRId64, i ? "," : "", got[i]);
    if (strcmp(text.at, want) != 0)
        fail_msg("%s: %s is %s, Torch-Spyre has %s", s->name, what, text.at,
                 want);
    dv_text_free(&text);
}

static int64_t as_original(const state *s, int i, int64_t span)
{
    int64_t bytes = s->space.layouts[i]->elem_bytes;
    return s->host_bytes ? span / bytes * s->host_bytes : span;
}

static void read_layout(state *s, const char *line)
{
    char name[16], sizes[64], strides[64];
    long long span;
    sscanf(line, "layout %15s %63s %63s %lld", name, sizes, strides, &span);
    int i = tensor_of(s, name);
    const dv_layout *l = s->space.layouts[i];
    compare_list(s, "device_size", sizes, l->size, l->n_dims);
    compare_list(s, "stride_map", strides, l->stride, l->n_dims);
    dv_splits whole;
    for (int v = 0; v < DV_MAX_VARS; v++)
        whole.n[v] = 1;
    assert_int_equal(as_original(s, i, dv_span(&s->space, i, &whole, 1)), span);
}

// Reads splits like "c0:32 c1:1"; variables that are not named have 1.
static dv_splits read_splits(const state *s, const char *text)
{
    dv_splits d;
    for (int v = 0; v < DV_MAX_VARS; v++)
        d.n[v] = 1;
    while (*text && *text != '\n') {
        const char *colon = strchr(text, ':');
        d.n[var_of(s, text, (size_t)(colon - text))] =
            strtoll(colon + 1, NULL, 10);
        text = colon + strcspn(colon, " \n");
        text += strspn(text, " ");
    }
    return d;
}

static dv_status divide(state *s, long long limit, int cores, int cost)
{
    dv_divide_request r = {
        .cores = cores, .span_limit_bytes = limit, .cost = cost};
    return dv_divide_seed(&s->got, &s->space, &r, NULL);
}

static void compare_splits(const state *s, const char *what, const char *text,
                           const dv_splits *got)
{
    dv_splits want = read_splits(s, text);
    for (int v = 0; v < s->space.n_vars; v++)
        if (want.n[v] != got->n[v])
            fail_msg("%s: %s of %s is %" PRId64 ", Torch-Spyre has %" PRId64
                     " (%s)",
                     s->name, what, s->space.op->vars[v].name, got->n[v],
                     want.n[v], text);
}

// Compares the splits that the span limit requires with those of the planner
// that makes no others.
static void read_forced(const state *s, const char *text)
{
    dv_divide_request r = {.cores = s->cores,
                           .span_limit_bytes = s->limit,
                           .cost = 1,
                           .span_only = 1};
    dv_divided alone;
    compare_splits(s, "the forced split", text, &s->got.forced);
    assert_int_equal(dv_divide_seed(&alone, &s->space, &r, NULL), DV_OK);
    compare_splits(s, "the split by the span pass", text, &alone.splits);
}

static void read_plan(state *s, const char *line)
{
    long long limit;
    int cores, at = 0;
    char claimed[16];
    sscanf(line, "plan %lld %d %15s %n", &limit, &cores, claimed, &at);
    if (s->host_bytes)
        return;
    s->limit = limit;
    s->cores = cores;
    assert_int_equal(divide(s, limit, cores, 1), DV_OK);
    if (s->got.claimed != !strcmp(claimed, "claimed"))
        fail_msg("%s, %d cores: claimed by the cost model or not?", s->name,
                 cores);
    compare_splits(s, "the split", line + at, &s->got.splits);
    s->n_plans++;
}

static void read_span(const state *s, char *line)
{
    if (s->host_bytes)
        return;
    for (char *word = strtok(line + 5, " \n"); word;
         word = strtok(NULL, " \n")) {
        char *colon = strchr(word, ':');
        *colon = 0;
        int i = tensor_of(s, word);
        assert_int_equal(dv_span(&s->space, i, &s->got.splits, 1),
                         strtoll(colon + 1, NULL, 10));
    }
}

// Reads "1024:32 / -", the written and reduced splits by factor. Our encoding
// must be equal, and must decode to the splits that it was made of.
static void read_encoded(const state *s, char *line)
{
    dv_stride_splits e;
    dv_text why = {0};
    int64_t back[DV_MAX_VARS];
    if (s->host_bytes)
        return;
    const dv_op *op = s->space.op;
    assert_true(dv_stride_splits_make(&e, s->p, op, s->got.splits.n, &why));
    int reduced = 0, n = 0;
    for (char *word = strtok(line + 8, " \n"); word;
         word = strtok(NULL, " \n")) {
        reduced |= !strcmp(word, "/");
        char *colon = strchr(word, ':');
        if (!colon)
            continue;
        int64_t f = strtoll(word, NULL, 10), k = strtoll(colon + 1, NULL, 10);
        int found = 0;
        for (int i = 0; i < (reduced ? e.n_reduction : e.n_output); i++) {
            const dv_stride_split *c = reduced ? &e.reduction[i] : &e.output[i];
            found |= c->stride == f && c->n == k;
        }
        if (!found)
            fail_msg("%s: %s is not encoded", s->name, word);
        n++;
    }
    assert_int_equal(e.n_output + e.n_reduction, n);
    assert_int_equal(dv_decode(back, s->p, op, &e, NULL), DV_OK);
    for (int v = 0; v < op->n_vars; v++)
        assert_int_equal(back[v], s->got.splits.n[v]);
}

static void read_cost(state *s, const char *line)
{
    long long v[10];
    double want;
    sscanf(line, "cost %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lf",
           &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7], &v[8], &v[9],
           &want);
    dv_matmul mm = {v[0], v[1], v[2], v[3], (int)v[4]};
    double got = dv_matmul_cost(&mm, v[5], v[6], v[7], v[8], v[9]);
    if (fabs(got - want) > 1e-6 * fabs(want))
        fail_msg("%s: %g", line, got);
    s->n_costs++;
}

static void read_line(state *s, char *line)
{
    char a[64];
    long long x, y, z;
    int n;
    if (sscanf(line, "op %63s %15s", s->name, s->kind) == 2) {
        finish(s);
    } else if (sscanf(line, "var %7s %lld", a, &x) == 2) {
        strcpy(s->vars[s->n_vars], a);
        s->extents[s->n_vars++] = x;
    } else if (!strncmp(line, "in ", 3)) {
        tensor *t = &s->in[s->n_in++];
        sscanf(line, "in %15s %15s %63s %63s", t->name, t->dtype, t->shape,
               t->axes);
    } else if (!strncmp(line, "out ", 4)) {
        tensor *t = &s->out;
        sscanf(line, "out %15s %15s %63s %63s", t->name, t->dtype, t->shape,
               t->axes);
        make(s);
    } else if (!strncmp(line, "layout ", 7)) {
        read_layout(s, line);
    } else if (sscanf(line, "units %63s %lld", a, &x) == 2) {
        assert_int_equal(s->space.units[var_of(s, a, strlen(a))], x);
    } else if (!strncmp(line, "plan ", 5)) {
        read_plan(s, line);
    } else if (!strncmp(line, "forced ", 7) && !s->host_bytes) {
        read_forced(s, line + 7);
    } else if (!strncmp(line, "span ", 5)) {
        read_span(s, line);
    } else if (!strncmp(line, "encoded ", 8)) {
        read_encoded(s, line);
    } else if (sscanf(line, "error %lld %d", &x, &n) == 2 && !s->host_bytes) {
        assert_int_equal(divide(s, x, n, 1), DV_E_CAPACITY);
        s->n_errors++;
    } else if (!strncmp(line, "cost ", 5)) {
        read_cost(s, line);
    } else if (sscanf(line, "split %lld %lld %lld", &x, &y, &z) == 3) {
        assert_int_equal(dv_largest_divisor(x, y), z);
    }
}

TEST(vectors)
{
    static state s;
    static char line[4096];
    FILE *f = fopen(DV_SOURCE_DIR "/tests/vectors/divide.txt", "r");
    assert_non_null(f);
    assert_int_equal(dv_target_load(&s.target, "spyre", NULL), DV_OK);
    while (fgets(line, sizeof line, f))
        read_line(&s, line);
    fclose(f);
    finish(&s);
    dv_target_destroy(s.target);
    printf("%d ops, %d plans, %d errors, %d costs\n", s.n_ops, s.n_plans,
           s.n_errors, s.n_costs);
    assert_int_equal(s.n_ops, 35);
    assert_int_equal(s.n_costs, 50);
    assert_int_equal(s.n_plans, 268);
    assert_int_equal(s.n_errors, 25);
}

// A division that cannot be encoded is an error, and not encoded as another
// division.
TEST(collisions)
{
    static const struct {
        const char *text;
        int64_t splits[3];
    } cases[] = {{"input x: f32[16]\ny[] = sum[k,l] x[k+l]  "
                  "for k in 0..4, l in 0..4\noutput y\n",
                  {2, 2, 1}}, // equal factors
                 {"input x: f32[8]\ninput w: f32[8, 8]\n"
                  "y[i] = sum[j,k] x[i] * w[j,k]\noutput y\n",
                  {1, 2, 2}},
                 {"input x: f32[8, 8, 8]\n"
                  "y[] = sum[i,j,k] x[i,j,k]\noutput y\n",
                  {2, 2, 2}}};
    static const char *const want[] = {
        "k and l both have the key 1",
        "j is in neither the write nor the first read: its 2 slices have no "
        "key",
        NULL};
    for (int i = 0; i < 3; i++) {
        dv_program *p = program_of(cases[i].text);
        dv_stride_splits e;
        dv_text why = {0};
        int made =
            dv_stride_splits_make(&e, p, &p->ops[0], cases[i].splits, &why);
        assert_int_equal(made, want[i] == NULL);
        if (!made)
            assert_string_equal(why.at, want[i]);
        dv_text_free(&why);
        dv_stride_splits wrong = {.output = {{12345, 2}}, .n_output = 1};
        int64_t splits[DV_MAX_VARS];
        assert_int_equal(dv_decode(splits, p, &p->ops[0], &wrong, NULL),
                         DV_E_CHECK);
        dv_program_destroy(p);
    }
}

// H24: idle cores are not free: with more cores the cost decreases, even if
// main memory, which they share, decides, and all are used.
TEST(more_cores_cost_less)
{
    static const char text[] = "input x: f16[4096, 4096]\n"
                               "y[i,j] = relu(x[i,j])\noutput y\n";
    double before = INFINITY;
    for (int cores = 1; cores <= 32; cores *= 2) {
        dv_plan_options o = DV_PLAN_OPTIONS_INIT;
        o.cores = cores;
        dv_plan *plan = plan_on(text, "spyre", NULL, &o);
        double cost = plan->divisions[0].cost_us;
        if (!(cost < before))
            fail_msg("%d cores cost %g, half as many %g", cores, cost, before);
        assert_int_equal(dv_plan_n_tiles(plan, 0), cores);
        before = cost;
        dv_plan_destroy(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(vectors),
                                       cmocka_unit_test(collisions),
                                       cmocka_unit_test(more_cores_cost_less)};
    return run_group(tests, NULL, NULL);
}
