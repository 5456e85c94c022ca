"""Metadata: the page, the format oai_dc, and redirects to metadata with another URL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest
from flask import Flask
from support.archives import archive_of, import_records
from support.web import (
    CLOSED_METADATA,
    FAR,
    FAR_METADATA,
    HOSTILE,
    INSIDE,
    METADATA,
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

DC = "{http://purl.org/dc/elements/1.1/}"
LANG = "{http://www.w3.org/XML/1998/namespace}lang"
LOCATION = "{http://www.w3.org/2001/XMLSchema-instance}schemaLocation"


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
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert 'lang="en">A report</dd>' in answer.text
        assert ">Banon</dd>" in answer.text
        assert f"/col/{REPORT}/metadata?choice=oai_dc" in answer.text
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
    # oai dc has its namespaces
    root = oai_dc(web, REPORT)
    assert root.tag == "{http://www.openarchives.org/OAI/2.0/oai_dc/}dc"
    assert root.get(LOCATION) == (
        "http://www.openarchives.org/OAI/2.0/oai_dc/ http://www.openarchives.org/OAI/2.0/oai_dc.xsd"
    )
    elements = [(child.tag, child.text, child.get(LANG)) for child in root]
    formats = [element for element in elements if element[0] == f"{DC}format"]
    assert (f"{DC}format", "application/pdf", None) in formats
    assert [element for element in elements if element not in formats] == [
        (f"{DC}title", "A report", "en"),
        (f"{DC}creator", "Banon", None),
        # what the Archive knows
        (f"{DC}identifier", f"http://urlib.net/{REPORT_IBIP}", None),
        (f"{DC}language", "eng", None),
        (f"{DC}rights", "info:eu-repo/semantics/openAccess", None),
    ]


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
            for target in (
                f"/col/{ibi}/metadata?choice={choice}",
                f"/col/{ibi}/metadata?choice={choice}&x",
            ):
                answer = ask(web, target.encode("latin-1" if choice == "\xff" else "utf-8"))
                assert answer.status == 404
                assert "no metadata in this format" in answer.text
                assert f"/col/{ibi}/" in answer.text
    # the url list and the page have the same metadata
    for ibi in [REPORT, PORTUGUESE, NEW, URL_METADATA, WITH_METADATA, METADATA]:
        for verbs in ["GetMetadata", "GetMetadata(oai_dc)"]:
            url = next(
                (
                    words[0]
                    for name, words in ask_urls(web, ibi, verbs).items()
                    if name.startswith("url.")
                ),
                None,
            )
            choice = "?choice=oai_dc" if "oai" in verbs else ""
            answer = ask(web, f"/col/{ibi}/metadata{choice}")
            if url is None:
                assert answer.status == 404
            elif answer.status == 302:
                assert answer.headers["Location"] == url
            else:
                assert follow(web, url).body == answer.body


def leads_to(app: Flask, target: str, **options: Any) -> list[str]:
    answer = ask(app, target, **options)
    assert answer.status == 302, answer.status
    return answer.headers.getlist("Location")


@pytest.mark.parametrize("base", ["https://example.org/ibi/"])
def test_the_address_redirects_to_the_persistent_url_of_metadata_in_another_archive(
    web_with: Callable[..., Flask], base: str
) -> None:
    app = web_with(IBI_PERSISTENT_URL_BASE=base)
    start = base.rstrip("/")
    assert leads_to(app, f"/col/{FAR_METADATA}/metadata") == [f"{start}/{FAR}"]
    assert leads_to(app, f"/col/{FAR_METADATA}/metadata?choice=oai_dc") == [
        f"{start}/{FAR}:(oai_dc)"
    ]
