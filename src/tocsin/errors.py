"""Everything Tocsin raises on purpose.

    TocsinError
    ├── UserError                 the request is wrong; a 4xx; nothing was done
    │   ├── ParseError            a statement or a query cannot be read (line, column)
    │   ├── BodyRefused           a query does something a channel or query may not do
    │   ├── QueryFailed           Spark refused or failed the user's query
    │   ├── NotFound              names something that does not exist
    │   ├── AlreadyExists         creates something that exists
    │   ├── InUse                 drops something that others need
    │   ├── TypeMismatch          a value does not fit the declared type
    │   ├── RecordsRefused        an all-or-nothing request with records that do not fit
    │   ├── Conflict              the request contradicts the present state
    │   ├── LimitExceeded         larger, longer or deeper than allowed
    │   ├── Malformed             a request that cannot be read (JSON, UTF-8, numbers, types, parameters)
    │   │   ├── NotJson           a body that is no JSON at all (position)
    │   │   └── BrokenEncoding    a compressed body that cannot be unpacked
    │   ├── NoSuchPath            no such address
    │   ├── MethodNotAllowed      an address that takes other methods (allowed)
    │   ├── NotAcceptable         asks for a format that is not offered
    │   ├── UnsupportedMedia      a body in a format that is not read here
    │   │   └── UnsupportedEncoding   a body packed in a way that is not read here
    │   ├── CrossOrigin           a page of another site made a browser send this
    │   └── Unauthorized          the user, password or token is not known here
    └── SystemTrouble             the request is fine, the system is not; a 5xx
        ├── NotReady              Spark is starting or dead
        ├── Busy                  too many requests of this kind at once
        ├── Unreachable           no server answers
        ├── ConnectionLost        a client's connection ended for good (close)
        ├── Uncertain             sent, and no answer came: it may have been done or not (taken)
        ├── StorageError          the segment path, the catalog or a store cannot be read or written
        └── LeaseHeld             another data cluster serves this catalog, another coordinator this store

Each has a stable ``code`` for machines, a message for people, a ``hint`` that says what to do, and ``fields``.
"""

from __future__ import annotations

from typing import Any, ClassVar


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
    """``line`` and ``column`` count from 1 within the text that was given."""

    code = "syntax"

    def __init__(self, message: str, *, line: int = 1, column: int = 1, hint: str = "", **fields: Any) -> None:
        super().__init__(message, hint=hint, line=line, column=column, **fields)
        self.line = line
        self.column = column


class BodyRefused(UserError):
    code = "body_refused"


class QueryFailed(UserError):
    code = "query_failed"


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
        super().__init__(f"{kind} {name!r} exists already", hint=hint, kind=kind, name=name)


class InUse(UserError):
    code = "in_use"
    status = 409

    def __init__(self, kind: str, name: str, needed_by: list[str]) -> None:
        super().__init__(
            f"{kind} {name!r} is needed by {', '.join(needed_by)}",
            hint="drop what needs it first",
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


class Malformed(UserError):
    code = "malformed"


class NoSuchPath(UserError):
    code = "no_such_path"
    status = 404


class MethodNotAllowed(UserError):
    code = "method_not_allowed"
    status = 405

    def __init__(self, method: str, path: str, allowed: list[str]) -> None:
        super().__init__(f"{path} does not take {method}", hint=f"use {', '.join(allowed)}", allowed=allowed)
        self.allowed = allowed


class NotAcceptable(UserError):
    code = "not_acceptable"
    status = 406


class UnsupportedMedia(UserError):
    code = "unsupported_media_type"
    status = 415


class NotJson(Malformed):
    """``position`` is the byte where reading stopped, where it is known."""

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


class SystemTrouble(TocsinError):
    code = "trouble"
    status = 503


class NotReady(SystemTrouble):
    code = "not_ready"


class Busy(SystemTrouble):
    code = "busy"


class Unreachable(SystemTrouble):
    code = "unreachable"


class ConnectionLost(SystemTrouble):
    """``close`` is the close code, where a broker gave one."""

    code = "connection_lost"


class Uncertain(SystemTrouble):
    """``taken`` records had been confirmed before."""

    code = "uncertain"


class StorageError(SystemTrouble):
    code = "storage"
    status = 507


class LeaseHeld(SystemTrouble):
    code = "lease_held"
    status = 409
