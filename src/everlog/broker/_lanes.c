/* Plain produce requests, from the bytes that one read of a socket brought to the answers: read, checked, given
 * their offsets, appended. Plain C against the limited API of Python 3.11.
 *
 * take() does what handlers/produce.py does for requests of the plainest kind whose log has a lane open (lane.h),
 * and for no others: whatever is of another kind, refused, repeated or late, or needs a segment, an epoch or a
 * producer that the lane does not know, ends it, and the Python way does it and says what is wrong. It works on
 * the broker's own objects, so it holds no state that could be out of date.
 */

#include "lane.h"

#include <string.h>

#include "../records/batch_check.h"
#include "../twin.h"
#include "../wire/hot/plain_produce.h"

#define MOST_IN_RUN 64
#define MOST_AT_ONCE 256 /* requests that are taken before others may have their turn */
#define CRC_START 21
#define ALL_IN_SYNC (-1)
#define TOPIC_BYTES (LONGEST_NAME + 1)
#define ANSWER_BYTES (BEFORE_TOPIC + TOPIC_BYTES + BEHIND_TOPIC)

static PyObject *LEADS, *INTERNAL, *LOG, *LEADING, *ISR, *MIN_INSYNC, *LEADER_EPOCH, *WATCHERS, *LANE, *FAILURE,
    *START_OFFSET, *APPEND;
static PyObject *checksum; /* crc32c of the package */
static PyTypeObject *lane_type;

typedef struct {
    PyObject *by_name, *by_id;
    const uint8_t *start, *end; /* of the data */
    const uint8_t *next;        /* the first request that is not taken */
    int64_t wall;
    PyObject *noted;            /* what Python has to look after, NULL if nothing */
    PyObject *stuck;            /* whose lane has to be opened for the request at `next`, NULL if none */
    uint8_t *out;               /* where the next answer goes, in `answers` */
    int taken;
    uint8_t answers[MOST_AT_ONCE * ANSWER_BYTES];
} taking;

/* A run: requests that follow each other for one partition, and the objects of that partition. */
typedef struct {
    plain_request requests[MOST_IN_RUN];
    batch_header headers[MOST_IN_RUN];
    struct iovec pieces[MOST_IN_RUN];
    int count;
    PyObject *replica, *log, *leading;
    lane *lane;
} run;

static int number_of(PyObject *object, PyObject *name, int64_t *number)
{
    PyObject *found = PyObject_GetAttr(object, name);
    if (!found)
        return 0;
    *number = PyLong_AsLongLong(found);
    Py_DECREF(found);
    return !(*number == -1 && PyErr_Occurred());
}

/* 1 or 0 as Python sees it, -1 with an error set. */
static int truth_of(PyObject *object, PyObject *name)
{
    PyObject *found = PyObject_GetAttr(object, name);
    if (!found)
        return -1;
    int truth = PyObject_IsTrue(found);
    Py_DECREF(found);
    return truth;
}

/* The replica that a request is for, a new reference; NULL without an error if it is not here. */
static PyObject *find_replica(const taking *all, const plain_request *request)
{
    int by_id = request->version >= FIRST_WITH_TOPIC_ID;
    PyObject *topic = by_id ? PyBytes_FromStringAndSize((const char *)request->topic, request->topic_bytes)
                            : PyUnicode_DecodeUTF8((const char *)request->topic, request->topic_bytes, NULL);
    if (!topic) {
        PyErr_Clear(); /* Not UTF-8: the general way puts that into words. */
        return NULL;
    }
    PyObject *held = PyDict_GetItemWithError(by_id ? all->by_id : all->by_name, topic);
    Py_DECREF(topic);
    PyObject *number = held ? PyLong_FromLong(request->partition) : NULL;
    PyObject *replica = number ? PyDict_GetItemWithError(held, number) : NULL;
    Py_XDECREF(number);
    return Py_XNewRef(replica);
}

/* Whether the replica takes records here and now, as far as that does not depend on the batch. -1 with an error. */
static int may_append(const taking *all, run *one)
{
    const plain_request *request = &one->requests[0];
    int leads = truth_of(one->replica, LEADS), internal = truth_of(one->replica, INTERNAL);
    if (leads < 0 || internal < 0)
        return -1;
    if (!leads || internal || (request->acks != 1 && request->acks != ALL_IN_SYNC))
        return 0;
    if (!(one->log = PyObject_GetAttr(one->replica, LOG)) || !(one->leading = PyObject_GetAttr(one->replica, LEADING)))
        return -1;
    if (one->log == Py_None)
        return 0;
    /* What others copy is told to Python by itself, so nothing may be gathered before it. */
    if (one->leading != Py_None && all->taken)
        return 0;
    if (request->acks == ALL_IN_SYNC) {
        int64_t wanted, in_sync = 1;
        if (!number_of(one->replica, MIN_INSYNC, &wanted))
            return -1;
        if (wanted > 1 && one->leading != Py_None) {
            PyObject *isr = PyObject_GetAttr(one->leading, ISR);
            in_sync = isr ? PyObject_Size(isr) : -1;
            Py_XDECREF(isr);
            if (in_sync < 0)
                return -1;
        }
        if (wanted > in_sync)
            return 0;
    }
    PyObject *failure = PyObject_GetAttr(one->log, FAILURE);
    Py_XDECREF(failure);
    return failure ? failure == Py_None : -1;
}

/* Whether the lane can take the first batch as far as the log's state goes; if not, it is what we are stuck at. */
static int find_lane(taking *all, run *one)
{
    const uint8_t *batch = one->requests[0].batch;
    if (one->requests[0].batch_end - batch < HEADER_BYTES || big_endian(batch + 21, 2))
        return 0; /* compressed, or of a transaction: a lane would not help */
    PyObject *found = PyObject_GetAttr(one->log, LANE);
    int64_t epoch, producer_id = (int64_t)big_endian(batch + 43, 8);
    if (!found || !number_of(one->replica, LEADER_EPOCH, &epoch)) {
        Py_XDECREF(found);
        return -1;
    }
    if (Py_TYPE(found) == lane_type) {
        lane *way = (lane *)found;
        if (way->open && way->leader_epoch == epoch && room_now(way) > 0 &&
            (producer_id < 0 || find_producer(way, producer_id))) {
            one->lane = way;
            return 1;
        }
    }
    Py_DECREF(found);
    all->stuck = Py_BuildValue("OL", one->replica, (long long)producer_id);
    return all->stuck ? 0 : -1;
}

/* Take in the requests behind the first that are for the same partition, as many as the lane has room for. */
static void gather(const taking *all, run *one)
{
    int most = room_now(one->lane);
    if (most > MOST_IN_RUN)
        most = MOST_IN_RUN;
    if (most > MOST_AT_ONCE - all->taken)
        most = MOST_AT_ONCE - all->taken;
    const plain_request *requests = one->requests;
    for (one->count = 1; one->count < most; one->count++)
        if (!read_request(requests[one->count - 1].after, all->end, &one->requests[one->count]) ||
            !same_place(&requests[0], &requests[one->count]))
            break;
}

/* Whether the checksum is that of the batch. -1 with an error. */
static int is_whole(const plain_request *request, const batch_header *header)
{
    PyObject *view = PyMemoryView_FromMemory((char *)request->batch + CRC_START,
                                             request->batch_end - request->batch - CRC_START, PyBUF_READ);
    PyObject *found = view ? PyObject_CallFunctionObjArgs(checksum, view, NULL) : NULL;
    Py_XDECREF(view);
    if (!found)
        return -1;
    int is_same = PyLong_AsUnsignedLong(found) == header->crc;
    Py_DECREF(found);
    return PyErr_Occurred() ? -1 : is_same;
}

/* Count the batches, from the first on, that may be appended as they are. -1 with an error. */
static int check_run(const taking *all, run *one)
{
    lane *way = one->lane;
    int64_t position = way->position, end_offset = way->end_offset;
    /* The numbers that are expected next, by producer; most runs have one. */
    lane_producer expected[MOST_PRODUCERS];
    memcpy(expected, way->producers, sizeof expected);
    int64_t newest;
    if (__builtin_add_overflow(all->wall, way->after_max_ms, &newest))
        newest = INT64_MAX;
    if (all->wall > way->roll_at_wall)
        return 0;
    for (int at = 0; at < one->count; at++) {
        const plain_request *request = &one->requests[at];
        batch_header *header = &one->headers[at];
        ptrdiff_t size = request->batch_end - request->batch;
        int null_keys = 0;
        if (size > way->batch_limit || size > way->position_limit - position ||
            !check_batch(request->batch, size, header, &null_keys) || (null_keys && way->refuses_null_keys) ||
            header->max_timestamp > newest || header->max_timestamp > way->roll_after ||
            end_offset + header->last_offset_delta > way->offset_limit)
            return at;
        if (header->producer_id >= 0) {
            const lane_producer *found = find_producer(way, header->producer_id);
            if (!found)
                return at;
            lane_producer *next = &expected[found - way->producers];
            if (header->producer_epoch != next->epoch || header->base_sequence != next->next_sequence)
                return at;
            next->next_sequence = (int32_t)(((uint32_t)header->base_sequence + (uint32_t)header->count) & 0x7FFFFFFF);
        }
        int whole = is_whole(request, header);
        if (whole <= 0)
            return whole < 0 ? -1 : at;
        position += size;
        end_offset += header->last_offset_delta + 1;
    }
    return one->count;
}

static void stamp(const run *one, int64_t base_offset, int64_t epoch)
{
    for (int at = 0; at < one->count; at++) {
        uint8_t *batch = (uint8_t *)one->requests[at].batch;
        put_big_endian(batch, (uint64_t)base_offset, 8);
        put_big_endian(batch + 12, (uint64_t)epoch, 4);
        base_offset += one->headers[at].last_offset_delta + 1;
    }
}

/* Make the batches as they came, for whoever looks at them one by one. */
static void take_stamps_back(const run *one)
{
    for (int at = 0; at < one->count; at++)
        put_big_endian((uint8_t *)one->requests[at].batch, 0, 8);
}

/* Let the port append the batches: what simulated files have. 1 if it did, 0 if the disk refused, -1 with an error. */
static int append_by_port(const run *one)
{
    PyObject *views = PyList_New(one->count);
    for (int at = 0; views && at < one->count; at++) {
        PyObject *view = PyMemoryView_FromMemory(one->pieces[at].iov_base, (Py_ssize_t)one->pieces[at].iov_len,
                                                 PyBUF_READ);
        if (!view || PyList_SetItem(views, at, view) < 0)
            Py_CLEAR(views);
    }
    PyObject *position = views ? PyObject_CallMethodObjArgs(one->lane->file, APPEND, views, NULL) : NULL;
    Py_XDECREF(views);
    if (position) {
        Py_DECREF(position);
        return 1;
    }
    if (!PyErr_ExceptionMatches(PyExc_OSError))
        return -1;
    PyErr_Clear(); /* The Python way tries again, and tells. */
    return 0;
}

static int append_run(run *one)
{
    lane *way = one->lane;
    for (int at = 0; at < one->count; at++) {
        const plain_request *request = &one->requests[at];
        one->pieces[at] = (struct iovec){(void *)request->batch, (size_t)(request->batch_end - request->batch)};
    }
    stamp(one, way->end_offset, way->leader_epoch);
    int appended;
    if (way->appender) {
        Py_BEGIN_ALLOW_THREADS
        appended = !way->appender->append(way->appender, one->pieces, one->count, way->position);
        Py_END_ALLOW_THREADS
    } else {
        appended = append_by_port(one);
    }
    if (appended <= 0)
        take_stamps_back(one);
    return appended;
}

/* Note in the lane what is in the file now, and write the answers. Returns the bytes of the batches. */
static int64_t account(taking *all, run *one, int64_t start_offset)
{
    lane *way = one->lane;
    const plain_request *first = &one->requests[0];
    uint8_t topic[TOPIC_BYTES];
    ptrdiff_t topic_bytes = first->topic_bytes;
    if (first->version >= FIRST_WITH_TOPIC_ID) {
        memcpy(topic, first->topic, (size_t)topic_bytes);
    } else {
        topic[0] = (uint8_t)(topic_bytes + 1);
        memcpy(topic + 1, first->topic, (size_t)topic_bytes++);
    }
    int64_t began_at = way->position;
    for (int at = 0; at < one->count; at++) {
        const plain_request *request = &one->requests[at];
        const batch_header *header = &one->headers[at];
        int32_t size = (int32_t)(request->batch_end - request->batch);
        way->batches[way->pending++] = (lane_batch){
            way->position, way->end_offset,           header->max_timestamp,  header->producer_id,
            size,          header->last_offset_delta, header->base_sequence, header->producer_epoch};
        if (header->producer_id >= 0)
            find_producer(way, header->producer_id)->next_sequence =
                (int32_t)(((uint32_t)header->base_sequence + (uint32_t)header->count) & 0x7FFFFFFF);
        all->out = put_answer(all->out, request->correlation_id, topic, topic_bytes, request->partition,
                              way->end_offset, start_offset);
        way->position += size;
        way->end_offset += header->last_offset_delta + 1;
    }
    way->room -= one->count;
    way->wall = all->wall;
    all->taken += one->count;
    all->next = one->requests[one->count - 1].after;
    return way->position - began_at;
}

/* What Python has to look after once a run is in the log: who waits for records, and who copies them. */
static int note(taking *all, const run *one, int64_t bytes)
{
    const plain_request *first = &one->requests[0];
    PyObject *ids = PyTuple_New(one->count);
    for (int at = 0; ids && at < one->count; at++) {
        PyObject *id = PyLong_FromLong(one->requests[at].correlation_id);
        if (!id || PyTuple_SetItem(ids, at, id) < 0)
            Py_CLEAR(ids);
    }
    if (!all->noted)
        all->noted = PyList_New(0);
    PyObject *entry = ids && all->noted
                          ? Py_BuildValue("OLiiO", one->replica, (long long)bytes, first->acks, first->version, ids)
                          : NULL;
    int noted = entry ? PyList_Append(all->noted, entry) : -1;
    Py_XDECREF(entry);
    Py_XDECREF(ids);
    return noted;
}

/* Take the run at all->next. 1 if more may follow, 0 if that is all, -1 with an error. */
static int take_run(taking *all, run *one)
{
    int may = read_request(all->next, all->end, &one->requests[0]);
    if (may)
        one->replica = find_replica(all, &one->requests[0]);
    if (!may || !one->replica)
        return PyErr_Occurred() ? -1 : 0;
    if ((may = may_append(all, one)) <= 0 || (may = find_lane(all, one)) <= 0)
        return may;
    gather(all, one);
    if ((one->count = check_run(all, one)) <= 0)
        return one->count;
    int64_t start_offset;
    if (!number_of(one->log, START_OFFSET, &start_offset))
        return -1;
    if ((may = append_run(one)) <= 0)
        return may;
    int64_t bytes = account(all, one, start_offset);
    int watched = truth_of(one->replica, WATCHERS), copied = one->leading != Py_None;
    if (watched < 0 || ((watched || copied) && note(all, one, bytes) < 0))
        return -1;
    return !copied && all->taken < MOST_AT_ONCE;
}

static PyObject *take(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer buffer;
    Py_ssize_t at, end;
    long long wall;
    taking all; /* Not cleared: most of it is room for answers. */
    PyObject *taken = NULL;
    if (!PyArg_ParseTuple(args, "O!O!w*nnL", &PyDict_Type, &all.by_name, &PyDict_Type, &all.by_id, &buffer, &at, &end,
                          &wall))
        return NULL;
    if (at < 0 || end < at || end > buffer.len) {
        PyErr_Format(PyExc_ValueError, "no bytes from %zd to %zd in %zd", at, end, buffer.len);
        PyBuffer_Release(&buffer);
        return NULL;
    }
    all.start = buffer.buf;
    all.end = all.start + end;
    all.next = all.start + at;
    all.out = all.answers;
    all.wall = wall;
    all.taken = 0;
    all.noted = all.stuck = NULL;
    int more = 1;
    while (more > 0) {
        run one;
        one.replica = one.log = one.leading = NULL;
        one.lane = NULL;
        more = take_run(&all, &one);
        Py_XDECREF(one.replica);
        Py_XDECREF(one.log);
        Py_XDECREF(one.leading);
        Py_XDECREF((PyObject *)one.lane);
    }
    if (more == 0)
        taken = Py_BuildValue("ny#OO", (Py_ssize_t)(all.next - all.start), all.answers,
                              (Py_ssize_t)(all.out - all.answers), all.noted ? all.noted : Py_None,
                              all.stuck ? all.stuck : Py_None);
    Py_XDECREF(all.noted);
    Py_XDECREF(all.stuck);
    PyBuffer_Release(&buffer);
    return taken;
}

static PyMethodDef methods[] = {
    {"take", take, METH_VARARGS, "take(by_name, by_id, data, at, end, wall) -> (after, answers, noted, stuck)"},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module)
{
    if (everlog_twin_wanted() < 0)
        return -1;
    const struct {
        PyObject **name;
        const char *text;
    } names[] = {
        {&LEADS, "leads"},
        {&INTERNAL, "internal"},
        {&LOG, "log"},
        {&LEADING, "leading"},
        {&ISR, "isr"},
        {&MIN_INSYNC, "min_insync"},
        {&LEADER_EPOCH, "leader_epoch"},
        {&WATCHERS, "watchers"},
        {&LANE, "lane"},
        {&FAILURE, "failure"},
        {&START_OFFSET, "start_offset"},
        {&APPEND, "append"},
    };
    for (size_t at = 0; at < sizeof names / sizeof *names; at++)
        if (!(*names[at].name = PyUnicode_InternFromString(names[at].text)))
            return -1;
    PyObject *package = PyImport_ImportModule("everlog.records.crc");
    checksum = package ? PyObject_GetAttrString(package, "crc32c") : NULL;
    Py_XDECREF(package);
    PyObject *type = PyType_FromSpec(&everlog_lane_spec);
    lane_type = (PyTypeObject *)type;
    return checksum && type ? PyModule_AddObjectRef(module, "Lane", type) : -1;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)prepare},
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "everlog.broker._lanes",
    .m_doc = "Plain produce requests; see handlers/produce_run.py for what is promised.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__lanes(void)
{
    return PyModuleDef_Init(&definition);
}
