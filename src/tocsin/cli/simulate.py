"""``tocsin simulate``: what would happen, under a simulated clock."""

from __future__ import annotations

import typer

simulate = typer.Typer(no_args_is_help=True, help="Run the network's own state machines under a simulated clock.")


@simulate.callback()
def root() -> None:
    """Run the network's own state machines under a simulated clock.

    \b
    Example:
      tocsin simulate --help
    """
