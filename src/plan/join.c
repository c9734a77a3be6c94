// Concatenations in place, for targets whose kernels read and write tensors
// with any strides. A concatenation is a tensor that one statement fills and
// others overwrite with other tensors, its pieces:
//
//   a[i,j] = sum[k] …                         c[i,j] = 0
//   c[i,j] = 0                                c[i,j] <- sum[k] …
//   c[i,j] <- a[i,j]                      ->  c[i + 8,j] <- b[i,j]
//   c[i + 8,j] <- b[i,j]                      y[i] = sum[j] c[i,j]
//   y[i] = sum[j] c[i,j]
//
// A reduction whose result is such a piece writes into the concatenation
// itself, and other ops that read the result read it there. A piece may have
// other dims than its tensor: c[2*i+k,j] <- a[i,k,j], as what a transposed
// convolution computes. A concatenation whose pieces are all pieces of a later
// one, in the same places, is a slice of that: dense blocks (DenseNet)
// concatenate what all layers before have computed, and so need one tensor
// instead of one a layer. Statements of the later one then run where those of
// the earlier one did.
#include "base/math.h"
#include "plan/source.h"
#include <stdlib.h>

// The copy of a tensor, by op number `op`, to a box of a concatenation. The box
// begins at index at[d] of dim d and has size[d] elements along it.
typedef struct piece {
    int32_t op, tensor;
    // 1 if dim d of the box is dim d of the tensor, for all dims.
    int is_box_of_tensor;
    int64_t at[DV_MAX_DIMS], size[DV_MAX_DIMS];
} piece;

// What the pass knows of a tensor: whether it is a concatenation, and of which
// pieces.
typedef struct joined {
    int32_t fill;      // the op that defines it; -1: it is no concatenation
    int32_t n, first;  // its pieces: pieces[first] to pieces[first + n - 1]
    int32_t n_writers; // the number of ops that write it; also of other tensors
    int32_t writer;    // its first writer
    int32_t last;      // its last writer
} joined;

// An op and its sort key: when all concatenations are done, the ops are sorted
// by their keys.
typedef struct spot {
    int64_t key;
    int32_t op;
} spot;

typedef struct joiner {
    dv_program *p;
    joined *of;    // by tensor
    piece *pieces; // of all concatenations, each one's together
    // Readers of tensor t: readers[first[t]] up to readers[first[t + 1]].
    int32_t *first, *readers;
    uint8_t *gone; // by op: 1 if it is removed
    int64_t *key;  // by op
    int32_t n_gone;
    // Names of the tensors that the pass replaced by slices of other tensors.
    const char **names;
    int32_t n_names;
} joiner;

static int same_dtype(const dv_program *p, int32_t a, int32_t b)
{
    return p->tensors[a].dtype == p->tensors[b].dtype;
}

// Returns whether the op's only read is of all elements of a tensor: each of
// its dims is indexed by a variable of its own.
static int reads_whole(const dv_program *p, const dv_op *o)
{
    const dv_access *r = &o->reads[0];
    uint32_t seen = 0;
    for (int d = 0; d < r->n_dims; d++) {
        int v =
            dv_index_whole_var(o, &r->index[d], p->tensors[r->tensor].shape[d]);
        if (v == DV_NO_VAR ||
            (v >= 0 && (r->index[d].coef[v] != 1 || seen >> v & 1)))
            return 0;
        seen |= v >= 0 ? 1U << v : 0;
    }
    return 1;
}

// Returns whether the op only copies a whole tensor to a box of another tensor,
// and describes that copy in *to.
static int find_piece(const dv_program *p, int32_t op, piece *to)
{
    const dv_op *o = &p->ops[op];
    const dv_access *w = &o->write, *r = &o->reads[0];
    int64_t n = 1;
    uint32_t seen = 0;
    if (!o->update || o->is_extern || o->body->kind != DV_EXPR_READ ||
        o->n_reads != 1 || r->has_border || r->tensor == w->tensor ||
        !same_dtype(p, r->tensor, w->tensor) || dv_access_is_indirect(r) ||
        dv_access_is_indirect(w) || !reads_whole(p, o))
        return 0;
    *to = (piece){.op = op,
                  .tensor = r->tensor,
                  .is_box_of_tensor = r->n_dims == w->n_dims};
    for (int d = 0; d < w->n_dims; d++) {
        dv_digits g;
        if (!dv_index_digits(&g, o, &w->index[d]))
            return 0;
        to->at[d] = g.base;
        to->size[d] = g.size;
        n *= g.size;
        for (int i = 0; i < g.n; i++) {
            if (seen >> g.var[i] & 1)
                return 0;
            seen |= 1U << g.var[i];
        }
        to->is_box_of_tensor = to->is_box_of_tensor && g.n <= 1 &&
                               (g.n == 0 || r->index[d].coef[g.var[0]] == 1) &&
                               g.size == p->tensors[r->tensor].shape[d];
    }
    return n == p->tensors[r->tensor].n_elems;
}

static int overlap(const dv_program *p, const piece *a, const piece *b)
{
    int32_t in = p->ops[a->op].write.tensor;
    for (int d = 0; d < p->tensors[in].n_dims; d++)
        if (a->at[d] >= b->at[d] + b->size[d] ||
            b->at[d] >= a->at[d] + a->size[d])
            return 0;
    return 1;
}

// Returns whether the pieces of a tensor cover it without overlaps, and the
// tensor is read only after the last one is written.
static int is_filled(const joiner *j, int32_t t)
{
    const joined *of = &j->of[t];
    const piece *at = &j->pieces[of->first];
    int64_t n = 0;
    for (int32_t i = 0; i < of->n; i++) {
        n += j->p->tensors[at[i].tensor].n_elems;
        for (int32_t k = 0; k < i; k++)
            if (overlap(j->p, &at[i], &at[k]))
                return 0;
    }
    for (int32_t i = j->first[t]; i < j->first[t + 1]; i++)
        if (j->readers[i] < of->last)
            return 0;
    return n == j->p->tensors[t].n_elems;
}

// Lists for each tensor the ops that read it, each op once. Returns 0 when out
// of memory.
static int find_readers(joiner *j, dv_arena *arena)
{
    const dv_program *p = j->p;
    int64_t n = 0;
    j->first = DV_NEW(arena, int32_t, p->n_tensors + 2);
    for (int32_t i = 0; j->first && i < p->n_ops; i++)
        for (int r = 0; r < p->ops[i].n_reads; r++)
            if (dv_op_reads_first(&p->ops[i], r)) {
                j->first[p->ops[i].reads[r].tensor + 2]++;
                n++;
            }
    j->readers = DV_NEW(arena, int32_t, n + 1);
    if (!j->first || !j->readers)
        return 0;
    for (int32_t t = 0; t < p->n_tensors; t++)
        j->first[t + 2] += j->first[t + 1];
    for (int32_t i = 0; i < p->n_ops; i++)
        for (int r = 0; r < p->ops[i].n_reads; r++)
            if (dv_op_reads_first(&p->ops[i], r))
                j->readers[j->first[p->ops[i].reads[r].tensor + 1]++] = i;
    return 1;
}

// Finds all concatenations: tensors that are filled by copies of others.
// Returns 0 when out of memory.
static int find_joined(joiner *j, dv_arena *arena)
{
    const dv_program *p = j->p;
    int32_t n = 0;
    j->of = DV_NEW(arena, joined, p->n_tensors);
    j->pieces = DV_NEW(arena, piece, p->n_ops);
    if (!j->of || !j->pieces)
        return 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        joined *of = &j->of[p->ops[i].write.tensor];
        piece found;
        int fills =
            !p->ops[i].update && !p->ops[i].n_reads && !p->ops[i].is_extern;
        if (of->n_writers++ == 0) {
            *of = (joined){fills ? i : -1, 0, 0, 1, i, i};
            continue;
        }
        of->last = i;
        of->n += of->fill >= 0 && find_piece(p, i, &found);
    }
    for (int32_t t = 0; t < p->n_tensors; t++) {
        joined *of = &j->of[t];
        int is = of->n_writers > 1 && of->fill >= 0 &&
                 of->n == of->n_writers - 1 && !p->tensors[t].is_input;
        of->fill = is ? of->fill : -1;
        of->first = n;
        n += is ? of->n : 0;
        of->n = 0;
    }
    for (int32_t i = 0; i < p->n_ops; i++) {
        joined *of = &j->of[p->ops[i].write.tensor];
        if (of->fill >= 0 && i != of->fill)
            find_piece(p, i, &j->pieces[of->first + of->n++]);
    }
    for (int32_t t = 0; t < p->n_tensors; t++)
        if (j->of[t].fill >= 0 && !is_filled(j, t))
            j->of[t].fill = -1;
    return 1;
}

static void name_slice(joiner *j, int32_t t)
{
    j->names[j->n_names++] = j->p->tensors[t].name;
}

static void remove_op(joiner *j, int32_t op)
{
    j->gone[op] = 1;
    j->n_gone++;
}

// Redirects an access to tensor t, in which the elements accessed before are
// the box that begins at index at[d] of dim d. Returns 0 when out of memory.
static int shift(const joiner *j, dv_access *a, int32_t t, const int64_t *at)
{
    dv_index *index = DV_NEW(&j->p->arena, dv_index, a->n_dims);
    if (!index)
        return 0;
    for (int d = 0; d < a->n_dims; d++) {
        index[d] = a->index[d];
        index[d].base += at[d];
    }
    a->index = index;
    a->tensor = t;
    return 1;
}

// Returns the piece of a concatenation that is a copy of tensor t, or NULL.
static piece *piece_of(const joiner *j, int32_t in, int32_t t)
{
    piece *at = &j->pieces[j->of[in].first];
    for (int32_t i = 0; i < j->of[in].n; i++)
        if (at[i].tensor == t)
            return &at[i];
    return NULL;
}

// Returns whether the concatenation t is a box of the concatenation `in`: all
// pieces of t are pieces of `in`, at the same distances, and are not written
// after they were copied to t. Sets *at to the index in `in` where t begins.
static int is_slice(const joiner *j, int32_t t, int32_t in, int64_t *at)
{
    const piece *x = &j->pieces[j->of[t].first];
    for (int32_t i = 0; i < j->of[t].n; i++) {
        const piece *y = piece_of(j, in, x[i].tensor);
        const joined *of = &j->of[x[i].tensor];
        if (!y || !x[i].is_box_of_tensor || !y->is_box_of_tensor ||
            (of->n_writers && of->last > x[i].op))
            return 0;
        for (int d = 0; d < j->p->tensors[t].n_dims; d++) {
            int64_t off = y->at[d] - x[i].at[d];
            if (i && at[d] != off)
                return 0;
            at[d] = off;
        }
    }
    return 1;
}

// Returns whether all readers of tensor t, except op number `copy` (-1: none),
// can read a slice of `in` instead.
static int may_read(const joiner *j, int32_t t, int32_t in, int32_t copy)
{
    for (int32_t i = j->first[t]; i < j->first[t + 1]; i++) {
        const dv_op *o = &j->p->ops[j->readers[i]];
        if (j->readers[i] == copy || j->gone[j->readers[i]])
            continue;
        if (o->is_extern || o->write.tensor == in || dv_op_reads(o, in) ||
            dv_op_gathers(o))
            return 0;
        for (int r = 0; r < o->n_reads; r++)
            if (o->reads[r].tensor == t && o->reads[r].has_border)
                return 0;
    }
    return 1;
}

// Makes all ops that read tensor t read the slice of `in` that begins at `at`.
// Returns 0 when out of memory.
static int read_slice(joiner *j, int32_t t, int32_t in, const int64_t *at)
{
    for (int32_t i = j->first[t]; i < j->first[t + 1]; i++) {
        dv_op *o = &j->p->ops[j->readers[i]];
        if (j->gone[j->readers[i]])
            continue;
        dv_access *reads =
            dv_arena_grow(&j->p->arena, o->reads, (size_t)o->n_reads,
                          (size_t)o->n_reads, sizeof *reads);
        if (!reads)
            return 0;
        o->reads = reads;
        for (int r = 0; r < o->n_reads; r++)
            if (reads[r].tensor == t && !shift(j, &reads[r], in, at))
                return 0;
    }
    return 1;
}

// Makes the concatenation t a slice of the concatenation `in`, in which it
// begins at index `at`. Returns 0 when out of memory.
static int make_slice(joiner *j, int32_t t, int32_t in, const int64_t *at)
{
    const piece *x = &j->pieces[j->of[t].first];
    int64_t *fill = &j->key[j->of[in].fill];
    *fill = dv_min_i64(*fill, j->key[j->of[t].fill]);
    remove_op(j, j->of[t].fill);
    for (int32_t i = 0; i < j->of[t].n; i++) {
        int64_t *key = &j->key[piece_of(j, in, x[i].tensor)->op];
        *key = dv_min_i64(*key, j->key[x[i].op]);
        remove_op(j, x[i].op);
    }
    j->of[t].fill = -1;
    name_slice(j, t);
    return read_slice(j, t, in, at);
}

// Finds a concatenation of which the concatenation t is a slice, and makes t
// that slice. Returns 0 when out of memory.
static int find_slice(joiner *j, int32_t t)
{
    int32_t x = j->pieces[j->of[t].first].tensor;
    int64_t at[DV_MAX_DIMS];
    for (int32_t i = j->first[x + 1] - 1; i >= j->first[x]; i--) {
        int32_t op = j->readers[i], in = j->p->ops[op].write.tensor;
        if (!j->gone[op] && j->of[in].fill > j->of[t].fill && in != t &&
            piece_of(j, in, x) && is_slice(j, t, in, at) &&
            may_read(j, t, in, -1))
            return make_slice(j, t, in, at);
    }
    return 1;
}

// Returns whether a copy, op number `op`, is the only reader of tensor t.
static int is_only_reader(const joiner *j, int32_t t, int32_t op)
{
    for (int32_t i = j->first[t]; i < j->first[t + 1]; i++)
        if (!j->gone[j->readers[i]] && j->readers[i] != op)
            return 0;
    return 1;
}

// Makes op o, which writes the tensor that `copy` reads, write where the copy
// would put its elements. Returns 0 when out of memory.
static int write_through(const joiner *j, dv_op *o, const dv_op *copy)
{
    const dv_access *from = &copy->reads[0], *to = &copy->write;
    dv_index *index = DV_NEW(&j->p->arena, dv_index, to->n_dims);
    for (int d = 0; index && d < to->n_dims; d++) {
        int64_t *coef = DV_NEW(&j->p->arena, int64_t, o->n_vars);
        if (!coef)
            return 0;
        index[d] =
            (dv_index){.base = to->index[d].base, .coef = coef, .via = -1};
        for (int e = 0; e < from->n_dims; e++) {
            // Substitute the index that op o writes in dim e for variable v of
            // the copy, which runs over that dim: v = written index - base of
            // the copy's read.
            int v = dv_index_var(copy, &from->index[e]);
            int64_t by = v < 0 ? 0 : to->index[d].coef[v];
            const dv_index *x = &o->write.index[e];
            index[d].base += by * (x->base - from->index[e].base);
            for (int w = 0; w < o->n_vars; w++)
                coef[w] += by * x->coef[w];
        }
    }
    o->write.index = index;
    o->write.n_dims = to->n_dims;
    o->write.tensor = to->tensor;
    o->update = 1;
    return index != NULL;
}

// If the op that computes a piece of the concatenation `in` is a reduction, and
// all other readers of the piece can read it in `in`, makes this op write into
// `in` and removes the copy. Returns 0 when out of memory.
static int write_there(joiner *j, int32_t in, const piece *x)
{
    const dv_tensor *t = &j->p->tensors[x->tensor];
    const joined *of = &j->of[x->tensor];
    if (t->is_input || t->is_output || of->n_writers != 1 ||
        !(is_only_reader(j, x->tensor, x->op) ||
          (x->is_box_of_tensor && may_read(j, x->tensor, in, x->op))))
        return 1;
    dv_op *o = &j->p->ops[of->writer];
    if (o->update || o->is_extern || !dv_op_reduce(o) ||
        dv_access_is_indirect(&o->write) ||
        dv_op_reads(o, in)) // as an update it would need a snapshot of `in`
        return 1;
    int64_t *fill = &j->key[j->of[in].fill];
    *fill = dv_min_i64(*fill, j->key[of->writer] - 1);
    name_slice(j, x->tensor);
    if (!write_through(j, o, &j->p->ops[x->op]))
        return 0;
    remove_op(j, x->op);
    // A piece with other dims has no reader but the copy, which is gone.
    return !x->is_box_of_tensor || read_slice(j, x->tensor, in, x->at);
}

static int by_key(const void *x, const void *y)
{
    const spot *a = x, *b = y;
    return a->key != b->key ? (a->key > b->key) - (a->key < b->key)
                            : (a->op > b->op) - (a->op < b->op);
}

// Sorts the ops by their keys and drops those that were removed. Returns 0 when
// out of memory.
static int sort_ops(joiner *j, dv_arena *arena)
{
    dv_program *p = j->p;
    int32_t n = 0;
    spot *spots = DV_NEW(arena, spot, p->n_ops);
    dv_op *ops = DV_NEW(&p->arena, dv_op, p->n_ops);
    if (!spots || !ops)
        return 0;
    for (int32_t i = 0; i < p->n_ops; i++)
        if (!j->gone[i])
            spots[n++] = (spot){j->key[i], i};
    qsort(spots, (size_t)n, sizeof *spots, by_key);
    for (int32_t i = 0; i < n; i++)
        ops[i] = p->ops[spots[i].op];
    p->ops = ops;
    p->n_ops = n;
    p->cap_ops = n;
    return 1;
}

static int join(joiner *j, dv_arena *arena)
{
    const dv_program *p = j->p;
    if (!find_readers(j, arena) || !find_joined(j, arena))
        return 0;
    j->gone = DV_NEW(arena, uint8_t, p->n_ops);
    j->key = DV_NEW(arena, int64_t, p->n_ops);
    j->names = DV_NEW(arena, const char *, p->n_tensors);
    if (!j->gone || !j->key || !j->names)
        return 0;
    // Ops get even keys. The odd key before an op is for an op that initialises
    // a concatenation and must move in front of it.
    for (int32_t i = 0; i < p->n_ops; i++)
        j->key[i] = 2 * (int64_t)i;
    // Visit the last concatenation first, so that none becomes a slice of a
    // concatenation that is itself a slice.
    for (int32_t i = p->n_ops - 1; i >= 0; i--) {
        int32_t t = p->ops[i].write.tensor;
        if (j->of[t].fill == i && !p->tensors[t].is_output && !find_slice(j, t))
            return 0;
    }
    for (int32_t t = 0; t < p->n_tensors; t++)
        for (int32_t i = 0; j->of[t].fill >= 0 && i < j->of[t].n; i++)
            if (!write_there(j, t, &j->pieces[j->of[t].first + i]))
                return 0;
    return !j->n_gone || sort_ops(j, arena);
}

// Adds the names of the tensors that became slices of others to plan->views,
// the list of removed tensors. Returns 0 when out of memory.
static int list_names(dv_plan *plan, const joiner *j)
{
    const char **names =
        DV_NEW(&plan->arena, const char *, plan->n_views + j->n_names);
    if (!names)
        return 0;
    for (int32_t i = 0; i < plan->n_views; i++)
        names[i] = plan->views[i];
    for (int32_t i = 0; i < j->n_names; i++)
        names[plan->n_views++] = j->names[i];
    plan->views = names;
    return 1;
}

dv_status dv_plan_join(dv_plan *plan, dv_diag *diag)
{
    dv_arena arena = {0};
    joiner j = {.p = plan->ops};
    int32_t *new_of;
    if (plan->ops->n_repeats)
        return DV_OK;
    int ok = join(&j, &arena) && (!j.n_gone || list_names(plan, &j));
    dv_arena_free(&arena);
    if (!ok)
        return dv_nomem(diag);
    if (!j.n_gone)
        return DV_OK;
    DV_TRY(dv_program_renumber(plan->ops, &new_of, diag));
    return dv_program_name_ops(plan->ops, diag);
}
