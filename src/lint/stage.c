// Checks the attributes that TileLang's stage B writes next to, or without, the
// lists of tiles of the cores:
//
//   partition_mode  "global" or "local_shard", which has these in addition:
//                   shard_grid (rows and columns of shards) and
//                   local_shape_tiles (rows and columns of tiles of a shard)
//   runtime_args    names of kernel arguments, without values: those of both
//                   modes, and those that only kernels on shards have
//
// Later stages put other names before and between these (addresses, strides)
// and may leave out Kt, so that neither is a defect.
#include "lint/lint.h"
#include <inttypes.h>
#include <string.h>

static const struct {
    const char *name;
    const char *older; // the name in the first version of stage B
    int local;         // 1: only kernels on shards have it
} known[] = {
    {"start_id", "tt_start_tile", 0},
    {"count", "tt_tile_count", 0},
    {"Mt", "Mt", 0},
    {"Nt", "Nt", 0},
    {"Sm", "Sm", 1},
    {"Sn", "Sn", 1},
    {"Gy", "Gy", 1},
    {"Gx", "Gx", 1},
    {"sy", "tt_shard_coord_y", 1},
    {"sx", "tt_shard_coord_x", 1},
};

static int is_named(const lint *l, size_t k)
{
    for (int32_t i = 0; i < l->n_stage_names; i++)
        if (!strcmp(l->stage_names[i], known[k].name) ||
            !strcmp(l->stage_names[i], known[k].older))
            return 1;
    return 0;
}

static void check_names(lint *l)
{
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        int named = is_named(l, k);
        if (!named && l->local_shard >= known[k].local)
            lint_report(l, "arguments", "runtime_args has no %s",
                        known[k].name);
        if (named && known[k].local && !l->local_shard)
            lint_report(l, "arguments",
                        "runtime_args has %s, which only partition_mode "
                        "local_shard has",
                        known[k].name);
    }
    for (int32_t i = 0; i < l->n_stage_names; i++)
        for (int32_t k = 0; k < i; k++)
            if (!strcmp(l->stage_names[i], l->stage_names[k]))
                lint_report(l, "arguments", "runtime_args has %.40s twice",
                            l->stage_names[i]);
}

static void check_mode(lint *l)
{
    static const char *const fields[] = {"shard_grid", "local_shape_tiles"};
    if (l->mode && strcmp(l->mode, "global") && strcmp(l->mode, "local_shard"))
        lint_report(l, "format",
                    "partition_mode is '%.40s', not global or local_shard",
                    l->mode);
    for (int i = 0; i < 2 && l->mode; i++) {
        int has = l->shards[2 * i] >= 0;
        if (has != l->local_shard)
            lint_report(l, "format", "partition_mode is %.40s, %s is %s",
                        l->mode, fields[i], has ? "not of it" : "missing");
    }
}

// Checks the sizes in a file that does not list the tiles of each core: the
// shards must cover all tiles, and the grid must have a core for each shard.
static void check_sizes(lint *l)
{
    const int64_t *s = l->shards;
    if (!l->local_shard || s[0] < 0 || s[2] < 0)
        return;
    if (s[0] * s[2] != l->mt || s[1] * s[3] != l->nt)
        lint_report(
            l, l->mt > s[0] * s[2] || l->nt > s[1] * s[3] ? "lost" : "outside",
            "%" PRId64 "x%" PRId64 " shards of %" PRId64 "x%" PRId64
            " tiles, there are %" PRId64 "x%" PRId64 " tiles",
            s[0], s[1], s[2], s[3], l->mt, l->nt);
    if (l->cols >= 0 && (s[0] > l->rows || s[1] > l->cols))
        lint_report(l, "lost",
                    "%" PRId64 " rows and %" PRId64
                    " columns of shards, there are %" PRId64
                    " rows and %" PRId64 " columns of cores",
                    s[0], s[1], l->rows, l->cols);
}

void lint_check_stage(lint *l)
{
    if (l->stage == LINT_NO_STAGE)
        return;
    check_mode(l);
    if (l->has_stage_names)
        check_names(l);
    if (l->stage == LINT_ATTRIBUTES)
        check_sizes(l);
}
