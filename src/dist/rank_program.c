// Builds the program of one rank of a team; rank_program.h has the overview.
//
// Op by op, in the order of the team's program:
//
//   pack      to[i0] = u[i0 + a]            for every box that is sent
//   start     extern messages[] <- 0
//   core      the points that need no received elements, if overlapping
//   wait      extern messages[] <- 1
//   unpack    u[i0 + b] <- from[i0]         for every box that is received
//   edges     the remaining points, or all of them
//
// A variable of an op is shifted so that the element it writes has the same
// number as before, counted from the start of the local box. Ops of which each
// rank has a partial sum become three: the partial sums, the event at which
// ranks add them up, and the remainder of the expression.
#include "dist/rank_program.h"
#include <inttypes.h>
#include <string.h>

typedef struct builder {
    dv_rank_program *r;
    const dv_program *from; // the team's program
    const dv_plan_team *team;
    int64_t rank;
    int overlap;
    // For each tensor of the team's program, indexed is 1 if it is accessed
    // through an index read from a tensor, written if an op or a message writes
    // it.
    char *indexed, *written;
    dv_table numbers; // of names: the last number that was appended
    int32_t messages; // the tensor that events write
    int32_t cap_events, cap_ops;
    dv_diag *diag;
} builder;

// -- Tensors -----------------------------------------------------------------

// Marks the tensors that an op accesses through an index read from a tensor,
// and those that an op or a message writes.
static int mark_tensors(builder *b)
{
    const dv_program *p = b->from;
    b->indexed = DV_NEW(&b->r->arena, char, p->n_tensors);
    b->written = DV_NEW(&b->r->arena, char, p->n_tensors);
    if (!b->indexed || !b->written)
        return 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op *o = &p->ops[i];
        b->written[o->write.tensor] = 1;
        b->indexed[o->write.tensor] |= (char)dv_access_is_indirect(&o->write);
        for (int k = 0; k < o->n_reads; k++)
            b->indexed[o->reads[k].tensor] |=
                (char)dv_access_is_indirect(&o->reads[k]);
    }
    for (int32_t i = 0; i < b->team->n_op_exchanges; i++)
        if (b->r->exchanges[i].n_receives)
            b->written[b->r->exchanges[i].tensor] = 1;
    return 1;
}

// Finds the box of each tensor that the rank has in memory: what it owns and
// what its ops read. An index that is read from a tensor may select any
// element, so that the whole tensor is in memory.
static void find_boxes(builder *b)
{
    const dv_program *p = b->from;
    dv_rank_program *r = b->r;
    for (int32_t t = 0; t < p->n_tensors; t++) {
        r->own[t] = dv_dist_own(&b->team->tensors[t], b->rank);
        r->local[t] = b->indexed[t] ? dv_box_whole(p->tensors[t].n_dims,
                                                   p->tensors[t].shape)
                                    : r->own[t];
    }
    for (int32_t i = 0; i < p->n_ops; i++) {
        r->has_target[i] =
            (char)dv_team_target(&r->targets[i], p, b->team, i, b->rank);
        for (int k = 0; k < p->ops[i].n_reads && r->has_target[i]; k++) {
            const dv_access *a = &p->ops[i].reads[k];
            dv_box box = dv_access_box(p, &p->ops[i], a, &r->targets[i]);
            r->local[a->tensor] = dv_box_hull(&r->local[a->tensor], &box);
        }
    }
}

// Returns the outermost repeat (a loop of the program) around an op, or -1.
static int32_t outer_repeat(const dv_program *p, int32_t op)
{
    for (int32_t i = 0; i < p->n_repeats; i++)
        if (p->repeats[i].first_op <= op && op < p->repeats[i].end_op)
            return i;
    return -1;
}

// Marks the tensors that a checkpoint must save: inputs, outputs, and those
// that are used by ops inside and outside of the same repeat (loop).
static int find_kept(builder *b)
{
    const dv_program *p = b->from;
    int32_t *seen = DV_NEW(&b->r->arena, int32_t, p->n_tensors);
    if (!seen)
        return 0;
    for (int32_t t = 0; t < p->n_tensors; t++) {
        b->r->kept[t] = p->tensors[t].is_input || p->tensors[t].is_output;
        seen[t] = -2; // no op uses the tensor so far
    }
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op *o = &p->ops[i];
        int32_t repeat = outer_repeat(p, i);
        for (int k = -1; k < o->n_reads; k++) {
            int32_t t = k < 0 ? o->write.tensor : o->reads[k].tensor;
            if (seen[t] != -2 && seen[t] != repeat)
                b->r->kept[t] = 1;
            seen[t] = repeat;
        }
    }
    return 1;
}

static const char *copy_name(builder *b, const char *name)
{
    return dv_arena_copy(&b->r->p->arena, name, strlen(name));
}

// Appends a number to a name that a tensor has already: u_to_0_2, u_to_0_3 and
// so on. Returns 0 if out of memory.
static int make_unique(builder *b, dv_text *name)
{
    if (name->failed || dv_program_find(b->r->p, name->at) < 0)
        return !name->failed;
    char *stem = dv_arena_copy(&b->r->arena, name->at, name->len);
    size_t len = name->len;
    int32_t n = dv_table_get(&b->numbers, name->at, len, 1);
    if (!stem)
        return 0;
    do {
        name->len = len;
        dv_put(name, "_%d", (int)++n);
    } while (!name->failed && dv_program_find(b->r->p, name->at) >= 0);
    return !name->failed &&
           dv_table_set(&b->numbers, &b->r->arena, stem, len, n);
}

// Adds a tensor with the extents of a box. Returns its number, or -1 if out of
// memory.
static int32_t add_tensor(builder *b, const char *name, dv_dtype dtype,
                          const dv_box *box, int in, int out)
{
    dv_program *p = b->r->p;
    dv_text text = {0};
    int64_t *shape = DV_NEW(&p->arena, int64_t, box->n_dims);
    dv_tensor t = {.dtype = dtype,
                   .n_dims = box->n_dims,
                   .shape = shape,
                   .n_elems = dv_box_elems(box),
                   .is_input = (uint8_t)in,
                   .is_output = (uint8_t)out,
                   .is_defined = 1};
    for (int d = 0; d < box->n_dims && shape; d++)
        shape[d] = box->dim[d].size;
    dv_put(&text, "%s", name);
    t.name = make_unique(b, &text) && shape ? copy_name(b, text.at) : NULL;
    dv_text_free(&text);
    return t.name ? dv_program_add_tensor(p, &t) : -1;
}

static int add_tensors(builder *b)
{
    const dv_program *from = b->from;
    dv_rank_program *r = b->r;
    for (int32_t i = 0; i < from->n_tensors; i++) {
        const dv_tensor *t = &from->tensors[i];
        r->tensor[i] = -1;
        if (dv_box_empty(&r->local[i]))
            continue;
        // Besides the tensors that checkpoints save, those of which a part is
        // received get memory bound from outside of the program.
        int bound = r->kept[i] || !dv_box_in(&r->local[i], &r->own[i]);
        int only_out =
            t->is_output && !t->is_input && dv_box_in(&r->local[i], &r->own[i]);
        r->tensor[i] = add_tensor(b, t->name, t->dtype, &r->local[i],
                                  bound && !only_out, bound && b->written[i]);
        if (r->tensor[i] < 0)
            return 0;
    }
    return 1;
}

// Copies the memory notes (where a tensor is stored in a machine that computes
// on tiles) to the rank's parts; fails if shards do not fit a part.
static dv_status note_tensors(builder *b)
{
    dv_program *p = b->r->p;
    for (int32_t i = 0; i < b->from->n_tensors; i++) {
        const dv_memory_note *m = b->from->tensors[i].memory;
        if (!m || b->r->tensor[i] < 0)
            continue;
        dv_tensor *t = &p->tensors[b->r->tensor[i]];
        dv_text part = {0};
        const dv_source *src = &b->from->src;
        dv_put(&part, "rank %" PRId64 "'s part of %s", b->rank, t->name);
        dv_status st = dv_memory_note_check(
            m, part.at ? part.at : t->name, t->n_dims, t->shape, 1,
            (dv_loc){src->text ? src : NULL, m->off}, b->diag);
        dv_text_free(&part);
        DV_TRY(st);
        t->memory = dv_arena_grow(&p->arena, m, 1, 1, sizeof *m);
        if (!t->memory)
            return dv_nomem(b->diag);
    }
    return DV_OK;
}

// -- Ops ---------------------------------------------------------------------

// Appends an op; `of` is the op of the team's program that it computes a part
// of, or -1.
static int push_op(builder *b, const dv_op *op, int32_t of)
{
    dv_rank_program *r = b->r;
    int32_t n = r->p->n_ops;
    int32_t *slot = DV_PUSH(&r->arena, int32_t, r->op_of, n, b->cap_ops);
    if (!slot || !dv_program_add_op(r->p, op))
        return 0;
    *slot = of;
    return 1;
}

// Adds the tensor that events (the ops at which the rank communicates) write.
static int add_messages(builder *b)
{
    dv_rank_program *r = b->r;
    dv_box scalar = {0};
    b->messages = add_tensor(b, "messages", DV_I32, &scalar, 1, 1);
    if (b->messages < 0)
        return 0;
    const char *name = r->p->tensors[b->messages].name;
    r->messages = dv_arena_copy(&r->arena, name, strlen(name));
    return r->messages != NULL;
}

static int push_event(builder *b, dv_rank_act act, int32_t of)
{
    if (!b->r->messages && !add_messages(b))
        return 0;
    dv_program *p = b->r->p;
    dv_rank_event *e = DV_PUSH(&b->r->arena, dv_rank_event, b->r->events,
                               b->r->n_events, b->cap_events);
    dv_expr *number = DV_NEW(&p->arena, dv_expr, 1);
    if (!e || !number)
        return 0;
    *e = (dv_rank_event){act, of};
    *number = (dv_expr){.kind = DV_EXPR_CONST,
                        .dtype = DV_WEAK_INT,
                        .value = b->r->n_events - 1};
    dv_op op = {.write = {.tensor = b->messages},
                .body = number,
                .update = 1,
                .is_extern = 1};
    return push_op(b, &op, -1);
}

// Makes an access for an op with n_vars variables: the index of dim d is at[d]
// + variable d.
static int box_access(builder *b, dv_access *a, int32_t tensor, int n_dims,
                      int n_vars, const int64_t *at)
{
    dv_arena *arena = &b->r->p->arena;
    dv_index *index = DV_NEW(arena, dv_index, n_dims);
    if (!index)
        return 0;
    for (int d = 0; d < n_dims; d++) {
        int64_t *coef = DV_NEW(arena, int64_t, n_vars);
        if (!coef)
            return 0;
        coef[d] = 1;
        index[d] = (dv_index){.base = at[d], .coef = coef, .via = -1};
    }
    *a = (dv_access){.tensor = tensor, .n_dims = n_dims, .index = index};
    return 1;
}

// A box inside a tensor that is copied to or from: its first element is at[].
typedef struct corner {
    int32_t tensor;
    int64_t at[DV_MAX_DIMS];
} corner;

static int push_copy(builder *b, const corner *to, const corner *from,
                     const dv_box *box, int update)
{
    static const char *const names[DV_MAX_DIMS] = {
        "i0", "i1", "i2",  "i3",  "i4",  "i5",  "i6",  "i7",
        "i8", "i9", "i10", "i11", "i12", "i13", "i14", "i15"};
    dv_program *p = b->r->p;
    dv_var *vars = DV_NEW(&p->arena, dv_var, box->n_dims);
    dv_access *read = DV_NEW(&p->arena, dv_access, 1);
    dv_expr *body = DV_NEW(&p->arena, dv_expr, 1);
    dv_op op = {.vars = vars,
                .n_vars = box->n_dims,
                .n_reads = 1,
                .reads = read,
                .body = body,
                .update = (uint8_t)update};
    if (!vars || !read || !body)
        return 0;
    for (int d = 0; d < box->n_dims; d++)
        vars[d] = (dv_var){.name = names[d], .end = box->dim[d].size};
    *body = (dv_expr){.kind = DV_EXPR_READ,
                      .dtype = (int8_t)p->tensors[from->tensor].dtype};
    return box_access(b, &op.write, to->tensor, box->n_dims, box->n_dims,
                      to->at) &&
           box_access(b, read, from->tensor, box->n_dims, box->n_dims,
                      from->at) &&
           push_op(b, &op, -1);
}

// Returns the position of a box of the team's tensor in the rank's tensor,
// which holds the rank's local box only.
static corner in_local(const builder *b, int32_t tensor, const dv_box *box)
{
    corner p = {.tensor = b->r->tensor[tensor]};
    for (int d = 0; d < box->n_dims; d++)
        p.at[d] = box->dim[d].off - b->r->local[tensor].dim[d].off;
    return p;
}

// -- Parts of the team's ops -------------------------------------------------

// Returns by how much an op's variable is shifted for the rank: the offset of
// the rank's local box in the dim that the variable selects.
static int64_t shift_of(const builder *b, const dv_op *op, int v)
{
    for (int k = -1; k < op->n_reads; k++) {
        const dv_access *a = k < 0 ? &op->write : &op->reads[k];
        for (int d = 0; d < a->n_dims; d++)
            if (dv_index_var(op, &a->index[d]) == v && a->index[d].coef[v] == 1)
                return b->r->local[a->tensor].dim[d].off;
    }
    return 0;
}

// Translates an access from the team's tensors to the rank's. n_vars is the
// number of variables of the new op, which are the first ones of the old op.
static int map_access(builder *b, dv_access *out, const dv_access *a,
                      const int64_t *shift, int n_vars)
{
    dv_index *index = DV_NEW(&b->r->p->arena, dv_index, a->n_dims);
    if (!index)
        return 0;
    for (int d = 0; d < a->n_dims; d++) {
        index[d] = a->index[d];
        // The rank has a dim with an indirect index as a whole, because index
        // values count elements of the team's tensor: no shift.
        if (index[d].via < 0)
            index[d].base -= b->r->local[a->tensor].dim[d].off;
        for (int v = 0; v < n_vars; v++)
            index[d].base += shift[v] * index[d].coef[v];
    }
    *out = *a;
    out->tensor = b->r->tensor[a->tensor];
    out->index = index;
    return 1;
}

static dv_var *map_vars(builder *b, const dv_op *op, const dv_iter_space *box,
                        int64_t *shift)
{
    dv_var *vars = DV_NEW(&b->r->p->arena, dv_var, op->n_vars);
    for (int v = 0; v < op->n_vars && vars; v++) {
        shift[v] = shift_of(b, op, v);
        vars[v] = op->vars[v];
        vars[v].begin = box->begin[v] - shift[v];
        vars[v].end = box->end[v] - shift[v];
    }
    return vars;
}

// Copies an expression of an op whose variables are shifted. Where it uses the
// value of a variable, the shift is added, so that the value stays that of the
// team's op. Returns NULL if out of memory.
static const dv_expr *map_values(builder *b, const dv_expr *e,
                                 const int64_t *shift)
{
    if (!dv_expr_has_index(e))
        return e;
    dv_expr *to = DV_NEW(&b->r->p->arena, dv_expr, 1);
    if (!to)
        return NULL;
    *to = *e;
    if (e->kind == DV_EXPR_INDEX)
        to->base += shift[e->read];
    for (int i = 0; i < e->n_args; i++)
        if (!(to->arg[i] = map_values(b, e->arg[i], shift)))
            return NULL;
    return to;
}

// Returns 1 if a tensor of the rank's program exists before the program runs,
// so that an op that defines it only overwrites it.
static int is_bound(const builder *b, int32_t tensor)
{
    return b->r->p->tensors[b->r->tensor[tensor]].is_input;
}

// Appends an op that computes the points `box` of a team's op. Reads of the
// tensor that the op writes go to `snapshot`, a copy of it from before the op;
// -1: there is none.
static int push_part(builder *b, int32_t number, const dv_iter_space *box,
                     int32_t snapshot)
{
    const dv_op *from = &b->from->ops[number];
    int64_t shift[DV_MAX_VARS];
    dv_op op = *from;
    dv_access *reads = DV_NEW(&b->r->p->arena, dv_access, from->n_reads);
    op.vars = map_vars(b, from, box, shift);
    op.reads = reads;
    if (op.vars)
        op.body = map_values(b, from->body, shift);
    if (!reads || !op.vars || !op.body ||
        !map_access(b, &op.write, &from->write, shift, from->n_vars))
        return 0;
    for (int k = 0; k < from->n_reads; k++) {
        if (!map_access(b, &reads[k], &from->reads[k], shift, from->n_vars))
            return 0;
        if (snapshot >= 0 && from->reads[k].tensor == from->write.tensor)
            reads[k].tensor = snapshot;
    }
    op.update |= (uint8_t)is_bound(b, from->write.tensor);
    return push_op(b, &op, number);
}

// -- Reductions that are split over ranks ------------------------------------

// Makes the reads of an op that computes a part of the expression of `from`.
// `shift` is that of the variables of `from`, of which the new op has the first
// n_vars.
static dv_access *map_reads(builder *b, const dv_op *from,
                            const dv_expr_part *part, const int64_t *shift,
                            int n_vars)
{
    dv_access *reads = DV_NEW(&b->r->p->arena, dv_access, part->n_reads + 1);
    for (int32_t i = 0; i < part->n_reads && reads; i++) {
        const dv_access *a = &from->reads[part->reads[i]];
        if (!map_access(b, &reads[i], a, shift, n_vars))
            return NULL;
        for (int d = 0; d < a->n_dims; d++)
            if (a->index[d].via >= 0)
                ((dv_index *)reads[i].index)[d].via =
                    dv_expr_part_read(part, a->index[d].via);
    }
    return reads;
}

static int n_written(const dv_op *op)
{
    int n = 0;
    while (n < op->n_vars && !op->vars[n].reduce)
        n++;
    return n;
}

static dv_dtype type_of_parts(dv_compute_type c)
{
    return c == DV_IN_F32 ? DV_F32 : c == DV_IN_F64 ? DV_F64 : DV_I64;
}

// Appends the op that computes the rank's partial sums. They are a tensor with
// one dim per variable that is not reduced.
static int push_partial_sums(builder *b, int32_t number)
{
    const dv_op *from = &b->from->ops[number];
    dv_arena *arena = &b->r->p->arena;
    int64_t shift[DV_MAX_VARS], at[DV_MAX_DIMS];
    dv_expr_part sums;
    dv_var *vars = map_vars(b, from, &b->r->targets[number], shift);
    dv_box box = {.n_dims = n_written(from)};
    dv_text name = {0};
    if (!vars || !dv_op_take_sums(&sums, from, arena))
        return 0;
    for (int v = 0; v < box.n_dims; v++) {
        at[v] = -vars[v].begin;
        box.dim[v] = (dv_range){0, vars[v].end - vars[v].begin};
    }
    dv_put(&name, "%s_parts", b->from->tensors[from->write.tensor].name);
    dv_dtype dtype = type_of_parts(dv_op_compute(b->from, from));
    int32_t t = name.failed ? -1 : add_tensor(b, name.at, dtype, &box, 1, 1);
    dv_text_free(&name);
    dv_op op = {.vars = vars,
                .n_vars = from->n_vars,
                .n_reads = sums.n_reads,
                .reads = map_reads(b, from, &sums, shift, from->n_vars),
                .body = map_values(b, sums.body, shift),
                .update = 1};
    b->r->parts[number] = t;
    return t >= 0 && op.reads && op.body &&
           box_access(b, &op.write, t, box.n_dims, from->n_vars, at) &&
           push_op(b, &op, -1);
}

// Appends the op that computes the results from the sums of all ranks.
static int push_results(builder *b, int32_t number)
{
    const dv_op *from = &b->from->ops[number];
    int32_t parts = b->r->parts[number];
    int64_t shift[DV_MAX_VARS], at[DV_MAX_DIMS];
    int n = n_written(from);
    dv_expr_part results;
    dv_var *vars = map_vars(b, from, &b->r->targets[number], shift);
    if (!vars || !dv_op_take_results(&results, from,
                                     (int8_t)b->r->p->tensors[parts].dtype,
                                     &b->r->p->arena))
        return 0;
    for (int v = 0; v < n; v++)
        at[v] = -vars[v].begin;
    dv_access *reads = map_reads(b, from, &results, shift, n);
    if (!reads || !box_access(b, &reads[results.n_reads], parts, n, n, at))
        return 0;
    dv_op op = {.vars = vars,
                .n_vars = n,
                .n_reads = results.n_reads + 1,
                .reads = reads,
                .body = map_values(b, results.body, shift)};
    op.update = (uint8_t)(from->update || is_bound(b, from->write.tensor));
    return op.body && map_access(b, &op.write, &from->write, shift, n) &&
           push_op(b, &op, -1);
}

// -- Exchanges ---------------------------------------------------------------

// Adds a message buffer, a tensor of the rank's program, for box number i of an
// exchange, which is sent or, if not `out`, received.
static int32_t add_buffer(builder *b, int32_t tensor, const dv_box *box,
                          int32_t i, int out)
{
    const dv_tensor *t = &b->from->tensors[tensor];
    dv_text name = {0};
    dv_put(&name, "%s_%s_%d", t->name, out ? "to" : "from", (int)i);
    int32_t n =
        name.failed ? -1 : add_tensor(b, name.at, t->dtype, box, 1, out);
    dv_text_free(&name);
    return n;
}

// Appends the copies of all boxes that an exchange sends to message buffers.
static int push_packs(builder *b, int32_t exchange)
{
    const dv_op_exchange *e = &b->r->exchanges[exchange];
    const corner start = {0};
    for (int32_t i = 0; i < e->n_sends; i++) {
        corner from = in_local(b, e->tensor, &e->sends[i].box), to = start;
        to.tensor = add_buffer(b, e->tensor, &e->sends[i].box, i, 1);
        b->r->sends[exchange][i] = to.tensor;
        if (to.tensor < 0 || !push_copy(b, &to, &from, &e->sends[i].box, 1))
            return 0;
    }
    return 1;
}

static int add_receives(builder *b, int32_t exchange)
{
    const dv_op_exchange *e = &b->r->exchanges[exchange];
    for (int32_t i = 0; i < e->n_receives; i++) {
        int32_t t = add_buffer(b, e->tensor, &e->receives[i].box, i, 0);
        b->r->receives[exchange][i] = t;
        if (t < 0)
            return 0;
    }
    return 1;
}

// Appends the copies of all received boxes from the message buffers to the
// tensor and, unless it is -1, to `snapshot`, its copy with old values.
static int push_unpacks(builder *b, int32_t exchange, int32_t snapshot)
{
    const dv_op_exchange *e = &b->r->exchanges[exchange];
    for (int32_t i = 0; i < e->n_receives; i++) {
        const dv_box *box = &e->receives[i].box;
        corner to = in_local(b, e->tensor, box),
               from = {.tensor = b->r->receives[exchange][i]};
        if (!push_copy(b, &to, &from, box, 1))
            return 0;
        to.tensor = snapshot;
        if (snapshot >= 0 && !push_copy(b, &to, &from, box, 1))
            return 0;
    }
    return 1;
}

// Appends the exchanges that take place once, before a repeat (a loop of the
// program), instead of in every iteration.
static int push_hoisted(builder *b, int32_t repeat)
{
    for (int32_t i = 0; i < b->team->n_op_exchanges; i++)
        if (b->team->op_exchanges[i].repeat == repeat &&
            (!push_packs(b, i) || !add_receives(b, i) ||
             !push_event(b, DV_ACT_START, i) ||
             !push_event(b, DV_ACT_WAIT, i) || !push_unpacks(b, i, -1)))
            return 0;
    return 1;
}

static int splits_sum(const builder *b, int32_t op)
{
    for (int32_t i = 0; i < b->team->n_follows; i++) {
        const dv_split_reduction *f = &b->team->follows[i];
        if (f->op != op)
            continue;
        int32_t read = b->from->ops[op].reads[f->read].tensor;
        if (b->team->grid[b->team->tensors[read].axis[f->dim]] > 1)
            return 1;
    }
    return 0;
}

// Copies the tensor that an op both reads and overwrites to a new tensor, so
// that its edges read the old values after its core has overwritten some of
// them. *snapshot becomes that tensor, or -1 if the op needs none. Returns 0 if
// out of memory.
static int push_snapshot(builder *b, int32_t number, int32_t *snapshot)
{
    const dv_op *op = &b->from->ops[number];
    int32_t t = op->write.tensor;
    *snapshot = -1;
    if (!op->update || !dv_op_reads_own_write(op))
        return 1;
    dv_box box = b->r->local[t];
    dv_text name = {0};
    dv_put(&name, "%s_old", b->from->tensors[t].name);
    corner from = {.tensor = b->r->tensor[t]}, to = {0};
    to.tensor = name.failed ? -1
                            : add_tensor(b, name.at, b->from->tensors[t].dtype,
                                         &box, 0, 0);
    dv_text_free(&name);
    *snapshot = to.tensor;
    return to.tensor >= 0 && push_copy(b, &to, &from, &box, 0);
}

// Returns 1 if the points of `core` write a box without elements of other
// points between them. There may be such elements if a variable that `core`
// restricts shares a dim of the written tensor with another variable.
static int writes_box(const dv_op *op, const dv_iter_space *target,
                      const dv_iter_space *core)
{
    uint32_t cut = 0;
    for (int v = 0; v < op->n_vars; v++)
        if (core->begin[v] != target->begin[v] ||
            core->end[v] != target->end[v])
            cut |= UINT32_C(1) << v;
    for (int d = 0; d < op->write.n_dims; d++) {
        uint32_t vars = dv_index_vars(op, &op->write.index[d]);
        if (vars & cut && vars & (vars - 1))
            return 0;
    }
    return 1;
}

// Returns 1 if the op is computed in two steps: *core while messages travel,
// the remainder after they have arrived. A scatter is computed in one step:
// several points may write one element, and the last of them must win.
static int overlaps(const builder *b, int32_t op, dv_iter_space *core)
{
    const dv_op *o = &b->from->ops[op];
    return b->overlap && b->r->has_target[op] && !splits_sum(b, op) &&
           !dv_access_is_indirect(&o->write) && is_bound(b, o->write.tensor) &&
           dv_team_core(core, b->from, b->team, op, b->rank,
                        &b->r->targets[op]) &&
           writes_box(o, &b->r->targets[op], core);
}

// Exchanges `first` to `end` - 1 of the team's plan, which are for one op.
// next_of skips those that are sent once before a repeat (loop).
typedef struct exchanges {
    int32_t first, end;
} exchanges;

// Returns the number of the first exchange from number i on that is sent each
// time the op runs, not once before a repeat (loop); x.end if there is none.
static int32_t next_of(const builder *b, exchanges x, int32_t i)
{
    while (i < x.end && b->team->op_exchanges[i].repeat >= 0)
        i++;
    return i;
}

#define EACH_EXCHANGE(i, b, x)                                                 \
    int32_t i = next_of(b, x, (x).first);                                      \
    i < (x).end;                                                               \
    i = next_of(b, x, i + 1)

// Appends the ops that compute the rank's part of an op: the points that need
// no messages while these travel, the others after they have arrived.
static int push_target(builder *b, int32_t op, exchanges x)
{
    dv_iter_space core, edges[2 * DV_MAX_VARS];
    const dv_iter_space *target = &b->r->targets[op];
    int n = -1, receives = 0;
    int32_t old = -1;
    for (EACH_EXCHANGE(i, b, x))
        receives |= b->r->exchanges[i].n_receives > 0;
    if (receives && overlaps(b, op, &core)) {
        n = dv_space_edges(edges, &b->from->ops[op], target, &core);
        if (!push_snapshot(b, op, &old) || !push_part(b, op, &core, old))
            return 0;
    }
    for (EACH_EXCHANGE(i, b, x))
        if (!push_event(b, DV_ACT_WAIT, i))
            return 0;
    for (EACH_EXCHANGE(i, b, x)) {
        int own = b->r->exchanges[i].tensor == b->from->ops[op].write.tensor;
        if (!push_unpacks(b, i, own ? old : -1))
            return 0;
    }
    for (int i = 0; i < n; i++)
        if (!push_part(b, op, &edges[i], old))
            return 0;
    if (n >= 0 || !b->r->has_target[op])
        return 1;
    if (!splits_sum(b, op))
        return push_part(b, op, target, -1);
    return push_partial_sums(b, op) && push_event(b, DV_ACT_COMBINE, op) &&
           push_results(b, op);
}

static int push_team_op(builder *b, int32_t op, exchanges x)
{
    for (EACH_EXCHANGE(i, b, x))
        if (!push_packs(b, i) || !add_receives(b, i))
            return 0;
    for (EACH_EXCHANGE(i, b, x))
        if (!push_event(b, DV_ACT_START, i))
            return 0;
    return push_target(b, op, x);
}

// -- The program -------------------------------------------------------------

// Begins the repeats (loops) that begin at an op of the team's program; *next
// is the number of the first of them.
static int begin_repeats(builder *b, int32_t op, int32_t *next)
{
    const dv_program *from = b->from;
    for (; *next < from->n_repeats && from->repeats[*next].first_op == op;
         ++*next) {
        if (!push_hoisted(b, *next))
            return 0;
        b->r->p->repeats[*next] = from->repeats[*next];
        b->r->p->repeats[*next].first_op = b->r->p->n_ops;
    }
    return 1;
}

// Ends the repeats (loops) that end at an op. If the rank has no op in one, it
// gets an event without effect, because all ranks run all iterations.
static int end_repeats(builder *b, int32_t op)
{
    dv_program *p = b->r->p;
    for (int32_t i = b->from->n_repeats - 1; i >= 0; i--) {
        if (b->from->repeats[i].end_op != op)
            continue;
        if (p->repeats[i].first_op == p->n_ops &&
            !push_event(b, DV_ACT_NOTHING, i))
            return 0;
        p->repeats[i].end_op = p->n_ops;
    }
    return 1;
}

static int push_ops(builder *b)
{
    const dv_plan_team *t = b->team;
    exchanges x = {0, 0};
    int32_t next = 0;
    for (int32_t op = 0; op < b->from->n_ops; op++) {
        for (x.first = x.end;
             x.end < t->n_op_exchanges && t->op_exchanges[x.end].op == op;)
            x.end++;
        if (!begin_repeats(b, op, &next) || !push_team_op(b, op, x) ||
            !end_repeats(b, op + 1))
            return 0;
    }
    return b->from->n_ops == 0 || b->r->p->n_ops > 0 ||
           push_event(b, DV_ACT_NOTHING, 0);
}

// Computes the rank's messages of all exchanges.
static int find_messages(builder *b)
{
    dv_rank_program *r = b->r;
    for (int32_t i = 0; i < b->team->n_op_exchanges; i++) {
        dv_op_exchange *e = &r->exchanges[i];
        *e = b->team->op_exchanges[i];
        if (b->rank != b->team->rank &&
            !dv_team_messages(e, b->from, b->team, i, b->rank, &r->arena))
            return 0;
        r->sends[i] = DV_NEW(&r->arena, int32_t, e->n_sends);
        r->receives[i] = DV_NEW(&r->arena, int32_t, e->n_receives);
        if (!r->sends[i] || !r->receives[i])
            return 0;
    }
    return 1;
}

static int allocate(dv_rank_program *r, const dv_program *from, int32_t n)
{
    r->own = DV_NEW(&r->arena, dv_box, from->n_tensors);
    r->local = DV_NEW(&r->arena, dv_box, from->n_tensors);
    r->tensor = DV_NEW(&r->arena, int32_t, from->n_tensors);
    r->kept = DV_NEW(&r->arena, char, from->n_tensors);
    r->exchanges = DV_NEW(&r->arena, dv_op_exchange, n);
    r->sends = DV_NEW(&r->arena, int32_t *, n);
    r->receives = DV_NEW(&r->arena, int32_t *, n);
    r->parts = DV_NEW(&r->arena, int32_t, from->n_ops);
    r->targets = DV_NEW(&r->arena, dv_iter_space, from->n_ops);
    r->has_target = DV_NEW(&r->arena, char, from->n_ops);
    r->p = dv_program_new();
    if (!r->own || !r->local || !r->tensor || !r->kept || !r->exchanges ||
        !r->sends || !r->receives || !r->parts || !r->targets ||
        !r->has_target || !r->p)
        return 0;
    for (int32_t i = 0; i < from->n_ops; i++)
        r->parts[i] = -1;
    r->p->grain = from->grain;
    r->p->src = from->src; // for the positions of error messages
    r->p->repeats = DV_NEW(&r->p->arena, dv_repeat, from->n_repeats);
    r->p->n_repeats = r->p->cap_repeats = from->n_repeats;
    return r->p->repeats != NULL;
}

static void renumber(int32_t *tensors, int32_t n, const int32_t *new_of)
{
    for (int32_t i = 0; i < n; i++)
        tensors[i] = tensors[i] < 0 ? -1 : new_of[tensors[i]];
}

// Renumbers the tensors, and names the ops, as parsing the printed program
// would.
static dv_status number_tensors(builder *b)
{
    dv_rank_program *r = b->r;
    int32_t *new_of;
    DV_TRY(dv_program_renumber(r->p, &new_of, b->diag));
    DV_TRY(dv_program_name_ops(r->p, b->diag));
    renumber(r->tensor, b->from->n_tensors, new_of);
    renumber(r->parts, b->from->n_ops, new_of);
    for (int32_t i = 0; i < b->team->n_op_exchanges; i++) {
        renumber(r->sends[i], r->exchanges[i].n_sends, new_of);
        renumber(r->receives[i], r->exchanges[i].n_receives, new_of);
    }
    return dv_program_verify(r->p, 0, b->diag);
}

dv_status dv_rank_program_create(dv_rank_program **out, const dv_plan *plan,
                                 int64_t rank, int overlap, dv_diag *diag)
{
    dv_arena arena = {0};
    dv_rank_program *r = DV_NEW(&arena, dv_rank_program, 1);
    if (!r)
        return dv_nomem(diag);
    r->arena = arena;
    builder b = {.r = r,
                 .from = plan->ops,
                 .team = &plan->team,
                 .rank = rank,
                 .overlap = overlap,
                 .diag = diag};
    int ok = allocate(r, plan->ops, plan->team.n_op_exchanges);
    ok = ok && find_messages(&b) && mark_tensors(&b) && find_kept(&b);
    if (ok)
        find_boxes(&b);
    ok = ok && add_tensors(&b) && push_ops(&b);
    dv_status st = ok ? DV_OK : dv_nomem(diag);
    if (st == DV_OK && plan->target.tile_rows)
        st = note_tensors(&b);
    if (st == DV_OK)
        st = number_tensors(&b);
    if (st == DV_OK)
        *out = r;
    else
        dv_rank_program_destroy(r);
    return st;
}

void dv_rank_program_destroy(dv_rank_program *r)
{
    if (!r)
        return;
    dv_program_destroy(r->p);
    dv_arena arena = r->arena;
    dv_arena_free(&arena);
}
