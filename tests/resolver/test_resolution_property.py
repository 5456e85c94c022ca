"""Two properties of a resolution over several Archives, with random items.

Items that are split over several Archives are resolved as if one Archive had all of them; and a
resolution that asks the claimants has the outcome of one that asks all Archives.
"""

from __future__ import annotations

import math
import os
import random
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import pytest
from support.networks import (
    NEVER,
    SimulatedNetwork,
    TimedAnswer,
)
from support.registries import a_config
from support.stores import (
    LANGUAGES,
    RELATIONS,
    REMOTE_SERVICE,
    USERS,
    Json,
    MemoryCatalogue,
    MemoryItem,
    Place,
    StoreMaker,
    ibip_of,
    identifiers_of,
    is_dublin_core,
    make_facts,
    make_store,
    rep_of,
    see,
    step,
)

from flask_ibi_archive.core.identifiers.grammar import Identifier
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.catalogue_items import Scope
from flask_ibi_archive.core.protocol.languages import (
    LanguageRange,
    find_language,
    parse_accept_language,
)
from flask_ibi_archive.core.protocol.messages import UrlRequest, format_request, parse_request
from flask_ibi_archive.core.protocol.pairs import (
    Pair,
    decode_query_string,
    encode_word,
    pairs_as_dict,
)
from flask_ibi_archive.core.protocol.relations import NO_VERBS, SHAPES, parse_verb_list
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.protocol.url_list import ArchiveFacts, answer_url_request
from flask_ibi_archive.core.resolution.answer import Question
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl, ResolutionRequest
from flask_ibi_archive.resolver.archives import MAX_RECENT, Claimant, Known
from flask_ibi_archive.resolver.config import ResolverConfig

Steps: TypeAlias = tuple[tuple[str, "str | None"], ...]

KEY = "1234567890-0123456789"
#: The address of an Archive with all items.
WHOLE = "whole.example"
#: When the services of the Archives were created.
FOUNDED = "2009-01-01T00:00:00Z"
CONFIG = a_config()
#: The verbs for each letter of a shape.
VERBS = {
    "u": ("GetLastEdition",),
    "t": ("GetTranslation", "GetTranslation", "GetTranslation(pt)", "GetTranslation(pt-BR)"),
    "m": ("GetMetadata", "GetMetadata(oai_dc)"),
}
#: Values of Accept-Language.
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
#: Paths of files.
FILES = ("",) * 6 + ("/a.txt", "/a%20b.txt", "/dados/tabela%201.csv", "/missing")


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


# --- Archives in memory --------------------------------------------------------------------------


def service_of(number: int) -> str:
    """Return the IBI of the service of an Archive."""
    return rep_of(80000 + number, "services.example/of")


class MemoryServers:
    """The servers of some Archives. Each different request is computed once.

    :param parts: the records of each Archive.
    :param facts: the settings of each Archive.
    """

    def __init__(self, parts: Sequence[Sequence[Json]], facts: Sequence[ArchiveFacts]) -> None:
        self.archives = [(one.service[1], one.address) for one in facts]
        self._facts = {one.address: one for one in facts}
        self._catalogues: dict[str, MemoryCatalogue] = {}
        for part, one in zip(parts, facts, strict=True):
            self._catalogues[one.address] = MemoryCatalogue(part)
            self._catalogues[one.address].add_service(one.service[1], FOUNDED)
        self._answers: dict[tuple[str, str], list[Pair]] = {}

    def answer(self, address: str, query: str) -> list[Pair]:
        """Return the pairs of the answer of an Archive, as the resolver parses them."""
        if (address, query) not in self._answers:
            request = parse_request(decode_query_string(query.encode()))
            assert isinstance(request, UrlRequest)
            listed = answer_url_request(
                self._catalogues[address], request, self._facts[address], lambda item: KEY
            )
            self._answers[address, query] = [
                Pair(name, tuple(map(encode_word, (value,) if isinstance(value, str) else value)))
                for name, value in dict(listed).items()
            ]
        return self._answers[address, query]


LookUp: TypeAlias = Callable[[Sequence[Identifier]], dict[str, Known]]


class MemoryNetwork(SimulatedNetwork):
    """A resolver that has included Archives in memory.

    :param always: the numbers of the Archives whose claims do not count. None: of all.
    :param look_up: returns what the resolver knows about identifiers.
    :param delays: after how many seconds each Archive answers. Empty: at once.
    :param own: the number of the Archive in the process of the resolver, or None.
    """

    def __init__(
        self,
        servers: MemoryServers,
        always: Collection[int] | None = None,
        look_up: LookUp = lambda identifiers: {},
        delays: Sequence[float] = (),
        own: int | None = None,
        config: ResolverConfig = CONFIG,
    ) -> None:
        numbers = range(1, len(servers.archives) + 1)
        always = numbers if always is None else always
        super().__init__(servers.archives, self.answer_after, always, config)
        self.servers = servers
        self.look_up = look_up
        self.own = own
        addresses = [address for _, address in servers.archives]
        self.delays = dict(zip(addresses, delays or [0.0] * len(addresses), strict=True))

    def ask_all(self) -> MemoryNetwork:
        """Return a resolver that knows the same claims, and always asks all Archives at once."""

        def look_up(identifiers: Sequence[Identifier]) -> dict[str, Known]:
            known = self.look_up(identifiers)
            return {name: one._replace(recent=()) for name, one in known.items()}

        delays = [*self.delays.values()]
        return MemoryNetwork(self.servers, None, look_up, delays, self.own, self.config)

    def answer_after(self, sent: tuple[str, str]) -> TimedAnswer:
        """Return the answer of an Archive."""
        return self.delays[sent[0]], self.servers.answer(*sent)

    def resolve(
        self,
        wanted: PersistentUrl,
        ranges: Sequence[LanguageRange],
        addresses: tuple[str, ...],
        hinted: int | None = None,
    ) -> Redirect | Alert:
        """Resolve a persistent URL with the real rounds."""
        self.reset()
        request = ResolutionRequest(wanted, "http://urlib.net:80/", addresses, tuple(ranges))
        known = self.look_up([wanted.ibi])
        if hinted is not None:
            first = known.get(wanted.ibi.text, Known())
            known[wanted.ibi.text] = first._replace(recent=(hinted, *first.recent))
        own = None if self.own is None else self
        return self.run(request, known, own=own, look_up=self.look_up)

    def find_service(self) -> str:
        """Return the service of the Archive in this process (:class:`.LocalArchive`)."""
        assert self.own is not None
        return self.archives[self.own - 1].service_ibi

    def answer(
        self, question: Question, addresses: tuple[str, ...]
    ) -> Mapping[str, tuple[str, ...]]:
        """Answer as the Archive in this process."""
        assert self.own is not None
        query = format_request(question.create_request(addresses))
        self.asked.append((self.now, self.own, query))
        self.note_arrival((self.archives[self.own - 1].address, query))
        return pairs_as_dict(self.servers.answer(self.archives[self.own - 1].address, query))


# --- one Archive with the whole store ------------------------------------------------------------


def find_urls(
    world: MemoryCatalogue,
    wanted: PersistentUrl,
    ranges: Sequence[LanguageRange],
    user: str,
) -> set[str | None]:
    """Return the URL to which a persistent URL leads, without the address; None if there is none.

    A format that an Archive writes from a metadata item has two URLs: the page of the described
    item, and the page of the metadata item, which the Archive of the metadata item knows.
    """
    question = Question(wanted.ibi, wanted.verbs, wanted.path)
    request = parse_request(decode_query_string(format_request(question.create_request((user,)))))
    assert isinstance(request, UrlRequest)
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


def without_address(url: str | None) -> str | None:
    """Return a URL with the same host for all Archives."""
    return url and re.sub(r"^http://(whole|archive[0-9])\.example", "http://here", url)


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


def make_network(
    servers: MemoryServers, random_: random.Random, delays: Sequence[float] = ()
) -> MemoryNetwork:
    """Return a resolver that asks all Archives, which answer in random order."""
    network = MemoryNetwork(servers, delays=delays)
    network.find_place = lambda sent: random_.random()
    return network


def make_servers(network: Network, random_: random.Random) -> MemoryServers:
    """Return an Archive in memory for each part of a network."""
    facts = [
        make_facts(
            f"archive{number}.example",
            service_of(number),
            None,
            filter_url_list=random_.random() < 0.7,
            follow_editions=follows,
        )
        for number, follows in enumerate(network.follows)
    ]
    return MemoryServers(network.parts, facts)


def check(
    whole: list[Json],
    networks: Sequence[MemoryNetwork],
    random_: random.Random,
    count: int,
    user: str,
) -> int:
    """Compare the targets of persistent URLs; return how many have a target."""
    world = MemoryCatalogue(whole)
    led = 0
    for _ in range(count):
        wanted = make_wanted(random_, whole)
        ranges = parse_accept_language(random_.choice(PREFERENCES))
        expected = find_urls(world, wanted, ranges, user)
        led += expected != {None}
        item = world.find(wanted.ibi.text, Scope())
        is_removed = item is not None and item.state == "Deleted"
        for network in networks:
            found = network.resolve(wanted, ranges, (user,))
            if isinstance(found, Alert):
                assert expected >= {None}, (wanted, ranges, found)
                assert found.kind.status == (410 if is_removed else 404), (wanted, found)
            else:
                assert without_address(found.url) in expected, (wanted, ranges, found)
                assert not wanted.requires_original or found.state == "Original"
    return led


@pytest.mark.rule("R61-06", "R61-07", "R61-08", "R62-09", "R62-12", "R72-28")
@pytest.mark.parametrize(
    "seeds", [range(3), pytest.param(range(3, 100), marks=pytest.mark.slow)], ids=str
)
def test_several_archives_resolve_like_one_with_all_items(seeds: range) -> None:
    led = 0
    for number in seeds:
        random_ = random.Random(number)
        user = random_.choice(USERS)
        whole = state_everything(make_records(number, random_.choice((6, 9, 12))))
        facts = make_facts(WHOLE, service_of(9), None, filter_url_list=random_.random() < 0.7)
        alone = make_network(MemoryServers([whole], [facts]), random_)
        several = make_network(make_servers(split(whole, random_), random_), random_)
        led += check(whole, (alone, several), random_, 6, user)
    assert led > len(seeds)


@pytest.mark.slow
def test_a_silent_archive_never_changes_where_a_reader_is_led() -> None:
    led = 0
    for number in range(60):
        random_ = random.Random(number)
        whole = state_everything(make_records(number, random_.choice((6, 9, 12))))
        servers = make_servers(split(whole, random_), random_)
        delays = [0.0] * len(servers.archives)
        delays[random_.randrange(len(delays))] = NEVER
        network = make_network(servers, random_, delays=delays)
        world = MemoryCatalogue(whole)
        for _ in range(6):
            wanted = make_wanted(random_, whole)
            ranges = parse_accept_language(random_.choice(PREFERENCES))
            found = network.resolve(wanted, ranges, (USERS[0],))
            expected = find_urls(world, wanted, ranges, USERS[0])
            if isinstance(found, Redirect):
                led += 1
                assert without_address(found.url) in expected, (wanted, ranges, found)
            else:
                assert found.kind is AlertKind.SILENT, (wanted, found)
    assert led > 20


# --- claims --------------------------------------------------------------------------------------

#: The settings of resolvers; some follow only few rounds.
CONFIGS = (CONFIG, CONFIG, CONFIG, CONFIG, a_config(IBI_RESOLVER_MAX_ROUNDS=3))
#: The seconds after which slow Archives answer: before and after the ends of the periods.
DELAYS = (0.0, 0.0, 0.1, 0.3, 0.6)
#: The prefix of items that no Archive has.
ELSEWHERE = "elsewhere.org/there"
_ORDER = {State.ORIGINAL: 1, State.COPY: 2, State.DELETED: 3}


class Claimed(NamedTuple):
    """What an Archive claims of an item.

    :param original: the service IBI of the Archive that has the Original, or None.
    :param since: the place of the claim in the order in which claims were read first.
    """

    names: Sequence[str]
    state: State
    original: str | None = None
    since: float = 0.0


def is_hidden(record: Mapping[str, object]) -> bool:
    """Return whether the description of an item is hidden from the public."""
    access = record.get("access", {})
    assert isinstance(access, dict)
    return access.get("others") == "none"


def read_claims(records: Sequence[Json], service: str) -> list[Claimed]:
    """Return what an Archive claims of its records and of its service."""
    claims = [Claimed([service], State.ORIGINAL)]
    for record in records:
        if is_hidden(record) or record.get("state") == "Reserved":
            continue
        original = record.get("original_archive") or record.get("tombstone", {}).get(
            "original_archive"
        )
        state = State(record.get("state", "Original"))
        claims.append(Claimed(identifiers_of(record), state, original))
    return claims


def scatter(random_: random.Random, whole: Sequence[Json], count: int) -> list[list[Json]]:
    """Return the records of each Archive: each item is in one to three of them."""
    parts: list[list[Json]] = [[] for _ in range(count)]
    for record in whole:
        home, *others = random_.sample(range(count), random_.choice((1, 1, 2, 3)))
        parts[home].append(record)
        for place in others:
            copy = make_copy(random_, record, service_of(home))
            if copy["state"] == "Copy" and random_.random() < 0.2:  # it claims the Original, too
                del copy["state"], copy["original_archive"]
            parts[place].append(copy)
    return parts


def make_copy(random_: random.Random, record: Json, service: str) -> Json:
    """Return the record of a copy or a tombstone, which lacks some of the data."""
    copy = {**record, "state": "Copy", "original_archive": service}
    copy.pop("tombstone", None)
    if random_.random() < 0.4:
        copy["state"] = "Deleted"
        copy.pop("embargo", None)
        copy.pop("original_archive")
        if random_.random() < 0.5:
            copy["tombstone"] = {"reason": "moved", "original_archive": service}
    if random_.random() < 0.3:
        copy["timestamp"] = f"2012-0{random_.randint(1, 9)}-02T03:04:05Z"
    names = [name for name in ("rep", "ibip") if name in copy]
    if len(names) == 2 and random_.random() < 0.3:
        del copy[random_.choice(names)]
    for name in ("aliases", "translations", "next_edition", "metadata", "access", "files"):
        if random_.random() < 0.15:
            copy.pop(name, None)
    if "files" not in copy:
        copy.pop("target_file", None)
    if identifiers_of(copy) != identifiers_of(record):
        # the translations may name the item itself, by an identifier that the copy lacks
        copy.pop("translations", None)
    return copy


class Federation:
    """A random federation; the same seed makes the same one."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        size, count = self.random.choice((6, 9, 12)), self.random.choice((3, 4, 5, 6))
        self.parts = scatter(self.random, make_store(seed, size), count)
        self._services = [service_of(number) for number in range(count)]
        facts = [
            make_facts(
                f"archive{number}.example",
                service,
                self.random.choice(RELATIONS) if self._chance(0.2) else None,
                filter_url_list=self._chance(0.7),
                follow_editions=self._chance(0.7),
            )
            for number, service in enumerate(self._services)
        ]
        self._servers = MemoryServers(self.parts, facts)
        self._config = self.random.choice(CONFIGS)
        items = [record for part in self.parts for record in part]
        others = [{"rep": name} for name in self._list_others()]
        self._named = [*items, *self.random.choices(others, k=len(items) // 8 + 1)]
        self._readers = [
            tuple(self.random.sample(USERS, self.random.choice((1, 1, 2)))) for _ in range(2)
        ]
        self._claims = [*map(read_claims, self.parts, self._services)]

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def _list_others(self) -> list[str]:
        """Return further identifiers: those that items refer to, of services, and unknown ones."""
        referenced = [
            name
            for part in self.parts
            for record in part
            for name in (record.get("next_edition"), *record.get("translations", {}).values())
            if name
        ]
        elsewhere = [rep_of(1, ELSEWHERE), rep_of(2, ELSEWHERE), ibip_of(2, "8JMKD3MGP3W")]
        unknown = [rep_of(999), ibip_of(999), REMOTE_SERVICE]
        return [*referenced, *elsewhere, *unknown, *self._services]

    # --- resolvers and readers --------------------------------------------------------------------

    def make_resolver(self) -> MemoryNetwork:
        """Return a resolver that has read the claims of some Archives."""
        trusted, claims = [], []
        hidden: dict[str, list[int]] = {}
        recent: dict[str, list[int]] = {}
        for number, (part, claimed) in enumerate(zip(self.parts, self._claims, strict=True), 1):
            trusted.append(self._chance(0.7))
            stated = claimed if trusted[-1] else self._distort(claimed)
            claims.append([claim._replace(since=self.random.random()) for claim in stated])
            for prefix in _list_prefixes(record for record in part if is_hidden(record)):
                hidden.setdefault(prefix, []).append(number)
            if self._chance(0.3):
                for prefix in _list_prefixes(part):
                    recent.setdefault(prefix, []).append(number)
        network = MemoryNetwork(
            self._servers,
            [number for number, counts in enumerate(trusted, 1) if not counts],
            self._make_look_up(claims, hidden, recent),
            [self.random.choice(DELAYS) for _ in trusted] if self._chance(0.2) else (),
            self.random.randint(1, len(trusted)) if self._chance(0.2) else None,
            self._config,
        )
        network.find_place = lambda sent: self.random.random()
        return network

    def _make_look_up(
        self,
        claims: Sequence[Sequence[Claimed]],
        hidden: Mapping[str, Sequence[int]],
        recent: Mapping[str, Sequence[int]],
    ) -> LookUp:
        numbers = {service: number for number, service in enumerate(self._services, 1)}
        rows = sorted(
            (_ORDER[claim.state], claim.since, number, claim.original or "", claim)
            for number, claimed in enumerate(claims, 1)
            for claim in claimed
        )

        def look_up(identifiers: Sequence[Identifier]) -> dict[str, Known]:
            return {
                ibi.text: Known(
                    tuple(
                        Claimant(number, claim.state, numbers.get(original))
                        for _, _, number, original, claim in rows
                        if ibi.text in claim.names
                    ),
                    tuple(hidden.get(ibi.prefix, ())),
                    tuple(recent.get(ibi.prefix, ())[:MAX_RECENT]),
                )
                for ibi in identifiers
            }

        return look_up

    def _distort(self, claimed: Sequence[Claimed]) -> list[Claimed]:
        """Return what an Archive claimed that is always asked: something may be wrong."""
        others = self.random.choice(self._claims)
        claims = [
            self.random.choice(others) if self._chance(0.3) else claim
            for claim in claimed
            if self._chance(0.7)
        ]
        if self._chance(0.5):
            lost = rep_of(self.random.choice((1, 2, 999)), ELSEWHERE)
            claims.append(Claimed([lost], State.ORIGINAL))
        by_name = {name: claim for claim in claims for name in claim.names}
        return [claim._replace(names=[name]) for name, claim in by_name.items()]

    def make_request(self) -> tuple[PersistentUrl, Sequence[LanguageRange], tuple[str, ...]]:
        """Return a random persistent URL, and the languages and the addresses of its reader."""
        return (
            make_wanted(self.random, self._named),
            parse_accept_language(self.random.choice(PREFERENCES)),
            self.random.choice(self._readers),
        )

    def make_hint(self) -> int | None:
        """Return the number of the Archive where an item was last found, or None."""
        return self.random.randint(1, len(self.parts)) if self._chance(0.4) else None


def _list_prefixes(records: Iterable[Json]) -> list[str]:
    names = [name for record in records for name in identifiers_of(record)]
    return sorted({parse_identifier(name).prefix for name in names})


#: The number of resolutions in the quick test, and in the long one: IBI_TEST_RESOLUTIONS.
QUICK, LONG = 48, int(os.environ.get("IBI_TEST_RESOLUTIONS", "600"))
#: The seed of the first federation, so that a long test can be split: IBI_TEST_FIRST_SEED.
FIRST_SEED = int(os.environ.get("IBI_TEST_FIRST_SEED", "0"))
#: Stands for the question that led to a redirect, which nobody sees.
NO_QUESTION = Question(parse_identifier("a.br/b/2001/01.01.00.00"), NO_VERBS)
#: The number of random orders of the answers that are tried. Usually the first one is enough.
ORDERS = 300
#: The number of resolvers of a federation, and of requests to each of them.
RESOLVERS, REQUESTS = 3, 16


def summarise(outcome: Redirect | Alert, is_slow: bool) -> object:
    """Return what the reader sees of an outcome, and what the acknowledgment contains.

    If Archives are slow, the resolver does not wait for all other parts of an item.
    """
    if isinstance(outcome, Redirect):
        return replace(outcome, question=NO_QUESTION)
    alert = replace(outcome, asked=0, sources=())
    if is_slow:
        alert = replace(alert, alternatives=())
    return alert, frozenset(outcome.sources)


def is_outcome_of_all(
    found: Redirect | Alert, network: MemoryNetwork, *asked: object
) -> tuple[bool, int]:
    """Return whether asking all Archives has the same outcome, if they answer in some order.

    The other result is the number of questions that were sent to all Archives.

    In the first order, the Archives that the resolver has asked answer before the others. A random
    order is only needed if the order in which Archives answer that claim nothing is important.
    """
    is_slow, random_ = any(network.delays.values()), random.Random(0)
    expected, everybody = summarise(found, is_slow), network.ask_all()
    everybody.find_place = lambda sent: network.arrived.get(sent, math.inf)
    for number in range(ORDERS):
        if number:
            everybody.own = None  # which would always answer first
            everybody.find_place = lambda sent: random_.random()
            if is_slow:
                everybody.delays = {one: random_.choice(DELAYS) for one in network.delays}
        outcome = everybody.resolve(*asked)  # type: ignore[arg-type]
        if summarise(outcome, is_slow) == expected:
            return True, len(everybody.asked)
    return False, len(everybody.asked)


@pytest.mark.parametrize("number", [QUICK, pytest.param(LONG, marks=pytest.mark.slow)])
def test_claims_do_not_change_the_outcome(number: int) -> None:
    asked = needed = done = 0
    differences = []
    seed = FIRST_SEED
    while done < number:
        federation = Federation(seed)
        resolvers = [federation.make_resolver() for _ in range(RESOLVERS)]
        for _ in range(REQUESTS):
            request = federation.make_request()
            for resolver in resolvers:
                hinted = federation.make_hint()
                found = resolver.resolve(*request, hinted)
                is_right, asked_all = is_outcome_of_all(found, resolver, *request)
                asked += len(resolver.asked)
                needed += asked_all
                if not is_right:
                    differences.append((seed, request, resolver.always, hinted, found))
                done += 1
        seed += 1
    assert not differences, (len(differences), differences[0])
    assert asked < needed
