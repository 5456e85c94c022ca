"""A process that serves a resolver's registry; tests kill this process at any moment."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from support.loopback import QuietHandler
from support.registries import CHEAP, a_config, answer_of
from werkzeug.serving import make_server

from flask_ibi_archive.resolver.archives import Registry
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import RESOLVER


def main(uri: str) -> None:
    """Serve until killed; the port and the word "hold" or another word are read from stdin."""
    port, hold = sys.stdin.readline().split()
    registry = Registry(Database(uri, RESOLVER), a_config(), cost=CHEAP)

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        status, body = answer_of(registry, environ["QUERY_STRING"])
        if hold == "hold":
            print("done", flush=True)
            sys.stdin.readline()  # until killed
        start_response(f"{status} -", [("Content-Type", "text/plain")])
        return [body.encode()]

    server = make_server("127.0.0.1", int(port), app, threaded=True, request_handler=QuietHandler)
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
