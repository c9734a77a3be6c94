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
#include "jit/gemm/cut.h"
#include "jit/x64/gen.h"

// The strides of a tile: of rows of S, V and C; and from the end of a product
// of a batch to the next one, of S and V.
enum { DV_X_LD_S, DV_X_LD_V, DV_X_LDC, DV_X_HOP_S, DV_X_HOP_V, DV_X_STRIDES };

enum { DV_X_KEY = 6 };
typedef struct dv_x_key {
    uint64_t words[DV_X_KEY];
} dv_x_key;

// `fixed` and `times` the stride make the number that ends at byte `at`.
typedef struct dv_x_note {
    int32_t fixed;
    uint16_t at;
    int16_t times;
} dv_x_note;

// A constant behind the code that a piece reads, by the offset that ends at
// byte `at`.
typedef struct dv_x_fix {
    uint32_t at;
    int32_t n; // bytes
    unsigned char data[64];
} dv_x_fix;

// A piece that is kept. Behind it are its notes, those of a stride together;
// its constants; a byte a note that says which size the number has, 4, 1 or,
// where it is 0, 0, and, times 8, the unit: short ones count in 1 << unit
// bytes; and the code.
typedef struct dv_x_piece {
    dv_x_key key;
    uint32_t bytes; // of the code
    int32_t n_fixes;
    int32_t n_notes[DV_X_STRIDES];
    int32_t all_long; // all numbers have four bytes, and so they have with
                      // strides from `least` to `most`
    int64_t strides[DV_X_STRIDES]; // that the code has
    int64_t least[DV_X_STRIDES], most[DV_X_STRIDES];
} dv_x_piece;

// One that is being written: those of each stride have room of their own.
enum {
    DV_X_NOTES_S = 0,
    DV_X_NOTES_V = 256,
    DV_X_NOTES_C = 384,
    DV_X_NOTES_HOPS = 512, // one each
    DV_X_NOTES = 514
};
typedef struct dv_x_draft {
    dv_x_piece piece;
    dv_x_note notes[DV_X_NOTES];
    uint8_t sizes[DV_X_NOTES];
} dv_x_draft;

// What is kept from kernel to kernel (dv_code.keep): the pieces that were
// written last, one behind the other in a ring; and how the last products were
// cut, in turn.
enum {
    DV_X_PIECES = 64,
    DV_X_PIECE_BYTES = 6 << 10, // of code, at most
    DV_X_PIECE_FIXES = 6,
    DV_X_RING = 13 << 10, // words of 8 bytes
    DV_X_CUTS = 16
};
typedef struct dv_x_kept {
    uint64_t written; // pieces, in all
    uint64_t pieces;  // those kept
    uint64_t top;     // where the next one goes
    uint64_t cuts;    // so far
    struct {
        uint64_t words[3];
        dv_cuts cuts;
    } cut[DV_X_CUTS];
    uint64_t mixed[DV_X_PIECES];                 // keys; 0: the piece is gone
    uint32_t from[DV_X_PIECES], to[DV_X_PIECES]; // places in the ring
    dv_x_draft draft;
    uint64_t ring[DV_X_RING];
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
    if (g->draft && times)
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
