/* The compiled twins of what touches every record. Plain C against the limited API of Python 3.11, so
 * that one binary serves every later Python. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>

#include "batch_check.h"
#include "../twin.h"

/* Below this many bytes, handing the interpreter lock over costs more than the pass itself. */
#define UNLOCK_BYTES (256 * 1024)

static PyObject *skim(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "skim() takes records, count and base_timestamp");
        return NULL;
    }
    int64_t count = PyLong_AsLongLong(args[1]);
    if (count == -1 && PyErr_Occurred())
        return NULL;
    int64_t base_timestamp = PyLong_AsLongLong(args[2]);
    if (base_timestamp == -1 && PyErr_Occurred())
        return NULL;
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[0], &buffer, PyBUF_SIMPLE) < 0)
        return NULL;

    skim_result result;
    const uint8_t *start = buffer.buf;
    if (buffer.len >= UNLOCK_BYTES) {
        Py_BEGIN_ALLOW_THREADS
        skim_records(start, start + buffer.len, count, base_timestamp, &result);
        Py_END_ALLOW_THREADS
    } else {
        skim_records(start, start + buffer.len, count, base_timestamp, &result);
    }
    PyBuffer_Release(&buffer);
    return Py_BuildValue("LLOLn", (long long)result.max_timestamp, (long long)result.max_delta,
                         result.null_keys ? Py_True : Py_False, (long long)result.bad, result.bad_at);
}

/* In kernel_keys.c. */
PyObject *everlog_add_keys(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *everlog_sift_records(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* In kernel_crc.c. */
PyObject *everlog_can_fold(PyObject *module, PyObject *ignored);
PyObject *everlog_crc32c(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

static PyMethodDef methods[] = {
    {"can_fold", everlog_can_fold, METH_NOARGS, "can_fold() -> whether crc32c() works on this processor"},
    {"crc32c", (PyCFunction)(void (*)(void))everlog_crc32c, METH_FASTCALL, "crc32c(data, checksum=0) -> checksum"},
    {"skim", (PyCFunction)(void (*)(void))skim, METH_FASTCALL,
     "skim(records, count, base_timestamp) -> (max_timestamp, delta, null_keys, bad, bad_at)"},
    {"add_keys", (PyCFunction)(void (*)(void))everlog_add_keys, METH_FASTCALL,
     "add_keys(table, seed, records, count, base_offset, last_delta, room) -> (taken, added, good)"},
    {"sift_records", (PyCFunction)(void (*)(void))everlog_sift_records, METH_FASTCALL,
     "sift_records(table, seed, records, count, base_offset, last_delta, latest, drop_tombstones, shift)"
     " -> (kept, tombstones, max_delta, section, bad)"},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module)
{
    (void)module;
    return everlog_twin_wanted();
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)prepare},
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "everlog.records._kernel",
    .m_doc = "Compiled twins of skim.py, and of the checksum; see there for what they promise.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__kernel(void)
{
    return PyModuleDef_Init(&definition);
}
