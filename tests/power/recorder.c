/* Records what a process writes below a directory, in order, with bytes. A library to preload.
 *
 * OPENTALOS_DISK_ROOT     absolute path of the directory
 * OPENTALOS_DISK_JOURNAL  file to which records are appended; outside of the directory
 * OPENTALOS_DISK_FAULTS   while this file exists, one call in FAULT_SHARE fails: EIO after half of the
 *                         bytes, ENOSPC, EFBIG, EMFILE, or a write takes half and says so
 *
 * Each call has two records: one before it, with its bytes, and one after it, with its result. So a
 * sync covers exactly the calls that had returned before it was called. A killed process leaves
 * whole records but for the last one. journal.py reads them and names the kinds.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAGIC 0x31504F54u
#define DESCRIPTORS_MAX 65536
#define FAULT_SHARE 40
#define DSYNC_FLAG 2 /* RWF_DSYNC */
#define SYNC_FLAG 4  /* RWF_SYNC */

enum kind {
    CREATE = 1, MKDIR, WRITE, TRUNCATE, ALLOCATE, SYNC, SYNC_ALL, RENAME, LINK, UNLINK, RMDIR,
    FORBIDDEN
};
enum phase { BEFORE = 0, AFTER = 1 };

struct record {
    uint32_t magic;
    uint8_t kind, phase;
    uint16_t path_bytes;
    uint64_t call, inode;
    int64_t position, length;
    uint32_t data_bytes, flags;
};

static char root[PATH_MAX];
static size_t root_bytes;
static int journal = -1;
static const char *faults; /* NULL: none */
static _Atomic uint64_t draws;
static _Atomic uint64_t calls;
static char tracked[DESCRIPTORS_MAX]; /* of a file or directory below the root */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void fail(const char *text) {
    dprintf(2, "disk recorder: %s: %s\n", text, strerror(errno));
    abort();
}

__attribute__((constructor)) static void start(void) {
    const char *given = getenv("OPENTALOS_DISK_ROOT"), *path = getenv("OPENTALOS_DISK_JOURNAL");
    if (given == NULL || path == NULL) return;
    faults = getenv("OPENTALOS_DISK_FAULTS");
    draws = (uint64_t)getpid() << 32;
    root_bytes = strlen(given);
    if (root_bytes == 0 || root_bytes >= sizeof root) fail("OPENTALOS_DISK_ROOT");
    memcpy(root, given, root_bytes + 1);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) fail(path);
    journal = fcntl(fd, F_DUPFD_CLOEXEC, 500);
    if (journal < 0) journal = fd; else syscall(SYS_close, fd);
}

#define REAL(name, type, ...) \
    static type (*real)(__VA_ARGS__); \
    if (real == NULL) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

/* 0: no fault; else any number, for the choice among faults */
static uint64_t fault(void) {
    if (faults == NULL) return 0;
    int saved = errno;
    int off = syscall(SYS_faccessat, AT_FDCWD, faults, F_OK) != 0;
    errno = saved;
    if (off) return 0;
    uint64_t x = ++draws * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    x ^= x >> 31;
    return x % FAULT_SHARE == 0 ? x / FAULT_SHARE + 1 : 0;
}

static int fails(const int *numbers, int count) {
    uint64_t drawn = fault();
    if (drawn) errno = numbers[drawn % (uint64_t)count];
    return drawn != 0;
}

static const int NAME_FAULTS[] = {EIO, ENOSPC}, OPEN_FAULTS[] = {EIO, ENOSPC, EMFILE};

static void put(const struct iovec *parts, int count, size_t total) {
    pthread_mutex_lock(&lock);
    ssize_t written = syscall(SYS_writev, journal, parts, count);
    pthread_mutex_unlock(&lock);
    if (written < 0 || (size_t)written != total) fail("cannot write the journal");
}

static uint64_t record(enum kind kind, enum phase phase, uint64_t call, struct record given,
                       const char *path, const char *second, const void *data) {
    int saved = errno;
    if (phase == BEFORE) call = ++calls;
    char paths[2 * PATH_MAX];
    size_t bytes = 0;
    if (path != NULL) bytes = (size_t)snprintf(paths, sizeof paths, "%s", path);
    if (second != NULL) {
        paths[bytes++] = 0;
        bytes += (size_t)snprintf(paths + bytes, sizeof paths - bytes, "%s", second);
    }
    given.magic = MAGIC;
    given.kind = (uint8_t)kind;
    given.phase = (uint8_t)phase;
    given.path_bytes = (uint16_t)bytes;
    given.call = call;
    struct iovec parts[3] = {{&given, sizeof given}, {paths, bytes}, {(void *)data, given.data_bytes}};
    put(parts, 3, sizeof given + bytes + given.data_bytes);
    errno = saved;
    return call;
}

static void ended(enum kind kind, uint64_t call, uint64_t inode, int64_t result) {
    int saved = errno;
    record(kind, AFTER, call, (struct record){.inode = inode, .length = result < 0 ? -saved : result},
           NULL, NULL, NULL);
    errno = saved;
}

/* The path below the root, without it; NULL: elsewhere. */
static const char *inside(int directory, const char *path, char *whole) {
    if (journal < 0 || path == NULL) return NULL;
    int saved = errno;
    const char *found = NULL;
    if (path[0] == '/') {
        snprintf(whole, PATH_MAX, "%s", path);
    } else {
        char folder[PATH_MAX], link[64];
        if (directory == AT_FDCWD) {
            if (getcwd(folder, sizeof folder) == NULL) folder[0] = 0;
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
            ssize_t bytes = readlink(link, folder, sizeof folder - 1);
            folder[bytes > 0 ? bytes : 0] = 0;
        }
        if (snprintf(whole, PATH_MAX, "%s/%s", folder, path) >= PATH_MAX) fail("long path");
    }
    if (strncmp(whole, root, root_bytes) == 0 && (whole[root_bytes] == '/' || whole[root_bytes] == 0))
        found = whole[root_bytes] == 0 ? "" : whole + root_bytes + 1;
    errno = saved;
    return found;
}

static int is_tracked(int fd) {
    return journal >= 0 && fd >= 0 && fd < DESCRIPTORS_MAX && tracked[fd];
}

static uint64_t inode_of(int fd) {
    int saved = errno;
    struct stat status;
    uint64_t inode = fstat(fd, &status) == 0 ? status.st_ino : 0;
    errno = saved;
    return inode;
}

/* --- opening ------------------------------------------------------------------------------- */

static int open_below(int directory, const char *path, int flags, mode_t mode) {
    char whole[PATH_MAX];
    const char *name = inside(directory, path, whole);
    if (name == NULL || (flags & O_PATH))
        return (int)syscall(SYS_openat, directory, path, flags, mode);
    if (fails(OPEN_FAULTS, 3)) return -1;
    struct stat status;
    int saved = errno;
    int made = (flags & O_CREAT) && lstat(whole, &status) != 0;
    errno = saved;
    uint64_t call = 0;
    if (made) call = record(CREATE, BEFORE, 0, (struct record){0}, name, NULL, NULL);
    int fd = (int)syscall(SYS_openat, directory, path, flags, mode);
    if (made) ended(CREATE, call, fd < 0 ? 0 : inode_of(fd), fd < 0 ? -1 : 0);
    if (fd >= DESCRIPTORS_MAX) fail("too many descriptors");
    if (fd < 0) return fd;
    tracked[fd] = 1;
    if ((flags & O_TRUNC) && !made) {
        call = record(TRUNCATE, BEFORE, 0, (struct record){.inode = inode_of(fd)}, NULL, NULL, NULL);
        ended(TRUNCATE, call, inode_of(fd), 0);
    }
    return fd;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); \
    }

int open(const char *path, int flags, ...) { MODE(flags) return open_below(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_below(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return open_below(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return open_below(at, path, flags, mode); }

int close(int fd) {
    REAL("close", int, int);
    if (fd >= 0 && fd == journal) { errno = EBADF; return -1; }
    if (fd >= 0 && fd < DESCRIPTORS_MAX) tracked[fd] = 0;
    return real(fd);
}

/* --- writing ------------------------------------------------------------------------------- */

/* position -1: that of the descriptor */
static ssize_t write_below(int fd, const struct iovec *chunks, int count, off_t position, int flags) {
    size_t total = 0;
    for (int i = 0; i < count; i++) total += chunks[i].iov_len;
    char *data = malloc(total + 1), *next = data;
    if (data == NULL) fail("memory");
    for (int i = 0; i < count; i++) {
        memcpy(next, chunks[i].iov_base, chunks[i].iov_len);
        next += chunks[i].iov_len;
    }
    int status = fcntl(fd, F_GETFL);
    off_t at = position;
    struct stat found;
    if (position < 0) at = (status & O_APPEND) && fstat(fd, &found) == 0 ? found.st_size : lseek(fd, 0, SEEK_CUR);
    uint64_t drawn = fault();
    struct iovec half = {data, total / 2};
    if (drawn % 4 == 1 || drawn % 4 == 2) {
        free(data);
        errno = drawn % 4 == 1 ? ENOSPC : EFBIG;
        return -1;
    }
    if (drawn) chunks = &half, count = 1, total /= 2, flags = 0, status &= ~(O_DSYNC | O_SYNC);
    int synced = (flags & (DSYNC_FLAG | SYNC_FLAG)) || (status & (O_DSYNC | O_SYNC)) ? 1 : 0;
    uint64_t inode = inode_of(fd);
    uint64_t call = record(WRITE, BEFORE, 0,
        (struct record){.inode = inode, .position = at, .data_bytes = (uint32_t)total, .flags = (uint32_t)synced},
        NULL, NULL, data);
    ssize_t written;
    if (position < 0) written = syscall(SYS_writev, fd, chunks, count);
    else written = syscall(SYS_pwritev2, fd, chunks, count, position, 0L, flags);
    ended(WRITE, call, inode, written);
    free(data);
    if (drawn && drawn % 4 == 0) {
        errno = EIO;
        return -1;
    }
    return written;
}

ssize_t write(int fd, const void *data, size_t bytes) {
    if (!is_tracked(fd)) return syscall(SYS_write, fd, data, bytes);
    struct iovec chunk = {(void *)data, bytes};
    return write_below(fd, &chunk, 1, -1, 0);
}
ssize_t writev(int fd, const struct iovec *chunks, int count) {
    if (!is_tracked(fd)) return syscall(SYS_writev, fd, chunks, count);
    return write_below(fd, chunks, count, -1, 0);
}
static ssize_t pwrite_below(int fd, const void *data, size_t bytes, off_t position) {
    struct iovec chunk = {(void *)data, bytes};
    if (!is_tracked(fd)) return syscall(SYS_pwrite64, fd, data, bytes, position);
    return write_below(fd, &chunk, 1, position, 0);
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) { return pwrite_below(fd, data, bytes, at); }
ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t at) { return pwrite_below(fd, data, bytes, at); }
static ssize_t pwritev_below(int fd, const struct iovec *chunks, int count, off_t position, int flags) {
    if (!is_tracked(fd)) return syscall(SYS_pwritev2, fd, chunks, count, position, 0L, flags);
    return write_below(fd, chunks, count, position, flags);
}
ssize_t pwritev(int fd, const struct iovec *chunks, int count, off_t at) { return pwritev_below(fd, chunks, count, at, 0); }
ssize_t pwritev64(int fd, const struct iovec *chunks, int count, off_t at) { return pwritev_below(fd, chunks, count, at, 0); }
ssize_t pwritev2(int fd, const struct iovec *chunks, int count, off_t at, int flags) { return pwritev_below(fd, chunks, count, at, flags); }
ssize_t pwritev64v2(int fd, const struct iovec *chunks, int count, off_t at, int flags) { return pwritev_below(fd, chunks, count, at, flags); }

static int truncate_below(int fd, off_t length) {
    REAL("ftruncate", int, int, off_t);
    if (!is_tracked(fd)) return real(fd, length);
    uint64_t inode = inode_of(fd);
    uint64_t call = record(TRUNCATE, BEFORE, 0, (struct record){.inode = inode, .position = length}, NULL, NULL, NULL);
    int result = real(fd, length);
    ended(TRUNCATE, call, inode, result);
    return result;
}
int ftruncate(int fd, off_t length) { return truncate_below(fd, length); }
int ftruncate64(int fd, off_t length) { return truncate_below(fd, length); }

static int allocate_below(int fd, off_t position, off_t length) {
    REAL("posix_fallocate", int, int, off_t, off_t);
    if (!is_tracked(fd)) return real(fd, position, length);
    uint64_t inode = inode_of(fd);
    uint64_t call = record(ALLOCATE, BEFORE, 0, (struct record){.inode = inode, .position = position + length}, NULL, NULL, NULL);
    int result = real(fd, position, length); /* an error number */
    ended(ALLOCATE, call, inode, result == 0 ? 0 : -1);
    return result;
}
int posix_fallocate(int fd, off_t position, off_t length) { return allocate_below(fd, position, length); }
int posix_fallocate64(int fd, off_t position, off_t length) { return allocate_below(fd, position, length); }

/* --- syncing ------------------------------------------------------------------------------- */

static int sync_below(int fd, int number) {
    if (!is_tracked(fd)) return (int)syscall(number, fd);
    uint64_t inode = inode_of(fd);
    uint64_t call = record(SYNC, BEFORE, 0, (struct record){.inode = inode}, NULL, NULL, NULL);
    int result = fails(NAME_FAULTS, 2) ? -1 : (int)syscall(number, fd);
    ended(SYNC, call, inode, result);
    return result;
}
int fsync(int fd) { return sync_below(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_below(fd, SYS_fdatasync); }
void sync(void) {
    uint64_t call = journal < 0 ? 0 : record(SYNC_ALL, BEFORE, 0, (struct record){0}, NULL, NULL, NULL);
    syscall(SYS_sync);
    if (journal >= 0) ended(SYNC_ALL, call, 0, 0);
}

/* --- names --------------------------------------------------------------------------------- */

static uint64_t inode_at(const char *whole) {
    int saved = errno;
    struct stat status;
    uint64_t inode = lstat(whole, &status) == 0 ? status.st_ino : 0;
    errno = saved;
    return inode;
}

static int mkdir_below(int at, const char *path, mode_t mode) {
    char whole[PATH_MAX];
    const char *name = inside(at, path, whole);
    if (name == NULL) return (int)syscall(SYS_mkdirat, at, path, mode);
    if (fails(NAME_FAULTS, 2)) return -1;
    uint64_t call = record(MKDIR, BEFORE, 0, (struct record){0}, name, NULL, NULL);
    int result = (int)syscall(SYS_mkdirat, at, path, mode);
    ended(MKDIR, call, result == 0 ? inode_at(whole) : 0, result);
    return result;
}
int mkdir(const char *path, mode_t mode) { return mkdir_below(AT_FDCWD, path, mode); }
int mkdirat(int at, const char *path, mode_t mode) { return mkdir_below(at, path, mode); }

static int unlink_below(int at, const char *path, int flags) {
    char whole[PATH_MAX];
    const char *name = inside(at, path, whole);
    if (name == NULL) return (int)syscall(SYS_unlinkat, at, path, flags);
    if (fails(NAME_FAULTS, 2)) return -1;
    enum kind kind = flags & AT_REMOVEDIR ? RMDIR : UNLINK;
    uint64_t call = record(kind, BEFORE, 0, (struct record){0}, name, NULL, NULL);
    int result = (int)syscall(SYS_unlinkat, at, path, flags);
    ended(kind, call, 0, result);
    return result;
}
int unlink(const char *path) { return unlink_below(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlink_below(AT_FDCWD, path, AT_REMOVEDIR); }
int unlinkat(int at, const char *path, int flags) { return unlink_below(at, path, flags); }

static int two_names(enum kind kind, int from, const char *old, int to, const char *new, int flags) {
    char whole_old[PATH_MAX], whole_new[PATH_MAX];
    const char *left = inside(from, old, whole_old), *right = inside(to, new, whole_new);
    int number = kind == RENAME ? SYS_renameat2 : SYS_linkat;
    if (left == NULL && right == NULL) return (int)syscall(number, from, old, to, new, flags);
    if (left == NULL || right == NULL) {
        record(FORBIDDEN, BEFORE, 0, (struct record){0}, old, new, NULL);
        return (int)syscall(number, from, old, to, new, flags);
    }
    if (fails(NAME_FAULTS, 2)) return -1;
    uint64_t call = record(kind, BEFORE, 0, (struct record){0}, left, right, NULL);
    int result = (int)syscall(number, from, old, to, new, flags);
    ended(kind, call, 0, result);
    return result;
}
int rename(const char *old, const char *new) { return two_names(RENAME, AT_FDCWD, old, AT_FDCWD, new, 0); }
int renameat(int from, const char *old, int to, const char *new) { return two_names(RENAME, from, old, to, new, 0); }
int renameat2(int from, const char *old, int to, const char *new, unsigned flags) { return two_names(RENAME, from, old, to, new, (int)flags); }
int link(const char *old, const char *new) { return two_names(LINK, AT_FDCWD, old, AT_FDCWD, new, 0); }
int linkat(int from, const char *old, int to, const char *new, int flags) { return two_names(LINK, from, old, to, new, flags); }

/* --- what would escape the recorder ---------------------------------------------------------- */

static void forbidden(int fd, const char *what) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t bytes = readlink(link, path, sizeof path - 1);
    path[bytes > 0 ? bytes : 0] = 0;
    record(FORBIDDEN, BEFORE, 0, (struct record){0}, path, what, NULL);
}

static void *map_below(void *at, size_t bytes, int protection, int flags, int fd, off_t position) {
    if (is_tracked(fd) && (flags & MAP_SHARED) && (protection & PROT_WRITE)) forbidden(fd, "mmap");
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, position);
}
void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t position) { return map_below(at, bytes, protection, flags, fd, position); }
void *mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t position) { return map_below(at, bytes, protection, flags, fd, position); }

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t bytes, unsigned flags) {
    if (is_tracked(out)) forbidden(out, "copy_file_range");
    return syscall(SYS_copy_file_range, in, from, out, to, bytes, flags);
}
ssize_t sendfile64(int out, int in, off64_t *from, size_t bytes) {
    if (is_tracked(out)) forbidden(out, "sendfile");
    return syscall(SYS_sendfile, out, in, from, bytes);
}
