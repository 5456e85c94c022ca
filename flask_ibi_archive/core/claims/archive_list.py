"""The signed list of the Archives that a resolver includes (federation RS-1).

A mirror takes over the list, with the keys that were pinned for the Archives. The text of the note
has a line for the format, a line for the time, and a line with pairs for each Archive::

    ibi-archives/v1
    time 2026-11-26T22:17:46Z
    address a.example.org included ... keys {2026-11-01T00:00:00Z name+number+key} service ...
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from flask_ibi_archive.core.claims.keys import SigningKey, VerifierKey, parse_key
from flask_ibi_archive.core.claims.signed_note import SignedNote, parse_note
from flask_ibi_archive.core.identifiers import canonical_address, parse_identifier
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.hosts import is_archive_address
from flask_ibi_archive.core.protocol.inclusion import MAX_VALUE
from flask_ibi_archive.core.protocol.pairs import format_pairs, pairs_as_dict, parse_pairs
from flask_ibi_archive.errors import ClaimError, IdentifierError, PeerProtocolError

#: The first line of a list.
FORMAT = "ibi-archives/v1"
#: The maximum length of a list in bytes: enough for about 30,000 Archives.
MAX_LIST = 16 << 20

_is_time = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z").fullmatch


@dataclass(frozen=True, slots=True)
class ListedArchive:
    """An included Archive. Times have whole seconds.

    :param service_ibi: the IBI of the Archive's service, in canonical case.
    :param address: the host and port of the Archive.
    :param ip: the IP address of the Archive.
    :param confirmed_at: None if the Archive has not confirmed its inclusion.
    :param keys: the keys that were pinned, each after the time when this was done, from the first
        to the present one. Empty if the Archive publishes no claims.
    """

    service_ibi: str
    address: str
    ip: str
    platform_version: str
    included_at: datetime
    confirmed_at: datetime | None = None
    keys: tuple[tuple[datetime, VerifierKey], ...] = ()


@dataclass(frozen=True, slots=True)
class ArchiveList:
    """The Archives that a resolver includes.

    :param time: the time of the list, in whole seconds.
    """

    time: datetime
    archives: tuple[ListedArchive, ...]


def sign_list(lines: str, time: datetime, key: SigningKey) -> str:
    """Return the signed list.

    :param lines: the lines of the Archives; see :func:`format_archives`.
    """
    text = f"{FORMAT}\ntime {format_timestamp(time)}\n{lines}"
    return SignedNote(text, (key.sign(text),)).format()


def format_archives(archives: tuple[ListedArchive, ...]) -> str:
    """Return the lines of the Archives, each with a line break at its end."""
    return "".join(f"{_format_archive(archive)}\n" for archive in archives)


def _format_archive(archive: ListedArchive) -> str:
    pairs: list[tuple[str, str | list[str]]] = [
        ("service", archive.service_ibi),
        ("address", archive.address),
        ("ip", archive.ip),
        ("platformversion", archive.platform_version.split()),
        ("included", format_timestamp(archive.included_at)),
    ]
    if archive.confirmed_at is not None:
        pairs.append(("confirmed", format_timestamp(archive.confirmed_at)))
    if archive.keys:
        words = [(format_timestamp(time), key.format()) for time, key in archive.keys]
        pairs.append(("keys", [word for pair in words for word in pair]))
    return format_pairs(pairs).replace("\r\n", " ")


def open_list(note: str, key: VerifierKey) -> ArchiveList:
    """Verify and parse a signed list.

    :param key: the key of the resolver.
    :raises ClaimError: if the key has not signed the list, or if the list is malformed.
    """
    signed = parse_note(note, MAX_LIST)
    if not key.verify(signed):
        raise ClaimError(f"the list is not signed by {key.name}")
    form, *lines = signed.text.removesuffix("\n").split("\n")
    if form != FORMAT or not lines or not lines[0].startswith("time "):
        raise ClaimError(f"the list has not the format {FORMAT}")
    time = _parse_time(lines.pop(0).removeprefix("time "))
    archives = tuple(_parse_archive(line) for line in lines)
    if len({archive.service_ibi for archive in archives}) != len(archives):
        raise ClaimError("the list contains an Archive twice")
    return ArchiveList(time, archives)


def _parse_archive(line: str) -> ListedArchive:
    try:
        pairs = pairs_as_dict(parse_pairs(line))
    except PeerProtocolError as error:
        raise ClaimError(f"a line of the list is malformed: {error}") from error
    service, address, ip, included = (
        _get_word(pairs, name) for name in ("service", "address", "ip", "included")
    )
    try:
        is_right = (
            parse_identifier(service).text == service
            and is_archive_address(address)
            and canonical_address(ip) == ip
            and len(address) <= MAX_VALUE
        )
    except (IdentifierError, ValueError):
        is_right = False
    if not is_right:
        raise ClaimError(f"a line of the list has wrong values: {line[:200]!a}")
    version = " ".join(pairs.get("platformversion", ()))[:MAX_VALUE]
    confirmed = _parse_time(_get_word(pairs, "confirmed")) if "confirmed" in pairs else None
    words = pairs.get("keys", ())
    if len(words) % 2:
        raise ClaimError("keys: each key must follow a time")
    keys = zip(map(_parse_time, words[::2]), map(parse_key, words[1::2]), strict=True)
    return ListedArchive(
        service, address, ip, version, _parse_time(included), confirmed, tuple(keys)
    )


def _get_word(pairs: dict[str, tuple[str, ...]], name: str) -> str:
    words = pairs.get(name, ())
    if len(words) != 1:
        raise ClaimError(f"{name}: the value must be one word")
    return words[0]


def _parse_time(text: str) -> datetime:
    try:
        if _is_time(text):
            return datetime.fromisoformat(f"{text[:-1]}+00:00")
    except ValueError:
        pass
    raise ClaimError(f"{text[:80]!a} is not a time such as 2026-11-26T22:17:46Z")
