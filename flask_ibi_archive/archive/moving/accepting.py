"""Accepts an offer of an Archive on another server: stores its items, and makes them Originals.

The *taker* is this Archive, which accepts the offer. The *giver* is the Archive that made it. The
progress of an item is known from its state here and its state at the giver, and nothing else is
stored: ``flask ibi accept`` reads the whole offer, and does for each item what comes next. An item
that moves has four states. There are three events: *take*, *switch* and *receive*. The last three
columns say what each event does in a state. A bold word is the new state; "(not asked)" means that
the event does not occur in this state:

========  =============  =================  ====================  =================  ==============
state     here           at the giver       take                  switch             receive
========  =============  =================  ====================  =================  ==============
absent    nothing, or    Original           **stored** (with its  "changed"          (not asked)
          an older Copy                     files)
stored    Copy           Original           nothing; a newer      **given**          (not asked)
                                            version is stored
given     Copy           Copy or tombstone  nothing               the same answer    **done**
                         that names us
done      Original       Copy or tombstone  nothing               the same answer    nothing
                         that names us
========  =============  =================  ====================  =================  ==============

*Take* is one transaction here: the Copy has the version that the giver shows (the checksum of the
record, with the timestamp and the checksums of the files), and is written after all files are
complete. *Switch* is one transaction at the giver: the giver gives up the Original if it still has
the version that the taker names, and stores the daily counts of accesses for the answer. *Receive*
is one transaction here, after the answer "switched": the Copy becomes the Original, and gets the
counts.

There are never two Originals. The giver first commits that its item is no Original any more, and
then answers. Only after this answer, the item becomes an Original here. At the giver, it becomes an
Original again only by a move back, in which the roles are exchanged. A switch request that arrives
late has no effect: the giver refuses it if the item has another version than the request names, or
if the item has moved with this offer before and has come back.

Either side can be killed at any time: a transaction is done or not, so the item is in one of the
four states, and the next ``accept`` finds which. A lost answer is repeated from the state of the
giver, also after the offer has expired. The counts are added once, because they are added in the
transaction that ends the state "given". A removed item moves in the same way: instead of a Copy
here there is a tombstone that names the giver. A copy that is offered is done when it is stored.

The giver is not trusted. An offered item never replaces an item that belongs to this Archive, or
that is a Copy of an Original in a third Archive, and does not change the relations of such items.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import sqlalchemy as sa
from msgspec.structs import replace

from flask_ibi_archive.archive.items import operations
from flask_ibi_archive.archive.items.files import Content, FileStore, Staging
from flask_ibi_archive.archive.items.import_export import add_counts
from flask_ibi_archive.archive.items.ownership import find_owners_and_originals
from flask_ibi_archive.archive.items.served_archives import ServedArchive, find_archives
from flask_ibi_archive.archive.items.tables import Item, ItemIdentifier, TombstoneRow
from flask_ibi_archive.archive.items.write import Contents, ItemStore, renew_plans
from flask_ibi_archive.archive.moving import offers
from flask_ibi_archive.archive.moving.client import OfferClient, UnreadableItem
from flask_ibi_archive.archive.moving.offers import ReceivedItem
from flask_ibi_archive.core.protocol.states import Event, State
from flask_ibi_archive.core.records import offer_messages as messages
from flask_ibi_archive.core.records.offer_messages import DailyCount, OfferedRecord, StoredVersion
from flask_ibi_archive.core.records.record import ItemView, Record, Tombstone
from flask_ibi_archive.errors import OfferError, StorageError
from flask_ibi_archive.server.database.dialects import insert_or_update, is_one_of
from flask_ibi_archive.signals import moved_here

#: The number of bytes that must remain free on the disk.
RESERVE = 16 << 20
CHANGED = "the item has changed at the giver in the meantime; accept the offer again"


class Outcome(NamedTuple):
    """How many items of an offer were accepted.

    :param done: the number of items that are stored here as the offer says.
    :param refused: the number of items that were not taken.
    """

    done: int
    refused: int


class Acceptor:
    """Accepts an offer of another Archive (the giver).

    :ivar offer: the description of the offer.
    :param context: the Archive that takes the items, without the session of a host.
    :param on_progress: called with the number of finished items and the number of all items.
    :param on_refused: called with an identifier of each item that is not taken, and the reason.
    :raises OfferError: if the offer is for another Archive, or from an Archive of this database.
    """

    def __init__(
        self,
        context: operations.OperationContext,
        client: OfferClient,
        on_progress: Callable[[int, int], None],
        on_refused: Callable[[str, str], None],
    ) -> None:
        self.context = context
        self.client = client
        self.offer: messages.OfferDescription = client.read_description()
        offer = self.offer
        self._on_progress = on_progress
        self._on_refused = on_refused
        self._refused = 0
        self._bytes_left = offer.bytes
        own = context.archive
        if offer.taker not in (own.rep, own.ibip):
            reason = f"is an offer to {offer.taker}, but this Archive is {own.service_ibi}"
            raise OfferError(client.name, reason)
        with context.reading() as store:
            if find_archives(store.connection, offer.giver):
                raise OfferError(
                    client.name,
                    f"is an offer of {offer.giver}, which is in the same database; use flask ibi "
                    "transfer or flask ibi copy",
                )

    def run(self) -> Outcome:
        """Accept the items of the offer, and return how many were taken and refused.

        :raises OfferError: if the offer cannot be accepted, or not completely.
        :raises TransportError: if the giver cannot be reached. Accept the offer again later.
        """
        self._staging = Staging(self.context.folder, name=f"offer-{self.offer.offer}")
        with self._staging.locked():
            outcome = self._go_through(self._accept)
            self._staging.clear()
        return outcome

    def examine(self) -> Outcome:
        """Try to take the items and report those that cannot be taken, but undo what is stored."""
        return self._go_through(self._rehearse)

    def _go_through(self, handle: Callable[[Sequence[OfferedRecord]], None]) -> Outcome:
        """Call a function with each page of items; refuse the items that cannot be read."""
        last, count, total = 0, 0, self.offer.items
        while last < total and (items := self.client.read_page(last, total)):
            for item in items:
                if isinstance(item, UnreadableItem):
                    self._refuse(item.name or f"item {item.number}", item.reason)
            handle([item for item in items if isinstance(item, OfferedRecord)])
            last, count = items[-1].number, count + len(items)
            self._on_progress(last, total)
        if count < total:
            expires = f"{self.offer.expires:%Y-%m-%d}"
            reason = f"has sent {count} of {total} items only; the offer expires on {expires}"
            raise OfferError(self.client.name, reason)
        return Outcome(total - self._refused, self._refused)

    def _refuse(self, name: str, reason: str) -> None:
        self._refused += 1
        self._on_refused(name, reason)

    def _refuse_items(self, items: Sequence[OfferedRecord], reasons: Mapping[int, str]) -> None:
        for item in items:
            if item.number in reasons:
                self._refuse(item.record.identifiers[0], reasons[item.number])

    def _rehearse(self, items: Sequence[OfferedRecord]) -> None:
        with suppress(_Undone), self.context.transaction() as store:
            page = Page(store, self.offer.giver, items)
            page.write({item.number: list_contents(item) for item in items}, self.context.now())
            raise _Undone
        self._refuse_items(items, page.refused)

    def _accept(self, items: Sequence[OfferedRecord]) -> None:
        """Store a page of items with their files, and ask the giver to switch them."""
        with self.context.reading() as store:
            page = Page(store, self.offer.giver, items)
            present = store.get_contents_of(page.ids.values())
        refused, contents = page.refused, {}
        for item in [*page.stored, *page.new]:
            try:
                here = present.get(page.ids.get(item.number, 0), {})
                contents[item.number] = self._take_files(item, here)
            except StorageError as error:
                refused[item.number] = str(error)
        if contents:
            rest = [item for item in items if item.number in contents]
            stored = self._store(rest, contents, refused)
            if stored and self.offer.kind == messages.MOVE:
                self._move(stored, refused)
        self._refuse_items(items, refused)

    def _store(
        self,
        items: Sequence[OfferedRecord],
        contents: Mapping[int, Contents],
        refused: dict[int, str],
    ) -> Sequence[OfferedRecord]:
        """Store items whose files are complete, and return those that are now stored.

        :param contents: the contents of the stored files, by the numbers of the items.
        :param refused: the reason for each item that cannot be stored, by its number; this method
            adds reasons.
        """
        with self.context.transaction() as store:
            store.lock_relations(limited=False)
            # the items are examined again, because others may have changed them since
            page = Page(store, self.offer.giver, items)
            page.write(contents, self.context.now())
            for item in page.stored:
                for content in contents[item.number].values():
                    self._staging.move_to_store(content)
        refused |= page.refused
        return page.stored

    def _move(self, items: Sequence[OfferedRecord], refused: dict[int, str]) -> None:
        """Ask the giver to switch stored items, and make the switched items Originals.

        :param refused: the reason for each item that does not become an Original, by its number;
            this method adds reasons.
        """
        answers = self.client.switch([StoredVersion(item.number, item.version) for item in items])
        with self.context.transaction() as store:
            receiver = Receiver(store, self.offer.giver, self.context.archive, items)
            for item, answer in zip(items, answers, strict=True):
                reason: str | None = CHANGED
                if answer.result == "switched":
                    reason = receiver.receive(item.number, answer.counts)
                elif answer.result == "refused":
                    reason = f"the giver refuses: {answer.reason}"
                if reason is not None:
                    refused[item.number] = reason
            receiver.finish()

    # --- files -----------------------------------------------------------------------------------

    def _take_files(self, item: OfferedRecord, present: Contents) -> Contents:
        """Fetch the missing files of an item from the giver (the Archive that offers it).

        A file is fetched even if *another* item here has the same checksum: otherwise a giver that
        knows only the checksum of a private file would get that file.

        :param present: the contents of the files that the item has here.
        :returns: the contents of all files of the item, by path.
        :raises StorageError: if a file cannot be fetched.
        """
        contents = list_contents(item)
        for path, content in contents.items():
            if content.size > self._bytes_left:
                raise StorageError(
                    f"the file {path} has {content.size} bytes, but the offer states only "
                    f"{self._bytes_left} more"
                )
            self._bytes_left -= content.size
            store = self.context.folder
            is_here = present.get(path) == content and store.has_undamaged_file(content)
            if is_here or self._staging.has(content):
                continue
            free = count_free_bytes(store)
            if content.size > free:
                raise StorageError(
                    f"the file {path} has {content.size} bytes, but only {free} are free in "
                    f"{store.folder}"
                )
            try:
                with self._staging.receive(content) as file:
                    self.client.read_file(item.number, path, content.size, file)
            except StorageError as error:
                raise StorageError(f"the file {path}: {error}") from error
        return contents


class _Undone(Exception):
    """Raised and caught to roll back the transaction of a dry run."""


def count_free_bytes(store: FileStore) -> int:
    """Return how many bytes of new files still fit on the disk of the stored files."""
    path = store.folder.absolute()
    existing = next(path for path in (path, *path.parents) if path.exists())
    return max(shutil.disk_usage(existing).free - RESERVE, 0)


def list_contents(item: OfferedRecord) -> dict[str, Content]:
    """Return the checksums and sizes that the giver states for the stored files, by path."""
    return {
        file.path: Content(str(file.sha256), item.sizes[file.path])
        for file in item.record.files
        if file.path in item.sizes
    }


# --- storing -------------------------------------------------------------------------------------


class Page:
    """A page of items of an offer, sorted by what must be done with them.

    :param store: the items of this Archive.
    :param giver: the service IBI of the Archive that makes the offer.
    :ivar ids: the row IDs of the items that are here, by their numbers in the offer.
    :ivar new: the items to be stored.
    :ivar stored: the items that are stored in the offered version.
    :ivar refused: the reason for each item that cannot be taken, by its number in the offer.
    """

    def __init__(self, store: ItemStore, giver: str, items: Sequence[OfferedRecord]) -> None:
        self.store, self.giver = store, giver
        self.ids: dict[int, int] = {}
        self.new: list[OfferedRecord] = []
        self.stored: list[OfferedRecord] = []
        self.refused: dict[int, str] = {}
        texts = [text for item in items for text in item.record.identifiers]
        owners, elsewhere = find_owners_and_originals(store.connection, store.archive_id, texts)
        views = store.reader.read_items({owner.id for owner in owners.values()})
        for item in items:
            names = item.record.identifiers
            ids = {owners[text].id for text in names if text in owners}
            if not elsewhere.isdisjoint(names):
                reason = "another Archive of this database has its Original"
                self.refused[item.number] = reason
            elif len(ids) > 1:
                self.refused[item.number] = "its identifiers belong to several items here"
            else:
                self.ids |= dict.fromkeys([item.number], *ids)
                self._sort(item, views[ids.pop()] if ids else None)
        self._refuse_relations()

    def _sort(self, item: OfferedRecord, view: ItemView | None) -> None:
        only_tombstone = item.moved and item.record.state == State.DELETED.value
        if view is None:
            if only_tombstone:
                self.refused[item.number] = "the giver has only a tombstone of it"
            else:
                self.new.append(item)
            return
        elsewhere = view.record.original_elsewhere
        if elsewhere == self.giver:
            shown = offers.show_item(item.number, view, self.giver)
            is_current = shown is not None and shown.version == item.version
            (self.stored if is_current or only_tombstone else self.new).append(item)
        elif elsewhere is not None or not item.moved or view.is_service:
            self.refused[item.number] = explain_ours(view)

    def _refuse_relations(self) -> None:
        """Refuse items that would change the relations of items that did not come from the giver.

        An offered item may only be related to such an item if the two are related already.
        """
        related = {
            item.number: {item.record.next_edition or "", *item.record.translations.values()}
            - {"", *item.record.identifiers}
            for item in self.new
        }
        owners = self.store.find_owners(set().union(*related.values()))
        ids = {owner.id for owner in owners.values() if owner.state != State.DELETED.value}
        received = self.store.connection.scalars(
            sa.select(ReceivedItem.item_id).where(
                is_one_of(ReceivedItem.item_id, ids), ReceivedItem.giver == self.giver
            )
        )
        views = self.store.reader.read_items(ids - set(received))
        ours = {
            text: {other.ibi for other in views[owner.id].related}
            for text, owner in owners.items()
            if owner.id in views and views[owner.id].record.original_archive != self.giver
        }
        for item in [*self.new]:
            for text in related[item.number] & ours.keys():
                if ours[text].isdisjoint(item.record.identifiers):
                    self.refused[item.number] = f"it would become related to {text}, which is ours"
        self.new = [item for item in self.new if item.number not in self.refused]

    def write(self, contents: Mapping[int, Contents], now: datetime) -> None:
        """Store the new items as Copies. Refuse those that cannot be stored.

        :param contents: the contents of the stored files, by the numbers of the items.
        """
        renew_plans(self.store.connection)
        for item in self.new:
            record = copy_record(item.record, self.giver)
            files = contents[item.number]
            upsert = partial(operations.upsert_item, self.store, record, files, now, Event.COPY)
            reason = offers.try_change(self.store, record.identifiers[0], upsert)
            if reason is None:
                self.stored.append(item)
            else:
                self.refused[item.number] = reason
        self.stored.sort(key=attrgetter("number"))


def explain_ours(view: ItemView) -> str:
    """Return the reason why an offered item must not replace an item of this Archive."""
    record = view.record
    ibi = record.identifiers[0]
    if view.is_service:
        return f"{ibi} is the service of this Archive"
    if record.original_elsewhere is not None:
        return f"the Original of {ibi} is in {record.original_elsewhere}"
    if record.state == State.DELETED.value:
        return f"this Archive had the Original of {ibi}, and has removed it"
    return f"this Archive has the Original of {ibi}"


def copy_record(record: Record, giver: str) -> Record:
    """Return the record that an offered item gets here: that of a Copy, or of a tombstone."""
    if record.state == State.DELETED.value:
        tombstone = record.tombstone or Tombstone("removed")
        return replace(record, tombstone=replace(tombstone, original_archive=giver))
    return replace(record, state=State.COPY.value, original_archive=giver)


# --- receiving -----------------------------------------------------------------------------------


class Receiver:
    """Makes stored Copies the Originals, in the transaction of the caller.

    :param giver: the service IBI of the Archive that had the Originals.
    :param own: this Archive.
    """

    def __init__(
        self, store: ItemStore, giver: str, own: ServedArchive, items: Sequence[OfferedRecord]
    ) -> None:
        self._store, self._giver, self._own = store, giver, own
        names = {item.number: item.record.identifiers[0] for item in items}
        owners = store.find_owners(names.values())
        ids = {number: owners[text].id for number, text in names.items()}
        store.lock_relations(list(ids.values()), limited=False)
        views = store.reader.read_items(ids.values())
        self._items = {number: (row_id, views[row_id].record) for number, row_id in ids.items()}
        self._received: dict[int, Record] = {}

    def receive(self, number: int, counts: Sequence[DailyCount]) -> str | None:
        """Make an item the Original, and add the counts of accesses that the giver has sent.

        :returns: None if this was done; otherwise the reason why it was not.
        """
        item_id, before = self._items[number]
        ibi = before.identifiers[0]
        if before.original_elsewhere != self._giver or item_id in self._received:
            return f"{ibi} is not a Copy from {self._giver} any more"
        reason = offers.try_change(self._store, ibi, partial(self._change, item_id, before, counts))
        if reason is None:
            self._received[item_id] = before
        return reason

    def _change(self, item_id: int, before: Record, counts: Sequence[DailyCount]) -> None:
        store = self._store
        after = replace(before, state=State.ORIGINAL.value, original_archive=None)
        if before.tombstone is None:
            store.set_states([item_id], State.ORIGINAL)
            operations.note_change(store, before, after)
        else:  # a removed item stays removed; it is ours now
            store.relations.leave(before.identifiers[0])
            store.connection.execute(
                sa.update(TombstoneRow)
                .where(TombstoneRow.item_id == item_id)
                .values(original_archive=None)
            )
        if counts:
            add_counts(store.connection, self._own.id, {item_id: counts})
        operations.note_signal(store, moved_here, after, giver=self._giver)

    def finish(self) -> None:
        """Store which Archive gave the items, and let Copies in this database name this Archive."""
        connection = self._store.connection
        statement = insert_or_update(connection, ReceivedItem.__table__)
        statement = statement.on_conflict_do_update(
            index_elements=["item_id"], set_={"giver": self._giver}
        )
        if self._received:
            rows = [{"item_id": item_id, "giver": self._giver} for item_id in self._received]
            connection.execute(statement, rows)
        names = [text for record in self._received.values() for text in record.identifiers]
        copies = connection.execute(
            sa.select(Item.id, Item.archive_id)
            .join(ItemIdentifier, ItemIdentifier.item_id == Item.id)
            .where(
                is_one_of(ItemIdentifier.text, names),
                Item.archive_id != self._own.id,
                Item.original_archive == self._giver,
            )
            .distinct()
        ).all()
        for copy_id, archive_id in copies:
            self._store.set_states([copy_id], State.COPY, self._own.service_ibi)
            store = ItemStore(connection, archive_id, self._store.notices)
            operations.note_changed_item(store, copy_id, ["original_archive"])
