#ifndef EVERLOG_ROWS_H
#define EVERLOG_ROWS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

#define HEADER_BYTES 61
#define MAX_SECTION_BYTES ((Py_ssize_t)INT32_MAX - HEADER_BYTES)

#define SEND_NAMES 7

/* What the module has at hand: its types, and what it leaves to Python because it is done once a batch. */
typedef struct {
    PyTypeObject *buffer_type;
    PyTypeObject *record_type;
    PyTypeObject *inlet_type;
    PyTypeObject *run_type;
    PyObject *version_name, *paused_name, *position_name, *epoch_name; /* of a partition's state */
    PyTypeObject *short_way_type;
    PyObject *no_headers; /* the empty tuple, shared by all records without headers */
    PyObject *raw_name;   /* "raw" */
    PyObject *seal;
    PyObject *split;
    PyObject *decompress;
    PyObject *read_plainly; /* says what is wrong with a batch */
    PyObject *rebuild;      /* for pickles; looked up when first needed */
    PyObject *names[SEND_NAMES]; /* of send()'s arguments, interned */
} rows_state;

/* Bytes that grow. */
typedef struct {
    uint8_t *data;
    Py_ssize_t used, room;
} growing;

/* The records of one batch, encoded. They lie in a bytearray behind room for a header, so that the batch can
 * be sealed where it is. */
typedef struct {
    PyObject_HEAD
    PyObject *store; /* NULL while there is none */
    growing section; /* within it, and only to be written to while it is not lent */
    int lent;        /* whether somebody else has the store, who may have changed it */
    int64_t base_timestamp, max_timestamp;
    int64_t count;
} batch_buffer;

/* What a key, a value or a header's value lends for the time of one call. */
typedef struct {
    const uint8_t *data;
    Py_ssize_t size; /* -1 for None */
    Py_buffer view;
    int lent;
} field;

int everlog_take_field(PyObject *object, const char *name, field *taken);

static inline void release_field(field *taken)
{
    if (taken->lent)
        PyBuffer_Release(&taken->view);
}

/* A record of which all is at hand, so that nothing but memory is missing to append it. */
typedef struct {
    field key, value;
    growing headers; /* encoded with their number in front; without bytes if there are none */
} prepared;

/* Returns -1 with an exception if a field is of the wrong kind; nothing is to be released then. */
int everlog_prepare(PyObject *key, PyObject *value, PyObject *headers, prepared *record);
void everlog_release(prepared *record);
#define OVER_LIMIT -2
/* Append a record; returns its number, -1 with an exception, or OVER_LIMIT if the records would have more
 * than `limit` bytes. Nothing is changed then. Runs no Python code. */
int64_t everlog_append(batch_buffer *buffer, const prepared *record, int64_t timestamp, Py_ssize_t limit);
/* Return 0 and the timestamp, or -1 with an exception. */
int everlog_timestamp(PyObject *object, int64_t *timestamp);
uint32_t everlog_murmur2(const uint8_t *data, Py_ssize_t size);

int everlog_add_buffer_type(PyObject *module, rows_state *state);
int everlog_add_record_type(PyObject *module, rows_state *state);
int everlog_add_inlet_types(PyObject *module, rows_state *state);
int everlog_add_run_type(PyObject *module, rows_state *state);
/* Return 0 and where a ConsumerRecord lies, or -1 with an exception if it is none. */
int everlog_row_place(PyObject *row, rows_state *state, int64_t *offset, int32_t *leader_epoch);
PyObject *everlog_ticket_type(PyObject *module, PyObject *ignored);
PyObject *everlog_tell_delivered(PyObject *module, PyObject *args);
PyObject *everlog_read_rows(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *everlog_read_run(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

static inline int varint_bytes(int64_t value)
{
    uint64_t raw = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    return raw < 0x80 ? 1 : (70 - __builtin_clzll(raw)) / 7;
}

static inline uint8_t *put_varint(uint8_t *at, int64_t value)
{
    uint64_t raw = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    while (raw > 0x7F) {
        *at++ = (uint8_t)(raw | 0x80);
        raw >>= 7;
    }
    *at++ = (uint8_t)raw;
    return at;
}

static inline uint64_t big_endian(const uint8_t *p, int bytes)
{
    uint64_t value = 0;
    for (int at = 0; at < bytes; at++)
        value = value << 8 | p[at];
    return value;
}

/* The name of an object's type, as a new reference, for an error's words. */
static inline PyObject *type_name(PyObject *object) { return PyType_GetName(Py_TYPE(object)); }

#endif
