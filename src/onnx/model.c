// Reads ONNX messages into the structs of model.h. One function per message;
// graphs inside attributes are followed to a limited depth.
#include "onnx/model.h"
#include "base/dtype.h"
#include "base/filemap.h"
#include "base/math.h"
#include "base/plural.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 16 };

typedef struct reader {
    dv_arena *arena;
    const dv_source *src;
    dv_diag *diag;
    int depth; // nesting of graphs
} reader;

static dv_status bad(const reader *r, const char *what)
{
    return dv_fail(r->diag, DV_E_FORMAT, (dv_loc){r->src, DV_FILE},
                   "this is no ONNX model: %s", what);
}

static dv_status string(const reader *r, const dv_wire_field *f,
                        const char **out)
{
    if (f->kind != DV_WIRE_BYTES)
        return bad(r, "a string is expected and there is a number");
    *out = dv_arena_copy(r->arena, (const char *)f->at, f->len);
    return *out ? DV_OK : dv_nomem(r->diag);
}

static dv_status push_string(const reader *r, const dv_wire_field *f,
                             const char ***list, int32_t *n, int32_t *cap)
{
    const char **to = DV_PUSH(r->arena, const char *, *list, *n, *cap);
    return to ? string(r, f, to) : dv_nomem(r->diag);
}

static dv_status message(const reader *r, const dv_wire_field *f, dv_wire *out)
{
    if (f->kind != DV_WIRE_BYTES)
        return bad(r, "a message is expected and there is a number");
    *out = dv_wire_open(f);
    return DV_OK;
}

static float float_of(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float f;
    memcpy(&f, &low, sizeof f);
    return f;
}

// Appends the integers of a protobuf field, which is one number or a packed
// list.
static dv_status push_ints(const reader *r, const dv_wire_field *f,
                           int64_t **list, int32_t *n, int32_t *cap)
{
    dv_wire w = {0};
    uint64_t value = f->value;
    if (f->kind == DV_WIRE_BYTES)
        w = dv_wire_open(f);
    else if (f->kind != DV_WIRE_VARINT)
        return bad(r, "a whole number is expected");
    while (f->kind == DV_WIRE_VARINT || dv_wire_varint(&w, &value)) {
        int64_t *to = DV_PUSH(r->arena, int64_t, *list, *n, *cap);
        if (!to)
            return dv_nomem(r->diag);
        *to = (int64_t)value;
        if (f->kind == DV_WIRE_VARINT)
            break;
    }
    return w.failed ? bad(r, "a list of numbers is cut off") : DV_OK;
}

static dv_status push_floats(const reader *r, const dv_wire_field *f,
                             dv_onnx_attr *a)
{
    size_t n = f->kind == DV_WIRE_BYTES ? f->len / 4 : 1;
    for (size_t i = 0; i < n; i++) {
        float *to =
            DV_PUSH(r->arena, float, a->floats, a->n_floats, a->cap_floats);
        if (!to)
            return dv_nomem(r->diag);
        if (f->kind == DV_WIRE_BYTES)
            memcpy(to, f->at + 4 * i, 4);
        else
            *to = float_of(f->value);
    }
    return DV_OK;
}

// -- Tensors -----------------------------------------------------------------

// Reads one entry of a tensor's external_data: location, offset or length.
static dv_status external(const reader *r, const dv_wire_field *f,
                          dv_onnx_tensor *t)
{
    const char *key = "", *value = "";
    dv_wire w;
    dv_wire_field g;
    DV_TRY(message(r, f, &w));
    while (dv_wire_next(&w, &g)) {
        if (g.number == 1)
            DV_TRY(string(r, &g, &key));
        if (g.number == 2)
            DV_TRY(string(r, &g, &value));
    }
    if (w.failed)
        return bad(r, "external data is cut off");
    if (!strcmp(key, "location")) {
        t->location = value;
        return DV_OK;
    }
    if (strcmp(key, "offset") && strcmp(key, "length"))
        return DV_OK;
    char *end;
    long long number = strtoll(value, &end, 10);
    if (end == value || *end || number < 0)
        return bad(r, "an offset or a length of external data is no number");
    *(key[0] == 'o' ? &t->offset : &t->length) = number;
    return DV_OK;
}

static dv_status tensor_field(const reader *r, const dv_wire_field *f,
                              dv_onnx_tensor *t)
{
    int64_t *dims = NULL;
    int32_t n = 0, cap = 0;
    switch (f->number) {
    case 1:
        DV_TRY(push_ints(r, f, &dims, &n, &cap));
        if (t->n_dims + n > DV_MAX_DIMS)
            return dv_fail(r->diag, DV_E_LIMIT, (dv_loc){r->src, DV_FILE},
                           "a tensor has %d dim%s, at most %d are supported",
                           (int)(t->n_dims + n),
                           DV_PLURAL((t->n_dims + n), "", "s"),
                           (int)DV_MAX_DIMS);
        for (int32_t i = 0; i < n; i++)
            t->dims[t->n_dims++] = dims[i];
        return DV_OK;
    case 2:
        t->type = (int32_t)f->value;
        return DV_OK;
    case 8:
        return string(r, f, &t->name);
    case 9:
        if (f->kind != DV_WIRE_BYTES)
            return bad(r, "raw data is a number");
        t->raw = f->at;
        t->raw_len = f->len;
        return DV_OK;
    case 13:
        return external(r, f, t);
    case 14:
        t->is_external = f->value == 1;
        return DV_OK;
    default:
        return DV_OK;
    }
}

static dv_status tensor(const reader *r, const dv_wire_field *from,
                        dv_onnx_tensor *t)
{
    dv_wire w;
    dv_wire_field f;
    DV_TRY(message(r, from, &w));
    *t = (dv_onnx_tensor){.name = "", .offset = 0, .length = -1};
    t->message = w.at;
    t->message_len = (size_t)(w.end - w.at);
    while (dv_wire_next(&w, &f))
        DV_TRY(tensor_field(r, &f, t));
    if (w.failed)
        return bad(r, "a tensor is cut off");
    for (int32_t i = 0; i < t->n_dims; i++)
        if (t->dims[i] < 0)
            return bad(r, "a tensor has a negative dim");
    return DV_OK;
}

static const struct {
    const char *name, *dtype; // dtype NULL: divvy has none
    int list; // field of the list that holds elements of this type
} types[] = {
    [0] = {"no type", NULL, 0},
    [DV_ONNX_FLOAT] = {"float", "f32", 4},
    [DV_ONNX_UINT8] = {"uint8", "u8", 5},
    [DV_ONNX_INT8] = {"int8", "i8", 5},
    [DV_ONNX_UINT16] = {"uint16", "u16", 5},
    [DV_ONNX_INT16] = {"int16", "i16", 5},
    [DV_ONNX_INT32] = {"int32", "i32", 5},
    [DV_ONNX_INT64] = {"int64", "i64", 7},
    [DV_ONNX_STRING] = {"string", NULL, 6},
    [DV_ONNX_BOOL] = {"bool", "bool", 5},
    [DV_ONNX_FLOAT16] = {"float16", "f16", 5},
    [DV_ONNX_DOUBLE] = {"double", "f64", 10},
    [DV_ONNX_UINT32] = {"uint32", "u32", 11},
    [DV_ONNX_UINT64] = {"uint64", "u64", 11},
    [DV_ONNX_COMPLEX64] = {"complex64", NULL, 0},
    [DV_ONNX_COMPLEX128] = {"complex128", NULL, 0},
    [DV_ONNX_BFLOAT16] = {"bfloat16", "bf16", 5},
};
enum { N_TYPES = (int)(sizeof types / sizeof *types) };

const char *dv_onnx_type_name(int32_t type)
{
    return type < 0 || type >= N_TYPES ? "an unknown type" : types[type].name;
}

int dv_onnx_dtype(int32_t type)
{
    const char *name = type < 0 || type >= N_TYPES ? NULL : types[type].dtype;
    int dtype = name ? dv_dtype_find(name, strlen(name)) : -1;
    return dtype < 0 && type == DV_ONNX_BOOL ? DV_I8 : dtype;
}

// Stores one number of a list as a little-endian element of `size` bytes.
static void put_number(uint8_t *to, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

// Reads the elements of a tensor from its protobuf field `list`. Returns how
// many there are, n + 1 if there are more than n, or -1 if the field is
// malformed.
static int64_t read_list(const dv_onnx_tensor *t, uint32_t list, size_t size,
                         uint8_t *out, int64_t n)
{
    dv_wire w = {t->message, t->message + t->message_len, 0};
    dv_wire_field f;
    int64_t got = 0;
    while (got <= n && dv_wire_next(&w, &f)) {
        if (f.number != list)
            continue;
        dv_wire in = dv_wire_open(&f);
        size_t width = list == 4 ? 4 : list == 10 ? 8 : 0;
        uint64_t value = f.value;
        int one = f.kind != DV_WIRE_BYTES;
        while (one || in.at < in.end) {
            if (!one && width) {
                if ((size_t)(in.end - in.at) < width)
                    return -1;
                value = 0;
                for (size_t i = 0; i < width; i++)
                    value |= (uint64_t)*in.at++ << (8 * i);
            } else if (!one && !dv_wire_varint(&in, &value)) {
                return -1;
            }
            if (got < n)
                put_number(out + (size_t)got * size, value, size);
            got++;
            if (one || got > n)
                break;
        }
    }
    return got;
}

dv_status dv_onnx_elements(const void **out, const dv_onnx_tensor *t,
                           const dv_source *src, dv_arena *arena, dv_diag *diag)
{
    reader r = {arena, src, diag, 0};
    int dtype = dv_onnx_dtype(t->type);
    if (dtype < 0)
        return dv_fail(diag, DV_E_DTYPE, (dv_loc){src, DV_FILE},
                       "tensor '%s' has type %s, which is not supported",
                       t->name, dv_onnx_type_name(t->type));
    int64_t n = 1, size = dv_dtype_get((dv_dtype)dtype)->size_bytes, bytes;
    for (int32_t i = 0; i < t->n_dims; i++)
        if (!dv_mul_i64(&n, n, t->dims[i]))
            return bad(&r, "the size of a tensor does not fit 64 bits");
    if (!dv_mul_i64(&bytes, n, size))
        return bad(&r, "the size of a tensor does not fit 64 bits");
    // A corrupt shape must not make us allocate more than the file can contain:
    // every element takes at least one byte of it.
    if (t->raw ? (uint64_t)bytes != t->raw_len : (uint64_t)n > t->message_len)
        return dv_fail(diag, DV_E_FORMAT, (dv_loc){src, DV_FILE},
                       "tensor '%s' has %" PRId64 " bytes by its shape and %zu "
                       "in the file",
                       t->name, bytes, t->raw ? t->raw_len : t->message_len);
    if (t->raw && (uintptr_t)t->raw % (uintptr_t)size == 0) {
        *out = t->raw;
        return DV_OK;
    }
    uint8_t *data = dv_arena_buffer(arena, (size_t)bytes + 1);
    if (!data)
        return dv_nomem(diag);
    if (t->raw) {
        memcpy(data, t->raw, t->raw_len);
        // The file's copy is not read again.
        dv_file_map_drop(t->raw, t->raw_len);
    } else if (read_list(t, (uint32_t)types[t->type].list, (size_t)size, data,
                         n) != n) {
        return dv_fail(diag, DV_E_FORMAT, (dv_loc){src, DV_FILE},
                       "tensor '%s' does not have the %" PRId64
                       " element%s of its shape",
                       t->name, n, DV_PLURAL(n, "", "s"));
    }
    *out = data;
    return DV_OK;
}

// -- Nodes -------------------------------------------------------------------

static dv_status graph(reader *r, const dv_wire_field *from, dv_onnx_graph *g);

static dv_status attr_field(reader *r, const dv_wire_field *f, dv_onnx_attr *a)
{
    switch (f->number) {
    case 1:
        return string(r, f, &a->name);
    case 2:
        a->f = float_of(f->value);
        return DV_OK;
    case 3:
        a->i = (int64_t)f->value;
        return DV_OK;
    case 4:
        return string(r, f, &a->s);
    case 5: {
        dv_onnx_tensor *t = DV_NEW(r->arena, dv_onnx_tensor, 1);
        a->t = t;
        return t ? tensor(r, f, t) : dv_nomem(r->diag);
    }
    case 6:
        a->g = DV_NEW(r->arena, dv_onnx_graph, 1);
        return a->g ? graph(r, f, a->g) : dv_nomem(r->diag);
    case 7:
        return push_floats(r, f, a);
    case 8:
        return push_ints(r, f, &a->ints, &a->n_ints, &a->cap_ints);
    case 9:
        return push_string(r, f, &a->strings, &a->n_strings, &a->cap_strings);
    case 21:
        return string(r, f, &a->ref);
    default:
        return DV_OK;
    }
}

static dv_status attr(reader *r, const dv_wire_field *from, dv_onnx_attr *a)
{
    dv_wire w;
    dv_wire_field f;
    DV_TRY(message(r, from, &w));
    *a = (dv_onnx_attr){.name = "", .s = ""};
    while (dv_wire_next(&w, &f))
        DV_TRY(attr_field(r, &f, a));
    return w.failed ? bad(r, "an attribute is cut off") : DV_OK;
}

static dv_status push_attr(reader *r, const dv_wire_field *f,
                           dv_onnx_attr **list, int32_t *n, int32_t *cap)
{
    dv_onnx_attr *a = DV_PUSH(r->arena, dv_onnx_attr, *list, *n, *cap);
    return a ? attr(r, f, a) : dv_nomem(r->diag);
}

static dv_status node_field(reader *r, const dv_wire_field *f, dv_onnx_node *n)
{
    switch (f->number) {
    case 1:
        return push_string(r, f, &n->inputs, &n->n_inputs, &n->cap_inputs);
    case 2:
        return push_string(r, f, &n->outputs, &n->n_outputs, &n->cap_outputs);
    case 3:
        return string(r, f, &n->name);
    case 4:
        return string(r, f, &n->type);
    case 5:
        return push_attr(r, f, &n->attrs, &n->n_attrs, &n->cap_attrs);
    case 7:
        return string(r, f, &n->domain);
    default:
        return DV_OK;
    }
}

static dv_status push_node(reader *r, const dv_wire_field *from,
                           dv_onnx_graph *g)
{
    dv_wire w;
    dv_wire_field f;
    DV_TRY(message(r, from, &w));
    dv_onnx_node *n =
        DV_PUSH(r->arena, dv_onnx_node, g->nodes, g->n_nodes, g->cap_nodes);
    if (!n)
        return dv_nomem(r->diag);
    *n = (dv_onnx_node){.name = "", .type = "", .domain = ""};
    while (dv_wire_next(&w, &f))
        DV_TRY(node_field(r, &f, n));
    if (w.failed)
        return bad(r, "a node is cut off");
    if (!strcmp(n->domain, "ai.onnx"))
        n->domain = "";
    return DV_OK;
}

// -- Inputs and outputs ------------------------------------------------------

static dv_status dim(const reader *r, const dv_wire_field *from,
                     dv_onnx_info *v)
{
    dv_wire w;
    dv_wire_field f;
    DV_TRY(message(r, from, &w));
    if (v->n_dims == DV_MAX_DIMS)
        return dv_fail(r->diag, DV_E_LIMIT, (dv_loc){r->src, DV_FILE},
                       "'%s' has more than %d dims", v->name, (int)DV_MAX_DIMS);
    int64_t *size = &v->dims[v->n_dims];
    const char **param = &v->params[v->n_dims++];
    *size = -1;
    while (dv_wire_next(&w, &f)) {
        if (f.number == 1)
            *size = (int64_t)f.value < 0 ? -1 : (int64_t)f.value;
        else if (f.number == 2)
            DV_TRY(string(r, &f, param));
    }
    return w.failed ? bad(r, "a dim is cut off") : DV_OK;
}

static dv_status shape(const reader *r, const dv_wire_field *from,
                       dv_onnx_info *v)
{
    dv_wire w;
    dv_wire_field f;
    DV_TRY(message(r, from, &w));
    v->n_dims = 0;
    while (dv_wire_next(&w, &f))
        if (f.number == 1)
            DV_TRY(dim(r, &f, v));
    return w.failed ? bad(r, "a shape is cut off") : DV_OK;
}

static dv_status tensor_type(const reader *r, const dv_wire_field *from,
                             dv_onnx_info *v)
{
    dv_wire w;
    dv_wire_field f;
    DV_TRY(message(r, from, &w));
    while (dv_wire_next(&w, &f)) {
        if (f.number == 1)
            v->type = (int32_t)f.value;
        else if (f.number == 2)
            DV_TRY(shape(r, &f, v));
    }
    return w.failed ? bad(r, "a type is cut off") : DV_OK;
}

static dv_status push_info(const reader *r, const dv_wire_field *from,
                           dv_onnx_info **list, int32_t *n, int32_t *cap)
{
    dv_wire w, type;
    dv_wire_field f, g;
    DV_TRY(message(r, from, &w));
    dv_onnx_info *v = DV_PUSH(r->arena, dv_onnx_info, *list, *n, *cap);
    if (!v)
        return dv_nomem(r->diag);
    *v = (dv_onnx_info){.name = "", .n_dims = -1};
    while (dv_wire_next(&w, &f)) {
        if (f.number == 1)
            DV_TRY(string(r, &f, &v->name));
        if (f.number != 2)
            continue;
        DV_TRY(message(r, &f, &type));
        while (dv_wire_next(&type, &g))
            if (g.number == 1)
                DV_TRY(tensor_type(r, &g, v));
        if (type.failed)
            return bad(r, "a type is cut off");
    }
    return w.failed ? bad(r, "an input or output is cut off") : DV_OK;
}

// -- Graphs, functions, models -----------------------------------------------

static dv_status graph_field(reader *r, const dv_wire_field *f,
                             dv_onnx_graph *g)
{
    dv_onnx_tensor *t;
    switch (f->number) {
    case 1:
        return push_node(r, f, g);
    case 5:
        t = DV_PUSH(r->arena, dv_onnx_tensor, g->tensors, g->n_tensors,
                    g->cap_tensors);
        return t ? tensor(r, f, t) : dv_nomem(r->diag);
    case 11:
        return push_info(r, f, &g->inputs, &g->n_inputs, &g->cap_inputs);
    case 12:
        return push_info(r, f, &g->outputs, &g->n_outputs, &g->cap_outputs);
    case 15:
        g->has_sparse = 1;
        return DV_OK;
    default:
        return DV_OK;
    }
}

static dv_status graph(reader *r, const dv_wire_field *from, dv_onnx_graph *g)
{
    dv_wire w;
    dv_wire_field f;
    DV_TRY(message(r, from, &w));
    if (++r->depth > MAX_DEPTH)
        return dv_fail(r->diag, DV_E_LIMIT, (dv_loc){r->src, DV_FILE},
                       "graphs are nested more than %d deep", (int)MAX_DEPTH);
    while (dv_wire_next(&w, &f))
        DV_TRY(graph_field(r, &f, g));
    r->depth--;
    return w.failed ? bad(r, "a graph is cut off") : DV_OK;
}

static dv_status push_opset(const reader *r, const dv_wire_field *from,
                            dv_onnx_model *m)
{
    dv_wire w;
    dv_wire_field f;
    DV_TRY(message(r, from, &w));
    dv_onnx_opset *o =
        DV_PUSH(r->arena, dv_onnx_opset, m->opsets, m->n_opsets, m->cap_opsets);
    if (!o)
        return dv_nomem(r->diag);
    *o = (dv_onnx_opset){"", 0};
    while (dv_wire_next(&w, &f)) {
        if (f.number == 1)
            DV_TRY(string(r, &f, &o->domain));
        if (f.number == 2)
            o->version = (int64_t)f.value;
    }
    if (!strcmp(o->domain, "ai.onnx"))
        o->domain = "";
    return w.failed ? bad(r, "an opset is cut off") : DV_OK;
}

static dv_status function_field(reader *r, const dv_wire_field *f,
                                dv_onnx_function *u)
{
    switch (f->number) {
    case 1:
        return string(r, f, &u->name);
    case 4:
        return push_string(r, f, &u->inputs, &u->n_inputs, &u->cap_inputs);
    case 5:
        return push_string(r, f, &u->outputs, &u->n_outputs, &u->cap_outputs);
    case 7:
        return push_node(r, f, &u->body);
    case 10:
        return string(r, f, &u->domain);
    case 11:
        return push_attr(r, f, &u->defaults, &u->n_defaults, &u->cap_defaults);
    default:
        return DV_OK;
    }
}

static dv_status push_function(reader *r, const dv_wire_field *from,
                               dv_onnx_model *m)
{
    dv_wire w;
    dv_wire_field f;
    DV_TRY(message(r, from, &w));
    dv_onnx_function *u = DV_PUSH(r->arena, dv_onnx_function, m->functions,
                                  m->n_functions, m->cap_functions);
    if (!u)
        return dv_nomem(r->diag);
    *u = (dv_onnx_function){.name = "", .domain = ""};
    while (dv_wire_next(&w, &f))
        DV_TRY(function_field(r, &f, u));
    return w.failed ? bad(r, "a function is cut off") : DV_OK;
}

dv_status dv_onnx_read_model(dv_onnx_model *out, const void *bytes, size_t len,
                             const dv_source *src, dv_arena *arena,
                             dv_diag *diag)
{
    reader r = {arena, src, diag, 0};
    dv_wire_field f;
    dv_wire w = {bytes, (const uint8_t *)bytes + len, 0};
    int graphs = 0;
    *out = (dv_onnx_model){0};
    while (dv_wire_next(&w, &f)) {
        if (f.number == 7 && ++graphs == 1)
            DV_TRY(graph(&r, &f, &out->graph));
        else if (f.number == 8)
            DV_TRY(push_opset(&r, &f, out));
        else if (f.number == 25)
            DV_TRY(push_function(&r, &f, out));
    }
    if (w.failed)
        return bad(&r, "it is cut off or damaged");
    if (graphs != 1)
        return bad(&r, graphs ? "it has several graphs" : "it has no graph");
    return DV_OK;
}

dv_status dv_onnx_read_tensor(dv_onnx_tensor *out, const void *bytes,
                              size_t len, const dv_source *src, dv_arena *arena,
                              dv_diag *diag)
{
    reader r = {arena, src, diag, 0};
    dv_wire_field f = {0, DV_WIRE_BYTES, 0, bytes, len};
    return tensor(&r, &f, out);
}
