#include "mutate.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINES = 1 << 14, MAX_LINE = 1 << 10 };

// A text as lines, each from malloc, without its newline.
typedef struct lines {
    char **at;
    int n;
} lines;

// The lines first..end, without end.
typedef struct span {
    int first, end;
} span;

// -- Lines -----------------------------------------------------------------

static char *copy_of(const char *s, size_t n)
{
    char *out = malloc(n + 1);
    memcpy(out, s, n);
    out[n] = 0;
    return out;
}

static char *same_line(const char *s)
{
    return copy_of(s, strlen(s));
}

// Splits a text into lines without their comments, which only repeat in words
// what the lines say. A '#' begins nothing but a comment.
static lines split_text(const char *text)
{
    lines l = {malloc(MAX_LINES * sizeof *l.at), 0};
    while (*text && l.n < MAX_LINES / 2) {
        size_t n = strcspn(text, "\n"), kept = strcspn(text, "#\n");
        while (kept > 0 && text[kept - 1] == ' ')
            kept--;
        if (kept > 0)
            l.at[l.n++] = copy_of(text, kept);
        text += n + (text[n] != 0);
    }
    return l;
}

static char *join_lines(const lines *l)
{
    size_t size = 1;
    for (int i = 0; i < l->n; i++)
        size += strlen(l->at[i]) + 1;
    char *out = malloc(size), *to = out;
    for (int i = 0; i < l->n; i++) {
        size_t n = strlen(l->at[i]);
        memcpy(to, l->at[i], n);
        to[n] = '\n';
        to += n + 1;
    }
    *to = 0;
    return out;
}

static void free_lines(lines *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->at[i]);
    free(l->at);
}

static void remove_lines(lines *l, span s)
{
    int n = s.end - s.first;
    for (int i = s.first; i < s.end; i++)
        free(l->at[i]);
    memmove(l->at + s.first, l->at + s.end,
            (size_t)(l->n - s.end) * sizeof *l->at);
    l->n -= n;
}

// Inserts copies of lines of another text, or of the same, before line `to`.
static void insert_copy(lines *l, const lines *from, span s, int to)
{
    int n = s.end - s.first;
    if (l->n + n > MAX_LINES)
        return;
    char **copies = malloc((size_t)n * sizeof *copies);
    for (int i = 0; i < n; i++)
        copies[i] = same_line(from->at[s.first + i]);
    memmove(l->at + to + n, l->at + to, (size_t)(l->n - to) * sizeof *l->at);
    memcpy(l->at + to, copies, (size_t)n * sizeof *copies);
    l->n += n;
    free(copies);
}

static void exchange_lines(lines *l, int a, int b)
{
    char *was = l->at[a];
    l->at[a] = l->at[b];
    l->at[b] = was;
}

// -- Sections --------------------------------------------------------------

// Does this line begin a section that may be changed? Sections begin with a
// word in the first column and end with '}' there.
static int wanted(const char *line, int sections)
{
    if (!isalpha((unsigned char)line[0]) || !strchr(line, '{'))
        return 0;
    if (!strncmp(line, "program", 7) || !strncmp(line, "source", 6))
        return 0;
    return sections & (strncmp(line, "dist", 4) ? MUTATE_OTHERS : MUTATE_DIST);
}

// Finds the programs of ranks, which stand inside section ranks.
static int find_programs(const lines *l, span *out, int most)
{
    static const char begin[] = "        program ", end[] = "        }";
    int n = 0;
    for (int i = 0; i < l->n && n < most; i++) {
        if (strncmp(l->at[i], begin, sizeof begin - 1) != 0)
            continue;
        int k = i + 1;
        while (k < l->n && strncmp(l->at[k], end, sizeof end - 1) != 0)
            k++;
        if (k < l->n)
            out[n++] = (span){i, k + 1};
    }
    return n;
}

static int find_sections(const lines *l, int sections, span *out, int most)
{
    int n = 0;
    if (sections == MUTATE_RANKS)
        return find_programs(l, out, most);
    for (int i = 0; i < l->n && n < most; i++) {
        if (!wanted(l->at[i], sections))
            continue;
        int end = i + 1;
        while (end < l->n && l->at[end][0] != '}')
            end++;
        if (end < l->n)
            out[n++] = (span){i, end + 1};
    }
    return n;
}

static int opens(const char *line)
{
    size_t n = strlen(line);
    return n > 0 && line[n - 1] == '{';
}

static int closes(const char *line)
{
    return line[strspn(line, " ")] == '}';
}

// Returns the line, or the block that it opens or closes.
static span block_at(const lines *l, span in, int i)
{
    span b = {i, i + 1};
    if (opens(l->at[i]) && i > in.first) {
        for (int depth = 1; depth > 0 && b.end < in.end; b.end++)
            depth += opens(l->at[b.end]) - closes(l->at[b.end]);
    } else if (closes(l->at[i]) && i + 1 < in.end) {
        for (int depth = 1; depth > 0 && b.first > in.first + 1; b.first--)
            depth += closes(l->at[b.first - 1]) - opens(l->at[b.first - 1]);
    }
    return b;
}

// -- Words and numbers -----------------------------------------------------

static int is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '+';
}

// A dash in place of a number means that there is no axis.
static int is_dash(const char *line, int i)
{
    return line[i] == '-' && i > 0 &&
           (line[i - 1] == '[' || line[i - 1] == ' ');
}

// Finds the words of a line that begin with a letter, or its numbers.
static int tokens_of(const char *line, int numbers, span *out, int most)
{
    int n = 0;
    for (int i = 0; line[i] && n < most;) {
        int end = i;
        while (is_word(line[end]))
            end++;
        if (end == i && !(numbers && is_dash(line, i))) {
            i++;
            continue;
        }
        if (end == i)
            end++;
        if (line[i] == '-' || !!isdigit((unsigned char)line[i]) == numbers)
            out[n++] = (span){i, end};
        i = end;
    }
    return n;
}

static void replace(char **line, span at, const char *by)
{
    size_t n = strlen(*line), size = n + strlen(by) + 1;
    char *out = malloc(size);
    snprintf(out, size, "%.*s%s%s", at.first, *line, by, *line + at.end);
    free(*line);
    *line = out;
}

// Picks a random token of a random line of a section; returns 0 if that line
// has none.
static int pick_token(rng *r, const lines *l, span in, int numbers, int *line,
                      span *token)
{
    span found[64];
    *line = in.first + (int)rng_below(r, in.end - in.first);
    int n = tokens_of(l->at[*line], numbers, found, 64);
    if (n > 0)
        *token = found[rng_below(r, n)];
    return n > 0;
}

static int64_t other_number(rng *r, int64_t n)
{
    switch (rng_below(r, 8)) {
    case 0:
    case 1:
        return n + 1;
    case 2:
    case 3:
        return n - 1;
    case 4:
        return n < INT64_MAX / 2 ? 2 * n : n;
    case 5:
        return n / 2;
    case 6:
        return 0;
    default:
        return rng_below(r, 70);
    }
}

// Changes a number, in one place or wherever the section has the same number.
static void change_number(rng *r, lines *l, span in)
{
    int line;
    span token, found[64];
    char was[32], by[32];
    if (!pick_token(r, l, in, 1, &line, &token) ||
        token.end - token.first >= (int)sizeof was)
        return;
    memcpy(was, l->at[line] + token.first, (size_t)(token.end - token.first));
    was[token.end - token.first] = 0;
    int64_t n = other_number(r, strtoll(was, NULL, 10));
    if (n < 0 && rng_percent(r, 80))
        snprintf(by, sizeof by, "-");
    else
        snprintf(by, sizeof by, "%" PRId64, n);
    if (rng_percent(r, 80)) {
        replace(&l->at[line], token, by);
        return;
    }
    for (int i = in.first; i < in.end; i++) {
        int n_found = tokens_of(l->at[i], 1, found, 64);
        for (int k = n_found - 1; k >= 0; k--)
            if (!strncmp(l->at[i] + found[k].first, was, strlen(was)) &&
                (int)strlen(was) == found[k].end - found[k].first)
                replace(&l->at[i], found[k], by);
    }
}

// Swaps two tokens of the section, or replaces one by the other.
static void exchange_tokens(rng *r, lines *l, span in, int numbers)
{
    int a, b;
    span x, y;
    if (!pick_token(r, l, in, numbers, &a, &x))
        return;
    span near = rng_percent(r, 50) ? (span){a, a + 1} : in;
    if (!pick_token(r, l, near, numbers, &b, &y) ||
        (a == b && x.first == y.first))
        return;
    char *one = copy_of(l->at[a] + x.first, (size_t)(x.end - x.first));
    char *two = copy_of(l->at[b] + y.first, (size_t)(y.end - y.first));
    int both = rng_percent(r, 70);
    if (a == b && x.first > y.first) { // replace the later token first, so that
                                       // positions stay valid
        replace(&l->at[a], x, two);
        if (both)
            replace(&l->at[b], y, one);
    } else {
        if (both)
            replace(&l->at[b], y, one);
        replace(&l->at[a], x, two);
    }
    free(one);
    free(two);
}

// -- Ranges ----------------------------------------------------------------

// Splits a line with a range a..b into two lines that share it, or shortens the
// range.
static void split_range(rng *r, lines *l, span in)
{
    int line = in.first + (int)rng_below(r, in.end - in.first);
    const char *dots = strstr(l->at[line], "..");
    if (!dots || opens(l->at[line]))
        return;
    for (const char *next = strstr(dots + 2, ".."); next && rng_percent(r, 50);
         next = strstr(next + 2, ".."))
        dots = next;
    int at = (int)(dots - l->at[line]), first = at;
    while (first > 0 && isdigit((unsigned char)l->at[line][first - 1]))
        first--;
    int end = at + 2 + (int)strspn(dots + 2, "0123456789");
    int64_t low = strtoll(l->at[line] + first, NULL, 10);
    int64_t high = strtoll(dots + 2, NULL, 10);
    if (high - low < 2)
        return;
    char by[32];
    snprintf(by, sizeof by, "%" PRId64, low + 1 + rng_below(r, high - low - 1));
    insert_copy(l, l, (span){line, line + 1}, line);
    replace(&l->at[line], (span){at + 2, end}, by);
    replace(&l->at[line + 1], (span){first, at}, by);
}

// -- All of it -------------------------------------------------------------

static void shuffle(rng *r, lines *l, span in)
{
    for (int i = in.end - 1; i > in.first; i--)
        exchange_lines(l, i, in.first + (int)rng_below(r, i - in.first + 1));
}

// Shuffles the lines inside a block, without those that open and close it.
static void shuffle_block(rng *r, lines *l, span in, int i)
{
    span b = block_at(l, in, i);
    if (b.end - b.first > 3)
        shuffle(r, l, (span){b.first + 1, b.end - 1});
}

// Returns another line inside the section: most of the time one with the same
// first word as line i, so that the text stays readable.
static int line_like(rng *r, const lines *l, span in, int i)
{
    int k = i, n = in.end - in.first - 2;
    for (int tries = 0; tries < 20; tries++) {
        k = in.first + 1 + (int)rng_below(r, n);
        if (k != i && strspn(l->at[k], " ") == strspn(l->at[i], " ") &&
            opens(l->at[k]) == opens(l->at[i]) &&
            closes(l->at[k]) == closes(l->at[i]))
            break;
    }
    return k;
}

static void move_block(rng *r, lines *l, span in, int i, int keep)
{
    span b = block_at(l, in, i);
    int to = rng_percent(r, 80)
                 ? line_like(r, l, in, i)
                 : in.first + 1 + (int)rng_below(r, in.end - in.first - 1);
    if (to > b.first && to < b.end)
        return;
    insert_copy(l, l, b, to);
    if (keep)
        return;
    int n = to <= b.first ? b.end - b.first : 0;
    remove_lines(l, (span){b.first + n, b.end + n});
}

// Replaces the section, or a line or block of it, by that of another plan of
// the program.
static void borrow(rng *r, lines *l, span in, const lines *donor, int sections)
{
    span found[16], from = {0, 0};
    size_t name = strcspn(l->at[in.first], " ");
    int n = find_sections(donor, sections, found, 16);
    for (int i = 0; i < n; i++)
        if (!strncmp(donor->at[found[i].first], l->at[in.first], name + 1))
            from = found[i];
    if (from.end - from.first < 3 || in.end - in.first < 3)
        return;
    if (rng_percent(r, 30)) {
        insert_copy(l, donor, from, in.end);
        remove_lines(l, in);
        return;
    }
    int i = in.first + 1 + (int)rng_below(r, in.end - in.first - 2);
    int k = from.first + 1 + (int)rng_below(r, from.end - from.first - 2);
    span old = block_at(l, in, i), new = block_at(donor, from, k);
    insert_copy(l, donor, new, old.end);
    if (rng_percent(r, 80))
        remove_lines(l, old);
}

// Finds the ops a..b in the first line of a group; returns 0 if the line is not
// the first of a group.
static int ops_of(const char *line, span at[2], int *a, int *b)
{
    span found[8];
    if (strncmp(line, "    group ops ", 14) != 0 ||
        tokens_of(line, 1, found, 8) < 3)
        return 0;
    at[0] = found[0];
    at[1] = found[1];
    *a = atoi(line + at[0].first);
    *b = atoi(line + at[1].first);
    return 1;
}

static void set_number(char **line, span at, int n)
{
    char by[16];
    snprintf(by, sizeof by, "%d", n);
    replace(line, at, by);
}

// Merges two neighbouring groups into one with the tiles of the first, or
// splits a group into two with the same tiles.
static void regroup(rng *r, lines *l, span in)
{
    span at[2], next_at[2];
    int i = in.first + 1 + (int)rng_below(r, in.end - in.first - 2), a, b, c, d;
    while (i > in.first && !ops_of(l->at[i], at, &a, &b))
        i--;
    if (i == in.first)
        return;
    span block = block_at(l, in, i);
    if (b - a > 1 && rng_percent(r, 50)) {
        int middle = a + 1 + (int)rng_below(r, b - a - 1);
        insert_copy(l, l, block, block.end);
        set_number(&l->at[i], at[1], middle);
        set_number(&l->at[block.end], at[0], middle);
    } else if (block.end < in.end &&
               ops_of(l->at[block.end], next_at, &c, &d) && c == b) {
        set_number(&l->at[i], at[1], d);
        remove_lines(l, block_at(l, in, block.end));
    }
}

static void change_section(rng *r, lines *l, span in)
{
    if (!strncmp(l->at[in.first], "groups ", 7) && in.end - in.first > 2 &&
        rng_percent(r, 25)) {
        regroup(r, l, in);
        return;
    }
    int last = in.end - in.first - 2; // inside the section
    int i = in.first + 1 + (last > 0 ? (int)rng_below(r, last) : 0);
    int what = (int)rng_below(r, 100);
    if (what < 35)
        change_number(r, l, in);
    else if (what < 47)
        exchange_tokens(r, l, in, 1);
    else if (what < 54)
        exchange_tokens(r, l, in, 0);
    else if (last <= 0)
        remove_lines(l, in);
    else if (what < 62)
        exchange_lines(l, i, line_like(r, l, in, i));
    else if (what < 68)
        shuffle_block(r, l, in, i);
    else if (what < 75)
        move_block(r, l, in, i, 0);
    else if (what < 82)
        move_block(r, l, in, i, 1);
    else if (what < 89)
        remove_lines(l, block_at(l, in, i));
    else if (what < 98)
        split_range(r, l, in);
    else
        remove_lines(l, in);
}

// Renumbers the homes: the reader refuses homes that are not numbered in order,
// and other rules should have to find the mistake.
static void number_homes(lines *l)
{
    span found[16];
    int n = find_sections(l, MUTATE_OTHERS, found, 16);
    for (int s = 0; s < n; s++) {
        if (strncmp(l->at[found[s].first], "scratch ", 8) != 0)
            continue;
        for (int i = found[s].first + 1; i + 1 < found[s].end; i++) {
            char by[16];
            int digits = (int)strcspn(l->at[i], ":");
            snprintf(by, sizeof by, "    %d", i - found[s].first - 1);
            replace(&l->at[i], (span){0, digits}, by);
        }
    }
}

// Makes one change most of the time, sometimes several, which may cancel each
// other. Returns 0 if the text has no such section.
static int change_text(rng *r, lines *l, const lines *donor, int sections)
{
    span found[16];
    int changes = rng_percent(r, 70) ? 1 : 2 + (int)rng_below(r, 3);
    for (int i = 0; i < changes; i++) {
        int n = find_sections(l, sections, found, 16);
        if (n == 0)
            return i > 0;
        span in = found[rng_below(r, n)];
        if (!strncmp(l->at[in.first], "target ", 7) && rng_percent(r, 80))
            in = found[n - 1]; // the plan uses little of the section target
        if (rng_percent(r, 20))
            borrow(r, l, in, donor, sections);
        else
            change_section(r, l, in);
    }
    if (rng_percent(r, 90))
        number_homes(l);
    return 1;
}

char *mutate_plan(rng *r, const char *text, const char *donor, int sections)
{
    lines l = split_text(text), other = split_text(donor);
    char *before = join_lines(&l), *after = NULL;
    // Some changes leave the text as it is: try again.
    for (int i = 0; i < 100 && !after; i++) {
        if (!change_text(r, &l, &other, sections))
            break;
        after = join_lines(&l);
        if (!strcmp(before, after)) {
            free(after);
            after = NULL;
        }
    }
    free(before);
    free_lines(&l);
    free_lines(&other);
    return after;
}
