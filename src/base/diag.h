// Diagnostics: one status and one message with the position in the user's text.
//
//   mm.dv:2:15: error[shape]: b has 7 rows, a has 8 columns
//       c[m,n] = sum[k] a[m,k] * b[k,n]
//                                ^
//
// A dv_diag is passed in by the caller, so it belongs to that call and not to a
// thread. Only the first error is recorded; later ones are ignored. A note adds
// a second position to the error; warnings are collected separately. All text
// is copied, so a diag may outlive the source it refers to. Every function
// accepts a NULL diag.
#ifndef DV_DIAG_H
#define DV_DIAG_H
#include "divvy/divvy.h"

// A text in which messages have positions. It is borrowed: it must outlive
// everything that points into it.
typedef struct dv_source {
    const char *name; // file name as the user gave it
    const char *text;
    size_t len;
} dv_source;

// The file name of programs that were built by calls instead of parsed. Each
// line has a label as its comment, which messages show instead of file, line
// and column.
#define DV_BUILT_NAME "built program"

// A byte position in a source. `src` is NULL if there is no position.
typedef struct dv_loc {
    const dv_source *src;
    uint32_t off;
} dv_loc;

#define DV_NOWHERE ((dv_loc){NULL, 0})
// The value of dv_loc.off if an error concerns a file as a whole, not a line.
#define DV_FILE ((uint32_t)-1)

// Records an error and returns its status, so that callers can return the call.
dv_status dv_fail(dv_diag *d, dv_status s, dv_loc at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// Adds a second position to the error just recorded.
void dv_note(dv_diag *d, dv_loc at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// Records a warning. `kind` is the word printed in brackets.
void dv_warn(dv_diag *d, const char *kind, dv_loc at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// Records an out-of-memory error and returns its status.
dv_status dv_nomem(dv_diag *d);
// Moves the error of `from` to `to`, unless `to` has one already; `from` has no
// error afterwards.
void dv_diag_move(dv_diag *to, dv_diag *from);
// Sets the file name of the recorded error unless the error has one.
void dv_diag_set_file(dv_diag *d, const char *name);
// Sets the name of the running pass, which errors then mention; NULL: none. The
// name is borrowed.
void dv_diag_pass(dv_diag *d, const char *name);

// An error, a note or a warning, as it is printed or written as JSON.
typedef struct dv_message {
    const char *severity; // error, note or warning
    char kind[12];        // status name or warning kind
    char file[256];       // or the label of a line of a built program
    uint32_t line, col;   // counted from 1; 0 if there is no position
    char text[512];
    char excerpt[160]; // the source line, truncated to fit
    uint32_t caret;    // column of the caret in excerpt
    uint8_t is_label;  // 1 if `file` is a label
    const char *pass;
} dv_message;
// dv_diag_error returns the recorded error, or NULL if there is none;
// dv_diag_warning returns warning number i.
const dv_message *dv_diag_error(const dv_diag *d);
const dv_message *dv_diag_warning(const dv_diag *d, int32_t i);
int32_t dv_diag_n_warnings(const dv_diag *d);

#define DV_TRY(call)                                                           \
    do {                                                                       \
        dv_status try_status_ = (call);                                        \
        if (try_status_ != DV_OK)                                              \
            return try_status_;                                                \
    } while (0)
// Records which rule for loop nests the last error is about (its number),
// unless that error was dropped because an earlier one was recorded.
void dv_diag_set_rule(dv_diag *d, int rule);
#endif
