// The simulated machine; sim.h has the overview.
#include "sim/sim.h"
#include "base/math.h"
#include "layout/layout.h"
#include "plan/tiles.h"
#include "plan/view.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct op_starts {
    int64_t launches, transfers, syncs;
} op_starts;

struct dv_sim {
    dv_arena arena;
    const dv_plan *plan;
    const dv_kernel *kernels;
    // Layout of each tensor: the plan's, or the target's default if the plan
    // has none.
    dv_layout *layouts;
    unsigned char **memory; // main memory of each tensor, in its layout; owned
    // Snapshot (copy) of the tensor that the current op both reads and
    // overwrites, from before the op; owned.
    unsigned char *old;
    // For each access of the current op, the core's copy of the elements that
    // it needs, in row-major order; owned, allocated once.
    unsigned char **images;
    // For each read of the current op that receives a resident tensor over the
    // ring: the tensor, collected from the scratchpads of all cores; owned,
    // NULL if no op needs it.
    unsigned char **passing;
    // Marks the elements of an access that were already copied, so that each is
    // counted once; owned.
    unsigned char *seen;
    // Accumulators of a result whose reduction is computed in parts; owned.
    void *parts;
    size_t parts_bytes;
    void *peer;       // accumulators of the part being computed; owned
    int64_t *core_of; // core number by tile of the current group; owned
    int n_images;
    dv_sim_traffic moved;   // data movement of the whole run
    dv_sim_traffic *by;     // data movement by op, then core; owned
    dv_sim_traffic *counts; // counts of the current op and core
    int64_t core;           // the core that is being simulated
    // By op: how often it was launched, how many tensors were loaded or copied
    // into the scratchpads for it, and, for the first op of a group, how often
    // several cores worked on the group; owned.
    op_starts *starts;
    // The core that worked on the current group last, or -1; and whether a
    // different core did before.
    int64_t first_core;
    int several_cores;
    // In a group that loops over tiles: how many tiles each core has completed,
    // which is the number of its current tile.
    int64_t round;
    // The scratchpads of all cores, one after the other; owned. NULL: the plan
    // keeps no tensor resident in them.
    unsigned char *scratch;
    int64_t scratch_bytes; // bytes of one core's scratchpad
};

// The addresses of a tensor's elements: of a box of it in a core's scratchpad,
// or of all of it in main memory. Elements of one row are equally spaced only
// up to the next boundary of the layout: the end of a stick (the smallest unit
// of the memory), of a row of a tile, or of the row itself. The last such run
// is cached.
typedef struct addresses {
    const dv_tensor *t;
    const dv_layout *l;
    unsigned char *start;
    // is_home is 1 for a box in a scratchpad, 0 for main memory; `any` is 1 if
    // the box is not empty.
    int is_home, any;
    int64_t lo[DV_MAX_DIMS], hi[DV_MAX_DIMS];
    // The cached run: n elements from element number `first` on, `step` bytes
    // apart, starting at address `run`.
    int64_t first, step;
    uint64_t n;
    unsigned char *run;
} addresses;

static addresses in_memory(const dv_sim *m, int32_t tensor,
                           unsigned char *memory)
{
    addresses p = {.t = &m->plan->ops->tensors[tensor],
                   .l = &m->layouts[tensor],
                   .start = memory,
                   .any = 1};
    memcpy(p.hi, p.t->shape, (size_t)p.t->n_dims * sizeof *p.hi);
    return p;
}

static addresses in_home(const dv_sim *m, int32_t home, int64_t core)
{
    const dv_home *h = &m->plan->scratch.homes[home];
    addresses p = in_memory(m, h->tensor,
                            m->scratch + core * m->scratch_bytes + h->address);
    dv_view v;
    p.is_home = 1;
    p.any = !dv_home_view(&v, m->plan, h) &&
            dv_view_box(&v, core, m->round, p.lo, p.hi);
    return p;
}

static int64_t offset_of(const addresses *p, const int64_t *at)
{
    return p->l->elem_bytes * (p->is_home ? dv_box_place(p->l, p->lo, p->hi, at)
                                          : dv_layout_offset(p->l, at));
}

// Returns the number of consecutive positions of the tensor's last dimension
// that the layout spaces equally.
static int64_t even_length(const addresses *p)
{
    for (int32_t i = p->l->n_dims - 1; i >= 0; i--)
        if (p->l->host[i] == p->t->n_dims - 1)
            return p->l->size[i];
    return 1;
}

// Finds and caches the run (equally spaced elements) that contains element
// number `at`. Returns the element's address; NULL: the scratchpad's box of the
// tensor does not contain it.
static unsigned char *find_run(addresses *p, int64_t at)
{
    int64_t coords[DV_MAX_DIMS], rest = at;
    int32_t last = p->t->n_dims - 1;
    int inside = p->any;
    for (int32_t d = last; d >= 0; d--) {
        coords[d] = rest % p->t->shape[d];
        rest /= p->t->shape[d];
        inside = inside && coords[d] >= p->lo[d] && coords[d] < p->hi[d];
    }
    p->n = 0;
    if (!inside)
        return NULL;
    int64_t size = even_length(p), c = last < 0 ? 0 : coords[last];
    int64_t first = last < 0 ? 0 : dv_max_i64(c - c % size, p->lo[last]);
    int64_t end = last < 0 ? 1 : dv_min_i64(c - c % size + size, p->hi[last]);
    p->first = at - (c - first);
    p->n = (uint64_t)(end - first);
    if (last >= 0)
        coords[last] = first;
    int64_t here = offset_of(p, coords);
    p->run = p->start + here;
    p->step = 0;
    if (end - first > 1) {
        coords[last]++;
        p->step = offset_of(p, coords) - here;
    }
    return p->run + (c - first) * p->step;
}

// Returns the address of element number `at` of the tensor; NULL: the
// scratchpad's box of the tensor does not contain it.
static inline unsigned char *element_at(addresses *p, int64_t at)
{
    uint64_t i = (uint64_t)(at - p->first);
    return i < p->n ? p->run + (int64_t)i * p->step : find_run(p, at);
}

// Allocates the scratchpads. A resident tensor's place (its home) has the same
// address on every core. Returns 0 when out of memory.
static int create_scratch(dv_sim *m)
{
    const dv_scratch *s = &m->plan->scratch;
    const dv_plan *plan = m->plan;
    size_t bytes;
    if (s->n_homes == 0)
        return 1;
    for (int32_t i = 0; i < s->n_homes; i++)
        m->scratch_bytes = dv_max_i64(
            m->scratch_bytes, s->homes[i].address + s->homes[i].core_bytes);
    if (__builtin_mul_overflow((size_t)m->scratch_bytes,
                               (size_t)plan->target.cores, &bytes))
        return 0;
    m->scratch = dv_alloc(bytes);
    return m->scratch != NULL;
}

static void wipe_scratch(dv_sim *m)
{
    if (m->scratch)
        memset(m->scratch, DV_POISON,
               (size_t)m->scratch_bytes * (size_t)m->plan->target.cores);
}

// Reduces box `a` to its intersection with box `b`. Returns 0 if it is empty.
static int meet(addresses *a, const addresses *b)
{
    int any = a->any && b->any;
    for (int32_t d = 0; d < a->t->n_dims && any; d++) {
        a->lo[d] = dv_max_i64(a->lo[d], b->lo[d]);
        a->hi[d] = dv_min_i64(a->hi[d], b->hi[d]);
        any = a->lo[d] < a->hi[d];
    }
    return any;
}

// Copies all elements of a box from one place to another. Returns their number.
static int64_t copy_box(const addresses *box, addresses *to, addresses *from)
{
    int32_t last = box->t->n_dims - 1;
    int64_t at[DV_MAX_DIMS], n = 0;
    int64_t row = last < 0 ? 1 : box->hi[last] - box->lo[last];
    memcpy(at, box->lo, sizeof at);
    for (int32_t d = 0; d >= 0;) {
        int64_t flat = 0;
        for (int32_t i = 0; i <= last; i++)
            flat = flat * box->t->shape[i] + at[i];
        for (int64_t i = 0; i < row; i++, n++)
            memmove(element_at(to, flat + i), element_at(from, flat + i),
                    (size_t)box->l->elem_bytes);
        for (d = last - 1; d >= 0; d--) {
            if (++at[d] < box->hi[d])
                break;
            at[d] = box->lo[d];
        }
    }
    return n;
}

static dv_sim_traffic *counts_of(const dv_sim *m, int32_t op, int64_t core)
{
    return &m->by[op * m->plan->target.cores + core];
}

// Counts n elements that were read from main memory or written to it, for the
// whole run and in a core's counts.
static void count_moved(dv_sim *m, dv_sim_traffic *core, int written, int64_t n,
                        int64_t elem_bytes)
{
    dv_sim_traffic *const both[] = {&m->moved, core};
    for (int i = 0; i < 2; i++) {
        *(written ? &both[i]->write_elems : &both[i]->read_elems) += n;
        *(written ? &both[i]->write_bytes : &both[i]->read_bytes) +=
            n * elem_bytes;
    }
}

// Counts bytes that a core received over the ring, and bytes that it passed to
// all other cores of its ring.
static void count_passed(dv_sim *m, dv_sim_traffic *core, int64_t received,
                         int64_t passed)
{
    m->moved.ring_bytes += received;
    m->moved.pass_bytes += passed;
    core->ring_bytes += received;
    core->pass_bytes += passed;
}

// Counts bytes that a core received from another core by a copy.
static void count_copied(dv_sim *m, dv_sim_traffic *core, int64_t bytes)
{
    m->moved.ring_bytes += bytes;
    m->moved.link_bytes += bytes;
    core->ring_bytes += bytes;
    core->link_bytes += bytes;
}

// Copies a core's part of a resident tensor from main memory to its home
// (place) in the core's scratchpad or, with `store`, back.
static void exchange_home(dv_sim *m, int32_t op, int32_t home, int64_t core,
                          int store)
{
    const dv_home *h = &m->plan->scratch.homes[home];
    int32_t tensor = h->tensor;
    addresses here = in_home(m, home, core);
    addresses there = in_memory(m, tensor, m->memory[tensor]);
    if (!here.any)
        return;
    int64_t n = copy_box(&here, store ? &there : &here, store ? &here : &there);
    int64_t bytes = n * here.l->elem_bytes;
    dv_sim_traffic *counts = counts_of(m, op, core);
    int fetches = store || !h->shared || dv_home_fetches(m->plan, h, core);
    if (fetches)
        count_moved(m, counts, store, n, here.l->elem_bytes);
    if (!store && h->shared)
        count_passed(m, counts, fetches ? 0 : bytes, fetches ? bytes : 0);
}

// Moves a resident tensor to another address in a core's scratchpad. Both of
// its homes (its old and its new place) hold the same elements, and their
// addresses may overlap.
static void move_home(dv_sim *m, int32_t home, int64_t core)
{
    const dv_home *h = &m->plan->scratch.homes[home];
    const dv_home *from = &m->plan->scratch.homes[h->from];
    unsigned char *pad = m->scratch + core * m->scratch_bytes;
    memmove(pad + h->address, pad + from->address,
            (size_t)dv_min_i64(h->core_bytes, from->core_bytes));
}

// Fills a core's part of a resident tensor with elements that other cores hold
// in their scratchpads.
static void gather_home(dv_sim *m, int32_t op, int32_t home, int64_t core)
{
    const dv_home *h = &m->plan->scratch.homes[home];
    addresses need = in_home(m, home, core);
    for (int64_t from = 0; need.any && from < m->plan->target.cores; from++) {
        if (h->fill == DV_FILL_MOVED && from != core)
            continue;
        addresses has = in_home(m, h->from, from), both = has;
        if (!meet(&both, &need))
            continue;
        int64_t bytes = copy_box(&both, &need, &has) * need.l->elem_bytes;
        if (from == core)
            continue;
        count_copied(m, counts_of(m, op, core), bytes);
    }
}

// Collects the tensors that an op receives from other cores' scratchpads.
// Elements that no core holds keep the poison (the byte DV_POISON).
static void collect_passing(dv_sim *m, int32_t op)
{
    const dv_op *o = &m->plan->ops->ops[op];
    for (int r = 0; r < o->n_reads; r++) {
        int32_t home = dv_ring_of(m->plan, op, r), t = o->reads[r].tensor;
        if (home < 0)
            continue;
        memset(m->passing[r], DV_POISON, (size_t)m->layouts[t].bytes);
        addresses all = in_memory(m, t, m->passing[r]);
        for (int64_t c = 0; c < m->plan->target.cores; c++) {
            addresses part = in_home(m, home, c);
            if (part.any)
                copy_box(&part, &all, &part);
        }
    }
}

// Returns whether a home (the place of a resident tensor) needs no load for the
// current tile, because it holds what the core loaded for its previous one.
static int is_loaded(const dv_sim *m, const dv_home *h, int64_t core)
{
    dv_view v;
    return m->round > 0 && !dv_home_view(&v, m->plan, h) &&
           dv_home_stays(h, &v, core, m->round);
}

// Fills the homes (places in scratchpads) of the tensors that become resident
// in scratchpads with this op, on the cores first..end - 1.
static void fill_homes(dv_sim *m, int32_t op, int64_t first, int64_t end)
{
    const dv_scratch *s = &m->plan->scratch;
    if (!m->scratch)
        return;
    for (int32_t i = s->fill_at[op]; i < s->fill_at[op + 1]; i++) {
        const dv_home *h = &s->homes[s->fill_order[i]];
        for (int64_t c = first; c < end; c++) {
            if (h->fill == DV_FILL_LOADED && is_loaded(m, h, c))
                continue;
            if (h->fill == DV_FILL_LOADED)
                exchange_home(m, op, s->fill_order[i], c, 0);
            else if (h->fill == DV_FILL_MOVED &&
                     h->as_op == s->homes[h->from].as_op)
                move_home(m, s->fill_order[i], c);
            else if (dv_home_is_transferred(h))
                gather_home(m, op, s->fill_order[i], c);
        }
    }
}

// Copies the resident tensors that this op writes to main memory, if the plan
// says so, on the cores first..end - 1.
static void store_homes(dv_sim *m, int32_t op, int64_t first, int64_t end)
{
    const dv_scratch *s = &m->plan->scratch;
    if (!m->scratch)
        return;
    for (int32_t i = s->fill_at[op]; i < s->fill_at[op + 1]; i++)
        for (int64_t c = first; c < end; c++)
            if (s->homes[s->fill_order[i]].stored)
                exchange_home(m, op, s->fill_order[i], c, 1);
}

// The largest buffers, and the most buffers, that any op of the plan needs.
typedef struct needs {
    int64_t image_bytes, marks, parts, tiles;
    int images;
} needs;

static needs count_needs(const dv_plan *plan)
{
    needs n = {1, 1, 1, 1, 1};
    const dv_program *p = plan->ops;
    for (int i = 0; i < p->n_tensors; i++) {
        n.image_bytes =
            dv_max_i64(n.image_bytes, dv_tensor_bytes(&p->tensors[i]));
        n.marks = dv_max_i64(n.marks, p->tensors[i].n_elems);
    }
    for (int i = 0; i < p->n_ops; i++) {
        uint32_t written = dv_written_vars(&p->ops[i]);
        n.parts = dv_max_i64(n.parts, dv_op_points(&p->ops[i], written));
        if (p->ops[i].n_reads + 1 > n.images)
            n.images = p->ops[i].n_reads + 1;
    }
    for (int i = 0; i < plan->n_groups; i++)
        n.tiles = dv_max_i64(n.tiles, plan->groups[i].n_tiles);
    return n;
}

static int get_layouts(dv_sim *m)
{
    const dv_program *p = m->plan->ops;
    m->layouts = DV_NEW(&m->arena, dv_layout, p->n_tensors);
    for (int i = 0; m->layouts && i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        dv_layout_spec spec = {t->n_dims, t->shape, NULL, 0};
        if (m->plan->facts & DV_FACT_LAID_OUT)
            m->layouts[i] = m->plan->layouts[i];
        else if (!dv_layout_make(&m->layouts[i], &m->plan->target, t->dtype,
                                 &spec))
            return 0;
    }
    return m->layouts != NULL;
}

static size_t n_counts(const dv_sim *m)
{
    return (size_t)m->plan->ops->n_ops * (size_t)m->plan->target.cores;
}

static int get_memory(dv_sim *m)
{
    needs n = count_needs(m->plan);
    int32_t tensors = m->plan->ops->n_tensors;
    if (!get_layouts(m))
        return 0;
    m->memory = DV_NEW(&m->arena, unsigned char *, tensors);
    m->images = DV_NEW(&m->arena, unsigned char *, n.images);
    m->passing = DV_NEW(&m->arena, unsigned char *, n.images);
    if (!m->memory || !m->images || !m->passing)
        return 0;
    m->n_images = n.images;
    int64_t old_bytes = 1; // bytes of the largest tensor with its padding
    for (int32_t i = 0; i < tensors; i++) {
        old_bytes = dv_max_i64(old_bytes, m->layouts[i].bytes);
        if (!(m->memory[i] = dv_alloc((size_t)m->layouts[i].bytes)))
            return 0;
    }
    for (int32_t i = 0; i < m->plan->ops->n_ops; i++)
        for (int r = 0; r < m->plan->ops->ops[i].n_reads; r++)
            if (dv_ring_of(m->plan, i, r) >= 0 && !m->passing[r] &&
                !(m->passing[r] = dv_alloc((size_t)old_bytes)))
                return 0;
    for (int i = 0; i < n.images; i++) {
        if (!(m->images[i] = dv_alloc((size_t)n.image_bytes)))
            return 0;
        memset(m->images[i], DV_POISON, (size_t)n.image_bytes);
    }
    m->old = dv_alloc((size_t)old_bytes);
    m->seen = dv_alloc((size_t)n.marks);
    m->parts_bytes = (size_t)n.parts * 8;
    m->parts = dv_alloc(m->parts_bytes);
    m->peer = dv_alloc((size_t)n.parts * 8);
    m->core_of = dv_alloc((size_t)n.tiles * sizeof *m->core_of);
    m->by = dv_alloc(n_counts(m) * sizeof *m->by);
    m->starts = dv_alloc((size_t)m->plan->ops->n_ops * sizeof *m->starts + 1);
    if (m->seen)
        memset(m->seen, 0, (size_t)n.marks);
    return m->by && m->starts && m->old && m->seen && m->parts && m->peer &&
           m->core_of && create_scratch(m);
}

dv_status dv_sim_create(dv_sim **out, const dv_plan *plan,
                        const dv_kernel *kernels, dv_diag *diag)
{
    dv_arena arena = {0};
    dv_sim *m = DV_NEW(&arena, dv_sim, 1);
    if (!m)
        return dv_nomem(diag);
    m->arena = arena;
    m->plan = plan;
    m->kernels = kernels;
    if (!get_memory(m)) {
        dv_sim_destroy(m);
        return dv_nomem(diag);
    }
    *out = m;
    return DV_OK;
}

void dv_sim_destroy(dv_sim *m)
{
    if (!m)
        return;
    for (int32_t i = 0; m->memory && i < m->plan->ops->n_tensors; i++)
        dv_release(m->memory[i]);
    for (int i = 0; m->images && i < m->n_images; i++)
        dv_release(m->images[i]);
    for (int i = 0; m->passing && i < m->n_images; i++)
        dv_release(m->passing[i]);
    dv_release(m->old);
    dv_release(m->seen);
    dv_release(m->parts);
    dv_release(m->peer);
    dv_release(m->core_of);
    dv_release(m->by);
    dv_release(m->starts);
    dv_release(m->scratch);
    dv_arena arena = m->arena;
    dv_arena_free(&arena);
}

const dv_sim_traffic *dv_sim_moved_by(const dv_sim *m, int32_t op, int64_t core)
{
    return counts_of(m, op, core);
}

const unsigned char *dv_sim_scratch(const dv_sim *m, int64_t core)
{
    return m->scratch ? m->scratch + core * m->scratch_bytes : NULL;
}

int64_t dv_sim_scratch_bytes(const dv_sim *m)
{
    return m->scratch_bytes;
}

const dv_sim_traffic *dv_sim_moved(const dv_sim *m)
{
    return &m->moved;
}

// Returns the bytes that cores passed along the busiest ring during an op.
static int64_t busiest_ring(const dv_sim *m, int32_t op)
{
    const dv_target *t = &m->plan->target;
    int64_t most = 0, sum = 0;
    for (int64_t c = 0; c < t->cores; c++) {
        if (c > 0 && dv_target_ring(t, c) != dv_target_ring(t, c - 1))
            sum = 0;
        sum += counts_of(m, op, c)->pass_bytes;
        most = dv_max_i64(most, sum);
    }
    return most;
}

dv_group_work dv_sim_work(const dv_sim *m, int32_t group)
{
    const dv_group *g = &m->plan->groups[group];
    dv_group_work w = {0};
    for (int32_t i = g->first_op; i < g->end_op; i++) {
        const dv_op *op = &m->plan->ops->ops[i];
        int64_t most = 0;
        for (int64_t c = 0; c < m->plan->target.cores; c++) {
            const dv_sim_traffic *moved = counts_of(m, i, c);
            most = dv_max_i64(most, moved->points);
            w.memory_bytes += moved->read_bytes + moved->write_bytes;
            w.link_bytes += moved->link_bytes;
        }
        w.link_bytes += busiest_ring(m, i);
        *(dv_op_kind(op) == DV_KIND_CONTRACTION ? &w.macs : &w.ops) += most;
        w.launches += m->starts[i].launches;
        w.transfers += m->starts[i].transfers;
        w.syncs += m->starts[i].syncs;
    }
    for (int64_t c = 0; c < m->plan->target.cores; c++) {
        int64_t bytes = 0;
        for (int32_t i = g->first_op; i < g->end_op; i++)
            bytes += counts_of(m, i, c)->read_bytes +
                     counts_of(m, i, c)->write_bytes;
        w.core_bytes = dv_max_i64(w.core_bytes, bytes);
    }
    return w;
}

// Copies an element from the host's format to the machine's, which may store
// 64-bit integers in four bytes. Returns 0 if the value does not fit.
static int to_device(unsigned char *to, const unsigned char *from, int host,
                     int64_t device)
{
    memcpy(to, from, (size_t)(host < device ? host : device));
    if (host <= device)
        return 1;
    int64_t value;
    memcpy(&value, from, sizeof value); // only i64 is stored in fewer bytes
    return value >= INT32_MIN && value <= INT32_MAX;
}

static dv_status too_wide(const dv_sim *m, const dv_tensor *t, int64_t element,
                          const unsigned char *at, dv_diag *diag)
{
    int64_t value;
    dv_text name = {0};
    memcpy(&value, at, sizeof value);
    dv_element_print(&name, t, element);
    dv_status st =
        dv_fail(diag, DV_E_OVERFLOW, DV_NOWHERE,
                "%s is %" PRId64 ", and %s stores i64 in 32 bits%s",
                name.at ? name.at : t->name, value, m->plan->target.name,
                value == INT64_MIN || value == INT64_MAX
                    ? "; a max or min with a bound of 64-bit integers has this "
                      "value for what it leaves out: store its operand as i32 "
                      "first"
                    : "");
    dv_text_free(&name);
    return st;
}

static void from_device(unsigned char *to, const unsigned char *from, int host,
                        int64_t device)
{
    memcpy(to, from, (size_t)(host < device ? host : device));
    if (host > device)
        memset(to + device, from[device - 1] & 0x80 ? 0xff : 0,
               (size_t)(host - device));
}

dv_status dv_sim_put(dv_sim *m, int32_t tensor, const void *host, dv_diag *diag)
{
    const dv_tensor *t = &m->plan->ops->tensors[tensor];
    int size = dv_dtype_get(t->dtype)->size_bytes;
    addresses to = in_memory(m, tensor, m->memory[tensor]);
    for (int64_t k = 0; k < t->n_elems; k++) {
        const unsigned char *from = (const unsigned char *)host + k * size;
        if (!to_device(element_at(&to, k), from, size, to.l->elem_bytes))
            return too_wide(m, t, k, from, diag);
    }
    return DV_OK;
}

void dv_sim_get(const dv_sim *m, int32_t tensor, void *host)
{
    const dv_tensor *t = &m->plan->ops->tensors[tensor];
    int size = dv_dtype_get(t->dtype)->size_bytes;
    addresses from = in_memory(m, tensor, m->memory[tensor]);
    for (int64_t k = 0; k < t->n_elems; k++)
        from_device((unsigned char *)host + k * size, element_at(&from, k),
                    size, from.l->elem_bytes);
}

dv_status dv_sim_load(dv_sim *m, void *const *host, dv_diag *diag)
{
    const dv_program *p = m->plan->ops;
    m->moved = (dv_sim_traffic){0};
    wipe_scratch(m);
    memset(m->by, 0, n_counts(m) * sizeof *m->by);
    memset(m->starts, 0, (size_t)p->n_ops * sizeof *m->starts);
    for (int32_t i = 0; i < p->n_tensors; i++) {
        memset(m->memory[i], DV_POISON, (size_t)m->layouts[i].bytes);
        if (p->tensors[i].is_input)
            DV_TRY(dv_sim_put(m, i, host[i], diag));
    }
    return DV_OK;
}

void dv_sim_store(const dv_sim *m, void *const *host)
{
    for (int32_t i = 0; i < m->plan->ops->n_tensors; i++)
        if (m->plan->ops->tensors[i].is_output)
            dv_sim_get(m, i, host[i]);
}

typedef enum { FETCH, STORE, FORGET } purpose;

// Enumerates the elements of one access of the current op in a tile.
typedef struct visitor {
    dv_sim *m;
    dv_strips *s;
    const dv_access *a;
    const dv_flat *f;
    purpose why;
    addresses p;
    unsigned char *image;
    int size;  // bytes of an element in host format
    int64_t n; // elements counted so far
    // 1 for an indirect access: an element is counted once for every index that
    // selects it, not only once in all.
    int each;
    // 1 if the access may leave the tensor; elements outside are not visited.
    int leaves;
    int32_t ring; // what it receives over the ring, see dv_ring_of
    // If elements come over the ring from a home (place of a resident tensor):
    // the core's own part of it, and how many elements were found in that part.
    addresses own;
    int64_t n_own;
    int n_vars; // number of variables that the access depends on
    // The variables that the access depends on, by decreasing stride.
    int8_t var[DV_MAX_VARS];
} visitor;

static void order_vars(visitor *w, const dv_op *op)
{
    uint32_t vars = dv_access_vars(op, w->a);
    for (int v = 0; v < op->n_vars; v++) {
        if (!(vars >> v & 1))
            continue;
        int i = w->n_vars++;
        for (; i > 0 && !w->each &&
               llabs(w->f->coef[w->var[i - 1]]) < llabs(w->f->coef[v]);
             i--)
            w->var[i] = w->var[i - 1];
        w->var[i] = (int8_t)v;
    }
}

static visitor visitor_of(dv_sim *m, dv_strips *s, int k, purpose why)
{
    const dv_op *op = s->k->op;
    int32_t i = (int32_t)(op - m->plan->ops->ops);
    int32_t home = dv_home_of(m->plan, i, k);
    visitor w = {.m = m,
                 .s = s,
                 .why = why,
                 .image = m->images[k],
                 .ring = dv_ring_of(m->plan, i, k)};
    w.a = dv_op_access(op, k);
    w.f = k < op->n_reads ? &s->k->reads[k] : &s->k->write;
    int old = why == FETCH && s->old && w.a->tensor == op->write.tensor;
    w.p = home >= 0 ? in_home(m, home, m->core)
                    : in_memory(m, w.a->tensor,
                                old           ? m->old
                                : w.ring >= 0 ? m->passing[k]
                                              : m->memory[w.a->tensor]);
    if (w.ring >= 0)
        w.own = in_home(m, w.ring, m->core);
    w.size = dv_dtype_get(w.p.t->dtype)->size_bytes;
    w.each = dv_access_is_indirect(w.a);
    w.leaves = w.a->has_border;
    order_vars(&w, op);
    return w;
}

// Handles an element that is visited for the first time. Depending on the
// purpose of the visit, copies it into the core's copy, stores it back, or
// fills the copy with poison (the byte DV_POISON) again.
static void touch(visitor *w, int64_t at)
{
    unsigned char *here = w->image + at * w->size;
    unsigned char *there = w->why == FORGET ? NULL : element_at(&w->p, at);
    if (w->why == FETCH && there)
        from_device(here, there, w->size, w->p.l->elem_bytes);
    else if (w->why == STORE && there) {
        if (!to_device(there, here, w->size, w->p.l->elem_bytes) &&
            w->s->status == DV_OK)
            w->s->status = too_wide(w->m, w->p.t, at, here, w->s->diag);
    } else
        memset(here, DV_POISON, (size_t)w->size);
}

// Visits n elements `step` apart. With `wipe`, clears their marks (which say
// that an element was visited) instead.
static void visit_row(visitor *w, int64_t at, int64_t step, int64_t n, int wipe)
{
    unsigned char *seen = w->m->seen;
    for (int64_t i = 0; i < n; i++, at += step) {
        if (wipe) {
            seen[at] = 0;
            continue;
        }
        w->n += w->each || !seen[at];
        if (!seen[at]) {
            touch(w, at);
            w->n_own += w->ring >= 0 && element_at(&w->own, at);
        }
        seen[at] = 1;
    }
}

// Counts the visited elements: as moved from or to main memory, or as received
// over the ring.
static void count_visit(const visitor *w, const dv_tile *b)
{
    dv_sim *m = w->m;
    const dv_op *op = w->s->k->op;
    int64_t bytes = w->n * w->p.l->elem_bytes;
    int32_t i = (int32_t)(op - m->plan->ops->ops);
    int fetches = w->ring == DV_RING_NONE ||
                  dv_tile_fetches(m->plan, i, dv_access_vars(op, w->a), b);
    int received = w->ring >= 0 || !fetches;
    int64_t own = w->n_own * w->p.l->elem_bytes;
    if (w->ring != DV_RING_NONE)
        count_passed(m, m->counts, received ? bytes - own : 0,
                     fetches ? bytes : 0);
    if (!received)
        count_moved(m, m->counts, w->why == STORE, w->n, w->p.l->elem_bytes);
}

// Visits every element that access number k of the op uses in the box once, for
// the purpose `why`, and counts them.
static void visit(dv_sim *m, dv_strips *s, int k, const dv_tile *b, purpose why)
{
    visitor w = visitor_of(m, s, k, why);
    int64_t point[DV_MAX_VARS];
    // The variable along which the row of equally spaced elements runs; -1:
    // elements are visited one by one.
    int row = w.each || w.leaves ? -1 : w.n_vars - 1;
    int64_t step = row < 0 ? 0 : w.f->coef[w.var[row]];
    int64_t n = row < 0 ? 1 : b->end[w.var[row]] - b->begin[w.var[row]];
    for (int wipe = 0; wipe < 2; wipe++) {
        memcpy(point, b->begin, sizeof point);
        for (int i = 0; i >= 0;) {
            int64_t at = dv_strips_offset(s, w.a, w.f, point);
            if (at != DV_OUTSIDE)
                visit_row(&w, at, step, n, wipe);
            for (i = row < 0 ? w.n_vars - 1 : row - 1; i >= 0; i--) {
                int v = w.var[i];
                if (++point[v] < b->end[v])
                    break;
                point[v] = b->begin[v];
            }
        }
    }
    if (why != FORGET && !w.p.is_home)
        count_visit(&w, b);
}

// Visits the elements of all reads of the op in a box. Index tensors are copied
// to the core before the indirect reads that use them, and the copies are
// cleared after these.
static void visit_reads(dv_sim *m, dv_strips *s, const dv_tile *b, purpose why)
{
    const dv_op *op = s->k->op;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < op->n_reads; i++) {
            int r = why == FORGET ? op->n_reads - 1 - i : i;
            int indirect = dv_access_is_indirect(&op->reads[r]);
            if (indirect == (why == FORGET ? !pass : pass))
                visit(m, s, r, b, why);
        }
}

// Stores the core's copy of the result to memory, unless the op failed, and
// clears the copy.
static void store_result(dv_sim *m, dv_strips *s, const dv_tile *b)
{
    if (s->status == DV_OK)
        visit(m, s, s->k->op->n_reads, b, STORE);
    visit(m, s, s->k->op->n_reads, b, FORGET);
}

static void run_box(dv_strips *s, const dv_tile *b)
{
    s->n_parts = 0;
    dv_strips_run(s, b->begin, b->end);
}

// Counts the points of the box that the current core computes, and notes
// whether several cores work on the group.
static void count_points(dv_sim *m, const dv_op *op, const dv_tile *b)
{
    int64_t n = !op->is_extern;
    for (int v = 0; v < op->n_vars; v++)
        n *= b->end[v] - b->begin[v];
    m->counts->points += n;
    m->several_cores |= m->first_core >= 0 && m->core != m->first_core;
    m->first_core = m->core;
}

// Simulates one core's work on a box: copies the operands in, computes and,
// with `stores`, finishes the result and stores it.
static void run_core(dv_sim *m, dv_strips *s, const dv_tile *b, int stores)
{
    count_points(m, s->k->op, b);
    visit_reads(m, s, b, FETCH);
    run_box(s, b);
    if (stores) {
        s->part = s->part == DV_WHOLE ? DV_WHOLE : DV_FINISH;
        if (s->part == DV_FINISH)
            run_box(s, b);
        store_result(m, s, b);
    }
    visit_reads(m, s, b, FORGET);
}

static void select_core(dv_sim *m, int32_t op, int64_t core)
{
    m->core = core;
    m->counts = counts_of(m, op, core);
}

// Counts the bytes of the accumulators (partial sums) that the current core
// received from another core.
static void count_ring(dv_sim *m, const dv_strips *s)
{
    int64_t n = s->n_parts * (s->k->compute == DV_IN_F32 ? 4 : 8);
    count_copied(m, m->counts, n);
}

// Runs all parts of the results of a tile, in order. If a reduction is split,
// each range of the reduced variables is a part, computed by its own tile's
// core. Each core passes its accumulators to the next; the last core finishes
// the results and stores them.
static void run_tile(dv_sim *m, dv_strips *s, int32_t op, int64_t tile)
{
    const dv_op *o = &m->plan->ops->ops[op];
    dv_tile first, b;
    int64_t parts;
    dv_plan_tile(&first, m->plan, op, tile);
    if (dv_tile_part(o, &first, &parts) != 0)
        // All parts of a result run in the call for the tile of its first part,
        // so there is nothing to do for other tiles.
        return;
    for (int64_t k = 0; k < parts && s->status == DV_OK; k++) {
        int64_t here = dv_tile_of_part(o, &first, k), before = m->core;
        dv_plan_tile(&b, m->plan, op, here);
        s->part = parts == 1 ? DV_WHOLE : k ? DV_NEXT_PART : DV_FIRST_PART;
        s->parts = m->parts;
        select_core(m, op, m->core_of[here]);
        run_core(m, s, &b, k == parts - 1);
        if (k && before != m->core)
            count_ring(m, s);
    }
}

// Returns the home (place in scratchpads) with the accumulators of an op whose
// reduction is computed in parts, one per round of a loop over tiles; NULL:
// none.
static const dv_home *accumulators_of(const dv_sim *m, int32_t op)
{
    const dv_scratch *s = &m->plan->scratch;
    for (int32_t i = 0; i < s->n_homes; i++)
        if (s->homes[i].fill == DV_FILL_SUMMED && s->homes[i].as_op == op)
            return &s->homes[i];
    return NULL;
}

// Adds the partial sums of a tile to the accumulators that its core keeps in a
// home (a place in its scratchpad); after the last part, stores the results.
static void run_round(dv_sim *m, dv_strips *s, int32_t op, int64_t tile,
                      const dv_home *home)
{
    size_t each = s->k->compute == DV_IN_F32 ? 4 : 8;
    dv_tile b;
    int64_t parts;
    dv_plan_tile(&b, m->plan, op, tile);
    int64_t part = dv_tile_part(s->k->op, &b, &parts);
    select_core(m, op, m->core_of[tile]);
    unsigned char *here =
        m->scratch + m->core * m->scratch_bytes + home->address;
    size_t room = (size_t)home->core_bytes;
    s->part = part ? DV_NEXT_PART : DV_FIRST_PART;
    s->parts = m->parts;
    if (part)
        memcpy(m->parts, here, room < m->parts_bytes ? room : m->parts_bytes);
    run_core(m, s, &b, part == parts - 1);
    size_t n = (size_t)s->n_parts * each;
    if (part < parts - 1)
        memcpy(here, m->parts, n < room ? n : room);
}

// Computes one core's partial sums of a tile into `acc`.
static void run_part(dv_sim *m, dv_strips *s, const dv_tile *b, void *acc)
{
    s->part = DV_FIRST_PART;
    s->parts = acc;
    run_core(m, s, b, 0);
}

// Finishes a tile whose sums are complete, on the core that owns it, and stores
// the results. Copying in the operands for that is not counted, because it was
// counted for the partial sums.
static void finish_part(dv_sim *m, dv_strips *s, const dv_tile *b)
{
    dv_sim_traffic all = m->moved, own = *m->counts;
    visit_reads(m, s, b, FETCH);
    m->moved = all;
    *m->counts = own;
    s->part = DV_FINISH;
    s->parts = m->parts;
    run_box(s, b);
    store_result(m, s, b);
    visit_reads(m, s, b, FORGET);
}

// Runs a tile whose reduction is split over several cores. Range number `at` of
// the grid (which assigns tiles, or parts of their sums, to cores) is the part
// of the owner, which stores the results; the other cores send their partial
// sums to the owner, in increasing order of their parts.
static void run_split_tile(dv_sim *m, dv_strips *s, const dv_group_grid *g,
                           int32_t op, int32_t at)
{
    const dv_tile_range *r = &g->ranges[at];
    dv_order o = dv_grid_order(g);
    int64_t bmn[3], owner = dv_grid_core_number(m->plan, r);
    dv_tile own, b;
    dv_range_tile(g, &o, r, 0, bmn);
    dv_grid_box(&own, m->plan, g, bmn, r->k0, r->k1);
    select_core(m, op, owner);
    run_part(m, s, &own, m->parts);
    for (int32_t k = dv_range_next(g, at); k >= 0 && s->status == DV_OK;
         k = dv_range_next(g, k)) {
        r = &g->ranges[k];
        dv_grid_box(&b, m->plan, g, bmn, r->k0, r->k1);
        select_core(m, op, dv_grid_core_number(m->plan, r));
        run_part(m, s, &b, m->peer);
        dv_strips_add(s->k, m->parts, m->peer, s->n_parts);
        if (m->core != owner)
            count_ring(m, s);
    }
    select_core(m, op, owner);
    if (s->status == DV_OK)
        finish_part(m, s, &own);
}

// Runs the tiles of a group (ops that share one tile space) on all cores, in
// the order that its grid (the assignment of tiles to cores) gives.
static void run_grid(dv_sim *m, dv_strips *s, const dv_group_grid *g,
                     int32_t op)
{
    dv_order o = dv_grid_order(g);
    for (int32_t k = 0; k < g->n_ranges && s->status == DV_OK; k++) {
        const dv_tile_range *r = &g->ranges[k];
        int64_t n = dv_range_tiles(g, r);
        if (n && dv_range_is_partial(g, r)) {
            if (r->k0 == 0)
                run_split_tile(m, s, g, op, k);
            continue;
        }
        select_core(m, op, dv_grid_core_number(m->plan, r));
        for (int64_t i = 0; i < n && s->status == DV_OK; i++) {
            int64_t bmn[3];
            dv_tile b;
            dv_range_tile(g, &o, r, i, bmn);
            dv_grid_box(&b, m->plan, g, bmn, 0, g->kt);
            s->part = DV_WHOLE;
            run_core(m, s, &b, 1);
        }
    }
}

// Finds the core of each tile. The plan may not have been checked, so its deals
// (ranges of tiles per core) are validated here.
static dv_status find_cores(dv_sim *m, const dv_group *g, dv_diag *diag)
{
    for (int64_t i = 0; i < g->n_tiles; i++)
        m->core_of[i] = -1;
    for (int32_t d = 0; d < g->n_deals; d++) {
        const dv_deal *deal = &g->deals[d];
        if (deal->core < 0 || deal->core >= m->plan->target.cores ||
            deal->first_tile < 0 || deal->n_tiles < 0 ||
            deal->first_tile > g->n_tiles - deal->n_tiles)
            return dv_fail(diag, DV_E_CHECK, dv_plan_at(m->plan, g->off),
                           "a deal is outside of the machine or the group");
        for (int64_t i = 0; i < deal->n_tiles; i++)
            m->core_of[deal->first_tile + i] = deal->core;
    }
    for (int64_t i = 0; i < g->n_tiles; i++)
        if (m->core_of[i] < 0)
            return dv_fail(diag, DV_E_CHECK, dv_plan_at(m->plan, g->off),
                           "tile %" PRId64 " is dealt to no core", i);
    for (int32_t op = g->first_op; op < g->end_op; op++)
        if (dv_plan_n_tiles(m->plan, op) != g->n_tiles)
            return dv_fail(diag, DV_E_CHECK, dv_plan_at(m->plan, g->off),
                           "op %s does not make the group's %" PRId64 " tiles",
                           m->plan->ops->ops[op].name, g->n_tiles);
    return DV_OK;
}

static void select_op(dv_sim *m, dv_strips *s, int32_t op)
{
    s->k = &m->kernels[op];
    s->images = (void *const *)m->images;
    // The core works on copies of the op's operands (s->images), of which the
    // last is that of the written tensor. If the op also reads the tensor that
    // it writes, s->old is a snapshot of it from before the op.
    s->old = NULL;
    int32_t t = s->k->op->write.tensor;
    if (s->k->old_off >= 0) {
        memcpy(m->old, m->memory[t], (size_t)m->layouts[t].bytes);
        s->old = m->old;
    }
}

// Counts the launch of an op, and the loads and copies into scratchpads that it
// requires.
static void count_start(dv_sim *m, int32_t op)
{
    const dv_scratch *s = &m->plan->scratch;
    m->starts[op].launches++;
    for (int32_t i = s->fill_at ? s->fill_at[op] : 0;
         s->fill_at && i < s->fill_at[op + 1]; i++)
        m->starts[op].transfers +=
            dv_home_is_transferred(&s->homes[s->fill_order[i]]);
}

// Runs the ops of a group one after the other, each on all cores.
static void run_ops(dv_sim *m, const dv_group *g, dv_strips *s,
                    const dv_group_grid *grid)
{
    int64_t cores = m->plan->target.cores;
    for (int32_t op = g->first_op; op < g->end_op; op++) {
        count_start(m, op);
        select_op(m, s, op);
        if (s->k->op->is_extern)
            wipe_scratch(m); // an extern op may use the scratchpads freely
        fill_homes(m, op, 0, cores);
        collect_passing(m, op);
        if (grid)
            run_grid(m, s, grid, op);
        for (int64_t tile = 0; tile < g->n_tiles && s->status == DV_OK && !grid;
             tile++)
            run_tile(m, s, op, tile);
        store_homes(m, op, 0, cores);
    }
}

// Returns whether a home (place in scratchpads) of the group holds one tile of
// each core at a time; all ops of the group must then run for a tile before the
// next one begins.
static int runs_by_tiles(const dv_sim *m, const dv_group *g)
{
    const dv_scratch *s = &m->plan->scratch;
    if (!m->scratch || !g->loops)
        return 0;
    for (int32_t i = s->fill_at[g->first_op]; i < s->fill_at[g->end_op]; i++) {
        int32_t as = s->homes[s->fill_order[i]].as_op;
        if (as >= g->first_op && as < g->end_op)
            return 1;
    }
    return 0;
}

// Runs a group that loops over tiles: all of its ops for the first tile of each
// core, then for the second tiles, and so on.
static void run_rounds(dv_sim *m, const dv_group *g, dv_strips *s)
{
    int any = 1;
    for (m->round = 0; any && s->status == DV_OK; m->round++) {
        any = 0;
        for (int32_t op = g->first_op; op < g->end_op; op++) {
            int collected = 0;
            const dv_home *sums = accumulators_of(m, op);
            if (m->round == 0)
                count_start(m, op);
            select_op(m, s, op);
            for (int64_t c = 0; c < m->plan->target.cores; c++) {
                int64_t tile = dv_group_tile(g, c, m->round);
                if (tile < 0 || s->status != DV_OK)
                    continue;
                if (!collected)
                    collect_passing(m, op);
                any = collected = 1;
                fill_homes(m, op, c, c + 1);
                if (sums)
                    run_round(m, s, op, tile, sums);
                else
                    run_tile(m, s, op, tile);
                store_homes(m, op, c, c + 1);
            }
        }
    }
    m->round = 0;
}

dv_status dv_sim_group(dv_sim *m, const dv_group *g, dv_strips *s)
{
    const dv_group_grid *grid =
        dv_grid_of(m->plan, (int32_t)(g - m->plan->groups));
    DV_TRY(find_cores(m, g, s->diag));
    m->first_core = -1;
    m->several_cores = 0;
    if (!grid && runs_by_tiles(m, g))
        run_rounds(m, g, s);
    else
        run_ops(m, g, s, grid);
    m->starts[g->first_op].syncs += m->several_cores;
    if (m->plan->scratch.tenants)
        wipe_scratch(m);
    s->images = NULL;
    s->old = NULL;
    s->part = DV_WHOLE;
    return s->status;
}
