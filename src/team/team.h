// Runs a plan on a team, that is, on several ranks. Ranks are the processes of
// an MPI job, or threads of one process; they communicate only through a
// dv_comm.
//
//   comm_local.c   a team inside one process: messages through its memory
//   comm_mpi.[ch]  a team of processes: messages over MPI
//   mpi_none.c     replaces comm_mpi.c and file_mpi.c in builds without MPI
//   launch.c       finds out whether a launcher started this process
//   agree.c        agrees on one status and error message for all ranks
//   facts.c        checks that settings are the same on all ranks
//   rank.c         creates and runs a rank: its plan, memory and messages
//   combine.[ch]   sums results of which several ranks hold partial sums
//   gather.c       copies boxes; gathers a whole tensor on rank 0
//   in_process.c   runs a whole team inside this process
//   rank_exec.c    the public API of a rank (divvy/divvy.h)
//   file_mpi.c     reads and writes tensors in files through MPI-IO
//   npy_mpi.c      reads and writes .npy files, each rank its own box
//   checkpoint.c   saves and restores all tensors of a program
#ifndef DV_TEAM_H
#define DV_TEAM_H
#include "base/file.h"
#include "base/hash.h"
#include "dist/dist.h"
#include "exec/exec.h"

// The interface between a distributed run and the library that transports its
// messages. Messages are prepared once and sent every time the program reaches
// them; buffers do not move, so that MPI's persistent requests can implement
// this. A dv_message_set holds one rank's messages of one exchange.
//
//   open     declares a dv_message_set; every rank opens the same ones in the
//            same order, with the same numbers
//   start    the send buffers are full: starts all sends and receives
//   next     waits until one more message has arrived; returns its number, or
//            -1 after the last
//   finish   waits until the send buffers may be refilled
//
// All functions but open and close may be called in a loop and allocate
// nothing.
//
// A rank that fails on its own (out of memory, an index out of range) continues
// to send and receive; all ranks learn of the failure at the next point where
// they synchronise (dv_comm_agree_status). A function of dv_comm_ops fails only
// if the communication itself fails. The field `why` then holds the reason, and
// `fail` wakes ranks that wait for a message, if the communicator supports
// that.

// One message: the other rank, and the buffer to send from or receive into.
typedef struct dv_message_buffer {
    int64_t rank;
    void *data; // borrowed until the message's dv_message_set is closed
    int64_t bytes;
} dv_message_buffer;

typedef struct dv_comm dv_comm;
// A set of prepared messages; each implementation adds its own fields.
typedef struct dv_message_set {
    int32_t number; // number of the exchange, the same on all ranks
} dv_message_set;

typedef struct dv_comm_ops {
    const char *name;
    dv_status (*open)(dv_comm *c, dv_message_set **out, int32_t number,
                      const dv_message_buffer *sends, int32_t n_sends,
                      const dv_message_buffer *receives, int32_t n_receives,
                      dv_diag *diag);
    dv_status (*start)(dv_comm *c, dv_message_set *w);
    // Returns the number of a receive that has completed; -1: all have
    // completed, or the team failed, in which case `finish` returns the error.
    int32_t (*next)(dv_comm *c, dv_message_set *w);
    dv_status (*finish)(dv_comm *c, dv_message_set *w);
    void (*close)(dv_comm *c, dv_message_set *w);
    // Waits for all ranks; *value becomes the maximum over all ranks.
    dv_status (*agree)(dv_comm *c, int64_t *value);
    // Broadcasts `data` from rank `root` to all ranks.
    dv_status (*share)(dv_comm *c, int64_t root, void *data, int64_t bytes);
    void (*fail)(dv_comm *c);
    // Lets messages in flight progress; NULL: they progress on their own.
    void (*progress)(dv_comm *c, dv_message_set *w);
} dv_comm_ops;

struct dv_comm {
    int64_t rank, size;
    int64_t ranks_on_machine; // 0: unknown
    const dv_comm_ops *ops;
    int64_t bytes, messages; // bytes and messages that this rank has sent
    int one_thread;          // 1 if MPI was initialised without thread support
    // 1 if ranks verify before each exchange that all are at the same one.
    int checked;
    // Reason of a failed call; empty: another rank failed.
    char why[256];
};

// Agrees on the outcome of a step, collectively. Each rank passes its own
// status and its error message in `mine` (NULL: no message). All ranks return
// the same: DV_OK, or the status and message of the lowest rank that failed.
dv_status dv_comm_agree_status(dv_comm *c, dv_status st, dv_diag *mine,
                               dv_diag *diag);
// Like dv_comm_agree_status (all ranks agree on the outcome of a step), and
// also destroys `mine`.
dv_status dv_comm_conclude(dv_comm *c, dv_status st, dv_diag *mine,
                           dv_diag *diag);
// Like dv_comm_conclude, and then broadcasts the `bytes` bytes of rank 0's
// `data` to all ranks, unless the step failed.
dv_status dv_comm_conclude_with(dv_comm *c, dv_status st, dv_diag *mine,
                                void *data, size_t bytes, dv_diag *diag);
// Sets *same to 1 if all ranks pass the same hash, collectively; only its upper
// 63 bits are compared.
dv_status dv_comm_same_hash(dv_comm *c, uint64_t hash, int *same);
// Checks, collectively, that all ranks pass the same hash. The error names the
// lowest rank whose hash differs from that of the majority; `what` says in
// words what was hashed.
dv_status dv_comm_check_same(dv_comm *c, uint64_t hash, const char *what,
                             dv_diag *diag);
// Reports the failure of a dv_comm function in `diag`, with its reason c->why.
dv_status dv_comm_error(dv_comm *c, dv_status st, dv_diag *diag);
// Broadcasts rank root's data to all ranks and reports a failure in `diag`.
dv_status dv_comm_share(dv_comm *c, int64_t root, void *data, size_t bytes,
                        dv_diag *diag);

// A setting, as text, that must be the same on all ranks.
typedef struct dv_setting {
    const char *name;  // as shown in messages: "--seed", "DIVVY_EXECUTOR="
    const char *value; // "": a switch that is on; NULL: not set on this rank
} dv_setting;
// Compares lists of settings collectively; it costs two reductions if they are
// equal. All ranks return the same: DV_OK, or DV_E_USAGE with the first
// difference of the lowest rank that differs from rank 0, such as "rank 1 was
// started with --seed 7, rank 0 with --seed 1" if `how` is "started".
dv_status dv_comm_compare(dv_comm *c, const dv_setting *facts, int32_t n,
                          const char *how, dv_diag *diag);

typedef struct dv_local dv_local;
dv_status dv_local_create(dv_local **out, int64_t size, dv_diag *diag);
// Returns the communicator of a rank; only one thread at a time may use it.
dv_comm *dv_local_rank(dv_local *l, int64_t rank);
void dv_local_destroy(dv_local *l);
// Makes `part` a subteam of l: it fails when l fails, and must be destroyed
// before l.
void dv_local_part(dv_local *l, dv_local *part);
// Leaves a team that no caller owns as a whole; the last rank to leave destroys
// it.
void dv_local_leave(dv_local *l);
// Return the bytes and the messages that the team has sent so far.
int64_t dv_local_bytes(const dv_local *l);
int64_t dv_local_messages(const dv_local *l);

// A rank holds its own box of each tensor and the halo of elements that it
// receives from other ranks. Its part of the program has a plan of its own
// (dist/rank_program.h). It computes the part of an op that needs no messages
// while they travel, and the remainder after they have arrived.
//
//   rank r        own box of u            local box of u
//                 [170..341, 0..512]      [168..343, 0..512]
//
// A rank is created once and may run any number of times; a run allocates
// nothing. All messages are planned before the first run, in the same way on
// all ranks.

typedef struct dv_rank dv_rank;

typedef struct dv_rank_options {
    int32_t threads; // number of threads; 0: the rank's share of the cores
    // 1 if the rank computes only after all messages have arrived.
    int no_overlap;
} dv_rank_options;

// Creates a rank of the team. The plan and the communicator are borrowed; their
// team sizes must agree. `options` may be NULL.
dv_status dv_rank_create(dv_rank **out, const dv_plan *plan, dv_comm *comm,
                         const dv_rank_options *options, dv_diag *diag);
// Returns the default number of threads of a rank: its share of the machine's
// cores, or the cores that it is bound to.
int32_t dv_rank_usual_threads(const dv_comm *comm);
// Returns the number of threads that the rank uses.
int32_t dv_rank_threads(const dv_rank *r);
void dv_rank_destroy(dv_rank *r);
// Returns this rank's memory of a tensor: the elements of the box *local, dense
// and row-major, of which the rank owns the box *own. NULL: the rank owns no
// element.
void *dv_rank_data(const dv_rank *r, int32_t tensor, dv_box *local,
                   dv_box *own);
// Returns this rank's memory of a tensor, also if the rank owns no element and
// holds only received ones; dv_rank_data would return NULL.
void *dv_rank_memory(const dv_rank *r, int32_t tensor);
// Returns 1 if a checkpoint must save the tensor; the others are temporaries
// that are written again before they are read.
int dv_rank_keeps(const dv_rank *r, int32_t tensor);
// dv_rank_put copies the rank's own elements from a whole tensor into its
// memory, dv_rank_get from its memory into a whole tensor.
void dv_rank_put(dv_rank *r, int32_t tensor, const void *whole);
void dv_rank_get(const dv_rank *r, int32_t tensor, void *whole);
// Runs the program, collectively. All ranks return the same: DV_OK, or the
// status and message of the lowest rank that failed.
dv_status dv_rank_run(dv_rank *r, dv_diag *diag);
// Returns the seconds of the last run in which this rank packed, sent, waited
// for or unpacked messages; it computed in the remaining time.
double dv_rank_exchange_s(const dv_rank *r);
// Returns the type in which this rank computes the multiply-adds of an op; see
// dv_exec_type.
dv_dtype dv_rank_type(const dv_rank *r, int32_t op);
// What this rank has received in one exchange of the plan (the messages for one
// op): how often it took place, and the total bytes.
typedef struct dv_exchange_traffic {
    int64_t times, bytes;
} dv_exchange_traffic;
dv_exchange_traffic dv_rank_traffic(const dv_rank *r, int32_t exchange);
// Returns what the simulator counted on this rank in the last run; NULL if the
// rank runs on this machine.
const dv_sim_traffic *dv_rank_moved(const dv_rank *r);
// Returns a hash of everything in the plan that is the same on all ranks;
// *program becomes the hash of its program, which does not depend on the team.
uint64_t dv_rank_hash(const dv_rank *r, uint64_t *program);

// Return hashes of what must be the same on all ranks: how tensors and ops are
// cut, and the part of the exchanges that does not differ from rank to rank.
uint64_t dv_team_hash_cuts(const dv_program *p, const dv_plan_team *t);
uint64_t dv_team_hash_exchanges(const dv_plan_team *t);
// Compares, collectively, what must be the same in the plans of all ranks
// (facts.c).
dv_status dv_rank_compare(const dv_rank *r, const char *how, dv_diag *diag);

// Callback after every iteration of an outermost repeat (a loop of the
// program), on all ranks. `mine` is this rank's status so far, with the message
// in `trouble`. A returned error ends the run; it must be the same on all
// ranks.
typedef dv_status (*dv_rank_step)(void *user, int32_t repeat, int64_t round,
                                  dv_status mine, dv_diag *trouble,
                                  dv_diag *diag);
void dv_rank_on_step(dv_rank *r, dv_rank_step step, void *user);
// Makes the next run continue after `round` iterations of an outermost repeat
// (a loop of the program). The caller must fill the local boxes with the
// tensors' values at that point.
void dv_rank_resume_at(dv_rank *r, int32_t repeat, int64_t round);

// Returns the next number for a dv_message_set (a set of messages), which is
// the same on all ranks.
int32_t dv_rank_new_message_set(dv_rank *r);
// Returns the team's plan; sets *comm to its communicator unless `comm` is
// NULL.
const dv_plan *dv_rank_plan(const dv_rank *r, dv_comm **comm);
// Returns the plan of the rank's own program, which it runs.
const dv_plan *dv_rank_own_plan(const dv_rank *r);

// Gathers a whole tensor on rank 0, collectively; `whole` is NULL on all other
// ranks.
dv_status dv_rank_gather(dv_rank *r, int32_t tensor, void *whole,
                         dv_diag *diag);
// Returns 1 if the rank is the first of the ranks that hold copies of the same
// elements; only that rank writes or sends them.
int dv_rank_is_primary(const dv_plan *plan, int32_t tensor, int64_t rank);

// Runs a whole team in this process. `data` holds the whole tensors by number:
// the inputs before the run and the outputs after it. *bytes and *messages
// become the traffic between ranks; both pointers may be NULL.
dv_status dv_team_run(const dv_plan *plan, void *const *data, int64_t *bytes,
                      int64_t *messages, dv_diag *diag);
// Runs a whole team in this process with options for the ranks, and returns the
// traffic in detail. `options` and `moved` may be NULL.
typedef struct dv_team_traffic {
    int64_t bytes, messages;
    // One entry per exchange of the plan, summed over all ranks; or NULL.
    dv_exchange_traffic *op_exchanges;
    // One entry per rank: what the simulator counted; or NULL.
    dv_sim_traffic *ranks;
} dv_team_traffic;
dv_status dv_team_run_as(const dv_plan *plan, const dv_rank_options *options,
                         void *const *data, dv_team_traffic *moved,
                         dv_diag *diag);

// Teams of processes over MPI; callers need no MPI header. In builds without
// MPI, mpi_none.c reports an error.

// Returns the number of processes that a launcher (mpirun, srun) started, and
// the number of this process in *rank; 0: it was not launched as one of several
// (launch.c).
int64_t dv_mpi_launched(int64_t *rank);
// Initialises MPI unless the program has done so; *started tells which. `size`
// is the number of processes that the launcher started; if MPI sees another
// number, the launcher belongs to another MPI, which is an error.
dv_status dv_mpi_begin(int64_t size, int *started, dv_diag *diag);
void dv_mpi_end(void);
// Aborts all processes of the team; does not return.
void dv_mpi_abort(dv_comm *c, int code);

typedef struct dv_mpi_options {
    // Most bytes of one MPI message; longer messages are split. 0: 2^30.
    int64_t max_bytes;
    double timeout_s; // longest wait for another rank; 0: unlimited
    int checked;
} dv_mpi_options;
// Returns the options that concern MPI; `options` may be NULL.
dv_mpi_options dv_mpi_options_of(const dv_rank_exec_options *options);

// Creates a communicator over a duplicate of *mpi_comm, an MPI_Comm (NULL: all
// processes), collectively. `options` may be NULL.
dv_status dv_mpi_create(dv_comm **out, const void *mpi_comm,
                        const dv_mpi_options *options, dv_diag *diag);
void dv_mpi_destroy(dv_comm *c); // Destroys a communicator, collectively.
// Splits a team, collectively: ranks of the same colour form a team with the
// same options.
dv_status dv_mpi_split(dv_comm **out, dv_comm *c, int64_t colour,
                       dv_diag *diag);

// Saves the tensors that a run needs to continue (dv_rank_keeps) after `round`
// iterations of an outermost repeat (a loop of the program), collectively. The
// bytes of the file do not depend on the number of ranks, and the file appears
// completely or not at all. Fails if the ranks are simulated, because their
// tensors are in the memory of the simulated machine.
dv_status dv_checkpoint_save(dv_rank *r, const char *path, int32_t repeat,
                             int64_t round, dv_diag *diag);
// Fills the rank's boxes from a checkpoint and makes its next run continue
// there, collectively. A file that is truncated, altered or of another program
// is refused. *at, which may be NULL, gets the number of iterations done.
dv_status dv_checkpoint_load(dv_rank *r, const char *path, int64_t *at,
                             dv_diag *diag);

// Read and write a rank's own box of a tensor in an .npy file, collectively.
dv_status dv_rank_read_npy(dv_rank *r, int32_t tensor, const char *path,
                           dv_diag *diag);
// Reads a rank's own box of a constant from its file, collectively.
dv_status dv_rank_read_constant(dv_rank *r, int32_t tensor, dv_diag *diag);
dv_status dv_rank_write_npy(dv_rank *r, int32_t tensor, const char *path,
                            dv_diag *diag);

// The functions below (file_mpi.c) are collective, and all ranks return the
// same status.

// One rank's part of a tensor in a file: a box of the tensor.
typedef struct dv_mpi_part {
    void *data;   // elements of `local`, row-major
    dv_box local; // the box that is in memory
    // The part of `local` that is read or written; may be empty.
    dv_box box;
    int n_dims;
    int64_t shape[DV_MAX_DIMS];
    int64_t elem_bytes;
    int64_t file_off; // byte offset of element 0 in the file
    int fortran;      // 1 if the file's first dimension is contiguous
    int is_empty;     // 1 if this rank reads or writes nothing
} dv_mpi_part;

// Returns the part of a file that holds a rank's own box of a tensor, whose
// element 0 is at byte file_off (npy_mpi.c).
dv_mpi_part dv_rank_part(const dv_rank *r, int32_t tensor, int64_t file_off);
// Ends the collective writing of a file: rank 0, which has the writer, commits
// the file, or aborts if the step before failed with `st`. Returns the status
// that all ranks agree on.
dv_status dv_rank_close(dv_comm *c, dv_writer *w, dv_status st, dv_diag *diag);

typedef struct dv_mpi_file dv_mpi_file;
dv_status dv_mpi_open(dv_mpi_file **out, dv_comm *c, const char *path,
                      int write, dv_diag *diag);
dv_status dv_mpi_move(dv_mpi_file *f, const dv_mpi_part *p, dv_diag *diag);
// Closes the file; written bytes are on the disk when this returns.
dv_status dv_mpi_close(dv_mpi_file *f, dv_diag *diag);
// Sums a number over all ranks, modulo 2^64.
dv_status dv_mpi_sum(dv_comm *c, uint64_t *value, dv_diag *diag);
#endif
