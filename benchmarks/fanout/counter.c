/* The light client of the fan-out benchmark: opens many connections, subscribes, and from then on only counts.
 *
 *   counter port=N connections=N openings=FILE marker=HEX [ack=HEX] [ws=PATH] [subprotocol=NAME] [opcode=1|2] [frame=N]
 *
 * openings: for each connection the number of answers to wait for, the number of messages to send, and for each message
 *           its length and its bytes; numbers are native 32-bit. With ws= each message becomes one masked frame.
 * marker:   what occurs exactly once in a delivery, however the server frames, joins or cuts its writes.
 * ack:      what occurs once in an answer to an opening.
 * frame:    count bytes instead: a delivery is this many, of the stream as it comes.
 *
 * Says in lines of JSON when all are subscribed, and answers lines on stdin:
 *   expect N  when N more deliveries than expected so far have come: the times of the first and the last of them
 *   total     the deliveries, data frames and bytes so far
 *   drain     the same, once the server has closed every connection, so that nothing can come any more
 *   quit      ends; so does the end of stdin
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MARKER = 64, CONTROL = 125, EVENTS = 1024, READ = 1 << 20, AT_ONCE = 256, ADDRESSES = 200, HEAD = 14 };
enum state { CONNECTING, UPGRADING, OPENING, COUNTING, CLOSED };

struct marker {
    uint8_t bytes[MARKER];
    size_t size;
};

struct connection {
    int fd;
    void *tls;                 /* NULL without TLS */
    uint8_t state;
    uint8_t opcode;
    uint8_t had;               /* bytes of a frame's header so far */
    uint8_t carried;           /* bytes in carry */
    uint8_t controlled;        /* bytes in control */
    uint8_t ended;             /* bytes of the empty line after the HTTP header so far */
    bool inside;               /* of a frame's payload */
    uint32_t acks;             /* answers still to come */
    uint64_t left;             /* of the frame's payload */
    const uint8_t *opening;
    uint8_t head[HEAD];
    uint8_t carry[MARKER];     /* the end of what was read, where a marker may have begun */
    uint8_t control[CONTROL];  /* payload of a control frame; before that the start of the HTTP answer */
};

static struct {
    int port;
    uint32_t connections;
    const char *openings, *path, *subprotocol;
    struct marker marker, ack;
    uint8_t opcode;
    uint64_t frame;
} given = {.opcode = 1};

static struct connection *all;
static uint32_t begun, subscribed, closed;
static uint64_t deliveries, frames, bytes, target;
static uint64_t first_at, last_at;
static bool waiting, draining;
static int poller, address = 1;
static uint8_t buffer[READ];

static void fail(const char *what, const char *detail)
{
    printf("{\"event\":\"failed\",\"why\":\"%s\",\"detail\":\"", what);
    for (; detail && *detail; detail++)
        if ((unsigned char)*detail >= 0x20 && *detail != '"' && *detail != '\\' && (unsigned char)*detail < 0x7f)
            putchar(*detail);
    printf("\"}\n");
    fflush(stdout);
    exit(1);
}

#include "counter_tls.h"

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void totals(const char *event)
{
    printf("{\"event\":\"%s\",\"deliveries\":%" PRIu64 ",\"frames\":%" PRIu64 ",\"bytes\":%" PRIu64
           ",\"first\":%" PRIu64 ",\"last\":%" PRIu64 "}\n", event, deliveries, frames, bytes, first_at, last_at);
    fflush(stdout);
}

/* -- counting ----------------------------------------------------------------------------------------------------- */

static uint64_t occurrences(const struct marker *m, const uint8_t *p, size_t n)
{
    uint64_t found = 0;
    const uint8_t *end = p + n, *at;
    while (n >= m->size && (at = memmem(p, (size_t)(end - p), m->bytes, m->size))) {
        found++;
        p = at + m->size;
    }
    return found;
}

/* How many markers end in these bytes; one may have begun in what came before. */
static uint64_t count(struct connection *c, const struct marker *m, const uint8_t *p, size_t n)
{
    size_t keep = m->size - 1;
    uint64_t found = 0;
    if (c->carried) {
        uint8_t seam[2 * MARKER];
        size_t more = n < keep ? n : keep;
        memcpy(seam, c->carry, c->carried);
        memcpy(seam + c->carried, p, more);
        found = occurrences(m, seam, c->carried + more);
    }
    found += occurrences(m, p, n);
    if (n >= keep) {
        memcpy(c->carry, p + n - keep, keep);
        c->carried = (uint8_t)keep;
    } else {
        size_t drop = c->carried + n > keep ? c->carried + n - keep : 0;
        memmove(c->carry, c->carry + drop, c->carried - drop);
        memcpy(c->carry + c->carried - drop, p, n);
        c->carried = (uint8_t)(c->carried - drop + n);
    }
    return found;
}

static void start_next(void);

static void is_subscribed(struct connection *c)
{
    c->state = COUNTING;
    c->carried = 0;
    if (++subscribed == given.connections) {
        bytes = frames = 0;
        printf("{\"event\":\"ready\",\"connections\":%u,\"addresses\":%d}\n", subscribed, address);
        fflush(stdout);
    }
    start_next();
}

static void payload(struct connection *c, const uint8_t *p, size_t n)
{
    if (c->state == COUNTING) {
        if (!given.frame)
            deliveries += count(c, &given.marker, p, n);
    } else {
        uint64_t found = count(c, &given.ack, p, n);
        c->acks -= found < c->acks ? (uint32_t)found : c->acks;
        if (!c->acks)
            is_subscribed(c);
    }
}

/* -- WebSocket ---------------------------------------------------------------------------------------------------- */

static void transmit(struct connection *c, const uint8_t *p, size_t n)
{
    while (n) {
        ssize_t sent = send_some(c->tls, c->fd, p, n);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            fail("send", strerror(errno));
        if (sent < 0)
            poll(&(struct pollfd){.fd = c->fd, .events = POLLOUT}, 1, 1000);
        else
            p += sent, n -= (size_t)sent;
    }
}

/* Appends one masked frame to out and returns its size. */
static size_t masked(uint8_t *out, uint8_t opcode, const uint8_t *p, size_t n)
{
    size_t at = 0;
    uint8_t key[4];
    if (getrandom(key, sizeof key, 0) != sizeof key)
        fail("getrandom", strerror(errno));
    out[at++] = 0x80 | opcode;
    if (n < 126) {
        out[at++] = 0x80 | (uint8_t)n;
    } else if (n < 65536) {
        out[at++] = 0x80 | 126;
        out[at++] = (uint8_t)(n >> 8);
        out[at++] = (uint8_t)n;
    } else {
        out[at++] = 0x80 | 127;
        for (int shift = 56; shift >= 0; shift -= 8)
            out[at++] = (uint8_t)((uint64_t)n >> shift);
    }
    memcpy(out + at, key, 4);
    at += 4;
    for (size_t i = 0; i < n; i++)
        out[at + i] = p[i] ^ key[i & 3];
    return at + n;
}

static void frame_ends(struct connection *c)
{
    c->inside = false;
    if (c->opcode == 9) {
        uint8_t pong[CONTROL + HEAD];
        transmit(c, pong, masked(pong, 10, c->control, c->controlled));
    } else if (c->opcode == 8 && (waiting || c->state != COUNTING)) {
        char told[CONTROL + 32];
        int code = c->controlled >= 2 ? c->control[0] << 8 | c->control[1] : 1005;
        snprintf(told, sizeof told, "%d %.*s", code, c->controlled > 2 ? c->controlled - 2 : 0, c->control + 2);
        fail("closed by the server", told);
    }
}

static void stream(struct connection *c, const uint8_t *p, size_t n)
{
    while (n) {
        if (!c->inside) {
            c->head[c->had++] = *p++, n--;
            uint8_t length = c->head[1] & 0x7f;
            if (c->had < 2 || c->had < (length == 127 ? 10 : length == 126 ? 4 : 2))
                continue;
            if (c->head[1] & 0x80)
                fail("a masked frame from the server", NULL);
            c->left = length;
            if (length >= 126) {
                c->left = 0;
                for (int i = 2; i < c->had; i++)
                    c->left = c->left << 8 | c->head[i];
            }
            c->opcode = c->head[0] & 0x0f;
            if (c->opcode >= 8 && c->left > CONTROL)
                fail("a control frame that is too long", NULL);
            frames += c->opcode < 8;
            c->had = c->controlled = 0;
            c->inside = true;
        }
        size_t part = n < c->left ? n : (size_t)c->left;
        if (c->opcode < 8) {
            if (part)
                payload(c, p, part);
        } else {
            memcpy(c->control + c->controlled, p, part);
            c->controlled = (uint8_t)(c->controlled + part);
        }
        p += part, n -= part, c->left -= part;
        if (!c->left)
            frame_ends(c);
    }
}

static void upgrade(struct connection *c)
{
    uint8_t raw[16];
    char key[25], request[2048];
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (getrandom(raw, sizeof raw, 0) != sizeof raw)
        fail("getrandom", strerror(errno));
    for (int i = 0, bit = 0; i < 22; i++, bit += 6) {
        unsigned pair = (unsigned)raw[bit / 8] << 8 | (bit / 8 < 15 ? raw[bit / 8 + 1] : 0);
        key[i] = digits[pair >> (10 - bit % 8) & 63];
    }
    memcpy(key + 22, "==", 3);
    int n = snprintf(request, sizeof request,
                     "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     "Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n%s%s%s\r\n",
                     given.path, given.port, key, given.subprotocol ? "Sec-WebSocket-Protocol: " : "",
                     given.subprotocol ? given.subprotocol : "", given.subprotocol ? "\r\n" : "");
    if (n >= (int)sizeof request)
        fail("the path is too long", NULL);
    transmit(c, (uint8_t *)request, (size_t)n);
    c->state = UPGRADING;
}

/* Takes the HTTP answer and returns how many of the bytes belonged to it. */
static size_t upgraded(struct connection *c, const uint8_t *p, size_t n)
{
    static const char end[] = "\r\n\r\n";
    size_t at = 0;
    while (at < n && c->ended < 4) {
        if (c->controlled < CONTROL - 1)
            c->control[c->controlled++] = p[at];
        c->ended = p[at] == end[c->ended] ? c->ended + 1 : p[at] == '\r';
        at++;
    }
    if (c->controlled >= 12 && memcmp(c->control, "HTTP/1.1 101", 12)) {
        c->control[c->controlled] = 0;
        fail("no upgrade", (char *)c->control);
    }
    return at;
}

/* -- opening ------------------------------------------------------------------------------------------------------ */

static uint32_t number(const uint8_t **p)
{
    uint32_t n;
    memcpy(&n, *p, 4);
    *p += 4;
    return n;
}

static void open_with(struct connection *c)
{
    const uint8_t *p = c->opening;
    uint8_t *out = buffer + READ / 2; /* the first half may hold what has just been read */
    size_t size = 0;
    c->acks = number(&p);
    c->state = OPENING;
    for (uint32_t left = number(&p); left; left--) {
        uint32_t n = number(&p);
        if (size + n + HEAD > READ / 2)
            fail("the openings of a connection are too long", NULL);
        if (given.path)
            size += masked(out + size, given.opcode, p, n);
        else
            memcpy(out + size, p, n), size += n;
        p += n;
    }
    transmit(c, out, size);
    if (!c->acks)
        is_subscribed(c);
}

static void watch(struct connection *c, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = c};
    if (epoll_ctl(poller, operation, c->fd, &event))
        fail("epoll_ctl", strerror(errno));
}

/* Not all at once: a server's queue of connections to accept is short. */
static void start_next(void)
{
    while (begun < given.connections && begun < subscribed + AT_ONCE) {
        struct connection *c = &all[begun];
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)given.port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000000u + (unsigned)address)};
        int one = 1;
        c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (c->fd < 0)
            fail("socket", strerror(errno));
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
        if (bind(c->fd, (struct sockaddr *)&from, sizeof from))
            fail("bind", strerror(errno));
        if (connect(c->fd, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS) {
            if (errno != EADDRNOTAVAIL || address == ADDRESSES)
                fail("connect", strerror(errno));
            close(c->fd);
            address++; /* the ports of this address are used up */
            continue;
        }
        begun++;
        watch(c, EPOLL_CTL_ADD, EPOLLOUT);
    }
}

static void connected(struct connection *c)
{
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error)
        fail("connect", strerror(error));
    watch(c, EPOLL_CTL_MOD, EPOLLIN);
    c->tls = secure(c->fd);
    if (given.path)
        upgrade(c);
    else
        open_with(c);
}

/* -- the loop ----------------------------------------------------------------------------------------------------- */

static void ended(struct connection *c)
{
    if (c->state != COUNTING || waiting)
        fail("a connection ended", NULL);
    close(c->fd);
    c->state = CLOSED;
    if (++closed == given.connections && draining)
        totals("drained");
}

static void met(void)
{
    if (waiting && deliveries >= target) {
        waiting = false;
        totals("met");
        first_at = 0;
    }
}

static void readable(struct connection *c)
{
    ssize_t got = receive_some(c->tls, c->fd, buffer, READ / 2);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        ended(c);
        return;
    }
    const uint8_t *p = buffer;
    size_t n = (size_t)got;
    if (c->state == UPGRADING) {
        size_t taken = upgraded(c, p, n);
        p += taken, n -= taken;
        if (c->ended < 4)
            return;
        c->controlled = 0;
        open_with(c);
    }
    uint64_t before = deliveries;
    if (c->state == COUNTING)
        bytes += n;
    if (given.path)
        stream(c, p, n);
    else if (n)
        payload(c, p, n);
    if (given.frame)
        deliveries = bytes / given.frame;
    if (deliveries != before) {
        last_at = now();
        if (!first_at)
            first_at = last_at;
        met();
    }
}

static bool command(char *line)
{
    uint64_t n;
    if (!strcmp(line, "quit"))
        return false;
    if (sscanf(line, "expect %" SCNu64, &n) == 1) {
        target += n;
        waiting = true;
        met();
    } else if (!strcmp(line, "total")) {
        totals("total");
    } else if (!strcmp(line, "drain")) {
        draining = true;
        if (closed == given.connections)
            totals("drained");
    } else {
        fail("no such command", line);
    }
    return true;
}

static bool commands(void)
{
    static char text[4096];
    static size_t have;
    ssize_t got = read(0, text + have, sizeof text - 1 - have);
    if (got <= 0)
        return got < 0 && errno == EAGAIN;
    have += (size_t)got;
    char *line = text, *end;
    while ((end = memchr(line, '\n', have - (size_t)(line - text)))) {
        *end = 0;
        if (!command(line))
            return false;
        line = end + 1;
    }
    have -= (size_t)(line - text);
    memmove(text, line, have);
    return true;
}

static void hex(struct marker *m, const char *text)
{
    for (; text[0] && text[1] && m->size < MARKER; text += 2, m->size++)
        if (sscanf(text, "%2hhx", &m->bytes[m->size]) != 1)
            fail("not hexadecimal", text);
    if (*text)
        fail("a marker is too long", text);
    for (size_t k = 1; k < m->size; k++)
        if (!memcmp(m->bytes, m->bytes + m->size - k, k))
            fail("a marker that overlaps itself cannot be counted", NULL);
}

static void arguments(char **argv)
{
    for (; *argv; argv++) {
        char *value = strchr(*argv, '=');
        if (!value)
            fail("not name=value", *argv);
        *value++ = 0;
        if (!strcmp(*argv, "port"))
            given.port = atoi(value);
        else if (!strcmp(*argv, "connections"))
            given.connections = (uint32_t)atoi(value);
        else if (!strcmp(*argv, "openings"))
            given.openings = value;
        else if (!strcmp(*argv, "marker"))
            hex(&given.marker, value);
        else if (!strcmp(*argv, "ack"))
            hex(&given.ack, value);
        else if (!strcmp(*argv, "ws"))
            given.path = value;
        else if (!strcmp(*argv, "subprotocol"))
            given.subprotocol = value;
        else if (!strcmp(*argv, "opcode"))
            given.opcode = (uint8_t)atoi(value);
        else if (!strcmp(*argv, "frame"))
            given.frame = (uint64_t)atoll(value);
        else
            fail("no such argument", *argv);
    }
    if (!given.port || !given.connections || !given.openings || (!given.marker.size && !given.frame))
        fail("port, connections, openings and marker are needed", NULL);
}

/* Finds where each connection's openings begin, and refuses a file that does not hold them all. */
static void openings(void)
{
    struct stat about;
    int fd = open(given.openings, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about))
        fail("openings", strerror(errno));
    const uint8_t *p = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        fail("openings", strerror(errno));
    const uint8_t *end = p + about.st_size;
    for (uint32_t i = 0; i < given.connections; i++) {
        all[i].opening = p;
        if (end - p < 8)
            fail("too few openings", NULL);
        if (number(&p) && !given.ack.size)
            fail("answers are awaited, so ack is needed", NULL);
        for (uint32_t left = number(&p); left; left--) {
            if (end - p < 4)
                fail("too few openings", NULL);
            uint32_t n = number(&p);
            if ((uint64_t)(end - p) < n)
                fail("too few openings", NULL);
            p += n;
        }
    }
}

int main(int argc, char **argv)
{
    struct rlimit files;
    struct epoll_event events[EVENTS];
    (void)argc;
    arguments(argv + 1);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    all = calloc(given.connections, sizeof *all);
    poller = epoll_create1(EPOLL_CLOEXEC);
    if (!all || poller < 0)
        fail("start", strerror(errno));
    openings();
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, 0, &event))
        fail("stdin must be a pipe", strerror(errno));
    start_next();
    for (;;) {
        int n = epoll_wait(poller, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (!c && !commands())
                return 0;
            if (c && c->state == CONNECTING)
                connected(c);
            else if (c)
                readable(c);
        }
    }
}
