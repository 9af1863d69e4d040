#ifndef EVERLOG_COLUMNS_BATCH_H
#define EVERLOG_COLUMNS_BATCH_H

/* The header of a batch, read in place. */

#include <stdint.h>

#define HEADER_BYTES 61

static inline int64_t big_endian(const uint8_t *p, int bytes)
{
    uint64_t value = 0;
    for (int at = 0; at < bytes; at++)
        value = value << 8 | p[at];
    return (int64_t)value;
}

/* What a batch takes as its header has it, which may be less than a header; that much must be there to be read. */
static inline int64_t batch_bytes(const uint8_t *p)
{
    return (int64_t)(int32_t)big_endian(p + 8, 4) + 12;
}

#endif
