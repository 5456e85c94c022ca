"""The operations on the items of an Archive, which hosts and commands call on ArchiveService.

Each method calls one function of this package and documents the function completely. The rules in
``RuleBroken`` are those of :mod:`flask_ibi_archive.storage.rules`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from flask_ibi_archive.archive.minting import Minted
from flask_ibi_archive.archive.operations.context import (
    Files,
    OperationContext,
    canonicalize,
    utc_now,
    validate_note,
)
from flask_ibi_archive.archive.operations.copying import make_copy, transfer
from flask_ibi_archive.archive.operations.depositing import deposit
from flask_ibi_archive.archive.operations.editing import edit
from flask_ibi_archive.archive.operations.removing import delete
from flask_ibi_archive.records.record import (
    DublinCoreMetadata,
    ItemRecord,
    MetadataAddress,
    MetadataItem,
)
from flask_ibi_archive.storage.identifiers import (
    RELEASED,
    Reservation,
    add_reservation,
    read_reservations,
    settle_reservation,
)


class ItemOperations(ABC):
    """The operations on items, as methods of ArchiveService.

    They accept identifiers in either form, in upper or lower case. Each operation is a transaction
    or, if the host has a session, a savepoint in the transaction of the host. An operation that
    raises an exception changes nothing. The exceptions are UnknownItem, RuleBroken, ForbiddenMove
    and other StorageErrors. See :data:`flask_ibi_archive.storage.states.TRANSITIONS` for the
    operations that each state of an item allows.
    """

    @property
    @abstractmethod
    def context(self) -> OperationContext:
        """The Archive and the database on which the operations work."""

    # --- new items -------------------------------------------------------------------------------

    def deposit(
        self, record: ItemRecord, files: Files = (), *, reserved: str | None = None
    ) -> Minted:
        """Store a new item with its files and give the item an IBI in both forms.

        :param record: the description of the item, without identifiers.
        :param files: its files, whose names must differ; the first file is the target file, unless
            the record names another.
        :param reserved: an identifier that was reserved for the item; None: a new one is minted.
        :returns: the identifiers of the item. New ones are used up even if storing the item fails.
        :raises StorageError: if a file cannot be read, or a rule does not allow the item.
        :raises MintingError: if no identifier can be minted now.
        """
        return deposit(self.context, record, files, reserved)

    def new_edition(
        self, ibi: str, record: ItemRecord, files: Files = (), *, reserved: str | None = None
    ) -> Minted:
        """Deposit an item as the next edition of another item; see :meth:`deposit`.

        :param ibi: an identifier of the earlier edition.
        :raises RuleBroken: rule 7, if the earlier edition already has a next edition; the message
            names the last edition.
        """
        return deposit(self.context, record, files, reserved, edition_of=ibi)

    def add_translation(
        self, ibi: str, record: ItemRecord, files: Files = (), *, reserved: str | None = None
    ) -> Minted:
        """Deposit an item as a translation of another item; see :meth:`deposit`.

        :param ibi: an identifier of any item of the group of translations.
        :param record: the description of the item, which must state a language.
        :raises RuleBroken: rule 8, if the group already has an item in that language.
        """
        return deposit(self.context, record, files, reserved, translation_of=ibi)

    # --- existing items --------------------------------------------------------------------------

    def attach_metadata(
        self, ibi: str, metadata: MetadataItem | DublinCoreMetadata | MetadataAddress | None
    ) -> None:
        """Replace the metadata of an item, or remove them (None); see :meth:`edit`."""
        edit(self.context, ibi, {"metadata": metadata})

    def replace_files(self, ibi: str, files: Files, *, target_file: str | None = None) -> None:
        """Replace the files of an item; see :meth:`edit`.

        :param target_file: the name of the new target file; None: the first file.
        """
        edit(self.context, ibi, {"target_file": target_file}, files)

    def edit(
        self,
        ibi: str,
        *,
        files: Files | None = None,
        add_files: Files = (),
        remove_files: Sequence[str] = (),
        add_aliases: Sequence[str] = (),
        remove_aliases: Sequence[str] = (),
        **changes: Any,
    ) -> None:
        """Change fields of an Original and set its timestamp to the current time.

        :param files: the new files, which replace the old ones; None: the old files remain.
        :param add_files: files to add after the others.
        :param remove_files: the paths of files to remove.
        :param add_aliases: further identifiers of the item.
        :param remove_aliases: wrong aliases to remove; another item may get them afterwards.
        :param changes: the new values of fields of :class:`ItemRecord`, by name.
        :raises TypeError: if a field cannot be edited.
        :raises StorageError: if a value is wrong, or a file cannot be read.
        :raises RuleBroken: if a rule does not allow the change.
        :raises ForbiddenMove: if the item is not an Original.
        """
        edit(
            self.context,
            ibi,
            changes,
            files,
            add_files=add_files,
            remove_files=remove_files,
            add_aliases=add_aliases,
            remove_aliases=remove_aliases,
        )

    def make_copy(self, ibi: str, to: str | None = None) -> None:
        """Copy an Original to another Archive of the database, or update its Copy there.

        The Copy has the identifiers, the files, the description and the timestamp of the Original.

        :param to: the service IBI of the Archive that gets the Copy; None: this Archive gets a Copy
            of an Original that is in another Archive.
        :raises StorageError: if there is no such Archive.
        :raises RuleBroken: rule 4, if no other Archive of the database has the Original.
        :raises ForbiddenMove: if the item is not an Original, or if the other Archive already has
            the item in a state that cannot become a Copy.
        """
        make_copy(self.context, ibi, to)

    def transfer(self, ibi: str, to: str, *, keep_copy: bool = False) -> None:
        """Transfer an Original to another Archive of the database.

        A Copy, a tombstone or a stub of the item in that Archive becomes the Original. (A stub is a
        row for an item of another Archive that items of this Archive refer to.) The Copies in other
        Archives name the new Archive afterwards.

        :param to: the service IBI of the other Archive.
        :param keep_copy: whether a Copy remains here, instead of a tombstone.
        :raises StorageError: if there is no such Archive, or the item is not transferable.
        :raises RuleBroken: rule 3, if the other Archive is this one; or another rule.
        :raises ForbiddenMove: if the item is not an Original.
        """
        transfer(self.context, ibi, to, keep_copy)

    def delete(
        self, ibi: str, reason: str, *, citation: str | None = None, successor: str | None = None
    ) -> None:
        """Delete an item; its tombstone and its place in the chain of editions remain.

        :param reason: the reason for the deletion, which the public can read.
        :param citation: how to cite the item; None: made from its Dublin Core, if it has any.
        :param successor: the IBI of the item that replaces it.
        :raises RuleBroken: rule 4, if the item is an Original with Copies (the message names the
            Archives that have them); rule 6, if the item is the service.
        :raises ForbiddenMove: if the item was deleted already.
        """
        delete(self.context, ibi, reason, citation, successor)

    # --- reservations of identifiers -------------------------------------------------------------

    def reserve(self, note: str | None = None) -> Minted:
        """Mint an identifier and reserve it for a draft; no other item can get the identifier.

        :param note: the purpose of the reservation.
        :raises MintingError: if no identifier can be minted now.
        """
        note = validate_note(note)
        context = self.context
        minted = context.mint()
        with context.transaction(minted.rep) as store:
            add_reservation(
                store.connection, store.archive_id, minted.rep, minted.ibip, note, utc_now()
            )
        return minted

    def release(self, ibi: str) -> None:
        """Release a reserved identifier, which is never issued again.

        :raises StorageError: if the identifier is not reserved for a draft of this Archive.
        """
        text = canonicalize(ibi)
        with self.context.transaction(text) as store:
            settle_reservation(store.connection, store.archive_id, text, RELEASED, utc_now())

    def reservations(self) -> list[Reservation]:
        """Return the reservations of the Archive, the oldest first."""
        with self.context.reading() as store:
            return read_reservations(store.connection, store.archive_id)
