// Why copies that only rename elements stay in a plan, for reports.
#ifndef DV_VIEWS_H
#define DV_VIEWS_H
#include "ir/program.h"

// Prints a line for every copy that dv_program_see_through keeps: its name, and
// why it is kept. `live` are the ops that reach an output. Returns 0 when out
// of memory.
int dv_program_explain_copies(dv_text *out, const dv_program *p,
                              const unsigned char *live);
#endif
