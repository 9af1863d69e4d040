/* Produce requests of the plainest kind, and the answers to them, as bytes.
 *
 * One batch for one partition of one topic, no transactional id, no tagged fields: what nearly every producer
 * sends. Whatever is of another kind or damaged is not read here but by produce.py, which is the reference and
 * says what is wrong.
 */
#ifndef EVERLOG_PLAIN_PRODUCE_H
#define EVERLOG_PLAIN_PRODUCE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FIRST_FLEXIBLE 9
#define FIRST_WITH_TOPIC_ID 13
#define LAST_VERSION 13
#define TOPIC_ID_BYTES 16
#define LONGEST_NAME 126 /* whose length has one byte on the wire */

typedef struct {
    int version, acks;
    const uint8_t *topic; /* the name without its length, or the id */
    ptrdiff_t topic_bytes;
    int32_t partition, correlation_id;
    const uint8_t *batch, *batch_end, *after;
} plain_request;

static inline int32_t int32_at(const uint8_t *p)
{
    return (int32_t)((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]);
}

static inline int int16_at(const uint8_t *p)
{
    return (int16_t)(p[0] << 8 | p[1]);
}

/* Read the whole frame at `p`, size field included. Returns 0 if it is not whole or not of the plain kind. */
static inline int read_request(const uint8_t *p, const uint8_t *end, plain_request *found)
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
    if (length == 0 || (ptrdiff_t)length - 1 + 3 != end - p)
        return 0;
    found->batch = p;
    found->batch_end = p + length - 1;
    found->after = end;
    return !(found->batch_end[0] | found->batch_end[1] | found->batch_end[2]);
}

static inline int same_place(const plain_request *a, const plain_request *b)
{
    return a->version == b->version && a->acks == b->acks && a->partition == b->partition &&
           a->topic_bytes == b->topic_bytes && !memcmp(a->topic, b->topic, (size_t)a->topic_bytes);
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

/* Write the answer to a request that went well; `topic` is as it is on the wire. Returns where it ends. */
static inline uint8_t *put_answer(uint8_t *p, int32_t correlation_id, const uint8_t *topic, ptrdiff_t topic_bytes,
                                  int32_t partition, int64_t base_offset, int64_t start_offset)
{
    p = put(p, (uint64_t)(BEFORE_TOPIC + topic_bytes + BEHIND_TOPIC - 4), 4);
    p = put(p, (uint64_t)correlation_id, 4);
    p = put(p, 2, 2);
    memcpy(p, topic, (size_t)topic_bytes);
    p = put(p + topic_bytes, 2, 1);
    p = put(p, (uint64_t)partition, 4);
    p = put(p, 0, 2);
    p = put(p, (uint64_t)base_offset, 8);
    p = put(p, (uint64_t)-1, 8);
    p = put(p, (uint64_t)start_offset, 8);
    p = put(p, 1, 1);
    return put(p, 0, 8);
}

#endif
