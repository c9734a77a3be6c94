// Program objects of the API: created from text, printed as text, converted to
// JSON.
#include "ir/program.h"
#include "base/file.h"
#include "base/json.h"
#include "ir/json.h"
#include <string.h>

const char *dv_version(void)
{
    return DV_VERSION;
}

void dv_free(void *p)
{
    dv_release(p);
}

static dv_status parse_into(dv_program *p, const char *text, size_t len,
                            const char *name, const dv_param *params,
                            size_t n_params, dv_diag *diag)
{
    dv_source src = {name, text, len};
    if ((int64_t)len > DV_MAX_TEXT_BYTES)
        return dv_fail(diag, DV_E_LIMIT, (dv_loc){&src, DV_FILE},
                       "the text has more than %d MiB",
                       (int)(DV_MAX_TEXT_BYTES >> 20));
    p->src.name = dv_arena_copy(&p->arena, name, strlen(name));
    p->src.text = dv_arena_copy(&p->arena, text, len);
    p->src.len = len;
    if (!p->src.name || !p->src.text)
        return dv_nomem(diag);
    DV_TRY(dv_parse(&p->ast, &p->src, &p->arena, diag));
    DV_TRY(dv_program_build(p, params, n_params, diag));
    return dv_program_verify(p, 1, diag);
}

dv_status dv_program_parse(dv_program **out, const char *text, size_t len,
                           const char *name, const dv_param *params,
                           size_t n_params, dv_diag *diag)
{
    dv_program *p = dv_program_new();
    if (!p)
        return dv_nomem(diag);
    dv_status st = parse_into(p, text, len, name, params, n_params, diag);
    if (st == DV_OK)
        *out = p;
    else
        dv_program_destroy(p);
    return st;
}

dv_status dv_program_load(dv_program **out, const char *path,
                          const dv_param *params, size_t n_params,
                          dv_diag *diag)
{
    char *text;
    size_t len;
    DV_TRY(dv_file_read(&text, &len, path, DV_MAX_TEXT_BYTES, diag));
    dv_status st =
        dv_program_parse(out, text, len, path, params, n_params, diag);
    dv_release(text);
    return st;
}

dv_program *dv_program_share(const dv_program *p)
{
    dv_program *out = dv_program_new();
    if (!out)
        return NULL;
    dv_arena arena = out->arena;
    *out = *p;
    out->arena = arena;
    out->ops = DV_NEW(&out->arena, dv_op, p->n_ops);
    out->tensors = DV_NEW(&out->arena, dv_tensor, p->n_tensors);
    if (out->ops && out->tensors) {
        for (int32_t i = 0; i < p->n_ops; i++)
            out->ops[i] = p->ops[i];
        for (int32_t i = 0; i < p->n_tensors; i++)
            out->tensors[i] = p->tensors[i];
        return out;
    }
    dv_program_destroy(out);
    return NULL;
}

void dv_program_destroy(dv_program *p)
{
    if (!p)
        return;
    // A copy, because p itself lives in the arena that is freed.
    dv_arena arena = p->arena;
    dv_arena_free(&arena);
}

int dv_program_n_tensors(const dv_program *p)
{
    return p->n_tensors;
}

dv_status dv_program_tensor(const dv_program *p, int i, dv_tensor_info *out)
{
    if (i < 0 || i >= p->n_tensors)
        return DV_E_USAGE;
    const dv_tensor *t = &p->tensors[i];
    *out = (dv_tensor_info){.name = t->name,
                            .dtype = t->dtype,
                            .role = dv_tensor_role(p, i),
                            .n_dims = t->n_dims,
                            .size_bytes = dv_tensor_bytes(t),
                            .file = t->file};
    if (t->n_dims)
        memcpy(out->shape, t->shape, (size_t)t->n_dims * sizeof *t->shape);
    return DV_OK;
}

char *dv_program_text(const dv_program *p)
{
    dv_text out = {0};
    if (p->ast.first)
        dv_ast_print(&out, &p->ast);
    else
        dv_program_print(&out, p, 0);
    return dv_text_take(&out);
}

static void access_json(dv_json *j, const char *key, const dv_program *p,
                        const dv_op *op, const dv_access *a)
{
    dv_json_open_flat(j, key, '{');
    dv_json_string(j, "tensor", p->tensors[a->tensor].name);
    dv_json_open_flat(j, "index", '[');
    for (int d = 0; d < a->n_dims; d++) {
        dv_text x = {0};
        dv_index_print(&x, p, op, &a->index[d]);
        dv_json_text(j, NULL, &x);
    }
    dv_json_close(j);
    if (a->has_border) {
        dv_text x = {0};
        dv_border_print(&x, p, a);
        dv_json_text(j, "else", &x);
    }
    dv_json_close(j);
}

static void op_json(dv_json *j, const dv_program *p, int32_t i,
                    const dv_json_hooks *more)
{
    const dv_op *op = &p->ops[i];
    const dv_expr *r = dv_op_reduce(op);
    dv_json_open(j, NULL, '{');
    dv_json_string(j, "name", op->name);
    dv_json_string(j, "kind", dv_kind_name(dv_op_kind(op)));
    dv_json_string(j, "reducer",
                   r ? dv_reducer_get((dv_reducer)r->fn)->text : NULL);
    dv_json_open(j, "vars", '[');
    for (int v = 0; v < op->n_vars; v++)
        DV_JSON_OBJECT(j, NULL, DV_F("name", op->vars[v].name),
                       DV_F("begin", op->vars[v].begin),
                       DV_F("end", op->vars[v].end),
                       DV_F_BOOL("reduce", op->vars[v].reduce));
    dv_json_close(j);
    access_json(j, "write", p, op, &op->write);
    dv_json_open(j, "reads", '[');
    for (int k = 0; k < op->n_reads; k++)
        access_json(j, NULL, p, op, &op->reads[k]);
    dv_json_close(j);
    dv_text body = {0};
    dv_expr_print(&body, p, op, op->body);
    dv_json_text(j, "body", &body);
    DV_JSON_FIELDS(
        j, DV_F_BOOL("update", op->update),
        DV_F("dtype", dv_dtype_get(p->tensors[op->write.tensor].dtype)->name),
        DV_F("flops", dv_op_flops(op)), DV_F("bytes", dv_op_bytes(p, op)));
    if (more)
        more->op(j, more->of, i);
    dv_json_close(j);
}

static void memory_json(dv_json *j, const dv_memory_note *m)
{
    if (!m)
        return;
    dv_json_open(j, "memory", '{');
    DV_JSON_FIELDS(j, DV_F("kind", m->in_l1 ? "l1" : "dram"),
                   DV_F("layout", m->is_sharded ? "sharded" : "interleaved"));
    if (m->is_sharded)
        DV_JSON_FIELDS(j, DV_F_INTS("shard_shape", m->rows, m->cols),
                       DV_F("order", m->by_cols ? "cols" : "rows"));
    if (m->grid_rows)
        DV_JSON_INTS(j, "core_grid", m->grid_rows, m->grid_cols);
    dv_json_close(j);
}

void dv_program_json_fields(dv_json *j, const dv_program *p,
                            const dv_json_hooks *more)
{
    dv_json_string(j, "file", p->src.name);
    dv_json_open_flat(j, "params", '{');
    for (int i = 0; i < p->n_params; i++) {
        const dv_param_value *v = &p->params[i];
        if (v->is_float)
            dv_json_double(j, v->name, v->f);
        else
            dv_json_int(j, v->name, v->i);
    }
    dv_json_close(j);
    dv_json_open(j, "tensors", '[');
    for (int i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        dv_json_open_flat(j, NULL, '{');
        DV_JSON_FIELDS(j, DV_F("name", t->name),
                       DV_F("dtype", dv_dtype_get(t->dtype)->name),
                       dv_field_ints("shape", t->shape, t->n_dims),
                       DV_F("role", dv_role_name(dv_tensor_role(p, i))));
        if (t->file)
            dv_json_string(j, "file", t->file);
        memory_json(j, t->memory);
        if (more)
            more->tensor(j, more->of, i);
        dv_json_close(j);
    }
    dv_json_close(j);
    dv_json_open(j, "ops", '[');
    for (int i = 0; i < p->n_ops; i++)
        op_json(j, p, i, more);
    dv_json_close(j);
    dv_json_open(j, "repeats", '[');
    for (int i = 0; i < p->n_repeats; i++)
        DV_JSON_OBJECT(j, NULL, DV_F("first_op", p->repeats[i].first_op),
                       DV_F("end_op", p->repeats[i].end_op),
                       DV_F("times", p->repeats[i].times));
    dv_json_close(j);
}

char *dv_program_json(const dv_program *p, dv_grain grain)
{
    dv_program *lowered = NULL;
    if ((unsigned)grain > DV_GRAIN_FUNCTION)
        return NULL;
    if (grain != p->grain && dv_program_lower(&lowered, p, grain, NULL))
        return NULL;
    dv_text out = {0};
    dv_json j = {.out = &out};
    dv_json_open(&j, NULL, '{');
    dv_program_json_fields(&j, lowered ? lowered : p, NULL);
    dv_json_close(&j);
    dv_program_destroy(lowered);
    return dv_text_take(&out);
}
