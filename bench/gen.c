// Writes a program of N statements: chains of pointwise ops with a reduction
// and a contraction now and then, the mix of a model's layers. gen [N]
#include "usage.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    char *end = NULL;
    int64_t n = argc > 1 ? strtoll(argv[1], &end, 10) : 100000;
    if (argc > 2 || (end && *end) || n < 1)
        return tell_usage(argc == 2 && !strcmp(argv[1], "-h"),
                          "gen [STATEMENTS]\n");
    printf("param M = 256\nparam N = 1024\n");
    printf("input x: f16[M, N]\ninput w: f16[N, N]\n\n");
    printf("t0[i,j] = relu(x[i,j])\n");
    for (int64_t k = 1; k < n; k++) {
        int64_t p = k - 1;
        switch (k % 8) {
        case 1:
            printf("t%" PRId64 "[i,j] = t%" PRId64 "[i,j] * 1.0009765625\n", k,
                   p);
            break;
        case 2:
            printf("t%" PRId64 "[i,j] = t%" PRId64 "[i,j] + x[i,j]\n", k, p);
            break;
        case 3:
            printf("t%" PRId64 "[i,j] = silu(t%" PRId64 "[i,j])\n", k, p);
            break;
        case 4:
            printf("t%" PRId64 "[i] = max[j] t%" PRId64 "[i,j]\n", k, p);
            break;
        case 5:
            printf("t%" PRId64 "[i,j] = exp(t%" PRId64 "[i,j] - t%" PRId64
                   "[i])\n",
                   k, k - 2, p);
            break;
        case 6:
            printf("t%" PRId64 "[i] = sum[j] t%" PRId64 "[i,j]\n", k, p);
            break;
        case 7:
            printf("t%" PRId64 "[i,j] = t%" PRId64 "[i,j] / t%" PRId64 "[i]\n",
                   k, k - 2, p);
            break;
        default:
            printf("t%" PRId64 "[i,j] = sum[k] t%" PRId64 "[i,k] * w[k,j]\n", k,
                   p);
            break;
        }
    }
    printf("\noutput t%" PRId64 "\n", n - 1);
    return 0;
}
