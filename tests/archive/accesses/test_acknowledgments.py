"""Acknowledgments over HTTP: the answer is always the same; only the log contains the result."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from flask import Flask
from support.accesses import forget_accesses, item_id, stored
from support.archives import archive_of, import_file, import_records
from support.cases import for_each
from support.resolvers import run
from support.vectors import FOLDER, load
from support.web import SERVICE_PATH, Answer, ask, ask_urls

from flask_ibi_archive.testing.servers import LoopbackResolver, LoopbackServer

NOTICE = b"notice {acknowledgment received}"
NewApp = Callable[..., Flask]
REP = "a.br/x/2001/01.01.00.00"


@pytest.fixture
def filled(app: Flask) -> Flask:
    """An app with an item."""
    import_records(archive_of(app), [{"rep": REP}])
    return app


def query(app: Flask, key: str, **changes: str) -> str:
    pairs = {
        "servicesubject": "acknowledgment",
        "clientinformation.ipaddress": "150.163.2.175",
        "contenttype": "Data",
        "state": "Original",
        "url": f"http://mtc-m16c.sid.inpe.br/col/{REP}/",
        "url.persistent": f"http://urlib.net/{REP}",
        "urlkey": key,
        "ibi": f"rep%20{REP}",
        **changes,
    }
    return "&".join(f"{name}={value}" for name, value in pairs.items())


def key_of(app: Flask) -> str:
    return ask_urls(app, REP)["urlkey"][0]


def send(app: Flask, raw: str, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(app, f"{SERVICE_PATH}?{raw}", headers=named)


@pytest.mark.rule("R62-15")
def test_example_6_9_counts_although_it_has_no_state(new_app: NewApp) -> None:
    [example] = [
        one
        for one in load("messages.json")["requests"]
        if one["source"].startswith("[R] Example 6.9")
    ]
    address = urlsplit(example["url"])
    service = address.path[1:]
    app = new_app(
        IBI_ARCHIVE_SERVICE_IBI=service, IBI_ARCHIVE_ADDRESS=address.netloc, SECRET_KEY="of our own"
    )
    archive = archive_of(app)
    archive.init()
    import_file(archive, FOLDER / "archive" / "example_4_2" / "items.jsonl")
    rep = "sid.inpe.br/mtc-m19/2013/09.04.12.27.57"
    key = archive.url_keys.issue(item_id(archive, rep))
    raw = address.query.replace("1424636122-5331490054869684", key)
    assert raw != address.query
    assert ask(app, f"{address.path}?{raw}").body == NOTICE
    [row] = stored(archive)
    assert (row["asked"], row["delivered"], row["state"]) == (rep, None, None)
    assert row["url"].endswith("/doc/Relat%F3rio%20Final.pdf")
    # the key of the example was not issued by this Archive
    assert ask(app, f"{address.path}?{address.query}").body == NOTICE
    assert len(stored(archive)) == 1


@for_each(
    ("changes", "counted", "said"),
    [
        ({}, 1, ""),
        ({"urlkey": "1424636122-5331490054869684"}, 0, "forged"),
        ({"urlkey": ""}, 0, "urlkey is missing"),
        ({"contenttype": "Metadata"}, 0, "does not lead to"),
        ({"ibi": "rep%20a.br/x/2002/01.01.00.00"}, 0, "does not lead to"),
        ({"ibi": "x"}, 0, "ibi is wrong"),
        ({"clientinformation.ipaddress": ""}, 0, "clientinformation.ipaddress is missing"),
    ],
)
def test_the_answer_is_always_the_same_and_the_log_has_the_result(
    filled: Flask,
    caplog: pytest.LogCaptureFixture,
    changes: dict[str, str],
    counted: int,
    said: str,
) -> None:
    caplog.clear()
    forget_accesses(archive_of(filled))
    with caplog.at_level(logging.WARNING):
        answer = send(filled, query(filled, key_of(filled), **changes))
    assert (answer.status, answer.body) == (200, NOTICE)
    assert len(stored(archive_of(filled))) == counted
    assert said in caplog.text
    assert bool(caplog.records) is not bool(counted)
    assert "150.163.2.175" not in caplog.text


def test_robots_are_recognised_by_both_user_agents(filled: Flask) -> None:
    for agents in (
        {"User_Agent": "Tcl http client package 2.9.5"},
        {"User_Agent": "Tcl http client package 2.9.5", "X_Forwarded_User_Agent": "Googlebot/2.1"},
        {"User_Agent": "Googlebot/2.1"},
        {},
    ):
        assert send(filled, query(filled, key_of(filled)), **agents).body == NOTICE
    assert [bool(row["robot"]) for row in stored(archive_of(filled))] == [False, True, True, False]


def test_before_the_archive_is_known_only_valid_keys_get_an_answer(
    filled: Flask, new_app: NewApp, tmp_path: Path
) -> None:
    key = key_of(filled)
    # a server that has just started and has no database yet
    fresh = new_app(IBI_DATABASE_URI="postgresql+psycopg://nobody@127.0.0.1:1/nowhere")
    assert send(fresh, query(filled, "1424636122-5331490054869684")).status == 503
    for raw in ("servicesubject=inclusionConfirmationRequest", "", "servicesubject=x"):
        assert send(fresh, raw).status == 503
    assert send(fresh, query(filled, key)).body == NOTICE
    assert archive_of(filled).accesses.store.import_spool() == 1
    assert [row["asked"] for row in stored(archive_of(filled))] == [REP]


def test_an_access_that_cannot_be_stored_is_answered_503(
    filled: Flask, new_app: NewApp, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    fresh = new_app(
        IBI_DATABASE_URI="postgresql+psycopg://nobody@127.0.0.1:1/nowhere",
        IBI_SPOOL_FOLDER=str(tmp_path / "file" / "spool"),
    )
    answer = send(fresh, query(filled, key_of(filled)))
    assert answer.status == 503
    assert answer.headers["Retry-After"]
    assert str(tmp_path) not in answer.alert


# --- who may raise the numbers -------------------------------------------------------------------

RESOLVER, NEIGHBOUR, STRANGER = "150.163.34.243", "150.163.34.17", "192.0.2.66"
RESOLVER_6, NEIGHBOUR_6 = "2001:db8:1:2::1", "2001:db8:1:2:3:4:5:6"
#: The settings of an Archive that counts only what the resolver acknowledges.
ONLY_RESOLVER = {
    "IBI_COUNT_ONLY_RESOLVER": True,
    "IBI_RESOLVER_URL": f"http://{RESOLVER}:8080/J8LNKB5R7W/3FUQHC5",
}


def attack(app: Flask, asker: str, sender: str, count: int = 1, **headers: str) -> int:
    """Ask for URLs with invented users, acknowledge them, and return how many accesses count."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    forget_accesses(archive_of(app))
    for number in range(1, count + 1):
        user = f"198.51.100.{number}"
        key = ask_urls(app, REP, user=user, remote=asker, headers=named)["urlkey"][0]
        raw = query(app, key, **{"clientinformation.ipaddress": user})
        answer = ask(app, f"{SERVICE_PATH}?{raw}", headers=named, remote=sender)
        assert (answer.status, answer.body) == (200, NOTICE)
    return len(stored(archive_of(app)))


def test_a_stranger_can_raise_the_numbers_unless_only_the_resolver_may(
    new_app: NewApp, filled: Flask
) -> None:
    assert attack(filled, STRANGER, STRANGER, 21) == 21
    guarded = new_app(**ONLY_RESOLVER)
    assert attack(guarded, STRANGER, STRANGER, 21) == 0
    assert attack(guarded, RESOLVER, RESOLVER, 21) == 21


@pytest.mark.rule("R72-10")
@for_each(
    ("setting", "asker", "sender", "counted"),
    [
        (True, RESOLVER, NEIGHBOUR, 1),
        (True, RESOLVER, STRANGER, 0),
        (True, STRANGER, RESOLVER, 0),
        (True, RESOLVER_6, RESOLVER, 0),
        (["2001:db8:1::/48", "150.163.34.17"], RESOLVER_6, NEIGHBOUR_6, 1),
        (["2001:db8:1::/48", "150.163.34.17"], RESOLVER_6, "2001:db8:1:3::1", 0),
        (["2001:db8:1::/48", "150.163.34.17"], STRANGER, NEIGHBOUR_6, 0),
        (["2001:db8:1::/48", "150.163.34.17"], NEIGHBOUR, NEIGHBOUR, 1),
        (["2001:db8:1::/48", "150.163.34.17"], RESOLVER, RESOLVER, 0),
        (False, RESOLVER, STRANGER, 1),
        ([], RESOLVER, STRANGER, 1),
    ],
)
def test_keys_are_bound_to_the_network_that_asked_and_only_the_resolver_counts(
    new_app: NewApp, filled: Flask, setting: object, asker: str, sender: str, counted: int
) -> None:
    app = new_app(**{**ONLY_RESOLVER, "IBI_COUNT_ONLY_RESOLVER": setting})
    assert attack(app, asker, sender) == counted


def test_the_address_of_the_resolver_is_believed_behind_trusted_proxies_only(
    new_app: NewApp, filled: Flask
) -> None:
    app = new_app(**ONLY_RESOLVER, IBI_TRUSTED_PROXIES=["10.0.0.0/8"])
    assert attack(app, "10.0.0.1", "10.0.0.1", X_Forwarded_For=RESOLVER) == 1
    assert attack(app, "10.0.0.1", "10.0.0.1", X_Forwarded_For=STRANGER) == 0
    forged = f"{RESOLVER}, {STRANGER}"
    assert attack(app, "10.0.0.1", "10.0.0.1", X_Forwarded_For=forged) == 0
    assert attack(app, STRANGER, STRANGER, X_Forwarded_For=RESOLVER) == 0
    assert attack(app, "10.0.0.1", "10.0.0.1") == 0


def test_the_archives_own_persistent_urls_count_and_the_log_names_the_network(
    new_app: NewApp, filled: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    app = new_app(**ONLY_RESOLVER)
    assert ask(app, f"/{REP}", remote=STRANGER).status == 302
    [access] = stored(archive_of(app))
    assert access["asked"] == REP
    # a resolver of the same app gets its keys within the process, and sends its acknowledgments
    key = archive_of(app).url_keys.issue(item_id(archive_of(app), REP))
    for sender, counted in ((STRANGER, 1), (RESOLVER, 2)):
        assert ask(app, f"{SERVICE_PATH}?{query(app, key)}", remote=sender).body == NOTICE
        assert len(stored(archive_of(app))) == counted
    assert "192.0.2.0/24 is not a network of the resolver" in caplog.text
    caplog.clear()
    attack(app, RESOLVER, STRANGER)
    assert "or was not issued to 192.0.2.0/24" in caplog.text
    assert STRANGER not in caplog.text


def test_the_accesses_through_a_real_resolver_count(
    new_app: NewApp, filled: Flask, tmp_path: Path
) -> None:
    server, resolver = LoopbackServer(), LoopbackResolver(tmp_path)
    try:
        app = new_app(
            IBI_COUNT_ONLY_RESOLVER=True,
            IBI_RESOLVER_URL="http://127.0.0.1/J8LNKB5R7W/3FUQHC5",
            IBI_ARCHIVE_ADDRESS=server.address,
        )
        server.serve(app)
        resolver.include(app)
        assert resolver.get(REP).status_code == 302
    finally:
        resolver.close()
        server.close()
    assert [row["asked"] for row in stored(archive_of(app))] == [REP]


def test_a_url_request_looks_nothing_up(
    new_app: NewApp, filled: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = new_app(**ONLY_RESOLVER)
    ask_urls(app, REP)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *asked, **more: 1 / 0)
    assert ask_urls(app, REP, remote=RESOLVER)["urlkey"]
    assert ask_urls(app, REP, remote=STRANGER)["urlkey"]


@pytest.mark.slow
def test_each_answered_acknowledgment_counts_once_although_a_server_is_killed(
    uri: str, tmp_path: Path
) -> None:
    assert "counted once each" in run(uri, tmp_path, count=60, threads=4, kills=1)


@pytest.mark.slow
def test_each_answered_acknowledgment_counts_once_on_each_database(
    uri: str, tmp_path: Path
) -> None:
    # three processes and one that is killed
    assert "counted once each" in run(uri, tmp_path, count=120, threads=8, kills=1)
