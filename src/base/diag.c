// Records and prints diagnostics. Records have a fixed size, so that running
// out of memory can be recorded without allocating.
#include "base/diag.h"
#include "divvy/nest.h"
#include "base/mem.h"
#include "base/text.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Maximum number of warnings stored; further ones are only counted.
enum { MAX_WARNINGS = 20 };

struct dv_diag {
    dv_status status;
    dv_message error, note;
    int has_note;
    int ignored; // a later error was ignored, so notes after it are ignored too
    dv_message *warnings; // array owned by the dv_diag
    int32_t n_warnings;   // number of warnings, stored or not
    const char *pass;
    int rule;       // number of the violated rule of loop nests, or 0
    char *rendered; // last result of dv_diag_text; owned
};

static const struct {
    const char *name, *text;
    int exit_code;
} statuses[] = {
#define DV_STATUS(NAME, name, code, text) {#name, text, code},
#include "divvy/status.def"
#undef DV_STATUS
};

const char *dv_status_name(dv_status s)
{
    size_t n = sizeof statuses / sizeof *statuses;
    return (size_t)s < n ? statuses[s].name : "unknown";
}

int dv_status_exit(dv_status s)
{
    size_t n = sizeof statuses / sizeof *statuses;
    return (size_t)s < n ? statuses[s].exit_code : 1;
}

dv_diag *dv_diag_create(void)
{
    dv_diag *d = dv_alloc(sizeof *d);
    if (d)
        memset(d, 0, sizeof *d);
    return d;
}

void dv_diag_clear(dv_diag *d)
{
    if (!d)
        return;
    dv_release(d->warnings);
    dv_release(d->rendered);
    memset(d, 0, sizeof *d);
}

void dv_diag_destroy(dv_diag *d)
{
    dv_diag_clear(d);
    dv_release(d);
}

dv_status dv_diag_status(const dv_diag *d)
{
    return d ? d->status : DV_OK;
}

void dv_diag_move(dv_diag *to, dv_diag *from)
{
    if (!from)
        return;
    if (to && to->status == DV_OK) {
        to->status = from->status;
        to->error = from->error;
        to->note = from->note;
        to->has_note = from->has_note;
    }
    from->status = DV_OK;
    from->has_note = from->ignored = 0;
}

void dv_diag_pass(dv_diag *d, const char *name)
{
    if (d)
        d->pass = name;
}

// Copies the line around `off`, truncated to the excerpt's size with the caret
// inside. Unprintable characters become blanks, so that the caret stays in
// place.
static void excerpt(dv_message *m, const dv_source *s, size_t begin, size_t off)
{
    size_t end = off;
    while (end < s->len && s->text[end] != '\n' &&
           (!m->is_label || s->text[end] != '#'))
        end++;
    while (m->is_label && end > off && s->text[end - 1] == ' ')
        end--;
    size_t room = sizeof m->excerpt - 1;
    if (off - begin > room - 40)
        begin = off - (room - 40);
    size_t n = end - begin < room ? end - begin : room;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s->text[begin + i];
        m->excerpt[i] = (char)(c < 32 || c > 126 ? ' ' : c);
    }
    m->excerpt[n] = 0;
    m->caret = (uint32_t)(off - begin);
}

// If the source is a program that was built by calls, uses the label in the
// comment of the line at `begin` as the file name of the message.
static void take_label(dv_message *m, const dv_source *s, size_t begin)
{
    size_t p = begin, n = 0;
    if (!s->name || strcmp(s->name, DV_BUILT_NAME) != 0)
        return;
    while (p < s->len && s->text[p] != '\n' && s->text[p] != '#')
        p++;
    if (p + 2 >= s->len || s->text[p] != '#')
        return;
    for (p += 2; p + n < s->len && s->text[p + n] != '\n'; n++)
        ;
    snprintf(m->file, sizeof m->file, "%.*s", (int)(n < 255 ? n : 255),
             s->text + p);
    m->is_label = 1;
}

static void place(dv_message *m, dv_loc at)
{
    if (!at.src)
        return;
    snprintf(m->file, sizeof m->file, "%s", at.src->name);
    if (at.off == DV_FILE)
        return;
    size_t off = at.off < at.src->len ? at.off : at.src->len;
    size_t begin = 0;
    m->line = 1;
    for (size_t i = 0; i < off; i++) {
        if (at.src->text[i] == '\n') {
            m->line++;
            begin = i + 1;
        }
    }
    m->col = (uint32_t)(off - begin) + 1;
    take_label(m, at.src, begin);
    excerpt(m, at.src, begin, off);
}

__attribute__((format(printf, 5, 0))) static void
record(dv_message *m, const char *severity, const char *kind, dv_loc at,
       const char *fmt, va_list ap)
{
    memset(m, 0, sizeof *m);
    m->severity = severity;
    snprintf(m->kind, sizeof m->kind, "%s", kind);
    vsnprintf(m->text, sizeof m->text, fmt, ap);
    place(m, at);
}

dv_status dv_fail(dv_diag *d, dv_status s, dv_loc at, const char *fmt, ...)
{
    if (d && d->status != DV_OK)
        d->ignored = 1;
    if (!d || d->ignored)
        return s;
    d->status = s;
    va_list ap;
    va_start(ap, fmt);
    record(&d->error, "error", dv_status_name(s), at, fmt, ap);
    va_end(ap);
    d->error.pass = d->pass;
    return s;
}

void dv_note(dv_diag *d, dv_loc at, const char *fmt, ...)
{
    if (!d || d->status == DV_OK || d->has_note || d->ignored)
        return;
    va_list ap;
    va_start(ap, fmt);
    record(&d->note, "note", "", at, fmt, ap);
    va_end(ap);
    d->has_note = 1;
}

void dv_warn(dv_diag *d, const char *kind, dv_loc at, const char *fmt, ...)
{
    if (!d)
        return;
    if (d->n_warnings < MAX_WARNINGS) {
        size_t n = (size_t)d->n_warnings + 1;
        dv_message *w = dv_realloc(d->warnings, n * sizeof *w);
        if (!w)
            return;
        d->warnings = w;
        va_list ap;
        va_start(ap, fmt);
        record(&w[n - 1], "warning", kind, at, fmt, ap);
        va_end(ap);
    }
    d->n_warnings++;
}

dv_status dv_nomem(dv_diag *d)
{
    return dv_fail(d, DV_E_NOMEM, DV_NOWHERE, "out of memory");
}

const dv_message *dv_diag_error(const dv_diag *d)
{
    return d && d->status != DV_OK ? &d->error : NULL;
}

int32_t dv_diag_n_warnings(const dv_diag *d)
{
    return d ? d->n_warnings : 0;
}

const dv_message *dv_diag_warning(const dv_diag *d, int32_t i)
{
    int kept = i >= 0 && i < dv_diag_n_warnings(d) && i < MAX_WARNINGS;
    return kept ? &d->warnings[i] : NULL;
}

const char *dv_diag_message(const dv_diag *d)
{
    return d && d->status != DV_OK ? d->error.text : "";
}

const char *dv_diag_file(const dv_diag *d)
{
    int has_position = d && d->status != DV_OK && d->error.line > 0;
    return has_position ? d->error.file : NULL;
}

int dv_diag_line(const dv_diag *d)
{
    return d && d->status != DV_OK ? (int)d->error.line : 0;
}

int dv_diag_column(const dv_diag *d)
{
    return d && d->status != DV_OK ? (int)d->error.col : 0;
}

void dv_diag_set_file(dv_diag *d, const char *name)
{
    if (d && d->status != DV_OK && !d->error.file[0])
        snprintf(d->error.file, sizeof d->error.file, "%s", name);
}

static void render(dv_text *out, const dv_message *m)
{
    if (m->file[0] && m->line && !m->is_label)
        dv_put(out, "%s:%u:%u: ", m->file, m->line, m->col);
    else if (m->file[0])
        dv_put(out, "%s: ", m->file);
    else
        dv_put(out, "divvy: ");
    dv_put(out, "%s", m->severity);
    if (m->kind[0])
        dv_put(out, "[%s]", m->kind);
    dv_put(out, ": %s", m->text);
    if (m->pass)
        dv_put(out, " (in pass %s)", m->pass);
    dv_put(out, "\n");
    if (m->line && m->excerpt[0])
        dv_put(out, "    %s\n    %*s^\n", m->excerpt, (int)m->caret, "");
}

const char *dv_diag_text(dv_diag *d)
{
    if (!d)
        return "";
    dv_text out = {0};
    for (int32_t i = 0; dv_diag_warning(d, i); i++)
        render(&out, &d->warnings[i]);
    if (d->n_warnings > MAX_WARNINGS)
        dv_put(&out, "divvy: %d more warnings\n", d->n_warnings - MAX_WARNINGS);
    if (d->status != DV_OK)
        render(&out, &d->error);
    if (d->has_note)
        render(&out, &d->note);
    dv_release(d->rendered);
    d->rendered = dv_text_take(&out);
    if (d->rendered)
        return d->rendered;
    return d->status == DV_OK ? "" : d->error.text;
}

void dv_diag_set_rule(dv_diag *d, int rule)
{
    if (d && !d->ignored)
        d->rule = rule;
}

int dv_diag_rule(const dv_diag *d)
{
    return d ? d->rule : 0;
}
