// Parses options and prints the help text, both from one table per command.
#include "cli/cli.h"
#include "base/suggest.h"
#include "target/field.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void help(const cli_command *c, const cli_option *options)
{
    printf("divvy %s %s\n    %s\n", c->name, c->args, c->about);
    if (c->example)
        printf("    divvy %s %s\n", c->name, c->example);
    printf("\n");
    for (const cli_option *o = options; o->name; o++) {
        char left[80];
        if (o->kind == CLI_OPTIONAL)
            snprintf(left, sizeof left, "--%s[=%s]", o->name, o->value);
        else
            snprintf(left, sizeof left, "--%s%s%s", o->name,
                     o->value ? " " : "", o->value ? o->value : "");
        if (o->letter)
            printf("  -%c, ", o->letter);
        else
            printf("      ");
        // If the left column is too long, put the help text on the next line.
        if (strlen(left) > 24)
            printf("%s\n%-31s%s\n", left, "", o->help);
        else
            printf("%-24s %s\n", left, o->help);
    }
    printf("  -h, %-24s %s\n", "--help", "this text");
}

static const cli_option *find(const cli_option *options, const char *word,
                              size_t len)
{
    for (const cli_option *o = options; o->name; o++) {
        if (word[1] != '-' && len == 2 && o->letter && word[1] == o->letter)
            return o;
        if (word[1] == '-' && strlen(o->name) == len - 2 &&
            strncmp(o->name, word + 2, len - 2) == 0)
            return o;
    }
    return NULL;
}

int64_t cli_bytes(const char *text)
{
    size_t n = strspn(text, "0123456789.");
    double scale = 1, v = n ? dv_parse_double(text, n) : 0;
    if (text[n])
        scale = dv_unit_scale(DV_KIND_bytes, text + n, strlen(text + n));
    v *= scale;
    return v >= 1 && v <= 0x1p60 && v == (double)(int64_t)v ? (int64_t)v : 0;
}

// Stores the number of a word among the choices of an option.
static int choose(const cli_command *c, const cli_option *o, const char *value)
{
    size_t len = strlen(value);
    int number = 1;
    for (const char *at = o->value; at; number++) {
        const char *end = strchr(at, '|');
        size_t n = end ? (size_t)(end - at) : strlen(at);
        if (n == len && !strncmp(at, value, n)) {
            *(int *)o->to = number;
            return -1;
        }
        at = end ? end + 1 : NULL;
    }
    dv_text words = {0};
    for (const char *at = o->value; *at; at++)
        if (*at != '|')
            dv_put(&words, "%c", *at);
        else
            dv_put(&words, strchr(at + 1, '|') ? ", " : " or ");
    int code = cli_usage(c, "--%s takes %s, not '%s'", o->name,
                         words.at ? words.at : o->value, value);
    dv_text_free(&words);
    return code;
}

static int store(const cli_command *c, const cli_option *o, const char *value)
{
    cli_list *list = o->to;
    switch (o->kind) {
    case CLI_FLAG:
        *(int *)o->to = 1;
        break;
    case CLI_TEXT:
    case CLI_OPTIONAL:
        *(const char **)o->to = value ? value : "";
        break;
    case CLI_COUNT:
    case CLI_SIZE:
        if (!*value || value[strspn(value, "0123456789")])
            return cli_usage(c,
                             "--%s takes a whole number of %d or more, not "
                             "'%s'",
                             o->name, o->kind == CLI_SIZE, value);
        errno = 0;
        *(int64_t *)o->to = strtoll(value, NULL, 10);
        if (errno == ERANGE)
            return cli_usage(c, "--%s: %s is above 2^63 - 1", o->name, value);
        if (o->kind == CLI_SIZE && *(int64_t *)o->to == 0)
            return cli_usage(c, "--%s takes 1 or more", o->name);
        break;
    case CLI_BYTES:
        *(int64_t *)o->to = cli_bytes(value);
        if (*(int64_t *)o->to == 0)
            return cli_usage(c,
                             "--%s takes a number of bytes above 0, or one of "
                             "KiB, MiB, GiB, not '%s'",
                             o->name, value);
        break;
    case CLI_CHOICE:
        return choose(c, o, value);
    case CLI_LIST:
        if (list->n == CLI_MAX_LIST)
            return cli_usage(c, "--%s can be given %d times at most", o->name,
                             (int)CLI_MAX_LIST);
        list->at[list->n++] = value;
        break;
    }
    return -1;
}

// Returns whether a word is an option: - or -- and a letter. Other words that
// begin with - are operands: a lone -, the einsum expression ->, a typed scalar
// (-:f16), a number.
static int is_option(const char *word)
{
    return word[0] == '-' &&
           (word[1] == '-' || isalpha((unsigned char)word[1]));
}

static int no_option(const cli_command *c, const cli_option *options,
                     const char *word, size_t len)
{
    dv_suggestion s = {.word = word + 2, .len = len < 2 ? 0 : len - 2};
    for (const cli_option *o = options; o->name && word[1] == '-'; o++)
        dv_suggest(&s, o->name);
    return cli_usage(c, "there is no option %.*s%s%s%s", (int)len, word,
                     s.best ? "; did you mean --" : "", s.best ? s.best : "",
                     s.best ? "?" : "");
}

int cli_parse(const cli_command *c, const cli_option *options, int argc,
              char **argv, const char **operands, int *n_operands, int max)
{
    int only_operands = 0;
    *n_operands = 0;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (only_operands || !is_option(word)) {
            if (*n_operands == max)
                return cli_usage(c, "'%s' is one operand too many", word);
            operands[(*n_operands)++] = word;
            continue;
        }
        if (!strcmp(word, "--")) {
            only_operands = 1;
            continue;
        }
        if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
            help(c, options);
            return 0;
        }
        const char *eq = word[1] == '-' ? strchr(word, '=') : NULL;
        size_t len = eq ? (size_t)(eq - word) : strlen(word);
        const cli_option *o = find(options, word, len);
        if (!o)
            return no_option(c, options, word, len);
        const char *value = eq ? eq + 1 : NULL;
        if (o->kind == CLI_FLAG && value)
            return cli_usage(c, "--%s takes no value", o->name);
        if (o->kind != CLI_FLAG && o->kind != CLI_OPTIONAL && !value) {
            if (i + 1 == argc)
                return cli_usage(c, "--%s needs %s", o->name, o->value);
            value = argv[++i];
        }
        int code = store(c, o, value);
        if (code >= 0)
            return code;
    }
    return cli_ranks_compare(c, options, operands, *n_operands);
}

const char *cli_split(const char *pair, char *name, size_t room)
{
    const char *eq = strchr(pair, '=');
    size_t len = eq ? (size_t)(eq - pair) : 0;
    if (!eq || len == 0 || len >= room || !eq[1])
        return NULL;
    memcpy(name, pair, len);
    name[len] = 0;
    return eq + 1;
}

int cli_grain(const char *text, dv_grain *out)
{
    static const char *const names[] = {[DV_GRAIN_FUSED] = "fused",
                                        [DV_GRAIN_PRIMITIVE] = "primitive",
                                        [DV_GRAIN_FUNCTION] = "function"};
    for (dv_grain g = DV_GRAIN_FUSED; g <= DV_GRAIN_FUNCTION; g++)
        if (!strcmp(text, names[g])) {
            *out = g;
            return 1;
        }
    return 0;
}

int cli_rect(const char *text, dv_core_rect *out)
{
    int end = 0;
    if (sscanf(text, "%9d,%9d-%9d,%9d%n", &out->x0, &out->y0, &out->x1,
               &out->y1, &end) == 4 &&
        !text[end])
        return 1;
    if (sscanf(text, "%9d,%9d%n", &out->x0, &out->y0, &end) != 2 || text[end])
        return 0;
    out->x1 = out->x0;
    out->y1 = out->y0;
    return 1;
}

int cli_parse_sets(const cli_command *c, const cli_list *sets, cli_params *out)
{
    out->n = 0;
    for (int i = 0; i < sets->n; i++) {
        const char *value =
            cli_split(sets->at[i], out->names[out->n], sizeof out->names[0]);
        if (!value)
            return cli_usage(c, "--set takes NAME=VALUE, not '%s'",
                             sets->at[i]);
        out->params[out->n] = (dv_param){out->names[out->n], value};
        out->n++;
    }
    return -1;
}
