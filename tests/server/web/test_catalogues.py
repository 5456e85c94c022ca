"""The catalogues of translations: complete, and a further language is one file."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
from babel.messages import Catalog
from babel.messages.frontend import CommandLineInterface
from babel.messages.plurals import get_plural
from babel.messages.pofile import read_po
from flask import Flask
from jinja2 import Environment
from support.pages import LANGUAGES
from support.web import REPORT, ask

from flask_ibi_archive.server.web import texts as translations
from flask_ibi_archive.server.web.texts import FILE, FOLDER, read_catalogues

ROOT = Path(__file__).parents[3]
TEMPLATES = ROOT / "flask_ibi_archive/server/web/templates"
#: The words in templates that are the same in all languages.
NAMES = {"ABNT", "NBR", "DOI", "IBI", "JSON", "ORCID", "Lattes", "ROR", "SHA", "XML", "http"}


def commands() -> Iterator[list[str]]:
    """Yield the pybabel commands of CONTRIBUTING.rst."""
    for line in (ROOT / "CONTRIBUTING.rst").read_text("utf-8").splitlines():
        if line.strip().startswith("pybabel "):
            yield line.split()


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package in which the commands of CONTRIBUTING.rst have been executed."""
    folder = tmp_path_factory.mktemp("copy")
    package = ROOT / "flask_ibi_archive"
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in commands():
            assert not CommandLineInterface().run([command[0], "-q", *command[1:]])
    return folder


def read_catalogue(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, abort_invalid=True)


def list_wrong_messages(catalogue: Catalog) -> list[object]:
    """Return the messages whose translations have other placeholders than the messages."""
    return [
        one.id for one in catalogue if one.id and find_fields(one.id) != find_fields(one.string)
    ]


def find_fields(texts: Any) -> set[Any]:
    """Return the placeholders of a text, or of the forms of a text with a number."""
    forms = (texts,) if isinstance(texts, str) else texts
    return {
        part[1:4:2] for text in forms for part in Formatter().parse(text) if part[1] is not None
    }


# --- the catalogues of the package


def test_english_portuguese_and_spanish_are_available() -> None:
    found = read_catalogues()
    assert tuple(sorted(found)) == LANGUAGES
    assert [found[tag].name for tag in LANGUAGES] == ["English", "español", "português"]


@pytest.mark.slow
@pytest.mark.parametrize("language", [tag for tag in LANGUAGES if tag != "en"])
def test_a_catalogue_translates_each_message_of_the_code(copy: Path, language: str) -> None:
    messages = read_catalogue(copy / "ibi_archive.pot")
    catalogue = read_catalogue(FOLDER / language / FILE)
    assert {one.id for one in catalogue} == {one.id for one in messages}
    assert not catalogue.obsolete
    for one in catalogue:
        texts = one.string if isinstance(one.string, tuple) else (one.string,)
        assert all(text.strip() for text in texts), one.id
        assert not one.fuzzy or not one.id, one.id
        if isinstance(one.id, str) and one.id:
            ends = [re.search("[.:?]?$", text)[0] for text in (one.id, str(one.string))]  # type: ignore[index]
            assert ends[0] == ends[1] or one.id.endswith("?"), one.id
            assert str(one.string) == str(one.string).strip()
    assert list_wrong_messages(catalogue) == []


# --- further languages


@pytest.mark.slow
def test_the_documented_commands_begin_a_language(copy: Path) -> None:
    path = copy / "flask_ibi_archive/server/web/translations" / "fr" / FILE
    catalogue = read_catalogue(path)
    assert len(catalogue) == len(read_catalogue(copy / "ibi_archive.pot"))
    # it differs among the versions of Babel
    assert catalogue.plural_expr == get_plural("fr").plural_expr


@pytest.mark.slow
def test_a_language_is_one_file(copy: Path, web: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copy / "flask_ibi_archive/server/web/translations"
    path = folder / "fr" / FILE
    text = path.read_text("utf-8")
    path.write_text(text.replace('msgid "Files"\nmsgstr ""', 'msgid "Files"\nmsgstr "Fichiers"'))
    monkeypatch.setattr(translations, "read_catalogues", lambda: read_catalogues(folder))
    page = ask(web, f"/col/{REPORT}/", headers={"Accept-Language": "fr-CA, en;q=0.5"})
    assert page.headers["Content-Language"] == "fr"
    assert "<h2>Fichiers</h2>" in page.text
    assert "21 juillet 2009" in page.text
    assert "anglais" in page.text
    # messages without a translation are in English
    assert "How to cite" in page.text
    assert ">français</a>" in page.text


# --- templates


def test_a_template_has_no_text_outside_of_messages() -> None:
    for path in TEMPLATES.rglob("*.html"):
        source = re.sub("{#.*?#}", "", path.read_text("utf-8"), flags=re.DOTALL)
        tokens = Environment().lex(source)
        text = "".join(value for _, kind, value in tokens if kind == "data")
        shown = re.findall(r'(?:alt|aria-label|data-copied|placeholder|title)="([^"]*)"', text)
        shown.append(re.sub("<[^>]*>", " ", text))
        assert set(re.findall(r"[^\W\d_]{2,}", " ".join(shown))) <= NAMES, path
