"""Metadata: the page, the format oai_dc, and redirects to metadata with another URL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from flask import Flask
from support.archives import archive_of, close, import_records, make_app
from support.shelf import Shelf
from support.web import (
    CLOSED_METADATA,
    FAR,
    FAR_METADATA,
    HOSTILE,
    INSIDE,
    METADATA,
    NETWORK,
    NEW,
    OUTSIDE,
    PORTUGUESE,
    REPORT,
    REPORT_ALIAS,
    REPORT_IBIP,
    URL_METADATA,
    WITH_CLOSED_METADATA,
    WITH_METADATA,
    ask,
    ask_urls,
    follow,
    rep,
)

from flask_ibi_archive import CatalogueRecord, IBIArchive, MetadataItem
from flask_ibi_archive.core.records.record import AccessRule
from flask_ibi_archive.core.records.work import Work

DC = "{http://purl.org/dc/elements/1.1/}"
LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def oai_dc(app: Flask, ibi: str) -> ElementTree.Element:
    """Return the metadata of an item as a parsed document."""
    answer = ask(app, f"/col/{ibi}/metadata?choice=oai_dc")
    assert answer.status == 200
    assert answer.headers.getlist("Content-Type") == ["text/xml; charset=utf-8"]
    assert answer.body.startswith(b'<?xml version="1.0" encoding="UTF-8"?>')
    return ElementTree.fromstring(answer.body)


def test_metadata_without_a_format_are_a_page_or_another_item(web: Flask) -> None:
    # metadata without a format are a page
    for ibi in [REPORT, REPORT_IBIP, REPORT_ALIAS]:
        answer = ask(web, f"/col/{ibi}/metadata")
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert 'lang="en">A report</dd>' in answer.text
    # the address redirects to metadata that are an item
    place = f"http://mtc-m16c.sid.inpe.br/col/{METADATA}/doc/page.html"
    assert leads_to(web, f"/col/{WITH_METADATA}/metadata") == [place]
    assert leads_to(web, f"/col/{METADATA}/metadata") == [place]
    assert follow(web, place).status == 200
    far = "https://example.org/11.xml"
    assert leads_to(web, f"/col/{WITH_METADATA}/metadata?choice=oai_dc") == [far]
    assert leads_to(web, f"/col/{METADATA}/metadata?choice=oai_dc") == [far]
    # the page of restricted metadata says that access is restricted
    place = f"http://mtc-m16c.sid.inpe.br/col/{CLOSED_METADATA}/doc/page.html"
    for ibi in (WITH_CLOSED_METADATA, CLOSED_METADATA):
        assert leads_to(web, f"/col/{ibi}/metadata", remote=INSIDE) == [place]
        answer = ask(web, f"/col/{ibi}/metadata", remote=OUTSIDE)
        assert answer.status == 403
        assert "Access to this item is restricted" in answer.text


def test_oai_dc_contains_every_value_that_the_reader_may_see(app: Flask) -> None:
    # oai dc contains every value unchanged
    values = [HOSTILE, "<![CDATA[x]]>", "&#0;", "a\r\nb", "{{ 7 * 7 }}", "</oai_dc:dc>"]
    dc = {"title": values, "description": [{"value": HOSTILE, "lang": "zh-Hant-TW"}]}
    import_records(archive_of(app), [{"rep": REPORT, "metadata": {"dc": dc}}])
    root = oai_dc(app, REPORT)
    assert [child.text for child in root.iter(f"{DC}title")] == values
    [description] = root.iter(f"{DC}description")
    assert (description.text, description.get(LANG)) == (HOSTILE, "zh-Hant-TW")
    page = ask(app, f"/col/{REPORT}/metadata").text
    assert "<script>" not in page
    assert "{{ 7 * 7 }}" in page
    # users outside the networks see the metadata of restricted metadata
    outer, inner = rep(11), rep(12)
    import_records(archive_of(app), [
        {"rep": outer, "metadata": {"ibi": inner}},
        {"rep": inner, "content_type": "Metadata", "metadata": {"dc": {"title": ["About"]}},
         "access": {"networks": ["150.163.0.0/16"]}},
    ])  # fmt: skip
    [place] = leads_to(app, f"/col/{outer}/metadata", remote=OUTSIDE)
    assert place == f"http://mtc-m16c.sid.inpe.br/col/{inner}/metadata"
    page = follow(app, place, remote=OUTSIDE).headers["Location"]
    assert "About" in follow(app, page, remote=OUTSIDE).text


def test_known_formats_are_the_same_in_url_lists_and_others_not_found(web: Flask) -> None:
    # an unknown format is not found
    for choice in ["marc", "oai_dc2", "oai_dc) GetTranslation(pt", "%ff", "日本"]:
        for ibi in [REPORT, WITH_METADATA, URL_METADATA]:
            answer = ask(web, f"/col/{ibi}/metadata?choice={choice}&x".encode())
            assert answer.status == 404
            assert "no metadata in this format" in answer.text
            assert f"/col/{ibi}/" in answer.text
    # the url list and the page have the same metadata
    for ibi in [REPORT, PORTUGUESE, NEW, URL_METADATA, WITH_METADATA, METADATA]:
        for verbs in ["GetMetadata", "GetMetadata(oai_dc)"]:
            pairs = ask_urls(web, ibi, verbs).items()
            urls = [words[0] for name, words in pairs if name.startswith("url.")]
            choice = "?choice=oai_dc" if "oai" in verbs else ""
            answer = ask(web, f"/col/{ibi}/metadata{choice}")
            if answer.status == 302:
                assert answer.headers["Location"] == urls[0]
            else:
                assert answer.status == (200 if urls else 404)
                assert [follow(web, url).body for url in urls[:1]] in ([], [answer.body])


def leads_to(app: Flask, target: str, **options: Any) -> list[str]:
    answer = ask(app, target, **options)
    assert answer.status == 302, answer.status
    return answer.headers.getlist("Location")


def test_the_address_redirects_to_the_persistent_url_of_metadata_in_another_archive(
    web_with: Callable[..., Flask],
) -> None:
    app = web_with(IBI_PERSISTENT_URL_BASE="https://example.org/ibi/")
    for rest, end in (("", ""), ("?choice=oai_dc", ":(oai_dc)")):
        place = f"https://example.org/ibi/{FAR}{end}"
        assert leads_to(app, f"/col/{FAR_METADATA}/metadata{rest}") == [place]


ORIGIN = "http://mtc-m16c.sid.inpe.br"
PAPER, ABOUT, TRANSLATED = rep(1), rep(2), rep(3)
MOMENT = "2010-05-06T07:08:09Z"
ELSEWHERE = "http://a.example/marc.xml"
Create = Callable[..., Flask]


def catalogue(**about: Any) -> Shelf:
    """Return a report and its metadata, in the catalogue of a host."""
    moment = datetime(2010, 5, 6, 7, 8, 9, tzinfo=timezone.utc)
    if "access" in about:
        about["access"] = AccessRule((NETWORK,), about["access"]["others"])
    about = {"rep": ABOUT, "language": "en", "title": "Rain", **about}
    chuva = {"rep": TRANSLATED, "language": "pt", "title": "Chuva"}
    described = {"content_type": "Metadata", "timestamp": moment}
    return Shelf(
        CatalogueRecord(rep=PAPER, metadata=MetadataItem(ABOUT), timestamp=moment),
        CatalogueRecord(**described, **about, translations={"pt": TRANSLATED}),
        CatalogueRecord(**described, **chuva, translations={"en": ABOUT}),
    )


@pytest.fixture(params=["tables of the package", "catalogue of a host"])
def create(request: pytest.FixtureRequest, uri: str, tmp_path: Path) -> Iterator[Create]:
    apps = []

    def make(**about: Any) -> Flask:
        is_host = request.param == "catalogue of a host"
        ibi = IBIArchive(catalogue=catalogue(**about)) if is_host else IBIArchive()

        @ibi.metadata_format(
            "note", media_type="application/xml", schema="http://a.example/x", namespace="urn:x"
        )
        def write(work: Work) -> str:
            return f"<note about='{work.ibi}'>{work.title}</note>"

        app = make_app(uri, tmp_path, ibi)
        apps.append(app)
        archive_of(app).init()
        if not is_host:
            described = {"content_type": "Metadata", "timestamp": MOMENT}
            rain, chuva = ({"metadata": {"dc": {"title": [title]}}} for title in ("Rain", "Chuva"))
            languages = {"language": "en", "translations": {"pt": TRANSLATED}}
            import_records(
                archive_of(app),
                [
                    {"rep": PAPER, "metadata": {"ibi": ABOUT}, "timestamp": MOMENT},
                    {"rep": ABOUT, **described, **rain, **languages, **about},
                    {"rep": TRANSLATED, **described, **chuva},
                ],
            )
        return app

    yield make
    for app in apps:
        close(app)


def test_the_archive_writes_the_formats_of_metadata_items_and_their_translations(
    create: Create,
) -> None:
    # the url list states the formats that the archive writes
    app = create()
    for name, text in (("oai_dc", "<dc:title>Rain</dc:title>"), ("note", f"'{PAPER}'>Rain<")):
        urls = ask_urls(app, PAPER, f"GetMetadata({name})")
        relation = f".metadata({name})"
        url = f"{ORIGIN}/col/{PAPER}/metadata?choice={name}"
        assert urls[f"url{relation}"] == (url,)
        assert urls[f"contenttype{relation}"] == ("Metadata",)
        assert urls[f"timestamp{relation}"] == (MOMENT,)
        assert urls[f"ibi{relation}"] == ("rep", ABOUT)
        answer = ask(app, url.removeprefix(ORIGIN))
        assert answer.status == 200
        assert text in answer.text
    # formats of the package are only in the list if the request names them
    assert "url.metadata(datacite)" in ask_urls(app, PAPER, "GetMetadata(datacite)")
    assert "url.metadata(datacite)" not in ask_urls(app, PAPER, "GetMetadata(oai_dc)")
    assert "url.metadata(far)" not in ask_urls(app, PAPER, "GetMetadata(far)")
    assert ask_urls(app, PAPER, "GetMetadata")["ibi.metadata"] == ("rep", ABOUT)
    # the translations of metadata items are written too
    rain, chuva = "<dc:title>Rain</dc:title>", "<dc:title>Chuva</dc:title>"
    for persistent_url, place, text in [
        (f"/{PAPER}:(oai_dc)+(en)", PAPER, rain),
        (f"/{PAPER}:(oai_dc)+(pt)", TRANSLATED, chuva),
        # a resolver continues with the metadata item if another Archive has the report
        (f"/{ABOUT}:(oai_dc)", ABOUT, rain),
        (f"/{ABOUT}:(oai_dc)+(pt)", TRANSLATED, chuva),
    ]:
        answer = ask(app, persistent_url)
        url = f"{ORIGIN}/col/{place}/metadata?choice=oai_dc"
        assert (answer.status, answer.headers.get("Location")) == (302, url), persistent_url
        document = ask(app, url.removeprefix(ORIGIN))
        assert (document.status, text in document.text) == (200, True)


def test_a_format_that_the_metadata_item_states_has_precedence(create: Create) -> None:
    app = create(formats={"note": ELSEWHERE})
    urls = ask_urls(app, PAPER, "GetMetadata(note)")
    assert urls["url.metadata(note)"] == (ELSEWHERE,)
    assert urls["ibi.metadata(note)"] == ("rep", ABOUT)
    answer = ask(app, f"/col/{PAPER}/metadata?choice=note")
    assert (answer.status, answer.headers["Location"]) == (302, ELSEWHERE)


@pytest.mark.parametrize("others", ["none", "metadata"])
def test_hidden_metadata_are_written_in_no_format(create: Create, others: str) -> None:
    app = create(access={"networks": [NETWORK], "others": others})
    is_public = others == "metadata"  # only the files are restricted
    for user in (INSIDE, OUTSIDE):
        urls = ask_urls(app, PAPER, "GetMetadata(note)", user=user)
        assert ("url.metadata(note)" in urls) is is_public
        answer = ask(app, f"/col/{PAPER}/metadata?choice=note", remote=user)
        assert ((answer.status == 200), "Rain" in answer.text) == (is_public, is_public)
