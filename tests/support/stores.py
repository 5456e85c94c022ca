"""Random stores of items, and a second, simple implementation of the URL list for comparison.

The slow :class:`MemoryCatalogue` contains import records: it follows editions one by one, and joins
the translations that the records name.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from ipaddress import ip_address, ip_network
from itertools import pairwise
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from flask_ibi_archive.core.identifiers.grammar import Form
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.catalogue_items import File, OwnMetadata, Scope
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.core.protocol.relations import (
    SHAPES,
    parse_relation_pattern,
    parse_verb_list,
)
from flask_ibi_archive.core.protocol.url_list import (
    ArchiveFacts,
    ArchiveUrls,
)
from flask_ibi_archive.core.records.record import (
    DublinCoreMetadata,
    MetadataAddress,
    MetadataItem,
    Record,
    parse_record,
)

Json = dict[str, Any]

# --- the reference -------------------------------------------------------------------------------


@dataclass(eq=False)
class MemoryItem:
    """An item with its record; without a record, an item that other items refer to."""

    world: MemoryCatalogue
    key: int
    rep: str | None
    ibip: str | None
    record: Record | None
    scope: Scope = field(default_factory=Scope)
    group: set[MemoryItem] = field(default_factory=set)
    language: str | None = None
    is_service: bool = False

    state = property(lambda self: self.record and self.record.state)
    content_type = property(lambda self: self.record.content_type if self.record else "Data")
    timestamp = property(lambda self: self.record and self.record.timestamp)
    formats = property(lambda self: self.record.formats if self.record else {})

    @property
    def shows_metadata(self) -> bool:
        rule = self.record and self.record.access
        return not (rule and rule.others == "none")

    def allows(self, address: str) -> bool:
        if self.record and self.record.embargo and self.record.embargo > date(2020, 1, 1):
            return False
        rule = self.record and self.record.access
        return rule is None or any(
            ip_address(address) in ip_network(network) for network in rule.networks
        )

    def file(self) -> File | None:
        if not self.world.scope.paths:
            return self.target()
        for path in self.world.scope.paths:
            for file in self.record.files if self.record else ():
                if file.path == path:
                    return File(file.path, file.url)
        return None

    def target(self) -> File | None:
        if self.record is None or not self.record.files:
            return None
        wanted = self.record.target_file or self.record.files[0].path
        return next(File(file.path, file.url) for file in self.record.files if file.path == wanted)

    def metadata(self) -> MemoryItem | OwnMetadata | None:
        found = self.record and self.record.metadata
        if isinstance(found, MetadataItem):
            return self.world.node(found.ibi).as_target()
        if isinstance(found, MetadataAddress):
            return OwnMetadata(found.url, found.formats, found.timestamp)
        if isinstance(found, DublinCoreMetadata):
            return OwnMetadata(None, {"oai_dc": None})
        return None

    def next_edition(self) -> MemoryItem | None:
        if self.record is None or self.record.next_edition is None:
            return None
        return self.world.node(self.record.next_edition)

    def as_target(self) -> MemoryItem:
        """Return the item as the target of a relation; only the IBI of a transferred item."""
        left = self.record and self.record.tombstone
        if not left or left.original_archive is None:
            return self
        return MemoryItem(self.world, 0, self.rep, self.ibip, None, language=self.language)

    def last_edition(self) -> MemoryItem | None:
        last: MemoryItem = self
        current: MemoryItem | None = self.next_edition()
        if current is not None and not self.world.scope.follow_editions:
            return None
        while current is not None:
            if current.as_target().state != "Deleted":
                last = current.as_target()
            current = current.next_edition()
        return None if last.state is None else last

    def translations(self) -> Mapping[str, MemoryItem]:
        return {item.language: item.as_target() for item in self.group if item.language is not None}


class MemoryCatalogue:
    """A catalogue over import records."""

    def __init__(self, records: Iterable[Json]) -> None:
        self.scope = Scope()
        self._nodes: dict[str, MemoryItem] = {}
        self.items: list[MemoryItem] = []
        for record in map(parse_record, records):
            item = MemoryItem(self, len(self.items), record.rep, record.ibip, record)
            item.language = record.language
            item.group = {item}
            self.items.append(item)
            self._nodes.update(dict.fromkeys(record.identifiers, item))
        for item in self.items:
            assert item.record is not None
            for language, ibi in item.record.translations.items():
                member = self.node(ibi)
                assert member.language in (None, language)
                member.language = language
                union = item.group | member.group
                for one in union:
                    one.group = union

    def add_service(self, ibi: str, timestamp: str) -> None:
        """Add the service item of the Archive."""
        record = parse_record({"rep": ibi, "timestamp": timestamp, "transferable": False})
        item = MemoryItem(self, -1, record.rep, None, record, is_service=True)
        item.group = {item}
        self._nodes[ibi] = item

    def node(self, ibi: str) -> MemoryItem:
        """Return the item of any Archive with an identifier; create it if necessary."""
        if ibi not in self._nodes:
            is_rep = parse_identifier(ibi).form is Form.REP
            item = MemoryItem(self, 0, ibi if is_rep else None, None if is_rep else ibi, None)
            item.group = {item}
            self._nodes[ibi] = item
        return self._nodes[ibi]

    def find(self, ibi: str, scope: Scope) -> MemoryItem | None:
        """Return the item of the Archive with an identifier, or None."""
        self.scope = scope
        found = self._nodes.get(ibi)
        return found if found is not None and found.record is not None else None


@dataclass(frozen=True)
class Place:
    """The target of a relation: an item or its metadata, in a format or in free form."""

    item: MemoryItem
    own: OwnMetadata | None = None
    format: str | None = None
    described: MemoryItem | None = None

    @property
    def has_format(self) -> bool:
        """Whether the target has the requested format."""
        return self.format is None or self.own is not None or carries(self.item, self.format)


def carries(item: MemoryItem, format: str) -> bool:
    if item.state is None:
        return format == "oai_dc"
    is_written = item.shows_metadata and is_dublin_core(item.metadata()) and format == "oai_dc"
    return format in item.formats or is_written


def is_dublin_core(metadata: MemoryItem | OwnMetadata | None) -> bool:
    """Return whether metadata are Dublin Core in this Archive, which writes them itself."""
    return isinstance(metadata, OwnMetadata) and metadata.url is None


def step(place: Place, letter: str, parameter: str | None) -> Place | None:
    """Return the target of one step, or None."""
    item = place.item
    if item.state is None:
        return None
    target: MemoryItem | None
    if letter == "u":
        target = item.last_edition()
        return None if target is None or target.state == "Deleted" else Place(target)
    if letter == "t" and parameter is None:
        return place if place.own is not None or item.language is None else None
    if letter == "t":
        if place.own is not None:
            return None
        if parameter == item.language:
            return place
        target = item.translations().get(parameter)
        if target is None or target.state == "Deleted":
            return None
        return Place(target, None, place.format)
    metadata = item.metadata()
    if item.content_type == "Metadata" and (metadata is None or is_dublin_core(metadata)):
        metadata = item
    if metadata is None:
        return None
    if isinstance(metadata, OwnMetadata):
        known = parameter is None or parameter in metadata.formats
        return Place(item, metadata, parameter) if known else None
    if metadata.state == "Deleted":
        return None
    return Place(metadata, None, parameter, item if parameter else None)


def see(
    place: Place, request: UrlRequest, base: str
) -> tuple[str, str, str, datetime | None] | None:
    """Return url, contenttype, state and timestamp of a relation's target for one user."""
    item, user = place.item, request.client_addresses[0]
    if item.state is None:
        return None
    home = f"{base}/col/{item.rep or item.ibip}"
    path = request.filepath[1:] if request.filepath[:1] == "/" else request.filepath
    plain = not path and not request.verbs.file_list
    choice = f"?choice={place.format}" if place.format else ""
    if place.own is not None:
        if not plain:
            return None
        url = place.own.formats[place.format] if place.format else place.own.url
        if url is None and not item.shows_metadata and not item.allows(user):
            return None
        moment = place.own.timestamp or item.timestamp
        return url or f"{home}/metadata{choice}", "Metadata", item.state, moment
    if place.format is not None and place.format not in item.formats:
        home = f"{base}/col/{(place.described or item).rep or (place.described or item).ibip}"
        url = f"{home}/metadata{choice}"
        return (url, "Metadata", item.state, item.timestamp) if plain else None
    if place.format is not None:
        url = item.formats[place.format] if plain else None
    elif request.verbs.file_list:
        url = f"{home}/files"
    elif path:
        url = address_of(item, find_path(item, path), base)
    else:
        url = address_of(item, item.target(), base) or f"{home}/"
        if item.is_service:
            url = f"{base}/{item.rep}"
    if url is None:
        return None
    if item.allows(user):
        return url, item.content_type, item.state, item.timestamp
    instead = item.metadata()
    if not item.shows_metadata or instead is None:
        return None
    if isinstance(instead, OwnMetadata):
        return instead.url or f"{home}/metadata", "Metadata", item.state, item.timestamp
    if instead.state in (None, "Deleted") or not instead.allows(user):
        return None
    url = address_of(instead, instead.target(), base)
    home = f"{base}/col/{instead.rep or instead.ibip}"
    return url or f"{home}/", "Metadata", item.state, item.timestamp


def find_path(item: MemoryItem, path: str) -> File | None:
    """Return the file at a path; if no file has the path, decode the path once more."""
    files = (
        {file.path: File(file.path, file.url) for file in item.record.files} if item.record else {}
    )
    raw = path.encode("utf-8", "surrogateescape")
    for candidate in (raw, unquote_to_bytes(raw)):
        try:
            text = candidate.decode("utf-8")
        except UnicodeDecodeError:
            text = candidate.decode("iso-8859-1")
        if text in files:
            return files[text]
    return None


def address_of(item: MemoryItem, file: File | None, base: str) -> str | None:
    if file is None:
        return None
    return file.url or f"{base}/col/{item.rep or item.ibip}/doc/{quote(file.path, safe='/')}"


# --- stores made at random -----------------------------------------------------------------------

LANGUAGES = ("en", "pt", "pt-BR", "es", "fr", "de", "ja")
FORMATS = ("oai_dc", "marc", "BibTeX")
PATHS = (
    "a.txt", "a b.txt", "a%20b.txt", "@relatorio.pdf", "a+b=c.txt", "Relatório.pdf",
    "dados/tabela 1.csv", "100%.txt", "日本.html",
)  # fmt: skip
NETWORKS = (["150.163.0.0/16"], ["10.0.0.0/8", "2001:db8::/32"], ["150.163.34.243/32"])
USERS = ("150.163.34.243", "150.163.1.1", "10.1.2.3", "2001:db8::7", "192.0.2.1", "2001:db9::1")
GRAPHEMES = "23456789ABCDEFGHJKLMNPQRSTU"
REMOTE_SERVICE = "dpi.inpe.br/banon/1999/01.09.22.14"


def rep_of(number: int, host: str = "sid.inpe.br/mtc-m18@80") -> str:
    """Return the repository name of a number."""
    minutes, second = divmod(number, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    return f"{host}/2009/07.{day + 1:02}.{hour:02}.{minute:02}.{second:02}"


def ibip_of(number: int, prefix: str = "8JMKD3MGP8W") -> str:
    """Return the IBIp of a number."""
    code = ""
    while number:
        number, digit = divmod(number, len(GRAPHEMES))
        code = GRAPHEMES[digit] + code
    return f"{prefix}/3{code.rjust(4, '2')}"


def moment_of(number: int) -> str:
    """Return a time that depends on a number."""
    return f"2010-{number % 12 + 1:02}-{number % 28 + 1:02}T{number % 24:02}:{number % 60:02}:07Z"


class StoreMaker:
    """Creates random import records without contradictions.

    :param seed: the same seed creates the same records.
    :param names: the same number creates items with the same identifiers.
    """

    def __init__(self, seed: int, size: int, names: int = 0) -> None:
        self.random = random.Random(seed)
        self._names = random.Random(names)
        self.records = [self._item(number) for number in range(size)]
        self._remote = 0
        self._chain()
        self._translate()
        for record in self.records:
            if record.get("state") != "Deleted" or self._chance(0.3):
                self._describe(record)

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def _item(self, number: int) -> Json:
        record: Json = {"timestamp": moment_of(number)}
        forms = self._names.choice(("both", "both", "rep", "ibip"))
        if forms != "ibip":
            record["rep"] = rep_of(number)
        if forms != "rep":
            record["ibip"] = ibip_of(number)
        kinds = (
            rep_of(number, "inpe.br/old"),
            ibip_of(number, "8JMKD3MGPCW"),
            f"83LX3pFwXQZeBBx/h{number}K",
        )
        aliases = [text for text in kinds if self._names.random() < 0.15]
        if aliases:
            record["aliases"] = self._names.sample(aliases, len(aliases))
        if number % 5 == 2:
            record["same_as"] = [f"hdl:20.500.12345/{number}", f"http://old.example/?id={number}"]
        state = self.random.choices(("Original", "Copy", "Deleted"), (80, 8, 12))[0]
        if state != "Original" or self._chance(0.1):
            record["state"] = state
        if state == "Copy":
            record["original_archive"] = REMOTE_SERVICE
        if state == "Deleted" and self._chance(0.5):
            record["tombstone"] = {"reason": "moved", "original_archive": REMOTE_SERVICE}
        if self._chance(0.3):
            record["content_type"] = self.random.choice(("Metadata", "Metadata", "Data"))
        if self._chance(0.1):
            record["transferable"] = False
        if self._chance(0.1):
            record["list_files"] = False
        return record

    def _reference(self, record: Json) -> str:
        """Return one of the identifiers of an item, in any letter case."""
        return self.in_any_case(self.random.choice(identifiers_of(record)))

    def in_any_case(self, text: str) -> str:
        if parse_identifier(text).form is Form.LEGACY:
            return text
        return self.random.choice((text, text, text.upper(), text.lower(), text.title()))

    def _elsewhere(self) -> str:
        """Return an identifier of an item in another Archive."""
        self._remote += 1
        number = self._remote
        rep, ibip = rep_of(number, "elsewhere.org/there"), ibip_of(number, "8JMKD3MGP3W")
        return str(self.random.choice((rep, ibip, f"abcZfar/{number}")))

    def _chain(self) -> None:
        """Create chains of editions; the last edition of some chains is in another Archive."""
        waiting = self.random.sample(self.records, len(self.records))
        while waiting:
            length = self.random.choice((1, 1, 1, 2, 2, 3, 4, 7))
            chain, waiting = waiting[:length], waiting[length:]
            for earlier, later in pairwise(chain):
                earlier["next_edition"] = self._reference(later)
            if self._chance(0.1):
                chain[-1]["next_edition"] = self._elsewhere()

    def _translate(self) -> None:
        """Create groups of translations; records state the members in different ways."""
        waiting = self.random.sample(self.records, len(self.records))
        while waiting:
            size = self.random.choice((1, 1, 2, 3, 4, 5))
            group, waiting = waiting[:size], waiting[size:]
            languages = self.random.sample(LANGUAGES, len(LANGUAGES))
            if len(group) == 1:
                if self._chance(0.5):
                    group[0]["language"] = languages[0]
                continue
            head, *others = group
            if self._chance(0.7):
                head["language"] = languages[-1]
            members = []
            for language, other in zip(languages, others, strict=False):
                if self._chance(0.6):
                    other["language"] = language
                members.append((language, self._reference(other), other))
            translations = {language: text for language, text, _ in members}
            if self._chance(0.15):
                translations[languages[5]] = self._elsewhere()
            way = self.random.choice(("head", "head", "chain", "twice", "each"))
            if way == "chain":
                speaker = head
                for language, text, other in members:
                    speaker["translations"] = {language: text}
                    speaker = other
            else:
                head["translations"] = translations
            if way == "twice":
                language, text, other = members[-1]
                other["translations"] = {**translations, language: self._reference(other)}
                if "language" in head:
                    other["translations"][head["language"]] = self._reference(head)
            if way == "each" and len(members) > 1:
                # The last item states no language; its own record names the group.
                del translations[members[-1][0]]
                others[-1].pop("language", None)
                others[-1]["translations"] = dict([members[0][:2]])

    def _describe(self, record: Json) -> None:
        """Add random metadata, formats, files and an access rule to a record."""
        is_metadata = record.get("content_type") == "Metadata"
        kind = self.random.choice(
            ("none", "none", "none", "item", "dc")
            if is_metadata
            else ("none", "item", "item", "dc", "url")
        )
        if kind == "item":
            described = [
                other
                for other in self.records
                if other is not record and other.get("content_type") == "Metadata"
            ]
            other = self._chance(0.85) and described and self.random.choice(described)
            record["metadata"] = {"ibi": self._reference(other) if other else self._elsewhere()}
        elif kind == "dc":
            titles = ["Título", {"value": "Title", "lang": "en"}]
            record["metadata"] = {"dc": {"title": titles, "creator": ["A. Author"]}}
        elif kind == "url":
            record["metadata"] = {"url": f"https://meta.example/{self.random.randrange(1000)}"}
            if self._chance(0.5):
                record["metadata"]["formats"] = self._formats()
            if self._chance(0.5):
                record["metadata"]["timestamp"] = moment_of(self.random.randrange(1000))
        if is_metadata and self._chance(0.7):
            record["formats"] = self._formats()
        paths = self.random.sample(PATHS, self.random.choice((0, 1, 1, 2, 4, 6)))
        if paths:
            record["files"] = [self._file(path) for path in paths]
            if self._chance(0.3):
                record["target_file"] = self.random.choice(paths)
        if self._chance(0.25):
            record["access"] = {"networks": list(self.random.choice(NETWORKS))}
            if self._chance(0.6):
                record["access"]["others"] = self.random.choice(("metadata", "none"))
        if self._chance(0.15) and record.get("state") != "Deleted":
            record["embargo"] = self.random.choice(("2001-01-01", "9999-12-31"))

    def _formats(self) -> Json:
        names = self.random.sample(FORMATS, self.random.choice((1, 1, 2)))
        return {name: f"https://meta.example/{name}?id=1&b=2" for name in names}

    def _file(self, path: str) -> Json:
        file: Json = {"path": path}
        if self._chance(0.2):
            file["url"] = f"https://files.example/{quote(path)}?x=1"
        if self._chance(0.2):
            file["sha256"] = f"{self.random.getrandbits(256):064x}"
        return file


def identifiers_of(record: Json) -> list[str]:
    """Return all identifiers of a record."""
    forms = [record[form] for form in ("rep", "ibip") if form in record]
    return forms + record.get("aliases", [])


def make_store(seed: int, size: int) -> list[Json]:
    """Return random import records; the same seed returns the same records."""
    return StoreMaker(seed, size).records


def make_request(random_: random.Random, ibi: str) -> UrlRequest:
    """Return a random request for an item."""
    steps = []
    for letter in random_.choice(sorted(SHAPES)):
        if letter == "u":
            steps.append("GetLastEdition")
            continue
        verb, choices = {
            "t": ("GetTranslation", LANGUAGES),
            "m": ("GetMetadata", (*FORMATS[:2], "unknown", "oai_dc")),
        }[letter]
        steps.append(verb if random_.random() < 0.5 else f"{verb}({random_.choice(choices)})")
    if random_.random() < 0.15:
        steps.insert(random_.randrange(len(steps) + 1), "GetFileList")
    path = random_.choice(PATHS)
    written = path.encode("iso-8859-1", "replace").decode("utf-8", "surrogateescape")
    wanted = random_.choice((
        "", "", "", path, "/" + path, quote(path), "/" + quote(path), quote(quote(path)), written,
        quote(path, encoding="iso-8859-1", errors="replace"), "missing.txt", "/", "nul\0.txt",
    ))  # fmt: skip
    addresses = tuple(random_.sample(USERS, random_.choice((1, 1, 2))))
    return UrlRequest(parse_identifier(ibi), addresses, wanted, parse_verb_list(" ".join(steps)))


#: Subsets of the relations that an Archive may answer.
RELATIONS = (
    None, None, (), ("",), ("", ".lastedition", ".metadata", ".metadata(oai_dc)"),
    (".translation(*)", ".translation(*).lastedition", ".lastedition.translation(pt)"),
    (".metadata(*)", ".metadata.translation", ".lastedition.metadata(marc)",
     ".metadata(*).translation(*)"),
)  # fmt: skip


def make_facts(
    address: str, service: str, patterns: tuple[str, ...] | None, **options: Any
) -> ArchiveFacts:
    """Return the settings and other data of an Archive for its URL lists."""
    relations = None if patterns is None else tuple(map(parse_relation_pattern, patterns))
    urls = ArchiveUrls(f"http://{address}")
    return ArchiveFacts(address, ("rep", service), urls, relations=relations, **options)
