"""Adds many items to an Archive with a few SQL statements."""

from __future__ import annotations

from sqlalchemy import text

from flask_ibi_archive.archive.archive import Archive

NUMBERS = {
    "sqlite": (
        "(WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT :count)"
        " SELECT n FROM c)"
    ),
    "postgresql": "generate_series(1, CAST(:count AS integer)) AS n",
}
MOMENT = {"sqlite": "'2013-09-04 12:27:57.000000'", "postgresql": "'2013-09-04 12:27:57+00'"}
ITEMS = """
    INSERT INTO ibi_item (archive_id, rep, state, timestamp)
    SELECT :archive, 'a.br/more/2001/01.01.00.00.00.' || n, 'Original', {moment} FROM {numbers}
"""
IDENTIFIERS = """
    INSERT INTO ibi_identifier (text, archive_id, item_id, state, form)
    SELECT rep, archive_id, id, state, 'rep' FROM ibi_item WHERE rep LIKE 'a.br/more/%'
"""
# their digests are never asked for: only their number counts
DIGESTS = {
    "sqlite": "lower(hex(randomblob(32)))",
    "postgresql": "encode(sha256(CAST(CAST(id AS text) AS bytea)), 'hex')",
}
ALIASES = """
    INSERT INTO ibi_same_as (digest, archive_id, item_id, position, text)
    SELECT {digest}, archive_id, id, 0, 'hdl:1/' || id FROM ibi_item WHERE rep LIKE 'a.br/more/%'
"""


def add_items(archive: Archive, count: int) -> None:
    """Add items without relations."""
    dialect = archive.database.engine.dialect.name
    items = ITEMS.format(moment=MOMENT[dialect], numbers=NUMBERS[dialect])
    served = archive.served().id
    with archive.database.writing() as connection:
        connection.execute(text(items), {"archive": served, "count": count})
        connection.execute(text(IDENTIFIERS))
    if dialect == "postgresql":
        with archive.database.reading() as connection:
            connection.execute(text("ANALYZE ibi_item, ibi_identifier"))


def add_aliases(archive: Archive) -> None:
    """Add an alias to each of the items of :func:`add_items`."""
    dialect = archive.database.engine.dialect.name
    with archive.database.writing() as connection:
        connection.execute(text(ALIASES.format(digest=DIGESTS[dialect])))
    if dialect == "postgresql":
        with archive.database.reading() as connection:
            connection.execute(text("ANALYZE ibi_same_as"))
