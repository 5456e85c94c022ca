"""What callers say about an item: checks the fields of an ItemRecord, and copies the files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar

from msgspec.structs import asdict, replace

from flask_ibi_archive.archive.items.files import Content, Staging, copy_and_measure, read_source
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.description import (
    WORK_FIELDS,
    Container,
    Degree,
    Description,
    Name,
    Text,
    derive_dublin_core,
)
from flask_ibi_archive.core.records.record import (
    AccessRule,
    DublinCore,
    DublinCoreMetadata,
    FileRecord,
    MetadataAddress,
    MetadataItem,
    Record,
    Tombstone,
    check_record,
    format_description,
    format_fields,
    format_record,
    to_json,
)
from flask_ibi_archive.core.records.values import (
    FieldError,
    convert,
    convert_to,
    parse_path,
    quoted,
)
from flask_ibi_archive.core.records.work import read_dublin_core
from flask_ibi_archive.errors import IdentifierError, StorageError, UnknownItem

Value = TypeVar("Value")


# --- fields -----------------------------------------------------------------------------------


class Identified(Protocol):
    """An object with an IBI: a row of the host, an ItemView, or new identifiers (Minted)."""

    @property
    def ibi(self) -> str | None:
        """An identifier of the object; None if the object has no identifier yet."""


class Upload(Protocol):
    """An uploaded file, such as ``request.files["report"]`` of Flask."""

    filename: str | None

    @property
    def stream(self) -> IO[bytes]:
        """The content of the file."""


#: The content of a file: a path (text or Path) or a file open in binary mode.
FileContent: TypeAlias = "str | os.PathLike[str] | IO[bytes]"


#: A file of an item: its content; an upload; a name and a content; or a FileRecord. A FileRecord
#: describes a file on another server (``url``) or a local file with another name (``source``).
FileSource: TypeAlias = "FileContent | Upload | tuple[str, FileContent] | FileRecord"


#: The files of an item: a list of files, or one file.
Files: TypeAlias = "FileSource | Sequence[FileSource]"


#: The values of a Dublin Core element: a text, a text with its language, or a list of these.
Values: TypeAlias = "str | Sequence[str | Text]"


Metadata: TypeAlias = (
    "MetadataItem | DublinCoreMetadata | MetadataAddress | Description | Mapping[str, Any] | None"
)


#: The creators of a work: names, or objects such as ``{"name": "Silva, Ana", "orcid": "..."}``.
Names: TypeAlias = "str | Sequence[str | Text | Name | Mapping[str, Any]]"


#: The members of a list of a description: texts, or objects such as ``{"value": "...", ...}``.
Members: TypeAlias = "str | Sequence[Any] | None"


class ItemRecord(TypedDict, total=False):
    """The description of an item. All fields are optional.

    ::

        ItemRecord(title="Annual report", creators=["Silva, Ana"], language="en",
                   files=["report.pdf"])

    - ``title``, ``creators``: a text, or a list of texts and of pairs of a text and its language,
      such as ``[("Relatório", "pt")]``. They become the elements ``title`` and ``creator`` of the
      Dublin Core of the item. An empty value removes the element.
    - ``language``: the language of the item, such as ``pt`` or ``pt-BR``.
    - ``files``: the files of the item. A file is a path, a file open in binary mode, an upload
      (``request.files["pdf"]``), a pair of a name and one of these, or a FileRecord. The names of
      the files must differ. A stream without a name is named ``file-1``, ``file-2`` and so on.
    - ``target_file``: the name of the file to which the persistent URL leads. Default: the first
      file.
    - ``list_files``: False if readers must not see the list of the files.
    - ``contributors``, ``type``, ``publisher``, ``issued``, ``degree``, ``container``, ``funding``,
      ``related``, ``licence`` and the other fields of a work, which
      :doc:`/reference/import-format` lists. An item with one of them, or with a creator that is an
      object, such as ``{"name": "Silva, Ana", "orcid": "0000-0002-1825-0097"}``, has a complete
      description instead of Dublin Core, and formats and pages show all of it. An empty value
      removes the field.
    - ``metadata``: further Dublin Core, such as ``{"dc": {"date": "2026", "subject": ["ice"]}}``;
      or all fields of a work, as ``{"work": {...}}`` or a ``Description``;
      or the identifier of an item that describes this item, ``{"ibi": "..."}``; or the URL of
      metadata on another server, ``{"url": "https://..."}``.
    - ``previous_edition``: an item of this Archive (its identifier, or an object with an ``ibi``).
      The new item becomes the next edition of that item.
    - ``translation_of``: an item of this Archive. The new item becomes a translation of that item
      and must have a ``language``.
    - ``next_edition``, ``translations``: identifiers of items in any Archive. ``translations`` is
      an object such as ``{"pt": "<ibi>"}``.
    - ``state``: "Original" (default), "Reserved" or "Deleted". Only rows of a host's own model may
      have the other states; see :class:`~flask_ibi_archive.IdentifiedItem`.
    - ``tombstone``: the reason of a removal; only with the state "Deleted".
    - ``access``: the networks whose users may read the files, such as
      ``{"networks": ["150.163.0.0/16"]}``.
    - ``embargo``: the first day (UTC) on which readers may read the files, as a date or a text such
      as ``"2027-03-01"``. Networks do not lift an embargo.
    - ``content_type``: "Data" (default) or "Metadata".
    - ``formats``: the URLs of an item whose content type is Metadata, by format.
    - ``transferable``: False if the item must not be transferred to another Archive.
    - ``aliases``: further identifiers of the item.
    - ``same_as``: identifiers of the item in other systems, such as ``["hdl:20.500.12345/678"]``,
      and the addresses at which it used to be. Links to them lead to the item. Only one item of
      the Archive may have each of them.
    - ``key``: where the item comes from, such as ``package:1a68``; see :meth:`Archive.deposit`. A
      row of a host's own model has its key by itself.
    """

    title: Values
    creators: Names
    language: str | None
    files: Files
    target_file: str | None
    list_files: bool
    metadata: Metadata
    previous_edition: str | Identified | None
    translation_of: str | Identified | None
    next_edition: str | None
    translations: Mapping[str, str]
    state: Literal["Original", "Reserved", "Deleted"]
    tombstone: Tombstone | None
    access: AccessRule | Mapping[str, Any] | None
    embargo: date | str | None
    content_type: Literal["Data", "Metadata"]
    formats: Mapping[str, str]
    transferable: bool
    aliases: Sequence[str]
    same_as: Sequence[str]
    key: str | None
    titles: Members
    contributors: Members
    type: str | None
    publisher: str | None
    place: str | None
    issued: date | str | None
    dates: Mapping[str, date | str] | None
    degree: Mapping[str, Any] | Degree | None
    container: Mapping[str, Any] | Container | None
    abstracts: Members
    subjects: Members
    rights: Members
    licence: str | None
    access_right: str | None
    issn: str | None
    isbn: str | None
    number: str | None
    version: str | None
    extent: str | None
    coverage: Members
    notes: Members
    related: Members
    funding: Members


#: The fields that become elements of Dublin Core, with the names of these elements.
ELEMENT_FIELDS = {"title": "title", "creators": "creator"}


#: The fields that Dublin Core cannot have.
RICH_FIELDS = tuple(name for name in WORK_FIELDS if name != "creators")


#: The fields that name related items of the Archive.
RELATED = ("previous_edition", "translation_of")


#: The fields of an ItemRecord that are not copied to a Record.
NOT_IN_RECORD = frozenset({"files", *RELATED, "state", *ELEMENT_FIELDS, *RICH_FIELDS})


#: The fields that an edit may change. Other operations change the state and the identifiers.
EDITABLE = tuple(
    name
    for name in ItemRecord.__annotations__
    if name not in ("files", "previous_edition", "translation_of", "state", "tombstone")
)


def read_description(given: Mapping[str, Any], before: Metadata = None) -> dict[str, Any]:
    """Convert the fields of an ItemRecord to the fields of a Record; do not validate them yet.

    :param given: the fields of an :class:`ItemRecord`.
    :param before: the present metadata of the item. If the description has no metadata, ``title``
        and ``creators`` replace elements of the present metadata.
    :returns: the fields by name. The files, the previous edition, the translated item and the state
        are left out.
    :raises StorageError: if a field is unknown, or if ``title`` or ``creators`` contradict the
        metadata.
    """
    for name in given:
        if name not in ItemRecord.__annotations__:
            [*nearest] = get_close_matches(str(name), ItemRecord.__annotations__, 1)
            meant = f"did you mean {nearest[0]}?" if nearest else ""
            known = ", ".join(ItemRecord.__annotations__)
            raise StorageError(
                f"{name}: this field is unknown; {meant or f'the known fields are {known}'}"
            )
    values = {name: value for name, value in given.items() if name not in NOT_IN_RECORD}
    described = {name: given[name] for name in (*ELEMENT_FIELDS, *RICH_FIELDS) if name in given}
    if described:
        old = values.get("metadata", before)
        values["metadata"] = merge_metadata(old, described, "metadata" in values)
    return values


def merge_metadata(old: Any, given: Mapping[str, Any], is_stated: bool) -> Any:
    """Replace fields in metadata, and return the result as the JSON object of a record.

    The result is a description of a work if the metadata are one already, or if a field is given
    that Dublin Core cannot have; otherwise it is Dublin Core.

    :param old: the present metadata of the item, or those that a host gives.
    :param given: the new fields; an empty value removes a field. In a description, ``title``
        replaces the title, but no subtitle and no translated title.
    :param is_stated: whether the host gives the metadata.
    :returns: None if no element of Dublin Core remains.
    :raises StorageError: if the fields contradict the metadata or each other.
    """
    is_plain = isinstance(old, DublinCoreMetadata) and old.work is None
    stated = {"dc": old.elements} if is_plain else to_json(old)
    in_json = stated if isinstance(stated, Mapping) else {}
    creators = given.get("creators")
    is_rich = any(given.get(name) for name in RICH_FIELDS) or any(
        isinstance(creator, Name) or (isinstance(creator, Mapping) and "name" in creator)
        for creator in (creators if isinstance(creators, list | tuple) else [creators])
    )
    if not is_rich and "work" not in in_json:
        return _merge_elements(stated, given)
    if "title" in given and "titles" in given:
        raise StorageError("title: the field titles contains the title too; omit one of them")
    # the first field that makes the description one of a work, for messages
    field = next((name for name in given if given[name] and name in RICH_FIELDS), "creators")
    base: Any = {} if old is None else None
    if is_plain and not is_stated:
        base = _describe(old.elements, field)
    elif not in_json.keys() & {"dc", "ibi", "url"}:
        base = in_json.get("work", base)
    if not isinstance(base, Mapping):
        if [*in_json] == ["work"]:
            raise StorageError(f"metadata.work: {quoted(base)} is not an object or a Description")
        raise StorageError(
            f"metadata: Dublin Core and metadata elsewhere can't have the field {field}; omit "
            'the field, or write all fields of the work as {"work": {...}}'
        )
    fields = {**given}
    if "title" in fields:
        titles = format_description({"titles": fields.pop("title")}).get("titles", [])
        others = [one for one in base.get("titles", ()) if isinstance(one, dict) and "kind" in one]
        fields["titles"] = [*titles, *others] if isinstance(titles, list) else titles
    kept = {name: value for name, value in base.items() if name not in fields}
    return {"work": {**kept, **format_description(fields)}}


def _describe(elements: DublinCore, field: str) -> Any:
    """Convert Dublin Core to the description of a work, and return it as a JSON object.

    :param field: the name of the field that the caller sets and that Dublin Core cannot express. An
        error message contains it.
    :raises StorageError: if a value would be lost.
    """
    work = read_dublin_core(elements)
    derived = derive_dublin_core(work)
    lost = [name for name in elements if {*elements[name]} - {*derived.get(name, ())}]
    if lost:
        raise StorageError(
            f"{field}: the item has Dublin Core that would be lost ({', '.join(lost)}); "
            'write all fields of the work as metadata={"work": {...}}'
        )
    return format_description(work)


def _merge_elements(old: Any, given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Replace the titles and creators in Dublin Core; return None if no element remains.

    :param given: the fields "title" and "creators", if they are to be replaced.
    """
    if isinstance(old, Mapping) and isinstance(old.get("dc"), Mapping):
        merged = {**old["dc"]}
    elif old is None:
        merged = {}
    elif isinstance(old, Mapping) and not old.keys() & {"ibi", "url"}:
        raise StorageError(
            f'metadata: {quoted(old)} has no key dc, work, ibi or url; write {{"dc": {{...}}}}'
        )
    else:
        raise StorageError(
            "metadata: an item whose metadata are elsewhere can't have the fields title and "
            "creators; omit these fields, or use Dublin Core"
        )
    for name, element in ELEMENT_FIELDS.items():
        if name in given:
            if not isinstance(given[name], str | list | tuple | None):
                raise StorageError(
                    f"{name}: {quoted(given[name])} is not a text or a list of texts"
                )
            merged[element] = given[name]
    kept = {name: value for name, value in merged.items() if value}
    return {"dc": kept} if kept else None


def find_relations(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the identifiers in the fields "previous_edition" and "translation_of", by field.

    A field without a value is missing in the result.

    :raises StorageError: if a field has a value without an identifier.
    """
    found = {name: get_ibi(name, given[name]) for name in RELATED if name in given}
    return {name: ibi for name, ibi in found.items() if ibi is not None}


def check_new(given: Mapping[str, Any]) -> None:
    """Check that a description fits a new item. The values of the fields are validated later.

    :raises StorageError: if the language of a translation is missing, if the fields contradict each
        other, or if the state is not Original.
    """
    translation_of, state = given.get("translation_of"), given.get("state", State.ORIGINAL)
    if translation_of is not None and given.get("language") is None:
        raise StorageError("a translation needs a language, for example language='pt'")
    if None not in (translation_of, given.get("previous_edition")):
        raise StorageError(
            "previous_edition can't be used with translation_of; deposit the new edition first, "
            "and then its translation"
        )
    if state != State.ORIGINAL:
        raise StorageError(
            f"state: {quoted(state)} is not Original, the state of a new item; to "
            "reserve an identifier, use reserve()"
        )


def get_ibi(field: str, value: str | Identified | None) -> str | None:
    """Return the identifier of an item; None for the value None.

    :param field: the name of the field, for messages.
    :param value: an identifier, or an object with an IBI.
    :raises StorageError: if the value has no identifier.
    """
    if value is None or isinstance(value, str):
        return value
    ibi = getattr(value, "ibi", None)
    if not isinstance(ibi, str):
        raise StorageError(f"{field}: {quoted(value)} has no identifier yet")
    return ibi


def require_ibi(item: str | Identified) -> str:
    """Return the identifier of an item; see :func:`get_ibi`.

    :raises StorageError: if the item is None, or has no identifier.
    """
    ibi = get_ibi("item", item)
    if ibi is None:
        raise StorageError("item: None is not an item; use an identifier or an object with an ibi")
    return ibi


def canonicalize(ibi: str | Identified) -> str:
    """Return the identifier of an item in canonical case; see :func:`require_ibi`.

    :raises UnknownItem: if the text is not a valid identifier.
    """
    text = ibi if isinstance(ibi, str) else require_ibi(ibi)
    try:
        return parse_identifier(text).text
    except IdentifierError as error:
        raise UnknownItem(quoted(text)) from error


def name_field(field: str) -> str:
    """Return the name that a field of a Record has in an ItemRecord.

    For example, ``metadata.dc.title[0]`` becomes ``title[0]``, and ``metadata.work.issued`` becomes
    ``issued``.
    """
    field = field.removeprefix("metadata.work.")
    for name, element in ELEMENT_FIELDS.items():
        parsed = f"metadata.dc.{element}"
        if field.startswith(parsed):
            return field.replace(parsed, name, 1)
    return field


#: A record without fields.
NEW_RECORD = Record()


def validate_record(
    given: Mapping[str, Any], name: str | None, before: Record = NEW_RECORD
) -> Record:
    """Check new fields, and return a record with them in canonical form.

    :param given: the new fields.
    :param name: the identifier of the item, for messages. None if the item has no identifier yet.
    :param before: the record that has the other fields.
    :raises StorageError: if a field is wrong. The message names the field.
    """
    try:
        parsed = convert("", format_fields(Record, given), Record)
        checked = replace(before, **{field: getattr(parsed, field) for field in given})
        check_record(checked, has_identifier=name is not None)
        return checked
    except FieldError as error:
        field = f"{name_field(error.field)}: " if error.field else ""
        raise StorageError(f"{name or 'the new item'}: {field}{error.reason}") from error


def validate_tombstone(tombstone: Tombstone, ibi: str) -> Tombstone:
    """Check the fields of a tombstone, and return the tombstone in canonical form.

    :param ibi: the identifier of the item, for messages.
    :raises StorageError: if a field is wrong. The message names the field.
    """
    try:
        return convert("", asdict(replace(tombstone, original_archive=None)), Tombstone)
    except FieldError as error:
        raise StorageError(f"{ibi}: {error}") from error


def check_value(parse: Callable[[str, Any], Value], field: str, value: Any) -> Value:
    """Call the parser of a field, such as :func:`.parse_text`, and return its result.

    :raises StorageError: if the value is wrong.
    """
    try:
        return parse(field, value)
    except FieldError as error:
        raise StorageError(str(error)) from error


# --- files ------------------------------------------------------------------------------------


#: The description of a FileSource in messages.
FILE_FORMS = (
    "a path (text or Path), a file open in binary mode, an upload, or a name with one of these"
)


def stage_files(
    staging: Staging, files: Files, stored: Mapping[str, Content] = MappingProxyType({})
) -> tuple[tuple[FileRecord, ...], dict[str, Content]]:
    """Copy new files to the staging folder, and return the records and contents of the files.

    :param stored: the stored contents of the item, by file name. A file on disk that certainly has
        the same content (:meth:`.Content.is_current`) is not read. A file that is read and has the
        same content is not copied.
    :returns: first, the records of all files. Second, the contents by file name, of those files
        that are new, or whose sources have changed. A file on another server has no content.
    :raises StorageError: if two files have the same name, or if a file cannot be read.
    """
    named = [name_file(number, file) for number, file in enumerate(list_files(files))]
    records: dict[str, FileRecord] = {}
    contents: dict[str, Content] = {}
    for path, file in named:
        if path in records:
            raise StorageError(
                f"two files are named {path}; the files of an item need different names"
            )
        if isinstance(file, FileRecord):
            records[path] = file
            continue
        old = stored.get(path)
        try:
            content = _stage(staging, file, old)
        except (OSError, ValueError) as error:  # ValueError: the path contains NUL
            where = file if isinstance(file, Path) else path
            reason = getattr(error, "strerror", None) or error
            raise StorageError(f"{where} can't be read: {reason}") from error
        if content is not old:
            contents[path] = content
        records[path] = FileRecord(path, sha256=content.sha256)
    return tuple(records.values()), contents


def _stage(staging: Staging, file: Path | IO[bytes], old: Content | None) -> Content:
    """Copy a file, unless the stored content is the same, and return its content.

    :param old: the stored content, or None.
    :raises OSError: if the file cannot be read.
    """
    if not isinstance(file, Path):
        return staging.add_stream(file)
    if old is not None:
        if old.is_current(file):
            return old
        # a file of another size is not read twice
        if file.stat().st_size == old.size:
            content = read_source(file, lambda stream: copy_and_measure(stream, None))
            if content == old:
                return content
    return read_source(file, staging.add_stream)


def list_files(files: Any) -> list[Any]:
    """Return the files of an item as a list. A single file becomes a list of one file.

    :raises StorageError: if the value is neither a file nor a sequence of files.
    """
    if isinstance(files, (str, os.PathLike, FileRecord)) or hasattr(files, "read"):
        return [files]
    if isinstance(files, (Sequence, Iterator)) and not isinstance(files, (bytes, bytearray)):
        return list(files)
    raise StorageError(
        f"files: {quoted(files)} is not a list of files; each file must be {FILE_FORMS}"
    )


def name_file(number: int, file: Any) -> tuple[str, Path | IO[bytes] | FileRecord]:
    """Return the name that a file gets in the item, and its content as a path or a stream.

    For a file on another server (a FileRecord without ``source``), the second value is the
    FileRecord.

    :param number: the position of the file in the list, from 0.
    :param file: one file of :data:`Files`.
    :raises StorageError: if the file is none of :data:`FILE_FORMS`, or if a field is wrong.
    """
    field = f"files[{number}]"
    name: object = None
    if isinstance(file, FileRecord):
        if file.source is None:
            checked = check_value(convert_to(FileRecord), field, format_record(file))
            return checked.path, checked
        name, file = file.path, file.source
    elif isinstance(file, tuple) and len(file) == 2:
        name, file = file
    elif not isinstance(file, (str, os.PathLike)) and hasattr(file, "filename"):
        if file.filename == "":  # a form whose file was left out
            raise StorageError(f"{field}: the upload is empty, because the user chose no file")
        name, file = Path(file.filename or "").name or None, file.stream
    path = os.fspath(file) if isinstance(file, (str, os.PathLike)) else None
    if isinstance(path, str):
        file = Path(path)
    elif not hasattr(file, "read"):
        raise StorageError(f"{field}: {quoted(file)} is not {FILE_FORMS}")
    else:
        is_binary = False
        with suppress(OSError, TypeError, ValueError):  # closed, or open only for writing
            is_binary = isinstance(file.read(0), bytes)
        if not is_binary:
            raise StorageError(f"{field}: {quoted(file)} must be open in binary mode ('rb')")
        # the attribute name of an anonymous temporary file is a number
        path = getattr(file, "name", None)
    if name:
        return check_value(parse_path, field, name), file
    if isinstance(path, str):
        return check_value(parse_path, repr(path), Path(path).name), file
    return f"file-{number + 1}", file
