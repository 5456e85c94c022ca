"""The tables of claims, and the triggers that note the changes of items.

The triggers note nothing for an Archive that has no log, or whose log is paused. A log begins with
all items (``flask ibi init``).

Revision: ibi_0002.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "ibi_0002"
down_revision = "ibi_0001"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)
#: The new tables, in the order in which they are created.
TABLES = ("ibi_claim_log", "ibi_claim_note", "ibi_claim", "ibi_claim_tile")

NOTE = (
    "INSERT INTO ibi_claim_note (archive_id, item_id, change_no, state, rep, ibip, timestamp,"
    " original_archive, aliases, sha256, is_hidden)"
)
COLUMNS = "{0}.state, {0}.rep, {0}.ibip, {0}.timestamp, {0}.original_archive"
HIDDEN = "coalesce({}.access_others, '') = 'none'"
#: On PostgreSQL, transactions are numbered. On SQLite, the operations count themselves.
CHANGE = {"sqlite": "log.change_no", "postgresql": "txid_current()"}
TO_JSON = {"sqlite": "json_group_array(text)", "postgresql": "CAST(json_agg(text) AS text)"}
ALIASES = """(SELECT {} FROM (
        SELECT text FROM ibi_identifier WHERE item_id = item.id AND alias_no > 0
        UNION ALL SELECT text FROM ibi_same_as WHERE item_id = item.id
    ) AS alias)"""
SHA256 = "(SELECT sha256 FROM ibi_file WHERE item_id = item.id AND path = item.target_path)"
IS_NOT_PAUSED = "coalesce(log.covered, 0) <> -2"
LOG = f"JOIN ibi_claim_log log ON log.archive_id = item.archive_id AND {IS_NOT_PAUSED}"

#: The columns of an item that are claimed, or say whether and which file.
WATCHED = (
    "archive_id",
    "state",
    "rep",
    "ibip",
    "timestamp",
    "original_archive",
    "target_path",
    "access_others",
)


def note_items(dialect: str, items: str, condition: str) -> str:
    """Return the statement that notes items with all that is claimed of them.

    :param items: the FROM clause, in which the items have the name ``item``.
    """
    aliases = ALIASES.format(TO_JSON[dialect])
    return (
        f"{NOTE} SELECT item.archive_id, item.id, {CHANGE[dialect]}, {COLUMNS.format('item')},"
        f" {aliases}, {SHA256}, {HIDDEN.format('item')} FROM {items} {LOG}"
        f" WHERE item.state <> 'Elsewhere' AND {condition} ORDER BY item.id;"
    )


def sqlite_triggers() -> dict[str, str]:
    """Return the triggers of SQLite by their names."""

    def note_part(row: str, condition: str = "1") -> str:
        return note_items("sqlite", "ibi_item item", f"item.id = {row}.item_id AND {condition}")

    # The rows of a new item follow it. If it has a target file, the row of that file notes it.
    new_item = (
        f"{NOTE} SELECT NEW.archive_id, NEW.id, log.change_no, {COLUMNS.format('NEW')}, NULL, NULL,"
        f" {HIDDEN.format('NEW')} FROM ibi_claim_log log"
        f" WHERE log.archive_id = NEW.archive_id AND {IS_NOT_PAUSED};"
    )
    changed = " OR ".join(f"NEW.{name} IS NOT OLD.{name}" for name in WATCHED)
    moved_alias = (
        "(OLD.alias_no > 0 OR NEW.alias_no > 0) AND (NEW.text <> OLD.text"
        " OR NEW.item_id <> OLD.item_id OR (NEW.alias_no > 0) <> (OLD.alias_no > 0))"
    )
    changed_file = "NEW.path <> OLD.path OR NEW.sha256 IS NOT OLD.sha256"
    return {
        "tr_ibi_claim_item_insert": "AFTER INSERT ON ibi_item"
        f" WHEN NEW.state <> 'Elsewhere' AND NEW.target_path IS NULL BEGIN {new_item} END",
        "tr_ibi_claim_item_update": f"AFTER UPDATE OF {', '.join(WATCHED)} ON ibi_item"
        f" WHEN {changed} BEGIN {note_items('sqlite', 'ibi_item item', 'item.id = NEW.id')} END",
        "tr_ibi_claim_identifier_insert": "AFTER INSERT ON ibi_identifier"
        f" WHEN NEW.alias_no > 0 BEGIN {note_part('NEW')} END",
        "tr_ibi_claim_identifier_update": "AFTER UPDATE OF text, item_id, alias_no"
        f" ON ibi_identifier WHEN {moved_alias} BEGIN {note_part('NEW')} END",
        "tr_ibi_claim_identifier_delete": "AFTER DELETE ON ibi_identifier"
        f" WHEN OLD.alias_no > 0 BEGIN {note_part('OLD')} END",
        "tr_ibi_claim_same_as_insert": f"AFTER INSERT ON ibi_same_as BEGIN {note_part('NEW')} END",
        "tr_ibi_claim_same_as_update": "AFTER UPDATE OF text, item_id ON ibi_same_as"
        f" BEGIN {note_part('NEW')} END",
        "tr_ibi_claim_same_as_delete": f"AFTER DELETE ON ibi_same_as BEGIN {note_part('OLD')} END",
        "tr_ibi_claim_file_insert": "AFTER INSERT ON ibi_file"
        f" BEGIN {note_part('NEW', 'item.target_path = NEW.path')} END",
        "tr_ibi_claim_file_update": "AFTER UPDATE OF path, sha256 ON ibi_file"
        f" WHEN {changed_file}"
        f" BEGIN {note_part('NEW', 'item.target_path IN (OLD.path, NEW.path)')} END",
        "tr_ibi_claim_file_delete": "AFTER DELETE ON ibi_file WHEN OLD.sha256 IS NOT NULL"
        f" BEGIN {note_part('OLD', 'item.target_path = OLD.path')} END",
    }


def postgresql_functions() -> dict[str, str]:
    """Return the functions of PostgreSQL by their names.

    A function notes all rows of a statement at once, which the triggers call "changed".
    """

    def note_parts(condition: str) -> str:
        # OFFSET 0 lets PostgreSQL find each item by its id, whatever it expects of the tables
        return (
            f"(SELECT DISTINCT item_id, {condition} FROM changed) AS part CROSS JOIN LATERAL"
            " (SELECT * FROM ibi_item WHERE id = part.item_id OFFSET 0) AS item"
        )

    new, old = (", ".join(f"{row}.{name}" for name in WATCHED) for row in ("item", "before"))
    new_items = (
        f"{NOTE} SELECT item.archive_id, item.id, txid_current(), {COLUMNS.format('item')}, NULL,"
        f" NULL, {HIDDEN.format('item')} FROM changed item {LOG}"
        " WHERE item.state <> 'Elsewhere' AND item.target_path IS NULL ORDER BY item.id;"
    )
    return {
        "tr_ibi_claim_item_insert": new_items,
        "tr_ibi_claim_item_update": note_items(
            "postgresql",
            "changed item JOIN before ON before.id = item.id",
            f"({new}) IS DISTINCT FROM ({old})",
        ),
        "tr_ibi_claim_identifier": note_items(
            "postgresql", note_parts("alias_no > 0 AS is_alias"), "part.is_alias"
        ),
        "tr_ibi_claim_same_as": note_items("postgresql", note_parts("true AS is_alias"), "true"),
        "tr_ibi_claim_file": note_items(
            "postgresql", note_parts("path"), "part.path = item.target_path"
        ),
    }


def postgresql_triggers() -> dict[str, str]:
    """Return the triggers of PostgreSQL, each with its function, by their names."""
    new, old = "REFERENCING NEW TABLE AS changed", "REFERENCING OLD TABLE AS changed"
    both = "REFERENCING OLD TABLE AS before NEW TABLE AS changed"
    triggers = {
        "tr_ibi_claim_item_insert": ("INSERT", new, "item", "tr_ibi_claim_item_insert"),
        "tr_ibi_claim_item_update": ("UPDATE", both, "item", "tr_ibi_claim_item_update"),
    }
    for part in ("identifier", "same_as", "file"):
        for event, rows in (("INSERT", new), ("UPDATE", new), ("DELETE", old)):
            name = f"tr_ibi_claim_{part}"
            triggers[f"{name}_{event.lower()}"] = event, rows, part, name
    return {
        name: f"AFTER {event} ON ibi_{table} {rows} FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
        for name, (event, rows, table, function) in triggers.items()
    }


def upgrade() -> None:
    """Create the tables and the triggers."""
    op.create_table(
        "ibi_claim_log",
        sa.Column("archive_id", KEY, autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("size", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("frontier", sa.Text(), nullable=False),
        sa.Column("begun_at", MOMENT, nullable=False),
        sa.Column("key_at", MOMENT, nullable=False),
        sa.Column("covered", KEY),
        sa.Column("changes", sa.Text()),
        sa.Column("change_no", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint("number > 0 AND size >= 0", name="ck_ibi_claim_log_size"),
        sa.ForeignKeyConstraint(
            ["archive_id"], ["ibi_archive.id"], name="fk_ibi_claim_log_archive"
        ),
        sa.PrimaryKeyConstraint("archive_id"),
    )
    op.create_table(
        "ibi_claim_note",
        sa.Column("id", KEY, primary_key=True, autoincrement=True),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("item_id", KEY, nullable=False),
        sa.Column("change_no", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(9), nullable=False),
        sa.Column("rep", sa.String(255)),
        sa.Column("ibip", sa.String(255)),
        sa.Column("timestamp", MOMENT, nullable=False),
        sa.Column("original_archive", sa.String(255)),
        sa.Column("aliases", sa.Text()),
        sa.Column("sha256", sa.String(64)),
        sa.Column("is_hidden", sa.Boolean(), server_default=sa.false(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_ibi_claim_note_archive", "ibi_claim_note", ["archive_id", "id"])
    op.create_table(
        "ibi_claim",
        sa.Column("archive_id", KEY, autoincrement=False, nullable=False),
        sa.Column("log_number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ibi", sa.String(255), nullable=False),
        sa.Column("entry", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["archive_id"], ["ibi_archive.id"], name="fk_ibi_claim_archive"),
        sa.PrimaryKeyConstraint("archive_id", "log_number", "position"),
    )
    op.create_index(
        "ix_ibi_claim_ibi", "ibi_claim", ["ibi", "archive_id", "log_number", "position"]
    )
    op.create_table(
        "ibi_claim_tile",
        sa.Column("archive_id", KEY, autoincrement=False, nullable=False),
        sa.Column("log_number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("level", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("root", sa.String(64), nullable=False),
        sa.ForeignKeyConstraint(
            ["archive_id"], ["ibi_archive.id"], name="fk_ibi_claim_tile_archive"
        ),
        sa.PrimaryKeyConstraint("archive_id", "log_number", "level", "number"),
    )
    if op.get_bind().dialect.name == "sqlite":
        for name, body in sqlite_triggers().items():
            op.execute(sa.DDL(f"CREATE TRIGGER {name} {body}"))
        return
    for name, body in postgresql_functions().items():
        op.execute(
            sa.DDL(
                f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS"
                f" $$ BEGIN {body} RETURN NULL; END $$"
            )
        )
    for name, body in postgresql_triggers().items():
        op.execute(sa.DDL(f"CREATE TRIGGER {name} {body}"))


def downgrade() -> None:
    """Drop the triggers and the tables."""
    if op.get_bind().dialect.name == "sqlite":
        for name in sqlite_triggers():
            op.execute(sa.DDL(f"DROP TRIGGER {name}"))
    else:
        for name in postgresql_functions():
            op.execute(sa.DDL(f"DROP FUNCTION {name}() CASCADE"))
    for table in reversed(TABLES):
        op.drop_table(table)
