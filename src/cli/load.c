// Loads plans for the commands that use them, and applies environment
// variables.
#include "cli/load.h"
#include "base/file.h"
#include "base/plural.h"
#include "divide/divide.h"
#include "lang/lexer.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Returns whether the text is a plan: it starts with `plan 1`, which no program
// does.
static int is_plan(const char *text, size_t len)
{
    dv_source src = {"", text, len};
    dv_lexer lx;
    return dv_lexer_init(&lx, &src, NULL) == DV_OK && dv_lex_is(&lx, "plan") &&
           dv_lex_peek(&lx).kind == DV_TOK_INT;
}

// Applies the environment variable that limits the number of cores, if the
// target names one (such as SENCORES). --cores has precedence.
static dv_status cores_from_environment(const dv_target *t,
                                        dv_plan_options *options, dv_diag *diag)
{
    const char *name = t->cores_variable;
    const char *value = name[0] ? getenv(name) : NULL;
    if (!value || options->cores)
        return DV_OK;
    char *end;
    options->cores = strtoll(value, &end, 10);
    if (end == value || *end || options->cores < 1 || options->cores > t->cores)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "%s=%s: %s has 1 to %" PRId64 " cores to choose from",
                       name, value, t->name, t->cores);
    return DV_OK;
}

// Applies the environment variable with the fraction of the scratchpads that
// the back end reserves for itself, if the target names one (such as
// DXP_LX_FRAC_AVAIL).
static dv_status reserved_from_environment(dv_target *t, dv_diag *diag)
{
    const char *name = t->scratch_variable;
    const char *value = name[0] ? getenv(name) : NULL;
    if (!value)
        return DV_OK;
    char *end;
    double share = strtod(value, &end);
    if (end == value || *end || !(share >= 0 && share <= 1))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "%s=%s: a share is 0 to 1",
                       name, value);
    t->scratch_reserved_percent = share * 100;
    return DV_OK;
}

static dv_status zero_or_one(const char *name, const char *value, int *out,
                             dv_diag *diag)
{
    *out = value && !strcmp(value, "1");
    if (!value || *out || !strcmp(value, "0"))
        return DV_OK;
    return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "%s=%s: it is 0 or 1", name,
                   value);
}

// Applies the other environment variables that Torch-Spyre (the PyTorch backend
// of IBM's Spyre accelerator) reads. Options of divvy that were given take
// precedence.
static dv_status torch_spyre_environment(dv_plan_options *o, dv_diag *diag)
{
    static const struct {
        const char *name;
        dv_solver solver;
    } solvers[] = {{"greedy", DV_SOLVER_GREEDY},
                   {"firstfit", DV_SOLVER_FIRSTFIT},
                   {"bestfit", DV_SOLVER_BESTFIT},
                   {"simulated_annealing", DV_SOLVER_ANNEAL},
                   {"cpsat", DV_SOLVER_EXACT}};
    const char *planning = getenv("LX_PLANNING");
    const char *solver = getenv("LAYOUT_SOLVER");
    const char *joint = getenv("CO_OPTIMIZING_LX_PLANNING");
    int on;
    DV_TRY(zero_or_one("LX_PLANNING", planning, &on, diag));
    if (planning && !on && !o->scratch)
        o->scratch = DV_RESIDENTS_NONE;
    DV_TRY(zero_or_one("CO_OPTIMIZING_LX_PLANNING", joint, &on, diag));
    if (joint && !o->joint)
        o->joint = on ? DV_JOINT_SEED : DV_JOINT_OFF;
    if (!solver || o->solver)
        return DV_OK;
    for (size_t i = 0; i < sizeof solvers / sizeof *solvers; i++)
        if (!strcmp(solver, solvers[i].name))
            o->solver = solvers[i].solver;
    if (!o->solver)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "LAYOUT_SOLVER=%s: there are greedy, firstfit, "
                       "bestfit, simulated_annealing and cpsat",
                       solver);
    return DV_OK;
}

dv_status cli_apply_environment(dv_target *t, dv_plan_options *options,
                                dv_diag *diag)
{
    DV_TRY(cores_from_environment(t, options, diag));
    DV_TRY(reserved_from_environment(t, diag));
    return dv_target_has_scratchpads(t) ? torch_spyre_environment(options, diag)
                                        : DV_OK;
}

static dv_status read_time_limit(const char *text, double *out, dv_diag *diag)
{
    char *end;
    if (!text)
        return DV_OK;
    *out = strtod(text, &end);
    if (end == text || *end || !(*out > 0))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "--time-limit takes seconds, not '%s'", text);
    return DV_OK;
}

static dv_status read_rects(const cli_list *list, const char *option,
                            dv_core_rect *out, dv_diag *diag)
{
    for (int i = 0; i < list->n; i++)
        if (!cli_rect(list->at[i], &out[i]))
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "--%s takes X,Y or X0,Y0-X1,Y1, not '%s'", option,
                           list->at[i]);
    return DV_OK;
}

dv_status cli_read_order(const char **order, char **text, dv_diag *diag)
{
    char *file = NULL;
    size_t len = 0;
    dv_text word = {0};
    if (!*order || **order != '@')
        return DV_OK;
    DV_TRY(dv_file_read(&file, &len, *order + 1, DV_MAX_TEXT_BYTES, diag));
    dv_put(&word, "list(");
    dv_put_bytes(&word, file, len);
    dv_put(&word, "\n)");
    dv_release(file);
    *order = *text = dv_text_take(&word);
    return *text ? DV_OK : dv_nomem(diag);
}

static dv_status read_options(const cli_plan_args *args, cli_cores *cores,
                              dv_plan_options *out, dv_diag *diag)
{
    *out = args->options;
    out->size = sizeof *out;
    if (args->devices && (out->team || args->team_of_ranks))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "--devices %" PRId64
                       ": a device is a rank of a team inside one process, so "
                       "that neither --team nor mpirun goes with it",
                       args->devices);
    if (args->devices)
        out->team = args->devices;
    out->pins = args->pins.at;
    out->n_pins = (size_t)args->pins.n;
    out->bars = args->bars.at;
    out->n_bars = (size_t)args->bars.n;
    out->constants = args->constants.at;
    out->n_constants = (size_t)args->constants.n;
    DV_TRY(read_rects(&args->allow, "allow", cores->allowed, diag));
    DV_TRY(read_rects(&args->holes, "holes", cores->holes, diag));
    out->allowed = cores->allowed;
    out->n_allowed = (size_t)args->allow.n;
    out->holes = cores->holes;
    out->n_holes = (size_t)args->holes.n;
    DV_TRY(cli_read_order(&out->order, &cores->order, diag));
    return read_time_limit(args->time_limit, &out->time_limit_s, diag);
}

int cli_rank_is_given(cli_plan_args *args)
{
    if (args->options.rank != CLI_RANK_NOT_GIVEN)
        return 1;
    args->options.rank = 0;
    return 0;
}

// The text of the plan that is loaded.
typedef struct plan_text {
    const char *path, *text;
    size_t len;
} plan_text;

// Returns why the pass of an option cannot run for this target, worded as the
// end of an error message about the option; NULL: it can.
static const char *why_never(const dv_target *t, const char *option,
                             const char *pass)
{
    if (!strcmp(pass, "schedule") && !dv_target_runs_here(t))
        return "is simulated and has no kernels to pin";
    if (!strcmp(option, "order") && !t->tile_rows)
        return "does not compute on tiles that could be ordered";
    return NULL;
}

// Fails because the pass that reads an option is done in a plan. The message
// has the `divvy plan` command that runs the pass again, unless that would
// fail.
static dv_status refuse_option(const plan_text *from, const char *option,
                               const char *pass, dv_diag *diag)
{
    dv_plan *plan = NULL;
    dv_status st = dv_plan_parse(&plan, from->text, from->len, from->path, NULL,
                                 NULL, NULL);
    const dv_target *t = st == DV_OK ? &plan->target : NULL;
    const char *never = t ? why_never(t, option, pass) : NULL;
    if (never)
        st = dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                     "--%s has no effect: %s is a plan for %s, which %s",
                     option, from->path, t->name, never);
    else
        st = dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                     "--%s has no effect: %s is a plan in which pass %s is "
                     "done; divvy plan %s --start-at %s --%s VALUE runs it "
                     "again",
                     option, from->path, pass, from->path,
                     strcmp(pass, "divide") ? pass : "joint", option);
    dv_plan_destroy(plan);
    return st;
}

// The file is a plan, so that only the passes from --start-at on run again.
// Rejects options that none of them reads, which would have no effect.
static dv_status check_effects(const plan_text *from, const cli_plan_args *args,
                               dv_diag *diag)
{
    const dv_plan_options *o = &args->options;
    // Whether all pins (choices prescribed by the user) concern the pass
    // schedule, which chooses kernels and tile sizes.
    int schedules = 1;
    for (int i = 0; i < (int)args->pins.n; i++)
        schedules &= dv_pin_is_of_schedule(args->pins.at[i]);
    const struct {
        const char *option, *pass;
        int given;
    } rows[] = {
        {"team", "dist", o->team > 0 && !args->team_of_ranks},
        {"devices", "dist", args->devices > 0},
        {"grid", "dist", o->grid != NULL},
        {"const", "lower", args->constants.n > 0},
        {"divide", "divide", o->divide != 0},
        {"pin", schedules ? "schedule" : "divide", args->pins.n > 0},
        {"joint", "joint", o->joint != 0},
        {"scratch", "scratch", o->scratch != 0},
        {"solver", "scratch", o->solver != 0},
        {"bar", "scratch", args->bars.n > 0},
        {"tiles-per-core", "joint", o->tiles_per_core != 0},
        {"in-place", "scratch", o->in_place != 0},
        {"clone-inputs", "scratch", o->clone_inputs != 0},
        {"ring", "scratch", o->ring != 0},
        {"evict", "scratch", o->evict != 0},
        {"reorder", "joint", o->reorder != 0},
        {"recompute", "joint", o->recompute != 0},
        {"tenants", "scratch", o->tenants != 0},
        {"time-limit", "scratch", args->time_limit != NULL},
        {"policy", "grid", o->policy != NULL},
        {"order", "grid", o->order != NULL},
    };
    int first = args->start_at ? dv_pass_find(args->start_at) : DV_N_PASSES;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].given && first > dv_pass_find(rows[i].pass))
            return refuse_option(from, rows[i].option, rows[i].pass, diag);
    return DV_OK;
}

// Warns about scratchpad options if the target has no scratchpads. These are
// not errors, because scripts pass the same options for all targets.
static void warn_of_scratchpads(const cli_plan_args *args, const dv_plan *plan,
                                dv_diag *diag)
{
    const dv_plan_options *o = &args->options;
    const dv_target *t = &plan->target;
    const struct {
        const char *option;
        int given;
    } rows[] = {
        // On a target with caches, this value of --scratch does have an effect:
        // without resident tensors, ops share no tiles.
        {"scratch", o->scratch && !(o->scratch == DV_RESIDENTS_NONE &&
                                    dv_target_has_caches(t))},
        {"solver", o->solver != 0},
        {"bar", args->bars.n > 0},
        {"in-place", o->in_place != 0},
        {"clone-inputs", o->clone_inputs != 0},
        {"ring", o->ring && !dv_divide_shares(t)},
        {"evict", o->evict != 0},
        {"reorder", o->reorder != 0},
        {"recompute", o->recompute != 0},
        {"tenants", o->tenants != 0},
    };
    dv_text names = {0};
    int n = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].given)
            dv_put(&names, "%s--%s", n++ ? ", " : "", rows[i].option);
    if (n && names.at && !dv_target_has_scratchpads(t))
        dv_warn(diag, "options", DV_NOWHERE,
                "%s %s no effect: %s has no scratchpads", names.at,
                DV_PLURAL(n, "has", "have"), t->name);
    dv_text_free(&names);
}

static dv_status read_plan(const char *path, const char *text, size_t len,
                           const cli_plan_args *args, const cli_params *params,
                           const dv_plan_options *options, cli_loaded *out,
                           dv_diag *diag)
{
    if (args->target || params->n)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "%s is a plan: its target and params are fixed", path);
    const plan_text from = {path, text, len};
    DV_TRY(check_effects(&from, args, diag));
    DV_TRY(dv_plan_parse(&out->plan, text, len, path, args->start_at, options,
                         diag));
    // With options.rank 0, the pass dist keeps the rank of the plan, so a rank
    // given by --rank is set explicitly.
    return args->takes_rank && !args->options.stop_after
               ? dv_plan_set_rank(out->plan, options->rank, diag)
               : DV_OK;
}

dv_status cli_load_plan(const char *path, const cli_plan_args *args,
                        const cli_params *params, cli_loaded *out,
                        dv_diag *diag)
{
    char *text = NULL;
    size_t len = 0;
    int is_onnx = cli_is_onnx(path);
    if (!is_onnx)
        DV_TRY(dv_file_read(&text, &len, path, DV_MAX_TEXT_BYTES, diag));
    dv_plan_options *options = &out->options;
    dv_status st = read_options(args, &out->cores, options, diag);
    if (st != DV_OK) {
        // Parsing the options failed; the status is returned at the end.
    } else if (!is_onnx && is_plan(text, len)) {
        st = read_plan(path, text, len, args, params, options, out, diag);
    } else if (args->start_at) {
        st = dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                     "--start-at goes on with a plan, %s is a program", path);
    } else if (options->rank > 0 && !options->team && !options->grid) {
        st = dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                     "--rank %" PRId64 ": without --team there is only rank 0; "
                     "--team P divides the program over P processes",
                     options->rank);
    } else {
        st = is_onnx ? cli_load_onnx(path, params, out, diag)
                     : dv_program_parse(&out->program, text, len, path,
                                        params->params, params->n, diag);
        if (st == DV_OK)
            st = dv_target_load(&out->target,
                                args->target ? args->target : "host", diag);
        if (st == DV_OK && args->as_torch_spyre) {
            out->target->ring_cores = 1;
            options->divide = DV_DIVIDE_SEED;
            options->joint = DV_JOINT_OFF;
        }
        if (!options->scratch)
            options->scratch = args->default_scratch;
        if (!options->policy)
            options->policy = args->default_policy;
        if (st == DV_OK)
            st = cli_apply_environment(out->target, options, diag);
        if (st == DV_OK)
            st = dv_plan_create(&out->plan, out->program, out->target, options,
                                diag);
    }
    dv_release(text);
    if (st == DV_OK)
        warn_of_scratchpads(args, out->plan, diag);
    if (st == DV_OK && !args->options.stop_after) {
        dv_diag_pass(diag, "check");
        st = dv_plan_check(out->plan, diag);
        dv_diag_pass(diag, NULL);
    }
    return st;
}

int cli_load(const cli_command *c, const char *path, const cli_plan_args *args,
             cli_loaded *out, dv_diag *diag)
{
    static cli_params params;
    *out = (cli_loaded){0};
    int code = cli_parse_sets(c, &args->sets, &params);
    if (code >= 0)
        return code;
    if (cli_load_plan(path, args, &params, out, diag) != DV_OK)
        return cli_fail(diag);
    return -1;
}

void cli_unload(cli_loaded *l)
{
    dv_plan_destroy(l->plan);
    dv_target_destroy(l->target);
    if (l->model)
        dv_onnx_destroy(l->model);
    else
        dv_program_destroy(l->program);
    dv_release(l->cores.order);
    *l = (cli_loaded){0};
}
