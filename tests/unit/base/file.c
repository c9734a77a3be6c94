// W1: files that appear as a whole or not at all; and diagnostics.
#define _POSIX_C_SOURCE 200809L
#include "harness/test.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/mem.h"
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <sys/stat.h>
#include <unistd.h>

// -- Files -------------------------------------------------------------------

static char dir[] = "/tmp/divvy-base-XXXXXX";
static char path[sizeof dir + 16];

static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/f", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static int n_files(void)
{
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void file_holds(const char *want)
{
    char *bytes = NULL;
    size_t len = 0;
    assert_int_equal(dv_file_read(&bytes, &len, path, 1000, NULL), DV_OK);
    assert_int_equal(len, strlen(want));
    assert_string_equal(bytes, want);
    dv_release(bytes);
}

TEST(file_whole)
{
    mode_t mask = umask(027);
    assert_int_equal(dv_file_write(path, "first", 5, NULL), DV_OK);
    umask(mask);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    file_holds("first");
    dv_writer *w = NULL;
    assert_int_equal(dv_writer_open(&w, path, NULL), DV_OK);
    dv_writer_put(w, "half of", 7);
    file_holds("first"); // until the commit
    dv_writer_abort(w);
    dv_writer_abort(NULL);
    file_holds("first");
    assert_int_equal(dv_file_write(path, NULL, 0, NULL), DV_OK);
    file_holds("");
    assert_int_equal(n_files(), 1);
}

static void leave(const char *ending)
{
    char name[600];
    snprintf(name, sizeof name, "%s%s", path, ending);
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    fclose(f);
}

// Leaves the temporary file of a writer whose process ends before it commits.
static void leave_temporary(void)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dv_writer *w = NULL;
        _exit(dv_writer_open(&w, path, NULL) == DV_OK ? 0 : 1);
    }
    int code = -1;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
}

// W1: the temporary file of a killed writer is removed by the next writer; that
// of a live writer and any other file stay, also if its name is similar.
TEST(file_left_behind)
{
    static const char *const kept[] = {".backup", ".divvy-abc123",
                                       ".divvy-0123456789abcdef"};
    dv_writer *w = NULL;
    assert_int_equal(dv_file_write(path, "first", 5, NULL), DV_OK);
    for (int i = 0; i < 3; i++)
        leave(kept[i]);
    leave_temporary();
    assert_int_equal(n_files(), 5);
    assert_int_equal(dv_writer_open(&w, path, NULL), DV_OK);
    dv_writer_put(w, "second", 6);
    assert_int_equal(n_files(), 5); // one file removed, one added
    dv_writers_remove_stale(path);
    assert_int_equal(n_files(), 5);
    assert_int_equal(dv_file_write(path, "third", 5, NULL), DV_OK);
    assert_int_equal(dv_writer_commit(w, NULL), DV_OK);
    file_holds("second");
    assert_int_equal(n_files(), 4);
    for (int i = 0; i < 3; i++) {
        char name[600];
        snprintf(name, sizeof name, "%s%s", path, kept[i]);
        assert_int_equal(remove(name), 0);
    }
}

// W1: if there is no room for the whole file, the old file stays and nothing is
// left beside it.
TEST(file_no_room)
{
    char *big = calloc(1, 100000);
    struct rlimit old, small;
    assert_non_null(big);
    assert_int_equal(dv_file_write(path, "old", 3, NULL), DV_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 5000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    dv_status s = dv_file_write(path, big, 100000, NULL);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    free(big);
    assert_int_equal(s, DV_E_OUTPUT);
    file_holds("old");
    assert_int_equal(n_files(), 1);
}

TEST(file_errors)
{
    char gone[sizeof path + 8];
    char *bytes = NULL;
    size_t len = 0;
    dv_diag *d = dv_diag_create();
    snprintf(gone, sizeof gone, "%s/no/file", dir);
    assert_int_equal(dv_file_write(gone, "x", 1, d), DV_E_OUTPUT);
    assert_non_null(strstr(dv_diag_text(d), gone));
    assert_non_null(strstr(dv_diag_text(d), "error[output]: cannot write"));
    assert_int_equal(dv_file_write(dir, "x", 1, NULL), DV_E_OUTPUT);
    if (access("/dev/full", W_OK) == 0)
        assert_int_equal(dv_file_write("/dev/full", "x", 1, NULL), DV_E_OUTPUT);
    assert_int_equal(dv_file_read(&bytes, &len, gone, 9, NULL), DV_E_FILE);
    assert_int_equal(dv_file_read(&bytes, &len, dir, 9, NULL), DV_E_FILE);
    assert_int_equal(dv_file_write(path, "0123456789", 10, NULL), DV_OK);
    assert_int_equal(dv_file_read(&bytes, &len, path, 9, NULL), DV_E_LIMIT);
    assert_null(bytes);
    assert_int_equal(dv_file_read(&bytes, &len, path, 10, NULL), DV_OK);
    dv_release(bytes);
    assert_int_equal(n_files(), 1);
    dv_diag_destroy(d);
}

// -- Diagnostics -------------------------------------------------------------

TEST(diag_places)
{
    static const char text[] = "one\n\ta = b\xff + c\nlast";
    static const dv_source src = {"p.dv", text, sizeof text - 1};
    static const struct {
        uint32_t off;
        const char *want;
    } cases[] = {
        {0, "p.dv:1:1: error[name]: no 5\n    one\n    ^\n"},
        {9, "p.dv:2:6: error[name]: no 5\n     a = b  + c\n         ^\n"},
        {3, "p.dv:1:4: error[name]: no 5\n    one\n       ^\n"},
        {99, "p.dv:3:5: error[name]: no 5\n    last\n        ^\n"},
        {DV_FILE, "p.dv: error[name]: no 5\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dv_diag *d = dv_diag_create();
        dv_fail(d, DV_E_NAME, (dv_loc){&src, cases[i].off}, "no %d", 5);
        assert_string_equal(dv_diag_text(d), cases[i].want);
        dv_diag_destroy(d);
    }
}

// The excerpt of a line is short, however long the line is, and the caret is
// below the right byte.
TEST(diag_long_lines)
{
    char text[1000];
    for (uint32_t off = 0; off < sizeof text; off++) {
        memset(text, '.', sizeof text);
        text[off] = '#';
        dv_source src = {"p", text, sizeof text};
        dv_diag *d = dv_diag_create();
        dv_fail(d, DV_E_SYNTAX, (dv_loc){&src, off}, "here");
        const dv_message *m = dv_diag_error(d);
        assert_int_equal(dv_diag_line(d), 1);
        assert_int_equal(dv_diag_column(d), off + 1);
        assert_true(strlen(m->excerpt) < sizeof m->excerpt);
        assert_int_equal(m->excerpt[m->caret], '#');
        dv_diag_destroy(d);
    }
}

TEST(diag_order)
{
    dv_source src = {"p", "ab", 2};
    dv_diag *d = dv_diag_create();
    assert_string_equal(dv_diag_text(d), "");
    dv_diag_pass(d, "divide");
    assert_int_equal(dv_fail(d, DV_E_SHAPE, DV_NOWHERE, "first"), DV_E_SHAPE);
    dv_note(d, (dv_loc){&src, 1}, "see here");
    dv_diag_pass(d, NULL);
    assert_int_equal(dv_fail(d, DV_E_NAME, DV_NOWHERE, "second"), DV_E_NAME);
    dv_note(d, DV_NOWHERE, "of the second");
    dv_warn(d, "slow", DV_NOWHERE, "late");
    assert_int_equal(dv_diag_status(d), DV_E_SHAPE);
    assert_int_equal(dv_diag_line(d), 0);
    assert_string_equal(dv_diag_text(d),
                        "divvy: warning[slow]: late\n"
                        "divvy: error[shape]: first (in pass divide)\n"
                        "p:1:2: note: see here\n    ab\n     ^\n");
    dv_diag_destroy(d);
    // A note belongs to the error before it, even if that was not the first
    // error.
    d = dv_diag_create();
    dv_fail(d, DV_E_SHAPE, DV_NOWHERE, "first");
    dv_fail(d, DV_E_NAME, DV_NOWHERE, "second");
    dv_note(d, DV_NOWHERE, "of the second");
    assert_string_equal(dv_diag_text(d), "divvy: error[shape]: first\n");
    dv_diag_destroy(d);
}

TEST(diag_many_warnings)
{
    dv_diag *d = dv_diag_create();
    for (int i = 0; i < 25; i++)
        dv_warn(d, "slow", DV_NOWHERE, "number %d", i);
    assert_int_equal(dv_diag_status(d), DV_OK);
    assert_int_equal(dv_diag_n_warnings(d), 25);
    assert_string_equal(dv_diag_warning(d, 19)->text, "number 19");
    assert_null(dv_diag_warning(d, 20));
    assert_non_null(strstr(dv_diag_text(d), "number 19\n"
                                            "divvy: 5 more warnings\n"));
    dv_diag_destroy(d);
}

// Errors can be reported without a diag, and to a diag without memory.
TEST(diag_without)
{
    assert_int_equal(dv_fail(NULL, DV_E_NAME, DV_NOWHERE, "x"), DV_E_NAME);
    dv_note(NULL, DV_NOWHERE, "x");
    dv_warn(NULL, "slow", DV_NOWHERE, "x");
    dv_diag_pass(NULL, "x");
    assert_string_equal(dv_diag_text(NULL), "");
    assert_int_equal(dv_diag_status(NULL), DV_OK);
    dv_diag_destroy(NULL);
    dv_diag *d = dv_diag_create();
    dv_mem_fail_at(0);
    dv_warn(d, "slow", DV_NOWHERE, "x");
    assert_int_equal(dv_nomem(d), DV_E_NOMEM);
    assert_string_equal(dv_diag_text(d), "out of memory");
    assert_null(dv_diag_create());
    dv_mem_fail_at(-1);
    dv_diag_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_whole),   cmocka_unit_test(file_left_behind),
        cmocka_unit_test(file_no_room), cmocka_unit_test(file_errors),
        cmocka_unit_test(diag_places),  cmocka_unit_test(diag_long_lines),
        cmocka_unit_test(diag_order),   cmocka_unit_test(diag_many_warnings),
        cmocka_unit_test(diag_without),
    };
    return run_group(tests, make_dir, remove_dir);
}
