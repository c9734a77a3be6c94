// Programs built by calls (divvy/build.h): the calls make the program that the
// text makes, errors carry labels and are sticky, and wrong calls are refused.
#include "harness/test.h"
#include "divvy/build.h"
#include "harness/unit.h"
#include "ir/program.h"
#include <math.h>

// -- Replaying a syntax tree by calls ----------------------------------------

static void name_of(char out[64], dv_str s)
{
    snprintf(out, 64, "%.*s", (int)s.len, s.at);
}

static dv_term replay(dv_build *b, const dv_node *n);

static void replay_list(dv_build *b, dv_term *out, dv_node *const *args,
                        uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = replay(b, args[i]);
}

static dv_term replay_reduce(dv_build *b, const dv_node *n)
{
    char names[DV_MAX_VARS][64];
    const char *vars[DV_MAX_VARS];
    const char *reducer = dv_reducer_get((dv_reducer)n->op)->text;
    dv_term over[DV_MAX_VARS];
    int bounds = 0;
    for (uint32_t i = 1; i < n->n_args; i++) {
        name_of(names[i - 1], n->args[i]->name);
        vars[i - 1] = names[i - 1];
        bounds |= n->args[i]->kind != DV_NODE_NAME;
    }
    if (bounds) {
        replay_list(b, over, n->args + 1, n->n_args - 1);
        return dv_build_reduce_over(b, reducer, replay(b, n->args[0]),
                                    (int)n->n_args - 1, over);
    }
    return dv_build_reduce(b, reducer, replay(b, n->args[0]),
                           (int)n->n_args - 1, vars);
}

static dv_term replay(dv_build *b, const dv_node *n)
{
    dv_term args[32];
    char name[64];
    name_of(name, n->name);
    switch ((dv_node_kind)n->kind) {
    case DV_NODE_INT:
        return dv_build_int(b, n->i);
    case DV_NODE_FLOAT:
        return dv_build_float(b, n->f);
    case DV_NODE_INF:
        return dv_build_float(b, (double)INFINITY);
    case DV_NODE_NAME:
        return dv_build_name(b, name);
    case DV_NODE_ACCESS:
        replay_list(b, args, n->args, n->n_args);
        return dv_build_access(b, name, (int)n->n_args, args);
    case DV_NODE_APPLY:
        replay_list(b, args, n->args, n->n_args);
        return dv_build_apply(b, dv_fn_get((dv_fn)n->op)->text, (int)n->n_args,
                              args);
    case DV_NODE_ELSE:
        name_of(name, n->args[0]->name);
        replay_list(b, args, n->args[0]->args, n->args[0]->n_args);
        return dv_build_access_else(b, name, (int)n->args[0]->n_args, args,
                                    replay(b, n->args[1]));
    case DV_NODE_REDUCE:
        break;
    }
    return replay_reduce(b, n);
}

static void replay_assign(dv_build *b, const dv_stmt *s)
{
    char names[32][64];
    dv_build_range ranges[32];
    dv_build_assign_options o = DV_BUILD_ASSIGN_OPTIONS_INIT;
    o.dtype = s->dtype;
    o.update = s->update;
    o.is_extern = s->is_extern;
    o.ranges = ranges;
    o.n_ranges = (size_t)s->n_ranges;
    for (int i = 0; i < s->n_ranges; i++) {
        name_of(names[i], s->ranges[i].name);
        ranges[i] = (dv_build_range){names[i], replay(b, s->ranges[i].begin),
                                     replay(b, s->ranges[i].end)};
    }
    dv_build_assign(b, replay(b, s->lhs), replay(b, s->value), &o);
}

static void replay_memory(dv_build *b, const char *name,
                          const dv_memory_note *m)
{
    dv_text text = {0};
    dv_memory_note_print(&text, m);
    if (m)
        dv_build_memory(b, name, text.at + strlen(" @ "));
    dv_text_free(&text);
}

static void replay_input(dv_build *b, const dv_stmt *s, const char *name)
{
    dv_term dims[DV_MAX_DIMS];
    int split[8];
    replay_list(b, dims, s->dims, (uint32_t)s->n_dims);
    for (int i = 0; s->place && i < s->place->n_dims; i++)
        split[i] = s->place->dims[i];
    char file[64];
    name_of(file, s->file);
    if (s->kind == DV_STMT_CONST && s->place)
        dv_build_const_at(b, name, (dv_dtype)s->dtype, s->n_dims, dims,
                          s->file.at ? file : NULL, s->place->n_dims, split);
    else if (s->kind == DV_STMT_CONST)
        dv_build_const(b, name, (dv_dtype)s->dtype, s->n_dims, dims,
                       s->file.at ? file : NULL);
    else if (s->place)
        dv_build_input_at(b, name, (dv_dtype)s->dtype, s->n_dims, dims,
                          s->place->n_dims, split);
    else if (s->kind == DV_STMT_INPUT)
        dv_build_input(b, name, (dv_dtype)s->dtype, s->n_dims, dims);
    else
        dv_build_temp(b, name, (dv_dtype)s->dtype, s->n_dims, dims);
    if (s->memory)
        replay_memory(b, name, s->memory[0]);
}

static void replay_repeat(dv_build *b, const dv_stmt *s)
{
    char name[64];
    if (!s->n_ranges) {
        dv_build_repeat(b, replay(b, s->value));
        return;
    }
    name_of(name, s->ranges->name);
    dv_term begin = replay(b, s->ranges->begin);
    dv_build_count(b, name, begin, replay(b, s->ranges->end));
}

static void replay_stmts(dv_build *b, const dv_stmt *s)
{
    char name[64];
    for (; s; s = s->next) {
        name_of(name, s->name);
        switch ((dv_stmt_kind)s->kind) {
        case DV_STMT_PARAM:
            dv_build_param(b, name, replay(b, s->value));
            break;
        case DV_STMT_INPUT:
        case DV_STMT_CONST:
        case DV_STMT_TEMP:
            replay_input(b, s, name);
            break;
        case DV_STMT_OUTPUT:
            for (int i = 0; i < s->n_dims; i++) {
                name_of(name, s->dims[i]->name);
                dv_build_output(b, name);
                replay_memory(b, name, s->memory ? s->memory[i] : NULL);
            }
            break;
        case DV_STMT_ASSIGN:
            replay_assign(b, s);
            break;
        case DV_STMT_REPEAT:
            replay_repeat(b, s);
            replay_stmts(b, s->body);
            dv_build_end(b);
            break;
        }
    }
}

static dv_program *parsed(const char *text)
{
    dv_program *p = NULL;
    dv_diag *diag = dv_diag_create();
    if (dv_program_parse(&p, text, strlen(text), DV_BUILT_NAME, NULL, 0, diag))
        fail_msg("%s\n%s", dv_diag_text(diag), text);
    dv_diag_destroy(diag);
    return p;
}

// Builds the program of the text by calls. Text and JSON of both must be equal.
static void same_as_text(const char *text)
{
    dv_program *want = parsed(text), *got = NULL;
    dv_diag *diag = dv_diag_create();
    dv_build *b = dv_build_create();
    dv_build_label(b, "a # label\nof two lines");
    replay_stmts(b, want->ast.first);
    if (dv_build_finish(&got, b, NULL, 0, diag))
        fail_msg("%s\n%s", dv_diag_text(diag), text);
    dv_build_destroy(b);
    char *one = dv_program_text(want), *two = dv_program_text(got);
    // Statements with several outputs are built as several statements.
    dv_program *again = parsed(two);
    char *three = dv_program_text(again);
    if (!strchr(strstr(one, "output "), ','))
        assert_string_equal(one, two);
    assert_string_equal(two, three);
    char *json[] = {dv_program_json(want, DV_GRAIN_SOURCE),
                    dv_program_json(got, DV_GRAIN_SOURCE)};
    assert_string_equal(json[0], json[1]);
    char *all[] = {one, two, three, json[0], json[1]};
    for (int i = 0; i < 5; i++)
        dv_free(all[i]);
    dv_program_destroy(want);
    dv_program_destroy(got);
    dv_program_destroy(again);
    dv_diag_destroy(diag);
}

TEST(every_construct)
{
    same_as_text(
        "param M = 4 param N = -(-2) * M param e = 1e-5 "
        "input x: f32[M, N/2*2] @ split(1, 0) @ l1(sharded 2x4 on 2x1 cols) "
        "input s: f64[] @ replicate input p: i32[M] "
        "const c: f32[N] @ dram(interleaved) = \"c d.npy\" const k: i64[] "
        "temp b: f32[N] "
        "b[N-1-i] = x[0,i] + c[i] * k[] "
        "m[i] = max[j] x[i,j] "
        "y[i,j]: f64 = exp(x[i,j] - m[i]) / (sum[k] x[i,k]) + s[] "
        "y[i,j] <- y[i,j] * -e + 0.5 for i in 1..M, j in 0..N-1 "
        "extern z[i] = x[p[i],0] - (x[i,1] - 3) "
        "repeat 2*M { z[p[i]] <- z[i] < m[i] "
        "repeat 3 { z[i] <- z[i] - -1 } } "
        "w[i] = select((z[i] < 1) == 0, min(z[i], inf), -inf) "
        "q[i] = mean[j,k] max(x[i,j], 0) * (x[i,k] + b[j]) "
        "g[i] = (x[i-1,p[i+1] else -1] else (2*e)) * (b[i-3] else inf) "
        "+ b[i] "
        "else[i] = (g[i-5] else -(1.0 + N)) <= (g[i+5] else N) for i in 0..N "
        "v[] = prod[i] (-w[i]) * (sum[j] (min[k] x[k,j])) "
        "o[i,r] = (topk[j] x[i,j]) + (sum[j <= i + 1,k != M] x[i,j] * b[k]) "
        "+ (argtopk[j] x[i,j]) for r in 0..2 output o "
        "output y, z output q @ l1(interleaved) "
        "output v output g output else");
}

TEST(every_function)
{
    for (int f = 0; f < dv_n_fns(); f++) {
        const dv_fn_info *info = dv_fn_get((dv_fn)f);
        dv_build *b = dv_build_create();
        dv_term i = dv_build_name(b, "i"), n = dv_build_int(b, 8);
        dv_build_input(b, "x", info->whole ? DV_I32 : DV_F32, 1, &n);
        dv_term x = dv_build_access(b, "x", 1, &i), args[] = {x, x, x};
        dv_term e = dv_build_apply(b, info->text, info->n_args, args);
        dv_build_assign(b, dv_build_access(b, "y", 1, &i), e, NULL);
        dv_build_output(b, "y");
        dv_program *p = NULL;
        assert_int_equal(dv_build_finish(&p, b, NULL, 0, NULL), DV_OK);
        assert_int_equal(p->ops[0].body->kind, DV_EXPR_APPLY);
        if (!info->definition)
            assert_int_equal(p->ops[0].body->fn, f);
        dv_program_destroy(p);
        dv_build_destroy(b);
    }
}

TEST(random_programs)
{
    uint64_t seed = gen_seed();
    for (int i = 0; i < gen_cases(100); i++) {
        char *text = gen_program(seed + (uint64_t)i, GEN_FLOATS);
        same_as_text(text);
        free(text);
    }
}

// -- Params, extension, labels -----------------------------------------------

// Declares x[N], N = 4, and y[i] = x[i] + value.
static void small(dv_build *b, double value)
{
    dv_build_label(b, "node 1, Input 'x'");
    dv_build_param(b, "N", dv_build_int(b, 4));
    dv_term n = dv_build_name(b, "N"), i = dv_build_name(b, "i");
    dv_build_input(b, "x", DV_F32, 1, &n);
    dv_build_label(b, "node 2, Add 'sum'");
    dv_term args[] = {dv_build_access(b, "x", 1, &i), dv_build_float(b, value)};
    dv_build_assign(b, dv_build_access(b, "y", 1, &i),
                    dv_build_apply(b, "+", 2, args), NULL);
    dv_build_label(b, NULL);
    dv_build_output(b, "y");
}

TEST(finished_twice)
{
    dv_build *b = dv_build_create();
    small(b, -1.5);
    dv_program *p = NULL, *q = NULL;
    const dv_param n = {"N", "9"};
    assert_int_equal(dv_build_finish(&p, b, &n, 1, NULL), DV_OK);
    dv_term i = dv_build_name(b, "i");
    dv_build_assign(b, dv_build_access(b, "z", 1, &i),
                    dv_build_access(b, "y", 1, &i), NULL);
    dv_build_output(b, "z");
    assert_int_equal(dv_build_finish(&q, b, NULL, 0, NULL), DV_OK);
    dv_build_destroy(b);
    assert_int_equal(p->tensors[0].shape[0], 9);
    assert_int_equal(q->tensors[0].shape[0], 4);
    assert_int_equal(p->n_ops, 1);
    assert_int_equal(q->n_ops, 2);
    dv_program_destroy(p);
    dv_program_destroy(q);
}

// The program is refused with this status and exactly this text.
static void refused_as(dv_build *b, dv_status want, const char *text)
{
    dv_diag *diag = dv_diag_create();
    dv_program *p = NULL;
    for (int i = 0; i < 2; i++) { // errors do not go away
        dv_diag_clear(diag);
        assert_int_equal(dv_build_finish(&p, b, NULL, 0, diag), want);
        assert_null(p);
        assert_string_equal(dv_diag_text(diag), text);
    }
    assert_int_equal(dv_build_finish(&p, b, NULL, 0, NULL), want);
    dv_diag_destroy(diag);
    dv_build_destroy(b);
}

TEST(errors_carry_labels)
{
    dv_build *b = dv_build_create();
    small(b, 1);
    dv_build_label(b, "node 3, Gather 'conv1'");
    dv_term i = dv_build_name(b, "i"), two[] = {i, i};
    dv_build_assign(b, dv_build_access(b, "z", 1, &i),
                    dv_build_access(b, "y", 2, two), NULL);
    refused_as(b, DV_E_SHAPE,
               "node 3, Gather 'conv1': error[shape]: y has 1 dimension, here "
               "are 2 indices\n    z[i] = y[i,i]\n           ^\n");
    // A note shows another statement, by its label.
    b = dv_build_create();
    small(b, 1);
    dv_build_label(b, "node 4");
    i = dv_build_name(b, "i");
    dv_build_assign(b, dv_build_access(b, "y", 1, &i), dv_build_int(b, 0),
                    NULL);
    refused_as(b, DV_E_NAME,
               "node 4: error[name]: y is defined twice; update it with <-\n"
               "    y[i] = 0\n    ^\n"
               "node 2, Add 'sum': note: defined here\n"
               "    y[i] = x[i] + 1.0\n    ^\n");
    // Without a label: the line of the program.
    b = dv_build_create();
    small(b, 1);
    dv_build_output(b, "y");
    refused_as(b, DV_E_NAME,
               "built program:5:8: error[name]: y is named as an output twice\n"
               "    output y\n           ^\n");
    // Inside a repeat.
    b = dv_build_create();
    small(b, 1);
    dv_build_label(b, "loop");
    dv_build_repeat(b, dv_build_int(b, 3));
    dv_build_label(b, "body");
    dv_build_output(b, "y");
    dv_build_end(b);
    refused_as(b, DV_E_SYNTAX,
               "body: error[syntax]: only assignments and repeats stand in a "
               "repeat\n        output y\n        ^\n");
}

TEST(counters_stay_inside)
{
    dv_build *b = dv_build_create();
    small(b, 1);
    dv_build_label(b, "loop");
    dv_build_count(b, "t", dv_build_int(b, -1), dv_build_int(b, 3));
    dv_build_label(b, "body");
    dv_term t = dv_build_name(b, "t");
    dv_build_assign_options o = DV_BUILD_ASSIGN_OPTIONS_INIT;
    o.update = 1;
    dv_build_assign(b, dv_build_access(b, "y", 1, &t), dv_build_int(b, 0), &o);
    dv_build_end(b);
    refused_as(b, DV_E_BOUNDS,
               "body: error[bounds]: index t reaches -1 when t is -1 (of "
               "-1..3), dim 0 of y has 0..4\n        y[t] <- 0\n        ^\n");
}

TEST(an_open_repeat_is_named)
{
    dv_build *b = dv_build_create();
    small(b, 1);
    dv_build_label(b, "node 7, Loop");
    dv_build_repeat(b, dv_build_int(b, 3));
    dv_build_label(b, "body");
    refused_as(b, DV_E_USAGE,
               "node 7, Loop: error[usage]: dv_build_finish: 1 repeat is not "
               "ended; call dv_build_end\n");
    b = dv_build_create();
    small(b, 1);
    dv_build_label(b, NULL);
    dv_build_repeat(b, dv_build_int(b, 3));
    dv_build_label(b, "inner");
    dv_build_repeat(b, dv_build_int(b, 3));
    refused_as(b, DV_E_USAGE,
               "inner: error[usage]: dv_build_finish: 2 repeats are not ended; "
               "call dv_build_end\n");
}

// -- Wrong calls -------------------------------------------------------------

TEST(errors_are_sticky)
{
    dv_build *b = dv_build_create();
    dv_build_label(b, "first");
    assert_null(dv_build_name(b, "3x"));
    dv_build_label(b, "second");
    assert_null(dv_build_int(b, 1));
    assert_null(dv_build_float(b, 1));
    assert_null(dv_build_name(b, "x"));
    assert_null(dv_build_access(b, "x", 0, NULL));
    assert_null(dv_build_apply(b, "nothing", 0, NULL));
    assert_null(dv_build_reduce(b, "nothing", NULL, 0, NULL));
    dv_build_param(b, "x", NULL);
    dv_build_input(b, "x", DV_F32, 0, NULL);
    dv_build_input_at(b, "x", DV_F32, 0, NULL, 0, NULL);
    dv_build_temp(b, "x", DV_F32, 0, NULL);
    dv_build_output(b, "x");
    dv_build_assign(b, NULL, NULL, NULL);
    dv_build_repeat(b, NULL);
    dv_build_end(b);
    refused_as(b, DV_E_NAME,
               "first: error[name]: dv_build_name: '3x' is no name; a name has "
               "letters, digits and _, and does not begin with a digit\n");
}

// A builder, and terms for wrong calls: x is an access to an input.
static dv_term x, one, i_;

static dv_build *fresh(void)
{
    dv_build *b = dv_build_create();
    small(b, 1);
    i_ = dv_build_name(b, "i");
    x = dv_build_access(b, "x", 1, &i_);
    one = dv_build_int(b, 1);
    return b;
}

static void refuses(dv_build *b, dv_status want)
{
    dv_program *p = NULL;
    assert_int_equal(dv_build_finish(&p, b, NULL, 0, NULL), want);
    assert_null(p);
    dv_build_destroy(b);
}

#define REFUSES(status, ...)                                                   \
    do {                                                                       \
        dv_build *b = fresh();                                                 \
        __VA_ARGS__;                                                           \
        refuses(b, status);                                                    \
    } while (0)

TEST(wrong_terms)
{
    static const char *const names[] = {"i", "i"}, *const none[] = {NULL};
    dv_build *other = dv_build_create();
    dv_term foreign = dv_build_int(other, 1), null[] = {NULL};
    REFUSES(DV_E_OVERFLOW, dv_build_int(b, INT64_MIN));
    REFUSES(DV_E_USAGE, dv_build_float(b, (double)NAN));
    REFUSES(DV_E_NAME, dv_build_name(b, NULL));
    REFUSES(DV_E_NAME, dv_build_name(b, ""));
    REFUSES(DV_E_NAME, dv_build_name(b, "a b"));
    REFUSES(DV_E_NAME, dv_build_name(b, "x#"));
    REFUSES(DV_E_NAME, dv_build_name(b, "inf"));
    REFUSES(DV_E_NAME, dv_build_access(b, "sum", 1, &i_));
    REFUSES(DV_E_USAGE, dv_build_access(b, "x", 1, NULL));
    REFUSES(DV_E_USAGE, dv_build_access(b, "x", -1, &i_));
    REFUSES(DV_E_USAGE, dv_build_access(b, "x", 1, null));
    REFUSES(DV_E_USAGE, dv_build_access(b, "x", 1, &foreign));
    REFUSES(DV_E_USAGE, dv_build_access_else(b, "x", 1, &i_, NULL));
    REFUSES(DV_E_SYNTAX, dv_term v = dv_build_access_else(b, "x", 1, &i_, x);
            dv_build_assign(b, dv_build_access(b, "z", 1, &i_), v, NULL));
    REFUSES(DV_E_USAGE, dv_build_apply(b, NULL, 1, &x));
    REFUSES(DV_E_NAME, dv_build_apply(b, "expp", 1, &x));
    REFUSES(DV_E_USAGE, dv_build_apply(b, "exp", 2, &x));
    REFUSES(DV_E_USAGE, dv_build_apply(b, "exp", 1, null));
    REFUSES(DV_E_NAME, dv_build_reduce(b, "total", x, 1, names));
    REFUSES(DV_E_NAME, dv_build_reduce(b, NULL, x, 1, names));
    REFUSES(DV_E_USAGE, dv_build_reduce(b, "sum", NULL, 1, names));
    REFUSES(DV_E_USAGE, dv_build_reduce(b, "sum", x, 0, names));
    REFUSES(DV_E_USAGE, dv_build_reduce(b, "sum", x, 1, NULL));
    REFUSES(DV_E_NAME, dv_build_reduce(b, "sum", x, 1, none));
    REFUSES(DV_E_USAGE, dv_build_reduce(b, "sum", x, 99, names));
    REFUSES(DV_E_USAGE, dv_build_reduce_over(b, "sum", x, 1, null));
    REFUSES(DV_E_USAGE, dv_build_reduce_over(b, "sum", x, 1, &x));
    REFUSES(DV_E_USAGE, dv_build_reduce_over(b, "sum", x, 1, NULL));
    dv_build_destroy(other);
}

TEST(wrong_statements)
{
    dv_build_assign_options o = DV_BUILD_ASSIGN_OPTIONS_INIT, p = o;
    dv_build_range r = {"i", NULL, NULL};
    int split[] = {1};
    REFUSES(DV_E_USAGE, dv_build_param(b, "P", NULL));
    REFUSES(DV_E_NAME, dv_build_param(b, "inf", one));
    REFUSES(DV_E_DTYPE, dv_build_input(b, "u", (dv_dtype)99, 1, &one));
    REFUSES(DV_E_USAGE, dv_build_input(b, "u", DV_F32, 1, NULL));
    REFUSES(DV_E_LIMIT, dv_term many[17];
            for (int k = 0; k < 17; k++) many[k] = one;
            dv_build_input(b, "u", DV_F32, 17, many));
    REFUSES(DV_E_SHAPE, dv_build_input_at(b, "u", DV_F32, 1, &one, 1, split));
    REFUSES(DV_E_LIMIT, dv_build_input_at(b, "u", DV_F32, 1, &one, 1, NULL));
    REFUSES(DV_E_NAME, dv_build_const(b, "1", DV_F32, 0, NULL, NULL));
    REFUSES(DV_E_USAGE, dv_build_const(b, "u", DV_F32, 0, NULL, ""));
    REFUSES(DV_E_USAGE, dv_build_const(b, "u", DV_F32, 0, NULL, "a\"b"));
    REFUSES(DV_E_NAME, dv_build_const(b, "u", DV_F32, 0, NULL, NULL);
            dv_build_output(b, "u"));
    REFUSES(DV_E_NAME, dv_build_output(b, "nothing"));
    REFUSES(DV_E_NAME, dv_build_memory(b, "nothing", "dram(interleaved)"));
    REFUSES(DV_E_SYNTAX, dv_build_memory(b, "x", "dram(interleaved) x"));
    REFUSES(DV_E_SYNTAX, dv_build_memory(b, "x", NULL));
    REFUSES(DV_E_SHAPE, dv_build_memory(b, "x", "dram(sharded 3x4 rows)"));
    REFUSES(DV_E_USAGE, dv_build_assign(b, one, x, NULL));
    REFUSES(DV_E_USAGE, dv_build_assign(b, x, NULL, NULL));
    REFUSES(DV_E_USAGE, p.size = 3; dv_build_assign(b, x, x, &p));
    REFUSES(DV_E_DTYPE, p = o; p.dtype = 77; dv_build_assign(b, x, x, &p));
    REFUSES(DV_E_USAGE, p = o; p.update = 2; dv_build_assign(b, x, x, &p));
    REFUSES(DV_E_LIMIT, p = o; p.n_ranges = 1; dv_build_assign(b, x, x, &p));
    REFUSES(DV_E_USAGE, p.ranges = &r; dv_build_assign(b, x, x, &p));
    REFUSES(DV_E_USAGE, dv_build_end(b));
    REFUSES(DV_E_USAGE, dv_build_repeat(b, NULL));
    REFUSES(DV_E_USAGE, dv_build_repeat(b, one));
    REFUSES(DV_E_SYNTAX, dv_build_repeat(b, one); dv_build_end(b));
    REFUSES(DV_E_LIMIT, for (int k = 0; k < 300; k++) dv_build_repeat(b, one));
    dv_build *empty = dv_build_create();
    refuses(empty, DV_E_SYNTAX);
    assert_int_equal(dv_build_finish(NULL, NULL, NULL, 0, NULL), DV_E_NOMEM);
    dv_build_label(NULL, "x");
    assert_null(dv_build_int(NULL, 1));
    dv_build_output(NULL, "x");
    dv_build_destroy(NULL);
}

// Names that are words of the language, and expressions that are too deep or,
// because terms have parts in common, too long.
TEST(unusual_programs)
{
    static const char *const words[] = {"for",  "in",    "input",  "output",
                                        "else", "param", "repeat", "extern",
                                        "exp",  "split", "temp"};
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        dv_build *b = fresh();
        dv_build_assign(b, dv_build_access(b, words[w], 1, &i_), x, NULL);
        dv_term t = dv_build_access(b, words[w], 1, &i_);
        dv_build_assign(b, dv_build_access(b, "z", 1, &i_), t, NULL);
        dv_build_output(b, "z");
        dv_program *p = NULL;
        assert_int_equal(dv_build_finish(&p, b, NULL, 0, NULL), DV_OK);
        assert_int_equal(p->n_ops, 3);
        dv_program_destroy(p);
        dv_build_destroy(b);
    }
    REFUSES(DV_E_LIMIT, dv_term t = x;
            for (int k = 0; k < 1100; k++) t = dv_build_apply(b, "-", 1, &t));
    REFUSES(
        DV_E_LIMIT, dv_term t = x; for (int k = 0; k < 60; k++) {
            dv_term both[] = {t, t};
            t = dv_build_apply(b, "+", 2, both);
        });
    REFUSES(
        DV_E_LIMIT, dv_term t = x; for (int k = 0; k < 300; k++) {
            dv_term both[] = {one, t};
            t = dv_build_apply(b, "+", 2, both);
        } dv_build_assign(b, dv_build_access(b, "z", 1, &i_), t, NULL));
}

// -- Out of memory -----------------------------------------------------------

static dv_status build_all(dv_program **out)
{
    static const char *const k[] = {"k"};
    dv_build *b = dv_build_create();
    small(b, 2);
    dv_build_assign_options o = DV_BUILD_ASSIGN_OPTIONS_INIT;
    dv_build_range r = {"i", dv_build_int(b, 1), dv_build_int(b, -(-3))};
    dv_term i = dv_build_name(b, "i"), kk = dv_build_name(b, "k");
    dv_term s =
        dv_build_reduce(b, "sum", dv_build_access(b, "x", 1, &kk), 1, k);
    o.update = 1;
    o.ranges = &r;
    o.n_ranges = 1;
    dv_build_repeat(b, dv_build_int(b, 2));
    dv_build_assign(b, dv_build_access(b, "y", 1, &i), s, &o);
    dv_build_end(b);
    dv_status st = dv_build_finish(out, b, NULL, 0, NULL);
    dv_build_destroy(b);
    return st;
}

TEST(out_of_memory)
{
    dv_status got = DV_E_NOMEM;
    int64_t n = 0;
    for (; got != DV_OK; n++) {
        dv_program *p = NULL;
        dv_mem_fail_at(n);
        got = build_all(&p);
        dv_mem_fail_at(-1);
        assert_true(got == DV_OK || got == DV_E_NOMEM);
        assert_true((p != NULL) == (got == DV_OK));
        assert_true(n < 200);
        dv_program_destroy(p);
    }
    assert_true(n > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_construct),
        cmocka_unit_test(every_function),
        cmocka_unit_test(random_programs),
        cmocka_unit_test(finished_twice),
        cmocka_unit_test(errors_carry_labels),
        cmocka_unit_test(counters_stay_inside),
        cmocka_unit_test(an_open_repeat_is_named),
        cmocka_unit_test(errors_are_sticky),
        cmocka_unit_test(wrong_terms),
        cmocka_unit_test(wrong_statements),
        cmocka_unit_test(unusual_programs),
        cmocka_unit_test(out_of_memory),
    };
    return run_group(tests, NULL, NULL);
}
