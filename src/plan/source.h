// Section `source` of a plan: the program as the user wrote it (see
// plan/source.c). No pass computes it.
#ifndef DV_PLAN_SOURCE_H
#define DV_PLAN_SOURCE_H
#include "plan/plan.h"

// Stores a copy of the program's statements in the plan.
dv_status dv_source_set(dv_plan *plan, const dv_program *program,
                        dv_diag *diag);
void dv_source_print(dv_text *out, const dv_plan *plan);
// Parses the section `source`; the lexer is at this word.
dv_status dv_source_read(dv_plan *plan, dv_lexer *lx);
// Checks that the program as written (section `source`) has the same inputs and
// outputs as the plan's lowered program.
dv_status dv_source_verify(const dv_plan *plan, dv_diag *diag);
// Parses a block of statements in braces, resolves and verifies it. `p` is an
// empty program whose grain (how much one op may hold) is set (plan/lower.c).
dv_status dv_program_read_block(dv_program *p, dv_lexer *lx);
// Avoids copies in the plan's lowered program: ops write their results directly
// into concatenations, and a concatenation becomes a slice of a later one that
// contains it (plan/join.c).
dv_status dv_plan_join(dv_plan *plan, dv_diag *diag);
// Puts ops of the plan's lowered program before the chains of ops that they
// interrupt (plan/ahead.c).
dv_status dv_plan_ahead(dv_plan *plan, dv_diag *diag);
#endif
