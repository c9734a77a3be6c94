// Copies boxes between memories and sends them as messages. All pieces for one
// rank travel in one message, back to back; sender and receiver list them in
// the same order.
#include "darray/darray.h"
#include <string.h>

dv_mem dv_mem_rows(void *data, const dv_box *box, int64_t elem_bytes)
{
    dv_mem m = {.data = data, .box = *box};
    int64_t stride = elem_bytes;
    for (int d = box->n_dims - 1; d >= 0; d--) {
        m.stride[d] = stride;
        stride *= box->dim[d].size;
    }
    return m;
}

char *dv_mem_at(const dv_mem *m, const dv_box *b)
{
    char *p = m->data;
    for (int d = 0; d < b->n_dims; d++)
        p += (b->dim[d].off - m->box.dim[d].off) * m->stride[d];
    return p;
}

#define MOVE(T)                                                                \
    for (int64_t i = 0; i < n; i++, to += to_stride, from += from_stride)      \
        memcpy(to, from, sizeof(T));                                           \
    break

static void move_row(char *to, int64_t to_stride, const char *from,
                     int64_t from_stride, int64_t n, int64_t bytes)
{
    if (to_stride == bytes && from_stride == bytes) {
        memcpy(to, from, (size_t)(n * bytes));
        return;
    }
    switch (bytes) { // memcpy with a constant size compiles to a single move
    case 8:
        MOVE(uint64_t);
    case 4:
        MOVE(uint32_t);
    case 2:
        MOVE(uint16_t);
    default:
        MOVE(uint8_t);
    }
}
#undef MOVE

// Returns the dim with the smallest stride in the destination, which becomes
// the innermost loop. Dims of size 1 are skipped.
static int inner_dim(const dv_mem *m, const dv_box *b)
{
    int best = b->n_dims - 1;
    for (int d = b->n_dims - 1; d >= 0; d--)
        if (b->dim[d].size > 1 &&
            (b->dim[best].size == 1 || m->stride[d] < m->stride[best]))
            best = d;
    return best;
}

void dv_mem_copy(const dv_mem *to, const dv_mem *from, const dv_box *box,
                 int64_t elem_bytes)
{
    int64_t done[DV_MAX_DIMS] = {0};
    if (dv_box_empty(box))
        return;
    char *t = dv_mem_at(to, box);
    const char *f = dv_mem_at(from, box);
    if (box->n_dims == 0) {
        memcpy(t, f, (size_t)elem_bytes);
        return;
    }
    int inner = inner_dim(to, box), d;
    do {
        move_row(t, to->stride[inner], f, from->stride[inner],
                 box->dim[inner].size, elem_bytes);
        for (d = box->n_dims - 1; d >= 0; d--) {
            if (d == inner)
                continue;
            t += to->stride[d];
            f += from->stride[d];
            if (++done[d] < box->dim[d].size)
                break;
            t -= done[d] * to->stride[d];
            f -= done[d] * from->stride[d];
            done[d] = 0;
        }
    } while (d >= 0);
}

struct dv_transfer {
    dv_team_link *link;
    dv_message_set *message_set;
    dv_piece *sends, *receives;
    int32_t n_sends, n_receives; // number of boxes in `sends` and in `receives`
    dv_message_buffer *out, *in; // one message per partner rank
    int32_t n_out, n_in;
    // The receives of message k are first_in[k] to first_in[k + 1] - 1.
    int32_t *first_in;
    int64_t elem_bytes, sent_bytes;
    dv_arena arena; // owns all memory of this transfer, including this struct
};

// Groups n pieces, which are sorted by rank, into one message per rank and
// allocates its buffer. `first`, if not NULL, gets the index of each message's
// first piece.
static int make_links(dv_transfer *f, const dv_piece *p, int32_t n,
                      dv_message_buffer **out, int32_t *n_out, int32_t *first)
{
    *out = DV_NEW(&f->arena, dv_message_buffer, n + 1);
    for (int32_t i = 0; *out && i < n; i++) {
        if (i == 0 || p[i].rank != p[i - 1].rank) {
            if (first)
                first[*n_out] = i;
            (*out)[(*n_out)++] = (dv_message_buffer){p[i].rank, NULL, 0};
        }
        (*out)[*n_out - 1].bytes += dv_box_elems(&p[i].box) * f->elem_bytes;
    }
    for (int32_t i = 0; *out && i < *n_out; i++) {
        dv_message_buffer *l = &(*out)[i];
        l->data = dv_arena_alloc(&f->arena, (size_t)l->bytes, 1);
        if (!l->data)
            return 0;
    }
    if (first)
        first[*n_out] = n;
    return *out != NULL;
}

static dv_status prepare(dv_transfer *f, const dv_transfer_boxes *c,
                         int32_t number, dv_diag *diag)
{
    if (c->n_sends > INT32_MAX || c->n_receives > INT32_MAX)
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "more than 2^31 boxes in an exchange");
    f->n_sends = (int32_t)c->n_sends;
    f->n_receives = (int32_t)c->n_receives;
    f->sends = DV_NEW(&f->arena, dv_piece, c->n_sends);
    f->receives = DV_NEW(&f->arena, dv_piece, c->n_receives);
    f->first_in = DV_NEW(&f->arena, int32_t, c->n_receives + 1);
    if (!f->sends || !f->receives || !f->first_in)
        return dv_nomem(diag);
    if (c->n_sends)
        memcpy(f->sends, c->sends, c->n_sends * sizeof *c->sends);
    if (c->n_receives)
        memcpy(f->receives, c->receives, c->n_receives * sizeof *c->receives);
    if (!make_links(f, f->sends, f->n_sends, &f->out, &f->n_out, NULL) ||
        !make_links(f, f->receives, f->n_receives, &f->in, &f->n_in,
                    f->first_in))
        return dv_nomem(diag);
    for (int32_t i = 0; i < f->n_out; i++)
        f->sent_bytes += f->out[i].bytes;
    dv_comm *comm = f->link->comm;
    return comm->ops->open(comm, &f->message_set, number, f->out, f->n_out,
                           f->in, f->n_in, diag);
}

dv_status dv_transfer_create(dv_transfer **out, dv_team_link *p,
                             const dv_transfer_boxes *cargo, int64_t elem_bytes,
                             dv_diag *diag)
{
    dv_arena arena = {0};
    int32_t number = dv_team_new_exchange(p);
    dv_diag *mine = dv_diag_create();
    dv_transfer *f = DV_NEW(&arena, dv_transfer, 1);
    dv_status st = f ? DV_OK : dv_nomem(mine);
    if (f) {
        f->arena = arena;
        f->link = p;
        f->elem_bytes = elem_bytes;
        st = prepare(f, cargo, number, mine);
    }
    st = dv_team_agree(p, st, mine, diag);
    if (st == DV_OK)
        *out = f;
    else
        dv_transfer_destroy(f);
    return st;
}

void dv_transfer_destroy(dv_transfer *f)
{
    if (!f)
        return;
    f->link->comm->ops->close(f->link->comm, f->message_set);
    dv_arena arena = f->arena;
    dv_arena_free(&arena);
}

dv_status dv_transfer_start(dv_transfer *f, const dv_mem *from, dv_diag *diag)
{
    dv_comm *comm = f->link->comm;
    int32_t k = -1;
    char *run = NULL;
    for (int32_t i = 0; i < f->n_sends; i++) {
        const dv_piece *p = &f->sends[i];
        if (i == 0 || p->rank != p[-1].rank)
            run = f->out[++k].data;
        dv_mem to = dv_mem_rows(run, &p->box, f->elem_bytes);
        dv_mem_copy(&to, from, &p->box, f->elem_bytes);
        run += dv_box_elems(&p->box) * f->elem_bytes;
    }
    dv_status st = comm->ops->start(comm, f->message_set);
    if (st != DV_OK)
        return dv_comm_error(comm, st, diag);
    f->link->sent_bytes += f->sent_bytes;
    f->link->sent_messages += f->n_out;
    return DV_OK;
}

dv_status dv_transfer_wait(dv_transfer *f, const dv_mem *to, dv_diag *diag)
{
    dv_comm *comm = f->link->comm;
    int32_t k;
    while ((k = comm->ops->next(comm, f->message_set)) >= 0) {
        char *run = f->in[k].data;
        for (int32_t i = f->first_in[k]; i < f->first_in[k + 1]; i++) {
            const dv_box *b = &f->receives[i].box;
            dv_mem from = dv_mem_rows(run, b, f->elem_bytes);
            dv_mem_copy(to, &from, b, f->elem_bytes);
            run += dv_box_elems(b) * f->elem_bytes;
        }
    }
    dv_status st = comm->ops->finish(comm, f->message_set);
    return st == DV_OK ? DV_OK : dv_comm_error(comm, st, diag);
}
