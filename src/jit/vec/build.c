// Translates the nodes of a kernel into values. Nodes are translated depth
// first, so that values are made shortly before they are used.
#include "jit/vec/alloc.h"
#include <math.h>
#include <string.h>

static const uint8_t n_args[] = {
#define DV_VOP(NAME, args) args,
    DV_VOPS
#undef DV_VOP
};

static int32_t add(dv_vec_build *b, dv_vec_value v)
{
    dv_vec_value *slot = DV_PUSH(b->arena, dv_vec_value, b->vals, b->n, b->cap);
    if (!slot) {
        b->failed = 1;
        return 0;
    }
    *slot = v;
    return b->n - 1;
}

// Returns the section (part of the kernel, such as the code before the loop)
// that computes a value: if all its arguments come from outside the loop, it is
// computed there, too.
static uint8_t section_of(const dv_vec_build *b, const dv_vec_value *v)
{
    for (int i = 0; i < v->n_args; i++)
        if (b->vals[v->arg[i]].section > DV_SECTION_HOIST)
            return (uint8_t)b->in;
    return DV_SECTION_HOIST;
}

enum { RECENT = 24 };

static int32_t put(dv_vec_build *b, dv_vop op, int32_t x, int32_t y, int32_t z,
                   int32_t imm)
{
    if (b->failed)
        return 0;
    dv_vec_value v = {.op = (uint8_t)op, .n_args = n_args[op], .imm = imm};
    v.arg[0] = x;
    v.arg[1] = y;
    v.arg[2] = z;
    uint8_t section = section_of(b, &v);
    // Reuse an equal value that was made recently, if there is one; mostly
    // these are squares.
    for (int32_t i = b->n - 1; i >= 0 && i > b->n - RECENT; i--) {
        const dv_vec_value *w = &b->vals[i];
        if (w->arg[0] == x && w->arg[1] == y && w->arg[2] == z &&
            w->imm == imm && w->op == op && w->section == section)
            return i;
    }
    v.section = section;
    return add(b, v);
}

int32_t dv_vec_put(dv_vec_build *b, dv_vop op, int32_t x, int32_t y, int32_t z)
{
    return put(b, op, x, y, z, 0);
}

int32_t dv_vec_shift(dv_vec_build *b, dv_vop op, int32_t x, int bits)
{
    return put(b, op, x, 0, 0, bits);
}

int32_t dv_vec_round(dv_vec_build *b, int32_t x, dv_vec_rounding how)
{
    return put(b, DV_V_FROUND, x, 0, 0, (int32_t)how);
}

int32_t dv_vec_repair(dv_vec_build *b, dv_fn fn, int32_t x, int32_t y,
                      int32_t result)
{
    return put(b, DV_V_REPAIR, x, y, result, (int32_t)fn);
}

int32_t dv_vec_bits(dv_vec_build *b, uint64_t bits)
{
    for (int32_t i = 0; i < b->n; i++)
        if (b->vals[i].op == DV_V_CONST && b->vals[i].bits == bits &&
            !b->vals[i].imm)
            return i;
    return add(b, (dv_vec_value){.op = DV_V_CONST,
                                 .section = DV_SECTION_CONST,
                                 .bits = bits});
}

uint64_t dv_vec_lane(const dv_vec_build *b, double value)
{
    uint64_t bits;
    float f = (float)value;
    uint32_t low;
    memcpy(&bits, &value, sizeof bits);
    memcpy(&low, &f, sizeof low);
    return b->is64 ? bits : low;
}

int32_t dv_vec_float(dv_vec_build *b, double value)
{
    return dv_vec_bits(b, dv_vec_lane(b, value));
}

int dv_vec_guard(dv_vec_build *b, int32_t x, double most)
{
    // A function of a loop-invariant argument is computed once, before the
    // loop. Both the fast body, for small arguments, and the slow body use it,
    // so it must have the form that is valid for all arguments.
    if (b->failed || b->in != DV_SECTION_FAST ||
        b->vals[x].section <= DV_SECTION_HOIST)
        return 0;
    if (b->guard_limit <= 0 || most * most < b->guard_limit)
        b->guard_limit = most * most;
    dv_vec_put(b, DV_V_WATCH, x, 0, 0);
    return 1;
}

// Makes a constant of 32-bit integer lanes.
static int32_t whole_constant(dv_vec_build *b, double value)
{
    double low = value < INT32_MIN ? INT32_MIN : value;
    return dv_vec_bits(b,
                       (uint32_t)(int32_t)(low > INT32_MAX ? INT32_MAX : low));
}

// Makes a constant of an expression, as a value in the compute type.
static int32_t constant(dv_vec_build *b, double value)
{
    return b->shape->compute == DV_I32 ? whole_constant(b, value)
                                       : dv_vec_float(b, value);
}

// Makes the constant vector 0, 1, 2, ...: every lane holds its own number.
static int32_t lane_numbers(dv_vec_build *b)
{
    for (int32_t i = 0; i < b->n; i++)
        if (b->vals[i].op == DV_V_CONST && b->vals[i].imm)
            return i;
    return add(b, (dv_vec_value){.op = DV_V_CONST,
                                 .section = DV_SECTION_CONST,
                                 .bits = 1,
                                 .imm = 1});
}

// Converts integer lanes to floats: adds them to the bits of a large float
// whose last mantissa bit counts ones, and subtracts that float again. In f32
// that takes integers of up to 22 bits; larger ones are cut in two, and no sum
// of the parts is rounded.
static int32_t to_float(dv_vec_build *b, int32_t x, double most)
{
    double push = b->is64 ? 0x1.8p52 : 0x1.8p23, bias = 0x1p24;
    int32_t bits = dv_vec_float(b, push);
    if (b->is64 || most < 0x1p22)
        return dv_vec_put(b, DV_V_FSUB, dv_vec_put(b, DV_V_IADD, x, bits, 0),
                          bits, 0);
    x = dv_vec_put(b, DV_V_IADD, x, dv_vec_bits(b, 1 << 24), 0);
    int32_t low = dv_vec_put(b, DV_V_AND, x, dv_vec_bits(b, 4095), 0);
    int32_t high = to_float(b, dv_vec_shift(b, DV_V_SHR, x, 12), 1);
    high = dv_vec_put(b, DV_V_FMUL, high, dv_vec_float(b, 4096), 0);
    high = dv_vec_put(b, DV_V_FSUB, high, dv_vec_float(b, bias), 0);
    return dv_vec_put(b, DV_V_FADD, high, to_float(b, low, 1), 0);
}

static int32_t load_elements(dv_vec_build *b, int32_t operand)
{
    const dv_vec_operand *o = &b->shape->operands[operand];
    int outer = b->shape->reduce == DV_VEC_OUTER;
    if (b->load_of[operand] >= 0)
        return b->load_of[operand];
    dv_vec_value v = {.op = DV_V_LOAD, .imm = b->first + operand};
    v.section = (uint8_t)b->in;
    if (o->inner == 0 && (o->outer == 0 || !outer) &&
        b->shape->reduce != DV_VEC_ONCE)
        v.section = DV_SECTION_HOIST;
    return b->load_of[operand] = add(b, v);
}

// Loads an operand. If it is an index, its address is the value of lane 0, and
// every lane adds its own number to that.
static int32_t load(dv_vec_build *b, int32_t operand)
{
    const dv_vec_operand *o = &b->shape->operands[operand];
    int32_t x = load_elements(b, operand);
    if (o->as != DV_VEC_AS_INDEX || o->inner == 0)
        return x;
    return dv_vec_put(b, DV_V_IADD, x, lane_numbers(b), 0);
}

static int is_compare(const dv_vec_node *n)
{
    return (n->kind == DV_VEC_APPLY || n->kind == DV_VEC_WHOLE) &&
           dv_fn_compares((dv_fn)n->fn);
}

// Returns the mask of a comparison. For != it is the mask of ==, which callers
// invert.
static int32_t compare(dv_vec_build *b, dv_fn fn, int32_t x, int32_t y,
                       int whole)
{
    switch (fn) {
    case DV_FN_LT:
        return dv_vec_put(b, whole ? DV_V_ILT : DV_V_FLT, x, y, 0);
    case DV_FN_GT:
        return dv_vec_put(b, whole ? DV_V_ILT : DV_V_FLT, y, x, 0);
    case DV_FN_LE: // integers have no operation <=, so compute not y < x
        return whole ? dv_vec_put(b, DV_V_XOR, dv_vec_put(b, DV_V_ILT, y, x, 0),
                                  dv_vec_bits(b, UINT32_MAX), 0)
                     : dv_vec_put(b, DV_V_FLE, x, y, 0);
    case DV_FN_GE:
        return compare(b, DV_FN_LE, y, x, whole);
    default:
        return dv_vec_put(b, whole ? DV_V_IEQ : DV_V_FEQ, x, y, 0);
    }
}

static int in_whole_lanes(const dv_vec_build *b, int32_t node)
{
    return b->shape->compute == DV_I32 || dv_vec_is_whole(b->shape, node);
}

static int32_t choose(dv_vec_build *b, const dv_vec_node *n, const int32_t *x)
{
    const dv_vec_node *test = &b->shape->nodes[n->arg[0]];
    if (!is_compare(test)) {
        int32_t zero = compare(b, DV_FN_EQ, x[0], dv_vec_bits(b, 0),
                               in_whole_lanes(b, n->arg[0]));
        return dv_vec_put(b, DV_V_SEL, zero, x[2], x[1]);
    }
    int swap = test->fn == DV_FN_NE;
    return dv_vec_put(b, DV_V_SEL, b->mask_of[n->arg[0]], x[1 + swap],
                      x[2 - swap]);
}

static int32_t apply(dv_vec_build *b, int32_t node)
{
    const dv_vec_node *n = &b->shape->nodes[node];
    int whole = b->shape->compute == DV_I32 || n->kind == DV_VEC_WHOLE;
    int32_t x[3] = {0};
    for (int i = 0; i < dv_fn_get((dv_fn)n->fn)->n_args; i++)
        x[i] = b->value_of[n->arg[i]];
    if (is_compare(n)) { // the value of a comparison is 1 or 0
        int32_t mask =
            compare(b, (dv_fn)n->fn, x[0], x[1], in_whole_lanes(b, n->arg[0]));
        int32_t one = whole ? whole_constant(b, 1) : constant(b, 1);
        int32_t zero = dv_vec_bits(b, 0);
        b->mask_of[node] = mask;
        if (n->fn == DV_FN_NE)
            return dv_vec_put(b, DV_V_SEL, mask, zero, one);
        return dv_vec_put(b, DV_V_AND, mask, one, 0);
    }
    if (n->fn == DV_FN_SELECT)
        return choose(b, n, x);
    return dv_vec_apply(b, (dv_fn)n->fn, x, whole);
}

// Emits one step of the reducer (such as an addition) on x and y. If it is a
// sum and y is a product, the two are fused and rounded once.
static int32_t step(dv_vec_build *b, int32_t x, int32_t y)
{
    if (b->failed)
        return 0;
    const dv_vec_value *m = &b->vals[y];
    if (b->shape->reducer == DV_RED_SUM && m->op == DV_V_FMUL &&
        m->section == b->in)
        return dv_vec_put(b, DV_V_FMA, m->arg[0], m->arg[1], x);
    return dv_vec_put(b, dv_vec_step(b->shape), x, y, 0);
}

static int32_t one_node(dv_vec_build *b, int32_t node)
{
    const dv_vec_node *n = &b->shape->nodes[node];
    switch ((dv_vec_kind)n->kind) {
    case DV_VEC_LOAD:
        return load(b, n->arg[0]);
    case DV_VEC_CONST:
        return constant(b, n->value);
    case DV_VEC_REDUCED:
        return add(b, (dv_vec_value){.op = DV_V_REDUCED,
                                     .section = DV_SECTION_EPILOGUE,
                                     .imm = b->number});
    case DV_VEC_SHARE:
        return dv_vec_share(b, b->value_of[n->arg[0]], b->value_of[n->arg[1]]);
    case DV_VEC_STEP:
        return step(b, b->value_of[n->arg[0]], b->value_of[n->arg[1]]);
    case DV_VEC_WHOLE_CONST:
        return whole_constant(b, n->value);
    case DV_VEC_FLOAT:
        return to_float(b, b->value_of[n->arg[0]], n->value);
    case DV_VEC_WHOLE:
    case DV_VEC_APPLY:
        break;
    }
    return apply(b, node);
}

// Translates a node of the expression, and all nodes that it needs, into
// values. Chains may be long, so an explicit stack replaces recursion.
static int32_t value_of(dv_vec_build *b, int32_t root, int32_t *stack)
{
    int32_t n = 0;
    stack[n++] = root;
    while (n && !b->failed) {
        int32_t node = stack[n - 1], wait = -1;
        const dv_vec_node *at = &b->shape->nodes[node];
        int applies = at->kind == DV_VEC_APPLY || at->kind == DV_VEC_WHOLE;
        int args = applies ? dv_fn_get((dv_fn)at->fn)->n_args
                   : at->kind == DV_VEC_STEP || at->kind == DV_VEC_SHARE ? 2
                   : at->kind == DV_VEC_FLOAT                            ? 1
                                                                         : 0;
        for (int i = args - 1; i >= 0; i--)
            if (b->value_of[at->arg[i]] < 0)
                wait = at->arg[i];
        if (wait >= 0) { // translate the first missing argument first
            stack[n++] = wait;
            continue;
        }
        if (b->value_of[node] < 0)
            b->value_of[node] = one_node(b, node);
        n--;
    }
    return b->value_of[root];
}

static void end_body(dv_vec_build *b, int32_t v)
{
    const dv_vec_shape *s = b->shape;
    if (b->failed)
        return;
    const dv_vec_value *m = &b->vals[v];
    // If the value to sum is a product, it is fused with its addition and
    // rounded once.
    if (s->reducer == DV_RED_SUM && m->op == DV_V_FMUL && m->section == b->in)
        v = put(b, DV_V_ACCUM2, m->arg[0], m->arg[1], 0, b->number);
    else
        v = put(b, DV_V_ACCUM, v, 0, 0, b->number);
    if (!b->failed)
        // The accumulation belongs to the loop body even if its argument is
        // loop-invariant.
        b->vals[v].section = (uint8_t)b->in;
}

// Begins the next section (part of the kernel). Values of the current one are
// not available there, so that loads are emitted again.
static void begin_section(dv_vec_build *b, dv_vec_section next)
{
    for (int32_t i = 0; i < b->shape->n_nodes && !b->failed; i++)
        if (b->value_of[i] >= 0 && b->vals[b->value_of[i]].section == b->in)
            b->value_of[i] = -1;
    for (int32_t i = 0; i < b->shape->n_operands && !b->failed; i++)
        if (b->load_of[i] >= 0 && b->vals[b->load_of[i]].section == b->in)
            b->load_of[i] = -1;
    b->in = next;
}

static void store(dv_vec_build *b, int32_t *stack)
{
    int32_t to = b->shape->n_operands - 1,
            v = value_of(b, b->shape->result, stack);
    dv_dtype t = (dv_dtype)b->shape->operands[to].dtype;
    if (b->shape->compute != DV_I32 && !dv_is_float(t))
        v = dv_vec_to_narrow(b, v, 8 * dv_dtype_get(t)->size_bytes);
    if (b->shape->compute == DV_I32 && t == DV_BOOL) {
        int32_t zero = dv_vec_bits(b, 0), one = dv_vec_bits(b, 1);
        v = dv_vec_put(b, DV_V_SEL, dv_vec_put(b, DV_V_IEQ, v, zero, 0), zero,
                       one);
    }
    v = put(b, DV_V_STORE, v, 0, 0, b->first + to);
    if (!b->failed)
        b->vals[v].section = (uint8_t)b->in;
}

// Emits the operations of one vector: a reduction step or a store.
static void body(dv_vec_build *b, int32_t *stack)
{
    if (b->shape->reduce)
        end_body(b, value_of(b, b->shape->value, stack));
    else
        store(b, stack);
}

static void build_one(dv_vec_build *b)
{
    const dv_vec_shape *s = b->shape;
    b->value_of = DV_NEW(b->arena, int32_t, s->n_nodes);
    b->mask_of = DV_NEW(b->arena, int32_t, s->n_nodes);
    b->load_of = DV_NEW(b->arena, int32_t, s->n_operands);
    int32_t *stack = DV_NEW(b->arena, int32_t, s->n_nodes + 1);
    if (!b->value_of || !b->mask_of || !b->load_of || !stack) {
        b->failed = 1;
        return;
    }
    memset(b->value_of, -1, s->n_nodes * sizeof *b->value_of);
    memset(b->mask_of, -1, s->n_nodes * sizeof *b->mask_of);
    memset(b->load_of, -1, s->n_operands * sizeof *b->load_of);
    if (s->reduce == DV_VEC_ONCE) {
        b->in = DV_SECTION_EPILOGUE;
        store(b, stack);
        return;
    }
    if (b->has_guard && s->reduce != DV_VEC_OUTER) {
        b->in = DV_SECTION_FAST;
        body(b, stack);
        begin_section(b, DV_SECTION_BODY);
        // If no function has a fast form for small arguments, there is only one
        // body: what was made as the fast body becomes the general one.
        if (b->guard_limit <= 0)
            for (int32_t i = 0; i < b->n; i++)
                if (b->vals[i].section == DV_SECTION_FAST)
                    b->vals[i].section = DV_SECTION_BODY;
    }
    b->in = DV_SECTION_BODY;
    if (!b->has_guard || s->reduce == DV_VEC_OUTER || b->guard_limit > 0)
        body(b, stack);
    if (s->reduce && !s->to_acc) {
        begin_section(b, DV_SECTION_EPILOGUE);
        store(b, stack);
    }
}

void dv_vec_build_all(dv_vec_build *b)
{
    b->is64 = b->shape->compute == DV_F64;
    if (b->shape->beside)
        // If several statements share one loop, it has no fast body (for small
        // arguments), because a loop cannot be left for one statement alone.
        b->has_guard = 0;
    while (b->shape && !b->failed) {
        build_one(b);
        b->from[++b->number] = b->n;
        b->first += b->shape->n_operands;
        b->shape = b->shape->beside;
    }
}
