/* Runs the threads of native/commit_pool.h without Python, for ThreadSanitizer.
 *
 * usage: pool_driver FOLDER      (scripts/sanitize.py builds and runs it; the folder is empty)
 *
 * Several threads submit, one reaps what the descriptor announces, all with one lock that stands
 * for the interpreter's: what native/commits.c does on one side of the pool. Each scene ends with
 * checks of every outcome and every byte; a wrong one is printed and ends the program with
 * status 1. A time limit ends it, too. With -DWITHOUT_INTERPRETER_LOCK the lock is left out: a race
 * that must be seen.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "commit_pool.h"
#include <poll.h>
#include <stdio.h>

#define SUBMITTERS 4
#define SUBMITTER_COMMITS 5000
#define COMMITS (SUBMITTERS * SUBMITTER_COMMITS)
#define RECORD_BYTES 48
#define RECORD_PARTS 4
#define THREADS 4
#define SLOTS 8
#define FILES 8          /* of real ones; the kinds of a commit below have one each */
#define ABANDONED_POOLS 150
#define WAIT_MS 60000    /* for one announcement */
#define RUN_S_MAX 240    /* the whole program; a quiet machine needs a few seconds */

#define CHECK(claim) \
    do \
        if (!(claim)) fail(__LINE__, #claim); \
    while (0)

static void fail(int line, const char *claim)
{
    fprintf(stderr, "pool_driver.c:%d: not so: %s (errno %d)\n", line, claim, errno);
    _exit(1);
}

#ifdef WITHOUT_INTERPRETER_LOCK
static void lock(void) {}
static void unlock(void) {}
#else
static pthread_mutex_t interpreter = PTHREAD_MUTEX_INITIALIZER;
static void lock(void) { pthread_mutex_lock(&interpreter); }
static void unlock(void) { pthread_mutex_unlock(&interpreter); }
#endif

/* --- commits ------------------------------------------------------------------------------- */

enum kind { PLAIN, TO_FENCED, TO_DELETED, TO_FULL, TO_CLOSED, TO_READ_ONLY, KINDS };

struct commit {
    struct job job; /* first, so a job is its commit */
    struct iovec parts[RECORD_PARTS];
    char bytes[RECORD_BYTES];
    int file, fd;
    enum kind kind;
    int ended; /* times that it was given back, so at last 1 */
    int withdrawn;
};

static struct commit commits[COMMITS]; /* of everything_ends() */
static int files[FILES], special[KINDS];
static char paths[FILES][300], fence_path[300], no_fence_path[300];
static const char *folder;

static int opened(const char *name, char *path, int flags)
{
    snprintf(path, 300, "%s/%s", folder, name);
    int fd = open(path, flags | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    return fd;
}

static void open_files(void)
{
    char path[300], name[20];
    for (int n = 0; n < FILES; n++) {
        snprintf(name, sizeof name, "file-%d", n);
        files[n] = opened(name, paths[n], O_RDWR | O_CREAT | O_TRUNC);
    }
    close(opened("fence", fence_path, O_RDWR | O_CREAT));
    snprintf(no_fence_path, sizeof no_fence_path, "%s/no-fence", folder);
    special[TO_FENCED] = opened("fenced", path, O_RDWR | O_CREAT | O_TRUNC);
    special[TO_DELETED] = opened("deleted", path, O_RDWR | O_CREAT | O_TRUNC);
    CHECK(unlink(path) == 0);
    special[TO_FULL] = open("/dev/full", O_WRONLY | O_CLOEXEC);
    CHECK(special[TO_FULL] >= 0);
    special[TO_READ_ONLY] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK(special[TO_READ_ONLY] >= 0);
    special[TO_CLOSED] = 1 << 20; /* above every limit of descriptors that tests run with */
    CHECK(fcntl(special[TO_CLOSED], F_GETFD) < 0 && errno == EBADF);
}

static void close_files(void)
{
    for (int n = 0; n < FILES; n++) close(files[n]);
    for (int kind = TO_FENCED; kind < KINDS; kind++)
        if (kind != TO_CLOSED) close(special[kind]);
}

/* Every commit has its own place in a file, so what is there says whether it was written. */
static int64_t place_of(int number) { return (int64_t)(number / FILES) * RECORD_BYTES; }

static void fill(struct commit *commit, int number)
{
    memset(commit, 0, sizeof *commit);
    commit->kind = number % 9 == 8 ? (enum kind)(1 + number / 9 % (KINDS - 1)) : PLAIN;
    commit->file = number % FILES;
    commit->fd = commit->kind == PLAIN ? files[commit->file] : special[commit->kind];
    for (int n = 0; n < RECORD_BYTES; n++) commit->bytes[n] = (char)(1 + (number + n) % 251);
    int cut = 1 + number % (RECORD_BYTES - 1); /* an empty part, and one that is cut */
    commit->parts[0] = (struct iovec){commit->bytes, (size_t)cut};
    commit->parts[1] = (struct iovec){NULL, 0};
    commit->parts[2] = (struct iovec){commit->bytes + cut, (size_t)(RECORD_BYTES - cut)};
    commit->parts[3] = (struct iovec){NULL, 0};
    struct job *job = &commit->job;
    job->token = commit;
    job->parts = commit->parts;
    job->count = RECORD_PARTS;
    job->bytes = RECORD_BYTES;
    job->fd = commit->fd;
    job->position = place_of(number);
    job->length = job->position + RECORD_BYTES;
    job->synced = number % 64 == 0;
    job->fence = commit->kind == TO_FENCED ? fence_path : number % 2 ? no_fence_path : NULL;
    if (commit->kind == TO_DELETED) job->fence = no_fence_path;
}

/* A file that is full or closed may be refused by an errno of the same meaning. */
static int expected(enum kind kind, int outcome)
{
    switch (kind) {
    case PLAIN: return outcome == DONE;
    case TO_FENCED: return outcome == FENCED;
    case TO_DELETED: return outcome == DELETED;
    case TO_FULL: return outcome == ENOSPC;
    default: return outcome == EBADF;
    }
}

static void check_files(int count)
{
    char found[RECORD_BYTES], nothing[RECORD_BYTES] = {0};
    for (int number = 0; number < count; number++) {
        const struct commit *commit = &commits[number];
        CHECK(commit->ended == 1);
        if (!commit->withdrawn) CHECK(expected(commit->kind, commit->job.outcome));
        if (commit->kind == PLAIN) {
            memset(found, 0, sizeof found);
            CHECK(pread(files[commit->file], found, RECORD_BYTES, place_of(number)) >= 0);
            CHECK(memcmp(found, commit->withdrawn ? nothing : commit->bytes, RECORD_BYTES) == 0);
        }
    }
}

/* --- disks that misbehave ------------------------------------------------------------------ */

/* Of the scene. `disk` is set once, before the first thread: threads of an abandoned pool read it
 * whenever their calls return. Relaxed, so that this orders nothing that the pool must order. */
static atomic_int misbehaviour, calls;
enum { NONE, BY_PIECES, HANGS };

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static int hanging, is_open;

static void misbehave(int how)
{
    atomic_store_explicit(&misbehaviour, how, memory_order_relaxed);
}

static int next_call(void)
{
    return atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
}

static void hang(void)
{
    pthread_mutex_lock(&gate);
    hanging++;
    pthread_cond_broadcast(&moved);
    while (!is_open) pthread_cond_wait(&moved, &gate);
    pthread_mutex_unlock(&gate);
}

static void wait_until_hanging(int threads)
{
    pthread_mutex_lock(&gate);
    while (hanging < threads) pthread_cond_wait(&moved, &gate);
    pthread_mutex_unlock(&gate);
}

static void open_gate(void)
{
    pthread_mutex_lock(&gate);
    is_open = 1;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&gate);
}

/* BY_PIECES: interrupts, refuses to be its own sync, or takes a few bytes alone. */
static ssize_t write_of_scene(int fd, const struct iovec *parts, int count, int64_t at, int durable)
{
    int how = atomic_load_explicit(&misbehaviour, memory_order_relaxed);
    if (how == HANGS) hang();
    if (how != BY_PIECES) return write_parts(fd, parts, count, at, durable);
    if (next_call() % 5 == 0 || durable) {
        errno = durable ? EOPNOTSUPP : EINTR;
        return -1;
    }
    while (count > 1 && parts->iov_len == 0) parts++, count--;
    return pwrite(fd, parts->iov_base, parts->iov_len < 7 ? parts->iov_len : 7, at);
}

static int sync_of_scene(int fd)
{
    int how = atomic_load_explicit(&misbehaviour, memory_order_relaxed);
    if (how != BY_PIECES || next_call() % 2) return sync_file(fd);
    errno = EINTR;
    return -1;
}

/* --- one pool ------------------------------------------------------------------------------ */

struct scene {
    struct pool *pool;
    int from, until; /* commits of a submitter */
    pthread_t thread;
};

static int given_back; /* with the lock */

/* Of any job: commits belong to the array, dismissals to malloc. */
static void give_back(struct job *job)
{
    if (job->token == NULL) {
        free(job);
        return;
    }
    ((struct commit *)job->token)->ended++;
    given_back++;
}

static void start(struct pool *pool)
{
    int number = -1;
    CHECK(start_in_pool(pool, "driver-thread-with-a-long-name", 30, &number) == 0);
    CHECK(number >= 0 && number < pool->slot_count);
}

static void dismiss(struct pool *pool)
{
    struct job *job = calloc(1, sizeof *job);
    CHECK(job != NULL);
    submit_job(pool, job);
}

static void pause_s(double seconds)
{
    nanosleep(&(struct timespec){0, (long)(seconds * 1e9)}, NULL);
}

static void *submit_all(void *given)
{
    const struct scene *scene = given;
    for (int number = scene->from; number < scene->until; number++) {
        lock();
        fill(&commits[number], number);
        submit_job(scene->pool, &commits[number].job);
        if (number % 50 == 49) { /* the oldest of all submitters' */
            struct job *job = withdraw_job(scene->pool);
            if (job != NULL && job->token != NULL) ((struct commit *)job->token)->withdrawn = 1;
            if (job != NULL && job->token == NULL) dismiss(scene->pool); /* a thread has to leave */
            if (job != NULL) give_back(job);
        }
        for (int n = 0; n < SLOTS; n++) CHECK(busy_s(scene->pool, n) >= 0);
        unlock();
        if (number % 100 == 99) pause_s(200e-6); /* then the threads have nothing to do */
    }
    return NULL;
}

static void wait_for_announcement(struct pool *pool)
{
    struct pollfd watched = {.fd = pool->wake_in, .events = POLLIN};
    int ready;
    do ready = poll(&watched, 1, WAIT_MS);
    while (ready < 0 && errno == EINTR);
    CHECK(ready == 1);
}

/* Take what ended; threads that left among it. */
static int reap(struct pool *pool)
{
    int left = 0;
    struct job *job;
    lock();
    gather_ended(pool);
    while ((job = take_reported(pool)) != NULL) {
        left += job->token == NULL;
        CHECK(job->slot >= 0 && job->slot < pool->slot_count);
        if (job->token != NULL) CHECK(job->seconds >= 0);
        give_back(job);
    }
    unlock();
    return left;
}

static int given_back_now(void)
{
    lock();
    int count = given_back;
    unlock();
    return count;
}

/* The last user has closed the descriptor. */
static void wait_until_gone(int fd)
{
    for (int n = 0; fcntl(fd, F_GETFD) >= 0; n++) {
        CHECK(n < WAIT_MS);
        pause_s(1e-3);
    }
}

/* Thousands of commits to all kinds of files, while threads leave and others are started; then all
 * threads leave, and the pool is closed with nothing in it. */
static void everything_ends(int commits_each)
{
    struct scene scenes[SUBMITTERS];
    struct pool *pool = open_pool(SLOTS, 1 << 16);
    CHECK(pool != NULL);
    int fd = pool->wake_in, running = THREADS, rounds = 0;
    given_back = 0;
    open_files();
    for (int n = 0; n < THREADS; n++) start(pool);
    for (int n = 0; n < SUBMITTERS; n++) {
        scenes[n] = (struct scene){pool, n * commits_each, (n + 1) * commits_each, 0};
        CHECK(pthread_create(&scenes[n].thread, NULL, submit_all, &scenes[n]) == 0);
    }
    while (given_back_now() < SUBMITTERS * commits_each) {
        wait_for_announcement(pool);
        int left = reap(pool);
        running -= left;
        lock();
        for (; running < THREADS; running++) start(pool);
        if (++rounds % 10 == 0) dismiss(pool); /* it leaves later, and another one is started */
        unlock();
    }
    for (int n = 0; n < SUBMITTERS; n++) CHECK(pthread_join(scenes[n].thread, NULL) == 0);
    lock();
    for (int n = 0; n < THREADS; n++) dismiss(pool);
    unlock();
    while (running > 0) {
        wait_for_announcement(pool);
        running -= reap(pool);
    }
    check_files(SUBMITTERS * commits_each);
    lock();
    abandon_pool(pool, give_back); /* more dismissals than threads may be left in it */
    unlock();
    wait_until_gone(fd);
    close_files();
}

/* --- closing ------------------------------------------------------------------------------- */

/* Submit commits of their own memory, which is kept, and so are the files: who abandons a pool
 * cannot know when its threads are done with what they lost. */
static struct commit *submit_some(struct pool *pool, int count)
{
    struct commit *some = calloc((size_t)count, sizeof *some);
    CHECK(some != NULL);
    for (int number = 0; number < count; number++) {
        fill(&some[number], number);
        submit_job(pool, &some[number].job);
    }
    return some;
}

/* A pool is abandoned at any moment of its work: what waits is given back, the rest is lost. */
static void pools_are_abandoned_at_work(void)
{
    open_files();
    for (int round = 0; round < ABANDONED_POOLS; round++) {
        struct pool *pool = open_pool(SLOTS, 1 << 16);
        CHECK(pool != NULL);
        int fd = pool->wake_in, count = 20 * (1 + round % 70); /* up to beyond the ring */
        given_back = 0;
        for (int n = 0; n < THREADS; n++) start(pool);
        const struct commit *some = submit_some(pool, count);
        if (round % 3 == 0) {
            wait_for_announcement(pool);
            reap(pool);
        }
        abandon_pool(pool, give_back);
        CHECK(given_back <= count);
        for (int number = 0; number < count; number++) CHECK(some[number].ended <= 1);
        if (round % 2 == 0) wait_until_gone(fd); /* else the next one runs beside it */
    }
}

/* All threads hang in a write and more is queued than the ring holds: the pool is abandoned, its
 * submitter goes, and the threads free it when their calls return. */
static void hanging_threads_outlive_their_pool(void)
{
    struct pool *pool = open_pool(SLOTS, 1 << 16);
    CHECK(pool != NULL);
    int fd = pool->wake_in, count = 2 * RING_JOBS;
    given_back = 0;
    misbehave(HANGS);
    open_files();
    for (int n = 0; n < SLOTS; n++) start(pool);
    int number;
    CHECK(start_in_pool(pool, "more", 4, &number) == EAGAIN);
    submit_some(pool, count);
    wait_until_hanging(SLOTS);
    double seconds = 0;
    for (int n = 0; n < SLOTS; n++) seconds += busy_s(pool, n);
    CHECK(seconds > 0);
    abandon_pool(pool, give_back);
    CHECK(given_back == count - SLOTS);
    open_gate();
    wait_until_gone(fd);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: pool_driver FOLDER\n");
        return 2;
    }
    folder = argv[1];
    alarm(RUN_S_MAX);
    disk.write = write_of_scene;
    disk.sync = sync_of_scene;
    everything_ends(SUBMITTER_COMMITS);
    misbehave(BY_PIECES);
    everything_ends(SUBMITTER_COMMITS / 5);
    misbehave(NONE);
    pools_are_abandoned_at_work();
    hanging_threads_outlive_their_pool();
    printf("%d commits, %d abandoned pools\n", COMMITS + COMMITS / 5, ABANDONED_POOLS + 1);
    return 0;
}
