// Plans as SuperDSC: emitted into a folder and read back, for the tests of
// emit/superdsc.c. What is not as it should be ends the running test.
#ifndef DV_TESTS_SUPERDSC_H
#define DV_TESTS_SUPERDSC_H
#include "base/jsonread.h"
#include "plan/plan.h"

typedef struct dsc_files {
    dv_arena arena;
    dv_source *source;    // bundle.json, then sdsc_0.json and so on
    const dv_jval **root; // the same, parsed
    int n_steps;
} dsc_files;

// Emits a plan and reads all files. Returns 0 if the plan cannot be written as
// SuperDSC.
int dsc_try(dsc_files *f, const dv_plan *plan);
// The same for a plan that can be.
void dsc_emit(dsc_files *f, const dv_plan *plan);
void dsc_free(dsc_files *f);
// Step number i without its name; the name is its key.
const dv_jval *dsc_step(const dsc_files *f, int i);
// Member `key` of an object, which must have it.
const dv_jval *dsc_get(const dv_jval *v, const char *key);

// Checks all files against the tables of the document docs/superdsc.md.
void dsc_check_fields(const dsc_files *f, const char *doc);

// Runs the steps on memories of bytes, with nothing but the files: `data` has
// the arrays of the tensors of p, by their numbers, as case_buffers gives them.
void dsc_run(const dsc_files *f, const dv_program *p, void *const *data);
#endif
