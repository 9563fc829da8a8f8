/* Threads that write and sync files: the core of native/commits.c, which knows no Python.
 *
 * A pool has a queue of write jobs, threads that serve it, and a list of completions, which one
 * descriptor announces. native/commits.c includes this file and is the binding, so the compiler sees
 * both as one; tests/native/pool_driver.c includes it to run the threads under ThreadSanitizer.
 *
 * A job is what disk.write_at and disk.check_not_fenced do, in that order: write all bytes, make
 * them durable, then look for a fence. The bytes of a job are the submitter's, who keeps them from
 * submit_job() until it has the job back. All functions of a pool belong to one thread at a time,
 * which is called the loop's thread here: in Python that is who has the interpreter's lock.
 *
 * The loop's thread never waits for a lock that a thread of the pool may have: one that is
 * descheduled with a lock, as happens on a machine with more to do than processors, would stop the
 * event loop for as long, and every client with it. Jobs come through a ring and go back through a
 * stack, both of atomic operations alone; a counter says how many there are.
 *
 * Files are called through libc, not by system call numbers, so that a preloaded library sees
 * every call (tests/power/recorder.c), and through `disk`, which tests replace.
 */
#ifndef OPENTALOS_COMMIT_POOL_H
#define OPENTALOS_COMMIT_POOL_H
#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE and _FILE_OFFSET_BITS 64 before the first header"
#endif
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
#if defined(__linux__) && !defined(TICKETS_BY_LOCK) /* a test runs the other kind on Linux, too */
#define TICKETS_BY_FUTEX
#endif
#ifdef __linux__
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#endif

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
    void *token;         /* the submitter's; NULL: the thread that takes this job ends */
    char *fence;         /* path that refuses the commit if it exists; NULL: do not look */
    struct iovec *parts; /* consumed while writing */
    void *buffers;       /* the submitter's: what holds the bytes */
    ssize_t count;
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
    ssize_t left = job->count;
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
#ifdef TICKETS_BY_FUTEX
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
    atomic_int abandoned;          /* the submitter left */
    atomic_int users;              /* the submitter, and threads */
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
        report(pool, job); /* of an abandoned pool: lost, since its bytes are the submitter's */
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

/* --- what the loop's thread does ----------------------------------------------------------- */

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

/* NULL: errno says why. */
static struct pool *open_pool(int slot_count, size_t one_call_bytes_max)
{
    struct pool *pool = calloc(1, sizeof *pool);
    struct slot *slots = calloc((size_t)slot_count, sizeof *slots);
    if (pool == NULL || slots == NULL || open_wakes(pool) < 0) {
        free(slots);
        free(pool);
        return NULL;
    }
    open_ring(&pool->waiting);
    open_tickets(&pool->tickets);
    pool->beyond.end = &pool->beyond.first;
    pool->unreported.end = &pool->unreported.first;
    pool->one_call_bytes_max = one_call_bytes_max;
    pool->slots = slots;
    pool->slot_count = slot_count;
    atomic_init(&pool->ended, NULL);
    atomic_init(&pool->abandoned, 0);
    atomic_init(&pool->users, 1);
    for (int n = 0; n < slot_count; n++) {
        atomic_init(&slots[n].started_s, -1);
        slots[n].pool = pool;
    }
    return pool;
}

/* Start a thread in a free slot, whose number is stored. Returns 0 or an errno. */
static int start_in_pool(struct pool *pool, const char *name, size_t name_bytes, int *number)
{
    int at = 0, error;
    while (at < pool->slot_count && atomic_load(&pool->slots[at].started_s) >= 0) at++;
    if (at == pool->slot_count) return EAGAIN;
    struct slot *slot = &pool->slots[at];
    memset(slot->name, 0, sizeof slot->name);
    memcpy(slot->name, name, name_bytes < sizeof slot->name ? name_bytes : sizeof slot->name - 1);
    atomic_store(&slot->started_s, 0);
    atomic_fetch_add(&pool->users, 1);
    if ((error = start_thread(slot)) != 0) {
        atomic_store(&slot->started_s, -1);
        atomic_fetch_sub(&pool->users, 1);
    }
    *number = at;
    return error;
}

/* Fill the ring from what waits before it. */
static void refill(struct pool *pool)
{
    while (pool->beyond.first != NULL && has_room(&pool->waiting)) {
        put_in_ring(&pool->waiting, take(&pool->beyond));
        add_ticket(&pool->tickets);
    }
}

static void submit_job(struct pool *pool, struct job *job)
{
    put(&pool->beyond, job);
    refill(pool);
}

/* The first job that waits; NULL: there is none. */
static struct job *withdraw_job(struct pool *pool)
{
    struct job *job = take_from_ring(&pool->waiting);
    return job != NULL ? job : take(&pool->beyond);
}

/* Seconds since the job of a slot began; 0: idle. */
static double busy_s(const struct pool *pool, int number)
{
    double started_s = atomic_load_explicit(&pool->slots[number].started_s, memory_order_relaxed);
    return started_s > 0 ? now_s() - started_s : 0.0;
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

/* Move all that ended to `unreported`, and more jobs to the threads. */
static void gather_ended(struct pool *pool)
{
    uint64_t wakes[64];
    /* First: what ends after the list was taken announces itself again. */
    while (read(pool->wake_in, wakes, sizeof wakes) == (ssize_t)sizeof wakes) {}
    take_ended(pool);
    refill(pool); /* each job that ended left a place in the ring */
}

/* The first job of `unreported` is the submitter's again; the slot of a thread that left is free. */
static struct job *take_reported(struct pool *pool)
{
    struct job *job = take(&pool->unreported);
    if (job != NULL && job->token == NULL) atomic_store(&pool->slots[job->slot].started_s, -1);
    return job;
}

/* The submitter leaves. Idle threads end now, hanging ones whenever their call returns; nobody
 * learns of its outcome, and its job is never given back. */
static void abandon_pool(struct pool *pool, void (*give_back)(struct job *))
{
    struct job *job;
    atomic_store(&pool->abandoned, 1);
    while ((job = withdraw_job(pool)) != NULL) give_back(job);
    take_ended(pool);
    while ((job = take(&pool->unreported)) != NULL) give_back(job);
    for (int n = 0; n < pool->slot_count; n++) add_ticket(&pool->tickets);
    leave_pool(pool);
}

#endif
