"""Checks that keep an Archive in order: are all stored files undamaged, and do all links work?"""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import lru_cache
from threading import Lock
from typing import NamedTuple
from urllib.parse import urlsplit

from sqlalchemy import JSON, ForeignKey, func, or_, select
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive.archive.items.files import GRACE, Content, FileStore, measure
from flask_ibi_archive.archive.items.read import remove_unneeded
from flask_ibi_archive.archive.items.tables import Base, File, Item
from flask_ibi_archive.core.protocol.hosts import InnerHosts
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import (
    Key,
    UTCDateTime,
    batched,
    insert_or_update,
    read_pages,
)
from flask_ibi_archive.server.http.transport import find_link_error


class FileCheck(Base):
    """A row with the result of the last check of all stored files (``flask ibi verify``)."""

    __tablename__ = "ibi_file_check"

    archive_id: Mapped[int] = mapped_column(
        Key,
        ForeignKey("ibi_archive.id", name="fk_ibi_file_check_archive"),
        primary_key=True,
        autoincrement=False,
    )
    checked_at: Mapped[datetime] = mapped_column(UTCDateTime)
    #: For each file that is missing or damaged: which of both, the IBI of the item, and the path.
    faults: Mapped[list[dict[str, str]]] = mapped_column(JSON)


#: The number of addresses that are checked at the same time.
THREADS = 8
#: After so many consecutive links to a host that can't be reached, its other links fail, too.
MAX_FAILURES = 3


class BrokenLink(NamedTuple):
    """An address that does not work, the reason, and the identifiers of the items that use it."""

    url: str
    error: str
    items: list[str]


def read_links(database: Database, archive_id: int) -> dict[str, list[str]]:
    """Return the addresses of files, metadata and formats on other servers.

    :returns: for each address, the identifiers of the items that use the address.
    """
    ibi, links = func.coalesce(Item.rep, Item.ibip).label("ibi"), defaultdict(list)
    # the others show no links to readers
    shown = Item.archive_id == archive_id, Item.state != State.DELETED.value
    files = select(File.url, ibi).join(Item, Item.id == File.item_id)
    of_url = files.where(*shown, File.url.is_not(None)).order_by(Item.id, File.position)
    for row in database.read_rows(of_url):
        links[row.url].append(row.ibi)
    has_links = or_(Item.metadata_url.is_not(None), Item.formats.is_not(None))
    metadata = select(Item.metadata_url, Item.metadata_formats, Item.formats, ibi)
    for row in database.read_rows(metadata.where(*shown, has_links).order_by(Item.id)):
        formats = {**(row.metadata_formats or {}), **(row.formats or {})}
        for url in filter(None, (row.metadata_url, *formats.values())):
            links[url].append(row.ibi)
    return links


def find_broken(
    links: dict[str, list[str]],
    base_url: str,
    inner_hosts: InnerHosts,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[BrokenLink]:
    """Request addresses, and yield those that do not work. A host gets one request at a time.

    :param links: the result of :func:`read_links`.
    :param base_url: the address of the Archive, which each request contains.
    :param inner_hosts: the internal hosts to which requests may be sent.
    :param progress: called with the number of checked addresses and the number of all addresses.
    """
    locks = {urlsplit(url).netloc: Lock() for url in links}
    failures: Counter[str] = Counter()

    def check(url: str) -> tuple[str, str | None]:
        host = urlsplit(url).netloc
        with locks[host]:
            if failures[host] >= MAX_FAILURES:
                return url, "the host can't be reached"
            error = find_link_error(url, base_url, inner_hosts)
            failures[host] = failures[host] + 1 if error and error.is_of_host else 0
            return url, error and error.reason

    with ThreadPoolExecutor(THREADS) as pool:
        results = (result for part in batched(links) for result in pool.map(check, part))
        for done, (url, error) in enumerate(results, 1):
            progress(done, len(links))
            if error is not None:
                yield BrokenLink(url, error, links[url])


#: The number of contents whose checksums are remembered, because several items may share them.
REMEMBERED = 1000
#: The number of faults that are stored for the page of the librarian.
MAX_STORED = 1000


class Fault(NamedTuple):
    """A file of an item whose stored content is ``missing`` or ``damaged``.

    :param path: the path of the file in the item.
    :param file: the path of the stored file.
    """

    kind: str
    ibi: str
    path: str
    file: str


def find_faults(
    database: Database,
    archive_id: int,
    files: FileStore,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[Fault]:
    """Yield the faults of the stored files. While files are read, no transaction is open.

    :param progress: called with the number of checked files and the number of all files.
    """
    columns = select(File.item_id, File.path, File.sha256, File.size)
    of_items = columns.join(Item, Item.id == File.item_id)
    stored = of_items.where(Item.archive_id == archive_id, File.size.is_not(None))
    total = database.read_rows(select(func.count()).select_from(stored.subquery()))[0][0]
    with_ibi = stored.add_columns(func.coalesce(Item.rep, Item.ibip).label("ibi"))
    measure_once = lru_cache(REMEMBERED)(measure)
    rows = read_pages(database.read_rows, with_ibi, File.item_id, File.path, start=Item.id)
    for done, row in enumerate(rows, 1):
        path = files.path(row.sha256)
        try:
            is_damaged = measure_once(path) != Content(row.sha256, row.size)
        except OSError:
            is_damaged = True
        # the row may have been deleted or changed meanwhile
        same = File.item_id == row.item_id, File.path == row.path, File.sha256 == row.sha256
        if is_damaged and database.read_rows(stored.where(*same)):
            kind = "damaged" if path.exists() else "missing"
            yield Fault(kind, row.ibi, row.path, str(path))
        progress(done, total)


def store_faults(
    database: Database, archive_id: int, faults: Sequence[Fault], now: datetime
) -> None:
    """Replace the stored result of the last check, which the page of the librarian shows."""
    stored = [{"kind": one.kind, "ibi": one.ibi, "path": one.path} for one in faults[:MAX_STORED]]
    values = {"checked_at": now, "faults": stored}
    with database.writing() as connection:
        statement = insert_or_update(connection, FileCheck).values(archive_id=archive_id, **values)
        update = statement.on_conflict_do_update(index_elements=["archive_id"], set_=values)
        connection.execute(update)


def find_unneeded(
    database: Database, files: FileStore, now: datetime, remove: bool = False
) -> list[str]:
    """Return the checksums of the stored files that no item of any Archive has needed for a day.

    :param remove: whether these files are deleted, with the staging folders of killed processes.
    :raises StorageError: if the folder of the files cannot be read or changed.
    """
    # a younger file may belong to a row that is added later
    before = now.timestamp() - GRACE
    old = [file.sha256 for file in files.walk() if file.modified < before]
    with database.reading() as connection:
        needed = set(connection.scalars(select(File.sha256).where(File.size.is_not(None))))
    unneeded = [sha256 for sha256 in old if sha256 not in needed]
    if remove:
        for batch in batched(unneeded):
            with database.writing() as connection:
                remove_unneeded(connection, files, batch, before)
        for path in files.find_stale_stagings(before):
            shutil.rmtree(path, ignore_errors=True)
    return unneeded
