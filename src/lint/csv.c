// Reads tables of kernel arguments as CSV: one column per argument, one row per
// core.
#define _POSIX_C_SOURCE 200809L // for strtok_r
#include "lint/lint.h"
#include <stdlib.h>
#include <string.h>

void lint_sizes_of_args(lint *l)
{
    int64_t n;
    if (l->n && lint_arg(l, 0, "Kt", &n) && n > 0)
        l->kt = n;
    if (l->mt < 0 && l->n && lint_arg(l, 0, "Mt", &n))
        l->mt = n;
    if (l->nt < 0 && l->n && lint_arg(l, 0, "Nt", &n))
        l->nt = n;
    l->local_shard |= l->n && lint_arg(l, 0, "Sm", &n);
}

// Returns the index in known[] of a column that is not a kernel argument, but
// says which core, shard or batch a row is for; -1 for any other column.
static int32_t beside(const char *name)
{
    static const char *const known[] = {"core_x", "core_y", "shard_y",
                                        "shard_x", "batch"};
    int32_t i = 4;
    while (i >= 0 && strcmp(known[i], name))
        i--;
    return i;
}

// Returns whether a column of this name shows that the table lists the work of
// cores, one core per row.
static int names_work(const char *column)
{
    return !strcmp(column, "core_x") || !strcmp(column, "start_id") ||
           !strcmp(column, "tt_start_tile");
}

dv_status lint_read_csv(lint *l, const dv_source *src)
{
    char *text = dv_arena_copy(&l->arena, src->text, src->len), *save = NULL;
    if (!text)
        return dv_nomem(l->diag);
    int32_t line = 0, columns = 0;
    int has_work = 0;
    // For each column of the table: the number of its kernel argument, or -1 -
    // k if it is no argument, but column k of those that say which core, shard
    // or batch a row is for.
    int32_t to[LINT_MAX_NAMES];
    for (char *row = strtok_r(text, "\r\n", &save); row;
         row = strtok_r(NULL, "\r\n", &save), line++) {
        lint_core *c = line ? lint_add_core(l, -1, -1) : NULL;
        char *at = NULL;
        int32_t i = 0;
        if (line && !c)
            return dv_nomem(l->diag);
        for (char *w = strtok_r(row, ", ", &at); w;
             w = strtok_r(NULL, ", ", &at), i++) {
            if (!line && columns < LINT_MAX_NAMES) {
                int32_t k = beside(w);
                has_work |= names_work(w);
                to[columns++] = k < 0 ? l->n_names : -1 - k;
                if (k < 0)
                    l->names[l->n_names++] = w;
                continue;
            }
            char *end;
            int64_t n = strtoll(w, &end, 10);
            if (*end || i >= columns || n > LINT_MOST || n < -LINT_MOST) {
                lint_report(l, "format",
                            "row %d: '%.40s' is not expected there", (int)line,
                            w);
                continue;
            }
            int64_t *const at_k[] = {&c->x, &c->y, &c->sy, &c->sx, &l->batch};
            if (to[i] < 0)
                *at_k[-1 - to[i]] = n;
            else
                c->args[to[i]] = n, c->n_args = to[i] + 1;
        }
        if (!has_work)
            return dv_fail(l->diag, DV_E_FORMAT, (dv_loc){src, DV_FILE},
                           "this is neither a plan nor JSON nor a table of "
                           "arguments with a column core_x or start_id");
    }
    lint_sizes_of_args(l);
    return DV_OK;
}
