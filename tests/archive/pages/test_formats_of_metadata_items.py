"""The formats of an item whose metadata are an item of their own: the main case of the standard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of, close, import_records, make_app
from support.shelf import Shelf
from support.web import INSIDE, NETWORK, OUTSIDE, ask, ask_urls, rep

from flask_ibi_archive import CatalogueRecord, IBIArchive, MetadataItem
from flask_ibi_archive.core.records.record import AccessRule
from flask_ibi_archive.core.records.work import Work

ORIGIN = "http://mtc-m16c.sid.inpe.br"
REPORT, ABOUT, TRANSLATED = rep(1), rep(2), rep(3)
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
        CatalogueRecord(rep=REPORT, metadata=MetadataItem(ABOUT), timestamp=moment),
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
                    {"rep": REPORT, "metadata": {"ibi": ABOUT}, "timestamp": MOMENT},
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
    for name, text in (("oai_dc", "<dc:title>Rain</dc:title>"), ("note", f"'{REPORT}'>Rain<")):
        urls = ask_urls(app, REPORT, f"GetMetadata({name})")
        relation = f".metadata({name})"
        url = f"{ORIGIN}/col/{REPORT}/metadata?choice={name}"
        assert urls[f"url{relation}"] == (url,)
        assert urls[f"contenttype{relation}"] == ("Metadata",)
        assert urls[f"timestamp{relation}"] == (MOMENT,)
        assert urls[f"ibi{relation}"] == ("rep", ABOUT)
        answer = ask(app, url.removeprefix(ORIGIN))
        assert answer.status == 200
        assert text in answer.text
    # formats of the package are only in the list if the request names them
    assert "url.metadata(datacite)" in ask_urls(app, REPORT, "GetMetadata(datacite)")
    assert "url.metadata(datacite)" not in ask_urls(app, REPORT, "GetMetadata(oai_dc)")
    assert "url.metadata(far)" not in ask_urls(app, REPORT, "GetMetadata(far)")
    assert ask_urls(app, REPORT, "GetMetadata")["ibi.metadata"] == ("rep", ABOUT)
    # the translations of metadata items are written too
    rain, chuva = "<dc:title>Rain</dc:title>", "<dc:title>Chuva</dc:title>"
    for persistent_url, place, text in [
        (f"/{REPORT}:(oai_dc)+(en)", REPORT, rain),
        (f"/{REPORT}:(oai_dc)+(pt)", TRANSLATED, chuva),
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
    urls = ask_urls(app, REPORT, "GetMetadata(note)")
    assert urls["url.metadata(note)"] == (ELSEWHERE,)
    assert urls["ibi.metadata(note)"] == ("rep", ABOUT)
    answer = ask(app, f"/col/{REPORT}/metadata?choice=note")
    assert (answer.status, answer.headers["Location"]) == (302, ELSEWHERE)


@pytest.mark.parametrize("others", ["none", "metadata"])
def test_hidden_metadata_are_written_in_no_format(create: Create, others: str) -> None:
    app = create(access={"networks": [NETWORK], "others": others})
    is_public = others == "metadata"  # only the files are restricted
    for user in (INSIDE, OUTSIDE):
        urls = ask_urls(app, REPORT, "GetMetadata(note)", user=user)
        assert ("url.metadata(note)" in urls) is is_public
        answer = ask(app, f"/col/{REPORT}/metadata?choice=note", remote=user)
        assert ((answer.status == 200), "Rain" in answer.text) == (is_public, is_public)
