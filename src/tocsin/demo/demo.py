"""The demo as a context manager: a local deployment, the demo loop on top of it, and the city API in its web server."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tocsin.coordinator.admin import Admin
from tocsin.demo.city_api import CityApp
from tocsin.demo.loop import DemoLoop
from tocsin.demo.options import CityOptions
from tocsin.local import LocalApp, LocalDeployment, Notify, Options, Status, Supervisor


class Demo:
    """The city is built while the first processes start, and its people come while Spark is still starting."""

    def __init__(self, options: Options, city: CityOptions, notify: Notify = lambda status: None) -> None:
        self.loop = DemoLoop(city, notify)
        self.deployment = LocalDeployment(
            options,
            notify,
            app=self._make_app,
            location=self._location,
            wait_for_spark=False,
        )
        self._notify = notify

    def __enter__(self) -> Demo:
        self.deployment.__enter__()
        with self.deployment.closing_on_error():
            self.deployment.call(self.loop.start(self.deployment.supervisor))
        return self

    def __exit__(self, *_: object) -> None:
        self.deployment.close()

    def _make_app(self, supervisor: Supervisor, admin: Admin) -> LocalApp:
        self._built = self.loop.spawn(self._build())
        return CityApp(self.loop, supervisor, admin)

    async def _build(self) -> None:
        began = time.monotonic()
        await asyncio.to_thread(self.loop.build)
        streets = self.loop.city.streets
        text = f"{len(streets.points):,} crossings, {len(streets.edges):,} streets, {len(streets.districts)} districts"
        self._notify(Status("up", "city", text, time.monotonic() - began))

    async def _location(self, broker: int) -> tuple[float, float]:
        await self._built
        return self.loop.station(broker)

    def run(self, seconds: float) -> dict[str, Any]:
        """Waits for this long, then returns the summary."""
        time.sleep(max(0.0, seconds))
        return self.summary()

    def summary(self) -> dict[str, Any]:
        """What has happened since the city's clock started; see ``tocsin demo --json`` in the reference."""
        return self.deployment.call(self.loop.summary())

    def flood(self, district: str) -> dict[str, Any]:
        """Starts a flood in the middle of a district."""

        async def start() -> dict[str, Any]:
            return self.loop.flood(district)

        return self.deployment.call(start())
