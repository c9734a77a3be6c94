// The cache of kernels, looked up by shape.
//
// It is a hash table with open addressing that holds pointers to entries.
// Readers take no lock: a published entry never changes or moves, and a table
// that has become too small is replaced by a larger one but freed only at the
// end, so that concurrent readers can finish in it. Writers hold the mutex.
#define _POSIX_C_SOURCE 200809L
#include "base/dtype.h"
#include "jit/arena.h"
#include "jit/backend.h"
#include "jit/jit.h"
#include "jit/vec/ir.h"
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_WORDS = 10, FIRST_SLOTS = 64, MAX_CODE = 1 << 18 };

typedef union key {
    dv_gemm_shape gemm;
    dv_move_shape move;
    uint64_t words[KEY_WORDS];
} key;
_Static_assert(sizeof(key) == KEY_WORDS * 8, "a shape has grown: KEY_WORDS");
// The structs have no padding, so that equal shapes have equal bytes, which are
// their keys in the cache.
_Static_assert(sizeof(dv_gemm_shape) == 4 * 4 + 6 * 8 + 16, "padding");
_Static_assert(sizeof(dv_move_shape) == 2 * 8 + 2 * 4 + 8, "padding");

// A key to look up in the kernel cache: the words of a shape and, for a vector
// kernel, also the shape itself.
typedef struct wanted {
    const uint64_t *words;
    int n;
    dv_jit_kind kind;
    const dv_vec_shape *vec;
} wanted;

typedef struct entry {
    uint64_t hash;    // hash of the key's words and kind
    const void *run;  // what is called: the code, or what records its calls
    const void *code; // the kernel
    size_t size_bytes;
    struct entry *next; // next entry in the order of creation
    dv_jit_kind kind;
    int n;
    int32_t n_operands; // of a vector kernel
    int calls;          // 1: the code calls functions of this process
    uint64_t words[];
} entry;

typedef struct table {
    size_t mask;
    // The smaller table that this one replaced. It is not freed yet, because
    // other threads may still read it without a lock.
    struct table *older;
    _Atomic(entry *) slots[];
} table;

struct dv_jit {
    // Reference count: one for each call of dv_jit_shared() that returned this
    // cache, plus one while it is the cache that new calls get.
    atomic_int users;
    _Atomic(table *) table;
    pthread_mutex_t lock; // protects all fields below it
    dv_arena arena;       // owns the entries
    dv_code_arena memory;
    dv_vec_plan_cache plans;
    entry *first, *last;
    int64_t n, code_bytes;
    FILE *perf_map; // NULL unless DIVVY_PERF_MAP is set
    const dv_isa *isa;
    dv_jit_called *called; // records the calls of kernels; NULL: they run
    int foreign; // 1: the kernels can be listed but not run on this machine
    // Memory in which generators cache patterns of instructions between kernels
    // (dv_code.keep).
    uint64_t keep[DV_CODE_KEEP / 8];
};

// Hashes the words of a key as a sum of products with odd constants. The
// products do not depend on each other, so that they overlap in the pipeline.
static inline uint64_t hash_of(const uint64_t *w, int n, dv_jit_kind kind)
{
    uint64_t h = (uint64_t)kind, odd = 0x9e3779b97f4a7c15u;
    for (int i = 0; i < n; i++, odd += 0x3c6ef372fe94f82au)
        h += (w[i] ^ w[i] >> 32) * odd;
    h *= 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
}

static inline int same(const uint64_t *a, const uint64_t *b, int n)
{
    uint64_t differ = 0;
    for (int i = 0; i < n; i++)
        differ |= a[i] ^ b[i];
    return !differ;
}

static inline entry *find(const table *t, uint64_t hash, const wanted *w)
{
    for (size_t i = hash & t->mask;; i = (i + 1) & t->mask) {
        entry *e = atomic_load_explicit(&t->slots[i], memory_order_acquire);
        if (!e)
            return NULL;
        if (e->hash == hash && e->kind == w->kind && e->n == w->n &&
            same(e->words, w->words, w->n))
            return e;
    }
}

static table *new_table(size_t n)
{
    table *t = dv_alloc(sizeof *t + n * sizeof(_Atomic(entry *)));
    if (!t)
        return NULL;
    t->mask = n - 1;
    t->older = NULL;
    for (size_t i = 0; i < n; i++)
        atomic_init(&t->slots[i], NULL);
    return t;
}

static void put(table *t, entry *e)
{
    size_t i = e->hash & t->mask;
    while (atomic_load_explicit(&t->slots[i], memory_order_relaxed))
        i = (i + 1) & t->mask;
    atomic_store_explicit(&t->slots[i], e, memory_order_release);
}

// Doubles the table if one more entry would fill more than half of it. Returns
// 0 when out of memory.
static int make_room(dv_jit *jit)
{
    table *old = atomic_load(&jit->table);
    if (2 * (size_t)(jit->n + 1) <= old->mask)
        return 1;
    table *t = new_table(2 * (old->mask + 1));
    if (!t)
        return 0;
    for (entry *e = jit->first; e; e = e->next)
        put(t, e);
    t->older = old;
    atomic_store(&jit->table, t);
    return 1;
}

static const char *const moves[] = {"copy", "transpose", "pairs",
                                    "pairs_turned", "narrow"};

static void name_gemm(const dv_gemm_shape *s, char *out, size_t size)
{
    char a = s->panel_a ? 'p' : s->trans_a ? 't' : 'n';
    char b = s->trans_b ? 't' : 'n';
    snprintf(out, size, "gemm_%s_%c%c_%dx%dx%d_b%d_ld%d_%d_%d%s%s%s%s%s%s",
             dv_dtype_get((dv_dtype)s->dtype)->name, a, b, s->m, s->n, s->k,
             s->batch, (int)s->lda, (int)s->ldb, (int)s->ldc,
             s->beta ? "_acc" : "", s->bias ? "_bias" : "",
             s->relu ? "_relu" : "", s->pack_a ? "_packa" : "",
             s->pack_b ? "_packb" : "",
             s->ahead_a == DV_AHEAD_COPY                 ? "_brings"
             : s->ahead_a || s->next_b == DV_NEXT_SPREAD ? "_asks"
                                                         : "");
}

static void name_of(const entry *e, char *out, size_t size)
{
    key k = {.words = {0}};
    const dv_move_shape *v = &k.move;
    if (e->kind == DV_JIT_VEC) {
        dv_vec_name(e->words, out, size);
        return;
    }
    memcpy(&k, e->words, (size_t)e->n * sizeof *e->words);
    if (e->kind == DV_JIT_GEMM)
        name_gemm(&k.gemm, out, size);
    else
        snprintf(out, size, "%s_%s_%dx%d_ld%d_%d", moves[v->move],
                 dv_dtype_get((dv_dtype)v->dtype)->name, v->rows, v->cols,
                 (int)v->lds, (int)v->ldd);
}

// Appends a line (start, size, name) for a kernel to the map that perf reads to
// show symbols of generated code.
static void write_perf_map(dv_jit *jit, const entry *e)
{
    if (!jit->perf_map)
        return;
    char name[128];
    name_of(e, name, sizeof name);
    fprintf(jit->perf_map, "%" PRIxPTR " %zx divvy_%s\n", (uintptr_t)e->code,
            e->size_bytes, name);
    fflush(jit->perf_map);
}

// Opens the map file of this process, /tmp/perf-PID.map, whose name perf
// prescribes. Because anyone can create a file of this name in /tmp beforehand,
// links are not followed, and the file is used only if it belongs to this user
// and has no other hard link. All kernel caches of a process share the file.
static FILE *open_perf_map(dv_diag *diag)
{
    char path[64];
    struct stat st;
    if (!getenv("DIVVY_PERF_MAP"))
        return NULL;
    snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
    int fd = open(path,
                  O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK |
                      O_CLOEXEC,
                  0600);
    FILE *f = NULL;
    if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) &&
        st.st_uid == geteuid() && st.st_nlink == 1)
        f = fdopen(fd, "a");
    if (fd >= 0 && !f)
        close(fd);
    if (!f)
        dv_warn(diag, "perf", DV_NOWHERE,
                "no map for perf: %s is a link, of another user or cannot be "
                "written",
                path);
    return f;
}

// Largest leading dimension in elements, which keeps every byte offset below
// 2^32.
enum { MAX_LD = 1 << 28 };

static dv_status check_type(int has, dv_diag *diag)
{
    if (has)
        return DV_OK;
    return dv_fail(diag, DV_E_DTYPE, DV_NOWHERE,
                   "there are no kernels for this element type");
}

static dv_status check_ld(const char *what, int64_t ld, int64_t least,
                          dv_diag *diag)
{
    if (ld < least || ld > MAX_LD)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "%s is %" PRId64 ", rows have %" PRId64 " elements",
                       what, ld, least);
    return DV_OK;
}

// Returns whether kernels multiply this type only with matrix or dot-product
// instructions, whose operands a kernel of kind DV_MOVE_PAIRS must pack before.
static int pairs_only(int dtype)
{
    return dtype == DV_BF16 || dtype == DV_I8;
}

static dv_status check_pairs(const dv_isa *isa, const dv_gemm_shape *s,
                             dv_diag *diag)
{
    if (s->n > isa->pairs_cols || s->batch > 1 || s->trans_a ||
        s->panel_a != isa->pairs_rows)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "narrow types take operands in pairs, %d columns at "
                       "most, not %d",
                       isa->pairs_cols, s->n);
    return check_ld("ldc", s->ldc, s->n, diag);
}

// Checks the option DV_AHEAD_COPY (while a kernel runs, it copies the operand A
// of the next one): is there such a kernel for this shape, and is step_c, the
// distance in C from tile to tile, in range? Without the option step_c must be
// 0. The check comes after those of all leading dimensions, because it
// multiplies them and they must be in range for that.
static dv_status check_copy_next(const dv_isa *isa, const dv_gemm_shape *s,
                                 dv_diag *diag)
{
    if (s->ahead_a == DV_AHEAD_COPY ? !dv_isa_copies_next(isa, s)
                                    : s->step_c != 0)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "no kernel brings the next rows of %dx%dx%d", s->m, s->n,
                       s->k);
    return s->step_c ? check_ld("step_c", s->step_c,
                                s->ldc * isa->copy_tile_rows, diag)
                     : DV_OK;
}

// Replaces defaults in a shape (a copy that the caller owns) by their values,
// and checks it.
static dv_status check_gemm(const dv_isa *isa, dv_gemm_shape *s, dv_diag *diag)
{
    DV_TRY(check_type(dv_isa_has(isa, s->dtype), diag));
    if (s->m < 1 || s->n < 1 || s->k < 1 || s->batch < 0)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "a product of %dx%dx%d, %d times", s->m, s->n, s->k,
                       s->batch);
    if (s->trans_a > 1 || s->trans_b > 1 || s->beta > DV_SCALE_ONE ||
        s->bias > DV_BIAS_N || s->relu > 1 ||
        (s->panel_a > isa->max_panel_read && !pairs_only(s->dtype)) ||
        s->pack_a > 1 || s->pack_b > 1 || s->one_sum > 1 ||
        (s->ctype && !dv_isa_rounds(isa, s)) || s->stream > 1 ||
        s->ahead_a > DV_AHEAD_COPY || s->next_b > DV_NEXT_SPREAD ||
        (s->ahead_a && (!s->trans_a || s->trans_b || s->panel_a)) ||
        (s->pack_a && (!s->panel_a || s->panel_a > isa->max_panel_packed)) ||
        (s->pack_b && !s->panel_a) ||
        (s->panel_a && (s->trans_b || s->batch > 1)))
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "the product's options contradict each other");
    int32_t row_a = s->trans_a ? s->m : s->k, row_b = s->trans_b ? s->k : s->n;
    s->batch = s->batch ? s->batch : 1;
    s->lda = s->lda ? s->lda : row_a;
    s->ldb = s->ldb ? s->ldb : row_b;
    s->ldc = s->ldc ? s->ldc : s->n;
    if (pairs_only(s->dtype)) {
        DV_TRY(check_pairs(isa, s, diag));
        return check_copy_next(isa, s, diag);
    }
    // Rows of A may overlap, as those of a sliding window do: lda may be less
    // than the length of a row.
    if (!s->panel_a || s->pack_a)
        DV_TRY(check_ld("lda", s->lda, 1, diag));
    DV_TRY(check_ld("ldb", s->ldb, row_b, diag));
    DV_TRY(check_ld("ldc", s->ldc, s->n, diag));
    return check_copy_next(isa, s, diag);
}

// Returns whether the instruction set has this move (a kernel that copies,
// transposes, packs or rounds) for the type. Packing needs a type with products
// of pairs; copy and transpose also work for other narrow types, since they
// only move bits.
static int moves_type(const dv_isa *isa, const dv_move_shape *s)
{
    int halves = s->dtype == DV_F16 || s->dtype == DV_BF16;
    if (s->move == DV_MOVE_NARROW)
        return halves;
    return dv_isa_has(isa, s->dtype) ||
           ((halves || s->dtype == DV_I8) && s->move <= DV_MOVE_TRANSPOSE);
}

static dv_status check_move(const dv_isa *isa, dv_move_shape *s, dv_diag *diag)
{
    DV_TRY(check_type(moves_type(isa, s), diag));
    if (s->rows < 1 || s->cols < 1 || s->move > DV_MOVE_NARROW ||
        s->overlap > 1)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE, "a move of %dx%d", s->rows,
                       s->cols);
    int pairs = s->move == DV_MOVE_PAIRS || s->move == DV_MOVE_PAIRS_TRANSPOSED;
    int lines = s->move == DV_MOVE_PAIRS ? s->rows : s->cols;
    if (pairs && (!pairs_only(s->dtype) ||
                  lines > (s->overlap ? isa->pairs_cols : isa->pairs_rows)))
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "pairs are for narrow types, %d at a time, not %d",
                       isa->pairs_cols, lines);
    int32_t row = s->move == DV_MOVE_TRANSPOSE ? s->rows : s->cols;
    s->lds = s->lds ? s->lds : s->cols;
    s->ldd = s->ldd ? s->ldd : row;
    DV_TRY(check_ld("lds", s->lds, s->cols, diag));
    return pairs ? DV_OK : check_ld("ldd", s->ldd, row, diag);
}

static dv_status generate_vec(dv_jit *jit, const wanted *w, dv_code *code,
                              dv_diag *diag)
{
    DV_TRY(dv_vec_check(jit->isa, w->vec, diag));
    return dv_vec_generate(&jit->plans, dv_backend_vec(jit->isa), w->vec,
                           w->words, w->n, code)
               ? DV_OK
               : dv_nomem(diag);
}

static dv_status generate(dv_jit *jit, const wanted *w, dv_code *code,
                          dv_diag *diag)
{
    key full = {.words = {0}};
    if (w->kind != DV_JIT_VEC)
        memcpy(&full, w->words, (size_t)w->n * sizeof *w->words);
    if (w->kind == DV_JIT_VEC) {
        DV_TRY(generate_vec(jit, w, code, diag));
    } else if (w->kind == DV_JIT_GEMM) {
        DV_TRY(check_gemm(jit->isa, &full.gemm, diag));
        dv_backend_of(jit->isa)->gemm(code, jit->isa, &full.gemm);
    } else {
        DV_TRY(check_move(jit->isa, &full.move, diag));
        dv_backend_of(jit->isa)->move(code, jit->isa, &full.move);
    }
    return DV_OK;
}

// Generates a kernel directly in code memory. If it does not fit into the free
// bytes of the current chunk, it is generated again where MAX_CODE bytes,
// enough for any kernel, are free.
static dv_status generate_in_place(dv_jit *jit, const wanted *w, dv_code *code,
                                   dv_diag *diag)
{
    for (size_t least = 0, room;; least = MAX_CODE) {
        unsigned char *at = dv_code_arena_room(&jit->memory, least, &room);
        if (!at)
            return dv_nomem(diag);
        room = room < MAX_CODE ? room : MAX_CODE;
        *code = (dv_code){at, 0, room, 0, jit->keep, 0};
        DV_TRY(generate(jit, w, code, diag));
        if (!code->failed)
            return DV_OK;
        if (room == MAX_CODE)
            return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                           "a kernel does not fit its encodings");
    }
}

static int32_t n_operands(const wanted *w)
{
    int32_t n = 0;
    for (const dv_vec_shape *s = w->vec; s; s = s->beside)
        n += s->n_operands;
    return n;
}

// Adds to code memory a function that is called in place of the next kernel and
// records the call. Returns its address, or NULL.
static const void *add_recorder(dv_jit *jit)
{
    unsigned char code[DV_RECORDER_BYTES];
    size_t n = dv_jit_put_recorder(code, jit->called, (uint64_t)jit->n);
    return dv_code_arena_add(&jit->memory, code, n);
}

// Generates a kernel and adds it to the hash table, where other threads can
// find it. The caller holds the lock.
static dv_status add(dv_jit *jit, const wanted *w, uint64_t hash, entry **out,
                     dv_diag *diag)
{
    dv_code code;
    DV_TRY(generate_in_place(jit, w, &code, diag));
    size_t key_bytes = (size_t)w->n * sizeof *w->words;
    entry *e = dv_arena_alloc(&jit->arena, 1, sizeof *e + key_bytes);
    if (!e || !make_room(jit))
        return dv_nomem(diag);
    const void *at = dv_code_arena_commit(&jit->memory, code.n);
    const void *run = at && jit->called ? add_recorder(jit) : at;
    if (!run)
        return dv_nomem(diag);
    *e = (entry){.hash = hash,
                 .run = run,
                 .code = at,
                 .size_bytes = code.n,
                 .kind = w->kind,
                 .n = w->n,
                 .n_operands = n_operands(w),
                 .calls = code.calls};
    memcpy(e->words, w->words, key_bytes);
    *(jit->last ? &jit->last->next : &jit->first) = e;
    jit->last = e;
    jit->n++;
    jit->code_bytes += (int64_t)code.n;
    put(atomic_load(&jit->table), e);
    write_perf_map(jit, e);
    *out = e;
    return DV_OK;
}

// Handles a cache miss: takes the lock, looks again in case another thread was
// faster, and generates the kernel if it is still missing.
static dv_status miss(dv_jit *jit, const wanted *w, const void **run,
                      dv_diag *diag)
{
    dv_status s = DV_OK;
    uint64_t hash = hash_of(w->words, w->n, w->kind);
    pthread_mutex_lock(&jit->lock);
    entry *e = find(atomic_load(&jit->table), hash, w);
    if (!e)
        s = add(jit, w, hash, &e, diag);
    pthread_mutex_unlock(&jit->lock);
    *run = e ? e->run : NULL;
    return s;
}

static inline dv_status get(dv_jit *jit, const wanted *w, const void **run,
                            dv_diag *diag)
{
    table *t = atomic_load_explicit(&jit->table, memory_order_acquire);
    entry *e = find(t, hash_of(w->words, w->n, w->kind), w);
    if (!e)
        return miss(jit, w, run, diag);
    *run = e->run;
    return DV_OK;
}

// Gets the kernel of a product or a move into the function pointer at `out`.
// This function and dv_jit_vec are the only places where code addresses become
// function pointers.
static inline dv_status get_fixed(dv_jit *jit, const void *shape,
                                  size_t size_bytes, dv_jit_kind kind,
                                  void *out, dv_diag *diag)
{
    const void *run;
    key k = {.words = {0}};
    memcpy(&k, shape, size_bytes);
    wanted w = {k.words, (int)(size_bytes / 8), kind, NULL};
    dv_status s = get(jit, &w, &run, diag);
    memcpy(out, &run, sizeof run);
    return s;
}

dv_status dv_jit_gemm(dv_jit *jit, const dv_gemm_shape *shape, dv_gemm_fn *out,
                      dv_diag *diag)
{
    return get_fixed(jit, shape, sizeof *shape, DV_JIT_GEMM, out, diag);
}

dv_status dv_jit_move(dv_jit *jit, const dv_move_shape *shape, dv_move_fn *out,
                      dv_diag *diag)
{
    return get_fixed(jit, shape, sizeof *shape, DV_JIT_MOVE, out, diag);
}

dv_status dv_jit_vec(dv_jit *jit, const dv_vec_shape *shape, dv_vec_fn *out,
                     dv_diag *diag)
{
    uint64_t few[DV_VEC_MAX_CACHED_KEY], *words = few;
    const void *run = NULL;
    int n = dv_vec_key_words(shape);
    if (n > DV_VEC_MAX_CACHED_KEY)
        words = dv_alloc((size_t)n * sizeof *words);
    if (!words) {
        *out = NULL;
        return dv_nomem(diag);
    }
    dv_vec_key(shape, words);
    wanted w = {words, n, DV_JIT_VEC, shape};
    dv_status s = get(jit, &w, &run, diag);
    memcpy(out, &run, sizeof run);
    if (words != few)
        dv_release(words);
    return s;
}

dv_status dv_jit_create(dv_jit **out, dv_diag *diag)
{
    return dv_jit_create_for(out, "", diag);
}

dv_status dv_jit_record(dv_jit *jit, dv_jit_called *called, dv_diag *diag)
{
    unsigned char code[DV_RECORDER_BYTES];
    if (!dv_jit_put_recorder(code, called, 0))
        return dv_fail(diag, DV_E_SYSTEM, DV_NOWHERE,
                       "calls of kernels cannot be recorded on this machine");
    jit->called = called;
    return DV_OK;
}

void dv_jit_kernel_get(dv_jit *jit, uint64_t number, dv_jit_kernel *out)
{
    pthread_mutex_lock(&jit->lock);
    const entry *e = jit->first;
    while (number--)
        e = e->next;
    key k = {.words = {0}};
    if (e->kind == DV_JIT_GEMM)
        memcpy(&k, e->words, (size_t)e->n * sizeof *e->words);
    *out = (dv_jit_kernel){.kind = e->kind,
                           .code = e->code,
                           .size_bytes = e->size_bytes,
                           .n_operands = e->n_operands,
                           .calls = e->calls,
                           .uses_tiles = e->kind == DV_JIT_GEMM &&
                                         jit->isa->has_tiles &&
                                         pairs_only(k.gemm.dtype)};
    name_of(e, out->name, sizeof out->name);
    pthread_mutex_unlock(&jit->lock);
}

int dv_jit_can_run(const dv_jit *jit)
{
    return !jit->foreign;
}

static dv_status no_such_set(const char *kernels, dv_diag *diag)
{
    dv_text names = {0};
    dv_isa_names(&names);
    dv_status st = dv_fail(diag, DV_E_TARGET, DV_NOWHERE,
                           "there are no kernels for the instruction set '%s'; "
                           "there are:%s",
                           kernels, names.at ? names.at : "");
    dv_text_free(&names);
    return st;
}

dv_status dv_jit_create_for(dv_jit **out, const char *kernels, dv_diag *diag)
{
    *out = NULL;
    const dv_isa *isa = *kernels ? dv_isa_find(kernels) : dv_isa_host();
    if (!isa && *kernels)
        return no_such_set(kernels, diag);
    if (!isa)
        return dv_fail(diag, DV_E_SYSTEM, DV_NOWHERE,
                       "no kernels for this machine yet");
    dv_jit *jit = dv_alloc(sizeof *jit);
    table *t = new_table(FIRST_SLOTS);
    if (!jit || !t) {
        dv_release(jit);
        dv_release(t);
        return dv_nomem(diag);
    }
    memset(jit, 0, offsetof(dv_jit, keep));
    memset(jit->keep, 0, DV_CODE_ZEROS);
    jit->isa = isa;
    jit->foreign = !dv_isa_supported(isa);
    atomic_init(&jit->table, t);
    pthread_mutex_init(&jit->lock, NULL);
    jit->perf_map = open_perf_map(diag);
    // perf shows symbols from its map only for anonymous memory, so code then
    // has one private mapping instead of two mappings of a file.
    jit->memory.one_view = jit->perf_map || getenv("DIVVY_JIT_ONE_VIEW");
    *out = jit;
    return DV_OK;
}

void dv_jit_destroy(dv_jit *jit)
{
    if (!jit)
        return;
    for (table *t = atomic_load(&jit->table), *older; t; t = older) {
        older = t->older;
        dv_release(t);
    }
    if (jit->perf_map)
        fclose(jit->perf_map);
    dv_code_arena_free(&jit->memory);
    dv_vec_plan_cache_free(&jit->plans);
    dv_arena_free(&jit->arena);
    pthread_mutex_destroy(&jit->lock);
    dv_release(jit);
}

// The cache of kernels of this process.
static dv_jit *shared;
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

// The shared cache is replaced by an empty one when it holds this many bytes of
// code.
enum { MAX_SHARED_BYTES = 64 << 20 };

void dv_jit_release(dv_jit *jit)
{
    if (jit && atomic_fetch_sub(&jit->users, 1) == 1)
        dv_jit_destroy(jit);
}

dv_jit *dv_jit_shared(void)
{
    pthread_mutex_lock(&shared_lock);
    dv_jit_stats stats = {0};
    if (shared)
        dv_jit_stats_get(shared, &stats);
    if (stats.code_bytes > MAX_SHARED_BYTES) {
        dv_jit_release(shared);
        shared = NULL;
    }
    if (!shared && dv_jit_create(&shared, NULL) == DV_OK)
        atomic_store(&shared->users, 1);
    if (shared)
        atomic_fetch_add(&shared->users, 1);
    dv_jit *jit = shared;
    pthread_mutex_unlock(&shared_lock);
    return jit;
}

void dv_kernels_drop(void)
{
    pthread_mutex_lock(&shared_lock);
    dv_jit_release(shared);
    shared = NULL;
    pthread_mutex_unlock(&shared_lock);
}

void dv_jit_seal(dv_jit *jit)
{
    if (!jit)
        return;
    pthread_mutex_lock(&jit->lock);
    dv_code_arena_seal(&jit->memory);
    pthread_mutex_unlock(&jit->lock);
}

const dv_isa *dv_jit_isa(const dv_jit *jit)
{
    return jit->isa;
}

void dv_jit_list(dv_jit *jit, dv_text *out, dv_jit_before before,
                 const void *user)
{
    int64_t number = 0;
    pthread_mutex_lock(&jit->lock);
    for (const entry *e = jit->first; e; e = e->next) {
        char name[128];
        if (before)
            before(user, number++, out);
        name_of(e, name, sizeof name);
        dv_put(out, "%s: # %zu bytes\n", name, e->size_bytes);
        dv_isa_list(jit->isa, e->code, e->size_bytes, out);
    }
    pthread_mutex_unlock(&jit->lock);
}

void dv_jit_stats_get(dv_jit *jit, dv_jit_stats *out)
{
    pthread_mutex_lock(&jit->lock);
    *out = (dv_jit_stats){jit->n, jit->code_bytes, 0, !jit->memory.one_view};
    for (int32_t i = 0; i < jit->memory.n; i++)
        out->mapped_bytes += (int64_t)jit->memory.chunks[i].size_bytes;
    pthread_mutex_unlock(&jit->lock);
}
