// Instruction encodings: every row of the table compared with llvm-mc, operands
// out of range, and the memory for code.
#define _GNU_SOURCE
#include "harness/test.h"
#include "jit/a64/insn.h"
#include "jit/backend.h"
#include "jit/arena.h"
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct sample {
    const char *name, *text;
    dv_insn op;
    int64_t a, b, c, d;
} sample;

static const sample samples[] = {
#define INSN(name, form, bits, a, b, c, d, text)                               \
    {#name, text, DV_INSN_##name, a, b, c, d},
#include "jit/a64/insn.def"
#undef INSN
};
enum { N_SAMPLES = sizeof samples / sizeof *samples };

// Assembles lines with llvm-mc, without which the test is skipped. *n is the
// room for words and becomes their number.
static void assemble(const char *const *lines, uint32_t *words, int *n)
{
    if (system("llvm-mc --version >/dev/null 2>&1")) {
        skip_test("llvm-mc is not installed");
    }
    char path[] = "/tmp/divvy-insn-XXXXXX", cmd[256];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    for (int i = 0; i < *n; i++)
        fprintf(f, "%s\n", lines[i]);
    fclose(f);
    snprintf(cmd, sizeof cmd,
             "llvm-mc --arch=aarch64 --mattr=+v8.6a,+fp16fml,+fullfp16 "
             "--show-encoding %s",
             path);
    FILE *p = popen(cmd, "r");
    assert_non_null(p);
    char line[256];
    int room = *n;
    *n = 0;
    while (fgets(line, sizeof line, p)) {
        char *at = strstr(line, "encoding: [");
        unsigned b[4];
        if (!at)
            continue;
        assert_int_equal(
            sscanf(at, "encoding: [%x,%x,%x,%x", b, b + 1, b + 2, b + 3), 4);
        assert_true(*n < room);
        words[(*n)++] = b[0] | b[1] << 8 | b[2] << 16 | (uint32_t)b[3] << 24;
    }
    pclose(p);
    unlink(path);
}

TEST(insn_rows)
{
    const char *lines[N_SAMPLES];
    uint32_t words[N_SAMPLES];
    int n = N_SAMPLES;
    for (int i = 0; i < n; i++)
        lines[i] = samples[i].text;
    assemble(lines, words, &n);
    assert_int_equal(n, N_SAMPLES);
    for (int i = 0; i < n; i++) {
        const sample *s = &samples[i];
        int ok = 1;
        uint32_t got = dv_insn_word(s->op, s->a, s->b, s->c, s->d, &ok);
        if (got != words[i] || !ok)
            fail_msg("%s: %08x, llvm-mc says %08x", s->name, got, words[i]);
    }
}

// -- Listings ----------------------------------------------------------------

static uint64_t seed = 88172645463325252u;

// Returns another operand that a row may have, near that of its sample. Bits
// that the text does not show stay.
static int64_t other(int64_t near, int shift)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    int64_t v = (int64_t)(seed >> 40) % 32;
    return near < 0 ? -(v << shift) : v << shift;
}

// Returns a word of the row with random operands.
static uint32_t random_word(const sample *s)
{
    for (int tries = 0; tries < 1000; tries++) {
        int ok = 1, shift = (int)(seed >> 20 & 7);
        int64_t a = s->a ? other(s->a, 0) : 0, b = s->b ? other(s->b, 0) : 0;
        int64_t c = s->c ? other(s->c, shift) : 0;
        int64_t d = s->d ? other(s->d, shift) : 0;
        if (s->op == DV_INSN_prfm)
            a = (int64_t)(seed >> 30) % 3 * 8 + (int64_t)(seed >> 9) % 6;
        if (s->op == DV_INSN_prfm_r)
            a = 2;
        if (s->op == DV_INSN_mov_v)
            c = b;
        if (dv_insn_rows[s->op].form == DV_FORM_P8 ||
            dv_insn_rows[s->op].form == DV_FORM_P16)
            b = a ^ 1; // two registers
        if (s->op == DV_INSN_shl_v || s->op == DV_INSN_ushr_v)
            c = 33 + c % 31; // shifts of four-byte elements
        uint32_t w = dv_insn_word(s->op, a, b, c, d, &ok);
        if (ok)
            return w;
    }
    fail_msg("%s takes no operands", s->name);
    return 0;
}

// A listing of a word is what llvm-mc disassembles it to.
TEST(listings)
{
    enum { EACH = 24, N = EACH * N_SAMPLES };
    static uint32_t want[N], got[N];
    static char *lines[N];
    int n = N;
    for (int i = 0; i < N; i++) {
        dv_text t = {0};
        want[i] = random_word(&samples[i / EACH]);
        if (!dv_insn_list(&t, want[i]))
            fail_msg("%s: %08x is not listed", samples[i / EACH].name, want[i]);
        lines[i] = dv_text_take(&t);
        assert_non_null(lines[i]);
    }
    assemble((const char *const *)lines, got, &n);
    assert_int_equal(n, N);
    for (int i = 0; i < N; i++) {
        if (got[i] != want[i])
            fail_msg("%s: %08x is listed as %s, which is %08x",
                     samples[i / EACH].name, want[i], lines[i], got[i]);
        dv_release(lines[i]);
    }
    dv_text t = {0};
    assert_false(dv_insn_list(&t, 0)); // no instruction
    assert_int_equal(t.len, 0);
}

static int encodes(dv_insn op, int64_t a, int64_t b, int64_t c, int64_t d)
{
    int ok = 1;
    dv_insn_word(op, a, b, c, d, &ok);
    return ok;
}

TEST(insn_ranges)
{
    assert_true(encodes(DV_INSN_add_x, 31, 31, 31, 0));
    assert_false(encodes(DV_INSN_add_x, 32, 0, 0, 0));
    assert_false(encodes(DV_INSN_add_x, 0, -1, 0, 0));
    assert_true(encodes(DV_INSN_addi_x, 0, 0, 4095, 0));
    assert_false(encodes(DV_INSN_addi_x, 0, 0, 4096, 0));
    assert_false(encodes(DV_INSN_addi_x, 0, 0, -1, 0));
    assert_true(encodes(DV_INSN_ldr_q, 0, 0, 65520, 0));
    assert_false(encodes(DV_INSN_ldr_q, 0, 0, 65536, 0));
    assert_false(encodes(DV_INSN_ldr_q, 0, 0, 8, 0));
    assert_false(encodes(DV_INSN_ldr_q, 0, 0, -16, 0));
    assert_true(encodes(DV_INSN_ldur_q, 0, 0, -256, 0));
    assert_false(encodes(DV_INSN_ldur_q, 0, 0, 256, 0));
    assert_true(encodes(DV_INSN_ldp_d, 0, 0, 0, -512));
    assert_false(encodes(DV_INSN_ldp_d, 0, 0, 0, 512));
    assert_false(encodes(DV_INSN_ldp_d, 0, 0, 0, 4));
    assert_false(encodes(DV_INSN_fmla_e4s, 0, 0, 0, 4));
    assert_false(encodes(DV_INSN_fmla_e2d, 0, 0, 0, 2));
    assert_false(encodes(DV_INSN_movz_x, 0, 65536, 0, 0));
    assert_false(encodes(DV_INSN_movz_x, 0, 0, 4, 0));
    assert_false(encodes(DV_INSN_b_ne, 0, 0, 1 << 18, 0));
    dv_code c = {.cap = 0};
    dv_emit(&c, DV_INSN_ret, 0, 0, 0, 0); // no room
    assert_true(c.failed);
}

// -- Code memory -------------------------------------------------------------

// Much code, with pages of either size, one or two mappings, sealed sometimes
// or never: code that crosses the end of a prepared page stays as it was
// written.
TEST(arena_grows)
{
    enum { N = 96, WORDS = 40000 };
    static uint32_t code[WORDS];
    const unsigned char *at_[N];
    for (int how = 0; how < 8; how++) {
        dv_code_arena a = {.one_view = how & 1, .small_pages = how >> 1 & 1};
        for (int i = 0; i < N; i++) {
            if (how & 4 && i % 5 < 3)
                dv_code_arena_seal(&a);
            for (int j = 0; j < WORDS; j++)
                code[j] = (uint32_t)(i * WORDS + j);
            at_[i] = dv_code_arena_add(&a, code, i % 4 ? sizeof code : 40);
            assert_non_null(at_[i]);
        }
        for (int i = 0; i < N; i++)
            for (int j = 0; j < (i % 4 ? WORDS : 10); j++) {
                uint32_t word;
                memcpy(&word, at_[i] + 4 * j, sizeof word);
                assert_int_equal(word, i * WORDS + j);
            }
        assert_true(a.n > 1);
        dv_code_arena_free(&a);
    }
}

// No memory is committed before it is needed; what is written through one
// mapping is seen through the other and stays.
TEST(arena_room)
{
    for (int one_view = 0; one_view < 2; one_view++) {
        dv_code_arena a = {.one_view = one_view};
        size_t room = 0, again = 0, large = 0;
        unsigned char *at = dv_code_arena_room(&a, 0, &room);
        assert_non_null(at);
        assert_ptr_equal(dv_code_arena_room(&a, 0, &again), at);
        assert_int_equal(room, again);
        memset(at, 7, 100);
        const unsigned char *run = dv_code_arena_commit(&a, 100);
        assert_non_null(run);
        unsigned char *next = dv_code_arena_room(&a, 0, &again);
        assert_true(next >= at + 100 && again < room);
        memset(next, 8, 100);
        assert_non_null(dv_code_arena_room(&a, room + 1, &large));
        assert_true(large > room);
        for (int i = 0; i < 100; i++)
            assert_int_equal(run[i], 7);
        dv_code_arena_free(&a);
    }
}

// Code that repeats one byte, more than is committed at first.
enum { FORK_PARTS = 9, FORK_BYTES = 60000 };

static void add_parts(dv_code_arena *a, int byte, const unsigned char **out)
{
    static unsigned char code[FORK_BYTES];
    memset(code, byte, sizeof code);
    for (int i = 0; i < FORK_PARTS; i++)
        out[i] = dv_code_arena_add(a, code, sizeof code);
}

// Returns 0 if a part is missing or another process has overwritten it.
static int parts_are(const unsigned char **parts, int byte)
{
    for (int i = 0; i < FORK_PARTS; i++)
        for (int j = 0; j < FORK_BYTES; j++)
            if (!parts[i] || parts[i][j] != byte)
                return 0;
    return 1;
}

// After fork, parent and child share the memory for code: what one adds must
// not overwrite what the other adds.
TEST(arena_forks)
{
    for (int how = 0; how < 8; how++) {
        dv_code_arena a = {.one_view = how & 1, .small_pages = how >> 1 & 1};
        const unsigned char *first[FORK_PARTS], *parts[FORK_PARTS];
        int go[2], end = 0;
        char none;
        add_parts(&a, 1, first);
        if (how & 4)
            dv_code_arena_seal(&a);
        assert_int_equal(pipe(go), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) { // after the parent, which closes the pipe
            alarm(60);
            close(go[1]);
            int ok = read(go[0], &none, 1) == 0;
            add_parts(&a, 2, parts);
            _exit(!(ok && parts_are(first, 1) && parts_are(parts, 2)));
        }
        add_parts(&a, 3, parts);
        close(go[1]);
        assert_int_equal(waitpid(child, &end, 0), child);
        close(go[0]);
        assert_true(WIFEXITED(end) && WEXITSTATUS(end) == 0);
        assert_true(parts_are(first, 1));
        assert_true(parts_are(parts, 3));
        dv_code_arena_free(&a);
    }
}

// A limit on the size of files, from the start or once there is code: exceeding
// it would end the process by a signal.
TEST(arena_of_short_files)
{
    for (int late = 0; late < 2; late++) {
        int end = 0;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct rlimit most = {100 << 10, 100 << 10};
            dv_code_arena a = {.small_pages = late};
            const unsigned char *first[FORK_PARTS], *parts[FORK_PARTS];
            if (late)
                add_parts(&a, 1, first);
            int ok = setrlimit(RLIMIT_FSIZE, &most) == 0;
            add_parts(&a, 2, parts);
            ok = ok && parts_are(parts, 2) && (!late || parts_are(first, 1));
            dv_code_arena_free(&a);
            _exit(!ok);
        }
        assert_int_equal(waitpid(child, &end, 0), child);
        assert_true(WIFEXITED(end) && WEXITSTATUS(end) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(insn_rows),           cmocka_unit_test(listings),
        cmocka_unit_test(insn_ranges),         cmocka_unit_test(arena_grows),
        cmocka_unit_test(arena_room),          cmocka_unit_test(arena_forks),
        cmocka_unit_test(arena_of_short_files)};
    return run_group(tests, NULL, NULL);
}
