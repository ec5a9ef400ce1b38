"""``python tests/dashboard/picture.py`` makes docs/pictures/city.png: a screenshot of a demo's page.

For a demo that already runs: ``python tests/dashboard/picture.py http://127.0.0.1:8483/ui/``.
"""

from __future__ import annotations

import base64
import json
import signal
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chromium import chromium
from playwright.sync_api import Page

PICTURE = Path(__file__).parent.parent.parent / "docs" / "pictures" / "city.png"
#: The largest picture that a reader of the README should have to load.
BYTES = 400_000
#: The demo as a visitor starts it.
DEMO = [sys.executable, "-m", "tocsin.cli", "demo", "--port", "0", "--seconds", "1800", "--json"]
#: A person with a recent notification that has shelters.
NOTIFIED = """async () => {
  const asked = Array.from({ length: 120 }, async (_, number) => (await fetch(`/city/people/${number}`)).json());
  const notified = (await Promise.all(asked)).filter(each => each.notifications.length > 1);
  const shelters = each => each.rows.some(row => row.shelters?.length);
  return notified.find(each => each.notifications.slice(0, 3).some(shelters))?.number ?? -1;
}"""

#: The pixels of a picture, each as one of the 256 colours that are used most.
COLOURS = """async source => {
  const image = await createImageBitmap(await (await fetch(source)).blob());
  const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
  const counts = new Map();
  for (const each of pixels) counts.set(each, (counts.get(each) ?? 0) + 1);
  // Only one of nearly equal colours, which leaves room for rare ones.
  const palette = [], coarse = new Set();
  for (const [each] of [...counts].sort((a, b) => b[1] - a[1])) {
    if (palette.length >= 48 && coarse.has(each & 0xe0e0e0)) continue;
    coarse.add(each & 0xe0e0e0);
    if (palette.push(each) === 256) break;
  }
  const parts = colour => [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255];
  const known = palette.map(parts), nearest = new Map();
  for (const each of counts.keys()) {
    const [r, g, b] = parts(each);
    let best = 0, least = Infinity;
    known.forEach(([x, y, z], index) => {
      const far = (r - x) ** 2 + (g - y) ** 2 + (b - z) ** 2;
      if (far < least) [least, best] = [far, index];
    });
    nearest.set(each, best);
  }
  let text = "";
  for (const each of pixels) text += String.fromCharCode(nearest.get(each));
  return { width: image.width, height: image.height, palette: known.flat(), pixels: btoa(text) };
}"""


@contextmanager
def city() -> Iterator[str]:
    """Starts a demo and yields the address of its page."""
    with subprocess.Popen(DEMO, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        try:
            for line in demo.stdout:
                event = json.loads(line)
                if event.get("event") == "up" and event["subject"] == "page":
                    yield event["text"]
                    return
            raise SystemExit("the demo ended before its page was served")
        finally:
            demo.send_signal(signal.SIGINT)


def prepare(page: Page) -> None:
    """Waits for people, emergencies, notifications and a minute of balance."""
    page.wait_for_selector("#city:not([hidden])", timeout=300_000)
    page.wait_for_selector("#emergencies button", timeout=300_000)
    page.wait_for_function("() => document.getElementById('figure-latency').textContent !== '–'", timeout=300_000)
    page.wait_for_function("() => tocsin.tape.topologies.length > 90", timeout=300_000)
    found = f"async () => {{ const person = await ({NOTIFIED})(); return person >= 0 && {{ person }}; }}"
    person = page.wait_for_function(found, timeout=300_000, polling=2_000).json_value()["person"]
    page.get_by_label("Follow a person").fill(str(person))
    page.get_by_role("button", name="Follow").click()
    page.wait_for_selector("#phone .card ul", timeout=300_000)
    page.locator("#city-title").click()
    frames = page.evaluate("() => tocsin.view.frames")
    page.wait_for_function("frames => tocsin.view.frames > frames + 30", arg=frames)
    # Scrolls to the shelters, which the join adds.
    page.evaluate("() => document.querySelector('#phone .card:has(ul)').scrollIntoView({ block: 'start' })")


def packed(page: Page, picture: bytes) -> bytes:
    """The picture as a PNG with a palette, which halves its size without a visible difference."""
    found = page.evaluate(COLOURS, f"data:image/png;base64,{base64.b64encode(picture).decode()}")
    width, pixels = found["width"], base64.b64decode(found["pixels"])
    rows = b"".join(b"\0" + pixels[at : at + width] for at in range(0, len(pixels), width))
    head = struct.pack(">IIBBBBB", width, found["height"], 8, 3, 0, 0, 0)
    parts = {b"IHDR": head, b"PLTE": bytes(found["palette"]), b"IDAT": zlib.compress(rows, 9), b"IEND": b""}
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts.items()
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def main(url: str) -> None:
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 900}, color_scheme="light")
        page.goto(url)
        prepare(page)
        PICTURE.parent.mkdir(parents=True, exist_ok=True)
        shot = page.screenshot()
        # Not in the demo's page, which loads nothing from elsewhere.
        PICTURE.write_bytes(packed(browser.new_page(), shot))
    size = PICTURE.stat().st_size
    print(f"{PICTURE}: {size:,} bytes")
    if size > BYTES:
        raise SystemExit(f"that is more than {BYTES:,} bytes")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with city() as found:
            main(found)
