// divvy check: parses and verifies a program, and prints its ops with their
// iteration spaces.
#include "base/plural.h"
#include "cli/load.h"
#include "ir/program.h"
#include <inttypes.h>

static void count(dv_text *out, double n)
{
    static const char *const unit[] = {"", "k", "M", "G", "T", "P"};
    int u = 0;
    for (; n >= 9999.5 && u < 5; u++)
        n /= 1000;
    dv_put(out, "%.4g%s", n, unit[u]);
}

static void op_line(dv_text *out, const dv_program *p, const dv_op *op)
{
    dv_put(out, op->n_vars ? "%-12s %-11s " : "%-12s %s", op->name,
           dv_kind_name(dv_op_kind(op)));
    for (int v = 0; v < op->n_vars; v++)
        dv_put(out, "%s%s in %" PRId64 "..%" PRId64 "%s", v ? ", " : "",
               op->vars[v].name, op->vars[v].begin, op->vars[v].end,
               op->vars[v].reduce ? " (reduced)" : "");
    dv_put(out, "\n             %s ",
           dv_dtype_get(p->tensors[op->write.tensor].dtype)->name);
    dv_access_print(out, p, op, &op->write);
    dv_put(out, op->update ? " <- " : " = ");
    dv_expr_print(out, p, op, op->body);
    dv_put(out, "\n             ");
    count(out, dv_op_flops(op));
    dv_put(out, " flop, ");
    count(out, dv_op_bytes(p, op));
    dv_put(out, "B\n");
}

static char *text_of(const dv_program *p)
{
    dv_text out = {0};
    for (int i = 0; i < p->n_ops; i++)
        op_line(&out, p, &p->ops[i]);
    dv_put(&out, "%s: ok, %d tensor%s, %d op%s\n", p->src.name,
           (int)p->n_tensors, DV_PLURAL(p->n_tensors, "", "s"), (int)p->n_ops,
           DV_PLURAL(p->n_ops, "", "s"));
    return dv_text_take(&out);
}

int cli_check(const cli_command *c, int argc, char **argv)
{
    static cli_list sets;
    static cli_params params;
    const char *grain = "fused", *files[1];
    int json = 0, print = 0, n_files;
    const cli_option options[] = {
        {"set", 0, "NAME=VALUE", "give a param another value", CLI_LIST, &sets},
        {"grain", 0, "GRAIN",
         "show ops as: function, primitive, fused (default)", CLI_TEXT, &grain},
        {"print", 0, NULL, "print the program itself, tidied", CLI_FLAG,
         &print},
        {"json", 0, NULL, "the same facts for programs", CLI_FLAG, &json},
        {0}};
    int code = cli_parse(c, options, argc, argv, files, &n_files, 1);
    if (code < 0)
        code = cli_parse_sets(c, &sets, &params);
    if (code >= 0)
        return code;
    if (n_files != 1)
        return cli_usage(c, "a program is needed");
    dv_grain g;
    if (!cli_grain(grain, &g))
        return cli_usage(c,
                         "--grain takes function, primitive or fused, not "
                         "'%s'",
                         grain);
    dv_diag *diag = dv_diag_create();
    dv_program *lowered = NULL;
    cli_loaded l = {0};
    dv_status st = cli_is_onnx(files[0])
                       ? cli_load_onnx(files[0], &params, &l, diag)
                       : dv_program_load(&l.program, files[0], params.params,
                                         params.n, diag);
    const dv_program *p = l.program;
    if (st || dv_program_lower(&lowered, p, g, diag)) {
        code = cli_fail(diag);
    } else {
        cli_warnings(diag);
        code = cli_put(print  ? dv_program_text(p)
                       : json ? dv_program_json(lowered, g)
                              : text_of(lowered),
                       NULL, diag);
    }
    dv_program_destroy(lowered);
    cli_unload(&l);
    dv_diag_destroy(diag);
    return code;
}
