"""Options of the commands that talk to the coordinator."""

from __future__ import annotations

from typing import Annotated

import typer

Where = Annotated[str, typer.Option("--coordinator", envvar="TOCSIN_COORDINATOR", help="Address of the coordinator.")]
COORDINATOR = "http://127.0.0.1:8482"
CoordinatorToken = Annotated[
    str,
    typer.Option("--admin-token", envvar="TOCSIN_COORDINATOR_ADMIN_TOKEN", help="The coordinator's admin token."),
]
