// Loads models: files and external data, inputs and their symbolic dims, the
// program and its weights.
#define _XOPEN_SOURCE 700 // realpath
#include "onnx/onnx.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/filemap.h"
#include "base/math.h"
#include "base/npy.h"
#include "onnx/import.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// A file that stays mapped into memory until the model is destroyed.
typedef struct dv_onnx_map {
    const char *name;
    const void *at; // NULL: the file is empty
    size_t len;
} dv_onnx_map;

// -- Files -------------------------------------------------------------------

static dv_status map_file(dv_onnx_map *out, const char *path,
                          const dv_source *src, dv_diag *diag)
{
    struct stat st;
    // Without O_NONBLOCK, opening a pipe would wait for its writer; it has no
    // effect on regular files.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    dv_loc at = {src, DV_FILE};
    if (fd < 0 || fstat(fd, &st) != 0) {
        if (fd >= 0)
            close(fd);
        return dv_fail(diag, DV_E_FILE, at, "%s cannot be opened", path);
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return dv_fail(diag, DV_E_FILE, at,
                       "%s is a folder, a pipe or a device; a file is needed",
                       path);
    }
    out->name = path;
    out->len = (size_t)st.st_size;
    out->at = dv_file_map(fd, out->len);
    close(fd);
    if (out->at || !out->len)
        return DV_OK;
    return dv_fail(diag, DV_E_SYSTEM, at, "%s cannot be mapped", path);
}

// Returns the path of an external data file; NULL unless it is inside the
// model's folder, so that a model cannot read arbitrary files.
static const char *inside(dv_on *cx, const char *location)
{
    char folder[PATH_MAX], real[PATH_MAX];
    dv_text t = {0};
    if (!location || !location[0] || location[0] == '/')
        return NULL;
    dv_put(&t, "%s/%s", cx->folder, location);
    const char *path = t.failed ? NULL : dv_arena_copy(cx->arena, t.at, t.len);
    dv_text_free(&t);
    if (!path || !realpath(cx->folder, folder))
        return NULL;
    // A file that does not exist has no real path; opening it later reports
    // that.
    if (!realpath(path, real))
        return strstr(location, "..") ? NULL : path;
    size_t len = strlen(folder);
    return !strncmp(real, folder, len) && (real[len] == '/' || len == 1) ? path
                                                                         : NULL;
}

static dv_status find_map(dv_on *cx, const dv_onnx_tensor *t,
                          const dv_onnx_map **out)
{
    const char *path = inside(cx, t->location);
    if (!path)
        return dv_fail(cx->diag, DV_E_FILE, (dv_loc){cx->src, DV_FILE},
                       "the external data of '%s' is not in the folder of the "
                       "model: '%s'",
                       t->name, t->location ? t->location : "");
    for (int32_t i = 0; i < cx->n_maps; i++)
        if (!strcmp(cx->maps[i].name, path)) {
            *out = &cx->maps[i];
            return DV_OK;
        }
    dv_onnx_map *m =
        DV_PUSH(cx->arena, dv_onnx_map, cx->maps, cx->n_maps, cx->cap_maps);
    if (!m)
        return dv_nomem(cx->diag);
    *m = (dv_onnx_map){0};
    DV_TRY(map_file(m, path, cx->src, cx->diag));
    *out = m;
    return DV_OK;
}

dv_status dv_on_tensor_data(dv_on *cx, const void **out,
                            const dv_onnx_tensor *t)
{
    if (!t->is_external)
        return dv_onnx_elements(out, t, cx->src, cx->arena, cx->diag);
    const dv_onnx_map *m = NULL;
    int dtype = dv_onnx_dtype(t->type);
    if (dtype < 0)
        return dv_on_refuse(cx, "tensor '%s' has type %s", t->name,
                            dv_onnx_type_name(t->type));
    int64_t size = dv_dtype_get((dv_dtype)dtype)->size_bytes, bytes = size;
    for (int32_t i = 0; i < t->n_dims; i++)
        if (!dv_mul_i64(&bytes, bytes, t->dims[i]))
            return dv_on_refuse(cx, "the size of '%s' does not fit 64 bits",
                                t->name);
    DV_TRY(find_map(cx, t, &m));
    if ((uint64_t)t->offset > m->len ||
        (uint64_t)bytes > m->len - (uint64_t)t->offset ||
        (t->length >= 0 && t->length != bytes))
        return dv_fail(cx->diag, DV_E_FORMAT, (dv_loc){cx->src, DV_FILE},
                       "the shape of '%s' needs %" PRId64
                       " bytes, the model gives it %" PRId64
                       " from byte %" PRId64 " of %s, which has %zu",
                       t->name, bytes, t->length >= 0 ? t->length : bytes,
                       t->offset, m->name, m->len);
    const char *from = (const char *)m->at + t->offset;
    *out = from;
    if (bytes && t->offset % size) {
        void *copy = dv_arena_buffer(cx->arena, (size_t)bytes);
        if (!copy)
            return dv_nomem(cx->diag);
        memcpy(copy, from, (size_t)bytes);
        *out = copy;
    }
    return DV_OK;
}

// -- Inputs ------------------------------------------------------------------

static const char *find_param(dv_on *cx, const char *name)
{
    for (size_t i = 0; i < cx->n_params; i++)
        if (!strcmp(cx->params[i].name, name)) {
            cx->used_params[i] = 1;
            return cx->params[i].value;
        }
    return NULL;
}

static dv_status symbolic(dv_on *cx, const dv_onnx_info *info, int d,
                          int64_t *out)
{
    char own[300];
    snprintf(own, sizeof own, "%.250s.%d", info->name, d);
    const char *name =
        info->params[d] && info->params[d][0] ? info->params[d] : own;
    const char *value = find_param(cx, name);
    if (!value)
        return dv_fail(cx->diag, DV_E_USAGE, (dv_loc){cx->src, DV_FILE},
                       "dim %d of input '%s' is open: give it with --set "
                       "%s=…",
                       d, info->name, name);
    char *end;
    long long n = strtoll(value, &end, 10);
    if (end == value || *end || n < 1)
        return dv_fail(cx->diag, DV_E_USAGE, (dv_loc){cx->src, DV_FILE},
                       "--set %s=%s: dim %d of input '%s' is at least 1", name,
                       value, d, info->name);
    *out = n;
    return DV_OK;
}

static dv_status add_input(dv_on *cx, const dv_onnx_info *info)
{
    int64_t dims[DV_MAX_DIMS];
    for (int32_t i = 0; i < cx->model->graph.n_tensors; i++)
        if (!strcmp(cx->model->graph.tensors[i].name, info->name))
            return DV_OK; // an input with a default is a constant
    int dtype = dv_onnx_dtype(info->type);
    if (dtype < 0 || info->type == 0)
        return dv_on_refuse(cx,
                            "input '%s' has type %s, which is not "
                            "supported",
                            info->name,
                            info->type ? dv_onnx_type_name(info->type)
                                       : "sequence, map or optional");
    if (info->n_dims < 0)
        return dv_on_refuse(cx, "input '%s' has no shape", info->name);
    for (int d = 0; d < info->n_dims; d++) {
        dims[d] = info->dims[d];
        if (dims[d] < 0)
            DV_TRY(symbolic(cx, info, d, &dims[d]));
    }
    dv_on_value *v = dv_on_value_new(cx, info->name);
    if (!v)
        return DV_E_NOMEM;
    DV_TRY(dv_on_make(cx, v, (dv_dtype)dtype, info->type == DV_ONNX_BOOL,
                      info->n_dims, dims, NULL));
    v->info = info;
    // A tensor without elements counts as known: it has no contents to supply.
    if (dv_on_count(v) == 0)
        v->base->data = v->data = "";
    v->base->name = dv_on_name(cx, info->name);
    return v->base->name ? DV_OK : DV_E_NOMEM;
}

static dv_status reserve_outputs(dv_on *cx)
{
    const dv_onnx_graph *g = &cx->model->graph;
    cx->output_names = DV_NEW(cx->arena, const char *, g->n_outputs + 1);
    if (!cx->output_names)
        return dv_nomem(cx->diag);
    for (int32_t i = 0; i < g->n_outputs; i++)
        if (!(cx->output_names[i] = dv_on_name(cx, g->outputs[i].name)))
            return DV_E_NOMEM;
    return g->n_outputs ? DV_OK : dv_on_refuse(cx, "it has no outputs");
}

// -- Outputs -----------------------------------------------------------------

// Makes a value an output of the program. A view is copied into a tensor; a
// tensor that already has the output's name and shape is used directly.
static dv_status add_output(dv_on *cx, int32_t i, dv_onnx_binding *out)
{
    const char *name = cx->model->graph.outputs[i].name;
    dv_on_value *v = dv_on_find(cx, name);
    cx->label = "the outputs";
    dv_build_label(cx->build, cx->label);
    if (!v || !v->base)
        return dv_on_refuse(cx, "there is no value '%s'", name);
    if (dv_on_count(v) == 0)
        return dv_on_refuse(cx, "output '%s' has a dim of size 0", name);
    int own = v->base->made_in == 1 && v->base->n_dims == v->n_dims &&
              v->base->name == cx->output_names[i];
    for (int d = 0; d < v->n_dims && own; d++)
        own = dv_on_is_plain(v, d) && v->atoms[v->first[d]].dim == d;
    if (!own) {
        int axes[DV_MAX_DIMS];
        dv_on_loop l;
        dv_on_value *copy = dv_on_temp(cx, name);
        if (!copy)
            return DV_E_NOMEM;
        copy->is_output = 1;
        copy->output_name = cx->output_names[i];
        dv_on_loop_begin(&l, cx);
        l.typed = 1;
        DV_TRY(dv_on_over(&l, v, axes));
        dv_on_start(&l);
        DV_TRY(dv_on_define(&l, copy, v->dtype, v->is_bool, v->n_dims, axes,
                            dv_on_read(&l, v, axes)));
        v = copy;
    }
    dv_build_output(cx->build, v->base->name);
    *out = (dv_onnx_binding){v->base->name, name, NULL, 0};
    return DV_OK;
}

// Declares the model's inputs that no statement reads, so that a caller may
// bind all inputs of the model. Those with contents that are known at import
// are constants.
static dv_status add_unread_inputs(dv_on *cx)
{
    const dv_onnx_graph *g = &cx->model->graph;
    cx->label = "the inputs";
    dv_build_label(cx->build, cx->label);
    for (int32_t i = 0; i < g->n_inputs; i++) {
        dv_on_value *v = dv_on_find(cx, g->inputs[i].name);
        if (v && v->info && !v->base->data)
            DV_TRY(dv_on_declare(cx, v->base));
    }
    return DV_OK;
}

// Lists the inputs and weights of the program, with their names in the model.
static dv_status list_bindings(dv_on *cx, dv_onnx *m)
{
    m->weights = DV_NEW(cx->arena, dv_onnx_binding, cx->n_inputs + 1);
    m->inputs = DV_NEW(cx->arena, dv_onnx_binding, cx->n_inputs + 1);
    if (!m->weights || !m->inputs)
        return dv_nomem(cx->diag);
    for (int32_t i = 0; i < cx->n_inputs; i++) {
        const dv_on_base *b = cx->inputs[i];
        dv_onnx_binding *to =
            b->data ? &m->weights[m->n_weights++] : &m->inputs[m->n_inputs++];
        *to = (dv_onnx_binding){b->name, b->hint, b->data, 0};
    }
    return DV_OK;
}

static void set_sizes(const dv_program *p, dv_onnx_binding *b, int n)
{
    for (int i = 0; i < n; i++) {
        int32_t t = dv_program_find(p, b[i].tensor);
        if (t >= 0)
            b[i].size_bytes = (size_t)dv_tensor_bytes(&p->tensors[t]);
    }
}

// -- Models ------------------------------------------------------------------

static dv_status check_params(const dv_on *cx)
{
    for (size_t i = 0; i < cx->n_params; i++)
        if (!cx->used_params[i])
            return dv_fail(cx->diag, DV_E_NAME, (dv_loc){cx->src, DV_FILE},
                           "the model has no open dim and no input with "
                           "constant contents called '%s'",
                           cx->params[i].name);
    return DV_OK;
}

static dv_status check_opsets(dv_on *cx)
{
    for (int32_t i = 0; i < cx->model->n_opsets; i++) {
        const dv_onnx_opset *o = &cx->model->opsets[i];
        if (!strcmp(o->domain, ""))
            cx->opset = o->version;
    }
    if (cx->opset >= 1 && cx->opset <= 25)
        return DV_OK;
    return dv_on_refuse(cx, "its opset is %lld, supported are 1 to 25",
                        (long long)cx->opset);
}

static dv_status build(dv_on *cx, dv_onnx *m)
{
    const dv_onnx_graph *g = &cx->model->graph;
    DV_TRY(check_opsets(cx));
    for (int32_t i = 0; i < g->n_inputs; i++)
        DV_TRY(add_input(cx, &g->inputs[i]));
    DV_TRY(reserve_outputs(cx));
    DV_TRY(dv_on_graph(cx, g));
    m->outputs = DV_NEW(cx->arena, dv_onnx_binding, g->n_outputs + 1);
    if (!m->outputs)
        return dv_nomem(cx->diag);
    for (int32_t i = 0; i < g->n_outputs; i++)
        DV_TRY(add_output(cx, i, &m->outputs[m->n_outputs++]));
    DV_TRY(check_params(cx));
    DV_TRY(add_unread_inputs(cx));
    DV_TRY(dv_build_finish(&m->program, cx->build, NULL, 0, cx->diag));
    m->program->src.name = m->src.name;
    DV_TRY(list_bindings(cx, m));
    set_sizes(m->program, m->weights, m->n_weights);
    set_sizes(m->program, m->inputs, m->n_inputs);
    set_sizes(m->program, m->outputs, m->n_outputs);
    return DV_OK;
}

static const char *folder_of(dv_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return ".";
    return slash == path ? "/"
                         : dv_arena_copy(arena, path, (size_t)(slash - path));
}

static dv_status import(dv_onnx *m, const void *bytes, size_t len,
                        const dv_onnx_options *options, int to_files,
                        dv_diag *diag)
{
    dv_onnx_model model;
    dv_on cx = {.arena = &m->arena, .diag = diag, .src = &m->src};
    cx.model = &model;
    cx.options = options;
    cx.to_files = to_files;
    cx.params = options ? options->params : NULL;
    cx.n_params = options ? options->n_params : 0;
    cx.scope = cx.n_scopes = 1;
    cx.folder = folder_of(&m->arena, m->src.name);
    cx.used_params = DV_NEW(&m->arena, unsigned char, cx.n_params + 1);
    if (!cx.folder || !cx.used_params)
        return dv_nomem(diag);
    DV_TRY(dv_onnx_read_model(&model, bytes, len, &m->src, &m->arena, diag));
    cx.build = dv_build_create();
    dv_status st = cx.build ? build(&cx, m) : dv_nomem(diag);
    dv_build_destroy(cx.build);

    m->maps = cx.maps;
    m->n_maps = cx.n_maps;
    return st;
}

static dv_onnx *new_model(const char *name, dv_diag *diag)
{
    dv_onnx *m = dv_alloc(sizeof *m);
    if (!m) {
        dv_nomem(diag);
        return NULL;
    }
    *m = (dv_onnx){0};
    m->src.name = dv_arena_copy(&m->arena, name, strlen(name));
    m->src.text = "";
    if (m->src.name)
        return m;
    dv_nomem(diag);
    dv_onnx_destroy(m);
    return NULL;
}

static dv_status parse(dv_onnx **out, const void *bytes, size_t len,
                       const char *name, const dv_onnx_options *options,
                       int to_files, dv_diag *diag)
{
    dv_onnx *m = new_model(name, diag);
    if (!m)
        return DV_E_NOMEM;
    dv_status st = import(m, bytes, len, options, to_files, diag);
    if (st == DV_OK)
        *out = m;
    else
        dv_onnx_destroy(m);
    return st;
}

dv_status dv_onnx_parse(dv_onnx **out, const void *bytes, size_t len,
                        const char *name, const dv_onnx_options *options,
                        dv_diag *diag)
{
    return parse(out, bytes, len, name, options, 0, diag);
}

static dv_status load(dv_onnx **out, const char *path,
                      const dv_onnx_options *options, int to_files,
                      dv_diag *diag)
{
    dv_source src = {path, "", 0};
    dv_onnx_map map = {0};
    DV_TRY(map_file(&map, path, &src, diag));
    dv_status st = parse(out, map.at ? map.at : "", map.len, path, options,
                         to_files, diag);
    if (st != DV_OK) {
        dv_file_unmap(map.at, map.len);
        return st;
    }
    (*out)->file = map.at;
    (*out)->file_bytes = map.len;
    return DV_OK;
}

dv_status dv_onnx_load(dv_onnx **out, const char *path,
                       const dv_onnx_options *options, dv_diag *diag)
{
    return load(out, path, options, 0, diag);
}

// -- Models as programs in files ---------------------------------------------

static dv_status write_weight(const dv_onnx *m, int i, const char *dir,
                              dv_diag *diag)
{
    const dv_onnx_binding *b = &m->weights[i];
    int32_t id = dv_program_find(m->program, b->tensor);
    const dv_tensor *t = &m->program->tensors[id];
    dv_text path = {0};
    dv_put(&path, "%s/%s.npy", dir, b->tensor);
    dv_status st = path.failed ? dv_nomem(diag)
                               : dv_npy_write(path.at, t->dtype, t->n_dims,
                                              t->shape, b->data, diag);
    dv_text_free(&path);
    return st;
}

// Writes a comment with the name that an input or output has in the model.
// Control characters are replaced, because they could end the comment.
static void put_origin(dv_text *out, const char *what, const dv_onnx_binding *b)
{
    dv_put(out, "# %s %s: '", what, b->tensor);
    for (const char *c = b->model_name; *c; c++)
        dv_put(out, "%c", (unsigned char)*c < ' ' || *c == 127 ? '?' : *c);
    dv_put(out, "' of the model\n");
}

static dv_status write_program(const dv_onnx *m, const char *dir, dv_diag *diag)
{
    dv_text path = {0}, out = {0};
    char *text = dv_program_text(m->program);
    dv_put(&path, "%s/program.dv", dir);
    dv_put(&out, "# Imported from %s.\n", m->src.name);
    for (int i = 0; i < m->n_inputs; i++)
        put_origin(&out, "input", &m->inputs[i]);
    for (int i = 0; i < m->n_outputs; i++)
        put_origin(&out, "output", &m->outputs[i]);
    dv_put(&out, "%s", text ? text : "");
    dv_status st = !text || path.failed || out.failed
                       ? dv_nomem(diag)
                       : dv_file_write(path.at, out.at, out.len, diag);
    dv_release(text);
    dv_text_free(&path);
    dv_text_free(&out);
    return st;
}

dv_status dv_onnx_write(const char *path, const dv_onnx_options *options,
                        const char *dir, dv_diag *diag)
{
    dv_onnx *m = NULL;
    DV_TRY(load(&m, path, options, 1, diag));
    dv_status st = DV_OK;
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        st = dv_fail(diag, DV_E_OUTPUT, DV_NOWHERE, "%s cannot be made: %s",
                     dir, strerror(errno));
    for (int i = 0; i < m->n_weights && st == DV_OK; i++)
        st = write_weight(m, i, dir, diag);
    if (st == DV_OK)
        st = write_program(m, dir, diag);
    dv_onnx_destroy(m);
    return st;
}

void dv_onnx_destroy(dv_onnx *m)
{
    if (!m)
        return;
    for (int32_t i = 0; i < m->n_maps; i++)
        dv_file_unmap(m->maps[i].at, m->maps[i].len);
    dv_file_unmap(m->file, m->file_bytes);
    dv_program_destroy(m->program);
    dv_arena arena = m->arena;
    dv_arena_free(&arena);
    dv_release(m);
}

const dv_program *dv_onnx_program(const dv_onnx *m)
{
    return m->program;
}

static int get(const dv_onnx_binding *list, int n, int i, dv_onnx_binding *out)
{
    if (i < 0 || i >= n)
        return 0;
    *out = list[i];
    return 1;
}

int dv_onnx_weight(const dv_onnx *m, int i, dv_onnx_binding *out)
{
    return get(m->weights, m->n_weights, i, out);
}

int dv_onnx_input(const dv_onnx *m, int i, dv_onnx_binding *out)
{
    return get(m->inputs, m->n_inputs, i, out);
}

int dv_onnx_output(const dv_onnx *m, int i, dv_onnx_binding *out)
{
    return get(m->outputs, m->n_outputs, i, out);
}

dv_status dv_onnx_bind(const dv_onnx *m, dv_exec *exec, dv_diag *diag)
{
    // The cast removes const: dv_exec_bind takes a mutable pointer, but inputs
    // that are not outputs are never written.
    for (int i = 0; i < m->n_weights; i++)
        DV_TRY(dv_exec_bind(exec, m->weights[i].tensor,
                            (void *)(uintptr_t)m->weights[i].data,
                            m->weights[i].size_bytes, diag));
    return DV_OK;
}
