"""The migrations of Invenio (Flask-Alembic) and ours in one database."""

from __future__ import annotations

import json
import re
import shutil
import uuid
from importlib.resources import files
from pathlib import Path
from typing import Any

import invenio_db
import pytest
from flask import Flask
from installed_hosts.invenio_site.repository import Site
from invenio_db import db
from my_site import theses
from sqlalchemy import inspect, select, text

ALEMBIC = Path(theses.__file__).with_name("alembic")
MODELS = "my_site.theses:ThesisMetadata"


def compare(app: Flask) -> list[Any]:
    """Return the names of the operations and tables that autogenerate proposes."""
    with app.app_context():
        return app.extensions["invenio-db"].alembic.compare_metadata()


def list_tables(app: Flask) -> set[str]:
    with app.app_context():
        return set(inspect(db.engine).get_table_names())


def test_autogenerate_proposes_the_same_with_our_tables_and_without(site: Site) -> None:
    app = site.create_app()
    site.create_own_tables(app)
    before = compare(app)
    site.run(app, "ibi", "init")
    assert any(name.startswith("ibi_") for name in list_tables(app))
    assert repr(compare(app)) == repr(before)
    if site.is_on_postgresql:  # SQLite has not all types
        assert before == []


@pytest.fixture
def older(site: Site, tmp_path: Path) -> Flask:
    """An app whose rows are older than the columns; its site has no migration for them yet."""
    folder = tmp_path / "alembic"
    shutil.copytree(ALEMBIC, folder, ignore=shutil.ignore_patterns("*_add_identifiers.py"))
    locations = [
        (name, str(files(name) / "alembic")) for name in ("invenio_records", "invenio_pidstore")
    ]
    script = str(files(invenio_db) / "alembic")
    settings = {
        "script_location": script,
        "version_locations": [*locations, ("my_site", str(folder))],
    }
    site.settings["ALEMBIC"] = settings
    app = site.create_app()
    site.create_own_tables(app)
    with app.app_context():
        for index in ("ibi_rep", "ibi_ibip"):
            for table in ("thesis_metadata", "thesis_metadata_version"):
                if not site.is_on_postgresql:  # which made all columns of the models
                    db.session.execute(text(f"DROP INDEX ix_{table}_{index}"))
                    db.session.execute(text(f"ALTER TABLE {table} DROP COLUMN {index}"))
        for number in range(20):
            key = uuid.uuid4()
            values = {
                "id": key if site.is_on_postgresql else key.bytes,
                "json": json.dumps({"title": f"Thesis {number}"}),
            }
            db.session.execute(
                text(
                    "INSERT INTO thesis_metadata (id, json, version_id, created, updated) VALUES"
                    " (:id, :json, 1, '2026-01-01 00:00:00', '2026-01-01 00:00:00')"
                ),
                values,
            )
        db.session.commit()
    return app


def test_the_commands_of_the_page_give_identifiers_to_older_rows(
    older: Flask, site: Site, tmp_path: Path
) -> None:
    site.run(older, "ibi", "init")
    if site.is_on_postgresql:  # on SQLite, Invenio also proposes what is not there
        site.run(older, "alembic", "revision", "Add identifiers", "-b", "my_site")
        [script] = (tmp_path / "alembic").glob("*_add_identifiers.py")
        proposed = script.read_text().partition("def upgrade")[2].partition("def downgrade")[0]
        operations = re.findall(r"^    op\.(\w+)\(", proposed, re.MULTILINE)
        assert sorted(operations) == ["add_column"] * 4 + ["create_index"] * 4
        script.unlink()
    shutil.copy(next(ALEMBIC.glob("*_add_identifiers.py")), tmp_path / "alembic")
    newer = site.create_app()  # Flask-Alembic reads the folders once
    site.run(newer, "alembic", "upgrade")
    site.run(newer, "ibi", "adopt", MODELS)
    ours = {name for name in list_tables(newer) if name.startswith("ibi_")}
    with newer.app_context():
        rows = db.session.scalars(select(theses.ThesisMetadata)).all()
        assert len({row.ibi for row in rows} - {None}) == 20
        assert {theses.ibi.archive.get(row.ibi).title for row in rows} == {
            f"Thesis {number}" for number in range(20)
        }
    site.run(newer, "alembic", "downgrade", "a2")
    with newer.app_context():
        assert db.session.scalar(text("SELECT count(*) FROM thesis_metadata")) == 20
    site.run(newer, "alembic", "upgrade")
    assert {name for name in list_tables(newer) if name.startswith("ibi_")} == ours
    site.run(newer, "ibi", "upgrade")
