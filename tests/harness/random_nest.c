#define _GNU_SOURCE
#include "harness/test.h"
#include "harness/random_nest.h"
#include "harness/nest_eval.h"
#include <sys/mman.h>

int64_t some_size(rng *r)
{
    static const int64_t sizes[] = {1,  1,  2,  3,  4,  5,  7,  8,  11, 13,
                                    16, 17, 20, 23, 24, 31, 40, 47, 61, 97};
    return sizes[rng_below(r, sizeof sizes / sizeof *sizes)];
}

int shuffle_dims(rng *r, const dv_nest *n, const char *types, int *order)
{
    int count = 0;
    for (int i = 0; i < n->n_dims; i++)
        if (strchr(types, "cmnk"[n->dims[i].type]))
            order[count++] = i;
    for (int i = count - 1; i > 0; i--) {
        int j = (int)rng_below(r, i + 1), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    return count;
}

void lay_out(rng *r, dv_nest *n, int o, const char *has)
{
    int order[DV_NEST_MAX_DIMS], count = shuffle_dims(r, n, has, order);
    int64_t step = rng_percent(r, 10) ? 2 : 1; // 2: no operand has unit stride
    for (int i = 0; i < count; i++) {
        n->dims[order[i]].stride[o] = rng_percent(r, 3) ? -step : step;
        step = step * n->dims[order[i]].size + (rng_percent(r, 10) ? 3 : 0);
    }
}

double points_of(const dv_nest *n)
{
    double all = 1;
    for (int i = 0; i < n->n_dims; i++)
        all *= (double)n->dims[i].size;
    return all;
}

void random_dims(rng *r, dv_nest *n, int most)
{
    for (int t = 0; t < 4; t++) {
        int64_t all = t == DV_NEST_C ? rng_percent(r, 30) : most;
        for (int64_t i = rng_below(r, all + 1); i > 0; i--)
            n->dims[n->n_dims++] = (dv_nest_dim){.type = (dv_nest_type)t,
                                                 .exec = DV_NEST_SEQ,
                                                 .size = some_size(r)};
    }
    if (n->n_dims == 0)
        n->dims[n->n_dims++] =
            (dv_nest_dim){.type = DV_NEST_K, .exec = DV_NEST_SEQ, .size = 5};
    if (rng_percent(r, 5)) // large enough to be cut in all ways
        n->dims[rng_below(r, n->n_dims)].size = 200 + rng_below(r, 900);
    while (points_of(n) > 400000)
        for (int i = 0; i < n->n_dims; i++)
            if (n->dims[i].size > 1 && points_of(n) > 400000)
                n->dims[i].size = n->dims[i].size * 2 / 3;
    lay_out(r, n, DV_IN0, "cmk");
    lay_out(r, n, DV_IN1, "cnk");
    lay_out(r, n, DV_OUT, "cmn");
    int in1 = 0;
    for (int i = 0; i < n->n_dims; i++)
        in1 |= n->dims[i].stride[DV_IN1] != 0;
    if (!in1) // an operand of one element
        n->dims[n->n_dims++] = (dv_nest_dim){.type = DV_NEST_K,
                                             .exec = DV_NEST_SEQ,
                                             .size = 1,
                                             .stride = {1, 1, 0}};
}

// An emulator may read whole vectors where a masked load touches only a part of
// one.
#if defined(DV_EMULATED) && defined(__x86_64__)
enum { AROUND = PROT_READ };
#else
enum { AROUND = PROT_NONE };
#endif

typedef struct mapped {
    fenced f;
    char *data, *at; // at: the element with all indices 0
    size_t bytes;
} mapped;

// Maps an operand, filled with small integers, right before a page that faults,
// or right behind one.
static void map_operand(const dv_nest *n, int o, int at_end, mapped *out)
{
    dv_dtype type = dv_nest_dtype(n, o);
    int64_t lo, hi, size = dv_dtype_get(type)->size_bytes;
    assert_true(dv_nest_extent(n, o, &lo, &hi));
    out->bytes = (size_t)((hi - lo + 1) * size);
    out->f = fence_in(out->bytes, at_end, AROUND);
    out->data = (char *)out->f.data;
    dv_nest_fill(type, (uint64_t)o + 7, out->data, hi - lo + 1);
    out->at = out->data - lo * size;
}

// Maps in0, in1 and twice out.
static void map_all(const dv_nest *n, int at_end, mapped x[4])
{
    for (int i = 0; i < 4; i++)
        map_operand(n, i < DV_OUT ? i : DV_OUT, at_end, &x[i]);
}

static void unmap_all(mapped x[4])
{
    for (int i = 0; i < 4; i++)
        unfence(&x[i].f);
}

void show_nest(const dv_nest *n, const dv_nest *ran, int threads)
{
    dv_text text = {0};
    dv_nest_print(&text, n);
    if (ran)
        dv_nest_print(&text, ran);
    print_message("threads %d\n%s\n", threads, text.at);
    dv_text_free(&text);
}

int agrees_with_oracle(const prepared *p, int at_end)
{
    const dv_nest *n = p->n;
    int64_t size = dv_dtype_get(n->dtype)->size_bytes, ok = 1;
    mapped x[4];
    map_all(n, at_end, x);
    assert_int_equal(eval_nest(n, x[0].at, x[1].at, x[2].at), DV_OK);
    p->run(p->c, x[0].at, x[1].at, x[3].at);
    for (int64_t i = 0; i < (int64_t)x[2].bytes / size; i++)
        ok &=
            dv_load(n->dtype, x[2].data, i) == dv_load(n->dtype, x[3].data, i);
    unmap_all(x);
    return (int)ok;
}

// Stores random numbers in an operand that are not integers if its type is a
// float.
static void fill_fractions(rng *r, dv_dtype type, const mapped *x)
{
    int64_t size = dv_dtype_get(type)->size_bytes;
    for (int64_t j = 0; j < (int64_t)x->bytes / size; j++)
        dv_store(type, x->data, j,
                 ((double)rng_below(r, 1000003) / 999983 - 0.4) *
                     (dv_is_float(type) ? 1 : 100));
}

int gives_same_bits(rng *r, const prepared p[2])
{
    mapped x[4];
    map_all(p->n, 0, x);
    for (int o = 0; o < 2; o++)
        fill_fractions(r, dv_nest_dtype(p->n, o), &x[o]);
    for (int i = 0; i < 2; i++)
        p[i].run(p[i].c, x[0].at, x[1].at, x[2 + i].at);
    int same = !memcmp(x[2].data, x[3].data, x[2].bytes);
    unmap_all(x);
    return same;
}

void run_contraction(const dv_contraction *c, const void *in0, const void *in1,
                     void *out)
{
    void *workspace = dv_alloc_buffer((size_t)dv_contraction_workspace(c));
    assert_non_null(workspace);
    // What was packed before is not read from where it was: its address is that
    // of the packed input, followed by as much memory that must stay as it is.
    dv_contraction_args args = {
        .in0 = in0, .in1 = in1, .out = out, .workspace = workspace};
    unsigned char *packed[2] = {NULL, NULL};
    for (int o = 0; o < 2; o++) {
        size_t n = (size_t)dv_contraction_once_bytes(c, o);
        if (!(dv_contraction_once(c) >> o & 1))
            continue;
        assert_non_null(packed[o] = dv_alloc_buffer(2 * n));
        memset(packed[o], 0xff, 2 * n);
        assert_int_equal(
            dv_contraction_pack(c, o, o ? in1 : in0, packed[o], NULL), DV_OK);
        for (size_t i = n; i < 2 * n; i++)
            assert_int_equal(packed[o][i], 0xff);
        args.packed[o] = packed[o];
        *(o ? &args.in1 : &args.in0) = packed[o];
    }
    dv_contraction_run(c, &args);
    dv_release(packed[0]);
    dv_release(packed[1]);
    dv_release(workspace);
}
