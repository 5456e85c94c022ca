"""The migrations of CKAN and those of the package do not touch each other."""

from __future__ import annotations

from typing import Any

from sqlalchemy import create_engine, inspect, make_url

#: A revision of CKAN 2.11.
EARLIER = "f7b64c701a10"
CREATE = """
toolkit.get_action("package_create")({"ignore_auth": True}, {"name": "rain", "title": "Rain"})
"""


def test_migrations_of_ckan_leave_our_tables_and_the_identifiers(installation: Any) -> None:
    url = make_url(installation.database_uri).set(drivername="postgresql+psycopg")
    engine = create_engine(url)

    def list_tables() -> set[str]:
        return {name for name in inspect(engine).get_table_names() if name.startswith("ibi_")}

    assert not list_tables()
    installation.embed("localhost", url.render_as_string(hide_password=False))
    installation.run("ibi", "init")
    installation.run("shell", typed=CREATE)
    tables, items = list_tables(), installation.run("ibi", "list")
    assert len(tables) > 20
    assert "\tRain\n" in items
    installation.run("db", "downgrade", "-v", EARLIER)
    assert list_tables() == tables
    installation.run("db", "upgrade")
    assert list_tables() == tables
    assert installation.run("ibi", "list") == items
    installation.run("ibi", "downgrade", "--yes")
    assert list_tables() == {"ibi_alembic_version"}
    installation.run("db", "check")
    engine.dispose()
