// The table of instruction sets: which types each one has kernels for, the
// shapes of its register tiles and panels, and how its caches are filled. The
// planner and the code generator both read it, so that a plan is made for the
// kernels that will run. It holds data only; the generators are in jit/.
//
//   isa.c   the table, and which of its rows this machine can run
//   cpu.c   asks the processor whether it has an instruction set
//   cpu.h   declares that function
#ifndef DV_KERNEL_H
#define DV_KERNEL_H
#include "base/dtype.h"

// The architecture whose machine code the kernels of an instruction set are.
typedef enum dv_isa_family { DV_ISA_A64, DV_ISA_X64 } dv_isa_family;

typedef struct dv_isa {
    const char *name;
    dv_isa_family family;
    int vector_bytes;
    uint32_t dtypes;  // bit 1 << dv_dtype: types that are multiplied directly
    uint32_t widened; // same bits: types that kernels can copy, widen to f32
                      // and narrow again, but not multiply
    // The panels that a product is packed into: rows of a panel of A, and
    // vectors in a row of a panel of B. A micro-tile of the kernel covers one
    // panel of each.
    int panel_rows, panel_vectors;
    // The largest number of rows in a panel of A that a kernel can read, and
    // that a kernel can pack while it multiplies.
    int max_panel_read, max_panel_packed;
    // The panels of instructions that multiply pairs of narrow elements (bf16
    // and i8): rows of a panel of A, columns of a panel of B, and how many
    // bytes along k of one row are contiguous. i8_correction: i8 is multiplied
    // with an offset of 128 and the results are corrected afterwards.
    int pairs_rows, pairs_cols, pairs_bytes, i8_correction;
    int has_tiles;              // has AMX tile registers
    int64_t l1_bytes, l2_bytes; // typical caches, used where none are known
    // Shares of a cache in eighths, for cutting products into blocks outside of
    // plans: L1 for the panels in use, L2 for a packed block of A, L2 for a
    // packed block of A of 8-byte elements, and L1 and L2 for narrow types
    // (bf16, i8).
    int l1_eighths_panels, l2_eighths_block, l2_eighths_block_f64,
        l1_eighths_pairs, l2_eighths_pairs;
    // Blocking of k in plans, in eighths of L1 as well: of a plain product of
    // two matrices, and of the kernels that the search for the best loop order
    // tries. These two decide the order in which sums are added up, and with it
    // the bits of results; they differ from l1_eighths_panels where a longer k
    // was measured to be faster even though its panel of B is larger than L1.
    int plan_of_l1, search_of_l1;
    // Vectors in a row of the widest micro-tile (register tile) that the search
    // for the best loop order considers: on NEON one more than packed panels
    // have, for operands that are not packed.
    int search_vectors;
    int copy_tile_rows; // rows of the tiles of kernels that copy the next rows
                        // of A while they multiply; 0: there are no such
                        // kernels
    int streams; // 1: kernels can write C with stores that bypass the caches
} dv_isa;

// All instruction sets; of those that one machine has, the best comes first.
extern const dv_isa dv_isas[];
extern const int dv_n_isas;

// Returns the instruction set that kernels are made for on this machine: the
// one that the environment variable DIVVY_CPU names, if the machine has it, or
// else the best. NULL: the machine has none of them.
const dv_isa *dv_isa_host(void);
// Returns the best instruction set of this machine, whatever DIVVY_CPU names.
const dv_isa *dv_isa_best(void);
// Returns the instruction set of this name, or NULL.
const dv_isa *dv_isa_find(const char *name);
// Returns the instruction set with the longest vectors of at most this many
// bytes; of several, the one with the fewest extensions. If all vectors are
// longer, returns the set with the shortest ones. For planners, which know the
// length of a target's vectors but not always its name.
const dv_isa *dv_isa_of_vector(int64_t vector_bytes);
// Can this machine run kernels of this instruction set?
int dv_isa_supported(const dv_isa *isa);

// Are elements of this type multiplied directly? `isa` may be NULL.
static inline int dv_isa_has(const dv_isa *isa, int dtype)
{
    return isa && dtype >= 0 && dtype < 32 && (isa->dtypes >> dtype & 1);
}

// Does the instruction set multiply small matrices of both bf16 and i8?
static inline int dv_isa_has_matrix(const dv_isa *isa)
{
    return dv_isa_has(isa, DV_BF16) && dv_isa_has(isa, DV_I8);
}
#endif
