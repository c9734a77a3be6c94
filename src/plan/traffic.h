// What a plan moves, by formula: elements that each access of each op touches
// on the core that has a tile. The simulator counts the same by doing it; the
// two must be equal.
#ifndef DV_TRAFFIC_H
#define DV_TRAFFIC_H
#include "plan/plan.h"

// Distinct elements an access touches over the box begin..end of the op's
// variables; through an index that is read, one for every index. -1 when they
// cannot be counted without going through them all.
int64_t dv_touched(const dv_program *p, const dv_op *op, const dv_access *a,
                   const int64_t *begin, const int64_t *end);

typedef struct dv_traffic {
    int64_t read_elems, write_elems; // in main memory
    int64_t read_bytes, write_bytes;
    int64_t ring_bytes; // partial results handed on, and copies between cores
    int exact;          // 0: something was too odd to count
} dv_traffic;

// Of the whole plan, repeats included.
dv_traffic dv_plan_traffic(const dv_plan *plan);
// Of one op on one core; core -1: on all of them.
dv_traffic dv_op_traffic(const dv_plan *plan, int32_t group, int32_t op,
                         int64_t core);
#endif
