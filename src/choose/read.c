// Reads problems in the contest's JSON. The files have up to a hundred million
// bytes, nearly all of them numbers in lists of lists, which are read into flat
// arrays.
#include "choose/read.h"
#include "base/mem.h"
#include <inttypes.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

// A list of lists of integers.
typedef struct lists {
    int64_t *numbers;
    size_t n_numbers, cap_numbers;
    size_t *ends;  // of each list: where it ends in `numbers`
    uint32_t *at;  // of each list: its position in the text
    size_t n, cap; // number of lists
    int seen;
} lists;

typedef struct reader {
    dv_source src;
    const char *p; // next character; the text ends with a 0 byte
    lists intervals, costs, usages, ends, tables;
    int64_t limit;
    int seen; // the problem was read
    dv_diag *diag;
} reader;

static dv_loc here(const reader *r)
{
    return (dv_loc){&r->src, (uint32_t)(r->p - r->src.text)};
}

static dv_status wrong(const reader *r, const char *what)
{
    return dv_fail(r->diag, DV_E_SYNTAX, here(r), "expected %s", what);
}

static void blanks(reader *r)
{
    while (*r->p == ' ' || *r->p == '\n' || *r->p == '\t' || *r->p == '\r')
        r->p++;
}

static dv_status expect(reader *r, char c)
{
    char what[] = "' '";
    blanks(r);
    what[1] = c;
    if (*r->p != c)
        return wrong(r, what);
    r->p++;
    return DV_OK;
}

// Reads the comma between items, or the closing bracket. Sets *more to whether
// another item follows.
static dv_status next_item(reader *r, char close, int *more)
{
    blanks(r);
    *more = *r->p == ',';
    if (*more) {
        r->p++;
        return DV_OK;
    }
    return expect(r, close);
}

// Reads the opening bracket of a list. Sets *more to whether the list has an
// item.
static dv_status open_list(reader *r, char open, char close, int *more)
{
    DV_TRY(expect(r, open));
    blanks(r);
    *more = *r->p != close;
    r->p += !*more;
    return DV_OK;
}

static dv_status read_integer(reader *r, int64_t *out)
{
    blanks(r);
    dv_loc at = here(r);
    int negative = *r->p == '-';
    r->p += negative;
    const char *from = r->p;
    uint64_t x = 0;
    while (*r->p >= '0' && *r->p <= '9')
        x = 10 * x + (uint64_t)(*r->p++ - '0');
    if (r->p == from || *r->p == '.' || *r->p == 'e' || *r->p == 'E')
        return wrong(r, "an integer");
    // A number of 19 digits fits 64 unsigned bits, but may still be too large
    // for a signed number.
    if (r->p - from > 19 || x > INT64_MAX)
        return dv_fail(r->diag, DV_E_OVERFLOW, at,
                       "the number does not fit 64 bits");
    *out = negative ? -(int64_t)x : (int64_t)x;
    return DV_OK;
}

// Reads a string and compares it with known keys. Sets *key to its number in
// `keys`, or to the number of keys.
static dv_status read_key(reader *r, const char *const *keys, int n, int *key)
{
    DV_TRY(expect(r, '"'));
    const char *from = r->p;
    while (*r->p != '"' && *r->p) {
        r->p += *r->p == '\\' && r->p[1];
        r->p++;
    }
    size_t len = (size_t)(r->p - from);
    for (*key = 0; *key < n; ++*key)
        if (strlen(keys[*key]) == len && !memcmp(keys[*key], from, len))
            break;
    return expect(r, '"');
}

// Skips a value of any kind.
static dv_status skip_value(reader *r, int depth)
{
    int more, key;
    blanks(r);
    char open = *r->p, close = open == '{' ? '}' : ']';
    if (depth > MAX_DEPTH)
        return dv_fail(r->diag, DV_E_LIMIT, here(r), "deeper than %d brackets",
                       MAX_DEPTH);
    if (open == '"')
        return read_key(r, NULL, 0, &key);
    if (open != '{' && open != '[') {
        size_t n = strspn(r->p, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");
        r->p += n;
        return n ? DV_OK : wrong(r, "a value");
    }
    DV_TRY(open_list(r, open, close, &more));
    while (more) {
        if (open == '{') {
            DV_TRY(read_key(r, NULL, 0, &key));
            DV_TRY(expect(r, ':'));
        }
        DV_TRY(skip_value(r, depth + 1));
        DV_TRY(next_item(r, close, &more));
    }
    return DV_OK;
}

// -- Lists of lists -----------------------------------------------------------

static dv_status grow_numbers(reader *r, lists *l)
{
    size_t cap = l->cap_numbers ? 2 * l->cap_numbers : 256;
    int64_t *to = dv_realloc(l->numbers, cap * sizeof *to);
    if (!to)
        return dv_nomem(r->diag);
    l->numbers = to;
    l->cap_numbers = cap;
    return DV_OK;
}

static dv_status add_list(reader *r, lists *l)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        size_t *ends = dv_realloc(l->ends, cap * sizeof *ends);
        if (!ends)
            return dv_nomem(r->diag);
        l->ends = ends;
        uint32_t *at = dv_realloc(l->at, cap * sizeof *at);
        if (!at)
            return dv_nomem(r->diag);
        l->at = at;
        l->cap = cap;
    }
    blanks(r);
    l->at[l->n++] = here(r).off;
    return DV_OK;
}

static dv_status read_lists(reader *r, lists *l)
{
    int more, more_numbers;
    if (l->seen++)
        return dv_fail(r->diag, DV_E_NAME, here(r), "the key is given twice");
    DV_TRY(open_list(r, '[', ']', &more));
    while (more) {
        DV_TRY(add_list(r, l));
        DV_TRY(open_list(r, '[', ']', &more_numbers));
        while (more_numbers) {
            if (l->n_numbers == l->cap_numbers)
                DV_TRY(grow_numbers(r, l));
            DV_TRY(read_integer(r, &l->numbers[l->n_numbers]));
            l->n_numbers++;
            DV_TRY(next_item(r, ']', &more_numbers));
        }
        l->ends[l->n - 1] = l->n_numbers;
        DV_TRY(next_item(r, ']', &more));
    }
    return DV_OK;
}

static size_t begin(const lists *l, size_t i)
{
    return i ? l->ends[i - 1] : 0;
}

static size_t length(const lists *l, size_t i)
{
    return l->ends[i] - begin(l, i);
}

static void free_lists(lists *l)
{
    dv_release(l->numbers);
    dv_release(l->ends);
    dv_release(l->at);
}

// -- The problem --------------------------------------------------------------

static dv_status read_section(reader *r, const char *const *keys,
                              lists *const *to, int n)
{
    int more, key;
    DV_TRY(open_list(r, '{', '}', &more));
    while (more) {
        DV_TRY(read_key(r, keys, n, &key));
        DV_TRY(expect(r, ':'));
        DV_TRY(key < n ? read_lists(r, to[key]) : skip_value(r, 0));
        DV_TRY(next_item(r, '}', &more));
    }
    return DV_OK;
}

static dv_status read_limit(reader *r)
{
    blanks(r);
    if (*r->p == 'n')
        return skip_value(r, 0);
    dv_loc at = here(r);
    DV_TRY(read_integer(r, &r->limit));
    if (r->limit < 0)
        return dv_fail(r->diag, DV_E_FORMAT, at, "the limit is negative");
    return DV_OK;
}

static dv_status read_problem(reader *r)
{
    static const char *const keys[] = {"nodes", "edges", "usage_limit"};
    static const char *const of_nodes[] = {"intervals", "costs", "usages"};
    static const char *const of_edges[] = {"nodes", "costs"};
    lists *const nodes[] = {&r->intervals, &r->costs, &r->usages};
    lists *const edges[] = {&r->ends, &r->tables};
    int more, key;
    DV_TRY(open_list(r, '{', '}', &more));
    while (more) {
        DV_TRY(read_key(r, keys, 3, &key));
        DV_TRY(expect(r, ':'));
        DV_TRY(key == 0   ? read_section(r, of_nodes, nodes, 3)
               : key == 1 ? read_section(r, of_edges, edges, 2)
               : key == 2 ? read_limit(r)
                          : skip_value(r, 0));
        DV_TRY(next_item(r, '}', &more));
    }
    r->seen = 1;
    return DV_OK;
}

static dv_status read_file(reader *r)
{
    static const char *const keys[] = {"problem"};
    int more, key;
    DV_TRY(open_list(r, '{', '}', &more));
    while (more) {
        DV_TRY(read_key(r, keys, 1, &key));
        DV_TRY(expect(r, ':'));
        if (key == 0 && r->seen)
            return dv_fail(r->diag, DV_E_NAME, here(r),
                           "a second problem in one file");
        DV_TRY(key == 0 ? read_problem(r) : skip_value(r, 0));
        DV_TRY(next_item(r, '}', &more));
    }
    blanks(r);
    if (r->p != r->src.text + r->src.len)
        return wrong(r, "the end of the file");
    return DV_OK;
}

// -- Checks -------------------------------------------------------------------

static dv_status bad(const reader *r, const lists *l, size_t i,
                     const char *what)
{
    dv_loc at = {&r->src, i < l->n ? l->at[i] : DV_FILE};
    return dv_fail(r->diag, DV_E_FORMAT, at, "%s", what);
}

static dv_status check_numbers(const reader *r, const lists *l)
{
    size_t list = 0;
    for (size_t i = 0; i < l->n_numbers; i++) {
        while (i >= l->ends[list])
            list++;
        if (l->numbers[i] < 0)
            return bad(r, l, list, "costs and usages are 0 or more");
    }
    return DV_OK;
}

static dv_status check_nodes(const reader *r)
{
    size_t n = r->costs.n;
    if (r->intervals.n != n || r->usages.n != n)
        return dv_fail(r->diag, DV_E_FORMAT, (dv_loc){&r->src, DV_FILE},
                       "%zu lists of costs, %zu of usages and %zu intervals: "
                       "each node has one of each",
                       n, r->usages.n, r->intervals.n);
    for (size_t v = 0; v < n; v++) {
        const int64_t *t = r->intervals.numbers + begin(&r->intervals, v);
        if (length(&r->intervals, v) != 2 || t[0] > t[1])
            return bad(r, &r->intervals, v,
                       "an interval is a start and an end that is not before "
                       "it");
        if (length(&r->costs, v) == 0 || length(&r->costs, v) > INT32_MAX)
            return bad(r, &r->costs, v, "a node has at least one strategy");
        if (length(&r->usages, v) != length(&r->costs, v))
            return bad(r, &r->usages, v,
                       "a node has one usage for each of its costs");
    }
    DV_TRY(check_numbers(r, &r->costs));
    return check_numbers(r, &r->usages);
}

static dv_status check_edges(const reader *r)
{
    if (r->ends.n != r->tables.n)
        return dv_fail(r->diag, DV_E_FORMAT, (dv_loc){&r->src, DV_FILE},
                       "%zu edges have nodes and %zu have costs", r->ends.n,
                       r->tables.n);
    for (size_t e = 0; e < r->ends.n; e++) {
        const int64_t *v = r->ends.numbers + begin(&r->ends, e);
        size_t size = 1;
        if (length(&r->ends, e) != 2)
            return bad(r, &r->ends, e, "an edge has two nodes here");
        for (int k = 0; k < 2; k++) {
            if (v[k] < 0 || (uint64_t)v[k] >= r->costs.n)
                return bad(r, &r->ends, e, "there is no such node");
            size *= length(&r->costs, (size_t)v[k]);
        }
        if (length(&r->tables, e) != size)
            return bad(r, &r->tables, e,
                       "the table has not one cost for each pair of "
                       "strategies");
    }
    return check_numbers(r, &r->tables);
}

static dv_status build(reader *r, dv_choose_file *out)
{
    size_t n = r->costs.n, m = r->ends.n;
    dv_choose_node *nodes = dv_alloc(n * sizeof *nodes);
    dv_choose_edge *edges = dv_alloc(m * sizeof *edges);
    if (!nodes || !edges) {
        dv_release(nodes);
        dv_release(edges);
        return dv_nomem(r->diag);
    }
    for (size_t v = 0; v < n; v++)
        nodes[v] = (dv_choose_node){
            r->costs.numbers + begin(&r->costs, v),
            r->usages.numbers + begin(&r->usages, v),
            (int32_t)length(&r->costs, v),
            r->intervals.numbers[2 * v],
            r->intervals.numbers[2 * v + 1],
        };
    for (size_t e = 0; e < m; e++)
        edges[e] = (dv_choose_edge){
            {(int32_t)r->ends.numbers[2 * e],
             (int32_t)r->ends.numbers[2 * e + 1]},
            r->tables.numbers + begin(&r->tables, e),
        };
    *out = (dv_choose_file){
        {nodes, n, edges, m, r->limit},
        nodes,
        edges,
        {r->costs.numbers, r->usages.numbers, r->tables.numbers}};
    // The result owns these arrays now.
    r->costs.numbers = r->usages.numbers = r->tables.numbers = NULL;
    return DV_OK;
}

static dv_status read_and_build(reader *r, dv_choose_file *out)
{
    DV_TRY(read_file(r));
    if (!r->seen)
        return dv_fail(r->diag, DV_E_FORMAT, (dv_loc){&r->src, DV_FILE},
                       "there is no \"problem\"");
    DV_TRY(check_nodes(r));
    DV_TRY(check_edges(r));
    return build(r, out);
}

dv_status dv_choose_read(dv_choose_file *out, const char *text, size_t len,
                         const char *name, dv_diag *diag)
{
    reader r = {.src = {name, text, len},
                .p = text,
                .limit = DV_CHOOSE_NO_LIMIT,
                .diag = diag};
    if ((int64_t)len > DV_CHOOSE_MAX_BYTES)
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE, "%zu bytes are too many",
                       len);
    dv_status s = read_and_build(&r, out);
    free_lists(&r.intervals);
    free_lists(&r.costs);
    free_lists(&r.usages);
    free_lists(&r.ends);
    free_lists(&r.tables);
    return s;
}

void dv_choose_file_free(dv_choose_file *f)
{
    dv_release(f->nodes);
    dv_release(f->edges);
    for (int i = 0; i < 3; i++)
        dv_release(f->numbers[i]);
}
