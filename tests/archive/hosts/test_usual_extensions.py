"""What the page "Your app has ..." says about a host with usual extensions is true."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import flask
import pytest
import responses
from flask import Flask, abort, redirect, request
from flask_login import current_user, login_user
from flask_wtf import CSRFProtect
from sqlalchemy import event, select, text
from sqlalchemy.orm.exc import StaleDataError
from support.archives import archive_of, close
from support.commands import command
from support.documentation import blocks, read
from support.host_app import HostApp, User
from support.web import SERVICE_PATH, ask, ask_urls

from flask_ibi_archive import IBIArchive, IdentifiedItem, ItemRecord

NAME = "howto/your-app-has.rst"
PAGE = read(NAME)
#: What the page says that the command check prints, with a pattern for the identifier.
QUOTES = [
    re.escape(line.strip()).replace(re.escape("8JMKD3MGP8W/4GR7C9G"), r"\w+/\w+")
    for line in re.findall(r"^    (?:ok  |WARN|FAIL) .*$", PAGE, re.MULTILINE)
]
BROWSER = {"Accept": "text/html"}


class Host(HostApp):
    """A repository of theses whose rows have versions and dates."""

    def __init__(self, uri: str, folder: Path) -> None:
        super().__init__(uri, folder)
        db = self.db

        class Thesis(IdentifiedItem, db.Model):  # type: ignore[name-defined, misc]
            id = db.Column(db.Integer, primary_key=True)
            title = db.Column(db.String(80))
            updated = db.Column(db.Date)
            version = db.Column(db.Integer, nullable=False)
            __mapper_args__ = {"version_id_col": version}  # noqa: RUF012

            def ibi_record(self) -> ItemRecord:
                return ItemRecord(title=f"{self.title} ({self.updated})")

        self.Thesis = Thesis
        self.today = date(2026, 3, 1)
        event.listen(db.session, "before_flush", self._stamp)
        self.archive.init()
        with self.app.app_context():
            db.create_all()
            db.session.add(Thesis(title="On rain"))
            db.session.commit()
            self.ibi_text = db.session.scalar(select(Thesis)).ibi

    def _stamp(self, session: Any, context: object, instances: object) -> None:
        for row in session.new | session.dirty:
            if isinstance(row, self.Thesis):
                row.updated = self.today

    @contextmanager
    def second_app(self, step: Callable[[Flask], object], routes: bool = True) -> Iterator[Flask]:
        """Yield another app with the same models.

        :param step: what the host does before it embeds the Archive.
        :param routes: whether the app answers requests for the Archive.
        """
        app = Flask("second")
        app.config.update(self.app.config, IBI_ARCHIVE_ADDRESS="repository.example.org")
        self.db.init_app(app)
        step(app)
        IBIArchive(app, session=self.db.session, routes=routes)
        yield app
        with app.app_context():
            self.db.session.remove()
            self.db.engine.dispose()
        close(app)

    def close(self) -> None:
        with self.app.app_context():
            self.db.session.remove()
            self.db.drop_all()
        super().close()


@pytest.fixture
def host(uri: str, tmp_path: Path) -> Iterator[Host]:
    host = Host(uri, tmp_path)
    yield host
    host.close()


def run_block(word: str, **names: Any) -> dict[str, Any]:
    """Run the code block of the page that contains a word, and return its names."""
    [code] = [block.text for block in blocks(NAME) if word in block.text]
    exec(code, names)
    return names


# --- rows ----------------------------------------------------------------------------------------


@pytest.mark.postgresql
def test_the_version_of_a_row_counts_the_changes_of_the_host_alone(host: Host) -> None:
    session = host.db.session
    with host.app.app_context():
        row = session.scalar(select(host.Thesis))
        assert row.version == 1
        row.title = "On snow"
        session.commit()
        assert row.version == 2
        session.execute(text("UPDATE thesis SET version = version + 1, title = 'On ice'"))
        row.title = "On hail"
        with pytest.raises(StaleDataError):
            session.commit()
        session.rollback()
        assert row.title == "On snow"


def test_an_item_has_what_the_hook_of_the_session_wrote_to_its_row(host: Host) -> None:
    with host.app.app_context():
        host.today = date(2026, 3, 2)
        host.db.session.scalar(select(host.Thesis)).title = "On snow"
        host.db.session.commit()
        assert host.archive.get(host.ibi_text).title == "On snow (2026-03-02)"


# --- what the page tells -------------------------------------------------------------------------


def leave_out_routes(app: Flask) -> None:
    """The app embeds the Archive with routes=False."""


SCENES: list[Callable[[Flask], object]] = [
    CSRFProtect,
    lambda app: app.before_request(lambda: abort(429)),
    lambda app: app.before_request(lambda: redirect(request.url.replace("http:", "https:"))),
    lambda app: app.config.update(PREFERRED_URL_SCHEME="https"),
    lambda app: app.before_request(lambda: redirect("/login")),
    lambda app: app.add_url_rule("/<owner>/<name>", "taken", lambda owner, name: "taken"),
    leave_out_routes,
    leave_out_routes,
]


def test_the_command_check_says_what_the_page_quotes(host: Host) -> None:
    page = "https://repository.example.org/ibi/statistics"
    for scene, quote in zip(SCENES, QUOTES, strict=True):
        with (
            host.second_app(scene, routes=scene is not leave_out_routes) as app,
            responses.RequestsMock(assert_all_requests_are_fired=False) as network,
        ):
            network.get(page, status=302, headers={"Location": page})
            network.get(re.compile("https?://"), body="confirmation yes")
            lines = command(app, "check").out.splitlines()
            assert archive_of(app).database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
        assert [line for line in lines if re.fullmatch(quote, line)], (scene, lines)


def test_the_lines_of_the_page_let_pages_pass(host: Host) -> None:
    app = host.app
    run_block("csrf.exempt", app=app, csrf=CSRFProtect(app))
    names = {name: getattr(flask, name) for name in ("request", "redirect", "url_for")}
    run_block("require_login", app=app, current_user=current_user, **names)
    app.add_url_rule("/members", "login", lambda: str(login_user(User("ana"))))
    app.add_url_rule("/", "home", lambda: f"welcome {current_user.id}")
    browser = app.test_client()
    assert browser.post("/ibi/oai", data={"verb": "Identify"}).status_code == 200
    assert browser.get("/ibi/statistics").status_code == 200
    assert "url" in ask_urls(app, host.ibi_text)
    assert browser.get("/").location == "/members"
    browser.get("/members")
    assert browser.get("/").text == "welcome ana"


def test_an_app_without_routes_changes_rows_that_another_app_shows(host: Host) -> None:
    with host.second_app(leave_out_routes, routes=False) as api:
        with api.app_context():
            row = host.db.session.scalar(select(host.Thesis))
            row.title = "On snow"
            host.db.session.commit()
            url, path = row.persistent_url, f"/api/theses/{row.id}"
        assert "On snow" in ask(host.app, f"/col/{host.ibi_text}/", headers=BROWSER).text
        run_block("/api/theses/<int:number>", app=api, db=host.db, Thesis=host.Thesis)
        assert ask(api, path).text == f'{{"title":"On snow","url":"{url}"}}\n'
        assert ask(api, SERVICE_PATH).status == 404
