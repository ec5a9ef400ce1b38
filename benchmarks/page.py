"""The page: frames a second and the script's time for each, by the number of people on the map, in headless Chromium.

Everything is drawn by the processor here; with a graphics card putting the pixels on the screen costs less.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks.harness import Table

TESTS = Path(__file__).parent.parent / "tests"
sys.path += [str(TESTS / folder) for folder in (".", "dashboard", "coordinator")]

SECONDS = 10.0
PEOPLE = 20
MEASURE = """seconds => new Promise(done => {
  const gaps = [], scripts = [], { view } = tocsin;
  let before = performance.now(), script = view.script;
  const begin = before;
  const frame = now => {
    gaps.push(now - before);
    scripts.push(view.script - script);
    before = now;
    script = view.script;
    if (now - begin < seconds * 1000) requestAnimationFrame(frame);
    else done({ seconds: (now - begin) / 1000, gaps: gaps.slice(1), scripts: scripts.slice(1) });
  };
  requestAnimationFrame(frame);
})"""


def measure(crowd: int, width: int, height: int) -> dict[str, Any]:
    from chromium import chromium
    from page_network import network
    from small_city import spot

    with (
        tempfile.TemporaryDirectory() as folder,
        chromium() as browser,
        network(Path(folder), people=PEOPLE, crowd=crowd - PEOPLE) as net,
    ):
        net.city.announce("flood", "Old Town", *spot(0.8, 0.2))
        page = browser.new_page(viewport={"width": width, "height": height})
        page.goto(net.url)
        page.wait_for_selector("#emergencies button")
        page.wait_for_function("() => tocsin.view.people.pixels?.some(Boolean)")
        found: dict[str, Any] = page.evaluate(MEASURE, SECONDS)
        page.close()
        return found


def run(full: bool) -> list[Table]:
    table = Table(
        f"The city on the page, {SECONDS:g} seconds, one emergency pulsing",
        ["people", "window", "frames/s", "script p50 ms", "script p99 ms", "longest gap ms"],
        notes=[
            "Headless Chromium without a graphics card, next to the network that it shows, on the same machine.",
            "A frame in which no person would visibly move is not drawn again: p50 is such a frame, p99 one that draws "
            "all of them.",
        ],
    )
    for people in (400, 20_000) if not full else (400, 5_000, 20_000, 50_000):
        for width, height in ((1440, 900), (390, 844)):
            found = measure(people, width, height)
            scripts = [harness.percentile(found["scripts"], percent) for percent in (50, 99)]
            rate = len(found["gaps"]) / found["seconds"]
            table.add(people, f"{width} × {height}", rate, *scripts, max(found["gaps"]))
    return [table]


if __name__ == "__main__":
    harness.main("page", run)
