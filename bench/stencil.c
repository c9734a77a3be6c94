// A star stencil of radius 2 over MPI, written by hand in the style of the
// Parallel Research Kernels, beside the same program through divvy: packed
// sides, Irecv and Isend, plain loops. Ours once waits for all messages before
// it computes, as the one by hand does, and once computes meanwhile. All three
// in one run, in turns, on one thread a rank; the best round of each counts,
// and the median of the rounds' ratios.
//
//   mpirun -n 2 bench_stencil [N [ROUNDS]]
#define _POSIX_C_SOURCE 200809L
#include "divvy/dist.h"
#include "usage.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { R = 2, STEPS = 10 };

typedef struct grid {
    int64_t n, rows, off; // rows of this rank, first of them
    double *a, *o;        // a with R rows before and behind
    double *send[2], *receive[2];
    int rank, size;
} grid;

static double a_at(grid *g, int64_t i, int64_t j)
{
    return g->a[(i - g->off + R) * g->n + j];
}

static int make(grid *g, int64_t n)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &g->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &g->size);
    dv_range part = dv_dist_part(n, g->size, g->rank);
    g->n = n;
    g->rows = part.size;
    g->off = part.off;
    g->a = calloc((size_t)((g->rows + 2 * R) * n), sizeof(double));
    g->o = calloc((size_t)(g->rows * n), sizeof(double));
    for (int k = 0; k < 2; k++) {
        g->send[k] = malloc((size_t)(R * n) * sizeof(double));
        g->receive[k] = malloc((size_t)(R * n) * sizeof(double));
        if (!g->send[k] || !g->receive[k])
            return 0;
    }
    return g->a && g->o;
}

static void reset(grid *g)
{
    for (int64_t i = 0; i < g->rows; i++)
        for (int64_t j = 0; j < g->n; j++) {
            g->a[(i + R) * g->n + j] = (double)(g->off + i + j);
            g->o[i * g->n + j] = 0;
        }
}

static void exchange(grid *g)
{
    MPI_Request q[4];
    int n = 0, count = (int)(R * g->n);
    size_t bytes = (size_t)(R * g->n) * sizeof(double);
    int up = g->rank - 1, down = g->rank + 1 < g->size ? g->rank + 1 : -1;
    double *edge[2] = {g->a + R * g->n, g->a + g->rows * g->n};
    double *halo[2] = {g->a, g->a + (g->rows + R) * g->n};
    int who[2] = {up, down};
    for (int k = 0; k < 2; k++) {
        if (who[k] < 0)
            continue;
        MPI_Irecv(g->receive[k], count, MPI_DOUBLE, who[k], 1 - k,
                  MPI_COMM_WORLD, &q[n++]);
        memcpy(g->send[k], edge[k], bytes);
        MPI_Isend(g->send[k], count, MPI_DOUBLE, who[k], k, MPI_COMM_WORLD,
                  &q[n++]);
    }
    MPI_Waitall(n, q, MPI_STATUSES_IGNORE);
    for (int k = 0; k < 2; k++)
        if (who[k] >= 0)
            memcpy(halo[k], g->receive[k], bytes);
}

static void step(grid *g)
{
    int64_t n = g->n;
    exchange(g);
    int64_t from = g->off < R ? R - g->off : 0;
    int64_t end = g->off + g->rows > n - R ? n - R - g->off : g->rows;
    for (int64_t i = from; i < end; i++) {
        const double *restrict a = g->a + (i + R) * n;
        double *restrict o = g->o + i * n;
        for (int64_t j = R; j < n - R; j++)
            o[j] = o[j] + 0.25 * (a[j + 1] - a[j - 1] + a[j + n] - a[j - n]) +
                   0.125 * (a[j + 2] - a[j - 2] + a[j + 2 * n] - a[j - 2 * n]);
    }
    for (int64_t i = 0; i < g->rows * n; i++)
        g->a[R * n + i] += 1;
}

// -- Ours ------------------------------------------------------------------

static const char text[] =
    "param N = 64\nparam T = 10\ninput a: f64[N, N]\ninput o: f64[N, N]\n"
    "repeat T {\n"
    "o[i,j] <- o[i,j] + 0.25 * (a[i,j+1] - a[i,j-1] + a[i+1,j] - a[i-1,j]) + "
    "0.125 * (a[i,j+2] - a[i,j-2] + a[i+2,j] - a[i-2,j]) "
    "for i in 2..N-2, j in 2..N-2\n"
    "a[i,j] <- a[i,j] + 1.0\n}\noutput o\n";

static dv_rank_exec *member_for(const grid *g, int no_overlap, dv_diag *diag)
{
    dv_program *p = NULL;
    dv_target *t = NULL;
    dv_plan *plan = NULL; // lives as long as the process
    dv_rank_exec *m = NULL;
    char n[32], steps[32], rows[32];
    snprintf(n, sizeof n, "%lld", (long long)g->n);
    snprintf(steps, sizeof steps, "%d", STEPS);
    snprintf(rows, sizeof rows, "%dx1", g->size);
    dv_param params[] = {{"N", n}, {"T", steps}};
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.grid = rows; // as the other one
    o.rank = g->rank;
    dv_rank_exec_options options = DV_RANK_EXEC_OPTIONS_INIT;
    options.threads = 1;
    options.no_overlap = no_overlap;
    if (!dv_program_parse(&p, text, sizeof text - 1, "stencil", params, 2,
                          diag) &&
        !dv_target_load(&t, "host", diag) &&
        !dv_plan_create(&plan, p, t, &o, diag))
        dv_rank_exec_create(&m, plan, NULL, &options, diag);
    return m;
}

static void reset_ours(dv_rank_exec *m)
{
    static const char *const names[] = {"a", "o"};
    for (int k = 0; k < 2; k++) {
        dv_box l, own;
        void *data = NULL;
        dv_rank_exec_data(m, names[k], &data, &l, &own, NULL);
        for (int64_t i = 0; data && i < own.dim[0].size; i++)
            for (int64_t j = 0; j < own.dim[1].size; j++) {
                int64_t x = own.dim[0].off + i, y = own.dim[1].off + j;
                ((double *)data)[(x - l.dim[0].off) * l.dim[1].size + y -
                                 l.dim[1].off] = k ? 0 : (double)(x + y);
            }
    }
}

static int right(dv_rank_exec *m, const grid *g)
{
    dv_box l, own;
    void *data = NULL;
    dv_rank_exec_data(m, "o", &data, &l, &own, NULL);
    int ok = data != NULL;
    for (int64_t i = 0; ok && i < g->rows; i++)
        ok = !memcmp((double *)data +
                         (g->off + i - l.dim[0].off) * l.dim[1].size,
                     g->o + i * g->n, (size_t)g->n * sizeof(double));
    return ok;
}

// -- In turns --------------------------------------------------------------

enum { BY_HAND, WAITING, MEANWHILE, N_WAYS, MAX_ROUNDS = 1000 };

static double run_way(grid *g, dv_rank_exec *const *m, int way, dv_diag *diag)
{
    double start, took, most;
    if (way == BY_HAND)
        reset(g);
    else
        reset_ours(m[way]);
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int s = 0; way == BY_HAND && s < STEPS; s++)
        step(g);
    if (way != BY_HAND)
        dv_rank_exec_run(m[way], diag);
    took = MPI_Wtime() - start;
    MPI_Allreduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static int up(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int compare(grid *g, dv_rank_exec *const *m, int rounds, dv_diag *diag)
{
    static const char *const names[] = {"by hand", "ours, waiting",
                                        "ours, meanwhile"};
    static double ratio[N_WAYS][MAX_ROUNDS];
    double best[N_WAYS] = {1e30, 1e30, 1e30};
    for (int r = 0; r < rounds; r++) {
        double took[N_WAYS];
        for (int k = 0; k < N_WAYS; k++) {
            took[k] = run_way(g, m, k, diag);
            best[k] = took[k] < best[k] ? took[k] : best[k];
        }
        for (int k = 0; k < N_WAYS; k++)
            ratio[k][r] = took[BY_HAND] / took[k];
    }
    int ok = a_at(g, g->off, 0) == (double)(g->off + STEPS), all;
    ok &= right(m[WAITING], g) && right(m[MEANWHILE], g);
    MPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    double points = (double)(g->n - 2 * R) * (double)(g->n - 2 * R) * STEPS;
    for (int k = 0; k < N_WAYS && g->rank == 0; k++) {
        qsort(ratio[k], (size_t)rounds, sizeof(double), up);
        printf("%d ranks, %lld x %lld, %-16s %.3g points/s, %.3f of by hand, "
               "median %.3f\n",
               g->size, (long long)g->n, (long long)g->n, names[k],
               points / best[k], best[BY_HAND] / best[k], ratio[k][rounds / 2]);
    }
    if (g->rank == 0)
        puts(all ? "the same bits" : "NOT THE SAME");
    return all;
}

int main(int argc, char **argv)
{
    grid g;
    int64_t n = argc > 1 ? atoll(argv[1]) : 4096;
    int rounds = argc > 2 ? atoi(argv[2]) : 10;
    if (argc > 3 || n <= 2 * R || rounds < 1 || rounds > MAX_ROUNDS)
        return tell_usage(argc == 2 && !strcmp(argv[1], "-h"),
                          "mpirun -n RANKS bench_stencil [N, from %d [ROUNDS, "
                          "to %d]]\n",
                          2 * R + 1, MAX_ROUNDS);
    MPI_Init(&argc, &argv);
    dv_diag *diag = dv_diag_create();
    dv_rank_exec *m[N_WAYS] = {NULL};
    if (make(&g, n)) {
        m[WAITING] = member_for(&g, 1, diag);
        m[MEANWHILE] = member_for(&g, 0, diag);
    }
    if (!m[WAITING] || !m[MEANWHILE]) {
        fputs(dv_diag_text(diag), stderr);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    int all = compare(&g, m, rounds, diag);
    dv_rank_exec_destroy(m[WAITING]);
    dv_rank_exec_destroy(m[MEANWHILE]);
    dv_diag_destroy(diag);
    MPI_Finalize();
    return !all;
}
