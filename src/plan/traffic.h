// Counts the memory traffic of a plan by formula: the elements that each access
// of each op touches on the core that runs a tile. The simulator counts the
// same by executing the plan; the two counts must be equal.
#ifndef DV_TRAFFIC_H
#define DV_TRAFFIC_H
#include "base/math.h"
#include "plan/plan.h"

// Returns the number of distinct elements an access touches over the box
// begin..end of the op's variables; for an indirect access, one per index read.
// Returns -1 if they cannot be counted without enumerating them all.
int64_t dv_access_distinct_elems(const dv_program *p, const dv_op *op,
                                 const dv_access *a, const int64_t *begin,
                                 const int64_t *end);

typedef struct dv_traffic {
    int64_t read_elems, write_elems; // elements moved from and to main memory
    int64_t read_bytes, write_bytes;
    // Bytes that cores receive from other cores: partial results, copies of
    // resident tensors, and operands that pass along the ring.
    int64_t ring_bytes;
    // Bytes that the busiest link of the ring carries. Copies and partial
    // results count in full, as if all of them crossed one link; an operand
    // that passes all cores of a ring crosses every link of that ring once
    // (pass_bytes; of several rings, the one that passes most counts).
    int64_t link_bytes, pass_bytes;
    int exact; // 0 if the elements of some access could not be counted
} dv_traffic;

// Returns the bytes moved from and to main memory together, at most INT64_MAX.
static inline int64_t dv_traffic_bytes(const dv_traffic *t)
{
    return dv_add_most_i64(t->read_bytes, t->write_bytes);
}

// Returns the traffic of the whole plan; ops in repeat loops count once per
// iteration.
dv_traffic dv_plan_traffic(const dv_plan *plan);
// Returns the bytes that the plan moves from and to main memory, at most
// INT64_MAX.
int64_t dv_plan_memory_bytes(const dv_plan *plan);
// Returns a lower bound of the main-memory traffic of any plan of the program,
// in bytes: every input element that some op reads is read once, and every
// output is written once.
int64_t dv_plan_least_bytes(const dv_plan *plan);
// Returns the traffic of one op on one core, or on all cores if core is -1.
dv_traffic dv_op_traffic(const dv_plan *plan, int32_t group, int32_t op,
                         int64_t core);
// Returns the traffic of one op on all cores, except that ring_bytes lacks the
// operands that pass along the ring: no price depends on them, and counting
// them takes long.
dv_traffic dv_op_load(const dv_plan *plan, int32_t group, int32_t op);
// Adds to bytes[c - first_core], for n cores from first_core on, the bytes that
// core c moves from and to main memory for the op.
void dv_op_traffic_by_core(const dv_plan *plan, int32_t group, int32_t op,
                           int64_t first_core, int64_t n, int64_t *bytes);
#endif
