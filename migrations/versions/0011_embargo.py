"""The embargo of an item: the first day (UTC) on which readers may read its files.

Revision: 0011, after 0010.
"""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column with its constraint."""
    # one statement for both databases: SQLite then need not create the table and its triggers again
    op.execute(
        "ALTER TABLE ibi_item ADD COLUMN embargo DATE CONSTRAINT ck_ibi_item_embargo"
        " CHECK (embargo IS NULL OR (state <> 'Elsewhere' AND NOT is_service))"
    )


def downgrade() -> None:
    """Drop the column and its constraint.

    No earlier version knows embargoes. Therefore the files of items under embargo are restricted to
    a network in which nobody is; otherwise the downgrade would publish these files.
    """
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    today = "CURRENT_DATE" if is_sqlite else "CAST(CURRENT_TIMESTAMP AT TIME ZONE 'UTC' AS DATE)"
    op.execute(
        "UPDATE ibi_item SET access_networks = '192.0.2.0/32',"
        f" access_others = coalesce(access_others, 'metadata') WHERE embargo > {today}"
    )
    op.execute("ALTER TABLE ibi_item DROP COLUMN embargo")
