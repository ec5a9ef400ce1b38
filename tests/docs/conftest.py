from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shell import Shell

from served import Process

# For the helpers of the broker's tests.
sys.path.append(str(Path(__file__).parent.parent / "broker"))


@pytest.fixture(scope="session")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The addresses of one ``tocsin up`` for all pages: each page has names of its own."""
    options = ("--home", str(tmp_path_factory.mktemp("documented")), "--brokers", "1")
    settings = {"TOCSIN_MASTER": "local[2]", "TOCSIN_DRIVER_MEMORY": "1g"}
    # The pages run in folders of their own; a reader's folder is the one in which `tocsin up` was started.
    settings["TOCSIN_LOAD_PATHS"] = json.dumps([str(tmp_path_factory.getbasetemp())])
    running = Process(*options, part="up", **settings)
    try:
        yield running.event("ready")
    finally:
        code = running.end()
    assert code == 0, running.errors()


@pytest.fixture
def shell(documented: dict[str, Any], tmp_path: Path) -> Iterator[Shell]:
    (broker,) = documented["brokers"].values()
    with Shell(documented["cluster"], broker, tmp_path, documented["coordinator"]) as found:
        yield found
