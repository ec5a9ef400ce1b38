"""The few bytes of Redis's, NATS's and MQTT's protocols that subscribing and publishing take."""

from __future__ import annotations

from collections.abc import Sequence


def redis_command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def redis_subscribe(topics: Sequence[bytes]) -> bytes:
    return redis_command(b"SUBSCRIBE", *topics)


def redis_publish(topic: bytes, payload: bytes) -> bytes:
    return redis_command(b"PUBLISH", topic, payload)


NATS_CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"lang":"c","version":"1"}\r\n'


def nats_subscribe(topics: Sequence[bytes]) -> bytes:
    """Ends with a PING: its answer says that the server has taken all of it."""
    return NATS_CONNECT + b"".join(b"SUB %s %d\r\n" % (t, n) for n, t in enumerate(topics, 1)) + b"PING\r\n"


def nats_publish(topic: bytes, payload: bytes) -> bytes:
    return b"PUB %s %d\r\n%s\r\n" % (topic, len(payload), payload)


def _mqtt_packet(kind: int, body: bytes) -> bytes:
    size, length = len(body), b""
    while True:
        size, digit = size >> 7, size & 127
        length += bytes([digit | (128 if size else 0)])
        if not size:
            return bytes([kind]) + length + body


def _mqtt_text(text: bytes) -> bytes:
    return len(text).to_bytes(2) + text


def mqtt_connect(client: bytes) -> bytes:
    """MQTT 3.1.1, a clean session, no keep-alive."""
    return _mqtt_packet(0x10, b"\0\4MQTT\4\2\0\0" + _mqtt_text(client))


def mqtt_subscribe(topics: Sequence[bytes]) -> bytes:
    """A packet a topic, QoS 0."""
    return b"".join(_mqtt_packet(0x82, b"\0\1" + _mqtt_text(topic) + b"\0") for topic in topics)


#: The start of the answer to each of them.
MQTT_SUBSCRIBED = b"\x90\x03\0\1"


def mqtt_publish(topic: bytes, payload: bytes) -> bytes:
    return _mqtt_packet(0x30, _mqtt_text(topic) + payload)
