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

// Which slice of every dim each core has.
typedef struct sdsc_owners {
    int64_t splits[SDSC_MAX_DIMS]; // number of slices of each dim
    int64_t *core;                 // core numbers, ascending
    int64_t *slot; // slot[c * SDSC_MAX_DIMS + d]: slice of dim d on core[c]
    int32_t n_cores;
} sdsc_owners;

// A tensor of a step.
typedef struct sdsc_operand {
    int32_t place;   // number of the tensor's place in main memory, or -1
    int64_t address; // its address in the scratchpads if `place` is -1
    dv_dtype dtype;
    // The dims by which the tensor is stored, innermost first, and after them
    // those that it lacks but its description lists.
    int8_t dim[SDSC_MAX_DIMS];
    int n_own, n_dims;
    // The dim that is cut into sticks; -1: each stick holds one element.
    int stick;
    // For each dim: 1 if the tensor has it, -1 if it lacks it, -2 if it holds
    // one element per stick instead; 0 if it does not list it.
    int scale[SDSC_MAX_DIMS];
    const char *layout; // the name of its layout, such as "OUTPUT"
    // Of a copy between cores: the cores that have the tensor; otherwise NULL,
    // and they are those of the step.
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
    // Constants of the function: their names, and their bits in the type of the
    // result.
    const char *constant[2];
    uint32_t bits[2];
    int n_constants;
    // The dim whose padding must not take part in the reduction, or -1; the
    // last constant stands in its place.
    int masked;
} sdsc_step;

// A tensor in main memory: an argument of the program, or a part of the pool of
// intermediates.
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

// A step that is written, for the list of all.
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

// Returns the back end's name of an element type, or NULL.
const char *dv_sdsc_format(dv_dtype t);
// Writes a step as the next file.
dv_status dv_sdsc_write(sdsc *s, const sdsc_step *step, const sdsc_done *done);
// Writes the list of arguments, addresses and steps.
dv_status dv_sdsc_bundle(sdsc *s);
#endif
