// The lexer of programs, target descriptions and plans. It reads one token at a
// time; white space and comments (# to the end of the line) only separate
// tokens.
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
    DV_TOK_STRING, // "…" without escapes; `off` and `len` exclude the quotes
    DV_TOK_ARROW,  // the token <-
    DV_TOK_RANGE,  // the token ..
    DV_TOK_LE,
    DV_TOK_GE,
    DV_TOK_EQ, // the token ==
    DV_TOK_NE,
    DV_TOK_SHL, // the token <<
    DV_TOK_SHR,
    DV_TOK_AND, // the token &&
    DV_TOK_OR,
    // Any other token is a single character; its kind is the character code.
} dv_tok;

typedef struct dv_token {
    int32_t kind;      // a dv_tok, or a character code
    uint32_t off, len; // position and length in bytes of the source
    int64_t i;         // value if DV_TOK_INT
    double f;          // value as a double if DV_TOK_INT or DV_TOK_FLOAT
    int glued; // 1 if no white space precedes it: 2MiB is two glued tokens
} dv_token;

typedef struct dv_lexer {
    const dv_source *src; // text to scan, borrowed from the caller
    dv_diag *diag;        // receives errors, borrowed from the caller
    dv_token tok;         // the current token
    uint32_t next;        // offset from which the next token is scanned
} dv_lexer;

// Initialises a lexer on a text and reads the first token.
dv_status dv_lexer_init(dv_lexer *lx, const dv_source *src, dv_diag *diag);
// Advances to the next token.
dv_status dv_lex(dv_lexer *lx);
// Returns the token after the current one without advancing. Returns DV_TOK_END
// on an error; advancing to that token then reports the error.
dv_token dv_lex_peek(const dv_lexer *lx);
// Returns whether only white space precedes offset `off` on its line.
int dv_lex_begins_line(const dv_lexer *lx, uint32_t off);
// Fails with a message that says that `what` was expected, and which token is
// there.
dv_status dv_lex_expected(const dv_lexer *lx, const char *what);
// Consumes a token of this kind, or fails with a message that `what` was
// expected.
dv_status dv_lex_expect(dv_lexer *lx, int32_t kind, const char *what);
// dv_lex_word consumes the given word, dv_lex_int an integer; they fail with a
// message if another token is there.
dv_status dv_lex_word(dv_lexer *lx, const char *word);
dv_status dv_lex_int(dv_lexer *lx, int64_t *out, const char *what);
// Returns whether the current token is this word. Words are plain names; the
// lexer reserves none.
int dv_lex_is(const dv_lexer *lx, const char *word);
// dv_lex_at returns the position of the current token, dv_lex_show its text for
// a message.
dv_loc dv_lex_at(const dv_lexer *lx);
const char *dv_lex_show(const dv_lexer *lx, char buf[48]);
#endif
