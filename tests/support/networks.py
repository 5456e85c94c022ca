"""Stores that are split over several Archives, and a reference resolution over the whole store.

:func:`split` puts each record into one of the Archives, and a copy of some into another.
:func:`find_urls` resolves over the whole store, step by step, directly from the specification.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.catalogue_items import Scope
from flask_ibi_archive.core.protocol.languages import LanguageRange, find_language
from flask_ibi_archive.core.protocol.messages import UrlRequest, format_request, parse_request
from flask_ibi_archive.core.protocol.pairs import decode_query_string, encode_word
from flask_ibi_archive.core.protocol.relations import SHAPES, parse_verb_list
from flask_ibi_archive.core.protocol.url_list import UrlPair
from flask_ibi_archive.core.resolution.answer import Question
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl

from .stores import (
    LANGUAGES,
    Json,
    MemoryCatalogue,
    MemoryItem,
    Place,
    StoreMaker,
    identifiers_of,
    is_dublin_core,
    rep_of,
    see,
    step,
)

Steps = tuple[tuple[str, "str | None"], ...]

VERBS = {
    "u": ("GetLastEdition",),
    "t": ("GetTranslation", "GetTranslation", "GetTranslation(pt)", "GetTranslation(pt-BR)"),
    "m": ("GetMetadata", "GetMetadata(oai_dc)"),
}
PREFERENCES = (
    None,
    "pt",
    "pt-BR",
    "en",
    "fr;q=0.5, pt-BR, en;q=0.1",
    "pt-PT, *;q=0.5",
    "en, pt;q=0",
    "ja,de,fr,es",
)
FILES = ("",) * 6 + ("/a.txt", "/a%20b.txt", "/dados/tabela%201.csv", "/missing")

#: The address of an Archive with all items.
WHOLE = "whole.example"
USER = "192.0.2.1"
KEY = "1234567890-0123456789"


def make_wanted(random_: random.Random, records: list[Json]) -> PersistentUrl:
    """Return a persistent URL with a random modifier, path and required status."""
    verbs = [random_.choice(VERBS[letter]) for letter in random_.choice(sorted(SHAPES))]
    if random_.random() < 0.1:
        verbs.append("GetFileList")
    return PersistentUrl(
        parse_identifier(random_.choice(identifiers_of(random_.choice(records)))),
        parse_verb_list(" ".join(verbs)),
        random_.choice(FILES),
        random_.random() < 0.25,
    )


# --- one Archive with the whole store ------------------------------------------------------------


def find_urls(
    world: MemoryCatalogue,
    wanted: PersistentUrl,
    ranges: Sequence[LanguageRange],
    user: str = USER,
) -> set[str | None]:
    """Return the URL to which a persistent URL leads, without the address; None if there is none.

    A format that an Archive writes from a metadata item has two URLs: the page of the described
    item, and the page of the metadata item, which the Archive of the metadata item knows.
    """
    request = on_the_wire(Question(wanted.ibi, wanted.verbs, wanted.path), user)
    found = world.find(wanted.ibi.text, Scope())
    if found is None or found.state == "Deleted":
        return {None}
    steps = tuple((one.letter, one.parameter) for one in wanted.verbs.relation.steps)
    place = arrive(Place(found), steps, ranges, request)
    if place is None or (wanted.requires_original and place.item.state != "Original"):
        return {None}
    pages = (place, replace(place, described=None))
    seen = [see(page, request, f"http://{WHOLE}") for page in pages]
    return {None if one is None else without_address(one[0]) for one in seen}


def arrive(
    place: Place, steps: Steps, ranges: Sequence[LanguageRange], request: UrlRequest
) -> Place | None:
    """Return the target of some steps, or None if no pair of a URL list can contain the target."""
    if place.item.state is None:
        return None
    if not steps:
        if not place.has_format:
            return None
        is_visible = place.own is None or see(place, request, "") is not None
        return place if is_visible else None
    (letter, parameter), rest = steps[0], steps[1:]

    def follow(parameter: str | None) -> Place | None:
        target = step(place, letter, parameter)
        return target and arrive(target, rest, ranges, request)

    if letter != "t":
        return follow(parameter)
    if parameter is not None:
        found = follow(parameter)
        return follow(parameter[:2]) if found is None and "-" in parameter else found
    offered = {language: end for language in LANGUAGES if (end := follow(language)) is not None}
    language = find_language(ranges, offered)
    return arrive(place, rest, ranges, request) if language is None else offered[language]


def on_the_wire(question: Question, user: str = USER) -> UrlRequest:
    """Return the request for a question as an Archive parses it from a query."""
    request = parse_request(decode_query_string(format_request(question.create_request((user,)))))
    assert isinstance(request, UrlRequest)
    return request


def without_address(url: str | None) -> str | None:
    """Return a URL with the same host for all Archives."""
    return url and re.sub(r"^http://(whole|archive[0-9])\.example", "http://here", url)


def as_read(pairs: Iterable[UrlPair]) -> dict[str, tuple[str, ...]]:
    """Return pairs as the resolver parses them from a response."""
    return {
        name: tuple(map(encode_word, (value,) if isinstance(value, str) else value))
        for name, value in pairs
    }


# --- splitting -----------------------------------------------------------------------------------


@dataclass
class Network:
    """A store, and the parts into which it was split.

    :param whole: the records of the store; each record has all relations of its item.
    :param parts: the records of each Archive.
    :param follows: for each part, whether its Archive follows editions.
    """

    whole: list[Json]
    parts: list[list[Json]]
    follows: list[bool]


def service_of(number: int) -> str:
    """Return the IBI of the service of an Archive."""
    return rep_of(80000 + number, "services.example/of")


def make_records(seed: int, size: int) -> list[Json]:
    """Return random records without relations that URL lists cannot express between Archives."""
    maker = StoreMaker(seed, size)
    for record in maker.records:
        record.pop("tombstone", None)
        if record.get("state") == "Deleted" and maker.random.random() < 0.6:
            del record["state"]
        if "next_edition" not in record and maker.random.random() < 0.2:  # a last edition
            record["state"] = "Deleted"
            record.pop("original_archive", None)
            record.pop("embargo", None)
    for _ in range(3):  # the change of a record may affect other records
        _keep_within_limits(maker.records)
    return maker.records


def split(whole: list[Json], random_: random.Random, count: int = 3) -> Network:
    """Split a store into several Archives; each record must have all relations of its item."""
    network = Network(
        whole, [[] for _ in range(count)], [random_.random() < 0.7 for _ in range(count)]
    )
    world = MemoryCatalogue(whole)
    chains = _find_chains(world)
    for record, chain in zip(whole, chains, strict=True):
        if any(map(_has_later_edition, (world.items[member] for member in chain))):
            # Limit: the URL list of a deleted edition does not contain the next edition. So all
            # editions of the chain must be in one Archive, which follows editions.
            home = min(chain) % count
            network.follows[home] = True
            network.parts[home].append(record)
            continue
        home = random_.randrange(count)
        network.parts[home].append(record)
        if record.get("state", "Original") == "Original" and random_.random() < 0.4:
            there = {"original_archive": service_of(home)}
            second = {**record, "state": "Copy", **there}
            if random_.random() < 0.5:
                second = {**record, "state": "Deleted", "tombstone": {"reason": "moved", **there}}
                second.pop("embargo", None)
            network.parts[(home + 1) % count].append(second)
    return network


def _has_later_edition(item: MemoryItem) -> bool:
    """Return whether an item is a deleted edition, and a later edition exists."""
    following = item.next_edition() if item.state == "Deleted" else None
    while following is not None and following.state == "Deleted":
        following = following.next_edition()
    return following is not None


def _keep_within_limits(records: list[Json]) -> None:
    world = MemoryCatalogue(records)
    for record in records:
        item = world.node(identifiers_of(record)[0])
        if item.state == "Deleted":
            # Limit: the URL list of a deleted edition does not contain the next edition. So the
            # last edition of its chain must not be in an Archive that does not exist.
            last = item
            while (following := last.next_edition()) is not None and following.record is not None:
                last = following
            records[last.key].pop("next_edition", None)
        about = item.metadata()
        if item.content_type == "Metadata" and (about is None or is_dublin_core(about)):
            about = item
        if not isinstance(about, MemoryItem):
            continue
        # Limit: an Archive shows metadata in place of a restricted item only if it has both.
        record.pop("embargo", None)
        if "access" in record:
            record["access"]["others"] = "none"
        for member in about.group:
            # Limit: the verb for a format of metadata in another Archive is GetMetadata. If that
            # item is data or has metadata itself, the verb leads to other metadata.
            if member.record is not None:
                records[member.key]["content_type"] = "Metadata"
                if not is_dublin_core(member.metadata()):
                    records[member.key].pop("metadata", None)


def state_everything(records: list[Json]) -> list[Json]:
    """Return the records with all translations of each item.

    In an export, only one record of a group of translations contains them.
    """
    world = MemoryCatalogue(records)
    whole = []
    for record, item in zip(records, world.items, strict=True):
        # the order of a set of objects is another one in each process
        members = sorted(
            (member for member in item.group if member.language is not None),
            key=lambda member: str(member.language),
        )
        stated = {str(one.language): str(one.rep or one.ibip) for one in members if one is not item}
        language = {"language": item.language} if item.language else {}
        whole.append({**record, **language, "translations": stated})
    return whole


def _find_chains(world: MemoryCatalogue) -> list[set[int]]:
    """Return, for each record, the numbers of all editions of its chain."""
    chains = [{number} for number in range(len(world.items))]
    for item in world.items:
        following = item.next_edition()
        if following is not None and following.record is not None:
            union = chains[item.key] | chains[following.key]
            for member in union:
                chains[member] = union
    return chains
