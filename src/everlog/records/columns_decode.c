/* Record batches to columns. The records of all batches are walked once; what they hold goes straight into buffers
 * that become Arrow's. Values may stay where they are, and the column points at them: Arrow's layout of views. Any
 * bytes that reader.py refuses are refused here: as the number of the batch, for the reference to say why.
 */

#include "columns.h"
#include "columns_batch.h"
#include "columns_record.h"

#define SMALLEST_RECORD 7
#define LOG_APPEND_TIME 0x08
#define SLACK 32 /* so that short fields may be copied in one go */
#define LARGEST_COLUMN INT32_MAX
#define VIEW_BYTES 16
#define LARGEST_INLINE 12 /* what a view holds itself */
#define PREFIX_BYTES 4
#define RECORDS_AHEAD 6

/* A buffer that becomes a bytearray and may grow on the way. */
typedef struct {
    PyObject *owner;
    uint8_t *data;
    Py_ssize_t used, capacity;
} growing;

/* One variable-length column on its way: offsets of 32 bits, data, and a bitmap that begins all valid. */
typedef struct {
    growing offsets, data, validity;
    int64_t nulls;
} binary_column;

typedef struct {
    PyObject *offset, *timestamp, *timestamp_type, *leader_epoch, *topic, *partition, *timestamp_validity, *list;
    int64_t *offsets, *timestamps;
    int8_t *timestamp_types;
    int32_t *leader_epochs, *topics, *partitions, *lists;
    uint8_t *timestamps_valid;
    int64_t untimed; /* rows without a timestamp */
    binary_column key, value, header_name, header_value;
    int64_t rows, headers;
    int names_are_text;
    int has_views; /* value.offsets has the views, value.data nothing */
    PyThreadState *unlocked;
} columns;

/* What is read in one go: whole batches back to back, or one whose records were uncompressed into `section`. */
typedef struct {
    Py_buffer raw, section, owner;
    const uint8_t *at, *end; /* the records of the batch that is being read, and what its header says below */
    int32_t owner_number; /* which of the buffers that views point into it lies in */
    int64_t base_offset, base_timestamp, max_timestamp, start, stop;
    int32_t leader_epoch, last_offset_delta, count, topic, partition;
    int append_time;
} span;

enum { GOOD, BAD, FAILED }; /* FAILED: an exception is set */

/* --- buffers */

static int begin(growing *buffer, Py_ssize_t capacity)
{
    buffer->owner = PyByteArray_FromStringAndSize(NULL, capacity);
    if (!buffer->owner)
        return 0;
    buffer->data = (uint8_t *)PyByteArray_AsString(buffer->owner);
    buffer->capacity = capacity;
    buffer->used = 0;
    return 1;
}

/* Make room for `more` bytes; takes the interpreter lock back for it if it was given away. */
static int grow(growing *buffer, Py_ssize_t more, columns *out)
{
    Py_ssize_t capacity = buffer->capacity * 2;
    if (capacity < buffer->used + more)
        capacity = buffer->used + more;
    int unlocked = out->unlocked != NULL;
    if (unlocked)
        PyEval_RestoreThread(out->unlocked);
    int failed = PyByteArray_Resize(buffer->owner, capacity) < 0;
    if (!failed) {
        buffer->data = (uint8_t *)PyByteArray_AsString(buffer->owner);
        buffer->capacity = capacity;
    }
    if (unlocked)
        out->unlocked = PyEval_SaveThread();
    return !failed;
}

static inline int reserve(growing *buffer, Py_ssize_t more, columns *out)
{
    return more <= buffer->capacity - buffer->used || grow(buffer, more, out);
}

static int begin_column(binary_column *column, Py_ssize_t slots, Py_ssize_t data_bytes)
{
    if (!begin(&column->offsets, (slots + 1) * 4) || !begin(&column->data, data_bytes + SLACK) ||
        !begin(&column->validity, (slots + 7) / 8 + 1))
        return 0;
    memset(column->validity.data, 0xFF, (size_t)column->validity.capacity);
    memset(column->offsets.data, 0, 4);
    return 1;
}

/* Put a field into slot `slot`, which must have room; `end` is the end of what may be read. */
static inline int put_field(binary_column *column, int64_t slot, const uint8_t *field, int64_t bytes,
                            const uint8_t *end, columns *out)
{
    growing *data = &column->data;
    if (bytes < 0) {
        column->validity.data[slot >> 3] &= (uint8_t)~(1u << (slot & 7));
        column->nulls++;
    } else {
        if (bytes > LARGEST_COLUMN - data->used || !reserve(data, bytes + SLACK, out))
            return 0;
        uint8_t *to = data->data + data->used;
        if (bytes <= 16 && end - field >= 16)
            memcpy(to, field, 16);
        else
            memcpy(to, field, (size_t)bytes);
        data->used += bytes;
    }
    ((int32_t *)column->offsets.data)[slot + 1] = (int32_t)data->used;
    return 1;
}

/* Have slot `slot` point at a field, or hold it if it is short; 0 if no view reaches so far. */
static inline int put_view(binary_column *column, int64_t slot, const uint8_t *field, int64_t bytes, const span *from)
{
    uint8_t *view = column->offsets.data + slot * VIEW_BYTES;
    memset(view, 0, VIEW_BYTES);
    if (bytes < 0) {
        column->validity.data[slot >> 3] &= (uint8_t)~(1u << (slot & 7));
        column->nulls++;
        return 1;
    }
    int32_t size = (int32_t)bytes;
    memcpy(view, &size, 4);
    if (bytes <= LARGEST_INLINE) {
        memcpy(view + 4, field, (size_t)bytes);
        return 1;
    }
    int64_t distance = field - (const uint8_t *)from->owner.buf;
    if (distance > LARGEST_COLUMN)
        return 0;
    int32_t at = (int32_t)distance;
    memcpy(view + 4, field, PREFIX_BYTES);
    memcpy(view + 8, &from->owner_number, 4);
    memcpy(view + 12, &at, 4);
    return 1;
}

/* --- records */

/* Walk the headers of a record, and take them in if `wanted`. */
static int read_headers(const record *found, int wanted, columns *out)
{
    const uint8_t *p = found->headers;
    for (int64_t left = found->header_count; left > 0; left--) {
        const uint8_t *name, *value;
        int64_t name_bytes, value_bytes;
        if (!nullable_at(&p, found->end, &name, &name_bytes) || name_bytes < 0 ||
            !nullable_at(&p, found->end, &value, &value_bytes))
            return BAD;
        if (!wanted)
            continue;
        int64_t slot = out->headers;
        if (slot == INT32_MAX)
            return FAILED;
        binary_column *both[] = {&out->header_name, &out->header_value};
        for (int column = 0; column < 2; column++) {
            growing *offsets = &both[column]->offsets, *validity = &both[column]->validity;
            offsets->used = (slot + 1) * 4;
            validity->used = slot / 8;
            Py_ssize_t known = validity->capacity;
            if (!reserve(offsets, 4, out) || !reserve(validity, 1, out))
                return FAILED;
            if (validity->capacity > known)
                memset(validity->data + known, 0xFF, (size_t)(validity->capacity - known));
        }
        if (!put_field(both[0], slot, name, name_bytes, found->end, out) ||
            !put_field(both[1], slot, value, value_bytes, found->end, out))
            return FAILED;
        if (out->names_are_text && !is_text(name, name + name_bytes))
            out->names_are_text = 0;
        out->headers++;
    }
    return p == found->end ? GOOD : BAD;
}

static int read_batch(const span *from, columns *out)
{
    const uint8_t *p = from->at;
    int64_t last_delta = -1, first_row = out->rows;
    if (from->count < 0 || from->count > from->end - from->at)
        return BAD;
    for (int32_t index = 0; index < from->count; index++) {
        record found;
        if (!read_common_record(p, from->end, &found) && !read_any_record(p, from->end, &found))
            return BAD;
        if (out->has_views && found.end - p <= (from->end - found.end) / RECORDS_AHEAD)
            /* Nobody reads the values in between, so memory has to be told where we will be: records are often of
             * one size. */
            __builtin_prefetch(found.end + RECORDS_AHEAD * (found.end - p));
        p = found.end;
        if (found.offset_delta <= last_delta || found.offset_delta > from->last_offset_delta)
            return BAD;
        last_delta = found.offset_delta;
        int64_t offset, timestamp = from->max_timestamp;
        if (__builtin_add_overflow(from->base_offset, found.offset_delta, &offset))
            return BAD;
        if (!from->append_time && __builtin_add_overflow(from->base_timestamp, found.timestamp_delta, &timestamp))
            return BAD;
        int wanted = offset >= from->start && offset < from->stop;
        if (found.header_count) {
            int outcome = read_headers(&found, wanted, out);
            if (outcome != GOOD)
                return outcome;
        }
        if (!wanted)
            continue;
        int64_t row = out->rows++;
        out->offsets[row] = offset;
        out->timestamps[row] = timestamp;
        if (timestamp == -1) {
            out->timestamps_valid[row >> 3] &= (uint8_t)~(1u << (row & 7));
            out->untimed++;
        }
        if (!put_field(&out->key, row, found.key, found.key_bytes, from->end, out))
            return FAILED;
        if (!(out->has_views ? put_view(&out->value, row, found.value, found.value_bytes, from)
                             : put_field(&out->value, row, found.value, found.value_bytes, from->end, out)))
            return FAILED;
        out->lists[row + 1] = (int32_t)out->headers;
    }
    if (p != from->end)
        return BAD;
    for (int64_t row = first_row; row < out->rows; row++) {
        out->leader_epochs[row] = from->leader_epoch;
        out->topics[row] = from->topic;
        out->partitions[row] = from->partition;
        out->timestamp_types[row] = (int8_t)from->append_time;
    }
    return GOOD;
}

/* Take in the header of the batch at `p`. Returns what it takes, 0 if that is not all there. */
static int64_t open_batch(span *into, const uint8_t *p)
{
    const uint8_t *end = (const uint8_t *)into->raw.buf + into->raw.len;
    int64_t size = into->section.buf ? into->raw.len : end - p < HEADER_BYTES ? 0 : batch_bytes(p);
    if (size < HEADER_BYTES || size > end - p)
        return 0;
    into->base_offset = big_endian(p, 8);
    into->leader_epoch = (int32_t)big_endian(p + 12, 4);
    into->append_time = (p[22] & LOG_APPEND_TIME) != 0;
    into->last_offset_delta = (int32_t)big_endian(p + 23, 4);
    into->base_timestamp = big_endian(p + 27, 8);
    into->max_timestamp = big_endian(p + 35, 8);
    into->count = (int32_t)big_endian(p + 57, 4);
    into->at = into->section.buf ? into->section.buf : p + HEADER_BYTES;
    into->end = into->section.buf ? into->at + into->section.len : p + size;
    return size;
}

static int read_span(span *from, columns *out)
{
    const uint8_t *p = from->raw.buf, *end = p + from->raw.len;
    while (p < end) {
        int64_t size = open_batch(from, p);
        int outcome = size ? read_batch(from, out) : BAD;
        if (outcome != GOOD)
            return outcome;
        p += size;
    }
    return GOOD;
}

/* What the records of a span may come to at most: their number and their bytes. */
static void measure_span(span *from, int64_t *rows, int64_t *bytes)
{
    const uint8_t *p = from->raw.buf, *end = p + from->raw.len;
    for (int64_t size; p < end && (size = open_batch(from, p)); p += size) {
        /* No more records fit, whatever the header says, so what is written stays within these bounds. */
        int64_t most = (from->end - from->at) / SMALLEST_RECORD;
        *rows += from->count < 0 ? 0 : from->count < most ? from->count : most;
        *bytes += from->end - from->at;
    }
}

/* --- the way in and out */

static int open_span(PyObject *given, span *into)
{
    PyObject *raw, *section;
    long long start, stop;
    int topic, partition;
    if (!PyTuple_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "a span should be a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(given, "OOLLii", &raw, &section, &start, &stop, &topic, &partition))
        return 0;
    if (PyObject_GetBuffer(raw, &into->raw, PyBUF_SIMPLE) < 0)
        return 0;
    if (into->raw.len < HEADER_BYTES) {
        PyErr_Format(PyExc_ValueError, "a batch has at least %d bytes, found %zd", HEADER_BYTES, into->raw.len);
        return 0;
    }
    if (section != Py_None && PyObject_GetBuffer(section, &into->section, PyBUF_SIMPLE) < 0)
        return 0;
    into->start = start;
    into->stop = stop;
    into->topic = topic;
    into->partition = partition;
    return 1;
}

static void *begin_numbers(PyObject **owner, int64_t bytes)
{
    *owner = PyByteArray_FromStringAndSize(NULL, bytes);
    return *owner ? PyByteArray_AsString(*owner) : NULL;
}

static int begin_columns(columns *out, int64_t rows, int64_t bytes)
{
    out->names_are_text = 1;
    out->offsets = begin_numbers(&out->offset, rows * 8);
    out->timestamps = begin_numbers(&out->timestamp, rows * 8);
    out->timestamps_valid = begin_numbers(&out->timestamp_validity, rows / 8 + 1);
    out->timestamp_types = begin_numbers(&out->timestamp_type, rows);
    out->leader_epochs = begin_numbers(&out->leader_epoch, rows * 4);
    out->topics = begin_numbers(&out->topic, rows * 4);
    out->partitions = begin_numbers(&out->partition, rows * 4);
    out->lists = begin_numbers(&out->list, (rows + 1) * 4);
    if (!out->offsets || !out->timestamps || !out->timestamps_valid || !out->timestamp_types ||
        !out->leader_epochs || !out->topics || !out->partitions || !out->lists)
        return 0;
    memset(out->timestamps_valid, 0xFF, (size_t)(rows / 8 + 1));
    out->lists[0] = 0;
    /* Values are nearly all there is; keys grow as they come. Four offsets take as much as a view. */
    return begin_column(&out->key, rows, bytes / 16) &&
           begin_column(&out->value, out->has_views ? 4 * rows : rows, out->has_views ? 0 : bytes) &&
           begin_column(&out->header_name, 0, 0) && begin_column(&out->header_value, 0, 0);
}

static int cut(PyObject *owner, int64_t bytes)
{
    return PyByteArray_Resize(owner, bytes) == 0;
}

static PyObject *finished(binary_column *column, int64_t slots, int is_views)
{
    if (!cut(column->offsets.owner, is_views ? slots * VIEW_BYTES : (slots + 1) * 4) || !cut(column->data.owner, column->data.used) ||
        !cut(column->validity.owner, (slots + 7) / 8))
        return NULL;
    return Py_BuildValue("OOOL", column->offsets.owner, column->data.owner,
                         column->nulls ? column->validity.owner : Py_None, (long long)column->nulls);
}

static PyObject *all_finished(columns *out)
{
    int64_t rows = out->rows;
    if (!cut(out->offset, rows * 8) || !cut(out->timestamp, rows * 8) || !cut(out->timestamp_type, rows) ||
        !cut(out->timestamp_validity, (rows + 7) / 8) || !cut(out->leader_epoch, rows * 4) ||
        !cut(out->topic, rows * 4) || !cut(out->partition, rows * 4) || !cut(out->list, (rows + 1) * 4))
        return NULL;
    /* N hands a reference over, and a NULL among them makes the whole NULL. */
    return Py_BuildValue("LOOOLOOOONNOLNNO", (long long)rows, out->offset, out->timestamp,
                         out->untimed ? out->timestamp_validity : Py_None, (long long)out->untimed,
                         out->timestamp_type, out->leader_epoch, out->topic, out->partition,
                         finished(&out->key, rows, 0), finished(&out->value, rows, out->has_views), out->list,
                         (long long)out->headers, finished(&out->header_name, out->headers, 0),
                         finished(&out->header_value, out->headers, 0), out->names_are_text ? Py_True : Py_False);
}

static void drop_columns(columns *out)
{
    binary_column *binary[] = {&out->key, &out->value, &out->header_name, &out->header_value};
    PyObject *numbers[] = {out->offset, out->timestamp, out->timestamp_type, out->leader_epoch,
                           out->topic,  out->partition, out->timestamp_validity, out->list};
    for (int at = 0; at < 4; at++) {
        Py_XDECREF(binary[at]->offsets.owner);
        Py_XDECREF(binary[at]->data.owner);
        Py_XDECREF(binary[at]->validity.owner);
    }
    for (int at = 0; at < 8; at++)
        Py_XDECREF(numbers[at]);
}

static PyObject *decode(span *spans, Py_ssize_t count, int has_views)
{
    columns out = {.has_views = has_views};
    int64_t rows = 0, bytes = 0;
    int outcome = GOOD;
    Py_ssize_t at = 0;
    PyObject *result = NULL;
    for (; at < count; at++)
        measure_span(&spans[at], &rows, &bytes);
    if (begin_columns(&out, rows, bytes)) {
        if (bytes >= UNLOCK_BYTES)
            out.unlocked = PyEval_SaveThread();
        for (at = 0; at < count && outcome == GOOD; at++)
            outcome = read_span(&spans[at], &out);
        if (out.unlocked)
            PyEval_RestoreThread(out.unlocked);
        if (outcome == BAD)
            result = PyLong_FromSsize_t(at - 1);
        else if (outcome == GOOD)
            result = all_finished(&out);
        else if (!PyErr_Occurred())
            PyErr_SetString(PyExc_OverflowError, "a column of more than 2 GiB");
    }
    drop_columns(&out);
    return result;
}

/* The buffer that views of a span point into, as (buffer, its number among them). */
static int open_owner(PyObject *given, span *into)
{
    PyObject *owner;
    if (!PyTuple_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "an owner should be a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(given, "Oi", &owner, &into->owner_number) ||
        PyObject_GetBuffer(owner, &into->owner, PyBUF_SIMPLE) < 0)
        return 0;
    const Py_buffer *records = into->section.buf ? &into->section : &into->raw;
    const uint8_t *first = into->owner.buf, *at = records->buf;
    if (at < first || at + records->len > first + into->owner.len) {
        PyErr_SetString(PyExc_ValueError, "the records of a span do not lie in its owner");
        return 0;
    }
    return 1;
}

PyObject *everlog_decode_columns(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    int has_views = nargs == 2;
    if (nargs < 1 || nargs > 2 || !PyList_Check(args[0]) || (has_views && !PyList_Check(args[1]))) {
        PyErr_SetString(PyExc_TypeError, "decode_columns() takes a list of spans, and for views one of owners");
        return NULL;
    }
    Py_ssize_t count = PyList_Size(args[0]), opened = 0;
    if (has_views && PyList_Size(args[1]) != count) {
        PyErr_SetString(PyExc_ValueError, "every span has an owner");
        return NULL;
    }
    span *spans = PyMem_Calloc(count ? (size_t)count : 1, sizeof(span));
    if (!spans)
        return PyErr_NoMemory();
    PyObject *result = NULL;
    while (opened < count && open_span(PyList_GetItem(args[0], opened), &spans[opened]) &&
           (!has_views || open_owner(PyList_GetItem(args[1], opened), &spans[opened])))
        opened++;
    if (opened == count)
        result = decode(spans, count, has_views);
    for (Py_ssize_t at = 0; at < count; at++) {
        PyBuffer_Release(&spans[at].raw);
        PyBuffer_Release(&spans[at].section);
        PyBuffer_Release(&spans[at].owner);
    }
    PyMem_Free(spans);
    return result;
}
