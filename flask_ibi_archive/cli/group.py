"""The group ``ibi`` and what its commands share."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

import click
from flask import current_app
from flask.cli import AppGroup

from flask_ibi_archive.errors import IBIError

if TYPE_CHECKING:
    from flask_ibi_archive.service.archive import ArchiveService

#: The modules that hold the commands, in the order of the help page.
COMMANDS = {
    "init": "setup",
    "upgrade": "setup",
    "downgrade": "setup",
    "check": "check",
    "mint": "identifiers",
    "decode": "identifiers",
    "reserve": "reservations",
    "release": "reservations",
    "add": "deposit",
    "edit": "editing",
    "copy": "life",
    "transfer": "life",
    "delete": "life",
    "import": "records",
    "export": "records",
    "backup": "backup",
    "restore": "backup",
    "verify": "files",
    "show": "items",
    "list": "items",
    "url-list": "items",
    "generate-key": "registration",
    "registration-email": "registration",
    "register-archive": "registration",
    "unregister-archive": "registration",
    "stats": "statistics",
    "purge": "statistics",
    "check-links": "links",
}


class IBIGroup(AppGroup):
    """Loads a command when it is asked for, and tells our errors in one line.

    :param modules: the modules that hold the commands, by the commands' names, in the order of the help page.
    :param package: where those modules are.
    """

    def __init__(
        self, *args: Any, modules: Mapping[str, str], package: str, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.modules = modules
        self.package = package

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names of the commands."""
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Give a command by its name."""
        if cmd_name not in self.modules:
            return None
        module = import_module(f"{self.package}.{self.modules[cmd_name]}")
        return cast(click.Command, getattr(module, cmd_name.replace("-", "_") + "_command"))

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an error of ours is one line on standard error and status 1."""
        if sys.stderr is None:
            # closed: what is meant for it would go to standard output
            sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
        try:
            return super().invoke(ctx)
        except click.ClickException:
            raise
        except IBIError as error:
            raise click.ClickException(str(error)) from error


@click.group("ibi", cls=IBIGroup, modules=COMMANDS, package="flask_ibi_archive.cli")
def ibi() -> None:
    """Give items persistent identifiers (IBI) and keep the Archive that answers for them.

    \b
    Example:
      flask --app example_app ibi init
      flask --app example_app ibi add report.pdf --title "Annual report"
    """


def the_archive() -> ArchiveService:
    """Give the Archive of the current app.

    :raises ClickException: if the app has none.
    """
    from flask_ibi_archive.web.context import EXTENSION

    state = current_app.extensions.get(EXTENSION)
    if state is None:
        raise click.ClickException(
            "this app has no IBIArchive; call IBIArchive(app) where the app is made"
        )
    # a command commits by itself, whatever session the host brought
    return cast("ArchiveService", state.archive).apart()


def standard_input() -> BinaryIO:
    """Give standard input.

    :raises ClickException: if it is closed.
    """
    if sys.stdin is None:
        raise click.ClickException("standard input can't be read: it is closed")
    return sys.stdin.buffer


def standard_output() -> TextIO:
    """Give standard output; what changes something asks for it before it does so.

    :raises ClickException: if it is closed.
    """
    if sys.stdout is None:
        raise click.ClickException("standard output can't be written: it is closed")
    return sys.stdout


def write(data: str | bytes, *, nl: bool = True) -> None:
    """Write data to standard output.

    :raises ClickException: if it can't be written; a reader who has gone away is click's to deal with.
    """
    stream = standard_output()
    try:
        click.echo(data, file=stream, nl=nl)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        _give_up(stream)
        raise click.ClickException(
            f"standard output can't be written: {error.strerror or error}"
        ) from error


def _give_up(stream: TextIO) -> None:
    """Let what a broken stream still holds go nowhere: Python would try again, and fail, at the end."""
    with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def write_json(value: Any) -> None:
    """Write a value to standard output as JSON."""
    write(json.dumps(value, ensure_ascii=False, indent=2))


def write_json_list(values: Iterable[Any]) -> None:
    """Write values to standard output as one JSON list, each as it comes."""
    separator = "["
    for value in values:
        write(f"{separator}\n{json.dumps(value, ensure_ascii=False)}", nl=False)
        separator = ","
    write("\n]" if separator == "," else "[]")


def say(text: str) -> None:
    """Write a line to standard error; where that is broken, the command goes on without."""
    try:
        click.echo(text, file=sys.stderr)
    except OSError:
        _give_up(sys.stderr)


def warn(text: str) -> None:
    """Write a warning to standard error."""
    say(f"Warning: {text}")


def warn_of_private_address(archive: ArchiveService) -> None:
    """Warn when identifiers are made from an address that means nothing on the Internet."""
    from flask_ibi_archive.identifiers import is_private_address

    ip = archive.config.archive_ip
    if ip is not None and is_private_address(ip):
        warn(
            f"IBI_ARCHIVE_IP is {ip}, a private address: another Archive may have it too, and its "
            "identifiers then clash with yours"
        )


json_option = click.option("--json", "as_json", is_flag=True, help="Write JSON.")

__all__ = [
    "ibi",
    "json_option",
    "say",
    "standard_input",
    "standard_output",
    "the_archive",
    "warn",
    "warn_of_private_address",
    "write",
    "write_json",
    "write_json_list",
]
