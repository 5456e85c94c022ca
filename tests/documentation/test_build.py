"""Sphinx builds the documentation without warnings, and pages of librarians in Portuguese, too."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po
from support.commands import ROOT
from support.documentation import DOCS, pages, read


def build(*options: str) -> str:
    """Run sphinx-build, and return its warnings."""
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.slow
def test_the_documentation_is_built_without_warnings(tmp_path: Path) -> None:
    """One test, so that the documentation is built only once."""
    assert build("-qW", "--keep-going", str(DOCS), str(tmp_path)) == ""
    built = {
        path.relative_to(tmp_path).with_suffix(".rst").as_posix()
        for path in tmp_path.rglob("*.html")
    }
    assert set(pages()) <= built
    check_commands((tmp_path / "reference/options.html").read_text(encoding="utf-8"))
    for path in tmp_path.rglob("*.html"):
        check_hosts(path)
        check_links(path)


def check_commands(page: str) -> None:
    """Check that the reference contains the options of the commands."""
    for text in ("--dry-run", "--edition-of", "--trace", "report.pdf data.csv \\\n"):
        assert text in page


def check_hosts(path: Path) -> None:
    """Check that a page loads nothing from another host."""
    text = path.read_text(encoding="utf-8")
    for url in re.findall(r'<(?:script|img|link)\b[^>]*\b(?:src|href)="([^"]*)"', text):
        assert not urlsplit(url).netloc, (path, url)


def check_links(path: Path) -> None:
    """Check that the links of a page lead to files that the build has made."""
    for url in map(urlsplit, re.findall(r'<a\b[^>]*\bhref="([^"]+)"', path.read_text("utf-8"))):
        if not url.scheme and url.path:
            assert (path.parent / unquote(url.path)).is_file(), (path, url.path)


def test_each_diagram_has_a_text_alternative_and_both_colour_schemes() -> None:
    for path in (DOCS / "images").glob("*.svg"):
        root = ElementTree.parse(path).getroot()
        names = {element.tag.rpartition("}")[2]: element.text for element in root}
        assert names["title"]
        assert names["desc"]
        assert "prefers-color-scheme: dark" in str(names["style"])
        [page] = [name for name in pages() if path.name in read(name)]
        assert re.search(rf"{re.escape(path.name)}\n +:alt: \w", read(page))


# --- the pages of librarians and administrators are also in Portuguese, completely ---------------

CATALOGUES = DOCS / "locales/pt_BR/LC_MESSAGES"
#: What a translation keeps as it is: code, and where a reference leads.
KEPT = re.compile(r"``.+?``|:[a-z]+:`(?:[^`<]*<)?([^`<>]+)>?`|(?<!`)`[^`<]+`_|<https?:[^>]+>")


def read_catalogue(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, locale="pt_BR")


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the texts of the translated pages."""
    folder = tmp_path_factory.mktemp("texts")
    build("-Q", "-b", "gettext", "-t", "translated", "-d", f"{folder}/.trees", "docs", str(folder))
    return folder


def names(folder: Path, suffix: str) -> list[str]:
    """Return the names of the pages that have a file in a folder."""
    paths = (path.relative_to(folder).with_suffix("") for path in folder.rglob(f"*{suffix}"))
    return sorted(path.as_posix() for path in paths)


@pytest.mark.slow
def test_each_text_of_a_translated_page_has_a_translation_and_no_other(templates: Path) -> None:
    assert names(templates, ".pot") == names(CATALOGUES, ".po")
    for name in names(templates, ".pot"):
        texts = read_catalogue(templates / f"{name}.pot")
        catalogue = read_catalogue(CATALOGUES / f"{name}.po")
        assert {one.id for one in texts} == {one.id for one in catalogue}, name
        assert not catalogue.obsolete, name
        for one in catalogue:
            assert one.string, (name, one.id)
            assert not one.fuzzy, (name, one.id)


def test_a_translation_keeps_code_and_references() -> None:
    for name in names(CATALOGUES, ".po"):
        for one in read_catalogue(CATALOGUES / f"{name}.po"):
            if one.id:
                assert kept(str(one.string)) == kept(str(one.id)), name


def kept(text: str) -> list[str]:
    return sorted(found[1] or found[0] for found in KEPT.finditer(text))


def test_each_screenshot_exists_in_both_languages_and_has_a_text_alternative() -> None:
    images = {path.name for path in (DOCS / "images").glob("*.png")}
    shown = set()
    for page in pages():
        for name, alternative in re.findall(r"image:: \S*/(\S+\.png)\n +:alt: (.*)", read(page)):
            assert alternative, page
            shown |= {name, name.replace(".png", ".pt_BR.png")}
    assert images == shown


@pytest.mark.slow
def test_the_documentation_is_built_in_portuguese_without_warnings(tmp_path: Path) -> None:
    assert build("-qW", "--keep-going", "-D", "language=pt_BR", "docs", str(tmp_path)) == ""
    page = (tmp_path / "what-is-an-ibi.html").read_text(encoding="utf-8")
    assert '<html class="no-js" lang="pt-BR"' in page
    assert "O que é um IBI?" in page
