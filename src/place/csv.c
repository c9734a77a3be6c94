// Reads and writes tables of buffers as CSV; the format is described in csv.h.
#include "place/csv.h"
#include "base/math.h"
#include "base/plural.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_COLUMNS = 64, MOST_ROWS = 1 << 24 };

// The meanings that a column of a CSV table of buffers can have.
typedef enum column {
    ID,
    LOWER,
    UPPER,
    END,
    SIZE,
    ALIGNMENT,
    OFFSET,
    HINT,
    GAPS,
    WEIGHT,
    USES,
    PARENTS,
    GROUP,
    BARRED,
    N_COLUMNS,
    UNUSED = N_COLUMNS
} column;

static const struct {
    const char *name;
    column column;
} names[] = {
    {"id", ID},         {"buffer", ID},
    {"buffer_id", ID},  {"lower", LOWER},
    {"start", LOWER},   {"begin", LOWER},
    {"upper", UPPER},   {"end", END},
    {"size", SIZE},     {"alignment", ALIGNMENT},
    {"offset", OFFSET}, {"hint", HINT},
    {"gaps", GAPS},     {"weight", WEIGHT},
    {"uses", USES},     {"parents", PARENTS},
    {"group", GROUP},   {"barred", BARRED},
};

// A field of a CSV row: its bytes in the text without surrounding blanks.
typedef struct field {
    const char *at;
    size_t len;
} field;

typedef struct reader {
    dv_csv *csv;
    dv_diag *diag;
    const char *now, *limit; // read position in the text, and its end
    field row[MAX_COLUMNS];
    int n_row;
    column columns[MAX_COLUMNS]; // meaning of each column
    // For each meaning, the number of the column that has it, or -1 if the
    // table has no such column.
    int where[N_COLUMNS];
    dv_table ids;
} reader;

static dv_loc loc_of(const reader *r, const char *at)
{
    return (dv_loc){&r->csv->src, (uint32_t)(at - r->csv->src.text)};
}

#define WRONG(r, status, f, ...)                                               \
    dv_fail((r)->diag, status, loc_of(r, (f).at), __VA_ARGS__)

// Returns the field's length for printf's %.*s, limited to 60 characters.
static int shown(field f)
{
    return f.len > 60 ? 60 : (int)f.len;
}

static field trim(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\t'))
        from++;
    while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
        to--;
    return (field){from, (size_t)(to - from)};
}

// Splits the next line into r->row. Returns 0 at an empty line, at the end of
// the text, or on an error, which is stored in *st.
static int next_row(reader *r, const char **from, const char **to,
                    dv_status *st)
{
    *st = DV_OK;
    *from = r->now;
    while (r->now < r->limit && *r->now != '\n')
        r->now++;
    *to = r->now;
    if (r->now < r->limit)
        r->now++;
    if (*to > *from && (*to)[-1] == '\r')
        --*to;
    if (trim(*from, *to).len == 0)
        return 0;
    r->n_row = 0;
    for (const char *p = *from, *begin = p;; p++) {
        if (p < *to && *p != ',')
            continue;
        field f = trim(begin, p);
        if (r->n_row == MAX_COLUMNS) {
            *st = WRONG(r, DV_E_LIMIT, f, "more than %d columns", MAX_COLUMNS);
            return 0;
        }
        r->row[r->n_row++] = f;
        begin = p + 1;
        if (p == *to)
            return 1;
    }
}

static column meaning(field f)
{
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strlen(names[k].name) == f.len &&
            memcmp(names[k].name, f.at, f.len) == 0)
            return names[k].column;
    return UNUSED;
}

static dv_status read_header(reader *r)
{
    const char *from, *to;
    dv_status st;
    for (int c = 0; c < N_COLUMNS; c++)
        r->where[c] = -1;
    if (!next_row(r, &from, &to, &st)) {
        DV_TRY(st);
        return dv_fail(r->diag, DV_E_FORMAT, loc_of(r, from),
                       "the first line must name the columns");
    }
    r->csv->header = (int32_t)(from - r->csv->src.text);
    r->csv->header_end = (int32_t)(to - r->csv->src.text);
    r->csv->n_columns = r->n_row;
    for (int k = 0; k < r->n_row; k++) {
        column c = r->columns[k] = meaning(r->row[k]);
        if (c == UNUSED) {
            dv_warn(r->diag, "column", loc_of(r, r->row[k].at),
                    "column '%.*s' is not used", shown(r->row[k]),
                    r->row[k].at);
            continue;
        }
        if (r->where[c] >= 0)
            return WRONG(r, DV_E_FORMAT, r->row[k],
                         "'%.*s' is there twice or says the same as another "
                         "column",
                         shown(r->row[k]), r->row[k].at);
        r->where[c] = k;
    }
    r->csv->offset_column = r->where[OFFSET];
    if (r->n_row == MAX_COLUMNS && r->where[OFFSET] < 0)
        return WRONG(r, DV_E_LIMIT, r->row[r->n_row - 1],
                     "%d columns leave no room for an offset", MAX_COLUMNS);
    static const column needed[] = {ID, LOWER, SIZE};
    static const char *const says[] = {"id", "lower", "size"};
    for (int k = 0; k < 3; k++)
        if (r->where[needed[k]] < 0)
            return dv_fail(r->diag, DV_E_FORMAT, loc_of(r, from),
                           "there is no column '%s'", says[k]);
    if ((r->where[UPPER] < 0) == (r->where[END] < 0))
        return dv_fail(r->diag, DV_E_FORMAT, loc_of(r, from),
                       r->where[END] < 0 ? "there is no column 'upper' or 'end'"
                                         : "there are both 'upper' and 'end'");
    return DV_OK;
}

static field get(const reader *r, column c)
{
    int k = r->where[c];
    return k < 0 ? (field){r->now, 0} : r->row[k];
}

// Parses an integer at the front of *f and advances *f past it. `what` names
// the value in messages.
static dv_status take_int(const reader *r, field *f, const char *what,
                          int64_t *out)
{
    field whole = *f;
    int minus = f->len && *f->at == '-';
    f->at += minus;
    f->len -= (size_t)minus;
    int64_t v = 0;
    size_t digits = 0;
    for (; f->len && *f->at >= '0' && *f->at <= '9'; f->at++, f->len--) {
        digits++;
        int64_t d = *f->at - '0';
        if (!dv_mul_i64(&v, v, 10) || !dv_add_i64(&v, v, minus ? -d : d))
            return WRONG(r, DV_E_OVERFLOW, whole,
                         "%s %.*s does not fit 64 bits", what, shown(whole),
                         whole.at);
    }
    if (digits == 0)
        return WRONG(r, DV_E_FORMAT, whole,
                     "%s must be a whole number, not '%.*s'", what,
                     shown(whole), whole.at);
    *out = v;
    return DV_OK;
}

static dv_status read_int(const reader *r, column c, const char *what,
                          int64_t *out)
{
    field f = get(r, c), whole = f;
    DV_TRY(take_int(r, &f, what, out));
    if (f.len)
        return WRONG(r, DV_E_FORMAT, whole,
                     "%s must be a whole number, not '%.*s'", what,
                     shown(whole), whole.at);
    return DV_OK;
}

// Parses an integer column that may be empty; *out is then unchanged.
static dv_status read_option(const reader *r, column c, const char *what,
                             int64_t *out)
{
    return get(r, c).len ? read_int(r, c, what, out) : DV_OK;
}

// Takes the next word from a list separated by blanks. Returns 0 when the list
// is empty.
static int next_word(field *list, field *word)
{
    *list = trim(list->at, list->at + list->len);
    size_t n = 0;
    while (n < list->len && list->at[n] != ' ')
        n++;
    *word = (field){list->at, n};
    list->at += n;
    list->len -= n;
    return n > 0;
}

static dv_status read_uses(reader *r, dv_buffer *b)
{
    field list = get(r, USES), word;
    dv_use *uses = NULL;
    int32_t n = 0, cap = 0;
    while (next_word(&list, &word)) {
        dv_use *u = DV_PUSH(&r->csv->arena, dv_use, uses, n, cap);
        if (!u)
            return dv_nomem(r->diag);
        field whole = word;
        DV_TRY(take_int(r, &word, "a use", &u->tick));
        u->writes = word.len == 1 && *word.at == 'w';
        if (word.len && !u->writes)
            return WRONG(r, DV_E_FORMAT, whole,
                         "a use is a tick, with a w if it writes, not '%.*s'",
                         shown(whole), whole.at);
    }
    b->uses = uses;
    b->n_uses = (size_t)n;
    b->first_use_is_read = n > 0 && !uses[0].writes;
    return DV_OK;
}

static dv_status read_times(const reader *r, dv_buffer *b)
{
    int inclusive = r->where[END] >= 0;
    column last = inclusive ? END : UPPER;
    DV_TRY(read_int(r, LOWER, "lower", &b->start));
    DV_TRY(read_int(r, last, inclusive ? "end" : "upper", &b->end));
    if (inclusive ? b->end < b->start : b->end <= b->start)
        return WRONG(r, DV_E_BUFFER, get(r, last),
                     "%s is %" PRId64 ", lower is %" PRId64
                     ": the buffer never lives",
                     inclusive ? "end" : "upper", b->end, b->start);
    if (inclusive && !dv_add_i64(&b->end, b->end, 1))
        return WRONG(r, DV_E_OVERFLOW, get(r, last), "end is 2^63 - 1");
    return DV_OK;
}

static dv_status read_numbers(const reader *r, dv_buffer *b)
{
    int64_t group = 0;
    DV_TRY(read_int(r, SIZE, "size", &b->size_bytes));
    if (b->size_bytes <= 0)
        return WRONG(r, DV_E_BUFFER, get(r, SIZE),
                     "size is %" PRId64 ", not positive", b->size_bytes);
    DV_TRY(read_option(r, ALIGNMENT, "alignment", &b->align_bytes));
    if (get(r, ALIGNMENT).len && b->align_bytes <= 0)
        return WRONG(r, DV_E_BUFFER, get(r, ALIGNMENT),
                     "alignment is %" PRId64 ", not positive", b->align_bytes);
    DV_TRY(read_option(r, OFFSET, "offset", &b->fixed_address));
    if (b->fixed_address < -1)
        return WRONG(r, DV_E_BUFFER, get(r, OFFSET),
                     "offset is %" PRId64 "; -1 means none", b->fixed_address);
    DV_TRY(read_option(r, WEIGHT, "weight", &b->weight));
    if (b->weight < 0 && get(r, WEIGHT).len)
        return WRONG(r, DV_E_BUFFER, get(r, WEIGHT),
                     "weight is %" PRId64 ", less than nothing", b->weight);
    DV_TRY(read_option(r, GROUP, "group", &group));
    if (group < 0 || group > INT32_MAX)
        return WRONG(r, DV_E_BUFFER, get(r, GROUP),
                     "group is %" PRId64 ", not in 0..2^31", group);
    b->group = (int32_t)group;
    return DV_OK;
}

static dv_status read_row(reader *r, int32_t i)
{
    dv_buffer *b = &r->csv->buffers[i];
    field id = get(r, ID), barred = get(r, BARRED), gaps = get(r, GAPS);
    *b = (dv_buffer)DV_BUFFER_INIT;
    if (r->n_row != r->csv->n_columns)
        return WRONG(r, DV_E_FORMAT, r->row[0],
                     "%d field%s in a table of %d column%s", r->n_row,
                     DV_PLURAL(r->n_row, "", "s"), r->csv->n_columns,
                     DV_PLURAL(r->csv->n_columns, "", "s"));
    if (id.len == 0)
        return WRONG(r, DV_E_FORMAT, id, "the id is empty");
    if (dv_table_get(&r->ids, id.at, id.len, -1) >= 0)
        return WRONG(r, DV_E_NAME, id, "id '%.*s' is there twice", shown(id),
                     id.at);
    if (gaps.len)
        return WRONG(r, DV_E_FORMAT, gaps,
                     "gaps are not supported: split the buffer, or give its "
                     "uses");
    b->name = dv_arena_copy(&r->csv->arena, id.at, id.len);
    if (barred.len)
        b->barred = dv_arena_copy(&r->csv->arena, barred.at, barred.len);
    if (!b->name || (barred.len && !b->barred) ||
        !dv_table_set(&r->ids, &r->csv->arena, id.at, id.len, i))
        return dv_nomem(r->diag);
    DV_TRY(read_times(r, b));
    DV_TRY(read_numbers(r, b));
    return read_uses(r, b);
}

// Reads row i again to convert parent ids (buffers whose address it may take
// over) to buffer numbers. This is done after all rows are read, because a
// parent may come after its child.
static dv_status read_parents(reader *r, int32_t i)
{
    dv_csv *csv = r->csv;
    dv_buffer *b = &csv->buffers[i];
    const char *from, *to;
    dv_status st;
    r->now = csv->src.text + csv->locs[i].off;
    next_row(r, &from, &to, &st);
    field list = get(r, PARENTS), word;
    int32_t *parents = NULL, n = 0, cap = 0;
    while (next_word(&list, &word)) {
        int32_t *p = DV_PUSH(&csv->arena, int32_t, parents, n, cap);
        if (!p)
            return dv_nomem(r->diag);
        *p = dv_table_get(&r->ids, word.at, word.len, -1);
        if (*p < 0)
            return WRONG(r, DV_E_NAME, word, "there is no buffer '%.*s'",
                         shown(word), word.at);
    }
    b->parents = parents;
    b->n_parents = (size_t)n;
    return DV_OK;
}

static dv_status read_table(reader *r)
{
    dv_csv *csv = r->csv;
    const char *from, *to;
    dv_status st;
    DV_TRY(read_header(r));
    while (next_row(r, &from, &to, &st)) {
        if (csv->n == MOST_ROWS)
            return WRONG(r, DV_E_LIMIT, r->row[0], "more than %d buffers",
                         MOST_ROWS);
        int32_t n = csv->n, m = n;
        dv_loc *loc = DV_PUSH(&csv->arena, dv_loc, csv->locs, m, csv->cap_locs);
        m = n;
        int32_t *end =
            DV_PUSH(&csv->arena, int32_t, csv->ends, m, csv->cap_ends);
        m = n;
        dv_buffer *b =
            DV_PUSH(&csv->arena, dv_buffer, csv->buffers, m, csv->cap_buffers);
        if (!loc || !end || !b)
            return dv_nomem(r->diag);
        csv->n = m;
        *loc = loc_of(r, from);
        *end = (int32_t)(to - csv->src.text);
        DV_TRY(read_row(r, n));
    }
    DV_TRY(st);
    for (int32_t i = 0; r->where[PARENTS] >= 0 && i < csv->n; i++)
        DV_TRY(read_parents(r, i));
    return DV_OK;
}

dv_status dv_csv_parse(dv_csv *out, const char *text, size_t len,
                       const char *name, dv_diag *diag)
{
    *out = (dv_csv){.src = {name, text, len}, .offset_column = -1};
    if (len > INT32_MAX)
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE, "%zu bytes are too many",
                       len);
    reader r = {.csv = out, .diag = diag, .now = text, .limit = text + len};
    dv_status st = read_table(&r);
    if (st != DV_OK)
        dv_csv_free(out);
    return st;
}

void dv_csv_free(dv_csv *csv)
{
    dv_arena_free(&csv->arena);
}

// Prints a row with `value` in the offset column, or appended as a last column
// if the table has none.
static void print_row(dv_text *out, const dv_csv *csv, int32_t from, int32_t to,
                      const char *value)
{
    const char *text = csv->src.text + from, *end = csv->src.text + to;
    int32_t k = 0;
    for (const char *p = text;; k++) {
        const char *begin = p;
        while (p < end && *p != ',')
            p++;
        if (k)
            dv_put(out, ",");
        if (k == csv->offset_column)
            dv_put(out, "%s", value);
        else
            dv_put_bytes(out, begin, (size_t)(p - begin));
        if (p == end)
            break;
        p++;
    }
    if (csv->offset_column < 0)
        dv_put(out, ",%s", value);
    dv_put(out, "\n");
}

void dv_csv_print(dv_text *out, const dv_csv *csv, const int64_t *offsets)
{
    print_row(out, csv, csv->header, csv->header_end, "offset");
    for (int32_t i = 0; i < csv->n; i++) {
        char value[24];
        snprintf(value, sizeof value, "%" PRId64, offsets[i]);
        print_row(out, csv, (int32_t)csv->locs[i].off, csv->ends[i], value);
    }
}
