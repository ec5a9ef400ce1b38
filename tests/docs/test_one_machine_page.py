"""The page on one machine: its commands run in a town of their own."""

from __future__ import annotations

import sys
from pathlib import Path

from pages import DOCS
from shell import Shell

sys.path.append(str(Path(__file__).parent.parent / "one_machine"))

from hamlet import options

from tocsin.local import LocalDeployment


def test_every_command_does_what_the_page_says(tmp_path: Path) -> None:
    with LocalDeployment(options(tmp_path / "home", brokers=2)) as town:
        shell = Shell(town.cluster, town.brokers["broker-1"], tmp_path, town.coordinator)
        shell.env |= {"TOWN": town.url, "TOCSIN_COORDINATOR": town.coordinator}
        assert shell.run_page(DOCS / "how-to" / "run-on-one-machine.md") == 3
