// Reads, prints and compares section `schedule` of a plan (kernels and loops of
// ops), as explained in schedule.h. The pass that fills it is in
// exec/schedule.c.
#include "base/plural.h"
#include "plan/pins.h"
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[DV_N_KERNEL_KINDS] = {
    "strip", "statement", "product", "rows", "inline"};
static const char *const guards[DV_N_GUARDS] = {"none", "indices", "int32",
                                                "finite"};
static const char *const epilogues[DV_N_EPILOGUES] = {
    "none", "kernel", "blocks", "tile", "parts"};

const char *dv_kernel_kind_name(dv_kernel_kind kind)
{
    return kinds[kind];
}

const char *dv_sum_order_name(const dv_sum_order *s)
{
    return s->dot ? "dot" : s->pairs ? "pairs" : "outer";
}

// Returns whether an outer level of the loops has the same variable, so that
// level i iterates inside a tile of that variable.
static int is_tile(const dv_sum_order *s, int32_t i)
{
    for (int32_t k = 0; k < i; k++)
        if (s->levels[k].var == s->levels[i].var)
            return 1;
    return 0;
}

static void print_sums(dv_text *out, const dv_op *o, const dv_sum_order *s)
{
    dv_put(out, " %s {", dv_sum_order_name(s));
    for (int32_t i = 0; i < s->n_levels; i++) {
        const dv_var *v = &o->vars[s->levels[i].var];
        dv_put(out, "%s %s %" PRId64, i ? "," : "", v->name, s->levels[i].size);
        if (is_tile(s, i))
            dv_put(out, " of %" PRId64, v->end - v->begin);
        dv_put(out, " %s", s->levels[i].inside ? "prim" : "seq");
    }
    dv_put(out, " }");
}

static void print_vars(dv_text *out, const dv_op *o, const char *word,
                       const int32_t *vars, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        dv_put(out, "%s %s", i ? "," : word, o->vars[vars[i]].name);
}

static void print_skip(dv_text *out, const dv_op *o, const dv_skip *s)
{
    dv_put(out, " skip %s from %s %s %" PRId64 " by %" PRId64,
           o->vars[s->var].name, o->vars[s->with].name, s->from < 0 ? "-" : "+",
           s->from < 0 ? -s->from : s->from, s->by);
}

// Prints the schedule of an op without the loops of its tiles.
static void print_op(dv_text *out, const dv_program *p, int32_t op,
                     const dv_op_schedule *s)
{
    const dv_op *o = &p->ops[op];
    const int32_t loops[2] = {s->outer, s->inner};
    dv_put(out, "%d: %s", (int)op, kinds[s->kind]);
    print_vars(out, o, s->kind == DV_KERNEL_INLINE ? " rows" : "", s->rows,
               s->n_rows);
    if (s->kind == DV_KERNEL_ROWS)
        dv_put(out, " unit %d delay %" PRId64, (int)s->unit, s->delay);
    if (s->kind == DV_KERNEL_PRODUCT)
        print_sums(out, o, &s->sums);
    if (s->copied[0] || s->copied[1])
        dv_put(out, " copy%s%s", s->copied[0] ? " in0" : "",
               s->copied[1] ? " in1" : "");
    if (s->once)
        dv_put(out, " once%s%s", s->once & 1 ? " in0" : "",
               s->once & 2 ? " in1" : "");
    if (s->hold)
        dv_put(out, " hold%s%s", s->hold & 1 ? " in0" : "",
               s->hold & 2 ? " in1" : "");
    if (s->epilogue)
        dv_put(out, " epilogue %s", epilogues[s->epilogue]);
    if (s->inner >= 0)
        print_vars(out, o, " loops", s->outer >= 0 ? loops : loops + 1,
                   s->outer >= 0 ? 2 : 1);
    if (s->chunk)
        dv_put(out, " chunk %" PRId64, s->chunk);
    if (s->collapse)
        dv_put(out, " collapse %" PRId64, s->collapse);
    if (s->window)
        dv_put(out, " window %d", (int)s->window);
    if (s->images)
        dv_put(out, " images");
    if (s->edges)
        dv_put(out, " edges");
    if (s->transpose)
        dv_put(out, " transpose");
    const char *before = " prefetch ";
    for (int r = 0; r < 64; r++)
        if (s->prefetch >> r & 1) {
            dv_put(out, "%s%d", before, r);
            before = ", ";
        }
    if (s->skip.by)
        print_skip(out, o, &s->skip);
    if (s->guard)
        dv_put(out, " guard %s", guards[s->guard]);
}

void dv_op_schedule_print(dv_text *out, const dv_program *p, int32_t op,
                          const dv_op_schedule *s)
{
    print_op(out, p, op, s);
    for (int32_t i = 0; i < s->n_tiles; i++) {
        dv_put(out, " ");
        dv_tile_schedule_print(out, &p->ops[op], &s->tiles[i]);
    }
}

static void print_addresses(dv_text *out, const dv_program *p, const char *word,
                            const dv_temp_address *at, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        dv_put(out, "    %s %s at %" PRId64 "\n", word,
               p->tensors[at[i].tensor].name, at[i].address);
}

int64_t dv_stored_bytes(const dv_plan *plan)
{
    const dv_schedule *s = &plan->schedule;
    int64_t most = 0;
    for (int32_t i = 0; i < s->n_stored; i++) {
        const dv_tensor *t = &plan->ops->tensors[s->stored[i].tensor];
        int64_t end = s->stored[i].address + dv_tensor_bytes(t);
        most = end > most ? end : most;
    }
    return most;
}

void dv_schedule_print(dv_text *out, const dv_plan *plan)
{
    const dv_schedule *s = &plan->schedule;
    const dv_program *p = plan->ops;
    if (!s->kernels)
        return;
    dv_put(out, "schedule {%s\n    kernels \"%s\"\n",
           s->on_reading ? " # made when the plan was read" : "", s->kernels);
    for (int32_t i = 0; i < p->n_ops; i++) {
        dv_put(out, "    ");
        print_op(out, p, i, &s->ops[i]);
        dv_put(out, " # %s\n", p->ops[i].name);
        for (int32_t k = 0; k < s->ops[i].n_tiles; k++) {
            dv_put(out, "        ");
            dv_tile_schedule_print(out, &p->ops[i], &s->ops[i].tiles[k]);
            dv_put(out, "\n");
        }
    }
    print_addresses(out, p, "keep", s->temps, s->n_temps);
    print_addresses(out, p, "store", s->stored, s->n_stored);
    if (s->shared_bytes >= 0)
        dv_put(out, "    memory %" PRId64 " shared, %" PRId64 " per thread",
               s->shared_bytes, s->thread_bytes);
    if (s->shared_bytes >= 0 && s->constant_bytes)
        dv_put(out, ", %" PRId64 " of constants", s->constant_bytes);
    if (s->shared_bytes >= 0)
        dv_put(out, "\n");
    dv_put(out, "}\n");
}

// Parses a pin of the form OP.word=VALUE: returns its dot, or NULL if the pin
// has another form or another word.
static const char *find_word(const char *pin, const char *word)
{
    const char *equals = strrchr(pin, '=');
    size_t n = strlen(word);
    if (!equals || (size_t)(equals - pin) < n + 2 ||
        strncmp(equals - n, word, n) != 0 || equals[-(ptrdiff_t)n - 1] != '.')
        return NULL;
    return equals - n - 1;
}

int dv_pin_is_of_schedule(const char *pin)
{
    return find_word(pin, "kernel") || find_word(pin, "tile");
}

static dv_status read_kernel_pin(dv_schedule_pins *to, const char *pin,
                                 dv_diag *diag)
{
    const char *value = strrchr(pin, '=') + 1;
    for (int k = 0; k < DV_N_KERNEL_KINDS; k++)
        if (!strcmp(value, kinds[k])) {
            to->kind = k;
            return DV_OK;
        }
    return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                   "pin %s: the kinds of kernels are strip, statement, "
                   "product, rows and inline",
                   pin);
}

static dv_status read_tile_pin(dv_schedule_pins *to, const dv_op *o,
                               const char *pin, dv_diag *diag)
{
    const char *value = strrchr(pin, '=') + 1, *colon = strchr(value, ':');
    char *end = NULL;
    int32_t v = 0;
    if (!colon)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "pin %s: it takes a variable of %s and a size, such as "
                       "k:256",
                       pin, o->name);
    DV_TRY(dv_pin_find_var(&v, o, pin, value, (size_t)(colon - value), diag));
    int64_t n = strtoll(colon + 1, &end, 10);
    if (end == colon + 1 || *end || n < 1 || n > dv_var_len(o, v))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "pin %s: the size of a tile along %s is a whole number "
                       "from 1 to %" PRId64,
                       pin, o->vars[v].name, dv_var_len(o, v));
    to->tiled |= 1u << v;
    to->tile[v] = n;
    return DV_OK;
}

// Fails if an earlier pin sets another value for what pin number k sets: the
// kernel of the same op, or the size of a tile along the same variable.
static dv_status check_again(const dv_plan_options *options, size_t k,
                             dv_diag *diag)
{
    const char *pin = options->pins[k], *equals = strrchr(pin, '=');
    const char *colon = strrchr(equals, ':');
    size_t set = (size_t)((colon ? colon : equals) - pin);
    for (size_t i = 0; i < k; i++) {
        const char *other = options->pins[i];
        if (!strncmp(other, pin, set + 1) && strcmp(other, pin) != 0)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "pins %s and %s contradict each other", other, pin);
    }
    return DV_OK;
}

dv_status dv_schedule_read_pins(dv_schedule_pins **out, dv_plan *plan,
                                const dv_plan_options *options, dv_diag *diag)
{
    const dv_program *p = plan->ops;
    *out = NULL;
    for (size_t k = 0; k < options->n_pins; k++) {
        const char *pin = options->pins[k];
        const char *kernel = find_word(pin, "kernel");
        const char *dot = kernel ? kernel : find_word(pin, "tile");
        int32_t op = 0;
        if (!dot)
            continue;
        if (!*out) {
            *out = DV_NEW(&plan->arena, dv_schedule_pins, p->n_ops);
            if (!*out)
                return dv_nomem(diag);
            for (int32_t i = 0; i < p->n_ops; i++)
                (*out)[i] = (dv_schedule_pins){.kind = -1};
        }
        DV_TRY(dv_pin_find_op(&op, plan, pin, (size_t)(dot - pin), diag));
        DV_TRY(check_again(options, k, diag));
        DV_TRY(kernel ? read_kernel_pin(&(*out)[op], pin, diag)
                      : read_tile_pin(&(*out)[op], &p->ops[op], pin, diag));
        const dv_schedule_pins *to = &(*out)[op];
        if (to->tiled && to->kind >= 0 && to->kind != DV_KERNEL_PRODUCT)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "%s.tile needs kernel product, but %s.kernel is %s",
                           p->ops[op].name, p->ops[op].name, kinds[to->kind]);
    }
    return DV_OK;
}

static int same_sums(const dv_sum_order *a, const dv_sum_order *b)
{
    if (a->dot != b->dot || a->pairs != b->pairs || a->n_levels != b->n_levels)
        return 0;
    for (int32_t i = 0; i < a->n_levels; i++)
        if (a->levels[i].var != b->levels[i].var ||
            a->levels[i].size != b->levels[i].size ||
            a->levels[i].inside != b->levels[i].inside)
            return 0;
    return 1;
}

static int same_skip(const dv_skip *a, const dv_skip *b)
{
    return a->by == b->by &&
           (!a->by ||
            (a->var == b->var && a->from == b->from && a->with == b->with));
}

int dv_op_schedule_equal(const dv_op_schedule *a, const dv_op_schedule *b)
{
    int same = a->kind == b->kind && a->guard == b->guard &&
               a->inner == b->inner && a->outer == b->outer &&
               a->chunk == b->chunk && a->collapse == b->collapse &&
               a->window == b->window && a->transpose == b->transpose &&
               a->images == b->images && a->edges == b->edges &&
               a->epilogue == b->epilogue && a->copied[0] == b->copied[0] &&
               a->copied[1] == b->copied[1] && a->once == b->once &&
               a->hold == b->hold && a->n_rows == b->n_rows &&
               a->unit == b->unit && a->delay == b->delay &&
               a->prefetch == b->prefetch && same_skip(&a->skip, &b->skip);
    for (int32_t i = 0; same && i < a->n_rows; i++)
        same = a->rows[i] == b->rows[i];
    return same && same_sums(&a->sums, &b->sums) &&
           dv_tile_schedules_equal(a, b);
}

// Fails unless the op has a variable number v; -1, which stands for none, is
// accepted.
static dv_status verify_var(const dv_plan *plan, int32_t op, int32_t v,
                            dv_diag *diag)
{
    const dv_op *o = &plan->ops->ops[op];
    if (v >= -1 && v < o->n_vars)
        return DV_OK;
    return dv_fail(diag, DV_E_NAME,
                   dv_plan_at(plan, plan->schedule.ops[op].off),
                   "the schedule of %s has variable %d of %d", o->name, (int)v,
                   (int)o->n_vars);
}

static dv_status verify_sums(const dv_plan *plan, int32_t op, dv_diag *diag)
{
    const dv_op *o = &plan->ops->ops[op];
    const dv_sum_order *s = &plan->schedule.ops[op].sums;
    dv_loc at = dv_plan_at(plan, plan->schedule.ops[op].off);
    if (s->n_levels > 2 * DV_MAX_VARS)
        return dv_fail(diag, DV_E_LIMIT, at,
                       "%s has %d level%s, %d are possible", o->name,
                       (int)s->n_levels, DV_PLURAL(s->n_levels, "", "s"),
                       2 * (int)DV_MAX_VARS);
    for (int32_t i = 0; i < s->n_levels; i++) {
        const dv_sum_level *l = &s->levels[i];
        if (l->var < 0 || l->var >= o->n_vars || !o->vars[l->var].reduce)
            return dv_fail(diag, DV_E_NAME, at,
                           "level %d of %s is no variable that it sums over",
                           (int)i, o->name);
        if (l->size < 1 || l->size > dv_var_len(o, l->var))
            return dv_fail(
                diag, DV_E_SHAPE, at,
                "level %d of %s has size %" PRId64 ", %s has %" PRId64, (int)i,
                o->name, l->size, o->vars[l->var].name, dv_var_len(o, l->var));
        if (i && s->levels[i - 1].inside && !l->inside)
            return dv_fail(diag, DV_E_SHAPE, at,
                           "level %d of %s is a loop, level %d is in the "
                           "kernel",
                           (int)i, o->name, (int)i - 1);
    }
    return DV_OK;
}

// Verifies what later code relies on to read section `schedule`: numbers of
// variables and tensors, and the loop levels of sums. dv_plan_check proves the
// rest.
dv_status dv_schedule_verify(const dv_plan *plan, dv_diag *diag)
{
    const dv_schedule *s = &plan->schedule;
    for (int32_t i = 0; s->kernels && i < plan->ops->n_ops; i++) {
        DV_TRY(verify_var(plan, i, s->ops[i].inner, diag));
        DV_TRY(verify_var(plan, i, s->ops[i].outer, diag));
        const dv_skip *skip = &s->ops[i].skip;
        DV_TRY(verify_var(plan, i, skip->by ? skip->var : -1, diag));
        DV_TRY(verify_var(plan, i, skip->by ? skip->with : -1, diag));
        for (int32_t k = 0; k < s->ops[i].n_rows; k++)
            DV_TRY(verify_var(plan, i, s->ops[i].rows[k], diag));
        DV_TRY(verify_sums(plan, i, diag));
        for (int32_t k = 0; k < s->ops[i].n_tiles; k++)
            DV_TRY(dv_tile_schedule_verify(plan, &plan->ops->ops[i],
                                           &s->ops[i].tiles[k], diag));
    }
    return DV_OK;
}

// Reads a word that must be one of n words; *out is its index. `what` describes
// them in error messages.
static dv_status read_word(dv_lexer *lx, const char *const *words, int n,
                           const char *what, int *out)
{
    for (*out = 0; *out < n; ++*out)
        if (dv_lex_is(lx, words[*out]))
            return dv_lex(lx);
    return dv_lex_expected(lx, what);
}

static dv_status read_var(dv_lexer *lx, const dv_op *o, int32_t *out)
{
    char buf[48];
    for (*out = 0; *out < o->n_vars; ++*out)
        if (dv_lex_is(lx, o->vars[*out].name))
            return dv_lex(lx);
    return dv_fail(lx->diag, DV_E_NAME, dv_lex_at(lx),
                   "%s is no variable of %s", dv_lex_show(lx, buf), o->name);
}

static int skip_comma(dv_lexer *lx, dv_status *st)
{
    int comma = lx->tok.kind == ',';
    *st = comma ? dv_lex(lx) : DV_OK;
    return comma;
}

// Reads the names of up to `most` variables, separated by commas.
static dv_status read_vars(dv_lexer *lx, const dv_op *o, int32_t most,
                           int32_t *out, int32_t *n)
{
    dv_status st = DV_OK;
    *n = 0;
    do {
        if (*n == most)
            return dv_fail(lx->diag, DV_E_LIMIT, dv_lex_at(lx),
                           "at most %d variables stand here", (int)most);
        DV_TRY(read_var(lx, o, &out[(*n)++]));
    } while (skip_comma(lx, &st));
    return st;
}

static dv_status read_level(dv_plan *plan, dv_lexer *lx, const dv_op *o,
                            dv_sum_order *s, int32_t *cap)
{
    char buf[48];
    int64_t whole;
    dv_sum_level *l =
        DV_PUSH(&plan->arena, dv_sum_level, s->levels, s->n_levels, *cap);
    if (!l)
        return dv_nomem(lx->diag);
    *l = (dv_sum_level){.var = -1};
    for (int v = 0; v < o->n_vars && l->var < 0; v++)
        if (o->vars[v].reduce && dv_lex_is(lx, o->vars[v].name))
            l->var = v;
    if (l->var < 0)
        return dv_fail(lx->diag, DV_E_NAME, dv_lex_at(lx),
                       "%s is no variable that %s sums over",
                       dv_lex_show(lx, buf), o->name);
    DV_TRY(dv_lex(lx));
    DV_TRY(dv_lex_int(lx, &l->size, "the size of the level"));
    if (is_tile(s, s->n_levels - 1)) {
        DV_TRY(dv_lex_word(lx, "of"));
        dv_loc at = dv_lex_at(lx);
        DV_TRY(dv_lex_int(lx, &whole, "the size of the variable"));
        if (whole != dv_var_len(o, l->var))
            return dv_fail(lx->diag, DV_E_SHAPE, at,
                           "%s has %" PRId64 ", not %" PRId64,
                           o->vars[l->var].name, dv_var_len(o, l->var), whole);
    }
    l->inside = dv_lex_is(lx, "prim");
    return dv_lex_word(lx, l->inside ? "prim" : "seq");
}

static dv_status read_sums(dv_plan *plan, dv_lexer *lx, const dv_op *o,
                           dv_sum_order *s)
{
    dv_status st = DV_OK;
    int32_t cap = 0;
    s->dot = dv_lex_is(lx, "dot");
    s->pairs = dv_lex_is(lx, "pairs");
    DV_TRY(dv_lex_word(lx, dv_sum_order_name(s)));
    DV_TRY(dv_lex_expect(lx, '{', "'{'"));
    while (lx->tok.kind != '}') {
        DV_TRY(read_level(plan, lx, o, s, &cap));
        skip_comma(lx, &st);
        DV_TRY(st);
    }
    return dv_lex(lx);
}

static dv_status read_prefetch(dv_lexer *lx, const dv_op *o, uint64_t *out)
{
    dv_status st = DV_OK;
    do {
        int64_t r;
        dv_loc at = dv_lex_at(lx);
        DV_TRY(dv_lex_int(lx, &r, "the number of a read"));
        if (r < 0 || r > 63)
            return dv_fail(lx->diag, DV_E_SHAPE, at,
                           "read %" PRId64 " of %s: 0 to 63 can be prefetched",
                           r, o->name);
        *out |= UINT64_C(1) << r;
    } while (skip_comma(lx, &st));
    return st;
}

static dv_status read_count(dv_lexer *lx, int64_t most, int64_t *out)
{
    dv_loc at = dv_lex_at(lx);
    DV_TRY(dv_lex_int(lx, out, "a number"));
    if (*out >= 0 && *out <= most)
        return DV_OK;
    return dv_fail(lx->diag, DV_E_SHAPE, at,
                   "%" PRId64 " is not in 0..%" PRId64, *out, most);
}

// Reads which points an op skips: `j from i + 1 by 128`.
static dv_status read_skip(dv_lexer *lx, const dv_op *o, dv_skip *s)
{
    DV_TRY(read_var(lx, o, &s->var));
    DV_TRY(dv_lex_word(lx, "from"));
    DV_TRY(read_var(lx, o, &s->with));
    int minus = lx->tok.kind == '-';
    DV_TRY(dv_lex_expect(lx, minus ? '-' : '+', "'+' or '-'"));
    DV_TRY(read_count(lx, INT32_MAX, &s->from));
    s->from = minus ? -s->from : s->from;
    DV_TRY(dv_lex_word(lx, "by"));
    dv_loc at = dv_lex_at(lx);
    DV_TRY(read_count(lx, INT32_MAX, &s->by));
    return s->by ? DV_OK
                 : dv_fail(lx->diag, DV_E_SHAPE, at,
                           "%s skips multiples of 0 values", o->name);
}

// Reads the words in0 and in1, the factors of a product that a property applies
// to, as a bit mask.
static dv_status read_factors(dv_lexer *lx, int *mask)
{
    *mask = 0;
    for (int i = 0; i < 2; i++)
        if (dv_lex_is(lx, i ? "in1" : "in0")) {
            *mask |= 1 << i;
            DV_TRY(dv_lex(lx));
        }
    return *mask ? DV_OK : dv_lex_expected(lx, "in0 or in1");
}

// Reads one property of an op's schedule, such as `loops i, j`; *any is 0 if
// there is none.
static dv_status read_property(dv_lexer *lx, const dv_op *o, dv_op_schedule *s,
                               int *any)
{
    enum {
        COPY,
        ONCE,
        HOLD,
        EPILOGUE,
        LOOPS,
        CHUNK,
        COLLAPSE,
        WINDOW,
        IMAGES,
        EDGES,
        TRANSPOSE,
        PREFETCH,
        GUARD,
        SKIP,
        ROWS,
        UNIT,
        DELAY,
        N
    };
    static const char *const words[N] = {
        "copy",     "once",   "hold",   "epilogue", "loops",     "chunk",
        "collapse", "window", "images", "edges",    "transpose", "prefetch",
        "guard",    "skip",   "rows",   "unit",     "delay"};
    int32_t vars[2], n;
    int64_t number;
    int word = 0, factors;
    while (word < N && !dv_lex_is(lx, words[word]))
        word++;
    *any = word < N;
    if (!*any)
        return DV_OK;
    DV_TRY(dv_lex(lx));
    switch (word) {
    case COPY:
        DV_TRY(read_factors(lx, &factors));
        s->copied[0] = factors & 1;
        s->copied[1] = factors >> 1;
        return DV_OK;
    case ONCE:
        DV_TRY(read_factors(lx, &factors));
        s->once = factors;
        return DV_OK;
    case HOLD:
        DV_TRY(read_factors(lx, &factors));
        s->hold = factors;
        return DV_OK;
    case EPILOGUE:
        DV_TRY(read_word(lx, epilogues, DV_N_EPILOGUES,
                         "none, kernel, blocks, tile or parts", &word));
        s->epilogue = (dv_epilogue_place)word;
        return DV_OK;
    case LOOPS:
        DV_TRY(read_vars(lx, o, 2, vars, &n));
        s->inner = vars[n - 1];
        s->outer = n > 1 ? vars[0] : -1;
        return DV_OK;
    case CHUNK:
        return read_count(lx, INT32_MAX, &s->chunk);
    case COLLAPSE:
        return read_count(lx, INT64_MAX, &s->collapse);
    case WINDOW:
        DV_TRY(read_count(lx, INT32_MAX, &number));
        s->window = (int32_t)number;
        return DV_OK;
    case IMAGES:
        s->images = 1;
        return DV_OK;
    case EDGES:
        s->edges = 1;
        return DV_OK;
    case TRANSPOSE:
        s->transpose = 1;
        return DV_OK;
    case PREFETCH:
        return read_prefetch(lx, o, &s->prefetch);
    case GUARD:
        DV_TRY(read_word(lx, guards, DV_N_GUARDS,
                         "none, indices, int32 or finite", &word));
        s->guard = (dv_guard)word;
        return DV_OK;
    case SKIP:
        return read_skip(lx, o, &s->skip);
    case ROWS:
        return read_vars(lx, o, DV_MAX_ROW_VARS, s->rows, &s->n_rows);
    case UNIT:
        DV_TRY(read_count(lx, INT32_MAX, &number));
        s->unit = (int32_t)number;
        return DV_OK;
    default:
        return read_count(lx, INT32_MAX, &s->delay);
    }
}

static dv_status read_tiles(dv_plan *plan, dv_lexer *lx, const dv_op *o,
                            dv_op_schedule *s)
{
    int32_t cap = 0;
    while (dv_lex_is(lx, "tile")) {
        dv_tile_schedule *t =
            DV_PUSH(&plan->arena, dv_tile_schedule, s->tiles, s->n_tiles, cap);
        if (!t)
            return dv_nomem(lx->diag);
        DV_TRY(dv_tile_schedule_read(plan, lx, o, t));
    }
    return DV_OK;
}

// Reads the line of op number `op` in section `schedule`, with the loops of its
// tiles; the lines are in the order of the ops.
static dv_status read_op(dv_plan *plan, dv_lexer *lx, int32_t op)
{
    dv_op_schedule *s = &plan->schedule.ops[op];
    int64_t number;
    int kind, any = 1;
    dv_loc at = dv_lex_at(lx);
    uint32_t off = lx->tok.off;
    DV_TRY(dv_lex_int(lx, &number, "the number of an op"));
    if (op >= plan->ops->n_ops || number != op)
        return dv_fail(lx->diag, DV_E_SHAPE, at,
                       "schedule of op %" PRId64
                       ": there are %d ops, each is scheduled once, in order",
                       number, (int)plan->ops->n_ops);
    const dv_op *o = &plan->ops->ops[op];
    *s = (dv_op_schedule){.inner = -1, .outer = -1, .off = off};
    DV_TRY(dv_lex_expect(lx, ':', "':'"));
    DV_TRY(read_word(lx, kinds, DV_N_KERNEL_KINDS,
                     "strip, statement, product, rows or inline", &kind));
    s->kind = (dv_kernel_kind)kind;
    if (s->kind == DV_KERNEL_ROWS)
        DV_TRY(read_vars(lx, o, DV_MAX_ROW_VARS, s->rows, &s->n_rows));
    if (s->kind == DV_KERNEL_PRODUCT)
        DV_TRY(read_sums(plan, lx, o, &s->sums));
    while (any)
        DV_TRY(read_property(lx, o, s, &any));
    return s->kind == DV_KERNEL_PRODUCT ? read_tiles(plan, lx, o, s) : DV_OK;
}

// Reads lines of the form "word TENSOR at ADDRESS", which give the addresses of
// temporaries.
static dv_status read_addresses(dv_plan *plan, dv_lexer *lx, const char *word,
                                dv_temp_address **at, int32_t *n)
{
    char buf[48];
    int32_t cap = 0, next = 0;
    while (dv_lex_is(lx, word)) {
        dv_temp_address *t =
            DV_PUSH(&plan->arena, dv_temp_address, *at, *n, cap);
        if (!t)
            return dv_nomem(lx->diag);
        DV_TRY(dv_lex(lx));
        *t = (dv_temp_address){.tensor = next, .off = lx->tok.off};
        // Temporaries are listed in the order of their writers, so the next one
        // is usually found at once.
        int32_t tried = 0, n_tensors = plan->ops->n_tensors;
        while (tried < n_tensors &&
               !dv_lex_is(lx, plan->ops->tensors[t->tensor].name)) {
            t->tensor = (t->tensor + 1) % n_tensors;
            tried++;
        }
        next = t->tensor;
        if (tried == n_tensors)
            return dv_fail(lx->diag, DV_E_NAME, dv_lex_at(lx),
                           "there is no tensor %s", dv_lex_show(lx, buf));
        DV_TRY(dv_lex(lx));
        DV_TRY(dv_lex_word(lx, "at"));
        DV_TRY(dv_lex_int(lx, &t->address, "an address"));
    }
    return DV_OK;
}

// Reads how much memory a run allocates; plans written by hand may omit it.
static dv_status read_memory(dv_schedule *s, dv_lexer *lx)
{
    s->shared_bytes = s->thread_bytes = -1;
    s->constant_bytes = 0;
    if (!dv_lex_is(lx, "memory"))
        return DV_OK;
    DV_TRY(dv_lex_word(lx, "memory"));
    DV_TRY(dv_lex_int(lx, &s->shared_bytes, "a number of bytes"));
    DV_TRY(dv_lex_word(lx, "shared"));
    DV_TRY(dv_lex_expect(lx, ',', "','"));
    DV_TRY(dv_lex_int(lx, &s->thread_bytes, "a number of bytes"));
    DV_TRY(dv_lex_word(lx, "per"));
    DV_TRY(dv_lex_word(lx, "thread"));
    if (lx->tok.kind != ',')
        return DV_OK;
    DV_TRY(dv_lex(lx));
    DV_TRY(dv_lex_int(lx, &s->constant_bytes, "a number of bytes"));
    DV_TRY(dv_lex_word(lx, "of"));
    return dv_lex_word(lx, "constants");
}

dv_status dv_schedule_read(dv_plan *plan, dv_lexer *lx)
{
    dv_schedule *s = &plan->schedule;
    int32_t n = 0;
    *s = (dv_schedule){
        .ops = DV_NEW(&plan->arena, dv_op_schedule, plan->ops->n_ops + 1)};
    DV_TRY(dv_lex_expect(lx, '{', "'{'"));
    DV_TRY(dv_lex_word(lx, "kernels"));
    if (lx->tok.kind != DV_TOK_STRING)
        return dv_lex_expected(lx,
                               "the instruction set of the kernels, in quotes");
    const char *kernels =
        dv_arena_copy(&plan->arena, lx->src->text + lx->tok.off, lx->tok.len);
    if (!s->ops || !kernels)
        return dv_nomem(lx->diag);
    DV_TRY(dv_lex(lx));
    while (lx->tok.kind == DV_TOK_INT) {
        DV_TRY(read_op(plan, lx, n));
        n++;
    }
    if (n < plan->ops->n_ops)
        return dv_fail(lx->diag, DV_E_SHAPE, dv_lex_at(lx),
                       "op %d, %s, has no schedule", (int)n,
                       plan->ops->ops[n].name);
    DV_TRY(read_addresses(plan, lx, "keep", &s->temps, &s->n_temps));
    DV_TRY(read_addresses(plan, lx, "store", &s->stored, &s->n_stored));
    DV_TRY(read_memory(s, lx));
    s->kernels = kernels;
    DV_TRY(dv_lex_expect(lx, '}', "'}'"));
    return dv_schedule_verify(plan, lx->diag);
}
