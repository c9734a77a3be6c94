// Packs blocks of operands and writes results back, with loops around moves:
// generated functions that copy, transpose or convert a small block.
#include "base/math.h"
#include "contract/state.h"
#include <string.h>

int64_t ct_iterations(const dv_contraction_cursor *t, int64_t size,
                      int64_t whole, int64_t unit, int32_t outer, int64_t *from)
{
    *from = outer < 0 ? 0 : t->at[outer];
    return whole ? dv_min_i64(size, dv_ceil_div(whole - *from, unit)) : size;
}

int ct_is_tail(const dv_contraction_cursor *t, const ct_prim *p)
{
    return p->rest && t->at[p->outer] + p->size > p->whole;
}

int ct_k_variant(const dv_contraction *c, const dv_contraction_cursor *t)
{
    int way = 0;
    if (c->k_tails[0] >= 0)
        way |= ct_is_tail(t, &c->k[c->k_tails[0]]);
    if (c->k_tails[1] >= 0)
        way |= ct_is_tail(t, &c->k[c->k_tails[1]]) << 1;
    return way;
}

typedef struct copy_job {
    const dv_contraction *c;
    const ct_mover *m;
    dv_contraction_cursor *t;
    unsigned char *tensor, *buffer;
    int64_t k_at; // position along k inside the panel, in elements
    int back;
    // A generated copy function that moves a whole block in one call; NULL if
    // there is none.
    dv_move_fn whole;
} copy_job;

// Copies n elements one by one, for strides that no generated move supports.
static void copy_elements(const copy_job *h, unsigned char *tensor,
                          unsigned char *buffer, int64_t n)
{
    size_t es = (size_t)h->c->es;
    for (int64_t i = 0; i < n; i++) {
        unsigned char *x = tensor + i * h->m->across.from,
                      *y = buffer + i * h->c->es;
        memcpy(h->back ? x : y, h->back ? y : x, es);
    }
}

// Returns the stride of the axis `along` in the buffer, in bytes, for panels
// that are `wide` elements wide.
static int64_t along_step(const copy_job *h, int64_t wide);

// Copies one chunk of the axis `along` (the move's axis that is not contiguous
// in the buffer), from position `at` on, in all panels. `which` selects the
// move: for a whole chunk or for a remainder.
static void panels(const copy_job *h, int64_t at, int which)
{
    const ct_mover *m = h->m;
    const dv_contraction *c = h->c;
    int rest = m->prim ? ct_is_tail(h->t, m->prim) : 0;
    int way = m->operand == DV_OUT ? 0 : ct_k_variant(c, h->t);
    const ct_cut *cut = &m->cuts[rest];
    unsigned char *tensor = h->tensor + at * m->along.from, *panel = h->buffer;
    for (int r = 0; r < cut->n; r++) {
        int64_t wide = cut->size[r];
        if (m->operand == c->form.in_col)
            // Rounds up: lanes is a power of 2.
            wide = (wide + c->lanes - 1) & -(int64_t)c->lanes;
        int64_t off = h->k_at * wide * c->es + at * along_step(h, wide);
        for (int32_t i = 0; i < cut->count[r]; i++) {
            unsigned char *to = panel + off;
            if (m->scalar)
                copy_elements(h, tensor, to, cut->size[r]);
            else if (h->back)
                m->back[rest][way][which](to, tensor);
            else
                m->in[rest][r][way][which](tensor, to);
            tensor += cut->size[r] * m->across.from;
            panel += wide * c->k_size[way] * c->es;
        }
    }
}

static void block(const copy_job *h)
{
    const ct_axis *x = &h->m->along;
    int64_t from,
        n = ct_iterations(h->t, x->size, x->whole, 1, x->outer, &from);
    int64_t chunk = h->m->chunk;
    for (int64_t i = 0; i < n; i += chunk)
        panels(h, i, n - i >= chunk ? 0 : n == x->size ? 1 : 2);
}

// Returns the number of elements of k (all summed dimensions of the kernel,
// counted as one) that one step of k dimension i spans.
static int64_t k_step(const dv_contraction *c, const dv_contraction_cursor *t,
                      int i)
{
    int64_t n = 1;
    for (int j = i + 1; j < c->form.n_k; j++)
        n *= ct_is_tail(t, &c->k[j]) ? c->k[j].rest : c->k[j].size;
    return n;
}

static int64_t along_step(const copy_job *h, int64_t wide)
{
    const ct_axis *x = &h->m->along;
    return x->k < 0 ? x->to : k_step(h->c, h->t, x->k) * wide * h->c->es;
}

// Loops over the axes from number a on, recursively, and calls the move (the
// generated copy function) inside all of them.
static void loop_axes(const copy_job *h, int a)
{
    if (a == h->m->n_axes) {
        block(h);
        return;
    }
    const ct_axis *x = &h->m->axes[a];
    int64_t from,
        n = ct_iterations(h->t, x->size, x->whole, x->unit, x->outer, &from);
    if (h->whole && a == h->m->n_axes - 1) {
        for (int64_t i = 0; i < n; i++)
            h->whole(h->buffer + i * x->to, h->tensor + i * x->from);
        return;
    }
    copy_job w = *h;
    int64_t k_step_elems = x->k < 0 ? 0 : k_step(h->c, h->t, x->k);
    for (int64_t i = 0; i < n; i++) {
        if (x->loop >= 0)
            h->t->at[x->loop] = from + i * x->unit;
        loop_axes(&w, a + 1);
        w.tensor += x->from;
        w.buffer += x->to;
        w.k_at += k_step_elems;
    }
}

void ct_pack(const dv_contraction *c, dv_contraction_cursor *t, int operand,
             const unsigned char *from)
{
    copy_job h = {.c = c,
                  .m = &c->movers[operand],
                  .t = t,
                  .tensor = (unsigned char *)from,
                  .buffer = t->buffer[operand]};
    loop_axes(&h, 0);
}

// Returns the generated copy that writes a whole block of results back, or NULL
// if a block takes several copies, or blocks differ in size.
static dv_move_fn whole_move(const ct_mover *m)
{
    int one = !m->scalar && !(m->prim && m->prim->rest) && !m->along.whole &&
              m->chunk == m->along.size && m->cuts[0].n == 1 &&
              m->cuts[0].count[0] == 1;
    return one ? m->back[0][0][0] : NULL;
}

void ct_unpack(const dv_contraction *c, dv_contraction_cursor *t,
               unsigned char *to)
{
    const ct_mover *m = &c->movers[DV_OUT];
    copy_job h = {.c = c,
                  .m = m,
                  .t = t,
                  .tensor = to,
                  .buffer = t->buffer[DV_OUT],
                  .back = 1,
                  .whole = whole_move(m)};
    loop_axes(&h, 0);
}
