"""All parts on one machine: the processes of ``tocsin up`` and ``tocsin demo``, watched over and ended together.

    with Town(Options(brokers=3)) as town:
        print(town.addresses)
        town.add_broker()

With a city in it, its people are subscribers with clients of their own:

    with Town(Options(brokers=5, placement="nearest", city=CityOptions(seed=1, speed=10))) as town:
        facts = town.run(180)
        print(facts["notifications"], facts["latency_ms"], facts["migrations"], facts["cov"])

Everything is a process of its own, as on several machines. Leaving the block ends all of them; so does the end of this
process, even if it is killed.
"""

from __future__ import annotations

from tocsin.local.deployment import LocalDeployment
from tocsin.local.options import CityOptions, Options

__all__ = ["CityOptions", "LocalDeployment", "Options"]
