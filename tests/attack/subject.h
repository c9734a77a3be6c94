// Plans to attack: small programs, fixed and random, for several machines and
// teams; and how a changed plan is judged.
#ifndef DV_ATTACK_SUBJECT_H
#define DV_ATTACK_SUBJECT_H
#include "harness/case.h"
#include "team/team.h"

typedef struct subject {
    dv_program *program; // as written
    dv_plan *plan;
    char *text;   // of the plan; freed with dv_free
    char *donor;  // of another plan of the program, made with other options
    void **right; // outputs of the plan, which agree with the oracle
    int as_planned;
} subject;

// What became of a changed plan.
typedef enum fate {
    FATE_UNREADABLE, // refused by the reader
    FATE_REFUSED,    // refused by the checker
    FATE_NOT_RUN,    // accepted; the executor says that it cannot run it
    FATE_SAME,       // accepted; outputs are right
    FATE_WRONG,      // accepted; outputs are wrong, case_why() says which
    N_FATES
} fate;

// A team of a random number of ranks, on this machine or on simulated ones,
// which run the plans of section ranks.
enum { TEAM_AS_PLANNED = -2 };

// Makes a plan that runs and agrees with the oracle. `team` is 0 for one
// process, else the number of ranks, -1 for a random number of ranks, which
// may be planned again when they run, or TEAM_AS_PLANNED. The plan of a team is
// that of a random rank. Returns 0 if there is no such plan for this seed.
int subject_make(subject *s, uint64_t seed, int64_t team);
void subject_free(subject *s);
// Reads a changed plan, checks it and runs it if it is accepted: on the ranks
// of a team, or else in the simulator, on threads and by the sequential
// executor.
fate subject_try(const subject *s, const char *text, rng *r);
// Reads and checks a changed plan; returns NULL unless it is accepted.
dv_plan *subject_accept(const char *text, fate *out);
// Are these outputs of a plan of the same program right?
int subject_right(const subject *s, const dv_plan *plan, void *const *after);
#endif
