// Prints a plan as an object within other JSON. Parts of it can be left out, so
// that a report is deterministic or smaller.
#ifndef DV_PLAN_JSON_H
#define DV_PLAN_JSON_H
#include "base/json.h"
#include "plan/plan.h"

enum {
    DV_JSON_PASS_TIMES = 1, // how long each pass took
    DV_JSON_DEALS = 2,      // which tiles of each group each core has
    DV_JSON_SPANS = 4,      // what was weighed when ops were divided
    DV_JSON_ORIGIN = 8,     // the program's text, the machine, digests
    DV_JSON_BUFFERS = 16,   // why tensors are resident or not, and copies
    DV_JSON_HOMES = 32,     // what is in the scratchpads
    DV_JSON_OPS = 64,       // tensors and ops; groups have the names of ops
    DV_JSON_ALL = 127,
};

void dv_plan_json_object(dv_json *j, const char *key, const dv_plan *plan,
                         int parts);
#endif
