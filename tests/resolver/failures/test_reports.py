"""The failures of a month reach someone: the operator by a command, administrators by e-mail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timezone
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import insert
from support.commands import Outcome, command
from support.registries import KEY, a_registry, a_request
from support.resolving import resolver_of
from support.smtp import Post, post_office

from flask_ibi_archive.core.claims.claim import name_key
from flask_ibi_archive.errors import MailError
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.resolver.claims.tables import Binding, FailedUrl, PrefixHolder
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.resolver.failures import mails, report
from flask_ibi_archive.resolver.failures.mails import send_monthly_reports, send_reports
from flask_ibi_archive.resolver.tables import Hint

#: Three Archives: each with its host and its service.
FIRST, SECOND, THIRD = (
    ("dpi.inpe.br", "dpi.inpe.br/banon/1999/01.09.22.14"),
    ("b.example.org", "example.org/b/2001/01.01.00.00"),
    ("c.example.org:8080", "example.org/c.8080/2001/01.01.00.00"),
)
#: The only known items, by a hint, a claim, and the claim of a removed item.
HINTED, CLAIMED, DELETED = (
    "inpe.br/dpi/2009/02.16.17.46",
    "8JMKD3MGP8W/35MMLL8",
    "8JMKD3MGP8W/35MMLL2",
)
DOI = "doi:10.5281/zenodo.12"
NOVEMBER = datetime(2024, 11, 26, tzinfo=timezone.utc)
DAY = NOVEMBER.date()
DECEMBER = datetime(2024, 12, 1, tzinfo=timezone.utc)


@pytest.fixture
def post() -> Iterator[Post]:
    """A mail server."""
    with post_office() as found:
        yield found


@pytest.fixture
def app(tmp_path: Path, uri: str, post: Post) -> Iterator[Flask]:
    """An app with a resolver with three Archives, and failures in two months."""
    app = Flask("resolver", instance_path=str(tmp_path))
    app.config.from_mapping(
        IBI_RESOLVER_DATABASE_URI=uri,
        IBI_RESOLVER_EMAIL="urlib@example.org",
        SERVER_NAME="urlib.net",
        MAIL_SERVER=post.address[0],
        MAIL_PORT=post.address[1],
    )
    IBIResolver(app)
    resolver = resolver_of(app)
    resolver.init()
    registry = a_registry(resolver.database)
    for number, (address, service) in enumerate((FIRST, SECOND, THIRD), 1):
        registry.register(service, KEY)
        email = f"admin{number}@example.org"
        registry.process(a_request(service_ibi=service, address=address, admin_email=email))
    with resolver.database.writing() as connection:
        connection.execute(insert(Hint).values(ibi=HINTED, archive_id=1, found_at=NOVEMBER))
        for ibi, state in ((CLAIMED, 1), (DELETED, 3), (DOI, 1)):
            row = {"key": name_key(ibi), "archive_id": 2, "state": state}
            connection.execute(insert(Binding).values(row))
        connection.execute(
            insert(PrefixHolder).values(prefix="8JMKD3MGP8W", archive_id=2, seen_at=NOVEMBER)
        )
    yield app
    resolver.close()


def add(app: Flask, *rows: tuple[str, str, int], day: date = DAY) -> None:
    with resolver_of(app).database.writing() as connection:
        for ibi, reason, count in rows:
            values = {"day": day, "ibi": ibi, "reason": reason, "count": count}
            connection.execute(insert(FailedUrl).values(values))


def run(app: Flask, *words: object) -> Outcome:
    return command(app, *words, group=ibi_resolver)


def mails_of(post: Post) -> dict[str, EmailMessage]:
    """Return the e-mails that arrived since the last call, by their receiver."""
    found = {}
    while not post.accepted.empty():
        _, [receiver], data = post.accepted.get()
        assert receiver not in found
        found[receiver] = message_from_bytes(data, policy=policy.default)
    return found


def test_the_command_lists_failures_with_the_nearest_identifier_and_the_archives(
    app: Flask,
) -> None:
    add(
        app,
        ("inpe.br/dpi/2009/02.16.17.47", "unknown", 2),  # one wrong digit
        ("inpe.br/dpi/2009/02.16.17.4G", "malformed", 3),
        ("8JMKD3MGP8W/35MMLLS", "unknown", 7),
        ("example.org/c.8080/2001/01.01.00.01", "silent", 5),  # by its host
        ("elsewhere.org/x/2001/01.01.00.00", "unknown", 4),
        ("doi:10.5281/zenodo.I2", "unknown", 6),  # the letter I
        ("doi:10.5281/elsewhere", "unknown", 1),
        ("", "unknown", 9),
    )
    add(app, ("8JMKD3MGP8W/35MMLLS", "unknown", 1), day=date(2024, 11, 1))
    add(app, ("8JMKD3MGP8W/35MMLLS", "unknown", 100), day=date(2024, 12, 1))
    add(app, ("8JMKD3MGP8W/35MMLLS", "unknown", 1000), day=date(2024, 10, 31))
    lines = run(app, "failures", "--month", "2024-11").lines
    assert [line.split("\t") for line in lines] == [
        ["count", "reason", "identifier", "nearest", "archives"],
        ["9", "unknown", "", "", ""],
        ["8", "unknown", "8JMKD3MGP8W/35MMLLS", CLAIMED, SECOND[1]],
        ["6", "unknown", "doi:10.5281/zenodo.I2", DOI, SECOND[1]],
        ["5", "silent", "example.org/c.8080/2001/01.01.00.01", "", THIRD[1]],
        ["4", "unknown", "elsewhere.org/x/2001/01.01.00.00", "", ""],
        ["3", "malformed", "inpe.br/dpi/2009/02.16.17.4G", HINTED, FIRST[1]],
        ["2", "unknown", "inpe.br/dpi/2009/02.16.17.47", HINTED, FIRST[1]],
        ["1", "unknown", "doi:10.5281/elsewhere", "", ""],
    ]
    of_second = run(
        app, "failures", "--month", "2024-11", "--archive", f"http://urlib.net/{SECOND[1].upper()}"
    )
    assert len(of_second.lines) == 3
    [row] = json.loads(run(app, "failures", "--month=2024-12", "--json").data)
    assert row == {
        "count": 100,
        "reason": "unknown",
        "identifier": "8JMKD3MGP8W/35MMLLS",
        "nearest": CLAIMED,
        "archives": [SECOND[1]],
    }
    assert run(app, "failures", "--month", "2024-09").lines == lines[:1]


@pytest.mark.parametrize("month", ["2026", "2026-13", "26-11", "0000-01", "2026-11-01"])
def test_a_wrong_month_is_refused(app: Flask, month: str) -> None:
    assert run(app, "failures", "--month", month).usage.endswith("is not a month such as 2026-11")


def test_each_administrator_gets_the_failures_of_its_own_identifiers_once(
    app: Flask, post: Post
) -> None:
    resolver = resolver_of(app)
    add(
        app,
        ("8JMKD3MGP8W/35MMLLS", "unknown", 12),
        (CLAIMED, "silent", 3),
        ("doi:10.5281/zenodo.I2", "unknown", 2),
        ("inpe.br/dpi/2009/02.16.17.4G", "malformed", 1),
        ("elsewhere.org/x/2001/01.01.00.00", "unknown", 50),
    )
    assert send_monthly_reports(resolver, NOVEMBER) == 0
    assert send_monthly_reports(resolver, DECEMBER) == 2
    received = mails_of(post)
    assert received.keys() == {"admin1@example.org", "admin2@example.org"}
    second = received["admin2@example.org"]
    assert second["From"] == "urlib@example.org"
    assert second["Subject"] == (
        "URLs persistentes que falharam em 2024-11 / Persistent URLs that failed in 2024-11"
    )
    body = second.get_content().replace("\r\n", "\n")
    assert f"12  unknown    8JMKD3MGP8W/35MMLLS  ({CLAIMED} ?)\n 3  silent     {CLAIMED}\n" in body
    assert f" 2  unknown    doi:10.5281/zenodo.I2  ({DOI} ?)\n" in body
    assert "http://urlib.net" in body
    assert SECOND[1] in body
    assert "unknown: no Archive has the item" in body
    assert "silent: um Arquivo não respondeu a tempo" in body
    assert "malformed" not in body
    assert "elsewhere" not in body
    assert HINTED in received["admin1@example.org"].get_content()
    # never twice, also by the command; the next month again
    assert send_monthly_reports(resolver, DECEMBER) == 0
    assert run(app, "failures", "--send", "--month", "2024-11").data == ""
    add(app, ("8JMKD3MGP8W/35MMLLS", "unknown", 1), day=date(2024, 12, 24))
    assert send_monthly_reports(resolver, datetime(2025, 1, 6, tzinfo=timezone.utc)) == 0
    assert send_monthly_reports(resolver, datetime(2025, 1, 5, tzinfo=timezone.utc)) == 1
    assert mails_of(post).keys() == {"admin2@example.org"}


def test_an_email_has_at_most_fifty_failures() -> None:
    failures = [
        report.Failure(f"8JMKD3MGP8W/35MMLL{number}", "unknown", 1000 - number, None, frozenset())
        for number in range(60)
    ]
    _, body = mails.compose_report(SECOND[1], "2024-11", failures)
    assert body.count("8JMKD3MGP8W/") == 50
    assert "35MMLL49" in body


def test_reports_can_be_switched_off(app: Flask, post: Post) -> None:
    add(app, ("8JMKD3MGP8W/35MMLLS", "unknown", 12), ("dpi.inpe.br/b/2001/01.01.00.00", "loop", 1))
    add(app, ("inpe.br/dpi/2009/02.16.17.47", "unknown", 2))
    resolver = resolver_of(app)
    assert run(app, "failures", "--mail", "off", "--archive", SECOND[1]).data == ""
    object.__setattr__(resolver.config, "failure_mail", False)
    assert send_monthly_reports(resolver, DECEMBER) == 0
    object.__setattr__(resolver.config, "failure_mail", True)
    assert send_monthly_reports(resolver, DECEMBER) == 1
    assert mails_of(post).keys() == {"admin1@example.org"}
    run(app, "failures", "--mail", "on", "--archive", SECOND[1])
    sent = run(app, "failures", "--send", "--month", "2024-11", "--archive", SECOND[1])
    assert sent.data == f"{SECOND[1]}\tadmin2@example.org\n"
    assert mails_of(post).keys() == {"admin2@example.org"}
    unknown = "a.br/x/2001/01.01.00.00"
    assert unknown in run(app, "failures", "--mail", "off", "--archive", unknown).error
    assert "--archive" in run(app, "failures", "--mail", "off").usage


def test_no_email_about_a_month_that_has_not_ended(app: Flask, post: Post) -> None:
    add(app, ("8JMKD3MGP8W/35MMLLS", "unknown", 1))
    month = report.find_month(datetime.now(timezone.utc).date())
    for unended in (month, "9999-01"):
        assert "has not ended" in run(app, "failures", "--send", "--month", unended).usage
    # no later e-mail is lost
    assert run(app, "failures", "--send", "--month", "2024-11").data
    assert mails_of(post).keys() == {"admin2@example.org"}


def test_an_email_that_is_refused_is_sent_later(
    app: Flask, post: Post, caplog: pytest.LogCaptureFixture
) -> None:
    resolver = resolver_of(app)
    add(app, ("8JMKD3MGP8W/35MMLLS", "unknown", 12), ("inpe.br/dpi/2009/02.16.17.47", "loop", 1))
    post.refuses["RCPT"] = "550 no such user"
    assert send_monthly_reports(resolver, DECEMBER) == 0
    assert "no such user" in caplog.text
    del post.refuses["RCPT"]
    assert send_monthly_reports(resolver, DECEMBER) == 2


def test_a_mail_server_that_is_down_ends_the_command(app: Flask, post: Post) -> None:
    add(app, ("8JMKD3MGP8W/35MMLLS", "unknown", 12), ("inpe.br/dpi/2009/02.16.17.47", "loop", 1))
    add(app, ("example.org/c.8080/2001/01.01.00.01", "silent", 5))
    post.refuses["connect"] = "554 closed"
    with pytest.raises(MailError, match="554 closed"):
        list(send_reports(resolver_of(app), "2024-11"))
    assert mails_of(post) == {}


def test_processes_that_send_at_the_same_time_send_each_report_once(app: Flask, post: Post) -> None:
    add(app, ("8JMKD3MGP8W/35MMLLS", "unknown", 12), ("inpe.br/dpi/2009/02.16.17.47", "loop", 1))
    resolver = resolver_of(app)

    def send(number: int) -> int:
        return send_monthly_reports(resolver, DECEMBER)

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(send, range(4))) == 2
    assert mails_of(post).keys() == {"admin1@example.org", "admin2@example.org"}
