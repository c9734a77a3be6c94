// Runs nests: the calls dv_contract_* of divvy/nest.h. For one thread, a
// product of f32 or f64 whose prologue and epilogue are part of the kernels is
// a contraction (contract/), which runs the loops of the nest. Any other nest
// is a program with one op (nest/program.c), which is planned for this machine
// and run by an exec.
#include "exec/nest.h"
#include "base/math.h"
#include "base/options.h"
#include "base/plural.h"
#include "contract/contract.h"
#include "exec/state.h"
#include <inttypes.h>
#include <stdio.h>

enum { MOST_THREADS = 1024 };

struct dv_contract {
    dv_nest n;               // the nest as the caller gave it
    dv_contraction *product; // owned; NULL if the nest runs as a plan
    void *workspace;         // memory for runs of the product; owned
    dv_plan *plan;           // owned; NULL if the nest runs as a product
    dv_exec *x;              // the plan, ready to run; owned
    // The tensor of the plan's program that each operand is (-1 if it is none),
    // and the bytes from the operand's element where all indices are 0 to the
    // tensor's element 0.
    int32_t tensor[DV_MAX_OPERANDS];
    int64_t first_bytes[DV_MAX_OPERANDS];
};

// -- Planning: a nest becomes a program of one op, with a plan ---------------

// Returns the number of slices of an op's longest reduced variable. A long
// reduction to few elements is cut into blocks, so that threads can share it.
// The number of blocks depends on sizes alone, so that the order of additions,
// and with it the bits of the result, does not depend on the number of threads.
static int64_t count_blocks(const dv_op *op, int64_t len)
{
    enum { FEW = 64, LONG = 10000, BLOCK = 1 << 15, MOST_BLOCKS = 64 };
    int64_t results = dv_op_points(op, dv_written_vars(op));
    int64_t points = dv_op_points(op, dv_all_vars(op));
    if (dv_op_gathers(op) || !results)
        return 1;
    int64_t terms = points / results;
    if (dv_op_kind(op) == DV_KIND_CONTRACTION
            ? terms < LONG || terms / FEW < results
            : results > FEW)
        return 1;
    int64_t n = dv_min_i64(dv_min_i64(points / BLOCK, MOST_BLOCKS), len);
    // Slices have one length, except the last; return the number of slices that
    // results from this length.
    return n < 2 ? 1 : dv_ceil_div(len, dv_ceil_div(len, n));
}

static int32_t longest_reduced(const dv_op *op)
{
    int32_t best = -1;
    for (int32_t v = 0; v < op->n_vars; v++)
        if (op->vars[v].reduce &&
            (best < 0 || dv_var_len(op, v) > dv_var_len(op, best)))
            best = v;
    return best;
}

// Fixes (pins) the number of slices of every reduced variable of the lowered
// ops, as plan options.
static dv_status make_pins(const dv_program *ops, dv_arena *arena,
                           dv_plan_options *o, dv_diag *diag)
{
    const char **pins = DV_NEW(arena, const char *, ops->n_ops *DV_MAX_VARS);
    if (!pins)
        return dv_nomem(diag);
    o->pins = pins;
    for (int32_t i = 0; i < ops->n_ops; i++) {
        const dv_op *op = &ops->ops[i];
        int32_t longest = longest_reduced(op);
        for (int32_t v = 0; v < op->n_vars; v++) {
            char pin[256];
            if (!op->vars[v].reduce)
                continue;
            int n = snprintf(
                pin, sizeof pin, "%s:%s=%" PRId64, op->name, op->vars[v].name,
                v == longest ? count_blocks(op, dv_var_len(op, v)) : 1);
            pins[o->n_pins] = dv_arena_copy(arena, pin, (size_t)n);
            if (!pins[o->n_pins++])
                return dv_nomem(diag);
        }
    }
    return DV_OK;
}

// Plans a program for `threads` threads, with the number of slices of its
// reductions fixed, so that results do not depend on the number of threads.
static dv_status plan_program(dv_plan **out, const dv_program *p,
                              const dv_target *target, int32_t threads,
                              dv_diag *diag)
{
    dv_plan_options options = DV_PLAN_OPTIONS_INIT;
    dv_arena arena = {0};
    dv_plan *lowered = NULL;
    options.threads = threads;
    options.stop_after = "lower";
    DV_TRY(dv_plan_create(&lowered, p, target, &options, diag));
    options.stop_after = NULL;
    dv_status st = make_pins(lowered->ops, &arena, &options, diag);
    if (st == DV_OK)
        st = dv_plan_create(out, p, target, &options, diag);
    dv_plan_destroy(lowered);
    dv_arena_free(&arena);
    return st;
}

static void find_tensors(dv_contract *c)
{
    const dv_program *p = c->plan->ops;
    for (int o = 0; o < DV_MAX_OPERANDS; o++) {
        int64_t n_elems;
        c->tensor[o] = dv_program_find(p, dv_nest_operand_name(o));
        if (c->tensor[o] < 0)
            continue;
        const dv_tensor *t = &p->tensors[c->tensor[o]];
        dv_nest_tensor(&c->n, t, &c->first_bytes[o], &n_elems);
        c->first_bytes[o] *= dv_dtype_get(t->dtype)->size_bytes;
    }
}

static dv_status plan_nest(dv_contract *c, const dv_contract_options *o,
                           dv_diag *diag)
{
    dv_nest joined;
    dv_program *p = NULL;
    dv_target *host = NULL;
    dv_nest_copy(&joined, &c->n);
    dv_nest_untile(&joined);
    DV_TRY(dv_nest_join(&joined, NULL, diag));
    DV_TRY(dv_nest_program(&p, &joined, diag));
    dv_status st = dv_target_load(&host, "host", diag);
    if (st == DV_OK) {
        host->l1_bytes = o->l1_bytes ? o->l1_bytes : host->l1_bytes;
        host->l2_bytes = o->l2_bytes ? o->l2_bytes : host->l2_bytes;
        host->l3_bytes = o->l3_bytes ? o->l3_bytes : host->l3_bytes;
        st = plan_program(&c->plan, p, host, o->threads ? o->threads : 1, diag);
    }
    dv_target_destroy(host);
    dv_program_destroy(p);
    DV_TRY(st);
    find_tensors(c);
    return dv_exec_create(&c->x, c->plan, diag);
}

// -- Creating a dv_contract: a product or a plan -----------------------------

static dv_status check(const dv_nest *n, const dv_contract_options *o,
                       dv_diag *diag)
{
    if (o->threads < 0 || o->threads > MOST_THREADS)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "%d thread%s", o->threads,
                       DV_PLURAL(o->threads, "", "s"));
    if ((unsigned)o->optimise > DV_NEST_OPTIMISE_PACKING)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "optimise is %d",
                       (int)o->optimise);
    return o->optimise ? dv_nest_check_order(n, diag) : dv_nest_check(n, diag);
}

// Makes a contraction, run by generated kernels, of a nest that is a plain
// product of f32 or f64. Returns DV_E_LIMIT without a message if it is not, is
// for several threads or has no kernel; the caller then plans it as a program.
static dv_status create_product(dv_contract *c, dv_jit *jit,
                                const dv_contract_options *o, dv_diag *diag)
{
    if (o->threads > 1 || !dv_contraction_suits(&c->n))
        return DV_E_LIMIT;
    dv_diag *own = dv_diag_create();
    dv_status st = dv_contraction_create(&c->product, jit, &c->n, o, own);
    dv_jit_seal(jit);
    if (st != DV_E_LIMIT)
        dv_diag_move(diag, own);
    dv_diag_destroy(own);
    return st != DV_OK && !own ? dv_nomem(diag) : st;
}

dv_status dv_contract_create(dv_contract **out, dv_jit *jit, const dv_nest *n,
                             const dv_contract_options *options, dv_diag *diag)
{
    dv_contract_options o = DV_CONTRACT_OPTIONS_INIT;
    DV_TRY(dv_options_read(&o, sizeof o, options, "dv_contract_options", diag));
    DV_TRY(check(n, &o, diag));
    dv_contract *c = dv_alloc(sizeof *c);
    if (!c)
        return dv_nomem(diag);
    *c = (dv_contract){.n = *n};
    dv_status st = create_product(c, jit, &o, diag);
    if (st == DV_E_LIMIT) {
        st = plan_nest(c, &o, diag);
    } else if (st == DV_OK) {
        c->workspace =
            dv_alloc_buffer((size_t)dv_contraction_workspace(c->product));
        st = c->workspace ? DV_OK : dv_nomem(diag);
    }
    c->n.src = NULL; // the text is not borrowed beyond creation
    if (st == DV_OK)
        *out = c;
    else
        dv_contract_destroy(c);
    return st;
}

void dv_contract_destroy(dv_contract *c)
{
    if (!c)
        return;
    dv_contraction_destroy(c->product);
    dv_release(c->workspace);
    dv_exec_destroy(c->x);
    dv_plan_destroy(c->plan);
    dv_release(c);
}

// -- Running a dv_contract on the caller's buffers ---------------------------

// Runs a nest that was planned as a program. The exec's buffers are set without
// dv_exec_bind, which would refuse an output that is an input, too. Here that
// is allowed, because each element of such an output is read before it is
// written.
static dv_status run_plan(dv_contract *c, const void *in0, const void *in1,
                          const void *in2, void *out, dv_diag *diag)
{
    char *at[DV_MAX_OPERANDS] = {[DV_IN0] = (char *)(uintptr_t)in0,
                                 [DV_IN1] = (char *)(uintptr_t)in1,
                                 [DV_OUT] = out,
                                 [DV_IN2] = (char *)(uintptr_t)in2};
    for (int o = 0; o < DV_MAX_OPERANDS; o++) {
        int32_t t = c->tensor[o];
        // Unchanged addresses are not written again, because all threads read
        // them.
        dv_run *r = &c->x->run;
        if (t >= 0 && r->data[t] != at[o] + c->first_bytes[o])
            r->data[t] = r->bound[t].data = at[o] + c->first_bytes[o];
    }
    return dv_exec_run(c->x, diag);
}

dv_status dv_contract_run(dv_contract *c, const void *in0, const void *in1,
                          const void *in2, void *out, dv_diag *diag)
{
    if (!c->product)
        return run_plan(c, in0, in1, in2, out, diag);
    dv_contraction_run(
        c->product,
        &(dv_contraction_args){
            .in0 = in0, .in1 = in1, .out = out, .workspace = c->workspace});
    return DV_OK;
}

const dv_nest *dv_contract_nest(const dv_contract *c)
{
    return c->product ? dv_contraction_nest(c->product) : &c->n;
}

void dv_contract_describe(const dv_contract *c, dv_text *out)
{
    if (c->product)
        dv_contraction_describe(c->product, out);
    else
        dv_put(out, "planned as a program of one op: %d thread%s",
               (int)c->x->n_threads, DV_PLURAL(c->x->n_threads, "", "s"));
}
