/* Encodes rows of Arrow columns as messages of version 3, each byte copied once.
 *
 * The optional module opentalos.sdk.arrow._native. Rows holds the buffers of a table's columns,
 * batch by batch, and optionally the numbers of the rows that count, in their order. block() makes
 * the payload of the next block: as many rows as fit, at least one. Which columns, of which types
 * and with which defaults is decided in Python (sdk/arrow/native_rows.py). sdk/arrow/encode.py makes the
 * same bytes without this module.
 *
 * Rows never changes after it was made, so block() runs without the interpreter's lock. Offsets and
 * row numbers are checked against the buffers: a wrong table raises ValueError, and reads nothing.
 */
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000 /* one build for CPython 3.11 and later */
#endif
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INTERFACE 1     /* native_rows.py refuses a module of another one */
#define BYTES 8         /* kinds of fields, as types of the compact protocol */
#define I32 5
#define I64 6
#define COLUMNS_MAX 16  /* a message has fewer fields */
#define HEAD_BYTES 8    /* mark and length of a message */
#define STOP_BYTES 1
#define BUFFERS 3       /* of a column: which rows are valid, where they end, values */
#define ROWS_MAX (INT64_MAX / 16) /* with offsets: then 64 bits hold the bytes that they need */

struct column {
    int field, kind, constant;
    int64_t offset, value;         /* of the first row; of all rows, if constant */
    Py_buffer buffers[BUFFERS];    /* obj NULL: absent */
};

struct batch {
    int64_t first, rows;
    struct column columns[COLUMNS_MAX];
};

typedef struct {
    PyObject_HEAD
    struct batch *batches;
    Py_ssize_t batch_count;
    int column_count;
    int64_t total;                 /* rows of all batches */
    int64_t count;                 /* rows that count */
    Py_buffer numbers;             /* of those; obj NULL: all of them */
} Rows;

/* A place in the rows: rows that follow each other are mostly of one batch. */
struct place {
    const Rows *rows;
    Py_ssize_t batch;
};

/* --- one row ------------------------------------------------------------------------------- */

static int varint_bytes(uint64_t value)
{
    int bytes = 1;
    while (value >>= 7) bytes++;
    return bytes;
}

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
    while (value >= 0x80) *at++ = (uint8_t)(value | 0x80), value >>= 7;
    *at++ = (uint8_t)value;
    return at;
}

static int is_present(const struct column *column, int64_t row)
{
    const uint8_t *bits = column->buffers[0].buf;
    int64_t bit = column->offset + row;
    return bits == NULL || (bits[bit >> 3] >> (bit & 7) & 1);
}

/* Numbers are copied out of their buffers, which need not be aligned: they may be a part of what was
 * received in one piece. A compiler makes plain loads of these copies. */
static int64_t i64_at(const void *numbers, int64_t index)
{
    int64_t value;
    memcpy(&value, (const uint8_t *)numbers + index * (int64_t)sizeof value, sizeof value);
    return value;
}

static int32_t i32_at(const void *numbers, int64_t index)
{
    int32_t value;
    memcpy(&value, (const uint8_t *)numbers + index * (int64_t)sizeof value, sizeof value);
    return value;
}

/* The bytes of a row. Returns NULL if its offsets lie outside of the values. */
static const uint8_t *content(const struct column *column, int64_t row, int64_t *size)
{
    int32_t ends[2];
    memcpy(ends, (const uint8_t *)column->buffers[1].buf + (column->offset + row) * 4, sizeof ends);
    *size = 0;
    if (ends[0] < 0 || ends[1] < ends[0] || ends[1] > column->buffers[2].len) return NULL;
    *size = ends[1] - ends[0];
    const uint8_t *values = column->buffers[2].buf;
    return values == NULL ? (const uint8_t *)"" : values + ends[0];
}

static uint64_t zigzag(const struct column *column, int64_t row)
{
    int64_t value = column->value;
    if (!column->constant) {
        const void *values = column->buffers[2].buf;
        row += column->offset;
        value = column->kind == I32 ? i32_at(values, row) : i64_at(values, row);
    }
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

/* Find a counted row: its batch, and its number there. Returns -1 if there is no such row. */
static int64_t find(struct place *place, int64_t index, const struct batch **found)
{
    const Rows *rows = place->rows;
    int64_t row = rows->numbers.obj == NULL ? index : i64_at(rows->numbers.buf, index);
    const struct batch *batch = &rows->batches[place->batch];
    if (row < 0 || row >= rows->total) return -1;
    if (row < batch->first || row >= batch->first + batch->rows) {
        Py_ssize_t low = 0, high = rows->batch_count - 1;
        while (low < high) { /* the last batch that begins at or before the row; empty ones before it */
            Py_ssize_t middle = (low + high + 1) / 2;
            if (rows->batches[middle].first <= row) low = middle; else high = middle - 1;
        }
        place->batch = low;
        batch = &rows->batches[low];
    }
    *found = batch;
    return row - batch->first;
}

/* The encoded bytes of a row. Returns -1 if its offsets are wrong. */
static int64_t row_bytes(const Rows *rows, const struct batch *batch, int64_t row)
{
    int64_t bytes = HEAD_BYTES + STOP_BYTES, size;
    for (int i = 0; i < rows->column_count; i++) {
        const struct column *column = &batch->columns[i];
        if (!is_present(column, row)) continue;
        if (column->kind != BYTES) {
            bytes += 1 + varint_bytes(zigzag(column, row));
            continue;
        }
        if (content(column, row, &size) == NULL) return -1;
        bytes += 1 + varint_bytes((uint64_t)size) + size;
    }
    return bytes;
}

static uint8_t *put_row(const Rows *rows, const struct batch *batch, int64_t row, uint8_t *start)
{
    uint8_t *at = start + HEAD_BYTES;
    int field = 0;
    int64_t size;
    for (int i = 0; i < rows->column_count; i++) {
        const struct column *column = &batch->columns[i];
        if (!is_present(column, row)) continue;
        *at++ = (uint8_t)((column->field - field) << 4 | column->kind);
        field = column->field;
        if (column->kind != BYTES) {
            at = put_varint(at, zigzag(column, row));
            continue;
        }
        const uint8_t *bytes = content(column, row, &size);
        at = put_varint(at, (uint64_t)size);
        memcpy(at, bytes, (size_t)size);
        at += size;
    }
    *at++ = 0;
    uint32_t length = (uint32_t)(at - start - HEAD_BYTES);
    const uint8_t head[HEAD_BYTES] = {'V', 0, 3, 0, (uint8_t)(length >> 24), (uint8_t)(length >> 16),
                                      (uint8_t)(length >> 8), (uint8_t)length};
    memcpy(start, head, sizeof head);
    return at;
}

/* --- the type ------------------------------------------------------------------------------ */

static int wrong(const char *what)
{
    PyErr_Format(PyExc_ValueError, "rows: %s", what);
    return -1;
}

/* Whether the buffers of a column hold all rows of its batch. */
static int check_column(const struct column *column, int64_t rows)
{
    int64_t width = column->kind == I32 ? 4 : 8;
    const Py_buffer *valid = &column->buffers[0], *ends = &column->buffers[1], *values = &column->buffers[2];
    if (column->kind != BYTES && column->kind != I32 && column->kind != I64) return wrong("unknown kind");
    if (column->offset < 0) return wrong("negative offset");
    if (column->offset > ROWS_MAX - rows) return wrong("offset beyond every buffer");
    int64_t end = column->offset + rows;
    if (valid->obj != NULL && valid->len < (end + 7) / 8) return wrong("too few bits");
    if (column->constant) return column->kind == BYTES ? wrong("constant bytes") : 0;
    if (column->kind == BYTES) {
        if (rows && (ends->obj == NULL || ends->len < (end + 1) * 4)) return wrong("too few offsets");
    } else if (rows && (values->obj == NULL || values->len < end * width)) {
        return wrong("too few values");
    }
    return 0;
}

/* (field, kind, offset, valid, ends, values), or (field, kind, value) of all rows. */
static int read_column(PyObject *given, struct column *column, int64_t rows)
{
    PyObject *buffers[BUFFERS];
    long long number;
    column->constant = PyTuple_Size(given) == 3;
    if (PyErr_Occurred()) return -1;
    if (column->constant) {
        if (!PyArg_ParseTuple(given, "iiL", &column->field, &column->kind, &number)) return -1;
        column->value = number;
        return check_column(column, rows);
    }
    if (!PyArg_ParseTuple(given, "iiLOOO", &column->field, &column->kind, &number, &buffers[0], &buffers[1], &buffers[2]))
        return -1;
    column->offset = number;
    for (int i = 0; i < BUFFERS; i++)
        if (buffers[i] != Py_None && PyObject_GetBuffer(buffers[i], &column->buffers[i], PyBUF_SIMPLE) < 0) {
            column->buffers[i].obj = NULL;
            return -1;
        }
    return check_column(column, rows);
}

static int read_batch(PyObject *given, struct batch *batch, Rows *self)
{
    PyObject *columns;
    long long rows;
    if (!PyArg_ParseTuple(given, "LO!", &rows, &PyTuple_Type, &columns)) return -1;
    Py_ssize_t count = PyTuple_Size(columns);
    if (rows < 0 || count > COLUMNS_MAX) return wrong("too many columns, or a negative number of rows");
    if (rows > ROWS_MAX - self->total) return wrong("too many rows");
    batch->first = self->total;
    batch->rows = rows;
    if (self->batch_count == 0) self->column_count = (int)count;
    if (count != self->column_count) return wrong("batches of different columns");
    int field = 0;
    for (int i = 0; i < count; i++) {
        PyObject *column = PyTuple_GetItem(columns, i);
        if (column == NULL || read_column(column, &batch->columns[i], rows) < 0) return -1;
        if (batch->columns[i].field <= field || batch->columns[i].field > 15) return wrong("fields out of order");
        field = batch->columns[i].field;
    }
    self->total += rows;
    return 0;
}

static void rows_dealloc(Rows *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    if (self->numbers.obj != NULL) PyBuffer_Release(&self->numbers);
    /* Also the batch that could not be read, so one more than were counted. */
    for (Py_ssize_t b = 0; self->batches != NULL && b <= self->batch_count; b++)
        for (int i = 0; i < COLUMNS_MAX; i++)
            for (int n = 0; n < BUFFERS; n++) {
                Py_buffer *buffer = &self->batches[b].columns[i].buffers[n];
                if (buffer->obj != NULL) PyBuffer_Release(buffer);
            }
    free(self->batches);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static int fill(Rows *self, PyObject *batches, PyObject *numbers)
{
    Py_ssize_t count = PyTuple_Size(batches);
    self->batches = calloc((size_t)count + 1, sizeof *self->batches);
    if (self->batches == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    while (self->batch_count < count) {
        PyObject *batch = PyTuple_GetItem(batches, self->batch_count);
        if (batch == NULL || read_batch(batch, &self->batches[self->batch_count], self) < 0) return -1;
        self->batch_count++;
    }
    self->count = self->total;
    if (numbers == Py_None) return 0;
    if (PyObject_GetBuffer(numbers, &self->numbers, PyBUF_SIMPLE) < 0) {
        self->numbers.obj = NULL;
        return -1;
    }
    if (self->numbers.len % 8) return wrong("row numbers are not of 64 bits");
    self->count = self->numbers.len / 8;
    return 0;
}

static PyObject *rows_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    PyObject *batches, *numbers;
    if (!PyArg_ParseTuple(args, "O!O:Rows", &PyTuple_Type, &batches, &numbers)) return NULL;
    Rows *self = (Rows *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL) return NULL;
    if (fill(self, batches, numbers) < 0) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    return (PyObject *)self;
}

/* The end of the block that begins at `start`, and its bytes; -1: a row is wrong. */
static int64_t measure(const Rows *rows, int64_t start, int64_t bytes_max, int64_t rows_max, int64_t *bytes)
{
    struct place place = {rows, 0};
    const struct batch *batch;
    int64_t end = start;
    *bytes = 0;
    while (end < rows->count && (end == start || end - start < rows_max)) {
        int64_t row = find(&place, end, &batch);
        int64_t more = row < 0 ? -1 : row_bytes(rows, batch, row);
        if (more < 0 || more > INT32_MAX) return -1;
        if (end > start && *bytes + more > bytes_max) break;
        *bytes += more;
        end++;
    }
    return end;
}

static void put_rows(const Rows *rows, int64_t start, int64_t end, uint8_t *at)
{
    struct place place = {rows, 0};
    const struct batch *batch;
    for (int64_t index = start; index < end; index++) {
        int64_t row = find(&place, index, &batch);
        at = put_row(rows, batch, row, at);
    }
}

static PyObject *rows_block(Rows *self, PyObject *args)
{
    long long start, bytes_max, rows_max;
    int64_t end, bytes;
    if (!PyArg_ParseTuple(args, "LLL:block", &start, &bytes_max, &rows_max)) return NULL;
    if (start < 0 || start >= self->count) {
        wrong("no such row");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    end = measure(self, start, bytes_max, rows_max, &bytes);
    Py_END_ALLOW_THREADS
    if (end < 0) {
        wrong("a row is outside of the table, or longer than 2 GiB");
        return NULL;
    }
    PyObject *payload = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    if (payload == NULL) return NULL;
    uint8_t *at = (uint8_t *)PyBytes_AsString(payload);
    Py_BEGIN_ALLOW_THREADS
    put_rows(self, start, end, at);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("NL", payload, (long long)end);
}

static PyMethodDef rows_methods[] = {
    {"block", (PyCFunction)rows_block, METH_VARARGS,
     "block(start, bytes_max, rows_max): the payload of the rows from start on that fit, and their end."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot rows_slots[] = {
    {Py_tp_new, rows_new},
    {Py_tp_dealloc, rows_dealloc},
    {Py_tp_methods, rows_methods},
    {Py_tp_doc, "Rows(batches, numbers): the columns of a table, and the numbers of its rows that count; None: all."},
    {0, NULL},
};

static PyType_Spec rows_spec = {
    .name = "opentalos.sdk.arrow._native.Rows",
    .basicsize = sizeof(Rows),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = rows_slots,
};

/* --- the module ---------------------------------------------------------------------------- */

static int module_exec(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&rows_spec);
    int failed = type == NULL || PyModule_AddObjectRef(module, "Rows", type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_native",
    .m_doc = "Arrow columns as messages.",
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&module); }
