"""All bindings as static files, so that persistent URLs lead somewhere without any resolver.

The files contain the place last known of each identifier and alias: the address of the Archive that
claims it, which answers persistent URLs on its own host. They are written in two forms: a ``map``
for nginx, and a tree of HTML pages for any web server. Source: federation RS-2.
"""

from __future__ import annotations

import json
import re
import shutil
from datetime import datetime, timezone
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple
from urllib.parse import unquote_to_bytes

from sqlalchemy import select

from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.claims.bound_names import OnProgress, sort_names
from flask_ibi_archive.resolver.claims.kept_logs import KeptLogs
from flask_ibi_archive.resolver.tables import RegisteredArchive

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.service import ResolverService

#: This file marks a folder that may be replaced.
MARK = "ibi-map.json"

_REPEATED_SLASHES = re.compile(b"/+")
_CONTROL = re.compile(rb"[\x00-\x1f\x7f\\]")
_REGULAR = re.compile(rb"([^A-Za-z0-9/_-])")
#: The maximum length of the name of a file in bytes.
MAX_FILE = 255

#: Regular expressions of nginx: what may precede an identifier, a repository name, an IBIp.
_PATTERNS = {
    "prefix": "(?:/rep|/ibi)?",
    "rep": "/[^/:?]+/[^/:?!+]+/[0-9][0-9][0-9][0-9]/[0-9.]+",
    "ibip": "/[0-9A-Z]+/[0-9A-Z]+",
}
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>{name}</title>
<link rel="canonical" href="{url}">
<meta http-equiv="refresh" content="0; url={url}">
<p><a href="{url}">{name}</a></p>
</html>
"""
_MAP = """\
# Include this file in the block "http" of nginx.conf.
map_hash_max_size {max_size};
map_hash_bucket_size {bucket_size};

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
    include ibi/names.map;
}}
"""
_SERVER = """\
# Include this file in a block "server" of nginx.conf.
location / {
    if ($ibi_target) {
        return 302 $ibi_target$ibi_rest$is_args$args;
    }
    return 404;
}
"""
_README = """\
Where the identifiers and aliases of Archives lead, on {time}.

nginx/   For nginx: copy the folder to /etc/nginx/ibi, include ibi/http.conf in the block "http" and
         ibi/server.conf in a block "server". nginx keeps the names in memory: about 200 bytes each.
html/    For any web server: a page for each name, which leads to the item. Names must be
         written in their usual case, and modifiers are not possible.
"""


class MapCounts(NamedTuple):
    """The numbers of names that were written.

    :param names: the names in the map for nginx.
    :param pages: the pages in the tree.
    :param left_out: the names that no file can express, such as addresses with a query.
    """

    names: int
    pages: int
    left_out: int


def fold_name(name: str) -> bytes:
    """Return a name as a path in the form in which nginx compares paths.

    nginx decodes %XX, joins repeated slashes, and ignores the case of ASCII letters.
    """
    return _make_path(name).lower()


def _make_path(name: str) -> bytes:
    return b"/" + _REPEATED_SLASHES.sub(b"/", unquote_to_bytes(name))


def export_map(
    service: ResolverService, folder: Path, on_read: OnProgress, on_sorted: OnProgress
) -> MapCounts:
    """Write the bindings of all included Archives to a folder.

    The files are written to a new folder beside it, which then takes its place. If the function is
    interrupted, the earlier files remain.

    :param folder: the folder. It must not exist, be empty, or contain an earlier map.
    :param on_read: the progress of reading claims.
    :param on_sorted: the progress of writing names.
    :raises StorageError: if the files can't be written, or the folder contains something else.
    :raises ClaimError: if a file of a kept log is damaged.
    :raises NotReady: if the database does not answer.
    """
    folder = folder.absolute()
    new, old = (folder.with_name(f"{folder.name}.{end}") for end in ("new", "old"))
    try:
        for path in (folder, new, old):
            _check_replaceable(path)
        for path in (new, old):
            shutil.rmtree(path, ignore_errors=True)
        new.mkdir(parents=True)
        (new / MARK).write_text("{}\n", "utf-8")
        counts = _write_files(service, new, on_read, on_sorted)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise StorageError(f"{folder} can't be written: {error.strerror or error}") from error
    return counts


def _check_replaceable(path: Path) -> None:
    if path.is_dir():
        if not any(path.iterdir()) or (path / MARK).is_file():
            return
    elif not path.exists():
        return
    raise StorageError(f"{path} exists and is no map; choose another folder")


def _write_files(
    service: ResolverService, folder: Path, on_read: OnProgress, on_sorted: OnProgress
) -> MapCounts:
    table = RegisteredArchive
    included = select(table.id, table.address).where(table.included_at.is_not(None))
    nginx, html = folder / "nginx", folder / "html"
    nginx.mkdir()
    html.mkdir()
    logs = KeptLogs(service.config.claims_folder / "logs")
    names = pages = left_out = longest = 0
    with (
        service.database.reading() as connection,
        (nginx / "names.map").open("wb") as file,
    ):
        addresses = {row.id: row.address for row in connection.execute(included)}
        kept = [archive_id for archive_id in logs.list_archives() if archive_id in addresses]
        for group in sort_names(connection, logs, kept, fold_name, on_read, on_sorted):
            for bound in group:
                place = bound.find_place()
                path = _make_path(place.name)
                url = f"http://{addresses[place.archive_id]}/{place.ibi}"
                if not _is_clean(place.name, path):
                    left_out += 1
                    continue
                # names that differ only in their case: a regular expression can tell them apart
                _write_name(file, path, url, is_exact=len(group) > 1)
                names += 1
                longest = max(longest, len(path))
                pages += _write_page(html, path, place.name, url)
    (nginx / "http.conf").write_text(_format_map(names, longest), "utf-8")
    (nginx / "server.conf").write_text(_SERVER, "utf-8")
    time = format_timestamp(datetime.now(timezone.utc))
    (folder / "README.txt").write_text(_README.format(time=time), "utf-8")
    values = {"time": time, "names": names, "pages": pages, "left_out": left_out}
    (folder / MARK).write_text(f"{json.dumps(values)}\n", "utf-8")
    return MapCounts(names, pages, left_out)


def _is_clean(name: str, path: bytes) -> bool:
    """Return whether the path in a request for a name can be the path of a file."""
    segments = path.split(b"/")[1:]
    return "?" not in name and not _CONTROL.search(path) and not {b".", b".."} & set(segments)


def _write_name(file: BinaryIO, path: bytes, url: str, is_exact: bool) -> None:
    if is_exact:
        path = b"~^" + _REGULAR.sub(rb"\\\1", path) + b"$"
    quoted = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    file.write(b'"' + quoted + b'" "' + url.encode() + b'";\n')


def _write_page(folder: Path, path: bytes, name: str, url: str) -> bool:
    """Write the page of a name; return False if no file can have this path."""
    segments = path.strip(b"/").split(b"/")
    if any(len(segment) > MAX_FILE or segment == b"index.html" for segment in segments):
        return False
    try:
        place = folder.joinpath(*[segment.decode() for segment in segments])
    except UnicodeDecodeError:
        return False
    place.mkdir(parents=True, exist_ok=True)
    page = _PAGE.format(name=escape(name), url=escape(url))
    (place / "index.html").write_text(page, "utf-8")
    return True


def _format_map(names: int, longest: int) -> str:
    """Return the configuration, with tables that are large enough for the names."""
    bucket = 64
    while bucket < 4 * (longest + 32):
        bucket *= 2
    return _MAP.format(max_size=max(2048, 2 * names), bucket_size=bucket, **_PATTERNS)
