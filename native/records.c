/* A walk over the records of a Kafka record batch, which proves that readers can decode them.
 *
 * The optional module opentalos.wire.message._records. It does what `_walk` of
 * wire/message/kafka_batch.py does, some fifty times as fast; that one serves where this is absent.
 * A batch has tens of thousands of records, and nothing here allocates or keeps anything.
 */
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000 /* one build for CPython 3.11 and later */
#endif
#include <Python.h>
#include <stdint.h>

#define VARINT_BITS_MAX 63
#define QUICK_BYTES (1 << 20) /* walked over within a few milliseconds, whatever is in it */

struct cursor {
    const unsigned char *at, *end;
};

/* A zigzag number; 0 if it does not end in time. */
static int number(struct cursor *cursor, int64_t *out)
{
    uint64_t value = 0;
    for (int shift = 0; shift <= VARINT_BITS_MAX && cursor->at < cursor->end; shift += 7) {
        unsigned char byte = *cursor->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
            return 1;
        }
    }
    return 0;
}

/* Pass over a length and so many bytes; `nullable`: -1 stands for none. */
static int pass(struct cursor *cursor, int nullable)
{
    int64_t length;
    if (!number(cursor, &length) || length < (nullable ? -1 : 0) || length > cursor->end - cursor->at)
        return 0;
    if (length > 0)
        cursor->at += length;
    return 1;
}

static int record(struct cursor *batch, int64_t index)
{
    int64_t length, time, offset, headers;
    if (!number(batch, &length) || length < 1 || length > batch->end - batch->at)
        return 0;
    struct cursor fields = {batch->at + 1, batch->at + length}; /* behind the attributes */
    batch->at += length;
    if (!number(&fields, &time) || !number(&fields, &offset) || offset != index)
        return 0;
    if (!pass(&fields, 1) || !pass(&fields, 1) || !number(&fields, &headers))
        return 0;
    if (headers < 0 || headers > (fields.end - fields.at) / 2)
        return 0;
    for (; headers; headers--)
        if (!pass(&fields, 0) || !pass(&fields, 1))
            return 0;
    return fields.at == fields.end;
}

static PyObject *walk(PyObject *module, PyObject *arguments)
{
    Py_buffer data;
    Py_ssize_t position;
    long long count, index = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*nL", &data, &position, &count))
        return NULL;
    if (position < 0 || position > data.len) {
        PyBuffer_Release(&data);
        PyErr_SetString(PyExc_ValueError, "the position lies outside of the data");
        return NULL;
    }
    const unsigned char *start = data.buf;
    struct cursor batch = {start + position, start + data.len};
    /* Others run meanwhile: tiny records or headers take tens of milliseconds if there are many. */
    PyThreadState *state = data.len > QUICK_BYTES ? PyEval_SaveThread() : NULL;
    while (index < count && record(&batch, index))
        index++;
    if (state)
        PyEval_RestoreThread(state);
    int whole = index == count && batch.at == batch.end;
    PyBuffer_Release(&data);
    return PyLong_FromLongLong(whole ? -1 : index);
}

static PyMethodDef methods[] = {
    {"walk", walk, METH_VARARGS,
     "walk(data, position, count): number of the first bad record; count: bytes follow; -1: none."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "opentalos.wire.message._records",
    .m_doc = "The walk over the records of a Kafka batch.",
    .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__records(void);
__attribute__((visibility("default"))) PyMODINIT_FUNC PyInit__records(void)
{
    return PyModule_Create(&definition);
}
