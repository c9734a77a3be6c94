// Parses a target description. A value is a sequence of tokens without white
// space between them: 2MiB is the number 2 and the name MiB, 204.8GB/s is four
// tokens, 13x10 is the number 13 and the name x10.
#include "base/plural.h"
#include "base/suggest.h"
#include "target/field.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct reader {
    dv_lexer *lx;
    dv_target t;
    dv_loc name_at;
    // Position in the text where each property was given; its src is NULL if
    // the property was not given.
    dv_loc seen[DV_N_FIELDS];
    uint32_t value_off, value_end; // byte range of the value being parsed
    uint32_t hole_off[DV_TARGET_MAX_RECTS];
} reader;

static dv_status wrong_kind(const reader *r, const dv_target_field *f)
{
    char buf[48];
    return dv_fail(r->lx->diag, DV_E_TARGET, dv_lex_at(r->lx),
                   "%s takes %s, found %s", f->name,
                   dv_target_kinds[f->kind].example, dv_lex_show(r->lx, buf));
}

// Consumes the current token, which is part of the value that is being parsed.
static dv_status take(reader *r)
{
    r->value_end = r->lx->tok.off + r->lx->tok.len;
    return dv_lex(r->lx);
}

// Returns the length of the text of the value that is being parsed, at most 60,
// for printing with %.*s.
static int value_len(const reader *r)
{
    uint32_t len = r->value_end - r->value_off;
    return len > 60 ? 60 : (int)len;
}

static dv_status check_range(const reader *r, const dv_target_field *f,
                             double v)
{
    if (v >= f->least && v <= f->most)
        return DV_OK;
    dv_text limit = {0};
    dv_value_print(&limit, f->kind, v < f->least ? f->least : f->most);
    const dv_source *src = r->lx->src;
    dv_status s =
        dv_fail(r->lx->diag, DV_E_TARGET, (dv_loc){src, r->value_off},
                "%s is %.*s, the %s is %s", f->name, value_len(r),
                src->text + r->value_off, v < f->least ? "least" : "most",
                limit.at ? limit.at : "");
    dv_text_free(&limit);
    return s;
}

// Reports a missing or wrong unit, quoting the whole value.
static dv_status wrong_unit(const reader *r, const dv_target_field *f)
{
    const dv_token *t = &r->lx->tok;
    uint32_t end = t->glued && t->kind != '}' ? t->off + t->len : r->value_end;
    uint32_t len = end - r->value_off;
    return dv_fail(r->lx->diag, DV_E_TARGET, (dv_loc){r->lx->src, r->value_off},
                   "%s takes %s, found '%.*s'", f->name,
                   dv_target_kinds[f->kind].example, len > 60 ? 60 : (int)len,
                   r->lx->src->text + r->value_off);
}

// Parses the unit that directly follows a number. It is optional for bytes.
static dv_status read_unit(reader *r, const dv_target_field *f, double *scale)
{
    const dv_token *t = &r->lx->tok;
    if (f->kind == DV_KIND_percent) {
        if (t->kind != '%' || !t->glued)
            return wrong_unit(r, f);
        return take(r);
    }
    const char *text = r->lx->src->text + t->off;
    double found =
        t->kind == DV_TOK_NAME ? dv_unit_scale(f->kind, text, t->len) : 0;
    if (f->kind == DV_KIND_bytes && !t->glued && found == 0)
        return DV_OK;
    if (f->kind == DV_KIND_bytes && t->kind != DV_TOK_NAME)
        return DV_OK;
    if (found == 0 || !t->glued)
        return wrong_unit(r, f);
    *scale = found;
    DV_TRY(take(r));
    if (!dv_target_kinds[f->kind].per_second)
        return DV_OK;
    if (t->kind != '/' || !t->glued)
        return wrong_unit(r, f);
    DV_TRY(take(r));
    if (!dv_lex_is(r->lx, "s") || !t->glued)
        return wrong_unit(r, f);
    return take(r);
}

static dv_status read_number(reader *r, const dv_target_field *f)
{
    const dv_token *t = &r->lx->tok;
    if (t->kind != DV_TOK_INT &&
        (t->kind != DV_TOK_FLOAT || f->kind == DV_KIND_count))
        return wrong_kind(r, f);
    double v = t->f, scale = 1;
    DV_TRY(take(r));
    if (f->kind != DV_KIND_count)
        DV_TRY(read_unit(r, f, &scale));
    v *= scale;
    DV_TRY(check_range(r, f, v));
    if (f->kind == DV_KIND_bytes && v != floor(v))
        return dv_fail(r->lx->diag, DV_E_TARGET,
                       (dv_loc){r->lx->src, r->value_off},
                       "%s is %.*s: not a whole number of bytes", f->name,
                       value_len(r), r->lx->src->text + r->value_off);
    dv_field_set(&r->t, f, v);
    return DV_OK;
}

static dv_status read_word(reader *r, const dv_target_field *f)
{
    const char *const *two = dv_target_kinds[f->kind].word;
    if (!dv_lex_is(r->lx, two[0]) && !dv_lex_is(r->lx, two[1]))
        return wrong_kind(r, f);
    dv_field_set(&r->t, f, dv_lex_is(r->lx, two[1]) ? f->most : f->least);
    return take(r);
}

// Parses a grid: 13x10 is the token 13 followed by the name x10.
static dv_status read_grid(reader *r, const dv_target_field *f)
{
    const dv_token *t = &r->lx->tok;
    if (t->kind != DV_TOK_INT)
        return wrong_kind(r, f);
    double cols = t->f, rows = 0;
    DV_TRY(take(r));
    const char *text = r->lx->src->text + t->off;
    if (t->kind != DV_TOK_NAME || !t->glued || t->len < 2 || text[0] != 'x')
        return wrong_kind(r, f);
    for (uint32_t i = 1; i < t->len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return wrong_kind(r, f);
        rows = rows * 10 + (text[i] - '0');
    }
    DV_TRY(take(r));
    DV_TRY(check_range(r, f, cols));
    DV_TRY(check_range(r, f, rows));
    dv_core_grid *g = dv_field_of(&r->t, f);
    *g = (dv_core_grid){(int64_t)cols, (int64_t)rows};
    return DV_OK;
}

static dv_status read_place(reader *r, const dv_target_field *f, int32_t *x,
                            int32_t *y)
{
    const dv_token *t = &r->lx->tok;
    for (int i = 0; i < 3; i++) {
        if (t->kind != (i == 1 ? ',' : DV_TOK_INT))
            return wrong_kind(r, f);
        if (i != 1 && t->f > INT32_MAX)
            return dv_fail(r->lx->diag, DV_E_TARGET,
                           (dv_loc){r->lx->src, t->off},
                           "%s %.0f: no grid of cores is as large as that",
                           i ? "row" : "column", t->f);
        if (i != 1)
            *(i ? y : x) = (int32_t)t->f;
        DV_TRY(take(r));
    }
    return DV_OK;
}

// Parses rectangles and single cores, e.g. "0,7-7,7 3,2", up to the next
// property.
static dv_status read_rects(reader *r, const dv_target_field *f)
{
    dv_core_rects *to = dv_field_of(&r->t, f);
    const dv_token *t = &r->lx->tok;
    if (dv_lex_is(r->lx, "none"))
        return take(r);
    do {
        uint32_t off = t->off;
        dv_core_rect c;
        DV_TRY(read_place(r, f, &c.x0, &c.y0));
        c.x1 = c.x0;
        c.y1 = c.y0;
        if (t->kind == '-') {
            DV_TRY(take(r));
            DV_TRY(read_place(r, f, &c.x1, &c.y1));
        }
        if (to->n == DV_TARGET_MAX_RECTS)
            return dv_fail(r->lx->diag, DV_E_TARGET, (dv_loc){r->lx->src, off},
                           "%s has more than %d rectangles", f->name,
                           (int)DV_TARGET_MAX_RECTS);
        r->hole_off[to->n] = off;
        to->at[to->n++] = c;
    } while (t->kind == DV_TOK_INT && !t->glued);
    return DV_OK;
}

// Reports a word that names no function, reducer or kind of op, and suggests
// the one that was probably meant.
static dv_status unknown_word(const reader *r, const dv_target_field *f)
{
    const dv_token *t = &r->lx->tok;
    dv_suggestion s = {.word = r->lx->src->text + t->off, .len = t->len};
    char names[64][DV_OP_WORD_BYTES], buf[48], meant[DV_SUGGESTION_BYTES];
    for (int i = 0; i < dv_op_word_count(); i++)
        dv_suggest(&s, dv_op_word_name(i, names[i]));
    return dv_fail(r->lx->diag, DV_E_TARGET, dv_lex_at(r->lx),
                   "%s: there are no ops %s%s", f->name,
                   dv_lex_show(r->lx, buf), dv_suggestion_text(&s, meant));
}

// Parses words of ops, e.g. "add mul exp", up to the next property, which is a
// name before '='.
static dv_status read_ops(reader *r, const dv_target_field *f)
{
    dv_op_set *to = dv_field_of(&r->t, f);
    const dv_token *t = &r->lx->tok;
    if (t->kind != DV_TOK_NAME)
        return wrong_kind(r, f);
    if (dv_lex_is(r->lx, "all"))
        return take(r);
    dv_op_set_clear(to);
    if (dv_lex_is(r->lx, "none"))
        return take(r);
    do {
        int word = dv_op_word_find(r->lx->src->text + t->off, t->len);
        if (word < 0)
            return unknown_word(r, f);
        dv_op_set_add(to, word);
        DV_TRY(take(r));
    } while (t->kind == DV_TOK_NAME && dv_lex_peek(r->lx).kind != '=');
    return DV_OK;
}

static dv_status read_text(reader *r, const dv_target_field *f)
{
    const dv_token *t = &r->lx->tok;
    const char *text = r->lx->src->text + t->off;
    if (t->kind != DV_TOK_STRING)
        return wrong_kind(r, f);
    if (t->len > f->most)
        return dv_fail(r->lx->diag, DV_E_TARGET, dv_lex_at(r->lx),
                       "%s has %u bytes, the most is %.0f", f->name, t->len,
                       f->most);
    for (uint32_t i = 0; i < t->len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 32 || c == 127)
            return dv_fail(
                r->lx->diag, DV_E_TARGET, (dv_loc){r->lx->src, t->off + i},
                "%s has the control character 0x%02x in it", f->name, c);
    }
    memcpy(dv_field_of(&r->t, f), text, t->len);
    return take(r);
}

static dv_status read_value(reader *r, const dv_target_field *f)
{
    r->value_off = r->lx->tok.off;
    switch (f->kind) {
    case DV_KIND_flag:
    case DV_KIND_grain:
    case DV_KIND_storage:
        DV_TRY(read_word(r, f));
        break;
    case DV_KIND_grid:
        DV_TRY(read_grid(r, f));
        break;
    case DV_KIND_rects:
        DV_TRY(read_rects(r, f));
        break;
    case DV_KIND_ops:
        DV_TRY(read_ops(r, f));
        break;
    case DV_KIND_text:
        DV_TRY(read_text(r, f));
        break;
    default:
        DV_TRY(read_number(r, f));
    }
    // A token that follows without white space was meant to be part of the
    // value, e.g. in 32cores or 8%%, and makes it invalid.
    if (r->lx->tok.glued && r->lx->tok.kind != '}' &&
        r->lx->tok.kind != DV_TOK_END)
        return wrong_kind(r, f);
    return DV_OK;
}

static dv_status unknown_property(const reader *r)
{
    const dv_token *t = &r->lx->tok;
    dv_suggestion s = {.word = r->lx->src->text + t->off, .len = t->len};
    for (int i = 0; i < DV_N_FIELDS; i++)
        dv_suggest(&s, dv_target_fields[i].name);
    char buf[48], meant[DV_SUGGESTION_BYTES];
    return dv_fail(r->lx->diag, DV_E_TARGET, dv_lex_at(r->lx),
                   "a target has no property %s%s", dv_lex_show(r->lx, buf),
                   dv_suggestion_text(&s, meant));
}

static dv_status read_property(reader *r)
{
    char buf[48];
    dv_lexer *lx = r->lx;
    if (lx->tok.kind != DV_TOK_NAME)
        return dv_fail(lx->diag, DV_E_SYNTAX, dv_lex_at(lx),
                       "expected a property or '}', found %s",
                       dv_lex_show(lx, buf));
    int i = 0;
    while (i < DV_N_FIELDS && !dv_lex_is(lx, dv_target_fields[i].name))
        i++;
    if (i == DV_N_FIELDS)
        return unknown_property(r);
    if (r->seen[i].src) {
        dv_fail(lx->diag, DV_E_TARGET, dv_lex_at(lx), "%s is given twice",
                dv_target_fields[i].name);
        dv_note(lx->diag, r->seen[i], "the first one is here");
        return DV_E_TARGET;
    }
    r->seen[i] = dv_lex_at(lx);
    DV_TRY(dv_lex(lx));
    DV_TRY(dv_lex_expect(lx, '=', "'='"));
    return read_value(r, &dv_target_fields[i]);
}

// Returns the position where property i was given, or else that of the target's
// name.
static dv_loc where(const reader *r, int i)
{
    return r->seen[i].src ? r->seen[i] : r->name_at;
}

// Converts the holes (unused cores) as the user wrote them into disjoint
// rectangles, and checks that their number agrees with the number of cores.
static dv_status check_holes(reader *r)
{
    dv_target *t = &r->t;
    dv_diag *diag = r->lx->diag;
    dv_core_rects holes = t->holes;
    int64_t all = t->core_grid.cols * t->core_grid.rows, stated = t->cores;
    if (!all)
        return dv_fail(diag, DV_E_TARGET, where(r, DV_AT_holes),
                       "holes are cores of a grid, core_grid is 0x0");
    for (int32_t i = 0; i < holes.n; i++)
        DV_TRY(dv_target_on_grid(t, &holes.at[i],
                                 (dv_loc){r->lx->src, r->hole_off[i]}, diag));
    t->holes.n = 0;
    DV_TRY(dv_target_restrict(t, NULL, 0, holes.at, (size_t)holes.n,
                              where(r, DV_AT_holes), diag));
    if (!r->seen[DV_AT_cores].src || stated == t->cores)
        return DV_OK;
    dv_fail(diag, DV_E_TARGET, where(r, DV_AT_holes),
            "core_grid has %" PRId64 " core%s, %" PRId64
            " of them holes, cores "
            "is %" PRId64,
            all, DV_PLURAL(all, "", "s"), all - t->cores, stated);
    dv_note(diag, where(r, DV_AT_cores), "cores is given here");
    return DV_E_TARGET;
}

// Checks that cores, core_grid and holes agree. `cores` may be omitted if there
// is a grid.
static dv_status check_cores(reader *r)
{
    dv_target *t = &r->t;
    dv_diag *diag = r->lx->diag;
    int64_t cols = t->core_grid.cols, rows = t->core_grid.rows;
    if ((cols == 0) != (rows == 0))
        return dv_fail(diag, DV_E_TARGET, where(r, DV_AT_core_grid),
                       "core_grid is %" PRId64 "x%" PRId64
                       ": one side is 0, the other is not",
                       cols, rows);
    if ((double)(cols * rows) > dv_target_fields[DV_AT_cores].most)
        return dv_fail(diag, DV_E_TARGET, where(r, DV_AT_core_grid),
                       "core_grid has %" PRId64 " core%s, the most is %.0f",
                       cols * rows, DV_PLURAL(cols * rows, "", "s"),
                       dv_target_fields[DV_AT_cores].most);
    if (t->holes.n)
        return check_holes(r);
    if (cols && !r->seen[DV_AT_cores].src)
        t->cores = cols * rows;
    if (cols && cols * rows != t->cores) {
        dv_fail(diag, DV_E_TARGET, where(r, DV_AT_core_grid),
                "core_grid has %" PRId64 " core%s, cores is %" PRId64,
                cols * rows, DV_PLURAL(cols * rows, "", "s"), t->cores);
        dv_note(diag, where(r, DV_AT_cores), "cores is given here");
        return DV_E_TARGET;
    }
    return DV_OK;
}

static dv_status check_memory(const reader *r)
{
    const dv_target *t = &r->t;
    dv_diag *diag = r->lx->diag;
    int64_t align = t->scratch_align_bytes;
    if ((t->tile_rows == 0) != (t->tile_cols == 0))
        return dv_fail(
            diag, DV_E_TARGET,
            where(r, t->tile_rows ? DV_AT_tile_rows : DV_AT_tile_cols),
            "a tile of %" PRId64 " row%s and %" PRId64 " column%s",
            t->tile_rows, DV_PLURAL(t->tile_rows, "", "s"), t->tile_cols,
            DV_PLURAL(t->tile_cols, "", "s"));
    if (t->stick_bytes % 8)
        return dv_fail(diag, DV_E_TARGET, where(r, DV_AT_stick),
                       "stick is %" PRId64 " bytes, not a multiple of 8, the "
                       "widest element",
                       t->stick_bytes);
    if (t->span_limit_bytes && t->span_limit_bytes < t->stick_bytes)
        return dv_fail(diag, DV_E_TARGET, where(r, DV_AT_span_limit),
                       "span_limit is %" PRId64 " bytes, less than a stick of "
                       "%" PRId64,
                       t->span_limit_bytes, t->stick_bytes);
    if (align & (align - 1))
        return dv_fail(diag, DV_E_TARGET, where(r, DV_AT_scratch_align),
                       "scratch_align is %" PRId64 ", not a power of two",
                       align);
    if (t->scratch_program_bytes > t->scratch_bytes)
        return dv_fail(diag, DV_E_TARGET, where(r, DV_AT_scratch_program),
                       "scratch_program is %" PRId64
                       " bytes, scratch has %" PRId64,
                       t->scratch_program_bytes, t->scratch_bytes);
    return DV_OK;
}

dv_status dv_target_read(dv_lexer *lx, dv_target *out)
{
    reader r = {.lx = lx};
    dv_target_init(&r.t, "");
    char buf[48];
    if (!dv_lex_is(lx, "target"))
        return dv_fail(lx->diag, DV_E_SYNTAX, dv_lex_at(lx),
                       "expected the word target, found %s",
                       dv_lex_show(lx, buf));
    DV_TRY(dv_lex(lx));
    r.name_at = dv_lex_at(lx);
    size_t len = lx->tok.len;
    if (lx->tok.kind == DV_TOK_NAME && len >= sizeof r.t.name)
        return dv_fail(lx->diag, DV_E_TARGET, r.name_at,
                       "the name has %zu letters, the most is %zu", len,
                       sizeof r.t.name - 1);
    if (lx->tok.kind == DV_TOK_NAME)
        memcpy(r.t.name, lx->src->text + lx->tok.off, len);
    DV_TRY(dv_lex_expect(lx, DV_TOK_NAME, "the name of the target"));
    DV_TRY(dv_lex_expect(lx, '{', "'{'"));
    while (lx->tok.kind != '}')
        DV_TRY(read_property(&r));
    DV_TRY(dv_lex(lx));
    DV_TRY(check_cores(&r));
    DV_TRY(check_memory(&r));
    *out = r.t;
    return DV_OK;
}
