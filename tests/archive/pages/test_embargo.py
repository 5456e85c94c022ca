"""Embargoes: nobody reads the files of an item before the first day, everybody may on that day."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert
from sqlalchemy.exc import IntegrityError
from support.accesses import acknowledge
from support.archives import archive_of, import_records, open_app
from support.clocks import Clock
from support.web import CONTENTS, INSIDE, NETWORK, OUTSIDE, ask, ask_urls, rep, source

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.archive.items.tables import Item

DAY = date(2027, 3, 1)
RULES: list[dict[str, Any] | None] = [
    None,
    {"networks": [NETWORK]},
    {"networks": [NETWORK], "others": "none"},
    {"networks": ["0.0.0.0/0", "::/0"]},
]
EMBARGOES = [None, DAY, DAY + timedelta(days=1), date(9999, 12, 31)]
#: The item for each rule and embargo.
ITEMS = {
    rep(number): divmod(number, len(EMBARGOES)) for number in range(len(RULES) * len(EMBARGOES))
}
#: Metadata that are an item, an item with an embargo that has them, and the reverse.
METADATA, WITH_METADATA, CLOSED_METADATA, WITH_CLOSED = (rep(number) for number in range(40, 44))
UNTITLED = rep(44)


def noon(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 12, tzinfo=timezone.utc)


def records(folder: Path) -> Iterator[dict[str, Any]]:
    files = [{"path": "report.pdf", "source": source(folder, "report.pdf")}]
    for ibi, (rule, number) in ITEMS.items():
        embargo = EMBARGOES[number]
        yield {
            "rep": ibi,
            "files": files,
            "metadata": {"dc": {"title": [f"Item {ibi}"]}},
            **({"access": RULES[rule]} if RULES[rule] else {}),
            **({"embargo": str(embargo)} if embargo else {}),
        }
    closed = {"files": files, "embargo": str(DAY)}
    yield {"rep": METADATA, "content_type": "Metadata", "files": files}
    yield {"rep": WITH_METADATA, "metadata": {"ibi": METADATA}, **closed}
    yield {"rep": CLOSED_METADATA, "content_type": "Metadata", **closed}
    yield {"rep": WITH_CLOSED, "metadata": {"ibi": CLOSED_METADATA}, "files": files}
    yield {"rep": UNTITLED, **closed}


@pytest.fixture(scope="module")
def site(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Flask, Clock]]:
    """An app with the items, and its clock; tests set the clock and change nothing else."""
    folder, clock = tmp_path_factory.mktemp("embargo"), Clock(noon(date(2027, 2, 28)))
    ibi = IBIArchive(clock=clock)
    with open_app(backend, folder, ibi=ibi, PROPAGATE_EXCEPTIONS=True) as app:
        import_records(archive_of(app), list(records(folder / "sources")))
        yield app, clock


@pytest.mark.postgresql
@given(
    ibi=st.sampled_from(list(ITEMS)),
    day=st.dates(DAY - timedelta(days=3), DAY + timedelta(days=3)),
    user=st.sampled_from([INSIDE, OUTSIDE, "2001:db8::1", "0.0.0.0"]),
)
def test_pages_downloads_and_url_lists_agree_on_each_day(
    site: tuple[Flask, Clock], ibi: str, day: date, user: str
) -> None:
    app, clock = site
    clock.now = noon(day)
    rule, embargo = RULES[ITEMS[ibi][0]], EMBARGOES[ITEMS[ibi][1]]
    # 0.0.0.0 is no address of a user: it stands for an unknown user, who is in no network
    is_inside = rule is None or (
        user != "0.0.0.0"
        and any(ip_address(user) in ip_network(network) for network in rule["networks"])
    )
    may_read = is_inside and (embargo is None or embargo <= day)
    is_hidden = bool(rule and rule.get("others")) and not may_read

    file = ask(app, f"/col/{ibi}/doc/report.pdf", remote=user)
    assert (file.status, file.body == CONTENTS["report.pdf"]) == (
        (200, True) if may_read else (403, False)
    )
    is_public = rule is None and may_read
    assert file.headers["Cache-Control"] == ("no-cache" if is_public else "private, no-cache")
    files = ask(app, f"/col/{ibi}/files", remote=user)
    assert (files.status, "report.pdf" in files.text) == (file.status, may_read)
    landing = ask(app, f"/col/{ibi}/", remote=user)
    assert (landing.status, "report.pdf" in landing.text) == (403 if is_hidden else 200, may_read)
    for choice in ("?choice=oai_dc", ""):
        metadata = ask(app, f"/col/{ibi}/metadata{choice}", remote=user)
        if metadata.status == 302:  # to the landing page
            assert not choice
            assert not may_read
            metadata = landing
        assert metadata.status == landing.status
        assert (f"Item {ibi}" in metadata.text) == (not is_hidden)
    # the persistent URL of a closed item leads to the address of its metadata
    for page in (landing, files, metadata):
        is_said = embargo is not None and embargo > day and (is_inside or not is_hidden)
        assert ("available from" in page.text) == is_said
    if user != "0.0.0.0":  # an unknown user is not known to a resolver either
        pairs = ask_urls(app, ibi, user=user)
        expected = ("Data",) if may_read else None if is_hidden else ("Metadata",)
        assert pairs.get("contenttype") == expected
        for verbs in ("GetMetadata", "GetMetadata(oai_dc)"):
            urls = [name for name in ask_urls(app, ibi, verbs, user=user) if name[:4] == "url."]
            assert bool(urls) == (not is_hidden)


def test_an_embargo_ends_by_itself_at_midnight_utc(site: tuple[Flask, Clock]) -> None:
    app, clock = site
    ibi = next(ibi for ibi, (rule, embargo) in ITEMS.items() if (rule, embargo) == (0, 1))
    for moment, status in [
        ("2027-02-28T23:59:59+00:00", 403),
        ("2027-03-01T00:00:00+00:00", 200),
        ("2027-02-28T20:59:59-03:00", 403),
        ("2027-02-28T21:00:00-03:00", 200),
        ("9999-12-30T00:00:00+00:00", 200),
    ]:
        clock.now = datetime.fromisoformat(moment)
        assert ask(app, f"/col/{ibi}/doc/report.pdf").status == status
        pairs = ask_urls(app, ibi)
        assert pairs["contenttype"] == (("Data",) if status == 200 else ("Metadata",))


def test_an_embargo_closes_ranges_titles_metadata_and_accesses(site: tuple[Flask, Clock]) -> None:
    # ranges and conditions do not open a file
    app, clock = site
    clock.now = noon(date(2027, 2, 28))
    for headers in ({"Range": "bytes=0-1"}, {"If-None-Match": "*"}):
        for method in ("GET", "HEAD"):
            answer = ask(app, f"/col/{rep(1)}/doc/report.pdf", method, headers)
            assert (answer.status, "ETag" in answer.headers) == (403, False)
    # the name of a file is a title only after the embargo
    for day, is_shown in ((28, False), (1, True)):
        clock.now = noon(date(2027, 2 if day == 28 else 3, day))
        assert ("<h1>report.pdf" in ask(app, f"/col/{UNTITLED}/").text) == is_shown
    # metadata that are an item have their own embargo
    clock.now = noon(date(2027, 2, 28))
    # the reader of a closed item gets its metadata, unless they are closed themselves
    assert ask_urls(app, WITH_METADATA)["url"][0].endswith(f"/col/{METADATA}/doc/report.pdf")
    assert "url.metadata" not in ask_urls(app, WITH_CLOSED, "GetMetadata")
    assert ask(app, f"/col/{WITH_METADATA}/metadata").status == 302
    assert ask(app, f"/col/{WITH_CLOSED}/metadata").status == 403
    clock.now = noon(DAY)
    assert ask_urls(app, WITH_METADATA)["url"][0].endswith(f"/col/{WITH_METADATA}/doc/report.pdf")
    assert ask(app, f"/col/{WITH_CLOSED}/metadata").status == 302
    # accesses to files count from the first day
    url = f"http://mtc-m16c.sid.inpe.br/col/{rep(1)}/doc/report.pdf"
    outcomes = []
    for day in (date(2027, 2, 28), DAY):
        clock.now = noon(day)
        claimed = acknowledge(archive_of(app), rep(1), url=url, content_type="Data", ibi=None)
        outcomes.append(archive_of(app).take_acknowledgment(claimed))
    assert outcomes == [False, True]


def test_an_edit_changes_an_embargo_at_once(app: Flask, tmp_path: Path) -> None:
    archive = archive_of(app)
    archive.clock = Clock(noon(date(2027, 2, 28)))
    path = tmp_path / "a.txt"
    path.write_text("a")
    ibi = archive.deposit(files=[path]).rep
    for embargo, status in ((DAY, 403), (date(2027, 2, 28), 200), (DAY, 403), (None, 200)):
        archive.edit(ibi, embargo=embargo)
        assert ask(app, f"/col/{ibi}/doc/a.txt").status == status
    # new editions do not inherit and tombstones do not keep an embargo; Copies do
    archive.edit(ibi, embargo=DAY)
    items = [archive.get(one) for one in (ibi, archive.new_edition(ibi).rep)]
    assert [item and item.record.embargo for item in items] == [DAY, None]
    archive.delete(ibi, "withdrawn")
    tombstone = archive.get(ibi)
    assert tombstone is not None
    assert tombstone.record.embargo is None


@pytest.mark.postgresql
def test_the_database_allows_no_embargo_of_a_service(app: Flask) -> None:
    values = {"archive_id": 1, "rep": rep(1), "timestamp": datetime.now(timezone.utc)}
    service = {"state": "Original", "is_service": True, "transferable": False}
    with (
        pytest.raises(IntegrityError, match="ck_ibi_item_embargo"),
        archive_of(app).database.writing() as connection,
    ):
        connection.execute(insert(Item).values(**values, **service, embargo=DAY))
