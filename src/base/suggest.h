// Suggestions for misspelt words ("did you mean"): finds the valid word that is
// most similar to a given one.
//
//   dv_suggestion s = {"sofmax", 6};
//   dv_suggest(&s, "max");
//   dv_suggest(&s, "softmax");
//   dv_suggestion_text(&s, buf) // "; did you mean 'softmax'?"
//
// With .lists = 1 the text is "; there are max, softmax" if none is similar.
#ifndef DV_SUGGEST_H
#define DV_SUGGEST_H
#include <stddef.h>

enum { DV_SUGGESTION_BYTES = 160 };

typedef struct dv_suggestion {
    const char *word; // the misspelt word; borrowed, as are candidates
    size_t len;
    const char *best; // best candidate so far; NULL if none is similar
    size_t distance;
    int lists; // 1: if no candidate is similar, the text lists the first ones
    int n;     // number of candidates
    // The candidates, separated by commas, as many as fit.
    char list[DV_SUGGESTION_BYTES - 32];
} dv_suggestion;

void dv_suggest(dv_suggestion *s, const char *candidate);
// Writes the suggestion, to be appended to a message, into buf; empty if there
// is none.
const char *dv_suggestion_text(const dv_suggestion *s,
                               char buf[DV_SUGGESTION_BYTES]);
#endif
