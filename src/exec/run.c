// Runs: the memory of one execution of an exec, and what is bound to operands.
//
// An operand that is bound with other strides than kernels use has a copy in
// the run's own memory: inputs are copied to it before an execution, outputs
// from it afterwards. An input that the program updates, but that is not an
// output, has such a copy, too.
#include "base/math.h"
#include "base/options.h"
#include "exec/state.h"
#include "kernel/kernel.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// -- Operands -----------------------------------------------------------------

dv_status dv_exec_find_operand(int32_t *tensor, const dv_exec *x,
                               const char *name, dv_diag *diag)
{
    const dv_program *p = x->plan->ops;
    int32_t i = dv_program_find(p, name);
    if (i < 0)
        return dv_fail(diag, DV_E_NAME, DV_NOWHERE, "there is no tensor %s",
                       name);
    const dv_tensor *t = &p->tensors[i];
    if (!dv_is_operand(t))
        return dv_fail(diag, DV_E_NAME, DV_NOWHERE,
                       "%s is neither an input nor an output", name);
    if (t->file)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "%s is a constant with the elements of %s, it is not "
                       "bound",
                       name, t->file);
    *tensor = i;
    return DV_OK;
}

int32_t dv_operand_tensor(const dv_program *p, int i)
{
    for (int32_t t = 0; i >= 0 && t < p->n_tensors; t++)
        if (dv_is_operand(&p->tensors[t]) && i-- == 0)
            return t;
    return -1;
}

dv_status dv_exec_operand(const dv_exec *x, int i, dv_tensor_info *out)
{
    return dv_program_tensor(x->plan->ops, dv_operand_tensor(x->plan->ops, i),
                             out);
}

dv_status dv_exec_fill(const dv_exec *x, int i, uint64_t seed, void *data)
{
    int32_t t = dv_operand_tensor(x->plan->ops, i);
    if (t < 0)
        return DV_E_USAGE;
    dv_fill(x->plan->ops, t, seed, -1, 1, data);
    return DV_OK;
}

static dv_status check_shape(const dv_tensor *t, const dv_operand *o,
                             dv_diag *diag)
{
    int same = o->n_dims == t->n_dims;
    for (int d = 0; same && d < t->n_dims; d++)
        same = o->shape[d] == t->shape[d];
    if (o->dtype == t->dtype && same)
        return DV_OK;
    dv_text wants = {0}, has = {0};
    dv_put_type(&wants, t->dtype, t->n_dims, t->shape);
    dv_put_type(&has, o->dtype, o->n_dims, o->shape);
    dv_status st = dv_fail(diag, same ? DV_E_DTYPE : DV_E_SHAPE, DV_NOWHERE,
                           "%s is %s, the operand is %s", t->name,
                           wants.at ? wants.at : "?", has.at ? has.at : "?");
    dv_text_free(&wants);
    dv_text_free(&has);
    return st;
}

// Computes the offsets in elements of the first and the last element of a
// tensor, relative to element 0. Returns 0 if they are too large.
static int find_extent(const dv_tensor *t, const int64_t *strides,
                       int64_t *first, int64_t *last)
{
    *first = *last = 0;
    for (int d = 0; d < t->n_dims; d++) {
        int64_t by, *end = strides[d] < 0 ? first : last;
        if (!dv_mul_i64(&by, t->shape[d] - 1, strides[d]) ||
            !dv_add_i64(end, *end, by))
            return 0;
    }
    return *first > -(INT64_MAX / 16) && *last < INT64_MAX / 16;
}

// Returns the distance in elements between neighbours in dim d; 0 if its extent
// is 1.
static int64_t step_of(const dv_tensor *t, const int64_t *strides, int d)
{
    return t->shape[d] > 1 ? llabs(strides[d]) : 0;
}

// Elements have different addresses if, with dims in order of increasing
// stride, each stride exceeds the span of all dims before it.
int dv_run_strides_apart(const dv_tensor *t, const int64_t *strides)
{
    uint32_t done = 0;
    int64_t reach = 0;
    for (int k = 0; k < t->n_dims; k++) {
        int least = -1;
        for (int d = 0; d < t->n_dims; d++)
            if (!(done >> d & 1) &&
                (least < 0 ||
                 step_of(t, strides, d) < step_of(t, strides, least)))
                least = d;
        done |= 1u << least;
        if (t->shape[least] > 1 && step_of(t, strides, least) <= reach)
            return 0;
        reach += (t->shape[least] - 1) * step_of(t, strides, least);
    }
    return 1;
}

dv_status dv_run_check_strides(const dv_program *p, int32_t tensor,
                               const int64_t *strides, dv_diag *diag)
{
    const dv_tensor *t = &p->tensors[tensor];
    int64_t first, last;
    if (!find_extent(t, strides, &first, &last))
        return dv_fail(diag, DV_E_OVERFLOW, DV_NOWHERE,
                       "the strides of %s reach beyond 64 bits", t->name);
    if (t->is_output && !dv_run_strides_apart(t, strides))
        return dv_fail(
            diag, DV_E_USAGE, DV_NOWHERE,
            "two elements of the output %s may share an address with "
            "these strides",
            t->name);
    return DV_OK;
}

// Sets the strides with which kernels use a tensor.
static void strides_in_kernels(const dv_exec *x, int32_t tensor, int64_t *out)
{
    const dv_tensor *t = &x->plan->ops->tensors[tensor];
    const int64_t *own = x->strides ? x->strides[tensor] : NULL;
    if (own)
        memcpy(out, own, (size_t)t->n_dims * sizeof *out);
    else
        dv_row_strides(t->n_dims, t->shape, out);
}

static int is_updated_copy(const dv_exec *x, int32_t tensor)
{
    const dv_tensor *t = &x->plan->ops->tensors[tensor];
    return x->written[tensor] && t->is_input && !t->is_output &&
           x->kind != DV_RUN_SIM;
}

// Gives an operand a copy, at whose address kernels find it, if the bound
// memory has other strides than kernels use, or must not be changed. Called
// after binding, and after kernels were prepared again.
static dv_status place_operand(dv_run *r, int32_t i, dv_diag *diag)
{
    const dv_tensor *t = &r->x->plan->ops->tensors[i];
    const dv_bound *b = &r->bound[i];
    int64_t strides[DV_MAX_DIMS], first, last;
    int copies = is_updated_copy(r->x, i);
    strides_in_kernels(r->x, i, strides);
    for (int d = 0; d < t->n_dims; d++)
        copies |= t->shape[d] > 1 && strides[d] != b->strides[d];
    dv_release(r->owned[i]);
    r->owned[i] = NULL;
    r->data[i] = b->data;
    if (!copies || !find_extent(t, strides, &first, &last))
        return DV_OK;
    r->owned[i] = dv_alloc_buffer((size_t)(last + 1) *
                                  (size_t)dv_dtype_get(t->dtype)->size_bytes);
    r->data[i] = r->owned[i];
    return r->owned[i] ? DV_OK : dv_nomem(diag);
}

dv_status dv_run_set(dv_run *r, int32_t tensor, void *data,
                     const int64_t *strides, dv_diag *diag)
{
    const dv_tensor *t = &r->x->plan->ops->tensors[tensor];
    dv_bound *b = &r->bound[tensor];
    if (!data)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "%s is bound to NULL",
                       t->name);
    b->data = data;
    if (strides)
        memcpy(b->strides, strides, (size_t)t->n_dims * sizeof *strides);
    else
        dv_row_strides(t->n_dims, t->shape, b->strides);
    r->rebound = 1;
    return place_operand(r, tensor, diag);
}

dv_status dv_exec_bind(dv_exec *x, const char *tensor, void *data,
                       size_t size_bytes, dv_diag *diag)
{
    int32_t i = -1;
    DV_TRY(dv_exec_find_operand(&i, x, tensor, diag));
    const dv_tensor *t = &x->plan->ops->tensors[i];
    if (size_bytes != (size_t)dv_tensor_bytes(t))
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "%s has %" PRId64 " bytes, %zu were given", tensor,
                       dv_tensor_bytes(t), size_bytes);
    if (t->is_const && x->n_runs)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "%s is a constant, and the exec has runs that use it",
                       tensor);
    if (t->is_const)
        dv_exec_unpack(x, i);
    return dv_run_set(&x->run, i, data, NULL, diag);
}

dv_status dv_exec_bind_strided(dv_exec *x, int operand, void *data,
                               const int64_t *strides, dv_diag *diag)
{
    const dv_program *p = x->plan->ops;
    int32_t tensor = dv_operand_tensor(p, operand);
    dv_bound *b = &x->run.bound[tensor];
    size_t bytes = (size_t)p->tensors[tensor].n_dims * sizeof *strides;
    if (b->data && data && memcmp(b->strides, strides, bytes) == 0) {
        b->data = data; // where it is, nothing else has changed
        if (!x->run.owned[tensor])
            x->run.data[tensor] = data;
        x->run.rebound = 1;
        return DV_OK;
    }
    DV_TRY(dv_run_check_strides(p, tensor, strides, diag));
    return dv_run_set(&x->run, tensor, data, strides, diag);
}

dv_status dv_run_bind(dv_run *r, const dv_operand *given, dv_diag *diag)
{
    const dv_program *p = r->x->plan->ops;
    dv_operand o = DV_OPERAND_INIT;
    int32_t i = dv_operand_tensor(p, given->number);
    DV_TRY(dv_options_read(&o, sizeof o, given, "dv_operand", diag));
    if (!o.name && i < 0)
        return dv_fail(diag, DV_E_NAME, DV_NOWHERE, "there is no operand %d",
                       o.number);
    DV_TRY(dv_exec_find_operand(&i, r->x, o.name ? o.name : p->tensors[i].name,
                                diag));
    const dv_tensor *t = &p->tensors[i];
    if (t->is_const)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "%s is a constant, which is bound to the exec", t->name);
    DV_TRY(dv_options_enum((int)o.dtype, DV_N_DTYPES, "dtype", diag));
    if (o.n_dims > 0 && !o.shape)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "%s has no shape",
                       t->name);
    DV_TRY(check_shape(t, &o, diag));
    if (o.strides)
        DV_TRY(dv_run_check_strides(p, i, o.strides, diag));
    char *at = o.data;
    return dv_run_set(r, i, at ? at + o.offset_bytes : NULL, o.strides, diag);
}

int dv_run_copies(const dv_run *r, int i)
{
    int32_t t = dv_operand_tensor(r->x->plan->ops, i);
    return t >= 0 && r->owned[t] != NULL;
}

// Copies dim `d` and all inner dims of a tensor, from strides `fs` to strides
// `ts`.
static void copy_dims(const dv_tensor *t, int d, char *to, const int64_t *ts,
                      const char *from, const int64_t *fs)
{
    size_t size = (size_t)dv_dtype_get(t->dtype)->size_bytes;
    if (d == t->n_dims) {
        memcpy(to, from, size);
        return;
    }
    if (d == t->n_dims - 1 && ts[d] == 1 && fs[d] == 1) {
        memcpy(to, from, size * (size_t)t->shape[d]);
        return;
    }
    for (int64_t i = 0; i < t->shape[d]; i++)
        copy_dims(t, d + 1, to + (ptrdiff_t)size * (i * ts[d]), ts,
                  from + (ptrdiff_t)size * (i * fs[d]), fs);
}

// Copies inputs to the run's own memory or, with `back`, outputs from it.
static void copy_operands(dv_run *r, int back)
{
    const dv_program *p = r->x->plan->ops;
    for (int32_t i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        const dv_bound *b = &r->bound[i];
        int64_t strides[DV_MAX_DIMS];
        if (!r->owned[i] || !b->data || !(back ? t->is_output : t->is_input))
            continue;
        strides_in_kernels(r->x, i, strides);
        if (back)
            copy_dims(t, 0, b->data, b->strides, r->owned[i], strides);
        else
            copy_dims(t, 0, r->owned[i], strides, b->data, b->strides);
    }
}

// Returns the greatest common divisor of `g` and the tensor's strides in bytes.
static uint64_t common_step(const dv_tensor *t, const int64_t *strides,
                            uint64_t g)
{
    uint64_t size = (uint64_t)dv_dtype_get(t->dtype)->size_bytes;
    for (int d = 0; d < t->n_dims; d++) {
        uint64_t x = (uint64_t)step_of(t, strides, d) * size;
        while (x) {
            uint64_t next = g % x;
            g = x;
            x = next;
        }
    }
    return g;
}

// Returns whether two bound tensors may share memory. They do not if one begins
// after the other ends, or if their elements are interleaved: modulo a common
// divisor of both tensors' strides, all addresses of a tensor are equal.
static int may_overlap(const dv_tensor *t, const dv_bound *x,
                       const dv_tensor *u, const dv_bound *y)
{
    int64_t size_a = dv_dtype_get(t->dtype)->size_bytes,
            size_b = dv_dtype_get(u->dtype)->size_bytes;
    int64_t first_a, last_a, first_b, last_b;
    const char *a = x->data, *b = y->data;
    if (!a || !b || !find_extent(t, x->strides, &first_a, &last_a) ||
        !find_extent(u, y->strides, &first_b, &last_b) ||
        a + first_a * size_a >= b + (last_b + 1) * size_b ||
        b + first_b * size_b >= a + (last_a + 1) * size_a)
        return 0;
    uint64_t step = common_step(t, x->strides, common_step(u, y->strides, 0));
    if (!step)
        return 1;
    uint64_t after = ((uintptr_t)a - (uintptr_t)b) % step,
             before = ((uintptr_t)b - (uintptr_t)a) % step;
    return after < (uint64_t)size_b || before < (uint64_t)size_a;
}

// Fails if a bound output overlaps any other bound tensor in memory, because an
// element could then be read after it was overwritten.
static dv_status check_overlaps(dv_run *r, dv_diag *diag)
{
    const dv_program *p = r->x->plan->ops;
    for (int i = 0; i < p->n_tensors && r->rebound; i++)
        for (int k = 0; k < p->n_tensors && p->tensors[i].is_output; k++)
            if (k != i && may_overlap(&p->tensors[i], &r->bound[i],
                                      &p->tensors[k], &r->bound[k]))
                return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                               "the memory of %s overlaps that of %s",
                               p->tensors[i].name, p->tensors[k].name);
    r->rebound = 0;
    return DV_OK;
}

// -- Memory -------------------------------------------------------------------

// Allocates the memory of the temporaries that the plan stores.
static dv_status store_temporaries(dv_run *r, dv_diag *diag)
{
    const dv_schedule *s = &r->x->plan->schedule;
    if (!dv_op_scheduled(r->x->plan, 0) || !s->n_stored)
        return DV_OK;
    r->stored = dv_alloc_buffer((size_t)dv_stored_bytes(r->x->plan));
    if (!r->stored)
        return dv_nomem(diag);
    for (int32_t i = 0; i < s->n_stored; i++)
        r->data[s->stored[i].tensor] = r->stored + s->stored[i].address;
    return DV_OK;
}

// Allocates the tensors that have no memory yet: copies of operands and, if the
// plan has no schedule, temporaries.
static dv_status own_tensors(dv_run *r, dv_diag *diag)
{
    const dv_exec *x = r->x;
    const dv_program *p = x->plan->ops;
    if (x->kind != DV_RUN_SIM)
        DV_TRY(store_temporaries(r, diag));
    for (int32_t i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        if (r->bound[i].data)
            DV_TRY(place_operand(r, i, diag));
        if (x->once && t->is_once)
            r->data[i] = x->once[i];
        if (dv_is_operand(t) || r->data[i] || (x->once && t->is_once) ||
            x->kind == DV_RUN_SIM || x->written[i] == DV_INLINED ||
            (x->strides && x->strides[i]))
            continue; // it has memory, or is never stored
        r->owned[i] = r->data[i] = dv_alloc_buffer((size_t)dv_tensor_bytes(t));
        if (!r->owned[i])
            return dv_nomem(diag);
    }
    return DV_OK;
}

// Allocates all buffers of a thread as one block, because every allocation from
// huge pages takes at least one such page.
static int make_thread_memory(dv_thread *w)
{
    enum { LINE = 64 };
    const dv_exec *x = w->run->x;
    int64_t local = dv_round_up(x->workspace_bytes, LINE);
    int64_t held = local + dv_round_up(x->local_bytes, LINE);
    int64_t stage = held + dv_round_up(x->held_bytes, LINE);
    unsigned char *at = dv_alloc_buffer((size_t)(stage + x->stage_bytes));
    if (!at)
        return 0;
    w->memory = w->workspace = at;
    w->local = at + local;
    w->held = at + held;
    w->stage = at + stage;
    return 1;
}

static int make_thread(dv_run *r, int32_t id)
{
    // Array elements of padding, so that arrays that different threads write do
    // not share cache lines.
    enum { APART = 128 / sizeof(void *) };
    const dv_exec *x = r->x;
    dv_thread *w = &r->threads[id];
    size_t n = (size_t)x->most_reads + 1 + APART;
    w->run = r;
    w->id = id;
    w->data = DV_NEW(&r->arena, void *, x->plan->ops->n_tensors + APART);
    w->at = DV_NEW(&r->arena, void *, n);
    w->from = DV_NEW(&r->arena, void *, n);
    w->buf = dv_alloc((size_t)dv_exec_strips_bytes(x));
    w->diag = dv_diag_create();
    if (!w->data || !w->at || !w->from || !w->buf || !w->diag ||
        !make_thread_memory(w))
        return 0;
    w->strips = (dv_strips){
        .p = x->plan->ops, .data = w->data, .diag = w->diag, .buf = w->buf};
    w->strips.acc = (char *)w->buf + (size_t)x->n_slots * DV_STRIP * 8;
    return 1;
}

// The number of points up to which a program runs in less than about 100 us.
// Its threads are not bound to cores: binding and unbinding the user's thread
// takes 2 us per run.
enum { SHORT = 1 << 22 };

// Makes the threads, and binds them to cores. Only the exec's own run is bound,
// since its other runs would be bound to the same cores.
static dv_status make_threads(dv_run *r, dv_diag *diag)
{
    const dv_exec *x = r->x;
    r->threads = DV_NEW(&r->arena, dv_thread, x->n_threads);
    if (!r->threads)
        return dv_nomem(diag);
    for (r->n_threads = 0; r->n_threads < x->n_threads;)
        if (!make_thread(r, r->n_threads++))
            return dv_nomem(diag);
    if (r == &x->run && x->n_threads > 1 && x->total > SHORT &&
        dv_pins_allowed() && !dv_pins_create(&r->pins, x->n_threads))
        return dv_nomem(diag);
    for (int32_t g = 0; g < x->plan->n_groups; g++)
        if (x->group[g].n_queued)
            return dv_queue_init(&r->queue, 0, x->n_threads, 1, 1)
                       ? DV_OK
                       : dv_nomem(diag);
    return DV_OK;
}

dv_status dv_run_allocate(dv_run *r, dv_diag *diag)
{
    const dv_exec *x = r->x;
    DV_TRY(own_tensors(r, diag));
    r->snapshot = dv_alloc_buffer((size_t)x->snapshot_bytes);
    if (x->all_parts_bytes)
        r->parts = dv_alloc_buffer((size_t)x->all_parts_bytes);
    if (!r->snapshot || (x->all_parts_bytes && !r->parts))
        return dv_nomem(diag);
    DV_TRY(make_threads(r, diag));
    return x->kind == DV_RUN_SIM
               ? dv_sim_create(&r->sim, x->plan, x->kernels, diag)
               : DV_OK;
}

void dv_run_release(dv_run *r)
{
    for (int32_t i = 0; r->data && i < r->x->plan->ops->n_tensors; i++) {
        dv_release(r->owned[i]);
        r->owned[i] = NULL;
        r->data[i] = r->bound[i].data;
    }
    for (int32_t i = 0; i < r->n_threads; i++) {
        dv_release(r->threads[i].memory);
        dv_release(r->threads[i].buf);
        dv_diag_destroy(r->threads[i].diag);
    }
    r->n_threads = 0;
    dv_release(r->stored);
    dv_release(r->snapshot);
    dv_release(r->parts);
    r->stored = r->parts = NULL;
    r->snapshot = NULL;
    dv_sim_destroy(r->sim);
    r->sim = NULL;
    dv_queue_free(&r->queue);
    dv_pins_destroy(r->pins);
    r->pins = NULL;
}

dv_status dv_run_init(dv_run *r, dv_exec *x, dv_diag *diag)
{
    size_t n = (size_t)x->plan->ops->n_tensors;
    void **data = DV_NEW(&r->arena, void *, n);
    r->x = x;
    r->from_repeat = -1;
    r->owned = DV_NEW(&r->arena, void *, n);
    r->bound = DV_NEW(&r->arena, dv_bound, n);
    if (!data || !r->owned || !r->bound)
        return dv_nomem(diag);
    r->data = data;
    return DV_OK;
}

void dv_run_finish(dv_run *r)
{
    dv_run_end(r);
    dv_run_release(r);
    dv_arena_free(&r->arena);
}

// Binds the exec's constants, which must be bound there, in the run as well,
// and packs them unless they are packed already.
static dv_status take_constants(dv_run *r, dv_diag *diag)
{
    dv_exec *x = r->x;
    const dv_program *p = x->plan->ops;
    for (int32_t i = 0; i < p->n_tensors; i++) {
        if (!p->tensors[i].is_const)
            continue;
        if (!x->run.bound[i].data)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "%s is a constant that is not bound",
                           p->tensors[i].name);
        r->bound[i] = x->run.bound[i];
    }
    dv_status st = DV_OK;
    pthread_mutex_lock(&x->lock);
    // Runs that are under way read `packed`, which is therefore set only once.
    if (!x->packed) {
        st = dv_exec_pack(x, r, diag);
        x->packed = st == DV_OK;
    }
    pthread_mutex_unlock(&x->lock);
    return st;
}

dv_status dv_run_create(dv_run **out, dv_exec *x, const dv_run_options *options,
                        dv_diag *diag)
{
    dv_run_options o = DV_RUN_OPTIONS_INIT;
    DV_TRY(dv_options_read(&o, sizeof o, options, "dv_run_options", diag));
    dv_run *r = dv_alloc(sizeof *r);
    if (!r)
        return dv_nomem(diag);
    *r = (dv_run){.parallel_for = o.parallel_for, .pool = o.user};
    pthread_mutex_lock(&x->lock);
    x->n_runs++;
    pthread_mutex_unlock(&x->lock);
    dv_status st = dv_run_init(r, x, diag);
    if (st == DV_OK)
        st = take_constants(r, diag);
    if (st == DV_OK)
        st = dv_run_allocate(r, diag);
    if (st == DV_OK)
        *out = r;
    else
        dv_run_destroy(r);
    return st;
}

void dv_run_destroy(dv_run *r)
{
    if (!r)
        return;
    dv_exec *x = r->x;
    dv_run_finish(r);
    pthread_mutex_lock(&x->lock);
    x->n_runs--;
    pthread_mutex_unlock(&x->lock);
    dv_release(r);
}

// -- Execution ----------------------------------------------------------------

void dv_run_watch(dv_run *r, int (*watch)(void *user, double done), void *user)
{
    r->watch = watch;
    r->watch_user = user;
}

int dv_run_is_cancelled(dv_run *r)
{
    if (!r->watch || !pthread_equal(r->caller, pthread_self()))
        return 0;
    if (!r->cancelled)
        r->cancelled = r->watch(r->watch_user, r->done / r->x->total) != 0;
    return r->cancelled;
}

dv_status dv_run_check_kernels(const dv_run *r, dv_diag *diag)
{
    const dv_exec *x = r->x;
    if (x->kind != DV_RUN_THREADS || !x->jit || dv_jit_can_run(x->jit))
        return DV_OK;
    const dv_isa *here = dv_isa_host();
    return dv_fail(diag, DV_E_SYSTEM, DV_NOWHERE,
                   "%s has kernels for %s, which this machine cannot run: it "
                   "has %s; divvy plan PROGRAM --target host plans the program "
                   "again for this machine",
                   x->plan->target.name, x->plan->target.kernels,
                   here ? here->name : "none");
}

static dv_status execute(dv_run *r, dv_diag *diag)
{
    dv_exec *x = r->x;
    const dv_program *p = x->plan->ops;
    for (int i = 0; i < p->n_tensors; i++)
        if (dv_is_operand(&p->tensors[i]) && !r->bound[i].data)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "%s is not bound",
                           p->tensors[i].name);
    DV_TRY(check_overlaps(r, diag));
    DV_TRY(dv_run_check_kernels(r, diag));
    copy_operands(r, 0);
    // No lock is needed here: other runs of the exec exist only after constants
    // were packed.
    if (!x->packed) {
        DV_TRY(dv_exec_pack(x, r, diag));
        x->packed = 1;
    }
    DV_TRY(x->kind == DV_RUN_THREADS ? dv_threads_run(r, diag)
                                     : dv_sequential_run(r, diag));
    if (!r->cancelled)
        copy_operands(r, 1);
    return DV_OK;
}

dv_status dv_run_execute(dv_run *r, dv_diag *diag)
{
    r->cancelled = 0;
    r->done = 0;
    r->caller = pthread_self();
    dv_status st = execute(r, diag);
    return r->cancelled ? dv_fail(diag, DV_E_CANCELLED, DV_NOWHERE,
                                  "the run was stopped by its caller")
                        : st;
}
