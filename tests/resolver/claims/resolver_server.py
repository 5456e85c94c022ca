"""A process that serves a resolver; tests kill this process at any moment."""

from __future__ import annotations

import json
import sys

from flask import Flask
from support.loopback import QuietHandler
from werkzeug.serving import make_server

from flask_ibi_archive.resolver import IBIResolver


def main(settings: str) -> None:
    """Serve until killed.

    :param settings: the settings as JSON.
    """
    app = Flask("resolver")
    app.config.from_mapping(json.loads(settings))
    IBIResolver(app)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=QuietHandler)
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
