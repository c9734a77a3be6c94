#include <divvy/dist.h>
#include <stdio.h>

// What one rank of the team does: heat runs along a rod of 12 points.
static dv_status work(void *user, dv_team_link *link, dv_diag *diag)
{
    const int64_t n = 12;
    const dv_halo one = {.before = {1}, .after = {1}};
    const dv_box end = {1, {{0, 1}}};
    const double hot = 100;
    double *sum = user;
    dv_darray *u = NULL, *v = NULL, *all = NULL;
    dv_dist d = dv_dist_rows(1, &n, dv_team_size(link));
    if (dv_darray_create(&u, link, DV_ELEM_F64, &d, &one, diag) ||
        dv_darray_set(u, &end, -1, &hot, diag) ||
        dv_darray_move(&v, u, &d, &one, diag)) // a copy
        return dv_diag_status(diag);
    for (int step = 0; step < 20; step++) {
        if (dv_darray_halo(u, diag))
            return dv_diag_status(diag);
        dv_range own = dv_darray_own(u).dim[0];
        int64_t first = dv_darray_local(u).dim[0].off;
        const double *x = dv_darray_data(u, NULL);
        double *y = dv_darray_data(v, NULL);
        for (int64_t i = own.off; i < own.off + own.size; i++) {
            int64_t k = i - first; // where it lies here
            if (i > 0 && i < n - 1)
                y[k] = 0.25 * x[k - 1] + 0.5 * x[k] + 0.25 * x[k + 1];
        }
        dv_darray *was = u;
        u = v;
        v = was;
    }
    if (dv_darray_reduce(&all, u, DV_REDUCE_SUM, NULL, 0, diag))
        return dv_diag_status(diag);
    if (dv_team_rank(link) == 0)
        *sum = *(double *)dv_darray_data(all, NULL);
    dv_darray_destroy(all);
    dv_darray_destroy(v);
    dv_darray_destroy(u);
    return DV_OK;
}

int main(void)
{
    dv_diag *diag = dv_diag_create();
    for (int64_t n = 1; n <= 4; n += 3) { // alone, then four ranks
        double sum = 0;
        if (dv_team_local(n, work, &sum, diag)) {
            fputs(dv_diag_text(diag), stderr);
            return dv_status_exit(dv_diag_status(diag));
        }
        printf("%d: %.6f\n", (int)n, sum);
    }
    dv_diag_destroy(diag);
    return 0;
}
