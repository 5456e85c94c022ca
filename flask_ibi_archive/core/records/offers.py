"""The messages of an offer: an Archive gives items to an Archive on another server.

The *giver* makes an offer of some items to the *taker*, and gives it the address of the offer. The
taker reads the items page by page, then their files, and stores them as Copies. If the items move,
it asks the giver to *switch* each item, and states the version that it stored: the giver gives up
its Original, and confirms. Then the item of the taker becomes the Original. An answer that is lost
is repeated, not decided again.

The parsers raise FieldError. The texts of their errors never contain the secret of an offer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any

from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.hosts import check_url
from flask_ibi_archive.core.records import fields
from flask_ibi_archive.core.records.fields import FieldError, format_record, quoted
from flask_ibi_archive.core.records.parse import parse_record, read_json
from flask_ibi_archive.core.records.record import Record

#: The path of the offers of an Archive.
PATH = "/ibi/offers"
#: The largest number of items in a page, and in a request to switch.
MAX_ITEMS = 500
#: The size in bytes at which a page ends, and the largest size of the line of an item.
MAX_PAGE = MAX_LINE = 8 << 20
#: The largest number of bytes in a request to switch.
MAX_BODY = 1 << 20
#: The largest number of items, bytes or accesses: a number that all databases can store.
MAX_NUMBER = (1 << 63) - 1

KINDS = MOVE, COPY = "move", "copy"
#: The state of what remains at the giver after a move.
LEAVES = ("Copy", "Deleted")

_ADDRESS = re.compile(
    rf"(?P<url>[^#]*{PATH}/(?P<id>[0-9a-f]{{16}}))(?:#(?P<secret>.*))?", re.DOTALL
)
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
        """The last part of the URL, which names the offer."""
        return self.url.rpartition("/")[2]

    @property
    def text(self) -> str:
        """The address with the secret."""
        return self.url if self.secret is None else f"{self.url}#{self.secret}"


def parse_address(text: str) -> OfferAddress:
    """Return the address of an offer, with or without its secret."""
    found = _ADDRESS.fullmatch(text.strip())
    if found is None:
        url = text.strip().partition("#")[0]
        raise FieldError(
            "",
            f"{quoted(url)} is not the address of an offer, such as "
            f"https://host{PATH}/0123456789abcdef",
        )
    try:
        check_url(found["url"])
    except ValueError as error:
        raise FieldError("", str(error)) from None
    secret = found["secret"]
    return OfferAddress(found["url"], None if secret is None else parse_secret(secret))


def parse_secret(text: str) -> str:
    """Check that a text has the form of the secret of an offer."""
    if not _SECRET.fullmatch(text):
        raise FieldError("", "the secret of the offer is not complete; it has 43 characters")
    return text


def hash_secret(secret: str) -> str:
    """Return what the giver stores instead of the secret: its SHA-256 in hexadecimal digits."""
    return sha256(secret.encode()).hexdigest()


# --- the description of an offer -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OfferDescription:
    """What an offer contains.

    :param offer: the public id of the offer.
    :param kind: "move" or "copy".
    :param leaves: the state of what remains at the giver after a move; None for copies.
    :param giver: the service IBI of the Archive that makes the offer.
    :param taker: the service IBI of the Archive that may take the items.
    :param bytes: the total size of the stored files.
    :param files: the number of stored files.
    """

    offer: str
    kind: str
    leaves: str | None
    giver: str
    taker: str
    expires: datetime
    items: int
    bytes: int
    files: int


def format_description(description: OfferDescription) -> dict[str, Any]:
    """Return a description as a JSON object."""
    return {**asdict(description), "expires": format_timestamp(description.expires)}


def parse_description(data: object) -> OfferDescription:
    """Return the description in a JSON object."""
    members = parse_all("", data, _DESCRIPTION)
    if (members["kind"] == MOVE) != (members["leaves"] is not None):
        raise FieldError("leaves", "the field must be null for copies, and only for copies")
    return OfferDescription(**members)


def parse_public_id(name: str, value: Any) -> str:
    """Check that a value is the public id of an offer."""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise FieldError(name, f"{quoted(value)} is not an offer: 16 hexadecimal digits")
    return value


# --- the pages of items --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OfferedRecord:
    """An item of an offer.

    :param number: the position in the offer, from 1.
    :param version: the version of the record; see :func:`compute_version`.
    :param record: the record at the giver: an Original, or a Deleted item.
    :param sizes: the sizes of the stored files in bytes, by their paths.
    """

    number: int
    version: str
    record: Record
    sizes: Mapping[str, int]


def compute_version(record: Record) -> str:
    """Return the SHA-256 of a record as canonical JSON, with the checksums of its files."""
    value = format_record(record)
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def offer_record(number: int, record: Record, sizes: Mapping[str, int]) -> OfferedRecord:
    """Return an item of an offer.

    :param record: the record at the giver. Its key, which belongs to the giver's host, and the
        sources of its files are omitted.
    """
    files = tuple(replace(file, source=None) for file in record.files)
    record = replace(record, key=None, files=files)
    return OfferedRecord(number, compute_version(record), record, sizes)


def format_offered(offered: OfferedRecord) -> bytes:
    """Return the line of an item, with the line end."""
    line = {
        "number": offered.number,
        "version": offered.version,
        "record": format_record(offered.record),
        "sizes": dict(offered.sizes),
    }
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def parse_offered(line: bytes) -> OfferedRecord:
    """Return the item in a line.

    A line without its line end was cut off. The version must be that of the record.
    """
    if not line.endswith(b"\n"):
        raise FieldError("", "the line has no end: the answer was cut off")
    offered = OfferedRecord(**parse_all("", read_json(line), _OFFERED))
    record = offered.record
    if record.state not in ("Original", "Deleted"):
        raise FieldError("record.state", f"a {record.state} cannot be offered")
    if record.key is not None:
        raise FieldError("record.key", "the key belongs to the giver; omit the field")
    if any(file.source is not None for file in record.files):
        raise FieldError("record.files", "an offered file has no source")
    stored = {file.path for file in record.files if file.url is None and file.sha256 is not None}
    for path in offered.sizes.keys() - stored:
        raise FieldError("sizes", f"{quoted(path)} is not a stored file of the record")
    if offered.version != compute_version(record):
        raise FieldError("version", "the version is not that of the record")
    return offered


def _parse_sizes(name: str, value: Any) -> Mapping[str, int]:
    if not isinstance(value, dict):
        raise FieldError(name, f"{quoted(value)} is not an object")
    return {path: parse_number(name, size) for path, size in value.items()}


# --- what the messages share ---------------------------------------------------------------------


def parse_all(
    name: str, value: Any, parsers: Mapping[str, Callable[[str, Any], Any]]
) -> dict[str, Any]:
    """Parse a JSON object that must have all fields."""
    members = fields.parse_members(name, value, parsers)
    for member in parsers:
        if member not in members:
            raise FieldError(f"{name}.{member}" if name else member, "the field is missing")
    return members


def parse_number(name: str, value: Any, least: int = 0) -> int:
    """Check that a value is a whole number, and not too small."""
    if type(value) is not int or not least <= value <= MAX_NUMBER:
        raise FieldError(name, f"{quoted(value)} is not a whole number from {least}")
    return value


#: Parses the number of an item.
parse_position = partial(parse_number, least=1)


def _parse_record(name: str, value: Any) -> Record:
    try:
        return parse_record(value)
    except FieldError as error:
        raise FieldError(f"{name}.{error.field}" if error.field else name, error.reason) from error


def _parse_leaves(name: str, value: Any) -> str | None:
    return None if value is None else fields.parse_choice(name, value, LEAVES)


_DESCRIPTION: Mapping[str, Callable[[str, Any], Any]] = {
    "offer": parse_public_id,
    "kind": partial(fields.parse_choice, choices=KINDS),
    "leaves": _parse_leaves,
    "giver": fields.parse_ibi,
    "taker": fields.parse_ibi,
    "expires": fields.parse_timestamp,
    "items": parse_position,
    "bytes": parse_number,
    "files": parse_number,
}
_OFFERED: Mapping[str, Callable[[str, Any], Any]] = {
    "number": parse_position,
    "version": fields.parse_sha256,
    "record": _parse_record,
    "sizes": _parse_sizes,
}
