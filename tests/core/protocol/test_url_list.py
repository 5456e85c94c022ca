"""Tests the URLs of an Archive, and the URL lists that contain them."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import product
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stores import (
    FORMATS as STORED_FORMATS,
)
from support.stores import (
    LANGUAGES,
    RELATIONS,
    MemoryCatalogue,
    Place,
    StoreMaker,
    identifiers_of,
    make_facts,
    make_request,
    moment_of,
    rep_of,
    see,
    step,
)

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.catalogue_items import Scope
from flask_ibi_archive.core.protocol.messages import UrlRequest, list_ibi_words
from flask_ibi_archive.core.protocol.relations import (
    SHAPES,
    Relation,
    Step,
    StepKind,
    VerbList,
    parse_relation,
    parse_relation_pattern,
    parse_verb_list,
    step_matches,
)
from flask_ibi_archive.core.protocol.url_list import (
    NEXT_EDITION,
    URL_PAIR_NAMES,
    ArchiveFacts,
    ArchiveUrls,
    UrlPair,
    answer_url_request,
    list_target_urls,
    list_url_pairs,
)

REP, IBIP = "sid.inpe.br/mtc-m18@80/2009/07.21.13.23", "8JMKD3MGP8W/35MME4E"
BOTH = SimpleNamespace(rep=REP, ibip=IBIP)
ALONE = SimpleNamespace(rep=None, ibip=IBIP)
HTTP = ArchiveUrls("http://mtc-m16c.sid.inpe.br")


def test_every_address_is_that_of_the_interface() -> None:
    base = "https://a.example:8443"
    addresses = ArchiveUrls(base)
    assert addresses.service(BOTH) == f"{base}/{REP}"
    assert addresses.file_list(BOTH) == f"{base}/col/{REP}/files"
    assert addresses.statistics(BOTH) == f"{base}/col/{REP}/statistics"
    assert addresses.statistics(ALONE) == f"{base}/col/{IBIP}/statistics"
    assert addresses.archive_statistics() == f"{base}/ibi/statistics"
    assert addresses.metadata(BOTH) == f"{base}/col/{REP}/metadata"
    assert addresses.metadata(BOTH, "oai_dc") == f"{base}/col/{REP}/metadata?choice=oai_dc"


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_the_path_of_a_file_can_be_decoded_from_its_url(path: str) -> None:
    address = HTTP.file(BOTH, path)
    assert address.isascii()
    parts = urlsplit(address)
    assert (parts.query, parts.fragment) == ("", "")
    assert unquote(parts.path.partition("/doc/")[2]) == path


def test_a_host_chooses_the_address_of_each_page() -> None:
    """The path of the app precedes a path that does not begin with it ([R] 4.1 for the service)."""
    addresses = ArchiveUrls("https://a.example")
    addresses.find_root = lambda: "/repository"
    asked: list[tuple[str, str | None]] = []

    def find_address(page: str, item: object, name: str | None) -> str | None:
        assert item is BOTH
        asked.append((page, name))
        return {
            "item": "/items/7",
            "file": "/repository/files/7",
            "statistics": "https://figures.example/7",
        }.get(page)

    addresses.get_host_function = lambda: find_address
    assert addresses.item(BOTH) == "https://a.example/repository/items/7"
    assert addresses.file(BOTH, "a b.txt") == "https://a.example/repository/files/7"
    assert addresses.statistics(BOTH) == "https://figures.example/7"
    assert addresses.file_list(BOTH) == f"https://a.example/repository/col/{REP}/files"
    assert addresses.metadata(BOTH, "oai_dc").endswith(f"/col/{REP}/metadata?choice=oai_dc")
    assert addresses.service(BOTH) == f"https://a.example/{REP}"
    assert asked == [
        ("item", None),
        ("file", "a b.txt"),
        ("statistics", None),
        ("file_list", None),
        ("metadata", "oai_dc"),
    ]


@pytest.mark.parametrize("address", ["http://b.example/7", "https://b.example/7"])
def test_a_host_may_choose_a_whole_url(address: str) -> None:
    addresses = ArchiveUrls("https://a.example")
    addresses.get_host_function = lambda: lambda page, item, name: address
    assert addresses.item(BOTH) == addresses.file(BOTH, "a") == address


@pytest.mark.parametrize("address", ["items/7", "//b.example/7", "ftp://b.example/7", "", 7])
def test_an_address_that_is_neither_a_path_nor_a_url_is_refused(address: Any) -> None:
    addresses = ArchiveUrls("https://a.example")
    addresses.get_host_function = lambda: lambda page, item, name: address
    with pytest.raises(ValueError) as caught:
        addresses.item(BOTH)
    assert str(caught.value) == (
        f"the address function returned {address!r} for the page 'item' of the item {REP}; it "
        "should return a path that begins with '/', a URL that begins with http:// or https://, "
        "or None"
    )


FORMATS = {"oai_dc": None, "mods": None}
STEPS = {
    "u": Step(StepKind.LAST_EDITION),
    "t": Step(StepKind.TRANSLATION),
    "m": Step(StepKind.METADATA),
}
URLS = ArchiveUrls("http://a.br")


def relation_of(shape: str) -> Relation:
    return Relation(tuple(STEPS[letter] for letter in shape))


@pytest.mark.parametrize("requested_only", [True, False])
def test_the_whole_list_needs_all_relations_unless_only_those_of_the_verbs_are_requested(
    requested_only: bool,
) -> None:
    world = MemoryCatalogue([{"rep": rep_of(0), "timestamp": moment_of(0)}])
    request = UrlRequest(
        parse_identifier(rep_of(0)), ("192.0.2.1",), "/a", parse_verb_list("GetMetadata")
    )
    facts = ArchiveFacts(
        "a.br", (), URLS, filter_url_list=False, follow_editions=False, own_formats=FORMATS
    )
    answer_url_request(world, request, facts, lambda item: "1234567890-0", requested_only)
    shapes, has_editions = ({"", "m"}, False) if requested_only else (SHAPES, True)
    assert world.scope == Scope(frozenset(shapes), has_editions, ("a",), False, FORMATS)


def test_a_scope_has_no_relation_that_the_archive_does_not_answer() -> None:
    patterns = (parse_relation_pattern(".lastedition.metadata"),)
    facts = ArchiveFacts("a.br", (), URLS, relations=patterns)
    assert facts.scope(relation_of("um"), ()).shapes == {"", "u", "um"}
    assert facts.scope(relation_of("utm"), ()).shapes == {"", "u"}
    assert facts.scope(relation_of("m"), ()).shapes == {""}


ADDRESS, SERVICE, KEY = "archive.example:8080", "archive.example/a/2008/03.17.15.17", "1234567890-0"


def seeds(normal: int, thorough: int) -> pytest.MarkDecorator:
    """Run a test with a few seeds, and with more seeds in the slow runs."""
    slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(normal, thorough)]
    return pytest.mark.parametrize("seed", [*range(normal), *slow])


def answer(
    world: MemoryCatalogue, request: UrlRequest, facts: ArchiveFacts, **options: Any
) -> Collection[UrlPair]:
    return answer_url_request(world, request, facts, lambda item: KEY, **options)


def in_order(pairs: Collection[UrlPair]) -> list[UrlPair]:
    """Check that no name is repeated, and return the pairs sorted by name."""
    assert len({name for name, _ in pairs}) == len(pairs)
    return sorted(pairs)


def random_scenes(
    seed: int, count: int
) -> Iterator[tuple[MemoryCatalogue, UrlRequest, ArchiveFacts]]:
    """Yield random requests for the items of one catalogue, and facts with an unfiltered list."""
    maker, random_ = StoreMaker(seed, 150), random.Random(seed)
    world = MemoryCatalogue(maker.records)
    for _ in range(count):
        ibi = random_.choice(identifiers_of(random_.choice(maker.records)))
        request = make_request(random_, maker.in_any_case(ibi))
        relations, follows = random_.choice(RELATIONS), random_.random() < 0.7
        options = {"filter_url_list": False, "follow_editions": follows}
        yield world, request, make_facts(ADDRESS, SERVICE, relations, **options)


# --- the whole list, as in the specification: every relation of the grammar is tried -------------


def every_relation(
    languages: Iterable[str], formats: Iterable[str]
) -> Iterator[tuple[tuple[str, str | None], ...]]:
    """Yield every relation of the grammar, with every language and format."""
    parameters = {"u": [None], "t": [None, *languages], "m": [None, *formats]}
    for shape in SHAPES:
        for chosen in product(*(parameters[letter] for letter in shape)):
            yield tuple(zip(shape, chosen, strict=True))


NAMES = {"u": ".lastedition", "t": ".translation", "m": ".metadata"}


def name_of(relation: tuple[tuple[str, str | None], ...]) -> str:
    return "".join(
        NAMES[letter] + (f"({parameter})" if parameter else "") for letter, parameter in relation
    )


def is_answered(name: str, patterns: Iterable[str] | None) -> bool:
    """Return whether a pattern of the setting IBI_RELATIONS matches a relation."""
    if patterns is None:
        return True
    return any(
        re.fullmatch(re.escape(pattern).replace(r"\(\*\)", r"\([^)]+\)"), name)
        for pattern in patterns
    )


def expect_url_list(
    world: MemoryCatalogue,
    request: UrlRequest,
    *,
    address: str,
    service: str,
    key: str,
    patterns: Iterable[str] | None = None,
    follow: bool = True,
) -> list[UrlPair]:
    """Return the whole URL list according to the specification."""
    item = world.find(request.ibi.text, Scope(follow_editions=follow))
    if item is None:
        return []
    pairs: list[UrlPair] = [
        ("archiveaddress", address),
        ("ibi", list_ibi_words(item.rep, item.ibip)),
        ("ibi.archiveservice", ("rep", service)),
        ("ibi.platformsoftware", ()),
    ]
    if item.state == "Deleted":
        return [*pairs, ("state", "Deleted"), ("timestamp", as_text(item.timestamp))]
    pairs.append(("urlkey", key))
    following = item.next_edition()
    if following is not None:
        pairs.append(("ibi.nextedition", list_ibi_words(following.rep, following.ibip)))
    for relation in every_relation(LANGUAGES, STORED_FORMATS):
        places = [Place(item)]
        for letter, parameter in relation:
            reached = [step(place, letter, parameter) for place in places]
            places = [place for place in reached if place is not None]
        name = name_of(relation)
        places = [place for place in places if place.has_format and is_answered(name, patterns)]
        if not places:
            continue
        [place] = places
        if name and place.own is None:
            pairs.append(("ibi" + name, list_ibi_words(place.item.rep, place.item.ibip)))
        seen = see(place, request, f"http://{address}")
        if seen is not None:
            url, content_type, state, moment = seen
            pairs += [
                ("url" + name, url),
                ("contenttype" + name, content_type),
                ("state" + name, state),
                ("timestamp" + name, as_text(moment)),
            ]
    return pairs


def as_text(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else ""


@pytest.mark.rule("R72-12")
@seeds(1, 6)
def test_the_whole_list_has_each_relation_of_the_item(seed: int) -> None:
    maker, random_ = StoreMaker(seed, 150), random.Random(seed)
    world = MemoryCatalogue(maker.records)
    for _ in range(15):
        ibi = random_.choice(identifiers_of(random_.choice(maker.records)))
        request = make_request(random_, maker.in_any_case(ibi))
        patterns, follow = random_.choice(RELATIONS), random_.random() < 0.7
        stated = {"address": ADDRESS, "service": SERVICE, "patterns": patterns, "follow": follow}
        expected = expect_url_list(world, request, key=KEY, **stated)
        facts = make_facts(
            ADDRESS, SERVICE, patterns, filter_url_list=False, follow_editions=follow
        )
        assert in_order(answer(world, request, facts)) == in_order(expected), (seed, request, facts)


#: Pairs that are also in every filtered list ([R] Example 7.3).
ALWAYS_NEEDED = ("archiveaddress", "ibi", "ibi.archiveservice", "ibi.platformsoftware")


def filter_url_list(pairs: list[UrlPair], verbs: VerbList) -> list[UrlPair]:
    """Return the pairs of a URL list that the resolver needs for its next step.

    Source: [R] 7.2, FILTRARLISTADEURL, and Example 7.3.
    """
    values = dict(pairs)
    if values.get("state") == "Deleted":
        return pairs
    path = verbs.relation.steps
    needed = [pair for pair in pairs if pair[0] in ALWAYS_NEEDED]
    intermediate: list[UrlPair] = []
    has_url = False
    for name, value in pairs:
        prefix, dot, rest = name.partition(".")
        if name in ALWAYS_NEEDED or name == NEXT_EDITION or prefix not in (*URL_PAIR_NAMES, "ibi"):
            continue
        steps = parse_relation(dot + rest).steps
        if not all(map(step_matches, path, steps)) or len(steps) > len(path):
            continue
        if len(steps) == len(path):
            needed.append((name, value))
            has_url = has_url or prefix == "url"
        elif prefix == "ibi":
            intermediate.append((name, value))
    if has_url:
        return [*needed, ("urlkey", values["urlkey"])]
    needed += intermediate
    if "u" in verbs.relation.shape and NEXT_EDITION in values:
        needed.append((NEXT_EDITION, values[NEXT_EDITION]))
    return needed


@pytest.mark.rule("R72-29")
@seeds(1, 10)
def test_the_direct_answer_equals_the_filtered_whole_list(seed: int) -> None:
    for world, request, facts in random_scenes(100 + seed, 250):
        answered = answer(world, request, replace(facts, filter_url_list=True))
        filtered = filter_url_list(answer(world, request, facts), request.verbs)
        assert in_order(answered) == in_order(filtered), (seed, request, facts)


@seeds(1, 4)
def test_an_unfiltered_list_may_have_only_the_requested_relations(seed: int) -> None:
    for world, request, facts in random_scenes(seed, 120):
        given = answer(world, request, facts, requested_only=True)
        whole = answer(world, request, facts)
        expected = [pair for pair in whole if is_requested(pair[0], request.verbs.relation)]
        assert in_order(given) == in_order(expected), (seed, request, facts)


def is_requested(name: str, relation: Relation) -> bool:
    """Return whether a list needs a pair for the steps of a relation or for its first steps."""
    prefix, dot, rest = name.partition(".")
    if name == NEXT_EDITION:
        return "u" in relation.shape
    if prefix not in (*URL_PAIR_NAMES, "ibi") or name in ALWAYS_NEEDED:
        return True
    steps = parse_relation(dot + rest).steps
    return len(steps) <= len(relation.steps) and all(map(step_matches, relation.steps, steps))


@seeds(1, 4)
def test_the_targets_of_an_item_have_the_urls_of_the_whole_list(seed: int) -> None:
    for world, random_request, facts in random_scenes(seed, 60):
        verbs = VerbList(file_list=random_request.verbs.file_list)
        request = replace(random_request, filepath="", verbs=verbs)
        scope = Scope(facts.shapes, follow_editions=facts.follow_editions)
        item = world.find(request.ibi.text, scope)
        if item is None or item.state == "Deleted":
            continue
        described = list_target_urls(item, request, facts)
        for _, (target, words, _) in described:
            identifiers = list_ibi_words(target.item.rep, target.item.ibip)
            assert words == (identifiers if target.own is None else None)
        whole = answer(world, request, facts)
        listed = [pair for pair in whole if pair[0].partition(".")[0] in URL_PAIR_NAMES]
        assert in_order(list_url_pairs(described)) == in_order(listed), (seed, request, facts)
