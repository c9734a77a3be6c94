// Torch-Spyre's instances of joint division and placement, with fixed divisions
// (tests/vectors/joint.txt). A division shows in the sizes and in the barred
// buffers: an edge whose two ends are cut in different ways bars its producer,
// because the reader would not find its bytes; Torch-Spyre's own search bars
// the consumer (spec, 3.7).
//
// Not compared, because divisions are not chosen here: the proven optima of the
// instances, and that a smaller division is chosen where it fits.
#include "harness/test.h"
#include "divvy/divvy.h"
#include <inttypes.h>

enum { MAX = 64, MAX_USES = 8, MAX_LINES = 8 };

// The case that is being read.
typedef struct state {
    char name[80];
    char names[MAX][32], barred[MAX][80];
    dv_buffer buffers[MAX];
    dv_use uses[MAX][MAX_USES];
    int32_t parents[MAX][4];
    dv_place_options options;
    char lines[MAX_LINES][256]; // the conditions of the case
    int n, n_lines, n_cases;
} state;

static int find(const state *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->names[i], name))
            return i;
    fail_msg("%s: no buffer %s", s->name, name);
    return -1;
}

static void read_buffer(state *s, const char *line)
{
    char first, uses[64], parents[64];
    int i = s->n++, used = 0;
    assert_true(i < MAX);
    dv_buffer *b = &s->buffers[i];
    *b = (dv_buffer)DV_BUFFER_INIT;
    assert_int_equal(sscanf(line,
                            "buffer %31s %" SCNd64 " %" SCNd64 " %" SCNd64
                            " %c %63s %63s %" SCNd64 " %n",
                            s->names[i], &b->size_bytes, &b->start, &b->end,
                            &first, uses, parents, &b->weight, &used),
                     8);
    snprintf(s->barred[i], sizeof s->barred[i], "%s", line + used);
    b->name = s->names[i];
    b->first_use_is_read = first == 'r';
    b->barred = strcmp(s->barred[i], "-") ? s->barred[i] : NULL;
    b->uses = s->uses[i];
    for (char *u = strtok(uses, ","); u; u = strtok(NULL, ",")) {
        assert_true(b->n_uses < MAX_USES);
        s->uses[i][b->n_uses++].tick = atoll(u);
    }
    b->parents = s->parents[i];
    if (strcmp(parents, "-"))
        for (char *p = strtok(parents, ","); p; p = strtok(NULL, ","))
            s->parents[i][b->n_parents++] = (int32_t)find(s, p);
}

static dv_placement *place(const state *s, const char *solver)
{
    dv_place_options o = s->options;
    dv_placement *p = NULL, *again = NULL;
    dv_diag *diag = dv_diag_create();
    o.solver = solver;
    if (dv_place(&p, s->buffers, (size_t)s->n, &o, diag) ||
        dv_placement_check(p, s->buffers, &o, diag) ||
        dv_place(&again, s->buffers, (size_t)s->n, &o, diag))
        fail_msg("%s, %s: %s", s->name, solver, dv_diag_text(diag));
    for (int i = 0; i < s->n; i++) {
        assert_int_equal(p->addresses[i], again->addresses[i]);
        assert_int_equal(p->addresses[i] < 0, p->reasons[i] != NULL);
        if (s->buffers[i].barred)
            assert_string_equal(p->reasons[i], s->buffers[i].barred);
    }
    assert_true(p->value <= p->bound);
    dv_placement_destroy(again);
    dv_diag_destroy(diag);
    return p;
}

// Checks one condition of the best placement.
static void hold(const state *s, const dv_placement *p, const char *line)
{
    char text[256], *word = text;
    snprintf(text, sizeof text, "%s", line);
    word = strtok(text, " ");
    if (!strcmp(word, "spill")) {
        int64_t left = 0;
        for (int i = 0; i < s->n; i++)
            left += p->addresses[i] < 0 ? s->buffers[i].weight : 0;
        assert_int_equal(left, atoll(strtok(NULL, " ")));
        return;
    }
    if (!strcmp(word, "reason")) {
        int i = find(s, strtok(NULL, " "));
        if (!strstr(p->reasons[i], strtok(NULL, "")))
            fail_msg("%s: %s: %s", s->name, s->names[i], p->reasons[i]);
        return;
    }
    int64_t first = -1;
    for (char *name = strtok(NULL, " "); name; name = strtok(NULL, " ")) {
        int64_t at = p->addresses[find(s, name)];
        if (!strcmp(word, "out") ? at >= 0 : at < 0)
            fail_msg("%s: %s is not %s", s->name, name, word);
        if (!strcmp(word, "together") && first >= 0)
            assert_int_equal(at, first);
        first = at;
    }
}

static void end_case(state *s)
{
    if (!s->name[0])
        return;
    dv_placement *best = place(s, "auto");
    for (int k = 0; k < s->n_lines; k++)
        hold(s, best, s->lines[k]);
    for (int i = 0; dv_place_solver(i); i++) {
        dv_placement *p = place(s, dv_place_solver(i));
        if (p->value > best->value)
            fail_msg("%s: %s keeps %" PRId64 ", auto %" PRId64, s->name,
                     dv_place_solver(i), p->value, best->value);
        dv_placement_destroy(p);
    }
    dv_placement_destroy(best);
    s->n = s->n_lines = 0;
    s->n_cases++;
}

TEST(test_vectors)
{
    static state s;
    FILE *f = fopen(DV_SOURCE_DIR "/tests/vectors/joint.txt", "r");
    assert_non_null(f);
    for (char line[256]; fgets(line, sizeof line, f);) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] == '#')
            continue;
        if (!strncmp(line, "buffer ", 7)) {
            read_buffer(&s, line);
        } else if (!strncmp(line, "case ", 5)) {
            end_case(&s);
            s.options = (dv_place_options)DV_PLACE_OPTIONS_INIT;
            assert_int_equal(sscanf(line, "case %79s %" SCNd64 " %" SCNd64,
                                    s.name, &s.options.capacity_bytes,
                                    &s.options.align_bytes),
                             3);
        } else {
            assert_true(s.n_lines < MAX_LINES);
            strcpy(s.lines[s.n_lines++], line);
        }
    }
    end_case(&s);
    fclose(f);
    assert_int_equal(s.n_cases, 39);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors)};
    return run_group(tests, NULL, NULL);
}
