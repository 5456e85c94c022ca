"""Signals: what happened in the Archive, after the commit, in order, and never after a rollback."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from blinker import NamedSignal
from flask import Flask
from support.accesses import PERSISTENT, acknowledge
from support.archives import SERVICE, archive_of
from support.host_app import Host
from support.operations import SECOND, THIRD, make_archives
from support.web import ask_urls

from flask_ibi_archive import signals
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.errors import RuleBroken, StorageError

SIGNALS = {name: one for name, one in vars(signals).items() if isinstance(one, NamedSignal)}
Received = list[tuple[str, Any, dict[str, Any]]]


@pytest.fixture
def received() -> Iterator[Received]:
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


# --- errors and recursion -------------------------------------------------------------------------


def test_an_error_in_a_receiver_is_logged_and_stops_nothing(
    app: Flask,
    caplog: pytest.LogCaptureFixture,
    received: Received,
) -> None:
    def fail(sender: Flask, **values: Any) -> None:
        raise ValueError("the mail server is down")

    with caplog.at_level(logging.ERROR), signals.item_deposited.connected_to(fail):
        item = archive_of(app).deposit()
    assert archive_of(app).get(item.ibi) is not None
    assert names(received) == ["item_minted", "item_deposited"]
    [record] = caplog.records
    assert "fail of the signal item-deposited failed" in record.getMessage()
    assert record.name == app.logger.name
    assert record.exc_info is not None


def test_a_receiver_may_deposit_in_the_session_of_the_host(host: Host, received: Received) -> None:
    def receive(sender: Flask, ibi: str, **values: Any) -> None:
        assert host.archive.get(ibi) is not None
        host.archive.new_edition(ibi)
        host.session.commit()

    with signals.item_deposited.connected_to(receive):
        host.archive.deposit(title="A")
        host.session.commit()
    assert sorted(names(received)) == sorted(
        ["item_minted", "item_deposited", "item_minted", "item_deposited", "item_changed"]
    )
    assert not host.session().in_transaction()


# --- models of the host ---------------------------------------------------------------------------


def test_rows_send_the_signals_of_their_items_after_the_commit(
    host: Host, received: Received
) -> None:
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
    host: Host, received: Received
) -> None:
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
