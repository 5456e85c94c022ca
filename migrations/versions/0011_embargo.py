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
    """Drop the column and its constraint. All embargoes end."""
    op.execute("ALTER TABLE ibi_item DROP COLUMN embargo")
