"""Prints notifications of bad air in a city, until Ctrl-C: python subscribe.py Helsinki --above 35"""

import argparse
import os

from tocsin.client import TocsinError
from tocsin.client.sync import connect

BROKER = os.environ.get("TOCSIN_BROKER", "http://127.0.0.1:8481")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("city", nargs="?", default="Helsinki", help="Helsinki or Turku")
    parser.add_argument("--above", type=float, default=35.0, help="of PM2.5, in µg/m³ (35)")
    parser.add_argument("--count", type=int, help="end after this many notifications")
    parser.add_argument("--broker", default=BROKER, help=f"address of a broker ({BROKER})")
    options = parser.parse_args()
    with (
        connect(options.broker) as client,
        client.subscribe("BadAir", city=options.city, above=options.above) as found,
    ):
        print(f"subscribed to air above {options.above:g} µg/m³ in {options.city}", flush=True)
        for number, notification in enumerate(found, 1):
            for each in notification:
                print(f"{each['street']}: {each['pm25']} µg/m³, {each['advice']}", flush=True)
            if number == options.count:
                break


if __name__ == "__main__":
    try:
        main()
    except TocsinError as error:
        raise SystemExit(f"error: {error}") from None
    except KeyboardInterrupt:
        pass
