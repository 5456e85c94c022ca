"""The record of an item as structs, its JSON, and the view of an item.

The types of the fields parse the JSON object of a record; see :mod:`.values`. A line of an import
file or export file is this object: the fields of :class:`Record`, in their order, without those
that have their default value.

A host application may create a record or a description with similar types: tuples instead of lists,
a text instead of a list with one text, a pair of a text and its language, a date, the classes of a
description, and None or an empty value instead of a missing field of a description. The functions
``format_...`` convert these types, and copy other values unchanged. If such a value is wrong,
:func:`parse_record` refuses it later, with an error that names the field.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from enum import Enum
from functools import cache, partial
from typing import Any, Literal, get_origin

from msgspec import NODEFAULT, Struct, defstruct, field
from msgspec.structs import asdict, fields

from flask_ibi_archive.core.claim import MAX_NAMES, fold_name
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.identifiers.foreign import ForeignIdentifier, parse_foreign
from flask_ibi_archive.core.identifiers.grammar import Form
from flask_ibi_archive.core.protocol import catalogue_items
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records import description as model
from flask_ibi_archive.core.records import values
from flask_ibi_archive.core.records.rich_text import to_plain
from flask_ibi_archive.core.records.values import FieldError, IssuedDate, Parsed, choose, wrong
from flask_ibi_archive.errors import PeerProtocolError
from flask_ibi_archive.errors import translatable as _

# --- record ------------------------------------------------------------------------------------


#: The fifteen elements, in the order of the Dublin Core Metadata Element Set.
ELEMENTS = (
    "title", "creator", "subject", "description", "publisher", "contributor", "date", "type",
    "format", "identifier", "source", "language", "relation", "coverage", "rights",
)  # fmt: skip

#: The values of each Dublin Core element. The elements are in the order of the standard.
DublinCore = Mapping[str, tuple[model.Text, ...]]


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
    "_Elements", [(name, tuple[Parsed[model.Text, model.parse_text], ...], ()) for name in ELEMENTS]
)


class DublinCoreMetadata(Struct, frozen=True):
    """Metadata that this Archive stores.

    :param elements: the Dublin Core. It is derived from ``work``, unless ``work`` is None.
    :param work: the description in the model of DataCite; None if Dublin Core alone is given.
    """

    elements: DublinCore
    work: model.Description | None = None


def describe_work(description: model.Description) -> DublinCoreMetadata:
    """Return metadata that consist of a description and of the Dublin Core derived from it."""
    return DublinCoreMetadata(model.derive_dublin_core(description), description)


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
        return describe_work(
            model.parse_description(values.join_names(field, "work"), value["work"])
        )
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
        """Return whether two tombstones are equal, apart from ``discard_description``."""
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
    on which readers may read the files; None if there is no embargo. ``key`` is the name of the
    item in the host's own system, and is not public. ``same_as`` contains the identifiers of the
    item in other systems, and the addresses at which it used to be. A host application that
    deposits an item may use similar types; :func:`format_record` converts them.
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
        """The service IBI of the other Archive that has the Original, or None.

        Only a Copy, a removed Copy and an item that was moved away have such an Archive.
        """
        return (self.tombstone or self).original_archive

    @property
    def target_path(self) -> str | None:
        """The path of the target file, by default the first file; None if there are no files."""
        return self.target_file or (self.files[0].path if self.files else None)

    @property
    def is_hidden(self) -> bool:
        """True if the description is hidden from users who may not read the files."""
        return self.access is not None and self.access.others == catalogue_items.HIDDEN

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
    title: model.Text | None = None
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
    :param described_by: the metadata in the metadata item, if the metadata of the item are another
        item; or None.
    :param metadata_language: the language of the metadata item.
    :param related: the editions and translations of the item, and the item that replaces it.
    :param sizes: the sizes of the stored files in bytes, by path.
    :param id: the id of the item in the tables of the package, or None.
    :param head: an identifier of the first item of the group of translations, if this is another
        item. It is needed because ``related`` contains only translations that have a language.
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
        """The repository name of the item; None if it has none."""
        return self.record.rep

    @property
    def ibip(self) -> str | None:
        """The IBIp (or the legacy identifier) of the item; None if it has none."""
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
    def description(self) -> model.Description | None:
        """The description of the item; None if only Dublin Core describes the item."""
        return None if self._stated is None else self._stated.work

    @property
    def _stated(self) -> DublinCoreMetadata | None:
        """The metadata that this Archive stores for the item, or in the metadata item; or None."""
        own = self.record.metadata
        return own if isinstance(own, DublinCoreMetadata) else self.described_by

    @property
    def creators(self) -> list[str]:
        """The creators in the Dublin Core of the item."""
        return [text for text, _ in self.dublin_core.get("creator", ())]

    @property
    def embargo(self) -> date | None:
        """The first day (UTC) on which readers may read the files; None without an embargo."""
        return (
            self.record.embargo
            if catalogue_items.is_closed(self.record.embargo, self.today)
            else None
        )

    @property
    def stated_title(self) -> model.Text | None:
        """``(title, language)`` from the Dublin Core of the item; None if it has no title."""
        found = next(iter(self.dublin_core.get("title", ())), None)
        return found and (to_plain(found[0]), found[1])

    @property
    def title(self) -> str:
        """The title in the Dublin Core, else the path of a public target file, else the IBI."""
        if self.stated_title is not None:
            return self.stated_title[0]
        open_file = self.record.target_path if self.is_open else None
        return open_file or self.ibi

    @property
    def original(self) -> str | None:
        """An identifier of the item of which the item is a translation, or None."""
        return next((other.ibi for other in self.related if other.is_original), None)

    def find_file(self, paths: tuple[str, ...]) -> FileRecord | None:
        """Return the file at the first of the paths that exists in the item, or None."""
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
        return catalogue_items.networks_allow(self.record.networks, address)

    def allows(self, address: str) -> bool:
        """Return whether a user with an IP address has access to the files of the item today."""
        return catalogue_items.may_read(
            self.record.networks, self.record.embargo, address, self.today
        )

    @property
    def is_hidden(self) -> bool:
        """True if the description is hidden from users who may not read the files."""
        return self.record.is_hidden


# --- reading -------------------------------------------------------------------------------------


#: The largest depth of lists and objects in JSON. Records need less than ten.
MAX_DEPTH = 100
_TOO_DEEP = f"the JSON is nested too deeply; a depth of {MAX_DEPTH} is allowed"
#: Half of a surrogate pair, as a text in JSON states it.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def find_errors(line: str | bytes) -> list[FieldError]:
    """Return all errors of a line of JSON.

    Contradictions between fields are found only if each field alone is correct.
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
    """Yield the errors of an object: at most one for each field and for each member of a list."""
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
    """Call ``decode(*arguments)``, and convert the errors of the JSON decoder to FieldError.

    :returns: the result of ``decode``.
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
    """Check that a JSON value can be stored, and is not nested too deeply for recursion.

    :param field: the name of the field that contains the value; "" for a whole record.
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
    if record.aliases or record.same_as:
        for identifier in _find_repeated(own):
            yield FieldError("aliases", f"{identifier} is already an identifier of the item")
        yield from find_wrong_names(record)
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
    if record.formats and record.content_type != "Metadata":
        yield FieldError("formats", "only an item whose content_type is Metadata may have formats")
    paths = [file.path for file in record.files]
    for path in _find_repeated(paths):
        yield FieldError("files", _("the path {path} appears twice", path=values.quoted(path)))
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
    """Yield an error for each reason why a claim cannot contain all names of an item.

    Source: federation CL-1.
    """
    count = len(record.identifiers) + len(record.same_as)
    if count > MAX_NAMES:
        reason = f"an item has at most {MAX_NAMES} identifiers and aliases; this one has {count}"
        yield FieldError("same_as" if record.same_as else "aliases", reason)
    for number, alias in enumerate(record.same_as):
        try:
            fold_name(alias)
        except PeerProtocolError as error:
            yield FieldError(f"same_as[{number}]", str(error))


def _find_repeated(texts: Sequence[str]) -> list[str]:
    if len(set(texts)) == len(texts):
        return []
    return [text for text, times in Counter(texts).items() if times > 1]


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

    Parsing the JSON object gives an equal record.
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
    """Return the JSON object of a part of a description, without empty fields."""
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
    """Return a value of a description as JSON.

    An object in which only the main field is stated is written as the text of this field.
    """
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
    """Return ``(is_list, default, default as JSON)`` of each stored field, by its name."""
    listed = {}
    for info in fields(kind):
        default = info.default if info.default_factory is NODEFAULT else info.default_factory()
        is_list = get_origin(getattr(info.type, "kind", info.type)) is tuple
        if info.name != "discard_description":
            listed[info.name] = is_list, default, to_json(default)
    return listed


def format_fields(kind: type[Struct], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return some fields of a record as a JSON object, without fields that have the default value.

    :param kind: the class of the record, or of a part of a record.
    :param given: the fields by name; unknown names are ignored.
    """
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
    """Convert the value of a field of a record to JSON; return unknown types unchanged."""
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
