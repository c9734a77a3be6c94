// dv_divide_op: divides one op of a caller that has no program. The request
// becomes a program of one op (divvy/build.h), whose tensors get the layouts of
// the request; the planners of the pass divide it.
#include "base/math.h"
#include "base/options.h"
#include "base/plural.h"
#include "divide/divide.h"
#include "divvy/build.h"
#include "plan/stride_splits.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 96 };

// An op that the caller wants divided (a request) while it is made into a
// program. Its accesses are numbered: the reads, then the write.
typedef struct subject {
    const dv_op_request *r;
    int n_accesses;
    // For each access, the name of its tensor in the program: that of the
    // request, with a number appended where two accesses have the same name.
    char names[DV_MAX_OP_READS + 1][NAME_BYTES];
    // Bit masks of the variables in the write and of those in any access, and
    // of the reads whose values are indirect indices.
    uint32_t written, used, indices;
    dv_program *program;
    dv_target target;
    dv_layout *layouts;
    dv_divide_space *space;
    int var_of[DV_MAX_OP_VARS]; // number of the variable in the op
    int access_of[DV_MAX_OP_READS + 1];
    dv_arena arena;
} subject;

static const dv_op_operand *access_at(const subject *s, int i)
{
    return i < (int)s->r->n_reads ? &s->r->reads[i] : &s->r->write;
}

static dv_status refuse(const subject *s, int access, const char *what,
                        dv_diag *diag)
{
    const char *name = access_at(s, access)->name;
    return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "op %s, tensor %s: %s",
                   s->r->name, name ? name : "without a name", what);
}

// -- The request -------------------------------------------------------------

// Returns the mask of the variables that an access depends on, including those
// of the reads that give its indirect indices.
static uint32_t vars_of(const subject *s, const dv_op_operand *a, int depth)
{
    uint32_t mask = 0;
    for (int d = 0; d < a->n_dims; d++) {
        for (size_t v = 0; v < s->r->n_vars; v++)
            if (a->steps && a->steps[(size_t)d * s->r->n_vars + v])
                mask |= UINT32_C(1) << v;
        if (a->via && a->via[d] >= 0 && depth < DV_MAX_DIMS)
            mask |= vars_of(s, &s->r->reads[a->via[d]], depth + 1);
    }
    return mask;
}

// Checks an access. Its indirect indices may come from earlier reads only, so
// that there are no cycles.
static dv_status check_access(const subject *s, int i, dv_diag *diag)
{
    const dv_op_operand *a = access_at(s, i);
    if (!a->name)
        return refuse(s, i, "a tensor has a name", diag);
    if (strlen(a->name) > NAME_BYTES - 16)
        return refuse(s, i, "the name is too long", diag);
    if (a->n_dims < 0 || a->n_dims > DV_MAX_DIMS)
        return refuse(s, i, "it has more dims than tensors can have", diag);
    if (a->n_dims && !a->shape)
        return refuse(s, i, "`shape` is NULL", diag);
    if (a->n_device_dims && (!a->device_size || !a->stride_map))
        return refuse(s, i, "`device_size` or `stride_map` is NULL", diag);
    for (int d = 0; d < a->n_dims && a->via; d++)
        if (a->via[d] >= i || a->via[d] >= (int)s->r->n_reads)
            return refuse(s, i, "an index comes from a read before it", diag);
    return DV_OK;
}

static dv_status check_request(const subject *s, dv_diag *diag)
{
    const dv_op_request *r = s->r;
    if (!r->name)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "the op has no name");
    if (r->n_vars > DV_MAX_OP_VARS || r->n_reads > DV_MAX_OP_READS)
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "op %s: at most %d variables and %d reads, here are "
                       "%zu and %zu",
                       r->name, (int)DV_MAX_OP_VARS, (int)DV_MAX_OP_READS,
                       r->n_vars, r->n_reads);
    DV_TRY(dv_options_list(r->vars, r->n_vars, "vars", diag));
    DV_TRY(dv_options_list(r->reads, r->n_reads, "reads", diag));
    DV_TRY(dv_options_list(r->pins, r->n_pins, "pins", diag));
    DV_TRY(dv_options_enum((int)r->divide, DV_DIVIDE_SPAN + 1, "divide", diag));
    if (r->cores < 0 || r->span_limit_bytes < -1)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "op %s: %" PRId64 " core%s, a span limit of %" PRId64,
                       r->name, r->cores, DV_PLURAL(r->cores, "", "s"),
                       r->span_limit_bytes);
    for (size_t v = 0; v < r->n_vars; v++)
        if (!r->vars[v].name || r->vars[v].size < 1)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "op %s: variable %zu has no name or no values",
                           r->name, v);
    for (size_t i = 0; i < r->n_pins; i++) {
        int again = 0;
        for (size_t k = 0; k < i; k++)
            again |= r->pins[k].var == r->pins[i].var;
        if (r->pins[i].var < 0 || (size_t)r->pins[i].var >= r->n_vars || again)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "op %s: pin %zu is of variable %d, which does not "
                           "exist or is pinned already",
                           r->name, i, r->pins[i].var);
    }
    return DV_OK;
}

// Names the tensors, and finds which variables are written and used.
static dv_status analyse(subject *s, dv_diag *diag)
{
    for (int i = 0; i < s->n_accesses; i++) {
        const dv_op_operand *a = access_at(s, i);
        DV_TRY(check_access(s, i, diag));
        snprintf(s->names[i], NAME_BYTES, "%s", a->name);
        for (int k = 0; k < i; k++)
            if (!strcmp(s->names[k], s->names[i]))
                snprintf(s->names[i], NAME_BYTES, "%.80s_%d", a->name, i + 1);
        for (int d = 0; d < a->n_dims && a->via; d++)
            if (a->via[d] >= 0)
                s->indices |= UINT32_C(1) << a->via[d];
        s->used |= vars_of(s, a, 0);
    }
    s->written = vars_of(s, &s->r->write, 0);
    for (size_t v = 0; v < s->r->n_vars; v++) {
        if (!(s->used >> v & 1))
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "op %s: no access has variable %s", s->r->name,
                           s->r->vars[v].name);
        if (!(s->written >> v & 1) && !s->r->reducer)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "op %s: the write does not have variable %s, and "
                           "there is no reducer",
                           s->r->name, s->r->vars[v].name);
    }
    return DV_OK;
}

// -- The program -------------------------------------------------------------

static dv_term access_term(dv_build *b, const subject *s, int i);

static dv_term index_term(dv_build *b, const subject *s, const dv_op_operand *a,
                          int d)
{
    int64_t offset = a->offsets ? a->offsets[d] : 0;
    dv_term parts[DV_MAX_OP_VARS + 2];
    int n = 0;
    if (a->via && a->via[d] >= 0)
        parts[n++] = access_term(b, s, a->via[d]);
    for (size_t v = 0; v < s->r->n_vars && a->steps; v++) {
        int64_t step = a->steps[(size_t)d * s->r->n_vars + v];
        dv_term factor[] = {dv_build_int(b, step),
                            dv_build_name(b, s->r->vars[v].name)};
        if (step)
            parts[n++] =
                step == 1 ? factor[1] : dv_build_apply(b, "*", 2, factor);
    }
    if (offset || n == 0)
        parts[n++] = dv_build_int(b, offset);
    dv_term sum = parts[0];
    for (int k = 1; k < n; k++)
        sum = dv_build_apply(b, "+", 2, (dv_term[]){sum, parts[k]});
    return sum;
}

static dv_term access_term(dv_build *b, const subject *s, int i)
{
    const dv_op_operand *a = access_at(s, i);
    dv_term index[DV_MAX_DIMS];
    for (int d = 0; d < a->n_dims; d++)
        index[d] = index_term(b, s, a, d);
    return dv_build_access(b, s->names[i], a->n_dims, index);
}

static dv_term value_term(dv_build *b, const subject *s)
{
    dv_term args[DV_MAX_OP_READS], value = NULL;
    int n = 0;
    for (int i = 0; i < (int)s->r->n_reads; i++)
        if (!(s->indices >> i & 1))
            args[n++] = access_term(b, s, i);
    if (s->r->function) {
        value = dv_build_apply(b, s->r->function, n, args);
    } else {
        value = n ? args[0] : dv_build_int(b, 0);
        for (int i = 1; i < n; i++)
            value = dv_build_apply(b, "*", 2, (dv_term[]){value, args[i]});
    }
    const char *over[DV_MAX_OP_VARS];
    int reduced = 0;
    for (size_t v = 0; v < s->r->n_vars; v++)
        if (!(s->written >> v & 1))
            over[reduced++] = s->r->vars[v].name;
    return reduced ? dv_build_reduce(b, s->r->reducer, value, reduced, over)
                   : value;
}

// Builds a program of one op. Every tensor is declared as an input, and the op
// updates the written one, because it need not write the whole tensor.
static void write_program(dv_build *b, const subject *s)
{
    dv_build_assign_options o = DV_BUILD_ASSIGN_OPTIONS_INIT;
    dv_build_range ranges[DV_MAX_OP_VARS];
    dv_build_label(b, s->r->name);
    for (int i = 0; i < s->n_accesses; i++) {
        const dv_op_operand *a = access_at(s, i);
        dv_term dims[DV_MAX_DIMS];
        for (int d = 0; d < a->n_dims; d++)
            dims[d] = dv_build_int(b, a->shape[d]);
        dv_build_input(b, s->names[i], a->dtype, a->n_dims, dims);
    }
    for (size_t v = 0; v < s->r->n_vars; v++)
        ranges[v] = (dv_build_range){s->r->vars[v].name, dv_build_int(b, 0),
                                     dv_build_int(b, s->r->vars[v].size)};
    o.update = 1;
    o.ranges = ranges;
    o.n_ranges = s->r->n_vars;
    dv_build_assign(b, access_term(b, s, s->n_accesses - 1), value_term(b, s),
                    &o);
    dv_build_output(b, s->names[s->n_accesses - 1]);
}

static dv_status make_program(subject *s, dv_diag *diag)
{
    dv_build *b = dv_build_create();
    if (!b)
        return dv_nomem(diag);
    write_program(b, s);
    dv_status st = dv_build_finish(&s->program, b, NULL, 0, diag);
    dv_build_destroy(b);
    return st;
}

// -- Layouts -----------------------------------------------------------------

// Finds for each device dim, innermost first, the dim of the tensor that it
// steps along: the one of which `block` elements, covered by inner device dims,
// make up exactly one step. A dim that is already covered completely is chosen
// only if no other matches. Returns whether every dim of the tensor is covered.
static int find_hosts(dv_layout *l, const dv_tensor *t)
{
    int64_t row[DV_MAX_DIMS], block[DV_MAX_DIMS];
    dv_row_strides(t->n_dims, t->shape, row);
    for (int32_t h = 0; h < t->n_dims; h++)
        block[h] = 1;
    for (int32_t d = l->n_dims - 1; d >= 0; d--) {
        l->host[d] = -1;
        for (int32_t h = 0; h < t->n_dims && l->stride[d] > 0; h++) {
            int64_t step;
            int ends = dv_mul_i64(&step, row[h], block[h]) &&
                       step == l->stride[d] && t->shape[h] > 1;
            if (ends && (l->host[d] < 0 || block[h] < t->shape[h]))
                l->host[d] = h;
        }
        int32_t h = l->host[d];
        if (h < 0 ? l->stride[d] > 0
                  : !dv_mul_i64(&block[h], block[h], l->size[d]))
            return 0;
    }
    for (int32_t h = 0; h < t->n_dims; h++)
        if (block[h] < t->shape[h])
            return 0;
    return 1;
}

static dv_status read_layout(const subject *s, int i, dv_layout *l,
                             const dv_tensor *t, dv_diag *diag)
{
    const dv_op_operand *a = access_at(s, i);
    *l = (dv_layout){.n_dims = a->n_device_dims,
                     .elem_bytes = dv_device_bytes(&s->target, t->dtype),
                     .eps = 1,
                     .n_elems = 1,
                     .stick_dim = -1};
    if (s->target.tile_rows)
        l->n_inner = 2;
    else if (s->target.sticks)
        l->n_inner = 1;
    if (a->n_device_dims < l->n_inner || a->n_device_dims > DV_MAX_DEVICE_DIMS)
        return refuse(s, i, "it has too many or too few device dims", diag);
    for (int32_t d = 0; d < l->n_dims; d++) {
        l->size[d] = a->device_size[d];
        l->stride[d] = a->stride_map[d];
        if (l->size[d] < 1 || !dv_mul_i64(&l->n_elems, l->n_elems, l->size[d]))
            return refuse(s, i, "a device dim is empty or too large", diag);
    }
    if (!dv_mul_i64(&l->bytes, l->n_elems, l->elem_bytes) || !find_hosts(l, t))
        return refuse(s, i, "the device array does not hold all elements",
                      diag);
    if (l->n_inner && l->n_dims) {
        int64_t inner = l->size[l->n_dims - 1];
        int64_t want = s->target.tile_rows
                           ? s->target.tile_cols
                           : dv_stick_elems(&s->target, t->dtype);
        if (inner != want)
            return refuse(s, i,
                          "the last device dim is a stick, or the columns of a "
                          "tile, of the target",
                          diag);
        l->eps = inner;
        l->stick_dim = l->host[l->n_dims - 1];
        l->sparse = l->stick_dim < 0;
    }
    return DV_OK;
}

static dv_status lay_out(subject *s, dv_diag *diag)
{
    dv_program *p = s->program;
    s->layouts = DV_NEW(&s->arena, dv_layout, p->n_tensors);
    if (!s->layouts)
        return dv_nomem(diag);
    for (int i = 0; i < s->n_accesses; i++) {
        int32_t tensor = dv_program_find(p, s->names[i]);
        const dv_tensor *t = &p->tensors[tensor];
        dv_layout_spec spec = {.n_dims = t->n_dims, .shape = t->shape};
        dv_layout *l = &s->layouts[tensor];
        if (access_at(s, i)->n_device_dims)
            DV_TRY(read_layout(s, i, l, t, diag));
        else if (!dv_layout_make(l, &s->target, t->dtype, &spec))
            return refuse(s, i, "the target cannot store it", diag);
    }
    return DV_OK;
}

// -- The division ------------------------------------------------------------

// Maps the variables and accesses of the request to those of the op that was
// built from it, which may have them in another order.
static void match(subject *s)
{
    const dv_op *op = s->space->op;
    for (size_t v = 0; v < s->r->n_vars; v++)
        for (int u = 0; u < op->n_vars; u++)
            if (!strcmp(op->vars[u].name, s->r->vars[v].name))
                s->var_of[v] = u;
    for (int i = 0; i < s->n_accesses; i++)
        for (int k = 0; k < s->space->n_tensors; k++)
            if (!strcmp(s->space->tensors[k]->name, s->names[i]))
                s->access_of[i] = k;
}

static void put_strides(const subject *s, const dv_divided *d,
                        dv_op_division *out)
{
    dv_text why = {0};
    out->has_strides = dv_stride_splits_make(&out->strides, s->program,
                                             s->space->op, d->splits.n, &why);
    if (!out->has_strides)
        snprintf(out->why_no_strides, sizeof out->why_no_strides, "%s",
                 why.at ? why.at : "out of memory");
    dv_text_free(&why);
}

static void put_division(const subject *s, const dv_divided *d,
                         dv_op_division *out)
{
    const dv_divide_space *x = s->space;
    dv_splits whole;
    for (int v = 0; v < DV_MAX_VARS; v++)
        whole.n[v] = 1;
    for (size_t v = 0; v < s->r->n_vars; v++) {
        int u = s->var_of[v];
        out->n_slices[v] = d->splits.n[u];
        out->slice_size[v] = dv_min_i64(
            dv_ceil_div(x->units[u], d->splits.n[u]) * x->eps[u], x->extent[u]);
        out->forced[v] = d->forced.n[u];
        out->why_whole[v] = x->why[u];
        out->runner_up[v] = d->runner_up_us >= 0 ? d->runner.n[u] : 1;
    }
    for (int i = 0; i < s->n_accesses; i++) {
        out->span_bytes[i] = dv_span(x, s->access_of[i], &d->splits, 0);
        out->whole_bytes[i] = dv_span(x, s->access_of[i], &whole, 0);
    }
    dv_cost_work w = dv_divide_work(x, &s->target, &d->splits);
    out->n_tiles = dv_splits_cores(x, &d->splits);
    out->candidates = d->candidates;
    out->over_span = d->over_span;
    out->cost_us = d->cost_us;
    out->compute_us = dv_cost_compute_us(&s->target, &w);
    out->memory_us = dv_cost_memory_us(&s->target, &w);
    out->combine_us = dv_cost_combine_us(&s->target, &w);
    out->runner_up_us = d->runner_up_us;
    out->by_matmul_model = d->claimed;
    put_strides(s, d, out);
}

static dv_status divide(subject *s, dv_op_division *out, dv_diag *diag)
{
    const dv_op_request *r = s->r;
    dv_pin pins[DV_MAX_OP_VARS];
    dv_divided d;
    DV_TRY(make_program(s, diag));
    DV_TRY(lay_out(s, diag));
    const dv_op *op = &s->program->ops[0];
    s->space = DV_NEW(&s->arena, dv_divide_space, 1);
    if (!s->space || !dv_divide_space_init(s->space, &s->target, s->program, op,
                                           s->layouts, &s->arena))
        return dv_nomem(diag);
    s->space->shares = dv_divide_shares(&s->target);
    match(s);
    for (size_t i = 0; i < r->n_pins; i++)
        pins[i] = (dv_pin){s->var_of[r->pins[i].var], r->pins[i].n};
    dv_divide_request how = {.pins = pins,
                             .n_pins = (int)r->n_pins,
                             .cores = s->target.cores,
                             .span_limit_bytes = s->target.span_limit_bytes,
                             .at = {&s->program->src, op->off}};
    DV_TRY(dv_divide_by(&d, r->divide, s->space, &s->target, how, diag));
    *out = (dv_op_division){.n_tiles = 0};
    put_division(s, &d, out);
    return DV_OK;
}

dv_status dv_divide_op(dv_op_division *out, const dv_target *target,
                       const dv_op_request *request, dv_diag *diag)
{
    dv_op_request r = DV_OP_REQUEST_INIT;
    DV_TRY(dv_options_read(&r, sizeof r, request, "dv_op_request", diag));
    subject s = {.r = &r, .n_accesses = (int)r.n_reads + 1, .target = *target};
    if (r.span_limit_bytes)
        s.target.span_limit_bytes = dv_max_i64(0, r.span_limit_bytes);
    dv_plan_options cores = DV_PLAN_OPTIONS_INIT;
    cores.cores = r.cores;
    DV_TRY(check_request(&s, diag));
    DV_TRY(dv_choose_cores(&s.target, &cores, diag));
    DV_TRY(analyse(&s, diag));
    dv_status st = divide(&s, out, diag);
    dv_program_destroy(s.program);
    dv_arena_free(&s.arena);
    return st;
}
