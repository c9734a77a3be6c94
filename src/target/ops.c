// Sets of ops as values of target properties.
#include "target/ops.h"
#include "ir/program.h"
#include <stdio.h>
#include <string.h>

enum {
#define DV_FN(NAME, ...) WORD_##NAME,
#include "lang/op.def"
    N_FNS,
    BEFORE_REDUCERS = N_FNS - 1,
#define DV_REDUCER(NAME, ...) WORD_OVER_##NAME,
#include "lang/op.def"
    WORD_MATMUL,
    WORD_COPY,
    WORD_FILL,
    N_WORDS
};

static const char *const words[N_WORDS] = {
#define DV_FN(NAME, text, word, ...) word,
#define DV_REDUCER(NAME, text, ...)  text,
#include "lang/op.def"
    "matmul", "copy", "fill"};
_Static_assert(N_WORDS <= 64 * DV_OP_SET_WORDS, "a set has a bit per word");

// A set of words (names of functions, reducers and kinds of ops): a bit for
// each.
typedef struct mask {
    uint64_t bits[DV_OP_SET_WORDS];
} mask;

static void set_bit(mask *m, int i)
{
    m->bits[i / 64] |= UINT64_C(1) << i % 64;
}

static int has_bit(const uint64_t *bits, int i)
{
    return (int)(bits[i / 64] >> i % 64 & 1);
}

int dv_op_word_count(void)
{
    return N_WORDS;
}

const char *dv_op_word_name(int word, char buf[DV_OP_WORD_BYTES])
{
    // Reducers that share the name of a function (max, min) get a suffix:
    // max_over.
    int again = 0;
    for (int i = 0; i < N_FNS && word >= N_FNS; i++)
        again |= !strcmp(words[i], words[word]);
    snprintf(buf, DV_OP_WORD_BYTES, "%s%s", words[word], again ? "_over" : "");
    return buf;
}

int dv_op_word_find(const char *text, size_t len)
{
    char buf[DV_OP_WORD_BYTES];
    for (int i = 0; i < N_WORDS; i++)
        if (strlen(dv_op_word_name(i, buf)) == len && !memcmp(buf, text, len))
            return i;
    return -1;
}

// Adds the words of an expression (names of its functions and reducers) to a
// mask. A contraction's sum of products is the single word `matmul`.
static void add_words_of(mask *m, const dv_expr *e, int contraction)
{
    if (e->kind == DV_EXPR_REDUCE && contraction) {
        set_bit(m, WORD_MATMUL);
        return;
    }
    if (e->kind == DV_EXPR_REDUCE)
        set_bit(m, N_FNS + e->fn);
    else if (e->kind == DV_EXPR_APPLY)
        set_bit(m, e->fn);
    for (int i = 0; i < e->n_args; i++)
        add_words_of(m, e->arg[i], contraction);
}

static mask words_of_op(const dv_op *op)
{
    mask m = {{0}};
    if (op->body->kind == DV_EXPR_READ)
        set_bit(&m, WORD_COPY);
    else if (op->body->kind == DV_EXPR_CONST)
        set_bit(&m, WORD_FILL);
    else
        add_words_of(&m, op->body, dv_op_kind(op) == DV_KIND_CONTRACTION);
    return m;
}

// Returns the first word of an op (such as `exp` or `matmul`) that the set does
// not have, or -1.
static int lacks(const dv_op_set *s, const dv_op *op)
{
    mask m = words_of_op(op);
    for (int i = 0; i < N_WORDS; i++)
        if (has_bit(m.bits, i) && has_bit(s->without, i))
            return i;
    return -1;
}

static int is_all(const dv_op_set *s)
{
    return dv_op_set_equal(s, &(dv_op_set){{0}});
}

int dv_op_set_has(const dv_op_set *s, const dv_op *op)
{
    return is_all(s) || lacks(s, op) < 0;
}

const char *dv_op_set_lacks(const dv_op_set *s, const dv_op *op,
                            char buf[DV_OP_WORD_BYTES])
{
    int word = is_all(s) ? -1 : lacks(s, op);
    return word < 0 ? "" : dv_op_word_name(word, buf);
}

int dv_op_set_equal(const dv_op_set *a, const dv_op_set *b)
{
    return !memcmp(a->without, b->without, sizeof a->without);
}

void dv_op_set_clear(dv_op_set *s)
{
    for (int i = 0; i < N_WORDS; i++)
        s->without[i / 64] |= UINT64_C(1) << i % 64;
}

void dv_op_set_add(dv_op_set *s, int word)
{
    s->without[word / 64] &= ~(UINT64_C(1) << word % 64);
}

static int is_none(const dv_op_set *s)
{
    dv_op_set none = {{0}};
    dv_op_set_clear(&none);
    return dv_op_set_equal(s, &none);
}

void dv_op_set_print(dv_text *out, const dv_op_set *s)
{
    char buf[DV_OP_WORD_BYTES];
    const char *before = "";
    if (is_all(s) || is_none(s)) {
        dv_put(out, is_all(s) ? "all" : "none");
        return;
    }
    for (int i = 0; i < N_WORDS; i++)
        if (!has_bit(s->without, i)) {
            dv_put(out, "%s%s", before, dv_op_word_name(i, buf));
            before = " ";
        }
}

void dv_op_set_json(dv_json *j, const char *key, const dv_op_set *s)
{
    char buf[DV_OP_WORD_BYTES];
    if (is_all(s)) {
        dv_json_string(j, key, "all");
        return;
    }
    dv_json_open_flat(j, key, '[');
    for (int i = 0; i < N_WORDS; i++)
        if (!has_bit(s->without, i))
            dv_json_string(j, NULL, dv_op_word_name(i, buf));
    dv_json_close(j);
}
