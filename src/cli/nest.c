// divvy nest: reads a loop nest from its text or derives it from an op of a
// program; runs passes over it, checks its rules and runs it.
#include "base/file.h"
#include "base/plural.h"
#include "cli/cli.h"
#include "cli/nest_run.h"
#include "nest/nest.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct args {
    const char *file, *op, *grain, *passes, *list, *dump_after;
    int64_t threads, l1, l2, l3;
    int json, run, verify, time, explain, dumped;
    cli_list sets;
} args;

typedef struct job {
    args a;
    dv_source src;
    char *text;    // the file's text; owned
    dv_program *p; // the program, or NULL if the file is a nest; owned
    dv_nest nest;
    // 1 if the loops of the nest stay as they are and only packing is chosen.
    int packs;
    cli_nest_result r;
} job;

static int no_pass(const cli_command *c, const char *option, const char *name,
                   size_t len)
{
    dv_text list = {0};
    for (int i = 0; dv_nest_pass_get(i); i++)
        dv_put(&list, " %s", dv_nest_pass_get(i)->name);
    int code = cli_usage(c, "--%s: there is no pass '%.*s'; there are:%s",
                         option, (int)len, name, list.at ? list.at : "");
    dv_text_free(&list);
    return code;
}

// Checks the arguments of the call. Returns -1 to continue, or an exit code.
static int check_arguments(const cli_command *c, args *a)
{
    if (a->passes && a->list)
        return cli_usage(c, "--passes and --nest exclude each other");
    dv_grain grain;
    if (a->grain && !cli_grain(a->grain, &grain))
        return cli_usage(c,
                         "--grain takes function, primitive or fused, not "
                         "'%s'",
                         a->grain);
    if (a->dump_after && a->json)
        return cli_usage(c, "--dump-after prints nests, --json does not");
    if (a->list && strcmp(a->list, "none") != 0 && !dv_nest_list(a->list))
        return cli_usage(c,
                         "--nest takes best, seed, seed+brgemm or none, not "
                         "'%s'",
                         a->list);
    if (a->threads < 1 || a->threads > 1024)
        return cli_usage(c, "--threads takes 1 to 1024, not %" PRId64,
                         a->threads);
    if (!a->run && (a->verify || a->time))
        return cli_usage(c, "--%s is about --run",
                         a->verify ? "verify" : "time");
    for (const char *p = a->passes; p && *p;) {
        size_t len = strcspn(p, ",");
        if (dv_nest_pass_find(p, len) < 0)
            return no_pass(c, "passes", p, len);
        p += len + (p[len] == ',');
    }
    const char *d = a->dump_after;
    if (d && strcmp(d, "all") != 0 && dv_nest_pass_find(d, strlen(d)) < 0)
        return no_pass(c, "dump-after", d, strlen(d));
    return -1;
}

// Returns whether the text is a nest: it starts with `nest NAME`, which no
// program does.
static int is_nest(const dv_source *src)
{
    dv_lexer lx;
    return dv_lexer_init(&lx, src, NULL) == DV_OK && dv_lex_is(&lx, "nest") &&
           dv_lex_peek(&lx).kind == DV_TOK_NAME;
}

static dv_status find_op(const job *j, int32_t *op, dv_diag *diag)
{
    const dv_program *p = j->p;
    dv_text names = {0};
    *op = p->n_ops == 1 && !j->a.op ? 0 : -1;
    for (int32_t i = 0; i < p->n_ops; i++) {
        if (j->a.op && !strcmp(j->a.op, p->ops[i].name))
            *op = i;
        dv_put(&names, " %s", p->ops[i].name);
    }
    dv_status st = DV_OK;
    if (*op < 0)
        st = dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                     "--op %s: the program has these ops:%.200s",
                     j->a.op ? j->a.op : "is needed",
                     names.at ? names.at : " none");
    dv_text_free(&names);
    return st;
}

static dv_status load_program(job *j, const cli_params *params, dv_diag *diag)
{
    dv_program *written = NULL;
    DV_TRY(dv_program_parse(&written, j->src.text, j->src.len, j->src.name,
                            params->params, params->n, diag));
    dv_grain grain = DV_GRAIN_FUSED;
    if (j->a.grain)
        cli_grain(j->a.grain, &grain);
    dv_status st = dv_program_lower(&j->p, written, grain, diag);
    dv_program_destroy(written);
    return st;
}

static dv_status load(job *j, const cli_params *params, dv_diag *diag)
{
    size_t len;
    DV_TRY(dv_file_read(&j->text, &len, j->a.file, DV_MAX_TEXT_BYTES, diag));
    j->src = (dv_source){j->a.file, j->text, len};
    if (is_nest(&j->src)) {
        if (j->a.op || j->a.grain || params->n)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "%s is a nest: it has no ops and no params",
                           j->a.file);
        return dv_nest_from(&j->nest, &j->src, diag);
    }
    dv_nest_operands where;
    int32_t op;
    DV_TRY(load_program(j, params, diag));
    DV_TRY(find_op(j, &op, diag));
    return dv_nest_of_op(&j->nest, &where, j->p, op, diag);
}

static void dump(void *user, const char *pass, const dv_nest *n)
{
    args *a = user;
    if (!a->dump_after ||
        (strcmp(a->dump_after, pass) != 0 && strcmp(a->dump_after, "all") != 0))
        return;
    a->dumped = 1;
    dv_text out = {0};
    dv_nest_print(&out, n);
    printf("# after %s\n%s", pass, out.at ? out.at : "# out of memory\n");
    dv_text_free(&out);
}

// Returns whether the nest already has scheduling decisions (kinds and order of
// its loops) or tiles.
static int is_laid_out(const dv_nest *n)
{
    return dv_nest_is_scheduled(n) || dv_nest_is_tiled(n);
}

// Checks the final nest. A nest straight from a program, or after an explicit
// list of passes, may have no kernel yet; then only its sizes, strides and
// primitives are checked, not whether its loops have the form that kernels
// need.
static dv_status check(const job *j, const char *passes, dv_diag *diag)
{
    const dv_nest *n = &j->nest;
    dv_nest_form form;
    const char *list = j->a.list;
    if (j->a.passes || (j->p && !passes) || (list && !strcmp(list, "none")))
        return dv_nest_check(n, diag);
    if ((list && !strncmp(list, "seed", 4)) || !dv_nest_is_tiled(n))
        return passes && !(list && *list == 's') ? dv_nest_check_order(n, diag)
                                                 : dv_nest_verify(n, diag);
    DV_TRY(dv_nest_check_order(n, diag));
    return dv_nest_form_of(n, &form, diag);
}

static dv_status optimise(job *j, dv_diag *diag)
{
    args *a = &j->a;
    const char *passes = a->passes;
    if (a->list)
        passes = dv_nest_list(a->list);
    else if (!passes && !is_laid_out(&j->nest))
        passes = dv_nest_list("best");
    dv_nest_options options = {.size = sizeof(dv_nest_options),
                               .threads = a->threads,
                               .after = dump,
                               .user = a,
                               .l1_bytes = a->l1,
                               .l2_bytes = a->l2,
                               .l3_bytes = a->l3};
    if (passes)
        DV_TRY(dv_nest_optimise(&j->nest, passes, &options, diag));
    if (a->dump_after && !a->dumped && strcmp(a->dump_after, "all") != 0)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "--dump-after %s: that pass is not run here; those that "
                       "are: %s",
                       a->dump_after, passes ? passes : "none");
    j->packs = !passes && !a->list;
    dv_status st = check(j, passes, diag);
    if (st == DV_E_NEST && a->list && !strncmp(a->list, "seed", 4))
        dv_note(diag, DV_NOWHERE,
                "seed has mini_jit's kernels, which need an m with steps "
                "of 1 in in0 and out and a k with a step of 1 in in1; best has "
                "no such rule");
    return st;
}

static cli_nest_options options_of(const job *j)
{
    return (cli_nest_options){(int32_t)j->a.threads, j->a.verify, j->a.time,
                              j->packs};
}

static dv_status run(job *j, dv_diag *diag)
{
    cli_nest_options options = options_of(j);
    return cli_nest_run(&j->r, &j->nest, &options, diag);
}

// Prints which kernels run the nest, and what else its loops do not show.
static void explain(const job *j, dv_text *out)
{
    cli_nest_options options = options_of(j);
    dv_put(out, "# ");
    cli_nest_describe(out, &j->nest, &options);
    dv_put(out, "\n");
}

static char *as_text(const job *j)
{
    dv_text out = {0};
    if (!j->a.dump_after)
        dv_nest_print(&out, &j->nest);
    if (j->a.explain)
        explain(j, &out);
    if (j->a.run)
        dv_put(&out,
               "# out: %" PRId64 " element%s, sum %.9g  hash %016" PRIx64
               ", ran in %.2g s\n",
               j->r.n_out, DV_PLURAL(j->r.n_out, "", "s"), j->r.sum, j->r.hash,
               j->r.seconds);
    if (j->a.time)
        dv_put(&out, "# %s: %.4g s, %.1f GFLOP/s\n", j->r.engine, j->r.seconds,
               cli_nest_gflops(&j->nest, j->r.seconds));
    if (j->a.verify && j->r.n_checked)
        dv_put(&out, "# %" PRId64 " element%s as the oracle has them\n",
               j->r.n_checked, DV_PLURAL(j->r.n_checked, "", "s"));
    else if (j->a.verify)
        dv_put(&out, "# run by the oracle: there is nothing to compare\n");
    dv_put(&out, "%s", "");
    return dv_text_take(&out);
}

static void json_pack(dv_json *w, int pack)
{
    if (!pack)
        return;
    dv_json_open(w, "pack", '[');
    for (int o = 0; o < DV_N_OPERANDS; o++)
        if (pack >> o & 1)
            dv_json_string(w, NULL, dv_nest_operand_name(o));
    dv_json_close(w);
}

static void json_dims(dv_json *w, const dv_nest *n)
{
    dv_json_open(w, "dims", '[');
    for (int i = 0; i < n->n_dims; i++) {
        const dv_nest_dim *d = &n->dims[i];
        dv_json_open_flat(w, NULL, '{');
        dv_json_string(w, "type", dv_nest_type_name(d->type));
        dv_json_string(w, "exec", dv_nest_exec_name(d->exec));
        dv_json_int(w, "size", d->size);
        for (int o = 0; o < DV_MAX_OPERANDS; o++)
            if (o < DV_N_OPERANDS || dv_nest_has(n, o))
                dv_json_int(w, dv_nest_operand_name(o), d->stride[o]);
        if (d->whole)
            dv_json_int(w, "of", d->whole);
        json_pack(w, d->pack);
        dv_json_close(w);
    }
    dv_json_close(w);
}

// Prints the operands' constants and element types, and the indirect index.
static void json_operands(dv_json *w, const dv_nest *n)
{
    for (int o = 0; o < DV_MAX_OPERANDS; o++) {
        if (!n->types[o] && !(n->constants >> o & 1))
            continue;
        dv_json_open_flat(w, dv_nest_operand_name(o), '{');
        if (n->constants >> o & 1)
            dv_json_double(w, "value", n->value[o]);
        else
            dv_json_string(w, "dtype", dv_dtype_get(dv_nest_dtype(n, o))->name);
        dv_json_close(w);
    }
    if (!n->look)
        return;
    DV_JSON_OBJECT(w, "look",
                   DV_F("operand", dv_nest_operand_name(n->look - 1)),
                   DV_F("step", n->index_stride), DV_F("of", n->index_count));
}

static char *as_json(const job *j)
{
    dv_text out = {0};
    dv_json w = {.out = &out};
    const dv_nest *n = &j->nest;
    char hash[20];
    dv_json_open(&w, NULL, '{');
    DV_JSON_FIELDS(&w, DV_F("file", j->a.file), DV_F("name", n->name),
                   DV_F("dtype", dv_dtype_get(n->dtype)->name),
                   DV_F("first", dv_prim_get(n->first)->name),
                   DV_F("main", dv_prim_get(n->main)->name),
                   DV_F("last", dv_prim_get(n->last)->name),
                   DV_F_BOOL("transposed", dv_nest_is_transposed(n)),
                   DV_F_WHEN(n->mean, DV_F_BOOL("mean", 1)),
                   DV_F_WHEN(n->laid, DV_F_BOOL("laid", 1)));
    json_operands(&w, n);
    json_pack(&w, n->pack);
    json_dims(&w, n);
    if (j->a.run) {
        snprintf(hash, sizeof hash, "%016" PRIx64, j->r.hash);
        DV_JSON_OBJECT(&w, "run", DV_F("elements", j->r.n_out),
                       DV_F("sum", j->r.sum), DV_F("hash", hash),
                       DV_F("seconds", j->r.seconds),
                       DV_F_WHEN(j->a.time, DV_F("how", j->r.engine)),
                       DV_F_WHEN(j->a.verify, DV_F("checked", j->r.n_checked)));
    }
    dv_json_close(&w);
    return dv_text_take(&out);
}

// Executes the call and returns the exit code.
static int answer(job *j, const cli_params *params)
{
    int code;
    dv_diag *diag = dv_diag_create();
    if (load(j, params, diag) || optimise(j, diag) ||
        (j->a.run && run(j, diag))) {
        code = cli_fail(diag);
    } else {
        cli_warnings(diag);
        code = cli_put(j->a.json ? as_json(j) : as_text(j), NULL, diag);
    }
    dv_diag_destroy(diag);
    dv_program_destroy(j->p);
    dv_release(j->text);
    return code;
}

int cli_nest(const cli_command *c, int argc, char **argv)
{
    static cli_params params;
    static job j;
    j = (job){.a = {.threads = 1}};
    args *a = &j.a;
    const char *files[1];
    int n_files;
    const cli_option options[] = {
        {"op", 0, "NAME", "FILE is a program: the op to make a nest of",
         CLI_TEXT, &a->op},
        {"grain", 0, "GRAIN",
         "ops of a program: function (one each), primitive, fused (default)",
         CLI_TEXT, &a->grain},
        {"set", 0, "NAME=VALUE", "give a param another value", CLI_LIST,
         &a->sets},
        {"nest", 0, "HOW",
         "passes: best (default, of nests that nothing is decided of; others "
         "are packed to be run), seed (as mini_jit), seed+brgemm or none",
         CLI_TEXT, &a->list},
        {"passes", 0, "A,B", "run just these passes, in this order", CLI_TEXT,
         &a->passes},
        {"threads", 0, "N", "to run on, and to share loops among (default: 1)",
         CLI_SIZE, &a->threads},
        {"dump-after", 0, "PASS", "print the nest after a pass, or all",
         CLI_TEXT, &a->dump_after},
        {"explain", 0, NULL, "say what runs the nest", CLI_FLAG, &a->explain},
        {"l1", 0, "BYTES", "cache to cut for (default: 64KiB)", CLI_BYTES,
         &a->l1},
        {"l2", 0, "BYTES", "cache to cut for (default: 1MiB)", CLI_BYTES,
         &a->l2},
        {"l3", 0, "BYTES", "cache to cut for (default: 16MiB)", CLI_BYTES,
         &a->l3},
        {"verify", 0, NULL, "with --run: compare with the oracle", CLI_FLAG,
         &a->verify},
        {"time", 0, NULL, "with --run: the median of some runs", CLI_FLAG,
         &a->time},
        {"run", 0, NULL, "run it on made-up numbers; say what came out",
         CLI_FLAG, &a->run},
        {"json", 0, NULL, "the same facts for programs", CLI_FLAG, &a->json},
        {0}};
    int code = cli_parse(c, options, argc, argv, files, &n_files, 1);
    if (code < 0)
        code = cli_parse_sets(c, &a->sets, &params);
    if (code < 0)
        code = check_arguments(c, a);
    if (code >= 0)
        return code;
    if (n_files != 1)
        return cli_usage(c, "a nest or a program is needed");
    a->file = files[0];
    return answer(&j, &params);
}
