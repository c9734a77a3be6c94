// Makes all ranks of a team agree on one status and one error message.
#include "team/team.h"
#include <inttypes.h>
#include <stdio.h>

dv_status dv_comm_error(dv_comm *c, dv_status st, dv_diag *diag)
{
    return dv_fail(diag, st, DV_NOWHERE, "%s",
                   c->why[0] ? c->why : "another rank failed");
}

dv_status dv_comm_share(dv_comm *c, int64_t root, void *data, size_t bytes,
                        dv_diag *diag)
{
    dv_status st = c->ops->share(c, root, data, (int64_t)bytes);
    return st == DV_OK ? DV_OK : dv_comm_error(c, st, diag);
}

// The status and error message of the lowest rank that failed, as it is
// broadcast to all ranks.
typedef struct note {
    int64_t status;
    char text[1024];
} note;

static void write_note(note *n, dv_status st, const dv_diag *mine)
{
    const dv_message *e = dv_diag_error(mine);
    n->status = st;
    if (e && e->file[0] && e->line)
        snprintf(n->text, sizeof n->text, "%s:%d:%d: %s", e->file, (int)e->line,
                 (int)e->col, e->text);
    else if (e && e->file[0])
        snprintf(n->text, sizeof n->text, "%s: %s", e->file, e->text);
    else
        snprintf(n->text, sizeof n->text, "%s",
                 e ? e->text : dv_status_name(st));
}

dv_status dv_comm_agree_status(dv_comm *c, dv_status st, dv_diag *mine,
                               dv_diag *diag)
{
    int64_t first = st == DV_OK ? 0 : c->size - c->rank;
    dv_status met = c->ops->agree(c, &first);
    if (met != DV_OK)
        return dv_comm_error(c, met, diag);
    if (first == 0)
        return DV_OK;
    note n = {0};
    int64_t who = c->size - first;
    if (who == c->rank)
        write_note(&n, st, mine);
    DV_TRY(dv_comm_share(c, who, &n, sizeof n, diag));
    n.text[sizeof n.text - 1] = 0;
    if (c->size == 1)
        return dv_fail(diag, (dv_status)n.status, DV_NOWHERE, "%s", n.text);
    return dv_fail(diag, (dv_status)n.status, DV_NOWHERE,
                   "rank %" PRId64 ": %s", who, n.text);
}

dv_status dv_comm_conclude(dv_comm *c, dv_status st, dv_diag *mine,
                           dv_diag *diag)
{
    st = dv_comm_agree_status(c, st, mine, diag);
    dv_diag_destroy(mine);
    return st;
}

dv_status dv_comm_conclude_with(dv_comm *c, dv_status st, dv_diag *mine,
                                void *data, size_t bytes, dv_diag *diag)
{
    DV_TRY(dv_comm_conclude(c, st, mine, diag));
    return dv_comm_share(c, 0, data, bytes, diag);
}

dv_status dv_comm_same_hash(dv_comm *c, uint64_t hash, int *same)
{
    // Find the maximum of all hashes, and their minimum as the maximum of the
    // negated values; 63 bits, because agree compares signed numbers.
    int64_t most = (int64_t)(hash >> 1), least = -most;
    DV_TRY(c->ops->agree(c, &most));
    DV_TRY(c->ops->agree(c, &least));
    *same = most == -least;
    return DV_OK;
}

// Finds the value that more than half of the ranks have, if there is one, by
// the Boyer-Moore majority vote.
static dv_status common(dv_comm *c, uint64_t hash, uint64_t *out)
{
    int64_t votes = 0;
    for (int64_t r = 0; r < c->size; r++) {
        uint64_t theirs = hash;
        DV_TRY(c->ops->share(c, r, &theirs, (int64_t)sizeof theirs));
        if (votes == 0)
            *out = theirs;
        votes += theirs == *out ? 1 : -1;
    }
    return DV_OK;
}

dv_status dv_comm_check_same(dv_comm *c, uint64_t hash, const char *what,
                             dv_diag *diag)
{
    int same = 0;
    dv_status st = dv_comm_same_hash(c, hash, &same);
    if (same)
        return DV_OK;
    uint64_t usual = hash;
    if (st == DV_OK)
        st = common(c, hash, &usual);
    // Find the lowest rank whose hash is not that of the majority.
    int64_t who = usual == hash ? 0 : c->size - c->rank;
    if (st == DV_OK)
        st = c->ops->agree(c, &who);
    if (st != DV_OK)
        return dv_comm_error(c, st, diag);
    return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                   "rank %" PRId64 " has gone another way than most: its %s is "
                   "not theirs",
                   c->size - who, what);
}
