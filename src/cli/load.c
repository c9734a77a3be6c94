#include "cli/load.h"
#include "base/file.h"
#include "lang/lexer.h"
#include <string.h>

// Does the text start with `plan 1`? No program does.
static int is_plan(const char *text, size_t len)
{
    dv_source src = {"", text, len};
    dv_lexer lx;
    return dv_lexer_init(&lx, &src, NULL) == DV_OK && dv_lex_is(&lx, "plan") &&
           dv_lex_peek(&lx).kind == DV_TOK_INT;
}

static dv_status load(const char *path, const cli_plan_args *args,
                      const cli_params *params, cli_loaded *out, dv_diag *diag)
{
    char *text;
    size_t len;
    DV_TRY(dv_file_read(&text, &len, path, DV_MAX_TEXT_BYTES, diag));
    dv_status st;
    if (is_plan(text, len)) {
        st =
            args->target || params->n
                ? dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                          "%s is a plan: its target and params are fixed", path)
                : dv_plan_parse(&out->plan, text, len, path, args->start_at,
                                &args->options, diag);
    } else if (args->start_at) {
        st = dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                     "--start-at goes on with a plan, %s is a program", path);
    } else {
        st = dv_program_parse(&out->program, text, len, path, params->params,
                              params->n, diag);
        if (st == DV_OK)
            st = dv_target_load(&out->target,
                                args->target ? args->target : "host", diag);
        if (st == DV_OK)
            st = dv_plan_create(&out->plan, out->program, out->target,
                                &args->options, diag);
    }
    dv_release(text);
    if (st == DV_OK && !args->options.stop_after) {
        dv_diag_pass(diag, "check");
        st = dv_plan_check(out->plan, diag);
        dv_diag_pass(diag, NULL);
    }
    return st;
}

int cli_load(const cli_command *c, const char *path, const cli_plan_args *args,
             int json, cli_loaded *out, dv_diag *diag)
{
    static cli_params params;
    int code = cli_sets(c, &args->sets, &params);
    if (code >= 0)
        return code;
    *out = (cli_loaded){0};
    if (load(path, args, &params, out, diag) != DV_OK)
        return cli_fail(diag, json);
    return -1;
}

void cli_unload(cli_loaded *l)
{
    dv_plan_destroy(l->plan);
    dv_target_destroy(l->target);
    dv_program_destroy(l->program);
    *l = (cli_loaded){0};
}
