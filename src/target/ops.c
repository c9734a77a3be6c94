// Sets of ops as values of target properties.
#include "target/ops.h"
#include "ir/program.h"
#include <stdio.h>
#include <string.h>

enum {
#define DV_FN(NAME, ...) WORD_##NAME,
#define DV_REDUCER(NAME, ...)
#include "lang/op.def"
#undef DV_FN
#undef DV_REDUCER
    N_FNS,
    BEFORE_REDUCERS = N_FNS - 1,
#define DV_FN(NAME, ...)
#define DV_REDUCER(NAME, ...) WORD_OVER_##NAME,
#include "lang/op.def"
#undef DV_FN
#undef DV_REDUCER
    WORD_MATMUL,
    WORD_COPY,
    WORD_FILL,
    N_WORDS
};

// The words in capitals, as they are in lang/op.def.
static const char *const words[N_WORDS] = {
#define DV_FN(NAME, ...)      #NAME,
#define DV_REDUCER(NAME, ...) #NAME,
#include "lang/op.def"
#undef DV_FN
#undef DV_REDUCER
    "MATMUL", "COPY", "FILL"};

int dv_op_word_count(void)
{
    return N_WORDS;
}

const char *dv_op_word_name(int word, char buf[DV_OP_WORD_BYTES])
{
    // The reducers max and min have the names of functions.
    int again = 0;
    for (int i = 0; i < N_FNS && word >= N_FNS; i++)
        again |= !strcmp(words[i], words[word]);
    snprintf(buf, DV_OP_WORD_BYTES, "%s%s", words[word], again ? "_over" : "");
    for (char *c = buf; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c - 'A' + 'a');
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

// Returns the words of an expression as a bit mask. The sum of products of a
// contraction is one word.
static uint64_t words_of(const dv_expr *e, int contraction)
{
    uint64_t mask = 0;
    if (e->kind == DV_EXPR_REDUCE && contraction)
        return UINT64_C(1) << WORD_MATMUL;
    if (e->kind == DV_EXPR_REDUCE)
        mask = UINT64_C(1) << (N_FNS + e->fn);
    else if (e->kind == DV_EXPR_APPLY)
        mask = UINT64_C(1) << e->fn;
    else
        return 0;
    for (int i = 0; i < e->n_args; i++)
        mask |= words_of(e->arg[i], contraction);
    return mask;
}

static uint64_t words_of_op(const dv_op *op)
{
    uint64_t mask = words_of(op->body, dv_op_kind(op) == DV_KIND_CONTRACTION);
    if (mask)
        return mask;
    return UINT64_C(1) << (op->body->kind == DV_EXPR_READ ? WORD_COPY
                                                          : WORD_FILL);
}

int dv_op_set_has(const dv_op_set *s, const dv_op *op)
{
    return !s->without || !(words_of_op(op) & s->without);
}

const char *dv_op_set_lacks(const dv_op_set *s, const dv_op *op,
                            char buf[DV_OP_WORD_BYTES])
{
    uint64_t mask = s->without ? words_of_op(op) & s->without : 0;
    for (int i = 0; i < N_WORDS; i++)
        if (mask >> i & 1)
            return dv_op_word_name(i, buf);
    return "";
}

static int is_none(const dv_op_set *s)
{
    return s->without == (UINT64_C(1) << N_WORDS) - 1;
}

void dv_op_set_print(dv_text *out, const dv_op_set *s)
{
    char buf[DV_OP_WORD_BYTES];
    const char *before = "";
    if (!s->without || is_none(s)) {
        dv_put(out, s->without ? "none" : "all");
        return;
    }
    for (int i = 0; i < N_WORDS; i++)
        if (!(s->without >> i & 1)) {
            dv_put(out, "%s%s", before, dv_op_word_name(i, buf));
            before = " ";
        }
}

void dv_op_set_json(dv_json *j, const char *key, const dv_op_set *s)
{
    char buf[DV_OP_WORD_BYTES];
    if (!s->without) {
        dv_json_string(j, key, "all");
        return;
    }
    dv_json_open_flat(j, key, '[');
    for (int i = 0; i < N_WORDS; i++)
        if (!(s->without >> i & 1))
            dv_json_string(j, NULL, dv_op_word_name(i, buf));
    dv_json_close(j);
}
