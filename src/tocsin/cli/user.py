"""``tocsin user``: the users of a network. Passwords are typed or piped, and never on the command line."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from tocsin.cli.coordinator_options import COORDINATOR, CoordinatorToken, Where
from tocsin.cli.http import Client, bearer, path
from tocsin.cli.output import Json, print_json, print_line, print_table
from tocsin.errors import UserError

User = Annotated[str, typer.Argument(help="Name of the user.")]
#: Users that are asked for at once.
PAGE = 1_000

user = typer.Typer(
    no_args_is_help=True,
    help="Register, list and delete users, and log them in. The coordinator keeps them; give a broker that has none as "
    "--coordinator. Passwords are asked for, or read from standard input, one in a line.",
)


def read_password(label: str, *, twice: bool = False) -> str:
    """Hidden on a terminal; otherwise the next line of standard input."""
    if sys.stdin.isatty():
        return str(typer.prompt(label, hide_input=True, confirmation_prompt=twice, err=True))
    found = sys.stdin.readline()
    if not found:
        raise UserError(f"no {label.lower()} on standard input", hint="pipe it in, or run the command in a terminal")
    return found.rstrip("\r\n")


def show(found: Any, text: str, json: bool) -> None:
    print_json(found) if json else print_line(text)


@user.command()
def add(
    name: User,
    role: Annotated[list[str] | None, typer.Option("--role", help="A role of the user; as an operator.")] = None,
    coordinator: Where = COORDINATOR,
    admin_token: CoordinatorToken = "",
    json: Json = False,
) -> None:
    """Register a user.

    \b
    Example:
      tocsin user add ann --role dispatchers
    """
    with Client(coordinator) as client:
        body = {"user": name, "password": read_password("Password", twice=True)}
        found = client.call("POST", "/registeruser", json=body)
        if role:
            client.call("PUT", path("users", name, "roles"), json={"roles": role}, headers=bearer(admin_token))
    show(found, f"{name} is registered" + (f", with the roles {', '.join(role)}" if role else ""), json)


@user.command("list")
def list_users(coordinator: Where = COORDINATOR, admin_token: CoordinatorToken = "", json: Json = False) -> None:
    """List the users, as an operator.

    \b
    Example:
      tocsin user list
    """
    found: list[dict[str, Any]] = []
    with Client(coordinator) as client:
        while True:
            after = {"after": found[-1]["user"]} if found else {}
            page = client.call("GET", "/users", params=after | {"limit": PAGE}, headers=bearer(admin_token))["users"]
            found += page
            if len(page) < PAGE:
                break
    if json:
        print_json(found)
        return
    if not found:
        print_line("There are no users.")
        return
    rows = [[each["user"], ", ".join(each["roles"]), each["devices"], each["subscriptions"]] for each in found]
    print_table(["user", "roles", "devices", "subscriptions"], rows, [False, False, True, True])


@user.command()
def roles(
    name: User,
    role: Annotated[list[str] | None, typer.Argument(help="All roles of the user; none takes them away.")] = None,
    coordinator: Where = COORDINATOR,
    admin_token: CoordinatorToken = "",
    json: Json = False,
) -> None:
    """Set the roles of a user, as an operator. Tokens with the roles before end.

    \b
    Example:
      tocsin user roles ann dispatchers
    """
    with Client(coordinator) as client:
        body = {"roles": role or []}
        found = client.call("PUT", path("users", name, "roles"), json=body, headers=bearer(admin_token))
    show(found, f"{name} has " + (f"the roles {', '.join(role)}" if role else "no roles of its own"), json)


@user.command()
def password(
    name: User,
    reset: Annotated[bool, typer.Option("--reset", help="As an operator, without the present password.")] = False,
    coordinator: Where = COORDINATOR,
    admin_token: CoordinatorToken = "",
    json: Json = False,
) -> None:
    """Change a user's password. All its tokens end; its subscriptions stay.

    \b
    Example:
      tocsin user password ann
    """
    with Client(coordinator) as client:
        if reset:
            body = {"password": read_password("New password", twice=True)}
            found = client.call("PUT", path("users", name, "password"), json=body, headers=bearer(admin_token))
        else:
            body = {"user": name, "password": read_password("Present password")}
            body["new_password"] = read_password("New password", twice=True)
            found = client.call("POST", "/changepassword", json=body)
    show(found, f"{name} has another password, and logs in again", json)


@user.command()
def revoke(
    name: User, coordinator: Where = COORDINATOR, admin_token: CoordinatorToken = "", json: Json = False
) -> None:
    """End all tokens of a user, as an operator. Its subscriptions stay until it logs in again.

    \b
    Example:
      tocsin user revoke ann
    """
    with Client(coordinator) as client:
        found = client.call("POST", path("users", name, "revoke"), headers=bearer(admin_token))
    show(found, f"all tokens of {name} have ended", json)


@user.command()
def delete(
    name: User,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    coordinator: Where = COORDINATOR,
    admin_token: CoordinatorToken = "",
    json: Json = False,
) -> None:
    """Delete a user with all subscriptions, as an operator.

    \b
    Example:
      tocsin user delete ann --yes
    """
    if not yes:
        if not sys.stdin.isatty():
            raise UserError("deleting a user has to be confirmed", hint="give --yes")
        typer.confirm(f"Delete {name} and all that is kept for it?", abort=True, err=True)
    with Client(coordinator) as client:
        found = client.call("DELETE", path("users", name), headers=bearer(admin_token))
    show(found, f"{name} is deleted", json)


@user.command()
def login(
    name: User,
    device: Annotated[str, typer.Option(help="Name of the device; each has its own subscriptions.")] = "default",
    coordinator: Where = COORDINATOR,
    json: Json = False,
) -> None:
    """Log in and print a token, for --token, TOCSIN_TOKEN and `connect(token=…)`. --json prints the refresh token too.

    \b
    Example:
      export TOCSIN_TOKEN=$(tocsin user login ann)
    """
    with Client(coordinator) as client:
        body = {"user": name, "password": read_password("Password"), "device": device}
        found = client.call("POST", "/login", json=body)
    show(found, found["token"], json)
