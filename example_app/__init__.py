"""A small institutional repository and a resolver, which the README uses as examples.

The app reads its settings from the environment, such as ``FLASK_IBI_ARCHIVE_ADDRESS=...``. With
the defaults below, every command runs without settings. ``python -m example_app`` runs a complete
system: two Archives and a resolver.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from flask import Flask, redirect, render_template_string, request, url_for
from werkzeug import Response

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.errors import NotReady

DEFAULTS = {
    "SECRET_KEY": "only for the example: choose your own long random text",
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
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>A small repository</title>
<h1>A small repository</h1>
{% if problem %}<p>The repository is not ready: {{ problem }}.</p>
{% endif %}{% if items %}<ul>
{% for ibi, title in items %}
<li><a href="{{ url_for('ibi_archive.landing', ibi=ibi) }}">{{ title }}</a></li>
{% endfor %}</ul>
{% else %}<p>To set it up, run <code>flask ibi init</code>. To add items, run
<code>flask ibi import example_app/records/items.jsonl</code> or <code>flask ibi add</code>.</p>
{% endif %}</html>
"""

#: The largest number of items on the front page.
MAX_LISTED = 100

ibi_archive = IBIArchive()


def create_app(settings: Mapping[str, Any] | None = None) -> Flask:
    """Return the app of the repository.

    :param settings: settings that replace those of the environment.
    """
    app = Flask(__name__)
    app.config.from_mapping(DEFAULTS)
    app.config.from_prefixed_env()
    app.config.from_mapping(settings)
    ibi_archive.init_app(app)

    @app.get("/")
    def index() -> str | tuple[str, int]:
        try:
            items = list_items(app)
        except NotReady as error:
            return render_template_string(INDEX, problem=error.summary), 503
        return render_template_string(INDEX, items=items)

    # in the examples of the resolution report, the URL of metadata is a program, metadata.cgi
    @app.get("/col/<flask_ibi_archive_item:ibi>/doc/metadata.cgi")
    def metadata_program(ibi: str) -> Response:
        choice = request.args.get("choice")
        return redirect(url_for("ibi_archive.metadata", ibi=ibi, choice=choice), 302)

    return app


def create_resolver(settings: Mapping[str, Any] | None = None) -> Flask:
    """Return the app of a resolver.

    :param settings: settings that replace those of the environment.
    """
    # imported here, because a repository needs neither the resolver nor the library pycurl
    from flask_ibi_archive.resolver import IBIResolver

    app = Flask(__name__)
    app.config.from_prefixed_env()
    app.config.from_mapping(settings)
    IBIResolver(app)
    return app


def list_items(app: Flask) -> list[tuple[str, str]]:
    """Return the IBI and the title of the first items, except removed and hidden items.

    :raises NotReady: if the Archive is not set up or its database does not respond.
    """
    # "none" hides an item from users outside its networks
    visible = (
        item
        for item in app.extensions["ibi_archive"].archive.find()
        if item.record.state != "Deleted"
        and (item.record.access is None or item.record.access.others == "metadata")
    )
    return [(item.record.identifiers[0], item.title) for item in islice(visible, MAX_LISTED)]
