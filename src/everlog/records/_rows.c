/* Records one by one, compiled: the module. Plain C against the limited API of Python 3.11, so that one
 * binary serves every later Python. rows_plain.py is the reference; see there for what is promised. */

#include "rows.h"

#include <stdlib.h>

#include "../twin.h"

#define MULTIPLIER 0x5BD1E995u
#define SEED 0x9747B28Cu

uint32_t everlog_murmur2(const uint8_t *data, Py_ssize_t size)
{
    uint32_t hashed = SEED ^ (uint32_t)size;
    const uint8_t *at = data;
    for (; size >= 4; size -= 4, at += 4) {
        uint32_t word = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        word *= MULTIPLIER;
        word = (word ^ word >> 24) * MULTIPLIER;
        hashed = hashed * MULTIPLIER ^ word;
    }
    if (size) {
        for (Py_ssize_t byte = 0; byte < size; byte++)
            hashed ^= (uint32_t)at[byte] << (8 * byte);
        hashed *= MULTIPLIER;
    }
    hashed = (hashed ^ hashed >> 13) * MULTIPLIER;
    return hashed ^ hashed >> 15;
}

static PyObject *murmur2(PyObject *Py_UNUSED(module), PyObject *object)
{
    Py_buffer data;
    if (PyObject_GetBuffer(object, &data, PyBUF_SIMPLE) < 0)
        return NULL;
    uint32_t hashed = everlog_murmur2(data.buf, data.len);
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(hashed);
}

static PyMethodDef methods[] = {
    {"read_rows", (PyCFunction)(void (*)(void))everlog_read_rows, METH_FASTCALL,
     "read_rows(batch, topic, partition, start, end, into)"},
    {"read_run", (PyCFunction)(void (*)(void))everlog_read_run, METH_FASTCALL,
     "read_run(raw, position, topic, partition, start, end, into, count) -> (position, next_offset, leader_epoch)"},
    {"ticket_type", everlog_ticket_type, METH_NOARGS, "ticket_type() -> a new type of tickets, without methods"},
    {"tell_delivered", everlog_tell_delivered, METH_VARARGS,
     "tell_delivered(notices, metadata_type, topic, partition, base_offset, append_time, failed)"},
    {"murmur2", murmur2, METH_O, "murmur2(data) -> the hash that Kafka's clients agree on, unsigned"},
    {NULL, NULL, 0, NULL},
};

static PyObject *imported(const char *module_name, const char *name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *found = module ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    return found;
}

static int prepare(PyObject *module)
{
    if (everlog_twin_wanted() < 0)
        return -1;
    rows_state *state = PyModule_GetState(module);
    if (!(state->no_headers = PyTuple_New(0)) || !(state->raw_name = PyUnicode_InternFromString("raw")) ||
        !(state->seal = imported("everlog.records.sealing", "seal")) ||
        !(state->split = imported("everlog.records.sealing", "split")) ||
        !(state->decompress = imported("everlog.records.compression", "decompress")) ||
        !(state->read_plainly = imported("everlog.records.rows_plain", "read_rows")))
        return -1;
    if (everlog_add_buffer_type(module, state) < 0 || everlog_add_record_type(module, state) < 0)
        return -1;
    return everlog_add_inlet_types(module, state) < 0 ? -1 : everlog_add_run_type(module, state);
}

static PyObject **references(rows_state *state, size_t index)
{
    PyObject **all[] = {(PyObject **)&state->buffer_type,
                        (PyObject **)&state->record_type,
                        &state->no_headers,
                        &state->raw_name,
                        &state->seal,
                        &state->split,
                        &state->decompress,
                        &state->read_plainly,
                        &state->rebuild,
                        (PyObject **)&state->inlet_type,
                        (PyObject **)&state->run_type,
                        &state->version_name,
                        &state->paused_name,
                        &state->position_name,
                        &state->epoch_name,
                        (PyObject **)&state->short_way_type};
    size_t count = sizeof(all) / sizeof(*all);
    if (index < count)
        return all[index];
    return index < count + SEND_NAMES ? &state->names[index - count] : NULL;
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    rows_state *state = PyModule_GetState(module);
    PyObject **reference;
    for (size_t index = 0; (reference = references(state, index)); index++)
        Py_VISIT(*reference);
    return 0;
}

static int clear(PyObject *module)
{
    rows_state *state = PyModule_GetState(module);
    PyObject **reference;
    for (size_t index = 0; (reference = references(state, index)); index++)
        Py_CLEAR(*reference);
    return 0;
}

static void free_module(void *module) { clear(module); }

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)prepare},
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "everlog.records._rows",
    .m_doc = "Compiled twins of rows_plain.py; see there for what they promise.",
    .m_size = sizeof(rows_state),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = free_module,
};

PyMODINIT_FUNC PyInit__rows(void)
{
    return PyModuleDef_Init(&definition);
}
