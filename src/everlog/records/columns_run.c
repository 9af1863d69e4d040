/* Plain batches that lie back to back: how far they reach, and whether their checksums hold. runs.py says more. */

#include "columns.h"
#include "columns_batch.h"

#define CRC_START 21
#define NOT_PLAIN 0x37 /* a codec, a transaction, a marker */
#define TURN_BYTES (1024 * 1024) /* so much is summed up before other threads may have the interpreter */

static PyObject *checksum; /* crc32c, ours or the package's */

int everlog_prepare_runs(void)
{
    PyObject *module = PyImport_ImportModule("everlog.records.crc");
    checksum = module ? PyObject_GetAttrString(module, "crc32c") : NULL;
    Py_XDECREF(module);
    return checksum ? 0 : -1;
}

/* find_run(data, start, max_bytes) -> (begin, end, batches, next_offset, leader_epoch), or None. */
PyObject *everlog_find_run(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "find_run() takes data, start and max_bytes");
        return NULL;
    }
    long long start = PyLong_AsLongLong(args[1]), max_bytes = PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred())
        return NULL;
    Py_buffer data;
    if (PyObject_GetBuffer(args[0], &data, PyBUF_SIMPLE) < 0)
        return NULL;
    const uint8_t *first = data.buf, *end = first + data.len, *p = first, *begin = first;
    int64_t next_offset = 0, count = 0;
    int32_t leader_epoch = -1;
    int is_run = 1;
    while (is_run && end - p >= HEADER_BYTES && !(count && p - begin >= max_bytes)) {
        int64_t size = batch_bytes(p), last_offset;
        if (size > end - p)
            break; /* cut off */
        is_run = size >= HEADER_BYTES && p[23] < 0x80 /* a delta below 0 */ &&
                 !__builtin_add_overflow(big_endian(p, 8), big_endian(p + 23, 4), &last_offset) &&
                 last_offset < INT64_MAX;
        if (is_run && last_offset < start && !count) {
            p += size;
            begin = p;
        } else if (is_run) {
            is_run = last_offset >= start && p[16] == 2 && !(big_endian(p + 21, 2) & NOT_PLAIN);
            next_offset = last_offset + 1;
            leader_epoch = (int32_t)big_endian(p + 12, 4);
            count++;
            p += size;
        }
    }
    PyBuffer_Release(&data);
    if (!is_run || !count)
        Py_RETURN_NONE;
    return Py_BuildValue("nnLLi", (Py_ssize_t)(begin - first), (Py_ssize_t)(p - first), (long long)count,
                         (long long)next_offset, leader_epoch);
}

/* run_is_whole(data) -> whether the checksum of every batch holds. */
PyObject *everlog_run_is_whole(PyObject *module, PyObject *given)
{
    (void)module;
    Py_buffer data;
    if (PyObject_GetBuffer(given, &data, PyBUF_SIMPLE) < 0)
        return NULL;
    const uint8_t *p = data.buf, *end = p + data.len, *turn_end = p + TURN_BYTES;
    int is_whole = 1;
    while (is_whole > 0 && p < end) {
        if (p >= turn_end) {
            Py_BEGIN_ALLOW_THREADS
            turn_end = p + TURN_BYTES;
            Py_END_ALLOW_THREADS
        }
        int64_t size = end - p < HEADER_BYTES ? 0 : batch_bytes(p);
        if (size < HEADER_BYTES || size > end - p) {
            is_whole = 0;
            break;
        }
        PyObject *view = PyMemoryView_FromMemory((char *)p + CRC_START, size - CRC_START, PyBUF_READ);
        PyObject *found = view ? PyObject_CallFunctionObjArgs(checksum, view, NULL) : NULL;
        Py_XDECREF(view);
        is_whole = found ? PyLong_AsUnsignedLong(found) == (uint32_t)big_endian(p + 17, 4) : -1;
        Py_XDECREF(found);
        p += size;
    }
    PyBuffer_Release(&data);
    return is_whole < 0 || PyErr_Occurred() ? NULL : PyBool_FromLong(is_whole);
}
