"""Each acknowledgment counts once, although servers are killed while they are sent."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
import requests
from support.accesses import stored
from support.archives import SERVICE, archive_of, import_records, make_app
from support.loopback import PATIENCE, QuietHandler
from werkzeug.serving import make_server

REP = "a.br/x/2001/01.01.00.00"
#: The number of acknowledgments, and of threads that send them.
COUNT, THREADS = 120, 8


def serve(uri: str, folder: str, descriptor: int) -> None:
    """Serve an Archive on the parent's socket until killed."""
    app = make_app(uri, Path(folder))
    server = make_server(
        "127.0.0.1", 0, app, threaded=True, request_handler=QuietHandler, fd=descriptor
    )
    print("ready", flush=True)
    server.serve_forever()


def start(listener: socket.socket, uri: str, folder: Path) -> subprocess.Popen[str]:
    """Start a process, and wait until it is ready."""
    process = subprocess.Popen(
        [sys.executable, __file__, uri, str(folder), str(listener.fileno())],
        pass_fds=[listener.fileno()],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def acknowledge(port: int, number: int, key: str) -> bool:
    """Send an acknowledgment with a URL key; return whether it was answered with the notice."""
    pairs = {
        "servicesubject": "acknowledgment",
        "contenttype": "Data",
        "state": "Original",
        "url": f"http://mtc-m16c.sid.inpe.br/col/{REP}/",
        "clientinformation.ipaddress": f"150.163.{number // 250}.{number % 250}",
        "url.persistent": f"http://urlib.net/{REP}",
        "urlkey": key,
        "ibi": f"rep {REP}",
    }
    with suppress(requests.RequestException):
        answer = requests.get(f"http://127.0.0.1:{port}/{SERVICE}", pairs, timeout=PATIENCE)
        return answer.content == b"notice {acknowledgment received}" and answer.ok
    return False


@pytest.mark.slow
def test_each_answered_acknowledgment_counts_once(uri: str, tmp_path: Path) -> None:
    archive = archive_of(make_app(uri, tmp_path))
    archive.init()
    import_records(archive, [{"rep": REP}])
    keys = [archive.url_keys.issue(REP) for _ in range(COUNT)]
    archive.database.close()
    with (
        socket.create_server(("127.0.0.1", 0), backlog=256) as listener,
        ThreadPoolExecutor(THREADS) as pool,
    ):
        port = listener.getsockname()[1]
        processes = [start(listener, uri, tmp_path) for _ in range(3)]
        results = [pool.submit(acknowledge, port, *pair) for pair in enumerate(keys)]
        results[COUNT // 2].result()  # kill after a number of requests, not after a time
        processes[0].kill()
        processes.append(start(listener, uri, tmp_path))
        answered = [key for key, result in zip(keys, results, strict=True) if result.result()]
        for process in processes:
            process.kill()
            process.communicate()
    archive = archive_of(make_app(uri, tmp_path))
    names = [row["url_key"] for row in stored(archive)]
    assert len(names) == len(set(names))
    facts = [archive.url_keys.read(key) for key in answered]
    assert {fact.name for fact in facts if fact is not None} <= set(names)
    found = archive.statistics()
    assert found.downloads + found.double_clicks == len(names)
    archive.database.close()
    assert COUNT - 2 * THREADS <= len(answered) <= len(names) <= COUNT


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
