// Encoding: every row of the instruction table against llvm-mc, operands out of
// range, and memory for code.
#define _GNU_SOURCE
#include "jit/aarch64/insn.h"
#include "jit/arena.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

typedef struct sample {
    const char *name, *text;
    dv_insn op;
    int64_t a, b, c, d;
} sample;

static const sample samples[] = {
#define INSN(name, form, bits, a, b, c, d, text)                               \
    {#name, text, DV_INSN_##name, a, b, c, d},
#include "jit/aarch64/insn.def"
#undef INSN
};
enum { N_SAMPLES = sizeof samples / sizeof *samples };

static void insn_rows(void **state)
{
    (void)state;
    if (system("llvm-mc --version >/dev/null 2>&1")) {
        print_message("llvm-mc is not installed: rows are not checked\n");
        skip();
    }
    char path[] = "/tmp/divvy-insn-XXXXXX", cmd[256];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    for (int i = 0; i < N_SAMPLES; i++)
        fprintf(f, "%s\n", samples[i].text);
    fclose(f);
    snprintf(cmd, sizeof cmd,
             "llvm-mc --arch=aarch64 --mattr=+v8.6a,+fp16fml,+fullfp16,+sve "
             "--show-encoding %s",
             path);
    FILE *p = popen(cmd, "r");
    assert_non_null(p);
    char line[256];
    int n = 0;
    while (fgets(line, sizeof line, p)) {
        char *at = strstr(line, "encoding: [");
        unsigned b[4];
        if (!at)
            continue;
        assert_int_equal(
            sscanf(at, "encoding: [%x,%x,%x,%x", b, b + 1, b + 2, b + 3), 4);
        uint32_t want = b[0] | b[1] << 8 | b[2] << 16 | (uint32_t)b[3] << 24;
        const sample *s = &samples[n++];
        int ok = 1;
        uint32_t got = dv_insn_word(s->op, s->a, s->b, s->c, s->d, &ok);
        if (got != want || !ok)
            fail_msg("%s: %08x, llvm-mc says %08x", s->name, got, want);
    }
    pclose(p);
    unlink(path);
    assert_int_equal(n, N_SAMPLES);
}

static int encodes(dv_insn op, int64_t a, int64_t b, int64_t c, int64_t d)
{
    int ok = 1;
    dv_insn_word(op, a, b, c, d, &ok);
    return ok;
}

static void insn_ranges(void **state)
{
    (void)state;
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
    assert_true(encodes(DV_INSN_zfmla_x_s, 31, 31, 7, 3));
    assert_false(encodes(DV_INSN_zfmla_x_s, 0, 0, 8, 0));
    assert_false(encodes(DV_INSN_zfmla_x_s, 0, 0, 0, 4));
    assert_false(encodes(DV_INSN_zfmla_x_d, 0, 0, 16, 0));
    assert_false(encodes(DV_INSN_zfmla_x_d, 0, 0, 0, 2));
    assert_false(encodes(DV_INSN_zfmla_s, 0, 0, 0, 8));
    assert_false(encodes(DV_INSN_zld1_s, 0, 0, 8, 0));
    assert_false(encodes(DV_INSN_zld1_s, 0, 0, -9, 0));
    assert_false(encodes(DV_INSN_zld1r_s, 0, 0, 256, 0));
    assert_false(encodes(DV_INSN_zld1r_d, 0, 0, 4, 0));
    assert_false(encodes(DV_INSN_zld1rq_s, 0, 0, 128, 0));
    assert_false(encodes(DV_INSN_zld1rq_d, 0, 0, 8, 0));
    assert_false(encodes(DV_INSN_zdup_s, 0, 0, 4, 0));
    assert_false(encodes(DV_INSN_ptrue_b, 16, 0, 0, 0));
    dv_code c = {.cap = 0};
    dv_emit(&c, DV_INSN_ret, 0, 0, 0, 0); // no room
    assert_true(c.failed);
}

// -- Code memory -------------------------------------------------------------

static void arena_grows(void **state)
{
    (void)state;
    dv_code_arena a = {0};
    static uint32_t code[40000];
    const unsigned char *at_[64];
    for (int i = 0; i < 64; i++) {
        code[0] = (uint32_t)i;
        at_[i] = dv_code_arena_add(&a, code, i % 2 ? sizeof code : 40);
        assert_non_null(at_[i]);
    }
    for (int i = 0; i < 64; i++)
        assert_int_equal(*(const uint32_t *)(const void *)at_[i], i);
    assert_true(a.n > 1);
    dv_code_arena_free(&a);
}

// Nothing is taken before it is asked for; what is taken is seen through the
// other view and stays.
static void arena_room(void **state)
{
    (void)state;
    for (int one_view = 0; one_view < 2; one_view++) {
        dv_code_arena a = {.one_view = one_view};
        size_t room = 0, again = 0, large = 0;
        unsigned char *at = dv_code_arena_room(&a, 0, &room);
        assert_non_null(at);
        assert_ptr_equal(dv_code_arena_room(&a, 0, &again), at);
        assert_int_equal(room, again);
        memset(at, 7, 100);
        const unsigned char *run = dv_code_arena_take(&a, 100);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(insn_rows), cmocka_unit_test(insn_ranges),
        cmocka_unit_test(arena_grows), cmocka_unit_test(arena_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
