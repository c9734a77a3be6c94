// Prints paths (the products that compute an einsum, in order) as text and as
// JSON.
#include "base/plural.h"
#include "einsum/einsum.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

// Prints 1234567 as 1.235M, the format of `divvy check` for flops.
static void put_count(dv_text *out, double n, const char *unit)
{
    static const char *const step[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t k = 0;
    while (n >= 9999.5 && k + 1 < sizeof step / sizeof *step) {
        n /= 1000;
        k++;
    }
    dv_put(out, "%.4g%s %s", n, step[k], unit);
}

// Prints a term (the indices of one tensor) with the formula's letters, or, if
// the text is a tree, whose indices are numbers, as [0,1]. Names are separated
// by blanks if there are dims under an ellipsis, whose names are longer than a
// letter.
static void put_term(dv_text *out, const dv_formula *f, const dv_einsum_term *t)
{
    dv_id_name name;
    if (f->is_tree)
        dv_put(out, "[");
    for (int d = 0; d < t->n_dims; d++) {
        int id = t->id[d];
        const char *before = f->is_tree ? "," : f->n_dots ? " " : "";
        dv_put(out, "%s", d ? before : "");
        if (f->is_tree)
            dv_put(out, "%d", id);
        else
            dv_put(out, "%s", id == DV_NO_ID ? "1" : dv_id_text(f, id, name));
    }
    if (f->is_tree)
        dv_put(out, "]");
}

static void put_step(dv_text *out, const dv_formula *f, const dv_path *p,
                     const dv_einsum_step *s)
{
    put_term(out, f, dv_path_term(f, p, s->a));
    if (s->b >= 0) {
        dv_put(out, ",");
        put_term(out, f, dv_path_term(f, p, s->b));
    }
    dv_put(out, "->");
    put_term(out, f, &s->out);
}

static void tensor_name(const dv_formula *f, const dv_path *p, int32_t n,
                        char *buf, size_t room)
{
    if (n < f->n_in)
        snprintf(buf, room, "x%d", (int)n);
    else if (n - f->n_in == p->n_steps - 1)
        snprintf(buf, room, "y");
    else
        snprintf(buf, room, "t%d", (int)(n - f->n_in));
}

void dv_path_print(dv_text *out, const dv_formula *f, const dv_path *p)
{
    for (int32_t i = 0; i < p->n_steps; i++) {
        const dv_einsum_step *s = &p->steps[i];
        char name[3][16], factors[40];
        dv_text what = {0}, flops = {0}, elems = {0};
        tensor_name(f, p, f->n_in + i, name[0], sizeof name[0]);
        tensor_name(f, p, s->a, name[1], sizeof name[1]);
        if (s->b >= 0)
            tensor_name(f, p, s->b, name[2], sizeof name[2]);
        snprintf(factors, sizeof factors, "%s%s%s", name[1],
                 s->b < 0 ? "" : " * ", s->b < 0 ? "" : name[2]);
        put_step(&what, f, p, s);
        put_count(&flops, s->flops, "flop");
        put_count(&elems, s->elems, DV_PLURAL(s->elems, "element", "elements"));
        out->failed |= what.failed | flops.failed | elems.failed;
        if (!out->failed)
            dv_put(out, "%-4s = %-12s %-24s %14s, %s\n", name[0], factors,
                   what.at, flops.at, elems.at);
        dv_text_free(&what);
        dv_text_free(&flops);
        dv_text_free(&elems);
    }
    put_count(out, p->flops, "flop");
    dv_put(out, " in %d step%s, %s order", (int)p->n_steps,
           DV_PLURAL(p->n_steps, "", "s"), p->how);
    if (p->naive_flops > p->flops && p->flops > 0)
        dv_put(out, "; %.4g times fewer than all at once",
               p->naive_flops / p->flops);
    if (p->largest_elems > 0) {
        dv_put(out, "; largest intermediate: ");
        put_count(out, p->largest_elems,
                  DV_PLURAL(p->largest_elems, "element", "elements"));
    }
    dv_put(out, "\n");
}

static void step_json(dv_json *j, const dv_formula *f, const dv_path *p,
                      int32_t i)
{
    const dv_einsum_step *s = &p->steps[i];
    char name[16];
    dv_text what = {0};
    put_step(&what, f, p, s);
    dv_json_open_flat(j, NULL, '{');
    tensor_name(f, p, f->n_in + i, name, sizeof name);
    dv_json_string(j, "name", name);
    dv_json_open_flat(j, "factors", '[');
    tensor_name(f, p, s->a, name, sizeof name);
    dv_json_string(j, NULL, name);
    if (s->b >= 0) {
        tensor_name(f, p, s->b, name, sizeof name);
        dv_json_string(j, NULL, name);
    }
    dv_json_close(j);
    dv_json_text(j, "expression", &what);
    dv_json_double(j, "flops", s->flops);
    dv_json_double(j, "elements", s->elems);
    dv_json_close(j);
}

void dv_path_json(dv_json *j, const dv_formula *f, const dv_path *p)
{
    dv_json_string(j, "expression", f->src.text);
    dv_json_string(j, "order", p->how);
    dv_json_double(j, "flops", p->flops);
    // If the text is a tree (nested brackets that give the order of products),
    // the flops of one loop nest over all indices were not computed. NAN is
    // printed as null.
    dv_json_double(j, "naive_flops", f->is_tree ? NAN : p->naive_flops);
    dv_json_double(j, "largest_elements", p->largest_elems);
    dv_json_open(j, "steps", '[');
    for (int32_t i = 0; i < p->n_steps; i++)
        step_json(j, f, p, i);
    dv_json_close(j);
}
