/* Which partition each row of a column goes to, and the rows of each partition in order. */

#include "columns.h"

#define NO_PARTITION INT64_MIN

/* The hash of keys that Kafka's clients agree on; core/partitioner.py has the reference. */
static uint32_t murmur2(const uint8_t *data, int64_t bytes)
{
    const uint32_t multiplier = 0x5BD1E995;
    uint32_t hashed = 0x9747B28Cu ^ (uint32_t)bytes;
    for (; bytes >= 4; bytes -= 4, data += 4) {
        uint32_t word = (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        word *= multiplier;
        word ^= word >> 24;
        hashed = hashed * multiplier ^ word * multiplier;
    }
    if (bytes) {
        uint32_t rest = 0;
        for (int64_t at = bytes; at-- > 0;)
            rest = rest << 8 | data[at];
        hashed = (hashed ^ rest) * multiplier;
    }
    hashed = (hashed ^ hashed >> 13) * multiplier;
    return hashed ^ hashed >> 15;
}

typedef struct {
    int64_t rows;
    binary_source key;
    number_source given;
    int32_t partition_count;
    const uint8_t *keyless; /* the partitions that rows without a key may go to, in turn */
    int64_t keyless_count, run_rows, run_at;
} router;

/* Find the partition of every row and count the rows of each. Returns the first row that has none, or -1; *wrong is
 * the partition that it asks for, NO_PARTITION if it does not get that far. */
static int64_t choose(router *from, int32_t *chosen, int64_t *counts, int64_t *wrong)
{
    /* The partition whose turn it is, and how many rows it has left: a division a row would cost more than all else. */
    int64_t turn = from->run_at / from->run_rows % from->keyless_count;
    int64_t left = from->run_rows - from->run_at % from->run_rows;
    for (int64_t at = 0; at < from->rows; at++) {
        const uint8_t *key;
        int64_t bytes = -1;
        int32_t partition;
        const number_source *given = &from->given;
        if (given->open && !(given->validity && !bit_is_set(given->validity, given->start + at))) {
            partition = load_int32(given->numbers, given->start + at);
            if (partition < 0 || partition >= from->partition_count) {
                *wrong = partition;
                return at;
            }
        } else if (from->key.open && !field_at(&from->key, at, &key, &bytes)) {
            return at;
        } else if (bytes >= 0) {
            partition = (int32_t)((murmur2(key, bytes) & 0x7FFFFFFF) % (uint32_t)from->partition_count);
        } else {
            partition = load_int32(from->keyless, turn);
            from->run_at++;
            if (--left == 0) {
                left = from->run_rows;
                turn = turn + 1 == from->keyless_count ? 0 : turn + 1;
            }
        }
        chosen[at] = partition;
        counts[partition]++;
    }
    return -1;
}

/* A counting sort: counts become the starts, and rows of one partition stay in their order. */
static void sort_rows(const int32_t *chosen, int64_t rows, int64_t *counts, int32_t partition_count, int32_t *order)
{
    int64_t start = 0;
    for (int32_t partition = 0; partition < partition_count; partition++) {
        int64_t count = counts[partition];
        counts[partition] = start;
        start += count;
    }
    for (int64_t at = 0; at < rows; at++)
        order[counts[chosen[at]]++] = (int32_t)at;
}

static PyObject *route(router *from)
{
    int32_t *chosen = PyMem_Malloc((size_t)from->rows * 4 + 4);
    int64_t *counts = PyMem_Calloc((size_t)from->partition_count, 8);
    PyObject *order = PyByteArray_FromStringAndSize(NULL, from->rows * 4);
    PyObject *ends = PyTuple_New(from->partition_count);
    PyObject *result = NULL;
    if (!chosen || !counts)
        PyErr_NoMemory();
    else if (order && ends) {
        int32_t *ordered = (int32_t *)PyByteArray_AsString(order);
        int64_t bad, wrong = NO_PARTITION;
        Py_BEGIN_ALLOW_THREADS
        bad = choose(from, chosen, counts, &wrong);
        if (bad < 0)
            sort_rows(chosen, from->rows, counts, from->partition_count, ordered);
        Py_END_ALLOW_THREADS
        /* Each start has moved to where its partition ends. */
        for (int32_t partition = 0; ends && bad < 0 && partition < from->partition_count; partition++) {
            PyObject *end = PyLong_FromLongLong(counts[partition]);
            if (!end || PyTuple_SetItem(ends, partition, end) < 0)
                Py_CLEAR(ends);
        }
        if (bad >= 0 && wrong == NO_PARTITION)
            PyErr_Format(PyExc_ValueError, "row %lld: its columns point outside their data", (long long)bad);
        else if (bad >= 0)
            PyErr_Format(PyExc_ValueError, "row %lld: partition %lld, expected 0 to %d", (long long)bad,
                         (long long)wrong, (int)from->partition_count - 1);
        else if (ends)
            result = Py_BuildValue("OOL", order, ends, (long long)from->run_at);
    }
    PyMem_Free(chosen);
    PyMem_Free(counts);
    Py_XDECREF(order);
    Py_XDECREF(ends);
    return result;
}

static int router_is_sound(const router *from)
{
    if (from->rows < 0 || from->rows > INT32_MAX || from->partition_count < 1 || from->keyless_count < 1 ||
        from->run_rows < 1 || from->run_at < 0)
        return 0;
    for (int64_t at = 0; at < from->keyless_count; at++) {
        int32_t partition = load_int32(from->keyless, at);
        if (partition < 0 || partition >= from->partition_count)
            return 0;
    }
    return 1;
}

PyObject *everlog_route_rows(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 7) {
        PyErr_SetString(PyExc_TypeError, "route_rows() takes rows, key, given, partition_count, keyless, run_rows "
                                         "and run_at");
        return NULL;
    }
    router from = {.rows = PyLong_AsLongLong(args[0])};
    int64_t partition_count = PyLong_AsLongLong(args[3]);
    from.run_rows = PyLong_AsLongLong(args[5]);
    from.run_at = PyLong_AsLongLong(args[6]);
    Py_buffer keyless;
    if (PyErr_Occurred() || PyObject_GetBuffer(args[4], &keyless, PyBUF_SIMPLE) < 0)
        return NULL;
    from.keyless = keyless.buf;
    from.keyless_count = keyless.len / 4;
    from.partition_count = partition_count > INT32_MAX ? 0 : (int32_t)partition_count;
    PyObject *result = NULL;
    if (!router_is_sound(&from))
        PyErr_SetString(PyExc_ValueError, "route_rows() needs partitions to choose from");
    else if ((args[1] == Py_None || open_binary(args[1], from.rows, "key", &from.key)) &&
             (args[2] == Py_None || open_numbers(args[2], from.rows, 4, "partition", &from.given)))
        result = route(&from);
    close_binary(&from.key);
    close_numbers(&from.given);
    PyBuffer_Release(&keyless);
    return result;
}
