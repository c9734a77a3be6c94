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
#include "base/text.h"

// The architecture for which the kernels of an instruction set are generated.
typedef enum dv_isa_family { DV_ISA_A64, DV_ISA_X64 } dv_isa_family;

typedef struct dv_isa {
    const char *name;
    dv_isa_family family;
    int vector_bytes;
    uint32_t dtypes; // bit 1 << t: type t (a dv_dtype) can be multiplied
    // Kernels of matrix products C = A * B read operands packed into panels:
    // rows of a panel of A, and vectors in a row of a panel of B. A micro-tile
    // of C, the block that a kernel keeps in registers, takes one panel of
    // each.
    int panel_rows, panel_vectors;
    // The largest number of rows of a panel of A (a packed block of the left
    // factor) that a kernel can read, and that a kernel can pack itself while
    // it multiplies.
    int max_panel_read, max_panel_packed;
    // The panels (packed blocks) for instructions that multiply pairs of narrow
    // elements (bf16 and i8): rows of a panel of A, columns of a panel of B,
    // and how many bytes along k of one row are contiguous. i8_correction is 1
    // if i8 is multiplied with an offset of 128 and the results are corrected
    // afterwards.
    int pairs_rows, pairs_cols, pairs_bytes, i8_correction;
    int has_tiles;              // 1 if it has the tile registers of AMX
    int64_t l1_bytes, l2_bytes; // typical sizes, used if none are known
    // How much of a cache blocks of a matrix product may fill, in eighths: L1
    // for the panels in use, which gives the length of the blocks of k, L2 for
    // a packed block of A, L2 for a packed block of A of 8-byte elements, and
    // L1 and L2 for narrow types (bf16, i8).
    int l1_eighths_panels, l2_eighths_block, l2_eighths_block_f64,
        l1_eighths_pairs, l2_eighths_pairs;
    // How many eighths of L1 panels may fill in the kernels that the search for
    // the best loop order tries. With AVX-512 a longer k was measured to be
    // faster in these, even though its panel of B is larger than L1.
    int search_of_l1;
    // Width in vectors of the widest micro-tile (block of results in registers)
    // that the search for the best loop order considers: on NEON one more than
    // packed panels have, for operands that are not packed.
    int search_vectors;
    // Rows of the register tiles of kernels that copy the next rows of A while
    // they multiply; 0 if there are no such kernels.
    int copy_tile_rows;
    int streams; // 1 if kernels can store C past the caches
} dv_isa;

// All instruction sets that divvy has kernels for. Among those that one machine
// supports, the first in this table is the best.
extern const dv_isa dv_isas[];
extern const int dv_n_isas;

// Returns the instruction set that kernels are made for on this machine: the
// one that the environment variable DIVVY_CPU names, if the machine has it, or
// else the best. NULL: the machine has none of them.
const dv_isa *dv_isa_host(void);
// Returns the best instruction set of this machine, even if DIVVY_CPU names
// another one.
const dv_isa *dv_isa_best(void);
// Returns the instruction set of this name, or NULL.
const dv_isa *dv_isa_find(const char *name);
// Prints the names of all instruction sets, each after a space.
void dv_isa_names(dv_text *out);
// Returns the instruction set with the longest vectors of at most
// `vector_bytes` bytes; of several, the one with the fewest extensions. If all
// vectors are longer, returns the set with the shortest ones. For planners,
// which know the length of a target's vectors but not always its name.
const dv_isa *dv_isa_of_vector(int64_t vector_bytes);
// Returns whether this machine can run kernels of this instruction set.
int dv_isa_supported(const dv_isa *isa);

// Returns whether kernels of this instruction set multiply elements of this
// type without converting them first. `isa` may be NULL.
static inline int dv_isa_has(const dv_isa *isa, int dtype)
{
    return isa && dtype >= 0 && dtype < 32 && (isa->dtypes >> dtype & 1);
}

// Returns whether the instruction set multiplies small matrices of both bf16
// and i8.
static inline int dv_isa_has_matrix(const dv_isa *isa)
{
    return dv_isa_has(isa, DV_BF16) && dv_isa_has(isa, DV_I8);
}
#endif
