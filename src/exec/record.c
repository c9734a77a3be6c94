// Records what a run on threads calls (record.h).
//
// The run is the executor's own, on one thread that does the work of all cores
// in turn. Two things differ: kernels are replaced by functions that record
// their arguments (dv_jit_record), and nothing has memory. Each tensor and each
// thread's memory has a range of 2^48 addresses instead, of which no byte is
// ever accessed, so that the address in an argument tells what it is relative
// to.
#include "exec/record.h"
#include "base/math.h"
#include "contract/contract.h"
#include "exec/state.h"
#include <stdlib.h>
#include <string.h>

enum {
    RANGE_BITS = 48,
    MOST_RANGES = 60000,
    MOST_BODY = 48,       // calls in the body of a loop, at most
    MOST_CALLS = 1 << 17, // calls and loops of a recording, at most
    STACK = 1 << 22       // bytes of stack that a run may use
};

typedef struct recorder {
    dv_recording *r;
    dv_jit_kernel *kernels; // those described so far; in the arena
    int32_t n_kernels, cap_kernels;
    int32_t core;
    dv_calls *calls;  // of the current phase, one list per core; NULL: none
    int64_t *offset;  // by tensor: where it is in the shared memory; -1: not
    uintptr_t top;    // end of the stack of the run
    uintptr_t lowest; // the lowest address in it that an argument had
    int64_t n_calls;  // calls and loops that exist
    dv_arena arena;
    dv_status status;
    dv_diag *diag;
} recorder;

// The recorder of this thread, for record_call, which is called in place of
// kernels and has no argument for it.
static _Thread_local recorder *now;

// -- Calls and loops ----------------------------------------------------------

static void free_call(recorder *w, dv_call *c)
{
    for (int32_t i = 0; i < c->n_body; i++)
        free_call(w, c->body[i]);
    dv_release(c->body);
    dv_release(c->steps);
    dv_release(c->args);
    dv_release(c);
    if (w)
        w->n_calls--;
}

// Returns whether two calls or loops differ only in the offsets of their
// arguments.
static int alike(const dv_call *a, const dv_call *b)
{
    if (a->kernel != b->kernel || a->n_args != b->n_args ||
        a->count != b->count || a->n_body != b->n_body)
        return 0;
    for (int32_t i = 0; a->args && i < a->n_args; i++)
        if (a->args[i].base != b->args[i].base ||
            a->args[i].tensor != b->args[i].tensor)
            return 0;
    for (int32_t i = 0; a->steps && i < a->n_args; i++)
        if (a->steps[i] != b->steps[i])
            return 0;
    for (int32_t i = 0; i < a->n_body; i++)
        if (!alike(a->body[i], b->body[i]))
            return 0;
    return 1;
}

// Returns whether the arguments of b are those of a, advanced by `times` steps.
// *steps points to the step of each argument, and is moved past these.
static int is_advanced(const dv_call *a, const dv_call *b,
                       const int64_t **steps, int64_t times)
{
    for (int32_t i = 0; a->args && i < a->n_args; i++)
        if (b->args[i].off != a->args[i].off + times * *(*steps)++)
            return 0;
    for (int32_t i = 0; i < a->n_body; i++)
        if (!is_advanced(a->body[i], b->body[i], steps, times))
            return 0;
    return 1;
}

// Stores the step from each argument of a to that of b at *steps, which is
// moved past them.
static void find_steps(const dv_call *a, const dv_call *b, int64_t **steps)
{
    for (int32_t i = 0; a->args && i < a->n_args; i++)
        *(*steps)++ = b->args[i].off - a->args[i].off;
    for (int32_t i = 0; i < a->n_body; i++)
        find_steps(a->body[i], b->body[i], steps);
}

static void drop_last(recorder *w, dv_calls *list, int32_t n)
{
    while (n-- > 0)
        free_call(w, list->at[--list->n]);
}

// If the last n calls are the next iteration of the loop before them, removes
// them and increments the iteration count. Returns 1 if so.
static int extend_loop(recorder *w, dv_calls *list, int32_t n)
{
    if (list->n <= n)
        return 0;
    dv_call *loop = list->at[list->n - n - 1];
    dv_call **last = &list->at[list->n - n];
    const int64_t *steps = loop->steps;
    if (loop->kernel != DV_CALL_LOOP || loop->n_body != n)
        return 0;
    for (int32_t i = 0; i < n; i++)
        if (!alike(loop->body[i], last[i]) ||
            !is_advanced(loop->body[i], last[i], &steps, loop->count))
            return 0;
    drop_last(w, list, n);
    loop->count++;
    return 1;
}

// If the last n calls repeat the n calls before them, replaces all by a loop of
// two iterations. Returns 1 if so.
static int make_loop(recorder *w, dv_calls *list, int32_t n)
{
    if (list->n < 2 * n)
        return 0;
    dv_call **first = &list->at[list->n - 2 * n], **second = first + n;
    int32_t n_args = 0;
    for (int32_t i = 0; i < n; i++, n_args += first[i - 1]->n_args)
        if (!alike(first[i], second[i]))
            return 0;
    dv_call *loop = dv_alloc(sizeof *loop);
    dv_call **body = dv_alloc((size_t)n * sizeof *body);
    int64_t *steps = dv_alloc((size_t)n_args * sizeof *steps);
    if (!loop || !body || !steps) {
        dv_release(loop);
        dv_release(body);
        dv_release(steps);
        w->status = dv_nomem(w->diag);
        return 0;
    }
    *loop = (dv_call){.kernel = DV_CALL_LOOP,
                      .n_args = n_args,
                      .count = 2,
                      .body = body,
                      .n_body = n,
                      .steps = steps};
    for (int32_t i = 0; i < n; i++) {
        find_steps(first[i], second[i], &steps);
        body[i] = first[i];
    }
    drop_last(w, list, n);
    list->n -= n;
    list->at[list->n++] = loop;
    w->n_calls++;
    return 1;
}

// Appends a call, and makes loops of the last calls as long as they repeat.
static void append(recorder *w, dv_calls *list, dv_call *c)
{
    if (list->n == list->cap) {
        int32_t cap = list->cap ? 2 * list->cap : 16;
        dv_call **at = dv_realloc(list->at, (size_t)cap * sizeof *at);
        if (!at) {
            free_call(NULL, c);
            w->status = dv_nomem(w->diag);
            return;
        }
        list->at = at;
        list->cap = cap;
    }
    list->at[list->n++] = c;
    if (++w->n_calls > MOST_CALLS && w->status == DV_OK)
        w->status = dv_fail(w->diag, DV_E_LIMIT, DV_NOWHERE,
                            "a run has more than %d calls of kernels after "
                            "equal ones were made loops",
                            MOST_CALLS);
    for (int32_t n = 1; n <= MOST_BODY && w->status == DV_OK; n++)
        if (extend_loop(w, list, n) || make_loop(w, list, n))
            n = 0;
}

// -- Arguments ----------------------------------------------------------------

static uintptr_t range(int64_t number)
{
    return ((uintptr_t)number + 1) << RANGE_BITS | (uintptr_t)1
                                                       << (RANGE_BITS - 1);
}

static void *tensor_at(int32_t tensor)
{
    return (void *)range(tensor);
}

static void *shared_at(const recorder *w, int64_t off)
{
    return (void *)(range(w->r->plan->ops->n_tensors) + (uintptr_t)off);
}

static void *core_at(const recorder *w, int64_t off)
{
    return (void *)(range(w->r->plan->ops->n_tensors + 1) + (uintptr_t)off);
}

// Returns an address as an argument of a call: an offset in an operand, in the
// memory that cores share or in that of one core, or else a plain number.
static dv_call_arg arg_of(recorder *w, const void *address)
{
    uintptr_t p = (uintptr_t)address;
    int64_t number = (int64_t)(p >> RANGE_BITS) - 1;
    int32_t n = w->r->plan->ops->n_tensors;
    if (p < w->top && p >= w->top - STACK) {
        w->lowest = p < w->lowest ? p : w->lowest;
        return (dv_call_arg){DV_CALL_CORE, 0, -(int64_t)(w->top - p)};
    }
    if (number >= 0 && number < n + 2)
        return (dv_call_arg){number < n    ? DV_CALL_OPERAND
                             : number == n ? DV_CALL_SHARED
                                           : DV_CALL_CORE,
                             number < n ? (int32_t)number : 0,
                             (int64_t)(p - range(number))};
    // Other arguments are the values of variables, which are small, or NULL.
    if (llabs((int64_t)p) >= (int64_t)1 << 40 && w->status == DV_OK)
        w->status = dv_fail(w->diag, DV_E_USAGE, DV_NOWHERE,
                            "a kernel uses memory that only the executor has");
    return (dv_call_arg){DV_CALL_NUMBER, 0, (int64_t)p};
}

static dv_call *new_call(recorder *w, int32_t kernel, int32_t n_args)
{
    dv_call *c = dv_alloc(sizeof *c);
    dv_call_arg *args = dv_alloc((size_t)n_args * sizeof *args);
    if (!c || !args) {
        dv_release(c);
        dv_release(args);
        w->status = dv_nomem(w->diag);
        return NULL;
    }
    *c =
        (dv_call){.kernel = kernel, .n_args = n_args, .args = args, .count = 1};
    return c;
}

// Returns the description of a kernel, NULL when out of memory.
static const dv_jit_kernel *kernel_of(recorder *w, uint64_t number)
{
    while ((uint64_t)w->n_kernels <= number) {
        dv_jit_kernel *k = DV_PUSH(&w->arena, dv_jit_kernel, w->kernels,
                                   w->n_kernels, w->cap_kernels);
        if (!k) {
            w->status = dv_nomem(w->diag);
            return NULL;
        }
        dv_jit_kernel_get(w->r->jit, (uint64_t)w->n_kernels - 1, k);
    }
    return &w->kernels[number];
}

// Is called in place of kernel number `number`, and records the call.
static void record_call(const void *a, const void *b, void *c, const void *args,
                        uint64_t number)
{
    recorder *w = now;
    const dv_jit_kernel *k = w->status ? NULL : kernel_of(w, number);
    if (!k)
        return;
    const dv_vec_args *vec = k->kind == DV_JIT_VEC ? a : NULL;
    const dv_gemm_args *gemm = k->kind == DV_JIT_GEMM ? args : NULL;
    int32_t n = vec                      ? 3 + k->n_operands
                : k->kind == DV_JIT_MOVE ? 2
                : gemm                   ? DV_CALL_GEMM_ARGS
                                         : 3;
    dv_call *x = new_call(w, (int32_t)number, n);
    if (!x)
        return;
    if (vec) {
        x->args[0] = (dv_call_arg){DV_CALL_NUMBER, 0, vec->rows};
        x->args[1] = (dv_call_arg){DV_CALL_NUMBER, 0, vec->n};
        x->args[2] = arg_of(w, vec->acc);
        for (int32_t i = 0; i < k->n_operands; i++)
            x->args[3 + i] = arg_of(w, vec->at[i]);
    } else {
        const void *all[DV_CALL_GEMM_ARGS] = {a, b, n > 2 ? c : NULL};
        if (gemm) {
            all[3] = gemm->bias;
            all[4] = gemm->pack_a;
            all[5] = gemm->pack_b;
            all[6] = gemm->next;
        }
        for (int32_t i = 0; i < n; i++)
            x->args[i] = arg_of(w, all[i]);
    }
    append(w, &w->calls[w->core], x);
}

// -- Phases -------------------------------------------------------------------

static int same_call(const dv_call *a, const dv_call *b)
{
    if (!alike(a, b))
        return 0;
    for (int32_t i = 0; a->args && i < a->n_args; i++)
        if (a->args[i].off != b->args[i].off)
            return 0;
    for (int32_t i = 0; i < a->n_body; i++)
        if (!same_call(a->body[i], b->body[i]))
            return 0;
    return 1;
}

static int same_phase(const dv_calls *a, const dv_calls *b, int32_t n_cores)
{
    for (int32_t c = 0; c < n_cores; c++) {
        if (a[c].n != b[c].n)
            return 0;
        for (int32_t i = 0; i < a[c].n; i++)
            if (!same_call(a[c].at[i], b[c].at[i]))
                return 0;
    }
    return 1;
}

// Makes room for the call lists of one more phase (the work between two
// barriers), one list per core.
static int begin_phase(recorder *w)
{
    dv_recording *r = w->r;
    if (r->n_phases == r->cap_phases) {
        int32_t cap = r->cap_phases ? 2 * r->cap_phases : 8;
        dv_calls *at =
            dv_realloc(r->calls, (size_t)cap * (size_t)r->n_cores * sizeof *at);
        if (!at) {
            w->status = dv_nomem(w->diag);
            return 0;
        }
        r->calls = at;
        r->cap_phases = cap;
    }
    w->calls = &r->calls[r->n_phases * r->n_cores];
    memset(w->calls, 0, (size_t)r->n_cores * sizeof *w->calls);
    return 1;
}

// Ends a phase. If it is equal to an earlier phase, only the number of that one
// is recorded as the next step; a phase without calls is dropped.
static void end_phase(recorder *w)
{
    dv_recording *r = w->r;
    w->core = 0;
    int32_t same = 0, n_calls = 0;
    for (int32_t c = 0; c < r->n_cores; c++)
        n_calls += w->calls[c].n;
    while (same < r->n_phases &&
           !same_phase(&r->calls[same * r->n_cores], w->calls, r->n_cores))
        same++;
    if (same < r->n_phases || !n_calls)
        for (int32_t c = 0; c < r->n_cores; c++) {
            drop_last(w, &w->calls[c], w->calls[c].n);
            dv_release(w->calls[c].at);
        }
    else
        r->n_phases++;
    w->calls = NULL;
    if (!n_calls)
        return;
    if (r->n_steps == r->cap_steps) {
        int32_t cap = r->cap_steps ? 2 * r->cap_steps : 16;
        int32_t *steps = dv_realloc(r->steps, (size_t)cap * sizeof *steps);
        if (!steps) {
            w->status = dv_nomem(w->diag);
            return;
        }
        r->steps = steps;
        r->cap_steps = cap;
    }
    r->steps[r->n_steps++] = same;
}

// Records a phase: a dv_parallel_for that runs the loop over cores one by one.
static void record_phase(void *user, int n, void (*body)(void *arg, int i),
                         void *arg)
{
    recorder *w = user;
    if (w->status || !begin_phase(w))
        return;
    for (w->core = 0; w->core < n; w->core++)
        body(arg, w->core);
    end_phase(w);
}

// -- What can be recorded -----------------------------------------------------

// Returns what an op does besides calling kernels, which cannot be recorded;
// NULL: nothing.
static const char *needs_more(const dv_exec *x, int32_t group, int32_t op)
{
    const dv_op_kernels *by = &x->prepared[op];
    const dv_group_exec *p = &x->group[group];
    if (x->plan->ops->ops[op].is_extern)
        return "it is extern";
    if (p->n_queued)
        return "threads take its tiles from a queue; --policy static deals "
               "them";
    if (p->parts)
        return "its sums are split over tiles; --cores 1 or a plan with other "
               "slices does not split them";
    if (by->stage || (by->vec && dv_vec_op_is_cut(by->vec)))
        return "its reads with a border need copies of operands or rows of "
               "border values";
    if (by->guard)
        return "a run looks at the values of its operands first";
    if (!p->rows && !by->product && !by->vec)
        return "there is no kernel for it";
    return NULL;
}

static dv_status check(const dv_exec *x, dv_diag *diag)
{
    const dv_plan *plan = x->plan;
    if (x->kind != DV_RUN_THREADS || !x->jit)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "objects consist of kernels, and target %s has none",
                       plan->target.name);
    if (plan->ops->n_tensors > MOST_RANGES)
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "the program has more than %d tensors", MOST_RANGES);
    for (int32_t g = 0; g < plan->n_groups; g++)
        for (int32_t i = plan->groups[g].first_op; i < plan->groups[g].end_op;
             i++) {
            const dv_op *o = &plan->ops->ops[i];
            const char *why = needs_more(x, g, i);
            if (why)
                return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                               "%s cannot be in an object: %s",
                               plan->ops->tensors[o->write.tensor].name, why);
        }
    for (int32_t i = 0; i < x->set.n; i++)
        if (!dv_contraction_only_calls(x->set.at[i]))
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "a product copies operands between its kernels, "
                           "which objects do not do");
    return DV_OK;
}

static dv_status check_kernels(const dv_recording *r, dv_diag *diag)
{
    dv_jit_stats stats;
    dv_jit_stats_get(r->jit, &stats);
    for (int64_t i = 0; i < stats.n_kernels; i++) {
        dv_jit_kernel k;
        dv_jit_kernel_get(r->jit, (uint64_t)i, &k);
        if (k.calls || k.uses_tiles)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "kernel %s cannot be in an object: %s", k.name,
                           k.calls ? "it calls functions of this library"
                                   : "it uses AMX, for which a process needs "
                                     "permission; a target with kernels = "
                                     "\"avx512\" has others");
    }
    return DV_OK;
}

// -- The run ------------------------------------------------------------------

// Replaces pointers to memory by made-up addresses, which arg_of recognises in
// the arguments of calls, and computes the sizes of the memory.
static void place_all(recorder *w)
{
    dv_exec *x = w->r->x;
    dv_run *r = &x->run;
    const dv_program *p = x->plan->ops;
    int64_t shared = 0;
    if (r->stored)
        shared = dv_round_up(dv_stored_bytes(x->plan), 64);
    for (int32_t t = 0; t < p->n_tensors; t++) {
        unsigned char *at = r->data[t];
        w->offset[t] = -1;
        if (r->owned[t]) {
            w->offset[t] = shared;
            shared += dv_round_up(dv_tensor_bytes(&p->tensors[t]), 64);
        } else if (!dv_is_operand(&p->tensors[t]) && at) {
            w->offset[t] = at - r->stored;
        }
    }
    for (int32_t t = 0; t < p->n_tensors; t++)
        r->data[t] =
            w->offset[t] >= 0 ? shared_at(w, w->offset[t]) : tensor_at(t);
    int64_t local = dv_round_up(x->local_bytes, 64);
    for (int32_t i = 0; i < r->n_threads; i++) {
        r->threads[i].local = core_at(w, 0);
        r->threads[i].workspace = core_at(w, local);
    }
    w->r->shared_bytes = shared;
    w->r->core_bytes = local + dv_round_up(x->workspace_bytes, 64);
}

// Records a copy. If no phase is being recorded, the copy becomes a phase.
static void copied(void *user, void *to, const void *from, int64_t bytes)
{
    recorder *w = user;
    int alone = !w->calls;
    if (w->status || (alone && !begin_phase(w)))
        return;
    dv_call *c = new_call(w, DV_CALL_COPY, 3);
    if (c) {
        c->args[0] = arg_of(w, to);
        c->args[1] = arg_of(w, from);
        c->args[2] = (dv_call_arg){DV_CALL_NUMBER, 0, bytes};
        append(w, &w->calls[w->core], c);
    }
    if (alone)
        end_phase(w);
}

// Records the copies of inputs that a run updates but that are no outputs.
static void copy_inputs(recorder *w)
{
    const dv_program *p = w->r->plan->ops;
    for (int32_t t = 0; t < p->n_tensors; t++)
        if (dv_is_operand(&p->tensors[t]) && w->offset[t] >= 0)
            copied(w, shared_at(w, w->offset[t]), tensor_at(t),
                   dv_tensor_bytes(&p->tensors[t]));
}

// Runs the plan with made-up addresses in place of memory, and gives the exec's
// run its memory back afterwards.
static void run(recorder *w)
{
    dv_run *r = &w->r->x->run;
    size_t bytes = (size_t)r->n_threads * sizeof *r->threads;
    dv_thread *threads = dv_arena_alloc(&w->arena, 1, bytes);
    if (!threads) {
        w->status = dv_nomem(w->diag);
        return;
    }
    memcpy(threads, r->threads, bytes);
    place_all(w);
    copy_inputs(w);
    void *snapshot = r->snapshot;
    r->snapshot = shared_at(w, w->r->shared_bytes);
    w->r->shared_bytes += dv_round_up(w->r->x->snapshot_bytes, 64);
    r->parallel_for = record_phase;
    r->copied = copied;
    r->pool = w;
    now = w;
    dv_status st = dv_threads_run(r, w->status ? NULL : w->diag);
    now = NULL;
    r->parallel_for = NULL;
    r->copied = NULL;
    r->snapshot = snapshot;
    for (int32_t i = 0; i < r->n_threads; i++) {
        r->threads[i].local = threads[i].local;
        r->threads[i].workspace = threads[i].workspace;
    }
    if (w->status == DV_OK)
        w->status = st;
}

// Binds the operands to made-up addresses, which only identify them.
static dv_status bind(dv_exec *x, dv_diag *diag)
{
    const dv_program *p = x->plan->ops;
    for (int32_t t = 0; t < p->n_tensors; t++)
        if (dv_is_operand(&p->tensors[t]))
            DV_TRY(dv_run_set(&x->run, t, tensor_at(t), NULL, diag));
    return DV_OK;
}

// Creates the exec whose calls are recorded, which packs constants in every
// run. If the plan packs them before the first run, its loops may have no
// kernels for this.
static dv_status create_exec(dv_recording *r, dv_diag *diag)
{
    const dv_op_schedule *ops = r->plan->schedule.ops;
    int any = 0;
    dv_diag *own = dv_diag_create();
    if (!own)
        return dv_nomem(diag);
    dv_status st = dv_exec_create_recorded(&r->x, r->plan, record_call, own);
    for (int32_t i = 0; i < r->plan->ops->n_ops && ops; i++)
        any |= ops[i].once;
    int by_constants = any && (st == DV_E_CHECK || st == DV_E_NEST);
    if (!by_constants)
        dv_diag_move(diag, own);
    dv_diag_destroy(own);
    return by_constants
               ? dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                         "a product packs constants before the first run, and "
                         "its loops have no kernels that pack them in every "
                         "run; declare them as inputs")
               : st;
}

static dv_status record(dv_recording *r, dv_diag *diag)
{
    _Alignas(64) unsigned char top[64];
    recorder w = {.r = r, .diag = diag, .top = (uintptr_t)top};
    w.lowest = w.top;
    DV_TRY(create_exec(r, diag));
    DV_TRY(check(r->x, diag));
    r->jit = r->x->jit;
    r->n_cores = r->x->n_threads;
    DV_TRY(check_kernels(r, diag));
    DV_TRY(bind(r->x, diag));
    w.offset = DV_NEW(&w.arena, int64_t, r->plan->ops->n_tensors);
    if (!w.offset)
        return dv_nomem(diag);
    run(&w);
    r->stack_bytes = dv_round_up((int64_t)(w.top - w.lowest), 64);
    dv_arena_free(&w.arena);
    return w.status;
}

dv_status dv_record(dv_recording **out, const dv_plan *plan, dv_diag *diag)
{
    dv_recording *r = dv_alloc(sizeof *r);
    if (!r)
        return dv_nomem(diag);
    *r = (dv_recording){.plan = plan};
    dv_status st = record(r, diag);
    if (st == DV_OK)
        *out = r;
    else
        dv_record_destroy(r);
    return st;
}

void dv_record_destroy(dv_recording *r)
{
    if (!r)
        return;
    for (int32_t i = 0; i < r->n_phases * r->n_cores; i++) {
        for (int32_t k = 0; k < r->calls[i].n; k++)
            free_call(NULL, r->calls[i].at[k]);
        dv_release(r->calls[i].at);
    }
    dv_release(r->calls);
    dv_release(r->steps);
    dv_exec_destroy(r->x);
    dv_release(r);
}
