"""Whether the resolver's database answers, for those who watch over servers."""

from __future__ import annotations

from flask import Response

from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.resolver.web_context import current_resolver
from flask_ibi_archive.web.health import say_ready, say_unready


def ready() -> Response:
    """Say whether the database answers, with the tables of this version."""
    try:
        current_resolver().database.check()
    except NotReady as error:
        return say_unready("the resolver", error)
    return say_ready()
