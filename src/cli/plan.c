// divvy plan: divide, check, print. Also goes on with a plan that was printed.
#include "cli/load.h"
#include <stdio.h>
#include <string.h>

typedef struct watcher {
    const char *dump_after; // a pass, "all" or NULL
    int times;
} watcher;

static void after_pass(void *user, const char *pass, double ms,
                       const dv_plan *plan)
{
    const watcher *w = user;
    if (w->times)
        fprintf(stderr, "%-8s %10.3f ms\n", pass, ms);
    if (!w->dump_after ||
        (strcmp(w->dump_after, pass) != 0 && strcmp(w->dump_after, "all") != 0))
        return;
    char *text = dv_plan_text(plan);
    printf("# after %s\n%s", pass, text ? text : "# out of memory\n");
    dv_free(text);
}

// The plan, and under it what was proved.
static char *text_of(const dv_plan *plan, int checked)
{
    dv_text out = {0};
    dv_plan_print(&out, plan);
    if (checked)
        dv_put(&out,
               "# check: ok. %d op%s in %d group%s; every element is written "
               "once, every read finds its writer\n",
               (int)plan->ops->n_ops, plan->ops->n_ops == 1 ? "" : "s",
               (int)plan->n_groups, plan->n_groups == 1 ? "" : "s");
    return dv_text_take(&out);
}

static int no_pass(const cli_command *c, const char *name)
{
    dv_text list = {0};
    for (int i = 0; i < DV_N_PASSES; i++)
        dv_put(&list, " %s", dv_pass_get((dv_pass_id)i)->name);
    int code = cli_usage(c, "--dump-after: there is no pass %s; there are:%s",
                         name, list.at ? list.at : "");
    dv_text_free(&list);
    return code;
}

int cli_plan(const cli_command *c, int argc, char **argv)
{
    static cli_plan_args args;
    watcher w = {0};
    const char *files[1], *output = NULL;
    int json = 0, n_files;
    const cli_option options[] = {
        {"target", 't', "NAME", "a target's name or file (default: host)",
         CLI_TEXT, &args.target},
        {"cores", 0, "N", "use at most N of the target's cores", CLI_SIZE,
         &args.options.cores},
        {"set", 0, "NAME=VALUE", "give a param another value", CLI_LIST,
         &args.sets},
        {"divide", 0, "HOW", "best (default), seed or seed+cost", CLI_TEXT,
         &args.options.divide},
        {"pin", 0, "OP:VAR=N", "cut this variable of an op into N slices",
         CLI_LIST, &args.pins},
        {"json", 0, NULL, "the same facts for programs", CLI_FLAG, &json},
        {"output", 'o', "FILE", "write to a file, whole or not at all",
         CLI_TEXT, &output},
        {"dump-after", 0, "PASS", "print the plan after a pass, or after 'all'",
         CLI_TEXT, &w.dump_after},
        {"stop-after", 0, "PASS", "run no pass behind this one", CLI_TEXT,
         &args.options.stop_after},
        {"start-at", 0, "PASS", "FILE is a plan: go on from this pass",
         CLI_TEXT, &args.start_at},
        {"time-passes", 0, NULL, "say how long each pass took", CLI_FLAG,
         &w.times},
        {0}};
    int code = cli_parse(c, options, argc, argv, files, &n_files, 1);
    if (code >= 0)
        return code;
    if (n_files != 1)
        return cli_usage(c, "a program or a plan is needed");
    if (w.dump_after && strcmp(w.dump_after, "all") != 0 &&
        dv_pass_find(w.dump_after) < 0)
        return no_pass(c, w.dump_after);
    args.options.after_pass = after_pass;
    args.options.user = &w;
    dv_diag *diag = dv_diag_create();
    cli_loaded l;
    code = cli_load(c, files[0], &args, &l, diag);
    if (code < 0) {
        cli_warnings(diag);
        code = 0;
        if (!w.dump_after || output)
            code = cli_put(json ? dv_plan_json(l.plan)
                                : text_of(l.plan, !args.options.stop_after),
                           output, diag);
        cli_unload(&l);
    } else {
        cli_unload(&l);
    }
    dv_diag_destroy(diag);
    return code;
}
