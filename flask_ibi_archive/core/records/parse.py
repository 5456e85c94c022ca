"""Parsing of records: converts a JSON object to an :class:`Record`.

Every field of the JSON object is checked.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from flask_ibi_archive.core.identifiers import Form
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records import fields
from flask_ibi_archive.core.records.derive_dublin_core import describe_work
from flask_ibi_archive.core.records.description import Text
from flask_ibi_archive.core.records.fields import FieldError, quoted, quoted_name
from flask_ibi_archive.core.records.parse_description import find_work_errors, parse_description
from flask_ibi_archive.core.records.record import (
    ELEMENTS,
    LANGUAGE_TAG,
    AccessRule,
    DublinCoreMetadata,
    FileRecord,
    MetadataAddress,
    MetadataItem,
    Record,
    Tombstone,
)

#: Parses the value of a field with a name; raises FieldError.
Parser = Callable[[str, Any], Any]
#: The largest depth of lists and objects in JSON. Records need less than ten.
MAX_DEPTH = 100
_TOO_DEEP = f"the JSON is nested too deeply; a depth of {MAX_DEPTH} is allowed"
#: Half of a surrogate pair, as a text in JSON states it.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_line(line: str | bytes) -> Record:
    """Parse a record from a line of JSON.

    :raises FieldError: if a field is wrong or the line is not a JSON object.
    """
    return parse_record(read_json(line))


def find_errors(line: str | bytes) -> list[FieldError]:
    """Return all errors of a line of JSON.

    Contradictions between fields are only found if each field is correct.
    """
    try:
        data = read_json(line)
        values = fields.parse_object("", data, tuple(data) if isinstance(data, dict) else ())
    except FieldError as error:
        return [error]
    errors = []
    for name, value in values.items():
        try:
            _read_fields({name: value})
        except FieldError as error:
            is_work = name == "metadata" and isinstance(value, dict) and "work" in value
            inside = find_work_errors("metadata.work", value["work"]) if is_work else []
            errors += inside or [error]
    return errors or list(_find_conflicts(_read_fields(values)))


def read_json(line: str | bytes) -> Any:
    """Return the value of a text in JSON.

    :raises FieldError: if the text is not JSON in UTF-8, if an object has a field twice, or if
        :func:`check_json` refuses the value.
    """
    try:
        text = line.decode("utf-8") if isinstance(line, bytes) else line
    except UnicodeDecodeError as error:
        raise FieldError("", f"byte {error.start + 1} is not UTF-8") from None
    value = decode_json(_DECODER.decode, text)
    # other values are right, and to check each of them takes time
    if _SURROGATE.search(text) or text.count("[") + text.count("{") > MAX_DEPTH:
        check_json("", value)
    return value


def decode_json(decode: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a method of a JSON decoder.

    :raises FieldError: if the text is not JSON, or if it is nested too deeply for the decoder.
    """
    try:
        return decode(*arguments)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        reason = f"the text is not JSON: {error.msg} at {line}character {error.colno}"
        raise FieldError("", reason) from None
    except RecursionError:
        raise FieldError("", _TOO_DEEP) from None
    except FieldError:
        raise
    except ValueError as error:
        raise FieldError("", f"the text is not JSON: {error}") from None


def check_json(field: str, value: Any, depth: int = 0) -> None:
    """Check that a JSON value can be stored, and be passed to recursive functions.

    :param field: the name of the field that has the value; "" for the whole.
    :raises FieldError: if a text contains half of a surrogate pair, or if the value is nested too
        deeply.
    """
    if depth > MAX_DEPTH:
        raise FieldError("", _TOO_DEEP)
    if isinstance(value, str):
        fields.check_characters(field, value)
    elif isinstance(value, list):
        for number, member in enumerate(value):
            check_json(f"{field}[{number}]", member, depth + 1)
    elif isinstance(value, dict):
        for name, member in value.items():
            inside = f"{field}.{quoted_name(name)}" if field else quoted_name(name)
            fields.check_characters(inside, name)
            check_json(inside, member, depth + 1)


def parse_record(data: Any, has_identifier: bool = True) -> Record:
    """Parse a record from a JSON object.

    :param data: the result of json.loads.
    :param has_identifier: False if the identifiers of the item will be minted later.
    :raises FieldError: if a field is wrong.
    """
    record = _read_fields(data)
    check_record(record, has_identifier)
    return record


def _read_fields(data: Any) -> Record:
    return Record(**fields.parse_members("", data, _PARSERS))


def check_record(record: Record, has_identifier: bool = True) -> None:
    """Check that the fields of a record do not contradict each other.

    :param has_identifier: False if the identifiers of the item will be minted later.
    :raises FieldError: if two fields contradict each other.
    """
    for error in _find_conflicts(record, has_identifier):
        raise error


def _find_conflicts(record: Record, has_identifier: bool = True) -> Iterator[FieldError]:
    if has_identifier and record.rep is None and record.ibip is None:
        yield FieldError("rep", "an item needs a rep, an ibip or both")
    own = record.identifiers
    if len(set(own)) != len(own):
        for twice in (identifier for identifier, times in Counter(own).items() if times > 1):
            yield FieldError("aliases", f"{twice} is already an identifier of the item")
    yield from _find_conflicts_with_state(record)
    if record.formats and record.content_type != "Metadata":
        yield FieldError("formats", "only an item whose content_type is Metadata may have formats")
    target = record.target_file
    if target is not None and target not in [file.path for file in record.files]:
        yield FieldError("target_file", f"{quoted(target)} is not among the files")
    if record.next_edition in own:
        yield FieldError("next_edition", "an item cannot be its own next edition")
    if isinstance(record.metadata, MetadataItem) and record.metadata.ibi in own:
        yield FieldError("metadata.ibi", "an item cannot be its own metadata; omit metadata")
    if record.translations:
        yield from _find_conflicting_translations(record)


def _find_conflicts_with_state(record: Record) -> Iterator[FieldError]:
    if record.state == State.COPY and record.original_archive is None:
        yield FieldError(
            "original_archive", "a Copy must have the service IBI of the Archive of its Original"
        )
    if record.state != State.COPY and record.original_archive is not None:
        yield FieldError(
            "original_archive",
            f"only a Copy may have an original_archive; the state of this item is {record.state}",
        )
    if record.state == State.DELETED and record.timestamp is None:
        yield FieldError("timestamp", "a Deleted item must have the time of its removal")
    if record.state != State.DELETED and record.tombstone is not None:
        yield FieldError(
            "tombstone",
            f"only a Deleted item may have a tombstone; the state of this item is {record.state}",
        )
    if record.state == State.DELETED and record.embargo is not None:
        yield FieldError("embargo", "a Deleted item has no files, and therefore no embargo")


def _find_conflicting_translations(record: Record) -> Iterator[FieldError]:
    own = record.identifiers
    for language, ibi in record.translations.items():
        if ibi in own and record.language not in (None, language):
            yield FieldError(
                f"translations.{language}",
                f"the item itself has this identifier, but its language is {record.language}",
            )
        if ibi not in own and record.language == language:
            yield FieldError(
                f"translations.{language}",
                "this is the language of the item itself; use the identifier of the item itself",
            )
    members = list(record.translations.values())
    if len(set(members)) != len(members):
        yield FieldError(
            "translations",
            "two languages have the same identifier; each language needs a different item",
        )


def _refuse_repeated_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise FieldError(quoted_name(twice), "the field appears twice in one object")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not allowed in JSON")


#: Created only once, because that takes more time than to decode a short text.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_refuse_repeated_fields, parse_constant=_refuse_constant
)


def _parse_translations(name: str, value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise FieldError(name, f'{quoted(value)} is not an object such as {{"pt": "<ibi>"}}')
    return {
        fields.parse_language(name, language): fields.parse_ibi(f"{name}.{language}", ibi)
        for language, ibi in sorted(value.items())
    }


def _parse_metadata(name: str, value: Any) -> MetadataItem | DublinCoreMetadata | MetadataAddress:
    if not isinstance(value, dict):
        raise FieldError(
            name, f'{quoted(value)} is not an object such as {{"dc": {{"title": ["..."]}}}}'
        )
    fields.parse_object(name, value, _METADATA)
    kinds = [kind for kind in ("ibi", "dc", "url", "work") if kind in value]
    if len(kinds) != 1:
        raise FieldError(name, "metadata must have exactly one of the fields ibi, dc, url and work")
    for extra in ("formats", "timestamp"):
        if extra in value and kinds != ["url"]:
            raise FieldError(
                f"{name}.{extra}", "the field is only allowed together with the field url"
            )
    members = fields.parse_members(name, value, _METADATA)
    if "ibi" in members:
        return MetadataItem(members["ibi"])
    if "work" in members:
        return describe_work(members["work"])
    return DublinCoreMetadata(members["dc"]) if "dc" in members else MetadataAddress(**members)


def parse_dublin_core(name: str, value: Any) -> Mapping[str, tuple[Text, ...]]:
    """Parse a JSON object of Dublin Core elements.

    :param name: the name of the field, which messages contain.
    :returns: the values of each element. The elements are in the order of the standard.
    :raises FieldError: if an element is wrong.
    """
    given = fields.parse_object(name, value, ELEMENTS)
    elements = {
        element: _parse_dublin_core_values(f"{name}.{element}", given[element])
        for element in ELEMENTS
        if element in given
    }
    if not any(elements.values()):
        raise FieldError(name, "the object is empty; omit metadata instead")
    return {element: values for element, values in elements.items() if values}


def _parse_dublin_core_values(name: str, value: Any) -> tuple[Text, ...]:
    if isinstance(value, list) and all(map(fields.is_plain_text, value)):
        return tuple([(text, None) for text in value])
    if isinstance(value, tuple):
        raise FieldError(
            name,
            f"{quoted(value)} may mean two values, or one value with its language; write "
            '["a", "b"] or [("a", "en")]',
        )
    return fields.parse_list(name, value, _parse_dublin_core_value)


def _parse_dublin_core_value(name: str, value: Any) -> Text:
    if isinstance(value, dict):
        members = fields.parse_members(name, value, _TEXT, required="value")
        return members["value"], members.get("lang")
    return fields.parse_xml_text(name, value), None


def _parse_language_tag(name: str, value: Any) -> str:
    tag = fields.parse_text(name, value)
    if not LANGUAGE_TAG.match(tag):
        raise FieldError(name, f"{quoted(tag)} is not a language tag such as pt-BR")
    return tag


def _parse_files(name: str, value: Any) -> tuple[FileRecord, ...]:
    files = fields.parse_list(name, value, _parse_file)
    paths = [file.path for file in files]
    if len(set(paths)) != len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise FieldError(name, f"the path {quoted(twice)} appears twice")
    return files


def _parse_file(name: str, value: Any) -> FileRecord:
    file = FileRecord(**fields.parse_members(name, value, _FILE, required="path"))
    if file.url is not None and file.source is not None:
        raise FieldError(
            name,
            "a file may have a url (a file on another server) or a source (a file to import), "
            "but not both",
        )
    return file


def _parse_access(name: str, value: Any) -> AccessRule:
    fields.parse_object(name, value, _ACCESS)
    if value.get("networks", []) == []:
        raise FieldError(
            f"{name}.networks", "the list must have at least one network, such as 150.163.0.0/16"
        )
    return AccessRule(**fields.parse_members(name, value, _ACCESS))


def _parse_tombstone(name: str, value: Any) -> Tombstone:
    fields.parse_object(name, value, _TOMBSTONE)
    if "reason" not in value:
        raise FieldError(f"{name}.reason", "the field is missing; write why the item was removed")
    return Tombstone(**fields.parse_members(name, value, _TOMBSTONE))


def _or_none(parse: Parser) -> Parser:
    """Return the parser of a field whose value may be null."""
    return lambda name, value: None if value is None else parse(name, value)


#: The parsers of the fields of the parts of a record.
_METADATA: Mapping[str, Parser] = {
    "ibi": fields.parse_ibi,
    "dc": parse_dublin_core,
    "work": parse_description,
    "url": fields.parse_url,
    "formats": fields.parse_formats,
    "timestamp": _or_none(fields.parse_timestamp),
}
_TEXT: Mapping[str, Parser] = {"lang": _parse_language_tag, "value": fields.parse_xml_text}
_FILE: Mapping[str, Parser] = {
    "path": fields.parse_path,
    "url": fields.parse_url,
    "source": fields.parse_text,
    "sha256": fields.parse_sha256,
}
_ACCESS: Mapping[str, Parser] = {
    "networks": partial(fields.parse_list, parse=fields.parse_network),
    "others": partial(fields.parse_choice, choices=("metadata", "none")),
}
_TOMBSTONE: Mapping[str, Parser] = {
    "reason": fields.parse_text,
    "citation": _or_none(fields.parse_text),
    "successor": _or_none(fields.parse_ibi),
    "original_archive": _or_none(fields.parse_ibi),
}
#: The parser of each field of a record. The fields are parsed in this order, that of the class.
_PARSERS: Mapping[str, Parser] = {
    "rep": partial(fields.parse_ibi, form=Form.REP),
    "ibip": partial(fields.parse_ibi, form=Form.IBIP),
    "aliases": partial(fields.parse_list, parse=fields.parse_ibi),
    "same_as": fields.parse_same_as,
    "state": partial(fields.parse_choice, choices=tuple(state.value for state in State)),
    "original_archive": fields.parse_ibi,
    "timestamp": fields.parse_timestamp,
    "content_type": partial(fields.parse_choice, choices=("Data", "Metadata")),
    "language": fields.parse_language,
    "transferable": fields.parse_flag,
    "next_edition": fields.parse_ibi,
    "translations": _parse_translations,
    "metadata": _parse_metadata,
    "formats": fields.parse_formats,
    "files": _parse_files,
    "target_file": fields.parse_path,
    "list_files": fields.parse_flag,
    "access": _parse_access,
    "embargo": fields.parse_day,
    "tombstone": _parse_tombstone,
    "key": _or_none(fields.parse_key),
}
FIELDS = tuple(_PARSERS)
