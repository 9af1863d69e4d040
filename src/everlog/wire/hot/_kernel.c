/* Produce requests of the plainest kind, read many at once. Plain C against the limited API of Python 3.11.
 *
 * read_run() looks for what nearly every producer sends: one batch for one partition of one topic, no
 * transactional id, no tagged fields. It takes in as many of them as follow each other whole and for the same
 * partition. Whatever is of another kind or damaged ends the run, and produce.py reads it the general way,
 * which is the reference and says what is wrong.
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../twin.h"

#define MOST_IN_RUN 64
#define FIRST_FLEXIBLE 9
#define FIRST_WITH_TOPIC_ID 13
#define LAST_VERSION 13
#define TOPIC_ID_BYTES 16
#define LONGEST_NAME 126 /* whose length has one byte on the wire */

typedef struct {
    int version, acks;
    const uint8_t *topic; /* the name without its length, or the id */
    Py_ssize_t topic_bytes;
    int32_t partition, correlation_id;
    const uint8_t *batch, *batch_end, *after;
} request;

static inline int32_t int32_at(const uint8_t *p)
{
    return (int32_t)((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]);
}

static inline int int16_at(const uint8_t *p)
{
    return (int16_t)(p[0] << 8 | p[1]);
}

/* Read the whole frame at `p`, size field included. Returns 0 if it is not whole or not of the plain kind. */
static int read_request(const uint8_t *p, const uint8_t *end, request *found)
{
    if (end - p < 4)
        return 0;
    int32_t size = int32_at(p);
    p += 4;
    /* The header up to the client id. */
    if (size < 10 || size > end - p)
        return 0;
    end = p + size;
    if (int16_at(p) != 0)
        return 0;
    found->version = int16_at(p + 2);
    if (found->version < FIRST_FLEXIBLE || found->version > LAST_VERSION)
        return 0;
    found->correlation_id = int32_at(p + 4);
    int client_id_bytes = int16_at(p + 8);
    p += 10;
    if (client_id_bytes < -1)
        return 0;
    if (client_id_bytes > 0) {
        if (client_id_bytes > end - p)
            return 0;
        p += client_id_bytes;
    }
    /* No header tags, no transactional id, acks, time-out, one topic, and the first byte of its name or id. */
    if (end - p < 10 || p[0] || p[1] || p[8] != 2)
        return 0;
    found->acks = int16_at(p + 2);
    p += 9;
    if (found->version < FIRST_WITH_TOPIC_ID) {
        found->topic_bytes = *p++ - 1;
        if (found->topic_bytes < 1 || found->topic_bytes > LONGEST_NAME)
            return 0;
    } else {
        found->topic_bytes = TOPIC_ID_BYTES;
    }
    found->topic = p;
    /* Topic, one partition, its index, the size of its records, which has one to five bytes. */
    if (end - p < found->topic_bytes + 6)
        return 0;
    p += found->topic_bytes;
    if (p[0] != 2)
        return 0;
    found->partition = int32_at(p + 1);
    p += 5;
    uint32_t length = 0;
    for (int shift = 0;; shift += 7) {
        if (p >= end || shift > 21)
            return 0;
        uint8_t byte = *p++;
        length |= (uint32_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            break;
    }
    /* The length counts one more than there is, 0 is null. Then no tags: of partition, topic and request. */
    if (length == 0 || (Py_ssize_t)length - 1 + 3 != end - p)
        return 0;
    found->batch = p;
    found->batch_end = p + length - 1;
    found->after = end;
    return !(found->batch_end[0] | found->batch_end[1] | found->batch_end[2]);
}

static int same_place(const request *a, const request *b)
{
    return a->version == b->version && a->acks == b->acks && a->partition == b->partition &&
           a->topic_bytes == b->topic_bytes && !memcmp(a->topic, b->topic, (size_t)a->topic_bytes);
}

static PyObject *run_of(const uint8_t *start, const request *requests, Py_ssize_t count)
{
    const request *first = &requests[0];
    PyObject *topic = first->version < FIRST_WITH_TOPIC_ID
                          ? PyUnicode_DecodeUTF8((const char *)first->topic, first->topic_bytes, NULL)
                          : PyBytes_FromStringAndSize((const char *)first->topic, first->topic_bytes);
    if (!topic) {
        PyErr_Clear(); /* Not UTF-8: the general way puts that into words. */
        Py_RETURN_NONE;
    }
    PyObject *ids = PyTuple_New(count), *spans = PyTuple_New(count);
    if (!ids || !spans)
        goto failed;
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *id = PyLong_FromLong(requests[at].correlation_id);
        PyObject *span = Py_BuildValue("nn", (Py_ssize_t)(requests[at].batch - start),
                                       (Py_ssize_t)(requests[at].batch_end - start));
        if (!id || !span) {
            Py_XDECREF(id);
            Py_XDECREF(span);
            goto failed;
        }
        PyTuple_SetItem(ids, at, id);
        PyTuple_SetItem(spans, at, span);
    }
    return Py_BuildValue("niiNiNN", (Py_ssize_t)(requests[count - 1].after - start), first->version,
                         first->acks, topic, (int)first->partition, ids, spans);
failed:
    Py_DECREF(topic);
    Py_XDECREF(ids);
    Py_XDECREF(spans);
    return NULL;
}

static PyObject *read_run(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "read_run() takes data, at and end");
        return NULL;
    }
    Py_ssize_t at = PyLong_AsSsize_t(args[1]), end = PyLong_AsSsize_t(args[2]);
    if ((at == -1 || end == -1) && PyErr_Occurred())
        return NULL;
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[0], &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    if (at < 0 || end < at || end > buffer.len) {
        PyBuffer_Release(&buffer);
        PyErr_Format(PyExc_ValueError, "no bytes from %zd to %zd in %zd", at, end, buffer.len);
        return NULL;
    }
    const uint8_t *start = buffer.buf, *next = start + at;
    request requests[MOST_IN_RUN];
    Py_ssize_t count = 0;
    while (count < MOST_IN_RUN && read_request(next, start + end, &requests[count]) &&
           (count == 0 || same_place(&requests[0], &requests[count])))
        next = requests[count++].after;
    PyObject *run = count ? run_of(start, requests, count) : Py_NewRef(Py_None);
    PyBuffer_Release(&buffer);
    return run;
}

/* The answer of one request around its topic: size, correlation id, header without tags, one topic; then one
 * partition, its index, no error, base offset, append time, start offset; no record errors, no message, no
 * tags of partition and topic, no throttling, no tags. */
#define BEFORE_TOPIC (4 + 4 + 1 + 1)
#define BEHIND_TOPIC (1 + 4 + 2 + 8 + 8 + 8 + 9)

static inline uint8_t *put(uint8_t *p, uint64_t value, int bytes)
{
    for (int at = bytes - 1; at >= 0; at--) {
        p[at] = (uint8_t)value;
        value >>= 8;
    }
    return p + bytes;
}

/* The topic as it is on the wire: an id of 16 bytes, or a name with its length before it. Returns its size. */
static Py_ssize_t topic_on_wire(PyObject *topic, uint8_t *out)
{
    if (PyBytes_Check(topic) && PyBytes_Size(topic) == TOPIC_ID_BYTES) {
        memcpy(out, PyBytes_AsString(topic), TOPIC_ID_BYTES);
        return TOPIC_ID_BYTES;
    }
    Py_ssize_t size = 0;
    const char *name = PyUnicode_Check(topic) ? PyUnicode_AsUTF8AndSize(topic, &size) : NULL;
    if (!name || size > LONGEST_NAME) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "a topic is a name of up to 126 bytes or an id of 16");
        return -1;
    }
    out[0] = (uint8_t)(size + 1);
    memcpy(out + 1, name, (size_t)size);
    return size + 1;
}

static PyObject *write_run_answers(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 5 || !PyTuple_Check(args[2]) || !PyList_Check(args[3]) ||
        PyTuple_Size(args[2]) != PyList_Size(args[3])) {
        PyErr_SetString(PyExc_TypeError,
                        "write_run_answers() takes topic, partition, correlation ids, as many base offsets, start");
        return NULL;
    }
    uint8_t topic[LONGEST_NAME + 1];
    Py_ssize_t topic_bytes = topic_on_wire(args[0], topic), count = PyTuple_Size(args[2]);
    if (topic_bytes < 0)
        return NULL;
    long partition = PyLong_AsLong(args[1]);
    int64_t start_offset = PyLong_AsLongLong(args[4]);
    if (PyErr_Occurred())
        return NULL;
    Py_ssize_t each = BEFORE_TOPIC + topic_bytes + BEHIND_TOPIC;
    PyObject *answers = PyBytes_FromStringAndSize(NULL, each * count);
    if (!answers)
        return NULL;
    uint8_t *p = (uint8_t *)PyBytes_AsString(answers);
    for (Py_ssize_t at = 0; at < count; at++) {
        long id = PyLong_AsLong(PyTuple_GetItem(args[2], at));
        int64_t base_offset = PyLong_AsLongLong(PyList_GetItem(args[3], at));
        p = put(p, (uint64_t)(each - 4), 4);
        p = put(p, (uint64_t)id, 4);
        p = put(p, 2, 2);
        memcpy(p, topic, (size_t)topic_bytes);
        p = put(p + topic_bytes, 2, 1);
        p = put(p, (uint64_t)partition, 4);
        p = put(p, 0, 2);
        p = put(p, (uint64_t)base_offset, 8);
        p = put(p, (uint64_t)-1, 8);
        p = put(p, (uint64_t)start_offset, 8);
        p = put(p, 1, 1);
        p = put(p, 0, 8);
    }
    if (PyErr_Occurred()) {
        Py_DECREF(answers);
        return NULL;
    }
    return answers;
}

static PyMethodDef methods[] = {
    {"write_run_answers", (PyCFunction)(void (*)(void))write_run_answers, METH_FASTCALL,
     "write_run_answers(topic, partition, correlation_ids, base_offsets, start_offset) -> bytes"},
    {"read_run", (PyCFunction)(void (*)(void))read_run, METH_FASTCALL,
     "read_run(data, at, end) -> (after, version, acks, topic, partition, correlation_ids, spans) or None"},
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
    .m_name = "everlog.wire.hot._kernel",
    .m_doc = "Runs of plain produce requests; see produce_run.py for what is promised.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__kernel(void)
{
    return PyModuleDef_Init(&definition);
}
