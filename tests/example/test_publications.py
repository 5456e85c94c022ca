"""The life of a publication in the example, from the draft to the tombstone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from io import BytesIO
from pathlib import Path

import pytest
from flask import Flask
from support.archives import archive_of
from support.example import Visitor, example_repository, form_fields, path_of, pdf

from example_app.extensions import ibi
from example_app.models import Publication


def urls_of(app: Flask, publication: Publication) -> str:
    """Return what the Archive answers to a resolver that asks for a publication."""
    query = {
        "servicesubject": "urlRequest",
        "clientinformation.ipaddress": "203.0.113.7",
        "parsedibiurl.ibi": publication.ibi,
    }
    service = f"/{archive_of(app).served().rep}"
    return app.test_client().get(service, query_string=query).text


@pytest.mark.slow_on_postgresql
def test_a_draft_has_an_identifier_and_only_its_owner_and_librarians_see_it(
    app: Flask, reader: Visitor, ana: Visitor, librarian: Visitor
) -> None:
    draft = ana.deposit()
    for visitor in (ana, librarian):
        page = visitor.get(path_of(draft))
        assert "This is a draft" in page
        assert f"http://urlib.net/{draft.ibi}" in page
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
    for text in ("Silva, Ana; Souza, Davi (2026).", "Lima, Rui", "How it rains."):
        assert text in page
    assert reader.get(f"{path_of(thesis)}doc/rain.pdf").startswith("%PDF-")
    assert reader.client.get(f"/{thesis.ibi}").location.endswith("/doc/rain.pdf")
    assert "/doc/rain.pdf" in urls_of(app, thesis)
    assert "Lima, Rui" in reader.get(f"{path_of(thesis)}metadata?choice=oai_dc")


@pytest.mark.one_database
def test_the_page_has_an_address_with_each_form_of_the_identifier(
    reader: Visitor, publish: Callable[..., Publication]
) -> None:
    thesis = publish()
    for text in (thesis.ibi_rep, thesis.ibi_ibip):
        assert "How to cite" in reader.get(f"/col/{text}/")


@pytest.mark.slow_on_postgresql
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
    assert path_of(first) in reader.get(path_of(second))
    assert reader.client.get(f"/{first.ibi}!").location.endswith("/doc/revised.pdf")


@pytest.mark.one_database
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


@pytest.mark.one_database
def test_the_message_of_the_archive_is_shown_if_it_refuses_a_publication(
    librarian: Visitor, ana: Visitor, publish: Callable[..., Publication]
) -> None:
    english = publish()
    again = ana.deposit(f"/publications/{english.id}/translation", title="On rain again")
    response = librarian.send(path_of(again), f"/publications/{again.id}/publish")
    assert response.status_code == 200
    assert "language" in response.text
    assert "This is a draft" in librarian.get(path_of(again))


@pytest.mark.one_database
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


@pytest.mark.one_database
def test_the_uploads_of_a_refused_edit_are_deleted(
    librarian: Visitor, publish: Callable[..., Publication], tmp_path: Path
) -> None:
    english = publish()
    chuva = publish(f"/publications/{english.id}/translation", language="Portuguese")
    before = set((tmp_path / "uploads").iterdir())
    fields = form_fields(language="English", uploads=pdf("other.pdf"))
    response = librarian.send(f"/publications/{chuva.id}/edit", **fields)
    assert "Please correct" in response.text
    assert set((tmp_path / "uploads").iterdir()) == before


@pytest.mark.one_database
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


@pytest.mark.slow_on_postgresql
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


@pytest.mark.one_database
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
            assert "1 March 2026" in visitor.get(path_of(thesis))
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


@pytest.mark.one_database
def test_old_links_belong_to_one_publication(
    app: Flask, reader: Visitor, ana: Visitor, publish: Callable[..., Publication]
) -> None:
    thesis = publish(old_links=" doi:10.5281/zenodo.12 \n\nhttp://old.example.org/7")
    assert "doi:10.5281/zenodo.12" in reader.get(path_of(thesis))
    item = archive_of(app).get(str(thesis.ibi))
    assert item is not None
    assert item.record.same_as == ("doi:10.5281/zenodo.12", "http://old.example.org/7")
    assert "zenodo" not in ana.get(f"/publications/{thesis.id}/edition")
