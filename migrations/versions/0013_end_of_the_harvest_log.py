"""The end of the harvest log: no later change has an earlier datestamp.

The logs that exist end at their last change.

Revision: 0013, after 0012.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "ibi_harvest_end",
        sa.Column("archive_id", KEY, primary_key=True, autoincrement=False),
        sa.Column("datestamp", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["archive_id"],
            ["ibi_archive.id"],
            name="fk_ibi_harvest_end_archive",
            ondelete="CASCADE",
        ),
    )
    op.execute(
        "INSERT INTO ibi_harvest_end (archive_id, datestamp)"
        " SELECT archive_id, max(datestamp) FROM ibi_harvest WHERE datestamp IS NOT NULL"
        " GROUP BY archive_id"
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("ibi_harvest_end")
