/* ConsumerRecord, and a batch to them. The twins of what has these names in rows_plain.py, which also says
 * what is wrong with a batch: here a bad one is only known to be bad. */

#include "rows.h"

#include "varint.h"

#define LOG_APPEND_TIME 0x08
#define CODEC_MASK 0x07

typedef struct {
    PyObject_HEAD
    PyObject *topic, *key, *value, *headers;
    int64_t offset, timestamp;
    int32_t partition, leader_epoch, timestamp_type;
} consumer_record;

/* What the records of one batch have in common. */
typedef struct {
    rows_state *state;
    PyObject *topic;
    int64_t base_offset, base_timestamp, max_timestamp;
    int64_t start, end; /* the offsets that are wanted; the end is one of them */
    int32_t partition, leader_epoch, last_delta, count, timestamp_type;
} batch_frame;

static void free_record(PyObject *self)
{
    consumer_record *record = (consumer_record *)self;
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(record->topic);
    Py_XDECREF(record->key);
    Py_XDECREF(record->value);
    Py_XDECREF(record->headers);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int number_of(PyObject *object, const char *name, int bits, int64_t *number)
{
    if (!object)
        return 0;
    if (!PyLong_Check(object)) {
        PyObject *kind = type_name(object);
        if (kind)
            PyErr_Format(PyExc_TypeError, "%s should be of type int, found %U", name, kind);
        Py_XDECREF(kind);
        return -1;
    }
    int overflow = 0;
    *number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (*number == -1 && !overflow && PyErr_Occurred())
        return -1;
    if (overflow || (bits == 32 && *number != (int32_t)*number)) {
        PyErr_Format(PyExc_OverflowError, "%s is %S, expected a number of %d bits", name, object, bits);
        return -1;
    }
    return 0;
}

static int check_kind(PyObject *object, const char *name, int right, const char *kind)
{
    if (right)
        return 0;
    PyObject *found = type_name(object);
    if (found)
        PyErr_Format(PyExc_TypeError, "%s should be of type %s, found %U", name, kind, found);
    Py_XDECREF(found);
    return -1;
}

static PyObject *new_record(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"topic", "partition", "offset",  "timestamp",    "timestamp_type",
                            "key",   "value",     "headers", "leader_epoch", NULL};
    rows_state *state = PyType_GetModuleState(type);
    PyObject *topic, *partition_object, *offset_object;
    PyObject *timestamp_object = NULL, *kind_object = NULL, *epoch_object = NULL;
    PyObject *key = Py_None, *value = Py_None, *headers = state->no_headers;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|OOOOOO:ConsumerRecord", names, &topic, &partition_object,
                                     &offset_object, &timestamp_object, &kind_object, &key, &value, &headers,
                                     &epoch_object))
        return NULL;
    int64_t partition = 0, offset = 0, timestamp = -1, kind = 0, epoch = -1;
    if (check_kind(topic, "topic", PyUnicode_Check(topic), "str") < 0 ||
        check_kind(headers, "headers", PyTuple_Check(headers), "tuple") < 0 ||
        number_of(partition_object, "partition", 32, &partition) < 0 ||
        number_of(offset_object, "offset", 64, &offset) < 0 ||
        number_of(timestamp_object, "timestamp", 64, &timestamp) < 0 ||
        number_of(kind_object, "timestamp_type", 32, &kind) < 0 ||
        number_of(epoch_object, "leader_epoch", 32, &epoch) < 0)
        return NULL;
    consumer_record *record = PyObject_New(consumer_record, type);
    if (!record)
        return NULL;
    record->topic = Py_NewRef(topic);
    record->key = Py_NewRef(key);
    record->value = Py_NewRef(value);
    record->headers = Py_NewRef(headers);
    record->offset = offset;
    record->timestamp = timestamp;
    record->partition = (int32_t)partition;
    record->leader_epoch = (int32_t)epoch;
    record->timestamp_type = (int32_t)kind;
    return (PyObject *)record;
}

static PyObject *with_content(PyObject *self, PyObject *args)
{
    PyObject *key, *value;
    if (!PyArg_ParseTuple(args, "OO:with_content", &key, &value))
        return NULL;
    consumer_record *record = (consumer_record *)self;
    consumer_record *copy = PyObject_New(consumer_record, Py_TYPE(self));
    if (!copy)
        return NULL;
    copy->topic = Py_NewRef(record->topic);
    copy->key = Py_NewRef(key);
    copy->value = Py_NewRef(value);
    copy->headers = Py_NewRef(record->headers);
    copy->offset = record->offset;
    copy->timestamp = record->timestamp;
    copy->partition = record->partition;
    copy->leader_epoch = record->leader_epoch;
    copy->timestamp_type = record->timestamp_type;
    return (PyObject *)copy;
}

static PyObject *fields_of(consumer_record *record)
{
    return Py_BuildValue("(OiLLiOOOi)", record->topic, (int)record->partition, (long long)record->offset,
                         (long long)record->timestamp, (int)record->timestamp_type, record->key, record->value,
                         record->headers, (int)record->leader_epoch);
}

static PyObject *reduce(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    rows_state *state = PyType_GetModuleState(Py_TYPE(self));
    if (!state->rebuild) {
        PyObject *module = PyImport_ImportModule("everlog.records.rows");
        if (!module)
            return NULL;
        state->rebuild = PyObject_GetAttrString(module, "rebuild_record");
        Py_DECREF(module);
        if (!state->rebuild)
            return NULL;
    }
    PyObject *fields = fields_of((consumer_record *)self);
    return fields ? Py_BuildValue("(ON)", state->rebuild, fields) : NULL;
}

static PyObject *compare(PyObject *self, PyObject *other, int operation)
{
    if ((operation != Py_EQ && operation != Py_NE) || Py_TYPE(self) != Py_TYPE(other))
        Py_RETURN_NOTIMPLEMENTED;
    consumer_record *a = (consumer_record *)self, *b = (consumer_record *)other;
    int equal = a->offset == b->offset && a->partition == b->partition && a->timestamp == b->timestamp &&
                a->timestamp_type == b->timestamp_type && a->leader_epoch == b->leader_epoch;
    PyObject *pairs[4][2] = {
        {a->topic, b->topic}, {a->key, b->key}, {a->value, b->value}, {a->headers, b->headers}};
    for (int at = 0; equal == 1 && at < 4; at++)
        equal = PyObject_RichCompareBool(pairs[at][0], pairs[at][1], Py_EQ);
    if (equal < 0)
        return NULL;
    return PyBool_FromLong(equal == (operation == Py_EQ));
}

static Py_hash_t hash_record(PyObject *self)
{
    PyObject *fields = fields_of((consumer_record *)self);
    if (!fields)
        return -1;
    Py_hash_t hash = PyObject_Hash(fields);
    Py_DECREF(fields);
    return hash;
}

static PyObject *show(PyObject *self)
{
    consumer_record *record = (consumer_record *)self;
    return PyUnicode_FromFormat(
        "ConsumerRecord(topic=%R, partition=%d, offset=%lld, timestamp=%lld, timestamp_type=%d, key=%R, value=%R, "
        "headers=%R, leader_epoch=%d)",
        record->topic, (int)record->partition, (long long)record->offset, (long long)record->timestamp,
        (int)record->timestamp_type, record->key, record->value, record->headers, (int)record->leader_epoch);
}

/* --- a batch to records */

/* Step over a length and as many bytes. Returns 0 if they are not there; `data` is NULL for null. */
static inline int take_bytes(const uint8_t **at, const uint8_t *end, const uint8_t **data, Py_ssize_t *size)
{
    int64_t length;
    if (*at < end && **at < 0x80) {
        uint8_t byte = *(*at)++;
        length = (int64_t)(byte >> 1) ^ -(int64_t)(byte & 1);
    } else if (!read_varint(at, end, 32, &length)) {
        return 0;
    }
    if (length < 0) {
        *data = NULL;
        return length == -1;
    }
    if (length > end - *at)
        return 0;
    *data = *at;
    *size = (Py_ssize_t)length;
    *at += length;
    return 1;
}

static inline PyObject *bytes_or_none(const uint8_t *data, Py_ssize_t size)
{
    return data ? PyBytes_FromStringAndSize((const char *)data, size) : Py_NewRef(Py_None);
}

/* Return the headers whose count stands at *at; NULL without an exception if they are damaged. */
static PyObject *read_headers(const uint8_t **at, const uint8_t *end)
{
    int64_t count;
    if (!read_varint(at, end, 32, &count) || count < 0 || count > end - *at)
        return NULL;
    PyObject *headers = PyTuple_New((Py_ssize_t)count);
    for (Py_ssize_t index = 0; headers && index < count; index++) {
        const uint8_t *name, *content;
        Py_ssize_t name_size = 0, content_size = 0;
        PyObject *text = NULL, *bytes = NULL, *pair = NULL;
        if (take_bytes(at, end, &name, &name_size) && name && take_bytes(at, end, &content, &content_size)) {
            text = PyUnicode_DecodeUTF8((const char *)name, name_size, "surrogateescape");
            bytes = text ? bytes_or_none(content, content_size) : NULL;
            pair = bytes ? PyTuple_Pack(2, text, bytes) : NULL;
        }
        Py_XDECREF(text);
        Py_XDECREF(bytes);
        if (!pair || PyTuple_SetItem(headers, index, pair) < 0)
            Py_CLEAR(headers);
    }
    return headers;
}

/* Read the record at *at and append it if it is wanted. Returns 1, 0 if it is damaged, -1 with an exception. */
static int read_row(const batch_frame *frame, const uint8_t **at, const uint8_t *data_end, int64_t *last_delta,
                    PyObject *into)
{
    const uint8_t *p = *at;
    int64_t size, timestamp_delta, delta, offset, timestamp;
    if (!read_varint(&p, data_end, 32, &size) || size < 1 || size > data_end - p)
        return 0;
    const uint8_t *end = p + size;
    p++; /* attributes, unused */
    if (!read_varint(&p, end, 64, &timestamp_delta) || !read_varint(&p, end, 32, &delta))
        return 0;
    if (delta <= *last_delta || delta > frame->last_delta)
        return 0;
    *last_delta = delta;
    if (__builtin_add_overflow(frame->base_offset, delta, &offset))
        return 0;
    if (frame->timestamp_type)
        timestamp = frame->max_timestamp;
    else if (__builtin_add_overflow(frame->base_timestamp, timestamp_delta, &timestamp))
        return 0;
    const uint8_t *key, *value;
    Py_ssize_t key_size = 0, value_size = 0;
    if (!take_bytes(&p, end, &key, &key_size) || !take_bytes(&p, end, &value, &value_size))
        return 0;
    PyObject *headers;
    if (p < end && *p == 0) {
        p++;
        headers = Py_NewRef(frame->state->no_headers);
    } else if (!(headers = read_headers(&p, end))) {
        return PyErr_Occurred() ? -1 : 0;
    }
    if (p != end) {
        Py_DECREF(headers);
        return 0;
    }
    *at = end;
    if (offset < frame->start || offset > frame->end) {
        Py_DECREF(headers);
        return 1;
    }
    consumer_record *record = PyObject_New(consumer_record, frame->state->record_type);
    if (!record) {
        Py_DECREF(headers);
        return -1;
    }
    record->topic = Py_NewRef(frame->topic);
    record->headers = headers;
    record->offset = offset;
    record->timestamp = timestamp;
    record->partition = frame->partition;
    record->leader_epoch = frame->leader_epoch;
    record->timestamp_type = frame->timestamp_type;
    record->key = bytes_or_none(key, key_size);
    record->value = bytes_or_none(value, value_size);
    int done = record->key && record->value ? PyList_Append(into, (PyObject *)record) : -1;
    Py_DECREF(record);
    return done < 0 ? -1 : 1;
}

/* Append the records of a section. Returns 1, 0 if they are damaged, -1 with an exception. */
static int read_section(const batch_frame *frame, const uint8_t *data, Py_ssize_t size, PyObject *into)
{
    const uint8_t *at = data, *end = data + size;
    int64_t last_delta = -1;
    if (frame->count < 0 || frame->count > size)
        return 0;
    for (int32_t index = 0; index < frame->count; index++) {
        int read = read_row(frame, &at, end, &last_delta, into);
        if (read < 1)
            return read;
    }
    return at == end;
}

/* A view of some bytes of an object. It keeps them alive: an error that is kept has the frames that saw it. */
static PyObject *view_within(PyObject *owner, Py_ssize_t start, Py_ssize_t end)
{
    PyObject *whole = PyMemoryView_FromObject(owner);
    PyObject *part = whole ? PySequence_GetSlice(whole, start, end) : NULL;
    Py_XDECREF(whole);
    return part;
}

/* Append the records of a batch, whose bytes lie in `owner` from `position` on. Returns as read_section does. */
static int read_batch(batch_frame *frame, PyObject *owner, Py_ssize_t position, const Py_buffer *raw, PyObject *into)
{
    const uint8_t *p = raw->buf;
    if (raw->len < HEADER_BYTES)
        return 0;
    frame->base_offset = (int64_t)big_endian(p, 8);
    frame->leader_epoch = (int32_t)big_endian(p + 12, 4);
    int attributes = (int)big_endian(p + 21, 2);
    frame->timestamp_type = attributes & LOG_APPEND_TIME ? 1 : 0;
    frame->last_delta = (int32_t)big_endian(p + 23, 4);
    frame->base_timestamp = (int64_t)big_endian(p + 27, 8);
    frame->max_timestamp = (int64_t)big_endian(p + 35, 8);
    frame->count = (int32_t)big_endian(p + 57, 4);
    if (!(attributes & CODEC_MASK))
        return read_section(frame, p + HEADER_BYTES, raw->len - HEADER_BYTES, into);
    PyObject *packed = view_within(owner, position + HEADER_BYTES, position + raw->len);
    PyObject *codec = packed ? PyLong_FromLong(attributes & CODEC_MASK) : NULL;
    PyObject *section =
        codec ? PyObject_CallFunctionObjArgs(frame->state->decompress, codec, packed, NULL) : NULL;
    Py_XDECREF(codec);
    Py_XDECREF(packed);
    Py_buffer unpacked;
    if (!section || PyObject_GetBuffer(section, &unpacked, PyBUF_SIMPLE) < 0) {
        Py_XDECREF(section);
        return -1;
    }
    int read = read_section(frame, unpacked.buf, unpacked.len, into);
    PyBuffer_Release(&unpacked);
    Py_DECREF(section);
    return read;
}

/* Read which offsets are wanted; a bound that no record can have is as good as the nearest that it can. */
static int wanted_offsets(PyObject *start, PyObject *end, batch_frame *frame)
{
    int overflow = 0, nothing = 0;
    frame->start = PyLong_AsLongLongAndOverflow(start, &overflow);
    if (frame->start == -1 && !overflow && PyErr_Occurred())
        return -1;
    if (overflow < 0)
        frame->start = INT64_MIN;
    nothing = overflow > 0;
    frame->end = INT64_MAX;
    if (end != Py_None) {
        int64_t behind = PyLong_AsLongLongAndOverflow(end, &overflow);
        if (behind == -1 && !overflow && PyErr_Occurred())
            return -1;
        if (overflow < 0 || (!overflow && behind == INT64_MIN))
            nothing = 1;
        else if (!overflow)
            frame->end = behind - 1;
    }
    if (nothing) {
        frame->start = INT64_MAX;
        frame->end = INT64_MIN;
    }
    return 0;
}

static PyObject *refuse(rows_state *state, PyObject *const *args)
{
    PyObject *scratch = PyList_New(0);
    PyObject *said = scratch ? PyObject_CallFunctionObjArgs(state->read_plainly, args[0], args[1], args[2],
                                                            args[3], args[4], scratch, NULL)
                             : NULL;
    Py_XDECREF(scratch);
    if (said) {
        Py_DECREF(said);
        PyErr_Format(PyExc_AssertionError, "the kernel refused %R and the reference did not", args[0]);
    }
    return NULL;
}

/* Take back what was appended of a batch that did not end well, whatever exception there is. */
static void take_back(PyObject *into, Py_ssize_t before)
{
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyList_SetSlice(into, before, PyList_Size(into), NULL);
    PyErr_Restore(type, error, trace);
}

PyObject *everlog_read_rows(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 6 || !PyUnicode_Check(args[1]) || !PyList_Check(args[5])) {
        PyErr_SetString(PyExc_TypeError, "read_rows() takes a batch, topic, partition, start, end and a list");
        return NULL;
    }
    batch_frame frame = {.state = PyModule_GetState(module), .topic = args[1]};
    int64_t partition;
    if (number_of(args[2], "partition", 32, &partition) < 0 || wanted_offsets(args[3], args[4], &frame) < 0)
        return NULL;
    frame.partition = (int32_t)partition;
    PyObject *raw_object = PyObject_GetAttr(args[0], frame.state->raw_name);
    Py_buffer raw;
    if (!raw_object || PyObject_GetBuffer(raw_object, &raw, PyBUF_SIMPLE) < 0) {
        Py_XDECREF(raw_object);
        return NULL;
    }
    Py_ssize_t before = PyList_Size(args[5]);
    int read = read_batch(&frame, raw_object, 0, &raw, args[5]);
    PyBuffer_Release(&raw);
    Py_DECREF(raw_object);
    if (read == 1)
        Py_RETURN_NONE;
    take_back(args[5], before);
    return read == 0 ? refuse(frame.state, args) : NULL;
}

/* read_run(raw, position, topic, partition, start, end, into, count) -> (position, next_offset, leader_epoch). */
PyObject *everlog_read_run(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 8 || !PyUnicode_Check(args[2]) || !PyList_Check(args[6])) {
        PyErr_SetString(PyExc_TypeError,
                        "read_run() takes a run, position, topic, partition, start, end, a list and a count");
        return NULL;
    }
    PyObject *into = args[6];
    batch_frame frame = {.state = PyModule_GetState(module), .topic = args[2]};
    Py_ssize_t position = PyLong_AsSsize_t(args[1]), count = PyLong_AsSsize_t(args[7]);
    int64_t partition, next_offset = -1;
    if (PyErr_Occurred() || number_of(args[3], "partition", 32, &partition) < 0 ||
        wanted_offsets(args[4], args[5], &frame) < 0)
        return NULL;
    frame.partition = (int32_t)partition;
    Py_buffer raw;
    if (PyObject_GetBuffer(args[0], &raw, PyBUF_SIMPLE) < 0)
        return NULL;
    int read = position < 0 ? 0 : 1;
    int32_t leader_epoch = -1;
    while (read == 1 && PyList_Size(into) < count && raw.len - position >= HEADER_BYTES) {
        const uint8_t *p = (const uint8_t *)raw.buf + position;
        int64_t size = (int64_t)(int32_t)big_endian(p + 8, 4) + 12;
        if (size > raw.len - position)
            break;
        /* Less than a header is refused as the rest of what is damaged. */
        Py_buffer batch = {.buf = (void *)p, .len = (Py_ssize_t)size};
        Py_ssize_t before = PyList_Size(into);
        read = read_batch(&frame, args[0], position, &batch, into);
        if (read < 1)
            take_back(into, before);
        else {
            position += (Py_ssize_t)size;
            next_offset = frame.base_offset + frame.last_delta + 1;
            leader_epoch = frame.leader_epoch;
        }
    }
    PyBuffer_Release(&raw);
    return read < 0 ? NULL : Py_BuildValue("nLi", position, (long long)next_offset, leader_epoch);
}

int everlog_row_place(PyObject *row, rows_state *state, int64_t *offset, int32_t *leader_epoch)
{
    if (Py_TYPE(row) != state->record_type) {
        PyErr_SetString(PyExc_TypeError, "rows should be a list of ConsumerRecord");
        return -1;
    }
    *offset = ((consumer_record *)row)->offset;
    *leader_epoch = ((consumer_record *)row)->leader_epoch;
    return 0;
}

static PyMethodDef record_methods[] = {
    {"with_content", with_content, METH_VARARGS, "with_content(key, value) -> the same record with these"},
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef record_members[] = {
    {"topic", T_OBJECT_EX, offsetof(consumer_record, topic), READONLY, "The topic's name."},
    {"partition", T_INT, offsetof(consumer_record, partition), READONLY, "The partition's number."},
    {"offset", T_LONGLONG, offsetof(consumer_record, offset), READONLY, "The record's place in its partition."},
    {"timestamp", T_LONGLONG, offsetof(consumer_record, timestamp), READONLY, "Milliseconds since 1970; -1 for none."},
    {"timestamp_type", T_INT, offsetof(consumer_record, timestamp_type), READONLY,
     "0 where the producer's clock made the timestamp, 1 where the broker's did."},
    {"key", T_OBJECT_EX, offsetof(consumer_record, key), READONLY, "Bytes or None, or what a deserializer made."},
    {"value", T_OBJECT_EX, offsetof(consumer_record, value), READONLY, "Bytes or None, or what a deserializer made."},
    {"headers", T_OBJECT_EX, offsetof(consumer_record, headers), READONLY, "Names and values in order."},
    {"leader_epoch", T_INT, offsetof(consumer_record, leader_epoch), READONLY,
     "The epoch of the leader that took the record in; -1 where it is not known."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot record_slots[] = {
    {Py_tp_doc, "One record as it lies in a topic. It does not change; equal ones have equal fields."},
    {Py_tp_new, (void *)new_record},
    {Py_tp_dealloc, (void *)free_record},
    {Py_tp_methods, record_methods},
    {Py_tp_members, record_members},
    {Py_tp_richcompare, (void *)compare},
    {Py_tp_hash, (void *)hash_record},
    {Py_tp_repr, (void *)show},
    {0, NULL},
};

/* Not known to the collector: records come by the million, and what they hold seldom holds them. */
static PyType_Spec record_spec = {
    .name = "everlog.records.rows.ConsumerRecord",
    .basicsize = sizeof(consumer_record),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = record_slots,
};

int everlog_add_record_type(PyObject *module, rows_state *state)
{
    state->record_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &record_spec, NULL);
    if (!state->record_type)
        return -1;
    PyObject *names = Py_BuildValue("(sssssssss)", "topic", "partition", "offset", "timestamp", "timestamp_type", "key",
                                    "value", "headers", "leader_epoch");
    int done = names ? PyObject_SetAttrString((PyObject *)state->record_type, "__match_args__", names) : -1;
    Py_XDECREF(names);
    return done < 0 ? -1 : PyModule_AddType(module, state->record_type);
}
