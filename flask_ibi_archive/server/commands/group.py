"""The class of the command groups, and functions for commands: options, checks, items."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import click
from flask import current_app, has_app_context
from flask.cli import AppGroup, ScriptInfo
from flask.helpers import get_debug_flag

from flask_ibi_archive.errors import IBIError
from flask_ibi_archive.server.commands.terminal import warn, write, write_json
from flask_ibi_archive.server.config import TRIAL_HOST

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive
    from flask_ibi_archive.core.records.record import ItemView

#: The timeout in seconds for a whole answer.
TIMEOUT = 5
#: The maximum number of bytes of an answer that are read.
MAX_ANSWER = 4096


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    :param name: the name of the check.
    :param ok: whether the check passed.
    :param text: the explanation for the user, in one line.
    :param is_warning: whether the check passed, but the administrator should read the text.
    """

    name: str
    ok: bool
    text: str
    is_warning: bool = False


class CheckFailed(Exception):
    """Raised if a check fails; the message states the reason."""


class CheckWarning(Exception):
    """Raised if a check passes, but the administrator should read the message."""


def run_check(name: str, check: Callable[[], str]) -> Finding:
    """Run a check and return the finding.

    If the check raises an error, the finding contains the message of the error.

    :param check: a function that returns the text of the finding, or raises an error.
    """
    try:
        return Finding(name, True, check())
    except CheckWarning as warning:
        return Finding(name, True, warning.args[0], is_warning=True)
    except (CheckFailed, IBIError) as error:
        return Finding(name, False, error.args[0])


class IBIGroup(AppGroup):
    """A command group whose help page has sections. Commands are imported when they are used.

    :param sections: a dictionary from the title of each section to its commands, each preceded by
        the name of a module, separated by spaces, such as ``setup.init setup.upgrade``.
    :param package: the package that contains the modules.
    """

    def __init__(
        self, *args: Any, sections: Mapping[str, str], package: str, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.sections: dict[str, list[list[str]]] = {
            title: [name.rsplit(".", 1) for name in names.split()]
            for title, names in sections.items()
        }
        self.modules: dict[str, str] = {
            command: module for names in self.sections.values() for module, command in names
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
        """Find the command that the arguments name. The error for a wrong name suggests others."""
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
                formatter.write_dl([(name, self._summary(ctx, name)) for _, name in names])

    def _summary(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        assert command is not None
        return inspect.cleandoc(command.help or "").partition("\n")[0]

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. An error of this package is shown as one line; the exit status is 1.

        If nobody can read the output, the command is not run: new identifiers would be lost.
        """
        if sys.stdout is None:
            raise click.ClickException("standard output can't be written: it is closed")
        try:
            return super().invoke(ctx)
        except click.ClickException:
            raise
        except IBIError as error:
            from flask_ibi_archive.server.web.texts import translate_reason

            raise click.ClickException(translate_reason(error)) from error


version_option = click.version_option(
    package_name="flask_ibi_archive", message="%(package)s %(version)s"
)


def find_extension(name: str) -> Any:
    """Return the entry of an extension in ``app.extensions``; None if the app has no such entry.

    The app is loaded here. Therefore a command that does not call this function needs no app.

    :param name: the key of the extension.
    """
    if not has_app_context():
        context = click.get_current_context()
        app = context.ensure_object(ScriptInfo).load_app()
        context.with_resource(app.app_context())
    return current_app.extensions.get(name)


class HostCommand(click.Command):
    """A command of the app itself. An error of this package is shown as one line.

    In the debug mode, the traceback is shown.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except IBIError as error:
            if isinstance(error, click.ClickException) or get_debug_flag():
                raise
            raise click.ClickException(str(error)) from error


def get_archive() -> Archive:
    """Return the Archive of the current app.

    If the command changes items, the resolver is told when the command ends.

    :raises ClickException: if the app has no Archive.
    """
    from flask_ibi_archive.server.config import EXTENSION

    state = find_extension(EXTENSION)
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
    from flask_ibi_archive.core.resolution.persistent_url import (
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


def warn_of_private_address(archive: Archive) -> None:
    """Warn if IBI_ARCHIVE_IP is a private address, because IBIps may then not be unique."""
    from flask_ibi_archive.core.identifiers.grammar import is_private_address

    ip = archive.config.archive_ip
    if archive.config.mint_host == TRIAL_HOST:
        warn(
            "this Archive is a trial on one computer: all trials have the same identifiers. Before "
            "you publish items, set IBI_ARCHIVE_ADDRESS and IBI_ARCHIVE_IP to the public address "
            "of the server, and begin with a new database."
        )
    elif ip is not None and is_private_address(ip):
        warn(
            f"IBI_ARCHIVE_IP is {ip}, a private address that other networks can use too. An "
            "IBIp with this address may not be unique. A resolver may then redirect readers to an "
            "item of another Archive. Set IBI_ARCHIVE_IP to the public address of this server."
        )


_PERIOD = re.compile(r"([1-9][0-9]{0,3})([dwmy])")
_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}
#: The longest period in days.
MAX_DAYS = 36500


def parse_period(value: str, other: str = "") -> timedelta:
    """Return the period in the value of an option, such as ``90d`` or ``1y``.

    :param other: the other values of the option, for the message.
    :raises BadParameter: if the value is not a period, or if it is longer than 100 years.
    """
    period = _PERIOD.fullmatch(value)
    if period is None:
        raise click.BadParameter(f"{value!r} is not a period such as 90d, 12w, 6m or 1y{other}")
    days = int(period[1]) * _DAYS[period[2]]
    if days > MAX_DAYS:
        raise click.BadParameter(f"{value!r} is longer than {MAX_DAYS // 365} years")
    return timedelta(days=days)


yes_option = click.option(
    "--yes", is_flag=True, help="Do not ask for confirmation. Required without a terminal."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Write JSON.")


def parse_email_option(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    """Return the e-mail address in the value of an option.

    :raises BadParameter: if the value is not an e-mail address.
    """
    from flask_ibi_archive.server.config import parse_email

    try:
        return None if value is None else parse_email(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not {error}") from error


def write_findings(results: Iterable[Finding], as_json: bool) -> None:
    """Write the results of checks. If a check failed, exit with status 1."""
    from flask_ibi_archive.server.web.texts import translate_reason

    findings = []
    for finding in results:
        findings.append(finding)
        if not as_json:
            word = "WARN" if finding.is_warning else "ok  " if finding.ok else "FAIL"
            write(f"{word} {translate_reason(finding.name)}: {translate_reason(finding.text)}")
    if as_json:
        write_json([asdict(finding) for finding in findings])
    if not all(finding.ok for finding in findings):
        raise click.exceptions.Exit(1)


def find_item(archive: Archive, ibi: str) -> ItemView:
    """Return the item that has an identifier. Upper and lower case are equal.

    :raises UnknownItem: if no item of this Archive has the identifier.
    :raises IdentifierError: if the text is not an identifier.
    """
    from flask_ibi_archive.core.identifiers.parse import parse_identifier
    from flask_ibi_archive.errors import UnknownItem

    text = parse_identifier(ibi).text
    item = archive.get(text)
    if item is None:
        raise UnknownItem(text)
    return item
