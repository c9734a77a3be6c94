// The messages of a rank: packed, sent and unpacked.
#include "team/rank_state.h"

// -- Preparing -------------------------------------------------------------

// Cut pieces, which are sorted by rank (C20), into one message per partner.
static int make_links(dv_rank *r, const dv_piece *l, int32_t n, int64_t bytes,
                      dv_link **links, int32_t **at, int32_t *n_links)
{
    *links = DV_NEW(&r->arena, dv_link, n);
    *at = DV_NEW(&r->arena, int32_t, n + 1);
    *n_links = 0;
    if (!*links || !*at)
        return 0;
    for (int32_t i = 0; i < n; i++) {
        if (i == 0 || l[i].rank != l[i - 1].rank) {
            (*at)[*n_links] = i;
            (*links)[(*n_links)++] = (dv_link){l[i].rank, NULL, 0};
        }
        (*links)[*n_links - 1].bytes += dv_box_elems(&l[i].box) * bytes;
    }
    (*at)[*n_links] = n;
    for (int32_t i = 0; i < *n_links; i++) {
        dv_link *k = &(*links)[i];
        k->data = dv_arena_alloc(&r->arena, (size_t)k->bytes, 1);
        if (!k->data)
            return 0;
    }
    return 1;
}

dv_status dv_posts_create(dv_rank *r, dv_diag *diag)
{
    const dv_team *t = &r->plan->team;
    for (int32_t i = 0; i < t->n_swaps; i++) {
        dv_post *e = &r->exchanges[i];
        int64_t bytes = dv_rank_elem(r, t->swaps[i].tensor);
        e->swap = t->swaps[i];
        if ((r->comm->rank != t->rank &&
             !dv_team_messages(&e->swap, r->p, t, i, r->comm->rank,
                               &r->arena)) ||
            !make_links(r, e->swap.sends, e->swap.n_sends, bytes, &e->sends,
                        &e->send_at, &e->n_sends) ||
            !make_links(r, e->swap.receives, e->swap.n_receives, bytes,
                        &e->receives, &e->receive_at, &e->n_receives))
            return dv_nomem(diag);
        DV_TRY(r->comm->ops->open(r->comm, &e->wire, r->n_wires++, e->sends,
                                  e->n_sends, e->receives, e->n_receives,
                                  diag));
    }
    return DV_OK;
}

// -- Carrying --------------------------------------------------------------

// With --checked: is it the same exchange everywhere, for the same time?
static dv_status compare(dv_rank *r, const dv_post *e)
{
    uint64_t what[4] = {r->hash, (uint64_t)(e - r->exchanges), r->n_done++,
                        (uint64_t)r->round};
    if (!r->comm->checked)
        return DV_OK;
    return dv_comm_same(r->comm, dv_hash(DV_HASH, what, sizeof what),
                        "next exchange", r->diag);
}

dv_status dv_post_start(dv_rank *r, dv_post *e)
{
    int32_t t = e->swap.tensor;
    DV_TRY(compare(r, e));
    e->carried.times++;
    for (int32_t i = 0; i < e->n_sends; i++) {
        char *run = e->sends[i].data;
        for (int32_t k = e->send_at[i]; k < e->send_at[i + 1]; k++)
            run = dv_box_copy(run, r->data[t], &r->local[t],
                              &e->swap.sends[k].box, dv_rank_elem(r, t), 1);
    }
    return r->comm->ops->start(r->comm, e->wire);
}

int32_t dv_post_next(dv_rank *r, dv_post *e, void *old)
{
    int32_t t = e->swap.tensor, i = r->comm->ops->next(r->comm, e->wire);
    if (i < 0)
        return -1;
    int64_t elem = dv_rank_elem(r, t);
    char *run = e->receives[i].data;
    for (int32_t k = e->receive_at[i]; k < e->receive_at[i + 1]; k++) {
        const dv_box *b = &e->swap.receives[k].box;
        if (old)
            dv_box_copy(run, old, &r->local[t], b, elem, 0);
        run = dv_box_copy(run, r->data[t], &r->local[t], b, elem, 0);
    }
    e->carried.bytes += run - (char *)e->receives[i].data;
    return i;
}

dv_status dv_post_finish(dv_rank *r, dv_post *e)
{
    return r->comm->ops->finish(r->comm, e->wire);
}

dv_carried dv_rank_carried(const dv_rank *r, int32_t swap)
{
    return r->exchanges[swap].carried;
}
