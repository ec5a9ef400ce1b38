"""``tocsin``: all commands; errors become two lines and an exit code."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer

from tocsin import __version__
from tocsin.cli.output import report
from tocsin.errors import TocsinError, UserError

#: The module of each command and group of commands, in the order of the help.
COMMANDS = {name: name for name in ("demo", "up", "cluster", "broker", "coordinator", "sql", "pub", "sub", "query")}
COMMANDS |= {"channels": "channels", "top": "balance", "drain": "balance", "undrain": "balance", "forget": "balance"}
COMMANDS |= {name: name for name in ("user", "config", "init", "reproduce", "bench", "balance", "simulate")}

#: click's UsageError, wherever this version of typer keeps it.
UsageError: Any = typer.BadParameter.__base__


def version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"tocsin {__version__}\n")
        raise typer.Exit


def root(
    show: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Big Active Data publish/subscribe on Spark.

    \b
    Example:
      tocsin init air && cd air && tocsin up --sql app.sql
    """


def application(*names: str) -> typer.Typer:
    """The commands ``names``, or all. Importing the modules of one takes half of the time."""
    app = typer.Typer(
        name="tocsin",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    for name in names or COMMANDS:
        command = getattr(import_module(f"tocsin.cli.{COMMANDS[name]}"), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command()(command)
    return app


def run(args: Sequence[str] | None = None) -> NoReturn:
    """Exit codes: 0 success, 1 error, 2 wrong command line, 130 interrupted."""
    words = sys.argv[1:] if args is None else list(args)
    json = "--json" in words
    app = application(*words[:1]) if words and words[0] in COMMANDS else application()
    try:
        code = app(args=words, prog_name="tocsin", standalone_mode=False)
    except TocsinError as error:
        report(error, json=json)
        code = 1
    except UsageError as error:
        context = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help, of tocsin or of a group of commands
            sys.stderr.write(error.format_message() + "\n")
            quiet_exit(2)
        name = context.command_path if context is not None else "tocsin"
        report(UserError(error.format_message(), hint=f"see `{name} --help`"), json=json)
        code = 2
    except typer.Abort:
        code = 130
    except BrokenPipeError:
        code = 1
    quiet_exit(int(code or 0))


def quiet_exit(code: int) -> NoReturn:
    """Flushes; if the reader of the pipe has gone, discards the rest silently."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = code or 1
    sys.exit(code)
