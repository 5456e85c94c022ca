"""The commands of an Archive as a whole: init, check, show, list, verify, claims."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from flask import Flask
from flask.cli import ScriptInfo

from flask_ibi_archive.errors import translatable as _
from flask_ibi_archive.server.commands import terminal
from flask_ibi_archive.server.commands.group import (
    IBIGroup,
    find_item,
    get_archive,
    json_option,
    read_ibi,
    version_option,
    warn_of_private_address,
    write_findings,
    yes_option,
)

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive


#: The sections of the help page. Each section lists its commands, with the module of each command.
SECTIONS = {
    "Every day": "commands.init commands.check items.commands.add "
    "items.commands.edit commands.show commands.list items.commands.delete "
    "items.commands.import items.commands.export "
    "joining.commands.register-archive moving.commands.offer "
    "moving.commands.accept",
    "Items": "items.commands.copy items.commands.transfer items.commands.alias "
    "items.commands.reserve items.commands.release accesses.commands.stats",
    "Rows of models": "hosts.commands.adopt hosts.commands.compare",
    "Resolvers and other servers": "joining.commands.generate-key "
    "joining.commands.registration-email "
    "joining.commands.unregister-archive moving.commands.offers "
    "commands.claims identification.commands.api-key",
    "Maintenance": "commands.verify commands.check-links accesses.commands.purge "
    "commands.renew-harvests",
    "For experts": "commands.upgrade commands.downgrade items.commands.mint "
    "items.commands.decode commands.url-list",
}


@click.group("ibi", cls=IBIGroup, sections=SECTIONS, package="flask_ibi_archive.archive")
@version_option
def ibi() -> None:
    """Give items persistent identifiers (IBI) and resolve them.

    \b
    Example:
      flask --app example_app ibi init
      flask --app example_app ibi add report.pdf --title "Annual report"
    """


def create_group(create_app: Callable[[], Flask] | None = None) -> click.Group:
    """Return the commands ``ibi ...`` for a command line that is not Flask's.

    ::

        @click.group()
        def repository(): ...

        repository.add_command(ibi.commands(create_app))

    :param create_app: returns the app. None: the command line opens an application context before
        it runs a command.
    """
    group = copy(ibi)
    if create_app is not None:
        script = ScriptInfo(create_app=create_app, set_debug_flag=False)
        group.context_settings = {**ibi.context_settings, "obj": script}
    return group


@click.command("init")
def init_command() -> None:
    """Create or update the tables and the Archive.

    Prints the IBI of the service. The command can be repeated. It then updates the tables. The
    private key of the Archive's claims is made, unless it exists or IBI_CLAIMS is false. If this
    fails, the command says why on standard error, and all else works without claims.

    \b
    Example:
      flask --app example_app ibi init
    """
    from flask_ibi_archive.errors import NotReady
    from flask_ibi_archive.server.web.requests import current_archive

    archive = get_archive()
    session = current_archive().session
    if session is not None:
        session.check_schema(archive.database)
    served, created = archive.init()
    if created and archive.config.archive_service_ibi is None:
        warn_of_private_address(archive)
    try:
        if archive.claims.is_enabled:
            archive.claims.create_key()
    except NotReady as error:
        terminal.warn(f"no claims are published: {error}")
    terminal.write(served.service_ibi)


@click.command("check")
@json_option
def check_command(as_json: bool) -> None:
    """Check that the Archive works and can be reached.

    Prints one line for each check: the configuration, the database, the files, a page, a persistent
    URL, the address of the Archive, the resolver and the registration. The exit status is 1 if a
    check fails.

    A line that begins with WARN concerns what may be intended, such as pages for members alone. The
    check of the registration also succeeds if the Archive was never registered or is excluded. The
    line then says what to do next.

    \b
    Example:
      flask --app example_app ibi check
    """
    from flask_ibi_archive.archive.checking import check_archive

    write_findings(check_archive(get_archive()), as_json)


@click.command("upgrade")
@click.argument("revision", default="head")
def upgrade_command(revision: str) -> None:
    """Upgrade the tables to a revision.

    By default, REVISION is the newest revision.

    \b
    Example:
      flask --app example_app ibi upgrade
    """
    archive = get_archive()
    archive.upgrade(revision)
    _write_revision(archive)


def _check_revision(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return the argument if it is a revision, such as -1; refuse other texts that begin with -."""
    if value.startswith("-") and not re.fullmatch("-[0-9]+", value):
        raise click.NoSuchOption(value, ctx=context)
    return value


@click.command("downgrade", context_settings={"ignore_unknown_options": True})
@click.argument("revision", default="-1", callback=_check_revision)
@yes_option
def downgrade_command(revision: str, yes: bool) -> None:
    """Downgrade the tables to a revision.

    By default, REVISION is the previous revision. The REVISION "base" removes the tables. Data that
    the older tables cannot store is lost. Even the dates of issued identifiers may be lost.
    Therefore the command asks for confirmation. Without a terminal, --yes is required.

    \b
    Example:
      flask --app example_app ibi downgrade 0001
    """
    archive = get_archive()
    terminal.confirm(f"Downgrade the tables to {revision}? Data may be lost.", yes)
    archive.downgrade(revision)
    _write_revision(archive)


def _write_revision(archive: Archive) -> None:
    revision = archive.database.read(archive.database.find_revision)
    text = "the database has no tables"
    terminal.say(text if revision is None else f"the tables are at revision {revision}")


@click.command("show")
@click.argument("ibi", type=read_ibi)
@json_option
def show_command(ibi: str, as_json: bool) -> None:
    """Show the record of an item.

    IBI is any identifier of the item.

    \b
    Example:
      flask --app example_app ibi show 8JMKD3MGP8W/35MME4E
    """
    from flask_ibi_archive.core.records.record import format_record

    item = find_item(get_archive(), ibi)
    record = format_record(item.record)
    record.setdefault("state", item.record.state)
    if as_json:
        terminal.write_json(record)
        return
    for name, value in record.items():
        for line in _format_field(name, value):
            terminal.write(line)


def _format_field(name: str, value: Any) -> Iterator[str]:
    """Yield the lines "name value" of a field: one for each value, also of nested fields."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _format_field(f"{name}.{key}", inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _format_field(name, inner)
    else:
        shown = str(value).lower() if isinstance(value, bool) else " ".join(str(value).split())
        yield f"{name} {shown}"


@click.command("list")
@click.option("--limit", type=click.IntRange(1), help="The largest number of items.")
@click.option(
    "--state",
    type=click.Choice(["Original", "Copy", "Deleted"], case_sensitive=False),
    help="List only items in this state.",
)
@click.option(
    "--search",
    metavar="TEXT",
    help="List only items with the words of TEXT in titles, creators, subjects, identifiers.",
)
@json_option
def list_command(limit: int | None, state: str | None, search: str | None, as_json: bool) -> None:
    """List the items.

    Prints a table with a line for each item: repository name, IBIp, state, the time of the last
    change, and title, separated by tabs.

    \b
    Example:
      flask --app example_app ibi list
      flask --app example_app ibi list --state Original --search banon --limit 20
    """
    from flask_ibi_archive.core.identifiers.dates import format_timestamp
    from flask_ibi_archive.core.records.record import format_record

    items = get_archive().find(search, state=state, limit=limit)
    if as_json:
        terminal.write_json_list(
            {**format_record(one.record), "state": one.record.state} for one in items
        )
        return
    rows = (
        {
            "rep": item.rep,
            "ibip": item.ibip,
            "state": item.record.state,
            "timestamp": format_timestamp(item.record.timestamp),
            "title": " ".join(item.title.split()),
        }
        for item in items
    )
    columns = ("rep", "ibip", _("state"), _("timestamp"), _("title"))
    terminal.write_table(columns, rows, as_json)


@click.command("url-list")
@click.argument("ibi")
@click.option(
    "--verbs", default="", help='The verbs, such as "GetLastEdition GetMetadata(oai_dc)".'
)
@click.option("--filepath", default="", help="The path of a file of the item.")
@click.option("--ip", default="127.0.0.1", show_default=True, help="The IP address of the user.")
@json_option
def url_list_command(ibi: str, verbs: str, filepath: str, ip: str, as_json: bool) -> None:
    """Show how the Archive answers the urlRequest of a resolver.

    IBI may be a persistent URL. The modifier of the URL then sets the verbs. The path of the URL
    sets the file path.

    --json prints a list of objects, each with the name of a pair and the list of its words.

    \b
    Example:
      flask --app example_app ibi url-list 8JMKD3MGP8W/35MME4E --verbs GetTranslation
      flask --app example_app ibi url-list 'http://urlib.net/8JMKD3MGP8W/35MME4E!:(oai_dc)'
    """
    from flask_ibi_archive.core.protocol.messages import UrlRequest, parse_request
    from flask_ibi_archive.core.protocol.pairs import format_pairs, parse_pairs

    ibi, verbs, filepath = _split_persistent_url(ibi, verbs, filepath)
    request = parse_request(
        [
            ("servicesubject", "urlRequest"),
            ("clientinformation.ipaddress", ip),
            ("parsedibiurl.ibi", ibi),
            ("parsedibiurl.filepath", filepath),
            ("parsedibiurl.verblist", verbs),
        ]
    )
    assert isinstance(request, UrlRequest)
    pairs = get_archive().list_urls(request)
    if not pairs:
        terminal.say(
            f"no item of this Archive has the identifier {request.ibi.text}: the answer is empty"
        )
    if as_json:
        listed = parse_pairs(format_pairs(pairs))
        terminal.write_json([{"name": pair.name, "words": pair.words} for pair in listed])
        return
    if pairs:
        terminal.write(format_pairs(pairs).replace("\r\n", "\n"))


def _split_persistent_url(text: str, verbs: str, filepath: str) -> tuple[str, str, str]:
    """Return the IBI, the verbs and the file path of a request.

    :param text: an IBI or a persistent URL, which may contain verbs and a file path.
    :raises UsageError: if both the URL and an option contain verbs or a file path.
    """
    from flask_ibi_archive.core.protocol.relations import format_verb_list
    from flask_ibi_archive.core.resolution.persistent_url import (
        is_persistent_url,
        parse_persistent_url,
    )

    if not is_persistent_url(text):
        return text, verbs, filepath
    url = parse_persistent_url(text)
    if (url.verbs and verbs) or (url.path and filepath):
        raise click.UsageError(
            "this persistent URL already contains verbs or a path; omit --verbs and --filepath"
        )
    return url.ibi.text, verbs or format_verb_list(url.verbs), filepath or url.path


def _note_host_items(archive: Archive, command: str) -> None:
    """Tell the user that a command has left out the items of a host that has its own catalogue.

    :param command: what the command does, such as "verified".
    """
    records = archive.items.records
    if records is not None:
        name = records.name
        terminal.say(
            f"the items and files are in the tables of the repository ({name}): not {command}"
        )


@click.command("verify")
@click.option(
    "--prune", is_flag=True, help="Delete stored files that no item has needed for a day."
)
@json_option
def verify_command(prune: bool, as_json: bool) -> None:
    """Check the stored files against their checksums.

    Writes one line for each file that is missing or damaged: which of both, the IBI of the item,
    the path of the file, and the path of the stored file. Restore the stored file from a backup, or
    add the file to the item again. The exit status is 1 if there is a line. On a terminal, the
    command also says how many stored files no item needs.

    Each database needs a folder of files of its own: --prune deletes what the items of this
    database do not need.

    \b
    Example:
      flask --app example_app ibi verify
    """
    from flask_ibi_archive.archive import care

    archive = get_archive()
    _note_host_items(archive, "verified")
    database, files, archive_id = archive.database, archive.files_folder, archive.served().id
    faults = []
    with terminal.Bars(files="Verifying") as bars:
        for fault in care.find_faults(database, archive_id, files, partial(bars.show, "files")):
            faults.append(fault)
            bars.clear()
            if not as_json:
                terminal.write("\t".join(fault))
    care.store_faults(database, archive_id, faults, archive.clock())
    unneeded = care.find_unneeded(database, files, archive.clock(), prune)
    if as_json:
        found = [fault._asdict() for fault in faults]
        terminal.write_json({"faults": found, "unneeded": len(unneeded)})
    elif sys.stderr.isatty():
        deletion = "deleted" if prune else "verify --prune deletes them"
        terminal.say(
            f"{len(faults)} files are missing or damaged; "
            f"{len(unneeded)} stored files that no item needs ({deletion})"
        )
    if faults:
        raise click.exceptions.Exit(1)


@click.command("check-links")
@json_option
def check_links_command(as_json: bool) -> None:
    """Check that the addresses on other servers still answer.

    Checks the addresses of files and metadata. Writes one line for each that does not work: the
    address, the reason, and the items that use it, separated by tabs. The exit status is 1 if there
    is a line. Nothing is stored. A server may be down for an hour: check again before you change an
    item.

    Each address is requested once, and a host gets one request at a time. Internal hosts are only
    asked if IBI_INNER_HOSTS names them. The command does not read robots.txt, because the Archive
    shows the same addresses to its readers.

    \b
    Example:
      flask --app example_app ibi check-links
    """
    from flask_ibi_archive.archive import care

    archive = get_archive()
    _note_host_items(archive, "checked")
    found = care.read_links(archive.database, archive.served().id)
    broken = []
    with terminal.Bars(addresses="Checking") as bars:
        for link in care.find_broken(
            found,
            archive.config.base_url,
            archive.config.inner_hosts,
            partial(bars.show, "addresses"),
        ):
            broken.append(link)
            bars.clear()
            if not as_json:
                terminal.write("\t".join([link.url, link.error, ", ".join(link.items)]))
    if as_json:
        terminal.write_json([link._asdict() for link in broken])
    if broken:
        raise click.exceptions.Exit(1)


@click.command("renew-harvests")
def renew_harvests_command() -> None:
    """Let harvesters (OAI-PMH) read all items again.

    Run this command after a change of the sets or of a metadata format. The sets of the items are
    then computed again, and the next visit of each harvester includes all items.

    \b
    Example:
      flask --app example_app ibi renew-harvests
    """
    from flask_ibi_archive.archive.items.changes import renew

    archive = get_archive()
    archive.check_has_items()
    with archive.database.writing() as connection:
        renew(connection, archive.served().id)
    terminal.write("harvesters will read all items again")


@click.group("claims")
def claims_command() -> None:
    """Replace the key of the claims.

    In its claims, the Archive states in signed form what it holds. Resolvers read them at
    /ibi/claims. The private key is in the folder ibi_claims in IBI_FOLDER. The database does not
    contain it: keep a copy in a safe place.

    \b
    Example:
      flask --app example_app ibi claims rotate
    """


@claims_command.command("rotate")
@yes_option
def rotate_command(yes: bool) -> None:
    """Replace the private key, for example because others may know it.

    Prints the new public key. Resolvers do not accept claims with the new key until you run flask
    ibi register-archive. Until then, they ask the Archive for each item, as before it had claims.

    \b
    Example:
      flask --app example_app ibi claims rotate
    """
    claims = get_archive().claims
    if (hindrance := claims.find_hindrance()) is not None:
        raise click.ClickException(f"this Archive publishes no claims: {hindrance}")
    question = "Replace the key of the claims? Resolvers must then include the Archive again."
    terminal.confirm(question, yes)
    claims.key.replace()
    terminal.write(str(claims.find_public_key()).rstrip())
    terminal.say("now run: flask ibi register-archive")
