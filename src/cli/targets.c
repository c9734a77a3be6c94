// divvy targets: lists the built-in targets, prints one, or explains the
// properties that describe a target.
#include "cli/cli.h"
#include "target/target.h"

static char *listing(int json)
{
    dv_text out = {0};
    dv_json j = {.out = &out};
    if (json) {
        dv_json_open(&j, NULL, '{');
        dv_json_open(&j, "targets", '[');
    }
    for (int i = 0; dv_target_builtin(i); i++) {
        if (!json) {
            dv_put(&out, "%-10s %s\n", dv_target_builtin(i),
                   dv_target_summary(i));
            continue;
        }
        DV_JSON_OBJECT(&j, NULL, DV_F("name", dv_target_builtin(i)),
                       DV_F("about", dv_target_summary(i)));
    }
    if (json) {
        dv_json_close(&j);
        dv_json_close(&j);
    }
    return dv_text_take(&out);
}

static char *as_json(const dv_target *t)
{
    dv_text out = {0};
    dv_json j = {.out = &out};
    dv_target_json(&j, NULL, t);
    return dv_text_take(&out);
}

int cli_targets(const cli_command *c, int argc, char **argv)
{
    const char *names[1];
    int n_names, json = 0, properties = 0;
    const cli_option options[] = {
        {"properties", 0, NULL, "what a description may say, and means",
         CLI_FLAG, &properties},
        {"json", 0, NULL, "the list for programs", CLI_FLAG, &json},
        {0}};
    int code = cli_parse(c, options, argc, argv, names, &n_names, 1);
    if (code >= 0)
        return code;
    dv_diag *diag = dv_diag_create();
    if (properties) {
        dv_text out = {0};
        dv_target_print_properties(&out);
        code = cli_put(dv_text_take(&out), NULL, diag);
    } else if (n_names == 0) {
        code = cli_put(listing(json), NULL, diag);
    } else {
        dv_target *t = NULL;
        if (dv_target_load(&t, names[0], diag))
            code = cli_fail(diag);
        else
            code = cli_put(json ? as_json(t) : dv_target_text(t), NULL, diag);
        dv_target_destroy(t);
    }
    dv_diag_destroy(diag);
    return code;
}
