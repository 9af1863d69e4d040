/* The compiled twins of what touches every record. Plain C against the limited API of Python 3.11, so
 * that one binary serves every later Python.
 *
 * skim() is the twin of skim_plainly() in skim.py, which is the reference: any bytes that one refuses
 * the other refuses, at the same record. Only the reference says why; here a bad record is a position.
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>

#include "varint.h"
#include "../twin.h"

/* Below this many bytes, handing the interpreter lock over costs more than the pass itself. */
#define UNLOCK_BYTES (256 * 1024)

typedef struct {
    int64_t max_timestamp;
    int64_t max_delta; /* offset delta of the first record with max_timestamp; -1 without records */
    int64_t bad;       /* number of the first bad record, `count` for bytes left over; -1 if all is well */
    Py_ssize_t bad_at; /* where that record begins */
    int null_keys;
} skim_result;

/* Step over a length and as many bytes; -1 stands for null and is no error if `nullable`. */
static inline int step_over(const uint8_t **at, const uint8_t *end, int nullable, int *null)
{
    int64_t length;
    if (!read_varint(at, end, 32, &length))
        return 0;
    if (length < 0) {
        *null = 1;
        return nullable && length == -1;
    }
    if (length > end - *at)
        return 0;
    *at += length;
    return 1;
}

/* Check the record at *at, which should be number `index`. Returns 0 if it is bad. */
static int check_record(const uint8_t **at, const uint8_t *end, int64_t index, int64_t *timestamp_delta,
                        int *null_key)
{
    const uint8_t *p = *at;
    int64_t size, offset_delta, headers;
    int ignored;
    if (!read_varint(&p, end, 32, &size) || size < 1 || size > end - p)
        return 0;
    const uint8_t *record_end = p + size;
    p++; /* attributes, unused */
    /* Nothing inside may reach beyond the record's own end, so that is the bound from here on. */
    if (!read_varint(&p, record_end, 64, timestamp_delta))
        return 0;
    if (!read_varint(&p, record_end, 32, &offset_delta) || offset_delta != index)
        return 0;
    if (!step_over(&p, record_end, 1, null_key) || !step_over(&p, record_end, 1, &ignored))
        return 0;
    if (!read_varint(&p, record_end, 32, &headers) || headers < 0 || headers > record_end - p)
        return 0;
    for (; headers > 0; headers--)
        if (!step_over(&p, record_end, 0, &ignored) || !step_over(&p, record_end, 1, &ignored))
            return 0;
    *at = p;
    return p == record_end;
}

/* Pass over a record of the kind that nearly all are, without a loop: a size of at most two bytes, a
 * timestamp and an offset delta of at most three, key and value lengths of at most two, no headers. Returns 0
 * and changes nothing if it is of another kind or bad: check_record() then finds out which. */
static inline int pass_common_record(const uint8_t **at, const uint8_t *end, int64_t index,
                                     int64_t *timestamp_delta, int *null_key)
{
    const uint8_t *p = *at;
    int key_is_null = 0;
    /* What is looked at before the lengths of key and value lies within this many bytes. */
    if (end - p < 16 || index >= 1 << 20)
        return 0;
    uint32_t size = p[0];
    p++;
    if (size >= 0x80) {
        if (p[0] >= 0x80)
            return 0;
        size = (size & 0x7F) | (uint32_t)p[0] << 7;
        p++;
    }
    const uint8_t *record_end = p + (size >> 1);
    if (size & 1 || record_end > end)
        return 0;
    p++; /* attributes, unused */
    uint32_t raw = p[0];
    p++;
    if (raw >= 0x80) {
        raw = (raw & 0x7F) | (uint32_t)(p[0] & 0x7F) << 7;
        if (p[0] >= 0x80) {
            if (p[1] >= 0x80)
                return 0;
            raw |= (uint32_t)p[1] << 14;
            p++;
        }
        p++;
    }
    uint32_t zigzag = (uint32_t)index << 1;
    if (zigzag < 0x80) {
        if (p[0] != zigzag)
            return 0;
        p++;
    } else if (zigzag < 1 << 14) {
        if (p[0] != (0x80 | (zigzag & 0x7F)) || p[1] != zigzag >> 7)
            return 0;
        p += 2;
    } else {
        if (p[0] != (0x80 | (zigzag & 0x7F)) || p[1] != (0x80 | (zigzag >> 7 & 0x7F)) || p[2] != zigzag >> 14)
            return 0;
        p += 3;
    }
    for (int field = 0; field < 2; field++) {
        if (record_end - p < 2)
            return 0;
        uint32_t length = p[0];
        p++;
        if (length == 1) { /* -1: null */
            if (field == 0)
                key_is_null = 1;
            continue;
        }
        if (length >= 0x80) {
            if (p[0] >= 0x80)
                return 0;
            length = (length & 0x7F) | (uint32_t)p[0] << 7;
            p++;
        }
        if (length & 1 || (Py_ssize_t)(length >> 1) > record_end - p)
            return 0;
        p += length >> 1;
    }
    if (record_end - p != 1 || *p != 0)
        return 0;
    *timestamp_delta = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
    *null_key = key_is_null;
    *at = record_end;
    return 1;
}

static void skim_records(const uint8_t *start, const uint8_t *end, int64_t count, int64_t base_timestamp,
                         skim_result *result)
{
    const uint8_t *at = start;
    *result = (skim_result){.max_timestamp = -1, .max_delta = -1, .bad = -1, .bad_at = -1, .null_keys = 0};
    for (int64_t index = 0; index < count; index++) {
        const uint8_t *record = at;
        int64_t delta = 0, timestamp;
        int null_key = 0;
        if (!(pass_common_record(&at, end, index, &delta, &null_key) ||
              check_record(&at, end, index, &delta, &null_key)) ||
            __builtin_add_overflow(base_timestamp, delta, &timestamp)) {
            result->bad = index;
            result->bad_at = record - start;
            return;
        }
        result->null_keys |= null_key;
        if (result->max_delta < 0 || timestamp > result->max_timestamp) {
            result->max_timestamp = timestamp;
            result->max_delta = index;
        }
    }
    if (at != end || count < 0) {
        result->bad = count < 0 ? 0 : count;
        result->bad_at = at - start;
    }
}

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

/* --- a run of batches */

#define HEADER_BYTES 61

typedef struct {
    int64_t base_timestamp, max_timestamp, producer_id;
    int32_t last_offset_delta, base_sequence, count;
    uint32_t crc;
    int producer_epoch, attributes;
} batch_header;

static inline uint64_t big_endian(const uint8_t *p, int bytes)
{
    uint64_t value = 0;
    for (int at = 0; at < bytes; at++)
        value = value << 8 | p[at];
    return value;
}

static inline void put_big_endian(uint8_t *p, uint64_t value, int bytes)
{
    while (bytes--) {
        p[bytes] = (uint8_t)value;
        value >>= 8;
    }
}

/* Check one batch as validate.py does, its checksum left out. Returns 0 if it is bad or of a rarer kind:
 * compressed, transactional, with a timestamp of the log's, or with a largest timestamp that is not its own. */
static int check_batch(const uint8_t *p, Py_ssize_t size, batch_header *header, int *null_keys)
{
    if (size < HEADER_BYTES || big_endian(p, 8) != 0 || (int64_t)big_endian(p + 8, 4) != size - 12 || p[16] != 2)
        return 0;
    header->crc = (uint32_t)big_endian(p + 17, 4);
    header->attributes = (int)big_endian(p + 21, 2);
    header->last_offset_delta = (int32_t)big_endian(p + 23, 4);
    header->base_timestamp = (int64_t)big_endian(p + 27, 8);
    header->max_timestamp = (int64_t)big_endian(p + 35, 8);
    header->producer_id = (int64_t)big_endian(p + 43, 8);
    header->producer_epoch = (int16_t)big_endian(p + 51, 2);
    header->base_sequence = (int32_t)big_endian(p + 53, 4);
    header->count = (int32_t)big_endian(p + 57, 4);
    if (header->attributes || header->count <= 0 || header->last_offset_delta != header->count - 1)
        return 0;
    if (header->producer_id >= 0 && (header->base_sequence < 0 || header->producer_epoch < 0))
        return 0;
    skim_result found;
    skim_records(p + HEADER_BYTES, p + size, header->count, header->base_timestamp, &found);
    *null_keys |= found.null_keys;
    return found.bad < 0 && found.max_timestamp == header->max_timestamp;
}

/* A tuple of integers; what Py_BuildValue makes too, in a third of the time. NULL with an error set. */
static PyObject *tuple_of_numbers(const int64_t *numbers, Py_ssize_t count)
{
    PyObject *made = PyTuple_New(count);
    for (Py_ssize_t at = 0; made && at < count; at++) {
        PyObject *number = PyLong_FromLongLong(numbers[at]);
        if (!number || PyTuple_SetItem(made, at, number) < 0)
            Py_CLEAR(made);
    }
    return made;
}

/* Returns 0 with an error set if it is not a tuple of two numbers. */
static int read_span(PyObject *span, Py_ssize_t *start, Py_ssize_t *end)
{
    if (!PyTuple_Check(span) || PyTuple_Size(span) != 2) {
        PyErr_SetString(PyExc_TypeError, "a span is a tuple of where it begins and ends");
        return 0;
    }
    *start = PyLong_AsSsize_t(PyTuple_GetItem(span, 0));
    *end = PyLong_AsSsize_t(PyTuple_GetItem(span, 1));
    return !PyErr_Occurred();
}

static PyObject *check_run(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 2 || !PyTuple_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "check_run() takes data and a tuple of spans");
        return NULL;
    }
    Py_ssize_t count = PyTuple_Size(args[1]);
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[0], &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *headers = PyTuple_New(count);
    int null_keys = 0;
    int64_t records = 0, max_timestamp = -1, producer_id = -1;
    int producer_epoch = -1;
    int32_t first_sequence = -1, next_sequence = -1;
    Py_ssize_t size = 0, largest = 0;
    for (Py_ssize_t at = 0; headers && at < count; at++) {
        Py_ssize_t start, end;
        batch_header header;
        PyObject *one = NULL;
        if (read_span(PyTuple_GetItem(args[1], at), &start, &end)) {
            if (start < 0 || end < start || end > buffer.len)
                PyErr_Format(PyExc_ValueError, "no bytes from %zd to %zd in %zd", start, end, buffer.len);
            else if (check_batch((const uint8_t *)buffer.buf + start, end - start, &header, &null_keys)) {
                if (at == 0) {
                    producer_id = header.producer_id;
                    producer_epoch = header.producer_epoch;
                    first_sequence = next_sequence = header.base_sequence;
                }
                if (header.producer_id == producer_id &&
                    (producer_id < 0 || (header.producer_epoch == producer_epoch && header.base_sequence == next_sequence)))
                    one = tuple_of_numbers((int64_t[]){header.crc, header.last_offset_delta, header.max_timestamp,
                                                       header.base_sequence, start, end},
                                           6);
            }
        }
        if (!one) {
            Py_CLEAR(headers);
            break;
        }
        PyTuple_SetItem(headers, at, one);
        next_sequence = (int32_t)(((uint32_t)header.base_sequence + (uint32_t)header.count) & 0x7FFFFFFF);
        records += header.count;
        size += end - start;
        if (end - start > largest)
            largest = end - start;
        if (header.max_timestamp > max_timestamp)
            max_timestamp = header.max_timestamp;
    }
    PyBuffer_Release(&buffer);
    if (PyErr_Occurred()) {
        Py_XDECREF(headers);
        return NULL;
    }
    if (!headers)
        Py_RETURN_NONE;
    PyObject *run = tuple_of_numbers((int64_t[]){0, 0, records, max_timestamp, size, largest, producer_id,
                                                 producer_epoch, first_sequence},
                                     9);
    if (!run || PyTuple_SetItem(run, 1, PyBool_FromLong(null_keys)) < 0) {
        Py_XDECREF(run);
        Py_DECREF(headers);
        return NULL;
    }
    PyTuple_SetItem(run, 0, headers);
    return run;
}

static PyObject *stamp_run(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 4 || !PyTuple_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "stamp_run() takes data, a tuple of spans, base offset and epoch");
        return NULL;
    }
    int64_t base_offset = PyLong_AsLongLong(args[2]);
    if (base_offset == -1 && PyErr_Occurred())
        return NULL;
    long epoch = PyLong_AsLong(args[3]);
    if (epoch == -1 && PyErr_Occurred())
        return NULL;
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[0], &buffer, PyBUF_WRITABLE) < 0)
        return NULL;
    Py_ssize_t count = PyTuple_Size(args[1]);
    for (Py_ssize_t at = 0; at < count; at++) {
        Py_ssize_t start, end;
        if (!read_span(PyTuple_GetItem(args[1], at), &start, &end))
            break;
        if (start < 0 || end - start < HEADER_BYTES || end > buffer.len) {
            PyErr_Format(PyExc_ValueError, "no batch from %zd to %zd in %zd", start, end, buffer.len);
            break;
        }
        uint8_t *p = (uint8_t *)buffer.buf + start;
        put_big_endian(p, (uint64_t)base_offset, 8);
        put_big_endian(p + 12, (uint64_t)epoch, 4);
        base_offset += (int64_t)big_endian(p + 23, 4) + 1;
    }
    PyBuffer_Release(&buffer);
    if (PyErr_Occurred())
        return NULL;
    return PyLong_FromLongLong(base_offset);
}
/* In kernel_keys.c. */
PyObject *everlog_add_keys(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *everlog_sift_records(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

static PyMethodDef methods[] = {
    {"check_run", (PyCFunction)(void (*)(void))check_run, METH_FASTCALL,
     "check_run(data, spans) -> (headers, null_keys, records, max_timestamp, size, largest, producer_id,"
     " producer_epoch, first_sequence) or None"},
    {"stamp_run", (PyCFunction)(void (*)(void))stamp_run, METH_FASTCALL,
     "stamp_run(data, spans, base_offset, leader_epoch) -> the offset behind the run"},
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
    .m_doc = "Compiled twins of skim.py; see there for what they promise.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__kernel(void)
{
    return PyModuleDef_Init(&definition);
}
