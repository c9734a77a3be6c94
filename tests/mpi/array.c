// Arrays over processes of MPI: the checks that tests/unit/darray/array.c makes
// with threads, with the same results. Prints their hash; with an argument, it
// runs on so many threads instead. Run by array.sh under mpirun with any number
// of ranks.
#include "harness/array_case.h"
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 2 };

static dv_status run(void *user, dv_team_link *p, dv_diag *diag)
{
    int bad = 0;
    uint64_t hash = array_case(p, 2, TURNS, &bad, diag);
    if (dv_team_rank(p) == 0)
        *(uint64_t *)user = hash;
    return bad ? DV_E_VERIFY : DV_OK;
}

// dv_team_split: the ranks of each part have arrays of their own.
static int in_parts(dv_team_link *p, dv_diag *diag)
{
    dv_team_link *part = NULL;
    int bad = 0;
    int64_t colour = dv_team_rank(p) % 2 ? -7 : INT64_C(1) << 40;
    if (dv_team_split(&part, p, colour, diag))
        return 1;
    int64_t n = dv_team_size(p), want = colour < 0 ? n / 2 : (n + 1) / 2;
    bad |= dv_team_size(part) != want;
    bad |= dv_team_rank(part) != dv_team_rank(p) / 2;
    array_case(part, colour < 0 ? 3 : 4, 1, &bad, diag);
    dv_team_destroy(part);
    return bad;
}

// One rank calls with other arguments than the others: all ranks get an error
// and can go on.
static int goes_astray(dv_team_link *p)
{
    int64_t n = 8 + (dv_team_rank(p) == dv_team_size(p) - 1), ok = 0;
    dv_dist d = dv_dist_rows(1, &n, dv_team_size(p));
    dv_darray *a = NULL;
    dv_diag *diag = dv_diag_create();
    dv_status st = dv_darray_create(&a, p, DV_ELEM_F64, &d, NULL, diag);
    ok = dv_team_size(p) == 1
             ? st == DV_OK
             : st == DV_E_USAGE && strstr(dv_diag_text(diag), "new array");
    dv_darray_destroy(a);
    dv_diag_destroy(diag);
    return !ok;
}

// The library leaves the error handler of MPI_COMM_WORLD as it was.
static int keeps_handler(void)
{
    MPI_Errhandler mine, now;
    dv_team_link *p = NULL;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &mine);
    int bad = dv_team_mpi(&p, NULL, NULL, NULL) != DV_OK;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &now);
    bad |= mine != now;
    MPI_Errhandler_free(&mine);
    MPI_Errhandler_free(&now);
    dv_team_destroy(p);
    return bad;
}

int main(int argc, char **argv)
{
    uint64_t hash = 0;
    dv_diag *diag = dv_diag_create();
    if (argc > 1) { // run on threads instead
        dv_status st =
            dv_team_local(strtoll(argv[1], NULL, 10), run, &hash, diag);
        printf("%016" PRIx64 "\n", hash);
        dv_diag_destroy(diag);
        return st != DV_OK;
    }
    MPI_Init(&argc, &argv);
    int bad = keeps_handler(), any = 0;
    for (int i = 0; i < 2;
         i++) { // with the default options; in small messages, checked
        dv_team_link *p = NULL;
        dv_rank_exec_options o = DV_RANK_EXEC_OPTIONS_INIT;
        o.max_message_bytes = i ? 20 : 0;
        o.checked = i;
        o.timeout_s = i ? 60 : 0;
        if (dv_team_mpi(&p, NULL, &o, diag))
            MPI_Abort(MPI_COMM_WORLD, 1);
        if (i) {
            bad |= run(&hash, p, diag) != DV_OK;
            bad |= in_parts(p, diag);
            bad |= goes_astray(p);
        } else {
            array_case(p, 5, 1, &bad, diag);
        }
        if (i && dv_team_rank(p) == 0)
            printf("%016" PRIx64 "\n", hash);
        dv_team_destroy(p);
    }
    MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    dv_diag_destroy(diag);
    return any;
}
