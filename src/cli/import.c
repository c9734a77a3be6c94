// divvy import: writes a model as a program with its weights, and hands models
// to the commands that take programs.
#include "cli/load.h"
#include <string.h>

int cli_is_onnx(const char *path)
{
    size_t len = strlen(path);
    return len > 5 && !strcmp(path + len - 5, ".onnx");
}

dv_status cli_load_onnx(const char *path, const cli_params *params,
                        cli_loaded *out, dv_diag *diag)
{
    dv_onnx_options options = DV_ONNX_OPTIONS_INIT;
    options.params = params->params;
    options.n_params = params->n;
    DV_TRY(dv_onnx_load(&out->model, path, &options, diag));
    out->program = out->model->program;
    return DV_OK;
}

const void *cli_weight(const cli_loaded *l, const char *tensor)
{
    dv_onnx_binding b;
    for (int i = 0; l->model && dv_onnx_weight(l->model, i, &b); i++)
        if (!strcmp(b.tensor, tensor))
            return b.data;
    return NULL;
}

int cli_import(const cli_command *c, int argc, char **argv)
{
    static cli_list sets;
    static cli_params params;
    const char *files[1], *dir = NULL;
    int n_files;
    const cli_option options[] = {
        {"set", 0, "NAME=VALUE",
         "give an open dim, or an input that must be known, a value", CLI_LIST,
         &sets},
        {"out", 'o', "DIR", "the folder to write", CLI_TEXT, &dir},
        {0}};
    int code = cli_parse(c, options, argc, argv, files, &n_files, 1);
    if (code < 0)
        code = cli_parse_sets(c, &sets, &params);
    if (code >= 0)
        return code;
    if (n_files != 1 || !dir)
        return cli_usage(c, "a model and a folder (-o DIR) are needed");
    dv_onnx_options import = DV_ONNX_OPTIONS_INIT;
    import.params = params.params;
    import.n_params = params.n;
    dv_diag *diag = dv_diag_create();
    code = dv_onnx_write(files[0], &import, dir, diag) ? cli_fail(diag) : 0;
    dv_diag_destroy(diag);
    return code;
}
