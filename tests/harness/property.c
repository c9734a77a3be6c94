#include "harness/test.h"
#include "harness/property.h"

int case_holds(case_property *f, const char *text, uint64_t seed)
{
    dv_program *p = NULL;
    dv_diag *diag = dv_diag_create();
    case_no("%s", "");
    int ok =
        !dv_program_parse(&p, text, strlen(text), "random", NULL, 0, diag) ||
        case_no("it does not parse: %s", dv_diag_text(diag));
    ok = ok && f(p, seed);
    dv_program_destroy(p);
    dv_diag_destroy(diag);
    return ok;
}

void case_random(const char *name, case_property *f, gen_mode mode, int usual)
{
    uint64_t first = gen_seed();
    int failed = 0, n = gen_cases(usual);
    for (int i = 0; i < n && failed < 3; i++) {
        uint64_t seed = first + (uint64_t)i;
        char *text = gen_program(seed, mode);
        if (!case_holds(f, text, seed)) {
            gen_report(name, seed, mode, text, case_why());
            failed++;
        }
        free(text);
    }
    assert_int_equal(failed, 0);
}

void case_hard(const char *name, case_property *f, const char *const *texts,
               size_t n, uint64_t seeds)
{
    int failed = 0;
    for (size_t i = 0; i < n; i++)
        for (uint64_t seed = 1; seed <= seeds; seed++) {
            if (case_holds(f, texts[i], seed))
                continue;
            fprintf(stderr, "\n%s fails (%d): %s\n----\n%s----\n", name,
                    (int)seed, case_why(), texts[i]);
            failed++;
            break;
        }
    assert_int_equal(failed, 0);
}
