// The table of passes over nests, and the lists of passes that run one after
// the other.
#include "nest/best.h"
#include "base/options.h"
#include <string.h>

static const dv_nest_pass passes[] = {
#define NEST_PASS(name, run, tiled, about) {#name, tiled, run},
#include "nest/pass.def"
#undef NEST_PASS
};
enum { N_PASSES = sizeof passes / sizeof *passes };

const dv_nest_pass *dv_nest_pass_get(int i)
{
    return i >= 0 && i < N_PASSES ? &passes[i] : NULL;
}

int dv_nest_pass_find(const char *name, size_t len)
{
    for (int i = 0; i < N_PASSES; i++)
        if (strlen(passes[i].name) == len && !memcmp(passes[i].name, name, len))
            return i;
    return -1;
}

const char *dv_nest_list(const char *name)
{
    static const char *const lists[][2] = {
        {"best", "join,kernel,tile,order,pack"},
        {"seed", "reorder,split,fuse,primitives,locality,shared"},
        {"seed+brgemm", "reorder,split,fuse,brgemm,primitives,locality,shared"},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!strcmp(name, lists[i][0]))
            return lists[i][1];
    return NULL;
}

// Sets `laid` if a pass made a schedule that the rules of mini_jit (a teaching
// compiler whose nests divvy reads) do not allow. The text of the nest then
// says so, and dv_nest_verify applies other rules.
static void mark(dv_nest *n, const char *pass)
{
    n->laid = 0;
    n->laid = dv_nest_is_scheduled(n) && strstr(dv_nest_list("best"), pass) &&
              !dv_nest_is_tiled(n) && dv_nest_verify(n, NULL) != DV_OK;
}

// Runs one pass and checks the nest afterwards.
static dv_status run_pass(dv_nest *n, const dv_nest_pass *p,
                          const dv_nest_options *options, dv_diag *diag)
{
    dv_diag_pass(diag, p->name);
    if (!p->tiled && dv_nest_is_tiled(n))
        return dv_fail(diag, DV_E_NEST, (dv_loc){n->src, n->off},
                       "nest %s is tiled or packed: %s comes before that",
                       n->name, p->name);
    DV_TRY(p->run(n, options, diag));
    DV_TRY(dv_nest_check(n, diag));
    mark(n, p->name);
    dv_diag_pass(diag, NULL);
    if (options->after)
        options->after(options->user, p->name, n);
    return DV_OK;
}

// Returns the length of the prefix of `list` (passes separated by commas) that
// dv_nest_schedule runs faster as one search, or 0 if the list begins with
// other passes or the caller wants to see the nest after each pass.
static size_t together(const char *list, const dv_nest *n,
                       const dv_nest_options *options)
{
    static const char four[] = "kernel,tile,order,pack";
    size_t len = sizeof four - 1;
    if (options->after || dv_nest_is_tiled(n) || strncmp(list, four, len) ||
        (list[len] && list[len] != ','))
        return 0;
    return len;
}

// Checks the options, in which 0 stands for a default. A vector must hold at
// least one f64.
static dv_status check_options(const dv_nest_options *o, dv_diag *diag)
{
    if (o->threads < 0)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "%lld threads",
                       (long long)o->threads);
    if (o->l1_bytes < 0 || o->l2_bytes < 0 || o->l3_bytes < 0)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "caches of %lld, %lld and %lld bytes",
                       (long long)o->l1_bytes, (long long)o->l2_bytes,
                       (long long)o->l3_bytes);
    if ((o->vector_bytes && o->vector_bytes < 8) || o->vector_bytes > 256 ||
        o->tile_rows < 0 || o->tile_rows > 256 || o->tile_vectors < 0 ||
        o->tile_vectors > 256)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "tiles of %d rows and %d vectors of %d bytes",
                       o->tile_rows, o->tile_vectors, o->vector_bytes);
    return DV_OK;
}

dv_status dv_nest_optimise(dv_nest *n, const char *list,
                           const dv_nest_options *options, dv_diag *diag)
{
    dv_nest_options o = DV_NEST_OPTIONS_INIT;
    DV_TRY(dv_options_read(&o, sizeof o, options, "dv_nest_options", diag));
    if (!list || dv_nest_list(list))
        list = dv_nest_list(list ? list : "best");
    DV_TRY(check_options(&o, diag));
    o.threads = o.threads ? o.threads : 1;
    DV_TRY(dv_nest_check(n, diag));
    while (*list) {
        size_t len = together(list, n, &o);
        if (len) {
            dv_nest_schedule(n, &o);
            DV_TRY(dv_nest_check(n, diag));
            list += len + (list[len] == ',');
            continue;
        }
        len = strcspn(list, ",");
        int i = dv_nest_pass_find(list, len);
        if (i < 0)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "there is no pass '%.*s' over nests", (int)len,
                           list);
        DV_TRY(run_pass(n, &passes[i], &o, diag));
        list += len + (list[len] == ',');
    }
    return DV_OK;
}
