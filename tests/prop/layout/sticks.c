// The choice of stick dims compared with trying all combinations, for small
// programs of moves, sums, products and reductions over three variables in any
// order. The chosen sticks take as few bytes, moves included, as the best
// combination, and the plan with its moves passes its check (C9).
#include "harness/test.h"
#include "harness/unit.h"
#include "layout/stick.h"
#include <inttypes.h>

// -- Programs --------------------------------------------------------------

static const int extents[] = {70, 3, 129};

typedef struct made {
    char vars[4]; // one letter per dim
} made;

static void shuffle(rng *r, char *s)
{
    for (int i = (int)strlen(s) - 1; i > 0; i--) {
        int k = (int)rng_below(r, i + 1);
        char c = s[i];
        s[i] = s[k];
        s[k] = c;
    }
}

static void indices(dv_text *out, const char *vars)
{
    for (int i = 0; vars[i]; i++)
        dv_put(out, "%s%c", i ? "," : "", vars[i]);
}

static void declare(rng *r, dv_text *out, made *t, int n)
{
    char vars[] = "ijk";
    shuffle(r, vars);
    vars[1 + rng_below(r, 3)] = 0;
    strcpy(t[n].vars, vars);
    dv_put(out, "input t%d: %s[", n, rng_percent(r, 50) ? "f16" : "f32");
    for (int i = 0; vars[i]; i++)
        dv_put(out, "%s%d", i ? ", " : "", extents[vars[i] - 'i']);
    dv_put(out, "]\n");
}

// Writes a statement tN = ... of a random kind on the tensors so far.
static void statement(rng *r, dv_text *out, made *t, int n)
{
    const made *a = &t[rng_below(r, n)], *b = &t[rng_below(r, n)];
    int two = rng_percent(r, 65), len = 0;
    char vars[4] = "", gone = 0;
    for (char v = 'i'; v <= 'k'; v++)
        if (strchr(a->vars, v) || (two && strchr(b->vars, v)))
            vars[len++] = v;
    vars[len] = 0;
    if (len > 1 && rng_percent(r, 50)) {
        shuffle(r, vars);
        gone = vars[--len];
        vars[len] = 0;
    }
    shuffle(r, vars);
    strcpy(t[n].vars, vars);
    dv_put(out, "t%d[", n);
    indices(out, vars);
    dv_put(out, "] = ");
    if (gone)
        dv_put(out, "%s[%c] ", two || rng_percent(r, 50) ? "sum" : "max", gone);
    dv_put(out, "t%d[", (int)(a - t));
    indices(out, a->vars);
    if (two) {
        dv_put(out, "] * t%d[", (int)(b - t));
        indices(out, b->vars);
    }
    dv_put(out, "]\n");
}

static void write_program(rng *r, dv_text *out)
{
    made t[10];
    int n_in = 2 + (int)rng_below(r, 2), n = n_in + 2 + (int)rng_below(r, 3);
    for (int i = 0; i < n; i++)
        (i < n_in ? declare : statement)(r, out, t, i);
    dv_put(out, "output t%d\n", n - 1);
}

// -- Trying everything -----------------------------------------------------

typedef struct trial {
    const dv_program *p;
    const dv_target *t;
    dv_stick_choices ways[16];
    int own[16];
    unsigned copies[16]; // by tensor: bit stick_dim + 1 for each copy
    double best;
} trial;

static double bytes(const trial *x, int32_t tensor, int stick)
{
    dv_layout l;
    assert_true(dv_stick_layout(&l, x->t, &x->p->tensors[tensor], stick));
    return (double)l.bytes;
}

// Returns the least bytes of the tensor and its copies.
static double cheapest(const trial *x, int32_t tensor)
{
    double least = bytes(x, tensor, x->own[tensor]);
    for (int i = 0; i < 8; i++)
        if (x->copies[tensor] >> i & 1 && bytes(x, tensor, i - 1) < least)
            least = bytes(x, tensor, i - 1);
    return least;
}

static void attempt(trial *x, int op, double moved)
{
    if (op == x->p->n_ops) {
        if (x->best < 0 || moved < x->best)
            x->best = moved;
        return;
    }
    const dv_op *o = &x->p->ops[op];
    const dv_stick_choices *w = &x->ways[op];
    unsigned before[16];
    memcpy(before, x->copies, sizeof before);
    for (int i = 0; i < w->n; i++) {
        const int8_t *want = w->want + i * w->n_operands;
        double more = 0;
        for (int r = 0; r < o->n_reads; r++) {
            int32_t t = o->reads[r].tensor;
            if (want[r] == DV_STICK_ANY)
                continue;
            unsigned bit = 1u << (want[r] + 1);
            if (want[r] != x->own[t] && !(x->copies[t] & bit)) {
                more += cheapest(x, t) + bytes(x, t, want[r]) + DV_MOVE_BYTES;
                x->copies[t] |= bit;
            }
            more += bytes(x, t, want[r]);
        }
        int to = want[o->n_reads];
        x->own[o->write.tensor] = to == DV_STICK_ANY ? o->write.n_dims - 1 : to;
        more += bytes(x, o->write.tensor, x->own[o->write.tensor]);
        attempt(x, op + 1, moved + more);
        memcpy(x->copies, before, sizeof before);
    }
}

static double least(const dv_program *p, const dv_target *t, dv_arena *a)
{
    trial x = {.p = p, .t = t, .best = -1};
    double combinations = 1;
    for (int i = 0; i < p->n_tensors; i++)
        x.own[i] = p->tensors[i].n_dims - 1;
    for (int i = 0; i < p->n_ops; i++) {
        assert_true(dv_stick_list_choices(&x.ways[i], t, p, &p->ops[i], a));
        combinations *= x.ways[i].n;
    }
    if (combinations > 200000)
        return -1;
    attempt(&x, 0, 0);
    return x.best;
}

// -- The property ----------------------------------------------------------

// Returns the bytes of the choice: the operands of every op, and the moves.
static double chosen(const dv_program *p, const dv_target *t, dv_arena *a)
{
    dv_sticks s;
    trial x = {.p = p, .t = t};
    double sum = 0;
    assert_int_equal(dv_sticks_choose(&s, p, t, a, NULL), DV_OK);
    assert_true(s.exact);
    for (int i = 0; i < s.n_moves; i++)
        sum += bytes(&x, s.moves[i].tensor, s.moves[i].from) +
               bytes(&x, s.moves[i].tensor, s.moves[i].stick) + DV_MOVE_BYTES;
    for (int i = 0; i < p->n_ops; i++) {
        int32_t w = p->ops[i].write.tensor;
        sum += bytes(&x, w, s.stick[w]);
        for (int r = 0; r < p->ops[i].n_reads; r++) {
            if (dv_op_kind(&p->ops[i]) == DV_KIND_MOVE)
                continue; // accepts any stick dim
            int32_t of = p->ops[i].reads[r].tensor;
            int copy = s.want[s.first[i] + r];
            sum += bytes(&x, of, copy == DV_STICK_ANY ? s.stick[of] : copy);
        }
    }
    return sum;
}

static void check_one(uint64_t seed, const dv_target *t)
{
    rng r = {seed};
    dv_text text = {0};
    dv_arena a = {0};
    dv_program *ops = NULL;
    dv_diag *diag = dv_diag_create();
    write_program(&r, &text);
    dv_program *p = program_of(text.at);
    if (dv_program_lower(&ops, p, DV_GRAIN_PRIMITIVE, diag))
        fail_msg("%s\n%s", text.at, dv_diag_text(diag));
    double found = chosen(ops, t, &a), best = least(ops, t, &a);
    if (best >= 0 && found != best)
        fail_msg("DV_SEED=%d takes %g bytes, %g do:\n%s", (int)seed, found,
                 best, text.at);
    dv_plan *plan = case_plan(p, t, NULL);
    if (!plan)
        fail_msg("DV_SEED=%d %s\n%s", (int)seed, case_why(), text.at);
    dv_plan_destroy(plan);
    dv_program_destroy(ops);
    dv_program_destroy(p);
    dv_diag_destroy(diag);
    dv_arena_free(&a);
    dv_text_free(&text);
}

TEST(least_bytes)
{
    dv_target *t = target_of("spyre");
    int n = gen_cases(400);
    for (int i = 0; i < n; i++)
        check_one(gen_seed() + (uint64_t)i, t);
    dv_target_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(least_bytes)};
    return run_group(tests, NULL, NULL);
}
