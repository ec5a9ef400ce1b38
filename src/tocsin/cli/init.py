"""``tocsin init``: creates a small application to start from."""

from __future__ import annotations

import shlex
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.output import Json, print_json, print_line
from tocsin.errors import UserError

#: Files of ``project``; there, hidden files have no dot, because packages leave hidden files out.
NAMES = ("README.md", "app.sql", "publish.py", "subscribe.py", "tocsin.toml", ".gitignore")


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder to write to; created if it does not exist.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Write to a folder that is not empty, and overwrite files of the same name.")
    ] = False,
    json: Json = False,
) -> None:
    """Create a small application to start from: SQL, a publisher, a subscriber and a README.

    The folder must be empty, except for hidden files such as .git.

    \b
    Example:
      tocsin init air && cd air && cat README.md
    """
    refuse(folder, force)
    source = resources.files("tocsin.cli") / "project"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in NAMES:
            (folder / name).write_bytes((source / name.removeprefix(".")).read_bytes())
    except OSError as error:
        raise UserError(f"cannot write {error.filename or folder}: {error.strerror}") from error
    if json:
        print_json({"folder": str(folder.resolve()), "files": NAMES})
        return
    print_line(f"{folder}: {', '.join(NAMES)}")
    into = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
    print_line(f"next: {into}cat README.md")


def refuse(folder: Path, force: bool) -> None:
    try:
        if not folder.is_dir():
            if folder.exists() or folder.is_symlink():
                raise UserError(f"{folder} is not a folder", hint="give a folder, new or empty")
            return
        found = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise UserError(f"cannot look into {folder}: {error.strerror}") from error
    if force:
        return
    in_the_way = [name for name in found if name in NAMES or not name.startswith(".")]
    if in_the_way:
        more = f" and {len(in_the_way) - 3} more" if len(in_the_way) > 3 else ""
        raise UserError(
            f"{folder} is not empty: it has {', '.join(in_the_way[:3])}{more}",
            hint="give another folder, or --force to write into this one",
        )
