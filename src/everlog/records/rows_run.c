/* RowRun: records that are read already, handed out one by one. The twin of RowRun in rows_plain.py. */

#include "rows.h"

typedef struct {
    PyObject_HEAD
    PyObject *rows; /* a list; NULL once it is stopped */
    PyObject *state;
    PyObject *version; /* what state.version was */
    Py_ssize_t at, end, first;
    PyObject *clock;
    double until;
    int32_t epoch; /* what state.position_epoch was set to last */
} row_run;

static PyObject *new_run(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"rows", "at", "end", "state", "clock", "until", NULL};
    rows_state *module = PyType_GetModuleState(type);
    PyObject *rows, *state, *clock;
    Py_ssize_t at, end;
    double until;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!nnOOd:RowRun", names, &PyList_Type, &rows, &at, &end, &state,
                                     &clock, &until))
        return NULL;
    if (at < 0 || end > PyList_Size(rows)) {
        PyErr_Format(PyExc_ValueError, "no rows from %zd to %zd among %zd", at, end, PyList_Size(rows));
        return NULL;
    }
    PyObject *version = PyObject_GetAttr(state, module->version_name);
    if (!version)
        return NULL;
    row_run *run = PyObject_GC_New(row_run, type);
    if (!run) {
        Py_DECREF(version);
        return NULL;
    }
    run->rows = Py_NewRef(rows);
    run->state = Py_NewRef(state);
    run->version = version;
    run->at = run->first = at;
    run->end = end;
    run->clock = Py_NewRef(clock);
    run->until = until;
    run->epoch = -1;
    PyObject_GC_Track(run);
    return (PyObject *)run;
}

static int visit_run(PyObject *self, visitproc visit, void *arg)
{
    row_run *run = (row_run *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(run->rows);
    Py_VISIT(run->state);
    Py_VISIT(run->version);
    Py_VISIT(run->clock);
    return 0;
}

static int clear_run(PyObject *self)
{
    row_run *run = (row_run *)self;
    Py_CLEAR(run->rows);
    Py_CLEAR(run->state);
    Py_CLEAR(run->version);
    Py_CLEAR(run->clock);
    return 0;
}

static void free_run(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    clear_run(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

/* Whether the rows are still wanted: nobody has gone elsewhere in the partition or paused it, and the
 * time is not up. */
static int is_wanted(row_run *run, rows_state *module)
{
    PyObject *now = PyObject_CallNoArgs(run->clock);
    double moment = now ? PyFloat_AsDouble(now) : -1.0;
    Py_XDECREF(now);
    if (moment == -1.0 && PyErr_Occurred())
        return -1;
    if (moment >= run->until || !run->state)
        return 0;
    PyObject *version = PyObject_GetAttr(run->state, module->version_name);
    PyObject *paused = version ? PyObject_GetAttr(run->state, module->paused_name) : NULL;
    int wanted = paused ? PyObject_RichCompareBool(version, run->version, Py_EQ) : -1;
    if (wanted == 1)
        wanted = paused == Py_False ? 1 : 1 - PyObject_IsTrue(paused);
    Py_XDECREF(version);
    Py_XDECREF(paused);
    return wanted;
}

static int set_number(PyObject *state, PyObject *name, int64_t number)
{
    PyObject *boxed = PyLong_FromLongLong(number);
    int done = boxed ? PyObject_SetAttr(state, name, boxed) : -1;
    Py_XDECREF(boxed);
    return done;
}

static PyObject *next_row(PyObject *self)
{
    row_run *run = (row_run *)self;
    rows_state *module = PyType_GetModuleState(Py_TYPE(self));
    if (!run->rows || run->at >= run->end)
        return NULL;
    int wanted = is_wanted(run, module);
    /* The list is looked at again: it is not ours alone. */
    if (wanted < 1 || !run->rows || run->at >= PyList_Size(run->rows))
        return NULL;
    PyObject *row = Py_NewRef(PyList_GetItem(run->rows, run->at));
    int64_t offset;
    int32_t epoch;
    if (everlog_row_place(row, module, &offset, &epoch) < 0) {
        Py_DECREF(row);
        return NULL;
    }
    run->at++;
    if (set_number(run->state, module->position_name, offset + 1) < 0 ||
        (epoch >= 0 && epoch != run->epoch && set_number(run->state, module->epoch_name, epoch) < 0)) {
        Py_DECREF(row);
        return NULL;
    }
    run->epoch = epoch;
    return row;
}

static PyObject *stop(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    row_run *run = (row_run *)self;
    Py_CLEAR(run->rows);
    return PyLong_FromSsize_t(run->at);
}

static PyObject *handed(PyObject *self, void *Py_UNUSED(closure))
{
    row_run *run = (row_run *)self;
    return PyLong_FromSsize_t(run->at - run->first);
}

static PyMethodDef run_methods[] = {
    {"stop", stop, METH_NOARGS, "stop() -> the index of the row that would have been next"},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef run_properties[] = {
    {"handed", handed, NULL, "How many rows were handed out.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot run_slots[] = {
    {Py_tp_doc, "Records that are read already, handed out one by one."},
    {Py_tp_new, (void *)new_run},
    {Py_tp_dealloc, (void *)free_run},
    {Py_tp_traverse, (void *)visit_run},
    {Py_tp_clear, (void *)clear_run},
    {Py_tp_iter, (void *)PyObject_SelfIter},
    {Py_tp_iternext, (void *)next_row},
    {Py_tp_methods, run_methods},
    {Py_tp_getset, run_properties},
    {0, NULL},
};
static PyType_Spec run_spec = {
    .name = "everlog.records.rows.RowRun",
    .basicsize = sizeof(row_run),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = run_slots,
};

int everlog_add_run_type(PyObject *module, rows_state *state)
{
    if (!(state->version_name = PyUnicode_InternFromString("version")) ||
        !(state->paused_name = PyUnicode_InternFromString("paused")) ||
        !(state->position_name = PyUnicode_InternFromString("position")) ||
        !(state->epoch_name = PyUnicode_InternFromString("position_epoch")))
        return -1;
    state->run_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &run_spec, NULL);
    return state->run_type ? PyModule_AddType(module, state->run_type) : -1;
}
