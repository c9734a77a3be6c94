// Parses trees, which describe contractions in a given order.
//
//   node := [item] -> [ids]            one item, permuted or summed over the
//                                      ids that are missing after the arrow
//         | [item] , [item] -> [ids]   a product of two items
//   item := ids | node                 ids alone denote an operand
//   ids  := nothing | number { , number }
//
// Every bracket opens an item or a list; an item that begins with a bracket is
// a node. Blanks are allowed except inside numbers and arrows. Nodes become
// steps in postorder: children first, left before right.
#include "einsum/einsum.h"

enum { MAX_DEPTH = 200 };

typedef struct reader {
    dv_formula *f;
    dv_arena *arena;
    dv_diag *diag;
    uint32_t at;
    int depth;
    int32_t cap_in, cap_given;
} reader;

// A factor of a step: an operand or the result of another step. Steps have the
// provisional numbers -1, -2, ... because their final numbers follow those of
// all operands, whose count is not known yet.
typedef struct item {
    int32_t number;
    dv_einsum_term term;
} item;

static char look(reader *r)
{
    const dv_source *src = &r->f->src;
    while (r->at < src->len &&
           (src->text[r->at] == ' ' || src->text[r->at] == '\t' ||
            src->text[r->at] == '\n' || src->text[r->at] == '\r'))
        r->at++;
    return r->at < src->len ? src->text[r->at] : 0;
}

static dv_status wrong(const reader *r, const char *wanted)
{
    const dv_source *src = &r->f->src;
    dv_loc at = {src, r->at};
    if (r->at >= src->len)
        return dv_fail(r->diag, DV_E_SYNTAX, at,
                       "%s is missing at the end of the tree", wanted);
    char c = src->text[r->at];
    if (c > ' ' && c < 127)
        return dv_fail(r->diag, DV_E_SYNTAX, at, "%s is missing before '%c'",
                       wanted, c);
    return dv_fail(r->diag, DV_E_SYNTAX, at, "%s is missing before byte 0x%02x",
                   wanted, (unsigned)(unsigned char)c);
}

static dv_status expect(reader *r, char c, const char *wanted)
{
    if (look(r) != c)
        return wrong(r, wanted);
    r->at++;
    return DV_OK;
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static dv_status number(reader *r, dv_einsum_term *t)
{
    uint32_t begin = r->at;
    int id = 0;
    if (!is_digit(look(r)))
        return wrong(r, "a number");
    for (begin = r->at; r->at < r->f->src.len; r->at++) {
        char c = r->f->src.text[r->at];
        if (!is_digit(c))
            break;
        id = id < DV_MAX_IDS ? id * 10 + (c - '0') : id;
    }
    dv_loc at = {&r->f->src, begin};
    if (id >= DV_MAX_IDS)
        return dv_fail(r->diag, DV_E_LIMIT, at, "indices are 0 to %d",
                       (int)DV_MAX_IDS - 1);
    if (t->n_dims == DV_MAX_DIMS)
        return dv_fail(r->diag, DV_E_LIMIT, at,
                       "more than %d indices in one list", (int)DV_MAX_DIMS);
    t->id[t->n_dims] = (uint8_t)id;
    t->at[t->n_dims++] = begin;
    return DV_OK;
}

// Reads a list of ids (numbers of indices) up to the closing bracket, which is
// not consumed.
static dv_status ids(reader *r, dv_einsum_term *t)
{
    *t = (dv_einsum_term){.begin = r->at};
    if (look(r) == ']')
        return DV_OK;
    for (;;) {
        DV_TRY(number(r, t));
        char c = look(r);
        if (c == ']')
            return DV_OK;
        if (c != ',')
            return wrong(r, is_digit(c) ? "a ','" : "a ']'");
        r->at++;
    }
}

static dv_status operand(reader *r, item *out)
{
    dv_formula *f = r->f;
    if (f->n_in == DV_MAX_OPERANDS)
        return dv_fail(r->diag, DV_E_LIMIT, (dv_loc){&f->src, r->at},
                       "there are more than %d operands", (int)DV_MAX_OPERANDS);
    DV_TRY(ids(r, &out->term));
    dv_einsum_term *t =
        DV_PUSH(r->arena, dv_einsum_term, f->in, f->n_in, r->cap_in);
    if (!t)
        return dv_nomem(r->diag);
    *t = out->term;
    out->number = f->n_in - 1;
    return DV_OK;
}

// Checks the list of indices after an arrow: each must occur in a factor of
// the step (`below`), and only once in the list.
static dv_status check_ids(const reader *r, const dv_einsum_term *t,
                           dv_ids below)
{
    dv_ids seen = {{0, 0}};
    for (int d = 0; d < t->n_dims; d++) {
        dv_loc at = {&r->f->src, t->at[d]};
        if (!dv_ids_has(below, t->id[d]))
            return dv_fail(r->diag, DV_E_NAME, at,
                           "index %d is in nothing that goes into this node",
                           t->id[d]);
        if (dv_ids_has(seen, t->id[d]))
            return dv_fail(r->diag, DV_E_NAME, at,
                           "index %d stands in this list twice", t->id[d]);
        dv_ids_add(&seen, t->id[d]);
    }
    return DV_OK;
}

static dv_status add_step(reader *r, const item *child, int n,
                          dv_einsum_term out, item *made)
{
    dv_formula *f = r->f;
    dv_ids below = dv_term_ids(&child[0].term);
    if (n == 2)
        below = dv_ids_or(below, dv_term_ids(&child[1].term));
    DV_TRY(check_ids(r, &out, below));
    dv_einsum_step *s =
        DV_PUSH(r->arena, dv_einsum_step, f->given, f->n_given, r->cap_given);
    if (!s)
        return dv_nomem(r->diag);
    *s = (dv_einsum_step){.a = child[0].number,
                          .b = n == 2 ? child[1].number : INT32_MAX,
                          .out = out,
                          .sums = dv_ids_minus(below, dv_term_ids(&out))};
    *made = (item){-f->n_given, out};
    return DV_OK;
}

static dv_status node(reader *r, item *out);

// Reads an item in brackets: [ids], a list of index numbers, for an operand, or
// [node] for a step.
static dv_status child(reader *r, item *out)
{
    DV_TRY(expect(r, '[', "a '['"));
    if (look(r) == '[')
        DV_TRY(node(r, out));
    else
        DV_TRY(operand(r, out));
    return expect(r, ']', "a ']'");
}

static dv_status node(reader *r, item *out)
{
    item c[2];
    int n = 1;
    dv_einsum_term list;
    if (r->depth == MAX_DEPTH)
        return dv_fail(r->diag, DV_E_LIMIT, (dv_loc){&r->f->src, r->at},
                       "the tree is more than %d levels deep", (int)MAX_DEPTH);
    r->depth++;
    DV_TRY(child(r, &c[0]));
    if (look(r) == '[')
        return wrong(r, "a ','");
    if (look(r) == ',') {
        r->at++;
        DV_TRY(child(r, &c[1]));
        n = 2;
    }
    if (look(r) == ',')
        return dv_fail(r->diag, DV_E_SYNTAX, (dv_loc){&r->f->src, r->at},
                       "a third factor: a node has one or two");
    if (look(r) != '-' || r->f->src.len - r->at < 2 ||
        r->f->src.text[r->at + 1] != '>')
        return wrong(r, "a '->'");
    r->at += 2;
    DV_TRY(expect(r, '[', "the list of indices of a node, a '[',"));
    DV_TRY(ids(r, &list));
    DV_TRY(expect(r, ']', "a ']'"));
    r->depth--;
    return add_step(r, c, n, list, out);
}

// Converts the number of a factor to the numbering of paths: operands keep
// theirs, provisional (negative) step numbers follow the operands. INT32_MAX,
// meaning no factor, becomes -1.
static int32_t settle(const dv_formula *f, int32_t number)
{
    if (number == INT32_MAX)
        return -1;
    return number >= 0 ? number : f->n_in - number - 1;
}

dv_status dv_tree_parse(dv_formula *f, dv_arena *arena, dv_diag *diag)
{
    reader r = {.f = f, .arena = arena, .diag = diag};
    item root;
    DV_TRY(node(&r, &root));
    if (look(&r))
        return wrong(&r, "the end of the tree");
    if (r.at < f->src.len)
        // The scan stopped before the end, because the text contains a NUL
        // byte.
        return wrong(&r, "the end of the tree");
    for (int32_t i = 0; i < f->n_given; i++) {
        f->given[i].a = settle(f, f->given[i].a);
        f->given[i].b = settle(f, f->given[i].b);
    }
    f->has_out = 1;
    f->out = root.term;
    return DV_OK;
}
