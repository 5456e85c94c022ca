"""The operations on the items of an Archive, each one transaction, or a savepoint in the host's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from flask_ibi_archive.archive.minting import Minted
from flask_ibi_archive.archive.operations import (
    copying,
    depositing,
    editing,
    removing,
    reserving,
    transferring,
)
from flask_ibi_archive.archive.operations.context import Files, OperationContext
from flask_ibi_archive.records.record import (
    DublinCoreMetadata,
    ItemRecord,
    MetadataAddress,
    MetadataItem,
)
from flask_ibi_archive.storage.reservations import Reservation


class Operations(ABC):
    """What can be done with items: identifiers in either form and any case name them.

    Each raises UnknownItem, RuleBroken, ForbiddenMove or another StorageError where it is refused,
    and then nothing is changed; MintingError where no identifier can be given. The moves of state
    that they make stand in one table (:data:`flask_ibi_archive.storage.states.TRANSITIONS`).
    """

    @property
    @abstractmethod
    def workplace(self) -> OperationContext:
        """Where they take place."""

    def deposit(
        self, record: ItemRecord, files: Files = (), *, reserved: str | None = None
    ) -> Minted:
        """Deposit an item; see :func:`..depositing.deposit`."""
        return depositing.deposit(self.workplace, record, files, reserved)

    def new_edition(
        self,
        ibi: str,
        record: ItemRecord,
        files: Files = (),
        *,
        reserved: str | None = None,
    ) -> Minted:
        """Deposit an item as the next edition of another; see :func:`..depositing.add_edition`."""
        return depositing.add_edition(self.workplace, ibi, record, files, reserved)

    def add_translation(
        self,
        ibi: str,
        record: ItemRecord,
        files: Files = (),
        *,
        reserved: str | None = None,
    ) -> Minted:
        """Deposit an item as the translation of another; see :func:`..depositing.add_translation`."""
        return depositing.add_translation(self.workplace, ibi, record, files, reserved)

    def attach_metadata(
        self, ibi: str, metadata: MetadataItem | DublinCoreMetadata | MetadataAddress | None
    ) -> None:
        """Return an item metadata in place of what it has; None takes them away."""
        editing.edit(self.workplace, ibi, {"metadata": metadata})

    def replace_files(self, ibi: str, files: Files, *, target_file: str | None = None) -> None:
        """Return an item files in place of those it has.

        :param target_file: the name of the one that stands for it; None: the first.
        """
        editing.edit(self.workplace, ibi, {"target_file": target_file}, files)

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
        """Change what is known of an item; see :func:`..editing.edit`."""
        editing.edit(
            self.workplace,
            ibi,
            changes,
            files,
            add_files=add_files,
            remove_files=remove_files,
            add_aliases=add_aliases,
            remove_aliases=remove_aliases,
        )

    def make_copy(self, ibi: str, to: str | None = None) -> None:
        """Make or refresh a Copy; see :func:`..copying.make_copy`."""
        copying.make_copy(self.workplace, ibi, to)

    def transfer(self, ibi: str, to: str, *, keep_copy: bool = False) -> None:
        """Transfer an Original to another Archive; see :func:`..transferring.transfer`."""
        transferring.transfer(self.workplace, ibi, to, keep_copy)

    def delete(
        self, ibi: str, reason: str, *, citation: str | None = None, successor: str | None = None
    ) -> None:
        """Remove an item, leaving a tombstone; see :func:`..removing.delete`."""
        removing.delete(self.workplace, ibi, reason, citation, successor)

    def reserve(self, note: str | None = None) -> Minted:
        """Return an identifier that is held for a draft; see :func:`..reserving.reserve`."""
        return reserving.reserve(self.workplace, note)

    def release(self, ibi: str) -> None:
        """Hold an identifier no longer; see :func:`..reserving.release`."""
        reserving.release(self.workplace, ibi)

    def reservations(self) -> list[Reservation]:
        """Return the reservations of the Archive, the oldest first."""
        return reserving.reservations(self.workplace)
