"""The demo: a city, its people and its emergencies, on the public interfaces of a local deployment.

Each person is a subscriber with a separate client:

    city = CityOptions(seed=1, speed=10)
    with Demo(Options(brokers=5, placement="nearest"), city) as demo:
        facts = demo.run(180)
        print(facts["notifications"], facts["latency_ms"], facts["migrations"], facts["cov"])
"""

from __future__ import annotations

from tocsin.demo.demo import Demo
from tocsin.demo.options import CityOptions

__all__ = ["CityOptions", "Demo"]
