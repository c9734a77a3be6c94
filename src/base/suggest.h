// "Did you mean": of the words that would be right, the one that is spelt most
// like a wrong one.
//
//   dv_suggestion s = {"sofmax", 6};
//   dv_suggest(&s, "max");
//   dv_suggest(&s, "softmax");
//   dv_suggestion_text(&s, buf) // "; did you mean 'softmax'?"
#ifndef DV_SUGGEST_H
#define DV_SUGGEST_H
#include <stddef.h>

enum { DV_SUGGESTION_BYTES = 64 };

typedef struct dv_suggestion {
    const char *word; // borrowed, as are candidates
    size_t len;
    const char *best; // NULL: none is similar
    size_t distance;
} dv_suggestion;

void dv_suggest(dv_suggestion *s, const char *candidate);
// The end of a message, in buf; empty where there is nothing to suggest.
const char *dv_suggestion_text(const dv_suggestion *s,
                               char buf[DV_SUGGESTION_BYTES]);
#endif
