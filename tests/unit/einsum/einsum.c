// Einsums: the meaning of expressions, every error with its text and position,
// paths, trees. Random expressions are in prop/einsum/einsum.c, the API in
// unit/einsum/api.c.
#include "harness/test.h"
#include "einsum/einsum.h"

enum { MAX_IN = 24 };

// -- Operands from text ------------------------------------------------------

// Operands from a text: "2x3 - 4" are three shapes; elements count from 1.
typedef struct operands {
    size_t n;
    dv_array at[MAX_IN];
    int64_t shape[MAX_IN][DV_MAX_DIMS];
    double *data[MAX_IN];
} operands;

static void make(operands *o, const char *shapes)
{
    *o = (operands){0};
    for (const char *s = shapes; *s;) {
        dv_array *a = &o->at[o->n];
        int64_t elems = 1;
        a->dtype = DV_F64;
        a->shape = o->shape[o->n];
        for (; *s && *s != ' '; s++) {
            if (*s < '0' || *s > '9')
                continue;
            o->shape[o->n][a->n_dims] = strtoll(s, NULL, 10);
            elems *= o->shape[o->n][a->n_dims++];
            while (s[1] >= '0' && s[1] <= '9')
                s++;
        }
        o->data[o->n] = calloc((size_t)elems + 1, sizeof(double));
        for (int64_t i = 0; i < elems; i++)
            o->data[o->n][i] = (double)(i + 1);
        a->data = o->data[o->n++];
        s += *s == ' ';
    }
}

static void unmake(operands *o)
{
    for (size_t i = 0; i < o->n; i++)
        free(o->data[i]);
}

// -- Meaning -----------------------------------------------------------------

// Runs an einsum and writes the result as text: "2x2: 1 2 3 4".
static void run(const char *expression, const char *shapes, char *got,
                size_t room)
{
    operands o;
    dv_einsum_exec *e = NULL;
    dv_diag *diag = dv_diag_create();
    double *y = calloc(1000, sizeof *y);
    make(&o, shapes);
    if (dv_einsum_create(&e, expression, o.at, o.n, NULL, diag))
        fail_msg("%s", dv_diag_text(diag));
    dv_array out = dv_einsum_output(e);
    for (size_t i = 0; i < o.n; i++)
        assert_int_equal(dv_einsum_bind(e, i, o.data[i], NULL, diag), DV_OK);
    assert_int_equal(dv_einsum_bind(e, o.n, y, NULL, diag), DV_OK);
    assert_int_equal(dv_einsum_run(e, diag), DV_OK);
    int64_t elems = 1;
    size_t n = 0;
    for (int d = 0; d < out.n_dims; d++) {
        n += (size_t)snprintf(got + n, room - n, "%s%d", d ? "x" : "",
                              (int)out.shape[d]);
        elems *= out.shape[d];
    }
    n += (size_t)snprintf(got + n, room - n, "%s:", out.n_dims ? "" : "-");
    for (int64_t i = 0; i < elems; i++)
        n += (size_t)snprintf(got + n, room - n, " %g", y[i]);
    dv_einsum_destroy(e);
    dv_diag_destroy(diag);
    unmake(&o);
    free(y);
}

static const char *const meanings[][3] = {
    {"ij,jk->ik", "2x2 2x2", "2x2: 7 10 15 22"},
    {"ij,jk", "2x2 2x2", "2x2: 7 10 15 22"},
    {"ba", "2x3",
     "3x2: 1 4 2 5 3 6"}, // an implicit output is in alphabetical order
    {"Ba", "2x3", "2x3: 1 2 3 4 5 6"}, // capitals come first
    {"ii", "3x3", "-: 15"},
    {"ii->i", "3x3", "3: 1 5 9"},
    {"iii->i", "2x2x2", "2: 1 8"},
    {"ij->", "2x3", "-: 21"},
    {"ij->j", "2x3", "3: 5 7 9"},
    {"ij->ji", "2x3", "3x2: 1 4 2 5 3 6"},
    {"i,j->ij", "2 3", "2x3: 1 2 3 2 4 6"},
    {"i,j->ji", "2 3", "3x2: 1 2 2 4 3 6"},
    {"i,i", "3 3", "-: 14"},
    {"i,i->i", "3 3", "3: 1 4 9"},
    {",->", "- -", "-: 1"},
    {",", "- -", "-: 1"},
    {"", "-", "-: 1"},
    {"->", "-", "-: 1"},
    {",ij", "- 2x2", "2x2: 1 2 3 4"},
    {"i->", "4", "-: 10"},
    {"ij,jk->k", "2x2 2x2", "2: 22 32"},
    {"iijk,kl->jl", "2x2x1x2 2x1", "1x1: 28"},
    {"i,i,i->i", "2 2 2", "2: 1 8"},
    {"ab,bc,cd->ad", "1x2 2x2 2x1", "1x1: 27"},
    {"bij,bjk->bik", "2x1x2 2x2x1", "2x1x1: 5 25"},
    {" i j , j k -> i k ", "2x2 2x2", "2x2: 7 10 15 22"},
    {"...", "2x2", "2x2: 1 2 3 4"},
    {"i...", "2x2", "2x2: 1 3 2 4"},
    {"...i->...", "2x2", "2: 3 7"},
    {"i...->...", "2x2", "2: 4 6"},
    {"...ij->...ji", "1x2x2", "1x2x2: 1 3 2 4"},
    {"...,...", "2x2 2", "2x2: 1 4 3 8"}, // dims are counted from the right
    {"...,...->...", "2x1 1x2", "2x2: 1 2 2 4"}, // dims of extent 1 broadcast
    {"...i,i...->...", "2x2 2x2", "2: 7 22"},
    {"a...b,b...->a...", "1x1x2 2x2", "1x2: 7 10"},
    {"...i,...i->...", "2 2", "-: 5"}, // no dims under the ellipsis
    {"i->...i", "2", "2: 1 2"},        // no operand has an ellipsis
    {"i...->i", "2", "2: 1 2"},
    {"i,i->i", "1 3", "3: 1 2 3"}, // letters broadcast, too
    {"ij,jk->ik", "2x1 2x2", "2x2: 4 6 8 12"},
    {"ij->i", "3x0", "3: 0 0 0"}, // a sum without terms
    {"ij,jk->ik", "0x2 2x3", "0x3:"},
    {"i,i->", "1 0", "-: 0"},
    {"zZ,Zy->zy", "1x2 2x1", "1x1: 5"},
};

// Each case has an expression, the shapes of its operands and the result.
static void check_meanings(const char *const (*cases)[3], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char got[500];
        run(cases[i][0], cases[i][1], got, sizeof got);
        if (strcmp(got, cases[i][2]) != 0)
            fail_msg("%s of %s is %s, not %s", cases[i][0], cases[i][1], got,
                     cases[i][2]);
    }
}

TEST(meaning)
{
    check_meanings(meanings, sizeof meanings / sizeof *meanings);
}

// -- Mistakes ----------------------------------------------------------------

typedef struct mistake {
    const char *expression, *shapes;
    dv_status status;
    int column; // 0: no position
    const char *text;
} mistake;

static void check_mistake(const mistake *m)
{
    operands o;
    dv_einsum_exec *e = NULL;
    dv_diag *diag = dv_diag_create();
    make(&o, m->shapes);
    dv_status st = dv_einsum_create(&e, m->expression, o.at, o.n, NULL, diag);
    const dv_message *got = dv_diag_error(diag);
    if (!got)
        fail_msg("'%s' is taken", m->expression);
    else if (st != m->status || strcmp(got->text, m->text) != 0 ||
             (int)got->col != m->column)
        fail_msg("'%s': column %d, %s\nwanted: column %d, %s", m->expression,
                 (int)got->col, got->text, m->column, m->text);
    assert_null(e);
    unmake(&o);
    dv_diag_destroy(diag);
}

static const mistake wrong_expressions[] = {
    {"i1->i", "2", DV_E_SYNTAX, 2,
     "'1' is no index: indices are letters, a-z and A-Z"},
    {"i,\xc3\xa9", "2 2", DV_E_SYNTAX, 3,
     "byte 0xc3 is no index: indices are letters, a-z and A-Z"},
    {"i+j", "2 2", DV_E_SYNTAX, 2,
     "'+' is no index: indices are letters, a-z and A-Z"},
    {"i-j", "2 2", DV_E_SYNTAX, 2, "a '-' without '>': the arrow is '->'"},
    {"i- >j", "2 2", DV_E_SYNTAX, 2, "a '-' without '>': the arrow is '->'"},
    {"i>j", "2 2", DV_E_SYNTAX, 2, "a '>' without '-': the arrow is '->'"},
    {"i->i->i", "2", DV_E_SYNTAX, 5, "a second '->'"},
    {"i->i,j", "2", DV_E_SYNTAX, 5,
     "a ',' after the arrow: there is one output"},
    {"i..", "2x2", DV_E_SYNTAX, 2, "a '.' alone: an ellipsis is '...'"},
    {".i..", "2x2", DV_E_SYNTAX, 1, "a '.' alone: an ellipsis is '...'"},
    {"...i...", "2x2", DV_E_SYNTAX, 5, "a second '...' in one operand"},
    {"...i->...i...", "2x2", DV_E_SYNTAX, 11, "a second '...' in the output"},
    {"....", "2x2", DV_E_SYNTAX, 4, "a '.' alone: an ellipsis is '...'"},
    {"ij,jk", "2x2", DV_E_SHAPE, 4,
     "the expression has 2 operands, 1 was given"},
    {"ij", "2x2 2x2", DV_E_SHAPE, 3,
     "the expression has 1 operand, 2 were given"},
    {"ij", "", DV_E_SHAPE, 1, "the expression has 1 operand, 0 were given"},
    {"ij,jk", "2x2 2x2x2", DV_E_SHAPE, 4,
     "operand 1 has 3 dims, the expression gives it 2 indices"},
    {"ij,jk", "2x2 2", DV_E_SHAPE, 4,
     "operand 1 has 1 dim, the expression gives it 2 indices"},
    {"", "2", DV_E_SHAPE, 1,
     "operand 0 has 1 dim, the expression gives it 0 indices"},
    {"i...j", "2", DV_E_SHAPE, 1,
     "operand 0 has 1 dim, the expression gives it 2 indices besides '...'"},
    {"ij,jk->ik", "2x3 4x5", DV_E_SHAPE, 4,
     "index j is 4 long here (dim 0 of operand 1) but 3 before (dim 1 of "
     "operand 0)"},
    {"ii->i", "2x3", DV_E_SHAPE, 2,
     "index i is 3 long here (dim 1 of operand 0) but 2 before (dim 0 of "
     "operand 0)"},
    {"ii->i", "1x3", DV_E_SHAPE, 2,
     "index i is 3 long here (dim 1 of operand 0) but 1 before (dim 0 of "
     "operand 0)"},
    {"i,i,i", "1 3 4", DV_E_SHAPE, 5,
     "index i is 4 long here (dim 0 of operand 2) but 3 before (dim 0 of "
     "operand 1)"},
    {"...,...", "2x3 2x4", DV_E_SHAPE, 5,
     "dim e1 is 4 long here (dim 1 of operand 1) but 3 before (dim 1 of "
     "operand 0)"},
    {"ij->ik", "2x2", DV_E_NAME, 6, "index k of the output is in no operand"},
    {"ij->iji", "2x2", DV_E_NAME, 7, "index i stands in the output twice"},
    {"->i", "-", DV_E_NAME, 3, "index i of the output is in no operand"},
    {"...i->i", "2x2", DV_E_SHAPE, 7,
     "the operands have 1 dim under '...', the output has no '...'"},
    {"i->abcdefghijklmnopqrs", "2", DV_E_NAME, 4,
     "index a of the output is in no operand"},
    {"abcdefghijk,lmnopq", "1x1x1x1x1x1x1x1x1x1x1 1x1x1x1x1x1", DV_E_LIMIT, 1,
     "the output has 17 dims, at most 16 are supported"},
    {"abcdefghijk,lmnopq->abcdefghijklmnopq",
     "1x1x1x1x1x1x1x1x1x1x1 1x1x1x1x1x1", DV_E_LIMIT, 21,
     "the output has 17 dims, at most 16 are supported"},
};

TEST(mistakes)
{
    for (size_t i = 0; i < sizeof wrong_expressions / sizeof *wrong_expressions;
         i++)
        check_mistake(&wrong_expressions[i]);
}

TEST(tree_mistakes)
{
    static const mistake all[] = {
        {"[0,1]", "2x2", DV_E_SYNTAX, 6,
         "a '->' is missing at the end of the tree"},
        {"[0,1", "2x2", DV_E_SYNTAX, 5,
         "a ']' is missing at the end of the tree"},
        {"[0,1->[1,0]", "2x2", DV_E_SYNTAX, 5, "a ']' is missing before '-'"},
        {"[0,1],1,2]->[0,2]", "2x2 2x2", DV_E_SYNTAX, 7,
         "a '[' is missing before '1'"},
        {"[0,1][1,2]->[0,2]", "2x2 2x2", DV_E_SYNTAX, 6,
         "a ',' is missing before '['"},
        {"[0 1]->[0,1]", "2x2", DV_E_SYNTAX, 4, "a ',' is missing before '1'"},
        {"[0,1],[1,2][0,2]", "2x2 2x2", DV_E_SYNTAX, 12,
         "a '->' is missing before '['"},
        {"[0,1],[1,2]>[0,2]", "2x2 2x2", DV_E_SYNTAX, 12,
         "a '->' is missing before '>'"},
        {"[0,1],[1,2],[2,3]->[0,3]", "2x2 2x2 2x2", DV_E_SYNTAX, 12,
         "a third factor: a node has one or two"},
        {"[0,1]->", "2x2", DV_E_SYNTAX, 8,
         "the list of indices of a node, a '[', is missing at the end of the "
         "tree"},
        {"[0,]->[0]", "2", DV_E_SYNTAX, 4, "a number is missing before ']'"},
        {"[a]->[a]", "2", DV_E_SYNTAX, 2, "a number is missing before 'a'"},
        {"[0]->[0]]", "2", DV_E_SYNTAX, 9,
         "the end of the tree is missing before ']'"},
        {"[[0,1]]->[1,0]", "2x2", DV_E_SYNTAX, 7,
         "a '->' is missing before ']'"},
        {"[0,1]->[0,2]", "2x2", DV_E_NAME, 11,
         "index 2 is in nothing that goes into this node"},
        {"[[0,1]->[0]],[2]->[1,2]", "2x2 2", DV_E_NAME, 20,
         "index 1 is in nothing that goes into this node"},
        {"[0,1]->[0,0]", "2x2", DV_E_NAME, 11,
         "index 0 stands in this list twice"},
        {"[0,128]->[0]", "2x2", DV_E_LIMIT, 4, "indices are 0 to 127"},
        {"[0,99999999999999999999]->[0]", "2x2", DV_E_LIMIT, 4,
         "indices are 0 to 127"},
        {"[0,1],[1,2]->[0,2]", "2x2", DV_E_SHAPE, 8,
         "the tree has 2 operands, 1 was given"},
        {"[0,1]->[1,0]", "2x2 2x2", DV_E_SHAPE, 13,
         "the tree has 1 operand, 2 were given"},
        {"[0,1]->[1,0]", "2", DV_E_SHAPE, 2,
         "operand 0 has 1 dim, the expression gives it 2 indices"},
        {"[0,1],[1,2]->[0,2]", "2x3 4x2", DV_E_SHAPE, 8,
         "index d1 is 4 long here (dim 0 of operand 1) but 3 before (dim 1 of "
         "operand 0)"},
        {"[0,1],[1,2]->[0,2]", "2x3 1x2", DV_E_SHAPE, 8,
         "index d1 is 1 long here (dim 0 of operand 1) but 3 before (dim 1 of "
         "operand 0)"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check_mistake(&all[i]);
}

TEST(deep_tree)
{
    char text[4000] = "";
    for (int i = 0; i < 250; i++)
        strcat(text, "[");
    operands o;
    dv_einsum_exec *e = NULL;
    dv_diag *diag = dv_diag_create();
    make(&o, "2");
    assert_int_equal(dv_einsum_create(&e, text, o.at, 1, NULL, diag),
                     DV_E_LIMIT);
    assert_non_null(strstr(dv_diag_text(diag), "more than 200 levels deep"));
    unmake(&o);
    dv_diag_destroy(diag);
}

TEST(trees)
{
    static const char *const cases[][3] = {
        {"[0,1],[1,2]->[0,2]", "2x2 2x2", "2x2: 7 10 15 22"},
        {" [ 0 , 1 ] , [ 1 , 2 ] -> [ 0 , 2 ] ", "2x2 2x2", "2x2: 7 10 15 22"},
        {"[0,1]->[1,0]", "2x3", "3x2: 1 4 2 5 3 6"},
        {"[[0,1]->[1,0]]->[0,1]", "2x3", "2x3: 1 2 3 4 5 6"},
        {"[0,0]->[0]", "3x3", "3: 1 5 9"},
        {"[0,1]->[]", "2x2", "-: 10"},
        {"[],[3]->[3]", "- 2", "2: 1 2"},
        {"[[0,1],[1,2]->[2,0]],[[7]->[7]]->[0,2,7]", "1x2 2x2 2",
         "1x2x2: 7 14 10 20"},
        // An index that was summed over may be used again.
        {"[[0,1],[1]->[0]],[1]->[0,1]", "2x2 2 2", "2x2: 5 10 11 22"},
    };
    check_meanings(cases, sizeof cases / sizeof *cases);
}

// -- Paths -------------------------------------------------------------------

static char *path_of(const char *expression, const char *shapes,
                     const dv_einsum_options *options, dv_status want)
{
    operands o;
    dv_einsum_exec *e = NULL;
    dv_diag *diag = dv_diag_create();
    make(&o, shapes);
    dv_status st = dv_einsum_create(&e, expression, o.at, o.n, options, diag);
    if (st != want)
        fail_msg("%s: %s", expression, dv_diag_text(diag));
    char *text = e ? dv_einsum_text(e) : NULL;
    dv_einsum_destroy(e);
    dv_diag_destroy(diag);
    unmake(&o);
    return text;
}

static void has(const char *expression, const char *shapes, const char *line)
{
    char *text = path_of(expression, shapes, NULL, DV_OK);
    if (!strstr(text, line))
        fail_msg("%s: no '%s' in\n%s", expression, line, text);
    dv_free(text);
}

TEST(paths)
{
    has("ij,jk,kl->il", "8x9 9x100 100x2", "3888 flop in 2 steps, exact order");
    has("ij,jk,kl->il", "8x9 9x100 100x2", "11.11 times fewer");
    has("ij,jk,kl->il", "8x9 9x100 100x2", "largest intermediate: 18 elements");
    has("ij,jk,kl->il", "2x9 9x2 2x9", "t0   = x0 * x1      ij,jk->ik");
    // An index of one operand alone is summed first, which makes the rest
    // cheap.
    has("ij,jk->k", "100x3 3x4", "t0   = x0           ij->j");
    has("ij,kl->il", "3x9 9x4", "y    = t0 * t1      i,l->il");
    // Taking a diagonal costs nothing.
    has("iij,jk->ik", "3x3x4 4x5", "iij->ij                          0 flop");
    // Outer products are taken when nothing else is left, small ones first.
    has("i,j,k->ijk", "100 2 3", "t0   = x1 * x2      j,k->jk");
    // Or where they are cheaper: two small vectors before a large tensor.
    has("a,b,abcd->cd", "2 2 2x2x50x50", "a,b->ab");
    char *text = path_of("ij->ji", "2x3", NULL, DV_OK);
    assert_string_equal(text, "y    = x0           ij->ji                   "
                              "        0 flop, 6 elements\n"
                              "0 flop in 1 step, exact order\n");
    dv_free(text);
}

TEST(limits)
{
    dv_einsum_options o = DV_EINSUM_OPTIONS_INIT;
    o.max_elems = 10;
    path_of("ij,jk,kl->il", "8x9 9x100 100x2", &o, DV_E_CAPACITY);
    o.max_elems = 18;
    dv_free(path_of("ij,jk,kl->il", "8x9 9x100 100x2", &o, DV_OK));
    o.max_elems = -1;
    path_of("ij,jk->ik", "2x2 2x2", &o, DV_E_USAGE);
    o = (dv_einsum_options)DV_EINSUM_OPTIONS_INIT;
    o.path = (dv_path_search)3;
    path_of("ij,jk->ik", "2x2 2x2", &o, DV_E_USAGE);
    o.path = DV_PATH_EXACT;
    path_of("a,a,a,a,a,a,a,a,a,a,a", "2 2 2 2 2 2 2 2 2 2 2", &o, DV_E_LIMIT);
    dv_free(path_of("a,a,a,a,a,a,a,a,a,a", "2 2 2 2 2 2 2 2 2 2", &o, DV_OK));
    // Four tensors of 15 dims, each two of which share five: every product has
    // twenty.
    path_of("abcdefghijklmno,abcdepqrstuvwxy,fghijpqrstABCDE,klmnouvwxyABCDE",
            "1x1x1x1x1x1x1x1x1x1x1x1x1x1x1 1x1x1x1x1x1x1x1x1x1x1x1x1x1x1 "
            "1x1x1x1x1x1x1x1x1x1x1x1x1x1x1 1x1x1x1x1x1x1x1x1x1x1x1x1x1x1",
            NULL, DV_E_LIMIT);
}

// A chain of 20 matrices: too many for the exact search, so the order is
// greedy. All elements but one vector's are 1.
TEST(many)
{
    char text[200] = "", shapes[200] = "", got[200];
    for (int i = 0; i < 20; i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%c%c", i ? "," : "", 'a' + i,
                 'b' + i);
        strcat(shapes, i ? " 1x1" : "2x1");
    }
    run(text, shapes, got, sizeof got);
    assert_string_equal(got, "2x1: 1 2");
    char *path = path_of(text, shapes, NULL, DV_OK);
    assert_non_null(strstr(path, "in 19 steps, greedy order"));
    dv_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meaning),   cmocka_unit_test(mistakes),
        cmocka_unit_test(trees),     cmocka_unit_test(tree_mistakes),
        cmocka_unit_test(deep_tree), cmocka_unit_test(paths),
        cmocka_unit_test(limits),    cmocka_unit_test(many),
    };
    return run_group(tests, NULL, NULL);
}
