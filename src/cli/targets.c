// divvy targets: lists the built-in targets, prints one, or explains the
// properties that describe a target. With --measure it measures the rates of
// this machine, for a description that plans can be made with.
#include "base/math.h"
#include "cli/cli.h"
#include "exec/exec.h"
#include "target/target.h"
#include <math.h>

static char *listing(int json)
{
    dv_text out = {0};
    dv_json j = {.out = &out};
    if (json) {
        dv_json_open(&j, NULL, '{');
        dv_json_open(&j, "targets", '[');
    }
    for (int i = 0; dv_target_builtin(i); i++) {
        if (!json) {
            dv_put(&out, "%-10s %s\n", dv_target_builtin(i),
                   dv_target_summary(i));
            continue;
        }
        DV_JSON_OBJECT(&j, NULL, DV_F("name", dv_target_builtin(i)),
                       DV_F("about", dv_target_summary(i)));
    }
    if (json) {
        dv_json_close(&j);
        dv_json_close(&j);
    }
    return dv_text_take(&out);
}

static char *as_json(const dv_target *t)
{
    dv_text out = {0};
    dv_json j = {.out = &out};
    dv_target_json(&j, NULL, t);
    return dv_text_take(&out);
}

// Rounds a measured rate to three digits, since the next ones differ from run
// to run.
static double rounded(double rate)
{
    double unit = rate > 0 ? pow(10, floor(log10(rate)) - 2) : 1;
    return round(rate / unit) * unit;
}

// Measures the rates of this machine, using all cores of its description at
// once. An elementwise operation is taken to cost as much as a multiply-add,
// which is also one vector instruction. Rates that cannot be measured keep
// their values.
static void measure(dv_target *t)
{
    enum { LEAST_BYTES = 1 << 26, MOST_BYTES = 1 << 28 };
    int64_t cache = dv_min_i64(t->l3_bytes, MOST_BYTES) * t->cores;
    int64_t bytes = dv_max_i64(LEAST_BYTES, dv_min_i64(4 * cache, MOST_BYTES));
    double flops = 1e9 * dv_rate_peak(DV_F32, (int32_t)t->cores);
    double copied = 1e9 * dv_rate_copy(bytes, (int32_t)t->cores);
    if (flops > 0)
        t->mac_rate_per_s = t->vector_rate_per_s =
            rounded(flops / 2 / (double)t->cores);
    if (copied > 0)
        t->memory_bandwidth_bytes_per_s = rounded(copied);
}

// Prints a target; with `measured`, its rates are those measured on this
// machine.
static int put_target(const char *name, int measured, int json, const char *out,
                      dv_diag *diag)
{
    dv_target *t = NULL;
    dv_status st = dv_target_load(&t, name, diag);
    if (st == DV_OK && measured && !dv_target_runs_here(t))
        st = dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                     "--measure measures this machine, %s is another one: "
                     "measure host",
                     t->name);
    if (st == DV_OK && measured)
        measure(t);
    int code = st != DV_OK
                   ? cli_fail(diag)
                   : cli_put(json ? as_json(t) : dv_target_text(t), out, diag);
    dv_target_destroy(t);
    return code;
}

int cli_targets(const cli_command *c, int argc, char **argv)
{
    const char *names[1];
    const char *path = NULL;
    int n_names, json = 0, properties = 0, measured = 0;
    const cli_option options[] = {
        {"properties", 0, NULL, "what a description may say, and means",
         CLI_FLAG, &properties},
        {"measure", 0, NULL, "of this machine: measure its rates", CLI_FLAG,
         &measured},
        {"out", 'o', "FILE", "write the description there", CLI_TEXT, &path},
        {"json", 0, NULL, "the list for programs", CLI_FLAG, &json},
        {0}};
    int code = cli_parse(c, options, argc, argv, names, &n_names, 1);
    if (code >= 0)
        return code;
    if ((measured || path) && (properties || n_names == 0))
        return cli_usage(c, "--%s needs the name of a target, such as host",
                         measured ? "measure" : "out");
    dv_diag *diag = dv_diag_create();
    if (properties) {
        dv_text out = {0};
        dv_target_print_properties(&out);
        code = cli_put(dv_text_take(&out), NULL, diag);
    } else if (n_names == 0) {
        code = cli_put(listing(json), NULL, diag);
    } else {
        code = put_target(names[0], measured, json, path, diag);
    }
    dv_diag_destroy(diag);
    return code;
}
