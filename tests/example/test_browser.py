"""The example in a real browser: its pages, and the pages of the package in its theme."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from support.commands import ROOT, command
from support.databases import new_database

from example_app.__main__ import serve
from example_app.extensions import db
from example_app.models import Publication
from example_app.seed import PASSWORD, seed

from .conftest import example_repository

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Page

pytestmark = pytest.mark.slow

#: The background of the theme in light and in dark mode.
LIGHT, DARK = "rgb(251, 252, 251)", "rgb(18, 23, 21)"
NARROW, WIDE = {"width": 320, "height": 640}, {"width": 1280, "height": 800}
#: An imported item with a title, as the page of the librarian names it.
WITHDRAWN = "sid.inpe.br/mtc-m18/2012/07.12.18.08"
IMPORTED = "/col/sid.inpe.br/mtc-m18@80/2009/07.21.13.23/"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """The base URL of a running example, and the paths of the pages of its publications."""
    folder = tmp_path_factory.mktemp("site")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {"IBI_ARCHIVE_ADDRESS": f"localhost:{port}"}
    with (
        new_database("sqlite", folder, ready=True) as uri,
        example_repository(uri, folder, **settings) as app,
    ):
        records = ROOT / "example_app/records/items.jsonl"
        assert command(app, "import", records).status == 0
        with app.app_context():
            seed()
            paths = {one.title: f"/col/{one.ibi}/" for one in db.session.query(Publication)}
        with serve(app, port):
            yield f"http://localhost:{port}", paths


class Tab:
    """A tab of the browser, which fails if a page has an error.

    :param base: the start of the URLs of the site.
    """

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base
        self.errors: list[str] = []
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda one: self._check_address(one.url))

    def _note(self, message: ConsoleMessage) -> None:
        # the browser also reports the status of the page itself, such as 404
        if not (message.location["url"] == self.page.url and "status of 4" in message.text):
            self.errors.append(f"{self.page.url}: {message.text}")

    def _check_address(self, url: str) -> None:
        if not url.startswith((f"{self.base}/", "data:")):
            self.errors.append(f"{self.page.url} loads {url}")

    def open(self, path: str, status: int = 200) -> None:
        response = self.page.goto(f"{self.base}{path}")
        assert response is not None
        assert response.status == status, path
        self.check()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def check(self, background: str = LIGHT) -> None:
        """Check that the page has no errors, has the theme, and fits into the window."""
        self.page.wait_for_load_state()
        assert self.errors == []
        assert self.evaluate("getComputedStyle(document.body).backgroundColor") == background
        root = "document.documentElement"
        assert self.evaluate(f"{root}.scrollWidth <= {root}.clientWidth"), self.page.url
        assert self.page.locator("h1").count() == 1
        assert self.page.locator("header.site").count() == 1

    def evaluate(self, expression: str) -> Any:
        return self.page.evaluate(expression)

    def log_in(self, name: str) -> None:
        """Log in by the keyboard."""
        self.page.goto(f"{self.base}/login")
        self.page.focus("#name")
        self.page.keyboard.type(name)
        self.press("Tab")
        self.page.keyboard.type(PASSWORD)
        with self.page.expect_navigation():
            self.press("Enter")


@pytest.fixture
def new_tab(new_context: Any, site: tuple[str, dict[str, str]]) -> Any:
    def make(**options: Any) -> Tab:
        options = {"viewport": NARROW, "locale": "en-GB", **options}
        return Tab(new_context(**options).new_page(), site[0])

    return make


@pytest.fixture
def paths(site: tuple[str, dict[str, str]]) -> dict[str, str]:
    """The path of the page of each publication, by title."""
    return site[1]


def test_every_page_that_readers_see(new_tab: Any, paths: dict[str, str]) -> None:
    tab: Tab = new_tab()
    thesis = paths["Ice clouds over the Amazon basin"]
    embargoed = paths["Calibration of the cloud lidar"]
    for path in ("/", "/?q=nothing", "/imported", "/login", "/ibi/statistics", *paths.values()):
        status = {
            paths["Preliminary rain statistics"]: 410,
            paths["Measurements of the rainy season"]: 404,
        }.get(path, 200)
        tab.open(path, status)
    for item in (thesis, IMPORTED):
        for page in ("", "files", "metadata", "statistics"):
            tab.open(f"{item}{page}")
    tab.open(f"{embargoed}doc/Calibration-of-the-cloud-lidar.pdf", 403)
    tab.open(f"{thesis}doc/none.pdf", 404)
    tab.open("/col/8JMKD3MGP8W/35MME4F/", 404)
    tab.open("/nothing", 404)


def test_every_page_that_a_librarian_sees(new_tab: Any, paths: dict[str, str]) -> None:
    tab: Tab = new_tab()
    tab.log_in("librarian")
    tab.check()
    tab.open(paths["Calibration of the cloud lidar"])
    assert tab.page.get_by_role("link", name="Calibration-of-the-cloud-lidar.pdf").is_visible()
    for title in ("Measurements of the rainy season", "Ice clouds over the Amazon basin, revised"):
        tab.open(paths[title])
        for link in [one.get_attribute("href") for one in tab.page.locator("nav.actions a").all()]:
            tab.open(str(link))
    for path in (
        "/admin/ibi?q=ccsds",
        f"/admin/ibi?withdraw={WITHDRAWN}",
    ):
        tab.open(path)
    tab.open("/deposit")
    with tab.page.expect_navigation():
        tab.page.get_by_role("button", name="Store the draft").click()
    tab.check()
    assert tab.page.get_by_role("alert").get_by_role("link").all_text_contents() == [
        "Title",
        "Authors",
        "PDF or CSV files",
    ]


@pytest.mark.parametrize(("colours", "language"), [("light", "pt-BR"), ("dark", "es")])
def test_the_pages_are_accessible_in_each_colour_scheme(
    new_tab: Any, paths: dict[str, str], colours: str, language: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    tab: Tab = new_tab(color_scheme=colours, locale=language)
    tab.log_in("librarian")
    for path in (
        "/deposit",
        paths["Ice clouds over the Amazon basin, revised"],
        "/admin/ibi?q=ccsds",
        f"/admin/ibi?withdraw={WITHDRAWN}",
    ):
        tab.page.goto(f"{tab.base}{path}")
        found = Axe().run(tab.page).response["violations"]
        assert [one["id"] for one in found] == [], path


def test_the_theme_has_a_dark_mode_on_its_pages_and_on_ours(
    new_tab: Any, paths: dict[str, str]
) -> None:
    tab: Tab = new_tab(viewport=WIDE, color_scheme="dark")
    for path in ("/", paths["Ice clouds over the Amazon basin"], IMPORTED, f"{IMPORTED}files"):
        tab.page.goto(f"{tab.base}{path}")
        tab.check(DARK)


def test_the_keyboard_reaches_the_content_and_the_main_links(new_tab: Any) -> None:
    tab: Tab = new_tab()
    tab.open("/")
    reached = []
    for _ in range(6):
        tab.press("Tab")
        focus = tab.page.locator(":focus")
        assert focus.evaluate("element => getComputedStyle(element).outlineStyle") == "solid"
        box = focus.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        reached.append(focus.inner_text() or focus.get_attribute("name"))
    assert reached == [
        "Skip to the content",
        "Vale University Repository",
        "Publications",
        "Log in",
        "q",
        "Search",
    ]
    tab.open("/")
    tab.press("Tab", "Enter", "Tab")
    assert tab.page.locator(":focus").get_attribute("name") == "q"
