// Register tiles that earlier kernels had, and how products were cut.
//
// A tile whose strides alone differ from a kept one's is a copy of its code.
// Strides are in offsets and in numbers that are added to pointers: the last
// bytes of their instructions. Each of these has a note that says how it
// follows from a stride, and is set anew in the copy:
//
//   vmovups 2 * ldc + 64(%rdx), %zmm3     {C, 2 times, plus 64}
//
// A number that would take another size, or none where it took some, makes the
// instruction another one: then there is no copy, and the tile is written.
// Everything else that the code depends on is in the key.
//
//   if (dv_x_piece_copy(g, key, strides))
//       return;
//   ... write, with a note behind each instruction that has a stride
//   dv_x_piece_keep(g);
#ifndef DV_X64_KEPT_H
#define DV_X64_KEPT_H
#include "jit/cut.h"
#include "jit/x86_64/gen.h"

// The strides of a tile: of rows of S, V and C; and from the end of a product
// of a batch to the next one, of S and V.
enum { DV_X_LD_S, DV_X_LD_V, DV_X_LDC, DV_X_HOP_S, DV_X_HOP_V, DV_X_STRIDES };

enum {
    DV_X_KEY = 6,
    DV_X_PIECES = 12,
    DV_X_PIECE_BYTES = 4096,
    DV_X_PIECE_FIXES = 6
};
typedef struct dv_x_key {
    uint64_t words[DV_X_KEY];
} dv_x_key;

// `fixed` and `times` the stride make the number that ends at byte `at`.
typedef struct dv_x_note {
    int32_t fixed;
    uint16_t at;
    int16_t times;
} dv_x_note;

// Those of each stride lie together: where they begin, and where all end.
enum {
    DV_X_NOTES_S = 0,
    DV_X_NOTES_V = 256,
    DV_X_NOTES_C = 384,
    DV_X_NOTES_HOPS = 512, // one each
    DV_X_NOTES = 514
};

typedef struct dv_x_piece {
    dv_x_key key;
    uint32_t bytes;
    int n_fixes;
    int64_t strides[DV_X_STRIDES]; // that the code has
    int n_notes[DV_X_STRIDES];
    int all_long; // all numbers have four bytes, and so they have
    // with strides from `least` to `most`
    int64_t least[DV_X_STRIDES], most[DV_X_STRIDES];
    dv_x_note notes[DV_X_NOTES];
    // The bytes of a number, 4, 1 or, where it is 0, 0; and, times 8, the unit:
    // short ones count in 1 << unit bytes.
    uint8_t sizes[DV_X_NOTES];
    struct {
        uint32_t at;
        int n; // bytes of the constant
        unsigned char data[64];
    } fixes[DV_X_PIECE_FIXES]; // constants behind the code that it reads
    unsigned char code[DV_X_PIECE_BYTES];
} dv_x_piece;

// What is kept from kernel to kernel (dv_code.keep), the last ones in turn.
enum { DV_X_CUTS = 8 };
typedef struct dv_x_kept {
    uint64_t pieces, cuts;       // in all, so far
    uint64_t mixed[DV_X_PIECES]; // their keys'; 0: none
    struct {
        uint64_t words[3];
        dv_cuts cuts;
    } cut[DV_X_CUTS];
    dv_x_piece piece[DV_X_PIECES];
} dv_x_kept;
_Static_assert(sizeof(dv_x_kept) <= DV_CODE_KEEP, "pieces have grown");
_Static_assert(offsetof(dv_x_kept, cut) <= DV_CODE_ZEROS, "these start as 0");

// 1: the code is there. 0: it is to be written now, and notes are taken until
// dv_x_piece_keep.
int dv_x_piece_copy(dv_x *g, const dv_x_key *key, const int64_t *strides);
void dv_x_piece_keep(dv_x *g);

// The instruction just written ends in `value`, which has so many times the
// stride in it.
void dv_x_note_put(dv_x *g, int which, int64_t times, int64_t value, int unit);
static inline void dv_x_noted(dv_x *g, int which, int64_t times, int64_t value,
                              int unit)
{
    if (g->piece && times)
        dv_x_note_put(g, which, times, value, unit);
}

// What offsets of whole vectors count in, and those of one element to all
// lanes; 0: they are VEX.
static inline int dv_x_unit(const dv_x *g)
{
    return g->masks ? 6 : 0;
}

static inline int dv_x_unit_splat(const dv_x *g)
{
    return !g->masks ? 0 : g->es == 8 ? 3 : 2;
}

// How the last products were cut. 0: another way.
int dv_x_cuts_find(const dv_code *code, const uint64_t words[3], dv_cuts *out);
void dv_x_cuts_keep(dv_code *code, const uint64_t words[3], const dv_cuts *c);
#endif
