// divvy lint: reports defects in an assignment of tiles to cores.
#include "base/file.h"
#include "base/plural.h"
#include "divvy/grid.h"
#include "cli/cli.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_DEFECTS = 4 };

// Converts the report of defects to JSON: each line becomes {"kind": …, "text":
// …}.
static char *as_json(const char *file, const char *report, int64_t n_defects)
{
    dv_text out = {0};
    dv_json j = {.out = &out};
    dv_json_open(&j, NULL, '{');
    dv_json_string(&j, "file", file);
    dv_json_int(&j, "n_defects", n_defects);
    dv_json_open(&j, "defects", '[');
    while (*report) {
        size_t len = strcspn(report, "\n"), kind = strcspn(report, ":");
        dv_text word = {0}, text = {0};
        if (kind + 2 <= len) {
            dv_put_bytes(&word, report, kind);
            dv_put_bytes(&text, report + kind + 2, len - kind - 2);
            DV_JSON_OBJECT(&j, NULL, DV_F("kind", word.at ? word.at : ""),
                           DV_F("text", text.at ? text.at : ""));
        }
        dv_text_free(&word);
        dv_text_free(&text);
        report += len + (report[len] == '\n');
    }
    dv_json_close(&j);
    dv_json_close(&j);
    return dv_text_take(&out);
}

static int lint_file(const char *file, const dv_target *target,
                     const int64_t *tiles, int json, dv_diag *diag)
{
    char *text = NULL, *report = NULL;
    size_t len = 0;
    int64_t n = 0;
    dv_status st = dv_file_read(&text, &len, file, DV_MAX_TEXT_BYTES, diag);
    if (st == DV_OK)
        st = dv_lint(target, text, len, file, tiles, &n, &report, diag);
    dv_release(text);
    if (st != DV_OK)
        return cli_fail(diag);
    int code = 0;
    if (json)
        code = cli_put(as_json(file, report, n), "-", diag);
    else if (n)
        printf("%s%" PRId64 " defect%s in %s\n", report, n,
               DV_PLURAL(n, "", "s"), file);
    else
        printf("%s%s: no defects\n", report, file);
    dv_free(report);
    return code ? code : n ? EXIT_DEFECTS : 0;
}

int cli_lint(const cli_command *c, int argc, char **argv)
{
    const char *grid = NULL, *machine = NULL, *operands[1];
    dv_target *target = NULL;
    int json = 0, n_operands, end = 0;
    const cli_option options[] = {
        {"tiles", 0, "MTxNT", "tiles of the result, where the file is silent",
         CLI_TEXT, &grid},
        {"target", 't', "NAME", "whose cores they must be", CLI_TEXT, &machine},
        {"json", 0, NULL, "answer as JSON", CLI_FLAG, &json},
        {0},
    };
    int code = cli_parse(c, options, argc, argv, operands, &n_operands, 1);
    if (code >= 0)
        return code;
    if (n_operands != 1)
        return cli_usage(c, "a file is needed");
    int m = 0, n = 0;
    if (grid && (sscanf(grid, "%9dx%9d%n", &m, &n, &end) != 2 || grid[end] ||
                 m < 1 || n < 1))
        return cli_usage(c, "--tiles takes ROWSxCOLUMNS, not '%s'", grid);
    int64_t tiles[2] = {m, n};
    dv_diag *diag = dv_diag_create();
    if (machine && dv_target_load(&target, machine, diag) != DV_OK)
        code = cli_fail(diag);
    else
        code = lint_file(operands[0], target, grid ? tiles : NULL, json, diag);
    dv_target_destroy(target);
    dv_diag_destroy(diag);
    return code;
}
