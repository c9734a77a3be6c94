// Reads problems in the JSON of the ASPLOS 2025 contest on intra-operator
// parallelism (IOPDDL):
//
//   {"problem": {"name": "...",
//     "nodes": {"intervals": [[0, 3], ...],     // [start, end)
//               "costs": [[15], [55, 65], ...],
//               "usages": [[10], [25, 25], ...]},
//     "edges": {"nodes": [[0, 1], ...],
//               "costs": [[30, 40], ...]},      // row-major tables
//     "usage_limit": 50}}                       // may be missing
//
// Keys come in any order; those that are unknown are skipped.
#ifndef DV_CHOOSE_READ_H
#define DV_CHOOSE_READ_H
#include "base/diag.h"
#include "divvy/choose.h"

// Maximum size of a file, before and after decompression: a small compressed
// file must not exhaust the memory.
#define DV_CHOOSE_MAX_BYTES ((int64_t)1 << 30)

typedef struct dv_choose_file {
    dv_choose_problem problem;
    dv_choose_node *nodes;
    dv_choose_edge *edges;
    int64_t *numbers[3]; // node costs, usages and tables of edges
} dv_choose_file;

// Reads a problem from a text of `len` bytes; byte text[len] must be 0. Costs
// and usages are copied. `name` is for messages. After an error there is
// nothing to free.
dv_status dv_choose_read(dv_choose_file *out, const char *text, size_t len,
                         const char *name, dv_diag *diag);
void dv_choose_file_free(dv_choose_file *f);
#endif
