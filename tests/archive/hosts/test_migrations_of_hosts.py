"""A host with migrations of its own in the database of our tables: neither changes the other's."""

from __future__ import annotations

import logging.config
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import flask_ibi_archive.migrations
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    String,
    create_engine,
    event,
    inspect,
    text,
)
from support.commands import command
from support.host_app import HostApp

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.archive.items.tables import metadata
from flask_ibi_archive.errors import ConfigError

pytestmark = [
    pytest.mark.no_tables,
    # the env.py of Flask-Migrate calls this method, for older versions of Flask-SQLAlchemy
    pytest.mark.filterwarnings("ignore:'get_engine' is deprecated:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def unchanged_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep env.py from replacing the loggers of this process."""
    monkeypatch.setattr(logging.config, "fileConfig", lambda *arguments, **options: None)


class Host(HostApp):
    def __init__(self, uri: str, folder: Path, **config: Any) -> None:
        super().__init__(uri, folder, **config)

        class Thesis(self.db.Model):  # type: ignore[name-defined, misc]
            id = Column(Integer, primary_key=True)
            ibi_rep = Column(String(255), unique=True)
            ibi_ibip = Column(String(255), unique=True)

        class Note(self.db.Model):  # type: ignore[name-defined, misc]
            __tablename__ = "ibi_note"
            id = Column(Integer, primary_key=True)

    def flask(self, *words: str) -> str:
        # env.py puts a function with the state of its command here
        self.app.extensions["migrate"].configure_args.pop("process_revision_directives", None)
        result = self.app.test_cli_runner().invoke(args=words)
        assert result.exit_code == 0, (words, result.output, result.exception)
        return result.output

    def migrate(self, *words: str) -> str:
        """Run ``flask db migrate``, and return the text of the new file; "" if there is none."""
        before = self.files()
        self.flask("db", "migrate", *words)
        return "".join(path.read_text() for path in self.files() - before)

    def files(self) -> set[Path]:
        return set((self.migrations / "versions").glob("*.py"))

    def tables(self) -> set[str]:
        with self.app.app_context():
            return set(inspect(self.db.engine).get_table_names()) - {"sqlite_sequence"}

    def execute(self, statement: str) -> None:
        with self.app.app_context(), self.db.engine.begin() as connection:
            connection.execute(text(statement))


NewHost = Callable[..., Host]


@pytest.fixture
def new_host(uri: str, tmp_path: Path) -> Iterator[NewHost]:
    made: list[Host] = []

    def make(**options: Any) -> Host:
        made.append(Host(options.pop("uri", uri), tmp_path, **options))
        return made[-1]

    yield make
    for host in made:
        host.close()


#: The module of the identifiers that programs got is only imported where they are issued.
OURS = {*metadata.tables, "ibi_issued_identifier", "ibi_alembic_version"}


# --- two histories in one database ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.postgresql
@pytest.mark.parametrize("before", [True, False], ids=["migrate_first", "archive_first"])
def test_the_hosts_migrations_ignore_our_tables(new_host: NewHost, before: bool) -> None:
    host = new_host(before=before)
    host.flask("db", "init")
    host.flask("ibi", "init")
    created = host.migrate()
    assert created.count("op.create_table") == created.count("op.drop_table") == 2
    assert "create_table('thesis'" in created
    assert "Column('ibi_rep'" in created
    assert "Column('ibi_ibip'" in created

    host.flask("db", "upgrade")
    assert host.migrate() == ""
    assert host.tables() == OURS | {"thesis", "ibi_note", "alembic_version"}
    host.archive.without_session().deposit(title="Report")
    for direction, theirs in (("downgrade", set()), ("upgrade", {"thesis", "ibi_note"})):
        host.flask("db", direction)
        assert host.tables() == OURS | theirs | {"alembic_version"}
        host.archive.database.check()
        assert len(list(host.archive.find())) == 1


@pytest.mark.parametrize("before", [True, False], ids=["migrate_first", "archive_first"])
def test_the_hosts_own_filters_still_work(new_host: NewHost, before: bool) -> None:
    def include_object(item: Any, name: str | None, type_: str, *more: Any) -> bool:
        return name != "legacy"

    def theirs(name: str | None, type_: str, parents: Any) -> bool:
        return name != "scratch"

    host = new_host(
        before=before, options={"include_object": include_object, "include_name": theirs}
    )
    for name in ("legacy", "scratch", "obsolete"):
        host.execute(f"CREATE TABLE {name} (id INTEGER)")
    host.flask("ibi", "init")
    host.flask("db", "init")
    created = host.migrate()
    upgrade = created[created.index("def upgrade") : created.index("def downgrade")]
    assert "op.create_table('thesis'" in upgrade
    assert upgrade.count("op.drop_table") == 1
    assert "op.drop_table('obsolete')" in upgrade


# --- plain alembic -------------------------------------------------------------------------------


def test_plain_alembic_ignores_our_tables_with_one_line(app: Flask, uri: str) -> None:
    options = {"include_name": flask_ibi_archive.migrations.include_name}
    engine = create_engine(uri)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, MetaData()) == []
    engine.dispose()


# --- tables without a known revision -------------------------------------------------------------


@pytest.mark.parametrize("words", [("init",), ("upgrade",), ("downgrade", "--yes")])
def test_tables_that_no_migration_created_are_an_error_with_advice(
    new_app: Callable[..., Flask], uri: str, words: tuple[str, ...]
) -> None:
    engine = create_engine(uri)
    metadata.create_all(engine)
    engine.dispose()
    assert command(new_app(), *words).error == (
        "the table ibi_archive exists, but the table ibi_alembic_version does not contain its "
        "revision; if a program created the tables without migrations, as create_all() does, drop "
        "them and run: flask ibi init; otherwise restore a backup"
    )


# --- options of the host's connections -----------------------------------------------------------


@pytest.fixture
def schema(uri: str) -> Iterator[str]:
    """The name of a schema that is not the default one; SQLite has no schemas."""
    name, engine = f"library_{uuid.uuid4().hex}", create_engine(uri)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    yield name
    with engine.begin() as connection:
        connection.execute(text(f"DROP SCHEMA {name} CASCADE"))
    engine.dispose()


@pytest.mark.only_on("postgresql")
@pytest.mark.parametrize("key", [None, "archive"])
def test_our_tables_are_in_the_schema_of_the_hosts_connections(
    uri: str, schema: str, new_host: NewHost, key: str | None
) -> None:
    arguments = {"options": f"-csearch_path={schema}", "prepare_threshold": None}
    options: dict[str, Any] = {"connect_args": arguments}
    host = new_host(
        **(
            {"SQLALCHEMY_ENGINE_OPTIONS": options}
            if key is None
            else {
                "SQLALCHEMY_BINDS": {key: {"url": uri, **options}},
                "IBI_DATABASE_BIND": key,
            }
        )
    )
    host.flask("ibi", "init")
    with host.app.app_context():
        item = host.archive.deposit(title="Report")
        host.db.session.commit()
        assert host.archive.get(item.rep) is not None
    engine = create_engine(uri)
    assert set(inspect(engine).get_table_names("public")) & OURS == set()
    assert set(inspect(engine).get_table_names(schema)) >= OURS
    engine.dispose()


@pytest.mark.only_on("postgresql")
def test_init_refuses_a_session_with_another_schema(
    uri: str, schema: str, new_host: NewHost
) -> None:
    """Nothing tells the package what a listener of the host does to its connections."""
    host = new_host()
    with host.app.app_context():

        @event.listens_for(host.db.engine, "connect")
        def use_schema(connection: Any, record: Any) -> None:
            with connection.cursor() as cursor:
                cursor.execute(f"SET search_path = {schema}")
            connection.commit()

    assert re.fullmatch(
        rf"session is 'using the schema {schema}'; it should be a session whose database URL names "
        r"its schema, because the Archive's own connections use the schema \w+; add "
        rf"\?options=-csearch_path%3D{schema}",
        command(host.app, "init").error,
    )
    assert host.tables() & OURS == set()


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize(
    ("binds", "config", "message"),
    [
        (True, "archve", "is 'archve'; it should be a key of SQLALCHEMY_BINDS: archive, other"),
        (False, "archive", "is 'archive'; it should be unset, because SQLALCHEMY_BINDS is empty"),
        (True, ["archive"], r"is \['archive'\]; it should be a text"),
        (True, "other", "bound to an SQLite file"),
    ],
)
def test_a_wrong_bind_stops_the_start_with_one_line(
    uri: str, tmp_path: Path, binds: bool, config: Any, message: str
) -> None:
    known = {"archive": f"sqlite:///{tmp_path}/a", "other": "sqlite://"}
    with pytest.raises(ConfigError, match=message):
        Host(uri, tmp_path, SQLALCHEMY_BINDS=known if binds else {}, IBI_DATABASE_BIND=config)


@pytest.mark.only_on("sqlite")
def test_a_bind_without_a_session_or_beside_a_url_stops_the_start(uri: str, tmp_path: Path) -> None:
    def refusal(session: bool = True, **config: Any) -> str:
        app, db = Flask("host", instance_path=str(tmp_path)), SQLAlchemy()
        app.config.update(SECRET_KEY="a secret for tests", IBI_DATABASE_BIND="archive", **config)
        if config:
            db.init_app(app)
        with pytest.raises(ConfigError) as refused:
            IBIArchive(app, session=db.session if session else None)
        return str(refused.value)

    binds = {"archive": f"sqlite:///{tmp_path}/a"}
    known = {"SQLALCHEMY_DATABASE_URI": uri, "SQLALCHEMY_BINDS": binds}
    start = "IBI_DATABASE_BIND is 'archive'; it should be unset, "
    assert refusal() == f"{start}or the app should have Flask-SQLAlchemy"
    assert refusal(session=False, **known) == (
        f"{start}because IBIArchive has no session; IBI_DATABASE_URI names the database"
    )
    assert refusal(**known, IBI_DATABASE_URI=uri).startswith("IBI_DATABASE_URI is 'sqlite:")
