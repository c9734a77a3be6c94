// Properties of recomputed elements: every element that the sampler recomputes
// from the inputs has exactly the value and the error bound that the oracle
// gives it. Only writes whose points cannot be told from the element keep it
// from that.
#include "harness/test.h"
#include "harness/property.h"
#include "ir/sample.h"
#include <math.h>

// The oracle's values and error bounds of all tensors, and the inputs.
typedef struct state {
    dv_number **values;
    double **errors;
    void **before, **after;
} state;

static state new_state(const dv_program *p)
{
    size_t n = (size_t)p->n_tensors + 1;
    state s = {calloc(n, sizeof *s.values), calloc(n, sizeof *s.errors),
               calloc(n, sizeof *s.before), calloc(n, sizeof *s.after)};
    for (int32_t i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        s.values[i] = calloc((size_t)t->n_elems, sizeof **s.values);
        s.errors[i] = calloc((size_t)t->n_elems, sizeof **s.errors);
        if (!t->is_input)
            continue;
        s.before[i] = malloc((size_t)dv_tensor_bytes(t));
        dv_fill(p, i, 7, -1, 1, s.before[i]);
        for (int64_t k = 0; k < t->n_elems; k++)
            s.values[i][k] = dv_number_load(t->dtype, s.before[i], k);
    }
    return s;
}

static void free_state(state *s, const dv_program *p)
{
    for (int32_t i = 0; i < p->n_tensors; i++) {
        free(s->values[i]);
        free(s->errors[i]);
        free(s->before[i]);
    }
    free(s->values);
    free(s->errors);
    free(s->before);
    free(s->after);
}

static int same_number(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

// Returns whether the points that write elements may be unknown: of writes
// through indices that are read, or by terms that overlap, as in u[2*i+3*j].
static int hides_points(const dv_program *p)
{
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op *op = &p->ops[i];
        if (dv_access_is_indirect(&op->write))
            return 1;
        for (int d = 0; d < op->write.n_dims && op->n_vars > 1; d++)
            if (op->write.index[d].coef[0] == 2 &&
                op->write.index[d].coef[1] == 3)
                return 1;
    }
    return 0;
}

static int same_element(const dv_program *p, const state *s, dv_sampler *x,
                        int32_t tensor, int64_t k)
{
    const dv_tensor *t = &p->tensors[tensor];
    dv_number got = {0}, want = s->values[tensor][k];
    double error = 0;
    dv_sampled is = DV_SAMPLED;
    if (dv_sampler_element(x, -1, tensor, k, INFINITY, &is, &got, &error))
        return case_no("%s[%d] fails", t->name, (int)k);
    if (is == DV_SAMPLE_INDIRECT && hides_points(p))
        return 1;
    if (is != DV_SAMPLED)
        return case_no("%s[%d] is not recomputed: %d", t->name, (int)k, is);
    int same =
        dv_is_float(t->dtype) ? same_number(got.f, want.f) : got.i == want.i;
    return (same && same_number(error, s->errors[tensor][k])) ||
           case_no("%s[%d] is recomputed as %g (%lld), bound %g; the oracle "
                   "has %g (%lld), bound %g",
                   t->name, (int)k, got.f, (long long)got.i, error, want.f,
                   (long long)want.i, s->errors[tensor][k]);
}

static int recomputed_equals_oracle(const dv_program *p, uint64_t seed)
{
    state s = new_state(p);
    dv_diag *diag = dv_diag_create();
    dv_sampler *x = NULL;
    dv_sampler_inputs inputs = {.before = s.before, .after = s.after};
    inputs.options.round = 1;
    inputs.options.stored = (int)(seed % 2);
    dv_eval_options options = inputs.options;
    options.errors = s.errors;
    int ok = !dv_eval(p, s.values, &options, diag) ||
             case_no("%s", dv_diag_text(diag));
    ok = ok && (!dv_sampler_create(&x, p, &inputs, diag) ||
                case_no("%s", dv_diag_text(diag)));
    for (int32_t i = 0; ok && i < p->n_tensors; i++)
        for (int64_t k = 0; ok && k < p->tensors[i].n_elems; k++)
            ok = p->tensors[i].is_dead || same_element(p, &s, x, i, k);
    dv_sampler_destroy(x);
    dv_diag_destroy(diag);
    free_state(&s, p);
    return ok;
}

static const char *const hard[] = {
    // Writes with steps, backwards, and by several variables in one index.
    "input x: f32[4, 6]\ntemp y: f32[24]\ntemp z: f32[24]\n"
    "temp w: f32[8, 3]\ny[23-i] = x[1,2] + 0.25 for i in 0..24\n"
    "y[3*i+12] <- x[i,0] * 2 for i in 0..4\n"
    "z[6*i+5-j] = x[i,j] + y[6*i+j] for i in 0..4, j in 0..6\n"
    "w[i,j] = z[3*i+j] for i in 0..8, j in 0..3\n"
    "w[2*i-j+2,i] <- x[i,j] for i in 0..3, j in 0..2\nw[0,0] <- 3\n"
    "s[i] = sum[j] w[i,j]\noutput s, z\n",
    // A write whose terms overlap: its points are not looked for.
    "input x: f32[2, 3]\ninput u: f32[9]\n"
    "u[2*i+3*j] <- x[i,j] for i in 0..2, j in 0..3\noutput u\n",
    // Updates of parts, in nested repeats, with reads of older values.
    "input u: f64[9]\ninput v: f64[9]\nrepeat 3 {\n"
    "u[i] <- 0.25 * (u[i-1] + 2 * u[i] + u[i+1]) for i in 1..8\n"
    "repeat 2 {\nv[i] <- v[8-i] + u[i] for i in 0..9\n}\n"
    "u[0] <- v[3]\n}\nrepeat 0 {\nu[i] <- 0.0 for i in 0..9\n}\n"
    "s[] = sum[i] u[i] * v[i]\noutput u, v, s\n",
    // Gathers through given and computed indices, and a scatter.
    "input x: f32[8]\ninput n: i32[8]\ny[i] = x[n[i]]\n"
    "m[i]: i32 = n[7-i]\nz[i] = y[m[i]] * x[i]\noutput z\n",
    "input x: f32[8]\ninput n: i32[8]\ninput u: f32[8]\n"
    "u[n[i]] <- x[i]\nz[i] = u[i] + x[i]\ny[i] = exp(x[i])\noutput y, z, u\n",
    // Several reducers in a statement, some of which share points.
    "input x: f16[5, 7]\ny[i,j] = exp(x[i,j] - (max[k] x[i,k])) / "
    "(sum[k] exp(x[i,k] - (max[l] x[i,l])))\noutput y\n",
    // Integers that wrap around, and integers of inexact floats.
    "input q: i8[6, 6]\ninput x: f32[6]\n"
    "p[i,j]: i8 = sum[k] q[i,k] * q[k,j] * 7\n"
    "n[i]: i32 = exp(x[i]) * 3\n"
    "r[i]: i32 = (prod[k] p[i,k]) + n[i]\noutput r\n"};

CASE_PROPERTY(recomputed_equals_oracle, 300, 2)

int main(void)
{
    const struct CMUnitTest tests[] = {CASE_TESTS(recomputed_equals_oracle)};
    return run_group(tests, NULL, NULL);
}
