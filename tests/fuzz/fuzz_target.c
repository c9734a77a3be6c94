// Fuzzing the target reader: what it accepts must print to a text that reads
// back as the same target and prints the same.
#include "fuzz.h"
#include "target/target.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dv_diag *diag = dv_diag_create();
    dv_target *first = NULL, *second = NULL;
    if (dv_target_parse(&first, (const char *)data, size, "fuzz", diag)) {
        if (!dv_diag_text(diag)[0])
            abort(); // A failure must say something.
    } else {
        char *text = dv_target_text(first);
        if (!text ||
            dv_target_parse(&second, text, strlen(text), "printed", diag) ||
            !dv_target_equal(first, second))
            abort();
        int64_t usable = dv_target_usable_bytes(first);
        if (usable < 0 || usable > first->scratch_bytes ||
            usable % first->scratch_align_bytes)
            abort();
        char *again = dv_target_text(second);
        if (!again || strcmp(text, again) != 0)
            abort();
        dv_release(text);
        dv_release(again);
    }
    dv_target_destroy(first);
    dv_target_destroy(second);
    dv_diag_destroy(diag);
    return 0;
}
