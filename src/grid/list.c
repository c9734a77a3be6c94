// Orders of one's own: the user lists the tiles of a matrix in the order in
// which they are to be visited, as in
//
//   list(2x3: 0 1 2 5 4 3
//        4x4: 0 5 10 15 …)
//
// A tile is row * columns + column. A text may have lists for several sizes;
// groups whose result has another size get another order. Comments go from # to
// the end of the line.
#include "grid/grid.h"
#include <inttypes.h>
#include <string.h>

int dv_order_is_list(const char *word)
{
    return word && !strncmp(word, "list(", 5);
}

static const char *skip_space(const char *s)
{
    for (;;) {
        s += strspn(s, " \t\r\n,");
        if (*s != '#')
            return s;
        s += strcspn(s, "\n");
    }
}

// Reads a number of up to nine digits. Returns the text after it, or NULL.
static const char *read_number(const char *s, int64_t *out)
{
    size_t digits = strspn(s, "0123456789");
    if (!digits || digits > 9)
        return NULL;
    *out = 0;
    for (size_t i = 0; i < digits; i++)
        *out = *out * 10 + (s[i] - '0');
    return s + digits;
}

// Reads the size of a matrix in tiles, such as "2x3:". Returns the text after
// it, or NULL if there is no size.
static const char *read_size(const char *s, int64_t *rows, int64_t *cols)
{
    s = read_number(s, rows);
    if (s && *s++ == 'x')
        s = read_number(s, cols);
    else
        s = NULL;
    return s && *s == ':' ? s + 1 : NULL;
}

static dv_status wrong(const char *at, dv_diag *diag)
{
    return dv_fail(
        diag, DV_E_USAGE, DV_NOWHERE,
        "the list of an order has sizes, such as 2x3:, each followed "
        "by the numbers of its tiles; here is '%.20s'",
        at);
}

// Reads the numbers of tiles after a size, up to the next size or the end.
// Stores at most `most` of them in `out`; if it is NULL, only counts them.
static dv_status read_tiles(const char **text, int32_t *out, int64_t most,
                            int64_t *n, dv_diag *diag)
{
    int64_t rows, cols, tile;
    const char *s = skip_space(*text);
    *n = 0;
    while (*s && *s != ')' && !read_size(s, &rows, &cols)) {
        const char *next = read_number(s, &tile);
        if (!next || (*next && !strchr(" \t\r\n,#)", *next)))
            return wrong(s, diag);
        if (out && *n < most)
            out[*n] = (int32_t)tile;
        ++*n;
        s = skip_space(next);
    }
    *text = s;
    return DV_OK;
}

// Fails unless the list has each of the rows * cols tiles exactly once.
static dv_status check(const int32_t *list, int64_t n, int64_t rows,
                       int64_t cols, dv_diag *diag)
{
    int64_t tiles = rows * cols;
    if (n != tiles)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "the order of %" PRId64 "x%" PRId64
                       " tiles lists %" PRId64 ", not %" PRId64,
                       rows, cols, n, tiles);
    char *seen = dv_alloc((size_t)(tiles ? tiles : 1));
    if (!seen)
        return dv_nomem(diag);
    memset(seen, 0, (size_t)tiles);
    dv_status st = DV_OK;
    for (int64_t i = 0; i < n && st == DV_OK; i++) {
        if (list[i] < 0 || list[i] >= tiles)
            st = dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                         "the order of %" PRId64 "x%" PRId64
                         " tiles lists tile %d, they are 0 to %" PRId64,
                         rows, cols, (int)list[i], tiles - 1);
        else if (seen[list[i]]++)
            st = dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                         "the order of %" PRId64 "x%" PRId64
                         " tiles lists tile %d twice",
                         rows, cols, (int)list[i]);
    }
    dv_release(seen);
    return st;
}

dv_status dv_order_list_find(const int32_t **out, const char *word,
                             int64_t rows, int64_t cols, dv_arena *arena,
                             dv_diag *diag)
{
    const char *s = skip_space(word + 5);
    int64_t r, c, n;
    *out = NULL;
    if (rows > DV_ORDER_MAX_LIST || cols > DV_ORDER_MAX_LIST / rows)
        return DV_OK;
    while (*s && *s != ')') {
        const char *tiles = read_size(s, &r, &c);
        if (!tiles)
            return wrong(s, diag);
        int here = r == rows && c == cols;
        if (here && *out)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "there are two lists of %" PRId64 "x%" PRId64
                           " tiles",
                           rows, cols);
        int32_t *list = here ? DV_NEW(arena, int32_t, rows * cols) : NULL;
        if (here && !list)
            return dv_nomem(diag);
        s = tiles;
        DV_TRY(read_tiles(&s, list, rows * cols, &n, diag));
        if (here)
            DV_TRY(check(list, n, rows, cols, diag));
        if (here)
            *out = list;
    }
    return *s == ')' && !*skip_space(s + 1) ? DV_OK : wrong(s, diag);
}
