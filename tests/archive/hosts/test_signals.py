"""Signals: what happened in the Archive, after the commit, in order, and never after a rollback."""

from __future__ import annotations

import gc
import io
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session
from support.accesses import PERSISTENT, USER, acknowledge
from support.archives import SERVICE, archive_of, close, import_records, make_app
from support.commands import command
from support.host_models import Host
from support.loopback import EXCLUDED, SUCCESSFUL
from support.operations import SECOND, THIRD, make_archives
from support.registries import a_registry, a_request
from support.web import ask_urls

from flask_ibi_archive import signals
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.hosts import adopting
from flask_ibi_archive.archive.items import import_export as importer
from flask_ibi_archive.archive.items import operations as context
from flask_ibi_archive.archive.joining import registration
from flask_ibi_archive.core.protocol.inclusion import EXCLUSION_REQUEST, INCLUSION_REQUEST
from flask_ibi_archive.errors import RuleBroken, StorageError
from flask_ibi_archive.resolver.archives import RegistrationRefused
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import RESOLVER
from flask_ibi_archive.server.http.transport import HttpResponse
from flask_ibi_archive.signals import Notifier

SIGNALS = {
    name: getattr(signals, name)
    for name in (
        "item_minted",
        "item_deposited",
        "item_changed",
        "item_state_changed",
        "url_requested",
        "access_acknowledged",
        "archive_included",
        "archive_excluded",
    )
}
Received = list[tuple[str, Any, dict[str, Any]]]


@pytest.fixture
def received() -> Iterator[Received]:
    """All signals that were sent: the name, the sender and the values."""
    found: Received = []
    receivers = {}
    for name, signal in SIGNALS.items():

        def receive(sender: Any, name: str = name, **values: Any) -> None:
            found.append((name, sender, values))

        receivers[name] = signal.connect(receive)
    yield found
    for name, signal in SIGNALS.items():
        signal.disconnect(receivers[name])


@pytest.fixture
def connect() -> Iterator[Callable[..., None]]:
    """Connects receivers until the end of the test."""
    connected = []

    def add(signal: Any, receiver: Any, **options: Any) -> None:
        signal.connect(receiver, **options)
        connected.append((signal, receiver))

    yield add
    for signal, receiver in connected:
        signal.disconnect(receiver)


@pytest.fixture
def host(new_host: Callable[..., Host]) -> Host:
    return new_host()


@pytest.fixture
def archives(new_app: Callable[..., Flask]) -> list[Archive]:
    return make_archives(new_app, 3)


def names(received: Received) -> list[str]:
    """Return the names of the signals, and forget them."""
    found = [name for name, _, _ in received]
    received.clear()
    return found


def brief(received: Received) -> list[tuple[Any, ...]]:
    """Return the signals about items as short tuples, and forget them."""
    keys = ("archive", "old_state", "new_state", "fields")
    found = [
        (name, values["ibi"], *[values[key] for key in keys if key in values])
        for name, _, values in received
    ]
    received.clear()
    return found


# --- items ----------------------------------------------------------------------------------------


def test_each_operation_sends_its_signals(archives: list[Archive], received: Received) -> None:
    first, second, third = archives
    [minted] = first.mint()
    assert brief(received) == [("item_minted", minted.ibi, SERVICE)]
    draft = first.reserve()
    assert brief(received) == [("item_minted", draft.ibi, SERVICE)]
    item = first.deposit(reserved=draft.ibi, language="en")
    assert brief(received) == [("item_deposited", item.ibi, SERVICE)]
    edition = first.new_edition(item.ibi)
    assert brief(received) == [
        ("item_minted", edition.ibi, SERVICE),
        ("item_deposited", edition.ibi, SERVICE),
        ("item_changed", item.ibi, SERVICE, ("next_edition",)),
    ]
    portuguese = first.add_translation(item.ibi, language="pt")
    assert names(received) == ["item_minted", "item_deposited"]
    first.edit(portuguese.ibi, title="A", language="fr")
    assert brief(received) == [
        ("item_changed", portuguese.ibi, SERVICE, ("language", "metadata")),
    ]
    first.edit(portuguese.ibi, metadata=None)
    assert brief(received) == [("item_changed", portuguese.ibi, SERVICE, ("metadata",))]
    first.make_copy(edition.ibi, SECOND)
    third.make_copy(edition.ibi)
    assert brief(received) == [
        ("item_state_changed", edition.ibi, SECOND, None, "Copy"),
        ("item_state_changed", edition.ibi, THIRD, None, "Copy"),
    ]
    first.transfer(edition.ibi, SECOND)
    assert brief(received) == [
        ("item_state_changed", edition.ibi, SECOND, "Copy", "Original"),
        ("item_state_changed", edition.ibi, SERVICE, "Original", "Deleted"),
        ("item_changed", edition.ibi, THIRD, ("original_archive",)),
    ]
    second.transfer(edition.ibi, SERVICE, keep_copy=True)
    assert brief(received)[:2] == [
        ("item_state_changed", edition.ibi, SERVICE, "Deleted", "Original"),
        ("item_state_changed", edition.ibi, SECOND, "Original", "Copy"),
    ]
    first.delete(portuguese.ibi, "withdrawn")
    assert brief(received) == [
        ("item_state_changed", portuguese.ibi, SERVICE, "Original", "Deleted"),
    ]


def test_the_values_are_plain_and_the_sender_is_the_app(app: Flask, received: Received) -> None:
    archive = archive_of(app)
    item = archive.deposit(files=[("a.txt", io.BytesIO(b"a"))])
    archive.edit(item.ibi, files=())
    forms = {"ibi": item.ibip, "rep": item.rep, "ibip": item.ibip, "archive": SERVICE}
    changed = {**forms, "state": "Original", "fields": ("files",)}
    assert received == [
        ("item_minted", app, forms),
        ("item_deposited", app, forms),
        ("item_changed", app, changed),
    ]


def test_a_refused_operation_sends_no_signal(archives: list[Archive], received: Received) -> None:
    first = archives[0]
    item = first.deposit(language="en")
    first.new_edition(item.ibi)
    names(received)
    with pytest.raises(RuleBroken):
        first.new_edition(item.ibi)
    with pytest.raises(RuleBroken):
        first.add_translation(item.ibi, language="en")
    with pytest.raises(StorageError):
        first.transfer(item.ibi, "dpi.inpe.br/nowhere/1999/01.09.22.14")
    assert names(received) == []


def test_a_receiver_of_one_app_gets_no_signals_of_others(
    archives: list[Archive], connect: Callable[..., None]
) -> None:
    first, second, _ = archives
    found: list[str] = []

    def receive(sender: Flask, ibi: str, **values: Any) -> None:
        found.append(ibi)

    connect(signals.item_deposited, receive, sender=first.notifier.sender)
    item = first.deposit()
    second.deposit()
    assert found == [item.ibi]


# --- errors and recursion -------------------------------------------------------------------------


def test_an_error_in_a_receiver_is_logged_and_stops_nothing(
    app: Flask,
    connect: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
    received: Received,
) -> None:
    def fail(sender: Flask, **values: Any) -> None:
        raise ValueError("the mail server is down")

    connect(signals.item_deposited, fail)
    with caplog.at_level(logging.ERROR):
        item = archive_of(app).deposit()
    assert archive_of(app).get(item.ibi) is not None
    assert names(received) == ["item_minted", "item_deposited"]
    [record] = caplog.records
    assert "fail of the signal item-deposited failed" in record.getMessage()
    assert record.name == app.logger.name
    assert record.exc_info is not None


def test_a_receiver_may_use_the_archive_and_is_not_called_for_its_own_changes(
    app: Flask, connect: Callable[..., None]
) -> None:
    archive = archive_of(app)
    found: list[Any] = []

    def receive(sender: Flask, ibi: str, **values: Any) -> None:
        found.append(archive.get(ibi))
        archive.deposit(title="a deposit of the receiver")

    def receive_too(sender: Flask, ibi: str, **values: Any) -> None:
        archive.deposit(title="a deposit of the other receiver")

    connect(signals.item_deposited, receive)
    archive.deposit(title="A")
    assert [item.title for item in found] == ["A"]
    connect(signals.item_deposited, receive_too)
    archive.deposit(title="B")
    # each of the two receives the deposits of the other one
    assert sorted(item.title for item in found) == ["A", "B", "a deposit of the other receiver"]


def test_a_receiver_may_deposit_in_the_session_of_the_host(
    host: Host, connect: Callable[..., None], received: Received
) -> None:
    def receive(sender: Flask, ibi: str, **values: Any) -> None:
        assert host.archive.get(ibi) is not None
        host.archive.new_edition(ibi)
        host.session.commit()

    connect(signals.item_deposited, receive)
    host.archive.deposit(title="A")
    host.session.commit()
    assert sorted(names(received)) == sorted(
        ["item_minted", "item_deposited", "item_minted", "item_deposited", "item_changed"]
    )
    assert not host.session().in_transaction()


# --- the session of the host ----------------------------------------------------------------------


def test_the_signals_are_sent_after_the_commit_of_the_host(host: Host, received: Received) -> None:
    item = host.archive.deposit(language="en")
    host.archive.edit(item.ibi, language="pt")
    assert received == []
    host.session.commit()
    assert names(received) == ["item_minted", "item_deposited", "item_changed"]
    host.session.commit()
    assert received == []
    with host.session.begin():
        host.archive.delete(item.ibi, "withdrawn")
        assert received == []
    assert names(received) == ["item_state_changed"]


@pytest.mark.parametrize("end", ["rollback", "close", "remove"])
def test_a_rollback_of_the_host_sends_no_signal(host: Host, received: Received, end: str) -> None:
    with host.session.begin_nested():
        host.archive.deposit()
    host.archive.deposit()
    getattr(host.session, end)()
    host.session.commit()
    assert received == []
    item = host.archive.deposit()
    host.session.commit()
    assert brief(received)[1] == ("item_deposited", item.ibi, SERVICE)


def test_a_savepoint_that_is_rolled_back_sends_no_signal(host: Host, received: Received) -> None:
    session: Session = host.session()
    before = host.archive.deposit()
    outer = session.begin_nested()
    kept = host.archive.deposit()
    inner = session.begin_nested()
    host.archive.deposit()
    inner.rollback()
    with session.begin_nested():
        kept_too = host.archive.deposit()
    outer.commit()
    lost = session.begin_nested()
    with session.begin_nested():
        host.archive.deposit()
    lost.rollback()
    with pytest.raises(StorageError):
        host.archive.deposit(language=7)  # type: ignore[arg-type]
    assert received == []
    session.commit()
    found = [one[1] for one in brief(received) if one[0] == "item_deposited"]
    assert found == [before.ibi, kept.ibi, kept_too.ibi]


def test_a_commit_that_fails_sends_no_signal(
    host: Host, received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.archive.deposit()

    def fail(connection: Any) -> None:
        raise OSError("the server is gone")

    with monkeypatch.context() as patch:
        patch.setattr(host.engine.dialect, "do_commit", fail)
        with pytest.raises(OSError, match="gone"):
            host.session.commit()
    host.session.rollback()
    host.session.commit()
    assert received == []


# --- imports --------------------------------------------------------------------------------------

A, B, C = (f"a.br/x/2001/01.01.00.0{number}" for number in range(3))
COPY = {"state": "Copy", "original_archive": "b.br/service/2001/01.01.00.00"}


def write_lines(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_an_import_sends_one_signal_for_each_changed_item(
    app: Flask, tmp_path: Path, received: Received
) -> None:
    (tmp_path / "a.txt").write_text("a")
    file = {"path": "a.txt", "source": "a.txt"}
    deleted = {"state": "Deleted", "timestamp": "2001-02-03T04:05:06Z"}
    tombstone = {**deleted, "tombstone": {"reason": "wrong"}}
    english = {"rep": A, "language": "en", "next_edition": B, "files": [file]}
    # the line of A refers to B and C before they exist
    lines = write_lines(
        tmp_path / "items.jsonl", {**english, "translations": {"pt": C}}, {"rep": B, **COPY},
        {"rep": C, "language": "pt", "translations": {"en": A}},
    )  # fmt: skip
    assert command(app, "import", lines).status == 0
    assert brief(received) == [
        ("item_deposited", A, SERVICE),
        ("item_state_changed", B, SERVICE, None, "Copy"),
        ("item_deposited", C, SERVICE),
    ]
    update = ("--on-conflict", "update")
    assert command(app, "import", lines, *update).status == 0
    assert brief(received) == [], "the records are the same as before"
    assert command(app, "import", lines, "--on-conflict", "skip").status == 0
    assert command(app, "import", lines, "--on-conflict", "update", "--dry-run").status == 0
    assert brief(received) == []
    (tmp_path / "a.txt").write_text("another text")
    lines = write_lines(lines, {**english, "language": "fr"}, {"rep": C, **tombstone})
    assert command(app, "import", lines, *update).status == 0
    assert brief(received) == [
        ("item_changed", A, SERVICE, ("language", "files")),
        ("item_state_changed", C, SERVICE, "Original", "Deleted"),
    ]


def test_signals_of_an_import_are_sent_after_the_commit_to_receivers_that_may_fail(
    app: Flask, connect: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    archive = archive_of(app)
    seen: list[Any] = []

    def receive(sender: Flask, ibi: str, **values: Any) -> None:
        seen.append((archive.get(ibi), archive.get(B)))
        archive.deposit(title="a deposit of the receiver")
        raise ValueError("the mail server is down")

    connect(signals.item_deposited, receive, sender=app)
    with caplog.at_level(logging.ERROR):
        assert import_records(archive, [{"rep": A}, {"rep": B}]).added == 2
    assert len(seen) == len(caplog.records) == 2
    assert None not in seen[0]


def test_an_import_that_fails_sends_no_signals(
    app: Flask, tmp_path: Path, received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "BATCH", 1)
    lines = write_lines(tmp_path / "items.jsonl", {"rep": A}, {"rep": B}, {"rep": A})
    assert f"{A} is already in" in command(app, "import", lines).error
    assert brief(received) == []


def test_an_import_without_receivers_notes_nothing(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*parts: object) -> None:
        raise AssertionError("a signal was built")

    gc.collect()  # receivers of apps of other tests
    archive = archive_of(app)
    monkeypatch.setattr(context, "Notice", fail)
    records = [{"rep": A}, {"rep": B, **COPY}]
    for language in ("en", "pt"):
        records[0]["language"] = language
        import_records(archive, records, on_conflict="update")


# --- models of the host ---------------------------------------------------------------------------


def test_rows_send_the_signals_of_their_items_after_the_commit(
    any_host: Host, received: Received
) -> None:
    host = any_host
    first = host.Thesis(title="On rain", language="en")
    draft = host.Thesis(title="a draft", state="Draft")
    host.session.add_all([first, draft])
    host.session.flush()
    assert received == []
    host.session.commit()
    assert sorted(brief(received)) == sorted(
        [
            ("item_minted", first.ibi, SERVICE),
            ("item_deposited", first.ibi, SERVICE),
            ("item_minted", draft.ibi, SERVICE),
        ]
    )
    draft.state = "Original"
    draft.previous = first
    host.session.commit()
    assert brief(received) == [
        ("item_deposited", draft.ibi, SERVICE),
        ("item_changed", first.ibi, SERVICE, ("next_edition",)),
    ]
    first.views = 1
    host.session.commit()
    assert brief(received) == []
    first.title = "On snow"
    draft.state = "Deleted"
    host.session.commit()
    assert sorted(brief(received)) == sorted(
        [
            ("item_changed", first.ibi, SERVICE, ("metadata",)),
            ("item_state_changed", draft.ibi, SERVICE, "Original", "Deleted"),
        ]
    )
    ibi = first.ibi
    host.session.delete(draft)
    host.session.flush()
    host.session.delete(first)
    host.session.commit()
    assert brief(received) == [("item_state_changed", ibi, SERVICE, "Original", "Deleted")]


def test_rows_that_are_rolled_back_also_to_a_savepoint_send_no_signals(
    any_host: Host, received: Received
) -> None:
    host = any_host
    host.session.add(host.Thesis(title="rolled back"))
    host.session.flush()
    host.session.rollback()
    row = host.Thesis(title="On rain")
    host.session.add(row)
    savepoint = host.session.begin_nested()
    row.title = "On snow"
    host.session.add(host.Thesis(title="in a savepoint"))
    host.session.flush()
    savepoint.rollback()
    with host.session.begin_nested():
        kept = host.Thesis(title="in a savepoint that is kept")
        host.session.add(kept)
    assert received == []
    host.session.commit()
    assert brief(received) == [
        (name, one.ibi, SERVICE)
        for one in (row, kept)
        for name in ("item_minted", "item_deposited")
    ]


@pytest.mark.parametrize("words", [(), ("--resume",)])
def test_adopted_rows_send_signals_after_their_commit(
    new_host: Callable[..., Host],
    received: Received,
    connect: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    host = new_host("flask-sqlalchemy")
    monkeypatch.setattr(adopting, "BATCH", 2)
    values = [{"title": f"thesis {number}", "state": "Original"} for number in range(4)]
    values[2]["language"] = "not a language"
    host.session.execute(insert(host.Thesis), values)
    host.session.commit()
    missing: list[int] = []
    count = select(func.count()).where(host.Thesis.ibi_rep.is_(None))

    def look(sender: Flask, **values: Any) -> None:
        with host.engine.connect() as connection:
            missing.append(connection.execute(count).scalar_one())

    connect(signals.item_deposited, look)
    runner = host.app.test_cli_runner()
    adopt = ["ibi", "adopt", "support.host_models:FlaskThesis"]
    runner.invoke(args=[*adopt, "--dry-run"])
    assert received == []
    runner.invoke(args=[*adopt, *words])
    rows = host.session.scalars(select(host.Thesis).order_by(host.Thesis.id)).all()
    adopted = [row.ibi for row in rows if row.ibi is not None]
    found = brief(received)
    assert [one[1] for one in found if one[0] == "item_deposited"] == adopted
    assert [one[1] for one in found if one[0] == "item_minted"] == adopted
    assert len(found) == 2 * len(adopted) == 6
    assert missing == ([2, 2, 1] if words else [1, 1, 1])


# --- requests, accesses, registration -------------------------------------------------------------


def test_a_urlrequest_sends_its_item_and_its_client(app: Flask, received: Received) -> None:
    item = archive_of(app).deposit()
    names(received)
    ask_urls(app, item.rep)
    unknown = "8JMKD3MGP8W/35MME4E"
    ask_urls(app, unknown)
    (_, sender, values), (_, _, other) = received
    assert sender is app
    assert (values["ibi"], values["filepath"]) == (item.rep, "")
    assert values["client_address"].startswith("150.163.")
    assert values["urls"] > other["urls"] == 0
    assert other["ibi"] == unknown


def test_an_acknowledged_access_is_sent_after_it_is_stored(app: Flask, received: Received) -> None:
    archive = archive_of(app)
    item = archive.deposit(language="en")
    names(received)
    acknowledgment = acknowledge(archive, item.rep)
    archive.take_acknowledgment(acknowledgment)
    [(name, _, values)] = received
    assert name == "access_acknowledged"
    assert values == {
        "ibi": item.rep,
        "client_address": "150.163.2.0",
        "url": acknowledgment.url,
        "persistent_url": PERSISTENT,
        "content_type": "Data",
    }
    archive.take_acknowledgment(acknowledgment)
    assert len(received) == 1, "a key counts once"


def test_addresses_are_not_anonymised_if_the_settings_say_so(
    uri: str, tmp_path: Path, received: Received
) -> None:
    app = make_app(uri, tmp_path, IBI_ANONYMISE_IPS=False)
    archive = archive_of(app)
    archive.init()
    archive.take_acknowledgment(acknowledge(archive, archive.deposit().rep))
    assert received[-1][2]["client_address"] == USER
    close(app)


def test_an_inclusion_and_an_exclusion_are_sent(
    new_app: Callable[..., Flask], received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = new_app(
        IBI_REGISTRATION_KEY="1234567890-9876543210", IBI_ARCHIVE_ADMIN_EMAIL="banon@dpi.inpe.br"
    )
    archive_of(app).init()
    answers = iter([SUCCESSFUL, EXCLUDED])

    def answer(*parts: Any, **options: Any) -> HttpResponse:
        body = next(answers)
        return HttpResponse(
            200,
            {"content-type": "text/plain"},
            body.encode(),
        )

    monkeypatch.setattr(registration.transport, "fetch", answer)
    registration.send_request(archive_of(app), INCLUSION_REQUEST)
    registration.send_request(archive_of(app), EXCLUSION_REQUEST)
    values = {
        "side": "archive",
        "archive": SERVICE,
        "address": "mtc-m16c.sid.inpe.br",
        "resolver": "http://urlib.net/J8LNKB5R7W/3FUQHC5",
    }
    assert received == [
        ("archive_included", app, {**values, "confirmed": True}),
        ("archive_excluded", app, values),
    ]


def test_the_resolver_sends_inclusions_and_exclusions_too(
    tmp_path: Path, received: Received
) -> None:
    app = Flask("resolver")
    database = Database(f"sqlite:///{tmp_path / 'resolver.sqlite'}", RESOLVER)
    database.create()
    with database.writing() as connection:
        migrate.upgrade(connection, history=RESOLVER)
    registry = a_registry(database, notifier=Notifier(app))
    request = a_request()
    registry.register(request.service_ibi.text, request.key)
    registry.process(request)
    with pytest.raises(RegistrationRefused):
        registry.process(a_request(key="0000000000-9876543210"))
    registry.process(a_request(EXCLUSION_REQUEST))
    database.close()
    values = {
        "side": "resolver",
        "archive": request.service_ibi.text,
        "address": request.address,
        "resolver": registry.config.service_url,
    }
    assert received == [
        ("archive_included", app, {**values, "confirmed": True}),
        ("archive_excluded", app, values),
    ]
