"""Commands for the registration of the Archive with a resolver.

The commands are generate-key, registration-email, register-archive and unregister-archive. The
module also contains the functions for ``list --archives``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

import click

from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.inclusion import format_registration_status
from flask_ibi_archive.errors import ConfigError, ResolverError
from flask_ibi_archive.server.commands import terminal
from flask_ibi_archive.server.commands.group import get_archive, json_option, parse_email_option

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive
    from flask_ibi_archive.archive.joining.registrar import RegistrationResult
    from flask_ibi_archive.archive.joining.registration_state import ArchiveLine

#: The exit statuses of register-archive and unregister-archive, besides 0 (success) and 1 (no
#: request was sent).
EXIT_NOT_CONFIRMED, EXIT_REFUSED, EXIT_FAILED = 3, 4, 5
#: The columns of a registration that list --json prints under the same names.
COLUMNS = ("registered_at", "included_at", "confirmed_at", "excluded_at", "error", "error_at")

moved_option = click.option(
    "--moved",
    is_flag=True,
    help="Confirm that the Archive has moved to the address and the IP in the settings.",
)


class RefusedExit(click.ClickException):
    """The resolver refuses a request. The command writes one line and exits with status 4."""

    exit_code = EXIT_REFUSED


class FailedExit(click.ClickException):
    """The resolver sends no valid answer. The command writes one line and exits with status 5."""

    exit_code = EXIT_FAILED


@click.command("generate-key")
def generate_key_command() -> None:
    """Generate a random registration key.

    The command prints the key, but does not store the key. Set IBI_REGISTRATION_KEY to the key. For
    the example app, set the environment variable FLASK_IBI_REGISTRATION_KEY. Then send the e-mail
    of the command registration-email. The e-mail contains the key.

    Keep the key secret. Anybody who knows the key can include or exclude the Archive.

    \b
    Example:
      flask ibi generate-key
    """
    from flask_ibi_archive.archive.joining.registrar import generate_key

    terminal.write(generate_key())


@click.command("registration-email")
@click.option("--send", is_flag=True, help="Send the e-mail through the server MAIL_SERVER.")
@click.option(
    "--to", callback=parse_email_option, help="The recipient. By default, IBI_RESOLVER_EMAIL."
)
def registration_email_command(send: bool, to: str | None) -> None:
    """Print or send the e-mail that requests registration.

    The e-mail contains the registration key (IBI_REGISTRATION_KEY).

    \b
    Example:
      flask --app example_app ibi registration-email
      flask --app example_app ibi registration-email --send --to admin@urlib.net
    """
    from flask_ibi_archive.archive.joining.registrar import registration_email
    from flask_ibi_archive.server.mail import compose_email, send_email

    archive = get_archive()
    subject, body = registration_email(archive)
    recipient = to or archive.config.resolver_email
    if not send:
        if recipient is not None:
            terminal.write(f"To: {recipient}")
        terminal.write(f"Subject: {subject}\n\n{body}")
        return
    if recipient is None:
        raise ConfigError(
            "IBI_RESOLVER_EMAIL",
            None,
            "the e-mail address of the resolver's administrator, unless --to contains this address",
        )
    mail, admin = archive.config.mail, archive.config.archive_admin_email
    message = compose_email(mail, ("IBI_ARCHIVE_ADMIN_EMAIL", admin), recipient, subject, body)
    send_email(mail, message)
    if sys.stderr.isatty():
        terminal.say(f"sent to {recipient}")


@click.command("register-archive")
@moved_option
@json_option
def register_archive_command(moved: bool, as_json: bool) -> None:
    """Ask the resolver to include the Archive.

    After the inclusion, the resolver sends requests for items to the Archive. The command prints
    the status in the resolver's answer. The server of the Archive must run during the command. The
    command can be repeated.

    \b
    Exit status:
      0  the Archive is included and confirmed
      1  no request was sent: a setting is missing, or the address or the IP
         differs from the registered one (use --moved if the Archive has moved)
      3  the Archive is included, but the resolver could not call it back
      4  the resolver refuses
      5  the resolver can't be reached or sends no valid answer

    \b
    Example:
      flask --app example_app ibi register-archive
    """
    from flask_ibi_archive.archive.joining.registration_state import CHANGE_PORT, not_confirmed
    from flask_ibi_archive.server.http.transport import make_printable

    archive = get_archive()
    result = _send_request(archive, "include", moved, as_json)
    if result.status.clash:
        terminal.warn(f"{make_printable(result.status.clash)}; {CHANGE_PORT}")
    if not result.status.confirmed:
        terminal.warn(f"the Archive is included{not_confirmed(archive.config)}")
        raise click.exceptions.Exit(EXIT_NOT_CONFIRMED)


@click.command("unregister-archive")
@moved_option
@json_option
def unregister_archive_command(moved: bool, as_json: bool) -> None:
    """Ask the resolver to exclude the Archive.

    The resolver then sends no requests to the Archive until register-archive is run again. The
    Archive stays registered. The command prints the status in the resolver's answer. The exit
    status is 0 if the Archive is excluded. The other exit statuses are the same as those of
    register-archive.

    \b
    Example:
      flask --app example_app ibi unregister-archive
    """
    _send_request(get_archive(), "exclude", moved, as_json)


def _send_request(archive: Archive, what: str, moved: bool, as_json: bool) -> RegistrationResult:
    """Send a request to the resolver, and print the status in its answer.

    :param what: the method of Registrar: include or exclude.
    """
    from flask_ibi_archive.archive.joining.registrar import Registrar

    terminal.standard_output()
    registrar = Registrar(archive, on_retry=_announce_retry)
    request: Callable[..., RegistrationResult] = getattr(registrar, what)
    try:
        result = request(moved=moved)
    except ResolverError as error:
        if as_json:
            terminal.write_json(_build_status_json(archive, error=str(error)))
        if error.is_refusal:
            raise RefusedExit(str(error)) from None
        raise FailedExit(str(error)) from None
    status = result.status
    if as_json:
        terminal.write_json(_build_status_json(archive, status.archive, status.confirmation))
    else:
        terminal.write(format_registration_status(status))
    if result.not_stored is not None:
        terminal.warn(f"the status could not be stored: {result.not_stored}")
    return result


def _announce_retry(error: ResolverError, delay: float) -> None:
    if sys.stderr.isatty():
        terminal.say(f"{error.url} {error.reason}; the next attempt is in {delay:.0f} s")


def _build_status_json(
    archive: Archive,
    status: str | None = None,
    confirmation: str | None = None,
    error: str | None = None,
) -> dict[str, str | None]:
    from flask_ibi_archive.archive.joining.registration_state import shown_url

    return {
        "service": archive.served().service_ibi,
        "resolver": shown_url(archive.config),
        "status.archive": status,
        "status.confirmation": confirmation,
        "error": error,
    }


# --- for ibi list --------------------------------------------------------------------------------


def write_registration(archive: Archive) -> None:
    """Write the registration state to standard error. Without a terminal, write only problems."""
    from flask_ibi_archive.archive.joining.registration_state import describe_served

    description = describe_served(archive)
    if not description.ok or sys.stderr.isatty():
        terminal.say(f"registration: {description.text}")


def list_archives(archive: Archive, as_json: bool) -> None:
    """Write the Archives of the database and the registration state of each Archive."""
    from flask_ibi_archive.archive.joining import registration_state

    lines = [
        _build_archive_json(line)
        for line in archive.database.read(registration_state.list_archives)
    ]
    if as_json:
        terminal.write_json_list(lines)
        return
    for line in lines:
        shown = ("service", "address", "state", "since", "error")
        terminal.write("\t".join(line[name] or "" for name in shown))


def _build_archive_json(line: ArchiveLine) -> dict[str, str | None]:
    from flask_ibi_archive.archive.joining.registration_state import state_of

    state, since = state_of(line.registration)
    return {
        "service": line.rep or line.ibip,
        "address": line.address,
        "ip": line.ip,
        "state": state,
        "since": format_timestamp(since),
        "resolver": getattr(line.registration, "resolver_url", None),
        **{name: _format_value(getattr(line.registration, name, None)) for name in COLUMNS},
    }


def _format_value(value: datetime | str | None) -> str | None:

    return format_timestamp(value) if isinstance(value, datetime) else value
