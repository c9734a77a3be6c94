// divvy grid: assigns tiles to the cores of a target, without a program.
#include "cli/load.h"
#include "divvy/grid.h"
#include "target/target.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIMS = 8 };

typedef struct args {
    const char *tiles, *shape, *tile, *target, *cores, *order, *policy,
        *devices, *dtype, *out;
    cli_list shards, shard_tiles, allow, holes;
    int64_t k;
    int json, split;
} args;

typedef struct numbers {
    int64_t at[MAX_DIMS];
    int n;
} numbers;

// Parses "2x8x8" into numbers. Returns 0 on other text or too many numbers.
static int read_dims(const char *text, numbers *out)
{
    out->n = 0;
    for (;;) {
        size_t digits = strspn(text, "0123456789");
        if (!digits || digits > 15 || out->n == MAX_DIMS)
            return 0;
        out->at[out->n++] = strtoll(text, NULL, 10);
        text += digits;
        if (!*text)
            return 1;
        if (*text++ != 'x')
            return 0;
    }
}

static int read_rects(const cli_command *c, const char *option,
                      const cli_list *list, dv_core_rect *out)
{
    for (int i = 0; i < list->n; i++)
        if (!cli_rect(list->at[i], &out[i]))
            return cli_usage(c, "--%s takes X,Y or X0,Y0-X1,Y1, not '%s'",
                             option, list->at[i]);
    return -1;
}

// Storage for the arrays that the dv_grid_task of the call points to.
typedef struct job {
    numbers shape;
    dv_core_rect allow[CLI_MAX_LIST], holes[CLI_MAX_LIST];
    dv_shard_spec shards[CLI_MAX_LIST];
    dv_target *target;
    char *order; // the text of --order @FILE
} job;

// Reads the shape. With --tiles the last two numbers count tiles, the others
// are batch dimensions.
static int read_shape(const cli_command *c, const args *a, job *j,
                      dv_grid_task *t)
{
    numbers tile = {{0}, 0};
    if (!a->tiles == !a->shape)
        return cli_usage(c, "either --tiles or --shape says how large it is");
    if (!read_dims(a->tiles ? a->tiles : a->shape, &j->shape) ||
        (a->tiles && j->shape.n < 2))
        return cli_usage(c, "a size is like 5x13 or 2x8x8, not '%s'",
                         a->tiles ? a->tiles : a->shape);
    if (a->tile && (!read_dims(a->tile, &tile) || tile.n != 2 || !tile.at[0] ||
                    !tile.at[1]))
        return cli_usage(c, "--tile takes ROWSxCOLUMNS, not '%s'", a->tile);
    t->tile_rows = tile.at[0];
    t->tile_cols = tile.at[1];
    if (!tile.n) {
        int own = j->target && j->target->tile_rows;
        t->tile_rows = own ? j->target->tile_rows : 32;
        t->tile_cols = own ? j->target->tile_cols : 32;
    }
    if (a->k == 0)
        return cli_usage(c, "--k takes 1 or more, not 0");
    t->depth = a->k < 0 ? 0 : a->k; // a depth of 0 means that none is given
    if (a->tiles) {
        j->shape.at[j->shape.n - 2] *= t->tile_rows;
        j->shape.at[j->shape.n - 1] *= t->tile_cols;
        if (a->k > 1000000000000)
            return cli_usage(c, "--k is too large");
        t->depth *= t->tile_cols;
    }
    t->shape = j->shape.at;
    t->n_dims = j->shape.n;
    return -1;
}

static int read_shards(const cli_command *c, const args *a, job *j)
{
    if (a->shards.n != a->shard_tiles.n)
        return cli_usage(c, "--shards and --shard-tiles come in pairs");
    for (int i = 0; i < a->shards.n; i++) {
        numbers grid, tiles;
        if (!read_dims(a->shards.at[i], &grid) || grid.n != 2 ||
            !read_dims(a->shard_tiles.at[i], &tiles) || tiles.n != 2)
            return cli_usage(c, "shards are like --shards 2x4 --shard-tiles "
                                "4x2: down x across");
        j->shards[i] = (dv_shard_spec){.grid = {grid.at[0], grid.at[1]},
                                       .tiles = {tiles.at[0], tiles.at[1]}};
    }
    return -1;
}

static int read_machine(const cli_command *c, const args *a, job *j,
                        dv_grid_task *t)
{
    numbers n;
    if (a->cores) {
        if (!read_dims(a->cores, &n) || n.n != 2)
            return cli_usage(c, "--cores takes COLUMNSxROWS, not '%s'",
                             a->cores);
        t->core_cols = n.at[0];
        t->core_rows = n.at[1];
    } else if (!a->target) {
        return cli_usage(c, "--target or --cores says what cores there are");
    }
    if (a->devices) {
        n.at[2] = 1;
        if (!read_dims(a->devices, &n) || n.n < 2 || n.n > 3 || !n.at[0] ||
            !n.at[1] || !n.at[2])
            return cli_usage(c,
                             "--devices takes ROWSxCOLUMNS[xDEPTH], not "
                             "'%s'",
                             a->devices);
        memcpy(t->devices, n.at, (size_t)n.n * sizeof *n.at);
    }
    int code = read_rects(c, "allow", &a->allow, j->allow);
    return code >= 0 ? code : read_rects(c, "holes", &a->holes, j->holes);
}

static int elem_bytes(const cli_command *c, const args *a, dv_grid_task *t)
{
    static const struct {
        const char *name;
        int64_t bytes;
    } known[] = {{"bf16", 2}, {"f16", 2}, {"f32", 4}, {"i32", 4}, {"i8", 1}};
    t->elem_bytes = 2;
    if (!a->dtype)
        return -1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, a->dtype)) {
            t->elem_bytes = known[i].bytes;
            return -1;
        }
    return cli_usage(c, "--dtype is bf16, f16, f32, i32 or i8, not '%s'",
                     a->dtype);
}

static int answer(const args *a, const dv_grid_task *t, dv_diag *diag)
{
    dv_grid *g = NULL;
    if (dv_grid_create(&g, t, diag) != DV_OK)
        return cli_fail(diag);
    int code = cli_put(a->json ? dv_grid_json(g) : dv_grid_text(g),
                       a->out ? a->out : "-", diag);
    dv_grid_destroy(g);
    return code;
}

static int run(const cli_command *c, const args *a, job *j, dv_diag *diag)
{
    dv_grid_task t = DV_GRID_TASK_INIT;
    if (a->target && dv_target_load(&j->target, a->target, diag) != DV_OK)
        return cli_fail(diag);
    int code = read_shape(c, a, j, &t);
    if (code < 0)
        code = read_machine(c, a, j, &t);
    if (code < 0)
        code = read_shards(c, a, j);
    if (code < 0)
        code = elem_bytes(c, a, &t);
    if (code >= 0)
        return code;
    t.target = j->target;
    t.allowed = j->allow;
    t.n_allowed = (size_t)a->allow.n;
    t.holes = j->holes;
    t.n_holes = (size_t)a->holes.n;
    t.shards = j->shards;
    t.n_shards = (size_t)a->shards.n;
    t.split = a->split == 2 ? DV_CORES_BY_ROW : DV_CORES_BY_COLUMN;
    t.order = a->order;
    if (cli_read_order(&t.order, &j->order, diag) != DV_OK)
        return cli_fail(diag);
    t.policy = a->policy;
    return answer(a, &t, diag);
}

int cli_grid(const cli_command *c, int argc, char **argv)
{
    args a = {.k = -1};
    const cli_option options[] = {
        {"tiles", 0, "[BATCHx]MTxNT", "tiles of the result", CLI_TEXT,
         &a.tiles},
        {"shape", 0, "[BATCHx]MxN", "the same in elements", CLI_TEXT, &a.shape},
        {"k", 0, "N", "depth, in tiles with --tiles, else in elements",
         CLI_COUNT, &a.k},
        {"tile", 0, "ROWSxCOLUMNS", "elements of a tile; usually 32x32",
         CLI_TEXT, &a.tile},
        {"dtype", 0, "TYPE", "of the elements; usually bf16", CLI_TEXT,
         &a.dtype},
        {"target", 't', "NAME", "the machine", CLI_TEXT, &a.target},
        {"cores", 0, "COLUMNSxROWS", "use these, from 0,0 on", CLI_TEXT,
         &a.cores},
        {"allow", 0, "X0,Y0-X1,Y1", "use only these; may be given again",
         CLI_LIST, &a.allow},
        {"holes", 0, "X0,Y0-X1,Y1", "these are not there; may be given again",
         CLI_LIST, &a.holes},
        {"split", 0, "column|row", "which cores get the first tiles",
         CLI_CHOICE, &a.split},
        {"order", 0, "ORDER",
         "row_major, column_major, snake, grouped(G), block_linear(K), "
         "swizzle(S), morton, hilbert, zigzag, match_shard, auto, @FILE",
         CLI_TEXT, &a.order},
        {"policy", 0, "POLICY",
         "static, rect, streamk, streamk1, streamk2, splitk(N), ticket(N), "
         "steal(N), dynamic, auto",
         CLI_TEXT, &a.policy},
        {"shards", 0, "GYxGX",
         "the result stays on so many cores, down x "
         "across",
         CLI_LIST, &a.shards},
        {"shard-tiles", 0, "SMxSN", "tiles of one shard", CLI_LIST,
         &a.shard_tiles},
        {"devices", 0, "RxC[xD]", "divide over devices first", CLI_TEXT,
         &a.devices},
        {"out", 'o', "FILE", "write the answer there", CLI_TEXT, &a.out},
        {"json", 0, NULL, "answer as JSON", CLI_FLAG, &a.json},
        {0},
    };
    const char *operands[1];
    int n_operands;
    int code = cli_parse(c, options, argc, argv, operands, &n_operands, 0);
    if (code >= 0)
        return code;
    code = cli_check_overwrite(c, "-o", a.out, a.target,
                               "the target's description");
    if (code >= 0)
        return code;
    job *j = calloc(1, sizeof *j);
    dv_diag *diag = dv_diag_create();
    if (j && diag)
        code = run(c, &a, j, diag);
    else
        code = 3;
    if (j) {
        dv_target_destroy(j->target);
        dv_release(j->order);
    }
    free(j);
    dv_diag_destroy(diag);
    return code;
}
