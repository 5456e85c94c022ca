"""The Archives of a resolver: register, list, remove."""

from __future__ import annotations

import sys
import warnings
from getpass import GetPassWarning
from typing import TYPE_CHECKING, BinaryIO

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.group import (
    json_option,
    say,
    standard_input,
    standard_output,
    write,
    write_json_list,
)
from flask_ibi_archive.cli.parameters import read_ibi
from flask_ibi_archive.cli.registration import an_email_option
from flask_ibi_archive.resolver.cli.group import the_resolver

if TYPE_CHECKING:
    from datetime import datetime

    from flask_ibi_archive.resolver.registrations import RegisteredRecord

#: Bytes of the line that a key stands in.
MAX_LINE = 4096


@click.command("register")
@click.argument("service_ibi", metavar="SERVICEIBI", type=read_ibi)
@click.option(
    "--email", callback=an_email_option, help="The Archive's administrator, who gets the e-mail."
)
@click.option(
    "--key-file",
    type=click.File("rb"),
    help='Read the key from the first line of a file, "-" for standard input.',
)
@click.option("--replace", is_flag=True, help="Let the key take the place of another one.")
@with_appcontext
def register_command(
    service_ibi: str, email: str | None, key_file: BinaryIO | None, replace: bool
) -> None:
    """Register an Archive.

    SERVICEIBI is the IBI of its service; the Archive can then have itself included. Asks for the
    registration key, which the Archive's administrator sent; it is kept as a hash and shown
    nowhere. The e-mail that confirms the registration is sent to --email where a mail server is
    configured (MAIL_SERVER), and printed otherwise. To register an Archive again does no harm, and
    writes the e-mail again.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver register 8JMKD3MGP8W/34PGRBS
      flask --app example_app:create_resolver ibi-resolver register 8JMKD3MGP8W/34PGRBS \\
        --email banon@dpi.inpe.br --key-file -
    """
    from flask_ibi_archive.archive.registration import mailing
    from flask_ibi_archive.identifiers import parse_identifier
    from flask_ibi_archive.protocol.registration import parse_key

    resolver = the_resolver()
    standard_output()
    service_ibi = parse_identifier(service_ibi).text
    subject, body = resolver.registry.confirmation_email(service_ibi)
    mail = resolver.config.mail
    message = None
    if email is not None and mail is not None:
        # before anything is registered: a wrong sender is told now
        admin = ("IBI_RESOLVER_EMAIL", resolver.config.email)
        message = mailing.compose(mail, admin, email, subject, body)
    try:
        key = parse_key(_ask_for_key() if key_file is None else _read_key(key_file))
    except ValueError as error:
        raise click.ClickException(f"the registration key is none: {error}") from None
    is_new = resolver.registry.register(service_ibi, key, email, replace=replace)
    if sys.stderr.isatty():
        say(f"{service_ibi} is registered{'' if is_new else '; it was before'}")
    if message is not None:
        mailing.send(mail, message)
        return
    if email is not None:
        write(f"To: {email}")
    write(f"Subject: {subject}\n\n{body}")


def _ask_for_key() -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", GetPassWarning)
            answer: str = click.prompt("Registration key", hide_input=True, err=True)
    except GetPassWarning:
        raise click.ClickException(
            "there is no terminal to ask for the registration key; give a file by --key-file, or - for "
            "standard input"
        ) from None
    return answer.strip()


def _read_key(file: BinaryIO) -> str:
    if file is getattr(sys.stdin, "buffer", None):
        file = standard_input()
    line = file.readline(MAX_LINE).decode("utf-8-sig", "replace")
    return line.strip()


@click.command("list")
@json_option
@with_appcontext
def list_command(as_json: bool) -> None:
    """List the registered Archives.

    A header, then an Archive a line, separated by tabs: service, address, state (registered;
    included; included, not confirmed; excluded), since when, answers, failures, milliseconds that
    an answer takes on average, and the last failure.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver list
    """
    lines = [_facts_of(record) for record in the_resolver().registry.list()]
    if as_json:
        write_json_list(lines)
        return
    shown = (
        "service", "address", "state", "since", "answers", "failures", "mean_milliseconds",
        "last_failure",
    )  # fmt: skip
    write("\t".join(shown))
    for line in lines:
        write("\t".join("" if line[name] is None else str(line[name]) for name in shown))


def _facts_of(record: RegisteredRecord) -> dict[str, str | int | None]:
    from flask_ibi_archive.archive.registration.standing import timestamp
    from flask_ibi_archive.resolver.registry import state_of

    def moment(value: datetime | None) -> str | None:
        return None if value is None else timestamp(value)

    state, since = state_of(record)
    return {
        "service": record.service_ibi,
        "address": record.address,
        "ip": record.ip,
        "platform_version": record.platform_version,
        "email": record.email,
        "admin_email": record.admin_email,
        "state": state,
        "since": timestamp(since),
        "registered_at": moment(record.registered_at),
        "included_at": moment(record.included_at),
        "confirmed_at": moment(record.confirmed_at),
        "excluded_at": moment(record.excluded_at),
        "answers": record.answers,
        "failures": record.failures,
        "mean_milliseconds": round(record.milliseconds / record.answers)
        if record.answers
        else None,
        "last_answer_at": moment(record.last_answer_at),
        "last_failure": record.last_failure,
        "last_failure_at": moment(record.last_failure_at),
    }


@click.command("remove")
@click.argument("service_ibi", metavar="SERVICEIBI", type=read_ibi)
@with_appcontext
def remove_command(service_ibi: str) -> None:
    """Remove the registration of an Archive.

    SERVICEIBI is the IBI of its service; it is asked no more. What is known of it goes as well: how
    it answered, and what was found there. It may be registered anew.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver remove dpi.inpe.br/banon/1999/01.09.22.14
    """
    from flask_ibi_archive.identifiers import parse_identifier

    service_ibi = parse_identifier(service_ibi).text
    the_resolver().registry.remove(service_ibi)
    say(f"{service_ibi} is registered no more")
