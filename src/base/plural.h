// Words in messages that follow a count: "1 op", "2 ops".
#ifndef DV_PLURAL_H
#define DV_PLURAL_H

// Selects the singular or plural of a word, or of its ending, by a count of any
// integer type:
//
//   dv_put(&out, "%zu op%s in %d %s", n, DV_PLURAL(n, "", "s"),
//          m, DV_PLURAL(m, "entry", "entries"));
#define DV_PLURAL(n, one, many) ((n) == 1 ? (one) : (many))
#endif
