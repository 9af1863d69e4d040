/* A lane: where the next plain batches of one log go while nothing else happens to it.
 *
 * It holds in plain numbers what an append asks of a log and what it changes. The log takes the changes in later,
 * all at once, whenever somebody looks at it (`PartitionLog._catch_up`), so the lane is ahead of it by `pending`
 * batches: those are in the file and may be acknowledged.
 */
#ifndef EVERLOG_LANE_H
#define EVERLOG_LANE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>

#include "../ports/appender.h"

#define MOST_PENDING 128
#define MOST_PRODUCERS 8

typedef struct {
    int64_t position, base_offset, max_timestamp, producer_id;
    int32_t size, last_offset_delta, base_sequence, producer_epoch;
} lane_batch;

typedef struct {
    int64_t id;
    int32_t epoch, next_sequence;
} lane_producer;

typedef struct {
    PyObject_HEAD
    PyObject *file;             /* the port, which appends where nothing is lent */
    PyObject *lent;             /* a capsule with `appender`, or None */
    file_appender *appender;
    char open;                  /* whether the numbers below are those of the log's end */
    int pending;                /* batches that the log does not know of yet */
    int refuses_null_keys;
    int64_t room;               /* how many more it may take before its log has to open it anew */
    int64_t position, end_offset;
    int64_t wall;               /* when the newest pending batch came */
    int64_t leader_epoch;
    int64_t position_limit;     /* no batch may end behind it */
    int64_t offset_limit;       /* no offset may be above it */
    int64_t batch_limit;
    int64_t after_max_ms;       /* how far a timestamp may lie ahead of the clock */
    int64_t roll_after, roll_at_wall;
    int producer_count;
    lane_producer producers[MOST_PRODUCERS];
    lane_batch batches[MOST_PENDING];
} lane;

extern PyType_Spec everlog_lane_spec;

/* How many batches the lane may take now. */
static inline int room_now(const lane *self)
{
    int most = MOST_PENDING - self->pending;
    return self->room < most ? (int)self->room : most;
}

/* The producer's place in the lane; NULL if it was not admitted. */
static inline lane_producer *find_producer(lane *self, int64_t id)
{
    for (int at = 0; at < self->producer_count; at++)
        if (self->producers[at].id == id)
            return &self->producers[at];
    return NULL;
}

#endif
