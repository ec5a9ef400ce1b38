"""A plugin of pytest and pytest-xdist that groups tests when two processes share them, as in ``make test``.

Tests that use the same slow fixture go to one process, which makes it once; otherwise a file is a group. Only the
processes that collect the tests know the fixtures, so they write the groups to a file for the scheduling process.
Meanwhile that process has an archive of Spark's classes made, if there is none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

#: Slow fixtures, made once per process.
SHARED = ("spark_runtime", "documented", "url", "standalone_master", "shared_network")
#: The longest groups go first, so that no process runs one of them alone at the end.
ORDER = ["spark_runtime", "test_cluster", "test_demo", "standalone_master", "test_kill", "test_emergency", "documented"]
ORDER += ["test_network", "test_spark_session", "test_java", "shared_network", "url", "test_maintenance"]
ORDER += ["test_runs", "test_openapi", "test_demo_loop", "test_packaging", "test_broker_kill", "test_previous_ids"]
ORDER += ["test_broken_user_rules", "test_peers", "test_reproduce", "test_sabotage", "test_whatif", "test_broken_rules"]
ORDER += ["test_coordinator_server", "test_users_of_the_network", "test_keyspace_runs", "test_content_bugs"]
FIRST = {group: place for place, group in enumerate(ORDER)}


def group(item: pytest.Item) -> str:
    used = set(getattr(item, "fixturenames", ()))
    return next((name for name in SHARED if name in used), item.path.stem)


def make_archive() -> subprocess.Popen[bytes]:
    here = Path(__file__).parent
    found = [str(here.parent / "src"), str(here), str(here / "cluster")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(found)}
    return subprocess.Popen([sys.executable, str(here / "spark_archive.py")], env=env)


class GroupScheduling(LoadScopeScheduling):
    """Gives each process one group after the other."""

    def __init__(self, config: pytest.Config, log: Any, folder: Path) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)
        self._folder = folder
        self._groups: dict[str, str] = {}
        self._archive: subprocess.Popen[bytes] | None = make_archive()

    def schedule(self) -> None:
        if self._archive is not None:
            self._archive.wait()
            self._archive = None
        super().schedule()

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
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> GroupScheduling:
        return GroupScheduling(config, log, Path(self._folder.name))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: FIRST.get(group(item), len(FIRST)))
        worker: dict[str, str] = getattr(config, "workerinput", {})
        if "groups" in worker:
            Path(worker["groups"]).write_text(json.dumps({item.nodeid: group(item) for item in items}))
