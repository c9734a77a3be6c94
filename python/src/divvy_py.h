// The extension module _divvy: the door from Python to the library. It is
// compiled with Python's limited API, so that one binary serves Python 3.11 and
// later.
//
//   module.c    the table of functions, and how the module is initialised
//   error.c     failures of the library as exceptions
//   operand.c   arrays of Python's libraries as operands, without a copy
//   dlpack.c    capsules of DLPack, both kinds, in and out
//   numpy.c     numpy's arrays, without its headers
//   array.c     divvy.Array, which other libraries take without a copy
//   result.c    results of the kind of an operand: numpy, torch, jax, Array
//   einsum.c    einsum with a cache of expressions that are ready to run
//   watch.c     Ctrl-C and progress while the library works without the GIL
//   program.c   programs
//   plan.c      targets, options of plans, plans
//   onnx.c      ONNX models
//   run.c       runs of programs and of plans
//   place.c     buffers placed into one memory
//   team.c      teams of processes, and what is divided over them
//
// Every function is called with the GIL held, unless its comment says
// otherwise. A function that returns a pointer returns NULL, and one that
// returns an int -1, after it has set an exception.
#ifndef DIVVY_PY_H
#define DIVVY_PY_H
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include "divvy/divvy.h"
#include <stdint.h>

// -- error.c ------------------------------------------------------------------

int dvpy_error_init(PyObject *module);
// Sets the exception that belongs to the failure that `diag` describes, and
// returns NULL. If a Python exception is set already, it stays: a callback that
// raised an exception has stopped the library.
PyObject *dvpy_raise(dv_diag *diag);
// Sets a divvy.Error without a position. DV_E_USAGE and DV_E_SHAPE are
// ValueErrors, DV_E_DTYPE is a TypeError.
PyObject *dvpy_fail(dv_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// -- operand.c ----------------------------------------------------------------

// An array of another library, borrowed while the operand exists.
typedef struct dvpy_operand {
    dv_dtype dtype;
    int n_dims;
    int is_readonly;
    int is_copy; // 1 if numpy had to convert the array
    int64_t shape[DV_MAX_DIMS];
    int64_t strides[DV_MAX_DIMS]; // in elements
    void *data;
    // What is to be released: a buffer, a tensor of DLPack, or an object.
    Py_buffer view; // its obj is NULL if there is no buffer
    void *managed;  // of DLPack; NULL: none
    int is_versioned;
    PyObject *owner; // NULL: none
} dvpy_operand;

// Borrows the memory of an array: a divvy.Array, whatever has the buffer
// protocol, or has `__dlpack__`. Anything else (lists, numbers) becomes a numpy
// array if numpy has been imported.
int dvpy_operand_get(dvpy_operand *out, PyObject *array);
void dvpy_operand_release(dvpy_operand *o);
// Returns whether the elements are in row-major order without gaps.
int dvpy_operand_is_dense(const dvpy_operand *o);
// Returns a type's number for its name ("f32", "float32", or an object whose
// `name` is one), or -1.
int dvpy_dtype_read(PyObject *name);
const char *dvpy_dtype_name(dv_dtype t); // "f32"
const char *dvpy_numpy_name(dv_dtype t); // "float32"
int dvpy_dtype_size(dv_dtype t);         // in bytes
const char *dvpy_format(dv_dtype t);     // of buffers; NULL: there is none

// -- dlpack.c -----------------------------------------------------------------

// Returns 1 if the array has no `__dlpack__`.
int dvpy_dlpack_get(dvpy_operand *out, PyObject *array);
void dvpy_dlpack_release(dvpy_operand *o);
// The methods `__dlpack__` and `__dlpack_device__` of divvy.Array.
PyObject *dvpy_dlpack_export(PyObject *self, PyObject *args, PyObject *names);
PyObject *dvpy_dlpack_device(PyObject *self, PyObject *unused);

// -- array.c ------------------------------------------------------------------

// An array in memory of its own, or in that of `base`.
typedef struct dvpy_array {
    PyObject ob_base;
    dv_dtype dtype;
    int n_dims;
    int is_readonly;
    int64_t shape[DV_MAX_DIMS];
    int64_t strides[DV_MAX_DIMS]; // in elements
    Py_ssize_t byte_shape[DV_MAX_DIMS], byte_strides[DV_MAX_DIMS]; // of buffers
    void *data;
    void *memory;       // owned; NULL: none
    dvpy_operand *base; // owned; keeps the memory of another array; NULL: none
} dvpy_array;

extern PyTypeObject *dvpy_array_type;
int dvpy_array_init(PyObject *module);
// Makes an array with memory of its own, which is not initialised.
dvpy_array *dvpy_array_new(dv_dtype dtype, int n_dims, const int64_t *shape);
// Makes an array that shows memory of `base`, which it takes over: after a
// success the caller does not release it.
dvpy_array *dvpy_array_view(dvpy_operand *base, dv_dtype dtype, void *data,
                            int n_dims, const int64_t *shape,
                            const int64_t *strides);
PyObject *dvpy_asarray(PyObject *module, PyObject *array);

// -- result.c -----------------------------------------------------------------

// The library whose arrays a function returns.
typedef enum dvpy_kind {
    DVPY_ARRAY, // divvy.Array
    DVPY_NUMPY,
    DVPY_TORCH,
    DVPY_STANDARD, // the Python array API standard (jax and others)
} dvpy_kind;

dvpy_kind dvpy_kind_of(PyObject *array);
// Makes an array to write a result to, and borrows its memory: `out` is to be
// released before dvpy_result_finish, which makes the array one of the kind of
// `like` and takes over the caller's reference.
PyObject *dvpy_result_new(dvpy_operand *out, dvpy_kind kind, dv_dtype dtype,
                          int n_dims, const int64_t *shape);
PyObject *dvpy_result_finish(PyObject *result, dvpy_kind kind, PyObject *like);
// Returns a module that has been imported, as a new reference, or NULL without
// an exception.
PyObject *dvpy_imported(const char *name);
// Returns an attribute of an object and releases the object, which may be NULL;
// NULL without an exception if there is no such attribute.
PyObject *dvpy_attribute(PyObject *from, const char *name);

// -- numpy.c ------------------------------------------------------------------

// Returns numpy.ndarray, borrowed, or NULL without an exception if numpy has
// not been imported.
PyTypeObject *dvpy_numpy_type(void);
// Returns numpy.empty(shape, dtype). numpy must have been imported and have the
// type.
PyObject *dvpy_numpy_empty(dv_dtype dtype, int n_dims, const int64_t *shape);
// Borrows the memory of a numpy array. Returns 1 if that has to be done by the
// buffer protocol.
int dvpy_numpy_get(dvpy_operand *out, PyObject *array);

// -- einsum.c -----------------------------------------------------------------

int dvpy_einsum_init(PyObject *module);
PyObject *dvpy_einsum(PyObject *module, PyObject *const *args, Py_ssize_t n,
                      PyObject *names);
// einsum_json(search, limit, text, *operands): the order of the products as a
// table and as JSON, found by a dv_path_search and with a limit on the elements
// of results between (0: none).
PyObject *dvpy_einsum_json(PyObject *module, PyObject *args);

// -- watch.c ------------------------------------------------------------------

// A piece of work without the GIL that Ctrl-C and a callback can stop. While it
// is under way, the library calls dvpy_watch_plan or dvpy_watch_run in the
// thread that began it. About every 50 ms these take the GIL, handle signals
// and call the callback. If that sets an exception, the library stops, and
// dvpy_watch_end returns -1.
typedef struct dvpy_watch {
    PyObject *progress; // called with a word and the share that is done, or
                        // None; NULL or None: nobody is called
    PyThreadState *thread;
    double next_s; // when it looks again
    struct dvpy_watch *outer;
} dvpy_watch;

void dvpy_watch_begin(dvpy_watch *w, PyObject *progress); // releases the GIL
int dvpy_watch_end(dvpy_watch *w);                        // takes it again
// Called without the GIL, by the library.
int dvpy_watch_plan(void *user, const char *pass);
int dvpy_watch_run(void *user, double done);

// -- program.c, plan.c, onnx.c ------------------------------------------------

typedef struct dvpy_program {
    PyObject ob_base;
    const dv_program *p;
    dv_program *own; // p, if it is owned; NULL: `model` has it
    PyObject *model; // NULL: the program is not of a model
} dvpy_program;

typedef struct dvpy_plan {
    PyObject ob_base;
    dv_plan *plan;
} dvpy_plan;

extern PyTypeObject *dvpy_program_type, *dvpy_plan_type, *dvpy_model_type;
// The functions that define types make them. Each is called once.
int dvpy_program_init(PyObject *module);
int dvpy_plan_init(PyObject *module);
int dvpy_model_init(PyObject *module);
int dvpy_run_init(PyObject *module);
PyTypeObject *dvpy_make_type(const char *name, size_t size,
                             void (*destroy)(PyObject *), PyMethodDef *methods);
// Makes a text of one that the library returned, and frees that.
PyObject *dvpy_take_text(char *text);

PyObject *dvpy_program_make(PyObject *module, PyObject *args);
// What a program or a model is read with: params from a dict of names and
// texts, whose strings are borrowed, and where errors go.
typedef struct dvpy_reading {
    dv_param *params;
    size_t n;
    dv_diag *diag;
} dvpy_reading;

// Begins to read. Returns 0 with an exception, if that is not possible.
int dvpy_reading_begin(dvpy_reading *r, PyObject *dict);
// Ends it: frees what it had, and returns the object, or raises the error of
// `st` and releases the object, which may be NULL.
PyObject *dvpy_reading_end(dvpy_reading *r, PyObject *made, dv_status st);
// A program of a model, which lives as long as it.
PyObject *dvpy_program_of_model(const dv_program *p, PyObject *model);

// The options of a plan, and the memory that they point to.
typedef struct dvpy_plan_options {
    dv_plan_options o;
    PyObject *keep; // a list of texts
    void *lists[8];
    int n_lists;
} dvpy_plan_options;

int dvpy_plan_options_read(dvpy_plan_options *out, PyObject *dict);
void dvpy_plan_options_free(dvpy_plan_options *o);
dv_target *dvpy_target_parse(PyObject *text);
PyObject *dvpy_target(PyObject *module, PyObject *name);
PyObject *dvpy_targets(PyObject *module, PyObject *unused);
PyObject *dvpy_plan_make(PyObject *module, PyObject *args);
PyObject *dvpy_plan_parse(PyObject *module, PyObject *args);

// A weight of a model: *data is NULL past the last.
PyObject *dvpy_model_make(PyObject *module, PyObject *args);
const char *dvpy_model_weight(PyObject *model, int i, const void **data);

// -- run.c, place.c -----------------------------------------------------------

PyObject *dvpy_session(PyObject *module, PyObject *args);
PyObject *dvpy_exec(PyObject *module, PyObject *args);
PyObject *dvpy_place(PyObject *module, PyObject *args);

// -- team.c -------------------------------------------------------------------

int dvpy_team_init(PyObject *module);
PyObject *dvpy_team(PyObject *module, PyObject *address);
PyObject *dvpy_rank(PyObject *module, PyObject *args);

#endif
