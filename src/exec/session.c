// Sessions: a cache of plans and execs by the values of the program's params,
// which follow from the shapes of operands (ir/infer.h).
//
// An entry that a thread is making is in the list already, so that other
// threads wait for it instead of making it, too. One that is in use is never
// evicted. Runs that are not under way wait in a list of their entry.
#include "divvy/session.h"
#include "base/options.h"
#include "exec/state.h"
#include "ir/infer.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_CAPACITY = 8 };

// A run of a cached entry (a plan and its exec) that is not executing at
// present.
typedef struct idle {
    dv_run *run;
    struct idle *next;
} idle;

typedef struct entry {
    int64_t *values; // of params, by number; what is not known is 0
    uint8_t *known;
    dv_plan *plan;
    dv_exec *exec;
    idle *runs;
    int making;         // 1 while a thread makes plan and exec
    int64_t users;      // threads that make or run it
    int64_t last_use;   // number of the run that ended last
    struct entry *next; // entries of a session, in no order
} entry;

typedef struct shape {
    int64_t dims[DV_MAX_DIMS];
} shape;

typedef struct number {
    char text[24];
} number;

struct dv_session {
    dv_program *program; // with the default values of params
    char *text;          // of the program; owned
    dv_target target;
    dv_session_options o;
    // By tensor: what the user has bound with dv_session_constant; `data` is
    // NULL if nothing. Its shapes are copied to `shapes`.
    dv_operand *constants;
    shape *shapes;
    pthread_mutex_t lock; // protects what follows
    pthread_cond_t made;  // an entry was made, or making it has failed
    entry *entries;
    int64_t n_runs;
    dv_session_stats stats;
    dv_arena arena; // holds the arrays above
};

// -- Operands -----------------------------------------------------------------

// Copies an operand that the caller passed and finds the tensor that it names.
static dv_status read_operand(const dv_session *s, const dv_operand *given,
                              dv_operand *o, int32_t *tensor, dv_diag *diag)
{
    const dv_program *p = s->program;
    *o = (dv_operand)DV_OPERAND_INIT;
    DV_TRY(dv_options_read(o, sizeof *o, given, "dv_operand", diag));
    *tensor =
        o->name ? dv_program_find(p, o->name) : dv_operand_tensor(p, o->number);
    if (*tensor < 0 && o->name)
        return dv_fail(diag, DV_E_NAME, DV_NOWHERE, "there is no tensor %s",
                       o->name);
    if (*tensor < 0)
        return dv_fail(diag, DV_E_NAME, DV_NOWHERE, "there is no operand %d",
                       o->number);
    o->name = p->tensors[*tensor].name;
    if (!dv_is_operand(&p->tensors[*tensor]))
        return dv_fail(diag, DV_E_NAME, DV_NOWHERE,
                       "%s is neither an input nor an output", o->name);
    if (o->n_dims < 0 || o->n_dims > DV_MAX_DIMS || (o->n_dims && !o->shape))
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "%s has no shape of 0 to %d dims", o->name,
                       (int)DV_MAX_DIMS);
    return DV_OK;
}

// The operands of one call, with their names, and the parameter values that
// follow from their shapes.
typedef struct call {
    dv_arena arena;
    dv_operand *operands;
    size_t n;
    int64_t *values;
    uint8_t *known;
    uint8_t *is_given; // by tensor
} call;

static dv_status begin_call(call *c, const dv_session *s,
                            const dv_operand *operands, size_t n, dv_diag *diag)
{
    const dv_program *p = s->program;
    size_t n_shapes = 0, n_params = (size_t)p->n_params;
    DV_TRY(dv_options_list(operands, n, "operands", diag));
    dv_input_shape *shapes =
        DV_NEW(&c->arena, dv_input_shape, n + (size_t)p->n_tensors);
    c->operands = DV_NEW(&c->arena, dv_operand, n + 1);
    c->values = DV_NEW(&c->arena, int64_t, n_params + 1);
    c->known = DV_NEW(&c->arena, uint8_t, n_params + 1);
    c->is_given = DV_NEW(&c->arena, uint8_t, p->n_tensors + 1);
    if (!shapes || !c->operands || !c->values || !c->known || !c->is_given)
        return dv_nomem(diag);
    c->n = n;
    for (size_t i = 0; i < n; i++) {
        dv_operand *o = &c->operands[i];
        int32_t t;
        DV_TRY(read_operand(s, &operands[i], o, &t, diag));
        c->is_given[t] = 1;
        if (p->tensors[t].is_input)
            shapes[n_shapes++] = (dv_input_shape){o->name, o->n_dims, o->shape};
    }
    for (int32_t t = 0; t < p->n_tensors; t++)
        if (s->constants[t].data)
            shapes[n_shapes++] =
                (dv_input_shape){p->tensors[t].name, s->constants[t].n_dims,
                                 s->constants[t].shape};
    return dv_infer_params(p, shapes, n_shapes, c->values, c->known, diag);
}

// Makes the session's program with the parameter values of a call.
static dv_status make_program(dv_program **out, const dv_session *s, call *c,
                              dv_diag *diag)
{
    const dv_program *p = s->program;
    size_t n = 0;
    dv_param *params = DV_NEW(&c->arena, dv_param, p->n_params + 1);
    number *numbers = DV_NEW(&c->arena, number, p->n_params + 1);
    if (!params || !numbers)
        return dv_nomem(diag);
    for (int32_t i = 0; i < p->n_params; i++) {
        if (!c->known[i])
            continue;
        snprintf(numbers[n].text, sizeof numbers[n].text, "%" PRId64,
                 c->values[i]);
        params[n] = (dv_param){p->params[i].name, numbers[n].text};
        n++;
    }
    return dv_program_parse(out, s->text, strlen(s->text), p->src.name, params,
                            n, diag);
}

dv_status dv_session_operand(dv_session *s, const dv_operand *inputs,
                             size_t n_inputs, int i, dv_tensor_info *out,
                             dv_diag *diag)
{
    call c = {.n = 0};
    dv_program *p = NULL;
    int32_t t = dv_operand_tensor(s->program, i);
    if (t < 0)
        return DV_E_USAGE;
    dv_status st = begin_call(&c, s, inputs, n_inputs, diag);
    if (st == DV_OK)
        st = make_program(&p, s, &c, diag);
    if (st == DV_OK) {
        dv_program_tensor(p, dv_program_find(p, s->program->tensors[t].name),
                          out);
        out->name = s->program->tensors[t].name;
        out->file = s->program->tensors[t].file;
    }
    dv_program_destroy(p);
    dv_arena_free(&c.arena);
    return st;
}

// -- Entries ------------------------------------------------------------------

static void free_entry(entry *e)
{
    while (e->runs) {
        idle *next = e->runs->next;
        dv_run_destroy(e->runs->run);
        dv_release(e->runs);
        e->runs = next;
    }
    dv_exec_destroy(e->exec);
    dv_plan_destroy(e->plan);
    dv_release(e->values);
    dv_release(e->known);
    dv_release(e);
}

static void remove_entry(dv_session *s, entry *e)
{
    entry **link = &s->entries;
    while (*link != e)
        link = &(*link)->next;
    *link = e->next;
    s->stats.n_plans--;
    free_entry(e);
}

static entry *find_entry(const dv_session *s, const call *c)
{
    size_t n = (size_t)s->program->n_params;
    entry *e = s->entries;
    while (e && (memcmp(e->values, c->values, n * sizeof *e->values) != 0 ||
                 memcmp(e->known, c->known, n) != 0))
        e = e->next;
    return e;
}

// Adds a cache entry for a call, marked as being made. Returns NULL when out of
// memory.
static entry *add_entry(dv_session *s, const call *c)
{
    size_t n = (size_t)s->program->n_params;
    entry *e = dv_alloc(sizeof *e);
    if (!e)
        return NULL;
    *e = (entry){.values = dv_alloc((n + 1) * sizeof *e->values),
                 .known = dv_alloc(n + 1),
                 .making = 1,
                 .users = 1};
    if (!e->values || !e->known) {
        free_entry(e);
        return NULL;
    }
    memcpy(e->values, c->values, n * sizeof *e->values);
    memcpy(e->known, c->known, n);
    e->next = s->entries;
    s->entries = e;
    s->stats.n_plans++;
    return e;
}

static dv_status bind_constants(const dv_session *s, entry *e, dv_diag *diag)
{
    dv_tensor_info info;
    for (int i = 0; dv_exec_operand(e->exec, i, &info) == DV_OK; i++) {
        int32_t t = dv_program_find(s->program, info.name);
        const dv_operand *o = &s->constants[t];
        if (!o->data)
            continue;
        if (o->dtype != info.dtype ||
            memcmp(o->shape, info.shape,
                   (size_t)info.n_dims * sizeof *o->shape))
            return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                           "the constant %s has another type or shape than the "
                           "program with these inputs",
                           info.name);
        DV_TRY(dv_exec_bind(e->exec, info.name, o->data,
                            (size_t)info.size_bytes, diag));
    }
    return DV_OK;
}

static dv_status make_entry(const dv_session *s, entry *e, call *c,
                            dv_diag *diag)
{
    dv_program *p = NULL;
    dv_exec_options options = DV_EXEC_OPTIONS_INIT;
    dv_strides *strides = DV_NEW(&c->arena, dv_strides, c->n + 1);
    if (!strides)
        return dv_nomem(diag);
    for (size_t i = 0; i < c->n; i++)
        if (c->operands[i].strides)
            strides[options.n_strides++] =
                (dv_strides){c->operands[i].name, c->operands[i].strides};
    options.strides = strides;
    DV_TRY(make_program(&p, s, c, diag));
    dv_status st = dv_plan_create(&e->plan, p, &s->target, s->o.plan, diag);
    dv_program_destroy(p);
    if (st == DV_OK)
        st = dv_exec_create_with(&e->exec, e->plan, &options, diag);
    return st == DV_OK ? bind_constants(s, e, diag) : st;
}

// Finds the cache entry (plan and exec) for a call, or makes it. The session is
// locked on entry and on return, but not while an entry is made.
static dv_status use_entry(dv_session *s, call *c, entry **out, dv_diag *diag)
{
    entry *e;
    while ((e = find_entry(s, c)) && e->making)
        pthread_cond_wait(&s->made, &s->lock);
    *out = e;
    if (e) {
        e->users++;
        s->stats.n_hits++;
        return DV_OK;
    }
    s->stats.n_misses++;
    *out = e = add_entry(s, c);
    if (!e)
        return dv_nomem(diag);
    pthread_mutex_unlock(&s->lock);
    dv_status st = make_entry(s, e, c, diag);
    pthread_mutex_lock(&s->lock);
    e->making = 0;
    pthread_cond_broadcast(&s->made);
    if (st != DV_OK)
        remove_entry(s, e);
    return st;
}

// Removes the least recently used cache entries until at most `capacity`
// remain.
static void evict(dv_session *s)
{
    int64_t capacity = s->o.capacity ? s->o.capacity : DEFAULT_CAPACITY;
    while (s->stats.n_plans > capacity) {
        entry *oldest = NULL;
        for (entry *e = s->entries; e; e = e->next)
            if (!e->users && (!oldest || e->last_use < oldest->last_use))
                oldest = e;
        if (!oldest)
            return; // all are in use
        remove_entry(s, oldest);
        s->stats.n_evicted++;
    }
}

// -- Runs ---------------------------------------------------------------------

// Takes a run of the entry that is not executing; NULL: there is none. The
// session is locked.
static idle *take_idle(entry *e)
{
    idle *i = e->runs;
    if (i)
        e->runs = i->next;
    return i;
}

static dv_status make_idle(const dv_session *s, entry *e, idle **out,
                           dv_diag *diag)
{
    idle *i = dv_alloc(sizeof *i);
    if (!i)
        return dv_nomem(diag);
    *i = (idle){0};
    dv_status st = dv_run_create(&i->run, e->exec, s->o.run, diag);
    if (st != DV_OK) {
        dv_release(i);
        return st;
    }
    dv_run_watch(i->run, s->o.watch, s->o.user);
    *out = i;
    return DV_OK;
}

static dv_status run_with(dv_run *r, const call *c, dv_diag *diag)
{
    for (size_t i = 0; i < c->n; i++)
        DV_TRY(dv_run_bind(r, &c->operands[i], diag));
    return dv_run_now(r, diag);
}

static dv_status run_entry(dv_session *s, call *c, dv_diag *diag)
{
    entry *e = NULL;
    idle *i = NULL;
    pthread_mutex_lock(&s->lock);
    dv_status st = use_entry(s, c, &e, diag);
    if (st == DV_OK)
        i = take_idle(e);
    pthread_mutex_unlock(&s->lock);
    if (st != DV_OK)
        return st;
    st = i ? DV_OK : make_idle(s, e, &i, diag);
    if (st == DV_OK)
        st = run_with(i->run, c, diag);
    pthread_mutex_lock(&s->lock);
    if (i) {
        i->next = e->runs;
        e->runs = i;
    }
    e->users--;
    e->last_use = ++s->n_runs;
    evict(s);
    pthread_mutex_unlock(&s->lock);
    return st;
}

static dv_status check_complete(const dv_session *s, const call *c,
                                dv_diag *diag)
{
    for (int32_t t = 0; t < s->program->n_tensors; t++) {
        const dv_tensor *of = &s->program->tensors[t];
        if (dv_is_operand(of) && !of->file && !c->is_given[t] &&
            !s->constants[t].data)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "%s is not bound",
                           of->name);
    }
    return DV_OK;
}

dv_status dv_session_run(dv_session *s, const dv_operand *operands,
                         size_t n_operands, dv_diag *diag)
{
    call c = {.n = 0};
    dv_status st = begin_call(&c, s, operands, n_operands, diag);
    if (st == DV_OK)
        st = check_complete(s, &c, diag);
    if (st == DV_OK)
        st = run_entry(s, &c, diag);
    dv_arena_free(&c.arena);
    return st;
}

void dv_session_stats_get(dv_session *s, dv_session_stats *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->stats;
    pthread_mutex_unlock(&s->lock);
}

// -- Sessions -----------------------------------------------------------------

dv_status dv_session_constant(dv_session *s, const dv_operand *constant,
                              dv_diag *diag)
{
    dv_operand o;
    int32_t t;
    DV_TRY(read_operand(s, constant, &o, &t, diag));
    if (!s->program->tensors[t].is_const || s->program->tensors[t].file)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "%s is no constant without a file", o.name);
    if (!o.data || o.strides)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the constant %s is row-major and in memory", o.name);
    memcpy(s->shapes[t].dims, o.shape, (size_t)o.n_dims * sizeof *o.shape);
    o.shape = s->shapes[t].dims;
    o.data = (char *)o.data + o.offset_bytes;
    s->constants[t] = o;
    while (s->entries)
        remove_entry(s, s->entries);
    return DV_OK;
}

static dv_status set_up(dv_session *s, const dv_program *p, const dv_target *t,
                        dv_diag *diag)
{
    s->target = *t;
    s->text = dv_program_text(p);
    if (!s->text)
        return dv_nomem(diag);
    DV_TRY(dv_program_parse(&s->program, s->text, strlen(s->text), p->src.name,
                            NULL, 0, diag));
    size_t n = (size_t)s->program->n_tensors;
    s->constants = DV_NEW(&s->arena, dv_operand, n + 1);
    s->shapes = DV_NEW(&s->arena, shape, n + 1);
    return s->constants && s->shapes ? DV_OK : dv_nomem(diag);
}

dv_status dv_session_create(dv_session **out, const dv_program *program,
                            const dv_target *target,
                            const dv_session_options *options, dv_diag *diag)
{
    dv_session_options o = DV_SESSION_OPTIONS_INIT;
    DV_TRY(dv_options_read(&o, sizeof o, options, "dv_session_options", diag));
    if (o.capacity < 0)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "option capacity is %" PRId64 ", less than 0",
                       o.capacity);
    dv_session *s = dv_alloc(sizeof *s);
    if (!s)
        return dv_nomem(diag);
    *s = (dv_session){.o = o};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->made, NULL);
    dv_status st = set_up(s, program, target, diag);
    if (st == DV_OK)
        *out = s;
    else
        dv_session_destroy(s);
    return st;
}

void dv_session_destroy(dv_session *s)
{
    if (!s)
        return;
    while (s->entries)
        remove_entry(s, s->entries);
    dv_program_destroy(s->program);
    dv_free(s->text);
    pthread_cond_destroy(&s->made);
    pthread_mutex_destroy(&s->lock);
    dv_arena_free(&s->arena);
    dv_release(s);
}
