"""Servers from Debian's packages: those of the machine, else unpacked into the cache, so that none starts by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fanout import cache

PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin"])


@dataclass(frozen=True)
class Binary:
    """A program and where its libraries are, if not where the system looks."""

    path: str
    libraries: str = ""

    def environment(self) -> dict[str, str]:
        return os.environ | ({"LD_LIBRARY_PATH": self.libraries} if self.libraries else {})

    def version(self, option: str) -> str:
        """The first word of the program's output that looks like a version."""
        done = subprocess.run([self.path, option], capture_output=True, text=True, check=False, env=self.environment())
        words = (word.removeprefix("v=").removeprefix("v") for word in (done.stdout + done.stderr).split())
        return next((word for word in words if word[:1].isdigit()), "of unknown version")


def binary(name: str, package: str | None = None) -> Binary:
    """The program ``name``, fetched with the packages it needs where the machine lacks it."""
    if found := shutil.which(name, path=PATH):
        return Binary(found)
    kept = cache.folder("debian") / (package or name)
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            unpacked = Path(folder) / "unpacked"
            unpacked.mkdir()
            _fetch(package or name, unpacked)
            unpacked.rename(kept)
    found = shutil.which(name, path=os.pathsep.join(str(kept / "usr" / bin) for bin in ("bin", "sbin")))
    if not found:
        raise RuntimeError(f"Debian's package {package or name} has no program {name}")
    libraries = [*kept.glob("usr/lib/*-linux-*"), *kept.glob("lib/*-linux-*")]
    return Binary(found, os.pathsep.join(map(str, libraries)))


def _fetch(package: str, into: Path) -> None:
    if not shutil.which("apt-get"):
        raise RuntimeError(f"{package} is not installed, and without apt-get it cannot be fetched")
    try:
        archives = _download(package, into, [])
    except subprocess.CalledProcessError:
        # The machine's package lists are missing or old; only root may renew them, so these are our own.
        lists = into.parent / "lists"
        (lists / "partial").mkdir(parents=True)
        options = ["-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={into.parent}"]
        _apt(into.parent, [*options, "update"])
        archives = _download(package, into, options)
    for archive in archives:
        subprocess.run(["dpkg", "-x", str(archive), str(into)], check=True)


def _download(package: str, into: Path, options: list[str]) -> list[Path]:
    output = _apt(into.parent, [*options, "install", "--simulate", "--no-install-recommends", package])
    missing = [line.split()[1] for line in output.splitlines() if line.startswith("Inst ")]
    _apt(into.parent, [*options, "download", *(missing or [package])])
    return sorted(into.parent.glob("*.deb"))


def _apt(folder: Path, arguments: list[str]) -> str:
    command = ["apt-get", "-y", "-q", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True, env=os.environ | {"LC_ALL": "C"}
    ).stdout
