// Constants: the files that hold their elements, and what is packed and
// computed of them before the first run. Execs of this process share all of it:
// one mapping of a file, one packed copy for kernels that read the same
// elements in the same layout, one copy of results that the same ops compute
// from the same elements. What no exec uses any more is released.
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
// Memory that is not packed in one call, such as results that threads compute:
// dv_packed_find returns the memory that another exec shares under a key, or
// NULL; dv_packed_create allocates memory (NULL: out of memory), which the
// caller fills; dv_packed_share then shares it under its key. If another exec
// was faster, it releases *p and sets it to the memory of that exec.
dv_packed *dv_packed_find(const dv_text *key);
dv_packed *dv_packed_create(int64_t bytes);
dv_status dv_packed_share(dv_packed **p, const dv_text *key, dv_diag *diag);
// Returns the memory, 64-byte aligned. Once shared, it is never written.
void *dv_packed_data(const dv_packed *p);
void dv_packed_release(dv_packed *p); // NULL: does nothing
#endif
