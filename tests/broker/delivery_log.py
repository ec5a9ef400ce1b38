"""A subscriber in its own process: it logs every notification, and resumes from its log after a kill.

delivery_log.py FILE CHANNEL KINDS URL…      one line ``kind execution n n …`` a notification; prints ``ready``, then
    ``kind execution`` of the last logged notification of each kind and of every new one
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from tocsin.client import connect


def read(file: Path) -> dict[str, list[tuple[int, list[int]]]]:
    """The logged notifications by kind; an incomplete last line does not count."""
    found: dict[str, list[tuple[int, list[int]]]] = {}
    if file.exists():
        whole = file.read_bytes()
        whole = whole[: whole.rfind(b"\n") + 1]
        os.truncate(file, len(whole))
        for line in whole.decode().splitlines():
            kind, execution, *rows = line.split()
            found.setdefault(kind, []).append((int(execution), [int(n) for n in rows]))
    return found


async def main(name: str, channel: str, kinds: str, *urls: str) -> None:
    file = Path(name)
    before = read(file)
    output = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async with connect(urls, wait_for_broker=True) as client:

        async def follow(kind: str) -> None:
            after = before[kind][-1][0] if kind in before else None
            async with client.subscribe(channel, kind=kind, after=after) as subscription:
                await subscription.confirmed()
                if kind not in before:
                    os.write(output, f"{kind} {subscription.position.execution}\n".encode())
                confirmed.release()
                async for notification in subscription:
                    rows = " ".join(str(row["n"]) for row in notification)
                    os.write(output, f"{kind} {notification.execution} {rows}\n".encode())
                    print(kind, notification.execution, flush=True)

        confirmed = asyncio.Semaphore(0)
        tasks = [asyncio.create_task(follow(kind)) for kind in kinds.split(",")]
        for _ in tasks:
            await confirmed.acquire()
        print("ready", flush=True)
        for kind, entries in before.items():
            print(kind, entries[-1][0], flush=True)
        await asyncio.gather(*tasks)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
