#include "base/suggest.h"
#include <stdio.h>
#include <string.h>

enum { MAX_NAME = 32 }; // longer words are not compared

// Returns the edit distance: the number of letters changed, inserted, removed
// or swapped with their neighbour (optimal string alignment).
static size_t distance(const char *a, size_t n, const char *b)
{
    size_t rows[3][MAX_NAME + 1], m = strlen(b);
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++)
        last[j] = before[j] = j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t d = last[j - 1] + (a[i - 1] != b[j - 1]);
            d = last[j] + 1 < d ? last[j] + 1 : d;
            d = row[j - 1] + 1 < d ? row[j - 1] + 1 : d;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1] && before[j - 2] + 1 < d)
                d = before[j - 2] + 1;
            row[j] = d;
        }
        size_t *old = before;
        before = last;
        last = row;
        row = old;
    }
    return last[m];
}

// Appends a candidate to the list; from the first one that does not fit on, the
// list ends with "...".
static void append(dv_suggestion *s, const char *candidate)
{
    static const char more[] = ", ...";
    size_t len = strlen(s->list), room = sizeof s->list - len;
    s->n++;
    if (len >= sizeof more && !strcmp(s->list + len + 1 - sizeof more, more))
        return;
    int fits = strlen(candidate) + 2 + sizeof more <= room;
    snprintf(s->list + len, room, "%s%s", len ? ", " : "",
             fits ? candidate : "...");
}

void dv_suggest(dv_suggestion *s, const char *candidate)
{
    if (s->lists)
        append(s, candidate);
    if (s->len > MAX_NAME || strlen(candidate) > MAX_NAME)
        return;
    size_t d = distance(s->word, s->len, candidate);
    if ((!s->best || d < s->distance) && d <= 1 + s->len / 4 && d < s->len) {
        s->best = candidate;
        s->distance = d;
    }
}

const char *dv_suggestion_text(const dv_suggestion *s,
                               char buf[DV_SUGGESTION_BYTES])
{
    buf[0] = 0;
    if (s->best)
        snprintf(buf, DV_SUGGESTION_BYTES, "; did you mean '%s'?", s->best);
    else if (s->lists && s->n)
        snprintf(buf, DV_SUGGESTION_BYTES, "; there %s %s",
                 s->n > 1 ? "are" : "is", s->list);
    return buf;
}
