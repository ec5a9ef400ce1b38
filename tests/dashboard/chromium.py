"""Debian's Chromium for the tests of the page, installed where it is missing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

#: Chromium without windows: the whole browser renders its own toolbars for each page, which takes as long as the page.
WHERE = Path("/usr/bin/chromium-headless-shell")
#: No graphics card and nothing from the internet.
OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
]


def executable() -> str:
    """Where Chromium is, installing Debian's package where there is none and root runs."""
    if not WHERE.exists():
        if os.geteuid() != 0:
            raise RuntimeError("Chromium is not installed: run `apt-get install chromium-headless-shell` as root")
        env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", WHERE.name]):
            subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)
    return str(WHERE)


@contextmanager
def chromium(**options: Any) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=OPTIONS, **options)
        try:
            yield browser
        finally:
            browser.close()
