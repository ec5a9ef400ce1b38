"""The page about one machine: its commands run in a local deployment of their own."""

from __future__ import annotations

import sys
from pathlib import Path

from pages import DOCS
from shell import Shell

sys.path.append(str(Path(__file__).parent.parent / "local"))

from deployment_process import options

from tocsin.local import LocalDeployment


def test_every_command_does_what_the_page_says(tmp_path: Path) -> None:
    with LocalDeployment(options(tmp_path / "home", brokers=2)) as deployment:
        shell = Shell(deployment.cluster, deployment.brokers["broker-1"], tmp_path, deployment.coordinator)
        shell.env |= {"LOCAL": deployment.url, "TOCSIN_COORDINATOR": deployment.coordinator}
        assert shell.run_page(DOCS / "how-to" / "run-on-one-machine.md") == 3
