/* The compiled twins of columns_plain.py: record batches to columns in Arrow's layout, and back. Plain C against
 * the limited API of Python 3.11, so that one binary serves every later Python.
 *
 * This file has the module and the way in for columns; the work is done in columns_checksum.c,
 * columns_decode.c, columns_encode.c, columns_route.c and columns_run.c.
 */

#include "columns.h"

#include <stdlib.h>

#include "../twin.h"

static int open_validity(PyObject *given, int64_t slots, const char *what, Py_buffer *buffer, const uint8_t **bits)
{
    *bits = NULL;
    if (given == Py_None)
        return 1;
    if (PyObject_GetBuffer(given, buffer, PyBUF_SIMPLE) < 0)
        return 0;
    *bits = buffer->buf;
    if (buffer->len < (slots + 7) / 8) {
        PyErr_Format(PyExc_ValueError, "the validity bitmap of the %s column ends before its rows", what);
        return 0;
    }
    return 1;
}

/* Slots behind `start` that are looked at; 0 and an error if these are no numbers of rows. */
static int check_extent(int64_t start, int64_t rows, const char *what)
{
    if (start >= 0 && rows >= 0 && start <= INT64_MAX / 16 - rows)
        return 1;
    PyErr_Format(PyExc_ValueError, "the %s column has no %lld rows from slot %lld on", what, (long long)rows,
                 (long long)start);
    return 0;
}

int open_binary(PyObject *given, int64_t rows, const char *what, binary_source *source)
{
    PyObject *offsets, *data, *validity;
    long long start;
    *source = (binary_source){0};
    if (!PyTuple_Check(given)) {
        PyErr_Format(PyExc_TypeError, "the %s column should be a tuple", what);
        return 0;
    }
    if (!PyArg_ParseTuple(given, "OOOLp", &offsets, &data, &validity, &start, &source->wide))
        return 0;
    if (!check_extent(start, rows, what))
        return 0;
    source->open = 1;
    source->start = start;
    if (PyObject_GetBuffer(offsets, &source->offsets_buffer, PyBUF_SIMPLE) < 0 ||
        PyObject_GetBuffer(data, &source->data_buffer, PyBUF_SIMPLE) < 0)
        return 0;
    source->offsets = source->offsets_buffer.buf;
    source->data = source->data_buffer.buf;
    source->data_bytes = source->data_buffer.len;
    if (rows && source->offsets_buffer.len < (start + rows + 1) * (source->wide ? 8 : 4)) {
        PyErr_Format(PyExc_ValueError, "the offsets of the %s column end before its rows", what);
        return 0;
    }
    return open_validity(validity, rows ? start + rows : 0, what, &source->validity_buffer, &source->validity);
}

int open_numbers(PyObject *given, int64_t rows, int width, const char *what, number_source *source)
{
    PyObject *numbers, *validity;
    long long start;
    *source = (number_source){0};
    if (!PyTuple_Check(given)) {
        PyErr_Format(PyExc_TypeError, "the %s column should be a tuple", what);
        return 0;
    }
    if (!PyArg_ParseTuple(given, "OOL", &numbers, &validity, &start))
        return 0;
    if (!check_extent(start, rows, what))
        return 0;
    source->open = 1;
    source->start = start;
    if (PyObject_GetBuffer(numbers, &source->numbers_buffer, PyBUF_SIMPLE) < 0)
        return 0;
    source->numbers = source->numbers_buffer.buf;
    if (source->numbers_buffer.len < (start + rows) * width) {
        PyErr_Format(PyExc_ValueError, "the numbers of the %s column end before its rows", what);
        return 0;
    }
    return open_validity(validity, rows ? start + rows : 0, what, &source->validity_buffer, &source->validity);
}

/* Releasing a buffer that was never filled does nothing: its object is NULL. */
void close_binary(binary_source *source)
{
    if (!source->open)
        return;
    PyBuffer_Release(&source->offsets_buffer);
    PyBuffer_Release(&source->data_buffer);
    PyBuffer_Release(&source->validity_buffer);
}

void close_numbers(number_source *source)
{
    if (!source->open)
        return;
    PyBuffer_Release(&source->numbers_buffer);
    PyBuffer_Release(&source->validity_buffer);
}

static PyMethodDef methods[] = {
    {"decode_columns", (PyCFunction)(void (*)(void))everlog_decode_columns, METH_FASTCALL,
     "decode_columns(spans[, owners]) -> the columns' buffers, or the number of the first span that is bad"},
    {"encode_rows", (PyCFunction)(void (*)(void))everlog_encode_rows, METH_FASTCALL,
     "encode_rows(rows, key, value, headers, timestamps, now, order, first, stop, max_bytes, room)"
     " -> (section, next, base_timestamp, max_timestamp)"},
    {"find_run", (PyCFunction)(void (*)(void))everlog_find_run, METH_FASTCALL,
     "find_run(data, start, max_bytes) -> (begin, end, batches, next_offset, leader_epoch), or None"},
    {"join_checksums", (PyCFunction)(void (*)(void))everlog_join_checksums, METH_FASTCALL,
     "join_checksums(first, second, second_bytes) -> the checksum of both pieces, one behind the other"},
    {"route_rows", (PyCFunction)(void (*)(void))everlog_route_rows, METH_FASTCALL,
     "route_rows(rows, key, given, partition_count, keyless, run_rows, run_at) -> (order, starts, run_at)"},
    {"run_is_whole", everlog_run_is_whole, METH_O, "run_is_whole(data) -> whether the checksums of all batches hold"},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module)
{
    (void)module;
    return everlog_twin_wanted() < 0 ? -1 : everlog_prepare_runs();
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)prepare},
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "everlog.records._columns",
    .m_doc = "Compiled twins of columns_plain.py; see there for what they promise.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__columns(void)
{
    return PyModuleDef_Init(&definition);
}
