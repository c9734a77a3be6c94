// Compares the options of the processes of one mpirun before they do anything.
//
// Every rank starts MPI before it parses its arguments, and takes part in one
// comparison: with its options when they are parsed, or with its usage error.
// So no rank waits for one that has ended, and ranks that were started with
// different arguments stop with one message.
//
//   main       cli_ranks_begin         MPI starts
//   cli_parse  cli_ranks_compare       all arguments parsed: are they the same?
//   main       cli_ranks_end           ranks that have not compared do so now
//
// Commands that a team of processes executes together continue on all ranks;
// any other command is executed by rank 0 alone, and the other ranks end.
#include "cli/cli.h"
#include "team/team.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// begun: whether starting MPI was tried; met: whether the ranks compared their
// options.
static int begun, met;
static dv_status outcome; // status of starting MPI
static char why[512];     // message if MPI could not be started
// Nonzero if this program started MPI and must end it.
static int owned;
static char mistake[1024]; // usage error of this rank, reported by rank 0

dv_status cli_mpi_begin(dv_diag *diag)
{
    if (!begun) {
        dv_diag *mine = dv_diag_create();
        begun = 1;
        outcome = dv_mpi_begin(cli_ranks, &owned, mine);
        const dv_message *e = dv_diag_error(mine);
        snprintf(why, sizeof why, "%s", e ? e->text : "MPI cannot be started");
        dv_diag_destroy(mine);
    }
    return outcome == DV_OK ? DV_OK
                            : dv_fail(diag, outcome, DV_NOWHERE, "%s", why);
}

static void mpi_end(void)
{
    if (owned)
        dv_mpi_end();
    owned = 0;
}

void cli_ranks_begin(void)
{
    if (cli_ranks > 1)
        cli_mpi_begin(NULL);
}

void cli_ranks_usage_error(const char *text)
{
    snprintf(mistake, sizeof mistake, "%s", text);
}

enum { MAX_FACTS = 2048 };

typedef struct facts {
    dv_setting at[MAX_FACTS];
    int32_t n;
    char numbers[128][24]; // values that are numbers, as text
    char names[128][40];   // option names with their dashes
    int n_numbers, n_names;
} facts;

static void add(facts *f, const char *name, const char *value)
{
    if (f->n < MAX_FACTS)
        f->at[f->n++] = (dv_setting){name, value};
}

static const char *number(facts *f, int64_t value)
{
    if (f->n_numbers == 128)
        return "";
    char *text = f->numbers[f->n_numbers++];
    snprintf(text, sizeof f->numbers[0], "%" PRId64, value);
    return text;
}

// Returns word number n of a list whose words are separated by |, counted from
// 1; NULL if n is 0.
static const char *word(facts *f, const char *list, int n)
{
    if (n == 0)
        return NULL;
    if (f->n_numbers == 128)
        return "";
    for (; n > 1; n--)
        list = strchr(list, '|') + 1;
    char *text = f->numbers[f->n_numbers++];
    snprintf(text, sizeof f->numbers[0], "%.*s", (int)strcspn(list, "|"), list);
    return text;
}

// Returns whether an option may differ between ranks: each may run on another
// machine (threads), and only rank 0 prints (json).
static int may_differ(const cli_option *o)
{
    return !strcmp(o->name, "threads") || !strcmp(o->name, "json");
}

static void add_option(facts *f, const cli_option *o)
{
    const cli_list *list = o->to;
    if (f->n_names == 128 || may_differ(o))
        return;
    const char *another = f->names[f->n_names++];
    snprintf(f->names[f->n_names - 1], sizeof f->names[0], "another --%s",
             o->name);
    const char *name = another + strlen("another ");
    switch (o->kind) {
    case CLI_FLAG:
        add(f, name, *(const int *)o->to ? "" : NULL);
        break;
    case CLI_TEXT:
    case CLI_OPTIONAL:
        add(f, name, *(const char *const *)o->to);
        break;
    case CLI_CHOICE:
        add(f, name, word(f, o->value, *(const int *)o->to));
        break;
    case CLI_COUNT:
    case CLI_SIZE:
    case CLI_BYTES: {
        int64_t value = *(const int64_t *)o->to;
        add(f, name, value ? number(f, value) : NULL);
        break;
    }
    case CLI_LIST:
        for (int i = 0; i < list->n; i++)
            add(f, name, list->at[i]);
        // Add an end marker, so that a longer list of another rank differs from
        // it.
        add(f, list->n ? another : name, NULL);
        break;
    }
}

static facts *collect(const cli_command *c, const cli_option *options,
                      const char *const *operands, int n_operands)
{
    facts *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    add(f, "version", dv_version());
    add(f, "divvy", c->name);
    for (int i = 0; i < n_operands; i++)
        add(f, "the operand", operands[i]);
    add(f, "another operand", NULL);
    for (const cli_option *o = options; o && o->name; o++)
        add_option(f, o);
    add(f, "DIVVY_EXECUTOR=", getenv("DIVVY_EXECUTOR"));
    return f;
}

// Compares this rank's facts (its options as texts) with those of all others,
// or reports its usage error if `wrong` is set. Called once on every rank.
// Returns the exit code, or -1 to continue.
static int meet(const facts *f, int wrong)
{
    dv_comm *comm = NULL;
    dv_diag *diag = dv_diag_create(), *mine = dv_diag_create();
    dv_status st = dv_mpi_create(&comm, NULL, NULL, diag), own = DV_OK;
    met = 1;
    if (!wrong && !f)
        own = dv_nomem(mine);
    else if (wrong)
        own = dv_fail(mine, DV_E_USAGE, DV_NOWHERE, "%s", mistake);
    if (st == DV_OK)
        st = dv_comm_agree_status(comm, own, mine, diag);
    if (st == DV_OK)
        st = dv_comm_compare(comm, f->at, f->n, "started", diag);
    int code = st == DV_OK ? -1 : dv_status_exit(st);
    // A rank with a usage error has already reported it if it is rank 0.
    if (st != DV_OK && !wrong)
        code = cli_fail(diag);
    dv_mpi_destroy(comm);
    dv_diag_destroy(diag);
    dv_diag_destroy(mine);
    return code;
}

int cli_ranks_compare(const cli_command *c, const cli_option *options,
                      const char *const *operands, int n_operands)
{
    int code = -1;
    if (cli_ranks <= 1 || met)
        return -1;
    if (outcome == DV_OK) {
        facts *f = collect(c, options, operands, n_operands);
        code = meet(f, 0);
        free(f);
    }
    if (c->team || code >= 0)
        return code;
    mpi_end();
    if (!cli_rank)
        fprintf(stderr,
                "divvy %s: note: rank 0 of %" PRId64 " does this alone; run "
                "and bench divide the work\n",
                c->name, cli_ranks);
    return cli_rank ? 0 : -1;
}

int cli_ranks_end(int code)
{
    static const cli_command none = {.name = "--help or --version"};
    if (cli_ranks > 1 && !met && outcome == DV_OK) {
        facts *f = collect(&none, NULL, NULL, 0);
        int other = meet(f, code != 0);
        code = other >= 0 ? other : code;
        free(f);
    }
    mpi_end();
    return code;
}
