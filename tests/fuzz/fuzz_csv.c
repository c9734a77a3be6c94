// Reads any bytes as a table of buffers: either it fails with a message, or the
// table prints, reads back, and has a valid placement.
#include "fuzz.h"
#include "place/csv.h"
#include <stdlib.h>

static void must(int holds)
{
    if (!holds)
        abort();
}

// The table with offsets reads back with the same number of rows, all of them
// fixed.
static void print_and_read(const dv_csv *csv, const dv_placement *p)
{
    dv_text out = {0};
    dv_csv again;
    dv_csv_print(&out, csv, p->addresses);
    if (!out.failed && dv_csv_parse(&again, out.at, out.len, "b", NULL) == 0) {
        must(again.n == csv->n);
        for (int32_t i = 0; i < again.n; i++)
            must(again.buffers[i].fixed_address == p->addresses[i]);
        dv_csv_free(&again);
    } else {
        must(out.failed);
    }
    dv_text_free(&out);
}

static void place(const dv_csv *csv)
{
    dv_place_options o = DV_PLACE_OPTIONS_INIT;
    o.capacity_bytes = 1000;
    o.budget = 2000;
    for (o.evict = 0; o.evict < 2; o.evict++) {
        dv_placement *p = NULL;
        if (dv_place(&p, csv->buffers, (size_t)csv->n, &o, NULL))
            continue;
        must(dv_placement_check(p, csv->buffers, &o, NULL) == DV_OK);
        must(p->value <= p->bound);
        print_and_read(csv, p);
        dv_placement_destroy(p);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dv_csv csv;
    dv_diag *diag = dv_diag_create();
    if (!diag)
        return 0;
    dv_status s =
        dv_csv_parse(&csv, (const char *)data, size, "fuzz.csv", diag);
    must(s == dv_diag_status(diag));
    if (s == DV_OK) {
        if (csv.n <= 32)
            place(&csv);
        dv_csv_free(&csv);
    }
    dv_diag_destroy(diag);
    return 0;
}
