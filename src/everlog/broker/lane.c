/* The type of lanes as Python sees it; log/lane.py says what each method promises. */

#include "lane.h"

#include <structmember.h>

static void let_go(lane *self)
{
    self->open = 0;
    self->appender = NULL;
    Py_CLEAR(self->lent);
    Py_CLEAR(self->file);
}

static PyObject *lane_enter(PyObject *object, PyObject *args)
{
    lane *self = (lane *)object;
    PyObject *file, *lent;
    long long position, end_offset, leader_epoch, room, position_limit, offset_limit, batch_limit, after_max_ms,
        roll_after, roll_at_wall;
    int refuses_null_keys;
    if (!PyArg_ParseTuple(args, "OOLLLL(LLLLLLp)", &file, &lent, &position, &end_offset, &leader_epoch, &room,
                          &position_limit, &offset_limit, &batch_limit, &after_max_ms, &roll_after,
                          &roll_at_wall, &refuses_null_keys))
        return NULL;
    if (self->pending) {
        PyErr_SetString(PyExc_ValueError, "a lane that is ahead of its log cannot begin anew");
        return NULL;
    }
    file_appender *appender = NULL;
    if (lent != Py_None && !(appender = PyCapsule_GetPointer(lent, APPENDER_CAPSULE)))
        return NULL;
    Py_INCREF(file);
    Py_INCREF(lent);
    if (!self->open)
        self->producer_count = 0; /* Else they have gone on here, and nowhere else. */
    let_go(self);
    self->file = file;
    self->lent = lent;
    self->appender = appender;
    self->position = position;
    self->end_offset = end_offset;
    self->leader_epoch = leader_epoch;
    self->room = room;
    self->position_limit = position_limit;
    self->offset_limit = offset_limit;
    self->batch_limit = batch_limit;
    self->after_max_ms = after_max_ms;
    self->roll_after = roll_after;
    self->roll_at_wall = roll_at_wall;
    self->refuses_null_keys = refuses_null_keys;
    self->open = 1;
    Py_RETURN_NONE;
}

static PyObject *lane_admit(PyObject *object, PyObject *args)
{
    lane *self = (lane *)object;
    long long id;
    int epoch, next_sequence;
    if (!PyArg_ParseTuple(args, "Lii", &id, &epoch, &next_sequence))
        return NULL;
    lane_producer *found = find_producer(self, id);
    if (!found) {
        if (self->producer_count == MOST_PRODUCERS) {
            /* The one that was admitted first makes room, and may come back. */
            for (int at = 1; at < MOST_PRODUCERS; at++)
                self->producers[at - 1] = self->producers[at];
            self->producer_count--;
        }
        found = &self->producers[self->producer_count++];
    }
    *found = (lane_producer){id, epoch, next_sequence};
    Py_RETURN_NONE;
}

static PyObject *lane_drain(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    lane *self = (lane *)object;
    PyObject *drained = PyList_New(self->pending);
    for (int at = 0; drained && at < self->pending; at++) {
        const lane_batch *batch = &self->batches[at];
        PyObject *one = Py_BuildValue(
            "LiLiLLii", (long long)batch->position, (int)batch->size, (long long)batch->base_offset,
            (int)batch->last_offset_delta, (long long)batch->max_timestamp, (long long)batch->producer_id,
            (int)batch->producer_epoch, (int)batch->base_sequence);
        if (!one || PyList_SetItem(drained, at, one) < 0)
            Py_CLEAR(drained);
    }
    if (drained)
        self->pending = 0;
    return drained;
}

static PyObject *lane_pause(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    ((lane *)object)->open = 0;
    Py_RETURN_NONE;
}

static PyObject *lane_leave(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    let_go((lane *)object);
    Py_RETURN_NONE;
}

static void lane_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    let_go((lane *)object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyMemberDef lane_members[] = {
    {"open", T_BOOL, offsetof(lane, open), READONLY, NULL},
    {"pending", T_INT, offsetof(lane, pending), READONLY, NULL},
    {"position", T_LONGLONG, offsetof(lane, position), READONLY, NULL},
    {"end_offset", T_LONGLONG, offsetof(lane, end_offset), READONLY, NULL},
    {"wall", T_LONGLONG, offsetof(lane, wall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef lane_methods[] = {
    {"enter", lane_enter, METH_VARARGS, NULL},   {"admit", lane_admit, METH_VARARGS, NULL},
    {"drain", lane_drain, METH_NOARGS, NULL},    {"pause", lane_pause, METH_NOARGS, NULL},
    {"leave", lane_leave, METH_NOARGS, NULL},    {NULL, NULL, 0, NULL},
};

static PyType_Slot lane_slots[] = {
    {Py_tp_doc, "Where the next plain batches of one log go."},
    {Py_tp_dealloc, lane_dealloc},
    {Py_tp_members, lane_members},
    {Py_tp_methods, lane_methods},
    {0, NULL},
};

PyType_Spec everlog_lane_spec = {
    .name = "everlog.broker._lanes.Lane",
    .basicsize = sizeof(lane),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = lane_slots,
};
