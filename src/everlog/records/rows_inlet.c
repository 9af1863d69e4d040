/* The short way of a record that is sent by itself: from the arguments of send() into the batch that is open
 * for its partition, in one call.
 *
 * Who owns the batches decides all that needs deciding: which batch is open, how far it may grow before he
 * wants to be asked again, which partition comes next for records without a key. He writes it down in inlets.
 * ShortWay.send() takes a record if its inlet is open and has room, and gives it to the long way in all other
 * cases: whatever is unusual, large, new or wrong. It never says no itself, so there is no twin to keep equal:
 * the long way is the reference.
 *
 * Looking at a inlet and appending to its batch happen without running Python code in between, so no other
 * thread closes the inlet meanwhile. Once it is closed, nothing is appended to its batch any more.
 */

#include "rows.h"

#include <time.h>

/* What is returned for a record: its place in a batch. The client makes its Delivery of it by giving a type
 * of tickets its methods: a subclass written in Python would be known to the collector. */
typedef struct {
    PyObject_HEAD
    PyObject *batch;
    int64_t index, timestamp;
} ticket;

typedef struct {
    PyObject_HEAD
    PyObject *batch; /* NULL while it is closed */
    batch_buffer *buffer;
    PyObject *notices; /* a list: tickets and who wants to hear of them, in turn */
    Py_ssize_t limit;  /* of the records' bytes */
} inlet;

typedef struct {
    PyObject_HEAD
    PyObject *topics; /* names to tuples of inlets, a partition each */
    PyObject *sticky; /* names to the inlet of records without a key */
    PyObject *long_way;
    PyTypeObject *ticket_type;
    int hashes_keys;
} short_way;

/* --- tickets */

static PyObject *make_ticket(PyTypeObject *type, PyObject *batch, int64_t index, int64_t timestamp)
{
    ticket *made = PyObject_New(ticket, type);
    if (made) {
        made->batch = Py_NewRef(batch);
        made->index = index;
        made->timestamp = timestamp;
    }
    return (PyObject *)made;
}

static PyObject *new_ticket(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"batch", "index", "timestamp", NULL};
    PyObject *batch;
    long long index, timestamp;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OLL", names, &batch, &index, &timestamp))
        return NULL;
    return make_ticket(type, batch, index, timestamp);
}

static void free_ticket(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_DECREF(((ticket *)self)->batch);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int is_ticket(PyObject *object)
{
    return PyType_GetSlot(Py_TYPE(object), Py_tp_dealloc) == (void *)free_ticket;
}

/* Where a record lies: a tuple of `type`, which is a named tuple's. `numbers` are its offset and timestamp. */
static PyObject *make_metadata(PyTypeObject *type, PyObject *topic, PyObject *partition, const int64_t numbers[2])
{
    PyObject *offset = PyLong_FromLongLong(numbers[0]), *timestamp = PyLong_FromLongLong(numbers[1]);
    PyObject *made = offset && timestamp ? ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 4) : NULL;
    if (!made) {
        Py_XDECREF(offset);
        Py_XDECREF(timestamp);
        return NULL;
    }
    PyTuple_SetItem(made, 0, Py_NewRef(topic));
    PyTuple_SetItem(made, 1, Py_NewRef(partition));
    PyTuple_SetItem(made, 2, offset);
    PyTuple_SetItem(made, 3, timestamp);
    return made;
}

/* Give the exception that is set to `failed`, as an object. Returns -1 with one set if it is not for us to
 * catch, or if `failed` fails. */
static int pass_on(PyObject *failed)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace)
        PyException_SetTraceback(value, trace);
    PyObject *done = PyObject_CallFunctionObjArgs(failed, value, NULL);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

PyObject *everlog_tell_delivered(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *notices, *metadata_type, *topic, *partition, *failed;
    long long base_offset, append_time;
    if (!PyArg_ParseTuple(args, "O!O!OOLLO:tell_delivered", &PyList_Type, &notices, &PyType_Type, &metadata_type,
                          &topic, &partition, &base_offset, &append_time, &failed))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)metadata_type, &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "metadata is a tuple");
        return NULL;
    }
    PyTypeObject *known = NULL;
    for (Py_ssize_t at = 0; at + 1 < PyList_Size(notices); at += 2) {
        PyObject *one = PyList_GetItem(notices, at);
        if (Py_TYPE(one) != known && !is_ticket(one)) {
            PyErr_SetString(PyExc_TypeError, "notices are tickets and who wants to hear of them, in turn");
            return NULL;
        }
        known = Py_TYPE(one);
        int64_t numbers[2] = {base_offset < 0 ? base_offset : base_offset + ((ticket *)one)->index,
                              append_time < 0 ? ((ticket *)one)->timestamp : append_time};
        PyObject *metadata = make_metadata((PyTypeObject *)metadata_type, topic, partition, numbers);
        if (!metadata)
            return NULL;
        PyObject *told = Py_NewRef(PyList_GetItem(notices, at + 1));
        PyObject *done = PyObject_CallFunctionObjArgs(told, metadata, Py_None, NULL);
        Py_DECREF(told);
        Py_DECREF(metadata);
        Py_XDECREF(done);
        if (!done && pass_on(failed) < 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

/* --- inlets */

static PyObject *new_inlet(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    inlet *made = PyObject_GC_New(inlet, type);
    if (made) {
        made->batch = made->notices = NULL;
        made->buffer = NULL;
        made->limit = 0;
        PyObject_GC_Track(made);
    }
    return (PyObject *)made;
}

static void close_quietly(inlet *closed)
{
    PyObject *batch = closed->batch, *buffer = (PyObject *)closed->buffer, *notices = closed->notices;
    closed->batch = closed->notices = NULL;
    closed->buffer = NULL;
    Py_XDECREF(batch);
    Py_XDECREF(buffer);
    Py_XDECREF(notices);
}

/* A batch knows its line, which knows this: the collector has to see that circle. */
static int visit_inlet(PyObject *self, visitproc visit, void *arg)
{
    inlet *visited = (inlet *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(visited->batch);
    Py_VISIT(visited->buffer);
    Py_VISIT(visited->notices);
    return 0;
}

static int clear_inlet(PyObject *self)
{
    close_quietly((inlet *)self);
    return 0;
}

static void free_inlet(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    close_quietly((inlet *)self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *open_inlet(PyObject *self, PyObject *args)
{
    rows_state *state = PyType_GetModuleState(Py_TYPE(self));
    PyObject *batch, *buffer, *notices;
    Py_ssize_t size_bytes;
    if (!PyArg_ParseTuple(args, "OO!nO!:open", &batch, state->buffer_type, &buffer, &size_bytes, &PyList_Type,
                          &notices))
        return NULL;
    inlet *opened = (inlet *)self;
    close_quietly(opened);
    opened->batch = Py_NewRef(batch);
    opened->buffer = (batch_buffer *)Py_NewRef(buffer);
    opened->notices = Py_NewRef(notices);
    opened->limit = size_bytes - HEADER_BYTES;
    Py_RETURN_NONE;
}

static PyObject *close_inlet(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    close_quietly((inlet *)self);
    Py_RETURN_NONE;
}

static PyObject *is_open(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((inlet *)self)->batch != NULL);
}

/* --- short_way */

static PyObject *new_short_way(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"long_way", "ticket_type", "hashes_keys", NULL};
    PyObject *long_way, *ticket_type;
    int hashes_keys;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!p:ShortWay", names, &long_way, &PyType_Type, &ticket_type,
                                     &hashes_keys))
        return NULL;
    if (PyType_GetSlot((PyTypeObject *)ticket_type, Py_tp_new) != (void *)new_ticket) {
        PyErr_Format(PyExc_TypeError, "ticket_type should be made by ticket_type(), found %R", ticket_type);
        return NULL;
    }
    short_way *made = PyObject_GC_New(short_way, type);
    if (!made)
        return NULL;
    made->topics = PyDict_New();
    made->sticky = PyDict_New();
    made->long_way = Py_NewRef(long_way);
    made->ticket_type = (PyTypeObject *)Py_NewRef(ticket_type);
    made->hashes_keys = hashes_keys;
    PyObject_GC_Track(made);
    if (!made->topics || !made->sticky)
        Py_CLEAR(made);
    return (PyObject *)made;
}

static int visit_short_way(PyObject *self, visitproc visit, void *arg)
{
    short_way *visited = (short_way *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(visited->topics);
    Py_VISIT(visited->sticky);
    Py_VISIT(visited->long_way);
    Py_VISIT(visited->ticket_type);
    return 0;
}

static int clear_short_way(PyObject *self)
{
    short_way *cleared = (short_way *)self;
    Py_CLEAR(cleared->topics);
    Py_CLEAR(cleared->sticky);
    Py_CLEAR(cleared->long_way);
    Py_CLEAR(cleared->ticket_type);
    return 0;
}

static void free_short_way(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    clear_short_way(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *set_inlets(PyObject *self, PyObject *args)
{
    rows_state *state = PyType_GetModuleState(Py_TYPE(self));
    PyObject *topic, *inlets;
    if (!PyArg_ParseTuple(args, "UO!:set_inlets", &topic, &PyTuple_Type, &inlets))
        return NULL;
    for (Py_ssize_t at = 0; at < PyTuple_Size(inlets); at++)
        if (!Py_IS_TYPE(PyTuple_GetItem(inlets, at), state->inlet_type)) {
            PyErr_SetString(PyExc_TypeError, "inlets should be a tuple of Inlet");
            return NULL;
        }
    if (PyDict_SetItem(((short_way *)self)->topics, topic, inlets) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *stick(PyObject *self, PyObject *args)
{
    rows_state *state = PyType_GetModuleState(Py_TYPE(self));
    PyObject *topic, *chosen;
    if (!PyArg_ParseTuple(args, "UO!:stick", &topic, state->inlet_type, &chosen))
        return NULL;
    if (PyDict_SetItem(((short_way *)self)->sticky, topic, chosen) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *unstick(PyObject *self, PyObject *topic)
{
    int stuck = PyDict_Contains(((short_way *)self)->sticky, topic);
    if (stuck < 0 || (stuck && PyDict_DelItem(((short_way *)self)->sticky, topic) < 0))
        return NULL;
    Py_RETURN_NONE;
}

/* The arguments of send(), in their order; the first three may come without a name. */
enum { TOPIC, VALUE, KEY, PARTITION, HEADERS, TIMESTAMP, ON_DELIVERY };
static const char *const send_names[SEND_NAMES] = {"topic",   "value",     "key",        "partition",
                                                   "headers", "timestamp", "on_delivery"};

/* Sort the arguments into their places. Returns 0 if they are not such as send() takes. */
static int sort_arguments(rows_state *state, PyObject *const *args, Py_ssize_t nargs, PyObject *names,
                          PyObject **sorted)
{
    if (nargs > 3)
        return 0;
    for (Py_ssize_t at = 0; at < nargs; at++)
        sorted[at] = args[at];
    Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t at = 0; at < named; at++) {
        PyObject *name = PyTuple_GetItem(names, at);
        int place = 0;
        while (place < SEND_NAMES && state->names[place] != name)
            place++;
        if (place == SEND_NAMES || sorted[place])
            return 0;
        sorted[place] = args[nargs + at];
    }
    return sorted[TOPIC] != NULL;
}

static PyObject *call_long_way(short_way *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    PyObject *positional = PyTuple_New(nargs), *named = NULL, *answer = NULL;
    for (Py_ssize_t at = 0; positional && at < nargs; at++)
        PyTuple_SetItem(positional, at, Py_NewRef(args[at]));
    if (positional && names && PyTuple_Size(names)) {
        named = PyDict_New();
        for (Py_ssize_t at = 0; named && at < PyTuple_Size(names); at++)
            if (PyDict_SetItem(named, PyTuple_GetItem(names, at), args[nargs + at]) < 0)
                Py_CLEAR(named);
        if (!named)
            Py_CLEAR(positional);
    }
    if (positional)
        answer = PyObject_Call(self->long_way, positional, named);
    Py_XDECREF(positional);
    Py_XDECREF(named);
    return answer;
}

/* The inlet for a record as a borrowed reference; NULL if it is not known here. */
static inlet *choose_inlet(short_way *self, PyObject *const *sorted, const prepared *record)
{
    PyObject *topic = sorted[TOPIC], *partition = sorted[PARTITION];
    int has_partition = partition && partition != Py_None;
    if (!PyUnicode_CheckExact(topic) || !self->topics)
        return NULL;
    if (!has_partition && (record->key.size < 0 || !self->hashes_keys))
        return self->hashes_keys ? (inlet *)PyDict_GetItemWithError(self->sticky, topic) : NULL;
    PyObject *inlets = PyDict_GetItemWithError(self->topics, topic);
    Py_ssize_t count = inlets ? PyTuple_Size(inlets) : 0;
    if (!count)
        return NULL;
    Py_ssize_t chosen;
    if (has_partition) {
        if (!PyLong_CheckExact(partition))
            return NULL;
        chosen = PyLong_AsSsize_t(partition);
        if (chosen == -1 && PyErr_Occurred())
            return NULL;
    } else {
        chosen = (Py_ssize_t)(everlog_murmur2(record->key.data, record->key.size) & 0x7FFFFFFF) % count;
    }
    return chosen >= 0 && chosen < count ? (inlet *)PyTuple_GetItem(inlets, chosen) : NULL;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Append the record if its inlet has room. Returns its ticket, or NULL if it has to go the long way. */
static PyObject *append_to_inlet(short_way *self, PyObject *const *sorted, const prepared *record, int64_t timestamp)
{
    inlet *chosen = choose_inlet(self, sorted, record);
    if (!chosen || !chosen->batch)
        return NULL;
    /* The ticket first: once the record is appended nothing may fail any more. */
    PyObject *given = make_ticket(self->ticket_type, chosen->batch, chosen->buffer->count, timestamp);
    if (!given)
        return NULL;
    PyObject *on_delivery = sorted[ON_DELIVERY];
    int notifies = on_delivery && on_delivery != Py_None;
    Py_ssize_t noticed = notifies ? PyList_Size(chosen->notices) : 0;
    if (notifies && (PyList_Append(chosen->notices, given) < 0 || PyList_Append(chosen->notices, on_delivery) < 0 ||
                     everlog_append(chosen->buffer, record, timestamp, chosen->limit) < 0)) {
        PyErr_Clear();
        PyList_SetSlice(chosen->notices, noticed, PyList_Size(chosen->notices), NULL);
        Py_CLEAR(given);
    } else if (!notifies && everlog_append(chosen->buffer, record, timestamp, chosen->limit) < 0) {
        Py_CLEAR(given);
    }
    return given;
}

static PyObject *send(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    rows_state *state = PyType_GetModuleState(Py_TYPE(self));
    PyObject *sorted[SEND_NAMES] = {NULL};
    PyObject *given = NULL;
    int64_t timestamp = 0;
    prepared record;
    if (sort_arguments(state, args, nargs, names, sorted)) {
        int has_time = sorted[TIMESTAMP] && sorted[TIMESTAMP] != Py_None;
        if ((!has_time || everlog_timestamp(sorted[TIMESTAMP], &timestamp) == 0) &&
            everlog_prepare(sorted[KEY] ? sorted[KEY] : Py_None, sorted[VALUE] ? sorted[VALUE] : Py_None,
                            sorted[HEADERS] ? sorted[HEADERS] : state->no_headers, &record) == 0) {
            given = append_to_inlet((short_way *)self, sorted, &record, has_time ? timestamp : now_ms());
            everlog_release(&record);
        }
    }
    if (given)
        return given;
    PyErr_Clear();
    return call_long_way((short_way *)self, args, nargs, names);
}

/* --- the types */

static PyMemberDef ticket_members[] = {
    {"_batch", T_OBJECT_EX, offsetof(ticket, batch), READONLY, NULL},
    {"_index", T_LONGLONG, offsetof(ticket, index), READONLY, NULL},
    {"_timestamp", T_LONGLONG, offsetof(ticket, timestamp), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot ticket_slots[] = {
    {Py_tp_doc, "The place of a record in a batch."},
    {Py_tp_new, (void *)new_ticket},
    {Py_tp_dealloc, (void *)free_ticket},
    {Py_tp_members, ticket_members},
    {0, NULL},
};
static PyType_Spec ticket_spec = {
    .name = "everlog.records.rows.Ticket",
    .basicsize = sizeof(ticket),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = ticket_slots,
};

PyObject *everlog_ticket_type(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    return PyType_FromModuleAndSpec(module, &ticket_spec, NULL);
}

static PyMethodDef inlet_methods[] = {
    {"open", open_inlet, METH_VARARGS, "open(batch, buffer, size_bytes, notices): records go here from now on"},
    {"close", close_inlet, METH_NOARGS, "close(): nothing is appended to the batch any more"},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef inlet_properties[] = {
    {"is_open", is_open, NULL, "Whether records may be appended.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot inlet_slots[] = {
    {Py_tp_doc, "Where the records of one partition go at present."},
    {Py_tp_new, (void *)new_inlet},
    {Py_tp_dealloc, (void *)free_inlet},
    {Py_tp_traverse, (void *)visit_inlet},
    {Py_tp_clear, (void *)clear_inlet},
    {Py_tp_methods, inlet_methods},
    {Py_tp_getset, inlet_properties},
    {0, NULL},
};
static PyType_Spec inlet_spec = {
    .name = "everlog.records.rows.Inlet",
    .basicsize = sizeof(inlet),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = inlet_slots,
};

static PyMethodDef short_way_methods[] = {
    {"send", (PyCFunction)(void (*)(void))send, METH_FASTCALL | METH_KEYWORDS,
     "send(topic, value=None, key=None, *, partition=None, headers=(), timestamp=None, on_delivery=None)"},
    {"set_inlets", set_inlets, METH_VARARGS, "set_inlets(topic, inlets): these are the topic's, a partition each"},
    {"stick", stick, METH_VARARGS, "stick(topic, inlet): records without a key go there from now on"},
    {"unstick", unstick, METH_O, "unstick(topic): records without a key go the long way from now on"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot short_way_slots[] = {
    {Py_tp_doc, "Takes records the short way where one is open."},
    {Py_tp_new, (void *)new_short_way},
    {Py_tp_dealloc, (void *)free_short_way},
    {Py_tp_traverse, (void *)visit_short_way},
    {Py_tp_clear, (void *)clear_short_way},
    {Py_tp_methods, short_way_methods},
    {0, NULL},
};
static PyType_Spec short_way_spec = {
    .name = "everlog.records.rows.ShortWay",
    .basicsize = sizeof(short_way),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = short_way_slots,
};

static PyTypeObject *added(PyObject *module, PyType_Spec *spec)
{
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    if (type && PyModule_AddType(module, type) < 0)
        Py_CLEAR(type);
    return type;
}

int everlog_add_inlet_types(PyObject *module, rows_state *state)
{
    for (int at = 0; at < SEND_NAMES; at++)
        if (!(state->names[at] = PyUnicode_InternFromString(send_names[at])))
            return -1;
    if (!(state->inlet_type = added(module, &inlet_spec)) ||
        !(state->short_way_type = added(module, &short_way_spec)))
        return -1;
    return 0;
}
