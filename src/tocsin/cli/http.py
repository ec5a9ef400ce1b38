"""A small client of the HTTP interface: answers or a :class:`TocsinError`, nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from tocsin.errors import TocsinError, Unreachable, UserError
from tocsin.http.client import trust
from tocsin.wire.backoff import ceiling

#: Posts answer when the data is durable, queries when Spark is done: only connecting has a limit.
TIMEOUT = httpx.Timeout(None, connect=10.0)
#: The waits between the tries come to half a minute: a restart of the server takes less.
TRIES, MIN_BACKOFF, MAX_BACKOFF = 11, 0.2, 5.0


class Remote(TocsinError):
    """An error of the server; ``problem`` is its JSON."""

    def __init__(self, status: int, problem: dict[str, Any], body: dict[str, Any] | None = None) -> None:
        super().__init__(str(problem.get("message", problem)), hint=str(problem.get("hint", "")))
        self.http_status = status
        self.problem = problem
        self.body = body or {}

    def to_dict(self) -> dict[str, Any]:
        return self.problem


def path(*parts: str) -> str:
    return "/" + "/".join(quote(part, safe="") for part in parts)


def bearer(token: str) -> dict[str, str]:
    """The header for a token, if there is one."""
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise UserError("the token has invalid characters", hint="letters, digits and punctuation only")
    return {"authorization": f"Bearer {token}"} if token else {}


def read_token(text: str) -> str:
    """``text`` itself, or the content of a file if it begins with @."""
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the token in {text[1:]}: {error}") from error


class Client:
    """``token``: see ``read_token``; it is sent with every request."""

    def __init__(self, url: str, token: str = "") -> None:
        self.url = url.rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise UserError(f"{url!r} is not the address of a server", hint="give one like http://127.0.0.1:8480")
        try:
            headers = bearer(read_token(token))
            self._http = httpx.Client(base_url=self.url, timeout=TIMEOUT, headers=headers, verify=trust())
        except httpx.InvalidURL as error:
            raise UserError(f"{url!r} is not the address of a server: {error}") from error

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def call(self, method: str, route: str, **request: Any) -> Any:
        """The JSON answer."""
        with self.stream(method, route, **request) as response:
            return self._json(response)

    @contextlib.contextmanager
    def stream(self, method: str, route: str, **request: Any) -> Iterator[httpx.Response]:
        """An answer to be read in pieces; errors are raised before the first."""
        try:
            with self._http.stream(method, route, **request) as response:
                if response.is_error or response.is_redirect:
                    response.read()
                    raise self.error(response)
                yield response
        except httpx.InvalidURL as error:
            raise UserError(f"{self.url!r} is not the address of a server: {error}") from error
        except httpx.TransportError as error:
            raise unreachable(self.url, error) from error

    def retrying(self, send: Callable[[], Any], sleep: Callable[[float], None], note: Callable[[str], None]) -> Any:
        """Retries when there is no answer, or a 502, 503 or 504; only for requests that may arrive twice."""
        failures = 0
        while True:
            try:
                return send()
            except (Unreachable, Remote) as error:
                passing = isinstance(error, Unreachable) or error.http_status in (502, 503, 504)
                failures += 1
                if failures == TRIES or not passing:
                    raise
                pause = ceiling(failures, MIN_BACKOFF, MAX_BACKOFF)
                note(f"{error.message}; trying again in {pause:g} s")
                sleep(pause)

    def _json(self, response: httpx.Response) -> Any:
        try:
            return msgspec.json.decode(response.read())
        except msgspec.DecodeError as error:
            raise self._not_tocsin(response) from error

    def error(self, response: httpx.Response) -> TocsinError:
        try:
            body = msgspec.json.decode(response.content)
            return Remote(response.status_code, dict(body["error"]), body)
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            return self._not_tocsin(response)

    def _not_tocsin(self, response: httpx.Response) -> TocsinError:
        media = response.headers.get("content-type", "nothing")
        return UserError(
            f"{self.url} does not answer like a Tocsin server ({response.status_code}, {media})",
            hint="check --url or TOCSIN_URL",
        )


def unreachable(url: str, error: Exception) -> Unreachable:
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        reason = "timed out" if isinstance(error, httpx.ConnectTimeout) else str(error).removeprefix("[Errno 111] ")
        return Unreachable(
            f"no server answers at {url}: {reason.lower()}",
            hint="start one with `tocsin up` or `tocsin cluster`, or name it with --url or TOCSIN_URL",
        )
    return Unreachable(
        f"the server at {url} closed the connection: {str(error) or type(error).__name__}", hint="see its log"
    )
