"""The life of a publication in the example, from the draft to the tombstone."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timezone
from html import unescape
from io import BytesIO
from pathlib import Path

import pytest
from flask import Flask
from support.archives import archive_of

from example_app.extensions import ibi
from example_app.models import Publication

from .conftest import Visitor, example_repository, form_fields, path_of, pdf


def urls_of(app: Flask, publication: Publication) -> str:
    """Return what the Archive answers to a resolver that asks for a publication."""
    query = {
        "servicesubject": "urlRequest",
        "clientinformation.ipaddress": "203.0.113.7",
        "parsedibiurl.ibi": publication.ibi,
    }
    service = f"/{archive_of(app).served().rep}"
    return app.test_client().get(service, query_string=query).text


def test_a_draft_has_an_identifier_and_only_its_owner_and_librarians_see_it(
    app: Flask, reader: Visitor, ana: Visitor, librarian: Visitor
) -> None:
    draft = ana.deposit()
    for visitor in (ana, librarian):
        page = visitor.get(path_of(draft))
        assert "This is a draft" in page
        assert f"http://localhost:5000/{draft.ibi}" in page
        assert visitor.get(f"/publications/{draft.id}/files/rain.pdf").startswith("%PDF-")
        assert "On rain" in visitor.get("/mine")
    for visitor in (reader, Visitor(app, "davi")):
        visitor.get(path_of(draft), 404)
        assert "On rain" not in visitor.get("/")
    assert "state" not in urls_of(app, draft)


def test_a_published_thesis_is_found_cited_read_and_resolved(
    app: Flask, reader: Visitor, publish: Callable[..., Publication]
) -> None:
    thesis = publish(advisor="Lima, Rui", abstract="How it rains.")
    assert path_of(thesis) in reader.get("/?q=ON+RAIN")
    page = reader.get(path_of(thesis))
    for text in ("SILVA, Ana; SOUZA, Davi.", "Lima, Rui", "How it rains."):
        assert text in page
    for text in (thesis.ibi_rep, thesis.ibi_ibip):
        assert "How to cite" in reader.get(f"/col/{text}/")
    assert reader.get(f"{path_of(thesis)}doc/rain.pdf").startswith("%PDF-")
    assert reader.client.get(f"/{thesis.ibi}").location.endswith("/doc/rain.pdf")
    assert "/doc/rain.pdf" in urls_of(app, thesis)
    assert "Lima, Rui" in reader.get(f"{path_of(thesis)}metadata?choice=oai_dc")


def test_a_new_edition_is_linked_when_it_is_published(
    reader: Visitor, librarian: Visitor, ana: Visitor, publish: Callable[..., Publication]
) -> None:
    first = publish()
    path = f"/publications/{first.id}/edition"
    assert 'value="On rain"' in ana.get(path)
    second = ana.deposit(path, title="On rain, revised", uploads=pdf("revised.pdf"))
    assert "later edition" not in reader.get(path_of(first))
    assert "New edition" not in ana.get(path_of(first))
    librarian.send(path_of(second), f"/publications/{second.id}/publish")
    assert "On rain, revised" in reader.get(path_of(first))
    assert f"/col/{first.ibi_rep}/" in reader.get(path_of(second))
    assert reader.client.get(f"/{first.ibi}!").location.endswith("/doc/revised.pdf")


def test_a_translation_is_chosen_by_the_language_of_the_reader(
    reader: Visitor, publish: Callable[..., Publication]
) -> None:
    english = publish()
    path = f"/publications/{english.id}/translation"
    chuva = publish(path, title="Sobre a chuva", language="Portuguese", uploads=pdf("chuva.pdf"))
    assert "Sobre a chuva" in reader.get(path_of(english))
    assert "On rain" in reader.get(path_of(chuva))
    redirect = reader.client.get(f"/{english.ibi}+", headers={"Accept-Language": "pt-BR"})
    assert redirect.location.endswith("/doc/chuva.pdf")


def test_an_edit_changes_the_item_and_keeps_files_unless_others_are_chosen(
    reader: Visitor, librarian: Visitor, publish: Callable[..., Publication]
) -> None:
    thesis = publish()
    path = f"/publications/{thesis.id}/edit"
    librarian.send(path, **form_fields(title="On snow", uploads=(BytesIO(), "")))
    assert "On snow" in reader.get(f"{path_of(thesis)}metadata")
    reader.get(f"{path_of(thesis)}doc/rain.pdf")
    librarian.send(path, **form_fields(uploads=[pdf("a.pdf"), pdf("b.pdf")]))
    reader.get(f"{path_of(thesis)}doc/b.pdf")
    reader.get(f"{path_of(thesis)}doc/rain.pdf", 404)


def test_a_deleted_draft_gives_its_identifier_and_its_files_up(
    app: Flask, reader: Visitor, ana: Visitor, tmp_path: Path
) -> None:
    draft = ana.deposit()
    ana.send(f"/publications/{draft.id}/edit", **form_fields(uploads=pdf("other.pdf")))
    assert len(list((tmp_path / "uploads").iterdir())) == 1
    page = ana.send(path_of(draft), f"/publications/{draft.id}/discard").text
    assert "The draft is deleted." in page
    assert "On rain" not in page
    reader.get(path_of(draft), 404)
    with app.app_context():
        [reservation] = archive_of(app).reservations()
    assert reservation.status == "released"
    assert list((tmp_path / "uploads").iterdir()) == []


def test_a_withdrawn_publication_leaves_a_tombstone_with_the_reason(
    app: Flask, reader: Visitor, librarian: Visitor, publish: Callable[..., Publication]
) -> None:
    thesis = publish()
    path = f"/publications/{thesis.id}/withdraw"
    assert "This field is required" in librarian.send(path, reason=" ").text
    assert librarian.send(path, reason="Plagiarism.").status_code == 410
    page = reader.get(path_of(thesis), 410)
    assert "Plagiarism." in page
    assert "Vale University Repository" in page
    reader.get(f"{path_of(thesis)}doc/rain.pdf", 410)
    assert "On rain" not in reader.get("/")
    assert "withdrawn" in Visitor(app, "ana").get("/mine")
    librarian.get(path, 409)
    librarian.get(f"/publications/{thesis.id}/edit", 403)


def test_an_embargo_ends_on_its_day_and_does_not_bind_owner_and_librarian(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime(2026, 2, 28, 23, 59, tzinfo=timezone.utc)
    monkeypatch.setattr(ibi, "clock", lambda: now)
    with example_repository(uri, tmp_path) as app:
        librarian, ana = Visitor(app, "librarian"), Visitor(app, "ana")
        thesis = ana.deposit(embargo="2026-03-01")
        librarian.send(path_of(thesis), f"/publications/{thesis.id}/publish")
        file = f"{path_of(thesis)}doc/rain.pdf"
        for visitor in (Visitor(app), Visitor(app, "davi")):
            assert "available from" in visitor.get(path_of(thesis))
            assert "2026-03-01" in visitor.get(path_of(thesis))
            assert "rain.pdf" not in visitor.get(path_of(thesis))
            visitor.get(file, 403)
        for visitor in (ana, librarian):
            assert "rain.pdf" in visitor.get(path_of(thesis))
            visitor.get(file)
        assert "rain.pdf" not in urls_of(app, thesis)
        now = datetime(2026, 3, 1, tzinfo=timezone.utc)
        assert "available from" not in Visitor(app).get(path_of(thesis))
        Visitor(app).get(file)
        assert "rain.pdf" in urls_of(app, thesis)


def test_a_complete_description_is_kept_shown_and_harvested(
    app: Flask, reader: Visitor, ana: Visitor, publish: Callable[..., Publication]
) -> None:
    thesis = publish(
        kind="Doctoral thesis",
        authors="Silva, Ana; 0000-0002-1825-0097; Vale University https://ror.org/0va1ey030",
        other_titles="Sobre a chuva [pt]",
        advisor="Lima, Rui; 1234567890123456",
        committee="Costa, Eva; Serra University\nRocha, Noel",
        degree="Doctorate in Meteorology",
        level="doctoral",
        programme="Meteorology",
        institution="Vale University",
        defended="2026-02-03",
        abstract="How it rains.",
        other_abstracts="Como chove. [pt]",
        subjects="rain [en]\nchuva [pt]",
        licence="CC-BY-4.0",
        funding="Vale Foundation; 2024/1; Rain",
        related="IsSupplementedBy doi:10.5555/12345678",
        publisher="Vale University Press",
        old_links=" doi:10.5281/zenodo.12 \n\nhttp://old.example.org/7",
    )
    item = archive_of(app).get(str(thesis.ibi))
    assert item is not None
    assert item.record.same_as == ("doi:10.5281/zenodo.12", "http://old.example.org/7")
    work = item.description
    assert work is not None
    assert [title.value for title in work.titles] == ["On rain", "Sobre a chuva"]
    [author] = work.creators
    assert author.orcid == "0000-0002-1825-0097"
    assert author.affiliations[0].ror == "https://ror.org/0va1ey030"
    assert [(one.inverted, one.role) for one in work.contributors] == [
        ("Lima, Rui", "advisor"),
        ("Costa, Eva", "committee member"),
        ("Rocha, Noel", "committee member"),
    ]
    assert work.degree is not None
    assert (work.degree.level, str(work.degree.defended and work.degree.defended.iso)) == (
        "doctoral",
        "2026-02-03",
    )
    page = reader.get(path_of(thesis))
    for text in (
        "https://orcid.org/0000-0002-1825-0097",
        "http://lattes.cnpq.br/1234567890123456",
        "Doctorate in Meteorology",
        "Como chove.",
        "Vale Foundation",
        "CC BY 4.0",
        "https://doi.org/10.5281/zenodo.12",
    ):
        assert text in page, text
    form = ana.get(f"/publications/{thesis.id}/edition")
    for text in ("Silva, Ana; 0000-0002-1825-0097; Vale University", "Sobre a chuva [pt]"):
        assert text in form, text


def test_what_the_archive_refuses_is_beside_the_field(
    librarian: Visitor, publish: Callable[..., Publication]
) -> None:
    thesis = publish()
    for field, value in (
        ("authors", "Silva, Ana; 0000-0002-1825-0098"),
        ("funding", "; ; A grant without a funder"),
        ("related", "a book"),
        ("issn", "1234"),
        ("old_links", "doi:none"),
    ):
        fields = form_fields(**{field: value}, uploads=(BytesIO(), ""))
        page = librarian.send(f"/publications/{thesis.id}/edit", **fields).text
        about = page.partition(f'id="{field}-about">')[2].partition("</p>")[0]
        assert 'class="wrong"' in about, field
        assert value in unescape(page)
    assert "On rain" in librarian.get(path_of(thesis))


def test_the_librarian_withdraws_imported_items_and_is_sent_to_the_form_of_publications(
    app: Flask,
    reader: Visitor,
    ana: Visitor,
    librarian: Visitor,
    publish: Callable[..., Publication],
) -> None:
    thesis = publish()
    with app.app_context():
        imported = archive_of(app).without_session().deposit(title="Snow", creators=["Lima, Rui"])
    ana.get("/admin/ibi", 403)
    assert reader.client.get("/admin/ibi").location.startswith("/login?next=")
    assert 'href="/admin/ibi"' in librarian.get("/")
    assert 'href="/admin/ibi"' not in ana.get("/")
    page = librarian.get("/admin/ibi?q=rain")
    assert "belongs to a record of the repository" in page
    librarian.get(f"/admin/ibi?withdraw={thesis.ibi}", 409)
    path = f"/admin/ibi?withdraw={imported.ibi}"
    token = re.search(r'name="ibi_token" value="([^"]+)"', librarian.get(path))
    assert token is not None
    response = librarian.send(path, ibi_token=token[1], reason="An error.")
    assert "The item was withdrawn:" in response.text
    assert "An error." in reader.get(f"/col/{imported.ibi}/", 410)
