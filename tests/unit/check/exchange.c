// C18, C19, C20: the messages that a plan lists for its rank. Their order in
// the text has no meaning; every other change of them is refused, in teams that
// the checker proves for all ranks and in larger ones, where it proves the
// plan's own rank.
#include "harness/test.h"
#include "harness/unit.h"
#include "dist/dist.h"
#include "team/team.h"

// Each rank receives two boxes from each of its two neighbours.
static const char text[] =
    "input a: f32[80, 64] @ split(0)\n"
    "input y: f32[80, 4] @ split(0)\n"
    "y[i,j] <- a[i,j] + a[i+1,j] - 3*a[i+1,j+40] + 5*a[i-1,j] - "
    "7*a[i-1,j+40] for i in 1..79, j in 0..4\n"
    "output y\n";
enum { Y = 1, N_Y = 80 * 4, N_MESSAGES = 8, SMALL = 3, LARGE = 20 };

static dv_plan *make_plan(int64_t team)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.team = team;
    o.rank = 1;
    dv_plan *plan = plan_on(text, "host", NULL, &o);
    assert_int_equal(plan->team.n_op_exchanges, 1);
    assert_int_equal(plan->team.op_exchanges[0].n_sends, N_MESSAGES / 2);
    assert_int_equal(plan->team.op_exchanges[0].n_receives, N_MESSAGES / 2);
    return plan;
}

// -- The order in the text -------------------------------------------------

static void run_plan(const dv_plan *plan, float *y)
{
    static float a[80 * 64];
    void *data[2] = {a, y};
    dv_fill(plan->ops, 0, 3, -1, 1, a);
    memset(y, 0, N_Y * sizeof *y);
    assert_int_equal(dv_team_run(plan, data, NULL, NULL, NULL), DV_OK);
}

// Returns the plan's text with the lines of its exchange in another order: line
// i of the result is line order[i].
static char *reordered(const char *plan, const int *order)
{
    const char *at = strchr(strstr(plan, "exchange "), '\n') + 1;
    const char *line[N_MESSAGES + 1] = {at};
    for (int i = 0; i < N_MESSAGES; i++)
        line[i + 1] = strchr(line[i], '\n') + 1;
    char *out = malloc(strlen(plan) + 1);
    assert_non_null(out);
    size_t n = (size_t)(at - plan);
    memcpy(out, plan, n);
    for (int i = 0; i < N_MESSAGES; i++) {
        size_t len = (size_t)(line[order[i] + 1] - line[order[i]]);
        memcpy(out + n, line[order[i]], len);
        n += len;
    }
    strcpy(out + n, line[N_MESSAGES]);
    return out;
}

static void any_order(int64_t team)
{
    static float expected[N_Y], y[N_Y];
    int order[N_MESSAGES] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint64_t state = 1;
    dv_plan *plan = make_plan(team);
    char *sorted = dv_plan_text(plan);
    run_plan(plan, expected);
    for (int n = 0; n < 40; n++) {
        for (int i = N_MESSAGES - 1; i > 0; i--) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            int k = (int)((state >> 33) % (uint64_t)(i + 1)), was = order[i];
            order[i] = order[k];
            order[k] = was;
        }
        dv_plan *read = NULL;
        char *other = reordered(sorted, order);
        assert_int_equal(
            dv_plan_parse(&read, other, strlen(other), "a", NULL, NULL, NULL),
            DV_OK);
        assert_int_equal(dv_plan_check(read, NULL), DV_OK);
        char *again = dv_plan_text(read);
        assert_string_equal(again, sorted);
        run_plan(read, y);
        assert_memory_equal(y, expected, sizeof y);
        dv_free(again);
        dv_plan_destroy(read);
        free(other);
    }
    dv_free(sorted);
    dv_plan_destroy(plan);
}

TEST(test_any_order)
{
    any_order(SMALL);
    any_order(LARGE);
}

// -- Other changes ---------------------------------------------------------

static void exchange(dv_piece *a, dv_piece *b)
{
    dv_piece was = *a;
    *a = *b;
    *b = was;
}

static void boxes_of_a_message(dv_op_exchange *s)
{
    exchange(&s->sends[0], &s->sends[1]);
}

static void boxes_that_come(dv_op_exchange *s)
{
    exchange(&s->receives[2], &s->receives[3]);
}

static void partners_mixed(dv_op_exchange *s)
{
    exchange(&s->sends[1], &s->sends[2]);
}

static void sent_twice(dv_op_exchange *s)
{
    s->sends[1] = s->sends[0];
}

static void send_dropped(dv_op_exchange *s)
{
    s->n_sends--;
}

static void partner_dropped(dv_op_exchange *s)
{
    s->n_sends -= 2;
}

static void receive_dropped(dv_op_exchange *s)
{
    s->n_receives--;
}

static void less_sent(dv_op_exchange *s)
{
    s->sends[0].box.dim[1].size--;
}

// Returns a list with one more piece: piece i is cut in two along dim 1.
static dv_piece *split(const dv_piece *l, int32_t *n, int32_t i)
{
    static dv_piece longer[N_MESSAGES];
    int64_t half = l[i].box.dim[1].size / 2;
    memcpy(longer, l, (size_t)(i + 1) * sizeof *l);
    memcpy(longer + i + 1, l + i, (size_t)(*n - i) * sizeof *l);
    longer[i].box.dim[1].size = half;
    longer[i + 1].box.dim[1].off += half;
    longer[i + 1].box.dim[1].size -= half;
    ++*n;
    return longer;
}

static void send_split(dv_op_exchange *s)
{
    s->sends = split(s->sends, &s->n_sends, 1);
}

static void receive_split(dv_op_exchange *s)
{
    s->receives = split(s->receives, &s->n_receives, 1);
}

TEST(test_refused)
{
    static void (*const changes[])(dv_op_exchange *) = {
        boxes_of_a_message, boxes_that_come, partners_mixed,  sent_twice,
        send_dropped,       partner_dropped, receive_dropped, less_sent,
        send_split,         receive_split};
    static const int64_t teams[] = {SMALL, LARGE};
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
            dv_plan *plan = make_plan(teams[t]);
            assert_int_equal(dv_plan_check(plan, NULL), DV_OK);
            changes[i](&plan->team.op_exchanges[0]);
            assert_int_equal(dv_plan_check(plan, NULL), DV_E_CHECK);
            dv_plan_destroy(plan);
        }
}

// C16, C17: an axis that cuts two dims of a tensor, a cut dim of a result over
// which two variables run, and a reduced variable that two cuts follow.
TEST(test_cuts)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.grid = "2x2";
    dv_plan *plan = plan_on("input u: f64[12, 12]\nv[i,j] = u[j,i]\noutput v\n",
                            "host", NULL, &o);
    dv_dist *u = &plan->team.tensors[tensor_named(plan, "u")];
    u->axis[0] = u->axis[1] = 0;
    check_finds(plan, "axis 0 cuts u twice");
    dv_plan_destroy(plan);
    plan = plan_on("input u: f64[2, 8]\ntemp x: f64[16]\nx[2*q+m] = u[m,q]\n"
                   "output x\n",
                   "host", NULL, &o);
    plan->team.tensors[tensor_named(plan, "x")].axis[0] = 0;
    check_finds(plan, "op x cannot be cut along dim 0 of x");
    dv_plan_destroy(plan);
    plan = plan_on("input x: f64[16]\ns[] = sum[i] x[i]\noutput s\n", "host",
                   NULL, &o);
    assert_int_equal(plan->team.n_follows, 1);
    dv_split_reduction twice[] = {plan->team.follows[0], plan->team.follows[0]};
    plan->team.follows = twice;
    plan->team.n_follows = 2;
    check_finds(plan, "i of op s cannot be cut as dim 0 of x is");
    dv_plan_destroy(plan);
}

// Ranks compare this hash before they run: it differs for plans with different
// exchanges.
TEST(test_hash)
{
    uint64_t hash[2], program[2];
    int32_t op = 0;
    for (int i = 0; i < 2; i++) {
        dv_plan *plan = make_plan(SMALL);
        dv_local *team = NULL;
        dv_rank *r = NULL;
        plan->team.op_exchanges[0].prior = &op;
        plan->team.op_exchanges[0].n_prior = i;
        assert_int_equal(dv_local_create(&team, SMALL, NULL), DV_OK);
        assert_int_equal(
            dv_rank_create(&r, plan, dv_local_rank(team, 1), NULL, NULL),
            DV_OK);
        hash[i] = dv_rank_hash(r, &program[i]);
        dv_rank_destroy(r);
        dv_local_destroy(team);
        dv_plan_destroy(plan);
    }
    assert_int_equal(program[0], program[1]);
    assert_int_not_equal(hash[0], hash[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_cuts), cmocka_unit_test(test_hash)};
    return run_group(tests, NULL, NULL);
}
