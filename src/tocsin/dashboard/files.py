"""The files of the page, ready to be sent."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "page"
MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
#: Every answer has these. Nothing comes from another site, nothing is written into the page, nobody frames it.
HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # Always asked for again, and not sent again while it is the same: an upgrade is seen at once.
    "cache-control": "no-cache",
}


class File(NamedTuple):
    media: str
    content: bytes
    packed: bytes
    tag: str


def files() -> dict[str, File]:
    """By their path below the page's."""
    return {str(path.relative_to(FOLDER)): read(path) for path in sorted(FOLDER.rglob("*")) if path.suffix in MEDIA}


def read(path: Path) -> File:
    content = path.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    return File(MEDIA[path.suffix], content, gzip.compress(content, mtime=0), tag)
