// One rank of a distributed run. The rank's part of the program is a program of
// its own (dist/rank_program.h), with a plan of its own and an executor. The
// executor stops at the extern ops that stand for communication, and the rank
// then sends, receives or adds up partial sums. Everything is prepared before
// the first run.
#define _POSIX_C_SOURCE 200809L // declares sysconf
#include "base/clock.h"
#include "base/math.h"
#include "base/plural.h"
#include "check/check.h"
#include "dist/rank_program.h"
#include "team/combine.h"
#include <inttypes.h>
#include <string.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { MAX_THREADS = 1024 };

// The messages of one exchange: one buffer per partner rank, in which the boxes
// for it, or from it, are stored one after the other.
typedef struct exchange {
    dv_message_buffer *sends, *receives;
    int32_t n_sends, n_receives;
    dv_message_set *set;
    dv_exchange_traffic carried; // traffic received by this rank so far
} exchange;

struct dv_rank {
    dv_arena arena;      // holds the rank itself
    const dv_plan *team; // the team's plan
    const dv_program *p; // the team's program
    dv_comm *comm;
    dv_rank_program *part;
    int32_t n_part_ops;  // number of ops of the rank's program
    const dv_plan *plan; // of the rank's program
    dv_plan *own_plan;   // the same if the team's plan does not have it
    dv_exec *exec;
    // The rank's memory of each tensor of the team's program; NULL if the rank
    // has none of it or only the executor uses it.
    void **data;
    int32_t messages; // the tensor of the plan that events write; -1: none
    exchange *exchanges;
    dv_combine **sums; // per op of the team's program; NULL: not split
    int32_t n_sets;    // number of message sets so far
    // Messages in flight that progress only when ops->progress is called; NULL:
    // none.
    dv_message_set *in_flight;
    dv_diag *diag; // the caller's error messages
    // Callback after each iteration of an outermost repeat (a loop of the
    // program).
    dv_rank_step step;
    void *user;
    int64_t round;          // iterations of the current repeat so far
    uint64_t hash, program; // hashes of the plan and of its program alone
    uint64_t n_done;        // number of exchanges so far
    // Seconds of the last run spent in exchanges instead of computing.
    double exchange_s;
};

// -- Creating a rank ---------------------------------------------------------

static dv_status bind(dv_rank *r, int32_t tensor, void *data, dv_diag *diag)
{
    const dv_tensor *t = &r->plan->ops->tensors[tensor];
    return dv_exec_bind(r->exec, t->name, data, (size_t)dv_tensor_bytes(t),
                        diag);
}

// Allocates a tensor of the rank's program that is an input or an output and
// binds it. Writing the memory makes the system map its pages before the run.
static dv_status get_memory(dv_rank *r, int32_t tensor, void **data,
                            dv_diag *diag)
{
    const dv_tensor *t = &r->plan->ops->tensors[tensor];
    size_t bytes = (size_t)dv_tensor_bytes(t);
    *data = dv_arena_buffer(&r->arena, bytes);
    if (!*data)
        return dv_nomem(diag);
    memset(*data, 0, bytes);
    return bind(r, tensor, *data, diag);
}

static dv_status bind_tensors(dv_rank *r, dv_diag *diag)
{
    const dv_program *p = r->plan->ops;
    for (int32_t i = 0; i < r->p->n_tensors; i++) {
        int32_t t = r->part->tensor[i];
        if (t >= 0 && (p->tensors[t].is_input || p->tensors[t].is_output))
            DV_TRY(get_memory(r, t, &r->data[i], diag));
    }
    void *messages;
    r->messages = -1;
    if (!r->part->messages)
        return DV_OK;
    r->messages = dv_program_find(p, r->part->messages);
    return get_memory(r, r->messages, &messages, diag);
}

// Groups the boxes of an exchange into one message per partner rank, allocates
// its buffer, and binds the tensors that hold the boxes to parts of it. The
// boxes are sorted by rank, as rule C20 of the plan checker (check/) demands.
static dv_status make_messages(dv_rank *r, const dv_piece *l, int32_t n,
                               const int32_t *tensors, int64_t elem_bytes,
                               dv_message_buffer **out, int32_t *n_out,
                               dv_diag *diag)
{
    *out = DV_NEW(&r->arena, dv_message_buffer, n);
    if (!*out)
        return dv_nomem(diag);
    for (int32_t i = 0, end; i < n; i = end) {
        int64_t bytes = 0;
        for (end = i; end < n && l[end].rank == l[i].rank; end++)
            bytes += dv_box_elems(&l[end].box) * elem_bytes;
        char *at = dv_arena_buffer(&r->arena, (size_t)bytes);
        if (!at)
            return dv_nomem(diag);
        memset(at, 0, (size_t)bytes);
        (*out)[(*n_out)++] = (dv_message_buffer){l[i].rank, at, bytes};
        for (int32_t k = i; k < end; k++) {
            DV_TRY(bind(r, tensors[k], at, diag));
            at += dv_box_elems(&l[k].box) * elem_bytes;
        }
    }
    return DV_OK;
}

static dv_status create_exchanges(dv_rank *r, dv_diag *diag)
{
    for (int32_t i = 0; i < r->team->team.n_op_exchanges; i++) {
        const dv_op_exchange *e = &r->part->exchanges[i];
        exchange *x = &r->exchanges[i];
        int64_t bytes = dv_elem_bytes(r->p, e->tensor);
        DV_TRY(make_messages(r, e->sends, e->n_sends, r->part->sends[i], bytes,
                             &x->sends, &x->n_sends, diag));
        DV_TRY(make_messages(r, e->receives, e->n_receives,
                             r->part->receives[i], bytes, &x->receives,
                             &x->n_receives, diag));
        DV_TRY(r->comm->ops->open(r->comm, &x->set, r->n_sets++, x->sends,
                                  x->n_sends, x->receives, x->n_receives,
                                  diag));
    }
    return DV_OK;
}

static dv_status create_sums(dv_rank *r, dv_diag *diag)
{
    for (int32_t i = 0; i < r->p->n_ops; i++) {
        DV_TRY(dv_combine_create(&r->sums[i], r->team, i, r->comm,
                                 &r->part->targets[i], r->part->has_target[i],
                                 &r->n_sets, &r->arena, diag));
        if (r->sums[i])
            DV_TRY(
                bind(r, r->part->parts[i], dv_combine_parts(r->sums[i]), diag));
    }
    return DV_OK;
}

// Hashes what must be the same on all ranks: the program, the distribution of
// its tensors, and the exchanges.
static dv_status hash_plan(dv_rank *r, dv_diag *diag)
{
    dv_text text = {0};
    const dv_plan_team *t = &r->team->team;
    dv_program_print(&text, r->p, 0);
    if (text.failed) {
        dv_text_free(&text);
        return dv_nomem(diag);
    }
    r->hash = dv_hash(DV_HASH, text.at, text.len);
    dv_text_free(&text);
    r->program = r->hash;
    const uint64_t parts[] = {dv_team_hash_cuts(r->p, t),
                              dv_team_hash_exchanges(t)};
    r->hash = dv_hash(r->hash, t->grid, (size_t)t->n_axes * sizeof *t->grid);
    r->hash = dv_hash(r->hash, parts, sizeof parts);
    return DV_OK;
}

int32_t dv_rank_usual_threads(const dv_comm *comm)
{
#ifdef _OPENMP
    if (comm->one_thread)
        return 1;
    int64_t mine = omp_get_num_procs(), all = sysconf(_SC_NPROCESSORS_ONLN);
    if (mine >= all)
        mine /= dv_max_i64(1, comm->ranks_on_machine);
    return (int32_t)dv_max_i64(1, mine);
#else
    (void)comm;
    return 1;
#endif
}

// Replaces numbers of tensors of the rank's program by those in its plan, which
// may have added tensors; names[t] is the name of tensor t.
static void renumber(const dv_rank *r, const char *const *names, int32_t *list,
                     int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        list[i] =
            list[i] < 0 ? -1 : dv_program_find(r->plan->ops, names[list[i]]);
}

static void number_tensors(dv_rank *r, const char *const *names)
{
    dv_rank_program *x = r->part;
    renumber(r, names, x->tensor, r->p->n_tensors);
    renumber(r, names, x->parts, r->p->n_ops);
    for (int32_t i = 0; i < r->team->team.n_op_exchanges; i++) {
        renumber(r, names, x->sends[i], x->exchanges[i].n_sends);
        renumber(r, names, x->receives[i], x->exchanges[i].n_receives);
    }
}

// Plans this rank's program again, with the options of the team's plan, and
// lets the checker prove the new plan.
static dv_status plan_again(dv_rank *r, int64_t threads, dv_diag *diag)
{
    dv_plan_options how = DV_PLAN_OPTIONS_INIT;
    if (r->team->rank_options)
        how = *r->team->rank_options;
    how.threads = threads;
    DV_TRY(dv_rank_program_plan(&r->own_plan, r->team, r->part, r->part->op_of,
                                &how, diag));
    r->plan = r->own_plan;
    return dv_check_rank(r->team, r->plan, r->comm->rank, DV_NOWHERE, diag);
}

// Finds the rank's plan in that of the team. If that has none, or the options
// ask for another number of threads or forbid computing while messages travel,
// the rank is planned here.
static dv_status find_plan(dv_rank *r, const dv_rank_options *o, dv_diag *diag)
{
    int overlap = !o || !o->no_overlap;
    int here = dv_target_runs_here(&r->team->target);
    int64_t threads =
        o && o->threads > 0 ? o->threads : dv_rank_usual_threads(r->comm);
    const dv_rank_class *c = dv_plan_class_of(r->team, r->comm->rank);
    DV_TRY(dv_rank_program_create(&r->part, r->team, r->comm->rank, overlap,
                                  diag));
    const dv_program *p = r->part->p;
    r->n_part_ops = p->n_ops;
    const char **names = DV_NEW(&r->arena, const char *, p->n_tensors);
    if (!names)
        return dv_nomem(diag);
    for (int32_t i = 0; i < p->n_tensors; i++)
        names[i] = p->tensors[i].name;
    threads = dv_min_i64(threads, MAX_THREADS);
    int wanted = !here || !o || o->threads <= 0 ||
                 (c && c->plan->target.cores == threads);
    if (c && overlap && wanted)
        r->plan = c->plan;
    else
        DV_TRY(plan_again(r, here ? threads : 0, diag));
    number_tensors(r, names);
    return DV_OK;
}

static dv_status at_event(void *user, int32_t op);
static dv_status after_round(void *user, int32_t repeat, int64_t round);
static void poll(void *user);

static dv_status make_rank(dv_rank *r, const dv_rank_options *o, dv_diag *diag)
{
    r->data = DV_NEW(&r->arena, void *, r->p->n_tensors);
    r->exchanges = DV_NEW(&r->arena, exchange, r->team->team.n_op_exchanges);
    r->sums = DV_NEW(&r->arena, dv_combine *, r->p->n_ops);
    if (!r->data || !r->exchanges || !r->sums)
        return dv_nomem(diag);
    DV_TRY(find_plan(r, o, diag));
    DV_TRY(dv_exec_create(&r->exec, r->plan, diag));
    dv_exec_hooks hooks = {.at_extern = at_event,
                           .after_round = after_round,
                           .poll = r->comm->ops->progress ? poll : NULL,
                           .user = r};
    dv_exec_set_hooks(r->exec, &hooks);
    DV_TRY(bind_tensors(r, diag));
    DV_TRY(create_exchanges(r, diag));
    DV_TRY(create_sums(r, diag));
    return hash_plan(r, diag);
}

dv_status dv_rank_create(dv_rank **out, const dv_plan *plan, dv_comm *comm,
                         const dv_rank_options *options, dv_diag *diag)
{
    int64_t n = comm->size;
    if (!plan->team.n_axes)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the plan is not for a team of processes, as runs with "
                       "mpirun, --checkpoint or --resume need it: plan the "
                       "program for a team of %" PRId64
                       " (divvy plan PROGRAM --team %" PRId64 ")",
                       n, n);
    if (dv_plan_team_size(&plan->team) != n)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the plan is for a team of %" PRId64
                       ", there %s %" PRId64 " rank%s",
                       dv_plan_team_size(&plan->team),
                       DV_PLURAL(n, "is", "are"), n, DV_PLURAL(n, "", "s"));
    if (comm->one_thread && options && options->threads > 1)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "%d thread%s: MPI was initialized for one; "
                       "MPI_THREAD_FUNNELED allows more",
                       (int)options->threads,
                       DV_PLURAL(options->threads, "", "s"));
    DV_TRY(dv_plan_check_rank(plan, comm->rank, diag));
    dv_arena arena = {0};
    dv_rank *r = DV_NEW(&arena, dv_rank, 1);
    if (!r)
        return dv_nomem(diag);
    r->arena = arena;
    r->team = plan;
    r->p = plan->ops;
    r->comm = comm;
    dv_status st = make_rank(r, options, diag);
    if (st == DV_OK)
        *out = r;
    else
        dv_rank_destroy(r);
    return st;
}

void dv_rank_destroy(dv_rank *r)
{
    if (!r)
        return;
    for (int32_t i = 0; r->exchanges && i < r->team->team.n_op_exchanges; i++)
        r->comm->ops->close(r->comm, r->exchanges[i].set);
    for (int32_t i = 0; r->sums && i < r->p->n_ops; i++)
        dv_combine_close(r->sums[i], r->comm);
    dv_exec_destroy(r->exec);
    dv_plan_destroy(r->own_plan);
    dv_rank_program_destroy(r->part);
    dv_arena arena = r->arena;
    dv_arena_free(&arena);
}

// -- Running -----------------------------------------------------------------

// With --checked, verifies that all ranks are at the same exchange and
// iteration.
static dv_status compare(dv_rank *r, const exchange *x)
{
    uint64_t what[4] = {r->hash, (uint64_t)(x - r->exchanges), r->n_done++,
                        (uint64_t)r->round};
    if (!r->comm->checked)
        return DV_OK;
    return dv_comm_check_same(r->comm, dv_hash(DV_HASH, what, sizeof what),
                              "next exchange", r->diag);
}

static dv_status start(dv_rank *r, exchange *x)
{
    int32_t number = (int32_t)(x - r->exchanges);
    DV_TRY(compare(r, x));
    for (int32_t i = 0; i < r->part->exchanges[number].n_sends; i++)
        dv_exec_get(r->exec, r->part->sends[number][i]);
    x->carried.times++;
    if (r->comm->ops->progress)
        r->in_flight = x->set;
    return r->comm->ops->start(r->comm, x->set);
}

static dv_status wait(dv_rank *r, exchange *x)
{
    int32_t i, number = (int32_t)(x - r->exchanges);
    r->in_flight = NULL;
    while ((i = r->comm->ops->next(r->comm, x->set)) >= 0)
        x->carried.bytes += x->receives[i].bytes;
    for (i = 0; i < r->part->exchanges[number].n_receives; i++)
        DV_TRY(dv_exec_put(r->exec, r->part->receives[number][i], r->diag));
    return r->comm->ops->finish(r->comm, x->set);
}

static dv_status combine(dv_rank *r, int32_t op)
{
    dv_exec_get(r->exec, r->part->parts[op]);
    DV_TRY(dv_combine_run(r->sums[op], r->comm));
    return dv_exec_put(r->exec, r->part->parts[op], r->diag);
}

static dv_status at_event(void *user, int32_t op)
{
    dv_rank *r = user;
    const dv_op *o = &r->plan->ops->ops[op];
    if (o->write.tensor != r->messages)
        return DV_OK; // an extern op of the team's program
    const dv_rank_event *e = &r->part->events[(int32_t)o->body->value];
    double before = dv_clock_s();
    dv_status st = DV_OK;
    if (e->act == DV_ACT_START)
        st = start(r, &r->exchanges[e->of]);
    else if (e->act == DV_ACT_WAIT)
        st = wait(r, &r->exchanges[e->of]);
    else if (e->act == DV_ACT_COMBINE)
        st = combine(r, e->of);
    r->exchange_s += dv_clock_s() - before;
    return st;
}

static dv_status after_round(void *user, int32_t repeat, int64_t round)
{
    dv_rank *r = user;
    dv_diag *trouble;
    dv_status st = dv_exec_status(r->exec, &trouble);
    r->round = round;
    return r->step ? r->step(r->user, repeat, round, st, trouble, r->diag)
                   : DV_OK;
}

static void poll(void *user)
{
    dv_rank *r = user;
    if (r->in_flight)
        r->comm->ops->progress(r->comm, r->in_flight);
}

dv_status dv_rank_run(dv_rank *r, dv_diag *diag)
{
    dv_diag *mine = dv_diag_create();
    if (!mine)
        return dv_nomem(diag);
    r->diag = diag;
    r->exchange_s = 0;
    dv_status st = dv_exec_run(r->exec, mine);
    if (dv_exec_hook_status(r->exec) == DV_OK) {
        double before = dv_clock_s();
        st = dv_comm_agree_status(r->comm, st, mine, diag);
        r->exchange_s += dv_clock_s() - before;
    } else {
        r->comm->ops->fail(r->comm);
        // Reports the reason, unless diag already has an error.
        st = dv_comm_error(r->comm, st, diag);
    }
    dv_diag_destroy(mine);
    r->round = 0;
    return st;
}

void dv_rank_on_step(dv_rank *r, dv_rank_step step, void *user)
{
    r->step = step;
    r->user = user;
}

void dv_rank_resume_at(dv_rank *r, int32_t repeat, int64_t round)
{
    dv_exec_resume_at(r->exec, repeat, round);
    r->round = round;
}

// -- Asking a rank -----------------------------------------------------------

void *dv_rank_data(const dv_rank *r, int32_t tensor, dv_box *local, dv_box *own)
{
    *local = r->part->local[tensor];
    *own = r->part->own[tensor];
    return dv_box_empty(own) ? NULL : r->data[tensor];
}

uint64_t dv_rank_hash(const dv_rank *r, uint64_t *program)
{
    if (program)
        *program = r->program;
    return r->hash;
}

void *dv_rank_memory(const dv_rank *r, int32_t tensor)
{
    return r->data[tensor];
}

int dv_rank_keeps(const dv_rank *r, int32_t tensor)
{
    return r->part->kept[tensor];
}

const dv_plan *dv_rank_plan(const dv_rank *r, dv_comm **comm)
{
    if (comm)
        *comm = r->comm;
    return r->team;
}

const dv_plan *dv_rank_own_plan(const dv_rank *r)
{
    return r->plan;
}

int32_t dv_rank_threads(const dv_rank *r)
{
    return dv_exec_threads(r->exec);
}

dv_dtype dv_rank_type(const dv_rank *r, int32_t op)
{
    // op_of applies to the plan's ops only if they are the rank program's:
    // plans for this machine do not reorder ops, and add some only if it has
    // sticks (fixed-size units of memory).
    int same = dv_target_runs_here(&r->team->target) &&
               r->plan->ops->n_ops == r->n_part_ops;
    for (int32_t i = 0; i < r->plan->ops->n_ops && same; i++)
        if (r->part->op_of[i] == op)
            return dv_exec_type(r->exec, i);
    return dv_kernel_type(dv_op_compute(r->p, &r->p->ops[op]));
}

int32_t dv_rank_new_message_set(dv_rank *r)
{
    return r->n_sets++;
}

double dv_rank_exchange_s(const dv_rank *r)
{
    return r->exchange_s;
}

dv_exchange_traffic dv_rank_traffic(const dv_rank *r, int32_t number)
{
    return r->exchanges[number].carried;
}

const dv_sim_traffic *dv_rank_moved(const dv_rank *r)
{
    return dv_exec_moved(r->exec);
}
