// Emits a relocatable object with a program's kernels and the calls that a run
// makes of them, as they were recorded (exec/record.h). The object needs
// nothing of this library and generates no code.
//
//   NAME.h   the functions, the operands and the sizes of memory
//   NAME.c   the kernels as bytes in section .text, the calls as loops in C
//   NAME.o   the object, made of NAME.c by the C compiler
//
// NAME is that of the folder, in which letters and digits stay as they are and
// all else becomes _; it is "program" if the folder has no letter or digit.
#define _POSIX_C_SOURCE 200809L // for posix_spawnp
#include "base/math.h"
#include "emit/emit.h"
#include "exec/record.h"
#include "jit/backend.h"
#include <errno.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define P(...) dv_put(&e->out, __VA_ARGS__)

enum { MOST_NAME = 64, MOST_DEPTH = 32, MOST_WORDS = 32, PER_LINE = 16 };

static int is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9');
}

// Sets the object's name to the last component of the folder's path.
static void set_name(const char *dir, char *name)
{
    size_t end = strlen(dir), n = 0;
    while (end > 0 && dir[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && dir[begin - 1] != '/')
        begin--;
    size_t first = begin;
    while (first < end && !is_letter_or_digit(dir[first]))
        first++;
    if (first == end) { // such as . and /
        snprintf(name, MOST_NAME, "program");
        return;
    }
    if (dir[begin] >= '0' && dir[begin] <= '9')
        name[n++] = '_';
    for (; begin < end && n < MOST_NAME - 1; begin++)
        name[n++] = is_letter_or_digit(dir[begin]) ? dir[begin] : '_';
    name[n] = '\0';
}

// Returns the number that a tensor has among the operands (inputs, constants
// and outputs) of the program.
static int32_t operand_of(const emitter *e, int32_t tensor)
{
    int32_t n = 0;
    for (int32_t t = 0; t < tensor; t++)
        n += e->p->tensors[t].is_input || e->p->tensors[t].is_output;
    return n;
}

// -- The header ---------------------------------------------------------------

static void put_operands(emitter *e, const char *name)
{
    P("// The operands, in row-major order.\nenum %s_operand {\n", name);
    for (int32_t i = 0; i < e->p->n_tensors; i++) {
        const dv_tensor *t = &e->p->tensors[i];
        if (!t->is_input && !t->is_output)
            continue;
        P("    %s_operand_%s, // %s%s %s[", name, t->name,
          t->is_input ? "input" : "",
          t->is_output ? t->is_input ? " and output" : "output" : "",
          dv_dtype_get(t->dtype)->name);
        for (int d = 0; d < t->n_dims; d++)
            P("%s%" PRId64, d ? ", " : "", t->shape[d]);
        P("]\n");
    }
    P("    %s_operands\n};\n", name);
}

static dv_status emit_header(emitter *e, const dv_recording *r,
                             const char *name)
{
    char file[MOST_NAME + 2];
    int64_t bytes =
        64 + r->shared_bytes + r->n_cores * (r->core_bytes + r->stack_bytes);
    P("// Written by divvy emit --as object, with kernels for %s.\n"
      "#ifndef DIVVY_OBJECT_%s\n#define DIVVY_OBJECT_%s\n"
      "#include <stddef.h>\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
      dv_jit_isa(r->jit)->name, name, name);
    put_operands(e, name);
    P("\n// Bytes of memory that a run needs, and what a run consists of: "
      "phases, in each of\n// which every core has a part.\n"
      "#define %s_memory_bytes ((size_t)%" PRId64 ")\n"
      "enum { %s_cores = %d, %s_phases = %d };\n\n"
      "// Runs all parts on the calling thread. Runs with different memory may "
      "be under\n// way at once.\n"
      "void %s_run(void *const operands[%s_operands], void *memory);\n"
      "// Runs the part of one core in one phase, for callers with threads. "
      "Cores of one\n// phase may run at once; a phase begins after the one "
      "before it.\n"
      "void %s_step(void *const operands[%s_operands], void *memory, "
      "int phase,\n               int core);\n\n"
      "#ifdef __cplusplus\n}\n#endif\n#endif\n",
      name, bytes, name, r->n_cores, name, r->n_steps, name, name, name, name);
    snprintf(file, sizeof file, "%s.h", name);
    return dv_emit_file(e, file);
}

// -- The kernels --------------------------------------------------------------

static const char *const signatures[] = {
    [DV_JIT_GEMM] =
        "const void *, const void *, void *, const struct product *",
    [DV_JIT_MOVE] = "const void *, void *",
    [DV_JIT_VEC] = "const struct rows *"};

static void emit_kernels(emitter *e, const dv_recording *r, const char *name)
{
    dv_jit_stats stats;
    dv_jit_stats_get(r->jit, &stats);
    for (int64_t i = 0; i < stats.n_kernels; i++) {
        dv_jit_kernel k;
        dv_jit_kernel_get(r->jit, (uint64_t)i, &k);
        const unsigned char *code = k.code;
        P("\n// %s\nvoid k%" PRId64 "(%s)\n"
          "    __asm__(\"%s_kernel_%" PRId64 "\");\n"
          "__asm__(\".text\\n.p2align 6\\n%s_kernel_%" PRId64 ":\\n\"\n",
          k.name, i, signatures[k.kind], name, i, name, i);
        for (size_t b = 0; b < k.size_bytes; b++)
            P("%s%u%s", b % PER_LINE ? "," : "    \".byte ", code[b],
              b % PER_LINE == PER_LINE - 1 || b + 1 == k.size_bytes ? "\\n\"\n"
                                                                    : "");
        P(");\n");
    }
}

// -- The calls ----------------------------------------------------------------

// The loops around a recorded kernel call, outermost first: steps[d][i] is how
// much argument i changes in each iteration of loop d.
typedef struct around {
    const int64_t *steps[MOST_DEPTH];
    int depth;
} around;

// Prints argument number `i` of a recorded kernel call as a C expression.
static void put_arg(emitter *e, const dv_call *c, const around *loops,
                    int32_t i)
{
    const dv_call_arg *a = &c->args[i];
    int is_number = a->base == DV_CALL_NUMBER;
    if (a->base == DV_CALL_OPERAND)
        P("o(%d)", operand_of(e, a->tensor));
    else if (!is_number)
        P("%s", a->base == DV_CALL_SHARED ? "m" : "t");
    if (is_number || a->off)
        P("%s%" PRId64,
          is_number    ? ""
          : a->off < 0 ? " - "
                       : " + ",
          is_number || a->off > 0 ? a->off : -a->off);
    for (int d = 0; d < loops->depth; d++)
        if (loops->steps[d][i])
            P(" + %" PRId64 " * i%d", loops->steps[d][i], d);
}

// Returns whether an argument is a plain number, the same in all iterations of
// the loops around the call.
static int is_fixed(const dv_call *c, const around *loops, int32_t i)
{
    int fixed = c->args[i].base == DV_CALL_NUMBER;
    for (int d = 0; d < loops->depth; d++)
        fixed &= loops->steps[d][i] == 0;
    return fixed;
}

// Prints arguments begin..end-1 as pointers. A number, unless it is the
// constant 0 (NULL), is the value of a variable and is cast to a pointer.
static void put_args(emitter *e, const dv_call *c, const around *loops,
                     int32_t begin, int32_t end)
{
    for (int32_t i = begin; i < end; i++) {
        int casts = c->args[i].base == DV_CALL_NUMBER &&
                    !(is_fixed(c, loops, i) && !c->args[i].off);
        P("%s%s", i > begin ? ", " : "", casts ? "n(" : "");
        put_arg(e, c, loops, i);
        P("%s", casts ? ")" : "");
    }
}

static void put_call(emitter *e, const dv_call *c, const around *loops,
                     const dv_recording *r)
{
    dv_jit_kernel k = {.kind = DV_JIT_MOVE};
    P("%*s", 4 + 4 * loops->depth, "");
    if (c->kernel == DV_CALL_COPY) {
        P("memcpy(");
        put_args(e, c, loops, 0, 2);
        P(", %" PRId64 ");\n", c->args[2].off);
        return;
    }
    dv_jit_kernel_get(r->jit, (uint64_t)c->kernel, &k);
    if (k.kind == DV_JIT_VEC) {
        P("k%d(&(struct rows){", c->kernel);
        put_arg(e, c, loops, 0);
        P(", ");
        put_arg(e, c, loops, 1);
        P(", (void *const[]){");
        put_args(e, c, loops, 3, c->n_args);
        P("}, ");
        put_args(e, c, loops, 2, 3);
        P("});\n");
        return;
    }
    P("k%d(", c->kernel);
    put_args(e, c, loops, 0, dv_min_i64(c->n_args, 3) == 3 ? 3 : 2);
    if (c->n_args == DV_CALL_GEMM_ARGS) {
        P(", &(struct product){");
        put_args(e, c, loops, 3, DV_CALL_GEMM_ARGS);
        P("}");
    } else if (c->n_args == 3) {
        P(", 0");
    }
    P(");\n");
}

static dv_status put_calls(emitter *e, dv_call *const *calls, int32_t n,
                           const around *loops, const dv_recording *r)
{
    around in = *loops;
    for (int32_t i = 0; i < n; i++) {
        const dv_call *c = calls[i];
        int d = in.depth;
        if (c->kernel == DV_CALL_LOOP) {
            if (d == MOST_DEPTH)
                return dv_fail(e->diag, DV_E_LIMIT, DV_NOWHERE,
                               "more than %d loops around a kernel",
                               MOST_DEPTH);
            P("%*sfor (int64_t i%d = 0; i%d < %" PRId64 "; i%d++) {\n",
              4 + 4 * d, "", d, d, c->count, d);
            around body = in;
            body.steps[body.depth++] = c->steps;
            DV_TRY(put_calls(e, c->body, c->n_body, &body, r));
            P("%*s}\n", 4 + 4 * d, "");
        } else {
            put_call(e, c, &in, r);
        }
        for (int k = 0; k < d; k++)
            in.steps[k] += c->n_args;
    }
    return DV_OK;
}

static dv_status emit_parts(emitter *e, const dv_recording *r)
{
    for (int32_t i = 0; i < r->n_phases * r->n_cores; i++) {
        P("\nstatic void part_%d(void *const *operands, char *m, char *t)\n"
          "{\n    (void)operands, (void)m, (void)t;\n",
          i);
        DV_TRY(put_calls(e, r->calls[i].at, r->calls[i].n,
                         &(around){.depth = 0}, r));
        P("}\n");
    }
    return DV_OK;
}

static void emit_functions(emitter *e, const dv_recording *r, const char *name)
{
    P("\n// The parts of each phase, by core, and the phases in their order.\n"
      "static void (*const parts[][%d])(void *const *, char *, char *) = {\n",
      r->n_cores);
    for (int32_t i = 0; i < r->n_phases * r->n_cores; i++)
        P("%spart_%d%s", i % r->n_cores ? " " : "    {", i,
          (i + 1) % r->n_cores ? "," : "},\n");
    P("};\nstatic const int phases[] = {");
    for (int32_t i = 0; i < r->n_steps; i++)
        P("%s%d,", i % PER_LINE ? " " : "\n    ", r->steps[i]);
    P("\n};\n\n"
      "void %s_step(void *const *operands, void *memory, int phase, int core)\n"
      "{\n"
      "    char *m = (char *)memory + (-(uintptr_t)memory & 63);\n"
      "    char *t = m + %" PRId64 " + core * (int64_t)%" PRId64 ";\n"
      "    parts[phases[phase]][core](operands, m, t);\n"
      "    __atomic_thread_fence(__ATOMIC_SEQ_CST); // after streaming stores\n"
      "}\n\n"
      "void %s_run(void *const *operands, void *memory)\n"
      "{\n"
      "    for (int phase = 0; phase < %s_phases; phase++)\n"
      "        for (int core = 0; core < %s_cores; core++)\n"
      "            %s_step(operands, memory, phase, core);\n"
      "}\n",
      name, r->shared_bytes + r->stack_bytes, r->core_bytes + r->stack_bytes,
      name, name, name, name);
}

static dv_status emit_source(emitter *e, const dv_recording *r,
                             const char *name)
{
    char file[MOST_NAME + 2];
    const dv_backend *b = dv_backend_of(dv_jit_isa(r->jit));
    P("// Written by divvy emit --as object: kernels for %s, and the calls of "
      "a "
      "run.\n"
      "#if !defined(__%s__)\n"
      "#error \"these kernels are for %s: CC names a compiler for it\"\n"
      "#endif\n"
      "#include \"%s.h\"\n#include <stdint.h>\n#include <string.h>\n\n"
      "// Arguments of kernels: of products besides their operands, and of\n"
      "// statements on rows.\n"
      "struct product {\n    const void *bias;\n    void *pack_a, *pack_b;\n"
      "    const void *next;\n};\n"
      "struct rows {\n    int64_t rows, n;\n    void *const *at;\n"
      "    void *acc;\n};\n",
      dv_jit_isa(r->jit)->name, b->words ? "aarch64" : "x86_64",
      b->words ? "AArch64" : "x86-64", name);
    emit_kernels(e, r, name);
    P("\n// An operand, and the value of a variable as an address.\n"
      "#define o(i) ((char *)operands[i])\n"
      "#define n(i) ((void *)(intptr_t)(i))\n");
    DV_TRY(emit_parts(e, r));
    emit_functions(e, r, name);
    snprintf(file, sizeof file, "%s.c", name);
    return dv_emit_file(e, file);
}

dv_status dv_emit_object(emitter *e)
{
    char name[MOST_NAME];
    dv_recording *r = NULL;
    set_name(e->dir, name);
    DV_TRY(dv_record(&r, e->plan, e->diag));
    dv_status st = emit_header(e, r, name);
    if (st == DV_OK)
        st = emit_source(e, r, name);
    dv_record_destroy(r);
    return st;
}

// -- The compiler -------------------------------------------------------------

extern char **environ;

// Runs a command and waits for it. Returns its exit status, or -1 if it could
// not be run.
static int run_command(char **words)
{
    pid_t pid;
    int status;
    if (posix_spawnp(&pid, words[0], NULL, NULL, words, environ) != 0)
        return -1;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

dv_status dv_emit_compile(const emitter *e)
{
    static char flags[][24] = {"-O1",   "-fno-lto", "-fno-stack-protector",
                               "-fPIC", "-c",       "-o"};
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    char name[MOST_NAME], *words[MOST_WORDS + N_FLAGS + 3];
    const char *given = getenv("CC"), *cc = given && *given ? given : "cc";
    dv_arena arena = {0};
    dv_text source = {0}, object = {0};
    int n = 0;
    set_name(e->dir, name);
    // Put "./" before a folder name that begins with '-', which the compiler
    // would take for an option.
    const char *at = *e->dir == '-' ? "./" : "";
    dv_put(&source, "%s%s/%s.c", at, e->dir, name);
    dv_put(&object, "%s%s/%s.o", at, e->dir, name);
    char *command = dv_arena_copy(&arena, cc, strlen(cc));
    dv_status st = DV_OK;
    if (!command || source.failed || object.failed)
        st = dv_nomem(e->diag);
    for (char *rest = command, *word;
         st == DV_OK && n < MOST_WORDS && (word = strtok_r(rest, " ", &rest));)
        words[n++] = word;
    for (int i = 0; i < N_FLAGS; i++)
        words[n++] = flags[i];
    words[n++] = object.at;
    words[n++] = source.at;
    words[n] = NULL;
    if (st == DV_OK && run_command(words) != 0)
        st = dv_fail(e->diag, DV_E_SYSTEM, DV_NOWHERE,
                     "'%s' cannot compile %s; the environment variable CC "
                     "names the compiler",
                     cc, source.at);
    dv_text_free(&source);
    dv_text_free(&object);
    dv_arena_free(&arena);
    return st;
}
