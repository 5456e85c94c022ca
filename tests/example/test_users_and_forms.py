"""The forms, users, lists and commands of the example."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of
from support.databases import new_database

from example_app import create_app
from example_app.models import Publication
from example_app.seed import PASSWORD, seed

from .conftest import Visitor, close_example, form_fields, path_of, pdf


def test_a_wrong_field_is_named_and_nothing_is_stored(ana: Visitor, tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"title": " "}, "This field is required."),
        ({"year": "soon"}, "Not a valid integer value."),
        ({"language": "xx"}, "Not a valid choice."),
        ({"embargo": "tomorrow"}, "Not a valid date value."),
        ({"uploads": (BytesIO(), "")}, "Choose at least one file."),
        ({"uploads": (BytesIO(b"%PDF-"), "a.exe")}, "Choose PDF or CSV files."),
        ({"uploads": (BytesIO(b"GIF89a"), "a.pdf")}, "a.pdf is not a PDF file."),
        ({"uploads": [pdf("a.pdf"), pdf("a.pdf")]}, "Choose files with different names."),
    ]
    for fields, message in wrong:
        response = ana.send("/deposit", **form_fields(**fields))
        assert message in response.text
        assert 'aria-invalid="true"' in response.text
    assert "On rain" not in ana.get("/mine")
    assert not (tmp_path / "uploads").exists()


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


def test_every_page_says_what_to_run_before_the_setup(tmp_path: Path) -> None:
    with new_database("sqlite", tmp_path) as uri:
        app = create_app({"SQLALCHEMY_DATABASE_URI": uri})
        client = app.test_client()
        with client.session_transaction() as session:
            session["_user_id"] = "1"
        for path in ("/", "/imported", "/mine", "/col/8JMKD3MGP8W/35MME4E/"):
            page = client.get(path)
            assert page.status_code == 503
            assert "python -m example_app" in page.text
        close_example(app)


@pytest.mark.no_tables
def test_the_migrations_create_the_tables_of_the_models(uri: str) -> None:
    app = create_app({"SQLALCHEMY_DATABASE_URI": uri})
    runner = app.test_cli_runner()
    for words in ("ibi init", "db upgrade", "db check", "db downgrade"):
        result = runner.invoke(args=words.split())
        assert result.exit_code == 0, result.output
    assert not list(archive_of(app).find())
    close_example(app)


def test_the_users_and_the_publications_are_added_once(app: Flask) -> None:
    for _ in range(2):
        with app.app_context():
            seed()
    assert Visitor(app).get("/?q=Amazon").count("Ice clouds over the Amazon basin") == 2
    assert "withdrawn" in Visitor(app, "librarian").get("/mine")
