// Helpers of commands that run programs: memory checks, ranges of random
// inputs, one-line results and verdicts.
#define _POSIX_C_SOURCE 200809L // for sysconf
#include "base/hash.h"
#include "base/math.h"
#include "base/npy.h"
#include "base/plural.h"
#include "cli/load.h"
#include <errno.h>
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
    // Print NaN without a sign, because the sign has no meaning and differs
    // between machines.
    printf("]  sum %.9g  hash %016" PRIx64 "\n",
           isnan(s.sum) ? fabs(s.sum) : s.sum, s.hash);
    return s.n_nan;
}

dv_status cli_npy_header(const char *path, dv_npy_header *out, dv_diag *diag)
{
    static char head[DV_NPY_MAX_HEAD];
    dv_source src = {path, head, 0};
    FILE *f = fopen(path, "rb");
    if (!f)
        return dv_fail(diag, DV_E_FILE, (dv_loc){&src, DV_FILE}, "%s",
                       strerror(errno));
    src.len = fread(head, 1, sizeof head, f);
    fclose(f);
    return dv_npy_parse(head, src.len, out, &src, diag);
}

int cli_parse_verify(const cli_command *c, const char *text,
                     cli_verify_options *out)
{
    char *end;
    *out = (cli_verify_options){.budget_s = 5};
    if (!text || !*text)
        return -1;
    out->full = !strcmp(text, "full");
    if (out->full)
        return -1;
    out->budget_s = strtod(text, &end);
    return *end || !(out->budget_s > 0) || !isfinite(out->budget_s)
               ? cli_usage(c, "--verify takes full or seconds, not '%s'", text)
               : -1;
}

int cli_verify_is_full(const cli_verify_options *options,
                       const dv_program *source, const dv_plan *plan)
{
    return options->full ||
           dv_verify_seconds(source, plan) <= options->budget_s;
}

// Prints a note on standard error if comparing all elements will take long.
static void announce(const dv_program *source, const dv_plan *plan)
{
    enum { LONG_S = 30 };
    double seconds = dv_verify_seconds(source, plan);
    if (seconds > LONG_S)
        fprintf(stderr,
                "verifying evaluates the program one point at a time, which "
                "takes about %.0f s; --set makes it smaller\n",
                seconds);
}

dv_status cli_verify(dv_verdict *out, const cli_verify_options *options,
                     int64_t seed, const dv_program *source,
                     const dv_plan *plan, void *const *before,
                     void *const *after, void *const *kept, dv_arena *arena,
                     dv_diag *diag)
{
    cli_progress progress;
    dv_sample_options samples = {options->budget_s, kept, (uint64_t)seed,
                                 cli_progress_step, &progress};
    dv_status st;
    if (cli_verify_is_full(options, source, plan)) {
        announce(source, plan);
        cli_progress_begin(&progress, "verifying");
        st = dv_verify(out, source, plan, before, after, cli_progress_step,
                       &progress, diag);
    } else {
        cli_progress_begin(&progress, "verifying samples");
        st = dv_verify_samples(out, source, plan, before, after, &samples,
                               arena, diag);
    }
    cli_progress_end(&progress);
    return st;
}

// Prints how much of a run was verified by samples, and what was not verified.
static void put_samples(const dv_verdict *v)
{
    enum { MOST_NAMES = 8 };
    printf("; sampled %" PRId64 " of %" PRId64 " tile%s with %" PRId64
           " element%s from their operands, and %" PRId64
           " element%s of outputs from the inputs",
           v->n_sampled_tiles, v->n_tiles, DV_PLURAL(v->n_tiles, "", "s"),
           v->n_from_operands, DV_PLURAL(v->n_from_operands, "", "s"),
           v->n_from_inputs, DV_PLURAL(v->n_from_inputs, "", "s"));
    for (int32_t i = 0; i < v->n_missed && i < MOST_NAMES; i++) {
        const dv_missed *m = &v->missed[i];
        printf("%s", i ? ", " : "; not sampled: ");
        if (m->n_tiles)
            printf("%" PRId64 " tile%s of %s (%s)", m->n_tiles,
                   DV_PLURAL(m->n_tiles, "", "s"), m->tensor, m->why);
        else
            printf("%s from the inputs (%s)", m->tensor, m->why);
    }
    if (v->n_missed > MOST_NAMES)
        printf(" and %d more", (int)v->n_missed - MOST_NAMES);
}

void cli_verdict_text(const dv_verdict *v)
{
    // The error bound is also printed if it is loose, which is more than 1 /
    // LOOSE of the magnitude of the values.
    enum { LOOSE = 100 };
    printf("verify: %s", !v->ok ? "FAILED" : !v->decided ? "undecided" : "ok");
    if (v->tensor)
        printf(", %s is %.3g off the oracle, %.3g allowed", v->tensor,
               v->residual, v->threshold);
    if (v->n_unknown)
        printf(", %" PRId64 " element%s undecided: rounding errors alone may "
               "be larger than an eighth of the largest value",
               v->n_unknown, DV_PLURAL(v->n_unknown, "", "s"));
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
    if (v->sampled)
        put_samples(v);
    printf("\n");
}

void cli_verdict_json(dv_json *w, const dv_verdict *v)
{
    dv_json_open_flat(w, "verify", '{');
    DV_JSON_FIELDS(
        w, DV_F_BOOL("ok", v->ok && v->decided),
        DV_F("max_residual", v->residual), DV_F("threshold", v->threshold),
        DV_F("unknown", v->n_unknown), DV_F("most_off", v->off),
        DV_F("values_reach", v->size),
        DV_F("reference", v->own_ops_only ? "own ops" : "program as written"),
        DV_F("intermediates_rounded_to", v->rounded_to));
    if (v->sampled) {
        dv_json_open_flat(w, "samples", '{');
        DV_JSON_FIELDS(w, DV_F("tiles", v->n_tiles),
                       DV_F("tiles_sampled", v->n_sampled_tiles),
                       DV_F("elements_from_operands", v->n_from_operands),
                       DV_F("elements_from_inputs", v->n_from_inputs));
        dv_json_open_flat(w, "missed", '[');
        for (int32_t i = 0; i < v->n_missed; i++)
            DV_JSON_OBJECT(w, NULL, DV_F("tensor", v->missed[i].tensor),
                           DV_F("tiles", v->missed[i].n_tiles),
                           DV_F("why", v->missed[i].why));
        dv_json_close(w);
        dv_json_close(w);
    } else {
        dv_json_null(w, "samples");
    }
    dv_json_close(w);
}

dv_status cli_not_verified(const dv_verdict *v, const dv_program *p,
                           dv_diag *diag)
{
    dv_text at = {0}, of = {0};
    if (v->ok && v->unreached)
        return dv_fail(diag, DV_E_VERIFY, DV_NOWHERE,
                       "undecided: no element of %s could be recomputed; try "
                       "--verify=full",
                       v->unreached);
    if (v->ok)
        return dv_fail(diag, DV_E_VERIFY, DV_NOWHERE,
                       "undecided: for more than half of an output, rounding "
                       "errors alone may be larger than an eighth of its "
                       "largest value; try a smaller --random");
    dv_element_print(&at, &p->tensors[dv_program_find(p, v->tensor)],
                     v->element);
    if (v->sampled)
        dv_put(&of, "; it is %.9g, the oracle has %.9g from the ", v->got,
               v->want);
    if (v->sampled && v->op)
        dv_put(&of, "operands of op %s, tile %" PRId64, v->op, v->tile);
    else if (v->sampled)
        dv_put(&of, "inputs");
    dv_status st =
        dv_fail(diag, DV_E_VERIFY, DV_NOWHERE,
                "%s differs from the oracle by %.3g, %.3g is allowed%s",
                at.at ? at.at : v->tensor, v->residual, v->threshold,
                of.at ? of.at : "");
    dv_text_free(&at);
    dv_text_free(&of);
    return st;
}
