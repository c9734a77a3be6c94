// Reads targets in tests.
#ifndef DV_TARGET_CASE_H
#define DV_TARGET_CASE_H
#include "harness/test.h"
#include "base/diag.h"
#include "target/target.h"

static dv_target *read_ok(const char *text)
{
    dv_diag *diag = dv_diag_create();
    dv_target *t = NULL;
    if (dv_target_parse(&t, text, strlen(text), "t", diag))
        fail_msg("%s", dv_diag_text(diag));
    dv_diag_destroy(diag);
    return t;
}

// Reads a target with one property.
static dv_target *read_one(const char *property)
{
    char text[256];
    snprintf(text, sizeof text, "target t { %s }", property);
    return read_ok(text);
}

// Reading the text fails with this status at this line and column, with a
// message that contains these words.
static void fails_at(const char *text, dv_status status, int line, int col,
                     const char *words)
{
    dv_diag *diag = dv_diag_create();
    dv_target *t = NULL;
    assert_int_equal(dv_target_parse(&t, text, strlen(text), "t", diag),
                     status);
    assert_null(t);
    const char *said = dv_diag_text(diag);
    if (!strstr(said, words) || dv_diag_line(diag) != line ||
        dv_diag_column(diag) != col)
        fail_msg("not at %d:%d or not '%s': %s", line, col, words, said);
    dv_diag_destroy(diag);
}

// The same for one property, which stands in line 2 behind two blanks.
static void property_fails(const char *property, int col, const char *words)
{
    char text[512];
    snprintf(text, sizeof text, "target t {\n  %s\n}\n", property);
    fails_at(text, DV_E_TARGET, 2, col, words);
}
#endif
