"""The command ``export-map``: writes a map for nginx that leads persistent URLs to Archives.

For each identifier and alias, the map contains the last known address of the Archive that claims
it. Every Archive answers persistent URLs on its own host. Source: federation RS-2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote_to_bytes

import click
from sqlalchemy import Connection, case, func, select
from sqlalchemy.orm import aliased

from flask_ibi_archive.core.identifiers.grammar import match_identifier
from flask_ibi_archive.resolver.archives import order_claim
from flask_ibi_archive.resolver.commands import get_resolver
from flask_ibi_archive.resolver.tables import ClaimedName, RegisteredArchive
from flask_ibi_archive.server.atomic_files import new_file
from flask_ibi_archive.server.commands import terminal

#: The number of rows that are read at once.
STEP = 10_000

_REPEATED_SLASHES = re.compile(b"/+")
_CONTROL = re.compile(rb"[\x00-\x1f\x7f\\]")
_SPECIAL = re.compile(rb"([^A-Za-z0-9/_-])")
_QUOTED = re.compile(rb'[\\"]')

#: Regular expressions of nginx: what may precede an identifier, a repository name, an IBIp.
_PATTERNS = {
    "prefix": "(?:/rep|/ibi)?",
    "rep": "/[^/:?]+/[^/:?!+]+/[0-9][0-9][0-9][0-9]/[0-9.]+",
    "ibip": "/[0-9A-Z]+/[0-9A-Z]+",
}
#: The numbers have a fixed width: they are known at the end, and written in their place then.
_MAP = """\
# Include this file in the block "http" of nginx.conf, and write in a block "server":
#     location / {{
#         if ($ibi_target) {{
#             return 302 $ibi_target$ibi_rest$is_args$args;
#         }}
#         return 404;
#     }}
map_hash_max_size {max_size:<12};
map_hash_bucket_size {bucket_size:<12};

# The identifier, without a prefix, a modifier and a path.
map $uri $ibi_name {{
    default $uri;
    "~*^{prefix}(?<ibi_rep>{rep})(?:[!+:/]|$)" $ibi_rep;
    "~*^{prefix}(?<ibi_ibip>{ibip})(?:[!+:/]|$)" $ibi_ibip;
    "~*^/https:(?<ibi_address>/.*)" /http:$ibi_address;
}}

# What follows the identifier, as the client has sent it.
map $request_uri $ibi_rest {{
    default "";
    "~*^{prefix}{rep}(?<ibi_after_rep>[!+:/][^?]*)" $ibi_after_rep;
    "~*^{prefix}{ibip}(?<ibi_after_ibip>[!+:/][^?]*)" $ibi_after_ibip;
}}

# nginx ignores the case of these names, as a resolver does.
map $ibi_name $ibi_target {{
    default "";
"""


@click.command("export-map")
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
def export_map_command(path: Path) -> None:
    """Write where all persistent URLs lead as a map for nginx.

    With FILE, an nginx can lead readers to the Archives if no resolver is left. The first lines of
    FILE say how to include it. The names and their places are those in the claims that the resolver
    has read. A name leads to the Archive that the resolver would ask first. An earlier FILE is
    replaced when the new one is complete.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver export-map /etc/nginx/ibi.conf
    """
    with (
        get_resolver().database.snapshot() as connection,
        new_file(path, 0o644) as file,
    ):
        names, left_out = write_map(file, read_names(connection))
    terminal.write(f"{names} names, {left_out} left out")


def read_names(connection: Connection) -> Iterable[Any]:
    """Return a row for each claim of an included Archive, sorted by the names in lower case.

    Beside the name, each row contains an identifier of the item, which URLs need for an alias.
    """
    item = aliased(ClaimedName)
    identifier = (
        select(item.name)
        .where(
            item.archive_id == ClaimedName.archive_id,
            item.reading == ClaimedName.reading,
            item.item == ClaimedName.item,
            item.kind < 3,
        )
        .order_by(item.kind)
        .limit(1)
        .scalar_subquery()
    )
    statement = (
        select(
            func.lower(ClaimedName.name).label("folded"),
            ClaimedName.name,
            case(
                (ClaimedName.kind < 3, ClaimedName.name),
                # between two pages, another item may have got the identifier of an alias
                else_=func.coalesce(identifier, ClaimedName.name),
            ).label("ibi"),
            ClaimedName.state,
            ClaimedName.since,
            RegisteredArchive.id,
            RegisteredArchive.service_ibi,
            RegisteredArchive.address,
            RegisteredArchive.included_at,
        )
        .join(RegisteredArchive, RegisteredArchive.id == ClaimedName.archive_id)
        .where(RegisteredArchive.included_at.is_not(None))
        .order_by("folded", ClaimedName.name)
    )
    return connection.execution_options(yield_per=STEP).execute(statement)


def write_map(file: BinaryIO, rows: Iterable[Any]) -> tuple[int, int]:
    """Write a map; return ``(written, left out)``: two numbers of names.

    Names that no path can express, such as addresses with a query, are left out.

    :param rows: the result of :func:`read_names`.
    """
    names = left_out = longest = 0
    file.write(_format_start(names, longest))
    for _, group in groupby(rows, lambda row: row.folded):
        claims = [list(claims) for _, claims in groupby(group, lambda row: row.name)]
        for claimants in claims:
            identifier = match_identifier(claimants[0].name)
            prefix = "" if identifier is None else identifier.prefix
            first = min(claimants, key=lambda row: order_claim(row, row, prefix))
            path = _make_path(first.name)
            if "?" in first.name or not _is_clean(path):
                left_out += 1
                continue
            key = path
            if len(claims) > 1 or "%" in first.name or "//" in first.name:
                # names that differ only in their case, or that may become equal: nginx accepts
                # several regular expressions that match
                sign = b"~^" if len(claims) > 1 else b"~*^"
                key = sign + _SPECIAL.sub(rb"\\\1", path) + b"$"
            url = f"http://{first.address}/{first.ibi}"
            file.write(b'"%b" "%b";\n' % (_QUOTED.sub(rb"\\\g<0>", key), url.encode()))
            names += 1
            longest = max(longest, len(path))
    file.write(b"}\n")
    file.seek(0)
    file.write(_format_start(names, longest))
    return names, left_out


def _make_path(name: str) -> bytes:
    """Return the path of a request for a name, as nginx looks for it in the map.

    nginx has then decoded %XX and joined repeated slashes.
    """
    kind, _, rest = name.partition(":")
    path = f"http://{rest}" if kind == "url" else name
    return b"/" + _REPEATED_SLASHES.sub(b"/", unquote_to_bytes(path))


def _is_clean(path: bytes) -> bool:
    """Return whether nginx leaves a path unchanged before it looks for the path in the map."""
    return not _CONTROL.search(path) and not {b".", b".."} & set(path.split(b"/")[1:])


def _format_start(names: int, longest: int) -> bytes:
    """Return the beginning of the map, with hash tables that are large enough for the names."""
    bucket = 64
    while bucket < 4 * (longest + 32):
        bucket *= 2
    max_size = max(2048, 2 * names)
    return _MAP.format(max_size=max_size, bucket_size=bucket, **_PATTERNS).encode()
