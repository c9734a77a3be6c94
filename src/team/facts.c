// Checks that all ranks have the same settings. A rank lists its settings as
// pairs of a name and a value. All ranks compare the hash of the list, at the
// cost of two reductions; only if it differs do they exchange the values, to
// name the first difference.
#include "base/mem.h"
#include "base/text.h"
#include "team/team.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    // Most bytes of a list that is sent; a longer list is truncated.
    MAX_BYTES = 1 << 16,
    MAX_SHOWN = 200, // most characters of a value in an error message
};

// Prints each setting as "NAME\0+VALUE\0", or as "NAME\0-\0" without a value.
static void put_facts(dv_text *out, const dv_setting *facts, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const char *value = facts[i].value;
        dv_put(out, "%s", facts[i].name);
        dv_put_bytes(out, "", 1);
        dv_put(out, "%c%s", value ? '+' : '-', value ? value : "");
        dv_put_bytes(out, "", 1);
    }
}

// A parser of a printed list of settings: its position and the current setting,
// whose name is empty after the last.
typedef struct reader {
    const char *at, *end;
    // Strings of the current setting; value starts with '+' or '-'.
    const char *name, *value;
} reader;

// Returns the next string of the list; "" at the end, and if the list was
// truncated within the string.
static const char *next_string(reader *r)
{
    const char *s = r->at;
    const char *end = s ? memchr(s, 0, (size_t)(r->end - s)) : NULL;
    r->at = end ? end + 1 : NULL;
    return end ? s : "";
}

static void next_fact(reader *r)
{
    r->name = next_string(r);
    r->value = next_string(r);
}

static void show(char *out, size_t room, const reader *r)
{
    size_t len = strlen(r->name);
    const char *value = r->value[0] ? r->value + 1 : "";
    if (!len)
        snprintf(out, room, "with fewer settings");
    else if (r->value[0] == '-')
        snprintf(out, room, "without %.*s",
                 (int)(len - (r->name[len - 1] == '=')), r->name);
    else
        snprintf(out, room, "with %s%s%.*s%s", r->name,
                 *value && r->name[len - 1] != '=' ? " " : "", MAX_SHOWN, value,
                 strlen(value) > MAX_SHOWN ? "..." : "");
}

// Describes the first setting that differs between rank 0's list and this
// rank's.
static void first_difference(char *out, size_t room, int64_t rank,
                             const char *how, reader theirs, reader mine)
{
    char a[MAX_SHOWN + 300], b[MAX_SHOWN + 300];
    do {
        next_fact(&theirs);
        next_fact(&mine);
        if (!theirs.name[0] && !mine.name[0])
            break;
    } while (!strcmp(theirs.name, mine.name) &&
             !strcmp(theirs.value, mine.value));
    show(a, sizeof a, &mine);
    show(b, sizeof b, &theirs);
    snprintf(out, room, "rank %" PRId64 " was %s %s, rank 0 %s", rank, how, a,
             b);
}

typedef struct answer {
    char text[1024];
} answer;

// Rank 0 broadcasts its list; the lowest rank whose list differs describes the
// difference to all.
static dv_status find_difference(dv_comm *c, const dv_text *mine,
                                 const char *how, answer *out)
{
    int64_t bytes = mine->at && !mine->failed ? (int64_t)mine->len : 0;
    bytes = bytes < MAX_BYTES ? bytes : MAX_BYTES;
    int64_t n = bytes, without = 0;
    DV_TRY(c->ops->share(c, 0, &n, (int64_t)sizeof n));
    char *list = dv_alloc((size_t)n + 1);
    without = !list;
    // If any rank is out of memory, all ranks skip the broadcast.
    dv_status st = c->ops->agree(c, &without);
    if (st == DV_OK && !without && n) {
        if (c->rank == 0)
            memcpy(list, mine->at, (size_t)n);
        st = c->ops->share(c, 0, list, n);
    }
    int differs =
        !without && (n != bytes || (n && memcmp(list, mine->at, (size_t)n)));
    int64_t who = differs ? c->size - c->rank : 0;
    if (st == DV_OK)
        st = c->ops->agree(c, &who);
    if (st == DV_OK && who) {
        who = c->size - who;
        if (who == c->rank)
            first_difference(out->text, sizeof out->text, who, how,
                             (reader){.at = list, .end = list + n},
                             (reader){.at = mine->at, .end = mine->at + bytes});
        st = c->ops->share(c, who, out, (int64_t)sizeof *out);
    }
    dv_release(list);
    return st;
}

dv_status dv_comm_compare(dv_comm *c, const dv_setting *facts, int32_t n,
                          const char *how, dv_diag *diag)
{
    dv_text list = {0};
    answer a = {""};
    int same = 1;
    if (c->size == 1)
        return DV_OK;
    snprintf(a.text, sizeof a.text, "ranks were %s differently", how);
    put_facts(&list, facts, n);
    uint64_t hash = dv_hash(DV_HASH, list.at, list.at ? list.len : 0);
    dv_status st = dv_comm_same_hash(c, list.failed ? 0 : hash, &same);
    if (st == DV_OK && !same)
        st = find_difference(c, &list, how, &a);
    dv_text_free(&list);
    if (st != DV_OK)
        return dv_comm_error(c, st, diag);
    a.text[sizeof a.text - 1] = 0;
    return same ? DV_OK : dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "%s", a.text);
}

uint64_t dv_team_hash_cuts(const dv_program *p, const dv_plan_team *t)
{
    uint64_t h = DV_HASH;
    for (int32_t i = 0; i < p->n_tensors; i++)
        h = dv_hash(h, t->tensors[i].axis,
                    (size_t)t->tensors[i].n_dims *
                        sizeof t->tensors[i].axis[0]);
    for (int32_t i = 0; i < t->n_follows; i++) {
        const dv_split_reduction *f = &t->follows[i];
        int32_t what[] = {f->op, f->var, f->read, f->dim};
        h = dv_hash(h, what, sizeof what);
    }
    return h;
}

uint64_t dv_team_hash_exchanges(const dv_plan_team *t)
{
    uint64_t h = DV_HASH;
    for (int32_t i = 0; i < t->n_op_exchanges; i++) {
        const dv_op_exchange *s = &t->op_exchanges[i];
        int32_t what[] = {s->op, s->tensor, s->repeat, s->n_prior};
        h = dv_hash(h, what, sizeof what);
        h = dv_hash(h, s->prior, (size_t)s->n_prior * sizeof *s->prior);
    }
    return h;
}

dv_status dv_rank_compare(const dv_rank *r, const char *how, dv_diag *diag)
{
    dv_comm *c = NULL;
    const dv_plan *plan = dv_rank_plan(r, &c);
    const dv_plan_team *t = &plan->team;
    uint64_t program = 0;
    char text[3][24], grid[DV_MAX_AXES * 22] = "";
    size_t len = 0;
    dv_rank_hash(r, &program);
    snprintf(text[0], sizeof text[0], "%016" PRIx64, program);
    snprintf(text[1], sizeof text[1], "%016" PRIx64,
             dv_team_hash_cuts(plan->ops, t));
    snprintf(text[2], sizeof text[2], "%016" PRIx64, dv_team_hash_exchanges(t));
    for (int i = 0; i < t->n_axes; i++)
        len += (size_t)snprintf(grid + len, sizeof grid - len, "%s%" PRId64,
                                i ? "x" : "", t->grid[i]);
    const dv_setting facts[] = {{"a program with hash", text[0]},
                                {"a team of", grid},
                                {"a tensor distribution with hash", text[1]},
                                {"exchanges with hash", text[2]}};
    return dv_comm_compare(c, facts, (int32_t)(sizeof facts / sizeof *facts),
                           how, diag);
}
