// Plans whose text was changed at random: whatever the checker accepts must run
// to its end and compute what the oracle computes.
//
//   attack dist|ranks|plan [MUTANTS]
//
// dist: section dist of plans for teams, run by a team in this process.
// ranks: the programs of ranks in section ranks, run in the same way.
// plan: all other sections of plans for one process.
// Without a number of mutants it is 100 (dist) or 1000, scaled by DV_CASES
// (percent). DV_SEED is the number of the first plan; alone, it is the only
// one.
//
// Every plan and its mutants are handled by a child process, so that one that
// crashes or hangs is reported like one that computes wrong numbers.
#define _GNU_SOURCE // MAP_ANONYMOUS
#include "mutate.h"
#include "subject.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PER_PLAN = 25,
    HANGS_S = 120, // a mutant that takes longer counts as hanging
    MAX_FAILURES = 5,
};

// What a child tells its parent, in shared memory.
typedef struct report {
    int64_t count[N_FATES];
    int64_t no_plan; // seeds without a plan that can be judged
    int mutant;      // the number of the mutant that runs
    int running;     // the mutant has not ended
    char text[1 << 20];
} report;

static const char *const fate_names[N_FATES] = {
    "unreadable", "refused", "accepted, not run", "accepted, right",
    "accepted, WRONG"};

static void tell(const char *stage, uint64_t seed, int mutant, const char *what,
                 const char *text)
{
    fprintf(stderr,
            "\nattack %s: plan %" PRIu64 ", mutant %d: %s\n"
            "again with DV_SEED=%" PRIu64 "\n----\n%s----\n",
            stage, seed, mutant, what, seed, text);
}

static int one_plan(report *out, const char *stage, uint64_t seed)
{
    int dist = !strcmp(stage, "dist"), ranks = !strcmp(stage, "ranks");
    int wrong = 0;
    subject s;
    if (!subject_make(&s, seed, dist ? -1 : ranks ? TEAM_AS_PLANNED : 0)) {
        out->no_plan++;
        return 0;
    }
    for (int i = 0; i < PER_PLAN; i++) {
        rng r = {seed * 1000003 + (uint64_t)i};
        char *text = mutate_plan(&r, s.text, s.donor,
                                 dist    ? MUTATE_DIST
                                 : ranks ? MUTATE_RANKS
                                         : MUTATE_OTHERS);
        if (!text)
            continue;
        out->mutant = i;
        snprintf(out->text, sizeof out->text, "%s", text);
        out->running = 1;
        alarm(HANGS_S);
        fate f = subject_try(&s, text, &r);
        alarm(0);
        out->running = 0;
        out->count[f]++;
        if (f == FATE_WRONG)
            tell(stage, seed, i, case_why(), text);
        wrong |= f == FATE_WRONG;
        free(text);
    }
    subject_free(&s);
    return wrong;
}

// Lets a child process try the mutants of one plan. Returns 1 if one of them
// crashed, hung or computed wrong numbers.
static int attack_plan(report *shared, const char *stage, uint64_t seed)
{
    int status = 0;
    shared->running = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(one_plan(shared, stage, seed) ? 3 : 0);
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("attack");
        return 1;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
        return 1; // the child has reported it
    const char *what = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM
                           ? "it hangs"
                           : "it crashes";
    tell(stage, seed, shared->mutant, what,
         shared->running ? shared->text : "(between two mutants)\n");
    return 1;
}

static int64_t tried(const report *r)
{
    int64_t n = 0;
    for (int f = 0; f < N_FATES; f++)
        n += r->count[f];
    return n;
}

static void sum_up(const report *r, const char *stage)
{
    printf("attack %s: %" PRId64 " mutants", stage, tried(r));
    for (int f = 0; f < N_FATES; f++)
        printf("%s %" PRId64 " %s", f ? "," : ":", r->count[f], fate_names[f]);
    printf("; %" PRId64 " seeds without a plan\n", r->no_plan);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *stage = argc > 1 ? argv[1] : "";
    if (strcmp(stage, "dist") != 0 && strcmp(stage, "ranks") != 0 &&
        strcmp(stage, "plan") != 0) {
        fprintf(stderr, "attack dist|ranks|plan [MUTANTS]\n");
        return 2;
    }
    int64_t n = argc > 2 ? strtoll(argv[2], NULL, 10)
                         : gen_cases(!strcmp(stage, "dist") ? 100 : 1000);
    // So many that some can be read, also where few cases are asked for.
    if (argc <= 2 && !strcmp(stage, "ranks") && n < 400)
        n = 400;
    report *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r == MAP_FAILED) {
        perror("attack");
        return 2;
    }
    int failed = 0;
    int64_t told = 0;
    // Some seeds give no plan: try more seeds than there are mutants to make.
    for (int64_t i = 0; tried(r) < n && i < 20 + n && failed < MAX_FAILURES;
         i++) {
        failed += attack_plan(r, stage, gen_seed() + (uint64_t)i);
        if (tried(r) / 5000 > told) {
            told = tried(r) / 5000;
            sum_up(r, stage);
        }
    }
    sum_up(r, stage);
    // A reader or checker that refuses every mutant would prove nothing. Few
    // changes of a program can be read.
    int64_t least = !strcmp(stage, "ranks") ? 200 : 20;
    if (failed == 0 &&
        (tried(r) == 0 || r->count[FATE_SAME] * least < tried(r))) {
        fprintf(stderr, "attack %s: %" PRId64 " of %" PRId64 " mutants ran\n",
                stage, r->count[FATE_SAME], tried(r));
        failed = 1;
    }
    munmap(r, sizeof *r);
    return failed > 0;
}
