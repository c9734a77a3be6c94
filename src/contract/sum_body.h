// The two loops of sum.c for one element type. The file that includes this one
// defines REAL, RELU and the function names POINTS and COMBINE.

#ifndef DV_CONTRACT_SUM_BODY
#define DV_CONTRACT_SUM_BODY
typedef struct points {
    // Number of elements, and their strides in in0, in1 and out; if c is 0, all
    // products are added to one element.
    int64_t n, a, b, c;
    int zero, relu;
} points;

typedef struct combine {
    const dv_contraction *c;
    // Size of the last dimension, and its strides in the output and in a
    // partial result.
    int64_t n, step, part_step;
} combine;
#endif

static void POINTS(const points *p, const REAL *a, const REAL *b, REAL *out)
{
    if (p->c == 0) {
        REAL sum = p->zero ? 0 : *out;
        for (int64_t i = 0; i < p->n; i++)
            sum += a[i * p->a] * b[i * p->b];
        *out = p->relu ? RELU(sum) : sum;
    } else if (p->a == 1 && p->b == 1 && p->c == 1 && p->zero && !p->relu) {
        for (int64_t i = 0; i < p->n; i++)
            out[i] = a[i] * b[i];
    } else {
        for (int64_t i = 0; i < p->n; i++) {
            REAL x = a[i * p->a] * b[i * p->b];
            if (!p->zero)
                x += out[i * p->c];
            out[i * p->c] = p->relu ? RELU(x) : x;
        }
    }
}

static void COMBINE(const combine *w, const REAL *sums, REAL *out)
{
    const dv_contraction *c = w->c;
    for (int64_t i = 0; i < w->n; i++) {
        REAL x = c->zero_first ? 0 : out[i * w->step];
        for (int64_t p = 0; p < c->parts; p++)
            x += sums[p * c->part_elems + i * w->part_step];
        out[i * w->step] = c->relu_last ? RELU(x) : x;
    }
}
