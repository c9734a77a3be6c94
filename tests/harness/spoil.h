#ifndef DV_TESTS_SPOIL_H
#define DV_TESTS_SPOIL_H

#include "plan/plan.h"

// A plan and one of its homes, number i.
typedef struct victim {
    dv_plan *plan;
    dv_scratch *s;
    dv_home *h;
    int32_t i;
} victim;

typedef struct spoiler {
    const char *name;
    int (*spoil)(victim *v); // returns 1 if there was something to break
} spoiler;

extern const spoiler spoilers[];
extern const int n_spoilers;

void set_reader(victim *v, int32_t op); // adds a reader

// Adds the home a second time, as the last one.
int written_twice(victim *v);

int32_t writer_of(const dv_plan *plan, int32_t tensor); // -1 if no op writes it

#endif
