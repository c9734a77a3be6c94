// Asks the caller's solver (dv_placer) for addresses, completes its answer and
// checks it before it is used.
#include "base/math.h"
#include "scratch/scratch.h"

static int is_word(const char *s)
{
    int ok = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '_';
    for (; ok && *s; s++)
        ok = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
             (*s >= '0' && *s <= '9') || *s == '_';
    return ok;
}

// If the solver gave addresses only, adds for each placed buffer one stay (an
// interval at one address) that lasts for its whole lifetime.
static int add_stays(dv_placement *p, const dv_buffer *buffers, dv_arena *arena)
{
    if (p->stays)
        return 1;
    dv_stay *stays = DV_NEW(arena, dv_stay, p->n_buffers);
    size_t n = 0;
    for (size_t i = 0; stays && i < p->n_buffers; i++)
        if (p->addresses[i] >= 0)
            stays[n++] = (dv_stay){(int32_t)i, buffers[i].start, buffers[i].end,
                                   p->addresses[i]};
    p->stays = stays;
    p->n_stays = n;
    return stays != NULL;
}

// Sets the reasons why buffers were not placed, where the solver gave none.
// Returns 0 when out of memory.
static int add_reasons(dv_placement *p, const dv_buffer *buffers,
                       dv_arena *arena)
{
    const char **reasons = DV_NEW(arena, const char *, p->n_buffers);
    for (size_t i = 0; reasons && i < p->n_buffers; i++) {
        const char *said = p->reasons ? p->reasons[i] : NULL;
        if (p->addresses[i] < 0)
            reasons[i] = buffers[i].barred ? buffers[i].barred
                         : said            ? said
                                           : "the caller's solver left it out";
    }
    p->reasons = reasons;
    return reasons != NULL;
}

static void add_peak(dv_placement *p, const dv_buffer *buffers)
{
    p->peak_bytes = 0;
    for (size_t k = 0; k < p->n_stays; k++) {
        int32_t b = p->stays[k].buffer;
        int64_t end = 0;
        if (b >= 0 && (size_t)b < p->n_buffers &&
            dv_add_i64(&end, p->stays[k].address, buffers[b].size_bytes))
            p->peak_bytes = dv_max_i64(p->peak_bytes, end);
    }
}

dv_status dv_scratch_answer(dv_placement **out, const dv_scratch_rules *rules,
                            const dv_buffer *buffers, size_t n,
                            const dv_place_options *options, dv_arena *arena,
                            dv_diag *diag)
{
    dv_placement *p = DV_NEW(arena, dv_placement, 1);
    if (!p)
        return dv_nomem(diag);
    dv_status st = rules->place(rules->place_user, p, buffers, n, options);
    if (st != DV_OK)
        return dv_fail(diag, st > DV_OK && st <= DV_E_VERIFY ? st : DV_E_USAGE,
                       DV_NOWHERE, "the caller's solver failed");
    p->n_buffers = n;
    if (!p->addresses)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the caller's solver gave no addresses");
    p->solver = p->solver ? p->solver : "caller";
    if (!is_word(p->solver))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the caller's solver has the name '%.40s', which is no "
                       "word",
                       p->solver);
    if (!add_stays(p, buffers, arena) || !add_reasons(p, buffers, arena))
        return dv_nomem(diag);
    add_peak(p, buffers);
    st = dv_placement_check(p, buffers, options, diag);
    if (st == DV_E_CHECK)
        dv_note(diag, DV_NOWHERE, "the caller's solver placed them");
    *out = p;
    return st;
}
