// Packing, measured: how long dv_pack takes on files and generated cases.
//
//   place [-n REPEATS] [-l] [-m NODES] FILE...   FILE is NAME.CAPACITY.csv
//   place -g SEED DIR                            write generated cases to DIR
//
// One line a file: name, rectangles, capacity, answer, best seconds, nodes.
// With -l the least capacity is looked for instead, and the bound is printed
// too. All pairs of a layout are checked, unless there are too many.
//
// Generated cases are dissections of a full rectangle, so they fit, and all
// sections are full unless pieces are left out.
#define _POSIX_C_SOURCE 200809L
#include "usage.h"
#include "place/pack.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CHECKED = 50000 }; // rectangles, in pairs

typedef struct rects {
    dv_rect *all;
    int32_t n, max;
} rects;

static void add(rects *to, int64_t start, int64_t end, int64_t size)
{
    if (to->n == to->max) {
        to->max = to->max ? 2 * to->max : 256;
        to->all = realloc(to->all, (size_t)to->max * sizeof *to->all);
        if (!to->all)
            exit(3);
    }
    to->all[to->n++] = (dv_rect){start, end, size, 1, -1, 0};
}

// -- Measuring ---------------------------------------------------------------

static int read_file(const char *path, rects *out)
{
    FILE *f = fopen(path, "r");
    char line[256];
    long long start, end, size;
    if (!f || !fgets(line, sizeof line, f))
        return 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "%*[^,],%lld,%lld,%lld", &start, &end, &size) == 3)
            add(out, start, end, size);
    fclose(f);
    return 1;
}

static int legal(const rects *r, int64_t cap)
{
    for (int32_t i = 0; i < r->n; i++) {
        const dv_rect *a = &r->all[i];
        if (a->address < 0 || a->address + a->size > cap)
            return 0;
        for (int32_t j = 0; j < i; j++) {
            const dv_rect *b = &r->all[j];
            if (a->start < b->end && b->start < a->end &&
                a->address < b->address + b->size &&
                b->address < a->address + a->size)
                return 0;
        }
    }
    return 1;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void measure(const char *path, int repeats, int least, int64_t nodes)
{
    static const char *const answers[] = {"yes", "no", "open", "nomem"};
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    rects r = {0};
    int dot = (int)strcspn(name, ".");
    int64_t cap = name[dot] ? strtoll(name + dot + 1, NULL, 10) : 0;
    if (!read_file(path, &r)) {
        printf("%-14.*s cannot be read\n", dot, name);
        return;
    }
    dv_pack_limits limits = {.max_nodes = nodes};
    dv_pack_stats stats = {0};
    double best = 0;
    dv_fit fit = DV_FIT_OPEN;
    for (int k = 0; k < repeats; k++) {
        double t = seconds();
        fit = least ? dv_pack_least(r.all, r.n, &cap, &limits, &stats)
                    : dv_pack(r.all, r.n, cap, &limits, &stats);
        t = seconds() - t;
        if (k == 0 || t < best)
            best = t;
    }
    int has_layout = fit == DV_FIT_YES || (least && fit == DV_FIT_OPEN);
    has_layout &= r.n <= MAX_CHECKED;
    printf("%-14.*s %6" PRId32 " %12" PRId64 " %-5s %10.6f %9" PRId64, dot,
           name, r.n, cap,
           has_layout && !legal(&r, cap) ? "WRONG" : answers[fit], best,
           stats.nodes);
    if (least)
        printf(" bound %" PRId64, stats.bound);
    putchar('\n');
    free(r.all);
}

// -- Generating --------------------------------------------------------------

typedef struct piece {
    int64_t a, z, lo, hi; // time a..z, bytes lo..hi
} piece;

static uint64_t state;

static int64_t below(int64_t n)
{
    state += 0x9e3779b97f4a7c15u;
    uint64_t x = state;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (int64_t)((x ^ x >> 31) % (uint64_t)n);
}

// Somewhere strictly inside.
static int64_t cut(int64_t from, int64_t to)
{
    return from + 1 + below(to - from - 1);
}

// A piece becomes two, or five around a pinwheel's middle.
static int divide(piece *all, int n, int pinwheels)
{
    piece *p = &all[below(n)], *new = &all[n];
    int64_t wide = p->z - p->a, high = p->hi - p->lo;
    if (pinwheels && wide > 8 && high > 8 && below(100) < pinwheels) {
        int64_t x = cut(p->a, p->z - 2), y = cut(p->lo, p->hi - 2);
        int64_t x2 = cut(x, p->z), y2 = cut(y, p->hi);
        new[0] = (piece){p->a, x2, p->lo, y};
        new[1] = (piece){x2, p->z, p->lo, y2};
        new[2] = (piece){x, p->z, y2, p->hi};
        new[3] = (piece){p->a, x, y, p->hi};
        *p = (piece){x, x2, y, y2};
        return n + 4;
    }
    new[0] = *p;
    if (wide > 1 && (high < 2 || below(2))) {
        p->z = new[0].a = cut(p->a, p->z);
    } else if (high > 1) {
        p->hi = new[0].lo = cut(p->lo, p->hi);
    } else {
        return n;
    }
    return n + 1;
}

static void write_case(const char *dir, const char *name, int pieces,
                       int64_t times, int64_t units, int pinwheels,
                       int left_out, int64_t scale)
{
    piece *all = malloc((size_t)(pieces + 8) * sizeof *all);
    char path[512];
    snprintf(path, sizeof path, "%s/%s.%" PRId64 ".csv", dir, name,
             units * scale);
    FILE *f = fopen(path, "w");
    if (!all || !f)
        exit(3);
    int n = 1;
    all[0] = (piece){0, times, 0, units};
    for (int tries = 0; n < pieces && tries < 100 * pieces; tries++)
        n = divide(all, n, pinwheels);
    for (int i = n - 1; i > 0; i--) {
        int j = (int)below(i + 1);
        piece t = all[i];
        all[i] = all[j];
        all[j] = t;
    }
    fprintf(f, "id,lower,upper,size\n");
    for (int i = 0; i < n; i++)
        if (below(100) >= left_out)
            fprintf(f, "%d,%" PRId64 ",%" PRId64 ",%" PRId64 "\n", i, all[i].a,
                    all[i].z, (all[i].hi - all[i].lo) * scale);
    fclose(f);
    free(all);
}

static void generate(uint64_t seed, const char *dir)
{
    static const struct {
        int pieces, times, units, pinwheels, left_out, scale;
    } kinds[] = {
        {60, 40, 1024, 0, 0, 1},       {100, 60, 1024, 30, 0, 7},
        {140, 80, 1024, 0, 0, 1021},   {140, 1000, 1024, 30, 5, 1},
        {200, 100, 1024, 20, 0, 1024}, {200, 1000, 4096, 0, 5, 3},
        {250, 120, 1024, 50, 3, 1},    {400, 200, 1024, 20, 0, 64},
    };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char name[64];
        state = seed * 1000 + k;
        snprintf(name, sizeof name, "g%" PRIu64 "-%zu", seed, k);
        write_case(dir, name, kinds[k].pieces, kinds[k].times, kinds[k].units,
                   kinds[k].pinwheels, kinds[k].left_out, kinds[k].scale);
    }
}

static int usage(int asked)
{
    return tell_usage(
        asked, "place [-n REPEATS] [-l] [-m NODES] NAME.CAPACITY.csv...\n"
               "       place -g SEED DIR\n");
}

int main(int argc, char **argv)
{
    int repeats = 3, least = 0, opt;
    int64_t nodes = 0;
    while ((opt = getopt(argc, argv, "hn:lm:g:")) != -1) {
        if (opt == 'n') {
            repeats = atoi(optarg);
        } else if (opt == 'l') {
            least = 1;
        } else if (opt == 'm') {
            nodes = strtoll(optarg, NULL, 10);
        } else if (opt == 'g' && optind < argc) {
            generate(strtoull(optarg, NULL, 10), argv[optind]);
            return 0;
        } else {
            return usage(opt == 'h');
        }
    }
    if (optind == argc || repeats < 1)
        return usage(0);
    for (int i = optind; i < argc; i++)
        measure(argv[i], repeats, least, nodes);
    return 0;
}
