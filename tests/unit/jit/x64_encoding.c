// Encodings of x86-64: every row of the table with many operands compared with
// llvm-mc, operands that no instruction has, and listings of what was encoded.
#define _GNU_SOURCE
#include "harness/test.h"
#include "jit/x64/insn.h"
#include "jit/backend.h"
#include <unistd.h>

static const char *const texts[] = {
#define INSN(name, form, map, pp, w, op, enc, tuple, text) text,
#include "jit/x64/insn.def"
#undef INSN
};

typedef struct sample {
    dv_x_insn op;
    int vl, a, b;
    dv_x_rm m;
    dv_x_more more;
} sample;

enum { MAX_SAMPLES = 240000 };
static sample samples[MAX_SAMPLES];
static int n_samples;

// -- Operands as text --------------------------------------------------------

static const char *const names[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp",
                                    "rsi", "rdi", "r8",  "r9",  "r10", "r11",
                                    "r12", "r13", "r14", "r15"};
static const char *const short_names[] = {"eax", "ecx", "edx", "ebx",
                                          "esp", "ebp", "esi", "edi"};

static void put_reg(FILE *f, int reg, int vl, char kind)
{
    int bytes = kind == 'h' ? vl / 2 : vl;
    char v = kind == 'x' || kind == 'y' || kind == 'z' ? kind
             : bytes == 64                             ? 'z'
             : bytes == 32                             ? 'y'
                                                       : 'x';
    if (kind == 'r')
        fprintf(f, "%%%s", names[reg]);
    else if (kind == 'd' && reg < 8)
        fprintf(f, "%%%s", short_names[reg]);
    else if (kind == 'd')
        fprintf(f, "%%%sd", names[reg]);
    else if (kind == 'k')
        fprintf(f, "%%k%d", reg);
    else if (kind == 't')
        fprintf(f, "%%tmm%d", reg);
    else
        fprintf(f, "%%%cmm%d", v, reg);
}

static void put_mem(FILE *f, const sample *s, char kind)
{
    dv_x_rm m = s->m;
    const dv_x_row *row = &dv_x_rows[s->op];
    if (m.disp)
        fprintf(f, "%d", m.disp);
    fprintf(f, "(%%%s", m.base == 16 ? "rip" : names[m.base]);
    if (m.index >= 0) {
        fprintf(f, ",");
        put_reg(f, m.index, s->vl, row->form == DV_X_VG ? kind : 'r');
        fprintf(f, ",%d", 1 << m.scale);
    }
    fprintf(f, ")");
    if (m.splat)
        fprintf(f, "{1to%d}", s->vl / (row->w ? 8 : 4));
}

// Writes a line of assembly, without its end.
static void put_sample(FILE *f, const sample *s)
{
    for (const char *t = texts[s->op]; *t; t++) {
        char kind = t[1] >= 'a' && t[1] <= 'z' ? t[1] : ' ';
        if (*t == 'A')
            put_reg(f, s->a, s->vl, kind);
        else if (*t == 'B')
            put_reg(f, s->b, s->vl, kind);
        else if (*t == 'M' && s->m.reg >= 0)
            put_reg(f, s->m.reg, s->vl, kind);
        else if (*t == 'M')
            put_mem(f, s, kind);
        else if (*t == 'I')
            fprintf(f, "$%lld", (long long)s->more.imm);
        else
            fputc(*t, f);
        t += strchr("ABM", *t) && kind != ' ';
    }
    if (s->more.mask)
        fprintf(f, " {%%k%d}%s", s->more.mask & 7,
                s->more.mask & DV_X_ZERO ? " {z}" : "");
}

// -- Which operands a row can have -------------------------------------------

static void add(sample s)
{
    assert_true(n_samples < MAX_SAMPLES);
    samples[n_samples++] = s;
}

// Returns the letter of the kind of operand `who` in the row's text, or ' '.
static char kind_of(dv_x_insn op, char who)
{
    const char *t =
        strchr(strchr(texts[op], ' ') ? strchr(texts[op], ' ') : "", who);
    return t && t[1] >= 'a' && t[1] <= 'z' ? t[1] : ' ';
}

static int stores(dv_x_insn op) // is the destination in rm?
{
    const char *last = strrchr(texts[op], ' ');
    return last && last[1] == 'M';
}

static const struct place {
    int base, index, scale, disp;
} places[] = {{0, -1, 0, 0},    {5, -1, 0, 0},     {13, -1, 0, 0},
              {4, -1, 0, 64},   {12, -1, 0, -128}, {7, -1, 0, 127},
              {6, -1, 0, 508},  {8, -1, 0, 512},   {3, -1, 0, 8128},
              {2, -1, 0, 8192}, {14, -1, 0, -8},   {9, -1, 0, 1000000},
              {1, 10, 2, 192},  {5, 1, 3, 0},      {15, 8, 0, -4096},
              {11, -1, 0, 16},  {10, -1, 0, 20},   {16, -1, 0, 4096}};
enum { N_PLACES = sizeof places / sizeof *places };

static dv_x_rm at(int i)
{
    dv_x_rm m = dv_x_mem(places[i].base, places[i].disp);
    m.index = (int8_t)places[i].index;
    m.scale = (unsigned)places[i].scale & 3;
    return m;
}

static void add_general(dv_x_insn op)
{
    static const int64_t imms[] = {1, -128, 127, 128, 100000, -2147483647};
    const dv_x_row *row = &dv_x_rows[op];
    int big = row->form == DV_X_GQ, has_m = strchr(texts[op], 'M') != NULL;
    int has_i = strchr(texts[op], 'I') != NULL;
    for (int a = 0; a < 16; a++)
        for (int i = 0; i < (has_i ? 6 : 1); i++) {
            sample s = {.op = op, .a = a};
            s.more.imm = has_i ? imms[i] + (big ? 1LL << 40 : 0) : 0;
            // The accumulator has encodings of its own with an immediate.
            s.m = dv_x_reg(has_i ? 1 + (a + 3) % 15 : (a + 5) % 16);
            if (kind_of(op, 'M') != 'm')
                add(s);
            for (int j = 0; has_m && !has_i && j < N_PLACES; j++) {
                s.m = at(j);
                add(s);
            }
        }
}

// Instructions on single elements and halves have no masks.
static int maskable(dv_x_insn op)
{
    return dv_x_rows[op].form != DV_X_VK && op != DV_X_vextractps &&
           op != DV_X_vmovhpd_s && op != DV_X_vmovntps;
}

// Adds the variants with masks and broadcasts for one choice of registers.
static void add_masked(sample s)
{
    const dv_x_row *row = &dv_x_rows[s.op];
    int gather = row->form == DV_X_VG, memory = s.m.reg < 0;
    int zeroed = !gather && row->form != DV_X_VKVMI;
    if (!gather || row->enc != DV_X_E)
        add(s);
    if (!(row->enc & DV_X_E) || !maskable(s.op))
        return;
    s.more.mask = 1 + s.a % 7;
    add(s);
    if (zeroed && !(stores(s.op) && memory)) {
        s.more.mask |= DV_X_ZERO;
        add(s);
    }
    if (row->tuple == DV_X_FV && memory) {
        s.m.splat = 1;
        add(s);
        s.more.mask = 0;
        add(s);
    }
}

static void add_regs(dv_x_insn op, int vl, int a, int b, int c)
{
    const dv_x_row *row = &dv_x_rows[op];
    int gather = row->form == DV_X_VG, imm = row->form == DV_X_VRMI;
    int has_b = strchr(texts[op], 'B') != NULL;
    sample s = {.op = op, .vl = vl, .a = a, .b = has_b ? b : 0};
    int has_imm = imm || strstr(texts[op], " I,") != NULL;
    s.more.imm = has_imm ? a % 2 + 16 * !imm : 0;
    s.a = kind_of(op, 'A') == 'k' ? a % 8 : a;
    s.m = dv_x_reg(kind_of(op, 'M') == 'k' ? c % 8 : c);
    // The assembler swaps the operands of register moves where that is shorter.
    int turned = (op == DV_X_vmovups || op == DV_X_vmovupd) && c >= 8 && a < 8;
    if (!gather && kind_of(op, 'M') != 'm' && !turned)
        add_masked(s);
    int registers = kind_of(op, 'M') == 'v' || kind_of(op, 'M') == 'k';
    for (int i = 0; !registers && i < N_PLACES; i++) {
        s.m = at(i);
        if (gather && s.m.base == 16)
            continue;
        if (gather)
            s.m.index = (int8_t)c;
        add_masked(s);
    }
}

static void add_vector(dv_x_insn op)
{
    static const int regs[][3] = {{1, 2, 3},    {9, 10, 4},   {3, 12, 8},
                                  {7, 0, 15},   {15, 14, 13}, {17, 2, 30},
                                  {31, 25, 16}, {5, 31, 20},  {16, 8, 1}};
    const dv_x_row *row = &dv_x_rows[op];
    char kind = kind_of(op, 'A');
    for (int vl = 16; vl <= 64; vl *= 2) {
        if ((kind == 'x' && vl != 16) || (kind == 'y' && vl != 32) ||
            (kind == 'z' && vl != 64) || (vl == 64 && row->enc == DV_X_V) ||
            ((op == DV_X_vsplatpd || op == DV_X_vpermps) && vl == 16) ||
            (row->form == DV_X_KK && vl != 16) ||
            (kind_of(op, 'M') == 'h' && vl == 16))
            continue;
        for (size_t i = 0; i < sizeof regs / sizeof *regs; i++)
            if (row->enc != DV_X_V || i < 5)
                add_regs(op, vl, regs[i][0], regs[i][1], regs[i][2]);
    }
}

// Adds three different tiles, or one, or one and memory.
static void add_tiles(dv_x_insn op)
{
    int form = dv_x_rows[op].form, three = strchr(texts[op], 'B') != NULL;
    for (int a = 0; a < (strchr(texts[op], 'A') ? 8 : 1); a++) {
        sample s = {.op = op, .vl = 16, .a = a, .m = dv_x_reg(0)};
        for (int b = 1; three && b < 7; b++) {
            s.b = (a + b) % 8;
            s.m = dv_x_reg((a + b + 1) % 8);
            add(s);
        }
        if (form == DV_X_T && !three)
            add(s);
        for (int i = 0; form != DV_X_T && i < N_PLACES; i++) {
            s.m = at(i);
            if (form == DV_X_TC || s.m.index >= 0)
                add(s);
        }
    }
}

static void add_rows(void)
{
    for (int op = 0; op < DV_X_COUNT; op++) {
        int form = dv_x_rows[op].form;
        if (form == DV_X_J) // the assembler leaves it to the linker
            continue;
        if (form == DV_X_N)
            add((sample){.op = (dv_x_insn)op});
        else if (form == DV_X_KR)
            for (int i = 0; i < 16; i++)
                add((sample){
                    .op = (dv_x_insn)op, .a = i % 8, .m = dv_x_reg(i)});
        else if (form >= DV_X_TC)
            add_tiles((dv_x_insn)op);
        else if (form < DV_X_VRM)
            add_general((dv_x_insn)op);
        else
            add_vector((dv_x_insn)op);
    }
}

// -- Against the assembler ---------------------------------------------------

// Encodes by the shorter function; returns 0 if there is none.
static int write_short(dv_code *code, const sample *s)
{
    int form = dv_x_rows[s->op].form, memory = s->m.reg == DV_X_NONE;
    int vector = form == DV_X_VRM || form == DV_X_VRVM;
    int general = form == DV_X_GRM || form == DV_X_GM;
    int base = s->m.base, mask = s->more.mask;
    int reg = form == DV_X_GRM ? s->a : 0;
    int64_t disp = s->m.disp;
    if ((memory && s->m.index != DV_X_NONE) || base == DV_X_RIP ||
        (s->more.imm && form != DV_X_GI))
        return 0;
    if (form == DV_X_GI && !memory)
        dv_x_emit_gi(code, s->op, s->m.reg, s->more.imm);
    else if (general && memory)
        dv_x_emit_gm(code, s->op, reg, base, disp);
    else if (general)
        dv_x_emit_gr(code, s->op, reg, s->m.reg);
    else if (vector && memory && !s->m.splat && !mask)
        dv_x_emit_m(code, s->op, s->vl, s->a, s->b, base, disp);
    else if (!memory && form == DV_X_VRVM && !mask)
        dv_x_emit_3(code, s->op, s->vl, s->a, s->b, s->m.reg);
    else
        return 0;
    return 1;
}

// The shorter functions give the same bytes.
static void check_short(const sample *s, const dv_code *code)
{
    unsigned char out[32];
    dv_code other = {.at = out, .cap = sizeof out};
    if (code->cap != sizeof out || !write_short(&other, s))
        return;
    assert_int_equal(other.failed, code->failed);
    if (code->failed)
        return;
    assert_int_equal(other.n, code->n);
    assert_memory_equal(out, code->at, code->n);
}

static size_t encode(const sample *s, unsigned char *out, size_t cap, int *ok)
{
    dv_code code = {.at = out, .cap = cap};
    dv_x_emit(&code, s->op, s->vl, s->a, s->b, s->m, s->more);
    *ok = !code.failed;
    check_short(s, &code);
    return code.n;
}

static void check_line(const sample *s, const char *at_)
{
    unsigned char got[32], want[32];
    size_t n = 0;
    int ok, used;
    unsigned v;
    for (const char *p = at_ + strlen("encoding: [");
         n < sizeof want && sscanf(p, "%x%n", &v, &used) == 1; p += used + 1)
        want[n++] = (unsigned char)v;
    size_t size = encode(s, got, sizeof got, &ok);
    if (ok && size == n && !memcmp(got, want, n))
        return;
    put_sample(stderr, s);
    for (size_t i = 0; i < size; i++)
        fprintf(stderr, "%02x ", got[i]);
    fail_msg("accepted %d; llvm-mc says %s", ok, at_);
}

TEST(rows)
{
    if (system("llvm-mc --version >/dev/null 2>&1")) {
        skip_test("llvm-mc is not installed");
    }
    char path[] = "/tmp/divvy-insn-XXXXXX", cmd[256], line[512];
    int fd = mkstemp(path), n = 0;
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    n_samples = 0;
    add_rows();
    for (int i = 0; i < n_samples; i++) {
        put_sample(f, &samples[i]);
        fputc('\n', f);
    }
    fclose(f);
    snprintf(
        cmd, sizeof cmd,
        "llvm-mc --arch=x86-64 --mattr=+avx2,+fma,+f16c,+avx512f,+avx512vl,"
        "+avx512dq,+avx512bw,+avx512bf16,+avx512vnni,+amx-tile,+amx-bf16,"
        "+amx-int8 --show-encoding %s",
        path);
    FILE *p = popen(cmd, "r");
    assert_non_null(p);
    while (fgets(line, sizeof line, p)) {
        const char *at_ = strstr(line, "encoding: [");
        if (at_ && n < n_samples)
            check_line(&samples[n], at_);
        n += at_ != NULL;
    }
    pclose(p);
    unlink(path);
    assert_int_equal(n, n_samples);
}

// -- Runs --------------------------------------------------------------------

enum { RUN = 3 };

// Encodes three instructions, as a run or one by one. Returns 0 if the form has
// no runs.
static int write_run(dv_code *code, const sample *s, int step, int as_run)
{
    int form = dv_x_rows[s->op].form, in_reg = s->m.reg != DV_X_NONE;
    int vector = form == DV_X_VRM || form == DV_X_VRVM;
    int general = form == DV_X_GRM || form == DV_X_GM;
    int a = form == DV_X_GM ? 0 : s->a, splat = s->m.splat;
    if (!(vector || general) || s->more.mask || (splat && s->vl != 64) ||
        (!in_reg && (s->m.index != DV_X_NONE || s->m.base == DV_X_RIP)))
        return 0;
    int vl = splat ? DV_X_SPLAT : general ? 16 : s->vl;
    if (as_run && in_reg)
        dv_x_run_3(code, s->op, vl, RUN, a, s->b, s->m.reg, step);
    else if (as_run)
        dv_x_run_m(code, s->op, vl, RUN, a, s->b, s->m.base, s->m.disp, step);
    for (int i = 0; !as_run && i < RUN; i++) {
        dv_x_rm m = s->m;
        m.reg = (int8_t)(in_reg ? m.reg + i * step : m.reg);
        m.disp += in_reg ? 0 : i * step;
        dv_x_emit(code, s->op, s->vl, a + i * (form != DV_X_GM),
                  s->b + i * (form == DV_X_VRVM), m, s->more);
    }
    return 1;
}

// A run has the bytes of its instructions one by one, and fails where one of
// them does: because it does not fit the buffer, or has no such register.
TEST(runs)
{
    static const int steps[] = {0, 1, 64, 512, -3};
    int n = 0, n_failed = 0;
    n_samples = 0;
    add_rows();
    for (int i = 0; i < n_samples; i++) {
        const sample *s = &samples[i];
        unsigned char got[64], want[64];
        dv_code run = {.at = got, .cap = (size_t)(24 + i % 41)}, one = run;
        int step = steps[i % (s->m.reg == DV_X_NONE ? 5 : 2)];
        one.at = want;
        if (!write_run(&run, s, step, 1))
            continue;
        write_run(&one, s, step, 0);
        assert_int_equal(run.failed, one.failed);
        n++;
        n_failed += run.failed;
        if (run.failed)
            continue;
        assert_int_equal(run.n, one.n);
        assert_memory_equal(got, want, run.n);
    }
    assert_true(n_failed > 1000 && n > 2 * n_failed);
}

// -- Listings ----------------------------------------------------------------

// The listing of every row says what was encoded, whatever follows.
TEST(listings)
{
    n_samples = 0;
    add_rows();
    assert_true(n_samples > 100000);
    for (int i = 0; i < n_samples; i++) {
        const sample *s = &samples[i];
        unsigned char code[64];
        char want[256] = {0};
        FILE *f = fmemopen(want, sizeof want - 1, "w");
        dv_text got = {0};
        int ok;
        memset(code, i, sizeof code);
        size_t n = encode(s, code, 32, &ok), data = sizeof code;
        assert_true(ok);
        put_sample(f, s);
        fclose(f);
        assert_int_equal(dv_x_list(&got, code, 0, sizeof code, &data), n);
        assert_string_equal(got.at, want);
        int known = s->m.reg < 0 && s->m.base == DV_X_RIP;
        size_t to = n + (size_t)s->m.disp;
        assert_int_equal(data, known && to < sizeof code ? to : sizeof code);
        // With one byte less it is no instruction.
        assert_int_equal(dv_x_list(&got, code, 0, n - 1, &data), 0);
        dv_text_free(&got);
    }
}

static void list_is(const char *bytes, size_t n, size_t at, const char *want,
                    size_t want_data)
{
    dv_text got = {0};
    size_t data = 1000;
    size_t used = dv_x_list(&got, (const unsigned char *)bytes, at, n, &data);
    assert_int_equal(used, want ? n - at : 0);
    assert_string_equal(got.at ? got.at : "", want ? want : "");
    assert_int_equal(data, want_data);
    dv_text_free(&got);
}

TEST(odd_listings)
{
    // Jumps name their target; data begins at the first constant that is read.
    list_is("\xc3\x0f\x85\xf9\xff\xff\xff", 7, 1, "jne 0x0", 1000);
    list_is("\xe9\x10\x01\x00\x00", 5, 0, "jmp 0x115", 1000);
    list_is("\x4c\x8d\x2d\x5f\x05\x00\x00", 7, 0, "leaq 1375(%rip), %r13",
            1000);
    list_is("\x4c\x8d\x2d\x5f\x01\x00\x00", 7, 0, "leaq 351(%rip), %r13", 358);
    list_is("\x00\x00\x00\x00", 4, 0, NULL, 1000);
    list_is("\x90", 1, 0, NULL, 1000);                      // nop
    list_is("\x62", 1, 0, NULL, 1000);                      // truncated
    list_is("\x48\x8b\x04\x25\x08\x00\x00\x00", 8, 0, NULL, // no base
            1000);
    list_is("\x62\xf1\x7c\x58\x58\xc0", 6, 0, NULL, 1000); // rounding
}

// -- Operands that there are not ---------------------------------------------

static int encodes(sample s)
{
    unsigned char out[32];
    int ok;
    encode(&s, out, sizeof out, &ok);
    return ok;
}

TEST(ranges)
{
    dv_x_rm mem = dv_x_mem(0, 0), splat = mem, sp = mem;
    splat.splat = 1;
    sp.index = 4;
    assert_true(encodes((sample){DV_X_vaddps, 64, 31, 31, splat, {0}}));
    assert_false(encodes((sample){DV_X_vaddps, 64, 32, 0, mem, {0}}));
    assert_false(encodes((sample){DV_X_vaddps, 64, 0, -1, mem, {0}}));
    assert_false(encodes((sample){DV_X_vaddps, 48, 0, 0, mem, {0}}));
    assert_false(encodes((sample){DV_X_vaddps, 64, 0, 0, sp, {0}}));
    assert_false(
        encodes((sample){DV_X_vaddps, 64, 0, 0, mem, {.mask = DV_X_ZERO}}));
    assert_false(encodes((sample){DV_X_vaddps, 64, 0, 0, mem, {.mask = 16}}));
    assert_false(encodes((sample){DV_X_vmovups, 64, 0, 0, splat, {0}}));
    assert_false(encodes((sample){DV_X_vhaddps, 32, 16, 0, mem, {0}}));
    assert_false(encodes((sample){DV_X_vhaddps, 64, 0, 0, mem, {0}}));
    assert_false(encodes((sample){DV_X_vgatherps, 32, 0, 0, mem, {0}}));
    assert_false(encodes(
        (sample){DV_X_mov, 0, 0, 0, dv_x_mem(0, INT64_C(1) << 31), {0}}));
    assert_true(encodes(
        (sample){DV_X_mov, 0, 0, 0, dv_x_mem(0, -(INT64_C(1) << 31)), {0}}));
    assert_false(encodes((sample){DV_X_mov, 0, 16, 0, mem, {0}}));
    assert_false(encodes((sample){DV_X_tileload, 16, 0, 0, mem, {0}}));
    assert_false(encodes((sample){DV_X_tilezero, 16, 8, 0, dv_x_reg(0), {0}}));
    assert_false(
        encodes((sample){DV_X_tiledpbf16, 16, 0, 1, dv_x_reg(8), {0}}));
    assert_false(
        encodes((sample){DV_X_addi, 0, 0, 0, mem, {.imm = INT64_C(1) << 31}}));
    assert_false(
        encodes((sample){DV_X_jnz, 0, 0, 0, mem, {.imm = INT64_C(1) << 31}}));
    unsigned char out[128];
    int ok;
    dv_code run = {.at = out, .cap = sizeof out};
    dv_x_run_m(&run, DV_X_vmovups, 64, 2, 0, 0, 1, INT32_MAX - 64, 64);
    assert_int_equal(run.failed, 0);
    dv_x_run_m(&run, DV_X_vmovups, 64, 2, 0, 0, 1, INT32_MAX - 63, 64);
    assert_int_equal(run.failed, 1);
    run.failed = 0;
    dv_x_run_3(&run, DV_X_vaddps, DV_X_SPLAT, 1, 1, 2, 3, 0);
    assert_int_equal(run.failed, 1);
    sample jump = {DV_X_jnz, 0, 0, 0, mem, {.imm = -2}};
    assert_int_equal(encode(&jump, out, 16, &ok), 6);
    assert_memory_equal(out, "\x0f\x85\xfe\xff\xff\xff", 6);
    encode(&jump, out, 5, &ok); // no room
    assert_false(ok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows), cmocka_unit_test(runs),
        cmocka_unit_test(listings), cmocka_unit_test(odd_listings),
        cmocka_unit_test(ranges)};
    return run_group(tests, NULL, NULL);
}
