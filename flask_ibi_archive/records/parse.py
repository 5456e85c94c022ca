"""Parsing of records: converts a JSON object to an :class:`Record`.

Every field of the JSON object is checked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from flask_ibi_archive.identifiers import Form
from flask_ibi_archive.protocol.states import State
from flask_ibi_archive.records import fields
from flask_ibi_archive.records.dublin_core import ELEMENTS, LANGUAGE_TAG, NOT_XML
from flask_ibi_archive.records.fields import FieldError, quoted, quoted_name
from flask_ibi_archive.records.record import (
    AccessRule,
    DublinCoreMetadata,
    FileRecord,
    MetadataAddress,
    MetadataItem,
    Record,
    Text,
    Tombstone,
)


def parse_line(line: str | bytes) -> Record:
    """Parse a record from a line of JSON.

    :raises FieldError: if a field is wrong or the line is not a JSON object.
    """
    return parse_record(_read_json(line))


def find_errors(line: str | bytes) -> list[FieldError]:
    """Return all errors of a line of JSON.

    Contradictions between fields are only found if each field is correct.
    """
    try:
        data = _read_json(line)
        given = fields.parse_object("", data, tuple(data) if isinstance(data, dict) else ())
    except FieldError as error:
        return [error]
    found = []
    for name, value in given.items():
        try:
            _read_fields({name: value})
        except FieldError as error:
            found.append(error)
    return found or list(_find_conflicts(_read_fields(given)))


def _read_json(line: str | bytes) -> Any:
    try:
        return _DECODER.decode(line.decode("utf-8") if isinstance(line, bytes) else line)
    except UnicodeDecodeError as error:
        raise FieldError("", f"byte {error.start + 1} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise FieldError(
            "", f"the text is not JSON: {error.msg} at character {error.colno}"
        ) from None
    except RecursionError:
        raise FieldError(
            "", "the text is not a record, because the JSON is nested too deeply"
        ) from None
    except FieldError:
        raise
    except ValueError as error:
        raise FieldError("", f"the text is not JSON: {error}") from None


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
    given = fields.parse_object("", data, _PARSERS)
    return Record(
        **{name: parse(name, given[name]) for name, parse in _PARSERS.items() if name in given}
    )


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
        for twice in (one for one, times in Counter(own).items() if times > 1):
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


def _parse_aliases(name: str, value: Any) -> tuple[str, ...]:
    return tuple(
        fields.parse_ibi(f"{name}[{number}]", text)
        for number, text in enumerate(fields.parse_list(name, value))
    )


def _parse_state(name: str, value: Any) -> str:
    return fields.parse_choice(name, value, tuple(state.value for state in State))


def _parse_content_type(name: str, value: Any) -> str:
    return fields.parse_choice(name, value, ("Data", "Metadata"))


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
    given = fields.parse_object(name, value, ("ibi", "dc", "url", "formats", "timestamp"))
    kinds = [kind for kind in ("ibi", "dc", "url") if kind in given]
    if len(kinds) != 1:
        raise FieldError(name, "metadata must have exactly one of the fields ibi, dc and url")
    kind = kinds[0]
    for extra in ("formats", "timestamp"):
        if extra in given and kind != "url":
            raise FieldError(
                f"{name}.{extra}", "the field is only allowed together with the field url"
            )
    if kind == "ibi":
        return MetadataItem(fields.parse_ibi(f"{name}.ibi", given["ibi"]))
    if kind == "dc":
        return DublinCoreMetadata(parse_dublin_core(f"{name}.dc", given["dc"]))
    formats = fields.parse_formats(f"{name}.formats", given.get("formats", {}))
    timestamp = given.get("timestamp")
    return MetadataAddress(
        fields.parse_url(f"{name}.url", given["url"]),
        formats,
        None if timestamp is None else fields.parse_timestamp(f"{name}.timestamp", timestamp),
    )


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
        return tuple([(one, None) for one in value])
    if isinstance(value, tuple):
        raise FieldError(
            name,
            f"{quoted(value)} may mean two values, or one value with its language; write "
            '["a", "b"] or [("a", "en")]',
        )
    return tuple(
        _parse_dublin_core_value(f"{name}[{number}]", one)
        for number, one in enumerate(fields.parse_list(name, value))
    )


def _parse_dublin_core_value(name: str, value: Any) -> Text:
    language = None
    if isinstance(value, dict):
        given = fields.parse_object(name, value, ("value", "lang"))
        if "value" not in given:
            raise FieldError(f"{name}.value", "the field is missing")
        value = given["value"]
        name = f"{name}.value"
        if "lang" in given:
            language = fields.parse_text(f"{name}.lang", given["lang"])
            if not LANGUAGE_TAG.match(language):
                raise FieldError(
                    f"{name}.lang", f"{quoted(language)} is not a language tag such as pt-BR"
                )
    text = fields.parse_text(name, value)
    if NOT_XML.search(text):
        raise FieldError(name, "the text contains a control character, which XML does not allow")
    return text, language


def _parse_files(name: str, value: Any) -> tuple[FileRecord, ...]:
    files = tuple(
        [
            _parse_file(f"{name}[{number}]", one)
            for number, one in enumerate(fields.parse_list(name, value))
        ]
    )
    paths = [file.path for file in files]
    if len(set(paths)) != len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise FieldError(name, f"the path {quoted(twice)} appears twice")
    return files


def _parse_file(name: str, value: Any) -> FileRecord:
    given = fields.parse_object(name, value, ("path", "url", "source", "sha256"))
    if "path" not in given:
        raise FieldError(f"{name}.path", "the field is missing")
    if "url" in given and "source" in given:
        raise FieldError(
            name,
            "a file may have a url (a file on another server) or a source (a file to import), "
            "but not both",
        )
    return FileRecord(
        fields.parse_path(f"{name}.path", given["path"]),
        fields.parse_url(f"{name}.url", given["url"]) if "url" in given else None,
        fields.parse_text(f"{name}.source", given["source"]) if "source" in given else None,
        fields.parse_sha256(f"{name}.sha256", given["sha256"]) if "sha256" in given else None,
    )


def _parse_access(name: str, value: Any) -> AccessRule:
    given = fields.parse_object(name, value, ("networks", "others"))
    networks = tuple(
        fields.parse_network(f"{name}.networks[{number}]", network)
        for number, network in enumerate(
            fields.parse_list(f"{name}.networks", given.get("networks", []))
        )
    )
    if not networks:
        raise FieldError(
            f"{name}.networks", "the list must have at least one network, such as 150.163.0.0/16"
        )
    others = fields.parse_choice(
        f"{name}.others", given.get("others", "metadata"), ("metadata", "none")
    )
    return AccessRule(networks, others)


def _parse_tombstone(name: str, value: Any) -> Tombstone:
    given = fields.parse_object(
        name, value, ("reason", "citation", "successor", "original_archive")
    )
    if "reason" not in given:
        raise FieldError(f"{name}.reason", "the field is missing; write why the item was removed")

    def read(key: str, check: Callable[[str, Any], str]) -> str | None:
        return None if given.get(key) is None else check(f"{name}.{key}", given[key])

    return Tombstone(
        fields.parse_text(f"{name}.reason", given["reason"]),
        read("citation", fields.parse_text),
        read("successor", fields.parse_ibi),
        read("original_archive", fields.parse_ibi),
    )


#: The parser of each field of a record. The fields are parsed in this order.
_PARSERS: Mapping[str, Callable[[str, Any], Any]] = {
    "rep": partial(fields.parse_ibi, form=Form.REP),
    "ibip": partial(fields.parse_ibi, form=Form.IBIP),
    "aliases": _parse_aliases,
    "state": _parse_state,
    "original_archive": fields.parse_ibi,
    "timestamp": fields.parse_timestamp,
    "content_type": _parse_content_type,
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
}
FIELDS = tuple(_PARSERS)
