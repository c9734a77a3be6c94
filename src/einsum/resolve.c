// Resolves a formula with the operands' shapes: names every dim, finds the
// extent of every index, and determines the output.
//
//   i...,...j   with 2x5x7 and 5x1x3     i e0 e1, e0 - j: i=2 e0=5 e1=7 j=3
//
// Dims under an ellipsis are aligned at the right. An extent of 1 broadcasts to
// any other, also for letters, as in numpy; but dims of one operand with the
// same index must be equal.
#include "base/plural.h"
#include "einsum/einsum.h"
#include <inttypes.h>

typedef struct work {
    dv_formula *f;
    const dv_array *in;
    dv_diag *diag;
    // For each index, the operand and the dim of it from which the index got
    // its extent; used in messages.
    int32_t operand[DV_MAX_IDS], dim[DV_MAX_IDS];
} work;

static dv_loc at(const work *w, uint32_t off)
{
    return (dv_loc){&w->f->src, off};
}

const char *dv_id_text(const dv_formula *f, int id, dv_id_name buf)
{
    int n = (f->is_tree ? id : id - DV_ID_DOTS) % DV_MAX_IDS, at = 0;
    if (!f->is_tree && id < DV_ID_DOTS) {
        buf[at++] = (char)(id < 26 ? 'A' + id : 'a' + id - 26);
    } else {
        // The index is no letter of the text; its name is a letter and a number
        // of up to three digits.
        buf[at++] = f->is_tree ? 'd' : 'e';
        if (n >= 100)
            buf[at++] = (char)('0' + n / 100);
        if (n >= 10)
            buf[at++] = (char)('0' + n / 10 % 10);
        buf[at++] = (char)('0' + n % 10);
    }
    buf[at] = 0;
    return buf;
}

dv_ids dv_term_ids(const dv_einsum_term *t)
{
    dv_ids s = {{0, 0}};
    for (int d = 0; d < t->n_dims; d++)
        if (t->id[d] != DV_NO_ID)
            dv_ids_add(&s, t->id[d]);
    return s;
}

double dv_ids_points(dv_ids s, const int64_t *extent)
{
    double points = 1;
    for (int k = 0; k < 2; k++)
        for (uint64_t w = s.w[k]; w; w &= w - 1)
            points *= (double)extent[64 * k + __builtin_ctzll(w)];
    return points;
}

int dv_formula_is_empty(const dv_formula *f)
{
    for (int i = 0; i < f->n_in; i++)
        for (int d = 0; d < f->in[i].n_dims; d++) {
            int id = f->in[i].id[d];
            if (id != DV_NO_ID && f->extent[id] == 0)
                return 1;
        }
    return 0;
}

static void name_dim(dv_einsum_term *t, int id, uint32_t off)
{
    t->id[t->n_dims] = (uint8_t)id;
    t->at[t->n_dims++] = off;
}

// Assigns indices to the dims of a written term (one operand or the output),
// with n_dots dims for its ellipsis. The caller has checked that the term has
// at most DV_MAX_DIMS dims.
static void name_dims(const work *w, const dv_term_text *x, int n_dots,
                      dv_einsum_term *t)
{
    int letters = 0;
    *t = (dv_einsum_term){.begin = x->begin};
    for (uint32_t i = x->begin; i <= x->end; i++) {
        if (letters == x->dots && t->n_dims == letters)
            for (int d = 0; d < n_dots; d++)
                name_dim(t, DV_ID_DOTS + w->f->n_dots - n_dots + d, x->dots_at);
        char c = i < x->end ? w->f->src.text[i] : 0;
        if (c >= 'A' && c <= 'Z')
            name_dim(t, c - 'A', i);
        else if (c >= 'a' && c <= 'z')
            name_dim(t, c - 'a' + 26, i);
        else
            continue;
        letters++;
    }
}

static dv_status check_rank(const work *w, int32_t i)
{
    const dv_term_text *x = &w->f->written[i];
    int n = w->in[i].n_dims;
    if (x->dots < 0 && x->n_letters != n)
        return dv_fail(w->diag, DV_E_SHAPE, at(w, x->begin),
                       "operand %d has %d dim%s, the expression gives it %d %s",
                       (int)i, n, DV_PLURAL(n, "", "s"), (int)x->n_letters,
                       DV_PLURAL(x->n_letters, "index", "indices"));
    if (x->n_letters > n)
        return dv_fail(w->diag, DV_E_SHAPE, at(w, x->begin),
                       "operand %d has %d dim%s, the expression gives it %d %s "
                       "besides '...'",
                       (int)i, n, DV_PLURAL(n, "", "s"), (int)x->n_letters,
                       DV_PLURAL(x->n_letters, "index", "indices"));
    return DV_OK;
}

static dv_status name_operands(work *w, dv_arena *arena)
{
    dv_formula *f = w->f;
    f->in = DV_NEW(arena, dv_einsum_term, f->n_in);
    if (!f->in)
        return dv_nomem(w->diag);
    f->n_dots = 0;
    for (int32_t i = 0; i < f->n_in; i++) {
        DV_TRY(check_rank(w, i));
        int n = w->in[i].n_dims - f->written[i].n_letters;
        if (n > f->n_dots)
            f->n_dots = n;
    }
    for (int32_t i = 0; i < f->n_in; i++)
        name_dims(w, &f->written[i], w->in[i].n_dims - f->written[i].n_letters,
                  &f->in[i]);
    return DV_OK;
}

static dv_status conflict(const work *w, int32_t i, int d, int32_t i0, int d0)
{
    const dv_einsum_term *t = &w->f->in[i];
    dv_id_name name;
    const char *what = w->f->is_tree || t->id[d] < DV_ID_DOTS ? "index" : "dim";
    dv_status st = dv_fail(
        w->diag, DV_E_SHAPE, at(w, t->at[d]),
        "%s %s is %" PRId64 " long here (dim %d of operand %d) but %" PRId64
        " before (dim %d of operand %d)",
        what, dv_id_text(w->f, t->id[d], name), w->in[i].shape[d], d, (int)i,
        w->in[i0].shape[d0], d0, (int)i0);
    dv_note(w->diag, at(w, w->f->in[i0].at[d0]), "before");
    return st;
}

// Checks that dims of one operand with the same index have equal extents.
static dv_status check_diagonals(const work *w, int32_t i)
{
    const dv_einsum_term *t = &w->f->in[i];
    for (int d = 0; d < t->n_dims; d++)
        for (int e = 0; e < d; e++)
            if (t->id[d] == t->id[e] && w->in[i].shape[d] != w->in[i].shape[e])
                return conflict(w, i, d, i, e);
    return DV_OK;
}

static dv_status take_extents(work *w, int32_t i)
{
    const dv_einsum_term *t = &w->f->in[i];
    for (int d = 0; d < t->n_dims; d++) {
        int id = t->id[d];
        int64_t here = w->in[i].shape[d], *known = &w->f->extent[id];
        if (here < 0)
            return dv_fail(w->diag, DV_E_SHAPE, at(w, t->at[d]),
                           "dim %d of operand %d is %" PRId64 " long", d,
                           (int)i, here);
        int widens = !w->f->is_tree && *known == 1;
        if (*known >= 0 && !widens) {
            if (*known != here && (w->f->is_tree || here != 1))
                return conflict(w, i, d, w->operand[id], w->dim[id]);
            continue;
        }
        *known = here;
        w->operand[id] = i;
        w->dim[id] = d;
    }
    return DV_OK;
}

// Removes the index of each dim of extent 1 whose index has a longer extent.
// Such a dim broadcasts and is read at 0.
static void broadcast(const work *w, int32_t i)
{
    dv_einsum_term *t = &w->f->in[i];
    for (int d = 0; d < t->n_dims; d++)
        if (w->in[i].shape[d] == 1 && w->f->extent[t->id[d]] != 1)
            t->id[d] = DV_NO_ID;
}

static dv_status extents(work *w)
{
    dv_formula *f = w->f;
    for (int id = 0; id < DV_MAX_IDS; id++)
        f->extent[id] = -1;
    for (int32_t i = 0; i < f->n_in; i++)
        DV_TRY(check_diagonals(w, i));
    for (int32_t i = 0; i < f->n_in; i++)
        DV_TRY(take_extents(w, i));
    for (int32_t i = 0; i < f->n_in; i++)
        broadcast(w, i);
    return DV_OK;
}

static dv_status too_long(const work *w, uint32_t off, int n)
{
    return dv_fail(w->diag, DV_E_LIMIT, at(w, off),
                   "the output has %d dim%s, at most %d are supported", n,
                   DV_PLURAL(n, "", "s"), (int)DV_MAX_DIMS);
}

// Determines the output of a formula without an arrow: it is the ellipsis
// followed by the indices that occur once, in ascending order.
static dv_status implicit_output(const work *w)
{
    int times[DV_ID_DOTS] = {0}, n = w->f->n_dots;
    uint32_t end = (uint32_t)w->f->src.len;
    const dv_term_text *x = w->f->written;
    for (uint32_t i = 0; i < end; i++) {
        char c = w->f->src.text[i];
        if (c >= 'A' && c <= 'Z')
            times[c - 'A']++;
        else if (c >= 'a' && c <= 'z')
            times[c - 'a' + 26]++;
    }
    for (int id = 0; id < DV_ID_DOTS; id++)
        n += times[id] == 1;
    if (n > DV_MAX_DIMS)
        return too_long(w, x[0].begin, n);
    w->f->out = (dv_einsum_term){.begin = end};
    for (int d = 0; d < w->f->n_dots; d++)
        name_dim(&w->f->out, DV_ID_DOTS + d, end);
    for (int id = 0; id < DV_ID_DOTS; id++)
        if (times[id] == 1)
            name_dim(&w->f->out, id, end);
    return DV_OK;
}

// Checks that each index of the output occurs once and in some operand.
static dv_status check_output(const work *w)
{
    const dv_einsum_term *t = &w->f->out;
    dv_id_name name;
    dv_ids seen = {{0, 0}};
    for (int d = 0; d < t->n_dims; d++) {
        int id = t->id[d];
        if (w->f->extent[id] < 0)
            return dv_fail(w->diag, DV_E_NAME, at(w, t->at[d]),
                           "index %s of the output is in no operand",
                           dv_id_text(w->f, id, name));
        if (dv_ids_has(seen, id))
            return dv_fail(w->diag, DV_E_NAME, at(w, t->at[d]),
                           "index %s stands in the output twice",
                           dv_id_text(w->f, id, name));
        dv_ids_add(&seen, id);
    }
    return DV_OK;
}

static dv_status written_output(const work *w)
{
    const dv_term_text *x = &w->f->out_text;
    int n_dots = x->dots < 0 ? 0 : w->f->n_dots;
    if (x->dots < 0 && w->f->n_dots)
        return dv_fail(w->diag, DV_E_SHAPE, at(w, x->begin),
                       "the operands have %d dim%s under '...', the output "
                       "has no '...'",
                       (int)w->f->n_dots, DV_PLURAL(w->f->n_dots, "", "s"));
    // An output with more dims than DV_MAX_DIMS may also repeat or invent an
    // index, and that error gives the better message. So the dims that fit are
    // checked first.
    dv_term_text part = *x;
    int letters = 0;
    for (uint32_t i = x->begin; i < x->end; i++) {
        char c = w->f->src.text[i];
        letters += (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (letters + n_dots > DV_MAX_DIMS) {
            part.end = i;
            break;
        }
    }
    name_dims(w, &part, n_dots, &w->f->out);
    DV_TRY(check_output(w));
    if (part.end != x->end)
        return too_long(w, x->begin, x->n_letters + n_dots);
    return DV_OK;
}

static dv_status count_operands(const work *w, size_t n_in)
{
    const dv_formula *f = w->f;
    if ((size_t)f->n_in == n_in)
        return DV_OK;
    uint32_t off = (uint32_t)f->src.len;
    if ((size_t)f->n_in > n_in)
        off = f->is_tree ? f->in[n_in].begin : f->written[n_in].begin;
    return dv_fail(w->diag, DV_E_SHAPE, at(w, off),
                   "the %s has %d operand%s, %zu %s given",
                   f->is_tree ? "tree" : "expression", (int)f->n_in,
                   DV_PLURAL(f->n_in, "", "s"), n_in,
                   DV_PLURAL(n_in, "was", "were"));
}

static dv_status check_leaves(const work *w)
{
    for (int32_t i = 0; i < w->f->n_in; i++)
        if (w->f->in[i].n_dims != w->in[i].n_dims)
            return dv_fail(
                w->diag, DV_E_SHAPE, at(w, w->f->in[i].begin),
                "operand %d has %d dim%s, the expression gives it %d %s",
                (int)i, w->in[i].n_dims, DV_PLURAL(w->in[i].n_dims, "", "s"),
                (int)w->f->in[i].n_dims,
                DV_PLURAL(w->f->in[i].n_dims, "index", "indices"));
    return DV_OK;
}

dv_status dv_formula_resolve(dv_formula *f, const dv_array *in, size_t n_in,
                             dv_arena *arena, dv_diag *diag)
{
    work w = {.f = f, .in = in, .diag = diag};
    DV_TRY(count_operands(&w, n_in));
    DV_TRY(f->is_tree ? check_leaves(&w) : name_operands(&w, arena));
    DV_TRY(extents(&w));
    if (f->is_tree)
        return DV_OK;
    return f->has_out ? written_output(&w) : implicit_output(&w);
}
