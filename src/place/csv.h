// Buffers as CSV, the form MiniMalloc reads and writes.
//
//   id,lower,upper,size          columns in any order; `upper` is the first
//   b1,0,3,4                     tick after, `end` would be the last one
//   b2,3,9,4
//
// More columns: alignment; offset, a fixed address; hint, which is ignored;
// gaps, which must be empty. Our own: weight; uses, ticks with a w behind those
// that write ("0w 3 7"); parents, ids of buffers whose place it may take over;
// group, a number; barred, a reason. A list is separated by spaces. The table
// ends at the first empty line.
#ifndef DV_CSV_H
#define DV_CSV_H
#include "base/diag.h"
#include "base/mem.h"
#include "base/text.h"

typedef struct dv_csv {
    dv_arena arena; // everything below but the text
    dv_source src;  // borrowed text
    dv_buffer *buffers;
    dv_loc *locs;  // where each buffer's row begins
    int32_t *ends; // where it ends, in bytes of the text
    int32_t n, cap_locs, cap_buffers, cap_ends;
    int32_t header, header_end; // the header's row
    int32_t offset_column;      // which column is the offset; -1: none
    int n_columns;
} dv_csv;

// Read a table. The text and the name are borrowed until dv_csv_free.
dv_status dv_csv_parse(dv_csv *out, const char *text, size_t len,
                       const char *name, dv_diag *diag);
// The same rows with an offset for each, -1 for what was left out.
void dv_csv_print(dv_text *out, const dv_csv *csv, const int64_t *offsets);
void dv_csv_free(dv_csv *csv);
#endif
