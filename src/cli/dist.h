// Inside cli/dist*.c: the words of a call of `divvy dist`, and its answer.
#ifndef DV_CLI_DIST_H
#define DV_CLI_DIST_H
#include "cli/cli.h"
#include "dist/dist.h"

enum { CLI_MAX_WORDS = 32 };

// key=value, the value as it was given.
typedef struct cli_word {
    char key[32];
    const char *value;
    int used;
} cli_word;

typedef struct cli_dist {
    cli_word words[CLI_MAX_WORDS];
    int n_words;
    dv_arena arena;
    dv_json j; // the answer
    dv_diag *diag;
} cli_dist;

// Numbers, and where the lists among them begin: 1,2;3 is {1,2,3}, {0,2,3}.
typedef struct cli_rows {
    int64_t *v;
    double *f; // the same; what is no whole number is only here
    int32_t n;
    int32_t *start; // n_rows + 1
    int32_t n_rows;
    int whole; // all are whole numbers
} cli_rows;

// -- Arguments (dist.c): each fails when the word is missing or wrong ------

dv_status cli_rows_of(cli_dist *c, const char *key, cli_rows *out);
// Is there such a word, with a value other than `-`?
int cli_given(cli_dist *c, const char *key);
dv_status cli_int_of(cli_dist *c, const char *key, int64_t low, int64_t high,
                     int64_t *out);
dv_status cli_double_of(cli_dist *c, const char *key, double *out);
dv_status cli_flag_of(cli_dist *c, const char *key, int *out);
const char *cli_text_of(cli_dist *c, const char *key, const char *otherwise);
// A list of n whole numbers of `low` or more (n < 0: of any length).
dv_status cli_list_of(cli_dist *c, const char *key, int n, int64_t low,
                      cli_rows *out);
// Sizes of dims whose product fits.
dv_status cli_shape_of(cli_dist *c, const char *key, dv_dist *d);
// The same, cut in dim 0 over `nprocs` ranks.
dv_status cli_cut_of(cli_dist *c, const char *key, int64_t max_ranks,
                     dv_dist *d);
// The same, cut over the grid of another word, dim by dim.
dv_status cli_grid_of(cli_dist *c, const char *shape, const char *grid,
                      int64_t max_ranks, dv_dist *d);
// off, size, stride: element i of offsets, sizes, strides, or a row of three.
dv_status cli_slice_of(cli_dist *c, int64_t off, int64_t size, int64_t stride,
                       dv_slice *out);
// Rows of three as slices.
dv_status cli_slices_of(cli_dist *c, const char *key, dv_slice **out, int *n);

void cli_range_json(dv_json *j, const char *key, dv_range r);

// -- The ops, by file: fields of the answer, which is open -----------------

#define CLI_DIST_OP(name, args) dv_status cli_dist_##name(cli_dist *c);
#include "cli/dist_ops.def"
#undef CLI_DIST_OP
#endif
