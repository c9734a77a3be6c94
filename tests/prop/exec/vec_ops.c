// Ops of random programs run as calls of vector kernels give what the
// interpreter of strips gives, on any boxes, also when a reduction is done in
// parts.
#include "harness/kernels.h"
#include "harness/unit.h"
#include "jit/backend.h"
#include "exec/exec.h"
#include "exec/op/vec_op.h"
#include <inttypes.h>
#include <math.h>

static int n_done, n_left; // ops with and without a kernel

// -- One op ------------------------------------------------------------------

typedef struct world {
    const dv_program *p;
    void **data; // by tensor
    dv_arena arena;
    rng r;
} world;

static void run_strips(world *w, const dv_kernel *k, const void *old)
{
    int64_t begin[DV_MAX_VARS], end[DV_MAX_VARS];
    size_t slots = (size_t)k->n_slots + 2;
    double *buf = malloc(slots * DV_STRIP * sizeof *buf);
    dv_strips s = {.p = w->p, .data = w->data, .k = k, .old = old};
    s.buf = buf;
    s.acc = buf + (size_t)k->n_slots * DV_STRIP;
    for (int v = 0; v < k->op->n_vars; v++) {
        begin[v] = k->op->vars[v].begin;
        end[v] = k->op->vars[v].end;
    }
    if (k->compute == DV_IN_F32)
        dv_strips_f32(&s, begin, end);
    else if (k->compute == DV_IN_F64)
        dv_strips_f64(&s, begin, end);
    else
        dv_strips_i64(&s, begin, end);
    free(buf);
}

// Cuts the box of the written variables at random and runs each piece, as a
// whole or, if allowed, in parts of the reduction.
static void run_pieces(world *w, const dv_vec_op *v, const dv_op *op, void **at,
                       int64_t *begin, int64_t *end, int whole, int depth)
{
    int x = op->n_vars ? (int)rng_below(&w->r, op->n_vars) : 0;
    if (depth < 3 && op->n_vars && !op->vars[x].reduce &&
        end[x] - begin[x] > 1 && rng_percent(&w->r, 60)) {
        int64_t cut = begin[x] + 1 + rng_below(&w->r, end[x] - begin[x] - 1);
        int64_t b = begin[x], e = end[x];
        end[x] = cut;
        run_pieces(w, v, op, at, begin, end, whole, depth + 1);
        end[x] = e;
        begin[x] = cut;
        run_pieces(w, v, op, at, begin, end, whole, depth + 1);
        begin[x] = b;
        return;
    }
    int64_t points = 1;
    for (int i = 0; i < op->n_vars; i++)
        points *= op->vars[i].reduce ? 1 : end[i] - begin[i];
    int split = op->n_vars && op->vars[x].reduce && end[x] - begin[x] > 1;
    if (whole || !split || !rng_percent(&w->r, 50)) {
        dv_vec_op_run(v, at, begin, end);
        return;
    }
    void *acc = malloc((size_t)(points * dv_vec_op_acc_bytes(v)));
    int64_t cut = begin[x] + 1 + rng_below(&w->r, end[x] - begin[x] - 1);
    int64_t b = begin[x], e = end[x];
    end[x] = cut;
    dv_vec_op_part(v, at, begin, end, DV_FIRST_PART, acc);
    end[x] = e;
    begin[x] = cut;
    dv_vec_op_part(v, at, begin, end, DV_NEXT_PART, acc);
    begin[x] = b;
    dv_vec_op_part(v, at, begin, end, DV_FINISH, acc);
    free(acc);
}

static int op_is_float(const dv_program *p, const dv_op *op)
{
    return dv_op_compute(p, op) != DV_IN_I64;
}

// The results differ at most by roundings in another order.
static int same_op(world *w, const dv_op *op, const void *a, const void *b)
{
    const dv_tensor *t = &w->p->tensors[op->write.tensor];
    double most = 0;
    for (int64_t i = 0; i < t->n_elems; i++) {
        double v = fabs(dv_load(t->dtype, a, i));
        most = isfinite(v) && v > most ? v : most;
    }
    double eps = dv_op_compute(w->p, op) == DV_IN_F64 ? 0x1p-52 : 0x1p-23;
    double n = sqrt(dv_op_work(op)), slack = eps * (400 + 4 * n);
    slack = (slack + 2 * dv_dtype_eps(t->dtype)) * (most + 1);
    if (!op_is_float(w->p, op))
        slack = 0;
    for (int64_t i = 0; i < t->n_elems; i++) {
        double x = dv_load(t->dtype, a, i), y = dv_load(t->dtype, b, i);
        if (!(x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= slack))
            return case_no("%s: element %" PRId64 " is %.17g, strips say %.17g",
                           op->name, i, y, x);
    }
    return 1;
}

static int one_op(world *w, const dv_op *op)
{
    const dv_program *p = w->p;
    const dv_tensor *t = &p->tensors[op->write.tensor];
    size_t bytes = (size_t)dv_tensor_bytes(t);
    dv_kernel k;
    dv_vec_op *v = NULL;
    int ok = 1;
    if (op->is_extern || !dv_kernel_init(&k, p, op, NULL, &w->arena))
        return 1;
    dv_vec_spec spec = {.p = p,
                        .op = op,
                        .reads = k.reads,
                        .write = &k.write,
                        .whole = rng_percent(&w->r, 50)};
    if (dv_vec_op_create(&v, &spec, test_jit, &w->arena, NULL) != DV_OK)
        return case_no("%s: no kernel was made", op->name);
    void *old = malloc(bytes), *mine = malloc(bytes);
    memcpy(old, w->data[op->write.tensor], bytes);
    memcpy(mine, old, bytes);
    run_strips(w, &k, dv_op_reads_own_write(op) ? old : NULL);
    if (v) {
        void **at = malloc(((size_t)op->n_reads + 1) * sizeof *at);
        int64_t begin[DV_MAX_VARS], end[DV_MAX_VARS];
        for (int i = 0; i <= op->n_reads; i++) {
            int32_t x =
                i < op->n_reads ? op->reads[i].tensor : op->write.tensor;
            at[i] = x == op->write.tensor ? mine : w->data[x];
        }
        for (int i = 0; i < op->n_vars; i++) {
            begin[i] = op->vars[i].begin;
            end[i] = op->vars[i].end;
        }
        run_pieces(w, v, op, at, begin, end, spec.whole, 0);
        ok = same_op(w, op, w->data[op->write.tensor], mine);
        free(at);
    }
    n_done += v != NULL;
    n_left += v == NULL;
    free(mine);
    free(old);
    return ok;
}

// -- Programs ----------------------------------------------------------------

static int one_program(const dv_program *p, uint64_t seed)
{
    world w = {.p = p, .r = {seed}};
    int ok = 1;
    w.data = calloc((size_t)p->n_tensors + 1, sizeof *w.data);
    for (int i = 0; i < p->n_tensors; i++) {
        w.data[i] = calloc(1, (size_t)dv_tensor_bytes(&p->tensors[i]) + 1);
        if (p->tensors[i].is_input)
            dv_fill(p, i, seed, -1, 1, w.data[i]);
    }
    for (int i = 0; ok && i < p->n_ops; i++)
        ok = one_op(&w, &p->ops[i]);
    for (int i = 0; i < p->n_tensors; i++)
        free(w.data[i]);
    free(w.data);
    dv_arena_free(&w.arena);
    return ok;
}

static void sweep(gen_mode mode, int usual)
{
    skip_without_kernels();
    uint64_t first = gen_seed();
    n_done = n_left = 0;
    for (int i = 0; i < gen_cases(usual); i++) {
        char *text = gen_program(first + (uint64_t)i, mode);
        dv_program *p = program_of(text), *ops = NULL;
        static const dv_grain grains[] = {DV_GRAIN_FUSED, DV_GRAIN_PRIMITIVE};
        assert_int_equal(dv_program_lower(&ops, p, grains[i % 2], NULL), DV_OK);
        int ok = one_program(ops, first + (uint64_t)i);
        if (!ok)
            gen_report("vec", first + (uint64_t)i, mode, text, case_why());
        dv_program_destroy(ops);
        dv_program_destroy(p);
        free(text);
        assert_true(ok);
    }
    print_message("%d ops by kernels, %d left to the strips\n", n_done, n_left);
}

TEST(floats)
{
    sweep(GEN_FLOATS, 300);
}

TEST(integers)
{
    sweep(GEN_INTEGERS, 150);
}

TEST(integers_wrap)
{
    sweep(GEN_WRAPS, 150);
}

// Shapes that random programs do not have: long columns, more results than
// there are accumulators, several reduced variables.
TEST(large)
{
    static const char *const texts[] = {
        "input a: f32[101, 130]\ny[j] = sum[i] a[i,j] * a[i,j]\noutput y\n",
        "input a: f32[40, 5000]\ny[j] = max[i] a[i,j]\noutput y\n",
        "input a: f64[3, 45, 2, 70]\n"
        "y[j] = mean[h,i,k] exp(a[h,i,k,j])\noutput y\n",
        "input a: f32[2, 2100, 3, 9]\n"
        "y[i] = sum[h,k,l] a[h,i,k,l]\noutput y\n",
        "input a: bf16[4, 9, 300]\ny[i] = prod[j] relu(sum[k] a[i,j,k])\n"
        "output y\n",
        "input x: f32[7, 300]\nm[i] = max[k] x[i,k]\n"
        "e[i,k] = exp(x[i,k] - m[i])\ns[i] = sum[k] e[i,k]\n"
        "y[i,k] = e[i,k] / s[i]\noutput y\n",
        "input a: i8[50, 80]\ninput b: i8[50, 80]\n"
        "y[j] = sum[i] a[i,j] * b[i,j]\noutput y\n"};
    skip_without_kernels();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (uint64_t seed = 1; seed <= 12; seed++) {
            dv_program *p = program_of(texts[i]), *ops = NULL;
            assert_int_equal(dv_program_lower(&ops, p, DV_GRAIN_FUSED, NULL),
                             DV_OK);
            int before = n_left, ok = one_program(ops, seed);
            dv_program_destroy(ops);
            dv_program_destroy(p);
            if (!ok)
                fail_msg("%s%s", texts[i], case_why());
            assert_int_equal(n_left, before); // all ops have kernels
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats), cmocka_unit_test(large),
        cmocka_unit_test(integers), cmocka_unit_test(integers_wrap)};
    return run_group(tests, jit_set_up, jit_tear_down);
}
