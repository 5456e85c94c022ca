"""Items that were moved to an Archive on another server: what the host of the giver answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, Response
from support.archives import FAR_SERVICE, SERVICE, archive_of, import_records, open_app
from support.moves import confirm
from support.pages import Page, see
from support.web import NOBODY, add_resolver, ask, rep

from flask_ibi_archive.archive.items.archives import store_address

NewApp = Callable[..., Flask]
HOST, BASE = "http://mtc-m16c.sid.inpe.br", "http://urlib.net"
FAR = "mtc-m19.sid.inpe.br:8080"
ORIGINAL = "?ibiurl.requireditemstatus=Original"
BROWSER = {"Accept": "text/html"}


def moved(ibi: str, to: str = FAR_SERVICE, **fields: Any) -> dict[str, Any]:
    """Return the record of a tombstone that remained."""
    tombstone = {"reason": f"transferred to {to}", "original_archive": to}
    return {
        "rep": ibi,
        "state": "Deleted",
        "timestamp": "2010-01-02T03:04:05Z",
        "tombstone": tombstone,
        **fields,
    }


def fill(app: Flask, address: str | None = FAR, is_confirmed: bool = False) -> None:
    """Store a tombstone and a Copy that remained, and an item with a translation that was moved.

    :param address: the stored address of the other Archive.
    """
    archive = archive_of(app)
    import_records(
        archive,
        [
            moved(rep(1), same_as=["hdl:20.500/1", f"{HOST}/old/1?x=1"]),
            {"rep": rep(2), "state": "Copy", "original_archive": FAR_SERVICE},
            {"rep": rep(3), "language": "en", "translations": {"pt": rep(1)}},
        ],
    )
    if address is not None:
        with archive.database.writing() as connection:
            store_address(connection, archive.served().id, FAR_SERVICE, address)
    if is_confirmed:
        confirm(archive)


@pytest.mark.parametrize(
    ("base", "address", "is_confirmed", "there"),
    [
        (BASE, FAR, True, BASE),
        (BASE, FAR, False, f"http://{FAR}"),
        (f"{HOST}:80/", FAR, True, f"http://{FAR}"),
        (BASE, None, False, None),
        (HOST, None, True, None),
    ],
)
def test_persistent_urls_lead_to_the_resolver_or_the_other_archive(
    tmp_path: Path, base: str, address: str | None, is_confirmed: bool, there: str | None
) -> None:
    with open_app("sqlite", tmp_path, IBI_PERSISTENT_URL_BASE=base) as app:
        fill(app, address, is_confirmed)
        usual = ask(app, f"/{NOBODY}").headers if base == BASE else {}
        for target, full in (
            (f"/{rep(1)}", None),
            (f"/{rep(1)}!:(oai_dc)/a%20b.pdf?x=%2F", None),
            (f"/{rep(2)}{ORIGINAL}", None),
            ("/hdl:20.500/1!", f"/{rep(1)}!"),
            ("/old/1?x=1", f"/{rep(1)}"),
        ):
            answer, full = ask(app, target), full or target
            if there is not None:
                assert answer.status == 302, target
                mark = f"{'&' if '?' in full else '?'}ibiurl.movedfrom={SERVICE}"
                expected = there + full + ("" if there == BASE else mark)
                assert answer.headers["Location"] == expected
                for name in ("Cache-Control", "Vary") if usual else ():
                    assert answer.headers[name] == usual[name]
            elif target.startswith(f"/{rep(2)}"):  # there is no tombstone of a Copy
                assert answer.status == (302 if base == BASE else 404)
            else:
                assert answer.status == 410, target
                assert answer.pairs["state"] == ("Deleted",)


def test_a_reader_who_comes_back_is_not_redirected_again(app: Flask) -> None:
    fill(app)
    for target, status in ((f"/{rep(1)}?x=1", 410), (f"/{rep(2)}{ORIGINAL}", 404)):
        mark = "&ibiurl.movedfrom="
        assert ask(app, f"{target}{mark}{SERVICE}").status == status
        assert ask(app, f"{target}{mark}{SERVICE}{mark}{FAR_SERVICE}").status == status
        assert ask(app, f"{target}{mark}{FAR_SERVICE}{mark}{SERVICE}").status == status
        assert ask(app, f"{target}{mark}{FAR_SERVICE}").status == 302


#: The Archives of a chain of moves, by their hosts.
CHAIN = {f"{word}.sid.inpe.br": f"sid.inpe.br/{word}@80/2008/01.01.00.00" for word in "gtu"}


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[dict[str, Flask]]:
    """Archives by their hosts, each of which has moved an item to the next one."""
    with ExitStack() as stack:
        apps = {
            host: stack.enter_context(
                open_app(
                    "sqlite",
                    tmp_path / host,
                    IBI_ARCHIVE_ADDRESS=host,
                    IBI_ARCHIVE_SERVICE_IBI=service,
                    IBI_PERSISTENT_URL_BASE=f"http://{host}",
                )
            )
            for host, service in CHAIN.items()
        }
        hosts = [*CHAIN]
        for here, there in zip(hosts, [*hosts[1:], hosts[0]], strict=True):
            archive = archive_of(apps[here])
            with archive.database.writing() as connection:
                store_address(connection, archive.served().id, CHAIN[there], there)
            if there != hosts[0]:
                import_records(archive, [moved(rep(1), CHAIN[there])])
        yield apps


def visit(apps: dict[str, Flask], url: str) -> list[tuple[str, int]]:
    """Follow redirects between Archives; return the hosts and the statuses of their answers."""
    visited = []
    while True:
        host, _, target = url.removeprefix("http://").partition("/")
        answer = ask(apps[host], f"/{target}", headers={"Host": host})
        visited.append((host, answer.status))
        url = answer.headers.get("Location", "")
        if not url or "/col/" in url:
            assert "movedfrom" not in url
            return visited


def test_several_moves_lead_on_and_end(chain: dict[str, Flask]) -> None:
    first, second, third = CHAIN
    import_records(archive_of(chain[third]), [{"rep": rep(1)}])
    passed = [(first, 302), (second, 302)]
    assert visit(chain, f"http://{first}/{rep(1)}?x=1") == [*passed, (third, 302)]
    # tombstones that name each other
    archive_of(chain[third]).delete(rep(1), "withdrawn")
    assert visit(chain, f"http://{first}/{rep(1)}") == [*passed, (third, 410)]
    import_records(archive_of(chain[third]), [moved(rep(1), CHAIN[first])], on_conflict="update")
    assert visit(chain, f"http://{first}/{rep(1)}") == [*passed, (third, 302), (first, 410)]


def test_the_pages_of_a_moved_item_link_to_its_new_place(app: Flask) -> None:
    fill(app)
    place = f"http://{FAR}/{rep(1)}?ibiurl.movedfrom={SERVICE}"
    for address in ("", "files", "doc/report.pdf"):
        page = see(app, f"/col/{rep(1)}/{address}", 410)
        assert place in page.links
        assert "The item was moved to another Archive:" in page.text("p")
    page = see(app, f"/col/{rep(1)}/", 410, "pt")
    assert "O item foi movido para outro acervo:" in page.text("p")
    confirm(archive_of(app))
    assert place not in see(app, f"/col/{rep(1)}/", 410).links


def test_the_tombstone_of_a_translation_that_was_moved_is_shown(new_app: NewApp) -> None:
    app = new_app(IBI_PERSISTENT_URL_BASE=HOST)
    archive_of(app).init()
    fill(app)
    answer = ask(app, f"/{rep(3)}+(pt)", headers=BROWSER)
    assert answer.status == 410
    assert f"http://{FAR}/{rep(1)}?ibiurl.movedfrom={SERVICE}" in Page(answer.text).links


def test_a_resolver_in_the_app_answers(app: Flask) -> None:
    fill(app)
    add_resolver(app, lambda asked: Response(f"resolved {asked.wanted.ibi}"))
    app.add_url_rule("/<path:page>", "page", lambda page: "a page")
    for target in (f"/{rep(1)}", "/hdl:20.500/1"):
        assert ask(app, target).text == f"resolved {rep(1)}"
