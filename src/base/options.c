// Reads the options structs of the public API.
#include "base/options.h"
#include <string.h>

// If an options struct gives its size as more than this many bytes, the size
// was not initialised, and the struct must not be read.
enum { MAX_SIZE = 4096 };

dv_status dv_options_read(void *out, size_t size, const void *given,
                          const char *type, dv_diag *diag)
{
    size_t given_size;
    if (!given)
        return DV_OK;
    memcpy(&given_size, given, sizeof given_size);
    if (given_size < sizeof given_size || given_size > MAX_SIZE ||
        given_size % sizeof given_size)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the size of %s is %zu: it is initialised with the "
                       "INIT macro next to it",
                       type, given_size);
    for (size_t i = size; i < given_size; i++)
        if (((const char *)given)[i])
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "%s has %zu bytes, of which this library knows "
                           "%zu: it is older than the header that was used",
                           type, given_size, size);
    memcpy(out, given, given_size < size ? given_size : size);
    memcpy(out, &size, sizeof size);
    return DV_OK;
}

dv_status dv_options_enum(int value, int n, const char *field, dv_diag *diag)
{
    if (value >= 0 && value < n)
        return DV_OK;
    return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                   "option %s has no value %d: there are 0 to %d", field, value,
                   n - 1);
}

dv_status dv_options_list(const void *list, size_t n, const char *field,
                          dv_diag *diag)
{
    if (list || !n)
        return DV_OK;
    return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                   "option %s is NULL, but n_%s is %zu", field, field, n);
}
