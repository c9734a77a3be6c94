// Loads targets (descriptions of machines) by built-in name or from a file, and
// reports names that are neither.
#include "base/file.h"
#include "base/suggest.h"
#include "target/builtin.h"
#include "target/field.h"
#include "target/host.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

// Built-in target 0 is the machine that divvy runs on. It is not in the table
// of descriptions, because its properties are probed.
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

// Allocates a copy of a target.
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
    const char *one;
    char meant[DV_SUGGESTION_BYTES];
    dv_suggestion close = {.word = name, .len = strlen(name)};
    for (int i = 0; (one = dv_target_builtin(i)) != NULL; i++) {
        dv_put(&all, "%s%s", i ? ", " : "", one);
        dv_suggest(&close, one);
    }
    dv_status s = DV_E_NOMEM;
    if (all.failed)
        dv_nomem(diag);
    else
        s = dv_fail(diag, DV_E_TARGET, DV_NOWHERE,
                    "'%.200s' is neither a file nor a built-in target "
                    "(%s)%s",
                    name, all.at, dv_suggestion_text(&close, meant));
    dv_text_free(&all);
    return s;
}

static dv_status load_file(dv_target **out, const char *path, dv_diag *diag)
{
    char *text = NULL;
    size_t len = 0;
    // Errors are suppressed at first, because for a missing file unknown_target
    // gives a better message.
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
