"""Reading and writing of records, and of the parts of records, as JSON.

A line of an import file or export file is the JSON object of a record: the fields of
:class:`.Record`, in their order, without those that have their default value.

A host application may create a record or a description with similar types: tuples instead of lists,
a text instead of a list with one text, a pair of a text and its language, a date, the classes of a
description, and None or an empty value instead of a missing field of a description. The functions
``format_...`` convert these types. They copy other values unchanged, and :func:`parse_record` then
refuses those that are wrong, and names the field.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from enum import Enum
from functools import cache
from typing import Any, get_origin

from msgspec import NODEFAULT, Struct
from msgspec.structs import asdict, fields

from flask_ibi_archive.core.claim import MAX_NAMES, fold_name
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records import description as model
from flask_ibi_archive.core.records import values
from flask_ibi_archive.core.records.record import DublinCoreMetadata, MetadataItem, Record
from flask_ibi_archive.core.records.values import FieldError, IssuedDate
from flask_ibi_archive.errors import ClaimError

# --- reading -------------------------------------------------------------------------------------


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
        values.check_object("", data, data)
    except FieldError as error:
        return [error]
    errors = list(_find_errors("", data, values.convert_to(Record)))
    return errors or list(_find_conflicts(values.convert("", data, Record)))


def _find_errors(
    field: str, data: dict[str, Any], parse: Callable[[str, Any], object]
) -> Iterator[FieldError]:
    """Yield the errors of an object: one for each field, and for each member of a list."""
    for name, value in data.items():
        error = _find_error(field, {name: value}, parse)
        if error is None:
            continue
        inside: list[FieldError] = []
        if name == "metadata" and isinstance(value, dict) and isinstance(value.get("work"), dict):
            inside += _find_errors("metadata.work", value["work"], model.parse_work_fields)
        for number, member in enumerate(value if isinstance(value, list) else ()):
            wrong = _find_error(field, {name: [member]}, parse)
            if wrong and "[0]" in wrong.field:
                path = wrong.field.replace("[0]", f"[{number}]", 1)
                inside.append(FieldError(path, wrong.reason))
        yield from inside or [error]


def _find_error(
    field: str, data: dict[str, Any], parse: Callable[[str, Any], object]
) -> FieldError | None:
    try:
        parse(field, data)
    except FieldError as error:
        return error
    return None


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
        values.check_characters(field, value)
    elif isinstance(value, list):
        for number, member in enumerate(value):
            check_json(f"{field}[{number}]", member, depth + 1)
    elif isinstance(value, dict):
        for name, member in value.items():
            inside = values.join_names(field, values.quoted_name(name))
            values.check_characters(inside, name)
            check_json(inside, member, depth + 1)


def parse_record(data: Any, has_identifier: bool = True) -> Record:
    """Parse a record from a JSON object.

    :param data: the result of json.loads.
    :param has_identifier: False if the identifiers of the item will be minted later.
    :raises FieldError: if a field is wrong.
    """
    record = values.convert("", data, Record)
    check_record(record, has_identifier)
    return record


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
    for identifier in _find_repeated(own):
        yield FieldError("aliases", f"{identifier} is already an identifier of the item")
    yield from find_wrong_names(record)
    yield from _find_conflicts_with_state(record)
    if record.formats and record.content_type != "Metadata":
        yield FieldError("formats", "only an item whose content_type is Metadata may have formats")
    paths = [file.path for file in record.files]
    for path in _find_repeated(paths):
        yield FieldError("files", f"the path {values.quoted(path)} appears twice")
    target = record.target_file
    if target is not None and target not in paths:
        yield FieldError("target_file", f"{values.quoted(target)} is not among the files")
    if record.next_edition in own:
        yield FieldError("next_edition", "an item cannot be its own next edition")
    if isinstance(record.metadata, MetadataItem) and record.metadata.ibi in own:
        yield FieldError("metadata.ibi", "an item cannot be its own metadata; omit metadata")
    if record.translations:
        yield from _find_conflicting_translations(record)


def find_wrong_names(record: Record) -> Iterator[FieldError]:
    """Yield why a claim can't state all names of an item. Nothing is cut in a claim.

    Source: federation CL-1.
    """
    count = len(record.identifiers) + len(record.same_as)
    if count > MAX_NAMES:
        reason = f"an item has at most {MAX_NAMES} identifiers and aliases; this one has {count}"
        yield FieldError("same_as" if record.same_as else "aliases", reason)
    for number, alias in enumerate(record.same_as):
        try:
            fold_name(alias)
        except ClaimError as error:
            yield FieldError(f"same_as[{number}]", str(error))


def _find_repeated(texts: Sequence[str]) -> list[str]:
    if len(set(texts)) == len(texts):
        return []
    return [text for text, times in Counter(texts).items() if times > 1]


def _find_conflicts_with_state(record: Record) -> Iterator[FieldError]:
    state, but = record.state, f"; the state of this item is {record.state}"
    if state == State.COPY and record.original_archive is None:
        reason = "a Copy must have the service IBI of the Archive of its Original"
        yield FieldError("original_archive", reason)
    if state != State.COPY and record.original_archive is not None:
        yield FieldError("original_archive", f"only a Copy may have an original_archive{but}")
    if state == State.DELETED and record.timestamp is None:
        yield FieldError("timestamp", "a Deleted item must have the time of its removal")
    if state != State.DELETED and record.tombstone is not None:
        yield FieldError("tombstone", f"only a Deleted item may have a tombstone{but}")
    if state == State.DELETED and record.embargo is not None:
        yield FieldError("embargo", "a Deleted item has no files, and therefore no embargo")


def _find_conflicting_translations(record: Record) -> Iterator[FieldError]:
    own = record.identifiers
    for language, ibi in record.translations.items():
        name = f"translations.{language}"
        if ibi in own and record.language not in (None, language):
            reason = "the item itself has this identifier, but its language is"
            yield FieldError(name, f"{reason} {record.language}")
        if ibi not in own and record.language == language:
            reason = (
                "this is the language of the item itself; use the identifier of the item itself"
            )
            yield FieldError(name, reason)
    if _find_repeated([*record.translations.values()]):
        reason = "two languages have the same identifier; each language needs a different item"
        yield FieldError("translations", reason)


def _refuse_repeated_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise FieldError(values.quoted_name(twice), "the field appears twice in one object")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not allowed in JSON")


#: Created only once, because that takes more time than to decode a short text.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_refuse_repeated_fields, parse_constant=_refuse_constant
)


# --- writing -------------------------------------------------------------------------------------


def format_record(record: Struct) -> dict[str, Any]:
    """Return a record, or a part of a record, as a JSON object.

    If the JSON object is parsed, the result is an equal record.
    """
    return format_fields(type(record), asdict(record))


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
    return {element: _format_list(values) for element, values in elements.items()}


def format_description(description: Any) -> Any:
    """Return a description as a JSON object, with only the fields that are stated.

    :param description: a :class:`Description`; or an object with the fields of the JSON object,
        which may contain Python's types.
    """
    if not isinstance(description, model.Description):
        return _format_members(description) if isinstance(description, Mapping) else description
    names = zip(
        model.Description.__struct_fields__, model.Description.__struct_encode_fields__, strict=True
    )
    url, text, type = description.licence_url, description.type_text, description.type
    members = {name: getattr(description, attribute) for attribute, name in names}
    members["type"] = text or (None if type is model.WorkType.OTHER else type.value)
    members["type_text"] = None
    members["licence"] = None if url is None else values.find_spdx(url) or url
    return _format_members(members)


#: The fields of a description that are lists.
_LISTS = frozenset(
    info.name for info in fields(model.Description) if get_origin(info.type) is tuple
) | {"affiliations"}


def _format_members(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a part of a description; empty ones are omitted."""
    formatted = {}
    for name, value in members.items():
        if value is None or value == ():
            continue
        in_json = _format_list(value) if name in _LISTS else _format_value(value)
        if not (in_json is None or in_json in ("", [], {})):
            formatted[str(name)] = in_json
    return formatted


def _format_list(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        is_member = isinstance(value, str | Mapping | Struct)
        return [_format_value(value)] if is_member else value
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(v, str) for v in value):
        return value  # two texts, or one text and its language
    return [_format_value(member) for member in value]


def _format_value(value: Any) -> Any:
    """Return a value of a description; an object whose main field alone is stated as a text."""
    if value is None or isinstance(value, str):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, IssuedDate):
        return value.text
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, tuple) and len(value) == 2:
        text, language = value
        return text if language is None else {"value": text, "lang": language}
    if not isinstance(value, Struct):
        return _format_members(value) if isinstance(value, Mapping) else value
    members = asdict(value)
    if isinstance(value, model.Name):
        members = {"name": value.inverted, **members, "family": None, "given": None}
    if isinstance(value, model.RelatedWork):
        members |= {"kind": None, "url": None}
    formatted, main = _format_members(members), next(iter(members))
    is_short = [*formatted] == [main] and isinstance(
        value, model.Name | model.Title | model.Organisation | model.Subject
    )
    return formatted[main] if is_short else formatted


@cache
def _list_fields(kind: type[Struct]) -> dict[str, tuple[bool, Any, Any]]:
    """Return each stored field by its name: whether it is a list, its default, and that as JSON."""
    listed = {}
    for info in fields(kind):
        default = info.default if info.default_factory is NODEFAULT else info.default_factory()
        is_list = get_origin(getattr(info.type, "kind", info.type)) is tuple
        if info.name != "discard_description":
            listed[info.name] = is_list, default, to_json(default)
    return listed


def format_fields(kind: type[Struct], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return given fields of a record, or of a part of a record, as a JSON object."""
    formatted = {}
    stored = _list_fields(kind)
    for name, value in given.items():
        if name not in stored:
            continue
        is_list, default, in_json = stored[name]
        if value is default:
            continue
        value = [value] if is_list and isinstance(value, str) else to_json(value)
        # 1 is equal to the default True, but is a wrong value, which must not be left out
        if value is not None and (value != in_json or type(value) is not type(in_json)):
            formatted[name] = value
    return formatted


def to_json(value: Any) -> Any:
    """Return the value of a field of a record as JSON."""
    if value is None or isinstance(value, str):  # most values
        return value
    if isinstance(value, DublinCoreMetadata):
        if value.work is not None:
            return {"work": format_description(value.work)}
        return {"dc": format_dublin_core(value.elements)}
    if isinstance(value, model.Description):
        return {"work": format_description(value)}
    if isinstance(value, tuple):
        return [to_json(member) for member in value]
    if isinstance(value, Mapping):
        formats = {"work": format_description, "dc": format_dublin_core}
        return {
            str(name): formats[name](member) if name in formats else member
            for name, member in value.items()
        }
    if isinstance(value, datetime):
        return value if value.tzinfo is None else format_timestamp(value)
    if isinstance(value, date):
        return value.isoformat()
    return format_record(value) if isinstance(value, Struct) else value
