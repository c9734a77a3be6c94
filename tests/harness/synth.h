// The synthetic instances with which solvers are measured: random numbers from
// splitmix64 with the seed 0x5EED, lifetimes of mostly a few ticks, and a
// quarter of the buffers with an in-place parent whose lifetime ends there.
#ifndef DV_SYNTH_H
#define DV_SYNTH_H
#include "divvy/place.h"
#include <stdlib.h>

enum { SYNTH_CAPACITY = 1625344, SYNTH_ALIGN = 128 };

typedef struct synth {
    dv_buffer *buffers;
    dv_use *uses;
    int32_t *parents;
    int n;
} synth;

static uint64_t synth_state;

static uint64_t synth_below(uint64_t k)
{
    synth_state += 0x9e3779b97f4a7c15u;
    uint64_t z = synth_state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % k;
}

// Makes two to five uses of buffer i, sorted and without repetitions.
static void synth_uses(synth *s, int i)
{
    uint64_t c = synth_below(100);
    int64_t length = c < 70   ? 1 + (int64_t)synth_below(4)
                     : c < 95 ? 5 + (int64_t)synth_below(28)
                              : 33 + (int64_t)synth_below(224);
    int64_t last = i + length < s->n ? i + length : s->n;
    dv_use *u = &s->uses[5 * i];
    size_t m = 0;
    u[m++].tick = i;
    u[m++].tick = last;
    for (uint64_t k = synth_below(3); k > 0; k--)
        u[m++].tick = i + 1 + (int64_t)synth_below((uint64_t)(last - i));
    for (size_t a = 1; a < m; a++) // insertion sort
        for (size_t b = a; b > 0 && u[b].tick < u[b - 1].tick; b--) {
            dv_use v = u[b];
            u[b] = u[b - 1];
            u[b - 1] = v;
        }
    size_t kept = 1;
    for (size_t a = 1; a < m; a++)
        if (u[a].tick != u[kept - 1].tick)
            u[kept++] = u[a];
    u[0].writes = 1;
    s->buffers[i].uses = u;
    s->buffers[i].n_uses = kept;
    s->buffers[i].start = i;
    s->buffers[i].end = last + 1;
}

static void synth_free(synth *s)
{
    free(s->buffers);
    free(s->uses);
    free(s->parents);
}

static synth synth_make(int n)
{
    size_t room = (size_t)n + 1;
    synth s = {malloc(room * sizeof *s.buffers),
               calloc(5 * room, sizeof *s.uses),
               malloc(room * sizeof *s.parents), n};
    int *first =
        malloc((room + 1) *
               sizeof *first); // by tick: the first buffer whose last use it is
    for (int i = 0; i <= n; i++)
        first[i] = -1;
    synth_state = 0x5EED;
    for (int i = 0; i < n; i++) {
        s.buffers[i] = (dv_buffer)DV_BUFFER_INIT;
        dv_buffer *b = &s.buffers[i];
        synth_uses(&s, i);
        uint64_t e = 7 + synth_below(12);
        uint64_t size = ((uint64_t)1 << e) + synth_below((uint64_t)1 << e);
        b->size_bytes = (int64_t)(size / 128 * 128);
        if (synth_below(4) == 0 && first[i] >= 0) {
            s.parents[i] = first[i];
            b->parents = &s.parents[i];
            b->n_parents = 1;
            b->size_bytes = s.buffers[first[i]].size_bytes;
        }
        if (first[b->end - 1] < 0)
            first[b->end - 1] = i;
    }
    free(first);
    return s;
}
#endif
