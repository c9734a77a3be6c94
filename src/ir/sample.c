#include "ir/sample.h"
#include "base/clock.h"
#include "base/random.h"
#include <string.h>

enum {
    MAX_STEPS = 1 << 22,     // most steps that a program is unrolled into
    MAX_KEPT = 1 << 21,      // most elements that are kept at a time
    LOADS_PER_LOOK = 1 << 14 // operands between two looks at the clock
};

// An element as a step left it.
typedef struct place {
    int32_t step;
    int64_t element;
} place;

// A recomputed element, in a hash table with linear probing.
typedef struct kept {
    place at; // the step counts from 1; 0: this slot is empty
    dv_number value;
    double error;
} kept;

struct dv_sampler {
    const dv_program *p;
    dv_sampler_how how;
    dv_diag *diag;
    dv_arena arena;
    dv_point_eval **evals; // by op; NULL until the op is first needed
    int32_t *op_of;        // by step: its op
    int32_t n_steps, cap_steps;
    // The steps that write tensor t, in order: writers[first[t]] up to but not
    // including writers[first[t + 1]].
    int32_t *first, *writers;
    kept *table;
    uint64_t n_slots, n_kept;
    place *stack; // elements to be recomputed, the next one last
    int32_t n_stack, cap_stack;
    // The evaluation that is under way: its step, and the size of the stack
    // before it.
    int32_t now, depth;
    int64_t n_loads;
    double deadline_s;
    dv_sampled is;
};

// -- Steps -------------------------------------------------------------------

// Appends the steps of ops first to end - 1; `next` is the number of the first
// repeat among them.
static dv_status unroll(dv_sampler *s, int32_t first, int32_t end, int32_t next)
{
    const dv_program *p = s->p;
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
        for (int64_t n = 0; n < r->times && s->n_steps < MAX_STEPS; n++)
            DV_TRY(unroll(s, i, r->end_op, next + 1));
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
    // A counting sort by tensor: first[t + 2] counts, then first[t + 1] is
    // where the next writer of t goes.
    for (int32_t i = 0; i < s->n_steps; i++)
        s->first[p->ops[s->op_of[i]].write.tensor + 2]++;
    for (int32_t t = 0; t < p->n_tensors; t++)
        s->first[t + 2] += s->first[t + 1];
    for (int32_t i = 0; i < s->n_steps; i++)
        s->writers[s->first[p->ops[s->op_of[i]].write.tensor + 1]++] = i;
    return DV_OK;
}

// Returns the number in `writers` of the first writer of a tensor that is not
// before `step`.
static int32_t writer_from(const dv_sampler *s, int32_t tensor, int64_t step)
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

// -- Which point of an op writes an element ----------------------------------

typedef enum written { NO, YES, UNKNOWN } written;

static int64_t size(int64_t x)
{
    return x < 0 ? -x : x;
}

// Finds the values of the variables in the mask `open` for which an index,
// which now has its least value, grows by `rise`. The terms must form a
// mixed-radix number: each coefficient exceeds what the smaller terms reach.
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

// Finds the point at which an op writes an element of its tensor.
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

// -- Recomputed elements -----------------------------------------------------

// Returns the slot of an element, which is empty if it was not recomputed.
static kept *slot_of(const dv_sampler *s, place x)
{
    uint64_t at = dv_mix((uint64_t)x.element ^ dv_mix((uint64_t)x.step));
    kept *k;
    do
        k = &s->table[at++ & (s->n_slots - 1)];
    while (k->at.step &&
           (k->at.step != x.step + 1 || k->at.element != x.element));
    return k;
}

// Doubles the table.
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
            *slot_of(s, (place){old[i].at.step - 1, old[i].at.element}) =
                old[i];
    return DV_OK;
}

static dv_status give_up(dv_sampler *s, dv_sampled why)
{
    s->is = why;
    return DV_E_LIMIT;
}

// Gives an element if it was recomputed before. Otherwise it is recomputed
// next.
static dv_status ask(dv_sampler *s, place x, dv_number *value, double *error)
{
    const kept *k = slot_of(s, x);
    *value = k->value;
    if (error)
        *error = k->error;
    if (k->at.step)
        return DV_OK;
    // A sum may ask for the same few operands again and again.
    for (int32_t i = s->n_stack - 1; i >= s->depth && i >= s->n_stack - 8; i--)
        if (s->stack[i].step == x.step && s->stack[i].element == x.element)
            return DV_OK;
    if (s->n_kept >= MAX_KEPT || s->n_stack >= MAX_KEPT)
        return give_up(s, DV_SAMPLE_TOO_LARGE);
    place *top = DV_PUSH(&s->arena, place, s->stack, s->n_stack, s->cap_stack);
    if (!top)
        return dv_nomem(s->diag);
    *top = x;
    return DV_OK;
}

// Finds the last step before step number `before` that wrote an element; *step
// is -1 if there is none.
static written find_step(const dv_sampler *s, int64_t before, int32_t tensor,
                         int64_t element, int32_t *step)
{
    int64_t at[DV_MAX_VARS];
    written is = NO;
    *step = -1;
    for (int32_t w = writer_from(s, tensor, before);
         is == NO && --w >= s->first[tensor];) {
        *step = s->writers[w];
        is = find_point(&s->p->tensors[tensor], &s->p->ops[s->op_of[*step]],
                        element, at);
    }
    *step = is == YES ? *step : -1;
    return is;
}

// Gives an operand to the evaluation that is under way.
static dv_status load(void *user, int32_t tensor, int64_t element,
                      dv_number *value, double *error)
{
    dv_sampler *s = user;
    int32_t begin = s->first[tensor], end = s->first[tensor + 1], step;
    const void *data = s->how.before[tensor];
    if (error)
        *error = 0;
    if (++s->n_loads % LOADS_PER_LOOK == 0 && dv_clock_s() > s->deadline_s)
        return give_up(s, DV_SAMPLE_LATE);
    if (begin < end && s->how.after[tensor]) {
        if (writer_from(s, tensor, s->now) < end)
            return give_up(s, DV_SAMPLE_OVERWRITTEN);
        data = s->how.after[tensor];
    } else if (begin < end) {
        if (find_step(s, s->now, tensor, element, &step) == UNKNOWN)
            return give_up(s, DV_SAMPLE_INDIRECT);
        if (step >= 0)
            return ask(s, (place){step, element}, value, error);
    }
    *value = dv_number_load(s->p->tensors[tensor].dtype, data, element);
    return DV_OK;
}

// Evaluates the element on top of the stack. If it lacks operands, these are
// then above it, and it is evaluated again after them.
static dv_status evaluate(dv_sampler *s)
{
    place top = s->stack[s->n_stack - 1];
    int32_t op = s->op_of[top.step];
    const dv_op *o = &s->p->ops[op];
    int64_t at[DV_MAX_VARS];
    kept done = {.at = {top.step + 1, top.element}};
    if (slot_of(s, top)->at.step) { // it was pushed twice
        s->n_stack--;
        return DV_OK;
    }
    if (!s->evals[op])
        DV_TRY(dv_point_eval_create(&s->evals[op], s->p, op, &s->how.options,
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
    written found = find_step(s, s->n_steps, tensor, element, &step);
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
                                s->how.before[tensor], element);
        return DV_OK;
    }
    if (s->n_kept > MAX_KEPT / 2) {
        memset(s->table, 0, (size_t)s->n_slots * sizeof *s->table);
        s->n_kept = 0;
    }
    s->deadline_s = deadline_s;
    s->n_stack = s->depth = 0;
    dv_status st = ask(s, (place){step, element}, value, error);
    while (st == DV_OK && s->n_stack)
        st = evaluate(s);
    *is = s->is;
    if (s->is != DV_SAMPLED)
        return DV_OK;
    return st == DV_OK ? ask(s, (place){step, element}, value, error) : st;
}

dv_status dv_sampler_create(dv_sampler **out, const dv_program *p,
                            const dv_sampler_how *how, dv_diag *diag)
{
    dv_arena arena = {0};
    dv_sampler *s = *out = DV_NEW(&arena, dv_sampler, 1);
    if (!s)
        return dv_nomem(diag);
    *s = (dv_sampler){.p = p, .how = *how, .diag = diag, .arena = arena};
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
