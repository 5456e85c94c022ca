"""The data that a catalogue must provide for a urlRequest, and not more."""

from __future__ import annotations

from support.cases import for_each

from flask_ibi_archive.protocol.archive_urls import ArchiveUrls
from flask_ibi_archive.protocol.catalogue import Scope
from flask_ibi_archive.protocol.relations import parse_relation_pattern
from flask_ibi_archive.protocol.url_list import ArchiveFacts

FORMATS = {"oai_dc": None, "mods": None}
URLS = ArchiveUrls("http://a.br")


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
            assert facts.scope(shape, paths) == Scope(
                frozenset(shapes), has_editions, paths, follows, FORMATS
            )


def test_a_scope_has_no_relation_that_the_archive_does_not_answer() -> None:
    patterns = (parse_relation_pattern(".lastedition.metadata"),)
    facts = ArchiveFacts("a.br", (), URLS, relations=patterns)
    assert facts.scope("um", ()).shapes == {"", "u", "um"}
    assert facts.scope("utm", ()).shapes == {"", "u"}
    assert facts.scope("m", ()).shapes == {""}
