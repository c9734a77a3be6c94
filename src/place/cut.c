// Decides where a buffer may be spilled to main memory, and what that costs.
//
//   uses     w   r   r       w   r          w overwrites the buffer, r reads it
//   epochs  [===========)   [=====)         no value is live in a gap before w
//   gaps     [===)
//                [===)       [====)         each resident gap saves one read
//
// A write begins an epoch: the previous contents are dead, so the epochs of a
// buffer are as independent as different buffers. Within an epoch, staying
// resident over the gap before a read saves that read from main memory. The
// write to main memory is saved too if all gaps of its epoch are resident;
// otherwise the value must also be in main memory for the reads that fetch it
// from there. A value that comes from outside is in main memory already.
//
// Two pieces that share a use either hand over their address, as in-place
// parent and child do, or the value is copied within the memory, which causes
// no main memory traffic. The saved write, which needs the whole epoch, is
// counted in the weight of the epoch's first piece. That overestimates partly
// placed epochs, so an upper bound for the pieces is also one for the buffers.
#include "place/cut.h"

typedef struct cutter {
    dv_place_cut *out;
    const dv_buffer *in;
    int gaps;
    // For each buffer, the index of its first piece (a part of its lifetime
    // between two possible spills).
    int32_t *first_piece;
    int32_t *links; // storage for one parent index per piece
    int32_t n_epochs;
} cutter;

// Returns whether the buffer's lifetime may be cut where it could be spilled:
// it must start at the buffer's first use and end at its last, and the buffer's
// weight must be derived from its uses (weight < 0).
static int can_be_cut(const dv_buffer *b)
{
    return b->n_uses > 1 && b->weight < 0 && b->fixed_address < 0 &&
           !b->group && !b->barred && b->uses[0].tick == b->start &&
           b->uses[b->n_uses - 1].tick + 1 == b->end;
}

// Returns the index of the first use after `u` that writes. It begins a new
// epoch, a time in which the buffer holds one value.
static size_t epoch_end(const dv_buffer *b, size_t u)
{
    for (u++; u < b->n_uses && !b->uses[u].writes; u++)
        ;
    return u;
}

static dv_buffer *add(cutter *c, int32_t owner)
{
    dv_place_cut *out = c->out;
    dv_buffer *p = &out->pieces[out->n];
    *p = c->in[owner];
    out->owner[out->n] = owner;
    out->epoch[out->n] = c->n_epochs;
    out->bonus[out->n] = 0;
    out->n++;
    return p;
}

// Adds uses from..to - 1 of buffer i as one piece, which is placed like a
// buffer of its own, with the given weight.
static dv_buffer *add_piece(cutter *c, int32_t i, size_t from, size_t to,
                            int64_t weight)
{
    const dv_buffer *b = &c->in[i];
    dv_buffer *p = add(c, i);
    p->uses = b->uses + from;
    p->n_uses = to - from;
    p->start = p->uses[0].tick;
    p->end = p->uses[p->n_uses - 1].tick + 1;
    p->weight = weight;
    p->first_use_is_read = from > 0 ? !p->uses[0].writes : b->first_use_is_read;
    if (from > 0)
        p->n_parents = 0;
    return p;
}

static void cut_epoch(cutter *c, int32_t i, size_t from, size_t to)
{
    const dv_buffer *b = &c->in[i];
    int written = from > 0 || !b->first_use_is_read;
    int64_t size = b->size_bytes, reads = (int64_t)(to - from) - 1;
    if (!c->gaps || reads < 2) {
        add_piece(c, i, from, to, (reads + written) * size);
        return;
    }
    for (size_t u = from; u + 1 < to; u++) {
        dv_buffer *p = add_piece(c, i, u, u + 2, size);
        int32_t k = c->out->n - 1;
        if (u == from) {
            p->weight += written * size;
            c->out->bonus[k] = written * size;
            continue;
        }
        // The value of a later piece comes from the piece before it, not from
        // outside.
        p->first_use_is_read = 0;
        c->links[k] = k - 1;
        p->parents = &c->links[k];
        p->n_parents = 1;
    }
}

static void cut_buffer(cutter *c, int32_t i)
{
    const dv_buffer *b = &c->in[i];
    c->first_piece[i] = c->out->n;
    if (!can_be_cut(b)) {
        add(c, i);
        c->n_epochs++;
        return;
    }
    for (size_t u = 0, end; u < b->n_uses; u = end) {
        end = epoch_end(b, u);
        cut_epoch(c, i, u, end);
        c->n_epochs++;
    }
}

// Makes the first piece of each buffer the in-place child of the last pieces of
// its parent buffers (it may take over their address), if these pieces end with
// a read. A piece is the part of a lifetime between two possible spills.
static void link_parents(cutter *c, int32_t *room)
{
    for (int32_t k = 0; k < c->out->n; k++) {
        dv_buffer *p = &c->out->pieces[k];
        int32_t i = c->out->owner[k];
        if (c->first_piece[i] != k)
            continue;
        p->parents = room;
        p->n_parents = 0;
        for (size_t m = 0; m < c->in[i].n_parents; m++) {
            int32_t last = c->first_piece[c->in[i].parents[m] + 1] - 1;
            const dv_buffer *q = &c->out->pieces[last];
            if (q->n_uses != 1 || q->first_use_is_read)
                room[p->n_parents++] = last;
        }
        room += p->n_parents;
    }
}

int dv_cut_make(dv_place_cut *out, const dv_buffer *in, size_t n, int gaps,
                dv_arena *a)
{
    size_t room = 0, parents = 0;
    for (size_t i = 0; i < n; i++) {
        room += in[i].n_uses + 1;
        parents += in[i].n_parents;
    }
    *out = (dv_place_cut){.pieces = DV_NEW(a, dv_buffer, room),
                          .owner = DV_NEW(a, int32_t, room),
                          .epoch = DV_NEW(a, int32_t, room),
                          .bonus = DV_NEW(a, int64_t, room)};
    cutter c = {.out = out,
                .in = in,
                .gaps = gaps,
                .first_piece = DV_NEW(a, int32_t, n + 1),
                .links = DV_NEW(a, int32_t, room)};
    int32_t *links = DV_NEW(a, int32_t, parents);
    if (!out->pieces || !out->owner || !out->epoch || !out->bonus ||
        !c.first_piece || !c.links || !links)
        return 0;
    for (size_t i = 0; i < n; i++)
        cut_buffer(&c, (int32_t)i);
    c.first_piece[n] = out->n;
    link_parents(&c, links);
    return 1;
}

static int64_t weight_of(const dv_buffer *p)
{
    if (p->weight >= 0)
        return p->weight;
    return p->n_uses ? ((int64_t)p->n_uses - (p->first_use_is_read != 0)) *
                           p->size_bytes
                     : p->size_bytes;
}

int64_t dv_cut_value(const dv_place_cut *cut, const int64_t *at)
{
    int64_t value = 0;
    for (int32_t k = 0, end; k < cut->n; k = end) {
        int whole = 1;
        for (end = k; end < cut->n && cut->epoch[end] == cut->epoch[k]; end++) {
            whole &= at[end] >= 0;
            value += at[end] >= 0 ? weight_of(&cut->pieces[end]) : 0;
        }
        if (!whole && at[k] >= 0)
            value -= cut->bonus[k];
    }
    return value;
}
