// Steps of a plan for Torch-Spyre's back end, as SuperDSC describes them: one
// op, or one copy, that cores run in parallel slices. superdsc.c finds the
// steps of a plan, superdsc_json.c writes each of them as a file.
//
// docs/superdsc.md has the names and types of all fields.
#ifndef DV_SUPERDSC_H
#define DV_SUPERDSC_H
#include "emit/emit.h"

enum {
    SDSC_MAX_DIMS = 8,
    SDSC_MAX_OPERANDS = 4,
    SDSC_STICK_BYTES = 128,
};

// A dim of a step's iteration space.
typedef struct sdsc_dim {
    const char *label; // such as "mb"
    // Number of values, and the same rounded up to whole sticks (the machine's
    // units of memory) if the dim is cut into sticks.
    int64_t len, padded;
} sdsc_dim;

// How the dims of a step are cut into slices, and which slice of every dim each
// core has.
typedef struct sdsc_owners {
    int64_t splits[SDSC_MAX_DIMS]; // number of slices of each dim
    int64_t *core;                 // core numbers, ascending
    int64_t *slot; // slot[c * SDSC_MAX_DIMS + d]: slice of dim d on core[c]
    int32_t n_cores;
} sdsc_owners;

// An operand of a step: a tensor, and how it is stored.
typedef struct sdsc_operand {
    int32_t place;   // number of the tensor's place in main memory, or -1
    int64_t address; // its address in the scratchpads if `place` is -1
    dv_dtype dtype;
    // First the n_own dims by which the tensor is stored, innermost first; then
    // dims of the step that the tensor lacks, which the format lists, too.
    int8_t dim[SDSC_MAX_DIMS];
    int n_own, n_dims;
    // The dim that is cut into sticks (128-byte units of memory); -1: each
    // stick holds one element.
    int stick;
    // For each dim of the step: 1 if the tensor has it, -1 if it lacks it, -2
    // if it lacks it and holds one element per stick; 0 if it is not listed.
    int scale[SDSC_MAX_DIMS];
    const char *layout; // the name of its layout, such as "OUTPUT"
    // If the step copies between cores: the cores that have this tensor.
    // Otherwise NULL: they are those of the step.
    const sdsc_owners *owners;
} sdsc_operand;

typedef struct sdsc_step {
    const char *func; // name of the back end's function
    int is_product, is_reduction;
    sdsc_dim dim[SDSC_MAX_DIMS];
    int n_dims;
    sdsc_operand at[SDSC_MAX_OPERANDS]; // the last one is the result
    int n_operands;
    sdsc_owners owners;
    // Constants of the step's function: their names, and their bits in the
    // element type of the result.
    const char *constant[2];
    uint32_t bits[2];
    int n_constants;
    // The dim whose padding must not take part in the reduction, or -1; the
    // last of the constants above replaces the padding.
    int masked;
} sdsc_step;

// A tensor in main memory: an argument of the program, or an intermediate at an
// offset in one allocation for all intermediates (the pool).
typedef struct sdsc_place {
    int32_t tensor; // -1: one stick that holds the constant `value`
    double value;
    dv_dtype dtype;
    int32_t argument; // its number among the arguments; -1: in the pool
    int64_t offset;   // in the pool, in bytes
} sdsc_place;

// A start address in main memory.
typedef struct sdsc_symbol {
    int32_t place;
    int64_t offset;
} sdsc_symbol;

// A step that has been written, as an entry of the list of all steps.
typedef struct sdsc_done {
    const char *kind; // compute, load, store, move or shuffle
    int32_t op, tensor;
} sdsc_done;

typedef struct sdsc {
    emitter *e;
    sdsc_place *places;
    int32_t n_places, cap_places, n_arguments;
    int64_t pool_bytes;
    sdsc_symbol *symbols;
    int32_t n_symbols, cap_symbols;
    sdsc_done *steps;
    int32_t n_steps, cap_steps;
} sdsc;

// Returns the name that Torch-Spyre's back end gives an element type, or NULL
// if it lacks the type.
const char *dv_sdsc_format(dv_dtype t);
// Writes a step as a JSON file of its own; `done` is its entry in the list of
// steps.
dv_status dv_sdsc_write(sdsc *s, const sdsc_step *step, const sdsc_done *done);
// Writes the file that lists all arguments, addresses and steps.
dv_status dv_sdsc_bundle(sdsc *s);
#endif
