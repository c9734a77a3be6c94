// Constants: the files that hold their elements, and what is packed of them
// before the first run. Execs of this process share both: one mapping of a
// file, and one packed copy for kernels that read the same elements in the same
// layout. What no exec uses any more is released.
#ifndef DV_EXEC_CONSTANTS_H
#define DV_EXEC_CONSTANTS_H
#include "ir/program.h"

typedef struct dv_constant dv_constant;

// Opens the file of a constant of the program (dv_constant_path). Its elements
// must have the type and the shape of the tensor.
dv_status dv_constant_open(dv_constant **out, const dv_program *p,
                           int32_t tensor, dv_diag *diag);
// Returns the elements, row-major, which are never written.
const void *dv_constant_data(const dv_constant *c);
void dv_constant_close(dv_constant *c); // NULL: does nothing

typedef struct dv_packed dv_packed; // packed elements of a constant
// Callback that writes the packed form of a constant to `to`.
typedef dv_status (*dv_packer)(const void *user, void *to, dv_diag *diag);
// Returns the packed elements that another exec has already, if their key is
// the same, or allocates them and has them packed. The key begins with the
// address of the elements, which must not change while they are packed, and
// says all that the layout depends on.
dv_status dv_packed_get(dv_packed **out, const dv_text *key, int64_t bytes,
                        dv_packer pack, const void *user, dv_diag *diag);
const void *dv_packed_data(const dv_packed *p);
void dv_packed_release(dv_packed *p); // NULL: does nothing
#endif
