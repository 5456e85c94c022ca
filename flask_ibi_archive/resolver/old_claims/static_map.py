"""All bindings as a ``map`` for nginx, so that persistent URLs lead somewhere without any resolver.

The map contains the place last known of each identifier and alias: the address of the Archive that
claims it, which answers persistent URLs on its own host. Source: federation RS-2.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple
from urllib.parse import unquote_to_bytes

from sqlalchemy import select

from flask_ibi_archive.resolver.old_claims.bound_names import OnProgress, sort_names
from flask_ibi_archive.resolver.old_claims.kept_logs import KeptLogs
from flask_ibi_archive.resolver.tables import RegisteredArchive
from flask_ibi_archive.server.files import new_file

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.service import ResolverService

_REPEATED_SLASHES = re.compile(b"/+")
_CONTROL = re.compile(rb"[\x00-\x1f\x7f\\]")
_REGULAR = re.compile(rb"([^A-Za-z0-9/_-])")

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


class MapCounts(NamedTuple):
    """The numbers of names that were written.

    :param left_out: the names that no path can express, such as addresses with a query.
    """

    names: int
    left_out: int


def fold_name(name: str) -> bytes:
    """Return a name as a path in the form in which nginx compares paths.

    nginx decodes %XX, joins repeated slashes, and ignores the case of ASCII letters.
    """
    return _make_path(name).lower()


def _make_path(name: str) -> bytes:
    return b"/" + _REPEATED_SLASHES.sub(b"/", unquote_to_bytes(name))


def export_map(
    service: ResolverService, path: Path, on_read: OnProgress, on_sorted: OnProgress
) -> MapCounts:
    """Write the bindings of all included Archives to a file, which is replaced when it is complete.

    :param on_read: the progress of reading claims.
    :param on_sorted: the progress of writing names.
    :raises StorageError: if the file can't be written.
    :raises ClaimError: if a file of a kept log is damaged.
    :raises NotReady: if the database does not answer.
    """
    table = RegisteredArchive
    included = select(table.id, table.address).where(table.included_at.is_not(None))
    logs = KeptLogs(service.config.claims_folder / "logs")
    names = left_out = longest = 0
    with service.database.reading() as connection, new_file(path, 0o644) as file:
        file.write(_format_start(names, longest))
        addresses = {row.id: row.address for row in connection.execute(included)}
        kept = [archive_id for archive_id in logs.list_archives() if archive_id in addresses]
        for group in sort_names(connection, logs, kept, fold_name, on_read, on_sorted):
            for bound in group:
                place = bound.find_place()
                name = _make_path(place.name)
                if not _is_clean(place.name, name):
                    left_out += 1
                    continue
                url = f"http://{addresses[place.archive_id]}/{place.ibi}"
                # names that differ only in their case: a regular expression can tell them apart
                _write_name(file, name, url, is_exact=len(group) > 1)
                names += 1
                longest = max(longest, len(name))
        file.write(b"}\n")
        file.seek(0)
        file.write(_format_start(names, longest))
    return MapCounts(names, left_out)


def _is_clean(name: str, path: bytes) -> bool:
    """Return whether nginx compares the path in a request for a name with exactly this path."""
    segments = path.split(b"/")[1:]
    return "?" not in name and not _CONTROL.search(path) and not {b".", b".."} & set(segments)


def _write_name(file: BinaryIO, path: bytes, url: str, is_exact: bool) -> None:
    if is_exact:
        path = b"~^" + _REGULAR.sub(rb"\\\1", path) + b"$"
    quoted = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    file.write(b'"' + quoted + b'" "' + url.encode() + b'";\n')


def _format_start(names: int, longest: int) -> bytes:
    """Return what precedes the names, with tables that are large enough for them."""
    bucket = 64
    while bucket < 4 * (longest + 32):
        bucket *= 2
    max_size = max(2048, 2 * names)
    return _MAP.format(max_size=max_size, bucket_size=bucket, **_PATTERNS).encode()
