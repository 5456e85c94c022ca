"""The messages of an offer: an Archive gives items to an Archive on another server.

The *giver*, the Archive that has the items, makes an offer to the *taker*, the other Archive. The
administrator of the taker gets the address of the offer. The taker reads the items page by page,
then the files, and stores all as Copies. If the items are to move, the taker asks the giver to
*switch* each item, and names the version that the taker stored. The giver gives up the Original,
and confirms this. Then the Copy of the taker becomes the Original. If an answer is lost, the giver
sends the same answer again.

The parsers raise FieldError. An error message never contains the secret of an offer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import partial
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict, replace

from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.hosts import check_url, is_archive_address
from flask_ibi_archive.core.records import values
from flask_ibi_archive.core.records.record import Record, format_record, parse_record, read_json
from flask_ibi_archive.core.records.values import FieldError, Parsed, choose, wrong

#: The path of the offers of an Archive.
PATH = "/ibi/offers"
#: The largest number of items in a page, and in a request to switch.
MAX_ITEMS = 50
#: The size in bytes at which a page ends, and the largest size of the line of an item.
MAX_PAGE = MAX_LINE = 8 << 20
#: The largest number of bytes in a request to switch.
MAX_BODY = 1 << 20
#: The kinds of offers.
MOVE, COPY = "move", "copy"

_ADDRESS = re.compile(rf"([^#]*{PATH}/[0-9a-f]{{16}})(?:#(.*))?", re.DOTALL)
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
_ID = re.compile("[0-9a-f]{16}")


# --- the address and the secret ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OfferAddress:
    """The address of an offer: ``https://G/ibi/offers/<id>#<secret>``.

    :param url: the address without the secret.
    :param secret: the secret, 43 characters (256 bits in base 64); None if it is not known yet.
    """

    url: str
    secret: str | None = field(default=None, repr=False)

    @property
    def public_id(self) -> str:
        """The last part of the URL: the public id of the offer."""
        return self.url.rpartition("/")[2]

    @property
    def text(self) -> str:
        """The address with the secret."""
        return self.url if self.secret is None else f"{self.url}#{self.secret}"


def parse_address(text: str) -> OfferAddress:
    """Parse the address of an offer, with or without the secret."""
    found = _ADDRESS.fullmatch(text.strip())
    if found is None:
        example = f"https://host{PATH}/0123456789abcdef"
        url = text.strip().partition("#")[0]
        raise wrong("", url, f"is not the address of an offer, such as {example}")
    url, secret = found.groups()
    values.parse_with("", check_url, url)
    return OfferAddress(url, None if secret is None else parse_secret(secret))


def parse_secret(text: str) -> str:
    """Check that a text may be the secret of an offer: 43 characters. Return the text."""
    if not _SECRET.fullmatch(text):
        raise FieldError("", "the secret of the offer is not complete; it has 43 characters")
    return text


def hash_secret(secret: str) -> str:
    """Return the SHA-256 of a secret in hexadecimal digits; the giver stores only this hash."""
    return sha256(secret.encode()).hexdigest()


#: A whole number from 0; from 1.
Number = Parsed[int, values.parse_number]
Position = Parsed[int, partial(values.parse_number, least=1)]
Ibi = Parsed[str, values.parse_ibi]
Version = Parsed[str, values.parse_sha256]


# --- the description of an offer -----------------------------------------------------------------


def parse_public_id(name: str, value: Any) -> str:
    """Check that a value is the public id of an offer."""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise wrong(name, value, "is not an offer: 16 hexadecimal digits")
    return value


class OfferDescription(Struct, frozen=True):
    """What an offer contains.

    :param offer: the public id of the offer.
    :param kind: "move" or "copy".
    :param leaves: the state of the item that remains at the giver after a move, Copy or Deleted;
        None if ``kind`` is "copy".
    :param giver: the service IBI of the Archive that makes the offer.
    :param taker: the service IBI of the Archive that may take the items.
    :param bytes: the total size of the stored files.
    :param files: the number of stored files.
    """

    offer: Parsed[str, parse_public_id]
    kind: Parsed[str, choose(Literal["move", "copy"])]
    leaves: Parsed[str | None, values.or_none(choose(Literal["Copy", "Deleted"]))]
    giver: Ibi
    taker: Ibi
    expires: Parsed[datetime, values.parse_timestamp]
    items: Position
    bytes: Number
    files: Number


def format_offer(description: OfferDescription) -> dict[str, Any]:
    """Return the description of an offer as a JSON object."""
    return {**asdict(description), "expires": format_timestamp(description.expires)}


def parse_offer(data: object) -> OfferDescription:
    """Parse the JSON object that describes an offer."""
    description = values.convert("", data, OfferDescription)
    if (description.kind == MOVE) != (description.leaves is not None):
        raise FieldError("leaves", "the field must be null for copies, and only for copies")
    return description


# --- the pages of items --------------------------------------------------------------------------


def _parse_sizes(name: str, value: Any) -> Mapping[str, int]:
    if not isinstance(value, dict):
        raise wrong(name, value, "is not an object")
    return {path: values.parse_number(name, size) for path, size in value.items()}


def _parse_record(name: str, value: Any) -> Record:
    return parse_record(value)


class OfferedRecord(Struct, frozen=True):
    """An item of an offer.

    :param number: the position in the offer, from 1.
    :param version: the version of the record; see :func:`compute_version`.
    :param record: the record at the giver: an Original, or a Deleted item.
    :param sizes: the sizes of the stored files in bytes, by their paths.
    :param moved: whether the giver has already given up the Original to the taker. Then ``record``
        is the record that remains at the giver.
    """

    number: Position
    version: Version
    record: Parsed[Record, _parse_record]
    sizes: Parsed[Mapping[str, int], _parse_sizes]
    moved: Parsed[bool, values.parse_flag]


def compute_version(record: Record) -> str:
    """Return the version of a record: the SHA-256 of its canonical JSON.

    The JSON contains the checksums of the files.
    """
    value = format_record(record)
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def offer_record(
    number: int, record: Record, sizes: Mapping[str, int], moved: bool = False
) -> OfferedRecord:
    """Build an item of an offer.

    :param record: the record at the giver. The result omits the field ``key``, which only the giver
        understands, and the field ``source`` of each file.
    """
    files = tuple(replace(file, source=None) for file in record.files)
    record = replace(record, key=None, files=files)
    return OfferedRecord(number, compute_version(record), record, sizes, moved)


def format_offered(offered: OfferedRecord) -> bytes:
    """Return an item of an offer as one line of JSON in UTF-8, with the line end."""
    line = {**asdict(offered), "record": format_record(offered.record)}
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def parse_offered(line: bytes) -> OfferedRecord:
    """Parse one line of an offer, and check that the version belongs to the record.

    A line without a line end is refused, because it was cut off.
    """
    if not line.endswith(b"\n"):
        raise FieldError("", "the line has no end: the answer was cut off")
    offered = values.convert("", read_json(line), OfferedRecord)
    record = offered.record
    if record.state not in ("Original", "Deleted"):
        raise FieldError("record.state", f"a {record.state} cannot be offered")
    if record.key is not None:
        raise FieldError("record.key", "the key belongs to the giver; omit the field")
    if any(file.source is not None for file in record.files):
        raise FieldError("record.files", "an offered file has no source")
    stored = {file.path for file in record.files if file.url is None and file.sha256 is not None}
    for path in offered.sizes.keys() - stored:
        raise FieldError("sizes", f"{values.quoted(path)} is not a stored file of the record")
    if offered.version != compute_version(record):
        raise FieldError("version", "the version is not that of the record")
    return offered


# --- the switch ----------------------------------------------------------------------------------


#: The result of a switch. "switched": the giver has no Original any more. "changed": the item has
#: another version now. "refused": the item stays at the giver.
Result = Literal["switched", "changed", "refused"]


class StoredVersion(Struct, frozen=True):
    """An item that the taker has stored: the number of the item in the offer, and the version."""

    number: Position
    version: Version


class DailyCount(NamedTuple):
    """How often the data (or the metadata) of an item were accessed on one day."""

    day: date
    content_type: str
    accesses: int
    double_clicks: int
    robots: int


def parse_counts(name: str, value: Any) -> tuple[DailyCount, ...]:
    """Parse the counts of accesses. Each pair of a day and a content type must appear only once."""
    if not isinstance(value, list):
        raise wrong(name, value, "is not a list")
    counts = tuple(_parse_count(f"{name}[{no}]", count) for no, count in enumerate(value))
    if len({count[:2] for count in counts}) != len(counts):
        raise FieldError(name, "two counts have the same day and content type")
    return counts


def _parse_count(name: str, value: Any) -> DailyCount:
    if not isinstance(value, list) or len(value) != len(DailyCount._fields):
        raise wrong(name, value, f"is not a list: {', '.join(DailyCount._fields)}")
    return DailyCount(
        values.parse_day(name, value[0]),
        values.parse_choice(name, value[1], ("Data", "Metadata")),
        # a number may be negative: a later access made an earlier one a double click
        *(values.parse_number(name, number, -values.MAX_NUMBER) for number in value[2:]),
    )


def format_counts(counts: Iterable[DailyCount]) -> list[list[Any]]:
    """Return counts as JSON: a list with the values of each count."""
    return [[count.day.isoformat(), *count[1:]] for count in counts]


class SwitchAnswer(Struct, frozen=True):
    """The answer of the giver about one item.

    :param reason: why the item was refused; None if ``result`` is not "refused".
    :param counts: the counts of accesses, which the taker takes over with the item.
    """

    number: Position
    result: Parsed[Result, choose(Result)]
    reason: Parsed[str, values.parse_text] | None = None
    counts: Parsed[tuple[DailyCount, ...], parse_counts] = ()

    def __post_init__(self) -> None:
        if (self.result == "refused") != (self.reason is not None):
            raise FieldError("reason", "the field must say why an item was refused")
        if self.counts and self.result != "switched":
            raise FieldError("counts", "only an item that was switched has counts")


def _parse_address(name: str, value: Any) -> str:
    text = values.parse_text(name, value)
    if not is_archive_address(text):
        raise wrong(name, value, "is not the address of an Archive, such as host:8080")
    return text


class SwitchRequest(Struct, frozen=True):
    """The request of the taker to switch items that it has stored.

    :param address: the host and port of the taker, where readers find the items from now on.
    """

    items: tuple[Parsed[StoredVersion, values.convert_to(StoredVersion)], ...]
    address: Parsed[str, _parse_address]


class _Answers(Struct, frozen=True):
    items: tuple[Parsed[SwitchAnswer, values.convert_to(SwitchAnswer)], ...]


def format_switch(request: SwitchRequest) -> dict[str, Any]:
    """Return a request to switch items as a JSON object."""
    return {**asdict(request), "items": [asdict(item) for item in request.items]}


def parse_switch(data: object) -> SwitchRequest:
    """Parse the JSON object of a request to switch items."""
    request = values.convert("", data, SwitchRequest)
    items = request.items
    if not 1 <= len(items) <= MAX_ITEMS:
        raise FieldError("items", f"the list has {len(items)} items, instead of 1 to {MAX_ITEMS}")
    if len({item.number for item in items}) != len(items):
        raise FieldError("items", "an item appears twice")
    return request


def format_answers(answers: Iterable[SwitchAnswer]) -> dict[str, Any]:
    """Return the answer to a request to switch items as a JSON object."""
    items = []
    for answer in answers:
        item: dict[str, Any] = {"number": answer.number, "result": answer.result}
        if answer.result == "switched":
            item["counts"] = format_counts(answer.counts)
        items.append(item | ({} if answer.reason is None else {"reason": answer.reason}))
    return {"items": items}


def parse_answers(data: object, asked: Iterable[StoredVersion]) -> tuple[SwitchAnswer, ...]:
    """Parse the JSON object of the answer to a request to switch items.

    :param asked: the items of the request. The object must contain exactly one answer for each.
    """
    answers = values.convert("", data, _Answers).items
    if [answer.number for answer in answers] != [item.number for item in asked]:
        raise FieldError("items", "the answer is not about the items that were asked for")
    return answers
