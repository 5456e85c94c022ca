"""PgBouncer, a pooler of connections to PostgreSQL, in transaction mode."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest
from sqlalchemy import make_url

from support.loopback import PATIENCE, free_port

#: The number of sessions of the server that all clients share.
SESSIONS = 2
SETTINGS = """\
[databases]
pooled = host={host} port={port} dbname={database} user={user} connect_query='SET {path}'
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
    # PgBouncer refuses the parameter "options", which contains the schema of the test
    path = f"search_path={url.query['application_name']}"
    port = free_port()
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        SETTINGS.format(
            host=url.host,
            port=url.port or 5432,
            database=url.database,
            user=url.username,
            path=path,
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
