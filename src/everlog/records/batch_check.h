/* What a record batch of the plainest kind must satisfy, record by record.
 *
 * skim_records() is the twin of skim_plainly() in skim.py, which is the reference: any bytes that one refuses
 * the other refuses, at the same record. Only the reference says why; here a bad record is a position.
 */
#ifndef EVERLOG_BATCH_CHECK_H
#define EVERLOG_BATCH_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "varint.h"

typedef struct {
    int64_t max_timestamp;
    int64_t max_delta; /* offset delta of the first record with max_timestamp; -1 without records */
    int64_t bad;       /* number of the first bad record, `count` for bytes left over; -1 if all is well */
    ptrdiff_t bad_at; /* where that record begins */
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
static inline int check_record(const uint8_t **at, const uint8_t *end, int64_t index, int64_t *timestamp_delta,
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
        if (length & 1 || (ptrdiff_t)(length >> 1) > record_end - p)
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

static inline void skim_records(const uint8_t *start, const uint8_t *end, int64_t count, int64_t base_timestamp,
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
static inline int check_batch(const uint8_t *p, ptrdiff_t size, batch_header *header, int *null_keys)
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

#endif
