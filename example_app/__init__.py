"""A small institutional repository: the example of the README, and a pattern for your own.

Settings come from the environment, as ``FLASK_IBI_ARCHIVE_ADDRESS=...``; the defaults below let every command
run without any.
"""

from __future__ import annotations

from flask import Flask, redirect, request, url_for
from werkzeug import Response

from flask_ibi_archive import IBIArchive

DEFAULTS = {
    "SECRET_KEY": "only for the example: choose a long random text of your own",
    "IBI_ARCHIVE_ADDRESS": "localhost:5000",
    "IBI_ARCHIVE_SERVICE_IBI": "sid.inpe.br/mtc-m18@80/2008/03.17.15.17",
    "IBI_PLATFORM_SOFTWARE_IBI": "dpi.inpe.br/banon/1998/08.02.08.56",
    "IBI_MINT_HOST": "repository.example.org",
    "IBI_ARCHIVE_IP": "127.0.0.1",
    "IBI_ARCHIVE_ADMIN_EMAIL": "admin@example.org",
}

ibi = IBIArchive()


def create_app() -> Flask:
    """Give the repository's app."""
    app = Flask(__name__)
    app.config.from_mapping(DEFAULTS)
    app.config.from_prefixed_env()
    ibi.init_app(app)

    @app.get("/")
    def index() -> str:
        return "<!doctype html><title>Repository</title><h1>A small repository</h1>"

    # the repository of [R] kept the metadata of an item as a program among its files
    @app.get("/col/<ibi:ibi>/doc/metadata.cgi")
    def metadata_program(ibi: str) -> Response:
        return redirect(
            url_for("ibi_archive.metadata", ibi=ibi, choice=request.args.get("choice")), 302
        )

    return app
