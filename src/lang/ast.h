// The program as written: a list of statements over expression trees. Params
// are still names here; ir/build resolves them. Everything lives in the arena
// given to the parser and points into the source text.
//
//   y[i] = 0.5 * (sum[k] a[i,k])
//
//   ASSIGN lhs y[i]   value APPLY *
//                           ├ FLOAT 0.5
//                           └ REDUCE sum [k]
//                              └ ACCESS a [NAME i, NAME k]
//
//   ast.[ch]    the syntax tree, the tables of op.def, equality of trees
//   op.def      functions and reducers, the only list of them
//   lexer.[ch]  tokens of programs, target descriptions and plans
//   parser.c    parses programs by recursive descent
//   printer.c   prints a tree as canonical text
#ifndef DV_AST_H
#define DV_AST_H
#include "base/diag.h"
#include "base/mem.h"
#include "base/text.h"

// A piece of the source text; not NUL-terminated.
typedef struct dv_str {
    const char *at;
    uint32_t len;
} dv_str;

int dv_str_eq(dv_str a, dv_str b);
int dv_str_is(dv_str a, const char *word);

typedef enum dv_fn {
#define DV_FN(NAME, text, n_args, prec, real, flops) DV_FN_##NAME,
#define DV_REDUCER(NAME, text, zero, real)
#include "lang/op.def"
#undef DV_FN
#undef DV_REDUCER
} dv_fn;

typedef enum dv_reducer {
#define DV_FN(NAME, text, n_args, prec, real, flops)
#define DV_REDUCER(NAME, text, zero, real) DV_RED_##NAME,
#include "lang/op.def"
#undef DV_FN
#undef DV_REDUCER
} dv_reducer;

typedef struct dv_fn_info {
    const char *text;
    int n_args, prec, real, flops;
} dv_fn_info;

typedef struct dv_reducer_info {
    const char *text;
    double zero; // what reducing nothing gives
    int real;
} dv_reducer_info;

const dv_fn_info *dv_fn_get(dv_fn f);
const dv_reducer_info *dv_reducer_get(dv_reducer r);
// By name, for calls; -1 when there is none.
int dv_fn_find(dv_str name);
int dv_reducer_find(dv_str name);

typedef enum dv_node_kind {
    DV_NODE_INT,
    DV_NODE_FLOAT,
    DV_NODE_INF,
    DV_NODE_NAME,   // a variable or a param
    DV_NODE_ACCESS, // name, args: one index each
    DV_NODE_APPLY,  // op: dv_fn, args
    DV_NODE_REDUCE, // op: dv_reducer, args: operand, then the variables' names
} dv_node_kind;

typedef struct dv_node {
    uint8_t kind, op;
    uint16_t depth; // of the tree below, leaves have 1
    uint32_t off;
    uint32_t n_args;
    dv_str name;
    union {
        int64_t i;
        double f;
        struct dv_node **args;
    };
} dv_node;

typedef enum dv_stmt_kind {
    DV_STMT_PARAM,  // name, value
    DV_STMT_INPUT,  // name, dtype, dims, place
    DV_STMT_TEMP,   // name, dtype, dims
    DV_STMT_OUTPUT, // dims: the names
    DV_STMT_ASSIGN, // lhs, value, ranges
    DV_STMT_REPEAT, // value: how often; body
} dv_stmt_kind;

typedef enum dv_place_kind {
    DV_PLACE_NONE,
    DV_PLACE_SPLIT, // over the listed dims
    DV_PLACE_REPLICATE,
} dv_place_kind;

// A wish of the user's about how processes share a tensor.
typedef struct dv_spread {
    dv_place_kind kind;
    int32_t n_dims;
    int32_t dims[8];
} dv_spread;

// One `i in begin..end` of a `for`.
typedef struct dv_for {
    dv_str name;
    uint32_t off;
    dv_node *begin, *end;
} dv_for;

typedef struct dv_stmt {
    uint8_t kind;
    uint8_t update;    // <- instead of =
    uint8_t is_extern; // opaque
    int8_t dtype;      // -1: not given
    uint32_t off;
    dv_str name;
    dv_node *lhs, *value;
    dv_node **dims;
    int32_t n_dims, n_ranges;
    dv_for *ranges;
    const dv_spread *place; // NULL: none
    struct dv_stmt *body;   // first of a repeat
    struct dv_stmt *next;
} dv_stmt;

typedef struct dv_ast {
    dv_stmt *first;
    int64_t n_stmts;
} dv_ast;

enum {
    DV_MAX_NESTING = 200, // brackets, calls and repeats inside one another
    DV_MAX_DEPTH = 1000,  // of an expression tree: a + b + c + … counts
};

struct dv_lexer;

// Parse a whole text.
dv_status dv_parse(dv_ast *out, const dv_source *src, dv_arena *arena,
                   dv_diag *diag);
// Parse statements up to the closing brace of a block (not stepping over it);
// the plan reader uses this for a program inside a plan.
dv_status dv_parse_block(dv_ast *out, struct dv_lexer *lx, dv_arena *arena);
// Parse one value on its own, as `--set` takes them: an integer or a float.
dv_status dv_parse_number(dv_node *out, const dv_source *src, dv_arena *arena,
                          dv_diag *diag);

void dv_ast_print(dv_text *out, const dv_ast *ast);
void dv_spread_print(dv_text *out, const dv_spread *p);
// Same statements, wherever they stand in their texts.
int dv_ast_equal(const dv_ast *a, const dv_ast *b);
#endif
