// divvy emit: writes a plan as C, OpenMP, TT-Metalium kernels, tables, an
// object or JSON for Torch-Spyre.
#include "emit/emit.h"
#include "cli/load.h"

// Plans a program, or reads a plan, and writes it in the format `as` into the
// folder `dir`.
static int emit(const cli_command *c, const char *file, cli_plan_args *a,
                dv_emit_format as, int tilelang_names, const char *dir)
{
    dv_diag *diag = dv_diag_create();
    cli_loaded l = {0};
    int code = cli_load(c, file, a, &l, diag);
    if (code < 0) {
        dv_status st = tilelang_names
                           ? dv_emit_stage_names(l.plan, as, dir, diag)
                           : dv_plan_emit(l.plan, as, dir, diag);
        code = st == DV_OK ? 0 : cli_fail(diag);
        if (code == 0)
            cli_warnings(diag);
    }
    cli_unload(&l);
    dv_diag_destroy(diag);
    return code;
}

int cli_emit(const cli_command *c, int argc, char **argv)
{
    cli_plan_args a = {.options = DV_PLAN_OPTIONS_INIT};
    const char *dir = NULL, *operands[1];
    int as = 1 + DV_EMIT_C, names = 1;
    int n_operands;
    const cli_option options[] = {
        {"target", 't', "NAME", "a target's name or file", CLI_TEXT, &a.target},
        {"cores", 0, "N", "use at most N of the target's cores", CLI_SIZE,
         &a.options.cores},
        {"allow", 0, "X0,Y0-X1,Y1",
         "of a grid of cores use only these; may be given again", CLI_LIST,
         &a.allow},
        {"holes", 0, "X0,Y0-X1,Y1",
         "of a grid of cores do not use these; may be given again", CLI_LIST,
         &a.holes},
        {"set", 0, "NAME=VALUE", "give a param another value", CLI_LIST,
         &a.sets},
        {"team", 0, "P",
         "divide over P processes; each has a C file of its own", CLI_SIZE,
         &a.options.team},
        {"devices", 0, "N", "the same: a device is a rank of a team", CLI_SIZE,
         &a.devices},
        {"grid", 0, "AxB", "ranks per axis of the team", CLI_TEXT,
         &a.options.grid},
        {"policy", 0, "HOW", "who computes which tiles, as divvy grid has it",
         CLI_TEXT, &a.options.policy},
        {"order", 0, "ORDER", "of tiles (default: auto)", CLI_TEXT,
         &a.options.order},
        {"scratch", 0, "all|reductions|off",
         "what may be resident on cores (default: all; tt-metalium: off)",
         CLI_CHOICE, &a.options.scratch},
        {"as", 0, "c|openmp|tt-metalium|json|csv|object|superdsc",
         "what the plan is written as (default: c)", CLI_CHOICE, &as},
        {"names", 0, "plain|tilelang",
         "names in loops over tiles (default: plain)", CLI_CHOICE, &names},
        {"out", 'o', "DIR", "the folder that is written", CLI_TEXT, &dir},
        {0},
    };
    int code = cli_parse(c, options, argc, argv, operands, &n_operands, 1);
    if (code >= 0)
        return code;
    if (n_operands != 1)
        return cli_usage(c, "a file is needed");
    if (!dir)
        return cli_usage(c, "-o says which folder is written");
    // TT-Metalium kernels exist for every division of ops if tensors pass
    // through main memory, but only for equal shards if they are resident (kept
    // in scratchpads from op to op), so they are resident only with --scratch
    // all.
    if (as == 1 + DV_EMIT_TT_METALIUM && !a.options.scratch)
        a.default_scratch = DV_RESIDENTS_NONE;
    // An emitted object has no work queue, so tiles must be assigned to threads
    // statically.
    if (as == 1 + DV_EMIT_OBJECT)
        a.default_policy = "static";
    a.as_torch_spyre = as == 1 + DV_EMIT_SUPERDSC;
    return emit(c, operands[0], &a, (dv_emit_format)(as - 1), names != 1, dir);
}
