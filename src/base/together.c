#include "base/together.h"
#include "base/fork.h"
#if defined(__SANITIZE_THREAD__)
#include <pthread.h>
#endif

#if defined(__SANITIZE_THREAD__)
// One part of a parallel loop and the thread that runs it. Under thread
// sanitizer, pthreads are used instead of OpenMP, because the sanitizer does
// not see the synchronisation inside the OpenMP runtime.
typedef struct hand {
    pthread_t thread;
    void (*part)(void *job, int32_t i);
    void *job;
    int32_t i;
    int runs;
} hand;

static void *begin(void *arg)
{
    const hand *h = arg;
    h->part(h->job, h->i);
    return NULL;
}

static void side_by_side(void (*part)(void *job, int32_t i), void *job,
                         int32_t n)
{
    enum { AT_ONCE = 64 };
    hand h[AT_ONCE];
    for (int32_t first = 0; first < n; first += AT_ONCE) {
        int32_t k = n - first < AT_ONCE ? n - first : AT_ONCE;
        for (int32_t i = 0; i < k; i++) {
            h[i] = (hand){.part = part, .job = job, .i = first + i};
            h[i].runs =
                i > 0 && !pthread_create(&h[i].thread, NULL, begin, &h[i]);
        }
        for (int32_t i = 0; i < k; i++)
            if (!h[i].runs)
                begin(&h[i]);
        for (int32_t i = 0; i < k; i++)
            if (h[i].runs)
                pthread_join(h[i].thread, NULL);
    }
}
#else
static void side_by_side(void (*part)(void *job, int32_t i), void *job,
                         int32_t n)
{
#ifdef _OPENMP
#pragma omp parallel for num_threads(n) schedule(static, 1)
#endif
    for (int32_t i = 0; i < n; i++)
        part(job, i);
}

#endif

void dv_parallel_for(void (*part)(void *job, int32_t i), void *job, int32_t n)
{
    if (n > 1 && dv_has_threads()) {
        side_by_side(part, job, n);
        return;
    }
    for (int32_t i = 0; i < n; i++)
        part(job, i);
}
