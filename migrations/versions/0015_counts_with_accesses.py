"""Daily counts that always include all accesses, so that no table names the newest counted one.

Revision: 0015, after 0014.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
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
COUNTED = "(SELECT max(newest) FROM ibi_counted_accesses)"
ALL = "(SELECT max(id) FROM ibi_access)"


def upgrade() -> None:
    """Count the accesses that are not counted yet, and drop the table."""
    day = DAYS[op.get_bind().dialect.name]
    for role, item in ITEMS.items():
        for sign, newest in (("-", COUNTED), ("", ALL)):
            op.execute(ADD.format(sign=sign, role=role, item=item, day=day, newest=newest))
    op.execute("DELETE FROM ibi_archive_access_count")
    op.execute(
        "INSERT INTO ibi_archive_access_count"
        " (archive_id, day, content_type, accesses, double_clicks, robots)"
        " SELECT archive_id, day, content_type, SUM(accesses), SUM(double_clicks), SUM(robots)"
        " FROM ibi_access_count WHERE role = 'asked' GROUP BY archive_id, day, content_type"
    )
    op.drop_table("ibi_counted_accesses")


def downgrade() -> None:
    """Create the table. All accesses are counted."""
    op.create_table(
        "ibi_counted_accesses",
        sa.Column("row_no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("newest", KEY, nullable=False),
        sa.CheckConstraint("row_no = 1", name="ck_ibi_counted_accesses_row"),
        sa.PrimaryKeyConstraint("row_no"),
    )
    op.execute(
        "INSERT INTO ibi_counted_accesses (row_no, newest)"
        " SELECT 1, id FROM ibi_access ORDER BY id DESC LIMIT 1"
    )
