"""A small institutional repository: the example of the README, and a pattern for your own.

Settings come from the environment, as ``FLASK_IBI_ARCHIVE_ADDRESS=...``; the defaults below let every command
run without any.
"""

from __future__ import annotations

from flask import Flask, redirect, render_template_string, request, url_for
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

INDEX = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>A small repository</title>
<h1>A small repository</h1>
<ul>
{% for ibi in ibis %}<li><a href="{{ url_for('ibi_archive.landing', ibi=ibi) }}">{{ ibi }}</a></li>
{% endfor %}</ul>
</html>
"""

#: Some of the items that ship with the example, for its front page.
IBIS = ("8JMKD3MGP8W/35MME4E", "8JMKD3MGP8W/35MMLL8", "8JMKD3MGP7W/3EPGUE5", "LK47B6W/362SFKH")

ibi_archive = IBIArchive()


def create_app() -> Flask:
    """Give the repository's app."""
    app = Flask(__name__)
    app.config.from_mapping(DEFAULTS)
    app.config.from_prefixed_env()
    ibi_archive.init_app(app)

    @app.get("/")
    def index() -> str:
        return render_template_string(INDEX, ibis=IBIS)

    # the repository of the report had a program among the files of an item to show its metadata
    @app.get("/col/<ibi:ibi>/doc/metadata.cgi")
    def metadata_program(ibi: str) -> Response:
        choice = request.args.get("choice")
        return redirect(url_for("ibi_archive.metadata", ibi=ibi, choice=choice), 302)

    return app
