"""Looking at items: show, list, url-list."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from flask_ibi_archive.service.archive import ArchiveService
    from flask_ibi_archive.service.viewing import ItemView


def find_item(archive: ArchiveService, ibi: str) -> ItemView:
    """Give the item that bears an identifier, in whatever case.

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
@click.argument("ibi")
@json_option
@with_appcontext
def show_command(ibi: str, as_json: bool) -> None:
    """Show all that is known of an item, by any of its identifiers.

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
    """Give a field, and what lies in it, as lines "name value"."""
    if isinstance(value, dict):
        return [line for key, inner in value.items() for line in _lines(f"{name}.{key}", inner)]
    if isinstance(value, list):
        return [line for inner in value for line in _lines(name, inner)]
    shown = str(value).lower() if isinstance(value, bool) else " ".join(str(value).split())
    return [f"{name} {shown}"]


@click.command("list")
@click.option("--archives", is_flag=True, help="List the Archives of the database instead.")
@json_option
@with_appcontext
def list_command(archives: bool, as_json: bool) -> None:
    """List the items, one a line: repository name, IBIp, state and title, apart by tabs.

    With --archives the Archives of the database: IBI of the service, address, how it stands with the
    resolver, since when, and what went wrong with the last request. How the Archive itself stands is told
    on standard error, on a terminal and where it does not stand well.

    \b
    Example:
      flask --app example_app ibi list
      flask --app example_app ibi list --archives
    """
    from flask_ibi_archive.cli.registration import list_archives, tell_standing
    from flask_ibi_archive.records.format import format_record
    from flask_ibi_archive.service.exporting import export_records
    from flask_ibi_archive.service.viewing import ItemView

    archive = the_archive()
    if archives:
        list_archives(archive, as_json)
        return
    records = export_records(archive.database, archive.served().id, archive.files_folder)
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
    """Print what the Archive would answer to a resolver's urlRequest.

    \b
    Example:
      flask --app example_app ibi url-list 8JMKD3MGP8W/35MME4E --verbs GetTranslation
    """
    from flask_ibi_archive.protocol.messages import UrlRequest, parse_request
    from flask_ibi_archive.protocol.pairs import format_pairs

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
        say(f"no item of this Archive bears {request.ibi.text}: the answer is empty")
    if as_json:
        write_json(dict(sorted(pairs)))
        return
    text = format_pairs(pairs)
    if text:
        write(text.replace("\r\n", "\n"))
