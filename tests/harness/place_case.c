#include "harness/test.h"
#include "harness/place_case.h"

int place_find(const place_case *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->names[i], name))
            return i;
    fail_msg("%s: no buffer %s", s->name, name);
    return -1;
}

static void read_buffer(place_case *s, const char *line,
                        const place_reader *how)
{
    char first, uses[256], parents[128];
    int i = s->n++, used = 0;
    assert_true(i < PLACE_MAX);
    dv_buffer *b = &s->buffers[i];
    *b = (dv_buffer)DV_BUFFER_INIT;
    assert_int_equal(sscanf(line,
                            "buffer %31s %" SCNd64 " %" SCNd64 " %" SCNd64
                            " %c %255s %127s %n",
                            s->names[i], &b->size_bytes, &b->start, &b->end,
                            &first, uses, parents, &used),
                     7);
    snprintf(s->barred[i], sizeof s->barred[i], "%s",
             how->tail(b, line + used));
    b->name = s->names[i];
    b->first_use_is_read = first == 'r';
    b->barred = strcmp(s->barred[i], "-") ? s->barred[i] : NULL;
    b->uses = s->uses[i];
    for (char *u = strtok(uses, ","); u; u = strtok(NULL, ",")) {
        assert_true(b->n_uses < PLACE_USES);
        dv_use *use = &s->uses[i][b->n_uses++];
        use->tick = atoll(u);
        use->writes = strchr(u, 'w') != NULL;
    }
    s->uses[i][0].writes = first == 'w';
    b->parents = s->parents[i];
    if (strcmp(parents, "-"))
        for (char *p = strtok(parents, ","); p; p = strtok(NULL, ","))
            s->parents[i][b->n_parents++] = (int32_t)place_find(s, p);
}

static void end_case(place_case *s, const place_reader *how)
{
    if (!s->name[0])
        return;
    how->check(s);
    s->n = s->n_lines = 0;
    s->n_cases++;
}

int place_read(const char *path, const place_reader *how)
{
    static place_case s;
    s = (place_case){0};
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (char line[512]; fgets(line, sizeof line, f);) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] == '#' || (how->other && how->other(line)))
            continue;
        if (!strncmp(line, "buffer ", 7)) {
            read_buffer(&s, line, how);
        } else if (!strncmp(line, "case ", 5)) {
            end_case(&s, how);
            s.options = (dv_place_options)DV_PLACE_OPTIONS_INIT;
            assert_int_equal(sscanf(line, "case %79s %" SCNd64 " %" SCNd64,
                                    s.name, &s.options.capacity_bytes,
                                    &s.options.align_bytes),
                             3);
        } else {
            assert_true(s.n_lines < PLACE_LINES);
            strcpy(s.lines[s.n_lines++], line);
        }
    }
    end_case(&s, how);
    fclose(f);
    return s.n_cases;
}
