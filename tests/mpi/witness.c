#include "witness.h"
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

witness seen;

// -- Messages --------------------------------------------------------------

enum { MAX_SENDS = 100000 };

static struct {
    MPI_Request request;
    int bytes;
} sends[MAX_SENDS];
static int n_sends;

static int same(const MPI_Request *a, const MPI_Request *b)
{
    return !memcmp(a, b, sizeof *a);
}

int MPI_Send_init(const void *data, int n, MPI_Datatype type, int to, int tag,
                  MPI_Comm comm, MPI_Request *out)
{
    int size, code = PMPI_Send_init(data, n, type, to, tag, comm, out);
    PMPI_Type_size(type, &size);
    seen.prepared++;
    if (n_sends == MAX_SENDS)
        abort();
    sends[n_sends].request = *out;
    sends[n_sends++].bytes = n * size;
    return code;
}

int MPI_Recv_init(void *data, int n, MPI_Datatype type, int from, int tag,
                  MPI_Comm comm, MPI_Request *out)
{
    seen.prepared++;
    return PMPI_Recv_init(data, n, type, from, tag, comm, out);
}

int MPI_Start(MPI_Request *r)
{
    seen.started++;
    for (int i = n_sends - 1; i >= 0; i--)
        if (same(&sends[i].request, r)) {
            seen.bytes_sent += sends[i].bytes;
            break;
        }
    return PMPI_Start(r);
}

int MPI_Request_free(MPI_Request *r)
{
    for (int i = n_sends - 1; i >= 0; i--)
        if (same(&sends[i].request, r)) {
            sends[i] = sends[--n_sends];
            break;
        }
    return PMPI_Request_free(r);
}

int MPI_Isend(const void *data, int n, MPI_Datatype type, int to, int tag,
              MPI_Comm comm, MPI_Request *out)
{
    seen.others++;
    return PMPI_Isend(data, n, type, to, tag, comm, out);
}

int MPI_Send(const void *data, int n, MPI_Datatype type, int to, int tag,
             MPI_Comm comm)
{
    seen.others++;
    return PMPI_Send(data, n, type, to, tag, comm);
}

// -- Memory ----------------------------------------------------------------

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
int __real_posix_memalign(void **out, size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
int __wrap_posix_memalign(void **out, size_t align, size_t n);

static void count(void)
{
    __atomic_fetch_add(
        &seen.allocated, 1,
        __ATOMIC_RELAXED); // threads may do this at the same time
}

void *__wrap_malloc(size_t n)
{
    count();
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    count();
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    count();
    return __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    count();
    return __real_aligned_alloc(align, n);
}

int __wrap_posix_memalign(void **out, size_t align, size_t n)
{
    count();
    return __real_posix_memalign(out, align, n);
}
