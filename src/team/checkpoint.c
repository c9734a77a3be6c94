// Saves and restores checkpoints: the tensors of a program and the current
// iteration. Temporaries that every iteration writes before it reads them are
// left out; their place in the file holds zeros.
//
//   0    magic, version
//   16   the header: program, iteration, tensors, checksums, params
//   off  the elements of each tensor, row-major, one tensor after the other
//
// The checksum of the elements is the sum of a hash of each element's bits and
// file offset, so that every rank can sum its own elements in any order.
#define _POSIX_C_SOURCE 200809L
#include "base/math.h"
#include "base/random.h"
#include "team/team.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[16] = "divvy state 2\n";
enum { ALIGN = 64 };

typedef struct header {
    char magic[16];
    uint64_t program; // hash of the program
    int64_t repeat, round;
    int64_t n_tensors;
    int64_t size_bytes; // size of the whole file
    uint64_t elements;  // checksum of all elements
    uint64_t self;      // checksum of the header with this field 0
    // The program's params as text, "M = 4, N = 8", for error messages; its end
    // is left out if it is too long.
    char params[448];
} header;

// Returns the file offset of a tensor's elements; for the number after the last
// tensor, the size of the file.
static int64_t offset_of(const dv_program *p, int32_t tensor)
{
    int64_t off = dv_round_up((int64_t)sizeof(header), ALIGN);
    for (int32_t i = 0; i < tensor; i++)
        off = dv_round_up(off + dv_tensor_bytes(&p->tensors[i]), ALIGN);
    return off;
}

static void write_params(header *h, const dv_program *p)
{
    size_t n = 0;
    for (int32_t i = 0; i < p->n_params && n < sizeof h->params; i++) {
        const dv_param_value *v = &p->params[i];
        char value[32];
        if (v->is_float)
            snprintf(value, sizeof value, "%.17g", v->f);
        else
            snprintf(value, sizeof value, "%" PRId64, v->i);
        n += (size_t)snprintf(h->params + n, sizeof h->params - n, "%s%s = %s",
                              i ? ", " : "", v->name, value);
    }
}

static uint64_t sum_row(const char *row, int64_t n, int64_t bytes, int64_t off)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = 0;
        memcpy(&bits, row + i * bytes, (size_t)bytes);
        // Hashes the element's bits and file offset. dv_mix adds DV_RANDOM_STEP
        // once more, so 1 is subtracted from the offset.
        sum += dv_mix(bits + DV_RANDOM_STEP * (uint64_t)(off + i * bytes - 1));
    }
    return sum;
}

static dv_mpi_part part_of(const dv_rank *r, int32_t tensor)
{
    return dv_rank_part(r, tensor,
                        offset_of(dv_rank_plan(r, NULL)->ops, tensor));
}

// Returns the checksum of the elements of a tensor that this rank saves: those
// of its own box, if no lower rank has a copy of them.
static uint64_t sum_own(const dv_rank *r, int32_t tensor, int64_t rank)
{
    dv_mpi_part x = part_of(r, tensor);
    dv_box all = dv_box_whole(x.n_dims, x.shape);
    uint64_t sum = 0;
    if (!dv_rank_is_primary(dv_rank_plan(r, NULL), tensor, rank) ||
        !dv_rank_keeps(r, tensor))
        return 0;
    for (dv_box_row w = dv_box_first_row(&x.box); w.n;
         dv_box_next_row(&w, &x.box))
        sum += sum_row((char *)x.data +
                           dv_box_offset(&x.local, w.at) * x.elem_bytes,
                       w.n, x.elem_bytes,
                       x.file_off + dv_box_offset(&all, w.at) * x.elem_bytes);
    return sum;
}

static dv_status sum_all(const dv_rank *r, uint64_t *sum, dv_diag *diag)
{
    dv_comm *c;
    const dv_program *p = dv_rank_plan(r, &c)->ops;
    *sum = 0;
    for (int32_t i = 0; i < p->n_tensors; i++)
        *sum += sum_own(r, i, c->rank);
    return dv_mpi_sum(c, sum, diag);
}

typedef struct temp_file {
    int failed;
    char path[1024];
} temp_file;

static dv_status begin(dv_writer **w, temp_file *at, header *h,
                       const char *path, dv_diag *diag)
{
    DV_TRY(dv_writer_open(w, path, diag));
    h->self = dv_hash(DV_HASH, h, sizeof *h);
    dv_writer_put(*w, h, sizeof *h);
    // Reserve the whole file, including the padding between tensors.
    dv_writer_reserve(*w, h->size_bytes);
    const char *temp = dv_writer_temp(*w);
    dv_source src = {path, "", 0};
    if (!temp || strlen(temp) >= sizeof at->path)
        return dv_fail(diag, DV_E_OUTPUT, (dv_loc){&src, DV_FILE},
                       "cannot write the file: %s",
                       temp ? "its name is too long"
                            : "no regular file, or no room");
    memcpy(at->path, temp, strlen(temp) + 1);
    return DV_OK;
}

// Writes the elements that this rank saves, or loads its local box of each
// tensor. The loaded elements include those that it receives from other ranks
// during a run, which were saved by their owners.
static dv_status move_parts(const dv_rank *r, const char *path, int write,
                            dv_diag *diag)
{
    dv_comm *c;
    const dv_plan *plan = dv_rank_plan(r, &c);
    dv_mpi_file *f = NULL;
    DV_TRY(dv_mpi_open(&f, c, path, write, diag));
    dv_status st = DV_OK;
    for (int32_t i = 0; i < plan->ops->n_tensors && st == DV_OK; i++) {
        dv_mpi_part x = part_of(r, i);
        if (!dv_rank_keeps(r, i))
            continue;
        x.is_empty = write && !dv_rank_is_primary(plan, i, c->rank);
        x.box = write ? x.box : x.local;
        st = dv_mpi_move(f, &x, diag);
    }
    dv_status closed = dv_mpi_close(f, diag);
    return st == DV_OK ? closed : st;
}

// Reports that a checkpoint is not of this rank's program. If the params
// differ, both are named.
static dv_status wrong_program(const dv_program *p, header *h, dv_loc file,
                               dv_diag *diag)
{
    header mine = {0};
    write_params(&mine, p);
    h->params[sizeof h->params - 1] = 0;
    if (!*h->params || !*mine.params || !strcmp(h->params, mine.params))
        return dv_fail(diag, DV_E_FORMAT, file,
                       "a checkpoint of another program");
    return dv_fail(diag, DV_E_FORMAT, file,
                   "a checkpoint of another program, or of other params: it "
                   "has %s; this run has %s",
                   h->params, mine.params);
}

// Refuses simulated ranks: during a run their tensors are in the simulator, and
// what their plans copy before a repeat would be missing after resuming.
static dv_status check_target(const dv_rank *r, dv_diag *diag)
{
    const dv_target *t = &dv_rank_plan(r, NULL)->target;
    if (dv_target_runs_here(t))
        return DV_OK;
    return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                   "runs on %s are simulated and have no checkpoints", t->name);
}

dv_status dv_checkpoint_save(dv_rank *r, const char *path, int32_t repeat,
                             int64_t round, dv_diag *diag)
{
    dv_comm *c;
    const dv_program *p = dv_rank_plan(r, &c)->ops;
    DV_TRY(check_target(r, diag));
    header h = {.repeat = repeat,
                .round = round,
                .n_tensors = p->n_tensors,
                .size_bytes = offset_of(p, p->n_tensors)};
    dv_rank_hash(r, &h.program);
    write_params(&h, p);
    memcpy(h.magic, magic, sizeof h.magic);
    DV_TRY(sum_all(r, &h.elements, diag));
    dv_writer *w = NULL;
    temp_file at = {0};
    dv_diag *mine = dv_diag_create();
    dv_status st = c->rank == 0 ? begin(&w, &at, &h, path, mine) : DV_OK;
    st = dv_comm_conclude_with(c, st, mine, &at, sizeof at, diag);
    if (st == DV_OK)
        st = move_parts(r, at.path, 1, diag);
    return dv_rank_close(c, w, st, diag);
}

static dv_status read_header(const char *path, header *h, int64_t *size,
                             dv_diag *diag)
{
    dv_source src = {path, "", 0};
    dv_loc file = {&src, DV_FILE};
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return dv_fail(diag, DV_E_FILE, file, "cannot open the file: %s",
                       strerror(errno));
    ssize_t got = read(fd, h, sizeof *h);
    int known = fstat(fd, &st) == 0;
    close(fd);
    if (got < 0 || !known)
        return dv_fail(diag, DV_E_FILE, file, "cannot read the file");
    if (got < (ssize_t)sizeof *h)
        return dv_fail(diag, DV_E_FORMAT, file,
                       "truncated: the file has %d bytes, a checkpoint's "
                       "header %d",
                       (int)got, (int)sizeof *h);
    *size = (int64_t)st.st_size;
    return DV_OK;
}

static dv_status check_header(const dv_rank *r, const char *path, header *h,
                              int64_t size, dv_diag *diag)
{
    const dv_program *p = dv_rank_plan(r, NULL)->ops;
    dv_source src = {path, "", 0};
    dv_loc file = {&src, DV_FILE};
    header copy = *h;
    uint64_t program = 0;
    dv_rank_hash(r, &program);
    copy.self = 0;
    if (memcmp(h->magic, magic, sizeof magic) != 0)
        return dv_fail(diag, DV_E_FORMAT, file, "%s",
                       memcmp(h->magic, magic, strlen("divvy state "))
                           ? "no checkpoint of divvy"
                           : "a checkpoint of another version of divvy");
    uint64_t is = dv_hash(DV_HASH, &copy, sizeof copy);
    if (is != h->self)
        return dv_fail(diag, DV_E_FORMAT, file,
                       "the header's checksum is %016" PRIx64
                       ", it says %016" PRIx64,
                       is, h->self);
    if (h->program != program || h->n_tensors != p->n_tensors ||
        h->size_bytes != offset_of(p, p->n_tensors) || h->repeat < 0 ||
        h->repeat >= p->n_repeats || h->round < 0 ||
        h->round > p->repeats[h->repeat].times)
        return wrong_program(p, h, file, diag);
    if (size != h->size_bytes)
        return dv_fail(diag, DV_E_FORMAT, file,
                       "%s: the header promises %" PRId64
                       " bytes, the file has %" PRId64,
                       size < h->size_bytes ? "truncated" : "trailing bytes",
                       h->size_bytes, size);
    return DV_OK;
}

dv_status dv_checkpoint_load(dv_rank *r, const char *path, int64_t *at,
                             dv_diag *diag)
{
    dv_comm *c;
    dv_rank_plan(r, &c);
    DV_TRY(check_target(r, diag));
    header h = {0};
    int64_t size = 0;
    dv_diag *mine = dv_diag_create();
    if (c->rank == 0)
        dv_writers_remove_stale(
            path); // remove temporary files of an interrupted save
    dv_status st = c->rank == 0 ? read_header(path, &h, &size, mine) : DV_OK;
    if (st == DV_OK && c->rank == 0)
        st = check_header(r, path, &h, size, mine);
    DV_TRY(dv_comm_conclude_with(c, st, mine, &h, sizeof h, diag));
    DV_TRY(move_parts(r, path, 0, diag));
    uint64_t sum = 0;
    DV_TRY(sum_all(r, &sum, diag));
    dv_source src = {path, "", 0};
    if (sum != h.elements)
        return dv_fail(diag, DV_E_FORMAT, (dv_loc){&src, DV_FILE},
                       "the checksum of the elements is %016" PRIx64
                       ", the header says %016" PRIx64,
                       sum, h.elements);
    dv_rank_resume_at(r, (int32_t)h.repeat, h.round);
    if (at)
        *at = h.round;
    return DV_OK;
}
