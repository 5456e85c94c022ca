"""Archives work through PgBouncer in transaction mode, and leave no traces in its sessions."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep

import psycopg
import pytest
from sqlalchemy import make_url
from support.archives import archive_of, close, import_records, make_app
from support.databases import new_database
from support.loopback import PATIENCE, free_port
from support.web import SERVICE_PATH, ask, query_of, rep

from flask_ibi_archive import ItemRecord

pytestmark = pytest.mark.slow

#: More clients than PgBouncer has sessions.
CLIENTS = 4


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
    """Run PgBouncer for a database of :func:`new_database`; yield its URL."""
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


@pytest.fixture
def pooled(tmp_path: Path) -> Iterator[str]:
    """The URL of a database behind PgBouncer."""
    with new_database("postgresql", tmp_path, ready=True) as uri, pooling(uri, tmp_path) as url:
        yield url


def test_an_archive_works_through_pgbouncer(pooled: str, tmp_path: Path) -> None:
    apps = [make_app(pooled, tmp_path) for _ in range(CLIENTS)]
    archives = [archive_of(app) for app in apps]
    archives[0].init()
    import_records(archives[0], [{"rep": rep(number)} for number in range(1, 9)])

    def use(client: int) -> list[int]:
        archive = archives[client]
        item = archive.deposit(ItemRecord(language="en"))
        archive.edit(item.rep, language="pt")
        archive.delete(archive.new_edition(item.rep, ItemRecord()).rep, "withdrawn")
        archive.database.check()
        asked = [("servicesubject", "urlRequest"), ("clientinformation.ipaddress", "192.0.2.1")]
        urls = [query_of(*asked, ("parsedibiurl.ibi", rep(number))) for number in range(1, 9)]
        targets = [*(f"{SERVICE_PATH}?{url}" for url in urls), f"/col/{rep(1)}/", "/ibi/items"]
        return [ask(apps[client], target).status for target in targets * 5]

    with ThreadPoolExecutor(CLIENTS) as pool:
        statuses = list(pool.map(use, range(CLIENTS)))
    assert statuses == [[200] * 50] * CLIENTS
    assert len(list(archives[0].find())) == 8 + 2 * CLIENTS
    check_sessions(pooled)
    for app in apps:
        close(app)


def check_sessions(pooled: str) -> None:
    """Check that the sessions of the server have the settings that other clients expect."""
    with ExitStack() as stack:
        seen = set()
        for _ in range(SESSIONS):
            uri = pooled.replace("+psycopg", "")
            connection = stack.enter_context(psycopg.connect(uri, prepare_threshold=None))
            # the transaction stays open, so that each connection has a session of its own
            found = connection.execute("SELECT name FROM pg_prepared_statements").fetchall()
            [settings] = connection.execute(
                "SELECT pg_backend_pid(), current_setting('jit'), count(*) FROM pg_settings"
                " WHERE source = 'session' AND name NOT IN ('search_path', 'TimeZone',"
                " 'application_name', 'client_encoding', 'DateStyle')"
            ).fetchall()
            session, jit, changed = settings
            assert (found, jit, changed) == ([], "on", 0)
            seen.add(session)
        assert len(seen) == SESSIONS
