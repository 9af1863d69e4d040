#ifndef EVERLOG_VARINT_H
#define EVERLOG_VARINT_H

#include <stdint.h>

/* Read a zigzag varint of at most `bits` bits at *at. Returns 0 and leaves *at anywhere if there is none. */
static inline int read_varint(const uint8_t **at, const uint8_t *end, int bits, int64_t *value)
{
    const uint8_t *p = *at;
    uint64_t raw = 0;
    for (int shift = 0; shift < bits; shift += 7) {
        if (p >= end)
            return 0;
        uint64_t byte = *p++;
        uint64_t low = byte & 0x7F;
        /* The last byte may only hold the bits that are left: 4 of 32, 1 of 64. */
        if (shift + 7 > bits && low >> (bits - shift))
            return 0;
        raw |= low << shift;
        if (byte < 0x80) {
            *value = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
            *at = p;
            return 1;
        }
    }
    return 0;
}

#endif
