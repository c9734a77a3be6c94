// The library in a program that uses MPI itself: its own communicator, messages
// cut into pieces, and errors that all ranks return. Run by mpi.sh under mpirun
// with any number of ranks.
#include "random.h"
#include "harness/teams.h"
#include "witness.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, bad;

static void expect(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "rank %d: %s\n", rank, what);
    bad = 1;
}

// -- Wires -----------------------------------------------------------------

// Sends so many bytes around the ring of ranks, several times with the same
// persistent requests.
static void ring(dv_comm *c, int64_t bytes)
{
    int64_t next = (c->rank + 1) % c->size;
    int64_t before = (c->rank + c->size - 1) % c->size;
    unsigned char *out = malloc((size_t)bytes + 1);
    unsigned char *in = malloc((size_t)bytes + 1);
    dv_message_buffer send = {next, out, bytes}, receive = {before, in, bytes};
    dv_message_set *w = NULL;
    expect(!c->ops->open(c, &w, 3, &send, 1, &receive, 1, NULL), "open");
    for (int round = 0; round < 3 && w; round++) {
        for (int64_t i = 0; i < bytes; i++)
            out[i] = (unsigned char)(i * 7 + c->rank + round);
        memset(in, 0, (size_t)bytes);
        expect(!c->ops->start(c, w), "start");
        expect(c->ops->next(c, w) == 0, "one message comes");
        expect(c->ops->next(c, w) == -1, "and no other");
        expect(!c->ops->finish(c, w), "finish");
        int same = 1;
        for (int64_t i = 0; i < bytes; i++)
            same &= in[i] == (unsigned char)(i * 7 + before + round);
        expect(same, "what came is what was sent");
    }
    c->ops->close(c, w);
    free(out);
    free(in);
}

static void test_message_sets(void)
{
    static const int64_t limits[] = {0, 1, 7, 64, 1000};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        dv_comm *c = NULL;
        dv_mpi_options o = {.max_bytes = limits[i],
                            .timeout_s = i % 2 ? 60 : 0};
        expect(!dv_mpi_create(&c, NULL, &o, NULL), "create");
        if (!c)
            return;
        for (int64_t bytes = 0; bytes < 200; bytes += 33)
            ring(c, bytes);
        int64_t most = 10 * rank;
        expect(!c->ops->agree(c, &most) && most == 10 * (size - 1), "agree");
        char text[100] = "";
        if (rank == size - 1)
            memset(text, 'x', 99);
        expect(!c->ops->share(c, size - 1, text, 100) && strlen(text) == 99,
               "share");
        dv_mpi_destroy(c);
    }
}

// -- Agreeing --------------------------------------------------------------

static void test_settle(void)
{
    dv_comm *c = NULL;
    if (dv_mpi_create(&c, NULL, NULL, NULL))
        return;
    dv_diag *mine = dv_diag_create(), *all = dv_diag_create();
    dv_status st = DV_OK;
    if (rank == size - 1)
        st = dv_fail(mine, DV_E_FILE, DV_NOWHERE, "no such thing as %d", 42);
    expect(dv_comm_agree_status(c, st, mine, all) == DV_E_FILE,
           "the same status");
    char want[64];
    // The only rank of a team is not named.
    if (size == 1)
        snprintf(want, sizeof want, "no such thing as 42");
    else
        snprintf(want, sizeof want, "rank %d: no such thing as 42", size - 1);
    expect(strstr(dv_diag_text(all), want) != NULL, "the same words");
    dv_diag_destroy(all);
    all = dv_diag_create();
    st = dv_comm_check_same(c, 5, "step", all);
    expect(st == DV_OK, "the same");
    st = dv_comm_check_same(c, rank == size - 1 ? 6 : 5, "step", all);
    // With two ranks nobody can tell which one differs.
    snprintf(want, sizeof want, "rank %d has gone another way", size - 1);
    expect(size == 1 || st == DV_E_USAGE, "not the same");
    expect(size < 3 || strstr(dv_diag_text(all), want), "who it is");
    dv_diag_destroy(mine);
    dv_diag_destroy(all);
    dv_mpi_destroy(c);
}

// Ranks that would cut messages differently, and so wait for each other for
// ever, are told so.
static void test_options(void)
{
    dv_diag *diag = dv_diag_create();
    dv_mpi_options o = {.max_bytes = rank == size - 1 ? 50 : 60};
    dv_comm *c = NULL;
    char want[128];
    dv_status st = dv_mpi_create(&c, NULL, &o, diag);
    snprintf(want, sizeof want, "rank %d was created with max_message_bytes",
             size - 1);
    expect(st == (size == 1 ? DV_OK : DV_E_USAGE), "messages cut differently");
    expect(size == 1 || strstr(dv_diag_text(diag), want), "who does");
    dv_mpi_destroy(c);
    dv_diag_destroy(diag);
    diag = dv_diag_create();
    c = NULL;
    o = (dv_mpi_options){.checked = rank == size - 1, .timeout_s = 60 + rank};
    st = dv_mpi_create(&c, NULL, &o, diag);
    expect(st == (size == 1 ? DV_OK : DV_E_USAGE), "only some are checked");
    dv_mpi_destroy(c);
    dv_diag_destroy(diag);
}

// -- A program -------------------------------------------------------------

static const char heat[] = "input u: f64[37, 29]\n"
                           "repeat 5 {\n"
                           "u[i,j] <- 0.25 * (u[i-1,j] + u[i+1,j] + u[i,j-1] + "
                           "u[i,j+1]) for i in 1..36, j in 1..28\n}\n"
                           "output u\n";
static const char look[] = "input v: f64[8]\ninput p: i64[8]\n"
                           "repeat 3 {\ny[i] = v[p[i]]\n"
                           "v[i] <- y[7-i] for i in 0..8\n}\noutput v\n";

static dv_plan *plan_for(const char *text, int64_t n, int64_t r)
{
    dv_target *t = NULL;
    dv_program *p = case_program(text);
    dv_plan *plan = !p || dv_target_load(&t, "host", NULL)
                        ? NULL
                        : teams_plan(p, t, n, r, NULL);
    dv_program_destroy(p);
    dv_target_destroy(t);
    return plan;
}

// Fills the own elements with a function of their numbers.
static void fill(dv_rank_exec *m, const char *name, int64_t cols)
{
    dv_box l, own;
    void *data = NULL;
    expect(!dv_rank_exec_data(m, name, &data, &l, &own, NULL), "data");
    for (int64_t i = 0; data && i < own.dim[0].size; i++)
        for (int64_t j = 0; j < own.dim[1].size; j++) {
            int64_t x = own.dim[0].off + i, y = own.dim[1].off + j;
            ((double *)
                 data)[(x - l.dim[0].off) * l.dim[1].size + y - l.dim[1].off] =
                (double)((x * cols + y) % 101);
        }
}

// Runs a plan on some of the ranks, in messages of 100 bytes, twice in a row.
static void test_member(MPI_Comm part)
{
    int r, n;
    MPI_Comm_rank(part, &r);
    MPI_Comm_size(part, &n);
    dv_plan *plan = plan_for(heat, n, r);
    dv_rank_exec *m = NULL;
    dv_rank_exec_options o = DV_RANK_EXEC_OPTIONS_INIT;
    o.max_message_bytes = 100;
    o.checked = 1;
    expect(!dv_rank_exec_create(&m, plan, &part, &o, NULL), "a member");
    if (!m)
        return;
    double *got = malloc(37 * 29 * 8), *want = malloc(37 * 29 * 8);
    for (int i = 0; i < 37 * 29; i++)
        want[i] = i % 101;
    void *data[8] = {0};
    data[dv_program_find(plan->ops, "u")] = want;
    dv_plan *one = plan_for(heat, 1, 0);
    expect(!dv_team_run(one, data, NULL, NULL, NULL), "alone");
    for (int k = 0; k < 2; k++) {
        fill(m, "u", 29);
        expect(!dv_rank_exec_run(m, NULL), "run");
        expect(!dv_rank_exec_gather(m, "u", r ? NULL : got, NULL), "gather");
        expect(r || !memcmp(got, want, 37 * 29 * 8), "the same bits as alone");
    }
    // The last rank asks for another tensor than the others, whether it exists
    // or not.
    if (n > 1)
        expect(dv_rank_exec_gather(m, r == n - 1 ? "w" : "u", r ? NULL : got,
                                   NULL) == DV_E_USAGE,
               "tensors differ");
    free(got);
    free(want);
    dv_rank_exec_destroy(m);
    dv_plan_destroy(plan);
    dv_plan_destroy(one);
}

// The last rank has the plan of another program, or one that is cut
// differently: all ranks refuse.
static void test_plans(void)
{
    int odd = size > 1 && rank == size - 1;
    for (int k = 0; k < 2; k++) {
        dv_rank_exec *m = NULL;
        dv_diag *diag = dv_diag_create();
        dv_plan *plan = plan_for(odd && k == 0 ? look : heat, size, rank);
        int32_t u = k ? dv_program_find(plan->ops, "u") : -1;
        if (odd && u >= 0)
            plan->team.tensors[u].axis[0] = -1;
        dv_status st = dv_rank_exec_create(&m, plan, NULL, NULL, diag);
        expect(size == 1 ? st == DV_OK : st != DV_OK, "other plans");
        expect(size == 1 || k || strstr(dv_diag_text(diag), "with hash"),
               "what differs");
        dv_rank_exec_destroy(m);
        dv_plan_destroy(plan);
        dv_diag_destroy(diag);
    }
}

// An index is out of bounds on the last rank: all ranks return the error and
// can go on.
static void test_trouble(void)
{
    dv_plan *plan = plan_for(look, size, rank);
    dv_rank_exec *m = NULL;
    expect(!dv_rank_exec_create(&m, plan, NULL, NULL, NULL), "a member");
    for (int k = 0; m && k < 3; k++) {
        dv_box l, own;
        void *v = NULL, *p = NULL;
        dv_rank_exec_data(m, "v", &v, &l, &own, NULL);
        for (int64_t i = 0; v && i < own.dim[0].size; i++)
            ((double *)v)[own.dim[0].off + i - l.dim[0].off] = 1;
        dv_rank_exec_data(m, "p", &p, &l, &own, NULL);
        for (int64_t i = 0; p && i < own.dim[0].size; i++) {
            int64_t x = own.dim[0].off + i;
            ((int64_t *)p)[x - l.dim[0].off] = k == 1 && x == 7 ? 99 : x;
        }
        dv_diag *diag = dv_diag_create();
        dv_status st = dv_rank_exec_run(m, diag);
        expect(st == (k == 1 ? DV_E_BOUNDS : DV_OK), "bounds in round 1 alone");
        expect(k != 1 || strstr(dv_diag_text(diag), "99"), "which index");
        dv_diag_destroy(diag);
    }
    dv_rank_exec_destroy(m);
    dv_plan_destroy(plan);
}

// -- Files -----------------------------------------------------------------

// Files in calls of 100 bytes: written, read back, and a run resumed from a
// checkpoint.
static void test_files(const char *path)
{
    dv_comm *c = NULL;
    dv_rank *r = NULL;
    dv_plan *plan = plan_for(heat, size, rank);
    dv_mpi_options o = {.max_bytes = 100};
    dv_box l, own;
    if (dv_mpi_create(&c, NULL, &o, NULL))
        return;
    expect(plan && !dv_rank_create(&r, plan, c, NULL, NULL), "a rank");
    int32_t u = plan ? dv_program_find(plan->ops, "u") : -1;
    if (r) {
        double *data = dv_rank_data(r, u, &l, &own);
        size_t bytes = (size_t)dv_box_elems(&l) * sizeof(double);
        double *was = malloc(bytes + 1);
        for (int64_t i = 0; data && i < dv_box_elems(&l); i++)
            data[i] = (double)(100 * rank + i);
        memcpy(was, dv_rank_memory(r, u), bytes);
        expect(!dv_rank_write_npy(r, u, path, NULL), "write");
        if (data)
            memset(data, 0, bytes);
        expect(!dv_rank_read_npy(r, u, path, NULL), "read");
        int same = 1;
        for (int64_t i = 0; data && i < own.dim[0].size; i++)
            for (int64_t k = 0; k < own.dim[1].size; k++) {
                int64_t at =
                    (own.dim[0].off + i - l.dim[0].off) * l.dim[1].size +
                    own.dim[1].off + k - l.dim[1].off;
                same &= data[at] == was[at];
            }
        expect(same, "what was written is read");
        expect(!dv_checkpoint_save(r, path, 0, 2, NULL), "save");
        expect(!dv_checkpoint_load(r, path, NULL, NULL), "load");
        expect(!dv_rank_run(r, NULL), "go on");
        free(was);
    }
    dv_rank_destroy(r);
    dv_mpi_destroy(c);
    dv_plan_destroy(plan);
}

// -- What a loop costs -----------------------------------------------------

// Everything that a run may do in a repeat: a stencil, a product, sums over
// several ranks, sums over many points.
static const char busy[] =
    "input u: f64[64, 96]\ninput a: f32[64, 40]\ninput b: f32[40, 64]\n"
    "repeat 9 {\n"
    "u[i,j] <- 0.25 * (u[i-1,j] + u[i+1,j] + u[i,j-1] + u[i,j+1]) "
    "for i in 1..63, j in 1..95\n"
    "c[i,j] = sum[k] a[i,k] * b[k,j]\n"
    "r[j] = sum[i] u[i,j]\n"
    "s[] = sum[i,j] u[i,j] * u[i,j]\n"
    "a[i,k] <- a[i,k] + 0.001 * c[i,k] for i in 0..64, k in 0..40\n"
    "}\noutput u, a, r, s\n";

static dv_status after_round(void *user, int32_t repeat, int64_t round,
                             dv_status mine, dv_diag *trouble, dv_diag *diag)
{
    (void)repeat, (void)mine, (void)trouble, (void)diag;
    if (round == 2 || round == 9)
        ((witness *)user)[round == 9] = seen;
    return DV_OK;
}

static void test_loop(int32_t threads)
{
    dv_comm *c = NULL;
    dv_rank *r = NULL;
    dv_plan *plan = plan_for(busy, size, rank);
    witness at[2] = {{0}};
    dv_rank_options how = {.threads = threads};
    if (dv_mpi_create(&c, NULL, NULL, NULL))
        return;
    int64_t before = seen.allocated;
    expect(plan && !dv_rank_create(&r, plan, c, &how, NULL), "a rank");
    expect(seen.allocated > before, "creating allocates, and is seen to");
    if (r) {
        dv_rank_on_step(r, after_round, at);
        expect(!dv_rank_run(r, NULL), "run");
        expect(at[1].allocated == at[0].allocated, "no memory in the loop");
        expect(at[1].prepared == at[0].prepared, "no request made in it");
        expect(at[1].others == at[0].others, "all of them are persistent");
        expect(size == 1 || at[1].started > at[0].started, "and are started");
    }
    dv_rank_destroy(r);
    dv_mpi_destroy(c);
    dv_plan_destroy(plan);
}

// One rank is in another round of the repeat than the others: the check of
// calls names it before anything is sent that nobody receives.
static void test_diverged(void)
{
    dv_comm *c = NULL;
    dv_rank *r = NULL;
    dv_plan *plan = plan_for(heat, size, rank);
    dv_mpi_options o = {.checked = 1, .timeout_s = 60};
    if (size < 3 || dv_mpi_create(&c, NULL, &o, NULL))
        return;
    expect(plan && !dv_rank_create(&r, plan, c, NULL, NULL), "a rank");
    dv_diag *diag = dv_diag_create();
    if (r) {
        int64_t sent = seen.started;
        dv_rank_resume_at(r, 0, rank == 1 ? 3 : 2);
        expect(dv_rank_run(r, diag) == DV_E_USAGE, "it is found out");
        expect(strstr(dv_diag_text(diag), "rank 1 has gone another way") !=
                   NULL,
               "which rank it is");
        expect(seen.started == sent, "before a message");
    }
    dv_diag_destroy(diag);
    dv_rank_destroy(r);
    dv_mpi_destroy(c);
    dv_plan_destroy(plan);
}

// If MPI was initialized for one thread, a run uses no other threads.
static void test_one_thread(void)
{
    int level;
    dv_rank_exec *m = NULL;
    dv_rank_exec_options o = DV_RANK_EXEC_OPTIONS_INIT;
    dv_plan *plan = plan_for(heat, size, rank);
    dv_diag *diag = dv_diag_create();
    MPI_Query_thread(&level);
    o.threads = 2;
    dv_status st = dv_rank_exec_create(&m, plan, NULL, &o, diag);
    expect(level >= MPI_THREAD_FUNNELED || st == DV_E_USAGE, "2 threads");
    dv_rank_exec_destroy(m);
    m = NULL;
    expect(!dv_rank_exec_create(&m, plan, NULL, NULL, NULL), "the usual");
    expect(m && !dv_rank_exec_run(m, NULL), "it runs");
    dv_rank_exec_destroy(m);
    dv_diag_destroy(diag);
    dv_plan_destroy(plan);
}

int main(int argc, char **argv)
{
    int single = argc > 1 && !strcmp(argv[1], "single"), level;
    if (single)
        MPI_Init(&argc, &argv);
    else
        MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (single) {
        test_one_thread();
        MPI_Finalize();
        return bad;
    }
    test_message_sets();
    test_settle();
    test_options();
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    test_member(half);
    MPI_Comm_free(&half);
    test_plans();
    test_trouble();
    if (argc > 1)
        test_files(argv[1]);
    test_loop(1);
    test_loop(2);
    test_diverged();
    if (argc > 2)
        expect(example_programs(argv[2]), "examples");
    expect(random_programs(size > 2 ? 15 : 25), "random programs");
    int any = 0;
    MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any;
}
