// Copies between a rank's boxes and whole tensors, and gathers a whole tensor
// on rank 0, to which one rank per distinct box sends that box.
#include "team/team.h"
#include <string.h>

int dv_rank_is_primary(const dv_plan *plan, int32_t tensor, int64_t rank)
{
    const dv_plan_team *t = &plan->team;
    int64_t at[DV_MAX_AXES];
    dv_grid_coords(at, t->grid, t->n_axes, rank);
    for (int a = 0; a < t->n_axes; a++)
        if (at[a] != 0 && !dv_dist_cuts(&t->tensors[tensor], a))
            return 0;
    return 1;
}

// Copies the box `b` between `data`, which holds the elements of box `in` in
// row-major order, and the dense buffer `run`. Returns the end of the part of
// `run` that was used.
static char *copy_box(char *run, char *data, const dv_box *in, const dv_box *b,
                      int64_t bytes, int into_run)
{
    for (dv_box_row r = dv_box_first_row(b); r.n; dv_box_next_row(&r, b)) {
        char *here = data + dv_box_offset(in, r.at) * bytes;
        size_t size = (size_t)(r.n * bytes);
        memcpy(into_run ? run : here, into_run ? here : run, size);
        run += size;
    }
    return run;
}

// Copies the rank's own elements between the whole tensor and its local memory,
// row by row; `put` copies into the local memory.
static void move_own(const dv_rank *r, int32_t t, char *whole, int put)
{
    const dv_program *p = dv_rank_plan(r, NULL)->ops;
    dv_box all = dv_box_whole(p->tensors[t].n_dims, p->tensors[t].shape);
    dv_box local, own;
    char *data = dv_rank_data(r, t, &local, &own);
    int64_t bytes = dv_elem_bytes(p, t);
    for (dv_box_row w = dv_box_first_row(&own); w.n;
         dv_box_next_row(&w, &own)) {
        char *a = whole + dv_box_offset(&all, w.at) * bytes;
        char *b = data + dv_box_offset(&local, w.at) * bytes;
        memcpy(put ? b : a, put ? a : b, (size_t)(w.n * bytes));
    }
}

void dv_rank_put(dv_rank *r, int32_t tensor, const void *whole)
{
    move_own(r, tensor, (char *)(uintptr_t)whole, 1);
}

void dv_rank_get(const dv_rank *r, int32_t tensor, void *whole)
{
    move_own(r, tensor, whole, 0);
}

typedef struct gatherer {
    const dv_plan *plan;
    dv_comm *comm;
    int32_t tensor;
    int64_t bytes; // bytes of an element
    dv_message_buffer *receives;
    dv_message_buffer send;
    int32_t n_receives, n_sends;
    dv_arena arena;
} gatherer;

static dv_box own_of(const gatherer *g, int64_t rank)
{
    return dv_dist_own(&g->plan->team.tensors[g->tensor], rank);
}

// Allocates the buffers and lists the messages: on rank 0 the receives,
// elsewhere the send, whose buffer is filled. Returns 0 when out of memory.
static int prepare(gatherer *g, const dv_rank *r)
{
    dv_box local, own;
    char *data = dv_rank_data(r, g->tensor, &local, &own);
    if (g->comm->rank != 0) {
        if (!data || !dv_rank_is_primary(g->plan, g->tensor, g->comm->rank))
            return 1;
        g->send.bytes = dv_box_elems(&own) * g->bytes;
        g->send.data = dv_arena_alloc(&g->arena, (size_t)g->send.bytes, 1);
        g->n_sends = 1;
        if (g->send.data)
            copy_box(g->send.data, data, &local, &own, g->bytes, 1);
        return g->send.data != NULL;
    }
    g->receives = DV_NEW(&g->arena, dv_message_buffer, g->comm->size);
    for (int64_t k = 1; g->receives && k < g->comm->size; k++) {
        own = own_of(g, k);
        if (dv_box_empty(&own) || !dv_rank_is_primary(g->plan, g->tensor, k))
            continue;
        dv_message_buffer *l = &g->receives[g->n_receives++];
        *l = (dv_message_buffer){k, NULL, dv_box_elems(&own) * g->bytes};
        l->data = dv_arena_alloc(&g->arena, (size_t)l->bytes, 1);
        if (!l->data)
            return 0;
    }
    return g->receives != NULL;
}

static dv_status carry(gatherer *g, dv_message_set *w, void *whole)
{
    const dv_tensor *t = &g->plan->ops->tensors[g->tensor];
    dv_box all = dv_box_whole(t->n_dims, t->shape);
    DV_TRY(g->comm->ops->start(g->comm, w));
    int32_t i;
    while ((i = g->comm->ops->next(g->comm, w)) >= 0) {
        dv_box own = own_of(g, g->receives[i].rank);
        copy_box(g->receives[i].data, whole, &all, &own, g->bytes, 0);
    }
    return g->comm->ops->finish(g->comm, w);
}

static dv_status gather(gatherer *g, dv_rank *r, void *whole, dv_diag *diag)
{
    dv_message_set *w = NULL;
    dv_diag *mine = dv_diag_create();
    int32_t number = dv_rank_new_message_set(r);
    dv_status st = prepare(g, r) ? DV_OK : dv_nomem(mine);
    if (st == DV_OK)
        st = g->comm->ops->open(g->comm, &w, number, &g->send, g->n_sends,
                                g->receives, g->n_receives, mine);
    st = dv_comm_conclude(g->comm, st, mine, diag);
    if (st == DV_OK) {
        st = carry(g, w, whole);
        if (st != DV_OK)
            st = dv_comm_error(g->comm, st, diag);
        else if (g->comm->rank == 0)
            dv_rank_get(r, g->tensor, whole);
    }
    g->comm->ops->close(g->comm, w);
    return st;
}

dv_status dv_rank_gather(dv_rank *r, int32_t tensor, void *whole, dv_diag *diag)
{
    gatherer g = {.plan = dv_rank_plan(r, NULL), .tensor = tensor};
    dv_rank_plan(r, &g.comm);
    g.bytes = dv_elem_bytes(g.plan->ops, tensor);
    dv_status st = gather(&g, r, whole, diag);
    dv_arena_free(&g.arena);
    return st;
}
