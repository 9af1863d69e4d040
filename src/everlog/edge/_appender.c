/* A descriptor of the real disk as compiled code may use it: see ports/appender.h. Plain C against the limited
 * API of Python 3.11. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../ports/appender.h"
#include "../twin.h"

/* Room: zeros behind the end, which the next appends write over.
 *
 * A file system makes a cached page for each piece that a file grows by, and a small piece gets small pages, one
 * after the other. Grown by a quarter of a megabyte of zeros at a time, it gets a few large ones at once, and the
 * appends find them there: both together take a half to two thirds of the time.
 */
#define ROOM_BYTES (256 << 10)      /* it ends at a multiple of this */
#define LARGE_BYTES (512 << 10)     /* what is appended at once and is no smaller gets large pages by itself */
#define WORTH_FROM_BYTES (1 << 20)  /* a file that hardly grows has no room */
#define ZERO_BYTES (16 << 10)       /* few enough to stay in the nearest cache */

static const uint8_t zeros[ZERO_BYTES];

typedef struct {
    file_appender port;
    int descriptor;
    int64_t appended; /* bytes, by this appender */
    int64_t grown_to; /* the file is at least so large, unless it was cut since: then room comes a little later */
    int64_t room_end; /* where the room ends that was made last, or what a failed write has left; 0 if there is none */
} real_appender;

static void make_room(real_appender *self, int64_t from, int64_t until)
{
    struct iovec pieces[(ROOM_BYTES + LARGE_BYTES) / ZERO_BYTES + 1];
    int count = 0;
    for (int64_t left = until - from; left > 0; left -= ZERO_BYTES)
        pieces[count++] = (struct iovec){(void *)zeros, left < ZERO_BYTES ? (size_t)left : ZERO_BYTES};
    /* Where the disk has none, the append finds out. */
    if (pwritev(self->descriptor, pieces, count, (off_t)from) > 0)
        self->room_end = until;
    self->grown_to = until;
}

static int append(file_appender *port, const struct iovec *pieces, int count, int64_t position)
{
    real_appender *self = (real_appender *)port;
    ssize_t total = 0;
    for (int at = 0; at < count; at++)
        total += (ssize_t)pieces[at].iov_len;
    int64_t end = position + total;
    if (end > self->grown_to) {
        if (total < LARGE_BYTES && self->appended >= WORTH_FROM_BYTES)
            make_room(self, position > self->grown_to ? position : self->grown_to,
                      (end + ROOM_BYTES - 1) / ROOM_BYTES * ROOM_BYTES);
        else
            self->grown_to = end;
    }
    self->appended += total;
    if (pwritev(self->descriptor, pieces, count, (off_t)position) == total)
        return 0;
    /* A whole batch that stayed there might follow, after a crash, on what is written before it next. */
    if (ftruncate(self->descriptor, (off_t)position) == 0)
        self->grown_to = position;
    else if (self->room_end < end)
        self->room_end = end; /* It lies behind the end as room does, and has to go as room has to. */
    return -1;
}

static void forget(PyObject *capsule)
{
    free(PyCapsule_GetPointer(capsule, APPENDER_CAPSULE));
}

static PyObject *appender(PyObject *module, PyObject *number)
{
    (void)module;
    long descriptor = PyLong_AsLong(number);
    if (descriptor == -1 && PyErr_Occurred())
        return NULL;
    real_appender *made = malloc(sizeof *made);
    if (!made)
        return PyErr_NoMemory();
    *made = (real_appender){.port = {append}, .descriptor = (int)descriptor};
    PyObject *capsule = PyCapsule_New(made, APPENDER_CAPSULE, forget);
    if (!capsule)
        free(made);
    return capsule;
}

static PyObject *room_end(PyObject *module, PyObject *capsule)
{
    (void)module;
    real_appender *self = PyCapsule_GetPointer(capsule, APPENDER_CAPSULE);
    return self ? PyLong_FromLongLong((long long)self->room_end) : NULL;
}

static PyMethodDef methods[] = {
    {"appender", appender, METH_O, "appender(descriptor) -> a capsule for ports/appender.h"},
    {"room_end", room_end, METH_O, "room_end(capsule) -> where the zeros end that were written ahead; 0: there are none"},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module)
{
    (void)module;
    return everlog_twin_wanted();
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)prepare},
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "everlog.edge._appender",
    .m_doc = "Descriptors for compiled code.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__appender(void)
{
    return PyModuleDef_Init(&definition);
}
