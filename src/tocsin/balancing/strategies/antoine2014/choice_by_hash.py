"""Peers chosen by hash, where there is no key space: each peer finds the same ones from the names that it knows."""

from __future__ import annotations

import hashlib

from tocsin.balancing.host.actions import Peer
from tocsin.balancing.host.scope import Scope


def by_hash(scope: Scope, subject: str) -> Peer:
    """The peer whose hash with the subject is highest (rendezvous): another one that joins or leaves changes little."""
    return max({scope.peer, *scope.neighbours}, key=lambda peer: (_hash(subject, peer), peer))


def ranked(scope: Scope, subject: str, count: int) -> list[Peer]:
    """The first ``count`` peers of this subject."""
    everyone = {scope.peer, *scope.neighbours}
    return sorted(everyone, key=lambda peer: (_hash(subject, peer), peer), reverse=True)[:count]


def _hash(subject: str, peer: Peer) -> bytes:
    return hashlib.blake2b(f"{len(subject)}\0{subject}\0{peer}".encode(), digest_size=8).digest()
