"""Runs the blocks of a page against a data cluster in a process of its own, in a folder of the page's own."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
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
        self.ports: dict[str, str] = {}  # free ones instead of those that the page shows
        path = str(Path(sys.executable).parent)
        known = environment(TOCSIN_URL=url, TOCSIN_BROKER=broker)
        self.env = known | {"PATH": f"{path}:{known['PATH']}"}
        self._terminals: dict[str, Terminal] = {}

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        for terminal in self._terminals.values():
            terminal.close()

    def run_page(self, page: Path) -> int:
        """Runs every block and compares its output; returns the number of blocks."""
        found = pages.blocks(page)
        for block in found:
            if block.wait is not None:
                self.wait(*block.wait)
            if block.directive is not None:
                self._follow(page, block, *block.directive)
            else:
                pages.check(page, block, self.run(page, block))
        return len(found)

    def _follow(self, page: Path, block: pages.Block, kind: str, name: str) -> None:
        if kind == "save":
            (self.folder / name).write_text(self._here(block.text))
        elif kind == "terminal":
            if name in self._terminals:
                self._terminals[name].close()
            self._terminals[name] = Terminal(self._here(block.text), self.folder, self.env)
        else:
            shown = self._terminals[name].next(block.text.count("\n"))
            pages.check(page, block._replace(expected=block.text), self._as_shown(shown))

    def _here(self, text: str) -> str:
        for shown, port in self.ports.items():
            text = text.replace(shown, port)
        text = text.replace(SHOWN, self.url).replace(SHOWN_BROKER, self.broker)
        return text.replace(SHOWN_COORDINATOR, self.coordinator)

    def _as_shown(self, text: str) -> str:
        return text.replace(self.url, SHOWN).replace(self.broker, SHOWN_BROKER)

    def run(self, page: Path, block: pages.Block) -> str:
        text = self._here(block.text)
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
            command, input=text, capture_output=True, text=True, env=self.env, cwd=self.folder, timeout=600
        )
        where = f"{page.relative_to(pages.ROOT)}:{block.line}"
        assert ran.returncode == 0, f"{where} ended with {ran.returncode}: {ran.stderr}{ran.stdout}"
        return self._as_shown(ran.stdout + ran.stderr)


class Terminal:
    """A terminal in which a command keeps running and prints lines."""

    def __init__(self, command: str, folder: Path, env: dict[str, str]) -> None:
        # So that ending the shell ends the command.
        words = ["bash", "-c", f"exec {command}"]
        self._process = subprocess.Popen(
            words,
            cwd=folder,
            env=env | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def next(self, lines: int) -> str:
        return "".join(self._lines.get(timeout=120) for _ in range(lines))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
