// Emits a product of dot products as loops over tiles. The dot.c of a64/ and of
// x64/ includes this file after the struct `dots` and the function that emits
// one tile, and it is written in the macros that gen.h of both has (DV_ADD and
// so on).

// Emits all tiles, one below the other, that have the columns of the current
// tile.
static void down(dots *d, DV_GEN *g)
{
    const dv_gemm_shape *s = d->s;
    d->rows = d->most_rows;
    DV_LOOP(X_M, s->m / d->most_rows) {
        tile(d, g);
        DV_ADD(X_A, d->rows * s->lda * g->es);
        DV_ADD(X_C, d->rows * s->ldc * g->es);
        if (s->bias == DV_BIAS_M)
            DV_ADD(X_BIAS, (int64_t)d->rows * g->es);
    }
    d->rows = s->m % d->most_rows;
    if (d->rows)
        tile(d, g);
}

static void next_across(const dots *d, DV_GEN *g)
{
    const dv_gemm_shape *s = d->s;
    DV_ADD(X_B, d->cols * s->ldb * g->es);
    DV_ADD(X_CBASE, (int64_t)d->cols * g->es);
    DV_MOV(X_C, X_CBASE);
    DV_MOV(X_A, X_ABASE);
    if (s->bias == DV_BIAS_M)
        DV_MOV(X_BIAS, X_BIASBASE);
    if (s->bias == DV_BIAS_N)
        DV_ADD(X_BIAS, (int64_t)d->cols * g->es);
}

// Emits all tiles of a product whose elements are dot products; the caller
// emits the entry and the exit of the function.
static void across(dots *d, DV_GEN *g)
{
    const dv_gemm_shape *s = d->s;
    if (s->bias)
        DV_GET(X_BIAS, bias);
    DV_MOV(X_ABASE, X_A);
    DV_MOV(X_CBASE, X_C);
    if (s->bias == DV_BIAS_M)
        DV_MOV(X_BIASBASE, X_BIAS);
    d->cols = d->most_cols;
    DV_LOOP(X_N, s->n / d->most_cols) {
        down(d, g);
        next_across(d, g);
    }
    d->cols = s->n % d->most_cols;
    if (d->cols)
        down(d, g);
}
