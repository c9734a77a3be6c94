// Draws placements, as SVG and as letters for the terminal.
#include "cli/picture.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct extent {
    int64_t from, to;
} extent;

// Returns the range of ticks that all stays cover (a stay is a period in which
// a buffer is at one address).
static extent time_of(const dv_placement *p)
{
    extent e = {0, 1};
    for (size_t k = 0; k < p->n_stays; k++) {
        const dv_stay *s = &p->stays[k];
        if (k == 0 || s->start < e.from)
            e.from = s->start;
        if (k == 0 || s->end > e.to)
            e.to = s->end;
    }
    return e;
}

enum { WIDTH = 1200, HEIGHT = 700, LEFT = 110, TOP = 20, BOTTOM = 40 };

static void put_escaped(dv_text *out, const char *s)
{
    for (; s && *s; s++)
        switch (*s) {
        case '<':
            dv_put(out, "&lt;");
            break;
        case '>':
            dv_put(out, "&gt;");
            break;
        case '&':
            dv_put(out, "&amp;");
            break;
        case '"':
            dv_put(out, "&quot;");
            break;
        default:
            dv_put(out, "%c", (unsigned char)*s < 32 ? '?' : *s);
        }
}

static void put_stay(dv_text *out, const dv_stay *s, const dv_buffer *b,
                     extent time, double per_byte)
{
    double per_tick = WIDTH / (double)(time.to - time.from);
    double x = LEFT + (double)(s->start - time.from) * per_tick;
    double w = (double)(s->end - s->start) * per_tick;
    double h = (double)b->size_bytes * per_byte;
    double y = TOP + HEIGHT - (double)s->address * per_byte - h;
    // Consecutive buffers get hues that are far apart.
    int hue = (int)((int64_t)s->buffer * 137 % 360);
    dv_put(out,
           "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
           "fill=\"hsl(%d,60%%,72%%)\"><title>",
           x, y, w, h, hue);
    put_escaped(out, b->name);
    dv_put(out,
           ": %" PRId64 " bytes at %" PRId64 ", ticks %" PRId64 "..%" PRId64
           "</title></rect>\n",
           b->size_bytes, s->address, s->start, s->end);
    if (h < 11 || w < 8.0 * (double)(b->name ? strlen(b->name) : 0) || !b->name)
        return;
    dv_put(out, "<text x=\"%.2f\" y=\"%.2f\">", x + w / 2, y + h / 2 + 4);
    put_escaped(out, b->name);
    dv_put(out, "</text>\n");
}

void cli_draw_svg(dv_text *out, const dv_placement *p, const dv_buffer *b,
                  int64_t capacity)
{
    extent time = time_of(p);
    double per_byte = HEIGHT / (double)(capacity > 0 ? capacity : 1);
    dv_put(out,
           "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
           "font-family=\"sans-serif\" font-size=\"11\">\n"
           "<g stroke=\"#444\" stroke-width=\"0.5\">\n"
           "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
           "fill=\"#fafafa\"/>\n</g>\n"
           "<g stroke=\"#444\" stroke-width=\"0.3\" text-anchor=\"middle\">\n",
           LEFT + WIDTH + 20, TOP + HEIGHT + BOTTOM, LEFT, TOP, WIDTH, HEIGHT);
    for (size_t k = 0; k < p->n_stays; k++)
        put_stay(out, &p->stays[k], &b[p->stays[k].buffer], time, per_byte);
    dv_put(out,
           "</g>\n<g text-anchor=\"end\">\n"
           "<text x=\"%d\" y=\"%d\">%" PRId64 "</text>\n"
           "<text x=\"%d\" y=\"%d\">0</text>\n</g>\n",
           LEFT - 6, TOP + 8, capacity, LEFT - 6, TOP + HEIGHT);
    dv_put(out,
           "<text x=\"%d\" y=\"%d\">tick %" PRId64 "</text>\n"
           "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%" PRId64
           "</text>\n</svg>\n",
           LEFT, TOP + HEIGHT + 16, time.from, LEFT + WIDTH, TOP + HEIGHT + 16,
           time.to);
}

enum { COLUMNS = 64, ROWS = 16 };

// Returns the letter that stands for buffer i.
static char letter_of(int32_t i)
{
    return "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[i % 52];
}

// Returns the range of cells, out of n, whose centres are in begin..end, where
// all n cells cover 0..all.
static extent cells(int64_t begin, int64_t end, int64_t all, int n)
{
    double scale = n / (double)all;
    extent e = {(int64_t)((double)begin * scale + 0.5),
                (int64_t)((double)end * scale + 0.5)};
    e.to = e.to > n ? n : e.to;
    return e;
}

// Lists the name of each letter's buffer, in lines of at most 80 columns. A
// buffer that has no cell of the drawing is marked as too small.
static void put_legend(dv_text *out, const dv_placement *p, const dv_buffer *b,
                       char grid[ROWS][COLUMNS + 1])
{
    enum { INDENT = 14, LINE = 80, N_LETTERS = 52 };
    size_t column = 0;
    for (size_t k = 0; k < p->n_stays; k++) {
        int32_t i = p->stays[k].buffer;
        int seen = i >= N_LETTERS, drawn = 0;
        for (size_t j = 0; j < k; j++)
            seen |= p->stays[j].buffer == i;
        if (seen || !b[i].name)
            continue;
        for (int row = 0; row < ROWS; row++)
            drawn |= strchr(grid[row], letter_of(i)) != NULL;
        const char *small = drawn ? "" : " (too small)";
        size_t width = strlen(b[i].name) + strlen(small) + 5;
        if (column == 0 || column + width > LINE)
            dv_put(out, "%s%*s", column ? ",\n" : "", INDENT, "");
        else
            dv_put(out, ", ");
        column = column == 0 || column + width > LINE ? INDENT : column;
        dv_put(out, "%c: %s%s", letter_of(i), b[i].name, small);
        column += width;
    }
    dv_put(out, "%s", column ? "\n" : "");
}

void cli_draw_text(dv_text *out, const dv_placement *p, const dv_buffer *b,
                   int64_t capacity)
{
    char grid[ROWS][COLUMNS + 1];
    extent time = time_of(p);
    memset(grid, '.', sizeof grid);
    for (int row = 0; row < ROWS; row++)
        grid[row][COLUMNS] = 0;
    for (size_t k = 0; k < p->n_stays && capacity > 0; k++) {
        const dv_stay *s = &p->stays[k];
        const dv_buffer *o = &b[s->buffer];
        extent x = cells(s->start - time.from, s->end - time.from,
                         time.to - time.from, COLUMNS);
        extent y =
            cells(s->address, s->address + o->size_bytes, capacity, ROWS);
        for (int64_t row = y.from; row < y.to; row++)
            for (int64_t col = x.from; col < x.to; col++)
                grid[row][col] = letter_of(s->buffer);
    }
    for (int row = ROWS - 1; row >= 0; row--) {
        char label[24] = "";
        if (row == ROWS - 1)
            snprintf(label, sizeof label, "%" PRId64, capacity);
        dv_put(out, "%12s |%s|\n", row ? label : "0", grid[row]);
    }
    dv_put(out, "%12s  %-32" PRId64 "%32" PRId64 "\n", "tick", time.from,
           time.to);
    put_legend(out, p, b, grid);
}
