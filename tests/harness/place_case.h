// Reads test vectors of placements: cases of buffers and of lines that say what
// must hold (tests/vectors/place.txt and joint.txt).
#ifndef DV_TESTS_PLACE_CASE_H
#define DV_TESTS_PLACE_CASE_H
#include "divvy/place.h"
#include <inttypes.h>

enum { PLACE_MAX = 64, PLACE_USES = 40, PLACE_LINES = 64 };

// The case that is being read.
typedef struct place_case {
    char name[80]; // empty before the first case
    char names[PLACE_MAX][32], barred[PLACE_MAX][160];
    dv_buffer buffers[PLACE_MAX];
    dv_use uses[PLACE_MAX][PLACE_USES];
    int32_t parents[PLACE_MAX][4];
    dv_place_options options;
    char lines[PLACE_LINES][512]; // the conditions of the case
    int n, n_lines, n_cases;
} place_case;

// Returns the number of a buffer; the test fails if there is none of this name.
int place_find(const place_case *s, const char *name);

// How a file is read. `tail` reads the end of a line "buffer NAME SIZE START
// END r|w USES PARENTS …" and returns the text that says why the buffer is
// barred, or "-". `check` is called at the end of each case. `other` returns 1
// if it has dealt with a line that belongs to no case; it may be NULL.
typedef struct place_reader {
    const char *(*tail)(dv_buffer *b, const char *text);
    void (*check)(place_case *s);
    int (*other)(const char *line);
} place_reader;
// Reads a file below the source folder and returns its number of cases.
int place_read(const char *path, const place_reader *how);
#endif
