// Runs the passes (steps of planning): executes, verifies, times and reports
// each of them, so that no pass has to do this itself.
#include "base/clock.h"
#include "base/file.h"
#include "base/options.h"
#include "base/plural.h"
#include "base/stop.h"
#include "plan/source.h"
#include <inttypes.h>
#include <string.h>

enum { MAX_THREADS = 4096 };

static const dv_pass passes[] = {
#define PASS(name, section, needs, gives, about)                               \
    {#name,                                                                    \
     #section,                                                                 \
     needs,                                                                    \
     gives,                                                                    \
     dv_##name##_run,                                                          \
     dv_##name##_verify,                                                       \
     dv_##name##_print,                                                        \
     dv_##name##_read},
#define PASSES(name, needs, gives, about)                                      \
    {#name, NULL, needs, gives, dv_##name##_run, dv_##name##_verify,           \
     NULL,  NULL},
#include "plan/pass.def"
#undef PASS
#undef PASSES
};

const dv_pass *dv_pass_get(dv_pass_id id)
{
    return &passes[id];
}

int dv_pass_find(const char *name)
{
    for (int i = 0; i < DV_N_PASSES; i++)
        if (strcmp(passes[i].name, name) == 0)
            return i;
    return -1;
}

static dv_plan *new_plan(void)
{
    dv_arena arena = {0};
    dv_plan *plan = DV_NEW(&arena, dv_plan, 1);
    if (!plan)
        return NULL;
    plan->arena = arena;
    for (int i = 0; i < DV_N_PASSES; i++)
        plan->pass_ms[i] = -1;
    return plan;
}

void dv_plan_forget_ranks(dv_plan *plan)
{
    for (int32_t i = 0; i < plan->n_classes; i++)
        dv_plan_destroy(plan->classes[i].plan);
    plan->n_classes = 0;
}

const dv_rank_class *dv_plan_class_of(const dv_plan *plan, int64_t rank)
{
    for (int32_t i = 0; i < plan->n_classes; i++)
        for (int32_t k = 0; k < plan->classes[i].n_ranks; k++)
            if (plan->classes[i].ranks[k] == rank)
                return &plan->classes[i];
    return NULL;
}

void dv_plan_destroy(dv_plan *plan)
{
    if (!plan)
        return;
    dv_plan_forget_ranks(plan);
    dv_program_destroy(plan->ops);
    // The arena is copied out first, because the plan itself lives in it.
    dv_arena arena = plan->arena;
    dv_arena_free(&arena);
}

static dv_status find_pass(const char *name, int if_null, int *out,
                           dv_diag *diag)
{
    *out = name ? dv_pass_find(name) : if_null;
    if (*out >= 0)
        return DV_OK;
    dv_text list = {0};
    for (int i = 0; i < DV_N_PASSES; i++)
        dv_put(&list, "%s%s", i ? ", " : "", passes[i].name);
    dv_status st = dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "there is no pass %s; they are %s", name,
                           list.at ? list.at : "");
    dv_text_free(&list);
    return st;
}

static dv_status run_watched(dv_pass_cx *cx, dv_plan *plan, int first)
{
    int last;
    const dv_plan_options *o = cx->options;
    DV_TRY(find_pass(o->stop_after, DV_N_PASSES - 1, &last, cx->diag));
    for (int i = first; i <= last; i++) {
        const dv_pass *pass = &passes[i];
        if (i == DV_PASS_dist && !dv_team_wanted(cx, plan))
            continue;
        // In the plan of a team, the passes after `ranks` do not run: each rank
        // has a plan of its own, which the pass ranks makes.
        if (plan->team.n_axes ? i > DV_PASS_ranks : i == DV_PASS_ranks)
            continue;
        // If all passes up to scratch run, the pass joint makes their choices.
        // Other passes are skipped if the plan already has their results.
        if (i == DV_PASS_joint ? last < DV_PASS_scratch
                               : !(pass->gives & ~plan->facts))
            continue;
        dv_diag_pass(cx->diag, pass->name);
        dv_stop_step(pass->name);
        DV_TRY(dv_stop_check(cx->diag));
        if (pass->needs & ~plan->facts)
            return dv_fail(cx->diag, DV_E_USAGE, DV_NOWHERE,
                           "pass %s needs what an earlier pass gives, and that "
                           "is not in the plan",
                           pass->name);
        double start = dv_clock_s();
        DV_TRY(pass->run(cx, plan));
        plan->pass_ms[i] = (dv_clock_s() - start) * 1e3;
        plan->facts |= pass->gives;
        // If the caller stopped planning, fail here instead of verifying the
        // result of a search that may be incomplete.
        DV_TRY(dv_stop_check(cx->diag));
        DV_TRY(pass->verify(plan, cx->diag));
        dv_diag_pass(cx->diag, NULL);
        if (o->after_pass)
            o->after_pass(o->user, pass->name, plan->pass_ms[i], plan);
    }
    return DV_OK;
}

// Runs the passes from number `first` on. The caller can stop them through
// options->watch, and the time limit of the options ends their searches.
static dv_status run_passes(dv_pass_cx *cx, dv_plan *plan, int first)
{
    dv_stop stop = {.watch = cx->options->watch,
                    .user = cx->options->watch_user};
    if (cx->options->time_limit_s > 0)
        stop.until_s = dv_clock_s() + cx->options->time_limit_s;
    dv_stop_begin(&stop);
    dv_status st = run_watched(cx, plan, first);
    dv_stop_end(&stop);
    return st;
}

dv_status dv_choose_cores(dv_target *t, const dv_plan_options *options,
                          dv_diag *diag)
{
    int64_t all = t->cores;
    DV_TRY(dv_target_restrict(t, options->allowed, options->n_allowed,
                              options->holes, options->n_holes, DV_NOWHERE,
                              diag));
    if (options->cores && (options->cores < 1 || options->cores > t->cores))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "%s has %" PRId64 " core%s%s, %" PRId64
                       " were asked for",
                       t->name, t->cores, DV_PLURAL(t->cores, "", "s"),
                       t->holes.n ? " left" : "", options->cores);
    if (options->cores)
        DV_TRY(dv_target_restrict_first(t, options->cores, diag));
    // A core of the host counts as having a fixed share of the memory
    // bandwidth; scale the bandwidth with the number of cores, so that each
    // keeps its share. On described machines, the property core_bandwidth
    // limits what few cores can draw.
    if (dv_target_has_caches(t))
        t->memory_bandwidth_bytes_per_s *= (double)t->cores / (double)all;
    return DV_OK;
}

static dv_status limit_cores(dv_plan *plan, const dv_plan_options *options,
                             dv_diag *diag)
{
    if (options->threads && !dv_target_runs_here(&plan->target))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "threads are for this machine, %s is simulated",
                       plan->target.name);
    if (options->threads && options->cores)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "%" PRId64 " thread%s and %" PRId64
                       " core%s: on this machine a thread is a core",
                       options->threads, DV_PLURAL(options->threads, "", "s"),
                       options->cores, DV_PLURAL(options->cores, "", "s"));
    if (options->threads < 0 || options->threads > MAX_THREADS)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "%" PRId64 " thread%s: there may be 1 to %d",
                       options->threads, DV_PLURAL(options->threads, "", "s"),
                       (int)MAX_THREADS);
    if (options->threads && options->threads != plan->target.cores) {
        // If the number of threads is given and differs from that of cores, the
        // grid of cores is dropped, because threads have no grid positions.
        plan->target.core_grid = (dv_core_grid){0, 0};
        plan->target.holes.n = 0;
    }
    if (options->threads)
        plan->target.cores = options->threads;
    if (options->tiles_per_core)
        plan->target.tiles_per_core = options->tiles_per_core;
    return dv_choose_cores(&plan->target, options, diag);
}

// Fails if an enum among the options has no valid value.
static dv_status check_enums(const dv_plan_options *o, dv_diag *diag)
{
    const struct {
        const char *field;
        int value, n;
    } enums[] = {
        {"divide", (int)o->divide, DV_DIVIDE_SPAN + 1},
        {"joint", (int)o->joint, DV_JOINT_OFF + 1},
        {"scratch", (int)o->scratch, DV_RESIDENTS_NONE + 1},
        {"in_place", (int)o->in_place, DV_OFF + 1},
        {"clone_inputs", (int)o->clone_inputs, DV_OFF + 1},
        {"ring", (int)o->ring, DV_OFF + 1},
        {"evict", (int)o->evict, DV_OFF + 1},
        {"reorder", (int)o->reorder, DV_OFF + 1},
        {"recompute", (int)o->recompute, DV_OFF + 1},
        {"tenants", (int)o->tenants, DV_TENANTS_MANY + 1},
        {"solver", (int)o->solver, DV_SOLVER_GREEDY + 1},
    };
    for (size_t i = 0; i < sizeof enums / sizeof *enums; i++)
        DV_TRY(
            dv_options_enum(enums[i].value, enums[i].n, enums[i].field, diag));
    return DV_OK;
}

// Fails if a number among the options is negative.
static dv_status check_counts(const dv_plan_options *o, dv_diag *diag)
{
    const struct {
        const char *field;
        int64_t value;
    } counts[] = {{"cores", o->cores},
                  {"threads", o->threads},
                  {"place_budget", o->place_budget},
                  {"team", o->team},
                  {"rank", o->rank},
                  {"tiles_per_core", o->tiles_per_core}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].value < 0)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "option %s is %" PRId64 ", less than 0",
                           counts[i].field, counts[i].value);
    if (!(o->time_limit_s >= 0))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "a time limit of %g seconds", o->time_limit_s);
    return DV_OK;
}

// Fails if a list of strings is missing or has a NULL.
static dv_status check_names(const char *const *list, size_t n,
                             const char *field, dv_diag *diag)
{
    DV_TRY(dv_options_list(list, n, field, diag));
    for (size_t i = 0; i < n; i++)
        if (!list[i])
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "%s[%zu] is NULL, n_%s is %zu", field, i, field, n);
    return DV_OK;
}

// Copies the caller's options and fails if they are not valid.
static dv_status read_options(dv_plan_options *o, const dv_plan_options *given,
                              dv_diag *diag)
{
    DV_TRY(dv_options_read(o, sizeof *o, given, "dv_plan_options", diag));
    DV_TRY(check_enums(o, diag));
    if (o->divide == DV_DIVIDE_SPAN) {
        if (o->joint && o->joint != DV_JOINT_OFF)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "divide span cuts only what the span limit "
                           "requires, joint auto and seed cut more: use one");
        o->joint = DV_JOINT_OFF;
    }
    DV_TRY(check_counts(o, diag));
    DV_TRY(dv_options_list(o->allowed, o->n_allowed, "allowed", diag));
    DV_TRY(dv_options_list(o->holes, o->n_holes, "holes", diag));
    DV_TRY(check_names(o->pins, o->n_pins, "pins", diag));
    DV_TRY(check_names(o->constants, o->n_constants, "constants", diag));
    return check_names(o->bars, o->n_bars, "bars", diag);
}

dv_status dv_plan_create(dv_plan **out, const dv_program *program,
                         const dv_target *target,
                         const dv_plan_options *options, dv_diag *diag)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    DV_TRY(read_options(&o, options, diag));
    dv_plan *plan = new_plan();
    if (!plan)
        return dv_nomem(diag);
    plan->target = *target;
    dv_pass_cx cx = {program, &o, diag};
    dv_status st = limit_cores(plan, &o, diag);
    if (st == DV_OK)
        st = dv_source_set(plan, program, diag);
    if (st == DV_OK)
        st = run_passes(&cx, plan, 0);
    if (st == DV_OK)
        *out = plan;
    else
        dv_plan_destroy(plan);
    return st;
}

dv_status dv_plan_rank(dv_plan **out, const dv_plan *team, dv_program *ops,
                       const int32_t *team_ops, const dv_plan_options *options,
                       dv_diag *diag)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    dv_plan *plan = new_plan();
    dv_status st = plan ? read_options(&o, options, diag) : dv_nomem(diag);
    if (!plan || st != DV_OK) {
        dv_program_destroy(ops);
        dv_plan_destroy(plan);
        return st;
    }
    plan->target = team->target;
    plan->facts = DV_FACT_LOWERED;
    plan->team_program = team->ops;
    plan->team_ops = team_ops;
    plan->ops = ops;
    dv_pass_cx cx = {ops, &o, diag};
    st = limit_cores(plan, &o, diag);
    if (st == DV_OK)
        st = run_passes(&cx, plan, DV_PASS_layout);
    if (st == DV_OK)
        *out = plan;
    else
        dv_plan_destroy(plan);
    return st;
}

int dv_plan_renumber_team_ops(dv_plan *plan, const int32_t *old, int32_t n)
{
    if (!plan->team_ops)
        return 1;
    int32_t *ops = DV_NEW(&plan->arena, int32_t, n);
    for (int32_t i = 0; i < n && ops; i++)
        ops[i] = old[i] < 0 ? -1 : plan->team_ops[old[i]];
    plan->team_ops = ops;
    return ops != NULL;
}

static dv_status read_section(dv_plan *plan, dv_lexer *lx)
{
    char buf[48];
    if (dv_lex_is(lx, "source"))
        return dv_source_read(plan, lx);
    for (int i = 0; i < DV_N_PASSES; i++) {
        const dv_pass *pass = &passes[i];
        if (!pass->section || !dv_lex_is(lx, pass->section))
            continue;
        if (plan->facts & pass->gives)
            return dv_fail(lx->diag, DV_E_SYNTAX, dv_lex_at(lx),
                           "a second section %s", pass->section);
        // A plan written by hand may omit sections, but no section can refer to
        // ops before the section with the program.
        if (i > 0 && !(plan->facts & DV_FACT_LOWERED))
            return dv_fail(lx->diag, DV_E_SYNTAX, dv_lex_at(lx),
                           "section %s stands before what it needs",
                           pass->section);
        DV_TRY(dv_lex(lx));
        DV_TRY(pass->read(plan, lx));
        plan->facts |= pass->gives;
        return DV_OK;
    }
    return dv_fail(lx->diag, DV_E_SYNTAX, dv_lex_at(lx),
                   "expected a section of a plan, found %s",
                   dv_lex_show(lx, buf));
}

dv_status dv_plan_read_rank(dv_plan **out, const dv_plan *team, int64_t cores,
                            dv_lexer *lx)
{
    dv_plan *plan = *out = new_plan();
    if (!plan)
        return dv_nomem(lx->diag);
    plan->src = team->src;
    plan->target = team->target;
    if (cores != plan->target.cores) {
        plan->target.core_grid = (dv_core_grid){0, 0};
        plan->target.holes.n = 0;
        plan->target.cores = cores;
    }
    while (lx->tok.kind != '}' && lx->tok.kind != DV_TOK_END) {
        if (dv_lex_is(lx, "dist") || dv_lex_is(lx, "ranks"))
            return dv_fail(lx->diag, DV_E_SYNTAX, dv_lex_at(lx),
                           "a rank is not a team");
        DV_TRY(read_section(plan, lx));
    }
    return DV_OK;
}

static dv_status read_plan(dv_plan *plan, const char *text, size_t len,
                           const char *name, dv_diag *diag)
{
    dv_source src = {name, text, len};
    if ((int64_t)len > DV_MAX_TEXT_BYTES)
        return dv_fail(diag, DV_E_LIMIT, (dv_loc){&src, DV_FILE},
                       "the text has more than %d MiB",
                       (int)(DV_MAX_TEXT_BYTES >> 20));
    plan->src.name = dv_arena_copy(&plan->arena, name, strlen(name));
    plan->src.text = dv_arena_copy(&plan->arena, text, len);
    plan->src.len = len;
    if (!plan->src.name || !plan->src.text)
        return dv_nomem(diag);
    dv_lexer lx;
    DV_TRY(dv_lexer_init(&lx, &plan->src, diag));
    if (!dv_lex_is(&lx, "plan"))
        return dv_fail(diag, DV_E_SYNTAX, dv_lex_at(&lx),
                       "a plan starts with 'plan 1'");
    DV_TRY(dv_lex(&lx));
    if (lx.tok.kind != DV_TOK_INT || lx.tok.i != 1)
        return dv_fail(diag, DV_E_SYNTAX, dv_lex_at(&lx),
                       "plans of version 1 are read");
    DV_TRY(dv_lex(&lx));
    if (!dv_lex_is(&lx, "target"))
        return dv_fail(diag, DV_E_SYNTAX, dv_lex_at(&lx),
                       "a plan's first section is its target");
    DV_TRY(dv_target_read(&lx, &plan->target));
    while (lx.tok.kind != DV_TOK_END)
        DV_TRY(read_section(plan, &lx));
    return dv_source_verify(plan, diag);
}

// Marks the results of the passes from `first` on as not present.
static void forget(dv_plan *plan, int first)
{
    for (int i = first; i < DV_N_PASSES; i++)
        plan->facts &= ~passes[i].gives;
}

// Schedules a plan that was read from text without section `schedule` (kernels
// and loops), or completes that section, so that it can be printed and checked
// before it runs. A plan that the checker refuses is left as it is.
static dv_status schedule_plan(dv_plan *plan, const dv_plan_options *options,
                               dv_diag *diag)
{
    const dv_pass *pass = &passes[DV_PASS_schedule];
    dv_pass_cx cx = {plan->ops, options, diag};
    int on_reading = !(plan->facts & pass->gives);
    if (pass->needs & ~plan->facts || !dv_target_runs_here(&plan->target) ||
        (!on_reading && !dv_schedule_lacks_loops(plan)))
        return DV_OK;
    dv_status st = dv_plan_check(plan, NULL);
    if (st != DV_OK)
        return st == DV_E_NOMEM ? dv_nomem(diag) : DV_OK;
    DV_TRY(pass->run(&cx, plan));
    plan->facts |= pass->gives;
    plan->schedule.on_reading = on_reading;
    return DV_OK;
}

// Plans the ranks of a team if its plan was read from text without section
// `ranks`. A plan that the checker refuses is left as it is.
static dv_status plan_ranks(dv_plan *plan, const dv_plan_options *options,
                            dv_diag *diag)
{
    dv_pass_cx cx = {plan->ops, options, diag};
    // Cores belong to ranks, so sections about cores have no meaning in the
    // plan of the team itself: drop them.
    forget(plan, DV_PASS_layout);
    if (plan->facts & DV_FACT_RANKS) {
        for (int32_t i = 0; i < plan->n_classes; i++)
            DV_TRY(schedule_plan(plan->classes[i].plan, options, diag));
        return DV_OK;
    }
    dv_status st = dv_plan_check_team(plan, NULL);
    if (st != DV_OK)
        return st == DV_E_NOMEM ? dv_nomem(diag) : DV_OK;
    DV_TRY(dv_ranks_run(&cx, plan));
    plan->facts |= DV_FACT_RANKS;
    return DV_OK;
}

// Fails if the caller wants another number of cores than `cores`, for which a
// plan was made, and the pass that assigns tiles to cores does not run again.
// The ranks of a team may be planned again when they run.
static dv_status keep_cores(const dv_plan *plan, int64_t cores, int first,
                            const dv_plan_options *options, dv_diag *diag)
{
    int threads = options->threads > 0;
    int64_t n = threads ? options->threads : options->cores;
    if (!n || n == cores || first <= DV_PASS_group || plan->team.n_axes ||
        !(plan->facts & DV_FACT_GROUPED))
        return DV_OK;
    const char *what = threads ? "threads" : "cores";
    return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                   "--%s %" PRId64 " has no effect: %s is a plan for %" PRId64
                   " core%s; divvy plan %s --start-at joint --%s %" PRId64
                   " plans it again",
                   what, n, plan->src.name, cores, DV_PLURAL(cores, "", "s"),
                   plan->src.name, what, n);
}

static dv_status resume(dv_plan *plan, const char *start_at,
                        const dv_plan_options *options, dv_diag *diag)
{
    int first = DV_N_PASSES;
    int64_t cores = plan->target.cores;
    DV_TRY(limit_cores(plan, options, diag));
    if (start_at)
        DV_TRY(find_pass(start_at, 0, &first, diag));
    DV_TRY(keep_cores(plan, cores, first, options, diag));
    if (!start_at)
        return plan->team.n_axes ? plan_ranks(plan, options, diag)
                                 : schedule_plan(plan, options, diag);
    if (plan->team.n_axes && first > DV_PASS_ranks)
        first = DV_PASS_ranks;
    dv_pass_cx cx = {plan->ops, options, diag};
    if (first == 0 && !plan->ops)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the plan has no program to start from");
    forget(plan, first);
    dv_program *source = plan->ops;
    dv_status st = run_passes(&cx, plan, first);
    if (plan->ops != source)
        dv_program_destroy(source); // pass `lower` made a new program
    return st;
}

dv_status dv_plan_parse(dv_plan **out, const char *text, size_t len,
                        const char *name, const char *start_at,
                        const dv_plan_options *options, dv_diag *diag)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    DV_TRY(read_options(&o, options, diag));
    dv_plan *plan = new_plan();
    if (!plan)
        return dv_nomem(diag);
    dv_status st = read_plan(plan, text, len, name, diag);
    if (st == DV_OK)
        st = resume(plan, start_at, &o, diag);
    if (st == DV_OK)
        *out = plan;
    else
        dv_plan_destroy(plan);
    return st;
}

int32_t dv_plan_n_groups(const dv_plan *plan)
{
    return plan->n_groups;
}

dv_loc dv_plan_at(const dv_plan *plan, uint32_t off)
{
    return (dv_loc){plan->src.text ? &plan->src : NULL, off};
}

void dv_plan_print_sections(dv_text *out, const dv_plan *plan)
{
    for (int i = 0; i < DV_N_PASSES; i++)
        if (passes[i].section &&
            (plan->facts & passes[i].gives) == passes[i].gives)
            passes[i].print(out, plan);
}

void dv_plan_print(dv_text *out, const dv_plan *plan)
{
    dv_put(out, "plan 1\n");
    dv_target_print(out, &plan->target, 0);
    dv_source_print(out, plan);
    dv_plan_print_sections(out, plan);
}

char *dv_plan_text(const dv_plan *plan)
{
    dv_text out = {0};
    dv_plan_print(&out, plan);
    return dv_text_take(&out);
}
