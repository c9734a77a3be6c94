// The pass "ranks" and its section of the plan: the plan of each rank of a
// team.
//
//   ranks {
//       pin "y:i=2"
//       class 0, 3 cores 2 {
//           program fused { … }
//           layout { … }
//           …
//       }
//   }
//
// Ranks whose programs are equal are a class and share one plan. Of a team of
// more than MOST_RANKS only the class of the plan's own rank is planned,
// because planning must not take longer the larger the team is. A pin is a
// choice that the user prescribed; ranks that are planned again when they run
// obey it too.
#include "base/math.h"
#include "base/plural.h"
#include "dist/rank_program.h"
#include <inttypes.h>
#include <string.h>

enum { MOST_RANKS = 16, MOST_CORES = 1 << 20 };

// Returns the class of ranks (ranks with equal programs) that has the program
// `text`, or NULL.
static dv_rank_class *find_class(dv_plan *plan, const char *text)
{
    for (int32_t i = 0; i < plan->n_classes; i++)
        if (!strcmp(plan->classes[i].program, text))
            return &plan->classes[i];
    return NULL;
}

// Returns the options for the plan of a rank: those of the team's plan, with
// the rank's share of the cores if the ranks run on this machine.
static dv_plan_options options_of(const dv_pass_cx *cx, const dv_plan *plan,
                                  int own)
{
    dv_plan_options o = *cx->options;
    // The target in the team's plan is already limited to the allowed cores.
    o.team = o.rank = o.cores = 0;
    o.n_allowed = o.n_holes = 0;
    o.grid = NULL;
    if (!own)
        o.after_pass = NULL;
    if (dv_target_runs_here(&plan->target) && !o.threads)
        o.threads =
            dv_max_i64(1, plan->target.cores / dv_plan_team_size(&plan->team));
    return o;
}

// Returns 1 if a pin (a choice that the user prescribes) is about an op of the
// program: OP:VARIABLE=NUMBER, OP.kernel=KIND or OP.tile=VARIABLE:SIZE.
static int applies(const dv_program *p, const char *pin)
{
    const char *equals = strrchr(pin, '='), *end = equals;
    int slices = !dv_pin_is_of_schedule(pin);
    while (end && end > pin && *end != (slices ? ':' : '.'))
        end--;
    size_t len = end ? (size_t)(end - pin) : 0;
    for (int32_t i = 0; i < p->n_ops && len; i++) {
        const dv_op *o = &p->ops[i];
        if (strlen(o->name) != len || strncmp(o->name, pin, len) != 0)
            continue;
        size_t var = (size_t)(equals - end - 1);
        for (int v = 0; v < o->n_vars && slices; v++)
            if (strlen(o->vars[v].name) == var &&
                !strncmp(o->vars[v].name, end + 1, var))
                return 1;
        return !slices;
    }
    return 0;
}

// Removes the pins (choices that the user prescribes) and bars (what the user
// keeps out of scratchpads) about ops, variables and tensors of which the rank
// has no part. Those that match nothing in the team's program are kept, so that
// they are reported as errors.
static int keep_pins(dv_plan_options *o, const dv_plan *team,
                     const dv_program *p, dv_arena *arena)
{
    const char **pins = DV_NEW(arena, const char *, o->n_pins);
    const char **bars = DV_NEW(arena, const char *, o->n_bars);
    size_t n = 0, m = 0;
    for (size_t i = 0; i < o->n_bars && bars; i++)
        if (dv_bar_applies(p, o->bars[i]) || !dv_bar_known(team, o->bars[i]))
            bars[m++] = o->bars[i];
    o->bars = bars;
    o->n_bars = m;
    for (size_t i = 0; i < o->n_pins && pins; i++)
        if (applies(p, o->pins[i]) || !applies(team->ops, o->pins[i]))
            pins[n++] = o->pins[i];
    o->pins = pins;
    o->n_pins = n;
    return pins && bars;
}

dv_status dv_rank_program_plan(dv_plan **out, const dv_plan *team,
                               dv_rank_program *r, const int32_t *team_ops,
                               const dv_plan_options *options, dv_diag *diag)
{
    dv_arena arena = {0};
    dv_plan_options o = *options;
    if (!keep_pins(&o, team, r->p, &arena)) {
        dv_arena_free(&arena);
        return dv_nomem(diag);
    }
    dv_program *ops = r->p;
    r->p = NULL;
    dv_status st = dv_plan_rank(out, team, ops, team_ops, &o, diag);
    dv_arena_free(&arena);
    return st;
}

static const char *copy_text(dv_arena *arena, const char *text)
{
    return text ? dv_arena_copy(arena, text, strlen(text)) : NULL;
}

// Copies the options into the team's plan, for ranks that are planned again
// when they run.
static dv_status keep_options(const dv_pass_cx *cx, dv_plan *plan)
{
    dv_arena *arena = &plan->arena;
    dv_plan_options *o = DV_NEW(arena, dv_plan_options, 1);
    const char **pins = DV_NEW(arena, const char *, cx->options->n_pins);
    const char **bars = DV_NEW(arena, const char *, cx->options->n_bars);
    int ok = o && pins && bars;
    if (!ok)
        return dv_nomem(cx->diag);
    *o = options_of(cx, plan, 0);
    o->user = NULL;
    // The caller's solver may not exist any more when ranks are planned again.
    o->place = NULL;
    o->place_user = NULL;
    o->stop_after = NULL;
    // The programs of ranks have inputs in place of constants.
    o->constants = NULL;
    o->n_constants = 0;
    o->policy = copy_text(arena, cx->options->policy);
    o->order = copy_text(arena, cx->options->order);
    ok = (o->policy || !cx->options->policy) &&
         (o->order || !cx->options->order);
    for (size_t i = 0; i < o->n_pins && ok; i++)
        ok = (pins[i] = copy_text(arena, cx->options->pins[i])) != NULL;
    for (size_t i = 0; i < o->n_bars && ok; i++)
        ok = (bars[i] = copy_text(arena, cx->options->bars[i])) != NULL;
    o->pins = pins;
    o->bars = bars;
    plan->rank_options = o;
    return ok ? DV_OK : dv_nomem(cx->diag);
}

// Plans the program `text` of a rank and adds a class of ranks (ranks with
// equal programs) for it.
static dv_status add_class(dv_pass_cx *cx, dv_plan *plan, dv_rank_program *r,
                           const char *text, int own)
{
    dv_rank_class *c = &plan->classes[plan->n_classes];
    dv_plan_options o = options_of(cx, plan, own);
    size_t n = (size_t)r->p->n_ops;
    int32_t *team_ops = DV_NEW(&plan->arena, int32_t, n);
    *c = (dv_rank_class){0};
    c->ranks = DV_NEW(&plan->arena, int64_t, MOST_RANKS);
    c->program = dv_arena_copy(&plan->arena, text, strlen(text));
    if (!c->ranks || !c->program || !team_ops)
        return dv_nomem(cx->diag);
    if (n)
        memcpy(team_ops, r->op_of, n * sizeof *team_ops);
    DV_TRY(dv_rank_program_plan(&c->plan, plan, r, team_ops, &o, cx->diag));
    plan->n_classes++;
    return DV_OK;
}

static dv_status add_rank(dv_pass_cx *cx, dv_plan *plan, int64_t rank)
{
    dv_rank_program *r = NULL;
    dv_text text = {0};
    DV_TRY(dv_rank_program_create(&r, plan, rank, 1, cx->diag));
    dv_program_print(&text, r->p, 0);
    dv_status st = text.failed ? dv_nomem(cx->diag) : DV_OK;
    dv_rank_class *c = st == DV_OK ? find_class(plan, text.at) : NULL;
    if (st == DV_OK && !c) {
        st = add_class(cx, plan, r, text.at, rank == plan->team.rank);
        c = &plan->classes[plan->n_classes - 1];
    }
    if (st == DV_OK)
        c->ranks[c->n_ranks++] = rank;
    dv_text_free(&text);
    dv_rank_program_destroy(r);
    return st;
}

dv_status dv_ranks_run(dv_pass_cx *cx, dv_plan *plan)
{
    int64_t n = dv_plan_team_size(&plan->team);
    int all = n <= MOST_RANKS;
    dv_plan_forget_ranks(plan);
    // --verify samples elements of every tile; each op of the team's program is
    // one tile.
    DV_TRY(dv_plan_whole_slices(plan, cx->diag));
    DV_TRY(keep_options(cx, plan));
    plan->classes = DV_NEW(&plan->arena, dv_rank_class, all ? n : 1);
    if (!plan->classes)
        return dv_nomem(cx->diag);
    if (!all)
        return add_rank(cx, plan, plan->team.rank);
    for (int64_t i = 0; i < n; i++)
        DV_TRY(add_rank(cx, plan, i));
    return DV_OK;
}

dv_status dv_ranks_verify(const dv_plan *plan, dv_diag *diag)
{
    (void)plan, (void)diag; // each pass of each plan has been verified
    return DV_OK;
}

// Prints text with all lines indented.
static void put_indented(dv_text *out, const char *text)
{
    for (const char *end; *text; text = end) {
        end = strchr(text, '\n');
        end = end ? end + 1 : text + strlen(text);
        dv_put(out, "%s%.*s", *text == '\n' ? "" : "        ",
               (int)(end - text), text);
    }
}

void dv_ranks_print(dv_text *out, const dv_plan *plan)
{
    const dv_plan_options *o = plan->rank_options;
    dv_put(out, "ranks {\n");
    for (size_t i = 0; o && i < o->n_pins; i++)
        dv_put(out, "    pin \"%s\"\n", o->pins[i]);
    // A bar (what the user keeps out of scratchpads) is left out if planning
    // has removed its op or tensor from the program.
    for (size_t i = 0; o && i < o->n_bars; i++)
        if (dv_bar_applies(plan->ops, o->bars[i]))
            dv_put(out, "    bar \"%s\"\n", o->bars[i]);
    for (int32_t i = 0; i < plan->n_classes; i++) {
        const dv_rank_class *c = &plan->classes[i];
        dv_text text = {0};
        dv_put(out, "    class ");
        for (int32_t k = 0; k < c->n_ranks; k++)
            dv_put(out, "%s%" PRId64, k ? ", " : "", c->ranks[k]);
        dv_put(out, " cores %" PRId64 " {\n", c->plan->target.cores);
        dv_plan_print_sections(&text, c->plan);
        put_indented(out, text.at ? text.at : "");
        out->failed |= text.failed;
        dv_text_free(&text);
        dv_put(out, "    }\n");
    }
    dv_put(out, "}\n");
}

static dv_status read_ranks(dv_plan *plan, dv_lexer *lx, dv_rank_class *c)
{
    int64_t n = dv_plan_team_size(&plan->team), rank;
    c->ranks = DV_NEW(&plan->arena, int64_t, MOST_RANKS);
    if (!c->ranks)
        return dv_nomem(lx->diag);
    do {
        DV_TRY(dv_lex(lx));
        dv_loc at = dv_lex_at(lx);
        DV_TRY(dv_lex_int(lx, &rank, "a rank"));
        int again = dv_plan_class_of(plan, rank) != NULL;
        for (int32_t i = 0; i < c->n_ranks; i++)
            again |= c->ranks[i] == rank;
        if (rank < 0 || rank >= n || c->n_ranks == MOST_RANKS || again)
            return dv_fail(lx->diag, DV_E_SYNTAX, at,
                           "rank %" PRId64 " is not one of the team, or has a "
                           "plan already",
                           rank);
        c->ranks[c->n_ranks++] = rank;
    } while (lx->tok.kind == ',');
    return DV_OK;
}

static dv_status read_class(dv_plan *plan, dv_lexer *lx, int32_t *cap)
{
    int64_t cores;
    dv_rank_class c = {.off = lx->tok.off};
    DV_TRY(read_ranks(plan, lx, &c));
    DV_TRY(dv_lex_word(lx, "cores"));
    dv_loc at = dv_lex_at(lx);
    DV_TRY(dv_lex_int(lx, &cores, "a number of cores"));
    int here = dv_target_runs_here(&plan->target);
    if (cores < 1 || cores > MOST_CORES ||
        (!here && cores != plan->target.cores))
        return dv_fail(lx->diag, DV_E_SYNTAX, at,
                       "a rank on %s cannot have %" PRId64 " core%s",
                       plan->target.name, cores, DV_PLURAL(cores, "", "s"));
    DV_TRY(dv_lex_expect(lx, '{', "'{'"));
    dv_rank_class *slot = DV_PUSH(&plan->arena, dv_rank_class, plan->classes,
                                  plan->n_classes, *cap);
    if (!slot)
        return dv_nomem(lx->diag);
    *slot = c;
    DV_TRY(dv_plan_read_rank(&slot->plan, plan, cores, lx));
    return dv_lex_expect(lx, '}', "a section of a plan or '}'");
}

// Reads lines of a word and a text in quotes.
static dv_status read_texts(dv_plan *plan, dv_lexer *lx, const char *word,
                            const char *const **out, size_t *n_out)
{
    const char **texts = NULL;
    int32_t n = 0, cap = 0;
    while (dv_lex_is(lx, word)) {
        DV_TRY(dv_lex(lx));
        if (lx->tok.kind != DV_TOK_STRING)
            return dv_fail(lx->diag, DV_E_SYNTAX, dv_lex_at(lx),
                           "expected a %s in quotes", word);
        const char **text = DV_PUSH(&plan->arena, const char *, texts, n, cap);
        if (!text ||
            !(*text = dv_arena_copy(&plan->arena, lx->src->text + lx->tok.off,
                                    lx->tok.len)))
            return dv_nomem(lx->diag);
        DV_TRY(dv_lex(lx));
    }
    *out = texts;
    *n_out = (size_t)n;
    return DV_OK;
}

// Reads the options for planning ranks again: pins, then bars.
static dv_status read_options(dv_plan *plan, dv_lexer *lx)
{
    dv_plan_options *o = DV_NEW(&plan->arena, dv_plan_options, 1);
    if (!o)
        return dv_nomem(lx->diag);
    *o = (dv_plan_options)DV_PLAN_OPTIONS_INIT;
    DV_TRY(read_texts(plan, lx, "pin", &o->pins, &o->n_pins));
    DV_TRY(read_texts(plan, lx, "bar", &o->bars, &o->n_bars));
    plan->rank_options = o;
    return DV_OK;
}

dv_status dv_ranks_read(dv_plan *plan, dv_lexer *lx)
{
    int32_t cap = 0;
    if (!plan->team.n_axes)
        return dv_fail(lx->diag, DV_E_SYNTAX, dv_lex_at(lx),
                       "section ranks stands before section dist");
    DV_TRY(dv_plan_whole_slices(plan, lx->diag));
    DV_TRY(dv_lex_expect(lx, '{', "'{'"));
    DV_TRY(read_options(plan, lx));
    while (dv_lex_is(lx, "class"))
        DV_TRY(read_class(plan, lx, &cap));
    return dv_lex_expect(lx, '}', "'class' or '}'");
}
