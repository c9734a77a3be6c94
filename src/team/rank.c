// One rank of a distributed run: what it has and what it computes.
#define _POSIX_C_SOURCE 200809L // sysconf
#include "base/math.h"
#include "team/rank_state.h"
#include <inttypes.h>
#include <string.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { MIN_POINTS = 4096 }; // of a tile: less is not worth a thread

// -- Memory ----------------------------------------------------------------

// An index found by a read may lie anywhere, and the kernels look it up in a
// tensor that is whole.
static int kept_whole(const dv_program *p, int32_t tensor)
{
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op *op = &p->ops[i];
        for (int k = -1; k < op->n_reads; k++) {
            const dv_access *a = k < 0 ? &op->write : &op->reads[k];
            if (a->tensor == tensor && dv_access_is_indirect(a))
                return 1;
        }
    }
    return 0;
}

static void local_boxes(dv_rank *r)
{
    const dv_program *p = r->p;
    for (int32_t t = 0; t < p->n_tensors; t++) {
        r->own[t] = dv_dist_own(&r->plan->team.tensors[t], r->comm->rank);
        r->local[t] = r->own[t];
        if (!kept_whole(p, t))
            continue;
        for (int d = 0; d < p->tensors[t].n_dims; d++)
            r->local[t].dim[d] = (dv_range){0, p->tensors[t].shape[d]};
    }
    for (int32_t i = 0; i < p->n_ops; i++)
        for (int k = 0; k < p->ops[i].n_reads && r->ops[i].has_target; k++) {
            const dv_access *a = &p->ops[i].reads[k];
            dv_box b = dv_access_box(p, &p->ops[i], a, &r->ops[i].target);
            r->local[a->tensor] = dv_box_hull(&r->local[a->tensor], &b);
        }
}

static dv_status get_memory(dv_rank *r, dv_diag *diag)
{
    int64_t most = 0;
    for (int32_t t = 0; t < r->p->n_tensors; t++) {
        int64_t bytes = dv_box_elems(&r->local[t]) * dv_rank_elem(r, t);
        r->data[t] = dv_arena_alloc(&r->arena, (size_t)bytes + 1, 1);
        if (!r->data[t])
            return dv_nomem(diag);
        memset(r->data[t], 0, (size_t)bytes); // the run finds pages, too
    }
    for (int32_t i = 0; i < r->p->n_ops; i++) {
        const dv_op *op = &r->p->ops[i];
        int32_t t = op->write.tensor;
        if (!op->update || !dv_op_reads_own_write(op))
            continue;
        r->ops[i].k.old_off = 0;
        most =
            dv_max_i64(most, dv_box_elems(&r->local[t]) * dv_rank_elem(r, t));
    }
    r->snapshot = dv_arena_alloc(&r->arena, (size_t)most + 1, 1);
    return r->snapshot ? DV_OK : dv_nomem(diag);
}

// An access in the rank's own memory.
static void flatten(const dv_rank *r, dv_flat *f, const dv_op *op,
                    const dv_access *a)
{
    int64_t stride = 1;
    f->base = 0;
    for (int v = 0; v < op->n_vars; v++)
        f->coef[v] = 0;
    for (int d = a->n_dims - 1; d >= 0; d--) {
        dv_range local = r->local[a->tensor].dim[d];
        f->base -= local.off * stride;
        if (a->index[d].via < 0) {
            f->base += a->index[d].base * stride;
            for (int v = 0; v < op->n_vars; v++)
                f->coef[v] += a->index[d].coef[v] * stride;
        }
        stride *= local.size;
    }
}

static dv_status make_ops(dv_rank *r, dv_diag *diag)
{
    for (int32_t i = 0; i < r->p->n_ops; i++) {
        dv_rank_op *o = &r->ops[i];
        if (!dv_kernel_init(&o->k, r->p, &r->p->ops[i], NULL, &r->arena))
            return dv_nomem(diag);
        if (o->k.n_slots > r->n_slots)
            r->n_slots = o->k.n_slots;
        o->has_target =
            dv_team_target(&o->target, r->p, &r->plan->team, i, r->comm->rank);
    }
    return DV_OK;
}

static void localize(dv_rank *r)
{
    for (int32_t i = 0; i < r->p->n_ops; i++) {
        const dv_op *op = &r->p->ops[i];
        // Which variable strips run along was decided on the whole program,
        // so that sums add up in the same order on any team.
        flatten(r, &r->ops[i].k.write, op, &op->write);
        for (int k = 0; k < op->n_reads; k++)
            flatten(r, &r->ops[i].k.reads[k], op, &op->reads[k]);
    }
}

// -- Works -----------------------------------------------------------------

// Exchanges that an op waits for.
static int find_exchanges(dv_rank *r, int32_t op, int32_t *n_messages)
{
    dv_rank_op *o = &r->ops[op];
    o->from = DV_NEW(&r->arena, dv_post *, r->plan->team.n_swaps);
    *n_messages = 0;
    for (int32_t i = 0; i < r->plan->team.n_swaps && o->from; i++) {
        dv_post *e = &r->exchanges[i];
        if (e->swap.op != op || e->swap.repeat >= 0)
            continue;
        o->from[o->n_from++] = e;
        *n_messages += e->n_receives;
    }
    return o->from != NULL;
}

// Does a box of an op read something that a message brings?
static int reads_of(const dv_rank *r, const dv_op *op, const dv_space *box,
                    const dv_post *e, int32_t message)
{
    for (int k = 0; k < op->n_reads; k++) {
        if (op->reads[k].tensor != e->swap.tensor)
            continue;
        dv_box read = dv_access_box(r->p, op, &op->reads[k], box);
        for (int32_t i = e->receive_at[message]; i < e->receive_at[message + 1];
             i++) {
            dv_box both = dv_box_inner(&read, &e->swap.receives[i].box);
            if (!dv_box_empty(&both))
                return 1;
        }
    }
    return 0;
}

static void find_needs(dv_rank *r, dv_rank_op *o)
{
    char *needs = o->needs;
    for (int32_t k = 0; k < o->n_from; k++)
        for (int32_t m = 0; m < o->from[k]->n_receives; m++)
            for (int32_t w = 0; w < o->n_works; w++) {
                *needs =
                    (char)reads_of(r, o->k.op, &o->works[w].box, o->from[k], m);
                o->works[w].n_waits += *needs++;
            }
}

// All at once, or its core and what is around it. Parts of sums are computed
// when everything is there.
static int make_works(dv_rank *r, int32_t op)
{
    dv_rank_op *o = &r->ops[op];
    dv_space core, edges[2 * DV_MAX_VARS];
    int n = 0, apart = 0;
    int32_t n_messages;
    if (!find_exchanges(r, op, &n_messages))
        return 0;
    if (!o->has_target)
        return 1;
    o->in_parts = dv_hands_part(r, o);
    if (r->overlap && o->n_from && !o->sum && !o->in_parts)
        apart = dv_team_core(&core, r->p, &r->plan->team, op, r->comm->rank,
                             &o->target);
    if (apart)
        n = dv_space_edges(edges, o->k.op, &o->target, &core);
    o->n_works = n + 1;
    o->works = DV_NEW(&r->arena, dv_work, o->n_works);
    o->left = DV_NEW(&r->arena, int32_t, o->n_works);
    o->needs = DV_NEW(&r->arena, char, (size_t)n_messages *(size_t)(n + 1));
    if (!o->works || !o->left || !o->needs)
        return 0;
    o->works[0].box = apart ? core : o->target;
    for (int i = 0; i < n; i++)
        o->works[i + 1].box = edges[i];
    find_needs(r, o);
    return 1;
}

static dv_status make_all_works(dv_rank *r, dv_diag *diag)
{
    for (int32_t i = 0; i < r->p->n_ops; i++)
        if (!make_works(r, i))
            return dv_nomem(diag);
    return DV_OK;
}

// -- Creating --------------------------------------------------------------

static dv_status make_sums(dv_rank *r, dv_diag *diag)
{
    for (int32_t i = 0; i < r->p->n_ops; i++)
        DV_TRY(dv_combine_create(&r->ops[i].sum, r->plan, i, r->comm,
                                 &r->ops[i].target, r->ops[i].has_target,
                                 &r->n_wires, &r->arena, diag));
    return DV_OK;
}

static uint64_t hash_int(uint64_t h, int64_t n)
{
    return dv_hash(h, &n, sizeof n);
}

// Which sums are cut, and what travels before which op. Ranks open the wires
// of exchanges and of combined sums in this order.
static uint64_t hash_messages(uint64_t h, const dv_team *t)
{
    for (int32_t i = 0; i < t->n_follows; i++) {
        const dv_follow *f = &t->follows[i];
        h = hash_int(hash_int(h, f->op), f->var);
        h = hash_int(hash_int(h, f->read), f->dim);
    }
    for (int32_t i = 0; i < t->n_swaps; i++) {
        const dv_swap *s = &t->swaps[i];
        h = hash_int(hash_int(h, s->op), s->tensor);
        h = hash_int(hash_int(h, s->repeat), s->n_prior);
        h = dv_hash(h, s->prior, (size_t)s->n_prior * sizeof *s->prior);
    }
    return h;
}

// What all ranks must have alike: the program, who owns what, and what travels.
static dv_status hash_plan(dv_rank *r, dv_diag *diag)
{
    dv_text text = {0};
    const dv_team *t = &r->plan->team;
    dv_program_print(&text, r->p, 0);
    if (text.failed) {
        dv_text_free(&text);
        return dv_nomem(diag);
    }
    r->hash = dv_hash(DV_HASH, text.at, text.len);
    dv_text_free(&text);
    r->program = r->hash;
    r->hash = dv_hash(r->hash, t->grid, (size_t)t->n_axes * sizeof *t->grid);
    for (int32_t i = 0; i < r->p->n_tensors; i++)
        r->hash = dv_hash(r->hash, t->tensors[i].axis,
                          (size_t)t->tensors[i].n_dims * sizeof(int));
    r->hash = hash_messages(r->hash, t);
    return DV_OK;
}

uint64_t dv_rank_hash(const dv_rank *r, uint64_t *program)
{
    if (program)
        *program = r->program;
    return r->hash;
}

static dv_status make_rank(dv_rank *r, int32_t n_threads, dv_diag *diag)
{
    int32_t n = r->p->n_tensors;
    r->own = DV_NEW(&r->arena, dv_box, n);
    r->local = DV_NEW(&r->arena, dv_box, n);
    r->data = DV_NEW(&r->arena, void *, n);
    r->ops = DV_NEW(&r->arena, dv_rank_op, r->p->n_ops);
    r->exchanges = DV_NEW(&r->arena, dv_post, r->plan->team.n_swaps);
    if (!r->own || !r->local || !r->data || !r->ops || !r->exchanges)
        return dv_nomem(diag);
    DV_TRY(make_ops(r, diag));
    local_boxes(r);
    DV_TRY(get_memory(r, diag));
    localize(r);
    DV_TRY(dv_posts_create(r, diag));
    DV_TRY(make_sums(r, diag));
    DV_TRY(make_all_works(r, diag));
    DV_TRY(dv_hands_create(r, n_threads, diag));
    return hash_plan(r, diag);
}

// Threads that a rank gets by itself: its share of the cores, where it is not
// bound to some of them.
static int32_t usual_threads(const dv_comm *comm)
{
#ifdef _OPENMP
    if (comm->one_thread)
        return 1;
    int64_t mine = omp_get_num_procs(), all = sysconf(_SC_NPROCESSORS_ONLN);
    if (mine >= all)
        mine /= dv_max_i64(1, comm->near);
    return (int32_t)dv_max_i64(1, mine);
#else
    (void)comm;
    return 1;
#endif
}

dv_status dv_rank_create(dv_rank **out, const dv_plan *plan, dv_comm *comm,
                         const dv_rank_options *options, dv_diag *diag)
{
    if (dv_team_size(&plan->team) != comm->size || !plan->team.n_axes)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the plan is for a team of %" PRId64
                       ", there are %" PRId64 " ranks",
                       plan->team.n_axes ? dv_team_size(&plan->team) : 0,
                       comm->size);
    if (comm->one_thread && options && options->threads > 1)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "%d threads: MPI was initialized for one; "
                       "MPI_THREAD_FUNNELED allows more",
                       (int)options->threads);
    DV_TRY(dv_plan_check_rank(plan, comm->rank, diag));
    dv_arena arena = {0};
    dv_rank *r = DV_NEW(&arena, dv_rank, 1);
    if (!r)
        return dv_nomem(diag);
    r->arena = arena;
    r->plan = plan;
    r->p = plan->ops;
    r->comm = comm;
    r->from_repeat = -1;
    r->trouble = dv_diag_create();
    r->overlap = !options || !options->no_overlap;
    r->min_points =
        options && options->min_points > 0 ? options->min_points : MIN_POINTS;
    dv_status st =
        make_rank(r,
                  options && options->threads > 0 ? options->threads
                                                  : usual_threads(comm),
                  diag);
    if (st == DV_OK)
        *out = r;
    else
        dv_rank_destroy(r);
    return st;
}

void dv_rank_destroy(dv_rank *r)
{
    if (!r)
        return;
    for (int32_t i = 0; r->exchanges && i < r->plan->team.n_swaps; i++)
        r->comm->ops->close(r->comm, r->exchanges[i].wire);
    for (int32_t i = 0; r->ops && i < r->p->n_ops; i++)
        dv_combine_close(r->ops[i].sum, r->comm);
    dv_hands_destroy(r);
    dv_diag_destroy(r->trouble);
    dv_arena arena = r->arena;
    dv_arena_free(&arena);
}

void *dv_rank_memory(const dv_rank *r, int32_t tensor)
{
    return r->data[tensor];
}

const dv_plan *dv_rank_plan(const dv_rank *r, dv_comm **comm)
{
    if (comm)
        *comm = r->comm;
    return r->plan;
}

int32_t dv_rank_threads(const dv_rank *r)
{
    return r->n_hands;
}

dv_dtype dv_rank_type(const dv_rank *r, int32_t op)
{
    static const dv_dtype wide[] = {DV_F32, DV_F64, DV_I32};
    const dv_rank_op *o = &r->ops[op];
    return o->product ? dv_product_type(o->product) : wide[o->k.compute];
}

int32_t dv_rank_new_wire(dv_rank *r)
{
    return r->n_wires++;
}

// -- Whole tensors ---------------------------------------------------------

void *dv_rank_data(const dv_rank *r, int32_t tensor, dv_box *local, dv_box *own)
{
    *local = r->local[tensor];
    *own = r->own[tensor];
    return dv_box_empty(own) ? NULL : r->data[tensor];
}
