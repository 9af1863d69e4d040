#ifndef EVERLOG_COLUMNS_RECORD_H
#define EVERLOG_COLUMNS_RECORD_H

/* One record of a batch, read in place. What reader.py refuses is refused here. */

#include <stdint.h>

#include "varint.h"

typedef struct {
    int64_t timestamp_delta, offset_delta, key_bytes, value_bytes, header_count;
    const uint8_t *key, *value, *headers, *end;
} record;

static inline int nullable_at(const uint8_t **at, const uint8_t *end, const uint8_t **field, int64_t *bytes)
{
    if (!read_varint(at, end, 32, bytes) || *bytes < -1 || *bytes > end - *at)
        return 0;
    *field = *at;
    if (*bytes > 0)
        *at += *bytes;
    return 1;
}

/* Read the record at `p`, whatever its kind. Returns 0 if it is bad; headers are looked at later. */
static inline int read_any_record(const uint8_t *p, const uint8_t *end, record *found)
{
    int64_t size;
    if (!read_varint(&p, end, 32, &size) || size < 1 || size > end - p)
        return 0;
    /* Nothing inside may reach beyond the record's own end, so that is the bound from here on. */
    end = found->end = p + size;
    p++; /* attributes, unused */
    if (!read_varint(&p, end, 64, &found->timestamp_delta) || !read_varint(&p, end, 32, &found->offset_delta))
        return 0;
    if (!nullable_at(&p, end, &found->key, &found->key_bytes) ||
        !nullable_at(&p, end, &found->value, &found->value_bytes))
        return 0;
    if (!read_varint(&p, end, 32, &found->header_count) || found->header_count < 0 || found->header_count > end - p)
        return 0;
    found->headers = p;
    return found->header_count || p == end;
}

/* Read a varint of at most three bytes; 0 if it is longer. Three bytes must be there. */
static inline int short_varint(const uint8_t **at, int32_t *value)
{
    const uint8_t *p = *at;
    uint32_t raw = *p++;
    if (raw >= 0x80) {
        raw = (raw & 0x7F) | (uint32_t)(p[0] & 0x7F) << 7;
        if (*p++ >= 0x80) {
            if (p[0] >= 0x80)
                return 0;
            raw |= (uint32_t)*p++ << 14;
        }
    }
    *value = (int32_t)(raw >> 1) ^ -(int32_t)(raw & 1);
    *at = p;
    return 1;
}

/* Read a record of the kind that nearly all are: short varints, no headers. Returns 0 if it is of another kind or
 * bad; read_any_record() then finds out which. */
static inline int read_common_record(const uint8_t *p, const uint8_t *end, record *found)
{
    int32_t size, timestamp_delta, offset_delta, length;
    if (end - p < 16) /* a size, the attributes, two deltas and the length of the key at their longest: 13 */
        return 0;
    if (!short_varint(&p, &size) || size < 6 || size > end - p)
        return 0;
    const uint8_t *record_end = p + size;
    p++; /* attributes, unused */
    if (!short_varint(&p, &timestamp_delta) || !short_varint(&p, &offset_delta))
        return 0;
    for (int field = 0; field < 2; field++) {
        if (record_end - p < 3) {
            /* A null or empty value has two bytes behind the key: its length, the number of headers. */
            if (!(field == 1 && record_end - p == 2 && p[0] <= 1))
                return 0;
            length = -(int32_t)*p++;
        } else if (!short_varint(&p, &length) || length < -1 || length > record_end - p)
            return 0;
        if (field == 0) {
            found->key = p;
            found->key_bytes = length;
        } else {
            found->value = p;
            found->value_bytes = length;
        }
        if (length > 0)
            p += length;
    }
    if (record_end - p != 1 || *p != 0)
        return 0;
    found->timestamp_delta = timestamp_delta;
    found->offset_delta = offset_delta;
    found->header_count = 0;
    found->headers = found->end = record_end;
    return 1;
}

static inline int is_text(const uint8_t *p, const uint8_t *end)
{
    while (p < end) {
        uint8_t first = *p++;
        if (first < 0x80)
            continue;
        int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
        if (first < 0xC2 || first > 0xF4 || end - p < more)
            return 0;
        /* The second byte is bounded where a shorter form, a surrogate or more than U+10FFFF would come out. */
        uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
        uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
        if (*p < low || *p > high)
            return 0;
        for (p++; --more > 0; p++)
            if ((*p & 0xC0) != 0x80)
                return 0;
    }
    return 1;
}

#endif
