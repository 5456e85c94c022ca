"""The command group ``flask ibi``, and what the commands share: input, output, confirmation."""

from __future__ import annotations

import errno
import inspect
import json
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

import click
from flask import current_app
from flask.cli import AppGroup

from flask_ibi_archive.errors import IBIError

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive_service import ArchiveService

#: The sections of the help page: their commands, and the module of each command.
SECTIONS = {
    "Set up": {
        "init": "setup",
        "check": "check",
        "upgrade": "setup",
        "downgrade": "setup",
    },
    "Identifiers": {
        "mint": "identifiers",
        "decode": "identifiers",
        "reserve": "reservations",
        "release": "reservations",
    },
    "Items": {
        "add": "deposit",
        "edit": "editing",
        "show": "items",
        "list": "items",
        "copy": "life",
        "transfer": "life",
        "delete": "life",
        "url-list": "items",
    },
    "Many items": {
        "import": "records",
        "export": "records",
        "backup": "backup",
        "restore": "backup",
    },
    "Registration with a resolver": {
        "generate-key": "registration",
        "registration-email": "registration",
        "register-archive": "registration",
        "unregister-archive": "registration",
    },
    "Maintenance": {
        "verify": "backup",
        "check-links": "links",
        "stats": "statistics",
        "purge": "statistics",
    },
}


class IBIGroup(AppGroup):
    """A group whose commands are imported when they are used, and are listed in sections.

    :param sections: the titles of the sections, each with its commands and their modules.
    :param package: the package of these modules.
    """

    def __init__(
        self, *args: Any, sections: Mapping[str, Mapping[str, str]], package: str, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.sections = sections
        self.modules = {
            name: module for commands in sections.values() for name, module in commands.items()
        }
        self.package = package

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with a name, None if there is none."""
        if cmd_name not in self.modules:
            return None
        module = import_module(f"{self.package}.{self.modules[cmd_name]}")
        return cast(click.Command, getattr(module, cmd_name.replace("-", "_") + "_command"))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name; suggest similar names for an unknown one."""
        name = args[0]
        if name not in self.modules and not name.startswith("-") and not ctx.resilient_parsing:
            similar = get_close_matches(name, self.modules)
            hint = f" Did you mean {' or '.join(similar)}?" if similar else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section with its commands and the first line of their help."""
        for title, names in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, self._summary(ctx, name)) for name in names])

    def _summary(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        assert command is not None
        return inspect.cleandoc(command.help or "").partition("\n")[0]

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; our errors become one line on standard error and exit status 1."""
        if sys.stderr is None:
            # it is closed: click would write errors to standard output
            sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
        try:
            return super().invoke(ctx)
        except click.ClickException:
            raise
        except IBIError as error:
            raise click.ClickException(str(error)) from error


version_option = click.version_option(
    package_name="flask_ibi_archive", message="%(package)s %(version)s"
)


@click.group("ibi", cls=IBIGroup, sections=SECTIONS, package="flask_ibi_archive.cli")
@version_option
def ibi() -> None:
    """Give items persistent identifiers (IBI) and resolve them.

    \b
    Example:
      flask --app example_app ibi init
      flask --app example_app ibi add report.pdf --title "Annual report"
    """


def the_archive() -> ArchiveService:
    """Return the Archive of the current app.

    :raises ClickException: if the app has none.
    """
    from flask_ibi_archive.web.requests import EXTENSION

    state = current_app.extensions.get(EXTENSION)
    if state is None:
        raise click.ClickException(
            "this app has no IBIArchive; call IBIArchive(app) where the app is created"
        )
    # a command commits by itself, whatever session the host brought
    return cast("ArchiveService", state.archive).without_session()


def standard_input() -> BinaryIO:
    """Return standard input.

    :raises ClickException: if it is closed.
    """
    if sys.stdin is None:
        raise click.ClickException("standard input can't be read: it is closed")
    return sys.stdin.buffer


def standard_output() -> TextIO:
    """Return standard output; commands that change something call this first.

    :raises ClickException: if it is closed.
    """
    if sys.stdout is None:
        raise click.ClickException("standard output can't be written: it is closed")
    return sys.stdout


def write(data: str | bytes, *, nl: bool = True) -> None:
    """Write data to standard output.

    :raises ClickException: if it cannot be written.
    """
    stream = standard_output()
    try:
        click.echo(data, file=stream, nl=nl)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # the reader has closed the pipe: click ends the command silently
        _discard(stream)
        raise click.ClickException(
            f"standard output can't be written: {error.strerror or error}"
        ) from error


def _discard(stream: TextIO) -> None:
    """Discard the buffer of a broken stream: Python would fail to write it again at the end."""
    with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def write_json(value: Any) -> None:
    """Write a value to standard output as JSON."""
    write(json.dumps(value, ensure_ascii=False, indent=2))


def write_json_list(values: Iterable[Any]) -> None:
    """Write values to standard output as one JSON list, each as soon as it is available."""
    separator = "["
    for value in values:
        write(f"{separator}\n{json.dumps(value, ensure_ascii=False)}", nl=False)
        separator = ","
    write("\n]" if separator == "," else "[]")


def say(text: str) -> None:
    """Write a line to standard error; if that fails, the command continues."""
    try:
        click.echo(text, file=sys.stderr)
    except OSError:
        _discard(sys.stderr)


def warn(text: str) -> None:
    """Write a warning to standard error."""
    say(f"Warning: {text}")


def confirm(question: str, yes: bool) -> None:
    """Ask for confirmation before data is lost; without a terminal, --yes is required.

    :raises Abort: if the answer is no.
    :raises ClickException: if there is no terminal and --yes is missing.
    """
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.ClickException(
            f"{question} There is no terminal to answer on, so nothing was done; "
            "add --yes to confirm."
        )
    click.confirm(question, abort=True, err=True)


def warn_of_private_address(archive: ArchiveService) -> None:
    """Warn if IBI_ARCHIVE_IP is a private address, so that an IBIp may not be unique."""
    from flask_ibi_archive.identifiers import is_private_address

    ip = archive.config.archive_ip
    if ip is not None and is_private_address(ip):
        warn(
            f"IBI_ARCHIVE_IP is {ip}, a private address, which other networks use too: an IBIp "
            "with it is not unique, and a resolver may redirect readers to the item of another "
            "Archive; set it to the public address of this server"
        )


def in_a_command() -> bool:
    """Return whether this process runs a command of Flask's that does not serve the app.

    Such commands are ``flask ibi`` and ``flask shell``; ``flask run`` serves the app.
    """
    context = click.get_current_context(silent=True)
    if context is None:
        return False
    root = context.find_root()
    if not isinstance(root.command, AppGroup):
        return False
    while context.parent is not None and context.parent is not root:
        context = context.parent
    return context is root or context.info_name != "run"


yes_option = click.option(
    "--yes", is_flag=True, help="Do not ask for confirmation; required without a terminal."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Write JSON.")
