"""Sphinx builds the documentation without warnings."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest
from support.commands import ROOT
from support.documentation import DOCS, pages, read


@pytest.mark.slow
def test_the_documentation_is_built_without_warnings(tmp_path: Path) -> None:
    """One test, so that the documentation is built only once."""
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-qW", "--keep-going", str(DOCS), str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
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
