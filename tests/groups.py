"""Which tests stay together when two processes share them, as in ``make test``. A plugin of pytest and pytest-xdist.

Tests that use the same slow fixture go to one process, which makes it once; otherwise a file is a group. The processes
that collect the tests know the fixtures and write the groups down for the one that hands them out, which does not.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

#: Made once a process, and take long.
SHARED = ("spark_runtime", "documented", "url", "standalone_master", "watched_network")
#: The longest go first, so that no process is left with one of them at the end. Even before them goes a file whose
#: first test starts Spark and stops it: from then on every start finds an archive of its classes.
ORDER = ["spark_runtime", "test_cluster", "test_demo", "standalone_master", "test_kill", "test_emergency", "documented"]
ORDER += ["test_network", "test_spark_session", "test_java", "watched_network", "url", "test_maintenance"]
ORDER += ["test_runs", "test_openapi", "test_demo_loop", "test_packaging", "test_broker_kill", "test_kept_numbers"]
FIRST = {group: place for place, group in enumerate(ORDER)}


def group(item: pytest.Item) -> str:
    used = set(getattr(item, "fixturenames", ()))
    return next((name for name in SHARED if name in used), item.path.stem)


class Handing(LoadScopeScheduling):
    """Hands out one group after the other."""

    def __init__(self, config: pytest.Config, log: Any, folder: Path) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)
        self._folder = folder
        self._groups: dict[str, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        if not self._groups:
            self._groups = json.loads(next(self._folder.iterdir()).read_text())
        return self._groups[nodeid]


class Groups:
    def __init__(self, config: pytest.Config) -> None:
        self._folder = TemporaryDirectory(prefix="tocsin-groups-")
        config.add_cleanup(self._folder.cleanup)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["groups"] = str(Path(self._folder.name) / node.gateway.id)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Handing:
        return Handing(config, log, Path(self._folder.name))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: FIRST.get(group(item), len(FIRST)))
        told: dict[str, str] = getattr(config, "workerinput", {})
        if "groups" in told:
            Path(told["groups"]).write_text(json.dumps({item.nodeid: group(item) for item in items}))
