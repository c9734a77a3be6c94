// C32: programs of a rank that differ from its part of the team's program by
// one change are refused, on this machine and on a simulated one; those that
// compute the same in another way are accepted.
#include "harness/test.h"
#include "check/check.h"
#include "harness/unit.h"
#include <inttypes.h>

// The middle one of three ranks has two neighbours. Its program is printed
// below; both machines have the same.
static const char text[] =
    "input u: f32[192, 64] @ split(0)\n"
    "input q: i32[64]\n"
    "repeat 3 {\n"
    "    u[i,j] <- max(u[i-1,j], u[i+1,j])  for i in 1..191\n"
    "}\n"
    "r[j]: f32 = mean[i] u[i,j]\n"
    "s[j] = r[j] + r[63-j]  for j in 0..64\n"
    "g[j] = s[q[j]]\n"
    "v[i,j] = u[i,j] * u[i+2,j]  for i in 0..190, j in 0..64\n"
    "c[i,j] = v[i,j] + 0.5\n"
    "output u, g, c\n";

#define CORE   "u[i,j] <- max(u_old[i-1,j], u_old[i+1,j])  for i in 2..64\n"
#define EDGE   "u[i,j] <- max(u_old[i-1,j], u_old[i+1,j])  for i in 64..65\n"
#define COPY   "u_old[i0,i1]: f32 = u[i0,i1]\n"
#define UNPACK "u[i0,i1] <- u_from_0_2[i0,i1]  for i0 in 0..1\n"
#define LAST   "c[i,j]: f32 = v[i,j] + 0.5\n"
#define V      "v[i,j]: f32 = u[i,j] * u[i+2,j]  for i in 0..63\n"

typedef struct change {
    const char *what, *from, *to;
    const char *why; // a part of the message; NULL: the change is right
} change;

static const change changes[] = {
    // What ops compute.
    {"a read is shifted", "u[i,j] * u[i+2,j]", "u[i,j] * u[i+1,j]",
     "not there"},
    {"a read is shifted after the end of a core", CORE,
     "u[i,j] <- max(u_old[i-1,j], u_old[i,j])  for i in 2..64\n", "not there"},
    {"a write is shifted", CORE,
     "u[i+1,j] <- max(u_old[i-1,j], u_old[i+1,j])  for i in 2..64\n",
     "not there"},
    {"a core has one row less", "for i in 2..64", "for i in 2..63",
     "does not hold"},
    {"a core has one row more", "for i in 2..64", "for i in 1..64",
     "not there"},
    {"an edge has no row of its own", "for i in 64..65", "for i in 63..64",
     "does not hold"},
    {"an op has fewer columns", "for i in 2..64", "for i in 2..64, j in 0..63",
     "does not hold"},
    {"another function", CORE,
     "u[i,j] <- min(u_old[i-1,j], u_old[i+1,j])  for i in 2..64\n",
     "another function"},
    {"operands are exchanged", CORE,
     "u[i,j] <- max(u_old[i+1,j], u_old[i-1,j])  for i in 2..64\n",
     "not there"},
    {"another number", "v[i,j] + 0.5", "v[i,j] + 0.25", "another number"},
    {"another operand", "v[i,j] + 0.5", "u[i+1,j] + 0.5  for i in 0..63",
     "not there"},
    {"a larger expression", "v[i,j] + 0.5", "(v[i,j] + 0.5) * 1.0",
     "another function"},
    {"another index", "s[q[j]]", "s[q[63-j]]  for j in 0..64",
     "other elements of s"},
    {"no index", "s[q[j]]", "s[j]", "g does not hold"},
    {"an index reads backwards", "r[-j+63]", "r[j]", "other elements of r"},
    {"an op is dropped", EDGE, "", "does not hold"},
    {"an op is computed twice", CORE, CORE CORE, NULL},
    {"an op updates twice", LAST, LAST "c[i,j] <- c[i,j] + 0.5\n", "not there"},
    {"two ops are exchanged", UNPACK V, V UNPACK, "not there"},
    // Snapshots.
    {"an op reads what it has overwritten", EDGE,
     "u[i,j] <- max(u[i-1,j], u[i+1,j])  for i in 64..65\n", "not there"},
    {"the snapshot is taken too late", COPY "    " CORE,
     "u_old[i0,i1]: f32 = u[i0,i1]\n"
     "u[i,j] <- max(u[i-1,j], u[i+1,j])  for i in 2..64\n"
     "u_old[i0,i1] <- u[i0,i1]  for i0 in 1..65\n",
     "not there"},
    {"the snapshot lacks rows", COPY,
     COPY "u_old[i,j] <- u[i-1,j]  for i in 10..12\n", "not there"},
    {"the snapshot is moved", COPY,
     "u_old[i0,i1]: f32 = u[65-i0,i1]  for i0 in 0..66\n", "no part"},
    // Messages.
    {"messages that are sent are exchanged",
     "u_to_0[i0,i1] <- u[i0+1,i1]\n    u_to_1[i0,i1] <- "
     "u[i0+64,i1]",
     "u_to_1[i0,i1] <- u[i0+1,i1]\nu_to_0[i0,i1] <- u[i0+64,i1]",
     "u_to_0 does not hold what is to be sent to rank 0"},
    {"received messages are exchanged", "u_old[i0+65,i1] <- u_from_1[i0,i1]",
     "u_old[i0+65,i1] <- u_from_0[i0,i1]", "not there"},
    {"the wrong row is sent", "u_to_1[i0,i1] <- u[i0+64,i1]",
     "u_to_1[i0,i1] <- u[i0+65,i1]", "u_to_1 does not hold"},
    {"a message is not packed", "u_to_1[i0,i1] <- u[i0+64,i1]", "",
     "u_to_1 does not hold"},
    {"a message is packed once, before the repeat", "repeat 3 {\n",
     "u_to_0[i0,i1] <- u[i0+1,i1]\nrepeat 3 {\n", NULL},
    {"a message is sent as it is in the first iteration",
     "repeat 3 {\n    u_to_0[i0,i1] <- u[i0+1,i1]\n",
     "u_to_0[i0,i1] <- u[i0+1,i1]\nrepeat 3 {\n", "u_to_0 does not hold"},
    {"a message is not unpacked", "u_old[i0+65,i1] <- u_from_1[i0,i1]", "",
     "not there"},
    {"a message is unpacked elsewhere", "u_old[i0+65,i1] <- u_from_1[i0,i1]",
     "u_old[i0+64,i1] <- u_from_1[i0,i1]", "not there"},
    {"a message is unpacked to what the rank owns",
     "u[i0+65,i1] <- u_from_1[i0,i1]", "u[i0+64,i1] <- u_from_1[i0,i1]", NULL},
    {"a message overwrites what was computed", EDGE,
     EDGE "u[i0+64,i1] <- u_from_1[i0,i1]\n", "does not hold"},
    {"an edge is computed before the messages have arrived", CORE, CORE EDGE,
     "not there"},
    {"a message is read before it has arrived", CORE,
     CORE "u_old[i0+65,i1] <- u_from_1[i0,i1]\n", "no part"},
    {"a message is written while it travels", CORE,
     CORE "u_to_1[i0,i1] <- u[i0+64,i1]\n", "under way"},
    {"a message of a later exchange is too old", "u_from_0_2[i0,i1]  for i0",
     "u_from_0[i0,i1]  for i0", "not there"},
    // Events and repeats.
    {"a wait is before its start", "messages[] <- 0", "messages[] <- 1",
     "event 0"},
    {"an event is dropped", "extern messages[] <- 4\n", "", "event 4"},
    {"an event is there twice", "extern messages[] <- 4\n",
     "extern messages[] <- 4\nextern messages[] <- 4\n", "event 5"},
    {"an event is not extern", "extern messages[] <- 4", "messages[] <- 4",
     "event 4"},
    {"fewer iterations", "repeat 3", "repeat 2", "repeats"},
    {"more iterations", "repeat 3", "repeat 4", "repeats"},
    {"an event is outside of its repeat", "for i in 64..65\n}\n",
     "for i in 64..65\n}\nextern messages[] <- 2\n", "event 3"},
    // Sums.
    {"a sum lacks a row", "sum[i] u[i,j]  for i in 1..65",
     "sum[i] u[i,j]  for i in 1..64", "other values of i"},
    {"a sum has a row of another rank", "sum[i] u[i,j]  for i in 1..65",
     "sum[i] u[i,j]  for i in 1..66", "other values of i"},
    {"a sum of other rows", "sum[i] u[i,j]  for i in 1..65",
     "sum[i] u[i,j]  for i in 0..64", "not there"},
    {"another reducer", "r_parts[j] <- sum[i]", "r_parts[j] <- max[i]",
     "another function"},
    {"a mean of part of the rows", "r_parts[j] / 192.0", "r_parts[j] / 64.0",
     "points of r"},
    {"results before the sums are added up",
     "extern messages[] <- 2\nr[j]: f32 = r_parts[j] / 192.0\n",
     "r[j]: f32 = r_parts[j] / 192.0\nextern messages[] <- 2\n",
     "have not added up"},
    {"sums of other columns", "r_parts[j] / 192.0",
     "r_parts[63-j] / 192.0  for j in 0..64", "does not read the sums"},
    {"sums are in reverse order", "r_parts[j] <- sum[i] u[i,j]",
     "r_parts[63-j] <- sum[i] u[i,j]", "does not write the sums"},
    // Tensors.
    {"a tensor that outlives the program has no memory", "messages, r_parts",
     "r_parts", "tensor messages"},
    {"an output is none", ", g, c\n", ", g\n", "tensor c"},
    {"an input of no tensor", "input q: i32[64]",
     "input q: i32[64]\ninput z: f32[4]", "tensor z"},
    {"an input of another type", "input q: i32[64]", "input q: i64[64]",
     "tensor q"},
    {"a tensor has another shape", "input u_to_1_2: f32[2, 64]",
     "input u_to_1_2: f32[3, 64]", "tensor u_to_1_2"},
    {"an op writes a tensor of no op", LAST, "z[] = v[0,0] + 1\n" LAST,
     "no op of the team"},
    // The same in another way.
    {"the order of independent ops", LAST,
     "c_1[i,j]: f32 = v[i,j] + 0.5\nc[i,j]: f32 = c_1[i,j]\n", NULL},
    {"an operand is copied", LAST,
     "v_1[i,j]: f32 = v[i,j]\nc[i,j]: f32 = v_1[i,j] + 0.5\n", NULL},
    {"the edges are one op each", EDGE,
     "u[i,j] <- max(u_old[i-1,j], u_old[i+1,j])  for i in 64..65, j in 0..9\n"
     "u[i,j] <- max(u_old[i-1,j], u_old[i+1,j])  for i in 64..65, j in 9..64\n",
     NULL},
};

// The last of two ranks sends twice: before the first op that updates x, and
// before the last repeat, which reads u in every iteration.
static const char between_repeats[] =
    "input u: f32[192] @ split(0)\n"
    "input w: f32[8] @ replicate\n"
    "input x: f32[192] @ split(0)\n"
    "u[i] <- u[i] * 2\n"
    "repeat 2 { w[j] <- w[j] + 1 }\n"
    "x[i] <- x[i] * u[i+1]  for i in 0..191\n"
    "repeat 2 { w[j] <- w[j] + 2 }\n"
    "u[i] <- u[i] * 3\n"
    "repeat 3 { x[i] <- x[i] + u[i+1]  for i in 0..191 }\n"
    "u[i] <- u[i] * 5\n"
    "output u, w, x\n";

#define REPEAT_1 "repeat 2 {\n    w[j] <- w[j] + 1\n}\n"
#define REPEAT_2 "repeat 2 {\n    w[j] <- w[j] + 2\n}\n"
#define REPEAT_3 "repeat 3 {\n    x[i] <- x[i] + u[i+1]  for i in 0..95\n}\n"
#define SEND_1                                                                 \
    "u_to_0[i0] <- u[i0]  for i0 in 0..1\n"                                    \
    "extern messages[] <- 0\nextern messages[] <- 1\n"
#define SEND_2                                                                 \
    "u_to_0_2[i0] <- u[i0]  for i0 in 0..1\n"                                  \
    "extern messages[] <- 2\nextern messages[] <- 3\n"
#define UPDATE "x[i] <- x[i] * u[i+1]  for i in 0..95\n"
#define TWICE  "u[i] <- u[i] * 2\n"
#define THRICE "u[i] <- u[i] * 3\n"

static const change moved_messages[] = {
    {"the message of an op is sent before an earlier repeat",
     TWICE REPEAT_1 SEND_1, SEND_1 TWICE REPEAT_1, "messages of u start"},
    {"the same with the right values", REPEAT_1 SEND_1, SEND_1 REPEAT_1,
     "messages of u start"},
    {"the message of a repeat is sent before an earlier one",
     REPEAT_2 THRICE SEND_2, SEND_2 REPEAT_2 THRICE, "messages of u start"},
    {"the message of a repeat is sent after it", SEND_2 REPEAT_3,
     REPEAT_3 SEND_2, "messages of u start"},
    {"the message of an op is sent after it", SEND_1 UPDATE, UPDATE SEND_1,
     NULL},
};

// The text of a program with a change; NULL if it does not have the words.
static char *changed(const char *program, const change *c)
{
    const char *at = strstr(program, c->from);
    size_t before = at ? (size_t)(at - program) : 0;
    size_t size = strlen(program) + strlen(c->to) + 1;
    char *out = at ? malloc(size) : NULL;
    if (out)
        snprintf(out, size, "%.*s%s%s", (int)before, program, c->to,
                 at + strlen(c->from));
    return out;
}

static int is_judged(const dv_plan *team, const char *program, const change *c)
{
    char *mutant = changed(program, c);
    if (!mutant)
        return case_no("%s: the program has no \"%s\":\n%s", c->what, c->from,
                       program);
    dv_diag *diag = dv_diag_create();
    dv_program *p = NULL;
    if (dv_program_parse(&p, mutant, strlen(mutant), "mutant", NULL, 0, diag))
        return case_no("%s: %s", c->what, dv_diag_text(diag));
    dv_plan rank = {.ops = p};
    dv_status st = dv_check_rank(team, &rank, 1, DV_NOWHERE, diag);
    const char *message = dv_diag_text(diag);
    int ok = c->why ? st == DV_E_CHECK && strstr(message, "C32: rank 1: ") &&
                          strstr(message, c->why)
                    : st == DV_OK;
    if (!ok)
        case_no("%s: status %d, %s\n%s", c->what, (int)st, message, mutant);
    dv_program_destroy(p);
    dv_diag_destroy(diag);
    free(mutant);
    return ok;
}

#define N_CHANGES(list) (sizeof(list) / sizeof *(list))

// Judges n changes of the program of rank 1.
static void try_on(const char *target, const char *source, int64_t n_ranks,
                   const change *all, size_t n)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.team = n_ranks;
    o.rank = 1;
    dv_plan *team = plan_on(source, target, NULL, &o);
    const dv_plan *rank = dv_plan_class_of(team, 1)->plan;
    dv_text program = {0};
    int n_wrong = 0;
    dv_program_print(&program, rank->ops, 0);
    for (size_t i = 0; i < n; i++)
        if (!is_judged(team, program.at, &all[i])) {
            n_wrong++;
            print_error("%s\n", case_why());
        }
    dv_text_free(&program);
    dv_plan_destroy(team);
    assert_int_equal(n_wrong, 0);
}

TEST(test_here)
{
    try_on("host", text, 3, changes, N_CHANGES(changes));
}

TEST(test_simulated)
{
    try_on("spyre", text, 3, changes, N_CHANGES(changes));
    try_on("wormhole", text, 3, changes, N_CHANGES(changes));
}

TEST(test_messages_between_repeats)
{
    try_on("host", between_repeats, 2, moved_messages,
           N_CHANGES(moved_messages));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_here), cmocka_unit_test(test_simulated),
        cmocka_unit_test(test_messages_between_repeats)};
    return run_group(tests, case_set_up, case_tear_down);
}
