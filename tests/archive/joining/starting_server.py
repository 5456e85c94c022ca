"""A process of an Archive's server: ``python starting_server.py URI FOLDER FD ADDRESS RESOLVER``.

The process serves on the socket with the descriptor FD. It prints "first" or "follows", then
all log messages. A line on standard input, or its end, stops the process.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from threading import Thread
from typing import Any

from support.archives import make_app
from support.loopback import QuietHandler
from werkzeug.serving import make_server

from flask_ibi_archive.archive.joining import start


class Printer(logging.Handler):
    """Prints log records."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        print(record.levelname, record.getMessage(), flush=True)


def main(uri: str, folder: str, descriptor: str, address: str, resolver: str) -> None:
    """Serve until a line or the end of standard input."""
    logger = logging.getLogger("test_app")
    logger.setLevel(logging.INFO)
    logger.addHandler(Printer())
    register = start.register_on_start

    def register_and_print(*words: Any) -> bool:
        first = register(*words)
        print("first" if first else "follows", flush=True)
        return first

    start.register_on_start = register_and_print
    app = make_app(
        uri,
        Path(folder),
        IBI_ARCHIVE_ADDRESS=address,
        IBI_MINT_HOST="mtc-m18.sid.inpe.br",
        IBI_RESOLVER_URL=resolver,
        IBI_REGISTRATION_KEY="1234567890",
        IBI_ARCHIVE_ADMIN_EMAIL="banon@dpi.inpe.br",
        IBI_REGISTER_ON_START=True,
    )
    server = make_server(
        "127.0.0.1", 0, app, threaded=True, request_handler=QuietHandler, fd=int(descriptor)
    )
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
