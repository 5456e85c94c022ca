"""The public pages: the list of publications, and the page of each item."""

from __future__ import annotations

from itertools import islice

from flask import Blueprint, redirect, render_template, request, url_for
from sqlalchemy import select
from werkzeug import Response

from example_app.accounts import get_user
from example_app.extensions import db, ibi
from example_app.forms import LANGUAGES
from example_app.models import Publication, find_publication, search
from flask_ibi_archive import ItemView

catalogue = Blueprint("catalogue", __name__)

#: The number of publications on a page of the list.
PER_PAGE = 10
#: The largest number of items on the page of imported items.
MAX_IMPORTED = 100


@catalogue.get("/")
def index() -> str:
    """Show the public publications, or those that a search finds; else the imported items."""
    text = request.args.get("q", "").strip()
    page = db.paginate(search(text), per_page=PER_PAGE, max_per_page=PER_PAGE)
    # with the titles and authors of items whose descriptions are items, too
    shown = [] if text or page.total else list_imported()[:PER_PAGE]
    items = [ibi.archive.get(item.ibi) for item in shown]
    return render_template("index.html", page=page, text=text, items=items)


# The extension has a page at this address, too, but a route of the app takes precedence. So the
# page of a publication is where resolvers expect it, and it needs no second address.
@catalogue.get("/col/<flask_ibi_archive_item:identifier>/")
def record(identifier: str) -> str | Response:
    """Show a draft to those who may see it. All items have the page of the extension.

    The template ``ibi_archive/landing.html`` adds the links of those who manage a publication.
    """
    publication = find_publication(identifier)
    if publication is None or publication.status != "draft":
        return ibi.landing_page(identifier)
    if not publication.is_visible_to(get_user()):
        return ibi.landing_page(identifier)
    language = LANGUAGES[publication.language]
    return render_template("record.html", publication=publication, language=language)


@catalogue.app_template_global()
def find_managed(identifier: str) -> Publication | None:
    """Return the publication with an IBI if the user manages it."""
    publication = find_publication(identifier)
    return publication if publication and publication.is_managed_by(get_user()) else None


@catalogue.get("/imported")
def imported() -> str:
    """Show the items of ``flask ibi import``, which have no row in the table of publications."""
    return render_template("imported.html", items=list_imported())


def list_imported() -> list[ItemView]:
    """Return the items that have no row in the table of publications."""
    own = set(db.session.scalars(select(Publication.ibi_rep)))
    items = (
        item
        for item in ibi.archive.find()
        if item.rep not in own and item.record.state != "Deleted" and not item.is_hidden
    )
    return list(islice(items, MAX_IMPORTED))


# in the examples of the resolution report, the URL of metadata is a program, metadata.cgi
@catalogue.get("/col/<flask_ibi_archive_item:identifier>/doc/metadata.cgi")
def metadata_program(identifier: str) -> Response:
    """Redirect to the metadata of an item."""
    choice = request.args.get("choice")
    return redirect(url_for("ibi_archive.metadata", ibi=identifier, choice=choice))
