"""The pages of the example and those of the package are in the same language."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from babel.messages.frontend import CommandLineInterface
from babel.messages.pofile import read_po
from flask import Flask
from support.cases import for_each
from support.example import Visitor, form_fields, path_of
from support.pages import list_wrong_messages

from example_app.languages import FOLDER
from example_app.models import Publication

ROOT = Path(__file__).parents[2]
IN_ENGLISH = ("Publications", "Log in", "Imported items", "Not found", "Search")


@for_each(
    ("language", "texts"),
    [
        ("en-GB", ("Log in", "Theses and reports", "0 publications")),
        ("es-MX", ("Iniciar sesión", "Tesis e informes", "0 publicaciones")),
        ("PT-br", ("Entrar", "Teses e relatórios", "0 publicações")),
        ("fr", ("Log in", "Theses and reports", "0 publications")),
    ],
)
def test_a_page_is_in_the_language_of_the_browser(
    app: Flask, language: str, texts: tuple[str, ...]
) -> None:
    response = app.test_client().get("/", headers={"Accept-Language": language})
    tag = "en" if language == "fr" else language[:2].lower()
    assert f'<html lang="{tag}">' in response.text
    assert response.headers["Content-Language"] == tag
    assert {"Accept-Language", "Cookie"} <= set(response.headers["Vary"].split(", "))
    for text in texts:
        assert text in response.text
    # bytes that are not UTF-8 are no error
    assert app.test_client().get("/ibi/statistics?lang=\xf3").status_code == 200


@for_each("first", ["/", "/ibi/statistics", "/login", "/imported", "/nothing"])
def test_the_language_that_a_reader_chooses_is_that_of_all_pages(app: Flask, first: str) -> None:
    client = app.test_client()
    page = client.get(first).text
    assert f'href="{first}?lang=pt" lang="pt"' in page
    referrer = {"Referer": f"http://localhost{first}"}
    chosen = client.get(f"{first}?lang=pt", headers=referrer)
    assert chosen.status_code in (200, 404)
    for path in ("/", "/login", "/ibi/statistics", "/col/8JMKD3MGP8W/35MME4F/", "/nothing"):
        text = client.get(path).text
        assert '<html lang="pt">' in text, path
        assert "Ir para o conteúdo" in text
        main = text.partition("<main")[2]
        assert not [word for word in IN_ENGLISH if word in main], path


def test_the_page_of_a_publication_and_the_forms_are_translated(
    app: Flask, ana: Visitor, publish: Callable[..., Publication]
) -> None:
    thesis = publish(embargo="2999-03-01")
    texts = ana.get(f"{path_of(thesis)}?lang=es")
    for text in ("Tesis", "inglés", "disponibles a partir del", "1 de marzo de 2999", "Cómo citar"):
        assert text in texts
    response = ana.send("/deposit?lang=pt", **form_fields(title=" ", uploads=(b"x", "")))
    for text in ("Corrija o seguinte:", "Título", "Escolha pelo menos um arquivo."):
        assert text in response.text
    assert "Campo obrigatório." in response.text  # a message of WTForms
    reader = Visitor(app)
    reader.get("/?lang=es")
    assert "Inicie sesión." in reader.client.get("/mine", follow_redirects=True).text


@for_each("language", ["es", "pt"])
def test_a_catalogue_translates_each_message_of_the_example(tmp_path: Path, language: str) -> None:
    pot = str(tmp_path / "messages.pot")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        words: list[Any] = ["pybabel", "-q", "extract", "-F", "pyproject.toml", "-k", "_l"]
        assert not CommandLineInterface().run([*words, "-o", pot, "example_app"])
    with Path(pot).open("rb") as file:
        messages = read_po(file)
    with (FOLDER / language / "LC_MESSAGES" / "messages.po").open("rb") as file:
        catalogue = read_po(file, abort_invalid=True)
    assert {one.id for one in catalogue} == {one.id for one in messages}
    assert [one.id for one in catalogue if not one.string] == []
    assert list_wrong_messages(catalogue) == []


def test_harvesters_may_use_post_in_spite_of_the_csrf_protection(app: Flask) -> None:
    response = app.test_client().post("/ibi/oai", data={"verb": "Identify"})
    assert response.status_code == 200
    assert "<Identify>" in response.text
    assert app.test_client().post("/login").status_code == 400
