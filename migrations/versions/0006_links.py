"""Addresses elsewhere that items lead to.

Revision: 0006, after 0005.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "ibi_link",
        sa.Column("archive_id", KEY, autoincrement=False, nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("checked_at", MOMENT, nullable=False),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("failing_since", MOMENT, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("noticed_at", MOMENT, nullable=True),
        sa.CheckConstraint(
            "(failures = 0) = (failing_since IS NULL) AND (failures = 0) = (error IS NULL)",
            name="ck_ibi_link_error",
        ),
        sa.CheckConstraint("failures >= 0", name="ck_ibi_link_failures"),
        sa.ForeignKeyConstraint(["archive_id"], ["ibi_archive.id"], name="fk_ibi_link_archive"),
        sa.PrimaryKeyConstraint("archive_id", "digest"),
    )


def downgrade() -> None:
    """Take them out."""
    op.drop_table("ibi_link")
