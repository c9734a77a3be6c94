// Writes the emitted files into a folder, in the requested format.
#define _POSIX_C_SOURCE 200809L // for mkdir and rmdir
#include "emit/emit.h"
#include "base/options.h"
#include "base/file.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_PATH = 1024 };

dv_status dv_emit_file(emitter *e, const char *name)
{
    emitted *f = DV_PUSH(&e->arena, emitted, e->files, e->n_files, e->cap);
    char *copy = dv_arena_copy(&e->arena, name, strlen(name));
    if (!f || !copy || e->out.failed)
        return dv_nomem(e->diag);
    *f = (emitted){copy, e->out};
    e->out = (dv_text){0};
    return DV_OK;
}

static dv_status path_of(const emitter *e, int32_t file, char *path,
                         size_t size)
{
    int n = snprintf(path, size, "%s/%s", e->dir, e->files[file].name);
    if (n < 0 || (size_t)n >= size)
        return dv_fail(e->diag, DV_E_USAGE, DV_NOWHERE,
                       "the name of the folder is too long: %s", e->dir);
    return DV_OK;
}

// Makes the output folder unless it exists; *made is whether it was made.
static dv_status make_folder(const emitter *e, int *made)
{
    struct stat there;
    *made = mkdir(e->dir, 0777) == 0;
    int why = *made ? 0 : errno;
    if (why == EEXIST && stat(e->dir, &there) == 0 && !S_ISDIR(there.st_mode))
        why = ENOTDIR;
    if (!why || why == EEXIST)
        return DV_OK;
    return dv_fail(e->diag, DV_E_OUTPUT, DV_NOWHERE,
                   "cannot make the folder %s: %s", e->dir,
                   why == ENOTDIR  ? "a file is in its place"
                   : why == ENOENT ? "the folder around it does not exist"
                                   : strerror(why));
}

// After a failure, removes the files written so far and the output folder, if
// this call has made it.
static void remove_files(const emitter *e)
{
    char path[MOST_PATH];
    for (int32_t i = 0; i < e->n_files; i++)
        if (!path_of(e, i, path, sizeof path))
            unlink(path);
    rmdir(e->dir);
}

// Writes all files. This runs only after everything was emitted, so that a plan
// that cannot be emitted leaves no folder behind.
static dv_status write_files(const emitter *e)
{
    char path[MOST_PATH];
    int made;
    dv_status st = DV_OK;
    DV_TRY(make_folder(e, &made));
    for (int32_t i = 0; i < e->n_files && st == DV_OK; i++) {
        const dv_text *text = &e->files[i].text;
        st = path_of(e, i, path, sizeof path);
        if (st == DV_OK)
            st = dv_file_write(path, text->at ? text->at : "", text->len,
                               e->diag);
    }
    if (st != DV_OK && made)
        remove_files(e);
    return st;
}

dv_status dv_emit_rt(emitter *e)
{
    for (const char *const *line = dv_rt_lines; *line; line++)
        dv_put(&e->out, "%s", *line);
    return dv_emit_file(e, "rt.h");
}

void dv_emit_check_args(emitter *e)
{
    int n = 0;
    dv_put(&e->out, "    static const char *const names[] = {");
    for (int32_t t = 0; t < e->p->n_tensors; t++)
        if (e->p->tensors[t].is_input || e->p->tensors[t].is_output) {
            dv_put(&e->out, "\"%s\", ", e->p->tensors[t].name);
            n++;
        }
    dv_put(&e->out, "NULL};\n    rt_check_args(argc, argv, names, %d);\n", n);
}

void dv_emit_read(emitter *e, const dv_tensor *t, const char *ctype,
                  const char *data)
{
    dv_put(&e->out, "    {\n        static const int64_t shape[] = {");
    for (int d = 0; d < t->n_dims; d++)
        dv_put(&e->out, "%s%" PRId64, d ? ", " : "", t->shape[d]);
    dv_put(&e->out,
           "%s};\n        rt_read(argc, argv, \"%s\", \"%s\", %d, shape, %s, "
           "%" PRId64 ", sizeof(%s));\n    }\n",
           t->n_dims ? "" : "0", t->name, dv_dtype_get(t->dtype)->npy,
           t->n_dims, data, t->n_elems, ctype);
}

int64_t dv_emit_chunk(const dv_group_grid *g)
{
    dv_policy p = DV_POLICY_STATIC;
    int64_t chunk = 0;
    if (g->local_shard || !dv_policy_parse(&p, &chunk, g->policy))
        return 0;
    return p == DV_POLICY_TICKET || p == DV_POLICY_STEAL ? chunk : 0;
}

static dv_status emit_as(emitter *e, dv_emit_format format)
{
    static dv_status (*const emitters[])(emitter *) = {
        [DV_EMIT_C] = dv_emit_c,
        [DV_EMIT_OPENMP] = dv_emit_c,
        [DV_EMIT_TT_METALIUM] = dv_emit_metal,
        [DV_EMIT_JSON] = dv_emit_json,
        [DV_EMIT_CSV] = dv_emit_csv,
        [DV_EMIT_OBJECT] = dv_emit_object,
        [DV_EMIT_SUPERDSC] = dv_emit_superdsc};
    DV_TRY(
        dv_options_enum((int)format, DV_EMIT_SUPERDSC + 1, "format", e->diag));
    e->openmp = format == DV_EMIT_OPENMP;
    if (e->plan->team.n_axes)
        return dv_emit_team(e);
    return emitters[format](e);
}

static dv_status emit(const dv_plan *plan, dv_emit_format format,
                      const char *dir, int stage_names, dv_diag *diag)
{
    emitter e = {.plan = plan,
                 .p = plan->ops,
                 .dir = dir,
                 .stage_names = stage_names,
                 .diag = diag};
    if (!dir || !*dir)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the name of the folder that is written is %s",
                       dir ? "empty" : "missing");
    if (plan->team.n_axes && format != DV_EMIT_C && format != DV_EMIT_OPENMP)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the plan is for a team of %" PRId64
                       ": its ranks are emitted as c or openmp; kernels and "
                       "tables are those of one device",
                       dv_plan_team_size(&plan->team));
    DV_TRY(dv_plan_check(plan, diag));
    dv_status st = emit_as(&e, format);
    if (st == DV_OK)
        st = write_files(&e);
    if (st == DV_OK && format == DV_EMIT_OBJECT)
        st = dv_emit_compile(&e);
    for (int32_t i = 0; i < e.n_files; i++)
        dv_text_free(&e.files[i].text);
    dv_text_free(&e.out);
    dv_arena_free(&e.arena);
    return st;
}

dv_status dv_plan_emit(const dv_plan *plan, dv_emit_format format,
                       const char *dir, dv_diag *diag)
{
    return emit(plan, format, dir, 0, diag);
}

dv_status dv_emit_stage_names(const dv_plan *plan, dv_emit_format format,
                              const char *dir, dv_diag *diag)
{
    if (format > DV_EMIT_TT_METALIUM || plan->team.n_axes)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "names of TileLang are those of loops over tiles, in C, "
                       "OpenMP and TT-Metalium kernels of one process");
    return emit(plan, format, dir, 1, diag);
}
