"""Registration with the resolver: generate-key, registration-email, register-archive,
unregister-archive.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.group import (
    json_option,
    say,
    standard_output,
    the_archive,
    warn,
    write,
    write_json,
    write_json_list,
)

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive_service import ArchiveService
    from flask_ibi_archive.archive.registration.registrar import RegistrationResult
    from flask_ibi_archive.errors import ResolverFailed
    from flask_ibi_archive.storage.registration import ArchiveLine

#: The exit statuses besides 0 (included and confirmed, or excluded) and 1 (nothing was asked).
NOT_CONFIRMED, REFUSED, FAILED = 3, 4, 5

moved_option = click.option(
    "--moved",
    is_flag=True,
    help="The Archive has really moved to the address and IP of the settings.",
)


class RefusedExit(click.ClickException):
    """The resolver refuses: one line, and an exit status of its own."""

    exit_code = REFUSED


class FailedExit(click.ClickException):
    """The resolver can't be reached or does not answer as it should, likewise."""

    exit_code = FAILED


@click.command("generate-key")
def generate_key_command() -> None:
    """Generate a random registration key.

    It is stored nowhere. Set it as IBI_REGISTRATION_KEY (in the environment of flask --app
    example_app: FLASK_IBI_REGISTRATION_KEY), send it with the e-mail of registration-email, and
    keep it secret: who has it can include or exclude the Archive.

    \b
    Example:
      flask ibi generate-key
    """
    from flask_ibi_archive.archive.registration.registrar import generate_key

    write(generate_key())


def an_email_option(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    """Check the e-mail address that an option holds."""
    from flask_ibi_archive.config import parse_email

    try:
        return None if value is None else str(parse_email(value))
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not {error}") from error


@click.command("registration-email")
@click.option("--send", is_flag=True, help="Send it, through the server that MAIL_SERVER names.")
@click.option("--to", callback=an_email_option, help="The receiver, instead of IBI_RESOLVER_EMAIL.")
@with_appcontext
def registration_email_command(send: bool, to: str | None) -> None:
    """Print or send the e-mail that asks for registration.

    It is printed, or sent with --send. It holds the registration key (IBI_REGISTRATION_KEY).

    \b
    Example:
      flask --app example_app ibi registration-email
      flask --app example_app ibi registration-email --send --to admin@urlib.net
    """
    from flask_ibi_archive.archive.registration import mailing
    from flask_ibi_archive.archive.registration.registrar import registration_email
    from flask_ibi_archive.errors import ConfigError

    archive = the_archive()
    subject, body = registration_email(archive)
    receiver = to or archive.config.resolver_email
    if not send:
        if receiver is not None:
            write(f"To: {receiver}")
        write(f"Subject: {subject}\n\n{body}")
        return
    if receiver is None:
        raise ConfigError(
            "IBI_RESOLVER_EMAIL",
            None,
            "the e-mail address of the resolver's administrator, unless --to names it",
        )
    mail, admin = archive.config.mail, archive.config.archive_admin_email
    message = mailing.compose(mail, ("IBI_ARCHIVE_ADMIN_EMAIL", admin), receiver, subject, body)
    mailing.send(mail, message)
    if sys.stderr.isatty():
        say(f"sent to {receiver}")


@click.command("register-archive")
@moved_option
@json_option
@with_appcontext
def register_archive_command(moved: bool, as_json: bool) -> None:
    """Ask the resolver to include the Archive.

    The resolver asks it for items from then on. Prints the status that the resolver gives. Ends
    with status 0 when the Archive is included and confirmed, 3 when it is included but the resolver
    could not call it back, 4 when the resolver refuses, 5 when it can't be reached or does not
    answer as it should; with 1 when nothing was asked: a setting is missing, or address or IP are
    not those registered (a copy of the database, or --moved). Run it while the Archive's server
    runs, and as often as you like.

    \b
    Example:
      flask --app example_app ibi register-archive
    """
    from flask_ibi_archive.archive.registration.standing import not_confirmed

    archive = the_archive()
    result = _request(archive, "include", moved, as_json)
    if not result.status.confirmed:
        warn(f"the Archive is included{not_confirmed(archive.config)}")
        raise click.exceptions.Exit(NOT_CONFIRMED)


@click.command("unregister-archive")
@moved_option
@json_option
@with_appcontext
def unregister_archive_command(moved: bool, as_json: bool) -> None:
    """Ask the resolver to exclude the Archive.

    The resolver asks it no more, until register-archive is run again. It stays registered. Prints
    the status that the resolver gives; ends with status 0 when the Archive is excluded, else as
    register-archive does.

    \b
    Example:
      flask --app example_app ibi unregister-archive
    """
    _request(the_archive(), "exclude", moved, as_json)


def _request(archive: ArchiveService, what: str, moved: bool, as_json: bool) -> RegistrationResult:
    """Ask the resolver, and print the status that it gives."""
    from flask_ibi_archive.archive.registration.registrar import Registrar
    from flask_ibi_archive.errors import ResolverError, ResolverRefused
    from flask_ibi_archive.protocol.inclusion import format_registration_status

    standard_output()
    registrar = Registrar(archive, on_retry=_tell_of_retry)
    ask: Callable[..., RegistrationResult] = getattr(registrar, what)
    try:
        result = ask(moved=moved)
    except ResolverError as error:
        if as_json:
            write_json(_facts(archive, error=str(error)))
        refused = isinstance(error, ResolverRefused)
        raise (RefusedExit if refused else FailedExit)(str(error)) from None
    status = result.status
    if as_json:
        write_json(_facts(archive, status.archive, status.confirmation))
    else:
        write(format_registration_status(status))
    if result.not_stored is not None:
        warn(f"this could not be written down: {result.not_stored}")
    return result


def _tell_of_retry(error: ResolverFailed, delay: float) -> None:
    if sys.stderr.isatty():
        say(f"{error.url} {error.reason}; asking again in {delay:.0f} s")


def _facts(
    archive: ArchiveService,
    status: str | None = None,
    confirmation: str | None = None,
    error: str | None = None,
) -> dict[str, str | None]:
    from flask_ibi_archive.archive.registration.standing import shown_url

    return {
        "service": archive.served().service_ibi,
        "resolver": shown_url(archive.config),
        "status.archive": status,
        "status.confirmation": confirmation,
        "error": error,
    }


# --- for list ------------------------------------------------------------------------------------


def tell_standing(archive: ArchiveService) -> None:
    """Tell on standard error how the Archive stands with the resolver; not where nobody waits for
    it.
    """
    from flask_ibi_archive.archive.registration.standing import find_standing

    standing = find_standing(archive)
    if not standing.ok or sys.stderr.isatty():
        say(f"registration: {standing.text}")


def list_archives(archive: ArchiveService, as_json: bool) -> None:
    """List the Archives of the database and how each stands."""
    from flask_ibi_archive.storage import registration

    lines = [_facts_of(line) for line in archive.database.read(registration.list_archives)]
    if as_json:
        write_json_list(lines)
        return
    for line in lines:
        shown = ("service", "address", "state", "since", "error")
        write("\t".join(line[name] or "" for name in shown))


def _facts_of(line: ArchiveLine) -> dict[str, str | None]:
    from flask_ibi_archive.archive.registration.standing import state_of, timestamp

    known = line.registration
    state, since = state_of(known)

    def moment(name: str) -> str | None:
        value = getattr(known, name, None)
        return None if value is None else timestamp(value)

    return {
        "service": line.rep or line.ibip,
        "address": line.address,
        "ip": line.ip,
        "state": state,
        "since": None if since is None else timestamp(since),
        "resolver": None if known is None else known.resolver_url,
        "registered_at": moment("registered_at"),
        "included_at": moment("included_at"),
        "confirmed_at": moment("confirmed_at"),
        "excluded_at": moment("excluded_at"),
        "error": None if known is None else known.error,
        "error_at": moment("error_at"),
    }
