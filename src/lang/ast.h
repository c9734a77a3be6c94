// The syntax tree of a program: a list of statements over expression trees.
// Params are still names here; ir/build.c resolves them. All nodes live in the
// arena given to the parser, and names point into the source text.
//
//   y[i] = 0.5 * (sum[k] a[i,k])
//
//   ASSIGN lhs y[i]   value APPLY *
//                           ├ FLOAT 0.5
//                           └ REDUCE sum [k]
//                              └ ACCESS a [NAME i, NAME k]
//
//   ast.[ch]    the syntax tree, the tables of op.def; reduce.h: of reducers
//   op.def      the only list of functions and reducers
//   lexer.[ch]  splits programs, target descriptions and plans into tokens
//   parser.c    parses programs by recursive descent
//   memory.c    reads, prints and checks notes on where a tensor lies
//   printer.c   prints a tree as canonical text
//
// Other folders may also include: lexer.h, op.def, reduce.h
#ifndef DV_AST_H
#define DV_AST_H
#include "base/diag.h"
#include "base/mem.h"
#include "base/text.h"

// A substring of the source text; not NUL-terminated.
typedef struct dv_str {
    const char *at;
    uint32_t len;
} dv_str;

int dv_str_eq(dv_str a, dv_str b);
int dv_str_is(dv_str a, const char *word);

typedef enum dv_fn {
#define DV_FN(NAME, ...) DV_FN_##NAME,
#include "lang/op.def"
    DV_N_FNS,
} dv_fn;

// Functions that occur in syntax trees only: building a program replaces them
// by their definitions.
enum {
    DV_LAST_FN = DV_N_FNS - 1,
#define DV_DEFINED(NAME, ...) DV_FN_##NAME,
#include "lang/op.def"
    DV_N_ALL_FNS,
};

// Precedences of operators, as in C. Operators of one precedence are
// left-associative, except comparisons, which do not chain.
enum {
    DV_PREC_LEAST = 1, // ||; then &&, |, ^ and &
    DV_PREC_COMPARE = 6,
    DV_PREC_TERM = 9,    // * and /, after << and >>, and + and -
    DV_PREC_FACTOR = 10, // prefixes
    DV_PREC_TIGHT = 11,  // names, numbers, accesses and calls
};

typedef enum dv_reducer {
#define DV_REDUCER(NAME, ...) DV_RED_##NAME,
#include "lang/op.def"
} dv_reducer;

// argmax and argmin, which occur in syntax trees only; their numbers follow
// those of the reducers above.
enum {
    DV_RED_BEFORE_ARGS = -1
#define DV_REDUCER(...) +1
#include "lang/op.def"
    ,
#define DV_ARG_REDUCER(NAME, ...) DV_RED_##NAME,
#include "lang/op.def"
};

// A row of the table of functions and operators, op.def, which explains the
// columns.
typedef struct dv_fn_info {
    const char *text, *word;
    int n_args, prec;
    // real: 1 if the arguments must be floats; whole: 1 if they must be
    // integers.
    int real, whole;
    int flops, ulps;
    double slope;
    const char *definition; // NULL: none
} dv_fn_info;

typedef struct dv_reducer_info {
    const char *text;
    double zero; // initial accumulator, the result for an empty range
    int real;
    int arg_of; // of argmax and argmin: max or min; otherwise -1
} dv_reducer_info;

// Returns whether f is a comparison. They come first in dv_fn, from < to !=.
static inline int dv_fn_compares(dv_fn f)
{
    return f <= DV_FN_NE;
}
const dv_fn_info *dv_fn_get(dv_fn f);
int dv_n_fns(void);
const dv_reducer_info *dv_reducer_get(dv_reducer r);
int dv_n_reducers(void);
// Find a function that is called by name, an operator with this number of
// arguments, or a reducer. Return -1 if there is none.
int dv_fn_find(dv_str name);
int dv_operator_find(dv_str text, int n_args);
int dv_reducer_find(dv_str name);

typedef enum dv_node_kind {
    DV_NODE_INT,
    DV_NODE_FLOAT,
    DV_NODE_INF,
    DV_NODE_NAME, // an identifier, a variable or a param, in `name`
    // An access: the tensor in `name`, one index per dim in `args`.
    DV_NODE_ACCESS,
    // A function call or operator: a dv_fn in `op`, operands in `args`.
    DV_NODE_APPLY,
    // A reduction: a dv_reducer in `op`; `args` has the operand, then the
    // reduced variables: NAME nodes, or comparisons of a variable with its
    // bound (k <= t).
    DV_NODE_REDUCE,
    // A read with a border: in `args` the access and the value outside the
    // tensor.
    DV_NODE_ELSE,
} dv_node_kind;

typedef struct dv_node {
    uint8_t kind, op;
    uint16_t depth; // height of the tree; a leaf has 1
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
    DV_STMT_PARAM, // uses `name` and `value` of dv_stmt
    // Uses `name`, `dtype`, `dims`, `place` and `memory` of dv_stmt.
    DV_STMT_INPUT,
    DV_STMT_TEMP, // uses `name`, `dtype` and `dims` of dv_stmt
    // A constant: like an input, with the path of its data in `file`.
    DV_STMT_CONST,
    // Uses `dims` of dv_stmt, the outputs as NAME nodes, and `memory`.
    DV_STMT_OUTPUT,
    DV_STMT_ASSIGN, // uses `lhs`, `value` and `ranges` of dv_stmt
    // Uses `body` of dv_stmt, and `value` (the trip count) or, if the loop has
    // a counter, `ranges` (the counter and its range).
    DV_STMT_REPEAT,
} dv_stmt_kind;

typedef enum dv_place_kind {
    DV_PLACE_NONE,
    DV_PLACE_SPLIT, // divided over processes along the listed dims
    DV_PLACE_REPLICATE,
} dv_place_kind;

// A user's request for how a tensor is distributed over ranks (processes).
typedef struct dv_placement_request {
    dv_place_kind kind;
    int32_t n_dims;
    int32_t dims[8];
} dv_placement_request;

// Where a tensor is stored in a machine with a main memory (dram) and a memory
// per core (l1): its tiles one after another in all banks (interleaved), or in
// shards, rectangles of equal size. Shard i, counted row by row, is in l1 on
// core i of a grid whose corner is core 0,0; its cores are counted row by row,
// or column by column if by_cols is 1. In dram shard i is in bank i modulo the
// number of banks, and by_cols says that shards are counted column by column.
typedef struct dv_memory_note {
    uint8_t in_l1, is_sharded, by_cols;
    int64_t rows, cols;           // of a shard, in elements
    int64_t grid_rows, grid_cols; // of cores; 0 in dram
    uint32_t off;
} dv_memory_note;

// One `i in begin..end` of a `for` clause.
typedef struct dv_for {
    dv_str name;
    uint32_t off;
    dv_node *begin, *end;
} dv_for;

typedef struct dv_stmt {
    uint8_t kind;
    uint8_t update;    // 1 for `<-` (modifies a tensor), 0 for `=` (defines it)
    uint8_t is_extern; // 1 if `extern`: an opaque op, never divided
    int8_t dtype;      // a dv_dtype; -1 if not given
    uint32_t off;
    dv_str name;
    dv_node *lhs, *value;
    dv_node **dims;
    int32_t n_dims, n_ranges;
    dv_for *ranges;
    // Requested distribution over ranks (processes); NULL if there is none.
    const dv_placement_request *place;
    // Where the declared tensor, or each of the outputs, is stored; an entry is
    // NULL if the program does not say. NULL if it says nothing at all.
    const dv_memory_note **memory;
    // Path of the file with a constant's data, as written; at is NULL if the
    // caller of the program provides the data.
    dv_str file;
    struct dv_stmt *body; // first statement inside a repeat
    struct dv_stmt *next;
} dv_stmt;

typedef struct dv_ast {
    dv_stmt *first;
    int64_t n_stmts;
} dv_ast;

enum {
    DV_MAX_NESTING = 200, // maximum nesting of brackets, calls and repeats
    // Maximum height of an expression tree; each + of a + b + c + … adds one.
    DV_MAX_DEPTH = 1000,
};

struct dv_lexer;

// Parses a whole program text.
dv_status dv_parse(dv_ast *out, const dv_source *src, dv_arena *arena,
                   dv_diag *diag);
// Parses statements up to, but not including, the closing brace of a block. The
// plan reader uses it for a program inside a plan.
dv_status dv_parse_block(dv_ast *out, struct dv_lexer *lx, dv_arena *arena);
// Parses a single expression, such as a number given to `--set`.
dv_status dv_parse_expr(dv_node *out, const dv_source *src, dv_arena *arena,
                        dv_diag *diag);

void dv_ast_print(dv_text *out, const dv_ast *ast);
// Parses a memory note (where a tensor is stored), such as `l1(sharded 64x64 on
// 8x8 rows)`; the lexer is at its first word.
dv_status dv_memory_note_read(dv_memory_note *out, struct dv_lexer *lx);
// Parses a text that consists of one memory note (where a tensor is stored).
dv_status dv_memory_note_parse(dv_memory_note *out, const char *text,
                               dv_diag *diag);
void dv_memory_note_print(dv_text *out, const dv_memory_note *m);
int dv_memory_note_equal(const dv_memory_note *a, const dv_memory_note *b);
// Checks that the shards of a memory note tile a tensor of this shape and, if
// `whole`, that its grid has one core for each shard.
dv_status dv_memory_note_check(const dv_memory_note *m, const char *name,
                               int n_dims, const int64_t *shape, int whole,
                               dv_loc at, dv_diag *diag);
// Returns the column and row of the core that has shard i in l1.
void dv_memory_note_core(const dv_memory_note *m, int64_t i, int64_t *x,
                         int64_t *y);
// Returns whether the tensor is divided into shards in the cores' memories.
static inline int dv_on_cores(const dv_memory_note *m)
{
    return m && m->in_l1 && m->is_sharded;
}
void dv_placement_request_print(dv_text *out, const dv_placement_request *p);
#endif
