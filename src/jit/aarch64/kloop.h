// The loop over k of one tile: its plan (tile.c) and what writes its steps
// (steps.c). tile.c has the idea.
#ifndef DV_JIT_KLOOP_H
#define DV_JIT_KLOOP_H
#include "jit/aarch64/tile.h"

// A ring of registers. Loads are numbered through groups of `per`.
typedef struct dv_ring {
    int size, first; // registers
    int per;         // loads a group
} dv_ring;

typedef struct dv_kloop {
    const dv_prod *p;
    const dv_tile *t;
    dv_ring v, s;
    int group;            // steps that one load of S serves
    int unroll;           // steps of a turn of the loop
    int steps;            // as emitted
    int base;             // step the pointers stand at
    int flows;            // a turn is a product of the batch
    int64_t hop_s, hop_v; // what a product's end is from the next one's start
    int walk_v, walk_s;   // the pointer moves with each step
    int turns;            // of the loop; 0: none
    int flat;             // addresses are offsets from X_A and X_B
    int stores;           // the last step stores the rows as they are done
    int by_col;           // so many columns at a time; 0: all of a row
} dv_kloop;

// The loads of one ring. Nearly all are one instruction, whose offset grows by
// as much with every group: they are added up from parts.
typedef struct dv_loads {
    int per, steps; // loads a group, steps that it serves
    int end;        // groups in all
    int limit;      // groups from here on are written one by one
    int base,
        hop_from;    // group that pointers stand at, first of the next product
    int group, next; // of the last load; the register of the next, from 0
    int size;        // registers
    uint32_t step, hop; // what a group, and the next product, adds
    uint32_t moved;     // that of the group at hand
    uint32_t then;      // instruction behind a group
    int then_after;     // its last load; -1: none
    int slot[32];       // before which it is due, from the group's start
    uint32_t word[32];  // without register and group
    uint32_t reg[32];   // registers of the ring
} dv_loads;

// A load that is due before multiply-add `slot` of a step.
typedef struct dv_due {
    unsigned char slot, is_s, i;
    signed char ahead; // groups, from the one at hand
} dv_due;

// Words that are written four at a time have room for three more.
enum { DV_STEP_WORDS = 32 + 3, DV_STEP_PHASES = 8, DV_MOST_LANES = 4 };

// Registers of the multiply-adds of a step, in order. They are the same again
// after `period` steps or groups.
typedef struct dv_fields {
    int period; // 0: not soon
    int known;  // bits: those that are made
    int at;     // those of the step at hand
    uint32_t words[DV_STEP_PHASES][DV_STEP_WORDS];
} dv_fields;

// What writes the steps, made once a product.
typedef struct dv_steps {
    dv_kloop *l;
    dv_gen *g;
    int size, wide; // multiply-adds of a step, columns at a time
    int in, group;  // the step at hand: in its group of S, and which that is
    dv_loads v, s;
    // What is due in the steps of a group of S, and where each step's end.
    dv_due due[(DV_MOST_LANES + 1) * 32];
    int due_end[DV_MOST_LANES];
    uint32_t ops[2][DV_MOST_LANES]; // by a lane: multiply-adds, multiplies
    dv_fields acc;                  // accumulators and vectors of V
    dv_fields row;                  // scalars, with lanes of rows their lanes
} dv_steps;

// Begin a product: everything is loaded that comes before its first step.
void dv_steps_start(dv_steps *w, dv_kloop *l, dv_gen *g);
// Steps begin..end. Those below `fresh` start a sum.
void dv_steps_put(dv_steps *w, int begin, int end, int fresh);
// Pointers stand at another step.
void dv_steps_rebase(dv_steps *w, int base);
#endif
