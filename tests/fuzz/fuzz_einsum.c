// Reads any bytes as an einsum expression or tree: either it fails with a
// message, or it takes shapes and becomes a valid program.
#include "einsum/einsum.h"
#include "fuzz.h"
#include <stdlib.h>

static void must(int holds)
{
    if (!holds)
        abort();
}

enum { MAX_IN = 12 };

typedef struct shapes {
    dv_array at[MAX_IN];
    int64_t extent[MAX_IN][DV_MAX_DIMS];
} shapes;

// Extents are a function of the letters, so that most of them agree; some are
// 1.
static void make_shapes(const dv_formula *f, shapes *s)
{
    for (int32_t i = 0; i < f->n_in; i++) {
        int n = 0;
        s->at[i] = (dv_array){DV_F32, 0, s->extent[i], NULL, NULL};
        if (f->is_tree) {
            for (int d = 0; d < f->in[i].n_dims; d++)
                s->extent[i][n++] = 1 + f->in[i].id[d] % 3;
            s->at[i].n_dims = n;
            continue;
        }
        const dv_term_text *w = &f->written[i];
        for (uint32_t k = w->begin; k < w->end && n < DV_MAX_DIMS; k++) {
            char c = f->src.text[k];
            if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
                s->extent[i][n++] = i == 3 ? 1 : 1 + c % 3;
            if (k == w->dots_at && w->dots >= 0)
                s->extent[i][n++] = 2;
        }
        s->at[i].n_dims = n;
    }
}

static void build(const dv_formula *f, const shapes *s, dv_arena *arena)
{
    dv_path path;
    dv_text text = {0};
    dv_program *p = NULL;
    dv_diag *diag = dv_diag_create();
    dv_status st = dv_path_find(&path, f, DV_PATH_AUTO, 0, arena, diag);
    must(st == DV_OK || st == DV_E_LIMIT);
    if (st == DV_OK && !dv_formula_is_empty(f)) {
        dv_path_program(&text, f, &path, s->at, DV_F32);
        must(dv_program_parse(&p, text.at, text.len, "fuzz", NULL, 0, diag) ==
             DV_OK);
        dv_program_destroy(p);
        dv_text_free(&text);
        dv_path_print(&text, f, &path);
        must(text.len > 0);
    }
    dv_text_free(&text);
    dv_diag_destroy(diag);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dv_arena arena = {0};
    dv_formula f;
    shapes s;
    dv_diag *diag = dv_diag_create();
    if (!diag)
        return 0;
    dv_status st = dv_formula_parse(&f, (const char *)data, size, &arena, diag);
    must(st == dv_diag_status(diag));
    if (st == DV_OK && f.n_in <= MAX_IN) {
        make_shapes(&f, &s);
        st = dv_formula_resolve(&f, s.at, (size_t)f.n_in, &arena, diag);
        must(st == dv_diag_status(diag));
        if (st == DV_OK)
            build(&f, &s, &arena);
    }
    dv_diag_destroy(diag);
    dv_arena_free(&arena);
    return 0;
}
