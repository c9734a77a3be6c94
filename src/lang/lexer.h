// The lexer of programs, target descriptions and plans. One token at a time;
// white space and comments (# to the end of the line) only separate.
//
//   y[2*i+1] <- 0.5  # half      ->  y [ 2 * i + 1 ] <- 0.5
#ifndef DV_LEXER_H
#define DV_LEXER_H
#include "base/diag.h"

typedef enum dv_tok {
    DV_TOK_END,
    DV_TOK_NAME,
    DV_TOK_INT,
    DV_TOK_FLOAT,
    DV_TOK_STRING, // "…", no escapes; `off` and `len` are inside the quotes
    DV_TOK_ARROW,  // <-
    DV_TOK_RANGE,  // ..
    DV_TOK_LE,
    DV_TOK_GE,
    DV_TOK_EQ, // ==
    DV_TOK_NE,
    // A single character stands for itself.
} dv_tok;

typedef struct dv_token {
    int32_t kind;      // a dv_tok, or the character
    uint32_t off, len; // bytes of the source
    int64_t i;         // DV_TOK_INT
    double f;          // DV_TOK_INT and DV_TOK_FLOAT
    int glued;         // no white space before it: 2MiB is two glued tokens
} dv_token;

typedef struct dv_lexer {
    const dv_source *src; // borrowed
    dv_diag *diag;        // borrowed
    dv_token tok;         // the current token
    uint32_t next;        // where the one after it is looked for
} dv_lexer;

// Start on a text and read its first token.
dv_status dv_lexer_init(dv_lexer *lx, const dv_source *src, dv_diag *diag);
// Step to the next token.
dv_status dv_lex(dv_lexer *lx);
// The token after the current one, without stepping. DV_TOK_END on an error,
// which the step to it then reports.
dv_token dv_lex_peek(const dv_lexer *lx);
// Is there nothing but white space before it on its line?
int dv_lex_begins_line(const dv_lexer *lx, uint32_t off);
// Step over a token of this kind, or fail saying `what` was expected.
dv_status dv_lex_expect(dv_lexer *lx, int32_t kind, const char *what);
// Step over this very word, or over a whole number.
dv_status dv_lex_word(dv_lexer *lx, const char *word);
dv_status dv_lex_int(dv_lexer *lx, int64_t *out, const char *what);
// Is the current token this word? A word is any name; none is reserved here.
int dv_lex_is(const dv_lexer *lx, const char *word);
// Where the current token is, and what to call it in a message.
dv_loc dv_lex_at(const dv_lexer *lx);
const char *dv_lex_show(const dv_lexer *lx, char buf[48]);
#endif
