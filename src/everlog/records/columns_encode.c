/* Rows of columns to the records of one batch, as builder.py makes them. */

#include "columns.h"

#define LARGEST_RECORD INT32_MAX

typedef struct {
    Py_buffer offsets_buffer, validity_buffer;
    const uint8_t *offsets, *validity;
    int64_t start, entries;
    int wide, open;
    binary_source names, contents;
} header_source;

typedef struct {
    int64_t rows;
    binary_source key, value;
    header_source headers;
    number_source timestamps;
    int64_t now; /* for rows without a timestamp */
} row_source;

/* One row, found but not yet written. */
typedef struct {
    const uint8_t *key, *value;
    int64_t key_bytes, value_bytes, timestamp, first_header, last_header;
    int64_t size_bytes; /* what is written for it, without the size in front */
} row;

enum { FITS, FULL, OUTSIDE, NO_NAME, TOO_LARGE };

static inline int varint_bytes(int64_t value)
{
    uint64_t raw = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    return (63 - __builtin_clzll(raw | 1)) / 7 + 1;
}

static inline uint8_t *put_varint(uint8_t *to, int64_t value)
{
    uint64_t raw = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    while (raw > 0x7F) {
        *to++ = (uint8_t)(raw | 0x80);
        raw >>= 7;
    }
    *to++ = (uint8_t)raw;
    return to;
}

static inline int64_t field_bytes(int64_t bytes)
{
    return bytes < 0 ? 1 : varint_bytes(bytes) + bytes;
}

static inline uint8_t *put_field(uint8_t *to, const uint8_t *field, int64_t bytes)
{
    to = put_varint(to, bytes);
    if (bytes > 0) {
        memcpy(to, field, (size_t)bytes);
        to += bytes;
    }
    return to;
}

/* Find the headers of a row and add what they take; as weigh_row(). */
static int weigh_headers(const header_source *source, int64_t number, row *found)
{
    int64_t slot = source->start + number;
    found->first_header = found->last_header = 0;
    if (source->open && !(source->validity && !bit_is_set(source->validity, slot))) {
        found->first_header = load_offset(source->offsets, slot, source->wide);
        found->last_header = load_offset(source->offsets, slot + 1, source->wide);
        if (found->first_header < 0 || found->last_header < found->first_header ||
            found->last_header > source->entries)
            return OUTSIDE;
    }
    found->size_bytes += varint_bytes(found->last_header - found->first_header);
    for (int64_t at = found->first_header; at < found->last_header; at++) {
        const uint8_t *field;
        int64_t name_bytes, bytes;
        if (!field_at(&source->names, at, &field, &name_bytes) || !field_at(&source->contents, at, &field, &bytes))
            return OUTSIDE;
        if (name_bytes < 0)
            return NO_NAME;
        found->size_bytes += field_bytes(name_bytes) + field_bytes(bytes);
        if (found->size_bytes > LARGEST_RECORD)
            return TOO_LARGE;
    }
    return FITS;
}

/* Find a row and what it takes. Its size depends on its place in the batch, and on the first timestamp there. */
static inline int weigh_row(const row_source *source, int64_t number, int64_t index, int64_t base_timestamp,
                            row *found)
{
    found->key_bytes = found->value_bytes = -1;
    if (source->key.open && !field_at(&source->key, number, &found->key, &found->key_bytes))
        return OUTSIDE;
    if (source->value.open && !field_at(&source->value, number, &found->value, &found->value_bytes))
        return OUTSIDE;
    const number_source *timestamps = &source->timestamps;
    found->timestamp = source->now;
    if (timestamps->open && !(timestamps->validity && !bit_is_set(timestamps->validity, timestamps->start + number)))
        found->timestamp = load_int64(timestamps->numbers, timestamps->start + number);
    if (index == 0)
        base_timestamp = found->timestamp;
    int64_t delta;
    if (__builtin_sub_overflow(found->timestamp, base_timestamp, &delta))
        return OUTSIDE;
    if (found->key_bytes > LARGEST_RECORD || found->value_bytes > LARGEST_RECORD)
        return TOO_LARGE;
    found->size_bytes =
        1 + varint_bytes(delta) + varint_bytes(index) + field_bytes(found->key_bytes) + field_bytes(found->value_bytes);
    int outcome = weigh_headers(&source->headers, number, found);
    if (outcome == FITS && found->size_bytes > LARGEST_RECORD)
        return TOO_LARGE;
    return outcome;
}

static inline uint8_t *put_row(uint8_t *to, const row_source *source, const row *found, int64_t index,
                               int64_t base_timestamp)
{
    to = put_varint(to, found->size_bytes);
    *to++ = 0; /* attributes, unused */
    to = put_varint(to, found->timestamp - base_timestamp);
    to = put_varint(to, index);
    to = put_field(to, found->key, found->key_bytes);
    to = put_field(to, found->value, found->value_bytes);
    to = put_varint(to, found->last_header - found->first_header);
    for (int64_t at = found->first_header; at < found->last_header; at++) {
        const uint8_t *field = NULL;
        int64_t bytes = 0;
        field_at(&source->headers.names, at, &field, &bytes);
        to = put_field(to, field, bytes);
        field_at(&source->headers.contents, at, &field, &bytes);
        to = put_field(to, field, bytes);
    }
    return to;
}

typedef struct {
    uint8_t *data;
    Py_ssize_t used, capacity;
    int64_t at; /* the next row, as a place in the order */
    int64_t base_timestamp, max_timestamp;
} section;

/* Write rows from out->at up to `stop` while they fit; FITS when all are written. */
static int put_rows(const row_source *source, const uint8_t *order, int64_t stop, section *out)
{
    for (int64_t index = 0; out->at < stop; index++, out->at++) {
        int64_t number = order ? load_int32(order, out->at) : out->at;
        if (number < 0 || number >= source->rows)
            return OUTSIDE;
        row found;
        int outcome = weigh_row(source, number, index, out->base_timestamp, &found);
        if (outcome != FITS)
            return outcome;
        if (varint_bytes(found.size_bytes) + found.size_bytes > out->capacity - out->used || index == INT32_MAX)
            return FULL;
        if (index == 0)
            out->base_timestamp = out->max_timestamp = found.timestamp;
        else if (found.timestamp > out->max_timestamp)
            out->max_timestamp = found.timestamp;
        out->used = put_row(out->data + out->used, source, &found, index, out->base_timestamp) - out->data;
    }
    return FITS;
}

static int open_headers(PyObject *given, int64_t rows, header_source *source)
{
    PyObject *offsets, *validity, *names, *contents;
    long long start, entries;
    if (!PyTuple_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "the headers column should be a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(given, "OOLpLOO", &offsets, &validity, &start, &source->wide, &entries, &names, &contents))
        return 0;
    if (start < 0 || entries < 0 || start > INT64_MAX / 16 - rows) {
        PyErr_SetString(PyExc_ValueError, "the headers column has no such rows");
        return 0;
    }
    source->open = 1;
    source->start = start;
    source->entries = entries;
    if (PyObject_GetBuffer(offsets, &source->offsets_buffer, PyBUF_SIMPLE) < 0)
        return 0;
    source->offsets = source->offsets_buffer.buf;
    if (validity != Py_None) {
        if (PyObject_GetBuffer(validity, &source->validity_buffer, PyBUF_SIMPLE) < 0)
            return 0;
        source->validity = source->validity_buffer.buf;
    }
    if (rows && (source->offsets_buffer.len < (start + rows + 1) * (source->wide ? 8 : 4) ||
                 (source->validity && source->validity_buffer.len < (start + rows + 7) / 8))) {
        PyErr_SetString(PyExc_ValueError, "the offsets of the headers column end before its rows");
        return 0;
    }
    return open_binary(names, entries, "header name", &source->names) &&
           open_binary(contents, entries, "header value", &source->contents);
}

static void close_rows(row_source *source)
{
    close_binary(&source->key);
    close_binary(&source->value);
    close_numbers(&source->timestamps);
    PyBuffer_Release(&source->headers.offsets_buffer);
    PyBuffer_Release(&source->headers.validity_buffer);
    close_binary(&source->headers.names);
    close_binary(&source->headers.contents);
}

static PyObject *refused(int outcome, int64_t number)
{
    const char *why = outcome == NO_NAME ? "a header has no name"
                      : outcome == TOO_LARGE ? "it takes more than 2 GiB"
                                             : "its columns point outside their data";
    PyErr_Format(PyExc_ValueError, "row %lld: %s", (long long)number, why);
    return NULL;
}

/* Bytes to set aside: a row that is alone in its batch is as large as it is. */
static int room_for(const row_source *source, const uint8_t *order, int64_t first, int64_t *bytes, int64_t *number)
{
    row found;
    *number = order ? load_int32(order, first) : first;
    if (*number < 0 || *number >= source->rows)
        return OUTSIDE;
    int outcome = weigh_row(source, *number, 0, 0, &found);
    if (outcome == FITS && varint_bytes(found.size_bytes) + found.size_bytes > *bytes)
        *bytes = varint_bytes(found.size_bytes) + found.size_bytes;
    return outcome;
}

/* `room` bytes are left free in front of the records, for a header. */
static PyObject *encode(const row_source *source, const uint8_t *order, int64_t first, int64_t stop,
                        int64_t max_bytes, int64_t room)
{
    section out = {.at = first, .base_timestamp = -1, .max_timestamp = -1};
    int64_t capacity = max_bytes, number;
    int outcome = room_for(source, order, first, &capacity, &number);
    if (outcome != FITS)
        return refused(outcome, number);
    PyObject *owner = PyByteArray_FromStringAndSize(NULL, room + capacity);
    if (!owner)
        return NULL;
    out.data = (uint8_t *)PyByteArray_AsString(owner) + room;
    memset(out.data - room, 0, (size_t)room);
    out.capacity = capacity;
    if (capacity >= UNLOCK_BYTES) {
        Py_BEGIN_ALLOW_THREADS
        outcome = put_rows(source, order, stop, &out);
        Py_END_ALLOW_THREADS
    } else
        outcome = put_rows(source, order, stop, &out);
    if (outcome != FITS && outcome != FULL) {
        Py_DECREF(owner);
        return refused(outcome, order ? load_int32(order, out.at) : out.at);
    }
    if (PyByteArray_Resize(owner, room + out.used) < 0) {
        Py_DECREF(owner);
        return NULL;
    }
    return Py_BuildValue("NLLL", owner, (long long)out.at, (long long)out.base_timestamp,
                         (long long)out.max_timestamp);
}

PyObject *everlog_encode_rows(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 11) {
        PyErr_SetString(PyExc_TypeError, "encode_rows() takes rows, key, value, headers, timestamps, now, order, "
                                         "first, stop, max_bytes and room");
        return NULL;
    }
    row_source source = {.rows = PyLong_AsLongLong(args[0])};
    source.now = PyLong_AsLongLong(args[5]);
    int64_t first = PyLong_AsLongLong(args[7]), stop = PyLong_AsLongLong(args[8]);
    int64_t max_bytes = PyLong_AsLongLong(args[9]), room = PyLong_AsLongLong(args[10]);
    if (PyErr_Occurred())
        return NULL;
    Py_buffer order = {0};
    PyObject *result = NULL;
    if ((args[1] == Py_None || open_binary(args[1], source.rows, "key", &source.key)) &&
        (args[2] == Py_None || open_binary(args[2], source.rows, "value", &source.value)) &&
        (args[3] == Py_None || open_headers(args[3], source.rows, &source.headers)) &&
        (args[4] == Py_None || open_numbers(args[4], source.rows, 8, "timestamp", &source.timestamps)) &&
        (args[6] == Py_None || PyObject_GetBuffer(args[6], &order, PyBUF_SIMPLE) == 0)) {
        if (first < 0 || stop <= first || stop > (args[6] == Py_None ? source.rows : order.len / 4) ||
            max_bytes < 0 || max_bytes > INT64_MAX / 2 || room < 0 || room > 4096)
            PyErr_Format(PyExc_ValueError, "no rows from %lld to %lld", (long long)first, (long long)stop);
        else
            result = encode(&source, order.buf, first, stop, max_bytes, room);
    }
    close_rows(&source);
    PyBuffer_Release(&order);
    return result;
}
