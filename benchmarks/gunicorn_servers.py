"""Run an Archive and a resolver with gunicorn on loopback."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from flask import Flask
from support.archives import make_app
from support.loopback import HERE

from flask_ibi_archive.resolver import IBIResolver

from .processes import ROOT

#: The threads of a worker.
THREADS = 8


def archive_environment(uri: str, folder: Path, address: str) -> dict[str, str]:
    """Return the environment variables of the Archive that gunicorn runs."""
    return {
        "PYTHONPATH": str(ROOT / "tests"),
        "BENCH_FOLDER": str(folder),
        "BENCH_ARCHIVE_URI": uri,
        "BENCH_ARCHIVE": address,
    }


def create_archive() -> Flask:
    """Return the Archive that gunicorn runs."""
    return make_app(
        os.environ["BENCH_ARCHIVE_URI"],
        Path(os.environ["BENCH_FOLDER"]),
        IBI_ARCHIVE_ADDRESS=os.environ["BENCH_ARCHIVE"],
    )


def create_resolver() -> Flask:
    """Return the resolver that gunicorn runs."""
    app = Flask("resolver", instance_path=os.environ["BENCH_FOLDER"])
    app.config.from_mapping(
        SECRET_KEY="a secret for tests",
        IBI_RESOLVER_DATABASE_URI=os.environ["BENCH_RESOLVER_URI"],
        IBI_RESOLVER_INNER_HOSTS=HERE,
    )
    IBIResolver(app)
    return app


@dataclass
class Server:
    """A gunicorn server with its workers."""

    name: str
    address: str
    process: subprocess.Popen[bytes]

    @property
    def workers(self) -> list[int]:
        """The process ids of the workers."""
        number = self.process.pid
        found = Path(f"/proc/{number}/task/{number}/children").read_text()
        return [int(word) for word in found.split()]


@contextmanager
def serving(
    name: str,
    port: int,
    workers: int,
    environment: dict[str, str],
    threads: int = THREADS,
    module: str = "gunicorn_servers",
) -> Iterator[Server]:
    """Run one of the apps with gunicorn.

    :param threads: the threads of each worker.
    :param module: the module of this folder with the function that creates the app.
    """
    address = f"127.0.0.1:{port}"
    words = ["--bind", address, "--workers", str(workers), "--threads", str(threads)]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "gunicorn",
            *words,
            f"benchmarks.{module}:create_{name}()",
        ],
        cwd=ROOT,
        env={**os.environ, **environment},
        stderr=subprocess.DEVNULL,
    )
    try:
        server = Server(name, address, process)
        # as many at the same time as there are workers, so that each worker has started
        with ThreadPoolExecutor(4 * workers) as pool:
            list(pool.map(wait_for, [server] * 4 * workers))
        yield server
    finally:
        process.terminate()
        process.wait()


def wait_for(server: Server) -> None:
    """Wait until a server answers.

    :raises RuntimeError: if the server has ended, for example because its port is taken.
    """
    while server.process.poll() is None:
        connection = http.client.HTTPConnection(server.address, timeout=60)
        with suppress(OSError), closing(connection):
            connection.request("GET", "/ibi/health/live")
            connection.getresponse().read()
            return
        time.sleep(0.1)
    raise RuntimeError(f"the server {server.name} at {server.address} has ended")
