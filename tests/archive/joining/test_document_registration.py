"""What an Archive sends to the document registry for an item ([P] 4.4)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from flask import Flask
from support import web
from support.archives import FAR_SERVICE, archive_of, close, import_records, make_app
from support.cases import for_each
from support.databases import new_database

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.joining.registry_client import build_registration
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.core.protocol.pairs import format_pairs, pairs_as_dict, parse_pairs
from flask_ibi_archive.core.protocol.registry_2008.model import (
    Credentials,
    DocumentLocation,
    MetadataLocation,
    RegisterDocument,
)
from flask_ibi_archive.core.protocol.registry_2008.registry_messages import (
    format_registry_request,
    parse_registry_request,
)
from flask_ibi_archive.core.protocol.relations import parse_verb_list
from flask_ibi_archive.errors import IdentifierError, StorageError, UnknownItem

ACTOR = Credentials("dpi.inpe.br/banon/2001/01.11.16.21", "12xY3z")
COL = "http://mtc-m16c.sid.inpe.br/col"
TIME = datetime(2009, 7, 21, 13, 23, 45, tzinfo=timezone.utc)
WRITTEN = "2009-07-21T13:23:45Z"
MTD, MTD_PT, EMBARGOED, RECORDED, COPY, BARE = (web.rep(number) for number in range(50, 56))
#: Items that the shelf does not have: metadata with a translation, an embargo and a copy.
MORE: list[dict[str, Any]] = [
    {
        "rep": MTD,
        "timestamp": WRITTEN,
        "content_type": "Metadata",
        "language": "en",
        "translations": {"pt": MTD_PT},
        "formats": {"oai_dc": "https://example.org/en.xml"},
        "files": [{"path": "m.html"}],
    },
    {
        "rep": MTD_PT,
        "timestamp": WRITTEN,
        "content_type": "Metadata",
        "language": "pt",
        "formats": {"oai_dc": "https://example.org/pt.xml", "mtd2-br": "https://example.org/é"},
        "files": [{"path": "m.html"}],
    },
    {"rep": RECORDED, "metadata": {"ibi": MTD}, "files": [{"path": "r.pdf"}], "timestamp": WRITTEN},
    {
        "rep": EMBARGOED,
        "timestamp": WRITTEN,
        "embargo": "2999-01-01",
        "metadata": {"dc": {"title": ["Later"]}},
        "files": [{"path": "e.pdf"}],
    },
    {"rep": BARE, "embargo": "2999-01-01", "files": [{"path": "b.pdf"}]},
    {
        "rep": COPY,
        "state": "Copy",
        "original_archive": FAR_SERVICE,
        "files": [{"path": "c.pdf"}],
        "timestamp": WRITTEN,
    },
]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """An app with the items of the shelf and a few more; no test changes its items."""
    folder = tmp_path_factory.mktemp("registered")
    with new_database("sqlite", folder, ready=True) as uri:
        app = make_app(uri, folder)
        archive_of(app).init()
        import_records(archive_of(app), [*web.shelf(folder / "sources"), *MORE])
        yield app
        close(app)


def location_of(archive: Archive, ibi: str) -> DocumentLocation:
    return build_registration(archive, ibi, ACTOR).location


def metadata_of(archive: Archive, ibi: str) -> list[tuple[str, str | None, str | None]]:
    found = location_of(archive, ibi).metadata
    assert {one.updated_at for one in found} <= {TIME}
    return [(one.url, one.format, one.language) for one in found]


def test_an_item_is_registered_with_its_url_and_its_metadata(archive: Archive) -> None:
    page = f"{COL}/{web.REPORT}"
    assert build_registration(archive, web.REPORT, ACTOR) == RegisterDocument(
        credentials=ACTOR,
        location=DocumentLocation(
            url=f"{page}/doc/report.pdf",
            updated_at=TIME,
            metadata=(
                MetadataLocation(f"{page}/metadata", TIME),
                MetadataLocation(f"{page}/metadata?choice=oai_dc", TIME, "oai_dc"),
            ),
        ),
        document_id=web.REPORT,
        is_original=True,
    )


@for_each("ibi", [web.REPORT, web.REPORT_IBIP, web.REPORT_ALIAS, web.REPORT_IBIP.lower()])
def test_the_given_identifier_becomes_the_document_id(archive: Archive, ibi: str) -> None:
    found = build_registration(archive, ibi, ACTOR)
    assert found.document_id == parse_identifier(ibi).text
    assert found.location == location_of(archive, web.REPORT)


@for_each(
    "ibi",
    [
        web.REPORT, web.OLD, web.NEW, web.SERVED_ELSEWHERE, web.URL_METADATA, web.WITH_METADATA,
        web.METADATA, web.EMPTY, RECORDED, COPY,
    ],
)  # fmt: skip
def test_the_registration_has_the_urls_that_the_archive_answers(archive: Archive, ibi: str) -> None:
    def answered(verbs: str) -> str:
        request = UrlRequest(parse_identifier(ibi), (web.OUTSIDE,), "", parse_verb_list(verbs))
        pairs = pairs_as_dict(parse_pairs(format_pairs(archive.list_urls(request))))
        [url] = next((words for name, words in pairs.items() if name.startswith("url.")), [""])
        return "".join(pairs.get("url", ())) or url

    location = location_of(archive, ibi)
    assert location.url == answered("")
    assert [one.url for one in location.metadata[:1]] == [*filter(None, [answered("GetMetadata")])]
    for one in location.metadata:
        if one.format is not None and one.language is None:
            assert one.url == answered(f"GetMetadata({one.format})")


def test_translations_of_metadata_have_languages_and_each_url_appears_once(
    archive: Archive,
) -> None:
    assert metadata_of(archive, RECORDED) == [
        (f"{COL}/{MTD}/doc/m.html", None, "en"),
        ("https://example.org/en.xml", "oai_dc", "en"),
        ("https://example.org/%C3%A9", "mtd2-br", "pt"),
        ("https://example.org/pt.xml", "oai_dc", "pt"),
        (f"{COL}/{MTD_PT}/doc/m.html", None, "pt"),
    ]


def test_other_editions_are_persistent_urls_and_deleted_ones_are_skipped(archive: Archive) -> None:
    first, last = location_of(archive, web.OLD), location_of(archive, web.NEW)
    assert first.previous_edition_url is None
    assert first.next_edition_url == f"http://urlib.net/{web.NEW}"
    assert last.previous_edition_url == f"http://urlib.net/{web.OLD}"
    assert last.next_edition_url is None


def test_only_an_original_is_registered_as_the_original(archive: Archive) -> None:
    assert build_registration(archive, web.REPORT, ACTOR).is_original
    assert not build_registration(archive, web.REPORT, ACTOR, allows_original=False).is_original
    assert not build_registration(archive, COPY, ACTOR).is_original


def test_the_url_of_files_with_restricted_access_is_not_sent(archive: Archive) -> None:
    for ibi in (web.CLOSED, EMBARGOED):
        location = location_of(archive, ibi)
        assert (location.url, location.updated_at) == (None, None)
        assert [one.format for one in location.metadata] == [None, "oai_dc"]


def test_every_request_can_be_parsed_by_a_resolver(archive: Archive) -> None:
    items = [item.record.identifiers[0] for item in archive.find()]
    requests = []
    for ibi in items:
        try:
            requests.append(build_registration(archive, ibi, ACTOR))
        except StorageError:
            continue
    assert len(requests) > 15
    for request in requests:
        assert parse_registry_request(format_registry_request(request)) == request


def test_an_item_that_cannot_be_registered_is_an_error(archive: Archive) -> None:
    reserved = archive.reserve()
    cases: list[tuple[str, type[Exception], str]] = [
        (web.GONE, StorageError, f"{web.GONE} has the state Deleted: it can't be registered"),
        (web.NOBODY, UnknownItem, f"no item of this Archive has the identifier {web.NOBODY}"),
        (web.FAR, UnknownItem, f"no item of this Archive has the identifier {web.FAR}"),
        (reserved.ibip, StorageError, "it is reserved for a draft; deposit the draft first"),
        (web.HIDDEN, StorageError, "no URL for all readers, because its access rule excludes"),
        (web.PLAIN_CLOSED, StorageError, "no URL for all readers, because its access rule exclud"),
        (BARE, StorageError, "no URL for all readers before 2999-01-01, the end of its embargo"),
        ("nonsense", IdentifierError, "'nonsense' is not an IBI"),
    ]
    for ibi, kind, message in cases:
        with pytest.raises(kind) as caught:
            build_registration(archive, ibi, ACTOR)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
