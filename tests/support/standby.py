"""A PostgreSQL server and a hot standby that replicates it, both made for a test."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from support.loopback import PATIENCE, free_port

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
