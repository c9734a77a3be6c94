#include "darray/function.h"
#include "base/plural.h"
#include "base/text.h"
#include "divvy/session.h"
#include <string.h>

struct dv_function {
    const char *name;
    int n;
    const char *types;
    char result;
    const char *expression;
};

static const dv_function functions[] = {
#define DV_FUNCTION(name, n, types, result, expression)                        \
    {name, n, types, result, expression},
#include "darray/function.def"
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

// Conversions: [1] converts any type to bool, [2] u64 to floats, as two halves
// of 32 bits that are converted exactly, and [0] all other pairs of types.
static const dv_function casts[] = {
    {"cast", 1, "", '=', "$1"},
    {"cast", 1, "", 'b', "$1 != 0"},
    {"cast", 1, "", 'f',
     "4294967296.0 * (($1 >> 32) & 4294967295) + ($1 & 4294967295)"},
};

// -- Types --------------------------------------------------------------------

// Returns the letter of a type in function.def.
static char letter(dv_elem t)
{
    const dv_elem_info *info = dv_elem_get(t);
    if (t == DV_ELEM_BOOL)
        return 'b';
    if (info->kind == 'i')
        return info->bytes == 8 ? 'I' : 'i';
    if (info->kind == 'u')
        return info->bytes == 8 ? 'U' : 'u';
    return 'f';
}

static dv_elem signed_of(int64_t bytes)
{
    return bytes == 2 ? DV_ELEM_I16 : bytes == 4 ? DV_ELEM_I32 : DV_ELEM_I64;
}

// Replaces *a by the narrowest type that holds all values of the types *a and
// b, in which a function of two such operands is computed. Returns 0 if no type
// holds them all.
static int promote(dv_elem *a, dv_elem b)
{
    const dv_elem_info *x = dv_elem_get(*a), *y = dv_elem_get(b);
    if (*a == b)
        return 1;
    if (*a == DV_ELEM_BOOL || b == DV_ELEM_BOOL)
        return 0;
    if (x->kind == y->kind) {
        if (x->bytes == y->bytes) // f16 and bf16
            *a = DV_ELEM_F32;
        else if (x->bytes < y->bytes)
            *a = b;
        return 1;
    }
    if (x->kind == 'f' || y->kind == 'f')
        return 0;
    // Signed and unsigned: use the narrowest signed type with all values of
    // both.
    const dv_elem_info *u = x->kind == 'u' ? x : y, *i = x->kind == 'u' ? y : x;
    if (u->bytes == 8)
        return 0;
    *a = signed_of(u->bytes < i->bytes ? i->bytes : 2 * u->bytes);
    return 1;
}

static dv_status promote_all(dv_elem *out, const char *name,
                             const dv_elem *types, int n, dv_diag *diag)
{
    int first = !strcmp(name, "where");
    if (first && types[0] != DV_ELEM_BOOL)
        return dv_fail(diag, DV_E_DTYPE, DV_NOWHERE,
                       "where takes a bool first, not %s",
                       dv_elem_get(types[0])->name);
    *out = types[first];
    for (int k = first + 1; k < n; k++) {
        dv_elem was = *out;
        if (!promote(out, types[k]))
            return dv_fail(diag, DV_E_DTYPE, DV_NOWHERE,
                           "%s cannot take %s and %s together: cast one of "
                           "them (integers are mixed with integers and floats "
                           "with floats, but u64 not with signed types)",
                           name, dv_elem_get(was)->name,
                           dv_elem_get(types[k])->name);
    }
    return DV_OK;
}

static dv_status no_such_type(const char *name, dv_elem type, dv_diag *diag)
{
    if (letter(type) == 'U')
        return dv_fail(diag, DV_E_DTYPE, DV_NOWHERE,
                       "%s of u64: kernels compute it as i64, where values "
                       "from 2^63 on are negative; cast it",
                       name);
    return dv_fail(diag, DV_E_DTYPE, DV_NOWHERE,
                   "there is no %s of %s: cast it to another type", name,
                   dv_elem_get(type)->name);
}

dv_status dv_function_find(const dv_function **out, dv_elem *type,
                           const char *name, const dv_elem *types, int n,
                           dv_diag *diag)
{
    const dv_function *f = functions;
    const dv_function *end = functions + N_FUNCTIONS;
    while (f < end && strcmp(f->name, name) != 0)
        f++;
    if (f == end)
        return dv_fail(diag, DV_E_NAME, DV_NOWHERE,
                       "there is no function %s of elements", name);
    if (f->n != n)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "%s takes %d operand%s, not %d", name, f->n,
                       DV_PLURAL(f->n, "", "s"), n);
    dv_elem in = types[0];
    DV_TRY(promote_all(&in, name, types, n, diag));
    for (; f < end && !strcmp(f->name, name); f++)
        if (strchr(f->types, letter(in))) {
            *out = f;
            *type = f->result == 'b' ? DV_ELEM_BOOL : in;
            return DV_OK;
        }
    return no_such_type(name, in, diag);
}

dv_status dv_elementwise_type(dv_elem *out, const char *function,
                              const dv_elem *types, int n_operands,
                              dv_diag *diag)
{
    const dv_function *f;
    return dv_function_find(&f, out, function, types, n_operands, diag);
}

const char *dv_elementwise_name(int i)
{
    for (int k = 0; k < N_FUNCTIONS; k++)
        if ((k == 0 || strcmp(functions[k].name, functions[k - 1].name) != 0) &&
            i-- == 0)
            return functions[k].name;
    return NULL;
}

dv_status dv_function_cast(const dv_function **out, dv_elem from, dv_elem to,
                           dv_diag *diag)
{
    if ((int)to < 0 || to > DV_ELEM_BOOL)
        return dv_fail(diag, DV_E_DTYPE, DV_NOWHERE,
                       "there is no element type %d", (int)to);
    *out = &casts[to == DV_ELEM_BOOL                         ? 1
                  : letter(from) == 'U' && letter(to) == 'f' ? 2
                                                             : 0];
    return DV_OK;
}

uint64_t dv_function_hash(const dv_function *f, uint64_t h)
{
    return dv_hash(dv_hash(h, f->name, strlen(f->name)), &f->n, sizeof f->n);
}

// -- Programs -----------------------------------------------------------------

// A cache entry: the session (a program with its plans) for a program text.
typedef struct entry {
    char *text;
    dv_session *session;
    struct entry *next;
} entry;

struct dv_function_cache {
    dv_target *host;
    dv_plan_options plan;
    entry *entries; // the one used last first
    int n_entries;
};

enum { MOST_PROGRAMS = 64, PLANS_PER_PROGRAM = 32 };

static void free_entry(entry *e)
{
    dv_session_destroy(e->session);
    dv_release(e->text);
    dv_release(e);
}

void dv_function_cache_free(dv_function_cache *c)
{
    if (!c)
        return;
    for (entry *e = c->entries, *next; e; e = next) {
        next = e->next;
        free_entry(e);
    }
    dv_target_destroy(c->host);
    dv_release(c);
}

// Writes the program that computes a function of arrays. Its operands have as
// many dims as the result, also those that broadcast, whose strides are 0.
static char *write_program(const dv_function *f, const dv_elem *types,
                           dv_elem type, int n_dims)
{
    dv_text t = {0};
    for (int i = 0; i < n_dims; i++)
        dv_put(&t, "param N%d = 1\n", i);
    for (int k = 0; k < f->n; k++) {
        dv_put(&t, "input x%d: %s[", k + 1, dv_elem_get(types[k])->name);
        for (int i = 0; i < n_dims; i++)
            dv_put(&t, "%sN%d", i ? ", " : "", i);
        dv_put(&t, "]\n");
    }
    dv_put(&t, "r[");
    for (int i = 0; i < n_dims; i++)
        dv_put(&t, "%si%d", i ? "," : "", i);
    dv_put(&t, "]: %s = ", dv_elem_get(type)->name);
    for (const char *p = f->expression; *p; p++) {
        if (*p != '$') {
            dv_put(&t, "%c", *p);
            continue;
        }
        dv_put(&t, "x%c[", *++p);
        for (int i = 0; i < n_dims; i++)
            dv_put(&t, "%si%d", i ? "," : "", i);
        dv_put(&t, "]");
    }
    dv_put(&t, "\noutput r\n");
    return dv_text_take(&t);
}

static dv_status make_session(dv_session **out, const dv_team_link *p,
                              const char *text, dv_diag *diag)
{
    dv_session_options options = DV_SESSION_OPTIONS_INIT;
    dv_program *program = NULL;
    options.plan = &p->functions->plan;
    options.capacity = PLANS_PER_PROGRAM;
    DV_TRY(dv_program_parse(&program, text, strlen(text), "function", NULL, 0,
                            diag));
    dv_status st =
        dv_session_create(out, program, p->functions->host, &options, diag);
    dv_program_destroy(program);
    return st;
}

// Finds the session (a program with its plans) for a program text, or makes it.
// Takes ownership of `text`.
static dv_status use_session(dv_session **out, dv_team_link *p, char *text,
                             dv_diag *diag)
{
    dv_function_cache *c = p->functions;
    entry **link = &c->entries;
    while (*link && strcmp((*link)->text, text) != 0)
        link = &(*link)->next;
    entry *e = *link;
    if (e) {
        *link = e->next;
        dv_free(text);
    } else {
        e = dv_alloc(sizeof *e);
        if (!e) {
            dv_free(text);
            return dv_nomem(diag);
        }
        *e = (entry){.text = text};
        dv_status st = make_session(&e->session, p, text, diag);
        if (st != DV_OK) {
            free_entry(e);
            return st;
        }
        c->n_entries++;
    }
    e->next = c->entries;
    c->entries = e;
    *out = e->session;
    if (c->n_entries > MOST_PROGRAMS) {
        for (link = &c->entries; (*link)->next; link = &(*link)->next)
            ;
        free_entry(*link);
        *link = NULL;
        c->n_entries--;
    }
    return DV_OK;
}

static dv_status get_cache(dv_team_link *p, dv_diag *diag)
{
    if (p->functions)
        return DV_OK;
    dv_function_cache *c = dv_alloc(sizeof *c);
    if (!c)
        return dv_nomem(diag);
    *c = (dv_function_cache){.plan = DV_PLAN_OPTIONS_INIT};
    // Ranks that are threads of this process compute on one thread each.
    c->plan.threads =
        p->local && p->comm->size > 1 ? 1 : dv_rank_usual_threads(p->comm);
    dv_status st = dv_target_load(&c->host, "host", diag);
    if (st == DV_OK)
        p->functions = c;
    else
        dv_release(c);
    return st;
}

dv_status dv_function_run(const dv_function *f, dv_team_link *p,
                          const dv_elem *types, dv_elem type, int n_dims,
                          const int64_t *shape, const dv_function_array *to,
                          const dv_function_array *from, dv_diag *diag)
{
    static const char *const names[] = {"x1", "x2", "x3", "r"};
    static const int64_t one = 1;
    dv_operand operands[DV_FUNCTION_OPERANDS + 1];
    dv_session *session = NULL;
    // A scalar is computed as an array of one element.
    int n = n_dims ? n_dims : 1;
    DV_TRY(get_cache(p, diag));
    char *text = write_program(f, types, type, n);
    if (!text)
        return dv_nomem(diag);
    DV_TRY(use_session(&session, p, text, diag));
    for (int k = 0; k <= f->n; k++) {
        const dv_function_array *a = k < f->n ? &from[k] : to;
        operands[k] = (dv_operand)DV_OPERAND_INIT;
        operands[k].name = names[k < f->n ? k : 3];
        operands[k].dtype = (dv_dtype)(k < f->n ? types[k] : type);
        operands[k].n_dims = n;
        operands[k].shape = n_dims ? shape : &one;
        operands[k].strides = n_dims ? a->stride : &one;
        operands[k].data = a->data;
    }
    return dv_session_run(session, operands, (size_t)f->n + 1, diag);
}
