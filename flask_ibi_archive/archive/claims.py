"""The claims of an Archive: what it says it holds, as a list of changes in signed pages.

A resolver reads ``/ibi/claims?after=POSITION`` page by page, and stores what each page says. In a
page, a claim replaces the earlier claim of the same item, and ``Unclaimed`` removes it. A resolver
that has applied all pages up to one that says ``more false`` has the present claims of all items:
it knows all changes that were committed before the ``time`` of this last page.

A position is ``NUMBER-END-WORD-EPOCH``. NUMBER is the number of the last change that the reader has
seen (:mod:`.items.changes`). END and WORD are the last number of the log, and the random word of
its batch, when the reader saw it. The epoch is random. It identifies one complete reading of the
list, and is stored nowhere. If the database does not know END with this WORD, it is an older one
that was restored, and the reader may have seen what is lost. NUMBER alone is not enough. Example:
an item moved from a low number to one after END, and then the older database was restored. The item
has its low number again, and a reader in the middle of the list would never see it. Such a reader,
and one with an invented position, gets the list from its beginning, in a new epoch.

The items of a host with a catalogue of its own have no numbers. The catalogue lists its changes by
time and identifier. A change can be committed some minutes after the time that it states. Therefore
a position is ``TIME-BEGUN-WORD-IDENTIFIER-EPOCH``: the last change that the reader has seen, and
the time when it began to read what was new. When the reader has read all, the position goes back to
MAX_DELAY before this time. WORD is a part of the digest of the public key. An older catalogue that
was restored is not noticed: the resolver must be told to read again. It is unknown which items of a
host are hidden. The header names the prefixes with which the Archive mints, because hidden items
may have them.

Source: federation CL-1 to CL-6.
"""

from __future__ import annotations

import gzip
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from hashlib import blake2b, sha256
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flask import Response, current_app, request
from sqlalchemy import Connection, select

from flask_ibi_archive.archive.items import changes
from flask_ibi_archive.archive.items.changes import Change, ChangeBatch, make_claim
from flask_ibi_archive.archive.service.catalogue import RecordSource
from flask_ibi_archive.core import claim
from flask_ibi_archive.core.claim import MAX_PAGE
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.errors import ConfigError, NotReady, StorageError
from flask_ibi_archive.server.atomic_files import new_file
from flask_ibi_archive.server.database.database import lock_table_setup
from flask_ibi_archive.server.web.requests import current_archive
from flask_ibi_archive.server.web.responses import RETRY_AFTER, allow_origins, summarise_error

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

PATH = "/ibi/claims"
#: The largest number of claims in a page.
MAX_LIMIT = 5000
NO_LIMIT = "limit: write the number of claims, such as 1000\n"
#: A change in a host's catalogue may be committed this long after the time that it states.
MAX_DELAY = timedelta(minutes=5)

_FIRST = datetime.min.replace(tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_is_epoch = re.compile("[0-9a-f]{16}").fullmatch
_match_number = re.compile(r"([0-9]{1,18})-([0-9]{1,18})-([0-9a-f]{1,16})").fullmatch
_match_time = re.compile(r"([0-9]{1,18})-([0-9]{1,18})?-([0-9a-f]{16})-([!-z|~]*)").fullmatch
_is_limit = re.compile("0*[1-9][0-9]{0,9}").fullmatch


class _Part(NamedTuple):
    """Claims that follow a position in the list.

    :param lines: the claims.
    :param place: the position after the last of these claims, without the epoch.
    :param more: whether there are claims after this position.
    """

    lines: list[str]
    place: str
    more: bool
    hidden: Iterable[str | None]


class ClaimKey:
    """A folder with the private key of an Archive, and with the last position that was published.

    Several Archives can share the folder. All methods raise NotReady if the folder can't be used.

    :param service_ibi: the IBI of the Archive service.
    """

    def __init__(self, folder: Path, service_ibi: str) -> None:
        self.folder = folder
        # an identifier has characters that names of files can't have
        self._prefix = sha256(service_ibi.encode()).hexdigest()[:16]

    def find(self) -> Ed25519PrivateKey | None:
        """Return the key; None if there is no key yet."""
        stored = bytes.fromhex(self.read("key"))
        return Ed25519PrivateKey.from_private_bytes(stored) if stored else None

    def replace(self) -> None:
        """Write a new random key."""
        self.write("key", secrets.token_hex(32))

    def read(self, name: str) -> str:
        """Return the content of the file with a name; "" if there is no file."""
        with self._explaining():
            path = self._path(name)
            return path.read_text() if path.exists() else ""

    def write(self, name: str, text: str) -> None:
        """Replace the file with a name. A power failure leaves either the old or the new file."""
        with self._explaining():
            self.folder.mkdir(0o700, parents=True, exist_ok=True)
            with new_file(self._path(name)) as file:
                file.write(text.encode())

    def _path(self, name: str) -> Path:
        return self.folder / f"{self._prefix}.{name}"

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except (OSError, StorageError) as error:
            raise NotReady(
                "the folder of the claims can't be used",
                "set IBI_FOLDER to a folder that this process may write, or IBI_CLAIMS to false",
                str(error),
            ) from error


class Claims:
    """The claims that an Archive publishes.

    All methods raise NotReady if the database does not respond, or if the folder of the key can't
    be used.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    @property
    def key(self) -> ClaimKey:
        """The private key."""
        return ClaimKey(self._archive.config.claims_folder, self._archive.served().service_ibi)

    @property
    def is_enabled(self) -> bool:
        """Whether claims are to be published, with a key."""
        config, records = self._archive.config, self._archive.items.records
        return config.claims and (records is None or records.can_list_changes)

    def find_hindrance(self) -> str | None:
        """Return the reason why no claims are published; None if claims are published."""
        if not self._archive.config.claims:
            return "IBI_CLAIMS is false"
        if not self.is_enabled:
            return "the catalogue of the host has no method changes()"
        if self.key.find() is None:
            return "there is no private key; to make it, run: flask ibi init"
        return None

    def create_key(self) -> None:
        """Create a private key if there is none."""
        with self._archive.database.writing() as connection:
            lock_table_setup(connection)
            if self.key.find() is None:
                self.key.replace()

    def find_public_key(self) -> str | None:
        """Return the public key as text; None if no claims are published."""
        key = None if self.find_hindrance() else self.key.find()
        service_ibi = self._archive.served().service_ibi
        return None if key is None else claim.format_key(service_ibi, key.public_key())

    # --- pages -----------------------------------------------------------------------------------

    def read_page(self, after: str, limit: int) -> claim.Page:
        """Return the page that follows a position.

        :param after: the position in the last page that the reader got; "" for the first page.
        :param limit: the largest number of claims in the page.
        """
        # what is committed later may be missing in the page
        time = format_timestamp(self._archive.clock())
        has_notes = self._archive.items.records is None and self._number_changes()
        place, _, epoch = after.rpartition("-")
        part = self._read(place, limit) if place and _is_epoch(epoch) else None
        if part is None:
            after, epoch = "", secrets.token_hex(8)
            part = self._read("", limit)
        assert part is not None  # the beginning is always known
        return claim.Page(
            self._archive.served().service_ibi,
            epoch,
            after,
            f"{part.place}-{epoch}",
            part.more or has_notes,
            time,
            tuple(sorted({*" ".join(map(str, part.hidden)).split()})),
            tuple(part.lines),
        )

    def _number_changes(self) -> bool:
        """Number changes until the time for this is over; return whether there may be more."""
        archive = self._archive
        deadline = monotonic() + changes.PUBLISHING_SHARE * archive.config.database_timeout
        archive_id = archive.served().id
        _, has_notes = archive.database.read(
            lambda connection: changes.read_end(connection, archive_id)
        )
        while has_notes and monotonic() < deadline:
            with archive.database.writing() as connection:
                _, has_notes = archive.number_changes(connection)
        return has_notes

    def _read(self, place: str, limit: int) -> _Part | None:
        """Return the claims after a position; None if the database does not know the position.

        :param place: the position without the epoch; "" is the beginning, which is always known.
        """
        records = self._archive.items.records
        if records is not None:
            return self._read_host(records, place, limit)
        # all statements read the data of one moment, which END and WORD name
        with self._archive.database.snapshot() as connection:
            part = self._read_stored(connection, place, limit)
        if part is not None:
            published = part.place.partition("-")[2]
            if self.key.read("position") != published:
                self.key.write("position", published)
        return part

    def _read_stored(self, connection: Connection, place: str, limit: int) -> _Part | None:
        archive_id, number = self._archive.served().id, 0
        if place:
            found = _match_number(place)
            if found is None or not self._knows(connection, found[2], found[3]):
                return None
            number = int(found[1])
        batches = select(ChangeBatch.number, ChangeBatch.word)
        newest = batches.where(ChangeBatch.archive_id == archive_id)
        last = connection.execute(newest.order_by(ChangeBatch.number.desc()).limit(1)).first()
        end, word = last or (0, "0")
        in_archive = Change.archive_id == archive_id
        hidden = connection.scalars(
            select(Change.hidden_prefixes)
            .where(in_archive, Change.hidden_prefixes.is_not(None))
            .distinct()
        ).all()
        rows = connection.execute(
            select(Change.number, Change.claim)
            .where(in_archive, Change.number > number, Change.claim.is_not(None))
            .order_by(Change.number)
            .limit(limit + 1),
            execution_options={"yield_per": 500},
        )
        lines, seen, more = _cut(((row.number, row.claim) for row in rows), limit)
        rows.close()
        number = seen if more else end
        return _Part(lines, f"{number}-{end}-{word}", more, hidden)

    def _knows(self, connection: Connection, end: str, word: str) -> bool:
        """Return whether the batch that ends with a number has this random word.

        For the number 0, which comes before all batches, return True.
        """
        archive_id = self._archive.served().id
        batch = select(ChangeBatch.word).where(
            ChangeBatch.archive_id == archive_id, ChangeBatch.number == int(end)
        )
        return int(end) == 0 or connection.scalar(batch) == word

    def _read_host(self, records: RecordSource, place: str, limit: int) -> _Part | None:
        key, begun = self.key.find(), self._archive.clock()
        if key is None:
            raise NotReady("the private key of the claims is missing", "run: flask ibi init")
        secret, public = key.private_bytes_raw(), key.public_key().public_bytes_raw()
        word = sha256(public).hexdigest()[:16]
        after: tuple[datetime, str] | None = None
        if place:
            found = _match_time(place)
            if found is None or found[3] != word:
                return None
            try:
                if found[1] != "0":
                    after = _FIRST + int(found[1]) * _MICROSECOND, found[4]
                begun = _FIRST + int(found[2]) * _MICROSECOND if found[2] else begun
            except OverflowError:
                return None

        def describe(record: Record | None) -> str | None:
            if record is None:  # reserved
                return None
            # an unclaimed item must not show its identifier
            item = blake2b(record.identifiers[0].encode(), key=secret, digest_size=16).hexdigest()
            return claim.format_claim(make_claim(item, record))

        changed = records.iterate_changes(after and after[0], after, limit + 1)
        rows: Iterable[Any] = ((at, describe(record)) for at, record in changed)
        if not place and (service := self._archive.get(self._archive.served().service_ibi)):
            line = claim.format_claim(make_claim("service", service.record))
            rows = chain([((_FIRST, ""), line)], rows)
        lines, seen, more = _cut(rows, limit)
        after = seen or after or (_FIRST, "")
        started = str((begun - _FIRST) // _MICROSECOND) if more else ""
        if not more:
            after = min(after, (begun - MAX_DELAY, ""))
        time = (after[0] - _FIRST) // _MICROSECOND
        return _Part(lines, f"{time}-{started}-{word}-{after[1]}", more, self._list_prefixes())

    def _list_prefixes(self) -> Iterable[str]:
        """Return the prefixes of the service IBI, and those with which the Archive mints."""
        served = self._archive.served()
        names = [parse_identifier(ibi).prefix for ibi in (served.rep, served.ibip) if ibi]
        with suppress(ConfigError):  # this Archive does not mint
            names += self._archive.config.check_minting()
        return names

    # --- for the administrator -------------------------------------------------------------------

    def is_restored(self) -> bool:
        """Return whether an older database was restored, without the last published position."""
        end, _, word = self.key.read("position").partition("-")
        return bool(end) and not self._archive.database.read(
            lambda connection: self._knows(connection, end, word)
        )


def _cut(rows: Iterable[tuple[Any, str | None]], limit: int) -> tuple[list[str], Any, bool]:
    """Return the first lines, as many as fit into a page.

    :param rows: for each row, its place in the list and its line; a row without a line is skipped.
    :param limit: the largest number of rows.
    :returns: the lines; the place of the last row that was read, or None; whether there are more
        rows.
    """
    lines: list[str] = []
    size, seen = 0, None
    for count, (place, line) in enumerate(rows):
        size += 0 if line is None else len(line) + 1
        if count == limit or (lines and size > MAX_PAGE):
            return lines, seen, True
        seen = place
        if line is not None:
            lines.append(line)
    return lines, seen, False


# --- views -------------------------------------------------------------------------------------


def send_page() -> Response:
    """Answer a request for ``/ibi/claims``."""

    def send() -> Response | None:
        text = request.args.get("limit", str(MAX_LIMIT))
        if not _is_limit(text):
            return _text(NO_LIMIT, 400)
        claims = current_archive().claims
        key = None if claims.find_hindrance() else claims.key.find()
        if key is None:
            return None
        page = claims.read_page(request.args.get("after", ""), min(int(text), MAX_LIMIT))
        content = claim.format_page(page, key)
        is_compressed = request.accept_encodings["gzip"] > 0
        response = _text(gzip.compress(content, 6, mtime=0) if is_compressed else content)
        if is_compressed:
            response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding"
        name = " ".join([page.position, *page.hidden])
        response.set_etag(sha256(name.encode()).hexdigest()[:32], weak=True)
        if not page.claims and not page.more:
            response.make_conditional(request)
        return response

    return _answer(send)


def send_key() -> Response:
    """Answer a request for ``/ibi/claims/key``: the public key."""

    def send() -> Response | None:
        key = current_archive().claims.find_public_key()
        return None if key is None else _text(key)

    return _answer(send)


def _answer(send: Callable[[], Response | None]) -> Response:
    """Return the response that a function makes, or an error response (404 or 503).

    :param send: returns the response; None if no claims are published.
    """
    try:
        response = send() or _text("This Archive publishes no claims.\n", 404)
    except (NotReady, ConfigError) as error:
        current_app.logger.error("the claims can't be read: %s", error)
        response = _text(f"{summarise_error(error)}\n", 503)
        response.headers["Retry-After"] = RETRY_AFTER
    response.headers["Cache-Control"] = "no-store" if response.status_code >= 400 else "no-cache"
    response.headers["X-Content-Type-Options"] = "nosniff"
    allow_origins(response)
    return response


def _text(text: str | bytes, status: int = 200) -> Response:
    return Response(text, status, content_type="text/plain; charset=utf-8")
