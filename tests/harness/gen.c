#include "harness/gen.h"
#include "base/dtype.h"
#include "base/text.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// -- Why a case fails --------------------------------------------------------

static char noted[1200];

int case_no(const char *form, ...)
{
    char text[sizeof noted]; // the note may be one of the arguments
    va_list ap;
    va_start(ap, form);
    vsnprintf(text, sizeof text, form, ap);
    va_end(ap);
    memcpy(noted, text, sizeof noted);
    return 0;
}

const char *case_why(void)
{
    return noted;
}

// -- Programs ----------------------------------------------------------------

enum {
    MAX_TENSORS = 40,
    MAX_VARS = 30,
    MAX_POINTS = 1500, // of one statement, with all its reducers
    MAX_ELEMS = 300,   // of one tensor
};
enum { WEAK_FLOAT = -1, WEAK_INT = -2 };
static const double float_limit = 100;

typedef struct tensor {
    const char *name;
    dv_dtype dtype;
    int n_dims;
    int64_t shape[4];
    double bound;  // the largest magnitude of its values
    int64_t limit; // if above 0, the values are valid indices 0..limit
    int fixed;     // no statement updates it
    int written;
} tensor;

typedef struct var {
    const char *name;
    int64_t begin, end;
    int in_scope;
    int plain; // it is the whole index of a dim whose extent is its range
    int need;  // some use needs another range: the statement needs a `for`
} var;

typedef struct value {
    const char *text;
    int type, prec;
    double bound;
} value;

typedef struct gen {
    rng r;
    gen_mode mode;
    dv_arena arena;
    dv_text out;
    tensor tensors[MAX_TENSORS];
    int n_tensors;
    int64_t extents[4];
    const char *params[4]; // the name of extents[i], or NULL
    const char *scale;     // the name of a float param, or NULL
    double scale_value;
    // The statement that is being written.
    var vars[MAX_VARS];
    int n_vars;
    int64_t points;
    int own;    // the tensor that the statement updates, or -1
    int orders; // 1 if the statement has topk or argtopk
    int indent, dead;
    var counters[3]; // of the repeats around the statement
    int n_counters;
} gen;

// -- Chance ------------------------------------------------------------------

uint64_t rng_next(rng *r)
{
    uint64_t x = r->state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

int64_t rng_below(rng *r, int64_t n)
{
    return (int64_t)(rng_next(r) % (uint64_t)n);
}

int rng_percent(rng *r, int percent)
{
    return rng_below(r, 100) < percent;
}

static int below(gen *g, int64_t n)
{
    return (int)rng_below(&g->r, n);
}

static int percent(gen *g, int p)
{
    return rng_percent(&g->r, p);
}

// -- Text --------------------------------------------------------------------

__attribute__((format(printf, 2, 3))) static const char *
fmt(gen *g, const char *form, ...)
{
    va_list ap, again;
    va_start(ap, form);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, form, ap);
    char *s = DV_NEW(&g->arena, char, n + 1);
    if (!s)
        abort();
    vsnprintf(s, (size_t)n + 1, form, again);
    va_end(again);
    va_end(ap);
    return s;
}

// Writes a line of the program, sometimes with a comment or blanks.
static void line(gen *g, const char *text)
{
    if (percent(g, 4))
        dv_put(&g->out, "# a line of its own: x[i] = {\n");
    dv_put(&g->out, "%*s%s%s\n", g->indent, "", text,
           percent(g, 4) ? "   # and a comment" : "");
    if (percent(g, 5))
        dv_put(&g->out, "\n");
}

// Returns the text of an operand, in parentheses unless it binds at least as
// tightly as `prec`.
static const char *operand(gen *g, value v, int prec)
{
    if (v.prec < prec || percent(g, 8))
        return fmt(g, "(%s)", v.text);
    return v.text;
}

// -- Types -------------------------------------------------------------------

static int is_real(int type)
{
    return type == WEAK_FLOAT || (type >= 0 && dv_is_float((dv_dtype)type));
}

// The rule for two integers: a signed type holds what two types hold of which
// one is signed.
static int join_integers(int a, int b)
{
    static const dv_dtype up[][2] = {
        {DV_U8, DV_I16}, {DV_U16, DV_I32}, {DV_U32, DV_I64}, {DV_U64, DV_I64}};
    int bits = 0, is_signed = 0;
    if (a == DV_BOOL || b == DV_BOOL)
        return a == DV_BOOL ? b : a;
    for (int i = 0; i < 2; i++) {
        const char *name = dv_dtype_get((dv_dtype)(i ? b : a))->name;
        bits = atoi(name + 1) > bits ? atoi(name + 1) : bits;
        is_signed += name[0] == 'i';
    }
    for (int i = 0; i < 4 && is_signed == 1; i++)
        for (int k = 0; k < 2; k++)
            if ((k ? b : a) == (int)up[i][0])
                return atoi(dv_dtype_get((dv_dtype)(k ? a : b))->name + 1) >
                               atoi(dv_dtype_get(up[i][0])->name + 1)
                           ? (k ? a : b)
                           : (int)up[i][1];
    char name[8];
    snprintf(name, sizeof name, "%c%d", is_signed ? 'i' : 'u', bits);
    return dv_dtype_find(name, strlen(name));
}

// The language's rule for the type of an operation, written independently.
static int join(int a, int b)
{
    if (a < 0 && b < 0)
        return a > b ? a : b;
    if (a < 0 || b < 0) {
        int strong = a < 0 ? b : a, weak = a < 0 ? a : b;
        return weak == WEAK_FLOAT && !is_real(strong) ? (int)DV_F32 : strong;
    }
    if (is_real(a) != is_real(b))
        return is_real(a) ? a : b;
    if (!is_real(a))
        return join_integers(a, b);
    int na = dv_dtype_get((dv_dtype)a)->size_bytes;
    int nb = dv_dtype_get((dv_dtype)b)->size_bytes;
    if (na == nb && a != b)
        return DV_F32;
    return na >= nb ? a : b;
}

static double limit_of(const gen *g, int type)
{
    if (g->mode == GEN_WRAPS)
        return HUGE_VAL;
    return is_real(type)                      ? float_limit
           : type == DV_BOOL                  ? 1
           : type == DV_I8                    ? 127
           : type == DV_U8                    ? 255
           : type == DV_I16                   ? 32767
           : type == DV_U16                   ? 65535
           : type == DV_I32 || type == DV_U32 ? 1e6
                                              : 1e9;
}

// There are no u32 unless integers may wrap: large ones do not fit the 32 bits
// in which spyre stores the i64 of temporaries.
static dv_dtype some_type(gen *g, int real)
{
    if (g->mode == GEN_WRAPS && percent(g, 20))
        return DV_U32;
    static const dv_dtype reals[] = {DV_F64, DV_F32, DV_F32, DV_F16, DV_BF16};
    static const dv_dtype wholes[] = {DV_I64, DV_I32, DV_I32,  DV_I8,
                                      DV_U8,  DV_U16, DV_BOOL, DV_I16,
                                      DV_I16, DV_I32, DV_U64,  DV_I8};
    return real ? reals[below(g, 5)] : wholes[below(g, 12)];
}

// Returns the largest magnitude in memory of a value that is stored in a
// tensor: negative numbers are large ones in unsigned types.
static double stored_bound(dv_dtype t, double bound)
{
    const dv_dtype_info *x = dv_dtype_get(t);
    if (x->kind == 'b')
        return 1;
    return x->kind == 'u' && x->size_bytes < 8 ? (double)dv_int_most(t) : bound;
}

// -- Names -------------------------------------------------------------------

static int tensor_of(const gen *g, const char *name)
{
    for (int i = 0; i < g->n_tensors; i++)
        if (strcmp(g->tensors[i].name, name) == 0)
            return i;
    return -1;
}

// Returns a new name. Keywords are valid names, and y_1 is a name that lowering
// would choose itself.
static const char *tensor_name(gen *g)
{
    static const char *const names[] = {
        "x",   "y",   "z",      "u",     "w",    "a",   "b",
        "i",   "k",   "N",      "M",     "y_1",  "y_2", "x_1",
        "for", "in",  "if",     "input", "temp", "exp", "select",
        "f32", "inf", "repeat", "S",     "t",    "acc", "x_1_1"};
    const char *name = names[below(g, (int64_t)(sizeof names / sizeof *names))];
    while (tensor_of(g, name) >= 0)
        name = fmt(g, "%s_%d", name, 1 + below(g, 3));
    return name;
}

static int in_scope(const gen *g, const char *name)
{
    for (int v = 0; v < g->n_vars; v++)
        if (g->vars[v].in_scope && strcmp(g->vars[v].name, name) == 0)
            return v;
    return -1;
}

// Binds a new variable over begin..end. A name that another reducer of the
// statement has used keeps its range, since one `for` serves both.
static int bind(gen *g, int64_t begin, int64_t end)
{
    static const char *const names[] = {"i", "j", "k", "l", "m",   "n",
                                        "p", "q", "N", "x", "for", "in",
                                        "M", "y", "S", "z", "sum", "exp"};
    const char *name;
    int try = 0;
    do
        name = names[below(g, try++ < 8 ? 8 : 18)];
    while (in_scope(g, name) >= 0 && try < 200);
    if (in_scope(g, name) >= 0)
        name = fmt(g, "v%d", g->n_vars);
    var v = {.name = name, .begin = begin, .end = end, .in_scope = 1};
    for (int i = 0; i < g->n_vars; i++) {
        if (strcmp(g->vars[i].name, name) == 0) {
            v.begin = g->vars[i].begin;
            v.end = g->vars[i].end;
        }
    }
    if (g->n_vars == MAX_VARS)
        abort();
    g->vars[g->n_vars] = v;
    return g->n_vars++;
}

// -- Indices -----------------------------------------------------------------

static const char *access_text(gen *g, int t, int direct);

static int some_var(gen *g)
{
    int at = g->n_vars ? below(g, g->n_vars) : 0;
    for (int i = 0; i < g->n_vars; i++)
        if (g->vars[(at + i) % g->n_vars].in_scope)
            return (at + i) % g->n_vars;
    return -1;
}

static const char *affine(gen *g, const char *name, int64_t c, int64_t base)
{
    if (c == 1 && base == 0)
        return fmt(g, "%s + 0", name);
    const char *part = c == 1           ? name
                       : c == -1        ? fmt(g, "-%s", name)
                       : percent(g, 50) ? fmt(g, "%" PRId64 "*%s", c, name)
                                        : fmt(g, "%s*%" PRId64, name, c);
    if (base < 0)
        return fmt(g, "%s - %" PRId64, part, -base);
    if (c < 0)
        return fmt(g, "%" PRId64 " - %" PRId64 " * %s", base, -c, name);
    return base ? fmt(g, "%s+%" PRId64, part, base) : part;
}

// Returns a counter whose name no variable of the statement has, or NULL.
static const var *some_counter(gen *g)
{
    const var *c = g->n_counters ? &g->counters[below(g, g->n_counters)] : NULL;
    return c && in_scope(g, c->name) < 0 ? c : NULL;
}

// Returns an index that adds a multiple of a value in begin..end to a variable
// or to a number, and stays inside 0..extent, or NULL. `what` is the text of
// the value.
static const char *sum_with(gen *g, const char *what, int64_t begin,
                            int64_t end, int64_t extent, int with_var)
{
    int64_t c = percent(g, 70) ? 1 : percent(g, 50) ? -1 : 2;
    int64_t lo = c > 0 ? c * begin : c * (end - 1);
    int64_t span = (c < 0 ? -c : c) * (end - 1 - begin);
    int v = with_var ? some_var(g) : -1;
    if (span >= extent)
        return NULL;
    if (v >= 0 && g->vars[v].end - g->vars[v].begin + span <= extent) {
        span += g->vars[v].end - 1 - g->vars[v].begin;
        lo += g->vars[v].begin;
        // An index that is read gives the variable no range.
        g->vars[v].need = 1;
    } else {
        v = -1;
    }
    int64_t base = rng_below(&g->r, extent - span) - lo;
    const char *s = c == 1    ? what
                    : c == -1 ? fmt(g, "-%s", what)
                              : fmt(g, "%" PRId64 "*%s", c, what);
    if (v >= 0)
        s = fmt(g, "%s + %s", s, g->vars[v].name);
    return base ? fmt(g, "%s %c %" PRId64, s, base < 0 ? '-' : '+',
                      base < 0 ? -base : base)
                : s;
}

// Returns an index with the counter of a repeat, or NULL.
static const char *counted(gen *g, int64_t extent, int with_var)
{
    const var *c = some_counter(g);
    return c ? sum_with(g, c->name, c->begin, c->end, extent, with_var) : NULL;
}

// Returns an index c * v + base that stays inside 0..extent, or NULL.
static const char *strided(gen *g, int64_t extent)
{
    static const int64_t coefs[] = {1, 1, -1, -1, 2, -2, 3};
    int v = some_var(g);
    if (v < 0)
        return NULL;
    int64_t c = coefs[below(g, 7)], n = g->vars[v].end - g->vars[v].begin;
    int64_t span = (c < 0 ? -c : c) * (n - 1);
    if (span >= extent)
        return NULL;
    int64_t least = c > 0 ? c * g->vars[v].begin : c * (g->vars[v].end - 1);
    return affine(g, g->vars[v].name, c,
                  rng_below(&g->r, extent - span) - least);
}

static const char *two_vars(gen *g, int64_t extent)
{
    int v = some_var(g), w = some_var(g);
    if (v < 0 || v == w || g->vars[v].begin || g->vars[w].begin)
        return NULL;
    int64_t c = 1 + below(g, 2);
    int64_t span = c * (g->vars[v].end - 1) + g->vars[w].end - 1;
    if (span >= extent)
        return NULL;
    return fmt(g, "%" PRId64 "*%s+%s+%" PRId64, c, g->vars[v].name,
               g->vars[w].name, rng_below(&g->r, extent - span));
}

static const char *indirect(gen *g, int64_t extent)
{
    int at = below(g, g->n_tensors);
    for (int i = 0; i < g->n_tensors; i++) {
        int t = (at + i) % g->n_tensors;
        if (!g->tensors[t].limit || g->tensors[t].limit > extent)
            continue;
        const char *s = access_text(g, t, 1);
        const char *sum =
            percent(g, 40) ? sum_with(g, s, 0, g->tensors[t].limit, extent, 1)
                           : NULL;
        return sum ? sum : s;
    }
    return NULL;
}

static const char *plain(gen *g, int64_t extent)
{
    int at = g->n_vars ? below(g, g->n_vars) : 0;
    for (int i = 0; i < g->n_vars; i++) {
        var *v = &g->vars[(at + i) % g->n_vars];
        if (!v->in_scope || v->begin != 0 || v->end != extent)
            continue;
        v->plain = 1;
        return v->name;
    }
    return NULL;
}

static const char *narrow(gen *g, int64_t extent)
{
    int v = some_var(g);
    if (v < 0 || g->vars[v].begin < 0 || g->vars[v].end > extent)
        return NULL;
    g->vars[v].need = 1;
    return g->vars[v].name;
}

static const char *index_text(gen *g, int64_t extent, int direct)
{
    const char *s = NULL;
    if (!direct && percent(g, 40))
        s = counted(g, extent, 1);
    for (int try = 0; try < 4 && !s; try++) {
        int kind = below(g, 20);
        s = kind < 12              ? plain(g, extent)
            : kind < 14            ? narrow(g, extent)
            : kind < 17            ? strided(g, extent)
            : kind < 18            ? two_vars(g, extent)
            : kind < 19 && !direct ? indirect(g, extent)
                                   : NULL;
    }
    return s ? s : fmt(g, "%" PRId64, rng_below(&g->r, extent));
}

static const char *access_text(gen *g, int t, int direct)
{
    const char *s = fmt(g, "%s[", g->tensors[t].name);
    for (int d = 0; d < g->tensors[t].n_dims; d++)
        s = fmt(g, "%s%s%s", s, d ? "," : "",
                index_text(g, g->tensors[t].shape[d], direct));
    return fmt(g, "%s]", s);
}

// Returns an index that may leave its tensor: a variable or a sum of two, with
// any offset, or any element of an integer input.
static const char *loose_index(gen *g, int64_t extent)
{
    static const int64_t coefs[] = {1, 1, 1, -1, 2};
    int v = some_var(g), w = some_var(g), at = below(g, g->n_tensors);
    int64_t base = rng_below(&g->r, 2 * extent + 1) - extent;
    const var *c = percent(g, 40) ? some_counter(g) : NULL;
    if (c)
        return affine(g, c->name, coefs[below(g, 5)], base);
    if (v < 0 || percent(g, 15)) {
        const tensor *t = &g->tensors[at];
        return t->fixed && !dv_is_float(t->dtype) && percent(g, 50)
                   ? access_text(g, at, 1)
                   : fmt(g, "%" PRId64, base);
    }
    if (v == w || percent(g, 50))
        return affine(g, g->vars[v].name, coefs[below(g, 5)], base);
    return fmt(g, "%s+%s-%" PRId64, g->vars[v].name, g->vars[w].name,
               1 + rng_below(&g->r, extent));
}

static value constant(gen *g, int real);

// Returns a read with a border of tensor t.
static value loose_read(gen *g, int t)
{
    const tensor *x = &g->tensors[t];
    int plain_before[MAX_VARS];
    const char *s = fmt(g, "%s[", x->name);
    for (int v = 0; v < g->n_vars; v++)
        plain_before[v] = g->vars[v].plain;
    for (int d = 0; d < x->n_dims; d++)
        s = fmt(g, "%s%s%s", s, d ? "," : "",
                percent(g, 70) ? loose_index(g, x->shape[d])
                               : index_text(g, x->shape[d], 0));
    // Indices of reads with a border give no ranges.
    for (int v = 0; v < g->n_vars; v++)
        g->vars[v].plain = plain_before[v];
    value outside = constant(g, dv_is_float(x->dtype));
    if (dv_round_to(x->dtype, -4) != -4 || dv_round_to(x->dtype, 9) != 9)
        outside = (value){percent(g, 50) ? "0" : "1", WEAK_INT, 5, 1};
    s = fmt(g, "(%s] else %s)", s, outside.text);
    return (value){s, (int)x->dtype, 5,
                   x->bound > outside.bound ? x->bound : outside.bound};
}

// -- Leaves ------------------------------------------------------------------

static value constant(gen *g, int real)
{
    static const char *const reals[] = {"0.5", "0.25", "1.0",   "2.5", "1e-1",
                                        "0.0", "3.0",  "0.125", "7e-2"};
    if (real && g->scale && percent(g, 25) && in_scope(g, g->scale) < 0)
        return (value){g->scale, WEAK_FLOAT, 5, g->scale_value};
    int i = below(g, 4);
    if (!real && g->params[i] && percent(g, 30) &&
        in_scope(g, g->params[i]) < 0)
        return (value){g->params[i], WEAK_INT, 5, (double)g->extents[i]};
    if (real)
        return (value){reals[below(g, 9)], WEAK_FLOAT, 5, 3};
    int c = below(g, 9) - 4;
    return (value){fmt(g, "%d", c), WEAK_INT, c < 0 ? 4 : 5, 4};
}

// Returns a limit of a type, or a number near one.
static value large(gen *g)
{
    static const char *const numbers[] = {
        "127",        "128",        "255",        "32768",           "65535",
        "2147483647", "2147483648", "4294967295", "9007199254740992"};
    return (value){numbers[below(g, 9)], WEAK_INT, 5, 0x1p53};
}

// Returns the value of a variable in scope or of a counter, or a constant if
// there is none.
static value position(gen *g)
{
    int v = some_var(g);
    const var *x = percent(g, 40) ? some_counter(g) : NULL;
    if (v < 0 && !x)
        return constant(g, 0);
    x = x ? x : &g->vars[v];
    int64_t lo = x->begin, hi = x->end - 1;
    int64_t by = percent(g, 30) ? below(g, 9) - 4 : 0;
    double bound = (double)(hi + 4 > 4 - lo ? hi + 4 : 4 - lo);
    if (!by)
        return (value){x->name, DV_I64, 5, bound};
    return (value){fmt(g, "%s %c %d", x->name, by < 0 ? '-' : '+',
                       (int)(by < 0 ? -by : by)),
                   DV_I64, 2, bound};
}

// Returns a read of a random tensor of the class, or a constant if there is
// none. `exact`: only of a tensor whose values were not rounded.
static value leaf(gen *g, int real, int exact)
{
    if (!real && percent(g, 15))
        return position(g);
    int at = below(g, g->n_tensors);
    if (g->own >= 0 && percent(g, 30))
        at = g->own;
    for (int i = 0; i < g->n_tensors && !percent(g, 6); i++) {
        int t = (at + i) % g->n_tensors;
        const tensor *x = &g->tensors[t];
        if (dv_is_float(x->dtype) != real || (exact && real && !x->fixed))
            continue;
        if (percent(g, 12))
            return loose_read(g, t);
        return (value){access_text(g, t, 0), (int)x->dtype, 5, x->bound};
    }
    return constant(g, real);
}

static value any(gen *g, int real, int depth);

static value compare(gen *g, int depth, int reals)
{
    static const char *const ops[] = {"<", "<=", ">", ">=", "==", "!="};
    value a, b;
    if (g->mode != GEN_FLOATS) {
        a = any(g, 0, depth - 1);
        b = any(g, 0, depth - 1);
    } else {
        int real = reals && percent(g, 75);
        a = leaf(g, real, 1);
        b = percent(g, 50) ? constant(g, real) : leaf(g, real, 1);
    }
    return (value){fmt(g, "%s %s %s", operand(g, a, 2), ops[below(g, 6)],
                       operand(g, b, 2)),
                   join(a.type, b.type), 1, 1};
}

// -- Both classes ------------------------------------------------------------

static value call2(gen *g, const char *fn, value a, value b)
{
    return (value){fmt(g, "%s(%s, %s)", fn, a.text, b.text),
                   join(a.type, b.type), 5,
                   a.bound > b.bound ? a.bound : b.bound};
}

static value infix(gen *g, char op, value a, value b)
{
    int prec = op == '*' ? 3 : 2;
    int type = join(a.type, b.type);
    double bound = op == '*' ? a.bound * b.bound : a.bound + b.bound;
    if (bound > limit_of(g, type))
        return call2(g, percent(g, 50) ? "min" : "max", a, b);
    return (value){
        fmt(g, "%s %c %s", operand(g, a, prec), op, operand(g, b, prec + 1)),
        type, prec, bound};
}

// Limits the magnitude of a value.
static value tamed(gen *g, value v, double bound)
{
    if (v.bound <= bound || g->mode == GEN_WRAPS)
        return v;
    if (is_real(v.type))
        return (value){fmt(g, "tanh(%s)", v.text), v.type, 5, 1};
    v.text = fmt(g, "max(min(%s, %.0f), -%.0f)", v.text, bound, bound);
    v.bound = bound;
    v.prec = 5;
    return v;
}

// Makes new variables for a reducer, from *first on; returns the number of
// their points, or 0 if the statement would get too large.
static int64_t reduced_vars(gen *g, int *first)
{
    int n = 1 + percent(g, 25);
    int64_t points = 1;
    *first = g->n_vars;
    if (g->n_vars + n > MAX_VARS - 4)
        return 0;
    for (int i = 0; i < n; i++) {
        int64_t end = g->extents[below(g, 4)];
        int64_t begin = end > 2 && percent(g, 15) ? 1 : 0;
        int v = bind(g, begin, end);
        points *= g->vars[v].end - g->vars[v].begin;
    }
    if (g->points * points <= MAX_POINTS)
        return points;
    for (int v = *first; v < g->n_vars; v++)
        g->vars[v].in_scope = 0;
    g->n_vars = *first;
    return 0;
}

// The place of the largest or least of values that were not rounded.
static value arg_reduce(gen *g)
{
    int64_t end = g->extents[below(g, 4)], begin = end > 2 && percent(g, 30);
    if (g->n_vars > MAX_VARS / 2 || g->points * end > MAX_POINTS / 2)
        return leaf(g, 0, 0);
    int v = bind(g, begin, end);
    int64_t points = g->vars[v].end - g->vars[v].begin;
    if (g->vars[v].begin)
        g->vars[v].need = 1;
    g->points *= 2 * points;
    value x = leaf(g, g->mode == GEN_FLOATS && percent(g, 70), 1);
    if (x.type < 0 || (g->mode != GEN_FLOATS && percent(g, 50)))
        x = infix(g, '+', x, leaf(g, 0, 0));
    g->points /= 2 * points;
    const char *name = g->vars[v].name;
    g->vars[v].in_scope = 0;
    g->vars[g->n_vars++] = g->vars[v]; // the language adds one like it
    return (value){fmt(g, "(%s[%s] %s)", percent(g, 50) ? "argmax" : "argmin",
                       name, operand(g, x, 3)),
                   DV_I64, 5, (double)g->vars[v].end};
}

// Some of the largest integers, or their places: one variable in scope counts
// them, and the operand has all others.
static value top_reduce(gen *g)
{
    int rank = some_var(g);
    int64_t end = g->extents[below(g, 4)];
    if (rank < 0 || g->vars[rank].begin < 0 || g->n_vars > MAX_VARS / 2 ||
        g->points * end > MAX_POINTS / 8)
        return leaf(g, 0, 0);
    int v = bind(g, 0, end);
    int64_t points = g->vars[v].end - g->vars[v].begin;
    if (points < g->vars[rank].end) {
        g->vars[v].in_scope = 0;
        g->n_vars--;
        return leaf(g, 0, 0);
    }
    g->vars[rank].in_scope = 0;
    g->vars[rank].need = g->vars[v].need = 1;
    value x = leaf(g, 0, 0);
    for (int i = 0; i < g->n_vars; i++)
        if (g->vars[i].in_scope)
            x.text = fmt(g, "%s + 0 * %s", x.text, g->vars[i].name);
    g->vars[rank].in_scope = 1;
    g->vars[v].in_scope = 0;
    g->orders = 1;
    int places = percent(g, 50);
    return (value){fmt(g, "(%s[%s] (%s))", places ? "argtopk" : "topk",
                       g->vars[v].name, x.text),
                   DV_I64, 5, places ? (double)g->vars[v].end : x.bound};
}

// Gives the variable a bound, so that a reducer leaves points out; at least one
// point is left unless `empty`.
static const char *bounded(gen *g, int v, int empty)
{
    static const char *const ops[] = {"<=", ">=", "==", "<", ">", "!="};
    const var *x = &g->vars[v];
    int w = empty ? some_var(g) : -1;
    if (w < 0 || w == v)
        return fmt(g, "%s %s %d", x->name, ops[below(g, empty ? 6 : 3)],
                   (int)(x->begin + below(g, x->end - x->begin)));
    return fmt(g, "%s %s %s + %d", x->name, ops[below(g, 6)], g->vars[w].name,
               below(g, 3));
}

static value reduce(gen *g, int real, int depth)
{
    if (!real && percent(g, 15))
        return arg_reduce(g);
    if (!real && percent(g, 12))
        return top_reduce(g);

    static const char *const reals[] = {"sum", "sum",  "max",
                                        "min", "mean", "prod"};
    int first;
    int64_t points = reduced_vars(g, &first);
    if (!points)
        return leaf(g, real, 0);
    const char *name = g->mode == GEN_WRAPS && percent(g, 10)
                           ? "prod"
                           : reals[below(g, real ? 6 : 4)];
    g->points *= points;
    value v;
    if (name[0] == 's' && percent(g, 50))
        v = infix(g, '*', leaf(g, real, 0), leaf(g, real, 0));
    else
        v = any(g, real, depth - 1);
    g->points /= points;
    if (real && strcmp(name, "prod") == 0) {
        v.text = fmt(g, "(1.0 + 0.125 * tanh(%s))", v.text);
        v.prec = 5;
    }
    // A reducer over constants alone has no type: add something that has one.
    if (v.type < 0)
        v = infix(g, '+', v, leaf(g, real, 0));
    const char *list = g->vars[first].name;
    // Not for a mean. Where nothing is in a bound, a maximum of integers is the
    // least of 64 bits, which some machines cannot store.
    int whole = v.type < 0 || !dv_is_float((dv_dtype)v.type);
    int no_bound = name[1] == 'e' || (name[0] == 'm' && whole);
    if (percent(g, 15) && !no_bound)
        list = bounded(g, first, name[0] != 'm');
    for (int i = first + 1; i < g->n_vars; i++)
        if (g->vars[i].in_scope)
            list = fmt(g, "%s,%s", list, g->vars[i].name);
    value out = {fmt(g, "%s[%s] %s", name, list, operand(g, v, 3)), v.type, 1,
                 v.bound};
    if (name[0] == 's' || (!real && name[0] == 'p')) {
        out.bound *= (double)points;
        out.type = v.type >= 0 && !is_real(v.type) &&
                           dv_dtype_get((dv_dtype)v.type)->size_bytes < 4
                       ? (int)DV_I32
                       : v.type;
    } else if (name[0] == 'p') {
        out.bound = 100;
    }
    for (int i = first; i < g->n_vars; i++)
        g->vars[i].in_scope = 0;
    out.text = fmt(g, "(%s)", out.text);
    out.prec = 5;
    return tamed(g, out, limit_of(g, out.type));
}

// -- Floats ------------------------------------------------------------------

// Calls a function of one argument, whose value is limited to the function's
// domain.
static value real_call(gen *g, value a)
{
    static const struct {
        const char *form;
        double bound; // of the result; 0: as large as the argument
    } calls[] = {{"exp(min(%s, 1.0))", 3},
                 {"exp(tanh(%s))", 3},
                 {"log(abs(%s) + 1.0)", 0},
                 {"sqrt(abs(%s) + 0.25)", 0},
                 {"rsqrt(abs(%s) + 0.5)", 2},
                 {"tanh(%s)", 1},
                 {"erf(%s)", 1},
                 {"sigmoid(%s)", 1},
                 {"silu(%s)", 0},
                 {"gelu(%s)", 0},
                 {"relu(%s)", 0},
                 {"abs(%s)", 0},
                 {"min(%s, inf)", 0},
                 {"max(-inf, %s)", 0},
                 {"exp(max(min(%s, 1.0), -inf))", 3},
                 {"sin(%s)", 1},
                 {"cos(%s)", 1},
                 {"tan(0.5 * tanh(%s))", 1},
                 {"asin(0.5 * tanh(%s))", 1},
                 {"acos(0.5 * tanh(%s))", 3},
                 {"atan(%s)", 2},
                 {"atan2(%s, 1.5)", 2},
                 {"sinh(tanh(%s))", 2},
                 {"cosh(tanh(%s))", 2},
                 {"asinh(%s)", 0},
                 {"acosh(abs(%s) + 1.5)", 0},
                 {"atanh(0.5 * tanh(%s))", 1},
                 {"exp2(min(%s, 1.0))", 2},
                 {"log2(abs(%s) + 1.0)", 0},
                 {"expm1(min(%s, 1.0))", 2},
                 {"log1p(abs(%s))", 0},
                 {"pow(abs(%s) + 0.5, 0.75)", 0},
                 {"clamp(%s, -1, 1.5)", 2}};
    int i = below(g, (int)(sizeof calls / sizeof *calls));
    const char *form = calls[i].form, *hole = strstr(form, "%s");
    // The argument is put in by hand, because the form is not a literal of
    // printf.
    value out = {fmt(g, "%.*s%s%s", (int)(hole - form), form, a.text, hole + 2),
                 a.type == WEAK_INT ? WEAK_FLOAT : a.type, 5,
                 calls[i].bound > 0 ? calls[i].bound : a.bound + 1};
    return tamed(g, out, float_limit);
}

// Calls a function with steps, of a value without an error.
static value step_call(gen *g)
{
    static const char *const names[] = {"floor", "ceil", "round", "trunc",
                                        "sign",  "!",    "isnan", "isinf"};
    value a = leaf(g, 1, 1);
    const char *name = names[below(g, 8)];
    if (percent(g, 30))
        a.text = fmt(g, "%s(%s, %s)", percent(g, 50) ? "mod" : "rem", a.text,
                     percent(g, 50) ? "0.75" : "-3");
    a.text = fmt(g, "%s(%s)", name, a.text);
    a.type = a.type == WEAK_INT ? WEAK_FLOAT : a.type;
    a.prec = name[0] == '!' ? 4 : 5;
    a.bound += 3;
    return a;
}

static value real(gen *g, int depth)
{
    value a, b, c;
    int kind = below(g, 17);
    if (depth <= 0 || kind < 2)
        return percent(g, 85) ? leaf(g, 1, 0) : constant(g, 1);
    if (kind < 5)
        return reduce(g, 1, depth);
    if (kind == 16)
        return step_call(g);
    a = real(g, depth - 1);
    if (kind < 8)
        return real_call(g, a);
    if (kind == 8)
        return infix(g, '+', a, infix(g, '*', leaf(g, 0, 0), constant(g, 1)));
    if (kind == 9)
        return (value){fmt(g, "-%s", operand(g, a, 4)), a.type, 4, a.bound};
    if (kind == 12) {
        c = compare(g, depth, 1);
        c.text = fmt(g, "(%s)", c.text);
        c.prec = 5;
        return infix(g, '*', c, a);
    }
    b = real(g, depth - 1);
    if (kind == 10)
        return (value){fmt(g, "%s / (abs(%s) + 1.0)", operand(g, a, 3), b.text),
                       join(a.type, b.type), 3, a.bound};
    if (kind == 11) {
        c = compare(g, depth, 1);
        value out = call2(g, "select", a, b);
        out.text = fmt(g, "select(%s, %s, %s)", c.text, a.text, b.text);
        return out;
    }
    if (kind == 13)
        return call2(g, percent(g, 50) ? "min" : "max", a, b);
    return infix(g, "+-*"[below(g, 3)], a, b);
}

// -- Integers ----------------------------------------------------------------

// Takes the sign of a value, or shifts or inverts its bits.
static value one_bits(gen *g, value a)
{
    int kind = below(g, 4);
    if (kind == 0)
        return (value){fmt(g, "sign(%s)", a.text), a.type, 5, 1};
    if (g->mode == GEN_WRAPS && percent(g, 70))
        return (value){fmt(g, "(%s %s %s)", operand(g, a, 4),
                           percent(g, 50) ? "<<" : ">>",
                           operand(g, leaf(g, 0, 0), 4)),
                       a.type, 5, a.bound};
    if (kind == 1 && 8 * a.bound <= limit_of(g, a.type))
        return (value){fmt(g, "(%s << %d)", operand(g, a, 4), below(g, 4)),
                       a.type, 5, 8 * a.bound};
    if (kind == 2 && a.bound + 1 <= limit_of(g, a.type))
        return (value){fmt(g, "~%s", operand(g, a, 4)), a.type, 4, a.bound + 1};
    return (value){fmt(g, "(%s >> %d)", operand(g, a, 4), below(g, 9)), a.type,
                   5, a.bound + 1};
}

// Combines the bits of two values, or takes a remainder.
static value two_bits(gen *g, value a, value b)
{
    static const char *const ops[] = {"&", "|", "^", "&&", "||"};
    int kind = below(g, 8), type = join(a.type, b.type);
    double bound = 2 * ((a.bound > b.bound ? a.bound : b.bound) + 1);
    if (kind < 3)
        return (value){
            fmt(g, "%s(%s, %s)", kind ? "mod" : "rem", a.text, b.text), type, 5,
            b.bound};
    if (bound > limit_of(g, type))
        return call2(g, percent(g, 50) ? "min" : "max", a, b);
    return (value){fmt(g, "(%s %s %s)", operand(g, a, 4), ops[below(g, 5)],
                       operand(g, b, 4)),
                   type, 5, bound};
}

static value whole(gen *g, int depth)
{
    value a, b, c;
    int kind = below(g, 17);
    if (g->mode == GEN_WRAPS && percent(g, 12))
        return large(g);
    if (depth <= 0 || kind < 2)
        return percent(g, 85) ? leaf(g, 0, 0) : constant(g, 0);
    if (kind < 4)
        return reduce(g, 0, depth);
    if (kind == 4) {
        c = compare(g, depth, 0);
        c.text = fmt(g, "(%s)", c.text);
        c.prec = 5;
        return c;
    }
    a = whole(g, depth - 1);
    if (kind == 5)
        return (value){fmt(g, "-%s", operand(g, a, 4)), a.type, 4, a.bound};
    if (kind < 8)
        return (value){fmt(g, "%s(%s)", kind == 6 ? "abs" : "relu", a.text),
                       a.type, 5, a.bound};
    if (kind == 14)
        return one_bits(g, a);
    b = whole(g, depth - 1);
    if (kind == 8) {
        c = compare(g, depth, 1);
        value out = call2(g, "select", a, b);
        out.text = fmt(g, "select(%s, %s, %s)", c.text, a.text, b.text);
        return out;
    }
    if (kind == 9)
        return call2(g, percent(g, 50) ? "min" : "max", a, b);
    if (kind > 14)
        return two_bits(g, a, b);
    return infix(g, "+-*"[below(g, 3)], a, b);
}

static value any(gen *g, int want_real, int depth)
{
    return want_real ? real(g, depth) : whole(g, depth);
}

// -- Declarations ------------------------------------------------------------

static const char *extent_text(gen *g, int64_t n)
{
    for (int i = 0; i < 4; i++)
        if (g->params[i] && g->extents[i] == n && percent(g, 50))
            return g->params[i];
    for (int i = 0; i < 4; i++)
        if (g->params[i] && percent(g, 10))
            return fmt(g, "%s %c %" PRId64, g->params[i],
                       g->extents[i] > n ? '-' : '+',
                       g->extents[i] > n ? g->extents[i] - n
                                         : n - g->extents[i]);
    return fmt(g, "%" PRId64, n);
}

static const char *type_text(gen *g, const tensor *t)
{
    const char *s = dv_dtype_get(t->dtype)->name;
    if (t->n_dims == 0 && percent(g, 50))
        return s;
    s = fmt(g, "%s[", s);
    for (int d = 0; d < t->n_dims; d++)
        s = fmt(g, "%s%s%s", s, d ? ", " : "", extent_text(g, t->shape[d]));
    return fmt(g, "%s]", s);
}

static int add_tensor(gen *g, tensor t)
{
    if (g->n_tensors == MAX_TENSORS)
        abort();
    g->tensors[g->n_tensors] = t;
    return g->n_tensors++;
}

static void some_shape(gen *g, tensor *t, int most)
{
    int64_t n = 1;
    t->n_dims = below(g, most + 1);
    for (int d = 0; d < t->n_dims; d++) {
        t->shape[d] = g->extents[below(g, 4)];
        if (n * t->shape[d] > MAX_ELEMS)
            t->shape[d] = 1;
        n *= t->shape[d];
    }
}

static void input(gen *g, int index)
{
    tensor t = {.name = tensor_name(g), .bound = 1, .fixed = percent(g, 50)};
    t.dtype = some_type(g, !index && g->mode == GEN_FLOATS && percent(g, 75));
    some_shape(g, &t, index ? 1 : 4);
    if (!dv_is_float(t.dtype))
        t.bound = t.fixed ? 16 : stored_bound(t.dtype, 9);
    if (index) {
        t.limit = g->extents[below(g, 4)];
        t.fixed = 1;
    }
    const char *note = "";
    if (percent(g, 12))
        note = " @ replicate";
    else if (t.n_dims && percent(g, 15))
        note = fmt(g, " @ split(%d)", below(g, t.n_dims));
    else if (t.n_dims > 1 && percent(g, 10))
        note = " @ split(1, 0)";
    const char *memory = index % 3 == 2 ? " @ dram(interleaved)" : "";
    line(g,
         fmt(g, "%s %s: %s%s%s", t.fixed && percent(g, 25) ? "const" : "input",
             t.name, type_text(g, &t), note, memory));
    add_tensor(g, t);
}

// Chooses four extents, some of them params, and sometimes a float param.
static void params(gen *g)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 5, 7};
    static const char *const names[] = {"N", "M", "k", "S", "x", "for", "T"};
    for (int i = 0; i < 4; i++) {
        g->extents[i] = sizes[below(g, 13)];
        const char *name = names[below(g, 7)];
        for (int k = 0; k < i; k++)
            if (g->params[k] && strcmp(g->params[k], name) == 0)
                name = NULL, k = i;
        if (!name || percent(g, 40))
            continue;
        line(g, fmt(g, "param %s = %s", name, extent_text(g, g->extents[i])));
        g->params[i] = name;
    }
    if (percent(g, 40)) {
        g->scale = "scale";
        g->scale_value = 0.75;
        line(g, "param scale = 1.5 / 2");
    }
}

// -- Statements --------------------------------------------------------------

static void start(gen *g)
{
    g->n_vars = 0;
    g->points = 1;
    g->own = -1;
    g->orders = 0;
}

// Returns the `for` clause of the variables that need one.
static const char *ranges(gen *g)
{
    const char *s = "";
    for (int v = 0; v < g->n_vars; v++) {
        const var *x = &g->vars[v];
        int need = 0, seen = 0;
        for (int w = 0; w < g->n_vars; w++) {
            if (strcmp(g->vars[w].name, x->name) != 0)
                continue;
            need |= g->vars[w].need || !g->vars[w].plain;
            seen |= w < v;
        }
        if (seen || (!need && !percent(g, 12)))
            continue;
        s = fmt(g, "%s%s%s in %" PRId64 "..%s", s, s[0] ? ", " : "  for ",
                x->name, x->begin, extent_text(g, x->end));
    }
    return s;
}

static const char *prefix(gen *g)
{
    return percent(g, 8) && !g->orders ? "extern " : "";
}

// Returns the type of a definition: sometimes the one that the language infers,
// sometimes an explicit one.
static const char *spelt_type(gen *g, value v, dv_dtype *out)
{
    int real_value = is_real(v.type);
    if (v.type >= 0 && percent(g, 65)) {
        *out = (dv_dtype)v.type;
        return "";
    }
    *out =
        some_type(g, real_value || (g->mode == GEN_FLOATS && percent(g, 25)));
    if (v.bound > limit_of(g, (int)*out))
        *out = dv_is_float(*out) ? DV_F64 : DV_I64;
    return fmt(g, ": %s", dv_dtype_get(*out)->name);
}

static void define(gen *g)
{
    tensor t = {.name = tensor_name(g), .written = 1};
    start(g);
    some_shape(g, &t, 4);
    const char *left = fmt(g, "%s[", t.name);
    for (int d = 0; d < t.n_dims; d++) {
        int v = bind(g, 0, t.shape[d]);
        g->points *= t.shape[d];
        left = fmt(g, "%s%s%s", left, d ? "," : "", g->vars[v].name);
    }
    int want_real = g->mode == GEN_FLOATS && percent(g, 80);
    value v = any(g, want_real, 1 + below(g, 3));
    t.bound = v.bound < 1 ? 1 : v.bound;
    const char *type = spelt_type(g, v, &t.dtype);
    t.bound = stored_bound(t.dtype, t.bound);
    line(g, fmt(g, "%s%s]%s = %s%s", prefix(g), left, type, v.text, ranges(g)));
    add_tensor(g, t);
}

// Defines a declared temporary b: T[c*n] as a whole through a strided index
// that the language cannot invert.
static void define_temp(gen *g)
{
    int64_t n = g->extents[below(g, 4)], c = 2 + below(g, 2);
    tensor t = {.name = tensor_name(g), .written = 1};
    int want_real = g->mode == GEN_FLOATS && percent(g, 80);
    int back = percent(g, 30), wide = percent(g, 40);
    int64_t m = g->extents[below(g, 4)];
    t.dtype = some_type(g, want_real);
    if (wide)
        t.shape[t.n_dims++] = m;
    t.shape[t.n_dims++] = back ? n : c * n;
    line(g, fmt(g, "temp %s: %s", t.name, type_text(g, &t)));
    start(g);
    const char *row = "";
    if (wide) {
        int v = bind(g, 0, m);
        row = fmt(g, "%s,", g->vars[v].name);
        g->vars[v].need = 1;
        g->points *= m;
    }
    int q = bind(g, 0, n), r = back ? q : bind(g, 0, c);
    g->vars[q].need = g->vars[r].need = 1;
    g->points *= back ? n : c * n;
    const char *qn = g->vars[q].name, *rn = g->vars[r].name;
    const char *at = back ? fmt(g, "%" PRId64 "-%s", n - 1, qn)
                     : percent(g, 50)
                         ? fmt(g, "%" PRId64 "*%s+%s", c, qn, rn)
                         : fmt(g, "%s + %" PRId64 "*%s", qn, n, rn);
    value v = any(g, want_real, 1 + below(g, 2));
    v = tamed(g, v, limit_of(g, (int)t.dtype));
    t.bound = stored_bound(t.dtype, v.bound < 1 ? 1 : v.bound);
    line(g, fmt(g, "%s[%s%s] = %s%s", t.name, row, at, v.text, ranges(g)));
    add_tensor(g, t);
}

// Returns one index of the left side of an update, in most cases a new
// variable.
static const char *left_index(gen *g, int64_t extent)
{
    int kind = below(g, 12);
    // Only a single indirect index is safe: two equal ones would write the same
    // element twice.
    const char *s = kind == 0 && !g->n_vars           ? indirect(g, extent)
                    : g->n_counters && percent(g, 50) ? counted(g, extent, 0)
                                                      : NULL;
    if (s)
        return s;
    if (kind == 1)
        return fmt(g, "%" PRId64, rng_below(&g->r, extent));
    if (kind < 8 || extent < 3) {
        int v = bind(g, 0, extent);
        g->points *= extent;
        g->vars[v].plain = 1;
        return g->vars[v].name;
    }
    int64_t c = extent > 3 && kind > 9 ? 2 : 1;
    int64_t base = below(g, 2), end = (extent - 1 - base) / c;
    int64_t begin = end > 2 ? 1 : 0;
    end = end < 1 ? 1 : end;
    int v = bind(g, begin, end);
    g->points *= end - begin;
    g->vars[v].need = 1;
    if (c == 1 && base == 0)
        return g->vars[v].name;
    return affine(g, g->vars[v].name, c, base);
}

static void update(gen *g)
{
    int t = below(g, g->n_tensors);
    for (int i = 0; i < g->n_tensors && g->tensors[t].fixed; i++)
        t = (t + 1) % g->n_tensors;
    tensor *x = &g->tensors[t];
    if (x->fixed)
        return;
    start(g);
    const char *left = fmt(g, "%s[", x->name);
    for (int d = 0; d < x->n_dims; d++)
        left = fmt(g, "%s%s%s", left, d ? "," : "", left_index(g, x->shape[d]));
    g->own = t;
    value v = any(g, dv_is_float(x->dtype), 1 + below(g, 3));
    v = tamed(g, v, x->bound < 1 ? 1 : x->bound);
    line(g, fmt(g, "%s%s] <- %s%s", prefix(g), left, v.text, ranges(g)));
    x->written = 1;
}

// Declares an input with small values for a statement of its own.
static tensor own_input(gen *g, dv_dtype type, int n, const int64_t *shape)
{
    tensor t = {.name = tensor_name(g), .dtype = type, .n_dims = n, .fixed = 1};
    t.bound = dv_is_float(type) ? 1 : 16;
    memcpy(t.shape, shape, (size_t)n * sizeof *shape);
    line(g, fmt(g, "%s %s: %s", percent(g, 30) ? "const" : "input", t.name,
                type_text(g, &t)));
    add_tensor(g, t);
    return t;
}

// Defines a tensor with the values of another, which it multiplies so that they
// fill its type if integers may wrap.
static tensor spread(gen *g, tensor t)
{
    if (g->mode != GEN_WRAPS || g->n_tensors == MAX_TENSORS)
        return t;
    tensor wide = t;
    wide.name = tensor_name(g);
    line(g, fmt(g, "%s[i,j]: %s = %s[i,j] * %d + %d", wide.name,
                dv_dtype_get(t.dtype)->name, t.name, 29 + below(g, 9),
                below(g, 256)));
    wide.written = 1;
    add_tensor(g, wide);
    return wide;
}

// Adds the result of a sum of products, whose type holds it.
static void add_result(gen *g, const char *name, dv_dtype type, int n,
                       const int64_t *shape, double bound)
{
    tensor t = {.name = name, .dtype = type, .n_dims = n, .written = 1};
    t.bound = bound;
    memcpy(t.shape, shape, (size_t)n * sizeof *shape);
    add_tensor(g, t);
}

// Defines a convolution: windows of up to 3x3 that begin outside of the image,
// with a stride and a dilation.
static void convolve(gen *g)
{
    static const dv_dtype types[] = {DV_F32, DV_F32, DV_F64, DV_BF16,
                                     DV_I8,  DV_U8,  DV_I32};
    if (g->n_tensors > MAX_TENSORS - 3)
        return;
    dv_dtype type =
        types[g->mode == GEN_FLOATS ? below(g, 7) : 4 + below(g, 3)];
    dv_dtype result = !dv_is_float(type) ? DV_I32
                      : type == DV_F64   ? DV_F64
                                         : DV_F32;
    int64_t c = 1 + below(g, 3), o = 1 + below(g, 3), h = 1 + below(g, 7),
            w = 1 + below(g, 7), m = 1 + below(g, 3), n = 1 + below(g, 3);
    int stride = 1 + percent(g, 30), dilation = 1 + percent(g, 20),
        before = below(g, 3), more = below(g, 3);
    int64_t out[] = {o, (h + more + stride - 1) / stride,
                     (w + more + stride - 1) / stride};
    tensor x = own_input(g, type, 3, (int64_t[]){c, h, w});
    tensor k = own_input(g, type, 4, (int64_t[]){o, c, m, n});
    const char *y = tensor_name(g);
    const char *row = fmt(g, "%d*i+%d*a-%d", stride, dilation, before);
    const char *column = fmt(g, "%d*j+%d*b-%d", stride, dilation, before);
    line(g, fmt(g,
                "%s[o,i,j]: %s = %s(sum[c,a,b] %s[o,c,a,b] * (%s[c,%s,%s] else "
                "%d))  for i in 0..%" PRId64 ", j in 0..%" PRId64,
                y, dv_dtype_get(result)->name, percent(g, 40) ? "relu" : "",
                k.name, x.name, row, column, percent(g, 80) ? 0 : 1, out[1],
                out[2]));
    add_result(g, y, result, 3, out, (double)(c * m * n) * x.bound * k.bound);
}

// Defines a product of integers of 8 bits minus zero points.
static void quantised(gen *g)
{
    static const char *const zeros[] = {"", " - 3", " + 128", " - 255"};
    if (g->n_tensors > MAX_TENSORS - 5)
        return;
    int64_t m = 1 + below(g, 9), n = 1 + below(g, 9), k = 1 + below(g, 16);
    dv_dtype types[] = {percent(g, 50) ? DV_U8 : DV_I8,
                        percent(g, 50) ? DV_U8 : DV_I8};
    int64_t shape[] = {m, n};
    tensor a = spread(g, own_input(g, types[0], 2, (int64_t[]){m, k}));
    tensor b = spread(g, own_input(g, types[1], 2, (int64_t[]){k, n}));
    const char *y = tensor_name(g);
    line(g, fmt(g, "%s[i,j]: i32 = sum[k] (%s[i,k]%s) * (%s[k,j]%s)", y, a.name,
                zeros[below(g, 4)], b.name, zeros[below(g, 4)]));
    add_result(g, y, DV_I32, 2, shape, 16 * (271.0 * 271));
}

static void repeat(gen *g, int depth)
{
    static const char *const names[] = {"t", "step", "u"};
    int times = below(g, 4), n = 1 + below(g, 3);
    int counts = percent(g, 60), begin = below(g, 4) - 1;
    int was_dead = g->dead;
    int free_ones = 0;
    for (int i = 0; i < g->n_tensors; i++)
        free_ones += !g->tensors[i].fixed;
    if (!free_ones)
        return;
    if (counts) {
        const char *name = names[g->n_counters];
        g->counters[g->n_counters++] =
            (var){.name = name, .begin = begin, .end = begin + times};
        line(g, fmt(g, "repeat %s in %d..%d {", name, begin, begin + times));
    } else {
        line(g, fmt(g, "repeat %d {", times));
    }
    g->dead |= times == 0;
    g->indent += 4;
    update(g);
    for (int i = 1; i < n; i++) {
        if (depth < 2 && percent(g, 25))
            repeat(g, depth + 1);
        else if (!g->dead && percent(g, 25))
            define(g);
        else
            update(g);
    }
    g->indent -= 4;
    g->dead = was_dead;
    g->n_counters -= counts;
    line(g, "}");
}

static void outputs(gen *g)
{
    int first = 1, last = -1;
    const char *s = "output ";
    for (int i = 0; i < g->n_tensors; i++) {
        if (!g->tensors[i].written)
            continue;
        last = i;
        if (!percent(g, 50))
            continue;
        s = fmt(g, "%s%s%s", s, first ? "" : ", ", g->tensors[i].name);
        first = 0;
    }
    if (first)
        s = fmt(g, "%s%s", s, g->tensors[last < 0 ? 0 : last].name);
    line(g, s);
}

char *gen_program(uint64_t seed, gen_mode mode)
{
    gen g = {.r = {seed * 2 + (uint64_t)mode}, .mode = mode};
    params(&g);
    int n_inputs = 2 + below(&g, 3), n = 2 + below(&g, 5);
    for (int i = 0; i < n_inputs; i++)
        input(&g, 0);
    if (percent(&g, 40))
        input(&g, 1);
    define(&g);
    for (int i = 0; i < n; i++) {
        int kind = below(&g, 10);
        if (percent(&g, 8))
            convolve(&g);
        else if (percent(&g, 5))
            quantised(&g);
        else if (kind < 5)
            define(&g);
        else if (kind < 6)
            define_temp(&g);
        else if (kind < 8)
            update(&g);
        else
            repeat(&g, 0);
    }
    outputs(&g);
    dv_arena_free(&g.arena);
    return dv_text_take(&g.out);
}

// -- Running -----------------------------------------------------------------

uint64_t gen_seed(void)
{
    const char *s = getenv("DV_SEED");
    return s ? strtoull(s, NULL, 10) : 1;
}

int gen_cases(int usual)
{
    const char *s = getenv("DV_CASES");
    if (!s)
        return getenv("DV_SEED") ? 1 : usual;
    long n = strtol(s, NULL, 10) * usual / 100;
    return n < 1 ? 1 : (int)n;
}

void gen_report(const char *property, uint64_t seed, gen_mode mode,
                const char *text, const char *why)
{
    static const char *const modes[] = {"floats", "integers", "wraps"};
    fprintf(stderr,
            "\n%s fails with DV_SEED=%" PRIu64 " (%s): %s\n"
            "----\n%s----\n",
            property, seed, modes[mode], why, text);
}
