/* Reads of a file that never wait for the disk: bytes that are not in the page cache are not read.
 *
 * The optional module opentalos.adapters.local._reads. Most reads find their bytes in memory, where
 * handing a read to a thread and back costs as much as the copy itself.
 *
 * cachestat says first whether all pages are there: RWF_NOWAIT alone would start to read those that
 * are not, and a disk that hangs can make even that wait. Without cachestat (Linux before 6.5, or a
 * container that forbids it) nothing is found, and threads read as if this module were absent.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000 /* one build for CPython 3.11 and later */
#endif
#include <Python.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#if defined(__linux__) && defined(RWF_NOWAIT)
#ifndef SYS_cachestat
#define SYS_cachestat 451 /* the same number on every processor; headers may be older */
#endif

struct range {
    uint64_t position, count;
};

struct pages {
    uint64_t cached, dirty, written, evicted, evicted_lately;
};

static int are_cached(int fd, uint64_t position, uint64_t count, uint64_t page)
{
    struct range range = {position, count};
    struct pages pages;
    if (syscall(SYS_cachestat, fd, &range, &pages, 0) != 0)
        return 0;
    return pages.cached >= (position + count - 1) / page - position / page + 1;
}

static ssize_t read_at_once(int fd, char *into, size_t count, off_t position)
{
    struct iovec whole = {into, count};
    return preadv2(fd, &whole, 1, position, RWF_NOWAIT);
}
#else
static int are_cached(int fd, uint64_t position, uint64_t count, uint64_t page)
{
    (void)fd, (void)position, (void)count, (void)page;
    return 0;
}

static ssize_t read_at_once(int fd, char *into, size_t count, off_t position)
{
    (void)fd, (void)into, (void)count, (void)position;
    return -1;
}
#endif

static PyObject *read_cached(PyObject *module, PyObject *arguments)
{
    int fd;
    Py_ssize_t count;
    long long position;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "inL", &fd, &count, &position))
        return NULL;
    long page = sysconf(_SC_PAGESIZE);
    if (count <= 0 || position < 0 || page <= 0)
        Py_RETURN_NONE;
    if (!are_cached(fd, (uint64_t)position, (uint64_t)count, (uint64_t)page))
        Py_RETURN_NONE;
    PyObject *found = PyBytes_FromStringAndSize(NULL, count);
    if (found == NULL)
        return NULL;
    char *into = PyBytes_AsString(found);
    ssize_t got;
    Py_BEGIN_ALLOW_THREADS
    got = read_at_once(fd, into, (size_t)count, (off_t)position);
    Py_END_ALLOW_THREADS
    if (got == count)
        return found;
    Py_DECREF(found); /* a page left meanwhile, or the file ends */
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"read_cached", read_cached, METH_VARARGS,
     "read_cached(fd, count, position): bytes, or None: they are not all in the page cache."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "opentalos.adapters.local._reads",
    .m_doc = "Reads that never wait for the disk.",
    .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__reads(void);
__attribute__((visibility("default"))) PyMODINIT_FUNC PyInit__reads(void)
{
    return PyModule_Create(&definition);
}
