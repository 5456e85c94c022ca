"""Server processes of one Archive that are killed while acknowledgments are sent."""

from __future__ import annotations

import http.client
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from support.archives import SERVICE, archive_of, make_app
from support.loopback import PATIENCE

HERE = Path(__file__).parent


def serve(uri: str, folder: str, descriptor: int) -> None:
    """Serve an Archive on the parent's socket until killed."""
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        """A request handler that does not log."""

        def log(self, type: str, message: str, *args: object) -> None:
            """Do not log."""

    app = make_app(uri, Path(folder))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet, fd=descriptor)
    print("ready", flush=True)
    server.serve_forever()


class Servers:
    """Several processes that serve an Archive on one listening socket."""

    def __init__(self, uri: str, folder: Path, count: int) -> None:
        self.uri = uri
        self.folder = folder
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self.listener.getsockname()[1]
        self.processes = [self._start() for _ in range(count)]
        for process in self.processes:
            self._wait(process)

    def _start(self) -> subprocess.Popen[str]:
        descriptor = self.listener.fileno()
        return subprocess.Popen(
            [sys.executable, __file__, self.uri, str(self.folder), str(descriptor)],
            pass_fds=[descriptor],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": f"{HERE.parent}{os.pathsep}{HERE.parent.parent}"},
        )

    @staticmethod
    def _wait(process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

    def kill(self, number: int) -> None:
        """Kill a process at any moment, and start another one."""
        process = self.processes[number]
        process.send_signal(signal.SIGKILL)
        process.communicate()
        self.processes[number] = self._start()
        self._wait(self.processes[number])

    def close(self) -> None:
        """Kill all processes."""
        for process in self.processes:
            process.kill()
            process.communicate()
        self.listener.close()


@contextmanager
def servers(uri: str, folder: Path, count: int) -> Iterator[Servers]:
    """Yield processes that serve an Archive."""
    running = Servers(uri, folder, count)
    try:
        yield running
    finally:
        running.close()


def acknowledge(address: str, rep: str, key: str) -> bool:
    """Send an acknowledgment with a URL key; return whether it was answered with the notice.

    :param address: the host and the port of the server.
    """
    url = quote(f"http://mtc-m16c.sid.inpe.br/col/{rep}/", safe="/:@")
    target = (
        f"/{SERVICE}?servicesubject=acknowledgment&contenttype=Data&state=Original&url={url}"
        f"&clientinformation.ipaddress=150.163.{hash(key) % 200}.{random.randrange(255)}"
        f"&url.persistent=http://urlib.net/{rep}&urlkey={key}&ibi=rep%20{rep}"
    )
    with (
        suppress(OSError, http.client.HTTPException),
        closing(http.client.HTTPConnection(address, timeout=PATIENCE)) as connection,
    ):
        connection.request("GET", target)
        response = connection.getresponse()
        return response.read() == b"notice {acknowledgment received}" and response.status == 200
    return False


def acknowledge_all(
    running: Servers, rep: str, keys: list[str], threads: int, kills: int
) -> tuple[list[str], int]:
    """Send an acknowledgment with each key from many threads, while processes are killed.

    :returns: the keys that were answered with the notice, and how many were not.
    """
    with ThreadPoolExecutor(threads) as pool:
        results = [pool.submit(acknowledge, f"127.0.0.1:{running.port}", rep, key) for key in keys]
        for kill in range(kills):
            # kill after a number of requests, not after a time
            results[len(keys) * (kill + 1) // (kills + 1)].result()
            running.kill(kill % len(running.processes))
    answered = [key for key, result in zip(keys, results, strict=True) if result.result()]
    return answered, len(keys) - len(answered)


def check(uri: str, folder: Path, answered: list[str]) -> int:
    """Check that each acknowledged access is stored once after a restart; return their number."""
    from support.accesses import stored

    archive = archive_of(make_app(uri, folder))
    names = [row["url_key"] for row in stored(archive)]
    assert len(names) == len(set(names))
    facts = [archive.url_keys.read(key) for key in answered]
    assert {fact.name for fact in facts if fact is not None} <= set(names)
    found = archive.statistics()
    assert found.downloads + found.double_clicks == len(names)
    archive.database.close()
    return len(names)


def run(uri: str, folder: Path, count: int, threads: int, kills: int) -> str:
    """Run the whole test and return its result in one line."""
    from support.archives import import_records

    rep = "a.br/x/2001/01.01.00.00"
    archive = archive_of(make_app(uri, folder))
    archive.init()
    import_records(archive, [{"rep": rep}])
    keys = [archive.url_keys.issue(rep) for _ in range(count)]
    archive.database.close()
    with servers(uri, folder, 3) as running:
        start = time.perf_counter()
        answered, lost = acknowledge_all(running, rep, keys, threads, kills)
        took = time.perf_counter() - start
    in_all = check(uri, folder, answered)
    assert len(answered) <= in_all <= count
    assert len(answered) + 2 * threads * max(kills, 1) >= count
    return (
        f"{len(answered)} of {count} answered, {lost} interrupted by {kills} kills, "
        f"{in_all} counted once each; {took:.1f} s, {count / took:.0f} per second"
    )


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
