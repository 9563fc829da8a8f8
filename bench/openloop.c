/* Open-loop HTTP load generator: sends prepared requests at a fixed rate and times each one from
 * the moment it was due, so a stalled server cannot slow the clock that judges it. With RATE 0 the
 * loop is closed: every connection sends the next request on a reply.
 *
 * usage: openloop HOST PORT,... CONNECTIONS RATE SECONDS REQUESTS,...
 *
 * One file of requests for each port; connections are shared out evenly. REQUESTS holds whole
 * HTTP/1.1 requests, each after its length as a 4-byte big-endian number; they are sent in turn. A
 * request that falls due while every connection is busy waits in a queue and
 * its waiting counts. Only loopback addresses are accepted. Prints one JSON object: latencies in
 * microseconds, bytes of requests and replies with their heads, CPU seconds of this process.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 4096, TARGETS_MAX = 16, REPLY_BYTES_MAX = 1 << 16, EVENTS_MAX = 256 };
#define SAMPLES_MAX 20000000L

struct request { const char *bytes; uint32_t length; };
struct target { /* a server, and what is sent to it */
    int port;
    struct request *requests;
    size_t count, next;
};
struct connection {
    int fd, busy;
    struct target *target;
    int64_t due_ns;
    const char *out; /* what is left to send */
    size_t out_left;
    char reply[REPLY_BYTES_MAX];
    size_t reply_length;
};

static struct connection *connections[CONNECTIONS_MAX];
static struct target targets[TARGETS_MAX];
static uint32_t *samples; /* microseconds */
static long sample_count, ok_count, error_count, sent_count, bytes_out, bytes_in;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void fail(const char *what) {
    fprintf(stderr, "openloop: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void load_requests(struct target *t, const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) fail(path);
    unsigned char head[4];
    size_t room = 0;
    while (fread(head, 1, 4, f) == 4) {
        uint32_t n = (uint32_t)head[0] << 24 | head[1] << 16 | head[2] << 8 | head[3];
        char *bytes = malloc(n);
        if (!bytes || fread(bytes, 1, n, f) != n) fail("short request file");
        if (t->count == room) {
            room = room ? room * 2 : 64;
            t->requests = realloc(t->requests, room * sizeof *t->requests);
            if (!t->requests) fail("memory");
        }
        t->requests[t->count++] = (struct request){bytes, n};
    }
    fclose(f);
    if (!t->count) fail("no requests in file");
}

/* Ports and files of the same number, each separated by commas. */
static int load_targets(char *ports, char *files) {
    int count = 0;
    char *at_port, *at_file, *file = strtok_r(files, ",", &at_file);
    for (char *port = strtok_r(ports, ",", &at_port); port; port = strtok_r(NULL, ",", &at_port)) {
        if (!file || count == TARGETS_MAX) fail("ports and files do not fit");
        targets[count].port = atoi(port);
        load_requests(&targets[count++], file);
        file = strtok_r(NULL, ",", &at_file);
    }
    if (!count || file) fail("ports and files do not fit");
    return count;
}

static struct connection *open_connection(const char *host, struct target *t, int epoll_fd) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(t->port)};
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1) fail("host must be an IPv4 address");
    if ((ntohl(to.sin_addr.s_addr) >> 24) != 127) { errno = EPERM; fail("loopback only"); }
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0) fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct connection *c = calloc(1, sizeof *c);
    if (!c) fail("memory");
    c->fd = fd;
    c->target = t;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) fail("epoll_ctl");
    return c;
}

static void flush(struct connection *c) {
    while (c->out_left) { /* blocking sockets: requests are small against the socket buffer */
        ssize_t n = send(c->fd, c->out, c->out_left, MSG_NOSIGNAL);
        if (n < 0) fail("send");
        c->out += n;
        c->out_left -= n;
    }
}

static void start(struct connection *c, int64_t due_ns) {
    struct request *r = &c->target->requests[c->target->next++ % c->target->count];
    c->busy = 1;
    c->due_ns = due_ns;
    c->reply_length = 0;
    c->out = r->bytes;
    c->out_left = r->length;
    sent_count++;
    bytes_out += r->length;
    flush(c);
}

/* True when a whole reply lies in the buffer; every reply must carry Content-Length. */
static int reply_complete(struct connection *c) {
    c->reply[c->reply_length] = 0;
    char *end = strstr(c->reply, "\r\n\r\n");
    if (!end) return 0;
    char *field = strcasestr(c->reply, "\r\ncontent-length:");
    size_t body = field && field < end ? strtoul(field + 17, NULL, 10) : 0;
    return c->reply_length >= (size_t)(end + 4 - c->reply) + body;
}

/* A strict binary REPLY whose result has the success field 0. */
static int succeeded_binary(unsigned char *at, unsigned char *stop) {
    if (stop - at < 8 || memcmp(at, "\x80\x01\x00\x02", 4) || at[4] | at[5] | at[6]) return 0;
    at += 8 + at[7] + 4; /* RPC name, sequence id */
    return stop - at >= 3 && at[0] == 0x0c && at[1] == 0 && at[2] == 0;
}

/* Errors also come as 200: a compact or binary Thrift REPLY whose result has the success field 0. */
static int succeeded(struct connection *c) {
    if (strncmp(c->reply, "HTTP/1.1 200", 12)) return 0;
    unsigned char *at = (unsigned char *)strstr(c->reply, "\r\n\r\n") + 4;
    unsigned char *stop = (unsigned char *)c->reply + c->reply_length;
    if (stop - at >= 4 && at[0] == 0x80) return succeeded_binary(at, stop);
    if (stop - at < 4 || at[0] != 0x82 || (at[1] & 0xe0) != 0x40) return 0;
    for (at += 2; at < stop && *at & 0x80; at++) {} /* sequence id */
    at++;
    if (at >= stop) return 0;
    at += 1 + *at; /* RPC name */
    return stop - at >= 2 && at[0] == 0x0c && at[1] == 0;
}

static void finish(struct connection *c, int64_t at_ns) {
    if (succeeded(c)) ok_count++;
    else error_count++;
    if (sample_count < SAMPLES_MAX) samples[sample_count++] = (at_ns - c->due_ns) / 1000;
    c->busy = 0;
}

static void receive(struct connection *c) {
    ssize_t n = recv(c->fd, c->reply + c->reply_length, REPLY_BYTES_MAX - 1 - c->reply_length, 0);
    if (n <= 0) fail("the server closed a connection");
    c->reply_length += n;
    bytes_in += n;
    if (reply_complete(c)) finish(c, now_ns());
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t percentile(double p) {
    return sample_count ? samples[(long)((sample_count - 1) * p)] : 0;
}

int main(int argc, char **argv) {
    if (argc != 7) {
        fprintf(stderr, "usage: openloop HOST PORT,... CONNECTIONS RATE SECONDS REQUESTS,...\n");
        return 2;
    }
    int count = atoi(argv[3]);
    double rate = atof(argv[4]), seconds = atof(argv[5]);
    if (count < 1 || count > CONNECTIONS_MAX || rate < 0 || seconds <= 0 || seconds > 3600) {
        fprintf(stderr, "openloop: need 1..%d connections, rate >= 0, 0 < seconds <= 3600\n",
                CONNECTIONS_MAX);
        return 2;
    }
    int target_count = load_targets(argv[2], argv[6]);
    samples = malloc(SAMPLES_MAX * sizeof *samples);
    int epoll_fd = epoll_create1(0);
    for (int i = 0; i < count; i++)
        connections[i] = open_connection(argv[1], &targets[i % target_count], epoll_fd);

    int closed = rate == 0;
    long total = (long)(rate * seconds), due = 0; /* due: next request number to start */
    int64_t begin = now_ns(), gap = closed ? 0 : (int64_t)(1e9 / rate);
    int64_t end = begin + (int64_t)(seconds * 1e9);
    int64_t give_up = begin + (int64_t)((seconds + 30) * 1e9);
    int scan = 0;
    struct epoll_event events[EVENTS_MAX];
    while (closed ? now_ns() < end || ok_count + error_count < sent_count
                  : ok_count + error_count < total) {
        int64_t now = now_ns();
        if (now > give_up) break;
        for (int i = 0; closed && now < end && i < count; i++)
            if (!connections[i]->busy) start(connections[i], now);
        for (int tried = 0; due < total && begin + due * gap <= now && tried < count; tried++) {
            struct connection *c = connections[scan++ % count];
            if (!c->busy) { start(c, begin + due * gap); due++; tried = -1; }
        }
        int64_t next = due < total ? begin + due * gap - now_ns() : 100000000;
        if (next < 0) next = 100000; /* all connections busy: look again soon */
        struct timespec wait = {next / 1000000000, next % 1000000000};
        int ready = epoll_pwait2(epoll_fd, events, EVENTS_MAX, &wait, NULL);
        if (ready < 0 && errno != EINTR) fail("epoll_pwait2");
        for (int i = 0; i < ready; i++) receive(events[i].data.ptr);
    }
    double took = (now_ns() - begin) / 1e9;
    qsort(samples, sample_count, sizeof *samples, by_value);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
                 (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    printf("{\"rate\": %.1f, \"seconds\": %.3f, \"sent\": %ld, \"ok\": %ld, \"errors\": %ld, "
           "\"p50_us\": %u, \"p90_us\": %u, \"p95_us\": %u, \"p99_us\": %u, \"p999_us\": %u, \"max_us\": %u, "
           "\"bytes_out\": %ld, \"bytes_in\": %ld, \"cpu_s\": %.3f}\n",
           (ok_count + error_count) / took, took, sent_count, ok_count, error_count,
           percentile(0.5), percentile(0.9), percentile(0.95), percentile(0.99), percentile(0.999),
           percentile(1), bytes_out, bytes_in, cpu);
    return ok_count + error_count < (closed ? sent_count : total);
}
