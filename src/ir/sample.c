#include "ir/sample.h"
#include "base/clock.h"
#include "base/random.h"
#include <math.h>
#include <string.h>

enum {
    MAX_STEPS = 1 << 22,     // limit on executed ops, repeats unrolled
    MAX_KEPT = 1 << 21,      // limit on recomputed elements in memory
    LOADS_PER_LOOK = 1 << 14 // operands read between two deadline checks
};

// One version of a tensor's element: its value after a step. A step is one
// execution of an op, counted with all repeat loops unrolled.
typedef struct version {
    int32_t step;
    int64_t element;
} version;

// A recomputed element with its error bound: an entry of a hash table with
// linear probing.
typedef struct kept {
    version at; // the key; its step is 1 too large: 0 marks an empty slot
    dv_number value;
    double error;
} kept;

struct dv_sampler {
    const dv_program *p;
    dv_sampler_inputs inputs;
    dv_diag *diag;
    dv_arena arena;
    dv_point_eval **evals; // evals[op]; NULL until the op is first needed
    int32_t *op_of;        // op_of[step] is the op that the step executes
    int32_t n_steps, cap_steps;
    // The first step that can be recomputed from the tensors in inputs.kept,
    // copied before the last iteration of a repeat; INT32_MAX if there is none.
    int32_t kept_step;
    // The steps (executions of ops) that write tensor t, in order:
    // writers[first[t]] up to but not including writers[first[t + 1]].
    int32_t *first, *writers;
    kept *table;
    uint64_t n_slots, n_kept;
    version *stack; // elements to recompute, the next one on top
    int32_t n_stack, cap_stack;
    // The step whose element is being recomputed, and the height of the stack
    // when this began: entries above it are operands found missing since.
    int32_t now, depth;
    int64_t n_loads;
    double deadline_s;
    dv_sampled is;
};

// -- Unrolling repeat loops into steps, one execution of an op each ----------

int32_t dv_sampler_repeat(const dv_program *p)
{
    int32_t last = -1;
    for (int32_t i = 0, end = 0; i < p->n_repeats; i++) {
        int outermost = p->repeats[i].first_op >= end;
        if (outermost)
            end = p->repeats[i].end_op;
        if (outermost && p->repeats[i].times >= 2)
            last = i;
    }
    return last;
}

// Appends one step per execution of ops first to end - 1, with repeat loops
// unrolled. `next` is the number of the first repeat loop of the program that
// may begin there.
static dv_status unroll(dv_sampler *s, int32_t first, int32_t end, int32_t next)
{
    const dv_program *p = s->p;
    int32_t copied = s->inputs.kept ? dv_sampler_repeat(p) : -1;
    for (int32_t i = first; i < end && s->n_steps < MAX_STEPS;) {
        while (next < p->n_repeats && p->repeats[next].first_op < i)
            next++;
        const dv_repeat *r = next < p->n_repeats ? &p->repeats[next] : NULL;
        if (!r || r->first_op != i || r->end_op > end) {
            int32_t *op =
                DV_PUSH(&s->arena, int32_t, s->op_of, s->n_steps, s->cap_steps);
            if (!op)
                return dv_nomem(s->diag);
            *op = i++;
            continue;
        }
        for (int64_t n = 0; n < r->times && s->n_steps < MAX_STEPS; n++) {
            if (next == copied && n + 1 == r->times)
                s->kept_step = s->n_steps;
            DV_TRY(unroll(s, i, r->end_op, next + 1));
        }
        i = r->end_op;
    }
    return DV_OK;
}

static dv_status list_writers(dv_sampler *s)
{
    const dv_program *p = s->p;
    s->writers = DV_NEW(&s->arena, int32_t, s->n_steps + 1);
    s->first = DV_NEW(&s->arena, int32_t, p->n_tensors + 2);
    if (!s->writers || !s->first)
        return dv_nomem(s->diag);
    // A counting sort of the steps by the tensor they write: first[t + 2]
    // counts, then first[t + 1] is where the next writer of t goes.
    for (int32_t i = 0; i < s->n_steps; i++)
        s->first[p->ops[s->op_of[i]].write.tensor + 2]++;
    for (int32_t t = 0; t < p->n_tensors; t++)
        s->first[t + 2] += s->first[t + 1];
    for (int32_t i = 0; i < s->n_steps; i++)
        s->writers[s->first[p->ops[s->op_of[i]].write.tensor + 1]++] = i;
    return DV_OK;
}

// Returns the position in s->writers of the first step that writes the tensor
// at `step` or later; the end of the tensor's range if there is none.
static int32_t writer_from(const dv_sampler *s, int32_t tensor, int32_t step)
{
    int32_t lo = s->first[tensor], hi = s->first[tensor + 1];
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (s->writers[mid] < step)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

// -- Which iteration of an op writes a given element -------------------------

typedef enum written { NO, YES, UNKNOWN } written;

static int64_t size(int64_t x)
{
    return x < 0 ? -x : x;
}

// Solves index = its least value + `rise` for the variables in the mask `open`;
// `at` starts where the index is least. The terms coefficient * variable must
// form a mixed-radix number: each coefficient exceeds the sum that the terms
// with smaller ones can reach. Otherwise the answer is UNKNOWN.
static written solve(const dv_op *op, const dv_index *x, uint32_t open,
                     int64_t rise, int64_t *at)
{
    while (open) {
        int v = -1;
        int64_t reach = 0;
        for (int i = 0; i < op->n_vars; i++)
            if (open >> i & 1 && (v < 0 || size(x->coef[i]) > size(x->coef[v])))
                v = i;
        open &= ~(1u << v);
        for (int i = 0; i < op->n_vars; i++)
            if (open >> i & 1)
                reach += size(x->coef[i]) * (dv_var_len(op, i) - 1);
        int64_t c = size(x->coef[v]), n = rise / c;
        if (c <= reach)
            return UNKNOWN;
        if (rise < 0 || n >= dv_var_len(op, v))
            return NO;
        at[v] += x->coef[v] < 0 ? -n : n;
        rise -= c * n;
    }
    return rise == 0 ? YES : NO;
}

// Finds the point `at` (the values of the op's variables) at which an op writes
// an element of its tensor.
static written find_point(const dv_tensor *t, const dv_op *op, int64_t element,
                          int64_t *at)
{
    int64_t index[DV_MAX_DIMS];
    uint32_t solved = 0;
    for (int d = t->n_dims - 1; d >= 0; d--) {
        index[d] = element % t->shape[d];
        element /= t->shape[d];
    }
    for (int v = 0; v < op->n_vars; v++)
        at[v] = op->vars[v].begin;
    for (int d = 0; d < t->n_dims; d++) {
        const dv_index *x = &op->write.index[d];
        uint32_t open = 0;
        int64_t rise = index[d] - x->base;
        if (x->via >= 0)
            return UNKNOWN;
        for (int v = 0; v < op->n_vars; v++) {
            if (x->coef[v] && !(solved >> v & 1) && dv_var_len(op, v) > 1) {
                open |= 1u << v;
                at[v] = x->coef[v] < 0 ? op->vars[v].end - 1 : at[v];
            }
            rise -= x->coef[v] * at[v];
        }
        solved |= open;
        written is = solve(op, x, open, rise, at);
        if (is != YES)
            return is;
    }
    return YES;
}

// -- The stack and the hash table of recomputed elements ---------------------

// Returns the slot of an element in the hash table; the slot is empty if the
// element was not recomputed yet.
static kept *slot_of(const dv_sampler *s, version x)
{
    uint64_t at = dv_mix((uint64_t)x.element ^ dv_mix((uint64_t)x.step));
    kept *k;
    do
        k = &s->table[at++ & (s->n_slots - 1)];
    while (k->at.step &&
           (k->at.step != x.step + 1 || k->at.element != x.element));
    return k;
}

// Doubles the hash table of recomputed elements (1024 slots at first).
static dv_status grow(dv_sampler *s)
{
    const kept *old = s->table;
    uint64_t n = s->n_slots;
    s->n_slots = n ? 2 * n : 1024;
    s->table = DV_NEW(&s->arena, kept, s->n_slots);
    if (!s->table)
        return dv_nomem(s->diag);
    for (uint64_t i = 0; i < n; i++)
        if (old[i].at.step)
            *slot_of(s, (version){old[i].at.step - 1, old[i].at.element}) =
                old[i];
    return DV_OK;
}

static dv_status give_up(dv_sampler *s, dv_sampled why)
{
    s->is = why;
    return DV_E_LIMIT;
}

// Looks up a recomputed element. If it is not there yet, pushes it on the stack
// of elements to recompute; its value is then meaningless.
static dv_status ask(dv_sampler *s, version x, dv_number *value, double *error)
{
    const kept *k = slot_of(s, x);
    *value = k->value;
    if (error)
        *error = k->error;
    if (k->at.step)
        return DV_OK;
    // The value is meaningless; an infinite error bound makes the caller accept
    // an index computed from it, even if it is out of bounds.
    if (error)
        *error = INFINITY;
    // Do not push an element that is among the last 8 pushed: a sum may read
    // the same few operands many times.
    for (int32_t i = s->n_stack - 1; i >= s->depth && i >= s->n_stack - 8; i--)
        if (s->stack[i].step == x.step && s->stack[i].element == x.element)
            return DV_OK;
    if (s->n_kept >= MAX_KEPT || s->n_stack >= MAX_KEPT)
        return give_up(s, DV_SAMPLE_TOO_LARGE);
    version *top =
        DV_PUSH(&s->arena, version, s->stack, s->n_stack, s->cap_stack);
    if (!top)
        return dv_nomem(s->diag);
    *top = x;
    return DV_OK;
}

// Finds the last of the steps (executions of ops) `from` to `before` - 1 that
// wrote an element; *step is -1 if there is none.
static written find_step(const dv_sampler *s, int32_t from, int32_t before,
                         int32_t tensor, int64_t element, int32_t *step)
{
    int64_t at[DV_MAX_VARS];
    written is = NO;
    int32_t first = writer_from(s, tensor, from);
    *step = -1;
    for (int32_t w = writer_from(s, tensor, before);
         is == NO && --w >= first;) {
        *step = s->writers[w];
        is = find_point(&s->p->tensors[tensor], &s->p->ops[s->op_of[*step]],
                        element, at);
    }
    *step = is == YES ? *step : -1;
    return is;
}

// Supplies an operand to the element that is being recomputed: from memory if
// its tensor is there (unless a later step has overwritten it), otherwise from
// the recomputed elements, or from the copy of the tensor that was kept before
// the last iteration of a repeat.
static dv_status load(void *user, int32_t tensor, int64_t element,
                      dv_number *value, double *error)
{
    dv_sampler *s = user;
    int32_t begin = s->first[tensor], end = s->first[tensor + 1], step;
    const void *data = s->inputs.before[tensor];
    if (error)
        *error = 0;
    if (++s->n_loads % LOADS_PER_LOOK == 0 && dv_clock_s() > s->deadline_s)
        return give_up(s, DV_SAMPLE_LATE);
    int copied = s->now >= s->kept_step && s->inputs.kept[tensor];
    if (begin < end && s->inputs.after[tensor] &&
        writer_from(s, tensor, s->now) == end) {
        data = s->inputs.after[tensor];
    } else if (begin < end && s->inputs.after[tensor] && !copied) {
        return give_up(s, DV_SAMPLE_OVERWRITTEN);
    } else if (begin < end) {
        if (find_step(s, copied ? s->kept_step : 0, s->now, tensor, element,
                      &step) == UNKNOWN)
            return give_up(s, DV_SAMPLE_INDIRECT);
        if (step >= 0)
            return ask(s, (version){step, element}, value, error);
        data = copied ? s->inputs.kept[tensor] : data;
    }
    *value = dv_number_load(s->p->tensors[tensor].dtype, data, element);
    return DV_OK;
}

// Recomputes the element on top of the stack. If operands are missing, they are
// pushed above it, and it stays to be evaluated again after them.
static dv_status evaluate(dv_sampler *s)
{
    version top = s->stack[s->n_stack - 1];
    int32_t op = s->op_of[top.step];
    const dv_op *o = &s->p->ops[op];
    int64_t at[DV_MAX_VARS];
    kept done = {.at = {top.step + 1, top.element}};
    if (slot_of(s, top)->at.step) { // another element had it recomputed already
        s->n_stack--;
        return DV_OK;
    }
    if (!s->evals[op])
        DV_TRY(dv_point_eval_create(&s->evals[op], s->p, op, &s->inputs.options,
                                    load, s, s->diag));
    find_point(&s->p->tensors[o->write.tensor], o, top.element, at);
    s->now = top.step;
    s->depth = s->n_stack;
    DV_TRY(dv_point_eval_run(s->evals[op], at, &done.value, &done.error));
    if (s->n_stack > s->depth)
        return DV_OK;
    *slot_of(s, top) = done;
    s->n_stack--;
    return ++s->n_kept * 2 > s->n_slots ? grow(s) : DV_OK;
}

dv_status dv_sampler_element(dv_sampler *s, int32_t op, int32_t tensor,
                             int64_t element, double deadline_s, dv_sampled *is,
                             dv_number *value, double *error)
{
    int32_t step;
    written found = find_step(s, 0, s->n_steps, tensor, element, &step);
    s->is = s->n_steps == MAX_STEPS ? DV_SAMPLE_TOO_LARGE
            : found == UNKNOWN      ? DV_SAMPLE_INDIRECT
            : op >= 0 && (step < 0 || s->op_of[step] != op)
                ? DV_SAMPLE_OVERWRITTEN
                : DV_SAMPLED;
    *is = s->is;
    *error = 0;
    if (s->is != DV_SAMPLED)
        return DV_OK;
    if (step < 0) { // the input's value, which no step has changed
        *value = dv_number_load(s->p->tensors[tensor].dtype,
                                s->inputs.before[tensor], element);
        return DV_OK;
    }
    if (s->n_kept > MAX_KEPT / 2) {
        memset(s->table, 0, (size_t)s->n_slots * sizeof *s->table);
        s->n_kept = 0;
    }
    s->deadline_s = deadline_s;
    s->n_stack = s->depth = 0;
    dv_status st = ask(s, (version){step, element}, value, error);
    while (st == DV_OK && s->n_stack)
        st = evaluate(s);
    *is = s->is;
    if (s->is != DV_SAMPLED)
        return DV_OK;
    return st == DV_OK ? ask(s, (version){step, element}, value, error) : st;
}

dv_status dv_sampler_create(dv_sampler **out, const dv_program *p,
                            const dv_sampler_inputs *inputs, dv_diag *diag)
{
    dv_arena arena = {0};
    dv_sampler *s = *out = DV_NEW(&arena, dv_sampler, 1);
    if (!s)
        return dv_nomem(diag);
    *s = (dv_sampler){.p = p,
                      .inputs = *inputs,
                      .kept_step = INT32_MAX,
                      .diag = diag,
                      .arena = arena};
    s->evals = DV_NEW(&s->arena, dv_point_eval *, p->n_ops + 1);
    if (!s->evals)
        return dv_nomem(diag);
    DV_TRY(unroll(s, 0, p->n_ops, 0));
    DV_TRY(list_writers(s));
    return grow(s);
}

void dv_sampler_destroy(dv_sampler *s)
{
    for (int32_t i = 0; s && s->evals && i < s->p->n_ops; i++)
        dv_point_eval_destroy(s->evals[i]);
    dv_arena arena = s ? s->arena : (dv_arena){0};
    dv_arena_free(&arena);
}
