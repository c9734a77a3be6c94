// Loading: built-in names, files, and what to say when a name is neither.
#include "base/file.h"
#include "target/builtin.h"
#include "target/field.h"
#include "target/host.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

// -- Names -------------------------------------------------------------------

enum { MAX_NAME = 32 }; // longer words resemble nothing

// How many letters must be changed, added or removed (Levenshtein).
static size_t distance(const char *a, size_t n, const char *b)
{
    size_t row[MAX_NAME + 1];
    size_t m = strlen(b);
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            size_t shorter = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = change < shorter ? change : shorter;
        }
    }
    return row[m];
}

void dv_closer(const char **best, size_t *best_distance, const char *word,
               size_t len, const char *candidate)
{
    if (len > MAX_NAME || strlen(candidate) > MAX_NAME)
        return;
    size_t d = distance(word, len, candidate);
    if ((!*best || d < *best_distance) && d <= 1 + len / 4) {
        *best = candidate;
        *best_distance = d;
    }
}

// -- Built-in targets --------------------------------------------------------

// The host is number 0 and not in the table: its numbers are probed.
static const char host[] = "host";

const char *dv_target_builtin(int i)
{
    if (i <= 0)
        return i == 0 ? host : NULL;
    const struct dv_builtin *b = dv_builtins;
    while (--i > 0 && b->name)
        b++;
    return b->name;
}

const char *dv_target_summary(int i)
{
    if (!dv_target_builtin(i))
        return NULL;
    return i == 0 ? DV_HOST_ABOUT : dv_builtins[i - 1].about;
}

// -- Making and loading ------------------------------------------------------

// Copy a target to memory of its own.
static dv_status make(dv_target **out, const dv_target *t, dv_diag *diag)
{
    dv_target *made = dv_alloc(sizeof *made);
    if (!made)
        return dv_nomem(diag);
    *made = *t;
    *out = made;
    return DV_OK;
}

dv_status dv_target_parse(dv_target **out, const char *text, size_t len,
                          const char *name, dv_diag *diag)
{
    dv_source src = {name, text, len};
    if (len > (size_t)DV_MAX_TEXT_BYTES)
        return dv_fail(diag, DV_E_LIMIT, (dv_loc){&src, DV_FILE},
                       "the text has %zu bytes, the most is %zu", len,
                       (size_t)DV_MAX_TEXT_BYTES);
    dv_lexer lx;
    dv_target t;
    DV_TRY(dv_lexer_init(&lx, &src, diag));
    DV_TRY(dv_target_read(&lx, &t));
    DV_TRY(dv_lex_expect(&lx, DV_TOK_END, "the end of the text"));
    return make(out, &t, diag);
}

void dv_target_destroy(dv_target *t)
{
    dv_release(t);
}

static int is_missing(const char *path)
{
    errno = 0;
    FILE *f = fopen(path, "rb");
    if (f)
        fclose(f);
    return !f && (errno == ENOENT || errno == ENOTDIR);
}

static dv_status unknown_target(const char *name, dv_diag *diag)
{
    dv_text all = {0};
    const char *best = NULL, *one;
    size_t d = 0;
    for (int i = 0; (one = dv_target_builtin(i)) != NULL; i++) {
        dv_put(&all, "%s%s", i ? ", " : "", one);
        dv_closer(&best, &d, name, strlen(name), one);
    }
    dv_status s = DV_E_NOMEM;
    if (all.failed)
        dv_nomem(diag);
    else
        s = dv_fail(diag, DV_E_TARGET, DV_NOWHERE,
                    "'%.200s' is neither a file nor a built-in target "
                    "(%s)%s%s%s",
                    name, all.at, best ? "; did you mean '" : "",
                    best ? best : "", best ? "'?" : "");
    dv_text_free(&all);
    return s;
}

static dv_status load_file(dv_target **out, const char *path, dv_diag *diag)
{
    char *text = NULL;
    size_t len = 0;
    // Read in silence first: that there is no such file is said better here.
    dv_status s = dv_file_read(&text, &len, path, DV_MAX_TEXT_BYTES, NULL);
    if (s == DV_E_FILE && is_missing(path))
        return unknown_target(path, diag);
    if (s != DV_OK)
        DV_TRY(dv_file_read(&text, &len, path, DV_MAX_TEXT_BYTES, diag));
    s = dv_target_parse(out, text, len, path, diag);
    dv_release(text);
    return s;
}

dv_status dv_target_load(dv_target **out, const char *name_or_path,
                         dv_diag *diag)
{
    if (strcmp(name_or_path, host) == 0) {
        dv_target t;
        dv_host_probe(&t, diag);
        return make(out, &t, diag);
    }
    for (const struct dv_builtin *b = dv_builtins; b->name; b++)
        if (strcmp(name_or_path, b->name) == 0)
            return dv_target_parse(out, b->text, b->len, b->name, diag);
    return load_file(out, name_or_path, diag);
}
