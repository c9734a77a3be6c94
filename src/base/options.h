// Reads the options structs of the public API, whose first member is their
// size.
#ifndef DV_OPTIONS_H
#define DV_OPTIONS_H
#include "base/diag.h"

// Copies the caller's options over the defaults in `out`, which has `size`
// bytes. A caller that was compiled with an older header has a shorter struct:
// the fields it does not know keep their defaults. A longer struct comes from a
// newer header and is accepted if the fields that are unknown here are zero.
// Sizes above 4096 bytes, and sizes that are no multiple of the alignment, are
// those of no options struct and are refused before the struct is read. `given`
// may be NULL: all defaults. `type` is the struct's name for messages.
dv_status dv_options_read(void *out, size_t size, const void *given,
                          const char *type, dv_diag *diag);
// Fails unless the value of an enum field is one of the enum's `n` values.
dv_status dv_options_enum(int value, int n, const char *field, dv_diag *diag);
// Fails if a list in the options is NULL although its length n is not 0.
dv_status dv_options_list(const void *list, size_t n, const char *field,
                          dv_diag *diag);
#endif
