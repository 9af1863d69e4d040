/* The compiled twins of key_scan.py: the last offset of every key, and the records that compaction keeps.
 *
 * The table is a buffer that Python owns: slots of 24 bytes, open addressing. A slot holds 128 bits of
 * SipHash-2-4 of the key, under a seed that nobody outside knows, and the key's last offset plus one; an
 * offset of 0 is an empty slot. Any records that the plain twin refuses these refuse, at the same record.
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "varint.h"

#define UNLOCK_BYTES (8 * 1024)

typedef struct {
    uint64_t low, high;
    int64_t next; /* the key's last offset plus one; 0 if the slot is free */
} slot;

typedef struct {
    slot *slots;
    uint64_t count;
    uint64_t seed[2];
} table;

typedef struct {
    const uint8_t *start, *end;
    const uint8_t *behind_timestamp;
    const uint8_t *key;
    int64_t timestamp_delta, offset_delta;
    int64_t key_bytes, value_bytes; /* -1 for null */
} record;

typedef struct {
    const uint8_t *at, *end;
    int64_t count, base_offset, last_delta;
} section;

static inline uint8_t *write_varint(uint8_t *p, int64_t value)
{
    uint64_t raw = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    while (raw >= 0x80) {
        *p++ = (uint8_t)(raw | 0x80);
        raw >>= 7;
    }
    *p++ = (uint8_t)raw;
    return p;
}

static inline int field_at(const uint8_t **at, const uint8_t *end, int64_t *length)
{
    return read_varint(at, end, 32, length) && *length >= -1 && *length <= end - *at;
}

/* Read the record at *at, whose offset delta must be above `last` and in the batch. Returns 0 if it is bad. */
static inline int read_record(const uint8_t **at, const section *in, int64_t last, record *found)
{
    int64_t size;
    const uint8_t *p = *at;
    found->start = p;
    if (!read_varint(&p, in->end, 32, &size) || size < 1 || size > in->end - p)
        return 0;
    const uint8_t *end = found->end = p + size;
    p++; /* attributes, unused */
    if (!read_varint(&p, end, 64, &found->timestamp_delta))
        return 0;
    found->behind_timestamp = p;
    if (!read_varint(&p, end, 32, &found->offset_delta) || found->offset_delta <= last ||
        found->offset_delta > in->last_delta)
        return 0;
    if (!field_at(&p, end, &found->key_bytes))
        return 0;
    found->key = p;
    p += found->key_bytes > 0 ? found->key_bytes : 0;
    if (!field_at(&p, end, &found->value_bytes))
        return 0;
    *at = end;
    return 1;
}

#define ROTATE(x, b) (((x) << (b)) | ((x) >> (64 - (b))))
#define ROUND                                                                                                \
    do {                                                                                                     \
        v0 += v1; v1 = ROTATE(v1, 13); v1 ^= v0; v0 = ROTATE(v0, 32);                                        \
        v2 += v3; v3 = ROTATE(v3, 16); v3 ^= v2;                                                             \
        v0 += v3; v3 = ROTATE(v3, 21); v3 ^= v0;                                                             \
        v2 += v1; v1 = ROTATE(v1, 17); v1 ^= v2; v2 = ROTATE(v2, 32);                                        \
    } while (0)

/* SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, 2012). */
static inline void hash_key(const uint64_t seed[2], const uint8_t *key, size_t length, uint64_t out[2])
{
    uint64_t v0 = 0x736f6d6570736575ULL ^ seed[0], v1 = 0x646f72616e646f6dULL ^ seed[1] ^ 0xee;
    uint64_t v2 = 0x6c7967656e657261ULL ^ seed[0], v3 = 0x7465646279746573ULL ^ seed[1];
    uint64_t word, last = (uint64_t)length << 56;
    const uint8_t *end = key + (length & ~(size_t)7);
    for (; key < end; key += 8) {
        memcpy(&word, key, 8);
        v3 ^= word;
        ROUND;
        ROUND;
        v0 ^= word;
    }
    for (size_t left = length & 7; left > 0; left--)
        last |= (uint64_t)key[left - 1] << (8 * (left - 1));
    v3 ^= last;
    ROUND;
    ROUND;
    v0 ^= last;
    v2 ^= 0xee;
    for (int i = 0; i < 4; i++)
        ROUND;
    out[0] = v0 ^ v1 ^ v2 ^ v3;
    v1 ^= 0xdd;
    for (int i = 0; i < 4; i++)
        ROUND;
    out[1] = v0 ^ v1 ^ v2 ^ v3;
}

/* The slot of a key, or the free one that it would take. There is always a free one. */
static inline slot *find_slot(const table *keys, const record *found)
{
    uint64_t hash[2];
    hash_key(keys->seed, found->key, (size_t)found->key_bytes, hash);
    uint64_t at = (uint64_t)(((unsigned __int128)hash[0] * keys->count) >> 64);
    for (;;) {
        slot *candidate = &keys->slots[at];
        if (candidate->next == 0 || (candidate->low == hash[0] && candidate->high == hash[1])) {
            if (candidate->next == 0) {
                candidate->low = hash[0];
                candidate->high = hash[1];
            }
            return candidate;
        }
        at = at + 1 == keys->count ? 0 : at + 1;
    }
}

/* Take the records' keys in while there is room; *taken counts records, *added new keys. Returns 0 if record
 * *taken is bad. */
static int add_records(const table *keys, const section *in, int64_t room, int64_t *taken, int64_t *added)
{
    const uint8_t *at = in->at;
    record found;
    int64_t last = -1;
    for (*taken = *added = 0; *taken < in->count; ++*taken) {
        if (!read_record(&at, in, last, &found))
            return 0;
        last = found.offset_delta;
        if (found.key_bytes < 0)
            continue; /* from before the topic was compacted; it has no last value to keep */
        slot *place = find_slot(keys, &found);
        if (place->next == 0) {
            if (*added >= room)
                return 1;
            ++*added;
        }
        if (place->next <= in->base_offset + last)
            place->next = in->base_offset + last + 1;
    }
    return at == in->end;
}

typedef struct {
    int64_t kept, tombstones, max_delta, bad;
    uint8_t *out; /* NULL if every record is kept as it is */
    size_t out_bytes;
} sifted;

typedef struct {
    int64_t latest; /* records behind this offset are kept as they are */
    int drop_tombstones;
    int64_t shift; /* added to timestamp deltas; 0 leaves the records' bytes as they are */
} rule;

static inline int is_kept(const table *keys, const section *in, const rule *by, const record *found)
{
    int64_t offset = in->base_offset + found->offset_delta;
    if (offset > by->latest)
        return 1;
    if (found->key_bytes < 0 || (found->value_bytes < 0 && by->drop_tombstones))
        return 0;
    return find_slot(keys, found)->next <= offset + 1;
}

/* Put a record out with another timestamp delta; returns NULL if that has no 64 bits. */
static uint8_t *write_shifted(uint8_t *out, const record *found, int64_t shift)
{
    uint8_t delta[10];
    int64_t timestamp;
    if (__builtin_add_overflow(found->timestamp_delta, shift, &timestamp))
        return NULL;
    size_t delta_bytes = (size_t)(write_varint(delta, timestamp) - delta);
    size_t rest = (size_t)(found->end - found->behind_timestamp);
    out = write_varint(out, (int64_t)(1 + delta_bytes + rest));
    *out++ = 0;
    memcpy(out, delta, delta_bytes);
    memcpy(out + delta_bytes, found->behind_timestamp, rest);
    return out + delta_bytes + rest;
}

/* Find the records that are kept, and put them out if that changes any byte. Returns 0 without memory. */
static int sift_records(const table *keys, const section *in, const rule *by, sifted *result)
{
    const uint8_t *at = in->at, *run = in->at;
    uint8_t *out = NULL;
    record found;
    int64_t last = -1;
    *result = (sifted){.bad = -1};
    if (by->shift && !(out = result->out = malloc((size_t)(in->end - in->at) + 16 * (size_t)in->count + 1)))
        return 0;
    for (int64_t index = 0; index < in->count; index++) {
        if (!read_record(&at, in, last, &found)) {
            result->bad = index;
            return 1;
        }
        last = found.offset_delta;
        if (!is_kept(keys, in, by, &found)) {
            if (!out && !(out = result->out = malloc((size_t)(in->end - in->at) + 1)))
                return 0;
            if (!by->shift) {
                memcpy(out, run, (size_t)(found.start - run));
                out += found.start - run;
                run = found.end;
            }
            continue;
        }
        if (!result->kept++ || found.timestamp_delta > result->max_delta)
            result->max_delta = found.timestamp_delta;
        result->tombstones += found.value_bytes < 0;
        if (by->shift && !(out = write_shifted(out, &found, by->shift))) {
            result->bad = index;
            return 1;
        }
    }
    if (at != in->end)
        result->bad = in->count;
    if (out && !by->shift) {
        memcpy(out, run, (size_t)(at - run));
        out += at - run;
    }
    result->out_bytes = out ? (size_t)(out - result->out) : 0;
    return 1;
}

typedef struct {
    Py_buffer table, seed, records;
    table keys;
    section in;
} request;

static void close_request(request *asked)
{
    PyBuffer_Release(&asked->table);
    PyBuffer_Release(&asked->seed);
    PyBuffer_Release(&asked->records);
}

/* Take apart (table, seed, records, count, base_offset, last_delta), which all calls begin with. */
static int open_request(PyObject *const *args, request *asked)
{
    if (PyObject_GetBuffer(args[0], &asked->table, PyBUF_WRITABLE) < 0)
        return 0;
    if (PyObject_GetBuffer(args[1], &asked->seed, PyBUF_SIMPLE) < 0) {
        PyBuffer_Release(&asked->table);
        return 0;
    }
    if (PyObject_GetBuffer(args[2], &asked->records, PyBUF_SIMPLE) < 0) {
        PyBuffer_Release(&asked->table);
        PyBuffer_Release(&asked->seed);
        return 0;
    }
    asked->keys.slots = asked->table.buf;
    asked->keys.count = (uint64_t)asked->table.len / sizeof(slot);
    asked->in.at = asked->records.buf;
    asked->in.end = asked->in.at + asked->records.len;
    asked->in.count = PyLong_AsLongLong(args[3]);
    asked->in.base_offset = PyLong_AsLongLong(args[4]);
    asked->in.last_delta = PyLong_AsLongLong(args[5]);
    if (PyErr_Occurred()) {
        close_request(asked);
        return 0;
    }
    if (asked->seed.len != sizeof(asked->keys.seed) || !asked->keys.count ||
        (uintptr_t)asked->keys.slots % sizeof(uint64_t) || asked->in.count < 0 ||
        asked->in.count > asked->records.len) {
        close_request(asked);
        PyErr_SetString(PyExc_ValueError, "a seed of 16 bytes, a table of 24 a slot, or a count is wrong");
        return 0;
    }
    memcpy(asked->keys.seed, asked->seed.buf, sizeof(asked->keys.seed));
    return 1;
}

PyObject *everlog_add_keys(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    request asked;
    int64_t taken, added;
    int good;
    if (nargs != 7) {
        PyErr_SetString(PyExc_TypeError, "add_keys() takes seven arguments");
        return NULL;
    }
    int64_t room = PyLong_AsLongLong(args[6]);
    if ((room == -1 && PyErr_Occurred()) || !open_request(args, &asked))
        return NULL;
    if (asked.records.len >= UNLOCK_BYTES) {
        Py_BEGIN_ALLOW_THREADS
        good = add_records(&asked.keys, &asked.in, room, &taken, &added);
        Py_END_ALLOW_THREADS
    } else {
        good = add_records(&asked.keys, &asked.in, room, &taken, &added);
    }
    close_request(&asked);
    return Py_BuildValue("LLO", (long long)taken, (long long)added, good ? Py_True : Py_False);
}

PyObject *everlog_sift_records(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    request asked;
    sifted result;
    int good;
    if (nargs != 9) {
        PyErr_SetString(PyExc_TypeError, "sift_records() takes nine arguments");
        return NULL;
    }
    rule by = {.latest = PyLong_AsLongLong(args[6]),
               .drop_tombstones = PyObject_IsTrue(args[7]),
               .shift = PyLong_AsLongLong(args[8])};
    if (PyErr_Occurred() || !open_request(args, &asked))
        return NULL;
    if (asked.records.len >= UNLOCK_BYTES) {
        Py_BEGIN_ALLOW_THREADS
        good = sift_records(&asked.keys, &asked.in, &by, &result);
        Py_END_ALLOW_THREADS
    } else {
        good = sift_records(&asked.keys, &asked.in, &by, &result);
    }
    close_request(&asked);
    PyObject *answer = NULL;
    if (!good)
        PyErr_NoMemory();
    else if (result.out && result.bad < 0)
        answer = Py_BuildValue("LLLy#L", (long long)result.kept, (long long)result.tombstones,
                               (long long)result.max_delta, result.out, (Py_ssize_t)result.out_bytes,
                               (long long)result.bad);
    else
        answer = Py_BuildValue("LLLOL", (long long)result.kept, (long long)result.tombstones,
                               (long long)result.max_delta, Py_None, (long long)result.bad);
    free(result.out);
    return answer;
}
