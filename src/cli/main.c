// The divvy command: the table of subcommands, and main.
#define _POSIX_C_SOURCE 200809L // for sigaction
#include "base/file.h"
#include "base/suggest.h"
#include "cli/cli.h"
#include "jit/backend.h"
#include "team/team.h"
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const cli_command cli_commands[] = {
    {"bench", "FILE", "time a program beside what the machine can do",
     cli_bench, NULL, 1},
    {"check", "FILE.dv", "parse and verify a program; show its ops", cli_check,
     NULL, 0},
    {"choose", "FILE.json", "choose one strategy for each node of a graph",
     cli_choose, NULL, 0},
    {"dist", "[OP K=V ...]", "who owns what, and what has to travel",
     cli_dist_main, NULL, 0},
    {"einsum", "EXPR SHAPES", "multiply tensors and sum over indices",
     cli_einsum, "abcd,ecfd->abef 8x8x8x8 4x8x4x8 --verify", 0},
    {"emit", "FILE -o DIR", "write a plan as C, OpenMP or kernels", cli_emit,
     NULL, 0},
    {"fuse", "FILE.json", "fuse ops into tiled groups for a scratchpad",
     cli_fuse, NULL, 0},
    {"grid", "--tiles MxN", "give the cores of a machine tiles", cli_grid, NULL,
     0},
    {"import", "FILE -o DIR", "write an ONNX model as a program", cli_import,
     "resnet50.onnx -o resnet50", 0},
    {"lint", "FILE", "look for defects in tiles on cores", cli_lint, NULL, 0},
    {"nest", "FILE", "loops around a kernel: check, optimise, run", cli_nest,
     NULL, 0},
    {"place", "FILE.csv", "give buffers addresses in one memory", cli_place,
     NULL, 0},
    {"plan", "FILE", "divide a program for a target; print the plan", cli_plan,
     NULL, 0},
    {"report", "PLAN [PLAN]", "write a page with pictures of a plan, or of two",
     cli_report, NULL, 0},
    {"run", "FILE", "plan, check and run a program", cli_run, NULL, 1},
    {"targets", "[NAME]", "list the targets, or print one", cli_targets, NULL,
     0},
    {0},
};

static void help(FILE *out)
{
    fprintf(out,
            "divvy %s: divide a tensor program, prove the division, run "
            "it\n\n",
            dv_version());
    for (const cli_command *c = cli_commands; c->name; c++)
        fprintf(out, "  divvy %-8s %-12s %s\n", c->name, c->args, c->about);
    fprintf(out,
            "\n  divvy COMMAND --help says what a command takes.\n"
            "\nTry: divvy run examples/softmax.dv --target spyre --verify\n"
            "Exit codes: 0 done, 1 wrong input, 2 wrong usage, 3 the machine "
            "refused, 4 a check failed\n");
}

// Checks that DIVVY_CPU names a known instruction set. A known set that this
// machine lacks is no error, since the variable may be meant for another
// machine. Returns -1 to continue, or an exit code.
static int check_cpu(const cli_command *c)
{
    const char *wish = getenv("DIVVY_CPU");
    dv_text names = {0};
    if (!wish || dv_isa_find(wish))
        return -1;
    dv_isa_names(&names);
    int code = cli_usage(c, "DIVVY_CPU is '%s'; there are:%s", wish,
                         names.at ? names.at : "");
    dv_text_free(&names);
    return code;
}

static int run_command(const cli_command *c, int argc, char **argv)
{
    int code = check_cpu(c);
    return code < 0 ? c->run(c, argc, argv) : code;
}

// Reports a mistake in a call without a subcommand. Returns the exit code.
__attribute__((format(printf, 1, 2))) static int usage_error(const char *form,
                                                             ...)
{
    char text[256];
    va_list ap;
    va_start(ap, form);
    vsnprintf(text, sizeof text, form, ap);
    va_end(ap);
    if (cli_rank)
        cli_ranks_usage_error(text);
    else
        fprintf(stderr, "divvy: %s\n", text);
    return 2;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        if (!cli_rank)
            help(stderr);
        cli_ranks_usage_error("a command is needed");
        return 2;
    }
    const char *word = argv[1];
    int asks = !strcmp(word, "help");
    int takes_no_more = !strcmp(word, "--version") ||
                        !strcmp(word, "version") || !strcmp(word, "--help") ||
                        !strcmp(word, "-h");
    if (argc > 2 + asks && (asks || takes_no_more))
        return usage_error("'%.100s' is one word too many", argv[2 + asks]);
    if (!strcmp(word, "--version") || !strcmp(word, "version")) {
        printf("divvy %s\n", dv_version());
        return 0;
    }
    char ask[] = "--help", *only_help[] = {ask};
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || (asks && argc == 2)) {
        help(stdout);
        return 0;
    }
    // "divvy help run" prints what "divvy run --help" prints.
    if (asks)
        word = argv[2];
    for (const cli_command *c = cli_commands; c->name; c++)
        if (strcmp(c->name, word) == 0)
            return asks ? run_command(c, 1, only_help)
                        : run_command(c, argc - 2, argv + 2);
    char meant[DV_SUGGESTION_BYTES];
    dv_suggestion s = {.word = word, .len = strlen(word)};
    for (const cli_command *c = cli_commands; c->name; c++)
        dv_suggest(&s, c->name);
    return usage_error("there is no command %.100s; divvy --help lists them%s",
                       word, dv_suggestion_text(&s, meant));
}

// Lets processes other than rank 0 end later: launchers kill all processes when
// the first one ends, and rank 0 still has to write files and report errors.
static void delay_other_ranks(void)
{
    if (cli_rank)
        nanosleep(&(struct timespec){0, 300000000}, NULL);
}

// Signal handler: removes partly written files, then raises the signal again
// with its default action.
static void on_end(int signal)
{
    dv_writers_remove_temps();
    delay_other_ranks();
    raise(signal);
}

static void catch_ends(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction act = {.sa_handler = on_end};
    act.sa_flags = (int)SA_RESETHAND;
    sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct sigaction old;
        // Signals that are ignored, as under nohup, stay ignored.
        if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(ends[i], &act, NULL);
    }
}

const char *cli_words;

// Joins the words of the command line, except the files of reports, so that a
// report's contents do not depend on where it is written.
static void join_words(dv_text *out, int argc, char **argv)
{
    dv_put(out, "divvy");
    for (int i = 1; i < argc; i++) {
        int report =
            !strncmp(argv[i], "--html", 6) || !strncmp(argv[i], "--trace", 7);
        if (!report)
            dv_put(out, " %s", argv[i]);
        else if (!strchr(argv[i], '='))
            i++; // the file's name
    }
    cli_words = out->at;
}

int main(int argc, char **argv)
{
    dv_text words = {0};
    catch_ends();
    join_words(&words, argc, argv);
    // With SIGXFSZ ignored, a write beyond the limit on file sizes fails with
    // an error that is reported, and the temporary file is removed.
    signal(SIGXFSZ, SIG_IGN);
    cli_ranks = dv_mpi_launched(&cli_rank);
    cli_ranks_begin();
    // Only rank 0 prints; the other ranks' output is discarded.
    if (cli_rank && !freopen("/dev/null", "w", stdout)) {
        cli_ranks_usage_error("/dev/null cannot be opened");
        return cli_ranks_end(3);
    }
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        cli_json |= !strcmp(argv[i], "--json");
    int code = cli_ranks_end(dispatch(argc, argv));
    dv_text_free(&words);
    // A full disk may be detected only when the last output is flushed.
    int failed = ferror(stdout);
    if (fflush(stdout) != 0 || failed) {
        fprintf(stderr, "divvy: error[output]: cannot write the output: %s\n",
                strerror(errno));
        return 3;
    }
    if (code)
        delay_other_ranks();
    return code;
}
