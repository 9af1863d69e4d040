/* BatchBuffer: records into a batch, encoded as they come. The twin of BatchBuffer in rows_plain.py. */

#include "rows.h"

static int grow(growing *bytes, Py_ssize_t more)
{
    if (more > MAX_SECTION_BYTES - bytes->used) {
        PyErr_Format(PyExc_ValueError, "a batch has at most %zd bytes of records", MAX_SECTION_BYTES);
        return -1;
    }
    if (more <= bytes->room - bytes->used)
        return 0;
    Py_ssize_t room = bytes->room < 2048 ? 4096 : bytes->room * 2;
    while (room - bytes->used < more)
        room *= 2;
    uint8_t *data = PyMem_Realloc(bytes->data, (size_t)room);
    if (!data) {
        PyErr_NoMemory();
        return -1;
    }
    bytes->data = data;
    bytes->room = room;
    return 0;
}

/* Where the records begin; NULL with an exception if who has the batch has changed its size. */
static const uint8_t *records_of(batch_buffer *buffer)
{
    if (buffer->lent) {
        if (PyByteArray_Size(buffer->store) != HEADER_BYTES + buffer->section.used) {
            PyErr_SetString(PyExc_ValueError, "the batch that was sealed has another size now");
            return NULL;
        }
        buffer->section.data = (uint8_t *)PyByteArray_AsString(buffer->store) + HEADER_BYTES;
    }
    return buffer->section.data;
}

/* Make room for more records. */
static int reserve(batch_buffer *buffer, Py_ssize_t more)
{
    growing *section = &buffer->section;
    if (more > MAX_SECTION_BYTES - section->used) {
        PyErr_Format(PyExc_ValueError, "a batch has at most %zd bytes of records", MAX_SECTION_BYTES);
        return -1;
    }
    if (!buffer->lent && more <= section->room - section->used)
        return 0;
    /* In large steps: what is not written to takes no memory, and moving what is written takes time. */
    Py_ssize_t room = section->room < 2048 ? 4096 : section->room * 4;
    while (room - section->used < more)
        room *= 4;
    if (room > MAX_SECTION_BYTES)
        room = MAX_SECTION_BYTES;
    if (buffer->store && !buffer->lent) {
        if (PyByteArray_Resize(buffer->store, HEADER_BYTES + room) < 0)
            return -1;
    } else {
        const uint8_t *records = records_of(buffer);
        PyObject *store = !records && buffer->lent ? NULL : PyByteArray_FromStringAndSize(NULL, HEADER_BYTES + room);
        if (!store)
            return -1;
        if (section->used)
            memcpy(PyByteArray_AsString(store) + HEADER_BYTES, records, (size_t)section->used);
        Py_XDECREF(buffer->store);
        buffer->store = store;
        buffer->lent = 0;
    }
    section->data = (uint8_t *)PyByteArray_AsString(buffer->store) + HEADER_BYTES;
    section->room = room;
    return 0;
}

static void wrong_kind(const char *words, PyObject *found)
{
    PyObject *name = type_name(found);
    if (name) {
        PyErr_Format(PyExc_TypeError, "%s, found %U", words, name);
        Py_DECREF(name);
    }
}

int everlog_take_field(PyObject *object, const char *name, field *taken)
{
    taken->lent = 0;
    if (object == Py_None) {
        taken->data = NULL;
        taken->size = -1;
        return 0;
    }
    if (PyBytes_CheckExact(object)) {
        taken->data = (const uint8_t *)PyBytes_AsString(object);
        taken->size = PyBytes_Size(object);
        return 0;
    }
    if (PyObject_GetBuffer(object, &taken->view, PyBUF_SIMPLE) < 0) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_BufferError))
            return -1;
        PyErr_Clear();
        char words[80];
        PyOS_snprintf(words, sizeof(words), "%s should be bytes or None", name);
        wrong_kind(words, object);
        return -1;
    }
    taken->data = taken->view.buf;
    taken->size = taken->view.len;
    taken->lent = 1;
    return 0;
}

static inline uint8_t *put_field(uint8_t *at, const field *taken)
{
    at = put_varint(at, taken->size);
    if (taken->size > 0) {
        memcpy(at, taken->data, (size_t)taken->size);
        at += taken->size;
    }
    return at;
}

/* Append a field with its length in front to bytes that grow. */
static int append_field(growing *bytes, const field *taken)
{
    if (grow(bytes, varint_bytes(taken->size) + (taken->size < 0 ? 0 : taken->size)) < 0)
        return -1;
    bytes->used = put_field(bytes->data + bytes->used, taken) - bytes->data;
    return 0;
}

static int append_name(growing *bytes, PyObject *name)
{
    if (!PyUnicode_Check(name)) {
        wrong_kind("a header's name should be a str", name);
        return -1;
    }
    field taken = {.lent = 0};
    taken.data = (const uint8_t *)PyUnicode_AsUTF8AndSize(name, &taken.size);
    if (taken.data)
        return append_field(bytes, &taken);
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
        return -1;
    PyErr_Clear();
    /* Stray bytes of a name that was read before. */
    PyObject *encoded = PyUnicode_AsEncodedString(name, "utf-8", "surrogateescape");
    if (!encoded)
        return -1;
    taken.data = (const uint8_t *)PyBytes_AsString(encoded);
    taken.size = PyBytes_Size(encoded);
    int done = append_field(bytes, &taken);
    Py_DECREF(encoded);
    return done;
}

static int append_header(growing *bytes, PyObject *header)
{
    PyObject *name = NULL, *content = NULL;
    if (PyTuple_Check(header) && PyTuple_Size(header) == 2) {
        name = PyTuple_GetItem(header, 0);
        content = PyTuple_GetItem(header, 1);
    } else if (PyList_Check(header) && PyList_Size(header) == 2) {
        name = PyList_GetItem(header, 0);
        content = PyList_GetItem(header, 1);
    } else {
        wrong_kind("a header should be a pair of a name and a value", header);
        return -1;
    }
    Py_INCREF(name);
    Py_INCREF(content);
    int done = append_name(bytes, name);
    field taken;
    if (done == 0 && (done = everlog_take_field(content, "a header's value", &taken)) == 0) {
        done = append_field(bytes, &taken);
        release_field(&taken);
    }
    Py_DECREF(name);
    Py_DECREF(content);
    return done;
}

/* Encode the headers with their number in front. */
static int encode_headers(growing *bytes, PyObject *headers)
{
    PyObject *pairs = PySequence_Tuple(headers); /* ours, whatever happens to the list meanwhile */
    if (!pairs)
        return -1;
    Py_ssize_t count = PyTuple_Size(pairs);
    int done = grow(bytes, 10);
    if (done == 0)
        bytes->used = put_varint(bytes->data, count) - bytes->data;
    for (Py_ssize_t at = 0; done == 0 && at < count; at++)
        done = append_header(bytes, PyTuple_GetItem(pairs, at));
    Py_DECREF(pairs);
    return done;
}

int everlog_prepare(PyObject *key, PyObject *value, PyObject *headers, prepared *record)
{
    record->headers = (growing){NULL, 0, 0};
    if (everlog_take_field(key, "key", &record->key) < 0)
        return -1;
    if (everlog_take_field(value, "value", &record->value) < 0) {
        release_field(&record->key);
        return -1;
    }
    int done = 0;
    if (PyTuple_Check(headers) ? PyTuple_Size(headers) : PyList_Check(headers) ? PyList_Size(headers) : 1) {
        done = -1;
        if (PyTuple_Check(headers) || PyList_Check(headers))
            done = encode_headers(&record->headers, headers);
        else
            wrong_kind("headers should be a list of pairs", headers);
    }
    if (done < 0)
        everlog_release(record);
    return done;
}

void everlog_release(prepared *record)
{
    PyMem_Free(record->headers.data);
    release_field(&record->key);
    release_field(&record->value);
}

int64_t everlog_append(batch_buffer *buffer, const prepared *record, int64_t timestamp, Py_ssize_t limit)
{
    const field *key = &record->key, *value = &record->value;
    growing *section = &buffer->section;
    int64_t index = buffer->count;
    int64_t base = index ? buffer->base_timestamp : timestamp;
    int64_t delta = timestamp - base;
    Py_ssize_t body = 1 + varint_bytes(delta) + varint_bytes(index) + varint_bytes(key->size) +
                      (key->size < 0 ? 0 : key->size) + varint_bytes(value->size) +
                      (value->size < 0 ? 0 : value->size) + (record->headers.used ? record->headers.used : 1);
    Py_ssize_t all = body + varint_bytes(body);
    if (all > limit - section->used)
        return OVER_LIMIT;
    if (reserve(buffer, all) < 0)
        return -1;
    uint8_t *at = put_varint(section->data + section->used, body);
    *at++ = 0; /* attributes, unused */
    at = put_varint(at, delta);
    at = put_varint(at, index);
    at = put_field(at, key);
    at = put_field(at, value);
    if (record->headers.used)
        memcpy(at, record->headers.data, (size_t)record->headers.used);
    else
        *at = 0;
    section->used += all;
    buffer->base_timestamp = base;
    if (timestamp > buffer->max_timestamp)
        buffer->max_timestamp = timestamp;
    buffer->count++;
    return index;
}

int everlog_timestamp(PyObject *object, int64_t *timestamp)
{
    if (!PyLong_Check(object)) {
        wrong_kind("timestamp should be of type int", object);
        return -1;
    }
    int overflow = 0;
    *timestamp = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (*timestamp == -1 && !overflow && PyErr_Occurred())
        return -1;
    if (overflow || *timestamp < 0) {
        PyErr_Format(PyExc_ValueError, "timestamp is %S, expected milliseconds since 1970", object);
        return -1;
    }
    return 0;
}

/* --- the type */

static PyObject *new_buffer(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    if (PyTuple_Size(args) || (kwargs && PyDict_Size(kwargs))) {
        PyErr_SetString(PyExc_TypeError, "BatchBuffer() takes no arguments");
        return NULL;
    }
    batch_buffer *buffer = PyObject_New(batch_buffer, type);
    if (!buffer)
        return NULL;
    buffer->store = NULL;
    buffer->lent = 0;
    buffer->section = (growing){NULL, 0, 0};
    buffer->base_timestamp = buffer->max_timestamp = -1;
    buffer->count = 0;
    return (PyObject *)buffer;
}

static void free_buffer(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((batch_buffer *)self)->store);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *append(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 4) {
        PyErr_SetString(PyExc_TypeError, "append() takes key, value, headers and timestamp");
        return NULL;
    }
    int64_t timestamp;
    prepared record;
    if (everlog_timestamp(args[3], &timestamp) < 0 || everlog_prepare(args[0], args[1], args[2], &record) < 0)
        return NULL;
    int64_t index = everlog_append((batch_buffer *)self, &record, timestamp, PY_SSIZE_T_MAX);
    everlog_release(&record);
    return index < 0 ? NULL : PyLong_FromLongLong(index);
}

static PyObject *adopt(PyObject *type, PyObject *args)
{
    Py_buffer section;
    long long count, base_timestamp, max_timestamp;
    if (!PyArg_ParseTuple(args, "y*LLL:adopt", &section, &count, &base_timestamp, &max_timestamp))
        return NULL;
    batch_buffer *buffer = NULL;
    if (count < 1) {
        PyErr_Format(PyExc_ValueError, "count is %lld, expected at least 1", count);
    } else if ((buffer = (batch_buffer *)PyObject_CallNoArgs(type))) {
        if (reserve(buffer, section.len) == 0) {
            memcpy(buffer->section.data, section.buf, (size_t)section.len);
            buffer->section.used = section.len;
            buffer->count = count;
            buffer->base_timestamp = base_timestamp;
            buffer->max_timestamp = max_timestamp;
        } else {
            Py_CLEAR(buffer);
        }
    }
    PyBuffer_Release(&section);
    return (PyObject *)buffer;
}

static PyObject *copied(batch_buffer *buffer, Py_ssize_t room)
{
    const uint8_t *records = records_of(buffer);
    if (!records && buffer->lent)
        return NULL;
    PyObject *copy = PyByteArray_FromStringAndSize(NULL, room + buffer->section.used);
    if (copy) {
        char *data = PyByteArray_AsString(copy);
        memset(data, 0, (size_t)room);
        if (buffer->section.used)
            memcpy(data + room, records, (size_t)buffer->section.used);
    }
    return copy;
}

static PyObject *copy_behind(PyObject *self, PyObject *room_object)
{
    Py_ssize_t room = PyLong_AsSsize_t(room_object);
    if (room == -1 && PyErr_Occurred())
        return NULL;
    if (room < 0 || room > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "room is %zd, expected a number of bytes", room);
        return NULL;
    }
    return copied((batch_buffer *)self, room);
}

static PyObject *behind_header(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    batch_buffer *buffer = (batch_buffer *)self;
    if (buffer->lent || !buffer->store)
        return copied(buffer, HEADER_BYTES);
    if (PyByteArray_Resize(buffer->store, HEADER_BYTES + buffer->section.used) < 0)
        return NULL;
    buffer->lent = 1;
    buffer->section.room = buffer->section.used;
    memset(PyByteArray_AsString(buffer->store), 0, HEADER_BYTES);
    return Py_NewRef(buffer->store);
}

static PyObject *seal(PyObject *self, PyObject *args, PyObject *kwargs)
{
    rows_state *state = PyType_GetModuleState(Py_TYPE(self));
    PyObject *mine = PyTuple_Pack(1, self);
    PyObject *all = mine ? PySequence_Concat(mine, args) : NULL;
    Py_XDECREF(mine);
    if (!all)
        return NULL;
    PyObject *batch = PyObject_Call(state->seal, all, kwargs);
    Py_DECREF(all);
    return batch;
}

static PyObject *split(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    rows_state *state = PyType_GetModuleState(Py_TYPE(self));
    return PyObject_CallFunctionObjArgs(state->split, self, NULL);
}

static PyObject *size_bytes(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromSsize_t(((batch_buffer *)self)->section.used + HEADER_BYTES);
}

static PyMethodDef buffer_methods[] = {
    {"append", (PyCFunction)(void (*)(void))append, METH_FASTCALL,
     "append(key, value, headers, timestamp) -> the record's number in the batch"},
    {"adopt", adopt, METH_VARARGS | METH_CLASS,
     "adopt(section, count, base_timestamp, max_timestamp) -> one with records encoded already"},
    {"copy_behind", copy_behind, METH_O, "copy_behind(room) -> zeros and the records behind them"},
    {"behind_header", behind_header, METH_NOARGS, "behind_header() -> the records behind room for a header"},
    {"seal", (PyCFunction)(void (*)(void))seal, METH_VARARGS | METH_KEYWORDS,
     "seal(codec=0, level=None, *, producer_id=-1, producer_epoch=-1, base_sequence=-1, transactional=False)"
     " -> the batch"},
    {"split", split, METH_NOARGS, "split() -> the first half of the records and the second"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef buffer_members[] = {
    {"count", T_LONGLONG, offsetof(batch_buffer, count), READONLY, "How many records there are."},
    {"base_timestamp", T_LONGLONG, offsetof(batch_buffer, base_timestamp), READONLY, "The first one's timestamp."},
    {"max_timestamp", T_LONGLONG, offsetof(batch_buffer, max_timestamp), READONLY, "The largest timestamp."},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef buffer_properties[] = {
    {"size_bytes", size_bytes, NULL, "Bytes of the batch before compression, its header included.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot buffer_slots[] = {
    {Py_tp_doc, "The records of one batch, encoded as they come."},
    {Py_tp_new, (void *)new_buffer},
    {Py_tp_dealloc, (void *)free_buffer},
    {Py_tp_methods, buffer_methods},
    {Py_tp_members, buffer_members},
    {Py_tp_getset, buffer_properties},
    {0, NULL},
};

static PyType_Spec buffer_spec = {
    .name = "everlog.records.rows.BatchBuffer",
    .basicsize = sizeof(batch_buffer),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = buffer_slots,
};

int everlog_add_buffer_type(PyObject *module, rows_state *state)
{
    state->buffer_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &buffer_spec, NULL);
    return state->buffer_type ? PyModule_AddType(module, state->buffer_type) : -1;
}
