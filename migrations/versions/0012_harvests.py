"""The harvest log for OAI-PMH, and the order of the lists for crawlers.

All items begin as changed items, in the order of their timestamps. A trigger notes later changes.

Revision: 0012, after 0011.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)
TRIGGER = "tr_ibi_item_changed"
INDEX = "ix_ibi_item_timestamp"
NOTE = "INSERT INTO ibi_changed_item (archive_id, item_id) VALUES (NEW.archive_id, NEW.id);"


def upgrade() -> None:
    """Create the tables, the index and the trigger, and note all items as changed."""
    op.create_index(INDEX, "ibi_item", ["archive_id", "timestamp", "id"])
    op.create_table(
        "ibi_changed_item",
        sa.Column("id", KEY, primary_key=True, autoincrement=True),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("item_id", KEY, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_ibi_changed_item_archive", "ibi_changed_item", ["archive_id", "id"])
    op.create_table(
        "ibi_harvest",
        sa.Column("item_id", KEY, primary_key=True, autoincrement=False),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("change_no", sa.BigInteger()),
        sa.Column("datestamp", MOMENT),
        sa.Column("is_deleted", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(
            ["item_id", "archive_id"],
            ["ibi_item.id", "ibi_item.archive_id"],
            name="fk_ibi_harvest_item",
            ondelete="CASCADE",
        ),
        sa.CheckConstraint(
            "(change_no IS NULL) = (datestamp IS NULL)", name="ck_ibi_harvest_datestamp"
        ),
        sa.UniqueConstraint("archive_id", "datestamp", "change_no", name="uq_ibi_harvest_change"),
    )
    op.create_table(
        "ibi_harvest_set",
        sa.Column("item_id", KEY, primary_key=True, autoincrement=False),
        sa.Column("set_spec", sa.String(255), primary_key=True),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("change_no", sa.BigInteger(), nullable=False),
        sa.Column("datestamp", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["item_id"],
            ["ibi_harvest.item_id"],
            name="fk_ibi_harvest_set_item",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "ix_ibi_harvest_set_change",
        "ibi_harvest_set",
        ["archive_id", "set_spec", "datestamp", "change_no"],
    )
    op.execute(
        "INSERT INTO ibi_changed_item (archive_id, item_id)"
        " SELECT archive_id, id FROM ibi_item ORDER BY timestamp, id"
    )
    if op.get_bind().dialect.name == "sqlite":
        for event in ("INSERT", "UPDATE"):
            op.execute(
                f"CREATE TRIGGER {TRIGGER}_{event.lower()} AFTER {event} ON ibi_item"
                f" BEGIN {NOTE} END"
            )
        return
    op.execute(
        f"CREATE FUNCTION {TRIGGER}() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {NOTE} RETURN NULL; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {TRIGGER} AFTER INSERT OR UPDATE ON ibi_item"
        f" FOR EACH ROW EXECUTE FUNCTION {TRIGGER}()"
    )


def downgrade() -> None:
    """Drop the trigger, the tables and the index."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute(f"DROP TRIGGER IF EXISTS {TRIGGER}_insert")
        op.execute(f"DROP TRIGGER IF EXISTS {TRIGGER}_update")
    else:
        op.execute(f"DROP FUNCTION {TRIGGER}() CASCADE")
    for table in ("ibi_harvest_set", "ibi_harvest", "ibi_changed_item"):
        op.drop_table(table)
    op.drop_index(INDEX, table_name="ibi_item")
