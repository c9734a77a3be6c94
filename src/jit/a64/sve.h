// Register tiles with SVE vectors of a length that is known when the code is
// made: that of the machine, a property of its row in host.c.
//
//          V: nv vectors, the last one perhaps a part
//         [ v0 ][ v1 ][ v2 ]
//   S  s0 [    ][    ][    ]      acc(i, j) += v(j) * s(i)
//      s1 [    ][    ][    ]
//
// Sixteen bytes of S are loaded into every sixteen bytes of a register, from
// where multiply-adds take one lane: k of one row (rows of k, panels of them)
// or rows of one k. Parts of vectors are read and written under a predicate.
//
// Registers: those of S come first, since multiply-adds by lane reach only the
// low ones; then the sums, V, and a scalar of whole numbers.
#ifndef DV_JIT_SVE_H
#define DV_JIT_SVE_H
#include "jit/a64/gen.h"

enum {
    X_VBASE = X_NEXT // of the column of tiles at hand
};

// Predicates: all; the last vector of V; the last of k in a row of S; the last
// rows of S.
enum { P_ALL = 0, P_PART = 1, P_K = 2, P_ROWS = 3 };

// The product as the generator sees it. Strides in bytes.
typedef struct dv_z_prod {
    int32_t n_s, n_v, k, batch;
    int64_t ld_s, ld_v, ldc;
    int64_t stride_s, stride_v;
    int lane_k;    // what the lanes of S are: k, or rows
    int panel;     // S is packed in panels
    int tile_rows; // how high tiles must be; 0: any height
    int dots;      // V has rows of k too: sums are in lanes
    int c_turned;  // S runs along C's rows: sums are scattered
    int one_sum;   // no partial sums
    int pack_s;    // S is stored in panels as it is read
    int pack_v;    // V is stored in whole vectors as it is read
    int bias;      // 0 none, 1 along S, 2 along V
    int alpha, beta, relu;
} dv_z_prod;

typedef struct dv_z_tile {
    int rows, cols; // of S and V
    int nv;         // vectors of V
    int sets;       // partial sums, taken by k in turn; added at the end
    int n_s;        // registers of S
    int ahead;      // steps of k that V is loaded before use
} dv_z_tile;

// The instruction for the element type: name_s, name_i or name_d; for its size.
#define DV_EZ(op, w, x, y, z)                                                  \
    do {                                                                       \
        if (g->es == 8)                                                        \
            DV_E(op##d, w, x, y, z);                                           \
        else if (g->ints)                                                      \
            DV_E(op##i, w, x, y, z);                                           \
        else                                                                   \
            DV_E(op##s, w, x, y, z);                                           \
    } while (0)
#define DV_ES(op, w, x, y, z)                                                  \
    do {                                                                       \
        if (g->es == 8)                                                        \
            DV_E(op##d, w, x, y, z);                                           \
        else                                                                   \
            DV_E(op##s, w, x, y, z);                                           \
    } while (0)

// A tile of such a size, with partial sums and a ring of V that there are
// registers for; 0 when there are too few for any.
int dv_z_tile_make(const dv_gen *g, const dv_z_prod *p, int rows, int cols,
                   dv_z_tile *out);
int dv_z_tile_regs(const dv_gen *g, const dv_z_tile *t);
// Code for one tile at X_A (S), X_B (V), X_C; those three are left unchanged.
void dv_z_tile_emit(dv_gen *g, const dv_z_prod *p, const dv_z_tile *t);
// Add, scale, bias, relu, store. `free` is the first unused vector register.
void dv_z_tile_store(dv_gen *g, const dv_z_prod *p, const dv_z_tile *t,
                     int free);
// The same for dot products, of at most so many rows and columns.
enum { DV_Z_DOT = 4 };
int dv_z_dot_regs(void);
void dv_z_dot_emit(dv_gen *g, const dv_z_prod *p, const dv_z_tile *t);
// A predicate of the first n lanes.
void dv_z_first(dv_gen *g, int predicate, int n);

static inline int dv_z_acc(const dv_z_tile *t, int set, int i, int j)
{
    return dv_gen_reg(t->n_s + (set * t->rows + i) * t->nv + j);
}

// For vector j of the tile.
static inline int dv_z_mask(const dv_gen *g, const dv_z_tile *t, int j)
{
    return (j + 1) * g->lanes > t->cols ? P_PART : P_ALL;
}

static inline int64_t dv_z_vector(const dv_gen *g) // bytes
{
    return (int64_t)g->lanes * g->es;
}

// Elements of S in a register.
static inline int dv_z_quad(const dv_gen *g)
{
    return 16 / g->es;
}

// Add a stride that may not fit an immediate; `reg` holds it then.
static inline void dv_z_step(dv_gen *g, int rd, int64_t bytes, int reg)
{
    if (dv_gen_fits_add(bytes))
        dv_gen_add(g, rd, rd, bytes);
    else
        DV_E(add_x, rd, rd, reg, 0);
}
#endif
