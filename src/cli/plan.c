// divvy plan: makes, checks and prints a plan; it also continues with a printed
// plan.
#include "base/math.h"
#include "base/plural.h"
#include "cli/report.h"
#include "exec/exec.h"
#include "ir/views.h"
#include "nest/sums.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct watcher {
    const char *dump_after; // a pass, "all", or NULL
    int times, dumped;
    dv_text ran; // names of the passes that ran; owned
} watcher;

static void after_pass(void *user, const char *pass, double ms,
                       const dv_plan *plan)
{
    watcher *w = user;
    if (w->times)
        fprintf(stderr, "%-8s %10.3f ms\n", pass, ms);
    dv_put(&w->ran, " %s", pass);
    if (!w->dump_after ||
        (strcmp(w->dump_after, pass) != 0 && strcmp(w->dump_after, "all") != 0))
        return;
    w->dumped = 1;
    char *text = dv_plan_text(plan);
    printf("# after %s\n%s", pass, text ? text : "# out of memory\n");
    dv_free(text);
}

// Returns whether the pass scratch searched for tensors to keep in the
// scratchpads and kept none, although there are temporaries. Uses only what the
// plan's text contains, so that a plan read back gives the same answer.
static int keeps_nothing(const dv_plan *plan)
{
    const dv_scratch *s = &plan->scratch;
    int passed = 0;
    if (!(plan->facts & DV_FACT_PLACED) || s->n_homes || !s->solver ||
        strcmp(s->solver, "off") == 0)
        return 0;
    for (int32_t t = 0; t < plan->ops->n_tensors && !passed; t++)
        passed = dv_tensor_role(plan->ops, t) == DV_ROLE_TEMPORARY;
    return passed;
}

// Returns whether the time limit ended the search for this plan, or for the
// plan of one of its classes of ranks (ranks with equal programs).
static int was_cut_short(const dv_plan *plan)
{
    int any = plan->scratch.cut_short;
    for (int32_t i = 0; i < plan->n_classes; i++)
        any |= plan->classes[i].plan->scratch.cut_short;
    return any;
}

// Returns the plan's text, followed by comments about the predicted time, a
// search that the time limit ended, unused scratchpads, and what was proved.
// With `one_rank`, a team's plan has only the class of ranks (with equal
// programs) that contains this rank.
static char *text_of(const dv_plan *plan, int checked, int one_rank)
{
    dv_text out = {0};
    dv_plan some = *plan;
    const dv_rank_class *c = dv_plan_class_of(plan, plan->team.rank);
    if (one_rank && c) {
        some.classes = (dv_rank_class *)(uintptr_t)c;
        some.n_classes = 1;
    }
    dv_plan_print(&out, &some);
    if (checked && dv_plan_has_price(plan)) {
        dv_price p = dv_plan_price(plan);
        dv_put(&out, "# predicted: ");
        dv_price_print(&out, &p);
        dv_put(&out, "\n");
    }
    if (was_cut_short(&some))
        dv_put(&out, "# time limit: it ended the search, so that the same call "
                     "may make another plan; a longer limit may find a better "
                     "plan\n");
    if (checked && keeps_nothing(plan))
        dv_put(&out, "# scratch: nothing stays on the cores; --explain says "
                     "why\n");
    if (checked && plan->team.n_axes)
        dv_put(&out,
               "# check: ok. %d op%s, %d class%s of ranks; every element is "
               "written once, every read finds its writer\n",
               (int)plan->ops->n_ops, DV_PLURAL(plan->ops->n_ops, "", "s"),
               (int)plan->n_classes, DV_PLURAL(plan->n_classes, "", "es"));
    else if (checked)
        dv_put(&out,
               "# check: ok. %d op%s in %d group%s; every element is written "
               "once, every read finds its writer\n",
               (int)plan->ops->n_ops, DV_PLURAL(plan->ops->n_ops, "", "s"),
               (int)plan->n_groups, DV_PLURAL(plan->n_groups, "", "s"));
    return dv_text_take(&out);
}

static int no_pass(const cli_command *c, const char *name)
{
    dv_text list = {0};
    for (int i = 0; i < DV_N_PASSES; i++)
        dv_put(&list, " %s", dv_pass_get((dv_pass_id)i)->name);
    int code =
        cli_usage(c, "--dump-after: there is no pass %s; there are:%s jit",
                  name, list.at ? list.at : "");
    dv_text_free(&list);
    return code;
}

// Returns the plan of the rank for which a team is planned, or the plan itself.
static const dv_plan *plan_of_rank(const dv_plan *plan)
{
    const dv_rank_class *c = dv_plan_class_of(plan, plan->team.rank);
    return c ? c->plan : plan;
}

// Prints which kernels run each op on the host, and their machine code.
static int dump_code(const dv_plan *plan, dv_diag *diag)
{
    dv_exec *x = NULL;
    dv_text out = {0};
    if (!dv_target_runs_here(&plan->target)) {
        dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                "kernels are made for this machine, %s is simulated",
                plan->target.name);
        return cli_fail(diag);
    }
    // Forget the kernels that were made while the plan was scheduled, so that
    // only those that run are listed.
    dv_kernels_drop();
    if (dv_exec_create(&x, plan, diag))
        return cli_fail(diag);
    dv_exec_list(x, &out);
    dv_exec_destroy(x);
    return cli_put(dv_text_take(&out), NULL, diag);
}

// Reports that the pass named by --dump-after does not run for this target or
// with these options.
static int not_run(watcher *w, dv_diag *diag)
{
    dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
            "--dump-after %s: that pass is not run here; those that are:%s",
            w->dump_after, w->ran.at ? w->ran.at : " none");
    return cli_fail(diag);
}

static void put_splits(dv_text *out, const dv_op *op, const int64_t *n)
{
    const char *sep = "";
    for (int v = 0; v < op->n_vars; v++) {
        if (n[v] == 1)
            continue;
        dv_put(out, "%s%s %" PRId64, sep, op->vars[v].name, n[v]);
        sep = " x ";
    }
    dv_put(out, "%s", sep[0] ? "" : "nothing");
}

static void put_spans(dv_text *out, const dv_plan *plan, const dv_op *op,
                      const dv_division *d)
{
    for (int r = 0; r <= op->n_reads; r++) {
        const dv_access *a = dv_op_access(op, r);
        dv_put(out, "%s%s ",
               r ? ", " : "    spans: ", plan->ops->tensors[a->tensor].name);
        dv_put_byte_size(out, d->whole_bytes[r]);
        dv_put(out, " -> ");
        dv_put_byte_size(out, d->spans_bytes[r]);
    }
    if (plan->target.span_limit_bytes) {
        dv_put(out, "; the limit is ");
        dv_put_byte_size(out, plan->target.span_limit_bytes);
    }
    dv_put(out, "\n");
}

// Prints the cost by which kernels for a sum of products are compared: the
// loads of elements of the factors. A product kernel counts each element once;
// a statement (vector) kernel counts two loads for every term of the sums.
static void put_loads(dv_text *out, const dv_op *op)
{
    int32_t factor[2];
    double once = 0, terms = dv_op_points_double(op, dv_all_vars(op));
    if (!dv_op_factors(op, factor))
        return;
    for (int i = 0; i < 2; i++) {
        const dv_access *a = &op->reads[factor[i]];
        once += dv_op_points_double(op, dv_access_vars(op, a));
    }
    dv_put(out,
           "    kernels compared: product, %.4g loads of its factors; "
           "statement, %.4g\n",
           once, 2 * terms);
}

// Prints what the user prescribes for an op: its kernel, its tile sizes, or
// both. Returns 0 if nothing is prescribed.
static int put_pins(dv_text *out, const dv_plan *plan, int32_t i)
{
    const dv_op *op = &plan->ops->ops[i];
    const dv_schedule_pins *pins = plan->schedule.pins;
    if (!pins || (pins[i].kind < 0 && !pins[i].tiled))
        return 0;
    if (pins[i].kind >= 0)
        dv_put(out, ", pinned");
    const char *before = ", tile pinned to";
    for (int32_t v = 0; v < op->n_vars; v++)
        if (pins[i].tiled >> v & 1) {
            dv_put(out, "%s %s %" PRId64, before, op->vars[v].name,
                   pins[i].tile[v]);
            before = ",";
        }
    return 1;
}

// Prints which kernel computes an op, and why.
static void put_kernel(dv_text *out, const dv_plan *plan, int32_t i)
{
    const dv_op *op = &plan->ops->ops[i];
    const dv_op_schedule *as = dv_op_scheduled(plan, i);
    dv_whole_op whole = dv_plan_whole_op(plan, i);
    const char *no_product = dv_sums_why_not_gemm(whole.p, whole.op);
    if (!as)
        return;
    dv_put(out, "    kernel: %s", dv_kernel_kind_name(as->kind));
    switch (put_pins(out, plan, i) ? DV_N_KERNEL_KINDS : as->kind) {
    case DV_N_KERNEL_KINDS:
        break;
    case DV_KERNEL_PRODUCT:
        dv_put(out, ", because its factors are used for several results each");
        break;
    case DV_KERNEL_ROWS:
        dv_put(out, ", with its group, because rows stay in the caches; a "
                    "statement is the alternative");
        break;
    case DV_KERNEL_INLINE:
        dv_put(out, ", because computing it again costs less than storing it");
        break;
    case DV_KERNEL_STRIP:
        dv_put(out, ", because no kernel can compute it");
        break;
    default:
        if (no_product && dv_op_kind(op) == DV_KIND_CONTRACTION)
            dv_put(out, ", because %s", no_product);
        else
            dv_put(out, ", in one pass over memory");
    }
    dv_put(out, "\n");
    put_loads(out, op);
}

// Prints how a product's sum is cut: the loops over its reduction variables.
static void put_sums(dv_text *out, const dv_plan *plan, int32_t i)
{
    const dv_op *op = &plan->ops->ops[i];
    const dv_op_schedule *as = dv_op_scheduled(plan, i);
    if (!as || as->kind != DV_KERNEL_PRODUCT)
        return;
    const dv_sum_order *s = &as->sums;
    dv_put(out, "    sums in every tile alike:");
    for (int32_t l = 0; l < s->n_levels; l++)
        if (!s->levels[l].inside)
            dv_put(out, " %s %" PRId64 " x", op->vars[s->levels[l].var].name,
                   s->levels[l].size);
    dv_put(out, " %s of",
           s->dot     ? "lanes"
           : s->pairs ? "matrices"
                      : "one chain");
    for (int32_t l = 0; l < s->n_levels; l++)
        if (s->levels[l].inside)
            dv_put(out, " %s %" PRId64, op->vars[s->levels[l].var].name,
                   s->levels[l].size);
    dv_put(out, "\n");
}

// Prints the estimated time of the loops of a product's tiles, for tiles whose
// loops were found by a search.
static void put_loops(dv_text *out, const dv_plan *plan, int32_t i)
{
    const dv_op_schedule *as = dv_op_scheduled(plan, i);
    for (int32_t k = 0; as && k < as->n_tiles; k++) {
        const dv_tile_schedule *t = &as->tiles[k];
        if (!t->n_candidates)
            continue;
        dv_put(out, "    loops, %.4g us, best of %d kernel%s and sizes: ",
               t->cost_us, (int)t->n_candidates,
               DV_PLURAL(t->n_candidates, "", "s"));
        dv_tile_schedule_print(out, &plan->ops->ops[i], t);
        dv_put(out, "\n");
    }
}

// For the ops that depend on constants only, prints whether they are computed
// once before the first run and, if not, why.
static void explain_once(dv_text *out, const dv_plan *plan)
{
    static const char *const why[] = {
        [DV_NOT_ONCE_OUTPUT] = "it is an output",
        [DV_NOT_ONCE_REPEAT] = "it is in a repeat",
        [DV_NOT_ONCE_LARGE] = "with it, what is computed once would take more "
                              "than 64 MiB in addition to the memory of the "
                              "constants that are not needed then"};
    const dv_program *p = plan->ops;
    dv_once *once = dv_alloc((size_t)p->n_ops * sizeof *once + 1);
    if (!once || !dv_program_find_once(p, once))
        out->failed = 1;
    for (int32_t i = 0; !out->failed && i < p->n_ops; i++) {
        if (plan->groups[dv_group_of(plan, i)].once)
            dv_put(out,
                   "%s: computed once, before the first run: it reads nothing "
                   "that changes between runs\n",
                   p->ops[i].name);
        else if (once[i] > DV_ONCE)
            dv_put(out,
                   "%s: reads nothing that changes between runs, but is "
                   "computed in every run: %s\n",
                   p->ops[i].name, why[once[i]]);
    }
    dv_release(once);
}

// Prints the predicted time of the best alternative plan that cuts this op in
// another way.
static void put_otherwise(dv_text *out, const dv_division *d)
{
    if (!d->n_otherwise)
        return;
    dv_put(out,
           "    the best of %" PRId64 " plan%s that cut%s this op in another "
           "way ",
           d->n_otherwise, DV_PLURAL(d->n_otherwise, "", "s"),
           DV_PLURAL(d->n_otherwise, "s", ""));
    if (d->otherwise_us == 0)
        dv_put(out, "takes as long as this plan");
    else
        dv_put(out, "takes %.4g us %s", fabs(d->otherwise_us),
               d->otherwise_us > 0 ? "longer" : "less");
    if (d->otherwise_bytes != 0) {
        dv_put(out, " and moves ");
        dv_put_byte_size(out, (int64_t)fabs(d->otherwise_bytes));
        dv_put(out, " %s", d->otherwise_bytes > 0 ? "more" : "less");
    }
    dv_put(out, "\n");
}

static void explain_op(dv_text *out, const dv_plan *plan, int32_t i)
{
    const dv_op *op = &plan->ops->ops[i];
    const dv_division *d = &plan->divisions[i];
    int64_t n[DV_MAX_VARS], reduced = 1;
    for (int v = 0; v < op->n_vars; v++) {
        int64_t len = dv_var_len(op, v);
        n[v] = (len - 1) / plan->slices[i][v] + 1;
        reduced *= op->vars[v].reduce ? n[v] : 1;
    }
    dv_put(out, "%s: ", op->name);
    if (!d->spans_bytes) {
        dv_put(out, "opaque, whole on one core\n");
        return;
    }
    int64_t tiles = dv_plan_n_tiles(plan, i), cores = plan->target.cores;
    put_splits(out, op, n);
    dv_put(out, " on %" PRId64 " of %" PRId64 " core%s, %.4g us: ",
           dv_min_i64(tiles, cores), cores, DV_PLURAL(cores, "", "s"),
           d->cost_us);
    if (tiles > cores)
        dv_put(out, "%" PRId64 " round%s, in each ", dv_ceil_div(tiles, cores),
               DV_PLURAL(dv_ceil_div(tiles, cores), "", "s"));
    dv_put(out, "compute %.4g, memory %.4g, combine %.4g\n", d->compute_us,
           d->memory_us, d->combine_us);
    if (reduced > 1)
        dv_put(out, "    %" PRId64 " partial results are combined in order\n",
               reduced);
    if (d->runner) {
        dv_put(out, d->followed
                        ? "    cut like other ops that touch its tensors; "
                          "by itself: "
                        : "    next best: ");
        put_splits(out, op, d->runner);
        dv_put(out, ", %.4g us\n", d->runner_up_us);
    }
    put_otherwise(out, d);
    if (d->candidates)
        dv_put(out,
               "    %s%" PRId64 " division%s priced, %" PRId64
               " ruled out by the span limit\n",
               d->pinned && !plan->team_ops ? "pinned; " : "", d->candidates,
               DV_PLURAL(d->candidates, "", "s"), d->over_span);
    for (int v = 0; v < op->n_vars; v++) {
        if (d->why_undivided[v])
            dv_put(out, "    %s stays whole: %s\n", op->vars[v].name,
                   d->why_undivided[v]);
        if (d->forced[v] > 1)
            dv_put(out, "    %s: the span limit demands %" PRId64 " slice%s\n",
                   op->vars[v].name, d->forced[v],
                   DV_PLURAL(d->forced[v], "", "s"));
    }
    put_kernel(out, plan, i);
    put_sums(out, plan, i);
    put_loops(out, plan, i);
    put_spans(out, plan, op, d);
}

// Prints the number of copies that only change the stick dimension (the one cut
// into sticks, the target's units of memory), which the layout pass inserted.
static void explain_sticks(dv_text *out, const dv_plan *plan)
{
    int64_t n = 0, bytes = 0;
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        const dv_op *op = &plan->ops->ops[i];
        const dv_layout *to = &plan->layouts[op->write.tensor];
        if (!dv_op_is_copy(op))
            continue;
        const dv_layout *from = &plan->layouts[op->reads[0].tensor];
        if (from->stick_dim == to->stick_dim)
            continue;
        n++;
        bytes += from->bytes + to->bytes;
    }
    if (n == 0)
        return;
    dv_put(out, "sticks: %" PRId64 " move%s of ", n, DV_PLURAL(n, "", "s"));
    dv_put_byte_size(out, bytes);
    dv_put(out, " to bring operands in line, %s\n",
           plan->sticks_exact ? "no choice needs less"
                              : "of the choices that were tried the least");
}

// Prints the predicted time of each group (ops that share one tile space) and
// of the whole plan, and what limits it.
static void explain_price(dv_text *out, const dv_plan *plan)
{
    if (!dv_plan_has_price(plan))
        return;
    dv_price all = dv_plan_price(plan);
    dv_put(out, "predicted: ");
    dv_price_print(out, &all);
    dv_put(out, "; no plan takes less than %.4g us\n", dv_plan_least_us(plan));
    for (int32_t i = 0; i < plan->n_groups; i++) {
        const dv_group *g = &plan->groups[i];
        dv_price p = dv_group_price(plan, i);
        double times = dv_group_times(plan, i);
        dv_put(out, "    ");
        for (int32_t op = g->first_op; op < g->end_op; op++)
            dv_put(out, "%s%s", op > g->first_op ? " " : "",
                   plan->ops->ops[op].name);
        dv_put(out, ", ");
        if (times > 1)
            dv_put(out, "%.0f times ", times);
        dv_price_print(out, &p);
        dv_put(out, "; %s limits it\n", dv_limit_name(p.limit));
    }
}

// Prints which copies remain in the program although they only rearrange
// elements, and why their readers cannot read the source instead.
static void explain_copies(dv_text *out, const dv_plan *whole)
{
    dv_program *source = NULL;
    if (dv_plan_source(whole, &source, NULL) != DV_OK || !source)
        return;
    unsigned char *live = dv_alloc((size_t)source->n_ops);
    if (!live || !dv_program_find_live(source, live) ||
        !dv_program_explain_copies(out, source, live))
        out->failed = 1;
    dv_release(live);
    dv_program_destroy(source);
}

static char *explain(const dv_plan *whole)
{
    const dv_plan *plan = plan_of_rank(whole);
    dv_text out = {0};
    if (!plan->divisions)
        dv_put(&out, "the plan was read, not made: nothing was decided\n");
    for (int32_t i = 0; i < whole->n_removed; i++)
        dv_put(&out, "%s: removed, it reaches no output\n", whole->removed[i]);
    for (int32_t i = 0; i < whole->n_views; i++)
        dv_put(&out,
               "%s: removed, its readers read the elements that it would copy "
               "where they are\n",
               whole->views[i]);
    if (plan->divisions && dv_target_packs(&whole->target))
        explain_copies(&out, whole);
    if (plan->divisions && dv_target_runs_here(&plan->target) &&
        !plan->team_ops)
        explain_once(&out, plan);
    if (plan->divisions && plan->target.sticks)
        explain_sticks(&out, plan);
    for (int32_t i = 0; plan->divisions && i < plan->ops->n_ops; i++)
        explain_op(&out, plan, i);
    explain_price(&out, plan);
    cli_explain_scratch(&out, plan);
    return dv_text_take(&out);
}

static cli_report_args report;

// What `divvy plan` prints besides the plan, and where.
typedef struct outputs {
    watcher w;
    const char *out;
    int json, why, one_rank;
} outputs;

// Checks the options about what to print. Returns -1 to continue, or reports an
// error and returns the exit code.
static int check_outputs(const cli_command *c, const outputs *o,
                         const char *file, const char *target)
{
    const char *dump = o->w.dump_after;
    int code =
        cli_check_overwrite(c, "-o", o->out, file, "the file that it reads");
    if (code < 0)
        code = cli_check_overwrite(c, "-o", o->out, target,
                                   "the target's description");
    if (code < 0)
        code = cli_report_paths(c, &report, file, target, o->out);
    if (code >= 0)
        return code;
    if (dump && strcmp(dump, "all") != 0 && strcmp(dump, "jit") != 0 &&
        dv_pass_find(dump) < 0)
        return no_pass(c, dump);
    if (o->json && (dump || o->why))
        return cli_usage(c, "--%s prints text, --json does not",
                         dump ? "dump-after" : "explain");
    return -1;
}

// Prints a plan, or what --dump-after selects. Returns the exit code.
static int put_plan(outputs *o, const dv_plan *plan, int whole, dv_diag *diag)
{
    const char *dump = o->w.dump_after;
    if (dump && !strcmp(dump, "jit"))
        return dump_code(plan_of_rank(plan), diag);
    if (dump && !o->w.dumped && strcmp(dump, "all") != 0)
        return not_run(&o->w, diag);
    if (dump ? !o->out
             : (report.html || report.trace) && !o->out && !o->json && !o->why)
        return 0;
    return cli_put(o->why    ? explain(plan)
                   : o->json ? dv_plan_json(plan)
                             : text_of(plan, whole, o->one_rank),
                   o->out, diag);
}

int cli_plan(const cli_command *c, int argc, char **argv)
{
    static cli_plan_args args;
    outputs o = {0};
    cli_report_args *pages = &report;
    const char *files[1];
    int n_files;
    const cli_option options[] = {
#include "cli/plan_options.def"
#include "cli/report_options.def"
        {"json", 0, NULL, "the same facts for programs", CLI_FLAG, &o.json},
        {"out", 'o', "FILE", "write to a file, whole or not at all", CLI_TEXT,
         &o.out},
        {"dump-after", 0, "PASS",
         "print the plan after a pass, or 'all'; 'jit': the machine code",
         CLI_TEXT, &o.w.dump_after},
        {"stop-after", 0, "PASS", "run no pass after this one", CLI_TEXT,
         &args.options.stop_after},
        {"start-at", 0, "PASS", "FILE is a plan: go on from this pass",
         CLI_TEXT, &args.start_at},
        {"explain", 0, NULL,
         "say why ops are divided and tensors kept as they are", CLI_FLAG,
         &o.why},
        {"time-passes", 0, NULL, "say how long each pass took", CLI_FLAG,
         &o.w.times},
        {0}};
    args.options.rank = CLI_RANK_NOT_GIVEN;
    int code = cli_parse(c, options, argc, argv, files, &n_files, 1);
    args.takes_rank = o.one_rank = cli_rank_is_given(&args);
    if (code >= 0)
        return code;
    if (n_files != 1)
        return cli_usage(c, "a program or a plan is needed");
    code = check_outputs(c, &o, files[0], args.target);
    if (code >= 0)
        return code;
    // Make the plan that `divvy run` would make with the same number of
    // processes.
    if (cli_ranks > 1 && !args.options.team && !args.options.grid) {
        args.options.team = cli_ranks;
        args.team_of_ranks = 1;
    }
    args.options.after_pass = after_pass;
    args.options.user = &o.w;
    dv_diag *diag = dv_diag_create();
    static cli_loaded l;
    code = cli_load(c, files[0], &args, &l, diag);
    if (code < 0) {
        cli_warnings(diag);
        code = put_plan(&o, l.plan, !args.options.stop_after, diag);
        if (code == 0)
            code = cli_report_write(pages, &l, NULL, NULL, diag);
    }
    cli_unload(&l);
    dv_text_free(&o.w.ran);
    dv_diag_destroy(diag);
    return code;
}
