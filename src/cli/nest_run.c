// Runs a nest on generated data: with kernels if the nest and the machine have
// them, else with the oracle (the plain evaluator), which also verifies the
// kernels' results.
#include "cli/nest_run.h"
#include "base/hash.h"
#include "base/math.h"
#include "cli/cli.h"
#include "cli/load.h"
#include "exec/nest.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct job {
    const dv_nest *n;
    const cli_nest_options *options;
    cli_nest_result *r;
    // Allocated data of each operand, or NULL; owned.
    void *data[DV_MAX_OPERANDS];
    void *at[DV_MAX_OPERANDS]; // address of the element with index 0
    // Copies of out before and after the run; owned.
    void *work[2];
} job;

static int64_t elem_bytes(const dv_nest *n, int o)
{
    return dv_dtype_get(dv_nest_dtype(n, o))->size_bytes;
}

// Returns the bytes of an operand, or INT64_MAX on overflow. *lo is its lowest
// element offset.
static int64_t bytes_of(const dv_nest *n, int o, int64_t *lo)
{
    int64_t hi, bytes;
    if (!dv_nest_extent(n, o, lo, &hi) || !dv_sub_i64(&bytes, hi, *lo) ||
        !dv_add_i64(&bytes, bytes, 1) ||
        !dv_mul_i64(&bytes, bytes, elem_bytes(n, o)))
        return INT64_MAX;
    return bytes;
}

// Fills an index operand with valid indices, unordered and with repetitions.
static void fill_index(const dv_nest *n, void *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        dv_store(dv_nest_dtype(n, DV_IN2), data, i,
                 (double)((i * 7 + i / 3) % dv_min_i64(n->index_count, 127)));
}

// Allocates an operand and fills it with generated numbers.
static dv_status generate_operand(job *j, int o, dv_diag *diag)
{
    const dv_nest *n = j->n;
    int64_t lo, bytes = bytes_of(n, o, &lo), count = bytes / elem_bytes(n, o);
    j->data[o] = dv_alloc((size_t)bytes);
    if (!j->data[o])
        return dv_nomem(diag);
    if (n->look && o == DV_IN2)
        fill_index(n, j->data[o], count);
    else
        dv_nest_fill(dv_nest_dtype(n, o), (uint64_t)o, j->data[o], count);
    j->at[o] = (char *)j->data[o] - lo * elem_bytes(n, o);
    return DV_OK;
}

// Checks that all operands fit in memory. The output counts three times,
// because it is copied for repeated runs and for the comparison.
static dv_status check_memory(const dv_nest *n, dv_diag *diag)
{
    int64_t need = 0, lo;
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        for (int copies = o == DV_OUT ? 3 : dv_nest_has(n, o); copies > 0;
             copies--)
            if (!dv_add_i64(&need, need, bytes_of(n, o, &lo)))
                need = INT64_MAX;
    return cli_check_bytes(need, diag);
}

static int64_t count_out(const dv_nest *n)
{
    int64_t lo;
    return bytes_of(n, DV_OUT, &lo) / elem_bytes(n, DV_OUT);
}

static size_t bytes_of_out(const dv_nest *n)
{
    int64_t lo;
    return (size_t)bytes_of(n, DV_OUT, &lo);
}

enum { REPEATS = 9 };

// Runs the kernels once or, if the run is timed, repeatedly, each time from the
// same initial output.
static dv_status run_kernels(job *j, dv_contract *c, dv_diag *diag)
{
    double t[REPEATS];
    int n = j->options->time ? REPEATS : 1;
    for (int i = 0; i < n; i++) {
        memcpy(j->data[DV_OUT], j->work[0], bytes_of_out(j->n));
        double begin = dv_clock_s();
        DV_TRY(dv_contract_run(c, j->at[DV_IN0], j->at[DV_IN1], j->at[DV_IN2],
                               j->at[DV_OUT], diag));
        t[i] = dv_clock_s() - begin;
    }
    cli_sort(t, n);
    j->r->seconds = t[n / 2];
    j->r->engine = "kernels";
    return DV_OK;
}

static dv_status run_oracle(job *j, dv_diag *diag)
{
    double begin = dv_clock_s();
    DV_TRY(dv_nest_eval(j->n, j->at, diag));
    j->r->seconds = dv_clock_s() - begin;
    j->r->engine = "oracle";
    return DV_OK;
}

// Returns whether kernels compute the function of a primitive only
// approximately.
static int is_rounded(dv_prim p)
{
    int fn = dv_prim_get(p)->fn;
    return p == DV_PRIM_PROD ||
           (fn >= 0 && fn != DV_FN_SQRT && dv_fn_get((dv_fn)fn)->ulps > 1);
}

// Returns how far an element may deviate from `want`. The result is 0 if only
// integers are added, which is exact in any order; approximate functions, and
// sums of their results, may deviate.
static double allowed(const dv_nest *n, double want)
{
    double eps = dv_dtype_eps(n->dtype), steps = 8;
    dv_nest all = *n;
    if (!is_rounded(n->first) && !is_rounded(n->main) && !is_rounded(n->last))
        return 0;
    // If results are integers, rounding an approximate value may give either of
    // two neighbouring integers.
    if (!dv_is_float(n->dtype))
        return 1 + 0x1p-20 * fabs(want);
    dv_nest_untile(&all);
    for (int i = 0; i < all.n_dims; i++)
        if (all.dims[i].type == DV_NEST_K)
            steps *= (double)all.dims[i].size;
    return eps * steps * (fabs(want) + 8);
}

static dv_status compare(job *j, const void *got, const void *want,
                         dv_diag *diag)
{
    dv_dtype t = dv_nest_dtype(j->n, DV_OUT);
    int64_t n = count_out(j->n);
    for (int64_t i = 0; i < n; i++) {
        double x = dv_load(t, got, i);
        double y = dv_load(t, want, i);
        if (x == y || (isnan(x) && isnan(y)))
            continue;
        if (!(fabs(x - y) <= allowed(j->n, y)))
            return dv_fail(diag, DV_E_CHECK, DV_NOWHERE,
                           "element %" PRId64 " of out is %.9g, not %.9g", i, x,
                           y);
    }
    j->r->n_checked = n;
    return DV_OK;
}

// Compares the kernels' output with that of the oracle (the plain evaluator),
// and leaves the kernels' output in place.
static dv_status verify(job *j, dv_diag *diag)
{
    cli_nest_result kernels = *j->r;
    void *out = j->data[DV_OUT];
    memcpy(j->work[1], out, bytes_of_out(j->n));
    memcpy(out, j->work[0], bytes_of_out(j->n));
    DV_TRY(run_oracle(j, diag));
    *j->r = kernels;
    DV_TRY(compare(j, j->work[1], out, diag));
    memcpy(out, j->work[1], bytes_of_out(j->n));
    return DV_OK;
}

static dv_contract_options options_of(const cli_nest_options *options)
{
    return (dv_contract_options){.size = sizeof(dv_contract_options),
                                 .threads = options->threads,
                                 .optimise = options->packs
                                                 ? DV_NEST_OPTIMISE_PACKING
                                                 : DV_NEST_OPTIMISE_NONE};
}

void cli_nest_describe(dv_text *out, const dv_nest *n,
                       const cli_nest_options *options)
{
    dv_contract_options o = options_of(options);
    dv_contract *c = NULL;
    if (dv_contract_create(&c, NULL, n, &o, NULL) == DV_OK)
        dv_contract_describe(c, out);
    dv_contract_destroy(c);
}

// Runs the nest by kernels, if there are some for it on this machine, otherwise
// by the oracle (the plain evaluator).
static dv_status run_one(job *j, dv_diag *diag)
{
    dv_contract_options o = options_of(j->options);
    dv_contract *c = NULL;
    dv_jit *jit = NULL;
    dv_status st;
    memcpy(j->work[0], j->data[DV_OUT], bytes_of_out(j->n));
    if (dv_jit_create(&jit, NULL) == DV_OK &&
        dv_contract_create(&c, jit, j->n, &o, NULL) == DV_OK) {
        st = run_kernels(j, c, diag);
        if (st == DV_OK && j->options->verify)
            st = verify(j, diag);
    } else {
        st = run_oracle(j, diag);
    }
    dv_contract_destroy(c);
    dv_jit_destroy(jit);
    return st;
}

// Computes the sum and the hash of the output. -0 counts as 0, because the sign
// of a zero sum depends on whether the sum starts with a product or with 0.
static void summarize(job *j)
{
    unsigned char *bytes = j->data[DV_OUT];
    cli_nest_result *r = j->r;
    r->n_out = count_out(j->n);
    for (int64_t i = 0; i < r->n_out; i++) {
        double v = dv_load(dv_nest_dtype(j->n, DV_OUT), bytes, i);
        r->sum += v;
        if (v == 0)
            dv_store(dv_nest_dtype(j->n, DV_OUT), bytes, i, 0);
    }
    r->hash = dv_hash(DV_HASH, bytes, bytes_of_out(j->n));
}

dv_status cli_nest_run(cli_nest_result *out, const dv_nest *n,
                       const cli_nest_options *options, dv_diag *diag)
{
    job j = {.n = n, .options = options, .r = out};
    *out = (cli_nest_result){0};
    dv_status st = check_memory(n, diag);
    for (int o = 0; o < DV_MAX_OPERANDS && st == DV_OK; o++)
        if (dv_nest_has(n, o))
            st = generate_operand(&j, o, diag);
    for (int i = 0; i < 2 && st == DV_OK; i++)
        if (!(j.work[i] = dv_alloc(bytes_of_out(n))))
            st = dv_nomem(diag);
    if (st == DV_OK)
        st = run_one(&j, diag);
    if (st == DV_OK)
        summarize(&j);
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        dv_release(j.data[o]);
    dv_release(j.work[0]);
    dv_release(j.work[1]);
    return st;
}

double cli_nest_gflops(const dv_nest *n, double seconds)
{
    dv_nest all = *n;
    double flop = dv_nest_is_product(n) || n->main == DV_PRIM_DOT ? 2 : 1;
    dv_nest_untile(&all);
    for (int i = 0; i < all.n_dims; i++)
        flop *= (double)all.dims[i].size;
    return flop / seconds / 1e9;
}
