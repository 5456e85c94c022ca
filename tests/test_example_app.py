"""The pages of the example repository, as readers, members and a librarian use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of
from support.cases import for_each
from support.databases import new_database
from support.example import (
    Visitor,
    close_example,
    example_repository,
    form_fields,
    path_of,
    pdf,
)

from example_app import create_app
from example_app.extensions import ibi
from example_app.models import Publication
from example_app.seed import PASSWORD


@pytest.fixture
def app(uri: str, tmp_path: Path) -> Iterator[Flask]:
    """The example with its users and without publications."""
    with example_repository(uri, tmp_path) as app:
        yield app


@pytest.fixture
def reader(app: Flask) -> Visitor:
    return Visitor(app)


@pytest.fixture
def ana(app: Flask) -> Visitor:
    return Visitor(app, "ana")


@pytest.fixture
def librarian(app: Flask) -> Visitor:
    return Visitor(app, "librarian")


@pytest.fixture
def publish(ana: Visitor, librarian: Visitor) -> Callable[..., Publication]:
    """A function that deposits a publication of Ana and publishes it."""

    def deposit_and_publish(path: str = "/deposit", **fields: Any) -> Publication:
        publication = ana.deposit(path, **fields)
        action = f"/publications/{publication.id}/publish"
        assert librarian.send(path_of(publication), action).status_code == 200
        return publication

    return deposit_and_publish


def urls_of(app: Flask, publication: Publication) -> str:
    """Return what the Archive answers to a resolver that asks for a publication."""
    query = {
        "servicesubject": "urlRequest",
        "clientinformation.ipaddress": "203.0.113.7",
        "parsedibiurl.ibi": publication.ibi,
    }
    service = f"/{archive_of(app).served().rep}"
    return app.test_client().get(service, query_string=query).text


# --- the life of a publication -------------------------------------------------------------------


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
        assert archive_of(app).reservations() == []
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


# --- forms, users and lists ----------------------------------------------------------------------


@pytest.mark.one_database
@for_each(
    ("fields", "message"),
    [
        ({"title": " "}, "This field is required."),
        ({"year": "soon"}, "Not a valid integer value."),
        ({"language": "xx"}, "Not a valid choice."),
        ({"embargo": "tomorrow"}, "Not a valid date value."),
        ({"uploads": (BytesIO(), "")}, "Choose at least one file."),
        ({"uploads": (BytesIO(b"%PDF-"), "a.exe")}, "Choose PDF files."),
        ({"uploads": (BytesIO(b"GIF89a"), "a.pdf")}, "a.pdf is not a PDF file."),
        ({"uploads": [pdf("a.pdf"), pdf("a.pdf")]}, "Choose files with different names."),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_stored(
    ana: Visitor, tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    response = ana.send("/deposit", **form_fields(**fields))
    assert message in response.text
    assert 'aria-invalid="true"' in response.text
    assert "On rain" not in ana.get("/mine")
    assert not (tmp_path / "uploads").exists()


@pytest.mark.one_database
def test_the_name_of_an_upload_contains_no_folder(ana: Visitor) -> None:
    draft = ana.deposit(uploads=pdf("..\\..\\secret/rain.pdf"))
    assert list(draft.files) == ["rain.pdf"]


@pytest.mark.one_database
def test_requests_without_a_csrf_token_are_refused(
    librarian: Visitor, publish: Callable[..., Publication]
) -> None:
    thesis = publish()
    pages = ("edition", "translation", "edit", "publish", "discard", "withdraw")
    for path in (
        "/login",
        "/logout",
        "/deposit",
        *(f"/publications/{thesis.id}/{p}" for p in pages),
    ):
        response = librarian.client.post(path, data={**form_fields(), "reason": "none"})
        assert response.status_code == 400, path
        assert "CSRF" in response.text
    assert "How to cite" in librarian.get(path_of(thesis))


@pytest.mark.one_database
def test_each_page_is_for_those_who_may_use_it(
    app: Flask, ana: Visitor, librarian: Visitor, publish: Callable[..., Publication]
) -> None:
    public, draft = publish(), ana.deposit()
    reader, davi = Visitor(app), Visitor(app, "davi")
    for path, statuses in {
        "/deposit": (302, 200, 200, 200),
        "/mine": (302, 200, 200, 200),
        f"/publications/{public.id}/edition": (302, 403, 200, 200),
        f"/publications/{public.id}/translation": (302, 403, 200, 200),
        f"/publications/{public.id}/edit": (302, 403, 403, 200),
        f"/publications/{public.id}/withdraw": (302, 403, 403, 200),
        f"/publications/{draft.id}/edition": (302, 403, 409, 409),
        f"/publications/{draft.id}/edit": (302, 403, 200, 200),
        f"/publications/{draft.id}/withdraw": (302, 403, 403, 409),
        f"/publications/{draft.id}/files/rain.pdf": (302, 403, 200, 200),
        "/publications/999/edit": (302, 404, 404, 404),
    }.items():
        for visitor, status in zip((reader, davi, ana, librarian), statuses, strict=True):
            with visitor.client.get(path) as response:
                assert response.status_code == status, path
                assert status != 302 or response.location.startswith("/login?next=")
    response = ana.send(path_of(draft), f"/publications/{draft.id}/publish")
    assert response.status_code == 403
    Visitor(app).get(path_of(draft), 404)
    response = librarian.send(path_of(draft), f"/publications/{public.id}/discard")
    assert response.status_code == 409


@pytest.mark.one_database
def test_users_log_in_and_out(reader: Visitor) -> None:
    for name, password in (("ana", "wrong"), ("nobody", PASSWORD)):
        page = reader.send("/login", name=name, password=password).text
        assert "The user name or the password is wrong." in page
    page = reader.send("/login?next=/deposit", name="ana", password=PASSWORD).text
    assert "Deposit a publication" in page
    assert "You are logged out." in reader.send("/", "/logout").text
    for target in ("//evil.example", "/\\evil.example", "/%09/evil.example", "http://evil.example"):
        path = f"/login?next={target}"
        response = reader.send(path, name="ana", password=PASSWORD)
        assert response.request.path == "/mine"


@pytest.mark.one_database
def test_the_list_is_searched_and_divided_into_pages(
    app: Flask, reader: Visitor, publish: Callable[..., Publication]
) -> None:
    for number in range(11):
        publish(title=f"Report {number:02}", authors=f"Author_{number}")
    first = reader.get("/")
    assert "11 publications" in first
    assert "Page 1 of 2" in first
    assert "Report 10" not in first
    assert "Report 10" in reader.get("/?page=2")
    assert "1 publication with “_3”" in reader.get("/?q=_3")
    assert "0 publications" in reader.get("/?q=%25")
    reader.get("/?page=3", 404)


@pytest.mark.one_database
def test_a_failed_search_of_a_page_says_what_to_run_before_the_setup(tmp_path: Path) -> None:
    with new_database("sqlite", tmp_path) as uri:
        app = create_app({"SQLALCHEMY_DATABASE_URI": uri})
        for path in ("/", "/imported", "/col/8JMKD3MGP8W/35MME4E/"):
            page = app.test_client().get(path)
            assert page.status_code == 503
            assert "flask --app example_app db upgrade" in page.text
        close_example(app)


# --- commands ------------------------------------------------------------------------------------


@pytest.mark.no_tables
def test_the_commands_of_the_setup_page_set_everything_up(uri: str, tmp_path: Path) -> None:
    settings = {
        "SQLALCHEMY_DATABASE_URI": uri,
        "UPLOAD_FOLDER": str(tmp_path / "uploads"),
        "IBI_FILES_FOLDER": str(tmp_path / "files"),
    }
    app = create_app(settings)
    runner = app.test_cli_runner()
    for words in ("ibi init", "db upgrade", "db check", "seed", "seed"):
        result = runner.invoke(args=words.split())
        assert result.exit_code == 0, result.output
    reader = Visitor(app)
    page = reader.get("/?q=Amazon")
    assert page.count("Ice clouds over the Amazon basin") == 2
    assert "withdrawn" in Visitor(app, "librarian").get("/mine")
    assert runner.invoke(args=["db", "downgrade"]).exit_code == 0
    assert list(archive_of(app).find())
    close_example(app)
