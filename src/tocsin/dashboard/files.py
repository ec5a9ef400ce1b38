"""The files of the page, ready to be served."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from tocsin.errors import NoSuchPath

FOLDER = Path(__file__).parent / "page"
MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
#: Every response has these: nothing comes from another site, no script is inline, and no site frames the page.
HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # Browsers ask again each time and get 304 while nothing changed: an upgrade is visible at once.
    "cache-control": "no-cache",
}
#: Where index.html says which APIs its server has beside the coordinator's.
FEATURES = b'<meta name="features" content="">'


class File(NamedTuple):
    media: str
    content: bytes
    compressed: bytes
    tag: str


class Page:
    """``features``: APIs that the serving process has beside the coordinator's, "local" and "city"."""

    def __init__(self, features: Iterable[str] = ()) -> None:
        meta = f'<meta name="features" content="{" ".join(features)}">'.encode()
        self._files = {
            str(path.relative_to(FOLDER)): file(MEDIA[path.suffix], path.read_bytes().replace(FEATURES, meta))
            for path in sorted(FOLDER.rglob("*"))
            if path.suffix in MEDIA
        }

    def respond(self, request: Request, path: str) -> Response:
        found = self._files.get(path or "index.html")
        if found is None:
            raise NoSuchPath(f"the page has no file {path!r}", hint="the page is at /ui/")
        headers = HEADERS | {"etag": found.tag, "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(found.compressed, 200, headers | {"content-encoding": "gzip"}, found.media)
        return Response(found.content, 200, headers, found.media)


def file(media: str, content: bytes) -> File:
    tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    return File(media, content, gzip.compress(content, mtime=0), tag)
