// Places all items (buffers) or none, and finds the least capacity for which
// all of them fit.
#include "place/rects.h"

static int late(void *effort)
{
    return dv_deadline_passed(effort);
}

typedef struct whole {
    dv_rects rects;
    dv_choice choice;
    dv_pack_limits limits;
    dv_pack_stats stats;
    // 1 if some items take over the address of a parent (in-place reuse).
    int shares;
} whole;

static int prepare(whole *w, const dv_task *t, dv_effort *effort, dv_arena *a)
{
    *w = (whole){
        .limits = {.max_work = effort->left, .stop = late, .stop_cx = effort}};
    w->choice.keep = DV_NEW(a, char, t->n);
    w->choice.over = DV_NEW(a, int32_t, t->n);
    if (!w->choice.keep || !w->choice.over || !dv_rects_init(&w->rects, t, a))
        return 0;
    w->shares = dv_rects_choose_all(&w->rects, &w->choice);
    dv_rects_from_choice(&w->rects, &w->choice);
    return 1;
}

dv_fit dv_pack_all(const dv_task *t, dv_effort *effort, dv_answer *out)
{
    for (int32_t i = 0; i < t->n; i++)
        if (!t->items[i].in_play && t->items[i].fixed < 0)
            return DV_FIT_NO;
    dv_arena a = {0};
    whole w;
    dv_fit fit = DV_FIT_NOMEM;
    if (prepare(&w, t, effort, &a)) {
        fit =
            dv_pack(w.rects.rects, w.rects.n, t->capacity, &w.limits, &w.stats);
        effort->nodes += w.stats.nodes;
    }
    if (fit == DV_FIT_YES) {
        dv_rects_store_addresses(&w.rects, out->at);
        out->value = dv_placed_weight(t, out->at);
    }
    // Which parent's address each child takes over (in-place reuse) was fixed
    // before packing. Other decisions might still fit, so this failure is no
    // proof.
    if (fit == DV_FIT_NO && w.shares)
        fit = DV_FIT_OPEN;
    dv_arena_free(&a);
    return fit;
}

dv_fit dv_pack_all_least(const dv_task *t, dv_effort *effort, dv_answer *out,
                         int64_t *proven)
{
    dv_arena a = {0};
    whole w;
    int64_t capacity = t->capacity;
    dv_fit fit = DV_FIT_NOMEM;
    if (prepare(&w, t, effort, &a)) {
        fit = dv_pack_least(w.rects.rects, w.rects.n, &capacity, &w.limits,
                            &w.stats);
        effort->nodes += w.stats.nodes;
    }
    if (fit == DV_FIT_YES || fit == DV_FIT_OPEN) {
        dv_rects_store_addresses(&w.rects, out->at);
        out->value = dv_placed_weight(t, out->at);
        *proven = w.shares ? 0 : w.stats.bound;
    }
    dv_arena_free(&a);
    return fit;
}
