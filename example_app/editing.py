"""The pages for users who are logged in: deposit, edit, publish and withdraw publications."""

from __future__ import annotations

import re
from datetime import date

from flask import (
    Blueprint,
    abort,
    current_app,
    flash,
    redirect,
    render_template,
    send_from_directory,
    url_for,
)
from flask_wtf import FlaskForm
from sqlalchemy import or_, select
from werkzeug import Response

from example_app.accounts import get_user
from example_app.extensions import db, ibi, login
from example_app.forms import PublicationForm, WithdrawalForm, remove_uploads
from example_app.models import Publication, User
from flask_ibi_archive import IBIError

editing = Blueprint("editing", __name__)
#: The beginning of the addresses of a publication. Its column of the database has no larger id.
PUBLICATION = "/publications/<int(max=2147483647):id>"
#: The fields of the form whose names differ from those of the record.
FORM_FIELDS = {
    "creators": "authors",
    "titles": "other_titles",
    "abstracts": "other_abstracts",
    "contributors": "advisor",
    "container": "journal",
    "same_as": "old_links",
    "issued": "year",
}


@editing.before_request
def require_login() -> Response | None:
    """Redirect to the login page, unless the user is logged in."""
    return None if get_user() else login.unauthorized()


@editing.get("/mine")
def mine() -> str:
    """Show the publications of the user, and to a librarian all drafts."""
    user = current()
    shown = Publication.owner_id == user.id
    if user.is_librarian:
        shown = or_(shown, Publication.status == "draft")
    found = db.session.scalars(select(Publication).where(shown).order_by(Publication.id.desc()))
    return render_template("mine.html", publications=found.all())


@editing.route("/deposit", methods=["GET", "POST"])
def deposit() -> str | Response:
    """Deposit a publication as a draft."""
    return edit_new("Deposit a publication")


@editing.route(f"{PUBLICATION}/edition", methods=["GET", "POST"])
def new_edition(id: int) -> str | Response:
    """Deposit the next edition of a publication."""
    previous = get_publication(id)
    require_status(previous, "public")
    return edit_new("New edition", previous, previous_edition=previous)


@editing.route(f"{PUBLICATION}/translation", methods=["GET", "POST"])
def translation(id: int) -> str | Response:
    """Deposit a translation of a publication."""
    original = get_publication(id)
    require_status(original, "public")
    return edit_new("Translation", original, translation_of=original.translation_of or original)


def edit_new(title: str, like: Publication | None = None, **related: Publication) -> str | Response:
    """Show the form of a new publication, and store the publication as a draft of the user.

    :param title: the title of the page.
    :param like: the publication whose values the form shows first.
    :param related: the publication of which the new one is an edition or a translation.
    """
    form = PublicationForm(needs_files=True, obj=like, data={"year": date.today().year})
    if not form.is_submitted():
        form.old_links.data = None  # each publication has its own
    if form.validate_on_submit():
        publication = Publication(status="draft", owner=current(), files={}, **related)
        if save_publication(publication, form):
            flash("The draft is stored. A librarian will publish it.")
            return redirect(record_url(publication))
    return render_template("form.html", form=form, title=title, button="Store the draft")


@editing.route(f"{PUBLICATION}/edit", methods=["GET", "POST"])
def edit(id: int) -> str | Response:
    """Edit a publication."""
    publication = get_publication(id)
    if not publication.may_be_edited_by(current()):
        abort(403)
    form = PublicationForm(needs_files=False, obj=publication)
    if form.validate_on_submit() and save_publication(publication, form):
        flash("The changes are stored.")
        return redirect(record_url(publication))
    return render_template("form.html", form=form, title="Edit", button="Store the changes")


@editing.post(f"{PUBLICATION}/publish")
def publish(id: int) -> str | Response:
    """Publish a draft: from now on, its persistent URL leads to it."""
    publication = get_publication(id)
    require_librarian()
    require_status(publication, "draft")
    publication.status = "public"
    form = FlaskForm()
    if not save(form):
        return render_template("form.html", form=form, title="Publish", button="Try again")
    flash("The publication is public.")
    return redirect(record_url(publication))


@editing.route(f"{PUBLICATION}/withdraw", methods=["GET", "POST"])
def withdraw(id: int) -> str | Response:
    """Withdraw a publication. Its page then states the reason."""
    publication = get_publication(id)
    require_librarian()
    require_status(publication, "public")
    form = WithdrawalForm()
    if form.validate_on_submit():
        publication.status, publication.reason = "withdrawn", form.reason.data
        if save(form):
            return redirect(record_url(publication))
    title = f"Withdraw “{publication.title}”"
    return render_template("form.html", form=form, title=title, button="Withdraw")


@editing.post(f"{PUBLICATION}/discard")
def discard(id: int) -> Response:
    """Delete a draft. Its identifier is released, and never issued again."""
    publication = get_publication(id)
    require_status(publication, "draft")
    uploads = list(publication.files.values())
    db.session.delete(publication)
    db.session.commit()
    remove_uploads(uploads)
    flash("The draft is deleted.")
    return redirect(url_for("editing.mine"))


@editing.get(f"{PUBLICATION}/files/<name>")
def draft_file(id: int, name: str) -> Response:
    """Send a file of a draft. The files of public items are at the address of the item."""
    publication = get_publication(id)
    stored = publication.files.get(name) or abort(404)
    folder = current_app.config["UPLOAD_FOLDER"]
    return send_from_directory(folder, stored, download_name=name)


@editing.route("/admin/ibi", methods=["GET", "POST"])
def care() -> Response:
    """Show the librarian's page of the extension, which also withdraws items without a row."""
    require_librarian()
    return ibi.admin_page()


def current() -> User:
    """Return the user, who is logged in on all pages of this module."""
    return get_user() or abort(401)


def get_publication(id: int) -> Publication:
    """Return a publication of the user; librarians may use all publications."""
    publication = db.get_or_404(Publication, id)
    if not publication.is_managed_by(current()):
        abort(403)
    return publication


def require_librarian() -> None:
    """Refuse the request of another user."""
    if not current().is_librarian:
        abort(403)


def require_status(publication: Publication, status: str) -> None:
    """Refuse the request for a publication with another status."""
    if publication.status != status:
        text = "The status of the publication does not allow this."
        abort(409, text)


def save(form: FlaskForm) -> bool:
    """Commit; if the Archive refuses the item, show its message in the form and return False."""
    try:
        db.session.commit()
    except IBIError as error:
        db.session.rollback()
        show_error(form, error)
        return False
    return True


def show_error(form: FlaskForm, error: IBIError) -> None:
    """Show the message of the Archive beside the field to which it belongs, if there is one."""
    # such as creators[0].orcid or degree.defended
    place = re.split(r"[.\[]", getattr(error, "field", None) or "", maxsplit=1)[0]
    name = FORM_FIELDS.get(place, place)
    if name in form:
        form[name].errors = [*form[name].errors, getattr(error, "reason", str(error))]
    else:
        form.form_errors.append(str(error))


def save_publication(publication: Publication, form: PublicationForm) -> bool:
    """Copy the form to a publication and commit; delete the uploads that are not needed then."""
    before = set(publication.files.values())
    form.update(publication)
    after = set(publication.files.values())
    db.session.add(publication)
    unneeded = after - before
    try:
        is_saved = save(form)
        if is_saved:
            unneeded = before - after
    finally:
        remove_uploads(unneeded)
    return is_saved


def record_url(publication: Publication) -> str:
    """Return the address of the page of a publication."""
    return url_for("catalogue.record", identifier=publication.ibi)
