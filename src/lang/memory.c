// Notes on where a tensor lies in the memories of a machine, the part of a
// program's text after '@':
//
//   memory = ( dram | l1 ) "(" ( interleaved | shards ) ")"
//   shards = sharded SIZE [ on SIZE ] ( rows | cols )
//
// A size is rows x columns in one word, 64x64: of a shard in elements, and
// after `on` of the grid of cores, which l1 needs and dram does not have.
#include "base/math.h"
#include "lang/ast.h"
#include "lang/lexer.h"
#include <inttypes.h>
#include <string.h>

enum { MAX_SIZE = 1 << 30 };

// Parses `64x64`, which the lexer reads as a number and a name.
static dv_status read_size(dv_lexer *lx, int64_t *rows, int64_t *cols,
                           const char *what)
{
    dv_loc at = dv_lex_at(lx);
    DV_TRY(dv_lex_int(lx, rows, what));
    const char *text = lx->src->text + lx->tok.off;
    int good = lx->tok.kind == DV_TOK_NAME && lx->tok.glued &&
               lx->tok.len > 1 && text[0] == 'x';
    *cols = 0;
    for (uint32_t i = 1; good && i < lx->tok.len; i++) {
        good = text[i] >= '0' && text[i] <= '9' && *cols <= MAX_SIZE;
        *cols = *cols * 10 + (text[i] - '0');
    }
    if (!good || *rows < 1 || *cols < 1 || *rows > MAX_SIZE || *cols > MAX_SIZE)
        return dv_fail(lx->diag, DV_E_SYNTAX, at,
                       "expected %s as rows x columns, such as 64x64", what);
    return dv_lex(lx);
}

static dv_status read_order(dv_memory_note *m, dv_lexer *lx)
{
    char buf[48];
    m->by_cols = (uint8_t)dv_lex_is(lx, "cols");
    if (!m->by_cols && !dv_lex_is(lx, "rows"))
        return dv_fail(lx->diag, DV_E_SYNTAX, dv_lex_at(lx),
                       "expected 'rows' or 'cols', found %s",
                       dv_lex_show(lx, buf));
    return dv_lex(lx);
}

static dv_status read_shards(dv_memory_note *m, dv_lexer *lx)
{
    m->is_sharded = 1;
    DV_TRY(dv_lex(lx)); // consumes 'sharded'
    DV_TRY(read_size(lx, &m->rows, &m->cols, "the size of a shard"));
    dv_loc at = dv_lex_at(lx);
    int on = dv_lex_is(lx, "on");
    if (on && !m->in_l1)
        return dv_fail(lx->diag, DV_E_SYNTAX, at,
                       "shards in dram lie in its banks, in turn; only l1 has "
                       "a grid of cores");
    if (!on && m->in_l1)
        return dv_fail(lx->diag, DV_E_SYNTAX, at,
                       "shards in l1 need their grid of cores: sharded "
                       "%" PRId64 "x%" PRId64 " on ROWSxCOLUMNS",
                       m->rows, m->cols);
    if (on) {
        DV_TRY(dv_lex(lx));
        DV_TRY(read_size(lx, &m->grid_rows, &m->grid_cols,
                         "the size of a grid of cores"));
    }
    return read_order(m, lx);
}

dv_status dv_memory_note_read(dv_memory_note *out, dv_lexer *lx)
{
    *out = (dv_memory_note){.off = lx->tok.off};
    out->in_l1 = (uint8_t)dv_lex_is(lx, "l1");
    DV_TRY(dv_lex_word(lx, out->in_l1 ? "l1" : "dram"));
    DV_TRY(dv_lex_expect(lx, '(', "'('"));
    if (dv_lex_is(lx, "sharded"))
        DV_TRY(read_shards(out, lx));
    else if (dv_lex_is(lx, "interleaved"))
        DV_TRY(dv_lex(lx));
    else
        return dv_fail(lx->diag, DV_E_SYNTAX, dv_lex_at(lx),
                       "expected 'interleaved' or 'sharded'");
    return dv_lex_expect(lx, ')', "')'");
}

dv_status dv_memory_note_parse(dv_memory_note *out, const char *text,
                               dv_diag *diag)
{
    dv_lexer lx;
    dv_source src = {.name = "a note", .text = text, .len = strlen(text)};
    DV_TRY(dv_lexer_init(&lx, &src, diag));
    DV_TRY(dv_memory_note_read(out, &lx));
    return dv_lex_expect(&lx, DV_TOK_END, "the end of the note");
}

void dv_memory_note_print(dv_text *out, const dv_memory_note *m)
{
    if (!m)
        return;
    dv_put(out, " @ %s(%s", m->in_l1 ? "l1" : "dram",
           m->is_sharded ? "sharded" : "interleaved");
    if (m->is_sharded)
        dv_put(out, " %" PRId64 "x%" PRId64, m->rows, m->cols);
    if (m->is_sharded && m->in_l1)
        dv_put(out, " on %" PRId64 "x%" PRId64, m->grid_rows, m->grid_cols);
    if (m->is_sharded)
        dv_put(out, " %s", m->by_cols ? "cols" : "rows");
    dv_put(out, ")");
}

int dv_memory_note_equal(const dv_memory_note *a, const dv_memory_note *b)
{
    if (!a || !b)
        return a == b;
    return a->in_l1 == b->in_l1 && a->is_sharded == b->is_sharded &&
           a->by_cols == b->by_cols && a->rows == b->rows &&
           a->cols == b->cols && a->grid_rows == b->grid_rows &&
           a->grid_cols == b->grid_cols;
}

dv_status dv_memory_note_check(const dv_memory_note *m, const char *name,
                               int n_dims, const int64_t *shape, int whole,
                               dv_loc at, dv_diag *diag)
{
    if (!m || !m->is_sharded)
        return DV_OK;
    if (n_dims != 2)
        return dv_fail(diag, DV_E_SHAPE, at,
                       "shards are parts of a matrix; %s has %d dimensions",
                       name, n_dims);
    if (shape[0] % m->rows || shape[1] % m->cols)
        return dv_fail(diag, DV_E_SHAPE, at,
                       "shards of %" PRId64 "x%" PRId64
                       " do not tile %s, which is %" PRId64 "x%" PRId64,
                       m->rows, m->cols, name, shape[0], shape[1]);
    int64_t down = shape[0] / m->rows, across = shape[1] / m->cols, n, cores;
    int fits = dv_mul_i64(&n, down, across) &&
               dv_mul_i64(&cores, m->grid_rows, m->grid_cols);
    if (m->in_l1 && whole && (!fits || n != cores))
        return dv_fail(diag, DV_E_SHAPE, at,
                       "%s has %" PRId64 "x%" PRId64
                       " shards, one for a core; the grid has %" PRId64
                       "x%" PRId64 " cores",
                       name, down, across, m->grid_rows, m->grid_cols);
    return DV_OK;
}

void dv_memory_note_core(const dv_memory_note *m, int64_t i, int64_t *x,
                         int64_t *y)
{
    *x = m->by_cols ? i / m->grid_rows : i % m->grid_cols;
    *y = m->by_cols ? i % m->grid_rows : i / m->grid_cols;
}
