// Emits a product of dot products as loops over tiles. The dot.c of a64/ and of
// x64/ includes this file after the struct `dots`. It is written in the virtual
// operations of code.h and in these functions.

// Sets the accumulators of a tile to 0, and the running pointers to its rows of
// A and B, which begin at the addresses in registers X_A and X_B.
static void start(dots *d, DV_GEN *g);
// Emits the multiply-adds of n elements of k, at most a vector of them, `at`
// bytes after the running pointers. `i` counts such steps that follow each
// other without a loop between them, so that neighbours can use different
// registers.
static void step(dots *d, DV_GEN *g, int64_t at, int n, int i);
// Advances the running pointers of A and B by a number of bytes each.
static void advance(dots *d, DV_GEN *g, int64_t a, int64_t b);
// Adds up the lanes of the accumulators of row i, and runs the epilogue on
// them: scale, add C and the bias, relu, store.
static void finish_row(dots *d, DV_GEN *g, int i);

enum { STEPS = 2 }; // steps in an iteration of the loop over k

static void along_k(dots *d, DV_GEN *g)
{
    const dv_gemm_shape *s = d->s;
    int64_t bytes = (int64_t)g->lanes * g->es, turn = STEPS * bytes;
    int vectors = s->k / g->lanes, part = s->k % g->lanes;
    int turns = vectors / STEPS > 1 ? vectors / STEPS : 0;
    int left = vectors - turns * STEPS;
    DV_LOOP(X_K, turns) {
        for (int i = 0; i < STEPS; i++)
            step(d, g, i * bytes, g->lanes, i);
        advance(d, g, turn, turn);
    }
    for (int i = 0; i < left; i++)
        step(d, g, i * bytes, g->lanes, i);
    if (part)
        step(d, g, left * bytes, part, left);
    if (s->batch > 1)
        advance(d, g, s->stride_a * g->es - turns * turn,
                s->stride_b * g->es - turns * turn);
}

// Emits one tile, whose parts of A, B and C are at the addresses in registers
// X_A, X_B and X_C.
static void tile(dots *d, DV_GEN *g)
{
    start(d, g);
    DV_REPEAT(X_BATCH, d->s->batch)
    along_k(d, g);
    for (int i = 0; i < d->rows; i++)
        finish_row(d, g, i);
}

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
