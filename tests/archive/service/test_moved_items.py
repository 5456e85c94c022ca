"""Items that were moved to an Archive on another server: what the host of the giver answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import FAR_SERVICE, SERVICE, archive_of, import_records, open_app
from support.moves import confirm
from support.pages import see
from support.web import NOBODY, ask, rep

from flask_ibi_archive.archive.items.served_archives import store_address

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
