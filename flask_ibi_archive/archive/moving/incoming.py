"""An offer to this Archive: checks that it is for this Archive, and reads it without taking it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from flask_ibi_archive.archive.items.archives import find_archives
from flask_ibi_archive.archive.items.operations import OperationContext
from flask_ibi_archive.archive.moving.acceptances import (
    DONE,
    REFUSED,
    STORED,
    ItemStatus,
    count_statuses,
    find_acceptance,
    read_statuses,
)
from flask_ibi_archive.archive.moving.http_offer import HttpOffer, UnreadableItem
from flask_ibi_archive.archive.moving.taking import Page
from flask_ibi_archive.core.records.offer_messages import (
    MAX_LINE,
    MAX_PAGE,
    OfferDescription,
    OfferedRecord,
)
from flask_ibi_archive.errors import OfferError

#: The mean size of a record, in bytes, above which an offer is refused.
MEAN_RECORD = 256 << 10
#: The version of an item that could not be read.
NO_VERSION = "0" * 64

Items = Sequence[OfferedRecord | UnreadableItem]


@dataclass
class IncomingOffer:
    """An offer of a giver to this Archive.

    :param context: the Archive that takes the items, without the session of a host.
    """

    context: OperationContext
    source: HttpOffer
    #: Why the offer has ended; None if it is open.
    end: OfferError | None = None

    @cached_property
    def description(self) -> OfferDescription:
        """What the offer contains.

        If the offer has ended, but items were stored before, the description is that of the earlier
        run: the giver may have given up these items, and still confirms it.

        :raises OfferError: if it is for another Archive, or from an Archive of this database.
        """
        try:
            offer = self.source.read_description()
        except OfferError as error:
            known = self._find_earlier_description()
            if known is None:
                raise
            self.end = error
            return known
        own = self.context.archive
        if offer.taker not in (own.rep, own.ibip):
            raise OfferError(
                self.source.name,
                f"is an offer to {offer.taker}, but this Archive is {own.service_ibi}",
            )
        with self.context.reading() as store:
            here = find_archives(store.connection, offer.giver)
        if here:
            raise OfferError(
                self.source.name,
                f"is an offer of {offer.giver}, which is in the same database; use flask ibi "
                "transfer or flask ibi copy",
            )
        return offer

    def _find_earlier_description(self) -> OfferDescription | None:
        """Return the description of an offer of which items are stored, but not switched."""
        with self.context.reading() as store:
            row = find_acceptance(store.connection, store.archive_id, self.source.name)
            if row is None or not count_statuses(store.connection, row.id)[STORED]:
                return None
        return OfferDescription(
            offer=self.source.name[-16:],
            kind=row.kind,
            leaves=None,
            giver=row.giver,
            taker=self.context.archive.service_ibi,
            expires=row.started_at,
            items=row.items,
            bytes=row.bytes,
            files=0,
        )

    def read_page(self, after: int) -> Items:
        """Return the next items of the offer; an empty list at the end.

        :raises OfferError: if the numbers or the sizes of the items are not those of the offer.
        """
        items, total = self.source.read_page(after), self.description.items
        numbers = [item.number for item in items]
        if numbers != sorted({number for number in numbers if after < number <= total}):
            raise OfferError(self.source.name, "sends items with wrong numbers")
        if self.source.page_bytes > total * MEAN_RECORD + MAX_PAGE + MAX_LINE:
            raise OfferError(
                self.source.name, f"sends records with more than {MEAN_RECORD} bytes on average"
            )
        return items

    def examine(
        self,
        on_progress: Callable[[int, int], None],
        on_refused: Callable[[ItemStatus], None],
    ) -> int:
        """Read all items, and return the number of those that cannot be taken.

        Nothing is changed.

        :param on_progress: called with the number of items that are read, and of all items.
        :param on_refused: called with each item that cannot be taken.
        """
        count, last, earlier = 0, 0, self._find_earlier()
        while last < self.description.items and (items := self.read_page(last)):
            last = items[-1].number
            for status in self._find_refused(items):
                if status.number not in earlier:
                    count += 1
                    on_refused(status)
            on_progress(last, self.description.items)
        return count

    def _find_refused(self, items: Items) -> list[ItemStatus]:
        readable, refused = separate(items)
        with self.context.reading() as store:
            page = Page(store, self.description.giver, readable)
        return refused + [
            refuse(item, page.refusals[item.number])
            for item in readable
            if item.number in page.refusals
        ]

    def _find_earlier(self) -> set[int]:
        """Return the numbers of the items that an earlier run has taken."""
        with self.context.reading() as store:
            found = find_acceptance(store.connection, store.archive_id, self.source.name)
            if found is None:
                return set()
            return {
                item.number
                for status in (STORED, DONE)
                for item in read_statuses(store.connection, found.id, status, limit=None)
            }


def separate(items: Items) -> tuple[list[OfferedRecord], list[ItemStatus]]:
    """Return the items that can be read, and the status of those that cannot be read."""
    unreadable = [item for item in items if isinstance(item, UnreadableItem)]
    return [item for item in items if isinstance(item, OfferedRecord)], [
        ItemStatus(item.number, item.name, NO_VERSION, REFUSED, item.reason) for item in unreadable
    ]


def refuse(item: OfferedRecord, reason: str) -> ItemStatus:
    """Return the status of an item that is not taken."""
    return ItemStatus(item.number, item.record.identifiers[0], item.version, REFUSED, reason)
