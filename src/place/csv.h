// Reads and writes buffers as CSV, in the format of MiniMalloc.
//
//   id,lower,upper,size          columns in any order; `upper` is the first
//   b1,0,3,4                     tick after the lifetime; a column `end`
//   b2,3,9,4                     instead of it is the last tick
//
// Optional columns of MiniMalloc: alignment; offset, a fixed address; hint,
// which is ignored; gaps, which must be empty. Columns added by divvy: weight;
// uses, ticks with a suffix w if the use writes ("0w 3 7"); parents, the ids of
// buffers whose address this one may reuse; group, a number; barred, the reason
// why the buffer may not be placed. Lists are separated by spaces. The table
// ends at the first empty line.
#ifndef DV_CSV_H
#define DV_CSV_H
#include "divvy/place.h"
#include "base/diag.h"
#include "base/mem.h"
#include "base/text.h"

typedef struct dv_csv {
    dv_arena arena; // owns all arrays of this struct, but not the text
    dv_source src;  // the text, borrowed from the caller
    dv_buffer *buffers;
    dv_loc *locs;  // position of each buffer's row in the text
    int32_t *ends; // end of each buffer's row, as a byte offset in the text
    int32_t n, cap_locs, cap_buffers, cap_ends;
    int32_t header, header_end; // byte range of the header row in the text
    // Number of the column with the addresses of buffers, or -1 if there is
    // none.
    int32_t offset_column;
    int n_columns;
} dv_csv;

// Parses a CSV table of buffers. `text` and `name` are borrowed until
// dv_csv_free.
dv_status dv_csv_parse(dv_csv *out, const char *text, size_t len,
                       const char *name, dv_diag *diag);
// Prints the rows of the parsed table with these addresses in the column
// `offset`; -1 for buffers that were not placed.
void dv_csv_print(dv_text *out, const dv_csv *csv, const int64_t *offsets);
void dv_csv_free(dv_csv *csv);
#endif
