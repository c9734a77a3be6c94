#include "base/text.h"
#include "base/hash.h"
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int room(dv_text *t, size_t more)
{
    if (t->failed)
        return 0;
    if (more < t->cap - t->len)
        return 1;
    size_t cap = t->cap ? t->cap : 128;
    while (cap - t->len <= more)
        cap *= 2;
    char *p = dv_realloc(t->at, cap);
    if (!p) {
        t->failed = 1;
        return 0;
    }
    t->at = p;
    t->cap = cap;
    return 1;
}

void dv_put_bytes(dv_text *t, const char *bytes, size_t n)
{
    if (!room(t, n))
        return;
    memcpy(t->at + t->len, bytes, n);
    t->len += n;
    t->at[t->len] = 0;
}

// Writes the decimal digits of v to `out`, which has 20 bytes or more. Returns
// their number.
static size_t put_digits(char *out, int64_t v)
{
    char digits[20];
    uint64_t rest = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    size_t n = 0, len = 0;
    do
        digits[n++] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (v < 0)
        out[len++] = '-';
    while (n)
        out[len++] = digits[--n];
    return len;
}

// A fast path for formats whose conversions are all %s, %d or PRId64, several
// times as fast as vsnprintf; nearly all text of a plan is of this kind.
// Returns the length, or -1 if there is another conversion or no room.
static int format_plain(char *out, size_t cap, const char *fmt, va_list ap)
{
    enum { DIGITS = 20 };
    size_t len = 0;
    for (; *fmt; fmt++) {
        const char *s = fmt;
        size_t n = 1;
        if (*fmt != '%') {
            n = strcspn(fmt, "%");
            fmt += n - 1;
        } else if (fmt[1] == 's') {
            s = va_arg(ap, const char *);
            n = s ? strlen(s) : cap;
            fmt++;
        } else {
            int wide = !strncmp(fmt + 1, PRId64, sizeof PRId64 - 1);
            if ((!wide && fmt[1] != 'd') || len + DIGITS >= cap)
                return -1;
            int64_t v = wide ? va_arg(ap, int64_t) : va_arg(ap, int);
            len += put_digits(out + len, v);
            fmt += wide ? sizeof PRId64 - 1 : 1;
            continue;
        }
        if (n >= cap - len)
            return -1;
        memcpy(out + len, s, n);
        len += n;
    }
    return (int)len;
}

void dv_put(dv_text *t, const char *fmt, ...)
{
    char small[256];
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = format_plain(small, sizeof small, fmt, ap);
    va_end(ap);
    if (n < 0) {
        va_copy(ap, again);
        n = vsnprintf(small, sizeof small, fmt, ap);
        va_end(ap);
    }
    if (n >= 0 && (size_t)n < sizeof small) {
        dv_put_bytes(t, small, (size_t)n);
    } else if (n >= 0 && room(t, (size_t)n)) {
        vsnprintf(t->at + t->len, (size_t)n + 1, fmt, again);
        t->len += (size_t)n;
    }
    va_end(again);
}

char *dv_text_take(dv_text *t)
{
    if (!t->failed && !t->at)
        dv_put_bytes(t, "", 0);
    char *p = t->failed ? NULL : t->at;
    if (t->failed)
        dv_release(t->at);
    *t = (dv_text){0};
    return p;
}

void dv_text_free(dv_text *t)
{
    dv_release(t->at);
    *t = (dv_text){0};
}

// Returns the locale's decimal point, which may have several bytes.
static const char *point(void)
{
    const char *p = localeconv()->decimal_point;
    return *p ? p : ".";
}

double dv_parse_double(const char *s, size_t len)
{
    char small[64], *buf = small;
    size_t n = 0, whole = 0;
    int64_t sum = 0;
    while (whole < len && whole < 15 && s[whole] >= '0' && s[whole] <= '9')
        sum = sum * 10 + (s[whole++] - '0');
    if (whole == len && len > 0)
        // Fast path for integers of up to 15 digits, which are exact.
        return (double)sum;
    const char *p = point();
    size_t point_len = strlen(p);
    if (len + point_len >= sizeof small) {
        // If the number is too long for the stack buffer, copy its digits to
        // the heap, since digits beyond a double's precision still affect the
        // exponent.
        buf = dv_alloc(len + point_len + 1);
        if (!buf)
            return NAN;
    }
    int pointed = 0; // 1 after the decimal point: a second one ends the number
    for (size_t i = 0; i < len && !(pointed && s[i] == '.'); i++) {
        if (s[i] != '.') {
            buf[n++] = s[i];
            continue;
        }
        memcpy(buf + n, p, point_len);
        n += point_len;
        pointed = 1;
    }
    buf[n] = 0;
    double v = strtod(buf, NULL);
    if (buf != small)
        dv_release(buf);
    return v;
}

// Finds the fewest digits that read back as v, without a point, and returns the
// power of ten of the first digit: 0.125 gives "125" and -1.
static int shortest(double v, char digits[24])
{
    char buf[48];
    for (int n = 0; n <= 16; n++) {
        snprintf(buf, sizeof buf, "%.*e", n, v);
        if (strtod(buf, NULL) == v)
            break;
    }
    int len = 0;
    char *e = strchr(buf, 'e');
    for (const char *c = buf; c < e; c++)
        if (*c >= '0' && *c <= '9')
            digits[len++] = *c;
    while (len > 1 && digits[len - 1] == '0')
        len--;
    digits[len] = 0;
    return atoi(e + 1);
}

void dv_put_double(dv_text *t, double v)
{
    if (isinf(v) || isnan(v)) {
        dv_put(t, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    char digits[24];
    int power = v == 0 ? 0 : shortest(fabs(v), digits);
    if (v == 0)
        strcpy(digits, "0");
    int len = (int)strlen(digits);
    dv_put(t, "%s", signbit(v) ? "-" : "");
    if (power < -4 || power > 15)
        dv_put(t, "%c%s%se%d", digits[0], len > 1 ? "." : "", digits + 1,
               power);
    else if (power < 0)
        dv_put(t, "0.%.*s%s", -power - 1, "0000", digits);
    else if (len <= power + 1)
        dv_put(t, "%s%.*s.0", digits, power + 1 - len, "0000000000000000");
    else
        dv_put(t, "%.*s.%s", power + 1, digits, digits + power + 1);
}

void dv_put_byte_size(dv_text *t, int64_t bytes)
{
    static const char *const unit[] = {"", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int u = 0;
    int64_t div = 1;
    while (u < 5 && bytes / div >= 1024) {
        div *= 1024;
        u++;
    }
    // Two truncated decimals, independent of the locale; a trailing 0 is
    // dropped.
    int64_t part = bytes % div * 100 / div;
    dv_put(t, "%" PRId64, bytes / div);
    if (bytes % div && part % 10)
        dv_put(t, ".%02" PRId64, part);
    else if (bytes % div)
        dv_put(t, ".%" PRId64, part / 10);
    dv_put(t, "%s", unit[u]);
}

struct dv_slot {
    const char *key;
    size_t len;
    uint64_t hash;
    int32_t value;
};

static uint64_t hash_of(const char *key, size_t len)
{
    uint64_t h = dv_hash(DV_HASH, key, len);
    return h ^ h >> 32;
}

// Returns the slot that holds a key, or the empty slot where it would be
// inserted.
static struct dv_slot *find(const dv_table *t, const char *key, size_t len,
                            uint64_t hash)
{
    for (size_t i = hash & (t->cap - 1);; i = (i + 1) & (t->cap - 1)) {
        struct dv_slot *s = &t->slots[i];
        if (!s->key ||
            (s->hash == hash && s->len == len && memcmp(s->key, key, len) == 0))
            return s;
    }
}

int32_t dv_table_get(const dv_table *t, const char *key, size_t len,
                     int32_t missing)
{
    if (!t->cap)
        return missing;
    const struct dv_slot *s = find(t, key, len, hash_of(key, len));
    return s->key ? s->value : missing;
}

int dv_table_set(dv_table *t, dv_arena *a, const char *key, size_t len,
                 int32_t value)
{
    if (t->n * 2 >= t->cap) {
        dv_table big = {.cap = t->cap ? t->cap * 2 : 16, .n = t->n};
        big.slots = DV_NEW(a, struct dv_slot, big.cap);
        if (!big.slots)
            return 0;
        for (size_t i = 0; i < t->cap; i++)
            if (t->slots[i].key)
                *find(&big, t->slots[i].key, t->slots[i].len,
                      t->slots[i].hash) = t->slots[i];
        *t = big;
    }
    uint64_t hash = hash_of(key, len);
    struct dv_slot *s = find(t, key, len, hash);
    if (!s->key) {
        t->n++;
        *s = (struct dv_slot){.key = key, .len = len, .hash = hash};
    }
    s->value = value;
    return 1;
}
