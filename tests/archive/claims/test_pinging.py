"""The resolver is told soon after a commit, once for many, and the app does not notice it."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from flask import Flask
from support.archives import SERVICE, archive_of, close, make_app
from support.commands import command, example_app, process
from support.host_models import Host
from support.loopback import PATIENCE, nobody, serving
from support.pinged import PingedResolver

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.claims.pinging import Pinger
from flask_ibi_archive.archive.items.operations.context import transaction_committed
from flask_ibi_archive.archive.joining.registration_state import store_status
from flask_ibi_archive.errors import UnknownItem

NewApp = Callable[..., Flask]
#: An Archive without a registration key cannot be included.
JOINED = {"IBI_REGISTRATION_KEY": "1424636122-5331490054869684"}
PING = ("/ibi/claims/ping", "service=" + SERVICE.replace("/", "%2F").replace("@", "%40"))


def include(archive: Archive, *, included: bool = True) -> None:
    """Store that the resolver has included the Archive."""
    with archive.database.writing() as connection:
        store_status(
            connection,
            archive.served().id,
            archive.config.resolver_url,
            "mtc-m16c.sid.inpe.br",
            "150.163.34.243",
            included=included,
            confirmed=included,
            now=datetime.now(timezone.utc),
        )


@contextmanager
def pinging(
    new_app: NewApp, address: str, *, included: bool = True, **config: Any
) -> Iterator[Archive]:
    """Yield an Archive whose pings are sent at once."""
    app = new_app(**JOINED, **config, IBI_RESOLVER_URL=f"http://{address}/J8LNKB5R7W/3FUQHC5")
    archive = archive_of(app)
    archive.init()
    archive.claims.create_key()
    if included:
        include(archive)
    app.extensions["ibi_archive"].pinger._pause = 0.01
    yield archive
    finish()


def finish() -> None:
    """Wait until no message is being sent."""
    for thread in threading.enumerate():
        if thread.name == "ibi-claims-ping":
            thread.join(PATIENCE)


def test_the_resolver_is_told_after_each_kind_of_change(new_app: NewApp, tmp_path: Path) -> None:
    resolver = PingedResolver()
    with serving(resolver) as address, pinging(new_app, address) as archive:
        item = archive.deposit(title="Rain")
        assert resolver.wait() == PING
        archive.edit(item.ibi, same_as=["doi:10.5281/zenodo.1"])
        assert resolver.wait() == PING
        archive.delete(item.ibi, reason="x")
        assert resolver.wait() == PING


def test_an_import_tells_the_resolver(new_app: NewApp, items: Path) -> None:
    resolver = PingedResolver()
    with serving(resolver) as address, pinging(new_app, address) as archive:
        app = archive.notifier.sender
        assert command(app, "import", items).status == 0
        assert resolver.wait() == PING


def test_a_command_sends_its_message_before_it_ends(new_app: NewApp) -> None:
    resolver = PingedResolver()
    with serving(resolver) as address, pinging(new_app, address) as archive:
        app = archive.notifier.sender
        pinger = app.extensions["ibi_archive"].pinger
        pinger._pause = PATIENCE
        item = archive.deposit(title="Rain").ibi
        for _ in range(2):
            assert command(app, "alias", "add", item, "doi:10.5281/zenodo.1").status == 0
            assert resolver.asked.get_nowait() == PING
            assert command(app, "alias", "remove", item, "doi:10.5281/zenodo.1").status == 0
            assert resolver.asked.get_nowait() == PING
        assert command(app, "show", item).status == 0
        assert resolver.asked.empty()


def test_a_command_in_its_own_process_tells_the_resolver(tmp_path: Path) -> None:
    archive = archive_of(example_app(tmp_path))
    archive.init()
    archive.claims.create_key()
    include(archive)
    (tmp_path / "rain.txt").write_text("Rain")
    resolver = PingedResolver()
    with serving(resolver) as address:
        settings = {
            "FLASK_IBI_RESOLVER_URL": f"http://{address}/J8LNKB5R7W/3FUQHC5",
            "FLASK_IBI_REGISTRATION_KEY": JOINED["IBI_REGISTRATION_KEY"],
        }
        assert process(tmp_path, "ibi", "add", str(tmp_path / "rain.txt"), **settings).status == 0
        assert resolver.asked.get_nowait()[0] == PING[0]


def test_a_command_does_not_wait_long_for_a_resolver_that_hangs(
    new_app: NewApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flask_ibi_archive.archive.claims.pinging.FINISH", 0.01)
    released = Event()

    def hang(environ: Any, start_response: Any) -> list[bytes]:
        released.wait(PATIENCE)
        start_response("204 No Content", [])
        return []

    with serving(hang) as address, pinging(new_app, address) as archive:
        archive.notifier.sender.extensions["ibi_archive"].pinger._pause = PATIENCE
        item = archive.deposit(title="Rain").ibi
        done = command(archive.notifier.sender, "alias", "add", item, "doi:10.5281/zenodo.1")
        assert not released.is_set()
        assert (done.status, done.err) == (0, "")
        released.set()
        finish()


def test_a_host_that_commits_tells_the_resolver_and_one_that_rolls_back_does_not(
    uri: str, tmp_path: Path
) -> None:
    resolver = PingedResolver()
    with serving(resolver) as address:
        host = Host(uri, tmp_path, IBI_RESOLVER_URL=f"http://{address}/x", **JOINED)
        with closing(host):
            include(host.archive)
            host.archive.claims.create_key()
            host.app.extensions["ibi_archive"].pinger._pause = 0.01
            host.session.add(host.Thesis(title="x"))
            host.session.flush()
            host.session.rollback()
            finish()
            assert resolver.asked.empty()
            host.add()
            assert resolver.wait() == ("/x" + PING[0], PING[1])
            finish()


def test_many_commits_are_one_message(new_app: NewApp) -> None:
    resolver = PingedResolver()
    with serving(resolver) as address, pinging(new_app, address) as archive:
        released = Event()
        pinger = archive.notifier.sender.extensions["ibi_archive"].pinger
        send = pinger._send

        def wait_and_send() -> None:
            released.wait(PATIENCE)
            send()

        pinger._send = wait_and_send
        for _ in range(10):
            archive.deposit(ItemRecord())
        released.set()
        assert resolver.wait() == PING
    # the commits before the first message and those during it
    assert resolver.asked.qsize() <= 1


def test_an_archive_that_is_not_included_tells_nobody(new_app: NewApp) -> None:
    resolver = PingedResolver()
    with serving(resolver) as address, pinging(new_app, address, included=False) as archive:
        archive.deposit(ItemRecord())
        include(archive, included=False)
        archive.deposit(ItemRecord())
    assert resolver.asked.empty()


def test_an_archive_without_claims_tells_nobody(new_app: NewApp) -> None:
    resolver = PingedResolver()
    with serving(resolver) as address, pinging(new_app, address, IBI_CLAIMS=False) as archive:
        archive.deposit(ItemRecord())
    assert resolver.asked.empty()


def test_a_refused_change_tells_nobody(new_app: NewApp) -> None:
    resolver = PingedResolver()
    with (
        serving(resolver) as address,
        pinging(new_app, address) as archive,
        pytest.raises(UnknownItem),
    ):
        archive.delete("a.br/unknown/2001/01.01.00.00", reason="x")
    assert resolver.asked.empty()


@pytest.mark.parametrize("status", [None, "500 Internal Server Error"])
def test_a_resolver_that_fails_changes_nothing(
    new_app: NewApp, status: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "flask_ibi_archive")
    server = serving(PingedResolver(status)) if status else nobody()
    with server as address, pinging(new_app, address) as archive:
        assert archive.deposit(ItemRecord()).ibi
    lines = [record.message for record in caplog.records]
    assert [line for line in lines if "was not told" in line] == (
        []
        if status
        else [
            f"the resolver was not told of new claims: http://{address}/ibi/claims/ping can't "
            "be reached (Connection refused)"
        ]
    )


def test_an_error_in_the_thread_is_logged_and_the_next_message_is_sent(
    new_app: NewApp, caplog: pytest.LogCaptureFixture
) -> None:
    resolver = PingedResolver()
    with serving(resolver) as address, pinging(new_app, address) as archive:
        pinger = archive.notifier.sender.extensions["ibi_archive"].pinger
        pinger._is_included = lambda: 1 / 0
        archive.deposit(ItemRecord())
        finish()
        del pinger._is_included
        archive.deposit(ItemRecord())
        assert resolver.wait() == PING
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("config", [{}, {**JOINED, "IBI_CLAIMS_PING": False}])
def test_an_archive_without_a_key_or_with_the_setting_false_does_nothing(
    new_app: NewApp, config: dict[str, Any]
) -> None:
    app = new_app(**config)
    assert app.extensions["ibi_archive"].pinger is None
    assert not list(transaction_committed.receivers_for(app))


def test_an_app_that_is_not_used_any_more_is_freed(uri: str, tmp_path: Path) -> None:
    app = make_app(uri, tmp_path, **JOINED)
    pinger = weakref.ref(app.extensions["ibi_archive"].pinger)
    close(app)
    del app
    gc.collect()
    assert pinger() is None


def test_a_forked_process_tells_the_resolver_itself(app: Flask) -> None:
    pinger = Pinger(archive_of(app), app)
    pinger._is_running.acquire()  # as if a thread of the parent process were sending
    child = os.fork()
    if not child:
        os._exit(0 if pinger._is_running.acquire(blocking=False) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
