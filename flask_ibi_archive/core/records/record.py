"""The record of an item as structs, and the view of an item.

The types of the fields parse the JSON object of a record; see :mod:`.values` and :mod:`.lines`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from functools import partial
from typing import Any, Literal

from msgspec import Struct, defstruct, field
from msgspec.structs import asdict

from flask_ibi_archive.core.identifiers.foreign import ForeignIdentifier, parse_foreign
from flask_ibi_archive.core.identifiers.grammar import Form
from flask_ibi_archive.core.protocol.catalogue import HIDDEN, is_closed, may_read, networks_allow
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records import values
from flask_ibi_archive.core.records.description import (
    Description,
    Text,
    derive_dublin_core,
    parse_description,
    parse_text,
)
from flask_ibi_archive.core.records.values import FieldError, Parsed, choose, wrong

# --- record ------------------------------------------------------------------------------------


#: The fifteen elements, in the order of the Dublin Core Metadata Element Set.
ELEMENTS = (
    "title", "creator", "subject", "description", "publisher", "contributor", "date", "type",
    "format", "identifier", "source", "language", "relation", "coverage", "rights",
)  # fmt: skip

#: The values of each Dublin Core element. The elements are in the order of the standard.
DublinCore = Mapping[str, tuple[Text, ...]]


Ibi = Parsed[str, values.parse_ibi]
Url = Parsed[str, values.parse_url]
Path = Parsed[str, values.parse_path]
Flag = Parsed[bool, values.parse_flag]
Formats = Parsed[Mapping[str, str], values.parse_formats]


class FileRecord(Struct, frozen=True):
    """A file of an item.

    :param path: the path of the file within the item.
    :param url: the URL of a file on another server, or None for a file of this Archive.
    :param source: the path on disk of a file that will be imported, otherwise None.
    :param sha256: the SHA-256 checksum of the file, or None if the checksum is unknown.
    """

    path: Path
    url: Url | None = None
    source: Parsed[str, values.parse_text] | None = None
    sha256: Parsed[str, values.parse_sha256] | None = None


def parse_file(field: str, value: Any) -> FileRecord:
    """Parse a file."""
    file = values.convert(field, value, FileRecord)
    if file.url is not None and file.source is not None:
        kinds = "a url (a file on another server) or a source (a file to import)"
        raise FieldError(field, f"a file may have {kinds}, but not both")
    return file


class MetadataItem(Struct, frozen=True):
    """Metadata that are another item with its own identifier."""

    ibi: Ibi


class MetadataAddress(Struct, frozen=True):
    """Metadata that are on another server and have no identifier."""

    url: Url
    formats: Formats = field(default_factory=dict)
    timestamp: Parsed[datetime | None, values.or_none(values.parse_timestamp)] = None


def parse_dublin_core(field: str, value: Any) -> DublinCore:
    """Parse a JSON object of Dublin Core elements.

    :param field: the name of the field, which messages contain.
    :returns: the values of each element. The elements are in the order of the standard.
    :raises FieldError: if an element is wrong.
    """
    for name, texts in value.items() if isinstance(value, dict) else ():
        if isinstance(texts, tuple):
            forms = '["a", "b"] or [("a", "en")]'
            reason = f"may mean two values, or one value with its language; write {forms}"
            raise wrong(values.join_names(field, name), texts, reason)
    elements = asdict(values.convert(field, value, _Elements))
    if not any(elements.values()):
        raise FieldError(field, "the object is empty; omit metadata instead")
    return {element: texts for element, texts in elements.items() if texts}


#: The JSON object of Dublin Core elements.
_Elements = defstruct(
    "_Elements", [(name, tuple[Parsed[Text, parse_text], ...], ()) for name in ELEMENTS]
)


class DublinCoreMetadata(Struct, frozen=True):
    """Metadata that this Archive stores.

    :param elements: the Dublin Core. If there is a description, the Dublin Core is made from it.
    :param work: the description in the model of DataCite; None if Dublin Core alone is given.
    """

    elements: DublinCore
    work: Description | None = None


def describe_work(description: Description) -> DublinCoreMetadata:
    """Return the metadata that state a description, with its Dublin Core."""
    return DublinCoreMetadata(derive_dublin_core(description), description)


def parse_metadata(field: str, value: Any) -> MetadataItem | DublinCoreMetadata | MetadataAddress:
    """Parse metadata of any kind."""
    if not isinstance(value, dict):
        raise wrong(field, value, 'is not an object such as {"dc": {"title": ["..."]}}')
    kinds = values.check_object(field, value, _METADATA_FIELDS).keys() & _METADATA_FIELDS[:4]
    if len(kinds) != 1:
        reason = "metadata must have exactly one of the fields ibi, dc, url and work"
        raise FieldError(field, reason)
    for extra in ("formats", "timestamp"):
        if extra in value and "url" not in value:
            reason = "the field is only allowed together with the field url"
            raise FieldError(values.join_names(field, extra), reason)
    if "ibi" in value:
        return values.convert(field, value, MetadataItem)
    if "url" in value:
        return values.convert(field, value, MetadataAddress)
    if "work" in value:
        return describe_work(parse_description(values.join_names(field, "work"), value["work"]))
    return DublinCoreMetadata(parse_dublin_core(values.join_names(field, "dc"), value["dc"]))


_METADATA_FIELDS = ("ibi", "dc", "work", "url", "formats", "timestamp")


class AccessRule(Struct, frozen=True):
    """A rule that limits which users may read the files of an item.

    :param networks: networks in CIDR notation. Users with an IP address in one of these networks
        may read the files.
    :param others: "metadata" if all other users may read the metadata, otherwise "none".
    """

    networks: tuple[Parsed[str, values.parse_network], ...]
    others: Parsed[str, choose(Literal["metadata", "none"])] = "metadata"


def parse_access(field: str, value: Any) -> AccessRule:
    """Parse an access rule, which has at least one network."""
    stated = values.check_object(field, value, AccessRule.__struct_fields__)
    if stated.get("networks", []) == []:
        reason = "the list must have at least one network, such as 150.163.0.0/16"
        raise FieldError(values.join_names(field, "networks"), reason)
    return values.convert(field, value, AccessRule)


class Tombstone(Struct, frozen=True):
    """The data about a removed item that the Archive keeps.

    :param reason: why the item was removed.
    :param citation: a text that cites the item. None: pages make the citation from the metadata.
    :param successor: the canonical IBI of the item that replaces the removed item. The new item may
        be in any Archive.
    :param original_archive: the service IBI of the Archive that had the Original when the item was
        removed. Only a former Copy or a transferred item has this value.
    :param discard_description: True: when the item is removed, its metadata are deleted. This
        value is not stored.
    """

    reason: Parsed[str, values.parse_text]
    citation: Parsed[str | None, values.or_none(values.parse_text)] = None
    successor: Parsed[str | None, values.or_none(values.parse_ibi)] = None
    original_archive: Parsed[str | None, values.or_none(values.parse_ibi)] = None
    discard_description: bool = False

    def __eq__(self, other: object) -> bool:
        """Return whether two tombstones are stored alike."""
        names = ("reason", "citation", "successor", "original_archive")
        return isinstance(other, Tombstone) and all(
            getattr(self, name) == getattr(other, name) for name in names
        )


def parse_tombstone(field: str, value: Any) -> Tombstone:
    """Parse a tombstone."""
    names = [name for name in Tombstone.__struct_fields__ if name != "discard_description"]
    if "reason" not in values.check_object(field, value, names):
        reason = "the field is missing; write why the item was removed"
        raise FieldError(values.join_names(field, "reason"), reason)
    return values.convert(field, value, Tombstone)


def _parse_translations(field: str, value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise wrong(field, value, 'is not an object such as {"pt": "<ibi>"}')
    translations = {}
    for language, ibi in sorted(value.items(), key=lambda pair: str(pair[0])):
        code = values.parse_language(field, language)
        translations[code] = values.parse_ibi(values.join_names(field, language), ibi)
    return translations


class Record(Struct, frozen=True):
    """The record of an item.

    All identifiers are canonical. If ``timestamp`` is None, the current time is used. If
    ``target_file`` is None, the first file is the target file. ``embargo`` is the first day (UTC)
    on which readers may read the files; None if there is no embargo. ``key`` says in the words of
    the host where the item comes from, and is not public. ``same_as`` contains the identifiers of
    the item in other systems, and the addresses at which it used to be. A host application that
    deposits an item may use similar types; :func:`.lines.format_record` converts
    them.
    """

    rep: Parsed[str, partial(values.parse_ibi, form=Form.REP)] | None = None
    ibip: Parsed[str, partial(values.parse_ibi, form=Form.IBIP)] | None = None
    aliases: tuple[Ibi, ...] = ()
    same_as: Parsed[tuple[str, ...], values.parse_same_as] = ()
    state: Parsed[str, choose(Literal["Original", "Copy", "Deleted"])] = State.ORIGINAL.value
    original_archive: Ibi | None = None
    timestamp: Parsed[datetime, values.parse_timestamp] | None = None
    content_type: Parsed[str, choose(Literal["Data", "Metadata"])] = "Data"
    language: Parsed[str, values.parse_language] | None = None
    transferable: Flag = True
    next_edition: Ibi | None = None
    translations: Parsed[Mapping[str, str], _parse_translations] = field(default_factory=dict)
    metadata: Parsed[MetadataItem | DublinCoreMetadata | MetadataAddress, parse_metadata] | None = (
        None
    )
    formats: Formats = field(default_factory=dict)
    files: tuple[Parsed[FileRecord, parse_file], ...] = ()
    target_file: Path | None = None
    list_files: Flag = True
    access: Parsed[AccessRule, parse_access] | None = None
    embargo: Parsed[date, values.parse_day] | None = None
    tombstone: Parsed[Tombstone, parse_tombstone] | None = None
    key: Parsed[str | None, values.or_none(values.parse_key)] = None

    @property
    def identifiers(self) -> tuple[str, ...]:
        """All identifiers of the item: the rep, the ibip, then the aliases."""
        forms = [form for form in (self.rep, self.ibip) if form]
        return (*forms, *self.aliases)

    @property
    def original_elsewhere(self) -> str | None:
        """The other Archive that has the Original of a Copy or of a tombstone, by its service IBI.

        None for an Original, and for a tombstone of an item that was removed here.
        """
        return (self.tombstone or self).original_archive

    @property
    def target_path(self) -> str | None:
        """The path of the target file, or None if the item has no files."""
        return self.target_file or (self.files[0].path if self.files else None)

    @property
    def is_hidden(self) -> bool:
        """Whether users who may not read the files must not see the description either."""
        return self.access is not None and self.access.others == HIDDEN

    @property
    def networks(self) -> tuple[str, ...] | None:
        """The networks whose users may read the files; None if there is no access rule."""
        return None if self.access is None else self.access.networks

    @property
    def has_references(self) -> bool:
        """Whether the record refers to other items."""
        stated = self.next_edition or self.translations
        return bool(stated) or isinstance(self.metadata, MetadataItem)


#: The names of the fields of the JSON object.
FIELDS = Record.__struct_fields__


# --- item view ---------------------------------------------------------------------------------


#: How another item is related to an item.
RelationKind = Literal["earlier_edition", "later_edition", "translation", "successor"]


class RelatedItem(Struct, frozen=True):
    """Another item that is related to an item.

    :param ibi: an identifier of the other item.
    :param rep: the repository name of the other item. None if the other item has no repository name
        or is not in this Archive.
    :param ibip: the IBIp of the other item. None if the other item has no IBIp or is not in this
        Archive.
    :param title: the title of the other item, or None if the title is unknown or not public.
    :param language: the language of the other item.
    :param is_here: True if the other item is an Original or a Copy in this Archive.
    :param is_removed: True if the other item was removed from this Archive.
    :param is_original: True if the item is a translation of the other item.
    """

    kind: RelationKind
    ibi: str
    rep: str | None = None
    ibip: str | None = None
    title: Text | None = None
    language: str | None = None
    is_here: bool = False
    is_removed: bool = False
    is_original: bool = False


class ItemView(Struct, frozen=True):
    """An item for the web pages and the command line.

    :param record: the record of the item. The ``source`` of each file is the path of the stored
        content, or None if no content is stored.
    :param is_service: True if the item is the service of the Archive.
    :param today: the current day (UTC), on which the embargo depends.
    :param described_by: the metadata that the metadata item of the item contains, or None.
    :param metadata_language: the language of the metadata item.
    :param related: the editions and translations of the item, and the item that replaces it.
    :param sizes: the sizes of the stored files in bytes, by path.
    :param id: the id of the item in the tables of the package, or None.
    :param head: an identifier of the first item of the group of translations, if it is another
        item. Unlike the items of ``related``, it may have no language.
    """

    record: Record
    is_service: bool
    today: date
    described_by: DublinCoreMetadata | None = None
    metadata_language: str | None = None
    related: tuple[RelatedItem, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    id: int | None = None
    head: str | None = None

    @property
    def rep(self) -> str | None:
        """The repository name of the item (the rep form of its IBI)."""
        return self.record.rep

    @property
    def ibip(self) -> str | None:
        """The IBIp of the item (the ibip form of its IBI)."""
        return self.record.ibip

    @property
    def ibi(self) -> str:
        """An identifier of the item: the IBIp if there is one, because it is the short form."""
        return self.record.ibip or self.record.identifiers[0]

    @property
    def same_as(self) -> tuple[ForeignIdentifier, ...]:
        """The identifiers of the item in other systems, and its former addresses."""
        return tuple(map(parse_foreign, self.record.same_as))

    @property
    def dublin_core(self) -> DublinCore:
        """The Dublin Core that describes the item; ``{}`` if the Archive has none."""
        return {} if self._stated is None else self._stated.elements

    @property
    def description(self) -> Description | None:
        """The description of the item; None if only Dublin Core describes the item."""
        return None if self._stated is None else self._stated.work

    @property
    def _stated(self) -> DublinCoreMetadata | None:
        """The metadata of the item, or of its metadata item."""
        own = self.record.metadata
        return own if isinstance(own, DublinCoreMetadata) else self.described_by

    @property
    def creators(self) -> list[str]:
        """The creators in the Dublin Core of the item."""
        return [text for text, _ in self.dublin_core.get("creator", ())]

    @property
    def embargo(self) -> date | None:
        """The first day (UTC) on which readers may read the files; None if today is not earlier."""
        return self.record.embargo if is_closed(self.record.embargo, self.today) else None

    @property
    def stated_title(self) -> Text | None:
        """The title in the Dublin Core of the item and the language of the title, or None."""
        return next(iter(self.dublin_core.get("title", ())), None)

    @property
    def title(self) -> str:
        """The title in the Dublin Core; otherwise the public target file; otherwise the IBI."""
        if self.stated_title is not None:
            return self.stated_title[0]
        open_file = self.record.target_path if self.is_open else None
        return open_file or self.record.identifiers[0]

    @property
    def original(self) -> str | None:
        """An identifier of the item of which the item is a translation, or None."""
        return next((other.ibi for other in self.related if other.is_original), None)

    def find_file(self, paths: tuple[str, ...]) -> FileRecord | None:
        """Return the file with the first of the paths that exists in the item.

        :returns: None if none of the paths exists in the item.
        """
        files = {file.path: file for file in self.record.files}
        return next((files[path] for path in paths if path in files), None)

    @property
    def is_open(self) -> bool:
        """Whether all users may read the files of the item today."""
        return self.record.access is None and self.embargo is None

    def is_inside(self, address: str) -> bool:
        """Return whether the networks of the item contain an IP address.

        True if the item has no networks, because the item is then open to all addresses.
        """
        return networks_allow(self.record.networks, address)

    def allows(self, address: str) -> bool:
        """Return whether a user with an IP address has access to the files of the item today."""
        return may_read(self.record.networks, self.record.embargo, address, self.today)

    @property
    def is_hidden(self) -> bool:
        """Whether users who may not read the files must not see the description either."""
        return self.record.is_hidden
