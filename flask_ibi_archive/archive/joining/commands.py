"""Commands for the registration with a resolver.

The commands are generate-key, registration-email, register-archive and unregister-archive.
"""

from __future__ import annotations

import secrets
import sys
from typing import TYPE_CHECKING

import click

from flask_ibi_archive.core.protocol import inclusion
from flask_ibi_archive.errors import ConfigError, ResolverError
from flask_ibi_archive.server.commands import terminal
from flask_ibi_archive.server.commands.group import get_archive, parse_email_option

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The exit statuses of register-archive and unregister-archive, besides 0 (success) and 1 (no
#: request was sent).
EXIT_NOT_CONFIRMED, EXIT_REFUSED, EXIT_FAILED = 3, 4, 5

moved_option = click.option(
    "--moved",
    is_flag=True,
    help="Confirm that the Archive has moved to the address and the IP in the settings.",
)


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
    # two numbers of sixteen digits ([R] Table 5.1)
    terminal.write("-".join(str(secrets.randbelow(9 * 10**15) + 10**15) for _ in range(2)))


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
    from flask_ibi_archive.archive.joining import registration
    from flask_ibi_archive.server.mail import compose_email, send_email

    archive = get_archive()
    subject, body = registration.registration_email(archive)
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
def register_archive_command(moved: bool) -> None:
    """Ask the resolver to include the Archive.

    After the inclusion, the resolver sends requests for items to the Archive. The command prints
    the status in the resolver's answer. The server of the Archive must run during the command. The
    command can be repeated.

    \b
    Exit status:
      0  the Archive is included and confirmed
      1  a setting is missing, the database does not answer, or the address or the
         IP differs from the registered one (use --moved if the Archive has moved)
      3  the Archive is included, but the resolver could not call it back
      4  the resolver refuses
      5  the resolver can't be reached or sends no valid answer

    \b
    Example:
      flask --app example_app ibi register-archive
    """
    from flask_ibi_archive.archive.joining import registration
    from flask_ibi_archive.server.http.transport import make_printable

    archive = get_archive()
    status = _send_request(archive, inclusion.INCLUSION_REQUEST, moved)
    if status.clash:
        terminal.warn(f"{make_printable(status.clash)}; {registration.CHANGE_PORT}")
    if not status.confirmed:
        terminal.warn(f"the Archive is included{registration.not_confirmed(archive.config)}")
        raise click.exceptions.Exit(EXIT_NOT_CONFIRMED)


@click.command("unregister-archive")
@moved_option
def unregister_archive_command(moved: bool) -> None:
    """Ask the resolver to exclude the Archive.

    The resolver then sends no requests to the Archive until register-archive is run again. The
    Archive stays registered. The command prints the status in the resolver's answer. The exit
    status is 0 if the Archive is excluded. The other exit statuses are the same as those of
    register-archive.

    \b
    Example:
      flask --app example_app ibi unregister-archive
    """
    _send_request(get_archive(), inclusion.EXCLUSION_REQUEST, moved)


def _send_request(archive: Archive, subject: str, moved: bool) -> inclusion.RegistrationStatus:
    """Send a request to the resolver, print the status in the answer, and return it."""
    from flask_ibi_archive.archive.joining import registration

    try:
        status = registration.send_request(archive, subject, moved=moved)
    except ResolverError as error:
        terminal.say(f"Error: {error}")
        exit_code = EXIT_REFUSED if error.is_refusal else EXIT_FAILED
        raise click.exceptions.Exit(exit_code) from None
    terminal.write(inclusion.format_registration_status(status))
    return status
