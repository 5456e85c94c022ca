"""The administrator's commands about Archives, claims, conflicts, failures and actors.

The command ``register`` sends the e-mail that confirms a registration ([R] 5.2).
"""

from __future__ import annotations

import signal
import sys
import warnings
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from getpass import GetPassWarning
from threading import Event
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from flask_ibi_archive.core.claim import fold_name
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.inclusion import build_confirmation_email, parse_key
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.commands import get_resolver
from flask_ibi_archive.server.commands import group, terminal

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.archives import Archive
    from flask_ibi_archive.resolver.conflicts import FoundConflict

#: Maximum length in bytes of the line that contains a registration key.
MAX_LINE = 4096
#: The values that the command ``list`` prints with ``--json``.
FIELDS = (
    "service", "address", "ip", "platform_version", "email", "admin_email", "state", "since",
    "registered_at", "included_at", "confirmed_at", "excluded_at", "answers", "failures",
    "mean_milliseconds", "last_answer_at", "last_failure", "last_failure_at",
)  # fmt: skip
#: The columns that it prints otherwise.
COLUMNS = (
    "service", "address", "state", "since", "answers", "failures", "mean_milliseconds",
    "last_failure",
)  # fmt: skip


@click.command("init")
def init_command() -> None:
    """Create or upgrade the resolver's tables.

    The first line of the output is the IBI of the resolver's service. If SERVER_NAME is set, the
    second line is the URL of the service, which Archives need as IBI_RESOLVER_URL. The command may
    be run again.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver init
    """
    resolver = get_resolver()
    resolver.init()
    terminal.write(resolver.config.service_ibi)
    if resolver.config.service_url is not None:
        terminal.write(resolver.config.service_url)


@click.command("check")
@group.json_option
def check_command(as_json: bool) -> None:
    """Check that the resolver works and can be reached.

    The command checks the configuration, e-mail, pycurl, the database, the Archives, their
    prefixes, claims and conflicts, and the address of the resolver. It prints one line for each
    check: ok, WARN for what may be intended, or FAIL. If a check fails, the exit status is 1.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver check
    """
    from flask_ibi_archive.resolver.checking import check_resolver

    group.write_findings(check_resolver(get_resolver()), as_json)


@click.command("register")
@click.argument("service_ibi", metavar="SERVICEIBI", type=group.read_ibi)
@click.option(
    "--email",
    callback=group.parse_email_option,
    help="The e-mail address of the Archive's administrator.",
)
@click.option(
    "--key-file",
    type=click.File("rb"),
    help='A file with the key in the first line; "-" means standard input.',
)
@click.option("--replace", is_flag=True, help="Replace the key of a registered Archive.")
def register_command(
    service_ibi: str, email: str | None, key_file: BinaryIO | None, replace: bool
) -> None:
    """Register an Archive.

    SERVICEIBI is the IBI of the Archive's service. A registered Archive can request to be included.
    The command prompts for the registration key, which the Archive's administrator has sent. Only a
    hash of the key is stored. A confirmation e-mail is sent to the address --email. If there is no
    --email or no mail server (MAIL_SERVER), the text of the e-mail is printed instead. The command
    may be run again, for example to send the e-mail again.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver register 8JMKD3MGP8W/34PGRBS
      flask --app example_app:create_resolver ibi-resolver register 8JMKD3MGP8W/34PGRBS \\
        --email banon@dpi.inpe.br --key-file -
    """
    from flask_ibi_archive.server.mail import compose_email, send_email

    resolver = get_resolver()
    service = parse_identifier(service_ibi)
    subject, body = build_confirmation_email(service, resolver.config.service_url)
    message, mail = None, resolver.config.mail
    if email is not None and mail is not None:
        # composed first: if the sender address is wrong, the Archive must not be registered
        sender = ("IBI_RESOLVER_EMAIL", resolver.config.email)
        message = compose_email(mail, sender, email, subject, body)
    is_new = resolver.registry.register(service.text, _read_key(key_file), email, replace=replace)
    if sys.stderr.isatty():
        terminal.say(f"{service} is {'now' if is_new else 'already'} registered")
    if message is not None:
        send_email(mail, message)
        return
    if email is not None:
        terminal.write(f"To: {email}")
    terminal.write(f"Subject: {subject}\n\n{body}")


def _read_key(file: BinaryIO | None) -> str:
    """Read the registration key from a file, or prompt for it if the file is None."""

    if file is not None:
        if file is getattr(sys.stdin, "buffer", None):
            file = sys.stdin.buffer
        text = file.readline(MAX_LINE).decode("utf-8-sig", "replace").strip()
    else:
        text = _prompt_for_key()
    try:
        return parse_key(text)
    except ValueError as error:
        raise click.ClickException(f"the registration key is invalid: {error}") from None


def _prompt_for_key() -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", GetPassWarning)
            answer = terminal.prompt("Registration key")
    except GetPassWarning:
        raise click.ClickException(
            "the registration key cannot be typed, because there is no terminal; "
            "use --key-file FILE, or --key-file - for standard input"
        ) from None
    return answer.strip()


@click.command("list")
@group.json_option
def list_command(as_json: bool) -> None:
    """List the registered Archives.

    The command prints a header, then one line for each Archive. The columns are separated by tabs.
    The columns are: service, address, state, date of the state, number of answers, number of
    failures, mean response time in milliseconds, and last failure. The state is "registered",
    "included", "included, not confirmed" or "excluded".

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver list
    """
    terminal.write_table(COLUMNS, map(_list_values, get_resolver().registry.list()), as_json)


def _list_values(archive: Archive) -> dict[str, str | int | None]:
    state, since = archive.state
    mean = round(archive.milliseconds / archive.answers) if archive.answers else None
    values = {**asdict(archive), "service": archive.service_ibi, "state": state, "since": since}
    values |= {"address": archive.address or None, "mean_milliseconds": mean}
    return {
        name: format_timestamp(value) if isinstance(value, datetime) else value
        for name, value in ((name, values[name]) for name in FIELDS)
    }


@click.command("remove")
@click.argument("service_ibi", metavar="SERVICEIBI", type=group.read_ibi)
def remove_command(service_ibi: str) -> None:
    """Remove the registration of an Archive.

    SERVICEIBI is the IBI of the Archive's service. The resolver sends no more questions to this
    Archive. Its claims and metrics are deleted. The Archive can be registered again.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver remove dpi.inpe.br/banon/1999/01.09.22.14
    """

    service_ibi = parse_identifier(service_ibi).text
    get_resolver().registry.remove(service_ibi)
    terminal.say(f"{service_ibi} is no longer registered")


@click.command("check-actors")
@click.option("--dry-run", is_flag=True, help="Check all URLs, but change nothing.")
def check_actors_command(dry_run: bool) -> None:
    """Cancel actors whose URLs have not worked for two years.

    An actor is a data provider that has registered with the document registry of the resolver.

    The command requests the URLs of the documents and metadata of each actor, until one of them
    works. If none works, the command stores the date. If none has worked for 730 days, the actor is
    cancelled. Each of its documents is handed over to the actor with the oldest copy. A document
    without copies is no longer registered.

    The command prints one line for each change: the actorID, the e-mail address, the state and the
    last error, separated by tabs. The state is "failing" (the first time that no URL works), "works
    again" or "cancelled". If no URL of several actors works, the network of the resolver is
    probably down. Then nothing is stored, and the exit status is 1. The command should run weekly.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver check-actors --dry-run
    """
    from flask_ibi_archive.resolver.registry_2008.operations import check_actors

    resolver = get_resolver()
    if resolver.document_registry is None:
        raise click.ClickException(
            "this resolver has no document registry; set IBI_RESOLVER_REGISTRY = True"
        )
    try:
        for change in check_actors(resolver.database, resolver.config, dry_run):
            terminal.write("\t".join([*change[:3], change.error or ""]))
    except ConnectionError as error:
        raise click.ClickException(
            f"{error}, so the network of the resolver is probably down; nothing was stored"
        ) from None


# --- claims and conflicts -------------------------------------------------------------------------

#: The columns that the commands print.
CLAIM_COLUMNS = ("service", "address", "state", "names", "read_at", "reason")
CONFLICT_COLUMNS = (
    "id", "about", "name", "first_address", "second_address", "found_at", "told_at", "ended_at",
)  # fmt: skip
REFUSED_COLUMNS = ("service", "item", "reason", "refused_at")


@click.command("follow")
@click.option("--once", is_flag=True, help="Read what is new, and stop.")
@click.option(
    "--again",
    metavar="ARCHIVE",
    help="Let the claims of an Archive be read from the beginning, and stop.",
)
def follow_command(once: bool, again: str | None) -> None:
    """Read the claims of the included Archives.

    An Archive that publishes claims is only asked about items that it claims. The claims of each
    Archive are read every 30 seconds. The command runs until it is stopped (SIGINT, SIGTERM). Run
    it as a service, or set IBI_RESOLVER_FOLLOW = True to do the same in a thread of the app. If
    several processes follow, one of them works, and the others wait until it ends. What is wrong
    with the claims of an Archive is logged; the command "claims" shows it.

    ARCHIVE is the service IBI of an Archive whose answers contradicted its claims, or whose claims
    are refused. The running follower then reads its claims from the beginning. They count again
    when they were read to their end.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver follow
      flask --app example_app:create_resolver ibi-resolver follow --once
    """
    get_resolver().database.check_revision()
    if again is not None:
        _read_again(again)
    else:
        _follow(once)


def _read_again(service_ibi: str) -> None:
    from flask_ibi_archive.resolver.claims import read_again

    resolver = get_resolver()
    archive = resolver.registry.find(service_ibi)
    with resolver.database.writing() as connection:
        if archive is None or not read_again(connection, archive.id):
            raise click.ClickException(
                f"no Archive with the service {service_ibi} publishes claims; to list all, run: "
                "flask ibi-resolver claims"
            )


def _follow(once: bool) -> None:
    stop = Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.signal(number, lambda *_: stop.set()) for number in numbers]
    shows = sys.stderr.isatty()

    def show(pages: int, claims: int) -> None:
        if shows:
            click.echo(f"\rpages read: {pages}, claims read: {claims}\033[K", nl=False, err=True)

    follower = get_resolver().make_follower(show)
    try:
        if not once:
            follower.run(stop)
        elif not follower.run_once(stop):
            raise click.ClickException("another process follows the claims of Archives")
    finally:
        follower.close()
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)
        if shows:
            terminal.say("")


@click.command("claims")
@click.option("--refused", is_flag=True, help="List the claims that are refused.")
@group.json_option
def claims_command(refused: bool, as_json: bool) -> None:
    """List the Archives that publish claims, and their states.

    The command prints a header, then one line for each Archive. The columns are separated by tabs.
    The columns are: service, address, state, number of names, date of the last reading to the end,
    and the last failure. The state is "current" or "silent" (the Archive does not answer; its last
    claims count), or the Archive is asked about each item: "new" (the claims were not read to their
    end yet), "stale" (they can't be read, or are too old), "refused" (some of them are wrong),
    "contradicted" (answers contradicted the claims) or "excluded".

    With --refused, the columns are: service, item, reason, and date. The Archive is asked about
    each item until it claims these items properly.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver claims
      flask --app example_app:create_resolver ibi-resolver claims --refused --json
    """
    from flask_ibi_archive.resolver.claims import list_followed, list_refused

    resolver = get_resolver()
    if refused:
        lines = resolver.database.read(list_refused)
        terminal.write_table(REFUSED_COLUMNS, lines, as_json)
        return
    now, max_age = datetime.now(timezone.utc), timedelta(seconds=resolver.config.claims_max_age)
    archives = resolver.database.read(lambda connection: list_followed(connection, now, max_age))
    terminal.write_table(CLAIM_COLUMNS, archives, as_json)


@click.command("conflicts")
@click.option("--all", "shows_all", is_flag=True, help="Also list the conflicts that have ended.")
@click.option(
    "--prefer",
    metavar="SERVICEIBI",
    type=group.read_ibi,
    help="End the conflicts about NAME in favour of this Archive.",
)
@click.argument("name", required=False)
@group.json_option
def conflicts_command(shows_all: bool, prefer: str | None, name: str | None, as_json: bool) -> None:
    """List conflicts between Archives, or decide about one.

    Two Archives claim the Original of one item, or one alias for two items. The command prints a
    header, then one line for each conflict, the newest first. The columns are separated by tabs.
    The columns are: number of the conflict, "Original" or "alias", name that both claim, addresses
    of the two Archives, and the dates when the conflict was found, when the administrators of both
    Archives were told by e-mail, and when the conflict ended. A conflict ends when one of the two
    claims changes, or one of the two Archives is excluded. With --json, the services and e-mail
    addresses of the Archives are also listed.

    With --prefer and NAME, an IBI or an alias, the command ends the conflicts about NAME: readers
    are led to the Archive with the IBI SERVICEIBI first, until one of the claims changes.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver conflicts --all --json
      flask --app example_app:create_resolver ibi-resolver conflicts \\
        --prefer 8JMKD3MGP8W/34PGRBS doi:10.5281/zenodo.1234567
    """
    from flask_ibi_archive.resolver.conflicts import IS_OPEN, list_conflicts, prefer_archive

    if (prefer is None) != (name is None):
        raise click.UsageError("--prefer and NAME are only valid together")
    resolver = get_resolver()
    if prefer is None or name is None:
        conditions = () if shows_all else (IS_OPEN,)
        found = resolver.database.read(lambda connection: list_conflicts(connection, *conditions))
        terminal.write_table(CONFLICT_COLUMNS, map(_list_conflict_values, found), as_json)
        return
    archive = resolver.registry.find(parse_identifier(prefer).text)
    if archive is None:
        raise StorageError(f"no Archive with the service {prefer} is registered")
    now = datetime.now(timezone.utc)
    with resolver.database.writing() as connection:
        count = prefer_archive(connection, archive.id, fold_name(name), now)
    terminal.say(f"conflicts ended: {count}")


def _list_conflict_values(conflict: FoundConflict) -> dict[str, Any]:
    from flask_ibi_archive.resolver.conflicts import describe_conflict

    values = describe_conflict(conflict)
    for name, archive in zip(("first", "second"), conflict.claimants, strict=True):
        values[f"{name}_address"] = archive.address
        values[f"{name}_service"] = archive.service_ibi
        values[f"{name}_email"] = archive.admin_email or archive.email
    return values
