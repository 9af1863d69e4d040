#ifndef EVERLOG_COLUMNS_H
#define EVERLOG_COLUMNS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "varint.h"

/* Below this many bytes, handing the interpreter lock over costs more than the pass itself. */
#define UNLOCK_BYTES (256 * 1024)

/* A column of Arrow's binary layout as records/columns.py hands it over, BinarySource there. */
typedef struct {
    Py_buffer offsets_buffer, data_buffer, validity_buffer;
    const uint8_t *offsets, *data, *validity; /* validity may be NULL: no nulls */
    int64_t start;                            /* the slot of row 0 */
    int64_t data_bytes;
    int wide; /* offsets of 64 bits rather than 32 */
    int open;
} binary_source;

/* A column of 64-bit or 32-bit numbers, NumberSource there. */
typedef struct {
    Py_buffer numbers_buffer, validity_buffer;
    const uint8_t *numbers, *validity;
    int64_t start;
    int open;
} number_source;

int open_binary(PyObject *given, int64_t rows, const char *what, binary_source *source);
int open_numbers(PyObject *given, int64_t rows, int width, const char *what, number_source *source);
void close_binary(binary_source *source);
void close_numbers(number_source *source);

static inline int bit_is_set(const uint8_t *bits, int64_t at)
{
    return bits[at >> 3] >> (at & 7) & 1;
}

/* Arrow asks for aligned buffers but nobody checks; these compile to plain loads. */
static inline int64_t load_int64(const uint8_t *from, int64_t at)
{
    int64_t value;
    memcpy(&value, from + at * 8, 8);
    return value;
}

static inline int32_t load_int32(const uint8_t *from, int64_t at)
{
    int32_t value;
    memcpy(&value, from + at * 4, 4);
    return value;
}

static inline int64_t load_offset(const uint8_t *from, int64_t at, int wide)
{
    return wide ? load_int64(from, at) : load_int32(from, at);
}

/* The bytes of a row: *bytes is -1 where it is null. Returns 0 if the offsets point outside the data. */
static inline int field_at(const binary_source *source, int64_t row, const uint8_t **at, int64_t *bytes)
{
    int64_t slot = source->start + row;
    if (source->validity && !bit_is_set(source->validity, slot)) {
        *bytes = -1;
        return 1;
    }
    int64_t from = load_offset(source->offsets, slot, source->wide);
    int64_t to = load_offset(source->offsets, slot + 1, source->wide);
    if (from < 0 || to < from || to > source->data_bytes)
        return 0;
    *at = source->data + from;
    *bytes = to - from;
    return 1;
}

PyObject *everlog_decode_columns(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *everlog_find_run(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *everlog_join_checksums(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *everlog_encode_rows(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *everlog_route_rows(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

PyObject *everlog_run_is_whole(PyObject *module, PyObject *given);

/* 0, or -1 with an error: to be called once, before the others. */
int everlog_prepare_runs(void);

#endif
