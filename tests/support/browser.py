"""A real browser, and a server that records the requests of its pages."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from flask import Flask, request
from werkzeug.serving import make_server

from support.loopback import QuietHandler

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
#: Options with which a browser only requests the page and its parts.
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--enable-logging=stderr",
    "--timeout=120000",
)
#: A line on standard error that a page wrote to the console.
CONSOLE = re.compile(r":CONSOLE[:(].*", re.IGNORECASE)


def browser() -> str:
    """Return the path of a browser; skip the test if there is no browser."""
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    return found or pytest.skip(f"no browser here: none of {', '.join(NAMES)}")


@contextmanager
def serving(app: Flask) -> Iterator[tuple[int, list[str]]]:
    """Serve an app on a free port; yield the port and the list of the requests of its pages.

    Requests that the browser sends for other purposes are not in the list.
    """
    asked: list[str] = []

    def record() -> None:
        if request.referrer or request.host == f"127.0.0.1:{server.server_port}":
            asked.append(f"{request.host} {request.full_path.rstrip('?')}")

    # as the first hook, since other hooks answer requests
    app.before_request_funcs.setdefault(None, []).insert(0, record)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=QuietHandler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def render(url: str, folder: Path, *options: str) -> tuple[str, str]:
    """Return the document after a browser has loaded a page, and the browser's standard error.

    The browser resolves every host name to the server of the page, which records the requests.
    """
    server = url.split("/")[2]
    done = subprocess.run(
        [
            browser(),
            *OPTIONS,
            f"--user-data-dir={folder / 'profile'}",
            f"--host-resolver-rules=MAP * {server}",
            *options,
            "--dump-dom",
            url,
        ],
        capture_output=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-500:]
    return done.stdout.decode(), done.stderr.decode()
