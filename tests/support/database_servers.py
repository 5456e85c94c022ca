"""Servers of databases for tests: a standby, a pooler, and a relay that can stop passing bytes."""

from __future__ import annotations

import os
import selectors
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url, text

from support.loopback import PATIENCE, free_port

BLOCK = 65536


class Relay:
    """Passes bytes between clients and a server.

    While the relay hangs, it passes no bytes. Clients that connect meanwhile are accepted, but
    never answered. Other clients get their answers when the relay does not hang any more.
    """

    def __init__(self, host: str, port: int) -> None:
        self.server = host, port
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, None)
        self.hangs = False
        self.ends = False
        #: Sockets that are not read while the relay hangs, each with the opposite socket.
        self.waiting: dict[socket.socket, socket.socket] = {}
        #: Clients that are never answered.
        self.unanswered: list[socket.socket] = []
        self.thread = Thread(target=self.run)
        self.thread.start()

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        return int(self.listener.getsockname()[1])

    def run(self) -> None:
        """Pass bytes until the relay ends."""
        while not self.ends:
            if not self.hangs:
                self.wake_up()
            for key, _ in self.selector.select(0.02):
                if key.data is None:
                    self.accept()
                elif key.fileobj.fileno() < 0:  # type: ignore[union-attr]
                    continue  # the socket was just closed together with the opposite socket
                elif self.hangs:
                    self.leave(key.fileobj, key.data)  # type: ignore[arg-type]
                else:
                    self.pass_on(key.fileobj, key.data)  # type: ignore[arg-type]
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        for one in (*self.waiting, *self.unanswered):
            one.close()
        self.selector.close()

    def accept(self) -> None:
        """Accept a client and connect to the server, which takes no time on loopback."""
        client = self.listener.accept()[0]
        if self.hangs:
            self.unanswered.append(client)
            return
        try:
            server = socket.create_connection(self.server)
        except OSError:
            client.close()
            return
        for one, other in ((client, server), (server, client)):
            self.selector.register(one, selectors.EVENT_READ, other)

    def leave(self, one: socket.socket, other: socket.socket) -> None:
        """Stop reading from a socket."""
        self.selector.unregister(one)
        self.waiting[one] = other

    def wake_up(self) -> None:
        """Continue to read from all sockets."""
        waiting, self.waiting = self.waiting, {}
        for one, other in waiting.items():
            self.selector.register(one, selectors.EVENT_READ, other)

    def pass_on(self, one: socket.socket, other: socket.socket) -> None:
        """Pass the bytes of a socket to the opposite socket; close both if one is closed."""
        data = b""
        with suppress(OSError):
            data = one.recv(BLOCK)
            if data:
                other.sendall(data)
        if data:
            return
        for each in (one, other):
            self.waiting.pop(each, None)
            with suppress(KeyError, ValueError):
                self.selector.unregister(each)
            each.close()


@contextmanager
def relaying(uri: str) -> Iterator[tuple[Relay, str]]:
    """Run a relay to a PostgreSQL server; yield the relay and a database URL with its port."""
    url = make_url(uri)
    relay = Relay(url.host or "127.0.0.1", url.port or 5432)
    try:
        through = url.set(host="127.0.0.1", port=relay.port)
        yield relay, through.render_as_string(hide_password=False)
    finally:
        relay.ends = True
        relay.thread.join()


#: The number of sessions of the server that all clients share.
SESSIONS = 2
SETTINGS = """\
[databases]
pooled = host={host} port={port} dbname={database} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
"""


@contextmanager
def pooling(uri: str, folder: Path) -> Iterator[str]:
    """Run PgBouncer for a database of :func:`support.databases.new_database`; yield its URL."""
    program = shutil.which("pgbouncer")
    if program is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("PgBouncer is not installed")
    url = make_url(uri)
    port = free_port()
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        SETTINGS.format(
            host=url.host,
            port=url.port or 5432,
            database=url.database,
            user=url.username,
            own_port=port,
            sessions=SESSIONS,
        )
    )
    # PgBouncer refuses to run as root
    user = ["-u", "nobody"] if os.getuid() == 0 else []
    process = subprocess.Popen([program, "-q", *user, settings], stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        yield f"postgresql+psycopg://{url.username}@127.0.0.1:{port}/pooled"
    finally:
        process.terminate()
        process.wait(PATIENCE)


def wait_for(port: int) -> None:
    """Wait until a server listens on a port."""
    end = monotonic() + PATIENCE
    while monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            sleep(0.02)
        else:
            return
    pytest.fail("PgBouncer does not listen")


#: PostgreSQL does not run as root. Root runs it as this user.
USER = "postgres"
#: Nothing has to survive the test.
CONFIGURATION = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
fsync = off
shared_buffers = 16MB
max_connections = 30
"""


@lru_cache
def find_programs() -> Path | None:
    """Return the folder with initdb and the other programs of the newest installed server."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    installed = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = max(installed, key=lambda path: int(path.parts[-3]), default=None)
    return newest and newest.parent


needs_server = pytest.mark.skipif(
    find_programs() is None, reason="PostgreSQL's initdb is not installed"
)


@dataclass(frozen=True)
class Server:
    """A PostgreSQL server of a test.

    :param folder: the folder of its data.
    """

    folder: Path
    port: int

    def uri(self, database: str = "postgres") -> str:
        """Return the URL of a database."""
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        log = str(self.folder / "log")
        run("pg_ctl", "start", "-w", "-D", str(self.folder), "-l", log, "-o", f"-p {self.port}")

    def stop(self) -> None:
        """Stop the server, and wait until it has ended."""
        run("pg_ctl", "stop", "-w", "-m", "fast", "-D", str(self.folder))

    def promote(self) -> None:
        """End the replication, so that the server accepts changes."""
        run("pg_ctl", "promote", "-w", "-D", str(self.folder))

    def query(self, statement: str, database: str = "postgres", **values: Any) -> Any:
        """Execute a statement, and return the first value of its result, if it has one."""
        engine = create_engine(self.uri(database), isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                result = connection.execute(text(statement), values)
                return result.scalar() if result.returns_rows else None
        finally:
            engine.dispose()

    def wait_for(self, statement: str, **values: Any) -> None:
        """Execute a statement until it returns true."""
        deadline = monotonic() + PATIENCE
        while not self.query(statement, **values):
            assert monotonic() < deadline, statement

    def follow(self, primary: Server) -> None:
        """Wait until this standby has replayed everything that the primary has written."""
        position = primary.query("SELECT CAST(pg_current_wal_flush_lsn() AS text)")
        self.wait_for(
            "SELECT pg_last_wal_replay_lsn() >= CAST(:position AS pg_lsn)", position=position
        )


@contextmanager
def running_primary() -> Iterator[Server]:
    """Yield a new PostgreSQL server."""
    with _new_server() as primary:
        folder = str(primary.folder)
        # small segments, so that a standby copies less
        options = ("--auth=trust", "--encoding=UTF8", "--no-sync", "--wal-segsize=1")
        run("initdb", "-D", folder, "--username=postgres", *options)
        with (primary.folder / "postgresql.conf").open("a") as file:
            file.write(CONFIGURATION)
        primary.start()
        try:
            yield primary
        finally:
            primary.stop()


@contextmanager
def running_standby(primary: Server) -> Iterator[Server]:
    """Yield a new hot standby of a server."""
    with _new_server() as standby:
        source = f"host=127.0.0.1 port={primary.port} user=postgres"
        run("pg_basebackup", "-D", str(standby.folder), "-d", source, "-R", "-c", "fast", "-N")
        standby.start()
        try:
            yield standby
        finally:
            if (standby.folder / "postmaster.pid").exists():
                standby.stop()


@contextmanager
def _new_server() -> Iterator[Server]:
    # pytest's folders are only for the user that runs the tests
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if os.geteuid() == 0:
            shutil.chown(folder, USER)
        yield Server(folder / "data", free_port())


def run(program: str, *words: str) -> None:
    """Run a program of PostgreSQL, and wait until it has ended."""
    programs = find_programs()
    assert programs is not None
    user = USER if os.geteuid() == 0 else None
    # the server inherits the output, so that a pipe would not be closed
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            [str(programs / program), *words],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            check=False,
        )
        output.seek(0)
        assert done.returncode == 0, output.read().decode()
