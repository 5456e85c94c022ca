"""Tombstones of removed items, identifiers held for drafts.

Revision: 0002, after 0001.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "ibi_tombstone",
        sa.Column("item_id", KEY, autoincrement=False, nullable=False),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("state", sa.String(length=9), server_default="Deleted", nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("citation", sa.Text(), nullable=True),
        sa.Column("successor", sa.String(length=255), nullable=True),
        sa.CheckConstraint("state = 'Deleted'", name="ck_ibi_tombstone_state"),
        sa.ForeignKeyConstraint(
            ["item_id", "archive_id", "state"],
            ["ibi_item.id", "ibi_item.archive_id", "ibi_item.state"],
            name="fk_ibi_tombstone_item",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("item_id"),
    )

    op.create_table(
        "ibi_reservation",
        sa.Column("rep", sa.String(length=255), nullable=False),
        sa.Column("ibip", sa.String(length=255), nullable=False),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("status", sa.String(length=8), server_default="held", nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("reserved_at", MOMENT, nullable=False),
        sa.Column("settled_at", MOMENT, nullable=True),
        sa.CheckConstraint(
            "status IN ('held', 'used', 'released')", name="ck_ibi_reservation_status"
        ),
        sa.ForeignKeyConstraint(
            ["archive_id"], ["ibi_archive.id"], name="fk_ibi_reservation_archive"
        ),
        sa.PrimaryKeyConstraint("rep"),
        sa.UniqueConstraint("ibip", name="uq_ibi_reservation_ibip"),
    )

    op.create_index(
        "ix_ibi_reservation_archive",
        "ibi_reservation",
        ["archive_id", "status", "reserved_at"],
        unique=False,
    )


def downgrade() -> None:
    """Take them out."""
    op.drop_table("ibi_reservation")
    op.drop_table("ibi_tombstone")
