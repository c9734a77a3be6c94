// Reads and writes .npy files of tensors that no rank holds whole: every rank
// transfers its own box; rank 0 writes the header. The file does not depend on
// the team.
#include "base/npy.h"
#include "base/text.h"
#include "team/team.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

dv_mpi_part dv_rank_part(const dv_rank *r, int32_t tensor, int64_t file_off)
{
    const dv_program *p = dv_rank_plan(r, NULL)->ops;
    const dv_tensor *t = &p->tensors[tensor];
    dv_mpi_part x = {.n_dims = t->n_dims,
                     .elem_bytes = dv_elem_bytes(p, tensor),
                     .file_off = file_off};
    dv_rank_data(r, tensor, &x.local, &x.box);
    x.data = dv_rank_memory(r, tensor);
    memcpy(x.shape, t->shape, sizeof x.shape[0] * (size_t)t->n_dims);
    return x;
}

dv_status dv_rank_close(dv_comm *c, dv_writer *w, dv_status st, dv_diag *diag)
{
    dv_diag *mine = dv_diag_create();
    dv_status done = DV_OK;
    if (w && st == DV_OK)
        done = dv_writer_commit(w, mine);
    else if (w)
        dv_writer_abort(w);
    if (st == DV_OK)
        st = dv_comm_agree_status(c, done, mine, diag);
    dv_diag_destroy(mine);
    return st;
}

// Reads or writes this rank's part of a file that holds one tensor.
static dv_status move_part(dv_comm *c, const char *path, int write,
                           const dv_mpi_part *x, dv_diag *diag)
{
    dv_mpi_file *file = NULL;
    DV_TRY(dv_mpi_open(&file, c, path, write, diag));
    dv_status st = dv_mpi_move(file, x, diag);
    dv_status closed = dv_mpi_close(file, diag);
    return st == DV_OK ? closed : st;
}

// What a rank found in the header of an .npy file.
typedef struct found {
    int64_t data_off;
    int64_t fortran;
} found;

// Returns a hash of the bytes of a file; 0 if it cannot be read, which reading
// it later reports.
static uint64_t hash_file(const char *path)
{
    enum { BLOCK = 1 << 16 };
    uint64_t h = DV_HASH;
    FILE *f = fopen(path, "rb");
    char *block = dv_alloc(BLOCK);
    for (size_t n; f && block && (n = fread(block, 1, BLOCK, f)) > 0;)
        h = dv_hash(h, block, n);
    h = f && block && !ferror(f) ? h : 0;
    dv_release(block);
    if (f)
        fclose(f);
    return h;
}

// Sets *same to 0 if this rank's file differs from rank 0's, collectively. The
// bytes are read only if the file system does not show that all ranks have the
// same file. A rank on which the file's header differs calls this with *same
// set to 0.
static dv_status compare_files(const char *path, dv_comm *c, int *same,
                               dv_diag *diag)
{
    struct stat st = {0};
    int64_t differs = stat(path, &st) != 0;
    int64_t own[3] = {(int64_t)st.st_ino, (int64_t)st.st_size,
                      (int64_t)st.st_mtime};
    int64_t first[3] = {own[0], own[1], own[2]};
    dv_status status = c->ops->share(c, 0, first, (int64_t)sizeof first);
    differs |= memcmp(own, first, sizeof own) != 0;
    if (status == DV_OK)
        // The maximum over all ranks tells whether any file differs.
        status = c->ops->agree(c, &differs);
    if (status == DV_OK && differs) {
        uint64_t mine = hash_file(path), of_first = mine;
        status = c->ops->share(c, 0, &of_first, (int64_t)sizeof of_first);
        *same &= mine == of_first;
    }
    return status == DV_OK ? DV_OK : dv_comm_error(c, status, diag);
}

// Reads the header and checks that every rank sees the same file: in another
// directory or on another machine there may be none, or another file of the
// same name.
static dv_status look(const dv_tensor *t, const char *path, dv_comm *c,
                      found *f, dv_diag *diag)
{
    dv_npy_header h = {0};
    dv_diag *mine = dv_diag_create();
    dv_status st = dv_npy_read_header(path, t->name, t->dtype, t->n_dims,
                                      t->shape, &h, mine);
    *f = (found){(int64_t)h.data_off, h.fortran};
    found first = *f;
    DV_TRY(dv_comm_conclude_with(c, st, mine, &first, sizeof first, diag));
    int same = first.data_off == f->data_off && first.fortran == f->fortran;
    DV_TRY(compare_files(path, c, &same, diag));
    mine = dv_diag_create();
    if (!same)
        st = dv_fail(mine, DV_E_FILE, DV_NOWHERE,
                     "%s: the file of rank %" PRId64
                     " is not the file of rank 0",
                     path, c->rank);
    return dv_comm_conclude(c, st, mine, diag);
}

dv_status dv_rank_read_npy(dv_rank *r, int32_t tensor, const char *path,
                           dv_diag *diag)
{
    dv_comm *c;
    const dv_tensor *t = &dv_rank_plan(r, &c)->ops->tensors[tensor];
    found f;
    DV_TRY(look(t, path, c, &f, diag));
    dv_mpi_part x = dv_rank_part(r, tensor, f.data_off);
    x.fortran = f.fortran != 0;
    return move_part(c, path, 0, &x, diag);
}

dv_status dv_rank_read_constant(dv_rank *r, int32_t tensor, dv_diag *diag)
{
    dv_comm *c;
    dv_text path = {0};
    dv_constant_path(&path, dv_rank_plan(r, &c)->ops, tensor);
    dv_status st = path.failed ? dv_nomem(diag)
                               : dv_rank_read_npy(r, tensor, path.at, diag);
    dv_text_free(&path);
    return st;
}

// The temporary file that all ranks write into before the commit.
typedef struct temp_file {
    int64_t data_off;
    int direct; // 1 if the ranks cannot write into one file, as for a pipe
    char path[1024];
} temp_file;

static dv_status begin(dv_writer **w, temp_file *at, const dv_tensor *t,
                       const char *path, dv_diag *diag)
{
    dv_text head = {0};
    dv_npy_put_header(&head, t->dtype, t->n_dims, t->shape);
    dv_status st = head.failed ? dv_nomem(diag) : dv_writer_open(w, path, diag);
    if (st == DV_OK) {
        dv_writer_put(*w, head.at, head.len);
        if (dv_writer_temp(*w))
            dv_writer_reserve(*w, (int64_t)head.len + dv_tensor_bytes(t));
        const char *temp = dv_writer_temp(*w);
        at->data_off = (int64_t)head.len;
        at->direct = !temp; // Also 1 after a failure, which the commit reports.
        if (temp && strlen(temp) < sizeof at->path)
            memcpy(at->path, temp, strlen(temp) + 1);
        else if (temp)
            st = dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                         "%s: the name is too long", path);
    }
    dv_text_free(&head);
    return st;
}

// Writes a tensor to a pipe: gathers it on rank 0, which writes all of it.
static dv_status write_directly(dv_rank *r, int32_t tensor, dv_writer *w,
                                dv_comm *c, dv_diag *diag)
{
    const dv_tensor *t = &dv_rank_plan(r, NULL)->ops->tensors[tensor];
    size_t bytes = (size_t)dv_tensor_bytes(t);
    void *whole = c->rank == 0 ? dv_alloc(bytes + 1) : NULL;
    dv_diag *mine = dv_diag_create();
    dv_status st = c->rank == 0 && !whole ? dv_nomem(mine) : DV_OK;
    st = dv_comm_conclude(c, st, mine, diag);
    if (st == DV_OK)
        st = dv_rank_gather(r, tensor, whole, diag);
    if (st == DV_OK && w)
        dv_writer_put(w, whole, bytes);
    dv_release(whole);
    return st;
}

dv_status dv_rank_write_npy(dv_rank *r, int32_t tensor, const char *path,
                            dv_diag *diag)
{
    dv_comm *c;
    const dv_tensor *t = &dv_rank_plan(r, &c)->ops->tensors[tensor];
    dv_writer *w = NULL;
    temp_file at = {0};
    dv_diag *mine = dv_diag_create();
    dv_status st = c->rank == 0 ? begin(&w, &at, t, path, mine) : DV_OK;
    st = dv_comm_conclude_with(c, st, mine, &at, sizeof at, diag);
    if (st == DV_OK && at.direct) {
        st = write_directly(r, tensor, w, c, diag);
    } else if (st == DV_OK) {
        dv_mpi_part x = dv_rank_part(r, tensor, at.data_off);
        x.is_empty =
            !dv_rank_is_primary(dv_rank_plan(r, NULL), tensor, c->rank);
        st = move_part(c, at.path, 1, &x, diag);
    }
    return dv_rank_close(c, w, st, diag);
}
