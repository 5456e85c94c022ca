"""Puts the noted changes of items into the log.

A trigger notes each change in the transaction of the change, so that a claim exists if and only if
the change was committed. Here the committed notes become entries of the log, in the order of their
numbers, and are deleted in the same transaction. Therefore a killed process loses no claim, and
adds none twice. One process at a time does this, because it locks the row of the log.

Two transactions that change one item wait for each other, so that the notes of an item are numbered
in the order of the commits. A transaction that is committed late has lower numbers than others that
are in the log already. Its notes are about other items, and are added when they appear.

A log begins with all items of the Archive. They are read in the order of their row IDs, and not by
notes, so that it makes no difference how many there are. Notes about these items are deleted first:
what is read afterwards contains their changes. Before the first item is read, all transactions that
began before the log must have ended, because they note nothing.

While no claims are to be published, the log is paused: nothing is noted. Afterwards, it goes on in
the way in which it began. So the present state of each item is claimed that has changed meanwhile.

Source: federation CL-2, CL-4 and CL-6.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, select, text

from flask_ibi_archive.archive.claims import log_tables
from flask_ibi_archive.archive.claims.claimed_items import ClaimedItem, read_items, read_note
from flask_ibi_archive.archive.claims.host_changes import read_changes
from flask_ibi_archive.archive.claims.log_tables import PAUSED, WAITING, ClaimNote, Log
from flask_ibi_archive.archive.claims.signing import KeyFolder, SignedTree
from flask_ibi_archive.core.claims.merkle import EMPTY_ROOT
from flask_ibi_archive.errors import ClaimError, NotReady
from flask_ibi_archive.server.database.dialects import is_one_of

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The largest number of notes that one transaction puts into the log.
BATCH = 2000
#: Notes of one change have other notes between them, if an import stores many items at once. As
#: many notes behind a batch are read, in order to find the last note of each change.
AHEAD = 2000

#: The transactions with a snapshot that may not contain the present row of the log. Each of them
#: has a lock of its own number. The automatic VACUUM has no user.
_OLDER_SNAPSHOTS = text("""
SELECT own.virtualxid FROM ibi_claim_log AS log
JOIN pg_stat_activity AS other
 ON other.datname = current_database() AND other.usesysid IS NOT NULL
 AND age(other.backend_xmin) >= age(log.xmin)
JOIN pg_locks AS own
 ON own.pid = other.pid AND own.locktype = 'virtualxid' AND own.virtualxid = own.virtualtransaction
WHERE log.archive_id = :archive_id AND other.pid <> pg_backend_pid()
""")

#: Waits until all transactions that have changed an item or a part of one have ended. Those that
#: will change one, but do not see the log, have no lock yet: see :func:`find_older_snapshots`.
WAIT_FOR_WRITERS = "LOCK TABLE ibi_item IN EXCLUSIVE MODE"
#: The time in seconds to wait for them. Other transactions that want to change items wait behind
#: this one, and must not wait until the longest transaction of a host ends.
WRITERS_TIMEOUT = 2.0
#: The time in seconds between two looks at the transactions with older data.
LOOK_PAUSE = 0.05

#: What to do if the folder of the key belongs to an earlier log.
SHARE_FOLDER = (
    "set IBI_CLAIMS_FOLDER to one folder for all servers of the Archive; if there is only this "
    "server, and the folder was restored from a backup, delete the file *.signed in it"
)

logger = logging.getLogger(__name__)


def find_older_snapshots(connection: Connection, archive_id: int) -> set[str]:
    """Return the transactions that may not see the present row of a log, and then note nothing.

    On PostgreSQL, the statements of a transaction with the isolation level REPEATABLE READ or
    SERIALIZABLE, and their triggers, see the data of the moment of its first statement. Other
    transactions are in the result only during a statement. On SQLite, a transaction that has read
    older data can't write.
    """
    if connection.dialect.name == "sqlite":
        return set()
    return set(connection.scalars(_OLDER_SNAPSHOTS, {"archive_id": archive_id}))


class Sequencer:
    """Extends the log of an Archive.

    :param folder: the folder of the key, with the tree that was signed last.
    """

    def __init__(self, archive: Archive, folder: KeyFolder) -> None:
        self._archive = archive
        self.archive_id = archive.served().id
        self.folder = folder

    def find_log(self, connection: Connection, lock: bool = False) -> Log | None:
        """Return the row of the log; see :func:`.log_tables.find_log`."""
        return log_tables.find_log(connection, self.archive_id, lock)

    def read_log(self) -> Log | None:
        """Return the row of the log; None if the Archive has no log."""
        return self._archive.database.read(self.find_log)

    @contextmanager
    def locked(
        self, lock_timeout: float | None = None, table_lock: str | None = None
    ) -> Iterator[tuple[Connection, Log]]:
        """Yield a transaction with the lock of the log, and the row of the log.

        A database that is older than the last signed tree begins a new log first.

        The parameters are those of :meth:`.Database.writing`.

        :raises NotReady: if the Archive has no log, or if the folder of the key belongs to an
            earlier log. Otherwise, servers that do not share the folder would begin new logs in
            turn.
        """
        with self._archive.database.writing(lock_timeout, table_lock) as connection:
            log = self.find_log(connection, lock=True)
            if log is None:
                raise NotReady("the Archive has no log of claims", "run: flask ibi init")
            signed = self.folder.read_tree()
            reason = find_break(connection, log, signed)
            if signed is not None and signed.number < log.number:
                raise NotReady(str(reason), SHARE_FOLDER, str(self.folder.folder))
            if reason is not None:
                log = self._begin_anew(connection, log, signed, reason)
            yield connection, log

    def _begin_anew(
        self, connection: Connection, log: Log, signed: SignedTree | None, reason: str
    ) -> Log:
        """Begin a new log with another name and another key."""
        number = max(log.number, signed.number if signed else 0) + 1
        # killed after one of these lines, the next process begins another new log
        self.folder.replace_key()
        self.folder.write_tree(SignedTree(number, 0, EMPTY_ROOT))
        now = self._now()
        # if the triggers do not note all changes yet, all items are read when they do
        covered = min(log.covered or 0, 0)
        new = Log(log.archive_id, number, 0, "", now, now, covered, changes=None)
        log_tables.update_log(connection, new)
        logger.warning(
            "%s; the log of claims begins anew as %s with a new key: register the Archive again "
            "(flask ibi register-archive)",
            reason,
            self.folder.name_origin(number),
        )
        return new

    def has_changes(self) -> bool:
        """Return whether there may be something that the log does not contain yet."""
        records = self._archive.items.records
        if records is not None and records.can_list_changes:
            return True
        log = self.read_log()
        noted = select(ClaimNote.id).where(ClaimNote.archive_id == self.archive_id).limit(1)
        return (log is not None and log.covered is not None) or bool(
            self._archive.database.read_rows(noted)
        )

    def run_batch(self) -> tuple[int, bool]:
        """Put changes into the log.

        :returns: the number of new claims, and whether there may be more changes.
        """
        with self.locked() as (connection, log):
            if log.covered == PAUSED:
                log_tables.update_log(connection, log._replace(covered=WAITING))
                return 0, True
            if log.covered != WAITING:
                return self._extend(connection, log)
        self._wait_for_snapshots()
        with self.locked(WRITERS_TIMEOUT, WAIT_FOR_WRITERS) as (connection, log):
            if log.covered == WAITING:
                log_tables.update_log(connection, log._replace(covered=0))
        return 0, True

    def pause(self) -> None:
        """Let the triggers note nothing until :meth:`run_batch` is called again."""
        if (log := self.read_log()) is None or log.covered == PAUSED:
            return
        with self._archive.database.writing() as connection:
            log = self.find_log(connection, lock=True)
            if log is not None:
                log_tables.update_log(connection, log._replace(covered=PAUSED))
                is_own = ClaimNote.archive_id == self.archive_id
                connection.execute(delete(ClaimNote).where(is_own))

    def _extend(self, connection: Connection, log: Log) -> tuple[int, bool]:
        """Put the next items or changes into the log; see :meth:`run_batch`."""
        if log.covered is not None:
            items, is_more, log = self._read_next_items(connection, log)
        else:
            items, is_more = self._take_notes(connection)
            if not is_more:
                changed, is_more, log = self._read_host_changes(log)
                items += changed
        new = self._select_new(connection, log, items)
        log_tables.update_log(connection, log_tables.append(connection, log, new))
        return len(new), is_more

    def _wait_for_snapshots(self) -> None:
        """Wait until the transactions have ended that do not see the row of the log.

        :raises NotReady: if they have not ended after :data:`WRITERS_TIMEOUT`.
        """
        find = partial(find_older_snapshots, archive_id=self.archive_id)
        deadline = monotonic() + WRITERS_TIMEOUT
        older = self._archive.database.read(find)
        while older and monotonic() < deadline:
            sleep(LOOK_PAUSE)
            older &= self._archive.database.read(find)  # those that begin later see the row
        if older:
            raise NotReady(
                "a transaction that began before the log of claims has not ended", "try again later"
            )

    def _read_next_items(
        self, connection: Connection, log: Log
    ) -> tuple[list[ClaimedItem], bool, Log]:
        """Return the next items of a log that has begun, and whether there are more."""
        after = log.covered or 0
        rows = read_items(connection, self.archive_id, after, BATCH)
        if not rows:
            return [], True, log._replace(covered=None)
        last = max(rows)
        connection.execute(
            delete(ClaimNote).where(
                ClaimNote.archive_id == self.archive_id,
                ClaimNote.item_id > after,
                ClaimNote.item_id <= last,
            )
        )
        # read again what the notes say that were just deleted
        rows = read_items(connection, self.archive_id, after, len(rows))
        items = [item for item in rows.values() if item is not None]
        return items, True, log._replace(covered=max(rows))

    def _take_notes(self, connection: Connection) -> tuple[list[ClaimedItem], bool]:
        """Delete the first notes, and return what they claim, and whether there are more."""
        columns: Any = ClaimNote.__table__.c
        rows: Any = connection.execute(
            select(ClaimNote.__table__)
            .where(columns.archive_id == self.archive_id)
            .order_by(columns.id)
            .limit(BATCH + AHEAD)
        ).all()
        last = {(row.item_id, row.change_no): row.id for row in rows}
        batch = rows[:BATCH]
        if batch:
            ids = [row.id for row in batch]
            connection.execute(delete(ClaimNote).where(is_one_of(columns.id, ids)))
        items = [read_note(row) for row in batch if last[row.item_id, row.change_no] == row.id]
        return items, len(rows) > len(batch)

    def _read_host_changes(self, log: Log) -> tuple[list[ClaimedItem], bool, Log]:
        source = self._archive.items.records
        if source is None or not source.can_list_changes:
            return [], False, log
        items, changes, is_more = read_changes(source, log.changes, self._now(), BATCH)
        return items, is_more, log._replace(changes=changes)

    def _select_new(
        self, connection: Connection, log: Log, items: Iterable[ClaimedItem]
    ) -> list[tuple[str, bytes]]:
        """Return the claims that differ from the last claims of their items."""
        items = list(items)
        keys = {item.key for item in items}
        stored = log_tables.find_last_claims(connection, log, keys) if keys else {}
        last = {key: entry for key, (_, entry) in stored.items()}
        new = []
        for item in items:
            entry = item.write(last.get(item.key))
            if entry is not None:
                last[item.key] = entry
                new.append((item.key, entry))
        return new

    def _now(self) -> datetime:
        return self._archive.clock()


def find_break(connection: Connection, log: Log, signed: SignedTree | None) -> str | None:
    """Return why a log does not continue the tree that was signed last; None if it does.

    Without a signed tree it is unknown what was signed, unless the log is empty.
    """
    if signed is None:
        is_new = log.size == 0 and log.number == 1
        return None if is_new else "the folder of the claims does not say what was signed last"
    if signed.number < log.number:
        return "another server, with another folder, has begun a new log of claims"
    older = "the database is older than the claims that the Archive has signed"
    if signed.number > log.number or signed.size > log.size:
        return older
    try:
        root = log_tables.compute_earlier_root(connection, log, signed.size)
    except ClaimError:  # entries are missing
        return older
    return None if root == signed.root else older
