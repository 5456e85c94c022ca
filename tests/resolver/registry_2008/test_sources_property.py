"""Registered documents and Archives together are resolved like one store with all data.

:class:`OneStore` is the one store: a plain list of facts about each item. The facts of the Archive
come first, then those of the document's holder, then those of the copies. It searches depth first,
and is written from the specification alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from support.document_registries import Entry, Place, documents_of, store
from support.registries import resolver_database
from support.resolving import ORIGINAL, Network
from support.stores import Json, MemoryCatalogue, make_facts, rep_of

from flask_ibi_archive.core.protocol.languages import find_language, parse_accept_language
from flask_ibi_archive.core.protocol.messages import UrlRequest, build_response
from flask_ibi_archive.core.protocol.pairs import Pair, parse_pairs
from flask_ibi_archive.core.protocol.relations import SHAPES
from flask_ibi_archive.core.protocol.url_list import answer_url_request
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.server.database.database import Database

ITEMS = [rep_of(number, "a.br/all") for number in range(5)]
SIGNS = {
    "u": ("!",),
    "t": ("+", "+", "+", "+(pt)", "+(pt-BR)"),
    "m": (":", ":", ":", ":(oai_dc)", ":(oai_dc)", ":(marc)"),
}
LANGUAGES = (None, "en", "pt", "pt-BR", "de, pt;q=0.5")
#: The formats and languages of metadata in the registry.
KINDS = [(format, language) for format in (None, "oai_dc") for language in LANGUAGES[:4]]
SUSPECTS = "SUSPECTS"

Steps = tuple[str, ...]
Metadata = Sequence[tuple[str, "str | None", "str | None"]]


@dataclass
class Fact:
    """What one source says about an item.

    :param successor: the identifier of the next edition, "" for none; a URL if no item has it.
    :param archive: the number of the Archive that has the item.
    """

    url: str | None
    state: str
    successor: str
    metadata: Metadata = ()
    files: Mapping[str, str] = field(default_factory=dict)
    archive: int | None = None


@dataclass
class World:
    """The records of each Archive, the documents of the registry, and all facts about each item."""

    archives: list[list[Json]]
    entries: dict[str, Entry]
    of_archives: dict[str, Fact]
    registered: dict[str, list[Fact]]


def make_world(random_: random.Random) -> World:
    """Return a random world. Later editions have higher numbers."""
    world = World([[], []], {}, {}, {})
    for number, ibi in enumerate(ITEMS):
        if random_.random() < 0.5:
            _add_record(world, random_, number, ibi)
        if random_.random() < 0.7:
            world.entries[ibi] = _make_entry(random_, number)
    _collect_registered(world)
    return world


def _choose_later(random_: random.Random, number: int) -> str | None:
    later = [*ITEMS[number + 1 :], rep_of(99)]
    return random_.choice(later) if random_.random() < 0.4 else None


def _add_record(world: World, random_: random.Random, number: int, ibi: str) -> None:
    later = _choose_later(random_, number)
    state = random_.choice(("Original", "Original", "Copy"))
    record: Json = {"rep": ibi, "files": [{"path": "a.txt", "url": f"http://archive.br/{number}"}]}
    if state == "Copy":
        record |= {"state": state, "original_archive": rep_of(98)}
    if later:
        record["next_edition"] = later
    metadata: list[tuple[str, str | None, str | None]] = []
    if random_.random() < 0.5:
        free = f"http://archive.br/m{number}"
        record["metadata"] = {"url": free, "formats": {"oai_dc": f"{free}/dc"}}
        metadata = [(free, None, None), (f"{free}/dc", "oai_dc", None)]
    archive = random_.randrange(len(world.archives))
    world.archives[archive].append(record)
    url = f"http://archive.br/{number}"
    world.of_archives[ibi] = Fact(url, state, later or "", metadata, {"/a.txt": url}, archive)


def _make_entry(random_: random.Random, number: int) -> Entry:
    places = []
    for actor in random_.sample(range(1, 5), random_.choice((1, 1, 2, 3))):
        place = f"http://actor{actor}.br/{number}"
        metadata = [
            (f"{place}/m{position}", *random_.choice(KINDS))
            for position in range(random_.choice((0, 0, 1, 2, 4)))
        ]
        url = None if metadata and random_.random() < 0.3 else place
        later = _choose_later(random_, number)
        following = later and random_.choice(
            (f"http://urlib.net/{later}", f"http://actor{actor}.br/{number + 1}", f"{place}/later")
        )
        previous = None
        if number and random_.random() < 0.2:
            earlier = random_.randrange(number)
            previous = random_.choice(
                (f"http://urlib.net/{ITEMS[earlier]}", f"http://actor{actor}.br/{earlier}")
            )
        places.append(Place(actor, url, metadata, previous, following))
    return Entry(places, random_.random() < 0.6)


def _collect_registered(world: World) -> None:
    for ibi, entry in world.entries.items():
        successor = _find_successor(world, ibi, entry.places[0])
        world.registered[ibi] = [
            Fact(
                place.url,
                "Original" if position == 0 and entry.is_original else "Copy",
                successor,
                place.metadata,
            )
            for position, place in enumerate(entry.places)
        ]


def _find_successor(world: World, ibi: str, holder: Place) -> str:
    if holder.next and holder.next.startswith("http://urlib.net/"):
        return holder.next.removeprefix("http://urlib.net/")
    if holder.next:
        same = [
            other
            for other, entry in world.entries.items()
            if other != ibi
            and entry.places[0].actor == holder.actor
            and entry.places[0].url == holder.next
        ]
        return same[0] if same else holder.next
    later = [
        other
        for other, entry in world.entries.items()
        for place in entry.places
        if other != ibi
        and place.actor == holder.actor
        and place.previous is not None
        and place.previous in (f"http://urlib.net/{ibi}", holder.url)
    ]
    return later[-1] if later else ""


# --- the one store -------------------------------------------------------------------------------


class OneStore:
    """The search in one store with all data.

    :param path: the path of the requested file.
    :param requires_original: whether only an Original counts.
    """

    def __init__(
        self, world: World, path: str, requires_original: bool, language: str | None
    ) -> None:
        self.world = world
        self.path = path
        self.requires_original = requires_original
        self.ranges = parse_accept_language(language)

    def find(self, ibi: str, steps: Steps) -> str | None:
        """Return the URL to which some steps lead, :data:`SUSPECTS`, or None."""
        if steps and steps[0] == "+":  # an item without languages is its own translation
            return self.find(ibi, steps[1:])
        if steps[1:2] == ("+",) and steps[0] == "!":
            return self.find(ibi, (steps[0], *steps[2:]))
        own = self.world.of_archives.get(ibi)
        ends = list(self._list_ends([own] if own else [], steps))
        if ends and not self.requires_original:
            return ends[0]
        if own and not ends and (found := self._find_in_last_edition(ibi, own, steps)):
            return found
        # the registry counts only if no Archive knows the item
        registered = [] if own else self.world.registered.get(ibi, [])
        ends += self._list_ends(registered, steps)
        if len(ends) > 1 and self.requires_original:
            return SUSPECTS
        if ends:
            return ends[0]
        if registered and (found := self._find_in_last_edition(ibi, registered[0], steps)):
            return found
        return self._find_in_other_language(ibi, steps)

    def _find_in_last_edition(self, ibi: str, fact: Fact, steps: Steps) -> str | None:
        if steps[:1] != ("!",) or fact.successor.startswith("http:"):
            return None
        last = fact
        while fact.archive is not None and last.successor:
            following = self.world.of_archives.get(last.successor)
            if following is None or following.archive != fact.archive:
                break
            ibi, last = last.successor, following
        # an Archive that has all later editions knows which one is the last
        return self.find(fact.successor, steps) if last.successor else self.find(ibi, steps[1:])

    def _find_in_other_language(self, ibi: str, steps: Steps) -> str | None:
        if steps and steps[-1] == "+(pt-BR)":
            return self.find(ibi, (*steps[:-1], "+(pt)"))
        if len(steps) > 1 and steps[-1] == "+":
            return self.find(ibi, steps[:-1])
        return None

    def _list_ends(self, facts: Sequence[Fact], steps: Steps) -> Iterator[str]:
        has_url = any(fact.url for fact in facts)
        for fact in facts:
            if self.requires_original and fact.state != "Original":
                continue
            if end := self._find_end(fact, steps, has_url):
                yield end

    def _find_end(self, fact: Fact, steps: Steps, has_url: bool) -> str | None:
        if steps[:1] == ("!",):
            if not fact.successor:
                return self._find_end(fact, steps[1:], has_url)
            # the next edition without an identifier is a Copy, and only a URL
            if fact.successor.startswith("http:") and not self.path and len(steps) == 1:
                return None if self.requires_original else fact.successor
            return None
        if not steps:
            if self.path:
                return fact.files.get(self.path)
            return fact.url or (None if has_url else self._find_metadata(fact, (":",)))
        if steps[0].startswith(":") and not self.path:
            return self._find_metadata(fact, steps)
        return None

    def _find_metadata(self, fact: Fact, steps: Steps) -> str | None:
        wanted = steps[0][2:-1] or None
        free = sorted(fact.metadata, key=lambda one: one[1] is not None)
        first = free[0][2] if free else None
        in_format = [one for one in fact.metadata if one[1] == wanted] if wanted else free
        if len(steps) == 1:
            # the language of the metadata in free form is preferred
            return next((one[0] for one in sorted(in_format, key=lambda o: o[2] != first)), None)
        by_language = {language: url for url, _, language in reversed(in_format)}
        if steps[1] != "+":
            return by_language.get(steps[1][2:-1])
        language = find_language(self.ranges, [one for one in by_language if one])
        if language is not None:
            return by_language[language]
        is_itself = bool(in_format) and first is None
        return self._find_metadata(fact, steps[:1]) if is_itself else None


# --- the comparison ------------------------------------------------------------------------------


class Archives(Network):
    """A simulated network with Archives that answer from records."""

    def __init__(self, archives: Sequence[Sequence[Json]]) -> None:
        super().__init__(*[{} for _ in archives])
        self.catalogues = [MemoryCatalogue(records) for records in archives]

    def answer(self, number: int, request: UrlRequest) -> tuple[float, list[Pair] | None]:
        """Return the answer of an Archive."""
        archive = self.archives[number - 1]
        facts = make_facts(archive.address, archive.service_ibi, None, filter_url_list=number == 1)
        text = build_response(
            request,
            lambda asked: answer_url_request(
                self.catalogues[number - 1], asked, facts, lambda item: "1234567890-1234567890"
            ),
            lambda thanks: None,
        )
        return number / 100, parse_pairs(text)


def check(database: Database, random_: random.Random, count: int) -> int:
    """Compare some resolutions in a random world; return how many lead to a URL."""
    world = make_world(random_)
    store(database, world.entries)
    led = 0
    for _ in range(count):
        ibi, shape = random_.choice(ITEMS[:4]), random_.choice(sorted(SHAPES))
        steps = tuple(random_.choice(SIGNS[letter]) for letter in shape)
        is_strict = random_.random() < 0.2
        if shape.endswith("mt") and (is_strict or (steps[-1] == "+" and "u" in shape)):
            # the order of the sources is not the same for each language, and a Copy in the first
            # language hides an Original in another language
            steps = (*steps[:-1], "+(pt)")
        path = "/a.txt" if random_.random() < 0.1 else ""
        language = random_.choice(LANGUAGES)
        expected = OneStore(world, path, is_strict, language).find(ibi, steps)
        text = f"{ibi}{''.join(steps)}{path}{ORIGINAL if is_strict else ''}"
        outcome = Archives(world.archives).resolve(
            text, language=language, documents=documents_of(database)
        )
        found = describe(outcome)
        if is_strict and "!" in steps and SUSPECTS in (expected, found):
            continue  # whether rivals for a last edition are found depends on the questions
        assert found == expected, (text, language, world, outcome)
        if isinstance(outcome, Alert) and outcome.kind is AlertKind.UNKNOWN and not steps:
            assert ibi not in world.of_archives
            assert ibi not in world.entries
        led += isinstance(outcome, Redirect)
    return led


def describe(outcome: Redirect | Alert) -> str | None:
    """Return the URL, :data:`SUSPECTS` or None."""
    if isinstance(outcome, Redirect):
        return outcome.url
    return SUSPECTS if outcome.kind is AlertKind.SUSPECTS else None


@pytest.mark.rule("P4-13", "P5-01")
@pytest.mark.parametrize(
    "seeds", [range(15), pytest.param(range(15, 1000), marks=pytest.mark.slow)], ids=str
)
def test_registry_and_archives_resolve_like_one_store(seeds: range) -> None:
    with resolver_database("sqlite://") as database:
        led = sum(check(database, random.Random(seed), 12) for seed in seeds)
    assert led > 2 * len(seeds)
