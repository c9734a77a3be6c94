// Teams: a plan run by several ranks. Ranks are the processes of an MPI job, or
// threads of one process; all that they ask of either is a dv_comm.
//
//   comm_local.c   a team inside one process: messages through its memory
//   comm_mpi.[ch]  a team of processes: messages over MPI
//   mpi_none.c     replaces comm_mpi.c and file_mpi.c in builds without MPI
//   launch.c       finds out whether a launcher started this process
//   agree.c        agrees on a status and its message
//   facts.c        compares what must be the same on all ranks
//   rank.c         creates and runs a rank: its memory, messages, ops, threads
//   combine.[ch]   adds up results that several ranks hold parts of
//   gather.c       copies boxes; gathers a whole tensor on rank 0
//   in_process.c   runs a whole team inside this process
//   member.c       the public API of a rank (divvy/divvy.h)
//   file_mpi.c     reads and writes tensors in files through MPI-IO
//   npy_mpi.c      reads and writes .npy files, each rank its own box
//   checkpoint.c   saves and restores all tensors of a program
#ifndef DV_TEAM_H
#define DV_TEAM_H
#include "dist/dist.h"
#include "exec/exec.h"

// -- Messages ----------------------------------------------------------------

// What a distributed run asks of the thing that carries its messages. Messages
// are prepared once and sent as often as the program runs through them: buffers
// stay where they are, so that persistent requests fit behind this.
//
//   open     say once what goes where; every rank opens the same wires in the
//            same order, and numbers them alike
//   start    the send buffers are full: let them go, and let messages in
//   next     wait until one more message is there; returns its number, or -1
//            after the last
//   finish   the send buffers may be filled again
//
// Every call but open and close may be made in a loop and allocates nothing.
//
// A rank with a failure of its own (no memory, a bad index) goes on sending and
// receiving, and all agree about it where the program lets them meet
// (dv_comm_settle). A function of dv_comm_ops fails only where the
// communication itself fails. The field `why` then has the reason, and `fail`
// wakes ranks that wait for a message, if the communicator can do that.

// One message: its partner and the buffer it leaves from or arrives in.
typedef struct dv_link {
    int64_t rank;
    void *data; // borrowed until the wire is closed
    int64_t bytes;
} dv_link;

typedef struct dv_comm dv_comm;
// Messages that are prepared; whoever carries them adds its own fields.
typedef struct dv_wire {
    int32_t number; // of the exchange, the same on all ranks
} dv_wire;

typedef struct dv_comm_ops {
    const char *name;
    dv_status (*open)(dv_comm *c, dv_wire **out, int32_t number,
                      const dv_link *sends, int32_t n_sends,
                      const dv_link *receives, int32_t n_receives,
                      dv_diag *diag);
    dv_status (*start)(dv_comm *c, dv_wire *w);
    // The number of a receive that is there now; -1: all have been, or the team
    // failed, which finish tells.
    int32_t (*next)(dv_comm *c, dv_wire *w);
    dv_status (*finish)(dv_comm *c, dv_wire *w);
    void (*close)(dv_comm *c, dv_wire *w);
    // Wait for all; the largest value that anybody brought.
    dv_status (*agree)(dv_comm *c, int64_t *value);
    // What rank `root` has in `data`, to everybody's.
    dv_status (*share)(dv_comm *c, int64_t root, void *data, int64_t bytes);
    void (*fail)(dv_comm *c);
    // Let messages under way go on; NULL: they do so by themselves.
    void (*poke)(dv_comm *c, dv_wire *w);
} dv_comm_ops;

struct dv_comm {
    int64_t rank, size;
    int64_t near; // ranks on this machine; 0: not known
    const dv_comm_ops *ops;
    int64_t bytes, messages; // sent by this rank so far
    int one_thread;          // the process may have no others beside it
    int checked;             // compare what ranks do before they do it together
    char why[256]; // of a call that failed; empty: another rank failed
};

// -- Agreeing (agree.c) ------------------------------------------------------

// Everybody brings how its own part went, with its error in `mine` (NULL: no
// words). All return the same: DV_OK, or what the first rank that failed said.
dv_status dv_comm_settle(dv_comm *c, dv_status st, dv_diag *mine,
                         dv_diag *diag);
// Are all about to do the same? `hash` says what; the ranks that differ from
// most are named.
dv_status dv_comm_same(dv_comm *c, uint64_t hash, const char *what,
                       dv_diag *diag);
// The failure of a call of the comm, in words.
dv_status dv_comm_error(dv_comm *c, dv_status st, dv_diag *diag);
// Continue a hash with bytes (FNV-1a); begin with DV_HASH.
#define DV_HASH ((uint64_t)0xcbf29ce484222325u)
uint64_t dv_hash(uint64_t h, const void *bytes, size_t n);

// -- Comparing (facts.c) -----------------------------------------------------

// Something that all ranks must have alike, in words.
typedef struct dv_fact {
    const char *name;  // as a message has it: "--seed", "DIVVY_EXECUTOR="
    const char *value; // "": a switch that is on; NULL: this rank has none
} dv_fact;
// Compare lists of facts, together; two reductions where they are equal. All
// ranks return the same: DV_OK, or DV_E_USAGE with the first difference of the
// lowest rank that differs from rank 0, such as "rank 1 was started with --seed
// 7, rank 0 with --seed 1" where `how` is "started".
dv_status dv_comm_compare(dv_comm *c, const dv_fact *facts, int32_t n,
                          const char *how, dv_diag *diag);

// -- A team inside one process (comm_local.c) --------------------------------

typedef struct dv_local dv_local;
dv_status dv_local_create(dv_local **out, int64_t size, dv_diag *diag);
// Rank r's end; each is used by one thread at a time.
dv_comm *dv_local_rank(dv_local *l, int64_t rank);
void dv_local_destroy(dv_local *l);
// A team of some ranks of another one: it fails when that one does, and is
// destroyed first.
void dv_local_part(dv_local *l, dv_local *part);
// For teams without an owner: the last of the ranks to leave destroys it.
void dv_local_leave(dv_local *l);
// Bytes that have been carried so far, and messages.
int64_t dv_local_bytes(const dv_local *l);
int64_t dv_local_messages(const dv_local *l);

// -- Ranks (rank.c) ----------------------------------------------------------

// Each rank has its own boxes and what it borrows around them, computes what
// needs nothing from others while messages travel, and the rest as they arrive.
//
//   rank r        own box of u            local box of u
//                 [170..341, 0..512]      [168..343, 0..512]
//
// A rank is created once and run as often as one likes; a run allocates
// nothing. Everything is planned before the first message, alike on all ranks.

typedef struct dv_rank dv_rank;

typedef struct dv_rank_options {
    int32_t threads; // 0: the rank's share of the cores
    int no_overlap;  // compute when all messages are there, not while they come
    int64_t min_points; // of a tile that is worth a thread; 0: as usual
} dv_rank_options;

// The plan and the comm are borrowed; their sizes must agree. options may be
// NULL.
dv_status dv_rank_create(dv_rank **out, const dv_plan *plan, dv_comm *comm,
                         const dv_rank_options *options, dv_diag *diag);
int32_t dv_rank_threads(const dv_rank *r); // that it works with
void dv_rank_destroy(dv_rank *r);
// A tensor as this rank has it: dense, row-major, the elements of `local`, of
// which `own` are its own. NULL: it has none of it.
void *dv_rank_data(const dv_rank *r, int32_t tensor, dv_box *local,
                   dv_box *own);
// The same memory, also where a rank owns nothing and borrows all it has.
void *dv_rank_memory(const dv_rank *r, int32_t tensor);
// Own elements from a whole tensor, and into one.
void dv_rank_put(dv_rank *r, int32_t tensor, const void *whole);
void dv_rank_get(const dv_rank *r, int32_t tensor, void *whole);
// Everybody together, and everybody returns the same: what the first rank with
// trouble of its own has to say, if there is one.
dv_status dv_rank_run(dv_rank *r, dv_diag *diag);
// Of the last run: seconds in which this rank packed, sent, waited for or
// unpacked messages; it computed in the rest.
double dv_rank_exchange_s(const dv_rank *r);
// The type that this rank's multiply-adds of an op are of, as dv_exec_type.
dv_dtype dv_rank_type(const dv_rank *r, int32_t op);
// What has come to this rank by the exchange of a swap of the plan, and how
// often it took place.
typedef struct dv_carried {
    int64_t times, bytes;
} dv_carried;
dv_carried dv_rank_carried(const dv_rank *r, int32_t swap);
// A number for the plan that all ranks have alike, and one for its program,
// which is the same for any team.
uint64_t dv_rank_hash(const dv_rank *r, uint64_t *program);

// Compare what all ranks must have alike of the plan, together (facts.c).
dv_status dv_rank_compare(const dv_rank *r, const char *how, dv_diag *diag);

// Called after every round of an outermost repeat, on all ranks alike. `mine`
// is how this rank has fared so far, in words in `trouble`; what it returns
// ends the run, and must be the same on all ranks.
typedef dv_status (*dv_rank_step)(void *user, int32_t repeat, int64_t round,
                                  dv_status mine, dv_diag *trouble,
                                  dv_diag *diag);
void dv_rank_on_step(dv_rank *r, dv_rank_step step, void *user);
// Let the next run go on where so many rounds of an outermost repeat are done.
// Local boxes must be filled with what they had then.
void dv_rank_go_on(dv_rank *r, int32_t repeat, int64_t round);

int32_t dv_rank_new_wire(dv_rank *r); // a number, the same on all ranks
// Its plan and, unless `comm` is NULL, its comm.
const dv_plan *dv_rank_plan(const dv_rank *r, dv_comm **comm);

// -- Boxes and whole tensors (gather.c) --------------------------------------

// Copy a box between a tensor that has the elements of `in` in rows and a dense
// run; returns where the run goes on.
char *dv_box_copy(char *run, char *data, const dv_box *in, const dv_box *b,
                  int64_t bytes, int into_run);
// All of a tensor on rank 0, together: `whole` is NULL elsewhere.
dv_status dv_rank_gather(dv_rank *r, int32_t tensor, void *whole,
                         dv_diag *diag);
// Does the rank give a tensor away: is it the first among those with copies?
int dv_rank_gives(const dv_plan *plan, int32_t tensor, int64_t rank);

// -- A plan run in this process (in_process.c) -------------------------------

// A whole team in this process. `data` has the whole tensors by number: inputs
// as they are before, outputs as they are after. What was carried comes out in
// `bytes` and `messages`, which may be NULL.
dv_status dv_ranks_run(const dv_plan *plan, void *const *data, int64_t *bytes,
                       int64_t *messages, dv_diag *diag);
// The same with options for the ranks, and all that is known of what was
// carried. Both may be NULL.
typedef struct dv_moved_all {
    int64_t bytes, messages;
    dv_carried *swaps; // one per swap of the plan, over all ranks; or NULL
} dv_moved_all;
dv_status dv_ranks_run_as(const dv_plan *plan, const dv_rank_options *options,
                          void *const *data, dv_moved_all *moved,
                          dv_diag *diag);

// -- Processes (comm_mpi.c; mpi_none.c) --------------------------------------

// Teams of processes over MPI, without MPI's own header. Where divvy is built
// without MPI, mpi_none.c refuses them.

// Has a launcher (mpirun, srun) started this process as one of several?
// Returns their number and which one this is; 0: no (launch.c).
int64_t dv_mpi_launched(int64_t *rank);
// Start MPI unless the program has done so. `size`: how many the launcher
// started; another MPI's launcher is recognised by it.
dv_status dv_mpi_begin(int64_t size, int *started, dv_diag *diag);
void dv_mpi_end(void);
// End all processes of the team at once; does not return.
void dv_mpi_abort(dv_comm *c, int code);

typedef struct dv_mpi_options {
    int64_t max_bytes; // of one message of MPI's, longer ones are cut; 0: 2^30
    double timeout_s;  // wait no longer than this for anybody; 0: for ever
    int checked;
} dv_mpi_options;

// A comm of its own over a copy of *mpi_comm, an MPI_Comm; NULL: all processes.
// All of its ranks call this together. options may be NULL.
dv_status dv_mpi_create(dv_comm **out, const void *mpi_comm,
                        const dv_mpi_options *options, dv_diag *diag);
void dv_mpi_destroy(dv_comm *c); // together, too
// Ranks of one colour as a team of their own, with the same options; together.
dv_status dv_mpi_split(dv_comm **out, dv_comm *c, int64_t colour,
                       dv_diag *diag);

// -- Checkpoints (checkpoint.c) ----------------------------------------------

// Save all tensors of the program after `round` rounds of an outermost repeat.
// The file has the same bytes for any number of ranks, and appears whole or not
// at all.
dv_status dv_checkpoint_save(dv_rank *r, const char *path, int32_t repeat,
                             int64_t round, dv_diag *diag);
// Fill the rank's boxes from it and let its next run go on there. What is
// truncated, altered or of another program is refused.
dv_status dv_checkpoint_load(dv_rank *r, const char *path, dv_diag *diag);

// -- .npy files (npy_mpi.c) --------------------------------------------------

// A rank's own box of a tensor.
dv_status dv_rank_read_npy(dv_rank *r, int32_t tensor, const char *path,
                           dv_diag *diag);
dv_status dv_rank_write_npy(dv_rank *r, int32_t tensor, const char *path,
                            dv_diag *diag);

// -- Files (file_mpi.c): all ranks together, all return the same -------------

// A tensor's elements in a file, each rank its own box of it in rows.
typedef struct dv_mpi_part {
    void *data;   // elements of `local`, in rows
    dv_box local; // that are in memory
    dv_box box;   // of them, what is read or written; may be empty
    int n_dims;
    int64_t shape[DV_MAX_DIMS];
    int64_t elem_bytes;
    int64_t file_off; // of element 0
    int fortran;      // the file's first dim runs fastest
    int nothing;      // this rank moves none of it
} dv_mpi_part;

typedef struct dv_mpi_file dv_mpi_file;
dv_status dv_mpi_open(dv_mpi_file **out, dv_comm *c, const char *path,
                      int write, dv_diag *diag);
dv_status dv_mpi_move(dv_mpi_file *f, const dv_mpi_part *p, dv_diag *diag);
// Written bytes are on the disk when this returns.
dv_status dv_mpi_close(dv_mpi_file *f, dv_diag *diag);
// The sum of all ranks' numbers, modulo 2^64.
dv_status dv_mpi_sum(dv_comm *c, uint64_t *value, dv_diag *diag);
#endif
