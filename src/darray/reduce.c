// Reduces arrays over any dims. Each rank reduces its own elements; then the g
// ranks with partial results of the same elements combine them, always in rank
// order, so that the result is deterministic.
//
//   many results    reduce-scatter and all-gather: each rank combines its share
//                   of the results; 2 (g - 1) / g of the results move per rank
//   few results     a tree: reduce to its root, then broadcast; log2 g messages
//                   in sequence each way
#include "base/math.h"
#include "darray/darray.h"
#include "dist/value.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct job {
    const dv_darray *a;
    dv_reduction op;
    char
        kind; // accumulator type: f64 'f', i64 'i', u64 'u', or dv_variance 'm'
    int over[DV_MAX_DIMS];
    // Number of accumulators to advance per element along each dim; 0 for
    // reduced dims.
    int64_t out_stride[DV_MAX_DIMS];
    int64_t n_out, state_bytes;
    char *state;
    // `members` are the ranks that hold partial results for the same output
    // elements as this rank; `me` is this rank's index among them.
    int64_t *members;
    int64_t n_members, me;
    char *inbox; // receives the partial results of the other members
    dv_message_set
        *message_sets[4]; // prepared messages, one set per communication round
    int64_t sent_bytes;   // bytes sent in all rounds
    int32_t sent;
    dv_arena arena;
} job;

static int is_moments(dv_reduction op)
{
    return op == DV_REDUCE_MEAN || op == DV_REDUCE_VAR || op == DV_REDUCE_STD;
}

// Sets all accumulators to the neutral element of the reduction.
static void set_neutral(job *j)
{
    double f = j->op == DV_REDUCE_PROD  ? 1
               : j->op == DV_REDUCE_MAX ? -INFINITY
               : j->op == DV_REDUCE_MIN ? INFINITY
                                        : 0;
    int64_t i = j->op == DV_REDUCE_PROD  ? 1
                : j->op == DV_REDUCE_MAX ? INT64_MIN
                : j->op == DV_REDUCE_MIN ? INT64_MAX
                                         : 0;
    uint64_t u = j->op == DV_REDUCE_PROD  ? 1
                 : j->op == DV_REDUCE_MIN ? UINT64_MAX
                                          : 0;
    dv_variance m = {0, 0, 0};
    const void *from = j->kind == 'f'   ? (void *)&f
                       : j->kind == 'i' ? (void *)&i
                       : j->kind == 'u' ? (void *)&u
                                        : (void *)&m;
    for (int64_t k = 0; k < j->n_out; k++)
        memcpy(j->state + k * j->state_bytes, from, (size_t)j->state_bytes);
}

// ADDER defines a function that accumulates n values x[i] into accumulators
// `step` apart; it also merges partial results. Integer sums and products wrap.
// For max and min, NaN propagates and -0 is less than +0.
#define LOOP(expr)                                                             \
    for (int64_t i = 0; i < n; i++, s += step)                                 \
        *s = (expr);                                                           \
    break
#define ADDER(T, U, name, MINUS)                                               \
    static void name(dv_reduction op, T *s, int64_t step, const T *x,          \
                     int64_t n)                                                \
    {                                                                          \
        switch (op) {                                                          \
        case DV_REDUCE_SUM:                                                    \
            LOOP((T)((U)*s + (U)x[i]));                                        \
        case DV_REDUCE_PROD:                                                   \
            LOOP((T)((U)*s * (U)x[i]));                                        \
        case DV_REDUCE_MAX:                                                    \
            LOOP(*s > x[i] || *s != *s || (*s == x[i] && !MINUS(*s)) ? *s      \
                                                                     : x[i]);  \
        case DV_REDUCE_MIN:                                                    \
            LOOP(*s < x[i] || *s != *s || (*s == x[i] && MINUS(*s)) ? *s       \
                                                                    : x[i]);   \
        default:                                                               \
            break;                                                             \
        }                                                                      \
    }
// Replaces signbit for integers, which have no negative zero.
#define ANY_SIGN(x) 0
ADDER(double, double, add_f64, signbit)
ADDER(int64_t, uint64_t, add_i64, ANY_SIGN)
ADDER(uint64_t, uint64_t, add_u64, ANY_SIGN)
#undef ANY_SIGN
#undef ADDER
#undef LOOP

static void merge(const job *j, void *to, void *by, int64_t n)
{
    if (j->kind == 'f')
        add_f64(j->op, to, 1, by, n);
    else if (j->kind == 'i')
        add_i64(j->op, to, 1, by, n);
    else if (j->kind == 'u')
        add_u64(j->op, to, 1, by, n);
    for (int64_t i = 0; j->kind == 'm' && i < n; i++)
        dv_variance_merge((dv_variance *)to + i, (dv_variance *)by + i);
}

enum { STRIP = 256 };

// Reduces n elements, `stride` bytes apart, into accumulators `step` apart. A
// few hundred elements at a time (STRIP) are converted to the accumulator's
// type.
static void add_row(job *j, const char *from, int64_t stride, int64_t n,
                    char *state, int64_t step)
{
    union {
        double f[STRIP];
        int64_t i[STRIP];
        uint64_t u[STRIP];
    } x;
    char kind = dv_elem_get(j->a->type)->kind;
    for (int64_t k = 0; k < n; k += STRIP) {
        int64_t m = dv_min_i64(n - k, STRIP);
        dv_elem_load(j->a->type, from + k * stride, stride, m, &x);
        void *s = state + k * step * j->state_bytes;
        for (int64_t i = 0; j->kind == 'm' && kind != 'f' && i < m; i++)
            x.f[i] = kind == 'i' ? (double)x.i[i] : (double)x.u[i];
        if (j->kind == 'f')
            add_f64(j->op, s, step, x.f, m);
        else if (j->kind == 'i')
            add_i64(j->op, s, step, x.i, m);
        else if (j->kind == 'u')
            add_u64(j->op, s, step, x.u, m);
        for (int64_t i = 0; j->kind == 'm' && i < m; i++)
            dv_variance_add((dv_variance *)s + i * step, x.f[i]);
    }
}

static void add_own(job *j)
{
    const dv_box *own = &j->a->own;
    const dv_mem *mem = &j->a->mem;
    int64_t done[DV_MAX_DIMS] = {0}, out = 0;
    int d, last = own->n_dims - 1;
    if (dv_box_empty(own))
        return;
    const char *p = mem->data;
    for (d = 0; d <= last; d++)
        p += (own->dim[d].off - mem->box.dim[d].off) * mem->stride[d];
    if (last < 0) {
        add_row(j, p, 0, 1, j->state, 0);
        return;
    }
    do {
        add_row(j, p, mem->stride[last], own->dim[last].size,
                j->state + out * j->state_bytes, j->out_stride[last]);
        for (d = last - 1; d >= 0; d--) {
            p += mem->stride[d];
            out += j->out_stride[d];
            if (++done[d] < own->dim[d].size)
                break;
            p -= done[d] * mem->stride[d];
            out -= done[d] * j->out_stride[d];
            done[d] = 0;
        }
    } while (d >= 0);
}

static int few(const job *j)
{
    return j->n_out < j->n_members;
}

static dv_range share_of(const job *j, int64_t member)
{
    return dv_dist_part(j->n_out, j->n_members, member);
}

static dv_status open_message_set(job *j, int at, int32_t number,
                                  const dv_message_buffer *sends,
                                  int32_t n_sends,
                                  const dv_message_buffer *receives,
                                  int32_t n_receives, dv_diag *diag)
{
    dv_comm *c = j->a->link->comm;
    j->sent += n_sends;
    for (int32_t i = 0; i < n_sends; i++)
        j->sent_bytes += sends[i].bytes;
    return c->ops->open(c, &j->message_sets[at], number, sends, n_sends,
                        receives, n_receives, diag);
}

static dv_status open_shares(job *j, int32_t number, dv_diag *diag)
{
    int64_t n = j->n_members, b = j->state_bytes;
    dv_range mine = share_of(j, j->me);
    dv_message_buffer *theirs = DV_NEW(&j->arena, dv_message_buffer, n);
    dv_message_buffer *ours = DV_NEW(&j->arena, dv_message_buffer, n);
    dv_message_buffer *all = DV_NEW(&j->arena, dv_message_buffer, n);
    int32_t k = 0;
    j->inbox = dv_arena_alloc(&j->arena, (size_t)(n * mine.size), (size_t)b);
    if (!theirs || !ours || !all || !j->inbox)
        return dv_nomem(diag);
    for (int64_t m = 0; m < n; m++) {
        dv_range s = share_of(j, m);
        if (m == j->me)
            continue;
        int64_t r = j->members[m];
        theirs[k] = (dv_message_buffer){r, j->state + s.off * b, s.size * b};
        ours[k] =
            (dv_message_buffer){r, j->inbox + m * mine.size * b, mine.size * b};
        all[k++] =
            (dv_message_buffer){r, j->state + mine.off * b, mine.size * b};
    }
    DV_TRY(open_message_set(j, 0, number, theirs, k, ours, k, diag));
    return open_message_set(j, 1, number + 1, all, k, theirs, k, diag);
}

// Opens the messages of a binomial tree: the children of member m are m + 1, m
// + 2, m + 4, ... for every power of two below the lowest set bit of m.
static dv_status open_tree(job *j, int32_t number, dv_diag *diag)
{
    int64_t bytes = j->n_out * j->state_bytes;
    dv_message_buffer *in = DV_NEW(&j->arena, dv_message_buffer, 64);
    dv_message_buffer *down = DV_NEW(&j->arena, dv_message_buffer, 64);
    dv_message_buffer up = {0};
    int32_t n = 0, has_parent = 0;
    j->inbox = dv_arena_alloc(&j->arena, 64, (size_t)bytes);
    if (!in || !down || !j->inbox)
        return dv_nomem(diag);
    for (int64_t k = 1; k < j->n_members; k *= 2) {
        if (j->me & k) {
            up = (dv_message_buffer){j->members[j->me - k], j->state, bytes};
            has_parent = 1;
            break;
        }
        if (j->me + k >= j->n_members)
            continue;
        int64_t r = j->members[j->me + k];
        in[n] = (dv_message_buffer){r, j->inbox + n * bytes, bytes};
        down[n++] = (dv_message_buffer){r, j->state, bytes};
    }
    DV_TRY(open_message_set(j, 0, number, NULL, 0, in, n, diag));
    DV_TRY(open_message_set(j, 1, number, &up, has_parent, NULL, 0, diag));
    DV_TRY(open_message_set(j, 2, number + 1, NULL, 0, &up, has_parent, diag));
    return open_message_set(j, 3, number + 1, down, n, NULL, 0, diag);
}

static dv_status round_of(job *j, int at, int32_t *n)
{
    dv_comm *c = j->a->link->comm;
    DV_TRY(c->ops->start(c, j->message_sets[at]));
    *n = 0;
    while (c->ops->next(c, j->message_sets[at]) >= 0)
        ++*n;
    return c->ops->finish(c, j->message_sets[at]);
}

static dv_status combine(job *j)
{
    int32_t n;
    if (few(j)) {
        DV_TRY(round_of(j, 0, &n));
        for (int32_t i = 0; i < n; i++)
            merge(j, j->state, j->inbox + i * j->n_out * j->state_bytes,
                  j->n_out);
        for (int at = 1; at < 4; at++)
            DV_TRY(round_of(j, at, &n));
        return DV_OK;
    }
    dv_range mine = share_of(j, j->me);
    size_t bytes = (size_t)(mine.size * j->state_bytes);
    char *ours = j->state + mine.off * j->state_bytes;
    DV_TRY(round_of(j, 0, &n));
    // Merges the partial results in the order of the members (ranks with
    // partial results of the same elements), with this rank's own in its place,
    // so that the order of additions is fixed.
    memcpy(j->inbox + (size_t)j->me * bytes, ours, bytes);
    for (int64_t m = 1; m < j->n_members; m++)
        merge(j, j->inbox, j->inbox + (size_t)m * bytes, mine.size);
    memcpy(ours, j->inbox, bytes);
    return round_of(j, 1, &n);
}

// Returns whether a grid axis distributes one of the reduced dims.
static int splits(const job *j, int axis)
{
    for (int d = 0; d < j->a->dist.n_dims; d++)
        if (j->over[d] && j->a->dist.axis[d] == axis)
            return 1;
    return 0;
}

static int find_members(job *j)
{
    const dv_dist *d = &j->a->dist;
    uint32_t axes = 0;
    j->n_members = 1;
    for (int a = 0; a < d->n_axes; a++)
        if (splits(j, a)) {
            axes |= 1u << a;
            j->n_members *= d->grid[a];
        }
    j->members = DV_NEW(&j->arena, int64_t, j->n_members);
    if (j->members)
        j->me = dv_grid_members(j->members, d->grid, d->n_axes,
                                j->a->link->comm->rank, axes);
    return j->members != NULL;
}

static dv_status prepare(job *j, int32_t number, dv_diag *diag)
{
    j->n_out = 1;
    for (int d = j->a->dist.n_dims - 1; d >= 0; d--) {
        j->out_stride[d] = j->over[d] ? 0 : j->n_out;
        j->n_out *= j->over[d] ? 1 : j->a->own.dim[d].size;
    }
    if (!find_members(j))
        return dv_nomem(diag);
    j->state =
        dv_arena_alloc(&j->arena, (size_t)j->n_out, (size_t)j->state_bytes);
    if (!j->state)
        return dv_nomem(diag);
    // n_out, the number of results, is the same on all members (ranks with
    // partial results of the same elements), so either all of them take part in
    // the exchange or none.
    if (j->n_members == 1 || j->n_out == 0)
        return DV_OK;
    return few(j) ? open_tree(j, number, diag) : open_shares(j, number, diag);
}

// Returns the distribution of the result: remaining dims keep their
// distribution; reduced dims vanish or, with `keep`, have size 1.
static dv_dist result_dist(const job *j, int keep)
{
    const dv_dist *from = &j->a->dist;
    dv_dist d = {.n_axes = from->n_axes};
    memcpy(d.grid, from->grid, sizeof d.grid);
    for (int i = 0; i < from->n_dims; i++) {
        if (j->over[i] && !keep)
            continue;
        int k = d.n_dims++;
        d.shape[k] = j->over[i] ? 1 : from->shape[i];
        d.axis[k] = j->over[i] ? -1 : from->axis[i];
        if (j->over[i])
            continue;
        d.starts[k] = from->starts[i];
        d.slice[k] = from->slice[i];
        d.whole[k] = from->whole[i];
    }
    return d;
}

static dv_elem result_type(const job *j)
{
    char kind = dv_elem_get(j->a->type)->kind;
    if (kind == 'f' || j->op == DV_REDUCE_MAX || j->op == DV_REDUCE_MIN)
        return j->a->type;
    if (is_moments(j->op))
        return DV_ELEM_F64;
    return kind == 'i' ? DV_ELEM_I64 : DV_ELEM_U64;
}

static void finish(job *j, dv_darray *to)
{
    // Results overwrite the accumulators in place, which works because a result
    // is not larger than its accumulator.
    double *f = (double *)(void *)j->state;
    const dv_variance *m = (const dv_variance *)(const void *)j->state;
    for (int64_t i = 0; j->kind == 'm' && i < j->n_out; i++) {
        dv_variance s = m[i];
        double var = s.n > 0 ? s.spread / s.n : NAN;
        f[i] = j->op == DV_REDUCE_MEAN  ? (s.n > 0 ? s.mean : NAN)
               : j->op == DV_REDUCE_VAR ? var
                                        : sqrt(var);
    }
    dv_elem_store(to->type, to->mem.data, dv_darray_bytes(to), j->n_out,
                  j->state);
}

static dv_status check_call(job *j, const int *over, dv_diag *diag)
{
    const dv_dist *d = &j->a->dist;
    int64_t n_in = 1, n_out = 1;
    DV_TRY(dv_darray_complete(j->a, diag));
    if ((int)j->op < 0 || j->op > DV_REDUCE_STD)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "there is no reduction %d",
                       (int)j->op);
    for (int i = 0; i < d->n_dims; i++) {
        j->over[i] = !over || over[i] != 0;
        *(j->over[i] ? &n_in : &n_out) *= d->shape[i];
    }
    if (n_in == 0 && n_out > 0 &&
        (j->op == DV_REDUCE_MAX || j->op == DV_REDUCE_MIN))
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "the %s of no elements, %" PRId64 " times",
                       j->op == DV_REDUCE_MAX ? "maximum" : "minimum", n_out);
    uint64_t h = dv_hash(dv_darray_hash(j->a, DV_HASH), &j->op, sizeof j->op);
    h = dv_hash(h, j->over, sizeof j->over);
    return dv_team_check_same(j->a->link, "reduction of an array", h, diag);
}

static dv_status reduce(job *j, dv_darray *to, dv_diag *diag)
{
    dv_team_link *p = j->a->link;
    set_neutral(j);
    add_own(j);
    if (j->n_members > 1 && j->n_out > 0) {
        dv_status st = combine(j);
        if (st != DV_OK)
            return dv_comm_error(p->comm, st, diag);
        p->sent_bytes += j->sent_bytes;
        p->sent_messages += j->sent;
    }
    finish(j, to);
    return DV_OK;
}

dv_status dv_darray_reduce(dv_darray **out, const dv_darray *a, dv_reduction op,
                           const int *over, int keep, dv_diag *diag)
{
    char kind = dv_elem_get(a->type)->kind;
    job j = {.a = a, .op = op, .kind = is_moments(op) ? 'm' : kind};
    j.state_bytes = is_moments(op) ? (int64_t)sizeof(dv_variance) : 8;
    DV_TRY(check_call(&j, over, diag));
    int32_t number = dv_team_new_exchange(a->link);
    dv_team_new_exchange(a->link);
    dv_darray *to = NULL;
    dv_diag *mine = dv_diag_create();
    dv_dist d = result_dist(&j, keep);
    dv_status st = prepare(&j, number, mine);
    if (st == DV_OK)
        st = dv_darray_make(&to, a->link, result_type(&j), &d, NULL, NULL, NULL,
                            mine);
    st = dv_team_agree(a->link, st, mine, diag);
    if (st == DV_OK)
        st = reduce(&j, to, diag);
    for (int i = 0; i < 4; i++)
        a->link->comm->ops->close(a->link->comm, j.message_sets[i]);
    dv_arena_free(&j.arena);
    if (st == DV_OK)
        *out = to;
    else
        dv_darray_destroy(to);
    return st;
}
