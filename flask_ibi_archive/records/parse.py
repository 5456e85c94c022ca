"""Reads a record: JSON to :class:`ItemRecord`, every field checked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from flask_ibi_archive.identifiers import Form
from flask_ibi_archive.records import fields
from flask_ibi_archive.records.dublin_core import ELEMENTS, LANGUAGE_TAG, NOT_XML
from flask_ibi_archive.records.fields import FieldError, shown, shown_name
from flask_ibi_archive.records.record import (
    AccessRule,
    DublinCoreMetadata,
    FileRecord,
    ItemRecord,
    MetadataAddress,
    MetadataItem,
    Text,
    Tombstone,
)


def parse_line(line: str | bytes) -> ItemRecord:
    """Return the record that a line of JSON holds.

    :raises FieldError: naming the field that is wrong, or "" where the line is no JSON object.
    """
    return parse_record(_read_json(line))


def find_errors(line: str | bytes) -> list[FieldError]:
    """Return all that is wrong with a line: an error a field, or else what its fields say together."""
    try:
        data = _read_json(line)
        given = fields.an_object("", data, tuple(data) if isinstance(data, dict) else ())
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
        text = line.decode("utf-8") if isinstance(line, bytes) else line
        return json.loads(text, object_pairs_hook=_no_field_twice, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise FieldError("", f"byte {error.start + 1} is no UTF-8") from None
    except json.JSONDecodeError as error:
        raise FieldError("", f"no JSON: {error.msg} at character {error.colno}") from None
    except RecursionError:
        raise FieldError("", "no record: it is nested too deeply") from None
    except FieldError:
        raise
    except ValueError as error:
        raise FieldError("", f"no JSON: {error}") from None


def parse_record(data: Any) -> ItemRecord:
    """Return the record that a JSON object holds.

    :param data: as json.loads gives it.
    :raises FieldError: naming the field that is wrong and what would be right.
    """
    record = _read_fields(data)
    check_record(record)
    return record


def _read_fields(data: Any) -> ItemRecord:
    given = fields.an_object("", data, FIELDS)
    return ItemRecord(
        **{name: parse(name, given[name]) for name, parse in _PARSERS.items() if name in given}
    )


def check_record(record: ItemRecord) -> None:
    """Check what the fields of a record say together.

    :raises FieldError: naming the field that doesn't fit the others.
    """
    for error in _find_conflicts(record):
        raise error


def _find_conflicts(record: ItemRecord) -> Iterator[FieldError]:
    if record.rep is None and record.ibip is None:
        yield FieldError("rep", "an item needs a rep, an ibip or both")
    own = record.identifiers
    for twice in (one for one, times in Counter(own).items() if times > 1):
        yield FieldError("aliases", f"{twice} is already an identifier of the item")
    if record.state == "Copy" and record.original_archive is None:
        yield FieldError(
            "original_archive", "a Copy names the Archive that holds its Original (a service IBI)"
        )
    if record.state != "Copy" and record.original_archive is not None:
        yield FieldError("original_archive", f"only a Copy has one, the state is {record.state}")
    if record.state == "Deleted" and record.timestamp is None:
        yield FieldError("timestamp", "a Deleted item needs the moment of its removal")
    if record.state != "Deleted" and record.tombstone is not None:
        yield FieldError("tombstone", f"only a Deleted item has one, the state is {record.state}")
    if record.formats and record.content_type != "Metadata":
        yield FieldError("formats", "only an item whose content_type is Metadata has formats")
    paths = [file.path for file in record.files]
    if record.target_file is not None and record.target_file not in paths:
        yield FieldError("target_file", f"{shown(record.target_file)} is not among the files")
    if record.next_edition in own:
        yield FieldError("next_edition", "an item is not its own next edition")
    if isinstance(record.metadata, MetadataItem) and record.metadata.ibi in own:
        yield FieldError("metadata.ibi", "an item is not its own metadata; leave it out")
    for language, ibi in record.translations.items():
        if ibi in own and record.language not in (None, language):
            yield FieldError(f"translations.{language}", f"the item is in {record.language}")
        if ibi not in own and record.language == language:
            yield FieldError(f"translations.{language}", "the item itself is in that language")
    members = list(record.translations.values())
    if len(set(members)) != len(members):
        yield FieldError("translations", "one item stands there for two languages")


def _no_field_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise FieldError(shown_name(twice), "is given twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _aliases(name: str, value: Any) -> tuple[str, ...]:
    return tuple(
        fields.an_identifier(f"{name}[{number}]", text)
        for number, text in enumerate(fields.a_list(name, value))
    )


def _state(name: str, value: Any) -> str:
    return fields.one_of(name, value, ("Original", "Copy", "Deleted"))


def _content_type(name: str, value: Any) -> str:
    return fields.one_of(name, value, ("Data", "Metadata"))


def _translations(name: str, value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise FieldError(name, f'{shown(value)} is no object like {{"pt": "<ibi>"}}')
    return {
        fields.a_language(name, language): fields.an_identifier(f"{name}.{language}", ibi)
        for language, ibi in sorted(value.items())
    }


def _metadata(name: str, value: Any) -> MetadataItem | DublinCoreMetadata | MetadataAddress:
    if not isinstance(value, dict):
        raise FieldError(name, f'{shown(value)} is no object like {{"dc": {{"title": ["..."]}}}}')
    given = fields.an_object(name, value, ("ibi", "dc", "url", "formats", "timestamp"))
    kinds = [kind for kind in ("ibi", "dc", "url") if kind in given]
    if len(kinds) != 1:
        raise FieldError(name, "it has one of ibi, dc and url")
    kind = kinds[0]
    for extra in ("formats", "timestamp"):
        if extra in given and kind != "url":
            raise FieldError(f"{name}.{extra}", "goes with url only")
    if kind == "ibi":
        return MetadataItem(fields.an_identifier(f"{name}.ibi", given["ibi"]))
    if kind == "dc":
        return DublinCoreMetadata(parse_dublin_core(f"{name}.dc", given["dc"]))
    formats = fields.some_formats(f"{name}.formats", given.get("formats", {}))
    timestamp = given.get("timestamp")
    return MetadataAddress(
        fields.a_url(f"{name}.url", given["url"]),
        formats,
        None if timestamp is None else fields.a_timestamp(f"{name}.timestamp", timestamp),
    )


def parse_dublin_core(name: str, value: Any) -> Mapping[str, tuple[Text, ...]]:
    """Return the elements of a JSON object of Dublin Core, in the standard's order.

    :raises FieldError: naming the element, behind ``name``.
    """
    given = fields.an_object(name, value, ELEMENTS)
    elements = {
        element: tuple(
            _dublin_core_value(f"{name}.{element}[{number}]", one)
            for number, one in enumerate(_dublin_core_list(f"{name}.{element}", given[element]))
        )
        for element in ELEMENTS
        if element in given
    }
    if not any(elements.values()):
        raise FieldError(name, "is empty; leave metadata out instead")
    return {element: values for element, values in elements.items() if values}


def _dublin_core_list(name: str, value: Any) -> list[Any]:
    if isinstance(value, tuple):
        raise FieldError(
            name,
            f"{shown(value)} may be two values or one with its language; write "
            '["a", "b"] or [("a", "en")]',
        )
    return fields.a_list(name, value)


def _dublin_core_value(name: str, value: Any) -> Text:
    language = None
    if isinstance(value, dict):
        given = fields.an_object(name, value, ("value", "lang"))
        if "value" not in given:
            raise FieldError(f"{name}.value", "is missing")
        value = given["value"]
        name = f"{name}.value"
        if "lang" in given:
            language = fields.a_text(f"{name}.lang", given["lang"])
            if not LANGUAGE_TAG.match(language):
                raise FieldError(f"{name}.lang", f"{shown(language)} is no language tag like pt-BR")
    text = fields.a_text(name, value)
    if NOT_XML.search(text):
        raise FieldError(name, "holds a control character, which XML can't")
    return text, language


def _files(name: str, value: Any) -> tuple[FileRecord, ...]:
    files = tuple(
        _file(f"{name}[{number}]", one) for number, one in enumerate(fields.a_list(name, value))
    )
    paths = [file.path for file in files]
    if len(set(paths)) != len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise FieldError(name, f"{shown(twice)} stands there twice")
    return files


def _file(name: str, value: Any) -> FileRecord:
    given = fields.an_object(name, value, ("path", "url", "source", "sha256"))
    if "path" not in given:
        raise FieldError(f"{name}.path", "is missing")
    if "url" in given and "source" in given:
        raise FieldError(name, "a file is served elsewhere (url) or taken in (source), not both")
    return FileRecord(
        fields.a_path(f"{name}.path", given["path"]),
        fields.a_url(f"{name}.url", given["url"]) if "url" in given else None,
        fields.a_text(f"{name}.source", given["source"]) if "source" in given else None,
        fields.a_sha256(f"{name}.sha256", given["sha256"]) if "sha256" in given else None,
    )


def _access(name: str, value: Any) -> AccessRule:
    given = fields.an_object(name, value, ("networks", "others"))
    networks = tuple(
        fields.a_network(f"{name}.networks[{number}]", network)
        for number, network in enumerate(
            fields.a_list(f"{name}.networks", given.get("networks", []))
        )
    )
    if not networks:
        raise FieldError(f"{name}.networks", "it needs a network at least, such as 150.163.0.0/16")
    others = fields.one_of(f"{name}.others", given.get("others", "metadata"), ("metadata", "none"))
    return AccessRule(networks, others)


def _tombstone(name: str, value: Any) -> Tombstone:
    given = fields.an_object(name, value, ("reason", "citation", "successor", "original_archive"))
    if "reason" not in given:
        raise FieldError(f"{name}.reason", "is missing: why was the item removed?")

    def read(key: str, check: Callable[[str, Any], str]) -> str | None:
        return None if given.get(key) is None else check(f"{name}.{key}", given[key])

    return Tombstone(
        fields.a_text(f"{name}.reason", given["reason"]),
        read("citation", fields.a_text),
        read("successor", fields.an_identifier),
        read("original_archive", fields.an_identifier),
    )


#: The fields of a record with their parsers, in the order in which they are checked.
_PARSERS: Mapping[str, Callable[[str, Any], Any]] = {
    "rep": partial(fields.an_identifier, form=Form.REP),
    "ibip": partial(fields.an_identifier, form=Form.IBIP),
    "aliases": _aliases,
    "state": _state,
    "original_archive": fields.an_identifier,
    "timestamp": fields.a_timestamp,
    "content_type": _content_type,
    "language": fields.a_language,
    "transferable": fields.a_flag,
    "next_edition": fields.an_identifier,
    "translations": _translations,
    "metadata": _metadata,
    "formats": fields.some_formats,
    "files": _files,
    "target_file": fields.a_path,
    "list_files": fields.a_flag,
    "access": _access,
    "tombstone": _tombstone,
}
FIELDS = tuple(_PARSERS)
