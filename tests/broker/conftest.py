"""One data cluster without Spark and one broker, shared by the tests of this folder that do not stop them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from broker_lab import Broker, broker

from sparkless import Sparkless, sparkless


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sparkless, str]]:
    with sparkless(tmp_path_factory.mktemp("data")) as found:
        yield found


@pytest.fixture(scope="session")
def cluster(data: tuple[Sparkless, str]) -> Sparkless:
    return data[0]


@pytest.fixture(scope="session")
def served_broker(data: tuple[Sparkless, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker(tmp_path_factory.mktemp("broker"), data[1], "shared") as found:
        yield found
