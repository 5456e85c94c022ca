"""Daily counts that include all accesses up to one, also as sums of an Archive.

Revision: 0009, after 0008.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

DAYS = {
    "sqlite": "date(second, 'unixepoch')",
    "postgresql": "DATE '1970-01-01' + CAST(second / 86400 AS integer)",
}
#: The item that an access is counted for, by its role in the access.
ITEMS = {"asked": "item_id", "delivered": "delivered_item_id"}
#: Adds the accesses up to an id to the counts of their items, or subtracts them.
ADD = """
    INSERT INTO ibi_access_count
           (item_id, role, day, content_type, archive_id, accesses, double_clicks, robots)
    SELECT item, '{role}', day, content_type, archive_id,
           {sign} SUM(CASE WHEN robot OR gap <= 30 THEN 0 ELSE 1 END),
           {sign} SUM(CASE WHEN NOT robot AND gap <= 30 THEN 1 ELSE 0 END),
           {sign} SUM(CASE WHEN robot THEN 1 ELSE 0 END)
      FROM (SELECT {item} AS item, archive_id, {day} AS day, content_type, robot,
                   COALESCE(LEAD(second) OVER (PARTITION BY {item}, content_type, robot, visitor
                                               ORDER BY second, id) - second, 99) AS gap
              FROM ibi_access
             WHERE {item} IS NOT NULL AND id <= {newest}) told
     WHERE true
     GROUP BY item, day, content_type, archive_id
        ON CONFLICT (item_id, role, day, content_type) DO UPDATE
       SET accesses = ibi_access_count.accesses + excluded.accesses,
           double_clicks = ibi_access_count.double_clicks + excluded.double_clicks,
           robots = ibi_access_count.robots + excluded.robots
"""
NEWEST = "(SELECT max(newest) FROM ibi_counted_accesses)"
INDEXES = (("ix_ibi_access_item", "item_id"), ("ix_ibi_access_delivered", "delivered_item_id"))


def upgrade() -> None:
    """Create the tables, and count the accesses that are there."""
    op.create_table(
        "ibi_archive_access_count",
        sa.Column("archive_id", KEY, autoincrement=False, nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("content_type", sa.String(length=8), nullable=False),
        sa.Column("accesses", sa.BigInteger(), nullable=False),
        sa.Column("double_clicks", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("robots", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "content_type IN ('Data', 'Metadata')", name="ck_ibi_archive_access_count_content_type"
        ),
        sa.ForeignKeyConstraint(
            ["archive_id"], ["ibi_archive.id"], name="fk_ibi_archive_access_count_archive"
        ),
        sa.PrimaryKeyConstraint("archive_id", "day", "content_type"),
    )
    op.create_table(
        "ibi_counted_accesses",
        sa.Column("row_no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("newest", KEY, nullable=False),
        sa.CheckConstraint("row_no = 1", name="ck_ibi_counted_accesses_row"),
        sa.PrimaryKeyConstraint("row_no"),
    )
    _index("visitor", "second")
    op.execute(
        "INSERT INTO ibi_counted_accesses (row_no, newest)"
        " SELECT 1, id FROM ibi_access ORDER BY id DESC LIMIT 1"
    )
    _add("")
    op.execute(
        "INSERT INTO ibi_archive_access_count"
        " (archive_id, day, content_type, accesses, double_clicks, robots)"
        " SELECT archive_id, day, content_type, SUM(accesses), SUM(double_clicks), SUM(robots)"
        " FROM ibi_access_count WHERE role = 'asked' GROUP BY archive_id, day, content_type"
    )


def downgrade() -> None:
    """Take the accesses that are still there out of the counts, and drop the tables."""
    _add("-")
    op.execute(
        "DELETE FROM ibi_access_count WHERE accesses = 0 AND double_clicks = 0 AND robots = 0"
    )
    _index("second")
    op.drop_table("ibi_counted_accesses")
    op.drop_table("ibi_archive_access_count")


def _add(sign: str) -> None:
    day = DAYS[op.get_bind().dialect.name]
    for role, item in ITEMS.items():
        op.execute(ADD.format(sign=sign, role=role, item=item, day=day, newest=NEWEST))


def _index(*columns: str) -> None:
    for name, item in INDEXES:
        op.drop_index(name, table_name="ibi_access")
        op.create_index(name, "ibi_access", [item, *columns], unique=False)
