"""Publishes the measurements of four stations, once a second until Ctrl-C: python publish.py"""

import argparse
import math
import os
import time
from datetime import UTC, datetime

from tocsin.client import TocsinError
from tocsin.client.sync import connect

BROKER = os.environ.get("TOCSIN_BROKER", "http://127.0.0.1:8481")
STATIONS = ["h1", "t1", "h2", "t2"]


def measured(station: str, seconds: float) -> float:
    """Made up: the smoke drifts from one station to the next."""
    return round(40 + 30 * math.sin(seconds / 10 + STATIONS.index(station) * math.pi / 2), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, help="end after this many rounds")
    parser.add_argument("--broker", default=BROKER, help=f"address of a broker ({BROKER})")
    options = parser.parse_args()
    rounds = 0
    with connect(options.broker) as client:
        while options.count is None or rounds < options.count:
            now = datetime.now(UTC)
            at = now.isoformat()
            records = [{"station": name, "pm25": measured(name, now.timestamp()), "at": at} for name in STATIONS]
            receipt = client.publish("MeasurementFeed", records)
            print(f"{receipt.accepted} measurements published", flush=True)
            rounds += 1
            if rounds != options.count:
                time.sleep(1)


if __name__ == "__main__":
    try:
        main()
    except TocsinError as error:
        raise SystemExit(f"error: {error}") from None
    except KeyboardInterrupt:
        pass
