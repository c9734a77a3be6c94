// divvy choose: chooses one strategy for each node of a graph.
#include "base/plural.h"
#include "choose/read.h"
#include "cli/cli.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct args {
    const char *file, *out, *time_limit;
    int json;
    dv_choose_options options;
} args;

// Times of reading and solving.
typedef struct times {
    double read_s, solve_s;
} times;

static char *as_json(const args *a, const dv_choose_result *r, times t)
{
    dv_text out = {0};
    dv_json w = {.out = &out};
    dv_json_open(&w, NULL, '{');
    DV_JSON_FIELDS(&w, DV_F("file", a->file), DV_F("cost", r->cost),
                   DV_F("bound", r->bound), DV_F("gap", r->gap),
                   DV_F_BOOL("optimal", r->optimal), DV_F("nodes", r->nodes),
                   DV_F("work", r->work), DV_F("read_ms", t.read_s * 1e3),
                   DV_F("time_ms", t.solve_s * 1e3));
    dv_json_open_flat(&w, "strategies", '[');
    for (size_t v = 0; v < r->n_nodes; v++)
        dv_json_int(&w, NULL, r->strategies[v]);
    dv_json_close(&w);
    dv_json_close(&w);
    return dv_text_take(&out);
}

static char *as_text(const args *a, const dv_choose_problem *p,
                     const dv_choose_result *r, times t)
{
    dv_text out = {0};
    dv_put(&out, "# %s: %zu node%s, %zu edge%s\n", a->file, p->n_nodes,
           DV_PLURAL(p->n_nodes, "", "s"), p->n_edges,
           DV_PLURAL(p->n_edges, "", "s"));
    dv_put(&out, "# cost %" PRId64, r->cost);
    if (r->optimal)
        dv_put(&out, ", the least");
    else
        dv_put(&out,
               ", at least %" PRId64 " is needed: at most %.2g%% above the "
               "least",
               r->bound, r->bound ? 100 * r->gap / (1 - r->gap) : INFINITY);
    dv_put(&out,
           "; %" PRId64 " %s of the search, ran in %.2g s, read in %.2g s\n",
           r->nodes, DV_PLURAL(r->nodes, "node", "nodes"), t.solve_s, t.read_s);
    return dv_text_take(&out);
}

// Returns the chosen strategies in the format of the solutions of the contest
// that the problem comes from: [1, 0, …].
static char *solution(const dv_choose_result *r)
{
    dv_text out = {0};
    dv_put(&out, "[");
    for (size_t v = 0; v < r->n_nodes; v++)
        dv_put(&out, "%s%" PRId32, v ? ", " : "", r->strategies[v]);
    dv_put(&out, "]\n");
    return dv_text_take(&out);
}

// Prints the result. Without -o, the solution (a list of strategies) is the
// last line of the text; with `-o -` only the solution is printed.
static int answer(const args *a, const dv_choose_problem *p,
                  const dv_choose_result *r, times t, dv_diag *diag)
{
    int code = 0;
    int taken = a->out && !strcmp(a->out, "-");
    if (a->out)
        code = cli_put(solution(r), a->out, diag);
    if (code == 0 && (a->json || !taken))
        code = cli_put(a->json ? as_json(a, r, t) : as_text(a, p, r, t), NULL,
                       diag);
    if (code == 0 && !a->json && !a->out)
        code = cli_put(solution(r), NULL, diag);
    return code;
}

static int solve(const args *a, const dv_choose_problem *p, double read_s,
                 dv_diag *diag)
{
    dv_choose_result *r = NULL;
    double begin = dv_clock_s();
    if (dv_choose(&r, p, &a->options, diag)) {
        int refused = dv_diag_status(diag) == DV_E_CAPACITY;
        dv_diag_set_file(diag, cli_file_name(a->file));
        int code = cli_fail(diag);
        return refused ? 3 : code;
    }
    times t = {read_s, dv_clock_s() - begin};
    int code = answer(a, p, r, t, diag);
    dv_choose_result_destroy(r);
    return code;
}

static int run(const args *a, dv_diag *diag)
{
    char *text = NULL;
    size_t len = 0;
    const char *name = cli_file_name(a->file);
    dv_choose_file f;
    double begin = dv_clock_s();
    if (cli_read(&text, &len, a->file, DV_CHOOSE_MAX_BYTES, diag))
        return cli_fail(diag);
    dv_status s = dv_choose_read(&f, text, len, name, diag);
    dv_release(text);
    if (s)
        return cli_fail(diag);
    int code = solve(a, &f.problem, dv_clock_s() - begin, diag);
    dv_choose_file_free(&f);
    return code;
}

int cli_choose(const cli_command *c, int argc, char **argv)
{
    args a = {.options = DV_CHOOSE_OPTIONS_INIT};
    const char *files[1];
    int n_files;
    const cli_option options[] = {
        {"out", 'o', "OUT.txt", "the strategies, as the contest wants them",
         CLI_TEXT, &a.out},
        {"budget", 0, "WORK", "table entries to look at, about 1 ns each",
         CLI_SIZE, &a.options.budget},
        {"time-limit", 0, "SECONDS", "stop then, with what was found", CLI_TEXT,
         &a.time_limit},
        {"json", 0, NULL, "everything for programs", CLI_FLAG, &a.json},
        {0}};
    int code = cli_parse(c, options, argc, argv, files, &n_files, 1);
    if (code >= 0)
        return code;
    if (n_files != 1)
        return cli_usage(c, "a problem is needed");
    a.file = files[0];
    code = cli_check_overwrite(c, "--out", a.out, a.file,
                               "the problem that it reads");
    if (code < 0)
        code = cli_time_limit(c, a.time_limit, &a.options.time_limit_s);
    if (code >= 0)
        return code;
    dv_diag *diag = dv_diag_create();
    code = run(&a, diag);
    dv_diag_destroy(diag);
    return code;
}
