// ONNX models as programs. A model becomes a program whose inputs are those of
// the model and its weights; the model has the weights' data.
//
//   dv_onnx *model;
//   if (dv_onnx_load(&model, "resnet50.onnx", NULL, diag))
//       return fail(diag);
//   … dv_plan_create(&plan, dv_onnx_program(model), target, NULL, diag) …
//   … dv_exec_create(&exec, plan, diag) …
//   dv_onnx_bind(model, exec, diag);       // the weights
//   dv_exec_bind(exec, "x", x, sizeof x, diag);
//
// What cannot be imported is refused with the node, its operator and the
// reason. docs/onnx.md lists the operators.
#ifndef DIVVY_ONNX_H
#define DIVVY_ONNX_H
#include "divvy/divvy.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dv_onnx dv_onnx; // a model

typedef struct dv_onnx_options {
    size_t size;
    // Values of symbolic dims ("batch" = "1"), and contents of inputs that must
    // be known at import, such as shapes ("shape" = "2,3,4").
    const dv_param *params;
    size_t n_params;
    // Supplies an input that must be known at import and that `params` does not
    // give: fills `data`, which has `size_bytes` bytes, and returns 1; returns
    // 0 if it cannot. NULL: never called.
    int (*contents)(void *user, const char *input, void *data,
                    size_t size_bytes);
    void *user;
} dv_onnx_options;
#define DV_ONNX_OPTIONS_INIT                                                   \
    {                                                                          \
        sizeof(dv_onnx_options), NULL, 0, NULL, NULL                           \
    }

// Imports a model. External data must be in the folder of the model or below;
// it is mapped into memory. options may be NULL.
DV_API dv_status dv_onnx_load(dv_onnx **out, const char *path,
                              const dv_onnx_options *options, dv_diag *diag);
// Imports a model from memory, which must live as long as the result. `name` is
// its path in messages and for external data.
DV_API dv_status dv_onnx_parse(dv_onnx **out, const void *bytes, size_t len,
                               const char *name, const dv_onnx_options *options,
                               dv_diag *diag);
DV_API void dv_onnx_destroy(dv_onnx *m);
// Returns the program of an imported model, which lives as long as the model.
DV_API const dv_program *dv_onnx_program(const dv_onnx *m);

// A tensor of the program and the name that it has in the model. `data` is NULL
// for inputs; for weights it lives as long as the model.
typedef struct dv_onnx_binding {
    const char *tensor, *model_name;
    const void *data;
    size_t size_bytes;
} dv_onnx_binding;
// Describe weight, input or output number i of a model; return 0 past the last.
DV_API int dv_onnx_weight(const dv_onnx *m, int i, dv_onnx_binding *out);
DV_API int dv_onnx_input(const dv_onnx *m, int i, dv_onnx_binding *out);
DV_API int dv_onnx_output(const dv_onnx *m, int i, dv_onnx_binding *out);
// Binds all weights of a model to an exec of its program.
DV_API dv_status dv_onnx_bind(const dv_onnx *m, dv_exec *exec, dv_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
