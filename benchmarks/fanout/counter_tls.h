/* The counter's connections: plain sockets, or with -DTLS encrypted ones. Included once, after fail(). */
#ifdef TLS
#include <openssl/err.h>
#include <openssl/ssl.h>

/* As on a socket: what is sent or read, 0 at the end, -1 with errno EAGAIN if it has to wait. */
static ssize_t tls_outcome(SSL *tls, int done)
{
    int why = done > 0 ? SSL_ERROR_NONE : SSL_get_error(tls, done);
    ERR_clear_error();
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
        errno = EAGAIN;
        return -1;
    }
    return done > 0 ? done : 0;
}

static ssize_t send_some(SSL *tls, int fd, const void *p, size_t n)
{
    (void)fd;
    ssize_t sent = tls_outcome(tls, SSL_write(tls, p, (int)n));
    if (!sent)
        fail("TLS", "the connection ended");
    return sent;
}

static ssize_t receive_some(SSL *tls, int fd, void *p, size_t n)
{
    (void)fd;
    return tls_outcome(tls, SSL_read(tls, p, (int)n));
}

/* One after the other: the handshake is not what is measured. */
static SSL *secure(int fd)
{
    static SSL_CTX *context;
    if (!context && (context = SSL_CTX_new(TLS_client_method())))
        SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE);
    SSL *tls = context ? SSL_new(context) : NULL;
    if (!tls || !SSL_set_fd(tls, fd))
        fail("TLS", "no context");
    for (;;) {
        int done = SSL_connect(tls);
        if (done == 1)
            return tls;
        int why = SSL_get_error(tls, done);
        if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
            fail("TLS", ERR_reason_error_string(ERR_get_error()));
        poll(&(struct pollfd){.fd = fd, .events = why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT}, 1, 1000);
    }
}
#else
typedef void SSL;

static ssize_t send_some(SSL *tls, int fd, const void *p, size_t n)
{
    (void)tls;
    return send(fd, p, n, MSG_NOSIGNAL);
}

static ssize_t receive_some(SSL *tls, int fd, void *p, size_t n)
{
    (void)tls;
    return recv(fd, p, n, 0);
}

static SSL *secure(int fd)
{
    (void)fd;
    return NULL;
}
#endif
