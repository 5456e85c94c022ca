"""The commands show, list and url-list. They show items and the URLs of items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from flask_ibi_archive.server.commands.group import find_item, get_archive, json_option, read_ibi
from flask_ibi_archive.server.commands.terminal import say, write, write_json, write_json_list

if TYPE_CHECKING:
    from flask_ibi_archive.core.records.item_view import ItemView


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
    from flask_ibi_archive.core.records.fields import format_record

    item = find_item(get_archive(), ibi)
    record = format_record(item.record)
    record.setdefault("state", item.record.state)
    if as_json:
        write_json(record)
        return
    for name, value in record.items():
        for line in _format_field(name, value):
            write(line)


def _format_field(name: str, value: Any) -> Iterator[str]:
    """Yield a line "name value" for a field, or for each of its nested fields."""
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
@click.option(
    "--archives", is_flag=True, help="List the Archives of the database instead of the items."
)
@click.option("--limit", type=click.IntRange(1), help="The largest number of items.")
@click.option(
    "--state",
    type=click.Choice(["Original", "Copy", "Deleted"], case_sensitive=False),
    help="List only items in this state.",
)
@click.option(
    "--search",
    metavar="TEXT",
    help="List only items with TEXT in a title, a creator or an identifier.",
)
@json_option
def list_command(
    archives: bool, limit: int | None, state: str | None, search: str | None, as_json: bool
) -> None:
    """List the items, or the Archives of the database.

    Prints one line for each item: repository name, IBIp, state and title, separated by tabs.

    With --archives, prints one line for each Archive of the database. The line contains the IBI of
    the service, the address, the status of the registration with the resolver, the date of this
    status, and the error of the last request.

    After a list of items, the command shows the registration status of this Archive on standard
    error. Without a terminal, the status is shown only if there is a problem. With --json, the
    status is not shown.

    \b
    Example:
      flask --app example_app ibi list
      flask --app example_app ibi list --state Original --search banon --limit 20
      flask --app example_app ibi list --archives
    """
    from flask_ibi_archive.archive.joining.registration_commands import (
        list_archives,
        write_registration,
    )

    if archives and (limit, state, search) != (None, None, None):
        raise click.UsageError("--archives cannot be used with --limit, --state or --search")
    archive = get_archive()
    if archives:
        list_archives(archive, as_json)
        return
    _write_items(archive.find(search, state=state, limit=limit), as_json)
    if not as_json:
        write_registration(archive)


def _write_items(items: Iterable[ItemView], as_json: bool) -> None:
    from flask_ibi_archive.core.records.fields import format_record

    if as_json:
        write_json_list({**format_record(one.record), "state": one.record.state} for one in items)
        return
    for item in items:
        title = " ".join(item.title.split())
        write("\t".join([item.rep or "", item.ibip or "", item.record.state, title]))


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

    --json prints a list of objects. Each object contains the name of a pair, the relation and the
    value. The relation is "" for the item itself. The relation is null if the pair is about the
    Archive. The value of an ibi pair is an object with rep, ibip or both.

    \b
    Example:
      flask --app example_app ibi url-list 8JMKD3MGP8W/35MME4E --verbs GetTranslation
      flask --app example_app ibi url-list 'http://urlib.net/8JMKD3MGP8W/35MME4E!:(oai_dc)'
    """
    from flask_ibi_archive.core.protocol.messages import UrlRequest, parse_request
    from flask_ibi_archive.core.protocol.pairs import format_pairs

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
        say(f"no item of this Archive has the identifier {request.ibi.text}: the answer is empty")
    if as_json:
        write_json([_build_pair_json(*pair) for pair in sorted(pairs)])
        return
    text = format_pairs(pairs)
    if text:
        write(text.replace("\r\n", "\n"))


def _split_persistent_url(text: str, verbs: str, filepath: str) -> tuple[str, str, str]:
    """Return the IBI, the verbs and the file path. The IBI may be given as a persistent URL.

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


def _build_pair_json(name: str, value: str | tuple[str, ...]) -> dict[str, Any]:
    """Return a pair of a URL list as a JSON object."""
    from flask_ibi_archive.core.protocol.relations import parse_relation
    from flask_ibi_archive.core.protocol.url_list import URL_PAIR_NAMES

    prefix, dot, rest = name.partition(".")
    relation = None
    if prefix in ("ibi", *URL_PAIR_NAMES):
        with suppress(ValueError):  # ibi.archiveservice has no relation
            relation = parse_relation(dot + rest).name
    return {
        "name": name,
        "relation": relation,
        # a tuple contains the words "rep" or "ibip"; an identifier follows each word
        "value": value
        if isinstance(value, str)
        else dict(zip(value[::2], value[1::2], strict=True)),
    }
