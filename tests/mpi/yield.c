// MPI waits for messages in a busy loop. With more ranks than cores, or beside
// other tests, every message then costs a time slice of the scheduler. In the
// test programs idle ranks sleep instead: MPICH calls ucp_worker_progress,
// which never yields; Open MPI calls sched_yield (with mpi_yield_when_idle),
// after which the kernel runs all computing processes first. A process that
// wakes up from a sleep runs first.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <time.h>

typedef unsigned progress(void *thread_state);
__attribute__((visibility("default"))) progress ucp_worker_progress;
__attribute__((visibility("default"))) int sched_yield(void);

int sched_yield(void)
{
    return nanosleep(&(struct timespec){0, 1000}, NULL);
}

unsigned ucp_worker_progress(void *thread_state)
{
    static progress *theirs;
    if (!theirs)
        *(void **)&theirs = dlsym(RTLD_NEXT, "ucp_worker_progress");
    unsigned done = theirs ? theirs(thread_state) : 0;
    if (!done)
        sched_yield();
    return done;
}
