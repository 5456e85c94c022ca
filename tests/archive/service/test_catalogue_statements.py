"""Every urlRequest sends exactly one SELECT statement to the database, and nothing else."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask
from sqlalchemy import event, make_url, select
from sqlalchemy.pool import Pool
from support.archives import SERVICE, archive_of, close, import_records, make_app
from support.databases import new_database
from support.stores import moment_of, rep_of
from support.vectors import load

from flask_ibi_archive.archive.items.tables import metadata
from flask_ibi_archive.core.protocol.relations import SHAPES


class Recorder:
    """Records the messages that a client sends to its database."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: list[tuple[str, bytes]] = []

    def add(self, kind: str, content: bytes) -> None:
        """Add a message: its type in the protocol of PostgreSQL, and its content."""
        with self._lock:
            self._messages.append((kind, content))

    def take(self) -> list[tuple[str, bytes]]:
        """Return the messages since the last call."""
        with self._lock:
            messages, self._messages = self._messages, []
        return messages


class Relay(socketserver.BaseRequestHandler):
    """Forwards data between a client and PostgreSQL, and records the data of the client."""

    def handle(self) -> None:
        """Serve one connection."""
        with socket.create_connection(self.server.upstream) as upstream:  # type: ignore[attr-defined]
            back = threading.Thread(target=pump, args=(upstream, self.request, None))
            back.start()
            pump(self.request, upstream, FrontendReader(self.server.recorder))  # type: ignore[attr-defined]
            back.join()


class FrontendReader:
    """Splits the data of a client: a start message, then messages with type and length."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.waiting = b""
        self.started = False

    def feed(self, block: bytes) -> None:
        """Process received data."""
        self.waiting += block
        while True:
            head = 1 if self.started else 0
            if len(self.waiting) < head + 4:
                return
            length = head + int.from_bytes(self.waiting[head : head + 4], "big")
            if len(self.waiting) < length:
                return
            message, self.waiting = self.waiting[:length], self.waiting[length:]
            kind = message[:1].decode() if self.started else "start"
            self.recorder.add(kind, message[head + 4 :])
            self.started = True


def pump(source: socket.socket, target: socket.socket, reader: FrontendReader | None) -> None:
    """Forward the data of a socket until its end; record it first."""
    try:
        while block := source.recv(1 << 16):
            if reader is not None:
                reader.feed(block)
            target.sendall(block)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the peer closed the connection


@contextmanager
def relay_to(uri: str, recorder: Recorder) -> Iterator[str]:
    """Yield the URL of a PostgreSQL database through a relay on this machine."""
    url = make_url(uri)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Relay) as server:
        server.upstream = (url.host, url.port or 5432)  # type: ignore[attr-defined]
        server.recorder = recorder  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        plain = {"sslmode": "disable", "gssencmode": "disable"}
        relayed = url.set(
            host="127.0.0.1", port=server.server_address[1], query={**url.query, **plain}
        )
        try:
            yield relayed.render_as_string(hide_password=False)
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def trace_sqlite(recorder: Recorder) -> Iterator[None]:
    """Record every statement on every SQLite connection."""

    def trace(connection: Any, record: Any) -> None:
        connection.set_trace_callback(lambda text: recorder.add("Q", text.encode()))

    event.listen(Pool, "connect", trace)
    try:
        yield
    finally:
        event.remove(Pool, "connect", trace)


LENGTHS = (1, 2, 50)
SIZES = (2, 60)
DATA = {"metadata": {"url": "https://a.b/c", "formats": {"oai_dc": "https://a.b/d"}}}


def chain_item(length: int, place: int) -> str:
    return rep_of(length * 1000 + place)


def group_item(size: int, place: int) -> str:
    return rep_of(size * 1000 + place, "groups.org/one")


def make_records() -> list[dict[str, Any]]:
    """Return the records of chains of editions and groups of translations of all sizes."""
    records: dict[str, dict[str, Any]] = {}
    for length in LENGTHS:
        chain = [chain_item(length, place) for place in range(length)]
        records.update({rep: {"rep": rep, "timestamp": moment_of(1), **DATA} for rep in chain})
        for earlier, later in pairwise(chain):
            records[earlier]["next_edition"] = later
    languages = load("codes.json")["languages"].split()
    for size in SIZES:
        group = [group_item(size, place) for place in range(size)]
        records.update({rep: {"rep": rep, "timestamp": moment_of(2), **DATA} for rep in group})
        head = records[group[0]]
        head["language"] = languages[0]
        head["translations"] = dict(zip(languages[1:size], group[1:], strict=True))
        head["next_edition"] = rep_of(size, "groups.org/later")
        records[head["next_edition"]] = {"rep": head["next_edition"], "timestamp": moment_of(3)}
    return list(records.values())


ITEMS = [
    *(chain_item(length, 0) for length in LENGTHS),
    *(group_item(size, place) for size in SIZES for place in (0, size - 1)),
]
VERB = {"u": "GetLastEdition", "t": "GetTranslation", "m": "GetMetadata"}
VERB_LISTS = ["+".join(VERB[letter] for letter in shape) for shape in sorted(SHAPES, key=len)] + [
    "GetFileList",
    "GetMetadata(oai_dc)",
    "GetTranslation(en)+GetLastEdition",
]


@pytest.fixture(scope="module")
def recorded(
    backend: str, tmp_path_factory: Any
) -> Iterator[tuple[Callable[..., Flask], Recorder]]:
    """A function that makes apps with long chains and large groups, and the recorded messages.

    The function returns the same app for the same settings: each app compiles its statements.
    """
    folder = tmp_path_factory.mktemp("recorded")
    recorder = Recorder()
    made: dict[str, Flask] = {}
    with new_database(backend, folder, ready=True) as uri:
        app = make_app(uri, folder)
        archive_of(app).init()
        import_records(archive_of(app), make_records())
        close(app)
        way = trace_sqlite(recorder) if backend == "sqlite" else relay_to(uri, recorder)
        with way as through:

            def make(**config: Any) -> Flask:
                name = repr(sorted(config.items()))
                if name not in made:
                    made[name] = make_app(through or uri, folder, **config)
                return made[name]

            yield make, recorder
            for app in made.values():
                close(app)


def ask(app: Flask, ibi: str, verbs: str = "", path: str = "") -> bytes:
    """Send a urlRequest and return the answer."""
    query = (
        f"servicesubject=urlRequest&parsedibiurl.ibi={ibi}&clientinformation.ipaddress=192.0.2.1"
        f"&parsedibiurl.verblist={verbs}&parsedibiurl.filepath={quote(path)}"
    )
    answer = app.test_client().get(f"/{SERVICE}?{query}")
    assert answer.status_code == 200
    return answer.data


@pytest.mark.postgresql
@pytest.mark.parametrize(
    "config",
    [{}, pytest.param({"IBI_FILTER_URL_LIST": False}, marks=pytest.mark.slow)],
    ids=["filtered", "whole"],
)
def test_a_request_sends_a_single_SELECT_and_nothing_else(
    recorded: tuple[Callable[..., Flask], Recorder], config: dict[str, Any]
) -> None:
    make, recorder = recorded
    app = make(**config)
    ask(app, ITEMS[0])  # reads the Archive, opens the connection
    recorder.take()
    for ibi in (*ITEMS, rep_of(1, "nobody.org/here")):
        for verbs in VERB_LISTS:
            # with a path the statement has one more parameter
            for path in ("", "missing%20.txt") if ibi == ITEMS[0] else ("",):
                answer = ask(app, ibi, verbs, path)
                messages = recorder.take()
                counted = Counter(kind for kind, _ in messages)
                assert counted["Q"] + counted["E"] == 1, (ibi, verbs, path, messages)
                assert set(counted) <= set("QPBDES"), "only the messages of one statement"
                assert max(counted.values()) == 1 or counted["P"] == 1, messages
                for kind, content in messages:
                    text = content.lstrip(b"\0").upper()
                    if kind == "P":
                        text = content.partition(b"\0")[2].upper()
                    if kind in "QP":
                        assert text.lstrip().startswith((b"SELECT", b"WITH")), text
                        for word in (b"BEGIN", b"COMMIT", b"ROLLBACK", b"INSERT", b"UPDATE "):
                            assert word not in text
            assert (b"ibi" in answer) == (ibi in ITEMS)


@pytest.mark.postgresql
def test_requests_do_not_change_the_database(
    recorded: tuple[Callable[..., Flask], Recorder],
) -> None:
    app = recorded[0]()

    def dump() -> dict[str, list[str]]:
        with archive_of(app).database.reading() as connection:
            return {
                name: sorted(map(repr, connection.execute(select(table))))
                for name, table in metadata.tables.items()
            }

    before = dump()
    for ibi in ITEMS:
        for verbs in VERB_LISTS:
            ask(app, ibi, verbs)
    assert dump() == before


def test_the_last_edition_is_found_in_chains_of_every_length(
    recorded: tuple[Callable[..., Flask], Recorder],
) -> None:
    app = recorded[0]()
    for length in LENGTHS:
        for place in {0, length // 2, length - 1}:
            answer = ask(app, chain_item(length, place), "GetLastEdition").decode()
            last = chain_item(length, length - 1)
            assert f"ibi.lastedition {{rep {last}}}" in answer, (length, place)


def test_every_translation_is_returned_in_groups_of_every_size(
    recorded: tuple[Callable[..., Flask], Recorder],
) -> None:
    app = recorded[0]()
    for size in SIZES:
        for place in (0, size - 1):
            answer = ask(app, group_item(size, place), "GetTranslation").decode()
            assert answer.count("\r\nurl.translation(") == size, (size, place)
