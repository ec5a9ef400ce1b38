"""All parts of Tocsin on one machine: the processes of ``tocsin up``, supervised and stopped together.

    with LocalDeployment(Options(brokers=3)) as deployment:
        print(deployment.addresses)
        deployment.add_broker()

Every part is a separate process, as on several machines. Leaving the block stops all of them; so does the end of
this process, even if it is killed.
"""

from __future__ import annotations

from tocsin.local.deployment import LocalDeployment
from tocsin.local.options import Options
from tocsin.local.server import LocalApp
from tocsin.local.supervisor import Notify, Status, Supervisor

__all__ = ["LocalApp", "LocalDeployment", "Notify", "Options", "Status", "Supervisor"]
