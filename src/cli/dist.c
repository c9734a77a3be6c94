// divvy dist: answers questions about distributions, one operation per call.
//
// An operation is a row of dist.def: steps that read its parameters and output
// the numbers of its answer, and the format in which these are printed. A
// parameter is KEY=VALUE. Nearly every value is a table of numbers: 1,2;3,4 has
// two lists of two numbers.
#include "base/math.h"
#include "base/plural.h"
#include "base/suggest.h"
#include "cli/cli.h"
#include "dist/dist.h"
#include "dist/value.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 32, MAX_VALUES = 1 << 20 };

typedef struct table {
    int64_t *v;
    // The same numbers as doubles, where non-integers are not truncated.
    double *f;
    int32_t n, n_rows;
    // start[i] is the index of the first number of list i; start[n_rows] is n.
    int32_t *start;
    int whole; // nonzero if all numbers are integers
} table;

typedef struct word {
    char key[32];
    const char *value;
    int used;
    table in; // the parsed value; empty until it is read
} word;

// Markers among the numbers of an answer: the end of a list, the end of a list
// of lists, null, and the words "left" and "right".
static const int64_t END = INT64_MIN, LAST = INT64_MIN + 1,
                     NONE = INT64_MIN + 2, LEFT = INT64_MIN + 3,
                     RIGHT = INT64_MIN + 4;

// An open level of the printed answer: a list, an object or a pair of numbers.
typedef struct level {
    // Kind of the level: [ for a list, { for an object, 2 for a pair.
    char kind;
    // Position in the format: type of the items, or the next field.
    const char *at;
    int n; // number of values printed at this level
} level;

typedef struct call {
    word words[MAX_WORDS];
    int n_words;
    table *t; // the value that was read last
    // The distributions read so far: shapes and how these are cut over ranks.
    dv_dist d[2];
    int n_dists;
    // The slice that is written, one dv_slice per dim, and the n_reads slices
    // that are read, with one dv_slice per dim each.
    dv_slice whole[DV_MAX_DIMS], *dest, *reads;
    int n_reads;
    dv_range *own, *want; // rows that each of n ranks owns and needs
    int64_t n, *m;        // m[r * n + s] elements go from rank r to rank s
    // Element counts: all, moved, moved after the best renumbering of the
    // ranks, and the most that any rank sends and receives.
    int64_t moved[5];
    dv_exchange *e;
    dv_box_list *boxes;
    level levels[8];
    int depth;
    const char *form;
    int bare; // nonzero if % lists of the format are their only item
    dv_json j;
    dv_arena arena;
    dv_diag *diag;
} call;

#define NEED(ok, kind, ...)                                                    \
    ((ok) ? DV_OK : dv_fail(c->diag, DV_E_##kind, DV_NOWHERE, __VA_ARGS__))
#define MUST(...) DV_TRY(NEED(__VA_ARGS__))
#define I64       "%" PRId64

static word *find(call *c, const char *key)
{
    for (int i = 0; i < c->n_words; i++)
        if (!strcmp(c->words[i].key, key))
            return &c->words[i];
    return NULL;
}

// Returns the parameter with this key if it is present and not `-`, and marks
// it as used; otherwise NULL.
static word *given(call *c, const char *key)
{
    word *w = find(c, key);
    if (w)
        w->used = 1;
    return w && strcmp(w->value, "-") != 0 ? w : NULL;
}

// Returns the parsed value of a parameter, or an empty table if the parameter
// was not given.
static const table *in(call *c, const char *key)
{
    static const table empty;
    const word *w = find(c, key);
    return w ? &w->in : &empty;
}

static int64_t get(call *c, const char *key)
{
    return in(c, key)->n ? in(c, key)->v[0] : 0;
}

// Largest accepted value: sums of two such values fit in int64_t.
static const int64_t most = INT64_C(1) << 61;

static dv_status read_numbers(call *c, const char *key)
{
    word *w = given(c, key);
    MUST(w, USAGE, "%s=… is needed", key);
    size_t len = strlen(w->value);
    table *t = c->t = &w->in;
    *t = (table){.v = DV_NEW(&c->arena, int64_t, len + 1), .whole = 1};
    t->f = DV_NEW(&c->arena, double, len + 1);
    t->start = DV_NEW(&c->arena, int32_t, len + 2);
    MUST(t->v && t->f && t->start, NOMEM, "out of memory");
    // Each iteration reads one of the lists, which ; separates.
    for (const char *s = w->value; len; s++) {
        for (int more = *s && *s != ';'; more; s += more) {
            size_t n = strcspn(s, ",;");
            char *end;
            double x = t->f[t->n] = strtod(s, &end);
            int whole = strspn(s, "+-0123456789") >= n;
            MUST(n > 0 && n <= 62 && end == s + n && x - x == 0, USAGE,
                 "%s: '%.*s' is not a number", key, n < 63 ? (int)n : 63, s);
            MUST(!whole || fabs(x) <= (double)most, LIMIT,
                 "%s: %.*s is beyond 2^61", key, (int)n, s);
            t->v[t->n++] = whole ? strtoll(s, NULL, 10) : 0;
            t->whole &= whole;
            s += n;
            more = *s == ',';
        }
        t->start[++t->n_rows] = t->n;
        if (!*s)
            break;
    }
    return DV_OK;
}

// Reads `rows` lists of `cols` integers in low..high. The value ANY means any
// number of rows or cols; ONE for rows means one list, which may be empty if
// cols is ANY.
enum { ANY = -1, ONE = -2 };
static dv_status read_table(call *c, const char *key, int64_t rows,
                            int64_t cols, int64_t low, int64_t high)
{
    DV_TRY(read_numbers(c, key));
    table *t = c->t;
    MUST(t->whole && (rows != ONE || t->n_rows <= 1), USAGE,
         rows == ONE ? "%s takes one list of whole numbers"
                     : "%s takes lists of whole numbers",
         key);
    MUST(rows < 0 || t->n_rows == rows, USAGE,
         "%s has %d lists, " I64 " are needed", key, t->n_rows, rows);
    t->n_rows = rows == ONE ? 1 : t->n_rows;
    for (int i = 0; i < t->n_rows && cols != ANY; i++)
        MUST(t->start[i + 1] - t->start[i] == cols, USAGE,
             "%s has %d numbers, " I64 " are needed", key,
             t->start[i + 1] - t->start[i], cols);
    for (int i = 0; i < t->n; i++) {
        MUST(t->v[i] >= low, USAGE, "%s: " I64 " is less than " I64, key,
             t->v[i], low);
        MUST(t->v[i] <= high || strcmp(key, "rank") != 0, USAGE,
             "there is no rank " I64 ": the last one is " I64, t->v[i], high);
        MUST(t->v[i] <= high, LIMIT, "%s: " I64 " is more than " I64, key,
             t->v[i], high);
    }
    return DV_OK;
}

// Reads a name and returns its number. `names` is a list such as "a b|c": the
// names for 0, a bar, the names for 1, and so on. An error message puts an
// unknown name between `before` and `after`.
static dv_status read_name(call *c, const char *key, const char *names,
                           const char *before, const char *after)
{
    static int64_t values[] = {0, 1, 2};
    word *w = given(c, key);
    if (!w)
        return DV_OK;
    w->in = (table){.v = values, .n = 1};
    for (size_t n, len = strlen(w->value);; names += n + 1) {
        n = strcspn(names, " |");
        if (n == len && !strncmp(names, w->value, n))
            return DV_OK;
        MUST(names[n], USAGE, "%s%s%s%s", key, before, w->value, after);
        w->in.v += names[n] == '|';
    }
}

static dv_status shape(call *c, const char *key)
{
    int64_t product = 1;
    DV_TRY(read_table(c, key, ONE, ANY, 0, INT64_MAX));
    MUST(c->t->n <= DV_MAX_DIMS, LIMIT,
         "%s has %d dim%s, at most %d are possible", key, c->t->n,
         DV_PLURAL(c->t->n, "", "s"), DV_MAX_DIMS);
    for (int i = 0; i < c->t->n; i++)
        MUST(dv_mul_i64(&product, product, dv_max_i64(c->t->v[i], 1)) &&
                 product <= most,
             LIMIT, "%s has more than 2^61 elements", key);
    c->d[c->n_dists++] = dv_dist_rows(c->t->n, c->t->v, 0);
    return DV_OK;
}

// Reads the sizes of a grid of ranks, and cuts the first dims of the most
// recently read shape over it.
static dv_status grid(call *c, const char *key, int log2_ranks)
{
    dv_dist *d = &c->d[c->n_dists - 1];
    int64_t ranks = 1, max = INT64_C(1) << log2_ranks;
    DV_TRY(read_table(c, key, ONE, ANY, 1, INT64_MAX));
    d->n_axes = c->t->n;
    MUST(d->n_axes <= DV_MAX_AXES && d->n_axes <= d->n_dims, USAGE,
         "%s has %d %s; the shape has %d dim%s, and at most %d axes are "
         "possible",
         key, d->n_axes, DV_PLURAL(d->n_axes, "axis", "axes"), d->n_dims,
         DV_PLURAL(d->n_dims, "", "s"), DV_MAX_AXES);
    for (int i = 0; i < d->n_dims; i++)
        d->axis[i] = i < d->n_axes ? i : -1;
    for (int a = 0; a < d->n_axes; a++) {
        d->grid[a] = c->t->v[a];
        MUST(dv_mul_i64(&ranks, ranks, d->grid[a]) && ranks <= max, LIMIT,
             "%s has more than " I64 " ranks", key, max);
    }
    return DV_OK;
}

// Cuts dim 0 of the most recently read shape over the most recently read number
// of ranks.
static dv_status cut(call *c)
{
    dv_dist *d = &c->d[c->n_dists - 1];
    *d = dv_dist_rows(d->n_dims, d->shape, c->t->v[0]);
    return DV_OK;
}

// Reads where the parts of each dim begin, and where the last one ends, as in
// starts=0,1,7,10;; where an empty list means equal parts.
static dv_status starts(call *c, const char *key, dv_dist *d)
{
    if (!given(c, key))
        return DV_OK;
    DV_TRY(read_table(c, key, d->n_dims, ANY, INT64_MIN, INT64_MAX));
    for (int i = 0; i < d->n_dims; i++) {
        int n = c->t->start[i + 1] - c->t->start[i];
        int64_t parts = d->axis[i] < 0 ? 1 : d->grid[d->axis[i]];
        MUST(n == 0 || n == parts + 1, USAGE,
             "%s: dim %d has " I64 " parts, which take " I64 " numbers, not %d",
             key, i, parts, parts + 1, n);
        d->starts[i] = n ? c->t->v + c->t->start[i] : NULL;
    }
    return dv_dist_check(d, c->diag);
}

// Checks that the rows owned by the ranks are contiguous and complete.
static dv_status check_owned(call *c)
{
    int64_t at = 0, rows = c->d[0].shape[0];
    for (int i = 0; i < c->t->n_rows; i++) {
        int64_t off = c->t->v[2 * i], size = c->t->v[2 * i + 1];
        MUST(off >= 0 && size >= 0 && (size == 0 || off == at), SHAPE,
             "rank %d owns " I64 " rows at " I64 "; row " I64 " is next", i,
             size, off, at);
        at += size;
    }
    return NEED(at == rows, SHAPE, I64 " rows are owned of " I64, at, rows);
}

static int64_t elems(const dv_dist *d, int first_dim)
{
    int64_t n = 1;
    for (int i = first_dim; i < d->n_dims; i++)
        n *= d->shape[i];
    return n;
}

static dv_status check_slice(call *c, dv_slice s)
{
    int64_t reach;
    MUST(s.off >= 0 && s.size >= 0 && s.stride >= 1, USAGE,
         "a slice of offset " I64 ", size " I64 ", stride " I64
         ": the first two are 0 or more, the stride 1 or more",
         s.off, s.size, s.stride);
    return NEED(dv_mul_i64(&reach, s.size, s.stride) && reach <= most, LIMIT,
                "a slice of " I64 " elements, " I64
                " apart, reaches beyond 2^61",
                s.size, s.stride);
}

// Reads n lists with a slice of each dim into *out.
static dv_status slices(call *c, const char *key, int n, int n_dims,
                        dv_slice **out)
{
    DV_TRY(read_table(c, key, n, 3 * n_dims, INT64_MIN, INT64_MAX));
    c->n_reads = c->t->n_rows;
    *out = DV_NEW(&c->arena, dv_slice, c->n_reads * n_dims + 1);
    MUST(*out, NOMEM, "out of memory");
    for (int i = 0; i < c->n_reads * n_dims; i++) {
        const int64_t *v = &c->t->v[3 * i];
        (*out)[i] = (dv_slice){v[0], v[1], v[2]};
        DV_TRY(check_slice(c, (*out)[i]));
    }
    return DV_OK;
}

// Makes the slices `dest` from the parameters offsets, sizes and strides, which
// have one number per dim, and fails if a slice overflows. With `target`, only
// the elements up to the end of the target, which a rank computes, are checked.
static dv_status dim_slices(call *c, int target)
{
    int n = c->t->n;
    MUST(n <= DV_MAX_DIMS, LIMIT, "%d dims; 1 to %d are possible", n,
         DV_MAX_DIMS);
    for (int i = 0; i < n; i++) {
        dv_slice s = {in(c, "offsets")->v[i], in(c, "sizes")->v[i],
                      in(c, "strides")->v[i]};
        c->dest[i] = s;
        if (target)
            s.size = in(c, "toffs")->v[i] + in(c, "tsizes")->v[i];
        DV_TRY(check_slice(c, s));
    }
    return DV_OK;
}

// Replaces the distributed shape by the view of it that the slices `dest`
// select.
static dv_status view(call *c)
{
    dv_dist *d = &c->d[0];
    for (int i = 0; i < d->n_dims; i++) {
        d->slice[i] = c->dest[i];
        d->whole[i] = d->shape[i];
        d->shape[i] = d->slice[i].size;
    }
    return dv_dist_check(d, c->diag);
}

static dv_box box_at(const int64_t *v, int n_dims)
{
    dv_box b = {.n_dims = n_dims};
    for (int i = 0; i < n_dims; i++)
        b.dim[i] = (dv_range){v[2 * i], v[2 * i + 1]};
    return b;
}

// The format of an answer is a list of fields NAME:TYPE. No type means a
// number, 2 a list of two numbers, *TYPE a list on one line, %TYPE the same
// unless the call is `bare` and the list has one item, +TYPE a list with a line
// for each item, {fields} an object on one line, and <fields> an object with a
// line for each field. Fields that get no numbers are omitted.

// Returns the end of a type in the format by which an answer is printed.
static const char *after_type(const char *type)
{
    type += strspn(type, "*%+");
    if (*type == '{' || *type == '<')
        return strpbrk(type, "}>") + 1;
    return type + (*type == '2');
}

static void show(call *c, const char *key, int64_t v, const double *real)
{
    if (real)
        dv_json_double(&c->j, key, *real);
    else if (v == NONE)
        dv_json_null(&c->j, key);
    else if (v == LEFT || v == RIGHT)
        dv_json_string(&c->j, key, v == LEFT ? "left" : "right");
    else
        dv_json_int(&c->j, key, v);
}

// Prints the next value of the answer; an end marker closes the open list
// instead.
static void feed(call *c, int64_t v, const double *real)
{
    level *l = &c->levels[c->depth];
    const char *type = l->at;
    char key[48];
    if (l->kind == '{') {
        size_t n = strcspn(type, ".: }>");
        snprintf(key, sizeof key, "%.*s", (int)n, type);
        type += type[n] == '.' ? n + 2 : n;
        type += *type == ':';
        l->at = after_type(type) + (*after_type(type) == ' ');
    }
    l->n++;
    type += *type == '%' && c->bare;
    if (l->kind == '[' && !real && v == (*type == '*' ? LAST : END)) {
        c->depth--;
        dv_json_close(&c->j);
    } else if (l->kind != '2' && *type && strchr("*%+{<2", *type)) {
        char kind = strchr("*%+", *type) ? '[' : *type == '2' ? '2' : '{';
        (strchr("+<", *type) ? dv_json_open : dv_json_open_flat)(
            &c->j, l->kind == '{' ? key : NULL, kind == '{' ? '{' : '[');
        c->levels[++c->depth] = (level){kind, type + 1, 0};
        feed(c, v, real);
    } else {
        show(c, l->kind == '{' ? key : NULL, v, real);
    }
    for (l = &c->levels[c->depth];
         c->depth > 0 && (l->kind == '{' ? strchr("}>", *l->at) != NULL
                                         : l->kind == '2' && l->n == 2);
         l = &c->levels[--c->depth])
        dv_json_close(&c->j);
}

static dv_status put(call *c, const int64_t *v, int n)
{
    for (int i = 0; i < n; i++)
        feed(c, v[i], NULL);
    return DV_OK;
}
#define PUT(c, ...)                                                            \
    put(c, (int64_t[]){__VA_ARGS__},                                           \
        (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)))

static dv_status put_list(call *c, const int64_t *v, int n)
{
    put(c, v, n);
    return PUT(c, END);
}

static dv_status put_real(call *c, double x, int as_int)
{
    feed(c, as_int ? (int64_t)x : 0, as_int ? NULL : &x);
    return DV_OK;
}

// Outputs the sizes of a box, or (`sizes` 0) its offsets.
static dv_status put_side(call *c, dv_box b, int sizes)
{
    for (int i = 0; i < b.n_dims; i++)
        PUT(c, sizes ? b.dim[i].size : b.dim[i].off);
    return PUT(c, END);
}

static dv_status put_ranges(call *c, dv_box b)
{
    for (int i = 0; i < b.n_dims; i++)
        PUT(c, b.dim[i].off, b.dim[i].size);
    return PUT(c, END);
}

static dv_status put_own(call *c, const dv_dist *d)
{
    put_side(c, dv_dist_own(d, get(c, "rank")), 0);
    return put_side(c, dv_dist_own(d, get(c, "rank")), 1);
}

static dv_status put_all(call *c, int sizes)
{
    for (int64_t r = 0; r < dv_dist_n_ranks(&c->d[0]); r++)
        put_side(c, dv_dist_own(&c->d[0], r), sizes);
    return PUT(c, LAST);
}

static dv_status put_owners(call *c)
{
    const table *t = in(c, "index");
    int64_t n = get(c, "n");
    for (int i = 0; i < t->n; i++) {
        MUST(t->v[i] < n, BOUNDS, "index " I64 " of 0.." I64, t->v[i], n);
        PUT(c, dv_dist_owner(n, get(c, "nprocs"), t->v[i]));
    }
    return PUT(c, END);
}

static dv_status put_bounds(call *c)
{
    const table *bb = in(c, "bb");
    dv_box b = {.n_dims = in(c, "offsets")->n};
    const int64_t *off = bb->n ? bb->v : in(c, "bb.off")->v;
    const int64_t *size = bb->n ? bb->v + b.n_dims : in(c, "bb.size")->v;
    for (int i = 0; i < b.n_dims; i++) {
        dv_range target = {in(c, "toffs")->v[i], in(c, "tsizes")->v[i]};
        dv_range r = dv_dist_bounds(c->dest[i], target);
        dv_range was = off ? (dv_range){off[i], size[i]} : r;
        b.dim[i] = get(c, "inner") ? dv_dist_intersection(was, r)
                                   : dv_dist_hull(was, r);
    }
    put_side(c, b, 0);
    return put_side(c, b, 1);
}

// Outputs, for each part of dim 0, the range of a slice that is in the part;
// the parts are consecutive.
static dv_status put_subview(call *c)
{
    const table *parts = in(c, "parts"), *crop = in(c, "toffs");
    int64_t at = get(c, "loff"), first;
    dv_slice s = c->dest[0];
    if (crop->n) {
        s.off += crop->v[0] * s.stride;
        s.size = get(c, "tsizes");
        DV_TRY(check_slice(c, s));
    }
    first = dv_dist_overlap((dv_range){at, 0}, s).slice_off;
    for (int p = 0; p < parts->n_rows; p++) {
        int64_t size = parts->v[parts->start[p]];
        MUST(parts->start[p] < parts->start[p + 1] && parts->whole && size >= 0,
             USAGE, "parts takes sizes; part %d has none", p);
        dv_overlap o = dv_dist_overlap((dv_range){at, size}, s);
        PUT(c, dv_min_i64(o.global_first - at, size), o.size);
        MUST(dv_add_i64(&at, at, size) && at <= INT64_C(1) << 62, LIMIT,
             "the parts reach beyond 2^62");
    }
    PUT(c, END);
    for (int i = 0; i < in(c, "loff")->n; i++)
        PUT(c, (crop->n ? crop->v[i] : 0) + (i ? 0 : first));
    return PUT(c, END);
}

// Outputs, for each axis of the grid of ranks, where each part of the slice
// begins and where the last one ends.
static dv_status put_partition(call *c)
{
    const dv_dist *d = &c->d[0];
    for (int i = 0; i < d->n_axes; i++) {
        // Part n does not exist; it stands for the end of the last part.
        for (int64_t r = 0, n = d->grid[i]; r <= n; r++)
            PUT(c, dv_dist_target(dv_dist_part(d->shape[i], n, r), c->dest[i])
                       .off);
        PUT(c, END);
    }
    return c->bare ? DV_OK : PUT(c, LAST);
}

static dv_status alloc_ranks(call *c, int64_t n)
{
    c->n = n;
    c->own = DV_NEW(&c->arena, dv_range, n);
    c->want = DV_NEW(&c->arena, dv_range, n);
    return NEED(c->own && c->want, NOMEM, "out of memory");
}

// Converts a part of a target (the elements that a rank computes) for output.
// If `origin` is given, positions in the target become indices relative to it.
// An empty part becomes null.
static dv_box part_from(const call *c, const dv_box *target, const dv_box *part,
                        const dv_box *origin)
{
    dv_box b = *part;
    for (int i = 0; i < b.n_dims; i++) {
        if (origin)
            b.dim[i].off = dv_dist_elements(c->dest[i], target->dim[i],
                                            b.dim[i], origin->dim[i].off)
                               .off;
        if (dv_box_empty(part))
            b.dim[i] = (dv_range){NONE, 0};
    }
    return b;
}

// Outputs one field of a record, which consists of n boxes. `at` is its letter
// in the format: a lower-case letter outputs a box's offsets, a capital its
// sizes, type 2 both.
static void put_column(call *c, const char *at, const dv_box *b, int n)
{
    const char *type = at + 1 + (at[1] == ':');
    int list = *type == '*' || (*type == '%' && !c->bare);
    int both = type[strspn(type, "*%")] == '2', sizes = *at < 'a';
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < b[k].n_dims; i++)
            put(c, (int64_t[]){b[k].dim[i].off, b[k].dim[i].size} + sizes,
                1 + both);
        if (list)
            PUT(c, END);
    }
    if (type[0] == '*' && type[1] == '*')
        PUT(c, LAST);
}

// Outputs those columns of a rank's record that the format names, as NAME.a:
//
//   a        the rank
//   b        what it owns
//   c        its target: the part of the slice `dest` that it computes
//   d D e    index of its first element, position in the own box, stride
//   f g      the target as indices of the tensor, and of the own box
//   h        the core: positions in the target that need nothing of other ranks
//   i j      the core as indices of the tensor, and of the own box
//   k        the rows that it needs
//   l L      how many of these are before and after its own
//   m        which of its own rows it needs
//   n o p    the edges around the core, as h, i and j
static void put_record(call *c, const dv_dist *d, int64_t rank)
{
    const table *had = in(c, "owned");
    dv_box own = dv_dist_own(d, rank), need = own;
    if (had->n)
        own = box_at(had->v + 2 * rank, 1);
    dv_box target = dv_dist_target_box(&own, c->dest), all = target;
    dv_box first = target, stride = target, zero = {.n_dims = d->n_dims};
    for (int i = 0; i < d->n_dims; i++) {
        dv_overlap o = dv_dist_overlap(own.dim[i], c->dest[i]);
        int64_t at = o.global_first, from = own.dim[i].off;
        first.dim[i] =
            o.size ? (dv_range){at, at - from} : (dv_range){NONE, NONE};
        stride.dim[i].off = c->dest[i].stride;
        all.dim[i].off = 0;
    }
    dv_box core = all, edges[3][2 * DV_MAX_DIMS];
    for (int k = 0; k < c->n_reads; k++) {
        const dv_slice *s = &c->reads[k * d->n_dims];
        dv_range rows = dv_dist_bounds(s[0], target.dim[0]);
        core = dv_dist_core_box(&own, s, &target, &core);
        need.dim[0] = k ? dv_dist_hull(need.dim[0], rows) : rows;
    }
    int n = dv_dist_edges(edges[0], &all, &core);
    for (int i = 0; i < n; i++) {
        edges[1][i] = part_from(c, &target, &edges[0][i], &zero);
        edges[2][i] = part_from(c, &target, &edges[0][i], &own);
    }
    dv_sides s = dv_dist_sides(own.dim[0], need.dim[0]);
    const dv_box columns[] = {
        {1, {{rank, 0}}},
        own,
        target,
        first,
        stride,
        part_from(c, &target, &all, &zero),
        part_from(c, &target, &all, &own),
        part_from(c, &target, &core, NULL),
        part_from(c, &target, &core, &zero),
        part_from(c, &target, &core, &own),
        need,
        {1, {{s.left, s.right}}},
        {1, {{s.own_off, s.own}}},
    };
    for (const char *at = c->form; (at = strchr(at, '.')); at++)
        if (at[1] >= 'n')
            put_column(c, at + 1, edges[at[1] - 'n'], n);
        else
            put_column(c, at + 1, &columns[(at[1] | 32) - 'a'], 1);
    c->own[rank] = own.dim[0];
    c->want[rank] = need.dim[0];
}

// Outputs a record for each rank. Only the first n_dims dims of the shape are
// used: operations about rows use dim 0 alone.
static dv_status put_ranks(call *c, int n_dims)
{
    dv_dist d = c->d[0];
    d.n_dims = n_dims;
    d.n_axes = d.n_axes < n_dims ? d.n_axes : n_dims;
    DV_TRY(alloc_ranks(c, dv_dist_n_ranks(&d)));
    for (int64_t r = 0; r < c->n; r++)
        put_record(c, &d, r);
    return PUT(c, END);
}

// Outputs, for each rank, the rows that it needs and that other ranks own.
static dv_status put_transfers(call *c, int64_t row_elems)
{
    int64_t total = 0;
    for (int64_t i = 0; i < c->n * c->n; i++) {
        int64_t dst = i / c->n, src = i % c->n;
        dv_range rows = dv_dist_intersection(c->own[src], c->want[dst]);
        if (src == dst || rows.size == 0)
            continue;
        PUT(c, src, dst, rows.off, rows.size, src < dst ? LEFT : RIGHT,
            rows.size * row_elems);
        total += rows.size * row_elems;
    }
    return PUT(c, END, total);
}

static dv_status put_halo_sizes(call *c)
{
    const int64_t *local = in(c, "lshape")->v, *off = in(c, "loffs")->v;
    const int64_t *box = in(c, "bboffs")->v, *size = in(c, "bbsizes")->v;
    dv_sides s = dv_dist_sides((dv_range){off[0], local[0]},
                               (dv_range){box[0], size[0]});
    for (int k = 0; k < 4; k++) {
        PUT(c, (int64_t[]){s.left, s.right, s.own_off, s.own}[k]);
        for (int i = 1; i < c->d[0].n_dims; i++)
            PUT(c, k == 2 ? box[i] - off[i] : size[i]);
        PUT(c, END);
    }
    return DV_OK;
}

// Outputs the core (the range of a loop that needs no elements of other ranks),
// then the ranges outside of it, cut where the parts of an operand end.
static dv_status put_loops(call *c)
{
    const table *parts[] = {in(c, "lhs_part_rows"), in(c, "rhs_part_rows")};
    const int64_t *core = in(c, "core")->v;
    int64_t at[512], end = 0;
    int n = 0, n_parts = parts[0]->n + parts[1]->n;
    MUST(n_parts <= 500, LIMIT, "%d parts are too many", n_parts);
    for (int k = 0; k < 2; k++) {
        int64_t sum = 0;
        for (int i = 0; i < parts[k]->n; i++, at[n++] = sum)
            MUST(dv_add_i64(&sum, sum, parts[k]->v[i]), LIMIT,
                 "the parts reach beyond 2^63");
        end = dv_max_i64(end, sum);
    }
    int64_t begin = at[n++] = dv_min_i64(core[0], end);
    int64_t stop = at[n++] = dv_min_i64(core[0] + core[1], end);
    if (begin < stop)
        PUT(c, begin, stop);
    for (int64_t here = 0, next; here < end; here = next) {
        next = end;
        for (int i = 0; i < n; i++)
            next = at[i] > here ? dv_min_i64(next, at[i]) : next;
        if (next <= begin || here >= stop)
            PUT(c, here, next);
    }
    return PUT(c, END);
}

static dv_status put_balanced(call *c)
{
    const table *t = in(c, "local");
    int64_t n = dv_max_i64(t->n_rows, 1);
    DV_TRY(alloc_ranks(c, n));
    for (int64_t r = 0; r < n; r++) {
        dv_range want = c->want[r] = dv_dist_part(t->n, n, r);
        c->own[r] = (dv_range){t->start[r], t->start[r + 1] - t->start[r]};
        for (int64_t i = want.off; i < want.off + want.size; i++)
            if (t->whole)
                PUT(c, t->v[i]);
            else
                put_real(c, t->f[i], 0);
        PUT(c, END);
    }
    return PUT(c, LAST);
}

// For each pair of ranks, counts the elements that the first rank owns in
// distribution d[0] and the second rank in distribution d[1].
static dv_status overlaps(call *c, int64_t n_from, int64_t n_to)
{
    int64_t n = c->n = dv_max_i64(n_from, n_to);
    c->m = DV_NEW(&c->arena, int64_t, n * n);
    MUST(c->m, NOMEM, "out of memory");
    for (int64_t i = 0; i < n_from * n_to; i++) {
        dv_box a = dv_dist_own(&c->d[0], i / n_to);
        dv_box b = dv_dist_own(&c->d[1], i % n_to);
        dv_box both = dv_box_inner(&a, &b);
        c->m[i / n_to * n + i % n_to] = dv_box_elems(&both);
    }
    return DV_OK;
}

// For each pair of ranks, counts the elements that the first rank owns in
// distribution d[0] and the second rank in d[1]; both are block-cyclic.
static dv_status cyclic_overlaps(call *c)
{
    const dv_dist *from = &c->d[0], *to = &c->d[1];
    const int64_t *blocks = in(c, "block")->v;
    int64_t n = c->n = dv_dist_n_ranks(from), x[DV_MAX_AXES], y[DV_MAX_AXES];
    c->m = DV_NEW(&c->arena, int64_t, n * n);
    MUST(c->m, NOMEM, "out of memory");
    for (int64_t i = 0; i < n * n; i++) {
        dv_grid_coords(x, from->grid, from->n_axes, i / n);
        dv_grid_coords(y, to->grid, to->n_axes, i % n);
        c->m[i] = 1;
        for (int k = 0; k < from->n_dims; k++) {
            int64_t sum = 0, size = from->shape[k], block = blocks[k];
            MUST(size / block <= 1 << 16, LIMIT,
                 "dim %d has more than %d blocks", k, 1 << 16);
            for (int64_t b = x[k]; b * block < size; b += from->grid[k])
                if (b % to->grid[k] == y[k])
                    sum += dv_min_i64(block, size - b * block);
            c->m[i] *= sum;
        }
    }
    return DV_OK;
}

static dv_status put_matrix(call *c)
{
    int64_t moved = 0;
    for (int64_t r = 0; r < c->n; r++) {
        put_list(c, c->m + r * c->n, (int)c->n);
        for (int64_t k = 0; k < c->n; k++)
            moved += r == k ? 0 : c->m[r * c->n + k];
    }
    return PUT(c, LAST, moved);
}

// Converts a shape that is cut in dim 0 to a one-dimensional shape whose parts
// have the same numbers of elements.
static dv_status flatten(call *c, dv_dist *d)
{
    int64_t n = d->grid[0], *begin = DV_NEW(&c->arena, int64_t, n + 1);
    MUST(begin, NOMEM, "out of memory");
    for (int64_t r = 0; r < n; r++) {
        int64_t size = dv_dist_part(d->shape[0], n, r).size * elems(d, 1);
        begin[r + 1] = begin[r] + size;
        PUT(c, begin[r], size);
    }
    *d = dv_dist_rows(1, &begin[n], n);
    d->starts[0] = begin;
    return PUT(c, END);
}

// Stores in d[1] the distribution of the transposed array, whose dim 0 is cut
// over the ranks, but with its dims in the order before transposing.
static dv_status permute(call *c)
{
    const table *axes = in(c, "axes");
    int64_t seen = 0;
    for (int i = 0; i < axes->n; i++) {
        int64_t axis = axes->v[i];
        MUST(axis < axes->n && !(seen >> axis & 1), SHAPE,
             "axes: " I64 " is no dim or is there twice", axis);
        seen |= INT64_C(1) << axis;
        PUT(c, c->d[0].shape[axis]);
    }
    c->d[1] = c->d[0];
    c->d[1].axis[0] = -1;
    c->d[1].axis[axes->v[0]] = 0;
    return PUT(c, END);
}

static dv_status put_volume(call *c, int corners)
{
    int64_t w[DV_MAX_DIMS], sum[4] = {0};
    for (int i = 0; i < DV_MAX_DIMS; i++)
        w[i] = get(c, "width");
    for (int64_t r = 0; r < dv_dist_n_ranks(&c->d[0]); r++) {
        dv_exchange *e = NULL;
        DV_TRY(dv_dist_halo(&e, &c->d[0], r, w, w, corners, c->diag));
        sum[0] += e->received_elems;
        sum[1] = dv_max_i64(sum[1], e->received_elems);
        sum[2] += e->n_received_from;
        sum[3] = dv_max_i64(sum[3], e->n_received_from);
        dv_exchange_destroy(e);
    }
    return put(c, sum, 4);
}

// Computes the totals in c->moved: all elements, elements that change ranks,
// those after the best renumbering of ranks, and the maxima that a rank sends
// and receives.
static dv_status sum_up(call *c)
{
    int64_t n = c->n, *v = c->moved, stays = 0, best;
    DV_TRY(dv_dist_relabel(&best, c->m, n, c->diag));
    for (int64_t r = 0; r < n; r++) {
        int64_t sent = -c->m[r * n + r], received = sent;
        stays -= sent;
        for (int64_t k = 0; k < n; k++) {
            sent += c->m[r * n + k];
            received += c->m[k * n + r];
        }
        v[3] = dv_max_i64(v[3], sent);
        v[4] = dv_max_i64(v[4], received);
    }
    v[0] = elems(&c->d[0], 0);
    v[1] = v[0] - stays;
    v[2] = v[0] - best;
    return DV_OK;
}

static dv_status put_percent(call *c)
{
    double was = (double)c->moved[1], is = (double)c->moved[2];
    double percent = was > 0 ? 100 * (was - is) / was : 0;
    return put_real(c, (double)(int64_t)(percent * 1e4 + 0.5) / 1e4, 0);
}

// Computes the messages of a halo exchange. `before` and `after` are one list
// of widths, or one list for each rank.
static dv_status halo(call *c)
{
    const dv_dist *d = &c->d[0];
    const table *before = in(c, "before"), *after = in(c, "after");
    int64_t n = dv_dist_n_ranks(d), rank = get(c, "rank");
    int corners = (int)get(c, "corners");
    MUST(before->n_rows == after->n_rows, USAGE,
         "before has %d lists, after %d", before->n_rows, after->n_rows);
    if (before->n_rows <= 1)
        return dv_dist_halo(&c->e, d, rank, before->v, after->v, corners,
                            c->diag);
    MUST(before->n_rows == n, USAGE,
         "before has %d lists: one for all ranks, or " I64 ", one for each",
         before->n_rows, n);
    int64_t *widths = DV_NEW(&c->arena, int64_t, 2 * before->n + 1);
    MUST(widths, NOMEM, "out of memory");
    for (int i = 0; i < before->n; i++) {
        widths[2 * i] = before->v[i];
        widths[2 * i + 1] = after->v[i];
    }
    return dv_dist_halo_each(&c->e, d, rank, widths, corners, c->diag);
}

static void put_pieces(call *c, const dv_piece *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        PUT(c, p[i].rank);
        put_ranges(c, p[i].box);
        PUT(c, dv_box_elems(&p[i].box));
    }
    PUT(c, END);
}

// Outputs an exchange, in which all pieces for one rank form one message.
static dv_status put_exchange(call *c)
{
    const dv_exchange *e = c->e;
    int64_t received = 0, sent = 0;
    put_pieces(c, e->receives, e->n_receives);
    put_pieces(c, e->sends, e->n_sends);
    PUT(c, e->received_elems, e->sent_elems, e->n_received_from, e->n_sent_to);
    if (!given(c, "elem_bytes"))
        return DV_OK;
    DV_TRY(read_table(c, "elem_bytes", ONE, 1, 1, 1 << 20));
    MUST(dv_mul_i64(&received, e->received_elems, c->t->v[0]) &&
             dv_mul_i64(&sent, e->sent_elems, c->t->v[0]),
         OVERFLOW, I64 " elements of " I64 " bytes do not fit 64 bits",
         e->received_elems, c->t->v[0]);
    return PUT(c, received, sent);
}

// Adds the boxes of list number i to `boxes` or, if `less` is set, subtracts
// them.
static dv_status use_boxes(call *c, const char *key, int64_t i, int n_dims,
                           dv_box_list *boxes, int less)
{
    const table *t = in(c, key);
    const int64_t *v = t->v + t->start[i], *end = t->v + t->start[i + 1];
    MUST(n_dims > 0 && (end - v) % (2 * n_dims) == 0, USAGE,
         "%s: boxes of %d dims are %d numbers each, not %d", key, n_dims,
         2 * n_dims, (int)(end - v));
    for (; v < end; v += 2 * n_dims) {
        dv_box b = box_at(v, n_dims);
        int64_t n = 1;
        for (int k = 0; k < n_dims; k++)
            MUST(b.dim[k].size >= 0 &&
                     dv_mul_i64(&n, n, dv_max_i64(b.dim[k].size, 1)),
                 LIMIT,
                 "%s: a box of " I64
                 " elements of dim %d: too many, or below 0",
                 key, b.dim[k].size, k);
        DV_TRY((less ? dv_box_list_subtract : dv_box_list_add)(boxes, &b,
                                                               c->diag));
    }
    return DV_OK;
}

// Callback of type dv_wants: lists the boxes that a rank needs. Errors are
// recorded in the diag of the call, not in `diag`.
static dv_status wants(void *user, int64_t rank, dv_box_list *out,
                       dv_diag *diag)
{
    call *c = user;
    (void)diag;
    return use_boxes(c, "wants", rank, c->d[0].n_dims, out, 0);
}

static dv_status put_box_list(call *c)
{
    MUST(c->t->n_rows > 0, USAGE, "add takes boxes as lists of off,size");
    int n_dims = c->t->start[1] / 2;
    DV_TRY(dv_box_list_create(&c->boxes, n_dims, c->diag));
    for (int i = 0; i < in(c, "add")->n_rows; i++)
        DV_TRY(use_boxes(c, "add", i, n_dims, c->boxes, 0));
    if (given(c, "less"))
        DV_TRY(read_table(c, "less", ANY, ANY, INT64_MIN, INT64_MAX));
    for (int i = 0; i < in(c, "less")->n_rows; i++)
        DV_TRY(use_boxes(c, "less", i, n_dims, c->boxes, 1));
    dv_box_list_join(c->boxes);
    for (size_t i = 0; i < dv_box_list_count(c->boxes); i++)
        put_ranges(c, dv_box_list_at(c->boxes, i));
    return PUT(c, LAST, dv_box_list_elems(c->boxes));
}

static dv_status put_edges(call *c)
{
    const table *t = in(c, "target"), *k = in(c, "core");
    dv_box target = box_at(t->v, t->n / 2), core = box_at(k->v, k->n / 2);
    dv_box edges[2 * DV_MAX_DIMS];
    core = dv_box_inner(&core, &target);
    put_ranges(c, core);
    int n = dv_dist_edges(edges, &target, &core);
    for (int i = 0; i < n; i++)
        put_ranges(c, edges[i]);
    return PUT(c, LAST);
}

// Outputs the values start + step * i, one list per rank. If `exact` (integer
// start and step) is not NULL, they are computed in integers.
enum { F64, F32, INTS };
static dv_status put_line(call *c, int64_t num, double step,
                          const int64_t *exact)
{
    int64_t ranks = get(c, "nprocs"), type = get(c, "dtype");
    for (int64_t r = 0; r < ranks; r++) {
        dv_range own = dv_dist_part(num, ranks, r);
        for (int64_t i = own.off; i < own.off + own.size; i++) {
            double x = dv_line_at(in(c, "start")->f[0], step, i);
            x = type == F32 ? (double)(float)x : type == INTS ? floor(x) : x;
            if (exact && type == INTS)
                PUT(c, exact[0] + i * exact[1]);
            else
                put_real(c, x, type == INTS && fabs(x) < 0x1p62);
        }
        PUT(c, END);
    }
    return PUT(c, LAST);
}

static double line_step(call *c)
{
    return dv_line_step(in(c, "start")->f[0], in(c, "stop")->f[0],
                        get(c, "num"), (int)get(c, "endpoint"));
}

// Outputs, for several team sizes, how many values differ in bits from those
// computed on one process.
static dv_status put_dependence(call *c)
{
    static const int teams[] = {1, 2, 3, 4, 7, 8};
    double start = in(c, "start")->f[0], step = line_step(c);
    int64_t num = get(c, "num");
    double *alone = DV_NEW(&c->arena, double, 2 * num), *part = alone + num;
    MUST(alone, NOMEM, "out of memory");
    dv_line_fill(alone, start, step, (dv_range){0, num});
    for (int t = 0; t < 6; t++) {
        int64_t differ = 0;
        for (int64_t r = 0; r < teams[t]; r++) {
            dv_range own = dv_dist_part(num, teams[t], r);
            dv_line_fill(part, start, step, own);
            for (int64_t i = 0; i < own.size; i++)
                differ += memcmp(&alone[own.off + i], &part[i], 8) != 0;
        }
        PUT(c, differ);
    }
    return DV_OK;
}

static dv_status put_arange(call *c)
{
    const table *from = in(c, "start"), *to = in(c, "stop");
    const table *by = in(c, "step");
    int whole = from->whole && to->whole && by->whole;
    int64_t num = dv_arange_size(from->f[0], to->f[0], by->f[0]);
    // If start, stop and step are integers, count in integers, which stay exact
    // beyond 2^53.
    if (whole) {
        int64_t way = to->v[0] - from->v[0], step = by->v[0];
        num = step > 0 ? dv_ceil_div(way, step) : dv_ceil_div(-way, -step);
        num = dv_max_i64(num, 0);
    }
    MUST(num >= 0, LIMIT, "more than 2^62 values, at most %d are listed",
         MAX_VALUES);
    MUST(num <= MAX_VALUES, LIMIT, I64 " values, at most %d are listed", num,
         MAX_VALUES);
    PUT(c, num);
    return put_line(c, num, by->f[0],
                    whole ? (int64_t[]){from->v[0], by->v[0]} : NULL);
}

static dv_status put_reductions(call *c)
{
    const table *t = in(c, "local");
    dv_moments all = DV_MOMENTS_INIT;
    for (int r = 0; r < t->n_rows; r++) {
        dv_moments part = DV_MOMENTS_INIT;
        for (int i = t->start[r]; i < t->start[r + 1]; i++)
            dv_moments_add(&part, t->f[i]);
        dv_moments_merge(&all, &part);
    }
    double n = all.v.n, v[] = {all.sum, all.max, all.min, all.prod};
    for (int i = 0; i < 4; i++)
        put_real(c, v[i], t->whole && fabs(v[i]) < 0x1p53);
    // Compute the mean from the total sum, which is exact more often than
    // merging the means of the parts.
    put_real(c, n > 0 ? all.sum / n : NAN, 0);
    return put_real(c, n > 0 ? all.v.spread / n : NAN, 0);
}

#define OP(name, args, form, steps)                                            \
    static int name##_op(call *c)                                              \
    {                                                                          \
        return steps;                                                          \
    }
#include "cli/dist.def"
#undef OP

typedef struct operation {
    const char *name, *args, *form;
    int (*steps)(call *c); // returns 0 if it computed the answer
} operation;

static const operation ops[] = {
#define OP(name, args, form, steps) {#name, args, form, name##_op},
#include "cli/dist.def"
#undef OP
};
enum { N_OPS = sizeof ops / sizeof *ops };

// Splits the words of a call into keys and values; the key `note` is ignored.
// Returns -1 to continue, or an exit code.
static int take_words(const cli_command *cmd, call *c, const char *const *words,
                      int n)
{
    for (int i = 0; i < n; i++) {
        word *w = &c->words[i];
        size_t len = strcspn(words[i], "=");
        if (len == 0 || len >= sizeof w->key || !words[i][len])
            return cli_usage(cmd, "an argument is KEY=VALUE, not '%s'",
                             words[i]);
        memcpy(w->key, words[i], len);
        w->value = words[i] + len + 1;
        w->used = !strcmp(w->key, "note");
        if (find(c, w->key))
            return cli_usage(cmd, "%s is there twice", w->key);
        c->n_words++;
    }
    return -1;
}

// Computes the answer and prints it as JSON into c->j. Returns 0, or nonzero
// with a message in c->diag.
static int answer(call *c, const operation *o)
{
    c->form = o->form;
    c->dest = c->whole;
    for (int i = 0; i < DV_MAX_DIMS; i++)
        c->whole[i].stride = 1;
    c->levels[0] = (level){'{', o->form, 0};
    dv_json_open(&c->j, NULL, '{');
    int wrong = o->steps(c);
    for (int i = 0; i < c->n_words; i++)
        wrong = wrong ||
                NEED(c->words[i].used, USAGE, "%s takes no %s; it takes %s",
                     o->name, c->words[i].key, o->args);
    dv_json_close(&c->j);
    return wrong;
}

static int no_operation(const cli_command *cmd, const char *name)
{
    dv_suggestion s = {.word = name, .len = strlen(name)};
    char meant[DV_SUGGESTION_BYTES];
    for (int i = 0; i < N_OPS; i++)
        dv_suggest(&s, ops[i].name);
    return cli_usage(cmd, "there is no operation %s%s", name,
                     s.best ? dv_suggestion_text(&s, meant)
                            : "; divvy dist alone lists them");
}

int cli_dist_main(const cli_command *cmd, int argc, char **argv)
{
    const char *words[MAX_WORDS + 1];
    const cli_option options[] = {{"json", 0, NULL,
                                   "the answer is JSON with or without it",
                                   CLI_FLAG, &(int){0}},
                                  {0}};
    dv_text out = {0};
    int n, i = 0;
    int code = cli_parse(cmd, options, argc, argv, words, &n, MAX_WORDS + 1);
    if (code >= 0)
        return code;
    for (; n == 0 && i < N_OPS; i++)
        dv_put(&out, "%-26s %s\n", ops[i].name, ops[i].args);
    if (n == 0)
        return cli_put(dv_text_take(&out), NULL, NULL);
    call c = {.j.out = &out, .diag = dv_diag_create()};
    code = take_words(cmd, &c, words + 1, n - 1);
    while (i < N_OPS && strcmp(ops[i].name, words[0]) != 0)
        i++;
    if (code < 0 && i == N_OPS)
        code = no_operation(cmd, words[0]);
    else if (code < 0)
        code = answer(&c, &ops[i]) ? cli_fail(c.diag)
                                   : cli_put(dv_text_take(&out), NULL, c.diag);
    dv_text_free(&out);
    dv_exchange_destroy(c.e);
    dv_box_list_destroy(c.boxes);
    dv_diag_destroy(c.diag);
    dv_arena_free(&c.arena);
    return code;
}
