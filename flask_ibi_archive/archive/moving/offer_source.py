"""What the taker reads of an offer, at a server (:mod:`.http_offer`) or in a folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from flask_ibi_archive.core.records.fields import FieldError
from flask_ibi_archive.core.records.offers import (
    OfferDescription,
    OfferedRecord,
    parse_offered,
)
from flask_ibi_archive.core.records.parse import read_json
from flask_ibi_archive.core.records.switches import StoredVersion, SwitchAnswer
from flask_ibi_archive.errors import OfferError
from flask_ibi_archive.server.http.transport import make_printable


@dataclass(frozen=True, slots=True)
class UnreadableItem:
    """An item whose line is wrong. It is refused, and the others are taken.

    :param name: an identifier, for the report; "" if there is none.
    """

    number: int
    name: str
    reason: str


class ReceivedFile(Protocol):
    """The beginning of a file, to which a source writes the rest."""

    size: int

    def write(self, block: bytes) -> None:
        """Append the next bytes."""

    def restart(self) -> None:
        """Discard what is stored."""


class OfferSource(Protocol):
    """An offer that the taker reads, and through which it asks the giver to switch."""

    #: The name of the source for messages, and to find an acceptance again.
    name: str
    #: The number of bytes of the pages that were read.
    page_bytes: int

    def read_description(self) -> OfferDescription:
        """Return what the offer contains."""

    def read_page(self, after: int) -> Sequence[OfferedRecord | UnreadableItem]:
        """Return the next items after a number; an empty list at the end."""

    def read_items(self, numbers: Sequence[int]) -> Sequence[OfferedRecord | UnreadableItem]:
        """Return items with the present versions of their records."""

    def read_file(self, number: int, path: str, sha256: str, size: int, file: ReceivedFile) -> None:
        """Write the rest of a file.

        :raises StorageError: if the giver does not have the file any more.
        """

    def switch(self, items: Sequence[StoredVersion]) -> Sequence[SwitchAnswer]:
        """Ask the giver to switch items. In a folder, some answers or all may come later."""

    def finish(self, stored: Iterable[StoredVersion]) -> None:
        """Write the receipt for stored items that are not switched yet (folder)."""


def parse_lines(name: str, lines: Iterable[bytes]) -> Iterator[OfferedRecord | UnreadableItem]:
    """Yield the items of lines.

    :param name: the name of the source, for messages.
    :raises OfferError: if a line does not even have a number.
    """
    for line in lines:
        try:
            yield parse_offered(line)
        except FieldError as error:
            yield _read_number(name, line, error)


def _read_number(name: str, line: bytes, error: FieldError) -> UnreadableItem:
    """Return the number and the name in a wrong line."""
    data: Any = None
    try:
        data = read_json(line)
        number, record = data["number"], data["record"]
        texts = [text for text in (record.get("rep"), record.get("ibip")) if isinstance(text, str)]
    except (FieldError, TypeError, KeyError, AttributeError):
        number, texts = None, []
    if not line.endswith(b"\n") or type(number) is not int or not 1 <= number < 1 << 31:
        raise OfferError(name, f"sends a wrong line: {make_printable(str(error))}") from error
    return UnreadableItem(number, make_printable((texts or [""])[0]), make_printable(str(error)))
