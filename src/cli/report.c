// divvy report: writes a page with pictures of a plan, or of two to compare;
// and the same for the options --html and --trace of other commands.
#include "cli/report.h"

int cli_report_paths(const cli_command *c, const cli_report_args *args,
                     const char *file, const char *target, const char *output)
{
    const struct {
        const char *path, *what;
    } kept[] = {{file, "the file that it reads"},
                {target, "the target's description"},
                {output, "the file of another option"}};
    int code = cli_check_overwrite(c, "--trace", args->trace, args->html,
                                   "the page of --html");
    for (int i = 0; i < 3 && code < 0; i++) {
        code = cli_check_overwrite(c, "--html", args->html, kept[i].path,
                                   kept[i].what);
        if (code < 0)
            code = cli_check_overwrite(c, "--trace", args->trace, kept[i].path,
                                       kept[i].what);
    }
    return code;
}

int cli_report_write(const cli_report_args *args, const cli_loaded *l,
                     const dv_measured *measured, const dv_plan *other,
                     dv_diag *diag)
{
    dv_report_options o = DV_REPORT_OPTIONS_INIT;
    int code = 0;
    o.most_bytes = args->most_bytes;
    o.command = cli_words;
    o.made_with = &l->options;
    o.measured = measured;
    o.other = other;
    if (cli_rank)
        return 0;
    if (args->html) {
        char *page = NULL;
        code = dv_report_html(&page, l->plan, &o, diag)
                   ? cli_fail(diag)
                   : cli_put(page, args->html, diag);
    }
    if (args->trace && code == 0) {
        char *trace = NULL;
        code = dv_report_trace(&trace, l->plan, &o, diag)
                   ? cli_fail(diag)
                   : cli_put(trace, args->trace, diag);
    }
    return code;
}

int cli_report(const cli_command *c, int argc, char **argv)
{
    static cli_plan_args args;
    static cli_loaded l, other;
    static cli_report_args report;
    cli_report_args *pages = &report;
    const char *files[2];
    int n_files;
    const cli_option options[] = {
#include "cli/plan_options.def"
#include "cli/report_options.def"
        {0}};
    args.options.rank = CLI_RANK_NOT_GIVEN;
    int code = cli_parse(c, options, argc, argv, files, &n_files, 2);
    args.takes_rank = cli_rank_is_given(&args);
    if (code >= 0)
        return code;
    if (n_files == 0)
        return cli_usage(c, "a plan or a program is needed");
    if (!pages->html && !pages->trace)
        pages->html = "-";
    code = cli_report_paths(c, pages, files[0], args.target,
                            n_files > 1 ? files[1] : NULL);
    if (code >= 0)
        return code;
    dv_diag *diag = dv_diag_create();
    code = cli_load(c, files[0], &args, &l, diag);
    if (code < 0 && n_files > 1)
        code = cli_load(c, files[1], &args, &other, diag);
    if (code < 0) {
        cli_warnings(diag);
        code = cli_report_write(pages, &l, NULL, other.plan, diag);
    }
    cli_unload(&l);
    cli_unload(&other);
    dv_diag_destroy(diag);
    return code;
}
