// Random sums of products: many indices, thin shapes, operands and results with
// their dims in any order, all types, and epilogues. The same seed gives the
// same text.
#ifndef DV_TEST_PRODUCTS_H
#define DV_TEST_PRODUCTS_H
#include "harness/gen.h"
#include <stdio.h>
#include <string.h>

enum { MAX_LETTERS = 8 };

// Writes the letters of `from` in random order, separated by commas.
static void shuffle(rng *r, const char *from, char *to)
{
    char left[MAX_LETTERS + 1];
    snprintf(left, sizeof left, "%s", from);
    *to = 0;
    for (int n = (int)strlen(left); n > 0; n--) {
        int k = (int)rng_below(r, n);
        *to++ = left[k];
        *to++ = n > 1 ? ',' : 0;
        left[k] = left[n - 1];
    }
}

// Declares an input or a constant whose index is a list like "a,c", with the
// letters' sizes.
static int declare(char *to, size_t room, int fixed, const char *dtype,
                   char name, const char *index, const int *size)
{
    int n = snprintf(to, room, "%s %c: %s[", fixed ? "const" : "input", name,
                     dtype);
    for (; *index; index++)
        n += *index == ','
                 ? snprintf(to + n, room - (size_t)n, ", ")
                 : snprintf(to + n, room - (size_t)n, "%d", size[*index - 'a']);
    return n + snprintf(to + n, room - (size_t)n, "]\n");
}

// Index letters by operand: each is a batch index of all three, an index of one
// factor and the result, or summed over.
typedef struct letters {
    char x[MAX_LETTERS + 1], y[MAX_LETTERS + 1], z[MAX_LETTERS + 1];
    char sum[2 * MAX_LETTERS + 1]; // separated by commas
    int size[MAX_LETTERS];
} letters;

static void append(char *to, char c)
{
    size_t n = strlen(to);
    to[n] = c;
    to[n + 1] = 0;
}

// Chooses up to seven letters, with sizes that fit kernels and sizes that do
// not, thin ones and long sums among them. The number of points stays small
// enough for the oracle.
static letters some_letters(rng *r)
{
    static const int sizes[] = {1,  2,  3,  4,  5,  7,   8,   13,  16,  17,
                                29, 37, 64, 65, 96, 130, 200, 513, 1100};
    static const int at_least[] = {0, 1, 1,
                                   1}; // of each type of dimension: c, m, n, k
    letters l = {0};
    int64_t points = 1;
    int n = 0;
    for (int type = 0; type < 4; type++) {
        int count = at_least[type] + (int)rng_below(r, type ? 3 : 2);
        for (int i = 0; i < count && n < MAX_LETTERS; i++, n++) {
            char c = (char)('a' + n);
            int most = type == 3 ? 19 : type ? 14 : 5;
            int size = sizes[rng_below(r, i ? 7 : most)];
            if (points * size > 120000)
                size = 1 + (int)rng_below(r, 3);
            points *= size;
            l.size[n] = size;
            if (type != 2)
                append(l.x, c);
            if (type != 1)
                append(l.y, c);
            if (type != 3)
                append(l.z, c);
            else
                snprintf(l.sum + strlen(l.sum), 3, "%s%c", *l.sum ? "," : "",
                         c);
        }
    }
    return l;
}

// Writes a product with the dims of its factors and its result in any order, an
// epilogue, and a type of the result.
static void some_product(uint64_t seed, char *text, size_t room)
{
    static const char *const types[] = {"f32",  "f32", "f32", "f64",
                                        "bf16", "f16", "i8",  "i32"};
    static const char *const ends[][2] = {{"", ""},
                                          {"relu(", ")"},
                                          {"tanh(", ")"},
                                          {"2.0 + ", ""},
                                          {"exp(-abs(", "))"}};
    static const char *const whole_ends[][2] = {
        {"", ""}, {"relu(", ")"}, {"3 - 2 * ", ""}, {"min(9, ", ")"}};
    rng r = {seed ^ 0x27d4eb2f};
    char at[3][2 * MAX_LETTERS + 2];
    letters l = some_letters(&r);
    shuffle(&r, l.x, at[0]);
    shuffle(&r, l.y, at[1]);
    shuffle(&r, l.z, at[2]);
    int t = (int)rng_below(&r, 8), floats = t < 6;
    const char *type = types[t], *other = type;
    if (t == 4 && rng_percent(&r, 30))
        other = "f32";
    if (!floats && rng_percent(&r, 30))
        other = types[6 + rng_below(&r, 2)];
    const char *const *end =
        floats ? ends[rng_below(&r, 5)] : whole_ends[rng_below(&r, 4)];
    const char *stored = t < 3 && rng_percent(&r, 15) ? ": f16" : "";
    if (!floats)
        stored = rng_percent(&r, 85) ? ": i32" : ": i8";
    int fixed = (int)rng_below(&r, 5); // 3, 4: neither is a constant
    int n =
        declare(text, room, fixed == 0 || fixed == 2, type, 'x', at[0], l.size);
    n += declare(text + n, room - (size_t)n, fixed == 1 || fixed == 2, other,
                 'y', at[1], l.size);
    snprintf(text + n, room - (size_t)n,
             "z[%s]%s = %ssum[%s] x[%s] * y[%s]%s\noutput z\n", at[2], stored,
             end[0], l.sum, at[0], at[1], end[1]);
}
#endif
