#ifndef DV_TESTS_SPOIL_H
#define DV_TESTS_SPOIL_H

#include "plan/plan.h"

// What a spoiler has to work with.
typedef struct victim {
    dv_plan *plan;
    dv_scratch *s;
    dv_home *h;
    int32_t i;
} victim;

typedef struct spoiler {
    const char *name;
    int (*spoil)(victim *v); // 1 when there was something to spoil
} spoiler;

extern const spoiler spoilers[];
extern const int n_spoilers;

void set_reader(victim *v, int32_t op); // one more

// The home once more, as the last one.
int written_twice(victim *v);

int32_t writer_of(const dv_plan *plan, int32_t tensor); // -1: no op

#endif
