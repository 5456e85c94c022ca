"""Every kind of page in a real browser: accessible, narrow and wide, light and dark.

The checks of accessibility are those of axe-core (WCAG 2.2 AA).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from flask import Flask
from playwright.sync_api import Browser, sync_playwright
from support.accesses import insert_counts, item_id
from support.archives import archive_of, close, import_records, make_app
from support.browser import browser as find_browser
from support.browser import serving
from support.web import rep, source

from flask_ibi_archive.resolver import IBIResolver

FIRST, SECOND, TRANSLATION, METADATA, GONE, COPY, BARE, UNKNOWN = map(rep, range(1, 9))
IBIP = "8JMKD3MGP8W/35MME4E"
ABSTRACT = "Twelve years of measurements show how often ice clouds form over the Amazon basin."
THESIS: dict[str, Any] = {
    "title": [{"value": "Ice clouds over the Amazon basin: twelve years of lidar", "lang": "en"}],
    "creator": ["Silva, Ana", "Instituto Nacional de Pesquisas Espaciais"],
    "contributor": ["Souza, Davi de"],
    "description": [{"value": ABSTRACT, "lang": "en"}],
    "subject": ["cirrus", "lidar"],
    "date": ["2025-03-14"],
    "type": ["Doctoral thesis"],
    "publisher": ["Instituto Nacional de Pesquisas Espaciais"],
    "rights": ["https://creativecommons.org/licenses/by/4.0/", "Free for teaching"],
    "identifier": ["https://doi.org/10.1000/182"],
}
#: The path of a page of each kind, and the status of the page.
ARCHIVE_PAGES = {
    f"/col/{SECOND}/": 200,
    f"/col/{FIRST}/": 200,
    f"/col/{TRANSLATION}/": 200,
    f"/col/{COPY}/": 200,
    f"/col/{BARE}/": 200,
    f"/col/{GONE}/": 410,
    f"/col/{SECOND}/files": 200,
    f"/col/{SECOND}/metadata": 200,
    f"/col/{SECOND}/statistics": 200,
    "/ibi/statistics": 200,
    f"/col/{UNKNOWN}/": 404,
    f"/col/{COPY}/doc/report.pdf": 403,
    f"/{IBIP}:(marcxml)": 404,
}
RESOLVER_PAGES = {
    "/": 200,
    "/?ibi=8JMKD3MGP8W/34PGRBS&do=decode": 200,
    "/?ibi=8JMKD3MGP8W": 400,
    "/8JMKD3MGP8W": 400,
    "/8JMKD3MGP8W/34PGRBS": 404,
    "/ibi/registry": 200,
    "/ibi/registry?ibi=wrong": 400,
}
NARROW, WIDE = 320, 1280
LANGUAGES = ("en", "pt-BR", "es")
#: Combinations of language, width, colours and JavaScript. The others are slow tests.
QUICK = {("en", NARROW, "dark", True), ("pt-BR", WIDE, "light", False)}
ALL = [
    pytest.param(*case, marks=[] if case in QUICK else pytest.mark.slow)
    for case in product(LANGUAGES, (NARROW, WIDE), ("light", "dark"), (True, False))
]


def records(folder: Path) -> list[dict[str, Any]]:
    """Return the records of an item of each kind."""
    files = [{"path": name, "source": source(folder, name)} for name in ("report.pdf", "table.csv")]
    portuguese = {"title": ["Nuvens de gelo sobre a bacia amazônica"], "creator": ["Silva, Ana"]}
    return [
        {
            "rep": FIRST,
            "ibip": IBIP,
            "language": "en",
            "next_edition": SECOND,
            "metadata": {"dc": {**THESIS, "title": ["Ice clouds, first results"]}},
            "files": files,
        },
        {
            "rep": SECOND,
            "aliases": ["83LX3pFwXQZeBBx/hwiTk"],
            "language": "en",
            "translations": {"pt": TRANSLATION},
            "metadata": {"dc": THESIS},
            "files": [*files, {"path": "raw.nc", "url": "https://example.org/raw.nc"}],
        },
        {"rep": TRANSLATION, "language": "pt", "metadata": {"ibi": METADATA}, "files": files},
        {"rep": METADATA, "content_type": "Metadata", "metadata": {"dc": portuguese}},
        {
            "rep": GONE,
            "state": "Deleted",
            "timestamp": "2024-05-02T10:00:00Z",
            "metadata": {"dc": THESIS},
            "tombstone": {"reason": "The data contain an error.", "successor": SECOND},
        },
        {
            "rep": COPY,
            "state": "Copy",
            "original_archive": "sid.inpe.br/mtc-m99@80/2009/07.21.13.23",
            "metadata": {"dc": {"title": ["Calibration of the lidar"]}},
            "embargo": "9999-03-01",
            "files": files[:1],
        },
        {"rep": BARE, "files": files},
    ]


def add_counts(app: Flask) -> None:
    """Add accesses to the second item in the current month and the month before."""
    archive = archive_of(app)
    row = {"item_id": item_id(archive, SECOND), "role": "asked", "double_clicks": 1, "robots": 2}
    insert_counts(
        archive,
        [
            {**row, "day": day, "content_type": kind, "accesses": 1234}
            for day in (archive.today, archive.today.replace(day=1))
            for kind in ("Data", "Metadata")
            if day == archive.today or archive.today.day > 1
        ],
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser; the tests are skipped if there is none."""
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, int]]]:
    """The pages of an Archive and of a resolver, by the base URL of each."""
    folder = tmp_path_factory.mktemp("sites")
    app = make_app(f"sqlite:///{folder / 'ibi.sqlite'}", folder)
    archive_of(app).init()
    import_records(archive_of(app), records(folder))
    add_counts(app)
    resolver = Flask("resolver", instance_path=str(folder), static_folder=None)
    resolver.config.update(
        IBI_RESOLVER_REGISTRY=True,
        IBI_RESOLVER_REGISTRY_MINT_HOST="registry.example.org",
        IBI_ARCHIVE_NAME="Resolver",
    )
    IBIResolver(resolver)
    resolver.extensions["ibi_resolver"].resolver.init()
    with serving(app) as (port, _), serving(resolver) as (other, _):
        yield {
            f"http://127.0.0.1:{port}": ARCHIVE_PAGES,
            f"http://127.0.0.1:{other}": RESOLVER_PAGES,
        }
    resolver.extensions["ibi_resolver"].resolver.close()
    close(app)


@pytest.mark.parametrize(("language", "width", "scheme", "script"), ALL)
def test_every_page_is_accessible_and_fits_into_the_window(
    browser: Browser,
    sites: dict[str, dict[str, int]],
    language: str,
    width: int,
    scheme: Any,
    script: bool,
) -> None:
    axe = Axe()
    context = browser.new_context(
        locale=language,
        viewport={"width": width, "height": 800},
        color_scheme=scheme,
        java_script_enabled=script,
    )
    page = context.new_page()
    requested: list[str] = []
    problems: list[str] = []
    page.on("request", lambda one: requested.append(one.url))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "console",
        lambda one: None if "status of" in one.text else problems.append(one.text),
    )
    for base, paths in sites.items():
        for path, status in paths.items():
            response = page.goto(base + path)
            assert response is not None
            assert response.status == status, path
            assert page.evaluate("document.documentElement.lang") == language[:2]
            root = "document.documentElement"
            assert page.evaluate(f"{root}.scrollWidth <= {root}.clientWidth"), path
            if script:  # axe needs JavaScript
                results = axe.run(page, options={"runOnly": RULES})
                assert results.violations_count == 0, (path, results.generate_report())
            assert all(url.startswith(base) for url in requested), requested
            requested.clear()
    context.close()
    assert problems == []


RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def test_the_copy_button_copies_the_persistent_url(
    browser: Browser, sites: dict[str, dict[str, int]]
) -> None:
    base = next(iter(sites))
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{base}/col/{FIRST}/")
    page.get_by_role("button", name="Copy the persistent URL").click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == f"http://urlib.net/{IBIP}"
    context.close()
    # without JavaScript, the field with the URL remains, and there are no buttons
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{base}/col/{FIRST}/")
    assert page.locator("#ibi-url").input_value() == f"http://urlib.net/{IBIP}"
    assert not page.locator("button[data-copy]").first.is_visible()
    context.close()
