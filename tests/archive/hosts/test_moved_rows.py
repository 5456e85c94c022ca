"""Rows of hosts with models whose items move here from another server, or move away."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from support.commands import command
from support.givers import ID, SECRET, Giver, item, rep
from support.host_models import Host
from support.loopback import HERE, serving

from flask_ibi_archive.core.records.item_view import ItemView
from flask_ibi_archive.signals import item_state_changed, moved_here

FILE = {"path": "a.txt", "content": b"text"}


def accept(app: Flask, giver: Giver) -> Any:
    """Accept the offer of a giver with the command."""
    with serving(giver) as address:
        url = f"http://{address}/ibi/offers/{ID}#{SECRET}"
        return command(app, "accept", "-", stdin=url.encode())


def register(host: Host) -> list[ItemView]:
    """Let the host add rows, and return the items for which it was called."""
    called = []

    @host.ibi.moved_here
    def add_row(item: ItemView) -> Any:
        called.append(item)
        known = host.session.query(host.Thesis).filter_by(ibi_rep=item.record.rep).one_or_none()
        row = known or host.Thesis(title="")
        row.title = item.title
        host.session.add(row)
        return row

    return called


@pytest.fixture
def host(new_host: Callable[..., Host]) -> Host:
    return new_host(IBI_INNER_HOSTS=HERE)


@pytest.mark.parametrize("kind", ["flask-sqlalchemy", "dataclass"])
def test_each_kind_of_model_gets_rows(new_host: Callable[..., Host], kind: str) -> None:
    host = new_host(kind, IBI_INNER_HOSTS=HERE)
    register(host)
    assert accept(host.app, Giver([item(1)])).status == 0
    assert [row.ibi_rep for row in host.session.query(host.Thesis)] == [rep(1)]


def test_items_that_move_here_get_rows(host: Host) -> None:
    called = register(host)
    giver = Giver([item(1, files=[FILE]), item(2, state="Deleted"), item(3)], page=2)
    done = accept(host.app, giver)
    assert (done.status, done.out) == (0, ""), done.err
    assert [one.record.rep for one in called] == [rep(1), rep(3)]
    rows = host.session.query(host.Thesis).order_by(host.Thesis.id).all()
    assert [(row.ibi_rep, row.title) for row in rows] == [(rep(1), "Item 1"), (rep(3), "Item 3")]
    # the item keeps what it had, also what the row does not have
    found = host.archive.get(rep(1))
    assert found is not None
    assert (found.record.state, list(found.sizes)) == ("Original", ["a.txt"])
    # from now on the item follows its row
    rows[0].title = "Another title"
    host.session.commit()
    found = host.archive.get(rep(1))
    assert found is not None
    assert found.title == "Another title"
    host.session.delete(rows[1])
    host.session.commit()
    found = host.archive.get(rep(3))
    assert found is not None
    assert found.record.state == "Deleted"


def test_copies_get_no_rows(host: Host) -> None:
    called = register(host)
    assert accept(host.app, Giver([item(1)], kind="copy")).status == 0
    assert called == []


def test_without_the_function_the_items_have_no_rows(host: Host) -> None:
    assert accept(host.app, Giver([item(1)])).status == 0
    found = host.archive.get(rep(1))
    assert found is not None
    assert found.record.state == "Original"
    assert host.session.query(host.Thesis).count() == 0


@pytest.mark.parametrize("error", ["raises", "wrong row"])
def test_an_error_of_the_function_does_not_stop_the_move(
    host: Host, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    @host.ibi.moved_here
    def add_row(item: ItemView) -> Any:
        if item.record.rep == rep(1):
            if error == "raises":
                raise ValueError("no author")
            row = host.Thesis(title=None)
        else:
            row = host.Thesis(title=item.title)
        host.session.add(row)
        return row

    with caplog.at_level(logging.ERROR):
        assert accept(host.app, Giver([item(1), item(2)])).status == 0
    assert f"ibi.moved_here has failed for {rep(1)}" in caplog.text
    assert [row.ibi_rep for row in host.session.query(host.Thesis)] == [rep(2)]
    assert {one.record.state for one in host.archive.find()} == {"Original"}


def test_a_row_whose_item_has_moved_away_can_still_be_edited(host: Host) -> None:
    row = host.add("On rain")
    ibi, ibip = str(row.ibi_rep), row.ibi_ibip
    host.session.commit()
    give_away(host, ibi)
    row.title = "On snow"
    host.session.commit()
    found = host.archive.get(ibi)
    assert found is not None
    assert (found.record.state, found.title) == ("Copy", "On rain")
    # the item comes back, with the changes that were made there
    register(host)
    back = item(1, rep=ibi, ibip=ibip, metadata={"dc": {"title": ["On hail"]}})
    done = accept(host.app, Giver([back]))
    assert (done.status, done.out) == (0, ""), done.err
    host.session.expire_all()
    assert [one.title for one in host.session.query(host.Thesis)] == ["On hail"]
    found = host.archive.get(ibi)
    assert found is not None
    assert (found.record.state, found.title) == ("Original", "On hail")


def give_away(host: Host, ibi: str) -> None:
    """Make an item a Copy of an Original that the giver has."""
    from support.archives import FAR_SERVICE

    from flask_ibi_archive.archive.items.operations.context import find_item
    from flask_ibi_archive.core.protocol.states import State

    with host.archive.without_session().context.transaction() as store:
        store.set_state(find_item(store, ibi)[0], State.COPY, FAR_SERVICE)


def test_the_signals_of_a_move(host: Host) -> None:
    received: list[Any] = []

    def receive(sender: Any, **values: Any) -> None:
        received.append((values["ibi"], values.get("new_state", values.get("giver"))))

    with (
        moved_here.connected_to(receive),
        item_state_changed.connected_to(receive),
    ):
        accept(host.app, Giver([item(1)]))
    from support.archives import FAR_SERVICE

    assert received == [(rep(1), "Copy"), (rep(1), "Original"), (rep(1), FAR_SERVICE)]


def test_a_function_without_a_session_is_refused(new_app: Callable[..., Flask], uri: str) -> None:
    from support.archives import archive_of

    from flask_ibi_archive import IBIArchive

    ibi = IBIArchive()
    ibi.moved_here(lambda item: None)
    app = new_app(ibi=ibi, IBI_INNER_HOSTS=HERE)
    archive_of(app).init()
    done = accept(app, Giver([item(1)]))
    assert (done.status, "session is not set" in done.err) == (1, True)
