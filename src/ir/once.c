// Ops that depend on constants only, and on the values of their variables: they
// compute the same in every run, so that a plan may compute them once, before
// the first run (groups that are marked `once`). What they write is a constant
// of the other ops then: products pack it once.
//
//   const g: f32[N] = "g.npy"
//   s[j] = g[j] * 2                           computed once
//   m[i,j] = select(j <= i, 0, -inf)          computed once
//   y[i,j] = (x[i,j] + m[i,j]) * s[j]         computed in every run
#include "base/math.h"
#include "ir/program.h"

// A budget in bytes for the results of all ops that are computed once, beyond
// the size of the constants that they are computed from. A constant that only
// such ops read need not stay in memory, so its result takes its place; a
// dequantised matrix or a table of positions is additional.
enum { MOST_BYTES = 64 << 20 };

typedef struct finder {
    const dv_program *p;
    // For each tensor: the number of ops that write it, and whether its
    // elements are the same in all runs.
    int32_t *n_writers;
    uint8_t *same;
    uint8_t *in_repeat; // by op
    int64_t left_bytes; // of MOST_BYTES
} finder;

static void find_writers(finder *f)
{
    const dv_program *p = f->p;
    for (int32_t t = 0; t < p->n_tensors; t++)
        f->same[t] = p->tensors[t].is_const;
    for (int32_t i = 0; i < p->n_ops; i++)
        f->n_writers[p->ops[i].write.tensor]++;
    for (int32_t k = 0; k < p->n_repeats; k++)
        for (int32_t i = p->repeats[k].first_op; i < p->repeats[k].end_op; i++)
            f->in_repeat[i] = 1;
}

static dv_once decide(finder *f, int32_t i)
{
    const dv_op *o = &f->p->ops[i];
    const dv_tensor *t = &f->p->tensors[o->write.tensor];
    int64_t bytes = dv_tensor_bytes(t), more = bytes;
    if (o->is_extern || o->update || f->n_writers[o->write.tensor] > 1)
        return DV_IN_EVERY_RUN;
    for (int r = 0; r < o->n_reads; r++) {
        if (!f->same[o->reads[r].tensor])
            return DV_IN_EVERY_RUN;
        if (dv_op_reads_first(o, r))
            more -= dv_tensor_bytes(&f->p->tensors[o->reads[r].tensor]);
    }
    if (t->is_output)
        return DV_NOT_ONCE_OUTPUT;
    if (f->in_repeat[i])
        return DV_NOT_ONCE_REPEAT;
    if (more > f->left_bytes)
        return DV_NOT_ONCE_LARGE;
    f->left_bytes -= dv_max_i64(more, 0);
    f->same[o->write.tensor] = 1;
    return DV_ONCE;
}

int dv_program_find_once(const dv_program *p, dv_once *once)
{
    dv_arena arena = {0};
    finder f = {.p = p,
                .n_writers = DV_NEW(&arena, int32_t, p->n_tensors),
                .same = DV_NEW(&arena, uint8_t, p->n_tensors),
                .in_repeat = DV_NEW(&arena, uint8_t, p->n_ops),
                .left_bytes = MOST_BYTES};
    int ok = f.n_writers && f.same && f.in_repeat;
    if (ok)
        find_writers(&f);
    for (int32_t i = 0; ok && i < p->n_ops; i++)
        once[i] = decide(&f, i);
    dv_arena_free(&arena);
    return ok;
}

// Returns how many ops with number `op` or a larger one are computed once.
static int32_t count_from(const dv_program *p, const dv_once *once, int32_t op)
{
    int32_t n = 0;
    for (; op < p->n_ops; op++)
        n += once[op] == DV_ONCE;
    return n;
}

static int reorder(dv_program *p, const dv_once *once)
{
    int32_t n = 0;
    dv_op *ops = DV_NEW(&p->arena, dv_op, p->n_ops);
    if (!ops)
        return 0;
    for (int turn = 0; turn < 2; turn++)
        for (int32_t i = 0; i < p->n_ops; i++)
            if ((once[i] == DV_ONCE) != turn)
                ops[n++] = p->ops[i];
    for (int32_t k = 0; k < p->n_repeats; k++) {
        dv_repeat *r = &p->repeats[k];
        int32_t by = count_from(p, once, r->first_op);
        r->first_op += by;
        r->end_op += by;
    }
    p->ops = ops;
    p->cap_ops = p->n_ops;
    return 1;
}

dv_status dv_program_once_first(dv_program *p, dv_diag *diag)
{
    dv_arena arena = {0};
    dv_once *once = DV_NEW(&arena, dv_once, p->n_ops);
    int32_t *new_of, n = 0;
    int ok = once && dv_program_find_once(p, once);
    while (ok && n < p->n_ops && once[n] == DV_ONCE)
        n++;
    int moves = ok && count_from(p, once, n) > 0;
    if (moves)
        ok = reorder(p, once);
    dv_arena_free(&arena);
    if (!ok)
        return dv_nomem(diag);
    if (!moves)
        return DV_OK;
    DV_TRY(dv_program_renumber(p, &new_of, diag));
    return dv_program_name_ops(p, diag);
}
