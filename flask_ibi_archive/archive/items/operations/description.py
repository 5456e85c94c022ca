"""The description of an item, as a host writes it.

A host describes an item with the fields of :class:`ItemRecord`. This module converts the
description to the fields of a :class:`~flask_ibi_archive.core.records.record.Record`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from typing import IO, Any, Literal, Protocol, TypeAlias, TypedDict

from flask_ibi_archive.archive.items.operations.work_fields import (
    RICH_FIELDS,
    is_work,
    merge_work,
)
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.description import (
    Container,
    Degree,
    Description,
    Name,
    Text,
)
from flask_ibi_archive.core.records.fields import quoted
from flask_ibi_archive.core.records.record import (
    AccessRule,
    DublinCoreMetadata,
    FileRecord,
    MetadataAddress,
    MetadataItem,
    Tombstone,
)
from flask_ibi_archive.errors import StorageError


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
Content: TypeAlias = "str | os.PathLike[str] | IO[bytes]"
#: A file of an item: its content; an upload; a name and a content; or a FileRecord. A FileRecord
#: describes a file on another server (``url``) or a local file with another name (``source``).
FileSource: TypeAlias = "Content | Upload | tuple[str, Content] | FileRecord"
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
#: Other fields of an ItemRecord that are not copied to a Record.
APART = ("files", "previous_edition", "translation_of", "state")
NOT_IN_RECORD = frozenset({*APART, *ELEMENT_FIELDS, *RICH_FIELDS})


@dataclass(frozen=True, slots=True)
class ItemDescription:
    """A description of an item, separated into fields of a Record and other fields.

    :param values: the fields of a Record by name; not validated yet.
    :param edition_of: an identifier of the previous edition, or None.
    :param translation_of: an identifier of an item that is translated, or None.
    """

    values: dict[str, Any]
    files: Files
    edition_of: str | None
    translation_of: str | None
    state: str


def read_description(given: Mapping[str, Any], before: Metadata = None) -> ItemDescription:
    """Return a description as an :class:`ItemDescription`.

    The fields of a Record are separated from the files, the relations and the state.

    :param given: the fields of an :class:`ItemRecord`.
    :param before: the present metadata of the item. If the description has no metadata, ``title``
        and ``creators`` replace elements of the present metadata.
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
        if is_work(old, described):
            values["metadata"] = merge_work(old, described, "metadata" in values)
        else:
            values["metadata"] = _merge_elements(old, described)
    return ItemDescription(
        values,
        given.get("files", ()),
        get_ibi("previous_edition", given.get("previous_edition")),
        get_ibi("translation_of", given.get("translation_of")),
        given.get("state", State.ORIGINAL.value),
    )


def get_ibi(field: str, value: str | Identified | None) -> str | None:
    """Return the identifier of an item.

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


def name_field(field: str) -> str:
    """Return the name of a field of a record as ItemRecord names the field.

    For example, ``metadata.dc.title[0]`` becomes ``title[0]``, and ``metadata.work.issued``
    becomes ``issued``.
    """
    field = field.removeprefix("metadata.work.")
    for name, element in ELEMENT_FIELDS.items():
        parsed = f"metadata.dc.{element}"
        if field.startswith(parsed):
            return field.replace(parsed, name, 1)
    return field


def _merge_elements(old: Any, given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return Dublin Core whose elements the fields title and creators replace.

    :returns: None if no element remains.
    """
    elements = {
        element: _check_values(name, given[name])
        for name, element in ELEMENT_FIELDS.items()
        if name in given
    }
    merged = {**_get_dublin_core(old), **elements}
    kept = {name: value for name, value in merged.items() if value}
    return {"dc": kept} if kept else None


def _get_dublin_core(metadata: Any) -> Mapping[str, Any]:
    """Return the Dublin Core elements of metadata, to which title and creators can be added.

    :raises StorageError: if the metadata are not Dublin Core.
    """
    if isinstance(metadata, DublinCoreMetadata):
        return metadata.elements
    if metadata is None:
        return {}
    if isinstance(metadata, Mapping) and isinstance(metadata.get("dc"), Mapping):
        elements: Mapping[str, Any] = metadata["dc"]
        return elements
    if isinstance(metadata, Mapping) and not metadata.keys() & {"ibi", "url"}:
        raise StorageError(
            f'metadata: {quoted(metadata)} has no key dc, work, ibi or url; write {{"dc": {{...}}}}'
        )
    raise StorageError(
        "metadata: an item whose metadata are elsewhere can't have the fields title and creators; "
        "omit these fields, or use Dublin Core"
    )


def _check_values(name: str, value: Any) -> Any:
    """Check the type of the field title or creators. An empty value removes the element."""
    if value is not None and not isinstance(value, (str, list, tuple)):
        raise StorageError(f"{name}: {quoted(value)} is not a text or a list of texts")
    return value
