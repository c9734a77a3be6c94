// Choosing and placing, measured: the synthetic instances of n buffers with
// every solver, and how much is left out.
//
//   keep [-s SOLVER] N...        one line each: n, solver, seconds (best of 3),
//                                placed, bytes left out, gap
#define _POSIX_C_SOURCE 200809L
#include "../tests/harness/synth.h"
#include "usage.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int measure(const synth *s, dv_solver solver)
{
    dv_place_options o = DV_PLACE_OPTIONS_INIT;
    double best = -1;
    int64_t left = 0;
    int placed = 0;
    double gap = 0;
    o.capacity_bytes = SYNTH_CAPACITY;
    o.align_bytes = SYNTH_ALIGN;
    o.solver = solver;
    for (int k = 0; k < 3; k++) {
        dv_placement *p = NULL;
        double start = now_s();
        if (dv_place(&p, s->buffers, (size_t)s->n, &o, NULL) != DV_OK)
            return 1;
        double took = now_s() - start;
        best = best < 0 || took < best ? took : best;
        if (dv_placement_check(p, s->buffers, &o, NULL) != DV_OK)
            return 1;
        left = placed = 0;
        for (int i = 0; i < s->n; i++) {
            placed += p->addresses[i] >= 0;
            left += p->addresses[i] < 0 ? s->buffers[i].size_bytes : 0;
        }
        gap = p->gap;
        dv_placement_destroy(p);
    }
    printf("%9d %-9s %9.4f %9d %12" PRId64 " %7.4f\n", s->n,
           dv_solver_name(solver), best, placed, left, gap);
    return 0;
}

static const dv_solver all[] = {DV_SOLVER_GREEDY, DV_SOLVER_FIRSTFIT,
                                DV_SOLVER_BESTFIT, DV_SOLVER_AUTO};

static int usage(int asked)
{
    return tell_usage(asked, "keep [-s greedy|firstfit|bestfit|auto] N...\n");
}

int main(int argc, char **argv)
{
    const char *only = NULL;
    int opt, known = 0;
    while ((opt = getopt(argc, argv, "hs:")) != -1)
        if (opt == 's')
            only = optarg;
        else
            return usage(opt == 'h');
    for (int k = 0; k < 4; k++)
        known |= !only || !strcmp(only, dv_solver_name(all[k]));
    for (int a = optind; a < argc; a++)
        known &= atoi(argv[a]) > 0;
    if (!known || optind == argc)
        return usage(0);
    printf("%9s %-9s %9s %9s %12s %7s\n", "n", "solver", "best s", "placed",
           "bytes out", "gap");
    for (int a = optind; a < argc; a++) {
        synth s = synth_make(atoi(argv[a]));
        for (int k = 0; k < 4; k++)
            if ((!only || !strcmp(only, dv_solver_name(all[k]))) &&
                measure(&s, all[k]))
                return 4;
        synth_free(&s);
    }
    return 0;
}
