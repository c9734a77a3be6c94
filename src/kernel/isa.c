// The table of instruction sets, and which of them this machine can run.
#include "kernel/kernel.h"
#include "kernel/cpu.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    FLOATS = 1 << DV_F32 | 1 << DV_F64,
    WHOLE = 1 << DV_I32,
    PAIRED = 1 << DV_BF16 | 1 << DV_I8
};

// The register tiles and cache shares below were measured. A panel of B (the
// packed columns that a kernel multiplies) stays in L1 while rows of A are
// streamed past it, and the accumulators, one row of B and the scalars of A
// fill the register file.
#define NEON(its_name, types)                                                  \
    {                                                                          \
        .name = its_name, .family = DV_ISA_A64, .vector_bytes = 16,            \
        .dtypes = types, .panel_rows = 4, .panel_vectors = 5,                  \
        .max_panel_read = 8, .max_panel_packed = 4, .pairs_rows = 8,           \
        .pairs_cols = 12, .pairs_bytes = 8, .l1_eighths_pairs = 7,             \
        .l2_eighths_pairs = 2, .l1_bytes = 64 << 10, .l2_bytes = 1 << 20,      \
        .l1_eighths_panels = 7, .l2_eighths_block = 4,                         \
        .l2_eighths_block_f64 = 2, .search_of_l1 = 5, .search_vectors = 6,     \
        .copy_tile_rows = 4                                                    \
    }
#define AVX512(its_name, types)                                                \
    .name = its_name, .family = DV_ISA_X64, .vector_bytes = 64,                \
    .dtypes = types, .panel_rows = 8, .panel_vectors = 3,                      \
    .max_panel_read = 28, .max_panel_packed = 28, .l1_bytes = 48 << 10,        \
    .l2_bytes = 2 << 20, .l1_eighths_panels = 8, .l2_eighths_block = 4,        \
    .l2_eighths_block_f64 = 2, .search_of_l1 = 11, .search_vectors = 3,        \
    .streams = 1
const dv_isa dv_isas[] = {
    NEON("neon-bf16", FLOATS | WHOLE | PAIRED),
    NEON("neon", FLOATS | WHOLE),
    // AMX multiplies in tiles, here 32 rows by 32 columns of C. L2 feeds them
    // fast enough, so the blocks of k are as long as possible, because C is
    // read and written once per block of k.
    {AVX512("avx512-amx", FLOATS | WHOLE | PAIRED), .has_tiles = 1,
     .pairs_rows = 32, .pairs_cols = 32, .pairs_bytes = 64,
     .l1_eighths_pairs = 64, .l2_eighths_pairs = 2},
    {AVX512("avx512-vnni", FLOATS | WHOLE | 1 << DV_I8), .pairs_rows = 8,
     .pairs_cols = 48, .pairs_bytes = 16, .i8_correction = 1,
     .l1_eighths_pairs = 11, .l2_eighths_pairs = 2},
    {AVX512("avx512", FLOATS | WHOLE)},
    {.name = "avx2",
     .family = DV_ISA_X64,
     .vector_bytes = 32,
     .dtypes = FLOATS | WHOLE,
     .panel_rows = 6,
     .panel_vectors = 2,
     .max_panel_read = 12,
     .max_panel_packed = 12,
     .l1_bytes = 32 << 10,
     .l2_bytes = 512 << 10,
     .l1_eighths_panels = 7,
     .l2_eighths_block = 4,
     .l2_eighths_block_f64 = 4,
     .search_of_l1 = 11,
     .search_vectors = 2,
     .streams = 1},
};
const int dv_n_isas = sizeof dv_isas / sizeof *dv_isas;

const dv_isa *dv_isa_find(const char *name)
{
    for (int i = 0; i < dv_n_isas; i++)
        if (!strcmp(dv_isas[i].name, name))
            return &dv_isas[i];
    return NULL;
}

void dv_isa_names(dv_text *out)
{
    for (int i = 0; i < dv_n_isas; i++)
        if (!i || strcmp(dv_isas[i].name, dv_isas[i - 1].name) != 0)
            dv_put(out, " %s", dv_isas[i].name);
}

const dv_isa *dv_isa_of_vector(int64_t vector_bytes)
{
    const dv_isa *best = NULL, *shortest = NULL;
    for (int i = 0; i < dv_n_isas; i++) {
        const dv_isa *isa = &dv_isas[i];
        if (!shortest || isa->vector_bytes <= shortest->vector_bytes)
            shortest = isa;
        if (isa->vector_bytes <= vector_bytes &&
            (!best || isa->vector_bytes >= best->vector_bytes))
            best = isa;
    }
    return best ? best : shortest;
}

// Returns a mask of the instruction sets of the table that this machine can
// run. It is computed once, because on virtual machines each cpuid instruction
// traps into the hypervisor. Threads that call this at the same time compute
// the same value.
static unsigned supported_rows(void)
{
    static _Atomic unsigned known;
    const unsigned asked = 1u << 31;
    unsigned rows = atomic_load(&known);
    for (int i = 0; !(rows & asked) && i < dv_n_isas; i++)
        rows |= dv_cpu_has(dv_isas[i].name) ? 1u << i : 0;
    atomic_store(&known, rows | asked);
    return rows;
}

int dv_isa_supported(const dv_isa *isa)
{
    return supported_rows() >> (isa - dv_isas) & 1;
}

const dv_isa *dv_isa_best(void)
{
    for (int i = 0; i < dv_n_isas; i++)
        if (dv_isa_supported(&dv_isas[i]))
            return &dv_isas[i];
    return NULL;
}

const dv_isa *dv_isa_host(void)
{
    const char *wish = getenv("DIVVY_CPU");
    const dv_isa *wished = wish ? dv_isa_find(wish) : NULL;
    return wished && dv_isa_supported(wished) ? wished : dv_isa_best();
}
