"""The fields of a record: parsers of their values, and the record as a JSON object.

Each parser checks a value and returns the value that the database stores. If the value is wrong,
the parser raises FieldError.

The JSON object has the fields of :class:`Record`, in their order, without those that have their
default value. A host application may create a record with similar types. For example, it may use a
list instead of a tuple, or a text instead of a list with one text. These types are converted. Other
values are copied unchanged. If such a value is wrong,
:func:`~flask_ibi_archive.core.records.parse.parse_record` later refuses the value and names the
field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, fields
from datetime import date, datetime
from difflib import get_close_matches
from ipaddress import ip_network
from typing import Any, TypeVar

from flask_ibi_archive.core.identifiers import Form, parse_identifier
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.identifiers.foreign import ForeignIdentifier, parse_foreign
from flask_ibi_archive.core.identifiers.grammar import match_identifier
from flask_ibi_archive.core.protocol import languages
from flask_ibi_archive.core.protocol.hosts import check_url
from flask_ibi_archive.core.protocol.relations import is_format
from flask_ibi_archive.core.records.description import Description
from flask_ibi_archive.core.records.format_description import format_description
from flask_ibi_archive.core.records.record import (
    NOT_XML,
    AccessRule,
    DublinCoreMetadata,
    FileRecord,
    MetadataAddress,
    MetadataItem,
    Record,
    Tombstone,
)
from flask_ibi_archive.errors import IdentifierError, one_line

Parsed = TypeVar("Parsed")

#: The hour is checked, because ``fromisoformat`` of newer Python versions accepts 24:00:00.
TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}Z")
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
SHA256 = re.compile(r"[0-9a-f]{64}")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
#: Matches most paths. Other paths may also be right.
PLAIN_PATH = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9_. -]*/)*[A-Za-z0-9_-][A-Za-z0-9_. -]*")
#: The segments that a path must not contain. A segment is the text between two slashes.
FORBIDDEN_SEGMENTS = frozenset({"", ".", ".."})
MAX_TEXT = 1_000_000
#: Maximum length of a path in bytes. A database index contains the paths, and its size is limited.
MAX_PATH = 1024
#: Maximum length of a key in bytes, because a database index contains the keys.
MAX_KEY = 1024


class FieldError(ValueError):
    """A field of a record is wrong.

    :param field: the name of the field, such as ``rep`` or ``files[0].path``. "" if the
        whole record is wrong.
    :param reason: what is wrong and what would be right.
    """

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        self.reason = reason
        super().__init__(f"{field}: {reason}" if field else reason)


def quoted(value: object) -> str:
    """Return a short text of a value for a message. The text is one line of ASCII."""
    text = ascii(value)
    return text if len(text) <= 80 else text[:77] + "..."


def quoted_name(name: object) -> str:
    """Return the name of a field for a message. The name is short and on one line."""
    name = str(name)
    return (name if name.isprintable() else ascii(name)[1:-1])[:80]


def is_plain_text(value: Any) -> bool:
    """Return True if a value is a text on one line that :func:`parse_text` and XML allow.

    The result for other texts that are allowed is False.
    """
    return isinstance(value, str) and 0 < len(value) <= MAX_TEXT and value.isprintable()


def parse_text(field: str, value: Any) -> str:
    """Check that a value is a text that databases can store. The text must not be empty."""
    if not isinstance(value, str):
        raise FieldError(field, f"{quoted(value)} is not a text")
    if not value:
        raise FieldError(field, "the text is empty; write a text, or omit an optional field")
    if len(value) > MAX_TEXT:
        raise FieldError(field, f"the text is longer than {MAX_TEXT} characters")
    if "\0" in value:
        raise FieldError(field, "the text contains a NUL character")
    check_characters(field, value)
    return value


def check_characters(field: str, text: str) -> None:
    """Check that a text consists of characters. JSON and Python also allow halves of them."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise FieldError(
                field, "the text contains half of a surrogate pair, which is not a character"
            ) from None


def parse_xml_text(field: str, value: Any) -> str:
    """Check that a value is a text that XML 1.0 allows; see :func:`parse_text`."""
    text = parse_text(field, value)
    if NOT_XML.search(text):
        raise FieldError(field, "the text contains a control character, which XML does not allow")
    return text


def parse_line_text(field: str, value: Any) -> str:
    """Check a text as :func:`parse_xml_text` does, and return it on one line."""
    text = one_line(parse_xml_text(field, value))
    if not text:
        raise FieldError(field, "the text has spaces only; write a text, or omit an optional field")
    return text


def parse_flag(field: str, value: Any) -> bool:
    """Check that a value is true or false."""
    if not isinstance(value, bool):
        raise FieldError(field, f"{quoted(value)} is neither true nor false")
    return value


def parse_list(field: str, value: Any, parse: Callable[[str, Any], Parsed]) -> tuple[Parsed, ...]:
    """Check that a value is a list, and parse its members."""
    if not isinstance(value, list):
        raise FieldError(field, f"{quoted(value)} is not a list")
    return tuple([parse(f"{field}[{number}]", member) for number, member in enumerate(value)])


def parse_object(field: str, value: Any, names: Collection[str]) -> dict[str, Any]:
    """Check that a value is a JSON object. All fields of the object must have allowed names."""
    if not isinstance(value, dict):
        raise FieldError(field, f'{quoted(value)} is not an object (write {{"...": ...}})')
    for name in value:
        if name not in names:
            inside = f"{field}.{quoted_name(name)}" if field else quoted_name(name)
            raise FieldError(
                inside,
                f"this field is unknown; the known fields are {', '.join(names)}"
                f"{suggest(name, names)}",
            )
    return value


def parse_members(
    field: str, value: Any, parsers: Mapping[str, Callable[[str, Any], Any]], required: str = ""
) -> dict[str, Any]:
    """Check that a value is a JSON object, and parse its fields, in the order of the parsers.

    :param parsers: the parser of each field.
    :param required: the name of the field that must not be missing.
    """
    members = parse_object(field, value, parsers)
    prefix = f"{field}." if field else ""
    if required and required not in members:
        raise FieldError(f"{prefix}{required}", "the field is missing")
    return {
        name: parse(f"{prefix}{name}", members[name])
        for name, parse in parsers.items()
        if name in members
    }


def parse_choice(field: str, value: Any, choices: tuple[str, ...]) -> str:
    """Check that a value is one of the allowed words."""
    if not isinstance(value, str) or value not in choices:
        raise FieldError(
            field, f"{quoted(value)} is not one of {', '.join(choices)}{suggest(value, choices)}"
        )
    return value


def suggest(value: object, choices: Iterable[str]) -> str:
    """Return a question for a message: whether the choice nearest to a wrong value was meant.

    :returns: "" if no choice is similar.
    """
    by_folded = {choice.casefold(): choice for choice in choices}
    [*nearest] = get_close_matches(str(value).casefold(), by_folded, 1)
    return f"; did you mean {by_folded[nearest[0]]}?" if nearest else ""


def parse_ibi(field: str, value: Any, form: Form | None = None) -> str:
    """Parse an identifier and return the canonical text.

    :param form: the required form; None if all forms are allowed.
    """
    identifier = match_identifier(value) if isinstance(value, str) else None
    if identifier is None:
        try:
            identifier = parse_identifier(parse_text(field, value))
        except IdentifierError as error:
            raise FieldError(field, str(error)) from None
    if form is not None and identifier.form is not form:
        raise FieldError(
            field,
            f"{value} is an identifier of the form {identifier.form.value}; this field must have "
            f"the form {form.value}",
        )
    return identifier.text


def parse_same_as(field: str, value: Any) -> tuple[str, ...]:
    """Parse identifiers of other systems and former addresses of an item; return canonical texts.

    :raises FieldError: if a member is none, or if two members are the same identifier.
    """
    members: dict[str, str] = {}
    for name, alias in parse_list(field, value, _parse_foreign):
        if alias.digest in members:
            raise FieldError(name, f"{quoted(alias.text)} is already in the list")
        members[alias.digest] = alias.text
    return tuple(members.values())


def _parse_foreign(field: str, value: Any) -> tuple[str, ForeignIdentifier]:
    try:
        return field, parse_foreign(parse_text(field, value))
    except IdentifierError as error:
        raise FieldError(field, str(error)) from None


def parse_timestamp(field: str, value: Any) -> datetime:
    """Parse a time such as ``2009-07-21T13:23:45Z``."""
    if isinstance(value, str) and TIMESTAMP.fullmatch(value):
        try:
            return datetime.fromisoformat(f"{value[:-1]}+00:00")
        except ValueError:
            pass
    if isinstance(value, datetime) and value.tzinfo is None:
        raise FieldError(field, f"{quoted(value)} has no time zone; add tzinfo=timezone.utc")
    raise FieldError(field, f"{quoted(value)} is not a time such as 2009-07-21T13:23:45Z (UTC)")


def parse_day(field: str, value: Any) -> date:
    """Parse a day such as ``2027-03-01``."""
    if isinstance(value, str) and DAY.fullmatch(value):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise FieldError(field, f"{quoted(value)} is not a day such as 2027-03-01")


def parse_language(field: str, value: Any) -> str:
    """Check that a value is a language, ``xx`` or ``xx-YY``."""
    text = parse_text(field, value)
    try:
        return languages.parse_language(text)
    except ValueError as error:
        raise FieldError(field, str(error)) from None


def parse_url(field: str, value: Any) -> str:
    """Check that a value is an absolute http or https URL without a user name or password."""
    text = parse_text(field, value)
    try:
        check_url(text)
    except ValueError as error:
        raise FieldError(field, str(error)) from None
    return text


def parse_path(field: str, value: Any) -> str:
    """Check that a value is a relative path without the segments "", "." and ".."."""
    if isinstance(value, str) and len(value) <= MAX_PATH and PLAIN_PATH.fullmatch(value):
        return value
    text = parse_text(field, value)
    segments = text.split("/")
    if not FORBIDDEN_SEGMENTS.isdisjoint(segments):
        raise FieldError(
            field,
            f'{quoted(value)} is not a path such as "data/table.csv" (no leading /, no . or ..)',
        )
    if len(text.encode()) > MAX_PATH:
        raise FieldError(field, f"the path is longer than {MAX_PATH} bytes")
    if CONTROL.search(text):
        raise FieldError(field, f"{quoted(value)} contains a control character")
    return text


def parse_key(field: str, value: Any) -> str:
    """Check that a value is a key of a host, such as ``package:1a68``."""
    text = parse_text(field, value)
    if len(text.encode()) > MAX_KEY:
        raise FieldError(field, f"the key is longer than {MAX_KEY} bytes")
    if CONTROL.search(text):
        raise FieldError(field, f"{quoted(value)} contains a control character")
    return text


def parse_sha256(field: str, value: Any) -> str:
    """Parse a SHA-256 checksum and return the checksum in lower case."""
    text = parse_text(field, value).lower()
    if not SHA256.fullmatch(text):
        raise FieldError(
            field, f"{quoted(value)} is not a SHA-256 checksum (64 hexadecimal digits)"
        )
    return text


def parse_network(field: str, value: Any) -> str:
    """Parse an IP network and return the network in CIDR form."""
    text = parse_text(field, value)
    try:
        return str(ip_network(text))
    except ValueError:
        pass
    try:
        meant = f"; did you mean {ip_network(text, strict=False)}?"
    except ValueError:
        meant = ""
    raise FieldError(field, f"{quoted(value)} is not a network such as 150.163.0.0/16{meant}")


def parse_formats(field: str, value: Any) -> Mapping[str, str]:
    """Check that a value is an object of metadata formats. The values are URLs."""
    if not isinstance(value, dict):
        raise FieldError(
            field, f'{quoted(value)} is not an object such as {{"oai_dc": "https://..."}}'
        )
    for name in value:
        if not is_format(name):
            raise FieldError(
                field,
                f'{quoted(name)} is not a format (letters, digits, "_" and "-", as in oai_dc)',
            )
    return {name: parse_url(f"{field}.{name}", value[name]) for name in sorted(value)}


def format_record(record: Record) -> dict[str, Any]:
    """Return a record as a JSON object.

    If the JSON object is parsed, the result is an equal record.
    """
    return _format_fields(record)


def format_line(record: Record) -> str:
    """Return a record as one line of JSON, without a line end."""
    return json.dumps(format_record(record), ensure_ascii=False)


def format_dublin_core(elements: Any) -> Any:
    """Return Dublin Core metadata as JSON.

    A value without a language is a text. A value with a language is an object with the text and
    the language.
    """
    if not isinstance(elements, Mapping):
        return elements
    return {element: _format_dublin_core_values(values) for element, values in elements.items()}


def _format_dublin_core_values(values: Any) -> Any:
    if isinstance(values, tuple) and len(values) == 2 and all(isinstance(v, str) for v in values):
        # The tuple is not converted: it may be two values, or one value and its language.
        return values
    if isinstance(values, str):
        return [values]
    if not isinstance(values, list | tuple):
        return values
    return [_format_dublin_core_value(value) for value in values]


def _format_dublin_core_value(value: Any) -> Any:
    if not isinstance(value, tuple) or len(value) != 2:
        return value
    text, language = value
    return text if language is None else {"value": text, "lang": language}


def _format_fields(described: Any) -> dict[str, Any]:
    """Return the fields of a record, or of a part of a record, as a JSON object."""
    formatted = {}
    for name, is_list, default in _FIELDS[type(described)]:
        value = getattr(described, name)
        value = [value] if is_list and isinstance(value, str) else _format_value(value)
        # 1 is equal to the default True, but is a wrong value, which must not be left out
        if value is not None and (value != default or type(value) is not type(default)):
            formatted[name] = value
    return formatted


def _format_value(value: Any) -> Any:
    if value is None or isinstance(value, str):  # most values
        return value
    if isinstance(value, DublinCoreMetadata):
        if value.work is not None:
            return {"work": format_description(value.work)}
        return {"dc": format_dublin_core(value.elements)}
    if isinstance(value, Description):
        return {"work": format_description(value)}
    if isinstance(value, tuple):
        return [_format_value(member) for member in value]
    if isinstance(value, Mapping):
        return {str(name): _format_member(name, member) for name, member in value.items()}
    if isinstance(value, datetime):
        return value if value.tzinfo is None else format_timestamp(value)
    if isinstance(value, date):
        return value.isoformat()
    return _format_fields(value) if type(value) in _FIELDS else value


def _format_member(name: str, value: Any) -> Any:
    if name == "work":
        return format_description(value)
    return format_dublin_core(value) if name == "dc" else value


def _list_fields(kind: Any) -> list[tuple[str, bool, Any]]:
    """Return the name of each field of a class, whether it is a list, and its default in JSON."""
    listed = []
    for field in fields(kind):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if field.compare:  # other fields are not stored
            listed.append((field.name, field.type.startswith("tuple"), _format_value(default)))
    return listed


_FIELDS: dict[type, list[tuple[str, bool, Any]]] = {}
_FIELDS.update(
    (kind, _list_fields(kind))
    for kind in (AccessRule, FileRecord, MetadataAddress, MetadataItem, Record, Tombstone)
)
