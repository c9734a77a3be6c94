// Shapes of vector kernels (vec.h): supported types, consistency checks, keys
// for the cache of kernels, and names.
#include "base/dtype.h"
#include "jit/backend.h"
#include "jit/vec/alloc.h"
#include <inttypes.h>
#include <string.h>

int dv_vec_loads(dv_dtype element, dv_dtype compute)
{
    int narrow =
        dv_dtype_get(element)->size_bytes <= 2 && !dv_is_float(element);
    if (compute == DV_F64)
        return narrow || element <= DV_I32 || element == DV_U32;
    if (compute == DV_I32)
        return narrow || element == DV_I32 || element == DV_U32;
    return compute == DV_F32 &&
           (narrow || element == DV_F32 || element == DV_F16 ||
            element == DV_BF16 || element == DV_I32);
}

int dv_vec_stores(dv_dtype element, dv_dtype compute)
{
    return dv_vec_stores_on(dv_isa_host(), element, compute);
}

int dv_vec_stores_on(const dv_isa *isa, dv_dtype element, dv_dtype compute)
{
    int narrow =
        dv_dtype_get(element)->size_bytes <= 2 && !dv_is_float(element);
    if (compute == DV_I32)
        return narrow || element == DV_I32 || element == DV_U32;
    if (element == DV_F32 || element == DV_F16)
        return 1;
    if (narrow)
        return element != DV_BOOL;
    if (element == DV_BF16)
        return isa &&
               (dv_isa_has(isa, DV_BF16) || dv_backend_vec(isa)->soft_bf16);
    return element == DV_F64 && compute == DV_F64;
}

static dv_status check_types(const dv_isa *isa, const dv_vec_shape *s,
                             dv_diag *diag)
{
    dv_dtype to = (dv_dtype)s->compute;
    if (s->compute != DV_F32 && s->compute != DV_F64 && s->compute != DV_I32)
        return dv_fail(diag, DV_E_DTYPE, DV_NOWHERE,
                       "there are no kernels that compute in type %d",
                       s->compute);
    for (int i = 0; i < s->n_operands; i++) {
        dv_dtype t = (dv_dtype)s->operands[i].dtype;
        int last = i == s->n_operands - 1;
        if (s->operands[i].dtype > DV_BOOL)
            return dv_fail(diag, DV_E_DTYPE, DV_NOWHERE,
                           "operand %d has type %d, there are 0 to %d", i,
                           s->operands[i].dtype, (int)DV_BOOL);
        dv_dtype lane = dv_vec_lane_type(&s->operands[i], (int)to);
        if (s->operands[i].as > DV_VEC_AS_INDEX ||
            (s->operands[i].as && last) ||
            (s->operands[i].as == DV_VEC_AS_INDEX && t != DV_I8) ||
            (s->operands[i].as == DV_VEC_AS_WHOLE && to != DV_F32))
            return dv_fail(diag, DV_E_DTYPE, DV_NOWHERE,
                           "operand %d cannot be loaded as %d", i,
                           s->operands[i].as);
        if (s->operands[i].as == DV_VEC_AS_INDEX)
            continue;
        if (!(last ? dv_vec_stores_on(isa, t, to) : dv_vec_loads(t, lane)))
            return dv_fail(diag, DV_E_DTYPE, DV_NOWHERE,
                           "kernels that compute in %s do not %s %s",
                           dv_dtype_get(to)->name, last ? "store" : "load",
                           dv_dtype_get(t)->name);
    }
    return DV_OK;
}

int dv_vec_is_whole(const dv_vec_shape *s, int node)
{
    const dv_vec_node *n = &s->nodes[node];
    return n->kind == DV_VEC_WHOLE || n->kind == DV_VEC_WHOLE_CONST ||
           (n->kind == DV_VEC_LOAD && s->operands[n->arg[0]].as);
}

// Returns whether the arguments of a function have the same kind of lanes
// (floats or integers) as its result. Those of a comparison need only agree
// with each other; the condition of a select may have lanes of any kind.
static int lanes_agree(const dv_vec_shape *s, const dv_vec_node *n)
{
    int whole = n->kind == DV_VEC_WHOLE, first = n->fn == DV_FN_SELECT;
    if (s->compute == DV_I32)
        return !whole;
    if (dv_fn_compares((dv_fn)n->fn))
        return dv_vec_is_whole(s, n->arg[0]) == dv_vec_is_whole(s, n->arg[1]);
    for (int k = first; k < dv_fn_get((dv_fn)n->fn)->n_args; k++)
        if (dv_vec_is_whole(s, n->arg[k]) != whole)
            return 0;
    return !whole || s->compute == DV_F32;
}

static dv_status check_node(const dv_vec_shape *s, int i, dv_diag *diag)
{
    const dv_vec_node *n = &s->nodes[i];
    int ok = 1;
    switch ((dv_vec_kind)n->kind) {
    case DV_VEC_LOAD:
        ok = n->arg[0] < s->n_operands;
        break;
    case DV_VEC_CONST:
        break;
    case DV_VEC_REDUCED:
        ok = s->reduce != DV_VEC_EACH && s->reduce != DV_VEC_ONCE;
        break;
    case DV_VEC_SHARE:
        ok = n->arg[0] < i && n->arg[1] < i && s->compute != DV_I32 &&
             !dv_vec_is_whole(s, n->arg[0]) && !dv_vec_is_whole(s, n->arg[1]);
        break;
    case DV_VEC_STEP:
        ok = n->arg[0] < i && n->arg[1] < i;
        break;
    case DV_VEC_WHOLE_CONST:
        ok = s->compute == DV_F32;
        break;
    case DV_VEC_FLOAT:
        ok = n->arg[0] < i && s->compute != DV_I32 &&
             dv_vec_is_whole(s, n->arg[0]);
        break;
    case DV_VEC_WHOLE:
    case DV_VEC_APPLY:
        ok = n->fn < DV_N_FNS;
        for (int k = 0; ok && k < dv_fn_get((dv_fn)n->fn)->n_args; k++)
            ok = n->arg[k] < i;
        ok = ok && lanes_agree(s, n);
        int whole = s->compute == DV_I32 || n->kind == DV_VEC_WHOLE;
        if (ok &&
            !dv_vec_has((dv_fn)n->fn, whole ? DV_I32 : (dv_dtype)s->compute))
            return dv_fail(
                diag, DV_E_DTYPE, DV_NOWHERE, "%s has no kernel for %s",
                dv_fn_get((dv_fn)n->fn)->text, whole ? "integers" : "floats");
        break;
    default:
        ok = 0;
    }
    return ok ? DV_OK
              : dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                        "node %d of %d refers to what it may not", i,
                        s->n_nodes);
}

static dv_status check_operand(const dv_vec_shape *s, int i, dv_diag *diag)
{
    const dv_vec_operand *o = &s->operands[i];
    int64_t most = DV_VEC_MAX_STRIDE;
    int inner = s->reduce == DV_VEC_INNER || s->reduce == DV_VEC_BOTH;
    int outer = s->reduce == DV_VEC_OUTER || s->reduce == DV_VEC_BOTH;
    if (o->inner < -most || o->inner > most || o->outer < -most ||
        o->outer > most || o->ahead < -most || o->ahead > most)
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "operand %d has strides %" PRId64 " and %" PRId64
                       ", and is fetched %" PRId64 " ahead",
                       i, o->inner, o->outer, o->ahead);
    if ((i == s->n_operands - 1 &&
         ((inner && o->inner) || (outer && o->outer))) ||
        (s->reduce == DV_VEC_ONCE && o->inner))
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "operand %d has strides %" PRId64 " and %" PRId64
                       " in loops that it has no part in",
                       i, o->inner, o->outer);
    return DV_OK;
}

static dv_status check_lead(const dv_vec_shape *s, int i, dv_diag *diag)
{
    const dv_vec_operand *o = &s->operands[i];
    const dv_vec_operand *lead = o->lead ? &s->operands[o->lead - 1] : o;
    if (!o->lead && !o->lead_offset)
        return DV_OK;
    if (!o->lead || o->lead > i || i == s->n_operands - 1 || s->beside ||
        lead->lead || lead->dtype != o->dtype || lead->inner != o->inner ||
        lead->outer != o->outer)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "operand %d cannot lie after operand %d", i,
                       o->lead - 1);
    return DV_OK;
}

static dv_status check_one(const dv_isa *isa, const dv_vec_shape *s,
                           dv_diag *diag)
{
    if (s->n_operands < 1 || s->n_operands > DV_VEC_MAX_OPERANDS ||
        s->n_nodes < 1 || s->n_nodes > DV_VEC_MAX_NODES)
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "a kernel of %d operands and %d nodes", s->n_operands,
                       s->n_nodes);
    if (s->reduce > DV_VEC_ONCE || s->reducer > DV_RED_PROD ||
        s->from_acc > 1 || s->to_acc > 1 || s->value >= s->n_nodes ||
        s->result >= s->n_nodes ||
        ((s->reduce == DV_VEC_EACH || s->reduce == DV_VEC_ONCE) &&
         (s->from_acc || s->to_acc)))
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "the kernel's options contradict each other");
    DV_TRY(check_types(isa, s, diag));
    for (int i = 0; i < s->n_operands; i++) {
        DV_TRY(check_operand(s, i, diag));
        DV_TRY(check_lead(s, i, diag));
    }
    for (int i = 0; i < s->n_nodes; i++)
        DV_TRY(check_node(s, i, diag));
    return DV_OK;
}
_Static_assert(DV_RED_PROD == 3, "the last that kernels have");

dv_status dv_vec_check(const dv_isa *isa, const dv_vec_shape *s, dv_diag *diag)
{
    int n = 0, alone = !s->beside;
    int compute = s->compute;
    for (; s; s = s->beside) {
        DV_TRY(check_one(isa, s, diag));
        int may = s->reduce == DV_VEC_EACH || s->reduce == DV_VEC_INNER ||
                  s->reduce == DV_VEC_ONCE;
        if (++n > DV_VEC_MAX_STATEMENTS)
            return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                           "more than %d statements side by side",
                           (int)DV_VEC_MAX_STATEMENTS);
        if (alone ? s->reduce == DV_VEC_ONCE
                  : !may || s->from_acc || s->to_acc || s->compute != compute)
            return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                           "statement %d cannot be one of several", n - 1);
    }
    return DV_OK;
}

// Statements of at most FEW_NODES nodes (operands, constants and functions) are
// short.
enum { FEW_NODES = 16, MOST_POINTERS = 13, STEADY = 3 };

int dv_vec_fusable(const dv_jit *jit, const dv_vec_shape *shape)
{
    return dv_vec_fusable_on(dv_backend_vec(dv_jit_isa(jit)), shape);
}

int dv_vec_fusable_on(const dv_vec_isa *isa, const dv_vec_shape *shape)
{
    int copies = isa->max_unroll ? isa->max_unroll : DV_VEC_MAX_UNROLL;
    int accs = isa->max_accs ? isa->max_accs : copies;
    int n = 0, pointers = 0, regs = isa->n_regs - copies - STEADY;
    for (const dv_vec_shape *s = shape; s; s = s->beside) {
        if (++n > DV_VEC_MAX_STATEMENTS || s->n_nodes > FEW_NODES ||
            (s->reduce != DV_VEC_EACH && s->reduce != DV_VEC_INNER &&
             s->reduce != DV_VEC_ONCE) ||
            s->from_acc || s->to_acc || s->compute != shape->compute)
            return 0;
        for (int i = 0; i < s->n_nodes; i++)
            if (s->nodes[i].kind == DV_VEC_APPLY &&
                dv_vec_is_long((dv_fn)s->nodes[i].fn))
                return 0;
        // As a kernel of its own, the statement must have as many accumulators
        // as together with others, so that its sums are added in the same
        // order.
        int alone =
            s->reduce == DV_VEC_INNER ? dv_vec_accumulators_on(isa, s) : accs;
        if (alone != accs)
            return alone ? 0 : -1;
        pointers += s->n_operands;
        regs -= s->reduce == DV_VEC_INNER ? accs : 0;
    }
    return n > 1 && regs >= 0 && pointers <= MOST_POINTERS;
}

int dv_vec_adds_alike(const dv_jit *jit, const dv_vec_shape *a,
                      const dv_vec_shape *b)
{
    const dv_vec_isa *isa = dv_backend_vec(dv_jit_isa(jit));
    int n_a = dv_vec_accumulators_on(isa, a);
    int n_b = dv_vec_accumulators_on(isa, b);
    return n_a && n_b ? n_a == n_b : -1;
}

enum { HEAD_WORDS = 2, OPERAND_WORDS = 4, NODE_WORDS = 2 };
_Static_assert(sizeof(dv_vec_node) == 8 * NODE_WORDS &&
                   sizeof(dv_vec_operand) == 8 * OPERAND_WORDS,
               "no padding: equal shapes are equal bytes");

int dv_vec_key_words(const dv_vec_shape *s)
{
    int n = 0;
    for (; s; s = s->beside)
        n += HEAD_WORDS + OPERAND_WORDS * s->n_operands +
             NODE_WORDS * s->n_nodes;
    return n;
}

static void key_of_one(const dv_vec_shape *s, uint64_t *out)
{
    out[0] = (uint64_t)s->n_operands | (uint64_t)s->n_nodes << 16 |
             (uint64_t)s->value << 32 | (uint64_t)s->result << 48;
    out[1] = (uint64_t)s->compute | (uint64_t)s->reduce << 8 |
             (uint64_t)s->reducer << 16 | (uint64_t)s->from_acc << 24 |
             (uint64_t)s->to_acc << 32 | (uint64_t) !!s->beside << 40;
    memcpy(out + HEAD_WORDS, s->operands, s->n_operands * sizeof *s->operands);
    memcpy(out + HEAD_WORDS + OPERAND_WORDS * s->n_operands, s->nodes,
           s->n_nodes * sizeof *s->nodes);
}

void dv_vec_key(const dv_vec_shape *s, uint64_t *out)
{
    for (; s; s = s->beside) {
        key_of_one(s, out);
        out += HEAD_WORDS + OPERAND_WORDS * s->n_operands +
               NODE_WORDS * s->n_nodes;
    }
}

void dv_vec_plan_key(uint64_t *key)
{
    for (int more = 1; more;) {
        int n_operands = (int)(key[0] & 65535),
            n_nodes = (int)(key[0] >> 16 & 65535);
        more = (int)(key[1] >> 40 & 1);
        key += HEAD_WORDS;
        for (int i = 0; i < n_operands; i++, key += OPERAND_WORDS) {
            // A plan depends on the inner stride only in whether it is 0, 1, 2
            // or any other.
            key[0] = key[0] < 3 ? key[0] : 3;
            key[1] = key[1] != 0; // outer stride: only whether it is 0
            // The prefetch distance does not matter for a plan.
            key[2] = 0;
        }
        key += NODE_WORDS * n_nodes;
    }
}

static const char *const reduces[] = {"each", "inner", "outer", "both", "once"};

// Makes a readable name, for listings and profilers, of the kernel with this
// key (its encoded description): the type, then the functions that each of its
// statements applies, as far as they fit.
void dv_vec_name(const uint64_t *key, char *out, size_t size)
{
    dv_text t = {0};
    dv_put(&t, "vec_%s", dv_dtype_get((dv_dtype)(key[1] & 255))->name);
    for (int more = 1; more;) {
        int n_operands = (int)(key[0] & 65535),
            n_nodes = (int)(key[0] >> 16 & 65535);
        const uint64_t *node = key + HEAD_WORDS + OPERAND_WORDS * n_operands;
        more = (int)(key[1] >> 40 & 1);
        dv_put(&t, "_%s", reduces[key[1] >> 8 & 7]);
        for (int i = 0; i < n_nodes; i++, node += NODE_WORDS) {
            dv_vec_node n;
            memcpy(&n, node, sizeof n);
            if (n.kind == DV_VEC_APPLY)
                dv_put(&t, "_%s", dv_fn_get((dv_fn)n.fn)->text);
            if (n.kind == DV_VEC_SHARE)
                dv_put(&t, "_share");
        }
        key = node;
    }
    size_t len = t.len < size - 1 ? t.len : size - 1;
    if (t.at)
        memcpy(out, t.at, len);
    out[t.at ? len : 0] = 0;
    dv_text_free(&t);
}
