"""Who may do what: login, logout, and the access policy of files."""

from __future__ import annotations

import re

from flask import Blueprint, Request, flash, redirect, render_template, request, url_for
from flask_login import current_user, login_user, logout_user
from sqlalchemy import select
from werkzeug import Response

from example_app.extensions import db, ibi, login
from example_app.forms import LoginForm
from example_app.models import User, find_publication
from flask_ibi_archive import FileRecord, ItemView

accounts = Blueprint("accounts", __name__)


def get_user() -> User | None:
    """Return the user who is logged in."""
    user = current_user._get_current_object()
    return user if isinstance(user, User) else None


def load_user(user_id: str) -> User | None:
    """Return the user whose id is in the cookie of the browser."""
    return db.session.get(User, int(user_id))


login.user_loader(load_user)
login.login_view = "accounts.log_in"
login.login_message = "Please log in."


@ibi.access_policy
def may_read(item: ItemView, file: FileRecord | None, request: Request) -> bool | None:
    """Let owners and librarians read the files of publications with an embargo."""
    user = get_user()
    if user is None:
        return None  # the embargo and the networks of the item decide
    publication = find_publication(item.ibi)
    return True if publication and publication.is_managed_by(user) else None


@accounts.route("/login", methods=["GET", "POST"])
def log_in() -> str | Response:
    """Log in, and go to the page that needed the login."""
    form = LoginForm()
    if form.validate_on_submit():
        user = db.session.scalar(select(User).where(User.name == form.name.data))
        if user is not None and user.has_password(form.password.data):
            login_user(user)
            return redirect(local_path(request.args.get("next")) or url_for("editing.mine"))
        form.password.errors = ["The user name or the password is wrong."]
    return render_template("form.html", form=form, title="Log in", button="Log in")


@accounts.post("/logout")
def log_out() -> Response:
    """Log out."""
    logout_user()
    flash("You are logged out.")
    return redirect(url_for("catalogue.index"))


def local_path(target: str | None) -> str | None:
    """Return a target of a redirect if it is a path of this site, otherwise None."""
    # a browser takes //host, /\host and a tab between the slashes as another host
    return target if target and re.fullmatch(r"/(?![/\\])[!-~]*", target) else None
