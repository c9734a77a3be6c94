// Orders the operations of a run: a sequence without jumps, made of the
// unrolled copies of a section of a kernel.
#include "jit/vec/alloc.h"
#include <string.h>

int dv_vec_is_effect(const dv_vec_value *v)
{
    return v->op == DV_V_STORE || v->op == DV_V_ACCUM || v->op == DV_V_ACCUM2;
}

static int is_slow(const dv_vec_value *v)
{
    return v->op == DV_V_FDIV || v->op == DV_V_FSQRT;
}

static int is_in(const dv_vec_alloc *a, int32_t v, dv_vec_section section)
{
    return a->vals[v].section == section && a->live[v] &&
           a->vals[v].op != DV_V_REDUCED;
}

// Are all arguments of value v that belong to the same section of the kernel
// computed by the n operations that ops[] lists so far?
static int is_ready(const dv_vec_alloc *a, int32_t v, const int32_t *ops,
                    int32_t n)
{
    for (int i = 0; i < a->vals[v].n_args; i++) {
        int32_t x = a->vals[v].arg[i], k = 0;
        while (k < n && ops[k] != x)
            k++;
        if (k == n && is_in(a, x, (dv_vec_section)a->vals[v].section))
            return 0;
    }
    return 1;
}

// For each of n operations, finds the index of the last operation that uses its
// value.
static void find_last(const dv_vec_alloc *a, const int32_t *ops, int32_t n,
                      int32_t *last)
{
    for (int32_t i = 0; i < n; i++) {
        last[i] = i;
        for (int k = 0; k < a->vals[ops[i]].n_args; k++)
            for (int32_t x = 0; x < i; x++)
                if (ops[x] == a->vals[ops[i]].arg[k])
                    last[x] = i;
    }
}

static int alive_after(const int32_t *last, int32_t i)
{
    int n = 0;
    for (int32_t x = 0; x <= i; x++)
        n += last[x] > i;
    return n;
}

int dv_vec_staggered_pressure(const dv_vec_alloc *a, const int32_t *ops,
                              int32_t n, int32_t lag, int32_t *last)
{
    int most = 0;
    find_last(a, ops, n, last);
    for (int32_t i = 0; i < n; i++) {
        int now = alive_after(last, i);
        now += i >= lag ? alive_after(last, i - lag) : 0;
        most = now > most ? now : most;
    }
    return most;
}

enum { AT_A_TIME = 2 };

int32_t dv_vec_interleave(const dv_vec_alloc *a, dv_vec_section section,
                          int32_t *ops)
{
    int32_t at[DV_VEC_MAX_STATEMENTS], n = 0, left = a->n_statements;
    memcpy(at, a->from, (size_t)a->n_statements * sizeof *at);
    while (left) {
        left = 0;
        for (int s = 0; s < a->n_statements; s++) {
            for (int k = 0; k < AT_A_TIME && at[s] < a->from[s + 1]; at[s]++) {
                if (!is_in(a, at[s], section))
                    continue;
                if (!is_ready(a, at[s], ops, n) ||
                    (k && a->vals[at[s]].op == DV_V_STORE))
                    break;
                ops[n++] = at[s];
                k++;
            }
            left += at[s] < a->from[s + 1];
        }
    }
    return n;
}

enum { BEHIND = 2, HALF_BEHIND = 4, LONG = 12 };

// Is operation i an addition to an accumulator, or a load whose value only such
// additions use?
static int ends_sum(const dv_vec_alloc *a, const int32_t *ops, int32_t n,
                    int32_t i)
{
    const dv_vec_value *v = &a->vals[ops[i]];
    int ends = v->op == DV_V_ACCUM || v->op == DV_V_ACCUM2;
    if (v->op != DV_V_LOAD)
        return ends;
    for (int32_t x = i + 1; x < n; x++) {
        const dv_vec_value *w = &a->vals[ops[x]];
        int is_use = 0;
        for (int k = 0; k < w->n_args; k++)
            is_use |= w->arg[k] == ops[i];
        if (is_use && w->op != DV_V_ACCUM && w->op != DV_V_ACCUM2)
            return 0;
    }
    return 1;
}

static int32_t put_copies(dv_vec_alloc *a, int32_t n, int32_t op, int from,
                          int to)
{
    for (int k = from; k < to; k++)
        a->seq[n++] = op * DV_VEC_MAX_UNROLL + k;
    return n;
}

// Orders a run (a sequence of operations without jumps) so that all unrolled
// copies of one operation come before the next operation. For operations that
// end a sum (ends_sum), the second half of the copies is delayed: additions,
// multiplications and multiply-adds have different latencies, those that
// complete in the same cycle delay each other, and alternating a few of each
// was the fastest. A load is placed before the second half of the operation
// that it follows.
static int32_t all_in_order(dv_vec_alloc *a, const dv_vec_run *run,
                            const int32_t *ops, int32_t n_ops)
{
    int half = run->copies / 2, is_there = 0;
    int32_t n = 0;
    for (int32_t t = 0; t < n_ops + BEHIND; t++) {
        int32_t late = t - BEHIND, next = t + 1;
        int now = t < n_ops && !is_there;
        int load = next < n_ops && a->vals[ops[next]].op == DV_V_LOAD;
        if (now)
            n = put_copies(a, n, ops[t], 0, half);
        is_there = now && load;
        if (is_there)
            n = put_copies(a, n, ops[next], 0,
                           ends_sum(a, ops, n_ops, next) ? half : run->copies);
        if (now && !ends_sum(a, ops, n_ops, t))
            n = put_copies(a, n, ops[t], half, run->copies);
        if (late >= 0 && ends_sum(a, ops, n_ops, late))
            n = put_copies(a, n, ops[late], half, run->copies);
    }
    return n;
}

int dv_vec_order_pressure(dv_vec_alloc *a, const dv_vec_run *run)
{
    int32_t n = dv_vec_order(a, run), *last = a->last;
    int most = 0, now = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < n; i++) {
            const dv_vec_value *v = &a->vals[a->seq[i] / DV_VEC_MAX_UNROLL];
            int copy = a->seq[i] % DV_VEC_MAX_UNROLL;
            if (pass == 0)
                last[a->seq[i]] = i;
            for (int k = 0; k < v->n_args; k++) {
                int32_t x = v->arg[k] * DV_VEC_MAX_UNROLL + copy;
                int mine = a->vals[v->arg[k]].section == run->section;
                if (mine && pass == 0)
                    last[x] = i;
                else if (mine && last[x] == i) {
                    now--;
                    // If both arguments of the operation are this value, it
                    // must be counted only once.
                    last[x] = -1;
                }
            }
            now += pass && last[a->seq[i]] > i;
            most = now > most ? now : most;
        }
    return most;
}

// Orders the operations of a kernel of several statements. The unrolled copies
// form groups of as many as registers allow; each group lags a->lag
// operations behind the one before, and groups alternate after every two
// copies.
static int32_t interleave_in_order(dv_vec_alloc *a, const dv_vec_run *run)
{
    int group = a->together < run->copies ? a->together : run->copies;
    int turn = group < 2 ? group : 2;
    // The array a->after is not in use yet and serves as scratch memory.
    int32_t n = 0, *ops = a->after;
    int32_t n_ops = dv_vec_interleave(a, run->section, ops);
    if (group == run->copies)
        return all_in_order(a, run, ops, n_ops);
    int32_t steps = n_ops + a->lag * (run->copies / group - 1);
    for (int32_t t = 0; t < steps; t++)
        for (int i = 0; i < run->copies; i++) {
            // Pairs of copies alternate between groups; two groups of four
            // copies give the order 0 1, 4 5, 2 3, 6 7.
            int round = i / turn, groups = run->copies / group;
            int k = round % groups * group + round / groups * turn + i % turn;
            int32_t op = t - a->lag * (k / group);
            if (op >= 0 && op < n_ops)
                a->seq[n++] = ops[op] * DV_VEC_MAX_UNROLL + k;
        }
    return n;
}

// Orders the operations of a run (a sequence without jumps), all unrolled
// copies of one before the next. The divider is a single slow unit: if there is
// a division, each pair of copies lags some operations behind the pair before,
// so that the other units have work meanwhile. In other long runs half of the
// copies lag: the processor looks about forty operations ahead and finds more
// independent work this way.
int32_t dv_vec_order(dv_vec_alloc *a, const dv_vec_run *run)
{
    // The array a->after is not in use yet and serves as scratch memory.
    int32_t n = 0, n_ops = 0, *ops = a->after;
    int groups = 1, lag = BEHIND;
    if (a->n_statements > 1)
        return interleave_in_order(a, run);
    int32_t watched = -1, effect = INT32_MAX;
    for (int32_t v = 0; v < a->n_vals; v++) {
        if (!is_in(a, v, run->section))
            continue;
        if (a->vals[v].op == DV_V_WATCH)
            watched = n_ops;
        if (dv_vec_is_effect(&a->vals[v]) && n_ops < effect)
            effect = n_ops;
        ops[n_ops++] = v;
        if (is_slow(&a->vals[v]) && run->copies > 1)
            groups = run->copies / 2;
    }
    if (groups == 1 && run->copies > 1 && n_ops >= LONG) {
        groups = 2;
        lag = HALF_BEHIND;
    }
    // If a copy that lags would check its arguments (WATCH) after another copy
    // has stored or accumulated, no copy may lag.
    if (watched + lag * (groups - 1) >= effect)
        groups = 1;
    // Number of operations by which each unrolled copy lags behind the first.
    int32_t late[DV_VEC_MAX_UNROLL];
    for (int k = 0; k < run->copies; k++)
        late[k] = lag * (k * groups / run->copies);
    for (int32_t i = 0; i < n_ops + lag * (groups - 1); i++)
        for (int k = 0; k < run->copies; k++) {
            int32_t op = i - late[k];
            if (op >= 0 && op < n_ops && (k == 0 || a->copies[ops[op]]))
                a->seq[n++] = ops[op] * DV_VEC_MAX_UNROLL + k;
        }
    return n;
}
