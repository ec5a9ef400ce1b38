/* The limit of the fan-out benchmark: a WebSocket server that does nothing but write ready frames to its subscribers.
 *
 *   limit plain|coalesced PAYLOAD
 *
 * plain:     one write(2) for each frame and connection.
 * coalesced: one write for each connection with all its frames of a burst.
 *
 * Prints `ready PORT`. A text message is the number of a topic to subscribe to and is answered with `ok`. A line
 * `publish T T …` on stdin is a burst: one message to each of the topics. Ends with stdin.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { TOPICS = 65536, EVENTS = 1024, READ = 1 << 16, LINE = 1 << 16, BURST = 1024 };

struct connection {
    int fd;
    bool open;              /* has been upgraded */
    size_t have;
    uint8_t *rest;          /* of what was read, until the message is whole */
    unsigned count, room;
    struct iovec *parts;    /* its frames of the burst; neighbours are one part */
};

struct topic {
    unsigned count, room;
    struct connection **members;
};

static struct topic topics[TOPICS];
static bool coalesced;
static uint8_t *ready;      /* the same frame again and again, so that a burst lies in one piece */
static size_t frame_size;
static uint8_t buffer[READ];
static int poller;

static void check(bool good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

/* -- the upgrade -------------------------------------------------------------------------------------------------- */

static uint32_t rotated(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

/* SHA-1 of at most 119 bytes. */
static void sha1(const char *text, size_t n, uint8_t out[20])
{
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint8_t block[128] = {0};
    size_t size = n < 56 ? 64 : 128;
    memcpy(block, text, n);
    block[n] = 0x80;
    block[size - 2] = (uint8_t)(n * 8 >> 8);
    block[size - 1] = (uint8_t)(n * 8);
    for (size_t at = 0; at < size; at += 64) {
        uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
        for (int i = 0; i < 80; i++) {
            const uint8_t *p = block + at + 4 * i;
            w[i] = i < 16 ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]
                          : rotated(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
            uint32_t f = i < 20 ? (b & c) | (~b & d) : i < 40 ? b ^ c ^ d
                       : i < 60 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
            uint32_t k = i < 20 ? 0x5a827999 : i < 40 ? 0x6ed9eba1 : i < 60 ? 0x8f1bbcdc : 0xca62c1d6;
            uint32_t next = rotated(a, 5) + f + e + k + w[i];
            e = d, d = c, c = rotated(b, 30), b = a, a = next;
        }
        h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e;
    }
    for (int i = 0; i < 20; i++)
        out[i] = (uint8_t)(h[i / 4] >> (24 - i % 4 * 8));
}

static void base64(const uint8_t in[20], char out[29])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int i = 0, bit = 0; i < 27; i++, bit += 6) {
        unsigned pair = (unsigned)in[bit / 8] << 8 | (bit / 8 < 19 ? in[bit / 8 + 1] : 0);
        out[i] = digits[pair >> (10 - bit % 8) & 63];
    }
    memcpy(out + 27, "=", 2);
}

/* -- writing ------------------------------------------------------------------------------------------------------ */

/* Sockets block: whoever cannot take more is waited for, which does not happen with the counter. */
static void write_all(struct connection *c, const void *from, size_t n)
{
    const uint8_t *p = from;
    while (n && c->fd >= 0) {
        ssize_t done = write(c->fd, p, n);
        if (done < 0 && errno != EINTR)
            return;
        if (done > 0)
            p += done, n -= (size_t)done;
    }
}

static void write_parts(struct connection *c)
{
    struct iovec *part = c->parts;
    unsigned left = c->count;
    c->count = 0;
    while (left > 1 && c->fd >= 0) {
        ssize_t done = writev(c->fd, part, (int)left);
        if (done < 0 && errno != EINTR)
            return;
        for (; left && done > 0 && (size_t)done >= part->iov_len; part++, left--)
            done -= (ssize_t)part->iov_len;
        if (left && done > 0) {
            part->iov_base = (uint8_t *)part->iov_base + done;
            part->iov_len -= (size_t)done;
        }
    }
    if (left)
        write_all(c, part->iov_base, part->iov_len);
}

static void append(struct connection *c, uint8_t *frame)
{
    if (c->count) {
        struct iovec *last = &c->parts[c->count - 1];
        if ((uint8_t *)last->iov_base + last->iov_len == frame) {
            last->iov_len += frame_size;
            return;
        }
    }
    if (c->count == c->room) {
        c->room = c->room ? 2 * c->room : 4;
        check((c->parts = realloc(c->parts, c->room * sizeof *c->parts)), "realloc");
    }
    c->parts[c->count++] = (struct iovec){.iov_base = frame, .iov_len = frame_size};
}

static void publish(char *line)
{
    static struct connection **dirty;
    static size_t room;
    size_t dirtied = 0, message = 0;
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " "), message++) {
        struct topic *topic = &topics[strtoul(word, NULL, 10) % TOPICS];
        check(message < BURST, "the burst is too long");
        for (unsigned i = 0; i < topic->count; i++) {
            if (!coalesced) {
                write_all(topic->members[i], ready, frame_size);
                continue;
            }
            struct connection *c = topic->members[i];
            if (!c->count) {
                if (dirtied == room) {
                    room = room ? 2 * room : 1024;
                    check((dirty = realloc(dirty, room * sizeof *dirty)), "realloc");
                }
                dirty[dirtied++] = c;
            }
            append(c, ready + message * frame_size);
        }
    }
    for (size_t i = 0; i < dirtied; i++)
        write_parts(dirty[i]);
}

/* -- reading ------------------------------------------------------------------------------------------------------ */

static void subscribe(struct connection *c, unsigned long number)
{
    struct topic *topic = &topics[number % TOPICS];
    if (topic->count == topic->room) {
        topic->room = topic->room ? 2 * topic->room : 16;
        check((topic->members = realloc(topic->members, topic->room * sizeof *topic->members)), "realloc");
    }
    topic->members[topic->count++] = c;
    write_all(c, "\x81\x02ok", 4);
}

static size_t upgrade(struct connection *c, char *text, size_t n)
{
    static const char field[] = "\r\nSec-WebSocket-Key:", guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    char *end = memmem(text, n, "\r\n\r\n", 4), joined[128], accept[29], answer[256];
    uint8_t digest[20];
    if (!end)
        return 0;
    *end = 0;
    char *key = strcasestr(text, field);
    check(key, "no Sec-WebSocket-Key");
    key += sizeof field - 1;
    key += strspn(key, " ");
    int size = snprintf(joined, sizeof joined, "%.*s%s", (int)strcspn(key, " \r"), key, guid);
    check(size < 120, "the key is too long");
    sha1(joined, (size_t)size, digest);
    base64(digest, accept);
    size = snprintf(answer, sizeof answer, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                    "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", accept);
    write_all(c, answer, (size_t)size);
    c->open = true;
    return (size_t)(end - text) + 4;
}

/* One short masked message; returns its size, or 0 while it is not whole. */
static size_t message(struct connection *c, const uint8_t *p, size_t n)
{
    char text[126] = {0};
    if (n < 2)
        return 0;
    size_t size = p[1] & 0x7f;
    check(size < 126 && (p[1] & 0x80), "a frame that is long or not masked");
    if (n < size + 6)
        return 0;
    for (size_t i = 0; i < size; i++)
        text[i] = (char)(p[6 + i] ^ p[2 + (i & 3)]);
    if ((p[0] & 0x0f) == 1)
        subscribe(c, strtoul(text, NULL, 10));
    return size + 6;
}

static void readable(struct connection *c)
{
    if (c->have)
        memcpy(buffer, c->rest, c->have);
    ssize_t got = recv(c->fd, buffer + c->have, READ - c->have, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        close(c->fd);
        c->fd = -1;
        return;
    }
    size_t have = c->have + (size_t)got, at = 0, taken;
    do {
        taken = c->open ? message(c, buffer + at, have - at) : upgrade(c, (char *)buffer + at, have - at);
        at += taken;
    } while (taken);
    free(c->rest);
    c->rest = NULL;
    c->have = have - at;
    if (c->have) {
        check((c->rest = malloc(c->have)), "malloc");
        memcpy(c->rest, buffer + at, c->have);
    }
}

static void watch(int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    check(!epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

static void take(int listener)
{
    int fd, one = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        struct connection *c = calloc(1, sizeof *c);
        check(c, "calloc");
        c->fd = fd;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        watch(fd, c);
    }
    check(errno == EAGAIN || errno == ECONNABORTED, "accept");
}

static bool commands(void)
{
    static char text[LINE];
    static size_t have;
    ssize_t got = read(0, text + have, sizeof text - have);
    if (got <= 0)
        return false;
    have += (size_t)got;
    char *line = text, *end;
    while ((end = memchr(line, '\n', have - (size_t)(line - text)))) {
        *end = 0;
        check(!strncmp(line, "publish ", 8), "no such command");
        publish(line + 8);
        line = end + 1;
    }
    have -= (size_t)(line - text);
    memmove(text, line, have);
    return true;
}

static void prepare(const char *payload)
{
    size_t n = strlen(payload), head = n < 126 ? 2 : 4;
    check(n < 65536, "the payload is too long");
    frame_size = head + n;
    check((ready = malloc(BURST * frame_size)), "malloc");
    for (int i = 0; i < BURST; i++) {
        uint8_t *p = ready + (size_t)i * frame_size;
        p[0] = 0x81;
        p[1] = n < 126 ? (uint8_t)n : 126;
        if (n >= 126)
            p[2] = (uint8_t)(n >> 8), p[3] = (uint8_t)n;
        memcpy(p + head, payload, n);
    }
}

int main(int argc, char **argv)
{
    struct rlimit files;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event events[EVENTS];
    socklen_t size = sizeof at;
    if (argc != 3) {
        fprintf(stderr, "usage: limit plain|coalesced PAYLOAD\n");
        return 2;
    }
    coalesced = !strcmp(argv[1], "coalesced");
    prepare(argv[2]);
    signal(SIGPIPE, SIG_IGN);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    check(listener >= 0 && !bind(listener, (struct sockaddr *)&at, size) && !listen(listener, 4096), "listen");
    getsockname(listener, (struct sockaddr *)&at, &size);
    check((poller = epoll_create1(EPOLL_CLOEXEC)) >= 0, "epoll");
    watch(0, NULL);
    watch(listener, &listener);
    printf("ready %d\n", ntohs(at.sin_port));
    fflush(stdout);
    for (;;) {
        int n = epoll_wait(poller, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            void *what = events[i].data.ptr;
            if (!what && !commands())
                return 0;
            if (what == &listener)
                take(listener);
            else if (what)
                readable(what);
        }
    }
}
