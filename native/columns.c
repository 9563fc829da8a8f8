/* Decodes messages of version 3 to the buffers of Arrow columns, each byte copied once.
 *
 * The optional module opentalos.sdk.arrow._columns. decode() walks all messages once: a second walk
 * would wait for memory a second time. So a column first gets the room of all payloads, of which
 * only what it fills takes memory, and what is left is given back. It knows what
 * sdk/arrow/message_columns.py knows, which makes the same columns without this module: other
 * messages, damaged ones too, give None, and the plain decoder then reads them or says what is
 * wrong. The walk runs without the interpreter's lock.
 */
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000 /* one build for CPython 3.11 and later */
#endif
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INTERFACE 1     /* native_columns.py refuses a module of another one */
#define BYTES 8         /* kinds of fields, as types of the compact protocol */
#define I32 5
#define I64 6
#define HEAD_BYTES 8    /* mark and length of a message */
#define DATA 2          /* index of the field that each message has */
#define VARINT_BITS_MAX 63
#define US_PER_MS 1000
#define TIME_MS_MAX (INT64_MAX / US_PER_MS)

struct field {
    int id, kind;
};

/* Of wire/message/v3_format.py, in the order of their ids. */
static const struct field FIELDS[] = {{1, BYTES}, {2, BYTES}, {3, BYTES}, {4, I64}, {6, I32}, {7, BYTES}, {8, BYTES}};
#define FIELD_COUNT ((int)(sizeof FIELDS / sizeof *FIELDS))

/* The fields of one message: bytes[] is NULL and value[] meaningless where one is absent. */
struct message {
    int present[FIELD_COUNT];
    const uint8_t *bytes[FIELD_COUNT];
    int64_t value[FIELD_COUNT];    /* a length, or a number */
};

struct block {
    Py_buffer payload;
    int64_t messages, skipped;     /* the first ones, which no column has */
};

struct column {
    int64_t present;
    int64_t used;                    /* bytes of `data` */
    PyObject *valid, *ends, *values; /* bytearrays: which rows are valid, where they end, what they hold */
    uint8_t *bits, *data;            /* of these */
    int32_t *offsets;
};

struct work {
    struct block *blocks;
    Py_ssize_t block_count;
    int64_t rows, bytes;             /* of all blocks */
    struct column columns[FIELD_COUNT];
};

/* --- one message ---------------------------------------------------------------------------- */

/* The number at `at`, and the place behind it; NULL if it does not end in time. */
static const uint8_t *varint(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift <= VARINT_BITS_MAX && at < end; shift += 7) {
        uint8_t byte = *at++;
        if (shift == VARINT_BITS_MAX && byte > 1) return NULL;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return at;
    }
    return NULL;
}

/* The fields between `at` and `end`, which a stop field must fill exactly. Returns 0: another format. */
static int read_fields(const uint8_t *at, const uint8_t *end, struct message *message)
{
    int last = 0;
    for (int i = 0; i < FIELD_COUNT; i++) {
        uint64_t number;
        int kind = FIELDS[i].kind;
        message->present[i] = 0;
        if (at >= end || *at != ((FIELDS[i].id - last) << 4 | kind)) continue;
        last = FIELDS[i].id;
        if ((at = varint(at + 1, end, &number)) == NULL) return 0;
        message->present[i] = 1;
        if (kind == BYTES) {
            if (number > (uint64_t)(end - at)) return 0;
            message->bytes[i] = at;
            message->value[i] = (int64_t)number;
            at += number;
            continue;
        }
        if (kind == I32 && number >> 32) return 0;
        int64_t value = (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
        if (kind == I64) { /* a time, absent if no 64 bits hold it in us */
            message->present[i] = value >= -TIME_MS_MAX && value <= TIME_MS_MAX;
            value = message->present[i] ? value * US_PER_MS : 0;
        }
        message->value[i] = value;
    }
    return message->present[DATA] && end - at == 1 && *at == 0;
}

/* The next message of a payload, and the place behind it; NULL: another format. */
static const uint8_t *read_message(const uint8_t *at, const uint8_t *end, struct message *message)
{
    if (end - at < HEAD_BYTES || memcmp(at, "V\0\3", 4) != 0) return NULL;
    uint32_t length = (uint32_t)at[4] << 24 | (uint32_t)at[5] << 16 | (uint32_t)at[6] << 8 | at[7];
    at += HEAD_BYTES;
    if (length > (uint64_t)(end - at)) return NULL;
    return read_fields(at, at + length, message) ? at + length : NULL;
}

/* --- the walk ------------------------------------------------------------------------------- */

static void put_row(struct work *work, const struct message *message, int64_t row)
{
    for (int i = 0; i < FIELD_COUNT; i++) {
        struct column *column = &work->columns[i];
        int present = message->present[i];
        if (present) {
            column->bits[row >> 3] |= (uint8_t)(1 << (row & 7));
            column->present++;
        }
        if (FIELDS[i].kind == I64) {
            ((int64_t *)column->data)[row] = present ? message->value[i] : 0;
        } else if (FIELDS[i].kind == I32) {
            ((int32_t *)column->data)[row] = present ? (int32_t)message->value[i] : 0;
        } else {
            if (present) memcpy(column->data + column->used, message->bytes[i], (size_t)message->value[i]);
            if (present) column->used += message->value[i];
            column->offsets[row + 1] = (int32_t)column->used;
        }
    }
}

/* Fill the columns. Returns 0: another format. */
static int walk(struct work *work)
{
    struct message message;
    int64_t row = 0;
    for (Py_ssize_t b = 0; b < work->block_count; b++) {
        const struct block *block = &work->blocks[b];
        const uint8_t *at = block->payload.buf, *end = at + block->payload.len;
        for (int64_t number = 0; number < block->messages; number++) {
            if ((at = read_message(at, end, &message)) == NULL) return 0;
            if (number >= block->skipped) put_row(work, &message, row++);
        }
        if (at != end) return 0;
    }
    return 1;
}

/* --- memory --------------------------------------------------------------------------------- */

/* A bytearray whose first bytes are zero, and what it holds; NULL: no memory. */
static void *reserve(PyObject **made, int64_t bytes, int64_t zeros)
{
    if ((*made = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)bytes)) == NULL) return NULL;
    return memset(PyByteArray_AsString(*made), 0, (size_t)zeros);
}

/* What the columns need at most. Returns -1: no memory. */
static int allocate(struct work *work)
{
    int64_t rows = work->rows, bits = (rows + 7) / 8;
    for (int i = 0; i < FIELD_COUNT; i++) {
        struct column *column = &work->columns[i];
        int kind = FIELDS[i].kind;
        int64_t bytes = kind == BYTES ? work->bytes : rows * (kind == I32 ? 4 : 8);
        if ((column->bits = reserve(&column->valid, bits, bits)) == NULL) return -1;
        if (kind == BYTES && (column->offsets = reserve(&column->ends, (rows + 1) * 4, 4)) == NULL) return -1;
        if ((column->data = reserve(&column->values, bytes, 0)) == NULL) return -1;
    }
    return 0;
}

static void release(struct work *work)
{
    for (Py_ssize_t b = 0; b < work->block_count; b++) PyBuffer_Release(&work->blocks[b].payload);
    free(work->blocks);
    for (int i = 0; i < FIELD_COUNT; i++) {
        Py_XDECREF(work->columns[i].valid);
        Py_XDECREF(work->columns[i].ends);
        Py_XDECREF(work->columns[i].values);
    }
}

/* --- the module ----------------------------------------------------------------------------- */

/* Returns 0: other messages, or too many; -1: an error. */
static int read_blocks(PyObject *given, struct work *work)
{
    Py_ssize_t count = PyTuple_Size(given);
    work->blocks = calloc((size_t)count + 1, sizeof *work->blocks);
    if (work->blocks == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    while (work->block_count < count) {
        PyObject *block = PyTuple_GetItem(given, work->block_count), *payload;
        struct block *read = &work->blocks[work->block_count];
        long long messages, skipped;
        if (!PyTuple_Check(block)) {
            PyErr_SetString(PyExc_TypeError, "columns: a block is (payload, messages, skipped)");
            return -1;
        }
        if (!PyArg_ParseTuple(block, "OLL", &payload, &messages, &skipped)) return -1;
        if (PyObject_GetBuffer(payload, &read->payload, PyBUF_SIMPLE) < 0) return -1;
        work->block_count++; /* its buffer is released from here on */
        if (messages < 0 || skipped < 0 || skipped > messages) {
            PyErr_SetString(PyExc_ValueError, "columns: no such messages");
            return -1;
        }
        /* A message has a head and more, so what is claimed beyond that is not there. */
        if (messages > read->payload.len / HEAD_BYTES) return 0;
        read->messages = messages;
        read->skipped = skipped;
        work->rows += messages - skipped;
        work->bytes += read->payload.len;
    }
    return work->rows < INT32_MAX && work->bytes <= INT32_MAX;
}

static PyObject *shared(PyObject *made)
{
    return Py_NewRef(made == NULL ? Py_None : made);
}

/* (nulls, valid, ends, values) of each column, None: absent in all rows. */
static PyObject *columns_of(struct work *work)
{
    PyObject *found = PyTuple_New(FIELD_COUNT);
    for (int i = 0; found != NULL && i < FIELD_COUNT; i++) {
        struct column *column = &work->columns[i];
        long long nulls = work->rows - column->present;
        if (FIELDS[i].kind == BYTES && PyByteArray_Resize(column->values, (Py_ssize_t)column->used) < 0) {
            Py_DECREF(found);
            return NULL;
        }
        PyObject *item = !column->present ? shared(NULL)
            : Py_BuildValue("LNNN", nulls, shared(nulls ? column->valid : NULL), shared(column->ends),
                            shared(column->values));
        if (item == NULL || PyTuple_SetItem(found, i, item) < 0) Py_CLEAR(found);
    }
    return found;
}

static PyObject *decode(PyObject *Py_UNUSED(module), PyObject *blocks)
{
    struct work work = {0};
    PyObject *found = NULL;
    if (!PyTuple_Check(blocks)) {
        PyErr_SetString(PyExc_TypeError, "columns: blocks are a tuple");
        return NULL;
    }
    int known = read_blocks(blocks, &work);
    if (known == 1 && allocate(&work) == 0) {
        Py_BEGIN_ALLOW_THREADS
        known = walk(&work);
        Py_END_ALLOW_THREADS
        if (known) found = columns_of(&work);
    }
    if (!known) found = shared(NULL);
    release(&work);
    return found;
}

static PyMethodDef methods[] = {
    {"decode", decode, METH_O,
     "decode(blocks): the columns of blocks, each (payload, messages, skipped); None: of another format."},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module)
{
    return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_columns",
    .m_doc = "Messages as Arrow columns.",
    .m_methods = methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__columns(void) { return PyModuleDef_Init(&module); }
