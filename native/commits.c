/* Threads that write and sync files without the interpreter's lock.
 *
 * The optional module opentalos.adapters.local._native. A Pool has a queue of write jobs, threads
 * that serve it, and a list of completions, which one descriptor announces: an event loop watches
 * it and calls reap(), which hands out everything that ended, once per burst. Which threads to
 * start, replace or end is decided in Python (adapters/io_threads.py), as for Python's own threads;
 * docs/adr/0029-native-commits.md says why.
 *
 * A job is what disk.write_at and disk.check_not_fenced do, in that order: write all bytes, make
 * them durable, then look for a fence. A thread touches no Python object; the job's buffers are
 * held from submit() to reap(), both of which run with the interpreter's lock. All methods of a
 * Pool belong to one thread of Python.
 *
 * That thread never waits for a lock that a thread of the pool may have: one that is descheduled
 * with a lock, as happens on a machine with more to do than processors, would stop the event loop
 * for as long, and every client with it. Jobs come through a ring and go back through a stack, both
 * of atomic operations alone; a counter says how many there are.
 *
 * Files are called through libc, not by system call numbers, so that a preloaded library sees
 * every call (tests/power/recorder.c), and through `disk`, which tests replace.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000 /* one build for CPython 3.11 and later */
#endif
#include <Python.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#endif

#define INTERFACE 1               /* accelerator.py refuses a module of another one */
#define PARTS_MAX 1024            /* buffers of one system call; IOV_MAX of Linux and macOS */
#define STACK_BYTES (256 << 10)   /* of a thread, which needs a few KiB */
#define RING_JOBS 1024            /* a power of two; what is beyond waits in a list */
#define DONE 0                    /* outcomes; above 0: an errno */
#define FENCED (-1)
#define DELETED (-2)

/* --- the disk ------------------------------------------------------------------------------ */

/* Write and, with `durable`, return when those bytes are durable: EOPNOTSUPP if that takes a sync. */
static ssize_t write_parts(int fd, const struct iovec *parts, int count, int64_t position, int durable)
{
#ifdef RWF_DSYNC
    return durable ? pwritev2(fd, parts, count, position, RWF_DSYNC) : pwritev(fd, parts, count, position);
#else
    if (durable) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return pwritev(fd, parts, count, position);
#endif
}

static int sync_file(int fd)
{
#if defined(F_FULLFSYNC) /* macOS, where fsync stops at the drive's cache */
    return fcntl(fd, F_FULLFSYNC);
#else
    return fdatasync(fd);
#endif
}

static struct {
    ssize_t (*write)(int, const struct iovec *, int, int64_t, int);
    int (*sync)(int);
} disk = {write_parts, sync_file};

/* --- jobs ---------------------------------------------------------------------------------- */

struct job {
    struct job *next;
    PyObject *token;     /* what reap() returns; NULL: the thread that takes this job ends */
    char *fence;         /* path that refuses the commit if it exists; NULL: do not look */
    struct iovec *parts; /* consumed while writing */
    Py_buffer *buffers;  /* hold the bytes; as many as parts */
    Py_ssize_t count;
    size_t bytes;
    int64_t position, length; /* of the file, before the commit and after it */
    int fd, synced;
    int outcome, slot; /* set by the thread */
    double seconds;
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Returns 0 or an errno. A short write is continued; only its first call can be its own sync. */
static int write_all(struct job *job, size_t one_call_bytes_max)
{
    struct iovec *part = job->parts;
    Py_ssize_t left = job->count;
    size_t bytes = job->bytes;
    int64_t at = job->position;
    int durable = job->synced && bytes <= one_call_bytes_max && left <= PARTS_MAX;
    for (;;) {
        ssize_t written = disk.write(job->fd, part, left < PARTS_MAX ? (int)left : PARTS_MAX, at, durable);
        if (written < 0) {
            if (errno == EINTR) continue;
            if (!durable || (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS)) return errno;
            durable = 0; /* refused before anything was written: a sync follows */
            continue;
        }
        if (written == 0 && bytes > 0) return EIO; /* no progress and no reason */
        if ((size_t)written == bytes) break;
        durable = 0; /* the rest has no sync of its own */
        bytes -= (size_t)written;
        at += written;
        for (; (size_t)written >= part->iov_len; part++, left--) written -= (ssize_t)part->iov_len;
        part->iov_base = (char *)part->iov_base + written;
        part->iov_len -= (size_t)written;
    }
    if (job->synced && !durable)
        while (disk.sync(job->fd) < 0)
            if (errno != EINTR) return errno;
    return 0;
}

/* After the write. Without a fence the write precedes it and is inside the length that a recovery
 * finds; a deletion makes a fence, removes the file, then the fence. See disk.check_not_fenced. */
static int look_for_fence(const struct job *job)
{
    struct stat status;
    if (stat(job->fence, &status) == 0) return FENCED;
    if (errno != ENOENT) return errno;
    if (fstat(job->fd, &status) < 0) return errno;
    return status.st_nlink ? DONE : DELETED;
}

/* With the interpreter's lock. */
static void free_job(struct job *job)
{
    for (Py_ssize_t n = 0; n < job->count; n++) PyBuffer_Release(&job->buffers[n]);
    Py_XDECREF(job->token);
    free(job);
}

/* --- the pool, shared by its threads ------------------------------------------------------- */

struct list {
    struct job *first, **end; /* where the next one is put */
};

static void put(struct list *list, struct job *job)
{
    job->next = NULL;
    *list->end = job;
    list->end = &job->next;
}

static struct job *take(struct list *list)
{
    struct job *job = list->first;
    if (job != NULL && (list->first = job->next) == NULL) list->end = &list->first;
    return job;
}

/* Counts the jobs in the ring; a thread waits for one. Only the first of several jobs wakes a thread,
 * which wakes the next one if it leaves tickets: the loop pays for one wake-up, and yet a thread whose
 * job hangs keeps no other job from a thread that sleeps. */
#ifdef __linux__
typedef struct {
    atomic_int count, sleepers;
} tickets;
static void open_tickets(tickets *it)
{
    atomic_init(&it->count, 0);
    atomic_init(&it->sleepers, 0);
}
static void close_tickets(tickets *it) { (void)it; }
static void wake_one(tickets *it)
{
    if (atomic_load(&it->sleepers) > 0) syscall(SYS_futex, &it->count, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
static void add_ticket(tickets *it)
{
    if (atomic_fetch_add(&it->count, 1) == 0) wake_one(it);
}
static void take_ticket(tickets *it)
{
    int count = atomic_load(&it->count);
    for (;;) {
        if (count > 0) {
            if (!atomic_compare_exchange_weak(&it->count, &count, count - 1)) continue;
            if (count > 1) wake_one(it);
            return;
        }
        atomic_fetch_add(&it->sleepers, 1); /* before the kernel looks at the count */
        syscall(SYS_futex, &it->count, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
        atomic_fetch_sub(&it->sleepers, 1);
        count = atomic_load(&it->count);
    }
}
#else /* here the loop's thread may wait for a lock */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    size_t count;
} tickets;
static void open_tickets(tickets *it)
{
    pthread_mutex_init(&it->lock, NULL);
    pthread_cond_init(&it->more, NULL);
    it->count = 0;
}
static void close_tickets(tickets *it)
{
    pthread_cond_destroy(&it->more);
    pthread_mutex_destroy(&it->lock);
}
static void add_ticket(tickets *it)
{
    pthread_mutex_lock(&it->lock);
    it->count++;
    pthread_cond_signal(&it->more);
    pthread_mutex_unlock(&it->lock);
}
static void take_ticket(tickets *it)
{
    pthread_mutex_lock(&it->lock);
    while (it->count == 0) pthread_cond_wait(&it->more, &it->lock);
    it->count--;
    pthread_mutex_unlock(&it->lock);
}
#endif

/* A queue of bounded length: the loop's thread puts, any thread takes, the oldest first. The turn of
 * a cell says whose it is: `n` for the putter of job number n, `n + 1` for who takes that.
 * Source: D. Vyukov, "Bounded MPMC queue". */
struct ring {
    struct {
        atomic_size_t turn;
        struct job *job;
    } cells[RING_JOBS];
    atomic_size_t taken; /* jobs so far */
    size_t put;
};

static void open_ring(struct ring *ring)
{
    for (size_t n = 0; n < RING_JOBS; n++) atomic_init(&ring->cells[n].turn, n);
    atomic_init(&ring->taken, 0);
    ring->put = 0;
}

static int has_room(struct ring *ring)
{
    size_t turn = atomic_load_explicit(&ring->cells[ring->put % RING_JOBS].turn, memory_order_acquire);
    return turn == ring->put;
}

/* There is room. The job belongs to a thread then. */
static void put_in_ring(struct ring *ring, struct job *job)
{
    size_t number = ring->put++, at = number % RING_JOBS;
    ring->cells[at].job = job;
    atomic_store_explicit(&ring->cells[at].turn, number + 1, memory_order_release);
}

/* NULL: it is empty. */
static struct job *take_from_ring(struct ring *ring)
{
    size_t number = atomic_load_explicit(&ring->taken, memory_order_relaxed);
    for (;;) {
        size_t at = number % RING_JOBS;
        size_t turn = atomic_load_explicit(&ring->cells[at].turn, memory_order_acquire);
        if ((ptrdiff_t)(turn - (number + 1)) < 0) return NULL;
        if (turn != number + 1) {
            number = atomic_load_explicit(&ring->taken, memory_order_relaxed); /* another was quicker */
            continue;
        }
        if (atomic_compare_exchange_weak_explicit(
                &ring->taken, &number, number + 1, memory_order_relaxed, memory_order_relaxed)) {
            struct job *job = ring->cells[at].job;
            atomic_store_explicit(&ring->cells[at].turn, number + RING_JOBS, memory_order_release);
            return job;
        }
    }
}

struct pool {
    struct ring waiting;
    tickets tickets;               /* at least one for each job of the ring */
    _Atomic(struct job *) ended;   /* the newest one first */
    atomic_int abandoned;          /* no Python object is left */
    atomic_int users;              /* the Python object, and threads */
    struct list beyond, unreported; /* of the loop's thread: before the ring, and after `ended` */
    int wake_in, wake_out;         /* the same descriptor on Linux */
    size_t one_call_bytes_max;
    struct slot *slots;
    int slot_count;
};

/* Of one thread at a time. Kept in the pool: a thread that calls free() gets a heap of its own. */
struct slot {
    _Atomic double started_s; /* of its job; 0: idle, -1: there is no thread */
    struct pool *pool;
    char name[16];
};

static void close_wakes(struct pool *pool)
{
    close(pool->wake_in);
    if (pool->wake_out != pool->wake_in) close(pool->wake_out);
}

/* The last user frees the pool. */
static void leave_pool(struct pool *pool)
{
    if (atomic_fetch_sub(&pool->users, 1) > 1) return;
    close_wakes(pool);
    close_tickets(&pool->tickets);
    free(pool->slots);
    free(pool);
}

static void announce(struct pool *pool)
{
    uint64_t one = 1;
    while (write(pool->wake_out, &one, sizeof one) < 0 && errno == EINTR) {} /* EAGAIN: it is full, so it wakes */
}

/* Who finds the list empty tells the loop, which takes all of it. The job belongs to the loop then. */
static void report(struct pool *pool, struct job *job)
{
    struct job *newest = atomic_load_explicit(&pool->ended, memory_order_relaxed);
    do
        job->next = newest;
    while (!atomic_compare_exchange_weak_explicit(
        &pool->ended, &newest, job, memory_order_release, memory_order_relaxed));
    if (newest == NULL) announce(pool);
}

static void *serve(void *given)
{
    struct slot *slot = given;
    struct pool *pool = slot->pool;
#ifdef __linux__
    pthread_setname_np(pthread_self(), slot->name);
#elif defined(__APPLE__)
    pthread_setname_np(slot->name);
#endif
    for (int leaves = 0; !leaves;) {
        take_ticket(&pool->tickets);
        if (atomic_load(&pool->abandoned)) break;
        struct job *job = take_from_ring(&pool->waiting);
        if (job == NULL) continue; /* it was withdrawn */
        leaves = job->token == NULL;
        if (!leaves) {
            double started_s = now_s();
            atomic_store_explicit(&slot->started_s, started_s, memory_order_relaxed);
            job->outcome = write_all(job, pool->one_call_bytes_max);
            if (job->outcome == 0 && job->fence != NULL) job->outcome = look_for_fence(job);
            job->seconds = now_s() - started_s;
        }
        /* First: reap() frees the slot of a thread that left. */
        atomic_store_explicit(&slot->started_s, 0, memory_order_relaxed);
        job->slot = (int)(slot - pool->slots);
        report(pool, job); /* of an abandoned pool: lost, since its buffers need the interpreter */
    }
    leave_pool(pool);
    return NULL;
}

/* Returns 0 or an errno. Signals stay with Python's main thread. */
static int start_thread(struct slot *slot)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, former;
    int error = pthread_attr_init(&attributes);
    if (error) return error;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    error = pthread_create(&thread, &attributes, serve, slot);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    pthread_attr_destroy(&attributes);
    return error;
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

static int open_wakes(struct pool *pool)
{
#ifdef __linux__
    pool->wake_in = pool->wake_out = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return pool->wake_in;
#else
    int ends[2];
    if (pipe(ends) < 0) return -1;
    for (int n = 0; n < 2; n++) {
        fcntl(ends[n], F_SETFL, O_NONBLOCK);
        fcntl(ends[n], F_SETFD, FD_CLOEXEC);
    }
    pool->wake_in = ends[0];
    pool->wake_out = ends[1];
    return 0;
#endif
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
    struct pool *pool = calloc(1, sizeof *pool);
    struct slot *slots = calloc((size_t)count, sizeof *slots);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Pool *self = pool != NULL && slots != NULL ? (Pool *)allocate(type, 0) : NULL;
    if (self == NULL || open_wakes(pool) < 0) {
        if (!PyErr_Occurred()) self == NULL ? PyErr_NoMemory() : os_error(errno);
        Py_XDECREF((PyObject *)self);
        free(slots);
        free(pool);
        return NULL;
    }
    open_ring(&pool->waiting);
    open_tickets(&pool->tickets);
    pool->beyond.end = &pool->beyond.first;
    pool->unreported.end = &pool->unreported.first;
    pool->one_call_bytes_max = (size_t)one_call_bytes_max;
    pool->slots = slots;
    pool->slot_count = count;
    atomic_init(&pool->ended, NULL);
    atomic_init(&pool->abandoned, 0);
    atomic_init(&pool->users, 1);
    for (int n = 0; n < count; n++) {
        atomic_init(&slots[n].started_s, -1);
        slots[n].pool = pool;
    }
    self->pool = pool;
    return (PyObject *)self;
}

/* Move what ended to `unreported`, the first one first. */
static void take_ended(struct pool *pool)
{
    struct job *newest = atomic_exchange_explicit(&pool->ended, NULL, memory_order_acquire), *oldest = NULL;
    while (newest != NULL) {
        struct job *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest != NULL) {
        struct job *next = oldest->next;
        put(&pool->unreported, oldest);
        oldest = next;
    }
}

/* Idle threads end now, hanging ones whenever their call returns; nobody learns of its outcome. */
static void pool_dealloc(Pool *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    struct pool *pool = self->pool;
    if (pool != NULL) {
        struct job *job;
        atomic_store(&pool->abandoned, 1);
        while ((job = take_from_ring(&pool->waiting)) != NULL) free_job(job);
        while ((job = take(&pool->beyond)) != NULL) free_job(job);
        take_ended(pool);
        while ((job = take(&pool->unreported)) != NULL) free_job(job);
        for (int n = 0; n < pool->slot_count; n++) add_ticket(&pool->tickets);
        leave_pool(pool);
    }
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *pool_fileno(Pool *self, PyObject *Py_UNUSED(none))
{
    return PyLong_FromLong(self->pool->wake_in);
}

static PyObject *pool_start(Pool *self, PyObject *given)
{
    struct pool *pool = self->pool;
    Py_ssize_t bytes;
    const char *name = PyUnicode_AsUTF8AndSize(given, &bytes);
    if (name == NULL) return NULL;
    int number = 0, error = EAGAIN;
    while (number < pool->slot_count && atomic_load(&pool->slots[number].started_s) >= 0) number++;
    if (number < pool->slot_count) {
        struct slot *slot = &pool->slots[number];
        memset(slot->name, 0, sizeof slot->name);
        memcpy(slot->name, name, (size_t)bytes < sizeof slot->name ? (size_t)bytes : sizeof slot->name - 1);
        atomic_store(&slot->started_s, 0);
        atomic_fetch_add(&pool->users, 1);
        if ((error = start_thread(slot)) != 0) {
            atomic_store(&slot->started_s, -1);
            atomic_fetch_sub(&pool->users, 1);
        }
    }
    return error ? os_error(error) : PyLong_FromLong(number);
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
    job->buffers = (Py_buffer *)(job + 1);
    job->parts = (struct iovec *)(job->buffers + count);
    if (path != NULL) job->fence = memcpy(job->parts + count, path, (size_t)path_bytes + 1);
    while (job->count < count) {
        PyObject *chunk = PySequence_GetItem(chunks, job->count);
        Py_buffer *buffer = &job->buffers[job->count];
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

/* Fill the ring from what waits before it. */
static void refill(struct pool *pool)
{
    while (pool->beyond.first != NULL && has_room(&pool->waiting)) {
        put_in_ring(&pool->waiting, take(&pool->beyond));
        add_ticket(&pool->tickets);
    }
}

static void enqueue(struct pool *pool, struct job *job)
{
    put(&pool->beyond, job);
    refill(pool);
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
    job->fd = fd;
    job->position = position;
    job->synced = synced;
    job->token = Py_NewRef(args[0]);
    job->length = position + (int64_t)job->bytes;
    enqueue(self->pool, job);
    Py_RETURN_NONE;
}

static PyObject *pool_dismiss(Pool *self, PyObject *Py_UNUSED(none))
{
    struct job *job = calloc(1, sizeof *job);
    if (job == NULL) return PyErr_NoMemory();
    enqueue(self->pool, job);
    Py_RETURN_NONE;
}

static PyObject *pool_withdraw(Pool *self, PyObject *Py_UNUSED(none))
{
    struct job *job = take_from_ring(&self->pool->waiting);
    if (job == NULL) job = take(&self->pool->beyond);
    PyObject *token = job != NULL && job->token != NULL ? Py_NewRef(job->token) : Py_NewRef(Py_None);
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
    double started_s = atomic_load_explicit(&pool->slots[number].started_s, memory_order_relaxed);
    return PyFloat_FromDouble(started_s > 0 ? now_s() - started_s : 0.0);
}

static PyObject *pool_reap(Pool *self, PyObject *Py_UNUSED(none))
{
    struct pool *pool = self->pool;
    uint64_t wakes[64];
    /* First: what ends after the list was taken announces itself again. */
    while (read(pool->wake_in, wakes, sizeof wakes) == (ssize_t)sizeof wakes) {}
    PyObject *found = PyList_New(0);
    if (found == NULL) goto again;
    take_ended(pool);
    refill(pool); /* each job that ended left a place in the ring */
    for (struct job *job; (job = pool->unreported.first) != NULL; free_job(job)) {
        PyObject *token = job->token != NULL ? job->token : Py_None;
        PyObject *item = Py_BuildValue("iOiLd", job->slot, token, job->outcome, (long long)job->length, job->seconds);
        int failed = item == NULL || PyList_Append(found, item) < 0;
        Py_XDECREF(item);
        if (failed) goto short_of_memory;
        take(&pool->unreported);
        if (job->token == NULL) atomic_store(&pool->slots[job->slot].started_s, -1);
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
