// Reads and writes tensors in files, collectively, through MPI-IO.
//
// A box is transferred in slabs, so that no call exceeds the range of MPI's int
// counts. The memory and the file side of a slab are described by nested MPI
// vector types, innermost dimension first. For a file in Fortran order the
// dimensions are reversed, so that file offsets increase while memory offsets
// jump.
#define _POSIX_C_SOURCE 200809L // declares access
#include "base/math.h"
#include "base/mem.h"
#include "team/comm_mpi.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct dv_mpi_file {
    dv_mpi *m;
    MPI_File file;
    int write;
    char path[1024];
};

static dv_status told(dv_mpi_file *f, int code, const char *doing,
                      dv_diag *diag)
{
    char text[MPI_MAX_ERROR_STRING] = "", words[512];
    int len = 0;
    if (code == MPI_SUCCESS)
        return DV_OK;
    MPI_Error_string(code, text, &len);
    snprintf(words, sizeof words, "cannot %s the file: %.400s", doing, text);
    dv_source src = {f->path, "", 0};
    return dv_fail(diag, f->write ? DV_E_OUTPUT : DV_E_FILE,
                   (dv_loc){&src, DV_FILE}, "%s", words);
}

// Converts this rank's MPI error code to a status, and agrees on one status for
// all ranks.
static dv_status settle(dv_mpi_file *f, int code, const char *doing,
                        dv_diag *diag)
{
    dv_diag *mine = dv_diag_create();
    dv_status st = told(f, code, doing, mine);
    st = dv_comm_conclude(&f->m->comm, st, mine, diag);
    return st;
}

dv_status dv_mpi_open(dv_mpi_file **out, dv_comm *c, const char *path,
                      int write, dv_diag *diag)
{
    dv_mpi_file *f = dv_alloc(sizeof *f);
    dv_diag *mine = dv_diag_create();
    dv_status st = f ? DV_OK : dv_nomem(mine);
    if (st == DV_OK && strlen(path) >= sizeof f->path)
        st = dv_fail(mine, DV_E_LIMIT, DV_NOWHERE,
                     "the file's name has %zu bytes, at most %zu are possible",
                     strlen(path), sizeof f->path - 1);
    // If one rank cannot open the file, MPI_File_open may never return on the
    // other ranks, so access is checked first.
    if (st == DV_OK && access(path, write ? W_OK : R_OK) != 0) {
        dv_source src = {path, "", 0};
        st = dv_fail(mine, write ? DV_E_OUTPUT : DV_E_FILE,
                     (dv_loc){&src, DV_FILE}, "cannot open the file: %s",
                     strerror(errno));
    }
    st = dv_comm_conclude(c, st, mine, diag);
    if (st != DV_OK) {
        dv_release(f);
        return st;
    }
    *f = (dv_mpi_file){.m = (dv_mpi *)c, .write = write};
    memcpy(f->path, path, strlen(path) + 1);
    int code = MPI_File_open(f->m->mpi, path,
                             write ? MPI_MODE_WRONLY : MPI_MODE_RDONLY,
                             MPI_INFO_NULL, &f->file);
    st = settle(f, code, "open", diag);
    if (st == DV_OK)
        *out = f;
    else
        dv_release(f);
    return st;
}

dv_status dv_mpi_close(dv_mpi_file *f, dv_diag *diag)
{
    if (!f)
        return DV_OK;
    int code = f->write ? MPI_File_sync(f->file) : MPI_SUCCESS;
    int closed = MPI_File_close(&f->file);
    dv_status st =
        settle(f, code ? code : closed, f->write ? "write" : "read", diag);
    dv_release(f);
    return st;
}

// A box as it is traversed: its dimensions in file order, outermost first.
typedef struct walk {
    int n_dims;
    int64_t size[DV_MAX_DIMS];
    // Byte strides in memory and in the file.
    int64_t memory[DV_MAX_DIMS], file[DV_MAX_DIMS];
    int64_t memory_off, file_off; // offsets of the first element
    int64_t elem_bytes;
    // The dimension that is divided into slabs; -1: there are no dimensions.
    int cut;
    int64_t rows;    // rows of the dimension `cut` per slab
    int64_t n_slabs; // number of slabs; 0: the box is empty
} walk;

static walk walk_of(const dv_mpi_part *p, int64_t max_bytes)
{
    walk w = {.n_dims = p->n_dims, .elem_bytes = p->elem_bytes, .cut = -1};
    int64_t memory = p->elem_bytes, file = p->elem_bytes;
    int64_t in_memory[DV_MAX_DIMS], in_file[DV_MAX_DIMS];
    for (int d = p->n_dims - 1; d >= 0; d--) {
        in_memory[d] = memory;
        memory *= p->local.dim[d].size;
    }
    for (int k = 0; k < p->n_dims; k++) {
        int d = p->fortran ? k : p->n_dims - 1 - k;
        in_file[d] = file;
        file *= p->shape[d];
    }
    w.file_off = p->file_off;
    w.n_slabs = 1;
    for (int k = 0; k < p->n_dims; k++) {
        int d = p->fortran ? p->n_dims - 1 - k : k;
        dv_range r = p->box.dim[d];
        w.size[k] = r.size;
        w.memory[k] = in_memory[d];
        w.file[k] = in_file[d];
        w.memory_off += (r.off - p->local.dim[d].off) * in_memory[d];
        w.file_off += r.off * in_file[d];
        if (r.size == 0)
            w.n_slabs = 0;
    }
    if (p->is_empty)
        w.n_slabs = 0;
    int64_t inner = w.elem_bytes;
    for (int k = p->n_dims - 1; k >= 0 && w.n_slabs; k--) {
        w.cut = k;
        w.rows = dv_min_i64(w.size[k], dv_max_i64(1, max_bytes / inner));
        if (k == 0 || w.rows < w.size[k])
            break;
        inner *= w.size[k];
    }
    for (int k = 0; k <= w.cut && w.n_slabs; k++)
        w.n_slabs *= k < w.cut ? w.size[k] : (w.size[k] + w.rows - 1) / w.rows;
    return w;
}

// Finds the memory and file offsets of slab number n (a part of the box that
// one call transfers). Returns its number of rows.
static int64_t slab(const walk *w, int64_t n, int64_t *memory_off,
                    int64_t *file_off)
{
    *memory_off = w->memory_off;
    *file_off = w->file_off;
    if (w->cut < 0)
        return 1;
    int64_t per = (w->size[w->cut] + w->rows - 1) / w->rows;
    int64_t first = n % per * w->rows;
    n /= per;
    *memory_off += first * w->memory[w->cut];
    *file_off += first * w->file[w->cut];
    for (int k = w->cut - 1; k >= 0; k--) {
        *memory_off += n % w->size[k] * w->memory[k];
        *file_off += n % w->size[k] * w->file[k];
        n /= w->size[k];
    }
    return dv_min_i64(w->rows, w->size[w->cut] - first);
}

// Creates the MPI type of `rows` rows of the sliced dimension with all inner
// dimensions; `steps` are its byte strides.
static int slab_type(const walk *w, const int64_t *steps, int64_t rows,
                     MPI_Datatype *out)
{
    MPI_Datatype t;
    int code = MPI_Type_contiguous((int)w->elem_bytes, MPI_BYTE, &t);
    for (int k = w->n_dims - 1; k >= w->cut && k >= 0 && !code; k--) {
        MPI_Datatype more;
        int64_t n = k == w->cut ? rows : w->size[k];
        code = MPI_Type_create_hvector((int)n, 1, (MPI_Aint)steps[k], t, &more);
        MPI_Type_free(&t);
        t = more;
    }
    if (!code)
        code = MPI_Type_commit(&t);
    *out = t;
    return code;
}

static int move_slab(dv_mpi_file *f, const dv_mpi_part *p, const walk *w,
                     int64_t n)
{
    int64_t memory_off = 0, file_off = 0;
    MPI_Datatype memory = MPI_BYTE, file = MPI_BYTE;
    int code = 0, made = n < w->n_slabs, count = made;
    if (made) {
        int64_t rows = slab(w, n, &memory_off, &file_off);
        code = slab_type(w, w->memory, rows, &memory);
        if (!code)
            code = slab_type(w, w->file, rows, &file);
    }
    // If a rank has no slab (a part of its box that one call transfers) left,
    // it takes part in the collective calls with count 0.
    int set = MPI_File_set_view(f->file, (MPI_Offset)file_off, MPI_BYTE, file,
                                "native", MPI_INFO_NULL);
    char *at = (char *)p->data + memory_off;
    MPI_Status got;
    if (code || set)
        count = 0;
    // Reads are not collective: the parts that ranks read overlap in their
    // halos (elements that several ranks hold), and Open MPI 4.1 mixes up such
    // parts in collective reads.
    int moved = f->write ? MPI_File_write_all(f->file, at, count, memory, &got)
                         : MPI_File_read(f->file, at, count, memory, &got);
    // Check the element count, because not every MPI reports a failing disk.
    int whole = 1;
    if (!moved && !code && !set)
        MPI_Get_count(&got, memory, &whole);
    if (count && whole != 1)
        moved = MPI_ERR_IO;
    if (made && memory != MPI_BYTE)
        MPI_Type_free(&memory);
    if (made && file != MPI_BYTE)
        MPI_Type_free(&file);
    return code ? code : set ? set : moved;
}

dv_status dv_mpi_move(dv_mpi_file *f, const dv_mpi_part *p, dv_diag *diag)
{
    dv_comm *c = &f->m->comm;
    walk w = walk_of(p, f->m->max_bytes);
    int64_t rounds = w.n_slabs;
    dv_status st = c->ops->agree(c, &rounds);
    if (st != DV_OK)
        return dv_comm_error(c, st, diag);
    int code = 0;
    for (int64_t i = 0; i < rounds; i++) {
        int now = move_slab(f, p, &w, i);
        code = code ? code : now;
    }
    return settle(f, code, f->write ? "write" : "read", diag);
}
