"""The command group ``flask ibi``, and the functions and options that its commands share."""

from __future__ import annotations

import errno
import inspect
import json
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

import click
from flask import current_app
from flask.cli import AppGroup

from flask_ibi_archive.errors import IBIError

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The sections of the help page. Each section maps its commands to their modules.
SECTIONS = {
    "Set up": {
        "init": "setup",
        "check": "setup",
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
        "adopt": "adoption",
        "backup": "backup",
        "restore": "backup",
    },
    "Registration with a resolver": {
        "generate-key": "registration",
        "registration-email": "registration",
        "register-archive": "registration",
        "unregister-archive": "registration",
    },
    "Registry of documents of a resolver": {
        "registry": "registry",
    },
    "Maintenance": {
        "verify": "backup",
        "check-links": "links",
        "stats": "statistics",
        "purge": "statistics",
        "renew-harvests": "harvests",
    },
}


class IBIGroup(AppGroup):
    """A command group whose help page has sections. Commands are imported when they are used.

    :param sections: for each title of a section, the names of the commands and of their modules.
    :param package: the package that contains the modules.
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
        """Return the names of all commands."""
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with a name; None if there is no such command."""
        if cmd_name not in self.modules:
            return None
        module = import_module(f"{self.package}.{self.modules[cmd_name]}")
        return cast(click.Command, getattr(module, cmd_name.replace("-", "_") + "_command"))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name. The error suggests similar names."""
        name = args[0]
        if name not in self.modules and not name.startswith("-") and not ctx.resilient_parsing:
            similar = get_close_matches(name, self.modules)
            hint = f" Did you mean {' or '.join(similar)}?" if similar else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections of the help page. Each line is a command and its summary."""
        for title, names in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, self._summary(ctx, name)) for name in names])

    def _summary(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        assert command is not None
        return inspect.cleandoc(command.help or "").partition("\n")[0]

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. An error of this package is shown as one line; the exit status is 1."""
        if sys.stderr is None:
            # standard error is closed; without this, click would write errors to standard output
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


def get_archive() -> Archive:
    """Return the Archive of the current app.

    :raises ClickException: if the app has no Archive.
    """
    from flask_ibi_archive.web.requests import EXTENSION

    state = current_app.extensions.get(EXTENSION)
    if state is None:
        raise click.ClickException(
            "this app has no IBIArchive; call IBIArchive(app) where the app is created"
        )
    # a command does not use the app's session, but commits its own transactions
    return cast("Archive", state.archive).without_session()


def read_ibi(text: str) -> str:
    """Return the IBI of a persistent URL; return any other text unchanged.

    click calls this function for each command parameter that is an IBI. The function does not check
    a text that is not a URL. The command checks such a text later.

    :raises MalformedPersistentUrl: if the text is a URL without an IBI.
    :raises BadParameter: if the URL also contains a modifier, a path or a query.
    """
    from flask_ibi_archive.resolution.persistent_url import (
        PersistentUrl,
        is_persistent_url,
        parse_persistent_url,
    )

    if not is_persistent_url(text):
        return text
    url = parse_persistent_url(text)
    if url != PersistentUrl(url.ibi):
        raise click.BadParameter(
            f"{text!a} has a modifier, a path or a query after the IBI; this command accepts only "
            f"{url.ibi}"
        )
    return url.ibi.text


def standard_input() -> BinaryIO:
    """Return standard input.

    :raises ClickException: if standard input is closed.
    """
    if sys.stdin is None:
        raise click.ClickException("standard input can't be read: it is closed")
    return sys.stdin.buffer


def standard_output() -> TextIO:
    """Return standard output.

    A command that changes data calls this function before the change. If nobody can read the
    output, the command then changes nothing.

    :raises ClickException: if standard output is closed.
    """
    if sys.stdout is None:
        raise click.ClickException("standard output can't be written: it is closed")
    return sys.stdout


def write(data: str | bytes, *, nl: bool = True) -> None:
    """Write data to standard output.

    :raises ClickException: if standard output cannot be written.
    """
    stream = standard_output()
    try:
        click.echo(data, file=stream, nl=nl)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # the reader has closed the pipe; click then ends the command without a message
        _discard(stream)
        raise click.ClickException(
            f"standard output can't be written: {error.strerror or error}"
        ) from error


def _discard(stream: TextIO) -> None:
    """Discard the unwritten data of a broken stream. Otherwise Python fails at exit."""
    with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def write_json(value: Any) -> None:
    """Write a value to standard output as JSON."""
    write(json.dumps(value, ensure_ascii=False, indent=2))


def write_json_list(values: Iterable[Any]) -> None:
    """Write values to standard output as a JSON list. Each value is written immediately."""
    separator = "["
    for value in values:
        write(f"{separator}\n{json.dumps(value, ensure_ascii=False)}", nl=False)
        separator = ","
    write("\n]" if separator == "," else "[]")


def say(text: str) -> None:
    """Write a line to standard error. If the line cannot be written, it is lost."""
    try:
        click.echo(text, file=sys.stderr)
    except OSError:
        _discard(sys.stderr)


def warn(text: str) -> None:
    """Write a warning to standard error."""
    say(f"Warning: {text}")


class Bars:
    """Shows a progress bar for each stage of a command, if standard error is a terminal.

    :param labels: a label for each stage. The keyword is the name of the stage.
    :ivar shown: whether the bars are shown.
    """

    def __init__(self, **labels: str) -> None:
        self._labels = labels
        self._stage = ""
        self._bar: Any = None
        self._done = 0
        self._open = ExitStack()
        self.shown = sys.stderr.isatty()

    def __enter__(self) -> Bars:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def show(self, stage: str, done: int, total: int) -> None:
        """Show that ``done`` of the ``total`` steps of a stage are finished."""
        if not self.shown:
            return
        if stage != self._stage:
            self._open.close()
            self._stage, self._done = stage, 0
            bar = click.progressbar(length=total, label=self._labels[stage], file=sys.stderr)
            self._bar = self._open.enter_context(bar)
        self._bar.length = total
        self._bar.update(done - self._done)
        self._done = done

    def clear(self) -> None:
        """Clear the line of the bar. Call this before a message is written."""
        if self._bar is not None:
            click.echo("\r\033[K", nl=False, file=sys.stderr)


def confirm(question: str, yes: bool) -> None:
    """Ask the user to confirm a command that deletes data.

    :param yes: whether the user gave the option --yes. The function then asks nothing.
    :raises Abort: if the user answers no.
    :raises ClickException: if there is no terminal and --yes is missing.
    """
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.ClickException(
            f"{question} Nothing was done, because there is no terminal for the answer; add --yes."
        )
    click.confirm(question, abort=True, err=True)


def note_host_items(archive: Archive, command: str) -> None:
    """Say that a command does not cover the items of a host that has its own catalogue.

    :param command: what the command does, such as "verified".
    """
    if archive.catalogue is not None:
        name = type(archive.catalogue).__name__
        say(f"the items and files are in the tables of the repository ({name}): not {command}")


def warn_of_private_address(archive: Archive) -> None:
    """Warn if IBI_ARCHIVE_IP is a private address, because IBIps may then not be unique."""
    from flask_ibi_archive.identifiers import is_private_address

    ip = archive.config.archive_ip
    if ip is not None and is_private_address(ip):
        warn(
            f"IBI_ARCHIVE_IP is {ip}, a private address that other networks can use too. An "
            "IBIp with this address may not be unique. A resolver may then redirect readers to an "
            "item of another Archive. Set IBI_ARCHIVE_IP to the public address of this server."
        )


def is_flask_command() -> bool:
    """Return whether this process runs a ``flask`` command that does not serve the app.

    ``flask ibi`` and ``flask shell`` are such commands. Only ``flask run`` serves the app.
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
    "--yes", is_flag=True, help="Do not ask for confirmation. Required without a terminal."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Write JSON.")
resume_option = click.option(
    "--resume",
    is_flag=True,
    help="Commit in batches. Continue after the last batch of an interrupted run.",
)
