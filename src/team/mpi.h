// Teams of processes over MPI, without MPI's own header. With no MPI at hand
// when divvy was built, mpi_none.c stands in and says so.
#ifndef DV_RUN_MPI_H
#define DV_RUN_MPI_H
#include "team/comm.h"
#include "team/rank.h"

// -- The process (comm_mpi.c) ----------------------------------------------

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

// -- Checkpoints (checkpoint.c) ---------------------------------------------

// All tensors of a rank's program after so many rounds of an outermost repeat,
// the same file for any team. It appears whole or not at all.
dv_status dv_checkpoint_save(dv_rank *r, const char *path, int32_t repeat,
                             int64_t round, dv_diag *diag);
// Fill the rank's boxes from it and let its next run go on there. What is
// truncated, altered or of another program is refused.
dv_status dv_checkpoint_load(dv_rank *r, const char *path, dv_diag *diag);

// .npy files (npy_mpi.c): a rank's own box of a tensor.
dv_status dv_rank_read_npy(dv_rank *r, int32_t tensor, const char *path,
                           dv_diag *diag);
dv_status dv_rank_write_npy(dv_rank *r, int32_t tensor, const char *path,
                            dv_diag *diag);

// -- Files (file_mpi.c): all ranks together, all return the same ------------

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
