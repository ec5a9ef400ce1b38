"""``tocsin up --overlay``: all brokers connect to the first one, and the coordinator knows their roles and links."""

from __future__ import annotations

import httpx
import pytest
from deployment_process import options

from eventually import eventually
from tocsin.local import LocalDeployment


@pytest.mark.slow
def test_the_first_broker_is_the_head_of_the_others(tmp_path):
    with LocalDeployment(options(tmp_path, brokers=3, overlay=True), lambda status: None) as deployment:

        def roles() -> dict[str, tuple[str, list[str]]]:
            found = httpx.get(deployment.coordinator + "/topology", timeout=60).json()["brokers"]
            return {each["name"]: (each["role"], sorted(each["links"])) for each in found}

        expected = {
            "broker-1": ("head", ["broker-2", "broker-3"]),
            "broker-2": ("edge", ["broker-1"]),
            "broker-3": ("edge", ["broker-1"]),
        }
        eventually(roles, lambda found: found == expected)
