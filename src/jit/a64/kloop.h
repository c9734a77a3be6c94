// The plan of the loop over k of one register tile (made in tile.c), and the
// state of writing its instructions (steps.c). The opening comment of tile.c
// explains the loop.
#ifndef DV_JIT_KLOOP_H
#define DV_JIT_KLOOP_H
#include "jit/a64/tile.h"

// A ring of vector registers that operands are loaded into: load number i goes
// to register first + i % size. The loads that one step of k needs form a
// group. If the operand read as scalars (usually A) is stored as rows of k, a
// vector of it holds several k, and a group of its loads serves `lanes` steps.
typedef struct dv_ring {
    int size, first; // number of registers in the ring, and the first of them
    // Number of loads per group (the loads that one step of k needs).
    int per;
} dv_ring;

typedef struct dv_kloop {
    const dv_prod *p;
    const dv_prod_tile *t;
    dv_ring v, s;
    int lanes; // elements per vector register
    // Steps of k that one load of the operand read as scalars serves.
    int group;
    int unroll; // steps of k per iteration of the loop
    int steps;  // steps of k in the code; the loop body counts once
    int base;   // step of k whose operands the pointer registers point to
    // 1: each iteration of the loop is one whole product of the batch.
    int flows;
    // Bytes from the end of one product of the batch to the start of the next,
    // in the operand read as scalars (hop_s) and in the one read as vectors
    // (hop_v).
    int64_t hop_s, hop_v;
    // 1: the pointer to the operand read as vectors (walk_v) or to the one read
    // as scalars (walk_s) is advanced after each step of k, because the offsets
    // of later steps would not fit an immediate.
    int walk_v, walk_s;
    int turns; // iterations of the loop over k; 0: there is no loop
    // Number of steps of k before the loop, or 0. In them, the first step of
    // each set of accumulators multiplies instead of adding, so that no
    // register has to be set to 0.
    int first;
    // 1: all addresses are immediate offsets from the operand pointers X_A and
    // X_B, which are not advanced.
    int flat;
    // 1: the last step of k stores each row of C once it is done.
    int stores;
    // Vector registers that the last step of k does not read, so that storing
    // the results can use them.
    dv_tile_free free;
    // Number of vectors per row that a step computes, over all rows, before it
    // goes on to the next vectors; 0: a step computes whole rows.
    int by_col;
    // 1: the last vector in a row of the operand read as vectors (usually B)
    // has a pointer of its own, because its offset is not a multiple of 16.
    int odd;
} dv_kloop;

// A load that is issued between the multiply-adds of a step of k. The loads
// that one step needs form a group.
typedef struct dv_sched_load {
    uint8_t at;  // position among the instruction words of the step
    uint8_t i;   // number of the load within its group
    uint8_t reg; // destination register of the load
    // The step of k that the group of this load serves: 0 the previous one, 1
    // the current one, 2 the next one.
    uint8_t ahead;
    uint8_t is_s; // 1: a load of the operand read as scalars
} dv_sched_load;

// The code of one step of k: the words of its multiply-adds, with gaps for the
// loads that are issued between them. Words are copied four at a time, so the
// array has room for three more.
enum { DV_STEP_WORDS = 60, DV_STEP_DUE = 26 };
typedef struct dv_step {
    int n, n_due;
    dv_sched_load due[DV_STEP_DUE];
    uint32_t words[DV_STEP_WORDS];
} dv_step;

// The steps of k of a register tile, independent of k and the strides: step s
// and step s + period differ only in the offsets of their loads.
enum { DV_MOST_PERIOD = 8, DV_MOST_LANES = 4 };
typedef struct dv_pattern {
    // Number of steps of k after which the same registers are used again; 0:
    // that number exceeds DV_MOST_PERIOD, and `steps` is not filled.
    int period;
    // Steps of k that one load of the operand read as scalars serves.
    int group;
    // Instruction words without registers, by the lane of the scalar that they
    // multiply by: ops[0] are multiply-adds, ops[1] are multiplies.
    uint32_t ops[2][DV_MOST_LANES];
    // The slot of each load of the first group (the loads that step 0 needs):
    // the number of the multiply-add before which it is issued, negative if it
    // is issued in an earlier step.
    int slot_v[32], slot_s[32];
    dv_step steps[DV_MOST_PERIOD];
} dv_pattern;

// Returns the pattern of a loop over k (the registers and the load schedule of
// its steps): one that is cached from an earlier kernel, or a new one, which is
// made in *room if there is no cache.
dv_pattern *dv_pattern_of(const dv_kloop *l, const dv_gen *g, dv_pattern *room);
// Makes step s of a pattern (the registers and the load schedule of the steps
// of k). The step computes `wide` vectors of each row at a time. Returns 0 if
// the instruction words do not fit *out.
int dv_pattern_step(const dv_pattern *p, const dv_kloop *l, int s, int wide,
                    dv_step *out);

// A cache of the patterns (registers and load schedules of the steps of k) that
// were made last. It is kept in memory that outlives a kernel (dv_code.keep);
// new patterns replace the oldest ones.
enum { DV_PATTERNS = 12 };
typedef struct dv_patterns {
    uint64_t made; // number of patterns that were ever made
    uint64_t keys[DV_PATTERNS];
    dv_pattern at[DV_PATTERNS];
} dv_patterns;
_Static_assert(sizeof(dv_patterns) <= DV_CODE_KEEP, "patterns have grown");
_Static_assert(offsetof(dv_patterns, keys) <= DV_CODE_ZEROS, "it starts as 0");

// The state of writing the instructions of one product's loop over k.
typedef struct dv_steps {
    dv_kloop *l;
    dv_gen *g;
    dv_pattern *p;
    // Number of groups of loads (a group serves one step of k, or several) of
    // the operand read as vectors, and of the operand read as scalars.
    int groups[2];
    // Steps of k below this number start the sums: they multiply without
    // adding.
    int fresh;
    // The step of k in which the row pointers of the operand read as scalars
    // (usually A) are advanced between the multiply-adds; -1: none.
    int moving;
    // From this step of k on, the lanes of scalars differ from those of the
    // prepared steps (dv_pattern), because the last vector of a row of the
    // operand read as scalars overlaps the one before it.
    int shift_from;
    dv_pattern room;
} dv_steps;

// Begins the loop over k of a product: emits the loads that are due before the
// first step. Steps of k below `fresh` start the sums: they multiply without
// adding.
void dv_steps_start(dv_steps *w, dv_kloop *l, dv_gen *g, int fresh);
void dv_steps_put(dv_steps *w, int begin, int end);
// Returns whether the row pointers of the operand read as scalars (usually A)
// are advanced within the last step of an iteration, between its multiply-adds.
int dv_steps_advances_rows(const dv_kloop *l);
#endif
