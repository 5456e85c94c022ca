"""The operations on the items of an Archive, as methods of Archive.

Hosts and commands call these methods. Each method calls one function of this package, and the
documentation of the method is complete. ``RuleBroken`` contains the number of a rule of
:mod:`flask_ibi_archive.storage.rules`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flask_ibi_archive.archive.minting import Minted
from flask_ibi_archive.archive.operations.context import (
    OperationContext,
    canonicalize,
    validate_note,
)
from flask_ibi_archive.archive.operations.copying import make_copy, transfer
from flask_ibi_archive.archive.operations.depositing import deposit
from flask_ibi_archive.archive.operations.description import (
    Files,
    Identified,
    ItemRecord,
    Metadata,
    get_ibi,
    require_ibi,
)
from flask_ibi_archive.archive.operations.editing import edit
from flask_ibi_archive.archive.operations.noting import note as note_signal
from flask_ibi_archive.archive.operations.removing import delete
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.records.fields import quoted
from flask_ibi_archive.records.record import Tombstone
from flask_ibi_archive.signals import item_minted
from flask_ibi_archive.storage.identifiers import (
    RELEASED,
    Reservation,
    add_reservation,
    read_reservations,
    settle_reservation,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack


class ItemOperations(ABC):
    """The operations on items, as methods of Archive.

    An argument ``ibi`` can be either form of an identifier, in upper or lower case; or an object
    with an ``ibi``, such as the result of :meth:`deposit` or an ItemView. Each operation is a
    transaction. If the host has a session, the operation is a savepoint in the transaction of the
    host instead. An operation that raises an exception changes nothing. The exceptions are
    UnknownItem, RuleBroken, ForbiddenMove and other StorageErrors.
    :data:`flask_ibi_archive.protocol.states.TRANSITIONS` lists the operations that each state of an
    item allows.
    """

    @property
    @abstractmethod
    def own_context(self) -> OperationContext:
        """The Archive and the database on which the operations work."""

    @abstractmethod
    def check_has_items(self) -> None:
        """Check that the items of this Archive are in the tables of this package."""

    @property
    def context(self) -> OperationContext:
        """The same as :attr:`own_context`, for operations on items.

        :raises StorageError: if the items are in the catalogue of the host.
        """
        self.check_has_items()
        return self.own_context

    # --- new items -------------------------------------------------------------------------------

    def deposit(
        self,
        record: ItemRecord | None = None,
        files: Files | None = None,
        /,
        *,
        reserved: str | Identified | None = None,
        **fields: Unpack[ItemRecord],
    ) -> Minted:
        """Store a new item with its files and give the item an IBI in both forms.

        ::

            minted = ibi.archive.deposit(
                title="Annual report",
                creators=["Silva, Ana", "Souza, Davi"],
                language="en",
                files=["report.pdf", request.files["data"]],
                metadata={"dc": {"date": "2026", "subject": ["hydrology"]}},
            )
            minted.ibi                            # 8JMKD3MGP8W/4GR7C9G
            ibi.archive.persistent_url(minted)    # http://urlib.net/8JMKD3MGP8W/4GR7C9G

        :param record: the description of the item. None: only ``fields`` describe the item.
        :param files: the files of the item. The same as the field ``files``.
        :param reserved: an identifier that was reserved for the item (:meth:`reserve`). None: a new
            identifier is minted.
        :param fields: further fields of the description. They are listed in the documentation of
            :class:`ItemRecord` (``help(flask_ibi_archive.ItemRecord)``). The most important fields
            are ``title``, ``creators``, ``language``, ``files``, ``metadata`` and ``access``.
        :returns: the identifiers of the item: ``rep``, ``ibip``, and ``ibi``, which is the short
            form. A new identifier is used up even if the item cannot be stored.
        :raises StorageError: if a field is wrong, if a file cannot be read, or if a rule does not
            allow the item. The message names the field and the expected value.
        :raises MintingError: if no identifier can be minted now.
        :raises NotReady: if the Archive is not set up. The message names the command to run.
        """
        return deposit(
            self.context, _join_fields(record, files, fields), get_ibi("reserved", reserved)
        )

    def new_edition(
        self,
        ibi: str | Identified,
        record: ItemRecord | None = None,
        files: Files | None = None,
        /,
        *,
        reserved: str | Identified | None = None,
        **fields: Unpack[ItemRecord],
    ) -> Minted:
        """Deposit an item as the next edition of another item; see :meth:`deposit`.

        ::

            ibi.archive.new_edition(first.ibi, title="Annual report, corrected", files=["b.pdf"])

        :param ibi: an identifier of the earlier edition.
        :raises RuleBroken: rule 7, if the earlier edition already has a next edition. The message
            names the last edition.
        """
        given = {**_join_fields(record, files, fields), "previous_edition": require_ibi(ibi)}
        return deposit(self.context, given, get_ibi("reserved", reserved))

    def add_translation(
        self,
        ibi: str | Identified,
        record: ItemRecord | None = None,
        files: Files | None = None,
        /,
        *,
        reserved: str | Identified | None = None,
        **fields: Unpack[ItemRecord],
    ) -> Minted:
        """Deposit an item as a translation of another item; see :meth:`deposit`.

        ::

            ibi.archive.add_translation(english.ibi, language="pt", files=["relatorio.pdf"])

        :param ibi: an identifier of the other item, or of any translation of that item.
        :param fields: the description of the new item. The field ``language`` is required.
        :raises RuleBroken: rule 8, if there is already an item or translation in that language.
        """
        given = {**_join_fields(record, files, fields), "translation_of": require_ibi(ibi)}
        return deposit(self.context, given, get_ibi("reserved", reserved))

    # --- existing items --------------------------------------------------------------------------

    def attach_metadata(self, ibi: str | Identified, metadata: Metadata) -> None:
        """Replace the metadata of an item; see :meth:`edit`.

        ::

            ibi.archive.attach_metadata(item.ibi, {"dc": {"title": ["Annual report"]}})

        :param metadata: the new metadata. None: the metadata are removed.
        """
        edit(self.context, require_ibi(ibi), {"metadata": metadata})

    def replace_files(
        self, ibi: str | Identified, files: Files, *, target_file: str | None = None
    ) -> None:
        """Replace the files of an item; see :meth:`edit`.

        ::

            ibi.archive.replace_files(item.ibi, ["report.pdf", "data.csv"])

        :param target_file: the name of the new target file. None: the first file.
        """
        edit(self.context, require_ibi(ibi), {"target_file": target_file}, files)

    def edit(
        self,
        ibi: str | Identified,
        *,
        files: Files | None = None,
        add_files: Files = (),
        remove_files: Sequence[str] = (),
        add_aliases: Sequence[str] = (),
        remove_aliases: Sequence[str] = (),
        **changes: Any,
    ) -> None:
        """Change fields of an Original, and set the timestamp of the item to the current time.

        ::

            ibi.archive.edit(item.ibi, title="Annual report 2026", add_files=["data.csv"])

        :param files: the new files, which replace all old files. None: the old files remain.
        :param add_files: files to add at the end of the list of files.
        :param remove_files: the paths of files to remove.
        :param add_aliases: further identifiers to add to the item.
        :param remove_aliases: wrong aliases to remove. Another item may get a removed alias.
        :param changes: the new values of fields of :class:`ItemRecord`, by name.
        :raises TypeError: if a field cannot be edited.
        :raises StorageError: if a value is wrong, or if a file cannot be read.
        :raises RuleBroken: if a rule does not allow the change.
        :raises ForbiddenMove: if the item is not an Original.
        """
        edit(
            self.context,
            require_ibi(ibi),
            changes,
            files,
            add_files=add_files,
            remove_files=remove_files,
            add_aliases=add_aliases,
            remove_aliases=remove_aliases,
        )

    def make_copy(self, ibi: str | Identified, to: str | None = None) -> None:
        """Copy an Original to another Archive of the database, or update an existing Copy there.

        ::

            ibi.archive.make_copy(item.ibi, to="sid.inpe.br/mtc-m19@80/2009/08.21.17.02")

        The Copy has the identifiers, the files, the description and the timestamp of the Original.

        :param to: the service IBI of the Archive that gets the Copy. None: the Original is in
            another Archive, and this Archive gets the Copy.
        :raises StorageError: if the database has no Archive with this service IBI.
        :raises RuleBroken: rule 4, if no other Archive of the database has the Original.
        :raises ForbiddenMove: if the item is not an Original, or if the state of the item in the
            target Archive does not allow a Copy.
        """
        make_copy(self.context, require_ibi(ibi), to)

    def transfer(self, ibi: str | Identified, to: str, *, keep_copy: bool = False) -> None:
        """Transfer an Original to another Archive of the database.

        ::

            ibi.archive.transfer(item.ibi, to="sid.inpe.br/mtc-m19@80/2009/08.21.17.02")

        If the other Archive has a Copy, a tombstone or a stub of the item, this row becomes the
        Original. (A stub is a row for an item that the Archive does not have, but that items of the
        Archive refer to.) Afterwards all Copies name the new Archive.

        :param to: the service IBI of the other Archive.
        :param keep_copy: True: a Copy remains in this Archive. False: a tombstone remains.
        :raises StorageError: if the database has no such Archive, or if the item is not
            transferable.
        :raises RuleBroken: rule 3, if ``to`` is this Archive. Or another rule.
        :raises ForbiddenMove: if the item is not an Original.
        """
        transfer(self.context, require_ibi(ibi), to, keep_copy)

    def delete(
        self,
        ibi: str | Identified,
        reason: str,
        *,
        citation: str | None = None,
        successor: str | Identified | None = None,
        discard_description: bool = False,
    ) -> None:
        """Delete an item. A tombstone with its metadata remains, and the links between editions.

        ::

            ibi.archive.delete(item.ibi, "Retracted by the author.", successor=other.ibi)

        :param reason: the reason for the deletion, which the public can read.
        :param citation: a text that cites the item. None: pages make the citation from the
            metadata.
        :param successor: the item that replaces the deleted item.
        :param discard_description: True: also delete the metadata.
        :raises RuleBroken: rule 4, if the item is an Original that has Copies. The message names
            the Archives that have the Copies. Rule 6, if the item is the service.
        :raises ForbiddenMove: if the item was deleted already.
        """
        replaced_by = get_ibi("successor", successor)
        tombstone = Tombstone(
            reason, citation, replaced_by, discard_description=discard_description
        )
        delete(self.context, require_ibi(ibi), tombstone)

    # --- reservations of identifiers -------------------------------------------------------------

    def reserve(self, note: str | None = None) -> Minted:
        """Mint an identifier, and reserve the identifier for a draft.

        ::

            draft = ibi.archive.reserve(note="thesis of Ana Silva")
            ibi.archive.deposit(title="...", files=["thesis.pdf"], reserved=draft.ibi)

        No other item can get a reserved identifier.

        :param note: the purpose of the reservation.
        :raises MintingError: if no identifier can be minted now.
        """
        text = validate_note(note)
        context = self.own_context
        with context.new_item(context.get_minter()) as (store, minted):
            add_reservation(
                store.connection, store.archive_id, minted.rep, minted.ibip, text, context.now()
            )
            note_signal(store, item_minted, minted)
        return minted

    def release(self, ibi: str | Identified) -> None:
        """End the reservation of an identifier. The identifier is never issued again.

        ::

            ibi.archive.release(draft.ibi)

        :raises StorageError: if the identifier is not reserved for a draft of this Archive.
        """
        text = canonicalize(require_ibi(ibi))
        context = self.own_context
        with context.transaction(text) as store:
            settle_reservation(store.connection, store.archive_id, text, RELEASED, context.now())

    def reservations(self) -> list[Reservation]:
        """Return the reservations of the Archive. The oldest reservation is the first."""
        with self.own_context.reading() as store:
            return read_reservations(store.connection, store.archive_id)


def _join_fields(
    record: ItemRecord | None, files: Files | None, fields: ItemRecord
) -> dict[str, Any]:
    """Return the fields of a description from the arguments of an operation."""
    if not isinstance(record, Mapping | None):
        raise StorageError(
            f"record: {quoted(record)} is not an ItemRecord, such as ItemRecord(language='en')"
        )
    given = {} if files is None else {"files": files}
    return {**(record or {}), **given, **fields}
