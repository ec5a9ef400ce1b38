from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from shell import Shell

from served import served

# For the helpers of the broker's tests.
sys.path.append(str(Path(__file__).parent.parent / "broker"))


@pytest.fixture(scope="session")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one data cluster for all pages: each page has names of its own."""
    with served(tmp_path_factory.mktemp("documented")) as address:
        yield address


@pytest.fixture(scope="session")
def documented_broker(documented: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from broker_lab import broker

    with broker(tmp_path_factory.mktemp("documented-broker"), documented, "documented") as found:
        yield found.url


@pytest.fixture
def shell(documented: str, documented_broker: str, tmp_path: Path) -> Shell:
    return Shell(documented, documented_broker, tmp_path)
