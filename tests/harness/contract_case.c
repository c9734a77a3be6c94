#include "harness/contract_case.h"
#include "base/dtype.h"
#include "contract/contract.h"
#include "harness/nest_eval.h"

dv_nest *nest_of(const char *text)
{
    dv_nest *n = NULL;
    dv_diag *diag = dv_diag_create();
    if (dv_nest_parse(&n, text, strlen(text), "test", diag))
        fail_msg("%s", dv_diag_text(diag));
    dv_diag_destroy(diag);
    return n;
}

operand made_up(const dv_nest *n, int o)
{
    dv_dtype type = dv_nest_dtype(n, o);
    int64_t lo, hi, size = dv_dtype_get(type)->size_bytes;
    operand x;
    assert_true(dv_nest_extent(n, o, &lo, &hi));
    x.bytes = (size_t)((hi - lo + 1) * size);
    x.data = aligned_alloc(64, (x.bytes + 63) / 64 * 64);
    x.at = (char *)x.data - lo * size;
    dv_nest_fill(type, (uint64_t)o, x.data, hi - lo + 1);
    return x;
}

void agrees(dv_jit *on, const char *text, int threads, int as_is)
{
    dv_nest *n = nest_of(text);
    operand in0 = made_up(n, DV_IN0), in1 = made_up(n, DV_IN1);
    operand want = made_up(n, DV_OUT), got = made_up(n, DV_OUT);
    dv_contract_options options = {.size = sizeof(dv_contract_options),
                                   .threads = threads,
                                   .optimise =
                                       (dv_nest_optimise_level)(as_is != 0)};
    options.l3_bytes = as_is == SMALL_CACHE;
    if (as_is == LOOPS)
        options.optimise = DV_NEST_OPTIMISE_PACKING;
    dv_contract *c = NULL;
    dv_diag *diag = dv_diag_create();
    if (dv_contract_create(&c, on, n, &options, diag))
        fail_msg("%s", dv_diag_text(diag));
    assert_int_equal(eval_nest(n, in0.at, in1.at, want.at), DV_OK);
    assert_int_equal(dv_contract_run(c, in0.at, in1.at, NULL, got.at, NULL),
                     DV_OK);
    int64_t elems = (int64_t)want.bytes / dv_dtype_get(n->dtype)->size_bytes;
    for (int64_t i = 0; i < elems; i++) // -0 equals 0
        assert_true(dv_load(n->dtype, want.data, i) ==
                    dv_load(n->dtype, got.data, i));
    dv_contract_destroy(c);
    dv_nest_destroy(n);
    dv_diag_destroy(diag);
    free(in0.data);
    free(in1.data);
    free(want.data);
    free(got.data);
}
