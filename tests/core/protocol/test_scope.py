"""The data that a catalogue must provide for a urlRequest, and not more."""

from __future__ import annotations

from support.cases import for_each
from support.stores import MemoryCatalogue, moment_of, rep_of

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.catalogue import Scope
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.core.protocol.relations import (
    SHAPES,
    Relation,
    Step,
    StepKind,
    parse_relation_pattern,
    parse_verb_list,
)
from flask_ibi_archive.core.protocol.url_list import ArchiveFacts, ArchiveUrls, answer_url_request

FORMATS = {"oai_dc": None, "mods": None}
STEPS = {
    "u": Step(StepKind.LAST_EDITION),
    "t": Step(StepKind.TRANSLATION),
    "m": Step(StepKind.METADATA),
}
URLS = ArchiveUrls("http://a.br")


def relation_of(shape: str) -> Relation:
    return Relation(tuple(STEPS[letter] for letter in shape))


@for_each(
    ("shape", "shapes", "has_editions"),
    [
        ("", {""}, False),
        ("m", {"", "m"}, False),
        ("u", {"", "u"}, True),
        ("utm", {"", "u", "ut", "utm"}, True),
        ("tu", {"", "t", "tu"}, True),
    ],
)
def test_a_scope_has_a_relation_and_its_beginnings(
    shape: str, shapes: set[str], has_editions: bool
) -> None:
    for follows in (True, False):
        facts = ArchiveFacts("a.br", (), URLS, follow_editions=follows, own_formats=FORMATS)
        for paths in ((), ("a/b", "a/b/index.html"), ()):
            assert facts.scope(relation_of(shape), paths) == Scope(
                frozenset(shapes), has_editions, paths, follows, FORMATS
            )


@for_each("requested_only", [True, False])
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


@for_each(
    ("format", "formats"),
    [
        (None, ["oai_dc", "mods"]),
        ("bibtex", ["oai_dc", "mods", "bibtex"]),
        ("far", ["oai_dc", "mods"]),
    ],
)
def test_a_scope_has_a_format_that_the_archive_writes_if_the_relation_names_it(
    format: str | None, formats: list[str]
) -> None:
    facts = ArchiveFacts(
        "a.br", (), URLS, own_formats=FORMATS, written_formats=frozenset({"bibtex", "ris"})
    )
    relation = Relation((Step(StepKind.METADATA, format),))
    for _ in range(2):
        assert list(facts.scope(relation, ()).own_formats) == formats
