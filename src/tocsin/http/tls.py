"""TLS of a part: its certificate for those who connect to it, and whom it trusts when it connects to others.

The files are read again when they change; connections that are open stay open.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from tocsin.config import ServerConfig
from tocsin.errors import UserError

log = logging.getLogger("tocsin.server")


class Tls:
    """The same certificate is for both directions: with mutual TLS a part shows it when it connects to another one."""

    def __init__(self, certificate: str = "", key: str = "", ca: str = "", client_ca: str = "") -> None:
        if client_ca and not certificate:
            raise UserError(
                "tls_client_ca needs a certificate of this part too", hint="set tls_certificate and tls_key"
            )
        self._certificate, self._key, self._ca, self._client_ca = certificate, key, ca, client_ca
        self._stamp = self._read_stamp()
        try:
            self._client = self._load_client(ssl.create_default_context(cafile=ca or None))
            self._servers = {mutual: self._load_server(mutual) for mutual in (False, True) if certificate}
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(filter(None, (certificate, key, ca, client_ca)))
            raise UserError(f"TLS cannot be set up with {files}: {error}", hint="check the tls_ settings") from error

    @classmethod
    def of(cls, config: ServerConfig) -> Tls:
        return cls(config.tls_certificate, config.tls_key, config.tls_ca, config.tls_client_ca)

    def server(self, *, mutual: bool = False) -> ssl.SSLContext | None:
        """For a listening socket; None without a certificate. ``mutual``: clients need a certificate, if ``client_ca``
        is set."""
        if not self._certificate:
            return None
        context = self._load_server(mutual)

        def choose(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
            self._refresh()
            connection.context = self._servers[mutual]

        context.sni_callback = choose
        return context

    def client(self) -> ssl.SSLContext:
        """Always the same object, so that HTTP clients that hold it see changes too."""
        self._refresh()
        return self._client

    def _load_server(self, mutual: bool) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._certificate, self._key or None)
        context.set_alpn_protocols(["http/1.1"])
        if mutual and self._client_ca:
            context.load_verify_locations(self._client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _load_client(self, context: ssl.SSLContext) -> ssl.SSLContext:
        if self._certificate:
            context.load_cert_chain(self._certificate, self._key or None)
        if self._ca:
            context.load_verify_locations(self._ca)
        return context

    def _refresh(self) -> None:
        stamp = self._read_stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            servers = {mutual: self._load_server(mutual) for mutual in self._servers}
            self._load_client(self._client)
        except (OSError, ssl.SSLError) as error:
            # Perhaps only one of the files is new yet; the next change is another try.
            log.warning("the TLS files have changed and cannot be used, the previous ones stay: %s", error)
        else:
            self._servers = servers

    def _read_stamp(self) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        for name in filter(None, (self._certificate, self._key, self._ca, self._client_ca)):
            try:
                it = Path(name).stat()
            except OSError:
                found.append(())
            else:
                found.append((it.st_mtime_ns, it.st_size, it.st_ino))
        return found
