// Reads any bytes as an ONNX model: either it is refused with a message, or the
// program prints and parses again.
#include "fuzz.h"
#include "onnx/onnx.h"
#include <stdlib.h>
#include <string.h>

static void must(int holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dv_param params[] = {{"N", "2"}};
    dv_onnx_options options = DV_ONNX_OPTIONS_INIT;
    dv_onnx *m = NULL;
    dv_diag *diag = dv_diag_create();
    options.params = params;
    dv_status st = dv_onnx_parse(&m, data, size, "fuzz.onnx", NULL, diag);
    if (st == DV_E_USAGE) { // a dim is open
        options.n_params = 1;
        dv_diag_clear(diag);
        st = dv_onnx_parse(&m, data, size, "fuzz.onnx", &options, diag);
    }
    must((st == DV_OK) == (m != NULL));
    must((st != DV_OK) == (strstr(dv_diag_text(diag), "error[") != NULL));
    if (m) {
        dv_program *again = NULL;
        char *text = dv_program_text(dv_onnx_program(m));
        must(!text || dv_program_parse(&again, text, strlen(text), "again",
                                       NULL, 0, diag) == DV_OK);
        dv_program_destroy(again);
        dv_free(text);
    }
    dv_onnx_destroy(m);
    dv_diag_destroy(diag);
    return 0;
}
