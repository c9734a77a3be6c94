// Checks the mode of a partition against the records of buffers that TileLang's
// stage A and divvy's tables have:
//
//   "buffer.A": {"memory": "L1", "layout": "sharded",
//                "nd_shard": {"projected_grid": [2, 4], …}}
//
// A buffer in shards in the memories of cores makes the mode local_shard, with
// one part of the result for each shard; without such a buffer the mode is
// global.
#include "base/jsonread.h"
#include "base/math.h"
#include "lint/lint.h"
#include <inttypes.h>
#include <string.h>

// If a field of the file is the record of a buffer, e.g. "buffer.A", returns
// the name of the buffer, otherwise NULL.
static const char *buffer_name(const dv_jval *field)
{
    static const char *const before[] = {"tt.buffer.", "tt_buffer.",
                                         "tt_buffer_", "buffer."};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (field->kind == DV_JOBJECT && field->key &&
            !strncmp(field->key, before[i], strlen(before[i])))
            return field->key + strlen(before[i]);
    return NULL;
}

static int says(const dv_jval *record, const char *key, const char *a,
                const char *b)
{
    const dv_jval *v = dv_jget(record, key);
    return v && v->kind == DV_JSTRING && (!strcmp(v->s, a) || !strcmp(v->s, b));
}

// Returns the number of shards that the record of a buffer states, or -1 if it
// states none.
static int64_t count_shards(const dv_jval *record)
{
    const dv_jval *g = dv_jget(dv_jget(record, "nd_shard"), "projected_grid");
    int64_t n;
    if (!g || g->kind != DV_JARRAY || g->n != 2 ||
        g->items[0].kind != DV_JINT || g->items[1].kind != DV_JINT ||
        !dv_mul_i64(&n, g->items[0].i, g->items[1].i))
        return -1;
    return n;
}

void lint_check_buffers(lint *l, const struct dv_jval *v)
{
    const char *on_cores = NULL;
    int records = 0;
    int64_t shards = -1;
    for (int32_t i = 0; v->kind == DV_JOBJECT && i < v->n; i++) {
        const dv_jval *record = &v->items[i];
        const char *name = buffer_name(record);
        records += name != NULL;
        if (!name || on_cores || !says(record, "memory", "L1", "l1") ||
            !says(record, "layout", "sharded", "sharded"))
            continue;
        on_cores = name;
        shards = count_shards(record);
    }
    if (!l->mode || !records)
        return;
    if (on_cores && !l->local_shard)
        lint_report(l, "mode",
                    "partition_mode is %.40s; %.40s lies in shards in L1, "
                    "which makes it local_shard",
                    l->mode, on_cores);
    if (!on_cores && l->local_shard)
        lint_report(l, "mode",
                    "partition_mode is local_shard; no buffer lies in shards "
                    "in L1, which makes it global");
    if (on_cores && l->local_shard && shards >= 0 && l->shards[0] >= 0 &&
        l->shards[0] * l->shards[1] != shards)
        lint_report(l, "mode",
                    "shard_grid is %" PRId64 "x%" PRId64 "; %.40s has %" PRId64
                    " shards",
                    l->shards[0], l->shards[1], on_cores, shards);
}
