// The table of functions of _divvy, and how the module is initialised.
#include "divvy_py.h"

static PyObject *version(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(dv_version());
}

#define EINSUM_DOC                                                             \
    "einsum(subscripts, *operands, out=None, optimize=True)\n--\n\n"           \
    "Sums over products of arrays, written as for numpy.einsum.\n\n"           \
    "The cheapest order of the products is found, and kernels are generated\n" \
    "for the types, shapes and strides of the operands when they are first\n"  \
    "seen. The result is an array of the kind of the first operand.\n\n"       \
    ">>> import array, divvy\n"                                                \
    ">>> a = array.array('d', [1, 2, 3])\n"                                    \
    ">>> memoryview(divvy.einsum('i,j->ij', a, a)).tolist()\n"                 \
    "[[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, 6.0, 9.0]]\n\n"                  \
    "subscripts  as 'ij,jk->ik', '...ij,...jk', 'ii' (its sum); or operands\n" \
    "            and lists of numbers in turn: einsum(a, [0, 1], b, [1, 2])\n" \
    "out         an array that the result is written to, and returned\n"       \
    "optimize    True or False: the order is searched for; 'optimal',\n"       \
    "            'greedy', or a path of einsum_path\n"                         \
    "dtype, order, casting  as for numpy.einsum; they need numpy"

static PyMethodDef functions[] = {
    {"version", version, METH_NOARGS, "The version of the library."},
    {"asarray", dvpy_asarray, METH_O,
     "asarray(array)\n--\n\nA divvy.Array with the memory of another array."},
    {"einsum", (PyCFunction)(void (*)(void))dvpy_einsum,
     METH_FASTCALL | METH_KEYWORDS, EINSUM_DOC},
    {"einsum_json", dvpy_einsum_json, METH_VARARGS,
     "einsum_json(search, limit, text, *operands)\n--\n\n"
     "The order of the products as a table and as JSON."},
    {"program", dvpy_program_make, METH_VARARGS,
     "program(text, name, params)\n--\n\nA program, as a text or a file."},
    {"onnx", dvpy_model_make, METH_VARARGS,
     "onnx(path, params)\n--\n\nAn ONNX model."},
    {"target", dvpy_target, METH_O,
     "target(name)\n--\n\nThe text of a target with this name or file."},
    {"targets", dvpy_targets, METH_NOARGS, "The names of built-in targets."},
    {"plan", dvpy_plan_make, METH_VARARGS,
     "plan(program, target, options, progress)\n--\n\nA plan."},
    {"plan_parse", dvpy_plan_parse, METH_VARARGS,
     "plan_parse(text, name, start_at, options, progress)\n--\n\nA plan."},
    {"session", dvpy_session, METH_VARARGS,
     "session(program, target, options, capacity)\n--\n\nRuns a program."},
    {"exec", dvpy_exec, METH_VARARGS,
     "exec(plan, model, executor)\n--\n\nRuns a plan."},
    {"place", dvpy_place, METH_VARARGS,
     "place(buffers, capacity, align, solver, budget, time_limit, seed, evict, "
     "must_fit)\n--\n\nPlaces buffers."},
    {"team", dvpy_team, METH_O,
     "team(address)\n--\n\nA team, of an MPI_Comm at this address."},
    {"rank", dvpy_rank, METH_VARARGS,
     "rank(plan, address, threads, timeout_s)\n--\n\nRuns a plan of a team."},
    {0}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        .m_name = "divvy._divvy", .m_size = -1,
                                        .m_methods = functions};

PyMODINIT_FUNC PyInit__divvy(void);

PyMODINIT_FUNC PyInit__divvy(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    if (dvpy_error_init(module) < 0 || dvpy_array_init(module) < 0 ||
        dvpy_einsum_init(module) < 0 || dvpy_program_init(module) < 0 ||
        dvpy_plan_init(module) < 0 || dvpy_model_init(module) < 0 ||
        dvpy_run_init(module) < 0 || dvpy_team_init(module) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
