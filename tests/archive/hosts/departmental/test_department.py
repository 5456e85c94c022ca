"""The tests of the departmental app, which pass with and without an Archive in the app."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from flask import Flask, g, request_finished, template_rendered
from flask.testing import FlaskClient
from sqlalchemy import Column, Integer, Table, event, inspect, select, text
from sqlalchemy import delete as sql_delete
from sqlalchemy import insert as sql_insert
from sqlalchemy import update as sql_update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm.exc import StaleDataError
from werkzeug.security import generate_password_hash

pytestmark = pytest.mark.filterwarnings("ignore:'get_engine' is deprecated:DeprecationWarning")

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def db(app: Flask, department: Any) -> Any:
    """The database, in the context of the app."""
    return department.module.db


@pytest.fixture
def thesis(db: Any, department: Any) -> Any:
    """A thesis with two chapters, an advisor and a review."""
    models = department.module
    thesis = models.Thesis(title="On rain", author="Silva, Ana", year=2026)
    thesis.chapters = [models.Chapter(title="Clouds"), models.Chapter(title="Drops")]
    thesis.advisor = models.Advisor(name="Souza, Rui")
    db.session.add(thesis)
    db.session.flush()
    db.session.add(models.Review(text="Good", thesis_id=thesis.id))
    db.session.commit()
    return thesis


@pytest.fixture
def flask(app: Flask, department: Any) -> Command:
    """Runs a command of the app."""

    def run(*words: str) -> tuple[int, str]:
        folder = ("-d", str(department.migrations)) if words[0] == "db" else ()
        result = app.test_cli_runner().invoke(args=[*words, *folder])
        department.module.db.session.rollback()
        return result.exit_code, result.output

    return run


@pytest.fixture
def browse(app: Flask, department: Any) -> Callable[..., FlaskClient]:
    """Return a browser of an app with its own settings; its requests have their own contexts."""

    def open_browser(**config: Any) -> FlaskClient:
        return department.create(**config).test_client()  # type: ignore[no-any-return]

    return open_browser


@pytest.fixture
def client(browse: Callable[..., FlaskClient]) -> FlaskClient:
    """A browser."""
    return browse()


def token(client: FlaskClient, path: str) -> str:
    """Return the CSRF token of a form."""
    [found] = re.findall('name="csrf_token"[^>]*value="([^"]+)"', client.get(path).text)
    return str(found)


def log_in(client: FlaskClient, department: Any, password: str = "secret") -> Any:
    """Add a user, and log in with a password."""
    models = department.module
    if models.db.session.scalar(select(models.User)) is None:
        hashed = generate_password_hash("secret", method="pbkdf2:sha256:1")
        models.db.session.add(models.User(name="ana", password=hashed))
        models.db.session.commit()
    values = {"name": "ana", "password": password, "csrf_token": token(client, "/login")}
    return client.post("/login", data=values)


def count(db: Any, table: str) -> int:
    """Return the number of rows of a table."""
    return int(db.session.scalar(text(f"SELECT count(*) FROM {table}")))


def is_sqlite(db: Any) -> bool:
    """Return whether the database is SQLite, which does not check foreign keys by default."""
    return bool(db.engine.dialect.name == "sqlite")


@contextmanager
def statements(db: Any) -> Iterator[list[str]]:
    """List the statements of the app's engine."""
    seen: list[str] = []

    def note(connection: object, cursor: object, statement: str, *rest: object) -> None:
        seen.append(statement.split()[0])

    event.listen(db.engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(db.engine, "before_cursor_execute", note)


# --- migrations ----------------------------------------------------------------------------------


def test_the_migrations_create_what_the_models_describe(flask: Command) -> None:
    assert flask("db", "check")[0] == 0


def test_a_migration_in_batch_mode_keeps_the_children(flask: Command, db: Any, thesis: Any) -> None:
    assert flask("db", "downgrade", "0001")[0] == 0
    [row] = db.session.execute(text("SELECT * FROM thesis")).mappings()
    assert (row["writer"], row["title"], "views" in row) == ("Silva, Ana", "On rain", False)
    assert (count(db, "chapter"), count(db, "review"), count(db, "advisor")) == (2, 1, 1)
    db.session.rollback()
    assert flask("db", "upgrade")[0] == 0
    assert (count(db, "thesis"), count(db, "chapter"), count(db, "review")) == (1, 2, 1)
    db.session.expire_all()
    assert (thesis.author, thesis.views, len(thesis.chapters)) == ("Silva, Ana", 0, 2)


def test_rows_can_be_changed_after_a_downgrade_and_an_upgrade(
    flask: Command, db: Any, thesis: Any
) -> None:
    assert flask("db", "downgrade", "0001")[0] == flask("db", "upgrade")[0] == 0
    db.session.expire_all()
    thesis.title = "On snow"
    db.session.commit()
    assert db.session.scalar(text("SELECT title FROM thesis")) == "On snow"


def test_all_tables_can_be_removed_and_created_again(flask: Command, db: Any, thesis: Any) -> None:
    assert flask("db", "downgrade", "base")[0] == 0
    assert not {"thesis", "chapter", "user"} & set(inspect(db.engine).get_table_names())
    assert flask("db", "upgrade")[0] == 0
    assert count(db, "thesis") == 0


def test_a_new_table_is_all_that_a_migration_contains(
    flask: Command, db: Any, department: Any
) -> None:
    versions = department.migrations / "versions"
    before = set(versions.glob("*.py"))
    table = Table("note", db.metadata, Column("id", Integer, primary_key=True))
    try:
        assert flask("db", "migrate", "-m", "Add notes")[0] == 0
        [created] = set(versions.glob("*.py")) - before
        assert re.findall(r"op\.(\w+)\(\W*'?(\w+)", created.read_text()) == [
            ("create_table", "note"),
            ("drop_table", "note"),
        ]
        created.unlink()
    finally:
        db.metadata.remove(table)


def test_the_revision_of_the_database_is_the_newest_one(db: Any, department: Any) -> None:
    heads = ScriptDirectory(str(department.migrations)).get_heads()
    assert db.session.scalars(text("SELECT version_num FROM alembic_version")).all() == heads


# --- rows ----------------------------------------------------------------------------------------


def test_deleting_a_thesis_deletes_its_chapters(db: Any, thesis: Any) -> None:
    db.session.execute(text("DELETE FROM review"))
    db.session.delete(thesis)
    db.session.commit()
    assert (count(db, "thesis"), count(db, "chapter"), count(db, "advisor")) == (0, 0, 1)


def test_a_removed_chapter_is_deleted(db: Any, thesis: Any) -> None:
    del thesis.chapters[0]
    db.session.commit()
    assert db.session.scalars(text("SELECT title FROM chapter")).all() == ["Drops"]


def test_deleting_an_advisor_keeps_the_thesis(db: Any, thesis: Any) -> None:
    db.session.delete(thesis.advisor)
    db.session.commit()
    assert (thesis.advisor_id, count(db, "thesis"), count(db, "chapter")) == (None, 1, 2)


def test_sql_deletes_chapters_only_where_foreign_keys_are_checked(db: Any, thesis: Any) -> None:
    db.session.execute(text("DELETE FROM review"))
    db.session.execute(text("DELETE FROM thesis"))
    db.session.commit()
    assert count(db, "chapter") == (2 if is_sqlite(db) else 0)


def test_sql_may_delete_a_thesis_with_reviews_only_on_sqlite(db: Any, thesis: Any) -> None:
    if is_sqlite(db):
        db.session.execute(text("DELETE FROM thesis"))
        db.session.commit()
        assert (count(db, "thesis"), count(db, "review")) == (0, 1)
    else:
        with pytest.raises(IntegrityError):
            db.session.execute(text("DELETE FROM thesis"))
        db.session.rollback()
        assert count(db, "thesis") == 1


def test_a_bulk_update_changes_all_rows(db: Any, department: Any, thesis: Any) -> None:
    model = department.module.Thesis
    found = db.session.execute(sql_update(model).values(year=model.year + 1))
    db.session.commit()
    assert (found.rowcount, thesis.year) == (1, 2027)


def test_a_bulk_delete_deletes_all_rows(db: Any, department: Any, thesis: Any) -> None:
    db.session.execute(text("DELETE FROM review"))
    found = db.session.execute(sql_delete(department.module.Thesis))
    db.session.commit()
    assert (found.rowcount, count(db, "thesis")) == (1, 0)


def test_many_rows_are_inserted_together(db: Any, department: Any) -> None:
    model = department.module.Thesis
    rows = [{"title": f"Thesis {n}", "author": "A", "version": 1} for n in range(50)]
    db.session.execute(sql_insert(model), rows)
    db.session.bulk_save_objects([model(title="one", author="A", version=1)])
    db.session.commit()
    assert count(db, "thesis") == 51


def test_a_rollback_leaves_nothing(db: Any, department: Any, thesis: Any) -> None:
    thesis.title = "On snow"
    db.session.add(department.module.Thesis(title="New", author="A"))
    db.session.flush()
    db.session.rollback()
    assert (thesis.title, count(db, "thesis")) == ("On rain", 1)


def test_a_savepoint_can_be_rolled_back_alone(db: Any, department: Any, thesis: Any) -> None:
    model = department.module.Thesis
    thesis.title = "On snow"
    db.session.flush()
    savepoint = db.session.begin_nested()
    db.session.add(model(title="New", author="A"))
    db.session.flush()
    savepoint.rollback()
    with db.session.begin_nested():
        db.session.add(model(title="Newer", author="A"))
    db.session.commit()
    titles = db.session.scalars(select(model.title).order_by(model.id)).all()
    assert titles == ["On snow", "Newer"]


def test_the_session_works_again_after_an_error(db: Any, department: Any, thesis: Any) -> None:
    db.session.add(department.module.Advisor(name="Souza, Rui"))
    with pytest.raises(IntegrityError):
        db.session.commit()
    db.session.rollback()
    thesis.title = "On snow"
    db.session.commit()
    assert (count(db, "advisor"), thesis.title) == (1, "On snow")


def test_two_editors_do_not_overwrite_each_other(db: Any, thesis: Any) -> None:
    db.session.refresh(thesis)
    db.session.execute(text("UPDATE thesis SET version = version + 1, title = 'On ice'"))
    thesis.title = "On snow"
    with pytest.raises(StaleDataError):
        db.session.commit()
    db.session.rollback()


def test_the_version_counts_changes(db: Any, thesis: Any) -> None:
    before = thesis.version
    thesis.title = "On snow"
    db.session.commit()
    assert (before, thesis.version) == (1, 2)


def test_the_hook_of_the_session_stamps_changed_rows(db: Any, thesis: Any) -> None:
    assert thesis.updated is not None
    db.session.execute(text("UPDATE thesis SET updated = NULL"))
    db.session.commit()
    thesis.title = "On snow"
    db.session.commit()
    assert thesis.updated is not None


def test_other_connections_see_rows_after_the_commit(db: Any, department: Any) -> None:
    db.session.add(department.module.Thesis(title="On rain", author="A"))
    db.session.flush()
    found = text("SELECT count(*) FROM thesis")
    with db.engine.connect() as other:
        assert other.scalar(found) == 0
    db.session.commit()
    with db.engine.connect() as other:
        assert other.scalar(found) == 1


def test_a_row_without_a_thesis_costs_the_statements_it_needs(db: Any, department: Any) -> None:
    with statements(db) as seen:
        db.session.add(department.module.Page(path="about", text="About us"))
        db.session.commit()
        db.session.get(department.module.Page, "about")
        db.session.rollback()
    assert seen == ["INSERT", "SELECT"]


# --- pages ---------------------------------------------------------------------------------------


def test_the_index_is_in_the_language_of_the_browser_or_of_the_session(
    client: FlaskClient, thesis: Any
) -> None:
    assert "1 thesis" in client.get("/").text
    assert "1 tese" in client.get("/", headers={"Accept-Language": "pt-BR"}).text
    assert client.get("/language/pt", headers={"Accept-Language": "en"}).location == "/"
    assert "Teses do departamento" in client.get("/", headers={"Accept-Language": "en"}).text


def test_the_page_of_a_thesis_counts_views(client: FlaskClient, thesis: Any) -> None:
    for views in (1, 2):
        page = client.get(f"/theses/{thesis.id}", headers={"Accept-Language": "pt"}).text
        assert "<h1>On rain</h1>" in page
        assert "Escrita por Silva, Ana" in page
        assert f"Visitas: {views}" in page
        assert "<li>Clouds</li><li>Drops</li>" in page


def test_the_page_of_a_thesis_needs_few_statements(
    client: FlaskClient, db: Any, thesis: Any
) -> None:
    path = f"/theses/{thesis.id}"
    db.session.rollback()
    with client.application.app_context(), statements(db) as seen:
        client.get(path)
    assert seen == ["SELECT", "UPDATE", "SELECT", "SELECT"]


def test_an_intranet_asks_for_a_login(
    browse: Callable[..., FlaskClient], department: Any, app: Flask
) -> None:
    client = browse(INTRANET=True)
    for path in ("/", "/theses/1", "/no/such/page"):
        assert client.get(path).location == f"/login?next={path}"
    assert client.get("/login").status_code == 200
    assert log_in(client, department).location == "/"
    assert client.get("/").status_code == 200


def test_a_wrong_password_is_refused(client: FlaskClient, department: Any) -> None:
    assert "Wrong name or password." in log_in(client, department, "guess").text
    assert client.get("/theses/new").location == "/login?next=%2Ftheses%2Fnew"


def test_a_user_adds_a_thesis_with_a_file_and_deletes_it(
    client: FlaskClient, department: Any, db: Any
) -> None:
    log_in(client, department)
    data = {"title": "On rain", "author": "Silva, Ana", "year": "2026"}
    data["csrf_token"] = secret = token(client, "/theses/new")
    answer = client.post("/theses/new", data=data | {"pdf": (BytesIO(b"%PDF"), "a.pdf")})
    assert answer.status_code == 302
    [row] = db.session.scalars(select(department.module.Thesis))
    assert Path(row.pdf).read_bytes() == b"%PDF"
    assert answer.location == f"/theses/{row.id}"
    path = f"/theses/{row.id}/delete"
    assert client.post(path, data={"csrf_token": secret}).location == "/"
    assert count(db, "thesis") == 0
    assert Path(department.folder / "a.pdf").read_bytes() == b"%PDF"


def test_an_incomplete_form_is_shown_again(client: FlaskClient, department: Any, db: Any) -> None:
    log_in(client, department)
    answer = client.post("/theses/new", data={"csrf_token": token(client, "/theses/new")})
    assert (answer.status_code, "This field is required." in answer.text) == (422, True)
    assert count(db, "thesis") == 0


def test_a_form_without_its_token_is_refused(client: FlaskClient, department: Any, db: Any) -> None:
    log_in(client, department)
    answer = client.post("/theses/new", data={"title": "On rain", "author": "A"})
    assert (answer.status_code, "Something went wrong: Bad Request" in answer.text) == (400, True)
    assert client.post("/logout").status_code == 400
    assert count(db, "thesis") == 0


def test_the_api_needs_its_own_token_alone(client: FlaskClient, db: Any) -> None:
    values = {"title": "On rain", "author": "Silva, Ana"}
    assert client.post("/api/theses", json=values).status_code == 401
    added = client.post("/api/theses", json=values, headers={"X-Token": "an API token"})
    assert added.status_code == 201
    assert client.get("/api/theses").json == [{"id": added.json["id"], "title": "On rain"}]
    missing = client.get("/api/nothing")
    assert (missing.status_code, missing.json) == (404, {"error": "Not Found"})


def test_clients_have_a_limit(browse: Callable[..., FlaskClient], app: Flask) -> None:
    client = browse(LIMIT="2 per minute")
    answers = [client.get("/api/theses") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[-1].json == {"error": "Too Many Requests"}
    assert int(answers[-1].headers["Retry-After"]) <= 61
    assert [client.get("/api/ping").status_code for _ in range(5)] == [200] * 5
    assert "Something went wrong" in [client.get("/login") for _ in range(3)][-1].text


def test_requests_are_redirected_to_https(browse: Callable[..., FlaskClient], app: Flask) -> None:
    client = browse(FORCE_HTTPS=True)
    assert client.get("/login").location == "https://localhost/login"
    for options in ({"base_url": "https://localhost"}, {"headers": {"X-Forwarded-Proto": "https"}}):
        assert client.get("/login", **options).status_code == 200
    answer = client.get("/login", base_url="https://localhost")
    assert answer.headers["Strict-Transport-Security"].startswith("max-age=")


def test_pages_have_the_policy_of_the_app(client: FlaskClient) -> None:
    for path in ("/", "/login", "/no/such/page"):
        policies = client.get(path).headers.getlist("Content-Security-Policy")
        assert policies == ["default-src 'self'; object-src 'none'"]


def test_the_index_is_cached_until_a_thesis_is_added(
    client: FlaskClient, department: Any, db: Any, thesis: Any
) -> None:
    assert "On rain" in client.get("/").text
    db.session.add(department.module.Thesis(title="On snow", author="A"))
    db.session.commit()
    assert "On snow" not in client.get("/").text
    with client.application.app_context():
        department.module.cache.clear()
    assert "On snow" in client.get("/").text


def test_all_other_paths_are_pages_in_the_database(
    client: FlaskClient, department: Any, db: Any
) -> None:
    models = department.module
    paths = ["about", "about/us", "col/of/photos", "ibi", "8JMKD3MGP8W/4GR7C9G"]
    db.session.add_all(models.Page(path=path, text=f"This is {path}.") for path in paths)
    db.session.commit()
    for path in paths:
        assert f"This is {path}." in client.get(f"/{path}").text
    for path in ("nothing", "no/such", "no/such/page/at/all", "theses/7", "8JMKD3MGP8W/2AB"):
        answer = client.get(f"/{path}")
        assert (answer.status_code, "Something went wrong: Not Found" in answer.text) == (404, True)


def test_the_hooks_of_the_app_run_once_in_their_order(client: FlaskClient) -> None:
    ended: list[object] = []
    client.application.teardown_request(lambda error: ended.append(error))
    for path in ("/", "/no/such/page", "/static/no", "/api/ping"):
        assert client.get(path).headers["X-Department"] == "started, finished"
    assert ended == [None] * 4
    with client:
        client.get("/")
        assert g.hooks == ["started"]


def test_signals_are_sent_once(client: FlaskClient, thesis: Any) -> None:
    app, seen = client.application, []

    def note(sender: Flask, template: Any = None, **details: object) -> None:
        seen.append(template.name if template else "finished")

    with template_rendered.connected_to(note, app), request_finished.connected_to(note, app):
        client.get(f"/theses/{thesis.id}")
        client.get("/api/ping")
    assert seen == ["thesis.html", "finished", "finished"]


def test_an_error_has_a_page(client: FlaskClient) -> None:
    answer = client.get("/broken")
    assert (answer.status_code, "Internal Server Error" in answer.text) == (500, True)
    assert client.get("/login").status_code == 200


# --- the administration --------------------------------------------------------------------------


def test_the_administration_needs_a_login(client: FlaskClient, thesis: Any) -> None:
    assert client.get("/admin/theses/").status_code == 403
    assert client.post("/admin/theses/delete/", data={"id": thesis.id}).status_code == 403


def test_the_administration_lists_adds_edits_and_deletes_theses(
    client: FlaskClient, department: Any, db: Any
) -> None:
    log_in(client, department)
    assert client.get("/admin/theses/").status_code == 200
    form = client.get("/admin/theses/new/").text
    assert re.findall(r'<input[^>]* name="([a-z]+)"', form) == ["title", "author", "year"]
    values = {"title": "On rain", "author": "Silva, Ana", "year": "2026"}
    assert client.post("/admin/theses/new/", data=values).status_code == 302
    [row] = db.session.scalars(select(department.module.Thesis))
    number = row.id
    assert "On rain" in client.get("/admin/theses/").text
    edited = client.post(f"/admin/theses/edit/?id={number}", data=values | {"title": "On snow"})
    assert edited.status_code == 302
    db.session.expire_all()
    assert (row.title, row.year) == ("On snow", 2026)
    assert client.post("/admin/theses/delete/", data={"id": number}).status_code == 302
    assert count(db, "thesis") == 0


# --- the command line ----------------------------------------------------------------------------


def test_the_command_import_adds_theses(flask: Command, tmp_path: Path) -> None:
    file = tmp_path / "theses.json"
    file.write_text(json.dumps([{"title": f"Thesis {n}", "author": "A"} for n in range(3)]))
    assert flask("theses", "import", str(file)) == (0, "3 theses\n")
    file.write_text(json.dumps([{"title": "Thesis", "autor": "A"}]))
    assert flask("theses", "import", str(file))[0] == 1
    assert flask("theses", "import", "missing.json")[0] == 2


def test_the_command_purge_deletes_the_theses_of_a_year(
    flask: Command, db: Any, thesis: Any
) -> None:
    db.session.execute(text("DELETE FROM review"))
    db.session.commit()
    assert flask("theses", "purge", "2025") == (0, "0 deleted\n")
    assert flask("theses", "purge", "2026") == (0, "1 deleted\n")


def test_the_commands_and_the_shell_are_those_of_the_app(flask: Command, app: Flask) -> None:
    status, output = flask("theses", "--help")
    assert (status, re.findall(r"^  (import|purge) ", output, re.M)) == (0, ["import", "purge"])
    assert app.make_shell_context()["Thesis"].__name__ == "Thesis"


# --- several apps --------------------------------------------------------------------------------


def test_two_apps_of_one_process_share_the_database(department: Any, db: Any, thesis: Any) -> None:
    other = department.create()
    db.session.rollback()
    with other.app_context():
        model = department.module.Thesis
        [row] = db.session.scalars(select(model))
        row.title = "On snow"
        db.session.commit()
        db.session.remove()
    db.session.expire_all()
    assert thesis.title == "On snow"
