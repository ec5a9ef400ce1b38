"""All parts on one machine: the processes of ``tocsin up`` and ``tocsin demo``, watched over and ended together.

    with Town(Options(brokers=3)) as town:
        print(town.addresses)
        town.add_broker()

Everything is a process of its own, as on several machines. Leaving the block ends all of them; so does the end of this
process, even if it is killed.
"""

from __future__ import annotations

from tocsin.town.options import Options
from tocsin.town.town import Town

__all__ = ["Options", "Town"]
