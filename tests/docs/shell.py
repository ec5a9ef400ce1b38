"""Runs the blocks of a page against a data cluster in a process of its own, in a folder of the page's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pages

from served import environment

#: The address that the pages use; the test's cluster has a port of its own.
SHOWN = "http://127.0.0.1:8480"
SHOWN_BROKER = "http://127.0.0.1:8481"
SHOWN_COORDINATOR = "http://127.0.0.1:8482"


class Shell:
    def __init__(self, url: str, broker: str, folder: Path, coordinator: str = SHOWN_COORDINATOR) -> None:
        self.url = url
        self.broker = broker
        self.coordinator = coordinator
        self.folder = folder
        path = str(Path(sys.executable).parent)
        known = environment(TOCSIN_URL=url, TOCSIN_BROKER=broker)
        self.env = known | {"PATH": f"{path}:{known['PATH']}"}

    def run_page(self, page: Path) -> int:
        """Runs every block and compares; says how many there were."""
        found = pages.blocks(page)
        for block in found:
            if block.wait is not None:
                self.wait(*block.wait)
            pages.check(page, block, self.run(page, block))
        return len(found)

    def run(self, page: Path, block: pages.Block) -> str:
        text = block.text.replace(SHOWN, self.url).replace(SHOWN_BROKER, self.broker)
        text = text.replace(SHOWN_COORDINATOR, self.coordinator)
        if block.language == "sql":
            return self._output(page, block, ["tocsin", "sql", "-"], text)
        if block.language == "python":
            return self._output(page, block, [sys.executable, "-"], text)
        return self._output(page, block, ["bash", "-euo", "pipefail", "-c", text])

    def wait(self, channel: str, execution: int) -> None:
        params = {"after": execution - 1, "wait": 60}
        answer = httpx.get(f"{self.url}/channels/{channel}/executions", params=params, timeout=90)
        assert answer.json()["executions"], f"{channel} has no execution {execution}"

    def _output(self, page: Path, block: pages.Block, command: list[str], text: str = "") -> str:
        ran = subprocess.run(
            command, input=text, capture_output=True, text=True, env=self.env, cwd=self.folder, timeout=180
        )
        where = f"{page.relative_to(pages.ROOT)}:{block.line}"
        assert ran.returncode == 0, f"{where} ended with {ran.returncode}: {ran.stderr}{ran.stdout}"
        return (ran.stdout + ran.stderr).replace(self.url, SHOWN).replace(self.broker, SHOWN_BROKER)
