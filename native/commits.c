/* Threads that write and sync files without the interpreter's lock.
 *
 * The optional module opentalos.adapters.local._native: a Pool of native/commit_pool.h as a type of
 * Python. An event loop watches its descriptor and calls reap(), which hands out everything that
 * ended, once per burst. Which threads to start, replace or end is decided in Python
 * (adapters/io_threads.py), as for Python's own threads; docs/adr/0029-native-commits.md says why.
 *
 * A thread of the pool touches no Python object; the job's buffers are held from submit() to reap(),
 * both of which run with the interpreter's lock. All methods of a Pool belong to one thread of
 * Python.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000 /* one build for CPython 3.11 and later */
#endif
#include <Python.h>
#include "commit_pool.h"

#define INTERFACE 1               /* accelerator.py refuses a module of another one */

/* --- jobs of Python: the token is an object, and so many of Py_buffer hold the bytes --------- */

/* With the interpreter's lock. */
static void free_job(struct job *job)
{
    Py_buffer *buffers = job->buffers;
    for (Py_ssize_t n = 0; n < job->count; n++) PyBuffer_Release(&buffers[n]);
    Py_XDECREF((PyObject *)job->token);
    free(job);
}

/* A job without its descriptor and token. NULL: an exception is set. */
static struct job *new_job(PyObject *chunks, PyObject *fence)
{
    char *path = NULL;
    Py_ssize_t path_bytes = 0, count = PySequence_Size(chunks);
    if (count < 0 || (fence != Py_None && PyBytes_AsStringAndSize(fence, &path, &path_bytes) < 0)) return NULL;
    size_t each = sizeof(struct iovec) + sizeof(Py_buffer);
    struct job *job = calloc(1, sizeof *job + (size_t)count * each + (size_t)path_bytes + 1);
    if (job == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    Py_buffer *buffers = job->buffers = job + 1;
    job->parts = (struct iovec *)(buffers + count);
    if (path != NULL) job->fence = memcpy(job->parts + count, path, (size_t)path_bytes + 1);
    while (job->count < count) {
        PyObject *chunk = PySequence_GetItem(chunks, job->count);
        Py_buffer *buffer = &buffers[job->count];
        int failed = chunk == NULL || PyObject_GetBuffer(chunk, buffer, PyBUF_SIMPLE) < 0;
        Py_XDECREF(chunk); /* the buffer holds it */
        if (failed) {
            free_job(job);
            return NULL;
        }
        job->parts[job->count++] = (struct iovec){buffer->buf, (size_t)buffer->len};
        job->bytes += (size_t)buffer->len;
    }
    return job;
}

/* --- the Python type ----------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    struct pool *pool;
} Pool;

static PyObject *os_error(int number)
{
    errno = number;
    return PyErr_SetFromErrno(PyExc_OSError);
}

static PyObject *pool_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    static char *known[] = {"threads_max", "one_call_bytes_max", NULL};
    int count;
    Py_ssize_t one_call_bytes_max;
    if (!PyArg_ParseTupleAndKeywords(args, names, "in:Pool", known, &count, &one_call_bytes_max)) return NULL;
    if (count < 1 || one_call_bytes_max < 0) {
        PyErr_SetString(PyExc_ValueError, "Pool: threads_max must be 1 or more, one_call_bytes_max 0 or more");
        return NULL;
    }
    struct pool *pool = open_pool(count, (size_t)one_call_bytes_max);
    if (pool == NULL) return errno == ENOMEM ? PyErr_NoMemory() : os_error(errno);
    Pool *self = (Pool *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL) {
        abandon_pool(pool, free_job);
        return NULL;
    }
    self->pool = pool;
    return (PyObject *)self;
}

static void pool_dealloc(Pool *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    abandon_pool(self->pool, free_job);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *pool_fileno(Pool *self, PyObject *Py_UNUSED(none))
{
    return PyLong_FromLong(self->pool->wake_in);
}

static PyObject *pool_start(Pool *self, PyObject *given)
{
    Py_ssize_t bytes;
    const char *name = PyUnicode_AsUTF8AndSize(given, &bytes);
    if (name == NULL) return NULL;
    int number, error = start_in_pool(self->pool, name, (size_t)bytes, &number);
    return error ? os_error(error) : PyLong_FromLong(number);
}

static PyObject *pool_submit(Pool *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "submit: six arguments");
        return NULL;
    }
    int fd = (int)PyLong_AsLong(args[1]);
    int64_t position = PyLong_AsLongLong(args[3]);
    int synced = PyObject_IsTrue(args[4]);
    if (synced < 0 || PyErr_Occurred()) return NULL;
    struct job *job = new_job(args[2], args[5]);
    if (job == NULL) return NULL;
    if (position > INT64_MAX - (int64_t)job->bytes) {
        free_job(job);
        PyErr_SetString(PyExc_ValueError, "submit: the commit would end beyond every file");
        return NULL;
    }
    job->fd = fd;
    job->position = position;
    job->synced = synced;
    job->token = Py_NewRef(args[0]);
    job->length = position + (int64_t)job->bytes;
    submit_job(self->pool, job);
    Py_RETURN_NONE;
}

static PyObject *pool_dismiss(Pool *self, PyObject *Py_UNUSED(none))
{
    struct job *job = calloc(1, sizeof *job);
    if (job == NULL) return PyErr_NoMemory();
    submit_job(self->pool, job);
    Py_RETURN_NONE;
}

static PyObject *pool_withdraw(Pool *self, PyObject *Py_UNUSED(none))
{
    struct job *job = withdraw_job(self->pool);
    PyObject *token = job != NULL && job->token != NULL ? Py_NewRef((PyObject *)job->token) : Py_NewRef(Py_None);
    if (job != NULL) free_job(job);
    return token;
}

static PyObject *pool_busy_s(Pool *self, PyObject *given)
{
    struct pool *pool = self->pool;
    long number = PyLong_AsLong(given);
    if (PyErr_Occurred()) return NULL;
    if (number < 0 || number >= pool->slot_count) {
        PyErr_SetString(PyExc_IndexError, "busy_s: no such slot");
        return NULL;
    }
    return PyFloat_FromDouble(busy_s(pool, (int)number));
}

static PyObject *pool_reap(Pool *self, PyObject *Py_UNUSED(none))
{
    struct pool *pool = self->pool;
    gather_ended(pool);
    PyObject *found = PyList_New(0);
    if (found == NULL) goto again;
    for (struct job *job; (job = pool->unreported.first) != NULL; free_job(job)) {
        PyObject *token = job->token != NULL ? job->token : Py_None;
        PyObject *item = Py_BuildValue("iOiLd", job->slot, token, job->outcome, (long long)job->length, job->seconds);
        int failed = item == NULL || PyList_Append(found, item) < 0;
        Py_XDECREF(item);
        if (failed) goto short_of_memory;
        take_reported(pool);
    }
    return found;
short_of_memory: /* what was handed out is lost with the list, so it is returned; the rest is next */
    PyErr_Clear();
again:
    announce(pool);
    return found;
}

static PyMethodDef pool_methods[] = {
    {"fileno", (PyCFunction)pool_fileno, METH_NOARGS, "The descriptor that is readable when reap() has something."},
    {"start", (PyCFunction)pool_start, METH_O, "Start a thread of that name and return its slot. Raises: OSError."},
    {"submit", (PyCFunction)(void (*)(void))pool_submit, METH_FASTCALL,
     "submit(token, fd, chunks, position, synced, fence): queue a commit."},
    {"dismiss", (PyCFunction)pool_dismiss, METH_NOARGS, "Let one thread end, after the jobs queued before."},
    {"withdraw", (PyCFunction)pool_withdraw, METH_NOARGS, "Take the first waiting job back; its token, None: there is none."},
    {"busy_s", (PyCFunction)pool_busy_s, METH_O, "Seconds since the job of a slot began; 0: idle."},
    {"reap", (PyCFunction)pool_reap, METH_NOARGS,
     "What ended: (slot, token, outcome, length, seconds) each; token None: the thread ended."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot pool_slots[] = {
    {Py_tp_new, pool_new},
    {Py_tp_dealloc, pool_dealloc},
    {Py_tp_methods, pool_methods},
    {Py_tp_doc, "A queue of commits and the threads that serve it."},
    {0, NULL},
};

static PyType_Spec pool_spec = {
    .name = "opentalos.adapters.local._native.Pool",
    .basicsize = sizeof(Pool),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = pool_slots,
};

/* --- the module ---------------------------------------------------------------------------- */

static PyObject *replace_disk(PyObject *Py_UNUSED(module), PyObject *args)
{
    unsigned long long write_address, sync_address;
    if (!PyArg_ParseTuple(args, "KK:replace_disk", &write_address, &sync_address)) return NULL;
    disk.write = write_address ? (ssize_t (*)(int, const struct iovec *, int, int64_t, int))(uintptr_t)write_address : write_parts;
    disk.sync = sync_address ? (int (*)(int))(uintptr_t)sync_address : sync_file;
    Py_RETURN_NONE;
}

static PyMethodDef module_functions[] = {
    {"replace_disk", replace_disk, METH_VARARGS,
     "For tests: addresses of C functions that write and sync instead, 0: the real ones; no commit may be under way."},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&pool_spec);
    int failed = type == NULL || PyModule_AddObjectRef(module, "Pool", type) < 0;
    Py_XDECREF(type);
    if (failed) return -1;
    if (PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0) return -1;
    if (PyModule_AddIntConstant(module, "DONE", DONE) < 0) return -1;
    if (PyModule_AddIntConstant(module, "FENCED", FENCED) < 0) return -1;
    return PyModule_AddIntConstant(module, "DELETED", DELETED);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_native",
    .m_doc = "Commits of local files on threads without the interpreter's lock.",
    .m_methods = module_functions,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&module); }
