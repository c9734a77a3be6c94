// divvy nest: a loop nest from its text or from an op of a program; passes over
// it, its rules, a run of it.
#include "base/file.h"
#include "base/math.h"
#include "cli/cli.h"
#include "nest/nest.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct args {
    const char *file, *op, *passes, *list, *dump_after;
    int64_t threads;
    int json, run;
    cli_list sets;
} args;

typedef struct job {
    args a;
    dv_source src;
    char *text;    // owned
    dv_program *p; // NULL when the file is a nest; owned
    dv_nest nest;
    int64_t n_out; // what a run made of out
    double sum, seconds;
    uint64_t hash;
} job;

// -- The call ----------------------------------------------------------------

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

// The words of the call. -1, or an exit code.
static int understand(const cli_command *c, args *a)
{
    if (a->passes && a->list)
        return cli_usage(c, "--passes and --nest exclude each other");
    if (a->dump_after && a->json)
        return cli_usage(c, "--dump-after prints nests, --json does not");
    if (a->list && !dv_nest_list(a->list))
        return cli_usage(c, "--nest takes seed or seed+brgemm, not '%s'",
                         a->list);
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

// -- Getting a nest ----------------------------------------------------------

// Does the text start with `nest NAME TYPE {`? No program does.
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
    dv_status st = dv_program_lower(&j->p, written, DV_GRAIN_FUSED, diag);
    dv_program_destroy(written);
    return st;
}

static dv_status load(job *j, const cli_params *params, dv_diag *diag)
{
    size_t len;
    DV_TRY(dv_file_read(&j->text, &len, j->a.file, DV_MAX_TEXT_BYTES, diag));
    j->src = (dv_source){j->a.file, j->text, len};
    if (is_nest(&j->src)) {
        if (j->a.op || params->n)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "%s is a nest: it has no ops and no params",
                           j->a.file);
        return dv_nest_parse(&j->nest, &j->src, diag);
    }
    dv_nest_operands where;
    int32_t op;
    DV_TRY(load_program(j, params, diag));
    DV_TRY(find_op(j, &op, diag));
    return dv_nest_of_op(&j->nest, &where, j->p, op, diag);
}

// -- Work --------------------------------------------------------------------

static void dump(void *user, const char *pass, const dv_nest *n)
{
    const args *a = user;
    if (!a->dump_after ||
        (strcmp(a->dump_after, pass) != 0 && strcmp(a->dump_after, "all") != 0))
        return;
    dv_text out = {0};
    dv_nest_print(&out, n);
    printf("# after %s\n%s", pass, out.at ? out.at : "# out of memory\n");
    dv_text_free(&out);
}

// Halfway between passes, and as a program has it, a nest has no kernel yet;
// then it must only mean something.
static dv_status optimise(job *j, dv_diag *diag)
{
    args *a = &j->a;
    const char *passes = a->list ? dv_nest_list(a->list) : a->passes;
    dv_nest_options options = {.threads = a->threads, .after = dump, .user = a};
    if (passes)
        DV_TRY(dv_nest_optimise(&j->nest, passes, &options, diag));
    return a->list || (!passes && !j->p) ? dv_nest_verify(&j->nest, diag)
                                         : dv_nest_check(&j->nest, diag);
}

// An operand with made-up numbers; *at is the element of index 0.
static dv_status make_up(const job *j, int o, void **data, char **at,
                         dv_diag *diag)
{
    const dv_nest *n = &j->nest;
    int64_t lo, hi, elems, bytes, size = dv_dtype_get(n->dtype)->size_bytes;
    if (!dv_nest_extent(n, o, &lo, &hi) || !dv_sub_i64(&elems, hi, lo) ||
        !dv_add_i64(&elems, elems, 1) || !dv_mul_i64(&bytes, elems, size) ||
        bytes > (int64_t)1 << 33)
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "%s spans more than 8GiB, too much to make up",
                       dv_nest_operand_name(o));
    *data = dv_alloc((size_t)bytes);
    if (!*data)
        return dv_nomem(diag);
    dv_nest_fill(n->dtype, (uint64_t)o, *data, elems);
    *at = (char *)*data - lo * size;
    return DV_OK;
}

static void summarize(job *j, const void *out)
{
    int64_t lo, hi, size = dv_dtype_get(j->nest.dtype)->size_bytes;
    const unsigned char *bytes = out;
    dv_nest_extent(&j->nest, DV_OUT, &lo, &hi);
    j->n_out = hi - lo + 1;
    j->hash = 0xcbf29ce484222325u; // FNV-1a
    for (int64_t i = 0; i < j->n_out; i++)
        j->sum += dv_load(j->nest.dtype, out, i);
    for (int64_t i = 0; i < j->n_out * size; i++)
        j->hash = (j->hash ^ bytes[i]) * 0x100000001b3u;
}

static dv_status run(job *j, dv_diag *diag)
{
    void *data[DV_N_OPERANDS] = {0};
    char *at[DV_N_OPERANDS] = {0};
    dv_status st = DV_OK;
    for (int o = 0; o < DV_N_OPERANDS && st == DV_OK; o++)
        st = make_up(j, o, &data[o], &at[o], diag);
    double begin = cli_seconds();
    if (st == DV_OK)
        st = dv_nest_run(&j->nest, at[DV_IN0], at[DV_IN1], at[DV_OUT], diag);
    j->seconds = cli_seconds() - begin;
    if (st == DV_OK)
        summarize(j, data[DV_OUT]);
    for (int o = 0; o < DV_N_OPERANDS; o++)
        dv_release(data[o]);
    return st;
}

// -- Answers -----------------------------------------------------------------

static char *as_text(const job *j)
{
    dv_text out = {0};
    if (!j->a.dump_after)
        dv_nest_print(&out, &j->nest);
    if (j->a.run)
        dv_put(&out,
               "# out: %" PRId64 " elements, sum %.9g  hash %016" PRIx64
               ", ran in %.2g s\n",
               j->n_out, j->sum, j->hash, j->seconds);
    dv_put(&out, "%s", "");
    return dv_text_take(&out);
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
        for (int o = 0; o < DV_N_OPERANDS; o++)
            dv_json_int(w, dv_nest_operand_name(o), d->stride[o]);
        dv_json_close(w);
    }
    dv_json_close(w);
}

static char *as_json(const job *j)
{
    dv_text out = {0};
    dv_json w = {.out = &out};
    const dv_nest *n = &j->nest;
    char hash[20];
    dv_json_open(&w, NULL, '{');
    dv_json_string(&w, "file", j->a.file);
    dv_json_string(&w, "name", n->name);
    dv_json_string(&w, "dtype", dv_dtype_get(n->dtype)->name);
    dv_json_string(&w, "first", dv_prim_get(n->first)->name);
    dv_json_string(&w, "main", dv_prim_get(n->main)->name);
    dv_json_string(&w, "last", dv_prim_get(n->last)->name);
    dv_json_bool(&w, "transposed", dv_nest_is_transposed(n));
    json_dims(&w, n);
    if (j->a.run) {
        snprintf(hash, sizeof hash, "%016" PRIx64, j->hash);
        dv_json_open_flat(&w, "run", '{');
        dv_json_int(&w, "elements", j->n_out);
        dv_json_double(&w, "sum", j->sum);
        dv_json_string(&w, "hash", hash);
        dv_json_double(&w, "seconds", j->seconds);
        dv_json_close(&w);
    }
    dv_json_close(&w);
    return dv_text_take(&out);
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
        {"set", 0, "NAME=VALUE", "give a param another value", CLI_LIST,
         &a->sets},
        {"nest", 0, "HOW", "passes: seed (as the original) or seed+brgemm",
         CLI_TEXT, &a->list},
        {"passes", 0, "A,B", "run just these passes, in this order", CLI_TEXT,
         &a->passes},
        {"threads", 0, "N", "to share loops among (default: 1)", CLI_SIZE,
         &a->threads},
        {"dump-after", 0, "PASS", "print the nest after a pass, or all",
         CLI_TEXT, &a->dump_after},
        {"run", 0, NULL, "run it on made-up numbers; say what came out",
         CLI_FLAG, &a->run},
        {"json", 0, NULL, "the same facts for programs", CLI_FLAG, &a->json},
        {0}};
    int code = cli_parse(c, options, argc, argv, files, &n_files, 1);
    if (code < 0)
        code = cli_sets(c, &a->sets, &params);
    if (code < 0)
        code = understand(c, a);
    if (code >= 0)
        return code;
    if (n_files != 1)
        return cli_usage(c, "a nest or a program is needed");
    a->file = files[0];
    dv_diag *diag = dv_diag_create();
    if (load(&j, &params, diag) || optimise(&j, diag) ||
        (a->run && run(&j, diag))) {
        code = cli_fail(diag);
    } else {
        cli_warnings(diag);
        code = cli_put(a->json ? as_json(&j) : as_text(&j), NULL, diag);
    }
    dv_diag_destroy(diag);
    dv_program_destroy(j.p);
    dv_release(j.text);
    return code;
}
