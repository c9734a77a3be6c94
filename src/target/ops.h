// Sets of ops, as values of target properties: `in_place = add mul exp`. An op
// is in a set if all of its words are:
//
//   op                              words
//   y[i] = exp(x[i] - m[])          exp sub
//   s[] = sum[i] x[i]               sum
//   m[] = max[i] x[i]               max_over
//   c[m,n] = relu(sum[k] a * b)     matmul relu
//   y[i,j] = x[j,i]                 copy
//   y[i] = 0                        fill
//
// Functions and reducers are those of lang/op.def, by name (`add` for +).
#ifndef DV_TARGET_OPS_H
#define DV_TARGET_OPS_H
#include "base/json.h"
#include "base/text.h"

struct dv_op;

enum { DV_OP_WORD_BYTES = 16, DV_OP_SET_WORDS = 2 };

// A set of ops, by the words (names of functions and reducers) that they use.
// Bit i of `without` is set if word i is not allowed, so that zeros are the set
// of all ops. Bit i is bit i % 64 of without[i / 64].
typedef struct dv_op_set {
    uint64_t without[DV_OP_SET_WORDS];
} dv_op_set;

int dv_op_set_equal(const dv_op_set *a, const dv_op_set *b);
// dv_op_set_clear removes all words from a set; dv_op_set_add adds one.
void dv_op_set_clear(dv_op_set *s);
void dv_op_set_add(dv_op_set *s, int word);

// Returns whether an op is in the set, i.e. whether the set has all of its
// words.
int dv_op_set_has(const dv_op_set *s, const struct dv_op *op);
// Returns the first word of an op (such as `exp`) that the set does not have;
// "" if it has all of them.
const char *dv_op_set_lacks(const dv_op_set *s, const struct dv_op *op,
                            char buf[DV_OP_WORD_BYTES]);
// Returns the number of a word (the name of a function, a reducer or a kind of
// op), or -1.
int dv_op_word_find(const char *text, size_t len);
int dv_op_word_count(void);
const char *dv_op_word_name(int word, char buf[DV_OP_WORD_BYTES]);
// Prints a set of ops as a target description has it: the words of its ops, or
// `all` or `none`.
void dv_op_set_print(dv_text *out, const dv_op_set *s);
void dv_op_set_json(dv_json *j, const char *key, const dv_op_set *s);
#endif
