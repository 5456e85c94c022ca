"""The repository of a department, as its developers wrote it: without persistent identifiers.

It uses the extensions of most Flask apps of its kind. ``embedding.diff`` embeds an Archive.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click
from flask import (
    Blueprint,
    Flask,
    abort,
    current_app,
    flash,
    g,
    jsonify,
    redirect,
    render_template,
    request,
    session,
    url_for,
)
from flask.typing import ResponseReturnValue
from flask_admin import Admin
from flask_admin.contrib.sqla import ModelView
from flask_babel import Babel, get_locale, gettext
from flask_caching import Cache
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from flask_login import (
    LoginManager,
    UserMixin,
    current_user,
    login_required,
    login_user,
    logout_user,
)
from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy
from flask_talisman import Talisman
from flask_wtf import CSRFProtect, FlaskForm
from flask_wtf.file import FileField
from sqlalchemy import delete, event, func, select, update
from werkzeug.security import check_password_hash
from wtforms import IntegerField, PasswordField, StringField
from wtforms.validators import InputRequired, Length

db = SQLAlchemy()
migrate = Migrate(render_as_batch=True)
login = LoginManager()
csrf = CSRFProtect()
babel = Babel()
cache = Cache()
limiter = Limiter(get_remote_address, default_limits=[lambda: current_app.config["LIMIT"]])

site = Blueprint("site", __name__)
api = Blueprint("api", __name__, url_prefix="/api")


# --- models --------------------------------------------------------------------------------------


class User(UserMixin, db.Model):
    id = db.Column(db.Integer, primary_key=True)
    name = db.Column(db.String(80), unique=True, nullable=False)
    password = db.Column(db.String(200), nullable=False)


class Advisor(db.Model):
    id = db.Column(db.Integer, primary_key=True)
    name = db.Column(db.String(80), unique=True, nullable=False)
    theses = db.relationship("Thesis", back_populates="advisor")

    def __str__(self) -> str:
        return str(self.name)


class Thesis(db.Model):
    id = db.Column(db.Integer, primary_key=True)
    title = db.Column(db.String(200), nullable=False)
    author = db.Column(db.String(80), nullable=False)
    year = db.Column(db.Integer)
    pdf = db.Column(db.String(200))
    views = db.Column(db.Integer, nullable=False, default=0, server_default="0")
    updated = db.Column(db.DateTime)
    version = db.Column(db.Integer, nullable=False)
    advisor_id = db.Column(db.ForeignKey("advisor.id"))
    advisor = db.relationship(Advisor, back_populates="theses")
    chapters = db.relationship(
        "Chapter", back_populates="thesis", cascade="all, delete-orphan", order_by="Chapter.id"
    )
    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012


class Chapter(db.Model):
    id = db.Column(db.Integer, primary_key=True)
    title = db.Column(db.String(200), nullable=False)
    thesis_id = db.Column(db.ForeignKey("thesis.id", ondelete="CASCADE"), nullable=False)
    thesis = db.relationship(Thesis, back_populates="chapters")


class Review(db.Model):
    id = db.Column(db.Integer, primary_key=True)
    text = db.Column(db.String(200), nullable=False)
    thesis_id = db.Column(db.ForeignKey("thesis.id"), nullable=False)


class Page(db.Model):
    path = db.Column(db.String(80), primary_key=True)
    text = db.Column(db.Text, nullable=False)


@event.listens_for(db.session, "before_flush")
def stamp(session: Any, context: object, instances: object) -> None:
    for row in session.new | session.dirty:
        if isinstance(row, Thesis):
            row.updated = datetime.now(timezone.utc).replace(tzinfo=None)


# --- pages ---------------------------------------------------------------------------------------


class ThesisForm(FlaskForm):
    title = StringField(validators=[InputRequired(), Length(max=200)])
    author = StringField(validators=[InputRequired()])
    year = IntegerField()
    pdf = FileField()


class LoginForm(FlaskForm):
    name = StringField()
    password = PasswordField()


@site.get("/")
@cache.cached(timeout=60, key_prefix=lambda: f"index {choose_language()}")
def index() -> str:
    theses = db.session.scalars(select(Thesis).order_by(Thesis.id)).all()
    return render_template("index.html", theses=theses)


@site.get("/theses/<int:number>")
def show(number: int) -> str:
    thesis = db.get_or_404(Thesis, number)
    count = update(Thesis).where(Thesis.id == number).values(views=Thesis.views + 1)
    db.session.execute(count.execution_options(synchronize_session=False))
    db.session.commit()
    return render_template("thesis.html", thesis=thesis)


@site.route("/theses/new", methods=["GET", "POST"])
@login_required
def add() -> ResponseReturnValue:
    form = ThesisForm()
    if not form.validate_on_submit():
        return render_template("form.html", form=form), 422 if form.is_submitted() else 200
    thesis = Thesis(title=form.title.data, author=form.author.data, year=form.year.data)
    if form.pdf.data:
        path = Path(current_app.config["UPLOADS"]) / Path(form.pdf.data.filename).name
        form.pdf.data.save(path)
        thesis.pdf = str(path)
    db.session.add(thesis)
    db.session.commit()
    cache.clear()
    flash(gettext("The thesis was added."))
    return redirect(url_for("site.show", number=thesis.id))


@site.post("/theses/<int:number>/delete")
@login_required
def remove(number: int) -> ResponseReturnValue:
    db.session.delete(db.get_or_404(Thesis, number))
    db.session.commit()
    cache.clear()
    return redirect(url_for("site.index"))


@site.route("/login", methods=["GET", "POST"])
def log_in() -> ResponseReturnValue:
    form = LoginForm()
    if form.validate_on_submit():
        user = db.session.scalar(select(User).where(User.name == form.name.data))
        if user is not None and check_password_hash(user.password, form.password.data):
            login_user(user)
            return redirect(request.args.get("next") or url_for("site.index"))
        flash(gettext("Wrong name or password."))
    return render_template("form.html", form=form)


@site.post("/logout")
def log_out() -> ResponseReturnValue:
    logout_user()
    return redirect(url_for("site.index"))


@site.get("/language/<code>")
def set_language(code: str) -> ResponseReturnValue:
    session["language"] = code
    return redirect(url_for("site.index"))


@site.get("/broken")
def fail() -> str:
    return str(1 // 0)


@site.get("/<path:path>")
def show_page(path: str) -> str:
    return render_template("page.html", page=db.get_or_404(Page, path))


@api.get("/theses")
def list_theses() -> ResponseReturnValue:
    rows = db.session.execute(select(Thesis.id, Thesis.title).order_by(Thesis.id))
    return jsonify([{"id": row.id, "title": row.title} for row in rows])


@api.post("/theses")
@csrf.exempt
def add_thesis() -> ResponseReturnValue:
    if request.headers.get("X-Token") != current_app.config["API_TOKEN"]:
        abort(401)
    thesis = Thesis(title=request.json["title"], author=request.json["author"])
    db.session.add(thesis)
    db.session.commit()
    return {"id": thesis.id}, 201


@api.get("/ping")
@limiter.exempt
def ping() -> ResponseReturnValue:
    return {"ok": True}


# --- commands ------------------------------------------------------------------------------------


@site.cli.command("import")
@click.argument("file", type=click.File())
def import_theses(file: Any) -> None:
    """Add the theses of a JSON file."""
    db.session.add_all(Thesis(**values) for values in json.load(file))
    db.session.commit()
    click.echo(f"{db.session.scalar(select(func.count(Thesis.id)))} theses")


@site.cli.command("purge")
@click.argument("year", type=int)
def purge(year: int) -> None:
    """Delete the theses of a year."""
    deleted = db.session.execute(delete(Thesis).where(Thesis.year == year))
    db.session.commit()
    click.echo(f"{deleted.rowcount} deleted")


# --- the app -------------------------------------------------------------------------------------


class OwnView(ModelView):
    def is_accessible(self) -> bool:
        return bool(current_user.is_authenticated)


class ThesisView(OwnView):
    column_list = ("title", "author", "year")
    form_columns = ("title", "author", "year")


def choose_language() -> str:
    known = ["en", "pt"]
    return session.get("language") or request.accept_languages.best_match(known) or "en"


def start_request() -> None:
    g.hooks = ["started"]


def require_login() -> ResponseReturnValue | None:
    is_public = request.endpoint in ("site.log_in", "static")
    if current_app.config["INTRANET"] and not (is_public or current_user.is_authenticated):
        return redirect(url_for("site.log_in", next=request.path))
    return None


def finish_request(response: Any) -> Any:
    response.headers["X-Department"] = ", ".join([*g.get("hooks", []), "finished"])
    return response


def show_error(error: Any) -> ResponseReturnValue:
    if request.path.startswith("/api/"):
        return {"error": error.name}, error.code
    return render_template("error.html", error=error), error.code


def create_app(**config: Any) -> Flask:
    app = Flask(__name__, instance_path=config.pop("instance_path", None))
    app.config.update(
        SECRET_KEY="a long random text",
        API_TOKEN="an API token",
        INTRANET=False,
        FORCE_HTTPS=False,
        CACHE_TYPE="SimpleCache",
        LIMIT="200 per minute",
        RATELIMIT_STORAGE_URI="memory://",
        RATELIMIT_HEADERS_ENABLED=True,
    )
    app.config.update(config)
    app.before_request(start_request)
    db.init_app(app)
    migrate.init_app(app, db)
    csrf.init_app(app)
    babel.init_app(app, locale_selector=choose_language)
    app.add_template_global(get_locale)
    cache.init_app(app)
    login.init_app(app)
    login.login_view = "site.log_in"
    login.user_loader(lambda number: db.session.get(User, int(number)))
    app.before_request(require_login)
    limiter.init_app(app)
    Talisman(app, force_https=app.config["FORCE_HTTPS"], session_cookie_secure=False)
    admin = Admin(app, name="Department")
    admin.add_view(ThesisView(Thesis, db, endpoint="theses"))
    admin.add_view(OwnView(Advisor, db, endpoint="advisors"))
    csrf.exempt(app.blueprints["theses"])
    app.register_blueprint(site, cli_group="theses")
    app.register_blueprint(api)
    for status in (400, 404, 429, 500):
        app.register_error_handler(status, show_error)
    app.after_request(finish_request)
    app.shell_context_processor(lambda: {"Thesis": Thesis})
    return app
