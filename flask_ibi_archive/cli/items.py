"""Looking at items: show, list, url-list."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.group import (
    json_option,
    say,
    the_archive,
    write,
    write_json,
    write_json_list,
)
from flask_ibi_archive.cli.parameters import read_ibi

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive_service import ArchiveService
    from flask_ibi_archive.archive.viewing import ItemView


def find_item(archive: ArchiveService, ibi: str) -> ItemView:
    """Return the item that bears an identifier, in whatever case.

    :raises UnknownItem: if there is none here.
    :raises IdentifierError: if it is no identifier.
    """
    from flask_ibi_archive.errors import UnknownItem
    from flask_ibi_archive.identifiers import parse_identifier

    text = parse_identifier(ibi).text
    item = archive.view(text)
    if item is None:
        raise UnknownItem(text)
    return item


@click.command("show")
@click.argument("ibi", type=read_ibi)
@json_option
@with_appcontext
def show_command(ibi: str, as_json: bool) -> None:
    """Show the record of an item.

    Any of its identifiers names it.

    \b
    Example:
      flask --app example_app ibi show 8JMKD3MGP8W/35MME4E
    """
    from flask_ibi_archive.records.format import format_record

    item = find_item(the_archive(), ibi)
    record = format_record(item.record)
    record.setdefault("state", item.record.state)
    if as_json:
        write_json(record)
        return
    for name, value in record.items():
        for line in _lines(name, value):
            write(line)


def _lines(name: str, value: Any) -> list[str]:
    """Return a field, and what lies in it, as lines "name value"."""
    if isinstance(value, dict):
        return [line for key, inner in value.items() for line in _lines(f"{name}.{key}", inner)]
    if isinstance(value, list):
        return [line for inner in value for line in _lines(name, inner)]
    shown = str(value).lower() if isinstance(value, bool) else " ".join(str(value).split())
    return [f"{name} {shown}"]


@click.command("list")
@click.option("--archives", is_flag=True, help="List the Archives of the database instead.")
@click.option("--limit", type=click.IntRange(1), help="Show at most this many items.")
@click.option(
    "--state",
    type=click.Choice(["Original", "Copy", "Deleted"], case_sensitive=False),
    help="Only items in this state.",
)
@click.option(
    "--search", metavar="TEXT", help="Only items with TEXT in a title, a creator or an identifier."
)
@json_option
@with_appcontext
def list_command(
    archives: bool, limit: int | None, state: str | None, search: str | None, as_json: bool
) -> None:
    """List the items, or the Archives of the database.

    An item a line: repository name, IBIp, state and title, separated by tabs.

    With --archives the Archives of the database: IBI of the service, address, how it stands with
    the resolver, since when, and what went wrong with the last request. How the Archive itself
    stands is told on standard error, on a terminal and where it does not stand well.

    \b
    Example:
      flask --app example_app ibi list
      flask --app example_app ibi list --state Original --search banon --limit 20
      flask --app example_app ibi list --archives
    """
    from flask_ibi_archive.archive.exporting import export_records
    from flask_ibi_archive.archive.viewing import ItemView
    from flask_ibi_archive.cli.registration import list_archives, tell_standing
    from flask_ibi_archive.records.format import format_record
    from flask_ibi_archive.storage.searching import select_items

    if archives and (limit, state, search) != (None, None, None):
        raise click.UsageError("--archives takes none of --limit, --state and --search")
    archive = the_archive()
    if archives:
        list_archives(archive, as_json)
        return
    records = export_records(
        archive.database,
        archive.served().id,
        archive.files_folder,
        select_items(state, search),
        limit,
    )
    if as_json:
        write_json_list({**format_record(record), "state": record.state} for record in records)
        return
    for record in records:
        title = " ".join(ItemView(record, False).title.split())
        write("\t".join([record.rep or "", record.ibip or "", record.state, title]))
    tell_standing(archive)


@click.command("url-list")
@click.argument("ibi")
@click.option("--verbs", default="", help='Such as "GetLastEdition GetMetadata(oai_dc)".')
@click.option("--filepath", default="", help="The path of a file of the item.")
@click.option("--ip", default="127.0.0.1", show_default=True, help="The user's address.")
@json_option
@with_appcontext
def url_list_command(ibi: str, verbs: str, filepath: str, ip: str, as_json: bool) -> None:
    """Show the answer to a resolver's urlRequest.

    IBI may be a persistent URL; its modifier and path are then the verbs and the file path. With
    --json a list of objects: name of the pair, relation ("" for the item itself, null where the
    pair is about the Archive) and value; that of an ibi pair is an object with rep, ibip or both.

    \b
    Example:
      flask --app example_app ibi url-list 8JMKD3MGP8W/35MME4E --verbs GetTranslation
      flask --app example_app ibi url-list 'http://urlib.net/8JMKD3MGP8W/35MME4E!:(oai_dc)'
    """
    from flask_ibi_archive.protocol.messages import UrlRequest, parse_request
    from flask_ibi_archive.protocol.pairs import format_pairs

    ibi, verbs, filepath = _read_wanted(ibi, verbs, filepath)
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
    pairs = the_archive().list_urls(request)
    if not pairs:
        say(f"no item of this Archive has the identifier {request.ibi.text}: the answer is empty")
    if as_json:
        write_json([_pair_object(*pair) for pair in sorted(pairs)])
        return
    text = format_pairs(pairs)
    if text:
        write(text.replace("\r\n", "\n"))


def _read_wanted(text: str, verbs: str, filepath: str) -> tuple[str, str, str]:
    """Return IBI, verbs and file path of a request; a persistent URL may give all of them."""
    from flask_ibi_archive.protocol.verbs import format_verb_list
    from flask_ibi_archive.resolution.persistent_url import is_persistent_url, parse_persistent_url

    if not is_persistent_url(text):
        return text, verbs, filepath
    url = parse_persistent_url(text)
    if (url.verbs and verbs) or (url.path and filepath):
        raise click.UsageError("the persistent URL and --verbs or --filepath exclude each other")
    return url.ibi.text, verbs or format_verb_list(url.verbs), filepath or url.path


def _pair_object(name: str, value: str | tuple[str, ...]) -> dict[str, Any]:
    """Return a pair of a URL list as an object."""
    from flask_ibi_archive.protocol.relations import parse_relation
    from flask_ibi_archive.protocol.url_list import OF_A_URL

    prefix, dot, rest = name.partition(".")
    relation = None
    if prefix in ("ibi", *OF_A_URL):
        with suppress(ValueError):  # ibi.archiveservice is about no relation
            relation = parse_relation(dot + rest).name
    return {
        "name": name,
        "relation": relation,
        # rep and ibip, each before its identifier
        "value": value
        if isinstance(value, str)
        else dict(zip(value[::2], value[1::2], strict=True)),
    }
