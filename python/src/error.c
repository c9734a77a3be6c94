// Failures of the library as exceptions.
//
// divvy.Error is the class of all of them; it has the attributes `status`,
// `file`, `line`, `column` and `message`, and its text is the message with
// file, line, column and caret. Its subclasses are also the exceptions of
// Python that numpy's users expect:
//
//   InputError(Error, ValueError)  a text, shape or size is wrong
//   DtypeError(Error, TypeError)   element types do not fit
//   SystemError(Error, OSError)    a file or the operating system failed
#include "divvy_py.h"
#include <stdarg.h>
#include <string.h>

static PyObject *error, *input_error, *dtype_error, *system_error;

static PyObject *make_class(PyObject *module, const char *name, PyObject *base,
                            PyObject *also, const char *doc)
{
    char full[64];
    PyOS_snprintf(full, sizeof full, "divvy.%s", name);
    PyObject *bases =
        also ? PyTuple_Pack(2, base, also) : PyTuple_Pack(1, base);
    if (!bases)
        return NULL;
    PyObject *type = PyErr_NewExceptionWithDoc(full, doc, bases, NULL);
    Py_DECREF(bases);
    if (type && PyModule_AddObjectRef(module, name, type) < 0)
        Py_CLEAR(type);
    return type;
}

int dvpy_error_init(PyObject *module)
{
    error =
        make_class(module, "Error", PyExc_Exception, NULL,
                   "A failure of divvy.\n\n"
                   "status   its kind, as 'syntax'\n"
                   "message  one line\n"
                   "file, line, column  its position; None, 0 and 0 without "
                   "one");
    if (!error)
        return -1;
    input_error = make_class(module, "InputError", error, PyExc_ValueError,
                             "Texts, shapes or options are wrong.");
    dtype_error = make_class(module, "DtypeError", error, PyExc_TypeError,
                             "Element types do not fit.");
    system_error = make_class(module, "SystemError", error, PyExc_OSError,
                              "A file cannot be used, or the system refused.");
    return input_error && dtype_error && system_error ? 0 : -1;
}

static PyObject *class_of(dv_status s)
{
    switch (s) {
    case DV_E_DTYPE:
        return dtype_error;
    case DV_E_FILE:
    case DV_E_OUTPUT:
    case DV_E_SYSTEM:
        return system_error;
    case DV_E_CANCELLED:
    case DV_E_CHECK:
    case DV_E_VERIFY:
        return error;
    default:
        return input_error;
    }
}

static PyObject *decode(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

// Sets an exception with the attributes of Error. `file` may be NULL.
static PyObject *set(dv_status s, const char *text, const char *message,
                     const char *file, int line, int column)
{
    PyObject *type = class_of(s);
    size_t len = strlen(text);
    while (len && text[len - 1] == '\n')
        len--;
    PyObject *words = PyUnicode_DecodeUTF8(text, (Py_ssize_t)len, "replace");
    PyObject *e =
        words ? PyObject_CallFunctionObjArgs(type, words, NULL) : NULL;
    Py_XDECREF(words);
    if (!e)
        return NULL;
    static const char *const names[] = {"status", "message", "file", "line",
                                        "column"};
    PyObject *values[] = {decode(dv_status_name(s)), decode(message),
                          file ? decode(file) : Py_NewRef(Py_None),
                          PyLong_FromLong(line), PyLong_FromLong(column)};
    int ok = 1;
    for (int i = 0; i < 5; i++) {
        ok = ok && values[i] &&
             PyObject_SetAttrString(e, names[i], values[i]) == 0;
        Py_XDECREF(values[i]);
    }
    if (ok)
        PyErr_SetObject(type, e);
    Py_DECREF(e);
    return NULL;
}

PyObject *dvpy_raise(dv_diag *diag)
{
    if (PyErr_Occurred())
        return NULL;
    dv_status s = dv_diag_status(diag);
    if (s == DV_E_NOMEM)
        return PyErr_NoMemory();
    return set(s, dv_diag_text(diag), dv_diag_message(diag), dv_diag_file(diag),
               dv_diag_line(diag), dv_diag_column(diag));
}

PyObject *dvpy_fail(dv_status status, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    PyOS_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return set(status, text, text, NULL, 0, 0);
}
