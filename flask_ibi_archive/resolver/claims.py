"""The claims of Archives: a *follower* reads them page by page, and stores them in tables.

Theory. An Archive publishes a list of its items in the order of their last changes. A page of the
list begins after a *position* and ends at the next one. When an item changes, it moves to the end
of the list. A reader reads page after page, until a page says that there are no more claims. Then
the reader knows each item of the Archive, however often the items changed meanwhile. From then on,
only changes are read. If the Archive no longer knows the position, because its database was
restored, it begins another *epoch*: the list is read again from the beginning, and other texts may
stand for the items.

A row of the table of claims says that an Archive claims an item under a name. The column
``reading`` contains the number of the epoch in which the name was last stated. A page and the
position at the end of the page are stored in one transaction, but only if the stored position and
key have not changed since the page was requested. So a follower that was killed, or that lost its
lease without noticing, stores nothing twice and leaves nothing out. These are the changes of a row:

=====================================  =====================================================
a claim states the name                the row gets this item, and the number of the epoch
a claim no longer states the name      the number of the row becomes 0
the item is no longer claimed          the numbers of the rows of all its names become 0
a page ends the list                   the rows with lower numbers are deleted
=====================================  =====================================================

Nothing is deleted before the end of the list, because a later page may state the same name: for
another item, or again in the new epoch. So a name that the Archive claims without interruption
never disappears, and keeps the time when the claim began (``since``). While an epoch is being read
for the first time, the claims do not count, and the resolver asks the Archive about every item.

The follower is one thread with one engine (asking.py). It asks many Archives side by side, and each
Archive for one page at a time. One process follows at a time: it holds a lease in the database.

Source: federation CL-7, CL-8, CL-8a, CL-11.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from threading import Event, Thread
from time import monotonic
from typing import Any, TypeAlias
from urllib.parse import quote

import sqlalchemy as sa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.core.claim import MAX_PAGE, Page, fold_name, parse_claim, parse_page
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.identifiers.grammar import Identifier
from flask_ibi_archive.core.protocol.messages import format_request
from flask_ibi_archive.core.protocol.pairs import Pair, pairs_as_dict
from flask_ibi_archive.core.protocol.relations import NO_VERBS
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.answer import Question
from flask_ibi_archive.core.resolution.former_links import is_at_host
from flask_ibi_archive.errors import NotReady, PeerProtocolError, StorageError
from flask_ibi_archive.resolver import archives, asking, tables
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.conflicts import tell_administrators, update_conflicts
from flask_ibi_archive.server.database import dialects
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.http.transport import HEADERS, make_printable
from flask_ibi_archive.signals import NOBODY, Notifier

#: The number of claims that a page may have.
LIMIT = 10_000
#: The maximum size of a page in bytes, with its header, and the seconds until it must be there.
MAX_ANSWER, TIMEOUT = 2 * MAX_PAGE, 30.0
#: The seconds after which a failed request is repeated: the first ones, and at most.
FIRST_PAUSE, MAX_PAUSE = 30.0, 300.0
#: The maximum number of refused lines of an Archive that are stored, and characters of a reason.
MAX_REFUSED, MAX_REASON = 1000, 300
#: An Archive that claims more names is read no further, and is asked about each item.
MAX_NAMES_OF_ARCHIVE = 1_000_000
#: The time for which a follower is the only one, and after which it renews this.
LEASE, RENEWAL = timedelta(seconds=60), timedelta(seconds=10)
#: The maximum number of open connections, and the seconds for which answers are waited for.
MAX_CONNECTIONS, PAUSE = 128, 0.2
#: The seconds between two searches for Archives to ask, if there are none.
IDLE = 1.0

_HEADERS = {**HEADERS, "Accept-Encoding": "gzip"}
_KINDS = {"rep": 1, "ibip": 2, "alias": 3}
_find_item = re.compile(r"item (\S{1,255})(?= |\Z)").match

_logger = logging.getLogger(__name__)

_FOLLOWED, _ARCHIVE, _NAME = tables.FollowedArchive, tables.RegisteredArchive, tables.ClaimedName


# --- pages ---------------------------------------------------------------------------------------


#: A row for a name: the name, the item, the kind, the state, the timestamp, the Archive of the
#: Original.
NameRow: TypeAlias = "tuple[str, str, int, int, str | None, str | None]"


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of one request for claims.

    :param archive: the row of :func:`list_due`.
    :param reason: why the request failed, as the end of a sentence that begins with the Archive.
        None after a success.
    :param is_refused: whether the Archive sent an answer that must not be believed.
    :param page: the page; None after a failure, or if nothing has changed at the Archive.
    :param rows: the row for the table of claims, by each name that the page states.
    :param items: the items that the claims of the page are about.
    :param refused: for each refused line, the reason, by the item of the line.
    """

    archive: Any
    reason: str | None = None
    is_refused: bool = False
    page: Page | None = None
    etag: str | None = None
    rows: Mapping[str, NameRow] = field(default_factory=dict)
    items: Sequence[str] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


def read_result(
    archive: Any, result: asking.TransferResult, now: datetime, config: ResolverConfig
) -> Reading:
    """Check and parse the answer to a request for claims."""
    if result.reason is not None:
        return Reading(archive, result.reason)
    if result.status == 304 and archive.etag is not None:
        return Reading(archive)
    if result.status != 200:
        # an error of the server is silence; it says nothing about the claims
        return Reading(archive, f"answers with status {result.status}", result.status < 500)
    try:
        page = parse_page(result.body, Ed25519PublicKey.from_public_bytes(b64decode(archive.key)))
        _check_page(page, archive, now, timedelta(seconds=config.claims_max_age))
    except PeerProtocolError as error:
        reason = make_printable(f"sent a page that is refused: {error}", MAX_REASON)
        return Reading(archive, reason, True)
    etag = None if page.more or len(result.etag or "") > 255 else result.etag
    return Reading(archive, None, False, page, etag, *_read_claims(page, config.server_name))


def _check_page(page: Page, archive: Any, now: datetime, max_age: timedelta) -> None:
    """Check that a page is the page that was requested.

    :raises PeerProtocolError: if it is another page, or if it is too old.
    """
    is_other = page.epoch != archive.epoch
    if page.archive != archive.service_ibi:
        raise PeerProtocolError(f"archive: this is not {archive.service_ibi}")
    # a position that the Archive does not know is answered from the beginning
    if page.after if is_other else page.after != archive.position or not page.after:
        raise PeerProtocolError("after: the page does not begin where the last one ended")
    if page.more and page.position == page.after:
        raise PeerProtocolError("position: the page does not lead to the next one")
    if not (0 < len(page.epoch) <= 64 and 0 < len(page.position) <= 512):
        raise PeerProtocolError("epoch, position: too long")
    try:
        moment = datetime.fromisoformat(page.time.removesuffix("Z")).replace(tzinfo=timezone.utc)
    except ValueError as error:
        raise PeerProtocolError("time: there is no such time") from error
    if abs(now - moment) > max_age:
        raise PeerProtocolError(f"time: the page of {page.time} is too old, or a clock is wrong")


def _read_claims(
    page: Page, own_host: str | None
) -> tuple[dict[str, NameRow], list[str], dict[str, str]]:
    """Parse the claims of a page; return ``(rows, items, refused)`` of :class:`Reading`."""
    rows: dict[str, NameRow] = {}
    refused: dict[str, str] = {}
    items: dict[str, None] = {}
    ignored = []
    for line in page.claims:
        try:
            claim = parse_claim(line)
            if claim.original_archive == page.archive:
                raise PeerProtocolError(
                    "ibi.archiveservice: the Original is claimed to be here, too"
                )
        except PeerProtocolError as error:
            found = _find_item(line)
            refused[found[1] if found else line[:255]] = make_printable(str(error), MAX_REASON)
            continue
        items[claim.item] = None
        refused.pop(claim.item, None)
        if claim.state is None:
            continue
        facts = tables.STATE_NUMBERS[claim.state], claim.timestamp, claim.original_archive
        for alias in claim.aliases:
            if is_at_host(alias, own_host):
                ignored.append(alias)
            else:
                name = fold_name(alias)
                rows[name] = (name, claim.item, _KINDS["alias"], *facts)
        if claim.ibip is not None:
            rows[claim.ibip] = (claim.ibip, claim.item, _KINDS["ibip"], *facts)
        if claim.rep is not None:
            rows[claim.rep] = (claim.rep, claim.item, _KINDS["rep"], *facts)
    if ignored:
        _logger.warning(
            "%d addresses that %s claims are ignored, because they are at the host of this"
            " resolver; the first is %s",
            len(ignored), page.archive, make_printable(ignored[0]),
        )  # fmt: skip
    return rows, [*items], refused


# --- storing -------------------------------------------------------------------------------------


def list_due(
    connection: sa.Connection, now: datetime, limit: int, omitted: Iterable[int] = ()
) -> Sequence[Any]:
    """Return a row for each included Archive whose next page must be requested now.

    Archives that failed last come last; the others are in the order of the times when they became
    due. The column ``started_at`` of a row is the current time.

    :param limit: the maximum number of rows.
    :param omitted: the ids of the Archives that are already being asked.
    """
    return connection.execute(
        sa.select(
            _FOLLOWED.archive_id, _ARCHIVE.service_ibi, _ARCHIVE.address, _FOLLOWED.key,
            _FOLLOWED.epoch, _FOLLOWED.position, _FOLLOWED.etag, _FOLLOWED.failures,
            sa.literal(now, dialects.UTCDateTime()).label("started_at"),
        )
        .join(_ARCHIVE, _ARCHIVE.id == _FOLLOWED.archive_id)
        .where(
            _ARCHIVE.included_at.is_not(None),
            sa.or_(_FOLLOWED.due_at.is_(None), _FOLLOWED.due_at <= now),
            ~dialects.is_one_of(_FOLLOWED.archive_id, omitted),
        )
        .order_by(_FOLLOWED.failures > 0, _FOLLOWED.due_at.nulls_first())
        .limit(limit)
    ).all()  # fmt: skip


class ReadingStore:
    """Stores readings in the transaction of the caller, which has locked the rows of the Archives.

    :param since: the time that is stored as the beginning of new claims. Usually this is the
        current time. While the resolver catches up (:func:`lead`), it is the time when this began,
        so that the order in which the Archives are read makes no difference.
    """

    def __init__(
        self, connection: sa.Connection, config: ResolverConfig, now: datetime, since: datetime
    ) -> None:
        self._connection = connection
        self._config = config
        self._now = now
        self._since = since

    def store(self, reading: Reading) -> bool:
        """Store a reading, and return whether it was stored.

        A reading is not stored if the Archive is no longer included, or if its key or position has
        changed since the request.
        """
        archive_id = reading.archive.archive_id
        row = self._connection.execute(
            sa.select(*_FOLLOWED.__table__.columns)
            .join(_ARCHIVE, _ARCHIVE.id == _FOLLOWED.archive_id)
            .where(_ARCHIVE.id == archive_id, _ARCHIVE.included_at.is_not(None))
            .with_for_update(of=_FOLLOWED)
        ).one_or_none()
        if row is None:
            return False
        asked = reading.archive
        if (row.key, row.epoch, row.position) != (asked.key, asked.epoch, asked.position):
            return False
        has_news = reading.page is not None or reading.is_refused
        had_trust = has_news and archives.is_trusted(self._connection, archive_id)
        if reading.page is not None and (reason := self._find_limit(reading, row)):
            reading = Reading(reading.archive, reason, True)
        values = self._plan(reading, row)
        self._connection.execute(
            sa.update(_FOLLOWED).where(_FOLLOWED.archive_id == archive_id).values(values)
        )
        if values["reason"] not in (None, row.reason):
            level = logging.WARNING if reading.is_refused else logging.INFO
            _logger.log(level, "%s %s", reading.archive.service_ibi, values["reason"])
        if has_news and had_trust != archives.is_trusted(self._connection, archive_id):
            archives.bump_version(self._connection, [archive_id])
        return True

    def _plan(self, reading: Reading, row: sa.Row[Any]) -> dict[str, Any]:
        """Store the page of a reading, and return the new values for the row of the Archive."""
        values: dict[str, Any]
        if reading.reason is not None:
            pause = min(FIRST_PAUSE * 2.0 ** min(row.failures, 9), MAX_PAUSE)
            values = {
                "failures": row.failures + 1,
                "reason": reading.reason,
                "due_at": self._now + timedelta(seconds=pause),
            }
            # a 304 has no signature, so it must not end the distrust: the ETag goes
            return values | ({"read_at": None, "etag": None} if reading.is_refused else {})
        due_at = self._now + timedelta(seconds=self._config.claims_interval)
        values = {"failures": 0, "reason": None, "due_at": due_at}
        page, number = reading.page, row.reading
        if page is None:
            return values | {"read_at": reading.archive.started_at}
        if page.epoch != row.epoch:
            number += 1
            values |= {"reading": number, "contradictions": 0, "read_at": None}
        values["names"] = row.names + self._store_page(reading, page, row, number)
        values |= {"epoch": page.epoch, "position": page.position, "etag": reading.etag}
        return values | (
            {"due_at": self._now} if page.more else {"read_at": reading.archive.started_at}
        )

    def _find_limit(self, reading: Reading, row: sa.Row[Any]) -> str | None:
        """Return which limit a page exceeds, as a reason; None if it exceeds none."""
        is_its = tables.RefusedClaim.archive_id == row.archive_id
        others = is_its, ~dialects.is_one_of(tables.RefusedClaim.item, reading.refused)
        refused = sa.select(sa.func.count()).select_from(tables.RefusedClaim).where(*others)
        if len(reading.refused) + (self._connection.scalar(refused) or 0) > MAX_REFUSED:
            return f"sent more than {MAX_REFUSED} claims that are refused"
        if row.names + len(reading.rows) <= MAX_NAMES_OF_ARCHIVE:
            return None
        stated = self._read_names(row.archive_id, dialects.is_one_of(_NAME.name, reading.rows))
        if row.names + len(reading.rows) - len(stated) <= MAX_NAMES_OF_ARCHIVE:
            return None
        return f"claims more than {MAX_NAMES_OF_ARCHIVE} names"

    def _store_page(self, reading: Reading, page: Page, row: sa.Row[Any], number: int) -> int:
        """Store a page, and return how many names the Archive has gained; negative: lost.

        :param number: the number of the epoch.
        """
        archive_id, rows, grown = row.archive_id, reading.rows, 0
        names = {*rows}
        is_its = _NAME.archive_id == archive_id
        if reading.items:
            grown = len(rows) - len(
                self._read_names(archive_id, dialects.is_one_of(_NAME.name, rows))
            )
            if number == row.reading:
                has_item = _NAME.reading == number, dialects.is_one_of(_NAME.item, reading.items)
                lost = self._read_names(archive_id, *has_item) - rows.keys()
                self._connection.execute(
                    sa.update(_NAME)
                    .where(is_its, dialects.is_one_of(_NAME.name, lost))
                    .values(reading=0)
                )
                names |= lost
            self._upsert(archive_id, sorted(rows.values()), number)
        if not page.more:
            gone = sa.delete(_NAME).where(is_its, _NAME.reading < number).returning(_NAME.name)
            deleted = {*self._connection.scalars(gone)}
            grown -= len(deleted)
            names |= deleted
        self._store_refused(reading, begins=number != row.reading)
        store_hidden(self._connection, archive_id, page.hidden)
        if names:
            update_conflicts(self._connection, archive_id, names, self._now)
        return grown

    def _read_names(self, archive_id: int, *conditions: Any) -> set[str]:
        stated = sa.select(_NAME.name).where(_NAME.archive_id == archive_id, *conditions)
        return {*self._connection.scalars(stated)}

    def _upsert(self, archive_id: int, rows: Sequence[NameRow], number: int) -> None:
        columns = "name", "item", "kind", "state", "timestamp", "original_archive"
        values = dialects.select_rows(
            "rows", sa.Text, sa.Text, sa.SmallInteger, sa.SmallInteger, sa.Text, sa.Text
        )
        statement = dialects.insert_or_update(self._connection, _NAME).from_select(
            [*columns, "archive_id", "reading", "since"],
            values.add_columns(
                sa.literal(archive_id),
                sa.literal(number, sa.Integer),
                sa.literal(self._since, dialects.UTCDateTime()),
            ),
        )
        new = statement.excluded
        is_same = _NAME.state == new.state
        values_of = {name: new[name] for name in (*columns[1:], "reading")}
        self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=[_NAME.name, _NAME.archive_id],
                set_={**values_of, "since": sa.case((is_same, _NAME.since), else_=new.since)},
            ),
            {"rows": rows},
        )

    def _store_refused(self, reading: Reading, begins: bool) -> None:
        """Store the refused lines, and delete older ones whose items now have a right claim."""
        archive_id = reading.archive.archive_id
        forget = sa.delete(tables.RefusedClaim).where(tables.RefusedClaim.archive_id == archive_id)
        if not begins:
            forget = forget.where(
                dialects.is_one_of(tables.RefusedClaim.item, [*reading.items, *reading.refused])
            )
        self._connection.execute(forget)
        if reading.refused:
            facts = {"archive_id": archive_id, "refused_at": self._now}
            new = [{"item": item, "reason": why, **facts} for item, why in reading.refused.items()]
            self._connection.execute(sa.insert(tables.RefusedClaim), new)
            item, reason = next(iter(reading.refused.items()))
            _logger.warning(
                "%d claims of %s are refused; the first is item %s: %s; to list them, run: flask"
                " ibi-resolver claims --refused",
                len(new), reading.archive.service_ibi, make_printable(item, 80), reason,
            )  # fmt: skip


def store_hidden(connection: sa.Connection, archive_id: int, prefixes: Iterable[str]) -> None:
    """Store that an Archive hides items with these prefixes, and no others."""
    is_its = tables.PrefixHolder.archive_id == archive_id
    hidden = sa.select(tables.PrefixHolder.prefix).where(is_its, tables.PrefixHolder.is_hidden)
    if {*connection.scalars(hidden)} == {*prefixes}:
        return
    connection.execute(
        sa.delete(tables.PrefixHolder).where(is_its, tables.PrefixHolder.seen_at.is_(None))
    )
    connection.execute(sa.update(tables.PrefixHolder).where(is_its).values(is_hidden=False))
    rows = [
        {"prefix": prefix, "archive_id": archive_id, "is_hidden": True}
        for prefix in sorted({*prefixes})
    ]
    if rows:
        statement = dialects.insert_or_update(
            connection, tables.PrefixHolder
        ).on_conflict_do_update(
            index_elements=[tables.PrefixHolder.prefix, tables.PrefixHolder.archive_id],
            set_={"is_hidden": True},
        )
        connection.execute(statement, rows)


def read_again(connection: sa.Connection, archive_id: int) -> bool:
    """Request that the claims of an Archive are read again from the beginning.

    The claims do not count until they have been read to the end.

    :returns: whether the Archive publishes claims.
    """
    archives.lock_rows(connection, [archive_id])
    is_its = _FOLLOWED.archive_id == archive_id
    begin: dict[str, Any] = dict.fromkeys(("epoch", "etag", "read_at", "due_at", "reason"))
    begin |= {"position": "", "failures": 0, "contradictions": 0}
    follows = connection.execute(sa.update(_FOLLOWED).where(is_its).values(begin)).rowcount > 0
    connection.execute(
        sa.delete(tables.RefusedClaim).where(tables.RefusedClaim.archive_id == archive_id)
    )
    archives.bump_version(connection, [archive_id])
    return follows


# --- the follower --------------------------------------------------------------------------------


def lead(
    connection: sa.Connection, follower: str, now: datetime, max_age: timedelta
) -> tuple[bool, datetime | None]:
    """Try to become or to remain the only follower for some time.

    After a pause in which no follower worked, the resolver *catches up*: until the claims of each
    Archive were read to the end, or the Archive has failed.

    :param follower: a random text that identifies the process.
    :param max_age: the length of such a pause.
    :returns: ``(leads, since)``: whether this process is the follower, and the time when the
        resolver began to catch up. ``since`` is None if the resolver does not catch up.
    """
    state = tables.ResolverState
    is_free = sa.or_(
        state.follower.is_(None), state.follower == follower, state.follows_until < now
    )
    lease = {"follower": follower, "follows_until": now + LEASE}
    taken = sa.update(state).where(is_free).values(lease)
    row = connection.execute(
        taken.returning(state.followed_at, state.catching_up_since)
    ).one_or_none()
    if row is None:
        return False, None
    since = row.catching_up_since
    if since is None and (row.followed_at is None or now - row.followed_at > max_age):
        since = now
    elif since is not None and not connection.scalar(sa.select(_is_pending(since))):
        since = None
    values: dict[str, Any] = {"catching_up_since": since}
    if since is None:
        values["followed_at"] = now
    if values != row._mapping:
        connection.execute(sa.update(state).values(values))
    return True, since


def _is_pending(since: datetime) -> Any:
    """Return the SQL condition that an Archive was neither read to its end nor failed lately.

    :param since: the time from which on a reading or a failure counts.
    """
    is_unasked = sa.or_(_FOLLOWED.due_at.is_(None), _FOLLOWED.due_at <= since)
    is_unread = sa.or_(_FOLLOWED.read_at.is_(None), _FOLLOWED.read_at < since)
    return sa.exists().where(
        _ARCHIVE.id == _FOLLOWED.archive_id,
        _ARCHIVE.included_at.is_not(None),
        sa.or_(is_unasked, is_unread & (_FOLLOWED.failures == 0)),
    )


OnProgress: TypeAlias = Callable[[int, int], None]


class Follower:
    """Reads the claims of Archives. Only one thread may use the methods.

    :param now: returns the present time.
    :param on_progress: called with the numbers of pages and claims that were read so far.
    :param notifier: sends the signals about conflicts.
    """

    def __init__(
        self,
        config: ResolverConfig,
        database: Database,
        notifier: Notifier = NOBODY,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        on_progress: OnProgress = lambda pages, claims: None,
    ) -> None:
        self._config = config
        self._database = database
        self._notifier = notifier
        self._now = now
        self._on_progress = on_progress
        self._engine = asking.Engine(MAX_ANSWER, config.inner_hosts)
        self._engine.limit_connections(MAX_CONNECTIONS)
        self._name = secrets.token_hex(16)
        self._max_age = timedelta(seconds=config.claims_max_age)
        self._renewed_at: datetime | None = None
        #: Since when new claims count while the resolver catches up.
        self._since: datetime | None = None
        #: The Archives that are being asked, and the answers that are not stored yet.
        self._asked: dict[int, Any] = {}
        self._arrived: deque[tuple[Any, asking.TransferResult]] = deque()
        self._told_at: datetime | None = None
        self._pages = self._claims = 0

    def run_once(self, stop: Event | None = None) -> bool:
        """Read the claims of all Archives that are due, up to the end of each list.

        :returns: False if another process follows. Then nothing is read.
        :raises StorageError: if the database does not answer.
        """
        leads = self._lead()
        while leads and not (stop and stop.is_set()) and (self._ask_due() or self._asked):
            self._receive()
            leads = self._lead()
        if not leads:
            return False
        self._renewed_at = None  # what was read counts from now on
        self._lead()
        tell_administrators(self._database, self._config, self._notifier, self._now())
        return True

    def run(self, stop: Event) -> None:
        """Read claims again and again until an event is set. Errors are only logged."""
        while not stop.is_set():
            is_idle = True
            try:
                if self._lead():
                    self._ask_due()
                    self._tell()
                self._receive()
                is_idle = not self._asked
            except StorageError as error:
                _logger.error("the claims of Archives can't be followed: %s", error)
            except Exception:  # no other thread follows
                _logger.exception("the claims of Archives can't be followed")
            if is_idle:
                stop.wait(IDLE)

    def close(self) -> None:
        """Close the connections, and let another process follow."""
        self._engine.close()
        free = sa.update(tables.ResolverState).where(tables.ResolverState.follower == self._name)
        try:
            with self._database.writing() as connection:
                connection.execute(free.values(follower=None, follows_until=None))
        except StorageError as error:
            _logger.warning("another process can follow only in a minute: %s", error)

    def _lead(self) -> bool:
        """Return whether this process is the only follower now."""
        now = self._now()
        if self._renewed_at is not None and now - self._renewed_at < RENEWAL:
            return True
        with self._database.writing() as connection:
            leads, self._since = lead(connection, self._name, now, self._max_age)
        self._renewed_at = now if leads else None
        return leads

    def _tell(self) -> None:
        """Notify the administrators of conflicts, once after each renewal of the lease."""
        if self._renewed_at != self._told_at:
            self._told_at = self._renewed_at
            tell_administrators(self._database, self._config, self._notifier, self._now())

    def _ask_due(self) -> bool:
        """Ask Archives that are due, one for each free connection; return whether any are due.

        Archives that failed before get at most half of the connections. Otherwise their timeouts
        would delay the others.
        """
        free = MAX_CONNECTIONS - len(self._asked)
        if free <= 0 or self._arrived:  # what has arrived is stored first
            return False
        now = self._now()
        due = self._database.read(lambda connection: list_due(connection, now, free, self._asked))
        failing = sum(archive.failures > 0 for archive in self._asked.values())
        for archive in due:
            if archive.failures and failing >= MAX_CONNECTIONS // 2:
                break
            failing += archive.failures > 0
            self._asked[archive.archive_id] = archive
            after, headers = quote(archive.position, safe=""), _HEADERS
            if archive.etag is not None:
                headers = {**_HEADERS, "If-None-Match": archive.etag}
            url = f"http://{archive.address}/ibi/claims?after={after}&limit={LIMIT}"
            finish = partial(self._finish, archive)
            self._engine.add(url, int(TIMEOUT * 1000), finish, headers)
        return bool(due)

    def _finish(self, archive: Any, result: asking.TransferResult) -> None:
        self._arrived.append((archive, result))

    def _receive(self) -> None:
        """Receive answers for some time, and store them up to the first page.

        Storing a page can take long. Therefore only one page is stored at a time: other answers
        must be received before they time out.
        """
        end = monotonic() + (0.0 if self._arrived else PAUSE)
        while self._engine.running:
            self._engine.step(max(end - monotonic(), 0.0))
            if monotonic() >= end:
                break
        readings: list[Reading] = []
        while self._arrived and not (readings and readings[-1].page):
            archive, result = self._arrived.popleft()
            del self._asked[archive.archive_id]
            readings.append(read_result(archive, result, self._now(), self._config))
        if not readings:
            return
        last = readings[-1]
        try:
            is_stored = self._store(readings)
        except NotReady:  # the page is asked for again
            raise
        except (IntegrityError, StorageError) as error:
            if last.page is None:
                raise
            _logger.error("claims of %s can't be stored: %s", last.archive.service_ibi, error)
            refused = Reading(last.archive, "has claims that can't be stored", True)
            self._store([*readings[:-1], refused])
            is_stored = False
        if is_stored and last.page is not None:
            self._pages += 1
            self._claims += len(last.page.claims)
            self._on_progress(self._pages, self._claims)

    def _store(self, readings: Sequence[Reading]) -> bool:
        """Store readings in one transaction, and return whether the last one was stored."""
        now = self._now()
        with self._database.writing() as connection:
            archives.lock_rows(connection, [reading.archive.archive_id for reading in readings])
            store = ReadingStore(connection, self._config, now, self._since or now)
            return [store.store(reading) for reading in readings][-1]


class FollowerThread:
    """Runs a follower in a thread of each process that calls :meth:`start`. Thread-safe.

    The lease in the database decides which of the processes reads claims. If this process does not
    renew the lease, another one takes over.

    :param make_follower: returns a new follower.
    """

    def __init__(self, make_follower: Callable[[], Follower]) -> None:
        self._make_follower = make_follower
        #: The thread of each process: a forked process has the objects of its parent.
        self._threads: dict[int, tuple[Thread, Event]] = {}

    def start(self) -> None:
        """Start the thread, unless it runs."""
        pid = os.getpid()
        if pid not in self._threads:
            stop = Event()
            thread = Thread(target=self._run, args=(stop,), name="ibi-resolver-follow", daemon=True)
            if self._threads.setdefault(pid, (thread, stop))[0] is thread:
                thread.start()

    def close(self, seconds: float = 2.0) -> None:
        """Stop the thread.

        :param seconds: the maximum time to wait until the thread has ended.
        """
        if (running := self._threads.get(os.getpid())) is not None:
            thread, stop = running
            stop.set()
            thread.join(seconds)

    def _run(self, stop: Event) -> None:
        follower = self._make_follower()
        try:
            follower.run(stop)
        finally:
            follower.close()


# --- for administrators --------------------------------------------------------------------------


def list_followed(
    connection: sa.Connection, now: datetime, max_age: timedelta
) -> list[dict[str, Any]]:
    """Return a dictionary for each Archive that publishes claims, in the order of registration.

    The state is "excluded", "contradicted" (answers contradicted the claims), "refused" (lines are
    refused), "new" (the claims were not read to their end yet), "stale" (a page is refused, or the
    claims are too old), "silent" (the last claims count, although the Archive did not answer
    lately) or "current". The claims count only in the states "silent" and "current".
    """
    has_refused = sa.exists().where(tables.RefusedClaim.archive_id == _FOLLOWED.archive_id)
    place = _ARCHIVE.service_ibi.label("service"), _ARCHIVE.address, _ARCHIVE.included_at
    rows = connection.execute(
        sa.select(*place, has_refused.label("has_refused"), *_FOLLOWED.__table__.columns)
        .join(_ARCHIVE, _ARCHIVE.id == _FOLLOWED.archive_id)
        .order_by(_FOLLOWED.archive_id)
    )
    return [
        {
            "service": row.service,
            "address": row.address,
            "state": _describe_state(row, now, max_age),
            "names": row.names,
            "read_at": format_timestamp(row.read_at),
            "reason": row.reason,
            "contradictions": row.contradictions,
            "key": row.key,
            "pinned_at": format_timestamp(row.pinned_at),
        }
        for row in rows
    ]


def _describe_state(row: Any, now: datetime, max_age: timedelta) -> str:
    if row.included_at is None:
        return "excluded"
    if row.contradictions >= archives.MAX_CONTRADICTIONS:
        return "contradicted"
    if row.has_refused:
        return "refused"
    if row.read_at is None:
        return "new" if row.reason is None else "stale"
    if now - row.read_at > max_age:
        return "stale"
    return "silent" if row.failures else "current"


def list_refused(connection: sa.Connection) -> list[dict[str, Any]]:
    """Return a dictionary for each refused line, in the order of registration of the Archives."""
    table = tables.RefusedClaim
    rows = connection.execute(
        sa.select(_ARCHIVE.service_ibi.label("service"), table.item, table.reason, table.refused_at)
        .join(_ARCHIVE, _ARCHIVE.id == table.archive_id)
        .order_by(table.archive_id, table.item)
    ).mappings()
    return [{**row, "refused_at": format_timestamp(row["refused_at"])} for row in rows]


# --- the audit -----------------------------------------------------------------------------------

#: The share of resolutions after which all Archives are asked.
SHARE = 0.001
#: The seconds for which the reader waits for the answers. Later answers are not compared.
WAIT = 0.25
#: The address of the reader in the questions. It belongs to nobody (RFC 5737).
NO_READER = "192.0.2.1"


def audit_claims(
    database: Database,
    fan_out: asking.FanOut,
    ibi: Identifier,
    archives: Iterable[archives.Archive],
    claimed: Mapping[int, State],
    max_age: float,
) -> None:
    """Ask Archives about an item, and count the answers that contradict the claims.

    After :data:`MAX_CONTRADICTIONS`, the claims of the Archive do not count. The question contains
    an IP address that no reader has. So it does not reveal what a reader reads, and the answer is
    the one for the public.

    :param archives: the Archives whose claims count, except the one of this process.
    :param claimed: the state of the item according to the claims, by the id of the Archive.
    :param max_age: the number of seconds within which a change must appear in the claims.
    """
    question = Question(ibi, NO_VERBS)
    query = format_request(question.create_request((NO_READER,)))
    targets = [asking.Target(one, f"{one.service_url}?{query}", question) for one in archives]
    since = format_timestamp(datetime.now(timezone.utc) - timedelta(seconds=max_age))
    replies = fan_out.ask(targets, WAIT)
    while (result := replies.get(WAIT)) is not None:
        archive = result.target.archive
        if isinstance(result, asking.Reply) and contradicts(
            claimed.get(archive.id), result.pairs, since
        ):
            reason = f"contradicted its claims in its answer about {ibi}"
            _logger.warning("%s at %s %s", archive.service_ibi, archive.address, reason)
            try:
                with database.writing() as connection:
                    count_contradiction(connection, archive.id, reason)
            except StorageError as error:  # the reader has an outcome
                _logger.warning("a contradiction can't be stored: %s", error)
    replies.abandon()


def contradicts(claimed: State | None, pairs: Sequence[Pair], since: str) -> bool:
    """Return whether an answer contradicts a claim.

    An answer without a state says nothing: the Archive does not show the item to the public.

    :param since: a time. A change after this time need not appear in the claims yet.
    """
    answer = pairs_as_dict(list(pairs))
    if not answer:
        return claimed is not None
    state, timestamp = answer.get("state"), answer.get("timestamp", ("",))
    is_claimed = claimed is not None and state == (claimed.value,)
    return state is not None and not is_claimed and timestamp < (since,)


def count_contradiction(connection: sa.Connection, archive_id: int, reason: str) -> None:
    """Count an answer that contradicts the claims of its Archive."""
    archives.lock_rows(connection, [archive_id])
    count = connection.scalar(
        sa.update(_FOLLOWED)
        .where(_FOLLOWED.archive_id == archive_id)
        .values(contradictions=_FOLLOWED.contradictions + 1, reason=reason)
        .returning(_FOLLOWED.contradictions)
    )
    if count == archives.MAX_CONTRADICTIONS:
        archives.bump_version(connection, [archive_id])
