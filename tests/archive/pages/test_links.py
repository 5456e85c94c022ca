"""Where links of pages lead: to the host of the reader, and to a resolver with the Archive."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
from flask import Flask
from support.archives import FAR_SERVICE, archive_of, import_records
from support.moves import confirm
from support.pages import Page, see
from support.statements import count_statements
from support.web import GONE, NOBODY, REPORT, REPORT_IBIP, ask, ask_urls, rep, shelf

from flask_ibi_archive.archive.items.served_archives import forget_inclusions, store_address

NewApp = Callable[..., Flask]
ADDRESS, HERE = "repository.example.org", "127.0.0.1:5000"


def crawl(app: Flask, start: str) -> dict[str, int]:
    """Follow all links and redirects on a host, and return the status of each URL."""
    found: dict[str, int] = {}
    todo = [start]
    while todo:
        url = todo.pop()
        parts = urlsplit(url)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        answer = ask(app, target, headers={"Host": parts.netloc, "Accept": "text/html"})
        found[url] = answer.status
        links = [answer.headers["Location"]] if "Location" in answer.headers else []
        if answer.headers.get("Content-Type", "").startswith("text/html") and "/doc/" not in url:
            links += Page(answer.text).all_links
        full = {urljoin(url, link).partition("#")[0] for link in links}
        assert ADDRESS not in {urlsplit(link).netloc for link in full}, (url, full)
        todo += {link for link in full if urlsplit(link).netloc == HERE} - {*found, *todo}
    return found


def test_on_any_host_all_links_lead_to_pages_of_this_host(new_app: NewApp, tmp_path: Path) -> None:
    app = new_app(IBI_ARCHIVE_ADDRESS=ADDRESS, IBI_PERSISTENT_URL_BASE=None)
    archive_of(app).init()
    import_records(archive_of(app), shelf(tmp_path))
    found = crawl(app, f"http://{HERE}/")
    for url, status in {
        f"http://{HERE}/{REPORT_IBIP}": 302,
        f"http://{HERE}/col/{REPORT}/doc/report.pdf": 200,
        f"http://{HERE}/col/{REPORT}/statistics": 200,
    }.items():
        assert found[url] == status
    missing = {url for url, status in found.items() if status not in (200, 302)}
    # a removed item, and a file without content on the shelf
    assert all(GONE in url or url.endswith("named.pdf") for url in missing)
    # what is for programs has the address of the Archive
    assert ask_urls(app, REPORT)["url"][0].startswith(f"http://{ADDRESS}/col/")
    # former hosts are left, and a path is never read as a host
    app = new_app(IBI_FORMER_HOSTS="old.example.org")
    for target, host, expected in [
        (REPORT, "old.example.org", "http://mtc-m16c.sid.inpe.br/col/"),
        (REPORT, "mtc-m16c.sid.inpe.br", "http://mtc-m16c.sid.inpe.br/col/"),
        (REPORT, "intranet:81", "/col/"),
    ]:
        answer = ask(app, f"/{target}", headers={"Host": host})
        assert answer.headers["Location"].startswith(expected), host


def test_persistent_urls_have_the_own_address_until_a_resolver_includes_the_archive(
    new_app: NewApp,
) -> None:
    mounted = new_app(IBI_PERSISTENT_URL_BASE=None, APPLICATION_ROOT="/repository")
    app = new_app(IBI_PERSISTENT_URL_BASE=None)
    archive = archive_of(app)
    archive.init()
    own = "http://mtc-m16c.sid.inpe.br"
    import_records(archive, [{"rep": rep(1)}, {"rep": rep(2)}])
    stamp = archive.get(rep(1)).record.timestamp  # type: ignore[union-attr]
    assert archive.persistent_url(rep(1)) == f"{own}/{rep(1)}"
    assert archive_of(mounted).persistent_url(rep(1)) == f"{own}/repository/{rep(1)}"
    page = see(app, f"/col/{rep(1)}/")
    assert "not registered with a resolver yet" in page.text("p")
    assert "remains valid" not in page.text("p")
    # items of other Archives are found by the resolver
    elsewhere = f"http://urlib.net/{NOBODY}"
    assert ask(app, f"/{NOBODY}").headers["Location"] == elsewhere
    assert elsewhere in see(app, f"/col/{NOBODY}/", 404).links
    confirm(archive)
    assert archive.persistent_url(rep(1)) == f"http://urlib.net/{rep(1)}"
    page = see(app, f"/col/{rep(1)}/")
    assert f"http://urlib.net/{rep(1)}" in page.links
    assert "It remains valid if the item moves" in page.text("p")
    assert archive.get(rep(1)).record.timestamp == stamp  # type: ignore[union-attr]
    # the answer is remembered
    first = count_statements(app, lambda: (forget_inclusions(), see(app, f"/col/{rep(2)}/")))
    again = count_statements(app, lambda: see(app, f"/col/{rep(2)}/"))
    assert len(again) == len(first) - 1
    app = new_app(IBI_PERSISTENT_URL_BASE="https://ibi.example.org/")
    assert archive_of(app).persistent_url(rep(1)) == f"https://ibi.example.org/{rep(1)}"


@pytest.mark.parametrize("is_included", [False, True])
def test_the_page_of_a_copy_links_to_where_the_original_is(
    new_app: NewApp, is_included: bool
) -> None:
    app = new_app(IBI_PERSISTENT_URL_BASE=None)
    archive = archive_of(app)
    archive.init()
    import_records(archive, [{"rep": rep(1), "state": "Copy", "original_archive": FAR_SERVICE}])
    if is_included:
        confirm(archive)
    assert "http://urlib.net" in " ".join(see(app, f"/col/{rep(1)}/").links)
    with archive.database.writing() as connection:
        store_address(connection, archive.served().id, FAR_SERVICE, "far.example:8080")
    place = "http://urlib.net" if is_included else "http://far.example:8080"
    links = see(app, f"/col/{rep(1)}/").links
    assert any(link.startswith(f"{place}/{rep(1)}?ibiurl.requireditemstatus=") for link in links)


def test_the_tombstone_of_an_item_links_to_another_archive_of_the_database(
    here: Flask, there: Flask
) -> None:
    import_records(archive_of(here), [{"rep": rep(1), "ibip": "8JMKD3MGP8W/35MME4E"}])
    archive_of(here).transfer(rep(1), FAR_SERVICE)
    page = see(here, f"/col/{rep(1)}/", 410)
    [place] = [link for link in page.links if link.startswith("http://mtc-m19.sid.inpe.br/")]
    found = ask(there, place.removeprefix("http://mtc-m19.sid.inpe.br"))
    assert found.headers["Location"].endswith(f"/col/{rep(1)}/")


def test_pages_show_the_short_form_and_both_forms_among_the_addresses(app: Flask) -> None:
    ibip = "8JMKD3MGP8W/35MME4E"
    described = {"dc": {"title": ["Rain"]}}
    import_records(archive_of(app), [{"rep": rep(1), "ibip": ibip, "metadata": described}])
    for status, address in ((200, ""), (200, "metadata"), (410, "")):
        if status == 410:
            archive_of(app).delete(rep(1), "withdrawn")
        source = see(app, f"/col/{rep(1)}/{address}", status).source
        text, _, addresses = source.partition("<summary>Addresses of this item</summary>")
        # the text, without tags and their attributes
        shown = re.sub("<head>.*?</head>|<[^>]*>", "", text, flags=re.DOTALL)
        assert ibip in shown
        assert rep(1) not in shown
        assert (rep(1) in addresses) == (ibip in addresses) == (address == "")
