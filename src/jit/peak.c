#include "jit/peak.h"
#include "base/dtype.h"
#include "jit/arena.h"
#include "jit/backend.h"

struct dv_peak {
    dv_code_arena memory;
    void (*run)(int64_t turns);
    double flops;
};

dv_dtype dv_peak_type(dv_dtype dtype)
{
    const dv_isa *isa = dv_isa_host();
    if (!isa || dv_isa_has(isa, (int)dtype))
        return dtype;
    return dtype == DV_I8                        ? DV_I32
           : dtype == DV_F16 || dtype == DV_BF16 ? DV_F32
                                                 : dtype;
}

dv_status dv_peak_create(dv_peak **out, dv_dtype dtype, dv_diag *diag)
{
    enum { ROOM = 1024 };
    unsigned char bytes[ROOM];
    dv_code code = {.at = bytes, .cap = ROOM};
    const dv_isa *isa = dv_isa_host();
    if (!isa)
        return dv_fail(diag, DV_E_SYSTEM, DV_NOWHERE,
                       "no kernels for this machine yet");
    dtype = dv_peak_type(dtype);
    int flops = dv_backend_of(isa)->peak(&code, isa, (int)dtype);
    if (flops == 0 || code.failed)
        return dv_fail(diag, DV_E_DTYPE, DV_NOWHERE, "%s has no products of %s",
                       isa->name, dv_dtype_get(dtype)->name);
    dv_peak *p = dv_alloc(sizeof *p);
    if (!p)
        return dv_nomem(diag);
    *p = (dv_peak){.flops = flops};
    const void *run = dv_code_arena_add(&p->memory, code.at, code.n);
    if (!run) {
        dv_peak_destroy(p);
        return dv_nomem(diag);
    }
    dv_code_arena_seal(&p->memory);
    memcpy(&p->run, &run, sizeof run);
    *out = p;
    return DV_OK;
}

void dv_peak_destroy(dv_peak *p)
{
    if (!p)
        return;
    dv_code_arena_free(&p->memory);
    dv_release(p);
}

void dv_peak_run(const dv_peak *p, int64_t turns)
{
    p->run(turns);
}

double dv_peak_flops(const dv_peak *p)
{
    return p->flops;
}
