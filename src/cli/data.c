// Helpers of commands that run programs: memory checks, ranges of random
// inputs, one-line results and verdicts.
#define _POSIX_C_SOURCE 200809L // for sysconf
#include "base/hash.h"
#include "base/math.h"
#include "cli/load.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

dv_status cli_check_bytes(int64_t need, dv_diag *diag)
{
    int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE), have;
    if (pages <= 0 || page <= 0 || !dv_mul_i64(&have, pages, page) ||
        need <= have)
        return DV_OK;
    dv_text a = {0}, b = {0};
    dv_put_byte_size(&a, need);
    dv_put_byte_size(&b, have);
    dv_status st = dv_fail(diag, DV_E_NOMEM, DV_NOWHERE,
                           "the tensors need %s, this machine has %s",
                           a.at ? a.at : "", b.at ? b.at : "");
    dv_text_free(&a);
    dv_text_free(&b);
    return st;
}

dv_status cli_check_memory(const dv_program *p, int verify, dv_diag *diag)
{
    int64_t need = 0, n;
    for (int i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        int copies = t->is_input && t->is_output ? 2 : 1;
        if (!dv_mul_i64(&n, dv_tensor_bytes(t), copies) ||
            !dv_add_i64(&need, need, n))
            need = INT64_MAX;
        // The oracle (the reference evaluation that --verify compares with)
        // stores values and error bounds as doubles, both for the plan's ops
        // and for the source program.
        if (verify &&
            (!dv_mul_i64(&n, t->n_elems, 32) || !dv_add_i64(&need, need, n)))
            need = INT64_MAX;
        if (need == INT64_MAX)
            break;
    }
    return cli_check_bytes(need, diag);
}

int cli_range(const cli_command *c, const char *text, double *low_out,
              double *high_out)
{
    const char *dots = strstr(text, "..");
    char low[64], *end;
    if (!dots || (size_t)(dots - text) >= sizeof low)
        return cli_usage(c, "--random takes LOW..HIGH, not '%s'", text);
    memcpy(low, text, (size_t)(dots - text));
    low[dots - text] = 0;
    *low_out = strtod(low, &end);
    if (end == low || *end)
        return cli_usage(c, "--random: '%s' is no number", low);
    *high_out = strtod(dots + 2, &end);
    if (end == dots + 2 || *end)
        return cli_usage(c, "--random: '%s' is no number", dots + 2);
    if (!isfinite(*high_out - *low_out))
        return cli_usage(c, "--random takes finite numbers, not '%s'", text);
    if (*low_out >= *high_out)
        return cli_usage(c, "--random: %g is not below %g", *low_out,
                         *high_out);
    return -1;
}

typedef struct summary {
    double sum;
    int64_t n_nan;
    uint64_t hash; // FNV-1a hash of the data
} summary;

static summary summarize(const dv_tensor *t, const void *data)
{
    summary s = {
        .hash = dv_hash(DV_HASH, data, (size_t)dv_tensor_bytes(t)),
    };
    for (int64_t i = 0; i < t->n_elems; i++) {
        double v = dv_load(t->dtype, data, i);
        s.sum += v;
        s.n_nan += isnan(v);
    }
    return s;
}

void cli_result_json(dv_json *w, const dv_tensor *t, const void *data)
{
    summary s = summarize(t, data);
    char hash[20];
    snprintf(hash, sizeof hash, "%016" PRIx64, s.hash);
    DV_JSON_OBJECT(w, NULL, DV_F("name", t->name),
                   dv_field_ints("shape", t->shape, t->n_dims),
                   DV_F("dtype", dv_dtype_get(t->dtype)->name),
                   DV_F("sum", s.sum), DV_F("hash", hash));
}

int64_t cli_result_text(const dv_tensor *t, const void *data)
{
    summary s = summarize(t, data);
    printf("  %s: %s[", t->name, dv_dtype_get(t->dtype)->name);
    for (int d = 0; d < t->n_dims; d++)
        printf("%s%" PRId64, d ? ", " : "", t->shape[d]);
    // Print no sign for NaN, because it has no meaning and differs between
    // machines.
    printf("]  sum %.9g  hash %016" PRIx64 "\n",
           isnan(s.sum) ? fabs(s.sum) : s.sum, s.hash);
    return s.n_nan;
}

void cli_announce_verify(const dv_program *source, const dv_plan *plan)
{
    enum { PER_SECOND = 20000000, LONG_S = 30 };
    double seconds = dv_verify_points(source, plan) / PER_SECOND;
    if (seconds > LONG_S)
        fprintf(stderr,
                "verifying evaluates the program one point at a time, which "
                "takes about %.0f s; --set makes it smaller\n",
                seconds);
}

void cli_verdict_text(const dv_verdict *v)
{
    // The error bound is also printed if it is loose: more than 1 / LOOSE of
    // the magnitude of the values.
    enum { LOOSE = 100 };
    printf("verify: %s", !v->ok ? "FAILED" : !v->decided ? "undecided" : "ok");
    if (v->tensor)
        printf(", %s is %.3g off the oracle, %.3g allowed", v->tensor,
               v->residual, v->threshold);
    if (v->n_unknown)
        printf(", %" PRId64 " element%s undecided: rounding errors alone may "
               "be larger than an eighth of the largest value",
               v->n_unknown, v->n_unknown == 1 ? "" : "s");
    if (v->of &&
        (v->n_unknown || (v->residual > 0 && v->threshold * LOOSE > v->size)))
        printf("; %s is at most %.3g off, its values reach %.3g", v->of, v->off,
               v->size);
    if (v->rounded_to)
        printf("; the target stores intermediate results, each may be rounded "
               "to %s",
               v->rounded_to);
    if (v->own_ops_only)
        printf("; verified against its own ops only, the plan has no section "
               "source");
    printf("\n");
}

void cli_verdict_json(dv_json *w, const dv_verdict *v)
{
    DV_JSON_OBJECT(
        w, "verify", DV_F_BOOL("ok", v->ok && v->decided),
        DV_F("max_residual", v->residual), DV_F("threshold", v->threshold),
        DV_F("unknown", v->n_unknown), DV_F("most_off", v->off),
        DV_F("values_reach", v->size),
        DV_F("reference", v->own_ops_only ? "own ops" : "program as written"),
        DV_F("intermediates_rounded_to", v->rounded_to));
}

dv_status cli_not_verified(const dv_verdict *v, const dv_tensor *t,
                           dv_diag *diag)
{
    dv_text at = {0};
    if (v->ok)
        return dv_fail(diag, DV_E_VERIFY, DV_NOWHERE,
                       "undecided: for more than half of an output, rounding "
                       "errors alone may be larger than an eighth of its "
                       "largest value; try a smaller --random");
    dv_element_print(&at, t, v->element);
    dv_status st = dv_fail(diag, DV_E_VERIFY, DV_NOWHERE,
                           "%s differs from the oracle by %.3g, %.3g is "
                           "allowed",
                           at.at ? at.at : t->name, v->residual, v->threshold);
    dv_text_free(&at);
    return st;
}
