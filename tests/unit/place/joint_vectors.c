// Torch-Spyre's instances of joint division and placement, with fixed divisions
// (tests/vectors/joint.txt). A division shows in the sizes and in the barred
// buffers: an edge whose two ends are cut in different ways bars its producer,
// because the reader would not find its bytes; Torch-Spyre's own search bars
// the consumer (spec, 3.7).
//
// Not compared, because divisions are not chosen here: the proven optima of the
// instances, and that a smaller division is chosen where it fits.
#include "harness/test.h"
#include "harness/place_case.h"

static const char *read_tail(dv_buffer *b, const char *text)
{
    int used = 0;
    assert_int_equal(sscanf(text, "%" SCNd64 " %n", &b->weight, &used), 1);
    return text + used;
}

static dv_placement *place(const place_case *s, dv_solver solver)
{
    dv_place_options o = s->options;
    dv_placement *p = NULL, *again = NULL;
    dv_diag *diag = dv_diag_create();
    o.solver = solver;
    if (dv_place(&p, s->buffers, (size_t)s->n, &o, diag) ||
        dv_placement_check(p, s->buffers, &o, diag) ||
        dv_place(&again, s->buffers, (size_t)s->n, &o, diag))
        fail_msg("%s, %s: %s", s->name, dv_solver_name(solver),
                 dv_diag_text(diag));
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
static void hold(const place_case *s, const dv_placement *p, const char *line)
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
        int i = place_find(s, strtok(NULL, " "));
        if (!strstr(p->reasons[i], strtok(NULL, "")))
            fail_msg("%s: %s: %s", s->name, s->names[i], p->reasons[i]);
        return;
    }
    int64_t first = -1;
    for (char *name = strtok(NULL, " "); name; name = strtok(NULL, " ")) {
        int64_t at = p->addresses[place_find(s, name)];
        if (!strcmp(word, "out") ? at >= 0 : at < 0)
            fail_msg("%s: %s is not %s", s->name, name, word);
        if (!strcmp(word, "together") && first >= 0)
            assert_int_equal(at, first);
        first = at;
    }
}

static void check_case(place_case *s)
{
    dv_placement *best = place(s, DV_SOLVER_AUTO);
    for (int k = 0; k < s->n_lines; k++)
        hold(s, best, s->lines[k]);
    for (dv_solver i = DV_SOLVER_AUTO; dv_solver_name(i); i++) {
        dv_placement *p = place(s, i);
        if (p->value > best->value)
            fail_msg("%s: %s keeps %" PRId64 ", auto %" PRId64, s->name,
                     dv_solver_name(i), p->value, best->value);
        dv_placement_destroy(p);
    }
    dv_placement_destroy(best);
}

TEST(test_vectors)
{
    const place_reader how = {read_tail, check_case, NULL};
    assert_int_equal(place_read(DV_SOURCE_DIR "/tests/vectors/joint.txt", &how),
                     39);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors)};
    return run_group(tests, NULL, NULL);
}
