"""Numbers of items and Archives that are never used again on SQLite.

SQLAlchemy omits AUTOINCREMENT from a key that is a part of a foreign key, so SQLite gave the number of a
deleted newest row to the next one. The tables are not rebuilt, since dropping one deletes the rows that refer
to it: AUTOINCREMENT is written into their definitions, which changes nothing of what is stored
(https://www.sqlite.org/lang_altertable.html#otheralter).

Revision: 0008, after 0007.
"""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

REUSED, UNIQUE = "PRIMARY KEY (id)", "PRIMARY KEY (id AUTOINCREMENT)"
#: SQLITE_DBCONFIG_DEFENSIVE: on in some builds of SQLite, as Apple's; it can be set from Python 3.12 on.
DEFENSIVE = 1010
#: The columns that hold numbers of each table's rows, where no foreign key sees that the row exists.
REFERENCES: dict[str, list[tuple[str, str]]] = {
    "ibi_archive": [],
    "ibi_item": [
        ("ibi_import", "newest_item"),
        ("ibi_import_line", "item_id"),
        ("ibi_translation_group", "head_item_id"),
    ],
}


def upgrade() -> None:
    """Write AUTOINCREMENT into the definitions; the numbers go on from the highest one known."""
    connection = op.get_bind()
    if connection.dialect.name != "sqlite":
        return
    rewrite(REUSED, UNIQUE)
    for table, references in REFERENCES.items():
        numbers = " UNION ALL ".join(
            f"SELECT max({column}) AS number FROM {name}"
            for name, column in [(table, "id"), *references]
        )
        # the last one is there if the tables were at this revision before
        known = f"SELECT seq FROM sqlite_sequence WHERE name = '{table}'"
        number = connection.exec_driver_sql(
            f"SELECT coalesce(max(number), 0) FROM ({numbers} UNION ALL {known})"
        ).scalar_one()
        op.execute(f"DELETE FROM sqlite_sequence WHERE name = '{table}'")
        op.execute(f"INSERT INTO sqlite_sequence (name, seq) VALUES ('{table}', {number})")


def downgrade() -> None:
    """Take it out again; the highest numbers stay known, for the next upgrade."""
    if op.get_bind().dialect.name == "sqlite":
        rewrite(UNIQUE, REUSED)


def rewrite(before: str, after: str) -> None:
    """Replace a text in the definitions of the tables, and let SQLite read them anew."""
    connection = op.get_bind()
    driver = connection.connection.dbapi_connection
    protected = hasattr(driver, "getconfig") and driver.getconfig(DEFENSIVE)
    if protected:
        driver.setconfig(DEFENSIVE, False)
    version = connection.exec_driver_sql("PRAGMA schema_version").scalar_one()
    connection.exec_driver_sql("PRAGMA writable_schema = ON")
    for table in REFERENCES:
        connection.exec_driver_sql(
            "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE type = 'table' AND name = ?",
            (before, after, table),
        )
    connection.exec_driver_sql(f"PRAGMA schema_version = {version + 1}")
    connection.exec_driver_sql("PRAGMA writable_schema = RESET")
    if protected:
        driver.setconfig(DEFENSIVE, True)
