"""Accepts an offer of an Archive on another server: reads, stores and switches its items.

All items of a page are stored as Copies before the giver is asked to switch them. What is done is
stored with the items, in the same transaction. Therefore a process that was killed goes on when the
offer is accepted again: items that are stored are switched, items that were refused are tried
again, and then the next page is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from flask_ibi_archive.archive.items.files import Content, Staging
from flask_ibi_archive.archive.items.write import examine_tables
from flask_ibi_archive.archive.moving.acceptances import (
    DONE,
    REFUSED,
    STORED,
    ItemStatus,
    begin_acceptance,
    count_bytes_left,
    count_statuses,
    find_last_number,
    finish_acceptance,
    read_statuses,
    save_statuses,
)
from flask_ibi_archive.archive.moving.incoming import IncomingOffer, Items, refuse, separate
from flask_ibi_archive.archive.moving.receiving import Receiver
from flask_ibi_archive.archive.moving.taken_files import FileTaker
from flask_ibi_archive.archive.moving.taking import Page
from flask_ibi_archive.core.records.offer_messages import (
    MOVE,
    OfferedRecord,
    StoredVersion,
    SwitchAnswer,
)
from flask_ibi_archive.errors import OfferError, StorageError

#: The number of times that an item that changes at the giver is read again.
ATTEMPTS = 5
CHANGED = "the item has changed at the giver; accept the offer again, or ask for a new offer"
#: The number of items after which PostgreSQL examines its tables, to plan its statements.
MANY = 5000


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of accepting an offer.

    :param done: the number of items that are here as the offer says.
    :param stored: the number of items that the giver has given up, but which cannot be Originals.
    :param refused: the number of items that were not taken, and stay at the giver.
    """

    done: int
    stored: int
    refused: int


@dataclass
class Acceptor:
    """Accepts an offer.

    :param on_progress: called with the number of items that are done, and the number of all items.
    :param on_refused: called with each item that is not taken.
    """

    incoming: IncomingOffer
    on_progress: Callable[[int, int], None] = lambda done, total: None
    on_refused: Callable[[ItemStatus], None] = lambda item: None
    _id: int = 0
    _done: int = 0

    def __post_init__(self) -> None:
        self.context, self.source = self.incoming.context, self.incoming.source
        self.offer = self.incoming.description

    def run(self) -> Outcome:
        """Accept the items of the offer.

        :raises OfferError: if the offer cannot be accepted.
        :raises TransportError: if the giver cannot be reached. Accept the offer again later.
        """
        staging = Staging(self.context.folder, name=f"offer-{self.offer.offer}")
        with staging.locked():
            with self.context.transaction() as store:
                self._id = begin_acceptance(
                    store.connection,
                    store.archive_id,
                    self.source.name,
                    self.offer,
                    self.context.now(),
                )
            with self.context.reading() as store:
                self._report(count_statuses(store.connection, self._id)[DONE])
                last = find_last_number(store.connection, self._id)
                size = count_bytes_left(store.connection, store.archive_id, self._id)
            self._files = FileTaker(self.source, self.context.folder, staging, size)
            self._resume()
            while last < self.offer.items and (items := self.incoming.read_page(last)):
                self._take(items)
                if last < MANY <= items[-1].number:
                    with self.context.database.writing() as connection:
                        examine_tables(connection)
                last = items[-1].number
            staging.clear()
        return self._finish()

    def _finish(self) -> Outcome:
        total = self.offer.items
        with self.context.transaction() as store:
            counts = count_statuses(store.connection, self._id)
            if counts[DONE] == total:
                finish_acceptance(store.connection, self._id, self.context.now())
        missing = total - sum(counts.values())
        if missing:
            raise OfferError(self.source.name, f"has sent {total - missing} of {total} items only")
        return Outcome(counts[DONE], counts[STORED], counts[REFUSED])

    def _resume(self) -> None:
        """Switch the items that are stored already, and try the refused items again."""
        for page in self._read_pages(STORED):
            self._switch(page)
        if self.incoming.end is not None:
            raise self.incoming.end
        for page in self._read_pages(REFUSED):
            items = self.source.read_items([item.number for item in page])
            numbers = {item.number for item in items}
            self._report_refused([item for item in page if item.number not in numbers])
            self._take(items)

    def _read_pages(self, status: str) -> Iterator[list[ItemStatus]]:
        """Yield the items with a status, in pages."""
        after = 0
        while page := self._read_statuses(status, after):
            yield page
            after = page[-1].number

    def _read_statuses(self, status: str, after: int) -> list[ItemStatus]:
        with self.context.reading() as store:
            return read_statuses(store.connection, self._id, status, after)

    def _take(self, items: Items, attempt: int = 1) -> None:
        """Receive the files of items, store the items, and ask the giver to switch them."""
        readable, unreadable = separate(items)
        self._save(unreadable)
        with self.context.reading() as store:
            page = Page(store, self.offer.giver, readable)
            present = page.find_present_contents()
        refused = dict(page.refusals)
        contents: dict[int, dict[str, Content]] = {}
        for item in page.taken:
            try:
                contents[item.number] = self._files.take(item, present.get(item.number, {}))
            except StorageError as error:
                refused[item.number] = str(error)
        self._switch(self._store(readable, refused, contents), attempt)

    def _save(self, statuses: Sequence[ItemStatus]) -> None:
        """Store and report that items are refused."""
        if statuses:
            with self.context.transaction() as store:
                save_statuses(store.connection, self._id, statuses)
        self._report_refused(statuses)

    def _report_refused(self, statuses: Sequence[ItemStatus]) -> None:
        for status in statuses:
            if status.status == REFUSED:
                self.on_refused(status)

    def _store(
        self,
        items: Sequence[OfferedRecord],
        refused: dict[int, str],
        contents: Mapping[int, dict[str, Content]],
    ) -> list[ItemStatus]:
        """Store items as Copies in one transaction, and return those that are stored."""
        with self.context.transaction() as store:
            store.lock_relations(limited=False)
            rest = [item for item in items if item.number not in refused]
            # the items are checked again, because others may have changed since
            page = Page(store, self.offer.giver, rest)
            page.write(contents, self.context.now())
            refused.update(page.refusals)
            statuses = [
                refuse(item, refused[item.number])
                if item.number in refused
                else ItemStatus(item.number, item.record.identifiers[0], item.version, STORED)
                for item in items
            ]
            save_statuses(store.connection, self._id, statuses)
            for item in page.taken:
                for content in contents[item.number].values():
                    self._files.staging.move_to_store(content)
        self._report_refused(statuses)
        return [status for status in statuses if status.status == STORED]

    # --- switching -------------------------------------------------------------------------------

    def _switch(self, items: Sequence[ItemStatus], attempt: int = 1) -> None:
        """Ask the giver to switch stored items, and make them the Originals of this Archive."""
        if not items:
            return
        answers = self.source.switch([StoredVersion(item.number, item.version) for item in items])
        by_number = {item.number: item for item in items}
        self._receive([(by_number[answer.number], answer) for answer in answers])
        changed = [answer.number for answer in answers if answer.result == "changed"]
        if not changed:
            return
        newer = self.source.read_items(changed) if attempt < ATTEMPTS else ()
        newer = [
            one for one in newer if getattr(one, "version", "") != by_number[one.number].version
        ]
        self._refuse_changed([by_number[one] for one in changed], {one.number for one in newer})
        if newer:
            self._take(newer, attempt + 1)

    def _refuse_changed(self, changed: Sequence[ItemStatus], newer: set[int]) -> None:
        """Refuse the changed items of which there is no newer version to read."""
        self._save(
            [
                replace(item, status=REFUSED, reason=CHANGED)
                for item in changed
                if item.number not in newer
            ]
        )

    def _receive(self, answers: Sequence[tuple[ItemStatus, SwitchAnswer]]) -> None:
        """Do what the giver has answered, in one transaction."""
        counts = {
            item.ibi: answer.counts for item, answer in answers if answer.result == "switched"
        }
        statuses = []
        own, giver = self.context.archive.service_ibi, self.offer.giver
        with self.context.transaction() as store:
            failed = Receiver(store, giver, own).receive(counts) if counts else {}
            for item, answer in answers:
                if answer.result == "refused":
                    reason = f"the giver refuses: {answer.reason}"
                    statuses.append(replace(item, status=REFUSED, reason=reason))
                elif answer.result == self._expected and item.ibi not in failed:
                    statuses.append(replace(item, status=DONE, reason=None))
                elif answer.result not in ("changed", self._expected):
                    raise OfferError(
                        self.source.name, f"answers {answer.result} to a {self.offer.kind}"
                    )
            save_statuses(store.connection, self._id, statuses)
        # the giver has given up these items: they stay "stored", and are tried again
        unfinished = [item for item, _ in answers if item.ibi in failed]
        self._report_refused(
            statuses + [replace(one, status=REFUSED, reason=failed[one.ibi]) for one in unfinished]
        )
        self._report(sum(one.status == DONE for one in statuses))

    @property
    def _expected(self) -> str:
        """The answer to a switch if all is well."""
        return "switched" if self.offer.kind == MOVE else "taken"

    def _report(self, count: int) -> None:
        self._done += count
        self.on_progress(self._done, self.offer.items)
