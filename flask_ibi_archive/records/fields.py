"""Checks of single fields: each gives the value that is kept, or says what would be right."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timezone
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

from flask_ibi_archive.errors import IdentifierError
from flask_ibi_archive.identifiers import Form, parse_identifier
from flask_ibi_archive.protocol.hosts import is_host
from flask_ibi_archive.protocol.languages import parse_language

TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
FORMAT = re.compile(r"[A-Za-z0-9_-]+")
SHA256 = re.compile(r"[0-9a-f]{64}")
PORT = re.compile(r":[0-9]*\Z")
NOT_IN_URL = re.compile(r"[\x00-\x20\x7f<>\"{}\\^`|]")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
#: What a segment of a path may not be.
NO_SEGMENTS = frozenset({"", ".", ".."})
MAX_TEXT = 1_000_000
#: Bytes of a path, which an index must hold.
MAX_PATH = 1024


class FieldError(ValueError):
    """A field of a record is wrong.

    :param field: its name, with a path where it lies deeper (``files[0].path``); "" for the record.
    :param reason: what is wrong and what would be right.
    """

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        self.reason = reason
        super().__init__(f"{field}: {reason}" if field else reason)


def shown(value: object) -> str:
    """Return a value for a message: short, on one line, ASCII."""
    text = ascii(value)
    return text if len(text) <= 80 else text[:77] + "..."


def shown_name(name: object) -> str:
    """Return the name of a field for a message: short, on one line."""
    name = str(name)
    return (name if name.isprintable() else ascii(name)[1:-1])[:80]


def a_text(field: str, value: Any) -> str:
    """Check a text: not empty, not endless, and one that UTF-8 and both databases can hold."""
    if not isinstance(value, str):
        raise FieldError(field, f"{shown(value)} is no text")
    if not value:
        raise FieldError(field, "is empty; leave it out instead")
    if len(value) > MAX_TEXT:
        raise FieldError(field, f"is longer than {MAX_TEXT} characters")
    if "\0" in value:
        raise FieldError(field, "holds a NUL character")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise FieldError(field, "holds half of a surrogate pair, which is no character") from None
    return value


def a_flag(field: str, value: Any) -> bool:
    """Check a truth value."""
    if not isinstance(value, bool):
        raise FieldError(field, f"{shown(value)} is neither true nor false")
    return value


def a_list(field: str, value: Any) -> list[Any]:
    """Check a list."""
    if not isinstance(value, list):
        raise FieldError(field, f"{shown(value)} is no list")
    return value


def an_object(field: str, value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Check an object that has none but certain fields."""
    if not isinstance(value, dict):
        raise FieldError(field, f'{shown(value)} is no object (write {{"...": ...}})')
    for name in value:
        if name not in names:
            inside = f"{field}.{shown_name(name)}" if field else shown_name(name)
            raise FieldError(inside, f"is no field of a record here; they are {', '.join(names)}")
    return value


def one_of(field: str, value: Any, choices: tuple[str, ...]) -> str:
    """Check a word that is one of a few."""
    if not isinstance(value, str) or value not in choices:
        raise FieldError(field, f"{shown(value)} is not one of {', '.join(choices)}")
    return value


def an_identifier(field: str, value: Any, form: Form | None = None) -> str:
    """Check an identifier, of one form or any; give it in canonical case."""
    text = a_text(field, value)
    try:
        identifier = parse_identifier(text)
    except IdentifierError as error:
        raise FieldError(field, str(error)) from None
    if form is not None and identifier.form is not form:
        raise FieldError(
            field,
            f"{text} is a {identifier.form.value} identifier, this field holds a {form.value}",
        )
    return identifier.text


def a_timestamp(field: str, value: Any) -> datetime:
    """Check a moment, ``YYYY-MM-DDThh:mm:ssZ``; give it aware, in UTC."""
    if isinstance(value, str) and TIMESTAMP.fullmatch(value):
        try:
            return datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
        except ValueError:
            pass
    raise FieldError(field, f"{shown(value)} is no moment like 2009-07-21T13:23:45Z (UTC)")


def a_language(field: str, value: Any) -> str:
    """Check a language, ``xx`` or ``xx-YY``."""
    text = a_text(field, value)
    try:
        return parse_language(text)
    except ValueError as error:
        raise FieldError(field, str(error)) from None


def a_url(field: str, value: Any) -> str:
    """Check an absolute http or https URL without user name and password; it is kept as it is."""
    text = a_text(field, value)
    has_user = False
    try:
        parts = urlsplit(text)
        has_user = "@" in parts.netloc
        right = parts.scheme in ("http", "https") and is_host(PORT.sub("", parts.netloc))
        right = right and parts.port != 0  # raises where the port is no number
    except ValueError:
        right = False
    if has_user:  # the message does not repeat a password
        raise FieldError(
            field,
            "has a user name or password, which every reader would see; remove it from the URL",
        )
    if not right or NOT_IN_URL.search(text):
        raise FieldError(
            field,
            f"{shown(value)} is no URL like https://host/path (a host in ASCII, as xn--bcher-kva.example; "
            "spaces and such as %XX)",
        )
    return text


def a_path(field: str, value: Any) -> str:
    """Check the path of a file within its item: relative, of plain segments joined by "/"."""
    text = a_text(field, value)
    segments = text.split("/")
    if not NO_SEGMENTS.isdisjoint(segments):
        raise FieldError(
            field, f'{shown(value)} is no path like "data/table.csv" (no leading /, no . or ..)'
        )
    if len(text.encode()) > MAX_PATH:
        raise FieldError(field, f"is longer than {MAX_PATH} bytes")
    if CONTROL.search(text):
        raise FieldError(field, f"{shown(value)} holds a control character")
    return text


def a_sha256(field: str, value: Any) -> str:
    """Check a checksum; give it in lower case."""
    text = a_text(field, value).lower()
    if not SHA256.fullmatch(text):
        raise FieldError(field, f"{shown(value)} is no SHA-256 checksum (64 hexadecimal digits)")
    return text


def a_network(field: str, value: Any) -> str:
    """Check a network in CIDR form."""
    text = a_text(field, value)
    try:
        return str(ip_network(text))
    except ValueError:
        pass
    try:
        meant = f"; {ip_network(text, strict=False)} is meant, perhaps"
    except ValueError:
        meant = ""
    raise FieldError(field, f"{shown(value)} is no network like 150.163.0.0/16{meant}")


def some_formats(field: str, value: Any) -> Mapping[str, str]:
    """Check formats and the URL of each."""
    if not isinstance(value, dict):
        raise FieldError(field, f'{shown(value)} is no object like {{"oai_dc": "https://..."}}')
    for name in value:
        if not FORMAT.fullmatch(name):
            raise FieldError(
                field, f'{shown(name)} is no format (letters, digits, "_" and "-", as in oai_dc)'
            )
    return {name: a_url(f"{field}.{name}", value[name]) for name in sorted(value)}
