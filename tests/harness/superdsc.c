// Emits plans as SuperDSC, reads the files and checks their fields; see
// superdsc.h.
#define _POSIX_C_SOURCE 200809L // mkdtemp
#include "harness/superdsc.h"
#include "base/file.h"
#include "harness/unit.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// -- Files --------------------------------------------------------------------

static void read_one(dsc_files *f, int i, const char *dir, const char *name)
{
    char path[128];
    dv_diag *diag = dv_diag_create();
    char *text;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    must(dv_file_read(&text, &f->source[i].len, path, 1 << 26, diag) == DV_OK);
    f->source[i].name = "emitted";
    f->source[i].text = text;
    must(dv_json_parse(&f->root[i], &f->source[i], &f->arena, diag) == DV_OK);
    must(remove(path) == 0);
    dv_diag_destroy(diag);
}

int dsc_try(dsc_files *f, const dv_plan *plan)
{
    char dir[] = "superdsc_XXXXXX", name[40];
    dv_diag *diag = dv_diag_create();
    must(mkdtemp(dir) != NULL);
    dv_status st = dv_plan_emit(plan, DV_EMIT_SUPERDSC, dir, diag);
    if (st != DV_OK)
        case_no("%s", dv_diag_message(diag));
    dv_diag_destroy(diag);
    if (st != DV_OK) {
        must(st == DV_E_USAGE && rmdir(dir) == 0);
        return 0;
    }
    *f = (dsc_files){.n_steps = 0};
    f->source = DV_NEW(&f->arena, dv_source, 1);
    f->root = DV_NEW(&f->arena, const dv_jval *, 1);
    read_one(f, 0, dir, "bundle.json");
    const dv_jval *bundle = f->root[0];
    dv_source first = f->source[0];
    f->n_steps = dsc_get(bundle, "steps")->n;
    size_t n = (size_t)f->n_steps + 1;
    f->source = DV_NEW(&f->arena, dv_source, n);
    f->root = DV_NEW(&f->arena, const dv_jval *, n);
    f->source[0] = first;
    f->root[0] = bundle;
    for (int i = 0; i < f->n_steps; i++) {
        snprintf(name, sizeof name, "sdsc_%d.json", i);
        const dv_jval *entry = &dsc_get(bundle, "steps")->items[i];
        must(!strcmp(dsc_get(entry, "file")->s, name));
        read_one(f, i + 1, dir, name);
    }
    must(rmdir(dir) == 0);
    return 1;
}

void dsc_emit(dsc_files *f, const dv_plan *plan)
{
    must(dsc_try(f, plan));
}

void dsc_free(dsc_files *f)
{
    for (int i = 0; i <= f->n_steps; i++)
        dv_release((char *)(uintptr_t)f->source[i].text);
    dv_arena_free(&f->arena);
}

const dv_jval *dsc_step(const dsc_files *f, int i)
{
    must(f->root[i + 1]->kind == DV_JOBJECT && f->root[i + 1]->n == 1);
    return &f->root[i + 1]->items[0];
}

const dv_jval *dsc_get(const dv_jval *v, const char *key)
{
    const dv_jval *x = dv_jget(v, key);
    if (!x)
        fprintf(stderr, "no %s\n", key);
    must(x != NULL);
    return x;
}

// -- Fields -------------------------------------------------------------------

// A row of a table of docs/superdsc.md: a field of a record.
typedef struct row {
    char record[24], field[32], type[48], when[16];
} row;

typedef struct schema {
    row *rows;
    int n;
} schema;

// Copies the text between two marks.
static const char *cut(char *to, size_t size, const char *from,
                       const char *begin, const char *end)
{
    const char *a = strstr(from, begin);
    must(a != NULL);
    a += strlen(begin);
    const char *z = strstr(a, end);
    must(z != NULL && (size_t)(z - a) < size);
    memcpy(to, a, (size_t)(z - a));
    to[z - a] = '\0';
    return z;
}

static void read_schema(schema *s, const char *doc)
{
    char *text, record[24] = "";
    size_t len;
    must(dv_file_read(&text, &len, doc, 1 << 26, NULL) == DV_OK);
    s->rows = calloc(300, sizeof *s->rows);
    s->n = 0;
    for (const char *at = text; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (!strncmp(at, "### ", 4))
            cut(record, sizeof record, at, "### ", "\n");
        if (strncmp(at, "| `", 3) || !record[0])
            continue;
        must(s->n < 300);
        row *r = &s->rows[s->n++];
        memcpy(r->record, record, sizeof record);
        const char *z = cut(r->field, sizeof r->field, at, "| `", "` | ");
        z = cut(r->type, sizeof r->type, z, "` | ", " | ");
        cut(r->when, sizeof r->when, z, " | ", " | ");
    }
    dv_release(text);
    must(s->n > 90);
}

static int is_dim(const char *key, size_t len)
{
    static const char *const dims[] = {"mb", "x",  "y",   "i", "j",
                                       "ki", "kj", "out", "in"};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        if (strlen(dims[i]) == len && !memcmp(dims[i], key, len))
            return 1;
    return 0;
}

static int is_number(const char *key)
{
    size_t n = strspn(key, "0123456789");
    return n > 0 && key[n] == '\0';
}

static int is_key(const char *kind, size_t n, const char *key)
{
    if (!strncmp(kind, "dim", n))
        return is_dim(key, strlen(key));
    if (!strncmp(kind, "core", n) || !strncmp(kind, "number", n))
        return is_number(key);
    if (!strncmp(kind, "position", n))
        return key[0] == '[' && key[strlen(key) - 1] == ']';
    return !strncmp(kind, "name", n) && isalpha((unsigned char)key[0]);
}

static int has_type(const schema *s, const dv_jval *v, const char *type,
                    size_t n);

static int has_record(const schema *s, const dv_jval *v, const char *record,
                      size_t n)
{
    int known = 0, rows = 0;
    if (v->kind != DV_JOBJECT)
        return 0;
    for (int i = 0; i < s->n; i++) {
        const row *r = &s->rows[i];
        if (strlen(r->record) != n || memcmp(r->record, record, n) != 0)
            continue;
        rows++;
        int per_dim = !strcmp(r->field, "<dim>_"), found = 0;
        for (int k = 0; k < v->n; k++) {
            const char *key = v->items[k].key;
            size_t len = strlen(key);
            if (per_dim ? !is_dim(key, len - 1) || key[len - 1] != '_'
                        : strcmp(key, r->field) != 0)
                continue;
            found++;
            if (!has_type(s, &v->items[k], r->type, strlen(r->type))) {
                fprintf(stderr, "%s/%s is no %s\n", r->record, key, r->type);
                return 0;
            }
        }
        known += found;
        if (!strcmp(r->when, "always") && found != 1) {
            fprintf(stderr, "%s has no %s\n", r->record, r->field);
            return 0;
        }
    }
    if (rows == 0 || known != v->n)
        fprintf(stderr, "%.*s: %d of %d members are known\n", (int)n, record,
                known, v->n);
    return rows > 0 && known == v->n;
}

// Returns where the first alternative of a type ends.
static size_t alternative(const char *type, size_t n)
{
    int depth = 0;
    for (size_t i = 0; i < n; i++) {
        depth += type[i] == '{' || type[i] == '[';
        depth -= type[i] == '}' || type[i] == ']';
        if (!depth && n - i > 4 && !memcmp(type + i, " or ", 4))
            return i;
    }
    return n;
}

static int has_type(const schema *s, const dv_jval *v, const char *type,
                    size_t n)
{
    static const struct {
        const char *name;
        dv_jkind kind;
    } plain[] = {{"int", DV_JINT}, {"string", DV_JSTRING}, {"null", DV_JNULL}};
    size_t end = alternative(type, n);
    if (end < n)
        return (has_type(s, v, type, end)) ||
               has_type(s, v, type + end + 4, n - end - 4);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strlen(plain[i].name) == n && !memcmp(plain[i].name, type, n))
            return v->kind == plain[i].kind;
    if (n == 6 && !memcmp(type, "number", n))
        return v->kind == DV_JINT || v->kind == DV_JFLOAT;
    if (type[0] == '[') {
        for (int i = 0; i < v->n; i++)
            if (!has_type(s, &v->items[i], type + 1, n - 2))
                return 0;
        return v->kind == DV_JARRAY;
    }
    if (type[0] != '{')
        return has_record(s, v, type, n);
    const char *colon = memchr(type, ':', n);
    if (v->kind != DV_JOBJECT || (!colon && v->n))
        return 0;
    for (int i = 0; i < v->n; i++)
        if (!is_key(type + 1, (size_t)(colon - type) - 1, v->items[i].key) ||
            !has_type(s, &v->items[i], colon + 2,
                      n - (size_t)(colon - type) - 3))
            return 0;
    return 1;
}

void dsc_check_fields(const dsc_files *f, const char *doc)
{
    schema s;
    read_schema(&s, doc);
    must(has_type(&s, f->root[0], "bundle", 6));
    for (int i = 0; i < f->n_steps; i++)
        must(has_type(&s, dsc_step(f, i), "step", 4));
    free(s.rows);
}
