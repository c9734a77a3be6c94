// The loop over k of one tile: its plan (tile.c) and what writes its steps
// (steps.c). tile.c has the idea.
#ifndef DV_JIT_KLOOP_H
#define DV_JIT_KLOOP_H
#include "jit/a64/tile.h"
#include "jit/gemm/cut.h"

// A ring of registers. Loads are numbered through groups of `per`.
typedef struct dv_ring {
    int size, first; // registers
    int per;         // loads a group
} dv_ring;

typedef struct dv_kloop {
    const dv_prod *p;
    const dv_a64_tile *t;
    dv_ring v, s;
    int lanes;            // elements of a vector
    int group;            // steps that one load of S serves
    int unroll;           // steps of a turn of the loop
    int steps;            // as emitted
    int base;             // step the pointers stand at
    int flows;            // a turn is a product of the batch
    int64_t hop_s, hop_v; // what a product's end is from the next one's start
    int walk_v, walk_s;   // the pointer moves with each step
    int turns;            // of the loop; 0: none
    int first;            // steps before it; as many as sets start the sums
    int flat;             // addresses are offsets from X_A and X_B
    int stores;           // the last step stores the rows as they are done
    dv_tile_free free;    // registers that it does not read then
    int by_col;           // so many columns at a time; 0: all of a row
    int odd;              // V's last vector has a pointer of its own
} dv_kloop;

// A load between multiply-adds, or the step of a pointer behind a group. Both
// indices are of S where bit DV_OF_S is set.
enum { DV_THEN = 32, DV_OF_S = 64, DV_SAME = 4 };
typedef struct dv_due {
    unsigned char at;    // its place among the words of the step
    unsigned char i;     // which one of its group; DV_THEN
    unsigned char reg;   // its register
    unsigned char ahead; // its group: 1 is the one at hand, 2 the next one;
                         // DV_THEN: DV_SAME more
} dv_due;

// One step: multiply-adds with their registers, and room for the loads that
// are due between them. Words are copied four at a time, so there is room for
// three more.
enum { DV_STEP_WORDS = 60, DV_STEP_DUE = 26 };
typedef struct dv_step {
    int n, n_due;
    int s_from, s_to; // groups of S that it loads, by `ahead`; none: 0
    dv_due due[DV_STEP_DUE];
    uint32_t words[DV_STEP_WORDS];
} dv_step;

// The steps of a tile, whatever k and the strides are: step s is like step
// s + period, but for offsets.
enum { DV_MOST_PERIOD = 8, DV_MOST_LANES = 4 };
typedef struct dv_pattern {
    int period;                     // 0: a longer one
    int group;                      // steps that one load of S serves
    uint32_t ops[2][DV_MOST_LANES]; // by a lane: multiply-adds, multiplies
    int slot_v[32], slot_s[32];     // before which loads of group 0 are due
    dv_step steps[DV_MOST_PERIOD];
    // Without loads of S, for the last ones; bits: those that are made.
    dv_step bare[DV_MOST_PERIOD];
    uint32_t has_bare;
} dv_pattern;

// That of a loop: the one kept from a kernel before, or made in *room.
dv_pattern *dv_pattern_of(const dv_kloop *l, const dv_gen *g, dv_pattern *room);
const dv_step *dv_pattern_bare(dv_pattern *p, const dv_kloop *l, int s);
// Any one step, `wide` columns at a time; bare: without loads of S. 0: there is
// no room for its words.
int dv_pattern_step(const dv_pattern *p, const dv_kloop *l, int s, int wide,
                    int bare, dv_step *out);

// The patterns that were made last, in turn, for the kernels that come after
// (dv_code.keep).
enum { DV_PATTERNS = 12 };
typedef struct dv_patterns {
    uint64_t made; // in all
    uint64_t keys[DV_PATTERNS];
    dv_pattern at[DV_PATTERNS];
} dv_patterns;
_Static_assert(sizeof(dv_patterns) <= DV_CODE_KEEP, "patterns have grown");
_Static_assert(offsetof(dv_patterns, keys) <= DV_CODE_ZEROS, "it starts as 0");

// The best cut of a product; no runs where panels are higher than any tile.
void dv_tile_choose(const dv_gen *g, const dv_prod *p, dv_cuts *out);

// The loads of one ring. Nearly all are one instruction, whose offset grows by
// as much with every group: they are added up from parts.
typedef struct dv_loads {
    int per, steps;     // loads a group, steps that it serves
    int end;            // groups in all
    int limit;          // groups from here on are written one by one
    int base, hop_from; // the pointers' group; the first of the next product
    uint32_t step, hop; // what a group, and the next product, adds
    int odd;            // the last group, if it begins earlier; -1: none
    uint32_t odd_moved; // what that one adds
    uint32_t *word;     // without register and group; DV_THEN: behind a group
    uint32_t *moved;    // what groups add, by `ahead`; DV_SAME on: 0
} dv_loads;

// What writes the steps, made once a product.
typedef struct dv_steps {
    dv_kloop *l;
    dv_gen *g;
    dv_pattern *p;
    dv_loads q[2];  // V and S
    int fresh;      // steps below start a sum
    int moving;     // in this one, pointers of rows of k move on; -1: none
    int shift_from; // from here on lanes are others than the pattern's
    int whole_from, whole_to; // steps whose loads of V are in the tables
    uint32_t words[2 * DV_OF_S], moved[2 * DV_OF_S]; // of both
    dv_pattern room;
} dv_steps;

// Begin a product: everything is loaded that comes before its first step. Steps
// below `fresh` start a sum.
void dv_steps_start(dv_steps *w, dv_kloop *l, dv_gen *g, int fresh);
void dv_steps_put(dv_steps *w, int begin, int end);
// Do the pointers of rows of k move on in the last step of a turn?
int dv_steps_moves_rows(const dv_kloop *l);
// Pointers stand at another step.
void dv_steps_rebase(dv_steps *w, int base);
#endif
