// Products of tables and vectors in which sums become minima and products
// become sums.
#ifndef DV_MINPLUS_H
#define DV_MINPLUS_H
#include <math.h>
#include <stdint.h>

// out[j] = min over i of a[i] + table[i][j]. Infinite a[i] are skipped.
static inline void dv_minplus_columns(double *restrict out,
                                      const double *restrict a,
                                      const double *restrict table, int32_t n,
                                      int32_t m)
{
    for (int32_t j = 0; j < m; j++)
        out[j] = INFINITY;
    for (int32_t i = 0; i < n; i++) {
        const double *row = table + (int64_t)i * m;
        double x = a[i];
        if (x == INFINITY)
            continue;
        for (int32_t j = 0; j < m; j++) {
            double y = x + row[j];
            out[j] = y < out[j] ? y : out[j];
        }
    }
}

// out[i] = min over j of table[i][j] + a[j].
static inline void dv_minplus_rows(double *restrict out,
                                   const double *restrict a,
                                   const double *restrict table, int32_t n,
                                   int32_t m)
{
    for (int32_t i = 0; i < n; i++) {
        const double *row = table + (int64_t)i * m;
        // Independent minima let the compiler use vectors.
        double least[4] = {INFINITY, INFINITY, INFINITY, INFINITY};
        int32_t j = 0;
        for (; j + 4 <= m; j += 4)
            for (int k = 0; k < 4; k++) {
                double y = a[j + k] + row[j + k];
                least[k] = y < least[k] ? y : least[k];
            }
        for (; j < m; j++) {
            double y = a[j] + row[j];
            least[0] = y < least[0] ? y : least[0];
        }
        least[0] = least[1] < least[0] ? least[1] : least[0];
        least[2] = least[3] < least[2] ? least[3] : least[2];
        out[i] = least[2] < least[0] ? least[2] : least[0];
    }
}

// Returns the index of the least of n values; the first of equal ones.
static inline int32_t dv_least(const double *a, int32_t n)
{
    int32_t at = 0;
    for (int32_t i = 1; i < n; i++)
        at = a[i] < a[at] ? i : at;
    return at;
}
#endif
