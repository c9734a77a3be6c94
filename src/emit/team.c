// Emits the plan of a team as C: a file for each rank, with what dv_emit_body
// emits for the rank's plan and functions for the events at which it
// communicates, and program.c, whose main() starts the ranks.
//
//   program.c   main(): MPI, or a thread for each rank
//   rank_R.c    rank_R(): reads its part of the inputs, computes, and takes
//               part in writing the outputs
//
// A message is a box of elements, which the rank's program copies to or from a
// tensor of its own (dist/rank_program.h).
#include "base/math.h"
#include "check/check.h"
#include "dist/rank_program.h"
#include "emit/emit.h"
#include <inttypes.h>
#include <stdio.h>

#define P(...) dv_put(&e->out, __VA_ARGS__)

enum { MOST_RANKS = 64, MOST_MESSAGE_BYTES = INT32_MAX };

// A rank of a team (a process) whose C file is being emitted.
typedef struct rank {
    const dv_plan *team;
    int64_t number;
    dv_rank_program *part;
    const char **names; // of the tensors of the rank's program
    dv_plan *own_plan;  // NULL: the team's plan has the rank's plan
} rank;

// Emits the name of tensor t of the rank's program.
static void put_tensor(emitter *e, const rank *r, int32_t t)
{
    dv_emit_tensor(&e->out, e->p, dv_program_find(e->p, r->names[t]));
}

static dv_status put_piece(emitter *e, const rank *r, const char *call,
                           const dv_piece *piece, int32_t tensor, int exchange)
{
    int64_t bytes;
    const dv_tensor *t =
        &e->p->tensors[dv_program_find(e->p, r->names[tensor])];
    if (!dv_mul_i64(&bytes, dv_box_elems(&piece->box),
                    dv_dtype_get(t->dtype)->size_bytes) ||
        bytes > MOST_MESSAGE_BYTES)
        return dv_fail(e->diag, DV_E_LIMIT, DV_NOWHERE,
                       "rank %" PRId64 " has a message of %" PRId64
                       " elements: emitted messages have less than 2^31 bytes",
                       r->number, dv_box_elems(&piece->box));
    P("    %s(%" PRId64 ", ", call, r->number);
    put_tensor(e, r, tensor);
    P(", %" PRId64 ", %" PRId64 ", %d, &requests_%d[n++]);\n", bytes,
      piece->rank, exchange, exchange);
    return DV_OK;
}

static dv_status put_start(emitter *e, const rank *r, int32_t number)
{
    const dv_op_exchange *x = &r->part->exchanges[number];
    P("    int n = 0;\n");
    for (int32_t i = 0; i < x->n_receives; i++)
        DV_TRY(put_piece(e, r, "rt_receive", &x->receives[i],
                         r->part->receives[number][i], (int)number));
    for (int32_t i = 0; i < x->n_sends; i++)
        DV_TRY(put_piece(e, r, "rt_send", &x->sends[i],
                         r->part->sends[number][i], (int)number));
    P("    (void)n;\n");
    return DV_OK;
}

// Emits the call that adds up an op's partial results over the ranks that
// computed parts of the same elements.
static dv_status put_combine(emitter *e, const rank *r, int32_t op)
{
    const dv_plan_team *t = &r->team->team;
    const dv_op *o = &r->team->ops->ops[op];
    dv_axis_binding binds[DV_MAX_AXES];
    int64_t members[MOST_RANKS], n = 1, elems = 1;
    uint32_t axes = 0;
    dv_team_binds(binds, r->team->ops, t, op);
    for (int a = 0; a < t->n_axes; a++)
        if (binds[a].d && binds[a].reduced) {
            axes |= 1u << a;
            n *= t->grid[a];
        }
    int64_t me = dv_grid_members(members, t->grid, t->n_axes, r->number, axes);
    for (int v = 0; v < o->n_vars; v++)
        elems *= o->vars[v].reduce ? 1
                                   : r->part->targets[op].end[v] -
                                         r->part->targets[op].begin[v];
    int32_t tensor = r->part->parts[op];
    dv_dtype type =
        e->p->tensors[dv_program_find(e->p, r->names[tensor])].dtype;
    P("    static const int members[] = {");
    for (int64_t m = 0; m < n; m++)
        P("%s%" PRId64, m ? ", " : "", members[m]);
    P("};\n    rt_combine(%" PRId64 ", ", r->number);
    put_tensor(e, r, tensor);
    dv_reducer fn = (dv_reducer)dv_op_reduce(o)->fn;
    P(", %" PRId64 ", '%c', '%c', members, %" PRId64 ", %" PRId64 ", %d);\n",
      elems,
      type == DV_F32   ? 'f'
      : type == DV_F64 ? 'd'
                       : 'i',
      fn == DV_RED_MAX    ? '>'
      : fn == DV_RED_MIN  ? '<'
      : fn == DV_RED_PROD ? '*'
                          : '+',
      n, me, (int)(t->n_op_exchanges + op));
    return DV_OK;
}

static dv_status put_event(emitter *e, const rank *r, int32_t number)
{
    const dv_rank_event *v = &r->part->events[number];
    P("static void event_%d(void)\n{\n", (int)number);
    if (v->act == DV_ACT_START)
        DV_TRY(put_start(e, r, v->of));
    else if (v->act == DV_ACT_WAIT)
        P("    rt_wait(requests_%d, %d);\n", (int)v->of,
          (int)(r->part->exchanges[v->of].n_receives +
                r->part->exchanges[v->of].n_sends));
    else if (v->act == DV_ACT_COMBINE)
        DV_TRY(put_combine(e, r, v->of));
    P("}\n\n");
    return DV_OK;
}

// Emits a function for each event, a point at which the rank sends, waits for
// or combines data. It uses the tensors, emitted before, and run() calls it.
static dv_status put_events(emitter *e, const rank *r)
{
    for (int32_t i = 0; i < r->team->team.n_op_exchanges; i++) {
        const dv_op_exchange *x = &r->part->exchanges[i];
        if (x->n_receives + x->n_sends)
            P("static rt_request requests_%d[%d];\n", (int)i,
              (int)(x->n_receives + x->n_sends));
    }
    P("\n");
    for (int32_t i = 0; i < r->part->n_events; i++) {
        const dv_rank_event *v = &r->part->events[i];
        const dv_op_exchange *x = &r->part->exchanges[v->of];
        // Without messages there is nothing to wait for.
        if (v->act != DV_ACT_COMBINE && v->act != DV_ACT_NOTHING &&
            x->n_receives + x->n_sends == 0)
            P("static void event_%d(void)\n{\n}\n\n", (int)i);
        else
            DV_TRY(put_event(e, r, i));
    }
    return DV_OK;
}

static void put_numbers(emitter *e, const dv_box *b, int sizes)
{
    P("{");
    for (int d = 0; d < b->n_dims; d++)
        P("%s%" PRId64, d ? ", " : "", sizes ? b->dim[d].size : b->dim[d].off);
    P("%s}", b->n_dims ? "" : "0");
}

// Writes, as C text, which box of a tensor of the whole team this rank holds.
static void put_part(emitter *e, const rank *r, int32_t tensor)
{
    const dv_tensor *t = &r->team->ops->tensors[tensor];
    const dv_box *own = &r->part->own[tensor], *in = &r->part->local[tensor];
    dv_box whole = dv_box_whole(t->n_dims, t->shape), at = *own;
    for (int d = 0; d < at.n_dims; d++)
        at.dim[d].off -= in->dim[d].off;
    P("        static const rt_part part = {%d, ", t->n_dims);
    put_numbers(e, &whole, 1);
    P(", ");
    put_numbers(e, own, 0);
    P(", ");
    put_numbers(e, own, 1);
    P(", ");
    put_numbers(e, &at, 0);
    P(", ");
    put_numbers(e, in, 1);
    P("};\n");
}

static void put_data(emitter *e, const rank *r, int32_t tensor)
{
    int32_t t = r->part->tensor[tensor];
    if (t < 0 || dv_box_empty(&r->part->own[tensor]))
        P("NULL");
    else
        put_tensor(e, r, t);
}

static void put_transfer(emitter *e, const rank *r, int32_t tensor, int write)
{
    const dv_tensor *t = &r->team->ops->tensors[tensor];
    P("    {\n");
    put_part(e, r, tensor);
    if (!write) {
        P("        rt_read_part(argc, argv, \"%s\", \"%s\", &part, ", t->name,
          dv_dtype_get(t->dtype)->npy);
        put_data(e, r, tensor);
        P(", sizeof(%s));\n    }\n", dv_ctype(t->dtype));
        return;
    }
    P("        rt_write_part(%" PRId64 ", %" PRId64
      ", argc, argv, \"%s\", \"%s\", \"",
      r->number, dv_plan_team_size(&r->team->team), t->name,
      dv_dtype_get(t->dtype)->npy);
    for (int d = 0; d < t->n_dims; d++)
        P("%s%" PRId64, d ? ", " : "", t->shape[d]);
    P("%s\", &part, ", t->n_dims == 1 ? "," : "");
    put_data(e, r, tensor);
    P(", sizeof(%s), %d, %d);\n    }\n", dv_ctype(t->dtype), t->is_input,
      (int)(r->team->team.n_op_exchanges + r->team->ops->n_ops + tensor));
}

static void put_rank(emitter *e, const rank *r)
{
    const dv_program *team = r->team->ops;
    P("void rank_%" PRId64 "(int argc, char **argv)\n{\n", r->number);
    for (int32_t t = 0; t < e->p->n_tensors; t++) {
        P("    ");
        dv_emit_tensor(&e->out, e->p, t);
        P(" = rt_alloc(%" PRId64 ", sizeof(%s));\n", e->p->tensors[t].n_elems,
          dv_ctype(e->p->tensors[t].dtype));
    }
    for (int32_t t = 0; t < team->n_tensors; t++)
        if (team->tensors[t].is_input)
            put_transfer(e, r, t, 0);
    P("    run();\n");
    for (int32_t t = 0; t < team->n_tensors; t++)
        if (team->tensors[t].is_output)
            put_transfer(e, r, t, 1);
    for (int32_t t = 0; t < e->p->n_tensors; t++) {
        P("    free(");
        dv_emit_tensor(&e->out, e->p, t);
        P(");\n");
    }
    P("}\n");
}

// Finds the rank's own plan in the plan of the team; makes it if it is not
// stored there.
static dv_status find_plan(emitter *e, rank *r)
{
    const dv_rank_class *c = dv_plan_class_of(r->team, r->number);
    dv_plan_options options = DV_PLAN_OPTIONS_INIT;
    DV_TRY(dv_rank_program_create(&r->part, r->team, r->number, 1, e->diag));
    const dv_program *p = r->part->p;
    r->names = DV_NEW(&e->arena, const char *, p->n_tensors);
    if (!r->names)
        return dv_nomem(e->diag);
    for (int32_t i = 0; i < p->n_tensors; i++)
        r->names[i] = p->tensors[i].name;
    if (c) {
        e->plan = c->plan;
    } else {
        if (r->team->rank_options)
            options = *r->team->rank_options;
        DV_TRY(dv_rank_program_plan(&r->own_plan, r->team, r->part,
                                    r->part->op_of, &options, e->diag));
        DV_TRY(dv_check_rank(r->team, r->own_plan, r->number, DV_NOWHERE,
                             e->diag));
        e->plan = r->own_plan;
    }
    e->p = e->plan->ops;
    e->part = r->part;
    return DV_OK;
}

static dv_status put_file(emitter *e, rank *r)
{
    char name[40];
    DV_TRY(find_plan(e, r));
    P("// Rank %" PRId64 " of the team that program.c starts. Made by divvy.\n"
      "#define RT_TEAM\n#include \"rt.h\"\n\n"
      "void rank_%" PRId64 "(int argc, char **argv);\n\n",
      r->number, r->number);
    dv_emit_tensors(e);
    DV_TRY(put_events(e, r));
    DV_TRY(dv_emit_body(e));
    put_rank(e, r);
    snprintf(name, sizeof name, "rank_%" PRId64 ".c", r->number);
    return dv_emit_file(e, name);
}

static void put_main(emitter *e, int64_t n)
{
    P("// Made by divvy for a team of %" PRId64 " on %s. Build and run:\n"
      "//   mpicc -O2 -DRT_MPI %sprogram.c rank_*.c -lm\n"
      "//   mpirun -n %" PRId64 " ./a.out NAME=FILE.npy…\n"
      "// or, with the ranks as threads of one process:\n"
      "//   cc -O2 %sprogram.c rank_*.c -lm -lpthread\n"
      "//   ./a.out NAME=FILE.npy…\n"
      "// with a file for every input, and for the outputs that are to be "
      "written.\n"
      "//\n"
      "// This is a plain reference, and not fast.\n"
      "#define RT_TEAM\n#include \"rt.h\"\n\n",
      n, e->plan->target.name, e->openmp ? "-fopenmp " : "", n,
      e->openmp ? "-fopenmp " : "");
    for (int64_t r = 0; r < n; r++)
        P("void rank_%" PRId64 "(int argc, char **argv);\n", r);
    P("static void (*const ranks[])(int argc, char **argv) = {");
    for (int64_t r = 0; r < n; r++)
        P("%srank_%" PRId64, r ? ", " : "", r);
    P("};\n\n#ifdef RT_MPI\nint main(int argc, char **argv)\n{\n"
      "    int me, n;\n"
      "    MPI_Init(&argc, &argv);\n"
      "    MPI_Comm_rank(MPI_COMM_WORLD, &me);\n"
      "    MPI_Comm_size(MPI_COMM_WORLD, &n);\n"
      "    if (n != %" PRId64 ") {\n"
      "        if (me == 0)\n"
      "            fprintf(stderr, \"this program is for %" PRId64
      " processes, not %%d\\n\", n);\n"
      "        MPI_Finalize();\n        return 2;\n    }\n",
      n, n);
    dv_emit_check_args(e);
    P("    ranks[me](argc, argv);\n"
      "    MPI_Finalize();\n"
      "    return 0;\n}\n"
      "#else\n"
      "rt_mail rt_post = {PTHREAD_MUTEX_INITIALIZER, "
      "PTHREAD_COND_INITIALIZER, NULL};\n\n"
      "typedef struct call {\n    int rank, argc;\n    char **argv;\n} "
      "call;\n\n"
      "static void *work(void *at)\n{\n    const call *c = at;\n"
      "    ranks[c->rank](c->argc, c->argv);\n    return NULL;\n}\n\n"
      "int main(int argc, char **argv)\n{\n"
      "    pthread_t threads[%" PRId64 "];\n    call calls[%" PRId64 "];\n",
      n, n);
    dv_emit_check_args(e);
    P("    for (int i = 0; i < %" PRId64 "; i++) {\n"
      "        calls[i] = (call){i, argc, argv};\n"
      "        if (pthread_create(&threads[i], NULL, work, &calls[i])) {\n"
      "            fprintf(stderr, \"cannot start a thread\\n\");\n"
      "            return 3;\n        }\n    }\n"
      "    for (int i = 0; i < %" PRId64 "; i++)\n"
      "        pthread_join(threads[i], NULL);\n"
      "    return 0;\n}\n#endif\n",
      n, n);
}

dv_status dv_emit_team(emitter *e)
{
    const dv_plan *team = e->plan;
    int64_t n = dv_plan_team_size(&team->team);
    if (n > MOST_RANKS)
        return dv_fail(e->diag, DV_E_LIMIT, DV_NOWHERE,
                       "a team of %" PRId64
                       ": every rank is a file, and at most %d are emitted",
                       n, MOST_RANKS);
    put_main(e, n);
    DV_TRY(dv_emit_file(e, "program.c"));
    dv_status st = DV_OK;
    for (int64_t i = 0; st == DV_OK && i < n; i++) {
        rank r = {.team = team, .number = i};
        st = put_file(e, &r);
        dv_plan_destroy(r.own_plan);
        dv_rank_program_destroy(r.part);
        e->plan = team;
        e->p = team->ops;
        e->part = NULL;
    }
    return st == DV_OK ? dv_emit_rt(e) : st;
}
