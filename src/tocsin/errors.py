"""The errors of Tocsin.

    TocsinError
    ├── UserError                 the request is wrong (HTTP 4xx); nothing was changed
    │   ├── ParseError            a statement or a query has a syntax error (line, column)
    │   ├── BodyRefused           a query does something that is not allowed
    │   ├── QueryFailed           Spark rejected the query, or the query failed
    │   │   └── QueryTimeout      the query took too long, or its client has gone
    │   ├── NotFound              the named object does not exist
    │   ├── AlreadyExists         the object to create exists already
    │   ├── InUse                 other objects need the object to drop
    │   ├── TypeMismatch          a value does not have the declared type
    │   ├── RecordsRefused        an all-or-nothing post has records that do not fit
    │   ├── Conflict              the request contradicts the current state
    │   ├── LimitExceeded         the request is larger, longer or deeper than allowed
    │   ├── RequestTimeout        the request did not arrive in time
    │   ├── Malformed             the request cannot be decoded (JSON, UTF-8, numbers, types, parameters)
    │   │   ├── NotJson           the body is not JSON (position)
    │   │   └── BrokenEncoding    the compressed body cannot be decompressed
    │   ├── NoSuchPath            the URL has no such path
    │   ├── MethodNotAllowed      the path does not have this method (allowed)
    │   ├── NotAcceptable         the requested format is not available
    │   ├── UnsupportedMedia      the media type of the body is not supported
    │   │   └── UnsupportedEncoding   the content encoding of the body is not supported
    │   ├── CrossOrigin           a web page of another site made the browser send the request
    │   ├── Unauthorized          the user, password or token is unknown
    │   └── Forbidden             the user is known, but no grant allows it (privilege, name)
    └── SystemFailure             the request is valid, but the system cannot serve it (HTTP 5xx)
        ├── NotReady              Spark is starting or dead
        ├── Busy                  too many requests at once
        │   └── RateLimited       too many requests of one address or for one user (retry_after)
        ├── Unreachable           the server does not answer
        ├── ConnectionLost        the connection of a client ended and will not be opened again (close)
        ├── Uncertain             the answer to a request was lost: it may have been done or not (accepted)
        ├── StorageError          the segment path, the catalog or a store cannot be read or written
        │   └── Damaged           a stored file is damaged or missing (path)
        └── LeaseHeld             another process serves this catalog or store

Each error has a stable ``code`` for programs, a message for people, a ``hint`` that says what to do, and ``fields``.
"""

from __future__ import annotations

import errno
from typing import Any, ClassVar

#: Errors of the system that mean that there is no room.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class TocsinError(Exception):
    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500

    def __init__(self, message: str, *, hint: str = "", **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields = fields

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.hint:
            out["hint"] = self.hint
        out.update(self.fields)
        return out

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UserError(TocsinError):
    code = "bad_request"
    status = 400


class ParseError(UserError):
    """``line`` and ``column`` of the given text, from 1."""

    code = "syntax"

    def __init__(self, message: str, *, line: int = 1, column: int = 1, hint: str = "", **fields: Any) -> None:
        super().__init__(message, hint=hint, line=line, column=column, **fields)
        self.line = line
        self.column = column


class BodyRefused(UserError):
    code = "body_refused"


class QueryFailed(UserError):
    code = "query_failed"


class QueryTimeout(QueryFailed):
    code = "query_timeout"
    status = 408


class NotFound(UserError):
    code = "not_found"
    status = 404

    def __init__(self, kind: str, name: str, *, hint: str = "") -> None:
        super().__init__(f"there is no {kind} {name!r}", hint=hint, kind=kind, name=name)


class AlreadyExists(UserError):
    code = "already_exists"
    status = 409

    def __init__(self, kind: str, name: str) -> None:
        hint = "use IF NOT EXISTS, or drop it first"
        super().__init__(f"{kind} {name!r} already exists", hint=hint, kind=kind, name=name)


class InUse(UserError):
    code = "in_use"
    status = 409

    def __init__(self, kind: str, name: str, needed_by: list[str]) -> None:
        super().__init__(
            f"{kind} {name!r} is needed by {', '.join(needed_by)}",
            hint="drop these first",
            kind=kind,
            name=name,
            needed_by=needed_by,
        )


class TypeMismatch(UserError):
    code = "type_mismatch"


class RecordsRefused(UserError):
    code = "records_refused"
    status = 422


class Conflict(UserError):
    code = "conflict"
    status = 409


class LimitExceeded(UserError):
    code = "limit_exceeded"
    status = 413


class RequestTimeout(UserError):
    code = "request_timeout"
    status = 408


class Malformed(UserError):
    code = "malformed"


class NoSuchPath(UserError):
    code = "no_such_path"
    status = 404


class MethodNotAllowed(UserError):
    code = "method_not_allowed"
    status = 405

    def __init__(self, method: str, path: str, allowed: list[str]) -> None:
        super().__init__(f"{path} does not have the method {method}", hint=f"use {', '.join(allowed)}", allowed=allowed)
        self.allowed = allowed


class NotAcceptable(UserError):
    code = "not_acceptable"
    status = 406


class UnsupportedMedia(UserError):
    code = "unsupported_media_type"
    status = 415


class NotJson(Malformed):
    """``position`` is the byte at which decoding stopped, if it is known."""

    code = "not_json"


class BrokenEncoding(Malformed):
    code = "broken_encoding"


class UnsupportedEncoding(UnsupportedMedia):
    code = "unsupported_encoding"


class CrossOrigin(UserError):
    code = "cross_origin"
    status = 403


class Unauthorized(UserError):
    code = "unauthorized"
    status = 401


class Forbidden(UserError):
    code = "forbidden"
    status = 403


class SystemFailure(TocsinError):
    code = "failure"
    status = 503


class NotReady(SystemFailure):
    code = "not_ready"


class Busy(SystemFailure):
    code = "busy"


class RateLimited(Busy):
    """``retry_after`` is in seconds."""

    code = "rate_limited"
    status = 429


class Unreachable(SystemFailure):
    code = "unreachable"


class ConnectionLost(SystemFailure):
    """``close`` is the close code, if the broker sent one."""

    code = "connection_lost"


class Uncertain(SystemFailure):
    """``accepted`` is the number of records that were confirmed before."""

    code = "uncertain"


class StorageError(SystemFailure):
    code = "storage"
    status = 507


def disk_full(error: BaseException) -> StorageError | None:
    """The error for a file that could not be written because there is no room; None for other errors."""
    if not isinstance(error, OSError) or error.errno not in FULL:
        return None
    return StorageError(f"the disk is full: {error}", hint="free some space and try again")


class Damaged(StorageError):
    code = "damaged"


class LeaseHeld(SystemFailure):
    code = "lease_held"
    status = 409
