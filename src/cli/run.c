// divvy run: makes, checks and runs a plan; verifies and writes the outputs if
// asked to.
#include "base/file.h"
#include "base/npy.h"
#include "base/plural.h"
#include "cli/run.h"
#include "ir/infer.h"
#include "plan/traffic.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dv_status cli_run_memory(cli_job *j)
{
    size_t n = (size_t)j->p->n_tensors;
    j->before = calloc(n, sizeof *j->before);
    j->after = calloc(n, sizeof *j->after);
    j->files = calloc(n, sizeof *j->files);
    if (!j->before || !j->after || !j->files)
        return dv_nomem(j->diag);
    for (size_t i = 0; i < n; i++) {
        const dv_tensor *t = &j->p->tensors[i];
        size_t bytes = (size_t)dv_tensor_bytes(t);
        if (t->is_input && !t->file && !cli_weight(&j->l, t->name) &&
            !(j->before[i] = dv_alloc_buffer(bytes)))
            return dv_nomem(j->diag);
        if (t->is_output && !(j->after[i] = dv_alloc_buffer(bytes)))
            return dv_nomem(j->diag);
    }
    return DV_OK;
}

static void list_tensors(dv_text *out, const dv_program *p, int inputs)
{
    for (int i = 0; i < p->n_tensors; i++)
        if (inputs ? p->tensors[i].is_input : p->tensors[i].is_output)
            dv_put(out, "%s %s", out->len ? "," : "", p->tensors[i].name);
}

dv_status cli_find_pair(const cli_job *j, const char *pair, int input,
                        int32_t *tensor, const char **path)
{
    static const char *const not_one[] = {"it is no output", "it is no input"};
    char name[256];
    const char *option = input ? "--in" : "--out";
    *path = cli_split(pair, name, sizeof name);
    if (!*path)
        return dv_fail(j->diag, DV_E_USAGE, DV_NOWHERE,
                       "%s takes NAME=FILE.npy, not '%s'", option, pair);
    if (!strcmp(*path, "-"))
        return dv_fail(j->diag, DV_E_USAGE, DV_NOWHERE,
                       "%s %s: an array is in a file, not in standard %s",
                       option, pair, input ? "input" : "output");
    *tensor = dv_program_find(j->p, name);
    const dv_tensor *t = *tensor < 0 ? NULL : &j->p->tensors[*tensor];
    if (t && t->file)
        return dv_fail(j->diag, DV_E_USAGE, DV_NOWHERE,
                       "%s %s: it is a constant with the elements of %s",
                       option, name, t->file);
    if (t && (input ? t->is_input : t->is_output))
        return DV_OK;
    dv_text all = {0};
    list_tensors(&all, j->p, input);
    dv_status st = dv_fail(
        j->diag, DV_E_USAGE, DV_NOWHERE, "%s %s: %s; the %ss are%s", option,
        name, !t ? "the program has no such tensor" : not_one[input],
        input ? "input" : "output", all.at && all.len ? all.at : " none");
    dv_text_free(&all);
    return st;
}

static dv_status open_constants(cli_job *j)
{
    for (int32_t i = 0; i < j->p->n_tensors; i++) {
        if (!j->p->tensors[i].file)
            continue;
        DV_TRY(dv_constant_open(&j->files[i], j->p, i, j->diag));
        j->before[i] = (void *)(uintptr_t)dv_constant_data(j->files[i]);
    }
    return DV_OK;
}

// Finds values of the program's params that give input t the shape of a file.
// Returns their number, or 0 if there are none. Texts are in `arena`.
static size_t find_params(const cli_job *j, const dv_tensor *t,
                          const dv_npy_header *h, dv_param *out,
                          dv_arena *arena)
{
    const dv_program *p = j->l.program;
    dv_program *fits = NULL;
    const dv_input_shape shape = {t->name, h->n_dims, h->shape};
    int64_t *values = DV_NEW(arena, int64_t, p->n_params + 1);
    uint8_t *known = DV_NEW(arena, uint8_t, p->n_params + 1);
    size_t n = 0;
    if (!values || !known || dv_infer_params(p, &shape, 1, values, known, NULL))
        return 0;
    for (int32_t i = 0; i < p->n_params; i++) {
        char text[24];
        snprintf(text, sizeof text, "%" PRId64, values[i]);
        if (!known[i] || values[i] == p->params[i].i)
            continue;
        out[n].name = p->params[i].name;
        out[n].value = dv_arena_copy(arena, text, strlen(text));
        if (!out[n++].value)
            return 0;
    }
    // Parse the program with these params to make sure that all dims fit: a
    // file of 32 x 64 elements fits f32[N, N] with no N.
    if (n && dv_program_parse(&fits, p->src.text, p->src.len, p->src.name, out,
                              n, NULL) != DV_OK)
        return 0;
    int32_t found = fits ? dv_program_find(fits, t->name) : -1;
    if (found < 0 || memcmp(fits->tensors[found].shape, h->shape,
                            (size_t)h->n_dims * sizeof *h->shape) != 0)
        n = 0;
    dv_program_destroy(fits);
    return n;
}

// Adds a hint to the error that a file has another shape: the values of params
// with which it would fit.
static void hint_params(const cli_job *j, const char *path, const dv_tensor *t)
{
    dv_npy_header h;
    dv_text hint = {0};
    dv_arena arena = {0};
    if (!j->l.program || cli_npy_header(path, &h, NULL) ||
        h.n_dims != t->n_dims)
        return;
    dv_param *params = DV_NEW(&arena, dv_param, j->l.program->n_params + 1);
    size_t n = params ? find_params(j, t, &h, params, &arena) : 0;
    for (size_t i = 0; i < n; i++)
        dv_put(&hint, " --set %s=%s", params[i].name, params[i].value);
    if (hint.at)
        dv_note(j->diag, DV_NOWHERE, "params can change the shape of %s:%s",
                t->name, hint.at);
    dv_text_free(&hint);
    dv_arena_free(&arena);
}

dv_status cli_run_inputs(cli_job *j)
{
    unsigned char *given = calloc((size_t)j->p->n_tensors + 1, 1);
    if (!given)
        return dv_nomem(j->diag);
    dv_status st = open_constants(j);
    for (int i = 0; i < j->in.n && st == DV_OK; i++) {
        int32_t tensor = -1;
        const char *path = NULL;
        st = cli_find_pair(j, j->in.at[i], 1, &tensor, &path);
        if (st != DV_OK)
            break;
        const dv_tensor *t = &j->p->tensors[tensor];
        given[tensor] = 1;
        // An input usually has memory already, but a weight of an imported
        // model has none.
        if (!j->before[tensor])
            j->before[tensor] = dv_alloc_buffer((size_t)dv_tensor_bytes(t));
        if (!j->before[tensor]) {
            st = dv_nomem(j->diag);
            break;
        }
        st = dv_npy_read(path, t->name, t->dtype, t->n_dims, t->shape,
                         j->before[tensor], j->diag);
        if (st == DV_E_FORMAT)
            hint_params(j, path, t);
    }
    for (int i = 0; i < j->p->n_tensors && st == DV_OK; i++) {
        const dv_tensor *t = &j->p->tensors[i];
        if (!t->is_input || j->files[i] || given[i])
            continue;
        if (j->before[i])
            dv_fill(j->p, i, (uint64_t)j->seed, j->low, j->high, j->before[i]);
        else
            j->before[i] = (void *)(uintptr_t)cli_weight(&j->l, t->name);
    }
    free(given);
    return st;
}

static int is_team(const cli_job *j)
{
    return j->l.plan->team.n_axes > 0;
}

// Runs all ranks of a plan for a team in this process.
static dv_status run_team(cli_job *j)
{
    size_t n = (size_t)j->p->n_tensors;
    void **data = calloc(n + 1, sizeof *data);
    if (!data)
        return dv_nomem(j->diag);
    for (size_t i = 0; i < n; i++)
        data[i] = j->p->tensors[i].is_output ? j->after[i] : j->before[i];
    dv_team_traffic moved = {0};
    if (!dv_target_runs_here(&j->l.plan->target)) {
        j->rank_moved = DV_NEW(&j->arena, dv_sim_traffic,
                               dv_plan_team_size(&j->l.plan->team));
        moved.ranks = j->rank_moved;
    }
    dv_rank_options options = {.threads = (int32_t)j->l.options.threads};
    dv_status st = dv_team_run_as(j->l.plan, &options, data, &moved, j->diag);
    j->team_bytes = moved.bytes;
    j->team_messages = moved.messages;
    free(data);
    return st;
}

// Compares the results with the oracle (the reference evaluation). The ranks of
// a team leave only outputs in the memory of this process.
static dv_status verify(cli_job *j)
{
    void **stored = DV_NEW(&j->arena, void *, j->p->n_tensors);
    if (!stored)
        return dv_nomem(j->diag);
    for (int32_t i = 0; i < j->p->n_tensors; i++)
        stored[i] = is_team(j) ? j->after[i] : dv_exec_stored(j->exec, i);
    return cli_verify(&j->verdict, &j->verify_options, j->seed, j->l.program,
                      j->l.plan, j->before, stored, j->kept.data, &j->arena,
                      j->diag);
}

dv_status cli_check_team_executor(const cli_job *j, dv_diag *diag)
{
    int here = dv_target_runs_here(&j->l.plan->target);
    if (j->kind == DV_RUN_SIM && here)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "--executor sim: the ranks of a team run on this "
                       "machine, they are not simulated");
    if (j->kind >= 0 && j->kind != DV_RUN_SIM && !here)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the ranks of a team on %s are simulated",
                       j->l.plan->target.name);
    if (j->kind == DV_RUN_SEQ)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "--executor seq: the ranks of a team run on threads");
    return DV_OK;
}

static dv_status run(cli_job *j)
{
    if (is_team(j))
        DV_TRY(cli_check_team_executor(j, j->diag));
    else
        DV_TRY(dv_exec_create(&j->exec, j->l.plan, j->diag));
    if (j->exec && j->kind < 0 && j->usual >= 0 &&
        dv_target_runs_here(&j->l.plan->target))
        j->kind = j->usual;
    if (j->exec && j->kind >= 0 && (int)dv_exec_executor(j->exec) != j->kind)
        DV_TRY(dv_exec_use(j->exec, (dv_executor)j->kind, j->diag));
    for (int i = 0; i < j->p->n_tensors; i++) {
        const dv_tensor *t = &j->p->tensors[i];
        size_t bytes = (size_t)dv_tensor_bytes(t);
        if (t->is_input && t->is_output)
            memcpy(j->after[i], j->before[i], bytes);
        void *data = t->is_output ? j->after[i] : j->before[i];
        if (data && j->exec && !t->file)
            DV_TRY(dv_exec_bind(j->exec, t->name, data, bytes, j->diag));
    }
    if (j->exec && j->verify &&
        !cli_verify_is_full(&j->verify_options, j->l.program, j->l.plan))
        dv_keep_round(&j->kept, j->exec, j->p, &j->arena, j->diag);
    if ((j->pages.html || j->pages.trace) && j->exec &&
        dv_exec_executor(j->exec) == DV_RUN_THREADS) {
        j->group_seconds = DV_NEW(&j->arena, double, j->l.plan->n_groups + 1);
        if (!j->group_seconds)
            return dv_nomem(j->diag);
        dv_exec_time_groups(j->exec, j->group_seconds);
    }
    cli_progress progress;
    cli_progress_begin(&progress, "running");
    if (j->exec)
        dv_exec_on_progress(j->exec, cli_progress_step, &progress);
    double start = dv_clock_s();
    dv_status st = is_team(j) ? run_team(j) : dv_exec_run(j->exec, j->diag);
    j->seconds = dv_clock_s() - start;
    cli_progress_end(&progress);
    return st == DV_OK && j->verify ? verify(j) : st;
}

static dv_status put_outputs(const cli_job *j)
{
    for (int i = 0; i < j->out.n; i++) {
        int32_t tensor = -1;
        const char *path = NULL;
        DV_TRY(cli_find_pair(j, j->out.at[i], 0, &tensor, &path));
        const dv_tensor *t = &j->p->tensors[tensor];
        DV_TRY(dv_npy_write(path, t->dtype, t->n_dims, t->shape,
                            j->after[tensor], j->diag));
    }
    return DV_OK;
}

// Returns the traffic that the simulator counted, or NULL if nothing was
// simulated.
static const dv_sim_traffic *moved_of(const cli_job *j)
{
    return j->exec ? dv_exec_moved(j->exec) : NULL;
}

// Returns whether the tensor is an input with generated data: no --in names it
// and no checkpoint contains it. With --verify a checkpoint does not count,
// because the oracle (the reference evaluator) starts from the initial inputs.
static int is_made_up(const cli_job *j, const dv_tensor *t)
{
    size_t len = strlen(t->name);
    for (int i = 0; i < j->in.n; i++)
        if (!strncmp(j->in.at[i], t->name, len) && j->in.at[i][len] == '=')
            return 0;
    return t->is_input && !t->file && (!j->resume || j->verify) &&
           !cli_weight(&j->l, t->name);
}

static void report_made_up(const cli_job *j)
{
    enum { MOST_NAMES = 8 };
    int n = 0;
    for (int i = 0; i < j->p->n_tensors; i++) {
        const dv_tensor *t = &j->p->tensors[i];
        if (is_made_up(j, t) && n++ < MOST_NAMES)
            printf("%s%s", n == 1 ? "; made up " : ", ", t->name);
    }
    if (n > MOST_NAMES)
        printf(" and %d more", n - MOST_NAMES);
    if (n)
        printf(" (--seed %" PRId64 ", --random %g..%g)", j->seed, j->low,
               j->high);
}

static void team_json(dv_json *w, const cli_job *j)
{
    int64_t n = dv_plan_team_size(&j->l.plan->team);
    dv_json_open(w, "team", '{');
    DV_JSON_FIELDS(w, DV_F("ranks", n), DV_F("bytes", j->team_bytes),
                   DV_F("messages", j->team_messages));
    if (j->rank_moved) {
        dv_json_open(w, "by_rank", '[');
        for (int64_t i = 0; i < n; i++)
            DV_JSON_OBJECT(
                w, NULL, DV_F("hbm_read_bytes", j->rank_moved[i].read_bytes),
                DV_F("hbm_write_bytes", j->rank_moved[i].write_bytes),
                DV_F("ring_bytes", j->rank_moved[i].ring_bytes));
        dv_json_close(w);
    }
    dv_json_close(w);
}

static void report_json(const cli_job *j)
{
    dv_text out = {0};
    dv_json w = {.out = &out};
    dv_json_open(&w, NULL, '{');
    DV_JSON_FIELDS(&w, DV_F("file", j->p->src.name),
                   DV_F("target", j->l.plan->target.name),
                   DV_F("executor", j->exec     ? dv_exec_name(j->exec)
                                    : cli_ranks ? "mpi"
                                                : "team"),
                   DV_F("seconds", j->seconds));
    if (j->verify) {
        cli_verdict_json(&w, &j->verdict);
    } else {
        dv_json_null(&w, "verify");
    }
    const dv_sim_traffic *moved = moved_of(j);
    if (moved)
        DV_JSON_OBJECT(
            &w, "moved", DV_F("hbm_read_elements", moved->read_elems),
            DV_F("hbm_write_elements", moved->write_elems),
            DV_F("hbm_bytes", moved->read_bytes + moved->write_bytes),
            DV_F("ring_bytes", moved->ring_bytes));
    dv_price counted;
    if (j->exec && dv_plan_has_price(j->l.plan) &&
        dv_exec_price(j->exec, -1, &counted))
        DV_JSON_OBJECT(&w, "time",
                       DV_F("predicted_us", dv_plan_price(j->l.plan).total_us),
                       DV_F("counted_us", counted.total_us));
    if (j->l.plan->team.n_axes)
        team_json(&w, j);
    dv_json_open_flat(&w, "made_up", '[');
    for (int i = 0; i < j->p->n_tensors; i++)
        if (is_made_up(j, &j->p->tensors[i]))
            dv_json_string(&w, NULL, j->p->tensors[i].name);
    dv_json_close(&w);
    dv_json_open(&w, "outputs", '[');
    for (int i = 0; i < j->p->n_tensors; i++) {
        const dv_tensor *t = &j->p->tensors[i];
        if (t->is_output && j->after[i])
            cli_result_json(&w, t, j->after[i]);
    }
    dv_json_close(&w);
    dv_json_close(&w);
    cli_put(dv_text_take(&out), NULL, j->diag);
}

static int n_inputs(const dv_program *p)
{
    int n = 0;
    for (int i = 0; i < p->n_tensors; i++)
        n += p->tensors[i].is_input;
    return n;
}

// Prints one line of the table of simulated ranks: the traffic that was
// counted, and the traffic that the plan predicts.
static void report_rank(const char *name, const dv_sim_traffic *moved,
                        const dv_traffic *wanted)
{
    int same = moved->read_bytes == wanted->read_bytes &&
               moved->write_bytes == wanted->write_bytes &&
               moved->ring_bytes == wanted->ring_bytes;
    printf("  %-10s %14" PRId64 " %14" PRId64 " %14" PRId64 "  %s\n", name,
           moved->read_bytes, moved->write_bytes, moved->ring_bytes,
           !wanted->exact ? "not predicted"
           : same         ? "as predicted"
                          : "NOT as predicted");
}

static void add_traffic(dv_sim_traffic *moved, dv_traffic *wanted,
                        const dv_sim_traffic *m, const dv_traffic *w)
{
    moved->read_bytes += m->read_bytes;
    moved->write_bytes += m->write_bytes;
    moved->ring_bytes += m->ring_bytes;
    wanted->read_bytes += w->read_bytes;
    wanted->write_bytes += w->write_bytes;
    wanted->ring_bytes += w->ring_bytes;
    wanted->exact &= w->exact;
}

// Prints the traffic of each simulated rank and the total, next to that of one
// device that runs the whole program.
static void report_ranks(const cli_job *j)
{
    const dv_plan *plan = j->l.plan;
    dv_sim_traffic all = {0};
    dv_traffic wanted = {.exact = 1};
    printf("  %-10s %14s %14s %14s\n", "bytes", "read", "written", "ring");
    for (int64_t i = 0; i < dv_plan_team_size(&plan->team); i++) {
        const dv_rank_class *c = dv_plan_class_of(plan, i);
        dv_traffic w = c ? dv_plan_traffic(c->plan) : (dv_traffic){0};
        char name[32];
        snprintf(name, sizeof name, "rank %" PRId64, i);
        report_rank(name, &j->rank_moved[i], &w);
        add_traffic(&all, &wanted, &j->rank_moved[i], &w);
    }
    report_rank("all ranks", &all, &wanted);
    dv_plan *alone = NULL;
    if (dv_plan_create(&alone, plan->ops, &plan->target, NULL, NULL))
        return;
    dv_traffic one = dv_plan_traffic(alone);
    printf("  %-10s %14" PRId64 " %14" PRId64 " %14" PRId64 "  predicted\n",
           "one device", one.read_bytes, one.write_bytes, one.ring_bytes);
    dv_plan_destroy(alone);
}

static void report_text(const cli_job *j)
{
    const dv_rank_class *own =
        is_team(j) ? dv_plan_class_of(j->l.plan, j->l.plan->team.rank) : NULL;
    const dv_plan *plan = own ? own->plan : j->l.plan;
    printf("%s on %s: %d op%s in %d group%s%s, plan checked, ran in %.3g s",
           j->p->src.name, plan->target.name, (int)plan->ops->n_ops,
           DV_PLURAL(plan->ops->n_ops, "", "s"), (int)plan->n_groups,
           DV_PLURAL(plan->n_groups, "", "s"), own ? " on a rank" : "",
           j->seconds);
    report_made_up(j);
    printf("\n");
    const dv_sim_traffic *moved = moved_of(j);
    if (j->resume)
        printf("  resumed from %s, where %" PRId64 " iteration%s of the repeat "
               "%s done\n",
               j->resume, j->resumed_at, DV_PLURAL(j->resumed_at, "", "s"),
               DV_PLURAL(j->resumed_at, "was", "were"));
    if (j->checkpoint && j->saved_at)
        printf("  checkpoint %s, last written after %" PRId64 " iteration%s\n",
               j->checkpoint, j->saved_at, DV_PLURAL(j->saved_at, "", "s"));
    else if (j->checkpoint)
        printf("  checkpoint %s was not written: --every %" PRId64
               " is no iteration before the last one\n",
               j->checkpoint, j->every ? j->every : 1);
    if (j->rank_moved)
        report_ranks(j);
    if (moved)
        printf("  simulated: %" PRId64 " element%s read, %" PRId64
               " written in main memory, %" PRId64 " bytes between cores\n",
               moved->read_elems, DV_PLURAL(moved->read_elems, "", "s"),
               moved->write_elems, moved->ring_bytes);
    dv_price counted;
    if (j->exec && dv_plan_has_price(j->l.plan) &&
        dv_exec_price(j->exec, -1, &counted))
        printf("  predicted time %.4g us, by what was counted %.4g us\n",
               dv_plan_price(j->l.plan).total_us, counted.total_us);
    if (j->l.plan->team.n_axes)
        printf("  a team of %" PRId64 ": %" PRId64 " bytes in %" PRId64
               " message%s\n",
               dv_plan_team_size(&j->l.plan->team), j->team_bytes,
               j->team_messages, DV_PLURAL(j->team_messages, "", "s"));
    for (int i = 0; i < j->p->n_tensors; i++) {
        const dv_tensor *t = &j->p->tensors[i];
        if (!t->is_output || !j->after[i])
            continue;
        int64_t n_nan = cli_result_text(t, j->after[i]);
        if (n_nan && j->in.n < n_inputs(j->p))
            printf("  %s has %" PRId64 " nan; made-up inputs are in %g..%g, "
                   "--random LOW..HIGH changes that\n",
                   t->name, n_nan, j->low, j->high);
        else if (n_nan)
            printf("  %s has %" PRId64 " nan\n", t->name, n_nan);
    }
    if (j->verify)
        cli_verdict_text(&j->verdict);
}

// Checks that no input is read twice and no file is written twice.
dv_status cli_check_twice(const cli_job *j)
{
    for (int k = 0; k < 2; k++) {
        const cli_list *l = k ? &j->out : &j->in;
        for (int i = 0; i < l->n; i++)
            for (int o = 0; o < i; o++) {
                int32_t a = -1, b = -1;
                const char *one = NULL, *other = NULL;
                DV_TRY(cli_find_pair(j, l->at[i], !k, &a, &one));
                DV_TRY(cli_find_pair(j, l->at[o], !k, &b, &other));
                if (a == b || (k && dv_file_same(one, other)))
                    return dv_fail(j->diag, DV_E_USAGE, DV_NOWHERE,
                                   "%s %s and %s %s: %s", k ? "--out" : "--in",
                                   l->at[o], k ? "--out" : "--in", l->at[i],
                                   a == b ? "the same tensor twice"
                                          : "the same file twice");
            }
    }
    return DV_OK;
}

static int work(cli_job *j)
{
    j->p = j->l.plan->ops;
    // Check the outputs' names before the run, not after it.
    for (int i = 0; i < j->out.n; i++) {
        int32_t tensor = -1;
        const char *path = NULL;
        if (cli_find_pair(j, j->out.at[i], 0, &tensor, &path))
            return cli_fail(j->diag);
    }
    if (cli_check_twice(j))
        return cli_fail(j->diag);
    int oracle = j->verify && cli_verify_is_full(&j->verify_options,
                                                 j->l.program, j->l.plan);
    if (cli_check_memory(j->p, oracle, j->diag) || cli_run_memory(j) ||
        cli_run_inputs(j) || run(j))
        return cli_fail(j->diag);
    if (put_outputs(j))
        return cli_fail(j->diag);
    return cli_run_report(j);
}

// Writes the reports of --html and --trace. Returns the exit code.
static int write_reports(const cli_job *j)
{
    dv_price counted = {0};
    if (j->exec && dv_plan_has_price(j->l.plan))
        dv_exec_price(j->exec, -1, &counted);
    // The simulator's own run time says nothing about the simulated machine.
    int simulated = !dv_target_runs_here(&j->l.plan->target);
    const dv_measured m = {.seconds = simulated ? 0 : j->seconds,
                           .group_seconds = j->group_seconds,
                           .counted_us = counted.total_us,
                           .executor = j->exec     ? dv_exec_name(j->exec)
                                       : cli_ranks ? "mpi"
                                                   : "team"};
    return cli_report_write(&j->pages, &j->l, &m, NULL, j->diag);
}

int cli_run_report(const cli_job *j)
{
    if (j->json)
        report_json(j);
    else
        report_text(j);
    int code = write_reports(j);
    if (code)
        return code;
    if (j->verify && !(j->verdict.ok && j->verdict.decided)) {
        cli_not_verified(&j->verdict, j->p, j->diag);
        // After the report, print the reason for the failure.
        cli_warnings(j->diag);
        if (j->resume)
            fputs("The oracle begins with the inputs of this command (--in, "
                  "--seed): are they those of the run that wrote the "
                  "checkpoint?\n",
                  stderr);
        return dv_status_exit(DV_E_VERIFY);
    }
    return 0;
}

// Checks that no output would overwrite the program or another file that this
// run needs or writes. Returns -1 if none would, else an exit code.
static int check_paths(const cli_job *j, const char *program,
                       const char *target)
{
    int code = cli_check_overwrite(j->c, "--checkpoint", j->checkpoint, program,
                                   "the program");
    if (code < 0)
        code = cli_check_overwrite(j->c, "--checkpoint", j->checkpoint, target,
                                   "the target's description");
    for (int i = 0; i < j->out.n && code < 0; i++) {
        const char *path = strchr(j->out.at[i], '=');
        path = path ? path + 1 : NULL;
        const struct {
            const char *path, *what;
        } read[] = {{program, "the program"},
                    {target, "the target's description"},
                    {j->resume, "the checkpoint that the run resumes from"}};
        for (size_t k = 0; k < sizeof read / sizeof *read && code < 0; k++)
            code = cli_check_overwrite(j->c, "--out", path, read[k].path,
                                       read[k].what);
        if (code < 0)
            code = cli_check_overwrite(j->c, "--checkpoint", j->checkpoint,
                                       path, "an output");
    }
    for (int i = 0; i < j->in.n && code < 0; i++) {
        const char *path = strchr(j->in.at[i], '=');
        code = cli_check_overwrite(j->c, "--checkpoint", j->checkpoint,
                                   path ? path + 1 : NULL, "an input");
    }
    return code;
}

// Finds the executor called `name`; `from` is the option or environment
// variable that gave it, for messages.
static int find_executor(const cli_command *c, const char *from,
                         const char *name, int *kind)
{
    *kind = !strcmp(name, "seq")       ? DV_RUN_SEQ
            : !strcmp(name, "threads") ? DV_RUN_THREADS
            : !strcmp(name, "sim")     ? DV_RUN_SIM
                                       : -1;
    return *kind >= 0 ? -1
                      : cli_usage(c, "%s takes threads, seq or sim, not '%s'",
                                  from, name);
}

// Loads, plans and runs a program, and frees the job. Returns the exit code.
static int run_file(cli_job *j, const char *file, cli_plan_args *args)
{
    j->diag = dv_diag_create();
    int code = cli_ranks ? cli_team_run(j, file, args)
                         : cli_load(j->c, file, args, &j->l, j->diag);
    if (code < 0) {
        cli_warnings(j->diag);
        code = work(j);
    }
    for (int i = 0; j->p && i < j->p->n_tensors; i++) {
        const dv_tensor *t = &j->p->tensors[i];
        if (j->before && !t->file && j->before[i] != cli_weight(&j->l, t->name))
            dv_release(j->before[i]);
        dv_release(j->after ? j->after[i] : NULL);
        dv_constant_close(j->files ? j->files[i] : NULL);
    }
    free(j->files);
    free(j->before);
    free(j->after);
    dv_exec_destroy(j->exec);
    dv_arena_free(&j->arena);
    cli_unload(&j->l);
    dv_diag_destroy(j->diag);
    return code;
}

int cli_run(const cli_command *c, int argc, char **argv)
{
    static cli_plan_args args;
    static cli_job j;
    j = (cli_job){.c = c, .kind = -1, .usual = -1, .low = -1, .high = 1};
    cli_report_args *pages = &j.pages;
    const char *files[1], *range = NULL, *executor = NULL, *verify = NULL;
    int n_files;
    args.options.rank = CLI_RANK_NOT_GIVEN;
    const cli_option options[] = {
#include "cli/plan_options.def"
#include "cli/report_options.def"
        {"in", 0, "NAME=FILE.npy", "read an input", CLI_LIST, &j.in},
        {"out", 0, "NAME=FILE.npy", "write an output", CLI_LIST, &j.out},
        {"executor", 0, "HOW",
         "threads or seq: on this machine; sim: simulated", CLI_TEXT,
         &executor},
        {"seed", 0, "N", "make up the other inputs from N (default: 0)",
         CLI_COUNT, &j.seed},
        {"random", 0, "LOW..HIGH", "range of made-up floats (default: -1..1)",
         CLI_TEXT, &range},
        {"verify", 0, "SECONDS|full",
         "compare with the oracle, samples if all takes longer (default: 5)",
         CLI_OPTIONAL, &verify},
        {"json", 0, NULL, "the same facts for programs", CLI_FLAG, &j.json},
        {"checked", 0, NULL, "under mpirun: compare what ranks are about to do",
         CLI_FLAG, &j.checked},
        {"no-overlap", 0, NULL,
         "under mpirun: do not compute while messages travel", CLI_FLAG,
         &j.no_overlap},
        {"timeout", 0, "SECONDS", "under mpirun: wait no longer for a rank",
         CLI_TEXT, &j.timeout},
        {"checkpoint", 0, "FILE", "keep the state of the run in FILE", CLI_TEXT,
         &j.checkpoint},
        {"every", 0, "K", "after every K rounds of a repeat (default: 1)",
         CLI_SIZE, &j.every},
        {"resume", 0, "FILE", "go on where FILE was kept", CLI_TEXT, &j.resume},
        {0}};
    int code = cli_parse(c, options, argc, argv, files, &n_files, 1);
    if (code < 0 && range)
        code = cli_range(c, range, &j.low, &j.high);
    j.verify = verify != NULL;
    if (code < 0)
        code = cli_parse_verify(c, verify, &j.verify_options);
    const char *usual = getenv("DIVVY_EXECUTOR");
    if (code < 0 && executor)
        code = find_executor(c, "--executor", executor, &j.kind);
    if (code < 0 && usual && *usual)
        code = find_executor(c, "DIVVY_EXECUTOR", usual, &j.usual);
    if (code >= 0)
        return code;
    if (n_files != 1)
        return cli_usage(c, "a program or a plan is needed");
    if (cli_rank_is_given(&args))
        return cli_usage(c, CLI_NO_RANK);
    code = cli_team_options(&j);
    if (code < 0)
        code = check_paths(&j, files[0], args.target);
    if (code < 0)
        code = cli_report_paths(c, pages, files[0], args.target, j.checkpoint);
    if (code >= 0)
        return code;
    return run_file(&j, files[0], &args);
}
