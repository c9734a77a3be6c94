// Diagnostics: one status, one message with the user's position in it.
//
//   mm.dv:2:15: error[shape]: b has 7 rows, a has 8 columns
//       c[m,n] = sum[k] a[m,k] * b[k,n]
//                                ^
//
// A dv_diag is passed in by the caller, so it belongs to that call and to no
// thread. The first error wins; later ones are ignored. A note adds a second
// place to the error; warnings pile up beside it. All of it is copied: a diag
// outlives the text it speaks of. Every function takes a NULL diag.
#ifndef DV_DIAG_H
#define DV_DIAG_H
#include "divvy/divvy.h"

// A text that positions refer to. Borrowed by whoever points into it.
typedef struct dv_source {
    const char *name; // file name as the user gave it
    const char *text;
    size_t len;
} dv_source;

// A byte of a source. `src` may be NULL: nowhere in particular.
typedef struct dv_loc {
    const dv_source *src;
    uint32_t off;
} dv_loc;

#define DV_NOWHERE ((dv_loc){NULL, 0})
// A whole file, when no line of it is to blame.
#define DV_FILE ((uint32_t)-1)

// Record the failure and return its status.
dv_status dv_fail(dv_diag *d, dv_status s, dv_loc at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// Add the second place of the error just recorded.
void dv_note(dv_diag *d, dv_loc at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// Record something the user should know that is no error. `kind` is the word
// in brackets.
void dv_warn(dv_diag *d, const char *kind, dv_loc at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// Out of memory, said once for all callers.
dv_status dv_nomem(dv_diag *d);
// Hand an error on, unless there is one already; `from` is empty afterwards.
void dv_diag_move(dv_diag *to, dv_diag *from);
// Name the pass that runs from here on; NULL for none. The name is borrowed.
void dv_diag_pass(dv_diag *d, const char *name);

// Errors and notes (what == 'e') or warnings ('w') as JSON-ready records.
typedef struct dv_message {
    const char *severity; // error, note, warning
    char kind[12];        // status name or warning kind
    char file[256];
    uint32_t line, col; // from 1; 0 when there is none
    char text[512];
    char excerpt[160]; // the source line, cut to fit
    uint32_t caret;    // column of the caret in excerpt
    const char *pass;
} dv_message;
const dv_message *dv_diag_error(const dv_diag *d); // NULL when there is none
const dv_message *dv_diag_warning(const dv_diag *d, int32_t i);
int32_t dv_diag_n_warnings(const dv_diag *d);

#define DV_TRY(call)                                                           \
    do {                                                                       \
        dv_status try_status_ = (call);                                        \
        if (try_status_ != DV_OK)                                              \
            return try_status_;                                                \
    } while (0)
#endif
