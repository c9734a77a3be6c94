// Structured changes of a plan's text: numbers, names, lines and blocks of
// lines of one section are changed, exchanged, repeated, moved or removed. The
// team's program is never changed, so that it stays clear what is to be
// computed.
#ifndef DV_ATTACK_MUTATE_H
#define DV_ATTACK_MUTATE_H
#include "harness/gen.h"

enum {
    MUTATE_DIST = 1,   // section dist
    MUTATE_OTHERS = 2, // all sections but dist and program
    MUTATE_RANKS = 4,  // the programs of ranks, in section ranks
};

// A changed copy of a plan's text, from malloc, without comments; NULL when the
// plan has no such section. Lines, blocks and whole sections may come from
// `donor`, another plan of the same program.
char *mutate_plan(rng *r, const char *text, const char *donor, int sections);
#endif
